//! Conversions that more than one interface needs.

use crate::{
    core,
    texture::{Texture, TextureView},
};
use std::sync::Arc;

/// Why a handle cannot be used.
pub(crate) const FOREIGN: &str =
    "an object was passed that another backend of wgpu has made, not Fencepost";

/// A value that is ready, as a future.
pub(crate) fn ready<T>(value: T) -> std::pin::Pin<Box<std::future::Ready<T>>> {
    Box::pin(std::future::ready(value))
}

/// An error as `wgpu` knows it.
pub(crate) fn error(error: core::Error) -> wgpu::Error {
    let description = |kind: &str| format!("{kind}\n\nCaused by:\n  {error}\n");
    match error.kind() {
        core::ErrorKind::Validation => wgpu::Error::Validation {
            description: description("Validation Error"),
            source: Box::new(error),
        },
        core::ErrorKind::OutOfMemory => wgpu::Error::OutOfMemory {
            source: Box::new(error),
        },
        core::ErrorKind::Internal | core::ErrorKind::DeviceLost => wgpu::Error::Internal {
            description: description("Internal Error"),
            source: Box::new(error),
        },
    }
}

/// A filter of error scopes.
pub(crate) fn filter(filter: wgpu::ErrorFilter) -> core::ErrorKind {
    match filter {
        wgpu::ErrorFilter::OutOfMemory => core::ErrorKind::OutOfMemory,
        wgpu::ErrorFilter::Validation => core::ErrorKind::Validation,
        wgpu::ErrorFilter::Internal => core::ErrorKind::Internal,
    }
}

/// A buffer as one end of a copy.
pub(crate) fn copy_buffer<'a>(
    info: &wgpu::TexelCopyBufferInfo<'a>,
) -> Option<core::record::TexelCopyBufferInfo<'a>> {
    let buffer = info.buffer.as_custom::<crate::buffer::Buffer>()?;
    Some(core::record::TexelCopyBufferInfo {
        buffer: buffer.core()?,
        layout: info.layout,
    })
}

/// A texture as one end of a copy.
pub(crate) fn copy_texture<'a>(
    info: &wgpu::TexelCopyTextureInfo<'a>,
) -> Option<core::record::TexelCopyTextureInfo<'a>> {
    let texture = info.texture.as_custom::<Texture>()?;
    Some(core::record::TexelCopyTextureInfo {
        texture: &texture.core,
        mip_level: info.mip_level,
        origin: info.origin,
        aspect: info.aspect,
    })
}

/// Transitions of buffers.
pub(crate) fn buffer_transitions<'a>(
    transitions: &mut dyn Iterator<Item = wgpu::BufferTransition<&'a wgpu::custom::DispatchBuffer>>,
) -> Option<Vec<wgpu::BufferTransition<&'a Arc<core::resource::Buffer>>>> {
    // The program's iterator is drained also when it holds something foreign.
    let all: Vec<_> = transitions.collect();
    all.into_iter()
        .map(|transition| {
            Some(wgpu::BufferTransition {
                buffer: transition
                    .buffer
                    .as_custom::<crate::buffer::Buffer>()?
                    .core()?,
                state: transition.state,
            })
        })
        .collect()
}

/// Transitions of textures, or of views.
pub(crate) fn texture_transitions<'a, D: 'a, T: 'a>(
    transitions: &mut dyn Iterator<Item = wgpu::TextureTransition<&'a D>>,
    convert: impl Fn(&'a D) -> Option<&'a Arc<T>>,
) -> Option<Vec<wgpu::TextureTransition<&'a Arc<T>>>> {
    let all: Vec<_> = transitions.collect();
    all.into_iter()
        .map(|transition| {
            Some(wgpu::TextureTransition {
                texture: convert(transition.texture)?,
                selector: transition.selector,
                state: transition.state,
            })
        })
        .collect()
}

pub(crate) fn view(view: &wgpu::TextureView) -> Option<&Arc<core::resource::TextureView>> {
    Some(&view.as_custom::<TextureView>()?.core)
}
