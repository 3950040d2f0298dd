//! Contexts as the host has them: made, drained, waited for, freed.

use std::ffi::c_void;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cenote_mysql::value::Format;
use cenote_mysql::{Column as MySqlColumn, ColumnType, RawResult as MySqlResult};
use cenote_postgres::{BatchResult, RawResult as PostgresResult};
use postgres_types::{Kind, Type};

use crate::block::{
    self, CENOTE_BLOCK_MYSQL, CENOTE_BLOCK_TEXT, CENOTE_COLUMN_ARRAY, CENOTE_COLUMN_BYTES, CENOTE_COLUMN_TEXT,
    CENOTE_COLUMN_UNSIGNED, ColumnFront, Front, TooLarge, Writer,
};
use crate::context::{Completion, Context, OPERATIONS_MAX};
use crate::error::{ErrorObject, write_sized};
use crate::fork;
use crate::guard::{Out, entry, leaf};
use crate::handles;
use crate::operation::Outcome;
use crate::status::{CENOTE_ERR_ARGUMENT, CENOTE_ERR_NULL, CENOTE_ERR_SYSTEM, CENOTE_OK};
use crate::wake::{CENOTE_WAKE_CALLBACK, CENOTE_WAKE_DART_PORT, CENOTE_WAKE_EVENTFD, CENOTE_WAKE_NONE, Wake};

/// In a completion: `value` says where in the drain buffer its block begins.
pub const CENOTE_COMPLETION_INLINE: u32 = 1;
/// In a completion: `value` is the address of its block, and `handle` frees it.
pub const CENOTE_COMPLETION_BLOCK: u32 = 2;
/// In a completion: `handle` is an error, to be freed.
pub const CENOTE_COMPLETION_ERROR: u32 = 4;
/// In a completion: `handle` is a lease or a transaction, to be freed.
pub const CENOTE_COMPLETION_SESSION: u32 = 8;
/// In a completion: an HTTP request, in the place of a block.
pub const CENOTE_COMPLETION_REQUEST: u32 = 16;
/// In a completion: the HTTP server with this tag has ended.
pub const CENOTE_COMPLETION_ENDED: u32 = 32;

/// Blocks up to this many bytes are copied into the drain buffer, if it has the room. A larger one costs a handle, and in
/// Dart a finaliser, which is little against what it holds.
const INLINE_BYTES_MAX: usize = 4_096;

/// The least drain buffer: one completion, and a small block.
pub const CENOTE_DRAIN_BYTES_MIN: usize = 4_096;

/// How long a call may wait at most: longer than anybody does.
const WAIT_MAX: Duration = Duration::from_secs(86_400);

/// How a context is to be.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CenoteContextOptions {
    /// The size of this struct.
    pub size: u32,
    /// How the host is told that there is something to drain: one of `CENOTE_WAKE_*`.
    pub wake: i32,
    /// Of `CENOTE_WAKE_CALLBACK`: the function.
    pub function: Option<unsafe extern "C" fn(data: *mut c_void)>,
    /// What the function is called with.
    pub data: *mut c_void,
    /// Of `CENOTE_WAKE_DART_PORT`: `NativeApi.initializeApiDLData`.
    pub dart_api: *const c_void,
    /// The port's number (`SendPort.nativePort`).
    pub dart_port: i64,
    /// Operations at once; 0: as many as usual (65,536).
    pub operations_max: u64,
}

/// One operation that has ended.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CenoteCompletion {
    /// The tag it was submitted with.
    pub tag: u64,
    /// `CENOTE_OK`, or what went wrong.
    pub status: i32,
    /// `CENOTE_COMPLETION_*`: what the rest means.
    pub flags: u32,
    /// Where the block is; or the answer to a question.
    pub value: u64,
    /// The block's length in bytes.
    pub length: u64,
    /// A handle that is the host's now.
    pub handle: u64,
}

/// Makes a context. NULL options: one that is waited for in `cenote_wait`.
///
/// Any thread. Starts a thread, so it is no leaf.
///
/// # Safety
///
/// `options` is NULL or a struct of `options->size` bytes whose pointers are what they say; `context` is NULL or to be
/// written through.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_context_new(options: *const CenoteContextOptions, context: *mut u64) -> i32 {
    entry("cenote_context_new", || {
        // SAFETY: by the caller's word.
        let out = unsafe { Out::new(context)? };
        fork::watch();
        let (wake, operations_max) = if options.is_null() {
            (Wake::None, OPERATIONS_MAX)
        } else {
            // SAFETY: not NULL, and begins with its size.
            if unsafe { options.cast::<u32>().read_unaligned() } as usize != size_of::<CenoteContextOptions>() {
                return Err(CENOTE_ERR_ARGUMENT);
            }
            // SAFETY: as long as it says, which is as long as ours.
            let options = unsafe { options.read_unaligned() };
            // SAFETY: by the caller's word.
            (unsafe { wake_of(&options)? }, operations_max(options.operations_max)?)
        };
        out.write(Arc::new(Context::new(wake, operations_max)?).register());
        Ok(())
    })
}

fn operations_max(asked: u64) -> Result<usize, i32> {
    match usize::try_from(asked) {
        Ok(0) => Ok(OPERATIONS_MAX),
        Ok(asked) if asked <= 1 << 24 => Ok(asked),
        _ => Err(CENOTE_ERR_ARGUMENT),
    }
}

/// # Safety
///
/// The options' pointers are what they say.
unsafe fn wake_of(options: &CenoteContextOptions) -> Result<Wake, i32> {
    match options.wake {
        CENOTE_WAKE_NONE => Ok(Wake::None),
        CENOTE_WAKE_EVENTFD => Wake::event_fd(),
        CENOTE_WAKE_CALLBACK => {
            Ok(Wake::Callback { function: options.function.ok_or(CENOTE_ERR_NULL)?, data: options.data })
        }
        // SAFETY: by the caller's word.
        CENOTE_WAKE_DART_PORT => unsafe { Wake::dart_port(options.dart_api, options.dart_port) },
        _ => Err(CENOTE_ERR_ARGUMENT),
    }
}

/// The descriptor that is readable when there is something to drain, of a context with `CENOTE_WAKE_EVENTFD`. It is the
/// context's: poll it, and do not read or close it. Draining makes it unreadable.
///
/// Any thread, leaf-safe.
///
/// # Safety
///
/// `fd` is NULL or to be written through.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_context_fd(context: u64, fd: *mut i32) -> i32 {
    leaf("cenote_context_fd", || {
        // SAFETY: by the caller's word.
        let out = unsafe { Out::new(fd)? };
        out.write(handles::get::<Context>(context)?.wake().fd().ok_or(CENOTE_ERR_ARGUMENT)?);
        Ok(())
    })
}

/// Ends a context: what is under way is abandoned, its leases and transactions are rolled back and given back, the pools
/// opened with it are closed. It waits for nothing. 0 is none, and is let pass.
///
/// Any thread. Others who wait for a lease may be told, so it is no leaf; as a finaliser it is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn cenote_context_free(context: u64) -> i32 {
    entry("cenote_context_free", || match context {
        0 => Ok(()),
        context => {
            handles::remove::<Context>(context)?.close();
            Ok(())
        }
    })
}

/// The same, as a finaliser of Dart's, whose token is a pointer: the handle's number. Blocks and errors that were drained from
/// it are freed as well: its isolate may have ended before it took them up, and no other may read them.
///
/// A leaf: a finaliser may run while the VM collects, when nothing may be posted from its thread.
#[unsafe(no_mangle)]
pub extern "C" fn cenote_context_finalize(context: *mut c_void) {
    leaf("cenote_context_finalize", || {
        let handle = context.addr() as u64;
        // It may be gone already: then nobody was there to be told of something.
        let found = handles::remove::<Context>(handle);
        if let Ok(context) = &found {
            context.close();
        }
        handles::remove_results_of(handle);
        found.map(drop)
    });
}

/// Takes what has ended: completions from the buffer's beginning on, `*count` of them, and blocks behind them where they are
/// small. What is in the buffer is the host's until it drains into it again.
///
/// `*more`: 1, there is more to drain; 0, there is not, and the host will be told of the next.
///
/// The context's thread, leaf-safe.
///
/// # Safety
///
/// `buffer` is to be written to for `capacity` bytes and begins where numbers of eight bytes may be; the pointers are NULL
/// or to be written through.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_drain(
    context: u64,
    buffer: *mut c_void,
    capacity: usize,
    count: *mut u32,
    more: *mut i32,
) -> i32 {
    leaf("cenote_drain", || {
        let buffer = check_drain(buffer, capacity)?;
        let context = handles::get::<Context>(context)?;
        // SAFETY: by the caller's word.
        unsafe { drain(&context, buffer, capacity, count, more)? };
        Ok(())
    })
}

/// Waits until there is something to drain, for at most `timeout_ms` (0: not at all), moves this context's bytes meanwhile,
/// and drains as `cenote_drain` does. `*count` is 0 when nothing came in time.
///
/// The context's thread; one at a time. It is no leaf.
///
/// # Safety
///
/// As for `cenote_drain`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_wait(
    context: u64,
    timeout_ms: u32,
    buffer: *mut c_void,
    capacity: usize,
    count: *mut u32,
    more: *mut i32,
) -> i32 {
    entry("cenote_wait", || {
        let buffer = check_drain(buffer, capacity)?;
        let waiter = handles::get::<Context>(context)?;
        let begun_at = Instant::now();
        let limit = Duration::from_millis(timeout_ms.into()).min(WAIT_MAX);
        loop {
            let left = limit.saturating_sub(begun_at.elapsed());
            waiter.wait(left)?;
            // SAFETY: by the caller's word.
            let drained = unsafe { drain(&waiter, buffer, capacity, count, more)? };
            // What was ready may have been but a step on the way.
            if drained > 0 || left.is_zero() {
                return Ok(());
            }
        }
    })
}

/// The host has nothing to do until it is told: a thread of ours moves this context's bytes from here on. Without this it
/// begins to when the host has been away for 2 ms.
///
/// The context's thread, leaf-safe.
#[unsafe(no_mangle)]
pub extern "C" fn cenote_context_sleep(context: u64) -> i32 {
    leaf("cenote_context_sleep", || {
        handles::get::<Context>(context)?.sleeps();
        Ok(())
    })
}

fn check_drain(buffer: *mut c_void, capacity: usize) -> Result<*mut u8, i32> {
    if buffer.is_null() {
        return Err(CENOTE_ERR_NULL);
    }
    if capacity < CENOTE_DRAIN_BYTES_MIN
        || capacity > isize::MAX as usize
        || !buffer.addr().is_multiple_of(align_of::<u64>())
    {
        return Err(CENOTE_ERR_ARGUMENT);
    }
    Ok(buffer.cast())
}

/// # Safety
///
/// The buffer was checked, and is to be written to; the pointers are NULL or to be written through.
unsafe fn drain(
    context: &Context,
    buffer: *mut u8,
    capacity: usize,
    count: *mut u32,
    more: *mut i32,
) -> Result<usize, i32> {
    // SAFETY: by the caller's word.
    let (count, more) = unsafe { (Out::new(count)?, Out::new(more)?) };
    let free_until = capacity & !(align_of::<u64>() - 1);
    let mut sink = Sink { context, buffer, entries: 0, free_until, writer: Writer::default() };
    let drained = context.drain(|completion| sink.take(completion));
    // Also when it fails: what was taken is the host's.
    count.write(sink.entries as u32);
    more.write(i32::from(!drained?));
    Ok(sink.entries)
}

/// A buffer that is being filled: entries from the front, blocks from the back.
struct Sink<'a> {
    context: &'a Context,
    buffer: *mut u8,
    entries: usize,
    free_until: usize,
    writer: Writer,
}

impl Sink<'_> {
    fn take(&mut self, completion: Completion) -> Result<(), Completion> {
        let entry_ends_at = (self.entries + 1) * size_of::<CenoteCompletion>();
        if entry_ends_at > self.free_until {
            return Err(completion);
        }
        let (tag, outcome) = (completion.tag, completion.outcome);
        let mut entry = CenoteCompletion { tag, status: CENOTE_OK, flags: 0, value: 0, length: 0, handle: 0 };
        self.writer.clear();
        let written = match &outcome {
            Outcome::Postgres(result) => append_postgres(&mut self.writer, result),
            Outcome::MySql(result) => append_mysql(&mut self.writer, result),
            Outcome::PostgresBatch(results) => self
                .writer
                .append_batch(results.len(), |writer, number| append_batch_result(writer, results.get(number))),
            Outcome::MySqlBatch(results) => self.writer.append_batch(results.len(), |writer, number| {
                results.get(number).map_or(Ok(()), |result| append_mysql(writer, result))
            }),
            Outcome::Request(bytes) => {
                self.writer.append_bytes(bytes);
                Ok(())
            }
            Outcome::Session(_) | Outcome::Done | Outcome::Answer(_) | Outcome::Failed(_) | Outcome::Ended(_) => Ok(()),
        };
        let length = self.writer.bytes().len();
        let fits_inline = entry_ends_at + length.next_multiple_of(align_of::<u64>()) <= self.free_until;
        match outcome {
            _ if written.is_err() => {
                let words = "the result has more than 2 GiB of values; ask for fewer rows at once";
                self.fail(&mut entry, ErrorObject::new(TooLarge::STATUS, words));
            }
            Outcome::Session(mut session) => {
                session.owner = self.context.handle();
                entry.flags = CENOTE_COMPLETION_SESSION;
                entry.handle = handles::insert(Arc::new(session));
                self.context.own_session(entry.handle);
            }
            Outcome::Done => {}
            Outcome::Answer(answer) => entry.value = answer.into(),
            Outcome::Failed(error) => self.fail(&mut entry, *error),
            Outcome::Ended(failure) => {
                if let Some(failure) = failure {
                    let words = format!("the HTTP server has ended: {failure}");
                    self.fail(&mut entry, ErrorObject::new(CENOTE_ERR_SYSTEM, words));
                }
                entry.flags |= CENOTE_COMPLETION_ENDED;
            }
            // A small one waits for the next buffer rather than be an object of its own.
            outcome if length <= INLINE_BYTES_MAX && !fits_inline && self.entries > 0 => {
                return Err(Completion { tag, outcome });
            }
            outcome => {
                if length <= INLINE_BYTES_MAX && fits_inline {
                    self.copy(&mut entry);
                } else {
                    self.keep(&mut entry);
                }
                if matches!(outcome, Outcome::Request(_)) {
                    entry.flags |= CENOTE_COMPLETION_REQUEST;
                }
            }
        }
        // SAFETY: it ends before what is taken at the back, and the buffer begins where it may.
        unsafe { self.buffer.cast::<CenoteCompletion>().add(self.entries).write(entry) };
        self.entries += 1;
        Ok(())
    }

    /// Copies what was written to the back of the buffer, where it fits.
    fn copy(&mut self, entry: &mut CenoteCompletion) {
        let bytes = self.writer.bytes();
        self.free_until -= bytes.len().next_multiple_of(align_of::<u64>());
        // SAFETY: behind the last entry and before what was taken at the back, as was asked before; so within the buffer.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.buffer.add(self.free_until), bytes.len()) };
        entry.flags = CENOTE_COMPLETION_INLINE;
        (entry.value, entry.length) = (self.free_until as u64, bytes.len() as u64);
    }

    fn fail(&self, entry: &mut CenoteCompletion, error: ErrorObject) {
        entry.status = error.status();
        entry.flags = CENOTE_COMPLETION_ERROR;
        entry.handle = handles::insert(Arc::new(error.owned_by(self.context.handle())));
    }

    fn keep(&mut self, entry: &mut CenoteCompletion) {
        let (handle, place, length) = block::keep(self.writer.bytes(), self.context.handle());
        entry.flags = CENOTE_COMPLETION_BLOCK;
        (entry.handle, entry.value, entry.length) = (handle, place.addr() as u64, length as u64);
    }
}

fn append_postgres(writer: &mut Writer, result: &PostgresResult) -> Result<(), TooLarge> {
    let front = Front { rows: result.len(), rows_affected: result.rows_affected(), ..Front::default() };
    let columns = result.columns().iter().map(|column| postgres_column(column.name(), column.type_()));
    writer.append(&front, columns, result.reply_bytes(), |fields| {
        // It was checked when it came.
        let _ = result.visit_fields(|field| fields.push(field));
    })
}

fn postgres_column<'c>(name: &'c str, ty: &Type) -> ColumnFront<'c> {
    let flags = match ty.kind() {
        Kind::Array(member) => CENOTE_COLUMN_ARRAY | text_flag(member),
        _ => text_flag(ty),
    };
    ColumnFront { name, type_code: ty.oid(), flags }
}

fn text_flag(ty: &Type) -> u32 {
    match ty.kind() {
        Kind::Enum(_) => CENOTE_COLUMN_TEXT,
        Kind::Simple if ty.name() == "citext" => CENOTE_COLUMN_TEXT,
        Kind::Domain(base) => text_flag(base),
        _ => 0,
    }
}

fn append_batch_result(writer: &mut Writer, result: Option<&BatchResult>) -> Result<(), TooLarge> {
    let Some(result) = result else { return Ok(()) };
    let rows = result.rows();
    let front = Front { rows: rows.len(), rows_affected: result.rows_affected(), ..Front::default() };
    let columns = rows.first().map(|row| row.columns()).unwrap_or_default().iter();
    let columns = columns.map(|column| postgres_column(column.name(), column.type_()));
    writer.append(&front, columns, 0, |fields| {
        for row in rows {
            for number in 0..row.len() {
                fields.push(row.get_bytes(number).unwrap_or_default());
            }
        }
    })
}

fn append_mysql(writer: &mut Writer, result: &MySqlResult) -> Result<(), TooLarge> {
    let executed = result.executed();
    let text = if result.format() == Format::Text { CENOTE_BLOCK_TEXT } else { 0 };
    let front = Front {
        flags: CENOTE_BLOCK_MYSQL | text,
        rows: result.len(),
        rows_affected: executed.affected_rows(),
        last_insert_id: executed.last_insert_id().unwrap_or_default(),
        warnings: executed.warnings().into(),
    };
    let columns = result.columns().iter().map(|column| ColumnFront {
        name: column.name(),
        type_code: column.type_().code().into(),
        flags: mysql_flags(column),
    });
    writer.append(&front, columns, result.reply_bytes(), |fields| {
        // It was checked when it came.
        let _ = result.visit_fields(|field| fields.push(field));
    })
}

fn mysql_flags(column: &MySqlColumn) -> u32 {
    use ColumnType::{Binary, Bit, Blob, Geometry, VarBinary, Vector};
    let mut flags = 0;
    if column.is_unsigned() {
        flags |= CENOTE_COLUMN_UNSIGNED;
    }
    if matches!(column.type_(), Binary | VarBinary | Blob | Bit | Geometry | Vector) {
        flags |= CENOTE_COLUMN_BYTES;
    }
    flags
}

/// What the library holds for its host: each of these is 0 again when the host has freed all it had.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct CenoteCounts {
    /// The size of this struct, by whoever asks.
    pub size: u32,
    /// Nothing.
    pub reserved: u32,
    /// Contexts.
    pub contexts: u64,
    /// Open pools.
    pub pools: u64,
    /// Leases and transactions.
    pub sessions: u64,
    /// Blocks that do not lie in a drain buffer.
    pub blocks: u64,
    /// Errors.
    pub errors: u64,
    /// HTTP servers.
    pub servers: u64,
}

/// What the library holds for its host: for finding leaks. `counts->size` says how much of the struct the caller knows.
///
/// Any thread, leaf-safe.
///
/// # Safety
///
/// `counts` is NULL or a struct of `counts->size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_counts(counts: *mut CenoteCounts) -> i32 {
    leaf("cenote_counts", || {
        let [contexts, pools, sessions, blocks, errors, servers] = handles::counts();
        let size = size_of::<CenoteCounts>() as u32;
        let told = CenoteCounts { size, reserved: 0, contexts, pools, sessions, blocks, errors, servers };
        // SAFETY: by the caller's word.
        unsafe { write_sized(counts, &told) }
    })
}

/// How many operations of a context have not ended.
///
/// Any thread, leaf-safe.
///
/// # Safety
///
/// `operations` is NULL or to be written through.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_context_operations(context: u64, operations: *mut u64) -> i32 {
    leaf("cenote_context_operations", || {
        // SAFETY: by the caller's word.
        let out = unsafe { Out::new(operations)? };
        out.write(handles::get::<Context>(context)?.operations() as u64);
        Ok(())
    })
}
