//! Compute pipelines (specification, section 10.2 "GPUComputePipeline").
//!
//! Everything that a dispatch needs to know of a pipeline is worked out when it is made: its layout, the
//! sizes that buffers must have, and the immediate data that must be set.

use super::{BindGroupLayout, Body, PipelineCache, PipelineLayout, ShaderModule};
use crate::{
    device::Device,
    error::{invalid, Error, Named, Result},
    validate::interface::{
        check_workgroup, constants, late_sized, specialize, DerivedLayout, EntryPoint, LateSized,
        RequiredSizes,
    },
};
use fencepost_lifetime::Slot;
use naga::{back::PipelineConstants, valid::ImmediateSlots};
use std::sync::Arc;
use wgpu_hal as hal;
use wgpu_types as wgt;

/// What a program asks for when it creates a compute pipeline.
#[derive(Clone, Debug)]
pub struct ComputePipelineDescriptor<'a> {
    /// For messages and debuggers.
    pub label: Option<&'a str>,
    /// The layout; `None` for one that is derived from the shader.
    pub layout: Option<&'a Arc<PipelineLayout>>,
    /// The shader module.
    pub module: &'a Arc<ShaderModule>,
    /// The entry point; `None` for the only compute entry point of the module.
    pub entry_point: Option<&'a str>,
    /// Values of the module's overrides, by their ids or names.
    pub constants: &'a [(&'a str, f64)],
    /// Whether workgroup variables start as zero. WebGPU says that they do.
    pub zero_initialize_workgroup_memory: bool,
    /// A cache that speeds the creation up and learns from it.
    pub cache: Option<&'a Arc<PipelineCache>>,
}

/// A compute pipeline. Made by [`Device::create_compute_pipeline`].
#[derive(Debug)]
pub struct ComputePipeline {
    pub(crate) device: Arc<Device>,
    label: String,
    pub(crate) layout: Arc<PipelineLayout>,
    /// For each group, the buffers whose size each dispatch checks.
    pub(crate) late_sized: Vec<LateSized>,
    /// The immediate data that must be set before a dispatch.
    pub(crate) immediates: ImmediateSlots,
    workgroup_size: [u32; 3],
    automatic: bool,
    pub(crate) body: Body<Box<dyn hal::DynComputePipeline>>,
}

impl Device {
    /// Creates a compute pipeline (specification, `GPUDevice.createComputePipeline`).
    ///
    /// # Errors
    ///
    /// Reported to the device: a validation error that names the entry point, the rule and the values, out
    /// of memory, or an internal error if the driver does not take the shader. The pipeline is invalid
    /// then.
    pub fn create_compute_pipeline(
        self: &Arc<Self>,
        desc: &ComputePipelineDescriptor<'_>,
    ) -> Arc<ComputePipeline> {
        let label = desc.label.unwrap_or_default();
        let made = ComputePipeline::new(self, label, desc);
        let made = made.map_err(|error| error.within(name_of(label)));
        let pipeline = self
            .report_if_err("Device::create_compute_pipeline", made)
            .unwrap_or_else(|| ComputePipeline::invalid(self, label));
        Arc::new(pipeline)
    }
}

impl ComputePipeline {
    fn new(
        device: &Arc<Device>,
        label: &str,
        desc: &ComputePipelineDescriptor<'_>,
    ) -> Result<Self> {
        device.check_alive()?;
        let downlevel = device.adapter.downlevel().flags;
        if !downlevel.contains(wgt::DownlevelFlags::COMPUTE_SHADERS) {
            return Err(invalid!("the adapter has no compute shaders"));
        }
        let module = desc.module;
        device.check_same(&module.device, &module.name())?;
        if let Some(layout) = desc.layout {
            device.check_same(&layout.device, &layout.name())?;
            layout.check_valid()?;
        }
        if let Some(cache) = desc.cache {
            device.check_same(&cache.device, &cache.name())?;
        }

        let reflection = module.reflection()?;
        let of_module = |error: Error| error.within(module.name());
        let entry_point = reflection
            .interface
            .entry_point(naga::ShaderStage::Compute, desc.entry_point)
            .map_err(of_module)?;
        let constants = constants(&reflection.module, desc.constants).map_err(of_module)?;
        let (specialized, info) = specialize(
            &reflection.module,
            &reflection.info,
            entry_point,
            &constants,
        )
        .map_err(of_module)?;
        let workgroup_size =
            check_workgroup(&specialized, &info, entry_point, &device.limits).map_err(of_module)?;

        let layout = match desc.layout {
            Some(layout) => {
                reflection
                    .interface
                    .check(entry_point, &layout.entries(), layout.immediate_size)
                    .map_err(|error| error.within(layout.name()))
                    .map_err(of_module)?;
                Arc::clone(layout)
            }
            None => {
                let mut derived = DerivedLayout::default();
                reflection
                    .interface
                    .derive(entry_point, &mut derived, &device.limits)
                    .map_err(of_module)?;
                automatic_layout(device, &derived)
                    .map_err(|error| error.within("its automatic layout"))?
            }
        };
        let mut sizes = RequiredSizes::default();
        reflection.interface.require_sizes(entry_point, &mut sizes);

        let mut pipeline = Self {
            device: Arc::clone(device),
            label: label.to_owned(),
            late_sized: late_sized(&layout.entries(), &sizes),
            immediates: entry_point.immediates,
            workgroup_size: workgroup_size.map(|size| size.get()),
            automatic: desc.layout.is_none(),
            layout,
            body: Body::Gone,
        };
        pipeline.body = pipeline.make(desc, entry_point, &constants)?;
        Ok(pipeline)
    }

    fn make(
        &self,
        desc: &ComputePipelineDescriptor<'_>,
        entry_point: &EntryPoint,
        constants: &PipelineConstants,
    ) -> Result<Body<Box<dyn hal::DynComputePipeline>>> {
        let lower = &*self.device.lower;
        let module = desc.module.body.slot().and_then(|slot| slot.pin(lower));
        let layout = self.layout.body.slot().and_then(|slot| slot.pin(lower));
        // A cache whose creation failed counts as none.
        let cache = desc.cache.and_then(|cache| cache.body.slot());
        let cache = cache.and_then(|slot| slot.pin(lower));
        let (Some(module), Some(layout)) = (module, layout) else {
            // The device was destroyed.
            return Ok(Body::Gone);
        };
        let hal_desc = hal::ComputePipelineDescriptor {
            label: self.device.adapter.hal_label(&self.label),
            layout: &*layout.hal,
            stage: hal::ProgrammableStage {
                module: &**module,
                entry_point: &entry_point.name,
                constants,
                zero_initialize_workgroup_memory: desc.zero_initialize_workgroup_memory,
            },
            cache: cache.as_ref().map(|cache| &***cache),
        };
        let slot = create(&self.device, self.name(), &hal_desc)?;
        Ok(Body::Live(slot))
    }

    /// A pipeline whose creation failed.
    pub(crate) fn invalid(device: &Arc<Device>, label: &str) -> Self {
        Self {
            device: Arc::clone(device),
            label: label.to_owned(),
            layout: Arc::new(PipelineLayout::invalid(device, "")),
            late_sized: Vec::new(),
            immediates: ImmediateSlots::default(),
            workgroup_size: [0; 3],
            automatic: false,
            body: Body::Invalid,
        }
    }

    /// The label, empty if there is none.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// How many invocations a workgroup has in each dimension.
    pub fn workgroup_size(&self) -> [u32; 3] {
        self.workgroup_size
    }

    pub(crate) fn name(&self) -> Named<'_> {
        name_of(&self.label)
    }

    /// The layout of the bind group at `index` (specification, `GPUPipelineBase.getBindGroupLayout`). It
    /// has no entries where the pipeline uses none.
    ///
    /// # Errors
    ///
    /// Reported to the device: a validation error if the pipeline is invalid or the index is not below
    /// `max_bind_groups`. The layout is invalid then.
    pub fn get_bind_group_layout(&self, index: u32) -> Arc<BindGroupLayout> {
        let found = self
            .find_layout(index)
            .map_err(|error| error.within(self.name()));
        self.device
            .report_if_err("ComputePipeline::get_bind_group_layout", found)
            .unwrap_or_else(|| Arc::new(BindGroupLayout::invalid(&self.device, "")))
    }

    fn find_layout(&self, index: u32) -> Result<Arc<BindGroupLayout>> {
        if !self.body.is_valid() {
            return Err(invalid!("the pipeline is invalid"));
        }
        let limit = self.device.limits.max_bind_groups;
        if index >= limit {
            return Err(invalid!(
                "the index {index} is not below max_bind_groups {limit}"
            ));
        }
        match self.layout.groups.get(index as usize) {
            Some(Some(layout)) => Ok(Arc::clone(layout)),
            _ => BindGroupLayout::empty(&self.device, self.automatic).map(Arc::new),
        }
    }
}

impl Drop for ComputePipeline {
    fn drop(&mut self) {
        self.body.destroy(&self.device.lower);
    }
}

fn name_of(label: &str) -> Named<'_> {
    Named {
        kind: "compute pipeline",
        label,
    }
}

fn automatic_layout(device: &Arc<Device>, derived: &DerivedLayout) -> Result<Arc<PipelineLayout>> {
    let groups = BindGroupLayout::derived(device, &derived.groups())?;
    let layout = PipelineLayout::new(device, "", &groups, derived.immediate_size)?;
    Ok(Arc::new(layout))
}

type HalDescriptor<'a> = hal::ComputePipelineDescriptor<
    'a,
    dyn hal::DynPipelineLayout,
    dyn hal::DynShaderModule,
    dyn hal::DynPipelineCache,
>;

fn create(
    device: &Device,
    name: Named<'_>,
    desc: &HalDescriptor<'_>,
) -> Result<Arc<Slot<Box<dyn hal::DynComputePipeline>>>> {
    let mut refusal = None;
    let slot = device.create(&name, 0, |hal| {
        // SAFETY: the module, the layout and the cache are pinned, and the entry point, its constants and
        // the layout have been checked against each other.
        let made = unsafe { hal.create_compute_pipeline(desc) };
        made.map_err(|error| match error {
            hal::PipelineError::Device(error) => error,
            other => {
                refusal = Some(other);
                hal::DeviceError::Unexpected
            }
        })
    });
    match refusal {
        None => slot,
        Some(hal::PipelineError::PipelineConstants(_, message)) => {
            Err(invalid!("its constants do not fit the shader: {message}"))
        }
        Some(other) => Err(Error::internal(format!(
            "the driver does not take the shader: {other}"
        ))),
    }
}

#[cfg(test)]
#[path = "compute_pipeline/tests.rs"]
mod tests;
