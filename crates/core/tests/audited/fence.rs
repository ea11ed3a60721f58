//! Memory that comes back at the fence: not before it, soon after it, and at once where nothing is in
//! flight.

use crate::rig::{Rig, SIZE};
use fencepost_audit::{Completion, ObjectKind};
use fencepost_core::{ErrorKind, Reclaim};
use std::{
    thread,
    time::{Duration, Instant},
};
use wgpu_types as wgt;

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

/// I1 for what the core itself adds to a submission: the objects that check indirect arguments outlive it,
/// also when the device is destroyed meanwhile.
#[test]
fn a_destroyed_device_keeps_what_checks_indirect_arguments() {
    let rig = Rig::new(Reclaim::OnCall);
    rig.auditor.clock().set(Completion::Manual);
    let pipeline = rig.pipeline();
    let arguments = rig.device.create_buffer(&wgt::BufferDescriptor {
        label: Some("arguments"),
        size: 64,
        usage: wgt::BufferUsages::INDIRECT,
        mapped_at_creation: false,
    });
    for offset in [0, 4, 0] {
        let encoder = rig.device.create_command_encoder(None);
        let mut pass = encoder.begin_compute_pass(&Default::default());
        pass.set_pipeline(&pipeline);
        pass.dispatch_workgroups_indirect(&arguments, offset);
        drop(pass);
        rig.queue.submit([encoder.finish()]);
    }
    rig.device.destroy();
    assert!(
        rig.auditor.reports().is_empty(),
        "{:#?}",
        rig.auditor.reports()
    );
    rig.auditor.clock().complete_all();
    rig.device.poll(wgt::PollType::Poll).unwrap();
    let left: Vec<_> = rig.auditor.live_objects();
    let own = |kind| matches!(kind, ObjectKind::Fence | ObjectKind::CommandEncoder);
    assert!(left.iter().all(|object| own(object.kind)), "{left:#?}");
    drop((pipeline, arguments));
    rig.end();
}
