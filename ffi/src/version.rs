//! Which ABI this is.

use std::ffi::c_char;

use crate::status::CENOTE_OK;

/// Raised when something a program was compiled against changes: it has to be compiled anew.
pub const CENOTE_ABI_VERSION_MAJOR: u32 = 0;
/// Raised when something is added.
pub const CENOTE_ABI_VERSION_MINOR: u32 = 1;

/// The version of the library that a program was compiled against: changes that break it.
pub const CENOTE_VERSION_MAJOR: u32 = 0;
/// Changes that it may have to know of.
pub const CENOTE_VERSION_MINOR: u32 = 1;
/// Corrections.
pub const CENOTE_VERSION_PATCH: u32 = 0;

/// The library's version, as in Cargo.toml.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The ABI that the library has: the major version in the upper 16 bits, the minor in the lower. A program runs with it if
/// the major version is the one it was compiled against and the minor is no less.
///
/// Any thread. Cannot fail.
#[unsafe(no_mangle)]
pub extern "C" fn cenote_abi_version() -> u32 {
    (CENOTE_ABI_VERSION_MAJOR << 16) | CENOTE_ABI_VERSION_MINOR
}

/// The library's version as text that lives as long as the library, without a NUL.
///
/// Any thread. Each pointer may be NULL.
///
/// # Safety
///
/// Pointers are NULL or to be written through.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_version(text: *mut *const c_char, length: *mut usize) -> i32 {
    if !text.is_null() {
        // SAFETY: not NULL, and the caller's to be written through.
        unsafe { text.write(VERSION.as_ptr().cast()) };
    }
    if !length.is_null() {
        // SAFETY: as above.
        unsafe { length.write(VERSION.len()) };
    }
    CENOTE_OK
}
