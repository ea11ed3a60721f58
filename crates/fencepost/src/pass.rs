//! Compute passes.

use crate::{
    bindings::{BindGroup, ComputePipeline},
    buffer::Buffer,
    convert::{self, FOREIGN},
    core::record,
    texture::{QuerySet, TextureView},
};
use std::sync::Arc;
use wgpu::custom::*;

/// A compute pass of ours as `wgpu` sees it. It ends when it is dropped.
#[derive(Debug)]
pub(crate) struct ComputePass(record::ComputePass);

impl ComputePass {
    pub fn begin(
        encoder: &Arc<record::CommandEncoder>,
        desc: &wgpu::ComputePassDescriptor<'_>,
    ) -> Self {
        let mut foreign = false;
        let timestamp_writes = desc.timestamp_writes.as_ref().and_then(|writes| {
            let set = writes.query_set.as_custom::<QuerySet>();
            foreign = set.is_none();
            Some(record::PassTimestampWrites {
                query_set: &set?.0,
                beginning_of_pass_write_index: writes.beginning_of_pass_write_index,
                end_of_pass_write_index: writes.end_of_pass_write_index,
            })
        });
        let mut pass = encoder.begin_compute_pass(&record::ComputePassDescriptor {
            label: desc.label,
            timestamp_writes,
        });
        if foreign {
            pass.refuse("CommandEncoder::begin_compute_pass", FOREIGN);
        }
        Self(pass)
    }
}

impl Drop for ComputePass {
    /// The pass within ends with it.
    fn drop(&mut self) {}
}

impl ComputePassInterface for ComputePass {
    fn set_pipeline(&mut self, pipeline: &DispatchComputePipeline) {
        match pipeline.as_custom::<ComputePipeline>() {
            Some(pipeline) => self.0.set_pipeline(&pipeline.0),
            None => self.0.refuse("ComputePass::set_pipeline", FOREIGN),
        }
    }

    fn set_bind_group(
        &mut self,
        index: u32,
        bind_group: Option<&DispatchBindGroup>,
        offsets: &[wgpu::DynamicOffset],
    ) {
        let group = bind_group.map(|group| group.as_custom::<BindGroup>());
        match group {
            None => self.0.set_bind_group(index, None, offsets),
            Some(Some(group)) => self.0.set_bind_group(index, Some(&group.0), offsets),
            Some(None) => self.0.refuse("ComputePass::set_bind_group", FOREIGN),
        }
    }

    fn set_immediates(&mut self, offset: u32, data: &[u8]) {
        self.0.set_immediates(offset, data);
    }

    fn insert_debug_marker(&mut self, label: &str) {
        self.0.insert_debug_marker(label);
    }

    fn push_debug_group(&mut self, group_label: &str) {
        self.0.push_debug_group(group_label);
    }

    fn pop_debug_group(&mut self) {
        self.0.pop_debug_group();
    }

    fn write_timestamp(&mut self, query_set: &DispatchQuerySet, query_index: u32) {
        match query_set.as_custom::<QuerySet>() {
            Some(set) => self.0.write_timestamp(&set.0, query_index),
            None => self.0.refuse("ComputePass::write_timestamp", FOREIGN),
        }
    }

    fn begin_pipeline_statistics_query(&mut self, query_set: &DispatchQuerySet, query_index: u32) {
        match query_set.as_custom::<QuerySet>() {
            Some(set) => self.0.begin_pipeline_statistics_query(&set.0, query_index),
            None => {
                let function = "ComputePass::begin_pipeline_statistics_query";
                self.0.refuse(function, FOREIGN);
            }
        }
    }

    fn end_pipeline_statistics_query(&mut self) {
        self.0.end_pipeline_statistics_query();
    }

    fn dispatch_workgroups(&mut self, x: u32, y: u32, z: u32) {
        self.0.dispatch_workgroups(x, y, z);
    }

    fn dispatch_workgroups_indirect(
        &mut self,
        indirect_buffer: &DispatchBuffer,
        indirect_offset: wgpu::BufferAddress,
    ) {
        match indirect_buffer.as_custom::<Buffer>().and_then(Buffer::core) {
            Some(buffer) => self.0.dispatch_workgroups_indirect(buffer, indirect_offset),
            None => {
                let function = "ComputePass::dispatch_workgroups_indirect";
                self.0.refuse(function, FOREIGN);
            }
        }
    }

    fn transition_resources<'a>(
        &mut self,
        buffers: &mut dyn Iterator<Item = wgpu::BufferTransition<&'a DispatchBuffer>>,
        textures: &mut dyn Iterator<Item = wgpu::TextureTransition<&'a DispatchTextureView>>,
    ) {
        let buffers = convert::buffer_transitions(buffers);
        let views = convert::texture_transitions(textures, |view| {
            Some(&view.as_custom::<TextureView>()?.core)
        });
        match (buffers, views) {
            (Some(buffers), Some(views)) => self
                .0
                .transition_resources(buffers.into_iter(), views.into_iter()),
            _ => self.0.refuse("ComputePass::transition_resources", FOREIGN),
        }
    }
}
