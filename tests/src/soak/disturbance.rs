//! What is done to a pool under load: its sessions are ended, its connections cut, its server restarted.

use std::time::Duration;

use fastrand::Rng;
use tokio::time::Instant;

use super::bank::{Bank, Overseer};
use super::site::Site;

/// A restart for so much time, and one at least.
const TIME_PER_RESTART: Duration = Duration::from_secs(30);

/// Between two smaller disturbances, at most.
const PAUSE_MS_MAX: u64 = 800;

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Disturbances {
    pub(crate) sessions_ended: u64,
    pub(crate) resets: u64,
    pub(crate) restarts: u32,
}

/// Disturbs for as long as there is to be work. Afterwards the server is up.
pub(crate) async fn disturb<B: Bank, O: Overseer>(site: &Site<B>) -> Disturbances {
    let mut random = Rng::with_seed(site.seed.wrapping_add(1));
    let restarts = 1 + (site.time.as_secs() / TIME_PER_RESTART.as_secs()) as u32;
    let (begin, mut done) = (Instant::now(), Disturbances::default());
    let mut overseer: Option<O> = None;
    while begin.elapsed() < site.time {
        if begin.elapsed() >= site.time * (done.restarts + 1) / (restarts + 1) {
            // Each second time by SIGKILL.
            if done.restarts % 2 == 0 {
                site.server.kill().await
            } else {
                site.server.stop().await
            }
            site.server.start().await;
            done.restarts += 1;
            overseer = None;
            continue;
        }
        tokio::time::sleep(Duration::from_millis(random.u64(..PAUSE_MS_MAX))).await;
        if random.u32(..8) == 0 {
            site.proxy.reset();
            done.resets += 1;
            continue;
        }
        // It may be lost like any other: then there is a new one the next time.
        overseer = match overseer {
            Some(mut overseer) => end_one(&mut overseer, &mut random, &mut done).await.ok().map(|()| overseer),
            None => O::connect(site.server.admin_url(), &site.pool_name).await.ok(),
        };
    }
    done
}

async fn end_one<O: Overseer>(overseer: &mut O, random: &mut Rng, done: &mut Disturbances) -> Result<(), String> {
    let sessions = overseer.sessions().await?;
    if let Some(session) = random.choice(sessions) {
        // It may have ended by itself.
        if overseer.end_session(session).await.is_ok() {
            done.sessions_ended += 1;
        }
    }
    Ok(())
}
