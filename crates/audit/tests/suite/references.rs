//! Whatever a command names, and whatever that holds, is in the books: each command is recorded alone, then
//! everything is destroyed, and exactly what it refers to is reported as destroyed while encoding.

use crate::rig::{noop, Rig};
use fencepost_audit::{
    AccelerationStructure, BindGroup, BindGroupLayout, Buffer, CommandEncoder, ComputePipeline,
    Contract, PipelineLayout, QuerySet, RayTracingPipeline, RenderPipeline, Sampler, ShaderModule,
    Texture, TextureView, Violation,
};
use std::collections::BTreeSet;
use wgpu_hal::{self as hal, api::Noop, CommandEncoder as _, Device as _};
use wgpu_types as wgt;

/// One of everything, and two of what commands name twice. `in group` and `params` are bound by `group`.
struct Objects {
    a: Buffer<Noop>,
    b: Buffer<Noop>,
    in_group: Buffer<Noop>,
    params: Buffer<Noop>,
    t: Texture<Noop>,
    u: Texture<Noop>,
    tv: TextureView<Noop>,
    uv: TextureView<Noop>,
    sampler: Sampler<Noop>,
    queries: QuerySet<Noop>,
    other_queries: QuerySet<Noop>,
    bgl: BindGroupLayout<Noop>,
    layout: PipelineLayout<Noop>,
    group: BindGroup<Noop>,
    external: BindGroup<Noop>,
    shader: ShaderModule<Noop>,
    render: RenderPipeline<Noop>,
    compute: ComputePipeline<Noop>,
    rays: RayTracingPipeline<Noop>,
    blas: AccelerationStructure<Noop>,
    tlas: AccelerationStructure<Noop>,
}

fn structure(rig: &Rig<Noop>, label: &str) -> AccelerationStructure<Noop> {
    let desc = hal::AccelerationStructureDescriptor {
        label: Some(label),
        size: 64,
        format: hal::AccelerationStructureFormat::BottomLevel,
        allow_compaction: true,
    };
    // SAFETY: the description is a plain one.
    unsafe { rig.device.create_acceleration_structure(&desc) }.unwrap()
}

fn query_set(rig: &Rig<Noop>, label: &str) -> QuerySet<Noop> {
    let desc = wgt::QuerySetDescriptor {
        label: Some(label),
        ty: wgt::QueryType::Timestamp,
        count: 4,
    };
    // SAFETY: the description is a plain one.
    unsafe { rig.device.create_query_set(&desc) }.unwrap()
}

fn binding(buffer: &Buffer<Noop>) -> hal::BufferBinding<'_, Buffer<Noop>> {
    hal::BufferBinding::new_unchecked(buffer, 0, wgt::BufferSize::new(16))
}

impl Objects {
    fn new(rig: &Rig<Noop>) -> Self {
        let (t, u) = (rig.texture("t"), rig.texture("u"));
        let view = |texture: &Texture<Noop>, label: &str| {
            let desc = hal::TextureViewDescriptor {
                label: Some(label),
                format: wgt::TextureFormat::Rgba8Unorm,
                dimension: wgt::TextureViewDimension::D2,
                usage: wgt::TextureUses::RESOURCE,
                range: wgt::ImageSubresourceRange::default(),
            };
            // SAFETY: the texture is the device's.
            unsafe { rig.device.create_texture_view(texture, &desc) }.unwrap()
        };
        let (tv, uv) = (view(&t, "tv"), view(&u, "uv"));
        let device = &rig.device;
        let in_group = rig.buffer("in group");
        let params = rig.buffer("params");
        let blas = structure(rig, "blas");
        let tlas = structure(rig, "tlas");
        // SAFETY: the descriptions are plain ones, and all that they name is the device's.
        unsafe {
            let sampler = device
                .create_sampler(&hal::SamplerDescriptor {
                    label: Some("sampler"),
                    address_modes: [wgt::AddressMode::Repeat; 3],
                    mag_filter: wgt::FilterMode::Nearest,
                    min_filter: wgt::FilterMode::Nearest,
                    mipmap_filter: wgt::MipmapFilterMode::Nearest,
                    lod_clamp: 0.0..1.0,
                    compare: None,
                    anisotropy_clamp: 1,
                    border_color: None,
                })
                .unwrap();
            let bgl = device
                .create_bind_group_layout(&hal::BindGroupLayoutDescriptor {
                    label: Some("bgl"),
                    flags: hal::BindGroupLayoutFlags::empty(),
                    entries: &[],
                })
                .unwrap();
            let layout = device
                .create_pipeline_layout(&hal::PipelineLayoutDescriptor {
                    label: Some("layout"),
                    flags: hal::PipelineLayoutFlags::empty(),
                    bind_group_layouts: &[None, Some(&bgl)],
                    immediate_size: 0,
                })
                .unwrap();
            let texture = |view| hal::TextureBinding {
                view,
                usage: wgt::TextureUses::RESOURCE,
            };
            let group = device
                .create_bind_group(&hal::BindGroupDescriptor {
                    label: Some("group"),
                    layout: &bgl,
                    buffers: &[binding(&in_group)],
                    samplers: &[&sampler],
                    textures: &[texture(&tv)],
                    entries: &[],
                    acceleration_structures: &[&tlas],
                    external_textures: &[],
                })
                .unwrap();
            let external = device
                .create_bind_group(&hal::BindGroupDescriptor {
                    label: Some("external"),
                    layout: &bgl,
                    buffers: &[],
                    samplers: &[],
                    textures: &[],
                    entries: &[],
                    acceleration_structures: &[],
                    external_textures: &[hal::ExternalTextureBinding {
                        planes: [texture(&tv), texture(&uv), texture(&uv)],
                        params: binding(&params),
                    }],
                })
                .unwrap();
            let shader = device
                .create_shader_module(
                    &hal::ShaderModuleDescriptor {
                        label: Some("shader"),
                        runtime_checks: wgt::ShaderRuntimeChecks::checked(),
                    },
                    hal::ShaderInput::SpirV(&[]),
                )
                .unwrap();
            let constants = Default::default();
            let stage = || hal::ProgrammableStage {
                module: &shader,
                entry_point: "main",
                constants: &constants,
                zero_initialize_workgroup_memory: true,
            };
            let render = device
                .create_render_pipeline(&hal::RenderPipelineDescriptor {
                    label: Some("render"),
                    layout: &layout,
                    vertex_processor: hal::VertexProcessor::Standard {
                        vertex_buffers: &[],
                        vertex_stage: stage(),
                    },
                    primitive: wgt::PrimitiveState::default(),
                    depth_stencil: None,
                    multisample: wgt::MultisampleState::default(),
                    fragment_stage: Some(stage()),
                    color_targets: &[],
                    multiview_mask: None,
                    cache: None,
                })
                .unwrap();
            let compute = device
                .create_compute_pipeline(&hal::ComputePipelineDescriptor {
                    label: Some("compute"),
                    layout: &layout,
                    stage: stage(),
                    cache: None,
                })
                .unwrap();
            let rays = device
                .create_ray_tracing_pipeline(&hal::RayTracingPipelineDescriptor {
                    label: Some("rays"),
                    layout: &layout,
                    ray_generation: stage(),
                    miss: stage(),
                    intersection: &[hal::RayObjectIntersectionState {
                        closest_hit: stage(),
                        any_hit: Some(stage()),
                    }],
                    max_recursion_depth: 1,
                    cache: None,
                })
                .unwrap();
            Self {
                a: rig.buffer("a"),
                b: rig.buffer("b"),
                in_group,
                params,
                t,
                u,
                tv,
                uv,
                sampler,
                queries: query_set(rig, "queries"),
                other_queries: query_set(rig, "other queries"),
                bgl,
                layout,
                group,
                external,
                shader,
                render,
                compute,
                rays,
                blas,
                tlas,
            }
        }
    }

    fn destroy(self, rig: &Rig<Noop>) {
        let device = &rig.device;
        // SAFETY: some is in use, which is what the tests are about; nothing is used again.
        unsafe {
            device.destroy_buffer(self.a);
            device.destroy_buffer(self.b);
            device.destroy_buffer(self.in_group);
            device.destroy_buffer(self.params);
            device.destroy_texture(self.t);
            device.destroy_texture(self.u);
            device.destroy_texture_view(self.tv);
            device.destroy_texture_view(self.uv);
            device.destroy_sampler(self.sampler);
            device.destroy_query_set(self.queries);
            device.destroy_query_set(self.other_queries);
            device.destroy_bind_group(self.group);
            device.destroy_bind_group(self.external);
            device.destroy_bind_group_layout(self.bgl);
            device.destroy_pipeline_layout(self.layout);
            device.destroy_shader_module(self.shader);
            device.destroy_render_pipeline(self.render);
            device.destroy_compute_pipeline(self.compute);
            device.destroy_ray_tracing_pipeline(self.rays);
            device.destroy_acceleration_structure(self.blas);
            device.destroy_acceleration_structure(self.tlas);
        }
    }
}

#[derive(Clone, Copy)]
enum Within {
    Nothing,
    Render,
    Compute,
    RayTracing,
}

type Encoder = CommandEncoder<Noop>;

/// Records one command, destroys everything, and compares what was reported with `expected`.
fn case(
    name: &str,
    within: Within,
    expected: &[&str],
    record: impl FnOnce(&mut Encoder, &Objects),
) {
    let rig = noop(Contract::Strict);
    let objects = Objects::new(&rig);
    let mut encoder = rig.encoder("encoder");
    // SAFETY: the encoder is closed, then recording; passes are empty.
    unsafe {
        encoder.begin_encoding(Some("commands")).unwrap();
        match within {
            Within::Nothing => {}
            Within::Render => encoder.begin_render_pass(&render_pass()).unwrap(),
            Within::Compute => encoder.begin_compute_pass(&hal::ComputePassDescriptor {
                label: None,
                timestamp_writes: None,
            }),
            Within::RayTracing => {
                encoder.begin_ray_tracing_pass(&hal::RayTracingPassDescriptor { label: None });
            }
        }
    }
    record(&mut encoder, &objects);
    rig.nothing();
    objects.destroy(&rig);
    let mut found = BTreeSet::new();
    for report in rig.auditor.take_reports() {
        assert_eq!(report.violation, Violation::DestroyedWhileEncoding);
        let label = report.object.label.unwrap().into_string();
        assert!(found.insert(label.clone()), "{name}: '{label}' twice");
    }
    let expected: BTreeSet<String> = expected.iter().map(ToString::to_string).collect();
    assert_eq!(found, expected, "{name}");
    // SAFETY: the encoder is recording.
    unsafe { encoder.discard_encoding() };
    drop(encoder);
    rig.nothing();
    rig.finish();
}

fn render_pass<'a>() -> hal::RenderPassDescriptor<'a, QuerySet<Noop>, TextureView<Noop>> {
    hal::RenderPassDescriptor {
        label: None,
        extent: wgt::Extent3d::default(),
        sample_count: 1,
        color_attachments: &[],
        depth_stencil_attachment: None,
        multiview_mask: None,
        timestamp_writes: None,
        occlusion_query_set: None,
    }
}

/// A [`case`] whose body is one call.
macro_rules! case {
    ($within:ident $name:ident($o:ident => $($arg:expr),*): $expected:expr) => {
        case(stringify!($name), Within::$within, &$expected, |encoder, $o| {
            // SAFETY: the command is in place; what it names is the device's.
            let _ = unsafe { encoder.$name($($arg),*) };
        })
    };
}

#[test]
fn transfers() {
    fn barrier(buffer: &Buffer<Noop>) -> hal::BufferBarrier<'_, Buffer<Noop>> {
        let usage = hal::StateTransition {
            from: wgt::BufferUses::COPY_SRC,
            to: wgt::BufferUses::COPY_DST,
        };
        hal::BufferBarrier { buffer, usage }
    }
    fn texture_barrier(texture: &Texture<Noop>) -> hal::TextureBarrier<'_, Texture<Noop>> {
        hal::TextureBarrier {
            texture,
            range: wgt::ImageSubresourceRange::default(),
            usage: hal::StateTransition {
                from: wgt::TextureUses::UNINITIALIZED,
                to: wgt::TextureUses::COPY_DST,
            },
        }
    }
    let src = wgt::TextureUses::COPY_SRC;
    let clone = wgt::AccelerationStructureCopy::Clone;
    case!(Nothing transition_buffers(o => [barrier(&o.a), barrier(&o.b)].into_iter()): ["a", "b"]);
    case!(Nothing transition_textures(o => std::iter::once(texture_barrier(&o.t))): ["t"]);
    case!(Nothing clear_buffer(o => &o.a, 0..64): ["a"]);
    case!(Nothing copy_buffer_to_buffer(o => &o.a, &o.b, std::iter::empty()): ["a", "b"]);
    case!(Nothing copy_texture_to_texture(o => &o.t, src, &o.u, std::iter::empty()): ["t", "u"]);
    case!(Nothing copy_buffer_to_texture(o => &o.a, &o.t, std::iter::empty()): ["a", "t"]);
    case!(Nothing copy_texture_to_buffer(o => &o.t, src, &o.b, std::iter::empty()): ["t", "b"]);
    case!(Nothing copy_acceleration_structure_to_acceleration_structure(o => &o.blas, &o.tlas, clone): ["blas", "tlas"]);
}

#[test]
fn queries() {
    let stride = wgt::BufferSize::new(8).unwrap();
    case!(Render begin_query(o => &o.queries, 0): ["queries"]);
    case!(Render end_query(o => &o.queries, 0): ["queries"]);
    case!(Nothing write_timestamp(o => &o.queries, 0): ["queries"]);
    case!(Nothing reset_queries(o => &o.queries, 0..1): ["queries"]);
    case!(Nothing copy_query_results(o => &o.queries, 0..1, &o.a, 0, stride): ["queries", "a"]);
}

#[test]
fn bind_groups_and_what_is_in_them() {
    let group = [
        "bgl", "layout", "group", "in group", "sampler", "tv", "t", "tlas",
    ];
    case!(Compute set_bind_group(o => &o.layout, 1, &o.group, &[]): group);
    let external = ["bgl", "layout", "external", "params", "tv", "t", "uv", "u"];
    case!(Render set_bind_group(o => &o.layout, 1, &o.external, &[]): external);
    case!(Compute set_immediates(o => &o.layout, 0, &[1, 2]): ["layout", "bgl"]);
}

#[test]
fn pipelines_and_their_layouts() {
    let layout = ["layout", "bgl"];
    let with = |name| [&layout[..], &[name]].concat();
    case!(Render set_render_pipeline(o => &o.render): with("render"));
    case!(Compute set_compute_pipeline(o => &o.compute): with("compute"));
    case!(RayTracing set_ray_tracing_pipeline(o => &o.rays): with("rays"));
}

#[test]
fn passes() {
    fn writes(query_set: &QuerySet<Noop>) -> Option<hal::PassTimestampWrites<'_, QuerySet<Noop>>> {
        Some(hal::PassTimestampWrites {
            query_set,
            beginning_of_pass_write_index: Some(0),
            end_of_pass_write_index: None,
        })
    }
    fn target(view: &TextureView<Noop>) -> hal::Attachment<'_, TextureView<Noop>> {
        hal::Attachment {
            view,
            usage: wgt::TextureUses::COLOR_TARGET,
        }
    }
    let render = ["tv", "t", "uv", "u", "queries", "other queries"];
    case(
        "begin_render_pass",
        Within::Nothing,
        &render,
        |encoder, o| {
            let desc = hal::RenderPassDescriptor {
                color_attachments: &[
                    None,
                    Some(hal::ColorAttachment {
                        target: target(&o.tv),
                        depth_slice: None,
                        resolve_target: Some(target(&o.uv)),
                        ops: hal::AttachmentOps::STORE,
                        clear_value: wgt::Color::BLACK,
                    }),
                ],
                timestamp_writes: writes(&o.queries),
                occlusion_query_set: Some(&o.other_queries),
                ..render_pass()
            };
            // SAFETY: the attachments are the device's.
            unsafe { encoder.begin_render_pass(&desc) }.unwrap();
        },
    );
    case("depth", Within::Nothing, &["tv", "t"], |encoder, o| {
        let desc = hal::RenderPassDescriptor {
            depth_stencil_attachment: Some(hal::DepthStencilAttachment {
                target: target(&o.tv),
                depth_ops: hal::AttachmentOps::STORE,
                stencil_ops: hal::AttachmentOps::STORE,
                clear_value: (1.0, 0),
            }),
            ..render_pass()
        };
        // SAFETY: the attachment is the device's.
        unsafe { encoder.begin_render_pass(&desc) }.unwrap();
    });
    case(
        "begin_compute_pass",
        Within::Nothing,
        &["queries"],
        |encoder, o| {
            let desc = hal::ComputePassDescriptor {
                label: None,
                timestamp_writes: writes(&o.queries),
            };
            // SAFETY: the query set is the device's.
            unsafe { encoder.begin_compute_pass(&desc) };
        },
    );
}

#[test]
fn draws_and_dispatches() {
    let format = wgt::IndexFormat::Uint16;
    case!(Render set_index_buffer(o => binding(&o.a), format): ["a"]);
    case!(Render set_vertex_buffer(o => 0, binding(&o.a)): ["a"]);
    case!(Render draw_indirect(o => &o.a, 0, 1): ["a"]);
    case!(Render draw_indexed_indirect(o => &o.a, 0, 1): ["a"]);
    case!(Render draw_indirect_count(o => &o.a, 0, &o.b, 0, 1): ["a", "b"]);
    case!(Render draw_indexed_indirect_count(o => &o.a, 0, &o.b, 0, 1): ["a", "b"]);
    case!(Render draw_mesh_tasks_indirect(o => &o.a, 0, 1): ["a"]);
    case!(Render draw_mesh_tasks_indirect_count(o => &o.a, 0, &o.b, 0, 1): ["a", "b"]);
    case!(Compute dispatch_workgroups_indirect(o => &o.a, 0): ["a"]);
}

#[test]
fn commands_that_name_nothing_refer_to_nothing() {
    let rect = hal::Rect {
        x: 0,
        y: 0,
        w: 1,
        h: 1,
    };
    let viewport = hal::Rect {
        x: 0.0,
        y: 0.0,
        w: 1.0,
        h: 1.0,
    };
    case!(Nothing insert_debug_marker(_o => "marker"): []);
    case!(Nothing begin_debug_marker(_o => "marker"): []);
    case!(Nothing end_debug_marker(_o =>): []);
    case!(Render set_viewport(_o => &viewport, 0.0..1.0): []);
    case!(Render set_scissor_rect(_o => &rect): []);
    case!(Render set_stencil_reference(_o => 1): []);
    case!(Render set_blend_constants(_o => &[0.0; 4]): []);
    case!(Render draw(_o => 0, 3, 0, 1): []);
    case!(Render draw_indexed(_o => 0, 3, 0, 0, 1): []);
    case!(Render draw_mesh_tasks(_o => 1, 1, 1): []);
    case!(Render end_render_pass(_o =>): []);
    case!(Compute dispatch_workgroups(_o => [1; 3]): []);
    case!(Compute end_compute_pass(_o =>): []);
    case!(RayTracing end_ray_tracing_pass(_o =>): []);
}

#[test]
fn acceleration_structures() {
    fn data(buffer: &Buffer<Noop>) -> hal::PipelineGroupData<'_, Buffer<Noop>> {
        hal::PipelineGroupData {
            buffer,
            offset: 0,
            stride: 32,
            count: 1,
        }
    }
    fn build(
        encoder: &mut Encoder,
        o: &Objects,
        entries: &hal::AccelerationStructureEntries<'_, Buffer<Noop>>,
        source: bool,
    ) {
        let desc = hal::BuildAccelerationStructureDescriptor {
            entries,
            mode: hal::AccelerationStructureBuildMode::Build,
            flags: hal::AccelerationStructureBuildFlags::empty(),
            source_acceleration_structure: source.then_some(&o.blas),
            destination_acceleration_structure: &o.tlas,
            scratch_buffer: &o.params,
            scratch_buffer_offset: 0,
        };
        // SAFETY: what is named is the device's.
        unsafe { encoder.build_acceleration_structures(1, [desc]) };
    }
    let instances = ["a", "tlas", "blas", "params"];
    case("instances", Within::Nothing, &instances, |encoder, o| {
        let instances = hal::AccelerationStructureInstances {
            buffer: Some(&o.a),
            offset: 0,
            count: 1,
        };
        let entries = hal::AccelerationStructureEntries::Instances(instances);
        build(encoder, o, &entries, true);
    });
    let triangles = ["a", "b", "in group", "tlas", "params"];
    case("triangles", Within::Nothing, &triangles, |encoder, o| {
        let triangles = hal::AccelerationStructureTriangles {
            vertex_buffer: Some(&o.a),
            vertex_format: wgt::VertexFormat::Float32x3,
            first_vertex: 0,
            vertex_count: 3,
            vertex_stride: 12,
            indices: Some(hal::AccelerationStructureTriangleIndices {
                format: wgt::IndexFormat::Uint16,
                buffer: Some(&o.b),
                offset: 0,
                count: 3,
            }),
            transform: Some(hal::AccelerationStructureTriangleTransform {
                buffer: &o.in_group,
                offset: 0,
            }),
            flags: hal::AccelerationStructureGeometryFlags::empty(),
        };
        let entries = hal::AccelerationStructureEntries::Triangles(vec![triangles]);
        build(encoder, o, &entries, false);
    });
    case(
        "boxes",
        Within::Nothing,
        &["a", "tlas", "params"],
        |encoder, o| {
            let boxes = hal::AccelerationStructureAABBs {
                buffer: Some(&o.a),
                offset: 0,
                count: 1,
                stride: 24,
                flags: hal::AccelerationStructureGeometryFlags::empty(),
            };
            let entries = hal::AccelerationStructureEntries::AABBs(vec![boxes]);
            build(encoder, o, &entries, false);
        },
    );
    case!(Nothing read_acceleration_structure_compact_size(o => &o.blas, &o.a): ["blas", "a"]);
    case!(RayTracing trace_rays(o => [1; 3], data(&o.a), data(&o.b), data(&o.params)): ["a", "b", "params"]);
    let barrier = || hal::AccelerationStructureBarrier {
        usage: hal::StateTransition {
            from: hal::AccelerationStructureUses::BUILD_OUTPUT,
            to: hal::AccelerationStructureUses::SHADER_INPUT,
        },
    };
    case!(Nothing place_acceleration_structure_barrier(_o => barrier()): []);
}

/// The one call that adds references to a command buffer which is finished already.
#[test]
fn dependencies_of_finished_command_buffers() {
    let rig = noop(Contract::Strict);
    let buffer = rig.buffer("target");
    let dependency = structure(&rig, "dependency");
    let mut encoder = rig.encoder("encoder");
    let commands = rig.clear(&mut encoder, "commands", &buffer);
    // SAFETY: both are there.
    unsafe {
        Encoder::set_acceleration_structure_dependencies(&[&commands], &[&dependency]);
        rig.device.destroy_acceleration_structure(dependency);
    }
    rig.only(Violation::DestroyedBeforeSubmit, "dependency");
    rig.reset(&mut encoder, vec![commands]);
    rig.destroy(buffer);
    drop(encoder);
    rig.finish();
}

/// A bind group that lost a member may live on, but binding it is a use of what is gone.
#[test]
fn of_a_bind_group_with_a_destroyed_member() {
    for contract in [Contract::Strict, Contract::Standard] {
        let mut rig = noop(contract);
        let mut objects = Objects::new(&rig);
        let spare = rig.buffer("spare");
        let gone = std::mem::replace(&mut objects.in_group, spare);
        rig.destroy(gone);
        rig.nothing();
        let mut encoder = rig.encoder("encoder");
        let commands = rig.record(&mut encoder, "commands", |encoder| {
            let desc = hal::ComputePassDescriptor {
                label: None,
                timestamp_writes: None,
            };
            // SAFETY: in place; the member is what the test is about.
            unsafe {
                encoder.begin_compute_pass(&desc);
                encoder.set_bind_group(&objects.layout, 1, &objects.group, &[]);
                encoder.end_compute_pass();
            }
        });
        if contract == Contract::Strict {
            let report = rig.only(Violation::UseOfDestroyed, "in group");
            assert_eq!(report.call, "set_bind_group");
            assert!(report.detail.contains("'group'"), "{report}");
        }
        assert!(rig.submit(&[&commands]).is_err());
        let report = rig.only(Violation::UseOfDestroyed, "in group");
        assert_eq!(report.call, "submit");
        rig.reset(&mut encoder, vec![commands]);
        drop(encoder);
        objects.destroy(&rig);
        rig.nothing();
        rig.finish();
    }
}
