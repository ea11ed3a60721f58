//! Each rule of shader interfaces, on both sides, on real shaders.

use super::*;
use naga::ShaderStage::{Compute, Fragment, Vertex};
use std::num::NonZeroU32;
use wgt::{BindingType as Type, ShaderStages as Stages};

struct Shader {
    module: naga::Module,
    info: ModuleInfo,
    interface: Interface,
}

fn shader(source: &str) -> Shader {
    let mut options = naga::front::wgsl::Options::new();
    options.capabilities = naga::valid::Capabilities::all();
    let mut front = naga::front::wgsl::Frontend::new_with_options(options);
    let module = front
        .parse(source)
        .unwrap_or_else(|error| panic!("{}", error.emit_to_string(source)));
    let mut validator = naga::valid::Validator::new(
        naga::valid::ValidationFlags::all(),
        naga::valid::Capabilities::all(),
    );
    let info = validator
        .validate(&module)
        .unwrap_or_else(|error| panic!("{}", error.emit_to_string(source)));
    let interface = Interface::new(&module, &info);
    Shader {
        module,
        info,
        interface,
    }
}

/// A compute shader with these globals and this body.
fn compute(globals: &str, body: &str) -> Shader {
    shader(&format!(
        "{globals} @compute @workgroup_size(1) fn main() {{ {body} }}"
    ))
}

impl Shader {
    fn entry(&self) -> &EntryPoint {
        self.interface.entry_point(Compute, None).unwrap()
    }

    fn check_groups(&self, groups: &Groups<'_>, immediate_size: u32) -> Result<()> {
        self.interface.check(self.entry(), groups, immediate_size)
    }

    /// Checks against one group of bindings from 0 on.
    fn check(&self, types: &[Type]) -> Result<()> {
        let entries: Vec<_> = (0u32..)
            .zip(types)
            .map(|(binding, ty)| entry(binding, *ty))
            .collect();
        self.check_groups(&[Some(&entries)], 0)
    }

    #[track_caller]
    fn accepts(&self, types: &[Type]) {
        if let Err(error) = self.check(types) {
            panic!("refused: {error}");
        }
    }

    #[track_caller]
    fn refuses(&self, types: &[Type], rule: &str) {
        says(self.check(types), rule);
    }

    fn derive(&self) -> Result<Vec<Vec<wgt::BindGroupLayoutEntry>>> {
        let mut layout = DerivedLayout::default();
        self.interface
            .derive(self.entry(), &mut layout, &wgt::Limits::default())?;
        Ok(layout.groups())
    }

    fn types(&self) -> Vec<Type> {
        self.derive().unwrap()[0]
            .iter()
            .map(|entry| entry.ty)
            .collect()
    }

    fn workgroup(&self, values: &[(&str, f64)], limits: &wgt::Limits) -> Result<[u32; 3]> {
        let constants = constants(&self.module, values)?;
        let (module, info) = specialize(&self.module, &self.info, self.entry(), &constants)?;
        let size = check_workgroup(&module, &info, self.entry(), limits)?;
        Ok(size.map(NonZeroU32::get))
    }
}

#[track_caller]
fn says<T: fmt::Debug>(result: Result<T>, rule: &str) {
    let error = result.expect_err("accepted").to_string();
    assert!(error.contains(rule), "{error:?} does not say {rule:?}");
}

fn entry(binding: u32, ty: Type) -> wgt::BindGroupLayoutEntry {
    wgt::BindGroupLayoutEntry {
        binding,
        visibility: Stages::COMPUTE,
        ty,
        count: None,
    }
}

fn buffer(ty: wgt::BufferBindingType, size: u64) -> Type {
    Type::Buffer {
        ty,
        has_dynamic_offset: false,
        min_binding_size: wgt::BufferSize::new(size),
    }
}

const UNIFORM: wgt::BufferBindingType = wgt::BufferBindingType::Uniform;
const READ: wgt::BufferBindingType = wgt::BufferBindingType::Storage { read_only: true };
const WRITE: wgt::BufferBindingType = wgt::BufferBindingType::Storage { read_only: false };
const FILTERABLE: wgt::TextureSampleType = wgt::TextureSampleType::Float { filterable: true };
const UNFILTERABLE: wgt::TextureSampleType = wgt::TextureSampleType::Float { filterable: false };
const FILTERING: Type = Type::Sampler(wgt::SamplerBindingType::Filtering);
const NON_FILTERING: Type = Type::Sampler(wgt::SamplerBindingType::NonFiltering);
const COMPARISON: Type = Type::Sampler(wgt::SamplerBindingType::Comparison);

fn texture(sample_type: wgt::TextureSampleType) -> Type {
    Type::Texture {
        sample_type,
        view_dimension: wgt::TextureViewDimension::D2,
        multisampled: false,
    }
}

#[test]
fn entry_points_are_chosen() {
    let shader = shader(
        "@compute @workgroup_size(1) fn a() {}
         @compute @workgroup_size(1) fn b() {}
         @fragment fn c() {}",
    );
    let find = |stage, name| {
        shader
            .interface
            .entry_point(stage, name)
            .map(|entry| &*entry.name)
    };
    assert_eq!(find(Compute, Some("b")).unwrap(), "b");
    assert_eq!(find(Fragment, None).unwrap(), "c");
    assert_eq!(find(Fragment, Some("c")).unwrap(), "c");
    says(find(Compute, None), "several compute entry points");
    says(
        find(Compute, Some("c")),
        "no compute entry point \"c\"; it has [\"a\", \"b\"]",
    );
    says(find(Compute, Some("")), "no compute entry point \"\"");
    says(find(Vertex, None), "no vertex entry point");
}

#[test]
fn only_what_is_used_counts() {
    let shader = shader(
        "@group(0) @binding(0) var<uniform> used: u32;
         @group(0) @binding(1) var<uniform> unused: u32;
         @group(7) @binding(1000) var<uniform> far: u32;
         fn deep() -> u32 { return used; }
         @compute @workgroup_size(1) fn main() { _ = deep(); }",
    );
    shader.accepts(&[buffer(UNIFORM, 4)]);
    assert_eq!(shader.types(), [buffer(UNIFORM, 4)]);
}

#[test]
fn buffers_match() {
    let uniform = compute(
        "@group(0) @binding(0) var<uniform> data: vec4<f32>;",
        "_ = data;",
    );
    uniform.accepts(&[buffer(UNIFORM, 0)]);
    uniform.accepts(&[buffer(UNIFORM, 16)]);
    uniform.accepts(&[buffer(UNIFORM, 1000)]);
    uniform.refuses(
        &[buffer(UNIFORM, 15)],
        "needs 16 bytes, but the layout's min_binding_size is 15",
    );
    uniform.refuses(&[buffer(READ, 16)], "a buffer Uniform");
    uniform.refuses(&[FILTERING], "a buffer Uniform");
    assert_eq!(uniform.types(), [buffer(UNIFORM, 16)]);

    let read = compute(
        "@group(0) @binding(0) var<storage> data: array<vec3<f32>>;",
        "_ = data[0];",
    );
    read.accepts(&[buffer(READ, 16)]);
    read.refuses(&[buffer(READ, 12)], "min_binding_size is 12");
    read.refuses(&[buffer(WRITE, 0)], "read_only: false");
    assert_eq!(read.types(), [buffer(READ, 16)]);

    let write = compute(
        "struct S { a: u32, b: array<vec2<u32>> }
         @group(0) @binding(0) var<storage, read_write> data: S;",
        "data.a = 1u;",
    );
    write.accepts(&[buffer(WRITE, 16)]);
    write.refuses(&[buffer(WRITE, 8)], "needs 16 bytes");
    write.refuses(&[buffer(READ, 0)], "read_only: true");
    assert_eq!(write.types(), [buffer(WRITE, 16)]);
    // A dynamic offset is no business of the shader's.
    write.accepts(&[Type::Buffer {
        ty: WRITE,
        has_dynamic_offset: true,
        min_binding_size: None,
    }]);
}

#[test]
fn bindings_are_there_and_visible() {
    let shader = compute("@group(1) @binding(3) var<uniform> data: u32;", "_ = data;");
    let good = [
        entry(0, FILTERING),
        entry(3, buffer(UNIFORM, 0)),
        entry(4, FILTERING),
    ];
    shader.check_groups(&[None, Some(&good)], 0).unwrap();
    let error = shader.check_groups(&[None, Some(&good[..1])], 0);
    says(error, "compute entry point \"main\": \"data\" at group 1 binding 3: the bind group layout has no such");
    says(
        shader.check_groups(&[Some(&good)], 0),
        "no bindings in this group",
    );
    says(
        shader.check_groups(&[Some(&good), None], 0),
        "no bindings in this group",
    );
    says(shader.check_groups(&[], 0), "no bindings in this group");
    let mut hidden = good;
    hidden[1].visibility = Stages::VERTEX_FRAGMENT;
    says(
        shader.check_groups(&[None, Some(&hidden)], 0),
        "not this stage",
    );
    hidden[1].visibility = Stages::NONE;
    says(
        shader.check_groups(&[None, Some(&hidden)], 0),
        "not this stage",
    );
}

#[test]
fn textures_match() {
    use wgt::TextureViewDimension as View;
    for (wgsl, sample_type, view_dimension, multisampled) in [
        ("texture_1d<f32>", UNFILTERABLE, View::D1, false),
        ("texture_2d<f32>", UNFILTERABLE, View::D2, false),
        (
            "texture_2d<i32>",
            wgt::TextureSampleType::Sint,
            View::D2,
            false,
        ),
        (
            "texture_2d<u32>",
            wgt::TextureSampleType::Uint,
            View::D2,
            false,
        ),
        ("texture_2d_array<f32>", UNFILTERABLE, View::D2Array, false),
        ("texture_3d<f32>", UNFILTERABLE, View::D3, false),
        ("texture_cube<f32>", UNFILTERABLE, View::Cube, false),
        (
            "texture_cube_array<f32>",
            UNFILTERABLE,
            View::CubeArray,
            false,
        ),
        ("texture_multisampled_2d<f32>", UNFILTERABLE, View::D2, true),
        (
            "texture_multisampled_2d<u32>",
            wgt::TextureSampleType::Uint,
            View::D2,
            true,
        ),
        (
            "texture_depth_2d",
            wgt::TextureSampleType::Depth,
            View::D2,
            false,
        ),
        (
            "texture_depth_cube_array",
            wgt::TextureSampleType::Depth,
            View::CubeArray,
            false,
        ),
        (
            "texture_depth_multisampled_2d",
            wgt::TextureSampleType::Depth,
            View::D2,
            true,
        ),
    ] {
        let shader = compute(
            &format!("@group(0) @binding(0) var data: {wgsl};"),
            "_ = textureDimensions(data);",
        );
        let layout = Type::Texture {
            sample_type,
            view_dimension,
            multisampled,
        };
        shader.accepts(&[layout]);
        assert_eq!(shader.types(), [layout], "{wgsl}");
        let others = [
            FILTERABLE,
            UNFILTERABLE,
            wgt::TextureSampleType::Sint,
            wgt::TextureSampleType::Uint,
            wgt::TextureSampleType::Depth,
        ];
        for other in others {
            let is_float = |ty| matches!(ty, wgt::TextureSampleType::Float { .. });
            let fits = other == sample_type || is_float(other) && is_float(sample_type);
            let layout = Type::Texture {
                sample_type: other,
                view_dimension,
                multisampled,
            };
            assert_eq!(shader.check(&[layout]).is_ok(), fits, "{wgsl} {other:?}");
        }
        for other in [
            View::D1,
            View::D2,
            View::D2Array,
            View::D3,
            View::Cube,
            View::CubeArray,
        ] {
            let layout = Type::Texture {
                sample_type,
                view_dimension: other,
                multisampled,
            };
            assert_eq!(
                shader.check(&[layout]).is_ok(),
                other == view_dimension,
                "{wgsl} {other:?}"
            );
        }
        let other = Type::Texture {
            sample_type,
            view_dimension,
            multisampled: !multisampled,
        };
        shader.refuses(&[other], "the shader needs a");
        shader.refuses(&[buffer(UNIFORM, 0)], "texture of sample type");
    }
}

#[test]
fn storage_textures_match() {
    use wgt::{
        StorageTextureAccess as Access, TextureFormat as Format, TextureViewDimension as View,
    };
    let layout = |access, format, view_dimension| Type::StorageTexture {
        access,
        format,
        view_dimension,
    };
    let all = [
        Access::ReadOnly,
        Access::WriteOnly,
        Access::ReadWrite,
        Access::Atomic,
    ];
    for (wgsl, access, fits) in [
        ("read", Access::ReadOnly, &[Access::ReadOnly][..]),
        (
            "write",
            Access::WriteOnly,
            &[Access::WriteOnly, Access::ReadWrite],
        ),
        ("read_write", Access::ReadWrite, &[Access::ReadWrite]),
        ("atomic", Access::Atomic, &[Access::Atomic]),
    ] {
        let shader = compute(
            &format!("@group(0) @binding(0) var data: texture_storage_2d<r32uint, {wgsl}>;"),
            "_ = textureDimensions(data);",
        );
        assert_eq!(shader.types(), [layout(access, Format::R32Uint, View::D2)]);
        for other in all {
            let result = shader.check(&[layout(other, Format::R32Uint, View::D2)]);
            assert_eq!(result.is_ok(), fits.contains(&other), "{wgsl} {other:?}");
        }
        shader.refuses(
            &[layout(access, Format::R32Sint, View::D2)],
            "of format R32Uint",
        );
        shader.refuses(
            &[layout(access, Format::R32Uint, View::D2Array)],
            "a D2 storage texture",
        );
        shader.refuses(&[texture(wgt::TextureSampleType::Uint)], "storage texture");
    }
    let shader = compute(
        "@group(0) @binding(0) var data: texture_storage_3d<rgba16float, write>;",
        "textureStore(data, vec3(0), vec4(0.0));",
    );
    assert_eq!(
        shader.types(),
        [layout(Access::WriteOnly, Format::Rgba16Float, View::D3)]
    );
}

#[test]
fn samplers_match() {
    let plain = compute(
        "@group(0) @binding(0) var t: texture_2d<f32>; @group(0) @binding(1) var s: sampler;",
        "_ = textureSampleLevel(t, s, vec2(0.0), 0.0);",
    );
    plain.accepts(&[texture(FILTERABLE), FILTERING]);
    plain.accepts(&[texture(FILTERABLE), NON_FILTERING]);
    plain.accepts(&[texture(UNFILTERABLE), NON_FILTERING]);
    plain.refuses(&[texture(UNFILTERABLE), FILTERING], "filtering sampler");
    plain.refuses(
        &[texture(FILTERABLE), COMPARISON],
        "a sampler that does not compare",
    );
    plain.refuses(
        &[texture(FILTERABLE), texture(FILTERABLE)],
        "a sampler that does not compare",
    );
    assert_eq!(plain.types(), [texture(FILTERABLE), FILTERING]);

    let integer = compute(
        "@group(0) @binding(0) var t: texture_2d<u32>; @group(0) @binding(1) var s: sampler;",
        "_ = textureGather(0, t, s, vec2(0.0));",
    );
    let uint = texture(wgt::TextureSampleType::Uint);
    integer.accepts(&[uint, NON_FILTERING]);
    integer.refuses(&[uint, FILTERING], "filtering sampler");

    let compare = compute(
        "@group(0) @binding(0) var t: texture_depth_2d; @group(0) @binding(1) var s: sampler_comparison;",
        "_ = textureSampleCompareLevel(t, s, vec2(0.0), 0.0);",
    );
    let depth = texture(wgt::TextureSampleType::Depth);
    compare.accepts(&[depth, COMPARISON]);
    compare.refuses(&[depth, FILTERING], "a comparison sampler");
    assert_eq!(compare.types(), [depth, COMPARISON]);
}

/// A texture is filterable in an automatic layout only where it meets a sampler; through functions too.
#[test]
fn sample_types_are_deduced() {
    let shader = compute(
        "@group(0) @binding(0) var loaded: texture_2d<f32>;
         @group(0) @binding(1) var sampled: texture_2d<f32>;
         @group(0) @binding(2) var s: sampler;
         fn sample(t: texture_2d<f32>) -> vec4<f32> { return textureSampleLevel(t, s, vec2(0.0), 0.0); }",
        "_ = textureLoad(loaded, vec2(0), 0) + sample(sampled);",
    );
    assert_eq!(
        shader.types(),
        [texture(UNFILTERABLE), texture(FILTERABLE), FILTERING]
    );
    shader.accepts(&shader.types());
}

#[test]
fn binding_arrays_match() {
    let array = |ty, count: Option<u32>| wgt::BindGroupLayoutEntry {
        count: count.map(|count| NonZeroU32::new(count).unwrap()),
        ..entry(0, ty)
    };
    let check = |shader: &Shader, ty, count| {
        let entries = [array(ty, count)];
        shader.check_groups(&[Some(&entries)], 0)
    };
    let float = texture(UNFILTERABLE);
    let sized = compute(
        "enable wgpu_binding_array; @group(0) @binding(0) var data: binding_array<texture_2d<f32>, 4>;",
        "_ = textureLoad(data[1], vec2(0), 0);",
    );
    check(&sized, float, Some(4)).unwrap();
    check(&sized, float, Some(5)).unwrap();
    says(check(&sized, float, Some(3)), "an array of 3");
    says(check(&sized, float, None), "single binding");
    says(
        check(&sized, texture(wgt::TextureSampleType::Sint), Some(4)),
        "sample type Float",
    );
    assert_eq!(sized.derive().unwrap()[0], [array(float, Some(4))]);
    let unsized_ = compute(
        "enable wgpu_binding_array; @group(0) @binding(0) var data: binding_array<texture_2d<f32>>;",
        "_ = textureLoad(data[1], vec2(0), 0);",
    );
    check(&unsized_, float, Some(1)).unwrap();
    says(check(&unsized_, float, None), "single binding");
    says(unsized_.derive(), "without a constant size");
    let single = compute(
        "@group(0) @binding(0) var data: texture_2d<f32>;",
        "_ = textureLoad(data, vec2(0), 0);",
    );
    says(check(&single, float, Some(1)), "no array");
    let buffers = compute(
        "enable wgpu_binding_array; struct S { a: vec4<u32> } @group(0) @binding(0) var<storage> data: binding_array<S, 2>;",
        "_ = data[1].a;",
    );
    check(&buffers, buffer(READ, 16), Some(2)).unwrap();
    says(check(&buffers, buffer(READ, 12), Some(2)), "needs 16 bytes");
}

#[test]
fn what_no_layout_can_have_is_refused() {
    let shader = compute(
        "enable wgpu_ray_query; @group(0) @binding(0) var data: acceleration_structure;",
        "var q: ray_query; rayQueryInitialize(&q, data, RayDesc(0u, 0xFFu, 0.1, 100.0, vec3(0.0), vec3(1.0)));",
    );
    says(
        shader.derive().map(drop),
        "acceleration structures are not supported",
    );
    shader.refuses(
        &[Type::AccelerationStructure {
            vertex_return: false,
        }],
        "acceleration structures are not supported",
    );
}

#[test]
fn automatic_layouts_are_limited_to_the_groups_there_are() {
    let limit = wgt::Limits::default().max_bind_groups;
    let shader = |group| {
        compute(
            &format!("@group({group}) @binding(2) var<uniform> data: u32;"),
            "_ = data;",
        )
    };
    let groups = shader(limit - 1).derive().unwrap();
    assert_eq!(groups.len(), limit as usize);
    assert!(groups[..groups.len() - 1].iter().all(Vec::is_empty));
    assert_eq!(groups.last().unwrap(), &[entry(2, buffer(UNIFORM, 4))]);
    says(shader(limit).derive(), "max_bind_groups");
    says(shader(u32::MAX).derive(), "max_bind_groups");
    assert!(compute("", "").derive().unwrap().is_empty());
}

#[test]
fn stages_share_an_automatic_layout() {
    let derive = |vertex: &str, fragment: &str, globals: &str| {
        let shader = shader(&format!(
            "{globals}
             @vertex fn v() -> @builtin(position) vec4<f32> {{ {vertex} return vec4(0.0); }}
             @fragment fn f() {{ {fragment} }}"
        ));
        let mut layout = DerivedLayout::default();
        for stage in [Vertex, Fragment] {
            let entry = shader.interface.entry_point(stage, None).unwrap();
            shader
                .interface
                .derive(entry, &mut layout, &wgt::Limits::default())?;
        }
        let groups = layout.groups();
        Ok(groups[0]
            .iter()
            .map(|entry| (entry.visibility, entry.ty))
            .collect::<Vec<_>>())
    };
    let globals = "@group(0) @binding(0) var t: texture_2d<f32>;
                   @group(0) @binding(1) var s: sampler;
                   @group(0) @binding(2) var<uniform> u: u32;";
    let load = "_ = textureLoad(t, vec2(0), 0);";
    let sample = "_ = textureSampleLevel(t, s, vec2(0.0), 0.0);";
    let expected = [
        (Stages::VERTEX_FRAGMENT, texture(FILTERABLE)),
        (Stages::FRAGMENT, FILTERING),
        (Stages::VERTEX, buffer(UNIFORM, 4)),
    ];
    assert_eq!(
        derive(&format!("{load} _ = u;"), sample, globals).unwrap(),
        expected
    );
    let two = "@group(0) @binding(0) var<uniform> a: u32;
               @group(0) @binding(0) var<uniform> b: vec4<u32>;
               @group(0) @binding(0) var t: texture_2d<f32>;";
    let expected = [(Stages::VERTEX_FRAGMENT, buffer(UNIFORM, 16))];
    assert_eq!(derive("_ = a;", "_ = b;", two).unwrap(), expected);
    assert_eq!(derive("_ = b;", "_ = a;", two).unwrap(), expected);
    says(derive("_ = a;", load, two), "no automatic layout");
}

#[test]
fn sizes_that_the_layout_leaves_open_are_checked_late() {
    let shader = compute(
        "@group(0) @binding(1) var<uniform> a: vec4<u32>;
         @group(0) @binding(5) var<storage> b: array<u32>;
         @group(2) @binding(0) var<storage> c: array<u32, 100>;",
        "_ = a; _ = b[0]; _ = c[0];",
    );
    let mut sizes = RequiredSizes::default();
    shader.interface.require_sizes(shader.entry(), &mut sizes);
    let first = [
        entry(0, buffer(UNIFORM, 0)),
        entry(1, buffer(UNIFORM, 16)),
        entry(2, FILTERING),
        entry(5, buffer(READ, 0)),
    ];
    let third = [entry(0, buffer(READ, 0))];
    let groups = [Some(&first[..]), None, Some(&third[..])];
    let late = late_sized(&groups, &sizes);
    assert_eq!(late, [vec![(0, 0), (5, 4)], vec![], vec![(0, 400)]]);
}

#[test]
fn immediates_fit_the_layout() {
    let globals = "struct I { a: u32, b: vec2<u32> } var<immediate> data: I;";
    let shader = compute(globals, "_ = data.b.x;");
    assert_eq!(shader.entry().immediate_size, 16);
    assert!(shader.entry().immediates != ImmediateSlots::default());
    shader.check_groups(&[], 16).unwrap();
    shader.check_groups(&[], 64).unwrap();
    says(
        shader.check_groups(&[], 12),
        "16 bytes of immediate data, but the layout has 12",
    );
    // Unused: the layout need not have it, an automatic one does.
    let unused = compute(globals, "");
    unused.check_groups(&[], 0).unwrap();
    assert_eq!(unused.entry().immediate_size, 0);
    let mut layout = DerivedLayout::default();
    let limits = wgt::Limits::default();
    unused
        .interface
        .derive(unused.entry(), &mut layout, &limits)
        .unwrap();
    assert_eq!(layout.immediate_size, 16);
}

#[test]
fn constants_are_named_by_id_or_name() {
    let shader = compute(
        "override a: u32 = 1u; @id(7) override b: u32 = 2u;",
        "_ = a + b;",
    );
    let keys = |values: &[(&str, f64)]| constants(&shader.module, values).map(drop);
    keys(&[]).unwrap();
    keys(&[("a", 1.0), ("7", 2.0)]).unwrap();
    says(keys(&[("b", 1.0)]), "\"b\" is not an override");
    says(keys(&[("8", 1.0)]), "\"8\" is not an override");
    says(keys(&[("07", 1.0)]), "\"07\" is not an override");
    says(keys(&[("+7", 1.0)]), "\"+7\" is not an override");
    says(keys(&[("", 1.0)]), "\"\" is not an override");
    says(
        constants(&compute("", "").module, &[("a", 1.0)]).map(drop),
        "not an override",
    );
    let last = constants(&shader.module, &[("a", 1.0), ("a", 3.0)]).unwrap();
    assert_eq!(last.get("a"), Some(&3.0));
}

#[test]
fn constants_fit_their_type() {
    let shader = compute(
        "enable f16;
         override b: bool; override i: i32; override u: u32; override f: f32; override h: f16;",
        "_ = b; _ = i; _ = u; _ = f; _ = h;",
    );
    let ok = [
        ("b", f64::NAN),
        ("b", 2.0),
        ("i", -2147483648.0),
        ("i", 2147483647.9),
        ("u", 4294967295.0),
        ("u", -0.5),
        ("f", 3.4028234663852886e38),
        ("h", 65504.0),
        ("h", -65519.99),
    ];
    let all = |key, value| {
        let mut values = vec![("b", 0.0), ("i", 0.0), ("u", 0.0), ("f", 0.0), ("h", 0.0)];
        values.push((key, value));
        shader.workgroup(&values, &wgt::Limits::default())
    };
    for (key, value) in ok {
        all(key, value).unwrap_or_else(|error| panic!("{key} = {value}: {error}"));
    }
    for (key, value) in [
        ("i", f64::NAN),
        ("i", f64::INFINITY),
        ("i", 2147483648.0),
        ("i", -2147483649.0),
        ("u", -1.0),
        ("u", 4294967296.0),
        ("u", f64::NEG_INFINITY),
        ("f", f64::NAN),
        ("f", 3.5e38),
        ("f", f64::INFINITY),
        ("h", 65520.0),
        ("h", f64::NAN),
    ] {
        says(all(key, value), "cannot hold");
    }
}

#[test]
fn a_used_override_needs_a_value() {
    let shader = shader(
        "override used: u32; override unused: u32;
         @compute @workgroup_size(1) fn main() { _ = used; }
         @compute @workgroup_size(1) fn other() { _ = unused; }",
    );
    let entry = shader.interface.entry_point(Compute, Some("main")).unwrap();
    let run = |values: &[(&str, f64)]| {
        let constants = constants(&shader.module, values).unwrap();
        specialize(&shader.module, &shader.info, entry, &constants).map(drop)
    };
    run(&[("used", 1.0)]).unwrap();
    run(&[("used", 1.0), ("unused", 1.0)]).unwrap();
    says(run(&[]), "'used'");
    says(run(&[("unused", 1.0)]), "'used'");
}

#[test]
fn workgroups_are_limited() {
    let limits = wgt::Limits {
        max_compute_workgroup_size_x: 64,
        max_compute_workgroup_size_y: 32,
        max_compute_workgroup_size_z: 16,
        max_compute_invocations_per_workgroup: 128,
        max_compute_workgroup_storage_size: 1024,
        ..Default::default()
    };
    let sized = |size: &str| shader(&format!("@compute @workgroup_size({size}) fn main() {{}}"));
    for (size, expected) in [
        ("64", [64, 1, 1]),
        ("1, 32", [1, 32, 1]),
        ("1, 1, 16", [1, 1, 16]),
        ("64, 2, 1", [64, 2, 1]),
    ] {
        assert_eq!(sized(size).workgroup(&[], &limits).unwrap(), expected);
    }
    for (size, rule) in [
        ("65", "max_compute_workgroup_size_x 64"),
        ("1, 33", "max_compute_workgroup_size_y 32"),
        ("1, 1, 17", "max_compute_workgroup_size_z 16"),
        ("64, 3, 1", "192 invocations"),
    ] {
        says(sized(size).workgroup(&[], &limits), rule);
    }

    let overridden = shader(
        "override x: u32 = 2u; override y: i32 = 1; @id(3) override z: u32;
         @compute @workgroup_size(x, y * 2, z) fn main() {}",
    );
    let run = |values: &[(&str, f64)]| overridden.workgroup(values, &limits);
    assert_eq!(run(&[("3", 4.0)]).unwrap(), [2, 2, 4]);
    assert_eq!(
        run(&[("x", 8.0), ("y", 3.0), ("3", 1.0)]).unwrap(),
        [8, 6, 1]
    );
    says(run(&[]), "'3'");
    says(run(&[("3", 17.0)]), "max_compute_workgroup_size_z 16");
    assert!(run(&[("x", 0.0), ("3", 1.0)]).is_err());
    assert!(run(&[("y", -1.0), ("3", 1.0)]).is_err());
    says(
        run(&[("x", 64.0), ("y", 2.0), ("3", 1.0)]),
        "256 invocations",
    );
    assert!(run(&[("x", 4294967295.0), ("3", 1.0)]).is_err());
}

/// Each variable counts rounded up to 16 bytes, and only where it is used.
#[test]
fn workgroup_storage_is_limited() {
    let limits = wgt::Limits {
        max_compute_workgroup_storage_size: 64,
        ..Default::default()
    };
    let run = |globals: &str, body: &str, values: &[(&str, f64)]| {
        compute(globals, body).workgroup(values, &limits).map(drop)
    };
    let four = "var<workgroup> a: u32; var<workgroup> b: u32; var<workgroup> c: u32; var<workgroup> d: u32;";
    run(four, "_ = a + b + c + d;", &[]).unwrap();
    let five = format!("{four} var<workgroup> e: u32;");
    run(&five, "_ = a + b + c + d;", &[]).unwrap();
    says(
        run(&five, "_ = a + b + c + d + e;", &[]),
        "80 bytes of workgroup variables",
    );
    run("var<workgroup> a: array<vec4<f32>, 4>;", "_ = a[0];", &[]).unwrap();
    says(
        run("var<workgroup> a: array<vec4<f32>, 5>;", "_ = a[0];", &[]),
        "80 bytes",
    );
    let overridden = "override n: u32; var<workgroup> a: array<vec4<f32>, n>;";
    run(overridden, "_ = a[0];", &[("n", 4.0)]).unwrap();
    says(run(overridden, "_ = a[0];", &[("n", 5.0)]), "80 bytes");
    assert!(run(overridden, "_ = a[0];", &[("n", 4294967295.0)]).is_err());
    assert!(run(overridden, "_ = a[0];", &[("n", 0.0)]).is_err());
}
