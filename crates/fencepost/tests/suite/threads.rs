//! Everything from many threads at once, and very many encoders.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use wgpu::{BufferUsages as B, MapMode, TextureUsages as T};

use crate::harness::*;

/// How long a storm lasts.
fn storm_time() -> Duration {
    let seconds = std::env::var("FENCEPOST_STORM_SECONDS").map_or(20.0, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("FENCEPOST_STORM_SECONDS is {text:?}, not a number"))
    });
    Duration::from_secs_f64(seconds)
}

const THREADS: u32 = 8;

/// A small generator (xorshift), so that a storm can be told apart from the next.
struct Random(u32);

impl Random {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0 % limit
    }
}

const BUMP: &str = "
    @group(0) @binding(0) var<storage, read_write> data: array<u32>;
    @compute @workgroup_size(1) fn main() { data[0] += 1u; }";

/// Eight threads create, map, write, submit, destroy and drop what is their own and what they
/// share; afterwards every counter is where it began.
#[test]
fn storm() {
    test(|gpu| {
        gpu.warm_up();
        let pipeline = gpu.pipeline(BUMP);
        let shared: Vec<_> = (0..4)
            .map(|_| gpu.buffer("shared", 4096, B::all_copies() | B::STORAGE))
            .collect();
        let shared_texture = gpu.texture(
            "shared",
            (32, 32),
            wgpu::TextureFormat::R32Uint,
            T::all_copies() | T::TEXTURE_BINDING,
        );
        gpu.quiesce();
        let base = gpu.settled_counts();
        let steps = AtomicU64::new(0);
        let end = Instant::now() + storm_time();
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (pipeline, shared, shared_texture, steps) =
                    (&pipeline, &shared, &shared_texture, &steps);
                scope.spawn(move || {
                    let mut random = Random(0x9e37_79b9 ^ (thread + 1));
                    let mut own: Vec<wgpu::Buffer> = Vec::new();
                    let mut textures: Vec<wgpu::Texture> = Vec::new();
                    while Instant::now() < end {
                        storm_step(
                            gpu,
                            &mut random,
                            pipeline,
                            shared,
                            shared_texture,
                            &mut own,
                            &mut textures,
                        );
                        steps.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        gpu.quiesce();
        assert_eq!(gpu.settled_counts(), base);
        eprintln!("{} steps", steps.load(Ordering::Relaxed));
        let fine = gpu.filled("fine", B::all_copies(), &[1; 256]);
        assert_eq!(gpu.read(&fine), [1; 256], "and the device is fine");
    });
}

fn storm_step(
    gpu: &Gpu,
    random: &mut Random,
    pipeline: &wgpu::ComputePipeline,
    shared: &[wgpu::Buffer],
    shared_texture: &wgpu::Texture,
    own: &mut Vec<wgpu::Buffer>,
    textures: &mut Vec<wgpu::Texture>,
) {
    let any = &shared[random.below(shared.len() as u32) as usize];
    match random.below(12) {
        0 => own.push(gpu.buffer("own", 4096, B::all_copies() | B::STORAGE)),
        1 => own.push(gpu.filled("own", B::all_copies() | B::STORAGE, &[3; 4096])),
        2 => {
            gpu.queue.write_buffer(any, 256, &[random.0 as u8; 64]);
            if let Some(buffer) = own.last() {
                gpu.queue.write_buffer(buffer, 0, &[random.0 as u8; 1024]);
            }
        }
        3 => {
            if let Some(buffer) = own.last() {
                gpu.run(|encoder| {
                    encoder.copy_buffer_to_buffer(buffer, 0, any, 0, 1024);
                    encoder.copy_buffer_to_buffer(any, 1024, buffer, 1024, 1024);
                });
            }
        }
        4 => {
            // Bound, submitted, and everything of it dropped at once.
            let buffer = gpu.buffer("short-lived", 256, B::STORAGE);
            let group = gpu.group(pipeline, &[buffer.as_entire_binding()]);
            let shared_group = gpu.group(pipeline, &[any.as_entire_binding()]);
            gpu.run(|encoder| {
                let mut pass = encoder.begin_compute_pass(&Default::default());
                pass.set_pipeline(pipeline);
                pass.set_bind_group(0, &group, &[]);
                pass.dispatch_workgroups(1, 1, 1);
                pass.set_bind_group(0, &shared_group, &[]);
                pass.dispatch_workgroups(1, 1, 1);
            });
            buffer.destroy();
        }
        5 => {
            if let Some(buffer) = own.pop() {
                buffer.destroy();
                // Used after its end: an error, of this thread.
                let (_, error) =
                    gpu.error_of(|| gpu.run(|encoder| encoder.clear_buffer(&buffer, 0, None)));
                assert!(error.is_some());
            }
        }
        6 => drop(own.pop()),
        7 => {
            let buffer = gpu.buffer("mapped", 1024, B::MAP_READ | B::COPY_DST);
            gpu.run(|encoder| encoder.copy_buffer_to_buffer(any, 0, &buffer, 0, 1024));
            let outcome = Outcome::default();
            buffer.map_async(MapMode::Read, .., outcome.callback());
            match random.below(4) {
                0 => buffer.unmap(),
                1 => buffer.destroy(),
                2 => {}
                _ => {
                    gpu.wait();
                    if outcome.get() == [Ok(())] {
                        let view = buffer.get_mapped_range(..).unwrap();
                        std::hint::black_box(view[0]);
                        drop(view);
                        buffer.unmap();
                    }
                }
            }
        }
        8 => {
            let texture = gpu.texture(
                "own",
                (32, 32),
                wgpu::TextureFormat::R32Uint,
                T::all_copies() | T::TEXTURE_BINDING,
            );
            gpu.queue.write_texture(
                texture.as_image_copy(),
                &[7; 4096],
                layout(0, 128, 32),
                extent(32, 32, 1),
            );
            textures.push(texture);
        }
        9 => {
            if let Some(texture) = textures.last() {
                let view = gpu.view(texture);
                gpu.run(|encoder| {
                    encoder.copy_texture_to_texture(
                        texture.as_image_copy(),
                        shared_texture.as_image_copy(),
                        extent(32, 32, 1),
                    );
                });
                drop(view);
            }
        }
        10 => {
            if let Some(texture) = textures.pop() {
                if random.below(2) == 0 {
                    texture.destroy();
                }
            }
        }
        _ => {
            let _ = gpu.device.poll(wgpu::PollType::Poll);
            // Recorded and never submitted.
            let forgotten = gpu.commands(|encoder| encoder.clear_buffer(any, 0, None));
            drop(forgotten);
            if own.len() > 20 {
                own.clear();
            }
            if textures.len() > 10 {
                textures.clear();
            }
        }
    }
}

/// Objects made on one thread, used on another, dropped on a third.
#[test]
fn objects_travel() {
    test(|gpu| {
        gpu.warm_up();
        gpu.quiesce();
        let base = gpu.settled_counts();
        let (to_recorder, recorder) = std::sync::mpsc::sync_channel::<wgpu::Buffer>(8);
        let (to_submitter, submitter) =
            std::sync::mpsc::sync_channel::<(wgpu::Buffer, wgpu::CommandBuffer)>(8);
        let (to_dropper, dropper) = std::sync::mpsc::sync_channel::<wgpu::Buffer>(8);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for _ in 0..500 {
                    let buffer = gpu.buffer("travels", 1024, B::COPY_DST);
                    to_recorder.send(buffer).unwrap();
                }
            });
            scope.spawn(move || {
                for buffer in recorder {
                    let commands = gpu.commands(|encoder| encoder.clear_buffer(&buffer, 0, None));
                    to_submitter.send((buffer, commands)).unwrap();
                }
            });
            scope.spawn(move || {
                for (buffer, commands) in submitter {
                    gpu.queue.submit([commands]);
                    to_dropper.send(buffer).unwrap();
                }
            });
            scope.spawn(move || {
                for (number, buffer) in dropper.into_iter().enumerate() {
                    if number % 2 == 0 {
                        buffer.destroy();
                    }
                }
            });
        });
        gpu.quiesce();
        assert_eq!(gpu.settled_counts(), base);
    });
}

/// One buffer, many threads that write to it and read it back: no write is torn.
#[test]
fn one_buffer_many_writers() {
    test(|gpu| {
        let buffer = gpu.buffer("contended", 1024, B::all_copies());
        gpu.queue.write_buffer(&buffer, 0, &[1; 1024]);
        std::thread::scope(|scope| {
            for thread in 1..=4u8 {
                let buffer = &buffer;
                scope.spawn(move || {
                    for _ in 0..100 {
                        gpu.queue.write_buffer(buffer, 0, &[thread; 1024]);
                        gpu.queue.submit([]);
                    }
                });
            }
            scope.spawn(|| {
                for _ in 0..50 {
                    let back = gpu.read(&buffer);
                    assert!(back.iter().all(|byte| *byte == back[0] && *byte != 0));
                }
            });
        });
    });
}

/// Encoders that are never submitted cost nothing but host memory: Metal has 2048 command
/// buffers or 4096, and here are more.
fn unsubmitted_encoders(count: usize) {
    test(|gpu| {
        gpu.warm_up();
        let target = gpu.buffer("target", 256, B::all_copies());
        let source = gpu.filled("source", B::COPY_SRC, &[5; 256]);
        gpu.quiesce();
        let base = gpu.settled_counts();
        let encoders = || {
            gpu.device
                .get_internal_counters()
                .hal
                .command_encoders
                .read()
        };
        let before = encoders();
        let mut alive: Vec<_> = (0..count)
            .map(|_| {
                let mut encoder = gpu.encoder();
                encoder.clear_buffer(&target, 0, None);
                encoder
            })
            .collect();
        if core() == Core::Fencepost {
            assert!(
                encoders() - before <= 16,
                "{} HAL encoders for {count} unsubmitted ones",
                encoders() - before
            );
        }
        assert_eq!(gpu.settled_counts(), base);
        let finished: Vec<_> = alive
            .drain(count / 2..)
            .map(wgpu::CommandEncoder::finish)
            .collect();
        gpu.valid("others can be submitted meanwhile", || {
            gpu.run(|encoder| encoder.copy_buffer_to_buffer(&source, 0, &target, 0, 256))
        });
        assert_eq!(gpu.read(&target), [5; 256]);
        drop((alive, finished));
        gpu.quiesce();
        assert_eq!(gpu.settled_counts(), base);
    });
}

#[test]
fn unsubmitted_encoders_2000() {
    if ours_alone("each encoder holds a HAL command buffer") {
        return;
    }
    unsubmitted_encoders(2000);
}

#[test]
fn unsubmitted_encoders_20000() {
    if ours_alone("each encoder holds a HAL command buffer") {
        return;
    }
    unsubmitted_encoders(20_000);
}

/// Devices come and go on several threads, with work in them.
#[test]
fn devices_come_and_go() {
    test_bare(|| {
        let adapter = match adapter() {
            Ok(adapter) => adapter,
            Err(why) => return skip(&why),
        };
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                let adapter = &adapter;
                scope.spawn(move || {
                    for round in 0..8u8 {
                        let (device, queue) =
                            pollster::block_on(adapter.request_device(&Default::default()))
                                .unwrap();
                        let buffer = device.create_buffer(&wgpu::BufferDescriptor {
                            label: None,
                            size: 4096,
                            usage: B::COPY_DST,
                            mapped_at_creation: false,
                        });
                        queue.write_buffer(&buffer, 0, &[thread; 4096]);
                        queue.submit([]);
                        match round % 4 {
                            0 => drop(device),
                            1 => drop(queue),
                            2 => device.destroy(),
                            _ => drop(buffer),
                        }
                    }
                });
            }
        });
    });
}
