//! Copies between buffers and textures, and the clears.

use wgpu::{BufferUsages as B, TextureFormat as F, TextureUsages as T};

use crate::harness::*;

#[test]
fn buffer_to_buffer() {
    test(|gpu| {
        let bytes = pattern(1024, 1);
        let source = gpu.filled("source", B::all_copies(), &bytes);
        for (from, to, size) in [
            (0u64, 0u64, Some(1024u64)),
            (4, 8, Some(100)),
            (1020, 0, Some(4)),
            (0, 1020, Some(4)),
            (512, 512, None),
            (0, 0, Some(0)),
            (1024, 1024, None),
        ] {
            let target = gpu.buffer("target", 1024, B::all_copies());
            gpu.valid((from, to, size), || {
                gpu.run(|encoder| encoder.copy_buffer_to_buffer(&source, from, &target, to, size))
            });
            let size = size.unwrap_or(1024 - from) as usize;
            let mut expected = vec![0; 1024];
            expected[to as usize..to as usize + size]
                .copy_from_slice(&bytes[from as usize..from as usize + size]);
            assert!(gpu.read(&target) == expected, "{from} {to} {size}");
        }
    });
}

#[test]
fn buffer_to_buffer_errors() {
    test(|gpu| {
        let both = gpu.buffer("both", 256, B::all_copies());
        let other = gpu.buffer("other", 256, B::all_copies());
        let source = gpu.buffer("source only", 256, B::COPY_SRC);
        let target = gpu.buffer("target only", 256, B::COPY_DST);
        for (what, from, from_at, to, to_at, size) in [
            ("source lacks COPY_SRC", &target, 0, &other, 0, 4),
            ("target lacks COPY_DST", &other, 0, &source, 0, 4),
            ("source offset", &both, 2, &other, 0, 4),
            ("target offset", &both, 0, &other, 2, 4),
            ("size", &both, 0, &other, 0, 6),
            ("past the source's end", &both, 252, &other, 0, 8),
            ("past the target's end", &both, 0, &other, 252, 8),
            ("source offset overflows", &both, u64::MAX - 3, &other, 0, 8),
            ("target offset overflows", &both, 0, &other, u64::MAX - 3, 8),
            ("size overflows", &both, 0, &other, 0, u64::MAX - 3),
            ("same buffer", &both, 0, &both, 128, 4),
        ] {
            gpu.invalid(what, || {
                gpu.commands(|encoder| {
                    encoder.copy_buffer_to_buffer(from, from_at, to, to_at, size);
                })
            });
        }
    });
}

/// An encoder with an error makes commands that cannot be submitted, and says why once.
#[test]
fn errors_come_at_finish() {
    test(|gpu| {
        let buffer = gpu.buffer("buffer", 256, B::COPY_DST);
        let mut encoder = gpu.encoder();
        gpu.valid("while recording", || {
            encoder.clear_buffer(&buffer, 2, None);
            encoder.clear_buffer(&buffer, 0, None);
        });
        let (commands, error) = gpu.error_of(|| encoder.finish());
        assert!(error.is_some(), "at finish");
        gpu.invalid("at submit", || gpu.queue.submit([commands]));
    });
}

fn texture(
    gpu: &Gpu,
    dimension: wgpu::TextureDimension,
    size: wgpu::Extent3d,
    mips: u32,
    format: F,
) -> wgpu::Texture {
    gpu.device.create_texture(&wgpu::TextureDescriptor {
        label: Some("texture"),
        size,
        mip_level_count: mips,
        sample_count: 1,
        dimension,
        format,
        usage: T::all_copies(),
        view_formats: &[],
    })
}

fn place(
    texture: &wgpu::Texture,
    mip_level: u32,
    x: u32,
    y: u32,
    z: u32,
) -> wgpu::TexelCopyTextureInfo<'_> {
    wgpu::TexelCopyTextureInfo {
        texture,
        mip_level,
        origin: wgpu::Origin3d { x, y, z },
        aspect: wgpu::TextureAspect::All,
    }
}

/// Into a texture and out of it again, for every dimension, with rows and images padded.
#[test]
fn buffer_to_texture_and_back() {
    use wgpu::TextureDimension::{D1, D2, D3};
    test(|gpu| {
        for (dimension, size, format, texel) in [
            (D1, extent(37, 1, 1), F::R32Uint, 4u32),
            (D2, extent(13, 7, 1), F::R8Unorm, 1),
            (D2, extent(13, 7, 1), F::Rgba8Unorm, 4),
            (D2, extent(13, 7, 5), F::Rg16Float, 4),
            (D2, extent(64, 64, 2), F::Rgba32Float, 16),
            (D3, extent(9, 5, 6), F::Rgba8Uint, 4),
            (D3, extent(9, 5, 6), F::R32Float, 4),
        ] {
            let what = format!("{dimension:?} {size:?} {format:?}");
            let texture = texture(gpu, dimension, size, 1, format);
            let row = size.width * texel;
            let pitch = row.next_multiple_of(256);
            let images = if dimension == D1 { 1 } else { size.height + 2 };
            let depth = size.depth_or_array_layers;
            let offset = 2 * texel.max(4);
            let len = (offset + pitch * images * depth).next_multiple_of(4);
            let mut packed = Vec::new();
            let mut padded = vec![0xee; len as usize];
            for image in 0..depth {
                for line in 0..size.height {
                    // Floats are kept away from patterns that could be changed on the way.
                    let bytes: Vec<u8> = pattern(row as usize, image * 100 + line)
                        .iter()
                        .map(|byte| byte & 0x3f)
                        .collect();
                    let at = (offset + (image * images + line) * pitch) as usize;
                    padded[at..at + row as usize].copy_from_slice(&bytes);
                    packed.extend(bytes);
                }
            }
            let source = gpu.filled("source", B::COPY_SRC, &padded);
            gpu.valid(&what, || {
                gpu.run(|encoder| {
                    encoder.copy_buffer_to_texture(
                        wgpu::TexelCopyBufferInfo {
                            buffer: &source,
                            layout: layout(u64::from(offset), pitch, images),
                        },
                        texture.as_image_copy(),
                        size,
                    );
                })
            });
            assert!(
                gpu.read_texels(texture.as_image_copy(), size, texel) == packed,
                "{what}: tightly"
            );
            let target = gpu.filled("target", B::all_copies(), &vec![0xee; len as usize]);
            gpu.run(|encoder| {
                encoder.copy_texture_to_buffer(
                    texture.as_image_copy(),
                    wgpu::TexelCopyBufferInfo {
                        buffer: &target,
                        layout: layout(u64::from(offset), pitch, images),
                    },
                    size,
                );
            });
            assert!(gpu.read(&target) == padded, "{what}: and only the texels");
        }
    });
}

#[test]
fn texture_to_texture() {
    use wgpu::TextureDimension::{D2, D3};
    test(|gpu| {
        // Mips and layers of 2D, slices of 3D, and from one kind to the other.
        let flat = texture(gpu, D2, extent(16, 16, 4), 3, F::R32Uint);
        let other = texture(gpu, D2, extent(16, 16, 4), 3, F::R32Uint);
        let solid = texture(gpu, D3, extent(8, 8, 8), 1, F::R32Uint);
        let data = pattern(8 * 8 * 4, 1);
        gpu.queue.write_texture(
            place(&flat, 1, 0, 0, 2),
            &data,
            layout(0, 32, 8),
            extent(8, 8, 1),
        );
        gpu.run(|encoder| {
            // A mip of a layer, whole, into the middle of another's first mip.
            encoder.copy_texture_to_texture(
                place(&flat, 1, 0, 0, 2),
                place(&other, 0, 4, 4, 1),
                extent(8, 8, 1),
            );
            // And on into a slice of a 3D texture, and back into a layer.
            encoder.copy_texture_to_texture(
                place(&other, 0, 4, 4, 1),
                place(&solid, 0, 0, 0, 5),
                extent(8, 8, 1),
            );
            encoder.copy_texture_to_texture(
                place(&solid, 0, 0, 0, 5),
                place(&flat, 1, 0, 0, 3),
                extent(8, 8, 1),
            );
        });
        for (what, at) in [
            ("2D", place(&other, 0, 4, 4, 1)),
            ("3D", place(&solid, 0, 0, 0, 5)),
            ("layer", place(&flat, 1, 0, 0, 3)),
        ] {
            assert!(gpu.read_texels(at, extent(8, 8, 1), 4) == data, "{what}");
        }
        // Around them everything is zero.
        let around = gpu.read_texels(place(&other, 0, 0, 0, 1), extent(16, 4, 1), 4);
        assert!(around.iter().all(|byte| *byte == 0));
        // Several slices at a time, within one texture from layer to layer.
        gpu.valid("layers of one texture", || {
            gpu.run(|encoder| {
                encoder.copy_texture_to_texture(
                    place(&flat, 1, 0, 0, 2),
                    place(&flat, 1, 0, 0, 0),
                    extent(8, 8, 2),
                );
            })
        });
        assert!(gpu.read_texels(place(&flat, 1, 0, 0, 0), extent(8, 8, 1), 4) == data);
        assert!(gpu.read_texels(place(&flat, 1, 0, 0, 1), extent(8, 8, 1), 4) == data);
        gpu.invalid("a subresource onto itself", || {
            gpu.commands(|encoder| {
                encoder.copy_texture_to_texture(
                    place(&flat, 0, 0, 0, 0),
                    place(&flat, 0, 8, 8, 0),
                    extent(4, 4, 1),
                );
            })
        });
    });
}

#[test]
fn texture_copy_errors() {
    use wgpu::TextureDimension::D2;
    test(|gpu| {
        let image = texture(gpu, D2, extent(16, 16, 2), 2, F::R32Uint);
        let float = texture(gpu, D2, extent(16, 16, 2), 2, F::R32Float);
        let source_only = gpu.texture("source only", (16, 16), F::R32Uint, T::COPY_SRC);
        let buffer = gpu.buffer("buffer", 4096, B::all_copies());
        let buffer_source = gpu.buffer("buffer, source only", 4096, B::COPY_SRC);
        let from_buffer = |what: &str, layout, at: wgpu::TexelCopyTextureInfo<'_>, size| {
            gpu.invalid(what, || {
                gpu.commands(|encoder| {
                    let buffer = &buffer;
                    encoder.copy_buffer_to_texture(
                        wgpu::TexelCopyBufferInfo { buffer, layout },
                        at,
                        size,
                    );
                })
            });
        };
        let at = |mip, x, y, z| place(&image, mip, x, y, z);
        let full = extent(16, 16, 1);
        let tight = wgpu::TexelCopyBufferLayout {
            offset: 0,
            bytes_per_row: Some(256),
            rows_per_image: None,
        };
        from_buffer(
            "bytes per row not of 256",
            layout(0, 100, 16),
            at(0, 0, 0, 0),
            full,
        );
        from_buffer("no bytes per row", Default::default(), at(0, 0, 0, 0), full);
        from_buffer(
            "rows per image too few",
            layout(0, 256, 15),
            at(0, 0, 0, 0),
            full,
        );
        from_buffer(
            "no rows per image for two layers",
            tight,
            at(0, 0, 0, 0),
            extent(16, 8, 2),
        );
        from_buffer(
            "offset not of the texel",
            layout(2, 256, 16),
            at(0, 0, 0, 0),
            extent(1, 1, 1),
        );
        from_buffer(
            "past the buffer's end",
            layout(256, 256, 16),
            at(0, 0, 0, 0),
            full,
        );
        from_buffer(
            "offset overflows",
            layout(u64::MAX - 3, 256, 16),
            at(0, 0, 0, 0),
            full,
        );
        from_buffer(
            "past the texture's edge",
            layout(0, 256, 16),
            at(0, 1, 0, 0),
            full,
        );
        from_buffer(
            "past the mip's edge",
            layout(0, 256, 16),
            at(1, 0, 0, 0),
            full,
        );
        from_buffer(
            "no such mip",
            layout(0, 256, 16),
            at(2, 0, 0, 0),
            extent(1, 1, 1),
        );
        from_buffer(
            "no such layer",
            layout(0, 256, 16),
            at(0, 0, 0, 2),
            extent(1, 1, 1),
        );
        from_buffer(
            "texture lacks COPY_DST",
            layout(0, 256, 16),
            source_only.as_image_copy(),
            full,
        );
        gpu.invalid("buffer lacks COPY_DST", || {
            gpu.commands(|encoder| {
                encoder.copy_texture_to_buffer(
                    image.as_image_copy(),
                    wgpu::TexelCopyBufferInfo {
                        buffer: &buffer_source,
                        layout: tight,
                    },
                    full,
                );
            })
        });
        for (what, source, target, size) in [
            (
                "formats differ",
                float.as_image_copy(),
                image.as_image_copy(),
                full,
            ),
            (
                "past the source's edge",
                place(&image, 0, 8, 0, 0),
                place(&image, 0, 0, 0, 1),
                full,
            ),
            (
                "past the target's edge",
                place(&image, 0, 0, 0, 0),
                place(&image, 0, 0, 8, 1),
                full,
            ),
            (
                "mip sizes differ",
                place(&image, 0, 0, 0, 0),
                place(&image, 1, 0, 0, 1),
                full,
            ),
            (
                "target lacks COPY_DST",
                image.as_image_copy(),
                source_only.as_image_copy(),
                full,
            ),
        ] {
            gpu.invalid(what, || {
                gpu.commands(|encoder| encoder.copy_texture_to_texture(source, target, size))
            });
        }
    });
}

#[test]
fn depth_and_stencil_copies() {
    test(|gpu| {
        let texture = gpu.texture("stencil", (8, 8), F::Stencil8, T::all_copies());
        let data = pattern(64, 3);
        gpu.valid("write a stencil", || {
            gpu.queue.write_texture(
                wgpu::TexelCopyTextureInfo {
                    aspect: wgpu::TextureAspect::StencilOnly,
                    ..texture.as_image_copy()
                },
                &data,
                layout(0, 8, 8),
                extent(8, 8, 1),
            );
        });
        assert!(gpu.read_texels(texture.as_image_copy(), extent(8, 8, 1), 1) == data);
        let depth = gpu.texture("depth", (8, 8), F::Depth32Float, T::all_copies());
        gpu.invalid("depth cannot be written", || {
            gpu.queue.write_texture(
                depth.as_image_copy(),
                &[0; 256],
                layout(0, 32, 8),
                extent(8, 8, 1),
            );
        });
        let texels = gpu.read_texels(depth.as_image_copy(), extent(8, 8, 1), 4);
        assert!(
            texels.iter().all(|byte| *byte == 0),
            "but read, and is zero"
        );
        gpu.invalid("a part of a depth texture", || {
            let buffer = gpu.buffer("target", 4096, B::COPY_DST);
            gpu.commands(|encoder| {
                encoder.copy_texture_to_buffer(
                    depth.as_image_copy(),
                    wgpu::TexelCopyBufferInfo {
                        buffer: &buffer,
                        layout: layout(0, 256, 4),
                    },
                    extent(4, 4, 1),
                );
            })
        });
    });
}

/// Blocks: sizes and origins count in them.
#[test]
fn compressed_copies() {
    test_with(wgpu::Features::TEXTURE_COMPRESSION_BC, |gpu| {
        let texture = gpu.texture("blocks", (16, 8), F::Bc1RgbaUnorm, T::all_copies());
        let data = pattern(4 * 2 * 8, 1);
        gpu.queue.write_texture(
            texture.as_image_copy(),
            &data,
            layout(0, 32, 2),
            extent(16, 8, 1),
        );
        let back = gpu.buffer("back", 512, B::all_copies());
        gpu.valid("blocks out", || {
            gpu.run(|encoder| {
                encoder.copy_texture_to_buffer(
                    place(&texture, 0, 4, 4, 0),
                    wgpu::TexelCopyBufferInfo {
                        buffer: &back,
                        layout: layout(0, 256, 1),
                    },
                    extent(8, 4, 1),
                );
            })
        });
        assert_eq!(gpu.read(&back)[..16], data[40..56]);
        for (what, at, size) in [
            (
                "origin within a block",
                place(&texture, 0, 2, 0, 0),
                extent(4, 4, 1),
            ),
            (
                "size within a block",
                place(&texture, 0, 0, 0, 0),
                extent(6, 4, 1),
            ),
        ] {
            gpu.invalid(what, || {
                gpu.queue.write_texture(at, &data, layout(0, 32, 2), size);
            });
        }
    });
}

#[test]
fn clear_buffer() {
    test(|gpu| {
        let usage = B::all_copies();
        for (offset, size) in [
            (0u64, None),
            (0, Some(256u64)),
            (4, Some(8)),
            (252, None),
            (8, Some(0)),
        ] {
            let buffer = gpu.filled("cleared", usage, &[1; 256]);
            gpu.valid((offset, size), || {
                gpu.run(|encoder| encoder.clear_buffer(&buffer, offset, size))
            });
            let mut expected = vec![1; 256];
            let len = size.unwrap_or(256 - offset);
            expected[offset as usize..(offset + len) as usize].fill(0);
            assert_eq!(gpu.read(&buffer), expected);
        }
        let buffer = gpu.buffer("cleared", 256, usage);
        let no_usage = gpu.buffer("cleared", 256, B::COPY_SRC);
        for (what, buffer, offset, size) in [
            ("offset", &buffer, 2, None),
            ("size", &buffer, 0, Some(6)),
            ("past the end", &buffer, 252, Some(8)),
            ("beyond the end", &buffer, 260, None),
            ("overflow", &buffer, 4, Some(u64::MAX - 3)),
            ("lacks COPY_DST", &no_usage, 0, None),
        ] {
            gpu.invalid(what, || {
                gpu.commands(|encoder| encoder.clear_buffer(buffer, offset, size))
            });
        }
    });
}

#[test]
fn clear_texture() {
    test_with(wgpu::Features::CLEAR_TEXTURE, |gpu| {
        let image = texture(
            gpu,
            wgpu::TextureDimension::D2,
            extent(8, 8, 3),
            2,
            F::R32Uint,
        );
        let fill = || {
            for (mip, side) in [(0, 8u32), (1, 4)] {
                gpu.queue.write_texture(
                    place(&image, mip, 0, 0, 0),
                    &vec![1; (side * side * 4 * 3) as usize],
                    layout(0, side * 4, side),
                    extent(side, side, 3),
                );
            }
        };
        let cleared = |mip, layer| {
            let side = 8u32 >> mip;
            let texels = gpu.read_texels(place(&image, mip, 0, 0, layer), extent(side, side, 1), 4);
            let zero = texels.iter().all(|byte| *byte == 0);
            assert!(zero || texels.iter().all(|byte| *byte == 1));
            zero
        };
        fill();
        gpu.run(|encoder| encoder.clear_texture(&image, &Default::default()));
        assert!(cleared(0, 0) && cleared(1, 2), "all of it");
        fill();
        gpu.run(|encoder| {
            encoder.clear_texture(
                &image,
                &wgpu::ImageSubresourceRange {
                    base_mip_level: 1,
                    mip_level_count: Some(1),
                    base_array_layer: 1,
                    array_layer_count: Some(2),
                    ..Default::default()
                },
            );
        });
        for (mip, layer, expected) in [
            (0, 0, false),
            (0, 1, false),
            (1, 0, false),
            (1, 1, true),
            (1, 2, true),
        ] {
            assert_eq!(cleared(mip, layer), expected, "mip {mip}, layer {layer}");
        }
        let volume = texture(
            gpu,
            wgpu::TextureDimension::D3,
            extent(8, 8, 8),
            1,
            F::R32Float,
        );
        gpu.queue.write_texture(
            volume.as_image_copy(),
            &[1; 2048],
            layout(0, 32, 8),
            extent(8, 8, 8),
        );
        gpu.run(|encoder| encoder.clear_texture(&volume, &Default::default()));
        let texels = gpu.read_texels(volume.as_image_copy(), extent(8, 8, 8), 4);
        assert!(texels.iter().all(|byte| *byte == 0), "3D");
        gpu.invalid("no such mip", || {
            gpu.commands(|encoder| {
                encoder.clear_texture(
                    &image,
                    &wgpu::ImageSubresourceRange {
                        base_mip_level: 2,
                        mip_level_count: Some(1),
                        ..Default::default()
                    },
                );
            })
        });
        gpu.invalid("no such layer", || {
            gpu.commands(|encoder| {
                encoder.clear_texture(
                    &image,
                    &wgpu::ImageSubresourceRange {
                        base_array_layer: 2,
                        array_layer_count: Some(2),
                        ..Default::default()
                    },
                );
            })
        });
    });
}

/// A chain of copies in one command buffer: each sees the one before it.
#[test]
fn copies_in_a_chain() {
    test(|gpu| {
        let data = pattern(1024, 1);
        let buffers: Vec<_> = (0..20)
            .map(|_| gpu.buffer("link", 1024, B::all_copies()))
            .collect();
        gpu.queue.write_buffer(&buffers[0], 0, &data);
        gpu.run(|encoder| {
            for pair in buffers.windows(2) {
                encoder.copy_buffer_to_buffer(&pair[0], 0, &pair[1], 0, None);
            }
            // And overwritten only after it was read.
            encoder.clear_buffer(&buffers[0], 0, None);
        });
        assert!(gpu.read(&buffers[19]) == data);
        assert!(gpu.read(&buffers[0]).iter().all(|byte| *byte == 0));
    });
}
