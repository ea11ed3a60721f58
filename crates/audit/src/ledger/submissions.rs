//! Submissions, in flight until they complete, and the fences that show it.

use super::{Commands, Key, Ledger, Stage, Submission};
use crate::report::{Finding, ObjectKind, SubmissionInfo, Violation};
use std::time::{Duration, Instant};

impl Ledger {
    /// Records a submission, in flight from here on. `None` if it must not reach the backend.
    pub fn submit(
        &mut self,
        device: u64,
        commands: &[u64],
        textures: &[Key],
        fence: Key,
        value: u64,
        found: &mut Vec<Finding>,
    ) -> Option<u64> {
        let mut sound = self.expect(fence, device, found);
        for &texture in textures {
            sound &= self.expect(texture, device, found);
        }
        for (i, &id) in commands.iter().enumerate() {
            sound &= self.submittable(id, commands[..i].contains(&id), device, found);
        }
        if !sound {
            return None;
        }
        let state = self.fences.get_mut(&fence.id)?;
        if value <= state.asked {
            let asked = state.asked;
            let finding = Finding::new(Violation::FenceNotIncreasing, device, self.info(fence))
                .detail(format!("value {value} after {asked}"));
            found.push(finding);
        } else {
            state.asked = value;
        }
        self.last_serial += 1;
        let serial = self.last_serial;
        let device_state = self.devices.get_mut(&device)?;
        device_state.submissions.push_back(Submission {
            info: SubmissionInfo {
                serial,
                device,
                fence: fence.id,
                value,
            },
            commands: commands.to_vec(),
            at: Instant::now(),
            returned: false,
        });
        for id in commands {
            if let Some(commands) = self.commands.get_mut(id) {
                commands.stage = Stage::InFlight(serial);
            }
        }
        Some(serial)
    }

    fn submittable(&self, id: u64, repeated: bool, device: u64, found: &mut Vec<Finding>) -> bool {
        let key = Key {
            id,
            kind: ObjectKind::CommandBuffer,
        };
        let finding = match self.commands.get(&id) {
            None => Finding::new(Violation::UseOfDestroyed, device, self.info(key)),
            Some(commands) if commands.device != device => {
                Finding::new(Violation::ForeignObject, device, self.commands_info(id))
                    .detail(format!("it belongs to device #{}", commands.device))
            }
            Some(commands) if commands.stage != Stage::Encoded || repeated => {
                Finding::new(Violation::OutOfOrder, device, self.commands_info(id))
                    .detail("it was submitted before")
            }
            Some(Commands {
                broken: Some(gone), ..
            }) => Finding::new(Violation::UseOfDestroyed, device, gone.clone())
                .commands(self.commands_info(id), None),
            Some(_) => return true,
        };
        found.push(finding);
        false
    }

    /// The backend has accepted the submission, or not.
    pub fn submitted(&mut self, device: u64, serial: u64, accepted: bool) {
        let Some(state) = self.devices.get_mut(&device) else {
            return;
        };
        let Some(at) = state
            .submissions
            .iter()
            .position(|s| s.info.serial == serial)
        else {
            return;
        };
        if accepted {
            let submission = &mut state.submissions[at];
            submission.returned = true;
            let info = submission.info;
            let lost = state.lost;
            if let Some(fence) = self.fences.get_mut(&info.fence) {
                fence.submitted = fence.submitted.max(info.value);
            }
            if lost {
                // Another thread lost the device meanwhile, and nobody is going to see a fence of it.
                self.lose(device);
            }
        } else if let Some(submission) = state.submissions.remove(at) {
            for id in submission.commands {
                if let Some(commands) = self.commands.get_mut(&id) {
                    commands.stage = Stage::Encoded;
                }
            }
        }
    }

    /// What is in flight and was accepted, of all devices, in the order of submission.
    pub fn pending(&self) -> Vec<SubmissionInfo> {
        let mut pending: Vec<_> = self
            .devices
            .values()
            .flat_map(|device| device.submissions.iter())
            .filter(|s| s.returned)
            .map(|s| s.info)
            .collect();
        pending.sort_unstable_by_key(|info| info.serial);
        pending
    }

    /// The oldest submission that could complete, of whichever device.
    pub fn oldest(&self) -> Option<SubmissionInfo> {
        let fronts = self
            .devices
            .values()
            .filter_map(|device| device.submissions.front());
        fronts
            .filter(|s| s.returned)
            .map(|s| s.info)
            .min_by_key(|info| info.serial)
    }

    /// Completes the oldest `count` submissions of the device.
    pub(super) fn complete_front(&mut self, device: u64, count: usize) {
        let Some(state) = self.devices.get_mut(&device) else {
            return;
        };
        for submission in state.submissions.drain(..count) {
            if let Some(fence) = self.fences.get_mut(&submission.info.fence) {
                fence.completed = fence.completed.max(submission.info.value);
                fence.submitted = fence.submitted.max(submission.info.value);
            }
            for id in submission.commands {
                if let Some(commands) = self.commands.get_mut(&id) {
                    commands.stage = Stage::Complete;
                }
            }
        }
    }

    /// Completes one submission, if it is the oldest of its device and was accepted.
    pub fn complete(&mut self, info: SubmissionInfo) -> bool {
        let oldest = self
            .devices
            .get(&info.device)
            .and_then(|device| device.submissions.front());
        let ready = oldest.is_some_and(|s| s.returned && s.info.serial == info.serial);
        if ready {
            self.complete_front(info.device, 1);
        }
        ready
    }

    /// The fence was seen at `value`: what signals it up to there has completed, and all before it.
    pub fn observe(&mut self, fence: u64, value: u64) {
        let Some(device) = self.fences.get(&fence).map(|fence| fence.device) else {
            return;
        };
        let Some(state) = self.devices.get(&device) else {
            return;
        };
        let seen = state
            .submissions
            .iter()
            .rposition(|s| s.info.fence == fence && s.info.value <= value);
        if let Some(last) = seen {
            self.complete_front(device, last + 1);
        }
    }

    /// Completes what it takes for the fence to show `value`.
    pub fn advance_to(&mut self, fence: u64, value: u64) {
        let Some(device) = self.fences.get(&fence).map(|fence| fence.device) else {
            return;
        };
        if self.completed(fence) >= value {
            return;
        }
        let last = self.devices.get(&device).and_then(|state| {
            let mut submissions = state.submissions.iter();
            submissions.position(|s| s.info.fence == fence && s.info.value >= value && s.returned)
        });
        if let Some(last) = last {
            self.complete_front(device, last + 1);
        }
    }

    /// The device is idle: all that was accepted has completed.
    pub fn idle(&mut self, device: u64) {
        let accepted = self.devices.get(&device).map_or(0, |state| {
            state.submissions.iter().take_while(|s| s.returned).count()
        });
        self.complete_front(device, accepted);
    }

    /// The device is lost: nothing of it runs any more. False if it was before.
    pub fn lose(&mut self, device: u64) -> bool {
        let Some(state) = self.devices.get_mut(&device) else {
            return false;
        };
        let count = state.submissions.len();
        let first = !std::mem::replace(&mut state.lost, true);
        self.complete_front(device, count);
        first
    }

    pub fn is_lost(&self, device: u64) -> bool {
        self.devices.get(&device).is_some_and(|state| state.lost)
    }

    pub fn is_idle(&self, device: u64) -> bool {
        self.devices
            .get(&device)
            .is_none_or(|state| state.submissions.is_empty())
    }

    /// Whether the fence may be waited for with `value`.
    pub fn may_wait(&self, key: Key, device: u64, value: u64, found: &mut Vec<Finding>) -> bool {
        if !self.expect(key, device, found) {
            return false;
        }
        let submitted = self.fences.get(&key.id).map_or(0, |fence| fence.submitted);
        if value > submitted && !self.is_lost(device) {
            let finding = Finding::new(Violation::WaitNeverSubmitted, device, self.info(key))
                .detail(format!(
                    "waited for {value}, the highest that was submitted is {submitted}"
                ));
            found.push(finding);
            return false;
        }
        true
    }

    pub fn completed(&self, fence: u64) -> u64 {
        self.fences.get(&fence).map_or(0, |fence| fence.completed)
    }

    /// When the submissions up to and including `value` become visible, if each takes at least `slow`.
    pub fn visible_at(
        &self,
        device: u64,
        fence: u64,
        value: u64,
        slow: Duration,
    ) -> Option<Instant> {
        let submissions = &self.devices.get(&device)?.submissions;
        let first = submissions
            .iter()
            .find(|s| s.info.fence == fence && s.info.value >= value)?;
        first.at.checked_add(slow)
    }

    /// The highest value of the fence, not above `value`, that is visible at `now`.
    pub fn visible(
        &self,
        device: u64,
        fence: u64,
        value: u64,
        slow: Duration,
        now: Instant,
    ) -> u64 {
        let Some(state) = self.devices.get(&device) else {
            return value;
        };
        let mut seen = self.completed(fence);
        for submission in state.submissions.iter().filter(|s| s.info.fence == fence) {
            let late = submission.at.checked_add(slow).is_none_or(|at| at > now);
            if submission.info.value > value || late {
                return seen;
            }
            seen = submission.info.value;
        }
        value
    }

    /// When the last submission of the device becomes visible.
    pub fn last_visible_at(&self, device: u64, slow: Duration) -> Option<Instant> {
        self.devices
            .get(&device)?
            .submissions
            .back()?
            .at
            .checked_add(slow)
    }
}
