//! Each rule of layouts, on both sides.

use super::*;
use std::num::NonZeroU32;
use wgt::{BindingType as Type, Features, ShaderStages as Stages, TextureFormat as Format};

const UNIFORM: Type = buffer(wgt::BufferBindingType::Uniform, false);
const STORAGE: Type = buffer(wgt::BufferBindingType::Storage { read_only: false }, false);
const READ_ONLY: Type = buffer(wgt::BufferBindingType::Storage { read_only: true }, false);
const SAMPLER: Type = Type::Sampler(wgt::SamplerBindingType::Filtering);
const TEXTURE: Type = texture(true, wgt::TextureViewDimension::D2, false);

const fn buffer(ty: wgt::BufferBindingType, has_dynamic_offset: bool) -> Type {
    Type::Buffer {
        ty,
        has_dynamic_offset,
        min_binding_size: None,
    }
}

const fn texture(
    filterable: bool,
    view_dimension: wgt::TextureViewDimension,
    multisampled: bool,
) -> Type {
    Type::Texture {
        sample_type: wgt::TextureSampleType::Float { filterable },
        view_dimension,
        multisampled,
    }
}

const fn storage_texture(
    access: wgt::StorageTextureAccess,
    format: Format,
    view_dimension: wgt::TextureViewDimension,
) -> Type {
    Type::StorageTexture {
        access,
        format,
        view_dimension,
    }
}

fn entry(binding: u32, visibility: Stages, ty: Type) -> wgt::BindGroupLayoutEntry {
    wgt::BindGroupLayoutEntry {
        binding,
        visibility,
        ty,
        count: None,
    }
}

fn array(binding: u32, ty: Type, count: u32) -> wgt::BindGroupLayoutEntry {
    wgt::BindGroupLayoutEntry {
        count: Some(NonZeroU32::new(count).unwrap()),
        ..entry(binding, Stages::COMPUTE, ty)
    }
}

fn with<T>(
    features: Features,
    downlevel: wgt::DownlevelFlags,
    limits: &wgt::Limits,
    test: impl FnOnce(&Rules<'_>) -> T,
) -> T {
    let format_flags = |format: Format| format.guaranteed_format_features(features).flags;
    test(&Rules {
        features,
        downlevel,
        limits,
        strict: false,
        format_flags: &format_flags,
    })
}

fn check_with(
    features: Features,
    entries: &[wgt::BindGroupLayoutEntry],
) -> Result<(Vec<wgt::BindGroupLayoutEntry>, Counts)> {
    with(
        features,
        wgt::DownlevelFlags::all(),
        &wgt::Limits::default(),
        |rules| check_entries(entries, rules),
    )
}

#[track_caller]
fn accepts(features: Features, entries: &[wgt::BindGroupLayoutEntry]) {
    if let Err(error) = check_with(features, entries) {
        panic!("refused: {error}");
    }
}

#[track_caller]
fn refuses(features: Features, entries: &[wgt::BindGroupLayoutEntry], rule: &str) {
    let error = check_with(features, entries)
        .expect_err("accepted")
        .to_string();
    assert!(error.contains(rule), "{error:?} does not say {rule:?}");
}

const NONE: Features = Features::empty();

#[test]
fn entries_come_out_sorted() {
    let entries = [
        entry(7, Stages::COMPUTE, UNIFORM),
        entry(0, Stages::COMPUTE, STORAGE),
        entry(3, Stages::COMPUTE, SAMPLER),
    ];
    let (sorted, _) = check_with(NONE, &entries).unwrap();
    let bindings: Vec<_> = sorted.iter().map(|entry| entry.binding).collect();
    assert_eq!(bindings, [0, 3, 7]);
}

#[test]
fn an_empty_layout_is_fine() {
    accepts(NONE, &[]);
}

#[test]
fn a_binding_is_declared_once() {
    refuses(
        NONE,
        &[
            entry(4, Stages::COMPUTE, UNIFORM),
            entry(1, Stages::COMPUTE, UNIFORM),
            entry(4, Stages::VERTEX, SAMPLER),
        ],
        "binding 4 is declared twice",
    );
}

#[test]
fn binding_numbers_are_limited() {
    let limit = wgt::Limits::default().max_bindings_per_bind_group;
    accepts(NONE, &[entry(limit - 1, Stages::COMPUTE, UNIFORM)]);
    refuses(
        NONE,
        &[entry(limit, Stages::COMPUTE, UNIFORM)],
        "max_bindings_per_bind_group",
    );
    refuses(
        NONE,
        &[entry(u32::MAX, Stages::COMPUTE, UNIFORM)],
        "max_bindings_per_bind_group",
    );
}

#[test]
fn visibility_knows_its_bits() {
    accepts(NONE, &[entry(0, Stages::NONE, UNIFORM)]);
    refuses(
        NONE,
        &[entry(0, Stages::from_bits_retain(1 << 30), UNIFORM)],
        "unknown bits 0x40000000",
    );
    let (sorted, _) = check_with(NONE, &[entry(0, Stages::all(), UNIFORM)]).unwrap();
    assert_eq!(sorted[0].visibility, STAGES);
}

#[test]
fn writable_storage_needs_a_feature_in_the_vertex_stage() {
    accepts(NONE, &[entry(0, Stages::VERTEX, READ_ONLY)]);
    accepts(
        NONE,
        &[entry(0, Stages::FRAGMENT | Stages::COMPUTE, STORAGE)],
    );
    accepts(
        Features::VERTEX_WRITABLE_STORAGE,
        &[entry(0, Stages::VERTEX, STORAGE)],
    );
    refuses(
        NONE,
        &[entry(0, Stages::VERTEX, STORAGE)],
        "VERTEX_WRITABLE_STORAGE",
    );
    let write = storage_texture(
        wgt::StorageTextureAccess::WriteOnly,
        Format::Rgba8Unorm,
        wgt::TextureViewDimension::D2,
    );
    refuses(
        NONE,
        &[entry(0, Stages::VERTEX, write)],
        "VERTEX_WRITABLE_STORAGE",
    );
}

#[test]
fn downlevel_adapters_lack_storage_in_some_stages() {
    let limits = wgt::Limits::default();
    let check = |flags, ty, stage| {
        with(Features::VERTEX_WRITABLE_STORAGE, flags, &limits, |rules| {
            check_entries(&[entry(0, stage, ty)], rules).map(drop)
        })
    };
    let all = wgt::DownlevelFlags::all();
    let vertex = wgt::DownlevelFlags::VERTEX_STORAGE;
    let fragment = wgt::DownlevelFlags::FRAGMENT_WRITABLE_STORAGE;
    let cubes = wgt::DownlevelFlags::CUBE_ARRAY_TEXTURES;
    check(all - fragment, READ_ONLY, Stages::VERTEX).unwrap();
    assert!(check(all - vertex, READ_ONLY, Stages::VERTEX).is_err());
    check(all - vertex, STORAGE, Stages::FRAGMENT).unwrap();
    assert!(check(all - fragment, STORAGE, Stages::FRAGMENT).is_err());
    check(all - fragment, READ_ONLY, Stages::FRAGMENT).unwrap();
    check(all - fragment - vertex, STORAGE, Stages::COMPUTE).unwrap();
    let cube_array = texture(true, wgt::TextureViewDimension::CubeArray, false);
    check(all, cube_array, Stages::COMPUTE).unwrap();
    assert!(check(all - cubes, cube_array, Stages::COMPUTE).is_err());
}

#[test]
fn multisampled_textures_are_2d_and_not_filterable() {
    use wgt::TextureViewDimension as Dimension;
    accepts(
        NONE,
        &[entry(
            0,
            Stages::COMPUTE,
            texture(false, Dimension::D2, true),
        )],
    );
    refuses(
        NONE,
        &[entry(
            0,
            Stages::COMPUTE,
            texture(true, Dimension::D2, true),
        )],
        "cannot be filterable",
    );
    for dimension in [
        Dimension::D1,
        Dimension::D2Array,
        Dimension::D3,
        Dimension::Cube,
        Dimension::CubeArray,
    ] {
        accepts(
            NONE,
            &[entry(0, Stages::COMPUTE, texture(true, dimension, false))],
        );
        refuses(
            NONE,
            &[entry(0, Stages::COMPUTE, texture(false, dimension, true))],
            "view dimension D2",
        );
    }
}

#[test]
fn storage_textures_have_formats_accesses_and_dimensions() {
    use wgt::{StorageTextureAccess as Access, TextureViewDimension as Dimension};
    let compute = |ty| [entry(0, Stages::COMPUTE, ty)];
    for dimension in [
        Dimension::D1,
        Dimension::D2,
        Dimension::D2Array,
        Dimension::D3,
    ] {
        accepts(
            NONE,
            &compute(storage_texture(
                Access::WriteOnly,
                Format::Rgba8Unorm,
                dimension,
            )),
        );
    }
    for dimension in [Dimension::Cube, Dimension::CubeArray] {
        refuses(
            NONE,
            &compute(storage_texture(
                Access::WriteOnly,
                Format::Rgba8Unorm,
                dimension,
            )),
            "view dimension",
        );
    }
    accepts(
        NONE,
        &compute(storage_texture(
            Access::ReadWrite,
            Format::R32Uint,
            Dimension::D2,
        )),
    );
    refuses(
        NONE,
        &compute(storage_texture(
            Access::ReadWrite,
            Format::Rgba8Unorm,
            Dimension::D2,
        )),
        "Rgba8Unorm does not support the storage access ReadWrite",
    );
    refuses(
        NONE,
        &compute(storage_texture(
            Access::WriteOnly,
            Format::Rgba8UnormSrgb,
            Dimension::D2,
        )),
        "Rgba8UnormSrgb",
    );
    refuses(
        NONE,
        &compute(storage_texture(
            Access::WriteOnly,
            Format::Bgra8Unorm,
            Dimension::D2,
        )),
        "Bgra8Unorm",
    );
    accepts(
        Features::BGRA8UNORM_STORAGE,
        &compute(storage_texture(
            Access::WriteOnly,
            Format::Bgra8Unorm,
            Dimension::D2,
        )),
    );
    let atomic = storage_texture(Access::Atomic, Format::R32Uint, Dimension::D2);
    refuses(NONE, &compute(atomic), "TEXTURE_ATOMIC");
    refuses(
        NONE,
        &compute(storage_texture(
            Access::WriteOnly,
            Format::R16Unorm,
            Dimension::D2,
        )),
        "TEXTURE_FORMAT_16BIT_NORM",
    );
}

#[test]
fn what_is_not_there_is_refused() {
    let structure = Type::AccelerationStructure {
        vertex_return: false,
    };
    refuses(
        Features::all(),
        &[entry(0, Stages::COMPUTE, structure)],
        "acceleration structures",
    );
    refuses(
        Features::all(),
        &[entry(0, Stages::COMPUTE, Type::ExternalTexture)],
        "external textures",
    );
}

#[test]
fn arrays_need_features() {
    let limits = wgt::Limits {
        max_binding_array_elements_per_shader_stage: 100,
        max_binding_array_sampler_elements_per_shader_stage: 10,
        ..Default::default()
    };
    let check = |features, entries: &[wgt::BindGroupLayoutEntry]| {
        with(features, wgt::DownlevelFlags::all(), &limits, |rules| {
            check_entries(entries, rules).map(drop)
        })
    };
    let textures = Features::TEXTURE_BINDING_ARRAY;
    let buffers = Features::BUFFER_BINDING_ARRAY;
    let storage = Features::STORAGE_RESOURCE_BINDING_ARRAY;
    let written = storage_texture(
        wgt::StorageTextureAccess::WriteOnly,
        Format::Rgba8Unorm,
        wgt::TextureViewDimension::D2,
    );
    for (ty, needed) in [
        (TEXTURE, textures),
        (SAMPLER, textures),
        (UNIFORM, buffers),
        (STORAGE, buffers | storage),
        (written, textures | storage),
    ] {
        check(needed, &[array(0, ty, 3)]).unwrap();
        for one in [textures, buffers, storage] {
            if !needed.contains(one) {
                continue;
            }
            let error = check(needed - one, &[array(0, ty, 3)])
                .unwrap_err()
                .to_string();
            assert!(error.contains("array of bindings"), "{error}");
        }
    }
    // Counted as elements, not as textures or samplers.
    check(textures, &[array(0, TEXTURE, 100)]).unwrap();
    assert!(check(textures, &[array(0, TEXTURE, 101)]).is_err());
    assert!(check(
        textures,
        &[array(0, TEXTURE, u32::MAX), array(1, TEXTURE, u32::MAX)]
    )
    .is_err());
    check(textures, &[array(0, SAMPLER, 10)]).unwrap();
    assert!(check(textures, &[array(0, SAMPLER, 11)]).is_err());
    // One layout holds no array beside a dynamic offset or a uniform buffer.
    let dynamic = buffer(wgt::BufferBindingType::Storage { read_only: true }, true);
    let error = check(
        textures,
        &[array(0, TEXTURE, 2), entry(1, Stages::COMPUTE, dynamic)],
    );
    assert!(error.unwrap_err().to_string().contains("dynamic offset"));
    let error = check(
        textures,
        &[array(0, TEXTURE, 2), entry(1, Stages::COMPUTE, UNIFORM)],
    );
    assert!(error.unwrap_err().to_string().contains("uniform buffer"));
    assert!(check(buffers | storage, &[array(0, dynamic, 2)]).is_err());
}

/// Each limit, met and exceeded by one, in one layout and summed over two.
#[test]
fn counts_are_limited() {
    let limits = wgt::Limits {
        max_sampled_textures_per_shader_stage: 3,
        max_samplers_per_shader_stage: 4,
        max_storage_buffers_per_shader_stage: 5,
        max_storage_textures_per_shader_stage: 6,
        max_uniform_buffers_per_shader_stage: 7,
        max_dynamic_uniform_buffers_per_pipeline_layout: 2,
        max_dynamic_storage_buffers_per_pipeline_layout: 1,
        max_buffers_and_acceleration_structures_per_shader_stage: 8,
        ..Default::default()
    };
    let written = storage_texture(
        wgt::StorageTextureAccess::WriteOnly,
        Format::Rgba8Unorm,
        wgt::TextureViewDimension::D2,
    );
    with(NONE, wgt::DownlevelFlags::all(), &limits, |rules| {
        let layout = |ty: Type, count: u32| {
            let entries: Vec<_> = (0..count).map(|i| entry(i, Stages::COMPUTE, ty)).collect();
            check_entries(&entries, rules)
        };
        for (ty, limit) in [
            (TEXTURE, 3),
            (SAMPLER, 4),
            (READ_ONLY, 5),
            (written, 6),
            (UNIFORM, 7),
            (buffer(wgt::BufferBindingType::Uniform, true), 2),
            (
                buffer(wgt::BufferBindingType::Storage { read_only: false }, true),
                1,
            ),
        ] {
            let (_, mut counts) = layout(ty, limit).unwrap();
            assert!(layout(ty, limit + 1).is_err());
            let (_, one) = layout(ty, 1).unwrap();
            counts.merge(&one);
            assert!(counts.check(rules).is_err());
        }
        // Seven uniform and one storage buffer are eight; one more is too many, unless strict.
        let (_, mut counts) = layout(UNIFORM, 7).unwrap();
        let (_, one) = layout(STORAGE, 1).unwrap();
        counts.merge(&one);
        counts.check(rules).unwrap();
        counts.merge(&one);
        assert!(counts.check(rules).is_err());
        let strict = Rules {
            strict: true,
            ..*rules
        };
        counts.check(&strict).unwrap();
        // Stages are counted apart; dynamic offsets are counted without regard to stages.
        let (_, mut counts) = layout(TEXTURE, 3).unwrap();
        let (_, fragment) = check_entries(&[entry(0, Stages::FRAGMENT, TEXTURE)], rules).unwrap();
        counts.merge(&fragment);
        counts.check(rules).unwrap();
        let dynamic = buffer(wgt::BufferBindingType::Uniform, true);
        let hidden: Vec<_> = (0..3).map(|i| entry(i, Stages::NONE, dynamic)).collect();
        assert!(check_entries(&hidden, rules).is_err());
    });
}

#[test]
fn immediates_follow_three_rules() {
    let limits = wgt::Limits {
        max_immediate_size: 64,
        ..Default::default()
    };
    let on = Features::IMMEDIATES;
    check_immediate_size(0, NONE, &limits).unwrap();
    check_immediate_size(4, on, &limits).unwrap();
    check_immediate_size(64, on, &limits).unwrap();
    assert!(check_immediate_size(4, NONE, &limits).is_err());
    assert!(check_immediate_size(68, on, &limits).is_err());
    assert!(check_immediate_size(6, on, &limits).is_err());
}
