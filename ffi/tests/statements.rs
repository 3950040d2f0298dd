//! Statements by way of the C ABI, on real servers: as a C program would call it.

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "each is a call of the ABI with pointers to what lives here, or a look at what it wrote there"
)]

use std::ptr::{null, null_mut};
use std::thread;
use std::time::{Duration, Instant};

use cenote::block::{CENOTE_BLOCK_MAGIC, CenoteBlock};
use cenote::delivery::{
    CENOTE_COMPLETION_ERROR, CENOTE_COMPLETION_INLINE, CENOTE_COMPLETION_SESSION, CenoteCompletion,
    cenote_context_free, cenote_context_new, cenote_wait,
};
use cenote::pool::{cenote_pool_free, cenote_pool_open};
use cenote::request::cenote_query;
use cenote::session::{cenote_begin, cenote_commit};
use cenote::status::CENOTE_ERR_BUSY;
use cenote::value::{CENOTE_VALUE_INT, CenoteValue};

/// A context of its own thread, and a buffer that it is drained into.
struct Host {
    context: u64,
    buffer: Vec<u64>,
}

impl Host {
    fn new() -> Host {
        let mut context = 0;
        assert_eq!(unsafe { cenote_context_new(null(), &mut context) }, 0);
        Host { context, buffer: vec![0; 8_192] }
    }

    fn open(&self, url: &str) -> u64 {
        let mut pool = 0;
        let status = unsafe { cenote_pool_open(self.context, url.as_ptr().cast(), url.len(), &mut pool, null_mut()) };
        assert_eq!(status, 0, "{url}");
        pool
    }

    fn query(&self, target: u64, sql: &str, values: &[CenoteValue], tag: u64) -> i32 {
        let (context, count) = (self.context, values.len());
        unsafe { cenote_query(context, target, sql.as_ptr().cast(), sql.len(), values.as_ptr(), count, 0, 0, tag) }
    }

    /// The next completions.
    fn wait(&mut self) -> Vec<CenoteCompletion> {
        let (mut count, mut more) = (0, 0);
        let capacity = self.buffer.len() * 8;
        let buffer = self.buffer.as_mut_ptr().cast();
        let status = unsafe { cenote_wait(self.context, 10_000, buffer, capacity, &mut count, &mut more) };
        assert_eq!(status, 0);
        assert!(count > 0, "nothing came");
        (0..count as usize)
            .map(|number| unsafe { self.buffer.as_ptr().cast::<CenoteCompletion>().add(number).read() })
            .collect()
    }

    fn block(&self, completion: &CenoteCompletion) -> (CenoteBlock, &[u8]) {
        assert_eq!(completion.status, 0);
        assert_eq!(completion.flags, CENOTE_COMPLETION_INLINE);
        let bytes = unsafe { std::slice::from_raw_parts(self.buffer.as_ptr().cast::<u8>(), self.buffer.len() * 8) };
        let bytes = &bytes[completion.value as usize..][..completion.length as usize];
        (unsafe { bytes.as_ptr().cast::<CenoteBlock>().read() }, bytes)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        assert_eq!(cenote_context_free(self.context), 0);
    }
}

fn int(value: i64) -> CenoteValue {
    CenoteValue { kind: CENOTE_VALUE_INT, reserved: 0, bits: value.cast_unsigned(), data: null(), length: 0 }
}

fn word(bytes: &[u8], at: u32) -> u32 {
    u32::from_ne_bytes(bytes[at as usize..at as usize + 4].try_into().unwrap())
}

#[test]
fn each_of_many_gets_its_own_row() {
    let mut host = Host::new();
    for (url, sql) in [
        (cenote_tests::postgres_url(), "select id, randomnumber from world where id = $1"),
        (cenote_tests::mysql::Server::Mysql.url(), "select id, randomNumber from world where id = ?"),
    ] {
        let pool = host.open(&url);
        let mut open: Vec<u64> = (1..=500).collect();
        for &tag in &open {
            assert_eq!(host.query(pool, sql, &[int(tag as i64)], tag), 0);
        }
        while !open.is_empty() {
            for completion in host.wait() {
                let (front, bytes) = host.block(&completion);
                assert_eq!((front.magic, front.rows, front.columns), (CENOTE_BLOCK_MAGIC, 1, 2), "{sql}");
                let id = word(bytes, front.values_at + word(bytes, front.fields_at));
                let id = if front.flags & 1 == 0 { u32::from_be(id) } else { id };
                assert_eq!(u64::from(id), completion.tag, "{sql}");
                let before = open.len();
                open.retain(|&tag| tag != completion.tag);
                assert_eq!(open.len(), before - 1, "{} came twice", completion.tag);
            }
        }
        assert_eq!(cenote_pool_free(pool), 0);
    }
}

#[test]
fn a_transaction_is_committed() {
    let mut host = Host::new();
    let pool = host.open(&cenote_tests::postgres_url());
    assert_eq!(cenote_begin(host.context, pool, 0, 0, 1), 0);
    let begun = host.wait();
    assert_eq!((begun[0].status, begun[0].flags), (0, CENOTE_COMPLETION_SESSION));
    let transaction = begun[0].handle;
    assert_eq!(host.query(transaction, "select $1::int4 + 1", &[int(41)], 2), 0);
    assert_eq!(cenote_commit(host.context, transaction, 3), 0);
    let mut ended = Vec::new();
    while ended.len() < 2 {
        ended.extend(host.wait().into_iter().map(|completion| (completion.tag, completion.status)));
    }
    assert_eq!(ended, [(2, 0), (3, 0)]);
    assert_eq!(host.query(transaction, "select 1", &[], 4), cenote::status::CENOTE_ERR_HANDLE);
    assert_eq!(host.query(pool, "select no_such_column", &[], 5), 0);
    let failed = host.wait();
    assert_eq!((failed[0].status, failed[0].flags), (cenote::status::CENOTE_ERR_SERVER, CENOTE_COMPLETION_ERROR));
    assert_eq!(cenote::error::cenote_error_free(failed[0].handle), 0);
}

/// One thread at a time may wait; who is refused takes nothing from the one who does.
#[test]
fn a_wait_that_is_refused_leaves_the_waiter_his_wake() {
    const LIMIT_MS: u32 = 60_000;
    let host = Host::new();
    let pool = host.open(&cenote_tests::postgres_url());
    assert_eq!(host.query(pool, "select pg_sleep(1)", &[], 1), 0);
    let context = host.context;
    let wait = move |limit_ms: u32| {
        let (mut buffer, mut count, mut more) = (vec![0_u64; 1_024], 0, 0);
        let status =
            unsafe { cenote_wait(context, limit_ms, buffer.as_mut_ptr().cast(), 8_192, &mut count, &mut more) };
        (status, count)
    };
    let waiter = thread::spawn(move || {
        let begun_at = Instant::now();
        loop {
            match wait(LIMIT_MS) {
                // The other was in for a moment.
                (CENOTE_ERR_BUSY, _) => thread::yield_now(),
                waited => return (waited, begun_at.elapsed()),
            }
        }
    });
    while wait(0) != (CENOTE_ERR_BUSY, 0) {
        assert!(!waiter.is_finished(), "it is in before its answer comes");
    }
    let (waited, took) = waiter.join().unwrap();
    assert_eq!(waited, (0, 1));
    assert!(took < Duration::from_millis(LIMIT_MS.into()) / 2, "it slept until its limit");
}
