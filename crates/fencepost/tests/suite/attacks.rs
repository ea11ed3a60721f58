//! Attacks that once succeeded: each made Fencepost break a promise or the driver's rules.
//!
//! Most are races of two threads, repeated with the threads shifted against each other; a defect
//! shows in some of the rounds. Rounds are as many as a slow driver does in a second or two.
//! Where the harm is a message of the validation layer, the harness does the asserting.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{mpsc, Arc};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use wgpu::{BufferUsages as B, MapMode, PollType, TextureUsages as T};

use crate::harness::*;

/// Two threads in lockstep: in each round the rival does one thing while this thread does
/// another.
#[derive(Default)]
struct Race {
    /// `2 * round - 1` from the start of a round, `2 * round` when the rival is done with it.
    turn: AtomicU32,
    /// One of the two has failed or ended; the other must not wait for it.
    over: AtomicBool,
}

/// Marks the race as over when the thread that holds it ends.
struct End<'a>(&'a Race);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Release);
    }
}

impl Race {
    /// Calls `own(race, round)` on this thread for every round. It must call [`Race::start`] and
    /// [`Race::join`] once each; in between, `rival(round)` runs on the other thread.
    fn run(rounds: u32, rival: impl Fn(u32) + Sync, mut own: impl FnMut(&Self, u32)) {
        let race = Self::default();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let end = End(&race);
                for round in 1..=rounds {
                    if !race.reaches(2 * round - 1) {
                        return;
                    }
                    rival(round);
                    race.turn.store(2 * round, Ordering::Release);
                }
                // Nobody waits for a rival that came to its end.
                std::mem::forget(end);
            });
            let _end = End(&race);
            for round in 1..=rounds {
                own(&race, round);
            }
        });
    }

    fn reaches(&self, turn: u32) -> bool {
        let mut spins = 0u32;
        while self.turn.load(Ordering::Acquire) != turn {
            if self.over.load(Ordering::Acquire) {
                return false;
            }
            spins += 1;
            if spins.is_multiple_of(1000) {
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
        true
    }

    fn start(&self, round: u32) {
        self.turn.store(2 * round - 1, Ordering::Release);
    }

    fn join(&self, round: u32) {
        assert!(self.reaches(2 * round), "the rival thread failed");
    }
}

/// Lets a little time pass, a different one each round.
fn shift(round: u32, step: u32, most: u32) {
    for _ in 0..round * step % most {
        std::hint::spin_loop();
    }
}

/// Runs `f` and ignores the validation error that it may cause.
fn maybe<R>(gpu: &Gpu, f: impl FnOnce() -> R) -> R {
    gpu.error_of(f).0
}

/// Asks for a mapping; the cell becomes 1 when it is there and 2 when it is refused.
fn map_noted(gpu: &Gpu, buffer: &wgpu::Buffer, mode: MapMode) -> Arc<AtomicU32> {
    let state = Arc::new(AtomicU32::new(0));
    let noted = state.clone();
    maybe(gpu, || {
        buffer.map_async(mode, .., move |result| {
            noted.store(1 + u32::from(result.is_err()), Ordering::SeqCst);
        });
    });
    state
}

fn storage_entry(binding: u32, read_only: bool, count: u32) -> wgpu::BindGroupLayoutEntry {
    wgpu::BindGroupLayoutEntry {
        binding,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer {
            ty: wgpu::BufferBindingType::Storage { read_only },
            has_dynamic_offset: false,
            min_binding_size: None,
        },
        count: std::num::NonZeroU32::new(count),
    }
}

// ---- a layout goes after its bind groups ----

/// Groups in flight are dropped, their program waits, and drops the layout while another thread
/// may still be freeing them.
#[test]
fn layout_dropped_after_a_wait() {
    test(|gpu| {
        for _ in 0..60 {
            let pipeline = gpu.pipeline(
                "@group(0) @binding(0) var<storage, read_write> data: array<u32>;
                @compute @workgroup_size(1) fn main() { data[0] += 1u; }",
            );
            let layout = pipeline.get_bind_group_layout(0);
            let buffer = gpu.buffer("bound", 256, B::STORAGE);
            let groups: Vec<_> = (0..60)
                .map(|_| gpu.group_of(&layout, &[buffer.as_entire_binding()]))
                .collect();
            gpu.run(|encoder| {
                let mut pass = encoder.begin_compute_pass(&Default::default());
                pass.set_pipeline(&pipeline);
                for group in &groups {
                    pass.set_bind_group(0, group, &[]);
                    pass.dispatch_workgroups(16, 1, 1);
                }
            });
            drop((groups, buffer));
            gpu.wait();
            drop((pipeline, layout));
        }
    });
}

/// A buffer is destroyed on one thread while its groups, then their layout, are dropped on
/// another.
#[test]
fn layout_dropped_during_a_destroy() {
    test(|gpu| {
        let slot = Mutex::new(None::<wgpu::Buffer>);
        Race::run(
            800,
            |_| slot.lock().take().unwrap().destroy(),
            |race, round| {
                let layout = gpu.layout(&[storage_entry(0, false, 0)]);
                let buffer = gpu.buffer("bound", 256, B::STORAGE);
                let groups: Vec<_> = (0..10)
                    .map(|_| gpu.group_of(&layout, &[buffer.as_entire_binding()]))
                    .collect();
                *slot.lock() = Some(buffer);
                race.start(round);
                shift(round, 17, 1500);
                drop(groups);
                drop(layout);
                race.join(round);
            },
        );
    });
}

/// A device is destroyed on one thread while groups and their layout are dropped on another.
#[test]
fn layout_dropped_during_a_device_destroy() {
    test(|gpu| {
        for round in 0..40 {
            let (device, queue) =
                pollster::block_on(gpu.adapter.request_device(&Default::default())).unwrap();
            let layout = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
                label: None,
                entries: &[storage_entry(0, false, 0)],
            });
            let buffer = device.create_buffer(&wgpu::BufferDescriptor {
                label: None,
                size: 256,
                usage: B::STORAGE,
                mapped_at_creation: false,
            });
            let groups: Vec<_> = (0..200)
                .map(|_| {
                    device.create_bind_group(&wgpu::BindGroupDescriptor {
                        label: None,
                        layout: &layout,
                        entries: &[wgpu::BindGroupEntry {
                            binding: 0,
                            resource: buffer.as_entire_binding(),
                        }],
                    })
                })
                .collect();
            let go = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !go.load(Ordering::Acquire) {
                        std::hint::spin_loop();
                    }
                    device.destroy();
                });
                go.store(true, Ordering::Release);
                shift(round, 171, 9000);
                drop(groups);
                drop(layout);
                drop(buffer);
            });
            drop((device, queue));
        }
    });
}

// ---- a bind group of what is being destroyed ----

/// A group made while its texture is destroyed keeps nothing of it, and leaves nothing behind.
#[test]
fn group_of_a_texture_being_destroyed() {
    if ours_alone("bind groups of a destroyed texture stay until they are dropped") {
        return;
    }
    test(|gpu| {
        gpu.warm_up();
        gpu.quiesce();
        let base = gpu.settled_counts();
        let layout = gpu.layout(&[wgpu::BindGroupLayoutEntry {
            binding: 0,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Texture {
                sample_type: wgpu::TextureSampleType::Float { filterable: true },
                view_dimension: wgpu::TextureViewDimension::D2,
                multisampled: false,
            },
            count: None,
        }]);
        let slot = Mutex::new(None::<wgpu::Texture>);
        Race::run(
            600,
            |round| {
                let texture = slot.lock().take().unwrap();
                shift(round, 13, 2000);
                texture.destroy();
            },
            |race, round| {
                let texture = gpu.texture(
                    "goes",
                    (4, 4),
                    wgpu::TextureFormat::Rgba8Unorm,
                    T::TEXTURE_BINDING | T::COPY_DST,
                );
                let views: Vec<_> = (0..40).map(|_| gpu.view(&texture)).collect();
                *slot.lock() = Some(texture);
                let before = gpu.counts().bind_groups;
                race.start(round);
                let groups: Vec<_> = views
                    .iter()
                    .rev()
                    .take(12)
                    .map(|view| gpu.group_of(&layout, &[wgpu::BindingResource::TextureView(view)]))
                    .collect();
                race.join(round);
                assert_eq!(
                    gpu.counts().bind_groups,
                    before,
                    "round {round}: groups that name freed views"
                );
                drop((groups, views));
            },
        );
        drop(layout);
        gpu.quiesce();
        assert_eq!(gpu.settled_counts(), base);
    });
}

// ---- writes to compressed textures ----

/// The blocks of a compressed 3D texture lie slice after slice.
#[test]
fn write_texture_to_a_compressed_3d_texture() {
    let features =
        wgpu::Features::TEXTURE_COMPRESSION_BC | wgpu::Features::TEXTURE_COMPRESSION_BC_SLICED_3D;
    test_with(features, |gpu| {
        // 2 by 2 blocks of 8 bytes in each of 4 slices.
        let size = extent(8, 8, 4);
        let texture = gpu.device.create_texture(&wgpu::TextureDescriptor {
            label: Some("blocks"),
            size,
            mip_level_count: 1,
            sample_count: 1,
            dimension: wgpu::TextureDimension::D3,
            format: wgpu::TextureFormat::Bc1RgbaUnorm,
            usage: T::all_copies(),
            view_formats: &[],
        });
        let data: Vec<u8> = (1..=128).collect();
        gpu.queue
            .write_texture(texture.as_image_copy(), &data, layout(0, 16, 2), size);
        let back = gpu.buffer("blocks back", 256 * 8, B::COPY_DST | B::MAP_READ);
        gpu.run(|encoder| {
            encoder.copy_texture_to_buffer(
                texture.as_image_copy(),
                wgpu::TexelCopyBufferInfo {
                    buffer: &back,
                    layout: layout(0, 256, 2),
                },
                size,
            );
        });
        let rows: Vec<u8> = gpu
            .mapped_bytes(&back)
            .chunks(256)
            .flat_map(|row| row[..16].to_vec())
            .collect();
        assert_eq!(rows, data);
    });
}

// ---- mapping against everything else ----

/// `unmap` on one thread, `map_async` on another: a buffer that is mapped in the end is not
/// submitted.
#[test]
fn unmap_races_map_async() {
    test(|gpu| {
        let buffer = gpu.buffer("mapped", 65536, B::MAP_WRITE | B::COPY_SRC);
        let target = gpu.buffer("target", 65536, B::COPY_DST);
        Race::run(
            4000,
            |_| maybe(gpu, || buffer.unmap()),
            |race, round| {
                // Mapped in even rounds, in odd ones still waiting.
                map_noted(gpu, &buffer, MapMode::Write);
                if round % 2 == 0 {
                    gpu.wait();
                }
                race.start(round);
                shift(round, 1, 50);
                for _ in 0..20 {
                    let state = map_noted(gpu, &buffer, MapMode::Write);
                    if state.load(Ordering::SeqCst) == 0 {
                        let _ = gpu.device.poll(PollType::Poll);
                    }
                    if state.load(Ordering::SeqCst) == 1 {
                        break;
                    }
                }
                race.join(round);
                let _ = gpu.device.poll(PollType::Poll);
                let held = maybe(gpu, || buffer.get_mapped_range_mut(..));
                if held.is_ok() {
                    gpu.invalid(("a mapped buffer is submitted", round), || {
                        gpu.run(|encoder| {
                            encoder.copy_buffer_to_buffer(&buffer, 0, &target, 0, 65536);
                        })
                    });
                }
                drop(held);
                maybe(gpu, || buffer.unmap());
                maybe(gpu, || buffer.unmap());
            },
        );
    });
}

/// `unmap` of a buffer that waits to be mapped on one thread, `map_async` on another: while the
/// second mapping waits, the buffer is not submitted.
#[test]
fn unmap_of_a_waiting_map_races_map_async() {
    test(|gpu| {
        let buffer = gpu.buffer("waits", 256, B::MAP_READ | B::COPY_DST);
        Race::run(
            3000,
            |_| maybe(gpu, || buffer.unmap()),
            |race, round| {
                map_noted(gpu, &buffer, MapMode::Read);
                race.start(round);
                let mut waits = false;
                let mut state = Arc::default();
                for _ in 0..10 {
                    state = map_noted(gpu, &buffer, MapMode::Read);
                    waits = state.load(Ordering::SeqCst) == 0;
                    if waits {
                        break;
                    }
                }
                race.join(round);
                // Nobody polls: a mapping that was accepted and not unmapped still waits.
                if waits && state.load(Ordering::SeqCst) == 0 {
                    gpu.invalid(("a buffer that waits is submitted", round), || {
                        gpu.run(|encoder| encoder.clear_buffer(&buffer, 0, None))
                    });
                }
                maybe(gpu, || buffer.unmap());
                gpu.wait();
            },
        );
    });
}

/// `unmap` of a buffer mapped at creation on one thread, `map_async` on another: the mapping
/// shows what was written before.
#[test]
fn unmap_of_an_initial_mapping_races_map_async() {
    test(|gpu| {
        let slot = Mutex::new(None::<wgpu::Buffer>);
        Race::run(
            1500,
            |_| {
                let buffer = slot.lock().take().unwrap();
                maybe(gpu, || buffer.unmap());
            },
            |race, round| {
                let buffer = gpu.device.create_buffer(&wgpu::BufferDescriptor {
                    label: Some("mapped at creation"),
                    size: 256,
                    usage: B::MAP_READ | B::COPY_DST,
                    mapped_at_creation: true,
                });
                buffer
                    .get_mapped_range_mut(..)
                    .unwrap()
                    .copy_from_slice(&[77; 256]);
                *slot.lock() = Some(buffer.clone());
                race.start(round);
                let mut state = Arc::default();
                for _ in 0..200 {
                    state = map_noted(gpu, &buffer, MapMode::Read);
                    if state.load(Ordering::SeqCst) == 0 {
                        break;
                    }
                }
                race.join(round);
                gpu.wait();
                if state.load(Ordering::SeqCst) != 1 {
                    return;
                }
                if let Ok(view) = maybe(gpu, || buffer.get_mapped_range(..)) {
                    assert_eq!(view[..], [77; 256], "round {round}");
                    gpu.invalid(("a mapped buffer is submitted", round), || {
                        gpu.run(|encoder| encoder.clear_buffer(&buffer, 0, None))
                    });
                }
            },
        );
    });
}

/// `write_buffer` on one thread, `map_async` on another: a write that is accepted is in the
/// mapping, or else refused because the buffer waits to be mapped.
#[test]
fn write_buffer_races_map_async() {
    test(|gpu| {
        let buffer = gpu.buffer("contended", 256, B::MAP_READ | B::COPY_DST);
        let refused = AtomicBool::new(false);
        let contents = |round: u32| (round % 251) as u8;
        Race::run(
            3000,
            |round| {
                let (_, error) = gpu.error_of(|| {
                    gpu.queue.write_buffer(&buffer, 0, &[contents(round); 256]);
                });
                refused.store(error.is_some(), Ordering::SeqCst);
            },
            |race, round| {
                race.start(round);
                shift(round, 7, 3000);
                gpu.valid("the buffer is free", || {
                    buffer.map_async(MapMode::Read, .., |_| ())
                });
                race.join(round);
                gpu.wait();
                let view = buffer.get_mapped_range(..).unwrap();
                assert!(
                    refused.load(Ordering::SeqCst) || view[..] == [contents(round); 256],
                    "round {round}: the write was accepted and is not in the mapping"
                );
                drop(view);
                buffer.unmap();
                gpu.queue.submit([]);
            },
        );
    });
}

// ---- callbacks ----

/// Two mappings become ready together, and another thread is still in the first one's callback:
/// after a wait the second range can be had.
#[test]
fn mapped_range_behind_a_slow_callback() {
    test(|gpu| {
        let buffers = [(); 2].map(|()| gpu.buffer("mapped", 1024, B::MAP_READ | B::COPY_DST));
        gpu.run(|encoder| {
            for buffer in &buffers {
                encoder.clear_buffer(buffer, 0, None);
            }
        });
        std::thread::sleep(Duration::from_millis(100));
        let (entered, enters) = mpsc::channel();
        buffers[0].map_async(MapMode::Read, .., move |_| {
            entered.send(()).unwrap();
            std::thread::sleep(Duration::from_millis(300));
        });
        let second = Outcome::default();
        buffers[1].map_async(MapMode::Read, .., second.callback());
        std::thread::scope(|scope| {
            scope.spawn(|| gpu.device.poll(PollType::Poll).unwrap());
            enters.recv_timeout(Duration::from_secs(10)).unwrap();
            gpu.wait();
            let range = buffers[1].get_mapped_range(..);
            assert!(range.is_ok(), "right after the wait: {:?}", range.err());
        });
        let start = Instant::now();
        while second.get().is_empty() && start.elapsed() < Duration::from_secs(10) {
            gpu.wait();
        }
        assert_eq!(second.get(), [Ok(())]);
    });
}

const BOOM: &str = "this callback panics on purpose";

/// A callback that panics takes no other callback with it.
#[test]
fn a_panicking_callback() {
    if ours_alone("the other callbacks of the batch are lost") {
        return;
    }
    let default = Arc::new(std::panic::take_hook());
    let hook = default.clone();
    std::panic::set_hook(Box::new(move |info| {
        if info.payload().downcast_ref::<&str>() != Some(&BOOM) {
            hook(info);
        }
    }));
    test(|gpu| {
        let buffers = [(); 4].map(|()| gpu.buffer("mapped", 64, B::MAP_READ | B::COPY_DST));
        gpu.run(|encoder| {
            for buffer in &buffers {
                encoder.clear_buffer(buffer, 0, None);
            }
        });
        let ran = Arc::new(Mutex::new(Vec::new()));
        for (number, buffer) in buffers.iter().enumerate() {
            let ran = ran.clone();
            buffer.map_async(MapMode::Read, .., move |result| {
                result.unwrap();
                if number == 1 {
                    std::panic::panic_any(BOOM);
                }
                ran.lock().push(number);
            });
        }
        let done = ran.clone();
        gpu.queue
            .on_submitted_work_done(move || done.lock().push(4));
        let _ = catch_unwind(AssertUnwindSafe(|| {
            gpu.device.poll(PollType::wait_indefinitely())
        }));
        gpu.wait();
        let mut ran = std::mem::take(&mut *ran.lock());
        ran.sort_unstable();
        assert_eq!(ran, [0, 2, 3, 4]);
        for buffer in &buffers {
            assert!(buffer.get_mapped_range(..).is_ok());
        }
    });
    drop(std::panic::take_hook());
    std::panic::set_hook(Box::new(move |info| default(info)));
}

// ---- limits and sizes ----

/// The sizes that a shader needs of its buffers are compared with the right bindings, where one
/// of them is an array.
#[test]
fn minimum_sizes_behind_an_array_of_buffers() {
    test(|gpu| {
        let features =
            wgpu::Features::BUFFER_BINDING_ARRAY | wgpu::Features::STORAGE_RESOURCE_BINDING_ARRAY;
        if !gpu.adapter.features().contains(features) {
            return skip("the adapter has no arrays of storage buffers");
        }
        let (device, queue) =
            pollster::block_on(gpu.adapter.request_device(&wgpu::DeviceDescriptor {
                required_features: features,
                required_limits: gpu.adapter.limits(),
                ..Default::default()
            }))
            .unwrap();
        let scope = device.push_error_scope(wgpu::ErrorFilter::Validation);
        let layout = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
            label: None,
            entries: &[
                storage_entry(0, true, 2),
                storage_entry(1, true, 0),
                storage_entry(2, false, 0),
            ],
        });
        let pipeline_layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &[Some(&layout)],
            immediate_size: 0,
        });
        let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: None,
            source: wgpu::ShaderSource::Wgsl(
                "enable wgpu_binding_array;
                struct Small { a: u32 }
                struct Big { a: array<u32, 64> }
                @group(0) @binding(0) var<storage, read> small: binding_array<Small, 2>;
                @group(0) @binding(1) var<storage, read> big: Big;
                @group(0) @binding(2) var<storage, read_write> out: array<u32>;
                @compute @workgroup_size(1)
                fn main() { out[0] = small[0].a + small[1].a + big.a[60]; }"
                    .into(),
            ),
        });
        let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: Some(&pipeline_layout),
            module: &module,
            entry_point: Some("main"),
            compilation_options: Default::default(),
            cache: None,
        });
        assert!(pollster::block_on(scope.pop()).is_none(), "the setup");
        // The sizes of the array's second buffer and of the big one, which needs 256 bytes.
        for (second, big, fits) in [(256, 16, false), (4, 256, true)] {
            let scope = device.push_error_scope(wgpu::ErrorFilter::Validation);
            let buffers = [256, second, big, 256].map(|size| {
                device.create_buffer(&wgpu::BufferDescriptor {
                    label: None,
                    size,
                    usage: B::STORAGE,
                    mapped_at_creation: false,
                })
            });
            let array = [&buffers[0], &buffers[1]].map(|buffer| buffer.as_entire_buffer_binding());
            let resources = [
                wgpu::BindingResource::BufferArray(&array),
                buffers[2].as_entire_binding(),
                buffers[3].as_entire_binding(),
            ];
            let entries: Vec<_> = (0..)
                .zip(resources)
                .map(|(binding, resource)| wgpu::BindGroupEntry { binding, resource })
                .collect();
            let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
                label: None,
                layout: &layout,
                entries: &entries,
            });
            let mut encoder = device.create_command_encoder(&Default::default());
            {
                let mut pass = encoder.begin_compute_pass(&Default::default());
                pass.set_pipeline(&pipeline);
                pass.set_bind_group(0, &group, &[]);
                pass.dispatch_workgroups(1, 1, 1);
            }
            queue.submit([encoder.finish()]);
            let error = pollster::block_on(scope.pop());
            assert_eq!(error.is_none(), fits, "{big} of 256 bytes: {error:?}");
        }
        device.poll(PollType::wait_indefinitely()).unwrap();
    });
}

/// The no-op backend's limits are beyond what any driver has: what exceeds what can be done is an
/// error there, too.
#[test]
fn noop_limits_are_no_promise() {
    if ours_alone("it panics") {
        return;
    }
    test_bare(|| {
        let mut desc = descriptor(wgpu::Backends::NOOP);
        desc.backend_options.noop = wgpu::NoopBackendOptions::enabled();
        let adapters = pollster::block_on(instance(desc).enumerate_adapters(wgpu::Backends::NOOP));
        let adapter = adapters.into_iter().next().expect("the no-op adapter");
        let (device, _queue) =
            pollster::block_on(adapter.request_device(&wgpu::DeviceDescriptor {
                required_features: adapter.features() - wgpu::Features::all_experimental_mask(),
                required_limits: adapter.limits(),
                ..Default::default()
            }))
            .unwrap();
        let layout = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
            label: None,
            entries: &[],
        });
        let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &layout,
            entries: &[],
        });
        let refused = |what: &str, record: &dyn Fn(&mut wgpu::ComputePass<'_>)| {
            let scope = device.push_error_scope(wgpu::ErrorFilter::Validation);
            let mut encoder = device.create_command_encoder(&Default::default());
            record(&mut encoder.begin_compute_pass(&Default::default()));
            drop(encoder.finish());
            assert!(pollster::block_on(scope.pop()).is_some(), "{what}");
        };
        refused("group 9", &|pass| pass.set_bind_group(9, &group, &[]));
        let limit = device.limits().max_immediate_size;
        for (offset, len) in [(0, 1024), (256, 4), (limit, 4), (u32::MAX - 3, 4)] {
            refused(&format!("{len} immediates at {offset}"), &|pass| {
                pass.set_immediates(offset, &vec![0; len]);
            });
        }
    });
}

// ---- many small writes ----

/// Writes with gaps all over a fresh buffer: they are in, and between them are zeros.
#[test]
fn scattered_writes_into_a_fresh_buffer() {
    test(|gpu| {
        const COUNT: u32 = 2000;
        let buffer = gpu.buffer("scattered", u64::from(COUNT) * 8, B::all_copies());
        for index in 0..COUNT {
            gpu.queue
                .write_buffer(&buffer, u64::from(index) * 8, &(index + 1).to_ne_bytes());
        }
        let expected: Vec<u32> = (1..=COUNT).flat_map(|value| [value, 0]).collect();
        assert!(gpu.read_words(&buffer) == expected);
    });
}
