//! `cargo xtask`: the commands of this repository. The standard library only, so that it is built in
//! a second; whatever needs a GPU is in `fencepost-tools`.
//!
//! Invariant: a command of another program is printed before it runs if it changes the machine.

mod check;
mod counts;
mod drivers;
mod shell;
mod test;
mod tools;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <command>

  demo [--bc6h] [--bc7] [IMAGE ...]
          Compresses pictures (PNG or JPEG; two are drawn if none is named) with the crate
          block_compression on wgpu-core and on Fencepost, and prints one table: output, times,
          GPU memory, and the cost of destroy(). Installs a software Vulkan driver if no GPU answers.
          BC6H and BC7 are heavy: some software drivers take minutes over them, or crash.
  bench [--rounds N]
          Timings of both cores and their ratio, on the system's driver and on the no-op back end.
          VK_ICD_FILENAMES chooses the driver.
  simulate [--seed S] [--steps N] [--jobs J]
          Random programs on the real core, an audited no-op back end and a manual clock, against a model.
          A failure is shrunk and printed as a test. Without --seed a fresh one is drawn, and printed.
  test    Every test, on lavapipe, then SwiftShader, then loom, the simulator and the deliberate bugs.
          Installs what they need.
  check   Format, lints, documentation, and a compile gate for the other platforms.
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) = match args.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("", args.as_slice()),
    };
    let done = match (command, rest) {
        ("demo", rest) => tools::demo(rest),
        ("bench", rest) => tools::bench(rest),
        ("simulate", rest) => tools::simulate(rest),
        ("test", []) => test::run(),
        ("check", []) => check::run(),
        ("test" | "check", _) => Err(format!("cargo xtask {command} takes no arguments")),
        ("", _) => Err(USAGE.to_string()),
        (unknown, _) => Err(format!("there is no command {unknown}\n\n{USAGE}")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
