//! Bind group layouts, pipeline layouts, bind groups, and what is checked when they are used.

use std::num::NonZeroU32;

use wgpu::{BindingResource as R, BufferUsages as B, TextureFormat as F, TextureUsages as T};

use crate::harness::*;

fn entry(binding: u32, ty: wgpu::BindingType) -> wgpu::BindGroupLayoutEntry {
    wgpu::BindGroupLayoutEntry {
        binding,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty,
        count: None,
    }
}

fn buffer_type(ty: wgpu::BufferBindingType) -> wgpu::BindingType {
    wgpu::BindingType::Buffer {
        ty,
        has_dynamic_offset: false,
        min_binding_size: None,
    }
}

const UNIFORM: wgpu::BufferBindingType = wgpu::BufferBindingType::Uniform;
const STORAGE: wgpu::BufferBindingType = wgpu::BufferBindingType::Storage { read_only: false };
const READ_ONLY: wgpu::BufferBindingType = wgpu::BufferBindingType::Storage { read_only: true };

fn dynamic(ty: wgpu::BufferBindingType) -> wgpu::BindingType {
    wgpu::BindingType::Buffer {
        ty,
        has_dynamic_offset: true,
        min_binding_size: wgpu::BufferSize::new(16),
    }
}

fn part(buffer: &wgpu::Buffer, offset: u64, size: u64) -> R<'_> {
    R::Buffer(wgpu::BufferBinding {
        buffer,
        offset,
        size: wgpu::BufferSize::new(size),
    })
}

#[test]
fn layout_errors() {
    test(|gpu| {
        let limits = gpu.device.limits();
        gpu.valid("empty", || gpu.layout(&[]));
        gpu.valid("sparse, unordered", || {
            gpu.layout(&[
                entry(999, buffer_type(STORAGE)),
                entry(3, buffer_type(UNIFORM)),
            ])
        });
        gpu.invalid("the same binding twice", || {
            gpu.layout(&[
                entry(1, buffer_type(STORAGE)),
                entry(1, buffer_type(UNIFORM)),
            ])
        });
        gpu.invalid("binding too high", || {
            gpu.layout(&[entry(
                limits.max_bindings_per_bind_group,
                buffer_type(STORAGE),
            )])
        });
        gpu.invalid("an array without the feature", || {
            gpu.layout(&[wgpu::BindGroupLayoutEntry {
                count: NonZeroU32::new(4),
                ..entry(
                    0,
                    wgpu::BindingType::Texture {
                        sample_type: wgpu::TextureSampleType::Uint,
                        view_dimension: wgpu::TextureViewDimension::D2,
                        multisampled: false,
                    },
                )
            }])
        });
        let storage = |access, format, view_dimension| {
            entry(
                0,
                wgpu::BindingType::StorageTexture {
                    access,
                    format,
                    view_dimension,
                },
            )
        };
        use wgpu::{StorageTextureAccess as A, TextureViewDimension as V};
        gpu.valid("a storage texture", || {
            gpu.layout(&[storage(A::WriteOnly, F::Rgba8Unorm, V::D2)])
        });
        gpu.invalid("storage of a cube", || {
            gpu.layout(&[storage(A::WriteOnly, F::Rgba8Unorm, V::Cube)])
        });
        gpu.invalid("storage in sRGB", || {
            gpu.layout(&[storage(A::WriteOnly, F::Rgba8UnormSrgb, V::D2)])
        });
        gpu.invalid("multisampled 3D", || {
            gpu.layout(&[entry(
                0,
                wgpu::BindingType::Texture {
                    sample_type: wgpu::TextureSampleType::Uint,
                    view_dimension: V::D3,
                    multisampled: true,
                },
            )])
        });
        gpu.invalid("writable storage for vertices", || {
            gpu.layout(&[wgpu::BindGroupLayoutEntry {
                visibility: wgpu::ShaderStages::VERTEX,
                ..entry(0, buffer_type(STORAGE))
            }])
        });
    });
}

#[test]
fn pipeline_layout_errors() {
    test(|gpu| {
        let limits = gpu.device.limits();
        let many = |count: u32, ty: wgpu::BindingType| {
            let entries: Vec<_> = (0..count).map(|binding| entry(binding, ty)).collect();
            gpu.layout(&entries)
        };
        let empty = gpu.layout(&[]);
        let all = vec![&empty; limits.max_bind_groups as usize + 1];
        gpu.valid("as many as may be", || gpu.pipeline_layout(&all[1..]));
        gpu.invalid("too many groups", || gpu.pipeline_layout(&all));
        for (what, ty, most) in [
            (
                "storage buffers",
                buffer_type(STORAGE),
                limits.max_storage_buffers_per_shader_stage,
            ),
            (
                "uniform buffers",
                buffer_type(UNIFORM),
                limits.max_uniform_buffers_per_shader_stage,
            ),
            (
                "samplers",
                wgpu::BindingType::Sampler(wgpu::SamplerBindingType::Filtering),
                limits.max_samplers_per_shader_stage,
            ),
            (
                "dynamic storage buffers",
                dynamic(READ_ONLY),
                limits.max_dynamic_storage_buffers_per_pipeline_layout,
            ),
            (
                "dynamic uniform buffers",
                dynamic(UNIFORM),
                limits.max_dynamic_uniform_buffers_per_pipeline_layout,
            ),
        ] {
            gpu.valid(what, || {
                let group = many(most, ty);
                gpu.pipeline_layout(&[&group])
            });
            gpu.invalid(what, || {
                let (one, rest) = (many(1, ty), many(most, ty));
                gpu.pipeline_layout(&[&one, &rest])
            });
        }
        gpu.invalid("immediates without the feature", || {
            gpu.device
                .create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
                    label: None,
                    bind_group_layouts: &[],
                    immediate_size: 4,
                })
        });
    });
}

#[test]
fn bind_group_errors() {
    test(|gpu| {
        let limits = gpu.device.limits();
        let storage = gpu.layout(&[entry(0, buffer_type(STORAGE))]);
        let uniform = gpu.layout(&[entry(0, buffer_type(UNIFORM))]);
        let sized = gpu.layout(&[entry(
            0,
            wgpu::BindingType::Buffer {
                ty: STORAGE,
                has_dynamic_offset: false,
                min_binding_size: wgpu::BufferSize::new(512),
            },
        )]);
        let texture_layout = gpu.layout(&[entry(
            0,
            wgpu::BindingType::Texture {
                sample_type: wgpu::TextureSampleType::Float { filterable: true },
                view_dimension: wgpu::TextureViewDimension::D2,
                multisampled: false,
            },
        )]);
        let storage_texture = gpu.layout(&[entry(
            0,
            wgpu::BindingType::StorageTexture {
                access: wgpu::StorageTextureAccess::WriteOnly,
                format: F::R32Uint,
                view_dimension: wgpu::TextureViewDimension::D2,
            },
        )]);
        let sampler_layout = gpu.layout(&[entry(
            0,
            wgpu::BindingType::Sampler(wgpu::SamplerBindingType::NonFiltering),
        )]);
        let comparison = gpu.layout(&[entry(
            0,
            wgpu::BindingType::Sampler(wgpu::SamplerBindingType::Comparison),
        )]);

        let buffer = gpu.buffer("buffer", 1024, B::STORAGE | B::UNIFORM);
        let no_usage = gpu.buffer("no usage", 1024, B::COPY_DST);
        let empty = gpu.buffer("empty", 0, B::STORAGE);
        let large = gpu.buffer(
            "large",
            limits.max_uniform_buffer_binding_size + 16,
            B::UNIFORM,
        );
        let image = gpu.texture("image", (8, 8), F::Rgba8Unorm, T::TEXTURE_BINDING);
        let integers = gpu.texture(
            "integers",
            (8, 8),
            F::R32Uint,
            T::TEXTURE_BINDING | T::STORAGE_BINDING,
        );
        let layers = gpu.device.create_texture(&wgpu::TextureDescriptor {
            label: Some("layers"),
            size: extent(8, 8, 4),
            mip_level_count: 2,
            sample_count: 1,
            dimension: wgpu::TextureDimension::D2,
            format: F::R32Uint,
            usage: T::TEXTURE_BINDING | T::STORAGE_BINDING,
            view_formats: &[],
        });
        let (image_view, integer_view, layer_view) =
            (gpu.view(&image), gpu.view(&integers), gpu.view(&layers));
        let mips = layers.create_view(&wgpu::TextureViewDescriptor {
            dimension: Some(wgpu::TextureViewDimension::D2),
            array_layer_count: Some(1),
            ..Default::default()
        });
        let linear = gpu.device.create_sampler(&wgpu::SamplerDescriptor {
            mag_filter: wgpu::FilterMode::Linear,
            ..Default::default()
        });
        for (what, layout, resource) in [
            ("storage", &storage, buffer.as_entire_binding()),
            ("uniform", &uniform, part(&buffer, 256, 256)),
            ("texture", &texture_layout, R::TextureView(&image_view)),
            (
                "storage texture",
                &storage_texture,
                R::TextureView(&integer_view),
            ),
        ] {
            gpu.valid(what, || gpu.group_of(layout, &[resource]));
        }
        for (what, layout, resource) in [
            ("lacks the usage", &storage, no_usage.as_entire_binding()),
            ("an empty buffer", &storage, empty.as_entire_binding()),
            ("offset not aligned", &storage, part(&buffer, 4, 4)),
            ("past the end", &storage, part(&buffer, 768, 512)),
            ("beyond the end", &storage, part(&buffer, 1280, 4)),
            ("at the end, nothing left", &storage, part(&buffer, 1024, 0)),
            (
                "offset overflows",
                &storage,
                part(&buffer, u64::MAX - 255, 512),
            ),
            ("size not of 4", &storage, part(&buffer, 0, 6)),
            ("too small", &sized, part(&buffer, 0, 256)),
            (
                "too large for a uniform",
                &uniform,
                large.as_entire_binding(),
            ),
            (
                "a texture for a buffer",
                &storage,
                R::TextureView(&image_view),
            ),
            (
                "a buffer for a texture",
                &texture_layout,
                buffer.as_entire_binding(),
            ),
            (
                "integers for floats",
                &texture_layout,
                R::TextureView(&integer_view),
            ),
            (
                "an array for a 2D texture",
                &storage_texture,
                R::TextureView(&layer_view),
            ),
            ("mips for storage", &storage_texture, R::TextureView(&mips)),
            (
                "another format",
                &storage_texture,
                R::TextureView(&image_view),
            ),
            ("a filtering sampler", &sampler_layout, R::Sampler(&linear)),
            ("no comparison", &comparison, R::Sampler(&linear)),
            ("an array", &storage, R::BufferArray(&[])),
        ] {
            let error = gpu.invalid(what, || gpu.group_of(layout, &[resource]));
            assert_names(&error, "bind group under test");
        }
        let entries = |list: &[(u32, &wgpu::Buffer)]| {
            let entries: Vec<_> = list
                .iter()
                .map(|(binding, buffer)| wgpu::BindGroupEntry {
                    binding: *binding,
                    resource: buffer.as_entire_binding(),
                })
                .collect();
            gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
                label: Some("bind group under test"),
                layout: &storage,
                entries: &entries,
            })
        };
        gpu.invalid("too few entries", || entries(&[]));
        gpu.invalid("too many entries", || {
            entries(&[(0, &buffer), (1, &buffer)])
        });
        gpu.invalid("one entry twice", || entries(&[(0, &buffer), (0, &buffer)]));
        gpu.invalid("another binding", || entries(&[(1, &buffer)]));
    });
}

const ADD: &str = "
    @group(0) @binding(0) var<uniform> amount: u32;
    @group(0) @binding(1) var<storage, read_write> data: array<u32, 4>;
    @compute @workgroup_size(1) fn main() { data[1] += amount; }";

#[test]
fn dynamic_offsets() {
    test(|gpu| {
        let layout = gpu.layout(&[entry(0, dynamic(UNIFORM)), entry(1, dynamic(STORAGE))]);
        let pipeline = gpu.pipeline_of(&gpu.module(ADD), Some(&gpu.pipeline_layout(&[&layout])));
        let mut amounts = vec![0u32; 256];
        for (index, amount) in [1u32, 10, 100, 1000].into_iter().enumerate() {
            amounts[index * 64] = amount;
        }
        let amounts = gpu.filled("amounts", B::UNIFORM, &bytes(&amounts));
        let data = gpu.buffer("data", 1024, B::STORAGE | B::COPY_SRC);
        let group = gpu.group_of(&layout, &[part(&amounts, 0, 16), part(&data, 0, 16)]);
        let run = |offsets: &[u32]| {
            gpu.commands(|encoder| {
                let mut pass = encoder.begin_compute_pass(&Default::default());
                pass.set_pipeline(&pipeline);
                pass.set_bind_group(0, &group, offsets);
                pass.dispatch_workgroups(1, 1, 1);
            })
        };
        gpu.valid("offsets", || {
            gpu.queue.submit([
                run(&[0, 0]),
                run(&[256, 0]),
                run(&[512, 256]),
                run(&[768, 768]),
            ])
        });
        let words = gpu.read_words(&data);
        assert_eq!(
            (words[1], words[65], words[129], words[193]),
            (11, 100, 0, 1000)
        );
        for (what, offsets) in [
            ("none", &[][..]),
            ("too few", &[0][..]),
            ("too many", &[0, 0, 0][..]),
            ("not aligned", &[4, 0][..]),
            ("past the end", &[1024, 0][..]),
            ("far past the end", &[0, u32::MAX - 255][..]),
        ] {
            gpu.invalid(what, || run(offsets));
        }
        let plain = gpu.group(
            &gpu.pipeline(ADD),
            &[part(&amounts, 0, 16), part(&data, 0, 16)],
        );
        gpu.invalid("offsets for a group without", || {
            gpu.commands(|encoder| {
                let mut pass = encoder.begin_compute_pass(&Default::default());
                pass.set_pipeline(&pipeline);
                pass.set_bind_group(0, &plain, &[0]);
            })
        });
    });
}

/// A minimum size that only shader and pipeline know is checked at the dispatch.
#[test]
fn late_minimum_binding_size() {
    test(|gpu| {
        let layout = gpu.layout(&[
            entry(0, buffer_type(UNIFORM)),
            entry(1, buffer_type(STORAGE)),
        ]);
        let pipeline = gpu.pipeline_of(&gpu.module(ADD), Some(&gpu.pipeline_layout(&[&layout])));
        let amounts = gpu.buffer("amounts", 256, B::UNIFORM);
        let data = gpu.buffer("data", 256, B::STORAGE);
        let run = |size| {
            let group = gpu.group_of(&layout, &[part(&amounts, 0, 16), part(&data, 0, size)]);
            gpu.commands(|encoder| {
                let mut pass = encoder.begin_compute_pass(&Default::default());
                pass.set_pipeline(&pipeline);
                pass.set_bind_group(0, &group, &[]);
                pass.dispatch_workgroups(1, 1, 1);
            })
        };
        gpu.valid("just enough", || run(16));
        gpu.valid("more", || run(256));
        gpu.invalid("too little", || run(12));
        // A layout that promises less than the shader needs is an error of the pipeline.
        let promise = gpu.layout(&[
            entry(0, buffer_type(UNIFORM)),
            entry(
                1,
                wgpu::BindingType::Buffer {
                    ty: STORAGE,
                    has_dynamic_offset: false,
                    min_binding_size: wgpu::BufferSize::new(12),
                },
            ),
        ]);
        gpu.invalid("a layout that promises too little", || {
            gpu.pipeline_of(&gpu.module(ADD), Some(&gpu.pipeline_layout(&[&promise])))
        });
    });
}

#[test]
fn pipeline_against_layout() {
    test(|gpu| {
        let module = gpu.module(ADD);
        let with = |entries: &[wgpu::BindGroupLayoutEntry]| {
            let layout = gpu.layout(entries);
            gpu.pipeline_of(&module, Some(&gpu.pipeline_layout(&[&layout])))
        };
        gpu.valid("as it is", || {
            with(&[
                entry(0, buffer_type(UNIFORM)),
                entry(1, buffer_type(STORAGE)),
            ])
        });
        gpu.valid("more than is used", || {
            with(&[
                entry(0, buffer_type(UNIFORM)),
                entry(1, buffer_type(STORAGE)),
                entry(2, buffer_type(UNIFORM)),
            ])
        });
        let invisible = wgpu::BindGroupLayoutEntry {
            visibility: wgpu::ShaderStages::FRAGMENT,
            ..entry(0, buffer_type(UNIFORM))
        };
        for (what, entries) in [
            ("a binding missing", vec![entry(0, buffer_type(UNIFORM))]),
            (
                "storage for a uniform",
                vec![
                    entry(0, buffer_type(STORAGE)),
                    entry(1, buffer_type(STORAGE)),
                ],
            ),
            (
                "read only, but written",
                vec![
                    entry(0, buffer_type(UNIFORM)),
                    entry(1, buffer_type(READ_ONLY)),
                ],
            ),
            (
                "not visible",
                vec![invisible, entry(1, buffer_type(STORAGE))],
            ),
        ] {
            let error = gpu.invalid(what, || with(&entries));
            assert_names(&error, "pipeline under test");
        }
        gpu.invalid("no group at all", || {
            gpu.pipeline_of(&module, Some(&gpu.pipeline_layout(&[])))
        });
    });
}

#[test]
fn automatic_layouts() {
    test(|gpu| {
        let wgsl = "
            @group(0) @binding(0) var<uniform> amount: u32;
            @group(2) @binding(5) var<storage, read_write> data: array<u32>;
            @compute @workgroup_size(1) fn main() { data[0] += amount; }";
        let pipeline = gpu.pipeline(wgsl);
        let (first, third) = gpu.valid("its layouts", || {
            (
                pipeline.get_bind_group_layout(0),
                pipeline.get_bind_group_layout(2),
            )
        });
        let amount = gpu.filled("amount", B::UNIFORM, &bytes(&[3, 0, 0, 0]));
        let data = gpu.buffer("data", 16, B::STORAGE | B::COPY_SRC);
        let first_group = gpu.group_of(&first, &[amount.as_entire_binding()]);
        let third_group = gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &third,
            entries: &[wgpu::BindGroupEntry {
                binding: 5,
                resource: data.as_entire_binding(),
            }],
        });
        let run = |pipeline: &wgpu::ComputePipeline| {
            gpu.commands(|encoder| {
                let mut pass = encoder.begin_compute_pass(&Default::default());
                pass.set_pipeline(pipeline);
                pass.set_bind_group(0, &first_group, &[]);
                pass.set_bind_group(2, &third_group, &[]);
                pass.dispatch_workgroups(1, 1, 1);
            })
        };
        gpu.valid("with them", || gpu.queue.submit([run(&pipeline)]));
        assert_eq!(gpu.read_words(&data)[0], 3);
        // Layouts of one pipeline are that pipeline's alone.
        let twin = gpu.pipeline(wgsl);
        gpu.invalid("with a twin's groups", || run(&twin));
        gpu.invalid("no such group", || pipeline.get_bind_group_layout(4));
        gpu.invalid("far from any group", || {
            pipeline.get_bind_group_layout(u32::MAX)
        });
        gpu.invalid("an exclusive layout in an explicit one", || {
            gpu.pipeline_layout(&[&first])
        });
    });
}

/// Explicit layouts with the same entries are the same.
#[test]
fn equivalent_layouts() {
    test(|gpu| {
        let make = || {
            gpu.layout(&[
                entry(1, buffer_type(STORAGE)),
                entry(0, buffer_type(UNIFORM)),
            ])
        };
        let (one, other) = (make(), make());
        let pipeline = gpu.pipeline_of(&gpu.module(ADD), Some(&gpu.pipeline_layout(&[&one])));
        let amount = gpu.filled("amount", B::UNIFORM, &bytes(&[3, 0, 0, 0]));
        let data = gpu.buffer("data", 16, B::STORAGE | B::COPY_SRC);
        drop(one);
        let group = gpu.group_of(
            &other,
            &[amount.as_entire_binding(), data.as_entire_binding()],
        );
        gpu.valid("a group of an equal layout", || {
            gpu.run(|encoder| {
                let mut pass = encoder.begin_compute_pass(&Default::default());
                pass.set_pipeline(&pipeline);
                pass.set_bind_group(0, &group, &[]);
                pass.dispatch_workgroups(1, 1, 1);
            })
        });
        assert_eq!(gpu.read_words(&data)[1], 3);
        gpu.valid("and from the pipeline", || {
            let layout = pipeline.get_bind_group_layout(0);
            gpu.group_of(
                &layout,
                &[amount.as_entire_binding(), data.as_entire_binding()],
            )
        });
    });
}

#[test]
fn immediates() {
    test_with(wgpu::Features::IMMEDIATES, |gpu| {
        let module = gpu.module(
            "struct Params { add: u32, mul: u32 }
            var<immediate> params: Params;
            @group(0) @binding(0) var<storage, read_write> data: array<u32>;
            @compute @workgroup_size(1) fn main() { data[0] = data[0] * params.mul + params.add; }",
        );
        let group_layout = gpu.layout(&[entry(0, buffer_type(STORAGE))]);
        let make_layout = |immediate_size| {
            gpu.device
                .create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
                    label: None,
                    bind_group_layouts: &[Some(&group_layout)],
                    immediate_size,
                })
        };
        let pipeline = gpu.pipeline_of(&module, Some(&make_layout(8)));
        let data = gpu.filled("data", B::STORAGE | B::COPY_SRC, &bytes(&[5]));
        let group = gpu.group_of(&group_layout, &[data.as_entire_binding()]);
        let run = |set: &dyn Fn(&mut wgpu::ComputePass<'_>)| {
            gpu.commands(|encoder| {
                let mut pass = encoder.begin_compute_pass(&Default::default());
                pass.set_pipeline(&pipeline);
                pass.set_bind_group(0, &group, &[]);
                set(&mut pass);
                pass.dispatch_workgroups(1, 1, 1);
            })
        };
        gpu.valid("immediates", || {
            gpu.queue.submit([
                run(&|pass| pass.set_immediates(0, &bytes(&[1, 10]))),
                run(&|pass| {
                    pass.set_immediates(4, &bytes(&[2]));
                    pass.set_immediates(0, &bytes(&[7]));
                }),
            ])
        });
        assert_eq!(gpu.read_words(&data), [(5 * 10 + 1) * 2 + 7]);
        gpu.invalid("offset", || run(&|pass| pass.set_immediates(2, &[0; 4])));
        gpu.invalid("size", || run(&|pass| pass.set_immediates(0, &[0; 6])));
        gpu.invalid("past the end", || {
            run(&|pass| pass.set_immediates(4, &[0; 8]))
        });
        gpu.invalid("overflow", || {
            run(&|pass| pass.set_immediates(u32::MAX - 3, &[0; 8]))
        });
        gpu.invalid("not all of them", || {
            run(&|pass| pass.set_immediates(0, &[0; 4]))
        });
        gpu.invalid("more than the limit", || {
            make_layout(gpu.device.limits().max_immediate_size + 4)
        });
        if core() == Core::Wgpu {
            return skip("wgpu-core hands such a pipeline to the driver");
        }
        gpu.invalid("a layout with too few", || {
            gpu.pipeline_of(&module, Some(&make_layout(4)))
        });
    });
}

#[test]
fn usage_conflicts_in_a_dispatch() {
    test(|gpu| {
        let pipeline = gpu.pipeline(
            "@group(0) @binding(0) var<storage, read> input: array<u32>;
            @group(0) @binding(1) var<storage, read_write> output: array<u32>;
            @compute @workgroup_size(1) fn main() { output[0] = input[0]; }",
        );
        let one = gpu.filled("one", B::STORAGE | B::all_copies(), &bytes(&[5; 128]));
        let two = gpu.buffer("two", 512, B::STORAGE | B::all_copies());
        let group = |input, output| gpu.group(&pipeline, &[input, output]);
        let apart = group(part(&one, 0, 256), part(&two, 0, 256));
        let same = group(part(&one, 0, 256), part(&one, 256, 256));
        let run = |groups: &[&wgpu::BindGroup]| {
            gpu.commands(|encoder| {
                let mut pass = encoder.begin_compute_pass(&Default::default());
                pass.set_pipeline(&pipeline);
                for group in groups {
                    pass.set_bind_group(0, *group, &[]);
                    pass.dispatch_workgroups(1, 1, 1);
                }
            })
        };
        gpu.valid("two buffers", || gpu.queue.submit([run(&[&apart])]));
        assert_eq!(gpu.read_words(&two)[0], 5);
        gpu.invalid("one buffer, read and written in one dispatch", || {
            let commands = run(&[&same]);
            gpu.queue.submit([commands])
        });
        let back = group(part(&two, 0, 256), part(&one, 256, 256));
        gpu.valid("in two dispatches of one pass", || {
            gpu.queue.submit([run(&[&apart, &back])])
        });
        assert_eq!(gpu.read_words(&one)[64], 5);
        // Indirect arguments are a read as well.
        let writes = gpu.pipeline(
            "@group(0) @binding(0) var<storage, read_write> output: array<u32>;
            @compute @workgroup_size(1) fn main() { output[0] = 1u; }",
        );
        let both = gpu.filled("both", B::STORAGE | B::INDIRECT, &bytes(&[1; 64]));
        let group = gpu.group(&writes, &[both.as_entire_binding()]);
        gpu.invalid("arguments that the dispatch writes", || {
            let commands = gpu.commands(|encoder| {
                let mut pass = encoder.begin_compute_pass(&Default::default());
                pass.set_pipeline(&writes);
                pass.set_bind_group(0, &group, &[]);
                pass.dispatch_workgroups_indirect(&both, 0);
            });
            gpu.queue.submit([commands])
        });
    });
}

/// Every kind of texture binding, and arrays of bindings where the adapter has them.
#[test]
fn binding_arrays() {
    let features = wgpu::Features::TEXTURE_BINDING_ARRAY;
    test_bare(|| {
        let adapter = match adapter() {
            Ok(adapter) => adapter,
            Err(why) => return skip(&why),
        };
        if !adapter.features().contains(features) {
            return skip("the adapter has no TEXTURE_BINDING_ARRAY");
        }
        let limit = adapter
            .limits()
            .max_binding_array_elements_per_shader_stage
            .min(16);
        let (device, queue) = pollster::block_on(adapter.request_device(&wgpu::DeviceDescriptor {
            required_features: features,
            required_limits: wgpu::Limits {
                max_binding_array_elements_per_shader_stage: limit,
                ..Default::default()
            },
            ..Default::default()
        }))
        .expect("a device with binding arrays");
        let textures: Vec<_> = (0..4u32)
            .map(|value| {
                let texture = device.create_texture(&wgpu::TextureDescriptor {
                    label: None,
                    size: extent(1, 1, 1),
                    mip_level_count: 1,
                    sample_count: 1,
                    dimension: wgpu::TextureDimension::D2,
                    format: F::R32Uint,
                    usage: T::COPY_DST | T::TEXTURE_BINDING,
                    view_formats: &[],
                });
                queue.write_texture(
                    texture.as_image_copy(),
                    &(value * 11).to_ne_bytes(),
                    Default::default(),
                    extent(1, 1, 1),
                );
                texture.create_view(&Default::default())
            })
            .collect();
        let layout = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
            label: None,
            entries: &[
                wgpu::BindGroupLayoutEntry {
                    count: NonZeroU32::new(4),
                    ..entry(
                        0,
                        wgpu::BindingType::Texture {
                            sample_type: wgpu::TextureSampleType::Uint,
                            view_dimension: wgpu::TextureViewDimension::D2,
                            multisampled: false,
                        },
                    )
                },
                entry(1, buffer_type(STORAGE)),
            ],
        });
        let output = device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: 16,
            usage: B::STORAGE | B::COPY_SRC,
            mapped_at_creation: false,
        });
        let back = device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: 16,
            usage: B::MAP_READ | B::COPY_DST,
            mapped_at_creation: false,
        });
        let views: Vec<_> = textures.iter().collect();
        let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &layout,
            entries: &[
                wgpu::BindGroupEntry {
                    binding: 0,
                    resource: R::TextureViewArray(&views),
                },
                wgpu::BindGroupEntry {
                    binding: 1,
                    resource: output.as_entire_binding(),
                },
            ],
        });
        let pipeline_layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &[Some(&layout)],
            immediate_size: 0,
        });
        let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: None,
            source: wgpu::ShaderSource::Wgsl(
                "enable wgpu_binding_array;
                @group(0) @binding(0) var inputs: binding_array<texture_2d<u32>, 4>;
                @group(0) @binding(1) var<storage, read_write> output: array<u32>;
                @compute @workgroup_size(1) fn main() {
                    output[0] = textureLoad(inputs[0], vec2(0, 0), 0).x;
                    output[1] = textureLoad(inputs[1], vec2(0, 0), 0).x;
                    output[2] = textureLoad(inputs[2], vec2(0, 0), 0).x;
                    output[3] = textureLoad(inputs[3], vec2(0, 0), 0).x;
                }"
                .into(),
            ),
        });
        let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: Some(&pipeline_layout),
            module: &module,
            entry_point: None,
            compilation_options: Default::default(),
            cache: None,
        });
        let mut encoder = device.create_command_encoder(&Default::default());
        {
            let mut pass = encoder.begin_compute_pass(&Default::default());
            pass.set_pipeline(&pipeline);
            pass.set_bind_group(0, &group, &[]);
            pass.dispatch_workgroups(1, 1, 1);
        }
        encoder.copy_buffer_to_buffer(&output, 0, &back, 0, None);
        queue.submit([encoder.finish()]);
        back.map_async(wgpu::MapMode::Read, .., |result| result.unwrap());
        device.poll(wgpu::PollType::wait_indefinitely()).unwrap();
        let words = words(&back.get_mapped_range(..).unwrap());
        assert_eq!(words, [0, 11, 22, 33]);
    });
}
