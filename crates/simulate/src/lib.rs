//! A deterministic, seeded run of the real core against a model of its promise.
//!
//! The core runs on an audited no-op back end with a manual clock: submissions complete when the program
//! says so, memory runs out and devices die when it says so, and the strict lifetime contract is checked in
//! every call. Random programs over several devices and simulated threads drive it, user code runs in the
//! middle of its calls, and after each step a small model, written from the promise and not from the code,
//! says what must exist, what must be freed, what failed, what was called back and what every readable
//! byte is. Where the two differ, the program is shrunk and printed as a test.
//!
//! * [`step`]: what a program consists of; `generate` makes one up.
//! * `world` runs it on the core, `model` says what must come of it, `compare` looks at both.
//! * [`run`] runs many programs, [`replay`] one; [`shrink`] makes one shorter.

mod compare;
mod event;
mod generate;
mod model;
mod random;
mod run;
mod shrink;
mod world;

pub mod step;

pub use run::{replay, run, Failure, Stats};
pub use shrink::shrink;
pub use step::{Fault, Kind, List, Mode, Step, Usage, Wait};

/// How many devices a program has.
pub(crate) const DEVICES: u32 = 3;
