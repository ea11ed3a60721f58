//! Allocation under memory pressure: retired memory is waited for before out of memory is reported.

use super::Lower;
use crate::error::{Error, Result};
use std::fmt;
use wgpu_hal::{DeviceError, DynDevice};

impl Lower {
    /// Calls `create` until it succeeds or there is nothing left that could come back: first after a
    /// reclaim step, then after waiting for the oldest submissions while something is retired under them.
    pub fn allocate<T>(
        &self,
        what: &dyn fmt::Display,
        mut create: impl FnMut(&dyn DynDevice) -> Result<T, DeviceError>,
    ) -> Result<T> {
        self.reclaim();
        loop {
            match create(&*self.device) {
                Ok(value) => return Ok(value),
                Err(DeviceError::OutOfMemory) => {}
                Err(DeviceError::Lost) => {
                    self.lose();
                    return Err(Error::device_lost());
                }
                Err(error) => return Err(Error::from(error).within(what)),
            }
            let oldest = self.retired.oldest_in_flight();
            let Some(oldest) = oldest.filter(|_| !self.retired.is_empty()) else {
                return Err(Error::out_of_memory(format!(
                    "{what}: the device is out of memory ({})",
                    self.report_memory()
                )));
            };
            self.wait(oldest, None)
                .map_err(|error| Error::from(error).within(what))?;
            self.reclaim();
        }
    }
}
