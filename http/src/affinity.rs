//! Keeping a thread on one core.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Keeps the calling thread on one of the cores it may use: the one at place `index` among them, counted
/// round.
pub(crate) fn pin(index: usize) -> io::Result<()> {
    let allowed = sched_getaffinity(None)?;
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect();
    let Some(core) = cores.get(index % cores.len().max(1)) else {
        return Ok(());
    };
    let mut chosen = CpuSet::new();
    chosen.set(*core);
    Ok(sched_setaffinity(None, &chosen)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_may_use_one_core() {
        let cores = std::thread::spawn(|| {
            pin(usize::MAX).unwrap();
            sched_getaffinity(None).unwrap().count()
        });
        assert_eq!(cores.join().unwrap(), 1);
    }
}
