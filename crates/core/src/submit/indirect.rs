//! Indirect dispatches whose numbers nobody has checked.
//!
//! The numbers are in GPU memory, so a shader checks them: it copies them to memory of the submission's
//! own, or zeros if one is above the limit (specification, `dispatchWorkgroupsIndirect`), and the program's
//! dispatch reads them from there.

use super::{
    pass::PassState,
    replay::{keep, Replay},
};
use crate::{
    device::Device,
    error::{Error, Result},
    reclaim::{BindGroupRaw, BufferRaw, Lower, Payload, PipelineLayoutRaw},
    record::{words_behind_binding, Recording},
    resource::Buffer,
};
use fencepost_lifetime::{Pin, Slot, Submission};
use rustc_hash::FxHashMap;
use std::{collections::hash_map::Entry, num::NonZeroU64, sync::Arc};
use wgpu_hal as hal;
use wgpu_types as wgt;

const SHADER: &str = "
    @group(0) @binding(0) var<storage, read> given: array<u32>;
    @group(0) @binding(1) var<storage, read_write> checked: array<u32, 3>;
    override first: u32;
    override limit: u32;

    @compute @workgroup_size(1)
    fn check() {
        let count = vec3(given[first], given[first + 1u], given[first + 2u]);
        let allowed = select(vec3(0u), count, all(count <= vec3(limit)));
        checked[0] = allowed.x;
        checked[1] = allowed.y;
        checked[2] = allowed.z;
    }
";

/// What errors call it.
const WHAT: &str = "the check of indirect arguments";

/// In bytes.
const ARGUMENTS: u64 = 12;

/// The HAL objects of the check, made when they are first needed.
#[derive(Debug, Default)]
pub(super) struct IndirectChecks {
    common: Option<Common>,
    /// By the number of words from the start of the bound range to the arguments.
    pipelines: FxHashMap<u32, Arc<Slot<Box<dyn hal::DynComputePipeline>>>>,
}

#[derive(Debug)]
struct Common {
    group_layout: Arc<Slot<Box<dyn hal::DynBindGroupLayout>>>,
    layout: Arc<Slot<PipelineLayoutRaw>>,
    module: Arc<Slot<Box<dyn hal::DynShaderModule>>>,
}

impl IndirectChecks {
    pub fn destroy(&mut self, lower: &Lower) {
        if let Some(common) = self.common.take() {
            common.group_layout.destroy(lower);
            common.layout.destroy(lower);
            common.module.destroy(lower);
        }
        for (_, pipeline) in self.pipelines.drain() {
            pipeline.destroy(lower);
        }
    }

    /// Makes what a recording needs.
    pub fn prepare(&mut self, device: &Device, recording: &Recording) -> Result<()> {
        for &first in &recording.indirect {
            if self.common.is_none() {
                self.common = Some(Common::new(device)?);
            }
            let common = self.common.as_ref().expect("it was just made");
            if let Entry::Vacant(place) = self.pipelines.entry(first) {
                place.insert(common.pipeline(device, first)?);
            }
        }
        Ok(())
    }

    /// Stamps everything: the submission uses some of it.
    pub fn stamp<'r>(&'r self, submission: &mut Submission<'_, 'r, Payload>) {
        if let Some(common) = &self.common {
            submission.stamp(common.group_layout.last_use());
            submission.stamp(common.layout.last_use());
        }
        for pipeline in self.pipelines.values() {
            submission.stamp(pipeline.last_use());
        }
    }

    /// The objects for arguments that begin `first` words into the bound range.
    fn get(&self, first: u32) -> (&Common, &dyn hal::DynComputePipeline) {
        let (Some(common), Some(pipeline)) = (&self.common, self.pipelines.get(&first)) else {
            unreachable!("the submission has prepared what its recordings need")
        };
        // SAFETY: the submission has stamped it, and is the last one if the device is being destroyed, since
        // that waits for the queue's lock.
        let pipeline = unsafe { pipeline.get() };
        (common, &**pipeline)
    }
}

impl Common {
    fn new(device: &Device) -> Result<Self> {
        let lower = &*device.lower;
        let internal = |error: &dyn std::fmt::Display| Error::internal(format!("{WHAT}: {error}"));
        let module = naga::front::wgsl::parse_str(SHADER).map_err(|error| internal(&error))?;
        let capabilities = naga::valid::Capabilities::empty();
        let info = naga::valid::Validator::new(naga::valid::ValidationFlags::all(), capabilities)
            .validate(&module)
            .map_err(|error| internal(&error))?;
        let desc = hal::ShaderModuleDescriptor {
            label: None,
            runtime_checks: wgt::ShaderRuntimeChecks::checked(),
        };
        let module = lower.create(&WHAT, 0, |hal| {
            let input = hal::ShaderInput::Naga(hal::NagaShader {
                module: std::borrow::Cow::Owned(module.clone()),
                info: info.clone(),
                debug_source: None,
            });
            // SAFETY: the module is valid.
            unsafe { hal.create_shader_module(&desc, input) }.map_err(|error| match error {
                hal::ShaderError::Device(error) => error,
                hal::ShaderError::Compilation(message) => {
                    log::error!("{WHAT}: {message}");
                    hal::DeviceError::Unexpected
                }
            })
        })?;
        let entry = |binding, read_only, size| wgt::BindGroupLayoutEntry {
            binding,
            visibility: wgt::ShaderStages::COMPUTE,
            ty: wgt::BindingType::Buffer {
                ty: wgt::BufferBindingType::Storage { read_only },
                has_dynamic_offset: false,
                min_binding_size: NonZeroU64::new(size),
            },
            count: None,
        };
        let entries = [entry(0, true, ARGUMENTS), entry(1, false, ARGUMENTS)];
        let group_layout = lower.create(&WHAT, 0, |hal| {
            // SAFETY: the entries are in order and within every device's limits.
            unsafe {
                hal.create_bind_group_layout(&hal::BindGroupLayoutDescriptor {
                    label: None,
                    flags: hal::BindGroupLayoutFlags::empty(),
                    entries: &entries,
                })
            }
        });
        let group_layout = group_layout.inspect_err(|_| module.destroy(lower))?;
        // SAFETY: the slot is new.
        let raw_group_layout = unsafe { group_layout.get() };
        let layout = lower.create(&WHAT, 0, |hal| {
            // SAFETY: the group layout is alive.
            unsafe {
                hal.create_pipeline_layout(&hal::PipelineLayoutDescriptor {
                    label: None,
                    flags: hal::PipelineLayoutFlags::empty(),
                    bind_group_layouts: &[Some(&**raw_group_layout)],
                    immediate_size: 0,
                })
            }
            .map(|hal| PipelineLayoutRaw {
                hal,
                // It lives as long as this layout.
                groups: Vec::new(),
            })
        });
        let layout = layout.inspect_err(|_| {
            group_layout.destroy(lower);
            module.destroy(lower);
        })?;
        Ok(Self {
            group_layout,
            layout,
            module,
        })
    }

    fn pipeline(
        &self,
        device: &Device,
        first: u32,
    ) -> Result<Arc<Slot<Box<dyn hal::DynComputePipeline>>>> {
        let limit = device.limits.max_compute_workgroups_per_dimension;
        let constants = naga::back::PipelineConstants::from_iter([
            ("first".to_owned(), f64::from(first)),
            ("limit".to_owned(), f64::from(limit)),
        ]);
        // SAFETY: see `IndirectChecks::get`.
        let (layout, module) = unsafe { (self.layout.get(), self.module.get()) };
        let desc = hal::ComputePipelineDescriptor {
            label: None,
            layout: &*layout.hal,
            stage: hal::ProgrammableStage {
                module: &**module,
                entry_point: "check",
                constants: &constants,
                zero_initialize_workgroup_memory: false,
            },
            cache: None,
        };
        device.lower.create(&WHAT, 0, |hal| {
            // SAFETY: layout and module are alive and fit each other.
            unsafe { hal.create_compute_pipeline(&desc) }.map_err(|error| match error {
                hal::PipelineError::Device(error) => error,
                other => {
                    log::error!("{WHAT}: {other}");
                    hal::DeviceError::Unexpected
                }
            })
        })
    }
}

impl<'a> Replay<'a, '_> {
    pub fn dispatch_indirect(
        &mut self,
        state: &mut PassState<'a>,
        buffer: &'a Buffer,
        offset: u64,
    ) -> Result<()> {
        let device = self.device;
        let size = ARGUMENTS;
        let checked = self.make(&"memory for indirect arguments", size, |hal| {
            let desc = hal::BufferDescriptor {
                label: None,
                size,
                usage: wgt::BufferUses::STORAGE_READ_WRITE | wgt::BufferUses::INDIRECT,
                memory_flags: hal::MemoryFlags::TRANSIENT,
            };
            // SAFETY: the descriptor is well-formed.
            unsafe { hal.create_buffer(&desc) }.map(BufferRaw::new)
        })?;
        // SAFETY: this submission keeps the buffer.
        let checked = &*unsafe { checked.get() }.hal;

        let first = words_behind_binding(&device.limits, offset);
        let start = offset - 4 * u64::from(first);
        let (common, pipeline) = self.indirect.get(first);
        // SAFETY: see `IndirectChecks::get`.
        let (group_layout, layout) = unsafe { (common.group_layout.get(), common.layout.get()) };
        let given = Self::raw_buffer(buffer);
        let desc = hal::BindGroupDescriptor {
            label: None,
            layout: &**group_layout,
            buffers: &[
                hal::BufferBinding::new_unchecked(
                    given,
                    start,
                    NonZeroU64::new(offset - start + size),
                ),
                hal::BufferBinding::new_unchecked(checked, 0, NonZeroU64::new(size)),
            ],
            samplers: &[],
            textures: &[],
            entries: &[0, 1].map(|binding| hal::BindGroupEntry {
                binding,
                resource_index: binding,
                count: 1,
            }),
            acceleration_structures: &[],
            external_textures: &[],
        };
        let group = device.lower.create(&WHAT, 0, |hal| {
            // SAFETY: the buffers are alive, and the ranges within them.
            let hal = unsafe { hal.create_bind_group(&desc) }?;
            let layout = common.group_layout.pin(&*device.lower).map(Pin::detach);
            Ok(BindGroupRaw { hal, layout })
        })?;
        let group = keep(self.submission, group)?;
        // SAFETY: a compute pass is open, and the objects fit each other.
        unsafe { self.encoding.get().set_compute_pipeline(pipeline) };
        let layout: *const dyn hal::DynPipelineLayout = &*layout.hal;
        self.use_buffer(buffer, wgt::BufferUses::STORAGE_READ_ONLY);
        self.barriers();
        let barrier = hal::BufferBarrier {
            buffer: checked,
            usage: hal::StateTransition {
                from: wgt::BufferUses::STORAGE_READ_WRITE,
                to: wgt::BufferUses::INDIRECT,
            },
        };
        // SAFETY: a compute pass is open, the objects fit each other, and the layout lives as long as the
        // device.
        unsafe {
            let encoder = self.encoding.get();
            encoder.set_bind_group(&*layout, 0, &*group.get().hal, &[]);
            encoder.dispatch_workgroups([1, 1, 1]);
            encoder.transition_buffers(&[barrier]);
        }
        self.set_pipeline(state.pipeline());
        state.invalidate();
        self.begin_dispatch(state);
        // SAFETY: pipeline and groups were checked when this was recorded, the arguments just now.
        unsafe { self.encoder().dispatch_workgroups_indirect(checked, 0) };
        Ok(())
    }
}
