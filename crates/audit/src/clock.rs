//! When submissions complete: as the backend has it, or when the test says so.
//!
//! The backend executes a submission when it likes. What the user can see of it is its fence, and the
//! fence is what the clock holds back: a value shows when the clock has passed its submission *and* the
//! backend has executed it.

use crate::{auditor::Auditor, report::SubmissionInfo};
use parking_lot::MutexGuard;
use std::time::Instant;
use wgpu_hal::DeviceError;

/// Who decides when a submission has completed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Completion {
    /// The backend. In the auditor's eyes a submission is in flight until the user has *seen* it
    /// complete: by `get_fence_value`, `wait`, `wait_for_idle`, or a later submission seen so.
    #[default]
    Backend,
    /// The [`Clock`], one submission at a time. `wait` and `wait_for_idle` block until another thread
    /// advances it or the timeout passes.
    Manual,
    /// The [`Clock`], and whoever waits: a wait completes what it waits for. For programs with a single
    /// thread that block, for instance when memory runs out.
    ManualOrWaited,
}

/// Completes submissions. See [`Auditor::clock`].
#[derive(Clone, Debug)]
pub struct Clock(Auditor);

impl Clock {
    pub(crate) fn new(auditor: Auditor) -> Self {
        Self(auditor)
    }

    /// Changes who decides. What is in flight goes on under the new rule.
    pub fn set(&self, completion: Completion) {
        self.0.state().completion = completion;
        self.0.tick().notify_all();
    }

    /// What the backend has accepted and has not completed, oldest first, of all devices.
    pub fn pending(&self) -> Vec<SubmissionInfo> {
        self.0.state().ledger.pending()
    }

    /// Completes the oldest submission, of whichever device. `None` if nothing is in flight.
    pub fn complete_next(&self) -> Option<SubmissionInfo> {
        let mut state = self.0.state();
        let next = state.ledger.oldest()?;
        self.advance(&mut state, next).then_some(next)
    }

    /// Completes one submission out of [`Clock::pending`]. False, and without effect, if it is not the
    /// oldest of its device: a queue completes in order, but the devices' queues are independent.
    pub fn complete(&self, submission: SubmissionInfo) -> bool {
        let mut state = self.0.state();
        self.advance(&mut state, submission)
    }

    /// Completes all that is in flight, and says how many submissions that were.
    pub fn complete_all(&self) -> usize {
        std::iter::from_fn(|| self.complete_next()).count()
    }

    fn advance(
        &self,
        state: &mut MutexGuard<'_, crate::auditor::State>,
        submission: SubmissionInfo,
    ) -> bool {
        let done = state.ledger.complete(submission);
        self.0.tick().notify_all();
        done
    }
}

impl Auditor {
    /// The value that the clock lets the fence show; `None` if the backend decides.
    pub(crate) fn clocked(&self, fence: u64) -> Option<u64> {
        let state = self.state();
        (state.completion != Completion::Backend).then(|| state.ledger.completed(fence))
    }

    /// Blocks until the clock has passed `value` of the fence, or with `None` all of the device, and
    /// until slow fences show it. `Ok(false)` if the deadline came first.
    pub(crate) fn hold(
        &self,
        device: u64,
        target: Option<(u64, u64)>,
        deadline: Option<Instant>,
    ) -> Result<bool, DeviceError> {
        let mut state = self.state();
        loop {
            if state.ledger.is_lost(device) {
                return Err(DeviceError::Lost);
            }
            let until = match state.completion {
                Completion::Backend => {
                    let slow = state.faults.slow;
                    let visible = match target {
                        Some((fence, value)) => state.ledger.visible_at(device, fence, value, slow),
                        None => state.ledger.last_visible_at(device, slow),
                    };
                    match visible.filter(|&at| !slow.is_zero() && at > Instant::now()) {
                        None => return Ok(true),
                        Some(at) => Some(deadline.map_or(at, |deadline| deadline.min(at))),
                    }
                }
                manual => {
                    if manual == Completion::ManualOrWaited {
                        match target {
                            Some((fence, value)) => state.ledger.advance_to(fence, value),
                            None => state.ledger.idle(device),
                        }
                    }
                    let passed = match target {
                        Some((fence, value)) => state.ledger.completed(fence) >= value,
                        None => state.ledger.is_idle(device),
                    };
                    if passed {
                        return Ok(true);
                    }
                    deadline
                }
            };
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Ok(false);
            }
            match until {
                Some(until) => drop(self.tick().wait_until(&mut state, until)),
                None => self.tick().wait(&mut state),
            }
        }
    }
}
