//! Requests: statements and batches, as the host writes them: call by call, or many in one piece.

use std::ffi::{c_char, c_void};
use std::time::Duration;

use crate::context::Context;
use crate::guard::{Entry, Out, leaf};
use crate::handles;
use crate::operation::{self, Statement, Target, Terms};
use crate::pool::OpenPool;
use crate::session::Session;
use crate::status::{CENOTE_ERR_ARGUMENT, CENOTE_ERR_HANDLE, CENOTE_ERR_NULL};
use crate::value::{CenoteValue, Memory};

/// The statement may run twice: if its connection is lost after it was sent, it is sent once more on another.
pub const CENOTE_QUERY_IDEMPOTENT: u32 = 1;

/// A statement in a batch, or in a request of one piece.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CenoteStatement {
    /// SQL, in UTF-8. In a request of one piece: where it begins in it.
    pub sql: *const c_char,
    /// Its length in bytes.
    pub sql_length: usize,
    /// Its parameters. In a request of one piece: where they begin in it.
    pub values: *const CenoteValue,
    /// How many.
    pub value_count: usize,
}

/// A request of one piece: this, and behind it the statements, values, texts and bytes it names. Places are counted from its
/// beginning.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CenoteRequest {
    /// Its length in bytes with all that it names, a multiple of 8.
    pub length: u64,
    /// The host's tag.
    pub tag: u64,
    /// A pool's, lease's or transaction's handle.
    pub target: u64,
    /// `CENOTE_QUERY_*`, together.
    pub flags: u32,
    /// The time it is to be answered in; 0: whenever it is.
    pub timeout_ms: u32,
    /// Where the statements begin.
    pub statements_at: u64,
    /// How many: 1, or a batch.
    pub statement_count: u32,
    /// 1: they are a batch, even if it is but one.
    pub is_batch: u32,
}

/// Runs a statement. The completion has its result as a block, also where it returns no rows: what it did is in its front.
///
/// The context's thread, leaf-safe. The SQL and the values are copied.
///
/// # Safety
///
/// `sql` is to be read for `sql_length` bytes, `values` for `value_count` values, and each of them for what it holds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_query(
    context: u64,
    target: u64,
    sql: *const c_char,
    sql_length: usize,
    values: *const CenoteValue,
    value_count: usize,
    flags: u32,
    timeout_ms: u32,
    tag: u64,
) -> i32 {
    leaf("cenote_query", || {
        let context = handles::get::<Context>(context)?;
        let statement = CenoteStatement { sql, sql_length, values, value_count };
        // SAFETY: by the caller's word.
        let statement = unsafe { read_statement(Memory::Host, &statement)? };
        submit_query(&context, target, statement, terms(flags, timeout_ms)?, tag)
    })
}

/// Runs several statements in one round trip (Postgres) or one transaction (MySQL): all of them happen, or none. The
/// completion has a block of blocks.
///
/// The context's thread, leaf-safe. All is copied.
///
/// # Safety
///
/// `statements` is to be read for `statement_count` statements, and each of them as in `cenote_query`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_batch(
    context: u64,
    target: u64,
    statements: *const CenoteStatement,
    statement_count: usize,
    tag: u64,
) -> i32 {
    leaf("cenote_batch", || {
        let context = handles::get::<Context>(context)?;
        // SAFETY: by the caller's word.
        let statements = unsafe { read_statements(Memory::Host, statements.cast(), statement_count)? };
        context.submit(tag, operation::batch(find(target)?, statements))
    })
}

/// Submits requests of one piece, one behind the other; `*submitted` says how many were, and the status what was wrong with
/// the next.
///
/// The context's thread, leaf-safe. All is copied.
///
/// # Safety
///
/// `requests` is to be read for `length` bytes; `submitted` is NULL or to be written through.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_submit(
    context: u64,
    requests: *const c_void,
    length: usize,
    submitted: *mut u32,
) -> i32 {
    leaf("cenote_submit", || {
        // SAFETY: by the caller's word.
        let submitted = unsafe { Out::new(submitted)? };
        // Whatever is wrong: the caller counts by it.
        submitted.write(0);
        // SAFETY: by the caller's word.
        let mut rest = unsafe { crate::guard::bytes(requests.cast(), length)? };
        let context = handles::get::<Context>(context)?;
        let mut count = 0;
        while !rest.is_empty() {
            let Some(front) = rest.get(..size_of::<CenoteRequest>()) else { return Err(CENOTE_ERR_ARGUMENT) };
            // SAFETY: so many bytes, and any bytes are a `CenoteRequest`.
            let request = unsafe { front.as_ptr().cast::<CenoteRequest>().read_unaligned() };
            let length = usize::try_from(request.length).map_err(|_| CENOTE_ERR_ARGUMENT)?;
            if length < size_of::<CenoteRequest>() {
                return Err(CENOTE_ERR_ARGUMENT);
            }
            let (piece, behind) = rest.split_at_checked(length).ok_or(CENOTE_ERR_ARGUMENT)?;
            submit_piece(&context, &request, piece)?;
            count += 1;
            submitted.write(count);
            rest = behind;
        }
        Ok(())
    })
}

fn submit_piece(context: &Context, request: &CenoteRequest, piece: &[u8]) -> Entry {
    let terms = terms(request.flags, request.timeout_ms)?;
    let at = std::ptr::without_provenance(usize::try_from(request.statements_at).map_err(|_| CENOTE_ERR_ARGUMENT)?);
    // SAFETY: in a piece places are checked.
    let mut statements = unsafe { read_statements(Memory::Piece(piece), at, request.statement_count as usize)? };
    if request.is_batch != 0 {
        return context.submit(request.tag, operation::batch(find(request.target)?, statements));
    }
    match (statements.pop(), statements.is_empty()) {
        (Some(statement), true) => submit_query(context, request.target, statement, terms, request.tag),
        _ => Err(CENOTE_ERR_ARGUMENT),
    }
}

fn submit_query(context: &Context, target: u64, statement: Statement, terms: Terms, tag: u64) -> Entry {
    context.submit(tag, operation::query(find(target)?, statement, terms))
}

/// Has the host no longer wait for what has this tag: there will be no completion. What was sent runs, and its result is
/// dropped. `CENOTE_ERR_HANDLE`: nothing has this tag; its completion may have been drained.
///
/// The context's thread, leaf-safe.
#[unsafe(no_mangle)]
pub extern "C" fn cenote_abandon(context: u64, tag: u64) -> i32 {
    leaf("cenote_abandon", || handles::get::<Context>(context)?.abandon(tag))
}

fn terms(flags: u32, timeout_ms: u32) -> Result<Terms, i32> {
    if flags & !CENOTE_QUERY_IDEMPOTENT != 0 {
        return Err(CENOTE_ERR_ARGUMENT);
    }
    let limit = (timeout_ms != 0).then(|| Duration::from_millis(timeout_ms.into()));
    Ok(Terms { idempotent: flags & CENOTE_QUERY_IDEMPOTENT != 0, limit })
}

fn find(target: u64) -> Result<Target, i32> {
    if let Ok(pool) = handles::get::<OpenPool>(target) {
        return Ok(Target::Pool(pool.database.clone()));
    }
    handles::get::<Session>(target).map(Target::Session).map_err(|_| CENOTE_ERR_HANDLE)
}

/// # Safety
///
/// Of the host's memory: `statements` is to be read for `count` statements, each with what it names.
unsafe fn read_statements(memory: Memory<'_>, statements: *const u8, count: usize) -> Result<Vec<Statement>, i32> {
    if matches!(memory, Memory::Host) && statements.is_null() && count > 0 {
        return Err(CENOTE_ERR_NULL);
    }
    let length = count.checked_mul(size_of::<CenoteStatement>()).ok_or(CENOTE_ERR_ARGUMENT)?;
    // SAFETY: by the caller's word.
    let bytes = unsafe { memory.bytes(statements, length)? };
    let read = bytes.chunks_exact(size_of::<CenoteStatement>()).map(|statement| {
        // SAFETY: so many bytes, and any bytes are a `CenoteStatement`.
        let statement = unsafe { statement.as_ptr().cast::<CenoteStatement>().read_unaligned() };
        // SAFETY: by the caller's word.
        unsafe { read_statement(memory, &statement) }
    });
    read.collect()
}

/// # Safety
///
/// As for [`read_statements`].
unsafe fn read_statement(memory: Memory<'_>, statement: &CenoteStatement) -> Result<Statement, i32> {
    // SAFETY: by the caller's word.
    let (sql, values) = unsafe {
        (
            memory.bytes(statement.sql.cast(), statement.sql_length)?,
            memory.values(statement.values.cast(), statement.value_count)?,
        )
    };
    let sql = std::str::from_utf8(sql).map_err(|_| CENOTE_ERR_ARGUMENT)?;
    Ok(Statement { sql: sql.into(), values })
}
