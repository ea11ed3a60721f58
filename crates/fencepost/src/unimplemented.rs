//! What is not there yet. Making one of these reports a validation error; using it afterwards does nothing.

use crate::{bindings::BindGroupLayout, core};
use std::{ops::Range, sync::Arc};
use wgpu::custom::*;

/// Why rendering is refused.
pub(crate) const RENDERING: &str = "rendering is not implemented yet";

/// An external texture that was refused.
#[derive(Debug)]
pub(crate) struct ExternalTexture;

impl ExternalTextureInterface for ExternalTexture {
    fn destroy(&self) {}
}

/// An acceleration structure that was refused.
#[derive(Debug)]
pub(crate) struct AccelerationStructure;

impl AccelerationStructure {
    /// Why it was refused.
    pub const WHY: &'static str = "ray tracing is not implemented";
}

impl TlasInterface for AccelerationStructure {}

impl BlasInterface for AccelerationStructure {
    fn prepare_compact_async(&self, callback: BlasCompactCallback) {
        callback(Err(wgpu::BlasAsyncError));
    }

    fn ready_for_compaction(&self) -> bool {
        false
    }
}

/// A render pipeline that was refused.
#[derive(Debug)]
pub(crate) struct RenderPipeline(pub Arc<core::Device>);

impl RenderPipelineInterface for RenderPipeline {
    fn get_bind_group_layout(&self, _index: u32) -> DispatchBindGroupLayout {
        let function = "RenderPipeline::get_bind_group_layout";
        self.0.refuse(function, RENDERING);
        DispatchBindGroupLayout::custom(BindGroupLayout(self.0.invalid_bind_group_layout(None)))
    }
}

/// A render bundle that was refused.
#[derive(Debug)]
pub(crate) struct RenderBundle;

impl RenderBundleInterface for RenderBundle {}

/// An encoder of render bundles that was refused.
#[derive(Debug)]
pub(crate) struct RenderBundleEncoder;

#[rustfmt::skip]
impl RenderBundleEncoderInterface for RenderBundleEncoder {
    fn set_pipeline(&mut self, _: &DispatchRenderPipeline) {}
    fn set_bind_group(&mut self, _: u32, _: Option<&DispatchBindGroup>, _: &[wgpu::DynamicOffset]) {}
    fn set_index_buffer(&mut self, _: &DispatchBuffer, _: wgpu::IndexFormat, _: u64, _: Option<wgpu::BufferSize>) {}
    fn set_vertex_buffer(&mut self, _: u32, _: Option<&DispatchBuffer>, _: u64, _: Option<wgpu::BufferSize>) {}
    fn set_immediates(&mut self, _: u32, _: &[u8]) {}
    fn draw(&mut self, _: Range<u32>, _: Range<u32>) {}
    fn draw_indexed(&mut self, _: Range<u32>, _: i32, _: Range<u32>) {}
    fn draw_indirect(&mut self, _: &DispatchBuffer, _: u64) {}
    fn draw_indexed_indirect(&mut self, _: &DispatchBuffer, _: u64) {}
    fn finish(self, _: &wgpu::RenderBundleDescriptor<'_>) -> DispatchRenderBundle {
        DispatchRenderBundle::custom(RenderBundle)
    }
    fn finish_boxed(self: Box<Self>, desc: &wgpu::RenderBundleDescriptor<'_>) -> DispatchRenderBundle {
        (*self).finish(desc)
    }
}

/// A render pass that was refused, and with it its encoder.
#[derive(Debug)]
pub(crate) struct RenderPass;

impl Drop for RenderPass {
    /// There is nothing to end.
    fn drop(&mut self) {}
}

#[rustfmt::skip]
impl RenderPassInterface for RenderPass {
    fn set_pipeline(&mut self, _: &DispatchRenderPipeline) {}
    fn set_bind_group(&mut self, _: u32, _: Option<&DispatchBindGroup>, _: &[wgpu::DynamicOffset]) {}
    fn set_index_buffer(&mut self, _: &DispatchBuffer, _: wgpu::IndexFormat, _: u64, _: Option<wgpu::BufferSize>) {}
    fn set_vertex_buffer(&mut self, _: u32, _: Option<&DispatchBuffer>, _: u64, _: Option<wgpu::BufferSize>) {}
    fn set_immediates(&mut self, _: u32, _: &[u8]) {}
    fn set_blend_constant(&mut self, _: wgpu::Color) {}
    fn set_scissor_rect(&mut self, _: u32, _: u32, _: u32, _: u32) {}
    fn set_viewport(&mut self, _: f32, _: f32, _: f32, _: f32, _: f32, _: f32) {}
    fn set_stencil_reference(&mut self, _: u32) {}
    fn draw(&mut self, _: Range<u32>, _: Range<u32>) {}
    fn draw_indexed(&mut self, _: Range<u32>, _: i32, _: Range<u32>) {}
    fn draw_mesh_tasks(&mut self, _: u32, _: u32, _: u32) {}
    fn draw_indirect(&mut self, _: &DispatchBuffer, _: u64) {}
    fn draw_indexed_indirect(&mut self, _: &DispatchBuffer, _: u64) {}
    fn draw_mesh_tasks_indirect(&mut self, _: &DispatchBuffer, _: u64) {}
    fn multi_draw_indirect(&mut self, _: &DispatchBuffer, _: u64, _: u32) {}
    fn multi_draw_indexed_indirect(&mut self, _: &DispatchBuffer, _: u64, _: u32) {}
    fn multi_draw_indirect_count(&mut self, _: &DispatchBuffer, _: u64, _: &DispatchBuffer, _: u64, _: u32) {}
    fn multi_draw_mesh_tasks_indirect(&mut self, _: &DispatchBuffer, _: u64, _: u32) {}
    fn multi_draw_indexed_indirect_count(&mut self, _: &DispatchBuffer, _: u64, _: &DispatchBuffer, _: u64, _: u32) {}
    fn multi_draw_mesh_tasks_indirect_count(&mut self, _: &DispatchBuffer, _: u64, _: &DispatchBuffer, _: u64, _: u32) {}
    fn insert_debug_marker(&mut self, _: &str) {}
    fn push_debug_group(&mut self, _: &str) {}
    fn pop_debug_group(&mut self) {}
    fn write_timestamp(&mut self, _: &DispatchQuerySet, _: u32) {}
    fn begin_occlusion_query(&mut self, _: u32) {}
    fn end_occlusion_query(&mut self) {}
    fn begin_pipeline_statistics_query(&mut self, _: &DispatchQuerySet, _: u32) {}
    fn end_pipeline_statistics_query(&mut self) {}
    fn execute_bundles(&mut self, bundles: &mut dyn Iterator<Item = &DispatchRenderBundle>) {
        // The program's iterator is drained, as it would be.
        bundles.for_each(drop);
    }
}
