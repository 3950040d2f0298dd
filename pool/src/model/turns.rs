//! Callers that queue statements against the driver that takes them and goes to sleep: `Lane::submit`, `Driver::collect`.

use std::sync::Arc;

use super::{World, block_on, check, queue, reply, spawn};

#[test]
fn no_wake_up_is_lost_and_each_gets_his_own_answer() {
    check(2, || {
        let (world, driver) = World::new(8, 8);
        let driver = world.start_prompt(driver);
        let lane = Arc::clone(&world.lane);
        let other = spawn(move || assert_eq!(block_on(reply(queue(&lane, b'b'))), Some(b'b')));
        assert_eq!(block_on(reply(queue(&world.lane, b'a'))), Some(b'a'));
        other.join().unwrap();
        world.end(driver, b"ab");
    });
}

#[test]
fn what_is_queued_while_others_are_in_flight_is_written() {
    check(2, || {
        let (world, driver) = World::new(8, 8);
        let [driver, server] = world.start(driver);
        let first = queue(&world.lane, b'a');
        assert_eq!(block_on(reply(queue(&world.lane, b'b'))), Some(b'b'));
        assert_eq!(block_on(reply(first)), Some(b'a'));
        let line = world.line.clone();
        world.end(driver, b"ab");
        line.hang_up();
        server.join().unwrap();
    });
}

#[test]
fn what_is_queued_while_a_write_is_unfinished_is_written() {
    check(2, || {
        let (world, driver) = World::new(8, 1);
        let first = queue(&world.lane, b'a');
        let second = queue(&world.lane, b'b');
        let [driver, server] = world.start(driver);
        assert_eq!(block_on(reply(queue(&world.lane, b'c'))), Some(b'c'));
        assert_eq!(block_on(reply(first)), Some(b'a'));
        assert_eq!(block_on(reply(second)), Some(b'b'));
        let line = world.line.clone();
        world.end(driver, b"abc");
        line.hang_up();
        server.join().unwrap();
    });
}
