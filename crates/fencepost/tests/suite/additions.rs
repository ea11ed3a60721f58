//! What Fencepost adds to `wgpu`: who reclaims, where callbacks run, and the memory report.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use fencepost::{Builder, Callbacks, Reclaim};
use wgpu::BufferUsages as B;

use crate::harness::*;

/// Runs a test on a device with options. The work is many copies of a large buffer: slow enough to be
/// seen in flight, whatever else the machine does.
fn with(options: impl FnOnce(Builder) -> Builder, body: impl FnOnce(&wgpu::Device, &wgpu::Queue)) {
    if ours_alone("it has no such options") {
        return;
    }
    test_bare(|| {
        let instance = options(builder(descriptor(wgpu::Backends::VULKAN))).instance();
        match pollster::block_on(instance.request_adapter(&Default::default())) {
            Ok(adapter) => {
                let (device, queue) =
                    pollster::block_on(adapter.request_device(&Default::default())).unwrap();
                body(&device, &queue);
            }
            Err(why) => skip(&why.to_string()),
        }
    });
}

fn buffer(device: &wgpu::Device, size: u64, usage: B) -> wgpu::Buffer {
    device.create_buffer(&wgpu::BufferDescriptor {
        label: Some("buffer"),
        size,
        usage,
        mapped_at_creation: false,
    })
}

/// Submits a clear of `buffer`.
fn clear(device: &wgpu::Device, queue: &wgpu::Queue, buffer: &wgpu::Buffer) {
    let mut encoder = device.create_command_encoder(&Default::default());
    encoder.clear_buffer(buffer, 0, None);
    queue.submit([encoder.finish()]);
}

fn buffers(device: &wgpu::Device) -> isize {
    device.get_internal_counters().hal.buffers.read()
}

/// Waits, without a call into the device, for `count` messages; at most ten seconds.
fn receive(inbox: &mpsc::Receiver<&'static str>, count: usize) -> Vec<&'static str> {
    let end = Instant::now() + Duration::from_secs(10);
    (0..count)
        .map_while(|_| {
            inbox
                .recv_timeout(end.saturating_duration_since(Instant::now()))
                .ok()
        })
        .collect()
}

#[test]
fn prompt_callbacks_need_no_poll() {
    with(
        |builder| builder.callbacks(Callbacks::Prompt),
        |device, queue| {
            let (outbox, inbox) = mpsc::channel();
            let own = std::thread::current().id();
            let note = |what: &'static str| {
                let outbox = outbox.clone();
                move || {
                    let elsewhere = std::thread::current().id() != own;
                    let _ = outbox.send(if elsewhere { what } else { "on this thread" });
                }
            };
            let mapped = buffer(device, 32 << 20, B::MAP_READ | B::COPY_DST);
            clear(device, queue, &mapped);
            let map = note("map");
            mapped.map_async(wgpu::MapMode::Read, .., move |result| {
                result.expect("the map succeeds");
                map();
            });
            queue.on_submitted_work_done(note("done"));
            assert_eq!(receive(&inbox, 2), ["map", "done"]);
            assert_eq!(mapped.get_mapped_range(..8).unwrap()[..], [0; 8]);
            mapped.unmap();
            // A callback of that thread calls back into the API, and drops handles.
            let (device_there, queue_there) = (device.clone(), queue.clone());
            let again = note("again");
            clear(device, queue, &mapped);
            queue.on_submitted_work_done(move || {
                clear(&device_there, &queue_there, &mapped);
                drop(mapped);
                queue_there.on_submitted_work_done(again);
                let _ = device_there.poll(wgpu::PollType::Poll);
            });
            let seen = receive(&inbox, 1);
            assert!(matches!(seen[..], ["again" | "on this thread"]), "{seen:?}");
            let lost = note("lost");
            device.set_device_lost_callback(move |_, _| lost());
            device.destroy();
            assert_eq!(receive(&inbox, 1).len(), 1, "lost");
        },
    );
}

/// The device may go while its callback thread has work.
#[test]
fn prompt_callbacks_of_a_device_that_goes() {
    with(
        |builder| builder.callbacks(Callbacks::Prompt),
        |device, queue| {
            let (outbox, inbox) = mpsc::channel();
            let target = buffer(device, 1 << 20, B::COPY_DST);
            clear(device, queue, &target);
            let (device_there, queue_there) = (device.clone(), queue.clone());
            queue.on_submitted_work_done(move || {
                drop((device_there, queue_there));
                let _ = outbox.send("done");
            });
            assert_eq!(receive(&inbox, 1), ["done"]);
        },
    );
}

#[test]
fn reclaim_on_call() {
    with(
        |builder| builder.reclaim(Reclaim::OnCall),
        |device, queue| {
            let base = buffers(device);
            for call in ["poll", "submit", "create", "destroy", "drop"] {
                let (one, two) = (
                    buffer(device, 4096, B::COPY_DST),
                    buffer(device, 4096, B::COPY_DST),
                );
                let doomed = buffer(device, 32 << 20, B::COPY_DST);
                clear(device, queue, &doomed);
                doomed.destroy();
                // The GPU is surely done, and nobody has called in.
                std::thread::sleep(Duration::from_millis(500));
                match call {
                    "poll" => {
                        device.poll(wgpu::PollType::Poll).unwrap();
                    }
                    "submit" => {
                        queue.submit([]);
                    }
                    "create" => drop(buffer(device, 64, B::COPY_DST)),
                    "destroy" => one.destroy(),
                    _ => {}
                }
                drop((one, two));
                assert_eq!(buffers(device), base, "{call}");
            }
            device.poll(wgpu::PollType::wait_indefinitely()).unwrap();
        },
    );
}

#[test]
fn memory_report() {
    with(
        |builder| builder,
        |device, queue| {
            let report = || fencepost::memory_report(device).expect("a device of ours");
            let before = report();
            let one = buffer(device, 1 << 20, B::COPY_DST);
            let with = report();
            assert_eq!(with.objects, before.objects + 1);
            assert_eq!(with.bytes, before.bytes + (1 << 20));
            clear(device, queue, &one);
            device.poll(wgpu::PollType::wait_indefinitely()).unwrap();
            one.destroy();
            let after = report();
            assert_eq!(after.bytes, before.bytes);
            assert_eq!((after.retired_objects, after.retired_bytes), (0, 0));
            assert_eq!(after.submissions_in_flight, 0);
            assert!(!after.to_string().is_empty());
        },
    );
    test_bare(|| {
        let instance = wgpu::Instance::new(descriptor(wgpu::Backends::VULKAN));
        let Ok(adapter) = pollster::block_on(instance.request_adapter(&Default::default())) else {
            return skip("no Vulkan adapter answers");
        };
        let (device, _queue) =
            pollster::block_on(adapter.request_device(&Default::default())).unwrap();
        assert!(
            fencepost::memory_report(&device).is_none(),
            "not one of ours"
        );
    });
}

/// The auditor sees what these tests do.
#[test]
fn audit() {
    if ours_alone("it has no such option") {
        return;
    }
    let Some(auditor) = auditor() else {
        return skip("FENCEPOST_TEST_AUDIT is off");
    };
    test(|gpu| {
        let bytes = auditor.live_bytes();
        let buffer = gpu.buffer("audited", 4096, B::COPY_DST);
        assert_eq!(auditor.live_bytes() - bytes, 4096);
        let live = auditor.live_objects();
        assert!(live.iter().any(|o| o.label.as_deref() == Some("audited")));
        let calls = auditor.calls();
        gpu.run(|encoder| encoder.clear_buffer(&buffer, 0, None));
        assert!(auditor.calls() > calls);
    });
}

/// Within a budget a program that makes and drops goes on: each creation waits for what it needs. What does
/// not fit at all is an error that says what there is.
#[test]
fn memory_budget() {
    const BUFFER: u64 = 4 << 20;
    const BUDGET: u64 = 10 << 20;
    with(
        |builder| builder.memory_budget(BUDGET),
        |device, queue| {
            for _ in 0..50 {
                let scope = device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
                clear(device, queue, &buffer(device, BUFFER, B::COPY_DST));
                let error = pollster::block_on(scope.pop());
                assert!(error.is_none(), "{error:?}");
                let report = fencepost::memory_report(device).unwrap();
                assert!(report.bytes <= BUDGET, "{report}");
            }
            let scope = device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
            drop(buffer(device, BUDGET, B::COPY_DST));
            let error = pollster::block_on(scope.pop()).expect("it never fits");
            let wgpu::Error::OutOfMemory { source } = error else {
                panic!("{error}");
            };
            let message = source.to_string();
            assert!(
                message.contains(&format!("the budget is {BUDGET} bytes")),
                "{message}"
            );
        },
    );
}
