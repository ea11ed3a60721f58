//! Pipeline caches (`wgpu`'s feature `PIPELINE_CACHE`).
//!
//! The data of a cache goes through the program's hands, so a header says which adapter and driver it was
//! made by, and a checksum that it is whole. The driver sees nothing that does not match.

use super::Body;
use crate::{
    device::Device,
    error::{invalid, Named, Result},
};
use std::sync::Arc;
use wgpu_hal as hal;
use wgpu_types as wgt;

/// What a program asks for when it creates a pipeline cache.
#[derive(Clone, Debug)]
pub struct PipelineCacheDescriptor<'a> {
    /// For messages and debuggers.
    pub label: Option<&'a str>,
    /// What [`PipelineCache::get_data`] returned, perhaps in an earlier run.
    pub data: Option<&'a [u8]>,
    /// Whether data that cannot be used gives an empty cache rather than an error.
    pub fallback: bool,
}

/// A cache of compiled pipelines. Made by [`Device::create_pipeline_cache`].
#[derive(Debug)]
pub struct PipelineCache {
    pub(crate) device: Arc<Device>,
    label: String,
    pub(crate) body: Body<Box<dyn hal::DynPipelineCache>>,
}

impl Device {
    /// Creates a pipeline cache. Needs the feature `PIPELINE_CACHE`.
    ///
    /// # Errors
    ///
    /// Reported to the device: a validation error if the feature is not enabled, or if the data cannot be
    /// used and there is to be no fallback; out of memory. The cache is invalid then, and pipelines are
    /// made as if there were none.
    ///
    /// # Safety
    ///
    /// The data, if there is any, was returned by [`PipelineCache::get_data`]. A checksum finds what went
    /// wrong by accident, not what was made to deceive the driver.
    pub unsafe fn create_pipeline_cache(
        self: &Arc<Self>,
        desc: &PipelineCacheDescriptor<'_>,
    ) -> Arc<PipelineCache> {
        let label = desc.label.unwrap_or_default();
        // SAFETY: the caller's promise.
        let body = unsafe { create(self, label, desc) };
        let body = body.map_err(|error| error.within(name_of(label)));
        Arc::new(PipelineCache {
            device: Arc::clone(self),
            label: label.to_owned(),
            body: self
                .report_if_err("Device::create_pipeline_cache", body)
                .unwrap_or(Body::Invalid),
        })
    }
}

/// # Safety
///
/// As [`Device::create_pipeline_cache`].
unsafe fn create(
    device: &Device,
    label: &str,
    desc: &PipelineCacheDescriptor<'_>,
) -> Result<Body<Box<dyn hal::DynPipelineCache>>> {
    device.check_alive()?;
    device.require_features(wgt::Features::PIPELINE_CACHE)?;
    let data = match (desc.data, Maker::of(device)) {
        (None, _) => None,
        // The back end keeps no data.
        (Some(_), None) => None,
        (Some(data), Some(maker)) => match maker.unwrap(data) {
            Ok(data) => Some(data),
            Err(reason) if desc.fallback => {
                log::warn!("the data of {} is not used: {reason}", name_of(label));
                None
            }
            Err(reason) => return Err(invalid!("the data cannot be used: {reason}")),
        },
    };
    let hal_desc = hal::PipelineCacheDescriptor {
        label: device.adapter.hal_label(label),
        data,
    };
    let slot = device.create(&name_of(label), 0, |hal| {
        // SAFETY: the data is what a cache of the same adapter and driver returned, by the caller's
        // promise and by its header.
        unsafe { hal.create_pipeline_cache(&hal_desc) }
            .map_err(|hal::PipelineCacheError::Device(error)| error)
    })?;
    Ok(Body::Live(slot))
}

impl PipelineCache {
    /// The label, empty if there is none.
    pub fn label(&self) -> &str {
        &self.label
    }

    pub(crate) fn name(&self) -> Named<'_> {
        name_of(&self.label)
    }

    /// What the cache holds, to make one like it later. `None` if the back end keeps no data, or if the
    /// cache is invalid or its device destroyed.
    pub fn get_data(&self) -> Option<Vec<u8>> {
        let maker = Maker::of(&self.device)?;
        let cache = self.body.slot()?.pin(&*self.device.lower)?;
        // SAFETY: the cache is pinned.
        let data = unsafe { self.device.hal().pipeline_cache_get_data(&**cache) }?;
        Some(maker.wrap(&data))
    }
}

impl Drop for PipelineCache {
    fn drop(&mut self) {
        self.body.destroy(&self.device.lower);
    }
}

fn name_of(label: &str) -> Named<'_> {
    Named {
        kind: "pipeline cache",
        label,
    }
}

/// Who made a cache: the adapter, and the driver's own key, which changes when the driver does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Maker {
    backend: u8,
    vendor: u32,
    device: u32,
    driver: [u8; 16],
}

/// The header, all numbers little-endian: magic, version, pointer width in bytes, back end, vendor, device,
/// driver, length of the data in bytes, checksum of everything else.
mod header {
    pub const MAGIC: [u8; 8] = *b"FNCPSTPC";
    pub const VERSION: u32 = 1;
    pub const CHECKSUM: usize = 8 + 4 + 1 + 1 + 4 + 4 + 16 + 8;
    pub const LEN: usize = CHECKSUM + 8;
}

impl Maker {
    fn of(device: &Device) -> Option<Self> {
        let info = device.adapter.info();
        Some(Self {
            backend: info.backend as u8,
            vendor: info.vendor,
            device: info.device,
            driver: device.hal().pipeline_cache_validation_key()?,
        })
    }

    /// The header up to the checksum.
    fn head(&self, len: u64) -> Vec<u8> {
        let mut head = Vec::with_capacity(header::LEN);
        head.extend(header::MAGIC);
        head.extend(header::VERSION.to_le_bytes());
        // Drivers have mixed up the caches of their 32-bit and 64-bit versions.
        head.push(size_of::<usize>() as u8);
        head.push(self.backend);
        head.extend(self.vendor.to_le_bytes());
        head.extend(self.device.to_le_bytes());
        head.extend(self.driver);
        head.extend(len.to_le_bytes());
        debug_assert_eq!(head.len(), header::CHECKSUM);
        head
    }

    fn wrap(&self, data: &[u8]) -> Vec<u8> {
        let mut wrapped = self.head(data.len() as u64);
        let sum = checksum(&[&wrapped, data]);
        wrapped.extend(sum.to_le_bytes());
        wrapped.extend(data);
        wrapped
    }

    /// The data in `wrapped`, or why it cannot be used.
    fn unwrap<'a>(&self, wrapped: &'a [u8]) -> Result<&'a [u8], &'static str> {
        if !wrapped.starts_with(&header::MAGIC) {
            return Err("it is no pipeline cache of Fencepost's");
        }
        let Some((head, data)) = wrapped.split_at_checked(header::LEN) else {
            return Err("it ends within its header");
        };
        let (head, sum) = head.split_at(header::CHECKSUM);
        let version = header::MAGIC.len()..header::MAGIC.len() + 4;
        if head[version] != header::VERSION.to_le_bytes() {
            return Err("it was made by another version of Fencepost");
        }
        if sum != checksum(&[head, data]).to_le_bytes() {
            return Err("it is damaged: its checksum is wrong");
        }
        if head != self.head(data.len() as u64) {
            return Err("it was made by another adapter or another version of the driver");
        }
        Ok(data)
    }
}

/// FNV-1a, 64 bits.
fn checksum(parts: &[&[u8]]) -> u64 {
    let bytes = parts.iter().copied().flatten();
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAKER: Maker = Maker {
        backend: 1,
        vendor: 0x1002,
        device: 0x73bf,
        driver: *b"a driver's key..",
    };

    #[test]
    fn what_was_wrapped_is_unwrapped() {
        for data in [&b""[..], b"x", &[0; 1000]] {
            assert_eq!(MAKER.unwrap(&MAKER.wrap(data)), Ok(data));
        }
    }

    #[test]
    fn the_checksum_is_fnv_1a() {
        // The published test vectors of the function.
        assert_eq!(checksum(&[b""]), 0xcbf2_9ce4_8422_2325);
        assert_eq!(checksum(&[b"a"]), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(checksum(&[b"foo", b"bar"]), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn other_makers_are_refused() {
        let wrapped = MAKER.wrap(b"data");
        let others = [
            Maker {
                backend: 2,
                ..MAKER
            },
            Maker { vendor: 1, ..MAKER },
            Maker { device: 1, ..MAKER },
            Maker {
                driver: [0; 16],
                ..MAKER
            },
        ];
        for other in others {
            let reason = other.unwrap(&wrapped).unwrap_err();
            assert!(reason.contains("another adapter"), "{reason}");
        }
    }

    #[test]
    fn damage_is_found() {
        let whole = MAKER.wrap(b"some data of a driver");
        for len in 0..whole.len() {
            assert!(
                MAKER.unwrap(&whole[..len]).is_err(),
                "the first {len} bytes"
            );
        }
        for index in 0..whole.len() {
            for bit in 0..8 {
                let mut damaged = whole.clone();
                damaged[index] ^= 1 << bit;
                assert!(MAKER.unwrap(&damaged).is_err(), "bit {bit} of byte {index}");
            }
        }
        let longer = [&whole[..], &[0]].concat();
        assert!(MAKER.unwrap(&longer).is_err());
    }
}
