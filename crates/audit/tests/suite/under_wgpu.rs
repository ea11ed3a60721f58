//! Ordinary wgpu, and so wgpu-core, on audited backends.

use fencepost_audit::{AuditMode, Audited, Auditor, Contract, Report, Violation};
use std::sync::mpsc;
use wgpu::hal::{self, Api};

fn device<A: Api>(auditor: &Auditor) -> Option<(wgpu::Instance, wgpu::Device, wgpu::Queue)> {
    let audited = crate::rig::instance::<A>(auditor).ok()?;
    // SAFETY: the instance is new and nobody else's.
    let instance = unsafe { wgpu::Instance::from_hal::<Audited<A>>(audited) };
    let adapters = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::all()));
    let adapter = adapters.into_iter().next()?;
    let desc = wgpu::DeviceDescriptor {
        required_limits: adapter.limits(),
        ..wgpu::DeviceDescriptor::default()
    };
    let (device, queue) = pollster::block_on(adapter.request_device(&desc)).ok()?;
    Some((instance, device, queue))
}

fn print(title: &str, reports: &[Report]) {
    println!("{title}: {} reports", reports.len());
    for report in reports {
        println!("  {report}");
    }
}

/// A compute program as one writes it: upload, bind, dispatch, read back, drop.
fn compute(device: &wgpu::Device, queue: &wgpu::Queue, frames: u32) -> Vec<u32> {
    let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
        label: Some("shader"),
        source: wgpu::ShaderSource::Wgsl(
            "@group(0) @binding(0) var<storage, read_write> data: array<u32>;
             @compute @workgroup_size(16) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
                 data[id.x] = data[id.x] * 2 + 1;
             }"
            .into(),
        ),
    });
    let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: Some("pipeline"),
        layout: None,
        module: &module,
        entry_point: Some("main"),
        compilation_options: wgpu::PipelineCompilationOptions::default(),
        cache: None,
    });
    let buffer = |label, usage| {
        device.create_buffer(&wgpu::BufferDescriptor {
            label: Some(label),
            size: 64,
            usage,
            mapped_at_creation: false,
        })
    };
    let readback = buffer(
        "readback",
        wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
    );
    for frame in 0..frames {
        let storage = buffer(
            "storage",
            wgpu::BufferUsages::STORAGE
                | wgpu::BufferUsages::COPY_SRC
                | wgpu::BufferUsages::COPY_DST,
        );
        let data: Vec<u8> = (0..16)
            .flat_map(|i: u32| (i + frame).to_ne_bytes())
            .collect();
        queue.write_buffer(&storage, 0, &data);
        let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some("group"),
            layout: &pipeline.get_bind_group_layout(0),
            entries: &[wgpu::BindGroupEntry {
                binding: 0,
                resource: storage.as_entire_binding(),
            }],
        });
        let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor {
            label: Some("encoder"),
        });
        {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            pass.set_pipeline(&pipeline);
            pass.set_bind_group(0, &group, &[]);
            pass.dispatch_workgroups(1, 1, 1);
        }
        encoder.copy_buffer_to_buffer(&storage, 0, &readback, 0, 64);
        queue.submit([encoder.finish()]);
        if frame % 2 == 0 {
            storage.destroy();
        }
    }
    let (sender, receiver) = mpsc::channel();
    readback.map_async(wgpu::MapMode::Read, .., move |result| {
        sender.send(result).unwrap();
    });
    device.poll(wgpu::PollType::wait_indefinitely()).unwrap();
    receiver.recv().unwrap().unwrap();
    let words = readback
        .get_mapped_range(..)
        .unwrap()
        .chunks_exact(4)
        .map(|bytes| u32::from_ne_bytes(bytes.try_into().unwrap()))
        .collect();
    readback.unmap();
    words
}

/// wgpu-core keeps wgpu-hal's documented contract on a program like this. What the strict contract finds
/// is printed: it is not what wgpu-core promises.
#[test]
fn a_compute_program() {
    for contract in [Contract::Standard, Contract::Strict] {
        let auditor = Auditor::new(contract, AuditMode::Collect);
        let Some((instance, device, queue)) = device::<crate::rig::Native>(&auditor) else {
            let name = std::thread::current().name().unwrap_or("a test").to_owned();
            println!("skipped: {name}: no adapter on this machine");
            return;
        };
        let words = compute(&device, &queue, 4);
        let expected: Vec<u32> = (0..16).map(|i| (i + 3) * 2 + 1).collect();
        assert_eq!(words, expected);
        drop(queue);
        drop(device);
        drop(instance);
        let reports = auditor.take_reports();
        print(&format!("wgpu-core, compute, {contract:?}"), &reports);
        assert!(auditor.live_objects().is_empty());
        if contract == Contract::Standard {
            assert!(reports.is_empty());
        }
    }
}

/// Objects destroyed and dropped at each stage, under wgpu-core: the standard contract holds.
#[test]
fn destroyed_and_dropped_at_each_stage() {
    for contract in [Contract::Standard, Contract::Strict] {
        for stage in ["recording", "finished", "in flight"] {
            for destroy in [true, false] {
                let auditor = Auditor::new(contract, AuditMode::Collect);
                let (instance, device, queue) = device::<hal::api::Noop>(&auditor).unwrap();
                let errors = device.push_error_scope(wgpu::ErrorFilter::Validation);
                let buffer = device.create_buffer(&wgpu::BufferDescriptor {
                    label: Some("target"),
                    size: 64,
                    usage: wgpu::BufferUsages::COPY_DST,
                    mapped_at_creation: false,
                });
                let end = |buffer: wgpu::Buffer| {
                    if destroy {
                        buffer.destroy();
                    }
                };
                let mut buffer = Some(buffer);
                let mut encoder = device.create_command_encoder(&Default::default());
                encoder.clear_buffer(buffer.as_ref().unwrap(), 0, None);
                if stage == "recording" {
                    buffer.take().map(end);
                }
                let commands = encoder.finish();
                if stage == "finished" {
                    buffer.take().map(end);
                }
                queue.submit([commands]);
                buffer.take().map(end);
                device.poll(wgpu::PollType::wait_indefinitely()).unwrap();
                let error = pollster::block_on(errors.pop());
                let refused = destroy && stage != "in flight";
                assert_eq!(error.is_some(), refused, "{stage}: {error:?}");
                drop((queue, device, instance));
                let reports = auditor.take_reports();
                let end = if destroy { "destroyed" } else { "dropped" };
                print(&format!("wgpu-core, {contract:?}, {end} {stage}"), &reports);
                let standard = |report: &Report| report.violation == Violation::DestroyedInFlight;
                assert!(!reports.iter().any(standard));
                if contract == Contract::Standard {
                    assert!(reports.is_empty());
                }
            }
        }
    }
}
