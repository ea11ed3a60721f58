//! `test`: every test of the repository, on every driver that can be had here.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::check::LIBRARIES;
use crate::counts::{Counts, Reader};
use crate::{drivers, shell};

/// One line of the summary.
struct Done {
    suite: &'static str,
    counts: Counts,
    took: Duration,
    notes: Vec<String>,
}

impl Done {
    /// A suite that cannot run here.
    fn skipped(suite: &'static str, reason: String) -> Done {
        eprintln!("\n== {suite}\nskipped: {reason}");
        Done {
            suite,
            counts: Counts {
                skipped: 1,
                ..Counts::default()
            },
            took: Duration::ZERO,
            notes: vec![reason],
        }
    }
}

/// Runs `cargo test` and counts. A suite that ends without a result, because it did not compile or
/// crashed, counts as one failure more than its result lines tell.
fn suite(name: &'static str, cargo: &mut Command) -> Done {
    eprintln!("\n== {name}\n$ {}", shell::line(cargo));
    let start = Instant::now();
    let mut reader = Reader::default();
    let mut notes = Vec::new();
    let status = cargo.stdout(Stdio::piped()).spawn().and_then(|mut child| {
        if let Some(stdout) = child.stdout.take() {
            for line in BufReader::new(stdout).split(b'\n') {
                let line = String::from_utf8_lossy(&line?).into_owned();
                if reader.line(&line) {
                    println!("{line}");
                }
            }
        }
        child.wait()
    });
    reader.close();
    let mut counts = reader.counts;
    match status {
        Ok(status) if status.success() => {}
        Ok(_) if counts.failed > 0 => {}
        Ok(status) => {
            counts.failed += 1;
            notes.push(format!("ended without a failed test: {status}"));
        }
        Err(error) => {
            counts.failed += 1;
            notes.push(error.to_string());
        }
    }
    notes.extend(reader.reasons);
    Done {
        suite: name,
        counts,
        took: start.elapsed(),
        notes,
    }
}

/// Seeds of the simulator that run every time, and how many steps each.
const SEEDS: [u64; 4] = [1, 2, 3, 4];
const STEPS: u64 = 50_000;

/// Runs the simulator on the fixed seeds and on a fresh one, which it prints. Each counts as a test.
fn simulations() -> Done {
    let name = "simulator";
    eprintln!("\n== {name}");
    let start = Instant::now();
    let mut counts = Counts::default();
    let mut notes = Vec::new();
    let steps = STEPS.to_string();
    // As the tests were built, which costs nothing; `cargo xtask simulate` builds it to be fast.
    let mut build = shell::cargo();
    let built = shell::run(build.args(["build", "--workspace", "--bins"]));
    let name_of_binary = format!("simulate{}", std::env::consts::EXE_SUFFIX);
    let binary = shell::target().join("debug").join(name_of_binary);
    for seed in SEEDS.map(Some).into_iter().chain([None]) {
        let done = built.clone().and_then(|()| {
            let mut command = Command::new(&binary);
            command.args(["--steps", &steps]);
            if let Some(seed) = seed {
                command.args(["--seed", &seed.to_string()]);
            }
            shell::run(&mut command)
        });
        match done {
            Ok(()) => counts.passed += 1,
            Err(error) => {
                counts.failed += 1;
                notes.push(error);
            }
        }
    }
    Done {
        suite: name,
        counts,
        took: start.elapsed(),
        notes,
    }
}

/// Cargo with code of its own under `cfg` options, in a folder of its own.
fn configured(cfgs: &[&str], folder: &str) -> Command {
    let flags: Vec<String> = cfgs.iter().map(|cfg| format!("--cfg {cfg}")).collect();
    let mut cargo = shell::cargo();
    cargo
        .env("RUSTFLAGS", flags.join(" "))
        .env("CARGO_TARGET_DIR", shell::target().join(folder))
        .env("RUST_BACKTRACE", "0")
        .args(["test", "--release", "--no-fail-fast"]);
    cargo
}

/// Installs what is missing, runs everything, and prints a summary whose last line is the sum.
pub fn run() -> Result<(), String> {
    let mut done = Vec::new();
    if cfg!(target_os = "linux") {
        if let Err(reason) = drivers::install(&drivers::FOR_TESTS) {
            eprintln!("{reason}");
        }
    }
    let runtime_dir = shell::runtime_dir();
    let lavapipe = drivers::lavapipe();
    let cargo_test = || {
        let mut cargo = shell::cargo();
        cargo
            .arg("test")
            .arg("--no-fail-fast")
            .env("XDG_RUNTIME_DIR", &runtime_dir)
            .env_remove("VK_DRIVER_FILES");
        if let Some(manifest) = &lavapipe {
            cargo.env("VK_ICD_FILENAMES", manifest);
        }
        cargo
    };
    match &lavapipe {
        Some(manifest) => eprintln!("lavapipe: {}", manifest.display()),
        None => {
            eprintln!("lavapipe is missing: the tests run on the driver that the system offers")
        }
    }

    done.push(suite(
        "all targets, on lavapipe",
        cargo_test().args(["--workspace", "--all-targets", "--", "--show-output"]),
    ));
    done.push(suite(
        "documentation examples",
        cargo_test()
            .arg("--doc")
            .args(LIBRARIES.iter().flat_map(|name| ["--package", name]))
            .args(["--", "--show-output"]),
    ));

    let name = "crates/fencepost, on SwiftShader";
    done.push(match drivers::swiftshader() {
        Err(reason) => Done::skipped(name, reason),
        Ok(manifest) => {
            let mut cargo = cargo_test();
            cargo.env("VK_ICD_FILENAMES", manifest);
            let layer = drivers::khronos_layer();
            if let Ok(dir) = &layer {
                cargo.env("VK_LAYER_PATH", dir);
            }
            cargo.args(["--package", "fencepost", "--test", "*"]);
            let mut result = suite(name, cargo.args(["--", "--show-output"]));
            if let Err(reason) = layer {
                let note =
                    format!("with the system's validation layer, not the newer one: {reason}");
                result.notes.push(note);
            }
            result
        }
    });

    // The auditor serialises calls: once more without it.
    done.push(suite(
        "crates/fencepost, on lavapipe, without the auditor",
        cargo_test()
            .env("FENCEPOST_TEST_AUDIT", "off")
            .args(["--package", "fencepost", "--test", "*"])
            .args(["--", "--show-output"]),
    ));

    let loom = ["--package", "fencepost-lifetime", "--test", "loom"];
    done.push(suite(
        "loom models of crates/lifetime",
        configured(&["loom"], "loom")
            .args(loom)
            .args(["--", "--show-output"]),
    ));
    done.push(simulations());
    done.push(suite(
        "deliberate bugs that loom finds",
        configured(&["loom", "mutate"], "mutate-loom")
            .args(loom)
            .args(["--", "--show-output", "mutations_are_found"]),
    ));
    done.push(suite(
        "deliberate bugs that the simulator finds",
        configured(&["mutate"], "mutate")
            .args(["--package", "fencepost-simulate", "--test", "mutations"])
            .args(["--", "--show-output"]),
    ));

    summary(&done)
}

fn summary(done: &[Done]) -> Result<(), String> {
    let mut sum = Counts::default();
    println!("\n== summary");
    for Done {
        suite,
        counts,
        took,
        notes,
    } in done
    {
        println!(
            "{suite}: {} passed, {} failed, {} skipped, {:.0} s",
            counts.passed,
            counts.failed,
            counts.skipped,
            took.as_secs_f64()
        );
        for note in notes {
            println!("    {note}");
        }
        sum += *counts;
    }
    println!(
        "\n{} passed, {} failed, {} skipped",
        sum.passed, sum.failed, sum.skipped
    );
    if sum.failed == 0 {
        Ok(())
    } else {
        std::process::exit(1)
    }
}
