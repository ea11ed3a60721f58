//! The real client: the crate `block_compression`, unmodified, compressing pictures in compute shaders.
//!
//! Invariant: the program is the same for both cores, and every byte of its output enters the digest.

use std::sync::mpsc;
use std::time::Instant;

use block_compression::{CompressionVariant, GpuBlockCompressor};
use sha2::{Digest, Sha256};

use crate::cores::{self, Below, Core, Gpu};
use crate::memory::{allocated, Moments};
use crate::pictures::Picture;

/// What [`run`] found.
pub struct Outcome {
    /// SHA-256 of all compressed blocks, in the order of pictures and formats.
    pub digest: String,
    /// Shaders, pipelines and the driver's own compilation, in nanoseconds.
    pub setup: f64,
    /// Upload, compression and reading back of everything, in nanoseconds: the better of two rounds.
    pub compression: f64,
    /// GPU memory.
    pub moments: Moments,
}

/// Formats with their names.
pub type Formats = [(&'static str, CompressionVariant)];

/// The formats to compress to. BC6H and BC7 need the feature of that name.
pub fn formats(bc6h: bool, bc7: bool) -> Vec<(&'static str, CompressionVariant)> {
    let always = [
        ("BC1", CompressionVariant::BC1),
        ("BC2", CompressionVariant::BC2),
        ("BC3", CompressionVariant::BC3),
        ("BC4", CompressionVariant::BC4),
        ("BC5", CompressionVariant::BC5),
    ];
    let on_request = [
        bc6h.then(bc6h_variant).flatten().map(|v| ("BC6H", v)),
        bc7.then(bc7_variant).flatten().map(|v| ("BC7", v)),
    ];
    always
        .into_iter()
        .chain(on_request.into_iter().flatten())
        .collect()
}

#[cfg(feature = "bc6h")]
fn bc6h_variant() -> Option<CompressionVariant> {
    let settings = block_compression::BC6HSettings::very_fast();
    Some(CompressionVariant::BC6H(settings))
}

#[cfg(not(feature = "bc6h"))]
fn bc6h_variant() -> Option<CompressionVariant> {
    None
}

#[cfg(feature = "bc7")]
fn bc7_variant() -> Option<CompressionVariant> {
    let settings = block_compression::BC7Settings::alpha_very_fast();
    Some(CompressionVariant::BC7(settings))
}

#[cfg(not(feature = "bc7"))]
fn bc7_variant() -> Option<CompressionVariant> {
    None
}

fn upload(gpu: &Gpu, picture: &Picture) -> wgpu::Texture {
    let size = wgpu::Extent3d {
        width: picture.width,
        height: picture.height,
        depth_or_array_layers: 1,
    };
    let texture = gpu.device.create_texture(&wgpu::TextureDescriptor {
        label: Some(&picture.name),
        size,
        mip_level_count: 1,
        sample_count: 1,
        dimension: wgpu::TextureDimension::D2,
        format: wgpu::TextureFormat::Rgba8Unorm,
        usage: wgpu::TextureUsages::TEXTURE_BINDING | wgpu::TextureUsages::COPY_DST,
        view_formats: &[],
    });
    gpu.queue.write_texture(
        texture.as_image_copy(),
        &picture.rgba,
        wgpu::TexelCopyBufferLayout {
            offset: 0,
            bytes_per_row: Some(picture.width * 4),
            rows_per_image: None,
        },
        size,
    );
    texture
}

/// Records the compression of `texture` into a buffer of blocks and returns that buffer.
fn compress(
    gpu: &Gpu,
    compressor: &mut GpuBlockCompressor,
    encoder: &mut wgpu::CommandEncoder,
    texture: &wgpu::Texture,
    variant: CompressionVariant,
) -> wgpu::Buffer {
    let (width, height) = (texture.width(), texture.height());
    let blocks = gpu.buffer(
        "blocks",
        variant.blocks_byte_size(width, height) as u64,
        wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC,
    );
    let view = texture.create_view(&wgpu::TextureViewDescriptor::default());
    compressor.add_compression_task(variant, &view, width, height, &blocks, None, None);
    let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
    compressor.compress(&mut pass);
    drop(pass);
    blocks
}

/// Compresses one picture to one format and feeds the blocks to `digest`.
fn compress_and_read(
    gpu: &Gpu,
    compressor: &mut GpuBlockCompressor,
    texture: &wgpu::Texture,
    variant: CompressionVariant,
    digest: &mut Sha256,
    moments: &mut Moments,
) -> Result<(), String> {
    let mut encoder = gpu.encoder();
    let blocks = compress(gpu, compressor, &mut encoder, texture, variant);
    let readback = gpu.buffer(
        "readback",
        blocks.size(),
        wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
    );
    encoder.copy_buffer_to_buffer(&blocks, 0, &readback, 0, blocks.size());
    gpu.queue.submit([encoder.finish()]);
    let (send, receive) = mpsc::channel();
    readback.map_async(wgpu::MapMode::Read, .., move |result| {
        let _ = send.send(result);
    });
    moments.look(gpu);
    gpu.wait()?;
    receive
        .try_recv()
        .map_err(|_| format!("{}: no answer to map_async", gpu.core.name()))?
        .map_err(|error| format!("{}: map_async: {error}", gpu.core.name()))?;
    let view = readback
        .get_mapped_range(..)
        .map_err(|error| format!("{}: get_mapped_range: {error}", gpu.core.name()))?;
    digest.update(&view[..]);
    Ok(())
}

/// Makes the compressor and compresses a small picture to each format, because drivers compile a
/// shader at its first dispatch. Some compile it anew for sizes that are powers of two: this is none.
fn set_up(gpu: &Gpu, formats: &Formats) -> Result<GpuBlockCompressor, String> {
    let mut compressor = GpuBlockCompressor::new(gpu.device.clone(), gpu.queue.clone());
    let small = upload(gpu, &crate::pictures::draw(52, 36)[0]);
    for &(_, variant) in formats {
        let (mut unused, mut unseen) = (Sha256::new(), Moments::default());
        compress_and_read(
            gpu,
            &mut compressor,
            &small,
            variant,
            &mut unused,
            &mut unseen,
        )?;
    }
    Ok(compressor)
}

/// Fills the shader cache that the driver keeps on disk, so that it does not favour whoever comes second.
pub fn fill_caches(core: Core, formats: &Formats) -> Result<(), String> {
    set_up(&cores::open(core, Below::Gpu)?, formats).map(drop)
}

/// Runs the client on `gpu`. `progress` is told what comes next.
pub fn run(
    gpu: &Gpu,
    pictures: &[Picture],
    formats: &Formats,
    mut progress: impl FnMut(&str),
) -> Result<Outcome, String> {
    let mut moments = Moments {
        before: allocated(gpu),
        ..Moments::default()
    };

    progress("shaders and pipelines");
    let start = Instant::now();
    let mut compressor = set_up(gpu, formats)?;
    let setup = start.elapsed().as_nanos() as f64;

    // Two rounds, and the better time: this machine may be busy with something else in one of them.
    let (mut compression, mut digests) = (f64::INFINITY, Vec::new());
    for round in ["", ", again"] {
        let start = Instant::now();
        let mut digest = Sha256::new();
        for picture in pictures {
            let texture = upload(gpu, picture);
            for &(name, variant) in formats {
                progress(&format!("{}, {name}{round}", picture.name));
                compress_and_read(
                    gpu,
                    &mut compressor,
                    &texture,
                    variant,
                    &mut digest,
                    &mut moments,
                )?;
            }
        }
        compression = compression.min(start.elapsed().as_nanos() as f64);
        digests.push(digest.finalize());
    }
    if digests[0] != digests[1] {
        return Err(format!(
            "{}: the second round produced other bytes than the first",
            gpu.core.name()
        ));
    }

    // What a program does that streams textures in: everything at once, the result stays on the GPU,
    // and nobody waits. Then all of it goes.
    progress("all pictures at once, dropped without waiting");
    let mut kept = Vec::new();
    let mut encoder = gpu.encoder();
    for picture in pictures {
        let texture = upload(gpu, picture);
        let variant = CompressionVariant::BC1;
        let blocks = compress(gpu, &mut compressor, &mut encoder, &texture, variant);
        kept.push((texture, blocks));
    }
    // The uploads are staged until here, and what the driver runs in `submit` has not begun.
    moments.look(gpu);
    gpu.queue.submit([encoder.finish()]);
    moments.look(gpu);
    drop((kept, compressor));
    moments.finish(gpu)?;
    gpu.check()?;

    let digest = digests[0]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    Ok(Outcome {
        digest,
        setup,
        compression,
        moments,
    })
}

/// Whether the device can hold `picture`, as an error that names the limit.
pub fn fits(gpu: &Gpu, picture: &Picture) -> Result<(), String> {
    let limit = gpu.device.limits().max_texture_dimension_2d;
    if picture.width.max(picture.height) <= limit {
        return Ok(());
    }
    Err(format!(
        "{}: {} x {} pixels, but this adapter's textures end at {limit} a side",
        picture.name, picture.width, picture.height
    ))
}
