//! The features that Fencepost implements. An adapter offers those of them that its back end has; what is
//! not implemented is not offered, and asking for it is an error.

use wgpu_types::{Backend, Features};

const fn all_of<const N: usize>(features: [Features; N]) -> Features {
    let mut union = Features::empty();
    let mut index = 0;
    while index < N {
        union = union.union(features[index]);
        index += 1;
    }
    union
}

/// What Fencepost implements.
///
/// Left out, until there is something behind them:
///
/// * what only a render pipeline or pass could use: `DEPTH_CLIP_CONTROL`, `INDIRECT_FIRST_INSTANCE`,
///   `DUAL_SOURCE_BLENDING`, `CLIP_DISTANCES`, `PRIMITIVE_INDEX`, `MULTI_DRAW_INDIRECT_COUNT`,
///   `POLYGON_MODE_*`, `CONSERVATIVE_RASTERIZATION`, `VERTEX_WRITABLE_STORAGE`, `VERTEX_ATTRIBUTE_64BIT`,
///   `SHADER_EARLY_DEPTH_TEST`, `SUBGROUP_VERTEX`, `MULTIVIEW`, `SELECTIVE_MULTIVIEW`,
///   `SHADER_BARYCENTRICS`, `SHADER_PER_VERTEX`, `SHADER_DRAW_INDEX`, `MULTISAMPLE_ARRAY`;
/// * mesh shaders, ray queries, ray tracing pipelines and all that belongs to acceleration structures;
/// * external textures and the formats of several planes (`TEXTURE_FORMAT_NV12`, `TEXTURE_FORMAT_P010`):
///   neither copies nor clears reach the planes, so their contents could not be made zero (I7);
/// * `PASSTHROUGH_SHADERS`: a shader that nobody checked can break every invariant;
/// * `EXPERIMENTAL_COOPERATIVE_MATRIX`;
/// * `VULKAN_GOOGLE_DISPLAY_TIMING` (surfaces) and `VULKAN_EXTERNAL_MEMORY_*` (HAL interoperation).
pub(super) const IMPLEMENTED: Features = all_of([
    // Formats: what can be created, copied, cleared and bound. That some of them can also be rendered to
    // or blended is a property of the format, and harmless without rendering.
    Features::TEXTURE_COMPRESSION_BC,
    Features::TEXTURE_COMPRESSION_BC_SLICED_3D,
    Features::TEXTURE_COMPRESSION_ETC2,
    Features::TEXTURE_COMPRESSION_ASTC,
    Features::TEXTURE_COMPRESSION_ASTC_SLICED_3D,
    Features::TEXTURE_COMPRESSION_ASTC_HDR,
    Features::TEXTURE_FORMAT_16BIT_NORM,
    Features::TEXTURE_ADAPTER_SPECIFIC_FORMAT_FEATURES,
    Features::DEPTH32FLOAT_STENCIL8,
    Features::RG11B10UFLOAT_RENDERABLE,
    Features::BGRA8UNORM_STORAGE,
    Features::FLOAT32_FILTERABLE,
    Features::FLOAT32_BLENDABLE,
    // Buffers and commands.
    Features::MAPPABLE_PRIMARY_BUFFERS,
    Features::CLEAR_TEXTURE,
    Features::IMMEDIATES,
    // Samplers.
    Features::ADDRESS_MODE_CLAMP_TO_ZERO,
    Features::ADDRESS_MODE_CLAMP_TO_BORDER,
    // Queries, in encoders and compute passes.
    Features::TIMESTAMP_QUERY,
    Features::TIMESTAMP_QUERY_INSIDE_ENCODERS,
    Features::TIMESTAMP_QUERY_INSIDE_PASSES,
    Features::PIPELINE_STATISTICS_QUERY,
    // Binding arrays, and how they may be indexed.
    Features::TEXTURE_BINDING_ARRAY,
    Features::BUFFER_BINDING_ARRAY,
    Features::STORAGE_RESOURCE_BINDING_ARRAY,
    Features::UNIFORM_BUFFER_BINDING_ARRAYS,
    Features::PARTIALLY_BOUND_BINDING_ARRAY,
    Features::SAMPLED_TEXTURE_AND_STORAGE_BUFFER_ARRAY_NON_UNIFORM_INDEXING,
    Features::STORAGE_TEXTURE_ARRAY_NON_UNIFORM_INDEXING,
    // What a compute shader may use.
    Features::SHADER_F16,
    Features::SHADER_F64,
    Features::SHADER_I16,
    Features::SHADER_INT64,
    Features::SHADER_INT64_ATOMIC_MIN_MAX,
    Features::SHADER_INT64_ATOMIC_ALL_OPS,
    Features::SHADER_FLOAT32_ATOMIC,
    Features::TEXTURE_ATOMIC,
    Features::TEXTURE_INT64_ATOMIC,
    Features::SUBGROUP,
    Features::SUBGROUP_BARRIER,
    Features::MEMORY_DECORATION_COHERENT,
    Features::MEMORY_DECORATION_VOLATILE,
    // Pipelines.
    Features::PIPELINE_CACHE,
]);

/// What an adapter offers whose back end says that it has `features`.
pub(super) fn offered(features: Features, backend: Backend) -> Features {
    let offered = features & IMPLEMENTED;
    match backend {
        // The HAL takes it for part of TEXTURE_COMPRESSION_BC, but GL_EXT_texture_compression_s3tc has no
        // three-dimensional textures.
        Backend::Gl => offered - Features::TEXTURE_COMPRESSION_BC_SLICED_3D,
        _ => offered,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_experimental_is_implemented() {
        assert!(!IMPLEMENTED.intersects(Features::all_experimental_mask()));
    }

    #[test]
    fn every_format_of_one_plane_is_reachable() {
        use wgpu_types::TextureFormat as Format;
        for format in [
            Format::Bc1RgbaUnorm,
            Format::Etc2Rgb8Unorm,
            Format::R16Unorm,
            Format::R64Uint,
            Format::Depth32FloatStencil8,
        ] {
            assert!(
                IMPLEMENTED.contains(format.required_features()),
                "{format:?}"
            );
        }
        assert!(!IMPLEMENTED.contains(Format::NV12.required_features()));
    }

    #[test]
    fn opengl_has_no_compressed_volumes_of_bc() {
        let sliced = Features::TEXTURE_COMPRESSION_BC_SLICED_3D;
        assert!(offered(Features::all(), Backend::Vulkan).contains(sliced));
        assert!(!offered(Features::all(), Backend::Gl).contains(sliced));
        assert!(offered(Features::all(), Backend::Gl).contains(Features::TEXTURE_COMPRESSION_BC));
    }
}
