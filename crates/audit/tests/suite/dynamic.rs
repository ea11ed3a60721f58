//! The no-op backend through `wgpu-hal`'s object-safe traits, as a core uses it.

use crate::rig::{instance, nothing};
use fencepost_audit::{AuditMode, Auditor, Contract, Violation};
use wgpu_hal::{self as hal, api::Noop, DynAdapter, DynDevice, DynInstance, DynQueue};
use wgpu_types as wgt;

#[test]
fn through_the_dynamic_traits() {
    let auditor = Auditor::new(Contract::Strict, AuditMode::Collect);
    let instance = instance::<Noop>(&auditor).unwrap();
    assert_eq!(format!("{instance:?}"), "Instance { .. }");
    let instance: Box<dyn DynInstance> = Box::new(instance);
    // SAFETY: plain use, in order; everything is destroyed after its fence, but for the one
    // buffer that the test is about.
    unsafe {
        let exposed = instance.enumerate_adapters(None).remove(0);
        let adapter: Box<dyn DynAdapter> = exposed.adapter;
        let limits = exposed.capabilities.limits;
        let hints = wgt::MemoryHints::default();
        let open = adapter
            .open(wgt::Features::empty(), &limits, &hints)
            .unwrap();
        let device: Box<dyn DynDevice> = open.device;
        let queue: Box<dyn DynQueue> = open.queue;
        let desc = hal::BufferDescriptor {
            label: Some("dynamic"),
            size: 64,
            usage: wgt::BufferUses::all(),
            memory_flags: hal::MemoryFlags::empty(),
        };
        let mut buffer = device.create_buffer(&desc).unwrap();
        let layout = device
            .create_bind_group_layout(&hal::BindGroupLayoutDescriptor {
                label: None,
                flags: hal::BindGroupLayoutFlags::empty(),
                entries: &[],
            })
            .unwrap();
        let group = device
            .create_bind_group(&hal::BindGroupDescriptor {
                label: Some("group"),
                layout: &*layout,
                buffers: &[hal::BufferBinding::new_unchecked(&*buffer, 0, None)],
                samplers: &[],
                textures: &[],
                entries: &[],
                acceleration_structures: &[],
                external_textures: &[],
            })
            .unwrap();
        let pipeline_layout = device
            .create_pipeline_layout(&hal::PipelineLayoutDescriptor {
                label: None,
                flags: hal::PipelineLayoutFlags::empty(),
                bind_group_layouts: &[Some(&*layout)],
                immediate_size: 0,
            })
            .unwrap();
        let fence = device.create_fence().unwrap();
        let mut encoder = device
            .create_command_encoder(&hal::CommandEncoderDescriptor {
                label: None,
                queue: &*queue,
            })
            .unwrap();
        encoder.begin_encoding(Some("dynamic")).unwrap();
        encoder.begin_compute_pass(&hal::ComputePassDescriptor {
            label: None,
            timestamp_writes: None,
        });
        encoder.set_bind_group(&*pipeline_layout, 0, &*group, &[]);
        encoder.end_compute_pass();
        let commands = encoder.end_encoding().unwrap();
        queue.submit(&[&*commands], &[], (&*fence, 1)).unwrap();
        // By way of the bind group, whose buffer is in a `BufferBinding`.
        let early = device.create_buffer(&desc).unwrap();
        device.destroy_buffer(std::mem::replace(&mut buffer, early));
        let found = auditor.take_reports();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].violation, Violation::DestroyedInFlight);
        assert_eq!(found[0].object.label.as_deref(), Some("dynamic"));
        assert_eq!(device.wait(&*fence, 1, None), Ok(true));
        encoder.reset_all(vec![commands]);
        drop(encoder);
        device.destroy_bind_group(group);
        device.destroy_pipeline_layout(pipeline_layout);
        device.destroy_bind_group_layout(layout);
        device.destroy_buffer(buffer);
        device.destroy_fence(fence);
        drop(queue);
        drop(device);
        drop(adapter);
    }
    drop(instance);
    nothing(&auditor);
}
