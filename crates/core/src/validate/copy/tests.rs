//! Each rule of copies with values on both sides of its bound.

use super::*;
use wgt::{TextureAspect as Aspect, TextureDimension as Dimension, TextureFormat as Format};

const ALL: wgt::DownlevelFlags = wgt::DownlevelFlags::all();

fn size(width: u32, height: u32, depth_or_array_layers: u32) -> wgt::Extent3d {
    wgt::Extent3d {
        width,
        height,
        depth_or_array_layers,
    }
}

fn at(x: u32, y: u32, z: u32) -> wgt::Origin3d {
    wgt::Origin3d { x, y, z }
}

fn texture(format: Format) -> TextureDesc {
    wgt::TextureDescriptor {
        label: (),
        size: size(16, 16, 4),
        mip_level_count: 3,
        sample_count: 1,
        dimension: Dimension::D2,
        format,
        usage: wgt::TextureUsages::COPY_SRC | wgt::TextureUsages::COPY_DST,
        view_formats: Vec::new(),
    }
}

fn end(desc: &TextureDesc, end: End) -> TextureEnd<'_> {
    TextureEnd {
        end,
        label: "atlas",
        desc,
        mip_level: 0,
        origin: at(0, 0, 0),
        aspect: Aspect::All,
    }
}

fn layout(
    offset: u64,
    bytes_per_row: Option<u32>,
    rows_per_image: Option<u32>,
) -> wgt::TexelCopyBufferLayout {
    wgt::TexelCopyBufferLayout {
        offset,
        bytes_per_row,
        rows_per_image,
    }
}

/// A copy between a buffer that is large enough and an end.
fn copy(
    end: &TextureEnd,
    layout: wgt::TexelCopyBufferLayout,
    size: wgt::Extent3d,
) -> Result<(TexturePart, LinearPart)> {
    buffer_copy(end, &layout, &"Buffer \"bytes\"", 1 << 20, &size, ALL)
}

#[track_caller]
fn fails<T>(result: Result<T>, part_of_message: &str) {
    match result {
        Ok(_) => panic!("no error, expected: {part_of_message}"),
        Err(error) => {
            let message = error.to_string();
            assert!(message.contains(part_of_message), "{message}");
        }
    }
}

#[test]
fn a_copy_of_layers_has_a_region_for_each() {
    let desc = texture(Format::Rgba8Unorm);
    let to = TextureEnd {
        mip_level: 1,
        origin: at(2, 3, 1),
        ..end(&desc, End::Destination)
    };
    let (part, linear) = copy(&to, layout(256, Some(512), Some(10)), size(4, 5, 3)).unwrap();
    assert_eq!(
        part.range,
        SubRange {
            mips: 1..2,
            layers: 1..4
        }
    );
    assert!(!part.whole && !part.is_empty());
    let regions: Vec<_> = part.linear_regions(&linear).collect();
    assert_eq!(regions.len(), 3);
    for (index, region) in regions.iter().enumerate() {
        let layer = index as u32 + 1;
        assert_eq!(region.texture_base.array_layer, layer);
        assert_eq!(region.texture_base.mip_level, 1);
        assert_eq!(region.texture_base.origin, at(2, 3, 0));
        assert_eq!(region.texture_base.aspect, FormatAspects::COLOR);
        assert_eq!(
            region.buffer_layout.offset,
            256 + 512 * 10 * u64::from(layer - 1)
        );
        assert_eq!(region.buffer_layout.bytes_per_row, Some(512));
        let hal::CopyExtent {
            width,
            height,
            depth,
        } = region.size;
        assert_eq!((width, height, depth), (4, 5, 1));
    }
    // Two full images, four rows of the last, and the texels of its last row.
    assert_eq!(linear.bytes, 2 * 5120 + 4 * 512 + 16);
}

#[test]
fn slices_go_together() {
    let desc = TextureDesc {
        dimension: Dimension::D3,
        ..texture(Format::Rgba8Unorm)
    };
    let to = TextureEnd {
        origin: at(0, 0, 1),
        ..end(&desc, End::Destination)
    };
    let (part, linear) = copy(&to, layout(0, Some(256), Some(16)), size(16, 16, 3)).unwrap();
    assert_eq!(part.range, SubRange::one(0, 0));
    assert!(!part.whole, "one slice is left");
    let regions: Vec<_> = part.linear_regions(&linear).collect();
    assert_eq!(regions.len(), 1);
    assert_eq!(regions[0].texture_base.origin, at(0, 0, 1));
    assert_eq!(regions[0].size.depth, 3);
    let all = end(&desc, End::Destination);
    let (part, _) = copy(&all, layout(0, Some(256), Some(16)), size(16, 16, 4)).unwrap();
    assert!(part.whole);
}

#[test]
fn a_copy_is_whole_if_nothing_of_its_subresources_is_left() {
    let desc = texture(Format::Rgba8Unorm);
    let to = end(&desc, End::Destination);
    let whole = |size, origin| {
        let to = TextureEnd { origin, ..to };
        let (part, _) = copy(&to, layout(0, Some(256), Some(16)), size).unwrap();
        part.whole
    };
    assert!(whole(size(16, 16, 4), at(0, 0, 0)));
    assert!(
        whole(size(16, 16, 1), at(0, 0, 2)),
        "each layer counts for itself"
    );
    assert!(!whole(size(15, 16, 1), at(0, 0, 0)));
    assert!(!whole(size(16, 15, 1), at(0, 1, 0)));
}

#[test]
fn one_aspect_of_two_is_not_whole() {
    let desc = texture(Format::Depth24PlusStencil8);
    let stencil = TextureEnd {
        aspect: Aspect::StencilOnly,
        ..end(&desc, End::Destination)
    };
    let (part, _) = copy(&stencil, layout(0, Some(256), None), size(16, 16, 1)).unwrap();
    assert!(!part.whole);
    assert_eq!(part.base.aspect, FormatAspects::STENCIL);
    let only = texture(Format::Stencil8);
    let all = end(&only, End::Destination);
    let (part, _) = copy(&all, layout(0, Some(256), None), size(16, 16, 1)).unwrap();
    assert!(part.whole);
    assert_eq!(part.base.aspect, FormatAspects::STENCIL);
}

#[test]
fn empty_copies_are_checked_and_skipped() {
    let desc = texture(Format::Rgba8Unorm);
    let to = end(&desc, End::Destination);
    for empty in [size(0, 1, 1), size(1, 0, 1), size(1, 1, 0)] {
        let (part, _) = copy(&to, layout(0, Some(256), Some(1)), empty).unwrap();
        assert!(part.is_empty(), "{empty:?}");
    }
    let outside = TextureEnd {
        origin: at(17, 0, 0),
        ..to
    };
    fails(
        copy(&outside, layout(0, None, None), size(0, 0, 0)),
        "x range 17..17",
    );
    let edge = TextureEnd {
        origin: at(16, 16, 4),
        ..to
    };
    assert!(copy(&edge, layout(0, None, None), size(0, 0, 0)).is_ok());
}

#[test]
fn the_texture_must_allow_the_copy() {
    let desc = TextureDesc {
        usage: wgt::TextureUsages::COPY_SRC,
        ..texture(Format::Rgba8Unorm)
    };
    let one = size(1, 1, 1);
    assert!(copy(&end(&desc, End::Source), layout(0, None, None), one).is_ok());
    fails(
        copy(&end(&desc, End::Destination), layout(0, None, None), one),
        "destination Texture \"atlas\" was not created with usage",
    );
}

#[test]
fn the_level_must_exist() {
    let desc = texture(Format::Rgba8Unorm);
    let with = |mip_level| {
        let end = TextureEnd {
            mip_level,
            ..end(&desc, End::Source)
        };
        copy(&end, layout(0, None, None), size(1, 1, 1))
    };
    assert!(with(2).is_ok());
    fails(with(3), "mip level 3 does not exist");
    fails(with(u32::MAX), "mip level 4294967295");
}

#[test]
fn the_copy_stays_within_the_level() {
    let desc = texture(Format::Rgba8Unorm);
    let with = |origin, size| {
        let end = TextureEnd {
            mip_level: 1,
            origin,
            ..end(&desc, End::Source)
        };
        copy(&end, layout(0, Some(256), Some(8)), size)
    };
    assert!(with(at(4, 4, 3), size(4, 4, 1)).is_ok());
    fails(with(at(5, 4, 3), size(4, 4, 1)), "x range 5..9");
    fails(with(at(4, 4, 3), size(4, 5, 1)), "y range 4..9");
    fails(with(at(4, 4, 3), size(4, 4, 2)), "z range 3..5");
    fails(with(at(u32::MAX, 0, 0), size(u32::MAX, 1, 1)), "x range");
    fails(with(at(0, 0, u32::MAX), size(1, 1, 1)), "z range");
}

#[test]
fn multisampled_textures_are_not_linear() {
    let desc = TextureDesc {
        sample_count: 4,
        mip_level_count: 1,
        size: size(16, 16, 1),
        ..texture(Format::Rgba8Unorm)
    };
    fails(
        copy(
            &end(&desc, End::Source),
            layout(0, Some(256), None),
            size(16, 16, 1),
        ),
        "4 samples per texel",
    );
}

#[test]
fn depth_and_multisampled_levels_are_copied_whole() {
    let desc = texture(Format::Depth16Unorm);
    let with = |origin, size| {
        let end = TextureEnd {
            mip_level: 1,
            origin,
            ..end(&desc, End::Source)
        };
        copy(&end, layout(0, Some(256), Some(8)), size)
    };
    assert!(with(at(0, 0, 0), size(8, 8, 4)).is_ok());
    assert!(
        with(at(0, 0, 2), size(8, 8, 1)).is_ok(),
        "layers may be left out"
    );
    fails(with(at(0, 0, 0), size(7, 8, 1)), "only all 8x8 texels");
    fails(with(at(0, 0, 0), size(8, 7, 1)), "only all 8x8 texels");
    fails(with(at(1, 0, 0), size(8, 8, 1)), "from (1, 0)");

    let multisampled = TextureDesc {
        sample_count: 4,
        mip_level_count: 1,
        size: size(16, 16, 1),
        ..texture(Format::Rgba8Unorm)
    };
    let from = end(&multisampled, End::Source);
    let to = end(&multisampled, End::Destination);
    assert!(texture_copy(&from, &to, false, &size(16, 16, 1)).is_ok());
    fails(
        texture_copy(&from, &to, false, &size(8, 16, 1)),
        "only all 16x16 texels",
    );
}

#[test]
fn each_aspect_is_copied_in_the_directions_it_has() {
    use Format as F;
    // Format, aspect, and whether it can be a source and a destination.
    for (format, aspect, source, destination) in [
        (F::Rgba8Unorm, Aspect::All, true, true),
        (F::Stencil8, Aspect::All, true, true),
        (F::Stencil8, Aspect::StencilOnly, true, true),
        (F::Depth16Unorm, Aspect::All, true, true),
        (F::Depth16Unorm, Aspect::DepthOnly, true, true),
        (F::Depth24Plus, Aspect::All, false, false),
        (F::Depth24Plus, Aspect::DepthOnly, false, false),
        (F::Depth24PlusStencil8, Aspect::All, false, false),
        (F::Depth24PlusStencil8, Aspect::DepthOnly, false, false),
        (F::Depth24PlusStencil8, Aspect::StencilOnly, true, true),
        (F::Depth32Float, Aspect::All, true, false),
        (F::Depth32Float, Aspect::DepthOnly, true, false),
        (F::Depth32FloatStencil8, Aspect::All, false, false),
        (F::Depth32FloatStencil8, Aspect::DepthOnly, true, false),
        (F::Depth32FloatStencil8, Aspect::StencilOnly, true, true),
    ] {
        let desc = texture(format);
        for (side, allowed) in [(End::Source, source), (End::Destination, destination)] {
            let end = TextureEnd {
                aspect,
                ..end(&desc, side)
            };
            let result = copy(&end, layout(0, Some(256), None), size(16, 16, 1));
            assert_eq!(result.is_ok(), allowed, "{format:?} {aspect:?} {side:?}");
        }
    }
    let desc = texture(Format::Rgba8Unorm);
    let depth = TextureEnd {
        aspect: Aspect::DepthOnly,
        ..end(&desc, End::Source)
    };
    fails(
        copy(&depth, layout(0, None, None), size(1, 1, 1)),
        "has no aspect DepthOnly",
    );
}

#[test]
fn depth_copies_need_their_downlevel_flag() {
    let desc = texture(Format::Depth16Unorm);
    let without = ALL - wgt::DownlevelFlags::DEPTH_TEXTURE_AND_BUFFER_COPIES;
    let result = buffer_copy(
        &end(&desc, End::Source),
        &layout(0, Some(256), None),
        &"the buffer",
        1 << 20,
        &size(16, 16, 1),
        without,
    );
    fails(result, "DEPTH_TEXTURE_AND_BUFFER_COPIES");
}

#[test]
fn offsets_are_aligned_to_blocks() {
    let with = |format, aspect, offset| {
        let desc = texture(format);
        let end = TextureEnd {
            aspect,
            ..end(&desc, End::Source)
        };
        copy(&end, layout(offset, Some(256), None), size(16, 16, 1))
    };
    assert!(with(Format::Rgba32Float, Aspect::All, 16).is_ok());
    fails(with(Format::Rgba32Float, Aspect::All, 8), "multiple of 16");
    assert!(with(Format::R8Unorm, Aspect::All, 1).is_ok());
    assert!(with(Format::Bc1RgbaUnorm, Aspect::All, 8).is_ok());
    fails(with(Format::Bc1RgbaUnorm, Aspect::All, 4), "multiple of 8");
    // One byte each, but depth and stencil ask for four.
    assert!(with(Format::Stencil8, Aspect::All, 4).is_ok());
    fails(with(Format::Stencil8, Aspect::All, 2), "multiple of 4");
    fails(with(Format::Depth16Unorm, Aspect::All, 2), "multiple of 4");
}

#[test]
fn row_strides_of_buffers_are_aligned_even_if_unused() {
    let desc = texture(Format::R8Unorm);
    let from = end(&desc, End::Source);
    let with = |stride| copy(&from, layout(0, Some(stride), None), size(16, 1, 1));
    assert!(with(256).is_ok());
    fails(
        with(16),
        "bytes_per_row 16 of Buffer \"bytes\" is not a multiple of 256",
    );
    fails(with(257), "multiple of 256");
}

#[test]
fn writes_are_not_aligned() {
    let desc = texture(Format::Rgba8Unorm);
    let to = end(&desc, End::Destination);
    let with = |offset, stride, available| {
        write(
            &to,
            &layout(offset, stride, None),
            available,
            &size(3, 2, 1),
            ALL,
        )
    };
    let (_, linear) = with(1, Some(13), 26).unwrap();
    assert_eq!(linear.bytes, 13 + 12);
    assert!(!linear.tight);
    fails(
        with(1, Some(13), 25),
        "needs 25 bytes from offset 1 of the data, which has 25",
    );
    fails(
        with(0, Some(11), 1000),
        "bytes_per_row 11 of the data is less than the 12 bytes",
    );
    fails(with(0, None, 1000), "bytes_per_row of the data is missing");
    assert!(with(0, Some(12), 24).unwrap().1.tight);
    let elsewhere = TextureDesc {
        usage: wgt::TextureUsages::TEXTURE_BINDING,
        ..desc.clone()
    };
    let result = write(
        &end(&elsewhere, End::Destination),
        &layout(0, Some(12), None),
        24,
        &size(3, 2, 1),
        ALL,
    );
    fails(result, "COPY_DST");
}

#[test]
fn strides_are_needed_where_they_are_used() {
    let desc = texture(Format::Rgba8Unorm);
    let from = end(&desc, End::Source);
    assert!(copy(&from, layout(0, None, None), size(16, 1, 1)).is_ok());
    fails(
        copy(&from, layout(0, None, None), size(16, 2, 1)),
        "bytes_per_row",
    );
    assert!(copy(&from, layout(0, Some(256), None), size(16, 2, 1)).is_ok());
    fails(
        copy(&from, layout(0, None, Some(1)), size(16, 1, 2)),
        "bytes_per_row",
    );
    fails(
        copy(&from, layout(0, Some(256), None), size(16, 1, 2)),
        "rows_per_image",
    );
    assert!(copy(&from, layout(0, Some(256), Some(1)), size(16, 1, 2)).is_ok());
    fails(
        copy(&from, layout(0, Some(256), Some(1)), size(16, 2, 1)),
        "rows_per_image 1 of Buffer \"bytes\" is less than the 2 rows",
    );
}

#[test]
fn compressed_copies_count_blocks() {
    let desc = texture(Format::Bc1RgbaUnorm);
    let from = end(&desc, End::Source);
    let (_, linear) = copy(&from, layout(0, Some(256), Some(4)), size(16, 16, 2)).unwrap();
    assert_eq!((linear.row_bytes, linear.rows), (32, 4));
    assert_eq!(linear.bytes, 4 * 256 + 3 * 256 + 32);
    fails(
        copy(&from, layout(0, Some(256), Some(3)), size(16, 16, 2)),
        "rows_per_image 3",
    );
    fails(
        copy(&from, layout(0, Some(256), None), size(6, 16, 1)),
        "copy width 6 is not a multiple of 4",
    );
    fails(
        copy(&from, layout(0, Some(256), None), size(16, 6, 1)),
        "copy height 6 is not a multiple of 4",
    );
    for origin in [at(2, 0, 0), at(0, 2, 0)] {
        let shifted = TextureEnd { origin, ..from };
        fails(
            copy(&shifted, layout(0, Some(256), None), size(4, 4, 1)),
            "is not a multiple of 4",
        );
    }
}

#[test]
fn small_levels_of_blocks_are_copied_by_the_block() {
    // Level 2 of a 8x8 texture is 2x2 texels in one block.
    let desc = TextureDesc {
        size: size(8, 8, 1),
        ..texture(Format::Bc1RgbaUnorm)
    };
    let to = TextureEnd {
        mip_level: 2,
        ..end(&desc, End::Destination)
    };
    let (part, linear) = copy(&to, layout(0, None, None), size(4, 4, 1)).unwrap();
    assert!(part.whole);
    assert_eq!(linear.bytes, 8);
    fails(
        copy(&to, layout(0, None, None), size(2, 2, 1)),
        "multiple of 4",
    );
    fails(
        copy(&to, layout(0, None, None), size(8, 4, 1)),
        "x range 0..8",
    );
}

#[test]
fn the_bytes_must_be_there() {
    let desc = texture(Format::Rgba8Unorm);
    let from = end(&desc, End::Source);
    let with = |offset, available| {
        buffer_copy(
            &from,
            &layout(offset, Some(256), Some(16)),
            &"the buffer",
            available,
            &size(16, 16, 2),
            ALL,
        )
    };
    // 16 rows of the first image, 15 of the second, and its last row's texels.
    let needed = 16 * 256 + 15 * 256 + 64;
    assert!(with(0, needed).is_ok());
    fails(
        with(0, needed - 1),
        &format!("needs {needed} bytes from offset 0"),
    );
    assert!(with(8, needed + 8).is_ok());
    fails(with(8, needed + 7), "from offset 8");
    fails(
        with(u64::MAX - 3, u64::MAX),
        "from offset 18446744073709551612",
    );
    // The offset counts even where no byte is touched.
    let nothing = |offset| {
        let layout = layout(offset, None, None);
        buffer_copy(&from, &layout, &"the buffer", 16, &size(0, 0, 0), ALL)
    };
    assert!(nothing(16).is_ok());
    fails(nothing(20), "needs 0 bytes from offset 20");
}

#[test]
fn huge_strides_do_not_overflow() {
    let desc = TextureDesc {
        size: size(1, 1, 1 << 30),
        mip_level_count: 1,
        ..texture(Format::Rgba8Unorm)
    };
    let to = end(&desc, End::Destination);
    let stride = Some(u32::MAX);
    fails(
        write(
            &to,
            &layout(0, stride, stride),
            1 << 20,
            &size(1, 1, 1 << 30),
            ALL,
        ),
        "more than 2^64",
    );
}

#[test]
fn tight_copies_have_no_gaps() {
    let desc = texture(Format::Rgba8Unorm);
    let to = end(&desc, End::Destination);
    let tight = |stride, rows, size| {
        let layout = layout(0, stride, rows);
        write(&to, &layout, 1 << 20, &size, ALL).unwrap().1.tight
    };
    assert!(tight(None, None, size(5, 1, 1)));
    assert!(
        tight(Some(100), None, size(5, 1, 1)),
        "a single row has no gap"
    );
    assert!(tight(Some(20), Some(2), size(5, 2, 3)));
    assert!(!tight(Some(24), Some(2), size(5, 2, 3)));
    assert!(!tight(Some(20), Some(3), size(5, 2, 3)));
    assert!(!tight(Some(24), Some(1), size(5, 1, 2)));
}

#[test]
fn textures_are_copied_layer_by_layer() {
    let desc = texture(Format::Rgba8Unorm);
    let from = end(&desc, End::Source);
    let to = TextureEnd {
        mip_level: 1,
        origin: at(1, 2, 2),
        ..end(&desc, End::Destination)
    };
    let (from, to) = texture_copy(&from, &to, true, &size(4, 4, 2)).unwrap();
    let regions: Vec<_> = from.texture_regions(&to).collect();
    let layers: Vec<_> = regions
        .iter()
        .map(|region| (region.src_base.array_layer, region.dst_base.array_layer))
        .collect();
    assert_eq!(layers, [(0, 2), (1, 3)]);
    assert_eq!(regions[0].dst_base.mip_level, 1);
    assert_eq!(regions[0].dst_base.origin, at(1, 2, 0));
}

#[test]
fn depth_and_stencil_are_copied_one_after_the_other() {
    let desc = texture(Format::Depth24PlusStencil8);
    let (from, to) = texture_copy(
        &end(&desc, End::Source),
        &end(&desc, End::Destination),
        false,
        &size(16, 16, 2),
    )
    .unwrap();
    let aspects: Vec<_> = from
        .texture_regions(&to)
        .map(|region| {
            assert_eq!(region.src_base.aspect, region.dst_base.aspect);
            (region.src_base.array_layer, region.src_base.aspect)
        })
        .collect();
    let (depth, stencil) = (FormatAspects::DEPTH, FormatAspects::STENCIL);
    assert_eq!(
        aspects,
        [(0, depth), (0, stencil), (1, depth), (1, stencil)]
    );
    assert!(to.whole);
}

#[test]
fn slices_and_layers_go_into_each_other() {
    let volume = TextureDesc {
        dimension: Dimension::D3,
        ..texture(Format::Rgba8Unorm)
    };
    let layers = texture(Format::Rgba8Unorm);
    let from = end(&volume, End::Source);
    let to = end(&layers, End::Destination);
    let one = size(4, 4, 1);
    let (from_part, to_part) = texture_copy(&from, &to, false, &one).unwrap();
    assert_eq!(from_part.texture_regions(&to_part).count(), 1);
}

#[test]
fn formats_of_both_textures_agree_up_to_srgb() {
    let linear = texture(Format::Rgba8Unorm);
    let from = end(&linear, End::Source);
    let one = size(1, 1, 1);
    for (format, allowed) in [
        (Format::Rgba8Unorm, true),
        (Format::Rgba8UnormSrgb, true),
        (Format::Bgra8Unorm, false),
        (Format::Rgba8Uint, false),
        (Format::R32Uint, false),
    ] {
        let desc = texture(format);
        let result = texture_copy(&from, &end(&desc, End::Destination), false, &one);
        assert_eq!(result.is_ok(), allowed, "{format:?}");
    }
    let other = texture(Format::Bgra8Unorm);
    fails(
        texture_copy(&from, &end(&other, End::Destination), false, &one),
        "Rgba8Unorm of source Texture \"atlas\" and Bgra8Unorm of destination",
    );
}

#[test]
fn sample_counts_of_both_textures_agree() {
    let one = TextureDesc {
        size: size(16, 16, 1),
        mip_level_count: 1,
        ..texture(Format::Rgba8Unorm)
    };
    let four = TextureDesc {
        sample_count: 4,
        ..one.clone()
    };
    fails(
        texture_copy(
            &end(&one, End::Source),
            &end(&four, End::Destination),
            false,
            &size(16, 16, 1),
        ),
        "sample counts 1 of source",
    );
}

#[test]
fn textures_are_copied_with_all_aspects() {
    let desc = texture(Format::Depth32FloatStencil8);
    let from = end(&desc, End::Source);
    let to = end(&desc, End::Destination);
    let all = size(16, 16, 1);
    assert!(texture_copy(&from, &to, false, &all).is_ok());
    for aspect in [Aspect::DepthOnly, Aspect::StencilOnly] {
        let part = TextureEnd { aspect, ..from };
        fails(texture_copy(&part, &to, false, &all), "takes all aspects");
        let part = TextureEnd { aspect, ..to };
        fails(texture_copy(&from, &part, false, &all), "takes all aspects");
    }
    // The only aspect is all of them.
    let stencil = texture(Format::Stencil8);
    let from = TextureEnd {
        aspect: Aspect::StencilOnly,
        ..end(&stencil, End::Source)
    };
    let to = end(&stencil, End::Destination);
    assert!(texture_copy(&from, &to, false, &all).is_ok());
}

#[test]
fn both_ends_are_checked() {
    let desc = texture(Format::Rgba8Unorm);
    let from = end(&desc, End::Source);
    let to = end(&desc, End::Destination);
    let outside = at(16, 0, 0);
    fails(
        texture_copy(
            &TextureEnd {
                origin: outside,
                ..from
            },
            &to,
            false,
            &size(1, 1, 1),
        ),
        "source Texture",
    );
    fails(
        texture_copy(
            &from,
            &TextureEnd {
                origin: outside,
                ..to
            },
            false,
            &size(1, 1, 1),
        ),
        "destination Texture",
    );
    let bound = TextureDesc {
        usage: wgt::TextureUsages::COPY_DST,
        ..desc.clone()
    };
    fails(
        texture_copy(&end(&bound, End::Source), &to, false, &size(1, 1, 1)),
        "COPY_SRC",
    );
}

#[test]
fn within_a_texture_subresources_do_not_overlap() {
    let desc = texture(Format::Rgba8Unorm);
    let with = |same, from_z, to_z, to_level, layers| {
        let from = TextureEnd {
            origin: at(0, 0, from_z),
            ..end(&desc, End::Source)
        };
        let to = TextureEnd {
            origin: at(8, 8, to_z),
            mip_level: to_level,
            ..end(&desc, End::Destination)
        };
        texture_copy(&from, &to, same, &size(0, 0, layers))
    };
    assert!(with(false, 0, 0, 0, 1).is_ok());
    fails(
        with(true, 0, 0, 0, 1),
        "layers 0..1 and 0..1 of mip level 0 overlap",
    );
    assert!(with(true, 0, 1, 0, 1).is_ok());
    assert!(with(true, 0, 2, 0, 2).is_ok());
    assert!(with(true, 2, 0, 0, 2).is_ok());
    fails(with(true, 0, 1, 0, 2), "overlap");
    fails(with(true, 1, 0, 0, 2), "overlap");
    assert!(with(true, 0, 0, 0, 0).is_ok(), "no layer, no overlap");
    let other_level = with(true, 0, 0, 1, 1);
    assert!(other_level.is_ok());
}

#[test]
fn within_a_volume_all_slices_of_a_level_are_one() {
    let volume = TextureDesc {
        dimension: Dimension::D3,
        ..texture(Format::Rgba8Unorm)
    };
    let from = end(&volume, End::Source);
    let to = |z, mip_level| TextureEnd {
        origin: at(0, 0, z),
        mip_level,
        ..end(&volume, End::Destination)
    };
    let one = size(1, 1, 1);
    fails(texture_copy(&from, &to(2, 0), true, &one), "overlap");
    assert!(texture_copy(&from, &to(1, 1), true, &one).is_ok());
    assert!(texture_copy(&from, &to(2, 0), false, &one).is_ok());
}
