//! Waiting for conditions, and for the end of what must end.

use std::future::Future;
use std::time::Duration;

/// Between two looks at a condition.
const INTERVAL: Duration = Duration::from_millis(5);

/// Looks at a condition: half a minute of them and more, which is far beyond what a loaded machine needs for anything
/// that is waited for here.
const TRIES: usize = 6_000;

/// Past this, what ought to have ended is taken to hang. Not a measure of speed: no test comes near it.
pub(crate) const HANGS_AFTER: Duration = Duration::from_secs(120);

/// Waits until `condition` holds.
///
/// # Panics
///
/// When it does not come to hold; the panic says `what` was waited for.
pub async fn wait_until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    for _ in 0..TRIES {
        if condition().await {
            return;
        }
        tokio::time::sleep(INTERVAL).await;
    }
    panic!("this did not come true: {what}");
}

/// The output of a future that must not hang.
///
/// # Panics
///
/// When it hangs; the panic says `what` did.
pub async fn must_end<F: Future>(what: &str, future: F) -> F::Output {
    match tokio::time::timeout(HANGS_AFTER, future).await {
        Ok(output) => output,
        Err(_) => panic!("this hangs: {what}"),
    }
}
