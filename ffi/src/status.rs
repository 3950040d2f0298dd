//! What a call, or an operation, came to: a number. Negative is a failure; whose fault it was is in the number.

/// It was done, or is under way.
pub const CENOTE_OK: i32 = 0;
/// A pointer that must not be NULL is.
pub const CENOTE_ERR_NULL: i32 = -1;
/// There is nothing of that kind with this handle: never was, or not any more.
pub const CENOTE_ERR_HANDLE: i32 = -2;
/// An argument makes no sense: text that is not UTF-8, a length past the bound, a struct that is too small, a tag that is
/// in use, a setting that cannot be met.
pub const CENOTE_ERR_ARGUMENT: i32 = -3;
/// The pool, lease or transaction was closed.
pub const CENOTE_ERR_CLOSED: i32 = -4;
/// The context has as many operations under way as it may have.
pub const CENOTE_ERR_FULL: i32 = -5;
/// A defect of cenote: it has panicked. The process goes on; what the call was about may be lost.
pub const CENOTE_ERR_PANIC: i32 = -6;
/// This process is a forked child of the one that the library was loaded in; it can do nothing here.
pub const CENOTE_ERR_FORKED: i32 = -7;
/// The server refused the statement or the log-in.
pub const CENOTE_ERR_SERVER: i32 = -8;
/// The connection was lost.
pub const CENOTE_ERR_NETWORK: i32 = -9;
/// No room, or no answer, in time.
pub const CENOTE_ERR_TIMEOUT: i32 = -10;
/// The other end does not keep to the protocol.
pub const CENOTE_ERR_PEER: i32 = -11;
/// The server has ended the transaction by itself.
pub const CENOTE_ERR_TRANSACTION: i32 = -12;
/// The statement was at fault: a value of the wrong type, a statement that does not belong where it was sent.
pub const CENOTE_ERR_STATEMENT: i32 = -13;
/// The system gives no thread, no descriptor, or no memory.
pub const CENOTE_ERR_SYSTEM: i32 = -14;
/// The result is larger than can be handed over (2 GiB of values).
pub const CENOTE_ERR_TOO_LARGE: i32 = -15;
/// Another thread is in a call on this context that only one may make at a time.
pub const CENOTE_ERR_BUSY: i32 = -16;

/// The least of them.
pub const CENOTE_ERR_LEAST: i32 = CENOTE_ERR_BUSY;

/// The status of an error of either driver, by its predicates.
macro_rules! status_of {
    ($error:expr) => {{
        let error = $error;
        if error.is_closed() {
            CENOTE_ERR_CLOSED
        } else if error.is_transaction_lost() {
            CENOTE_ERR_TRANSACTION
        } else if error.is_timeout() {
            CENOTE_ERR_TIMEOUT
        } else if error.is_peer() {
            CENOTE_ERR_PEER
        } else if error.is_server() {
            CENOTE_ERR_SERVER
        } else if error.is_caller() || error.is_row_count() {
            CENOTE_ERR_STATEMENT
        } else {
            CENOTE_ERR_NETWORK
        }
    }};
}

pub(crate) fn of_postgres(error: &cenote_postgres::Error) -> i32 {
    status_of!(error)
}

pub(crate) fn of_mysql(error: &cenote_mysql::Error) -> i32 {
    status_of!(error)
}
