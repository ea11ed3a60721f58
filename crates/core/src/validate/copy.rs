//! The rules of copies between buffers, textures and the program's bytes (specification: "Validating
//! texture buffer copy", "Validating texture copy range", "Validating linear texture data", and the
//! validation of `copyTextureToTexture` and `writeTexture`).
//!
//! A checked copy comes back as pieces that the queue only has to iterate over: a [`TexturePart`] for
//! each end that is a texture, a [`LinearPart`] for an end that is not. The HAL copies one array layer at
//! a time; the slices of a three-dimensional texture go together.
//!
//! All arithmetic on what the program passed is checked, or done in 64 bits where it cannot overflow.

use super::texture::TextureDesc;
use crate::{
    error::{invalid, Named, Result},
    resource::SubRange,
};
use std::fmt;
use wgpu_hal::{self as hal, FormatAspects};
use wgpu_types as wgt;

/// Which end of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Source,
    Destination,
}

impl End {
    fn usage(self) -> wgt::TextureUsages {
        match self {
            Self::Source => wgt::TextureUsages::COPY_SRC,
            Self::Destination => wgt::TextureUsages::COPY_DST,
        }
    }
}

/// An end of a copy that is a texture, as the program named it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextureEnd<'a> {
    pub end: End,
    pub label: &'a str,
    pub desc: &'a TextureDesc,
    pub mip_level: u32,
    pub origin: wgt::Origin3d,
    pub aspect: wgt::TextureAspect,
}

impl fmt::Display for TextureEnd<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = Named {
            kind: "Texture",
            label: self.label,
        };
        match self.end {
            End::Source => write!(f, "source {named}"),
            End::Destination => write!(f, "destination {named}"),
        }
    }
}

/// A checked end of a copy that is a texture.
#[derive(Clone, Debug)]
pub(crate) struct TexturePart {
    /// The subresources that are read or written.
    pub range: SubRange,
    /// Where the first layer's part begins. The aspects are all those that are copied.
    pub base: hal::TextureCopyBase,
    /// The size of each layer's part.
    pub extent: hal::CopyExtent,
    /// Whether the copy covers every aspect and every texel of the subresources, so that a write leaves
    /// nothing of what they held before.
    pub whole: bool,
}

impl TexturePart {
    /// Whether there is nothing to copy. Such a copy is checked like any other and then skipped.
    pub fn is_empty(&self) -> bool {
        let hal::CopyExtent {
            width,
            height,
            depth,
        } = self.extent;
        width == 0 || height == 0 || depth == 0 || self.range.layers.is_empty()
    }

    /// How many layers are copied.
    pub fn layer_count(&self) -> u32 {
        self.range.layers.end - self.range.layers.start
    }

    fn layer(&self, index: u32) -> hal::TextureCopyBase {
        hal::TextureCopyBase {
            array_layer: self.base.array_layer + index,
            ..self.base.clone()
        }
    }

    /// The HAL's regions of a copy between this and `linear`.
    pub fn linear_regions<'a>(
        &'a self,
        linear: &'a LinearPart,
    ) -> impl Iterator<Item = hal::BufferTextureCopy> + 'a {
        (0..self.layer_count()).map(|index| hal::BufferTextureCopy {
            buffer_layout: wgt::TexelCopyBufferLayout {
                offset: linear.layout.offset + u64::from(index) * linear.image_stride,
                ..linear.layout
            },
            texture_base: self.layer(index),
            size: self.extent,
        })
    }

    /// The HAL's regions of a copy from this to `destination`: each aspect of each layer.
    pub fn texture_regions<'a>(
        &'a self,
        destination: &'a Self,
    ) -> impl Iterator<Item = hal::TextureCopy> + 'a {
        (0..self.layer_count()).flat_map(move |index| {
            let mut region = hal::TextureCopy {
                src_base: self.layer(index),
                dst_base: destination.layer(index),
                size: self.extent,
            };
            self.base.aspect.iter().map(move |aspect| {
                region.src_base.aspect = aspect;
                region.dst_base.aspect = aspect;
                region.clone()
            })
        })
    }
}

/// A checked end of a copy that is a buffer or the program's bytes.
#[derive(Clone, Debug)]
pub(crate) struct LinearPart {
    /// As the program gave it. Strides that it left out are not needed.
    pub layout: wgt::TexelCopyBufferLayout,
    /// The bytes from the offset to the end of what the copy touches.
    pub bytes: u64,
    /// The bytes that one row of blocks takes.
    pub row_bytes: u64,
    /// From one row of blocks to the next, in bytes.
    pub row_stride: u64,
    /// The rows of blocks in each layer or slice.
    pub rows: u64,
    /// From one layer or slice to the next, in bytes.
    pub image_stride: u64,
    /// Whether there are no gaps between the bytes that the copy touches.
    pub tight: bool,
}

/// Checks a copy between a texture and a buffer of `available` bytes.
///
/// Usage and state of the buffer are the caller's to check.
pub(crate) fn buffer_copy(
    texture: &TextureEnd,
    layout: &wgt::TexelCopyBufferLayout,
    buffer: &dyn fmt::Display,
    available: u64,
    size: &wgt::Extent3d,
    downlevel: wgt::DownlevelFlags,
) -> Result<(TexturePart, LinearPart)> {
    linear_copy(texture, layout, buffer, available, size, downlevel, true)
}

/// Checks a copy of `available` bytes of the program's to a texture.
pub(crate) fn write(
    texture: &TextureEnd,
    layout: &wgt::TexelCopyBufferLayout,
    available: u64,
    size: &wgt::Extent3d,
    downlevel: wgt::DownlevelFlags,
) -> Result<(TexturePart, LinearPart)> {
    linear_copy(
        texture,
        layout,
        &"the data",
        available,
        size,
        downlevel,
        false,
    )
}

fn linear_copy(
    texture: &TextureEnd,
    layout: &wgt::TexelCopyBufferLayout,
    linear: &dyn fmt::Display,
    available: u64,
    size: &wgt::Extent3d,
    downlevel: wgt::DownlevelFlags,
    aligned: bool,
) -> Result<(TexturePart, LinearPart)> {
    let desc = texture.desc;
    let format = desc.format;
    check_usage(texture)?;
    let level = check_subresource(texture, size)?;
    if desc.sample_count != 1 {
        return Err(invalid!(
            "{texture} has {} samples per texel; only a texture of one can be copied to or from {linear}",
            desc.sample_count
        ));
    }
    let block_bytes = check_copyable(texture)?;
    if format.is_depth_stencil_format()
        && !downlevel.contains(wgt::DownlevelFlags::DEPTH_TEXTURE_AND_BUFFER_COPIES)
    {
        return Err(invalid!(
            "{texture} has the depth or stencil format {format:?}, which this adapter cannot copy to or \
             from {linear} (it lacks DEPTH_TEXTURE_AND_BUFFER_COPIES)"
        ));
    }
    let part = texture_part(texture, level, size)?;
    if aligned {
        let alignment = if format.is_depth_stencil_format() {
            4
        } else {
            block_bytes
        };
        if !layout.offset.is_multiple_of(u64::from(alignment)) {
            return Err(invalid!(
                "the offset {} in {linear} is not a multiple of {alignment}, as format {format:?} of \
                 {texture} requires",
                layout.offset
            ));
        }
        if let Some(stride) = layout.bytes_per_row {
            if stride % wgt::COPY_BYTES_PER_ROW_ALIGNMENT != 0 {
                return Err(invalid!(
                    "bytes_per_row {stride} of {linear} is not a multiple of {}",
                    wgt::COPY_BYTES_PER_ROW_ALIGNMENT
                ));
            }
        }
    }
    let linear = linear_part(layout, format, block_bytes, linear, available, size)?;
    Ok((part, linear))
}

/// Checks a copy from one texture to another. `same` says whether both ends are one texture.
pub(crate) fn texture_copy(
    source: &TextureEnd,
    destination: &TextureEnd,
    same: bool,
    size: &wgt::Extent3d,
) -> Result<(TexturePart, TexturePart)> {
    debug_assert_eq!(
        (source.end, destination.end),
        (End::Source, End::Destination)
    );
    check_usage(source)?;
    check_usage(destination)?;
    let from_level = check_subresource(source, size)?;
    let to_level = check_subresource(destination, size)?;
    let formats = (source.desc.format, destination.desc.format);
    if formats.0.remove_srgb_suffix() != formats.1.remove_srgb_suffix() {
        return Err(invalid!(
            "the formats {:?} of {source} and {:?} of {destination} differ by more than sRGB",
            formats.0,
            formats.1
        ));
    }
    let samples = (source.desc.sample_count, destination.desc.sample_count);
    if samples.0 != samples.1 {
        return Err(invalid!(
            "the sample counts {} of {source} and {} of {destination} differ",
            samples.0,
            samples.1
        ));
    }
    for end in [source, destination] {
        let format = end.desc.format;
        if FormatAspects::new(format, end.aspect) != FormatAspects::from(format) {
            return Err(invalid!(
                "aspect {:?} of {end} is not all of format {format:?}; a copy between textures takes all \
                 aspects",
                end.aspect
            ));
        }
    }
    let from = texture_part(source, from_level, size)?;
    let to = texture_part(destination, to_level, size)?;
    // A subresource of a three-dimensional texture is a whole level, whatever slices are copied.
    let overlap = from.range.layers.start < to.range.layers.end
        && to.range.layers.start < from.range.layers.end
        && !from.range.layers.is_empty();
    if same && source.mip_level == destination.mip_level && overlap {
        return Err(invalid!(
            "{source} is the destination too, and layers {:?} and {:?} of mip level {} overlap",
            from.range.layers,
            to.range.layers,
            source.mip_level
        ));
    }
    Ok((from, to))
}

/// The texture may be this end of a copy.
fn check_usage(end: &TextureEnd) -> Result<()> {
    let needed = end.end.usage();
    if !end.desc.usage.contains(needed) {
        return Err(invalid!(
            "{end} was not created with usage {needed:?} (its usage is {:?})",
            end.desc.usage
        ));
    }
    Ok(())
}

/// "Validating GPUTexelCopyTextureInfo": the level exists, the origin is on a block, and formats and
/// sample counts that allow no partial copy get none. Returns the size of the level.
fn check_subresource(end: &TextureEnd, size: &wgt::Extent3d) -> Result<wgt::Extent3d> {
    let desc = end.desc;
    let Some(level) = desc.mip_level_size(end.mip_level) else {
        return Err(invalid!(
            "mip level {} does not exist in {end}, which has {}",
            end.mip_level,
            desc.mip_level_count
        ));
    };
    if FormatAspects::new(desc.format, end.aspect).is_empty() {
        return Err(invalid!(
            "format {:?} of {end} has no aspect {:?}",
            desc.format,
            end.aspect
        ));
    }
    let (block_width, block_height) = desc.format.block_dimensions();
    for (axis, origin, block) in [
        ("x", end.origin.x, block_width),
        ("y", end.origin.y, block_height),
    ] {
        if origin % block != 0 {
            return Err(invalid!(
                "origin {axis} {origin} in {end} is not a multiple of {block}, the block size of format \
                 {:?}",
                desc.format
            ));
        }
    }
    if desc.format.is_depth_stencil_format() || desc.sample_count > 1 {
        let whole = (level.width, level.height);
        if (end.origin.x, end.origin.y) != (0, 0) || (size.width, size.height) != whole {
            return Err(invalid!(
                "{end} has format {:?} and {} samples per texel, so only all {}x{} texels of mip level \
                 {} can be copied, not {}x{} from ({}, {})",
                desc.format,
                desc.sample_count,
                whole.0,
                whole.1,
                end.mip_level,
                size.width,
                size.height,
                end.origin.x,
                end.origin.y
            ));
        }
    }
    Ok(level)
}

/// The aspect is one, and may be copied in this direction to or from something linear (specification,
/// table "Depth-stencil formats"). Returns the bytes of one block.
fn check_copyable(end: &TextureEnd) -> Result<u32> {
    use wgt::TextureFormat as Format;
    let format = end.desc.format;
    let aspects = FormatAspects::new(format, end.aspect);
    if !aspects.is_one() {
        return Err(invalid!(
            "aspect {:?} of format {format:?} of {end} is more than one; such a copy takes one",
            end.aspect
        ));
    }
    let depth = aspects == FormatAspects::DEPTH;
    let copyable = match (format, end.end) {
        (Format::Depth24Plus | Format::Depth24PlusStencil8, _) => !depth,
        (Format::Depth32Float | Format::Depth32FloatStencil8, End::Destination) => !depth,
        _ => true,
    };
    match format.block_copy_size(Some(aspects.map())) {
        Some(bytes) if copyable => Ok(bytes),
        _ => Err(invalid!(
            "aspect {:?} of format {format:?} cannot be the {} of such a copy, as {end} is",
            end.aspect,
            match end.end {
                End::Source => "source",
                End::Destination => "destination",
            }
        )),
    }
}

/// "Validating texture copy range": the copy lies within the level, which is of size `level`, and consists
/// of whole blocks.
fn texture_part(
    end: &TextureEnd,
    level: wgt::Extent3d,
    size: &wgt::Extent3d,
) -> Result<TexturePart> {
    let desc = end.desc;
    let format = desc.format;
    let level = level.physical_size(format);
    for (axis, origin, count, limit) in [
        ("x", end.origin.x, size.width, level.width),
        ("y", end.origin.y, size.height, level.height),
        (
            "z",
            end.origin.z,
            size.depth_or_array_layers,
            level.depth_or_array_layers,
        ),
    ] {
        if u64::from(origin) + u64::from(count) > u64::from(limit) {
            return Err(invalid!(
                "{axis} range {origin}..{} leaves mip level {} of {end}, which ends at {limit}",
                u64::from(origin) + u64::from(count),
                end.mip_level
            ));
        }
    }
    let (block_width, block_height) = format.block_dimensions();
    for (axis, count, block) in [
        ("width", size.width, block_width),
        ("height", size.height, block_height),
    ] {
        if count % block != 0 {
            return Err(invalid!(
                "copy {axis} {count} is not a multiple of {block}, the block size of format {format:?} of \
                 {end}"
            ));
        }
    }
    // On a two-dimensional texture z counts layers, otherwise slices of the only layer.
    let layered = desc.dimension == wgt::TextureDimension::D2;
    let (layers, z, depth) = if layered {
        let first = end.origin.z;
        (first..first + size.depth_or_array_layers, 0, 1)
    } else {
        (0..1, end.origin.z, size.depth_or_array_layers)
    };
    let aspect = FormatAspects::new(format, end.aspect);
    Ok(TexturePart {
        base: hal::TextureCopyBase {
            mip_level: end.mip_level,
            array_layer: layers.start,
            origin: wgt::Origin3d {
                x: end.origin.x,
                y: end.origin.y,
                z,
            },
            aspect,
        },
        extent: hal::CopyExtent {
            width: size.width,
            height: size.height,
            depth,
        },
        whole: aspect == FormatAspects::from(format)
            && (size.width, size.height) == (level.width, level.height)
            && (layered || depth == level.depth_or_array_layers),
        range: SubRange {
            mips: end.mip_level..end.mip_level + 1,
            layers,
        },
    })
}

/// "Validating linear texture data": the strides are given where they are needed and are large enough,
/// and the copy lies within the bytes there are. The size has passed [`texture_part`].
fn linear_part(
    layout: &wgt::TexelCopyBufferLayout,
    format: wgt::TextureFormat,
    block_bytes: u32,
    linear: &dyn fmt::Display,
    available: u64,
    size: &wgt::Extent3d,
) -> Result<LinearPart> {
    let (block_width, block_height) = format.block_dimensions();
    let rows = u64::from(size.height / block_height);
    let images = u64::from(size.depth_or_array_layers);
    let row_bytes = u64::from(size.width / block_width) * u64::from(block_bytes);

    let row_stride = match layout.bytes_per_row.map(u64::from) {
        Some(stride) if stride < row_bytes => {
            return Err(invalid!(
            "bytes_per_row {stride} of {linear} is less than the {row_bytes} bytes of a row of {} \
                 texels of format {format:?}",
            size.width
        ))
        }
        Some(stride) => stride,
        None if rows > 1 || images > 1 => {
            return Err(invalid!(
            "bytes_per_row of {linear} is missing; a copy of {rows} rows of blocks and {images} \
                 images needs it"
        ))
        }
        None => row_bytes,
    };
    let image_rows = match layout.rows_per_image.map(u64::from) {
        Some(image_rows) if image_rows < rows => {
            return Err(invalid!(
                "rows_per_image {image_rows} of {linear} is less than the {rows} rows of blocks that are \
                 copied"
            ))
        }
        Some(image_rows) => image_rows,
        None if images > 1 => {
            return Err(invalid!(
                "rows_per_image of {linear} is missing; a copy of {images} images needs it"
            ))
        }
        None => rows,
    };
    // Nothing here overflows unless it is saturated or checked: the size has passed `texture_part`, so it
    // is below 2^31, and strides that the program gave are below 2^32. A saturated stride is that of a
    // single image, where it is not used.
    let image_stride = row_stride.saturating_mul(image_rows);
    let last_image = match rows {
        0 => 0,
        _ => (rows - 1) * row_stride + row_bytes,
    };
    let bytes = match images {
        0 => Some(0),
        _ => (images - 1)
            .checked_mul(image_stride)
            .and_then(|bytes| bytes.checked_add(last_image)),
    };
    let end = bytes.and_then(|bytes| layout.offset.checked_add(bytes));
    match (bytes, end) {
        (Some(bytes), Some(end)) if end <= available => Ok(LinearPart {
            layout: *layout,
            bytes,
            row_bytes,
            row_stride,
            rows,
            image_stride,
            tight: (rows <= 1 || row_stride == row_bytes)
                && (images <= 1 || image_stride == last_image),
        }),
        _ => Err(invalid!(
            "the copy needs {} bytes from offset {} of {linear}, which has {available}",
            bytes.map_or_else(|| "more than 2^64".into(), |bytes| bytes.to_string()),
            layout.offset
        )),
    }
}

#[cfg(test)]
mod tests;
