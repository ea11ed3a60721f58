//! Query sets and timestamps.

use wgpu::BufferUsages as B;

use crate::harness::*;

fn set(gpu: &Gpu, count: u32) -> wgpu::QuerySet {
    gpu.device.create_query_set(&wgpu::QuerySetDescriptor {
        label: Some("the set"),
        ty: wgpu::QueryType::Timestamp,
        count,
    })
}

fn pass(
    encoder: &mut wgpu::CommandEncoder,
    set: &wgpu::QuerySet,
    begin: Option<u32>,
    end: Option<u32>,
) {
    drop(encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
        label: None,
        timestamp_writes: Some(wgpu::ComputePassTimestampWrites {
            query_set: set,
            beginning_of_pass_write_index: begin,
            end_of_pass_write_index: end,
        }),
    }));
}

#[test]
fn timestamps_of_a_pass() {
    test_with(wgpu::Features::TIMESTAMP_QUERY, |gpu| {
        assert!(gpu.queue.get_timestamp_period() > 0.0);
        let set = set(gpu, 4);
        assert_eq!(set.count(), 4);
        assert!(matches!(set.ty(), wgpu::QueryType::Timestamp));
        let results = gpu.buffer("results", 512, B::QUERY_RESOLVE | B::all_copies());
        gpu.valid("timestamps", || {
            gpu.run(|encoder| {
                pass(encoder, &set, Some(0), Some(1));
                pass(encoder, &set, None, Some(2));
                encoder.resolve_query_set(&set, 0..3, &results, 0);
                encoder.resolve_query_set(&set, 1..2, &results, 256);
            })
        });
        let stamps: Vec<u64> = gpu
            .read(&results)
            .chunks_exact(8)
            .map(|bytes| u64::from_ne_bytes(bytes.try_into().unwrap()))
            .collect();
        assert!(stamps[0] > 0 && stamps[0] <= stamps[1] && stamps[1] <= stamps[2]);
        assert_eq!(stamps[32], stamps[1], "at an offset");
        // Written again.
        gpu.run(|encoder| {
            pass(encoder, &set, Some(0), Some(1));
            encoder.resolve_query_set(&set, 0..1, &results, 0);
        });
        let again = gpu.read(&results);
        let again = u64::from_ne_bytes(again[..8].try_into().unwrap());
        assert!(again >= stamps[2]);
    });
}

/// Queries that nobody wrote resolve to zero.
#[test]
fn unwritten_queries_are_zero() {
    test_with(wgpu::Features::TIMESTAMP_QUERY, |gpu| {
        let set = set(gpu, 2);
        let results = gpu.filled("results", B::QUERY_RESOLVE | B::all_copies(), &[7; 16]);
        gpu.valid("resolve", || {
            gpu.run(|encoder| {
                pass(encoder, &set, Some(1), None);
                encoder.resolve_query_set(&set, 0..2, &results, 0);
            })
        });
        let words = gpu.read_words(&results);
        assert_eq!(words[..2], [0, 0]);
        assert_ne!(words[2..], [0, 0]);
    });
}

#[test]
fn query_errors() {
    test_with(wgpu::Features::TIMESTAMP_QUERY, |gpu| {
        gpu.invalid("none", || set(gpu, 0));
        gpu.invalid("too many", || set(gpu, wgpu::QUERY_SET_MAX_QUERIES + 1));
        gpu.invalid("statistics without the feature", || {
            gpu.device.create_query_set(&wgpu::QuerySetDescriptor {
                label: Some("the set"),
                ty: wgpu::QueryType::PipelineStatistics(wgpu::PipelineStatisticsTypes::all()),
                count: 1,
            })
        });
        let set = set(gpu, 2);
        for (what, begin, end) in [
            ("begin out of range", Some(2), None),
            ("end out of range", None, Some(u32::MAX)),
            ("the same twice", Some(1), Some(1)),
            ("neither", None, None),
        ] {
            gpu.invalid(what, || {
                gpu.commands(|encoder| pass(encoder, &set, begin, end))
            });
        }
        let results = gpu.buffer("results", 512, B::QUERY_RESOLVE);
        let no_usage = gpu.buffer("results", 512, B::COPY_DST);
        for (what, range, target, offset) in [
            ("range past the end", 1..3, &results, 0),
            ("range beyond the end", 2..3, &results, 0),
            ("offset not of 256", 0..1, &results, 8),
            ("past the target's end", 0..2, &results, 512),
            ("offset overflows", 0..2, &results, u64::MAX - 255),
            ("lacks QUERY_RESOLVE", 0..1, &no_usage, 0),
        ] {
            gpu.invalid(what, || {
                gpu.commands(|encoder| encoder.resolve_query_set(&set, range, target, offset))
            });
        }
        gpu.invalid("in an encoder, without the feature", || {
            gpu.commands(|encoder| encoder.write_timestamp(&set, 0))
        });
    });
}

#[test]
fn timestamps_in_encoders_and_passes() {
    let features = wgpu::Features::TIMESTAMP_QUERY
        | wgpu::Features::TIMESTAMP_QUERY_INSIDE_ENCODERS
        | wgpu::Features::TIMESTAMP_QUERY_INSIDE_PASSES;
    test_with(features, |gpu| {
        let set = set(gpu, 3);
        let results = gpu.buffer("results", 256, B::QUERY_RESOLVE | B::all_copies());
        gpu.valid("timestamps", || {
            gpu.run(|encoder| {
                encoder.write_timestamp(&set, 0);
                encoder
                    .begin_compute_pass(&Default::default())
                    .write_timestamp(&set, 1);
                encoder.write_timestamp(&set, 2);
                encoder.resolve_query_set(&set, 0..3, &results, 0);
            })
        });
        let stamps: Vec<u64> = gpu.read(&results)[..24]
            .chunks_exact(8)
            .map(|bytes| u64::from_ne_bytes(bytes.try_into().unwrap()))
            .collect();
        assert!(stamps[0] > 0 && stamps[0] <= stamps[1] && stamps[1] <= stamps[2]);
        gpu.invalid("out of range", || {
            gpu.commands(|encoder| encoder.write_timestamp(&set, 3))
        });
    });
}

/// Sets are their device's only while that has the feature.
#[test]
fn without_the_feature() {
    test_bare(|| {
        let adapter = match adapter() {
            Ok(adapter) => adapter,
            Err(why) => return skip(&why),
        };
        let (device, _queue) =
            pollster::block_on(adapter.request_device(&Default::default())).unwrap();
        let scope = device.push_error_scope(wgpu::ErrorFilter::Validation);
        drop(device.create_query_set(&wgpu::QuerySetDescriptor {
            label: Some("the set"),
            ty: wgpu::QueryType::Timestamp,
            count: 2,
        }));
        let error = pollster::block_on(scope.pop()).expect("an error");
        assert!(error.to_string().contains("TIMESTAMP_QUERY"), "{error}");
    });
}
