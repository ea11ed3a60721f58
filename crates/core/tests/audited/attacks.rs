//! What once went wrong when somebody tried to break it.

use crate::rig::{Rig, SIZE};
use fencepost_audit::{Completion, ObjectKind, Site};
use fencepost_core::{
    record::ComputePassDescriptor,
    resource::{Buffer, MapMode},
    Callbacks, Device, ErrorKind, Options, Reclaim,
};
use std::{
    panic::{self, AssertUnwindSafe},
    sync::{
        atomic::{AtomicU32, Ordering},
        Arc,
    },
    time::Duration,
};
use wgpu_hal::DeviceError;
use wgpu_types as wgt;

/// Counts the calls of callbacks.
#[derive(Clone, Default)]
struct Calls(Arc<AtomicU32>);

impl Calls {
    fn note(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn get(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

/// The reclaim thread has taken memory out of the retire queue and is about to free it: who runs out of
/// memory meanwhile waits for that.
#[test]
fn memory_that_another_thread_is_freeing_is_waited_for() {
    for callbacks in [Callbacks::OnPoll, Callbacks::Prompt] {
        let plain = Rig::new(Reclaim::OnCall);
        let own = plain.device.memory_report().bytes;
        plain.end();
        let rig = Rig::with(Options {
            reclaim: Reclaim::Thread,
            callbacks,
            memory_budget: Some(own + SIZE),
        });
        rig.auditor.faults().slow_fences(Duration::from_micros(300));
        for round in 0..200 {
            let scope = rig.device.push_error_scope(ErrorKind::OutOfMemory);
            let buffer = rig.buffer("one at a time");
            let error = rig.device.pop_error_scope(scope);
            assert!(error.is_none(), "round {round}: {}", error.unwrap());
            rig.use_buffer(&buffer);
        }
        rig.end();
    }
}

/// Threads that write, create and drop within a budget that has room for each of them: none is refused,
/// whoever submits the writes of the others.
#[test]
fn memory_that_another_thread_has_just_submitted_is_waited_for() {
    const THREADS: u64 = 4;
    let rig = Rig::with_budget(THREADS * 2 * SIZE, Reclaim::OnCall);
    let bytes = vec![1; SIZE as usize];
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..40 {
                    let scope = rig.device.push_error_scope(ErrorKind::OutOfMemory);
                    let buffer = rig.buffer("target");
                    rig.queue.write_buffer(&buffer, 0, &bytes);
                    let error = rig.device.pop_error_scope(scope);
                    assert!(error.is_none(), "{}", error.unwrap());
                }
            });
        }
    });
    rig.end();
}

/// Who has waited finds the memory back, although the reclaim thread was faster.
#[test]
fn memory_is_back_when_a_wait_returns() {
    let rig = Rig::new(Reclaim::Thread);
    rig.auditor.faults().slow_fences(Duration::from_micros(300));
    for round in 0..200 {
        let encoder = rig.device.create_command_encoder(None);
        for _ in 0..50 {
            encoder.clear_buffer(&rig.buffer("dropped"), 0, None);
        }
        rig.queue.submit([encoder.finish()]);
        let wait = wgt::PollType::Wait {
            submission_index: None,
            timeout: None,
        };
        rig.device.poll(wait).unwrap();
        let report = rig.device.memory_report();
        assert_eq!(report.retired_objects, 0, "round {round}: {report}");
    }
    rig.end();
}

#[test]
fn staging_memory_of_another_device_is_refused() {
    let (own, other) = (Rig::new(Reclaim::OnCall), Rig::new(Reclaim::OnCall));
    let target = own.buffer("target");
    let staging = other.queue.create_staging_buffer(64).expect("it is small");
    let scope = own.device.push_error_scope(ErrorKind::Validation);
    own.queue.write_staging_buffer(&target, 0, staging);
    let error = own.device.pop_error_scope(scope).expect("it is foreign");
    assert!(error.to_string().contains("another device"), "{error}");
    own.queue.submit([]);
    drop(target);
    own.end();
    other.end();
}

#[test]
fn absurd_staging_memory_is_out_of_memory() {
    let rig = Rig::new(Reclaim::OnCall);
    let most = rig.device.adapter().limits().max_buffer_size;
    for size in [u64::MAX, u64::MAX - 3, most + 4] {
        let scope = rig.device.push_error_scope(ErrorKind::OutOfMemory);
        assert!(rig.queue.create_staging_buffer(size).is_none());
        let error = rig.device.pop_error_scope(scope).expect("it is too large");
        assert!(error.to_string().contains(&size.to_string()), "{error}");
    }
    rig.end();
}

/// A mapping that breaks a rule, without an error handler: the panic of the report does not swallow the
/// callback.
#[test]
fn a_refused_mapping_is_called_back_although_the_report_panics() {
    let rig = Rig::new(Reclaim::OnCall);
    let buffer = rig.buffer("cannot be mapped");
    let calls = Calls::default();
    let note = calls.clone();
    let callback = Box::new(move |outcome: Result<(), _>| {
        assert!(outcome.is_err());
        note.note();
    });
    let map = || buffer.map_async(MapMode::Read, 0..8, callback);
    assert!(panic::catch_unwind(AssertUnwindSafe(map)).is_err());
    assert_eq!(calls.get(), 1);
    drop(buffer);
    rig.end();
}

/// A callback that panics while the device ends takes no other one with it.
#[test]
fn a_panic_at_the_end_of_a_device_keeps_the_other_callbacks() {
    for callbacks in [Callbacks::OnPoll, Callbacks::Prompt] {
        let rig = Rig::with(Options {
            reclaim: Reclaim::OnCall,
            callbacks,
            ..Default::default()
        });
        rig.auditor.clock().set(Completion::ManualOrWaited);
        let auditor = rig.auditor.clone();
        let buffer = rig.buffer("used");
        rig.use_buffer(&buffer);
        let calls = Calls::default();
        rig.queue
            .on_submitted_work_done(Box::new(|| panic!("on purpose")));
        for _ in 0..3 {
            let note = calls.clone();
            rig.queue
                .on_submitted_work_done(Box::new(move || note.note()));
        }
        let note = calls.clone();
        rig.device
            .set_lost_callback(Box::new(move |_, _| note.note()));
        drop(buffer);
        rig.device.destroy();
        // With prompt callbacks they run on another thread, before or in the end of the device.
        let _ = panic::catch_unwind(AssertUnwindSafe(|| drop(rig)));
        assert_eq!(calls.get(), 4, "{callbacks:?}");
        assert!(auditor.reports().is_empty(), "{:#?}", auditor.reports());
        assert!(auditor.live_objects().is_empty());
    }
}

/// What a submission alone uses is no memory that could come back while it is put together: nothing is
/// waited for because of it.
#[test]
fn a_submission_does_not_wait_because_of_itself() {
    let rig = Rig::new(Reclaim::OnCall);
    rig.auditor.clock().set(Completion::ManualOrWaited);
    let (pipeline, arguments) = (rig.pipeline(), arguments(&rig.device));
    let busy = rig.buffer("busy");
    rig.use_buffer(&busy);
    for nth in 2..10 {
        let out_of_memory = DeviceError::OutOfMemory;
        rig.auditor
            .faults()
            .fail_at(Site::Create(ObjectKind::Buffer), nth, out_of_memory);
    }
    let encoder = rig.device.create_command_encoder(None);
    let mut pass = encoder.begin_compute_pass(&ComputePassDescriptor::default());
    pass.set_pipeline(&pipeline);
    pass.dispatch_workgroups_indirect(&arguments, 0);
    pass.dispatch_workgroups_indirect(&arguments, 0);
    drop(pass);
    let scope = rig.device.push_error_scope(ErrorKind::OutOfMemory);
    rig.queue.submit([encoder.finish()]);
    assert!(rig.device.pop_error_scope(scope).is_some());
    assert_eq!(rig.auditor.clock().pending().len(), 1, "it is still busy");
    rig.auditor.faults().clear();
    drop((pipeline, arguments, busy, encoder));
    rig.end();
}

/// Pooled encoders go before anything is waited for.
#[test]
fn pooled_encoders_go_before_a_wait() {
    let rig = Rig::new(Reclaim::OnCall);
    rig.auditor.clock().set(Completion::ManualOrWaited);
    let first = rig.buffer("first");
    rig.use_buffer(&first);
    rig.auditor.clock().complete_all();
    rig.device.poll(wgt::PollType::Poll).unwrap();
    // One encoder is pooled, and one submission with a retired buffer in flight takes another.
    let (second, third) = (rig.buffer("second"), rig.buffer("third"));
    rig.use_buffer(&second);
    rig.use_buffer(&third);
    rig.auditor.clock().complete_next();
    rig.device.poll(wgt::PollType::Poll).unwrap();
    drop(third);
    let pending = rig.auditor.clock().pending();
    assert_eq!(pending.len(), 1);
    let site = Site::Create(ObjectKind::Buffer);
    rig.auditor
        .faults()
        .fail_at(site, 1, DeviceError::OutOfMemory);
    let made = rig.buffer("made");
    assert_eq!(
        rig.auditor.clock().pending(),
        pending,
        "nothing was waited for"
    );
    drop((made, first, second));
    rig.end();
}

/// An encoder that is not to be pooled is not pooled when its submission fails, either.
#[test]
fn a_large_submission_that_fails_is_not_pooled() {
    let rig = Rig::new(Reclaim::OnCall);
    let buffer = rig.buffer("cleared");
    let large = rig.device.create_command_encoder(None);
    for _ in 0..10_000 {
        large.clear_buffer(&buffer, 0, None);
    }
    let mut pass = large.begin_compute_pass(&ComputePassDescriptor::default());
    let (pipeline, arguments) = (rig.pipeline(), arguments(&rig.device));
    pass.set_pipeline(&pipeline);
    pass.dispatch_workgroups_indirect(&arguments, 0);
    drop(pass);
    rig.auditor.faults().fail_at(
        Site::Create(ObjectKind::BindGroup),
        1,
        DeviceError::Unexpected,
    );
    let scope = rig.device.push_error_scope(ErrorKind::Internal);
    rig.queue.submit([large.finish()]);
    assert!(rig.device.pop_error_scope(scope).is_some());
    let live = rig.auditor.live_objects();
    let encoders = live.iter().filter(|o| o.kind == ObjectKind::CommandEncoder);
    assert_eq!(encoders.count(), 0);
    drop((buffer, pipeline, arguments, large));
    rig.end();
}

fn arguments(device: &Arc<Device>) -> Arc<Buffer> {
    device.create_buffer(&wgt::BufferDescriptor {
        label: Some("arguments"),
        size: 12,
        usage: wgt::BufferUsages::INDIRECT,
        mapped_at_creation: false,
    })
}
