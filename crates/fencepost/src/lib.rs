//! Fencepost is a drop-in backend of the [`wgpu`] crate with one promise: **GPU memory comes back at the
//! fence**. What a program destroys or drops is freed exactly when the GPU has no more use for it: at once
//! when it is idle, when its last submission completes otherwise; whether or not anybody polls.
//!
//! A program that uses `wgpu` changes the line that makes its instance:
//!
//! ```
//! let desc = wgpu::InstanceDescriptor::new_without_display_handle();
//! // let instance = wgpu::Instance::new(desc);
//! let instance = fencepost::instance(desc);
//! # drop(instance);
//! ```
//!
//! From there on it is plain `wgpu`. What Fencepost adds is set with a [`Builder`].
//!
//! # What differs from wgpu's own core
//!
//! * Submitting a command buffer that uses a destroyed resource is a validation error that executes
//!   nothing of the whole submission, as the specification says.
//! * `as_hal` gives `None` on any custom backend, and `create_buffer_from_hal` and
//!   `create_texture_from_hal` panic in `wgpu` itself.
//! * Rendering, surfaces and ray tracing are not implemented yet: asking for them is a validation error.
//!   Features that need them are not advertised.
//! * [`wgpu::MapRangeError`] can only be made by `wgpu`, so its text is always that of a buffer that is not
//!   mapped.

mod adapter;
#[cfg(feature = "audit")]
mod audit;
mod bindings;
mod buffer;
mod convert;
mod device;
mod encoder;
mod pass;
mod queue;
mod texture;
mod unimplemented;

use fencepost_core as core;

pub use core::{report::MemoryReport, Callbacks, Reclaim};

/// Makes an instance whose devices are Fencepost's, with the default options.
pub fn instance(desc: wgpu::InstanceDescriptor) -> wgpu::Instance {
    Builder::new(desc).instance()
}

/// Makes an instance with options.
///
/// ```
/// use fencepost::{Builder, Callbacks, Reclaim};
///
/// let desc = wgpu::InstanceDescriptor::new_without_display_handle();
/// let instance = Builder::new(desc)
///     .reclaim(Reclaim::Thread)
///     .callbacks(Callbacks::Prompt)
///     .instance();
/// # drop(instance);
/// ```
#[derive(Debug)]
pub struct Builder {
    desc: wgpu::InstanceDescriptor,
    options: core::Options,
    #[cfg(feature = "audit")]
    auditor: Option<fencepost_audit::Auditor>,
}

impl Builder {
    /// The default options for what `desc` describes.
    pub fn new(desc: wgpu::InstanceDescriptor) -> Self {
        Self {
            desc,
            options: core::Options::default(),
            #[cfg(feature = "audit")]
            auditor: None,
        }
    }

    /// Who gives memory back when the program does not call in.
    #[must_use]
    pub fn reclaim(mut self, reclaim: Reclaim) -> Self {
        self.options.reclaim = reclaim;
        self
    }

    /// Where the callbacks of mapping, work done and device loss run.
    #[must_use]
    pub fn callbacks(mut self, callbacks: Callbacks) -> Self {
        self.options.callbacks = callbacks;
        self
    }

    /// The most bytes that the buffers, textures, query sets and staging memory of one device may take, as
    /// their descriptors say, with half a MiB of Fencepost's own: for a GPU that is shared with others, or to
    /// see how a program does with little.
    ///
    /// What does not fit waits for what the program has let go of and the GPU still uses; what does not fit
    /// then is an out-of-memory error, whose message says what exists, what is retired and what is in flight.
    #[must_use]
    pub fn memory_budget(mut self, bytes: u64) -> Self {
        self.options.memory_budget = Some(bytes);
        self
    }

    /// Puts `auditor` between Fencepost and each graphics API: it checks every HAL call against the lifetime
    /// contract, and lets a test say when submissions complete and what fails. Feature `audit`.
    #[cfg(feature = "audit")]
    #[must_use]
    pub fn audit(mut self, auditor: &fencepost_audit::Auditor) -> Self {
        self.auditor = Some(auditor.clone());
        self
    }

    /// Makes the instance.
    pub fn instance(self) -> wgpu::Instance {
        #[cfg(feature = "audit")]
        if let Some(auditor) = self.auditor {
            let decorator = audit::Audit(auditor);
            let instance = core::Instance::decorated(self.desc, self.options, &decorator);
            return wgpu::Instance::from_custom(adapter::Instance(instance));
        }
        let instance = core::Instance::new(self.desc, self.options);
        wgpu::Instance::from_custom(adapter::Instance(instance))
    }
}

/// What a device holds, in numbers. `None` if it is not one of Fencepost's.
///
/// Takes a reclaim step first.
pub fn memory_report(device: &wgpu::Device) -> Option<MemoryReport> {
    let device = device.as_custom::<device::Device>()?;
    Some(device.core.memory_report())
}
