//! Buffers and their mappings.

use crate::{core, device::Device};
use std::{
    ops::Range,
    ptr::NonNull,
    sync::{Arc, OnceLock},
};
use wgpu::custom::*;

/// A buffer as `wgpu` sees it.
#[derive(Debug)]
pub(crate) enum Buffer {
    /// One of ours.
    Core(Arc<core::resource::Buffer>),
    /// No buffer. `wgpu` alone can make a [`wgpu::MapRangeError`], and does so for a buffer that is not
    /// mapped even if its backend answers.
    Placeholder,
}

impl Buffer {
    pub fn core(&self) -> Option<&Arc<core::resource::Buffer>> {
        match self {
            Self::Core(buffer) => Some(buffer),
            Self::Placeholder => None,
        }
    }
}

/// The error of a range that is not mapped.
fn not_mapped(device: &Arc<core::Device>) -> wgpu::MapRangeError {
    static ERROR: OnceLock<wgpu::MapRangeError> = OnceLock::new();
    let make = || {
        let device = wgpu::Device::from_custom(Device::placeholder(Arc::clone(device)));
        let buffer = device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: 8,
            usage: wgpu::BufferUsages::MAP_READ,
            mapped_at_creation: false,
        });
        let range = buffer.get_mapped_range(..);
        range.expect_err("wgpu refuses ranges of buffers that were not mapped")
    };
    ERROR.get_or_init(make).clone()
}

impl BufferInterface for Buffer {
    fn map_async(
        &self,
        mode: wgpu::MapMode,
        range: Range<wgpu::BufferAddress>,
        callback: BufferMapCallback,
    ) {
        let Some(buffer) = self.core() else {
            return callback(Err(wgpu::BufferAsyncError));
        };
        let mode = match mode {
            wgpu::MapMode::Read => core::resource::MapMode::Read,
            wgpu::MapMode::Write => core::resource::MapMode::Write,
        };
        let callback = move |outcome: Result<(), core::resource::MapError>| {
            callback(outcome.map_err(|_| wgpu::BufferAsyncError));
        };
        buffer.map_async(mode, range, Box::new(callback));
    }

    fn get_mapped_range(
        &self,
        range: Range<wgpu::BufferAddress>,
    ) -> Result<DispatchBufferMappedRange, wgpu::MapRangeError> {
        let Some(buffer) = self.core() else {
            return Ok(DispatchBufferMappedRange::custom(MappedRange(None)));
        };
        match buffer.mapped_range(range) {
            Ok(range) => Ok(DispatchBufferMappedRange::custom(MappedRange(Some(range)))),
            Err(error) => {
                log::debug!("{error}");
                Err(not_mapped(buffer.device()))
            }
        }
    }

    fn unmap(&self) {
        if let Some(buffer) = self.core() {
            buffer.unmap();
        }
    }

    fn destroy(&self) {
        if let Some(buffer) = self.core() {
            buffer.destroy();
        }
    }
}

/// Mapped bytes, or none.
#[derive(Debug)]
pub(crate) struct MappedRange(Option<core::resource::MappedRange>);

impl MappedRange {
    fn bytes(&self) -> NonNull<[u8]> {
        let (ptr, len) = match &self.0 {
            Some(range) => (range.as_ptr(), range.len()),
            None => (NonNull::dangling(), 0),
        };
        NonNull::slice_from_raw_parts(ptr, len)
    }
}

impl BufferMappedRangeInterface for MappedRange {
    fn len(&self) -> usize {
        self.bytes().len()
    }

    unsafe fn read_slice(&self) -> &[u8] {
        // SAFETY: the bytes are mapped while the range lives; `wgpu` refuses ranges that overlap one that
        // is written.
        unsafe { self.bytes().as_ref() }
    }

    unsafe fn write_slice(&mut self) -> wgpu::WriteOnly<'_, [u8]> {
        // SAFETY: as above, and the range is borrowed mutably.
        unsafe { wgpu::WriteOnly::new(self.bytes()) }
    }
}
