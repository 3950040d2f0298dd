//! Threads of ours in somebody else's process: signals are the host's, and no handler of its runs on a thread of ours.

use std::mem::MaybeUninit;

/// Runs `work` with all signals blocked on this thread: threads that are started meanwhile have them blocked for good.
pub(crate) fn without_signals<T>(work: impl FnOnce() -> T) -> T {
    struct Restore(libc::sigset_t);
    impl Drop for Restore {
        fn drop(&mut self) {
            // SAFETY: the set was filled below.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
        }
    }
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigfillset fills the one set, and pthread_sigmask the other, before they are read. Neither fails with these
    // arguments.
    let before = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        before.assume_init()
    };
    let _restore = Restore(before);
    work()
}
