//! A slot from three sides at once: the driver that completes it, the caller who asks for its outcome (with another
//! waker than the one he queued it with), and a caller who leaves it.

use std::sync::Arc;

use super::{World, block_on, check, queue, reply, spawn, try_queue};
use crate::error::LossCause;
use crate::lane::AfterDrain;

#[test]
fn an_outcome_is_delivered_once_and_to_its_own_caller() {
    check(2, || {
        let (world, driver) = World::new(8, 8);
        let driver = world.start_prompt(driver);
        let leaver = {
            let lane = Arc::clone(&world.lane);
            spawn(move || {
                // Left when it is answered, or before; then its slot is somebody's, perhaps this caller's own.
                drop(queue(&lane, b'l'));
                assert_eq!(block_on(reply(queue(&lane, b'm'))), Some(b'm'));
            })
        };
        // Queued with a waker that soon does not count any more.
        let answer = queue(&world.lane, b's');
        assert_eq!(block_on(reply(answer)), Some(b's'));
        leaver.join().unwrap();
        world.end(driver, b"lms");
    });
}

#[test]
fn a_lane_that_is_lost_tells_everybody_and_keeps_no_slot() {
    check(3, || {
        let (world, driver) = World::new(8, 8);
        let driver = world.start_prompt(driver);
        let asker = {
            let lane = Arc::clone(&world.lane);
            spawn(move || {
                if let Some(answer) = try_queue(&lane, b'a') {
                    assert!(matches!(block_on(reply(answer)), None | Some(b'a')), "somebody else's answer");
                }
            })
        };
        let answer = try_queue(&world.lane, b'b');
        world.lane.kill(LossCause::PoolClosed);
        if let Some(answer) = answer {
            assert!(matches!(block_on(reply(answer)), None | Some(b'b')), "somebody else's answer");
        }
        driver.join().unwrap();
        asker.join().unwrap();
        assert_eq!(world.lane.lock().pipeline.occupied_slots(), 0);
    });
}

#[test]
fn a_lane_that_drains_answers_what_it_has_taken() {
    check(3, || {
        let (world, driver) = World::new(8, 8);
        let driver = world.start_prompt(driver);
        let asker = {
            let lane = Arc::clone(&world.lane);
            spawn(move || {
                if let Some(answer) = try_queue(&lane, b'a') {
                    assert_eq!(block_on(reply(answer)), Some(b'a'));
                }
            })
        };
        world.lane.drain(AfterDrain::Close);
        driver.join().unwrap();
        asker.join().unwrap();
        assert_eq!(world.lane.lock().pipeline.occupied_slots(), 0);
    });
}
