//! cenote's own pool, as its users would use it.
//!
//! Not built yet. What is left to write is `run` and `socket_calls`; nothing else changes but `IS_BUILT`.

use std::sync::Arc;

use anyhow::bail;

use super::turn::{Contender, Share, SocketCalls};
use crate::cli::Load;

/// Whether cenote takes part without being named.
pub(crate) const IS_BUILT: bool = false;

pub(crate) struct Cenote;

impl Cenote {
    /// Opens the pool: `load.url()` with `load.connections` as its size.
    pub(crate) fn new(_load: &Load) -> anyhow::Result<Self> {
        bail!("cenote's driver is not built yet")
    }
}

impl Contender for Cenote {
    /// A current-thread runtime, one query, `share.ready()`, then `share.callers` tasks on the pool.
    fn run(&self, _share: &Arc<Share>) -> anyhow::Result<()> {
        bail!("cenote's driver is not built yet")
    }

    /// From the pool's stats.
    fn socket_calls(&self) -> Option<SocketCalls> {
        None
    }
}
