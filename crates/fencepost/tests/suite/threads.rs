//! Everything from many threads at once, and very many encoders.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fencepost_audit::{AuditMode, Auditor, Completion, Contract, ObjectKind};
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

const THREADS: usize = 8;

/// How long after its time a storm may take to end.
const GRACE: Duration = Duration::from_secs(60);

/// A small generator (xorshift), so that a storm can be told apart from the next.
struct Random(u32);

impl Random {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0 % limit
    }

    fn index(&mut self, len: usize) -> usize {
        self.below(len as u32) as usize
    }
}

const BUMP: &str = "
    @group(0) @binding(0) var<storage, read_write> data: array<u32>;
    @compute @workgroup_size(1) fn main() { data[0] += 1u; }";

/// What was promised to be called, and what became of it.
#[derive(Default)]
struct Calls {
    promised: AtomicU64,
    made: AtomicU64,
    /// Dropped and never called.
    broken: AtomicU64,
}

/// Part of a callback: notes whether it ran. (That it runs twice is impossible, it is moved into its call.)
struct Promise {
    calls: Arc<Calls>,
    kept: bool,
}

impl Promise {
    fn keep(mut self) {
        self.kept = true;
        self.calls.made.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        if !self.kept {
            self.calls.broken.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// What the threads of a storm share.
struct Storm {
    device: wgpu::Device,
    queue: wgpu::Queue,
    pipeline: wgpu::ComputePipeline,
    buffers: Vec<wgpu::Buffer>,
    texture: wgpu::Texture,
    calls: Arc<Calls>,
    /// How often each of [`STEPS`] was taken.
    taken: Vec<AtomicU64>,
}

/// What a thread of a storm has for itself.
struct Own {
    random: Random,
    buffers: Vec<wgpu::Buffer>,
    textures: Vec<wgpu::Texture>,
    /// Views of mapped buffers that were destroyed, and what they show.
    views: Vec<(wgpu::BufferView, u8)>,
    /// Recorded and not yet submitted.
    commands: Vec<wgpu::CommandBuffer>,
}

impl Own {
    fn new(thread: usize) -> Self {
        Self {
            random: Random(0x9e37_79b9 ^ (thread as u32 + 1)),
            buffers: Vec::new(),
            textures: Vec::new(),
            views: Vec::new(),
            commands: Vec::new(),
        }
    }
}

type Step = (&'static str, fn(&Storm, &mut Own));

/// Everything that a thread does in a storm. Each step leaves no error behind that it did not ask for.
const STEPS: &[Step] = &[
    ("create", |storm, own| {
        let buffer = storm.buffer("own", 4096, B::all_copies() | B::STORAGE);
        own.buffers.push(buffer);
    }),
    ("create mapped", |storm, own| {
        let buffer = storm.mapped("own", 4096, B::all_copies() | B::STORAGE, 3);
        if own.random.below(8) > 0 {
            buffer.unmap();
            own.buffers.push(buffer);
        }
    }),
    ("write", |storm, own| {
        let shared = &storm.buffers[own.random.index(storm.buffers.len())];
        storm
            .queue
            .write_buffer(shared, 256, &[own.random.0 as u8; 64]);
        if let Some(buffer) = own.buffers.last() {
            storm
                .queue
                .write_buffer(buffer, 0, &[own.random.0 as u8; 1024]);
        }
    }),
    ("write by a view", |storm, own| {
        let shared = &storm.buffers[own.random.index(storm.buffers.len())];
        let size = wgpu::BufferSize::new(64).unwrap();
        if let Some(mut view) = storm.queue.write_buffer_with(shared, 512, size) {
            view.copy_from_slice(&[own.random.0 as u8; 64]);
        }
    }),
    ("copy", |storm, own| {
        let shared = &storm.buffers[own.random.index(storm.buffers.len())];
        if let Some(buffer) = own.buffers.last() {
            storm.run(|encoder| {
                encoder.copy_buffer_to_buffer(buffer, 0, shared, 0, 1024);
                encoder.copy_buffer_to_buffer(shared, 1024, buffer, 1024, 1024);
            });
        }
    }),
    ("dispatch and drop all of it", |storm, own| {
        let shared = &storm.buffers[own.random.index(storm.buffers.len())];
        let buffer = storm.buffer("short-lived", 256, B::STORAGE);
        let group = storm.group(&buffer);
        let shared = storm.group(shared);
        storm.run(|encoder| {
            let mut pass = encoder.begin_compute_pass(&Default::default());
            pass.set_pipeline(&storm.pipeline);
            for group in [&group, &shared] {
                pass.set_bind_group(0, group, &[]);
                pass.dispatch_workgroups(1, 1, 1);
            }
        });
        if own.random.below(2) == 0 {
            buffer.destroy();
        }
    }),
    ("a pipeline for one dispatch", |storm, own| {
        if own.random.below(8) > 0 {
            return;
        }
        let pipeline = storm_pipeline(&storm.device);
        let buffer = storm.buffer("short-lived", 256, B::STORAGE);
        let group = group(&storm.device, &pipeline, &buffer);
        storm.run(|encoder| {
            let mut pass = encoder.begin_compute_pass(&Default::default());
            pass.set_pipeline(&pipeline);
            pass.set_bind_group(0, &group, &[]);
            pass.dispatch_workgroups(1, 1, 1);
        });
    }),
    ("destroy and use", |storm, own| {
        if let Some(buffer) = own.buffers.pop() {
            buffer.destroy();
            storm.refused("a destroyed buffer", || {
                storm.run(|encoder| encoder.clear_buffer(&buffer, 0, None));
            });
        }
    }),
    ("destroy what is recorded", |storm, own| {
        let shared = &storm.buffers[own.random.index(storm.buffers.len())];
        let buffer = storm.buffer("doomed", 4096, B::all_copies());
        let texture = storm.texture("doomed");
        let doomed_texture = own.random.below(2) == 0;
        let commands = storm.commands(|encoder| {
            if doomed_texture {
                copy_texture(encoder, &texture, &storm.texture);
            } else {
                encoder.copy_buffer_to_buffer(&buffer, 0, shared, 0, 256);
            }
        });
        if doomed_texture {
            texture.destroy();
        } else {
            buffer.destroy();
        }
        // Behind commands that are fine, and that are refused with it.
        let fine = storm.commands(|encoder| encoder.clear_buffer(shared, 0, Some(64)));
        storm.refused("commands with a destroyed resource", || {
            storm.queue.submit([fine, commands]);
        });
    }),
    ("drop", |_, own| {
        drop(own.buffers.pop());
        drop(own.textures.pop());
    }),
    ("map", |storm, own| {
        let shared = &storm.buffers[own.random.index(storm.buffers.len())];
        let buffer = storm.buffer("mapped", 1024, B::MAP_READ | B::COPY_DST);
        storm.run(|encoder| encoder.copy_buffer_to_buffer(shared, 0, &buffer, 0, 1024));
        let mapped = Arc::new(AtomicBool::new(false));
        let (promise, there) = (storm.promise(), mapped.clone());
        buffer.map_async(MapMode::Read, .., move |result| {
            there.store(result.is_ok(), Ordering::Release);
            promise.keep();
        });
        match own.random.below(5) {
            0 => buffer.unmap(),
            1 => buffer.destroy(),
            // A second one is refused, and its callback runs all the same.
            2 => {
                let promise = storm.promise();
                storm.error_of(|| {
                    buffer.map_async(MapMode::Read, .., move |result| {
                        assert!(result.is_err(), "mapped twice");
                        promise.keep();
                    });
                });
            }
            3 => {}
            _ => {
                storm.wait();
                if mapped.load(Ordering::Acquire) {
                    let view = buffer.get_mapped_range(..).unwrap();
                    std::hint::black_box(view[0]);
                    drop(view);
                    buffer.unmap();
                }
            }
        }
    }),
    ("submit what is mapped", |storm, own| {
        let shared = &storm.buffers[own.random.index(storm.buffers.len())];
        let buffer = storm.mapped("mapped", 256, B::COPY_SRC, 1);
        let commands =
            storm.commands(|encoder| encoder.copy_buffer_to_buffer(&buffer, 0, shared, 0, 256));
        storm.refused("a mapped buffer", || {
            storm.queue.submit([commands]);
        });
    }),
    ("hold a view", |storm, own| {
        // wgpu-core's view then shows whatever its memory holds next.
        if core() == Core::Wgpu {
            return;
        }
        let mark = own.random.below(255) as u8;
        let usage = if own.random.below(2) == 0 {
            B::COPY_SRC
        } else {
            B::COPY_SRC | B::MAP_WRITE
        };
        let buffer = storm.mapped("viewed", 1024, usage, mark);
        own.views.push((buffer.get_mapped_range(..).unwrap(), mark));
        match own.random.below(3) {
            0 => buffer.destroy(),
            1 => drop(buffer),
            _ => own.buffers.truncate(own.buffers.len() / 2),
        }
    }),
    ("look at the views", |_, own| {
        for (view, mark) in own.views.drain(..) {
            assert!(
                view.iter().all(|byte| *byte == mark),
                "a held view shows other bytes than {mark}"
            );
        }
    }),
    ("write a texture", |storm, own| {
        let texture = storm.texture("own");
        for to in [&texture, &storm.texture] {
            storm.queue.write_texture(
                to.as_image_copy(),
                &[7; 4096],
                layout(0, 128, 32),
                extent(32, 32, 1),
            );
        }
        own.textures.push(texture);
    }),
    ("copy textures", |storm, own| {
        let shared = &storm.buffers[own.random.index(storm.buffers.len())];
        if let Some(texture) = own.textures.last() {
            let texels = |offset| wgpu::TexelCopyBufferInfo {
                buffer: shared,
                layout: layout(offset, 256, 4),
            };
            storm.run(|encoder| {
                copy_texture(encoder, texture, &storm.texture);
                let part = extent(8, 4, 1);
                encoder.copy_texture_to_buffer(texture.as_image_copy(), texels(1024), part);
                encoder.copy_buffer_to_texture(texels(2048), texture.as_image_copy(), part);
            });
        }
    }),
    ("a view", |storm, own| {
        let texture = own.textures.last().unwrap_or(&storm.texture);
        drop(texture.create_view(&Default::default()));
    }),
    ("destroy a texture", |storm, own| {
        if let Some(texture) = own.textures.pop() {
            let view = texture.create_view(&Default::default());
            texture.destroy();
            storm.refused("a destroyed texture", || {
                storm.run(|encoder| copy_texture(encoder, &texture, &storm.texture));
            });
            drop((texture, view));
        }
    }),
    ("queries", |storm, own| {
        if !storm
            .device
            .features()
            .contains(wgpu::Features::TIMESTAMP_QUERY)
        {
            return;
        }
        let set = storm.device.create_query_set(&wgpu::QuerySetDescriptor {
            label: Some("own"),
            ty: wgpu::QueryType::Timestamp,
            count: 2,
        });
        let results = storm.buffer("results", 256, B::QUERY_RESOLVE | B::COPY_SRC);
        let commands = storm.commands(|encoder| {
            drop(encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
                label: None,
                timestamp_writes: Some(wgpu::ComputePassTimestampWrites {
                    query_set: &set,
                    beginning_of_pass_write_index: Some(0),
                    end_of_pass_write_index: Some(1),
                }),
            }));
            encoder.resolve_query_set(&set, 0..2, &results, 0);
        });
        match own.random.below(3) {
            0 => {
                set.destroy();
                storm.refused("a destroyed query set", || {
                    storm.queue.submit([commands]);
                });
            }
            1 => {
                storm.queue.submit([commands]);
                set.destroy();
            }
            _ => {
                storm.queue.submit([commands]);
            }
        }
    }),
    ("a pass that is left open", |storm, own| {
        let shared = &storm.buffers[own.random.index(storm.buffers.len())];
        let group = storm.group(shared);
        let mut encoder = storm.device.create_command_encoder(&Default::default());
        let mut pass = encoder
            .begin_compute_pass(&Default::default())
            .forget_lifetime();
        pass.set_pipeline(&storm.pipeline);
        pass.set_bind_group(0, &group, &[]);
        if own.random.below(2) == 0 {
            storm.refused("an open pass", || {
                let commands = encoder.finish();
                drop(pass);
                storm.queue.submit([commands]);
            });
        } else {
            storm.error_of(|| {
                drop(encoder);
                pass.dispatch_workgroups(1, 1, 1);
                drop(pass);
            });
        }
    }),
    ("record", |storm, own| {
        let shared = &storm.buffers[own.random.index(storm.buffers.len())];
        let buffer = storm.buffer("in commands only", 1024, B::COPY_DST);
        let commands = storm.commands(|encoder| {
            encoder.copy_buffer_to_buffer(shared, 0, &buffer, 0, 1024);
        });
        own.commands.push(commands);
    }),
    ("submit what is recorded", |storm, own| {
        storm.queue.submit(own.commands.drain(..));
    }),
    ("forget what is recorded", |_, own| own.commands.clear()),
    ("clones", |storm, own| {
        let shared = storm.buffers[own.random.index(storm.buffers.len())].clone();
        let (device, queue) = (storm.device.clone(), storm.queue.clone());
        let mut encoder = device.create_command_encoder(&Default::default());
        drop(device);
        encoder.clear_buffer(&shared, 128, Some(64));
        drop(shared);
        queue.submit([encoder.finish()]);
    }),
    ("work done", |storm, own| {
        let promise = storm.promise();
        if own.random.below(2) == 0 {
            storm.queue.on_submitted_work_done(move || promise.keep());
        } else {
            // One that owns a resource, and makes another.
            let buffer = storm.buffer("in a callback", 256, B::COPY_DST);
            let device = storm.device.clone();
            storm.queue.on_submitted_work_done(move || {
                drop(buffer);
                drop(new_buffer(
                    &device,
                    "in a callback",
                    256,
                    B::COPY_DST,
                    false,
                ));
                promise.keep();
            });
        }
    }),
    ("scopes", |storm, _| {
        let outer = storm.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let inner = storm
            .device
            .push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        // Usages that exclude each other.
        drop(storm.buffer("invalid", 256, B::MAP_READ | B::MAP_WRITE));
        let inner = pollster::block_on(inner.pop());
        assert!(inner.is_none(), "this thread's, or another's: {inner:?}");
        let outer = pollster::block_on(outer.pop());
        assert!(outer.is_some(), "the error of this thread");
    }),
    ("poll", |storm, _| {
        storm.device.poll(wgpu::PollType::Poll).unwrap();
    }),
    ("wait a little", |storm, own| {
        // Whether it is enough is the clock's to say.
        let timeout = Duration::from_micros(own.random.below(2000).into());
        let _ = storm.device.poll(wgpu::PollType::Wait {
            submission_index: None,
            timeout: Some(timeout),
        });
    }),
    ("wait for one's own", |storm, own| {
        if own.random.below(8) > 0 {
            return;
        }
        let shared = &storm.buffers[own.random.index(storm.buffers.len())];
        let index = storm.run(|encoder| encoder.clear_buffer(shared, 0, Some(16)));
        let waited = storm.device.poll(wgpu::PollType::Wait {
            submission_index: Some(index),
            timeout: None,
        });
        assert!(waited.is_ok(), "{waited:?}");
    }),
];

fn new_buffer(
    device: &wgpu::Device,
    label: &str,
    size: u64,
    usage: B,
    mapped: bool,
) -> wgpu::Buffer {
    device.create_buffer(&wgpu::BufferDescriptor {
        label: Some(label),
        size,
        usage,
        mapped_at_creation: mapped,
    })
}

fn storm_pipeline(device: &wgpu::Device) -> wgpu::ComputePipeline {
    let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
        label: Some("bump"),
        source: wgpu::ShaderSource::Wgsl(BUMP.into()),
    });
    device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: Some("bump"),
        layout: None,
        module: &module,
        entry_point: None,
        compilation_options: Default::default(),
        cache: None,
    })
}

fn group(
    device: &wgpu::Device,
    pipeline: &wgpu::ComputePipeline,
    buffer: &wgpu::Buffer,
) -> wgpu::BindGroup {
    device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: Some("group"),
        layout: &pipeline.get_bind_group_layout(0),
        entries: &[wgpu::BindGroupEntry {
            binding: 0,
            resource: buffer.as_entire_binding(),
        }],
    })
}

fn copy_texture(encoder: &mut wgpu::CommandEncoder, from: &wgpu::Texture, to: &wgpu::Texture) {
    encoder.copy_texture_to_texture(from.as_image_copy(), to.as_image_copy(), extent(32, 32, 1));
}

impl Storm {
    fn new(device: wgpu::Device, queue: wgpu::Queue) -> Self {
        let usage = B::all_copies() | B::STORAGE;
        let storm = Self {
            pipeline: storm_pipeline(&device),
            buffers: (0..4)
                .map(|_| new_buffer(&device, "shared", 4096, usage, false))
                .collect(),
            texture: new_texture(&device, "shared"),
            device,
            queue,
            calls: Arc::default(),
            taken: STEPS.iter().map(|_| AtomicU64::new(0)).collect(),
        };
        storm.run(|encoder| {
            for buffer in &storm.buffers {
                encoder.clear_buffer(buffer, 0, None);
            }
        });
        storm
    }

    fn buffer(&self, label: &str, size: u64, usage: B) -> wgpu::Buffer {
        new_buffer(&self.device, label, size, usage, false)
    }

    /// A buffer that is mapped and holds `byte` everywhere.
    fn mapped(&self, label: &str, size: u64, usage: B, byte: u8) -> wgpu::Buffer {
        let buffer = new_buffer(&self.device, label, size, usage, true);
        let mut view = buffer.get_mapped_range_mut(..).expect("mapped at creation");
        view.copy_from_slice(&vec![byte; size as usize]);
        drop(view);
        buffer
    }

    fn texture(&self, label: &str) -> wgpu::Texture {
        new_texture(&self.device, label)
    }

    fn group(&self, buffer: &wgpu::Buffer) -> wgpu::BindGroup {
        group(&self.device, &self.pipeline, buffer)
    }

    fn commands(&self, record: impl FnOnce(&mut wgpu::CommandEncoder)) -> wgpu::CommandBuffer {
        let mut encoder = self.device.create_command_encoder(&Default::default());
        record(&mut encoder);
        encoder.finish()
    }

    fn run(&self, record: impl FnOnce(&mut wgpu::CommandEncoder)) -> wgpu::SubmissionIndex {
        self.queue.submit([self.commands(record)])
    }

    fn error_of(&self, f: impl FnOnce()) -> Option<wgpu::Error> {
        let scope = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
        f();
        pollster::block_on(scope.pop())
    }

    fn refused(&self, what: &str, f: impl FnOnce()) {
        assert!(self.error_of(f).is_some(), "{what} was not refused");
    }

    /// Waits for everything that was submitted.
    fn wait(&self) {
        self.device
            .poll(wgpu::PollType::wait_indefinitely())
            .expect("waiting without a timeout succeeds");
    }

    fn promise(&self) -> Promise {
        self.calls.promised.fetch_add(1, Ordering::Relaxed);
        Promise {
            calls: self.calls.clone(),
            kept: false,
        }
    }

    /// Takes one step of `number`.
    fn step(&self, own: &mut Own, number: usize) {
        STEPS[number].1(self, own);
        self.taken[number].fetch_add(1, Ordering::Relaxed);
        if own.buffers.len() > 20 {
            own.buffers.clear();
        }
        if own.textures.len() > 10 {
            own.textures.clear();
        }
        if own.views.len() > 10 {
            own.views.remove(0);
        }
        if own.commands.len() > 10 {
            own.commands.clear();
        }
    }

    /// Takes every step once, so that what a device makes on first use is made.
    fn rehearse(&self) {
        let mut own = Own::new(THREADS);
        for _ in 0..8 {
            for number in 0..STEPS.len() {
                self.step(&mut own, number);
            }
        }
    }

    /// Lets `threads` threads take steps for as long as a storm lasts, `beside` running beside them until
    /// they are done.
    fn rage(&self, threads: usize, beside: impl FnOnce(&AtomicBool) + Send) {
        let end = Instant::now() + storm_time();
        let at: Vec<_> = (0..threads).map(|_| AtomicUsize::new(0)).collect();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let work = |thread: usize| {
                let at = &at[thread];
                move || {
                    let mut own = Own::new(thread);
                    while Instant::now() < end {
                        let number = own.random.index(STEPS.len());
                        at.store(number, Ordering::Relaxed);
                        self.step(&mut own, number);
                    }
                    at.store(STEPS.len(), Ordering::Relaxed);
                    drop(own);
                    at.store(STEPS.len() + 1, Ordering::Relaxed);
                }
            };
            let workers: Vec<_> = (0..threads)
                .map(|thread| scope.spawn(work(thread)))
                .collect();
            scope.spawn(|| beside(&over));
            // A thread that hangs cannot be ended, so a hang ends the process; the message goes past the
            // capture of the test harness.
            let doing = |at: &AtomicUsize| match at.load(Ordering::Relaxed) {
                step if step < STEPS.len() => STEPS[step].0,
                step if step == STEPS.len() => "dropping what it has",
                _ => "done",
            };
            watch(
                end + GRACE,
                || workers.iter().all(|w| w.is_finished()),
                || format!("{:?}", at.iter().map(doing).collect::<Vec<_>>()),
            );
            over.store(true, Ordering::Release);
            for worker in workers {
                if let Err(panic) = worker.join() {
                    std::panic::resume_unwind(panic);
                }
            }
        });
        let taken: Vec<_> = self
            .taken
            .iter()
            .map(|n| n.load(Ordering::Relaxed))
            .collect();
        for ((name, _), taken) in STEPS.iter().zip(&taken) {
            assert!(*taken > 0, "no thread came to {name:?}");
        }
        eprintln!("{} steps", taken.iter().sum::<u64>());
    }

    /// Every callback ran once, after everything that was submitted is done.
    fn assert_called(&self) {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let Calls {
            promised,
            made,
            broken,
        } = &*self.calls;
        assert_eq!(
            read(broken),
            0,
            "callbacks that were dropped and never called"
        );
        assert_eq!(
            read(made),
            read(promised),
            "callbacks that ran, of those given"
        );
        assert!(read(made) > 0);
        eprintln!("{} callbacks", read(made));
    }
}

fn new_texture(device: &wgpu::Device, label: &str) -> wgpu::Texture {
    device.create_texture(&wgpu::TextureDescriptor {
        label: Some(label),
        size: extent(32, 32, 1),
        mip_level_count: 1,
        sample_count: 1,
        dimension: wgpu::TextureDimension::D2,
        format: wgpu::TextureFormat::R32Uint,
        usage: T::all_copies() | T::TEXTURE_BINDING,
        view_formats: &[],
    })
}

/// Waits until `done`, at most until `end`: then it says what is `doing` and ends the process.
fn watch(end: Instant, done: impl Fn() -> bool, doing: impl Fn() -> String) {
    while !done() {
        if Instant::now() > end {
            use std::io::Write as _;
            let _ = writeln!(std::io::stderr(), "\nhang: {}: {}", test_name(), doing());
            std::process::abort();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Runs `f` on this thread while another ends the process should it hang.
fn watched<R>(what: &str, f: impl FnOnce() -> R) -> R {
    let done = AtomicBool::new(false);
    let end = Instant::now() + GRACE;
    let name = test_name();
    std::thread::scope(|scope| {
        let watcher = std::thread::Builder::new().name(name);
        let done = &done;
        watcher
            .spawn_scoped(scope, move || {
                watch(end, || done.load(Ordering::Acquire), || what.to_owned());
            })
            .expect("a thread");
        // Also when it panics.
        struct Done<'a>(&'a AtomicBool);
        impl Drop for Done<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Release);
            }
        }
        let _done = Done(done);
        f()
    })
}

/// Eight threads do everything at once with what is their own and what they share; afterwards every counter is
/// where it began, every callback has run, and the device is fine.
#[test]
fn storm() {
    test(|gpu| {
        gpu.warm_up();
        let storm = Storm::new(gpu.device.clone(), gpu.queue.clone());
        watched("the rehearsal", || storm.rehearse());
        gpu.quiesce();
        let live = || {
            let objects = auditor().map(Auditor::live_objects).unwrap_or_default();
            let stays = |o: &&fencepost_audit::ObjectInfo| o.kind != ObjectKind::CommandEncoder;
            objects
                .iter()
                .filter(stays)
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        let (base, alive) = (gpu.settled_counts(), live());
        storm.rage(THREADS, |_| {});
        watched("the end", || gpu.quiesce());
        storm.assert_called();
        assert_eq!(gpu.settled_counts(), base);
        if core() == Core::Fencepost {
            assert_eq!(live(), alive, "what the auditor sees");
        }
        drop(storm);
        let fine = gpu.filled("fine", B::all_copies(), &[1; 256]);
        assert_eq!(gpu.read(&fine), [1; 256], "and the device is fine");
    });
}

/// Lets whoever waits go on without the clock when a test fails.
struct Unwinding<'a>(&'a fencepost_audit::Clock);

impl Drop for Unwinding<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.set(Completion::ManualOrWaited);
        }
    }
}

/// The same where a clock alone decides when submissions complete: one thread turns it, at moments of its own,
/// while seven work.
#[test]
fn storm_on_noop_with_the_clock() {
    if ours_alone("the clock is below Fencepost") {
        return;
    }
    test_bare(|| {
        let auditor = Auditor::new(Contract::Strict, AuditMode::Collect);
        auditor.set_reset_before_free(true);
        let clock = auditor.clock();
        let mut desc = descriptor(wgpu::Backends::NOOP);
        desc.backend_options.noop = wgpu::NoopBackendOptions::enabled();
        let instance = fencepost::Builder::new(desc).audit(&auditor).instance();
        let adapter = pollster::block_on(instance.request_adapter(&Default::default()))
            .expect("the no-op back end is everywhere");
        let (device, queue) = pollster::block_on(adapter.request_device(&wgpu::DeviceDescriptor {
            required_features: wgpu::Features::TIMESTAMP_QUERY,
            ..Default::default()
        }))
        .expect("it has every feature");
        let uncaptured = Arc::new(parking_lot::Mutex::new(Vec::new()));
        let sink = uncaptured.clone();
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
            sink.lock().push(error.to_string());
        }));
        let storm = Storm::new(device, queue);
        watched("the rehearsal", || storm.rehearse());
        clock.set(Completion::Manual);
        // Dropped before the storm, if that fails: the end of the device would wait for a clock that nobody turns.
        let _unwinding = Unwinding(&clock);
        let most = AtomicUsize::new(0);
        storm.rage(THREADS - 1, |over| {
            let mut random = Random(0x51ed_270b);
            while !over.load(Ordering::Acquire) {
                // Whoever waits goes on when the clock does.
                most.fetch_max(clock.pending().len(), Ordering::Relaxed);
                match random.below(16) {
                    0 => std::thread::sleep(Duration::from_millis(random.below(20).into())),
                    1 => {
                        clock.complete_all();
                    }
                    _ => {
                        clock.complete_next();
                        std::thread::yield_now();
                    }
                }
            }
        });
        eprintln!(
            "at most {} submissions in flight",
            most.load(Ordering::Relaxed)
        );
        assert!(
            most.load(Ordering::Relaxed) > 1,
            "nothing was ever in flight"
        );
        watched("the end", || {
            // From here on nobody turns the clock: whatever is submitted now hangs.
            storm.queue.submit([]);
            clock.complete_all();
            storm.wait();
            storm.assert_called();
            drop(storm);
            drop((adapter, instance));
        });
        let reports = auditor.take_reports();
        if let Some(first) = reports.first() {
            let backtrace = &first.backtrace;
            panic!("{} reports, the first: {first}\n{backtrace}", reports.len());
        }
        let live: Vec<_> = auditor
            .live_objects()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert!(live.is_empty(), "still alive: {live:#?}");
        assert_eq!(auditor.live_bytes(), 0);
        let errors = uncaptured.lock();
        assert!(errors.is_empty(), "uncaptured errors: {errors:?}");
    });
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
