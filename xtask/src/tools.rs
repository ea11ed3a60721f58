//! `demo`, `bench` and `simulate`: build the program, see to a driver if it needs one, run it.

use std::path::PathBuf;
use std::process::Command;

use crate::{drivers, shell};

const TOOLS: &str = "fencepost-tools";

/// Builds the program of a package.
fn build(package: &str, program: &str, features: &[&str]) -> Result<PathBuf, String> {
    let mut cargo = shell::cargo();
    cargo.args(["build", "--release", "--package", package]);
    if !features.is_empty() {
        cargo.arg("--features").arg(features.join(","));
    }
    shell::run(&mut cargo)?;
    let name = format!("{program}{}", std::env::consts::EXE_SUFFIX);
    Ok(shell::target().join("release").join(name))
}

fn tool(binary: &PathBuf) -> Command {
    let mut command = Command::new(binary);
    command.env("XDG_RUNTIME_DIR", shell::runtime_dir());
    command
}

/// What the tool says of the adapter, or `None` if none answers.
fn probe(binary: &PathBuf) -> Option<String> {
    shell::output(tool(binary).arg("probe"))
}

/// The demo. Options and paths go to the tool as they are.
pub fn demo(args: &[String]) -> Result<(), String> {
    let features: Vec<&str> = [("--bc6h", "bc6h"), ("--bc7", "bc7")]
        .into_iter()
        .filter_map(|(option, feature)| args.iter().any(|a| a == option).then_some(feature))
        .collect();
    let binary = build(TOOLS, TOOLS, &features)?;

    let mut adapter = probe(&binary);
    if adapter.is_none() && cfg!(target_os = "linux") {
        eprintln!("no Vulkan device answers: a software driver is needed");
        match drivers::install(&drivers::FOR_DEMO) {
            Ok(()) => adapter = probe(&binary),
            Err(reason) => eprintln!("{reason}"),
        }
    }
    let mut demo = tool(&binary);
    match &adapter {
        None => eprintln!(
            "no graphics driver: install one (a software one for Vulkan is Mesa's lavapipe, in Debian's \
             package mesa-vulkan-drivers, with the loader, libvulkan1) and run this again. What needs no \
             driver runs now."
        ),
        // Lavapipe keeps nothing in flight; SwiftShader does, and the demo uses it for one figure.
        Some(adapter) if adapter.contains("type: Cpu") => match drivers::swiftshader() {
            Ok(manifest) => {
                demo.env("FENCEPOST_SWIFTSHADER", manifest);
            }
            Err(reason) => eprintln!("without SwiftShader: {reason}"),
        },
        Some(_) => {}
    }
    run(demo.arg("demo").args(args))
}

/// The benchmark, on whatever driver the environment names.
pub fn bench(args: &[String]) -> Result<(), String> {
    let binary = build(TOOLS, TOOLS, &[])?;
    run(tool(&binary).arg("bench").args(args))
}

/// The simulator. It needs no driver.
pub fn simulate(args: &[String]) -> Result<(), String> {
    let binary = build("fencepost-simulate", "simulate", &[])?;
    run(Command::new(binary).args(args))
}

/// The tool has said what went wrong: an error of its own needs no second line.
fn run(command: &mut Command) -> Result<(), String> {
    shell::run(command).map_err(|error| format!("failed: {error}"))
}
