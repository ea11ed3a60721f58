//! Textures, views and samplers: what can be made, what cannot, and what shaders see of them.

use wgpu::{BufferUsages as B, TextureDimension as D, TextureFormat as F, TextureUsages as T};

use crate::harness::*;

fn descriptor<'a>(size: wgpu::Extent3d, format: F, usage: T) -> wgpu::TextureDescriptor<'a> {
    wgpu::TextureDescriptor {
        label: Some("the texture"),
        size,
        mip_level_count: 1,
        sample_count: 1,
        dimension: D::D2,
        format,
        usage,
        view_formats: &[],
    }
}

#[test]
fn every_supported_format() {
    test(|gpu| {
        let features = gpu.device.features();
        let mut made = 0;
        for format in FORMATS {
            if !features.contains(format.required_features()) {
                gpu.invalid(format, || {
                    gpu.device
                        .create_texture(&descriptor(extent(16, 16, 1), *format, T::COPY_DST))
                });
                continue;
            }
            let allowed = format.guaranteed_format_features(features).allowed_usages;
            let reported = gpu.adapter.get_texture_format_features(*format);
            assert!(
                reported
                    .allowed_usages
                    .contains(allowed & !T::STORAGE_ATOMIC),
                "{format:?}: what is guaranteed is reported"
            );
            for usage in [
                T::COPY_SRC,
                T::COPY_DST,
                T::TEXTURE_BINDING,
                T::STORAGE_BINDING,
            ] {
                if allowed.contains(usage) {
                    gpu.valid((format, usage), || {
                        gpu.device
                            .create_texture(&descriptor(extent(16, 16, 1), *format, usage))
                    });
                    made += 1;
                }
            }
        }
        assert!(made > 50);
    });
}

const FORMATS: &[F] = &[
    F::R8Unorm,
    F::R8Snorm,
    F::R8Uint,
    F::R8Sint,
    F::R16Uint,
    F::R16Sint,
    F::R16Float,
    F::Rg8Unorm,
    F::Rg8Snorm,
    F::Rg8Uint,
    F::Rg8Sint,
    F::R32Uint,
    F::R32Sint,
    F::R32Float,
    F::Rg16Uint,
    F::Rg16Sint,
    F::Rg16Float,
    F::Rgba8Unorm,
    F::Rgba8UnormSrgb,
    F::Rgba8Snorm,
    F::Rgba8Uint,
    F::Rgba8Sint,
    F::Bgra8Unorm,
    F::Bgra8UnormSrgb,
    F::Rgb9e5Ufloat,
    F::Rgb10a2Uint,
    F::Rgb10a2Unorm,
    F::Rg11b10Ufloat,
    F::Rg32Uint,
    F::Rg32Sint,
    F::Rg32Float,
    F::Rgba16Uint,
    F::Rgba16Sint,
    F::Rgba16Float,
    F::Rgba32Uint,
    F::Rgba32Sint,
    F::Rgba32Float,
    F::Stencil8,
    F::Depth16Unorm,
    F::Depth24Plus,
    F::Depth24PlusStencil8,
    F::Depth32Float,
    F::Depth32FloatStencil8,
    F::Bc1RgbaUnorm,
    F::Bc7RgbaUnorm,
    F::Etc2Rgb8Unorm,
    F::EacR11Unorm,
];

#[test]
fn getters() {
    test(|gpu| {
        let texture = gpu.device.create_texture(&wgpu::TextureDescriptor {
            mip_level_count: 3,
            ..descriptor(extent(16, 8, 4), F::Rgba8Unorm, T::all_copies())
        });
        texture.destroy();
        assert_eq!(texture.size(), extent(16, 8, 4));
        assert_eq!(texture.mip_level_count(), 3);
        assert_eq!(texture.format(), F::Rgba8Unorm);
        assert_eq!(texture.usage(), T::all_copies());
        assert_eq!(texture.dimension(), D::D2);
        assert_eq!(texture.sample_count(), 1);
    });
}

#[test]
fn texture_errors() {
    test(|gpu| {
        let limits = gpu.device.limits();
        let good = descriptor(extent(16, 16, 1), F::Rgba8Unorm, T::COPY_DST);
        let with_size = |size| wgpu::TextureDescriptor {
            size,
            ..good.clone()
        };
        let cases: Vec<(&str, wgpu::TextureDescriptor<'_>)> = vec![
            ("no width", with_size(extent(0, 16, 1))),
            ("no height", with_size(extent(16, 0, 1))),
            ("no layers", with_size(extent(16, 16, 0))),
            (
                "too wide",
                with_size(extent(limits.max_texture_dimension_2d + 1, 1, 1)),
            ),
            (
                "too high",
                with_size(extent(1, limits.max_texture_dimension_2d + 1, 1)),
            ),
            (
                "too many layers",
                with_size(extent(1, 1, limits.max_texture_array_layers + 1)),
            ),
            (
                "far too large",
                with_size(extent(u32::MAX, u32::MAX, u32::MAX)),
            ),
            (
                "no usage",
                wgpu::TextureDescriptor {
                    usage: T::empty(),
                    ..good.clone()
                },
            ),
            (
                "no mips",
                wgpu::TextureDescriptor {
                    mip_level_count: 0,
                    ..good.clone()
                },
            ),
            (
                "too many mips",
                wgpu::TextureDescriptor {
                    mip_level_count: 6,
                    ..good.clone()
                },
            ),
            (
                "far too many mips",
                wgpu::TextureDescriptor {
                    mip_level_count: u32::MAX,
                    ..good.clone()
                },
            ),
            (
                "no samples",
                wgpu::TextureDescriptor {
                    sample_count: 0,
                    ..good.clone()
                },
            ),
            (
                "3 samples",
                wgpu::TextureDescriptor {
                    sample_count: 3,
                    usage: T::RENDER_ATTACHMENT,
                    ..good.clone()
                },
            ),
            (
                "samples and mips",
                wgpu::TextureDescriptor {
                    sample_count: 4,
                    mip_level_count: 2,
                    usage: T::RENDER_ATTACHMENT,
                    ..good.clone()
                },
            ),
            (
                "samples and storage",
                wgpu::TextureDescriptor {
                    sample_count: 4,
                    usage: T::RENDER_ATTACHMENT | T::STORAGE_BINDING,
                    ..good.clone()
                },
            ),
            (
                "samples and no attachment",
                wgpu::TextureDescriptor {
                    sample_count: 4,
                    usage: T::TEXTURE_BINDING,
                    ..good.clone()
                },
            ),
            (
                "1D with height",
                wgpu::TextureDescriptor {
                    dimension: D::D1,
                    ..good.clone()
                },
            ),
            (
                "1D with mips",
                wgpu::TextureDescriptor {
                    dimension: D::D1,
                    mip_level_count: 2,
                    size: extent(16, 1, 1),
                    ..good.clone()
                },
            ),
            (
                "3D depth",
                wgpu::TextureDescriptor {
                    dimension: D::D3,
                    format: F::Depth32Float,
                    usage: T::COPY_SRC,
                    ..good.clone()
                },
            ),
            (
                "3D and too deep",
                wgpu::TextureDescriptor {
                    dimension: D::D3,
                    size: extent(1, 1, limits.max_texture_dimension_3d + 1),
                    ..good.clone()
                },
            ),
            (
                "no storage in sRGB",
                wgpu::TextureDescriptor {
                    format: F::Rgba8UnormSrgb,
                    usage: T::STORAGE_BINDING,
                    ..good.clone()
                },
            ),
            (
                "view format of another kind",
                wgpu::TextureDescriptor {
                    view_formats: &[F::R32Uint],
                    ..good.clone()
                },
            ),
        ];
        for (what, desc) in cases {
            let error = gpu.invalid(what, || gpu.device.create_texture(&desc));
            assert_names(&error, "the texture");
        }
    });
}

#[test]
fn view_errors() {
    test(|gpu| {
        let texture = gpu.device.create_texture(&wgpu::TextureDescriptor {
            mip_level_count: 3,
            ..descriptor(extent(16, 16, 4), F::Rgba8Unorm, T::TEXTURE_BINDING)
        });
        use wgpu::TextureViewDimension as V;
        let base = wgpu::TextureViewDescriptor {
            label: Some("the view"),
            ..Default::default()
        };
        let cases: Vec<(&str, wgpu::TextureViewDescriptor<'_>)> = vec![
            (
                "no mips",
                wgpu::TextureViewDescriptor {
                    mip_level_count: Some(0),
                    ..base.clone()
                },
            ),
            (
                "mips past the end",
                wgpu::TextureViewDescriptor {
                    base_mip_level: 2,
                    mip_level_count: Some(2),
                    ..base.clone()
                },
            ),
            (
                "mips overflow",
                wgpu::TextureViewDescriptor {
                    base_mip_level: 2,
                    mip_level_count: Some(u32::MAX),
                    ..base.clone()
                },
            ),
            (
                "no such mip",
                wgpu::TextureViewDescriptor {
                    base_mip_level: 3,
                    ..base.clone()
                },
            ),
            (
                "no layers",
                wgpu::TextureViewDescriptor {
                    array_layer_count: Some(0),
                    ..base.clone()
                },
            ),
            (
                "layers past the end",
                wgpu::TextureViewDescriptor {
                    base_array_layer: 2,
                    array_layer_count: Some(3),
                    ..base.clone()
                },
            ),
            (
                "layers overflow",
                wgpu::TextureViewDescriptor {
                    base_array_layer: 2,
                    array_layer_count: Some(u32::MAX),
                    ..base.clone()
                },
            ),
            (
                "no such layer",
                wgpu::TextureViewDescriptor {
                    base_array_layer: 4,
                    ..base.clone()
                },
            ),
            (
                "2D of four layers",
                wgpu::TextureViewDescriptor {
                    dimension: Some(V::D2),
                    array_layer_count: Some(4),
                    ..base.clone()
                },
            ),
            (
                "cube of four layers",
                wgpu::TextureViewDescriptor {
                    dimension: Some(V::Cube),
                    ..base.clone()
                },
            ),
            (
                "3D of a 2D texture",
                wgpu::TextureViewDescriptor {
                    dimension: Some(V::D3),
                    ..base.clone()
                },
            ),
            (
                "another format",
                wgpu::TextureViewDescriptor {
                    format: Some(F::R32Uint),
                    ..base.clone()
                },
            ),
            (
                "a format that was not listed",
                wgpu::TextureViewDescriptor {
                    format: Some(F::Rgba8UnormSrgb),
                    ..base.clone()
                },
            ),
            (
                "an aspect it has not",
                wgpu::TextureViewDescriptor {
                    aspect: wgpu::TextureAspect::DepthOnly,
                    ..base.clone()
                },
            ),
            (
                "a usage it has not",
                wgpu::TextureViewDescriptor {
                    usage: Some(T::STORAGE_BINDING),
                    ..base.clone()
                },
            ),
        ];
        for (what, desc) in cases {
            gpu.invalid(what, || texture.create_view(&desc));
        }
        gpu.valid("mips and layers", || {
            texture.create_view(&wgpu::TextureViewDescriptor {
                dimension: Some(V::D2Array),
                base_mip_level: 1,
                mip_level_count: Some(2),
                base_array_layer: 1,
                array_layer_count: Some(3),
                ..base.clone()
            })
        });
    });
}

#[test]
fn sampler_errors() {
    test(|gpu| {
        let good = wgpu::SamplerDescriptor {
            label: Some("the sampler"),
            ..Default::default()
        };
        gpu.valid("the default", || gpu.device.create_sampler(&good));
        let linear = wgpu::SamplerDescriptor {
            mag_filter: wgpu::FilterMode::Linear,
            min_filter: wgpu::FilterMode::Linear,
            mipmap_filter: wgpu::MipmapFilterMode::Linear,
            ..good.clone()
        };
        gpu.valid("anisotropy", || {
            gpu.device.create_sampler(&wgpu::SamplerDescriptor {
                anisotropy_clamp: 4,
                ..linear.clone()
            })
        });
        let cases = [
            (
                "negative lod",
                wgpu::SamplerDescriptor {
                    lod_min_clamp: -1.0,
                    ..good.clone()
                },
            ),
            (
                "lods swapped",
                wgpu::SamplerDescriptor {
                    lod_min_clamp: 2.0,
                    lod_max_clamp: 1.0,
                    ..good.clone()
                },
            ),
            (
                "no anisotropy",
                wgpu::SamplerDescriptor {
                    anisotropy_clamp: 0,
                    ..linear.clone()
                },
            ),
            (
                "anisotropy without linear filters",
                wgpu::SamplerDescriptor {
                    anisotropy_clamp: 4,
                    ..good.clone()
                },
            ),
        ];
        for (what, desc) in cases {
            let error = gpu.invalid(what, || gpu.device.create_sampler(&desc));
            assert_names(&error, "the sampler");
        }
        gpu.invalid("a border without the feature", || {
            gpu.device.create_sampler(&wgpu::SamplerDescriptor {
                address_mode_u: wgpu::AddressMode::ClampToBorder,
                border_color: Some(wgpu::SamplerBorderColor::OpaqueWhite),
                ..good.clone()
            })
        });
    });
}

/// Samplers do what they say, seen by a shader.
#[test]
fn sampling() {
    test(|gpu| {
        let texture = gpu.texture("ramp", (4, 1), F::R8Unorm, T::COPY_DST | T::TEXTURE_BINDING);
        gpu.queue.write_texture(
            texture.as_image_copy(),
            &[0, 100, 200, 255],
            Default::default(),
            extent(4, 1, 1),
        );
        let view = gpu.view(&texture);
        let pipeline = gpu.pipeline(
            "@group(0) @binding(0) var input: texture_2d<f32>;
            @group(0) @binding(1) var how: sampler;
            @group(0) @binding(2) var<storage, read_write> output: array<u32>;
            @compute @workgroup_size(1) fn main() {
                let places = array(0.125, 0.375, 0.5, 1.125, -0.125, 1.375);
                for (var i = 0u; i < 6u; i++) {
                    let texel = textureSampleLevel(input, how, vec2(places[i], 0.5), 0.0).x;
                    output[i] = u32(round(texel * 255.0));
                }
            }",
        );
        let sampled = |address, filter| {
            let sampler = gpu.device.create_sampler(&wgpu::SamplerDescriptor {
                address_mode_u: address,
                mag_filter: filter,
                min_filter: filter,
                ..Default::default()
            });
            let output = gpu.buffer("output", 24, B::STORAGE | B::COPY_SRC);
            let group = gpu.group(
                &pipeline,
                &[
                    wgpu::BindingResource::TextureView(&view),
                    wgpu::BindingResource::Sampler(&sampler),
                    output.as_entire_binding(),
                ],
            );
            gpu.run(|encoder| {
                let mut pass = encoder.begin_compute_pass(&Default::default());
                pass.set_pipeline(&pipeline);
                pass.set_bind_group(0, &group, &[]);
                pass.dispatch_workgroups(1, 1, 1);
            });
            gpu.read_words(&output)
        };
        use wgpu::{AddressMode as A, FilterMode as M};
        let linear = sampled(A::ClampToEdge, M::Linear);
        assert_eq!(linear[..2], [0, 100]);
        assert!((149..=151).contains(&linear[2]), "half way: {}", linear[2]);
        assert_eq!(linear[3..], [255, 0, 255], "clamped");
        let nearest = sampled(A::Repeat, M::Nearest);
        assert_eq!(
            (nearest[3], nearest[4], nearest[5]),
            (0, 255, 100),
            "repeated"
        );
        let mirrored = sampled(A::MirrorRepeat, M::Nearest);
        assert_eq!(
            (mirrored[3], mirrored[4], mirrored[5]),
            (255, 0, 200),
            "mirrored"
        );
    });
}

/// Views choose the mip and the layer that a shader sees.
#[test]
fn views_choose_mips_and_layers() {
    test(|gpu| {
        let texture = gpu.device.create_texture(&wgpu::TextureDescriptor {
            mip_level_count: 2,
            ..descriptor(
                extent(2, 2, 3),
                F::R32Uint,
                T::COPY_DST | T::TEXTURE_BINDING,
            )
        });
        for layer in 0..3u32 {
            for (mip_level, side) in [(0u32, 2u32), (1, 1)] {
                let value = 10 * layer + mip_level;
                gpu.queue.write_texture(
                    wgpu::TexelCopyTextureInfo {
                        mip_level,
                        origin: wgpu::Origin3d {
                            x: 0,
                            y: 0,
                            z: layer,
                        },
                        ..texture.as_image_copy()
                    },
                    &bytes(&vec![value; (side * side) as usize]),
                    layout(0, 4 * side, side),
                    extent(side, side, 1),
                );
            }
        }
        let pipeline = gpu.pipeline(
            "@group(0) @binding(0) var input: texture_2d<u32>;
            @group(0) @binding(1) var<storage, read_write> output: array<u32>;
            @compute @workgroup_size(1) fn main() {
                output[0] = textureLoad(input, vec2(0, 0), 0).x;
                output[1] = textureNumLevels(input);
                output[2] = textureDimensions(input).x;
            }",
        );
        for layer in 0..3 {
            for mip in 0..2 {
                let view = texture.create_view(&wgpu::TextureViewDescriptor {
                    dimension: Some(wgpu::TextureViewDimension::D2),
                    base_mip_level: mip,
                    base_array_layer: layer,
                    array_layer_count: Some(1),
                    ..Default::default()
                });
                let output = gpu.buffer("output", 16, B::STORAGE | B::COPY_SRC);
                let group = gpu.group(
                    &pipeline,
                    &[
                        wgpu::BindingResource::TextureView(&view),
                        output.as_entire_binding(),
                    ],
                );
                gpu.run(|encoder| {
                    let mut pass = encoder.begin_compute_pass(&Default::default());
                    pass.set_pipeline(&pipeline);
                    pass.set_bind_group(0, &group, &[]);
                    pass.dispatch_workgroups(1, 1, 1);
                });
                assert_eq!(
                    gpu.read_words(&output)[..3],
                    [10 * layer + mip, 2 - mip, 2 - mip]
                );
            }
        }
    });
}

/// One dispatch writes a mip while it reads another: subresources have states of their own.
#[test]
fn mips_from_mips() {
    test(|gpu| {
        let texture = gpu.device.create_texture(&wgpu::TextureDescriptor {
            mip_level_count: 4,
            ..descriptor(
                extent(8, 8, 1),
                F::R32Uint,
                T::all_copies() | T::TEXTURE_BINDING | T::STORAGE_BINDING,
            )
        });
        let data: Vec<u32> = (0..64).collect();
        gpu.queue.write_texture(
            texture.as_image_copy(),
            &bytes(&data),
            layout(0, 32, 8),
            extent(8, 8, 1),
        );
        let pipeline = gpu.pipeline(
            "@group(0) @binding(0) var input: texture_2d<u32>;
            @group(0) @binding(1) var output: texture_storage_2d<r32uint, write>;
            @compute @workgroup_size(1) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
                var sum = 0u;
                for (var i = 0u; i < 4u; i++) {
                    sum += textureLoad(input, id.xy * 2u + vec2(i & 1u, i >> 1u), 0).x;
                }
                textureStore(output, id.xy, vec4(sum));
            }",
        );
        let view = |mip| {
            texture.create_view(&wgpu::TextureViewDescriptor {
                base_mip_level: mip,
                mip_level_count: Some(1),
                ..Default::default()
            })
        };
        gpu.valid("mip by mip", || {
            gpu.run(|encoder| {
                for mip in 0..3 {
                    let group = gpu.group(
                        &pipeline,
                        &[
                            wgpu::BindingResource::TextureView(&view(mip)),
                            wgpu::BindingResource::TextureView(&view(mip + 1)),
                        ],
                    );
                    let mut pass = encoder.begin_compute_pass(&Default::default());
                    pass.set_pipeline(&pipeline);
                    pass.set_bind_group(0, &group, &[]);
                    pass.dispatch_workgroups(8 >> (mip + 1), 8 >> (mip + 1), 1);
                }
            })
        });
        let last = gpu.read_texels(
            wgpu::TexelCopyTextureInfo {
                mip_level: 3,
                ..texture.as_image_copy()
            },
            extent(1, 1, 1),
            4,
        );
        assert_eq!(words(&last), [data.iter().sum::<u32>()]);
    });
}

#[test]
fn storage_textures() {
    test(|gpu| {
        for (wgsl_format, format, value, texel) in [
            ("r32uint", F::R32Uint, "vec4(7u)", 7u32),
            ("r32sint", F::R32Sint, "vec4(-7)", (-7i32) as u32),
            ("r32float", F::R32Float, "vec4(1.5)", 1.5f32.to_bits()),
            (
                "rgba8unorm",
                F::Rgba8Unorm,
                "vec4(1.0, 0.0, 1.0, 0.0)",
                0x00ff_00ff,
            ),
            (
                "rgba8uint",
                F::Rgba8Uint,
                "vec4(1u, 2u, 3u, 4u)",
                0x0403_0201,
            ),
        ] {
            let texture = gpu.texture("target", (8, 8), format, T::STORAGE_BINDING | T::COPY_SRC);
            let pipeline = gpu.pipeline(&format!(
                "@group(0) @binding(0) var output: texture_storage_2d<{wgsl_format}, write>;
                @compute @workgroup_size(8, 8) fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
                    textureStore(output, id.xy, {value});
                }}"
            ));
            let group = gpu.group(
                &pipeline,
                &[wgpu::BindingResource::TextureView(&gpu.view(&texture))],
            );
            gpu.valid(wgsl_format, || {
                gpu.run(|encoder| {
                    let mut pass = encoder.begin_compute_pass(&Default::default());
                    pass.set_pipeline(&pipeline);
                    pass.set_bind_group(0, &group, &[]);
                    pass.dispatch_workgroups(1, 1, 1);
                })
            });
            let texels = gpu.read_texels(texture.as_image_copy(), extent(8, 8, 1), 4);
            assert_eq!(words(&texels), [texel; 64], "{wgsl_format}");
        }
    });
}

/// A texture has one layout at a time. Reading it in two ways at once works within one bind group, where
/// both bindings can agree on it, and is an error from two.
#[test]
fn sampled_and_storage_reads_of_one_texture() {
    test(|gpu| {
        let texels: Vec<u32> = (0..64).collect();
        let usage = T::STORAGE_BINDING | T::TEXTURE_BINDING | T::COPY_DST;
        let texture = gpu.texture("read twice", (8, 8), F::R32Uint, usage);
        gpu.queue.write_texture(
            texture.as_image_copy(),
            &bytes(&texels),
            layout(0, 32, 8),
            extent(8, 8, 1),
        );
        let output = gpu.buffer(
            "output",
            256,
            wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC,
        );
        let pipeline = |second: u32| {
            gpu.pipeline(&format!(
                "@group(0) @binding(0) var sampled: texture_2d<u32>;
                @group({second}) @binding(1) var stored: texture_storage_2d<r32uint, read>;
                @group(0) @binding(2) var<storage, read_write> output: array<u32>;
                @compute @workgroup_size(8, 8) fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
                    output[id.y * 8 + id.x] =
                        textureLoad(sampled, id.xy, 0).x + textureLoad(stored, id.xy).x;
                }}"
            ))
        };
        let bind = |pipeline: &wgpu::ComputePipeline, group: u32, bindings: &[u32]| {
            let view = gpu.view(&texture);
            let entries: Vec<_> = bindings
                .iter()
                .map(|&binding| wgpu::BindGroupEntry {
                    binding,
                    resource: match binding {
                        2 => output.as_entire_binding(),
                        _ => wgpu::BindingResource::TextureView(&view),
                    },
                })
                .collect();
            gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
                label: None,
                layout: &pipeline.get_bind_group_layout(group),
                entries: &entries,
            })
        };
        let dispatch = |pipeline: &wgpu::ComputePipeline, groups: &[wgpu::BindGroup]| {
            let mut encoder = gpu.encoder();
            {
                let mut pass = encoder.begin_compute_pass(&Default::default());
                pass.set_pipeline(pipeline);
                for (index, group) in (0..).zip(groups) {
                    pass.set_bind_group(index, group, &[]);
                }
                pass.dispatch_workgroups(1, 1, 1);
            }
            encoder.finish()
        };
        let one = pipeline(0);
        let group = bind(&one, 0, &[0, 1, 2]);
        gpu.valid("one group", || gpu.queue.submit([dispatch(&one, &[group])]));
        let doubled: Vec<u32> = texels.iter().map(|texel| texel * 2).collect();
        assert_eq!(gpu.read_words(&output), doubled);

        if ours_alone("it gives the driver a layout that is not the texture's") {
            return;
        }
        let two = pipeline(1);
        let groups = [bind(&two, 0, &[0, 2]), bind(&two, 1, &[1])];
        let error = gpu.invalid("two groups", || dispatch(&two, &groups));
        assert_names(&error, "read twice");
    });
}
