//! The rules of views of textures (specification, the validation of `createView` and, for views, of
//! `createBindGroup`).

use super::{hal_usage, Rules, TextureDesc};
use crate::{
    error::{invalid, Result},
    resource::SubRange,
};
use wgpu_hal::FormatAspects;
use wgpu_types::{
    self as wgt, Features, TextureDimension, TextureFormat,
    TextureFormatFeatureFlags as FormatFlags, TextureFormatFeatures, TextureUsages, TextureUses,
    TextureViewDimension,
};

/// A checked view: the description with all defaults resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResolvedView {
    pub format: TextureFormat,
    pub dimension: TextureViewDimension,
    pub usage: TextureUsages,
    pub aspect: wgt::TextureAspect,
    pub range: SubRange,
    /// The size of the first level.
    pub extent: wgt::Extent3d,
    /// Whether a render pass could draw to the view.
    pub renderable: bool,
}

/// Checks the description of a view of a texture and resolves its defaults.
///
/// `of_format` says what the device can do with a format.
pub(crate) fn resolve_view<L>(
    texture: &TextureDesc,
    desc: &wgt::TextureViewDescriptor<L>,
    of_format: impl FnOnce(TextureFormat) -> TextureFormatFeatures,
    rules: &Rules,
) -> Result<ResolvedView> {
    let format = resolve_format(texture, desc)?;
    rules.require_format(format)?;
    let usage = resolve_usage(texture, desc, format, &of_format(format))?;
    let dimension = resolve_dimension(texture, desc)?;
    let range = resolve_range(texture, desc, dimension)?;
    // The range is checked, so the level exists.
    let extent = texture
        .size
        .mip_level_size(range.mips.start, texture.dimension);
    let aspects = FormatAspects::new(texture.format, desc.aspect);
    let renderable = usage.contains(TextureUsages::RENDER_ATTACHMENT)
        && matches!(
            dimension,
            TextureViewDimension::D2 | TextureViewDimension::D2Array | TextureViewDimension::D3
        )
        && range.mips.len() == 1
        && range.layers.len() == 1
        && aspects == FormatAspects::from(texture.format);
    Ok(ResolvedView {
        format,
        dimension,
        usage,
        aspect: desc.aspect,
        range,
        extent,
        renderable,
    })
}

fn resolve_format<L>(
    texture: &TextureDesc,
    desc: &wgt::TextureViewDescriptor<L>,
) -> Result<TextureFormat> {
    let Some(of_aspect) = texture.format.aspect_specific_format(desc.aspect) else {
        return Err(invalid!(
            "format {:?} of the texture has no aspect {:?}",
            texture.format,
            desc.aspect
        ));
    };
    let format = desc.format.unwrap_or(of_aspect);
    let whole = desc.aspect == wgt::TextureAspect::All;
    if format != of_aspect && !(whole && texture.view_formats.contains(&format)) {
        return Err(invalid!(
            "format {format:?} is neither that of aspect {:?} of the texture, {of_aspect:?}, nor one of \
             its view formats {:?}",
            desc.aspect,
            texture.view_formats
        ));
    }
    Ok(format)
}

fn resolve_usage<L>(
    texture: &TextureDesc,
    desc: &wgt::TextureViewDescriptor<L>,
    format: TextureFormat,
    of_format: &TextureFormatFeatures,
) -> Result<TextureUsages> {
    let usage = desc
        .usage
        .filter(|usage| !usage.is_empty())
        .unwrap_or(texture.usage);
    if !texture.usage.contains(usage) {
        return Err(invalid!(
            "usage {usage:?} is more than usage {:?} of the texture",
            texture.usage
        ));
    }
    if texture.usage.contains(TextureUsages::TRANSIENT_ATTACHMENT) && usage != texture.usage {
        return Err(invalid!(
            "usage {usage:?} is less than usage {:?} of the texture, which is transient",
            texture.usage
        ));
    }
    let of_views = TextureUsages::RENDER_ATTACHMENT
        | TextureUsages::STORAGE_BINDING
        | TextureUsages::STORAGE_ATOMIC;
    let missing = (usage & of_views) - of_format.allowed_usages;
    if !missing.is_empty() {
        return Err(invalid!(
            "usage {missing:?} is not allowed with format {format:?}; leave it out of the view's usage"
        ));
    }
    Ok(usage)
}

fn resolve_dimension<L>(
    texture: &TextureDesc,
    desc: &wgt::TextureViewDescriptor<L>,
) -> Result<TextureViewDimension> {
    let dimension = desc.dimension.unwrap_or(match texture.dimension {
        TextureDimension::D1 => TextureViewDimension::D1,
        TextureDimension::D2 if texture.size.depth_or_array_layers == 1 => TextureViewDimension::D2,
        TextureDimension::D2 => TextureViewDimension::D2Array,
        TextureDimension::D3 => TextureViewDimension::D3,
    });
    if dimension.compatible_texture_dimension() != texture.dimension {
        return Err(invalid!(
            "dimension {dimension:?} does not go with dimension {:?} of the texture",
            texture.dimension
        ));
    }
    if texture.sample_count > 1 && dimension != TextureViewDimension::D2 {
        return Err(invalid!(
            "dimension {dimension:?} does not go with the {} samples per texel of the texture, only D2 \
             does",
            texture.sample_count
        ));
    }
    let cube = matches!(
        dimension,
        TextureViewDimension::Cube | TextureViewDimension::CubeArray
    );
    if cube && texture.size.width != texture.size.height {
        return Err(invalid!(
            "dimension {dimension:?} needs square layers, and those of the texture are {}x{}",
            texture.size.width,
            texture.size.height
        ));
    }
    Ok(dimension)
}

fn resolve_range<L>(
    texture: &TextureDesc,
    desc: &wgt::TextureViewDescriptor<L>,
    dimension: TextureViewDimension,
) -> Result<SubRange> {
    let layer_count = texture.array_layer_count();
    let layers = desc.array_layer_count.unwrap_or(match dimension {
        TextureViewDimension::D1 | TextureViewDimension::D2 | TextureViewDimension::D3 => 1,
        TextureViewDimension::Cube => 6,
        TextureViewDimension::D2Array | TextureViewDimension::CubeArray => {
            layer_count.saturating_sub(desc.base_array_layer)
        }
    });
    let mips = desc
        .mip_level_count
        .unwrap_or(texture.mip_level_count.saturating_sub(desc.base_mip_level));
    let fits = match dimension {
        TextureViewDimension::D1 | TextureViewDimension::D2 | TextureViewDimension::D3 => {
            layers == 1
        }
        TextureViewDimension::Cube => layers == 6,
        TextureViewDimension::CubeArray => layers.is_multiple_of(6),
        TextureViewDimension::D2Array => true,
    };
    if !fits {
        return Err(invalid!(
            "array_layer_count {layers} does not go with dimension {dimension:?}"
        ));
    }
    Ok(SubRange {
        mips: subrange(
            "mip levels",
            desc.base_mip_level,
            mips,
            texture.mip_level_count,
        )?,
        layers: subrange("array layers", desc.base_array_layer, layers, layer_count)?,
    })
}

fn subrange(what: &str, start: u32, count: u32, total: u32) -> Result<std::ops::Range<u32>> {
    if count == 0 {
        return Err(invalid!(
            "the view has no {what}: {count} from {start} of the {total} of the texture"
        ));
    }
    match start.checked_add(count) {
        Some(end) if end <= total => Ok(start..end),
        _ => Err(invalid!(
            "{count} {what} from {start} are more than the {total} of the texture"
        )),
    }
}

/// Whether a view of this usage can be used for anything that takes a HAL view. Copies name the texture,
/// so a view of a texture that is only copied is never used, and Vulkan does not allow to make one.
pub(crate) fn needs_hal_view(usage: TextureUsages) -> bool {
    !(TextureUsages::COPY_SRC | TextureUsages::COPY_DST).contains(usage)
}

/// The usages of a view's HAL object: those of its own format that its dimension and number of levels
/// leave.
pub(crate) fn hal_view_usage(
    view: &ResolvedView,
    of_format: &TextureFormatFeatures,
) -> TextureUses {
    let storage = TextureUses::STORAGE_READ_ONLY
        | TextureUses::STORAGE_WRITE_ONLY
        | TextureUses::STORAGE_READ_WRITE
        | TextureUses::STORAGE_ATOMIC;
    let of_dimension = match view.dimension {
        TextureViewDimension::Cube | TextureViewDimension::CubeArray => TextureUses::RESOURCE,
        TextureViewDimension::D3 => TextureUses::RESOURCE | storage,
        TextureViewDimension::D1 | TextureViewDimension::D2 | TextureViewDimension::D2Array => {
            TextureUses::all()
        }
    };
    let of_levels = if view.range.mips.len() == 1 {
        TextureUses::all()
    } else {
        TextureUses::RESOURCE
    };
    let copies = TextureUses::COPY_SRC | TextureUses::COPY_DST;
    (hal_usage(view.usage, view.format.into(), of_format) & of_dimension & of_levels) - copies
}

/// Checks a view against a binding of a layout, and returns what the binding uses it as (specification,
/// `createBindGroup`).
pub(crate) fn check_view_binding(
    view: &ResolvedView,
    samples: u32,
    of_format: &TextureFormatFeatures,
    features: Features,
    ty: &wgt::BindingType,
) -> Result<TextureUses> {
    let (usage, view_dimension, uses) = match *ty {
        wgt::BindingType::Texture {
            sample_type,
            view_dimension,
            multisampled,
        } => {
            check_sampling(view, of_format, features, sample_type)?;
            if multisampled != (samples > 1) {
                return Err(invalid!(
                    "the layout is {}multisampled, and the texture has {samples} samples per texel",
                    if multisampled { "" } else { "not " }
                ));
            }
            let usage = TextureUsages::TEXTURE_BINDING;
            (usage, view_dimension, TextureUses::RESOURCE)
        }
        wgt::BindingType::StorageTexture {
            access,
            format,
            view_dimension,
        } => {
            if view.format != format {
                return Err(invalid!(
                    "the layout has storage format {format:?}, and the view has {:?}",
                    view.format
                ));
            }
            if view.range.mips.len() != 1 {
                return Err(invalid!(
                    "a storage view has one mip level, and this one has {}",
                    view.range.mips.len()
                ));
            }
            let (usage, uses) = match access {
                wgt::StorageTextureAccess::ReadOnly => (
                    TextureUsages::STORAGE_BINDING,
                    TextureUses::STORAGE_READ_ONLY,
                ),
                wgt::StorageTextureAccess::WriteOnly => (
                    TextureUsages::STORAGE_BINDING,
                    TextureUses::STORAGE_WRITE_ONLY,
                ),
                wgt::StorageTextureAccess::ReadWrite => (
                    TextureUsages::STORAGE_BINDING,
                    TextureUses::STORAGE_READ_WRITE,
                ),
                wgt::StorageTextureAccess::Atomic => {
                    (TextureUsages::STORAGE_ATOMIC, TextureUses::STORAGE_ATOMIC)
                }
            };
            (usage, view_dimension, uses)
        }
        _ => {
            return Err(invalid!(
                "a texture view is given, but the layout has {ty:?}"
            ))
        }
    };
    if !view.usage.contains(usage) {
        return Err(invalid!(
            "the usage {usage:?} is needed, but the view has {:?}",
            view.usage
        ));
    }
    if view.dimension != view_dimension {
        return Err(invalid!(
            "the layout has dimension {view_dimension:?}, and the view has {:?}",
            view.dimension
        ));
    }
    Ok(uses)
}

/// Whether a shader that samples as `wanted` may be given the view.
fn check_sampling(
    view: &ResolvedView,
    of_format: &TextureFormatFeatures,
    features: Features,
    wanted: wgt::TextureSampleType,
) -> Result<()> {
    use wgt::TextureSampleType as Type;
    let Some(given) = view.format.sample_type(Some(view.aspect), Some(features)) else {
        return Err(invalid!(
            "a view of format {:?} that is bound must have one aspect, and this one has {:?}",
            view.format,
            view.aspect
        ));
    };
    let fits = match (wanted, given) {
        (Type::Float { filterable: false }, Type::Float { .. } | Type::Depth) => true,
        (Type::Float { filterable: true }, Type::Float { filterable }) => {
            filterable || of_format.flags.contains(FormatFlags::FILTERABLE)
        }
        (wanted, given) => wanted == given,
    };
    if !fits {
        return Err(invalid!(
            "the layout has sample type {wanted:?}, and aspect {:?} of format {:?} has {given:?}",
            view.aspect,
            view.format
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
