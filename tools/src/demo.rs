//! `demo`: one readable table that compares the two cores on real work.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::cores::{self, Below, Gpu};
use crate::in_flight::{self, Line, Slow};
use crate::memory::Moments;
use crate::text::{mib, ratio, time, Table};
use crate::{compress, lifetime, pictures};

/// Submissions in flight, for the cost of `destroy()`.
const IN_FLIGHT: [usize; 5] = [1, 10, 100, 1000, 4000];
/// Size of the drawn pictures in pixels.
const DRAWN: (u32, u32) = (4000, 3000);
/// Where Debian's package chromium-common puts the description of its software driver.
const SWIFTSHADER: &str = "/usr/lib/chromium/vk_swiftshader_icd.json";

struct Options {
    bc6h: bool,
    bc7: bool,
    images: Vec<PathBuf>,
}

fn parse(args: &[String]) -> Result<Options, String> {
    let mut options = Options {
        bc6h: false,
        bc7: false,
        images: Vec::new(),
    };
    for arg in args {
        match arg.as_str() {
            "--bc6h" => options.bc6h = true,
            "--bc7" => options.bc7 = true,
            unknown if unknown.starts_with("--") => {
                return Err(format!("demo: there is no option {unknown}"));
            }
            path => options.images.push(PathBuf::from(path)),
        }
    }
    for (asked, compiled, name) in [
        (options.bc6h, cfg!(feature = "bc6h"), "bc6h"),
        (options.bc7, cfg!(feature = "bc7"), "bc7"),
    ] {
        if asked && !compiled {
            return Err(format!(
                "demo: --{name} needs a binary built with --features {name}, as cargo xtask demo --{name} does"
            ));
        }
    }
    Ok(options)
}

/// Prints progress with the seconds since the start.
struct Progress(Instant);

impl Progress {
    fn say(&self, step: &str) {
        eprintln!("[{:5.1} s] {step}", self.0.elapsed().as_secs_f64());
    }
}

/// Runs the demo.
pub fn run(args: &[String]) -> Result<(), String> {
    let options = parse(args)?;
    let progress = Progress(Instant::now());
    let mut table = Table::default();
    match cores::open_both(Below::Gpu) {
        Ok(gpus) => {
            on_a_gpu(&gpus, &options, &progress, &mut table)?;
            destroy_rows(&gpus, &progress, &mut table)?;
        }
        Err(reason) => {
            progress.say(&format!("no GPU and no software driver ({reason})"));
            progress.say("the lifetime part runs on wgpu-hal's no-op back end instead");
            on_noop(&progress, &mut table)?;
        }
    }
    println!("\n{}", table.render());
    Ok(())
}

fn columns(table: &mut Table, heading: &str) {
    let [a, b] = cores::cores().map(cores::Core::name);
    table.row([heading, a, b, ""]);
}

fn memory_rows(table: &mut Table, moments: [&Moments; 2]) {
    let [a, b] = moments.map(Moments::rows);
    for ((name, a), (_, b)) in a.into_iter().zip(b) {
        table.row([format!("  {name}"), mib(a), mib(b), String::new()]);
    }
}

fn on_a_gpu(
    gpus: &[Gpu; 2],
    options: &Options,
    progress: &Progress,
    table: &mut Table,
) -> Result<(), String> {
    let formats = compress::formats(options.bc6h, options.bc7);
    let pictures = if options.images.is_empty() {
        progress.say("drawing two pictures");
        pictures::draw(DRAWN.0, DRAWN.1)
    } else {
        options
            .images
            .iter()
            .map(|path: &PathBuf| pictures::load(Path::new(path)))
            .collect::<Result<_, _>>()?
    };
    for picture in &pictures {
        compress::fits(&gpus[0], picture)?;
    }

    table.heading(format!("adapter    {}", cores::describe(&gpus[0].info)));
    let names: Vec<&str> = formats.iter().map(|(name, _)| *name).collect();
    table.heading(format!(
        "client     block_compression 0.11 as published, to {}",
        names.join(", ")
    ));
    for picture in &pictures {
        table.heading(format!(
            "picture    {}, {} x {} ({:.1} megapixels)",
            picture.name,
            picture.width,
            picture.height,
            picture.megapixels()
        ));
    }
    table.heading("");

    for gpu in gpus {
        let name = gpu.core.name();
        progress.say(&format!("{name}: filling the driver's shader cache"));
        compress::fill_caches(gpu.core, &formats)?;
    }
    let mut outcomes = Vec::new();
    for gpu in gpus {
        let name = gpu.core.name();
        outcomes.push(compress::run(gpu, &pictures, &formats, |step| {
            progress.say(&format!("{name}: {step}"));
        })?);
    }
    let (a, b) = (&outcomes[0], &outcomes[1]);
    columns(table, "compression");
    let equal = if a.digest == b.digest {
        "equal: yes"
    } else {
        "equal: NO"
    };
    table.row([
        "  output, SHA-256",
        &format!("{}…", &a.digest[..12]),
        &format!("{}…", &b.digest[..12]),
        equal,
    ]);
    table.row([
        "  shaders and pipelines".into(),
        time(a.setup),
        time(b.setup),
        String::new(),
    ]);
    table.row([
        "  upload, compress, read back".into(),
        time(a.compression),
        time(b.compression),
        format!("ratio {}", ratio(a.compression / b.compression)),
    ]);
    table.heading("");
    columns(table, "GPU memory allocated");
    memory_rows(table, [&a.moments, &b.moments]);
    table.heading("");
    if a.digest != b.digest {
        println!("{}", table.render());
        return Err(format!(
            "the two cores produced different bytes: {} and {}",
            a.digest, b.digest
        ));
    }
    Ok(())
}

fn on_noop(progress: &Progress, table: &mut Table) -> Result<(), String> {
    table.heading("adapter    none: wgpu-hal's no-op back end. Buffers are host memory and copies");
    table.heading("           happen inside submit. There is no compression without a driver, and");
    table.heading("           nothing is ever in flight, so destroy() is not measured.");
    let gpus = cores::open_both(Below::Noop)?;
    for case in &lifetime::CASES {
        let mut all = Vec::new();
        for gpu in &gpus {
            progress.say(&format!("{}: {}", gpu.core.name(), case.what));
            all.push(lifetime::run(gpu, case)?);
        }
        table.heading("");
        table.heading(case.what);
        columns(table, "  resident size of this process");
        memory_rows(table, [&all[0], &all[1]]);
    }
    Ok(())
}

/// The cost of `destroy()`: here if this driver keeps submissions in flight, on SwiftShader otherwise.
fn destroy_rows(gpus: &[Gpu; 2], progress: &Progress, table: &mut Table) -> Result<(), String> {
    columns(
        table,
        "destroy() of a buffer that the oldest of N submissions in flight uses, best",
    );
    let lines = if Slow::new(&gpus[0])?.asynchronous {
        let rows = in_flight::both(gpus, &IN_FLIGHT, in_flight::ATTEMPTS, |step| {
            progress.say(step)
        })?;
        rows.iter().map(|(n, cells)| Line::of(*n, cells)).collect()
    } else {
        table.heading(
            "  This driver does the work inside submit, so nothing is ever in flight on it.",
        );
        match on_swiftshader(progress)? {
            Ok((adapter, lines)) => {
                table.heading(format!("  Measured on {adapter} instead."));
                lines
            }
            Err(reason) => {
                table.heading(format!("  Not measured: {reason}."));
                return Ok(());
            }
        }
    };
    for line in lines {
        let cell = |i: usize| {
            let best = line.cost[i];
            if best.is_nan() {
                "not held in flight".to_string()
            } else {
                time(best)
            }
        };
        table.row([
            format!("  N = {}", line.n),
            cell(0),
            cell(1),
            format!("ratio {}", ratio(line.ratio())),
        ]);
    }
    Ok(())
}

type Measured = (String, Vec<Line>);

/// Measures in a second process, on SwiftShader. The inner error says why there is no result.
fn on_swiftshader(progress: &Progress) -> Result<Result<Measured, String>, String> {
    let manifest = std::env::var_os("FENCEPOST_SWIFTSHADER")
        .map_or_else(|| PathBuf::from(SWIFTSHADER), PathBuf::from);
    if !manifest.exists() {
        return Ok(Err(format!(
            "it takes a driver that queues work, a real GPU's or SwiftShader (in Debian's package chromium-common: {SWIFTSHADER})"
        )));
    }
    progress.say("the cost of destroy(), on SwiftShader");
    let exe = std::env::current_exe().map_err(|error| format!("own path: {error}"))?;
    let output = Command::new(exe)
        .arg("destroy-cost")
        .args(IN_FLIGHT.map(|n| n.to_string()))
        .env("VK_ICD_FILENAMES", &manifest)
        .env("WGPU_BACKEND", "vulkan")
        .env_remove("VK_DRIVER_FILES")
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("second process: {error}"))?;
    if !output.status.success() {
        return Ok(Err(format!(
            "the process on SwiftShader ended with {}",
            output.status
        )));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let mut lines = text.lines();
    let adapter = lines.next().unwrap_or_default().to_string();
    Ok(Ok((adapter, lines.filter_map(Line::parse).collect())))
}
