//! Callers that wait because the lane is full: `waiters.rs` by itself, and with the lane whose room is granted.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use super::{World, ask, block_on, check, queue, reply, spawn};
use crate::error::Failure;
use crate::waiters::{Place, Waiters};

#[test]
fn a_grant_is_handed_on_by_whoever_leaves() {
    check(3, || {
        let waiters = Waiters::new(4);
        let first = waiters.join().unwrap();
        let mut second = waiters.join().unwrap();
        let leaver = spawn(move || drop(first));
        let granter = {
            let waiters = Arc::clone(&waiters);
            spawn(move || waiters.grant(1))
        };
        block_on(second.granted()).unwrap();
        second.spend();
        leaver.join().unwrap();
        granter.join().unwrap();
        assert_all_gone(&waiters);
    });
}

#[test]
fn who_joins_late_is_granted_what_there_is() {
    check(3, || {
        let waiters = Waiters::new(4);
        let holders = Arc::new(AtomicUsize::new(0));
        // Who has joined asks once himself: what was granted before went to nobody.
        let caller = || {
            let (waiters, holders) = (Arc::clone(&waiters), Arc::clone(&holders));
            move || {
                let mut place = waiters.join().unwrap();
                waiters.grant(1);
                block_on(place.granted()).unwrap();
                assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0, "there is room for one");
                // Something happens here that another may come between.
                waiters.waiting();
                holders.fetch_sub(1, Ordering::SeqCst);
                place.spend();
                // His statement is answered: there is room again.
                waiters.grant(1);
            }
        };
        let others = [spawn(caller()), spawn(caller())];
        let mut place = waiters.join().unwrap();
        waiters.grant(1);
        if is_granted(&mut place) {
            place.requeue();
            waiters.grant(1);
        }
        drop(place);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_all_gone(&waiters);
    });
}

fn is_granted(place: &mut Place) -> bool {
    pin!(place.granted()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

/// Nobody is there, and no grant is: there is room for exactly one more.
fn assert_all_gone(waiters: &Arc<Waiters>) {
    assert_eq!((waiters.present(), waiters.waiting()), (0, 0));
    let mut places = [waiters.join().unwrap(), waiters.join().unwrap()];
    waiters.grant(1);
    assert!(places.iter_mut().map(is_granted).eq([true, false]), "there are grants that nobody holds");
}

#[test]
fn room_is_granted_to_whoever_waits_for_it() {
    check(2, || {
        let (world, driver) = World::new(1, 8);
        let first = queue(&world.lane, b'a');
        let driver = world.start_prompt(driver);
        assert_eq!(block_on(ask(&world.pool, b'b')).unwrap(), b'b');
        assert_eq!(block_on(reply(first)), Some(b'a'));
        world.end(driver, b"ab");
    });
}

#[test]
fn who_waits_is_told_when_the_pool_is_closed() {
    check(1, || {
        let (world, driver) = World::new(1, 8);
        let first = queue(&world.lane, b'a');
        let driver = world.start_prompt(driver);
        let pool = world.pool.clone();
        let other = spawn(move || match block_on(ask(&pool, b'b')) {
            Ok(reply) => assert_eq!(reply, b'b'),
            Err(Failure::Closed) => {}
            Err(failure) => panic!("{failure}"),
        });
        // A step before it is closed: he may be there by then.
        world.pool.inner().waiters.waiting();
        block_on(world.pool.close(Duration::MAX));
        assert_eq!(block_on(reply(first)), Some(b'a'), "what was queued is answered");
        other.join().unwrap();
        driver.join().unwrap();
        assert_eq!(world.pool.inner().waiters.present(), 0);
    });
}
