//! Memory that the CPU fills and the GPU copies from.

use crate::{
    device::Device,
    error::{Error, Result},
    reclaim::{BufferRaw, Lower},
};
use fencepost_lifetime::{Pin, Slot};
use std::{
    ops::Deref,
    ptr::NonNull,
    sync::{atomic::Ordering, Arc},
};
use wgpu_hal as hal;
use wgpu_types as wgt;

/// A mapped staging buffer, not yet handed to the queue. Dropping it frees the memory at once, since the
/// GPU has never seen it.
#[derive(Debug)]
pub struct StagingBuffer {
    slot: Arc<Slot<BufferRaw>>,
    /// Keeps the memory while the program writes to it, also if the device is destroyed meanwhile.
    pin: Option<Pin<BufferRaw, Holder>>,
    holder: Holder,
    memory: Memory,
    finished: bool,
}

/// Mapped memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub ptr: NonNull<u8>,
    pub size: usize,
    pub coherent: bool,
}

// SAFETY: a pointer to memory that belongs to a HAL buffer; who may touch the bytes is decided by the
// objects that hold it.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Mapped memory of no size.
    pub const EMPTY: Self = Self {
        ptr: NonNull::dangling(),
        size: 0,
        coherent: true,
    };

    /// Maps a range of a buffer, which may be empty.
    ///
    /// # Safety
    ///
    /// The buffer is alive, mappable and not mapped, the range is within it, and the GPU does not use it.
    pub unsafe fn map(
        device: &dyn hal::DynDevice,
        raw: &BufferRaw,
        range: hal::MemoryRange,
    ) -> Result<Self, hal::DeviceError> {
        let size = (range.end - range.start) as usize;
        if size == 0 {
            return Ok(Self::EMPTY);
        }
        // SAFETY: the caller's promise; the range is not empty.
        let mapping = unsafe { device.map_buffer(&*raw.hal, range) }?;
        raw.mapped.store(true, Ordering::Release);
        Ok(Self {
            ptr: mapping.ptr,
            size,
            coherent: mapping.is_coherent,
        })
    }

    /// Ends the mapping of a buffer if it is mapped. What the CPU wrote to `written` is flushed first.
    ///
    /// # Safety
    ///
    /// The buffer is alive, `self` is its mapping, and nobody uses the pointer any more.
    pub unsafe fn unmap(
        self,
        device: &dyn hal::DynDevice,
        raw: &BufferRaw,
        written: Option<hal::MemoryRange>,
    ) {
        if !raw.mapped.swap(false, Ordering::AcqRel) {
            return;
        }
        // SAFETY: the caller's promise.
        unsafe {
            if let Some(range) = written.filter(|_| !self.coherent) {
                device.flush_mapped_ranges(&*raw.hal, &[range]);
            }
            device.unmap_buffer(&*raw.hal);
        }
    }

    /// Zeroes a part.
    ///
    /// # Safety
    ///
    /// The memory is mapped and nobody else touches the part.
    pub unsafe fn zero(&self, offset: usize, size: usize) {
        assert!(offset.checked_add(size).is_some_and(|end| end <= self.size));
        // SAFETY: within the mapping, by the assertion; nobody else touches it, by the caller's promise.
        unsafe { self.ptr.as_ptr().add(offset).write_bytes(0, size) };
    }
}

/// A handle of a device that a [`Pin`](fencepost_lifetime::Pin) retires through.
#[derive(Clone, Debug)]
pub(crate) struct Holder(pub Arc<Device>);

impl Deref for Holder {
    type Target = Lower;

    fn deref(&self) -> &Lower {
        &self.0.lower
    }
}

impl StagingBuffer {
    /// Makes a mapped buffer of at least `size` bytes, which may hold anything.
    pub(crate) fn new(device: &Arc<Device>, size: u64) -> Result<Self> {
        let limit = device.adapter.limits().max_buffer_size;
        let aligned = size
            .max(1)
            .checked_next_multiple_of(wgt::COPY_BUFFER_ALIGNMENT)
            .filter(|aligned| *aligned <= limit)
            .ok_or_else(|| {
                Error::out_of_memory(format!(
                    "staging memory of {size} bytes is more than the adapter's max_buffer_size {limit}"
                ))
            })?;
        let desc = hal::BufferDescriptor {
            label: Some("staging"),
            size: aligned,
            usage: wgt::BufferUses::MAP_WRITE | wgt::BufferUses::COPY_SRC,
            memory_flags: hal::MemoryFlags::TRANSIENT | hal::MemoryFlags::PREFER_COHERENT,
        };
        let what = format_args!("staging memory of {size} bytes");
        let slot = device.create(&what, aligned, |hal| {
            // SAFETY: the descriptor is well-formed.
            unsafe { hal.create_buffer(&desc) }.map(BufferRaw::new)
        })?;
        let holder = Holder(Arc::clone(device));
        let mut this = Self {
            pin: slot.pin(holder.clone()),
            slot,
            holder,
            memory: Memory::EMPTY,
            finished: false,
        };
        let Some(pin) = &this.pin else {
            return Err(Error::device_lost());
        };
        // SAFETY: the buffer is new. Should this fail, dropping `this` frees it.
        this.memory = device.lower.under_pressure(&what, || unsafe {
            Memory::map(device.hal(), pin, 0..aligned)
        })?;
        this.memory.size = size as usize;
        Ok(this)
    }

    /// The size in bytes.
    pub fn size(&self) -> usize {
        self.memory.size
    }

    /// The device.
    pub(crate) fn device(&self) -> &Device {
        &self.holder.0
    }

    /// Where the memory begins. It stays mapped while this object lives.
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.memory.ptr
    }

    /// The memory.
    pub(crate) fn memory(&self) -> Memory {
        self.memory
    }

    /// The slot that holds the memory.
    pub(crate) fn slot(&self) -> &Arc<Slot<BufferRaw>> {
        &self.slot
    }

    /// Fills the memory from its beginning.
    pub(crate) fn write(&mut self, data: &[u8]) {
        self.write_at(0, data);
    }

    /// Fills a part of the memory.
    pub(crate) fn write_at(&mut self, offset: usize, data: &[u8]) {
        let end = offset.checked_add(data.len());
        assert!(end.is_some_and(|end| end <= self.memory.size));
        // SAFETY: within the mapping, by the assertion, and borrowed mutably.
        unsafe {
            self.memory
                .ptr
                .as_ptr()
                .add(offset)
                .copy_from_nonoverlapping(data.as_ptr(), data.len());
        }
    }

    /// From now on only a device that is not destroyed keeps the memory, or whoever pins the slot.
    pub(crate) fn unpin(&mut self) {
        self.pin = None;
    }

    /// Ends the mapping and hands the memory over: the receiver destroys the slot.
    pub(crate) fn finish(mut self) -> Arc<Slot<BufferRaw>> {
        self.finished = true;
        Arc::clone(&self.slot)
    }
}

impl Drop for StagingBuffer {
    fn drop(&mut self) {
        let lower = &*self.holder;
        if !self.finished {
            return self.slot.destroy(lower);
        }
        let written = Some(0..self.memory.size as u64);
        // What was destroyed is unmapped when it is freed.
        if let Some(pin) = self.slot.pin(lower) {
            // SAFETY: this object is the only one that hands out the pointer, and it is going.
            unsafe { self.memory.unmap(&*lower.device, &pin, written) };
        }
    }
}
