//! The behaviour of Fencepost as a program sees it through `wgpu`, on a real driver.
//!
//! One binary, one module per subject. Each test runs inside [`harness::test`], which makes a
//! device of its own, lets one test at a time use the driver, and fails the test for every
//! message of the Khronos validation layer, for every report of the auditor (strict contract), and for
//! every error that nobody asked for.
//!
//! Environment:
//! - `VK_ICD_FILENAMES`: the Vulkan driver, as the loader understands it.
//! - `FENCEPOST_TEST_CORE=wgpu`: run the same tests on wgpu-core. Tests of what only Fencepost
//!   promises are skipped there; all others must pass, which is how the tests are tested.
//! - `FENCEPOST_TEST_AUDIT=off`: run without the auditor below the core.
//! - `FENCEPOST_TEST_LOG`: print errors and warnings of every crate's log as they come.
//! - `FENCEPOST_STORM_SECONDS`: how long the storms of [`threads`] last (20 by default).

mod harness;
mod heap;
mod messages;

mod additions;
mod attacks;
mod backends;
mod bindings;
mod buffers;
mod callbacks;
mod compute;
mod copies;
mod device;
mod errors;
mod field;
mod invariants;
mod lifetime;
mod queries;
mod queue_writes;
mod render;
mod scenarios;
mod shaders;
mod textures;
mod threads;
mod utilities;
mod zeroed;
