//! The field's own cases: each test is the core of a bug report against an implementation of WebGPU or a
//! program on top of one, named as its reporter would name it.
//!
//! [`scenarios`](crate::scenarios) has the right outcome of each kind of case for every resource. Here it is
//! looked at as the report did: which HAL objects are alive and when, what the HAL is asked to do, what the
//! process weighs, what the error says.

use std::time::Duration;

use fencepost_audit::{Auditor, Completion, ObjectKind, Site};
use wgpu::{BufferUsages as B, TextureUsages as T};

use crate::harness::*;
use crate::heap;

const BUMP: &str = "
    @group(0) @binding(0) var<storage, read_write> data: array<u32>;
    @compute @workgroup_size(1) fn main() { data[0] += 1u; }";

const SUM: &str = "
    @group(0) @binding(0) var<storage, read> input: array<u32>;
    @group(0) @binding(1) var<storage, read_write> output: array<u32>;
    @compute @workgroup_size(1) fn main() {
        var sum = 0u;
        for (var i = 0u; i < arrayLength(&input); i++) { sum += input[i]; }
        output[0] = sum;
    }";

fn bump(
    encoder: &mut wgpu::CommandEncoder,
    pipeline: &wgpu::ComputePipeline,
    group: &wgpu::BindGroup,
) {
    let mut pass = encoder.begin_compute_pass(&Default::default());
    pass.set_pipeline(pipeline);
    pass.set_bind_group(0, group, &[]);
    pass.dispatch_workgroups(1, 1, 1);
}

/// The auditor below the core under test, or the reason why there is none.
fn audited() -> Option<&'static Auditor> {
    if core() == Core::Wgpu {
        return None;
    }
    let auditor = auditor();
    if auditor.is_none() {
        skip("what the auditor sees: FENCEPOST_TEST_AUDIT is off");
    }
    auditor
}

/// Whether a HAL object with this label is alive.
fn is_live(auditor: &Auditor, label: &str) -> bool {
    let objects = auditor.live_objects();
    objects.iter().any(|o| o.label.as_deref() == Some(label))
}

/// A device without the validation layer, which keeps memory of its own about every object.
fn plain(body: impl FnOnce(&wgpu::Device, &wgpu::Queue)) {
    plain_of(instance, body);
}

/// A device without the auditor either, which remembers what has died.
fn plainest(body: impl FnOnce(&wgpu::Device, &wgpu::Queue)) {
    plain_of(
        |desc| match core() {
            Core::Fencepost => fencepost::instance(desc),
            Core::Wgpu => wgpu::Instance::new(desc),
        },
        body,
    );
}

fn plain_of(
    instance: impl FnOnce(wgpu::InstanceDescriptor) -> wgpu::Instance,
    body: impl FnOnce(&wgpu::Device, &wgpu::Queue),
) {
    test_bare(|| {
        let instance = instance(wgpu::InstanceDescriptor {
            flags: wgpu::InstanceFlags::empty(),
            ..descriptor(wgpu::Backends::VULKAN)
        });
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

fn plain_buffer(device: &wgpu::Device, size: u64, usage: B) -> wgpu::Buffer {
    device.create_buffer(&wgpu::BufferDescriptor {
        label: Some("buffer"),
        size,
        usage,
        mapped_at_creation: false,
    })
}

fn plain_pipeline(device: &wgpu::Device, wgsl: &str) -> wgpu::ComputePipeline {
    let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
        label: None,
        source: wgpu::ShaderSource::Wgsl(wgsl.into()),
    });
    device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: None,
        layout: None,
        module: &module,
        entry_point: None,
        compilation_options: Default::default(),
        cache: None,
    })
}

fn plain_group(
    device: &wgpu::Device,
    pipeline: &wgpu::ComputePipeline,
    resource: wgpu::BindingResource<'_>,
) -> wgpu::BindGroup {
    device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: None,
        layout: &pipeline.get_bind_group_layout(0),
        entries: &[wgpu::BindGroupEntry {
            binding: 0,
            resource,
        }],
    })
}

/// Destroyed between encoding and submission: a Metal command buffer with unretained references crashed. There
/// must be no HAL command buffer to crash, and the refused submission must not reach the HAL at all.
#[test]
fn destroyed_between_encoding_and_submission_the_metal_crash() {
    test(|gpu| {
        gpu.warm_up();
        let target = gpu.buffer("target", 4096, B::all_copies());
        gpu.quiesce();
        let bytes = audited().map(Auditor::live_bytes);
        let buffer = gpu.buffer("destroyed buffer", 4096, B::COPY_SRC);
        let texture = gpu.texture(
            "destroyed texture",
            (16, 16),
            wgpu::TextureFormat::R32Uint,
            T::COPY_SRC,
        );
        let calls = audited().map(Auditor::calls);
        let commands = [
            gpu.commands(|encoder| encoder.copy_buffer_to_buffer(&buffer, 0, &target, 0, None)),
            gpu.commands(|encoder| {
                encoder.copy_texture_to_buffer(
                    texture.as_image_copy(),
                    wgpu::TexelCopyBufferInfo {
                        buffer: &target,
                        layout: layout(0, 256, 16),
                    },
                    extent(16, 16, 1),
                );
            }),
        ];
        assert_eq!(
            audited().map(Auditor::calls),
            calls,
            "what is finished is not encoded"
        );
        buffer.destroy();
        texture.destroy();
        // Nobody has polled or submitted.
        assert_eq!(audited().map(Auditor::live_bytes), bytes, "back at once");
        for (commands, label) in commands
            .into_iter()
            .zip(["destroyed buffer", "destroyed texture"])
        {
            let calls = audited().map(Auditor::calls);
            let error = gpu.invalid(label, || gpu.queue.submit([commands]));
            assert_eq!(audited().map(Auditor::calls), calls, "no call of the HAL");
            assert!(
                error.contains(label) && error.contains("destroyed"),
                "{error}"
            );
        }
        assert_eq!(gpu.read(&target), [0; 4096], "nothing ran");
    });
}

/// Metal's debug device: a vertex buffer "destroyed while still required to be alive by the command buffer".
/// The buffer is one for vertices that a submission in flight copies from and reads as storage; a draw from it
/// follows with render passes.
#[test]
fn vertex_buffer_destroyed_while_still_required_to_be_alive_by_the_command_buffer() {
    test(|gpu| {
        gpu.warm_up();
        let pipeline = gpu.pipeline(SUM);
        let vertices: Vec<u32> = (1..=1024).collect();
        let copy = gpu.buffer("copy", 4096, B::all_copies());
        let sum = gpu.buffer("sum", 4, B::STORAGE | B::COPY_SRC);
        for destroy in [true, false] {
            gpu.quiesce();
            let base = gpu.settled_counts();
            let usage = B::VERTEX | B::STORAGE | B::COPY_SRC;
            let buffer = gpu.filled("vertices", usage, &bytes(&vertices));
            // So that the staging memory of its contents is gone.
            gpu.quiesce();
            let group = gpu.group(
                &pipeline,
                &[buffer.as_entire_binding(), sum.as_entire_binding()],
            );
            let commands = gpu.commands(|encoder| {
                encoder.copy_buffer_to_buffer(&buffer, 0, &copy, 0, None);
                bump(encoder, &pipeline, &group);
            });
            drop(group);
            let slow = gpu.submit_in_flight([commands]);
            let tombstone = if destroy {
                buffer.destroy();
                Some(buffer)
            } else {
                drop(buffer);
                None
            };
            // The command buffer requires it to be alive, and it is, until the fence.
            let alive = audited().map(|auditor| {
                let objects = auditor.live_objects();
                (
                    is_live(auditor, "vertices"),
                    objects.iter().any(|o| o.kind == ObjectKind::BindGroup),
                )
            });
            let meanwhile = gpu.counts();
            gpu.assert_in_flight();
            if let Some(alive) = alive {
                assert_eq!(alive, (true, true), "alive while it is required to be");
            }
            assert_eq!(meanwhile.buffers, base.buffers + 1);
            assert_eq!(gpu.counts_after(&slow), base, "and no longer");
            assert!(!audited().is_some_and(|auditor| is_live(auditor, "vertices")));
            assert_eq!(gpu.read_words(&copy), vertices, "destroyed: {destroy}");
            assert_eq!(gpu.read_words(&sum), [1024 * 1025 / 2]);
            drop(tombstone);
        }
    });
}

/// Memory of pooled command buffers that never shrinks: a pool keeps what the largest submission needed, once
/// for each encoder that ever held one.
#[test]
fn memory_of_pooled_command_buffers_that_never_shrinks() {
    if ours_alone("an encoder of a large submission stays in the pool") {
        return;
    }
    plain(|device, queue| {
        let pipeline = plain_pipeline(device, BUMP);
        let buffer = plain_buffer(device, 256, B::STORAGE | B::COPY_SRC);
        let group = plain_group(device, &pipeline, buffer.as_entire_binding());
        let run = |dispatches: u32| {
            let mut encoder = device.create_command_encoder(&Default::default());
            let mut pass = encoder.begin_compute_pass(&Default::default());
            pass.set_pipeline(&pipeline);
            for _ in 0..dispatches {
                pass.set_bind_group(0, &group, &[]);
                pass.dispatch_workgroups(1, 1, 1);
            }
            drop(pass);
            queue.submit([encoder.finish()]);
        };
        let wait = || {
            device.poll(wgpu::PollType::wait_indefinitely()).unwrap();
        };
        let encoders = || device.get_internal_counters().hal.command_encoders.read();
        // Which ones, if the auditor can tell.
        let identities = || {
            let objects = audited().map(Auditor::live_objects).unwrap_or_default();
            let encoders = objects
                .into_iter()
                .filter(|object| object.kind == ObjectKind::CommandEncoder);
            encoders.map(|encoder| encoder.id).collect::<Vec<_>>()
        };
        // A burst of small submissions, as many in flight at once as the clock lets there be, fills the pool, and
        // no more than the pool is kept.
        let clock = audited().map(Auditor::clock);
        if let Some(clock) = &clock {
            clock.set(Completion::Manual);
        }
        for _ in 0..100 {
            run(1);
        }
        let burst = encoders();
        if let Some(clock) = &clock {
            clock.complete_all();
            clock.set(Completion::Backend);
            assert!(
                burst >= 100,
                "{burst} encoders of 100 submissions in flight"
            );
        }
        wait();
        let pooled = encoders();
        assert!((1..=8).contains(&pooled), "{pooled} encoders");
        // The encoder of a small submission is used again.
        let before = identities();
        run(1);
        wait();
        assert_eq!((encoders(), identities()), (pooled, before));
        // That of a large one is not: it goes with its memory.
        for left in (0..pooled).rev() {
            let before = identities();
            run(5000);
            wait();
            assert_eq!(encoders(), left, "a large submission's encoder is gone");
            assert!(identities().iter().all(|id| before.contains(id)));
        }
    });
}

/// A texture that lives on, and what its frames need.
struct Frames<'a> {
    device: &'a wgpu::Device,
    queue: &'a wgpu::Queue,
    pipeline: wgpu::ComputePipeline,
    texture: wgpu::Texture,
    view: wgpu::TextureView,
    /// Whether each frame makes a view of its own.
    fresh_views: bool,
}

impl<'a> Frames<'a> {
    fn new(device: &'a wgpu::Device, queue: &'a wgpu::Queue, fresh_views: bool) -> Self {
        let texture = device.create_texture(&wgpu::TextureDescriptor {
            label: Some("long-lived"),
            size: extent(4, 4, 1),
            mip_level_count: 1,
            sample_count: 1,
            dimension: wgpu::TextureDimension::D2,
            format: wgpu::TextureFormat::Rgba8Unorm,
            usage: T::STORAGE_BINDING,
            view_formats: &[],
        });
        Self {
            device,
            queue,
            pipeline: plain_pipeline(
                device,
                "@group(0) @binding(0) var target_: texture_storage_2d<rgba8unorm, write>;
                @compute @workgroup_size(1) fn main() { textureStore(target_, vec2(0, 0), vec4(1.0)); }",
            ),
            view: texture.create_view(&Default::default()),
            texture,
            fresh_views,
        }
    }

    /// Some frames, none of which polls; then the program goes idle.
    fn run(&self, count: u32) {
        for _ in 0..count {
            let view = if self.fresh_views {
                self.texture.create_view(&Default::default())
            } else {
                self.view.clone()
            };
            let resource = wgpu::BindingResource::TextureView(&view);
            let group = plain_group(self.device, &self.pipeline, resource);
            let mut encoder = self.device.create_command_encoder(&Default::default());
            bump(&mut encoder, &self.pipeline, &group);
            drop((view, group));
            self.queue.submit([encoder.finish()]);
        }
        std::thread::sleep(AT_THE_FENCE);
    }

    fn counters(&self) -> (isize, isize) {
        let hal = self.device.get_internal_counters().hal;
        (hal.texture_views.read(), hal.bind_groups.read())
    }
}

/// Frames that make a bind group each, and a view if `fresh_views`, of a texture that lives on.
fn frames_that_leak(fresh_views: bool) {
    if ours_alone("the last frame stays until a poll") {
        return;
    }
    plain(|device, queue| {
        let frames = Frames::new(device, queue, fresh_views);
        let base = frames.counters();
        frames.run(500);
        assert_eq!(frames.counters(), base, "the last one comes back by itself");
        let objects = || {
            let report = fencepost::memory_report(device).expect("a device of ours");
            let audited = audited().map(|auditor| {
                let mut objects = auditor.live_objects();
                // How many are pooled depends on how many submissions were in flight at once.
                objects.retain(|object| object.kind != ObjectKind::CommandEncoder);
                objects
            });
            (report.objects, audited)
        };
        let before = objects();
        frames.run(500);
        assert_eq!(objects(), before, "the very same objects are alive");
    });
    plainest(|device, queue| {
        let frames = Frames::new(device, queue, fresh_views);
        frames.run(1000);
        let before = heap::allocated();
        frames.run(2000);
        let grown = heap::allocated().saturating_sub(before);
        // 32 bytes left behind by each frame; the least there is to leave is more.
        assert!(grown < 64_000, "{grown} bytes of the heap for 2000 frames");
    });
}

/// A view per frame on a texture that lives on.
#[test]
fn view_loop_that_leaks() {
    frames_that_leak(true);
}

/// A bind group per frame on a view that lives on.
#[test]
fn bind_group_loop_that_leaks() {
    frames_that_leak(false);
}

/// A read-back per frame that is dropped still mapped, and an upload per frame that was mapped at creation.
#[test]
fn short_lived_mapped_buffers_that_leak() {
    test(|gpu| {
        gpu.warm_up();
        let data = pattern(64 << 10, 1);
        let source = gpu.filled("source", B::all_copies(), &data);
        gpu.quiesce();
        let base = gpu.settled_counts();
        let bytes = audited().map(Auditor::live_bytes);
        for frame in 0..300 {
            let upload = gpu.device.create_buffer(&wgpu::BufferDescriptor {
                label: Some("upload"),
                size: 64 << 10,
                usage: B::COPY_SRC | B::MAP_WRITE,
                mapped_at_creation: true,
            });
            let mut view = upload.get_mapped_range_mut(..).unwrap();
            view.copy_from_slice(&data);
            drop(view);
            upload.unmap();
            let back = gpu.buffer("read-back", 64 << 10, B::MAP_READ | B::COPY_DST);
            gpu.run(|encoder| {
                encoder.copy_buffer_to_buffer(&upload, 0, &source, 0, None);
                encoder.copy_buffer_to_buffer(&source, 0, &back, 0, None);
            });
            drop(upload);
            gpu.map(&back, wgpu::MapMode::Read, 0..64 << 10);
            let view = back.get_mapped_range(..).unwrap();
            assert!(*view == data[..], "frame {frame}");
            // In either order, and never unmapped.
            if frame % 2 == 0 {
                drop(view);
                drop(back);
            } else {
                drop(back);
                drop(view);
            }
            // The wait was this frame's: it leaves nothing, in any frame.
            if frame % 50 == 49 {
                gpu.rest();
                assert_eq!(gpu.settled_counts(), base, "frame {frame}");
                assert_eq!(audited().map(Auditor::live_bytes), bytes, "frame {frame}");
            }
        }
    });
}

/// A program whose device goes first and its buffers, which it still holds, much later.
#[test]
fn buffers_dropped_after_their_device() {
    test_bare(|| {
        let adapter = match adapter() {
            Ok(adapter) => adapter,
            Err(why) => return skip(&why),
        };
        let before = audited().map(Auditor::live_objects);
        for device_destroyed in [false, true] {
            let (device, queue) =
                pollster::block_on(adapter.request_device(&Default::default())).unwrap();
            let make = |label, usage, mapped_at_creation| {
                device.create_buffer(&wgpu::BufferDescriptor {
                    label: Some(label),
                    size: 1 << 16,
                    usage,
                    mapped_at_creation,
                })
            };
            let used = make("outlives its device, used", B::COPY_DST, false);
            let written = make("outlives its device, written", B::COPY_DST, false);
            let mapped = make("outlives its device, mapped", B::COPY_SRC, true);
            let recorded = make("outlives its device, recorded", B::COPY_DST, false);
            let mut encoder = device.create_command_encoder(&Default::default());
            encoder.clear_buffer(&used, 0, None);
            queue.submit([encoder.finish()]);
            let mut encoder = device.create_command_encoder(&Default::default());
            encoder.clear_buffer(&recorded, 0, None);
            let commands = encoder.finish();
            queue.write_buffer(&written, 0, &[1; 256]);
            if device_destroyed {
                device.destroy();
            }
            drop((device, queue));
            if let Some(auditor) = audited() {
                // Nothing was let go of but a destroyed device's.
                let alive = is_live(auditor, "outlives its device, recorded");
                assert_eq!(alive, !device_destroyed);
            }
            drop((used, recorded));
            drop(commands);
            drop(mapped);
            drop(written);
            // With the last of them the device has ended, and nothing of it is left.
            assert_eq!(audited().map(Auditor::live_objects), before);
        }
    });
}

/// A terminal kept 10 GB, a video editor 85: what the last submission used and the program then dropped never
/// comes back to a program that goes idle and does not poll.
#[test]
fn an_idle_program_whose_memory_never_returns() {
    if ours_alone("it stays until a poll, which an idle program does not make") {
        return;
    }
    test(|gpu| {
        gpu.warm_up();
        let base = gpu.counts();
        let bytes = audited().map(Auditor::live_bytes);
        let buffers: Vec<_> = (0..16)
            .map(|_| gpu.buffer("scrollback", 4 << 20, B::COPY_DST))
            .collect();
        let texture = gpu.texture(
            "glyphs",
            (1024, 1024),
            wgpu::TextureFormat::Rgba8Unorm,
            T::all_copies(),
        );
        let commands = gpu.commands(|encoder| {
            for buffer in &buffers {
                encoder.clear_buffer(buffer, 0, None);
            }
            encoder.clear_texture(&texture, &Default::default());
        });
        gpu.submit_in_flight([commands]);
        drop((buffers, texture));
        let held = gpu.counts();
        gpu.assert_in_flight();
        assert!(held.buffer_memory >= base.buffer_memory + (64 << 20));
        // From here on the program does nothing. The work takes a quarter of a second, if the machine is not busy.
        std::thread::sleep(Duration::from_secs(1) + AT_THE_FENCE);
        let after = gpu.counts();
        assert_eq!(after, base, "64 MiB of buffers, 4 MiB of textures");
        assert_eq!(
            audited().map(Auditor::live_bytes),
            bytes,
            "as the HAL sees it"
        );
    });
}

/// Thousands of passes in one encoder: where each pass is a HAL command buffer, Metal runs out of them.
#[test]
fn thousands_of_passes_in_one_encoder() {
    test(|gpu| {
        const PASSES: u32 = 5000;
        gpu.warm_up();
        let pipeline = gpu.pipeline(BUMP);
        let data = gpu.buffer("data", 256, B::STORAGE | B::all_copies());
        let group = gpu.group(&pipeline, &[data.as_entire_binding()]);
        gpu.quiesce();
        let before = audited().map(Auditor::live_objects);
        let commands = gpu.commands(|encoder| {
            for _ in 0..PASSES {
                bump(encoder, &pipeline, &group);
            }
        });
        assert_eq!(
            audited().map(Auditor::live_objects),
            before,
            "recording them is nothing to the HAL"
        );
        // The plan is that the ninth HAL command buffer fails. There is no ninth.
        if let Some(auditor) = audited() {
            let out_of_memory = wgpu::hal::DeviceError::OutOfMemory;
            let faults = auditor.faults();
            faults.fail_at(Site::BeginEncoding, 9, out_of_memory);
            gpu.valid("5000 passes", || gpu.submit_in_flight([commands]));
            let planned = faults.are_planned();
            faults.clear();
            assert!(planned, "nine HAL command buffers or more");
        } else {
            gpu.valid("5000 passes", || gpu.submit_in_flight([commands]));
        }
        assert_eq!(gpu.read_words(&data)[0], PASSES, "each ran, in order");
    });
}

/// A query set destroyed while its queries are written and resolved.
#[test]
fn query_set_destroyed_in_flight() {
    test_with(wgpu::Features::TIMESTAMP_QUERY, |gpu| {
        gpu.warm_up();
        let results = gpu.buffer("results", 256, B::QUERY_RESOLVE | B::all_copies());
        gpu.quiesce();
        let base = gpu.settled_counts();
        let set = gpu.device.create_query_set(&wgpu::QuerySetDescriptor {
            label: Some("destroyed set"),
            ty: wgpu::QueryType::Timestamp,
            count: 2,
        });
        let timed = |encoder: &mut wgpu::CommandEncoder| {
            drop(encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
                label: None,
                timestamp_writes: Some(wgpu::ComputePassTimestampWrites {
                    query_set: &set,
                    beginning_of_pass_write_index: Some(0),
                    end_of_pass_write_index: Some(1),
                }),
            }));
        };
        let commands = gpu.commands(|encoder| {
            timed(encoder);
            encoder.resolve_query_set(&set, 0..2, &results, 0);
        });
        let late = gpu.commands(timed);
        let slow = gpu.submit_in_flight([commands]);
        gpu.valid("in flight", || set.destroy());
        let alive = audited().map(|auditor| is_live(auditor, "destroyed set"));
        // Recorded before, submitted after.
        let error = gpu.invalid("submitted after", || gpu.queue.submit([late]));
        gpu.assert_in_flight();
        assert_names(&error, "destroyed set");
        assert!(error.contains("destroyed"), "{error}");
        assert!(alive.is_none_or(|alive| alive), "the GPU writes to it");
        assert_eq!(gpu.counts_after(&slow), base, "at the fence");
        assert!(!audited().is_some_and(|auditor| is_live(auditor, "destroyed set")));
        let times = gpu.read_words(&results);
        assert!(times[..2] != [0, 0] && times[2..4] != [0, 0], "{times:?}");
    });
}

/// A write, its target destroyed before the next submit: the staging memory stays for ever, or the copy is
/// encoded all the same. Between writes that go on.
#[test]
fn staging_after_a_destroyed_target() {
    test(|gpu| {
        gpu.warm_up();
        let fine = gpu.buffer("fine", 4096, B::all_copies());
        gpu.quiesce();
        let bytes = audited().map(Auditor::live_bytes);
        let base = gpu.settled_counts();
        gpu.queue.write_buffer(&fine, 0, &[1; 2048]);
        let one = audited().map(Auditor::live_bytes);
        let doomed = gpu.buffer("doomed", 1 << 20, B::COPY_DST);
        let doomed_texture = gpu.texture(
            "doomed texture",
            (512, 512),
            wgpu::TextureFormat::R32Uint,
            T::COPY_DST,
        );
        let data = vec![7; 1 << 20];
        gpu.queue.write_buffer(&doomed, 0, &data);
        gpu.queue.write_texture(
            doomed_texture.as_image_copy(),
            &data,
            layout(0, 2048, 512),
            extent(512, 512, 1),
        );
        doomed.destroy();
        doomed_texture.destroy();
        assert_eq!(
            audited().map(Auditor::live_bytes),
            one,
            "only the write that can still be made is staged"
        );
        gpu.queue.write_buffer(&fine, 1024, &[2; 2048]);
        let error = gpu.invalid("a write to a destroyed buffer", || {
            gpu.queue.write_buffer(&doomed, 0, &data);
        });
        assert_names(&error, "doomed");
        let error = gpu.invalid("a write to a destroyed texture", || {
            gpu.queue.write_texture(
                doomed_texture.as_image_copy(),
                &data,
                layout(0, 2048, 512),
                extent(512, 512, 1),
            );
        });
        assert_names(&error, "doomed texture");
        gpu.valid("what is left is submitted", || gpu.queue.submit([]));
        let read = gpu.read(&fine);
        assert!(read[..1024].iter().all(|byte| *byte == 1));
        assert!(read[1024..3072].iter().all(|byte| *byte == 2));
        gpu.rest();
        assert_eq!(gpu.settled_counts(), base);
        assert_eq!(audited().map(Auditor::live_bytes), bytes);
    });
}

/// A fresh texture is cleared when a submission first shows what it holds. It is destroyed before that: the
/// clear is of something that is gone. And the one beside it, whose clear was refused with it, still has to be
/// cleared.
#[test]
fn texture_destroyed_before_its_lazy_clear() {
    test(|gpu| {
        gpu.warm_up();
        let format = wgpu::TextureFormat::Rgba8Unorm;
        let size = extent(64, 64, 1);
        // Memory that is not zero, for the textures to lie in.
        let fill = || {
            let old = gpu.texture("old", (64, 64), format, T::COPY_DST);
            let texels = pattern(64 * 64 * 4, 9);
            gpu.queue
                .write_texture(old.as_image_copy(), &texels, layout(0, 256, 64), size);
            gpu.queue.submit([]);
            gpu.quiesce();
        };
        let target = gpu.buffer("target", 64 * 64 * 4, B::all_copies());
        let texels = wgpu::TexelCopyBufferInfo {
            buffer: &target,
            layout: layout(0, 256, 64),
        };
        fill();
        let base = gpu.settled_counts();
        let doomed = gpu.texture("doomed", (64, 64), format, T::COPY_SRC);
        fill();
        let beside = gpu.texture("beside", (64, 64), format, T::all_copies());
        let view = gpu.view(&doomed);
        let commands = gpu.commands(|encoder| {
            encoder.copy_texture_to_buffer(beside.as_image_copy(), texels, size);
            encoder.copy_texture_to_buffer(doomed.as_image_copy(), texels, size);
        });
        doomed.destroy();
        let calls = audited().map(Auditor::calls);
        let error = gpu.invalid("destroyed before its clear", || {
            gpu.queue.submit([commands])
        });
        assert!(error.contains("doomed"), "{error}");
        assert_eq!(audited().map(Auditor::calls), calls, "nothing is cleared");
        drop((doomed, view));
        gpu.valid("the one beside it", || {
            gpu.run(|encoder| encoder.copy_texture_to_buffer(beside.as_image_copy(), texels, size))
        });
        assert!(gpu.read(&target).iter().all(|byte| *byte == 0), "cleared");
        // Destroyed when the clear is in flight.
        let cleared = gpu.texture("cleared in flight", (64, 64), format, T::COPY_SRC);
        let commands = gpu.commands(|encoder| {
            encoder.copy_texture_to_buffer(cleared.as_image_copy(), texels, size);
        });
        let slow = gpu.submit_in_flight([commands]);
        cleared.destroy();
        let alive = audited().map(|auditor| is_live(auditor, "cleared in flight"));
        gpu.assert_in_flight();
        assert!(alive.is_none_or(|alive| alive));
        drop(beside);
        assert_eq!(gpu.counts_after(&slow), base);
        assert!(gpu.read(&target).iter().all(|byte| *byte == 0));
    });
}
