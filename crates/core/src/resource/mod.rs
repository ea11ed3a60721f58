//! WebGPU's objects. Each is a tombstone that outlives its payload: label, size and usage stay readable
//! after the HAL object in its [slot](fencepost_lifetime::Slot) is gone.

mod bind_group;
mod bind_group_layout;
mod body;
mod buffer;
mod children;
mod compute_pipeline;
mod init;
mod mapping;
mod pipeline_cache;
mod pipeline_layout;
mod query_set;
mod sampler;
mod shader_module;
mod staging;
mod texture;
mod texture_view;

pub use bind_group::*;
pub use bind_group_layout::*;
pub use buffer::*;
pub use compute_pipeline::*;
pub use mapping::*;
pub use pipeline_cache::*;
pub use pipeline_layout::*;
pub use query_set::*;
pub use sampler::*;
pub use shader_module::*;
pub use staging::*;
pub use texture::*;
pub use texture_view::*;

pub(crate) use body::Body;
pub(crate) use children::Children;
pub(crate) use init::BufferInit;
