//! A program that uses every kind of thing the core has, and survives whatever is made to fail in it.
//!
//! One [round](Program::round) makes everything anew, so a second round calls every entry point once more,
//! on a device that may be lost by then. The program never breaks a rule by itself: an error that it sees
//! is the consequence of a failure.

use crate::rig::{self, Unblock};
use fencepost_audit::Auditor;
use fencepost_core::{
    device::LostReason,
    instance::RequestDeviceError,
    record::{
        CommandEncoder, ComputePassDescriptor, PassTimestampWrites, TexelCopyBufferInfo,
        TexelCopyTextureInfo,
    },
    resource::{
        BindGroup, BindGroupDescriptor, BindGroupEntry, BindGroupLayout, BindGroupLayoutDescriptor,
        BindingResource, Buffer, BufferBinding, ComputePipelineDescriptor, MapError, MapMode,
        MappedRange, PipelineCacheDescriptor, PipelineLayoutDescriptor, QuerySet, ShaderSource,
        Texture, TextureView,
    },
    Device, ErrorKind, Options, Queue,
};
use parking_lot::Mutex;
use std::{any::Any, fmt, sync::Arc, thread};
use wgpu_types as wgt;

/// The bytes of each buffer.
const BYTES: u64 = 1024;
const EXTENT: wgt::Extent3d = wgt::Extent3d {
    width: 4,
    height: 4,
    depth_or_array_layers: 1,
};
const SHADER: &str = "
    @group(0) @binding(0) var<storage, read_write> data: array<u32>;
    @compute @workgroup_size(1) fn main() { data[0] = 1u; }
";

/// A callback that the program gave away, with what became of it.
#[derive(Debug)]
pub struct Callback<T> {
    pub name: &'static str,
    /// Each call.
    pub calls: Vec<T>,
}

/// An error that the program saw.
#[derive(Clone, Debug)]
pub struct Reported {
    /// The step that it came from, or `uncaptured`.
    pub step: &'static str,
    pub kind: ErrorKind,
    pub message: String,
}

/// What the program saw.
#[derive(Debug, Default)]
pub struct Log {
    pub lost: Vec<LostReason>,
    pub maps: Vec<Callback<Result<(), MapError>>>,
    pub done: Vec<Callback<()>>,
    pub errors: Vec<Reported>,
    /// Callbacks that ran on the reclaim thread (I6).
    pub misplaced: u32,
}

impl Log {
    fn note_thread(&mut self) {
        if thread::current().name() == Some("fencepost reclaim") {
            self.misplaced += 1;
        }
    }

    /// Every callback ran exactly once, and where it may.
    #[track_caller]
    pub fn assert_callbacks(&self, when: &dyn fmt::Display) {
        for map in &self.maps {
            assert_eq!(map.calls.len(), 1, "{when}: the mapping {:?}", map.name);
        }
        for done in &self.done {
            assert_eq!(done.calls.len(), 1, "{when}: work done {:?}", done.name);
        }
        assert!(self.lost.len() <= 1, "{when}: lost as {:?}", self.lost);
        assert_eq!(self.misplaced, 0, "{when}: callbacks on the reclaim thread");
    }
}

/// See the [module documentation](self).
pub struct Program {
    _unblock: Unblock,
    pub auditor: Auditor,
    pub log: Arc<Mutex<Log>>,
    pub device: Arc<Device>,
    pub queue: Queue,
    /// Whether nothing is made to fail, so that everything must work.
    clean: bool,
}

/// What a round leaves behind: handles, a mapping that is held, work in flight.
pub type Left = Vec<Box<dyn Any>>;

impl Program {
    /// Opens a device. If nothing is going to fail, the program is `clean`.
    pub fn open(
        auditor: &Auditor,
        options: Options,
        clean: bool,
    ) -> Result<Self, RequestDeviceError> {
        let required_features = wgt::Features::TIMESTAMP_QUERY
            | wgt::Features::TIMESTAMP_QUERY_INSIDE_ENCODERS
            | wgt::Features::TIMESTAMP_QUERY_INSIDE_PASSES
            | wgt::Features::PIPELINE_STATISTICS_QUERY
            | wgt::Features::CLEAR_TEXTURE
            | wgt::Features::PIPELINE_CACHE;
        let instance = rig::instance(auditor, options);
        let adapter = instance.request_adapter(&Default::default()).unwrap();
        let device = adapter.request_device(&wgt::DeviceDescriptor {
            required_features,
            ..Default::default()
        })?;
        let log = Arc::new(Mutex::new(Log::default()));
        let queue = Queue::new(&device);
        let this = Self {
            _unblock: Unblock(auditor.clone()),
            auditor: auditor.clone(),
            log,
            device,
            queue,
            clean,
        };
        let log = Arc::clone(&this.log);
        this.device.set_lost_callback(Box::new(move |reason, _| {
            let mut log = log.lock();
            log.note_thread();
            log.lost.push(reason);
        }));
        let log = Arc::clone(&this.log);
        this.device.on_uncaptured_error(Arc::new(move |error| {
            log.lock().errors.push(Reported {
                step: "uncaptured",
                kind: error.kind(),
                message: error.to_string(),
            });
        }));
        Ok(this)
    }

    /// Takes one step inside of a scope for each kind of error, and notes what they catch.
    pub fn step<T>(&self, step: &'static str, body: impl FnOnce() -> T) -> T {
        let filters = [
            ErrorKind::Validation,
            ErrorKind::OutOfMemory,
            ErrorKind::Internal,
        ];
        let scopes = filters.map(|filter| self.device.push_error_scope(filter));
        let result = body();
        for (filter, scope) in filters.into_iter().zip(scopes).rev() {
            if let Some(error) = self.device.pop_error_scope(scope) {
                assert_eq!(error.kind(), filter, "{error}: the wrong scope");
                self.log.lock().errors.push(Reported {
                    step,
                    kind: filter,
                    message: error.to_string(),
                });
            }
        }
        result
    }

    /// The value, if there is one. There must be if nothing fails.
    #[track_caller]
    fn allow<T, E: fmt::Debug>(&self, result: Result<T, E>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                assert!(!self.clean, "{error:?}");
                None
            }
        }
    }

    /// Registers a callback for completed work.
    pub fn work_done(&self, name: &'static str) {
        let index = {
            let mut log = self.log.lock();
            let calls = Vec::new();
            log.done.push(Callback { name, calls });
            log.done.len() - 1
        };
        let log = Arc::clone(&self.log);
        self.queue.on_submitted_work_done(Box::new(move || {
            let mut log = log.lock();
            log.note_thread();
            log.done[index].calls.push(());
        }));
    }

    /// Asks for a mapping of a whole buffer.
    pub fn map(&self, name: &'static str, buffer: &Arc<Buffer>, mode: MapMode) {
        let index = {
            let mut log = self.log.lock();
            let calls = Vec::new();
            log.maps.push(Callback { name, calls });
            log.maps.len() - 1
        };
        let log = Arc::clone(&self.log);
        let callback = Box::new(move |outcome| {
            let mut log = log.lock();
            log.note_thread();
            log.maps[index].calls.push(outcome);
        });
        self.step(name, || buffer.map_async(mode, 0..BYTES, callback));
    }

    pub fn poll(&self, poll: wgt::PollType<u64>) {
        let polled = self.step("poll", || self.device.poll(poll));
        self.allow(polled);
    }

    /// Completes what is in flight, and waits for it.
    pub fn wait(&self) {
        self.auditor.clock().complete_all();
        self.poll(wgt::PollType::Wait {
            submission_index: None,
            timeout: None,
        });
    }

    pub fn submit(&self, encoder: &Arc<CommandEncoder>) {
        let commands = self.step("finish", || encoder.finish());
        self.step("Queue::submit", || self.queue.submit([commands]));
    }

    pub fn buffer(
        &self,
        label: &'static str,
        usage: wgt::BufferUsages,
        mapped_at_creation: bool,
    ) -> Arc<Buffer> {
        self.step(label, || {
            self.device.create_buffer(&wgt::BufferDescriptor {
                label: Some(label),
                size: BYTES,
                usage,
                mapped_at_creation,
            })
        })
    }

    fn texture(
        &self,
        label: &'static str,
        sample_count: u32,
        usage: wgt::TextureUsages,
    ) -> Arc<Texture> {
        self.step(label, || {
            self.device.create_texture(&wgt::TextureDescriptor {
                label: Some(label),
                size: EXTENT,
                mip_level_count: 1,
                sample_count,
                dimension: wgt::TextureDimension::D2,
                format: wgt::TextureFormat::Rgba8Unorm,
                usage,
                view_formats: &[],
            })
        })
    }

    fn queries(&self, label: &'static str, ty: wgt::QueryType) -> Arc<QuerySet> {
        self.step(label, || {
            self.device.create_query_set(&wgt::QuerySetDescriptor {
                label: Some(label),
                ty,
                count: 8,
            })
        })
    }

    fn view(&self, label: &'static str, texture: &Arc<Texture>) -> Arc<TextureView> {
        self.step(label, || {
            texture.create_view(&wgt::TextureViewDescriptor {
                label: Some(label),
                ..Default::default()
            })
        })
    }

    fn group(
        &self,
        label: &'static str,
        layout: &Arc<BindGroupLayout>,
        resources: Vec<BindingResource<'_>>,
    ) -> Arc<BindGroup> {
        let entries: Vec<_> = (0..)
            .zip(resources)
            .map(|(binding, resource)| BindGroupEntry {
                binding,
                resource,
                array: false,
            })
            .collect();
        self.step(label, || {
            self.device.create_bind_group(&BindGroupDescriptor {
                label: Some(label),
                layout,
                entries: &entries,
            })
        })
    }

    /// Bytes of a mapped buffer.
    fn mapped(&self, buffer: &Buffer) -> Option<MappedRange> {
        self.allow(buffer.mapped_range(0..BYTES))
    }

    /// Makes everything and uses it. Some of it stays in flight.
    #[expect(
        clippy::too_many_lines,
        reason = "one program, from its beginning to its end"
    )]
    pub fn round(&self) -> Left {
        use wgt::{BufferUsages as Usage, TextureUsages};
        let (device, queue, clock) = (&self.device, &self.queue, self.auditor.clock());

        // Buffers, with every way to fill one.
        let plain = self.buffer(
            "plain",
            Usage::STORAGE | Usage::COPY_SRC | Usage::COPY_DST,
            false,
        );
        let arguments = self.buffer("arguments", Usage::INDIRECT | Usage::COPY_DST, false);
        let results = self.buffer("results", Usage::QUERY_RESOLVE | Usage::COPY_SRC, false);
        let staged = self.buffer("staged", Usage::COPY_SRC | Usage::COPY_DST, true);
        if let Some(bytes) = self.mapped(&staged) {
            fill(&bytes, 1);
        }
        self.step("staged", || staged.unmap());
        let upload = self.buffer("upload", Usage::MAP_WRITE | Usage::COPY_SRC, true);
        if let Some(bytes) = self.mapped(&upload) {
            fill(&bytes, 2);
        }
        self.step("upload", || upload.unmap());
        // Mapped at creation, and its view is held to the end, in either kind of memory.
        let mapped = self.buffer("mapped", Usage::MAP_WRITE | Usage::COPY_SRC, true);
        let mapped_bytes = self.mapped(&mapped);
        let shadowed = self.buffer("shadowed", Usage::COPY_SRC, true);
        let shadowed_bytes = self.mapped(&shadowed);
        let readback = self.buffer("readback", Usage::MAP_READ | Usage::COPY_DST, false);
        let writable = self.buffer("writable", Usage::MAP_WRITE | Usage::COPY_SRC, false);
        self.step("plain", || queue.write_buffer(&plain, 0, &[3; 64]));
        self.step("arguments", || {
            queue.write_buffer(&arguments, 0, bytes_of(&[1, 1, 1]));
        });
        self.step("staging memory", || {
            if queue.validate_write_buffer(&plain, 64, 64) {
                if let Some(staging) = queue.create_staging_buffer(64) {
                    queue.write_staging_buffer(&plain, 64, staging);
                }
            }
        });

        // Textures.
        let copied = TextureUsages::COPY_SRC | TextureUsages::COPY_DST;
        let target = self.texture("target", 1, copied | TextureUsages::TEXTURE_BINDING);
        let second = self.texture("second", 1, copied);
        let fresh = self.texture("fresh", 1, copied);
        let samples = self.texture(
            "samples",
            4,
            TextureUsages::RENDER_ATTACHMENT | TextureUsages::TEXTURE_BINDING,
        );
        let rows = |bytes_per_row| wgt::TexelCopyBufferLayout {
            offset: 0,
            bytes_per_row: Some(bytes_per_row),
            rows_per_image: None,
        };
        self.step("target", || {
            queue.write_texture(texels(&target), &[4; 64], rows(16), EXTENT);
        });
        let view = self.view("view", &target);
        let sampler = self.step("sampler", || {
            device.create_sampler(&wgt::SamplerDescriptor {
                label: Some("sampler"),
                ..Default::default()
            })
        });

        // Pipelines.
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
            entry(
                2,
                wgt::BindingType::Sampler(wgt::SamplerBindingType::NonFiltering),
            ),
        ];
        let layout = self.step("layout", || {
            device.create_bind_group_layout(&BindGroupLayoutDescriptor {
                label: Some("layout"),
                entries: &entries,
            })
        });
        let pipeline_layout = self.step("pipeline layout", || {
            device.create_pipeline_layout(&PipelineLayoutDescriptor {
                label: Some("pipeline layout"),
                bind_group_layouts: &[Some(Arc::clone(&layout))],
                immediate_size: 0,
            })
        });
        let module = self.step("module", || {
            device.create_shader_module(
                Some("module"),
                ShaderSource::Wgsl(SHADER.into()),
                wgt::ShaderRuntimeChecks::default(),
            )
        });
        let cache = self.step("cache", || {
            let desc = PipelineCacheDescriptor {
                label: Some("cache"),
                data: None,
                fallback: true,
            };
            // SAFETY: there is no data.
            unsafe { device.create_pipeline_cache(&desc) }
        });
        let make_pipeline = |label, layout| {
            self.step(label, || {
                device.create_compute_pipeline(&ComputePipelineDescriptor {
                    label: Some(label),
                    layout,
                    module: &module,
                    entry_point: None,
                    constants: &[],
                    zero_initialize_workgroup_memory: true,
                    cache: Some(&cache),
                })
            })
        };
        let pipeline = make_pipeline("pipeline", Some(&pipeline_layout));
        let automatic = make_pipeline("automatic", None);
        self.step("cache", || cache.get_data());
        let bind = |buffer| {
            BindingResource::Buffers(vec![BufferBinding {
                buffer,
                offset: 0,
                size: None,
            }])
        };
        let group = self.group(
            "group",
            &layout,
            vec![
                bind(&plain),
                BindingResource::TextureViews(vec![&view]),
                BindingResource::Samplers(vec![&sampler]),
            ],
        );
        let automatic_layout = self.step("automatic", || automatic.get_bind_group_layout(0));
        let automatic_group = self.group("automatic group", &automatic_layout, vec![bind(&plain)]);

        // Queries.
        let timestamps = self.queries("timestamps", wgt::QueryType::Timestamp);
        let statistics = self.queries(
            "statistics",
            wgt::QueryType::PipelineStatistics(
                wgt::PipelineStatisticsTypes::COMPUTE_SHADER_INVOCATIONS,
            ),
        );
        let retired_queries = self.queries("retired queries", wgt::QueryType::Timestamp);

        // Everything in one command buffer.
        let all = self.step("all", || {
            let all = device.create_command_encoder(Some("all"));
            all.push_debug_group("copies");
            all.write_timestamp(&timestamps, 0);
            all.clear_buffer(&plain, 512, None);
            all.copy_buffer_to_buffer(&staged, 0, &plain, 0, Some(256));
            let linear = |buffer| TexelCopyBufferInfo {
                buffer,
                layout: rows(256),
            };
            all.copy_buffer_to_texture(linear(&upload), texels(&second), EXTENT);
            all.copy_texture_to_buffer(texels(&second), linear(&plain), EXTENT);
            all.copy_texture_to_texture(texels(&fresh), texels(&target), EXTENT);
            all.clear_texture(&fresh, &Default::default());
            all.clear_texture(&samples, &Default::default());
            all.insert_debug_marker("between");
            all.pop_debug_group();
            {
                let mut pass = all.begin_compute_pass(&ComputePassDescriptor {
                    label: Some("pass"),
                    timestamp_writes: Some(PassTimestampWrites {
                        query_set: &timestamps,
                        beginning_of_pass_write_index: Some(1),
                        end_of_pass_write_index: Some(2),
                    }),
                });
                pass.push_debug_group("dispatches");
                pass.set_pipeline(&pipeline);
                pass.set_bind_group(0, Some(&group), &[]);
                pass.begin_pipeline_statistics_query(&statistics, 0);
                pass.dispatch_workgroups(1, 1, 1);
                pass.end_pipeline_statistics_query();
                pass.dispatch_workgroups_indirect(&arguments, 0);
                pass.set_pipeline(&automatic);
                pass.set_bind_group(0, Some(&automatic_group), &[]);
                pass.dispatch_workgroups_indirect(&arguments, 4);
                pass.write_timestamp(&timestamps, 3);
                pass.insert_debug_marker("end");
                pass.pop_debug_group();
            }
            all.resolve_query_set(&timestamps, 0, 8, &results, 0);
            all.resolve_query_set(&statistics, 0, 1, &results, 256);
            let buffers = [wgt::BufferTransition {
                buffer: &plain,
                state: wgt::BufferUses::COPY_SRC,
            }];
            all.transition_resources(buffers.into_iter(), std::iter::empty());
            all
        });
        self.submit(&all);
        self.work_done("everything");

        // A mapping behind a submission, behind a write, and one that is given up.
        let read = device.create_command_encoder(Some("read"));
        read.copy_buffer_to_buffer(&plain, 0, &readback, 0, None);
        self.submit(&read);
        self.map("readback", &readback, MapMode::Read);
        let written = self.buffer("written", Usage::MAP_READ | Usage::COPY_DST, false);
        self.step("written", || queue.write_buffer(&written, 0, &[5; 64]));
        self.map("written", &written, MapMode::Read);
        self.map("given up", &writable, MapMode::Write);
        self.step("writable", || writable.unmap());

        // Things that are let go of in flight: destroyed, dropped, with a pending mapping.
        let doomed = self.buffer("doomed", Usage::MAP_READ | Usage::COPY_DST, false);
        let doomed_texture = self.texture("doomed texture", 1, copied);
        let dropped = self.buffer(
            "dropped",
            Usage::STORAGE | Usage::COPY_SRC | Usage::COPY_DST,
            false,
        );
        let dropped_group = self.group("dropped group", &automatic_layout, vec![bind(&dropped)]);
        let doom = self.step("doom", || {
            let doom = device.create_command_encoder(Some("doom"));
            doom.copy_buffer_to_buffer(&dropped, 0, &doomed, 0, None);
            doom.copy_texture_to_texture(texels(&target), texels(&doomed_texture), EXTENT);
            doom.write_timestamp(&retired_queries, 0);
            let mut pass = doom.begin_compute_pass(&Default::default());
            pass.set_pipeline(&automatic);
            pass.set_bind_group(0, Some(&dropped_group), &[]);
            pass.dispatch_workgroups(1, 1, 1);
            drop(pass);
            doom
        });
        self.submit(&doom);
        self.map("doomed", &doomed, MapMode::Read);
        self.step("let go", || {
            doomed.destroy();
            doomed_texture.destroy();
            retired_queries.destroy();
            drop((dropped_group, dropped));
        });
        self.work_done("doom");
        // An allocation with retired memory in flight, and a submission of nothing but a write.
        let late = self.buffer("late", Usage::COPY_SRC | Usage::COPY_DST, false);
        self.step("late", || queue.write_buffer(&late, 0, &[6; 64]));
        self.step("Queue::submit", || queue.submit([]));

        // Time passes.
        clock.complete_next();
        self.poll(wgt::PollType::Poll);
        self.wait();
        for buffer in [&readback, &written] {
            drop(self.mapped(buffer));
            self.step("unmap", || buffer.unmap());
        }
        self.map("writable", &writable, MapMode::Write);
        self.poll(wgt::PollType::Poll);
        if let Some(bytes) = self.mapped(&writable) {
            fill(&bytes, 7);
        }
        self.step("unmap", || writable.unmap());

        // What is forgotten before it runs: a write to something destroyed, recordings.
        self.step("second", || {
            queue.write_texture(texels(&second), &[8; 64], rows(16), EXTENT);
        });
        second.destroy();
        drop(device.create_command_encoder(Some("never finished")));
        let unsubmitted = device.create_command_encoder(Some("unsubmitted"));
        unsubmitted.clear_buffer(&late, 0, None);
        let unsubmitted = self.step("finish", || unsubmitted.finish());

        // Numbers.
        self.step("numbers", || {
            let report = device.memory_report();
            assert!(!self.clean || report.objects > 20, "{report}");
            device.get_internal_counters();
            device.generate_allocator_report();
            queue.get_timestamp_period();
        });

        // In flight at the end: a submission, a mapping, a callback, a write that waits.
        let last = device.create_command_encoder(Some("last"));
        last.copy_buffer_to_buffer(&writable, 0, &readback, 0, None);
        last.clear_buffer(&late, 0, None);
        self.submit(&last);
        self.map("last", &readback, MapMode::Read);
        self.work_done("last");
        self.step("plain", || queue.write_buffer(&plain, 0, &[9; 64]));

        vec![
            Box::new((plain, arguments, results, staged, upload)),
            Box::new((mapped_bytes, mapped, shadowed, shadowed_bytes)),
            Box::new((readback, writable, written, doomed, late)),
            Box::new((unsubmitted, all, read, doom, last)),
            Box::new((view, target, second, fresh, samples, doomed_texture)),
            Box::new((sampler, layout, pipeline_layout, module, cache)),
            Box::new((group, automatic_group, automatic_layout)),
            Box::new((pipeline, automatic)),
            Box::new((timestamps, statistics, retired_queries)),
        ]
    }
}

fn texels(texture: &Arc<Texture>) -> TexelCopyTextureInfo<'_> {
    TexelCopyTextureInfo {
        texture,
        mip_level: 0,
        origin: wgt::Origin3d::ZERO,
        aspect: wgt::TextureAspect::All,
    }
}

fn fill(bytes: &MappedRange, value: u8) {
    // SAFETY: the range is mapped while `bytes` lives, and nobody else has it.
    unsafe { bytes.as_ptr().as_ptr().write_bytes(value, bytes.len()) };
}

/// Three words as bytes.
fn bytes_of(words: &[u32; 3]) -> &[u8] {
    // SAFETY: any byte of a `u32` is a byte.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}
