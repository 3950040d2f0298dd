//! How a host is told that something is there to be drained: by a message to a Dart port, an eventfd, or a call. Once, for any
//! number of completions, until it has drained.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::status::{CENOTE_ERR_ARGUMENT, CENOTE_ERR_NULL, CENOTE_ERR_SYSTEM};

/// Nobody is told: the host waits in `cenote_wait`, or looks now and then.
pub const CENOTE_WAKE_NONE: i32 = 0;
/// The descriptor of `cenote_context_fd` becomes readable.
pub const CENOTE_WAKE_EVENTFD: i32 = 1;
/// A function of the host is called, on the context's own thread of ours. It may call whatever it likes; only `cenote_wait` is
/// `CENOTE_ERR_BUSY` there.
pub const CENOTE_WAKE_CALLBACK: i32 = 2;
/// An integer is posted to a Dart port.
pub const CENOTE_WAKE_DART_PORT: i32 = 3;

/// The major version of Dart's table that is understood. The minor may be any: entries are found by name.
const DART_TABLE_MAJOR: c_int = 2;

/// Entries of Dart's table: it has some forty.
const DART_ENTRIES_MAX: usize = 4_096;

/// `bool Dart_PostInteger(Dart_Port port, int64_t message)`
type PostInteger = unsafe extern "C" fn(port: i64, message: i64) -> bool;

/// A function of the host, called with the pointer it gave.
pub(crate) type WakeFunction = unsafe extern "C" fn(data: *mut c_void);

pub(crate) enum Wake {
    None,
    EventFd(OwnedFd),
    Callback { function: WakeFunction, data: *mut c_void },
    DartPort { post: PostInteger, port: i64 },
}

// SAFETY: `data` is the host's, who says by giving it that it may be passed to the function on any thread.
unsafe impl Send for Wake {}
// SAFETY: as above, and it is called by one thread at a time at most as often as the host drains.
unsafe impl Sync for Wake {}

/// Whether there was anybody to tell.
#[derive(PartialEq, Eq)]
pub(crate) enum Told {
    Yes,
    /// The port is closed: its isolate is gone.
    NobodyIsThere,
}

impl Wake {
    pub(crate) fn event_fd() -> Result<Wake, i32> {
        // SAFETY: no pointer is involved.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(CENOTE_ERR_SYSTEM);
        }
        // SAFETY: it was made just now, and nobody else has it.
        Ok(Wake::EventFd(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// The port of an isolate, by the table that `NativeApi.initializeApiDLData` points to.
    ///
    /// # Safety
    ///
    /// `table` is NULL or Dart's.
    pub(crate) unsafe fn dart_port(table: *const c_void, port: i64) -> Result<Wake, i32> {
        if table.is_null() {
            return Err(CENOTE_ERR_NULL);
        }
        if port == 0 {
            return Err(CENOTE_ERR_ARGUMENT);
        }
        // SAFETY: by the caller's word.
        unsafe { post_integer(table) }.map(|post| Wake::DartPort { post, port })
    }

    pub(crate) fn fd(&self) -> Option<i32> {
        match self {
            Wake::EventFd(fd) => Some(fd.as_raw_fd()),
            _ => None,
        }
    }

    /// Tells the host. Never from a call that it makes as a leaf.
    pub(crate) fn tell(&self) -> Told {
        match self {
            Wake::None => {}
            Wake::EventFd(fd) => {
                let one = 1_u64.to_ne_bytes();
                // It fails when the counter is full, and then it is readable anyway.
                // SAFETY: eight bytes of ours.
                unsafe { libc::write(fd.as_raw_fd(), one.as_ptr().cast(), one.len()) };
            }
            Wake::Callback { function, data } => {
                // SAFETY: the host's own function and pointer, which it keeps until the context is freed.
                unsafe { function(*data) };
            }
            Wake::DartPort { post, port } => {
                // SAFETY: the VM's function, which takes any port on any thread.
                if !unsafe { post(*port, 0) } {
                    return Told::NobodyIsThere;
                }
            }
        }
        Told::Yes
    }

    /// The host has heard: an eventfd is not readable any more.
    pub(crate) fn reset(&self) {
        if let Wake::EventFd(fd) = self {
            let mut count = [0_u8; 8];
            // It fails when the counter is 0, which is what is wanted.
            // SAFETY: eight bytes of ours.
            unsafe { libc::read(fd.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
        }
    }
}

/// Dart's `DartApi`, of dart_api_dl.
#[repr(C)]
struct DartTable {
    major: c_int,
    minor: c_int,
    entries: *const DartEntry,
}

/// `DartApiEntry`. The last has no name.
#[repr(C)]
struct DartEntry {
    name: *const c_char,
    function: Option<PostInteger>,
}

/// # Safety
///
/// `table` is Dart's.
unsafe fn post_integer(table: *const c_void) -> Result<PostInteger, i32> {
    // SAFETY: by the caller's word.
    let table = unsafe { &*table.cast::<DartTable>() };
    if table.major != DART_TABLE_MAJOR || table.entries.is_null() {
        return Err(CENOTE_ERR_ARGUMENT);
    }
    for number in 0..DART_ENTRIES_MAX {
        // SAFETY: the table ends with an entry without a name, and no entry behind that is looked at.
        let entry = unsafe { &*table.entries.add(number) };
        if entry.name.is_null() {
            break;
        }
        // SAFETY: names of entries are C strings that live as long as the VM.
        if unsafe { CStr::from_ptr(entry.name) } == c"Dart_PostInteger" {
            return entry.function.ok_or(CENOTE_ERR_ARGUMENT);
        }
    }
    Err(CENOTE_ERR_ARGUMENT)
}
