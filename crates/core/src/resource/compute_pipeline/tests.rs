//! Shader modules, layouts, pipelines and caches as objects of a device: on the back end that does
//! nothing, which every machine has. Rules are tested where they are written.

use super::super::*;
use super::*;
use crate::{device::Options, error::ErrorKind, instance::AdapterOptions, Instance};
use wgt::{BindingType as Type, ShaderStages as Stages};

fn device_with(required_features: wgt::Features) -> Arc<Device> {
    let mut desc = wgt::InstanceDescriptor::new_without_display_handle();
    desc.backends = wgt::Backends::NOOP;
    desc.backend_options.noop.enable = true;
    let instance = Instance::new(desc, Options::default());
    let adapter = instance
        .request_adapter(&AdapterOptions::default())
        .unwrap();
    let desc = wgt::DeviceDescriptor {
        required_features,
        ..Default::default()
    };
    adapter.request_device(&desc).unwrap()
}

fn device() -> Arc<Device> {
    device_with(wgt::Features::empty())
}

/// The result of `act`, and the error that it reported.
fn caught<T>(device: &Device, act: impl FnOnce() -> T) -> (T, Option<Error>) {
    let scopes = [
        ErrorKind::Validation,
        ErrorKind::OutOfMemory,
        ErrorKind::Internal,
    ]
    .map(|filter| device.push_error_scope(filter));
    let result = act();
    let errors = scopes.map(|index| index).into_iter().rev();
    let error = errors
        .filter_map(|index| device.pop_error_scope(index))
        .next();
    (result, error)
}

#[track_caller]
fn fine<T>(device: &Device, act: impl FnOnce() -> T) -> T {
    let (result, error) = caught(device, act);
    if let Some(error) = error {
        panic!("reported: {error}");
    }
    result
}

#[track_caller]
fn reports<T>(device: &Device, rule: &str, act: impl FnOnce() -> T) -> T {
    let (result, error) = caught(device, act);
    let error = error.expect("nothing was reported");
    assert_eq!(error.kind(), ErrorKind::Validation, "{error}");
    assert!(
        error.to_string().contains(rule),
        "{error} does not say {rule:?}"
    );
    result
}

fn module(device: &Arc<Device>, source: &str) -> Arc<ShaderModule> {
    let source = ShaderSource::Wgsl(source.into());
    device.create_shader_module(Some("shader"), source, wgt::ShaderRuntimeChecks::default())
}

fn describe(module: &Arc<ShaderModule>) -> ComputePipelineDescriptor<'_> {
    ComputePipelineDescriptor {
        label: Some("pipeline"),
        layout: None,
        module,
        entry_point: None,
        constants: &[],
        zero_initialize_workgroup_memory: true,
        cache: None,
    }
}

fn storage(binding: u32) -> wgt::BindGroupLayoutEntry {
    wgt::BindGroupLayoutEntry {
        binding,
        visibility: Stages::COMPUTE,
        ty: Type::Buffer {
            ty: wgt::BufferBindingType::Storage { read_only: false },
            has_dynamic_offset: false,
            min_binding_size: None,
        },
        count: None,
    }
}

fn layout(
    device: &Arc<Device>,
    label: &str,
    entries: &[wgt::BindGroupLayoutEntry],
) -> Arc<BindGroupLayout> {
    device.create_bind_group_layout(&BindGroupLayoutDescriptor {
        label: Some(label),
        entries,
    })
}

fn pipeline_layout(
    device: &Arc<Device>,
    groups: &[Option<Arc<BindGroupLayout>>],
) -> Arc<PipelineLayout> {
    device.create_pipeline_layout(&PipelineLayoutDescriptor {
        label: Some("layout"),
        bind_group_layouts: groups,
        immediate_size: 0,
    })
}

const WRITER: &str = "
    @group(0) @binding(0) var<storage, read_write> data: array<u32, 4>;
    @compute @workgroup_size(2, 3) fn main() { data[0] = 1u; }";

#[test]
fn equal_layouts_share_one_hal_layout() {
    let device = device();
    let objects = || device.memory_report().objects;
    let before = objects();
    let (a, b, c) = fine(&device, || {
        let a = layout(&device, "a", &[storage(0), storage(1)]);
        let b = layout(&device, "b", &[storage(1), storage(0)]);
        (a, b, layout(&device, "c", &[storage(0)]))
    });
    assert_eq!(objects(), before + 2);
    assert_eq!((a.label(), b.label()), ("a", "b"));
    assert!(a.is_compatible_with(&b) && b.is_compatible_with(&a));
    assert!(!a.is_compatible_with(&c));
    drop(a);
    assert_eq!(objects(), before + 2);
    drop(b);
    assert_eq!(objects(), before + 1);
    drop(c);
    assert_eq!(objects(), before);
    // The cache has forgotten them, and makes new ones.
    let again = fine(&device, || {
        layout(&device, "again", &[storage(0), storage(1)])
    });
    assert_eq!(objects(), before + 1);
    drop(again);
    assert_eq!(objects(), before);
}

#[test]
fn threads_that_make_equal_layouts_share_one() {
    let device = device();
    let before = device.memory_report().objects;
    for round in 0..50 {
        let layouts: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| layout(&device, "", &[storage(round)])))
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        assert!(layouts
            .iter()
            .all(|layout| layout.is_compatible_with(&layouts[0])));
    }
    assert_eq!(device.memory_report().objects, before);
}

#[test]
fn invalid_layouts_go_with_nothing() {
    let device = device();
    let bad = reports(
        &device,
        "bind group layout \"bad\": binding 0 is declared twice",
        || layout(&device, "bad", &[storage(0), storage(0)]),
    );
    assert!(!bad.is_compatible_with(&bad));
    let bad = reports(&device, "bind group layout \"bad\" is invalid", || {
        pipeline_layout(&device, &[Some(bad)])
    });
    let module = fine(&device, || module(&device, WRITER));
    reports(&device, "pipeline layout \"layout\" is invalid", || {
        device.create_compute_pipeline(&ComputePipelineDescriptor {
            layout: Some(&bad),
            ..describe(&module)
        })
    });
}

#[test]
fn pipeline_layouts_are_limited() {
    let device = device();
    let limit = device.limits.max_bind_groups as usize;
    let group = fine(&device, || layout(&device, "", &[storage(0)]));
    let mut groups = vec![None; limit];
    groups[limit - 1] = Some(Arc::clone(&group));
    fine(&device, || pipeline_layout(&device, &groups));
    groups.push(None);
    reports(&device, "more than max_bind_groups", || {
        pipeline_layout(&device, &groups)
    });
    let per_stage = device.limits.max_storage_buffers_per_shader_stage;
    let half: Vec<_> = (0..per_stage / 2 + 1).map(storage).collect();
    let half = fine(&device, || layout(&device, "", &half));
    reports(&device, "max_storage_buffers_per_shader_stage", || {
        pipeline_layout(&device, &[Some(Arc::clone(&half)), Some(half)])
    });
    reports(&device, "IMMEDIATES", || {
        device.create_pipeline_layout(&PipelineLayoutDescriptor {
            immediate_size: 4,
            ..Default::default()
        })
    });
}

#[test]
fn objects_of_another_device_are_refused() {
    let (mine, theirs) = (device(), device());
    let group = fine(&theirs, || layout(&theirs, "theirs", &[storage(0)]));
    reports(
        &mine,
        "bind group layout \"theirs\" belongs to another device",
        || pipeline_layout(&mine, &[Some(group)]),
    );
    let shader = fine(&theirs, || module(&theirs, WRITER));
    reports(
        &mine,
        "shader module \"shader\" belongs to another device",
        || mine.create_compute_pipeline(&describe(&shader)),
    );
    let shader = fine(&mine, || module(&mine, WRITER));
    let other = fine(&theirs, || pipeline_layout(&theirs, &[]));
    reports(
        &mine,
        "pipeline layout \"layout\" belongs to another device",
        || {
            mine.create_compute_pipeline(&ComputePipelineDescriptor {
                layout: Some(&other),
                ..describe(&shader)
            })
        },
    );
}

#[test]
fn explicit_layouts_are_checked() {
    let device = device();
    let shader = fine(&device, || module(&device, WRITER));
    let group = fine(&device, || layout(&device, "", &[storage(0)]));
    let good = fine(&device, || {
        pipeline_layout(&device, &[Some(Arc::clone(&group))])
    });
    let pipeline = fine(&device, || {
        device.create_compute_pipeline(&ComputePipelineDescriptor {
            layout: Some(&good),
            ..describe(&shader)
        })
    });
    assert!(pipeline.body.is_valid());
    assert_eq!(pipeline.workgroup_size(), [2, 3, 1]);
    assert_eq!(pipeline.late_sized, [vec![(0, 16)]]);
    assert!(pipeline.get_bind_group_layout(0).is_compatible_with(&group));
    // The empty layout of an unused group is one that others may use too.
    let empty = fine(&device, || pipeline.get_bind_group_layout(1));
    assert!(empty.entries.is_empty());
    fine(&device, || pipeline_layout(&device, &[Some(empty)]));

    let empty = fine(&device, || pipeline_layout(&device, &[]));
    let bad = reports(&device, "\"data\" at group 0 binding 0", || {
        device.create_compute_pipeline(&ComputePipelineDescriptor {
            layout: Some(&empty),
            ..describe(&shader)
        })
    });
    assert!(!bad.body.is_valid());
    reports(&device, "the pipeline is invalid", || {
        bad.get_bind_group_layout(0)
    });
}

#[test]
fn automatic_layouts_belong_to_their_pipeline() {
    let device = device();
    let source = "
        @group(0) @binding(0) var<storage, read_write> a: array<u32, 4>;
        @group(2) @binding(0) var<storage, read_write> b: array<u32, 4>;
        @group(3) @binding(0) var<storage, read_write> c: array<u32, 5>;
        @compute @workgroup_size(1) fn main() { a[0] = 1u; b[0] = 1u; c[0] = 1u; }";
    let shader = fine(&device, || module(&device, source));
    let before = device.memory_report().objects;
    let (one, two) = fine(&device, || {
        let make = || device.create_compute_pipeline(&describe(&shader));
        (make(), make())
    });
    assert_eq!(one.late_sized, [vec![], vec![], vec![], vec![]]);
    let of = |pipeline: &ComputePipeline, index| pipeline.get_bind_group_layout(index);
    assert!(of(&one, 0).is_compatible_with(&of(&one, 0)));
    assert!(of(&one, 0).is_compatible_with(&of(&one, 2)));
    assert!(!of(&one, 0).is_compatible_with(&of(&one, 3)));
    assert!(!of(&one, 0).is_compatible_with(&of(&two, 0)));
    assert!(of(&one, 1).entries.is_empty());
    let explicit = fine(&device, || layout(&device, "", &of(&one, 0).entries));
    assert!(!of(&one, 0).is_compatible_with(&explicit));
    for index in [0, 1] {
        reports(
            &device,
            "belongs to a pipeline with an automatic layout",
            || pipeline_layout(&device, &[None, Some(of(&one, index))]),
        );
    }
    reports(&device, "max_bind_groups", || {
        of(&one, device.limits.max_bind_groups)
    });
    reports(&device, "max_bind_groups", || of(&one, u32::MAX));
    drop((one, two, explicit));
    assert_eq!(device.memory_report().objects, before);
}

#[test]
fn modules_say_what_is_wrong() {
    let device = device();
    let bad = reports(&device, "let x = nothing;", || {
        module(
            &device,
            "@compute @workgroup_size(1) fn main() { let x = nothing; }",
        )
    });
    assert!(matches!(
        bad.compilation_failure(),
        Some(CompilationFailure::Wgsl(_))
    ));
    reports(&device, "shader module \"shader\" is invalid", || {
        device.create_compute_pipeline(&describe(&bad))
    });
    let good = fine(&device, || module(&device, WRITER));
    assert!(good.compilation_failure().is_none());
    reports(&device, "no compute entry point \"other\"", || {
        device.create_compute_pipeline(&ComputePipelineDescriptor {
            entry_point: Some("other"),
            ..describe(&good)
        })
    });
    reports(&device, "\"x\" is not an override", || {
        device.create_compute_pipeline(&ComputePipelineDescriptor {
            constants: &[("x", 1.0)],
            ..describe(&good)
        })
    });
}

#[test]
fn constants_reach_the_workgroup() {
    let device = device();
    let source = "override n: u32; @compute @workgroup_size(n) fn main() {}";
    let shader = fine(&device, || module(&device, source));
    let make = |n| {
        device.create_compute_pipeline(&ComputePipelineDescriptor {
            constants: &[("n", n)],
            ..describe(&shader)
        })
    };
    assert_eq!(fine(&device, || make(7.0)).workgroup_size(), [7, 1, 1]);
    reports(&device, "max_compute_workgroup_size_x", || make(1000.0));
    reports(&device, "cannot hold", || make(f64::NAN));
    reports(&device, "'n'", || {
        device.create_compute_pipeline(&describe(&shader))
    });
}

#[test]
fn caches_need_their_feature() {
    let device = device();
    let desc = PipelineCacheDescriptor {
        label: Some("cache"),
        data: None,
        fallback: true,
    };
    let cache = reports(&device, "pipeline cache \"cache\"", || {
        // SAFETY: there is no data.
        unsafe { device.create_pipeline_cache(&desc) }
    });
    assert!(cache.get_data().is_none());
    // An invalid cache counts as none.
    let shader = fine(&device, || module(&device, WRITER));
    fine(&device, || {
        device.create_compute_pipeline(&ComputePipelineDescriptor {
            cache: Some(&cache),
            ..describe(&shader)
        })
    });
}

#[test]
fn a_destroyed_device_makes_invalid_objects_quietly() {
    let device = device();
    let shader = fine(&device, || module(&device, WRITER));
    let group = fine(&device, || layout(&device, "", &[storage(0)]));
    let explicit = fine(&device, || {
        pipeline_layout(&device, &[Some(Arc::clone(&group))])
    });
    let pipeline = fine(&device, || {
        device.create_compute_pipeline(&describe(&shader))
    });
    device.destroy();
    fine(&device, || {
        module(&device, WRITER);
        layout(&device, "", &[storage(0)]);
        pipeline_layout(&device, &[Some(group)]);
        device.create_compute_pipeline(&ComputePipelineDescriptor {
            layout: Some(&explicit),
            ..describe(&shader)
        });
        pipeline.get_bind_group_layout(0);
        pipeline.get_bind_group_layout(1);
    });
}
