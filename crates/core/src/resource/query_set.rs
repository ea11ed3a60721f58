//! Query sets (specification, `GPUQuerySet`).

use super::Body;
use crate::{
    device::Device,
    error::{invalid, Named, Result},
};
use std::sync::{
    atomic::{AtomicU64, Ordering},
    Arc,
};
use wgpu_hal as hal;
use wgpu_types as wgt;

/// What a program asks for when it creates a query set.
pub type QuerySetDescriptor<'a> = wgt::QuerySetDescriptor<Option<&'a str>>;

/// A set of queries of one kind. Made by [`Device::create_query_set`].
#[derive(Debug)]
pub struct QuerySet {
    pub(crate) device: Arc<Device>,
    label: String,
    pub(crate) ty: wgt::QueryType,
    pub(crate) count: u32,
    pub(crate) body: Body<Box<dyn hal::DynQuerySet>>,
    /// Which queries the submissions so far have written; the others read as zero. Belongs to the queue.
    pub(crate) written: Written,
}

/// A bit for each query of a set. They start at zero.
#[derive(Debug)]
pub(crate) struct Written(Box<[AtomicU64]>);

impl Written {
    fn none_of(count: u32) -> Self {
        let words = count.div_ceil(u64::BITS);
        Self((0..words).map(|_| AtomicU64::new(0)).collect())
    }

    /// Sets or clears a query's bit. Returns whether that changed it.
    pub fn set(&self, index: u32, written: bool) -> bool {
        let word = &self.0[(index / u64::BITS) as usize];
        let bit = 1 << (index % u64::BITS);
        let before = if written {
            word.fetch_or(bit, Ordering::Relaxed)
        } else {
            word.fetch_and(!bit, Ordering::Relaxed)
        };
        (before & bit != 0) != written
    }

    /// Whether a query was written.
    pub fn get(&self, index: u32) -> bool {
        let word = self.0[(index / u64::BITS) as usize].load(Ordering::Relaxed);
        word >> (index % u64::BITS) & 1 != 0
    }
}

impl Device {
    /// Creates a query set (specification, `GPUDevice.createQuerySet`).
    ///
    /// # Errors
    ///
    /// Reported to the device: a validation error that names the rule and the values, or out of memory.
    /// The query set is invalid then.
    pub fn create_query_set(self: &Arc<Self>, desc: &QuerySetDescriptor) -> Arc<QuerySet> {
        let body = create(self, desc);
        let body = self
            .report_if_err("Device::create_query_set", body)
            .unwrap_or(Body::Invalid);
        Arc::new(QuerySet {
            device: Arc::clone(self),
            label: desc.label.unwrap_or_default().into(),
            ty: desc.ty,
            count: desc.count,
            // The count of an invalid query set may be anything, and none of its queries is used.
            written: Written::none_of(desc.count.min(wgt::QUERY_SET_MAX_QUERIES)),
            body,
        })
    }
}

impl QuerySet {
    /// Destroys the query set (specification, `GPUQuerySet.destroy`): its memory comes back at once if it
    /// is idle, when the last submission that uses it completes otherwise. Submitting a use of it is an
    /// error from now on. Doing so twice does nothing.
    pub fn destroy(&self) {
        self.body.destroy(&self.device.lower);
    }

    /// The label, empty if there is none.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// The kind of the queries.
    pub fn ty(&self) -> wgt::QueryType {
        self.ty
    }

    /// The number of queries.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The query set in a message.
    pub(crate) fn name(&self) -> Named<'_> {
        name_of(&self.label)
    }

    /// An error if the creation failed.
    pub(crate) fn check_valid(&self) -> Result<()> {
        if self.body.is_valid() {
            Ok(())
        } else {
            Err(invalid!("{} is invalid", self.name()))
        }
    }

    /// The bytes that the result of one query takes when it is resolved.
    pub(crate) fn result_size(&self) -> u64 {
        result_size(self.ty)
    }
}

impl Drop for QuerySet {
    fn drop(&mut self) {
        self.destroy();
    }
}

fn name_of(label: &str) -> Named<'_> {
    Named {
        kind: "Query set",
        label,
    }
}

/// One number for each result, and a result for each of the statistics asked for.
fn result_size(ty: wgt::QueryType) -> u64 {
    let results = match ty {
        wgt::QueryType::Occlusion | wgt::QueryType::Timestamp => 1,
        wgt::QueryType::PipelineStatistics(statistics) => statistics.bits().count_ones(),
    };
    u64::from(results) * u64::from(wgt::QUERY_SIZE)
}

fn create(device: &Device, desc: &QuerySetDescriptor) -> Result<Body<Box<dyn hal::DynQuerySet>>> {
    device.check_alive()?;
    let label = desc.label.unwrap_or_default();
    let what = name_of(label);
    device
        .require_features(needed_features(desc.ty))
        .and_then(|()| check(desc))
        .map_err(|error| error.within(what))?;
    let hal_desc = wgt::QuerySetDescriptor {
        label: device.adapter.hal_label(label),
        ty: desc.ty,
        count: desc.count,
    };
    let bytes = result_size(desc.ty) * u64::from(desc.count);
    let slot = device.create(&what, bytes, |hal| {
        // SAFETY: the kind is one that the device has, and the count is within WebGPU's limit.
        unsafe { hal.create_query_set(&hal_desc) }
    })?;
    Ok(Body::Live(slot))
}

fn needed_features(ty: wgt::QueryType) -> wgt::Features {
    match ty {
        wgt::QueryType::Occlusion => wgt::Features::empty(),
        wgt::QueryType::Timestamp => wgt::Features::TIMESTAMP_QUERY,
        wgt::QueryType::PipelineStatistics(_) => wgt::Features::PIPELINE_STATISTICS_QUERY,
    }
}

fn check(desc: &QuerySetDescriptor) -> Result<()> {
    let most = wgt::QUERY_SET_MAX_QUERIES;
    if desc.count == 0 || desc.count > most {
        return Err(invalid!("count {} is not within 1 to {most}", desc.count));
    }
    // Vulkan does not allow such a query set.
    if let wgt::QueryType::PipelineStatistics(statistics) = desc.ty {
        if statistics.is_empty() {
            return Err(invalid!("no pipeline statistics are asked for"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn desc(ty: wgt::QueryType, count: u32) -> QuerySetDescriptor<'static> {
        QuerySetDescriptor {
            label: None,
            ty,
            count,
        }
    }

    #[test]
    fn counts_are_limited() {
        let with = |count| check(&desc(wgt::QueryType::Timestamp, count));
        assert!(with(1).is_ok());
        assert!(with(wgt::QUERY_SET_MAX_QUERIES).is_ok());
        for count in [0, wgt::QUERY_SET_MAX_QUERIES + 1, u32::MAX] {
            let message = with(count).unwrap_err().to_string();
            assert!(message.contains(&count.to_string()), "{message}");
        }
    }

    #[test]
    fn statistics_are_named() {
        let with = |statistics| check(&desc(wgt::QueryType::PipelineStatistics(statistics), 1));
        assert!(with(wgt::PipelineStatisticsTypes::COMPUTE_SHADER_INVOCATIONS).is_ok());
        assert!(with(wgt::PipelineStatisticsTypes::empty()).is_err());
    }

    #[test]
    fn kinds_need_their_features() {
        assert!(needed_features(wgt::QueryType::Occlusion).is_empty());
        assert_eq!(
            needed_features(wgt::QueryType::Timestamp),
            wgt::Features::TIMESTAMP_QUERY
        );
        let statistics = wgt::QueryType::PipelineStatistics(wgt::PipelineStatisticsTypes::all());
        assert_eq!(
            needed_features(statistics),
            wgt::Features::PIPELINE_STATISTICS_QUERY
        );
    }

    #[test]
    fn results_take_eight_bytes_each() {
        assert_eq!(result_size(wgt::QueryType::Timestamp), 8);
        let two = wgt::PipelineStatisticsTypes::VERTEX_SHADER_INVOCATIONS
            | wgt::PipelineStatisticsTypes::COMPUTE_SHADER_INVOCATIONS;
        assert_eq!(result_size(wgt::QueryType::PipelineStatistics(two)), 16);
    }

    #[test]
    fn written_queries_are_remembered_one_by_one() {
        let written = Written::none_of(65);
        for index in [0, 63, 64] {
            assert!(!written.get(index));
            assert!(written.set(index, true));
            assert!(written.get(index));
            assert!(!written.set(index, true), "it was written before");
        }
        assert!(!written.get(1) && !written.get(62));
        assert!(written.set(63, false));
        assert!(!written.get(63));
        assert!(written.get(0) && written.get(64));
        assert!(!written.set(63, false));
    }
}
