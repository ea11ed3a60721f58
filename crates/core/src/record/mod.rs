//! Recording: the application's threads check each command as it comes and append it to a list.
//!
//! No HAL object is touched here. A finished command buffer is data and handles of API objects: it costs
//! host memory, protects nothing from `destroy`, and can be dropped at any time.

mod commands;
mod compute_pass;
mod encoder;
mod queries;
mod scope;
mod table;

pub use compute_pass::{ComputePass, ComputePassDescriptor, PassTimestampWrites};
pub use encoder::{CommandBuffer, CommandEncoder, TexelCopyBufferInfo, TexelCopyTextureInfo};

pub(crate) use commands::{Command, LinearCopy, Recording, TextureCopy, Timestamps};
pub(crate) use compute_pass::words_behind_binding;
pub(crate) use scope::Scope;
