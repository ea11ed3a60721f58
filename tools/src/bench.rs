//! `bench`: what each core costs, in one process, in one run. Rounds alternate between the cores, so
//! that a machine that changes its speed changes it for both.
//!
//! Nothing here asserts a time: figures are for people.

use std::time::{Duration, Instant};

use crate::cores::{self, Below, Gpu};
use crate::in_flight::{self, Slow};
use crate::memory::allocated;
use crate::text::{ratio, time, Table};
use crate::timing::{timed, Samples};

const IN_FLIGHT: [usize; 6] = [1, 10, 100, 1000, 4000, 10_000];
const DISPATCHES: usize = 1000;
/// How long memory may take to come back before the answer is "never".
const NEVER: Duration = Duration::from_secs(2);

/// One line of the result.
struct Row {
    name: String,
    samples: [Samples; 2],
}

/// Runs the benchmark.
pub fn run(args: &[String]) -> Result<(), String> {
    let rounds = match args {
        [] => 30,
        [flag, n] if flag == "--rounds" => n
            .parse()
            .ok()
            .filter(|n| (1..=10_000).contains(n))
            .ok_or_else(|| format!("bench: {n} is not a number of rounds from 1 to 10000"))?,
        _ => return Err("usage: bench [--rounds N]".to_string()),
    };
    let start = Instant::now();
    let progress = |step: &str| eprintln!("[{:5.1} s] {step}", start.elapsed().as_secs_f64());
    let mut slower = Vec::new();
    for below in [Below::Gpu, Below::Noop] {
        let gpus = match cores::open_both(below) {
            Ok(gpus) => gpus,
            Err(reason) => {
                println!("not measured on {below:?}: {reason}\n");
                continue;
            }
        };
        let adapter = match below {
            Below::Gpu => cores::describe(&gpus[0].info),
            Below::Noop => "no-op back end: the core's own cost alone".to_string(),
        };
        progress(&adapter);
        let mut table = Table::default();
        table.row([
            "",
            "wgpu-core",
            "(median)",
            "Fencepost",
            "(median)",
            "wgpu-core / Fencepost",
        ]);
        let mut rows = Vec::new();
        // On the no-op back end a large buffer's time would be that of zeroing host memory.
        let sizes: &[u64] = match below {
            Below::Gpu => &[256, 1 << 20],
            Below::Noop => &[256],
        };
        for &size in sizes {
            progress(&format!("create and drop a buffer of {size} bytes"));
            rows.push(create_and_drop(&gpus, size, rounds)?);
        }
        progress("empty submit");
        rows.push(empty_submit(&gpus, rounds)?);
        progress("dispatches");
        rows.extend(dispatches(&gpus, rounds)?);
        let mut notes = Vec::new();
        if below == Below::Gpu {
            let slow = [Slow::new(&gpus[0])?, Slow::new(&gpus[1])?];
            progress("from the fence to memory returned");
            notes.extend(memory_return(&slow)?);
            if slow[0].asynchronous && slow[1].asynchronous {
                let costs = in_flight::both(&gpus, &IN_FLIGHT, 3, progress)?;
                let (mut used, mut idle) = (Vec::new(), Vec::new());
                for (n, [a, b]) in costs {
                    used.push(Row {
                        name: format!("destroy() a buffer in use, {n} in flight"),
                        samples: [a.used, b.used],
                    });
                    idle.push(Row {
                        name: format!("destroy() an idle buffer, {n} in flight"),
                        samples: [a.idle, b.idle],
                    });
                }
                rows.extend(used);
                rows.extend(idle);
            } else {
                notes.push(
                    "destroy() by submissions in flight: not measured, this driver does the work \
                     inside submit, so nothing is ever in flight"
                        .to_string(),
                );
                notes
                    .push("submitting dispatches includes running them on this driver".to_string());
            }
        }
        for row in rows {
            let [a, b] = &row.samples;
            let cell = |ns: f64| if ns.is_nan() { "-".into() } else { time(ns) };
            let times = a.best() / b.best();
            table.row([
                row.name.clone(),
                cell(a.best()),
                format!("({})", cell(a.median())),
                cell(b.best()),
                format!("({})", cell(b.median())),
                ratio(times),
            ]);
            if times < 0.95 {
                slower.push(format!("{} on {below:?} ({})", row.name, ratio(times)));
            }
        }
        println!("{adapter}\n{}", table.render());
        for note in notes {
            println!("{note}");
        }
        println!();
    }
    println!(
        "Best and median of {rounds} rounds (destroy(): of 15 batches of 64). The ratio is of the best ones; above 1, wgpu-core is slower."
    );
    if slower.is_empty() {
        println!("Fencepost is nowhere slower than wgpu-core by more than 5 %.");
    } else {
        println!(
            "Fencepost is slower by more than 5 % in: {}.",
            slower.join(", ")
        );
    }
    Ok(())
}

/// Runs `sample` on both cores, `rounds` times, the order changing from round to round.
fn alternate(
    gpus: &[Gpu; 2],
    rounds: usize,
    mut sample: impl FnMut(usize, &Gpu) -> Result<(), String>,
) -> Result<(), String> {
    for round in 0..=rounds {
        for turn in 0..2 {
            let core = (round + turn) % 2;
            sample(core, &gpus[core])?;
        }
    }
    gpus.iter().try_for_each(Gpu::check)
}

/// Per buffer. Memory of an idle buffer goes back at its drop on both cores.
fn create_and_drop(gpus: &[Gpu; 2], size: u64, rounds: usize) -> Result<Row, String> {
    let count = if size > 4096 { 50 } else { 1000 };
    let mut samples = <[Samples; 2]>::default();
    alternate(gpus, rounds, |core, gpu| {
        let (ns, ()) = timed(|| {
            for _ in 0..count {
                drop(gpu.buffer("idle", size, wgpu::BufferUsages::COPY_DST));
            }
        });
        samples[core].push(ns / f64::from(count));
        Ok(())
    })?;
    Ok(Row {
        name: format!("create + drop an idle buffer, {size} B"),
        samples,
    })
}

/// Per `submit` of nothing.
fn empty_submit(gpus: &[Gpu; 2], rounds: usize) -> Result<Row, String> {
    const COUNT: usize = 100;
    let mut samples = <[Samples; 2]>::default();
    alternate(gpus, rounds, |core, gpu| {
        let (ns, ()) = timed(|| {
            for _ in 0..COUNT {
                gpu.queue.submit([]);
            }
        });
        samples[core].push(ns / COUNT as f64);
        gpu.wait()
    })?;
    Ok(Row {
        name: "empty submit".into(),
        samples,
    })
}

/// Per dispatch, each with a bind group and a buffer of its own, all in one pass: the three steps, and
/// their sum, because the cores put the same work into different steps.
fn dispatches(gpus: &[Gpu; 2], rounds: usize) -> Result<[Row; 4], String> {
    const SHADER: &str = "
        @group(0) @binding(0) var<storage, read_write> cell: array<u32>;
        @compute @workgroup_size(1) fn bump() { cell[0] += 1u; }
    ";
    let works: Vec<(wgpu::ComputePipeline, Vec<wgpu::BindGroup>)> = gpus
        .iter()
        .map(|gpu| {
            let module = gpu
                .device
                .create_shader_module(wgpu::ShaderModuleDescriptor {
                    label: Some("bump"),
                    source: wgpu::ShaderSource::Wgsl(SHADER.into()),
                });
            let pipeline = gpu
                .device
                .create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                    label: Some("bump"),
                    layout: None,
                    module: &module,
                    entry_point: Some("bump"),
                    compilation_options: Default::default(),
                    cache: None,
                });
            let layout = pipeline.get_bind_group_layout(0);
            let groups = (0..DISPATCHES)
                .map(|_| {
                    let cell = gpu.buffer("cell", 256, wgpu::BufferUsages::STORAGE);
                    gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
                        label: None,
                        layout: &layout,
                        entries: &[wgpu::BindGroupEntry {
                            binding: 0,
                            resource: cell.as_entire_binding(),
                        }],
                    })
                })
                .collect();
            (pipeline, groups)
        })
        .collect();
    let mut samples = <[[Samples; 2]; 4]>::default();
    let mut round = [0usize; 2];
    alternate(gpus, rounds, |core, gpu| {
        let (pipeline, groups) = &works[core];
        let mut encoder = gpu.encoder();
        let (record, ()) = timed(|| {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            pass.set_pipeline(pipeline);
            for group in groups {
                pass.set_bind_group(0, group, &[]);
                pass.dispatch_workgroups(1, 1, 1);
            }
        });
        let (finish, commands) = timed(|| encoder.finish());
        let (submit, _) = timed(|| gpu.queue.submit([commands]));
        gpu.wait()?;
        round[core] += 1;
        // The first round warms up: buffers are cleared and shaders compiled in it.
        if round[core] > 1 {
            let total = record + finish + submit;
            for (step, ns) in [record, finish, submit, total].into_iter().enumerate() {
                samples[step][core].push(ns / DISPATCHES as f64);
            }
        }
        Ok(())
    })?;
    let mut steps = ["record", "finish", "submit", "in all"].into_iter();
    Ok(samples.map(|samples| Row {
        name: format!(
            "dispatch, 1 of {DISPATCHES} with distinct bind groups: {}",
            steps.next().unwrap_or_default()
        ),
        samples,
    }))
}

/// From submit to memory returned with nobody polling, less what a blocking wait takes for the same work.
fn memory_return(slow: &[Slow; 2]) -> Result<Vec<String>, String> {
    const ROUNDS: usize = 10;
    const SIZE: u64 = 4 << 20;
    let mut lines = Vec::new();
    for slow in slow {
        let gpu = slow.gpu();
        let (mut waits, mut returns, mut never) = (Samples::default(), Samples::default(), false);
        let source = gpu.buffer("source", 256, wgpu::BufferUsages::COPY_SRC);
        let prepare = || {
            let victim = gpu.buffer("victim", SIZE, wgpu::BufferUsages::COPY_DST);
            let mut encoder = gpu.encoder();
            encoder.copy_buffer_to_buffer(&source, 0, &victim, 0, 16);
            slow.record(&mut encoder, 40e6);
            (victim, encoder.finish())
        };
        // What has to happen once (clearing the source, pools) happens here.
        let (first, commands) = prepare();
        gpu.queue.submit([commands]);
        drop(first);
        gpu.wait()?;
        for _ in 0..ROUNDS {
            let (victim, commands) = prepare();
            let start = Instant::now();
            gpu.queue.submit([commands]);
            gpu.wait()?;
            let wait = start.elapsed();
            drop(victim);
            gpu.wait()?;
            waits.push(wait.as_nanos() as f64);

            let before = allocated(gpu);
            let (victim, commands) = prepare();
            let start = Instant::now();
            gpu.queue.submit([commands]);
            drop(victim);
            while allocated(gpu) > before && !never {
                never = start.elapsed() > wait + NEVER;
                std::thread::sleep(Duration::from_micros(20));
            }
            returns.push(start.elapsed().as_nanos() as f64);
            gpu.wait()?;
            if never {
                break;
            }
        }
        let name = gpu.core.name();
        lines.push(if never {
            format!(
                "{name}: memory of a dropped buffer, nobody polling: never ({} s after the fence still allocated)",
                NEVER.as_secs()
            )
        } else {
            format!(
                "{name}: memory of a dropped buffer, nobody polling: back {} after submit (median of {ROUNDS}); a blocking wait for the same work takes {}: {} µs between them",
                time(returns.median()),
                time(waits.median()),
                ((returns.median() - waits.median()) / 1e3).round()
            )
        });
    }
    Ok(lines)
}
