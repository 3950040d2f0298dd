//! One outage, from a pool that serves everybody until some seconds after it does so again.
//!
//! ```text
//!   all served ── SIGKILL ── first connection lost ···· 5 s ···· start ──── up ──── all served ···· 3 s ···· end
//!                                 |<---- CPU while down ---->|<-- CPU -->|<- time ->|<--- no error --->|
//! ```

use std::time::{Duration, Instant};

use cenote_tests::{PrivateServer, must_end, wait_until};

use crate::callers::Callers;
use crate::client::Client;
use crate::figures::Figures;
use crate::watch::{Mark, Watch};

/// Between the loss of the first connection and the start.
const DOWN: Duration = Duration::from_secs(5);

/// How long it is looked for errors after everybody was served again.
const AFTERWARDS: Duration = Duration::from_secs(3);

/// Between two tries to log in: by so much the server may have been up before it is seen.
const PROBE_INTERVAL: Duration = Duration::from_millis(5);

/// Measures one outage. The server is up before and after.
///
/// # Panics
///
/// When something hangs, or the server does not come up.
pub(crate) async fn measure<C: Client>(server: &PrivateServer, client: &C) -> Figures {
    let callers = Callers::start(client);
    wait_until("everyone is served", async || callers.all_served()).await;
    let watch = Watch::start(client);
    callers.take_told();
    server.kill().await;
    wait_until("the loss is seen", async || watch.loss().is_some()).await;
    let loss = watch.loss().expect("it is seen");
    let failures_before = client.stats().connect_failures;
    tokio::time::sleep(DOWN.saturating_sub(loss.at.elapsed())).await;
    let end_of_down = Mark::now();
    let connect_failures = client.stats().connect_failures - failures_before;
    // Whoever is served from now on is served by the new server: it is long since the old one has said its last.
    let errors_down = callers.take_told().errors;

    let (up, ()) = tokio::join!(must_end("the start", wait_for_log_in::<C>(server.url())), server.start());
    wait_until("everyone is served again", async || callers.all_served()).await;
    let served_again = callers.take_told();
    tokio::time::sleep(AFTERWARDS).await;
    let errors_after = callers.take_told().errors;
    callers.stop().await;
    let connecting_max = watch.stop();
    let all_served_at = served_again.all_served_at().expect("it was waited for");
    Figures {
        down_percent: end_of_down.percent_since(&loss),
        starting_percent: up.percent_since(&end_of_down),
        connecting_max,
        connect_failures,
        starting: up.at - end_of_down.at,
        served_again: all_served_at.saturating_duration_since(up.at),
        errors_down,
        errors_starting: served_again.errors,
        errors_after,
    }
}

/// Waits until a log-in succeeds. When the one that did was begun: an earlier moment than its end, which is to our
/// disadvantage.
async fn wait_for_log_in<C: Client>(url: &str) -> Mark {
    loop {
        let begin = Mark::now();
        if C::can_log_in(url).await {
            return begin;
        }
        tokio::time::sleep_until((Instant::now() + PROBE_INTERVAL).into()).await;
    }
}
