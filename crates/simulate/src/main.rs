//! `simulate --seed S --steps N --jobs J`: runs random programs and says what happened.

use std::{
    process::ExitCode,
    thread,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

const USAGE: &str = "usage: simulate [--seed S] [--steps N] [--jobs J]";

fn main() -> ExitCode {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let mut seed = since.map_or(0, |since| since.as_nanos() as u64);
    let mut steps = 100_000;
    let mut jobs = thread::available_parallelism().map_or(1, usize::from);
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().and_then(|value| value.parse::<u64>().ok());
        match (name.as_str(), value) {
            ("--seed", Some(value)) => seed = value,
            ("--steps", Some(value)) => steps = value,
            ("--jobs", Some(value)) => jobs = value as usize,
            _ => {
                eprintln!("{USAGE}");
                return ExitCode::from(2);
            }
        }
    }
    // A deliberate bug, for the test that asserts that it is found.
    #[cfg(mutate)]
    if let Ok(bug) = std::env::var("FENCEPOST_PLANT") {
        fencepost_lifetime::mutation::plant(bug.leak());
    }
    println!("seed {seed}");
    let start = Instant::now();
    match fencepost_simulate::run(seed, steps, jobs) {
        Ok(stats) => {
            for (what, count) in &stats.counts {
                println!("{count:>10}  {what}");
            }
            let seconds = start.elapsed().as_secs_f64();
            println!(
                "seed {seed}: {} steps of {} programs in {seconds:.1} s, {:.0} steps per second",
                stats.steps,
                stats.programs,
                stats.steps as f64 / seconds
            );
            ExitCode::SUCCESS
        }
        Err(failure) => {
            println!("{failure}");
            ExitCode::FAILURE
        }
    }
}
