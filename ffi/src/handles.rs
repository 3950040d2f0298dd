//! The table of everything that has a handle. A handle is a place in it and the number of times that place was used
//! before (of two thousand million), so that it means one thing.
//!
//! The table and its keys are `slotmap`'s.

use std::sync::{Arc, PoisonError, RwLock};

use slotmap::{DefaultKey, Key, KeyData, SlotMap};

use crate::block::Block;
use crate::context::Context;
use crate::error::ErrorObject;
use crate::http::HttpServer;
use crate::pool::OpenPool;
use crate::session::Session;
use crate::status::CENOTE_ERR_HANDLE;

/// Something with a handle.
pub(crate) enum Object {
    Context(Arc<Context>),
    Pool(Arc<OpenPool>),
    Session(Arc<Session>),
    Block(Arc<Block>),
    Error(Arc<ErrorObject>),
    Server(Arc<HttpServer>),
}

/// A kind of thing that has handles.
pub(crate) trait Kind: Sized {
    fn into_object(this: Arc<Self>) -> Object;
    fn of(object: &Object) -> Option<&Arc<Self>>;
}

macro_rules! kinds {
    ($($kind:ident($type:ty)),*) => { $(
        impl Kind for $type {
            fn into_object(this: Arc<Self>) -> Object {
                Object::$kind(this)
            }

            fn of(object: &Object) -> Option<&Arc<Self>> {
                match object {
                    Object::$kind(this) => Some(this),
                    _ => None,
                }
            }
        }
    )* };
}

kinds!(Context(Context), Pool(OpenPool), Session(Session), Block(Block), Error(ErrorObject), Server(HttpServer));

static TABLE: RwLock<Option<SlotMap<DefaultKey, Object>>> = RwLock::new(None);

/// A handle for it.
pub(crate) fn insert<K: Kind>(object: Arc<K>) -> u64 {
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    table.get_or_insert_with(SlotMap::new).insert(K::into_object(object)).data().as_ffi()
}

/// What has this handle.
#[inline]
pub(crate) fn get<K: Kind>(handle: u64) -> Result<Arc<K>, i32> {
    let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
    let object = table.as_ref().and_then(|table| table.get(key(handle)?)).and_then(K::of);
    object.map(Arc::clone).ok_or(CENOTE_ERR_HANDLE)
}

/// Takes it out of the table: from here on nothing has this handle.
pub(crate) fn remove<K: Kind>(handle: u64) -> Result<Arc<K>, i32> {
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    let table = table.as_mut().ok_or(CENOTE_ERR_HANDLE)?;
    let key = key(handle).ok_or(CENOTE_ERR_HANDLE)?;
    let object = table.get(key).and_then(K::of).map(Arc::clone).ok_or(CENOTE_ERR_HANDLE)?;
    // What is dropped here is an `Arc` that is not the last.
    table.remove(key);
    Ok(object)
}

/// Takes the results out of the table that were drained from a context.
pub(crate) fn remove_results_of(context: u64) {
    let mut removed = Vec::new();
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    if let (Some(table), true) = (table.as_mut(), context != 0) {
        table.retain(|_, object| match object {
            Object::Block(block) if block.owner() == context => {
                removed.push(Object::Block(Arc::clone(block)));
                false
            }
            Object::Error(error) if error.owner() == context => {
                removed.push(Object::Error(Arc::clone(error)));
                false
            }
            _ => true,
        });
    }
    // Dropped without the lock.
    drop(table);
    drop(removed);
}

/// How many of each kind there are: contexts, pools, sessions, blocks, errors, servers.
pub(crate) fn counts() -> [u64; 6] {
    let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
    let mut counts = [0; 6];
    for object in table.iter().flat_map(SlotMap::values) {
        let [contexts, pools, sessions, blocks, errors, servers] = &mut counts;
        match object {
            Object::Context(_) => *contexts += 1,
            Object::Pool(_) => *pools += 1,
            Object::Session(_) => *sessions += 1,
            Object::Block(_) => *blocks += 1,
            Object::Error(_) => *errors += 1,
            Object::Server(_) => *servers += 1,
        }
    }
    counts
}

/// The key of a handle that was given out; others stand for none.
#[inline]
fn key(handle: u64) -> Option<DefaultKey> {
    let data = KeyData::from_ffi(handle);
    (data.as_ffi() == handle).then(|| data.into())
}
