//! The benchmark's twin, whose allocator counts. It runs the turns that `allocations_per_query` comes from.
//!
//! Counting has a program of its own because it is not free: per-thread counters, the cheapest to be had, were 2 % of
//! all CPU time in tokio-postgres, which allocates 14 times per query, and nothing in a driver that does not allocate.
//! In the timed turns it would flatter whoever allocates least.

use std::process::ExitCode;

use cenote_bench::Allocator;

#[global_allocator]
static ALLOCATOR: alloc_tracker::Allocator<std::alloc::System> = alloc_tracker::Allocator::system();

fn main() -> ExitCode {
    cenote_bench::run(Allocator::Counting)
}
