//! What becomes of memory that a program drops: the part of the demo that needs no graphics driver.

use crate::cores::Gpu;
use crate::memory::{allocated, Moments};

/// The size of a buffer. More than the allocator of the C library ever keeps for itself, so that the
/// resident size of the process tells the truth on the no-op back end.
const SIZE: u64 = 64 << 20;
const COPIES: wgpu::BufferUsages = wgpu::BufferUsages::COPY_SRC.union(wgpu::BufferUsages::COPY_DST);

/// A short program that uses much memory and drops it.
pub struct Case {
    /// What it does, as a heading.
    pub what: &'static str,
    work: fn(&Gpu, &[u8], &mut Moments) -> Result<(), String>,
}

/// The cases, each a pattern of programs that were seen to grow.
pub const CASES: [Case; 3] = [
    Case {
        what: "4 buffers of 64 MiB, copied in one submission, dropped",
        work: |gpu, _, moments| {
            let buffers = [(); 4].map(|()| gpu.buffer("big", SIZE, COPIES));
            let mut encoder = gpu.encoder();
            for pair in buffers.chunks(2) {
                encoder.copy_buffer_to_buffer(&pair[0], 0, &pair[1], 0, SIZE);
            }
            gpu.queue.submit([encoder.finish()]);
            moments.look(gpu);
            Ok(())
        },
    },
    Case {
        what: "4 buffers of 64 MiB, filled at creation, dropped; nothing submitted",
        work: |gpu, bytes, moments| {
            let mut buffers = Vec::new();
            for _ in 0..4 {
                let buffer = gpu.device.create_buffer(&wgpu::BufferDescriptor {
                    label: Some("filled at creation"),
                    size: SIZE,
                    usage: COPIES,
                    mapped_at_creation: true,
                });
                buffer
                    .get_mapped_range_mut(..)
                    .map_err(|error| format!("get_mapped_range_mut: {error}"))?
                    .copy_from_slice(bytes);
                buffer.unmap();
                buffers.push(buffer);
                moments.look(gpu);
            }
            Ok(())
        },
    },
    Case {
        what: "1 buffer of 64 MiB, written 4 times, dropped; nothing submitted",
        work: |gpu, bytes, moments| {
            let buffer = gpu.buffer("written", SIZE, COPIES);
            for _ in 0..4 {
                gpu.queue.write_buffer(&buffer, 0, bytes);
                moments.look(gpu);
            }
            Ok(())
        },
    },
];

/// Runs a case and watches the memory. At its end the core has been made to let go of everything.
pub fn run(gpu: &Gpu, case: &Case) -> Result<Moments, String> {
    let bytes = vec![0x5a; SIZE as usize];
    let mut moments = Moments {
        before: allocated(gpu),
        ..Moments::default()
    };
    (case.work)(gpu, &bytes, &mut moments)?;
    moments.finish(gpu)?;
    gpu.queue.submit([]);
    gpu.wait()?;
    Ok(moments)
}
