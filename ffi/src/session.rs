//! Leases and transactions: connections that one caller has for himself.
//!
//! A handle of one may be used by many operations at once, and ended by one: what was submitted before the end runs before
//! it, what comes later is told that it is closed.

use std::ffi::c_void;
use std::sync::Arc;

use cenote_mysql as mysql;
use cenote_postgres as postgres;
use tokio::sync::RwLock;

use crate::context::Context;
use crate::error::ErrorObject;
use crate::guard::{Entry, entry, leaf};
use crate::handles;
use crate::operation::{self, Outcome};
use crate::pool::{self, Database};
use crate::status::{CENOTE_ERR_ARGUMENT, CENOTE_ERR_CLOSED, CENOTE_ERR_HANDLE};

/// The server's own isolation level.
pub const CENOTE_ISOLATION_DEFAULT: i32 = 0;
/// READ UNCOMMITTED (MySQL; Postgres has none).
pub const CENOTE_ISOLATION_READ_UNCOMMITTED: i32 = 1;
/// READ COMMITTED.
pub const CENOTE_ISOLATION_READ_COMMITTED: i32 = 2;
/// REPEATABLE READ.
pub const CENOTE_ISOLATION_REPEATABLE_READ: i32 = 3;
/// SERIALIZABLE.
pub const CENOTE_ISOLATION_SERIALIZABLE: i32 = 4;

/// The transaction reads only.
pub const CENOTE_TRANSACTION_READ_ONLY: u32 = 1;
/// Postgres: it may wait at its beginning so that it never fails (with SERIALIZABLE and READ_ONLY).
pub const CENOTE_TRANSACTION_DEFERRABLE: u32 = 2;
/// MySQL: its snapshot is taken at once.
pub const CENOTE_TRANSACTION_SNAPSHOT: u32 = 4;

/// A lease or a transaction of either database.
pub(crate) enum Held {
    PostgresLease(postgres::Lease),
    PostgresTransaction(postgres::Transaction<'static>),
    MySqlLease(mysql::Lease),
    MySqlTransaction(mysql::Transaction<'static>),
}

#[derive(Clone)]
enum Canceller {
    Postgres(postgres::Canceller),
    MySql(mysql::Canceller),
}

/// What a session's handle stands for.
pub(crate) struct Session {
    /// `None` once it was ended. A query holds it for reading, its end for writing; both in the order they came.
    pub(crate) held: Arc<RwLock<Option<Held>>>,
    canceller: Canceller,
    is_transaction: bool,
    /// The handle of the context it ends with.
    pub(crate) owner: u64,
}

impl Session {
    pub(crate) fn new(held: Held) -> Session {
        let canceller = match &held {
            Held::PostgresLease(lease) => Canceller::Postgres(lease.canceller()),
            Held::PostgresTransaction(transaction) => Canceller::Postgres(transaction.canceller()),
            Held::MySqlLease(lease) => Canceller::MySql(lease.canceller()),
            Held::MySqlTransaction(transaction) => Canceller::MySql(transaction.canceller()),
        };
        let is_transaction = matches!(held, Held::PostgresTransaction(_) | Held::MySqlTransaction(_));
        Session { held: Arc::new(RwLock::new(Some(held))), canceller, is_transaction, owner: 0 }
    }
}

/// The session was ended meanwhile.
pub(crate) fn ended() -> Box<ErrorObject> {
    Box::new(ErrorObject::new(CENOTE_ERR_CLOSED, "the lease or transaction has ended already"))
}

/// Takes a lease: a connection for the caller alone. The completion has its handle in `handle`, to be freed; until then
/// nobody else has the connection. Freed, it goes back to the pool as it came.
///
/// The context's thread, leaf-safe.
#[unsafe(no_mangle)]
pub extern "C" fn cenote_lease(context: u64, pool: u64, tag: u64) -> i32 {
    leaf("cenote_lease", || {
        let context = handles::get::<Context>(context)?;
        let database = pool::database(pool)?;
        context.submit(
            tag,
            Box::pin(async move {
                let held = match database {
                    Database::Postgres(pool) => {
                        pool.lease().await.map(Held::PostgresLease).map_err(operation::postgres)
                    }
                    Database::MySql(pool) => pool.lease().await.map(Held::MySqlLease).map_err(operation::mysql),
                };
                held.map_or_else(|failed| failed, |held| Outcome::Session(Session::new(held)))
            }),
        )
    })
}

/// Begins a transaction on a connection of its own. `isolation` is one of `CENOTE_ISOLATION_*`, `flags` are
/// `CENOTE_TRANSACTION_*` together. The completion has its handle in `handle`, to be committed, rolled back or freed, which
/// rolls it back. It costs no round trip: it begins with its first statement.
///
/// The context's thread, leaf-safe.
#[unsafe(no_mangle)]
pub extern "C" fn cenote_begin(context: u64, pool: u64, isolation: i32, flags: u32, tag: u64) -> i32 {
    leaf("cenote_begin", || {
        let context = handles::get::<Context>(context)?;
        let work: crate::context::Work = match pool::database(pool)? {
            Database::Postgres(pool) => {
                let options = postgres_options(isolation, flags)?;
                Box::pin(async move {
                    let begun = pool.begin_with(options).await.map(Held::PostgresTransaction);
                    begun.map_or_else(operation::postgres, |held| Outcome::Session(Session::new(held)))
                })
            }
            Database::MySql(pool) => {
                let options = mysql_options(isolation, flags)?;
                Box::pin(async move {
                    let begun = pool.begin_with(options).await.map(Held::MySqlTransaction);
                    begun.map_or_else(operation::mysql, |held| Outcome::Session(Session::new(held)))
                })
            }
        };
        context.submit(tag, work)
    })
}

/// Commits a transaction. Its handle stands for nothing from here on, whatever comes of it.
///
/// The context's thread, leaf-safe.
#[unsafe(no_mangle)]
pub extern "C" fn cenote_commit(context: u64, transaction: u64, tag: u64) -> i32 {
    leaf("cenote_commit", || end(context, transaction, tag, true))
}

/// Rolls a transaction back. Its handle stands for nothing from here on.
///
/// The context's thread, leaf-safe.
#[unsafe(no_mangle)]
pub extern "C" fn cenote_rollback(context: u64, transaction: u64, tag: u64) -> i32 {
    leaf("cenote_rollback", || end(context, transaction, tag, false))
}

fn end(context: u64, transaction: u64, tag: u64, commits: bool) -> Entry {
    let context = handles::get::<Context>(context)?;
    if !handles::get::<Session>(transaction)?.is_transaction {
        return Err(CENOTE_ERR_HANDLE);
    }
    let session = handles::remove::<Session>(transaction)?;
    if let Ok(owner) = handles::get::<Context>(session.owner) {
        owner.disown_session(transaction);
    }
    context.submit(
        tag,
        Box::pin(async move {
            // Behind what was submitted before.
            let held = session.held.write().await.take();
            match held {
                Some(Held::PostgresTransaction(transaction)) if commits => {
                    transaction.commit().await.map_or_else(operation::postgres, |()| Outcome::Done)
                }
                Some(Held::PostgresTransaction(transaction)) => {
                    transaction.rollback().await.map_or_else(operation::postgres, |()| Outcome::Done)
                }
                Some(Held::MySqlTransaction(transaction)) if commits => {
                    transaction.commit().await.map_or_else(operation::mysql, |()| Outcome::Done)
                }
                Some(Held::MySqlTransaction(transaction)) => {
                    transaction.rollback().await.map_or_else(operation::mysql, |()| Outcome::Done)
                }
                Some(Held::PostgresLease(_) | Held::MySqlLease(_)) | None => Outcome::Failed(ended()),
            }
        }),
    )
}

/// Asks the server to stop what runs in a lease or transaction, and ends when it has heard of it. `value` of the completion: 1,
/// or 0 when there was nothing to stop.
///
/// The context's thread, leaf-safe.
#[unsafe(no_mangle)]
pub extern "C" fn cenote_cancel(context: u64, session: u64, tag: u64) -> i32 {
    leaf("cenote_cancel", || {
        let context = handles::get::<Context>(context)?;
        let canceller = handles::get::<Session>(session)?.canceller.clone();
        context.submit(
            tag,
            Box::pin(async move {
                match canceller {
                    Canceller::Postgres(canceller) => {
                        canceller.cancel().await.map_or_else(operation::postgres, Outcome::Answer)
                    }
                    Canceller::MySql(canceller) => {
                        canceller.cancel().await.map_or_else(operation::mysql, Outcome::Answer)
                    }
                }
            }),
        )
    })
}

/// Gives a lease back, or rolls a transaction back without waiting for it. What runs in it runs to its end first. 0 is none,
/// and is let pass.
///
/// Any thread. The next in line for a lease may be told, so it is no leaf.
#[unsafe(no_mangle)]
pub extern "C" fn cenote_session_free(session: u64) -> i32 {
    entry("cenote_session_free", || match session {
        0 => Ok(()),
        session => free(session),
    })
}

/// The same, as a finaliser of Dart's, whose token is a pointer: the handle's number. A leaf: a finaliser may run while the VM
/// collects, when nothing may be posted from its thread.
#[unsafe(no_mangle)]
pub extern "C" fn cenote_session_finalize(session: *mut c_void) {
    leaf("cenote_session_finalize", || free(session.addr() as u64));
}

fn free(handle: u64) -> Entry {
    let session = handles::remove::<Session>(handle)?;
    if let Ok(owner) = handles::get::<Context>(session.owner) {
        owner.disown_session(handle);
    }
    Ok(())
}

fn postgres_options(isolation: i32, flags: u32) -> Result<postgres::TransactionOptions, i32> {
    use postgres::IsolationLevel::{ReadCommitted, RepeatableRead, Serializable};
    let mut options = postgres::TransactionOptions::new();
    options = match isolation {
        CENOTE_ISOLATION_DEFAULT => options,
        CENOTE_ISOLATION_READ_COMMITTED => options.isolation_level(ReadCommitted),
        CENOTE_ISOLATION_REPEATABLE_READ => options.isolation_level(RepeatableRead),
        CENOTE_ISOLATION_SERIALIZABLE => options.isolation_level(Serializable),
        _ => return Err(CENOTE_ERR_ARGUMENT),
    };
    if flags & !(CENOTE_TRANSACTION_READ_ONLY | CENOTE_TRANSACTION_DEFERRABLE) != 0 {
        return Err(CENOTE_ERR_ARGUMENT);
    }
    if flags & CENOTE_TRANSACTION_READ_ONLY != 0 {
        options = options.read_only(true);
    }
    if flags & CENOTE_TRANSACTION_DEFERRABLE != 0 {
        options = options.deferrable(true);
    }
    Ok(options)
}

fn mysql_options(isolation: i32, flags: u32) -> Result<mysql::TransactionOptions, i32> {
    use mysql::IsolationLevel::{ReadCommitted, ReadUncommitted, RepeatableRead, Serializable};
    let mut options = mysql::TransactionOptions::new();
    options = match isolation {
        CENOTE_ISOLATION_DEFAULT => options,
        CENOTE_ISOLATION_READ_UNCOMMITTED => options.isolation_level(ReadUncommitted),
        CENOTE_ISOLATION_READ_COMMITTED => options.isolation_level(ReadCommitted),
        CENOTE_ISOLATION_REPEATABLE_READ => options.isolation_level(RepeatableRead),
        CENOTE_ISOLATION_SERIALIZABLE => options.isolation_level(Serializable),
        _ => return Err(CENOTE_ERR_ARGUMENT),
    };
    if flags & !(CENOTE_TRANSACTION_READ_ONLY | CENOTE_TRANSACTION_SNAPSHOT) != 0 {
        return Err(CENOTE_ERR_ARGUMENT);
    }
    if flags & CENOTE_TRANSACTION_READ_ONLY != 0 {
        options = options.read_only(true);
    }
    if flags & CENOTE_TRANSACTION_SNAPSHOT != 0 {
        options = options.consistent_snapshot(true);
    }
    Ok(options)
}
