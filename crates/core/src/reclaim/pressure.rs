//! Allocation under memory pressure: what can come back is waited for before out of memory is reported.
//!
//! When the driver, or the budget of [`Options`](crate::Options), has no room, a creation
//!
//! 1. takes a reclaim step, and lets go of pooled encoders, whose pools hold memory;
//! 2. waits for the oldest submission, and for the next, while anything that was let go of waits for the
//!    fence, and tries again after each;
//! 3. waits for other threads that are freeing what they have taken out of the retire queue;
//! 4. submits the writes that wait in the queue, whose staging memory then comes back the same way
//!    ([`Device::create`](crate::Device));
//! 5. reports out of memory, with what exists, what is retired and what is in flight.
//!
//! Only submissions that were accepted are waited for, and nothing is waited for when nothing would come
//! back.

use super::{Lower, Raw};
use crate::error::{Error, Result};
use fencepost_lifetime::{mutation::planted, Slot};
use std::{
    fmt,
    sync::{atomic::Ordering, Arc},
};
use wgpu_hal::{DeviceError, DynDevice};

impl Lower {
    /// Makes a HAL object of the given size in bytes and takes it into the registry, under pressure if it
    /// must be. `what` names it in errors.
    pub fn create<T: Raw>(
        &self,
        what: &dyn fmt::Display,
        bytes: u64,
        mut create: impl FnMut(&dyn DynDevice) -> Result<T, DeviceError>,
    ) -> Result<Arc<Slot<T>>> {
        self.reclaim();
        self.under_pressure(what, || self.try_create(bytes, &mut create))
    }

    /// Makes a HAL object and takes it into the registry, if there is room.
    pub fn try_create<T: Raw>(
        &self,
        bytes: u64,
        create: impl FnOnce(&dyn DynDevice) -> Result<T, DeviceError>,
    ) -> Result<Arc<Slot<T>>, DeviceError> {
        let fits = |bytes_before: u64| {
            let sum = bytes_before.checked_add(bytes)?;
            (sum <= self.budget.unwrap_or(u64::MAX)).then_some(sum)
        };
        // Taken before the object exists, so that threads that create at the same time stay within the budget.
        self.bytes
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, fits)
            .map_err(|_| DeviceError::OutOfMemory)?;
        match create(&*self.device) {
            Ok(raw) => Ok(self.adopt(raw, bytes)),
            Err(error) => {
                self.bytes.fetch_sub(bytes, Ordering::AcqRel);
                Err(error)
            }
        }
    }

    /// Calls `attempt` until it succeeds, fails for another reason than memory, or nothing is left that
    /// could come back.
    pub fn under_pressure<T>(
        &self,
        what: &dyn fmt::Display,
        mut attempt: impl FnMut() -> Result<T, DeviceError>,
    ) -> Result<T> {
        let wanted = || {
            let oldest = self.retired.oldest_wanted();
            oldest.filter(|_| !planted("out of memory while retired memory could come back"))
        };
        let mut is_last = false;
        loop {
            match attempt() {
                Ok(value) => return Ok(value),
                Err(DeviceError::OutOfMemory) => {}
                Err(error) => return Err(self.error(error).within(what)),
            }
            if is_last {
                return Err(Error::out_of_memory(format!(
                    "{what}: the device is out of memory ({})",
                    self.report_memory()
                )));
            }
            self.reclaim();
            let pooled = std::mem::take(&mut *self.encoders.lock());
            if !pooled.is_empty() {
                continue;
            }
            if let Some(oldest) = wanted() {
                self.wait(oldest, None)
                    .map_err(|error| self.error(error).within(what))?;
                self.reclaim();
                // If the fence cannot be read, waiting is in vain.
                is_last = self.retired.reclaimed() < oldest;
            } else {
                // Another thread may be about to free what it has taken.
                self.settle();
                is_last = wanted().is_none();
            }
        }
    }

    /// Turns a HAL error into one of ours, and notes a lost device.
    pub fn error(&self, error: DeviceError) -> Error {
        if error == DeviceError::Lost {
            self.lose();
        }
        error.into()
    }
}
