//! Memory that runs out: of every kind, by the driver's word and by the program's budget.

use crate::rig::{Rig, SIZE};
use fencepost_audit::{Completion, ObjectKind, Site};
use fencepost_core::{
    record::{ComputePassDescriptor, TexelCopyTextureInfo},
    resource::{
        BindGroupDescriptor, BindGroupLayoutDescriptor, Buffer, ComputePipelineDescriptor,
        PipelineLayoutDescriptor, ShaderSource, Texture, TextureDescriptor,
    },
    Error, ErrorKind, Reclaim,
};
use std::{any::Any, sync::Arc, thread};
use wgpu_hal::DeviceError;
use wgpu_types as wgt;

/// Scenario 24: out of memory while retired memory waits for the fence. The allocation waits for it.
#[test]
fn out_of_memory_waits_for_retired_memory() {
    let rig = rig();
    let first = rig.buffer("first");
    rig.use_buffer(&first);
    let other = rig.buffer("other");
    rig.use_buffer(&other);
    let before = rig.auditor.live_bytes();
    rig.auditor.faults().set_memory_budget(Some(before));
    drop(first);
    assert_eq!(rig.auditor.live_bytes(), before, "it is in flight");

    let (second, error) = scoped(&rig, || rig.buffer("second"));
    assert!(error.is_none(), "it waited for the first one's memory");
    assert_eq!(rig.auditor.live_bytes(), before);
    assert_eq!(
        rig.auditor.clock().pending().len(),
        1,
        "and not for more than that"
    );

    // Nothing is retired any more, so there is nothing to wait for.
    let (third, error) = scoped(&rig, || rig.buffer("third"));
    let error = error.expect("memory is out").to_string();
    assert!(
        error.contains("third") && error.contains("1 submissions in flight"),
        "{error}"
    );
    drop((second, third, other));
    rig.auditor.faults().clear();
    rig.end();
}

/// A device whose waits complete what they wait for, and nothing else completes.
fn rig() -> Rig {
    let rig = Rig::new(Reclaim::OnCall);
    rig.auditor.clock().set(Completion::ManualOrWaited);
    rig
}

/// The same, with a budget that leaves `bytes` for the program.
fn rig_with_budget(bytes: u64) -> Rig {
    let rig = Rig::with_budget(bytes, Reclaim::OnCall);
    rig.auditor.clock().set(Completion::ManualOrWaited);
    rig
}

/// Runs `f` and returns the out-of-memory error that it caused, if it did.
fn scoped<R>(rig: &Rig, f: impl FnOnce() -> R) -> (R, Option<Error>) {
    let scope = rig.device.push_error_scope(ErrorKind::OutOfMemory);
    let result = f();
    (result, rig.device.pop_error_scope(scope))
}

fn texture(rig: &Rig, label: &str) -> Arc<Texture> {
    rig.device.create_texture(&TextureDescriptor {
        label: Some(label),
        size: wgt::Extent3d {
            width: 64,
            height: 64,
            depth_or_array_layers: 1,
        },
        mip_level_count: 1,
        sample_count: 1,
        dimension: wgt::TextureDimension::D2,
        format: wgt::TextureFormat::Rgba8Unorm,
        usage: wgt::TextureUsages::COPY_DST | wgt::TextureUsages::TEXTURE_BINDING,
        view_formats: &[],
    })
}

/// A way to allocate: where the fault strikes, what the error must name, and what allocates. What it needs
/// is made beforehand.
struct Way {
    name: &'static str,
    site: Site,
    names: &'static str,
    prepare: fn(&Rig) -> Allocate,
}

/// Allocates and keeps what it made.
type Allocate = Box<dyn Fn(&Rig) -> Box<dyn Any>>;

fn allocate<T: 'static>(f: impl Fn(&Rig) -> T + 'static) -> Allocate {
    Box::new(move |rig| Box::new(f(rig)))
}

const MAPPED: wgt::BufferUsages = wgt::BufferUsages::MAP_WRITE.union(wgt::BufferUsages::COPY_SRC);

fn mapped_at_creation(rig: &Rig, usage: wgt::BufferUsages) -> Arc<Buffer> {
    rig.device.create_buffer(&wgt::BufferDescriptor {
        label: Some("full"),
        size: 64,
        usage,
        mapped_at_creation: true,
    })
}

const SHADER: &str = "@compute @workgroup_size(1) fn main() {}";

fn module(rig: &Rig, label: &str) -> Arc<fencepost_core::resource::ShaderModule> {
    let source = ShaderSource::Wgsl(SHADER.into());
    let checks = wgt::ShaderRuntimeChecks::checked();
    rig.device.create_shader_module(Some(label), source, checks)
}

const WAYS: &[Way] = &[
    Way {
        name: "buffer",
        site: Site::Create(ObjectKind::Buffer),
        names: "\"full\"",
        prepare: |_| allocate(|rig| rig.buffer("full")),
    },
    Way {
        name: "buffer mapped at creation, its own memory",
        site: Site::Create(ObjectKind::Buffer),
        names: "\"full\"",
        prepare: |_| allocate(|rig| mapped_at_creation(rig, MAPPED)),
    },
    Way {
        name: "the mapping of a buffer mapped at creation",
        site: Site::Map,
        names: "\"full\"",
        prepare: |_| allocate(|rig| mapped_at_creation(rig, MAPPED)),
    },
    Way {
        name: "staging of a buffer mapped at creation",
        site: Site::Create(ObjectKind::Buffer),
        names: "\"full\"",
        prepare: |_| allocate(|rig| mapped_at_creation(rig, wgt::BufferUsages::COPY_SRC)),
    },
    Way {
        name: "staging of write_buffer",
        site: Site::Create(ObjectKind::Buffer),
        names: "\"target\"",
        prepare: |rig| {
            let target = rig.buffer("target");
            allocate(move |rig| rig.queue.write_buffer(&target, 0, &[1; 64]))
        },
    },
    Way {
        name: "the mapping of staging",
        site: Site::Map,
        names: "\"target\"",
        prepare: |rig| {
            let target = rig.buffer("target");
            allocate(move |rig| rig.queue.write_buffer(&target, 0, &[1; 64]))
        },
    },
    Way {
        name: "staging of write_texture",
        site: Site::Create(ObjectKind::Buffer),
        names: "\"target\"",
        prepare: |rig| {
            let target = texture(rig, "target");
            allocate(move |rig| {
                let destination = TexelCopyTextureInfo {
                    texture: &target,
                    mip_level: 0,
                    origin: wgt::Origin3d::ZERO,
                    aspect: wgt::TextureAspect::All,
                };
                let layout = wgt::TexelCopyBufferLayout {
                    offset: 0,
                    bytes_per_row: Some(256),
                    rows_per_image: None,
                };
                let size = wgt::Extent3d {
                    width: 64,
                    height: 4,
                    depth_or_array_layers: 1,
                };
                rig.queue
                    .write_texture(destination, &[1; 1024], layout, size);
            })
        },
    },
    Way {
        name: "texture",
        site: Site::Create(ObjectKind::Texture),
        names: "\"full\"",
        prepare: |_| allocate(|rig| texture(rig, "full")),
    },
    Way {
        name: "texture view",
        site: Site::Create(ObjectKind::TextureView),
        names: "\"full\"",
        prepare: |rig| {
            let texture = texture(rig, "parent");
            allocate(move |_| {
                texture.create_view(&wgt::TextureViewDescriptor {
                    label: Some("full"),
                    ..Default::default()
                })
            })
        },
    },
    Way {
        name: "sampler",
        site: Site::Create(ObjectKind::Sampler),
        names: "\"full\"",
        prepare: |_| {
            allocate(|rig| {
                rig.device.create_sampler(&wgt::SamplerDescriptor {
                    label: Some("full"),
                    ..Default::default()
                })
            })
        },
    },
    Way {
        name: "bind group layout",
        site: Site::Create(ObjectKind::BindGroupLayout),
        names: "\"full\"",
        prepare: |_| {
            allocate(|rig| {
                rig.device
                    .create_bind_group_layout(&BindGroupLayoutDescriptor {
                        label: Some("full"),
                        entries: &[],
                    })
            })
        },
    },
    Way {
        name: "bind group",
        site: Site::Create(ObjectKind::BindGroup),
        names: "\"full\"",
        prepare: |rig| {
            let layout = rig
                .device
                .create_bind_group_layout(&BindGroupLayoutDescriptor {
                    label: None,
                    entries: &[],
                });
            allocate(move |rig| {
                rig.device.create_bind_group(&BindGroupDescriptor {
                    label: Some("full"),
                    layout: &layout,
                    entries: &[],
                })
            })
        },
    },
    Way {
        name: "pipeline layout",
        site: Site::Create(ObjectKind::PipelineLayout),
        names: "\"full\"",
        prepare: |_| {
            allocate(|rig| {
                rig.device
                    .create_pipeline_layout(&PipelineLayoutDescriptor {
                        label: Some("full"),
                        bind_group_layouts: &[],
                        immediate_size: 0,
                    })
            })
        },
    },
    Way {
        name: "shader module",
        site: Site::Create(ObjectKind::ShaderModule),
        names: "\"full\"",
        prepare: |_| allocate(|rig| module(rig, "full")),
    },
    Way {
        name: "compute pipeline",
        site: Site::Create(ObjectKind::ComputePipeline),
        names: "\"full\"",
        prepare: |rig| {
            let module = module(rig, "module");
            allocate(move |rig| {
                rig.device
                    .create_compute_pipeline(&ComputePipelineDescriptor {
                        label: Some("full"),
                        layout: None,
                        module: &module,
                        entry_point: None,
                        constants: &[],
                        zero_initialize_workgroup_memory: true,
                        cache: None,
                    })
            })
        },
    },
    Way {
        name: "query set",
        site: Site::Create(ObjectKind::QuerySet),
        names: "\"full\"",
        prepare: |_| {
            allocate(|rig| {
                rig.device.create_query_set(&wgt::QuerySetDescriptor {
                    label: Some("full"),
                    ty: wgt::QueryType::Occlusion,
                    count: 8,
                })
            })
        },
    },
    Way {
        name: "command encoder",
        site: Site::Create(ObjectKind::CommandEncoder),
        names: "command encoder",
        prepare: |rig| {
            let buffer = rig.buffer("cleared");
            allocate(move |rig| {
                // The pool's encoders are in flight.
                rig.use_buffer(&buffer);
            })
        },
    },
    Way {
        name: "the beginning of encoding",
        site: Site::BeginEncoding,
        names: "command encoder",
        prepare: |rig| {
            let buffer = rig.buffer("cleared");
            allocate(move |rig| rig.use_buffer(&buffer))
        },
    },
    Way {
        name: "arguments of an indirect dispatch",
        site: Site::Create(ObjectKind::Buffer),
        names: "indirect",
        prepare: |rig| {
            let pipeline = rig.pipeline();
            let arguments = rig.device.create_buffer(&wgt::BufferDescriptor {
                label: Some("arguments"),
                size: 12,
                usage: wgt::BufferUsages::INDIRECT,
                mapped_at_creation: false,
            });
            allocate(move |rig| {
                let encoder = rig.device.create_command_encoder(None);
                let mut pass = encoder.begin_compute_pass(&ComputePassDescriptor::default());
                pass.set_pipeline(&pipeline);
                pass.dispatch_workgroups_indirect(&arguments, 0);
                drop(pass);
                rig.queue.submit([encoder.finish()]);
            })
        },
    },
];

/// Whatever runs out of memory, one time: it waits for the memory that is retired, for the oldest
/// submission that holds some and for no more, and succeeds.
#[test]
fn every_allocation_waits_for_retired_memory() {
    for way in WAYS {
        let rig = rig();
        let allocate = (way.prepare)(&rig);
        let (retired, busy) = (rig.buffer("retired"), rig.buffer("busy"));
        rig.use_buffer(&retired);
        rig.use_buffer(&busy);
        let with_both = rig.auditor.live_bytes();
        drop(retired);
        let faults = rig.auditor.faults();
        faults.fail_at(way.site, 1, DeviceError::OutOfMemory);
        let pending = rig.auditor.clock().pending();
        let (made, error) = scoped(&rig, || allocate(&rig));
        assert!(error.is_none(), "{}: {}", way.name, error.unwrap());
        let left = rig.auditor.clock().pending();
        assert!(
            !left.contains(&pending[0]) && left.contains(&pending[1]),
            "{}: it waited for the first submission, whose memory is retired, and not for the second: {left:?}",
            way.name
        );
        assert!(
            rig.auditor
                .live_objects()
                .iter()
                .all(|object| object.label.as_deref() != Some("retired")),
            "{}: of {with_both} bytes",
            way.name
        );
        drop((made, busy, allocate));
        faults.clear();
        rig.end();
    }
}

/// Nothing is retired: it is an error, of the right kind, that says what there is; nothing is waited for,
/// the device is not lost, and it works the next time.
#[test]
fn every_allocation_reports_when_nothing_can_come_back() {
    for way in WAYS {
        let rig = rig();
        let allocate = (way.prepare)(&rig);
        let busy = rig.buffer("busy");
        rig.use_buffer(&busy);
        let faults = rig.auditor.faults();
        // As often as it is tried: after pooled encoders were let go of, after other threads have freed, and
        // once more after waiting writes were submitted.
        for nth in 1..=8 {
            faults.fail_at(way.site, nth, DeviceError::OutOfMemory);
        }
        let in_flight = rig.auditor.clock().pending();
        let ((), error) = scoped(&rig, || {
            allocate(&rig);
        });
        let error = error.unwrap_or_else(|| panic!("{}: no error", way.name));
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        let error = error.to_string();
        for part in [
            way.names,
            "objects of",
            "retired",
            "1 submissions in flight",
        ] {
            assert!(error.contains(part), "{}: {part}: {error}", way.name);
        }
        assert_eq!(rig.auditor.clock().pending(), in_flight, "{}", way.name);
        faults.clear();
        let (made, error) = scoped(&rig, || allocate(&rig));
        assert!(error.is_none(), "{}: {}", way.name, error.unwrap());
        drop((made, busy, allocate));
        rig.end();
    }
}

/// A budget is kept to the byte, and what is destroyed makes room in it.
#[test]
fn a_budget_is_kept() {
    let rig = rig_with_budget(2 * SIZE);
    let (first, second) = (rig.buffer("first"), rig.buffer("second"));
    assert_eq!(rig.device.memory_report().bytes, rig.auditor.live_bytes());
    let tiny = || {
        rig.device.create_buffer(&wgt::BufferDescriptor {
            label: Some("tiny"),
            size: 1,
            usage: wgt::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        })
    };
    let (_, error) = scoped(&rig, tiny);
    let error = error.expect("the budget is spent").to_string();
    let budget = rig.device.memory_report().budget.expect("it was set");
    let said = format!("the budget is {budget} bytes");
    assert!(
        error.contains("\"tiny\"") && error.contains(&said),
        "{error}"
    );
    let (_, error) = scoped(&rig, || texture(&rig, "texture"));
    assert!(error.is_some(), "textures count");
    let ((), error) = scoped(&rig, || rig.queue.write_buffer(&first, 0, &[1; 4]));
    assert!(error.is_some(), "staging counts");
    first.destroy();
    let (third, error) = scoped(&rig, || rig.buffer("third"));
    assert!(error.is_none(), "{}", error.unwrap());
    drop((first, second, third));
    rig.end();
}

/// Within a budget, retired memory is waited for from the oldest submission on, as far as needed.
#[test]
fn a_budget_waits_oldest_first() {
    let rig = rig_with_budget(4 * SIZE);
    for label in ["1", "2", "3", "4"] {
        let buffer = rig.buffer(label);
        rig.use_buffer(&buffer);
    }
    assert_eq!(rig.device.memory_report().retired_bytes, 4 * SIZE);
    let mut kept = Vec::new();
    for left in [3, 2, 1, 0] {
        let (made, error) = scoped(&rig, || rig.buffer("next"));
        assert!(error.is_none(), "{}", error.unwrap());
        assert_eq!(rig.auditor.clock().pending().len(), left);
        kept.push(made);
    }
    drop(kept);
    rig.end();
}

/// Writes that wait for a submit hold staging memory: they are submitted before memory is said to be out,
/// and arrive.
#[test]
fn waiting_writes_give_way() {
    let rig = rig_with_budget(3 * SIZE);
    let target = rig.device.create_buffer(&wgt::BufferDescriptor {
        label: Some("target"),
        size: SIZE,
        usage: wgt::BufferUsages::MAP_READ | wgt::BufferUsages::COPY_DST,
        mapped_at_creation: false,
    });
    let bytes = vec![7; SIZE as usize];
    rig.queue.write_buffer(&target, 0, &bytes);
    let kept = rig.buffer("kept");
    assert_eq!(rig.auditor.clock().pending().len(), 0, "the write waits");
    let (next, error) = scoped(&rig, || rig.buffer("next"));
    assert!(error.is_none(), "{}", error.unwrap());
    drop((next, kept));
    let (mapped, is_mapped) = std::sync::mpsc::channel();
    target.map_async(
        fencepost_core::resource::MapMode::Read,
        0..SIZE,
        Box::new(move |outcome| mapped.send(outcome).unwrap()),
    );
    rig.device
        .poll(wgt::PollType::Wait {
            submission_index: None,
            timeout: None,
        })
        .unwrap();
    is_mapped.recv().unwrap().expect("it is mapped");
    let range = target.mapped_range(0..SIZE).unwrap();
    // SAFETY: the range is mapped while it lives, and nobody writes.
    let read = unsafe { std::slice::from_raw_parts(range.as_ptr().as_ptr(), range.len()) };
    assert!(read == bytes, "the write arrived");
    drop((range, target));
    rig.end();
}

/// Threads that create at the same time stay within the budget together.
#[test]
fn threads_share_a_budget() {
    let rig = rig_with_budget(4 * SIZE);
    let budget = rig.device.memory_report().budget.expect("it was set");
    rig.auditor.clock().set(Completion::Backend);
    thread::scope(|scope| {
        for index in 0..8 {
            let rig = &rig;
            scope.spawn(move || {
                let mut refused = 0;
                for round in 0..200 {
                    let (buffer, error) = scoped(rig, || rig.buffer("mine"));
                    refused += u32::from(error.is_some());
                    assert!(rig.auditor.live_bytes() <= budget);
                    if error.is_none() && (index + round) % 2 == 0 {
                        rig.use_buffer(&buffer);
                    }
                    thread::yield_now();
                    drop(buffer);
                }
                refused
            });
        }
    });
    assert_eq!(rig.device.memory_report().retired_bytes, 0);
    rig.end();
}

/// The pool of encoders: what a large submission used is not kept, at most eight others are, and under
/// pressure none.
#[test]
fn pooled_encoders_do_not_pile_up() {
    let rig = rig();
    let encoders = || {
        let live = rig.auditor.live_objects();
        let encoders = live.iter().filter(|o| o.kind == ObjectKind::CommandEncoder);
        encoders.count()
    };
    let buffer = rig.buffer("cleared");
    for _ in 0..20 {
        rig.use_buffer(&buffer);
    }
    assert_eq!(encoders(), 20, "in flight, each has its own");
    rig.auditor.clock().complete_all();
    rig.device.poll(wgt::PollType::Poll).unwrap();
    assert_eq!(encoders(), 8);

    let large = rig.device.create_command_encoder(None);
    for _ in 0..10_000 {
        large.clear_buffer(&buffer, 0, None);
    }
    rig.queue.submit([large.finish()]);
    rig.auditor.clock().complete_all();
    rig.device.poll(wgt::PollType::Poll).unwrap();
    assert_eq!(
        encoders(),
        7,
        "it took one from the pool, which did not go back"
    );

    let faults = rig.auditor.faults();
    faults.fail_at(
        Site::Create(ObjectKind::Buffer),
        1,
        DeviceError::OutOfMemory,
    );
    let (made, error) = scoped(&rig, || rig.buffer("next"));
    assert!(error.is_none(), "{}", error.unwrap());
    assert_eq!(encoders(), 0);
    drop((made, buffer));
    drop(large);
    rig.end();
}
