//! Deliberate bugs, planted one at a time: the simulator finds each.
//!
//! They are behind `fencepost_lifetime::mutation::planted` in the core, and exist only in a build with
//! `--cfg mutate`; `cargo xtask test` makes one. Each runs in a process of its own, since a bug may bring
//! the process down or hang it. (Bugs that only an interleaving of threads can show are loom's: see
//! `crates/lifetime/tests/loom.rs`.)

#![cfg(mutate)]

use std::{
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Each is the name of a planted bug, with what it breaks.
const BUGS: &[(&str, &str)] = &[
    ("a payload freed one serial early", "I1"),
    ("stamps kept by an aborted submission", "I4"),
    ("a slot retired twice", "I2"),
    ("a destruction that ignores pins", "held views"),
    ("bind groups without a stamp", "I1"),
    ("staging memory without a stamp", "I1"),
    ("a submission that does not check", "I5"),
    (
        "command buffers reset after what they refer to is freed",
        "I1",
    ),
    ("a lost device that keeps what was in flight", "I8"),
    ("a failed submission that is not undone", "I7, I9"),
    ("writes after the commands", "I9"),
    (
        "a refused submission that forgets the writes before it",
        "I4",
    ),
    ("a mapping that does not wait for the GPU", "mapping"),
    ("a destroyed buffer that forgets its callback", "I6"),
    ("staging memory kept for a destroyed target", "I3"),
    ("a destroyed resource whose bind groups stay", "I3"),
    ("recycled memory that is not cleared", "I7"),
    (
        "out of memory while retired memory could come back",
        "pressure",
    ),
];

/// Enough for the rarest.
const STEPS: &str = "100000";
const LIMIT: Duration = Duration::from_secs(240);

fn simulate(bug: &str) -> Output {
    let child = Command::new(env!("CARGO_BIN_EXE_simulate"))
        .args(["--seed", "1", "--steps", STEPS])
        .env("FENCEPOST_PLANT", bug)
        .env("RUST_BACKTRACE", "0")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the simulator was built with this test");
    within(LIMIT, child, bug)
}

fn within(limit: Duration, child: Child, what: &str) -> Output {
    let id = child.id();
    let waiting = thread::spawn(move || child.wait_with_output());
    let start = Instant::now();
    while !waiting.is_finished() {
        if start.elapsed() > limit {
            let _ = Command::new("kill").args(["-9", &id.to_string()]).status();
            panic!("{what:?}: the simulator did not end within {limit:?}");
        }
        thread::sleep(Duration::from_millis(20));
    }
    waiting
        .join()
        .expect("waiting does not panic")
        .expect("the simulator can be waited for")
}

#[test]
fn without_a_bug_nothing_is_found() {
    let output = simulate("");
    assert!(output.status.success(), "{output:#?}");
}

#[test]
fn every_bug_is_found() {
    let mut missed = Vec::new();
    for (bug, breaks) in BUGS {
        let start = Instant::now();
        let output = simulate(bug);
        let text = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        // The program that shows it, shrunk, as a test to paste.
        let steps = text
            .lines()
            .skip_while(|line| line.trim() != "replay(&[")
            .skip(1);
        let steps = steps.take_while(|line| line.trim() != "]);").count();
        if output.status.code() == Some(1) && steps > 0 {
            let took = start.elapsed().as_secs_f64();
            println!("found by the simulator: {bug} ({breaks}), {steps} steps, {took:.1} s");
        } else {
            println!("{text}");
            missed.push(format!("{bug}: {}", output.status));
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}
