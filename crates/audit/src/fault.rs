//! Failures on purpose: memory that runs out, devices that die, calls that fail.

use crate::{auditor::Auditor, report::ObjectKind};
use std::time::Duration;
use wgpu_hal::DeviceError;

/// A place where a call can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Site {
    /// Any creation of an object of a device, command encoders and fences included.
    Allocation,
    /// The creation of one kind of object.
    Create(ObjectKind),
    /// `Queue::submit`. The backend does not see the submission.
    Submit,
    /// `CommandEncoder::begin_encoding`. The encoder stays closed.
    BeginEncoding,
    /// `CommandEncoder::end_encoding`. What was encoded is gone and the encoder closed.
    EndEncoding,
    /// `Device::map_buffer`.
    Map,
    /// `Device::wait`.
    Wait,
}

#[derive(Debug)]
struct Planned {
    site: Site,
    /// How many calls there are before it.
    skip: u64,
    error: DeviceError,
}

#[derive(Debug, Default)]
pub(crate) struct FaultState {
    planned: Vec<Planned>,
    /// How many calls are left before the device is lost.
    lose_in: Option<u64>,
    budget: Option<u64>,
    pub slow: Duration,
    /// What new memory holds.
    pub dirty: Option<u8>,
}

impl FaultState {
    /// What goes wrong in a call at `site` that asks for `bytes` when `live` are in use.
    pub fn strike(&mut self, site: Option<Site>, live: u64, bytes: u64) -> Option<DeviceError> {
        let lost = match &mut self.lose_in {
            Some(0) => {
                self.lose_in = None;
                true
            }
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        };
        let mut error = lost.then_some(DeviceError::Lost);
        if let Some(site) = site {
            let hits = |planned: Site| {
                planned == site || matches!((planned, site), (Site::Allocation, Site::Create(_)))
            };
            self.planned.retain_mut(|planned| {
                if !hits(planned.site) {
                    return true;
                }
                if planned.skip > 0 {
                    planned.skip -= 1;
                    return true;
                }
                error.get_or_insert_with(|| planned.error.clone());
                false
            });
        }
        let full = self
            .budget
            .is_some_and(|budget| bytes > budget.saturating_sub(live));
        if bytes > 0 && full {
            error.get_or_insert(DeviceError::OutOfMemory);
        }
        error
    }
}

/// What goes wrong on purpose. See [`Auditor::faults`].
///
/// An injected failure never reaches the backend. A device that was lost on purpose stays lost: every
/// call that can fail then fails with `DeviceError::Lost`, the others go through, so that everything can
/// be freed. Before the loss is told, the backend's real work is waited for.
#[derive(Clone, Debug)]
pub struct Faults(Auditor);

impl Faults {
    pub(crate) fn new(auditor: Auditor) -> Self {
        Self(auditor)
    }

    /// Makes the `nth` call at `site` from now fail with `error`, once; 1 is the next one, and 0 counts
    /// as 1. Several plans count independently. [`DeviceError::Lost`] loses the device.
    pub fn fail_at(&self, site: Site, nth: u64, error: DeviceError) {
        self.0.state().faults.planned.push(Planned {
            site,
            skip: nth.saturating_sub(1),
            error,
        });
    }

    /// Loses the device that takes the `nth` call from now, whichever call that is; 1 is the next one.
    /// See [`Auditor::calls`] for what counts as a call. One that cannot fail goes through.
    pub fn lose_device_at(&self, nth: u64) {
        self.0.state().faults.lose_in = Some(nth.saturating_sub(1));
    }

    /// Lets creations of buffers and textures run out of memory that would bring
    /// [`Auditor::live_bytes`] above `bytes`.
    pub fn set_memory_budget(&self, bytes: Option<u64>) {
        self.0.state().faults.budget = bytes;
    }

    /// Makes each submission take at least `delay`, as its fence shows it. Under the
    /// [manual clock](crate::Completion::Manual) the clock alone decides.
    pub fn slow_fences(&self, delay: Duration) {
        self.0.state().faults.slow = delay;
    }

    /// Fills the memory of each new buffer with `byte`, as memory that was used before would be: a user who
    /// forgets to zero what it shows is then found out. It reaches the buffers that the backend lets the
    /// auditor map: those with a `MAP_READ` or `MAP_WRITE` usage, and on the no-op backend all.
    pub fn set_dirty_memory(&self, byte: Option<u8>) {
        self.0.state().faults.dirty = byte;
    }

    /// Whether a failure or a loss is planned and has not happened yet.
    pub fn are_planned(&self) -> bool {
        let faults = &self.0.state().faults;
        !faults.planned.is_empty() || faults.lose_in.is_some()
    }

    /// Whether a device is lost, by its number as [`SubmissionInfo`](crate::SubmissionInfo) has it.
    pub fn has_lost(&self, device: u64) -> bool {
        self.0.state().ledger.is_lost(device)
    }

    /// Forgets all plans, the budget, the delay and the dirt. Lost devices stay lost.
    pub fn clear(&self) {
        self.0.state().faults = FaultState::default();
    }
}
