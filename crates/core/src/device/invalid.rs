//! Objects that are invalid from the start: for a front end that cannot even ask for them.

use super::Device;
use crate::resource::{BindGroup, BindGroupLayout, ComputePipeline, PipelineLayout, ShaderModule};
use std::sync::Arc;

impl Device {
    /// A shader module that every use of is an error.
    pub fn invalid_shader_module(self: &Arc<Self>, label: Option<&str>) -> Arc<ShaderModule> {
        Arc::new(ShaderModule::invalid(self, label.unwrap_or_default()))
    }

    /// A bind group layout that every use of is an error.
    pub fn invalid_bind_group_layout(
        self: &Arc<Self>,
        label: Option<&str>,
    ) -> Arc<BindGroupLayout> {
        Arc::new(BindGroupLayout::invalid(self, label.unwrap_or_default()))
    }

    /// A pipeline layout that every use of is an error.
    pub fn invalid_pipeline_layout(self: &Arc<Self>, label: Option<&str>) -> Arc<PipelineLayout> {
        Arc::new(PipelineLayout::invalid(self, label.unwrap_or_default()))
    }

    /// A bind group that every use of is an error.
    pub fn invalid_bind_group(self: &Arc<Self>, label: Option<&str>) -> Arc<BindGroup> {
        let layout = self.invalid_bind_group_layout(None);
        Arc::new(BindGroup::invalid(self, label.unwrap_or_default(), &layout))
    }

    /// A compute pipeline that every use of is an error.
    pub fn invalid_compute_pipeline(self: &Arc<Self>, label: Option<&str>) -> Arc<ComputePipeline> {
        Arc::new(ComputePipeline::invalid(self, label.unwrap_or_default()))
    }
}
