//! The invariants of the design that this crate carries, one thread at a time.
#![cfg(not(loom))]

mod common;

use common::{stamped, Device, Freed, Reset};
use fencepost_lifetime::{Disposal, LastUse, RetireQueue, Serial, Slot};
use std::{
    panic::{catch_unwind, AssertUnwindSafe},
    sync::Arc,
};

// I1: nothing is freed while a command buffer exists that refers to it.

#[test]
fn i1_command_buffers_are_reset_before_anything_is_freed() {
    let (device, mut submitter) = Device::new();
    let (a, b) = (device.object("a"), device.object("b"));
    device.submit(&mut submitter, &[&a, &b]);
    device.submit(&mut submitter, &[&b]);
    b.destroy(&device);
    a.destroy(&device);
    assert_eq!(device.events(), []);
    device.advance(2);
    // One reset for both submissions, then in the order of the serials.
    assert_eq!(device.events(), [Reset(2), Freed("a"), Freed("b")]);
}

#[test]
fn i1_nothing_is_free_while_the_reset_runs() {
    let (device, mut submitter) = Device::new();
    let object = device.object("object");
    device.submit(&mut submitter, &[&object]);
    let free = device.queue.advance(Serial::new(1), |_| {
        // The fence has passed, but the command buffer that refers to the object exists.
        assert_eq!(device.queue.reclaimed(), Serial::NEVER);
        std::thread::scope(|scope| scope.spawn(|| object.destroy(&device)).join().unwrap());
        assert_eq!(device.events(), []);
    });
    assert_eq!(free.len(), 1, "it came in time for this very step");
    assert!(device.queue.is_empty());
}

#[test]
fn i1_a_reset_that_panics_frees_nothing_and_loses_nothing() {
    let (device, mut submitter) = Device::new();
    let (in_flight, idle) = (device.object("in flight"), device.object("idle"));
    device.submit(&mut submitter, &[&in_flight]);
    in_flight.destroy(&device);
    // An aborted submission has left something behind as well.
    let submission = stamped(&mut submitter, &[&idle]);
    idle.destroy(&device);
    drop(submission);

    let panicked = catch_unwind(AssertUnwindSafe(|| {
        device
            .queue
            .advance(Serial::new(1), |_| panic!("on purpose"))
    }));
    assert!(panicked.is_err());
    assert_eq!(device.queue.reclaimed(), Serial::NEVER);
    assert_eq!(device.queue.len(), 2);
    device.advance(1);
    assert_eq!(
        device.events(),
        [Reset(1), Freed("in flight"), Freed("idle")]
    );
}

#[test]
fn i1_no_reset_when_the_watermark_does_not_move() {
    let (device, mut submitter) = Device::new();
    device.submit(&mut submitter, &[]);
    device.advance(0);
    device.advance(1);
    device.advance(1);
    device.advance(0);
    assert_eq!(device.events(), [Reset(1)]);
    assert_eq!(device.queue.reclaimed(), Serial::new(1));
}

// I2: at most once, and all in the end.

#[test]
fn i2_destroyed_twice_is_freed_once() {
    let (device, mut submitter) = Device::new();
    let (idle, in_flight) = (device.object("idle"), device.object("in flight"));
    device.submit(&mut submitter, &[&in_flight]);
    for _ in 0..2 {
        idle.destroy(&device);
        in_flight.destroy(&device);
    }
    assert_eq!(device.events(), [Freed("idle")]);
    device.advance(1);
    assert_eq!(device.events(), [Reset(1), Freed("in flight")]);
    idle.destroy(&device);
    in_flight.destroy(&device);
    device.advance(1);
    assert_eq!(device.events(), []);
}

#[test]
#[should_panic(expected = "a payload was taken twice")]
fn i2_a_payload_cannot_be_taken_twice() {
    let slot = Slot::new(());
    // SAFETY: the slot was never shared.
    unsafe { slot.take() };
    // SAFETY: as before; that it panics is the point.
    unsafe { slot.take() };
}

#[test]
fn i2_everything_is_given_back_at_the_end() {
    let (device, mut submitter) = Device::new();
    let objects: Vec<_> = (0..100).map(|_| device.object("object")).collect();
    for round in 0..100 {
        let uses: Vec<_> = objects[round..].iter().step_by(3).collect();
        if round % 7 == 3 {
            drop(stamped(&mut submitter, &uses)); // aborted
        } else {
            device.submit(&mut submitter, &uses);
        }
        objects[round].destroy(&device);
    }
    device.advance(device.queue.published().get());
    assert!(device.queue.is_empty());
    let freed = device
        .events()
        .into_iter()
        .filter(|e| *e == Freed("object"));
    assert_eq!(freed.count(), 100);
}

// I3: as soon as the last use has completed.

#[test]
fn i3_never_used_is_freed_at_once() {
    let (device, mut submitter) = Device::new();
    let (busy, idle) = (device.object("busy"), device.object("idle"));
    for _ in 0..10 {
        device.submit(&mut submitter, &[&busy]);
    }
    idle.destroy(&device);
    assert_eq!(device.events(), [Freed("idle")]);
}

#[test]
fn i3_completed_is_freed_at_once() {
    let (device, mut submitter) = Device::new();
    let object = device.object("object");
    device.submit(&mut submitter, &[&object]);
    device.submit(&mut submitter, &[]);
    device.advance(1);
    object.destroy(&device);
    assert_eq!(device.events(), [Reset(1), Freed("object")]);
}

#[test]
fn i3_in_flight_is_freed_with_its_last_submission_and_no_later() {
    let (device, mut submitter) = Device::new();
    let object = device.object("object");
    device.submit(&mut submitter, &[]);
    device.submit(&mut submitter, &[&object]);
    device.submit(&mut submitter, &[&object]);
    object.destroy(&device);
    device.submit(&mut submitter, &[]);
    device.advance(1);
    device.advance(2);
    assert_eq!(device.events(), [Reset(1), Reset(2)]);
    device.advance(3);
    assert_eq!(device.events(), [Reset(3), Freed("object")]);
}

#[test]
fn i3_the_fence_may_be_ahead_of_the_watermark_and_of_the_commit() {
    let (device, mut submitter) = Device::new();
    let object = device.object("object");
    let submission = stamped(&mut submitter, &[&object]);
    object.destroy(&device);
    // The GPU is done before the commit: too early to give anything back.
    device.advance(1);
    assert_eq!(device.events(), []);
    submission.commit();
    assert_eq!(device.queue.len(), 1);
    device.advance(1);
    assert_eq!(device.events(), [Reset(1), Freed("object")]);
}

#[test]
fn i3_values_above_the_last_published_count_as_that() {
    let (device, mut submitter) = Device::new();
    let object = device.object("object");
    device.submit(&mut submitter, &[&object]);
    object.destroy(&device);
    device.advance(u64::MAX);
    assert_eq!(device.queue.reclaimed(), Serial::new(1));
    assert_eq!(device.events(), [Reset(1), Freed("object")]);
    // And what comes after waits as it should.
    let next = device.object("next");
    device.submit(&mut submitter, &[&next]);
    next.destroy(&device);
    assert_eq!(device.events(), []);
    device.advance(2);
    assert_eq!(device.events(), [Reset(2), Freed("next")]);
}

// I4: a submission that fails delays nothing and frees nothing early.

#[test]
fn i4_an_aborted_submission_followed_by_nothing_delays_nothing() {
    let (device, mut submitter) = Device::new();
    let object = device.object("object");
    drop(stamped(&mut submitter, &[&object]));
    assert_eq!(object.last_use().get(), Serial::NEVER);
    object.destroy(&device);
    assert_eq!(device.events(), [Freed("object")]);
}

#[test]
fn i4_destroyed_while_open_and_idle_before_comes_back_at_once() {
    let (device, mut submitter) = Device::new();
    let (never_used, completed) = (device.object("never used"), device.object("completed"));
    device.submit(&mut submitter, &[&completed]);
    device.advance(1);
    assert_eq!(device.events(), [Reset(1)]);

    let submission = stamped(&mut submitter, &[&never_used, &completed]);
    never_used.destroy(&device);
    completed.destroy(&device);
    device.advance(1);
    assert_eq!(device.events(), [], "the submission is undecided");
    drop(submission);
    assert_eq!(device.queue.len(), 2);
    // The fence does not move any more. Any call at all gives them back.
    device.advance(0);
    assert_eq!(device.events(), [Freed("never used"), Freed("completed")]);
}

#[test]
fn i4_an_aborted_submission_frees_nothing_early() {
    let (device, mut submitter) = Device::new();
    let object = device.object("object");
    device.submit(&mut submitter, &[&object]);
    let submission = stamped(&mut submitter, &[&object]);
    object.destroy(&device);
    drop(submission);
    assert_eq!(object.last_use().get(), Serial::new(1));
    device.advance(0);
    assert_eq!(device.events(), []);
    device.advance(1);
    assert_eq!(device.events(), [Reset(1), Freed("object")]);
}

#[test]
fn i4_stale_stamps_do_not_wait_for_somebody_elses_work() {
    let (device, mut submitter) = Device::new();
    let (busy, idle) = (device.object("busy"), device.object("idle"));
    device.submit(&mut submitter, &[&busy]);
    drop(stamped(&mut submitter, &[&idle]));
    device.submit(&mut submitter, &[&busy]);
    idle.destroy(&device);
    assert_eq!(device.events(), [Freed("idle")]);
}

#[test]
fn i4_aborts_in_a_row_keep_the_true_stamp() {
    let (device, mut submitter) = Device::new();
    let object = device.object("object");
    device.submit(&mut submitter, &[&object]);
    for _ in 0..3 {
        let mut submission = stamped(&mut submitter, &[&object]);
        assert!(!submission.stamp(object.last_use()), "stamped before");
        drop(submission);
        assert_eq!(object.last_use().get(), Serial::new(1));
    }
    assert_eq!(device.submit(&mut submitter, &[&object]), 5);
    drop(stamped(&mut submitter, &[&object]));
    assert_eq!(object.last_use().get(), Serial::new(5));
}

#[test]
fn i4_unwinding_aborts() {
    let (device, mut submitter) = Device::new();
    let object = device.object("object");
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _submission = stamped(&mut submitter, &[&object]);
        object.destroy(&device);
        panic!("on purpose");
    }));
    assert!(panicked.is_err());
    device.advance(0);
    assert_eq!(device.events(), [Freed("object")]);
    assert_eq!(device.submit(&mut submitter, &[]), 2, "and life goes on");
}

#[test]
fn i4_serials_of_aborted_submissions_are_gaps() {
    let (device, mut submitter) = Device::new();
    let object = device.object("object");
    drop(submitter.begin());
    drop(submitter.begin());
    assert_eq!(device.queue.published(), Serial::NEVER);
    assert_eq!(device.submit(&mut submitter, &[&object]), 3);
    drop(submitter.begin());
    assert_eq!(device.queue.published(), Serial::new(3));
    object.destroy(&device);
    // Serials that were aborted pass without giving anything back.
    device.advance(2);
    assert_eq!(device.queue.len(), 1);
    device.advance(3);
    assert_eq!(
        device.events(),
        [Reset(2), Reset(3), Freed("object")],
        "4 was never published"
    );
}

#[test]
fn i4_a_forgotten_submission_loses_nothing() {
    let (device, mut submitter) = Device::new();
    let [one, two, three, four, five] =
        ["one", "two", "three", "four", "five"].map(|name| device.object(name));
    let submission = stamped(&mut submitter, &[&one, &two, &three, &four, &five]);
    one.destroy(&device);
    std::mem::forget(submission);
    two.destroy(&device);
    assert_eq!(device.queue.len(), 2);
    drop(submitter.begin()); // from here on it counts as aborted
    three.destroy(&device);
    device.advance(0);
    assert_eq!(
        device.events(),
        [Freed("three"), Freed("one"), Freed("two")]
    );
    // Its stamps are still there. They wait for what comes next.
    device.submit(&mut submitter, &[]);
    four.destroy(&device);
    device.advance(3);
    five.destroy(&device);
    assert_eq!(device.events(), [Reset(3), Freed("four"), Freed("five")]);
}

// I5: destroy against submit, in each order. The races are in tests/races.rs and tests/loom.rs.

#[test]
fn i5_destroyed_before_the_stamp() {
    let (device, mut submitter) = Device::new();
    let object = device.object("object");
    object.destroy(&device);
    assert_eq!(device.events(), [Freed("object")]);
    let submission = stamped(&mut submitter, &[&object]);
    assert!(!object.is_present());
    drop(submission);
    device.advance(0);
    assert_eq!(device.events(), []);
}

#[test]
fn i5_destroyed_between_stamp_and_check() {
    let (device, mut submitter) = Device::new();
    let object = device.object("object");
    let mut submission = submitter.begin();
    submission.stamp(object.last_use());
    object.destroy(&device);
    submission.seal();
    assert!(!object.is_present());
    assert_eq!(device.events(), []);
    drop(submission);
    device.advance(0);
    assert_eq!(device.events(), [Freed("object")]);
}

#[test]
fn i5_destroyed_after_the_check() {
    let (device, mut submitter) = Device::new();
    let object = device.object("object");
    let submission = stamped(&mut submitter, &[&object]);
    assert!(object.is_present());
    object.destroy(&device);
    // SAFETY: the submission holds it.
    assert_eq!(*unsafe { object.get() }, "object");
    submission.commit();
    device.advance(0);
    assert_eq!(device.events(), []);
    device.advance(1);
    assert_eq!(device.events(), [Reset(1), Freed("object")]);
}

// Payloads that one submission alone uses.

#[test]
fn kept_until_the_submission_completes() {
    let (device, mut submitter) = Device::new();
    let submission = submitter.begin();
    submission.keep(device.object("staging"));
    submission.commit();
    assert_eq!(device.queue.len(), 1);
    device.advance(1);
    assert_eq!(device.events(), [Reset(1), Freed("staging")]);
}

#[test]
fn kept_no_longer_than_the_abort() {
    let (device, mut submitter) = Device::new();
    let submission = submitter.begin();
    submission.keep(device.object("staging"));
    device.advance(0);
    assert_eq!(device.events(), []);
    drop(submission);
    device.advance(0);
    assert_eq!(device.events(), [Freed("staging")]);
}

// Pins.

#[test]
fn a_pin_keeps_the_payload_and_the_last_one_retires_it() {
    let (device, _submitter) = Device::new();
    let object = device.object("object");
    let one = object.pin(&device).unwrap();
    let two = object.pin(&device).unwrap();
    let address: *const _ = &*one;
    object.destroy(&device);
    object.destroy(&device);
    assert!(!object.is_present());
    assert!(object.pin(&device).is_none(), "too late");
    drop(one);
    assert_eq!(device.events(), []);
    assert_eq!(*two, "object");
    assert!(std::ptr::eq(address, &*two), "it does not move");
    drop(two);
    assert_eq!(device.events(), [Freed("object")]);
    object.destroy(&device);
    assert_eq!(device.events(), []);
}

#[test]
fn pins_of_an_object_that_lives_on_do_nothing() {
    let (device, _submitter) = Device::new();
    let object = device.object("object");
    drop(object.pin(&device));
    drop((object.pin(&device), object.pin(&device)));
    assert!(object.is_present());
    object.destroy(&device);
    assert_eq!(device.events(), [Freed("object")]);
}

#[test]
fn the_last_pin_may_find_the_payload_in_flight() {
    let (device, mut submitter) = Device::new();
    let object = device.object("object");
    let pin = object.pin(&device).unwrap();
    device.submit(&mut submitter, &[&object]);
    object.destroy(&device);
    assert_eq!(device.queue.len(), 0, "the pin comes first");
    drop(pin);
    assert_eq!(device.queue.len(), 1);
    device.advance(1);
    assert_eq!(device.events(), [Reset(1), Freed("object")]);
}

#[test]
fn a_pin_outlasts_the_fence() {
    let (device, mut submitter) = Device::new();
    let object = device.object("object");
    let pin = object.pin(&device).unwrap();
    device.submit(&mut submitter, &[&object]);
    object.destroy(&device);
    device.advance(1);
    assert_eq!(*pin, "object");
    assert_eq!(device.events(), [Reset(1)]);
    drop(pin);
    assert_eq!(device.events(), [Freed("object")]);
}

#[test]
fn a_pin_does_not_stop_a_submission_from_seeing_the_destruction() {
    let (device, mut submitter) = Device::new();
    let object = device.object("object");
    let pin = object.pin(&device).unwrap();
    object.destroy(&device);
    let submission = stamped(&mut submitter, &[&object]);
    assert!(!object.is_present());
    drop(submission);
    drop(pin);
    assert_eq!(device.events(), [Freed("object")]);
}

#[test]
fn a_detached_pin_holds_until_it_is_undone() {
    let (device, _submitter) = Device::new();
    let object = device.object("object");
    let pinned = object.pin(&device).unwrap().detach();
    object.destroy(&device);
    assert!(object.pin(&device).is_none());
    assert_eq!(device.events(), []);
    // SAFETY: the one pin that was detached.
    unsafe { pinned.unpin(&device) };
    assert_eq!(device.events(), [Freed("object")]);
}

// The rest.

#[test]
fn a_stamp_serves_without_a_slot() {
    let (queue, mut submitter) = RetireQueue::new();
    let last_use = LastUse::default();
    assert!(matches!(queue.retire(&last_use, 1), Disposal::Free(1)));
    let mut submission = submitter.begin();
    submission.stamp(&last_use);
    submission.commit();
    assert!(matches!(queue.retire(&last_use, 2), Disposal::Retired));
    assert_eq!(queue.advance(Serial::new(1), |_| ()), [2]);
}

#[test]
fn dropping_the_queue_drops_what_is_in_it() {
    let payload = Arc::new(());
    let (queue, mut submitter) = RetireQueue::new();
    let submission = submitter.begin();
    submission.keep(payload.clone());
    submission.commit();
    drop((queue, submitter));
    assert_eq!(Arc::strong_count(&payload), 1);
}

#[test]
fn everything_can_be_shared() {
    fn shared<T: Send + Sync>() {}
    shared::<RetireQueue<Arc<Slot<u32>>>>();
    shared::<fencepost_lifetime::Submitter<Arc<Slot<u32>>>>();
    shared::<fencepost_lifetime::Submission<'_, '_, u32>>();
    shared::<Slot<u32>>();
    shared::<LastUse>();
    shared::<fencepost_lifetime::Pin<&'static str, Arc<Device>>>();
}
