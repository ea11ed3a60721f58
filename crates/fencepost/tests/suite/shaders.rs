//! Shader modules: their languages, their errors, and where an error is.

use std::borrow::Cow;

use wgpu::BufferUsages as B;

use crate::harness::*;

const WRITE_42: &str = "
    @group(0) @binding(0) var<storage, read_write> output: array<u32>;
    @compute @workgroup_size(1) fn main() { output[0] = 42u; }";

fn module(gpu: &Gpu, source: wgpu::ShaderSource<'_>) -> wgpu::ShaderModule {
    gpu.device
        .create_shader_module(wgpu::ShaderModuleDescriptor {
            label: Some("the shader"),
            source,
        })
}

/// Runs entry point `main` of a module over one buffer and returns its first word.
fn answer(gpu: &Gpu, module: &wgpu::ShaderModule) -> u32 {
    let pipeline = gpu.pipeline_of(module, None);
    let output = gpu.buffer("output", 256, B::STORAGE | B::COPY_SRC);
    let group = gpu.group(&pipeline, &[output.as_entire_binding()]);
    gpu.run(|encoder| {
        let mut pass = encoder.begin_compute_pass(&Default::default());
        pass.set_pipeline(&pipeline);
        pass.set_bind_group(0, &group, &[]);
        pass.dispatch_workgroups(1, 1, 1);
    });
    gpu.read_words(&output)[0]
}

fn naga_module(wgsl: &str) -> naga::Module {
    naga::front::wgsl::parse_str(wgsl).expect("the test's own shader")
}

fn spirv(wgsl: &str) -> Vec<u32> {
    let module = naga_module(wgsl);
    let info = naga::valid::Validator::new(
        naga::valid::ValidationFlags::all(),
        naga::valid::Capabilities::empty(),
    )
    .validate(&module)
    .expect("the test's own shader is valid");
    naga::back::spv::write_vec(&module, &info, &naga::back::spv::Options::default(), None)
        .expect("the test's own shader can be written")
}

#[test]
fn wgsl() {
    test(|gpu| {
        let module = gpu.valid("WGSL", || {
            module(gpu, wgpu::ShaderSource::Wgsl(WRITE_42.into()))
        });
        let info = pollster::block_on(module.get_compilation_info());
        assert!(info.messages.is_empty(), "{:?}", info.messages);
        assert_eq!(answer(gpu, &module), 42);
    });
}

#[test]
fn spir_v() {
    test(|gpu| {
        let words = spirv(WRITE_42);
        let module = gpu.valid("SPIR-V", || {
            module(gpu, wgpu::ShaderSource::SpirV(Cow::Owned(words)))
        });
        assert_eq!(answer(gpu, &module), 42);
    });
}

#[test]
fn glsl() {
    test(|gpu| {
        let module = gpu.valid("GLSL", || {
            module(
                gpu,
                wgpu::ShaderSource::Glsl {
                    shader: "#version 450
                        layout(local_size_x = 1) in;
                        layout(set = 0, binding = 0) buffer Output { uint data[]; };
                        void main() { data[0] = uint(ANSWER); }"
                        .into(),
                    stage: naga::ShaderStage::Compute,
                    defines: &[("ANSWER", "42")],
                },
            )
        });
        assert_eq!(answer(gpu, &module), 42);
    });
}

#[test]
fn naga_ir() {
    test(|gpu| {
        let module = gpu.valid("naga IR", || {
            module(
                gpu,
                wgpu::ShaderSource::Naga(Cow::Owned(naga_module(WRITE_42))),
            )
        });
        assert_eq!(answer(gpu, &module), 42);
    });
}

/// An error tells line and column, in the error and in the compilation info.
#[test]
fn where_an_error_is() {
    test(|gpu| {
        let source = "fn fine() {}\n\nfn wrong() -> u32 {\n    return not_there;\n}\n";
        let (module, error) = gpu.error_of(|| module(gpu, wgpu::ShaderSource::Wgsl(source.into())));
        let error = error.expect("an unknown name");
        assert!(error.contains("not_there"), "{error}");
        assert!(error.contains("the shader"), "{error}");
        assert!(error.contains("4:12"), "line and column: {error}");
        let info = pollster::block_on(module.get_compilation_info());
        assert_eq!(info.messages.len(), 1);
        let message = &info.messages[0];
        assert_eq!(message.message_type, wgpu::CompilationMessageType::Error);
        let location = message.location.expect("a place");
        assert_eq!((location.line_number, location.line_position), (4, 12));
        let start = location.offset as usize;
        let text = &source[start..start + location.length as usize];
        assert_eq!(text, "not_there");
    });
}

/// Valid syntax, invalid meaning: naga's validator has places as well.
#[test]
fn where_a_validation_error_is() {
    test(|gpu| {
        let source = "@compute @workgroup_size(0) fn main() {}\n";
        let (module, error) = gpu.error_of(|| module(gpu, wgpu::ShaderSource::Wgsl(source.into())));
        assert!(error.is_some());
        let info = pollster::block_on(module.get_compilation_info());
        assert_eq!(info.messages.len(), 1);
        let source = "var<private> p: array<u32, 4>;\n@group(0) @binding(0) var<uniform> u: array<u32, 4>;\n";
        let (_, error) =
            gpu.error_of(|| self::module(gpu, wgpu::ShaderSource::Wgsl(source.into())));
        let error = error.expect("a stride that uniforms cannot have");
        assert!(error.contains('u'), "{error}");
    });
}

#[test]
fn broken_sources() {
    test(|gpu| {
        for (what, source) in [
            ("WGSL", wgpu::ShaderSource::Wgsl("fn {".into())),
            (
                "WGSL, empty braces",
                wgpu::ShaderSource::Wgsl("\u{0}\u{1F600}".into()),
            ),
            (
                "SPIR-V, empty",
                wgpu::ShaderSource::SpirV(Cow::Borrowed(&[])),
            ),
            (
                "SPIR-V, no magic number",
                wgpu::ShaderSource::SpirV(Cow::Borrowed(&[1, 2, 3, 4, 5])),
            ),
            (
                "SPIR-V, cut short",
                wgpu::ShaderSource::SpirV(Cow::Owned(spirv(WRITE_42)[..40].to_vec())),
            ),
            (
                "GLSL",
                wgpu::ShaderSource::Glsl {
                    shader: "#version 450\nvoid main() { nothing(); }".into(),
                    stage: naga::ShaderStage::Compute,
                    defines: &[],
                },
            ),
        ] {
            let (module, error) = gpu.error_of(|| module(gpu, source));
            let error = error.unwrap_or_else(|| panic!("no error: {what}"));
            assert_names(&error, "the shader");
            let info = pollster::block_on(module.get_compilation_info());
            assert!(!info.messages.is_empty(), "{what}");
            let error = gpu.invalid((what, "as a pipeline"), || gpu.pipeline_of(&module, None));
            assert_names(&error, "pipeline under test");
        }
        gpu.valid("nothing at all is a module", || {
            module(gpu, wgpu::ShaderSource::Wgsl("".into()))
        });
    });
}

/// What a shader may use is what the device has.
#[test]
fn capabilities() {
    test(|gpu| {
        assert!(!gpu.device.features().contains(wgpu::Features::SHADER_F64));
        gpu.invalid("f64", || {
            module(
                gpu,
                wgpu::ShaderSource::Wgsl(
                    "@compute @workgroup_size(1) fn main() { let x: f64 = 1.0lf; _ = x; }".into(),
                ),
            )
        });
    });
}

#[test]
fn entry_points() {
    test(|gpu| {
        let two = gpu.module(
            "@group(0) @binding(0) var<storage, read_write> output: array<u32>;
            @compute @workgroup_size(1) fn one() { output[0] = 1u; }
            @compute @workgroup_size(1) fn two() { output[0] = 2u; }
            @fragment fn other() {}",
        );
        let make = |module: &wgpu::ShaderModule, entry_point| {
            gpu.device
                .create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                    label: Some("the pipeline"),
                    layout: None,
                    module,
                    entry_point,
                    compilation_options: Default::default(),
                    cache: None,
                })
        };
        for name in ["one", "two"] {
            gpu.valid(name, || make(&two, Some(name)));
        }
        for (what, name) in [
            ("no such name", Some("three")),
            ("another stage", Some("other")),
            ("not clear which", None),
        ] {
            let error = gpu.invalid(what, || make(&two, name));
            assert_names(&error, "the pipeline");
        }
        let one = gpu.module("@compute @workgroup_size(1) fn only() {} @fragment fn other() {}");
        gpu.valid("the only one", || make(&one, None));
        let none = gpu.module("fn helper() {}");
        gpu.invalid("none at all", || make(&none, None));
    });
}

#[test]
fn workgroup_limits() {
    test(|gpu| {
        let limits = gpu.device.limits();
        let sized = |x: u32, y: u32, z: u32| {
            format!("@compute @workgroup_size({x}, {y}, {z}) fn main() {{}}")
        };
        gpu.valid("the largest", || {
            gpu.pipeline(&sized(limits.max_compute_workgroup_size_x, 1, 1))
        });
        for (x, y, z) in [
            (limits.max_compute_workgroup_size_x + 1, 1, 1),
            (1, limits.max_compute_workgroup_size_y + 1, 1),
            (1, 1, limits.max_compute_workgroup_size_z + 1),
            (16, 16, 2),
        ] {
            gpu.invalid((x, y, z), || gpu.pipeline(&sized(x, y, z)));
        }
        let storage = limits.max_compute_workgroup_storage_size / 4;
        let scratch = |words: u32| {
            format!(
                "var<workgroup> scratch: array<u32, {words}>;
                @compute @workgroup_size(1) fn main() {{ scratch[0] = 1u; }}"
            )
        };
        gpu.valid("all the scratch", || gpu.pipeline(&scratch(storage)));
        if core() == Core::Wgpu {
            return skip("wgpu-core does not check the size of workgroup memory");
        }
        gpu.invalid("too much scratch", || gpu.pipeline(&scratch(storage + 1)));
    });
}

#[test]
fn overrides() {
    test(|gpu| {
        let module = gpu.module(
            "@id(7) override by_id: u32 = 1;
            override by_name: f32;
            override with_default: i32 = -3;
            override size: u32 = 1;
            override on: bool = false;
            var<workgroup> scratch: array<u32, size>;
            @group(0) @binding(0) var<storage, read_write> output: array<u32>;
            @compute @workgroup_size(size) fn main(@builtin(local_invocation_index) index: u32) {
                scratch[index] = index;
                workgroupBarrier();
                output[0] = by_id;
                output[1] = u32(by_name * 10.0);
                output[2] = bitcast<u32>(with_default);
                output[3] = u32(on);
                output[4 + index] = scratch[size - 1u - index];
            }",
        );
        let make = |constants: &[(&str, f64)]| {
            gpu.device
                .create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                    label: Some("the pipeline"),
                    layout: None,
                    module: &module,
                    entry_point: None,
                    compilation_options: wgpu::PipelineCompilationOptions {
                        constants,
                        ..Default::default()
                    },
                    cache: None,
                })
        };
        let pipeline = gpu.valid("constants", || {
            make(&[("7", 5.0), ("by_name", 2.5), ("size", 4.0), ("on", 1.0)])
        });
        let output = gpu.buffer("output", 256, B::STORAGE | B::COPY_SRC);
        let group = gpu.group(&pipeline, &[output.as_entire_binding()]);
        gpu.run(|encoder| {
            let mut pass = encoder.begin_compute_pass(&Default::default());
            pass.set_pipeline(&pipeline);
            pass.set_bind_group(0, &group, &[]);
            pass.dispatch_workgroups(1, 1, 1);
        });
        let words = gpu.read_words(&output);
        assert_eq!(words[..8], [5, 25, (-3i32) as u32, 1, 3, 2, 1, 0]);
        for (what, constants) in [
            ("without a value", &[("7", 5.0)][..]),
            ("not a number", &[("by_name", f64::NAN)][..]),
            ("out of range", &[("by_name", 1.0), ("7", -1.0)][..]),
            ("a size of 0", &[("by_name", 1.0), ("size", 0.0)][..]),
            ("a size too large", &[("by_name", 1.0), ("size", 1e9)][..]),
        ] {
            gpu.invalid(what, || make(constants));
        }
    });
}

/// A pipeline keeps what it needs of its module, its layout and their parts.
#[test]
fn module_dropped_before_its_pipeline_is_used() {
    test(|gpu| {
        let pipeline = gpu.pipeline(WRITE_42);
        let output = gpu.buffer("output", 256, B::STORAGE | B::COPY_SRC);
        let group = gpu.group(&pipeline, &[output.as_entire_binding()]);
        gpu.quiesce();
        gpu.run(|encoder| {
            let mut pass = encoder.begin_compute_pass(&Default::default());
            pass.set_pipeline(&pipeline);
            pass.set_bind_group(0, &group, &[]);
            pass.dispatch_workgroups(1, 1, 1);
        });
        assert_eq!(gpu.read_words(&output)[0], 42);
    });
}

#[test]
fn pipeline_cache() {
    test_with(wgpu::Features::PIPELINE_CACHE, |gpu| {
        let make = |data: Option<&[u8]>, fallback| {
            // SAFETY: the data, where there is any, is either what `get_data` of a cache of this
            // device returned, or garbage that the header check must refuse.
            unsafe {
                gpu.device
                    .create_pipeline_cache(&wgpu::PipelineCacheDescriptor {
                        label: Some("the cache"),
                        data,
                        fallback,
                    })
            }
        };
        let cache = make(None, false);
        let module = gpu.module(WRITE_42);
        let pipeline = |cache| {
            gpu.device
                .create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                    label: None,
                    layout: None,
                    module: &module,
                    entry_point: None,
                    compilation_options: Default::default(),
                    cache: Some(cache),
                })
        };
        gpu.valid("with a cache", || pipeline(&cache));
        let data = cache.get_data().expect("it has data");
        let again = gpu.valid("from its own data", || make(Some(&data), false));
        gpu.valid("with the old data", || pipeline(&again));
        gpu.invalid("from garbage", || make(Some(&[1; 100]), false));
        gpu.invalid("from nothing", || make(Some(&[]), false));
        gpu.valid("from garbage, forgiven", || make(Some(&[1; 100]), true));
    });
}
