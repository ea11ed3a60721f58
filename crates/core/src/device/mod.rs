//! A device: the upper half, which API objects hold, on top of a lower half (`crate::reclaim`),
//! which frees.
//!
//! Every object that is made from a device holds it, so the device ends when the last of them is gone:
//! the threads are stopped, the GPU is waited for, callbacks that still wait are resolved, and everything
//! is freed. The order in which a program drops its handles does not matter.

mod bell;
mod callbacks;
mod errors;
mod invalid;
mod options;

use crate::{
    error::{Error, ErrorKind, Named, Result},
    instance::Adapter,
    reclaim::{self, BufferRaw, Lower, Raw},
    report::MemoryReport,
    resource::BindGroupLayoutCache,
    submit::QueueState,
};
use fencepost_lifetime::{Serial, Slot};
use parking_lot::Mutex;
use std::{
    fmt,
    panic::{self, AssertUnwindSafe},
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc,
    },
    thread::{self, JoinHandle},
};
use wgpu_hal as hal;
use wgpu_types as wgt;

pub(crate) use bell::Bell;
pub(crate) use callbacks::{CallbackQueue, Waiting};
pub use callbacks::{LostCallback, LostReason, WorkDoneCallback};
pub(crate) use errors::ErrorSink;
pub use errors::UncapturedHandler;
pub use options::{Callbacks, Options, Reclaim};

/// A device with its queue (specification, `GPUDevice` and `GPUQueue`). Made by
/// [`Adapter::request_device`].
#[derive(Debug)]
pub struct Device {
    pub(crate) lower: Arc<Lower>,
    pub(crate) queue: Mutex<QueueState>,
    pub(crate) layouts: BindGroupLayoutCache,
    /// Zeros to initialise textures with. Zeroed by the first submission that uses it.
    pub(crate) zeros: Arc<Slot<BufferRaw>>,
    pub(crate) features: wgt::Features,
    pub(crate) limits: wgt::Limits,
    pub(crate) ordered_buffer_uses: wgt::BufferUses,
    pub(crate) ordered_texture_uses: wgt::TextureUses,
    pub(crate) options: Options,
    pub(crate) callbacks: Arc<CallbackQueue>,
    errors: ErrorSink,
    destroyed: AtomicBool,
    threads: Mutex<Vec<JoinHandle<()>>>,
    pub(crate) adapter: Arc<Adapter>,
}

/// How often a creation that runs out of memory submits the writes that wait: other threads may write on.
const MOST_FLUSHES: usize = 64;

/// The size of [`Device::zeros`] in bytes.
pub(crate) const ZEROS_SIZE: u64 = 512 << 10;

impl Device {
    pub(crate) fn new(
        adapter: &Arc<Adapter>,
        open: hal::DynOpenDevice,
        features: wgt::Features,
        limits: wgt::Limits,
        options: Options,
    ) -> Result<Arc<Self>, hal::DeviceError> {
        let (lower, submitter) = Lower::new(open, adapter, options.memory_budget)?;
        let desc = hal::BufferDescriptor {
            label: Some("zeros"),
            size: ZEROS_SIZE,
            usage: wgt::BufferUses::COPY_SRC | wgt::BufferUses::COPY_DST,
            memory_flags: hal::MemoryFlags::empty(),
        };
        let zeros = lower.try_create(ZEROS_SIZE, |hal| {
            // SAFETY: the descriptor is well-formed.
            unsafe { hal.create_buffer(&desc) }.map(BufferRaw::new)
        })?;
        let device = Arc::new(Self {
            queue: Mutex::new(QueueState::new(submitter)),
            layouts: BindGroupLayoutCache::default(),
            zeros,
            features,
            limits,
            ordered_buffer_uses: adapter.raw.get_ordered_buffer_usages(),
            ordered_texture_uses: adapter.raw.get_ordered_texture_usages(),
            options,
            callbacks: Arc::default(),
            errors: ErrorSink::default(),
            destroyed: AtomicBool::new(false),
            threads: Mutex::default(),
            adapter: Arc::clone(adapter),
            lower,
        });
        let prompt = options.callbacks == Callbacks::Prompt;
        if prompt || options.reclaim == Reclaim::Thread {
            let waiting = if prompt && adapter.info.backend != wgt::Backend::Gl {
                reclaim::thread::Waiting::Blocking
            } else {
                reclaim::thread::Waiting::Looking
            };
            device.start(reclaim::thread::spawn(Arc::clone(&device.lower), waiting))?;
        }
        if prompt {
            device.start(callbacks::spawn(&device))?;
        }
        Ok(device)
    }

    fn start(&self, spawned: std::io::Result<JoinHandle<()>>) -> Result<(), hal::DeviceError> {
        match spawned {
            Ok(thread) => {
                self.threads.lock().push(thread);
                Ok(())
            }
            Err(error) => {
                log::error!("a thread of the device could not be started: {error}");
                Err(hal::DeviceError::OutOfMemory)
            }
        }
    }

    /// The features that the program asked for.
    pub fn features(&self) -> wgt::Features {
        self.features
    }

    /// The limits that the program asked for.
    pub fn limits(&self) -> &wgt::Limits {
        &self.limits
    }

    /// The adapter that the device was made from.
    pub fn adapter(&self) -> &Arc<Adapter> {
        &self.adapter
    }

    /// What Fencepost itself knows of the device's memory. Takes a reclaim step first.
    pub fn memory_report(&self) -> MemoryReport {
        self.lower.settle();
        self.lower.report_memory()
    }

    /// The HAL's own counters. Back ends that do not count read as zero.
    pub fn get_internal_counters(&self) -> wgt::InternalCounters {
        wgt::InternalCounters {
            core: wgt::CoreCounters::default(),
            hal: self.lower.device.get_internal_counters(),
        }
    }

    /// What the allocator of the back end holds; `None` where the back end has none of its own.
    pub fn generate_allocator_report(&self) -> Option<wgt::AllocatorReport> {
        self.lower.device.generate_allocator_report()
    }

    /// Starts a capture of a graphics debugger, if one is attached.
    ///
    /// # Safety
    ///
    /// As [`hal::Device::start_graphics_debugger_capture`].
    pub unsafe fn start_graphics_debugger_capture(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.lower.device.start_graphics_debugger_capture() };
    }

    /// Stops the capture.
    ///
    /// # Safety
    ///
    /// As [`hal::Device::stop_graphics_debugger_capture`].
    pub unsafe fn stop_graphics_debugger_capture(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.lower.device.stop_graphics_debugger_capture() };
    }

    // Errors.

    /// Pushes an error scope onto the calling thread's stack and returns its index there.
    pub fn push_error_scope(&self, filter: ErrorKind) -> u32 {
        self.errors.push(filter)
    }

    /// Pops the scope with the given index and returns the first error that it caught.
    pub fn pop_error_scope(&self, index: u32) -> Option<Error> {
        self.errors.pop(index)
    }

    /// Sets what receives the errors that no scope catches.
    pub fn on_uncaptured_error(&self, handler: UncapturedHandler) {
        self.errors.set_handler(handler);
    }

    /// Reports an error that happened in `function`. Must not be called under a lock: the handler is the
    /// program's.
    ///
    /// Once the device is lost or destroyed no error is shown any more (specification, section 22 "Errors
    /// & Debugging"): what fails then fails because of the loss, or of what could not be made since.
    pub(crate) fn report(&self, function: &'static str, error: Error) {
        if self.check_alive().is_ok() {
            self.errors.report(error.within(function));
        }
    }

    /// Reports that a program asked for something that is not implemented, or passed an object that is not
    /// Fencepost's.
    pub fn refuse(&self, function: &'static str, why: impl Into<String>) {
        self.report(function, Error::validation(why));
    }

    /// Reports an error, if there is one, and returns the value otherwise.
    pub(crate) fn report_if_err<T>(&self, function: &'static str, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.report(function, error)).ok()
    }

    /// An error unless the device has every one of the features.
    pub(crate) fn require_features(&self, features: wgt::Features) -> Result<()> {
        let missing = features - self.features;
        if missing.is_empty() {
            Ok(())
        } else {
            Err(Error::validation(format!(
                "the device was made without the required features {missing:?}"
            )))
        }
    }

    /// An error unless `object` belongs to this device.
    pub(crate) fn check_same(&self, other: &Device, object: &Named<'_>) -> Result<()> {
        if std::ptr::eq(self, other) {
            Ok(())
        } else {
            Err(Error::validation(format!(
                "{object} belongs to another device"
            )))
        }
    }

    /// An error, which is never reported, once the device is lost or destroyed.
    pub(crate) fn check_alive(&self) -> Result<()> {
        if self.lower.is_lost() || self.destroyed.load(Ordering::Acquire) {
            Err(Error::device_lost())
        } else {
            Ok(())
        }
    }

    // HAL.

    pub(crate) fn hal(&self) -> &dyn hal::DynDevice {
        &*self.lower.device
    }

    /// Makes a HAL object and its slot: [`Lower::create`], which is tried again after the writes that wait
    /// were submitted. Must not be called under the queue's lock.
    pub(crate) fn create<T: Raw>(
        &self,
        what: &dyn fmt::Display,
        bytes: u64,
        mut create: impl FnMut(&dyn hal::DynDevice) -> Result<T, hal::DeviceError>,
    ) -> Result<Arc<Slot<T>>> {
        self.check_alive()?;
        let is_full = |error: &Error| error.kind() == ErrorKind::OutOfMemory;
        let mut made = self.lower.create(what, bytes, &mut create);
        for _ in 0..MOST_FLUSHES {
            if !made.as_ref().is_err_and(is_full) {
                break;
            }
            // Whether there are any or another thread has just submitted them: an open submission is decided
            // afterwards. Should this fail, so does the creation.
            let flushed = self.flush_writes();
            made = self.lower.create(what, bytes, &mut create);
            if !matches!(flushed, Ok(true)) {
                break;
            }
        }
        let slot = made?;
        if let Err(lost) = self.check_alive() {
            // The device may have been destroyed before this was among what it destroyed.
            T::payload(slot).destroy(&self.lower);
            return Err(lost);
        }
        Ok(slot)
    }

    // Callbacks.

    /// Sets the callback for the loss of the device. It replaces an earlier one, which is dropped.
    pub fn set_lost_callback(&self, callback: LostCallback) {
        self.callbacks.set_lost(callback);
        if self.check_alive().is_err() {
            self.lower.bell.ring();
        }
    }

    /// Calls `callback` once everything that was submitted so far has completed.
    pub fn on_submitted_work_done(&self, callback: WorkDoneCallback) {
        self.wait_for(self.lower.retired.published(), Waiting::WorkDone(callback));
    }

    pub(crate) fn wait_for(&self, serial: Serial, waiting: Waiting) {
        self.callbacks.push(serial, waiting);
        if self.options.callbacks == Callbacks::Prompt {
            self.lower.retired.watch(serial);
            if serial <= self.lower.retired.reclaimed() {
                self.lower.bell.ring();
            }
        }
    }

    /// Runs the callbacks that are ready. Must not be called under a lock.
    pub(crate) fn fire(&self) {
        self.callbacks.resolve(self.lower.retired.reclaimed());
        while let Some(call) = self.callbacks.next() {
            call.call();
        }
        if self.check_alive().is_err() && self.is_idle() {
            if let Some(callback) = self.callbacks.take_lost() {
                match self.lower.loss.get() {
                    Some(LostReason::Destroyed) => {
                        callback(LostReason::Destroyed, "the device was destroyed".into());
                    }
                    _ => callback(LostReason::Unknown, "the driver lost the device".into()),
                }
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.lower.retired.reclaimed() >= self.lower.retired.published()
    }

    /// Takes a reclaim step, waits first if asked to, and runs the callbacks that are ready.
    ///
    /// # Errors
    ///
    /// [`wgt::PollError::Timeout`] if what was to be waited for has not completed in time, and
    /// [`wgt::PollError::WrongSubmissionIndex`] if it was never submitted. Callbacks run all the same.
    pub fn poll(&self, poll: wgt::PollType<u64>) -> Result<wgt::PollStatus, wgt::PollError> {
        let target = match poll {
            wgt::PollType::Poll => None,
            wgt::PollType::Wait {
                submission_index,
                timeout,
            } => {
                let published = self.lower.retired.published();
                let serial = submission_index.map_or(published, Serial::new);
                if serial > published {
                    return Err(wgt::PollError::WrongSubmissionIndex(
                        serial.get(),
                        published.get(),
                    ));
                }
                if let Err(error) = self.lower.wait(serial, timeout) {
                    log::error!("waiting for submission {serial} failed: {error}");
                }
                Some(serial)
            }
        };
        self.lower.settle();
        let reclaimed = self.lower.retired.reclaimed();
        let idle = self.is_idle();
        self.fire();
        match target {
            _ if idle => Ok(wgt::PollStatus::QueueEmpty),
            Some(serial) if serial <= reclaimed => Ok(wgt::PollStatus::WaitSucceeded),
            Some(_) => Err(wgt::PollError::Timeout),
            None => Ok(wgt::PollStatus::Poll),
        }
    }

    /// Destroys the device (specification, `GPUDevice.destroy`): nothing can be made or submitted any
    /// more, mappings end, and every resource is let go of: freed at once when idle, at the fence
    /// otherwise. The lost callback runs when the last submission has completed.
    pub fn destroy(&self) {
        let _ = self.lower.loss.set(LostReason::Destroyed);
        if self.destroyed.swap(true, Ordering::AcqRel) {
            return;
        }
        // Whoever submits either saw the flag or is done when this lock is ours.
        self.queue.lock().pending.clear(&self.lower);
        self.lower.reclaim();
        for payload in self.lower.alive() {
            payload.destroy(&self.lower);
        }
        if self.options.callbacks == Callbacks::Prompt {
            self.lower.retired.watch(self.lower.retired.published());
        }
        self.lower.bell.ring();
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.lower.retired.shut();
        self.lower.bell.shut();
        for thread in self.threads.get_mut().drain(..) {
            if thread.thread().id() != thread::current().id() && thread.join().is_err() {
                log::error!("a thread of the device panicked");
            }
        }
        self.lower.rest();
        self.queue.get_mut().end(&self.lower);
        self.zeros.destroy(&*self.lower);
        // Nobody can poll any more, so what still waits runs here, each although another may panic.
        let mut panic = None;
        while let Err(payload) = panic::catch_unwind(AssertUnwindSafe(|| self.fire())) {
            panic.get_or_insert(payload);
        }
        if let Some(payload) = panic.filter(|_| !thread::panicking()) {
            panic::resume_unwind(payload);
        }
    }
}
