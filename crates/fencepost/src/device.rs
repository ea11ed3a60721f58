//! Devices.

use crate::{
    bindings::{self, BindGroup, BindGroupLayout, ComputePipeline, PipelineCache, PipelineLayout},
    buffer::Buffer,
    convert::{self, ready, FOREIGN},
    core,
    encoder::CommandEncoder,
    texture::{QuerySet, Sampler, Texture},
    unimplemented::{
        AccelerationStructure, ExternalTexture, RenderBundleEncoder, RenderPipeline, RENDERING,
    },
};
use std::{pin::Pin, sync::Arc};
use wgpu::custom::*;

/// A device of ours as `wgpu` sees it.
#[derive(Debug)]
pub(crate) struct Device {
    pub core: Arc<core::Device>,
    /// Whether the device exists only to make `wgpu` produce an error: see [`Buffer::Placeholder`].
    placeholder: bool,
}

impl Device {
    pub fn new(core: Arc<core::Device>) -> Self {
        Self {
            core,
            placeholder: false,
        }
    }

    /// A second face of a device, whose buffers are placeholders.
    pub fn placeholder(core: Arc<core::Device>) -> Self {
        Self {
            core,
            placeholder: true,
        }
    }
}

impl DeviceInterface for Device {
    fn features(&self) -> wgpu::Features {
        self.core.features()
    }

    fn limits(&self) -> wgpu::Limits {
        self.core.limits().clone()
    }

    fn adapter_info(&self) -> wgpu::AdapterInfo {
        self.core.adapter().info().clone()
    }

    fn create_shader_module(
        &self,
        desc: wgpu::ShaderModuleDescriptor<'_>,
        checks: wgpu::ShaderRuntimeChecks,
    ) -> DispatchShaderModule {
        let module = match bindings::shader_source(desc.source) {
            Some(source) => self.core.create_shader_module(desc.label, source, checks),
            None => {
                let function = "Device::create_shader_module";
                self.core
                    .refuse(function, "the kind of source is not known");
                self.core.invalid_shader_module(desc.label)
            }
        };
        DispatchShaderModule::custom(bindings::ShaderModule(module))
    }

    unsafe fn create_shader_module_passthrough(
        &self,
        desc: &wgpu::ShaderModuleDescriptorPassthrough<'_>,
    ) -> DispatchShaderModule {
        let function = "Device::create_shader_module_passthrough";
        let why = "shaders that bypass naga are not implemented";
        self.core.refuse(function, why);
        let module = self.core.invalid_shader_module(desc.label);
        DispatchShaderModule::custom(bindings::ShaderModule(module))
    }

    fn create_bind_group_layout(
        &self,
        desc: &wgpu::BindGroupLayoutDescriptor<'_>,
    ) -> DispatchBindGroupLayout {
        let layout =
            self.core
                .create_bind_group_layout(&core::resource::BindGroupLayoutDescriptor {
                    label: desc.label,
                    entries: desc.entries,
                });
        DispatchBindGroupLayout::custom(BindGroupLayout(layout))
    }

    fn create_bind_group(&self, desc: &wgpu::BindGroupDescriptor<'_>) -> DispatchBindGroup {
        DispatchBindGroup::custom(BindGroup(bindings::bind_group(&self.core, desc)))
    }

    fn create_pipeline_layout(
        &self,
        desc: &wgpu::PipelineLayoutDescriptor<'_>,
    ) -> DispatchPipelineLayout {
        DispatchPipelineLayout::custom(PipelineLayout(bindings::pipeline_layout(&self.core, desc)))
    }

    fn create_render_pipeline(
        &self,
        _desc: &wgpu::RenderPipelineDescriptor<'_>,
    ) -> DispatchRenderPipeline {
        self.core
            .refuse("Device::create_render_pipeline", RENDERING);
        DispatchRenderPipeline::custom(RenderPipeline(Arc::clone(&self.core)))
    }

    fn create_mesh_pipeline(
        &self,
        _desc: &wgpu::MeshPipelineDescriptor<'_>,
    ) -> DispatchRenderPipeline {
        self.core.refuse("Device::create_mesh_pipeline", RENDERING);
        DispatchRenderPipeline::custom(RenderPipeline(Arc::clone(&self.core)))
    }

    fn create_compute_pipeline(
        &self,
        desc: &wgpu::ComputePipelineDescriptor<'_>,
    ) -> DispatchComputePipeline {
        let pipeline = bindings::compute_pipeline(&self.core, desc);
        DispatchComputePipeline::custom(ComputePipeline(pipeline))
    }

    unsafe fn create_pipeline_cache(
        &self,
        desc: &wgpu::PipelineCacheDescriptor<'_>,
    ) -> DispatchPipelineCache {
        let desc = core::resource::PipelineCacheDescriptor {
            label: desc.label,
            data: desc.data,
            fallback: desc.fallback,
        };
        // SAFETY: the caller's promise is the same.
        let cache = unsafe { self.core.create_pipeline_cache(&desc) };
        DispatchPipelineCache::custom(PipelineCache(cache))
    }

    fn create_buffer(&self, desc: &wgpu::BufferDescriptor<'_>) -> DispatchBuffer {
        DispatchBuffer::custom(if self.placeholder {
            Buffer::Placeholder
        } else {
            Buffer::Core(self.core.create_buffer(desc))
        })
    }

    fn create_texture(&self, desc: &wgpu::TextureDescriptor<'_>) -> DispatchTexture {
        DispatchTexture::custom(Texture {
            core: self.core.create_texture(desc),
        })
    }

    fn create_external_texture(
        &self,
        _desc: &wgpu::ExternalTextureDescriptor<'_>,
        _planes: &[&wgpu::TextureView],
    ) -> DispatchExternalTexture {
        let function = "Device::create_external_texture";
        self.core
            .refuse(function, "external textures are not implemented");
        DispatchExternalTexture::custom(ExternalTexture)
    }

    fn create_blas(
        &self,
        _desc: &wgpu::CreateBlasDescriptor<'_>,
        _sizes: wgpu::BlasGeometrySizeDescriptors,
    ) -> (Option<u64>, DispatchBlas) {
        self.core
            .refuse("Device::create_blas", AccelerationStructure::WHY);
        (None, DispatchBlas::custom(AccelerationStructure))
    }

    fn create_tlas(&self, _desc: &wgpu::CreateTlasDescriptor<'_>) -> DispatchTlas {
        self.core
            .refuse("Device::create_tlas", AccelerationStructure::WHY);
        DispatchTlas::custom(AccelerationStructure)
    }

    fn create_sampler(&self, desc: &wgpu::SamplerDescriptor<'_>) -> DispatchSampler {
        DispatchSampler::custom(Sampler(self.core.create_sampler(desc)))
    }

    fn create_query_set(&self, desc: &wgpu::QuerySetDescriptor<'_>) -> DispatchQuerySet {
        DispatchQuerySet::custom(QuerySet(self.core.create_query_set(desc)))
    }

    fn create_command_encoder(
        &self,
        desc: &wgpu::CommandEncoderDescriptor<'_>,
    ) -> DispatchCommandEncoder {
        DispatchCommandEncoder::custom(CommandEncoder(self.core.create_command_encoder(desc.label)))
    }

    fn create_render_bundle_encoder(
        &self,
        _desc: &wgpu::RenderBundleEncoderDescriptor<'_>,
    ) -> DispatchRenderBundleEncoder {
        let function = "Device::create_render_bundle_encoder";
        self.core.refuse(function, RENDERING);
        DispatchRenderBundleEncoder::custom(RenderBundleEncoder)
    }

    fn set_device_lost_callback(&self, callback: BoxDeviceLostCallback) {
        self.core
            .set_lost_callback(Box::new(move |reason, message| {
                let reason = match reason {
                    core::device::LostReason::Unknown => wgpu::DeviceLostReason::Unknown,
                    core::device::LostReason::Destroyed => wgpu::DeviceLostReason::Destroyed,
                };
                callback(reason, message);
            }));
    }

    fn on_uncaptured_error(&self, handler: Arc<dyn wgpu::UncapturedErrorHandler>) {
        self.core
            .on_uncaptured_error(Arc::new(move |error| handler(convert::error(error))));
    }

    fn push_error_scope(&self, filter: wgpu::ErrorFilter) -> u32 {
        self.core.push_error_scope(convert::filter(filter))
    }

    fn pop_error_scope(&self, index: u32) -> Pin<Box<dyn PopErrorScopeFuture>> {
        ready(self.core.pop_error_scope(index).map(convert::error))
    }

    unsafe fn start_graphics_debugger_capture(&self) {
        // SAFETY: the caller's promise is the same.
        unsafe { self.core.start_graphics_debugger_capture() };
    }

    unsafe fn stop_graphics_debugger_capture(&self) {
        // SAFETY: the caller's promise is the same.
        unsafe { self.core.stop_graphics_debugger_capture() };
    }

    fn poll(
        &self,
        poll_type: wgpu::wgt::PollType<u64>,
    ) -> Result<wgpu::PollStatus, wgpu::PollError> {
        self.core.poll(poll_type)
    }

    fn get_internal_counters(&self) -> wgpu::InternalCounters {
        self.core.get_internal_counters()
    }

    fn generate_allocator_report(&self) -> Option<wgpu::AllocatorReport> {
        self.core.generate_allocator_report()
    }

    fn destroy(&self) {
        self.core.destroy();
    }
}

/// Reports a handle of another backend's.
pub(crate) fn foreign(device: &core::Device, function: &'static str) {
    device.refuse(function, FOREIGN);
}
