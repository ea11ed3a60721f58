//! The demo and the benchmark of Fencepost: wgpu-core and Fencepost in one process, given the same
//! closure and the same `wgpu` API, measured by the same code.
//!
//! `cargo xtask demo` and `cargo xtask bench` build and start this program. It needs no file at run
//! time, so the release binary can be copied to another machine of the same architecture.
//!
//! Invariant: nothing here knows which core it talks to once [`cores::open`] has returned.

mod bench;
mod compress;
mod cores;
mod demo;
mod in_flight;
mod lifetime;
mod memory;
mod pictures;
mod text;
mod timing;

use std::process::ExitCode;

const USAGE: &str = "\
usage: fencepost-tools <command>

  demo [--bc6h] [--bc7] [IMAGE ...]   texture compression on both cores, memory, cost of destroy()
  bench [--rounds N]                  timings of both cores and their ratio
  probe                               name the adapter that would be used; exit status 1: none
  destroy-cost N ...                  cost of destroy() with N submissions in flight, tab-separated
";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let command = args.next().unwrap_or_default();
    let rest: Vec<String> = args.collect();
    let done = match command.as_str() {
        "demo" => demo::run(&rest),
        "bench" => bench::run(&rest),
        "probe" => cores::probe(),
        "destroy-cost" => in_flight::run(&rest),
        _ => Err(USAGE.to_string()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
