//! The rules of textures (specification, "Validating GPUTextureDescriptor"), and what of a description the
//! HAL needs to know in its own terms. Those of views are in [`view`].

mod view;

use crate::error::{invalid, Result};
use wgpu_hal::{self as hal, FormatAspects};
use wgpu_types::{
    self as wgt, Features, TextureDimension, TextureFormat,
    TextureFormatFeatureFlags as FormatFlags, TextureFormatFeatures, TextureUsages, TextureUses,
};

pub(crate) use view::{
    check_view_binding, hal_view_usage, needs_hal_view, resolve_view, ResolvedView,
};

/// What was asked for when a texture was created. The label is kept apart.
pub(crate) type TextureDesc = wgt::TextureDescriptor<(), Vec<TextureFormat>>;

/// What a device allows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules<'a> {
    pub limits: &'a wgt::Limits,
    pub features: Features,
    pub downlevel: wgt::DownlevelFlags,
    pub backend: wgt::Backend,
}

impl Rules<'_> {
    /// An error unless the features that the format needs are enabled.
    pub fn require_format(&self, format: TextureFormat) -> Result<()> {
        let missing = format.required_features() - self.features;
        if missing.is_empty() {
            Ok(())
        } else {
            Err(invalid!("format {format:?} needs the feature {missing}"))
        }
    }
}

/// Checks the description of a texture.
///
/// `of_format` is what the device can do with the format, which [`Rules::require_format`] has let pass.
pub(crate) fn check_texture(
    desc: &TextureDesc,
    of_format: &TextureFormatFeatures,
    rules: &Rules,
) -> Result<()> {
    check_usage(desc)?;
    check_size(desc, rules)?;
    check_format_dimension(desc, rules)?;
    check_mip_level_count(desc)?;
    check_sample_count(desc, of_format, rules)?;
    if desc.usage.contains(TextureUsages::TRANSIENT_ATTACHMENT) {
        check_transient(desc)?;
    }
    let missing = desc.usage - of_format.allowed_usages;
    if !missing.is_empty() {
        return Err(invalid!(
            "usage {missing:?} is not allowed with format {:?}, which allows {:?}",
            desc.format,
            of_format.allowed_usages
        ));
    }
    check_view_formats(desc, rules)
}

fn check_usage(desc: &TextureDesc) -> Result<()> {
    if desc.usage.is_empty() {
        return Err(invalid!("the usage is empty"));
    }
    let unknown = desc.usage.bits() & !TextureUsages::all().bits();
    if unknown != 0 {
        return Err(invalid!("the usage has unknown bits {unknown:#x}"));
    }
    if desc.dimension == TextureDimension::D1
        && desc.usage.contains(TextureUsages::RENDER_ATTACHMENT)
    {
        return Err(invalid!(
            "a one-dimensional texture cannot have usage RENDER_ATTACHMENT"
        ));
    }
    Ok(())
}

fn check_size(desc: &TextureDesc, rules: &Rules) -> Result<()> {
    let limits = rules.limits;
    let size = &desc.size;
    // What each axis is limited by; nothing where the dimension itself fixes it to one.
    let (planar, z) = match desc.dimension {
        TextureDimension::D1 => (
            [
                Some(("max_texture_dimension_1d", limits.max_texture_dimension_1d)),
                None,
            ],
            None,
        ),
        TextureDimension::D2 => (
            [Some(("max_texture_dimension_2d", limits.max_texture_dimension_2d)); 2],
            Some(("max_texture_array_layers", limits.max_texture_array_layers)),
        ),
        TextureDimension::D3 => (
            [Some(("max_texture_dimension_3d", limits.max_texture_dimension_3d)); 2],
            Some(("max_texture_dimension_3d", limits.max_texture_dimension_3d)),
        ),
    };
    for (axis, value, limit) in [
        ("width", size.width, planar[0]),
        ("height", size.height, planar[1]),
        ("depth_or_array_layers", size.depth_or_array_layers, z),
    ] {
        if value == 0 {
            return Err(invalid!("the {axis} is zero"));
        }
        match limit {
            Some((name, limit)) if value > limit => {
                return Err(invalid!(
                    "the {axis} {value} is greater than {name} {limit}"
                ))
            }
            None if value != 1 => {
                return Err(invalid!(
                    "the {axis} of a one-dimensional texture is {value}, not 1"
                ))
            }
            _ => {}
        }
    }
    let (width_multiple, height_multiple) = desc.format.size_multiple_requirement();
    for (axis, value, multiple) in [
        ("width", size.width, width_multiple),
        ("height", size.height, height_multiple),
    ] {
        if value % multiple != 0 {
            return Err(invalid!(
                "the {axis} {value} is not a multiple of {multiple}, as format {:?} requires",
                desc.format
            ));
        }
    }
    Ok(())
}

fn check_format_dimension(desc: &TextureDesc, rules: &Rules) -> Result<()> {
    let format = desc.format;
    if desc.dimension == TextureDimension::D2 {
        return Ok(());
    }
    if format.is_depth_stencil_format() {
        return Err(invalid!(
            "the depth or stencil format {format:?} needs a two-dimensional texture, not {:?}",
            desc.dimension
        ));
    }
    if !format.is_compressed() {
        return Ok(());
    }
    let sliced = if format.is_bcn() {
        Features::TEXTURE_COMPRESSION_BC_SLICED_3D
    } else if format.is_astc() {
        Features::TEXTURE_COMPRESSION_ASTC_SLICED_3D
    } else {
        Features::empty()
    };
    if desc.dimension == TextureDimension::D1 || sliced.is_empty() {
        return Err(invalid!(
            "the compressed format {format:?} cannot be that of a texture of dimension {:?}",
            desc.dimension
        ));
    }
    if !rules.features.contains(sliced) {
        return Err(invalid!(
            "a three-dimensional texture of format {format:?} needs the feature {sliced}"
        ));
    }
    Ok(())
}

fn check_mip_level_count(desc: &TextureDesc) -> Result<()> {
    let most = desc.size.max_mips(desc.dimension).min(hal::MAX_MIP_LEVELS);
    if desc.mip_level_count == 0 || desc.mip_level_count > most {
        return Err(invalid!(
            "mip_level_count {} is not within 1 to {most}, which is all that size {:?} allows",
            desc.mip_level_count,
            desc.size
        ));
    }
    Ok(())
}

fn check_sample_count(
    desc: &TextureDesc,
    of_format: &TextureFormatFeatures,
    rules: &Rules,
) -> Result<()> {
    let count = desc.sample_count;
    if count == 1 {
        return Ok(());
    }
    if !of_format.flags.sample_count_supported(count) {
        return Err(invalid!(
            "sample_count {count} is not supported with format {:?}, only {:?}",
            desc.format,
            of_format.flags.supported_sample_counts()
        ));
    }
    if desc.dimension != TextureDimension::D2 {
        return Err(invalid!(
            "a texture of {count} samples per texel is two-dimensional, not {:?}",
            desc.dimension
        ));
    }
    for (name, value) in [
        ("mip_level_count", desc.mip_level_count),
        ("depth_or_array_layers", desc.size.depth_or_array_layers),
    ] {
        if value != 1 {
            return Err(invalid!(
                "{name} {value} must be 1 with {count} samples per texel"
            ));
        }
    }
    let storage = desc.usage & (TextureUsages::STORAGE_BINDING | TextureUsages::STORAGE_ATOMIC);
    if !storage.is_empty() {
        return Err(invalid!(
            "usage {storage:?} is not allowed with {count} samples per texel"
        ));
    }
    if !desc.usage.contains(TextureUsages::RENDER_ATTACHMENT) {
        return Err(invalid!(
            "usage RENDER_ATTACHMENT is required with {count} samples per texel (the usage is {:?})",
            desc.usage
        ));
    }
    // The HAL's GL back end has multisampled renderbuffers only.
    let more = desc.usage - ATTACHMENT;
    if rules.backend == wgt::Backend::Gl && !more.is_empty() {
        return Err(invalid!(
            "usage {more:?} is not supported with {count} samples per texel on OpenGL, only {ATTACHMENT:?}"
        ));
    }
    Ok(())
}

/// The usages of what is nothing but an attachment.
const ATTACHMENT: TextureUsages =
    TextureUsages::RENDER_ATTACHMENT.union(TextureUsages::TRANSIENT_ATTACHMENT);

/// What lives in a tile only can be nothing but the attachment of one render pass.
fn check_transient(desc: &TextureDesc) -> Result<()> {
    if desc.usage != ATTACHMENT {
        return Err(invalid!(
            "usage TRANSIENT_ATTACHMENT goes with RENDER_ATTACHMENT and nothing else (the usage is {:?})",
            desc.usage
        ));
    }
    if desc.dimension != TextureDimension::D2 {
        return Err(invalid!(
            "a transient texture is two-dimensional, not {:?}",
            desc.dimension
        ));
    }
    for (name, value) in [
        ("mip_level_count", desc.mip_level_count),
        ("depth_or_array_layers", desc.size.depth_or_array_layers),
    ] {
        if value != 1 {
            return Err(invalid!("{name} {value} of a transient texture must be 1"));
        }
    }
    if !desc.view_formats.is_empty() {
        return Err(invalid!(
            "a transient texture has no view formats, not {:?}",
            desc.view_formats
        ));
    }
    Ok(())
}

fn check_view_formats(desc: &TextureDesc, rules: &Rules) -> Result<()> {
    for &format in &desc.view_formats {
        rules.require_format(format)?;
        if format.remove_srgb_suffix() != desc.format.remove_srgb_suffix() {
            return Err(invalid!(
                "view format {format:?} differs from format {:?} by more than sRGB",
                desc.format
            ));
        }
        if format != desc.format && !rules.downlevel.contains(wgt::DownlevelFlags::VIEW_FORMATS) {
            return Err(invalid!(
                "view format {format:?} is not format {:?}, and this adapter has no views of another \
                 format (it lacks VIEW_FORMATS)",
                desc.format
            ));
        }
    }
    Ok(())
}

/// The HAL's usages for the program's, on a format with the given aspects.
pub(crate) fn hal_usage(
    usage: TextureUsages,
    aspects: FormatAspects,
    of_format: &TextureFormatFeatures,
) -> TextureUses {
    let color = !aspects.intersects(FormatAspects::DEPTH_STENCIL);
    let flags = of_format.flags;
    let storage = TextureUsages::STORAGE_BINDING;
    [
        (TextureUsages::COPY_SRC, true, TextureUses::COPY_SRC),
        (TextureUsages::COPY_DST, true, TextureUses::COPY_DST),
        (TextureUsages::TEXTURE_BINDING, true, TextureUses::RESOURCE),
        (
            storage,
            flags.contains(FormatFlags::STORAGE_READ_ONLY),
            TextureUses::STORAGE_READ_ONLY,
        ),
        (
            storage,
            flags.contains(FormatFlags::STORAGE_WRITE_ONLY),
            TextureUses::STORAGE_WRITE_ONLY,
        ),
        (
            storage,
            flags.contains(FormatFlags::STORAGE_READ_WRITE),
            TextureUses::STORAGE_READ_WRITE,
        ),
        (
            TextureUsages::STORAGE_ATOMIC,
            true,
            TextureUses::STORAGE_ATOMIC,
        ),
        (
            TextureUsages::RENDER_ATTACHMENT,
            color,
            TextureUses::COLOR_TARGET,
        ),
        (
            TextureUsages::RENDER_ATTACHMENT,
            !color,
            TextureUses::DEPTH_STENCIL_READ.union(TextureUses::DEPTH_STENCIL_WRITE),
        ),
        (
            TextureUsages::TRANSIENT_ATTACHMENT,
            true,
            TextureUses::TRANSIENT,
        ),
    ]
    .into_iter()
    .filter(|&(asked, applies, _)| applies && usage.contains(asked))
    .fold(TextureUses::empty(), |uses, (_, _, more)| uses | more)
}

/// How a texture's memory is zeroed before it can show anything (I7): the usage that this takes, which
/// the HAL's texture has in addition to those that the program asked for.
///
/// Colour is zeroed by copies. What copies cannot write is an attachment anyway (transient and
/// multisampled textures) or can always be one (depth and stencil).
pub(crate) fn clear_usage(desc: &TextureDesc, of_format: &TextureFormatFeatures) -> TextureUses {
    if desc.format.is_depth_stencil_format() {
        TextureUses::DEPTH_STENCIL_WRITE
    } else if desc.sample_count > 1
        || desc.usage.contains(TextureUsages::TRANSIENT_ATTACHMENT)
        || !of_format.allowed_usages.contains(TextureUsages::COPY_DST)
            && desc.dimension == TextureDimension::D2
            && of_format
                .allowed_usages
                .contains(TextureUsages::RENDER_ATTACHMENT)
    {
        TextureUses::COLOR_TARGET
    } else {
        TextureUses::COPY_DST
    }
}

/// The bytes that the texels of all levels, layers and samples take, without padding.
pub(crate) fn size_in_bytes(desc: &TextureDesc) -> u64 {
    (0..desc.mip_level_count)
        .filter_map(|level| desc.mip_level_size(level))
        .fold(0_u64, |bytes, size| {
            let blocks = desc.format.block_dimensions();
            let planes = u64::from(size.width.div_ceil(blocks.0))
                .saturating_mul(u64::from(size.height.div_ceil(blocks.1)))
                .saturating_mul(u64::from(size.depth_or_array_layers));
            let level = planes
                .saturating_mul(block_size_in_memory(desc.format))
                .saturating_mul(u64::from(desc.sample_count));
            bytes.saturating_add(level)
        })
}

/// The bytes that a block takes, as far as that can be known: drivers store 24 bits of depth in 32.
fn block_size_in_memory(format: TextureFormat) -> u64 {
    let one_block = wgt::Extent3d {
        width: format.block_dimensions().0,
        height: format.block_dimensions().1,
        depth_or_array_layers: 1,
    };
    format.theoretical_memory_footprint(one_block)
}

#[cfg(test)]
mod tests;
