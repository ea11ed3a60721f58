//! The cost of `Buffer::destroy` while many submissions are in flight.
//!
//! In flight is made certain, not likely: a slow submission goes first, and after the last destroy
//! its callback must not have fired. If it has, the attempt is thrown away and repeated with more
//! slow work. Drivers that run the work inside `submit` (lavapipe) can never hold anything in
//! flight; that is found out and said.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Instant;

use crate::cores::{self, Below, Gpu};
use crate::timing::{timed, Samples};

/// Buffers destroyed per sample.
const BATCH: usize = 64;
/// Samples per attempt.
const BATCHES: usize = 5;
/// Attempts per number of submissions and core, for the demo.
pub const ATTEMPTS: usize = 2;
/// What one dispatch of slow work is made to take at least, in nanoseconds.
const UNIT: f64 = 20e6;
/// The longest slow submission that is tried, in nanoseconds.
const LONGEST: f64 = 20e9;

/// Slow work of a known length.
pub struct Slow<'a> {
    gpu: &'a Gpu,
    pipeline: wgpu::ComputePipeline,
    group: wgpu::BindGroup,
    /// How long one dispatch takes, in nanoseconds.
    unit: f64,
    /// Whether `submit` returns before the work is done.
    pub asynchronous: bool,
}

const SPIN: &str = "
    struct Data { rounds: u32, result: u32 }
    @group(0) @binding(0) var<storage, read_write> data: Data;
    @compute @workgroup_size(1) fn spin() {
        var x = data.result | 1u;
        for (var i = 0u; i < data.rounds; i++) {
            x ^= x << 13u;
            x ^= x >> 17u;
            x ^= x << 5u;
        }
        data.result = x;
    }
";

impl<'a> Slow<'a> {
    /// Finds out how much work takes about 20 ms on this device, and whether submit waits for it.
    pub fn new(gpu: &'a Gpu) -> Result<Self, String> {
        let module = gpu
            .device
            .create_shader_module(wgpu::ShaderModuleDescriptor {
                label: Some("spin"),
                source: wgpu::ShaderSource::Wgsl(SPIN.into()),
            });
        let pipeline = gpu
            .device
            .create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label: Some("spin"),
                layout: None,
                module: &module,
                entry_point: Some("spin"),
                compilation_options: Default::default(),
                cache: None,
            });
        let data = gpu.buffer(
            "spin",
            8,
            wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST,
        );
        let group = gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some("spin"),
            layout: &pipeline.get_bind_group_layout(0),
            entries: &[wgpu::BindGroupEntry {
                binding: 0,
                resource: data.as_entire_binding(),
            }],
        });
        let mut slow = Slow {
            gpu,
            pipeline,
            group,
            unit: 0.0,
            asynchronous: false,
        };
        // The first dispatch compiles the shader and is not looked at.
        slow.once(&data, 1)?;
        let mut rounds = 1u32 << 10;
        loop {
            let (submit, total) = slow.once(&data, rounds)?;
            slow.unit = total;
            // Shaders that do nothing are no work, however many rounds they are told to make.
            slow.asynchronous = submit < total / 2.0 && total >= UNIT;
            if total >= UNIT || rounds >= 1 << 30 {
                return Ok(slow);
            }
            rounds *= 2;
        }
    }

    /// Runs one dispatch of `rounds` rounds and returns how long submit took and how long it took in
    /// all, in nanoseconds.
    fn once(&self, data: &wgpu::Buffer, rounds: u32) -> Result<(f64, f64), String> {
        let gpu = self.gpu;
        gpu.queue
            .write_buffer(data, 0, &[rounds.to_le_bytes(), [1; 4]].concat());
        gpu.queue.submit([]);
        gpu.wait()?;
        let mut encoder = gpu.encoder();
        self.record(&mut encoder, 1.0);
        let commands = encoder.finish();
        let start = Instant::now();
        gpu.queue.submit([commands]);
        let submit = start.elapsed().as_nanos() as f64;
        gpu.wait()?;
        Ok((submit, start.elapsed().as_nanos() as f64))
    }

    /// Records slow work that takes about `ns` nanoseconds, in dispatches short enough for any watchdog.
    pub fn record(&self, encoder: &mut wgpu::CommandEncoder, ns: f64) {
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        pass.set_pipeline(&self.pipeline);
        pass.set_bind_group(0, &self.group, &[]);
        let dispatches = if self.unit > 0.0 {
            (ns / self.unit).ceil().max(1.0) as u32
        } else {
            1
        };
        for _ in 0..dispatches {
            pass.dispatch_workgroups(1, 1, 1);
        }
    }

    /// The device that it runs on.
    pub fn gpu(&self) -> &Gpu {
        self.gpu
    }
}

/// Nanoseconds per `destroy()` with many submissions in flight. Without samples if the driver did
/// not keep that many in flight.
#[derive(Default)]
pub struct Cost {
    /// Of a buffer that the oldest of the submissions uses. Its memory has to wait. By then its
    /// bookkeeping has long left the processor's caches.
    pub used: Samples,
    /// Of a buffer that was just made and that nothing uses. Its memory is freed on the spot.
    pub idle: Samples,
}

/// Measures with `n` submissions in flight and adds to `cost`, unless the driver does not keep that
/// many in flight, however slow the first one is.
fn destroy_cost(slow: &Slow, n: usize, cost: &mut Cost) -> Result<(), String> {
    if !slow.asynchronous {
        return Ok(());
    }
    let gpu = slow.gpu();
    let usage = wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
    let source = gpu.buffer("source", 256, usage);
    let target = gpu.buffer("target", 256, usage);
    let small = || {
        let mut encoder = gpu.encoder();
        encoder.copy_buffer_to_buffer(&source, 0, &target, 0, 16);
        encoder.finish()
    };
    // Long enough for submitting n times, to begin with.
    let (each, ()) = timed(|| {
        for _ in 0..50 {
            gpu.queue.submit([small()]);
        }
    });
    gpu.wait()?;
    let mut length = (200e6 + 3.0 * each / 50.0 * n as f64).min(LONGEST / 4.0);
    while length <= LONGEST {
        let victims: Vec<wgpu::Buffer> = (0..BATCH * BATCHES)
            .map(|_| gpu.buffer("victim", 256, usage))
            .collect();
        let mut encoder = gpu.encoder();
        for victim in &victims {
            encoder.copy_buffer_to_buffer(&source, 0, victim, 0, 16);
        }
        slow.record(&mut encoder, length);
        let first = encoder.finish();
        gpu.queue.submit([first]);
        let finished = Arc::new(AtomicBool::new(false));
        let flag = finished.clone();
        gpu.queue
            .on_submitted_work_done(move || flag.store(true, Ordering::SeqCst));
        for _ in 1..n {
            gpu.queue.submit([small()]);
        }
        let destroy = |buffers: &[wgpu::Buffer]| {
            let (ns, ()) = timed(|| buffers.iter().for_each(wgpu::Buffer::destroy));
            ns / buffers.len() as f64
        };
        let (mut used, mut idle) = (Samples::default(), Samples::default());
        for batch in victims.chunks(BATCH) {
            used.push(destroy(batch));
        }
        for _ in 0..BATCHES {
            let fresh = [(); BATCH].map(|()| gpu.buffer("idle", 256, usage));
            idle.push(destroy(&fresh));
        }
        gpu.poll()?;
        let held = !finished.load(Ordering::SeqCst);
        gpu.wait()?;
        if held {
            cost.used.extend(used);
            cost.idle.extend(idle);
            return Ok(());
        }
        length *= 3.0;
    }
    Ok(())
}

/// The cost on both cores for each number of submissions in `counts`, from `attempts` attempts that
/// alternate between the cores.
pub fn both(
    gpus: &[Gpu; 2],
    counts: &[usize],
    attempts: usize,
    mut progress: impl FnMut(&str),
) -> Result<Vec<(usize, [Cost; 2])>, String> {
    let slow = [Slow::new(&gpus[0])?, Slow::new(&gpus[1])?];
    let mut rows = Vec::new();
    for &n in counts {
        progress(&format!("destroy() with {n} in flight"));
        let mut row = <[Cost; 2]>::default();
        for _ in 0..attempts {
            for (slow, cell) in slow.iter().zip(&mut row) {
                destroy_cost(slow, n, cell)?;
            }
        }
        rows.push((n, row));
    }
    Ok(rows)
}

/// Prints the adapter, then for each number `n`, the best time in nanoseconds of each core to destroy
/// a buffer in use (NaN: not held in flight), separated by tabs. The demo runs this in a process of its own, on another driver.
pub fn run(args: &[String]) -> Result<(), String> {
    let counts = args
        .iter()
        .map(|arg| {
            arg.parse()
                .ok()
                .filter(|n| (1..=100_000).contains(n))
                .ok_or_else(|| format!("destroy-cost: {arg} is not a number from 1 to 100000"))
        })
        .collect::<Result<Vec<usize>, String>>()?;
    let gpus = cores::open_both(Below::Gpu)?;
    println!("{}", cores::describe(&gpus[0].info));
    let rows = both(&gpus, &counts, ATTEMPTS, |step| {
        eprintln!("          {step}")
    })?;
    for (n, cells) in rows {
        let [a, b] = Line::of(n, &cells).cost;
        println!("{n}\t{a}\t{b}");
    }
    Ok(())
}

/// One line of what [`run`] prints.
pub struct Line {
    /// Submissions in flight.
    pub n: usize,
    /// The best time of each core in nanoseconds, in the order of [`cores::cores`].
    pub cost: [f64; 2],
}

impl Line {
    /// Reads a line back.
    pub fn parse(line: &str) -> Option<Line> {
        let mut parts = line.split('\t');
        let n = parts.next()?.parse().ok()?;
        let mut number = || parts.next()?.parse::<f64>().ok();
        let cost = [number()?, number()?];
        Some(Line { n, cost })
    }

    /// From measurements in this process.
    pub fn of(n: usize, cells: &[Cost; 2]) -> Line {
        Line {
            n,
            cost: [cells[0].used.best(), cells[1].used.best()],
        }
    }

    /// How much more wgpu-core takes.
    pub fn ratio(&self) -> f64 {
        self.cost[0] / self.cost[1]
    }
}
