//! A WebGPU core on [`wgpu_hal`] and [`naga`] that keeps one promise: GPU memory comes back at the fence.
//!
//! The modules are the stations that a command passes, in order. A reader who follows one dispatch walks
//! [`record`] (the application's threads: validate, append to a list), `submit` (the queue: stamp, check,
//! transition, replay into the HAL), `reclaim` (after the GPU: move the watermark, free), and never back.
//! [`resource`] knows no encoder, `record` knows no queue, `submit` knows both; what decides when
//! something is freed is [`fencepost_lifetime`], which knows nobody.
//!
//! # Invariants
//!
//! * I1 A payload is never freed while a HAL command buffer that refers to it exists.
//! * I2 A payload is freed at most once, and every payload is freed by the time its device is gone.
//! * I3 Once the fence has passed a payload's last use and its object was destroyed or dropped, it is
//!   freed within one reclaim step; the reclaim thread bounds that step.
//! * I4 A submission that fails validation executes nothing, frees nothing early and delays nothing.
//! * I5 A destruction that races a submission ends in one of two ways: the submission reports the
//!   destroyed resource, or the payload outlives it.
//! * I6 User callbacks never run on the reclaim thread and never under a lock of ours.
//! * I7 Bytes that a fresh resource can show are zero.
//! * I8 Device loss resolves every callback exactly once and frees everything.
//! * I9 Each submission sees the effects of the ones before it.
//!
//! # Locks
//!
//! In the order in which they may be taken; nobody takes an earlier one while holding a later one:
//!
//! 1. the queue (`Device::queue`),
//! 2. a buffer's mapping (`Buffer::mapping`),
//! 3. a parent's children (`resource::children`),
//! 4. freeing (`Lower::freeing`, shared by those who free), then the watermark (`RetireQueue::advance`), then
//!    the list of submissions in flight,
//! 5. the filing of retired payloads (inside `RetireQueue`),
//! 6. leaves, under which nothing else is taken: the registry, the encoder pool, a resource's usage and
//!    initialisation state, error scopes, the callback queue.
//!
//! No object that a user can hold is dropped, and no closure of a user's is called, under any of them.

mod error;

pub mod device;
pub mod instance;
pub mod record;
pub mod report;
pub mod resource;

mod reclaim;
mod submit;
mod validate;

pub use device::{Callbacks, Device, Options, Reclaim};
pub use error::{Error, ErrorKind};
pub use instance::{Adapter, Instance, RequestDeviceError};
pub use submit::Queue;
