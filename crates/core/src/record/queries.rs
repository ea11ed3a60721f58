//! The rules of queries that a command names.

use crate::{
    device::Device,
    error::{invalid, Result},
    resource::QuerySet,
};
use wgpu_types as wgt;

/// The kinds of query that a compute program writes.
#[derive(Clone, Copy, Debug)]
pub(super) enum QueryKind {
    Timestamp,
    PipelineStatistics,
}

/// The rules of a query set that a command uses. Whether it is destroyed is asked at submit.
pub(super) fn check_set(device: &Device, set: &QuerySet) -> Result<()> {
    device.check_same(&set.device, &set.name())?;
    set.check_valid()
}

/// The rules of one query of a set.
pub(super) fn check_query(
    device: &Device,
    set: &QuerySet,
    index: u32,
    kind: QueryKind,
) -> Result<()> {
    check_set(device, set)?;
    let name = set.name();
    let fits = matches!(
        (kind, set.ty),
        (QueryKind::Timestamp, wgt::QueryType::Timestamp)
            | (
                QueryKind::PipelineStatistics,
                wgt::QueryType::PipelineStatistics(_)
            )
    );
    if !fits {
        return Err(invalid!(
            "{name}: a {kind:?} query is needed, but its type is {:?}",
            set.ty
        ));
    }
    if index >= set.count {
        return Err(invalid!(
            "{name}: query {index} is not within its {}",
            set.count
        ));
    }
    Ok(())
}
