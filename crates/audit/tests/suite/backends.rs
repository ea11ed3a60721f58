//! Real backends under the auditor: a shader runs, its result is right, and violations that reach real
//! memory management are reported without harm.

use crate::rig::{nothing, only, Native, Rig};
use fencepost_audit::{AuditMode, Auditor, Completion, Contract, Violation};
use wgpu_hal::{self as hal, Api, CommandEncoder as _, Device as _};
use wgpu_types as wgt;

/// `None`, with the reason printed, if the machine has no such backend.
fn open<A: Api>(contract: Contract) -> Option<Rig<A>> {
    let auditor = Auditor::new(contract, AuditMode::Collect);
    let rig = Rig::open(&auditor);
    if rig.is_none() {
        let name = std::thread::current().name().unwrap_or("a test").to_owned();
        println!(
            "skipped: {name}: no adapter for {} on this machine",
            A::VARIANT
        );
    }
    rig
}

fn shader() -> hal::NagaShader {
    let source = "
        @group(0) @binding(0) var<storage, read_write> data: array<u32>;
        @compute @workgroup_size(16) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
            data[id.x] = id.x * id.x + 1;
        }";
    let module = naga::front::wgsl::parse_str(source).unwrap();
    let info = naga::valid::Validator::new(
        naga::valid::ValidationFlags::all(),
        naga::valid::Capabilities::empty(),
    )
    .validate(&module)
    .unwrap();
    hal::NagaShader {
        module: std::borrow::Cow::Owned(module),
        info,
        debug_source: None,
    }
}

/// Runs the shader over a buffer by way of a bind group and reads the result back. With `early` the storage
/// buffer is destroyed in flight.
fn compute<A: Api>(rig: &mut Rig<A>, early: bool) -> Vec<u32> {
    let storage = rig.host_buffer(
        "storage",
        wgt::BufferUses::STORAGE_READ_WRITE | wgt::BufferUses::COPY_SRC,
    );
    let readback = rig.host_buffer(
        "readback",
        wgt::BufferUses::MAP_READ | wgt::BufferUses::COPY_DST,
    );
    let mut encoder = rig.encoder("encoder");
    let size = wgt::BufferSize::new(64).unwrap();
    // SAFETY: plain use: everything is created first, used in order, and destroyed behind the fence, but
    // for the one buffer that the test is about.
    unsafe {
        let bgl = rig
            .device
            .create_bind_group_layout(&hal::BindGroupLayoutDescriptor {
                label: Some("bgl"),
                flags: hal::BindGroupLayoutFlags::empty(),
                entries: &[wgt::BindGroupLayoutEntry {
                    binding: 0,
                    visibility: wgt::ShaderStages::COMPUTE,
                    ty: wgt::BindingType::Buffer {
                        ty: wgt::BufferBindingType::Storage { read_only: false },
                        has_dynamic_offset: false,
                        min_binding_size: None,
                    },
                    count: None,
                }],
            })
            .unwrap();
        let layout = rig
            .device
            .create_pipeline_layout(&hal::PipelineLayoutDescriptor {
                label: Some("layout"),
                flags: hal::PipelineLayoutFlags::empty(),
                bind_group_layouts: &[Some(&bgl)],
                immediate_size: 0,
            })
            .unwrap();
        let group = rig
            .device
            .create_bind_group(&hal::BindGroupDescriptor {
                label: Some("group"),
                layout: &bgl,
                buffers: &[hal::BufferBinding::new_unchecked(&storage, 0, size)],
                samplers: &[],
                textures: &[],
                entries: &[hal::BindGroupEntry {
                    binding: 0,
                    resource_index: 0,
                    count: 1,
                }],
                acceleration_structures: &[],
                external_textures: &[],
            })
            .unwrap();
        let module = rig
            .device
            .create_shader_module(
                &hal::ShaderModuleDescriptor {
                    label: Some("shader"),
                    runtime_checks: wgt::ShaderRuntimeChecks::checked(),
                },
                hal::ShaderInput::Naga(shader()),
            )
            .unwrap();
        let pipeline = rig
            .device
            .create_compute_pipeline(&hal::ComputePipelineDescriptor {
                label: Some("pipeline"),
                layout: &layout,
                stage: hal::ProgrammableStage {
                    module: &module,
                    entry_point: "main",
                    constants: &Default::default(),
                    zero_initialize_workgroup_memory: true,
                },
                cache: None,
            })
            .unwrap();
        rig.device.destroy_shader_module(module);
        let commands = rig.record(&mut encoder, "commands", |encoder| {
            encoder.begin_compute_pass(&hal::ComputePassDescriptor {
                label: None,
                timestamp_writes: None,
            });
            encoder.set_compute_pipeline(&pipeline);
            encoder.set_bind_group(&layout, 0, &group, &[]);
            encoder.dispatch_workgroups([1, 1, 1]);
            encoder.end_compute_pass();
            let barrier = hal::BufferBarrier {
                buffer: &storage,
                usage: hal::StateTransition {
                    from: wgt::BufferUses::STORAGE_READ_WRITE,
                    to: wgt::BufferUses::COPY_SRC,
                },
            };
            encoder.transition_buffers(std::iter::once(barrier));
            let region = hal::BufferCopy {
                src_offset: 0,
                dst_offset: 0,
                size,
            };
            encoder.copy_buffer_to_buffer(&storage, &readback, std::iter::once(region));
        });
        let value = rig.submit(&[&commands]).unwrap();
        let mut storage = Some(storage);
        if early {
            rig.destroy(storage.take().unwrap());
        }
        rig.auditor.clock().complete_all();
        rig.wait(value);
        rig.reset(&mut encoder, vec![commands]);
        let mapping = rig.device.map_buffer(&readback, 0..64).unwrap();
        rig.device
            .invalidate_mapped_ranges(&readback, std::iter::once(0..64));
        let result = std::slice::from_raw_parts(mapping.ptr.as_ptr().cast::<u32>(), 16).to_vec();
        rig.device.unmap_buffer(&readback);
        rig.device.destroy_bind_group(group);
        rig.device.destroy_compute_pipeline(pipeline);
        rig.device.destroy_pipeline_layout(layout);
        rig.device.destroy_bind_group_layout(bgl);
        rig.destroy(readback);
        if let Some(storage) = storage {
            rig.destroy(storage);
        }
        result
    }
}

fn runs<A: Api>() {
    let expected: Vec<u32> = (0..16).map(|i| i * i + 1).collect();
    let Some(mut rig) = open::<A>(Contract::Strict) else {
        return;
    };
    rig.auditor.set_reset_before_free(true);
    let auditor = rig.auditor.clone();
    assert_eq!(compute(&mut rig, false), expected);
    nothing(&auditor);
    // Under the clock, too.
    auditor.clock().set(Completion::Manual);
    assert_eq!(compute(&mut rig, false), expected);
    nothing(&auditor);
    // Too early, and by way of a bind group: reported, and the backend was idle before it was passed on.
    assert_eq!(compute(&mut rig, true), expected);
    let report = only(&auditor, Violation::DestroyedInFlight, "storage");
    assert_eq!(
        report.command_buffer.unwrap().label.as_deref(),
        Some("commands")
    );
    rig.finish();
    nothing(&auditor);
}

#[test]
fn compute_natively() {
    runs::<Native>();
}

#[cfg(not(target_vendor = "apple"))]
#[test]
fn compute_on_gl() {
    runs::<hal::api::Gles>();
}

/// Losing the device on purpose waits for the real work, so that freeing everything then is harmless.
#[test]
fn a_loss_on_purpose() {
    let Some(mut rig) = open::<Native>(Contract::Strict) else {
        return;
    };
    let auditor = rig.auditor.clone();
    let buffer = rig.host_buffer("target", wgt::BufferUses::COPY_DST);
    let mut encoder = rig.encoder("encoder");
    let commands = rig.clear(&mut encoder, "commands", &buffer);
    auditor.faults().lose_device_at(2);
    rig.submit(&[&commands]).unwrap();
    rig.destroy(buffer);
    rig.reset(&mut encoder, vec![commands]);
    drop(encoder);
    let late = rig.try_buffer("late", 4);
    assert_eq!(late.err(), Some(hal::DeviceError::Lost));
    rig.finish();
    nothing(&auditor);
}

/// Violations that would hand a driver a dangling handle are withheld.
#[test]
fn dangling_handles_do_not_reach_the_driver() {
    let Some(mut rig) = open::<Native>(Contract::Standard) else {
        return;
    };
    let auditor = rig.auditor.clone();
    let usage = wgt::BufferUses::COPY_DST;
    let mut encoder = rig.encoder("encoder");
    let buffer = rig.host_buffer("target", usage);
    let commands = rig.clear(&mut encoder, "commands", &buffer);
    let again = crate::rig::stale(&buffer);
    rig.destroy(buffer);
    nothing(&auditor);
    assert!(rig.submit(&[&commands]).is_err());
    only(&auditor, Violation::UseOfDestroyed, "target");
    let commands_again = rig.clear(&mut encoder, "again", &again);
    only(&auditor, Violation::UseOfDestroyed, "target");
    rig.destroy(crate::rig::unstale(again));
    only(&auditor, Violation::DoubleDestroy, "target");
    rig.reset(&mut encoder, vec![commands, commands_again]);
    // SAFETY: withheld.
    unsafe { encoder.discard_encoding() };
    only(&auditor, Violation::OutOfOrder, "encoder");
    // Dropped and reset in flight.
    let buffer = rig.host_buffer("target", usage);
    let commands = rig.clear(&mut encoder, "commands", &buffer);
    rig.submit(&[&commands]).unwrap();
    rig.reset(&mut encoder, vec![commands]);
    only(&auditor, Violation::ResetInFlight, "commands");
    let commands = rig.clear(&mut encoder, "commands", &buffer);
    let value = rig.submit(&[&commands]).unwrap();
    drop(encoder);
    only(&auditor, Violation::DroppedInFlight, "encoder");
    rig.wait(value);
    rig.destroy(buffer);
    rig.finish();
    nothing(&auditor);
}
