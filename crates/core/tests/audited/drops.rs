//! Handles dropped in every order, at every stage of their use.
//!
//! A stage makes a small program with eight handles and says which of them keep which memory. Then all
//! 40,320 orders of dropping them are run, each on a device of its own. After each drop exactly the memory
//! that a handle, or a submission in flight, still keeps is there; in the end there is nothing, no rule
//! was broken, and every callback ran once.

use crate::{
    rig::{assert_clean, auditor, instance, take_strays, LIMIT},
    watchdog::Watchdog,
};
use fencepost_audit::{Auditor, Completion};
use fencepost_core::{
    record::{CommandEncoder, ComputePass, TexelCopyBufferInfo, TexelCopyTextureInfo},
    resource::{
        BindGroup, BindGroupDescriptor, BindGroupEntry, BindGroupLayout, BindGroupLayoutDescriptor,
        BindingResource, Buffer, BufferBinding, ComputePipeline, ComputePipelineDescriptor,
        MapMode, MappedRange, PipelineLayoutDescriptor, ShaderSource, Texture, TextureView,
    },
    Adapter, Device, Instance, Options, Queue, Reclaim,
};
use std::{
    any::Any,
    sync::{
        atomic::{AtomicU32, Ordering},
        Arc,
    },
};
use wgpu_types as wgt;

const HANDLES: usize = 8;
/// The bytes of the buffer, of the texture, and of what else a stage makes.
const BUFFER: u64 = 1024;
const TEXTURE: u64 = 4 * 4 * 4;
const OTHER: u64 = 128;

/// What there is at a stage, ready to be dropped.
struct Stage {
    handles: [Box<dyn Any>; HANDLES],
    memory: Vec<Memory>,
    /// How often callbacks ran, and how often they must have in the end.
    called: Arc<AtomicU32>,
    callbacks: u32,
}

/// Bytes, and the handles that keep them, a bit for each.
struct Memory {
    bytes: u64,
    kept_by: u8,
    /// Whether a submission in flight keeps them too.
    in_flight: bool,
}

/// The handles at the given places.
fn at(places: &[usize]) -> u8 {
    places.iter().fold(0, |mask, place| mask | 1 << place)
}

fn kept(bytes: u64, places: &[usize]) -> Memory {
    Memory {
        bytes,
        kept_by: at(places),
        in_flight: false,
    }
}

fn busy(bytes: u64, places: &[usize]) -> Memory {
    Memory {
        in_flight: true,
        ..kept(bytes, places)
    }
}

/// The objects that stages choose from.
struct Parts {
    instance: Arc<Instance>,
    adapter: Arc<Adapter>,
    device: Arc<Device>,
    queue: Queue,
}

impl Parts {
    fn open(auditor: &Auditor) -> Self {
        let options = Options {
            reclaim: Reclaim::OnCall,
            ..Default::default()
        };
        let instance = instance(auditor, options);
        let adapter = instance.request_adapter(&Default::default()).unwrap();
        let device = adapter.request_device(&Default::default()).unwrap();
        let queue = Queue::new(&device);
        Self {
            instance,
            adapter,
            device,
            queue,
        }
    }

    fn buffer(&self, size: u64, usage: wgt::BufferUsages, mapped: bool) -> Arc<Buffer> {
        self.device.create_buffer(&wgt::BufferDescriptor {
            label: None,
            size,
            usage,
            mapped_at_creation: mapped,
        })
    }

    fn storage(&self) -> Arc<Buffer> {
        let copied = wgt::BufferUsages::COPY_SRC | wgt::BufferUsages::COPY_DST;
        self.buffer(BUFFER, wgt::BufferUsages::STORAGE | copied, false)
    }

    fn texture(&self) -> Arc<Texture> {
        self.device.create_texture(&wgt::TextureDescriptor {
            label: None,
            size: wgt::Extent3d {
                width: 4,
                height: 4,
                depth_or_array_layers: 1,
            },
            mip_level_count: 1,
            sample_count: 1,
            dimension: wgt::TextureDimension::D2,
            format: wgt::TextureFormat::Rgba8Unorm,
            usage: wgt::TextureUsages::TEXTURE_BINDING | wgt::TextureUsages::COPY_DST,
            view_formats: &[],
        })
    }

    fn view(&self, texture: &Arc<Texture>) -> Arc<TextureView> {
        texture.create_view(&Default::default())
    }

    fn layout(&self) -> Arc<BindGroupLayout> {
        let entry = |binding, ty| wgt::BindGroupLayoutEntry {
            binding,
            visibility: wgt::ShaderStages::COMPUTE,
            ty,
            count: None,
        };
        let entries = [
            entry(
                0,
                wgt::BindingType::Buffer {
                    ty: wgt::BufferBindingType::Storage { read_only: false },
                    has_dynamic_offset: false,
                    min_binding_size: None,
                },
            ),
            entry(
                1,
                wgt::BindingType::Texture {
                    sample_type: wgt::TextureSampleType::Float { filterable: true },
                    view_dimension: wgt::TextureViewDimension::D2,
                    multisampled: false,
                },
            ),
        ];
        let desc = BindGroupLayoutDescriptor {
            label: None,
            entries: &entries,
        };
        self.device.create_bind_group_layout(&desc)
    }

    fn group(
        &self,
        layout: &Arc<BindGroupLayout>,
        buffer: &Arc<Buffer>,
        view: &Arc<TextureView>,
    ) -> Arc<BindGroup> {
        let entry = |binding, resource| BindGroupEntry {
            binding,
            resource,
            array: false,
        };
        let buffers = vec![BufferBinding {
            buffer,
            offset: 0,
            size: None,
        }];
        self.device.create_bind_group(&BindGroupDescriptor {
            label: None,
            layout,
            entries: &[
                entry(0, BindingResource::Buffers(buffers)),
                entry(1, BindingResource::TextureViews(vec![view])),
            ],
        })
    }

    fn pipeline(&self, layout: &Arc<BindGroupLayout>) -> Arc<ComputePipeline> {
        let layout = self
            .device
            .create_pipeline_layout(&PipelineLayoutDescriptor {
                label: None,
                bind_group_layouts: &[Some(Arc::clone(layout))],
                immediate_size: 0,
            });
        let module = self.device.create_shader_module(
            None,
            ShaderSource::Wgsl("@compute @workgroup_size(1) fn f() {}".into()),
            wgt::ShaderRuntimeChecks::default(),
        );
        self.device
            .create_compute_pipeline(&ComputePipelineDescriptor {
                label: None,
                layout: Some(&layout),
                module: &module,
                entry_point: None,
                constants: &[],
                zero_initialize_workgroup_memory: false,
                cache: None,
            })
    }

    /// A buffer, a texture with its view, and a bind group for them.
    fn bound(&self) -> Bound {
        let (buffer, texture, layout) = (self.storage(), self.texture(), self.layout());
        let view = self.view(&texture);
        Bound {
            group: self.group(&layout, &buffer, &view),
            buffer,
            texture,
            view,
            layout,
        }
    }

    /// Submits `encoder`, and asks to be called when it is done.
    fn submit(&self, encoder: &CommandEncoder, called: &Arc<AtomicU32>) {
        self.queue.submit([encoder.finish()]);
        let called = Arc::clone(called);
        self.queue.on_submitted_work_done(Box::new(move || {
            called.fetch_add(1, Ordering::Relaxed);
        }));
    }
}

struct Bound {
    buffer: Arc<Buffer>,
    texture: Arc<Texture>,
    view: Arc<TextureView>,
    group: Arc<BindGroup>,
    layout: Arc<BindGroupLayout>,
}

impl Bound {
    /// Commands that fill the buffer and the texture.
    fn fill(&self, encoder: &CommandEncoder) {
        encoder.clear_buffer(&self.buffer, 0, None);
        encoder.copy_buffer_to_texture(
            TexelCopyBufferInfo {
                buffer: &self.buffer,
                layout: wgt::TexelCopyBufferLayout {
                    offset: 0,
                    bytes_per_row: Some(256),
                    rows_per_image: None,
                },
            },
            TexelCopyTextureInfo {
                texture: &self.texture,
                mip_level: 0,
                origin: wgt::Origin3d::ZERO,
                aspect: wgt::TextureAspect::All,
            },
            self.texture.size(),
        );
    }

    /// A pass in which the bind group is set.
    fn pass(&self, encoder: &Arc<CommandEncoder>) -> ComputePass {
        let mut pass = encoder.begin_compute_pass(&Default::default());
        pass.set_bind_group(0, Some(&self.group), &[]);
        pass
    }
}

fn stage(handles: [Box<dyn Any>; HANDLES], memory: Vec<Memory>) -> Stage {
    Stage {
        handles,
        memory,
        called: Arc::default(),
        callbacks: 0,
    }
}

/// All handles, as what a stage hands out.
macro_rules! handles {
    ($($handle:expr),* $(,)?) => {[$(Box::new($handle) as Box<dyn Any>),*]};
}

fn nothing_recorded(parts: Parts) -> Stage {
    let (buffer, texture) = (parts.storage(), parts.texture());
    let view = parts.view(&texture);
    let group = parts.group(&parts.layout(), &buffer, &view);
    let Parts {
        instance,
        adapter,
        device,
        queue,
    } = parts;
    stage(
        handles![instance, adapter, device, queue, buffer, texture, view, group],
        vec![kept(BUFFER, &[4, 7]), kept(TEXTURE, &[5, 6, 7])],
    )
}

/// The pass keeps what it has recorded, wherever its encoder is, and leaves it to the encoder in the end.
fn pass_open(parts: Parts) -> Stage {
    let bound = parts.bound();
    let encoder = parts.device.create_command_encoder(None);
    bound.fill(&encoder);
    let pass = bound.pass(&encoder);
    let Parts { device, queue, .. } = parts;
    let Bound {
        buffer,
        texture,
        view,
        group,
        ..
    } = bound;
    stage(
        handles![device, queue, buffer, texture, view, group, encoder, pass],
        vec![kept(BUFFER, &[2, 5, 6, 7]), kept(TEXTURE, &[3, 4, 5, 6, 7])],
    )
}

fn pass_ended(parts: Parts) -> Stage {
    let bound = parts.bound();
    let encoder = parts.device.create_command_encoder(None);
    bound.fill(&encoder);
    drop(bound.pass(&encoder));
    let Parts { device, queue, .. } = parts;
    let Bound {
        buffer,
        texture,
        view,
        group,
        layout,
    } = bound;
    stage(
        handles![device, queue, buffer, texture, view, group, layout, encoder],
        vec![kept(BUFFER, &[2, 5, 7]), kept(TEXTURE, &[3, 4, 5, 7])],
    )
}

fn finished(parts: Parts) -> Stage {
    let bound = parts.bound();
    let encoder = parts.device.create_command_encoder(None);
    bound.fill(&encoder);
    drop(bound.pass(&encoder));
    let commands = encoder.finish();
    let Parts { device, queue, .. } = parts;
    let Bound {
        buffer,
        texture,
        view,
        group,
        ..
    } = bound;
    stage(
        handles![device, queue, buffer, texture, view, group, encoder, commands],
        vec![kept(BUFFER, &[2, 5, 7]), kept(TEXTURE, &[3, 4, 5, 7])],
    )
}

/// The submission keeps the memory, but no handle; the encoder keeps nothing. All that it uses is named by
/// a HAL command buffer: pipeline and bind group by a dispatch.
fn dispatched(parts: Parts) -> Stage {
    let bound = parts.bound();
    let encoder = parts.device.create_command_encoder(None);
    let pipeline = parts.pipeline(&bound.layout);
    let mut pass = bound.pass(&encoder);
    pass.set_pipeline(&pipeline);
    pass.dispatch_workgroups(1, 1, 1);
    drop(pass);
    let called = Arc::default();
    parts.submit(&encoder, &called);
    let Parts { device, queue, .. } = parts;
    let Bound {
        buffer,
        texture,
        view,
        group,
        layout,
    } = bound;
    drop(encoder);
    Stage {
        called,
        callbacks: 1,
        ..stage(
            handles![device, queue, buffer, texture, view, group, layout, pipeline],
            vec![busy(BUFFER, &[2, 5]), busy(TEXTURE, &[3, 4, 5])],
        )
    }
}

/// The same with copies, and with the encoder among the handles.
fn copied(parts: Parts) -> Stage {
    let bound = parts.bound();
    let encoder = parts.device.create_command_encoder(None);
    bound.fill(&encoder);
    drop(bound.pass(&encoder));
    let called = Arc::default();
    parts.submit(&encoder, &called);
    let Parts { device, queue, .. } = parts;
    let Bound {
        buffer,
        texture,
        view,
        group,
        layout,
    } = bound;
    Stage {
        called,
        callbacks: 1,
        ..stage(
            handles![device, queue, buffer, texture, view, group, layout, encoder],
            vec![busy(BUFFER, &[2, 5]), busy(TEXTURE, &[3, 4, 5])],
        )
    }
}

fn completed(parts: Parts) -> Stage {
    let device = Arc::clone(&parts.device);
    let mut stage = copied(parts);
    let wait = wgt::PollType::Wait {
        submission_index: None,
        timeout: None,
    };
    device.poll(wait).unwrap();
    for memory in &mut stage.memory {
        memory.in_flight = false;
    }
    stage
}

/// A view of a mapped buffer keeps its memory: that of a buffer that was mapped, and the staging memory of
/// one that is mapped at creation.
fn mapped_with_views(parts: Parts) -> Stage {
    let called = Arc::<AtomicU32>::default();
    let mapped = parts.buffer(BUFFER, wgt::BufferUsages::MAP_READ, false);
    map(&mapped, &called);
    parts.device.poll(wgt::PollType::Poll).unwrap();
    let view: MappedRange = mapped.mapped_range(0..BUFFER).unwrap();
    let staged = parts.buffer(OTHER, wgt::BufferUsages::COPY_SRC, true);
    let staged_view = staged.mapped_range(0..OTHER).unwrap();
    let Parts {
        instance,
        adapter,
        device,
        queue,
    } = parts;
    Stage {
        called,
        callbacks: 1,
        ..stage(
            handles![
                instance,
                adapter,
                device,
                queue,
                mapped,
                view,
                staged,
                staged_view
            ],
            vec![
                kept(BUFFER, &[4, 5]),
                kept(OTHER, &[6]),
                kept(OTHER, &[6, 7]),
            ],
        )
    }
}

fn map(buffer: &Arc<Buffer>, called: &Arc<AtomicU32>) {
    let called = Arc::clone(called);
    buffer.map_async(
        MapMode::Read,
        0..buffer.size(),
        Box::new(move |_| {
            called.fetch_add(1, Ordering::Relaxed);
        }),
    );
}

/// A mapping waits for a submission, another for somebody to poll, and a write for the next submission.
fn map_pending(parts: Parts) -> Stage {
    let called = Arc::<AtomicU32>::default();
    let usage = wgt::BufferUsages::MAP_READ | wgt::BufferUsages::COPY_DST;
    let used = parts.buffer(BUFFER, usage, false);
    let encoder = parts.device.create_command_encoder(None);
    encoder.clear_buffer(&used, 0, None);
    parts.submit(&encoder, &called);
    map(&used, &called);
    let idle = parts.buffer(OTHER, usage, false);
    map(&idle, &called);
    let written = parts.buffer(BUFFER, usage, false);
    parts.queue.write_buffer(&written, 0, &[1; BUFFER as usize]);
    let Parts {
        instance,
        adapter,
        device,
        queue,
    } = parts;
    Stage {
        called,
        callbacks: 3,
        ..stage(
            handles![instance, adapter, device, queue, used, encoder, idle, written],
            vec![
                busy(BUFFER, &[4]),
                kept(OTHER, &[6]),
                kept(BUFFER, &[7]),
                // The staging memory of the write goes with its target.
                kept(BUFFER, &[7]),
            ],
        )
    }
}

/// Every order of the handles, each once (Heap's method).
fn for_each_order(mut run: impl FnMut(&[usize; HANDLES])) {
    let mut order: [usize; HANDLES] = std::array::from_fn(|place| place);
    let mut counters = [0; HANDLES];
    run(&order);
    let mut place = 1;
    while place < HANDLES {
        if counters[place] < place {
            let other = if place % 2 == 0 { 0 } else { counters[place] };
            order.swap(other, place);
            run(&order);
            counters[place] += 1;
            place = 1;
        } else {
            counters[place] = 0;
            place += 1;
        }
    }
}

#[test]
fn orders_are_all_there() {
    let mut seen = std::collections::HashSet::new();
    for_each_order(|order| {
        assert!(seen.insert(*order));
    });
    assert_eq!(seen.len(), (1..=HANDLES).product::<usize>());
}

/// Drops the handles of a stage in every order. `device` says which handles keep the device; the memory
/// that is its own goes with the last of them.
///
/// With `complete_after` the GPU completes what is in flight after so many drops.
fn drop_all(name: &str, make: fn(Parts) -> Stage, device: u8, complete_after: Option<usize>) {
    let watchdog = Watchdog::new(LIMIT, name);
    let auditor = auditor();
    let clock = auditor.clock();
    clock.set(Completion::ManualOrWaited);
    let mut orders = 0_u32;
    for_each_order(|order| {
        orders += 1;
        if orders % 64 == 1 {
            watchdog.step(format!("{name}, 64 orders from {order:?}"));
        }
        let parts = Parts::open(&auditor);
        let own = auditor.live_bytes();
        let stage = make(parts);
        let mut handles = stage.handles.map(Some);
        let mut left = u8::MAX;
        let mut in_flight = true;
        for (dropped, place) in order.iter().enumerate() {
            if complete_after == Some(dropped) {
                clock.complete_all();
                in_flight = false;
            }
            handles[*place] = None;
            left &= !(1 << place);
            // What completed in flight comes back with the next look at the fence: at the latest when
            // something is let go of. Until then it may be there or not.
            let memory = |in_flight: bool| {
                let kept = stage
                    .memory
                    .iter()
                    .filter(|memory| left & memory.kept_by != 0 || in_flight && memory.in_flight);
                kept.map(|memory| memory.bytes).sum::<u64>()
            };
            let alive = left & device != 0;
            let (least, most) = match (alive, in_flight) {
                (false, _) => (0, 0),
                (true, true) => (own + memory(true), own + memory(true)),
                (true, false) => (own + memory(false), own + memory(complete_after.is_some())),
            };
            let live = auditor.live_bytes();
            assert!(
                least <= live && live <= most,
                "{name}, {order:?}: {live} bytes after {} drops, not {least} to {most}",
                dropped + 1
            );
        }
        let called = stage.called.load(Ordering::Relaxed);
        assert_eq!(called, stage.callbacks, "{name}, {order:?}: callbacks");
        let strays = take_strays();
        assert!(strays.is_empty(), "{name}, {order:?}: {strays:#?}");
        if auditor.report_count() > 0 || !auditor.live_objects().is_empty() {
            assert_clean(&auditor, &format!("{name}, {order:?}"));
        }
    });
    assert_eq!(orders, 40_320);
}

#[test]
fn nothing_is_recorded() {
    drop_all(
        "nothing recorded",
        nothing_recorded,
        at(&[2, 3, 4, 5, 6, 7]),
        None,
    );
}

#[test]
fn a_pass_is_open() {
    drop_all("pass open", pass_open, u8::MAX, None);
}

#[test]
fn a_pass_has_ended() {
    drop_all("pass ended", pass_ended, u8::MAX, None);
}

#[test]
fn an_encoder_is_finished() {
    drop_all("finished", finished, u8::MAX, None);
}

#[test]
fn work_is_in_flight() {
    drop_all("in flight", dispatched, u8::MAX, None);
}

#[test]
fn work_in_flight_completes_halfway() {
    drop_all("in flight, completed halfway", copied, u8::MAX, Some(4));
}

#[test]
fn work_has_completed() {
    drop_all("completed", completed, u8::MAX, None);
}

#[test]
fn mapped_views_are_held() {
    let device = at(&[2, 3, 4, 5, 6, 7]);
    drop_all("mapped", mapped_with_views, device, None);
}

#[test]
fn mappings_are_pending() {
    let device = at(&[2, 3, 4, 5, 6, 7]);
    drop_all("map pending", map_pending, device, None);
}
