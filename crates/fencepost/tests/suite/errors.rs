//! Error scopes, the uncaptured-error handler, loss of a device.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use parking_lot::Mutex;
use wgpu::{BufferUsages as B, ErrorFilter};

use crate::harness::*;

fn fail(gpu: &Gpu, label: &str) {
    drop(gpu.buffer(label, 16, B::MAP_READ | B::MAP_WRITE));
}

#[test]
fn scopes_are_a_stack() {
    test(|gpu| {
        let outer = gpu.device.push_error_scope(ErrorFilter::Validation);
        let inner = gpu.device.push_error_scope(ErrorFilter::Validation);
        fail(gpu, "first");
        fail(gpu, "second");
        let error = pollster::block_on(inner.pop()).expect("the inner one catches");
        assert_names(&error.to_string(), "first");
        assert!(matches!(error, wgpu::Error::Validation { .. }));
        fail(gpu, "third");
        let error = pollster::block_on(outer.pop()).expect("then the outer one");
        assert_names(&error.to_string(), "third");
        let empty = gpu.device.push_error_scope(ErrorFilter::Validation);
        assert!(pollster::block_on(empty.pop()).is_none());
    });
}

#[test]
fn scopes_filter() {
    test(|gpu| {
        let validation = gpu.device.push_error_scope(ErrorFilter::Validation);
        let memory = gpu.device.push_error_scope(ErrorFilter::OutOfMemory);
        let internal = gpu.device.push_error_scope(ErrorFilter::Internal);
        fail(gpu, "a validation error");
        assert!(pollster::block_on(internal.pop()).is_none());
        assert!(pollster::block_on(memory.pop()).is_none());
        assert!(pollster::block_on(validation.pop()).is_some());
        // Caught by none.
        let memory = gpu.device.push_error_scope(ErrorFilter::OutOfMemory);
        fail(gpu, "a validation error");
        assert!(pollster::block_on(memory.pop()).is_none());
        assert_eq!(gpu.take_uncaptured().len(), 1);
    });
}

#[test]
fn scopes_belong_to_threads() {
    test(|gpu| {
        let here = gpu.device.push_error_scope(ErrorFilter::Validation);
        std::thread::scope(|scope| {
            scope.spawn(|| fail(gpu, "elsewhere, uncaught"));
            scope.spawn(|| {
                let there = gpu.device.push_error_scope(ErrorFilter::Validation);
                fail(gpu, "elsewhere");
                let error = pollster::block_on(there.pop()).expect("its own");
                assert_names(&error.to_string(), "elsewhere");
            });
        });
        assert!(pollster::block_on(here.pop()).is_none());
        assert_eq!(gpu.take_uncaptured().len(), 1);
    });
}

#[test]
fn a_dropped_scope_is_popped() {
    test(|gpu| {
        let outer = gpu.device.push_error_scope(ErrorFilter::Validation);
        {
            let _inner = gpu.device.push_error_scope(ErrorFilter::Validation);
            fail(gpu, "swallowed");
        }
        fail(gpu, "kept");
        let error = pollster::block_on(outer.pop()).expect("the outer one");
        assert_names(&error.to_string(), "kept");
    });
}

#[test]
fn out_of_memory_is_an_error_of_its_own() {
    test(|gpu| {
        let (device, _queue) =
            pollster::block_on(gpu.adapter.request_device(&wgpu::DeviceDescriptor {
                required_limits: gpu.adapter.limits(),
                ..Default::default()
            }))
            .expect("all that the adapter has");
        let size = device.limits().max_buffer_size;
        if size < 1 << 40 {
            return skip("the adapter's largest buffer may well fit into memory");
        }
        let scope = device.push_error_scope(ErrorFilter::OutOfMemory);
        let buffer = device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("huge"),
            size: size & !3,
            usage: B::COPY_DST,
            mapped_at_creation: false,
        });
        let error = pollster::block_on(scope.pop()).expect("out of memory");
        assert!(matches!(error, wgpu::Error::OutOfMemory { .. }), "{error}");
        drop(buffer);
    });
}

#[test]
fn uncaptured_errors() {
    test(|gpu| {
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        for _ in 0..2 {
            let sink = seen.clone();
            gpu.device
                .on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
                    sink.lock().push(error.to_string());
                }));
        }
        fail(gpu, "not caught");
        assert_eq!(seen.lock().len(), 1, "the newest handler, once");
        assert_names(&seen.lock()[0], "not caught");
    });
}

#[test]
fn error_sources() {
    test(|gpu| {
        let scope = gpu.device.push_error_scope(ErrorFilter::Validation);
        fail(gpu, "the culprit");
        let error = pollster::block_on(scope.pop()).unwrap();
        let source = std::error::Error::source(&error).expect("it has a source");
        assert!(!source.to_string().is_empty());
        let wgpu::Error::Validation { description, .. } = &error else {
            panic!("another kind: {error}");
        };
        assert!(!description.is_empty());
    });
}

#[test]
fn destroyed_device() {
    test(|gpu| {
        gpu.warm_up();
        let lost: Arc<Mutex<Vec<(wgpu::DeviceLostReason, String)>>> = Arc::default();
        let sink = lost.clone();
        gpu.device
            .set_device_lost_callback(move |reason, text| sink.lock().push((reason, text)));
        let buffer = gpu.filled("made before", B::all_copies(), &[1; 256]);
        let mapped = gpu.buffer("mapped before", 256, B::MAP_READ | B::COPY_DST);
        gpu.map(&mapped, wgpu::MapMode::Read, 0..256);
        let commands = gpu.commands(|encoder| encoder.clear_buffer(&buffer, 0, None));
        gpu.device.destroy();
        gpu.device.destroy();
        let _ = gpu.device.poll(wgpu::PollType::wait_indefinitely());
        let _ = gpu.device.poll(wgpu::PollType::wait_indefinitely());
        {
            let lost = lost.lock();
            assert_eq!(lost.len(), 1, "once");
            assert_eq!(lost[0].0, wgpu::DeviceLostReason::Destroyed);
        }
        // Everything can still be called.
        gpu.error_of(|| {
            gpu.queue.submit([commands]);
            gpu.queue.write_buffer(&buffer, 0, &[1; 4]);
            let later = gpu.buffer("made after", 256, B::all_copies());
            let texture = gpu.texture(
                "made after",
                (4, 4),
                wgpu::TextureFormat::R32Uint,
                wgpu::TextureUsages::all_copies(),
            );
            drop(gpu.view(&texture));
            gpu.queue.write_texture(
                texture.as_image_copy(),
                &[1; 64],
                layout(0, 16, 4),
                extent(4, 4, 1),
            );
            let pipeline = gpu.pipeline("@compute @workgroup_size(1) fn main() {}");
            gpu.queue.submit([gpu.commands(|encoder| {
                encoder.copy_buffer_to_buffer(&buffer, 0, &later, 0, 256);
                let mut pass = encoder.begin_compute_pass(&Default::default());
                pass.set_pipeline(&pipeline);
                pass.dispatch_workgroups(1, 1, 1);
            })]);
            let outcome = Outcome::default();
            later.map_async(wgpu::MapMode::Read, .., outcome.callback());
            buffer.unmap();
            buffer.destroy();
            mapped.unmap();
            mapped.destroy();
            texture.destroy();
            let _ = gpu.device.poll(wgpu::PollType::Poll);
            assert_eq!(outcome.get(), [Err(())]);
            let done = Arc::new(AtomicU32::new(0));
            let count = done.clone();
            gpu.queue.on_submitted_work_done(move || {
                count.fetch_add(1, Ordering::Relaxed);
            });
            let _ = gpu.device.poll(wgpu::PollType::wait_indefinitely());
            assert_eq!(done.load(Ordering::Relaxed), 1, "it is called all the same");
            assert!(gpu.device.limits().max_bind_groups > 0);
        });
        gpu.take_uncaptured();
        assert_eq!(lost.lock().len(), 1, "still once");
    });
}

/// Mapped at creation on a device that was destroyed: harmless.
#[test]
fn mapped_at_creation_on_a_destroyed_device() {
    test(|gpu| {
        gpu.device.destroy();
        gpu.error_of(|| {
            let buffer = gpu.device.create_buffer(&wgpu::BufferDescriptor {
                label: Some("made after"),
                size: 64,
                usage: B::MAP_WRITE | B::COPY_SRC,
                mapped_at_creation: true,
            });
            if let Ok(mut view) = buffer.get_mapped_range_mut(..) {
                view.copy_from_slice(&[1; 64]);
            }
            buffer.unmap();
        });
        gpu.take_uncaptured();
    });
}

/// A lost callback that is set too late, or never called, or replaced, harms nothing.
#[test]
fn lost_callbacks() {
    test(|gpu| {
        let make = || pollster::block_on(gpu.adapter.request_device(&Default::default())).unwrap();
        let calls = Arc::new(AtomicU32::new(0));
        let callback = |calls: &Arc<AtomicU32>, add: u32| {
            let calls = calls.clone();
            move |_: wgpu::DeviceLostReason, _: String| {
                calls.fetch_add(add, Ordering::Relaxed);
            }
        };
        // Dropped, never destroyed: no call that matters.
        let (device, queue) = make();
        device.set_device_lost_callback(callback(&calls, 0));
        drop((device, queue));
        // Replaced: the old one is not called on the loss.
        let (device, _queue) = make();
        device.set_device_lost_callback(callback(&calls, 0));
        device.set_device_lost_callback(callback(&calls, 1));
        device.destroy();
        let _ = device.poll(wgpu::PollType::wait_indefinitely());
        assert_eq!(calls.load(Ordering::Relaxed), 1);
        // Set after the loss: at most one call, no crash.
        device.set_device_lost_callback(callback(&calls, 1));
        let _ = device.poll(wgpu::PollType::Poll);
        assert!(calls.load(Ordering::Relaxed) <= 2);
    });
}
