//! `write_buffer`, `write_buffer_with` and `write_texture`.

use wgpu::{BufferUsages as B, TextureFormat as F, TextureUsages as T};

use crate::harness::*;

#[test]
fn write_buffer_places() {
    test(|gpu| {
        let buffer = gpu.buffer("target", 1024, B::all_copies());
        let mut expected = vec![0u8; 1024];
        for (offset, len, seed) in [
            (0, 1024, 1),
            (0, 4, 2),
            (512, 256, 3),
            (1020, 4, 4),
            (8, 0, 5),
        ] {
            let bytes = pattern(len, seed);
            gpu.queue.write_buffer(&buffer, offset as u64, &bytes);
            expected[offset..offset + len].copy_from_slice(&bytes);
        }
        assert!(gpu.read(&buffer) == expected);
    });
}

#[test]
fn write_buffer_errors() {
    test(|gpu| {
        let buffer = gpu.buffer("the target", 256, B::all_copies());
        let no_usage = gpu.buffer("the target", 256, B::COPY_SRC);
        let destroyed = gpu.buffer("the target", 256, B::COPY_DST);
        destroyed.destroy();
        for (what, target, offset, len) in [
            ("offset not a multiple of 4", &buffer, 2, 4),
            ("size not a multiple of 4", &buffer, 0, 3),
            ("past the end", &buffer, 252, 8),
            ("beyond the end", &buffer, 260, 4),
            ("offset overflows", &buffer, u64::MAX - 3, 8),
            ("no COPY_DST", &no_usage, 0, 4),
        ] {
            let error = gpu.invalid(what, || {
                gpu.queue.write_buffer(target, offset, &vec![1; len]);
            });
            assert_names(&error, "the target");
        }
        assert_eq!(gpu.read(&buffer), [0; 256], "nothing was written");
        // The specification lets a write to a destroyed buffer fail at the write.
        let (_, error) = gpu.error_of(|| {
            gpu.queue.write_buffer(&destroyed, 0, &[1; 4]);
            gpu.queue.submit([]);
        });
        assert!(error.is_some_and(|error| error.contains("the target")));
    });
}

#[test]
fn write_buffer_with() {
    test(|gpu| {
        let buffer = gpu.buffer("the target", 256, B::all_copies());
        let size = |size| wgpu::BufferSize::new(size).unwrap();
        let mut view = gpu
            .queue
            .write_buffer_with(&buffer, 16, size(32))
            .expect("a valid write");
        assert_eq!(view.len(), 32);
        view.copy_from_slice(&pattern(32, 1));
        // It takes its place in the order of things when it is given back.
        gpu.queue.write_buffer(&buffer, 0, &[7; 256]);
        drop(view);
        let mut expected = vec![7; 256];
        expected[16..48].copy_from_slice(&pattern(32, 1));
        assert!(gpu.read(&buffer) == expected);
        for (offset, len) in [(2, 4), (0, 6), (252, 8), (260, 4)] {
            let error = gpu.invalid((offset, len), || {
                let view = gpu.queue.write_buffer_with(&buffer, offset, size(len));
                assert!(view.is_none());
            });
            assert_names(&error, "the target");
        }
    });
}

/// A write that is given back half filled shows zeros, not old memory.
#[test]
fn write_buffer_with_unfilled_bytes() {
    if ours_alone("bytes that were not filled in show what the staging memory held before") {
        return;
    }
    test(|gpu| {
        let buffer = gpu.buffer("target", 1 << 16, B::all_copies());
        for _ in 0..4 {
            gpu.queue.write_buffer(&buffer, 0, &vec![0xee; 1 << 16]);
            gpu.queue.submit([]);
            gpu.wait();
            let view = gpu
                .queue
                .write_buffer_with(&buffer, 0, wgpu::BufferSize::new(1 << 16).unwrap())
                .unwrap();
            drop(view);
            assert!(gpu.read(&buffer).iter().all(|byte| *byte == 0));
        }
    });
}

/// Writes happen in order, before the submission that follows them, after the one before.
#[test]
fn order_with_submits() {
    test(|gpu| {
        let buffer = gpu.buffer("target", 4, B::all_copies());
        let log = gpu.buffer("log", 64, B::all_copies());
        for step in 0..8u32 {
            gpu.queue.write_buffer(&buffer, 0, &[0xff; 4]);
            gpu.queue.write_buffer(&buffer, 0, &step.to_ne_bytes());
            gpu.run(|encoder| {
                encoder.copy_buffer_to_buffer(&buffer, 0, &log, u64::from(step) * 4, 4);
            });
        }
        let recorded = gpu.commands(|encoder| {
            encoder.copy_buffer_to_buffer(&buffer, 0, &log, 32, 4);
        });
        // Recorded earlier, submitted later: it sees the write.
        gpu.queue.write_buffer(&buffer, 0, &99u32.to_ne_bytes());
        gpu.queue.submit([recorded]);
        assert_eq!(
            gpu.read_words(&log)[..9],
            [0, 1, 2, 3, 4, 5, 6, 7, 99],
            "each saw its own"
        );
    });
}

/// A submission that is refused leaves earlier writes pending, in order.
#[test]
fn order_across_a_refused_submit() {
    test(|gpu| {
        let buffer = gpu.buffer("target", 8, B::all_copies());
        let gone = gpu.buffer("gone", 4, B::COPY_SRC);
        let refused =
            gpu.commands(|encoder| encoder.copy_buffer_to_buffer(&gone, 0, &buffer, 0, 4));
        gone.destroy();
        gpu.queue.write_buffer(&buffer, 0, &bytes(&[1, 2]));
        gpu.invalid("refused", || gpu.queue.submit([refused]));
        gpu.queue.write_buffer(&buffer, 4, &bytes(&[3]));
        assert_eq!(gpu.read_words(&buffer), [1, 3]);
    });
}

#[test]
fn write_texture_layouts() {
    test(|gpu| {
        let size = extent(5, 3, 2);
        let texture = gpu.device.create_texture(&wgpu::TextureDescriptor {
            label: Some("target"),
            size,
            mip_level_count: 1,
            sample_count: 1,
            dimension: wgpu::TextureDimension::D2,
            format: F::Rgba8Uint,
            usage: T::all_copies(),
            view_formats: &[],
        });
        let tight = pattern(5 * 3 * 2 * 4, 1);
        // (offset, bytes per row, rows per image); tight, padded, odd.
        for (offset, pitch, rows) in [(0, 20, 3), (0, 32, 3), (7, 20, 3), (3, 27, 5), (0, 256, 3)] {
            let mut data = vec![0xee; offset + pitch * rows * 2];
            for layer in 0..2 {
                for row in 0..3 {
                    let from = (layer * 3 + row) * 20;
                    let to = offset + (layer * rows + row) * pitch;
                    data[to..to + 20].copy_from_slice(&tight[from..from + 20]);
                }
            }
            gpu.valid((offset, pitch, rows), || {
                gpu.queue.write_texture(
                    texture.as_image_copy(),
                    &data,
                    layout(offset as u64, pitch as u32, rows as u32),
                    size,
                );
            });
            assert!(
                gpu.read_texels(texture.as_image_copy(), size, 4) == tight,
                "{offset}, {pitch}, {rows}"
            );
            gpu.run(|encoder| {
                if gpu
                    .device
                    .features()
                    .contains(wgpu::Features::CLEAR_TEXTURE)
                {
                    encoder.clear_texture(&texture, &Default::default());
                }
            });
        }
        // A single row needs no pitch; the last row needs no padding.
        gpu.valid("one row", || {
            gpu.queue.write_texture(
                texture.as_image_copy(),
                &tight[..20],
                Default::default(),
                extent(5, 1, 1),
            );
        });
        gpu.valid("short last row", || {
            gpu.queue.write_texture(
                texture.as_image_copy(),
                &vec![9; 256 * 2 + 20],
                layout(0, 256, 3),
                extent(5, 3, 1),
            );
        });
        gpu.valid("nothing at all", || {
            gpu.queue.write_texture(
                texture.as_image_copy(),
                &[],
                Default::default(),
                extent(0, 0, 0),
            );
        });
    });
}

#[test]
fn write_texture_into_parts() {
    test(|gpu| {
        let texture = gpu.device.create_texture(&wgpu::TextureDescriptor {
            label: Some("target"),
            size: extent(8, 8, 3),
            mip_level_count: 3,
            sample_count: 1,
            dimension: wgpu::TextureDimension::D2,
            format: F::R32Uint,
            usage: T::all_copies(),
            view_formats: &[],
        });
        let at = |mip_level, x, y, z| wgpu::TexelCopyTextureInfo {
            texture: &texture,
            mip_level,
            origin: wgpu::Origin3d { x, y, z },
            aspect: wgpu::TextureAspect::All,
        };
        gpu.queue.write_texture(
            at(1, 1, 2, 1),
            &bytes(&[1, 2, 3, 4]),
            layout(0, 8, 2),
            extent(2, 2, 1),
        );
        let words = words(&gpu.read_texels(at(1, 0, 0, 1), extent(4, 4, 1), 4));
        let mut expected = vec![0; 16];
        (expected[9], expected[10], expected[13], expected[14]) = (1, 2, 3, 4);
        assert_eq!(words, expected, "the part, and zeros around it");
        for (mip, layer, side) in [(0, 0, 8), (0, 1, 8), (1, 0, 4), (1, 2, 4), (2, 1, 2)] {
            let texels = gpu.read_texels(at(mip, 0, 0, layer), extent(side, side, 1), 4);
            assert!(texels.iter().all(|byte| *byte == 0), "mip {mip} {layer}");
        }
    });
}

#[test]
fn write_texture_errors() {
    test(|gpu| {
        let texture = gpu.texture("the target", (8, 8), F::R32Uint, T::all_copies());
        let no_usage = gpu.texture("the target", (8, 8), F::R32Uint, T::COPY_SRC);
        let destroyed = gpu.texture("the target", (8, 8), F::R32Uint, T::COPY_DST);
        destroyed.destroy();
        let all = extent(8, 8, 1);
        let origin = |x, y, z| wgpu::TexelCopyTextureInfo {
            origin: wgpu::Origin3d { x, y, z },
            ..texture.as_image_copy()
        };
        let full = vec![1u8; 256];
        for (what, target, data, data_layout, size) in [
            (
                "too little data",
                texture.as_image_copy(),
                &full[..255],
                layout(0, 32, 8),
                all,
            ),
            (
                "too little after the offset",
                texture.as_image_copy(),
                &full[..],
                layout(4, 32, 8),
                all,
            ),
            (
                "rows shorter than the copy",
                texture.as_image_copy(),
                &full[..],
                layout(0, 28, 8),
                all,
            ),
            (
                "images shorter than the copy",
                texture.as_image_copy(),
                &full[..],
                layout(0, 32, 7),
                all,
            ),
            (
                "no bytes per row",
                texture.as_image_copy(),
                &full[..],
                Default::default(),
                all,
            ),
            (
                "too wide",
                texture.as_image_copy(),
                &full[..],
                layout(0, 64, 8),
                extent(9, 1, 1),
            ),
            (
                "past the right edge",
                origin(4, 0, 0),
                &full[..],
                layout(0, 32, 8),
                extent(8, 1, 1),
            ),
            (
                "past the last layer",
                origin(0, 0, 1),
                &full[..],
                layout(0, 32, 8),
                all,
            ),
            (
                "origin overflows",
                origin(u32::MAX, 0, 0),
                &full[..],
                layout(0, 32, 8),
                extent(2, 1, 1),
            ),
            (
                "no such mip",
                wgpu::TexelCopyTextureInfo {
                    mip_level: 1,
                    ..texture.as_image_copy()
                },
                &full[..],
                layout(0, 32, 8),
                extent(1, 1, 1),
            ),
            (
                "no COPY_DST",
                no_usage.as_image_copy(),
                &full[..],
                layout(0, 32, 8),
                all,
            ),
            (
                "destroyed",
                destroyed.as_image_copy(),
                &full[..],
                layout(0, 32, 8),
                all,
            ),
        ] {
            gpu.invalid(what, || {
                gpu.queue.write_texture(target, data, data_layout, size);
                gpu.queue.submit([]);
            });
        }
        let texels = gpu.read_texels(texture.as_image_copy(), all, 4);
        assert!(texels.iter().all(|byte| *byte == 0), "nothing was written");
    });
}

/// Many writes in one go, larger and smaller than any chunk of staging.
#[test]
fn many_sizes() {
    test(|gpu| {
        let size = 4 << 20;
        let buffer = gpu.buffer("target", size as u64, B::all_copies());
        let mut expected = vec![0; size];
        let mut offset = 0;
        for (number, len) in [4, 60, 252, 256, 260, 4096, 65532, 65536, 1 << 20, 3 << 19]
            .into_iter()
            .cycle()
            .take(14)
            .enumerate()
        {
            if offset + len > size {
                break;
            }
            let bytes = pattern(len, number as u32);
            gpu.queue.write_buffer(&buffer, offset as u64, &bytes);
            expected[offset..offset + len].copy_from_slice(&bytes);
            offset += len;
        }
        assert!(gpu.read(&buffer) == expected);
    });
}
