//! Errors as objects of the host: all fields of what went wrong, for as long as the host keeps them.

use std::ffi::c_char;
use std::sync::Arc;

use crate::guard::{Out, bytes, leaf};
use crate::handles;
use crate::status::{self, CENOTE_ERR_ARGUMENT, CENOTE_ERR_PANIC};

/// What it says, for a person.
pub const CENOTE_FIELD_MESSAGE: i32 = 0;
/// The SQLSTATE: five characters.
pub const CENOTE_FIELD_SQL_STATE: i32 = 1;
/// The server's own words, without where it happened.
pub const CENOTE_FIELD_SERVER_MESSAGE: i32 = 2;
/// Postgres: more about it.
pub const CENOTE_FIELD_DETAIL: i32 = 3;
/// Postgres: what to do about it.
pub const CENOTE_FIELD_HINT: i32 = 4;
/// Postgres: how severe it is, never translated.
pub const CENOTE_FIELD_SEVERITY: i32 = 5;
/// Postgres: the schema it is about.
pub const CENOTE_FIELD_SCHEMA: i32 = 6;
/// Postgres: the table.
pub const CENOTE_FIELD_TABLE: i32 = 7;
/// Postgres: the column.
pub const CENOTE_FIELD_COLUMN: i32 = 8;
/// Postgres: the data type.
pub const CENOTE_FIELD_DATA_TYPE: i32 = 9;
/// Postgres: the constraint.
pub const CENOTE_FIELD_CONSTRAINT: i32 = 10;
/// Postgres: where in the server's calls it happened.
pub const CENOTE_FIELD_CONTEXT: i32 = 11;
/// Postgres: the query the server made by itself.
pub const CENOTE_FIELD_INTERNAL_QUERY: i32 = 12;
/// Postgres: the source file.
pub const CENOTE_FIELD_FILE: i32 = 13;
/// Postgres: the routine.
pub const CENOTE_FIELD_ROUTINE: i32 = 14;

const FIELDS: usize = 15;

/// The question whether a statement was sent does not arise: there is an answer.
pub const CENOTE_SENT_NO_QUESTION: i32 = -1;
/// No byte of it has left: nothing happened.
pub const CENOTE_SENT_NO: i32 = 0;
/// It was sent and there is no answer: it may have happened.
pub const CENOTE_SENT_YES: i32 = 1;

/// The numbers of an error.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CenoteErrorInfo {
    /// The size of this struct, by whoever asks.
    pub size: u32,
    /// The status.
    pub status: i32,
    /// MySQL: the error's number; else 0.
    pub number: u32,
    /// Whether it was sent: one of `CENOTE_SENT_*`.
    pub sent: i32,
    /// Postgres: the place in the statement, from 1, in characters; 0: none.
    pub position: u32,
    /// Postgres: the place in the server's own query.
    pub internal_position: u32,
    /// Postgres: the line of the source file.
    pub line: u32,
    /// Of a batch: the statement's number, from 0; else -1.
    pub batch_index: i32,
}

/// An error, with all of its fields. It holds nothing of the pool it came from.
#[derive(Debug)]
pub(crate) struct ErrorObject {
    info: CenoteErrorInfo,
    fields: [Box<str>; FIELDS],
    /// The context that it was drained from; 0: none.
    owner: u64,
}

impl ErrorObject {
    /// An error of ours, with words.
    pub(crate) fn new(status: i32, message: impl Into<String>) -> ErrorObject {
        let mut error = ErrorObject { info: no_numbers(status), fields: Default::default(), owner: 0 };
        error.set(CENOTE_FIELD_MESSAGE, Some(&message.into()));
        error
    }

    /// What a panic comes to.
    pub(crate) fn panicked() -> ErrorObject {
        ErrorObject::new(CENOTE_ERR_PANIC, "cenote panicked, which is a defect of it; please report it")
    }

    pub(crate) fn postgres(error: &cenote_postgres::Error) -> ErrorObject {
        let mut object = ErrorObject::new(status::of_postgres(error), error.to_string());
        object.info.sent = sent(error.was_sent());
        object.info.batch_index = error.batch_index().and_then(|index| i32::try_from(index).ok()).unwrap_or(-1);
        if let Some(server) = error.as_server_error() {
            object.info.position = server.position().unwrap_or_default();
            object.info.internal_position = server.internal_position().unwrap_or_default();
            object.info.line = server.line().unwrap_or_default();
            let code = server.code().to_string();
            for (field, text) in [
                (CENOTE_FIELD_SQL_STATE, Some(code.as_str())),
                (CENOTE_FIELD_SERVER_MESSAGE, Some(server.message())),
                (CENOTE_FIELD_DETAIL, server.detail()),
                (CENOTE_FIELD_HINT, server.hint()),
                (CENOTE_FIELD_SEVERITY, Some(server.severity_words())),
                (CENOTE_FIELD_SCHEMA, server.schema()),
                (CENOTE_FIELD_TABLE, server.table()),
                (CENOTE_FIELD_COLUMN, server.column()),
                (CENOTE_FIELD_DATA_TYPE, server.data_type()),
                (CENOTE_FIELD_CONSTRAINT, server.constraint()),
                (CENOTE_FIELD_CONTEXT, server.context()),
                (CENOTE_FIELD_INTERNAL_QUERY, server.internal_query()),
                (CENOTE_FIELD_FILE, server.file()),
                (CENOTE_FIELD_ROUTINE, server.routine()),
            ] {
                object.set(field, text);
            }
        }
        object
    }

    pub(crate) fn mysql(error: &cenote_mysql::Error) -> ErrorObject {
        let mut object = ErrorObject::new(status::of_mysql(error), error.to_string());
        object.info.sent = sent(error.was_sent());
        if let Some(server) = error.as_server_error() {
            object.info.number = u32::from(server.code().number());
            object.set(CENOTE_FIELD_SQL_STATE, Some(server.sql_state()));
            object.set(CENOTE_FIELD_SERVER_MESSAGE, Some(server.message()));
        }
        object
    }

    /// The same, drained from a context.
    pub(crate) fn owned_by(mut self, owner: u64) -> ErrorObject {
        self.owner = owner;
        self
    }

    /// The context that it was drained from; 0: none.
    pub(crate) fn owner(&self) -> u64 {
        self.owner
    }

    /// The same, under another status.
    pub(crate) fn with_status(mut self, status: i32) -> ErrorObject {
        self.info.status = status;
        self
    }

    /// Of a batch: which statement it was.
    pub(crate) fn in_batch(mut self, index: usize) -> ErrorObject {
        self.info.batch_index = i32::try_from(index).unwrap_or(-1);
        self
    }

    pub(crate) fn status(&self) -> i32 {
        self.info.status
    }

    fn set(&mut self, field: i32, text: Option<&str>) {
        if let (Some(place), Some(text)) = (self.fields.get_mut(field as usize), text) {
            *place = text.into();
        }
    }
}

fn no_numbers(status: i32) -> CenoteErrorInfo {
    CenoteErrorInfo {
        size: size_of::<CenoteErrorInfo>() as u32,
        status,
        number: 0,
        sent: CENOTE_SENT_NO_QUESTION,
        position: 0,
        internal_position: 0,
        line: 0,
        batch_index: -1,
    }
}

fn sent(sent: Option<bool>) -> i32 {
    match sent {
        None => CENOTE_SENT_NO_QUESTION,
        Some(false) => CENOTE_SENT_NO,
        Some(true) => CENOTE_SENT_YES,
    }
}

/// Gives the host an error, if it wants one; its status.
///
/// # Safety
///
/// `place` is NULL or to be written through.
pub(crate) unsafe fn give(place: *mut u64, error: ErrorObject) -> i32 {
    let status = error.status();
    // SAFETY: by the caller's word.
    if let Ok(out) = unsafe { Out::new(place) } {
        out.write(handles::insert(Arc::new(error)));
    }
    status
}

/// The numbers of an error. `info->size` says how much of the struct the caller knows.
///
/// Any thread, leaf-safe.
///
/// # Safety
///
/// `info` is NULL or a struct of `info->size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_error_info(error: u64, info: *mut CenoteErrorInfo) -> i32 {
    leaf("cenote_error_info", || {
        let error = handles::get::<ErrorObject>(error)?;
        // SAFETY: by the caller's word.
        unsafe { write_sized(info, &error.info) }
    })
}

/// One field of an error, one of `CENOTE_FIELD_*`: UTF-8, without a NUL, valid until the error is freed. A length of 0: there is none.
///
/// Any thread, leaf-safe.
///
/// # Safety
///
/// The pointers are NULL or to be written through.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_error_field(
    error: u64,
    field: i32,
    text: *mut *const c_char,
    length: *mut usize,
) -> i32 {
    leaf("cenote_error_field", || {
        // SAFETY: by the caller's word.
        let (text, length) = unsafe { (Out::new(text)?, Out::new(length)?) };
        let error = handles::get::<ErrorObject>(error)?;
        let field = usize::try_from(field).ok().and_then(|field| error.fields.get(field)).ok_or(CENOTE_ERR_ARGUMENT)?;
        // The table keeps the object until it is freed, so the text stays where it is.
        text.write(field.as_ptr().cast());
        length.write(field.len());
        Ok(())
    })
}

/// Frees an error. 0 is none, and is let pass.
///
/// Any thread, leaf-safe.
#[unsafe(no_mangle)]
pub extern "C" fn cenote_error_free(error: u64) -> i32 {
    leaf("cenote_error_free", || match error {
        0 => Ok(()),
        error => handles::remove::<ErrorObject>(error).map(drop),
    })
}

/// Writes as much of `value` as the caller's struct has room for. Each such struct begins with its size.
///
/// # Safety
///
/// `place` is NULL or begins with a `u32` that says how many bytes it has.
pub(crate) unsafe fn write_sized<T: Copy>(place: *mut T, value: &T) -> Result<(), i32> {
    if place.is_null() {
        return Err(crate::status::CENOTE_ERR_NULL);
    }
    // SAFETY: not NULL, and begins with its size.
    let size = unsafe { place.cast::<u32>().read_unaligned() };
    if (size as usize) < size_of::<u32>() {
        return Err(CENOTE_ERR_ARGUMENT);
    }
    let written = (size as usize).min(size_of::<T>());
    // SAFETY: the first `written` bytes are both structs'.
    unsafe {
        std::ptr::copy_nonoverlapping(std::ptr::from_ref(value).cast::<u8>(), place.cast::<u8>(), written);
        // It goes on saying what the caller knows of it, or less if we know less.
        place.cast::<u32>().write_unaligned(written as u32);
    }
    Ok(())
}

/// Text of the caller.
///
/// # Safety
///
/// As for [`bytes`].
pub(crate) unsafe fn text<'a>(pointer: *const c_char, length: usize) -> Result<&'a str, i32> {
    // SAFETY: by the caller's word.
    let bytes = unsafe { bytes(pointer.cast(), length)? };
    std::str::from_utf8(bytes).map_err(|_| CENOTE_ERR_ARGUMENT)
}
