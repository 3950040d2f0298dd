//! The order of one connection, driven by hand.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::error::LossCause;

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn waker() -> (Arc<Wakes>, Waker) {
    let wakes = Arc::new(Wakes::default());
    (Arc::clone(&wakes), Waker::from(wakes))
}

fn loss() -> Arc<Loss> {
    Arc::new(Loss { farewell: None, cause: LossCause::PeerClosed })
}

fn submit(pipeline: &mut Pipeline, bytes: &[u8]) -> SlotKey {
    pipeline.submit(|out| out.extend_from_slice(bytes), Waker::noop().clone(), false, || 0).expect("room")
}

fn reply(text: &'static str) -> Outcome {
    Outcome::Reply { bytes: Bytes::from_static(text.as_bytes()).into(), failed: false, slow: false }
}

#[test]
fn what_is_queued_waits_only_while_the_server_has_enough_to_do() {
    let mut pipeline = Pipeline::new(100, 1 << 20);
    let submit = |pipeline: &mut Pipeline, count: usize| {
        for _ in 0..count {
            pipeline.submit(|out| out.push(b'q'), Waker::noop().clone(), false, || 1).unwrap();
        }
    };
    const NEAR_US: u64 = 50;
    submit(&mut pipeline, 10);
    assert!(!pipeline.may_wait(100, NEAR_US), "the server has nothing to do");
    pipeline.take_unsent(&mut Vec::new());
    submit(&mut pipeline, 9);
    assert_eq!(pipeline.backlog(), 10);
    assert!(pipeline.may_wait(100, NEAR_US));
    assert!(!pipeline.may_wait(100, 501), "it takes so long to get there that the server would be idle");
    assert!(!pipeline.may_wait(100, u64::MAX), "nobody knows how long it takes");
    submit(&mut pipeline, 1);
    assert!(!pipeline.may_wait(100, NEAR_US), "as much waits as the server has");
    let mut wake = Vec::new();
    let reply = || Outcome::Reply { bytes: Bytes::new().into(), failed: false, slow: false };
    pipeline.take_unsent(&mut Vec::new());
    for _ in 0..16 {
        pipeline.complete(reply(), &mut wake, 2);
    }
    submit(&mut pipeline, 1);
    assert!(!pipeline.may_wait(100, NEAR_US), "the server may be done with four before a write arrives");
}

#[test]
fn a_full_write_and_the_end_of_a_pipeline_do_not_wait() {
    let mut pipeline = Pipeline::new(100, 1 << 20);
    let submit = |pipeline: &mut Pipeline, bytes: usize| {
        pipeline.submit(|out| out.resize(out.len() + bytes, b'q'), Waker::noop().clone(), false, || 1).unwrap();
    };
    (0..10).for_each(|_| submit(&mut pipeline, 1));
    pipeline.take_unsent(&mut Vec::new());
    submit(&mut pipeline, FULL_WRITE_BYTES - 1);
    assert!(pipeline.may_wait(100, 0));
    submit(&mut pipeline, 1);
    assert!(!pipeline.may_wait(100, 0), "the write is full");
    pipeline.take_unsent(&mut Vec::new());
    submit(&mut pipeline, 1);
    assert!(pipeline.may_wait(100, 0));
    pipeline.drain();
    assert!(!pipeline.may_wait(100, 0), "nothing more will come to share the write");
}

#[test]
fn limits_hold_on_both_sides_of_the_boundary() {
    let mut pipeline = Pipeline::new(2, 10);
    submit(&mut pipeline, b"123456789");
    assert_eq!(pipeline.admits(), Ok(()), "9 of 10 bytes and 1 of 2 statements");
    submit(&mut pipeline, b"a large statement may overshoot the byte limit once");
    assert_eq!(pipeline.admits(), Err(Refusal::Full));

    let mut taken = Vec::new();
    pipeline.take_unsent(&mut taken);
    assert_eq!(pipeline.admits(), Err(Refusal::Full), "2 of 2 statements");
    pipeline.complete(reply("a"), &mut Vec::new(), 0);
    assert_eq!(pipeline.admits(), Ok(()), "1 of 2 statements");
}

#[test]
fn a_waker_is_woken_once_and_the_newest_one_counts() {
    let mut pipeline = Pipeline::new(8, 100);
    let (first, first_waker) = waker();
    let (second, second_waker) = waker();
    let key = pipeline.submit(|_| {}, first_waker, false, || 0).unwrap();
    assert!(pipeline.poll(key, &second_waker).is_pending());
    let mut wake = Vec::new();
    pipeline.complete(reply("x"), &mut wake, 0);
    wake.into_iter().for_each(Waker::wake);
    assert_eq!((first.0.load(Ordering::SeqCst), second.0.load(Ordering::SeqCst)), (0, 1));
    assert!(pipeline.poll(key, &second_waker).is_ready());
}

#[test]
fn a_stale_key_touches_nobody() {
    let mut pipeline = Pipeline::new(8, 100);
    let old = submit(&mut pipeline, b"a");
    pipeline.complete(reply("a"), &mut Vec::new(), 0);
    assert!(pipeline.poll(old, Waker::noop()).is_ready());
    let new = submit(&mut pipeline, b"b");
    assert_eq!(old.index, new.index, "the slot is reused");
    pipeline.abandon(old);
    assert!(!pipeline.oldest_is_abandoned());
}

#[test]
fn an_outcome_told_early_leaves_the_order_of_replies_alone() {
    let mut pipeline = Pipeline::new(8, 100);
    let (early, next) = (submit(&mut pipeline, b"a"), submit(&mut pipeline, b"b"));
    let mut wake = Vec::new();
    for _ in 0..3 {
        pipeline.complete_early(Outcome::TooLarge, &mut wake);
    }
    assert_eq!((wake.len(), pipeline.depth()), (1, 2), "told once, and its reply is still owed");
    assert!(matches!(pipeline.poll(early, Waker::noop()), Poll::Ready(Outcome::TooLarge)));
    let later = submit(&mut pipeline, b"c");
    for text in ["a", "b", "c"] {
        pipeline.complete(reply(text), &mut wake, 0);
    }
    for (key, text) in [(next, "b"), (later, "c")] {
        let outcome = pipeline.poll(key, Waker::noop());
        assert!(
            matches!(&outcome, Poll::Ready(Outcome::Reply { bytes, .. }) if **bytes == *text.as_bytes()),
            "{outcome:?}"
        );
    }
    assert_eq!(pipeline.depth(), 0);
}

#[test]
fn a_loss_tells_the_written_from_the_unwritten() {
    let mut pipeline = Pipeline::new(8, 100);
    let keys: Vec<_> = (0..4).map(|_| submit(&mut pipeline, b"0123456789")).collect();
    let mut taken = Vec::new();
    pipeline.take_unsent(&mut taken);
    let unsent = submit(&mut pipeline, b"never taken");
    // 11 of 40 bytes left the process: the second statement may have reached the server in part.
    pipeline.lose(&loss(), 29, &mut Vec::new());
    let sent: Vec<bool> = keys
        .into_iter()
        .chain([unsent])
        .map(|key| match pipeline.poll(key, Waker::noop()) {
            Poll::Ready(Outcome::Lost { sent, .. }) => sent,
            other => panic!("expected a loss, got {other:?}"),
        })
        .collect();
    assert_eq!(sent, [true, true, false, false, false]);
    assert_eq!(pipeline.admits(), Err(Refusal::NotOpen));
}

#[test]
fn a_drained_pipeline_has_finished_what_it_took() {
    let mut pipeline = Pipeline::new(8, 100);
    submit(&mut pipeline, b"a");
    pipeline.drain();
    assert_eq!(pipeline.admits(), Err(Refusal::NotOpen));
    assert!(!pipeline.is_drained());
    pipeline.take_unsent(&mut Vec::new());
    pipeline.complete(reply("a"), &mut Vec::new(), 0);
    assert!(pipeline.is_drained());
}

#[derive(Clone, Debug)]
enum Step {
    Submit,
    Take,
    Complete,
    Abandon(usize),
    Poll(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Submit),
        2 => Just(Step::Take),
        4 => Just(Step::Complete),
        1 => any::<usize>().prop_map(Step::Abandon),
        3 => any::<usize>().prop_map(Step::Poll),
    ]
}

proptest! {
    /// Whatever callers, writer and reader do, in whatever order: each caller gets the reply of its own statement,
    /// statements leave in the order of their slots, and the limits hold.
    #[test]
    fn every_caller_gets_its_own_reply(steps in proptest::collection::vec(step(), 1..400)) {
        let mut pipeline = Pipeline::new(16, 64);
        let mut wire = Vec::new();
        let mut next = 0_u64;
        let mut answered = 0_u64;
        let mut held: Vec<(SlotKey, u64)> = Vec::new();
        let mut held_max = 0;
        for step in steps {
            match step {
                Step::Submit => {
                    let number = next;
                    let append = |out: &mut Vec<u8>| out.extend_from_slice(&number.to_be_bytes());
                    if let Ok(key) = pipeline.submit(append, Waker::noop().clone(), false, || 0) {
                        held.push((key, number));
                        next += 1;
                    }
                }
                Step::Take => {
                    let mut taken = Vec::new();
                    pipeline.take_unsent(&mut taken);
                    wire.extend(taken.chunks_exact(8).map(|b| u64::from_be_bytes(b.try_into().unwrap())));
                }
                Step::Complete => {
                    // The server answers only what it has received, in that order.
                    if answered < wire.len() as u64 {
                        let echo = Bytes::copy_from_slice(&wire[answered as usize].to_be_bytes());
                        pipeline.complete(Outcome::Reply { bytes: echo.into(), failed: false, slow: false }, &mut Vec::new(), 0);
                        answered += 1;
                    }
                }
                Step::Abandon(pick) if !held.is_empty() => {
                    let (key, _) = held.swap_remove(pick % held.len());
                    pipeline.abandon(key);
                }
                Step::Poll(pick) if !held.is_empty() => {
                    let at = pick % held.len();
                    let (key, number) = held[at];
                    match pipeline.poll(key, Waker::noop()) {
                        Poll::Ready(Outcome::Reply { bytes, .. }) => {
                            prop_assert_eq!(&bytes[..], &number.to_be_bytes()[..]);
                            held.swap_remove(at);
                        }
                        Poll::Ready(other) => prop_assert!(false, "unexpected {:?}", other),
                        Poll::Pending => prop_assert!(number >= answered, "answered {}, asked {}", answered, number),
                    }
                }
                Step::Abandon(_) | Step::Poll(_) => {}
            }
            prop_assert!(pipeline.depth() <= 16);
            prop_assert!(pipeline.unsent_bytes() <= 64 + 8);
            held_max = held_max.max(held.len());
            prop_assert!(pipeline.slots.len() <= 16 + held_max + 1, "slots are reused");
            prop_assert_eq!(pipeline.depth() as u64, next - answered);
        }
        prop_assert!(wire.iter().copied().eq(0..wire.len() as u64), "bytes leave in the order of the slots");
    }
}
