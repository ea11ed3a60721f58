//! The auditor's own tests: each violation is planted and seen, correct use is silent, the clock and each
//! fault do what they say, and real backends and wgpu-core run on top.

mod backends;
mod clock;
mod correct_use;
mod dynamic;
mod faults;
mod references;
mod rig;
mod under_wgpu;
mod violations;
