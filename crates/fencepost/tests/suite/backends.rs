//! The other back ends: wgpu-hal's no-op, and GL through EGL. A handful of tests each.

use wgpu::BufferUsages as B;

use crate::harness::*;

fn device(desc: wgpu::InstanceDescriptor) -> Result<(wgpu::Device, wgpu::Queue), String> {
    let instance = instance(desc);
    let adapter = pollster::block_on(instance.request_adapter(&Default::default()))
        .map_err(|error| error.to_string())?;
    pollster::block_on(adapter.request_device(&wgpu::DeviceDescriptor {
        required_limits: wgpu::Limits::downlevel_defaults().using_resolution(adapter.limits()),
        ..Default::default()
    }))
    .map_err(|error| error.to_string())
}

fn noop() -> Result<(wgpu::Device, wgpu::Queue), String> {
    let mut desc = descriptor(wgpu::Backends::NOOP);
    desc.backend_options.noop = wgpu::NoopBackendOptions::enabled();
    device(desc)
}

fn gl() -> Result<(wgpu::Device, wgpu::Queue), String> {
    device(descriptor(wgpu::Backends::GL))
}

fn on(
    backend: fn() -> Result<(wgpu::Device, wgpu::Queue), String>,
    body: impl FnOnce(&wgpu::Device, &wgpu::Queue),
) {
    test_bare(|| match backend() {
        Ok((device, queue)) => body(&device, &queue),
        Err(why) => skip(&why),
    });
}

fn buffer(device: &wgpu::Device, size: u64, usage: B) -> wgpu::Buffer {
    device.create_buffer(&wgpu::BufferDescriptor {
        label: Some("buffer"),
        size,
        usage,
        mapped_at_creation: false,
    })
}

fn read(device: &wgpu::Device, queue: &wgpu::Queue, from: &wgpu::Buffer) -> Vec<u8> {
    let back = buffer(device, from.size(), B::MAP_READ | B::COPY_DST);
    let mut encoder = device.create_command_encoder(&Default::default());
    encoder.copy_buffer_to_buffer(from, 0, &back, 0, None);
    queue.submit([encoder.finish()]);
    back.map_async(wgpu::MapMode::Read, .., |result| result.unwrap());
    device.poll(wgpu::PollType::wait_indefinitely()).unwrap();
    let bytes = back.get_mapped_range(..).unwrap().to_vec();
    back.unmap();
    bytes
}

/// Writes, copies, clears and mapped-at-creation contents come back as they went in.
fn round_trips(device: &wgpu::Device, queue: &wgpu::Queue) {
    let bytes = pattern(4096, 1);
    let one = buffer(device, 4096, B::all_copies());
    queue.write_buffer(&one, 0, &bytes);
    assert!(read(device, queue, &one) == bytes);
    let two = buffer(device, 4096, B::all_copies());
    assert!(
        read(device, queue, &two).iter().all(|byte| *byte == 0),
        "fresh"
    );
    let mut encoder = device.create_command_encoder(&Default::default());
    encoder.copy_buffer_to_buffer(&one, 0, &two, 0, None);
    encoder.clear_buffer(&two, 0, Some(256));
    queue.submit([encoder.finish()]);
    let mut expected = bytes.clone();
    expected[..256].fill(0);
    assert!(read(device, queue, &two) == expected);
    let three = device.create_buffer(&wgpu::BufferDescriptor {
        label: Some("at creation"),
        size: 4096,
        usage: B::COPY_SRC,
        mapped_at_creation: true,
    });
    three
        .get_mapped_range_mut(..)
        .unwrap()
        .copy_from_slice(&bytes);
    three.unmap();
    assert!(read(device, queue, &three) == bytes);
}

/// Destroyed before submit: refused. Destroyed and dropped after: nothing breaks.
fn lifetimes(device: &wgpu::Device, queue: &wgpu::Queue) {
    let target = buffer(device, 256, B::all_copies());
    for round in 0..20 {
        let source = buffer(device, 256, B::all_copies());
        queue.write_buffer(&source, 0, &[1; 256]);
        let commands = || {
            let mut encoder = device.create_command_encoder(&Default::default());
            encoder.copy_buffer_to_buffer(&source, 0, &target, 0, None);
            encoder.finish()
        };
        let (first, second) = (commands(), commands());
        queue.submit([first]);
        source.destroy();
        let scope = device.push_error_scope(wgpu::ErrorFilter::Validation);
        queue.submit([second]);
        let error = pollster::block_on(scope.pop()).expect("refused");
        assert!(error.to_string().contains("destroyed"), "{round}: {error}");
    }
    assert_eq!(read(device, queue, &target), [1; 256]);
    let texture = device.create_texture(&wgpu::TextureDescriptor {
        label: Some("texture"),
        size: extent(4, 4, 1),
        mip_level_count: 1,
        sample_count: 1,
        dimension: wgpu::TextureDimension::D2,
        format: wgpu::TextureFormat::Rgba8Unorm,
        usage: wgpu::TextureUsages::all_copies() | wgpu::TextureUsages::TEXTURE_BINDING,
        view_formats: &[],
    });
    queue.write_texture(
        texture.as_image_copy(),
        &[5; 64],
        layout(0, 16, 4),
        extent(4, 4, 1),
    );
    queue.submit([]);
    drop(texture.create_view(&Default::default()));
    texture.destroy();
    drop(texture);
    device.poll(wgpu::PollType::wait_indefinitely()).unwrap();
    device.destroy();
}

#[test]
fn noop_round_trips() {
    on(noop, round_trips);
}

#[test]
fn noop_lifetimes() {
    on(noop, lifetimes);
}

/// Shaders do not run there, but everything around them does.
#[test]
fn noop_compute() {
    on(noop, |device, queue| {
        let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: None,
            source: wgpu::ShaderSource::Wgsl(
                "@group(0) @binding(0) var<storage, read_write> data: array<u32>;
                @compute @workgroup_size(1) fn main() { data[0] = 1u; }"
                    .into(),
            ),
        });
        let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: None,
            module: &module,
            entry_point: None,
            compilation_options: Default::default(),
            cache: None,
        });
        let data = buffer(device, 256, B::STORAGE | B::all_copies());
        let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &pipeline.get_bind_group_layout(0),
            entries: &[wgpu::BindGroupEntry {
                binding: 0,
                resource: data.as_entire_binding(),
            }],
        });
        for _ in 0..100 {
            let mut encoder = device.create_command_encoder(&Default::default());
            {
                let mut pass = encoder.begin_compute_pass(&Default::default());
                pass.set_pipeline(&pipeline);
                pass.set_bind_group(0, &group, &[]);
                pass.dispatch_workgroups(1, 1, 1);
            }
            queue.submit([encoder.finish()]);
        }
        device.poll(wgpu::PollType::wait_indefinitely()).unwrap();
    });
}

/// It is not found unless it is asked for.
#[test]
fn noop_must_be_enabled() {
    test_bare(|| {
        assert!(device(descriptor(wgpu::Backends::NOOP)).is_err());
    });
}

#[test]
fn gl_round_trips() {
    on(gl, round_trips);
}

#[test]
fn gl_lifetimes() {
    on(gl, lifetimes);
}

#[test]
fn gl_compute() {
    on(gl, |device, queue| {
        if device.limits().max_compute_workgroups_per_dimension == 0 {
            return skip("this GL has no compute shaders");
        }
        let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: None,
            source: wgpu::ShaderSource::Wgsl(
                "@group(0) @binding(0) var<storage, read_write> data: array<u32>;
                @compute @workgroup_size(1) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
                    data[id.x] = id.x * 3u;
                }"
                .into(),
            ),
        });
        let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: None,
            module: &module,
            entry_point: None,
            compilation_options: Default::default(),
            cache: None,
        });
        let data = buffer(device, 256, B::STORAGE | B::all_copies());
        let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &pipeline.get_bind_group_layout(0),
            entries: &[wgpu::BindGroupEntry {
                binding: 0,
                resource: data.as_entire_binding(),
            }],
        });
        let mut encoder = device.create_command_encoder(&Default::default());
        {
            let mut pass = encoder.begin_compute_pass(&Default::default());
            pass.set_pipeline(&pipeline);
            pass.set_bind_group(0, &group, &[]);
            pass.dispatch_workgroups(64, 1, 1);
        }
        queue.submit([encoder.finish()]);
        let expected: Vec<u32> = (0..64).map(|index| index * 3).collect();
        assert_eq!(words(&read(device, queue, &data)), expected);
    });
}
