//! Each rule with values on both sides of its bound.

use super::*;

const D1: TextureDimension = TextureDimension::D1;
const D2: TextureDimension = TextureDimension::D2;
const D3: TextureDimension = TextureDimension::D3;

/// A valid texture to spoil: 16x16, five levels.
pub(super) fn texture() -> TextureDesc {
    wgt::TextureDescriptor {
        label: (),
        size: size(16, 16, 1),
        mip_level_count: 5,
        sample_count: 1,
        dimension: D2,
        format: TextureFormat::Rgba8Unorm,
        usage: TextureUsages::TEXTURE_BINDING | TextureUsages::COPY_DST,
        view_formats: Vec::new(),
    }
}

pub(super) fn size(width: u32, height: u32, depth_or_array_layers: u32) -> wgt::Extent3d {
    wgt::Extent3d {
        width,
        height,
        depth_or_array_layers,
    }
}

fn check_with(desc: &TextureDesc, features: Features) -> Result<()> {
    let limits = wgt::Limits::default();
    let rules = Rules {
        limits: &limits,
        features,
        downlevel: wgt::DownlevelFlags::all(),
        backend: wgt::Backend::Vulkan,
    };
    rules.require_format(desc.format)?;
    let of_format = desc.format.guaranteed_format_features(features);
    check_texture(desc, &of_format, &rules)
}

#[track_caller]
fn valid(desc: &TextureDesc) {
    if let Err(error) = check_with(desc, Features::empty()) {
        panic!("{error}");
    }
}

#[track_caller]
fn invalid(desc: &TextureDesc, part_of_message: &str) {
    let message = check_with(desc, Features::empty()).unwrap_err().to_string();
    assert!(message.contains(part_of_message), "{message}");
}

#[test]
fn usages_are_known_and_not_empty() {
    valid(&texture());
    let with = |usage| TextureDesc { usage, ..texture() };
    invalid(&with(TextureUsages::empty()), "usage is empty");
    invalid(
        &with(TextureUsages::from_bits_retain(1 << 30)),
        "unknown bits 0x40000000",
    );
}

#[test]
fn two_dimensional_sizes_are_limited() {
    let with = |width, height, layers| TextureDesc {
        size: size(width, height, layers),
        mip_level_count: 1,
        ..texture()
    };
    valid(&with(8192, 8192, 256));
    invalid(
        &with(8193, 1, 1),
        "width 8193 is greater than max_texture_dimension_2d 8192",
    );
    invalid(&with(1, 8193, 1), "height 8193");
    invalid(
        &with(1, 1, 257),
        "depth_or_array_layers 257 is greater than max_texture_array_layers 256",
    );
    invalid(&with(0, 1, 1), "width is zero");
    invalid(&with(1, 0, 1), "height is zero");
    invalid(&with(1, 1, 0), "depth_or_array_layers is zero");
}

#[test]
fn one_dimensional_sizes_are_limited() {
    let with = |width, height, layers| TextureDesc {
        size: size(width, height, layers),
        dimension: D1,
        mip_level_count: 1,
        ..texture()
    };
    valid(&with(8192, 1, 1));
    invalid(&with(8193, 1, 1), "max_texture_dimension_1d");
    invalid(&with(4, 2, 1), "height of a one-dimensional texture is 2");
    invalid(&with(4, 1, 2), "depth_or_array_layers of a one-dimensional");
    let two_levels = TextureDesc {
        mip_level_count: 2,
        ..with(4, 1, 1)
    };
    invalid(&two_levels, "mip_level_count 2 is not within 1 to 1");
    let target = TextureDesc {
        usage: TextureUsages::RENDER_ATTACHMENT,
        ..with(4, 1, 1)
    };
    invalid(&target, "RENDER_ATTACHMENT");
}

#[test]
fn three_dimensional_sizes_are_limited() {
    let with = |width, height, depth| TextureDesc {
        size: size(width, height, depth),
        dimension: D3,
        mip_level_count: 1,
        ..texture()
    };
    valid(&with(2048, 1, 2048));
    invalid(&with(2049, 1, 1), "max_texture_dimension_3d");
    invalid(&with(1, 2049, 1), "max_texture_dimension_3d");
    invalid(&with(1, 1, 2049), "max_texture_dimension_3d");
    let target = TextureDesc {
        usage: TextureUsages::RENDER_ATTACHMENT,
        ..with(4, 4, 4)
    };
    valid(&target);
}

#[test]
fn mip_levels_end_at_one_texel() {
    let with = |mip_level_count| TextureDesc {
        mip_level_count,
        ..texture()
    };
    valid(&with(1));
    valid(&with(5));
    invalid(&with(6), "mip_level_count 6 is not within 1 to 5");
    invalid(&with(0), "mip_level_count 0");
    invalid(&with(u32::MAX), "mip_level_count 4294967295");
    // Slices halve with each level, layers do not.
    let layers = TextureDesc {
        size: size(1, 1, 16),
        ..with(2)
    };
    invalid(&layers, "within 1 to 1");
    let slices = TextureDesc {
        dimension: D3,
        ..layers
    };
    valid(&slices);
}

#[test]
fn multisampled_textures_are_plain_targets() {
    let valid_one = TextureDesc {
        sample_count: 4,
        mip_level_count: 1,
        usage: TextureUsages::RENDER_ATTACHMENT,
        ..texture()
    };
    valid(&valid_one);
    for count in [0, 2, 3, 8, 16, 32, u32::MAX] {
        let desc = TextureDesc {
            sample_count: count,
            ..valid_one.clone()
        };
        invalid(&desc, &format!("sample_count {count} is not supported"));
    }
    let levels = TextureDesc {
        mip_level_count: 2,
        ..valid_one.clone()
    };
    invalid(&levels, "mip_level_count 2 must be 1");
    let layers = TextureDesc {
        size: size(16, 16, 2),
        ..valid_one.clone()
    };
    invalid(&layers, "depth_or_array_layers 2 must be 1");
    for usage in [
        TextureUsages::STORAGE_BINDING,
        TextureUsages::STORAGE_ATOMIC,
    ] {
        let storage = TextureDesc {
            usage: valid_one.usage | usage,
            ..valid_one.clone()
        };
        invalid(&storage, "STORAGE");
    }
    let no_target = TextureDesc {
        usage: TextureUsages::TEXTURE_BINDING,
        ..valid_one.clone()
    };
    invalid(&no_target, "RENDER_ATTACHMENT is required");
    let volume = TextureDesc {
        dimension: D3,
        ..valid_one.clone()
    };
    invalid(&volume, "two-dimensional");
    let format = TextureDesc {
        format: TextureFormat::Rgba32Float,
        ..valid_one
    };
    invalid(&format, "only [1]");
}

#[test]
fn multisampled_textures_of_opengl_are_attachments_alone() {
    let check = |usage, backend| {
        let desc = TextureDesc {
            sample_count: 4,
            mip_level_count: 1,
            usage: usage | TextureUsages::RENDER_ATTACHMENT,
            ..texture()
        };
        let limits = wgt::Limits::default();
        let rules = Rules {
            limits: &limits,
            features: Features::empty(),
            downlevel: wgt::DownlevelFlags::all(),
            backend,
        };
        let of_format = desc.format.guaranteed_format_features(Features::empty());
        check_texture(&desc, &of_format, &rules)
    };
    let sampled = TextureUsages::TEXTURE_BINDING;
    assert!(check(sampled, wgt::Backend::Vulkan).is_ok());
    assert!(check(TextureUsages::empty(), wgt::Backend::Gl).is_ok());
    let message = check(sampled, wgt::Backend::Gl).unwrap_err().to_string();
    assert!(message.contains("TEXTURE_BINDING"), "{message}");
}

#[test]
fn formats_need_their_features() {
    let desc = TextureDesc {
        format: TextureFormat::Bc1RgbaUnorm,
        ..texture()
    };
    invalid(&desc, "needs the feature TEXTURE_COMPRESSION_BC");
    assert!(check_with(&desc, Features::TEXTURE_COMPRESSION_BC).is_ok());
}

#[test]
fn compressed_textures_consist_of_whole_blocks() {
    let features = Features::TEXTURE_COMPRESSION_BC;
    let with = |width, height| TextureDesc {
        format: TextureFormat::Bc1RgbaUnorm,
        size: size(width, height, 1),
        mip_level_count: 1,
        ..texture()
    };
    assert!(check_with(&with(8, 4), features).is_ok());
    for desc in [with(6, 4), with(4, 6), with(2, 2)] {
        let message = check_with(&desc, features).unwrap_err().to_string();
        assert!(message.contains("not a multiple of 4"), "{message}");
    }
}

#[test]
fn compressed_volumes_need_features_and_formats_that_have_them() {
    let with = |format, dimension| TextureDesc {
        format,
        dimension,
        size: size(4, if dimension == D1 { 1 } else { 4 }, 1),
        mip_level_count: 1,
        ..texture()
    };
    let bc = Features::TEXTURE_COMPRESSION_BC;
    let volume = with(TextureFormat::Bc1RgbaUnorm, D3);
    let message = check_with(&volume, bc).unwrap_err().to_string();
    assert!(
        message.contains("TEXTURE_COMPRESSION_BC_SLICED_3D"),
        "{message}"
    );
    let sliced = bc | Features::TEXTURE_COMPRESSION_BC_SLICED_3D;
    assert!(check_with(&volume, sliced).is_ok());
    let etc = with(TextureFormat::Etc2Rgb8Unorm, D3);
    let message = check_with(&etc, Features::all()).unwrap_err().to_string();
    assert!(
        message.contains("cannot be that of a texture of dimension D3"),
        "{message}"
    );
}

#[test]
fn depth_and_stencil_are_two_dimensional() {
    let with = |dimension| TextureDesc {
        format: TextureFormat::Depth32Float,
        dimension,
        mip_level_count: 1,
        ..texture()
    };
    valid(&TextureDesc {
        usage: TextureUsages::RENDER_ATTACHMENT,
        ..with(D2)
    });
    invalid(&with(D3), "needs a two-dimensional texture");
}

#[test]
fn usages_are_those_of_the_format() {
    let with = |format, usage| TextureDesc {
        format,
        usage,
        ..texture()
    };
    let storage = TextureUsages::STORAGE_BINDING;
    valid(&with(TextureFormat::Rgba8Unorm, storage));
    invalid(
        &with(TextureFormat::Rgba8UnormSrgb, storage),
        "STORAGE_BINDING",
    );
    let target = TextureUsages::RENDER_ATTACHMENT;
    invalid(
        &with(TextureFormat::Rgba8Snorm, target),
        "RENDER_ATTACHMENT",
    );
    let bgra = with(TextureFormat::Bgra8Unorm, storage);
    invalid(&bgra, "STORAGE_BINDING");
    assert!(check_with(&bgra, Features::BGRA8UNORM_STORAGE).is_ok());
}

#[test]
fn transient_textures_are_one_plain_target() {
    let transient = TextureUsages::TRANSIENT_ATTACHMENT | TextureUsages::RENDER_ATTACHMENT;
    let valid_one = TextureDesc {
        usage: transient,
        mip_level_count: 1,
        ..texture()
    };
    valid(&valid_one);
    for (spoilt, message) in [
        (
            TextureDesc {
                usage: TextureUsages::TRANSIENT_ATTACHMENT,
                ..valid_one.clone()
            },
            "goes with RENDER_ATTACHMENT",
        ),
        (
            TextureDesc {
                usage: transient | TextureUsages::TEXTURE_BINDING,
                ..valid_one.clone()
            },
            "and nothing else",
        ),
        (
            TextureDesc {
                dimension: D3,
                ..valid_one.clone()
            },
            "two-dimensional",
        ),
        (
            TextureDesc {
                mip_level_count: 2,
                ..valid_one.clone()
            },
            "mip_level_count 2",
        ),
        (
            TextureDesc {
                size: size(16, 16, 2),
                ..valid_one.clone()
            },
            "depth_or_array_layers 2",
        ),
        (
            TextureDesc {
                view_formats: vec![TextureFormat::Rgba8UnormSrgb],
                ..valid_one
            },
            "no view formats",
        ),
    ] {
        invalid(&spoilt, message);
    }
}

#[test]
fn view_formats_differ_by_srgb_only() {
    let with = |format| TextureDesc {
        view_formats: vec![format],
        ..texture()
    };
    valid(&with(TextureFormat::Rgba8Unorm));
    valid(&with(TextureFormat::Rgba8UnormSrgb));
    invalid(
        &with(TextureFormat::Bgra8Unorm),
        "differs from format Rgba8Unorm",
    );

    let limits = wgt::Limits::default();
    let without = Rules {
        limits: &limits,
        features: Features::empty(),
        downlevel: wgt::DownlevelFlags::all() - wgt::DownlevelFlags::VIEW_FORMATS,
        backend: wgt::Backend::Vulkan,
    };
    let of_format = TextureFormat::Rgba8Unorm.guaranteed_format_features(Features::empty());
    let own = with(TextureFormat::Rgba8Unorm);
    assert!(check_texture(&own, &of_format, &without).is_ok());
    let other = with(TextureFormat::Rgba8UnormSrgb);
    let message = check_texture(&other, &of_format, &without)
        .unwrap_err()
        .to_string();
    assert!(message.contains("VIEW_FORMATS"), "{message}");
}

#[test]
fn colour_is_zeroed_by_copies_and_the_rest_by_passes() {
    let of = |desc: &TextureDesc| {
        let of_format = desc.format.guaranteed_format_features(Features::empty());
        clear_usage(desc, &of_format)
    };
    assert_eq!(of(&texture()), TextureUses::COPY_DST);
    let depth = TextureDesc {
        format: TextureFormat::Depth24Plus,
        ..texture()
    };
    assert_eq!(of(&depth), TextureUses::DEPTH_STENCIL_WRITE);
    let multisampled = TextureDesc {
        sample_count: 4,
        ..texture()
    };
    assert_eq!(of(&multisampled), TextureUses::COLOR_TARGET);
    let transient = TextureDesc {
        usage: TextureUsages::TRANSIENT_ATTACHMENT | TextureUsages::RENDER_ATTACHMENT,
        ..texture()
    };
    assert_eq!(of(&transient), TextureUses::COLOR_TARGET);
    let no_copies = TextureFormatFeatures {
        allowed_usages: TextureUsages::RENDER_ATTACHMENT,
        flags: FormatFlags::empty(),
    };
    assert_eq!(
        clear_usage(&texture(), &no_copies),
        TextureUses::COLOR_TARGET
    );
}

#[test]
fn usages_are_translated_by_aspect_and_access() {
    let of_format = TextureFormat::Rgba8Unorm.guaranteed_format_features(Features::empty());
    assert_eq!(
        hal_usage(
            TextureUsages::STORAGE_BINDING,
            FormatAspects::COLOR,
            &of_format
        ),
        TextureUses::STORAGE_READ_ONLY | TextureUses::STORAGE_WRITE_ONLY
    );
    assert_eq!(
        hal_usage(
            TextureUsages::COPY_SRC | TextureUsages::TEXTURE_BINDING,
            FormatAspects::COLOR,
            &of_format
        ),
        TextureUses::COPY_SRC | TextureUses::RESOURCE
    );
    let target = TextureUsages::RENDER_ATTACHMENT;
    assert_eq!(
        hal_usage(target, FormatAspects::COLOR, &of_format),
        TextureUses::COLOR_TARGET
    );
    assert_eq!(
        hal_usage(target, FormatAspects::STENCIL, &of_format),
        TextureUses::DEPTH_STENCIL_READ | TextureUses::DEPTH_STENCIL_WRITE
    );
}

#[test]
fn sizes_count_levels_layers_and_samples() {
    // 16x16 + 8x8 + 4x4 + 2x2 + 1x1 texels of four bytes.
    assert_eq!(size_in_bytes(&texture()), 341 * 4);
    let layers = TextureDesc {
        size: size(16, 16, 3),
        mip_level_count: 1,
        ..texture()
    };
    assert_eq!(size_in_bytes(&layers), 3 * 256 * 4);
    let samples = TextureDesc {
        sample_count: 4,
        mip_level_count: 1,
        ..texture()
    };
    assert_eq!(size_in_bytes(&samples), 4 * 256 * 4);
    let slices = TextureDesc {
        size: size(4, 4, 4),
        dimension: D3,
        mip_level_count: 3,
        ..texture()
    };
    assert_eq!(size_in_bytes(&slices), (64 + 8 + 1) * 4);
    // Levels of 4x4 (one block) down to one texel, which still takes a block of eight bytes.
    let blocks = TextureDesc {
        format: TextureFormat::Bc1RgbaUnorm,
        size: size(4, 4, 1),
        mip_level_count: 3,
        ..texture()
    };
    assert_eq!(size_in_bytes(&blocks), 3 * 8);
    let depth = TextureDesc {
        format: TextureFormat::Depth24PlusStencil8,
        mip_level_count: 1,
        ..texture()
    };
    assert_eq!(size_in_bytes(&depth), 256 * 4);
    let huge = TextureDesc {
        size: size(u32::MAX, u32::MAX, u32::MAX),
        ..texture()
    };
    assert_eq!(size_in_bytes(&huge), u64::MAX);
}
