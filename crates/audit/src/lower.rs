//! Descriptions of wrappers turned into descriptions of what they wrap.

use crate::{ledger::Key, resource::rebind, Buffer, QuerySet, ShaderModule, TextureView};
use wgpu_hal::{self as hal, Api};

pub(crate) fn binding<'a, A: Api>(
    binding: &hal::BufferBinding<'a, Buffer<A>>,
) -> hal::BufferBinding<'a, A::Buffer> {
    rebind(binding)
}

pub(crate) fn texture_binding<'a, A: Api>(
    binding: &hal::TextureBinding<'a, TextureView<A>>,
) -> hal::TextureBinding<'a, A::TextureView> {
    hal::TextureBinding {
        view: &binding.view.raw,
        usage: binding.usage,
    }
}

pub(crate) fn stage<'a, A: Api>(
    stage: &hal::ProgrammableStage<'a, ShaderModule<A>>,
) -> hal::ProgrammableStage<'a, A::ShaderModule> {
    hal::ProgrammableStage {
        module: &stage.module.raw,
        entry_point: stage.entry_point,
        constants: stage.constants,
        zero_initialize_workgroup_memory: stage.zero_initialize_workgroup_memory,
    }
}

pub(crate) fn attachment<'a, A: Api>(
    attachment: &hal::Attachment<'a, TextureView<A>>,
) -> hal::Attachment<'a, A::TextureView> {
    hal::Attachment {
        view: &attachment.view.raw,
        usage: attachment.usage,
    }
}

pub(crate) fn color<'a, A: Api>(
    color: &hal::ColorAttachment<'a, TextureView<A>>,
) -> hal::ColorAttachment<'a, A::TextureView> {
    hal::ColorAttachment {
        target: attachment(&color.target),
        depth_slice: color.depth_slice,
        resolve_target: color.resolve_target.as_ref().map(attachment),
        ops: color.ops,
        clear_value: color.clear_value,
    }
}

/// The input of an acceleration structure. Each buffer in it is added to `keys`.
pub(crate) fn entries<'a, A: Api>(
    entries: &hal::AccelerationStructureEntries<'a, Buffer<A>>,
    keys: &mut Vec<Key>,
) -> hal::AccelerationStructureEntries<'a, A::Buffer> {
    let mut raw = |buffer: &'a Buffer<A>| {
        keys.push(buffer.key());
        &buffer.raw
    };
    match entries {
        hal::AccelerationStructureEntries::Instances(instances) => {
            hal::AccelerationStructureEntries::Instances(hal::AccelerationStructureInstances {
                buffer: instances.buffer.map(raw),
                offset: instances.offset,
                count: instances.count,
            })
        }
        hal::AccelerationStructureEntries::Triangles(triangles) => {
            let lower = |t: &hal::AccelerationStructureTriangles<'a, Buffer<A>>| {
                hal::AccelerationStructureTriangles {
                    vertex_buffer: t.vertex_buffer.map(&mut raw),
                    vertex_format: t.vertex_format,
                    first_vertex: t.first_vertex,
                    vertex_count: t.vertex_count,
                    vertex_stride: t.vertex_stride,
                    indices: t.indices.as_ref().map(|indices| {
                        hal::AccelerationStructureTriangleIndices {
                            format: indices.format,
                            buffer: indices.buffer.map(&mut raw),
                            offset: indices.offset,
                            count: indices.count,
                        }
                    }),
                    transform: t.transform.as_ref().map(|transform| {
                        hal::AccelerationStructureTriangleTransform {
                            buffer: raw(transform.buffer),
                            offset: transform.offset,
                        }
                    }),
                    flags: t.flags,
                }
            };
            hal::AccelerationStructureEntries::Triangles(triangles.iter().map(lower).collect())
        }
        hal::AccelerationStructureEntries::AABBs(boxes) => {
            let lower = |b: &hal::AccelerationStructureAABBs<'a, Buffer<A>>| {
                hal::AccelerationStructureAABBs {
                    buffer: b.buffer.map(&mut raw),
                    offset: b.offset,
                    count: b.count,
                    stride: b.stride,
                    flags: b.flags,
                }
            };
            hal::AccelerationStructureEntries::AABBs(boxes.iter().map(lower).collect())
        }
    }
}

pub(crate) fn timestamps<'a, A: Api>(
    writes: &hal::PassTimestampWrites<'a, QuerySet<A>>,
) -> hal::PassTimestampWrites<'a, A::QuerySet> {
    hal::PassTimestampWrites {
        query_set: &writes.query_set.raw,
        beginning_of_pass_write_index: writes.beginning_of_pass_write_index,
        end_of_pass_write_index: writes.end_of_pass_write_index,
    }
}
