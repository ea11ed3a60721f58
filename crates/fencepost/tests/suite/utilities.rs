//! The helpers of `wgpu::util`, which are programs on top of the API like any other.

use wgpu::util::{DeviceExt as _, DownloadBuffer, StagingBelt, TextureDataOrder};
use wgpu::{BufferUsages as B, TextureUsages as T};

use crate::harness::*;

#[test]
fn staging_belt() {
    test(|gpu| {
        let target = gpu.buffer("target", 4096, B::all_copies());
        let mut belt = StagingBelt::new(gpu.device.clone(), 1024);
        for round in 0..10u32 {
            let mut encoder = gpu.encoder();
            for part in 0..4 {
                let size = wgpu::BufferSize::new(1024).unwrap();
                belt.write_buffer(&mut encoder, &target, part * 1024, size)
                    .copy_from_slice(&pattern(1024, round * 4 + part as u32));
            }
            belt.finish();
            gpu.queue.submit([encoder.finish()]);
            belt.recall();
            let back = gpu.read(&target);
            for part in 0..4 {
                let bytes = &back[part * 1024..(part + 1) * 1024];
                assert!(*bytes == pattern(1024, round * 4 + part as u32));
            }
        }
    });
}

#[test]
fn download_buffer() {
    test(|gpu| {
        let bytes = pattern(1000, 1);
        let source = gpu.filled("source", B::COPY_SRC, &bytes);
        let (outbox, inbox) = std::sync::mpsc::channel();
        DownloadBuffer::read_buffer(&gpu.device, &gpu.queue, &source.slice(..), move |result| {
            outbox.send(result.unwrap().to_vec()).unwrap();
        });
        gpu.wait();
        assert!(inbox.try_recv().unwrap() == bytes);
    });
}

#[test]
fn texture_with_data() {
    test(|gpu| {
        let bytes = pattern(4 * (16 * 16 + 8 * 8) * 2, 1);
        let texture = gpu.device.create_texture_with_data(
            &gpu.queue,
            &wgpu::TextureDescriptor {
                label: Some("with data"),
                size: extent(16, 16, 2),
                mip_level_count: 2,
                sample_count: 1,
                dimension: wgpu::TextureDimension::D2,
                format: wgpu::TextureFormat::Rgba8Uint,
                usage: T::COPY_SRC,
                view_formats: &[],
            },
            TextureDataOrder::LayerMajor,
            &bytes,
        );
        let at = |mip_level, z| wgpu::TexelCopyTextureInfo {
            mip_level,
            origin: wgpu::Origin3d { x: 0, y: 0, z },
            ..texture.as_image_copy()
        };
        let (large, small) = (16 * 16 * 4, 8 * 8 * 4);
        let layer = large + small;
        for z in 0..2 {
            let start = z as usize * layer;
            let first = gpu.read_texels(at(0, z), extent(16, 16, 1), 4);
            assert!(first == bytes[start..start + large]);
            let second = gpu.read_texels(at(1, z), extent(8, 8, 1), 4);
            assert!(second == bytes[start + large..start + layer]);
        }
    });
}
