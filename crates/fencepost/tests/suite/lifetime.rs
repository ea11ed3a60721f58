//! The lifetime table: every kind of resource, ended at every point of its life.
//!
//! A [`Subject`] is the handle whose end is tested and nothing else; what it needs is held by
//! the [`Bench`]. Recording a subject makes the GPU write [`MARK`] into the subject's word of
//! the probe buffer, so whether it was executed can be read back.
//!
//! | ended | by `destroy` | by dropping the last handle |
//! | --- | --- | --- |
//! | before record | freed at once; recording is fine; submit is an error | freed at once |
//! | after record, after finish | freed at once; submit is an error | lives on in the commands |
//! | in flight | executed; freed at the fence | executed; freed at the fence |
//! | after completion | freed at once | freed at once |
//! | twice | as once | a clone keeps it |

use crate::harness::*;

/// What an executed subject leaves in the probe.
const MARK: u32 = 0x600d_f00d;

/// What subjects share: the buffer they write to and the pipelines that use them.
struct Bench {
    probe: wgpu::Buffer,
    /// Writes the word it reads at binding 0 to binding 1.
    from_buffer: wgpu::ComputePipeline,
    from_texture: wgpu::ComputePipeline,
    from_sampler: wgpu::ComputePipeline,
    source: wgpu::Buffer,
    texture: wgpu::Texture,
}

/// One kind of resource.
struct Kind {
    name: &'static str,
    make: fn(&Gpu, &Bench) -> Box<dyn Subject>,
    /// How much of this kind the HAL has alive: objects, for textures bytes.
    count: fn(&Counts) -> isize,
    /// Whether the kind has a `destroy`.
    has_destroy: bool,
    /// Whether recording it makes a bind group.
    bound: bool,
}

/// A resource whose end is tested.
trait Subject {
    /// Records commands that use the subject and write [`MARK`] to `probe[slot]`.
    fn record(&self, gpu: &Gpu, bench: &Bench, encoder: &mut wgpu::CommandEncoder, slot: u64);
    fn destroy(&self) {
        unreachable!("kinds without destroy say so");
    }
    fn again(&self) -> Box<dyn Subject>;
}

const LABEL: &str = "the subject";

impl Bench {
    fn new(gpu: &Gpu) -> Self {
        use wgpu::{BufferUsages as B, TextureUsages as T};
        let texture = gpu.texture(
            "bench texture",
            (1, 1),
            wgpu::TextureFormat::R32Uint,
            T::COPY_DST | T::TEXTURE_BINDING,
        );
        gpu.queue.write_texture(
            texture.as_image_copy(),
            &MARK.to_ne_bytes(),
            Default::default(),
            extent(1, 1, 1),
        );
        let bench = Self {
            probe: gpu.buffer("probe", 4096, B::all_copies() | B::STORAGE),
            from_buffer: gpu.pipeline(
                "@group(0) @binding(0) var<storage, read> input: array<u32>;
                @group(0) @binding(1) var<storage, read_write> output: array<u32>;
                @compute @workgroup_size(1) fn main() { output[0] = input[0]; }",
            ),
            from_texture: gpu.pipeline(
                "@group(0) @binding(0) var input: texture_2d<u32>;
                @group(0) @binding(1) var<storage, read_write> output: array<u32>;
                @compute @workgroup_size(1) fn main() { output[0] = textureLoad(input, vec2(0, 0), 0).x; }",
            ),
            from_sampler: gpu.pipeline(
                "@group(0) @binding(0) var how: sampler;
                @group(0) @binding(1) var<storage, read_write> output: array<u32>;
                @group(0) @binding(2) var input: texture_2d<f32>;
                @compute @workgroup_size(1) fn main() {
                    let texel = textureSampleLevel(input, how, vec2(0.5, 0.5), 0.0);
                    output[0] = select(1u, 0x600df00du, texel.a == 1.0);
                }",
            ),
            source: gpu.filled("source", B::STORAGE | B::COPY_SRC, &bytes(&[MARK; 64])),
            texture,
        };
        gpu.queue.submit([]);
        gpu.quiesce();
        bench
    }

    /// The word of the probe that `slot` names, as a binding.
    fn probe_word(&self, slot: u64) -> wgpu::BindingResource<'_> {
        wgpu::BindingResource::Buffer(wgpu::BufferBinding {
            buffer: &self.probe,
            offset: slot * 256,
            size: wgpu::BufferSize::new(4),
        })
    }

    fn dispatch(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        pipeline: &wgpu::ComputePipeline,
        group: &wgpu::BindGroup,
    ) {
        let mut pass = encoder.begin_compute_pass(&Default::default());
        pass.set_pipeline(pipeline);
        pass.set_bind_group(0, group, &[]);
        pass.dispatch_workgroups(1, 1, 1);
    }

    /// Whether the subject in `slot` was executed; clears the probe for the next one.
    fn executed(&self, gpu: &Gpu, slot: u64) -> bool {
        let words = gpu.read_words(&self.probe);
        match words[slot as usize * 64] {
            0 => false,
            MARK => true,
            other => panic!("the probe holds {other:#x}: neither nothing nor the mark"),
        }
    }

    fn clear(&self, gpu: &Gpu) {
        gpu.run(|encoder| encoder.clear_buffer(&self.probe, 0, None));
        gpu.quiesce();
    }
}

struct BufferSubject(wgpu::Buffer);
impl Subject for BufferSubject {
    fn record(&self, _: &Gpu, bench: &Bench, encoder: &mut wgpu::CommandEncoder, slot: u64) {
        encoder.copy_buffer_to_buffer(&self.0, 0, &bench.probe, slot * 256, 4);
    }
    fn destroy(&self) {
        self.0.destroy();
    }
    fn again(&self) -> Box<dyn Subject> {
        Box::new(Self(self.0.clone()))
    }
}

/// A buffer that commands reach through a bind group which only they hold.
struct BoundBufferSubject(wgpu::Buffer);
impl Subject for BoundBufferSubject {
    fn record(&self, gpu: &Gpu, bench: &Bench, encoder: &mut wgpu::CommandEncoder, slot: u64) {
        let group = gpu.group(
            &bench.from_buffer,
            &[self.0.as_entire_binding(), bench.probe_word(slot)],
        );
        bench.dispatch(encoder, &bench.from_buffer, &group);
    }
    fn destroy(&self) {
        self.0.destroy();
    }
    fn again(&self) -> Box<dyn Subject> {
        Box::new(Self(self.0.clone()))
    }
}

struct TextureSubject(wgpu::Texture);
impl Subject for TextureSubject {
    fn record(&self, _: &Gpu, bench: &Bench, encoder: &mut wgpu::CommandEncoder, slot: u64) {
        encoder.copy_texture_to_buffer(
            self.0.as_image_copy(),
            wgpu::TexelCopyBufferInfo {
                buffer: &bench.probe,
                layout: layout(slot * 256, 256, 1),
            },
            extent(1, 1, 1),
        );
    }
    fn destroy(&self) {
        self.0.destroy();
    }
    fn again(&self) -> Box<dyn Subject> {
        Box::new(Self(self.0.clone()))
    }
}

/// A texture that commands reach through a view and a bind group which only they hold.
struct BoundTextureSubject(wgpu::Texture);
impl Subject for BoundTextureSubject {
    fn record(&self, gpu: &Gpu, bench: &Bench, encoder: &mut wgpu::CommandEncoder, slot: u64) {
        let view = gpu.view(&self.0);
        let group = gpu.group(
            &bench.from_texture,
            &[
                wgpu::BindingResource::TextureView(&view),
                bench.probe_word(slot),
            ],
        );
        bench.dispatch(encoder, &bench.from_texture, &group);
    }
    fn destroy(&self) {
        self.0.destroy();
    }
    fn again(&self) -> Box<dyn Subject> {
        Box::new(Self(self.0.clone()))
    }
}

struct ViewSubject(wgpu::TextureView);
impl Subject for ViewSubject {
    fn record(&self, gpu: &Gpu, bench: &Bench, encoder: &mut wgpu::CommandEncoder, slot: u64) {
        let group = gpu.group(
            &bench.from_texture,
            &[
                wgpu::BindingResource::TextureView(&self.0),
                bench.probe_word(slot),
            ],
        );
        bench.dispatch(encoder, &bench.from_texture, &group);
    }
    fn again(&self) -> Box<dyn Subject> {
        Box::new(Self(self.0.clone()))
    }
}

struct SamplerSubject(wgpu::Sampler, wgpu::TextureView);
impl Subject for SamplerSubject {
    fn record(&self, gpu: &Gpu, bench: &Bench, encoder: &mut wgpu::CommandEncoder, slot: u64) {
        let group = gpu.group(
            &bench.from_sampler,
            &[
                wgpu::BindingResource::Sampler(&self.0),
                bench.probe_word(slot),
                wgpu::BindingResource::TextureView(&self.1),
            ],
        );
        bench.dispatch(encoder, &bench.from_sampler, &group);
    }
    fn again(&self) -> Box<dyn Subject> {
        Box::new(Self(self.0.clone(), self.1.clone()))
    }
}

/// A bind group, made for one slot of the probe.
struct GroupSubject(Vec<wgpu::BindGroup>);
impl Subject for GroupSubject {
    fn record(&self, _: &Gpu, bench: &Bench, encoder: &mut wgpu::CommandEncoder, slot: u64) {
        let group = &self.0[0];
        let mut pass = encoder.begin_compute_pass(&Default::default());
        pass.set_pipeline(&bench.from_buffer);
        pass.set_bind_group(0, group, &[]);
        pass.dispatch_workgroups(1, 1, 1);
        drop(pass);
        // The group names word 0; bring it to the slot that was asked for.
        if slot != 0 {
            encoder.copy_buffer_to_buffer(&bench.source, 0, &bench.probe, slot * 256, 4);
        }
    }
    fn again(&self) -> Box<dyn Subject> {
        Box::new(Self(self.0.clone()))
    }
}

struct PipelineSubject(wgpu::ComputePipeline);
impl Subject for PipelineSubject {
    fn record(&self, gpu: &Gpu, bench: &Bench, encoder: &mut wgpu::CommandEncoder, slot: u64) {
        let group = gpu.group(
            &self.0,
            &[bench.source.as_entire_binding(), bench.probe_word(slot)],
        );
        bench.dispatch(encoder, &self.0, &group);
    }
    fn again(&self) -> Box<dyn Subject> {
        Box::new(Self(self.0.clone()))
    }
}

struct QuerySetSubject(wgpu::QuerySet);
impl Subject for QuerySetSubject {
    fn record(&self, gpu: &Gpu, bench: &Bench, encoder: &mut wgpu::CommandEncoder, slot: u64) {
        let group = gpu.group(
            &bench.from_buffer,
            &[bench.source.as_entire_binding(), bench.probe_word(slot)],
        );
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
            label: None,
            timestamp_writes: Some(wgpu::ComputePassTimestampWrites {
                query_set: &self.0,
                beginning_of_pass_write_index: Some(0),
                end_of_pass_write_index: Some(1),
            }),
        });
        pass.set_pipeline(&bench.from_buffer);
        pass.set_bind_group(0, &group, &[]);
        pass.dispatch_workgroups(1, 1, 1);
    }
    fn destroy(&self) {
        self.0.destroy();
    }
    fn again(&self) -> Box<dyn Subject> {
        Box::new(Self(self.0.clone()))
    }
}

fn marked_texture(gpu: &Gpu, format: wgpu::TextureFormat) -> wgpu::Texture {
    let texture = gpu.texture(
        LABEL,
        (1, 1),
        format,
        wgpu::TextureUsages::all_copies() | wgpu::TextureUsages::TEXTURE_BINDING,
    );
    gpu.queue.write_texture(
        texture.as_image_copy(),
        &MARK.to_ne_bytes(),
        Default::default(),
        extent(1, 1, 1),
    );
    gpu.queue.submit([]);
    gpu.quiesce();
    texture
}

fn marked_buffer(gpu: &Gpu, usage: wgpu::BufferUsages) -> wgpu::Buffer {
    let buffer = gpu.buffer(LABEL, 256, usage | wgpu::BufferUsages::COPY_DST);
    gpu.queue.write_buffer(&buffer, 0, &bytes(&[MARK; 64]));
    gpu.queue.submit([]);
    gpu.quiesce();
    buffer
}

const KINDS: &[Kind] = &[
    Kind {
        name: "buffer, copied from",
        make: |gpu, _| {
            Box::new(BufferSubject(marked_buffer(
                gpu,
                wgpu::BufferUsages::COPY_SRC,
            )))
        },
        count: |counts| counts.buffers,
        has_destroy: true,
        bound: false,
    },
    Kind {
        name: "buffer, bound",
        make: |gpu, _| {
            Box::new(BoundBufferSubject(marked_buffer(
                gpu,
                wgpu::BufferUsages::STORAGE,
            )))
        },
        count: |counts| counts.buffers,
        has_destroy: true,
        bound: true,
    },
    Kind {
        name: "texture, copied from",
        make: |gpu, _| {
            Box::new(TextureSubject(marked_texture(
                gpu,
                wgpu::TextureFormat::R32Uint,
            )))
        },
        count: |counts| counts.texture_memory,
        has_destroy: true,
        bound: false,
    },
    Kind {
        name: "texture, bound",
        make: |gpu, _| {
            Box::new(BoundTextureSubject(marked_texture(
                gpu,
                wgpu::TextureFormat::R32Uint,
            )))
        },
        count: |counts| counts.texture_memory,
        has_destroy: true,
        bound: true,
    },
    Kind {
        name: "texture view",
        make: |gpu, bench| Box::new(ViewSubject(gpu.view(&bench.texture))),
        count: |counts| counts.texture_views,
        has_destroy: false,
        bound: false,
    },
    Kind {
        name: "sampler",
        make: |gpu, bench| {
            let texture = gpu.texture(
                "sampled",
                (1, 1),
                wgpu::TextureFormat::Rgba8Unorm,
                wgpu::TextureUsages::COPY_DST | wgpu::TextureUsages::TEXTURE_BINDING,
            );
            gpu.queue.write_texture(
                texture.as_image_copy(),
                &[255; 4],
                Default::default(),
                extent(1, 1, 1),
            );
            gpu.queue.submit([]);
            gpu.quiesce();
            let _ = bench;
            let sampler = gpu.device.create_sampler(&wgpu::SamplerDescriptor {
                label: Some(LABEL),
                ..Default::default()
            });
            Box::new(SamplerSubject(sampler, gpu.view(&texture)))
        },
        count: |counts| counts.samplers,
        has_destroy: false,
        bound: false,
    },
    Kind {
        name: "bind group",
        make: |gpu, bench| {
            let group = gpu.group(
                &bench.from_buffer,
                &[bench.source.as_entire_binding(), bench.probe_word(0)],
            );
            Box::new(GroupSubject(vec![group]))
        },
        count: |counts| counts.bind_groups,
        has_destroy: false,
        bound: false,
    },
    Kind {
        name: "compute pipeline",
        make: |gpu, _| {
            Box::new(PipelineSubject(gpu.pipeline(
                "@group(0) @binding(0) var<storage, read> input: array<u32>;
                @group(0) @binding(1) var<storage, read_write> output: array<u32>;
                @compute @workgroup_size(1) fn main() { output[0] = input[0] | 0u; }",
            )))
        },
        count: |counts| counts.compute_pipelines,
        has_destroy: false,
        bound: false,
    },
    Kind {
        name: "query set",
        make: |gpu, _| {
            Box::new(QuerySetSubject(gpu.device.create_query_set(
                &wgpu::QuerySetDescriptor {
                    label: Some(LABEL),
                    ty: wgpu::QueryType::Timestamp,
                    count: 2,
                },
            )))
        },
        count: |counts| counts.query_sets,
        has_destroy: true,
        bound: false,
    },
];

/// Runs `body` for every kind that this device can have, after everything was warmed up.
fn each_kind(body: impl Fn(&Gpu, &Bench, &Kind)) {
    test(|gpu| {
        gpu.warm_up();
        let bench = Bench::new(gpu);
        for kind in supported(gpu) {
            eprintln!("- {}", kind.name);
            bench.clear(gpu);
            body(gpu, &bench, kind);
        }
    });
}

fn supported(gpu: &Gpu) -> impl Iterator<Item = &'static Kind> {
    let timestamps = gpu
        .device
        .features()
        .contains(wgpu::Features::TIMESTAMP_QUERY);
    KINDS.iter().filter(move |kind| {
        let can = timestamps || kind.name != "query set";
        if !can {
            skip("query sets: the adapter has no timestamps");
        }
        can
    })
}

fn each_destroyable(body: impl Fn(&Gpu, &Bench, &Kind)) {
    each_kind(|gpu, bench, kind| {
        if kind.has_destroy {
            body(gpu, bench, kind);
        }
    });
}

impl Kind {
    fn alive(&self, gpu: &Gpu) -> isize {
        (self.count)(&gpu.settled_counts())
    }

    /// A subject, and how much of its kind is alive without and with it.
    fn make(&self, gpu: &Gpu, bench: &Bench) -> (Box<dyn Subject>, isize, isize) {
        let before = self.alive(gpu);
        let subject = (self.make)(gpu, bench);
        let with = self.alive(gpu);
        assert!(with > before, "{}: it is alive", self.name);
        (subject, before, with)
    }
}

fn record(gpu: &Gpu, bench: &Bench, subject: &dyn Subject) -> wgpu::CommandEncoder {
    let mut encoder = gpu.encoder();
    subject.record(gpu, bench, &mut encoder, 0);
    encoder
}

/// Submits commands that name a destroyed subject: one error that names it, nothing runs.
fn refused(gpu: &Gpu, bench: &Bench, kind: &Kind, commands: wgpu::CommandBuffer) {
    gpu.queue.submit([commands]);
    let errors = gpu.take_uncaptured();
    assert_eq!(errors.len(), 1, "{}: one error of {errors:?}", kind.name);
    assert!(
        errors[0].contains(LABEL),
        "{}: the error names the resource: {}",
        kind.name,
        errors[0]
    );
    gpu.rest();
    assert!(!bench.executed(gpu, 0), "{}: nothing runs", kind.name);
}

/// Submits commands whose subject was dropped: they run, and it goes at the fence.
fn accepted(gpu: &Gpu, bench: &Bench, kind: &Kind, commands: wgpu::CommandBuffer, before: isize) {
    gpu.valid(kind.name, || gpu.queue.submit([commands]));
    gpu.rest();
    assert_eq!(kind.alive(gpu), before, "{}: freed", kind.name);
    assert!(bench.executed(gpu, 0), "{}: it runs", kind.name);
}

#[test]
fn destroyed_before_record() {
    each_destroyable(|gpu, bench, kind| {
        if kind.bound && core() == Core::Wgpu {
            return skip("wgpu-core refuses to make a bind group of a destroyed resource");
        }
        let (subject, before, _) = kind.make(gpu, bench);
        subject.destroy();
        assert_eq!(kind.alive(gpu), before, "{}: freed at once", kind.name);
        let commands = gpu.valid(kind.name, || record(gpu, bench, subject.as_ref()).finish());
        refused(gpu, bench, kind, commands);
        assert_eq!(kind.alive(gpu), before);
    });
}

#[test]
fn destroyed_after_record() {
    each_destroyable(|gpu, bench, kind| {
        let (subject, before, _) = kind.make(gpu, bench);
        let encoder = gpu.valid(kind.name, || record(gpu, bench, subject.as_ref()));
        subject.destroy();
        assert_eq!(kind.alive(gpu), before, "{}: freed at once", kind.name);
        let commands = gpu.valid(kind.name, || encoder.finish());
        refused(gpu, bench, kind, commands);
        assert_eq!(kind.alive(gpu), before);
    });
}

#[test]
fn destroyed_after_finish() {
    each_destroyable(|gpu, bench, kind| {
        let (subject, before, _) = kind.make(gpu, bench);
        let commands = gpu.valid(kind.name, || record(gpu, bench, subject.as_ref()).finish());
        subject.destroy();
        assert_eq!(kind.alive(gpu), before, "{}: freed at once", kind.name);
        refused(gpu, bench, kind, commands);
        assert_eq!(kind.alive(gpu), before);
    });
}

#[test]
fn destroyed_after_completion() {
    each_destroyable(|gpu, bench, kind| {
        let (subject, before, _) = kind.make(gpu, bench);
        let commands = record(gpu, bench, subject.as_ref()).finish();
        gpu.valid(kind.name, || gpu.queue.submit([commands]));
        gpu.rest();
        subject.destroy();
        assert_eq!(kind.alive(gpu), before, "{}: freed at once", kind.name);
        assert!(bench.executed(gpu, 0));
    });
}

#[test]
fn destroyed_twice_then_dropped() {
    each_destroyable(|gpu, bench, kind| {
        let (subject, before, _) = kind.make(gpu, bench);
        let clone = subject.again();
        gpu.valid(kind.name, || {
            subject.destroy();
            subject.destroy();
            clone.destroy();
        });
        assert_eq!(kind.alive(gpu), before, "{}: freed once", kind.name);
        drop(clone);
        drop(subject);
        assert_eq!(kind.alive(gpu), before, "{}: and no more", kind.name);
    });
}

#[test]
fn destroyed_twice_in_flight() {
    each_destroyable(|gpu, bench, kind| {
        let (subject, before, _) = kind.make(gpu, bench);
        let commands = record(gpu, bench, subject.as_ref()).finish();
        gpu.submit_in_flight([commands]);
        gpu.valid(kind.name, || {
            subject.destroy();
            subject.destroy();
        });
        drop(subject);
        gpu.assert_in_flight();
        gpu.rest();
        assert_eq!(kind.alive(gpu), before, "{}: freed once", kind.name);
        assert!(bench.executed(gpu, 0));
    });
}

#[test]
fn dropped_before_record() {
    each_kind(|gpu, bench, kind| {
        let (subject, before, _) = kind.make(gpu, bench);
        drop(subject);
        assert_eq!(kind.alive(gpu), before, "{}: freed at once", kind.name);
    });
}

#[test]
fn dropped_after_record() {
    each_kind(|gpu, bench, kind| {
        let (subject, before, with) = kind.make(gpu, bench);
        let encoder = record(gpu, bench, subject.as_ref());
        drop(subject);
        assert_eq!(kind.alive(gpu), with, "{}: kept", kind.name);
        let commands = gpu.valid(kind.name, || encoder.finish());
        accepted(gpu, bench, kind, commands, before);
    });
}

#[test]
fn dropped_after_finish() {
    each_kind(|gpu, bench, kind| {
        let (subject, before, with) = kind.make(gpu, bench);
        let commands = record(gpu, bench, subject.as_ref()).finish();
        drop(subject);
        assert_eq!(kind.alive(gpu), with, "{}: kept", kind.name);
        accepted(gpu, bench, kind, commands, before);
    });
}

#[test]
fn dropped_with_its_unsubmitted_commands() {
    each_kind(|gpu, bench, kind| {
        let (subject, before, with) = kind.make(gpu, bench);
        let commands = record(gpu, bench, subject.as_ref()).finish();
        let encoder = record(gpu, bench, subject.as_ref());
        drop(subject);
        assert_eq!(kind.alive(gpu), with, "{}: kept", kind.name);
        drop(commands);
        assert_eq!(kind.alive(gpu), with, "{}: kept", kind.name);
        drop(encoder);
        assert_eq!(kind.alive(gpu), before, "{}: freed at once", kind.name);
    });
}

#[test]
fn dropped_after_completion() {
    each_kind(|gpu, bench, kind| {
        let (subject, before, _) = kind.make(gpu, bench);
        let commands = record(gpu, bench, subject.as_ref()).finish();
        gpu.valid(kind.name, || gpu.queue.submit([commands]));
        gpu.rest();
        drop(subject);
        assert_eq!(kind.alive(gpu), before, "{}: freed at once", kind.name);
        assert!(bench.executed(gpu, 0));
    });
}

#[test]
fn dropped_twice() {
    each_kind(|gpu, bench, kind| {
        let (subject, before, with) = kind.make(gpu, bench);
        let clone = subject.again();
        drop(subject);
        assert_eq!(kind.alive(gpu), with, "{}: a clone", kind.name);
        drop(clone);
        assert_eq!(kind.alive(gpu), before, "{}: none", kind.name);
    });
}

/// Ends every kind while one submission that uses all of them is in flight.
fn in_flight(destroy: bool) {
    test(|gpu| {
        gpu.warm_up();
        let bench = Bench::new(gpu);
        let kinds: Vec<_> = supported(gpu)
            .filter(|kind| kind.has_destroy || !destroy)
            .collect();
        let base = gpu.settled_counts();
        let mut subjects = Vec::new();
        let mut commands = Vec::new();
        for (slot, kind) in kinds.iter().enumerate() {
            let subject = (kind.make)(gpu, &bench);
            commands.push(gpu.commands(|encoder| {
                subject.record(gpu, &bench, encoder, slot as u64);
            }));
            subjects.push(subject);
        }
        let full = gpu.settled_counts();

        let slow = gpu.submit_in_flight(commands);
        gpu.valid("ending them in flight", || {
            if destroy {
                subjects.iter().for_each(|subject| subject.destroy());
            } else {
                subjects.clear();
            }
        });
        let meanwhile = gpu.settled_counts();
        gpu.assert_in_flight();
        for kind in &kinds {
            assert_eq!(
                (kind.count)(&meanwhile),
                (kind.count)(&full),
                "{}: not yet freed",
                kind.name
            );
        }
        assert_eq!(meanwhile.buffer_memory, full.buffer_memory);
        assert_eq!(meanwhile.texture_memory, full.texture_memory);

        let after = gpu.counts_after(&slow);
        assert_eq!(after, base, "all freed at the fence, nobody calling");
        for (slot, kind) in kinds.iter().enumerate() {
            assert!(
                bench.executed(gpu, slot as u64),
                "{}: it runs with its old contents",
                kind.name
            );
        }
        drop(subjects);
        assert_eq!(gpu.settled_counts(), base, "tombstones hold nothing");
    });
}

#[test]
fn dropped_in_flight() {
    in_flight(false);
}

#[test]
fn destroyed_in_flight() {
    in_flight(true);
}

/// Destroying a texture takes its views and the bind groups that name them along.
#[test]
fn a_destroyed_texture_takes_views_and_groups_along() {
    if ours_alone("views and bind groups of a destroyed texture stay until they are dropped") {
        return;
    }
    test(|gpu| {
        gpu.warm_up();
        let bench = Bench::new(gpu);
        let base = gpu.counts();
        let texture = marked_texture(gpu, wgpu::TextureFormat::R32Uint);
        let view = gpu.view(&texture);
        let other = gpu.view(&texture);
        let group = gpu.group(
            &bench.from_texture,
            &[
                wgpu::BindingResource::TextureView(&view),
                bench.probe_word(0),
            ],
        );
        let counts = gpu.counts();
        assert_eq!(counts.texture_views, base.texture_views + 2);
        assert_eq!(counts.bind_groups, base.bind_groups + 1);
        texture.destroy();
        assert_eq!(gpu.counts(), base, "all at once");
        drop((group, view, other, texture));
        assert_eq!(gpu.counts(), base, "and only once");
    });
}

/// The same while the GPU still uses the group.
#[test]
fn a_texture_destroyed_in_flight_takes_views_and_groups_along() {
    if ours_alone("views and bind groups of a destroyed texture stay until they are dropped") {
        return;
    }
    test(|gpu| {
        gpu.warm_up();
        let bench = Bench::new(gpu);
        let base = gpu.counts();
        let texture = marked_texture(gpu, wgpu::TextureFormat::R32Uint);
        let view = gpu.view(&texture);
        let group = gpu.group(
            &bench.from_texture,
            &[
                wgpu::BindingResource::TextureView(&view),
                bench.probe_word(0),
            ],
        );
        let commands = gpu.commands(|encoder| bench.dispatch(encoder, &bench.from_texture, &group));
        let slow = gpu.submit_in_flight([commands]);
        texture.destroy();
        let meanwhile = gpu.counts();
        gpu.assert_in_flight();
        assert_eq!(meanwhile.texture_views, base.texture_views + 1);
        assert_eq!(meanwhile.bind_groups, base.bind_groups + 1);
        assert!(meanwhile.texture_memory > base.texture_memory);
        assert_eq!(gpu.counts_after(&slow), base);
        assert!(bench.executed(gpu, 0));
        drop((group, view, texture));
    });
}

/// A buffer's end takes the bind groups that name it along; a bind group's end leaves the buffer.
#[test]
fn a_destroyed_buffer_takes_groups_along() {
    if ours_alone("bind groups of a destroyed buffer stay until they are dropped") {
        return;
    }
    test(|gpu| {
        gpu.warm_up();
        let bench = Bench::new(gpu);
        let base = gpu.counts();
        let buffer = marked_buffer(gpu, wgpu::BufferUsages::STORAGE);
        let groups: Vec<_> = (0..3)
            .map(|slot| {
                gpu.group(
                    &bench.from_buffer,
                    &[buffer.as_entire_binding(), bench.probe_word(slot)],
                )
            })
            .collect();
        assert_eq!(gpu.counts().bind_groups, base.bind_groups + 3);
        buffer.destroy();
        assert_eq!(gpu.counts(), base);
        drop(groups);
        assert_eq!(gpu.counts(), base);
    });
}

/// Staging memory of a write that is never submitted goes with its target; of a submitted one,
/// at the fence.
#[test]
fn staging() {
    if ours_alone("staging of a dropped target stays until a submit and a poll") {
        return;
    }
    test(|gpu| {
        gpu.warm_up();
        let usage = wgpu::BufferUsages::all_copies();
        let data = pattern(1 << 20, 1);
        let base = gpu.counts();

        // The target ends before any submit.
        for destroy in [true, false] {
            let buffer = gpu.buffer("staged to", 1 << 20, usage);
            gpu.queue.write_buffer(&buffer, 0, &data);
            assert!(gpu.counts().buffer_memory >= base.buffer_memory + (2 << 20));
            if destroy {
                buffer.destroy();
            } else {
                drop(buffer);
            }
            let after = gpu.counts();
            assert_eq!(after, base, "destroyed: {destroy}; a buffer's staging");

            let texture = gpu.texture(
                "staged to",
                (512, 512),
                wgpu::TextureFormat::R32Uint,
                wgpu::TextureUsages::all_copies(),
            );
            gpu.queue.write_texture(
                texture.as_image_copy(),
                &data,
                layout(0, 2048, 512),
                extent(512, 512, 1),
            );
            if destroy {
                texture.destroy();
            } else {
                drop(texture);
            }
            assert_eq!(gpu.counts(), base, "destroyed: {destroy}; a texture's");
        }

        // The write is submitted behind slow work.
        let buffer = gpu.buffer("staged to", 1 << 20, usage);
        let alone = gpu.counts();
        gpu.queue.write_buffer(&buffer, 0, &data);
        let staged = gpu.counts();
        let slow = gpu.submit_in_flight([]);
        let meanwhile = gpu.counts();
        gpu.assert_in_flight();
        assert_eq!(meanwhile.buffer_memory, staged.buffer_memory, "not yet");
        assert_eq!(gpu.counts_after(&slow), alone, "at the fence");
        assert_eq!(gpu.read(&buffer), data);
    });
}

/// A view for writing that is given back after its target's end harms nothing.
#[test]
fn staging_view_outlives_its_target() {
    if ours_alone("staging of a write that was refused stays until the device goes") {
        return;
    }
    test(|gpu| {
        gpu.warm_up();
        let base = gpu.settled_counts();
        let buffer = gpu.buffer("target", 4096, wgpu::BufferUsages::all_copies());
        let mut view = gpu
            .queue
            .write_buffer_with(&buffer, 0, wgpu::BufferSize::new(4096).unwrap())
            .expect("a valid write");
        view.copy_from_slice(&pattern(4096, 2));
        buffer.destroy();
        // The view is given back to a queue whose target is gone: the specification makes this
        // no error on a destroyed buffer, wgpu reports one; both are fine, a crash is not.
        let _ = gpu.error_of(|| drop(view));
        drop(buffer);
        gpu.queue.submit([]);
        gpu.quiesce();
        assert_eq!(gpu.settled_counts(), base);
    });
}

/// Large memory goes back to the system, seen from outside: the driver is a software one, so
/// its memory is this process's.
#[test]
fn memory_of_the_process_returns() {
    if ours_alone("nothing is freed without a poll") {
        return;
    }
    test(|gpu| {
        if resident_memory().is_none() {
            return skip("the system does not tell resident memory");
        }
        if gpu.adapter.get_info().device_type != wgpu::DeviceType::Cpu {
            return skip("the driver's memory is not this process's");
        }
        gpu.warm_up();
        let size: u64 = 128 << 20;
        let before = resident_memory().unwrap();
        let buffer = gpu.buffer("large", size, wgpu::BufferUsages::COPY_DST);
        let fill = gpu.commands(|encoder| encoder.clear_buffer(&buffer, 0, None));
        // One submission fills it, so that its pages are resident, then works on.
        gpu.slow_after([fill]);
        drop(buffer);
        // From here on nobody calls in.
        let start = std::time::Instant::now();
        let mut most = before;
        let mut last = before;
        while start.elapsed().as_secs() < 20
            && (most < before + size / 2 || last > before + size / 4)
        {
            std::thread::sleep(std::time::Duration::from_millis(2));
            last = resident_memory().unwrap();
            most = most.max(last);
        }
        assert!(most > before + size / 2, "it was resident in flight");
        assert!(
            last < before + size / 4,
            "resident before {before}, at most {most}, at last {last}"
        );
    });
}
