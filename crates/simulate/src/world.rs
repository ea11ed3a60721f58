//! The real core under a program: runs its steps and notes what the program sees.
//!
//! A world belongs to its thread, where the callbacks find it. It is never borrowed while the core runs,
//! since the core may call back.

use crate::{
    event::{label, Event, Polled, SeenError, Status},
    step::{Fault, Kind, Mode, Step, Usage, Wait},
};
use fencepost_audit::{AuditMode, Audited, Auditor, Completion, Contract, ObjectKind, Site};
use fencepost_core::{
    device::LostReason,
    record::{
        CommandBuffer, CommandEncoder, ComputePass, ComputePassDescriptor, PassTimestampWrites,
    },
    resource::{
        BindGroup, BindGroupDescriptor, BindGroupEntry, BindGroupLayout, BindGroupLayoutDescriptor,
        BindingResource, Buffer, BufferBinding, ComputePipeline, ComputePipelineDescriptor,
        MapMode, MappedRange, PipelineLayout, PipelineLayoutDescriptor, QuerySet, ShaderSource,
        Texture, TextureView,
    },
    Device, Instance, Options, Queue, Reclaim,
};
use std::{
    cell::RefCell,
    collections::{HashMap, HashSet},
    sync::{Arc, Weak},
    time::Duration,
};
use wgpu_hal::{self as hal, DeviceError, Instance as _};
use wgpu_types as wgt;

/// What new memory holds.
pub(crate) const DIRT: u8 = 0xd1;
/// The features that the devices are made with.
const FEATURES: wgt::Features = wgt::Features::TIMESTAMP_QUERY
    .union(wgt::Features::TIMESTAMP_QUERY_INSIDE_ENCODERS)
    .union(wgt::Features::CLEAR_TEXTURE);

const SHADER: &str = "
    @group(0) @binding(0) var<storage, read> a: array<u32>;
    @group(0) @binding(1) var<storage, read> b: array<u32>;
    @group(0) @binding(2) var<storage, read_write> c: array<u32>;
    @group(0) @binding(3) var t: texture_2d<f32>;
    @compute @workgroup_size(1) fn main() {
        c[0] = a[0] + b[0] + u32(textureLoad(t, vec2(0), 0).x);
    }
";

/// What a dispatch takes besides a bind group.
#[derive(Clone)]
struct Kit {
    layout: Arc<BindGroupLayout>,
    pipeline: Arc<ComputePipeline>,
    _pipeline_layout: Arc<PipelineLayout>,
}

struct DeviceEntry {
    handles: Vec<Arc<Device>>,
    queues: Vec<Queue>,
    kits: Vec<Kit>,
    weak: Weak<Device>,
    /// The auditor's number.
    number: u64,
}

/// What is known of a buffer for as long as the world exists.
struct BufferInfo {
    usage: Usage,
    mapped: bool,
    /// How often it was unmapped.
    epoch: u32,
}

struct Range {
    range: MappedRange,
    buffer: u32,
    epoch: u32,
    writable: bool,
}

type Handles<T> = HashMap<u32, Vec<Arc<T>>>;

pub(crate) struct World {
    pub auditor: Auditor,
    devices: Vec<DeviceEntry>,
    buffers: Handles<Buffer>,
    textures: Handles<Texture>,
    views: Handles<TextureView>,
    groups: Handles<BindGroup>,
    sets: Handles<QuerySet>,
    encoders: Handles<CommandEncoder>,
    passes: HashMap<u32, ComputePass>,
    commands: HashMap<u32, CommandBuffer>,
    ranges: HashMap<u32, Range>,
    infos: HashMap<u32, BufferInfo>,
    made: HashSet<(Kind, u32)>,
    callbacks: HashSet<u32>,
    budget: bool,
    /// Whether user code keeps to itself: while the loss of a device is planned, nobody can say when it runs.
    quiet: bool,
    /// How deep in user code the step is: a loss is planned at the top, where it can be foreseen.
    nested: u32,
    loss_planned: bool,
    pub events: Vec<Event>,
    pub errors: Vec<SeenError>,
}

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

/// A short look at the world. Nothing in it may call the core in a way that calls back or drops an object.
pub(crate) fn with<R>(look: impl FnOnce(&mut World) -> R) -> R {
    WORLD.with_borrow_mut(|world| look(world.as_mut().expect("there is a world")))
}

/// Makes the thread's world.
pub(crate) fn create(devices: u32) {
    let auditor = Auditor::new(Contract::Strict, AuditMode::Collect);
    auditor.set_reset_before_free(true);
    auditor.clock().set(Completion::ManualOrWaited);
    auditor.faults().set_dirty_memory(Some(DIRT));
    let mut backend_options = wgt::BackendOptions::default();
    backend_options.noop.enable = true;
    let desc = hal::InstanceDescriptor {
        name: "simulator",
        flags: wgt::InstanceFlags::empty(),
        memory_budget_thresholds: Default::default(),
        backend_options,
        telemetry: None,
        display: None,
    };
    // SAFETY: the description is complete.
    let raw = unsafe { <hal::api::Noop as hal::Api>::Instance::init(&desc) };
    let raw = raw.expect("the no-op back end is always there");
    let instance = Instance::from_hal(
        Box::new(Audited::<hal::api::Noop>::wrap(raw, &auditor)),
        wgt::Backend::Noop,
        desc.flags,
        Options {
            reclaim: Reclaim::OnCall,
            ..Default::default()
        },
    );
    let adapter = instance
        .request_adapter(&Default::default())
        .expect("there is one adapter");
    let entries = (0..devices).map(|number| {
        let device = adapter.request_device(&wgt::DeviceDescriptor {
            required_features: FEATURES,
            ..Default::default()
        });
        open(&auditor, number, device.expect("the features are there"))
    });
    let world = World {
        devices: entries.collect(),
        auditor,
        buffers: HashMap::new(),
        textures: HashMap::new(),
        views: HashMap::new(),
        groups: HashMap::new(),
        sets: HashMap::new(),
        encoders: HashMap::new(),
        passes: HashMap::new(),
        commands: HashMap::new(),
        ranges: HashMap::new(),
        infos: HashMap::new(),
        made: HashSet::new(),
        callbacks: HashSet::new(),
        budget: false,
        quiet: false,
        nested: 0,
        loss_planned: false,
        events: Vec::new(),
        errors: Vec::new(),
    };
    let before = WORLD.replace(Some(world));
    assert!(before.is_none(), "the world before was not ended");
}

fn open(auditor: &Auditor, number: u32, device: Arc<Device>) -> DeviceEntry {
    device.on_uncaptured_error(Arc::new(move |error| {
        with(|world| {
            world.errors.push(SeenError {
                device: number,
                kind: error.kind(),
                message: error.to_string(),
            });
        });
    }));
    let queue = Queue::new(&device);
    queue.submit([]);
    let submission = auditor.clock().complete_next().expect("it was submitted");
    device
        .poll(wgt::PollType::Poll)
        .expect("nothing is waited for");
    let kit = Kit::new(number, &device);
    DeviceEntry {
        weak: Arc::downgrade(&device),
        handles: vec![device],
        queues: vec![queue],
        kits: vec![kit],
        number: submission.device,
    }
}

impl Kit {
    fn new(number: u32, device: &Arc<Device>) -> Self {
        let label = label(number, Kind::Kit, number);
        let label = Some(&*label);
        let buffer = |binding, read_only| wgt::BindGroupLayoutEntry {
            binding,
            visibility: wgt::ShaderStages::COMPUTE,
            ty: wgt::BindingType::Buffer {
                ty: wgt::BufferBindingType::Storage { read_only },
                has_dynamic_offset: false,
                min_binding_size: None,
            },
            count: None,
        };
        let texture = wgt::BindGroupLayoutEntry {
            binding: 3,
            visibility: wgt::ShaderStages::COMPUTE,
            ty: wgt::BindingType::Texture {
                sample_type: wgt::TextureSampleType::Float { filterable: true },
                view_dimension: wgt::TextureViewDimension::D2,
                multisampled: false,
            },
            count: None,
        };
        let layout = device.create_bind_group_layout(&BindGroupLayoutDescriptor {
            label,
            entries: &[buffer(0, true), buffer(1, true), buffer(2, false), texture],
        });
        let pipeline_layout = device.create_pipeline_layout(&PipelineLayoutDescriptor {
            label,
            bind_group_layouts: &[Some(Arc::clone(&layout))],
            immediate_size: 0,
        });
        let checks = wgt::ShaderRuntimeChecks::checked();
        let module = device.create_shader_module(label, ShaderSource::Wgsl(SHADER.into()), checks);
        let pipeline = device.create_compute_pipeline(&ComputePipelineDescriptor {
            label,
            layout: Some(&pipeline_layout),
            module: &module,
            entry_point: None,
            constants: &[],
            zero_initialize_workgroup_memory: true,
            cache: None,
        });
        Self {
            layout,
            pipeline,
            _pipeline_layout: pipeline_layout,
        }
    }
}

/// The last step of every program: lets go of everything, and of the world. Returns its auditor.
pub(crate) fn end() -> Auditor {
    let world = WORLD.replace(None).expect("there is a world");
    world.auditor.clone()
}

/// Leaves the world as it is: the core has panicked, and its objects may do so again.
pub(crate) fn abandon() {
    std::mem::forget(WORLD.replace(None));
}

fn first<T: Clone>(handles: &HashMap<u32, Vec<T>>, id: u32) -> Option<T> {
    handles.get(&id)?.last().cloned()
}

fn device(id: u32) -> Option<Arc<Device>> {
    with(|world| {
        let entry = world.devices.get(id as usize)?;
        let queue = || entry.queues.last().map(|queue| queue.device());
        entry.handles.last().or_else(queue).cloned()
    })
}

fn kit(id: u32) -> Option<Kit> {
    with(|world| world.devices.get(id as usize)?.kits.last().cloned())
}

fn buffer(id: u32) -> Option<Arc<Buffer>> {
    with(|world| first(&world.buffers, id))
}

fn texture(id: u32) -> Option<Arc<Texture>> {
    with(|world| first(&world.textures, id))
}

fn set(id: u32) -> Option<Arc<QuerySet>> {
    with(|world| first(&world.sets, id))
}

fn encoder(id: u32) -> Option<Arc<CommandEncoder>> {
    with(|world| first(&world.encoders, id))
}

/// Records in a pass. Nothing is reported and nothing dropped before the pass ends.
fn in_pass(id: u32, record: impl FnOnce(&mut ComputePass)) -> Option<()> {
    with(|world| world.passes.get_mut(&id).map(record))
}

/// Whether the number is free, which it is not from here on.
fn claim(kind: Kind, id: u32) -> Option<()> {
    with(|world| world.made.insert((kind, id)).then_some(()))
}

fn event(event: Event) {
    with(|world| world.events.push(event));
}

/// Runs the user code of a callback of a device.
fn call(device: u32, callback: u32, status: Status, then: &[Step]) {
    let runs = with(|world| {
        world.events.push(Event::Called { callback, status });
        let number = world.devices[device as usize].number;
        !world.quiet && !world.auditor.faults().has_lost(number)
    });
    if runs {
        run_nested(then);
    }
}

impl World {
    /// The devices that the HAL has lost and that still exist.
    pub fn lost(&self) -> Vec<bool> {
        let faults = self.auditor.faults();
        let devices = self.devices.iter();
        devices
            .map(|device| faults.has_lost(device.number))
            .collect()
    }

    /// How many submissions each device has in flight.
    pub fn in_flight(&self) -> Vec<u64> {
        let pending = self.auditor.clock().pending();
        let devices = self.devices.iter();
        let of = |number| pending.iter().filter(|info| info.device == number).count() as u64;
        devices.map(|device| of(device.number)).collect()
    }

    pub fn are_planned(&self) -> bool {
        self.auditor.faults().are_planned()
    }
}

/// Runs a step that is not nested in another one.
pub(crate) fn top(step: &Step) {
    with(|world| {
        world.loss_planned &= world.are_planned();
        world.quiet = world.loss_planned;
    });
    if with(|world| world.budget) {
        settle();
    }
    run(step);
}

/// Under a budget every device gives back what it can before the next step, so that the room is known.
fn settle() {
    let weak: Vec<_> = with(|world| world.devices.iter().map(|d| d.weak.clone()).collect());
    for device in weak.iter().filter_map(Weak::upgrade) {
        device.memory_report();
    }
}

fn run_nested(steps: &[Step]) {
    with(|world| world.nested += 1);
    for step in steps {
        run(step);
    }
    with(|world| world.nested -= 1);
}

/// Runs a step. `None` if it names something that is not there.
fn run(step: &Step) -> Option<()> {
    let origin = wgt::Origin3d::ZERO;
    let whole = |texture| wgt::TexelCopyTextureInfo {
        texture,
        mip_level: 0,
        origin,
        aspect: wgt::TextureAspect::All,
    };
    let row = |texture: &Texture| wgt::Extent3d {
        width: texture.size().width,
        height: 1,
        depth_or_array_layers: 1,
    };
    let linear = |buffer, offset| wgt::TexelCopyBufferInfo {
        buffer,
        layout: wgt::TexelCopyBufferLayout {
            offset,
            bytes_per_row: None,
            rows_per_image: None,
        },
    };
    match *step {
        Step::MakeBuffer {
            device: d,
            id,
            size,
            usage,
            mapped,
        } => {
            let device = device(d)?;
            claim(Kind::Buffer, id)?;
            let made = device.create_buffer(&wgt::BufferDescriptor {
                label: Some(&label(d, Kind::Buffer, id)),
                size,
                usage: match usage {
                    Usage::Copy => wgt::BufferUsages::COPY_SRC | wgt::BufferUsages::COPY_DST,
                    Usage::Read => wgt::BufferUsages::MAP_READ | wgt::BufferUsages::COPY_DST,
                    Usage::Write => wgt::BufferUsages::MAP_WRITE | wgt::BufferUsages::COPY_SRC,
                    Usage::Storage => {
                        wgt::BufferUsages::STORAGE
                            | wgt::BufferUsages::COPY_SRC
                            | wgt::BufferUsages::COPY_DST
                            | wgt::BufferUsages::QUERY_RESOLVE
                    }
                },
                mapped_at_creation: mapped,
            });
            with(|world| {
                world.buffers.insert(id, vec![made]);
                let info = BufferInfo {
                    usage,
                    mapped,
                    epoch: 0,
                };
                world.infos.insert(id, info);
            });
        }
        Step::MakeTexture {
            device: d,
            id,
            width,
            layers,
        } => {
            let device = device(d)?;
            claim(Kind::Texture, id)?;
            let made = device.create_texture(&wgt::TextureDescriptor {
                label: Some(&label(d, Kind::Texture, id)),
                size: wgt::Extent3d {
                    width,
                    height: 1,
                    depth_or_array_layers: layers,
                },
                mip_level_count: 1,
                sample_count: 1,
                dimension: wgt::TextureDimension::D2,
                format: wgt::TextureFormat::Rgba8Unorm,
                usage: wgt::TextureUsages::COPY_SRC
                    | wgt::TextureUsages::COPY_DST
                    | wgt::TextureUsages::TEXTURE_BINDING,
                view_formats: &[],
            });
            with(|world| world.textures.insert(id, vec![made]));
        }
        Step::MakeView { texture: t, id } => {
            let texture = texture(t)?;
            claim(Kind::View, id)?;
            let d = texture.label().split('.').next()?.parse().ok()?;
            let made = texture.create_view(&wgt::TextureViewDescriptor {
                label: Some(&label(d, Kind::View, id)),
                dimension: Some(wgt::TextureViewDimension::D2),
                array_layer_count: Some(1),
                ..Default::default()
            });
            with(|world| world.views.insert(id, vec![made]));
        }
        Step::MakeGroup {
            device: d,
            id,
            reads,
            writes,
            view,
        } => {
            let (device, kit) = (device(d)?, kit(d)?);
            let buffers = [buffer(reads.0)?, buffer(reads.1)?, buffer(writes)?];
            let view = with(|world| first(&world.views, view))?;
            claim(Kind::Group, id)?;
            let mut entries: Vec<_> = (0..)
                .zip(&buffers)
                .map(|(binding, buffer)| BindGroupEntry {
                    binding,
                    resource: BindingResource::Buffers(vec![BufferBinding {
                        buffer,
                        offset: 0,
                        size: None,
                    }]),
                    array: false,
                })
                .collect();
            entries.push(BindGroupEntry {
                binding: 3,
                resource: BindingResource::TextureViews(vec![&view]),
                array: false,
            });
            let made = device.create_bind_group(&BindGroupDescriptor {
                label: Some(&label(d, Kind::Group, id)),
                layout: &kit.layout,
                entries: &entries,
            });
            with(|world| world.groups.insert(id, vec![made]));
        }
        Step::MakeSet {
            device: d,
            id,
            count,
        } => {
            let device = device(d)?;
            claim(Kind::Set, id)?;
            let made = device.create_query_set(&wgt::QuerySetDescriptor {
                label: Some(&label(d, Kind::Set, id)),
                ty: wgt::QueryType::Timestamp,
                count,
            });
            with(|world| world.sets.insert(id, vec![made]));
        }
        Step::MakeEncoder { device: d, id } => {
            let device = device(d)?;
            claim(Kind::Encoder, id)?;
            let made = device.create_command_encoder(Some(&label(d, Kind::Encoder, id)));
            with(|world| world.encoders.insert(id, vec![made]));
        }
        Step::Copy {
            encoder: e,
            from,
            from_offset,
            to,
            to_offset,
            size,
        } => {
            let (from, to) = (buffer(from)?, buffer(to)?);
            encoder(e)?.copy_buffer_to_buffer(&from, from_offset, &to, to_offset, Some(size));
        }
        Step::Clear {
            encoder: e,
            buffer: b,
            offset,
            size,
        } => {
            encoder(e)?.clear_buffer(&buffer(b)?, offset, Some(size));
        }
        Step::CopyToTexture {
            encoder: e,
            buffer: b,
            offset,
            texture: t,
        } => {
            let (buffer, texture) = (buffer(b)?, texture(t)?);
            encoder(e)?.copy_buffer_to_texture(
                linear(&buffer, offset),
                whole(&texture),
                row(&texture),
            );
        }
        Step::CopyFromTexture {
            encoder: e,
            texture: t,
            buffer: b,
            offset,
        } => {
            let (buffer, texture) = (buffer(b)?, texture(t)?);
            encoder(e)?.copy_texture_to_buffer(
                whole(&texture),
                linear(&buffer, offset),
                row(&texture),
            );
        }
        Step::CopyTexture {
            encoder: e,
            from,
            to,
        } => {
            let (from, to) = (texture(from)?, texture(to)?);
            encoder(e)?.copy_texture_to_texture(whole(&from), whole(&to), row(&from));
        }
        Step::ClearTexture {
            encoder: e,
            texture: t,
        } => {
            encoder(e)?.clear_texture(&texture(t)?, &Default::default());
        }
        Step::Timestamp {
            encoder: e,
            set: s,
            index,
        } => {
            encoder(e)?.write_timestamp(&set(s)?, index);
        }
        Step::Resolve {
            encoder: e,
            set: s,
            first,
            count,
            buffer: b,
            offset,
        } => {
            encoder(e)?.resolve_query_set(&set(s)?, first, count, &buffer(b)?, offset);
        }
        Step::BeginPass {
            encoder: e,
            id,
            timestamp,
        } => {
            let encoder = encoder(e)?;
            let set = match timestamp {
                Some((s, _)) => Some(set(s)?),
                None => None,
            };
            claim(Kind::Pass, id)?;
            let writes =
                set.as_ref()
                    .zip(timestamp)
                    .map(|(query_set, (_, index))| PassTimestampWrites {
                        query_set,
                        beginning_of_pass_write_index: Some(index),
                        end_of_pass_write_index: None,
                    });
            let pass = encoder.begin_compute_pass(&ComputePassDescriptor {
                label: None,
                timestamp_writes: writes,
            });
            with(|world| world.passes.insert(id, pass));
        }
        Step::SetPipeline { pass, kit: k } => {
            let kit = kit(k)?;
            in_pass(pass, |pass| pass.set_pipeline(&kit.pipeline))?;
        }
        Step::SetGroup { pass, group } => {
            let group = with(|world| first(&world.groups, group))?;
            in_pass(pass, |pass| pass.set_bind_group(0, Some(&group), &[]))?;
        }
        Step::Dispatch { pass } => {
            in_pass(pass, |pass| pass.dispatch_workgroups(1, 1, 1))?;
        }
        Step::Finish { encoder: e, id } => {
            let encoder = encoder(e)?;
            claim(Kind::Commands, id)?;
            let commands = encoder.finish();
            with(|world| world.commands.insert(id, commands));
        }
        Step::Submit {
            device: d,
            ref commands,
            ref during,
        } => {
            let queue = Queue::new(&device(d)?);
            let commands: Vec<_> = with(|world| {
                let ids = commands.0.iter();
                ids.filter_map(|id| world.commands.remove(id)).collect()
            });
            let mut commands = commands.into_iter();
            let mut steps = Some(&during.0).filter(|_| !with(|world| world.quiet));
            queue.submit(std::iter::from_fn(|| {
                if let Some(steps) = steps.take() {
                    run_nested(steps);
                }
                commands.next()
            }));
        }
        Step::WriteBuffer {
            device: d,
            buffer: b,
            offset,
            size,
            value,
        } => {
            let queue = Queue::new(&device(d)?);
            let data = vec![value; size as usize];
            queue.write_buffer(&buffer(b)?, offset, &data);
        }
        Step::WriteTexture {
            device: d,
            texture: t,
        } => {
            let queue = Queue::new(&device(d)?);
            let texture = texture(t)?;
            let size = row(&texture);
            let data = vec![7; size.width as usize * 4];
            queue.write_texture(whole(&texture), &data, Default::default(), size);
        }
        Step::Map {
            buffer: b,
            id,
            mode,
            offset,
            size,
            ref then,
        } => {
            let buffer = buffer(b)?;
            with(|world| world.callbacks.insert(id).then_some(()))?;
            let d = number(buffer.label());
            let (then, mode) = (
                then.clone(),
                match mode {
                    Mode::Reading => MapMode::Read,
                    Mode::Writing => MapMode::Write,
                },
            );
            buffer.map_async(
                mode,
                offset..offset + size,
                Box::new(move |outcome| {
                    let status = match outcome {
                        Ok(()) => Status::Mapped,
                        Err(_) => Status::NotMapped,
                    };
                    call(d, id, status, &then.0);
                }),
            );
        }
        Step::Unmap { buffer: b } => {
            let buffer = buffer(b)?;
            with(|world| world.infos.get_mut(&b).map(|info| info.epoch += 1));
            buffer.unmap();
        }
        Step::Hold {
            buffer: b,
            id,
            offset,
            size,
        } => {
            let buffer = buffer(b)?;
            claim(Kind::Range, id)?;
            let range = buffer.mapped_range(offset..offset + size);
            event(Event::Held {
                range: id,
                mapped: range.is_ok(),
            });
            let range = range.ok()?;
            with(|world| {
                let info = &world.infos[&b];
                let writable = info.usage != Usage::Read || (info.mapped && info.epoch == 0);
                let epoch = info.epoch;
                world.ranges.insert(
                    id,
                    Range {
                        range,
                        buffer: b,
                        epoch,
                        writable,
                    },
                );
            });
        }
        Step::Look { range } => with(|world| {
            let held = world.ranges.get(&range)?;
            if world.infos[&held.buffer].epoch != held.epoch {
                return None;
            }
            let start = held.range.as_ptr().as_ptr();
            // SAFETY: the buffer was not unmapped since the range was taken, so the bytes are the range's,
            // and the only thread that touches them is this one.
            let bytes = (0..held.range.len()).map(|at| u16::from(unsafe { start.add(at).read() }));
            let bytes = bytes.collect();
            world.events.push(Event::Bytes { range, bytes });
            Some(())
        })?,
        Step::Fill { range, value } => with(|world| {
            let held = world.ranges.get(&range)?;
            if world.infos[&held.buffer].epoch != held.epoch || !held.writable {
                return None;
            }
            // SAFETY: as above.
            unsafe {
                held.range
                    .as_ptr()
                    .as_ptr()
                    .write_bytes(value, held.range.len())
            };
            Some(())
        })?,
        Step::Share(kind, id) => share(kind, id)?,
        Step::Drop(kind, id) => let_go(kind, id)?,
        Step::Destroy(kind, id) => match kind {
            Kind::Device => device(id)?.destroy(),
            Kind::Buffer => buffer(id)?.destroy(),
            Kind::Texture => texture(id)?.destroy(),
            Kind::Set => set(id)?.destroy(),
            _ => return None,
        },
        Step::WorkDone {
            device: d,
            id,
            ref then,
        } => {
            let device = device(d)?;
            with(|world| world.callbacks.insert(id).then_some(()))?;
            let then = then.clone();
            device.on_submitted_work_done(Box::new(move || call(d, id, Status::Done, &then.0)));
        }
        Step::OnLost {
            device: d,
            id,
            ref then,
        } => {
            let device = device(d)?;
            with(|world| world.callbacks.insert(id).then_some(()))?;
            let then = then.clone();
            device.set_lost_callback(Box::new(move |reason, _| {
                let status = match reason {
                    LostReason::Unknown => Status::Lost,
                    LostReason::Destroyed => Status::Destroyed,
                };
                call(d, id, status, &then.0);
            }));
        }
        Step::Poll { device: d, wait } => poll(d, wait)?,
        Step::Report { device: d } => {
            let report = device(d)?.memory_report();
            event(Event::Report {
                device: d,
                bytes: report.bytes,
                retired_bytes: report.retired_bytes,
                in_flight: report.submissions_in_flight,
            });
        }
        Step::Complete { device: d } => {
            let clock = with(|world| world.auditor.clock());
            let number = with(|world| Some(world.devices.get(d as usize)?.number))?;
            let pending = clock.pending();
            let next = pending.iter().find(|info| info.device == number)?;
            clock.complete(*next);
            completed();
        }
        Step::CompleteAll => {
            with(|world| world.auditor.clock().complete_all());
            completed();
        }
        Step::Plan(fault) => plan(fault)?,
        Step::Budget(room) => {
            if with(|world| world.loss_planned || world.lost().contains(&true)) {
                return None;
            }
            settle();
            with(|world| {
                let bytes = world.auditor.live_bytes();
                let budget = room.map(|room| bytes + room);
                world.auditor.faults().set_memory_budget(budget);
                world.budget = room.is_some();
            });
        }
    }
    Some(())
}

fn completed() {
    if with(|world| world.budget) {
        settle();
    }
}

fn number(label: &str) -> u32 {
    let number = label
        .split('.')
        .next()
        .and_then(|number| number.parse().ok());
    number.expect("a label begins with the number of the device")
}

fn poll(d: u32, wait: Wait) -> Option<()> {
    let device = device(d)?;
    let clock = with(|world| world.auditor.clock());
    let all = |timeout| wgt::PollType::Wait {
        submission_index: None,
        timeout,
    };
    let poll = match wait {
        Wait::No => wgt::PollType::Poll,
        Wait::Full => all(None),
        Wait::Timeout => {
            // Nothing may wait for the clock meanwhile.
            let busy = with(|world| world.budget || world.are_planned() || world.quiet);
            if busy {
                return None;
            }
            clock.set(Completion::Manual);
            with(|world| world.quiet = true);
            all(Some(Duration::ZERO))
        }
    };
    let answer = match device.poll(poll) {
        Ok(wgt::PollStatus::QueueEmpty) => Polled::Empty,
        Ok(wgt::PollStatus::WaitSucceeded) => Polled::Succeeded,
        Ok(wgt::PollStatus::Poll) => Polled::Busy,
        Err(wgt::PollError::Timeout) => Polled::Timeout,
        Err(_) => Polled::Other,
    };
    if wait == Wait::Timeout {
        clock.set(Completion::ManualOrWaited);
        with(|world| world.quiet = false);
    }
    event(Event::Polled { device: d, answer });
    Some(())
}

fn plan(fault: Fault) -> Option<()> {
    with(|world| {
        let faults = world.auditor.faults();
        let loses = matches!(fault, Fault::Lose(_) | Fault::Submit(_));
        let busy = loses && (world.budget || faults.are_planned() || world.nested > 0);
        if busy || world.loss_planned || world.lost().contains(&true) {
            return None;
        }
        let out = DeviceError::OutOfMemory;
        match fault {
            Fault::Memory(kind, nth) => {
                let kind = match kind {
                    Kind::Buffer => ObjectKind::Buffer,
                    Kind::Texture => ObjectKind::Texture,
                    Kind::View => ObjectKind::TextureView,
                    Kind::Group => ObjectKind::BindGroup,
                    Kind::Set => ObjectKind::QuerySet,
                    _ => return None,
                };
                faults.fail_at(Site::Create(kind), nth, out);
            }
            Fault::MapMemory(nth) => faults.fail_at(Site::Map, nth, out),
            Fault::MapUnexpected(nth) => faults.fail_at(Site::Map, nth, DeviceError::Unexpected),
            Fault::Begin(nth) => faults.fail_at(Site::BeginEncoding, nth, out),
            Fault::End(nth) => faults.fail_at(Site::EndEncoding, nth, out),
            Fault::Submit(nth) => faults.fail_at(Site::Submit, nth, DeviceError::Lost),
            Fault::Lose(nth) => faults.lose_device_at(nth),
        }
        world.loss_planned |= loses;
        Some(())
    })
}

fn share(kind: Kind, id: u32) -> Option<()> {
    fn again<T: Clone>(handles: &mut HashMap<u32, Vec<T>>, id: u32) -> Option<()> {
        once_more(handles.get_mut(&id)?)
    }
    fn once_more<T: Clone>(handles: &mut Vec<T>) -> Option<()> {
        let another = handles.last()?.clone();
        handles.push(another);
        Some(())
    }
    with(|world| match kind {
        Kind::Device => once_more(&mut world.devices.get_mut(id as usize)?.handles),
        Kind::Queue => once_more(&mut world.devices.get_mut(id as usize)?.queues),
        Kind::Kit => once_more(&mut world.devices.get_mut(id as usize)?.kits),
        Kind::Buffer => again(&mut world.buffers, id),
        Kind::Texture => again(&mut world.textures, id),
        Kind::View => again(&mut world.views, id),
        Kind::Group => again(&mut world.groups, id),
        Kind::Set => again(&mut world.sets, id),
        Kind::Encoder => again(&mut world.encoders, id),
        Kind::Pass | Kind::Commands | Kind::Range => None,
    })
}

/// Drops one handle.
fn let_go(kind: Kind, id: u32) -> Option<()> {
    // What is taken out is dropped after the look at the world.
    fn take<T>(kinds: impl FnOnce(&mut World) -> Option<T>) -> Option<()> {
        let handle = with(kinds)?;
        drop(handle);
        Some(())
    }
    fn pop<T>(handles: &mut HashMap<u32, Vec<T>>, id: u32) -> Option<T> {
        handles.get_mut(&id)?.pop()
    }
    match kind {
        Kind::Device => take(|world| world.devices.get_mut(id as usize)?.handles.pop()),
        Kind::Queue => take(|world| world.devices.get_mut(id as usize)?.queues.pop()),
        Kind::Kit => take(|world| world.devices.get_mut(id as usize)?.kits.pop()),
        Kind::Buffer => take(|world| pop(&mut world.buffers, id)),
        Kind::Texture => take(|world| pop(&mut world.textures, id)),
        Kind::View => take(|world| pop(&mut world.views, id)),
        Kind::Group => take(|world| pop(&mut world.groups, id)),
        Kind::Set => take(|world| pop(&mut world.sets, id)),
        Kind::Encoder => take(|world| pop(&mut world.encoders, id)),
        Kind::Pass => take(|world| world.passes.remove(&id)),
        Kind::Commands => take(|world| world.commands.remove(&id)),
        Kind::Range => take(|world| world.ranges.remove(&id)),
    }
}

/// The handles that the world still has: one step each lets go of them.
pub(crate) fn remains() -> Vec<Step> {
    with(|world| {
        fn ids<T>(
            handles: &HashMap<u32, Vec<T>>,
            kind: Kind,
        ) -> impl Iterator<Item = (Kind, u32)> + '_ {
            let all = handles.iter();
            all.flat_map(move |(id, handles)| handles.iter().map(move |_| (kind, *id)))
        }
        let mut all: Vec<(Kind, u32)> = Vec::new();
        for (id, entry) in (0..).zip(&world.devices) {
            all.extend(entry.handles.iter().map(|_| (Kind::Device, id)));
            all.extend(entry.queues.iter().map(|_| (Kind::Queue, id)));
            all.extend(entry.kits.iter().map(|_| (Kind::Kit, id)));
        }
        all.extend(ids(&world.buffers, Kind::Buffer));
        all.extend(ids(&world.textures, Kind::Texture));
        all.extend(ids(&world.views, Kind::View));
        all.extend(ids(&world.groups, Kind::Group));
        all.extend(ids(&world.sets, Kind::Set));
        all.extend(ids(&world.encoders, Kind::Encoder));
        all.extend(world.passes.keys().map(|id| (Kind::Pass, *id)));
        all.extend(world.commands.keys().map(|id| (Kind::Commands, *id)));
        all.extend(world.ranges.keys().map(|id| (Kind::Range, *id)));
        all.sort_unstable();
        all.into_iter()
            .map(|(kind, id)| Step::Drop(kind, id))
            .collect()
    })
}
