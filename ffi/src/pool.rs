//! Pools: opened by a URL, counted, and shared by the whole process whichever context opened them.

use std::ffi::{c_char, c_void};
use std::sync::Arc;
use std::time::Duration;

use cenote_pool::PoolStats;

use crate::context::Context;
use crate::error::{ErrorObject, give, text, write_sized};
use crate::fork;
use crate::guard::{Out, entry, leaf};
use crate::handles;
use crate::operation::Outcome;
use crate::status::{CENOTE_ERR_ARGUMENT, CENOTE_ERR_HANDLE};

/// A pool of either database.
#[derive(Clone)]
pub(crate) enum Database {
    Postgres(cenote_postgres::Pool),
    MySql(cenote_mysql::Pool),
}

/// One open of a pool.
pub(crate) struct OpenPool {
    pub(crate) database: Database,
    /// The handle of the context it is closed with; 0: none.
    owner: u64,
}

impl OpenPool {
    /// Takes it from whoever has its handle, and from its context.
    fn take(handle: u64) -> Result<Arc<OpenPool>, i32> {
        let pool = handles::remove::<OpenPool>(handle)?;
        if let Ok(owner) = handles::get::<Context>(pool.owner) {
            owner.disown_pool(handle);
        }
        Ok(pool)
    }
}

/// URLs that begin so are MySQL's.
const MYSQL_SCHEMES: [&str; 2] = ["mysql:", "mariadb:"];

impl Database {
    fn open(url: &str) -> Result<Database, Box<ErrorObject>> {
        let scheme_is = |scheme: &&str| url.get(..scheme.len()).is_some_and(|front| front.eq_ignore_ascii_case(scheme));
        if MYSQL_SCHEMES.iter().any(scheme_is) {
            let pool = cenote_mysql::Pool::open(url);
            return pool.map(Database::MySql).map_err(|error| argument(ErrorObject::mysql(&error)));
        }
        let pool = cenote_postgres::Pool::open(url);
        pool.map(Database::Postgres).map_err(|error| argument(ErrorObject::postgres(&error)))
    }

    fn stats(&self) -> PoolStats {
        match self {
            Database::Postgres(pool) => pool.stats(),
            Database::MySql(pool) => pool.stats(),
        }
    }

    async fn close(&self, deadline: Duration) {
        match self {
            Database::Postgres(pool) => pool.close(deadline).await,
            Database::MySql(pool) => pool.close(deadline).await,
        }
    }
}

/// Settings that cannot be met are an argument's fault, not a statement's.
fn argument(error: ErrorObject) -> Box<ErrorObject> {
    Box::new(error.with_status(CENOTE_ERR_ARGUMENT))
}

/// Opens a pool by a URL, `postgres://` or `mysql://` (a keyword string is Postgres'). Nothing is connected yet. Opens with
/// equal settings share one pool, in the whole process; each is counted, and closed by itself. With a context it is closed
/// with that, else (0) when it is closed or the process ends.
///
/// On failure `*error` is an error's handle, to be freed, if `error` is not NULL.
///
/// Any thread. May read files (certificates), so it is no leaf.
///
/// # Safety
///
/// `url` is to be read for `url_length` bytes; the pointers are NULL or to be written through.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_pool_open(
    context: u64,
    url: *const c_char,
    url_length: usize,
    pool: *mut u64,
    error: *mut u64,
) -> i32 {
    entry("cenote_pool_open", || {
        // SAFETY: by the caller's word.
        let (url, out) = unsafe { (text(url, url_length)?, Out::new(pool)?) };
        let owner = match context {
            0 => None,
            context => Some(handles::get::<Context>(context)?),
        };
        fork::watch();
        let database = match Database::open(url) {
            Ok(database) => database,
            // SAFETY: by the caller's word.
            Err(refusal) => return Err(unsafe { give(error, *refusal) }),
        };
        let handle = handles::insert(Arc::new(OpenPool { database, owner: context }));
        if let Some(Err(status)) = owner.map(|owner| owner.own_pool(handle)) {
            let _ = handles::remove::<OpenPool>(handle);
            return Err(status);
        }
        out.write(handle);
        Ok(())
    })
}

/// Closes this open of a pool: its handle stands for nothing from here on. Whoever was last lets what is in flight finish,
/// for at most `deadline_ms`; then the operation ends, with `CENOTE_OK`.
///
/// The context's thread, leaf-safe.
#[unsafe(no_mangle)]
pub extern "C" fn cenote_pool_close(context: u64, pool: u64, deadline_ms: u32, tag: u64) -> i32 {
    leaf("cenote_pool_close", || {
        let context = handles::get::<Context>(context)?;
        let pool = OpenPool::take(pool)?;
        let deadline = Duration::from_millis(deadline_ms.into());
        context.submit(
            tag,
            Box::pin(async move {
                pool.database.close(deadline).await;
                Outcome::Done
            }),
        )
    })
}

/// Lets go of a pool without waiting: its handle stands for nothing from here on. Whoever was last has it closed when
/// what is in flight has finished.
///
/// Any thread, leaf-safe. 0 is none, and is let pass.
#[unsafe(no_mangle)]
pub extern "C" fn cenote_pool_free(pool: u64) -> i32 {
    leaf("cenote_pool_free", || match pool {
        0 => Ok(()),
        pool => OpenPool::take(pool).map(drop),
    })
}

/// The same, as a finaliser of Dart's, whose token is a pointer: the handle's number.
#[unsafe(no_mangle)]
pub extern "C" fn cenote_pool_finalize(pool: *mut c_void) {
    cenote_pool_free(pool.addr() as u64);
}

/// A pool's counters. Those that count run from its opening and never go back.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct CenotePoolStats {
    /// The size of this struct, by whoever asks.
    pub size: u32,
    /// Nothing.
    pub reserved: u32,
    /// The bound on connections.
    pub connections_max: u64,
    /// Connections that exist or are being made.
    pub connections: u64,
    /// Of these: leased.
    pub leases: u64,
    /// Statements in flight on shared connections.
    pub in_flight: u64,
    /// Callers that wait for room.
    pub waiting: u64,
    /// Callers that wait for a lease.
    pub waiting_for_lease: u64,
    /// Replies received.
    pub replies: u64,
    /// Write system calls.
    pub writes: u64,
    /// Read system calls that brought bytes.
    pub reads: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Connections made.
    pub connects: u64,
    /// Connect attempts that failed.
    pub connect_failures: u64,
    /// Connections that ended before we closed them.
    pub connections_lost: u64,
    /// Leases taken.
    pub leases_taken: u64,
    /// Leases that had to be rolled back or reset when they came back.
    pub leases_restored: u64,
    /// Statements whose connection was lost after they were sent.
    pub lost_after_sent: u64,
}

/// A pool's counters right now. `stats->size` says how much of the struct the caller knows.
///
/// Any thread, leaf-safe.
///
/// # Safety
///
/// `stats` is NULL or a struct of `stats->size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_pool_stats(pool: u64, stats: *mut CenotePoolStats) -> i32 {
    leaf("cenote_pool_stats", || {
        let now = handles::get::<OpenPool>(pool)?.database.stats();
        let told = CenotePoolStats {
            size: size_of::<CenotePoolStats>() as u32,
            reserved: 0,
            connections_max: now.connections_max as u64,
            connections: now.connections() as u64,
            leases: now.leases.len() as u64,
            in_flight: now.in_flight() as u64,
            waiting: now.waiting as u64,
            waiting_for_lease: now.waiting_for_lease as u64,
            replies: now.replies,
            writes: now.writes,
            reads: now.reads,
            bytes_written: now.bytes_written,
            bytes_read: now.bytes_read,
            connects: now.connects,
            connect_failures: now.connect_failures,
            connections_lost: now.connections_lost,
            leases_taken: now.leases_taken,
            leases_restored: now.leases_restored,
            lost_after_sent: now.lost_after_sent,
        };
        // SAFETY: by the caller's word.
        unsafe { write_sized(stats, &told) }
    })
}

/// What has this handle: a pool's database.
pub(crate) fn database(pool: u64) -> Result<Database, i32> {
    handles::get::<OpenPool>(pool).map(|pool| pool.database.clone()).map_err(|_| CENOTE_ERR_HANDLE)
}
