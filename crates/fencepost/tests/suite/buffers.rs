//! Buffers: creation, usages, mapping, and the rules about sizes and alignments.

use wgpu::{BufferUsages as B, MapMode};

use crate::harness::*;

#[test]
fn every_usage() {
    test(|gpu| {
        for usage in [
            B::MAP_READ,
            B::MAP_WRITE,
            B::COPY_SRC,
            B::COPY_DST,
            B::INDEX,
            B::VERTEX,
            B::UNIFORM,
            B::STORAGE,
            B::INDIRECT,
            B::QUERY_RESOLVE,
            B::MAP_READ | B::COPY_DST,
            B::MAP_WRITE | B::COPY_SRC,
            B::COPY_SRC
                | B::COPY_DST
                | B::INDEX
                | B::VERTEX
                | B::UNIFORM
                | B::STORAGE
                | B::INDIRECT
                | B::QUERY_RESOLVE,
        ] {
            for size in [0, 4, 5, 256, 1 << 20] {
                let buffer = gpu.valid((usage, size), || gpu.buffer("usages", size, usage));
                assert_eq!((buffer.size(), buffer.usage()), (size, usage));
            }
        }
    });
}

#[test]
fn impossible_usages() {
    test(|gpu| {
        let mut cases = vec![
            B::MAP_READ | B::MAP_WRITE,
            B::MAP_READ | B::COPY_SRC,
            B::MAP_WRITE | B::COPY_DST,
            B::empty(),
        ];
        let primary = wgpu::Features::MAPPABLE_PRIMARY_BUFFERS;
        assert!(!gpu.device.features().contains(primary));
        cases.extend([
            B::MAP_READ | B::STORAGE,
            B::MAP_WRITE | B::VERTEX,
            B::MAP_WRITE | B::UNIFORM,
        ]);
        for usage in cases {
            let error = gpu.invalid(usage, || gpu.buffer("impossible", 16, usage));
            assert_names(&error, "impossible");
        }
    });
}

#[test]
fn too_large() {
    test(|gpu| {
        let most = gpu.device.limits().max_buffer_size;
        for size in [most + 1, most + 4, u64::MAX - 3, u64::MAX] {
            let error = gpu.invalid(size, || gpu.buffer("too large", size, B::COPY_DST));
            assert_names(&error, "too large");
        }
    });
}

/// Whatever is done with a buffer whose creation failed is an error and nothing worse.
#[test]
fn invalid_buffer_is_inert() {
    test(|gpu| {
        let invalid = || {
            let scope = gpu.device.push_error_scope(wgpu::ErrorFilter::Validation);
            let buffer = gpu.buffer("invalid", 16, B::MAP_READ | B::MAP_WRITE);
            drop(scope.pop());
            buffer
        };
        let good = gpu.buffer("good", 16, B::all_copies());
        let error = gpu.invalid("copy from it", || {
            let commands = gpu.commands(|encoder| {
                encoder.copy_buffer_to_buffer(&invalid(), 0, &good, 0, 16);
            });
            gpu.queue.submit([commands])
        });
        assert!(error.contains("invalid"), "{error}");
        gpu.invalid("write to it", || {
            gpu.queue.write_buffer(&invalid(), 0, &[0; 4]);
        });
        let outcome = Outcome::default();
        gpu.invalid("map it", || {
            invalid().map_async(MapMode::Read, .., outcome.callback());
        });
        let _ = gpu.device.poll(wgpu::PollType::Poll);
        assert_eq!(outcome.get(), [Err(())]);
        gpu.error_of(|| {
            let buffer = invalid();
            buffer.unmap();
            buffer.destroy();
            buffer.destroy();
        });
        // Mapped at creation and invalid at once: whatever it shows, it does not crash.
        gpu.error_of(|| {
            let buffer = gpu.device.create_buffer(&wgpu::BufferDescriptor {
                label: Some("invalid"),
                size: 16,
                usage: B::MAP_READ | B::MAP_WRITE,
                mapped_at_creation: true,
            });
            if let Ok(mut view) = buffer.get_mapped_range_mut(..) {
                view.copy_from_slice(&[1; 16]);
            }
            buffer.unmap();
        });
        assert_eq!(gpu.read(&good), [0; 16], "and good ones are untouched");
    });
}

#[test]
fn mapped_at_creation() {
    test(|gpu| {
        // Mappable buffers, and those that need staging.
        for usage in [
            B::COPY_SRC,
            B::COPY_SRC | B::MAP_WRITE,
            B::COPY_SRC | B::STORAGE,
        ] {
            for size in [4u64, 16, 256, 1000, 1 << 20] {
                let bytes = pattern(size as usize, 1);
                let buffer = gpu.valid((usage, size), || {
                    let buffer = gpu.device.create_buffer(&wgpu::BufferDescriptor {
                        label: Some("mapped at creation"),
                        size,
                        usage,
                        mapped_at_creation: true,
                    });
                    buffer
                        .get_mapped_range_mut(..)
                        .unwrap()
                        .copy_from_slice(&bytes);
                    buffer.unmap();
                    buffer
                });
                assert!(gpu.read(&buffer) == bytes, "{usage:?}, {size}");
            }
        }
    });
}

#[test]
fn mapped_at_creation_sizes() {
    test(|gpu| {
        let make = |size| {
            gpu.device.create_buffer(&wgpu::BufferDescriptor {
                label: Some("odd size"),
                size,
                usage: B::COPY_SRC,
                mapped_at_creation: true,
            })
        };
        for size in [1, 2, 3, 5, 1023] {
            let error = gpu.invalid(size, || make(size));
            assert_names(&error, "odd size");
        }
        // wgpu's helper rounds up; what is beyond the contents is zero.
        for size in [1usize, 2, 3, 5, 1023] {
            let bytes = pattern(size, 4);
            let buffer = gpu.filled("helper", B::COPY_SRC, &bytes);
            let back = gpu.read(&buffer);
            assert_eq!(&back[..size], &bytes);
            assert!(back[size..].iter().all(|byte| *byte == 0));
        }
        // An empty one may be mapped, and unmapped.
        let buffer = gpu.valid("empty", || make(0));
        buffer.unmap();
    });
}

#[test]
fn map_to_write_then_to_read() {
    test(|gpu| {
        let size = 4096;
        let upload = gpu.buffer("upload", size, B::MAP_WRITE | B::COPY_SRC);
        let download = gpu.buffer("download", size, B::MAP_READ | B::COPY_DST);
        for round in 0..3 {
            let bytes = pattern(size as usize, round);
            gpu.map(&upload, MapMode::Write, 0..size);
            upload
                .get_mapped_range_mut(..)
                .unwrap()
                .copy_from_slice(&bytes);
            upload.unmap();
            gpu.run(|encoder| encoder.copy_buffer_to_buffer(&upload, 0, &download, 0, size));
            assert!(gpu.mapped_bytes(&download) == bytes, "round {round}");
        }
        // What a map for writing leaves alone stays.
        gpu.map(&upload, MapMode::Write, 0..size);
        upload
            .get_mapped_range_mut(8..16)
            .unwrap()
            .copy_from_slice(&[9; 8]);
        upload.unmap();
        let mut expected = pattern(size as usize, 2);
        expected[8..16].fill(9);
        assert!(gpu.read(&upload) == expected);
    });
}

#[test]
fn map_ranges() {
    test(|gpu| {
        let bytes = pattern(4096, 8);
        let buffer = gpu.buffer("ranges", 4096, B::MAP_READ | B::COPY_DST);
        gpu.queue.write_buffer(&buffer, 0, &bytes);
        for range in [0..4096u64, 0..8, 8..12, 1024..4096, 4088..4096] {
            gpu.map(&buffer, MapMode::Read, range.clone());
            let view = buffer.get_mapped_range(range.clone()).unwrap();
            assert_eq!(*view, bytes[range.start as usize..range.end as usize]);
            drop(view);
            // Parts of it, one inside the other; reading alone may overlap.
            if range.end - range.start >= 16 {
                let whole = buffer.get_mapped_range(range.clone()).unwrap();
                let part = buffer
                    .get_mapped_range(range.start + 8..range.start + 16)
                    .unwrap();
                assert_eq!(*part, whole[8..16]);
            }
            buffer.unmap();
        }
        // Outside of what is mapped.
        gpu.map(&buffer, MapMode::Read, 1024..2048);
        for range in [0..1024u64, 1016..1032, 2040..2056, 2048..4096, 0..4096] {
            assert!(buffer.get_mapped_range(range.clone()).is_err(), "{range:?}");
        }
        assert!(buffer.get_mapped_range(1024..2048).is_ok());
        buffer.unmap();
        assert!(buffer.get_mapped_range(1024..2048).is_err(), "unmapped");
    });
}

#[test]
fn several_views_at_once_but_none_that_overlap() {
    test(|gpu| {
        let buffer = gpu.buffer("views", 4096, B::MAP_WRITE | B::COPY_SRC);
        gpu.map(&buffer, MapMode::Write, 0..4096);
        let mut first = buffer.get_mapped_range_mut(0..1024).unwrap();
        let mut second = buffer.get_mapped_range_mut(1024..4096).unwrap();
        assert!(buffer.get_mapped_range_mut(0..8).is_err());
        assert!(buffer.get_mapped_range(1016..1024).is_err());
        assert!(buffer.get_mapped_range_mut(..).is_err());
        first.copy_from_slice(&[1; 1024]);
        second.copy_from_slice(&[2; 3072]);
        drop(first);
        // Free again.
        buffer
            .get_mapped_range_mut(0..8)
            .unwrap()
            .copy_from_slice(&[3; 8]);
        drop(second);
        buffer.unmap();
        let back = gpu.read(&buffer);
        assert_eq!((&back[..8], &back[8..16]), (&[3; 8][..], &[1; 8][..]));
        assert_eq!(back[1024..], [2; 3072]);
    });
}

#[test]
fn map_errors() {
    test(|gpu| {
        let read = gpu.buffer("readable", 256, B::MAP_READ | B::COPY_DST);
        let write = gpu.buffer("writable", 256, B::MAP_WRITE | B::COPY_SRC);
        let neither = gpu.buffer("neither", 256, B::all_copies());
        let refused = |buffer: &wgpu::Buffer, mode, range: std::ops::Range<u64>| {
            let outcome = Outcome::default();
            let what = (buffer.usage(), range.clone());
            let error = gpu.invalid(what, || buffer.map_async(mode, range, outcome.callback()));
            let _ = gpu.device.poll(wgpu::PollType::Poll);
            assert_eq!(
                outcome.get(),
                [Err(())],
                "the callback comes, with an error"
            );
            // The wrapper counts a refused map as one until it is unmapped.
            gpu.error_of(|| buffer.unmap());
            error
        };
        assert_names(&refused(&neither, MapMode::Read, 0..256), "neither");
        refused(&neither, MapMode::Write, 0..256);
        refused(&read, MapMode::Write, 0..256);
        refused(&write, MapMode::Read, 0..256);
        refused(&read, MapMode::Read, 4..256);
        refused(&read, MapMode::Read, 0..255);
        refused(&read, MapMode::Read, 8..14);
        // They can be mapped rightly afterwards.
        gpu.map(&read, MapMode::Read, 8..12);
        read.unmap();
        gpu.map(&write, MapMode::Write, 0..256);
        write.unmap();
    });
}

/// Views start at multiples of 8 and are multiples of 4 long.
#[test]
fn view_alignment() {
    test(|gpu| {
        let buffer = gpu.buffer("views", 256, B::MAP_READ | B::COPY_DST);
        gpu.map(&buffer, MapMode::Read, 0..256);
        for range in [4..16u64, 1..8, 0..7, 8..9] {
            let got = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                buffer.get_mapped_range(range.clone()).is_err()
            }));
            assert!(matches!(got, Ok(true)), "{range:?}: an error, no panic");
        }
        assert!(buffer.get_mapped_range(8..12).is_ok());
        buffer.unmap();
    });
}

#[test]
fn mapped_twice() {
    test(|gpu| {
        let buffer = gpu.buffer("mapped twice", 256, B::MAP_READ | B::COPY_DST);
        let (first, second) = (Outcome::default(), Outcome::default());
        buffer.map_async(MapMode::Read, .., first.callback());
        // wgpu's wrapper refuses this one itself.
        gpu.error_of(|| buffer.map_async(MapMode::Read, .., second.callback()));
        gpu.wait();
        assert_eq!(first.get(), [Ok(())]);
        assert_eq!(second.get(), [Err(())]);
        let third = Outcome::default();
        gpu.error_of(|| buffer.map_async(MapMode::Read, .., third.callback()));
        gpu.wait();
        assert_eq!(third.get(), [Err(())]);
        buffer.unmap();
        // No error in the specification; one in wgpu-core.
        gpu.error_of(|| buffer.unmap());
    });
}

#[test]
fn unmap_while_pending() {
    test(|gpu| {
        let buffer = gpu.buffer("pending", 256, B::MAP_READ | B::COPY_DST);
        let commands = gpu.commands(|encoder| encoder.clear_buffer(&buffer, 0, None));
        gpu.submit_in_flight([commands]);
        let (first, second) = (Outcome::default(), Outcome::default());
        buffer.map_async(MapMode::Read, .., first.callback());
        buffer.unmap();
        buffer.map_async(MapMode::Read, .., second.callback());
        gpu.wait();
        assert_eq!(first.get(), [Err(())], "aborted, once");
        assert_eq!(second.get(), [Ok(())], "the next is a map of its own");
        buffer.unmap();
    });
}

/// A map waits for the work that uses the buffer, and only then succeeds.
#[test]
fn map_waits_for_the_gpu() {
    test(|gpu| {
        gpu.warm_up();
        let buffer = gpu.buffer("awaited", 256, B::MAP_READ | B::COPY_DST);
        let idle = gpu.buffer("idle", 256, B::MAP_READ | B::COPY_DST);
        let source = gpu.filled("source", B::COPY_SRC, &pattern(256, 3));
        let commands =
            gpu.commands(|encoder| encoder.copy_buffer_to_buffer(&source, 0, &buffer, 0, 256));
        gpu.submit_in_flight([commands]);
        let (awaited, at_once) = (Outcome::default(), Outcome::default());
        buffer.map_async(MapMode::Read, .., awaited.callback());
        idle.map_async(MapMode::Read, .., at_once.callback());
        gpu.assert_in_flight();
        assert_eq!(awaited.get(), []);
        assert!(buffer.get_mapped_range(..).is_err(), "not yet");
        gpu.wait();
        assert_eq!((awaited.get(), at_once.get()), (vec![Ok(())], vec![Ok(())]));
        assert_eq!(*buffer.get_mapped_range(..).unwrap(), pattern(256, 3));
        buffer.unmap();
        idle.unmap();
    });
}

/// A map sees the writes that were queued before it, with no submit between.
#[test]
fn map_sees_earlier_writes() {
    test(|gpu| {
        let buffer = gpu.buffer("written", 256, B::MAP_READ | B::COPY_DST);
        gpu.queue.write_buffer(&buffer, 0, &pattern(256, 4));
        assert_eq!(gpu.mapped_bytes(&buffer), pattern(256, 4));
        gpu.queue.write_buffer(&buffer, 8, &[0; 8]);
        gpu.queue.write_buffer(&buffer, 8, &[5; 8]);
        assert_eq!(gpu.mapped_bytes(&buffer)[8..16], [5; 8]);
    });
}

/// A buffer that is mapped, or about to be, cannot be submitted.
#[test]
fn mapped_buffers_cannot_be_submitted() {
    test(|gpu| {
        let mapped = gpu.buffer("mapped", 256, B::MAP_WRITE | B::COPY_SRC);
        let target = gpu.buffer("target", 256, B::all_copies());
        let commands =
            || gpu.commands(|encoder| encoder.copy_buffer_to_buffer(&mapped, 0, &target, 0, 256));
        let recorded = gpu.valid("recording is fine", || {
            gpu.map(&mapped, MapMode::Write, 0..256);
            commands()
        });
        let error = gpu.invalid("mapped", || gpu.queue.submit([recorded]));
        assert!(error.contains("mapped"), "{error}");
        mapped.unmap();

        let outcome = Outcome::default();
        mapped.map_async(MapMode::Write, .., outcome.callback());
        gpu.invalid("pending", || gpu.queue.submit([commands()]));
        gpu.wait();
        mapped.unmap();
        gpu.valid("unmapped", || gpu.queue.submit([commands()]));

        let at_creation = gpu.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("mapped at creation"),
            size: 256,
            usage: B::COPY_SRC,
            mapped_at_creation: true,
        });
        gpu.invalid("mapped at creation", || {
            gpu.run(|encoder| encoder.copy_buffer_to_buffer(&at_creation, 0, &target, 0, 256))
        });
        at_creation.unmap();
        gpu.invalid("a write to a mapped buffer", || {
            let buffer = gpu.buffer("written while mapped", 16, B::MAP_READ | B::COPY_DST);
            gpu.map(&buffer, MapMode::Read, 0..16);
            gpu.queue.write_buffer(&buffer, 0, &[1; 16]);
            buffer.unmap();
        });
    });
}

/// Destroying a mapped buffer, and asking for its bytes afterwards.
#[test]
fn destroyed_while_mapped() {
    test(|gpu| {
        gpu.warm_up();
        gpu.quiesce();
        let base = gpu.settled_counts();
        let buffer = gpu.buffer("mapped", 256, B::MAP_READ | B::COPY_DST);
        gpu.map(&buffer, MapMode::Read, 0..256);
        gpu.valid("destroy", || buffer.destroy());
        assert_eq!(gpu.settled_counts(), base);
        assert!(buffer.get_mapped_range(..).is_err(), "its bytes are gone");
        gpu.error_of(|| buffer.unmap());
        let outcome = Outcome::default();
        let error = gpu.invalid("map", || {
            buffer.map_async(MapMode::Read, .., outcome.callback());
        });
        assert!(error.contains("mapped"), "{error}");
        let _ = gpu.device.poll(wgpu::PollType::Poll);
        assert_eq!(outcome.get(), [Err(())]);
        gpu.error_of(|| buffer.unmap());
    });
}

/// Many small buffers share memory blocks without touching each other.
#[test]
fn neighbours_do_not_touch() {
    test(|gpu| {
        let buffers: Vec<_> = (0..200u32)
            .map(|seed| {
                let size = 4 + (seed as usize * 52) % 1000;
                let bytes = pattern(size - size % 4, seed);
                (gpu.filled("small", B::COPY_SRC, &bytes), bytes)
            })
            .collect();
        for (buffer, bytes) in buffers.iter().rev() {
            assert!(gpu.read(buffer) == *bytes);
        }
    });
}
