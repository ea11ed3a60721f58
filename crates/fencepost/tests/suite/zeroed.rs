//! Fresh resources read as zeros, whichever way they are read first, also in recycled memory.
//! (Buffers in recycled memory: scenario 25.)

use wgpu::{BufferUsages as B, TextureFormat as F, TextureUsages as T};

use crate::harness::*;

const SIDE: u32 = 64;

/// Leaves memory behind that is full of ones, of a texture's size and of a buffer's.
fn litter(gpu: &Gpu) {
    let bytes = vec![0xff; (SIDE * SIDE * 4) as usize];
    for _ in 0..4 {
        let texture = gpu.texture("litter", (SIDE, SIDE), F::R32Uint, T::all_copies());
        gpu.queue.write_texture(
            texture.as_image_copy(),
            &bytes,
            layout(0, SIDE * 4, SIDE),
            extent(SIDE, SIDE, 1),
        );
        let buffer = gpu.buffer("litter", bytes.len() as u64, B::all_copies());
        gpu.queue.write_buffer(&buffer, 0, &bytes);
    }
    gpu.queue.submit([]);
    gpu.wait();
}

fn fresh_texture(gpu: &Gpu, usage: T) -> wgpu::Texture {
    litter(gpu);
    gpu.texture("fresh", (SIDE, SIDE), F::R32Uint, usage)
}

fn fresh_buffer(gpu: &Gpu, usage: B) -> wgpu::Buffer {
    litter(gpu);
    gpu.buffer("fresh", u64::from(SIDE * SIDE * 4), usage)
}

#[track_caller]
fn assert_zero(bytes: &[u8]) {
    let wrong = bytes.iter().position(|byte| *byte != 0);
    assert_eq!(wrong, None, "a byte of old memory shows");
}

fn ones(gpu: &Gpu) -> wgpu::Buffer {
    gpu.filled(
        "result",
        B::STORAGE | B::all_copies(),
        &vec![1; (SIDE * SIDE * 4) as usize],
    )
}

fn run(gpu: &Gpu, wgsl: &str, resources: &[wgpu::BindingResource<'_>]) {
    let pipeline = gpu.pipeline(wgsl);
    let group = gpu.group(&pipeline, resources);
    gpu.run(|encoder| {
        let mut pass = encoder.begin_compute_pass(&Default::default());
        pass.set_pipeline(&pipeline);
        pass.set_bind_group(0, &group, &[]);
        pass.dispatch_workgroups(SIDE, SIDE, 1);
    });
}

#[test]
fn texture_copied_to_a_buffer() {
    test(|gpu| {
        let texture = fresh_texture(gpu, T::all_copies());
        assert_zero(&gpu.read_texels(texture.as_image_copy(), extent(SIDE, SIDE, 1), 4));
    });
}

#[test]
fn texture_copied_to_a_texture() {
    test(|gpu| {
        let texture = fresh_texture(gpu, T::all_copies());
        let target = fresh_texture(gpu, T::all_copies());
        gpu.run(|encoder| {
            encoder.copy_texture_to_texture(
                texture.as_image_copy(),
                target.as_image_copy(),
                extent(SIDE, SIDE / 2, 1),
            );
        });
        assert_zero(&gpu.read_texels(target.as_image_copy(), extent(SIDE, SIDE, 1), 4));
    });
}

#[test]
fn texture_bound() {
    test(|gpu| {
        let texture = fresh_texture(gpu, T::TEXTURE_BINDING);
        let result = ones(gpu);
        run(
            gpu,
            "@group(0) @binding(0) var input: texture_2d<u32>;
            @group(0) @binding(1) var<storage, read_write> output: array<u32>;
            @compute @workgroup_size(1) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
                output[id.y * 64u + id.x] = textureLoad(input, id.xy, 0).x;
            }",
            &[
                wgpu::BindingResource::TextureView(&gpu.view(&texture)),
                result.as_entire_binding(),
            ],
        );
        assert_zero(&gpu.read(&result));
    });
}

/// A storage texture that is written in part is zero elsewhere.
#[test]
fn texture_written_in_part_by_a_shader() {
    test(|gpu| {
        let texture = fresh_texture(gpu, T::STORAGE_BINDING | T::COPY_SRC);
        run(
            gpu,
            "@group(0) @binding(0) var output: texture_storage_2d<r32uint, write>;
            @compute @workgroup_size(1) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
                if id.y == 0u { textureStore(output, id.xy, vec4(5u)); }
            }",
            &[wgpu::BindingResource::TextureView(&gpu.view(&texture))],
        );
        let texels = gpu.read_texels(texture.as_image_copy(), extent(SIDE, SIDE, 1), 4);
        assert_eq!(words(&texels)[..64], [5; 64]);
        assert_zero(&texels[256..]);
    });
}

#[test]
fn texture_written_in_part_by_copies() {
    test(|gpu| {
        for through_queue in [true, false] {
            let texture = fresh_texture(gpu, T::all_copies());
            let at = wgpu::TexelCopyTextureInfo {
                origin: wgpu::Origin3d { x: 8, y: 8, z: 0 },
                ..texture.as_image_copy()
            };
            if through_queue {
                gpu.queue
                    .write_texture(at, &[5; 64], layout(0, 16, 4), extent(4, 4, 1));
            } else {
                let source = gpu.filled("source", B::COPY_SRC, &[5; 1024]);
                gpu.run(|encoder| {
                    encoder.copy_buffer_to_texture(
                        wgpu::TexelCopyBufferInfo {
                            buffer: &source,
                            layout: layout(0, 256, 4),
                        },
                        at,
                        extent(4, 4, 1),
                    );
                });
            }
            let texels = gpu.read_texels(texture.as_image_copy(), extent(SIDE, SIDE, 1), 4);
            for (index, texel) in texels.chunks(4).enumerate() {
                let (x, y) = (index as u32 % SIDE, index as u32 / SIDE);
                let inside = (8..12).contains(&x) && (8..12).contains(&y);
                assert_eq!(texel, [if inside { 5 } else { 0 }; 4], "{x}, {y}");
            }
        }
    });
}

#[test]
fn every_mip_and_layer() {
    test(|gpu| {
        litter(gpu);
        for (dimension, format, texel) in [
            (wgpu::TextureDimension::D2, F::Rgba8Unorm, 4),
            (wgpu::TextureDimension::D2, F::Rgba32Float, 16),
            (wgpu::TextureDimension::D3, F::Rgba8Unorm, 4),
            (wgpu::TextureDimension::D2, F::Depth32Float, 4),
            (wgpu::TextureDimension::D2, F::Stencil8, 1),
        ] {
            let flat = dimension == wgpu::TextureDimension::D2;
            let texture = gpu.device.create_texture(&wgpu::TextureDescriptor {
                label: Some("fresh"),
                size: extent(32, 32, 4),
                mip_level_count: 3,
                sample_count: 1,
                dimension,
                format,
                usage: if flat {
                    T::COPY_SRC | T::RENDER_ATTACHMENT
                } else {
                    T::all_copies()
                },
                view_formats: &[],
            });
            for mip_level in 0..3 {
                let side = 32 >> mip_level;
                let depth = if flat { 4 } else { 4 >> mip_level };
                let texels = gpu.read_texels(
                    wgpu::TexelCopyTextureInfo {
                        mip_level,
                        ..texture.as_image_copy()
                    },
                    extent(side, side, depth),
                    texel,
                );
                assert_zero(&texels);
            }
        }
    });
}

#[test]
fn buffer_bound_as_storage() {
    test(|gpu| {
        let buffer = fresh_buffer(gpu, B::STORAGE | B::COPY_SRC);
        run(
            gpu,
            "@group(0) @binding(0) var<storage, read_write> data: array<u32>;
            @compute @workgroup_size(1) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
                if id.y > 0u { data[id.y * 64u + id.x] += 1u; }
            }",
            &[buffer.as_entire_binding()],
        );
        let words = gpu.read_words(&buffer);
        assert!(words[..64].iter().all(|word| *word == 0), "not written");
        assert!(words[64..].iter().all(|word| *word == 1), "counted from 0");
    });
}

#[test]
fn buffer_bound_as_uniform() {
    test(|gpu| {
        let buffer = fresh_buffer(gpu, B::UNIFORM);
        let result = ones(gpu);
        run(
            gpu,
            "@group(0) @binding(0) var<uniform> input: array<vec4<u32>, 1024>;
            @group(0) @binding(1) var<storage, read_write> output: array<u32>;
            @compute @workgroup_size(1) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
                let index = id.y * 64u + id.x;
                output[index] = input[index / 4u][index % 4u];
            }",
            &[buffer.as_entire_binding(), result.as_entire_binding()],
        );
        assert_zero(&gpu.read(&result));
    });
}

/// Zero workgroups, three times over.
#[test]
fn buffer_read_as_indirect_arguments() {
    test(|gpu| {
        let buffer = fresh_buffer(gpu, B::INDIRECT);
        let result = gpu.buffer("result", 256, B::STORAGE | B::all_copies());
        let pipeline = gpu.pipeline(
            "@group(0) @binding(0) var<storage, read_write> output: array<u32>;
            @compute @workgroup_size(1) fn main() { output[0] = 1u; }",
        );
        let group = gpu.group(&pipeline, &[result.as_entire_binding()]);
        gpu.run(|encoder| {
            let mut pass = encoder.begin_compute_pass(&Default::default());
            pass.set_pipeline(&pipeline);
            pass.set_bind_group(0, &group, &[]);
            pass.dispatch_workgroups_indirect(&buffer, 0);
        });
        assert_zero(&gpu.read(&result));
    });
}

#[test]
fn buffer_copied_to_a_texture() {
    test(|gpu| {
        let buffer = fresh_buffer(gpu, B::COPY_SRC);
        let texture = fresh_texture(gpu, T::all_copies());
        gpu.run(|encoder| {
            encoder.copy_buffer_to_texture(
                wgpu::TexelCopyBufferInfo {
                    buffer: &buffer,
                    layout: layout(0, SIDE * 4, SIDE),
                },
                texture.as_image_copy(),
                extent(SIDE, SIDE, 1),
            );
        });
        assert_zero(&gpu.read_texels(texture.as_image_copy(), extent(SIDE, SIDE, 1), 4));
    });
}

/// What is written in part by copies is zero in the gaps, on either side of a submit.
#[test]
fn buffer_written_in_part() {
    test(|gpu| {
        let size = u64::from(SIDE * SIDE * 4);
        let source = gpu.filled("source", B::COPY_SRC, &[5; 64]);
        for split in [false, true] {
            let buffer = fresh_buffer(gpu, B::all_copies());
            gpu.queue.write_buffer(&buffer, 256, &[5; 64]);
            if split {
                gpu.queue.submit([]);
            }
            gpu.run(|encoder| encoder.copy_buffer_to_buffer(&source, 0, &buffer, 4096, 64));
            let mut expected = vec![0; size as usize];
            expected[256..320].fill(5);
            expected[4096..4160].fill(5);
            assert!(gpu.read(&buffer) == expected);
        }
        // Mapped for writing, and left alone for the most part.
        let buffer = fresh_buffer(gpu, B::MAP_WRITE | B::COPY_SRC);
        gpu.map(&buffer, wgpu::MapMode::Write, 1024..2048);
        buffer
            .get_mapped_range_mut(1024..1032)
            .unwrap()
            .copy_from_slice(&[5; 8]);
        buffer.unmap();
        let back = gpu.read(&buffer);
        assert_eq!(back[1024..1032], [5; 8]);
        assert_zero(&back[..1024]);
        assert_zero(&back[1032..]);
    });
}

/// Texture rows padded in a buffer: the padding of a copy out is not touched, so it is zero.
#[test]
fn padding_of_a_texture_copy() {
    test(|gpu| {
        let texture = gpu.texture("source", (4, 4), F::R32Uint, T::all_copies());
        gpu.queue.write_texture(
            texture.as_image_copy(),
            &[5; 64],
            layout(0, 16, 4),
            extent(4, 4, 1),
        );
        let buffer = fresh_buffer(gpu, B::all_copies());
        gpu.run(|encoder| {
            encoder.copy_texture_to_buffer(
                texture.as_image_copy(),
                wgpu::TexelCopyBufferInfo {
                    buffer: &buffer,
                    layout: layout(256, 256, 4),
                },
                extent(4, 4, 1),
            );
        });
        let back = gpu.read(&buffer);
        let mut expected = vec![0; back.len()];
        for row in 1..5 {
            expected[row * 256..row * 256 + 16].fill(5);
        }
        assert!(back == expected);
    });
}

/// A submission that was refused did not clear anything, and nobody may think that it did.
#[test]
fn after_a_refused_submit() {
    if ours_alone("a refused submission counts what it would have cleared as cleared") {
        return;
    }
    test(|gpu| {
        let gone = gpu.buffer("gone", 4, B::COPY_SRC);
        let source = gpu.filled("source", B::COPY_SRC, &[5; 64]);
        let size = u64::from(SIDE * SIDE * 4);
        for _ in 0..4 {
            let buffer = fresh_buffer(gpu, B::all_copies());
            let texture = fresh_texture(gpu, T::all_copies());
            let first = gpu.commands(|encoder| {
                encoder.copy_buffer_to_buffer(&source, 0, &buffer, 0, 4);
                encoder.copy_buffer_to_texture(
                    wgpu::TexelCopyBufferInfo {
                        buffer: &buffer,
                        layout: layout(0, SIDE * 4, SIDE),
                    },
                    texture.as_image_copy(),
                    extent(SIDE, SIDE, 1),
                );
            });
            let other = gpu.buffer("other", 4, B::all_copies());
            let last =
                gpu.commands(|encoder| encoder.copy_buffer_to_buffer(&gone, 0, &other, 0, 4));
            gone.destroy();
            gpu.invalid("refused", || gpu.queue.submit([first, last]));
            assert_eq!(buffer.size(), size);
            assert_zero(&gpu.read(&buffer));
            assert_zero(&gpu.read_texels(texture.as_image_copy(), extent(SIDE, SIDE, 1), 4));
        }
    });
}

#[test]
fn workgroup_memory() {
    test(|gpu| {
        let result = ones(gpu);
        let dirty = "
            var<workgroup> scratch: array<u32, 1024>;
            @group(0) @binding(0) var<storage, read_write> output: array<u32>;
            @compute @workgroup_size(64) fn main(@builtin(local_invocation_index) index: u32) {
                for (var i = index; i < 1024u; i += 64u) { scratch[i] = 77u; }
                workgroupBarrier();
                output[index] = scratch[1023u - index];
            }";
        let clean = "
            var<workgroup> scratch: array<u32, 1024>;
            @group(0) @binding(0) var<storage, read_write> output: array<u32>;
            @compute @workgroup_size(64) fn main(@builtin(local_invocation_index) index: u32) {
                for (var i = index; i < 1024u; i += 64u) { output[i] = scratch[i]; }
            }";
        for wgsl in [dirty, clean] {
            let pipeline = gpu.pipeline(wgsl);
            let group = gpu.group(&pipeline, &[result.as_entire_binding()]);
            gpu.run(|encoder| {
                let mut pass = encoder.begin_compute_pass(&Default::default());
                pass.set_pipeline(&pipeline);
                pass.set_bind_group(0, &group, &[]);
                pass.dispatch_workgroups(8, 1, 1);
            });
        }
        assert_zero(&gpu.read(&result)[..4096]);
    });
}
