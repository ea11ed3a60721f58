//! Scenarios from bug reports against implementations of WebGPU and programs on top of them.
//! Each test is named after its row in the project's table of scenarios.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use wgpu::{BufferUsages as B, TextureUsages as T};

use crate::harness::*;

const COPY_WORDS: &str = "
    @group(0) @binding(0) var<storage, read> input: array<u32>;
    @group(0) @binding(1) var<storage, read_write> output: array<u32>;
    @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&input) { output[id.x] = input[id.x]; }
    }";

/// Adds one to every word.
const BUMP: &str = "
    @group(0) @binding(0) var<storage, read_write> data: array<u32>;
    @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&data) { data[id.x] += 1u; }
    }";

fn dispatch(
    encoder: &mut wgpu::CommandEncoder,
    pipeline: &wgpu::ComputePipeline,
    group: &wgpu::BindGroup,
    workgroups: u32,
) {
    let mut pass = encoder.begin_compute_pass(&Default::default());
    pass.set_pipeline(pipeline);
    pass.set_bind_group(0, group, &[]);
    pass.dispatch_workgroups(workgroups, 1, 1);
}

/// A use of a resource that needs no rendering.
enum Use {
    Buffer(
        &'static str,
        B,
        fn(&Gpu, &mut wgpu::CommandEncoder, &wgpu::Buffer),
    ),
    Texture(
        &'static str,
        T,
        fn(&Gpu, &mut wgpu::CommandEncoder, &wgpu::Texture),
    ),
}

fn dispatch_with(
    gpu: &Gpu,
    encoder: &mut wgpu::CommandEncoder,
    wgsl: &str,
    resources: &[wgpu::BindingResource<'_>],
) {
    let pipeline = gpu.pipeline(wgsl);
    let group = gpu.group(&pipeline, resources);
    dispatch(encoder, &pipeline, &group, 1);
}

const USES: &[Use] = &[
    Use::Buffer("copy source", B::COPY_SRC, |gpu, encoder, buffer| {
        let other = gpu.buffer("other", 256, B::COPY_DST);
        encoder.copy_buffer_to_buffer(buffer, 0, &other, 0, 256);
    }),
    Use::Buffer("copy target", B::COPY_DST, |gpu, encoder, buffer| {
        let other = gpu.buffer("other", 256, B::COPY_SRC);
        encoder.copy_buffer_to_buffer(&other, 0, buffer, 0, 256);
    }),
    Use::Buffer("cleared", B::COPY_DST, |_, encoder, buffer| {
        encoder.clear_buffer(buffer, 0, None);
    }),
    Use::Buffer(
        "texture copy source",
        B::COPY_SRC,
        |gpu, encoder, buffer| {
            let other = gpu.texture("other", (4, 1), wgpu::TextureFormat::R32Uint, T::COPY_DST);
            encoder.copy_buffer_to_texture(
                wgpu::TexelCopyBufferInfo {
                    buffer,
                    layout: layout(0, 256, 1),
                },
                other.as_image_copy(),
                extent(4, 1, 1),
            );
        },
    ),
    Use::Buffer(
        "texture copy target",
        B::COPY_DST,
        |gpu, encoder, buffer| {
            let other = gpu.texture("other", (4, 1), wgpu::TextureFormat::R32Uint, T::COPY_SRC);
            encoder.copy_texture_to_buffer(
                other.as_image_copy(),
                wgpu::TexelCopyBufferInfo {
                    buffer,
                    layout: layout(0, 256, 1),
                },
                extent(4, 1, 1),
            );
        },
    ),
    Use::Buffer("storage binding", B::STORAGE, |gpu, encoder, buffer| {
        dispatch_with(gpu, encoder, BUMP, &[buffer.as_entire_binding()]);
    }),
    Use::Buffer("uniform binding", B::UNIFORM, |gpu, encoder, buffer| {
        let output = gpu.buffer("other", 256, B::STORAGE);
        dispatch_with(
            gpu,
            encoder,
            "@group(0) @binding(0) var<uniform> input: vec4<u32>;
            @group(0) @binding(1) var<storage, read_write> output: array<u32>;
            @compute @workgroup_size(1) fn main() { output[0] = input.x; }",
            &[buffer.as_entire_binding(), output.as_entire_binding()],
        );
    }),
    Use::Buffer("indirect", B::INDIRECT, |gpu, encoder, buffer| {
        let data = gpu.buffer("other", 256, B::STORAGE);
        let pipeline = gpu.pipeline(BUMP);
        let group = gpu.group(&pipeline, &[data.as_entire_binding()]);
        let mut pass = encoder.begin_compute_pass(&Default::default());
        pass.set_pipeline(&pipeline);
        pass.set_bind_group(0, &group, &[]);
        pass.dispatch_workgroups_indirect(buffer, 0);
    }),
    Use::Texture("copy source", T::COPY_SRC, |gpu, encoder, texture| {
        let other = gpu.texture("other", (4, 4), wgpu::TextureFormat::R32Uint, T::COPY_DST);
        encoder.copy_texture_to_texture(
            texture.as_image_copy(),
            other.as_image_copy(),
            extent(4, 4, 1),
        );
    }),
    Use::Texture("copy target", T::COPY_DST, |gpu, encoder, texture| {
        let other = gpu.texture("other", (4, 4), wgpu::TextureFormat::R32Uint, T::COPY_SRC);
        encoder.copy_texture_to_texture(
            other.as_image_copy(),
            texture.as_image_copy(),
            extent(4, 4, 1),
        );
    }),
    Use::Texture(
        "storage binding",
        T::STORAGE_BINDING,
        |gpu, encoder, texture| {
            dispatch_with(
                gpu,
                encoder,
                "@group(0) @binding(0) var target_: texture_storage_2d<r32uint, write>;
            @compute @workgroup_size(1) fn main() { textureStore(target_, vec2(0, 0), vec4(1u)); }",
                &[wgpu::BindingResource::TextureView(&gpu.view(texture))],
            );
        },
    ),
    Use::Texture(
        "texture binding",
        T::TEXTURE_BINDING,
        |gpu, encoder, texture| {
            let output = gpu.buffer("other", 256, B::STORAGE);
            dispatch_with(
            gpu,
            encoder,
            "@group(0) @binding(0) var input: texture_2d<u32>;
            @group(0) @binding(1) var<storage, read_write> output: array<u32>;
            @compute @workgroup_size(1) fn main() { output[0] = textureLoad(input, vec2(0, 0), 0).x; }",
            &[
                wgpu::BindingResource::TextureView(&gpu.view(texture)),
                output.as_entire_binding(),
            ],
        );
        },
    ),
];

const LABEL: &str = "the culprit";

enum Resource {
    Buffer(wgpu::Buffer),
    Texture(wgpu::Texture),
}

impl Use {
    fn name(&self) -> String {
        match self {
            Self::Buffer(name, ..) => format!("buffer as {name}"),
            Self::Texture(name, ..) => format!("texture as {name}"),
        }
    }

    fn make(&self, gpu: &Gpu) -> Resource {
        match self {
            Self::Buffer(_, usage, _) => Resource::Buffer(gpu.buffer(LABEL, 256, *usage)),
            Self::Texture(_, usage, _) => {
                Resource::Texture(gpu.texture(LABEL, (4, 4), wgpu::TextureFormat::R32Uint, *usage))
            }
        }
    }

    fn record(&self, gpu: &Gpu, encoder: &mut wgpu::CommandEncoder, resource: &Resource) {
        match (self, resource) {
            (Self::Buffer(_, _, record), Resource::Buffer(buffer)) => record(gpu, encoder, buffer),
            (Self::Texture(_, _, record), Resource::Texture(texture)) => {
                record(gpu, encoder, texture);
            }
            _ => unreachable!("a use makes its own kind of resource"),
        }
    }
}

impl Resource {
    fn destroy(&self) {
        match self {
            Self::Buffer(buffer) => buffer.destroy(),
            Self::Texture(texture) => texture.destroy(),
        }
    }
}

#[test]
fn scenario_01_destroyed_before_it_is_submitted() {
    test(|gpu| {
        let marker = gpu.buffer("marker", 4, B::all_copies());
        let one = gpu.filled("one", B::COPY_SRC, &1u32.to_ne_bytes());
        gpu.warm_up();
        for usage in USES {
            for when in ["record", "finish", "submit"] {
                let what = format!("{}, destroyed before {when}", usage.name());
                if when == "record" && core() == Core::Wgpu && usage.name().ends_with("binding") {
                    skip("wgpu-core refuses to make a bind group of a destroyed resource");
                    continue;
                }
                let before = gpu.settled_counts();
                let resource = usage.make(gpu);
                let commands = gpu.valid(&what, || {
                    let mut encoder = gpu.encoder();
                    if when == "record" {
                        resource.destroy();
                    }
                    encoder.copy_buffer_to_buffer(&one, 0, &marker, 0, 4);
                    usage.record(gpu, &mut encoder, &resource);
                    if when == "finish" {
                        resource.destroy();
                    }
                    let commands = encoder.finish();
                    if when == "submit" {
                        resource.destroy();
                    }
                    commands
                });
                gpu.queue.submit([commands]);
                let errors = gpu.take_uncaptured();
                assert_eq!(errors.len(), 1, "{what}: {errors:?}");
                assert!(errors[0].contains(LABEL), "{what}: {}", errors[0]);
                gpu.rest();
                drop(resource);
                assert_eq!(gpu.settled_counts(), before, "{what}: all is back");
                assert_eq!(gpu.read_words(&marker), [0], "{what}: nothing ran");
            }
        }
    });
}

#[test]
fn scenario_02_ended_behind_slow_work() {
    test(|gpu| {
        gpu.warm_up();
        let base = gpu.settled_counts();
        let size = 1 << 20;
        let old = pattern(size, 1);
        let new: Vec<_> = (0..8).map(|seed| pattern(size, 100 + seed)).collect();
        let results: Vec<_> = (0..3)
            .map(|_| gpu.buffer("result", size as u64, B::all_copies()))
            .collect();
        let held = gpu.settled_counts();

        let destroyed = gpu.filled("destroyed", B::COPY_SRC, &old);
        let dropped = gpu.filled("dropped", B::COPY_SRC, &old);
        let texture = gpu.texture(
            "destroyed texture",
            (512, 512),
            wgpu::TextureFormat::R32Uint,
            T::all_copies(),
        );
        gpu.queue.write_texture(
            texture.as_image_copy(),
            &old,
            layout(0, 2048, 512),
            extent(512, 512, 1),
        );
        let commands = gpu.commands(|encoder| {
            encoder.copy_buffer_to_buffer(&destroyed, 0, &results[0], 0, None);
            encoder.copy_buffer_to_buffer(&dropped, 0, &results[1], 0, None);
            encoder.copy_texture_to_buffer(
                texture.as_image_copy(),
                wgpu::TexelCopyBufferInfo {
                    buffer: &results[2],
                    layout: layout(0, 2048, 512),
                },
                extent(512, 512, 1),
            );
        });
        let slow = gpu.submit_in_flight([commands]);
        destroyed.destroy();
        texture.destroy();
        drop(dropped);
        // Were any of it free now, these would lie where it was.
        let fillers: Vec<_> = new
            .iter()
            .map(|bytes| gpu.filled("filler", B::COPY_SRC, bytes))
            .collect();
        gpu.assert_in_flight();
        drop(fillers);
        assert_eq!(gpu.counts_after(&slow), held, "back right after the fence");
        for result in &results {
            assert!(gpu.read(result) == old, "the GPU saw the old contents");
        }
        drop((results, destroyed, texture));
        assert_eq!(gpu.settled_counts(), base);
    });
}

#[test]
fn scenario_03_fresh_resources_per_frame() {
    if ours_alone("nothing is freed without a poll") {
        return;
    }
    test(|gpu| {
        gpu.warm_up();
        let pipeline = gpu.pipeline(BUMP);
        let base = gpu.counts();
        let frame = |number: u32| {
            let data = gpu.buffer("frame data", 64 << 10, B::STORAGE | B::COPY_DST);
            let target = gpu.texture(
                "frame target",
                (64, 64),
                wgpu::TextureFormat::Rgba8Unorm,
                T::all_copies() | T::TEXTURE_BINDING,
            );
            let group = gpu.group(&pipeline, &[data.as_entire_binding()]);
            gpu.queue.write_buffer(&data, 0, &pattern(1024, number));
            gpu.run(|encoder| {
                dispatch(encoder, &pipeline, &group, 1);
                encoder.clear_texture(&target, &Default::default());
            });
        };
        let mut most = base;
        for number in 0..3000 {
            frame(number);
            let now = gpu.counts();
            most.buffer_memory = most.buffer_memory.max(now.buffer_memory);
            most.texture_memory = most.texture_memory.max(now.texture_memory);
            most.bind_groups = most.bind_groups.max(now.bind_groups);
        }
        // Frames queue up behind the GPU; without reclaiming there would be 3000 of them.
        assert!(
            most.bind_groups - base.bind_groups <= 300,
            "{} frames at once",
            most.bind_groups - base.bind_groups
        );
        std::thread::sleep(AT_THE_FENCE * 2);
        assert_eq!(gpu.counts(), base, "the last frame comes back by itself");
    });
}

#[test]
fn scenario_04_create_and_destroy_without_submit() {
    test(|gpu| {
        gpu.warm_up();
        let base = gpu.counts();
        let mut handles = Vec::new();
        let mut one = 0;
        for number in 0..20_000 {
            let buffer = gpu.buffer("short-lived", 200_000, B::STORAGE);
            if number == 0 {
                one = gpu.counts().buffer_memory - base.buffer_memory;
                assert!(one >= 200_000);
            } else if number % 500 == 0 {
                let now = gpu.counts();
                assert!(now.buffers - base.buffers <= 1, "{number}: {now:?}");
                assert!(now.buffer_memory - base.buffer_memory <= one);
            }
            buffer.destroy();
            handles.push(buffer);
        }
        assert_eq!(gpu.counts(), base);
        drop(handles);
        assert_eq!(gpu.counts(), base);
    });
}

#[test]
fn scenario_05_dropped_while_mapped_at_creation() {
    if ours_alone("buffers dropped while mapped stay until a submit") {
        return;
    }
    test(|gpu| {
        gpu.warm_up();
        let base = gpu.counts();
        for (destroy, usage) in [
            (false, B::COPY_SRC | B::MAP_WRITE),
            (false, B::STORAGE),
            (true, B::COPY_SRC | B::MAP_WRITE),
            (true, B::STORAGE),
        ] {
            for _ in 0..2500 {
                let buffer = gpu.device.create_buffer(&wgpu::BufferDescriptor {
                    label: Some("mapped"),
                    size: 64 << 10,
                    usage,
                    mapped_at_creation: true,
                });
                buffer
                    .get_mapped_range_mut(..16)
                    .expect("mapped at creation")
                    .copy_from_slice(&[7; 16]);
                if destroy {
                    buffer.destroy();
                }
            }
            assert_eq!(gpu.counts(), base, "destroyed {destroy}, {usage:?}");
        }
    });
}

#[test]
fn scenario_06_target_ends_before_its_write_is_submitted() {
    if ours_alone("the write keeps its target and staging until a submit and a poll") {
        return;
    }
    test(|gpu| {
        gpu.warm_up();
        let base = gpu.counts();
        let data = pattern(64 << 10, 3);
        for destroy in [false, true] {
            gpu.valid(destroy, || {
                for _ in 0..10 {
                    let buffer = gpu.buffer("target", 64 << 10, B::COPY_DST);
                    let texture = gpu.texture(
                        "target",
                        (128, 128),
                        wgpu::TextureFormat::R32Uint,
                        T::COPY_DST,
                    );
                    gpu.queue.write_buffer(&buffer, 0, &data);
                    gpu.queue.write_texture(
                        texture.as_image_copy(),
                        &data,
                        layout(0, 512, 128),
                        extent(128, 128, 1),
                    );
                    if destroy {
                        buffer.destroy();
                        texture.destroy();
                    }
                }
            });
            assert_eq!(gpu.counts(), base, "destroyed: {destroy}");
        }
        gpu.valid("later submits", || gpu.queue.submit([]));
        gpu.quiesce();
        assert_eq!(gpu.counts(), base);
    });
}

#[test]
fn scenario_07_many_writes_without_submit() {
    if ours_alone("staging grows without bound until a submit") {
        return;
    }
    test(|gpu| {
        gpu.warm_up();
        let size = 1 << 20;
        let buffer = gpu.buffer("target", size as u64, B::all_copies());
        let copy = gpu.buffer("copy", size as u64, B::all_copies());
        let base = gpu.counts();
        let mut most = 0;
        let mut data = vec![1; size];
        for number in 0..600u32 {
            data[..4].copy_from_slice(&number.to_ne_bytes());
            data[size - 4..].copy_from_slice(&number.to_ne_bytes());
            gpu.queue.write_buffer(&buffer, 0, &data);
            if number == 299 {
                // Order with submits is kept: this one sees write 299.
                gpu.run(|encoder| encoder.copy_buffer_to_buffer(&buffer, 0, &copy, 0, None));
            }
            most = most.max(gpu.counts().buffer_memory - base.buffer_memory);
        }
        assert!(most <= 256 << 20, "{} MiB of staging", most >> 20);
        let ends = |buffer| {
            let words = gpu.read_words(buffer);
            (words[0], words[size / 4 - 1])
        };
        assert_eq!(ends(&copy), (299, 299), "order with submits");
        assert_eq!(ends(&buffer), (599, 599), "the last one wins");
        std::thread::sleep(AT_THE_FENCE);
        assert_eq!(gpu.counts(), base);
    });
}

#[test]
fn scenario_08_ten_command_buffers_one_destroyed_resource() {
    test(|gpu| {
        gpu.warm_up();
        let one = gpu.filled("one", B::COPY_SRC, &1u32.to_ne_bytes());
        let marks = gpu.filled("marks", B::all_copies(), &[0; 40]);
        gpu.quiesce();
        let base = gpu.settled_counts();
        let culprit = gpu.buffer(LABEL, 4, B::COPY_SRC);
        let mut commands: Vec<_> = (0..10)
            .map(|number| {
                let held = gpu.buffer("held", 1 << 16, B::COPY_DST);
                gpu.commands(|encoder| {
                    encoder.clear_buffer(&held, 0, None);
                    let source = if number == 6 { &culprit } else { &one };
                    encoder.copy_buffer_to_buffer(source, 0, &marks, number * 4, 4);
                })
            })
            .collect();
        assert_eq!(gpu.settled_counts().buffers, base.buffers + 11);
        culprit.destroy();
        let error = gpu.invalid("ten with a destroyed one", || {
            gpu.queue.submit(commands.drain(..))
        });
        assert!(error.contains(LABEL), "{error}");
        assert_eq!(gpu.settled_counts(), base, "what they held is released");
        gpu.rest();
        assert_eq!(gpu.read_words(&marks), [0; 10], "none of the ten runs");
        gpu.valid("the next submit", || {
            gpu.run(|encoder| encoder.copy_buffer_to_buffer(&one, 0, &marks, 0, 4))
        });
        assert_eq!(gpu.read_words(&marks)[0], 1);
    });
}

#[test]
fn scenario_09_every_submit_of_a_destroyed_resource_fails() {
    test(|gpu| {
        let target = gpu.buffer("target", 4, B::all_copies());
        let culprit = gpu.filled(LABEL, B::COPY_SRC, &1u32.to_ne_bytes());
        let commands: Vec<_> = (0..5)
            .map(|_| {
                gpu.commands(|encoder| {
                    encoder.copy_buffer_to_buffer(&culprit, 0, &target, 0, 4);
                })
            })
            .collect();
        culprit.destroy();
        for (number, commands) in commands.into_iter().enumerate() {
            let error = gpu.invalid(number, || gpu.queue.submit([commands]));
            assert!(error.contains(LABEL), "{error}");
        }
        assert_eq!(gpu.read_words(&target), [0]);
    });
}

#[test]
fn scenario_10_tombstones_hold_no_memory() {
    if ours_alone("views and bind groups of destroyed textures stay until they are dropped") {
        return;
    }
    test(|gpu| {
        gpu.warm_up();
        let pipeline = gpu.pipeline(
            "@group(0) @binding(0) var target_: texture_storage_2d<rgba8unorm, write>;
            @compute @workgroup_size(1) fn main() { textureStore(target_, vec2(0, 0), vec4(1.0)); }",
        );
        let base = gpu.counts();
        let mut kept: Vec<(wgpu::Texture, wgpu::TextureView, wgpu::BindGroup)> = Vec::new();
        for frame in 0..500 {
            let texture = gpu.texture(
                "target",
                (256, 256),
                wgpu::TextureFormat::Rgba8Unorm,
                T::STORAGE_BINDING,
            );
            let view = gpu.view(&texture);
            let group = gpu.group(&pipeline, &[wgpu::BindingResource::TextureView(&view)]);
            gpu.run(|encoder| dispatch(encoder, &pipeline, &group, 1));
            if let Some((texture, ..)) = kept.last() {
                texture.destroy();
            }
            kept.push((texture, view, group));
            if frame % 50 == 49 {
                gpu.rest();
                let now = gpu.counts();
                assert_eq!(now.texture_views, base.texture_views + 1, "frame {frame}");
                assert_eq!(now.bind_groups, base.bind_groups + 1, "frame {frame}");
            }
        }
        kept.last().unwrap().0.destroy();
        std::thread::sleep(AT_THE_FENCE);
        assert_eq!(gpu.counts(), base, "500 tombstones");
        drop(kept);
        assert_eq!(gpu.counts(), base);
    });
}

#[test]
fn scenario_11_views_and_groups_on_long_lived_parents() {
    if ours_alone("long-lived parents remember their dead children until a poll") {
        return;
    }
    // Without the validation layer, which keeps memory of its own about every object.
    test_bare(|| {
        let Some((device, _queue)) = plain_device() else {
            return;
        };
        let texture = device.create_texture(&wgpu::TextureDescriptor {
            label: None,
            size: extent(4, 4, 1),
            mip_level_count: 1,
            sample_count: 1,
            dimension: wgpu::TextureDimension::D2,
            format: wgpu::TextureFormat::R32Uint,
            usage: T::TEXTURE_BINDING,
            view_formats: &[],
        });
        let buffer = device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: 256,
            usage: B::STORAGE,
            mapped_at_creation: false,
        });
        let layout = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
            label: None,
            entries: &[wgpu::BindGroupLayoutEntry {
                binding: 0,
                visibility: wgpu::ShaderStages::COMPUTE,
                ty: wgpu::BindingType::Buffer {
                    ty: wgpu::BufferBindingType::Storage { read_only: false },
                    has_dynamic_offset: false,
                    min_binding_size: None,
                },
                count: None,
            }],
        });
        let hal = || {
            let hal = device.get_internal_counters().hal;
            (hal.texture_views.read(), hal.bind_groups.read())
        };
        let base = hal();
        let round = || {
            for _ in 0..10_000 {
                drop(texture.create_view(&Default::default()));
                drop(device.create_bind_group(&wgpu::BindGroupDescriptor {
                    label: None,
                    layout: &layout,
                    entries: &[wgpu::BindGroupEntry {
                        binding: 0,
                        resource: buffer.as_entire_binding(),
                    }],
                }));
            }
        };
        round();
        let before = resident_memory();
        round();
        round();
        assert_eq!(hal(), base);
        if let (Some(before), Some(after)) = (before, resident_memory()) {
            // 20,000 of each, at 16 bytes left behind by each, would be 640 KB.
            assert!(
                after < before + (512 << 10),
                "resident memory grew by {} KiB",
                (after - before) >> 10
            );
        }
    });
}

/// A device without the validation layer.
fn plain_device() -> Option<(wgpu::Device, wgpu::Queue)> {
    let instance = instance(wgpu::InstanceDescriptor {
        flags: wgpu::InstanceFlags::empty(),
        ..descriptor(wgpu::Backends::VULKAN)
    });
    match pollster::block_on(instance.request_adapter(&Default::default())) {
        Ok(adapter) => {
            Some(pollster::block_on(adapter.request_device(&Default::default())).unwrap())
        }
        Err(why) => {
            skip(&why.to_string());
            None
        }
    }
}

#[test]
fn scenario_12_device_dropped_before_its_buffers() {
    test_bare(|| {
        let adapter = match adapter() {
            Ok(adapter) => adapter,
            Err(why) => return skip(&why),
        };
        let round = || {
            let (device, queue) =
                pollster::block_on(adapter.request_device(&Default::default())).unwrap();
            let buffers: Vec<_> = (0..16)
                .map(|_| {
                    let buffer = device.create_buffer(&wgpu::BufferDescriptor {
                        label: Some("outlives its device"),
                        size: 1 << 20,
                        usage: B::COPY_DST,
                        mapped_at_creation: false,
                    });
                    queue.write_buffer(&buffer, 0, &vec![7; 1 << 20]);
                    buffer
                })
                .collect();
            queue.submit([]);
            drop(device);
            drop(queue);
            drop(buffers);
        };
        round();
        round();
        let before = resident_memory();
        for _ in 0..20 {
            round();
        }
        if let (Some(before), Some(after)) = (before, resident_memory()) {
            assert!(
                after < before + (16 << 20),
                "resident memory grew by {} KiB; one round is 32 MiB",
                (after - before) >> 10
            );
        }
    });
}

#[test]
fn scenario_13_last_handles_dropped_while_others_submit() {
    test_bare(|| {
        let adapter = match adapter() {
            Ok(adapter) => adapter,
            Err(why) => return skip(&why),
        };
        for _ in 0..10 {
            let (device, queue) =
                pollster::block_on(adapter.request_device(&Default::default())).unwrap();
            let start = Barrier::new(5);
            std::thread::scope(|scope| {
                for thread in 0..4u8 {
                    let (device, queue) = (device.clone(), queue.clone());
                    let start = &start;
                    scope.spawn(move || {
                        start.wait();
                        for number in 0..25u8 {
                            let buffer = device.create_buffer(&wgpu::BufferDescriptor {
                                label: None,
                                size: 4096,
                                usage: B::COPY_DST,
                                mapped_at_creation: false,
                            });
                            queue.write_buffer(&buffer, 0, &[thread ^ number; 64]);
                            let mut encoder = device.create_command_encoder(&Default::default());
                            encoder.clear_buffer(&buffer, 64, None);
                            queue.submit([encoder.finish()]);
                        }
                    });
                }
                start.wait();
                drop(device);
                drop(queue);
            });
        }
    });
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Unmap,
    Destroy,
    Drop,
    DestroyDevice,
}

#[test]
fn scenario_14_pending_map_is_ended() {
    for end in [End::Unmap, End::Destroy, End::Drop, End::DestroyDevice] {
        // wgpu keeps a dropped buffer until its map has resolved: it may then succeed.
        test(|gpu| {
            gpu.warm_up();
            let base = gpu.settled_counts();
            let buffer = gpu.buffer("mapped", 1 << 16, B::MAP_READ | B::COPY_DST);
            let commands = gpu.commands(|encoder| encoder.clear_buffer(&buffer, 0, None));
            let slow = gpu.submit_in_flight([commands]);
            let outcome = Outcome::default();
            buffer.map_async(wgpu::MapMode::Read, .., outcome.callback());
            assert_eq!(outcome.get(), [], "{end:?}: pending");
            let kept = buffer.clone();
            match end {
                End::Unmap => buffer.unmap(),
                End::Destroy => buffer.destroy(),
                End::Drop => {}
                End::DestroyDevice => gpu.device.destroy(),
            }
            drop(buffer);
            if end == End::Drop {
                drop(kept);
                let _ = gpu.device.poll(wgpu::PollType::wait_indefinitely());
                assert_eq!(outcome.get().len(), 1, "{end:?}: once");
                gpu.quiesce();
                assert_eq!(gpu.settled_counts(), base, "{end:?}");
                return;
            }
            let _ = gpu.device.poll(wgpu::PollType::wait_indefinitely());
            if end == End::DestroyDevice && core() == Core::Wgpu {
                skip("wgpu-core lets a map succeed after its device was destroyed");
                assert_eq!(outcome.get().len(), 1, "{end:?}: once");
            } else {
                assert_eq!(outcome.get(), [Err(())], "{end:?}: once, aborted");
            }
            let after = gpu.counts_after(&slow);
            if end == End::Unmap {
                gpu.map(&kept, wgpu::MapMode::Read, 0..1 << 16);
                kept.unmap();
            } else {
                // A destroyed device gives all of its memory back.
                let all = end == End::DestroyDevice;
                assert!(all || after.buffers == base.buffers, "{end:?}: {after:?}");
                assert!(after.buffers <= base.buffers, "{end:?}: {after:?}");
                let again = Outcome::default();
                let _ = gpu.error_of(|| {
                    kept.unmap();
                    kept.map_async(wgpu::MapMode::Read, .., again.callback());
                });
                let _ = gpu.device.poll(wgpu::PollType::Poll);
                assert_eq!(again.get(), [Err(())], "{end:?}: later use is an error");
                assert!(kept.get_mapped_range(..).is_err(), "{end:?}");
            }
            // A lost device reports nothing more; what the other ends reported was asserted.
            drop(gpu.take_uncaptured());
        });
    }
}

#[test]
fn scenario_15_a_held_view_keeps_its_bytes() {
    if ours_alone("a held view shows whatever its memory holds next") {
        return;
    }
    test(|gpu| {
        gpu.warm_up();
        let base = gpu.counts();
        let size = 1 << 20;
        let old = pattern(size, 5);
        for (usage, at_creation) in [
            (B::MAP_READ | B::COPY_DST, false),
            (B::MAP_WRITE | B::COPY_SRC, false),
            (B::MAP_WRITE | B::COPY_SRC, true),
            (B::STORAGE, true),
        ] {
            let buffer = gpu.device.create_buffer(&wgpu::BufferDescriptor {
                label: Some("viewed"),
                size: size as u64,
                usage,
                mapped_at_creation: at_creation,
            });
            if usage.contains(B::COPY_DST) {
                gpu.queue.write_buffer(&buffer, 0, &old);
            }
            if !at_creation {
                let mode = if usage.contains(B::MAP_READ) {
                    wgpu::MapMode::Read
                } else {
                    wgpu::MapMode::Write
                };
                gpu.map(&buffer, mode, 0..size as u64);
            }
            if !usage.contains(B::COPY_DST) {
                buffer
                    .get_mapped_range_mut(..)
                    .unwrap()
                    .copy_from_slice(&old);
            }
            let view = buffer.get_mapped_range(..).unwrap();
            assert!(*view == old[..]);
            buffer.destroy();
            let fillers: Vec<_> = (0..16)
                .map(|seed| gpu.filled("filler", usage, &pattern(size, 50 + seed)))
                .collect();
            let readback = gpu.filled("filler", B::COPY_SRC, &pattern(size, 99));
            assert!(gpu.read(&readback) == pattern(size, 99));
            assert!(*view == old[..], "{usage:?}: the old bytes");
            drop((fillers, readback));
            drop(view);
            std::thread::sleep(AT_THE_FENCE);
            assert_eq!(gpu.counts(), base, "{usage:?}: memory goes with the view");
            drop(buffer);
            assert_eq!(gpu.counts(), base);
        }
    });
}

/// The same with the device destroyed, and with every other handle gone.
#[test]
fn scenario_15_a_held_view_outlives_its_device() {
    if ours_alone("a held view shows whatever its memory holds next") {
        return;
    }
    test(|gpu| {
        let old = pattern(1 << 16, 6);
        let (device, _queue) =
            pollster::block_on(gpu.adapter.request_device(&Default::default())).unwrap();
        let buffer = device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("viewed"),
            size: 1 << 16,
            usage: B::MAP_WRITE | B::COPY_SRC,
            mapped_at_creation: true,
        });
        buffer
            .get_mapped_range_mut(..)
            .unwrap()
            .copy_from_slice(&old);
        let view = buffer.get_mapped_range(..).unwrap();
        device.destroy();
        buffer.destroy();
        drop((device, buffer));
        let fillers: Vec<_> = (0..16)
            .map(|seed| gpu.filled("filler", B::COPY_SRC, &pattern(1 << 16, 50 + seed)))
            .collect();
        assert!(*view == old[..], "the old bytes");
        drop(fillers);
        drop(view);
    });
}

#[test]
fn scenario_16_device_destroyed_in_flight() {
    test(|gpu| {
        gpu.warm_up();
        let base = gpu.settled_counts();
        let lost: Arc<Mutex<Vec<wgpu::DeviceLostReason>>> = Arc::default();
        let sink = lost.clone();
        gpu.device
            .set_device_lost_callback(move |reason, _| sink.lock().push(reason));
        let buffer = gpu.buffer("in use", 1 << 20, B::COPY_DST);
        let unused = gpu.buffer("not in use", 1 << 20, B::COPY_DST);
        let commands = gpu.commands(|encoder| encoder.clear_buffer(&buffer, 0, None));
        let slow = gpu.submit_in_flight([commands]);
        gpu.device.destroy();
        let after = gpu.counts_after(&slow);
        assert!(
            after.buffers <= base.buffers,
            "memory comes back at the fence"
        );
        assert!(after.buffer_memory <= base.buffer_memory);
        let _ = gpu.device.poll(wgpu::PollType::wait_indefinitely());
        let _ = gpu.device.poll(wgpu::PollType::Poll);
        assert_eq!(*lost.lock(), [wgpu::DeviceLostReason::Destroyed], "once");
        drop((buffer, unused));
        drop(gpu.take_uncaptured());
    });
}

fn timestamp_pass(encoder: &mut wgpu::CommandEncoder, set: &wgpu::QuerySet) {
    drop(encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
        label: None,
        timestamp_writes: Some(wgpu::ComputePassTimestampWrites {
            query_set: set,
            beginning_of_pass_write_index: Some(0),
            end_of_pass_write_index: Some(1),
        }),
    }));
}

#[test]
fn scenario_17_query_set_destroyed() {
    test_with(wgpu::Features::TIMESTAMP_QUERY, |gpu| {
        gpu.warm_up();
        let base = gpu.settled_counts();
        let make = || {
            gpu.device.create_query_set(&wgpu::QuerySetDescriptor {
                label: Some(LABEL),
                ty: wgpu::QueryType::Timestamp,
                count: 2,
            })
        };
        // Destroyed before submit.
        let set = make();
        let commands = gpu.commands(|encoder| timestamp_pass(encoder, &set));
        set.destroy();
        assert_eq!(gpu.settled_counts(), base, "freed at once");
        let error = gpu.invalid("destroyed before submit", || gpu.queue.submit([commands]));
        assert!(error.contains(LABEL), "{error}");
        // A resolve names it as well.
        let set = make();
        let target = gpu.buffer("target", 16, B::QUERY_RESOLVE);
        let commands = gpu.commands(|encoder| {
            timestamp_pass(encoder, &set);
            encoder.resolve_query_set(&set, 0..2, &target, 0);
        });
        set.destroy();
        let error = gpu.invalid("resolve of a destroyed one", || {
            gpu.queue.submit([commands])
        });
        assert!(error.contains(LABEL), "{error}");
        drop((set, target));
        // Destroyed in flight.
        let set = make();
        let commands = gpu.commands(|encoder| timestamp_pass(encoder, &set));
        let slow = gpu.submit_in_flight([commands]);
        gpu.valid("in flight", || set.destroy());
        assert_eq!(gpu.settled_counts().query_sets, base.query_sets + 1);
        gpu.assert_in_flight();
        assert_eq!(gpu.counts_after(&slow), base, "freed at the fence");
    });
}

/// Destroying works, and works the same, whatever is in flight. (What it costs is a benchmark's.)
#[test]
fn scenario_18_destroy_with_many_submissions_in_flight() {
    test(|gpu| {
        gpu.warm_up();
        let base = gpu.settled_counts();
        let used = gpu.buffer("used", 1 << 16, B::COPY_DST);
        let unused = gpu.buffer("unused", 1 << 16, B::COPY_DST);
        gpu.submit_in_flight([]);
        // Where submit blocks behind running work this leaves fewer in flight; fine here.
        for _ in 0..300 {
            gpu.run(|encoder| encoder.clear_buffer(&used, 0, None));
        }
        let commands = gpu.commands(|encoder| encoder.clear_buffer(&used, 0, None));
        let slow = gpu.submit_in_flight([commands]);
        let before = gpu.settled_counts();
        gpu.valid("destroy", || {
            unused.destroy();
            used.destroy();
        });
        let after = gpu.settled_counts();
        gpu.assert_in_flight();
        assert_eq!(after.buffers, before.buffers - 1, "the unused one at once");
        assert_eq!(gpu.counts_after(&slow), base, "the used one at the fence");
    });
}

#[test]
fn scenario_19_made_of_a_destroyed_resource() {
    if ours_alone("making a bind group of a destroyed resource is refused at once") {
        return;
    }
    test(|gpu| {
        gpu.warm_up();
        let base = gpu.counts();
        let pipeline = gpu.pipeline(
            "@group(0) @binding(0) var input: texture_2d<u32>;
            @group(0) @binding(1) var<storage, read_write> output: array<u32>;
            @compute @workgroup_size(1) fn main() { output[0] = 1u + textureLoad(input, vec2(0, 0), 0).x; }",
        );
        let own = gpu.counts();
        let format = wgpu::TextureFormat::R32Uint;
        for culprit_is_texture in [true, false] {
            let texture = gpu.texture(
                if culprit_is_texture { LABEL } else { "fine" },
                (4, 4),
                format,
                T::TEXTURE_BINDING,
            );
            let buffer = gpu.buffer(
                if culprit_is_texture { "fine" } else { LABEL },
                256,
                B::STORAGE,
            );
            let commands = gpu.valid("until the submit", || {
                if culprit_is_texture {
                    texture.destroy();
                } else {
                    buffer.destroy();
                }
                let view = gpu.view(&texture);
                let group = gpu.group(
                    &pipeline,
                    &[
                        wgpu::BindingResource::TextureView(&view),
                        buffer.as_entire_binding(),
                    ],
                );
                gpu.commands(|encoder| dispatch(encoder, &pipeline, &group, 1))
            });
            let error = gpu.invalid("the submit", || gpu.queue.submit([commands]));
            assert!(error.contains(LABEL), "{error}");
            drop((texture, buffer));
            assert_eq!(gpu.counts(), own);
        }
        drop(pipeline);
        let _ = base;
    });
}

#[test]
fn scenario_20_five_thousand_encoders() {
    test(|gpu| {
        gpu.warm_up();
        let count = 5000u64;
        let one = gpu.filled("one", B::COPY_SRC, &1u32.to_ne_bytes());
        let marks = gpu.buffer("marks", count * 4, B::all_copies());
        gpu.quiesce();
        let base = gpu.settled_counts();
        let make = || -> Vec<_> {
            (0..count)
                .map(|number| {
                    let mut encoder = gpu.encoder();
                    encoder.copy_buffer_to_buffer(&one, 0, &marks, number * 4, 4);
                    encoder
                })
                .collect()
        };
        let dropped = make();
        drop(dropped);
        let finished: Vec<_> = make().into_iter().map(|encoder| encoder.finish()).collect();
        drop(finished);
        assert_eq!(gpu.settled_counts(), base, "all forgotten, nothing left");
        let finished: Vec<_> = make().into_iter().map(|encoder| encoder.finish()).collect();
        gpu.valid("5000 in one submit", || gpu.queue.submit(finished));
        assert_eq!(gpu.read_words(&marks), vec![1; count as usize], "all run");
        gpu.quiesce();
        assert_eq!(gpu.settled_counts(), base);
    });
}

#[test]
fn scenario_21_refused_submit_followed_by_nothing() {
    test(|gpu| {
        gpu.warm_up();
        let base = gpu.settled_counts();
        let culprit = gpu.buffer(LABEL, 256, B::COPY_SRC);
        let named = gpu.buffer("named", 256, B::COPY_DST);
        let texture = gpu.texture(
            "named",
            (4, 4),
            wgpu::TextureFormat::R32Uint,
            T::all_copies(),
        );
        let commands = gpu.commands(|encoder| {
            encoder.copy_buffer_to_buffer(&culprit, 0, &named, 0, 256);
            encoder.clear_texture(&texture, &Default::default());
        });
        culprit.destroy();
        gpu.invalid("refused", || gpu.queue.submit([commands]));
        drop(named);
        texture.destroy();
        assert_eq!(gpu.settled_counts(), base, "freed at once");
        drop((culprit, texture));
        assert_eq!(gpu.settled_counts(), base);
    });
}

#[test]
fn scenario_22_destroy_races_submit() {
    test(|gpu| {
        gpu.warm_up();
        const ROUNDS: u32 = 20_000;
        let probe = gpu.buffer("probe", u64::from(ROUNDS) * 4, B::all_copies());
        let base = gpu.settled_counts();
        let (to_destroyer, destroyer_inbox) = std::sync::mpsc::sync_channel::<wgpu::Buffer>(1);
        let turn = AtomicU32::new(0);
        let stop = AtomicBool::new(false);
        let mut reported = vec![false; ROUNDS as usize];
        std::thread::scope(|scope| {
            let (turn, stop) = (&turn, &stop);
            scope.spawn(move || {
                for (round, buffer) in destroyer_inbox.into_iter().enumerate() {
                    let round = round as u32 + 1;
                    while turn.load(Ordering::Acquire) < round {
                        if stop.load(Ordering::Acquire) {
                            return;
                        }
                        std::hint::spin_loop();
                    }
                    // Vary the moment: sometimes before, sometimes within, sometimes after.
                    for _ in 0..(round * 37) % 400 {
                        std::hint::spin_loop();
                    }
                    buffer.destroy();
                }
            });
            for round in 0..ROUNDS {
                let buffer = gpu.device.create_buffer(&wgpu::BufferDescriptor {
                    label: Some(LABEL),
                    size: 4,
                    usage: B::COPY_SRC,
                    mapped_at_creation: true,
                });
                buffer
                    .get_mapped_range_mut(..)
                    .unwrap()
                    .copy_from_slice(&(round + 1).to_ne_bytes());
                buffer.unmap();
                let commands = gpu.commands(|encoder| {
                    encoder.copy_buffer_to_buffer(&buffer, 0, &probe, u64::from(round) * 4, 4);
                });
                to_destroyer.send(buffer).expect("the destroyer lives");
                turn.store(round + 1, Ordering::Release);
                let (_, error) = gpu.error_of(|| gpu.queue.submit([commands]));
                if let Some(error) = error {
                    assert!(error.contains(LABEL), "{error}");
                    reported[round as usize] = true;
                }
                if round % 64 == 0 {
                    gpu.wait();
                }
            }
            stop.store(true, Ordering::Release);
            drop(to_destroyer);
        });
        gpu.quiesce();
        assert_eq!(gpu.settled_counts(), base, "nothing leaked");
        let words = gpu.read_words(&probe);
        for (round, (word, reported)) in words.iter().zip(&reported).enumerate() {
            let right = if *reported { 0 } else { round as u32 + 1 };
            assert_eq!(*word, right, "round {round}, reported: {reported}");
        }
        let count = reported.iter().filter(|reported| **reported).count();
        eprintln!("destroy came first in {count} of {ROUNDS} rounds");
    });
}

#[test]
fn scenario_23_named_twice() {
    test(|gpu| {
        let pipeline = gpu.pipeline(
            "@group(0) @binding(0) var<storage, read_write> one: array<u32>;
            @group(0) @binding(1) var<storage, read_write> two: array<u32>;
            @compute @workgroup_size(1) fn main() { one[0] += 1u; two[0] += 1u; }",
        );
        let buffer = gpu.buffer("named twice", 512, B::STORAGE | B::all_copies());
        let half = |offset| {
            wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                buffer: &buffer,
                offset,
                size: wgpu::BufferSize::new(256),
            })
        };
        let group = gpu.group(&pipeline, &[half(0), half(256)]);
        let commands: Vec<_> = (0..5)
            .map(|_| {
                gpu.commands(|encoder| {
                    dispatch(encoder, &pipeline, &group, 1);
                    dispatch(encoder, &pipeline, &group, 1);
                })
            })
            .collect();
        gpu.valid("one submission, five command buffers", || {
            gpu.queue.submit(commands)
        });
        let words = gpu.read_words(&buffer);
        assert_eq!((words[0], words[64]), (10, 10));
    });
}

#[test]
fn scenario_25_recycled_memory_shows_zeros() {
    test(|gpu| {
        let size = 1 << 20;
        let pipeline = gpu.pipeline(COPY_WORDS);
        let dirty = || {
            let old = gpu.buffer("old", size, B::all_copies());
            gpu.queue.write_buffer(&old, 0, &vec![0xab; size as usize]);
            gpu.queue.submit([]);
            gpu.wait();
            old.destroy();
            let old = gpu.filled(
                "old",
                B::COPY_SRC | B::MAP_WRITE,
                &vec![0xcd; size as usize],
            );
            old.destroy();
            gpu.wait();
        };
        let all_zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
        for _ in 0..3 {
            dirty();
            let fresh = gpu.buffer("copied", size, B::all_copies());
            assert!(all_zero(&gpu.read(&fresh)), "copy");
            drop(fresh);

            dirty();
            let fresh = gpu.buffer("mapped", size, B::MAP_READ | B::COPY_DST);
            assert!(all_zero(&gpu.mapped_bytes(&fresh)), "map for reading");
            drop(fresh);

            dirty();
            let fresh = gpu.buffer("mapped", size, B::MAP_WRITE | B::COPY_SRC);
            gpu.map(&fresh, wgpu::MapMode::Write, 0..size);
            assert!(
                all_zero(&fresh.get_mapped_range(..).unwrap()),
                "map for writing"
            );
            fresh.unmap();
            drop(fresh);

            dirty();
            for usage in [B::MAP_WRITE | B::COPY_SRC, B::STORAGE] {
                let fresh = gpu.device.create_buffer(&wgpu::BufferDescriptor {
                    label: Some("at creation"),
                    size,
                    usage,
                    mapped_at_creation: true,
                });
                assert!(
                    all_zero(&fresh.get_mapped_range(..).unwrap()),
                    "at creation"
                );
            }

            dirty();
            let fresh = gpu.buffer("bound", size, B::STORAGE);
            let result = gpu.filled("result", B::STORAGE | B::COPY_SRC, &vec![1; size as usize]);
            let group = gpu.group(
                &pipeline,
                &[fresh.as_entire_binding(), result.as_entire_binding()],
            );
            gpu.run(|encoder| dispatch(encoder, &pipeline, &group, size as u32 / 256));
            assert!(all_zero(&gpu.read(&result)), "bind");
        }
    });
}

#[test]
fn scenario_26_callbacks_call_back() {
    test(|gpu| {
        let (device, queue) = (gpu.device.clone(), gpu.queue.clone());
        let order: Arc<Mutex<Vec<&'static str>>> = Arc::default();
        let note = |what: &'static str| {
            let order = order.clone();
            move || order.lock().push(what)
        };
        let mapped = gpu.buffer("mapped", 256, B::MAP_READ | B::COPY_DST);
        gpu.run(|encoder| encoder.clear_buffer(&mapped, 0, None));

        let busy = {
            let (device, queue, mapped) = (device.clone(), queue.clone(), mapped.clone());
            move || {
                let buffer = device.create_buffer(&wgpu::BufferDescriptor {
                    label: Some("made in a callback"),
                    size: 64,
                    usage: B::MAP_READ | B::COPY_DST,
                    mapped_at_creation: false,
                });
                queue.write_buffer(&buffer, 0, &[1; 4]);
                let mut encoder = device.create_command_encoder(&Default::default());
                encoder.clear_buffer(&buffer, 16, None);
                queue.submit([encoder.finish()]);
                buffer.map_async(wgpu::MapMode::Read, .., |_| {});
                let _ = device.poll(wgpu::PollType::Poll);
                let _ = device.poll(wgpu::PollType::wait_indefinitely());
                buffer.unmap();
                buffer.destroy();
                let _ = mapped.size();
            }
        };
        let (first, second) = (note("map"), note("done"));
        let (in_map, in_done) = (busy.clone(), busy.clone());
        mapped.map_async(wgpu::MapMode::Read, .., move |result| {
            result.expect("the map succeeds");
            first();
            in_map();
        });
        let inner = note("inner done");
        let inner_queue = queue.clone();
        queue.on_submitted_work_done(move || {
            second();
            in_done();
            inner_queue.on_submitted_work_done(inner);
        });
        gpu.wait();
        gpu.wait();
        assert_eq!(*order.lock(), ["map", "done", "inner done"]);
        mapped.unmap();

        // Errors and loss.
        let in_error = Arc::new(Mutex::new(Some(busy.clone())));
        let errors = Arc::new(AtomicU32::new(0));
        let seen = errors.clone();
        device.on_uncaptured_error(Arc::new(move |_| {
            seen.fetch_add(1, Ordering::Relaxed);
            let once = in_error.lock().take();
            if let Some(busy) = once {
                busy();
            }
        }));
        drop(gpu.buffer("invalid", 4, B::MAP_READ | B::MAP_WRITE | B::STORAGE));
        assert_eq!(errors.load(Ordering::Relaxed), 1);

        let lost = Arc::new(AtomicU32::new(0));
        let seen = lost.clone();
        let in_lost = {
            let (device, queue) = (device.clone(), queue.clone());
            move || {
                let buffer = device.create_buffer(&wgpu::BufferDescriptor {
                    label: None,
                    size: 64,
                    usage: B::COPY_DST,
                    mapped_at_creation: false,
                });
                queue.write_buffer(&buffer, 0, &[1; 4]);
                queue.submit([]);
                let _ = device.poll(wgpu::PollType::Poll);
                device.destroy();
                buffer.destroy();
            }
        };
        device.set_device_lost_callback(move |_, _| {
            seen.fetch_add(1, Ordering::Relaxed);
            in_lost();
        });
        device.destroy();
        let start = Instant::now();
        while lost.load(Ordering::Relaxed) == 0 && start.elapsed() < Duration::from_secs(5) {
            let _ = device.poll(wgpu::PollType::Poll);
        }
        assert_eq!(lost.load(Ordering::Relaxed), 1, "lost once");
    });
}
