//! Leases: room on their connection, their end against handles that are kept too long, and their beginning against
//! statements of everybody.

use std::panic::Location;
use std::sync::Arc;

use super::{World, ask, block_on, check, reply, spawn, try_queue};
use crate::error::Failure;
use crate::lease::Lease;
use crate::tenancy::Tenant;

fn lease(world: &World) -> Lease<super::Echo> {
    block_on(world.pool.lease(Location::caller())).expect("the lane becomes a lease")
}

/// Whether the lane is everybody's, and how many statements are in flight on it.
fn tenancy(world: &World) -> (bool, usize) {
    let shared = world.lane.lock();
    (shared.tenancy.tenant == Tenant::PUBLIC, shared.pipeline.depth())
}

#[test]
fn room_on_a_lease_is_told_to_all_who_wait_for_it() {
    check(2, || {
        let (world, driver) = World::new(1, 8);
        let driver = world.start_prompt(driver);
        let lease = lease(&world);
        let handle = lease.pool().clone();
        let other = spawn(move || assert_eq!(block_on(ask(&handle, b'a')).unwrap(), b'a'));
        assert_eq!(block_on(ask(lease.pool(), b'b')).unwrap(), b'b');
        other.join().unwrap();
        drop(lease);
        assert_eq!(block_on(ask(&world.pool, b'c')).unwrap(), b'c', "the lane is everybody's again");
        world.end(driver, b"abc");
    });
}

#[test]
fn a_handle_that_is_kept_too_long_leaves_nothing_on_a_shared_lane() {
    check(3, || {
        let (world, driver) = World::new(8, 8);
        let driver = world.start_prompt(driver);
        let lease = lease(&world);
        let handle = lease.pool().clone();
        let late = spawn(move || match block_on(ask(&handle, b'l')) {
            Ok(reply) => assert_eq!(reply, b'l'),
            Err(Failure::Closed | Failure::Lost { .. }) => {}
            Err(failure) => panic!("{failure}"),
        });
        drop(lease);
        let (public, depth) = tenancy(&world);
        assert!(!public || depth == 0, "a lease's statement runs on a shared lane");
        late.join().unwrap();
        drop(world.pool);
        driver.join().unwrap();
    });
}

#[test]
fn a_lane_is_never_leased_with_a_strangers_statement_on_it() {
    check(2, || {
        let (world, driver) = World::new(8, 8);
        let driver = world.start_prompt(driver);
        let lane = Arc::clone(&world.lane);
        let stranger = spawn(move || {
            if let Some(answer) = try_queue(&lane, b's') {
                assert_eq!(block_on(reply(answer)), Some(b's'));
            }
        });
        let lease = lease(&world);
        assert_eq!(tenancy(&world), (false, 0), "a stranger's statement runs on a lease");
        assert_eq!(block_on(ask(lease.pool(), b'l')).unwrap(), b'l');
        drop(lease);
        stranger.join().unwrap();
        let asked_by_stranger = world.line.written().contains(&b's');
        world.end(driver, if asked_by_stranger { b"ls" } else { b"l" });
    });
}

#[test]
fn who_waits_for_the_only_lane_is_served_when_its_lease_ends() {
    check(1, || {
        let (world, driver) = World::new(8, 8);
        let driver = world.start_prompt(driver);
        let lease = lease(&world);
        let pool = world.pool.clone();
        let other = spawn(move || assert_eq!(block_on(ask(&pool, b'a')).unwrap(), b'a'));
        drop(lease);
        other.join().unwrap();
        world.end(driver, b"a");
    });
}
