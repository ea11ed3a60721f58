//! What the auditor says: which rule was broken, by which object, where.

use std::{backtrace::Backtrace, fmt, sync::Arc};

/// The kinds of HAL object that the auditor knows, named after `wgpu_hal::Api`'s associated types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each is the type of wgpu-hal with that name")]
pub enum ObjectKind {
    Buffer,
    Texture,
    SurfaceTexture,
    TextureView,
    Sampler,
    QuerySet,
    BindGroupLayout,
    BindGroup,
    PipelineLayout,
    ShaderModule,
    RenderPipeline,
    ComputePipeline,
    RayTracingPipeline,
    PipelineCache,
    AccelerationStructure,
    Fence,
    CommandEncoder,
    CommandBuffer,
}

/// An object as a report names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectInfo {
    /// What it is.
    pub kind: ObjectKind,
    /// Its number: unique and rising within one [`Auditor`](crate::Auditor), over all kinds and devices.
    pub id: u64,
    /// The label that it was made with. Empty labels count as none.
    pub label: Option<Box<str>>,
}

impl fmt::Display for ObjectInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} #{}", self.kind, self.id)?;
        match &self.label {
            Some(label) => write!(f, " '{label}'"),
            None => Ok(()),
        }
    }
}

/// A submission as a report, or the [`Clock`](crate::Clock), names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SubmissionInfo {
    /// Its number: 1 for the auditor's first, rising over all devices.
    pub serial: u64,
    /// The number of the device.
    pub device: u64,
    /// The number of the fence that it signals.
    pub fence: u64,
    /// The value that it stores in the fence.
    pub value: u64,
}

impl fmt::Display for SubmissionInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "submission {} (fence #{} = {})",
            self.serial, self.fence, self.value
        )
    }
}

/// The rules. The sentence after each is the rule itself, and [`Violation::rule`] says it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Violation {
    /// Destroyed while a command buffer that refers to it is being encoded. Strict only.
    DestroyedWhileEncoding,
    /// Destroyed while a finished command buffer that refers to it waits to be submitted. Strict only.
    DestroyedBeforeSubmit,
    /// Destroyed while a command buffer that refers to it is in flight.
    DestroyedInFlight,
    /// Destroyed while a command buffer that refers to it has completed and was not reset. Only if
    /// [`Auditor::set_reset_before_free`](crate::Auditor::set_reset_before_free) asks for it.
    DestroyedBeforeReset,
    /// A bind group layout was destroyed while bind groups of it exist: their descriptors come from its pool.
    LayoutInUse,
    /// A mapped buffer was destroyed.
    DestroyedWhileMapped,
    /// An encoder with command buffers in flight, or a fence that is still to be signalled, is gone.
    DroppedInFlight,
    /// A command buffer was reset in flight.
    ResetInFlight,
    /// `reset_all` was not given all live command buffers of its encoder.
    ResetIncomplete,
    /// Destroyed, reset or presented twice.
    DoubleDestroy,
    /// Used after it was destroyed, directly or by something that holds it.
    UseOfDestroyed,
    /// A buffer was mapped in flight.
    MappedInFlight,
    /// A buffer that is not mapped was unmapped, flushed or invalidated.
    NotMapped,
    /// A call that the state of the encoder or of the command buffer does not allow.
    OutOfOrder,
    /// An object was given to another device than the one that made it, or to another encoder.
    ForeignObject,
    /// A fence was waited for with a value that no submission is going to store.
    WaitNeverSubmitted,
    /// A submission stores a value in a fence that is not above the ones before it.
    FenceNotIncreasing,
    /// Still alive when its device goes.
    StillAlive,
}

impl Violation {
    /// The rule that was broken, as one sentence.
    pub fn rule(self) -> &'static str {
        match self {
            Self::DestroyedWhileEncoding => {
                "an object must outlive the encoding of command buffers that refer to it"
            }
            Self::DestroyedBeforeSubmit => {
                "an object must outlive finished command buffers that refer to it"
            }
            Self::DestroyedInFlight => {
                "an object must outlive the execution of command buffers that refer to it"
            }
            Self::DestroyedBeforeReset => {
                "command buffers must be reset before what they refer to is destroyed"
            }
            Self::LayoutInUse => "a bind group layout must outlive its bind groups",
            Self::DestroyedWhileMapped => "a buffer must be unmapped before it is destroyed",
            Self::DroppedInFlight => {
                "encoders and fences must outlive the submissions that use them"
            }
            Self::ResetInFlight => "a command buffer must not be reset before it has completed",
            Self::ResetIncomplete => {
                "reset_all must be given every live command buffer of its encoder"
            }
            Self::DoubleDestroy => "an object is destroyed, reset or presented once",
            Self::UseOfDestroyed => "a destroyed object must not be used",
            Self::MappedInFlight => "a buffer must not be mapped while the GPU may use it",
            Self::NotMapped => "only a mapped buffer can be unmapped, flushed or invalidated",
            Self::OutOfOrder => {
                "calls must follow the states of encoders, passes and command buffers"
            }
            Self::ForeignObject => {
                "an object may be used only with the device and encoder that made it"
            }
            Self::WaitNeverSubmitted => {
                "a fence may be waited for only with a value that was submitted"
            }
            Self::FenceNotIncreasing => "the values stored in a fence must rise",
            Self::StillAlive => "everything must be destroyed before its device",
        }
    }
}

/// One broken rule.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The rule.
    pub violation: Violation,
    /// The call that broke it, as `wgpu-hal` names it.
    pub call: &'static str,
    /// The number of the device.
    pub device: u64,
    /// Whom it happened to.
    pub object: ObjectInfo,
    /// The command buffer that matters, if one does. Of several, the one that has come furthest.
    pub command_buffer: Option<ObjectInfo>,
    /// The submission that `command_buffer`, the fence or the encoder is in.
    pub submission: Option<SubmissionInfo>,
    /// Values and circumstances that the other fields do not hold. May be empty.
    pub detail: String,
    /// Where the call came from. Captured whatever `RUST_BACKTRACE` says; resolved when printed.
    pub backtrace: Arc<Backtrace>,
}

/// One line: the rule, the object and what it collided with. The backtrace is not in it.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} in {} of device #{}: {}",
            self.violation, self.call, self.device, self.object
        )?;
        if let Some(command_buffer) = &self.command_buffer {
            write!(f, ", {command_buffer}")?;
        }
        if let Some(submission) = &self.submission {
            write!(f, ", {submission}")?;
        }
        if !self.detail.is_empty() {
            write!(f, ", {}", self.detail)?;
        }
        write!(f, "; {}", self.violation.rule())
    }
}

/// A [`Report`] that has not got its call and backtrace yet.
#[derive(Debug)]
pub(crate) struct Finding {
    pub violation: Violation,
    pub device: u64,
    pub object: ObjectInfo,
    pub command_buffer: Option<ObjectInfo>,
    pub submission: Option<SubmissionInfo>,
    pub detail: String,
}

impl Finding {
    pub fn new(violation: Violation, device: u64, object: ObjectInfo) -> Self {
        Self {
            violation,
            device,
            object,
            command_buffer: None,
            submission: None,
            detail: String::new(),
        }
    }

    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }

    pub fn commands(
        mut self,
        command_buffer: ObjectInfo,
        submission: Option<SubmissionInfo>,
    ) -> Self {
        self.command_buffer = Some(command_buffer);
        self.submission = submission;
        self
    }
}
