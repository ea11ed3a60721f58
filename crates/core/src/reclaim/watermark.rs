//! One step of reclaiming: read the fence, reset the command buffers that have completed, free what was
//! retired under them.
//!
//! Invariants: command buffers are reset before anything that they refer to is freed (I1); the HAL is
//! asked only for fence values that were submitted.

use super::Lower;
use crate::device::LostReason;
use fencepost_lifetime::{mutation::planted, Serial};
use std::{sync::atomic::Ordering, time::Duration};
use wgpu_hal as hal;

impl Lower {
    /// Takes one step. Cheap when nothing is in flight.
    pub fn reclaim(&self) {
        if self.retired.is_settled() {
            return;
        }
        let completed = self.completed();
        let before = self.retired.reclaimed();
        // Freeing may retire, and so come back here.
        let _freeing = self.freeing.read_recursive();
        let free_first = planted("command buffers reset after what they refer to is freed");
        let reset = |up_to| {
            if !free_first {
                self.reset(up_to);
            }
        };
        for payload in self.retired.advance(completed, reset) {
            self.free(payload);
        }
        if free_first {
            self.reset(self.retired.reclaimed());
        }
        if self.retired.reclaimed() != before {
            self.bell.ring();
        }
    }

    /// Takes a step, and waits for other threads that are in the middle of one.
    pub fn settle(&self) {
        self.reclaim();
        drop(self.freeing.write());
    }

    /// The last submission that has completed. A lost device works at nothing any more: all have.
    fn completed(&self) -> Serial {
        if planted("a lost device that keeps what was in flight") && self.is_lost() {
            return self.retired.reclaimed();
        }
        if !self.is_lost() {
            // SAFETY: the fence belongs to the device.
            match unsafe { self.device.get_fence_value(self.fence()) } {
                // A removed D3D12 device reads as the highest value there is.
                Ok(value) if value <= self.issued.load(Ordering::Acquire) => {
                    return Serial::new(value)
                }
                Ok(value) => log::error!("the fence reads {value}, which was never submitted"),
                Err(hal::DeviceError::Lost) => {}
                // The GPU works on.
                Err(error) => {
                    log::error!("reading the fence failed: {error}");
                    return self.retired.reclaimed();
                }
            }
            self.lose();
        }
        self.retired.published()
    }

    /// Notes that the driver has lost the device. The callback is the upper half's to call, woken by the
    /// bell, once the reclaim thread, or whoever else takes a step, has given back what was in flight.
    pub fn lose(&self) {
        let _ = self.loss.set(LostReason::Unknown);
        self.lost.store(true, Ordering::Release);
        self.retired.watch(self.retired.published());
        self.bell.ring();
    }

    /// Waits until the GPU rests, and gives back everything that was in flight, whatever the fence reads.
    pub fn rest(&self) {
        if !self.is_lost() {
            self.wait_for_rest();
        }
        let _freeing = self.freeing.read_recursive();
        let last = self.retired.published();
        for payload in self.retired.advance(last, |up_to| self.reset(up_to)) {
            self.free(payload);
        }
    }

    fn wait_for_rest(&self) {
        // SAFETY: the queue belongs to the device.
        let error = match unsafe { self.queue.wait_for_idle() } {
            Ok(()) => return,
            Err(hal::DeviceError::Lost) => return self.lose(),
            Err(error) => error,
        };
        log::error!("waiting for the GPU failed: {error}");
        // Everything but presents is covered by the fence. If that fails too, nothing is left to be done.
        if let Err(error) = self.wait(self.retired.published(), None) {
            log::error!("waiting for the fence failed: {error}");
        }
    }

    /// Gives the device up after a failure that nothing can be made of: it counts as lost. The GPU may work
    /// on, so it is waited for first.
    pub fn give_up(&self, failure: hal::DeviceError) {
        if failure != hal::DeviceError::Lost {
            self.rest();
        }
        self.lose();
    }

    /// Resets the command buffers of every submission up to `up_to`.
    pub fn reset(&self, up_to: Serial) {
        loop {
            let done = {
                let mut in_flight = self.in_flight.lock();
                match in_flight.front() {
                    Some(first) if first.serial <= up_to => in_flight.pop_front(),
                    _ => None,
                }
            };
            let Some(mut done) = done else { return };
            // SAFETY: the encoder is closed, these are all its command buffers, and the GPU has
            // completed them.
            unsafe { done.encoder.reset_all(done.commands) };
            if !done.spent {
                self.recycle(done.encoder);
            }
        }
    }

    /// Waits until `serial` has completed, at most `timeout`. `Ok(false)` means that it has not.
    ///
    /// `serial` must be published.
    pub fn wait(
        &self,
        serial: Serial,
        timeout: Option<Duration>,
    ) -> Result<bool, hal::DeviceError> {
        debug_assert!(serial <= self.retired.published());
        if serial <= self.retired.reclaimed() || self.is_lost() {
            return Ok(true);
        }
        // SAFETY: the HAL's submit has returned for a value at least this high.
        let result = unsafe { self.device.wait(self.fence(), serial.get(), timeout) };
        match result {
            Err(hal::DeviceError::Lost) => {
                self.lose();
                Ok(true)
            }
            other => other,
        }
    }
}
