//! Encoding: every object that a command names is entered into the books under its command buffer.
//!
//! The encoder's state is kept here, since its calls take `&mut self`; what a command buffer refers to is
//! kept in the ledger, where whoever destroys something will look.

use crate::{
    auditor::Auditor,
    device::Inner,
    fault::Site,
    ledger::Key,
    lower,
    report::{Finding, Violation},
    resource::{debug, Argument},
    AccelerationStructure, Audited, BindGroup, Buffer, CommandBuffer, ComputePipeline,
    PipelineLayout, QuerySet, RayTracingPipeline, RenderPipeline, Texture, TextureView,
};
use std::{any::Any, fmt, num::NonZeroU64, ops::Range, sync::Arc};
use wgpu_hal::{self as hal, Api, DeviceError};
use wgpu_types as wgt;

/// The passes of an encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    Render,
    Compute,
    RayTracing,
}

/// Where a command may stand.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// Anywhere while recording.
    Recording,
    /// Outside of passes.
    Outside,
    /// Outside of render passes.
    NotRender,
    /// In any pass.
    InPass,
    Render,
    Compute,
    RayTracing,
}

impl Place {
    fn allows(self, pass: Option<Pass>) -> bool {
        match self {
            Self::Recording => true,
            Self::Outside => pass.is_none(),
            Self::NotRender => pass != Some(Pass::Render),
            Self::InPass => pass.is_some(),
            Self::Render => pass == Some(Pass::Render),
            Self::Compute => pass == Some(Pass::Compute),
            Self::RayTracing => pass == Some(Pass::RayTracing),
        }
    }
}

/// An audited `CommandEncoder`. Its drop is audited too.
pub struct CommandEncoder<A: Api> {
    /// First, so that it goes before the device that it belongs to.
    pub(crate) raw: A::CommandEncoder,
    pub(crate) inner: Arc<Inner<A>>,
    pub(crate) id: u64,
    pub(crate) device: u64,
    pub(crate) auditor: Auditor,
    /// The command buffer that is being recorded.
    pub(crate) commands: Option<u64>,
    pub(crate) pass: Option<Pass>,
}

debug!(CommandEncoder);

impl<A: Api> hal::DynResource for CommandEncoder<A> {
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

impl<A: Api> Drop for CommandEncoder<A> {
    fn drop(&mut self) {
        let ((), found) = self.auditor.rule("drop of an encoder", |state, found| {
            state.ledger.drop_encoder(self.id, self.device, found);
        });
        if found {
            let _ = self.inner.drain();
        }
    }
}

impl<A: Api> CommandEncoder<A> {
    /// The backend's own encoder. What is recorded into it is not audited.
    pub fn inner_mut(&mut self) -> &mut A::CommandEncoder {
        &mut self.raw
    }

    fn enter(&self, site: Option<Site>) -> Result<(), DeviceError> {
        self.inner.enter(&self.auditor, self.device, site, 0)
    }

    /// The state of the encoder does not allow the call.
    #[cold]
    fn out_of_order(&self, call: &'static str) {
        let (_, _) = self.auditor.rule(call, |state, found| {
            let state_now = match (self.commands, self.pass) {
                (None, _) => "closed".into(),
                (Some(_), None) => "recording, outside of passes".into(),
                (Some(_), Some(pass)) => format!("recording, in a {pass:?} pass"),
            };
            let info = state.ledger.encoder_info(self.id);
            let mut finding = Finding::new(Violation::OutOfOrder, self.device, info)
                .detail(format!("the encoder is {state_now}"));
            finding.command_buffer = self.commands.map(|id| state.ledger.commands_info(id));
            found.push(finding);
        });
    }

    /// A command that names `keys`. Whether the backend may see it: it must be in place, and everything
    /// that it names must be there.
    fn command(&mut self, call: &'static str, place: Place, keys: &[Option<Key>]) -> bool {
        let _ = self.enter(None);
        let Some(commands) = self.commands.filter(|_| place.allows(self.pass)) else {
            self.out_of_order(call);
            return false;
        };
        if keys.iter().all(Option::is_none) {
            return true;
        }
        let (sound, _) = self.auditor.rule(call, |state, found| {
            let mut sound = true;
            for key in keys.iter().flatten() {
                sound &= state.ledger.refer(commands, *key, found);
            }
            sound
        });
        sound
    }
}

/// Commands without iterators: the place, the call, and its arguments.
macro_rules! commands {
    ($($place:ident $name:ident($($arg:ident: $ty:ty),*);)*) => {$(
        unsafe fn $name(&mut self, $($arg: $ty),*) {
            let keys = [$(Argument::named(&$arg)),*];
            if self.command(stringify!($name), Place::$place, &keys) {
                // SAFETY: the caller's obligations are the backend's; the command is in place and what it
                // names is there.
                unsafe { self.raw.$name($(Argument::lowered($arg)),*) };
            }
        }
    )*};
}

/// Copies: two resources, perhaps a usage, and an iterator of regions.
macro_rules! copies {
    ($($name:ident($src:ident $([$usage:ident: $usage_ty:ty])? -> $dst:ident, $region:ty);)*) => {$(
        unsafe fn $name<T>(&mut self, src: &$src<A>, $($usage: $usage_ty,)? dst: &$dst<A>, regions: T)
        where
            T: Iterator<Item = $region>,
        {
            let keys = [Argument::named(&src), Argument::named(&dst)];
            if self.command(stringify!($name), Place::Outside, &keys) {
                // SAFETY: the caller's obligations are the backend's; the command is in place and what it
                // names is there.
                unsafe { self.raw.$name(src.raw(), $($usage,)? dst.raw(), regions) };
            }
        }
    )*};
}

/// The end of each kind of pass.
macro_rules! pass_ends {
    ($($name:ident($pass:ident);)*) => {$(
        unsafe fn $name(&mut self) {
            if self.command(stringify!($name), Place::$pass, &[]) {
                self.pass = None;
                // SAFETY: the caller's obligations are the backend's; such a pass is open.
                unsafe { self.raw.$name() };
            }
        }
    )*};
}

impl<A: Api> hal::CommandEncoder for CommandEncoder<A> {
    type A = Audited<A>;

    unsafe fn begin_encoding(&mut self, label: hal::Label) -> Result<(), DeviceError> {
        self.enter(Some(Site::BeginEncoding))?;
        if self.commands.is_some() {
            self.out_of_order("begin_encoding");
            return Err(DeviceError::Unexpected);
        }
        // SAFETY: the caller's obligations are the backend's, and the encoder is closed.
        let result = unsafe { self.raw.begin_encoding(label) };
        self.auditor.track(self.device, result)?;
        let mut state = self.auditor.state();
        self.commands = Some(state.ledger.begin(self.id, self.device, label));
        self.pass = None;
        Ok(())
    }

    unsafe fn discard_encoding(&mut self) {
        let _ = self.enter(None);
        let Some(commands) = self.commands.take() else {
            self.out_of_order("discard_encoding");
            return;
        };
        self.auditor.state().ledger.forget(commands);
        self.pass = None;
        // SAFETY: the caller's obligations are the backend's, and the encoder is recording.
        unsafe { self.raw.discard_encoding() };
    }

    unsafe fn end_encoding(&mut self) -> Result<CommandBuffer<A>, DeviceError> {
        if self.commands.is_none() || self.pass.is_some() {
            let _ = self.enter(None);
            self.out_of_order("end_encoding");
            return Err(DeviceError::Unexpected);
        }
        let entered = self.enter(Some(Site::EndEncoding));
        let Some(id) = self.commands.take() else {
            return Err(DeviceError::Unexpected);
        };
        // Whatever comes back, the encoder is closed from here on: that is the contract.
        let result = match entered {
            // SAFETY: the caller's obligations are the backend's, and the encoder is recording.
            Ok(()) => unsafe { self.raw.end_encoding() },
            Err(error) => {
                // SAFETY: the encoder is recording.
                unsafe { self.raw.discard_encoding() };
                Err(error)
            }
        };
        match self.auditor.track(self.device, result) {
            Ok(raw) => {
                self.auditor.state().ledger.end(id);
                Ok(CommandBuffer {
                    raw,
                    id,
                    auditor: self.auditor.clone(),
                })
            }
            Err(error) => {
                self.auditor.state().ledger.forget(id);
                Err(error)
            }
        }
    }

    unsafe fn reset_all<I>(&mut self, command_buffers: I)
    where
        I: Iterator<Item = CommandBuffer<A>>,
    {
        let _ = self.enter(None);
        let mut command_buffers: Vec<_> = command_buffers.collect();
        if self.commands.is_some() {
            self.out_of_order("reset_all");
            return;
        }
        let (keep, found) = self.auditor.rule("reset_all", |state, found| {
            let ledger = &mut state.ledger;
            let keep: Vec<bool> = command_buffers
                .iter()
                .map(|commands| ledger.reset(commands.id, self.id, self.device, found))
                .collect();
            ledger.reset_rest(self.id, self.device, found);
            keep
        });
        if found {
            let _ = self.inner.drain();
        }
        let mut keep = keep.into_iter();
        let own: Vec<_> = command_buffers
            .extract_if(.., |_| keep.next() == Some(true))
            .map(|commands| commands.raw)
            .collect();
        // Of another encoder, or freed by an earlier reset.
        command_buffers.into_iter().for_each(std::mem::forget);
        // SAFETY: the caller's obligations are the backend's; the command buffers are this encoder's.
        unsafe { self.raw.reset_all(own.into_iter()) };
    }

    unsafe fn transition_buffers<'a, T>(&mut self, barriers: T)
    where
        T: Iterator<Item = hal::BufferBarrier<'a, Buffer<A>>>,
    {
        let barriers: Vec<_> = barriers.collect();
        let keys: Vec<_> = barriers.iter().map(|b| Some(b.buffer.key())).collect();
        if self.command("transition_buffers", Place::NotRender, &keys) {
            let raw = barriers.iter().map(|barrier| hal::BufferBarrier {
                buffer: &barrier.buffer.raw,
                usage: barrier.usage.clone(),
            });
            // SAFETY: the caller's obligations are the backend's; the buffers are there.
            unsafe { self.raw.transition_buffers(raw) };
        }
    }

    unsafe fn transition_textures<'a, T>(&mut self, barriers: T)
    where
        T: Iterator<Item = hal::TextureBarrier<'a, Texture<A>>>,
    {
        let barriers: Vec<_> = barriers.collect();
        let keys: Vec<_> = barriers.iter().map(|b| Some(b.texture.key())).collect();
        if self.command("transition_textures", Place::NotRender, &keys) {
            let raw = barriers.iter().map(|barrier| hal::TextureBarrier {
                texture: barrier.texture.raw(),
                range: barrier.range,
                usage: barrier.usage.clone(),
            });
            // SAFETY: the caller's obligations are the backend's; the textures are there.
            unsafe { self.raw.transition_textures(raw) };
        }
    }

    copies! {
        copy_buffer_to_buffer(Buffer -> Buffer, hal::BufferCopy);
        copy_texture_to_texture(Texture [src_usage: wgt::TextureUses] -> Texture, hal::TextureCopy);
        copy_buffer_to_texture(Buffer -> Texture, hal::BufferTextureCopy);
        copy_texture_to_buffer(Texture [src_usage: wgt::TextureUses] -> Buffer, hal::BufferTextureCopy);
    }

    commands! {
        Outside clear_buffer(buffer: &Buffer<A>, range: Range<u64>);
        Outside copy_acceleration_structure_to_acceleration_structure(
            src: &AccelerationStructure<A>, dst: &AccelerationStructure<A>,
            copy: wgt::AccelerationStructureCopy
        );
        InPass set_bind_group(
            layout: &PipelineLayout<A>, index: u32, group: &BindGroup<A>, dynamic_offsets: &[u32]
        );
        InPass set_immediates(layout: &PipelineLayout<A>, offset_bytes: u32, data: &[u32]);
        Recording insert_debug_marker(label: &str);
        Recording begin_debug_marker(group_label: &str);
        Recording end_debug_marker();

        Recording begin_query(set: &QuerySet<A>, index: u32);
        Recording end_query(set: &QuerySet<A>, index: u32);
        Recording write_timestamp(set: &QuerySet<A>, index: u32);
        NotRender reset_queries(set: &QuerySet<A>, range: Range<u32>);
        Outside copy_query_results(
            set: &QuerySet<A>, range: Range<u32>, buffer: &Buffer<A>, offset: u64, stride: NonZeroU64
        );

        Render set_render_pipeline(pipeline: &RenderPipeline<A>);
        Render set_index_buffer(binding: hal::BufferBinding<'_, Buffer<A>>, format: wgt::IndexFormat);
        Render set_vertex_buffer(index: u32, binding: hal::BufferBinding<'_, Buffer<A>>);
        Render set_viewport(rect: &hal::Rect<f32>, depth_range: Range<f32>);
        Render set_scissor_rect(rect: &hal::Rect<u32>);
        Render set_stencil_reference(value: u32);
        Render set_blend_constants(color: &[f32; 4]);
        Render draw(first_vertex: u32, vertex_count: u32, first_instance: u32, instance_count: u32);
        Render draw_indexed(
            first_index: u32, index_count: u32, base_vertex: i32, first_instance: u32,
            instance_count: u32
        );
        Render draw_indirect(buffer: &Buffer<A>, offset: u64, draw_count: u32);
        Render draw_indexed_indirect(buffer: &Buffer<A>, offset: u64, draw_count: u32);
        Render draw_indirect_count(
            buffer: &Buffer<A>, offset: u64, count_buffer: &Buffer<A>, count_offset: u64,
            max_count: u32
        );
        Render draw_indexed_indirect_count(
            buffer: &Buffer<A>, offset: u64, count_buffer: &Buffer<A>, count_offset: u64,
            max_count: u32
        );
        Render draw_mesh_tasks(group_count_x: u32, group_count_y: u32, group_count_z: u32);
        Render draw_mesh_tasks_indirect(buffer: &Buffer<A>, offset: u64, draw_count: u32);
        Render draw_mesh_tasks_indirect_count(
            buffer: &Buffer<A>, offset: u64, count_buffer: &Buffer<A>, count_offset: u64,
            max_count: u32
        );

        Compute set_compute_pipeline(pipeline: &ComputePipeline<A>);
        Compute dispatch_workgroups(count: [u32; 3]);
        Compute dispatch_workgroups_indirect(buffer: &Buffer<A>, offset: u64);

        RayTracing set_ray_tracing_pipeline(pipeline: &RayTracingPipeline<A>);
        NotRender place_acceleration_structure_barrier(barrier: hal::AccelerationStructureBarrier);
        Outside read_acceleration_structure_compact_size(
            acceleration_structure: &AccelerationStructure<A>, buf: &Buffer<A>
        );
    }

    pass_ends! {
        end_render_pass(Render);
        end_compute_pass(Compute);
        end_ray_tracing_pass(RayTracing);
    }

    unsafe fn begin_render_pass(
        &mut self,
        desc: &hal::RenderPassDescriptor<QuerySet<A>, TextureView<A>>,
    ) -> Result<(), DeviceError> {
        let mut keys: Vec<Option<Key>> = Vec::new();
        for color in desc.color_attachments.iter().flatten() {
            keys.push(Some(color.target.view.key()));
            keys.push(color.resolve_target.as_ref().map(|a| a.view.key()));
        }
        let depth = desc.depth_stencil_attachment.as_ref();
        keys.push(depth.map(|depth| depth.target.view.key()));
        let timestamps = desc.timestamp_writes.as_ref();
        keys.push(timestamps.map(|writes| writes.query_set.key()));
        keys.push(desc.occlusion_query_set.map(|set| set.key()));
        if !self.command("begin_render_pass", Place::Outside, &keys) {
            return Err(DeviceError::Unexpected);
        }
        if self.auditor.state().ledger.is_lost(self.device) {
            return Err(DeviceError::Lost);
        }
        let colors: Vec<_> = desc
            .color_attachments
            .iter()
            .map(|attachment| attachment.as_ref().map(lower::color))
            .collect();
        let raw = hal::RenderPassDescriptor {
            label: desc.label,
            extent: desc.extent,
            sample_count: desc.sample_count,
            color_attachments: &colors,
            depth_stencil_attachment: depth.map(|depth| hal::DepthStencilAttachment {
                target: lower::attachment(&depth.target),
                depth_ops: depth.depth_ops,
                stencil_ops: depth.stencil_ops,
                clear_value: depth.clear_value,
            }),
            multiview_mask: desc.multiview_mask,
            timestamp_writes: timestamps.map(lower::timestamps),
            occlusion_query_set: desc.occlusion_query_set.map(|set| &set.raw),
        };
        // SAFETY: the caller's obligations are the backend's; the attachments are there.
        let result = unsafe { self.raw.begin_render_pass(&raw) };
        self.auditor.track(self.device, result)?;
        self.pass = Some(Pass::Render);
        Ok(())
    }

    unsafe fn begin_compute_pass(&mut self, desc: &hal::ComputePassDescriptor<QuerySet<A>>) {
        let timestamps = desc.timestamp_writes.as_ref();
        let keys = [timestamps.map(|writes| writes.query_set.key())];
        if self.command("begin_compute_pass", Place::Outside, &keys) {
            let raw = hal::ComputePassDescriptor {
                label: desc.label,
                timestamp_writes: timestamps.map(lower::timestamps),
            };
            // SAFETY: the caller's obligations are the backend's; the query set is there.
            unsafe { self.raw.begin_compute_pass(&raw) };
            self.pass = Some(Pass::Compute);
        }
    }

    unsafe fn begin_ray_tracing_pass(&mut self, desc: &hal::RayTracingPassDescriptor) {
        if self.command("begin_ray_tracing_pass", Place::Outside, &[]) {
            // SAFETY: the caller's obligations are the backend's.
            unsafe { self.raw.begin_ray_tracing_pass(desc) };
            self.pass = Some(Pass::RayTracing);
        }
    }

    unsafe fn trace_rays<'a>(
        &mut self,
        count: [u32; 3],
        ray_generation_group_data: hal::PipelineGroupData<'a, Buffer<A>>,
        miss_group_data: hal::PipelineGroupData<'a, Buffer<A>>,
        intersection_group_data: hal::PipelineGroupData<'a, Buffer<A>>,
    ) {
        let groups = [
            ray_generation_group_data,
            miss_group_data,
            intersection_group_data,
        ];
        let keys = groups.each_ref().map(|group| Some(group.buffer.key()));
        if self.command("trace_rays", Place::RayTracing, &keys) {
            let [generation, miss, intersection] = groups.map(|group| hal::PipelineGroupData {
                buffer: &group.buffer.raw,
                offset: group.offset,
                stride: group.stride,
                count: group.count,
            });
            // SAFETY: the caller's obligations are the backend's; the buffers are there.
            unsafe { self.raw.trace_rays(count, generation, miss, intersection) };
        }
    }

    unsafe fn build_acceleration_structures<'a, T>(&mut self, descriptor_count: u32, descriptors: T)
    where
        Self::A: 'a,
        T: IntoIterator<
            Item = hal::BuildAccelerationStructureDescriptor<
                'a,
                Buffer<A>,
                AccelerationStructure<A>,
            >,
        >,
    {
        let descriptors: Vec<_> = descriptors.into_iter().collect();
        let mut keys = Vec::new();
        let mut entries = Vec::new();
        for desc in &descriptors {
            entries.push(lower::entries(desc.entries, &mut keys));
            keys.extend(desc.source_acceleration_structure.map(|s| s.key()));
            keys.push(desc.destination_acceleration_structure.key());
            keys.push(desc.scratch_buffer.key());
        }
        let keys: Vec<_> = keys.into_iter().map(Some).collect();
        if !self.command("build_acceleration_structures", Place::Outside, &keys) {
            return;
        }
        let raw = descriptors.iter().zip(&entries).map(|(desc, entries)| {
            hal::BuildAccelerationStructureDescriptor {
                entries,
                mode: desc.mode,
                flags: desc.flags,
                source_acceleration_structure: desc.source_acceleration_structure.map(|s| &s.raw),
                destination_acceleration_structure: &desc.destination_acceleration_structure.raw,
                scratch_buffer: &desc.scratch_buffer.raw,
                scratch_buffer_offset: desc.scratch_buffer_offset,
            }
        });
        // SAFETY: the caller's obligations are the backend's; everything named is there.
        unsafe {
            self.raw
                .build_acceleration_structures(descriptor_count, raw)
        };
    }

    unsafe fn set_acceleration_structure_dependencies(
        command_buffers: &[&CommandBuffer<A>],
        dependencies: &[&AccelerationStructure<A>],
    ) {
        let mut sound = true;
        for commands in command_buffers {
            let call = "set_acceleration_structure_dependencies";
            let (all, _) = commands.auditor.rule(call, |state, found| {
                let refer = |sound: bool, dependency: &&AccelerationStructure<A>| {
                    state.ledger.refer(commands.id, dependency.key(), found) && sound
                };
                dependencies.iter().fold(true, refer)
            });
            sound &= all;
        }
        if sound {
            let commands: Vec<_> = command_buffers.iter().map(|c| &c.raw).collect();
            let dependencies: Vec<_> = dependencies.iter().map(|d| &d.raw).collect();
            // SAFETY: the caller's obligations are the backend's; everything named is there.
            unsafe {
                A::CommandEncoder::set_acceleration_structure_dependencies(
                    &commands,
                    &dependencies,
                );
            };
        }
    }
}
