//! Making, mapping, destroying and waiting.

use crate::{
    auditor::{Auditor, Loss},
    encoder::CommandEncoder,
    fault::Site,
    ledger::Key,
    lower,
    report::ObjectKind,
    resource::{bound, TextureContent},
    AccelerationStructure, Audited, BindGroup, BindGroupLayout, Buffer, ComputePipeline, Fence,
    PipelineCache, PipelineLayout, QuerySet, Queue, RayTracingPipeline, RenderPipeline, Sampler,
    ShaderModule, Texture, TextureView,
};
use parking_lot::Mutex;
use std::{
    any::Any,
    fmt, mem,
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};
use wgpu_hal::{self as hal, Api, Device as _, DeviceError, Queue as _};
use wgpu_types as wgt;

/// The backend's device and queue. Encoders hold it as well, so it goes with the last of the three.
pub(crate) struct Inner<A: Api> {
    pub device: A::Device,
    pub queue: A::Queue,
    /// Held by every call of the queue, which makes [`Inner::drain`] possible at any time.
    pub gate: Mutex<()>,
}

impl<A: Api> Inner<A> {
    /// Waits until the backend has nothing to do. A violation and an injected loss call for it, so that
    /// the driver never sees memory freed under its feet.
    pub fn drain(&self) -> Result<(), DeviceError> {
        let _gate = self.gate.lock();
        // SAFETY: the gate keeps every other call of the queue out.
        unsafe { self.queue.wait_for_idle() }
    }

    /// See [`Auditor::enter`].
    pub fn enter(
        &self,
        auditor: &Auditor,
        device: u64,
        site: Option<Site>,
        bytes: u64,
    ) -> Result<(), DeviceError> {
        let (result, lost_now) = auditor.enter(device, site, bytes);
        if lost_now {
            let _ = self.drain();
        }
        result
    }
}

/// An audited `Device`. Its drop reports what is still alive.
pub struct Device<A: Api> {
    pub(crate) inner: Arc<Inner<A>>,
    pub(crate) id: u64,
    pub(crate) auditor: Auditor,
}

impl<A: Api> fmt::Debug for Device<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device #{}", self.id)
    }
}

impl<A: Api> hal::DynResource for Device<A> {
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

impl<A: Api> Drop for Device<A> {
    fn drop(&mut self) {
        self.auditor.rule("drop of the device", |state, found| {
            state.ledger.gone(self.id, found);
        });
    }
}

impl<A: Api> Device<A> {
    /// The backend's own device. What is done with it is not audited.
    pub fn inner(&self) -> &A::Device {
        &self.inner.device
    }

    /// Takes a buffer of the backend's that was made elsewhere (from a raw handle, for instance) into the
    /// books, as `wgpu::Device::create_buffer_from_hal` wants it. `size` is in bytes.
    ///
    /// # Safety
    ///
    /// It must be a buffer of this device, and its owner hands it over.
    pub unsafe fn adopt_buffer(
        &self,
        buffer: A::Buffer,
        label: Option<&str>,
        size: u64,
    ) -> Buffer<A> {
        Buffer::new(buffer, self.born(ObjectKind::Buffer, label, &[], size))
    }

    /// The same for a texture.
    ///
    /// # Safety
    ///
    /// It must be a texture of this device, and its owner hands it over.
    pub unsafe fn adopt_texture(
        &self,
        texture: A::Texture,
        label: Option<&str>,
        size: u64,
    ) -> Texture<A> {
        Texture {
            content: TextureContent::Own(texture),
            id: self.born(ObjectKind::Texture, label, &[], size),
        }
    }

    fn enter(&self, site: Option<Site>, bytes: u64) -> Result<(), DeviceError> {
        self.inner.enter(&self.auditor, self.id, site, bytes)
    }

    /// Makes an object out of those that `keys` name, all of which must be there.
    fn compose<R, E: From<DeviceError> + Loss>(
        &self,
        kind: ObjectKind,
        call: &'static str,
        label: Option<&str>,
        keys: &[Key],
        make: impl FnOnce(&A::Device) -> Result<R, E>,
    ) -> Result<(R, u64), E> {
        self.enter(Some(Site::Create(kind)), 0)?;
        self.expect(call, keys)?;
        let raw = self.auditor.track(self.id, make(&self.inner.device))?;
        // A pipeline is compiled: it does not need its shaders and its cache any more.
        let mut held = keys.to_vec();
        held.retain(|key| {
            !matches!(
                key.kind,
                ObjectKind::ShaderModule | ObjectKind::PipelineCache
            )
        });
        Ok((raw, self.born(kind, label, &held, 0)))
    }

    /// Makes a buffer or a texture of the given size in bytes.
    fn allocate<T>(
        &self,
        kind: ObjectKind,
        label: Option<&str>,
        bytes: u64,
        make: impl FnOnce(&A::Device) -> Result<T, DeviceError>,
    ) -> Result<(T, u64), DeviceError> {
        self.enter(Some(Site::Create(kind)), bytes)?;
        let result = self.auditor.track(self.id, make(&self.inner.device));
        let mut state = self.auditor.state();
        state.ledger.promised_bytes -= bytes;
        let raw = result?;
        Ok((raw, state.ledger.born(kind, label, self.id, &[], bytes)))
    }

    fn born(&self, kind: ObjectKind, label: Option<&str>, direct: &[Key], bytes: u64) -> u64 {
        self.auditor.born(kind, label, self.id, direct, bytes)
    }

    /// Whether everything that a call names is there and of this device.
    fn expect(&self, call: &'static str, keys: &[Key]) -> Result<(), DeviceError> {
        let expect = |state: &mut crate::auditor::State, found: &mut Vec<_>| {
            let ledger = &state.ledger;
            keys.iter()
                .filter(|key| !ledger.expect(**key, self.id, found))
                .count()
        };
        match self.auditor.rule(call, expect) {
            (0, _) => Ok(()),
            _ => Err(DeviceError::Unexpected),
        }
    }

    /// Whether the object may be destroyed by the backend, which is idle then if it was too early.
    fn destroy(&self, call: &'static str, key: Key) -> bool {
        let _ = self.enter(None, 0);
        let (forward, found) = self.auditor.rule(call, |state, found| {
            if key.kind == ObjectKind::Fence {
                state.ledger.drop_fence(key, self.id, found);
            }
            state.ledger.destroy(key, self.id, false, found)
        });
        if forward && found {
            let _ = self.inner.drain();
        }
        forward
    }

    /// Fills a new buffer with a byte if it can be mapped. See [`Faults::set_dirty_memory`](crate::Faults).
    ///
    /// # Safety
    ///
    /// Nobody uses the buffer, which was made from the description.
    unsafe fn soil(&self, raw: &A::Buffer, desc: &hal::BufferDescriptor, byte: u8) {
        let mappable = wgt::BufferUses::MAP_READ | wgt::BufferUses::MAP_WRITE;
        if A::VARIANT != wgt::Backend::Noop && !desc.usage.intersects(mappable) {
            return;
        }
        let (device, range) = (&self.inner.device, 0..desc.size);
        // SAFETY: the buffer can be mapped, is not mapped and not used, and the range is all of it.
        unsafe {
            let Ok(mapping) = device.map_buffer(raw, range.clone()) else {
                return;
            };
            mapping.ptr.as_ptr().write_bytes(byte, desc.size as usize);
            if !mapping.is_coherent {
                device.flush_mapped_ranges(raw, std::iter::once(range));
            }
            device.unmap_buffer(raw);
        }
    }

    fn map_rule(&self, call: &'static str, key: Key, on: Option<bool>) -> bool {
        let rule = self.auditor.rule(call, |state, found| {
            state.ledger.map(key, self.id, on, found)
        });
        rule.0
    }
}

/// The size of all mip levels and samples, in bytes.
fn texture_bytes(desc: &hal::TextureDescriptor) -> u64 {
    let level = |level| {
        let size = desc.size.mip_level_size(level, desc.dimension);
        desc.format.theoretical_memory_footprint(size)
    };
    let texels: u64 = (0..desc.mip_level_count)
        .map(level)
        .fold(0, u64::saturating_add);
    texels.saturating_mul(u64::from(desc.sample_count))
}

/// Creations from a descriptor that names no other object.
macro_rules! creations {
    ($($name:ident($desc:ty) -> $kind:ident, $error:ty;)*) => {$(
        unsafe fn $name(&self, desc: &$desc) -> Result<$kind<A>, $error> {
            let (raw, id) = self.compose(ObjectKind::$kind, stringify!($name), desc.label, &[], |device| {
                // SAFETY: the caller's obligations are the backend's.
                unsafe { device.$name(desc) }
            })?;
            Ok($kind::new(raw, id))
        }
    )*};
}

macro_rules! destructions {
    ($($name:ident($kind:ident);)*) => {$(
        unsafe fn $name(&self, object: $kind<A>) {
            if self.destroy(stringify!($name), object.key()) {
                // SAFETY: the caller's obligations are the backend's, and the object is still there.
                unsafe { self.inner.device.$name(object.raw) };
            } else {
                // Whoever destroyed it before has freed what it holds.
                mem::forget(object);
            }
        }
    )*};
}

impl<A: Api> hal::Device for Device<A> {
    type A = Audited<A>;

    unsafe fn create_buffer(&self, desc: &hal::BufferDescriptor) -> Result<Buffer<A>, DeviceError> {
        let make = |device: &A::Device| {
            // SAFETY: the caller's obligations are the backend's.
            unsafe { device.create_buffer(desc) }
        };
        let (raw, id) = self.allocate(ObjectKind::Buffer, desc.label, desc.size, make)?;
        let dirt = self.auditor.state().faults.dirty;
        if let Some(byte) = dirt {
            // SAFETY: the buffer is new, and of the size that was asked for.
            unsafe { self.soil(&raw, desc, byte) };
        }
        Ok(Buffer::new(raw, id))
    }

    unsafe fn create_texture(
        &self,
        desc: &hal::TextureDescriptor,
    ) -> Result<Texture<A>, DeviceError> {
        let bytes = texture_bytes(desc);
        let make = |device: &A::Device| {
            // SAFETY: the caller's obligations are the backend's.
            unsafe { device.create_texture(desc) }
        };
        let (raw, id) = self.allocate(ObjectKind::Texture, desc.label, bytes, make)?;
        Ok(Texture {
            content: TextureContent::Own(raw),
            id,
        })
    }

    unsafe fn destroy_texture(&self, texture: Texture<A>) {
        if self.destroy("destroy_texture", texture.key()) {
            if let TextureContent::Own(raw) = texture.content {
                // SAFETY: the caller's obligations are the backend's, and the texture is still there.
                unsafe { self.inner.device.destroy_texture(raw) };
            }
        } else {
            mem::forget(texture);
        }
    }

    creations! {
        create_sampler(hal::SamplerDescriptor) -> Sampler, DeviceError;
        create_bind_group_layout(hal::BindGroupLayoutDescriptor) -> BindGroupLayout, DeviceError;
        create_pipeline_cache(hal::PipelineCacheDescriptor<'_>) -> PipelineCache, hal::PipelineCacheError;
        create_query_set(wgt::QuerySetDescriptor<hal::Label>) -> QuerySet, DeviceError;
        create_acceleration_structure(hal::AccelerationStructureDescriptor)
            -> AccelerationStructure, DeviceError;
    }

    destructions! {
        destroy_buffer(Buffer);
        destroy_texture_view(TextureView);
        destroy_sampler(Sampler);
        destroy_bind_group_layout(BindGroupLayout);
        destroy_pipeline_layout(PipelineLayout);
        destroy_bind_group(BindGroup);
        destroy_shader_module(ShaderModule);
        destroy_render_pipeline(RenderPipeline);
        destroy_compute_pipeline(ComputePipeline);
        destroy_ray_tracing_pipeline(RayTracingPipeline);
        destroy_pipeline_cache(PipelineCache);
        destroy_query_set(QuerySet);
        destroy_acceleration_structure(AccelerationStructure);
    }

    unsafe fn add_raw_buffer(&self, buffer: &Buffer<A>) {
        // SAFETY: the caller's obligations are the backend's.
        unsafe { self.inner.device.add_raw_buffer(&buffer.raw) };
    }

    unsafe fn add_raw_texture(&self, texture: &Texture<A>) {
        // SAFETY: the caller's obligations are the backend's.
        unsafe { self.inner.device.add_raw_texture(texture.raw()) };
    }

    unsafe fn map_buffer(
        &self,
        buffer: &Buffer<A>,
        range: hal::MemoryRange,
    ) -> Result<hal::BufferMapping, DeviceError> {
        self.enter(Some(Site::Map), 0)?;
        if !self.map_rule("map_buffer", buffer.key(), Some(true)) {
            return Err(DeviceError::Unexpected);
        }
        // SAFETY: the caller's obligations are the backend's.
        let result = unsafe { self.inner.device.map_buffer(&buffer.raw, range) };
        let mapping = self.auditor.track(self.id, result)?;
        self.auditor.state().ledger.set_mapped(buffer.key(), true);
        Ok(mapping)
    }

    unsafe fn unmap_buffer(&self, buffer: &Buffer<A>) {
        let _ = self.enter(None, 0);
        if self.map_rule("unmap_buffer", buffer.key(), Some(false)) {
            self.auditor.state().ledger.set_mapped(buffer.key(), false);
            // SAFETY: the caller's obligations are the backend's.
            unsafe { self.inner.device.unmap_buffer(&buffer.raw) };
        }
    }

    unsafe fn flush_mapped_ranges<I>(&self, buffer: &Buffer<A>, ranges: I)
    where
        I: Iterator<Item = hal::MemoryRange>,
    {
        let _ = self.enter(None, 0);
        if self.map_rule("flush_mapped_ranges", buffer.key(), None) {
            // SAFETY: the caller's obligations are the backend's.
            unsafe { self.inner.device.flush_mapped_ranges(&buffer.raw, ranges) };
        }
    }

    unsafe fn invalidate_mapped_ranges<I>(&self, buffer: &Buffer<A>, ranges: I)
    where
        I: Iterator<Item = hal::MemoryRange>,
    {
        let _ = self.enter(None, 0);
        if self.map_rule("invalidate_mapped_ranges", buffer.key(), None) {
            // SAFETY: the caller's obligations are the backend's.
            unsafe {
                self.inner
                    .device
                    .invalidate_mapped_ranges(&buffer.raw, ranges);
            };
        }
    }

    unsafe fn create_texture_view(
        &self,
        texture: &Texture<A>,
        desc: &hal::TextureViewDescriptor,
    ) -> Result<TextureView<A>, DeviceError> {
        let keys = [texture.key()];
        let kind = ObjectKind::TextureView;
        let make = |device: &A::Device| {
            // SAFETY: the caller's obligations are the backend's, and the texture is there.
            unsafe { device.create_texture_view(texture.raw(), desc) }
        };
        let (raw, id) = self.compose(kind, "create_texture_view", desc.label, &keys, make)?;
        Ok(TextureView::new(raw, id))
    }

    unsafe fn create_command_encoder(
        &self,
        desc: &hal::CommandEncoderDescriptor<Queue<A>>,
    ) -> Result<CommandEncoder<A>, DeviceError> {
        let make = |device: &A::Device| {
            let desc = hal::CommandEncoderDescriptor {
                label: desc.label,
                queue: desc.queue.inner(),
            };
            // SAFETY: the caller's obligations are the backend's.
            unsafe { device.create_command_encoder(&desc) }
        };
        let kind = ObjectKind::CommandEncoder;
        let (raw, id) = self.compose(kind, "create_command_encoder", desc.label, &[], make)?;
        Ok(CommandEncoder {
            raw,
            inner: Arc::clone(&self.inner),
            id,
            device: self.id,
            auditor: self.auditor.clone(),
            commands: None,
            pass: None,
        })
    }

    unsafe fn create_pipeline_layout(
        &self,
        desc: &hal::PipelineLayoutDescriptor<BindGroupLayout<A>>,
    ) -> Result<PipelineLayout<A>, DeviceError> {
        let layouts = desc.bind_group_layouts.iter();
        let keys: Vec<Key> = layouts.clone().flatten().map(|l| l.key()).collect();
        let raw_layouts: Vec<_> = layouts.map(|l| l.map(|l| &l.raw)).collect();
        let make = |device: &A::Device| {
            let desc = hal::PipelineLayoutDescriptor {
                label: desc.label,
                flags: desc.flags,
                bind_group_layouts: &raw_layouts,
                immediate_size: desc.immediate_size,
            };
            // SAFETY: the caller's obligations are the backend's, and the layouts are there.
            unsafe { device.create_pipeline_layout(&desc) }
        };
        let kind = ObjectKind::PipelineLayout;
        let (raw, id) = self.compose(kind, "create_pipeline_layout", desc.label, &keys, make)?;
        Ok(PipelineLayout::new(raw, id))
    }

    unsafe fn create_bind_group(
        &self,
        desc: &hal::BindGroupDescriptor<
            BindGroupLayout<A>,
            Buffer<A>,
            Sampler<A>,
            TextureView<A>,
            AccelerationStructure<A>,
        >,
    ) -> Result<BindGroup<A>, DeviceError> {
        let mut keys = vec![desc.layout.key()];
        keys.extend(desc.buffers.iter().map(|b| bound(b).key()));
        keys.extend(desc.samplers.iter().map(|s| s.key()));
        keys.extend(desc.textures.iter().map(|t| t.view.key()));
        keys.extend(desc.acceleration_structures.iter().map(|a| a.key()));
        for external in desc.external_textures {
            keys.extend(external.planes.iter().map(|t| t.view.key()));
            keys.push(bound(&external.params).key());
        }
        let buffers: Vec<_> = desc.buffers.iter().map(lower::binding).collect();
        let samplers: Vec<_> = desc.samplers.iter().map(|s| &s.raw).collect();
        let textures: Vec<_> = desc.textures.iter().map(lower::texture_binding).collect();
        let structures: Vec<_> = desc
            .acceleration_structures
            .iter()
            .map(|a| &a.raw)
            .collect();
        let external: Vec<_> = desc
            .external_textures
            .iter()
            .map(|external| hal::ExternalTextureBinding {
                planes: external.planes.each_ref().map(lower::texture_binding),
                params: lower::binding(&external.params),
            })
            .collect();
        let make = |device: &A::Device| {
            let desc = hal::BindGroupDescriptor {
                label: desc.label,
                layout: &desc.layout.raw,
                buffers: &buffers,
                samplers: &samplers,
                textures: &textures,
                entries: desc.entries,
                acceleration_structures: &structures,
                external_textures: &external,
            };
            // SAFETY: the caller's obligations are the backend's, and all that is bound is there.
            unsafe { device.create_bind_group(&desc) }
        };
        let kind = ObjectKind::BindGroup;
        let (raw, id) = self.compose(kind, "create_bind_group", desc.label, &keys, make)?;
        Ok(BindGroup::new(raw, id))
    }

    unsafe fn create_shader_module(
        &self,
        desc: &hal::ShaderModuleDescriptor,
        shader: hal::ShaderInput,
    ) -> Result<ShaderModule<A>, hal::ShaderError> {
        let make = |device: &A::Device| {
            // SAFETY: the caller's obligations are the backend's.
            unsafe { device.create_shader_module(desc, shader) }
        };
        let kind = ObjectKind::ShaderModule;
        let (raw, id) = self.compose(kind, "create_shader_module", desc.label, &[], make)?;
        Ok(ShaderModule::new(raw, id))
    }

    unsafe fn create_render_pipeline(
        &self,
        desc: &hal::RenderPipelineDescriptor<PipelineLayout<A>, ShaderModule<A>, PipelineCache<A>>,
    ) -> Result<RenderPipeline<A>, hal::PipelineError> {
        let mut keys = vec![desc.layout.key()];
        keys.extend(desc.cache.map(|cache| cache.key()));
        let mut stage = |stage: &hal::ProgrammableStage<'_, ShaderModule<A>>| {
            keys.push(stage.module.key());
        };
        desc.fragment_stage.iter().for_each(&mut stage);
        match &desc.vertex_processor {
            hal::VertexProcessor::Standard { vertex_stage, .. } => stage(vertex_stage),
            hal::VertexProcessor::Mesh {
                task_stage,
                mesh_stage,
            } => {
                task_stage.iter().for_each(&mut stage);
                stage(mesh_stage);
            }
        }
        let make = |device: &A::Device| {
            let desc = hal::RenderPipelineDescriptor {
                label: desc.label,
                layout: &desc.layout.raw,
                vertex_processor: match &desc.vertex_processor {
                    hal::VertexProcessor::Standard {
                        vertex_buffers,
                        vertex_stage,
                    } => hal::VertexProcessor::Standard {
                        vertex_buffers,
                        vertex_stage: lower::stage(vertex_stage),
                    },
                    hal::VertexProcessor::Mesh {
                        task_stage,
                        mesh_stage,
                    } => hal::VertexProcessor::Mesh {
                        task_stage: task_stage.as_ref().map(lower::stage),
                        mesh_stage: lower::stage(mesh_stage),
                    },
                },
                primitive: desc.primitive,
                depth_stencil: desc.depth_stencil.clone(),
                multisample: desc.multisample,
                fragment_stage: desc.fragment_stage.as_ref().map(lower::stage),
                color_targets: desc.color_targets,
                multiview_mask: desc.multiview_mask,
                cache: desc.cache.map(|cache| &cache.raw),
            };
            // SAFETY: the caller's obligations are the backend's, and all parts are there.
            unsafe { device.create_render_pipeline(&desc) }
        };
        let kind = ObjectKind::RenderPipeline;
        let (raw, id) = self.compose(kind, "create_render_pipeline", desc.label, &keys, make)?;
        Ok(RenderPipeline::new(raw, id))
    }

    unsafe fn create_compute_pipeline(
        &self,
        desc: &hal::ComputePipelineDescriptor<PipelineLayout<A>, ShaderModule<A>, PipelineCache<A>>,
    ) -> Result<ComputePipeline<A>, hal::PipelineError> {
        let mut keys = vec![desc.layout.key(), desc.stage.module.key()];
        keys.extend(desc.cache.map(|cache| cache.key()));
        let make = |device: &A::Device| {
            let desc = hal::ComputePipelineDescriptor {
                label: desc.label,
                layout: &desc.layout.raw,
                stage: lower::stage(&desc.stage),
                cache: desc.cache.map(|cache| &cache.raw),
            };
            // SAFETY: the caller's obligations are the backend's, and all parts are there.
            unsafe { device.create_compute_pipeline(&desc) }
        };
        let kind = ObjectKind::ComputePipeline;
        let (raw, id) = self.compose(kind, "create_compute_pipeline", desc.label, &keys, make)?;
        Ok(ComputePipeline::new(raw, id))
    }

    unsafe fn create_ray_tracing_pipeline(
        &self,
        desc: &hal::RayTracingPipelineDescriptor<
            PipelineLayout<A>,
            ShaderModule<A>,
            PipelineCache<A>,
        >,
    ) -> Result<RayTracingPipeline<A>, hal::PipelineError> {
        let mut keys = vec![
            desc.layout.key(),
            desc.ray_generation.module.key(),
            desc.miss.module.key(),
        ];
        keys.extend(desc.cache.map(|cache| cache.key()));
        for group in desc.intersection {
            keys.push(group.closest_hit.module.key());
            keys.extend(group.any_hit.as_ref().map(|stage| stage.module.key()));
        }
        let intersection: Vec<_> = desc
            .intersection
            .iter()
            .map(|group| hal::RayObjectIntersectionState {
                closest_hit: lower::stage(&group.closest_hit),
                any_hit: group.any_hit.as_ref().map(lower::stage),
            })
            .collect();
        let make = |device: &A::Device| {
            let desc = hal::RayTracingPipelineDescriptor {
                label: desc.label,
                layout: &desc.layout.raw,
                ray_generation: lower::stage(&desc.ray_generation),
                miss: lower::stage(&desc.miss),
                intersection: &intersection,
                max_recursion_depth: desc.max_recursion_depth,
                cache: desc.cache.map(|cache| &cache.raw),
            };
            // SAFETY: the caller's obligations are the backend's, and all parts are there.
            unsafe { device.create_ray_tracing_pipeline(&desc) }
        };
        let kind = ObjectKind::RayTracingPipeline;
        let call = "create_ray_tracing_pipeline";
        let (raw, id) = self.compose(kind, call, desc.label, &keys, make)?;
        Ok(RayTracingPipeline::new(raw, id))
    }

    unsafe fn get_raytracing_pipeline_group_data(
        &self,
        pipeline: &RayTracingPipeline<A>,
        groups: Range<u32>,
    ) -> Result<Vec<u8>, DeviceError> {
        self.enter(None, 0)?;
        self.expect("get_raytracing_pipeline_group_data", &[pipeline.key()])?;
        // SAFETY: the caller's obligations are the backend's, and the pipeline is there.
        let result = unsafe {
            self.inner
                .device
                .get_raytracing_pipeline_group_data(&pipeline.raw, groups)
        };
        self.auditor.track(self.id, result)
    }

    fn pipeline_cache_validation_key(&self) -> Option<[u8; 16]> {
        self.inner.device.pipeline_cache_validation_key()
    }

    unsafe fn pipeline_cache_get_data(&self, cache: &PipelineCache<A>) -> Option<Vec<u8>> {
        let _ = self.enter(None, 0);
        self.expect("pipeline_cache_get_data", &[cache.key()])
            .ok()?;
        // SAFETY: the caller's obligations are the backend's, and the cache is there.
        unsafe { self.inner.device.pipeline_cache_get_data(&cache.raw) }
    }

    unsafe fn create_fence(&self) -> Result<Fence<A>, DeviceError> {
        let make = |device: &A::Device| {
            // SAFETY: the caller's obligations are the backend's.
            unsafe { device.create_fence() }
        };
        let (raw, id) = self.compose(ObjectKind::Fence, "create_fence", None, &[], make)?;
        Ok(Fence {
            raw: Some(raw),
            id,
            device: self.id,
            auditor: self.auditor.clone(),
        })
    }

    unsafe fn destroy_fence(&self, mut fence: Fence<A>) {
        if !self.destroy("destroy_fence", fence.key()) {
            mem::forget(fence);
        } else if let Some(raw) = fence.raw.take() {
            // SAFETY: the caller's obligations are the backend's, and the fence is still there.
            unsafe { self.inner.device.destroy_fence(raw) };
        }
    }

    unsafe fn get_fence_value(&self, fence: &Fence<A>) -> Result<hal::FenceValue, DeviceError> {
        self.enter(None, 0)?;
        self.expect("get_fence_value", &[fence.key()])?;
        if let Some(value) = self.auditor.clocked(fence.id) {
            if value > 0 {
                // SAFETY: the caller's obligations are the backend's; the value was submitted.
                let result = unsafe { self.inner.device.wait(fence.raw(), value, None) };
                self.auditor.track(self.id, result)?;
            }
            return Ok(value);
        }
        // SAFETY: the caller's obligations are the backend's, and the fence is there.
        let result = unsafe { self.inner.device.get_fence_value(fence.raw()) };
        let value = self.auditor.track(self.id, result)?;
        let mut state = self.auditor.state();
        let slow = state.faults.slow;
        let value = if slow.is_zero() {
            value
        } else {
            let now = Instant::now();
            state.ledger.visible(self.id, fence.id, value, slow, now)
        };
        state.ledger.observe(fence.id, value);
        Ok(value)
    }

    unsafe fn wait(
        &self,
        fence: &Fence<A>,
        value: hal::FenceValue,
        timeout: Option<Duration>,
    ) -> Result<bool, DeviceError> {
        self.enter(Some(Site::Wait), 0)?;
        let (allowed, _) = self.auditor.rule("wait", |state, found| {
            state.ledger.may_wait(fence.key(), self.id, value, found)
        });
        if !allowed {
            return Err(DeviceError::Unexpected);
        }
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        if !self
            .auditor
            .hold(self.id, Some((fence.id, value)), deadline)?
        {
            return Ok(false);
        }
        let left = timeout.map(|timeout| match deadline {
            Some(deadline) => deadline.saturating_duration_since(Instant::now()),
            None => timeout,
        });
        // SAFETY: the caller's obligations are the backend's; the value was submitted.
        let result = unsafe { self.inner.device.wait(fence.raw(), value, left) };
        let done = self.auditor.track(self.id, result)?;
        if done {
            let mut state = self.auditor.state();
            state.ledger.observe(fence.id, value);
            self.auditor.tick().notify_all();
        }
        Ok(done)
    }

    unsafe fn start_graphics_debugger_capture(&self) -> bool {
        // SAFETY: the caller's obligations are the backend's.
        unsafe { self.inner.device.start_graphics_debugger_capture() }
    }

    unsafe fn stop_graphics_debugger_capture(&self) {
        // SAFETY: the caller's obligations are the backend's.
        unsafe { self.inner.device.stop_graphics_debugger_capture() };
    }

    unsafe fn get_acceleration_structure_build_sizes(
        &self,
        desc: &hal::GetAccelerationStructureBuildSizesDescriptor<Buffer<A>>,
    ) -> hal::AccelerationStructureBuildSizes {
        let mut keys = Vec::new();
        let entries = lower::entries(desc.entries, &mut keys);
        let call = "get_acceleration_structure_build_sizes";
        if self.expect(call, &keys).is_err() {
            return hal::AccelerationStructureBuildSizes::default();
        }
        let desc = hal::GetAccelerationStructureBuildSizesDescriptor {
            entries: &entries,
            flags: desc.flags,
        };
        // SAFETY: the caller's obligations are the backend's, and the buffers are there.
        unsafe {
            self.inner
                .device
                .get_acceleration_structure_build_sizes(&desc)
        }
    }

    unsafe fn get_acceleration_structure_device_address(
        &self,
        acceleration_structure: &AccelerationStructure<A>,
    ) -> wgt::BufferAddress {
        let call = "get_acceleration_structure_device_address";
        if self.expect(call, &[acceleration_structure.key()]).is_err() {
            return 0;
        }
        // SAFETY: the caller's obligations are the backend's, and the structure is there.
        unsafe {
            self.inner
                .device
                .get_acceleration_structure_device_address(&acceleration_structure.raw)
        }
    }

    fn tlas_instance_to_bytes(&self, instance: hal::TlasInstance) -> Vec<u8> {
        self.inner.device.tlas_instance_to_bytes(instance)
    }

    fn get_internal_counters(&self) -> wgt::HalCounters {
        self.inner.device.get_internal_counters()
    }

    fn generate_allocator_report(&self) -> Option<wgt::AllocatorReport> {
        self.inner.device.generate_allocator_report()
    }

    fn check_if_oom(&self) -> Result<(), DeviceError> {
        self.enter(None, 0)?;
        self.auditor
            .track(self.id, self.inner.device.check_if_oom())
    }
}
