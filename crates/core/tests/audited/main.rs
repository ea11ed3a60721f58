//! The core on an audited no-op back end: a clock that completes submissions when the test says so, calls
//! that fail when it says so, and the strict lifetime contract checked in every call.
//!
//! * `rig`: a device under the auditor, and `watchdog`, which turns a hang into a failure.
//! * `pressure`, `fence`: memory that runs out, memory that comes back.
//! * `program`: one program that uses every kind of thing the core has; `loss` loses the device at each of
//!   its HAL calls, `failures` lets each call that can fail do so.
//! * `attacks`: what once went wrong when somebody tried to break it.
//! * `drops`: handles dropped in every order, at every stage of their use.

mod attacks;
mod drops;
mod failures;
mod fence;
mod loss;
mod pressure;
mod program;
mod rig;
mod watchdog;
