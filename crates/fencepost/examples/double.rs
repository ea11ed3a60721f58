//! Doubles numbers on the GPU: a `wgpu` program that runs on Fencepost.
//!
//! The one line that differs from a program on wgpu's own core makes the instance.

const SHADER: &str = "
    @group(0) @binding(0) var<storage, read_write> numbers: array<u32>;

    @compute @workgroup_size(64)
    fn main(@builtin(global_invocation_id) id: vec3u) {
        if id.x < arrayLength(&numbers) {
            numbers[id.x] *= 2u;
        }
    }
";

fn main() {
    let desc = wgpu::InstanceDescriptor::new_without_display_handle_from_env();
    let instance = fencepost::instance(desc);
    let adapter = pollster::block_on(instance.request_adapter(&Default::default()));
    let Ok(adapter) = adapter else {
        println!("no GPU driver answers; on Debian: apt-get install mesa-vulkan-drivers");
        return;
    };
    println!("running on {}", adapter.get_info().name);
    let device = pollster::block_on(adapter.request_device(&Default::default()));
    let (device, queue) = device.expect("an adapter has a device with default limits");

    let numbers: Vec<u32> = (0..1000).collect();
    let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_ne_bytes()).collect();
    let buffer = |usage| {
        device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: bytes.len() as u64,
            usage: usage | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        })
    };
    let storage = buffer(wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC);
    let readback = buffer(wgpu::BufferUsages::MAP_READ);
    queue.write_buffer(&storage, 0, &bytes);

    let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
        label: None,
        source: wgpu::ShaderSource::Wgsl(SHADER.into()),
    });
    let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: None,
        layout: None,
        module: &module,
        entry_point: None,
        compilation_options: Default::default(),
        cache: None,
    });
    let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: None,
        layout: &pipeline.get_bind_group_layout(0),
        entries: &[wgpu::BindGroupEntry {
            binding: 0,
            resource: storage.as_entire_binding(),
        }],
    });

    let mut encoder = device.create_command_encoder(&Default::default());
    {
        let mut pass = encoder.begin_compute_pass(&Default::default());
        pass.set_pipeline(&pipeline);
        pass.set_bind_group(0, &group, &[]);
        pass.dispatch_workgroups(1000_u32.div_ceil(64), 1, 1);
    }
    encoder.copy_buffer_to_buffer(&storage, 0, &readback, 0, None);
    queue.submit([encoder.finish()]);

    readback.map_async(wgpu::MapMode::Read, .., |outcome| {
        outcome.expect("a buffer that nobody destroys can be mapped");
    });
    device
        .poll(wgpu::PollType::wait_indefinitely())
        .expect("a wait without a timeout succeeds");
    let doubled: Vec<u32> = readback
        .get_mapped_range(..)
        .expect("the buffer is mapped")
        .chunks_exact(4)
        .map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]]))
        .collect();
    assert!(numbers.iter().zip(&doubled).all(|(n, d)| n * 2 == *d));
    println!("doubled {} numbers: {:?} ...", doubled.len(), &doubled[..5]);

    drop((storage, group));
    let report = fencepost::memory_report(&device).expect("the device is Fencepost's");
    println!("still there: {report}");
}
