//! A decorator over any `wgpu-hal` backend that holds its user to the lifetime contract.
//!
//! # The contract
//!
//! `wgpu-hal` leaves lifetimes to its caller. What it asks for, in our words:
//!
//! * Everything that a submitted command buffer uses lives until the command buffer has completed, and so
//!   do the command buffer, the encoder that built it and the fence that the submission signals.
//! * An encoder is *closed* or *recording*: `begin_encoding` opens it, `end_encoding` and
//!   `discard_encoding` close it, commands go into an open one, `reset_all` takes a closed one and every
//!   live command buffer that it built.
//! * A fence is waited for only with values that an accepted submission is going to store.
//! * A bind group layout outlives the bind groups that were made with it.
//! * A buffer is unmapped before it is destroyed; only a mapped one is unmapped, flushed or invalidated.
//!
//! That is [`Contract::Standard`]. [`Contract::Strict`] asks for more: what Metal's command buffers with
//! unretained references need, and Metal 4's always. There everything that a command buffer refers to
//! lives from the first encoding call that names it until the command buffer has completed, was discarded
//! or was reset. "Refers to" means all that a command names and all that those hold: a bind group's layout,
//! buffers, samplers and views, a view's texture, a pipeline's layout and its bind group layouts.
//!
//! [`Audited<A>`] is a backend like `A` that checks this in every call and reports what it finds
//! ([`Violation`] lists the rules) with labels, command buffer, submission and backtrace. A submission is in
//! flight until its caller has *seen* it complete; whether the GPU had in truth finished does not count, so
//! what is found does not depend on timing.
//!
//! # What a backend sees of a violation
//!
//! Nothing that could bring it down. A call that would hand it something that is gone, another device's or
//! out of order is withheld; if it can fail, it fails with `DeviceError::Unexpected`. A destruction, a drop
//! or a reset that comes too early is passed on once the backend is idle.
//!
//! # Under a program
//!
//! Below ordinary `wgpu`, and so below `wgpu-core`, in ten lines:
//!
//! ```
//! use fencepost_audit::{AuditMode, Audited, Auditor, Contract};
//! use wgpu::hal::{self, Instance as _};
//! # type Backend = hal::api::Noop; // or Vulkan, Gles, Metal, Dx12
//! # let mut backend_options = wgpu::BackendOptions::default();
//! # backend_options.noop.enable = true;
//! # let desc = hal::InstanceDescriptor {
//! #     name: "audit", flags: wgpu::InstanceFlags::empty(), memory_budget_thresholds: Default::default(),
//! #     backend_options, telemetry: None, display: None,
//! # };
//!
//! let auditor = Auditor::new(Contract::Standard, AuditMode::Collect);
//! // SAFETY: the description is complete.
//! let raw = unsafe { <Backend as hal::Api>::Instance::init(&desc) }.expect("the backend is there");
//! let audited = Audited::<Backend>::wrap(raw, &auditor);
//! // SAFETY: the instance is new and nobody else's.
//! let instance = unsafe { wgpu::Instance::from_hal::<Audited<Backend>>(audited) };
//! // ... the program, unchanged ...
//! drop(instance);
//! for report in auditor.reports() {
//!     println!("{report}\n{}", report.backtrace);
//! }
//! assert!(auditor.reports().is_empty());
//! ```
//!
//! A user of `wgpu-hal` itself goes on from `audited`, which is a `wgpu_hal::Instance`; a user of its
//! `Dyn*` traits boxes it.
//!
//! # Time and failure
//!
//! [`Auditor::clock`] decides when submissions complete, one at a time ([`Completion::Manual`]), whatever
//! the backend does. [`Auditor::faults`] makes memory run out, devices die and calls fail. Both make a test
//! deterministic on the no-op backend, which executes copies and clears at once.
//!
//! # What it cannot see
//!
//! * What is done to an inner object (`inner()`, `as_hal`) or by raw handles: waits, destructions,
//!   submissions there.
//! * A program that maps a buffer persistently and only avoids races: `map_buffer` in flight is reported,
//!   although `wgpu-hal` forbids only the race itself. Accesses of the CPU through a mapping that exists
//!   already are not seen.
//! * Missing barriers, ranges and usages: what the API's own validation layers are for.
//! * Objects inside a resident heap or an acceleration structure: the bottom levels that a top level names
//!   by address.
//! * An encoder that is never dropped: it may outlive its device. [`Auditor::live_objects`] has it.
//! * Completion inside `Surface::configure`, which may wait for the device without saying so.
//! * Reading a buffer out of a `BufferBinding` depends on that type's derived `Debug` (it is private
//!   otherwise). Through `wgpu_hal`'s `Dyn*` traits this is the same route, since they are implemented by
//!   the generic ones.
//!
//! Native targets only.

#![cfg(not(target_family = "wasm"))]

mod auditor;
mod clock;
mod device;
mod encoder;
mod fault;
mod instance;
mod ledger;
mod lower;
mod queue;
mod report;
mod resource;

pub use auditor::{AuditMode, Auditor, Contract, MAX_REPORTS};
pub use clock::{Clock, Completion};
pub use device::Device;
pub use encoder::CommandEncoder;
pub use fault::{Faults, Site};
pub use instance::{Adapter, Instance, Surface};
pub use queue::Queue;
pub use report::{ObjectInfo, ObjectKind, Report, SubmissionInfo, Violation};
pub use resource::{
    AccelerationStructure, BindGroup, BindGroupLayout, Buffer, CommandBuffer, ComputePipeline,
    Fence, PipelineCache, PipelineLayout, QuerySet, RayTracingPipeline, RenderPipeline, Sampler,
    ShaderModule, SurfaceTexture, Texture, TextureView,
};

use std::{fmt, marker::PhantomData};
use wgpu_hal::Api;

/// The backend `A`, audited. See the [crate].
pub struct Audited<A>(PhantomData<A>);

impl<A: Api> Audited<A> {
    /// Puts `auditor` above a backend's instance and everything that is going to be made from it. Several
    /// instances may share an auditor.
    pub fn wrap(instance: A::Instance, auditor: &Auditor) -> Instance<A> {
        Instance::new(instance, auditor.clone())
    }
}

impl<A> Clone for Audited<A> {
    fn clone(&self) -> Self {
        Self(PhantomData)
    }
}

impl<A: Api> fmt::Debug for Audited<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Audited<{}>", A::VARIANT)
    }
}

macro_rules! audited {
    ($($name:ident)*) => {
        impl<A: Api> Api for Audited<A> {
            const VARIANT: wgpu_types::Backend = A::VARIANT;
            $(type $name = $name<A>;)*
        }
    };
}

audited! {
    Instance Surface Adapter Device Queue CommandEncoder CommandBuffer Buffer Texture SurfaceTexture
    TextureView Sampler QuerySet Fence BindGroupLayout BindGroup PipelineLayout ShaderModule RenderPipeline
    ComputePipeline RayTracingPipeline PipelineCache AccelerationStructure
}
