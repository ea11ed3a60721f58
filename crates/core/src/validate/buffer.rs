//! The rules of buffers (specification, sections 5.1 "GPUBuffer" and 5.2 "Buffer mapping").

use crate::error::{invalid, Named, Result};
use std::ops::Range;
use wgpu_types as wgt;

/// The rules of `createBuffer` that depend on features and limits alone.
pub(crate) fn check_descriptor(
    name: &Named<'_>,
    desc: &wgt::BufferDescriptor<Option<&str>>,
    features: wgt::Features,
    limits: &wgt::Limits,
    downlevel: wgt::DownlevelFlags,
) -> Result<()> {
    use wgt::BufferUsages as Usage;

    let wgt::BufferDescriptor { size, usage, .. } = *desc;
    let contains = |usages| usage.contains(usages);
    if size > limits.max_buffer_size {
        return Err(invalid!(
            "{name}: the size {size} is greater than max_buffer_size {}",
            limits.max_buffer_size
        ));
    }
    if usage.is_empty() || !wgt::BufferUsages::all().contains(usage) {
        return Err(invalid!("{name}: the usage {usage:?} is empty or unknown"));
    }
    if usage.intersects(Usage::BLAS_INPUT | Usage::TLAS_INPUT) {
        return Err(invalid!(
            "{name}: the usage {usage:?} needs ray tracing, which is not implemented"
        ));
    }
    if !features.contains(wgt::Features::MAPPABLE_PRIMARY_BUFFERS) {
        for (map, copy) in [
            (Usage::MAP_READ, Usage::COPY_DST),
            (Usage::MAP_WRITE, Usage::COPY_SRC),
        ] {
            if contains(map) && !(map | copy).contains(usage) {
                return Err(invalid!(
                    "{name}: {map:?} may be combined with {copy:?} only, but the usage is {usage:?} (the \
                     feature MAPPABLE_PRIMARY_BUFFERS allows more)"
                ));
            }
        }
    }
    if contains(Usage::INDIRECT) && !downlevel.contains(wgt::DownlevelFlags::INDIRECT_EXECUTION) {
        return Err(invalid!(
            "{name}: the adapter lacks INDIRECT_EXECUTION, which the usage {usage:?} needs"
        ));
    }
    if desc.mapped_at_creation && !size.is_multiple_of(wgt::COPY_BUFFER_ALIGNMENT) {
        return Err(invalid!(
            "{name}: mapped_at_creation needs a size that is a multiple of {}, not {size}",
            wgt::COPY_BUFFER_ALIGNMENT
        ));
    }
    Ok(())
}

/// The rules of a range to be mapped, or of a mapped range to be looked at.
pub(crate) fn check_map_range(
    name: &Named<'_>,
    range: &Range<u64>,
    within: &Range<u64>,
) -> Result<()> {
    if !range.start.is_multiple_of(wgt::MAP_ALIGNMENT) {
        return Err(invalid!(
            "{name}: the offset {} of a mapped range must be a multiple of {}",
            range.start,
            wgt::MAP_ALIGNMENT
        ));
    }
    if range.end < range.start
        || !(range.end - range.start).is_multiple_of(wgt::COPY_BUFFER_ALIGNMENT)
    {
        return Err(invalid!(
            "{name}: the size of the mapped range {range:?} must be a multiple of {}",
            wgt::COPY_BUFFER_ALIGNMENT
        ));
    }
    if range.start < within.start || range.end > within.end {
        return Err(invalid!(
            "{name}: the range {range:?} is not within {within:?}"
        ));
    }
    Ok(())
}

/// The rules of a range that a copy, a clear or a write touches.
pub(crate) fn check_copy_range(
    name: &Named<'_>,
    what: &str,
    offset: u64,
    size: u64,
    buffer_size: u64,
) -> Result<()> {
    if !offset.is_multiple_of(wgt::COPY_BUFFER_ALIGNMENT) {
        return Err(invalid!(
            "{name}: the {what} offset {offset} must be a multiple of {}",
            wgt::COPY_BUFFER_ALIGNMENT
        ));
    }
    if !size.is_multiple_of(wgt::COPY_BUFFER_ALIGNMENT) {
        return Err(invalid!(
            "{name}: the {what} size {size} must be a multiple of {}",
            wgt::COPY_BUFFER_ALIGNMENT
        ));
    }
    match offset.checked_add(size) {
        Some(end) if end <= buffer_size => Ok(()),
        _ => Err(invalid!(
            "{name}: the {what} range of {size} bytes at {offset} goes beyond the buffer's {buffer_size} bytes"
        )),
    }
}

/// The HAL usages of a buffer, with those that zero-initialisation and the check of indirect arguments
/// need.
pub(crate) fn hal_usage(desc: &wgt::BufferDescriptor<Option<&str>>) -> wgt::BufferUses {
    use wgt::{BufferUsages as Usage, BufferUses as Uses};

    let pairs = [
        (Usage::MAP_READ, Uses::MAP_READ),
        (Usage::MAP_WRITE, Uses::MAP_WRITE),
        (Usage::COPY_SRC, Uses::COPY_SRC),
        (Usage::COPY_DST, Uses::COPY_DST),
        (Usage::INDEX, Uses::INDEX),
        (Usage::VERTEX, Uses::VERTEX),
        (Usage::UNIFORM, Uses::UNIFORM),
        (
            Usage::STORAGE,
            Uses::STORAGE_READ_ONLY.union(Uses::STORAGE_READ_WRITE),
        ),
        (
            Usage::INDIRECT,
            Uses::INDIRECT.union(Uses::STORAGE_READ_ONLY),
        ),
        (Usage::QUERY_RESOLVE, Uses::QUERY_RESOLVE),
    ];
    let mut uses = Uses::empty();
    for (usage, use_) in pairs {
        uses.set(use_, uses.contains(use_) || desc.usage.contains(usage));
    }
    // An upload buffer that is mapped at once is zeroed by the CPU.
    if !(desc.mapped_at_creation && desc.usage.contains(Usage::MAP_WRITE)) {
        uses |= Uses::COPY_DST;
    }
    uses
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: Named<'static> = Named {
        kind: "buffer",
        label: "b",
    };

    fn check(size: u64, usage: wgt::BufferUsages, mapped_at_creation: bool) -> Result<()> {
        let desc = wgt::BufferDescriptor {
            label: None,
            size,
            usage,
            mapped_at_creation,
        };
        let limits = wgt::Limits {
            max_buffer_size: 1024,
            ..Default::default()
        };
        let downlevel = wgt::DownlevelFlags::all();
        check_descriptor(&NAME, &desc, wgt::Features::empty(), &limits, downlevel)
    }

    #[test]
    fn descriptor_limits_on_both_sides() {
        use wgt::BufferUsages as Usage;
        assert!(check(1024, Usage::STORAGE, false).is_ok());
        let error = check(1025, Usage::STORAGE, false).unwrap_err().to_string();
        assert!(error.contains("\"b\"") && error.contains("1025") && error.contains("1024"));
        assert!(check(4, Usage::empty(), false).is_err());
        assert!(check(4, Usage::MAP_READ | Usage::COPY_DST, false).is_ok());
        assert!(check(4, Usage::MAP_READ | Usage::COPY_SRC, false).is_err());
        assert!(check(4, Usage::MAP_WRITE | Usage::COPY_SRC, false).is_ok());
        assert!(check(4, Usage::MAP_WRITE | Usage::MAP_READ, false).is_err());
        assert!(check(6, Usage::STORAGE, false).is_ok());
        assert!(check(6, Usage::STORAGE, true).is_err());
    }

    #[test]
    fn map_ranges_on_both_sides() {
        assert!(check_map_range(&NAME, &(8..16), &(0..16)).is_ok());
        assert!(check_map_range(&NAME, &(4..16), &(0..16)).is_err());
        assert!(check_map_range(&NAME, &(8..14), &(0..16)).is_err());
        assert!(check_map_range(&NAME, &(8..20), &(0..16)).is_err());
        assert!(check_map_range(&NAME, &(0..8), &(8..16)).is_err());
        #[allow(clippy::reversed_empty_ranges, reason = "that is the point")]
        let reversed = 16..8;
        assert!(check_map_range(&NAME, &reversed, &(0..16)).is_err());
    }

    #[test]
    fn copy_ranges_do_not_overflow() {
        assert!(check_copy_range(&NAME, "source", 4, 12, 16).is_ok());
        assert!(check_copy_range(&NAME, "source", 8, 12, 16).is_err());
        assert!(check_copy_range(&NAME, "source", 2, 4, 16).is_err());
        assert!(check_copy_range(&NAME, "source", 0, 6, 16).is_err());
        assert!(check_copy_range(&NAME, "source", u64::MAX - 3, 8, 16).is_err());
    }
}
