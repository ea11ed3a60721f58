//! Buffer mapping (specification, section 5.2).
//!
//! A buffer is unmapped, waits to be mapped, or is mapped; whatever is not unmapped cannot be submitted.
//! A mapped range that the program holds pins the memory that it shows, so that its bytes stay its own
//! whatever is destroyed or lost meanwhile: the one exception to I2 and I3.

use super::{
    staging::{Holder, Memory},
    Buffer, StagingBuffer,
};
use crate::{
    device::Waiting,
    error::{invalid, Result},
    reclaim::BufferRaw,
    validate::buffer::check_map_range,
};
use fencepost_lifetime::{mutation::planted, Pin, Serial, Slot};
use std::{
    fmt,
    ops::Range,
    panic::{self, AssertUnwindSafe},
    ptr::NonNull,
    sync::{atomic::Ordering, Arc},
};

/// What a mapping is for (specification, `GPUMapMode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapMode {
    /// The CPU reads.
    Read,
    /// The CPU writes. The range shows the buffer's contents all the same.
    Write,
}

/// The mapping was refused or ended before it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the buffer could not be mapped, or was unmapped, destroyed or lost before it was")]
pub struct MapError;

/// Called exactly once with the outcome of [`Buffer::map_async`].
pub type MapCallback = Box<dyn FnOnce(Result<(), MapError>) + Send>;

/// The state of a buffer's mapping.
#[derive(Default)]
pub(crate) enum Mapping {
    #[default]
    Unmapped,
    /// Waits for the GPU, and then for someone to run callbacks.
    Pending {
        /// What tells this mapping from an earlier one of the same buffer.
        ticket: u64,
        mode: MapMode,
        range: Range<u64>,
        callback: MapCallback,
    },
    /// The buffer's own memory is mapped.
    Mapped {
        mode: MapMode,
        range: Range<u64>,
        memory: Memory,
    },
    /// Mapped at creation: staging memory that becomes the contents when it is unmapped.
    Staged(Box<StagingBuffer>),
    /// The staging memory is on its way to the queue.
    Leaving,
}

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unmapped => "Unmapped",
            Self::Pending { .. } => "Pending",
            Self::Mapped { .. } => "Mapped",
            Self::Staged(_) => "Staged",
            Self::Leaving => "Leaving",
        })
    }
}

/// Mapped bytes. They stay while this object lives.
#[derive(Debug)]
pub struct MappedRange {
    _pin: Pin<BufferRaw, Holder>,
    ptr: NonNull<u8>,
    len: usize,
}

// SAFETY: the bytes belong to the range, as a `Box<[u8]>`'s would; that ranges of one mapping do not
// overlap unless they only read is checked by the caller of `Buffer::mapped_range`.
unsafe impl Send for MappedRange {}
// SAFETY: as above.
unsafe impl Sync for MappedRange {}

impl MappedRange {
    /// The address of the first byte; dangling if there is none.
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.ptr
    }

    /// The size in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the range is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Buffer {
    /// Maps `range` once the GPU is done with the buffer, and calls `callback` then (specification,
    /// `mapAsync`). What breaks a rule is reported, and the callback gets an error at once.
    ///
    /// Writes to this buffer that the queue has not submitted are submitted first.
    pub fn map_async(self: &Arc<Self>, mode: MapMode, range: Range<u64>, callback: MapCallback) {
        if let Err((callback, error)) = self.start_map(mode, range, callback) {
            // The handler of the error may panic, and the callback destroy the device.
            let report = || self.device.report("Buffer::map_async", error);
            let reported = panic::catch_unwind(AssertUnwindSafe(report));
            callback(Err(MapError));
            if let Err(payload) = reported {
                panic::resume_unwind(payload);
            }
        }
    }

    fn start_map(
        self: &Arc<Self>,
        mode: MapMode,
        range: Range<u64>,
        callback: MapCallback,
    ) -> Result<(), (MapCallback, crate::Error)> {
        if let Err(error) = self.check_map(mode, &range) {
            return Err((callback, error));
        }
        // Under the queue's lock no submission is open, so the stamp is that of a submission that was
        // accepted, and the next one finds the buffer unavailable.
        let queue = loop {
            let queue = self.device.queue.lock();
            if self.pending_writes.load(Ordering::Acquire) == 0 {
                break queue;
            }
            drop(queue);
            // A destroyed device has forgotten its writes, but not how many.
            if let Err(error) = self
                .device
                .check_alive()
                .and_then(|()| self.device.flush_writes())
            {
                return Err((callback, error.within(self.name())));
            }
        };
        let mut mapping = self.mapping.lock();
        let state = match *mapping {
            Mapping::Unmapped => None,
            Mapping::Pending { .. } => Some("waits to be mapped"),
            Mapping::Mapped { .. } | Mapping::Staged(_) | Mapping::Leaving => Some("is mapped"),
        };
        if let Some(state) = state {
            return Err((callback, invalid!("{} already {state}", self.name())));
        }
        self.available.store(false, Ordering::Release);
        let after = match self.body.slot() {
            Some(_) if planted("a mapping that does not wait for the GPU") => Serial::NEVER,
            Some(slot) => slot.last_use().get(),
            None => Serial::NEVER,
        };
        let ticket = self.device.callbacks.ticket();
        *mapping = Mapping::Pending {
            ticket,
            mode,
            range,
            callback,
        };
        drop(mapping);
        drop(queue);
        self.device
            .wait_for(after, Waiting::Map(Arc::downgrade(self), ticket));
        Ok(())
    }

    fn check_map(&self, mode: MapMode, range: &Range<u64>) -> Result<()> {
        self.device.check_alive()?;
        let name = self.name();
        if !self.body.is_valid() {
            return Err(invalid!("{name} is invalid"));
        }
        check_map_range(&name, range, &(0..self.size))?;
        let needed = match mode {
            MapMode::Read => wgpu_types::BufferUsages::MAP_READ,
            MapMode::Write => wgpu_types::BufferUsages::MAP_WRITE,
        };
        if !self.usage.contains(needed) {
            return Err(invalid!(
                "{name}: mapping needs the usage {needed:?}, but the buffer has {:?}",
                self.usage
            ));
        }
        if !self.body.is_present() {
            return Err(invalid!("{name} is destroyed"));
        }
        Ok(())
    }

    /// Ends the wait of the pending mapping with this ticket, whose submission has completed: maps, and
    /// returns the callback to be called with the outcome. `None` if that mapping was ended before.
    pub(crate) fn resolve_map(&self, wanted: u64) -> Option<(MapCallback, Result<(), MapError>)> {
        let mut mapping = self.mapping.lock();
        if !matches!(*mapping, Mapping::Pending { ticket, .. } if ticket == wanted) {
            return None;
        }
        let Mapping::Pending {
            mode,
            range,
            callback,
            ..
        } = std::mem::take(&mut *mapping)
        else {
            unreachable!("it was pending a line ago, under the same lock")
        };
        let mapped = self.map_now(mode, &range);
        let outcome = match mapped {
            Some(memory) => {
                *mapping = Mapping::Mapped {
                    mode,
                    range,
                    memory,
                };
                Ok(())
            }
            None => {
                self.available.store(true, Ordering::Release);
                Err(MapError)
            }
        };
        Some((callback, outcome))
    }

    /// Maps and makes the contents defined. `None` if the buffer is destroyed or the driver fails.
    fn map_now(&self, mode: MapMode, range: &Range<u64>) -> Option<Memory> {
        self.device.check_alive().ok()?;
        let raw = self.body.slot()?.pin(&*self.device.lower)?;
        let hal = self.device.hal();
        // SAFETY: the buffer is pinned, unmapped by its state, and its last submission has completed.
        let mapped = unsafe { Memory::map(hal, &raw, range.clone()) };
        let memory = mapped
            .map_err(|error| self.device.lower.error(error))
            .inspect_err(|error| log::error!("{} could not be mapped: {error}", self.name()))
            .ok()?;
        if mode == MapMode::Read && !memory.coherent {
            // SAFETY: the range was just mapped.
            unsafe { hal.invalidate_mapped_ranges(&*raw.hal, std::slice::from_ref(range)) };
        }
        let holes = self.init.fill(range);
        for hole in &holes {
            let size = (hole.end - hole.start) as usize;
            // SAFETY: within the mapping; no range of it was handed out yet.
            unsafe { memory.zero((hole.start - range.start) as usize, size) };
        }
        if !holes.is_empty() && !memory.coherent {
            // SAFETY: the holes are within the mapped range.
            unsafe { hal.flush_mapped_ranges(&*raw.hal, &holes) };
        }
        Some(memory)
    }

    /// Mapped bytes of a mapped buffer (specification, `getMappedRange`).
    ///
    /// The caller must see to it that ranges which live at the same time overlap only if all of them are
    /// read from.
    ///
    /// # Errors
    ///
    /// If the buffer is not mapped or destroyed, or the range is not aligned or not within the mapping.
    pub fn mapped_range(&self, range: Range<u64>) -> Result<MappedRange> {
        let name = self.name();
        let mapping = self.mapping.lock();
        let (slot, within, memory): (&Arc<Slot<BufferRaw>>, _, _) = match &*mapping {
            Mapping::Mapped { range, memory, .. } => {
                let slot = self.body.slot().expect("only a live buffer is mapped");
                (slot, range.clone(), *memory)
            }
            Mapping::Staged(staging) => (staging.slot(), 0..self.size, staging.memory()),
            Mapping::Unmapped | Mapping::Pending { .. } | Mapping::Leaving => {
                return Err(invalid!("{name} is not mapped"))
            }
        };
        check_map_range(&name, &range, &within)?;
        if !self.body.is_present() {
            return Err(invalid!("{name} is destroyed"));
        }
        let Some(pin) = slot.pin(Holder(Arc::clone(&self.device))) else {
            return Err(invalid!("{name} is destroyed"));
        };
        let offset = (range.start - within.start) as usize;
        Ok(MappedRange {
            _pin: pin,
            // SAFETY: the range is within the mapping, so the offset is within the memory (or zero).
            ptr: unsafe { memory.ptr.add(offset) },
            len: (range.end - range.start) as usize,
        })
    }

    /// Ends the mapping, or the wait for it, whose callback then gets an error (specification, `unmap`).
    /// Does nothing to a buffer that is not mapped.
    ///
    /// The caller must see to it that no [`MappedRange`] is used afterwards.
    pub fn unmap(self: &Arc<Self>) {
        let mut mapping = self.mapping.lock();
        match std::mem::take(&mut *mapping) {
            Mapping::Unmapped => {}
            Mapping::Leaving => *mapping = Mapping::Leaving,
            Mapping::Pending { callback, .. } => {
                // Under the lock: whoever maps next must find the buffer unmapped as a whole.
                self.available.store(true, Ordering::Release);
                drop(mapping);
                callback(Err(MapError));
            }
            Mapping::Mapped {
                mode,
                range,
                memory,
            } => {
                let written = (mode == MapMode::Write).then_some(range);
                self.unmap_memory(memory, written);
                self.available.store(true, Ordering::Release);
            }
            Mapping::Staged(staging) => {
                // The contents are on their way before the buffer can be submitted or mapped again.
                *mapping = Mapping::Leaving;
                drop(mapping);
                let written = self.device.write_staged(self, 0, *staging, || {
                    let mut mapping = self.mapping.lock();
                    if matches!(*mapping, Mapping::Leaving) {
                        *mapping = Mapping::Unmapped;
                    }
                    self.available.store(true, Ordering::Release);
                    Ok(())
                });
                self.device.report_if_err("Buffer::unmap", written);
            }
        }
    }

    fn unmap_memory(&self, memory: Memory, written: Option<Range<u64>>) {
        if memory.size == 0 {
            return;
        }
        // A destroyed buffer is unmapped when its memory is freed.
        if let Some(raw) = self
            .body
            .slot()
            .and_then(|slot| slot.pin(&*self.device.lower))
        {
            // SAFETY: the buffer is pinned and this is its mapping; the caller of `unmap` promises that
            // the pointer is not used again.
            unsafe { memory.unmap(self.device.hal(), &raw, written) };
        }
    }

    /// Ends the mapping of a buffer that is being destroyed. Its memory is unmapped when it is freed.
    pub(super) fn abandon_map(&self) {
        // Who starts a mapping after this look finds out when it is resolved.
        if self.available.load(Ordering::Acquire) {
            return;
        }
        let before = std::mem::take(&mut *self.mapping.lock());
        if planted("a destroyed buffer that forgets its callback") {
            return;
        }
        if let Mapping::Pending { callback, .. } = before {
            callback(Err(MapError));
        }
    }
}
