//! Under the manual clock nothing completes but what the test completes.

use crate::rig::{noop, nothing, Rig};
use fencepost_audit::{AuditMode, Auditor, Completion, Contract, Fence, Violation};
use std::time::{Duration, Instant};
use wgpu_hal::{api::Noop, Device as _, DeviceError, Queue as _};

fn value(rig: &Rig<Noop>) -> u64 {
    // SAFETY: the fence is the device's.
    unsafe { rig.device.get_fence_value(&rig.fence) }.unwrap()
}

fn wait(rig: &Rig<Noop>, value: u64, timeout: Option<Duration>) -> Result<bool, DeviceError> {
    // SAFETY: the tests wait for what they have submitted.
    unsafe { rig.device.wait(&rig.fence, value, timeout) }
}

#[test]
fn one_submission_at_a_time() {
    let mut rig = noop(Contract::Strict);
    let clock = rig.auditor.clock();
    clock.set(Completion::Manual);
    for _ in 0..3 {
        rig.submit(&[]).unwrap();
    }
    assert_eq!(value(&rig), 0);
    let pending: Vec<u64> = clock.pending().iter().map(|info| info.value).collect();
    assert_eq!(pending, [1, 2, 3]);
    assert_eq!(wait(&rig, 1, Some(Duration::ZERO)), Ok(false));
    assert_eq!(clock.complete_next().unwrap().value, 1);
    assert_eq!(value(&rig), 1);
    assert_eq!(wait(&rig, 1, None), Ok(true));
    assert_eq!(wait(&rig, 2, Some(Duration::ZERO)), Ok(false));
    // Out of order is refused.
    let pending = clock.pending();
    assert!(!clock.complete(pending[1]));
    assert_eq!(value(&rig), 1);
    assert!(clock.complete(pending[0]));
    assert!(!clock.complete(pending[0]));
    assert_eq!(value(&rig), 2);
    assert_eq!(clock.complete_all(), 1);
    assert_eq!(value(&rig), 3);
    assert_eq!(clock.complete_next(), None);
    rig.nothing();
    rig.finish();
}

/// The backend has long executed it; the contract holds until the clock has passed.
#[test]
fn what_the_clock_holds_back_is_in_flight() {
    let mut rig = noop(Contract::Standard);
    rig.auditor.clock().set(Completion::Manual);
    let buffer = rig.buffer("target");
    let other = rig.buffer("other");
    let mut encoder = rig.encoder("encoder");
    let first = rig.clear(&mut encoder, "first", &buffer);
    let second = rig.clear(&mut encoder, "second", &other);
    rig.submit(&[&first]).unwrap();
    rig.submit(&[&second]).unwrap();
    assert_eq!(value(&rig), 0);
    rig.auditor.clock().complete_next();
    rig.destroy(buffer);
    rig.nothing();
    rig.destroy(other);
    rig.only(Violation::DestroyedInFlight, "other");
    rig.auditor.clock().complete_all();
    rig.reset(&mut encoder, vec![first, second]);
    drop(encoder);
    rig.nothing();
    rig.finish();
}

#[test]
fn a_wait_ends_when_another_thread_advances_the_clock() {
    let mut rig = noop(Contract::Strict);
    let clock = rig.auditor.clock();
    clock.set(Completion::Manual);
    rig.submit(&[]).unwrap();
    rig.submit(&[]).unwrap();
    let waiting = std::sync::atomic::AtomicBool::new(true);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let done = wait(&rig, 2, None);
            waiting.store(false, std::sync::atomic::Ordering::SeqCst);
            done
        });
        clock.complete_next();
        std::thread::sleep(Duration::from_millis(20));
        assert!(waiting.load(std::sync::atomic::Ordering::SeqCst));
        clock.complete_next();
        assert_eq!(waiter.join().unwrap(), Ok(true));
    });
    // The same for the whole queue.
    rig.submit(&[]).unwrap();
    std::thread::scope(|scope| {
        // SAFETY: nothing else happens on the queue.
        let waiter = scope.spawn(|| unsafe { rig.queue.wait_for_idle() });
        std::thread::sleep(Duration::from_millis(5));
        assert!(!waiter.is_finished());
        clock.complete_next();
        assert_eq!(waiter.join().unwrap(), Ok(()));
    });
    rig.nothing();
    rig.finish();
}

#[test]
fn a_wait_ends_at_its_timeout() {
    let mut rig = noop(Contract::Strict);
    rig.auditor.clock().set(Completion::Manual);
    rig.submit(&[]).unwrap();
    let start = Instant::now();
    let timeout = Duration::from_millis(30);
    assert_eq!(wait(&rig, 1, Some(timeout)), Ok(false));
    assert!(start.elapsed() >= timeout);
    rig.auditor.clock().complete_all();
    // A timeout beyond the end of time is as good as none.
    assert_eq!(wait(&rig, 1, Some(Duration::MAX)), Ok(true));
    rig.finish();
}

#[test]
fn a_wait_ends_when_the_device_is_lost() {
    let mut rig = noop(Contract::Strict);
    rig.auditor.clock().set(Completion::Manual);
    rig.submit(&[]).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| wait(&rig, 1, None));
        std::thread::sleep(Duration::from_millis(5));
        assert!(!waiter.is_finished());
        rig.auditor.faults().lose_device_at(1);
        // SAFETY: the fence is the device's.
        let value = unsafe { rig.device.get_fence_value(&rig.fence) };
        assert_eq!(value, Err(DeviceError::Lost));
        assert_eq!(waiter.join().unwrap(), Err(DeviceError::Lost));
    });
    rig.nothing();
    rig.finish();
}

#[test]
fn waits_can_advance_the_clock_themselves() {
    let mut rig = noop(Contract::Strict);
    let clock = rig.auditor.clock();
    clock.set(Completion::ManualOrWaited);
    for _ in 0..4 {
        rig.submit(&[]).unwrap();
    }
    assert_eq!(value(&rig), 0);
    assert_eq!(wait(&rig, 2, Some(Duration::ZERO)), Ok(true));
    assert_eq!(value(&rig), 2);
    assert_eq!(clock.pending().len(), 2);
    // SAFETY: nothing else happens on the queue.
    unsafe { rig.queue.wait_for_idle() }.unwrap();
    assert_eq!(value(&rig), 4);
    rig.finish();
}

#[test]
fn devices_complete_independently() {
    let auditor = Auditor::new(Contract::Strict, AuditMode::Collect);
    let mut one = Rig::<Noop>::open(&auditor).unwrap();
    let mut two = Rig::<Noop>::open(&auditor).unwrap();
    let clock = auditor.clock();
    clock.set(Completion::Manual);
    one.submit(&[]).unwrap();
    two.submit(&[]).unwrap();
    one.submit(&[]).unwrap();
    let pending = clock.pending();
    let serials: Vec<u64> = pending.iter().map(|info| info.serial).collect();
    assert_eq!(serials, [1, 2, 3]);
    assert_ne!(pending[0].device, pending[1].device);
    assert!(!clock.complete(pending[2]));
    assert!(clock.complete(pending[1]));
    assert_eq!((value(&one), value(&two)), (0, 1));
    clock.complete_all();
    assert_eq!((value(&one), value(&two)), (2, 1));
    one.finish();
    two.finish();
    nothing(&auditor);
}

/// A queue completes in order, so one fence seen says something about the others before it.
#[test]
fn a_later_fence_completes_what_was_before_it() {
    let mut rig = noop(Contract::Standard);
    // SAFETY: plain use.
    let other: Fence<Noop> = unsafe { rig.device.create_fence() }.unwrap();
    let buffer = rig.buffer("target");
    let mut encoder = rig.encoder("encoder");
    let commands = rig.clear(&mut encoder, "commands", &buffer);
    rig.submit(&[&commands]).unwrap();
    // SAFETY: submitted in order, waited for after that, destroyed when idle.
    unsafe {
        rig.queue.submit(&[], &[], (&other, 7)).unwrap();
        assert_eq!(rig.device.wait(&other, 7, None), Ok(true));
        rig.device.destroy_fence(other);
    }
    rig.reset(&mut encoder, vec![commands]);
    rig.destroy(buffer);
    drop(encoder);
    rig.nothing();
    rig.finish();
}
