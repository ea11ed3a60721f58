//! The lower half of a device: what is left when every API object is gone.
//!
//! It owns the HAL device, the HAL queue, the fence, everything in flight and everything retired. The
//! reclaim thread holds the lower half and nothing else, so the last handle of an API object never dies
//! on that thread.

use super::{Payload, Raw};
use crate::{
    device::{Bell, LostReason},
    instance::Adapter,
    report::MemoryReport,
};
use fencepost_lifetime::{Disposal, RetireQueue, Serial, Slot, Submitter};
use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashMap;
use std::{
    collections::VecDeque,
    fmt,
    mem::ManuallyDrop,
    sync::{
        atomic::{AtomicBool, AtomicU64, Ordering},
        Arc, OnceLock,
    },
};
use wgpu_hal as hal;
use wgpu_types as wgt;

/// One submission that the GPU has not completed, or whose command buffer was not yet reset.
pub(crate) struct InFlight {
    pub serial: Serial,
    pub encoder: Box<dyn hal::DynCommandEncoder>,
    pub commands: Vec<Box<dyn hal::DynCommandBuffer>>,
    /// Whether the encoder must not be used again: on Vulkan a pool keeps temporary views through a reset.
    pub spent: bool,
}

/// See the [module documentation](self).
pub(crate) struct Lower {
    pub device: Box<dyn hal::DynDevice>,
    pub queue: Box<dyn hal::DynQueue>,
    fence: ManuallyDrop<Box<dyn hal::DynFence>>,
    pub retired: Arc<RetireQueue<Payload>>,
    pub in_flight: Mutex<VecDeque<InFlight>>,
    pub encoders: Mutex<Vec<Box<dyn hal::DynCommandEncoder>>>,
    /// Every payload that is not freed, by its key, with its size in bytes.
    registry: Mutex<FxHashMap<usize, (Payload, u64)>>,
    /// Held, shared, by whoever frees what it has taken out of the retire queue: who gives up on memory waits
    /// for it.
    pub(super) freeing: RwLock<()>,
    /// The bytes of what is in the registry or about to be.
    pub bytes: AtomicU64,
    /// The most that `bytes` may be.
    pub budget: Option<u64>,
    /// The highest serial that was given to the HAL's submit.
    pub issued: AtomicU64,
    /// Why the device is lost, if it is: the first reason stays.
    pub loss: OnceLock<LostReason>,
    /// Whether the driver lost it: the GPU works at nothing any more.
    pub lost: AtomicBool,
    /// Rung when the watermark has moved, for those who wait to run callbacks.
    pub bell: Bell,
    /// Whether reading the fence is a cheap call. On Metal and GL it scans or locks.
    pub cheap_fence: bool,
    /// Whether what a submission did is visible to the next one without a barrier. It is not on GL.
    pub submissions_order: bool,
    /// Last: the HAL's adapter and instance must outlive its device.
    _adapter: Arc<Adapter>,
}

impl fmt::Debug for Lower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lower")
            .field("published", &self.retired.published())
            .field("reclaimed", &self.retired.reclaimed())
            .field("lost", &self.lost)
            .finish_non_exhaustive()
    }
}

impl Lower {
    pub fn new(
        open: hal::DynOpenDevice,
        adapter: &Arc<Adapter>,
        budget: Option<u64>,
    ) -> Result<(Arc<Self>, Submitter<Payload>), hal::DeviceError> {
        let backend = adapter.info.backend;
        // SAFETY: the device was just opened.
        let fence = unsafe { open.device.create_fence() }?;
        let (retired, submitter) = RetireQueue::new();
        let lower = Self {
            device: open.device,
            queue: open.queue,
            fence: ManuallyDrop::new(fence),
            retired,
            in_flight: Mutex::default(),
            encoders: Mutex::default(),
            registry: Mutex::default(),
            freeing: RwLock::default(),
            bytes: AtomicU64::new(0),
            budget,
            issued: AtomicU64::new(0),
            loss: OnceLock::new(),
            lost: AtomicBool::new(false),
            bell: Bell::default(),
            cheap_fence: !matches!(backend, wgt::Backend::Metal | wgt::Backend::Gl),
            submissions_order: backend != wgt::Backend::Gl,
            _adapter: Arc::clone(adapter),
        };
        Ok((Arc::new(lower), submitter))
    }

    pub fn fence(&self) -> &dyn hal::DynFence {
        &**self.fence
    }

    /// Takes a new HAL object into the registry, whose size in bytes is already counted.
    pub(super) fn adopt<T: Raw>(&self, raw: T, bytes: u64) -> Arc<Slot<T>> {
        let slot = Arc::new(Slot::new(raw));
        let payload = T::payload(Arc::clone(&slot));
        self.registry.lock().insert(payload.key(), (payload, bytes));
        slot
    }

    /// Takes a payload that was let go of: frees it if the GPU is done with it, files it otherwise.
    pub fn retire(&self, payload: Payload) {
        // Below the watermark it is idle, and no later submission can have seen it present.
        let is_idle = || payload.last_use().get() <= self.retired.reclaimed();
        if self.cheap_fence {
            self.reclaim();
        }
        if is_idle() {
            return self.free(payload);
        }
        if let Disposal::Free(payload) = self.retired.retire(payload.last_use(), payload.clone()) {
            self.free(payload);
        }
    }

    /// Frees payloads that the retire queue has handed back.
    pub fn free(&self, payload: Payload) {
        let entry = self.registry.lock().remove(&payload.key());
        debug_assert!(entry.is_some(), "a {} was freed twice", payload.kind());
        // SAFETY: only the retire queue's answers and the end of the device come here.
        unsafe { payload.free(self) };
        if let Some((_, bytes)) = entry {
            self.bytes.fetch_sub(bytes, Ordering::AcqRel);
        }
    }

    /// Every payload that is not freed.
    pub fn alive(&self) -> Vec<Payload> {
        let registry = self.registry.lock();
        let payloads = registry.values().map(|(payload, _)| payload.clone());
        payloads.collect()
    }

    /// What exists now. Takes time in proportion to that.
    pub fn report_memory(&self) -> MemoryReport {
        let registry = self.registry.lock();
        let mut report = MemoryReport {
            budget: self.budget,
            ..Default::default()
        };
        for (payload, bytes) in registry.values() {
            report.objects += 1;
            report.bytes += bytes;
            if !payload.is_present() {
                report.retired_objects += 1;
                report.retired_bytes += bytes;
            }
        }
        drop(registry);
        report.submissions_in_flight = self.retired.in_flight() as u64;
        report
    }

    /// A closed encoder, from the pool or new.
    pub fn encoder(&self) -> Result<Box<dyn hal::DynCommandEncoder>, hal::DeviceError> {
        if let Some(encoder) = self.encoders.lock().pop() {
            return Ok(encoder);
        }
        let desc = hal::CommandEncoderDescriptor {
            label: None,
            queue: &*self.queue,
        };
        // SAFETY: the queue belongs to the device.
        unsafe { self.device.create_command_encoder(&desc) }
    }

    /// Keeps a closed encoder for the next submission.
    pub fn recycle(&self, encoder: Box<dyn hal::DynCommandEncoder>) {
        /// More are only needed by a burst of submissions.
        const POOLED: usize = 8;
        let mut encoders = self.encoders.lock();
        if encoders.len() < POOLED {
            encoders.push(encoder);
        }
    }

    pub fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }
}

impl Drop for Lower {
    /// The end of the device: waits for the GPU, then frees everything (I2).
    fn drop(&mut self) {
        self.rest();
        // Every API object held this half alive, so nothing is left that has not been let go of.
        for payload in self.alive() {
            log::error!("a {} outlived its device", payload.kind());
            payload.destroy(self);
        }
        self.encoders.get_mut().clear();
        // SAFETY: every submission that signals the fence has completed, and the field is not used again.
        unsafe {
            self.device
                .destroy_fence(ManuallyDrop::take(&mut self.fence))
        };
    }
}
