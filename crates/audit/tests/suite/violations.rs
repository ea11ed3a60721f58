//! Each rule is broken once, on the backend that does nothing, and exactly that is reported.

use crate::rig::{noop, nothing, only, stale, unstale, Rig};
use fencepost_audit::{AuditMode, Auditor, Contract, ObjectKind, Violation};
use wgpu_hal::{self as hal, api::Noop, CommandEncoder as _, Device as _, DeviceError, Queue as _};
use wgpu_types as wgt;

#[test]
fn destroyed_while_encoding() {
    for contract in [Contract::Strict, Contract::Standard] {
        let rig = noop(contract);
        let buffer = rig.buffer("target");
        let mut encoder = rig.encoder("encoder");
        // SAFETY: the encoder is closed, then recording; the range is the buffer's.
        unsafe {
            encoder.begin_encoding(Some("commands")).unwrap();
            encoder.clear_buffer(&buffer, 0..64);
        }
        rig.destroy(buffer);
        if contract == Contract::Strict {
            let report = rig.only(Violation::DestroyedWhileEncoding, "target");
            assert_eq!(report.call, "destroy_buffer");
            assert_eq!(report.object.kind, ObjectKind::Buffer);
            let commands = report.command_buffer.unwrap();
            assert_eq!(commands.label.as_deref(), Some("commands"));
            assert_eq!(report.submission, None);
            let trace = report.backtrace.to_string();
            assert!(trace.contains("destroyed_while_encoding"), "{trace}");
        }
        // SAFETY: the encoder is recording.
        unsafe { encoder.discard_encoding() };
        drop(encoder);
        rig.nothing();
        rig.finish();
    }
}

#[test]
fn destroyed_before_submit() {
    for contract in [Contract::Strict, Contract::Standard] {
        let mut rig = noop(contract);
        let buffer = rig.buffer("target");
        let mut encoder = rig.encoder("encoder");
        let commands = rig.clear(&mut encoder, "commands", &buffer);
        rig.destroy(buffer);
        if contract == Contract::Strict {
            rig.only(Violation::DestroyedBeforeSubmit, "target");
        }
        rig.nothing();
        // Either way it can never be submitted.
        assert_eq!(rig.submit(&[&commands]), Err(DeviceError::Unexpected));
        let report = rig.only(Violation::UseOfDestroyed, "target");
        assert_eq!(report.call, "submit");
        assert_eq!(
            report.command_buffer.unwrap().label.as_deref(),
            Some("commands")
        );
        rig.reset(&mut encoder, vec![commands]);
        drop(encoder);
        rig.nothing();
        rig.finish();
    }
}

#[test]
fn destroyed_in_flight() {
    for contract in [Contract::Strict, Contract::Standard] {
        let mut rig = noop(contract);
        let buffer = rig.buffer("target");
        let mut encoder = rig.encoder("encoder");
        let commands = rig.clear(&mut encoder, "commands", &buffer);
        let value = rig.submit(&[&commands]).unwrap();
        rig.destroy(buffer);
        let report = rig.only(Violation::DestroyedInFlight, "target");
        let submission = report.submission.unwrap();
        assert_eq!((submission.serial, submission.value), (1, value));
        assert!(report.to_string().contains("submission 1"), "{report}");
        rig.wait(value);
        rig.reset(&mut encoder, vec![commands]);
        drop(encoder);
        rig.nothing();
        rig.finish();
    }
}

#[test]
fn of_several_command_buffers_the_furthest_is_named() {
    let mut rig = noop(Contract::Strict);
    let buffer = rig.buffer("target");
    let mut encoder = rig.encoder("encoder");
    let encoded = rig.clear(&mut encoder, "encoded", &buffer);
    let submitted = rig.clear(&mut encoder, "submitted", &buffer);
    rig.submit(&[&submitted]).unwrap();
    rig.destroy(buffer);
    let report = rig.only(Violation::DestroyedInFlight, "target");
    assert_eq!(
        report.command_buffer.unwrap().label.as_deref(),
        Some("submitted")
    );
    assert!(report.detail.contains("1 other"), "{}", report.detail);
    rig.wait(1);
    rig.reset(&mut encoder, vec![encoded, submitted]);
    drop(encoder);
    rig.finish();
}

#[test]
fn destroyed_before_reset_on_request() {
    for on in [false, true] {
        let mut rig = noop(Contract::Strict);
        rig.auditor.set_reset_before_free(on);
        let buffer = rig.buffer("target");
        let mut encoder = rig.encoder("encoder");
        let commands = rig.clear(&mut encoder, "commands", &buffer);
        rig.submit(&[&commands]).unwrap();
        rig.wait(1);
        rig.destroy(buffer);
        if on {
            rig.only(Violation::DestroyedBeforeReset, "target");
        }
        rig.reset(&mut encoder, vec![commands]);
        drop(encoder);
        rig.nothing();
        rig.finish();
    }
}

#[test]
fn encoder_dropped_in_flight() {
    let mut rig = noop(Contract::Standard);
    let buffer = rig.buffer("target");
    let mut encoder = rig.encoder("encoder");
    let commands = rig.clear(&mut encoder, "commands", &buffer);
    rig.submit(&[&commands]).unwrap();
    drop(encoder);
    let report = rig.only(Violation::DroppedInFlight, "encoder");
    assert_eq!(report.object.kind, ObjectKind::CommandEncoder);
    assert_eq!(report.submission.unwrap().value, 1);
    rig.wait(1);
    rig.destroy(buffer);
    rig.nothing();
    rig.finish();
}

#[test]
fn fence_dropped_or_destroyed_in_flight() {
    for destroyed in [true, false] {
        let mut rig = noop(Contract::Standard);
        rig.submit(&[]).unwrap();
        let auditor = rig.auditor.clone();
        if destroyed {
            rig.finish();
            let report = only(&auditor, Violation::DroppedInFlight, "");
            assert_eq!(report.call, "destroy_fence");
        } else {
            drop(rig.fence);
            let report = only(&auditor, Violation::DroppedInFlight, "");
            assert_eq!(report.call, "drop of a fence");
            assert_eq!(report.object.kind, ObjectKind::Fence);
            drop(rig.queue);
            drop(rig.device);
            // Not destroyed, so it leaked.
            only(&auditor, Violation::StillAlive, "");
        }
        nothing(&auditor);
    }
}

#[test]
fn reset_in_flight() {
    let mut rig = noop(Contract::Standard);
    let buffer = rig.buffer("target");
    let mut encoder = rig.encoder("encoder");
    let commands = rig.clear(&mut encoder, "commands", &buffer);
    rig.submit(&[&commands]).unwrap();
    rig.reset(&mut encoder, vec![commands]);
    let report = rig.only(Violation::ResetInFlight, "commands");
    assert_eq!(report.submission.unwrap().value, 1);
    rig.wait(1);
    rig.destroy(buffer);
    drop(encoder);
    rig.nothing();
    rig.finish();
}

#[test]
fn reset_without_all_command_buffers() {
    let rig = noop(Contract::Standard);
    let buffer = rig.buffer("target");
    let mut encoder = rig.encoder("encoder");
    let given = rig.clear(&mut encoder, "given", &buffer);
    let _kept = rig.clear(&mut encoder, "kept", &buffer);
    rig.reset(&mut encoder, vec![given]);
    let report = rig.only(Violation::ResetIncomplete, "encoder");
    assert_eq!(
        report.command_buffer.unwrap().label.as_deref(),
        Some("kept")
    );
    rig.destroy(buffer);
    drop(encoder);
    rig.nothing();
    rig.finish();
}

#[test]
fn destroyed_twice() {
    let rig = noop(Contract::Standard);
    let buffer = rig.buffer("target");
    let again = stale(&buffer);
    rig.destroy(buffer);
    rig.nothing();
    rig.destroy(unstale(again));
    let report = rig.only(Violation::DoubleDestroy, "target");
    assert_eq!(report.object.kind, ObjectKind::Buffer);

    let texture = rig.texture("texture");
    let again = stale(&texture);
    // SAFETY: unused; the second time is what the test is about.
    unsafe {
        rig.device.destroy_texture(texture);
        rig.device.destroy_texture(unstale(again));
    }
    rig.only(Violation::DoubleDestroy, "texture");

    // SAFETY: unused; the second time is what the test is about.
    unsafe {
        let fence = rig.device.create_fence().unwrap();
        let again = stale(&fence);
        rig.device.destroy_fence(fence);
        rig.device.destroy_fence(unstale(again));
    }
    rig.only(Violation::DoubleDestroy, "");
    rig.finish();
}

#[test]
fn reset_twice() {
    let rig = noop(Contract::Standard);
    let buffer = rig.buffer("target");
    let mut encoder = rig.encoder("encoder");
    let commands = rig.clear(&mut encoder, "commands", &buffer);
    let again = stale(&commands);
    rig.reset(&mut encoder, vec![commands]);
    rig.nothing();
    rig.reset(&mut encoder, vec![unstale(again)]);
    rig.only(Violation::DoubleDestroy, "commands");
    rig.destroy(buffer);
    drop(encoder);
    rig.finish();
}

#[test]
fn used_after_its_destruction() {
    let mut rig = noop(Contract::Standard);
    let buffer = rig.buffer("target");
    let gone = stale(&buffer);
    rig.destroy(buffer);
    let mut encoder = rig.encoder("encoder");
    let commands = rig.clear(&mut encoder, "commands", &gone);
    let report = rig.only(Violation::UseOfDestroyed, "target");
    assert_eq!(report.call, "clear_buffer");
    assert_eq!(
        report.command_buffer.unwrap().label.as_deref(),
        Some("commands")
    );
    assert_eq!(rig.submit(&[&commands]), Err(DeviceError::Unexpected));
    assert_eq!(rig.only(Violation::UseOfDestroyed, "target").call, "submit");
    // SAFETY: what the test is about.
    let mapped = unsafe { rig.device.map_buffer(&gone, 0..64) };
    assert_eq!(mapped.err(), Some(DeviceError::Unexpected));
    rig.only(Violation::UseOfDestroyed, "target");

    let texture = rig.texture("texture");
    let gone = stale(&texture);
    // SAFETY: unused.
    unsafe { rig.device.destroy_texture(texture) };
    let desc = hal::TextureViewDescriptor {
        label: None,
        format: wgt::TextureFormat::Rgba8Unorm,
        dimension: wgt::TextureViewDimension::D2,
        usage: wgt::TextureUses::RESOURCE,
        range: wgt::ImageSubresourceRange::default(),
    };
    // SAFETY: what the test is about.
    let view = unsafe { rig.device.create_texture_view(&gone, &desc) };
    assert_eq!(view.err(), Some(DeviceError::Unexpected));
    rig.only(Violation::UseOfDestroyed, "texture");

    let fresh = rig.buffer("fresh");
    let before = rig.clear(&mut encoder, "before", &fresh);
    let gone = stale(&before);
    rig.reset(&mut encoder, vec![commands, before]);
    assert_eq!(rig.submit(&[&gone]), Err(DeviceError::Unexpected));
    rig.only(Violation::UseOfDestroyed, "before");
    rig.destroy(fresh);
    drop(encoder);
    rig.nothing();
    rig.finish();
}

#[test]
fn mapped_in_flight() {
    let mut rig = noop(Contract::Standard);
    let buffer = rig.buffer("target");
    let mut encoder = rig.encoder("encoder");
    let commands = rig.clear(&mut encoder, "commands", &buffer);
    rig.submit(&[&commands]).unwrap();
    // SAFETY: the range is the buffer's; the rest is what the test is about.
    unsafe { rig.device.map_buffer(&buffer, 0..64) }.unwrap();
    rig.only(Violation::MappedInFlight, "target");
    rig.wait(1);
    // SAFETY: it is mapped and idle, then unmapped.
    unsafe {
        rig.device.unmap_buffer(&buffer);
        rig.device.map_buffer(&buffer, 0..64).unwrap();
        rig.device.unmap_buffer(&buffer);
    }
    rig.reset(&mut encoder, vec![commands]);
    rig.destroy(buffer);
    drop(encoder);
    rig.nothing();
    rig.finish();
}

#[test]
fn unmapped_flushed_or_invalidated_without_a_mapping() {
    let rig = noop(Contract::Standard);
    let buffer = rig.buffer("target");
    // SAFETY: what the test is about.
    unsafe {
        rig.device.unmap_buffer(&buffer);
        assert_eq!(
            rig.only(Violation::NotMapped, "target").call,
            "unmap_buffer"
        );
        rig.device
            .flush_mapped_ranges(&buffer, std::iter::once(0..4));
        assert_eq!(
            rig.only(Violation::NotMapped, "target").call,
            "flush_mapped_ranges"
        );
        rig.device
            .invalidate_mapped_ranges(&buffer, std::iter::once(0..4));
        assert_eq!(
            rig.only(Violation::NotMapped, "target").call,
            "invalidate_mapped_ranges"
        );
    }
    rig.destroy(buffer);
    rig.finish();
}

#[test]
fn a_layout_destroyed_before_its_bind_groups() {
    let rig = noop(Contract::Standard);
    // SAFETY: the descriptors are well-formed; the order is what the test is about.
    unsafe {
        let layout = rig
            .device
            .create_bind_group_layout(&hal::BindGroupLayoutDescriptor {
                label: Some("layout"),
                flags: hal::BindGroupLayoutFlags::empty(),
                entries: &[],
            })
            .unwrap();
        let group = |layout| {
            let desc = hal::BindGroupDescriptor {
                label: Some("group"),
                layout,
                buffers: &[],
                samplers: &[],
                textures: &[],
                entries: &[],
                acceleration_structures: &[],
                external_textures: &[],
            };
            rig.device.create_bind_group(&desc).unwrap()
        };
        let (first, second) = (group(&layout), group(&layout));
        rig.device.destroy_bind_group(first);
        rig.nothing();
        rig.device.destroy_bind_group_layout(layout);
        let report = rig.only(Violation::LayoutInUse, "layout");
        assert_eq!(report.detail, "1 bind groups of it exist");
        rig.device.destroy_bind_group(second);
    }
    rig.nothing();
    rig.finish();
}

#[test]
fn destroyed_while_mapped() {
    let rig = noop(Contract::Standard);
    let buffer = rig.buffer("target");
    // SAFETY: the range is the buffer's.
    unsafe { rig.device.map_buffer(&buffer, 0..64) }.unwrap();
    rig.destroy(buffer);
    rig.only(Violation::DestroyedWhileMapped, "target");
    rig.finish();
}

/// Every call that the state of an encoder forbids, state by state.
#[test]
fn out_of_order() {
    let mut rig = noop(Contract::Standard);
    let buffer = rig.buffer("target");
    let mut encoder = rig.encoder("encoder");
    let check = |rig: &Rig<Noop>, call: &str| {
        let report = rig.only(Violation::OutOfOrder, "encoder");
        assert_eq!(report.call, call);
        report
    };
    // SAFETY: what the test is about; the auditor withholds the calls.
    unsafe {
        // Closed.
        assert_eq!(encoder.end_encoding().err(), Some(DeviceError::Unexpected));
        assert!(check(&rig, "end_encoding").detail.contains("closed"));
        encoder.discard_encoding();
        check(&rig, "discard_encoding");
        encoder.clear_buffer(&buffer, 0..64);
        check(&rig, "clear_buffer");
        encoder.begin_debug_marker("marker");
        check(&rig, "begin_debug_marker");
        encoder.transition_buffers(std::iter::empty());
        check(&rig, "transition_buffers");
        // Recording, outside of passes.
        encoder.begin_encoding(None).unwrap();
        assert_eq!(encoder.begin_encoding(None), Err(DeviceError::Unexpected));
        check(&rig, "begin_encoding");
        encoder.reset_all(std::iter::empty());
        check(&rig, "reset_all");
        encoder.dispatch_workgroups([1, 1, 1]);
        let report = check(&rig, "dispatch_workgroups");
        assert!(report.detail.contains("outside of passes"), "{report}");
        encoder.draw(0, 3, 0, 1);
        check(&rig, "draw");
        encoder.end_compute_pass();
        check(&rig, "end_compute_pass");
        // In a compute pass.
        let desc = hal::ComputePassDescriptor {
            label: None,
            timestamp_writes: None,
        };
        encoder.begin_compute_pass(&desc);
        encoder.begin_compute_pass(&desc);
        let report = check(&rig, "begin_compute_pass");
        assert!(report.detail.contains("in a Compute pass"), "{report}");
        encoder.clear_buffer(&buffer, 0..64);
        check(&rig, "clear_buffer");
        encoder.draw(0, 3, 0, 1);
        check(&rig, "draw");
        encoder.end_render_pass();
        check(&rig, "end_render_pass");
        assert_eq!(encoder.end_encoding().err(), Some(DeviceError::Unexpected));
        check(&rig, "end_encoding");
        encoder.end_compute_pass();
        // In a render pass.
        let desc = hal::RenderPassDescriptor {
            label: None,
            extent: wgt::Extent3d::default(),
            sample_count: 1,
            color_attachments: &[],
            depth_stencil_attachment: None,
            multiview_mask: None,
            timestamp_writes: None,
            occlusion_query_set: None,
        };
        encoder.begin_render_pass(&desc).unwrap();
        encoder.transition_buffers(std::iter::empty());
        check(&rig, "transition_buffers");
        encoder.dispatch_workgroups([1, 1, 1]);
        check(&rig, "dispatch_workgroups");
        encoder.end_render_pass();
        rig.nothing();
        let commands = encoder.end_encoding().unwrap();
        // Submitted.
        rig.submit(&[&commands]).unwrap();
        assert_eq!(rig.submit(&[&commands]), Err(DeviceError::Unexpected));
        let report = rig.only(Violation::OutOfOrder, "");
        assert_eq!(report.object.kind, ObjectKind::CommandBuffer);
        rig.wait(1);
        rig.reset(&mut encoder, vec![commands]);
    }
    let commands = rig.clear(&mut encoder, "twice in one", &buffer);
    assert_eq!(
        rig.submit(&[&commands, &commands]),
        Err(DeviceError::Unexpected)
    );
    rig.only(Violation::OutOfOrder, "twice in one");
    rig.reset(&mut encoder, vec![commands]);
    rig.destroy(buffer);
    drop(encoder);
    rig.nothing();
    rig.finish();
}

#[test]
fn objects_of_another_device_or_encoder() {
    let auditor = Auditor::new(Contract::Standard, AuditMode::Collect);
    let mut one = Rig::<Noop>::open(&auditor).unwrap();
    let mut two = Rig::<Noop>::open(&auditor).unwrap();
    let buffer = one.buffer("of one");
    let mut encoder_one = one.encoder("encoder of one");
    let mut encoder_two = two.encoder("encoder of two");

    let commands = two.clear(&mut encoder_two, "commands of two", &buffer);
    let report = only(&auditor, Violation::ForeignObject, "of one");
    assert_eq!(report.call, "clear_buffer");
    assert_eq!(two.submit(&[&commands]), Err(DeviceError::Unexpected));
    only(&auditor, Violation::UseOfDestroyed, "of one");
    two.reset(&mut encoder_two, vec![commands]);

    let commands = one.clear(&mut encoder_one, "commands of one", &buffer);
    assert_eq!(two.submit(&[&commands]), Err(DeviceError::Unexpected));
    let report = only(&auditor, Violation::ForeignObject, "commands of one");
    assert_eq!(report.call, "submit");
    two.reset(&mut encoder_two, vec![commands]);
    only(&auditor, Violation::ForeignObject, "commands of one");
    // It was forgotten with that call, so only its own reset is left.
    one.reset(&mut encoder_one, vec![]);
    only(&auditor, Violation::ResetIncomplete, "encoder of one");

    // SAFETY: what the test is about.
    let result = unsafe { two.queue.submit(&[], &[], (&one.fence, 1)) };
    assert_eq!(result, Err(DeviceError::Unexpected));
    only(&auditor, Violation::ForeignObject, "");
    // SAFETY: what the test is about.
    let mapped = unsafe { two.device.map_buffer(&buffer, 0..4) };
    assert!(mapped.is_err());
    only(&auditor, Violation::ForeignObject, "of one");
    two.destroy(buffer);
    let report = only(&auditor, Violation::ForeignObject, "of one");
    assert_eq!(report.call, "destroy_buffer");
    one.submit(&[]).unwrap();
    one.wait(1);
    drop((encoder_one, encoder_two));
    one.finish();
    two.finish();
    nothing(&auditor);
}

#[test]
fn waited_for_what_was_never_submitted() {
    let mut rig = noop(Contract::Standard);
    // SAFETY: what the test is about.
    let waited = unsafe { rig.device.wait(&rig.fence, 1, None) };
    assert_eq!(waited, Err(DeviceError::Unexpected));
    let report = rig.only(Violation::WaitNeverSubmitted, "");
    assert!(report.detail.contains("waited for 1"), "{report}");
    rig.submit(&[]).unwrap();
    rig.wait(1);
    rig.wait(0);
    rig.nothing();
    rig.finish();
}

#[test]
fn fence_values_that_do_not_rise() {
    let mut rig = noop(Contract::Standard);
    rig.submit(&[]).unwrap();
    rig.value = 0;
    rig.submit(&[]).unwrap();
    let report = rig.only(Violation::FenceNotIncreasing, "");
    assert!(report.detail.contains("1 after 1"), "{report}");
    rig.wait(1);
    rig.finish();
}

#[test]
fn still_alive_when_the_device_goes() {
    let rig = noop(Contract::Standard);
    let auditor = rig.auditor.clone();
    let buffer = rig.buffer("leak one");
    let texture = rig.texture("leak two");
    let encoder = rig.encoder("encoder");
    rig.finish();
    let reports = auditor.take_reports();
    let found: Vec<_> = reports
        .iter()
        .map(|report| (report.violation, report.object.label.as_deref().unwrap()))
        .collect();
    let expected = ["leak one", "leak two"];
    assert_eq!(found, expected.map(|label| (Violation::StillAlive, label)));
    assert_eq!(auditor.live_bytes(), 0);
    drop((buffer, texture));
    // Its pool goes when it does, device or not.
    let live = auditor.live_objects();
    assert_eq!(live.len(), 1);
    assert_eq!(live[0].label.as_deref(), Some("encoder"));
    drop(encoder);
    assert!(auditor.live_objects().is_empty());
    nothing(&auditor);
}

#[test]
fn a_report_can_panic_before_the_backend_sees_the_call() {
    let rig = noop(Contract::Standard);
    rig.auditor.set_mode(AuditMode::Panic);
    let buffer = rig.buffer("target");
    let again = stale(&buffer);
    rig.destroy(buffer);
    let device = &rig.device;
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        // SAFETY: what the test is about; withheld.
        unsafe { device.map_buffer(&again, 0..4) }.map(drop)
    }));
    let message = *panic.unwrap_err().downcast::<String>().unwrap();
    assert!(
        message.starts_with("UseOfDestroyed in map_buffer"),
        "{message}"
    );
    assert!(message.contains("'target'"), "{message}");
    assert_eq!(rig.auditor.report_count(), 1);
    rig.auditor.set_mode(AuditMode::Collect);
    rig.finish();
}

#[test]
fn reports_are_bounded_and_counted() {
    let rig = noop(Contract::Standard);
    let buffer = rig.buffer("target");
    let count = fencepost_audit::MAX_REPORTS + 5;
    for _ in 0..count {
        // SAFETY: what the test is about; withheld.
        unsafe { rig.device.unmap_buffer(&buffer) };
    }
    assert_eq!(rig.auditor.report_count(), count as u64);
    assert_eq!(
        rig.auditor.take_reports().len(),
        fencepost_audit::MAX_REPORTS
    );
    rig.destroy(buffer);
    rig.finish();
}

/// Reports go to the log by default, with label and backtrace.
#[test]
fn a_report_can_be_logged() {
    use std::sync::Mutex;
    static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());
    struct Keep;
    impl log::Log for Keep {
        fn enabled(&self, _: &log::Metadata<'_>) -> bool {
            true
        }
        fn log(&self, record: &log::Record<'_>) {
            let line = record.args().to_string();
            if line.contains("only for the log") {
                LINES.lock().unwrap().push(line);
            }
        }
        fn flush(&self) {}
    }
    log::set_logger(&Keep).unwrap();
    log::set_max_level(log::LevelFilter::Error);
    let rig = Rig::<Noop>::open(&Auditor::default()).unwrap();
    let buffer = rig.buffer("only for the log");
    // SAFETY: what the test is about; withheld.
    unsafe { rig.device.unmap_buffer(&buffer) };
    rig.destroy(buffer);
    rig.finish();
    let lines = LINES.lock().unwrap();
    assert_eq!(lines.len(), 1);
    assert!(
        lines[0].starts_with("NotMapped in unmap_buffer"),
        "{}",
        lines[0]
    );
    assert!(lines[0].contains("a_report_can_be_logged"), "{}", lines[0]);
}
