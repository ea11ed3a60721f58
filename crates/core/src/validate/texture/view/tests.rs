//! Each rule of views with values on both sides of its bound.

use super::*;
use crate::validate::texture::tests::{size, texture};

type ViewDesc = wgt::TextureViewDescriptor<()>;

fn view_with(texture: &TextureDesc, desc: &ViewDesc, features: Features) -> Result<ResolvedView> {
    let limits = wgt::Limits::default();
    let rules = Rules {
        limits: &limits,
        features,
        downlevel: wgt::DownlevelFlags::all(),
        backend: wgt::Backend::Vulkan,
    };
    let of_format = |format: TextureFormat| format.guaranteed_format_features(features);
    resolve_view(texture, desc, of_format, &rules)
}

#[track_caller]
fn view(texture: &TextureDesc, desc: &ViewDesc) -> ResolvedView {
    match view_with(texture, desc, Features::empty()) {
        Ok(view) => view,
        Err(error) => panic!("{error}"),
    }
}

#[track_caller]
fn no_view(texture: &TextureDesc, desc: &ViewDesc, part_of_message: &str) {
    let message = view_with(texture, desc, Features::empty())
        .unwrap_err()
        .to_string();
    assert!(message.contains(part_of_message), "{message}");
}

fn layered(layers: u32) -> TextureDesc {
    TextureDesc {
        size: size(16, 16, layers),
        ..texture()
    }
}

#[test]
fn the_default_view_is_the_whole_texture() {
    let whole = view(&layered(3), &ViewDesc::default());
    assert_eq!(
        whole,
        ResolvedView {
            format: TextureFormat::Rgba8Unorm,
            dimension: TextureViewDimension::D2Array,
            usage: TextureUsages::TEXTURE_BINDING | TextureUsages::COPY_DST,
            aspect: wgt::TextureAspect::All,
            range: SubRange {
                mips: 0..5,
                layers: 0..3
            },
            extent: size(16, 16, 3),
            renderable: false,
        }
    );
    assert_eq!(
        view(&layered(1), &ViewDesc::default()).dimension,
        TextureViewDimension::D2
    );
    let volume = TextureDesc {
        dimension: TextureDimension::D3,
        ..layered(4)
    };
    let whole = view(&volume, &ViewDesc::default());
    assert_eq!(whole.dimension, TextureViewDimension::D3);
    assert_eq!(whole.range.layers, 0..1);
    assert_eq!(whole.extent, size(16, 16, 4));
}

#[test]
fn defaults_go_to_the_end() {
    let desc = ViewDesc {
        base_mip_level: 2,
        base_array_layer: 1,
        ..Default::default()
    };
    let rest = view(&layered(4), &desc);
    assert_eq!((rest.range.mips, rest.range.layers), (2..5, 1..4));
    assert_eq!(rest.extent, size(4, 4, 4));
}

#[test]
fn ranges_stay_within_the_texture() {
    let with = |base_mip_level, mip_level_count, base_array_layer, array_layer_count| ViewDesc {
        base_mip_level,
        mip_level_count,
        base_array_layer,
        array_layer_count,
        dimension: Some(TextureViewDimension::D2Array),
        ..Default::default()
    };
    let texture = layered(4);
    view(&texture, &with(4, Some(1), 3, Some(1)));
    no_view(&texture, &with(4, Some(2), 0, None), "2 mip levels from 4");
    no_view(&texture, &with(5, None, 0, None), "no mip levels");
    no_view(&texture, &with(0, Some(0), 0, None), "no mip levels");
    no_view(
        &texture,
        &with(u32::MAX, Some(u32::MAX), 0, None),
        "mip levels",
    );
    no_view(
        &texture,
        &with(0, None, 3, Some(2)),
        "2 array layers from 3",
    );
    no_view(&texture, &with(0, None, 4, None), "no array layers");
    no_view(&texture, &with(0, None, 0, Some(0)), "no array layers");
    no_view(&texture, &with(0, None, u32::MAX, Some(2)), "array layers");
}

#[test]
fn dimensions_go_with_the_texture_and_the_layers() {
    let with = |dimension, array_layer_count| ViewDesc {
        dimension: Some(dimension),
        array_layer_count,
        ..Default::default()
    };
    use TextureViewDimension as View;
    let twelve = layered(12);
    assert_eq!(view(&twelve, &with(View::D2, None)).range.layers, 0..1);
    assert_eq!(view(&twelve, &with(View::Cube, None)).range.layers, 0..6);
    assert_eq!(
        view(&twelve, &with(View::CubeArray, None)).range.layers,
        0..12
    );
    assert_eq!(
        view(&twelve, &with(View::D2Array, None)).range.layers,
        0..12
    );
    no_view(
        &twelve,
        &with(View::D3, None),
        "does not go with dimension D2",
    );
    no_view(
        &twelve,
        &with(View::D1, None),
        "does not go with dimension D2",
    );
    no_view(&twelve, &with(View::D2, Some(2)), "array_layer_count 2");
    no_view(&twelve, &with(View::Cube, Some(5)), "array_layer_count 5");
    no_view(&twelve, &with(View::Cube, Some(12)), "array_layer_count 12");
    no_view(
        &twelve,
        &with(View::CubeArray, Some(7)),
        "array_layer_count 7",
    );
    no_view(
        &layered(5),
        &with(View::Cube, None),
        "6 array layers from 0",
    );
    let oblong = TextureDesc {
        size: size(16, 8, 6),
        ..texture()
    };
    no_view(&oblong, &with(View::Cube, None), "square");
    view(&oblong, &with(View::D2Array, None));
}

#[test]
fn multisampled_views_are_flat() {
    let multisampled = TextureDesc {
        sample_count: 4,
        mip_level_count: 1,
        usage: TextureUsages::RENDER_ATTACHMENT,
        ..texture()
    };
    assert!(view(&multisampled, &ViewDesc::default()).renderable);
    let array = ViewDesc {
        dimension: Some(TextureViewDimension::D2Array),
        ..Default::default()
    };
    no_view(&multisampled, &array, "4 samples");
}

#[test]
fn formats_are_the_textures_or_listed() {
    let with = |format| ViewDesc {
        format: Some(format),
        ..Default::default()
    };
    let listed = TextureDesc {
        view_formats: vec![TextureFormat::Rgba8UnormSrgb],
        ..texture()
    };
    view(&listed, &with(TextureFormat::Rgba8Unorm));
    view(&listed, &with(TextureFormat::Rgba8UnormSrgb));
    no_view(
        &texture(),
        &with(TextureFormat::Rgba8UnormSrgb),
        "view formats",
    );
    no_view(&listed, &with(TextureFormat::R32Uint), "R32Uint");
}

#[test]
fn aspects_have_formats_of_their_own() {
    let with = |aspect, format| ViewDesc {
        aspect,
        format,
        ..Default::default()
    };
    use wgt::TextureAspect as Aspect;
    let both = TextureDesc {
        format: TextureFormat::Depth24PlusStencil8,
        usage: TextureUsages::TEXTURE_BINDING | TextureUsages::RENDER_ATTACHMENT,
        mip_level_count: 1,
        ..texture()
    };
    assert_eq!(
        view(&both, &with(Aspect::DepthOnly, None)).format,
        TextureFormat::Depth24Plus
    );
    assert_eq!(
        view(&both, &with(Aspect::StencilOnly, None)).format,
        TextureFormat::Stencil8
    );
    assert_eq!(view(&both, &with(Aspect::All, None)).format, both.format);
    view(
        &both,
        &with(Aspect::StencilOnly, Some(TextureFormat::Stencil8)),
    );
    no_view(
        &both,
        &with(Aspect::StencilOnly, Some(both.format)),
        "aspect StencilOnly",
    );
    no_view(
        &both,
        &with(Aspect::All, Some(TextureFormat::Stencil8)),
        "aspect All",
    );
    no_view(
        &texture(),
        &with(Aspect::DepthOnly, None),
        "no aspect DepthOnly",
    );
    // A pass attaches all aspects or none.
    assert!(view(&both, &with(Aspect::All, None)).renderable);
    assert!(!view(&both, &with(Aspect::DepthOnly, None)).renderable);
}

#[test]
fn usages_are_part_of_the_textures() {
    let with = |usage| ViewDesc {
        usage: Some(usage),
        ..Default::default()
    };
    let binding = TextureUsages::TEXTURE_BINDING;
    assert_eq!(view(&texture(), &with(binding)).usage, binding);
    let none = TextureUsages::empty();
    assert_eq!(view(&texture(), &with(none)).usage, texture().usage);
    no_view(
        &texture(),
        &with(TextureUsages::STORAGE_BINDING),
        "is more than",
    );
    // A view of a format that cannot store must leave storage out.
    let storage = TextureDesc {
        usage: TextureUsages::STORAGE_BINDING | binding,
        view_formats: vec![TextureFormat::Rgba8UnormSrgb],
        ..texture()
    };
    let srgb = |usage| ViewDesc {
        format: Some(TextureFormat::Rgba8UnormSrgb),
        usage,
        ..Default::default()
    };
    no_view(
        &storage,
        &srgb(None),
        "STORAGE_BINDING) is not allowed with format Rgba8UnormSrgb",
    );
    view(&storage, &srgb(Some(binding)));
    let transient = TextureDesc {
        usage: TextureUsages::TRANSIENT_ATTACHMENT | TextureUsages::RENDER_ATTACHMENT,
        mip_level_count: 1,
        ..texture()
    };
    no_view(
        &transient,
        &with(TextureUsages::RENDER_ATTACHMENT),
        "transient",
    );
    view(&transient, &ViewDesc::default());
}

#[test]
fn the_hal_view_has_the_usages_that_its_shape_leaves() {
    let all = TextureDesc {
        usage: TextureUsages::STORAGE_BINDING
            | TextureUsages::TEXTURE_BINDING
            | TextureUsages::RENDER_ATTACHMENT
            | TextureUsages::COPY_SRC,
        size: size(16, 16, 6),
        ..texture()
    };
    let of_format = all.format.guaranteed_format_features(Features::empty());
    let usage = |desc: &ViewDesc| hal_view_usage(&view(&all, desc), &of_format);
    let storage = TextureUses::STORAGE_READ_ONLY | TextureUses::STORAGE_WRITE_ONLY;
    let one_level = ViewDesc {
        mip_level_count: Some(1),
        ..Default::default()
    };
    assert_eq!(
        usage(&one_level),
        storage | TextureUses::RESOURCE | TextureUses::COLOR_TARGET
    );
    assert_eq!(usage(&ViewDesc::default()), TextureUses::RESOURCE);
    let cube = ViewDesc {
        dimension: Some(TextureViewDimension::Cube),
        ..one_level
    };
    assert_eq!(usage(&cube), TextureUses::RESOURCE);
}

#[test]
fn copies_need_no_view() {
    let copies = TextureUsages::COPY_SRC | TextureUsages::COPY_DST;
    assert!(!needs_hal_view(copies));
    assert!(needs_hal_view(copies | TextureUsages::TEXTURE_BINDING));
    assert!(needs_hal_view(TextureUsages::RENDER_ATTACHMENT));
}

fn bind(texture: &TextureDesc, desc: &ViewDesc, ty: wgt::BindingType) -> Result<TextureUses> {
    let view = view(texture, desc);
    let features = Features::empty();
    let of_format = view.format.guaranteed_format_features(features);
    check_view_binding(&view, texture.sample_count, &of_format, features, &ty)
}

fn sampled(sample_type: wgt::TextureSampleType) -> wgt::BindingType {
    wgt::BindingType::Texture {
        sample_type,
        view_dimension: TextureViewDimension::D2,
        multisampled: false,
    }
}

#[test]
fn sample_types_fit_the_format() {
    use wgt::TextureSampleType as Type;
    let filterable = Type::Float { filterable: true };
    let unfilterable = Type::Float { filterable: false };
    let with = |format| TextureDesc {
        format,
        usage: TextureUsages::TEXTURE_BINDING,
        ..texture()
    };
    for (format, fitting) in [
        (TextureFormat::Rgba8Unorm, &[filterable, unfilterable][..]),
        (TextureFormat::R32Float, &[unfilterable]),
        (TextureFormat::R32Uint, &[Type::Uint]),
        (TextureFormat::R32Sint, &[Type::Sint]),
        (TextureFormat::Depth32Float, &[Type::Depth, unfilterable]),
        (TextureFormat::Stencil8, &[Type::Uint]),
    ] {
        for ty in [
            filterable,
            unfilterable,
            Type::Uint,
            Type::Sint,
            Type::Depth,
        ] {
            let result = bind(&with(format), &ViewDesc::default(), sampled(ty));
            assert_eq!(result.is_ok(), fitting.contains(&ty), "{format:?} {ty:?}");
        }
    }
    // What the adapter can filter beyond WebGPU's guarantees.
    let view = view(&with(TextureFormat::R32Float), &ViewDesc::default());
    let can = TextureFormatFeatures {
        allowed_usages: TextureUsages::TEXTURE_BINDING,
        flags: FormatFlags::FILTERABLE,
    };
    let ty = sampled(filterable);
    assert!(check_view_binding(&view, 1, &can, Features::empty(), &ty).is_ok());
}

#[test]
fn one_aspect_of_two_is_sampled() {
    use wgt::{TextureAspect as Aspect, TextureSampleType as Type};
    let both = TextureDesc {
        format: TextureFormat::Depth24PlusStencil8,
        usage: TextureUsages::TEXTURE_BINDING,
        ..texture()
    };
    let with = |aspect, ty| {
        let desc = ViewDesc {
            aspect,
            ..Default::default()
        };
        bind(&both, &desc, sampled(ty))
    };
    assert_eq!(
        with(Aspect::DepthOnly, Type::Depth).unwrap(),
        TextureUses::RESOURCE
    );
    assert!(with(Aspect::StencilOnly, Type::Uint).is_ok());
    assert!(with(Aspect::StencilOnly, Type::Depth).is_err());
    let message = with(Aspect::All, Type::Depth).unwrap_err().to_string();
    assert!(message.contains("must have one aspect"), "{message}");
}

#[test]
fn storage_bindings_are_one_level_of_their_format() {
    let storage = TextureDesc {
        usage: TextureUsages::STORAGE_BINDING,
        ..texture()
    };
    let ty = |access, format, view_dimension| wgt::BindingType::StorageTexture {
        access,
        format,
        view_dimension,
    };
    use wgt::StorageTextureAccess as Access;
    let (rgba, d2) = (TextureFormat::Rgba8Unorm, TextureViewDimension::D2);
    let one = ViewDesc {
        mip_level_count: Some(1),
        ..Default::default()
    };
    for (access, uses) in [
        (Access::ReadOnly, TextureUses::STORAGE_READ_ONLY),
        (Access::WriteOnly, TextureUses::STORAGE_WRITE_ONLY),
        (Access::ReadWrite, TextureUses::STORAGE_READ_WRITE),
    ] {
        assert_eq!(bind(&storage, &one, ty(access, rgba, d2)).unwrap(), uses);
    }
    let write = Access::WriteOnly;
    for (texture, desc, ty, part) in [
        (
            &storage,
            &ViewDesc::default(),
            ty(write, rgba, d2),
            "one mip level",
        ),
        (
            &storage,
            &one,
            ty(write, TextureFormat::R32Uint, d2),
            "storage format R32Uint",
        ),
        (
            &storage,
            &one,
            ty(write, rgba, TextureViewDimension::D3),
            "dimension D3",
        ),
        (
            &storage,
            &one,
            ty(Access::Atomic, rgba, d2),
            "STORAGE_ATOMIC",
        ),
        (&texture(), &one, ty(write, rgba, d2), "STORAGE_BINDING"),
    ] {
        let message = bind(texture, desc, ty).unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn sampled_bindings_fit_usage_dimension_and_samples() {
    let float = wgt::TextureSampleType::Float { filterable: true };
    let copied = TextureDesc {
        usage: TextureUsages::COPY_SRC,
        ..texture()
    };
    let fails = |texture: &TextureDesc, ty, part: &str| {
        let message = bind(texture, &ViewDesc::default(), ty)
            .unwrap_err()
            .to_string();
        assert!(message.contains(part), "{message}");
    };
    fails(&copied, sampled(float), "TEXTURE_BINDING");
    fails(
        &layered(2),
        sampled(float),
        "dimension D2, and the view has D2Array",
    );
    let multisampled = wgt::BindingType::Texture {
        sample_type: wgt::TextureSampleType::Float { filterable: false },
        view_dimension: TextureViewDimension::D2,
        multisampled: true,
    };
    fails(&texture(), multisampled, "has 1 samples");
    let four = TextureDesc {
        sample_count: 4,
        mip_level_count: 1,
        usage: TextureUsages::RENDER_ATTACHMENT | TextureUsages::TEXTURE_BINDING,
        ..texture()
    };
    assert!(bind(&four, &ViewDesc::default(), multisampled).is_ok());
    fails(&four, sampled(float), "has 4 samples");
    let sampler = wgt::BindingType::Sampler(wgt::SamplerBindingType::Filtering);
    fails(&texture(), sampler, "a texture view is given");
}
