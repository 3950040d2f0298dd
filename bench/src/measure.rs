//! What the process has used so far: CPU time and allocations.
//!
//! It only reads counters; when they are read is decided by `driver::turn`.

use std::ops::Sub;
use std::time::Duration;

use alloc_tracker::{ProcessSpan, Session};
use anyhow::Context;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

/// CPU time of the whole process, all threads: a driver pays for its background threads too.
///
/// The sum of both is exact to the microsecond. The split is not: most kernels sample it at each tick (4 ms at 250 Hz)
/// and scale what they sampled since the process began to the exact sum. So the split of a 3 s turn is good to a few
/// per cent, and only in a process that has done little else.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuTime {
    pub(crate) user: Duration,
    pub(crate) system: Duration,
}

impl CpuTime {
    pub(crate) fn of_this_process() -> anyhow::Result<Self> {
        let usage = getrusage(UsageWho::RUSAGE_SELF).context("cannot read the CPU time used")?;
        Ok(Self { user: duration(usage.user_time())?, system: duration(usage.system_time())? })
    }
}

impl Sub for CpuTime {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self { user: self.user.saturating_sub(earlier.user), system: self.system.saturating_sub(earlier.system) }
    }
}

fn duration(time: TimeVal) -> anyhow::Result<Duration> {
    let seconds = u64::try_from(time.tv_sec()).context("CPU time below zero")?;
    let microseconds = u64::try_from(time.tv_usec()).context("CPU time below zero")?;
    Ok(Duration::from_secs(seconds) + Duration::from_micros(microseconds))
}

/// Counts the allocations of all threads from its start to its end. A reallocation counts as one.
///
/// It sees nothing unless the program's allocator counts.
pub(crate) struct AllocationCount {
    session: Session,
    span: ProcessSpan,
}

impl AllocationCount {
    pub(crate) fn start() -> Self {
        let session = Session::new().no_stdout().no_file();
        let span = session.operation("turn").measure_process().iterations(1);
        Self { session, span }
    }

    pub(crate) fn end(self) -> u64 {
        drop(self.span);
        let report = self.session.to_report();
        report.operations().map(|(_, operation)| operation.total_allocations_count()).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    #[global_allocator]
    static ALLOCATOR: alloc_tracker::Allocator<std::alloc::System> = alloc_tracker::Allocator::system();

    #[test]
    fn allocations_of_other_threads_are_counted() {
        const BOXES: u64 = 10_000;
        let count = AllocationCount::start();
        std::thread::spawn(|| (0..BOXES).for_each(|number| drop(black_box(Box::new(number)))))
            .join()
            .expect("the thread only allocates");
        // Other tests allocate at the same time, so there is no upper limit to hold.
        let counted = count.end();
        assert!(counted >= BOXES, "{counted}");
    }

    #[test]
    fn work_shows_as_cpu_time() {
        let before = CpuTime::of_this_process().expect("Linux reports it");
        let mut used = Duration::ZERO;
        while used < Duration::from_millis(20) {
            black_box((0..10_000_u64).map(black_box).sum::<u64>());
            let spent = CpuTime::of_this_process().expect("Linux reports it") - before;
            used = spent.user + spent.system;
        }
    }
}
