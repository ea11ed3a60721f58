//! The invariants of the design, one test each, as far as they show through the API.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::Arc;
use std::thread::ThreadId;

use parking_lot::Mutex;
use wgpu::{BufferUsages as B, MapMode, TextureUsages as T};

use crate::harness::*;

fn copy(gpu: &Gpu, from: &wgpu::Buffer, to: &wgpu::Buffer) -> wgpu::CommandBuffer {
    gpu.commands(|encoder| encoder.copy_buffer_to_buffer(from, 0, to, 0, None))
}

/// I1: a payload is never freed while a HAL command buffer that refers to it exists. The
/// validation layer sees it when a command buffer in use loses what it refers to; here
/// everything that can be ended is, at every moment, over several submissions.
#[test]
fn i1_no_payload_goes_before_its_command_buffers() {
    test(|gpu| {
        gpu.warm_up();
        let target = gpu.buffer("target", 4096, B::all_copies());
        for round in 0..40u32 {
            let source = gpu.filled("source", B::COPY_SRC, &pattern(4096, round));
            let texture = gpu.texture(
                "texture",
                (16, 16),
                wgpu::TextureFormat::R32Uint,
                T::all_copies(),
            );
            let early = copy(gpu, &source, &target);
            let late = copy(gpu, &source, &target);
            gpu.run(|encoder| {
                encoder.copy_texture_to_buffer(
                    texture.as_image_copy(),
                    wgpu::TexelCopyBufferInfo {
                        buffer: &target,
                        layout: layout(0, 256, 16),
                    },
                    extent(16, 16, 1),
                );
            });
            gpu.queue.submit([early]);
            match round % 4 {
                0 => source.destroy(),
                1 => texture.destroy(),
                2 => {
                    let _ = gpu.device.poll(wgpu::PollType::Poll);
                    source.destroy();
                    texture.destroy();
                }
                _ => gpu.wait(),
            }
            gpu.error_of(|| gpu.queue.submit([late]));
        }
        gpu.wait();
        assert_eq!(gpu.read(&target), pattern(4096, 39));
    });
}

/// I2: every payload is freed at most once, and by the time its device is gone. The layer
/// counts: at `vkDestroyDevice` nothing may be left (the harness reads its messages then), and a
/// second free of one handle is an error at any time.
#[test]
fn i2_everything_is_freed_once() {
    test(|gpu| {
        let (device, queue) =
            pollster::block_on(gpu.adapter.request_device(&Default::default())).unwrap();
        let mut kept = Vec::new();
        for number in 0..200u64 {
            let buffer = device.create_buffer(&wgpu::BufferDescriptor {
                label: Some("kept"),
                size: 1024 + 256 * (number % 7),
                usage: B::all_copies() | B::STORAGE,
                mapped_at_creation: number % 3 == 0,
            });
            match number % 5 {
                0 => buffer.destroy(),
                1 => {
                    buffer.destroy();
                    buffer.destroy();
                }
                2 if number % 3 != 0 => queue.write_buffer(&buffer, 0, &[7; 512]),
                3 if number % 3 != 0 => {
                    let mut encoder = device.create_command_encoder(&Default::default());
                    encoder.clear_buffer(&buffer, 0, None);
                    queue.submit([encoder.finish()]);
                }
                _ => {}
            }
            kept.push(buffer);
        }
        drop(device);
        drop(queue);
        for (number, buffer) in kept.into_iter().enumerate() {
            if number % 2 == 0 {
                buffer.destroy();
            }
        }
    });
}

/// I3: memory returns once the fence has passed, within one reclaim step, nobody calling in.
#[test]
fn i3_memory_returns_at_the_fence() {
    if ours_alone("memory returns at a poll") {
        return;
    }
    test(|gpu| {
        gpu.warm_up();
        let base = gpu.counts();
        let buffer = gpu.buffer("in use", 16 << 20, B::COPY_DST);
        let commands = gpu.commands(|encoder| encoder.clear_buffer(&buffer, 0, None));
        let slow = gpu.submit_in_flight([commands]);
        drop(buffer);
        assert!(gpu.counts().buffer_memory > base.buffer_memory);
        gpu.assert_in_flight();
        assert_eq!(gpu.counts_after(&slow), base);
        // And again from rest: the thread sleeps and wakes any number of times.
        for _ in 0..20 {
            let buffer = gpu.buffer("in use", 1 << 20, B::COPY_DST);
            gpu.run(|encoder| encoder.clear_buffer(&buffer, 0, None));
            drop(buffer);
            std::thread::sleep(std::time::Duration::from_millis(30));
        }
        std::thread::sleep(AT_THE_FENCE);
        assert_eq!(gpu.counts(), base);
    });
}

/// I4: a refused submission executes nothing, frees nothing early and holds nothing back.
#[test]
fn i4_a_refused_submission_leaves_no_trace() {
    test(|gpu| {
        gpu.warm_up();
        let target = gpu.filled("target", B::all_copies(), &[9; 256]);
        let result = gpu.filled("result", B::all_copies(), &[9; 256]);
        gpu.quiesce();
        let base = gpu.settled_counts();

        // Named by a submission in flight and by a refused one: freed when the first is done.
        let shared = gpu.filled("shared", B::COPY_SRC, &[1; 256]);
        let gone = gpu.buffer("gone", 256, B::COPY_SRC);
        gpu.queue.submit([]);
        let in_flight = copy(gpu, &shared, &result);
        let refused = [copy(gpu, &shared, &target), copy(gpu, &gone, &target)];
        gone.destroy();
        let slow = gpu.submit_in_flight([in_flight]);
        gpu.invalid("refused", || gpu.queue.submit(refused));
        drop(shared);
        let meanwhile = gpu.settled_counts();
        gpu.assert_in_flight();
        assert_eq!(meanwhile.buffers, base.buffers + 1, "not freed early");
        drop(gone);
        assert_eq!(gpu.counts_after(&slow), base, "not held back");
        assert_eq!(gpu.read(&target), [9; 256], "nothing executed");
        assert_eq!(gpu.read(&result), [1; 256]);
        gpu.quiesce();

        // Only refused ones, and nothing ever after.
        let idle = gpu.buffer("idle", 256, B::COPY_SRC);
        let gone = gpu.buffer("gone", 256, B::COPY_SRC);
        let refused = [copy(gpu, &idle, &target), copy(gpu, &gone, &target)];
        gone.destroy();
        gpu.invalid("refused", || gpu.queue.submit(refused));
        drop((idle, gone));
        assert_eq!(gpu.settled_counts(), base, "freed at once");
    });
}

/// I5: destroy racing submit: reported and not executed, or executed with its contents. Two
/// resources of different kinds, destroyed by two threads, used by one submission.
#[test]
fn i5_destroy_races_submit() {
    test(|gpu| {
        gpu.warm_up();
        const ROUNDS: usize = 2000;
        let target = gpu.buffer("target", 512 * ROUNDS as u64, B::all_copies());
        let go = AtomicU32::new(0);
        let slots: Mutex<Option<(wgpu::Buffer, wgpu::Texture)>> = Mutex::new(None);
        let mut reported = Vec::new();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 0..2u32 {
                let (go, slots, stop) = (&go, &slots, &stop);
                scope.spawn(move || {
                    for round in 1..=ROUNDS as u32 {
                        while go.load(Ordering::Acquire) < round {
                            if stop.load(Ordering::Acquire) {
                                return;
                            }
                            std::thread::yield_now();
                        }
                        let handles = slots.lock().clone();
                        let Some((buffer, texture)) = handles else {
                            return;
                        };
                        for _ in 0..(round * 53 + thread * 17) % 300 {
                            std::hint::spin_loop();
                        }
                        if thread == 0 {
                            buffer.destroy();
                        } else {
                            texture.destroy();
                        }
                    }
                });
            }
            let _stop = StopOnDrop(&stop);
            for round in 0..ROUNDS {
                let value = round as u32 + 1;
                let buffer = gpu.filled("raced", B::COPY_SRC, &value.to_ne_bytes());
                let texture = gpu.texture(
                    "raced",
                    (1, 1),
                    wgpu::TextureFormat::R32Uint,
                    T::all_copies(),
                );
                gpu.queue.write_texture(
                    texture.as_image_copy(),
                    &value.to_ne_bytes(),
                    Default::default(),
                    extent(1, 1, 1),
                );
                let at = 512 * round as u64;
                let commands = gpu.commands(|encoder| {
                    encoder.copy_buffer_to_buffer(&buffer, 0, &target, at, 4);
                    encoder.copy_texture_to_buffer(
                        texture.as_image_copy(),
                        wgpu::TexelCopyBufferInfo {
                            buffer: &target,
                            layout: layout(at + 256, 256, 1),
                        },
                        extent(1, 1, 1),
                    );
                });
                *slots.lock() = Some((buffer, texture));
                go.store(value, Ordering::Release);
                let (_, error) = gpu.error_of(|| gpu.queue.submit([commands]));
                if let Some(error) = &error {
                    assert!(error.contains("raced"), "{error}");
                }
                reported.push(error.is_some());
                if round % 32 == 0 {
                    gpu.wait();
                }
            }
        });
        gpu.quiesce();
        let words = gpu.read_words(&target);
        for (round, reported) in reported.iter().enumerate() {
            let right = if *reported { 0 } else { round as u32 + 1 };
            let found = (words[round * 128], words[round * 128 + 64]);
            assert_eq!(found, (right, right), "round {round}, reported: {reported}");
        }
    });
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// I6: callbacks run on threads of the program (in `poll` or `submit`), outside of every lock:
/// each calls everything that takes one.
#[test]
fn i6_callbacks_run_on_the_programs_threads_and_under_no_lock() {
    test(|gpu| {
        let threads: Arc<Mutex<Vec<ThreadId>>> = Arc::default();
        let everything = {
            let (device, queue, threads) = (gpu.device.clone(), gpu.queue.clone(), threads.clone());
            move || {
                threads.lock().push(std::thread::current().id());
                let buffer = device.create_buffer(&wgpu::BufferDescriptor {
                    label: None,
                    size: 256,
                    usage: B::all_copies(),
                    mapped_at_creation: false,
                });
                queue.write_buffer(&buffer, 0, &[1; 256]);
                let mut encoder = device.create_command_encoder(&Default::default());
                encoder.clear_buffer(&buffer, 128, None);
                queue.submit([encoder.finish()]);
                let _ = device.poll(wgpu::PollType::wait_indefinitely());
                let _ = device.get_internal_counters();
                let _ = device.generate_allocator_report();
                buffer.destroy();
            }
        };
        let mut buffers = Vec::new();
        for _ in 0..5 {
            let buffer = gpu.buffer("mapped", 256, B::MAP_READ | B::COPY_DST);
            gpu.run(|encoder| encoder.clear_buffer(&buffer, 0, None));
            let (in_map, in_done) = (everything.clone(), everything.clone());
            buffer.map_async(MapMode::Read, .., move |_| in_map());
            gpu.queue.on_submitted_work_done(in_done);
            // Retired while in flight, so that the reclaim thread has work as well.
            let doomed = gpu.buffer("doomed", 256, B::COPY_DST);
            gpu.run(|encoder| encoder.clear_buffer(&doomed, 0, None));
            drop(doomed);
            buffers.push(buffer);
        }
        // Aborted maps have callbacks as well: in unmap and destroy, of this thread.
        for end in [true, false] {
            let buffer = gpu.buffer("aborted", 256, B::MAP_READ | B::COPY_DST);
            let in_map = everything.clone();
            buffer.map_async(MapMode::Read, .., move |_| in_map());
            if end {
                buffer.unmap();
            } else {
                buffer.destroy();
            }
        }
        gpu.wait();
        gpu.wait();
        let own = std::thread::current().id();
        let threads = threads.lock();
        assert_eq!(threads.len(), 12);
        assert!(threads.iter().all(|thread| *thread == own));
        drop(buffers);
    });
}

/// I7: what a fresh resource shows is zero, in memory that others just left. (Each way to read:
/// module `zeroed`.) Here with a queue kept busy, so that memory is recycled behind it.
#[test]
fn i7_recycled_memory_is_zero() {
    test(|gpu| {
        gpu.warm_up();
        let size = 256 << 10;
        let litter = vec![0xff; size as usize];
        for round in 0..30u32 {
            let old = gpu.buffer("old", size, B::all_copies());
            gpu.queue.write_buffer(&old, 0, &litter);
            gpu.run(|encoder| encoder.clear_buffer(&old, 0, Some(4)));
            drop(old);
            if round % 3 == 0 {
                gpu.wait();
            }
            let fresh = gpu.buffer("fresh", size, B::all_copies());
            if round % 2 == 0 {
                gpu.queue.write_buffer(&fresh, 0, &[0; 16]);
            }
            let back = gpu.read(&fresh);
            assert!(back.iter().all(|byte| *byte == 0), "round {round}");
        }
    });
}

/// I8: the loss of a device resolves every callback exactly once, and frees everything.
#[test]
fn i8_loss_resolves_callbacks_once() {
    test(|gpu| {
        gpu.warm_up();
        gpu.quiesce();
        let base = gpu.settled_counts();
        let calls: Arc<[AtomicU32; 5]> = Arc::default();
        let note = |index: usize| {
            let calls = calls.clone();
            move || {
                calls[index].fetch_add(1, Ordering::Relaxed);
            }
        };
        let idle = gpu.buffer("idle", 256, B::MAP_READ | B::COPY_DST);
        let busy = gpu.buffer("busy", 256, B::MAP_READ | B::COPY_DST);
        let written = gpu.buffer("written", 256, B::MAP_READ | B::COPY_DST);
        gpu.queue.write_buffer(&written, 0, &[1; 256]);
        let commands = gpu.commands(|encoder| encoder.clear_buffer(&busy, 0, None));
        let slow = gpu.submit_in_flight([commands]);
        for (index, buffer) in [&idle, &busy, &written].into_iter().enumerate() {
            let note = note(index);
            buffer.map_async(MapMode::Read, .., move |_| note());
        }
        gpu.queue.on_submitted_work_done(note(3));
        let lost = note(4);
        gpu.device.set_device_lost_callback(move |_, _| lost());
        gpu.device.destroy();
        let after = gpu.counts_after(&slow);
        for _ in 0..3 {
            let _ = gpu.device.poll(wgpu::PollType::wait_indefinitely());
        }
        let calls: Vec<_> = calls
            .iter()
            .map(|count| count.load(Ordering::Relaxed))
            .collect();
        assert_eq!(calls, [1; 5]);
        if core() == Core::Wgpu {
            skip("wgpu-core frees the buffers of a destroyed device when they are dropped");
        } else {
            assert!(after.buffers <= base.buffers, "freed: {after:?}");
        }
        drop((idle, busy, written));
        drop(gpu.take_uncaptured());
    });
}

/// I9: each submission sees what the ones before it did, whatever was destroyed, refused or
/// reclaimed in between. A model of the buffers runs along on the CPU.
#[test]
fn i9_submissions_see_the_ones_before() {
    test(|gpu| {
        gpu.warm_up();
        const COUNT: usize = 6;
        let mut random = 0x2545_f491u32;
        let mut next = move |below: u32| {
            random ^= random << 13;
            random ^= random >> 17;
            random ^= random << 5;
            random % below
        };
        let make = || gpu.buffer("modelled", 256, B::all_copies());
        let mut buffers: Vec<_> = (0..COUNT).map(|_| make()).collect();
        let mut model = vec![[0u8; 256]; COUNT];
        let texture = gpu.texture(
            "modelled",
            (16, 4),
            wgpu::TextureFormat::R32Uint,
            T::all_copies(),
        );
        let mut texture_model = [0u8; 256];
        for step in 0..600u32 {
            let (one, two) = (next(COUNT as u32) as usize, next(COUNT as u32) as usize);
            match next(10) {
                0 | 1 => {
                    let bytes = pattern(256, step);
                    gpu.queue.write_buffer(&buffers[one], 0, &bytes);
                    model[one].copy_from_slice(&bytes);
                }
                2 | 3 if one != two => {
                    gpu.queue.submit([copy(gpu, &buffers[one], &buffers[two])]);
                    model[two] = model[one];
                }
                4 => {
                    gpu.run(|encoder| encoder.clear_buffer(&buffers[one], 64, Some(64)));
                    model[one][64..128].fill(0);
                }
                // (On wgpu-core it counts what it did not clear as cleared.)
                5 if core() == Core::Fencepost => {
                    // Refused: it changes nothing.
                    let gone = gpu.buffer("gone", 256, B::COPY_SRC);
                    let commands = [
                        gpu.commands(|encoder| encoder.clear_buffer(&buffers[one], 0, None)),
                        copy(gpu, &gone, &buffers[two]),
                    ];
                    gone.destroy();
                    gpu.invalid("refused", || gpu.queue.submit(commands));
                }
                6 => {
                    buffers[one].destroy();
                    buffers[one] = make();
                    model[one].fill(0);
                }
                7 => {
                    gpu.run(|encoder| {
                        encoder.copy_buffer_to_texture(
                            wgpu::TexelCopyBufferInfo {
                                buffer: &buffers[one],
                                layout: layout(0, 256, 1),
                            },
                            texture.as_image_copy(),
                            extent(16, 1, 1),
                        );
                    });
                    texture_model[..64].copy_from_slice(&model[one][..64]);
                }
                8 => {
                    gpu.run(|encoder| {
                        encoder.copy_texture_to_buffer(
                            texture.as_image_copy(),
                            wgpu::TexelCopyBufferInfo {
                                buffer: &buffers[one],
                                layout: layout(0, 256, 1),
                            },
                            extent(16, 1, 1),
                        );
                    });
                    model[one][..64].copy_from_slice(&texture_model[..64]);
                }
                _ => {
                    if step % 4 == 0 {
                        assert_eq!(gpu.read(&buffers[one]), model[one], "step {step}");
                    } else {
                        let _ = gpu.device.poll(wgpu::PollType::Poll);
                    }
                }
            }
        }
        for (buffer, model) in buffers.iter().zip(&model) {
            assert_eq!(gpu.read(buffer), model);
        }
    });
}
