//! The way back of a lease that is not as it was: rolled back, reset, and looked at, or closed.
//!
//! It is not on the way of anybody's query. It runs on the library's own thread from the moment the lease is dropped,
//! whatever runtime its owner had; nobody has to borrow the connection for it to be cleaned.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use crate::cancel::{Begun, Request, Why};
use crate::connect::within;
use crate::error::LossCause;
use crate::home;
use crate::lane::Lane;
use crate::language::Language;
use crate::pipeline::Outcome;
use crate::pool::Inner;
use crate::tenancy::Tenant;
use crate::trace;

/// What is not clean after so long is closed.
const RESTORE_TIMEOUT: Duration = Duration::from_secs(5);

/// What is in flight is waited for so long before the server is asked to stop it.
const PATIENCE: Duration = Duration::from_millis(100);

/// Begins to restore a lane whose lease was dropped.
pub(crate) fn begin<L: Language>(pool: Arc<Inner<L>>, lane: Arc<Lane<L>>, tenant: Tenant) {
    let Some(runtime) = home::background() else {
        lane.kill(LossCause::LeaseEnded);
        return;
    };
    runtime.spawn(async move {
        match within(RESTORE_TIMEOUT, restore(&pool, &lane, tenant)).await {
            Some(Some(())) => {
                pool.counters.leases_restored.add(1);
                trace::lease_restored(lane.number);
                pool.give_back(&lane, tenant);
            }
            Some(None) | None => {
                pool.counters.leases_closed.add(1);
                trace::lease_closed(lane.number);
                lane.kill(LossCause::LeaseEnded);
            }
        }
    });
}

/// `None`: it cannot be had as it was.
async fn restore<L: Language>(pool: &Arc<Inner<L>>, lane: &Arc<Lane<L>>, tenant: Tenant) -> Option<()> {
    // Before anything else, what is on its way has to arrive: it must not hit what comes next.
    poll_fn(|cx| lane.poll_cancelled(cx, tenant)).await;
    // Queued behind what is in flight: most of that ends soon.
    let mut rolled_back = pin!(run(pool, lane, tenant, vec![L::rollback()]));
    match within(PATIENCE, rolled_back.as_mut()).await {
        Some(done) => done?,
        None => {
            // A commit is not stopped.
            let ending = lane.lock().tenancy.ending;
            if !ending && let Some(Begun::New(request)) = Request::begin(pool, lane, tenant, Why::Restored) {
                // It ends by itself, or it has to be waited for: both show in what follows.
                request.send().await;
            }
            rolled_back.await?;
            // One more trip: the request may have come when nothing ran.
            run(pool, lane, tenant, vec![L::rollback()]).await?;
        }
    }
    let (changed, forget_prepared) = {
        let tenancy = &lane.lock().tenancy;
        if tenancy.spoiled {
            return None;
        }
        (tenancy.changed, tenancy.prepared_changed || L::RESET_FORGETS_PREPARED)
    };
    if changed {
        run(pool, lane, tenant, pool.language.reset(forget_prepared)).await?;
        if forget_prepared {
            lane.lock().prepared.forget_all();
        }
    }
    {
        let tenancy = &mut lane.lock().tenancy;
        tenancy.changed = false;
        tenancy.disturbed = false;
    }
    loop {
        {
            let shared = lane.lock();
            if !shared.tenancy.is_clean() {
                return None;
            }
            if shared.is_at_rest() {
                return Some(());
            }
        }
        // Something was queued of itself behind what ended the transaction: what was owed, or the question whether it is
        // still open, which an error before the end has brought about.
        run(pool, lane, tenant, vec![L::rollback()]).await?;
    }
}

/// Runs messages of one reply each; `None` if any of them fails.
async fn run<L: Language>(
    pool: &Arc<Inner<L>>,
    lane: &Arc<Lane<L>>,
    tenant: Tenant,
    messages: Vec<Vec<u8>>,
) -> Option<()> {
    let mut answers = Vec::with_capacity(messages.len());
    for message in &messages {
        answers.push(poll_fn(|cx| lane.poll_send(cx, message, tenant, pool.now_us())).await?);
    }
    for mut answer in answers {
        let (outcome, _) = poll_fn(|cx| answer.poll(cx)).await;
        if !matches!(outcome, Outcome::Reply { failed: false, .. }) {
            return None;
        }
    }
    Some(())
}
