//! Shader modules, layouts, bind groups and pipelines.

use crate::{
    buffer::Buffer,
    convert::{self, ready},
    core::{
        self,
        resource::{self, BindingResource, CompilationFailure},
    },
    device::foreign,
    texture::Sampler,
};
use std::{pin::Pin, sync::Arc};
use wgpu::custom::*;

/// A shader module of ours as `wgpu` sees it.
#[derive(Debug)]
pub(crate) struct ShaderModule(pub Arc<resource::ShaderModule>);

impl ShaderModuleInterface for ShaderModule {
    fn get_compilation_info(&self) -> Pin<Box<dyn ShaderCompilationInfoFuture>> {
        let info = match self.0.compilation_failure().cloned() {
            None => wgpu::CompilationInfo {
                messages: Vec::new(),
            },
            Some(CompilationFailure::Wgsl(error)) => error.into(),
            #[cfg(feature = "spirv")]
            Some(CompilationFailure::SpirV(error)) => error.into(),
            #[cfg(feature = "glsl")]
            Some(CompilationFailure::Glsl(error)) => error.into(),
            Some(CompilationFailure::Validation(error)) => error.into(),
            Some(other) => wgpu::CompilationInfo {
                messages: vec![wgpu::CompilationMessage {
                    message: other.to_string(),
                    message_type: wgpu::CompilationMessageType::Error,
                    location: None,
                }],
            },
        };
        ready(info)
    }
}

/// A source as ours. `None` if `wgpu` has a kind that we do not know.
pub(crate) fn shader_source(source: wgpu::ShaderSource<'_>) -> Option<resource::ShaderSource<'_>> {
    Some(match source {
        wgpu::ShaderSource::Wgsl(source) => resource::ShaderSource::Wgsl(source),
        #[cfg(feature = "spirv")]
        wgpu::ShaderSource::SpirV(words) => resource::ShaderSource::SpirV(words),
        #[cfg(feature = "glsl")]
        wgpu::ShaderSource::Glsl {
            shader,
            stage,
            defines,
        } => resource::ShaderSource::Glsl {
            shader,
            stage,
            defines,
        },
        #[cfg(feature = "naga-ir")]
        wgpu::ShaderSource::Naga(module) => resource::ShaderSource::Naga(module),
        _ => return None,
    })
}

/// A bind group layout of ours as `wgpu` sees it.
#[derive(Debug)]
pub(crate) struct BindGroupLayout(pub Arc<resource::BindGroupLayout>);

impl BindGroupLayoutInterface for BindGroupLayout {}

/// A bind group of ours as `wgpu` sees it.
#[derive(Debug)]
pub(crate) struct BindGroup(pub Arc<resource::BindGroup>);

impl BindGroupInterface for BindGroup {}

/// Makes a bind group.
pub(crate) fn bind_group(
    device: &Arc<core::Device>,
    desc: &wgpu::BindGroupDescriptor<'_>,
) -> Arc<resource::BindGroup> {
    let layout = desc.layout.as_custom::<BindGroupLayout>();
    let entries: Option<Vec<_>> = desc.entries.iter().map(entry).collect();
    match (layout, entries) {
        (Some(layout), Some(entries)) => device.create_bind_group(&resource::BindGroupDescriptor {
            label: desc.label,
            layout: &layout.0,
            entries: &entries,
        }),
        _ => {
            foreign(device, "Device::create_bind_group");
            device.invalid_bind_group(desc.label)
        }
    }
}

/// `None` if it names something of another backend's.
fn entry<'a>(entry: &'a wgpu::BindGroupEntry<'_>) -> Option<resource::BindGroupEntry<'a>> {
    use wgpu::BindingResource as From;

    let (resource, array) = match &entry.resource {
        From::Buffer(binding) => (BindingResource::Buffers(vec![buffer(binding)?]), false),
        From::BufferArray(bindings) => {
            let bindings: Option<_> = bindings.iter().map(buffer).collect();
            (BindingResource::Buffers(bindings?), true)
        }
        From::Sampler(one) => (BindingResource::Samplers(vec![sampler(one)?]), false),
        From::SamplerArray(samplers) => {
            let samplers: Option<_> = samplers.iter().map(|one| sampler(one)).collect();
            (BindingResource::Samplers(samplers?), true)
        }
        From::TextureView(view) => (
            BindingResource::TextureViews(vec![convert::view(view)?]),
            false,
        ),
        From::TextureViewArray(views) => {
            let views: Option<_> = views.iter().map(|view| convert::view(view)).collect();
            (BindingResource::TextureViews(views?), true)
        }
        From::AccelerationStructure(_) | From::AccelerationStructureArray(_) => (
            BindingResource::Unsupported("an acceleration structure"),
            false,
        ),
        From::ExternalTexture(_) => (BindingResource::Unsupported("an external texture"), false),
        _ => (
            BindingResource::Unsupported("a resource of an unknown kind"),
            false,
        ),
    };
    Some(resource::BindGroupEntry {
        binding: entry.binding,
        resource,
        array,
    })
}

fn buffer<'a>(binding: &wgpu::BufferBinding<'a>) -> Option<resource::BufferBinding<'a>> {
    Some(resource::BufferBinding {
        buffer: binding.buffer.as_custom::<Buffer>()?.core()?,
        offset: binding.offset,
        size: binding.size,
    })
}

fn sampler(sampler: &wgpu::Sampler) -> Option<&Arc<resource::Sampler>> {
    Some(&sampler.as_custom::<Sampler>()?.0)
}

/// A pipeline layout of ours as `wgpu` sees it.
#[derive(Debug)]
pub(crate) struct PipelineLayout(pub Arc<resource::PipelineLayout>);

impl PipelineLayoutInterface for PipelineLayout {}

/// Makes a pipeline layout.
pub(crate) fn pipeline_layout(
    device: &Arc<core::Device>,
    desc: &wgpu::PipelineLayoutDescriptor<'_>,
) -> Arc<resource::PipelineLayout> {
    let layouts: Option<Vec<_>> = desc
        .bind_group_layouts
        .iter()
        .map(|layout| match layout {
            None => Some(None),
            Some(layout) => {
                let layout = layout.as_custom::<BindGroupLayout>()?;
                Some(Some(Arc::clone(&layout.0)))
            }
        })
        .collect();
    match layouts {
        Some(layouts) => device.create_pipeline_layout(&resource::PipelineLayoutDescriptor {
            label: desc.label,
            bind_group_layouts: &layouts,
            immediate_size: desc.immediate_size,
        }),
        None => {
            foreign(device, "Device::create_pipeline_layout");
            device.invalid_pipeline_layout(desc.label)
        }
    }
}

/// A pipeline cache of ours as `wgpu` sees it.
#[derive(Debug)]
pub(crate) struct PipelineCache(pub Arc<resource::PipelineCache>);

impl PipelineCacheInterface for PipelineCache {
    fn get_data(&self) -> Option<Vec<u8>> {
        self.0.get_data()
    }
}

/// A compute pipeline of ours as `wgpu` sees it.
#[derive(Debug)]
pub(crate) struct ComputePipeline(pub Arc<resource::ComputePipeline>);

impl ComputePipelineInterface for ComputePipeline {
    fn get_bind_group_layout(&self, index: u32) -> DispatchBindGroupLayout {
        DispatchBindGroupLayout::custom(BindGroupLayout(self.0.get_bind_group_layout(index)))
    }
}

/// Makes a compute pipeline.
pub(crate) fn compute_pipeline(
    device: &Arc<core::Device>,
    desc: &wgpu::ComputePipelineDescriptor<'_>,
) -> Arc<resource::ComputePipeline> {
    let make = || {
        let module = desc.module.as_custom::<ShaderModule>()?;
        let layout = match desc.layout {
            None => None,
            Some(layout) => Some(&layout.as_custom::<PipelineLayout>()?.0),
        };
        let cache = match desc.cache {
            None => None,
            Some(cache) => Some(&cache.as_custom::<PipelineCache>()?.0),
        };
        let options = &desc.compilation_options;
        Some(
            device.create_compute_pipeline(&resource::ComputePipelineDescriptor {
                label: desc.label,
                layout,
                module: &module.0,
                entry_point: desc.entry_point,
                constants: options.constants,
                zero_initialize_workgroup_memory: options.zero_initialize_workgroup_memory,
                cache,
            }),
        )
    };
    make().unwrap_or_else(|| {
        foreign(device, "Device::create_compute_pipeline");
        device.invalid_compute_pipeline(desc.label)
    })
}
