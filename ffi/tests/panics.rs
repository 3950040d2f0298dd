//! A panic in every entry: the host gets a status, and the library goes on. Needs the feature `inject-panics`; `make test`
//! runs it.

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "each is a call of the ABI with NULL, with pointers to what lives here, or a look at what it wrote there"
)]

use std::ffi::c_void;
use std::path::Path;
use std::ptr::{null, null_mut};

use cenote::block::cenote_block_free;
use cenote::delivery::{
    CenoteCompletion, CenoteCounts, cenote_context_fd, cenote_context_free, cenote_context_new,
    cenote_context_operations, cenote_context_sleep, cenote_counts, cenote_drain, cenote_wait,
};
use cenote::error::{cenote_error_field, cenote_error_free, cenote_error_info};
use cenote::http::{
    cenote_http_answer, cenote_http_answers, cenote_http_free, cenote_http_listen, cenote_http_port, cenote_http_stop,
};
use cenote::injection;
use cenote::pool::{cenote_pool_close, cenote_pool_free, cenote_pool_open, cenote_pool_stats};
use cenote::request::{cenote_abandon, cenote_batch, cenote_query, cenote_submit};
use cenote::session::{cenote_begin, cenote_cancel, cenote_commit, cenote_lease, cenote_rollback, cenote_session_free};
use cenote::status::{CENOTE_ERR_PANIC, CENOTE_OK};

/// A call that comes no further than its panic: its arguments are not looked at.
type Call = fn() -> i32;

/// Every entry that does something, by its name.
const ENTRIES: &[(&str, Call)] = &[
    ("cenote_block_free", || cenote_block_free(0)),
    ("cenote_context_new", || unsafe { cenote_context_new(null(), null_mut()) }),
    ("cenote_context_fd", || unsafe { cenote_context_fd(0, null_mut()) }),
    ("cenote_context_free", || cenote_context_free(0)),
    ("cenote_context_operations", || unsafe { cenote_context_operations(0, null_mut()) }),
    ("cenote_context_sleep", || cenote_context_sleep(0)),
    ("cenote_drain", || unsafe { cenote_drain(0, null_mut(), 0, null_mut(), null_mut()) }),
    ("cenote_wait", || unsafe { cenote_wait(0, 0, null_mut(), 0, null_mut(), null_mut()) }),
    ("cenote_counts", || unsafe { cenote_counts(null_mut()) }),
    ("cenote_error_info", || unsafe { cenote_error_info(0, null_mut()) }),
    ("cenote_error_field", || unsafe { cenote_error_field(0, 0, null_mut(), null_mut()) }),
    ("cenote_error_free", || cenote_error_free(0)),
    ("cenote_pool_open", || unsafe { cenote_pool_open(0, null(), 0, null_mut(), null_mut()) }),
    ("cenote_pool_close", || cenote_pool_close(0, 0, 0, 0)),
    ("cenote_pool_free", || cenote_pool_free(0)),
    ("cenote_pool_stats", || unsafe { cenote_pool_stats(0, null_mut()) }),
    ("cenote_query", || unsafe { cenote_query(0, 0, null(), 0, null(), 0, 0, 0, 0) }),
    ("cenote_batch", || unsafe { cenote_batch(0, 0, null(), 0, 0) }),
    ("cenote_submit", || unsafe { cenote_submit(0, null(), 0, null_mut()) }),
    ("cenote_abandon", || cenote_abandon(0, 0)),
    ("cenote_lease", || cenote_lease(0, 0, 0)),
    ("cenote_begin", || cenote_begin(0, 0, 0, 0, 0)),
    ("cenote_commit", || cenote_commit(0, 0, 0)),
    ("cenote_rollback", || cenote_rollback(0, 0, 0)),
    ("cenote_cancel", || cenote_cancel(0, 0, 0)),
    ("cenote_http_listen", || unsafe { cenote_http_listen(0, null(), 0, null_mut(), null_mut()) }),
    ("cenote_http_port", || unsafe { cenote_http_port(0, null_mut()) }),
    ("cenote_http_answer", || unsafe { cenote_http_answer(0, 0, 0, 0, null(), 0, null(), 0, null(), 0) }),
    ("cenote_http_answers", || unsafe { cenote_http_answers(0, null(), 0, null_mut()) }),
    ("cenote_http_stop", || cenote_http_stop(0)),
    ("cenote_http_free", || cenote_http_free(0)),
    ("cenote_session_free", || cenote_session_free(0)),
];

/// Entries that run nothing that could panic, or what another entry runs, without a status to tell of it.
const WITHOUT_WORK: [&str; 6] = [
    "cenote_abi_version",
    "cenote_version",
    "cenote_block_finalize",
    "cenote_context_finalize",
    "cenote_pool_finalize",
    "cenote_session_finalize",
];

fn counts() -> [u64; 6] {
    let mut counts = CenoteCounts { size: size_of::<CenoteCounts>() as u32, ..CenoteCounts::default() };
    assert_eq!(unsafe { cenote_counts(&mut counts) }, CENOTE_OK);
    [counts.contexts, counts.pools, counts.sessions, counts.blocks, counts.errors, counts.servers]
}

/// Waits for one completion, and frees what it has brought.
fn one(context: u64) -> CenoteCompletion {
    let mut buffer = vec![0_u64; 1024];
    let (mut count, mut more) = (0, 0);
    let place: *mut c_void = buffer.as_mut_ptr().cast();
    while count == 0 {
        let status = unsafe { cenote_wait(context, 60_000, place, 8192, &mut count, &mut more) };
        assert_eq!(status, CENOTE_OK);
    }
    assert_eq!(count, 1);
    unsafe { place.cast::<CenoteCompletion>().read() }
}

fn ask(context: u64, target: u64) -> i32 {
    let sql = "select 1";
    unsafe { cenote_query(context, target, sql.as_ptr().cast(), sql.len(), null(), 0, 0, 0, 1) }
}

// One test: whatever is ordered strikes the next call, whoever makes it.
#[test]
fn a_panic_in_every_entry_is_a_status_and_the_pool_goes_on() {
    let url = cenote_tests::postgres_url();
    let (mut context, mut pool) = (0, 0);
    assert_eq!(unsafe { cenote_context_new(null(), &mut context) }, CENOTE_OK);
    let opened = unsafe { cenote_pool_open(context, url.as_ptr().cast(), url.len(), &mut pool, null_mut()) };
    assert_eq!(opened, CENOTE_OK);
    let before = counts();
    for (name, call) in ENTRIES {
        injection::order(name);
        assert_eq!(call(), CENOTE_ERR_PANIC, "{name}");
        assert_ne!(call(), CENOTE_ERR_PANIC, "{name}: it is over");
        assert_eq!(ask(context, pool), CENOTE_OK, "{name}");
        assert_eq!(one(context).status, CENOTE_OK, "{name}");
        assert_eq!(counts(), before, "{name}");
    }
    assert_eq!(cenote_context_free(context), CENOTE_OK);
    assert_eq!(counts(), [0; 6]);
}

#[test]
fn every_function_of_the_header_is_among_them() {
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/exported.txt");
    let list = std::fs::read_to_string(list).expect("the list of exports is there");
    for name in list.lines() {
        let known = WITHOUT_WORK.contains(&name) || ENTRIES.iter().any(|(entry, _)| *entry == name);
        assert!(known, "{name} is missing here");
    }
}
