//! Each fault happens where it was asked for, once, and leaves everything able to be freed.

use crate::rig::{noop, Rig};
use fencepost_audit::{AuditMode, Audited, Auditor, Contract, ObjectKind, Site};
use std::time::{Duration, Instant};
use wgpu_hal::{self as hal, api::Noop, CommandEncoder as _, Device as _, DeviceError, Queue as _};
use wgpu_types as wgt;

#[test]
fn memory_budget() {
    let rig = noop(Contract::Strict);
    let faults = rig.auditor.faults();
    faults.set_memory_budget(Some(200));
    let first = rig.try_buffer("first", 150).unwrap();
    assert_eq!(
        rig.try_buffer("second", 51).err(),
        Some(DeviceError::OutOfMemory)
    );
    let second = rig.try_buffer("second", 50).unwrap();
    assert_eq!(rig.auditor.live_bytes(), 200);
    rig.destroy(first);
    // 4 by 4 texels of 4 bytes.
    let texture = rig.texture("texture");
    assert_eq!(rig.auditor.live_bytes(), 50 + 64);
    let third = rig.try_buffer("third", 87);
    assert_eq!(third.err(), Some(DeviceError::OutOfMemory));
    // SAFETY: unused.
    unsafe { rig.device.destroy_texture(texture) };
    faults.set_memory_budget(None);
    let third = rig.try_buffer("third", 1000).unwrap();
    rig.destroy(second);
    rig.destroy(third);
    rig.nothing();
    rig.finish();
}

#[test]
fn out_of_memory_at_the_nth_allocation() {
    let rig = noop(Contract::Strict);
    let faults = rig.auditor.faults();
    faults.fail_at(Site::Allocation, 2, DeviceError::OutOfMemory);
    let first = rig.buffer("first");
    // SAFETY: plain use.
    let fence = unsafe { rig.device.create_fence() };
    assert_eq!(fence.err(), Some(DeviceError::OutOfMemory));
    let second = rig.buffer("second");
    // One kind only.
    faults.fail_at(
        Site::Create(ObjectKind::QuerySet),
        1,
        DeviceError::OutOfMemory,
    );
    let third = rig.buffer("third");
    let desc = wgt::QuerySetDescriptor {
        label: None,
        ty: wgt::QueryType::Occlusion,
        count: 1,
    };
    // SAFETY: plain use.
    let set = unsafe { rig.device.create_query_set(&desc) };
    assert_eq!(set.err(), Some(DeviceError::OutOfMemory));
    // SAFETY: plain use.
    unsafe {
        let set = rig.device.create_query_set(&desc).unwrap();
        rig.device.destroy_query_set(set);
    }
    for buffer in [first, second, third] {
        rig.destroy(buffer);
    }
    rig.nothing();
    rig.finish();
}

#[test]
fn failed_submit_runs_nothing_and_leaves_the_command_buffer() {
    let mut rig = noop(Contract::Strict);
    let buffer = rig.host_buffer("target", wgt::BufferUses::MAP_READ);
    // SAFETY: idle; the range is the buffer's.
    unsafe {
        let mapping = rig.device.map_buffer(&buffer, 0..64).unwrap();
        mapping.ptr.as_ptr().write_bytes(7, 64);
        rig.device.unmap_buffer(&buffer);
    }
    let mut encoder = rig.encoder("encoder");
    let commands = rig.clear(&mut encoder, "commands", &buffer);
    rig.auditor
        .faults()
        .fail_at(Site::Submit, 1, DeviceError::OutOfMemory);
    assert_eq!(rig.submit(&[&commands]), Err(DeviceError::OutOfMemory));
    assert!(rig.auditor.clock().pending().is_empty());
    // SAFETY: idle, since nothing was submitted; the range is the buffer's.
    unsafe {
        let mapping = rig.device.map_buffer(&buffer, 0..64).unwrap();
        assert_eq!(mapping.ptr.as_ptr().read(), 7);
        rig.device.unmap_buffer(&buffer);
    }
    let value = rig.submit(&[&commands]).unwrap();
    rig.wait(value);
    rig.reset(&mut encoder, vec![commands]);
    rig.destroy(buffer);
    drop(encoder);
    rig.nothing();
    rig.finish();
}

#[test]
fn failed_encoding() {
    let rig = noop(Contract::Strict);
    let faults = rig.auditor.faults();
    let buffer = rig.buffer("target");
    let mut encoder = rig.encoder("encoder");
    faults.fail_at(Site::BeginEncoding, 1, DeviceError::OutOfMemory);
    // SAFETY: the encoder is closed, and stays so.
    let begun = unsafe { encoder.begin_encoding(None) };
    assert_eq!(begun, Err(DeviceError::OutOfMemory));
    faults.fail_at(Site::EndEncoding, 1, DeviceError::OutOfMemory);
    // SAFETY: the encoder is closed, then recording; the range is the buffer's.
    let ended = unsafe {
        encoder.begin_encoding(None).unwrap();
        encoder.clear_buffer(&buffer, 0..64);
        encoder.end_encoding()
    };
    assert_eq!(ended.err(), Some(DeviceError::OutOfMemory));
    // Closed again, and nothing is referred to.
    let commands = rig.record(&mut encoder, "empty", |_| {});
    rig.destroy(buffer);
    rig.reset(&mut encoder, vec![commands]);
    drop(encoder);
    rig.nothing();
    rig.finish();
}

#[test]
fn failed_map_and_wait() {
    let mut rig = noop(Contract::Strict);
    let faults = rig.auditor.faults();
    let buffer = rig.buffer("target");
    faults.fail_at(Site::Map, 2, DeviceError::OutOfMemory);
    // SAFETY: idle; the range is the buffer's.
    unsafe {
        rig.device.map_buffer(&buffer, 0..64).unwrap();
        rig.device.unmap_buffer(&buffer);
        let failed = rig.device.map_buffer(&buffer, 0..64);
        assert_eq!(failed.err(), Some(DeviceError::OutOfMemory));
    }
    // Not mapped, so it may be destroyed.
    rig.destroy(buffer);
    rig.submit(&[]).unwrap();
    faults.fail_at(Site::Wait, 1, DeviceError::Unexpected);
    // SAFETY: submitted.
    let waited = unsafe { rig.device.wait(&rig.fence, 1, None) };
    assert_eq!(waited, Err(DeviceError::Unexpected));
    rig.wait(1);
    rig.nothing();
    rig.finish();
}

#[test]
fn slow_fences() {
    let mut rig = noop(Contract::Strict);
    let delay = Duration::from_millis(40);
    rig.auditor.faults().slow_fences(delay);
    let start = Instant::now();
    rig.submit(&[]).unwrap();
    // SAFETY: the fence is the device's; its value was submitted.
    unsafe {
        let early = rig.device.get_fence_value(&rig.fence).unwrap();
        assert!(early == 0 || start.elapsed() >= delay);
        let timeout = Some(Duration::from_millis(1));
        let early = rig.device.wait(&rig.fence, 1, timeout).unwrap();
        assert!(!early || start.elapsed() >= delay);
        assert_eq!(rig.device.wait(&rig.fence, 1, None), Ok(true));
        assert!(start.elapsed() >= delay);
        assert_eq!(rig.device.get_fence_value(&rig.fence), Ok(1));
        let start = Instant::now();
        rig.submit(&[]).unwrap();
        rig.queue.wait_for_idle().unwrap();
        assert!(start.elapsed() >= delay);
        assert_eq!(rig.device.get_fence_value(&rig.fence), Ok(2));
    }
    rig.auditor.faults().clear();
    rig.submit(&[]).unwrap();
    // SAFETY: the fence is the device's.
    assert_eq!(unsafe { rig.device.get_fence_value(&rig.fence) }, Ok(3));
    rig.finish();
}

/// A small program of all the calls that matter. It stops at the first error, frees what it has, and
/// keeps the contract throughout.
fn program(rig: &mut Rig<Noop>) -> Result<(), DeviceError> {
    let mut buffers = Vec::new();
    let mut encoders = Vec::new();
    let mut commands = Vec::new();
    let result = (|| {
        for _ in 0..2 {
            buffers.push(rig.try_buffer("target", 64)?);
        }
        // SAFETY: plain use; what is in flight is waited for before it is freed.
        unsafe {
            rig.device.map_buffer(&buffers[0], 0..64)?;
            rig.device.unmap_buffer(&buffers[0]);
            let desc = hal::CommandEncoderDescriptor {
                label: None,
                queue: &rig.queue,
            };
            encoders.push(rig.device.create_command_encoder(&desc)?);
            encoders[0].begin_encoding(None)?;
            encoders[0].clear_buffer(&buffers[0], 0..64);
            let region = hal::BufferCopy {
                src_offset: 0,
                dst_offset: 0,
                size: wgt::BufferSize::new(64).unwrap(),
            };
            let (src, dst) = (&buffers[0], &buffers[1]);
            encoders[0].copy_buffer_to_buffer(src, dst, std::iter::once(region));
            commands.push(encoders[0].end_encoding()?);
            let value = rig.value + 1;
            rig.queue
                .submit(&[&commands[0]], &[], (&rig.fence, value))?;
            rig.value = value;
            rig.device.get_fence_value(&rig.fence)?;
            rig.device.wait(&rig.fence, value, None)?;
            rig.queue.wait_for_idle()?;
            rig.device.check_if_oom()?;
        }
        Ok(())
    })();
    if let Some(encoder) = encoders.first_mut() {
        rig.reset(encoder, commands);
    }
    drop(encoders);
    for buffer in buffers {
        rig.destroy(buffer);
    }
    result
}

/// The device dies at every single call, one after the other.
#[test]
fn device_lost_at_every_call() {
    let mut rig = noop(Contract::Strict);
    let before = rig.auditor.calls();
    program(&mut rig).unwrap();
    let calls = rig.auditor.calls() - before;
    rig.nothing();
    rig.finish();
    assert!(calls > 15);
    let mut failed = 0;
    for nth in 1..=calls {
        let mut rig = noop(Contract::Strict);
        let auditor = rig.auditor.clone();
        auditor.faults().lose_device_at(nth);
        let result = program(&mut rig);
        if let Err(error) = result {
            assert_eq!(error, DeviceError::Lost, "call {nth}");
            failed += 1;
        }
        // Whichever call it was, nothing works from there on.
        let late = rig.try_buffer("late", 1);
        assert_eq!(late.err(), Some(DeviceError::Lost), "call {nth}");
        rig.finish();
        crate::rig::nothing(&auditor);
        assert_eq!(auditor.live_bytes(), 0, "call {nth}");
    }
    // All but the last ones, which only free.
    assert!(failed >= calls - 5, "{failed} of {calls}");
}

/// A backend's own loss counts like an injected one: nothing is in flight on a lost device.
#[test]
fn a_lost_device_has_nothing_in_flight() {
    let mut rig = noop(Contract::Strict);
    let buffer = rig.buffer("target");
    let mut encoder = rig.encoder("encoder");
    let commands = rig.clear(&mut encoder, "commands", &buffer);
    rig.submit(&[&commands]).unwrap();
    rig.auditor
        .faults()
        .fail_at(Site::Wait, 1, DeviceError::Lost);
    // SAFETY: submitted.
    let waited = unsafe { rig.device.wait(&rig.fence, 1, None) };
    assert_eq!(waited, Err(DeviceError::Lost));
    rig.destroy(buffer);
    rig.reset(&mut encoder, vec![commands]);
    drop(encoder);
    rig.nothing();
    rig.finish();
}

/// A backend that fails by itself: an audited one below the audited one.
#[test]
fn failures_of_the_backend_itself() {
    let auditor = Auditor::new(Contract::Strict, AuditMode::Collect);
    let mut rig = Rig::<Audited<Noop>>::open(&auditor).unwrap();
    let below = rig.instance.inner().auditor().clone();
    let buffer = rig.buffer("target");
    let mut encoder = rig.encoder("encoder");
    let commands = rig.clear(&mut encoder, "commands", &buffer);
    let out_of_memory = || DeviceError::OutOfMemory;
    // Not in flight, so it can be submitted again.
    below.faults().fail_at(Site::Submit, 1, out_of_memory());
    assert_eq!(rig.submit(&[&commands]), Err(DeviceError::OutOfMemory));
    assert!(auditor.clock().pending().is_empty());
    let value = rig.submit(&[&commands]).unwrap();
    rig.wait(value);
    rig.reset(&mut encoder, vec![commands]);
    // Nothing was made, so nothing is alive.
    let before = auditor.live_objects().len();
    below.faults().fail_at(Site::Allocation, 1, out_of_memory());
    let failed = rig.try_buffer("failed", 64);
    assert_eq!(failed.err(), Some(DeviceError::OutOfMemory));
    assert_eq!(auditor.live_objects().len(), before);
    // Closed after either.
    below
        .faults()
        .fail_at(Site::BeginEncoding, 1, out_of_memory());
    // SAFETY: the encoder is closed.
    let begun = unsafe { encoder.begin_encoding(None) };
    assert_eq!(begun, Err(DeviceError::OutOfMemory));
    below
        .faults()
        .fail_at(Site::EndEncoding, 1, out_of_memory());
    // SAFETY: the encoder is closed, then recording.
    let ended = unsafe {
        encoder.begin_encoding(None).unwrap();
        encoder.end_encoding()
    };
    assert_eq!(ended.err(), Some(DeviceError::OutOfMemory));
    // Its loss is a loss: nothing is in flight.
    let commands = rig.clear(&mut encoder, "commands", &buffer);
    let value = rig.submit(&[&commands]).unwrap();
    below.faults().lose_device_at(1);
    // SAFETY: submitted.
    let waited = unsafe { rig.device.wait(&rig.fence, value, None) };
    assert_eq!(waited, Err(DeviceError::Lost));
    rig.destroy(buffer);
    rig.reset(&mut encoder, vec![commands]);
    drop(encoder);
    rig.finish();
    crate::rig::nothing(&auditor);
    assert_eq!(below.report_count(), 0);
    assert!(below.live_objects().is_empty());
}

/// New buffers are dirty while that is asked for, whether or not they are made to be mapped.
#[test]
fn dirty_memory() {
    let rig = noop(Contract::Strict);
    let read = |buffer: &fencepost_audit::Buffer<Noop>| {
        // SAFETY: idle; the range is the buffer's.
        unsafe {
            let mapping = rig.device.map_buffer(buffer, 0..64).unwrap();
            let bytes = std::slice::from_raw_parts(mapping.ptr.as_ptr(), 64).to_vec();
            rig.device.unmap_buffer(buffer);
            bytes
        }
    };
    let clean = rig.buffer("clean");
    rig.auditor.faults().set_dirty_memory(Some(0xd1));
    let dirty = rig.buffer("dirty");
    let target = rig.host_buffer("never mapped", wgt::BufferUses::COPY_DST);
    rig.auditor.faults().set_dirty_memory(None);
    let again = rig.buffer("clean again");
    assert_eq!(read(&clean), [0; 64]);
    assert_eq!(read(&dirty), [0xd1; 64]);
    assert_eq!(read(&target), [0xd1; 64]);
    assert_eq!(read(&again), [0; 64]);
    for buffer in [clean, dirty, target, again] {
        rig.destroy(buffer);
    }
    rig.nothing();
    rig.finish();
}

/// What is planned shows as planned until it has happened, and a lost device as lost.
#[test]
fn plans_and_losses_can_be_asked_for() {
    let mut rig = noop(Contract::Strict);
    let faults = rig.auditor.faults();
    assert!(!faults.are_planned());
    faults.fail_at(Site::Submit, 1, DeviceError::OutOfMemory);
    assert!(faults.are_planned());
    assert!(rig.submit(&[]).is_err());
    assert!(!faults.are_planned());
    rig.auditor.clock().set(fencepost_audit::Completion::Manual);
    rig.submit(&[]).unwrap();
    let device = rig.auditor.clock().pending()[0].device;
    assert!(!faults.has_lost(device));
    faults.lose_device_at(1);
    assert!(faults.are_planned());
    assert!(rig.try_buffer("too late", 4).is_err());
    assert!(!faults.are_planned());
    assert!(faults.has_lost(device));
    rig.finish();
}

/// Threads that create at the same time stay within the budget together.
#[test]
fn a_budget_is_kept_by_threads() {
    const LIMIT: u64 = 5 * 1024;
    let rig = noop(Contract::Strict);
    rig.auditor.faults().set_memory_budget(Some(LIMIT));
    let desc = hal::BufferDescriptor {
        label: Some("mine"),
        size: 1024,
        usage: wgt::BufferUses::COPY_DST,
        memory_flags: hal::MemoryFlags::empty(),
    };
    let refused: u32 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let mut refused = 0;
                    for _ in 0..500 {
                        // SAFETY: the descriptor is well-formed, and the buffer is not used.
                        match unsafe { rig.device.create_buffer(&desc) } {
                            Ok(buffer) => {
                                assert!(rig.auditor.live_bytes() <= LIMIT);
                                // SAFETY: as above.
                                unsafe { rig.device.destroy_buffer(buffer) };
                            }
                            Err(error) => {
                                assert_eq!(error, hal::DeviceError::OutOfMemory);
                                refused += 1;
                            }
                        }
                    }
                    refused
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    // What was refused is given back: the whole budget is there again.
    eprintln!("{refused} refused");
    let all: Vec<_> = (0..5).map(|_| rig.buffer("fits")).collect();
    for buffer in all {
        // SAFETY: the buffer is not used.
        unsafe { rig.device.destroy_buffer(buffer) };
    }
    rig.auditor.faults().clear();
}
