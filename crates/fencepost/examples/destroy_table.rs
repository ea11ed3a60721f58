//! What becomes of memory that a program lets go of, on both cores, under the auditor.
//!
//! Each kind of resource is ended, by `destroy()` or by dropping its last handle, at each point of its life,
//! on wgpu-core and on Fencepost: the same program, the same back end, the same clock. The auditor below
//! counts what breaks the standard and the strict contract, and sees when the memory went.
//!
//! Printed as Markdown. Every figure is measured in the run that prints it. On the no-op back end, which is
//! everywhere; `--example destroy_table -- vulkan` takes the first Vulkan driver instead.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::time::{Duration, Instant};

use fencepost_audit::{AuditMode, Audited, Auditor, Completion, Contract, ObjectKind, Report};
use wgpu::hal::{self, Instance as _};
use wgpu::{BindingResource, BufferUsages, TextureUsages};

/// How long a core is given to free memory without being called.
const PATIENCE: Duration = Duration::from_millis(500);

const SIZE: u64 = 1024;

// ---- the program under the table ----

/// What every subject stands on.
struct Bench {
    device: wgpu::Device,
    queue: wgpu::Queue,
    source: wgpu::Buffer,
    target: wgpu::Buffer,
    sampled: wgpu::Texture,
    copy: wgpu::ComputePipeline,
    uniform: wgpu::ComputePipeline,
    load: wgpu::ComputePipeline,
    store: wgpu::ComputePipeline,
    sample: wgpu::ComputePipeline,
}

/// The one handle whose end is looked at. What its commands need beside it they alone hold.
enum Handle {
    Buffer(wgpu::Buffer),
    Texture(wgpu::Texture),
    View(wgpu::TextureView),
    Sampler(wgpu::Sampler),
    BindGroup(wgpu::BindGroup),
    Pipeline(wgpu::ComputePipeline),
    QuerySet(wgpu::QuerySet),
}

struct Kind {
    name: &'static str,
    /// The HAL objects that are waited for, of those that making the subject brings.
    watched: &'static [ObjectKind],
    make: fn(&Bench) -> Handle,
    record: fn(&Bench, &mut wgpu::CommandEncoder, &Handle),
    submitted: fn(&Handle),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Destroyed,
    Dropped,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum When {
    BeforeRecord,
    BeforeFinish,
    BeforeSubmit,
    InFlight,
    AfterCompletion,
}

const COPY: &str = "
    @group(0) @binding(0) var<storage, read> input: array<u32>;
    @group(0) @binding(1) var<storage, read_write> output: array<u32>;
    @compute @workgroup_size(1) fn main() { output[0] = input[0]; }";
const UNIFORM: &str = "
    @group(0) @binding(0) var<uniform> input: vec4<u32>;
    @group(0) @binding(1) var<storage, read_write> output: array<u32>;
    @compute @workgroup_size(1) fn main() { output[0] = input.x; }";
const LOAD: &str = "
    @group(0) @binding(0) var input: texture_2d<f32>;
    @group(0) @binding(1) var<storage, read_write> output: array<u32>;
    @compute @workgroup_size(1) fn main() { output[0] = u32(textureLoad(input, vec2(0, 0), 0).x); }";
const STORE: &str = "
    @group(0) @binding(0) var output: texture_storage_2d<rgba8unorm, write>;
    @compute @workgroup_size(1) fn main() { textureStore(output, vec2(0, 0), vec4(1.0)); }";
const SAMPLE: &str = "
    @group(0) @binding(0) var input: texture_2d<f32>;
    @group(0) @binding(1) var<storage, read_write> output: array<u32>;
    @group(0) @binding(2) var how: sampler;
    @compute @workgroup_size(1) fn main() {
        output[0] = u32(textureSampleLevel(input, how, vec2(0.5), 0.0).x);
    }";

const EXTENT: wgpu::Extent3d = wgpu::Extent3d {
    width: 16,
    height: 16,
    depth_or_array_layers: 1,
};

const fn texels(buffer: &wgpu::Buffer) -> wgpu::TexelCopyBufferInfo<'_> {
    wgpu::TexelCopyBufferInfo {
        buffer,
        layout: wgpu::TexelCopyBufferLayout {
            offset: 0,
            bytes_per_row: Some(256),
            rows_per_image: Some(16),
        },
    }
}

fn buffer(device: &wgpu::Device, label: &str, usage: BufferUsages, mapped: bool) -> wgpu::Buffer {
    device.create_buffer(&wgpu::BufferDescriptor {
        label: Some(label),
        size: SIZE * 4,
        usage,
        mapped_at_creation: mapped,
    })
}

fn texture(device: &wgpu::Device, label: &str, usage: TextureUsages) -> wgpu::Texture {
    device.create_texture(&wgpu::TextureDescriptor {
        label: Some(label),
        size: EXTENT,
        mip_level_count: 1,
        sample_count: 1,
        dimension: wgpu::TextureDimension::D2,
        format: wgpu::TextureFormat::Rgba8Unorm,
        usage,
        view_formats: &[],
    })
}

fn view(texture: &wgpu::Texture) -> wgpu::TextureView {
    texture.create_view(&Default::default())
}

fn pipeline(device: &wgpu::Device, label: &str, wgsl: &str) -> wgpu::ComputePipeline {
    let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
        label: Some(label),
        source: wgpu::ShaderSource::Wgsl(wgsl.into()),
    });
    device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: Some(label),
        layout: None,
        module: &module,
        entry_point: None,
        compilation_options: Default::default(),
        cache: None,
    })
}

impl Bench {
    fn new(device: wgpu::Device, queue: wgpu::Queue) -> Self {
        let all = BufferUsages::COPY_SRC | BufferUsages::COPY_DST | BufferUsages::STORAGE;
        let bench = Self {
            source: buffer(&device, "source", all | BufferUsages::UNIFORM, false),
            target: buffer(&device, "target", all, false),
            sampled: texture(
                &device,
                "sampled",
                TextureUsages::TEXTURE_BINDING | TextureUsages::COPY_DST,
            ),
            copy: pipeline(&device, "copy", COPY),
            uniform: pipeline(&device, "uniform", UNIFORM),
            load: pipeline(&device, "load", LOAD),
            store: pipeline(&device, "store", STORE),
            sample: pipeline(&device, "sample", SAMPLE),
            device,
            queue,
        };
        // What a core makes on first use is made here.
        let mut encoder = bench.device.create_command_encoder(&Default::default());
        encoder.copy_buffer_to_texture(
            texels(&bench.source),
            bench.sampled.as_image_copy(),
            EXTENT,
        );
        encoder.copy_buffer_to_buffer(&bench.source, 0, &bench.target, 0, None);
        bench.queue.submit([encoder.finish()]);
        bench
    }

    fn buffer(&self, usage: BufferUsages) -> Handle {
        Handle::Buffer(buffer(&self.device, "the subject", usage, false))
    }

    fn texture(&self, usage: TextureUsages) -> Handle {
        Handle::Texture(texture(&self.device, "the subject", usage))
    }

    fn group(
        &self,
        pipeline: &wgpu::ComputePipeline,
        resources: &[BindingResource<'_>],
    ) -> wgpu::BindGroup {
        let entries: Vec<_> = (0..)
            .zip(resources)
            .map(|(binding, resource)| wgpu::BindGroupEntry {
                binding,
                resource: resource.clone(),
            })
            .collect();
        self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some("group"),
            layout: &pipeline.get_bind_group_layout(0),
            entries: &entries,
        })
    }

    /// Records a dispatch with a bind group that only the commands hold.
    fn dispatch(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        pipeline: &wgpu::ComputePipeline,
        resources: &[BindingResource<'_>],
    ) {
        let group = self.group(pipeline, resources);
        let mut pass = encoder.begin_compute_pass(&Default::default());
        pass.set_pipeline(pipeline);
        pass.set_bind_group(0, &group, &[]);
        pass.dispatch_workgroups(1, 1, 1);
    }
}

impl Handle {
    fn buffer(&self) -> &wgpu::Buffer {
        match self {
            Self::Buffer(buffer) => buffer,
            _ => unreachable!("the kind's own `make` made it"),
        }
    }

    fn texture(&self) -> &wgpu::Texture {
        match self {
            Self::Texture(texture) => texture,
            _ => unreachable!("the kind's own `make` made it"),
        }
    }

    fn can_be_destroyed(&self) -> bool {
        matches!(self, Self::Buffer(_) | Self::Texture(_) | Self::QuerySet(_))
    }

    fn destroy(&self) {
        match self {
            Self::Buffer(buffer) => buffer.destroy(),
            Self::Texture(texture) => texture.destroy(),
            Self::QuerySet(set) => set.destroy(),
            _ => unreachable!("see `can_be_destroyed`"),
        }
    }
}

const KINDS: &[Kind] = &[
    Kind {
        name: "buffer as copy source",
        watched: &[ObjectKind::Buffer],
        make: |bench| bench.buffer(BufferUsages::COPY_SRC),
        record: |bench, encoder, handle| {
            encoder.copy_buffer_to_buffer(handle.buffer(), 0, &bench.target, 0, None);
        },
        submitted: |_| {},
    },
    Kind {
        name: "buffer as copy destination",
        watched: &[ObjectKind::Buffer],
        make: |bench| bench.buffer(BufferUsages::COPY_DST),
        record: |bench, encoder, handle| {
            encoder.copy_buffer_to_buffer(&bench.source, 0, handle.buffer(), 0, None);
        },
        submitted: |_| {},
    },
    Kind {
        name: "uniform buffer",
        watched: &[ObjectKind::Buffer],
        make: |bench| bench.buffer(BufferUsages::UNIFORM),
        record: |bench, encoder, handle| {
            let bindings = [
                handle.buffer().as_entire_binding(),
                bench.target.as_entire_binding(),
            ];
            bench.dispatch(encoder, &bench.uniform, &bindings);
        },
        submitted: |_| {},
    },
    Kind {
        name: "storage buffer",
        watched: &[ObjectKind::Buffer],
        make: |bench| bench.buffer(BufferUsages::STORAGE),
        record: |bench, encoder, handle| {
            let bindings = [
                bench.source.as_entire_binding(),
                handle.buffer().as_entire_binding(),
            ];
            bench.dispatch(encoder, &bench.copy, &bindings);
        },
        submitted: |_| {},
    },
    Kind {
        name: "indirect buffer",
        watched: &[ObjectKind::Buffer],
        make: |bench| bench.buffer(BufferUsages::INDIRECT),
        record: |bench, encoder, handle| {
            let group = bench.group(
                &bench.copy,
                &[
                    bench.source.as_entire_binding(),
                    bench.target.as_entire_binding(),
                ],
            );
            let mut pass = encoder.begin_compute_pass(&Default::default());
            pass.set_pipeline(&bench.copy);
            pass.set_bind_group(0, &group, &[]);
            pass.dispatch_workgroups_indirect(handle.buffer(), 0);
        },
        submitted: |_| {},
    },
    Kind {
        name: "buffer mapped at creation, unmapped when it is recorded",
        watched: &[ObjectKind::Buffer],
        make: |bench| {
            let usage = BufferUsages::COPY_SRC;
            Handle::Buffer(buffer(&bench.device, "the subject", usage, true))
        },
        record: |bench, encoder, handle| {
            handle.buffer().unmap();
            encoder.copy_buffer_to_buffer(handle.buffer(), 0, &bench.target, 0, None);
        },
        submitted: |_| {},
    },
    Kind {
        name: "buffer mapped to read, once submitted",
        watched: &[ObjectKind::Buffer],
        make: |bench| bench.buffer(BufferUsages::MAP_READ | BufferUsages::COPY_DST),
        record: |bench, encoder, handle| {
            encoder.copy_buffer_to_buffer(&bench.source, 0, handle.buffer(), 0, None);
        },
        submitted: |handle| handle.buffer().map_async(wgpu::MapMode::Read, .., drop),
    },
    Kind {
        name: "buffer and its staging for write_buffer",
        watched: &[ObjectKind::Buffer],
        make: |bench| {
            let handle = bench.buffer(BufferUsages::COPY_SRC | BufferUsages::COPY_DST);
            let data = [7; SIZE as usize];
            bench.queue.write_buffer(handle.buffer(), 0, &data);
            handle
        },
        record: |bench, encoder, handle| {
            encoder.copy_buffer_to_buffer(handle.buffer(), 0, &bench.target, 0, None);
        },
        submitted: |_| {},
    },
    Kind {
        name: "texture as copy source",
        watched: &[ObjectKind::Texture],
        make: |bench| bench.texture(TextureUsages::COPY_SRC),
        record: |bench, encoder, handle| {
            let from = handle.texture().as_image_copy();
            encoder.copy_texture_to_buffer(from, texels(&bench.target), EXTENT);
        },
        submitted: |_| {},
    },
    Kind {
        name: "texture as copy destination",
        watched: &[ObjectKind::Texture],
        make: |bench| bench.texture(TextureUsages::COPY_DST),
        record: |bench, encoder, handle| {
            let to = handle.texture().as_image_copy();
            encoder.copy_buffer_to_texture(texels(&bench.source), to, EXTENT);
        },
        submitted: |_| {},
    },
    Kind {
        name: "sampled texture",
        watched: &[ObjectKind::Texture],
        make: |bench| bench.texture(TextureUsages::TEXTURE_BINDING),
        record: |bench, encoder, handle| {
            let view = view(handle.texture());
            let bindings = [
                BindingResource::TextureView(&view),
                bench.target.as_entire_binding(),
            ];
            bench.dispatch(encoder, &bench.load, &bindings);
        },
        submitted: |_| {},
    },
    Kind {
        name: "storage texture",
        watched: &[ObjectKind::Texture],
        make: |bench| bench.texture(TextureUsages::STORAGE_BINDING),
        record: |bench, encoder, handle| {
            let view = view(handle.texture());
            bench.dispatch(
                encoder,
                &bench.store,
                &[BindingResource::TextureView(&view)],
            );
        },
        submitted: |_| {},
    },
    Kind {
        name: "texture and its staging for write_texture",
        watched: &[ObjectKind::Texture, ObjectKind::Buffer],
        make: |bench| {
            let handle = bench.texture(TextureUsages::COPY_SRC | TextureUsages::COPY_DST);
            bench.queue.write_texture(
                handle.texture().as_image_copy(),
                &[7; 16 * 16 * 4],
                wgpu::TexelCopyBufferLayout {
                    offset: 0,
                    bytes_per_row: Some(64),
                    rows_per_image: None,
                },
                EXTENT,
            );
            handle
        },
        record: |bench, encoder, handle| {
            let from = handle.texture().as_image_copy();
            encoder.copy_texture_to_buffer(from, texels(&bench.target), EXTENT);
        },
        submitted: |_| {},
    },
    Kind {
        name: "query set",
        watched: &[ObjectKind::QuerySet],
        make: |bench| {
            Handle::QuerySet(bench.device.create_query_set(&wgpu::QuerySetDescriptor {
                label: Some("the subject"),
                ty: wgpu::QueryType::Timestamp,
                count: 2,
            }))
        },
        record: |_, encoder, handle| {
            let Handle::QuerySet(query_set) = handle else {
                unreachable!("the kind's own `make` made it")
            };
            drop(encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
                label: None,
                timestamp_writes: Some(wgpu::ComputePassTimestampWrites {
                    query_set,
                    beginning_of_pass_write_index: Some(0),
                    end_of_pass_write_index: Some(1),
                }),
            }));
        },
        submitted: |_| {},
    },
    Kind {
        name: "texture view",
        watched: &[ObjectKind::TextureView],
        make: |bench| Handle::View(view(&bench.sampled)),
        record: |bench, encoder, handle| {
            let Handle::View(view) = handle else {
                unreachable!("the kind's own `make` made it")
            };
            let bindings = [
                BindingResource::TextureView(view),
                bench.target.as_entire_binding(),
            ];
            bench.dispatch(encoder, &bench.load, &bindings);
        },
        submitted: |_| {},
    },
    Kind {
        name: "sampler",
        watched: &[ObjectKind::Sampler],
        make: |bench| {
            Handle::Sampler(bench.device.create_sampler(&wgpu::SamplerDescriptor {
                label: Some("the subject"),
                ..Default::default()
            }))
        },
        record: |bench, encoder, handle| {
            let Handle::Sampler(sampler) = handle else {
                unreachable!("the kind's own `make` made it")
            };
            let view = view(&bench.sampled);
            let bindings = [
                BindingResource::TextureView(&view),
                bench.target.as_entire_binding(),
                BindingResource::Sampler(sampler),
            ];
            bench.dispatch(encoder, &bench.sample, &bindings);
        },
        submitted: |_| {},
    },
    Kind {
        name: "bind group",
        watched: &[ObjectKind::BindGroup],
        make: |bench| {
            let bindings = [
                bench.source.as_entire_binding(),
                bench.target.as_entire_binding(),
            ];
            Handle::BindGroup(bench.group(&bench.copy, &bindings))
        },
        record: |bench, encoder, handle| {
            let Handle::BindGroup(group) = handle else {
                unreachable!("the kind's own `make` made it")
            };
            let mut pass = encoder.begin_compute_pass(&Default::default());
            pass.set_pipeline(&bench.copy);
            pass.set_bind_group(0, group, &[]);
            pass.dispatch_workgroups(1, 1, 1);
        },
        submitted: |_| {},
    },
    Kind {
        name: "compute pipeline",
        watched: &[ObjectKind::ComputePipeline],
        make: |bench| Handle::Pipeline(pipeline(&bench.device, "the subject", COPY)),
        record: |bench, encoder, handle| {
            let Handle::Pipeline(pipeline) = handle else {
                unreachable!("the kind's own `make` made it")
            };
            let bindings = [
                bench.source.as_entire_binding(),
                bench.target.as_entire_binding(),
            ];
            bench.dispatch(encoder, pipeline, &bindings);
        },
        submitted: |_| {},
    },
];

// ---- one cell ----

/// When the watched objects were seen gone, first to last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Back {
    AtOnce,
    AtTheFence,
    AfterPoll,
    AfterSubmit,
    WithTheDevice,
    Never,
}

impl Back {
    fn name(self) -> &'static str {
        match self {
            Self::AtOnce => "at once",
            Self::AtTheFence => "at the fence",
            Self::AfterPoll => "at a poll",
            Self::AfterSubmit => "at a submit and a poll",
            Self::WithTheDevice => "with the device",
            Self::Never => "never",
        }
    }
}

/// What one program did under one contract.
struct Cell {
    back: Back,
    reports: Vec<Report>,
}

/// Waits, calling nothing but the auditor, until no object of `watched` is left.
fn gone(auditor: &Auditor, watched: &[u64], patience: Duration) -> bool {
    let end = Instant::now() + patience;
    loop {
        let live = auditor.live_objects();
        if !live.iter().any(|object| watched.contains(&object.id)) {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Runs one program: makes a subject, lets it live until `when`, ends it and looks when its memory is back.
/// `None` where the kind has no such end.
fn cell(
    core: &Core,
    contract: Contract,
    kind: &Kind,
    end: End,
    when: When,
) -> Result<Option<Cell>, String> {
    let auditor = Auditor::new(contract, AuditMode::Collect);
    let clock = auditor.clock();
    let instance = (core.instance)(&auditor)?;
    let (device, queue) = open(&instance)?;
    // Refused submissions are part of the table; what refuses them is not.
    device.on_uncaptured_error(std::sync::Arc::new(|_| {}));
    let bench = Bench::new(device, queue);
    let _ = bench.device.poll(wgpu::PollType::wait_indefinitely());
    clock.set(Completion::Manual);

    let before: Vec<u64> = auditor.live_objects().iter().map(|o| o.id).collect();
    let handle = (kind.make)(&bench);
    let watched: Vec<u64> = auditor
        .live_objects()
        .iter()
        .filter(|object| kind.watched.contains(&object.kind) && !before.contains(&object.id))
        .map(|object| object.id)
        .collect();
    if watched.is_empty() {
        return Err(format!("{}: nothing to watch was made", kind.name));
    }
    let exists = end == End::Dropped || handle.can_be_destroyed();

    let mut handle = Some(handle);
    let mut encoder = None;
    let mut commands = None;
    let mut back = None;
    for now in [
        When::BeforeRecord,
        When::BeforeFinish,
        When::BeforeSubmit,
        When::InFlight,
        When::AfterCompletion,
    ] {
        // The step that leads to `now`.
        match now {
            When::BeforeRecord => {}
            When::BeforeFinish => {
                encoder = handle.as_ref().map(|handle| {
                    let mut encoder = bench.device.create_command_encoder(&Default::default());
                    (kind.record)(&bench, &mut encoder, handle);
                    encoder
                });
            }
            When::BeforeSubmit => commands = encoder.take().map(|encoder| encoder.finish()),
            When::InFlight => {
                if let Some(commands) = commands.take() {
                    bench.queue.submit([commands]);
                }
                if let Some(handle) = &handle {
                    (kind.submitted)(handle);
                }
            }
            When::AfterCompletion => {
                clock.complete_all();
                if now == when {
                    // The program has seen the completion.
                    let _ = bench.device.poll(wgpu::PollType::Poll);
                }
            }
        }
        if now == when && exists {
            match end {
                End::Destroyed => handle.as_ref().expect("it ends once").destroy(),
                End::Dropped => drop(handle.take()),
            }
            if gone(&auditor, &watched, Duration::ZERO) {
                back = Some(Back::AtOnce);
            }
        }
    }
    let polled = || bench.device.poll(wgpu::PollType::Poll).is_ok();
    let back = match back {
        Some(back) => back,
        None if gone(&auditor, &watched, PATIENCE) => Back::AtTheFence,
        None if polled() && gone(&auditor, &watched, Duration::ZERO) => Back::AfterPoll,
        None => {
            bench.queue.submit([]);
            clock.complete_all();
            if polled() && gone(&auditor, &watched, Duration::ZERO) {
                Back::AfterSubmit
            } else {
                Back::WithTheDevice
            }
        }
    };
    clock.set(Completion::ManualOrWaited);
    drop((handle, bench, instance));
    let back = match back {
        Back::WithTheDevice if !gone(&auditor, &watched, Duration::ZERO) => Back::Never,
        back => back,
    };
    let reports = auditor.take_reports();
    Ok(exists.then_some(Cell { back, reports }))
}

// ---- the cores ----

struct Core {
    name: &'static str,
    instance: fn(&Auditor) -> Result<wgpu::Instance, String>,
}

fn descriptor(backends: wgpu::Backends) -> wgpu::InstanceDescriptor {
    let mut desc = wgpu::InstanceDescriptor {
        backends,
        flags: wgpu::InstanceFlags::empty(),
        ..wgpu::InstanceDescriptor::new_without_display_handle()
    };
    desc.backend_options.noop.enable = true;
    desc
}

/// wgpu-core on an audited back end.
fn wgpu_core<A: hal::Api>(auditor: &Auditor) -> Result<wgpu::Instance, String> {
    let desc = descriptor(A::VARIANT.into());
    let desc = hal::InstanceDescriptor {
        name: "destroy table",
        flags: desc.flags,
        memory_budget_thresholds: desc.memory_budget_thresholds,
        backend_options: desc.backend_options,
        telemetry: None,
        display: None,
    };
    // SAFETY: the description is complete.
    let raw = unsafe { A::Instance::init(&desc) }.map_err(|error| error.to_string())?;
    let audited = Audited::<A>::wrap(raw, auditor);
    // SAFETY: the instance is new and nobody else's.
    Ok(unsafe { wgpu::Instance::from_hal::<Audited<A>>(audited) })
}

/// Fencepost on an audited back end.
fn fencepost<A: hal::Api>(auditor: &Auditor) -> Result<wgpu::Instance, String> {
    let desc = descriptor(A::VARIANT.into());
    Ok(fencepost::Builder::new(desc).audit(auditor).instance())
}

fn cores<A: hal::Api>() -> [Core; 2] {
    [
        Core {
            name: "wgpu-core",
            instance: wgpu_core::<A>,
        },
        Core {
            name: "Fencepost",
            instance: fencepost::<A>,
        },
    ]
}

fn open(instance: &wgpu::Instance) -> Result<(wgpu::Device, wgpu::Queue), String> {
    let adapters = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::all()));
    let adapter = adapters.into_iter().next().ok_or("no adapter answers")?;
    pollster::block_on(adapter.request_device(&wgpu::DeviceDescriptor {
        required_features: wgpu::Features::TIMESTAMP_QUERY,
        ..Default::default()
    }))
    .map_err(|error| error.to_string())
}

// ---- the table ----

/// The cells of one core for one line of the table: a kind's under each contract, or why there is none.
#[derive(Default)]
struct Line {
    kinds: usize,
    /// Kinds with a report, and reports by rule, per contract.
    broken: BTreeMap<&'static str, (usize, BTreeMap<String, usize>)>,
    back: BTreeMap<Back, usize>,
    failed: Vec<String>,
}

/// One example of each rule that a core broke, with how often it did.
type Examples = BTreeMap<(&'static str, &'static str, String), (usize, String)>;

const CONTRACTS: [(&str, Contract); 2] = [
    ("standard", Contract::Standard),
    ("strict", Contract::Strict),
];

fn line(core: &Core, end: End, when: When, examples: &mut Examples) -> Line {
    // The kinds have nothing to do with each other, and most of the time is waiting.
    let per_kind: Vec<_> = std::thread::scope(|scope| {
        let run = |kind: &'static Kind| {
            scope.spawn(move || {
                CONTRACTS.map(|(name, contract)| {
                    let run = || cell(core, contract, kind, end, when);
                    let result = catch_unwind(AssertUnwindSafe(run))
                        .unwrap_or_else(|payload| Err(format!("panics: {}", text(&*payload))));
                    (name, result.map_err(|why| format!("{}: {why}", kind.name)))
                })
            })
        };
        let threads: Vec<_> = KINDS.iter().map(run).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| thread.join().expect("caught");
        threads.into_iter().map(join).collect()
    });
    let mut line = Line::default();
    for (kind, contracts) in KINDS.iter().zip(per_kind) {
        let mut counted = false;
        for (contract, result) in contracts {
            let cell = match result {
                Ok(Some(cell)) => cell,
                Ok(None) => continue,
                Err(why) => {
                    line.failed.push(format!("{why} ({contract})"));
                    continue;
                }
            };
            // The memory is the same under both: the contract changes what is reported, nothing else.
            if !counted {
                counted = true;
                line.kinds += 1;
                *line.back.entry(cell.back).or_default() += 1;
            }
            let broken = line.broken.entry(contract).or_default();
            broken.0 += usize::from(!cell.reports.is_empty());
            for report in cell.reports {
                let rule = format!("{:?}", report.violation);
                *broken.1.entry(rule.clone()).or_default() += 1;
                let example = || (0, format!("{}: {report}", kind.name));
                let key = (core.name, contract, rule);
                examples.entry(key).or_insert_with(example).0 += 1;
            }
        }
    }
    line
}

fn text(payload: &dyn Any) -> String {
    let of_str = payload.downcast_ref::<&str>().map(ToString::to_string);
    let text = of_str.or_else(|| payload.downcast_ref::<String>().cloned());
    text.unwrap_or_default()
}

impl Line {
    fn columns(&self) -> String {
        let reports = |contract| match self.broken.get(contract) {
            Some((kinds, rules)) if !rules.is_empty() => {
                let rules: Vec<_> = rules.keys().map(|rule| format!("`{rule}`")).collect();
                format!("{kinds} of {}: {}", self.kinds, rules.join(", "))
            }
            _ => "none".to_owned(),
        };
        let count = |(back, count): (&Back, &usize)| format!("{count} {}", back.name());
        let back: Vec<_> = self.back.iter().map(count).collect();
        let failed = match self.failed.len() {
            0 => String::new(),
            failed => format!("; {failed} failed"),
        };
        let back = back.join(", ");
        format!(
            "{} | {} | {back}{failed}",
            reports("standard"),
            reports("strict")
        )
    }
}

fn print<A: hal::Api>() {
    let cores = cores::<A>();
    let mut examples = Examples::new();
    let mut failed = Vec::new();
    let head = cores.each_ref().map(|core| {
        let name = core.name;
        format!("{name}: standard | {name}: strict | {name}: back")
    });
    println!("| ended | kinds | {} |", head.join(" | "));
    println!("|---|---|{}", "---|".repeat(6));
    for (end, how) in [(End::Destroyed, "destroyed"), (End::Dropped, "dropped")] {
        for (when, point) in [
            (When::BeforeRecord, "before it is recorded"),
            (When::BeforeFinish, "before `finish`"),
            (When::BeforeSubmit, "before `submit`"),
            (When::InFlight, "in flight"),
            (When::AfterCompletion, "after completion"),
        ] {
            let lines = cores
                .each_ref()
                .map(|core| line(core, end, when, &mut examples));
            let columns = lines.each_ref().map(Line::columns).join(" | ");
            println!("| {how} {point} | {} | {columns} |", lines[0].kinds);
            for (core, line) in cores.iter().zip(lines) {
                let tell = |why| format!("{}, {how} {point}: {why}", core.name);
                failed.extend(line.failed.into_iter().map(tell));
            }
        }
    }
    println!();
    for ((core, contract, rule), (count, example)) in &examples {
        println!("- {core}, {contract} contract: {count} × `{rule}`, the first of them: {example}");
    }
    if examples.is_empty() {
        println!("No core broke a rule.");
    }
    for why in failed {
        println!("- failed: {why}");
    }
}

fn main() {
    // A panic of a core is told in the table.
    std::panic::set_hook(Box::new(|_| {}));
    match std::env::args().nth(1).as_deref() {
        None | Some("noop") => print::<hal::api::Noop>(),
        #[cfg(not(target_vendor = "apple"))]
        Some("vulkan") => print::<hal::api::Vulkan>(),
        Some(other) => println!("{other:?} is no back end of this example: noop or vulkan"),
    }
}
