//! After the GPU: what was let go of comes back.
//!
//! * [`payload`]: the HAL objects that slots hold, and how each is freed.
//! * [`lower`]: the lower half of a device, which outlives every API object and frees everything.
//! * [`watermark`]: one step: read the fence, reset command buffers, free.
//! * [`thread`]: the thread that takes that step when nobody calls in.
//! * [`pressure`]: allocation that waits for retired memory before it reports out of memory.

pub(crate) mod lower;
pub(crate) mod payload;
pub(crate) mod pressure;
pub(crate) mod thread;
pub(crate) mod watermark;

pub(crate) use lower::Lower;
pub(crate) use payload::{BindGroupRaw, BufferRaw, Payload, PipelineLayoutRaw, Raw};
