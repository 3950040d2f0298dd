//! Parameters: values as the host writes them, and how each database is sent them.
//!
//! | `CENOTE_VALUE_*` | holds | Postgres | MySQL |
//! |---|---|---|---|
//! | `NULL` | | NULL of the parameter's type | NULL |
//! | `BOOL` | `bits`: 0 or 1 | bool | 0, 1 |
//! | `INT`, `UINT` | `bits` | int2 to int8, oid, float4, float8, numeric | BIGINT, BIGINT UNSIGNED |
//! | `DOUBLE` | `bits`: those of the double | float4, float8, numeric | DOUBLE |
//! | `TEXT` | `data`: UTF-8 | any type, as the server reads text | text |
//! | `BYTES` | `data` | bytea | bytes |
//! | `JSON` | `data`: UTF-8 | json, jsonb, text | text |
//! | `TIMESTAMP` | `bits`: microseconds since 1970, UTC | timestamptz, timestamp, date | DATETIME |
//! | `DATETIME` | `bits`: microseconds since 1970, of no zone | timestamp, timestamptz (as UTC), date | DATETIME |
//! | `DATE` | `bits`: days since 1970 | date, timestamp | DATE |
//! | `TIME` | `bits`: microseconds since midnight | time | TIME |
//! | `INTERVAL` | `bits`: microseconds | interval | TIME |
//! | `UUID` | `data`: 16 bytes | uuid | bytes |
//! | `DECIMAL` | `data`: digits as text | numeric, any type as text | DECIMAL |
//! | `LIST` | `data`: `length` values | arrays | an error: MySQL has none; send JSON |
//!
//! A value that the parameter's type cannot hold is an error that names the parameter; nothing was sent then.

mod mysql;
mod postgres;

use std::ffi::c_void;

use crate::guard;
use crate::status::{CENOTE_ERR_ARGUMENT, CENOTE_ERR_NULL};

/// NULL.
pub const CENOTE_VALUE_NULL: i32 = 0;
/// A truth value.
pub const CENOTE_VALUE_BOOL: i32 = 1;
/// A signed integer.
pub const CENOTE_VALUE_INT: i32 = 2;
/// An integer that is not negative.
pub const CENOTE_VALUE_UINT: i32 = 3;
/// A floating-point number.
pub const CENOTE_VALUE_DOUBLE: i32 = 4;
/// Text.
pub const CENOTE_VALUE_TEXT: i32 = 5;
/// Bytes.
pub const CENOTE_VALUE_BYTES: i32 = 6;
/// JSON.
pub const CENOTE_VALUE_JSON: i32 = 7;
/// A moment.
pub const CENOTE_VALUE_TIMESTAMP: i32 = 8;
/// A date and a time, wherever.
pub const CENOTE_VALUE_DATETIME: i32 = 9;
/// A date.
pub const CENOTE_VALUE_DATE: i32 = 10;
/// A time of day.
pub const CENOTE_VALUE_TIME: i32 = 11;
/// A length of time.
pub const CENOTE_VALUE_INTERVAL: i32 = 12;
/// A UUID.
pub const CENOTE_VALUE_UUID: i32 = 13;
/// A decimal number.
pub const CENOTE_VALUE_DECIMAL: i32 = 14;
/// Several values.
pub const CENOTE_VALUE_LIST: i32 = 15;

/// Lists within lists, at most: as deep as Postgres' arrays have dimensions.
const LIST_DEPTH_MAX: u32 = 6;

/// A parameter. Zeroed it is NULL.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CenoteValue {
    /// One of `CENOTE_VALUE_*`.
    pub kind: i32,
    /// Nothing yet: 0.
    pub reserved: u32,
    /// What is held in a number.
    pub bits: u64,
    /// What is held in bytes. In a request of one piece: where they begin in it.
    pub data: *const c_void,
    /// How many bytes, or of a list: how many values.
    pub length: usize,
}

/// A parameter that is ours.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Box<str>),
    Bytes(Box<[u8]>),
    Json(Box<str>),
    Timestamp { us: i64 },
    DateTime { us: i64 },
    Date { days: i64 },
    Time { us: i64 },
    Interval { us: i64 },
    Uuid([u8; 16]),
    Decimal(Box<str>),
    List(Box<[Value]>),
}

/// Where the bytes of values are.
#[derive(Clone, Copy)]
pub(crate) enum Memory<'a> {
    /// Where their pointers say.
    Host,
    /// In this piece, and the pointers are places in it.
    Piece(&'a [u8]),
}

impl<'a> Memory<'a> {
    /// # Safety
    ///
    /// Of the host's memory: `data` is to be read for `length` bytes while the result is used.
    pub(crate) unsafe fn bytes(self, data: *const u8, length: usize) -> Result<&'a [u8], i32> {
        match self {
            // SAFETY: by the caller's word.
            Memory::Host => unsafe { guard::bytes(data, length) },
            Memory::Piece(piece) => {
                let begins_at = data.addr();
                let ends_at = begins_at.checked_add(length).ok_or(CENOTE_ERR_ARGUMENT)?;
                piece.get(begins_at..ends_at).ok_or(CENOTE_ERR_ARGUMENT)
            }
        }
    }

    /// # Safety
    ///
    /// As for [`bytes`](Memory::bytes), of `count` values.
    pub(crate) unsafe fn values(self, data: *const u8, count: usize) -> Result<Vec<Value>, i32> {
        // SAFETY: as this function.
        unsafe { self.values_at_depth(data, count, 0) }
    }

    unsafe fn values_at_depth(self, data: *const u8, count: usize, depth: u32) -> Result<Vec<Value>, i32> {
        if count == 0 {
            return Ok(Vec::new());
        }
        if matches!(self, Memory::Host) && data.is_null() {
            return Err(CENOTE_ERR_NULL);
        }
        let length = count.checked_mul(size_of::<CenoteValue>()).ok_or(CENOTE_ERR_ARGUMENT)?;
        // SAFETY: by the caller's word.
        let bytes = unsafe { self.bytes(data, length)? };
        let mut values = Vec::with_capacity(count);
        for value in bytes.chunks_exact(size_of::<CenoteValue>()) {
            // SAFETY: so many bytes, and any bytes are a `CenoteValue`.
            let value = unsafe { value.as_ptr().cast::<CenoteValue>().read_unaligned() };
            // SAFETY: by the caller's word.
            values.push(unsafe { self.value(&value, depth)? });
        }
        Ok(values)
    }

    unsafe fn value(self, value: &CenoteValue, depth: u32) -> Result<Value, i32> {
        // SAFETY: by the caller's word.
        let bytes = || unsafe { self.bytes(value.data.cast(), value.length) };
        let text = || std::str::from_utf8(bytes()?).map(Box::from).map_err(|_| CENOTE_ERR_ARGUMENT);
        let signed = value.bits.cast_signed();
        Ok(match value.kind {
            CENOTE_VALUE_NULL => Value::Null,
            CENOTE_VALUE_BOOL => Value::Bool(value.bits != 0),
            CENOTE_VALUE_INT => Value::Int(signed),
            CENOTE_VALUE_UINT => Value::Uint(value.bits),
            CENOTE_VALUE_DOUBLE => Value::Double(f64::from_bits(value.bits)),
            CENOTE_VALUE_TEXT => Value::Text(text()?),
            CENOTE_VALUE_BYTES => Value::Bytes(bytes()?.into()),
            CENOTE_VALUE_JSON => Value::Json(text()?),
            CENOTE_VALUE_TIMESTAMP => Value::Timestamp { us: signed },
            CENOTE_VALUE_DATETIME => Value::DateTime { us: signed },
            CENOTE_VALUE_DATE => Value::Date { days: signed },
            CENOTE_VALUE_TIME => Value::Time { us: signed },
            CENOTE_VALUE_INTERVAL => Value::Interval { us: signed },
            CENOTE_VALUE_UUID => Value::Uuid(bytes()?.try_into().map_err(|_| CENOTE_ERR_ARGUMENT)?),
            CENOTE_VALUE_DECIMAL => Value::Decimal(text()?),
            CENOTE_VALUE_LIST if depth < LIST_DEPTH_MAX => {
                // SAFETY: by the caller's word.
                Value::List(unsafe { self.values_at_depth(value.data.cast(), value.length, depth + 1)? }.into())
            }
            _ => return Err(CENOTE_ERR_ARGUMENT),
        })
    }
}

/// A value does not fit the type of its parameter.
#[derive(Debug)]
struct Unfit(String);

impl std::fmt::Display for Unfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unfit {}

impl Value {
    /// What it is, for a person who is told that it does not fit.
    fn kind(&self) -> &'static str {
        match self {
            Value::Null => "NULL",
            Value::Bool(_) => "a truth value",
            Value::Int(_) | Value::Uint(_) => "an integer",
            Value::Double(_) => "a floating-point number",
            Value::Text(_) => "text",
            Value::Bytes(_) => "bytes",
            Value::Json(_) => "JSON",
            Value::Timestamp { .. } => "a moment",
            Value::DateTime { .. } => "a date with a time",
            Value::Date { .. } => "a date",
            Value::Time { .. } => "a time of day",
            Value::Interval { .. } => "a length of time",
            Value::Uuid(_) => "a UUID",
            Value::Decimal(_) => "a decimal number",
            Value::List(_) => "a list",
        }
    }
}
