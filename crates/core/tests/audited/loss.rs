//! The device is lost at every single HAL call of a program (I8).
//!
//! Whichever call it is: nothing panics or hangs; the lost callback runs once, all others once; no error is
//! seen, since a lost device fails quietly; what the program does afterwards does nothing; and everything
//! is freed in the end.

use crate::{
    program::Program,
    rig::{assert_clean, auditor, LIMIT},
    watchdog::Watchdog,
};
use fencepost_audit::{Completion, ObjectKind, Site};
use fencepost_core::{
    device::LostReason, instance::RequestDeviceError, resource::Buffer, Callbacks, Options, Reclaim,
};
use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};
use wgpu_hal::DeviceError;
use wgpu_types as wgt;

/// One variant of the sweep.
#[derive(Clone, Copy)]
struct Sweep {
    options: Options,
    /// Whether the program destroys the device in the end.
    destroys: bool,
}

impl Sweep {
    /// Runs the program, with the device lost at its `nth` call, and returns how many calls there were.
    /// `None` if the device was lost while it was opened.
    fn run(self, nth: Option<u64>) -> Option<u64> {
        let auditor = auditor();
        auditor.clock().set(Completion::Manual);
        if let Some(nth) = nth {
            auditor.faults().lose_device_at(nth);
        }
        let when = match nth {
            Some(nth) => format!("lost at call {nth}"),
            None => "not lost".to_owned(),
        };
        let program = match Program::open(&auditor, self.options, nth.is_none()) {
            Ok(program) => program,
            Err(error) => {
                let lost = matches!(error, RequestDeviceError::Driver(DeviceError::Lost));
                assert!(lost && nth.is_some(), "{when}: {error}");
                assert_clean(&auditor, &when);
                return None;
            }
        };
        let left = program.round();
        // Whoever knows that the device is lost makes nothing any more.
        let known = !program.log.lock().lost.is_empty();
        let before = known.then(|| {
            (
                auditor.live_objects().len(),
                auditor.clock().pending().len(),
            )
        });
        let more = program.round();
        if let Some(before) = before {
            let after = (
                auditor.live_objects().len(),
                auditor.clock().pending().len(),
            );
            assert!(
                after.0 <= before.0 && after.1 <= before.1,
                "{when}: (objects, submissions in flight) were {before:?} and are {after:?}"
            );
        }
        let mut destroyed = 0;
        if self.destroys {
            self.tell(&program, nth, auditor.calls(), &when);
            destroyed = auditor.calls();
            program.device.destroy();
        }
        auditor.clock().complete_all();
        let told = auditor.calls();
        self.tell(&program, nth, told, &when);
        let used = auditor.calls();
        let lost = program.log.lock().lost.clone();
        let struck = |before| nth.is_some_and(|nth| nth <= before);
        if self.destroys {
            let reason = if struck(destroyed) {
                LostReason::Unknown
            } else {
                LostReason::Destroyed
            };
            assert_eq!(lost, [reason], "{when}: {destroyed} calls before destroy");
        } else if struck(told) {
            assert_eq!(lost, [LostReason::Unknown], "{when}");
        } else if !struck(used) {
            assert!(lost.is_empty(), "{when}: {lost:?}");
        }

        // Whatever is in flight by now completes for who waits for it.
        auditor.clock().set(Completion::ManualOrWaited);
        let log = Arc::clone(&program.log);
        drop((left, more));
        drop(program);
        if self.options.callbacks == Callbacks::Prompt {
            // The callback thread may have held the device last, which then ends there.
            within_a_while(&when, || auditor.live_objects().is_empty());
        }
        let log = log.lock();
        assert!(log.errors.is_empty(), "{when}: {:#?}", log.errors);
        log.assert_callbacks(&when);
        for reason in &log.lost {
            assert!(*reason == LostReason::Unknown || self.destroys, "{when}");
        }
        assert_clean(&auditor, &when);
        Some(auditor.calls())
    }

    /// Makes a call that fails if the device is lost, and sees to it that the program hears of it.
    fn tell(self, program: &Program, nth: Option<u64>, before: u64, when: &str) {
        drop(program.buffer("tell", wgt::BufferUsages::COPY_DST, false));
        if self.options.callbacks == Callbacks::OnPoll {
            program.poll(wgt::PollType::Poll);
        } else if nth.is_some_and(|nth| nth <= before) {
            // Nobody polls.
            within_a_while(when, || !program.log.lock().lost.is_empty());
        }
    }

    fn sweep(self, name: &str) {
        let watchdog = Watchdog::new(LIMIT, format!("{name}, not lost"));
        let clean = self.run(None).expect("nothing fails");
        assert!(clean > 200, "the program makes only {clean} calls");
        let mut in_open = 0;
        let mut nth = 0;
        // With threads a run may have more calls than the first one had: the sweep ends with the first
        // run that is over before its call comes, but never before the calls of the first.
        loop {
            nth += 1;
            watchdog.step(format!("{name}, lost at call {nth}"));
            match self.run(Some(nth)) {
                None => in_open += 1,
                Some(calls) if calls < nth && nth > clean => break,
                Some(_) => {}
            }
        }
        assert!(in_open > 0, "opening a device makes calls that can fail");
        println!(
            "{name}: lost at each of {} calls, {in_open} of them in opening ({clean:?})",
            nth - 1
        );
    }
}

/// Waits for another thread.
#[track_caller]
fn within_a_while(when: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(
            start.elapsed() < Duration::from_secs(5),
            "{when}: it never came"
        );
        thread::sleep(Duration::from_millis(1));
    }
}

fn with(reclaim: Reclaim, callbacks: Callbacks) -> Sweep {
    Sweep {
        options: Options {
            reclaim,
            callbacks,
            ..Default::default()
        },
        destroys: false,
    }
}

#[test]
fn lost_at_every_call() {
    with(Reclaim::OnCall, Callbacks::OnPoll).sweep("on call, on poll");
}

#[test]
fn lost_at_every_call_and_destroyed() {
    let sweep = Sweep {
        destroys: true,
        ..with(Reclaim::OnCall, Callbacks::OnPoll)
    };
    sweep.sweep("on call, on poll, destroyed");
}

#[test]
fn lost_at_every_call_with_a_reclaim_thread() {
    with(Reclaim::Thread, Callbacks::OnPoll).sweep("reclaim thread, on poll");
}

#[test]
fn lost_at_every_call_with_prompt_callbacks() {
    with(Reclaim::OnCall, Callbacks::Prompt).sweep("on call, prompt");
}

#[test]
fn lost_at_every_call_with_both_threads() {
    with(Reclaim::Thread, Callbacks::Prompt).sweep("reclaim thread, prompt");
}

/// A device whose next call loses it, with work in flight that nobody waits for.
fn about_to_be_lost(callbacks: Callbacks) -> (Watchdog, Program, Arc<Buffer>) {
    let test = thread::current().name().unwrap_or("a test").to_owned();
    let watchdog = Watchdog::new(LIMIT, test);
    let auditor = auditor();
    auditor.clock().set(Completion::Manual);
    let options = Options {
        reclaim: Reclaim::OnCall,
        callbacks,
        ..Default::default()
    };
    let program = Program::open(&auditor, options, false).unwrap();
    let used = program.buffer("used", wgt::BufferUsages::COPY_DST, false);
    let encoder = program.device.create_command_encoder(None);
    encoder.clear_buffer(&used, 0, None);
    program.submit(&encoder);
    let buffers = Site::Create(ObjectKind::Buffer);
    auditor.faults().fail_at(buffers, 1, DeviceError::Lost);
    (watchdog, program, used)
}

fn lose(program: &Program) {
    drop(program.buffer("lost", wgt::BufferUsages::COPY_DST, false));
}

/// Nothing is retired and no callback waits for the fence, so that nothing but the loss itself can wake the
/// threads.
#[test]
fn a_loss_is_told_promptly_while_work_is_in_flight() {
    let (_watchdog, program, _used) = about_to_be_lost(Callbacks::Prompt);
    lose(&program);
    within_a_while("lost", || !program.log.lock().lost.is_empty());
    assert_eq!(program.log.lock().lost, [LostReason::Unknown]);
}

/// The specification loses a device once: destroying a lost device changes nothing.
#[test]
fn a_lost_device_is_not_destroyed_any_more() {
    let (_watchdog, program, _used) = about_to_be_lost(Callbacks::OnPoll);
    lose(&program);
    program.device.destroy();
    program.poll(wgt::PollType::Poll);
    assert_eq!(program.log.lock().lost, [LostReason::Unknown]);
}

/// And a destroyed one is not lost any more.
#[test]
fn a_destroyed_device_is_not_lost_any_more() {
    let (_watchdog, program, _used) = about_to_be_lost(Callbacks::OnPoll);
    program.device.destroy();
    program.auditor.clock().set(Completion::ManualOrWaited);
    lose(&program);
    program.auditor.faults().lose_device_at(1);
    program.wait();
    assert_eq!(program.log.lock().lost, [LostReason::Destroyed]);
}

/// Who asks late is told all the same, once.
#[test]
fn a_callback_that_is_set_after_the_loss_is_called() {
    let (_watchdog, program, _used) = about_to_be_lost(Callbacks::OnPoll);
    lose(&program);
    program.poll(wgt::PollType::Poll);
    assert_eq!(program.log.lock().lost, [LostReason::Unknown]);
    let log = Arc::clone(&program.log);
    program.device.set_lost_callback(Box::new(move |reason, _| {
        log.lock().lost.push(reason);
    }));
    for _ in 0..2 {
        program.poll(wgt::PollType::Poll);
        assert_eq!(program.log.lock().lost, [LostReason::Unknown; 2]);
    }
}
