//! Instances, adapters and devices: what is reported, what can be asked for, what is refused.

use crate::harness::*;

fn with_adapter(body: impl FnOnce(&wgpu::Adapter)) {
    test_bare(|| match adapter() {
        Ok(adapter) => body(&adapter),
        Err(why) => skip(&why),
    });
}

#[test]
fn adapters() {
    test_bare(|| {
        let instance = instance(descriptor(wgpu::Backends::VULKAN));
        let all = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::VULKAN));
        if all.is_empty() {
            return skip("no Vulkan adapter answers");
        }
        for adapter in &all {
            let info = adapter.get_info();
            assert_eq!(info.backend, wgpu::Backend::Vulkan);
            assert!(!info.name.is_empty());
        }
        let none = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::empty()));
        assert!(none.is_empty());
        for power_preference in [
            wgpu::PowerPreference::None,
            wgpu::PowerPreference::LowPower,
            wgpu::PowerPreference::HighPerformance,
        ] {
            pollster::block_on(instance.request_adapter(&wgpu::RequestAdapterOptions {
                power_preference,
                ..Default::default()
            }))
            .expect("some adapter");
        }
        let fallback = pollster::block_on(instance.request_adapter(&wgpu::RequestAdapterOptions {
            force_fallback_adapter: true,
            ..Default::default()
        }));
        let software = all
            .iter()
            .any(|adapter| adapter.get_info().device_type == wgpu::DeviceType::Cpu);
        assert_eq!(fallback.is_ok(), software, "{fallback:?}");
    });
}

#[test]
fn an_instance_without_backends() {
    test_bare(|| {
        let instance = instance(descriptor(wgpu::Backends::empty()));
        let result = pollster::block_on(instance.request_adapter(&Default::default()));
        assert!(result.is_err());
        let all = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::all()));
        assert!(all.is_empty());
        assert!(instance.poll_all(true));
    });
}

#[test]
fn what_an_adapter_says() {
    with_adapter(|adapter| {
        let limits = adapter.limits();
        assert!(limits.max_bind_groups >= 4);
        assert!(limits.max_buffer_size >= 256 << 20);
        let caps = adapter.get_downlevel_capabilities();
        assert!(caps.flags.contains(wgpu::DownlevelFlags::COMPUTE_SHADERS));
        let features = adapter.get_texture_format_features(wgpu::TextureFormat::Rgba8Unorm);
        assert!(features
            .allowed_usages
            .contains(wgpu::TextureUsages::TEXTURE_BINDING));
        let _ = adapter.get_presentation_timestamp();
        let _ = adapter.cooperative_matrix_properties();
    });
}

#[test]
fn features_and_limits_are_what_was_asked_for() {
    with_adapter(|adapter| {
        let request =
            |desc: &wgpu::DeviceDescriptor<'_>| pollster::block_on(adapter.request_device(desc));
        let (device, _queue) = request(&Default::default()).expect("the defaults");
        let allowed = wgpu::Features::empty();
        assert_eq!(device.features(), allowed);
        assert_eq!(
            device.limits().max_bind_groups,
            wgpu::Limits::default().max_bind_groups
        );
        assert_eq!(device.adapter_info().name, adapter.get_info().name);

        let (device, _queue) = request(&wgpu::DeviceDescriptor {
            required_limits: adapter.limits(),
            ..Default::default()
        })
        .expect("all the limits");
        assert_eq!(
            device.limits().max_buffer_size,
            adapter.limits().max_buffer_size
        );
        // Every feature that is advertised can be had.
        let experimental = wgpu::Features::all_experimental_mask();
        let features = adapter.features() - experimental;
        let (device, _queue) = request(&wgpu::DeviceDescriptor {
            required_features: features,
            required_limits: adapter.limits(),
            ..Default::default()
        })
        .expect("all the features");
        assert_eq!(device.features(), features);
    });
}

#[test]
fn what_cannot_be_asked_for() {
    with_adapter(|adapter| {
        let request = |desc: &wgpu::DeviceDescriptor<'_>| {
            pollster::block_on(adapter.request_device(desc))
                .map(drop)
                .map_err(|error| error.to_string())
        };
        let missing = wgpu::Features::all() - adapter.features();
        if let Some(feature) = missing
            .iter()
            .find(|feature| !wgpu::Features::all_experimental_mask().contains(*feature))
        {
            let error = request(&wgpu::DeviceDescriptor {
                required_features: feature,
                ..Default::default()
            })
            .expect_err("a feature that the adapter has not");
            let name = feature.iter_names().next().unwrap().0;
            assert!(error.contains(name), "{name}: {error}");
        }
        let limits = adapter.limits();
        for (name, required_limits) in [
            (
                "max_bind_groups",
                wgpu::Limits {
                    max_bind_groups: limits.max_bind_groups + 1,
                    ..Default::default()
                },
            ),
            (
                "max_texture_dimension_2d",
                wgpu::Limits {
                    max_texture_dimension_2d: u32::MAX,
                    ..Default::default()
                },
            ),
            (
                "min_storage_buffer_offset_alignment",
                wgpu::Limits {
                    min_storage_buffer_offset_alignment: 1,
                    ..Default::default()
                },
            ),
        ] {
            let error = request(&wgpu::DeviceDescriptor {
                required_limits,
                ..Default::default()
            })
            .expect_err(name);
            assert!(error.contains(name), "{name}: {error}");
        }
    });
}

#[test]
fn several_devices_of_one_adapter() {
    with_adapter(|adapter| {
        let devices: Vec<_> = (0..4)
            .map(|_| pollster::block_on(adapter.request_device(&Default::default())).unwrap())
            .collect();
        for (device, queue) in &devices {
            let buffer = device.create_buffer(&wgpu::BufferDescriptor {
                label: None,
                size: 256,
                usage: wgpu::BufferUsages::COPY_DST,
                mapped_at_creation: false,
            });
            queue.write_buffer(&buffer, 0, &[1; 256]);
            queue.submit([]);
            device.poll(wgpu::PollType::wait_indefinitely()).unwrap();
        }
        assert_ne!(devices[0].0, devices[1].0);
        assert_eq!(devices[0].0, devices[0].0.clone());
    });
}

/// Instance and adapter may go before the device.
#[test]
fn a_device_outlives_its_instance() {
    test_bare(|| {
        let device = {
            let instance = instance(descriptor(wgpu::Backends::VULKAN));
            let adapter = match pollster::block_on(instance.request_adapter(&Default::default())) {
                Ok(adapter) => adapter,
                Err(why) => return skip(&why.to_string()),
            };
            pollster::block_on(adapter.request_device(&Default::default())).unwrap()
        };
        let (device, queue) = device;
        queue.submit([device.create_command_encoder(&Default::default()).finish()]);
        device.poll(wgpu::PollType::wait_indefinitely()).unwrap();
        // And the queue the device, and an encoder both.
        let encoder = device.create_command_encoder(&Default::default());
        drop(device);
        queue.submit([encoder.finish()]);
        drop(queue);
    });
}

#[test]
fn an_encoder_after_the_queue() {
    test_bare(|| {
        let adapter = match adapter() {
            Ok(adapter) => adapter,
            Err(why) => return skip(&why),
        };
        if ours_alone("making an encoder after the queue was dropped panics") {
            return;
        }
        let (device, queue) =
            pollster::block_on(adapter.request_device(&Default::default())).unwrap();
        drop(queue);
        let buffer = device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: 256,
            usage: wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        let mut encoder = device.create_command_encoder(&Default::default());
        encoder.clear_buffer(&buffer, 0, None);
        let commands = encoder.finish();
        let _ = device.poll(wgpu::PollType::wait_indefinitely());
        drop((buffer, commands));
    });
}

#[test]
fn allocator_report() {
    test(|gpu| {
        let Some(before) = gpu.device.generate_allocator_report() else {
            return skip("the backend has no allocator to report on");
        };
        let buffer = gpu.buffer("reported", 1 << 20, wgpu::BufferUsages::COPY_DST);
        let with = gpu.device.generate_allocator_report().unwrap();
        assert!(with.total_allocated_bytes >= before.total_allocated_bytes + (1 << 20));
        assert!(with.total_reserved_bytes >= with.total_allocated_bytes);
        assert!(with
            .allocations
            .iter()
            .any(|allocation| allocation.name.contains("reported")));
        buffer.destroy();
        let after = gpu.device.generate_allocator_report().unwrap();
        assert_eq!(after.total_allocated_bytes, before.total_allocated_bytes);
    });
}

/// Handles compare by the object that they name.
#[test]
fn handles_compare() {
    test(|gpu| {
        let one = gpu.buffer("one", 16, wgpu::BufferUsages::COPY_DST);
        let two = gpu.buffer("two", 16, wgpu::BufferUsages::COPY_DST);
        assert_eq!(one, one.clone());
        assert_ne!(one, two);
        assert_ne!(one < two, two < one);
        let hash = |buffer: &wgpu::Buffer| {
            use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
            BuildHasherDefault::<DefaultHasher>::default().hash_one(buffer)
        };
        assert_eq!(hash(&one), hash(&one.clone()));
    });
}
