//! What a pipeline's constants make of its shader: values for the overrides, and the size of the workgroup
//! that follows from them.

use super::{size_of, EntryPoint};
use crate::error::{invalid, Result};
use naga::{back::PipelineConstants, valid::ModuleInfo};
use std::{borrow::Cow, num::NonZeroU32};
use wgpu_types as wgt;

/// Finds the override that each constant of a pipeline is for and checks its value. A constant is named
/// by the override's id where it has one, by its name otherwise; of two for the same name, the last
/// counts.
///
/// # Errors
///
/// Validation errors that name the constant: no such override, or a value that its type cannot hold.
pub(crate) fn constants(
    module: &naga::Module,
    constants: &[(&str, f64)],
) -> Result<PipelineConstants> {
    let mut found = PipelineConstants::default();
    for &(key, value) in constants {
        let of_key = module.overrides.iter().find(|(_, item)| match item.id {
            Some(id) => id.to_string() == key,
            None => item.name.as_deref() == Some(key),
        });
        let Some((_, item)) = of_key else {
            return Err(invalid!(
                "the constant {key:?} is not an override of the shader module"
            ));
        };
        if let naga::TypeInner::Scalar(scalar) = module.types[item.ty].inner {
            if !holds(scalar, value) {
                return Err(invalid!(
                    "the constant {key:?} is {value}, which its type {}{} cannot hold",
                    match scalar.kind {
                        naga::ScalarKind::Sint => "i",
                        naga::ScalarKind::Uint => "u",
                        _ => "f",
                    },
                    u32::from(scalar.width) * 8
                ));
            }
        }
        found.insert(key.to_owned(), value);
    }
    Ok(found)
}

/// Whether a value can be converted to a scalar type. Integers are truncated towards zero first.
fn holds(scalar: naga::Scalar, value: f64) -> bool {
    /// From here on a number rounds to infinity in half precision.
    const HALF_INFINITY: f64 = 65520.0;
    let within = |min: f64, max: f64| value.trunc() >= min && value.trunc() <= max;
    match (scalar.kind, scalar.width) {
        (naga::ScalarKind::Bool, _) => true,
        _ if !value.is_finite() => false,
        (naga::ScalarKind::Sint, 2) => within(i16::MIN.into(), i16::MAX.into()),
        (naga::ScalarKind::Uint, 2) => within(0.0, u16::MAX.into()),
        (naga::ScalarKind::Sint, 4) => within(i32::MIN.into(), i32::MAX.into()),
        (naga::ScalarKind::Uint, 4) => within(0.0, u32::MAX.into()),
        (naga::ScalarKind::Float, 2) => value.abs() < HALF_INFINITY,
        (naga::ScalarKind::Float, 4) => (value as f32).is_finite(),
        (naga::ScalarKind::Float, 8) => true,
        // naga has no override of another type.
        _ => false,
    }
}

/// The module as it is with these constants: only the entry point is left of those that there are, and
/// every override that it uses is a constant.
///
/// # Errors
///
/// Validation errors: an override without a value, or an expression that the values make invalid.
pub(crate) fn specialize<'a>(
    module: &'a naga::Module,
    info: &'a ModuleInfo,
    entry_point: &EntryPoint,
    constants: &PipelineConstants,
) -> Result<(Cow<'a, naga::Module>, Cow<'a, ModuleInfo>)> {
    if module.overrides.is_empty() {
        return Ok((Cow::Borrowed(module), Cow::Borrowed(info)));
    }
    naga::back::pipeline_constants::process_overrides(
        module,
        info,
        Some((entry_point.stage, &entry_point.name)),
        constants,
    )
    .map_err(|error| invalid!("{entry_point}: {}", chain(&error)))
}

/// An error with all its sources.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

/// Checks the workgroup of a compute entry point in a module without overrides; gives back its size.
///
/// # Errors
///
/// Validation errors that name the size, the limit and their values.
pub(crate) fn check_workgroup(
    module: &naga::Module,
    info: &ModuleInfo,
    entry_point: &EntryPoint,
    limits: &wgt::Limits,
) -> Result<[NonZeroU32; 3]> {
    let of_module = module.entry_points.iter().position(|candidate| {
        candidate.stage == entry_point.stage && candidate.name == entry_point.name
    });
    let index = of_module.ok_or_else(|| invalid!("{entry_point} is gone"))?;
    let size = module.entry_points[index].workgroup_size;
    let [Some(x), Some(y), Some(z)] = size.map(NonZeroU32::new) else {
        return Err(invalid!(
            "{entry_point}: the workgroup size {size:?} has a zero"
        ));
    };
    for (size, axis, limit) in [
        (x, "x", limits.max_compute_workgroup_size_x),
        (y, "y", limits.max_compute_workgroup_size_y),
        (z, "z", limits.max_compute_workgroup_size_z),
    ] {
        if size.get() > limit {
            return Err(invalid!(
                "{entry_point}: the workgroup size {size} in {axis} is greater than \
                 max_compute_workgroup_size_{axis} {limit}"
            ));
        }
    }
    let invocations = size
        .iter()
        .fold(1u64, |product, &size| product.saturating_mul(size.into()));
    let limit = limits.max_compute_invocations_per_workgroup;
    if invocations > u64::from(limit) {
        return Err(invalid!(
            "{entry_point}: a workgroup of {invocations} invocations is greater than \
             max_compute_invocations_per_workgroup {limit}"
        ));
    }

    let info = info.get_entry_point(index);
    let storage = module
        .global_variables
        .iter()
        .filter(|(handle, variable)| {
            variable.space == naga::AddressSpace::WorkGroup && !info[*handle].is_empty()
        })
        .fold(0u64, |sum, (_, variable)| {
            sum.saturating_add(size_of(module, variable.ty).next_multiple_of(16))
        });
    let limit = limits.max_compute_workgroup_storage_size;
    if storage > u64::from(limit) {
        return Err(invalid!(
            "{entry_point}: {storage} bytes of workgroup variables are more than \
             max_compute_workgroup_storage_size {limit}"
        ));
    }
    Ok([x, y, z])
}
