//! Command encoders and command buffers.

use crate::{
    buffer::Buffer,
    convert::{self, FOREIGN},
    core::record,
    pass::ComputePass,
    texture::{QuerySet, Texture},
    unimplemented::{AccelerationStructure, RenderPass, RENDERING},
};
use parking_lot::Mutex;
use std::sync::Arc;
use wgpu::custom::*;

/// A command encoder of ours as `wgpu` sees it.
#[derive(Debug)]
pub(crate) struct CommandEncoder(pub Arc<record::CommandEncoder>);

/// A command buffer of ours as `wgpu` sees it, until it is submitted.
#[derive(Debug)]
pub(crate) struct CommandBuffer(pub Mutex<Option<record::CommandBuffer>>);

impl CommandBufferInterface for CommandBuffer {}

impl CommandEncoder {
    fn foreign(&self, function: &'static str) {
        self.0.refuse(function, FOREIGN);
    }
}

impl CommandEncoderInterface for CommandEncoder {
    fn copy_buffer_to_buffer(
        &self,
        source: &DispatchBuffer,
        source_offset: wgpu::BufferAddress,
        destination: &DispatchBuffer,
        destination_offset: wgpu::BufferAddress,
        size: Option<wgpu::BufferAddress>,
    ) {
        let source = source.as_custom::<Buffer>().and_then(Buffer::core);
        let destination = destination.as_custom::<Buffer>().and_then(Buffer::core);
        match (source, destination) {
            (Some(source), Some(destination)) => self.0.copy_buffer_to_buffer(
                source,
                source_offset,
                destination,
                destination_offset,
                size,
            ),
            _ => self.foreign("CommandEncoder::copy_buffer_to_buffer"),
        }
    }

    fn copy_buffer_to_texture(
        &self,
        source: wgpu::TexelCopyBufferInfo<'_>,
        destination: wgpu::TexelCopyTextureInfo<'_>,
        size: wgpu::Extent3d,
    ) {
        match (
            convert::copy_buffer(&source),
            convert::copy_texture(&destination),
        ) {
            (Some(source), Some(destination)) => {
                self.0.copy_buffer_to_texture(source, destination, size);
            }
            _ => self.foreign("CommandEncoder::copy_buffer_to_texture"),
        }
    }

    fn copy_texture_to_buffer(
        &self,
        source: wgpu::TexelCopyTextureInfo<'_>,
        destination: wgpu::TexelCopyBufferInfo<'_>,
        size: wgpu::Extent3d,
    ) {
        match (
            convert::copy_texture(&source),
            convert::copy_buffer(&destination),
        ) {
            (Some(source), Some(destination)) => {
                self.0.copy_texture_to_buffer(source, destination, size);
            }
            _ => self.foreign("CommandEncoder::copy_texture_to_buffer"),
        }
    }

    fn copy_texture_to_texture(
        &self,
        source: wgpu::TexelCopyTextureInfo<'_>,
        destination: wgpu::TexelCopyTextureInfo<'_>,
        size: wgpu::Extent3d,
    ) {
        match (
            convert::copy_texture(&source),
            convert::copy_texture(&destination),
        ) {
            (Some(source), Some(destination)) => {
                self.0.copy_texture_to_texture(source, destination, size);
            }
            _ => self.foreign("CommandEncoder::copy_texture_to_texture"),
        }
    }

    fn begin_compute_pass(&self, desc: &wgpu::ComputePassDescriptor<'_>) -> DispatchComputePass {
        DispatchComputePass::custom(ComputePass::begin(&self.0, desc))
    }

    fn begin_render_pass(&self, _desc: &wgpu::RenderPassDescriptor<'_>) -> DispatchRenderPass {
        self.0
            .refuse("CommandEncoder::begin_render_pass", RENDERING);
        DispatchRenderPass::custom(RenderPass)
    }

    fn finish(&mut self) -> DispatchCommandBuffer {
        let commands = self.0.finish();
        DispatchCommandBuffer::custom(CommandBuffer(Mutex::new(Some(commands))))
    }

    fn clear_texture(&self, texture: &DispatchTexture, range: &wgpu::ImageSubresourceRange) {
        match texture.as_custom::<Texture>() {
            Some(texture) => self.0.clear_texture(&texture.core, range),
            None => self.foreign("CommandEncoder::clear_texture"),
        }
    }

    fn clear_buffer(
        &self,
        buffer: &DispatchBuffer,
        offset: wgpu::BufferAddress,
        size: Option<wgpu::BufferAddress>,
    ) {
        match buffer.as_custom::<Buffer>().and_then(Buffer::core) {
            Some(buffer) => self.0.clear_buffer(buffer, offset, size),
            None => self.foreign("CommandEncoder::clear_buffer"),
        }
    }

    fn insert_debug_marker(&self, label: &str) {
        self.0.insert_debug_marker(label);
    }

    fn push_debug_group(&self, label: &str) {
        self.0.push_debug_group(label);
    }

    fn pop_debug_group(&self) {
        self.0.pop_debug_group();
    }

    fn write_timestamp(&self, query_set: &DispatchQuerySet, query_index: u32) {
        match query_set.as_custom::<QuerySet>() {
            Some(set) => self.0.write_timestamp(&set.0, query_index),
            None => self.foreign("CommandEncoder::write_timestamp"),
        }
    }

    fn resolve_query_set(
        &self,
        query_set: &DispatchQuerySet,
        first_query: u32,
        query_count: u32,
        destination: &DispatchBuffer,
        destination_offset: wgpu::BufferAddress,
    ) {
        let destination = destination.as_custom::<Buffer>().and_then(Buffer::core);
        match (query_set.as_custom::<QuerySet>(), destination) {
            (Some(set), Some(destination)) => self.0.resolve_query_set(
                &set.0,
                first_query,
                query_count,
                destination,
                destination_offset,
            ),
            _ => self.foreign("CommandEncoder::resolve_query_set"),
        }
    }

    fn mark_acceleration_structures_built<'a>(
        &self,
        _blas: &mut dyn Iterator<Item = &'a wgpu::Blas>,
        _tlas: &mut dyn Iterator<Item = &'a wgpu::Tlas>,
    ) {
        let function = "CommandEncoder::mark_acceleration_structures_built";
        self.0.refuse(function, AccelerationStructure::WHY);
    }

    fn build_acceleration_structures<'a>(
        &self,
        _blas: &mut dyn Iterator<Item = &'a wgpu::BlasBuildEntry<'a>>,
        _tlas: &mut dyn Iterator<Item = &'a wgpu::Tlas>,
    ) {
        let function = "CommandEncoder::build_acceleration_structures";
        self.0.refuse(function, AccelerationStructure::WHY);
    }

    fn transition_resources<'a>(
        &mut self,
        buffers: &mut dyn Iterator<Item = wgpu::BufferTransition<&'a DispatchBuffer>>,
        textures: &mut dyn Iterator<Item = wgpu::TextureTransition<&'a DispatchTexture>>,
    ) {
        let buffers = convert::buffer_transitions(buffers);
        let textures = convert::texture_transitions(textures, |texture| {
            Some(&texture.as_custom::<Texture>()?.core)
        });
        match (buffers, textures) {
            (Some(buffers), Some(textures)) => self
                .0
                .transition_resources(buffers.into_iter(), textures.into_iter()),
            _ => self.foreign("CommandEncoder::transition_resources"),
        }
    }
}
