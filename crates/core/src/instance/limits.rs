//! What limits may be asked of an adapter, and the levels to which they are rounded for programs that run
//! untrusted content.

use std::{borrow::Cow, fmt};
use wgpu_types::{self as wgt, Features, Limits};

/// One limit that was asked for and cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitError {
    /// The name of the limit, as in [`wgt::Limits`].
    pub name: &'static str,
    /// The value that was asked for.
    pub requested: u64,
    /// The best value there is: the highest, or for an alignment the lowest.
    pub allowed: u64,
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            requested,
            allowed,
        } = self;
        if !name.starts_with("min_") {
            write!(f, "{name} {requested} is greater than {allowed}")
        } else if requested < allowed {
            write!(f, "{name} {requested} is less than {allowed}")
        } else {
            write!(f, "{name} {requested} is not a power of two")
        }
    }
}

/// Checks the limits that a program asks for against what an adapter has, and returns all that fail
/// (specification, "Limits" and `requestDevice`).
pub(super) fn check(requested: &Limits, allowed: &Limits) -> Vec<LimitError> {
    let mut errors = Vec::new();
    requested.check_limits_with_fail_fn(allowed, false, |name, requested, allowed| {
        errors.push(LimitError {
            name,
            requested,
            allowed,
        });
    });
    for (name, requested, allowed) in alignments(requested, allowed) {
        if requested >= allowed && !requested.is_power_of_two() {
            errors.push(LimitError {
                name,
                requested: requested.into(),
                allowed: allowed.into(),
            });
        }
    }
    errors
}

/// Whether an adapter can be offered at all: its alignments are powers of two, and it is at least what
/// WebGPU demands of every adapter if `strict`.
pub(super) fn is_usable(
    limits: &Limits,
    downlevel: &wgt::DownlevelCapabilities,
    strict: bool,
) -> bool {
    let aligned = alignments(limits, limits)
        .iter()
        .all(|(_, alignment, _)| alignment.is_power_of_two());
    let mut demanded = Limits::defaults();
    demanded.zero_native_only();
    aligned && (!strict || (check(&demanded, limits).is_empty() && downlevel.is_webgpu_compliant()))
}

fn alignments(requested: &Limits, allowed: &Limits) -> [(&'static str, u32, u32); 2] {
    [
        (
            "min_uniform_buffer_offset_alignment",
            requested.min_uniform_buffer_offset_alignment,
            allowed.min_uniform_buffer_offset_alignment,
        ),
        (
            "min_storage_buffer_offset_alignment",
            requested.min_storage_buffer_offset_alignment,
            allowed.min_storage_buffer_offset_alignment,
        ),
    ]
}

/// A level that adapters are rounded down to.
#[derive(Debug)]
pub(super) struct Bucket {
    name: &'static str,
    limits: Limits,
    features: Features,
}

/// What every adapter that complies with WebGPU has.
const CORE: Bucket = Bucket {
    name: "core",
    limits: Limits::defaults(),
    features: Features::empty(),
};

/// What desktop GPUs of the last ten years, and the software drivers of desktops, have.
const DESKTOP: Bucket = Bucket {
    name: "desktop",
    limits: Limits {
        max_texture_dimension_1d: 16384,
        max_texture_dimension_2d: 16384,
        max_texture_array_layers: 2048,
        max_bind_groups: 8,
        max_buffer_size: 1 << 30,
        max_storage_textures_per_shader_stage: 8,
        max_compute_workgroup_storage_size: 32 << 10,
        max_compute_invocations_per_workgroup: 1024,
        max_compute_workgroup_size_x: 1024,
        max_compute_workgroup_size_y: 1024,
        ..Limits::defaults()
    },
    features: Features::TEXTURE_COMPRESSION_BC
        .union(Features::TIMESTAMP_QUERY)
        .union(Features::FLOAT32_FILTERABLE)
        .union(Features::BGRA8UNORM_STORAGE),
};

/// The best level that an adapter reaches, if any: the limits and features that it then reports. With
/// `strict`, limits that WebGPU does not know are none.
pub(super) fn bucket(limits: &Limits, features: Features, strict: bool) -> Option<Bucket> {
    [DESKTOP, CORE].into_iter().find_map(|mut bucket| {
        if strict {
            bucket.limits.zero_native_only();
        }
        let reached =
            features.contains(bucket.features) && check(&bucket.limits, limits).is_empty();
        reached.then_some(bucket)
    })
}

impl Bucket {
    /// Makes an adapter report the level instead of itself, and note in its description what it was.
    pub fn apply(self, info: &mut wgt::AdapterInfo, limits: &mut Limits, features: &mut Features) {
        info.limit_bucket = Some(wgt::AdapterLimitBucketInfo {
            name: Cow::Borrowed(self.name),
            raw_limits: std::mem::replace(limits, self.limits),
            raw_features: std::mem::replace(features, self.features),
            raw_subgroup_min_size: std::mem::replace(
                &mut info.subgroup_min_size,
                wgt::MINIMUM_SUBGROUP_MIN_SIZE,
            ),
            raw_subgroup_max_size: std::mem::replace(
                &mut info.subgroup_max_size,
                wgt::MAXIMUM_SUBGROUP_MAX_SIZE,
            ),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_is_can_be_had() {
        assert!(check(&Limits::defaults(), &Limits::defaults()).is_empty());
        assert!(check(&Limits::downlevel_defaults(), &Limits::defaults()).is_empty());
    }

    #[test]
    fn every_excess_is_named_with_both_values() {
        let requested = Limits {
            max_buffer_size: (256 << 20) + 1,
            max_bind_groups: 5,
            min_uniform_buffer_offset_alignment: 128,
            ..Default::default()
        };
        let errors = check(&requested, &Limits::defaults());
        let messages: Vec<_> = errors.iter().map(LimitError::to_string).collect();
        assert_eq!(
            messages,
            [
                "max_bind_groups 5 is greater than 4",
                "max_buffer_size 268435457 is greater than 268435456",
                "min_uniform_buffer_offset_alignment 128 is less than 256",
            ]
        );
    }

    #[test]
    fn alignments_are_powers_of_two() {
        let with = |min_storage_buffer_offset_alignment| {
            let requested = Limits {
                min_storage_buffer_offset_alignment,
                ..Default::default()
            };
            check(&requested, &Limits::defaults())
        };
        assert!(with(256).is_empty());
        assert!(with(512).is_empty());
        assert_eq!(
            with(384)[0].to_string(),
            "min_storage_buffer_offset_alignment 384 is not a power of two"
        );
        assert_eq!(with(0).len(), 1, "zero is less than what there is");
    }

    #[test]
    fn strict_compliance_asks_for_the_defaults() {
        let compliant = wgt::DownlevelCapabilities {
            flags: wgt::DownlevelFlags::compliant(),
            ..Default::default()
        };
        let lacking = wgt::DownlevelCapabilities {
            flags: wgt::DownlevelFlags::empty(),
            ..Default::default()
        };
        let low = Limits::downlevel_defaults();
        let usual = Limits::defaults();
        assert!(is_usable(&usual, &compliant, true));
        assert!(!is_usable(&low, &compliant, true));
        assert!(!is_usable(&usual, &lacking, true));
        assert!(is_usable(&low, &lacking, false));
        let odd = Limits {
            min_storage_buffer_offset_alignment: 48,
            ..usual
        };
        assert!(!is_usable(&odd, &compliant, false));
    }

    #[test]
    fn buckets_round_down() {
        let all = Features::all();
        let name =
            |limits: &Limits, features| bucket(limits, features, false).map(|bucket| bucket.name);
        assert_eq!(name(&Limits::unlimited(), all), Some("desktop"));
        assert_eq!(name(&DESKTOP.limits, all), Some("desktop"));
        assert_eq!(name(&DESKTOP.limits, Features::empty()), Some("core"));
        assert_eq!(name(&Limits::defaults(), all), Some("core"));
        assert_eq!(name(&Limits::downlevel_defaults(), all), None);
        let mut strict = Limits::defaults();
        strict.zero_native_only();
        assert_eq!(name(&strict, all), None);
        assert!(bucket(&strict, all, true).is_some());
    }

    #[test]
    fn a_bucket_hides_the_adapter() {
        let mut info = wgt::AdapterInfo::new(wgt::DeviceType::DiscreteGpu, wgt::Backend::Vulkan);
        info.subgroup_min_size = 32;
        info.subgroup_max_size = 32;
        let (mut limits, mut features) = (Limits::unlimited(), Features::all());
        bucket(&limits, features, false)
            .unwrap()
            .apply(&mut info, &mut limits, &mut features);
        assert_eq!(limits, DESKTOP.limits);
        assert_eq!(features, DESKTOP.features);
        assert_eq!(info.subgroup_min_size, wgt::MINIMUM_SUBGROUP_MIN_SIZE);
        let hidden = info.limit_bucket.unwrap();
        assert_eq!(hidden.name, "desktop");
        assert_eq!(hidden.raw_limits, Limits::unlimited());
        assert_eq!(hidden.raw_subgroup_max_size, 32);
    }
}
