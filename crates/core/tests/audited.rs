//! The core on an audited no-op back end: a clock that completes submissions when the test says so, memory
//! that runs out when it says so, and the strict lifetime contract checked in every call.

use fencepost_audit::{AuditMode, Audited, Auditor, Completion, Contract};
use fencepost_core::{resource::Buffer, Device, ErrorKind, Instance, Options, Queue, Reclaim};
use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};
use wgpu_hal::{self as hal, Instance as _};
use wgpu_types as wgt;

const SIZE: u64 = 1 << 20;

struct Rig {
    auditor: Auditor,
    device: Arc<Device>,
    queue: Queue,
}

impl Rig {
    fn new(reclaim: Reclaim) -> Self {
        let auditor = Auditor::new(Contract::Strict, AuditMode::Collect);
        auditor.set_reset_before_free(true);
        let mut backend_options = wgt::BackendOptions::default();
        backend_options.noop.enable = true;
        let desc = hal::InstanceDescriptor {
            name: "audited",
            flags: wgt::InstanceFlags::empty(),
            memory_budget_thresholds: Default::default(),
            backend_options,
            telemetry: None,
            display: None,
        };
        // SAFETY: the description is complete.
        let raw = unsafe { <hal::api::Noop as hal::Api>::Instance::init(&desc) }.unwrap();
        let instance = Instance::from_hal(
            Box::new(Audited::<hal::api::Noop>::wrap(raw, &auditor)),
            wgt::Backend::Noop,
            desc.flags,
            Options {
                reclaim,
                ..Default::default()
            },
        );
        let adapter = instance.request_adapter(&Default::default()).unwrap();
        let device = adapter.request_device(&Default::default()).unwrap();
        let queue = Queue::new(&device);
        Self {
            auditor,
            device,
            queue,
        }
    }

    fn buffer(&self, label: &str) -> Arc<Buffer> {
        self.device.create_buffer(&wgt::BufferDescriptor {
            label: Some(label),
            size: SIZE,
            usage: wgt::BufferUsages::COPY_SRC | wgt::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        })
    }

    /// Submits a clear of `buffer`.
    fn use_buffer(&self, buffer: &Arc<Buffer>) {
        let encoder = self.device.create_command_encoder(None);
        encoder.clear_buffer(buffer, 0, None);
        self.queue.submit([encoder.finish()]);
    }

    /// Ends the device, and with it everything: nothing was left and no rule was broken.
    fn end(self) {
        self.auditor.clock().complete_all();
        let auditor = self.auditor.clone();
        drop(self);
        let reports: Vec<_> = auditor.reports().iter().map(|r| r.to_string()).collect();
        assert!(reports.is_empty(), "{reports:#?}");
        assert_eq!(auditor.live_bytes(), 0);
    }
}

/// Scenario 24: out of memory while retired memory waits for the fence. The allocation waits for it.
#[test]
fn out_of_memory_waits_for_retired_memory() {
    let rig = Rig::new(Reclaim::OnCall);
    rig.auditor.clock().set(Completion::ManualOrWaited);
    let first = rig.buffer("first");
    rig.use_buffer(&first);
    let other = rig.buffer("other");
    rig.use_buffer(&other);
    let before = rig.auditor.live_bytes();
    rig.auditor.faults().set_memory_budget(Some(before));
    drop(first);
    assert_eq!(rig.auditor.live_bytes(), before, "it is in flight");

    let scope = rig.device.push_error_scope(ErrorKind::OutOfMemory);
    let second = rig.buffer("second");
    assert!(
        rig.device.pop_error_scope(scope).is_none(),
        "it waited for the first one's memory"
    );
    assert_eq!(rig.auditor.live_bytes(), before);
    assert_eq!(
        rig.auditor.clock().pending().len(),
        1,
        "and not for more than that"
    );

    // Nothing is retired any more, so there is nothing to wait for.
    let scope = rig.device.push_error_scope(ErrorKind::OutOfMemory);
    let third = rig.buffer("third");
    let error = rig
        .device
        .pop_error_scope(scope)
        .expect("memory is out")
        .to_string();
    assert!(
        error.contains("third") && error.contains("1 submissions in flight"),
        "{error}"
    );
    drop((second, third, other));
    rig.auditor.faults().clear();
    rig.end();
}

/// I3, in both directions: not before the fence, and soon after it with nobody calling in.
#[test]
fn memory_returns_at_the_fence_and_not_before() {
    let rig = Rig::new(Reclaim::Thread);
    rig.auditor.clock().set(Completion::Manual);
    let idle = rig.auditor.live_bytes();
    let buffer = rig.buffer("in flight");
    rig.use_buffer(&buffer);
    rig.use_buffer(&rig.buffer("later"));
    drop(buffer);
    thread::sleep(Duration::from_millis(50));
    assert_eq!(rig.auditor.live_bytes(), idle + 2 * SIZE);
    for left in [SIZE, 0] {
        rig.auditor
            .clock()
            .complete_next()
            .expect("two are in flight");
        let start = Instant::now();
        while rig.auditor.live_bytes() > idle + left && start.elapsed() < Duration::from_secs(5) {
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(rig.auditor.live_bytes(), idle + left);
    }
    rig.end();
}

/// I4: a refused submission delays nothing and frees nothing early.
#[test]
fn a_refused_submission_leaves_no_stamp() {
    let rig = Rig::new(Reclaim::OnCall);
    rig.auditor.clock().set(Completion::Manual);
    let idle = rig.auditor.live_bytes();
    let (gone, kept, busy) = (rig.buffer("gone"), rig.buffer("kept"), rig.buffer("busy"));
    rig.use_buffer(&busy);
    let encoder = rig.device.create_command_encoder(None);
    for buffer in [&gone, &kept, &busy] {
        encoder.clear_buffer(buffer, 0, None);
    }
    gone.destroy();
    let scope = rig.device.push_error_scope(ErrorKind::Validation);
    rig.queue.submit([encoder.finish()]);
    let error = rig
        .device
        .pop_error_scope(scope)
        .expect("it is refused")
        .to_string();
    assert!(error.contains("\"gone\""), "{error}");
    assert_eq!(rig.auditor.live_bytes(), idle + 2 * SIZE);
    drop(kept);
    assert_eq!(rig.auditor.live_bytes(), idle + SIZE, "idle: freed at once");
    drop(busy);
    assert_eq!(rig.auditor.live_bytes(), idle + SIZE, "in flight: not yet");
    rig.auditor.clock().complete_all();
    rig.device.poll(wgt::PollType::Poll).unwrap();
    assert_eq!(rig.auditor.live_bytes(), idle);
    drop((gone, encoder));
    rig.end();
}
