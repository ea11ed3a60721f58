//! The rules of bind group layouts and pipeline layouts (WebGPU, section 8 "Resource Binding").
//!
//! Invariants: the entries that come out of [`check_entries`] are sorted by binding number, name no
//! binding twice and are visible only to stages that the device has; [`Counts`] never wraps.

use crate::error::{invalid, Result};
use wgpu_types as wgt;

/// What the rules depend on.
pub(crate) struct Rules<'a> {
    /// The features that were enabled on the device.
    pub features: wgt::Features,
    /// What the device has of that which WebGPU takes for granted.
    pub downlevel: wgt::DownlevelFlags,
    /// The limits of the device.
    pub limits: &'a wgt::Limits,
    /// Whether limits that only `wgpu` knows are left out (`InstanceFlags::STRICT_WEBGPU_COMPLIANCE`).
    pub strict: bool,
    /// What a format can do on the device.
    pub format_flags: &'a dyn Fn(wgt::TextureFormat) -> wgt::TextureFormatFeatureFlags,
}

impl Rules<'_> {
    fn require(&self, features: wgt::Features, what: impl std::fmt::Display) -> Result<()> {
        let missing = features - self.features;
        if missing.is_empty() {
            Ok(())
        } else {
            Err(invalid!(
                "{what} needs the feature {missing:?}, which is not enabled"
            ))
        }
    }

    fn require_downlevel(&self, flags: wgt::DownlevelFlags, what: &str) -> Result<()> {
        let missing = flags - self.downlevel;
        if missing.is_empty() {
            Ok(())
        } else {
            Err(invalid!(
                "{what} needs {missing:?}, which the adapter does not have"
            ))
        }
    }
}

/// The shader stages that a device has. Others may be named in a visibility, as `ShaderStages::all()`
/// does, and count for nothing.
pub(crate) const STAGES: wgt::ShaderStages =
    wgt::ShaderStages::VERTEX_FRAGMENT.union(wgt::ShaderStages::COMPUTE);

const STAGE_LIST: [(wgt::ShaderStages, &str); 3] = [
    (wgt::ShaderStages::VERTEX, "vertex"),
    (wgt::ShaderStages::FRAGMENT, "fragment"),
    (wgt::ShaderStages::COMPUTE, "compute"),
];

/// Checks the entries of a bind group layout; gives them back in the order of their binding numbers, with
/// their counts.
///
/// # Errors
///
/// Validation errors that name the binding and the rule.
pub(crate) fn check_entries(
    entries: &[wgt::BindGroupLayoutEntry],
    rules: &Rules<'_>,
) -> Result<(Vec<wgt::BindGroupLayoutEntry>, Counts)> {
    let mut sorted = entries.to_vec();
    sorted.sort_by_key(|entry| entry.binding);
    if let Some(pair) = sorted
        .windows(2)
        .find(|pair| pair[0].binding == pair[1].binding)
    {
        return Err(invalid!("binding {} is declared twice", pair[0].binding));
    }

    let mut counts = Counts::default();
    let (mut arrays, mut dynamic, mut uniforms) = (None, None, None);
    for entry in &mut sorted {
        check_entry(entry, rules)
            .map_err(|error| error.within(format_args!("binding {}", entry.binding)))?;
        entry.visibility &= STAGES;
        counts.add(entry);
        if entry.count.is_some() {
            arrays = Some(entry.binding);
        } else if let wgt::BindingType::Buffer {
            ty,
            has_dynamic_offset,
            ..
        } = entry.ty
        {
            if has_dynamic_offset {
                dynamic = Some(entry.binding);
            }
            if ty == wgt::BufferBindingType::Uniform {
                uniforms = Some(entry.binding);
            }
        }
    }
    // On Vulkan a layout with an array is updated after it was bound, which these two cannot be.
    if let (Some(array), Some(other)) = (arrays, dynamic) {
        return Err(invalid!(
            "binding {array} is an array and binding {other} has a dynamic offset, which one layout cannot hold"
        ));
    }
    if let (Some(array), Some(other)) = (arrays, uniforms) {
        return Err(invalid!(
            "binding {array} is an array and binding {other} is a uniform buffer, which one layout cannot hold"
        ));
    }
    counts.check(rules)?;
    Ok((sorted, counts))
}

fn check_entry(entry: &wgt::BindGroupLayoutEntry, rules: &Rules<'_>) -> Result<()> {
    use wgt::{BindingType as Type, Features};

    let limit = rules.limits.max_bindings_per_bind_group;
    if entry.binding >= limit {
        return Err(invalid!(
            "the number must be less than max_bindings_per_bind_group {limit}"
        ));
    }
    let unknown = entry.visibility.bits() & !wgt::ShaderStages::all().bits();
    if unknown != 0 {
        return Err(invalid!("the visibility has unknown bits {unknown:#x}"));
    }

    let (writable, array_feature) = match entry.ty {
        Type::Buffer {
            ty,
            has_dynamic_offset,
            ..
        } => {
            if has_dynamic_offset && entry.count.is_some() {
                return Err(invalid!("an array of buffers cannot have a dynamic offset"));
            }
            match ty {
                wgt::BufferBindingType::Uniform => (false, Features::BUFFER_BINDING_ARRAY),
                wgt::BufferBindingType::Storage { read_only } => (
                    !read_only,
                    Features::BUFFER_BINDING_ARRAY | Features::STORAGE_RESOURCE_BINDING_ARRAY,
                ),
            }
        }
        Type::Sampler(_) => (false, Features::TEXTURE_BINDING_ARRAY),
        Type::Texture {
            sample_type,
            view_dimension,
            multisampled,
        } => {
            check_texture(sample_type, view_dimension, multisampled)?;
            if view_dimension == wgt::TextureViewDimension::CubeArray {
                rules.require_downlevel(
                    wgt::DownlevelFlags::CUBE_ARRAY_TEXTURES,
                    "a cube array texture",
                )?;
            }
            (false, Features::TEXTURE_BINDING_ARRAY)
        }
        Type::StorageTexture {
            access,
            format,
            view_dimension,
        } => {
            check_storage_texture(access, format, view_dimension, rules)?;
            (
                access != wgt::StorageTextureAccess::ReadOnly,
                Features::TEXTURE_BINDING_ARRAY | Features::STORAGE_RESOURCE_BINDING_ARRAY,
            )
        }
        Type::AccelerationStructure { .. } => {
            return Err(invalid!("acceleration structures are not supported"));
        }
        Type::ExternalTexture => {
            return Err(invalid!("external textures are not supported"));
        }
    };

    if entry.count.is_some() {
        rules.require(array_feature, "an array of bindings")?;
    }
    if entry.visibility.contains(wgt::ShaderStages::VERTEX) {
        if writable {
            rules.require(
                Features::VERTEX_WRITABLE_STORAGE,
                "writable storage in the vertex stage",
            )?;
        }
        if let Type::Buffer {
            ty: wgt::BufferBindingType::Storage { .. },
            ..
        } = entry.ty
        {
            rules.require_downlevel(
                wgt::DownlevelFlags::VERTEX_STORAGE,
                "a storage buffer in the vertex stage",
            )?;
        }
    }
    if writable && entry.visibility.contains(wgt::ShaderStages::FRAGMENT) {
        rules.require_downlevel(
            wgt::DownlevelFlags::FRAGMENT_WRITABLE_STORAGE,
            "writable storage in the fragment stage",
        )?;
    }
    Ok(())
}

fn check_texture(
    sample_type: wgt::TextureSampleType,
    dimension: wgt::TextureViewDimension,
    multisampled: bool,
) -> Result<()> {
    if !multisampled {
        return Ok(());
    }
    if dimension != wgt::TextureViewDimension::D2 {
        return Err(invalid!(
            "a multisampled texture must have the view dimension D2, not {dimension:?}"
        ));
    }
    if sample_type == (wgt::TextureSampleType::Float { filterable: true }) {
        return Err(invalid!("a multisampled texture cannot be filterable"));
    }
    Ok(())
}

fn check_storage_texture(
    access: wgt::StorageTextureAccess,
    format: wgt::TextureFormat,
    dimension: wgt::TextureViewDimension,
    rules: &Rules<'_>,
) -> Result<()> {
    use wgt::{
        StorageTextureAccess as Access, TextureFormatFeatureFlags as Flags,
        TextureViewDimension as Dimension,
    };

    if matches!(dimension, Dimension::Cube | Dimension::CubeArray) {
        return Err(invalid!(
            "a storage texture cannot have the view dimension {dimension:?}"
        ));
    }
    if access == Access::Atomic {
        rules.require(wgt::Features::TEXTURE_ATOMIC, "atomic access to a texture")?;
    }
    rules.require(
        format.required_features(),
        format_args!("the format {format:?}"),
    )?;
    let needed = match access {
        Access::WriteOnly => Flags::STORAGE_WRITE_ONLY,
        Access::ReadOnly => Flags::STORAGE_READ_ONLY,
        Access::ReadWrite => Flags::STORAGE_READ_WRITE,
        Access::Atomic => Flags::STORAGE_ATOMIC,
    };
    if (rules.format_flags)(format).contains(needed) {
        Ok(())
    } else {
        Err(invalid!(
            "the format {format:?} does not support the storage access {access:?}"
        ))
    }
}

/// How many bindings of each limited kind one stage sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct StageCounts {
    sampled_textures: u32,
    samplers: u32,
    storage_buffers: u32,
    storage_textures: u32,
    uniform_buffers: u32,
    array_elements: u32,
    array_samplers: u32,
}

/// How many bindings of each limited kind a bind group layout has, or several have together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    stages: [StageCounts; STAGE_LIST.len()],
    dynamic_uniform_buffers: u32,
    dynamic_storage_buffers: u32,
}

fn bump(count: &mut u32, by: u32) {
    *count = count.saturating_add(by);
}

impl Counts {
    /// Adds a binding.
    fn add(&mut self, entry: &wgt::BindGroupLayoutEntry) {
        use wgt::{BindingType as Type, BufferBindingType as Buffer};

        if let Type::Buffer {
            ty,
            has_dynamic_offset: true,
            ..
        } = entry.ty
        {
            match ty {
                Buffer::Uniform => bump(&mut self.dynamic_uniform_buffers, 1),
                Buffer::Storage { .. } => bump(&mut self.dynamic_storage_buffers, 1),
            }
        }
        for (counts, (stage, _)) in self.stages.iter_mut().zip(STAGE_LIST) {
            if !entry.visibility.contains(stage) {
                continue;
            }
            if let Some(count) = entry.count {
                bump(&mut counts.array_elements, count.get());
                if let Type::Sampler(_) = entry.ty {
                    bump(&mut counts.array_samplers, count.get());
                }
                continue;
            }
            let count = match entry.ty {
                Type::Buffer {
                    ty: Buffer::Uniform,
                    ..
                } => &mut counts.uniform_buffers,
                Type::Buffer {
                    ty: Buffer::Storage { .. },
                    ..
                } => &mut counts.storage_buffers,
                Type::Sampler(_) => &mut counts.samplers,
                Type::Texture { .. } => &mut counts.sampled_textures,
                Type::StorageTexture { .. } => &mut counts.storage_textures,
                // `check_entry` refuses them.
                Type::AccelerationStructure { .. } | Type::ExternalTexture => continue,
            };
            bump(count, 1);
        }
    }

    /// Adds what another layout has.
    pub fn merge(&mut self, other: &Self) {
        bump(
            &mut self.dynamic_uniform_buffers,
            other.dynamic_uniform_buffers,
        );
        bump(
            &mut self.dynamic_storage_buffers,
            other.dynamic_storage_buffers,
        );
        for (mine, theirs) in self.stages.iter_mut().zip(&other.stages) {
            bump(&mut mine.sampled_textures, theirs.sampled_textures);
            bump(&mut mine.samplers, theirs.samplers);
            bump(&mut mine.storage_buffers, theirs.storage_buffers);
            bump(&mut mine.storage_textures, theirs.storage_textures);
            bump(&mut mine.uniform_buffers, theirs.uniform_buffers);
            bump(&mut mine.array_elements, theirs.array_elements);
            bump(&mut mine.array_samplers, theirs.array_samplers);
        }
    }

    /// Compares with the limits of the device.
    ///
    /// # Errors
    ///
    /// A validation error that names the stage, the count and the limit.
    pub fn check(&self, rules: &Rules<'_>) -> Result<()> {
        let limits = rules.limits;
        for (count, kind, limit, limit_name) in [
            (
                self.dynamic_uniform_buffers,
                "uniform",
                limits.max_dynamic_uniform_buffers_per_pipeline_layout,
                "max_dynamic_uniform_buffers_per_pipeline_layout",
            ),
            (
                self.dynamic_storage_buffers,
                "storage",
                limits.max_dynamic_storage_buffers_per_pipeline_layout,
                "max_dynamic_storage_buffers_per_pipeline_layout",
            ),
        ] {
            if count > limit {
                return Err(invalid!(
                    "{count} {kind} buffers with a dynamic offset are more than {limit_name} {limit}"
                ));
            }
        }
        for (counts, (_, stage)) in self.stages.iter().zip(STAGE_LIST) {
            counts.check(stage, rules)?;
        }
        Ok(())
    }
}

impl StageCounts {
    fn check(&self, stage: &str, rules: &Rules<'_>) -> Result<()> {
        let limits = rules.limits;
        let buffers = self.uniform_buffers.saturating_add(self.storage_buffers);
        let buffer_limit = if rules.strict {
            u32::MAX
        } else {
            limits.max_buffers_and_acceleration_structures_per_shader_stage
        };
        for (count, kind, limit, limit_name) in [
            (
                self.sampled_textures,
                "sampled textures",
                limits.max_sampled_textures_per_shader_stage,
                "max_sampled_textures_per_shader_stage",
            ),
            (
                self.samplers,
                "samplers",
                limits.max_samplers_per_shader_stage,
                "max_samplers_per_shader_stage",
            ),
            (
                self.storage_buffers,
                "storage buffers",
                limits.max_storage_buffers_per_shader_stage,
                "max_storage_buffers_per_shader_stage",
            ),
            (
                self.storage_textures,
                "storage textures",
                limits.max_storage_textures_per_shader_stage,
                "max_storage_textures_per_shader_stage",
            ),
            (
                self.uniform_buffers,
                "uniform buffers",
                limits.max_uniform_buffers_per_shader_stage,
                "max_uniform_buffers_per_shader_stage",
            ),
            (
                self.array_elements,
                "elements of binding arrays",
                limits.max_binding_array_elements_per_shader_stage,
                "max_binding_array_elements_per_shader_stage",
            ),
            (
                self.array_samplers,
                "samplers in binding arrays",
                limits.max_binding_array_sampler_elements_per_shader_stage,
                "max_binding_array_sampler_elements_per_shader_stage",
            ),
            (
                buffers,
                "buffers",
                buffer_limit,
                "max_buffers_and_acceleration_structures_per_shader_stage",
            ),
        ] {
            if count > limit {
                return Err(invalid!(
                    "{count} {kind} in the {stage} stage are more than {limit_name} {limit}"
                ));
            }
        }
        Ok(())
    }
}

/// Checks the immediate data of a pipeline layout. Sizes are in bytes.
///
/// # Errors
///
/// Validation errors that name the rule and the values.
pub(crate) fn check_immediate_size(
    size: u32,
    features: wgt::Features,
    limits: &wgt::Limits,
) -> Result<()> {
    if size == 0 {
        return Ok(());
    }
    if !features.contains(wgt::Features::IMMEDIATES) {
        return Err(invalid!(
            "an immediate size of {size} needs the feature IMMEDIATES, which is not enabled"
        ));
    }
    let limit = limits.max_immediate_size;
    if size > limit {
        return Err(invalid!(
            "the immediate size {size} is greater than max_immediate_size {limit}"
        ));
    }
    if !size.is_multiple_of(wgt::IMMEDIATE_DATA_ALIGNMENT) {
        return Err(invalid!(
            "the immediate size {size} is not a multiple of {}",
            wgt::IMMEDIATE_DATA_ALIGNMENT
        ));
    }
    Ok(())
}

#[cfg(test)]
#[path = "layout/tests.rs"]
mod tests;
