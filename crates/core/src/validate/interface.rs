//! The interface of a shader: which entry points a module has, which resources each uses, and whether a
//! pipeline layout provides them (WebGPU, section 10.1 "Base pipelines").
//!
//! Everything here is the same for every stage. A pipeline takes these steps for each of its stages:
//! [`Interface::entry_point`], then [`Interface::check`] against its layout or [`Interface::derive`] for an
//! automatic one, [`Interface::require_sizes`], [`constants`] and [`specialize`], and for a compute
//! stage [`check_workgroup`] on the specialised module.
//!
//! Invariant: what a module uses is read from its static uses, as override constants leave it.

mod derived;
mod specialize;

use crate::error::{invalid, Result};
use naga::valid::{ImmediateSlots, ModuleInfo};
use rustc_hash::FxHashMap;
use std::fmt;
use wgpu_naga_bridge::map_storage_format_from_naga;
use wgpu_types as wgt;

pub(crate) use derived::DerivedLayout;
pub(crate) use specialize::{check_workgroup, constants, specialize};

/// The entries of a pipeline layout's groups, sorted by binding number. `None` where it has no group.
pub(crate) type Groups<'a> = [Option<&'a [wgt::BindGroupLayoutEntry]>];

/// The smallest sizes in bytes that shaders need of the buffers at (group, binding).
pub(crate) type RequiredSizes = FxHashMap<(u32, u32), u64>;

/// The buffers of one group whose size is checked at each dispatch or draw: (binding, smallest size in
/// bytes), in the order of the layout. A size of zero means that the shader does not use the buffer.
pub(crate) type LateSized = Vec<(u32, u64)>;

/// What a shader module says about itself.
#[derive(Debug, Default)]
pub(crate) struct Interface {
    resources: Vec<Resource>,
    entry_points: Vec<EntryPoint>,
    /// The size in bytes of the largest immediate variable, a multiple of 4. An automatic layout has it,
    /// whether or not the entry point uses the variable.
    immediate_size: u32,
}

/// A global variable with a binding.
#[derive(Debug)]
struct Resource {
    name: String,
    group: u32,
    binding: u32,
    ty: ResourceType,
    array: Option<naga::ArraySize>,
}

#[derive(Debug)]
enum ResourceType {
    Buffer {
        ty: wgt::BufferBindingType,
        size: u64,
    },
    Sampler {
        comparison: bool,
    },
    /// `sample_type` is filterable for every float texture; whether it must be depends on its use.
    Texture {
        sample_type: wgt::TextureSampleType,
        view_dimension: wgt::TextureViewDimension,
        multisampled: bool,
    },
    StorageTexture {
        access: wgt::StorageTextureAccess,
        format: wgt::TextureFormat,
        view_dimension: wgt::TextureViewDimension,
    },
    /// No layout can provide it.
    Unsupported(&'static str),
}

/// An entry point and what it uses, directly or through the functions that it calls.
#[derive(Debug)]
pub(crate) struct EntryPoint {
    pub stage: naga::ShaderStage,
    pub name: String,
    /// The slots of immediate data that it reads, which must be set before it runs.
    pub immediates: ImmediateSlots,
    /// The size in bytes of its immediate data, a multiple of 4; zero if it has none.
    pub immediate_size: u32,
    resources: Vec<usize>,
    /// Pairs of (texture, sampler) that are used together.
    sampled: Vec<(usize, usize)>,
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            group,
            binding,
            ..
        } = self;
        if !name.is_empty() {
            write!(f, "{name:?} at ")?;
        }
        write!(f, "group {group} binding {binding}")
    }
}

impl fmt::Display for EntryPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} entry point {:?}", stage_name(self.stage), self.name)
    }
}

fn stage_name(stage: naga::ShaderStage) -> &'static str {
    match stage {
        naga::ShaderStage::Vertex => "vertex",
        naga::ShaderStage::Fragment => "fragment",
        naga::ShaderStage::Compute => "compute",
        naga::ShaderStage::Task => "task",
        naga::ShaderStage::Mesh => "mesh",
        naga::ShaderStage::RayGeneration => "ray generation",
        naga::ShaderStage::AnyHit => "any hit",
        naga::ShaderStage::ClosestHit => "closest hit",
        naga::ShaderStage::Miss => "miss",
    }
}

impl Interface {
    /// Reads the interface of a module that `info` says is valid.
    pub fn new(module: &naga::Module, info: &ModuleInfo) -> Self {
        let mut resources = Vec::new();
        let mut places = FxHashMap::default();
        let mut immediate_size = 0;
        for (handle, variable) in module.global_variables.iter() {
            if variable.space == naga::AddressSpace::Immediate {
                immediate_size = immediate_size.max(immediate_bytes(module, variable));
            }
            if let Some(bind) = &variable.binding {
                places.insert(handle, resources.len());
                resources.push(Resource::new(module, variable, bind));
            }
        }

        let entry_points = module
            .entry_points
            .iter()
            .enumerate()
            .map(|(index, entry_point)| {
                let info = info.get_entry_point(index);
                let used = || {
                    module
                        .global_variables
                        .iter()
                        .filter(|(handle, _)| !info[*handle].is_empty())
                };
                let place = |handle| places.get(&handle).copied();
                EntryPoint {
                    stage: entry_point.stage,
                    name: entry_point.name.clone(),
                    immediates: info.immediate_slots_used,
                    immediate_size: used()
                        .filter(|(_, variable)| variable.space == naga::AddressSpace::Immediate)
                        .map(|(_, variable)| immediate_bytes(module, variable))
                        .max()
                        .unwrap_or(0),
                    resources: used().filter_map(|(handle, _)| place(handle)).collect(),
                    sampled: info
                        .sampling_set
                        .iter()
                        .filter_map(|key| place(key.image).zip(place(key.sampler)))
                        .collect(),
                }
            })
            .collect();
        Self {
            resources,
            entry_points,
            immediate_size,
        }
    }

    /// The entry point of that stage with that name, or the only one of that stage.
    ///
    /// # Errors
    ///
    /// A validation error that names the entry points that there are.
    pub fn entry_point(&self, stage: naga::ShaderStage, name: Option<&str>) -> Result<&EntryPoint> {
        let kind = stage_name(stage);
        let mut of_stage = self
            .entry_points
            .iter()
            .filter(|entry| entry.stage == stage);
        let names = || {
            let of_stage = self
                .entry_points
                .iter()
                .filter(|entry| entry.stage == stage);
            of_stage.map(|entry| &*entry.name).collect::<Vec<_>>()
        };
        match name {
            Some(name) => of_stage.find(|entry| entry.name == name).ok_or_else(|| {
                invalid!(
                    "the shader module has no {kind} entry point {name:?}; it has {:?}",
                    names()
                )
            }),
            None => match (of_stage.next(), of_stage.next()) {
                (Some(entry), None) => Ok(entry),
                (None, _) => Err(invalid!("the shader module has no {kind} entry point")),
                (Some(_), Some(_)) => Err(invalid!(
                    "the shader module has several {kind} entry points, so one must be named: {:?}",
                    names()
                )),
            },
        }
    }

    /// Checks that a layout provides what an entry point uses.
    ///
    /// # Errors
    ///
    /// Validation errors that name the entry point, the variable, its binding and the rule.
    pub fn check(
        &self,
        entry_point: &EntryPoint,
        groups: &Groups<'_>,
        immediate_size: u32,
    ) -> Result<()> {
        let stage = wgpu_naga_bridge::map_naga_stage(entry_point.stage);
        for &index in &entry_point.resources {
            let resource = &self.resources[index];
            provided(resource, groups)
                .and_then(|entry| {
                    if !entry.visibility.contains(stage) {
                        return Err(invalid!(
                            "the layout makes it visible to {:?}, which is not this stage",
                            entry.visibility
                        ));
                    }
                    resource.check(entry)
                })
                .map_err(|error| error.within(resource).within(entry_point))?;
        }
        for &(texture, sampler) in &entry_point.sampled {
            let (texture, sampler) = (&self.resources[texture], &self.resources[sampler]);
            check_sampled(texture, sampler, groups).map_err(|error| error.within(entry_point))?;
        }
        if entry_point.immediate_size > immediate_size {
            return Err(invalid!(
                "{entry_point}: it uses {} bytes of immediate data, but the layout has {immediate_size}",
                entry_point.immediate_size
            ));
        }
        Ok(())
    }

    /// Adds what an entry point uses to an automatic layout (WebGPU, "default pipeline layout").
    ///
    /// # Errors
    ///
    /// Validation errors that name the entry point, the variable, its binding and the rule.
    pub fn derive(
        &self,
        entry_point: &EntryPoint,
        layout: &mut DerivedLayout,
        limits: &wgt::Limits,
    ) -> Result<()> {
        let visibility = wgpu_naga_bridge::map_naga_stage(entry_point.stage);
        for &index in &entry_point.resources {
            let resource = &self.resources[index];
            let sampled = entry_point
                .sampled
                .iter()
                .any(|(texture, _)| *texture == index);
            resource
                .derive(visibility, sampled)
                .and_then(|entry| layout.add(resource.group, entry, limits))
                .map_err(|error| error.within(resource).within(entry_point))?;
        }
        layout.immediate_size = layout.immediate_size.max(self.immediate_size);
        Ok(())
    }

    /// Notes the smallest sizes that an entry point needs of its buffers.
    pub fn require_sizes(&self, entry_point: &EntryPoint, sizes: &mut RequiredSizes) {
        for &index in &entry_point.resources {
            let resource = &self.resources[index];
            if let ResourceType::Buffer { size, .. } = resource.ty {
                let required = sizes.entry((resource.group, resource.binding)).or_default();
                *required = size.max(*required);
            }
        }
    }
}

/// The buffers of each group that are checked at each dispatch or draw, because the layout does not say
/// how large they must be.
pub(crate) fn late_sized(groups: &Groups<'_>, sizes: &RequiredSizes) -> Vec<LateSized> {
    (0u32..)
        .zip(groups)
        .map(|(group, entries)| {
            let entries = entries.unwrap_or_default();
            let late = entries.iter().filter(|entry| is_late_sized(entry));
            late.map(|entry| {
                let size = sizes.get(&(group, entry.binding)).copied();
                (entry.binding, size.unwrap_or(0))
            })
            .collect()
        })
        .collect()
}

/// Whether a binding is a buffer whose smallest size the layout does not say.
pub(crate) fn is_late_sized(entry: &wgt::BindGroupLayoutEntry) -> bool {
    matches!(
        entry.ty,
        wgt::BindingType::Buffer {
            min_binding_size: None,
            ..
        }
    )
}

fn immediate_bytes(module: &naga::Module, variable: &naga::GlobalVariable) -> u32 {
    size_of(module, variable.ty)
        .next_multiple_of(wgt::IMMEDIATE_DATA_ALIGNMENT.into())
        .try_into()
        .unwrap_or(u32::MAX)
}

/// The size of a type in bytes, with one element of an array that has none of its own.
fn size_of(module: &naga::Module, ty: naga::Handle<naga::Type>) -> u64 {
    // naga refuses types that are larger than it can count.
    let size = module.types[ty].inner.try_size(module.to_ctx());
    size.map_or(u64::MAX / 2, u64::from)
}

fn provided<'a>(resource: &Resource, groups: &Groups<'a>) -> Result<&'a wgt::BindGroupLayoutEntry> {
    let entries = groups
        .get(resource.group as usize)
        .copied()
        .flatten()
        .ok_or_else(|| invalid!("the pipeline layout has no bindings in this group"))?;
    entries
        .binary_search_by_key(&resource.binding, |entry| entry.binding)
        .map(|index| &entries[index])
        .map_err(|_| invalid!("the bind group layout has no such binding"))
}

/// A filtering sampler must not meet a texture that cannot be filtered.
fn check_sampled(texture: &Resource, sampler: &Resource, groups: &Groups<'_>) -> Result<()> {
    let sampler_type = provided(sampler, groups)?.ty;
    if sampler_type != wgt::BindingType::Sampler(wgt::SamplerBindingType::Filtering) {
        return Ok(());
    }
    use wgt::TextureSampleType as Sample;
    match provided(texture, groups)?.ty {
        wgt::BindingType::Texture {
            sample_type:
                sample_type @ (Sample::Float { filterable: false } | Sample::Sint | Sample::Uint),
            ..
        } => Err(invalid!(
            "{texture} is used with the sampler {sampler}, but the layout has the sample type \
             {sample_type:?} for the one and a filtering sampler for the other"
        )),
        _ => Ok(()),
    }
}

impl Resource {
    fn new(
        module: &naga::Module,
        variable: &naga::GlobalVariable,
        bind: &naga::ResourceBinding,
    ) -> Self {
        let (ty, array) = match module.types[variable.ty].inner {
            naga::TypeInner::BindingArray { base, size } => (base, Some(size)),
            _ => (variable.ty, None),
        };
        Self {
            name: variable.name.clone().unwrap_or_default(),
            group: bind.group,
            binding: bind.binding,
            ty: ResourceType::new(module, ty, variable.space),
            array,
        }
    }

    /// Checks the entry of an explicit layout.
    fn check(&self, entry: &wgt::BindGroupLayoutEntry) -> Result<()> {
        use wgt::{
            BindingType as Type, StorageTextureAccess as Access, TextureSampleType as Sample,
        };

        match (self.array, entry.count) {
            (None, None) | (Some(naga::ArraySize::Dynamic), Some(_)) => {}
            (Some(naga::ArraySize::Constant(size)), Some(count)) if size <= count => {}
            (None, Some(count)) => {
                return Err(invalid!(
                    "the layout has an array of {count}, but the shader has no array"
                ));
            }
            (Some(_), None) => {
                return Err(invalid!(
                    "the shader has an array, but the layout has a single binding"
                ));
            }
            (Some(size), Some(count)) => {
                return Err(invalid!(
                    "the shader has an array of {size:?}, but the layout has an array of {count}"
                ));
            }
        }

        let fits = match (&self.ty, entry.ty) {
            (ResourceType::Unsupported(what), _) => return Err(invalid!("{what}")),
            (
                ResourceType::Buffer { ty, size },
                Type::Buffer {
                    ty: provided,
                    min_binding_size,
                    ..
                },
            ) => {
                if let Some(min) = min_binding_size {
                    if *ty == provided && min.get() < *size {
                        return Err(invalid!(
                            "the shader needs {size} bytes, but the layout's min_binding_size is {min}"
                        ));
                    }
                }
                *ty == provided
            }
            (ResourceType::Sampler { comparison }, Type::Sampler(provided)) => {
                *comparison == (provided == wgt::SamplerBindingType::Comparison)
            }
            (
                ResourceType::Texture {
                    sample_type,
                    view_dimension,
                    multisampled,
                },
                Type::Texture {
                    sample_type: provided,
                    view_dimension: dimension,
                    multisampled: multi,
                },
            ) => {
                let sample_fits = match (*sample_type, provided) {
                    (Sample::Float { .. }, Sample::Float { .. }) => true,
                    (needed, provided) => needed == provided,
                };
                sample_fits && *view_dimension == dimension && *multisampled == multi
            }
            (
                ResourceType::StorageTexture {
                    access,
                    format,
                    view_dimension,
                },
                Type::StorageTexture {
                    access: provided,
                    format: provided_format,
                    view_dimension: dimension,
                },
            ) => {
                // A texture that may be read and written is good for a shader that only writes.
                let access_fits = *access == provided
                    || (*access, provided) == (Access::WriteOnly, Access::ReadWrite);
                access_fits && *format == provided_format && *view_dimension == dimension
            }
            _ => false,
        };
        if fits {
            Ok(())
        } else {
            Err(invalid!(
                "the shader needs {}, but the layout has {:?}",
                self.ty,
                entry.ty
            ))
        }
    }

    /// The entry that an automatic layout gets.
    fn derive(
        &self,
        visibility: wgt::ShaderStages,
        sampled: bool,
    ) -> Result<wgt::BindGroupLayoutEntry> {
        let count = match self.array {
            None => None,
            Some(naga::ArraySize::Constant(count)) => Some(count),
            Some(_) => {
                return Err(invalid!(
                    "an automatic layout cannot have an array without a constant size"
                ));
            }
        };
        Ok(wgt::BindGroupLayoutEntry {
            binding: self.binding,
            visibility,
            ty: self.ty.derive(sampled)?,
            count,
        })
    }
}

impl ResourceType {
    fn new(module: &naga::Module, ty: naga::Handle<naga::Type>, space: naga::AddressSpace) -> Self {
        match module.types[ty].inner {
            naga::TypeInner::Image {
                dim,
                arrayed,
                class,
            } => Self::image(dim, arrayed, class),
            naga::TypeInner::Sampler { comparison } => Self::Sampler { comparison },
            naga::TypeInner::AccelerationStructure { .. } => {
                Self::Unsupported("acceleration structures are not supported")
            }
            _ => {
                let ty_ = match space {
                    naga::AddressSpace::Uniform => wgt::BufferBindingType::Uniform,
                    naga::AddressSpace::Storage { access } => wgt::BufferBindingType::Storage {
                        read_only: access == naga::StorageAccess::LOAD,
                    },
                    _ => {
                        return Self::Unsupported(
                            "a variable outside the uniform and storage address spaces cannot be bound",
                        );
                    }
                };
                Self::Buffer {
                    ty: ty_,
                    size: size_of(module, ty),
                }
            }
        }
    }

    fn image(dim: naga::ImageDimension, arrayed: bool, class: naga::ImageClass) -> Self {
        use naga::{ImageClass as Class, ImageDimension as Dim, ScalarKind, StorageAccess};
        use wgt::{
            StorageTextureAccess as Access, TextureSampleType as Sample,
            TextureViewDimension as View,
        };

        let view_dimension = match (dim, arrayed) {
            (Dim::D1, false) => View::D1,
            (Dim::D2, false) => View::D2,
            (Dim::D2, true) => View::D2Array,
            (Dim::D3, false) => View::D3,
            (Dim::Cube, false) => View::Cube,
            (Dim::Cube, true) => View::CubeArray,
            (Dim::D1 | Dim::D3, true) => {
                return Self::Unsupported("1D and 3D textures cannot be arrays");
            }
        };
        match class {
            Class::Sampled { kind, multi } => Self::Texture {
                sample_type: match kind {
                    ScalarKind::Float => Sample::Float { filterable: true },
                    ScalarKind::Sint => Sample::Sint,
                    ScalarKind::Uint => Sample::Uint,
                    ScalarKind::Bool | ScalarKind::AbstractInt | ScalarKind::AbstractFloat => {
                        return Self::Unsupported("the sampled type must be f32, i32 or u32");
                    }
                },
                view_dimension,
                multisampled: multi,
            },
            Class::Depth { multi } => Self::Texture {
                sample_type: Sample::Depth,
                view_dimension,
                multisampled: multi,
            },
            Class::Storage { format, access } => Self::StorageTexture {
                access: if access.contains(StorageAccess::ATOMIC) {
                    Access::Atomic
                } else if access.contains(StorageAccess::LOAD | StorageAccess::STORE) {
                    Access::ReadWrite
                } else if access.contains(StorageAccess::LOAD) {
                    Access::ReadOnly
                } else if access.contains(StorageAccess::STORE) {
                    Access::WriteOnly
                } else {
                    return Self::Unsupported("a storage texture must be readable or writable");
                },
                format: map_storage_format_from_naga(format),
                view_dimension,
            },
            Class::External => Self::Unsupported("external textures are not supported"),
        }
    }

    fn derive(&self, sampled: bool) -> Result<wgt::BindingType> {
        use wgt::TextureSampleType as Sample;

        Ok(match *self {
            Self::Buffer { ty, size } => wgt::BindingType::Buffer {
                ty,
                has_dynamic_offset: false,
                min_binding_size: wgt::BufferSize::new(size),
            },
            Self::Sampler { comparison: true } => {
                wgt::BindingType::Sampler(wgt::SamplerBindingType::Comparison)
            }
            Self::Sampler { comparison: false } => {
                wgt::BindingType::Sampler(wgt::SamplerBindingType::Filtering)
            }
            Self::Texture {
                sample_type,
                view_dimension,
                multisampled,
            } => wgt::BindingType::Texture {
                sample_type: match sample_type {
                    Sample::Float { .. } => Sample::Float {
                        filterable: sampled,
                    },
                    other => other,
                },
                view_dimension,
                multisampled,
            },
            Self::StorageTexture {
                access,
                format,
                view_dimension,
            } => wgt::BindingType::StorageTexture {
                access,
                format,
                view_dimension,
            },
            Self::Unsupported(what) => return Err(invalid!("{what}")),
        })
    }
}

impl fmt::Display for ResourceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Buffer { ty, size } => write!(f, "a buffer {ty:?} of at least {size} bytes"),
            Self::Sampler { comparison: true } => write!(f, "a comparison sampler"),
            Self::Sampler { comparison: false } => write!(f, "a sampler that does not compare"),
            Self::Texture {
                sample_type,
                view_dimension,
                multisampled,
            } => {
                let multi = if *multisampled { " multisampled" } else { "" };
                match sample_type {
                    wgt::TextureSampleType::Float { .. } => {
                        write!(
                            f,
                            "a{multi} {view_dimension:?} texture of sample type Float"
                        )
                    }
                    other => write!(
                        f,
                        "a{multi} {view_dimension:?} texture of sample type {other:?}"
                    ),
                }
            }
            Self::StorageTexture {
                access,
                format,
                view_dimension,
            } => write!(
                f,
                "a {view_dimension:?} storage texture of format {format:?} and access {access:?}"
            ),
            Self::Unsupported(what) => f.write_str(what),
        }
    }
}

#[cfg(test)]
#[path = "interface/tests.rs"]
mod tests;
