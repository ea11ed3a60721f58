//! Programs that keep the contract are not reported, in the strictest mode, and get what they asked for.

use crate::rig::{noop, Rig};
use fencepost_audit::{AuditMode, Auditor, Contract};
use wgpu_hal::{self as hal, api::Noop, Adapter as _, CommandEncoder as _, Device as _};
use wgpu_hal::{Instance as _, Queue as _};
use wgpu_types as wgt;

/// Many frames, several in flight, everything freed at its fence; the bytes arrive.
#[test]
fn frames_in_flight() {
    let mut rig = noop(Contract::Strict);
    rig.auditor.set_reset_before_free(true);
    let upload = rig.buffer("upload");
    let mut in_flight = std::collections::VecDeque::new();
    for frame in 0..200_u8 {
        let target = rig.buffer("target");
        let staging = rig.buffer("staging");
        // SAFETY: staging is new, so the CPU has it to itself.
        unsafe {
            let mapping = rig.device.map_buffer(&staging, 0..64).unwrap();
            mapping.ptr.as_ptr().write_bytes(frame, 64);
            rig.device
                .flush_mapped_ranges(&staging, std::iter::once(0..64));
            rig.device.unmap_buffer(&staging);
        }
        let mut encoder = rig.encoder("frame");
        let commands = rig.record(&mut encoder, "frame", |encoder| {
            let region = hal::BufferCopy {
                src_offset: 0,
                dst_offset: 0,
                size: wgt::BufferSize::new(64).unwrap(),
            };
            // SAFETY: the ranges are the buffers'.
            unsafe {
                encoder.begin_debug_marker("upload");
                encoder.copy_buffer_to_buffer(&staging, &target, std::iter::once(region));
                encoder.copy_buffer_to_buffer(&target, &upload, std::iter::once(region));
                encoder.end_debug_marker();
            }
        });
        let value = rig.submit(&[&commands]).unwrap();
        in_flight.push_back((value, encoder, commands, staging, target));
        if in_flight.len() > 3 {
            let (value, mut encoder, commands, staging, target) = in_flight.pop_front().unwrap();
            rig.wait(value);
            rig.reset(&mut encoder, vec![commands]);
            rig.destroy(staging);
            rig.destroy(target);
        }
    }
    // SAFETY: nothing else happens on the queue.
    unsafe { rig.queue.wait_for_idle() }.unwrap();
    for (_, mut encoder, commands, staging, target) in in_flight {
        rig.reset(&mut encoder, vec![commands]);
        rig.destroy(staging);
        rig.destroy(target);
    }
    // SAFETY: idle; every byte was written.
    unsafe {
        let mapping = rig.device.map_buffer(&upload, 0..64).unwrap();
        let bytes = std::slice::from_raw_parts(mapping.ptr.as_ptr(), 64);
        assert!(bytes.iter().all(|&byte| byte == 199));
        rig.device.unmap_buffer(&upload);
    }
    rig.destroy(upload);
    let auditor = rig.auditor.clone();
    rig.finish();
    crate::rig::nothing(&auditor);
    assert!(auditor.calls() > 2000);
    assert_eq!(auditor.live_bytes(), 0);
}

/// Discarded and reset command buffers let go of everything at once.
#[test]
fn discard_and_reset_let_go() {
    let rig = noop(Contract::Strict);
    let mut encoder = rig.encoder("encoder");
    let discarded = rig.buffer("discarded");
    // SAFETY: closed, then recording, then discarded.
    unsafe {
        encoder.begin_encoding(None).unwrap();
        encoder.clear_buffer(&discarded, 0..64);
        encoder.discard_encoding();
    }
    rig.destroy(discarded);
    let reset = rig.buffer("reset");
    let commands = rig.clear(&mut encoder, "commands", &reset);
    rig.reset(&mut encoder, vec![commands]);
    rig.destroy(reset);
    let dropped = rig.buffer("dropped");
    let commands = rig.clear(&mut encoder, "commands", &dropped);
    drop(encoder);
    drop(commands);
    rig.destroy(dropped);
    rig.nothing();
    let auditor = rig.auditor.clone();
    rig.finish();
    crate::rig::nothing(&auditor);
}

/// Eight threads record, one queue submits, everyone frees behind its fence.
#[test]
fn threads() {
    let auditor = Auditor::new(Contract::Strict, AuditMode::Collect);
    let rig = Rig::<Noop>::open(&auditor).unwrap();
    let submitted = std::sync::Mutex::new(0_u64);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let buffer = rig.buffer("of a thread");
                    let mut encoder = rig.encoder("of a thread");
                    let commands = rig.clear(&mut encoder, "of a thread", &buffer);
                    let value = {
                        let mut value = submitted.lock().unwrap();
                        *value += 1;
                        let signal = (&rig.fence, *value);
                        // SAFETY: submissions are in order, and what they use lives until the wait.
                        unsafe { rig.queue.submit(&[&commands], &[], signal) }.unwrap();
                        *value
                    };
                    rig.wait(value);
                    rig.reset(&mut encoder, vec![commands]);
                    rig.destroy(buffer);
                }
            });
        }
    });
    rig.finish();
    crate::rig::nothing(&auditor);
    assert_eq!(auditor.live_bytes(), 0);
}

/// An instance made by the trait's own `init` has an auditor as well.
#[test]
fn init_without_a_handle() {
    let mut backend_options = wgt::BackendOptions::default();
    backend_options.noop.enable = true;
    let desc = hal::InstanceDescriptor {
        name: "audit",
        flags: wgt::InstanceFlags::empty(),
        memory_budget_thresholds: wgt::MemoryBudgetThresholds::default(),
        backend_options,
        telemetry: None,
        display: None,
    };
    // SAFETY: the description is complete; the adapter offers its own limits.
    unsafe {
        let instance = fencepost_audit::Instance::<Noop>::init(&desc).unwrap();
        let exposed = instance.enumerate_adapters(None).remove(0);
        let open = exposed
            .adapter
            .open(
                wgt::Features::empty(),
                &exposed.capabilities.limits,
                &wgt::MemoryHints::default(),
            )
            .unwrap();
        let fence = open.device.create_fence().unwrap();
        open.device.destroy_fence(fence);
        assert_eq!(instance.auditor().calls(), 2);
        assert_eq!(instance.auditor().report_count(), 0);
    }
}
