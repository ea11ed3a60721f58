//! `poll`, `on_submitted_work_done`, `map_buffer_on_submit`, and the order of callbacks.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use wgpu::{BufferUsages as B, MapMode, PollError, PollStatus, PollType};

use crate::harness::*;

#[derive(Clone, Default)]
struct Order(Arc<Mutex<Vec<u32>>>);

impl Order {
    fn note(&self, number: u32) -> impl FnOnce() + Send + 'static {
        let list = self.0.clone();
        move || list.lock().push(number)
    }
    fn note_map(
        &self,
        number: u32,
    ) -> impl FnOnce(Result<(), wgpu::BufferAsyncError>) + Send + 'static {
        let list = self.0.clone();
        move |result| {
            result.expect("the map succeeds");
            list.lock().push(number);
        }
    }
    fn get(&self) -> Vec<u32> {
        self.0.lock().clone()
    }
}

#[test]
fn polling_an_idle_device() {
    test(|gpu| {
        for poll_type in [
            PollType::Poll,
            PollType::wait_indefinitely(),
            PollType::Wait {
                submission_index: None,
                timeout: Some(Duration::ZERO),
            },
        ] {
            let status = gpu.device.poll(poll_type).unwrap();
            assert_eq!(status, PollStatus::QueueEmpty);
        }
    });
}

#[test]
fn polling_in_flight() {
    test(|gpu| {
        gpu.warm_up();
        gpu.submit_in_flight([]);
        assert_eq!(gpu.device.poll(PollType::Poll).unwrap(), PollStatus::Poll);
        let start = Instant::now();
        let result = gpu.device.poll(PollType::Wait {
            submission_index: None,
            timeout: Some(Duration::from_millis(10)),
        });
        let waited = start.elapsed();
        assert!(matches!(result, Err(PollError::Timeout)), "{result:?}");
        assert!(waited >= Duration::from_millis(9), "{waited:?}");
        assert!(waited < Duration::from_millis(200), "{waited:?}");
        gpu.assert_in_flight();
        let status = gpu
            .device
            .poll(PollType::Wait {
                submission_index: None,
                timeout: Some(Duration::from_secs(60)),
            })
            .unwrap();
        assert!(status.wait_finished());
        assert_eq!(
            gpu.device.poll(PollType::Poll).unwrap(),
            PollStatus::QueueEmpty
        );
    });
}

#[test]
fn waiting_for_a_submission() {
    test(|gpu| {
        let order = Order::default();
        let target = gpu.buffer("target", 256, B::COPY_DST);
        let indices: Vec<_> = (0..5)
            .map(|number| {
                let index = gpu.run(|encoder| encoder.clear_buffer(&target, 0, None));
                gpu.queue.on_submitted_work_done(order.note(number));
                index
            })
            .collect();
        let wait = |index: &wgpu::SubmissionIndex| {
            gpu.device.poll(PollType::Wait {
                submission_index: Some(index.clone()),
                timeout: None,
            })
        };
        assert!(wait(&indices[2]).unwrap().wait_finished());
        assert!(order.get().starts_with(&[0, 1, 2]), "{:?}", order.get());
        assert!(wait(&indices[4]).unwrap().wait_finished());
        assert_eq!(order.get(), [0, 1, 2, 3, 4]);
        assert!(wait(&indices[0]).unwrap().wait_finished(), "long ago");
    });
}

/// An index that this device never gave out.
#[test]
fn waiting_for_a_wrong_submission() {
    test(|gpu| {
        let (other, other_queue) =
            pollster::block_on(gpu.adapter.request_device(&Default::default())).unwrap();
        let mut far = other_queue.submit([]);
        for _ in 0..50 {
            far = other_queue.submit([]);
        }
        other.poll(PollType::wait_indefinitely()).unwrap();
        gpu.queue.submit([]);
        let result = gpu.device.poll(PollType::Wait {
            submission_index: Some(far),
            timeout: None,
        });
        assert!(
            matches!(result, Err(PollError::WrongSubmissionIndex(..))),
            "{result:?}"
        );
        gpu.wait();
    });
}

#[test]
fn work_done_with_nothing_submitted() {
    test(|gpu| {
        let order = Order::default();
        gpu.queue.on_submitted_work_done(order.note(1));
        gpu.wait();
        assert_eq!(order.get(), [1]);
    });
}

#[test]
fn work_done_waits_for_the_work() {
    test(|gpu| {
        gpu.warm_up();
        let order = Order::default();
        gpu.submit_in_flight([]);
        gpu.queue.on_submitted_work_done(order.note(1));
        gpu.assert_in_flight();
        assert_eq!(order.get(), []);
        gpu.wait();
        assert_eq!(order.get(), [1]);
    });
}

/// Callbacks run in poll or submit only (the default, and wgpu's rule).
#[test]
fn callbacks_need_a_poll() {
    test(|gpu| {
        let order = Order::default();
        let buffer = gpu.buffer("mapped", 256, B::MAP_READ | B::COPY_DST);
        gpu.run(|encoder| encoder.clear_buffer(&buffer, 0, None));
        buffer.map_async(MapMode::Read, .., order.note_map(1));
        gpu.queue.on_submitted_work_done(order.note(2));
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(order.get(), []);
        // A submit is as good as a poll.
        gpu.queue.submit([]);
        assert_eq!(order.get(), [1, 2]);
        buffer.unmap();
    });
}

/// Maps of a submission come before its work-done callbacks, and submissions in order.
#[test]
fn order_of_callbacks() {
    test(|gpu| {
        let order = Order::default();
        let mut buffers = Vec::new();
        for round in 0..3 {
            let buffer = gpu.buffer("mapped", 256, B::MAP_READ | B::COPY_DST);
            gpu.run(|encoder| encoder.clear_buffer(&buffer, 0, None));
            gpu.queue.on_submitted_work_done(order.note(round * 10 + 5));
            buffer.map_async(MapMode::Read, .., order.note_map(round * 10 + 1));
            gpu.queue.on_submitted_work_done(order.note(round * 10 + 6));
            buffers.push(buffer);
        }
        gpu.wait();
        let order = order.get();
        assert_eq!(order.len(), 9);
        for round in 0..3 {
            let place = |number: u32| order.iter().position(|other| *other == number).unwrap();
            let (map, first, second) = (
                place(round * 10 + 1),
                place(round * 10 + 5),
                place(round * 10 + 6),
            );
            assert!(map < first, "a map before work done: {order:?}");
            assert!(first < second, "as registered: {order:?}");
            if round > 0 {
                assert!(place(round * 10 - 4) < first, "as submitted: {order:?}");
            }
        }
        for buffer in buffers {
            buffer.unmap();
        }
    });
}

#[test]
fn deferred_until_submit() {
    test(|gpu| {
        let order = Order::default();
        let (one, two, three) = (
            gpu.buffer("one", 256, B::MAP_READ | B::COPY_DST),
            gpu.buffer("two", 256, B::MAP_READ | B::COPY_DST),
            gpu.buffer("three", 256, B::MAP_READ | B::COPY_DST),
        );
        let source = gpu.filled("source", B::COPY_SRC, &[3; 256]);
        let mut encoder = gpu.encoder();
        encoder.copy_buffer_to_buffer(&source, 0, &one, 0, 256);
        encoder.map_buffer_on_submit(&one, MapMode::Read, .., order.note_map(1));
        {
            let pass = encoder.begin_compute_pass(&Default::default());
            pass.map_buffer_on_submit(&two, MapMode::Read, 8..16, order.note_map(2));
            pass.on_submitted_work_done(order.note(4));
        }
        let commands = encoder.finish();
        commands.map_buffer_on_submit(&three, MapMode::Read, .., order.note_map(3));
        commands.on_submitted_work_done(order.note(5));
        gpu.wait();
        assert_eq!(order.get(), []);
        gpu.queue.submit([commands]);
        gpu.wait();
        let mut maps = order.get();
        let done = maps.split_off(3);
        maps.sort_unstable();
        assert_eq!((maps, done), (vec![1, 2, 3], vec![4, 5]), "maps first");
        assert_eq!(*one.get_mapped_range(..).unwrap(), [3; 256]);
        assert_eq!(*two.get_mapped_range(8..16).unwrap(), [0; 8]);
        for buffer in [one, two, three] {
            buffer.unmap();
        }
        // Forgotten with their commands.
        let commands = gpu.commands(|_| {});
        commands.on_submitted_work_done(order.note(9));
        drop(commands);
        gpu.wait();
        assert!(!order.get().contains(&9));
    });
}

#[test]
fn poll_from_several_threads() {
    test(|gpu| {
        let count = Arc::new(AtomicU32::new(0));
        let target = gpu.buffer("target", 1 << 16, B::COPY_DST);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        gpu.run(|encoder| encoder.clear_buffer(&target, 0, None));
                        let count = count.clone();
                        gpu.queue.on_submitted_work_done(move || {
                            count.fetch_add(1, Ordering::Relaxed);
                        });
                        gpu.device.poll(PollType::wait_indefinitely()).unwrap();
                    }
                });
            }
        });
        gpu.wait();
        assert_eq!(count.load(Ordering::Relaxed), 200);
    });
}

#[test]
fn poll_all_devices() {
    test_bare(|| {
        messages_free_instance(|instance, adapter| {
            let order = Order::default();
            let devices: Vec<_> = (0..3)
                .map(|number| {
                    let (device, queue) =
                        pollster::block_on(adapter.request_device(&Default::default())).unwrap();
                    queue.submit([]);
                    queue.on_submitted_work_done(order.note(number));
                    (device, queue)
                })
                .collect();
            assert!(instance.poll_all(true), "all are empty");
            let mut seen = order.get();
            seen.sort_unstable();
            assert_eq!(seen, [0, 1, 2]);
            drop(devices);
            assert!(instance.poll_all(false));
        });
    });
}

fn messages_free_instance(body: impl FnOnce(&wgpu::Instance, &wgpu::Adapter)) {
    let instance = instance(descriptor(wgpu::Backends::VULKAN));
    match pollster::block_on(instance.request_adapter(&Default::default())) {
        Ok(adapter) => body(&instance, &adapter),
        Err(why) => skip(&why.to_string()),
    }
}

/// A callback that is dropped uncalled, or panics, is the program's affair; the device lives.
#[test]
fn callbacks_own_handles() {
    test(|gpu| {
        gpu.warm_up();
        gpu.quiesce();
        let base = gpu.settled_counts();
        let buffer = gpu.buffer("owned by a callback", 256, B::COPY_DST);
        let (device, queue) = (gpu.device.clone(), gpu.queue.clone());
        gpu.run(|encoder| encoder.clear_buffer(&buffer, 0, None));
        gpu.queue.on_submitted_work_done(move || {
            drop(buffer);
            drop((device, queue));
        });
        gpu.rest();
        assert_eq!(gpu.settled_counts(), base, "its last handle went in there");
    });
}
