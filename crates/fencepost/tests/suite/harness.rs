//! What every test stands on: a device of its own, errors and messages caught, work in flight
//! for certain, counters, and bytes back from the GPU.
//!
//! Invariants:
//! - One test at a time uses the driver, so that validation messages belong to the test that runs.
//! - When a test ends, everything it made is gone before its messages are read: what the layer
//!   says at `vkDestroyDevice` about leaked objects fails that test.
//! - Fencepost runs on the auditor, in strict mode: each report fails the test that caused it.
//! - A test that cannot run says so on stderr (`skipped: <name>: <why>`) and is no failure.

use std::fmt::Debug;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use fencepost_audit::{AuditMode, Auditor, Contract};
use parking_lot::{Mutex, MutexGuard};
use wgpu::util::DeviceExt as _;

use crate::messages;

/// One test at a time.
static DRIVER: Mutex<()> = Mutex::new(());

/// How long the slow work of [`Gpu::submit_in_flight`] takes on an idle machine.
const SLOW: Duration = Duration::from_millis(250);

/// The most that passes between the fence and the memory, nobody calling in.
pub const AT_THE_FENCE: Duration = Duration::from_millis(250);

/// Which core the tests run on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Core {
    /// Ours.
    Fencepost,
    /// wgpu's own, to test the tests.
    Wgpu,
}

/// The core that the environment selects.
pub fn core() -> Core {
    static CORE: OnceLock<Core> = OnceLock::new();
    *CORE.get_or_init(|| match std::env::var("FENCEPOST_TEST_CORE") {
        Ok(name) if name == "wgpu" => Core::Wgpu,
        Ok(name) if name != "fencepost" => {
            panic!("FENCEPOST_TEST_CORE is {name:?}; it may be \"fencepost\" or \"wgpu\"")
        }
        _ => Core::Fencepost,
    })
}

/// The auditor below everything that the tests make, in its strictest mode; `None` if the environment
/// says to run without it.
pub fn auditor() -> Option<&'static Auditor> {
    static AUDITOR: OnceLock<Option<Auditor>> = OnceLock::new();
    let make = || match std::env::var("FENCEPOST_TEST_AUDIT").as_deref() {
        Ok("off") => None,
        Ok("on") | Err(_) => {
            let auditor = Auditor::new(Contract::Strict, AuditMode::Collect);
            auditor.set_reset_before_free(true);
            Some(auditor)
        }
        Ok(other) => panic!("FENCEPOST_TEST_AUDIT is {other:?}; it may be \"on\" or \"off\""),
    };
    AUDITOR.get_or_init(make).as_ref()
}

/// A builder of Fencepost's, audited unless the environment says otherwise.
pub fn builder(desc: wgpu::InstanceDescriptor) -> fencepost::Builder {
    let builder = fencepost::Builder::new(desc);
    match auditor() {
        Some(auditor) => builder.audit(auditor),
        None => builder,
    }
}

/// An instance of the core under test.
pub fn instance(desc: wgpu::InstanceDescriptor) -> wgpu::Instance {
    match core() {
        Core::Fencepost => builder(desc).instance(),
        Core::Wgpu => wgpu::Instance::new(desc),
    }
}

/// A descriptor for one backend, with the validation layer on.
pub fn descriptor(backends: wgpu::Backends) -> wgpu::InstanceDescriptor {
    wgpu::InstanceDescriptor {
        backends,
        flags: wgpu::InstanceFlags::VALIDATION
            | wgpu::InstanceFlags::DEBUG
            | wgpu::InstanceFlags::VALIDATION_INDIRECT_CALL,
        ..wgpu::InstanceDescriptor::new_without_display_handle()
    }
}

/// The name of the running test: the test harness names the thread after it.
pub fn test_name() -> String {
    let name = std::thread::current().name().unwrap_or("?").to_owned();
    name.rsplit("::").next().unwrap_or("?").to_owned()
}

/// Says that the running test cannot run, and why.
pub fn skip(why: &str) {
    eprintln!("skipped: {}: {why}", test_name());
}

/// Fails unless an error names the object that it is about. wgpu-core often does not.
#[track_caller]
pub fn assert_names(error: &str, label: &str) {
    assert!(
        core() == Core::Wgpu || error.contains(label),
        "the error does not name {label:?}: {error}"
    );
}

/// Whether this test is about a promise that only Fencepost makes, while it runs on wgpu-core.
/// `why` says what wgpu-core does instead.
pub fn ours_alone(why: &str) -> bool {
    let other = core() == Core::Wgpu;
    if other {
        skip(&format!("wgpu-core does not promise this: {why}"));
    }
    other
}

/// The instance that all Vulkan tests share.
fn shared_instance() -> &'static wgpu::Instance {
    static INSTANCE: OnceLock<wgpu::Instance> = OnceLock::new();
    INSTANCE.get_or_init(|| instance(descriptor(wgpu::Backends::VULKAN)))
}

/// The driver under test, or why there is none.
pub fn adapter() -> Result<wgpu::Adapter, String> {
    let adapters = pollster::block_on(shared_instance().enumerate_adapters(wgpu::Backends::VULKAN));
    adapters
        .into_iter()
        .next()
        .ok_or_else(|| "no Vulkan adapter answers".to_owned())
}

/// Runs a test on a device with every optional feature that the tests know about.
pub fn test(body: impl FnOnce(&Gpu)) {
    test_with(wgpu::Features::empty(), body);
}

/// Runs a test on a device that has at least `required`; without them the test is skipped.
pub fn test_with(required: wgpu::Features, body: impl FnOnce(&Gpu)) {
    let guard = DRIVER.lock();
    messages::listen(|| drop(instance(descriptor(wgpu::Backends::VULKAN))));
    drop(messages::take());
    let adapter = match adapter() {
        Ok(adapter) => adapter,
        Err(why) => return skip(&why),
    };
    if !adapter.features().contains(required) {
        let missing = required - adapter.features();
        return skip(&format!("the adapter lacks {missing:?}"));
    }
    let gpu = Gpu::new(adapter, required, guard);
    body(&gpu);
    gpu.finish();
}

/// Runs a test that makes its own instances and devices, with messages checked as ever.
pub fn test_bare(body: impl FnOnce()) {
    let _guard = DRIVER.lock();
    messages::listen(|| drop(instance(descriptor(wgpu::Backends::VULKAN))));
    drop(messages::take());
    body();
    check_messages();
}

fn check_messages() {
    if messages::no_layer() {
        skip("its validation messages: the Khronos layer is not installed");
    }
    let reports = auditor().map(Auditor::take_reports).unwrap_or_default();
    let messages = messages::take();
    if let Some(first) = reports.first() {
        panic!(
            "{} reports of the auditor, the first: {first}\n{}",
            reports.len(),
            first.backtrace
        );
    }
    assert!(
        messages.is_empty(),
        "{} messages of the validation layer, the first: {}",
        messages.len(),
        messages[0]
    );
}

/// A device under test and what belongs to it.
pub struct Gpu {
    pub adapter: wgpu::Adapter,
    pub device: wgpu::Device,
    pub queue: wgpu::Queue,
    /// Errors that reached the uncaptured-error handler.
    uncaptured: Arc<Mutex<Vec<String>>>,
    slow: OnceLock<Slow>,
    _one_at_a_time: MutexGuard<'static, ()>,
}

/// Slow work: a shader, what it writes to, and how much of it takes how long.
struct Slow {
    pipeline: wgpu::ComputePipeline,
    group: wgpu::BindGroup,
}

impl Gpu {
    fn new(
        adapter: wgpu::Adapter,
        required: wgpu::Features,
        guard: MutexGuard<'static, ()>,
    ) -> Self {
        let liked = wgpu::Features::TIMESTAMP_QUERY | wgpu::Features::CLEAR_TEXTURE;
        let required_limits = wgpu::Limits {
            max_immediate_size: adapter.limits().max_immediate_size.min(128),
            max_buffer_size: adapter.limits().max_buffer_size.min(1 << 30),
            ..wgpu::Limits::default()
        };
        let (device, queue) = pollster::block_on(adapter.request_device(&wgpu::DeviceDescriptor {
            label: Some("device under test"),
            required_features: required | (adapter.features() & liked),
            required_limits: if required.contains(wgpu::Features::IMMEDIATES) {
                required_limits
            } else {
                wgpu::Limits {
                    max_immediate_size: 0,
                    ..required_limits
                }
            },
            ..Default::default()
        }))
        .expect("a device with the default limits");
        let uncaptured = Arc::new(Mutex::new(Vec::new()));
        let sink = uncaptured.clone();
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
            sink.lock().push(error.to_string());
        }));
        Self {
            adapter,
            device,
            queue,
            uncaptured,
            slow: OnceLock::new(),
            _one_at_a_time: guard,
        }
    }

    /// Ends the test: nothing may be left over.
    fn finish(self) {
        // A device that the test destroyed or lost may refuse to be polled.
        let _ = self.device.poll(wgpu::PollType::wait_indefinitely());
        let uncaptured = std::mem::take(&mut *self.uncaptured.lock());
        let Self {
            adapter,
            device,
            queue,
            slow,
            uncaptured: _,
            _one_at_a_time: guard,
        } = self;
        drop((slow, queue, device, adapter));
        check_messages();
        drop(guard);
        assert!(
            uncaptured.is_empty(),
            "{} uncaptured errors, the first: {}",
            uncaptured.len(),
            uncaptured[0]
        );
    }

    // ---- errors ----

    /// Runs `f` and returns the validation error that it caused, if it did.
    pub fn error_of<R>(&self, f: impl FnOnce() -> R) -> (R, Option<String>) {
        let scope = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let result = f();
        let error = pollster::block_on(scope.pop());
        (result, error.map(|error| error.to_string()))
    }

    /// Runs `f`, which must cause a validation error, and returns its text.
    #[track_caller]
    pub fn invalid<R>(&self, what: impl Debug, f: impl FnOnce() -> R) -> String {
        let (_, error) = self.error_of(f);
        error.unwrap_or_else(|| panic!("no validation error: {what:?}"))
    }

    /// Runs `f`, which must cause no validation error.
    #[track_caller]
    pub fn valid<R>(&self, what: impl Debug, f: impl FnOnce() -> R) -> R {
        let (result, error) = self.error_of(f);
        assert!(error.is_none(), "{what:?}: {}", error.unwrap());
        result
    }

    /// Takes the errors that no scope caught, oldest first.
    pub fn take_uncaptured(&self) -> Vec<String> {
        std::mem::take(&mut *self.uncaptured.lock())
    }

    // ---- counters ----

    /// What the HAL has alive on this device now.
    pub fn counts(&self) -> Counts {
        let hal = self.device.get_internal_counters().hal;
        Counts {
            buffers: hal.buffers.read(),
            texture_views: hal.texture_views.read(),
            bind_groups: hal.bind_groups.read(),
            bind_group_layouts: hal.bind_group_layouts.read(),
            pipeline_layouts: hal.pipeline_layouts.read(),
            compute_pipelines: hal.compute_pipelines.read(),
            shader_modules: hal.shader_modules.read(),
            samplers: hal.samplers.read(),
            query_sets: hal.query_sets.read(),
            buffer_memory: hal.buffer_memory.read(),
            texture_memory: hal.texture_memory.read(),
        }
    }

    /// The counts, read after wgpu-core was given the `poll` without which it frees nothing.
    /// Fencepost is given none.
    pub fn settled_counts(&self) -> Counts {
        if core() == Core::Wgpu {
            let _ = self.device.poll(wgpu::PollType::Poll);
        }
        self.counts()
    }

    /// Waits for the fence without any call into Fencepost, then reads the counts once.
    pub fn counts_after(&self, done: &Slowness) -> Counts {
        std::thread::sleep(done.surely_over() + AT_THE_FENCE);
        if core() == Core::Wgpu {
            // wgpu-core keeps staging until a submit and frees in a poll. The device may be lost.
            self.error_of(|| self.queue.submit([]));
            let _ = self.device.poll(wgpu::PollType::wait_indefinitely());
        }
        self.counts()
    }

    // ---- resources ----

    pub fn buffer(&self, label: &str, size: u64, usage: wgpu::BufferUsages) -> wgpu::Buffer {
        self.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some(label),
            size,
            usage,
            mapped_at_creation: false,
        })
    }

    pub fn filled(&self, label: &str, usage: wgpu::BufferUsages, contents: &[u8]) -> wgpu::Buffer {
        self.device
            .create_buffer_init(&wgpu::util::BufferInitDescriptor {
                label: Some(label),
                contents,
                usage,
            })
    }

    /// A 2D texture with one mip.
    pub fn texture(
        &self,
        label: &str,
        size: (u32, u32),
        format: wgpu::TextureFormat,
        usage: wgpu::TextureUsages,
    ) -> wgpu::Texture {
        self.device.create_texture(&wgpu::TextureDescriptor {
            label: Some(label),
            size: extent(size.0, size.1, 1),
            mip_level_count: 1,
            sample_count: 1,
            dimension: wgpu::TextureDimension::D2,
            format,
            usage,
            view_formats: &[],
        })
    }

    pub fn view(&self, texture: &wgpu::Texture) -> wgpu::TextureView {
        texture.create_view(&wgpu::TextureViewDescriptor::default())
    }

    pub fn module(&self, wgsl: &str) -> wgpu::ShaderModule {
        self.device
            .create_shader_module(wgpu::ShaderModuleDescriptor {
                label: Some("shader under test"),
                source: wgpu::ShaderSource::Wgsl(wgsl.into()),
            })
    }

    /// A compute pipeline with an automatic layout, from the entry point `main`.
    pub fn pipeline(&self, wgsl: &str) -> wgpu::ComputePipeline {
        self.pipeline_of(&self.module(wgsl), None)
    }

    pub fn pipeline_of(
        &self,
        module: &wgpu::ShaderModule,
        layout: Option<&wgpu::PipelineLayout>,
    ) -> wgpu::ComputePipeline {
        self.device
            .create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label: Some("pipeline under test"),
                layout,
                module,
                entry_point: Some("main"),
                compilation_options: Default::default(),
                cache: None,
            })
    }

    /// A bind group for group 0 of `pipeline`, bindings in order.
    pub fn group(
        &self,
        pipeline: &wgpu::ComputePipeline,
        resources: &[wgpu::BindingResource<'_>],
    ) -> wgpu::BindGroup {
        self.group_of(&pipeline.get_bind_group_layout(0), resources)
    }

    pub fn group_of(
        &self,
        layout: &wgpu::BindGroupLayout,
        resources: &[wgpu::BindingResource<'_>],
    ) -> wgpu::BindGroup {
        let entries: Vec<_> = resources
            .iter()
            .enumerate()
            .map(|(index, resource)| wgpu::BindGroupEntry {
                binding: index as u32,
                resource: resource.clone(),
            })
            .collect();
        self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some("bind group under test"),
            layout,
            entries: &entries,
        })
    }

    pub fn layout(&self, entries: &[wgpu::BindGroupLayoutEntry]) -> wgpu::BindGroupLayout {
        self.device
            .create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
                label: Some("layout under test"),
                entries,
            })
    }

    pub fn pipeline_layout(&self, groups: &[&wgpu::BindGroupLayout]) -> wgpu::PipelineLayout {
        let groups: Vec<_> = groups.iter().map(|group| Some(*group)).collect();
        self.device
            .create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
                label: Some("pipeline layout under test"),
                bind_group_layouts: &groups,
                immediate_size: 0,
            })
    }

    // ---- commands ----

    pub fn encoder(&self) -> wgpu::CommandEncoder {
        self.device
            .create_command_encoder(&wgpu::CommandEncoderDescriptor {
                label: Some("encoder under test"),
            })
    }

    /// A command buffer with what `record` puts into it.
    pub fn commands(&self, record: impl FnOnce(&mut wgpu::CommandEncoder)) -> wgpu::CommandBuffer {
        let mut encoder = self.encoder();
        record(&mut encoder);
        encoder.finish()
    }

    /// Records and submits.
    pub fn run(&self, record: impl FnOnce(&mut wgpu::CommandEncoder)) -> wgpu::SubmissionIndex {
        self.queue.submit([self.commands(record)])
    }

    /// Waits until everything submitted is done and its callbacks have run.
    pub fn wait(&self) {
        self.device
            .poll(wgpu::PollType::wait_indefinitely())
            .expect("waiting for everything without a timeout succeeds");
    }

    /// Brings everything pending to its end: writes that wait for a submit, and the submit.
    pub fn quiesce(&self) {
        self.queue.submit([]);
        self.rest();
    }

    /// Waits as [`Gpu::wait`] does, and for reclaim steps that other threads are in the middle of:
    /// what a step has taken, it frees a moment later.
    pub fn rest(&self) {
        self.wait();
        let mut before = self.counts();
        loop {
            std::thread::sleep(Duration::from_millis(10));
            self.wait();
            let now = self.counts();
            if now == before {
                return;
            }
            before = now;
        }
    }

    // ---- bytes back ----

    /// The contents of a buffer with `COPY_SRC`, after everything submitted so far.
    pub fn read(&self, buffer: &wgpu::Buffer) -> Vec<u8> {
        let size = buffer.size();
        let back = self.buffer(
            "readback",
            size,
            wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::MAP_READ,
        );
        self.run(|encoder| encoder.copy_buffer_to_buffer(buffer, 0, &back, 0, size));
        self.mapped_bytes(&back)
    }

    /// The contents of a buffer with `COPY_SRC`, as words.
    pub fn read_words(&self, buffer: &wgpu::Buffer) -> Vec<u32> {
        words(&self.read(buffer))
    }

    /// The contents of a buffer with `MAP_READ`: maps it whole, copies, unmaps.
    pub fn mapped_bytes(&self, buffer: &wgpu::Buffer) -> Vec<u8> {
        self.map(buffer, wgpu::MapMode::Read, 0..buffer.size());
        let bytes = buffer
            .get_mapped_range(..)
            .expect("the buffer is mapped")
            .to_vec();
        buffer.unmap();
        bytes
    }

    /// Maps a range and waits until it is mapped.
    #[track_caller]
    pub fn map(&self, buffer: &wgpu::Buffer, mode: wgpu::MapMode, range: std::ops::Range<u64>) {
        let outcome = Outcome::default();
        buffer.map_async(mode, range, outcome.callback());
        self.wait();
        // Another thread's submit or poll may have taken the callback and not run it yet.
        let start = Instant::now();
        while outcome.get().is_empty() && start.elapsed() < Duration::from_secs(10) {
            std::thread::yield_now();
        }
        assert_eq!(outcome.get(), vec![Ok(())], "the map callback");
    }

    /// The texels of one mip and layer range of a texture with `COPY_SRC`, rows packed.
    /// `size` is in texels of that mip, `texel` in bytes.
    pub fn read_texels(
        &self,
        from: wgpu::TexelCopyTextureInfo<'_>,
        size: wgpu::Extent3d,
        texel: u32,
    ) -> Vec<u8> {
        let row = size.width * texel;
        let pitch = row.next_multiple_of(wgpu::COPY_BYTES_PER_ROW_ALIGNMENT);
        let rows = size.height * size.depth_or_array_layers;
        let back = self.buffer(
            "texel readback",
            u64::from(pitch) * u64::from(rows),
            wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::MAP_READ,
        );
        self.run(|encoder| {
            encoder.copy_texture_to_buffer(
                from,
                wgpu::TexelCopyBufferInfo {
                    buffer: &back,
                    layout: layout(0, pitch, size.height),
                },
                size,
            );
        });
        let bytes = self.mapped_bytes(&back);
        bytes
            .chunks(pitch as usize)
            .flat_map(|line| &line[..row as usize])
            .copied()
            .collect()
    }

    // ---- work in flight ----

    fn slow(&self) -> &Slow {
        self.slow.get_or_init(|| {
            let pipeline = self.pipeline(
                "@group(0) @binding(0) var<storage, read_write> sink: array<u32>;
                @compute @workgroup_size(1)
                fn main(@builtin(workgroup_id) id: vec3<u32>) {
                    var x = id.x + id.y + 1u;
                    for (var i = 0u; i < 20000u; i++) { x = (x ^ (x >> 7u)) * 1664525u + i; }
                    sink[id.x % 64u] = x;
                }",
            );
            let sink = self.buffer("slow sink", 256, wgpu::BufferUsages::STORAGE);
            let group = self.group(&pipeline, &[sink.as_entire_binding()]);
            Slow { pipeline, group }
        })
    }

    fn slow_commands(&self, workgroups: u32) -> wgpu::CommandBuffer {
        let slow = self.slow();
        self.commands(|encoder| {
            let mut pass = encoder.begin_compute_pass(&Default::default());
            pass.set_pipeline(&slow.pipeline);
            pass.set_bind_group(0, &slow.group, &[]);
            pass.dispatch_workgroups(1024, workgroups.div_ceil(1024), 1);
        })
    }

    /// How many workgroups take [`SLOW`], found once per process.
    fn slow_workgroups(&self) -> u32 {
        static WORKGROUPS: OnceLock<u32> = OnceLock::new();
        *WORKGROUPS.get_or_init(|| {
            let mut workgroups = 1024;
            loop {
                let start = Instant::now();
                self.queue.submit([self.slow_commands(workgroups)]);
                self.wait();
                let took = start.elapsed();
                if took > SLOW / 8 {
                    let scaled = f64::from(workgroups) * SLOW.as_secs_f64() / took.as_secs_f64();
                    return (scaled as u32).next_multiple_of(1024);
                }
                workgroups *= 4;
            }
        })
    }

    /// Brings everything that the device makes on first use into being, so that counts taken
    /// afterwards can be compared.
    pub fn warm_up(&self) {
        self.slow_workgroups();
        let buffer = self.buffer("warm-up", 1024, wgpu::BufferUsages::all_copies());
        self.queue.write_buffer(&buffer, 0, &[1; 16]);
        self.queue.submit([self.slow_commands(1024)]);
        self.read(&buffer);
        drop(buffer);
        self.quiesce();
    }

    /// Submits slow work and, behind it in the same submission, `commands`. (Some drivers block
    /// in `submit` behind running work; in one submission nothing can block.)
    pub fn submit_in_flight(
        &self,
        commands: impl IntoIterator<Item = wgpu::CommandBuffer>,
    ) -> Slowness {
        let slow = self.slow_commands(self.slow_workgroups());
        let started = Instant::now();
        self.queue.submit(std::iter::once(slow).chain(commands));
        Slowness { started }
    }

    /// Submits `commands` and, behind them in the same submission, slow work.
    pub fn slow_after(&self, commands: impl IntoIterator<Item = wgpu::CommandBuffer>) -> Slowness {
        let slow = self.slow_commands(self.slow_workgroups());
        let started = Instant::now();
        self.queue
            .submit(commands.into_iter().chain(std::iter::once(slow)));
        Slowness { started }
    }

    /// Fails unless the last submission is still in flight. What was observed before this call
    /// was observed in flight.
    #[track_caller]
    pub fn assert_in_flight(&self) {
        let status = self
            .device
            .poll(wgpu::PollType::Poll)
            .expect("a poll without a wait succeeds");
        assert_ne!(
            status,
            wgpu::PollStatus::QueueEmpty,
            "the slow work was over before the test looked"
        );
    }
}

/// Slow work that was submitted.
pub struct Slowness {
    started: Instant,
}

impl Slowness {
    /// How long from now until the work is over on a machine that is busy otherwise, too.
    fn surely_over(&self) -> Duration {
        (SLOW * 4).saturating_sub(self.started.elapsed())
    }
}

/// Live HAL objects and the memory behind them, in bytes. Textures are seen by their memory:
/// wgpu-hal 30's Vulkan back end counts a texture when it goes, but not when it comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub buffers: isize,
    pub texture_views: isize,
    pub bind_groups: isize,
    pub bind_group_layouts: isize,
    pub pipeline_layouts: isize,
    pub compute_pipelines: isize,
    pub shader_modules: isize,
    pub samplers: isize,
    pub query_sets: isize,
    pub buffer_memory: isize,
    pub texture_memory: isize,
}

/// Results of one-shot callbacks, in the order they ran.
#[derive(Clone, Default)]
pub struct Outcome(Arc<Mutex<Vec<Result<(), ()>>>>);

impl Outcome {
    /// A map callback that notes its result here.
    pub fn callback(&self) -> impl FnOnce(Result<(), wgpu::BufferAsyncError>) + Send + 'static {
        let list = self.0.clone();
        move |result| list.lock().push(result.map_err(drop))
    }

    pub fn get(&self) -> Vec<Result<(), ()>> {
        self.0.lock().clone()
    }
}

/// Usages in short.
pub trait AllCopies {
    fn all_copies() -> Self;
}

impl AllCopies for wgpu::BufferUsages {
    fn all_copies() -> Self {
        Self::COPY_SRC | Self::COPY_DST
    }
}

impl AllCopies for wgpu::TextureUsages {
    fn all_copies() -> Self {
        Self::COPY_SRC | Self::COPY_DST
    }
}

pub fn extent(width: u32, height: u32, depth_or_array_layers: u32) -> wgpu::Extent3d {
    wgpu::Extent3d {
        width,
        height,
        depth_or_array_layers,
    }
}

pub fn layout(offset: u64, bytes_per_row: u32, rows: u32) -> wgpu::TexelCopyBufferLayout {
    wgpu::TexelCopyBufferLayout {
        offset,
        bytes_per_row: Some(bytes_per_row),
        rows_per_image: Some(rows),
    }
}

/// Bytes as words, in the machine's order.
pub fn words(bytes: &[u8]) -> Vec<u32> {
    bytes
        .chunks_exact(4)
        .map(|word| u32::from_ne_bytes(word.try_into().unwrap()))
        .collect()
}

/// Words as bytes, in the machine's order.
pub fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Bytes that differ from position to position and from seed to seed.
pub fn pattern(len: usize, seed: u32) -> Vec<u8> {
    (0..len as u32)
        .map(|index| ((index.wrapping_add(seed).wrapping_mul(2_654_435_761) >> 13) | 1) as u8)
        .collect()
}

/// Resident memory of this process in bytes, where the system tells.
pub fn resident_memory() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * 4096)
}
