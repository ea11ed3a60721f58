//! The thread that reclaims: when it sleeps, what wakes it, what it is told to wait for.
#![cfg(not(loom))]

mod common;

use common::{stamped, Device, Freed, Reset};
use fencepost_lifetime::Serial;
use std::{sync::mpsc, thread, time::Duration};

/// Long enough for a thread that is awake to say so.
const A_WHILE: Duration = Duration::from_millis(50);
/// Longer than any machine takes to wake a thread.
const TOO_LONG: Duration = Duration::from_secs(20);

/// Runs `f` beside a thread that reports what [`RetireQueue::next`] returns, each time it is asked to.
///
/// [`RetireQueue::next`]: fencepost_lifetime::RetireQueue::next
fn beside_a_sleeper(device: &Device, f: impl FnOnce(&Sleeper)) {
    let (ask, asked) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    thread::scope(|scope| {
        let queue = &device.queue;
        scope.spawn(
            move || {
                while asked.recv().is_ok() && tell.send(queue.next()).is_ok() {}
            },
        );
        // Dropped on unwinding too, or the scope would wait for ever.
        struct Shut<'a>(&'a Device);
        impl Drop for Shut<'_> {
            fn drop(&mut self) {
                self.0.queue.shut();
            }
        }
        let _shut = Shut(device);
        f(&Sleeper { ask, told });
    });
}

struct Sleeper {
    ask: mpsc::Sender<()>,
    told: mpsc::Receiver<Option<Serial>>,
}

impl Sleeper {
    /// Lets the thread call `next`.
    fn ask(&self) {
        self.ask.send(()).unwrap();
    }

    fn assert_asleep(&self) {
        let told = self.told.recv_timeout(A_WHILE);
        assert_eq!(told, Err(mpsc::RecvTimeoutError::Timeout));
    }

    #[track_caller]
    fn assert_told(&self, serial: u64) {
        let told = self.told.recv_timeout(TOO_LONG);
        assert_eq!(told, Ok(Some(Serial::new(serial))));
    }
}

#[test]
fn submissions_that_retire_nothing_let_it_sleep() {
    let (device, mut submitter) = Device::new();
    let object = device.object("object");
    beside_a_sleeper(&device, |thread| {
        thread.ask();
        for _ in 0..100 {
            device.submit(&mut submitter, &[&object]);
        }
        device.advance(50);
        drop(stamped(&mut submitter, &[&object]));
        thread.assert_asleep();
    });
}

#[test]
fn what_is_retired_in_flight_wakes_it_and_it_waits_step_by_step() {
    let (device, mut submitter) = Device::new();
    let object = device.object("object");
    beside_a_sleeper(&device, |thread| {
        device.submit(&mut submitter, &[]);
        device.submit(&mut submitter, &[&object]);
        thread.ask();
        thread.assert_asleep();
        object.destroy(&device);
        thread.assert_told(1);
        device.advance(1);
        thread.ask();
        thread.assert_told(2);
        device.advance(2);
        assert_eq!(device.events(), [Reset(1), Reset(2), Freed("object")]);
        thread.ask();
        thread.assert_asleep();
    });
}

#[test]
fn what_is_freed_at_once_lets_it_sleep() {
    let (device, mut submitter) = Device::new();
    let (idle, completed) = (device.object("idle"), device.object("completed"));
    device.submit(&mut submitter, &[&completed]);
    device.advance(1);
    beside_a_sleeper(&device, |thread| {
        thread.ask();
        idle.destroy(&device);
        completed.destroy(&device);
        thread.assert_asleep();
    });
}

#[test]
fn what_is_undecided_wakes_it_at_the_commit() {
    let (device, mut submitter) = Device::new();
    let object = device.object("object");
    beside_a_sleeper(&device, |thread| {
        thread.ask();
        let submission = stamped(&mut submitter, &[&object]);
        object.destroy(&device);
        thread.assert_asleep(); // its serial is not published, so nobody may wait for it
        submission.commit();
        thread.assert_told(1);
    });
}

#[test]
fn what_an_aborted_submission_left_wakes_it_with_nothing_to_wait_for() {
    let (device, mut submitter) = Device::new();
    let object = device.object("object");
    device.submit(&mut submitter, &[&object]);
    device.advance(1);
    assert_eq!(device.events(), [Reset(1)]);
    beside_a_sleeper(&device, |thread| {
        thread.ask();
        let submission = stamped(&mut submitter, &[&object]);
        object.destroy(&device);
        thread.assert_asleep();
        drop(submission);
        thread.assert_told(1); // which is reclaimed
        device.advance(1);
        assert_eq!(device.events(), [Freed("object")]);
        thread.ask();
        thread.assert_asleep();
    });
}

#[test]
fn what_an_aborted_submission_held_back_over_one_in_flight_wakes_it() {
    let (device, mut submitter) = Device::new();
    let object = device.object("object");
    device.submit(&mut submitter, &[&object]);
    beside_a_sleeper(&device, |thread| {
        thread.ask();
        let submission = stamped(&mut submitter, &[&object]);
        object.destroy(&device);
        drop(submission);
        thread.assert_told(1);
        device.advance(1);
        assert_eq!(device.events(), [Reset(1), Freed("object")]);
    });
}

#[test]
fn a_watched_serial_wakes_it_once_published() {
    let (device, mut submitter) = Device::new();
    beside_a_sleeper(&device, |thread| {
        thread.ask();
        device.queue.watch(Serial::new(2));
        thread.assert_asleep();
        device.submit(&mut submitter, &[]);
        thread.assert_told(1);
        device.advance(1);
        thread.ask();
        thread.assert_asleep();
        device.submit(&mut submitter, &[]);
        thread.assert_told(2);
        device.advance(2);
        device.submit(&mut submitter, &[]);
        thread.ask();
        thread.assert_asleep(); // 3 is not watched
        device.queue.watch(Serial::new(1));
        device.queue.watch(Serial::new(3));
        thread.assert_told(3);
    });
}

#[test]
fn a_watched_serial_that_was_aborted_is_passed_with_the_next_one() {
    let (device, mut submitter) = Device::new();
    beside_a_sleeper(&device, |thread| {
        thread.ask();
        device.queue.watch(Serial::new(1));
        drop(submitter.begin());
        thread.assert_asleep(); // or it would wait for a value that nobody signals
        device.submit(&mut submitter, &[]);
        thread.assert_told(2);
        device.advance(2);
        thread.ask();
        thread.assert_asleep();
    });
}

#[test]
fn aborted_serials_are_never_waited_for() {
    let (device, mut submitter) = Device::new();
    let object = device.object("object");
    drop(submitter.begin());
    device.submit(&mut submitter, &[]);
    drop(submitter.begin());
    drop(submitter.begin());
    device.submit(&mut submitter, &[&object]);
    drop(submitter.begin());
    object.destroy(&device);
    assert_eq!(device.queue.oldest_in_flight(), Some(Serial::new(2)));
    assert_eq!(device.queue.next(), Some(Serial::new(2)));
    device.advance(2);
    assert_eq!(device.queue.oldest_in_flight(), Some(Serial::new(5)));
    assert_eq!(device.queue.next(), Some(Serial::new(5)));
    device.advance(3); // no fence reads that, but it must do no harm
    assert_eq!(device.queue.next(), Some(Serial::new(5)));
    device.advance(5);
    assert_eq!(device.queue.oldest_in_flight(), None);
    assert_eq!(
        device.events(),
        [Reset(2), Reset(3), Reset(5), Freed("object")]
    );
}

#[test]
fn shut_ends_it_and_everything_else_works_on() {
    let (device, mut submitter) = Device::new();
    let object = device.object("object");
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| device.queue.next());
        thread::sleep(A_WHILE);
        assert!(!device.queue.is_shut());
        device.queue.shut();
        assert_eq!(sleeper.join().unwrap(), None);
    });
    assert!(device.queue.is_shut());
    assert_eq!(device.queue.next(), None);
    device.submit(&mut submitter, &[&object]);
    object.destroy(&device);
    assert_eq!(device.queue.next(), None, "even with something to do");
    device.advance(1);
    assert_eq!(device.events(), [Reset(1), Freed("object")]);
}
