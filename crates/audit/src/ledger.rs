//! The books: every object that exists, every command buffer and what it refers to, every submission.
//!
//! Plain data and rules, without a HAL type in sight. Each function records one call that the user
//! makes, appends what is wrong with it to `found`, and says whether the backend may be asked to do it.
//!
//! # Invariants
//!
//! * Numbers are never reused, so whatever is not in `objects` or `commands` is gone.
//! * `Object::users` and `Commands::refers` are each other's inverse.
//! * `DeviceState::submissions` holds what is in flight, oldest first; a submission leaves it at the front
//!   only, since a queue completes in order.

mod encoding;
mod submissions;
#[cfg(test)]
mod tests;

use crate::report::{Finding, ObjectInfo, ObjectKind, SubmissionInfo, Violation};
use rustc_hash::{FxHashMap, FxHashSet};
use std::{collections::VecDeque, sync::Arc, time::Instant};

/// How many destroyed objects keep their label for reports. Older ones are still known to be gone.
const TOMBSTONES: usize = 4096;

/// The number of an object, together with what the wrapper knows about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub id: u64,
    pub kind: ObjectKind,
}

#[derive(Debug)]
struct Object {
    kind: ObjectKind,
    label: Option<Box<str>>,
    device: u64,
    /// Everything that using this object uses as well, however far away.
    holds: Arc<[Key]>,
    /// The command buffers that refer to it and were not reset.
    users: FxHashSet<u64>,
    bytes: u64,
    mapped: bool,
    /// Of a bind group layout: the bind groups that were made with it.
    groups: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Complete,
    Encoded,
    Encoding,
    InFlight(u64),
}

#[derive(Debug)]
struct Commands {
    encoder: u64,
    device: u64,
    label: Option<Box<str>>,
    stage: Stage,
    refers: FxHashSet<u64>,
    /// The first object that it refers to and that is gone, if it was not submitted before that.
    broken: Option<ObjectInfo>,
}

#[derive(Debug)]
struct Submission {
    info: SubmissionInfo,
    commands: Vec<u64>,
    at: Instant,
    /// Whether the backend's submit has returned. Until then nobody may wait for it.
    returned: bool,
}

#[derive(Debug, Default)]
struct DeviceState {
    lost: bool,
    submissions: VecDeque<Submission>,
}

#[derive(Debug, Default)]
struct FenceState {
    device: u64,
    completed: u64,
    /// The highest value whose submission the backend has accepted.
    submitted: u64,
    /// The highest value that a submission was asked to store.
    asked: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Whether command buffers hold no references: see `Contract::Strict`.
    pub strict: bool,
    pub reset_before_free: bool,
    pub live_bytes: u64,
    /// What the backend is making just now.
    pub promised_bytes: u64,
    last_id: u64,
    last_serial: u64,
    objects: FxHashMap<u64, Object>,
    commands: FxHashMap<u64, Commands>,
    /// The live command buffers of each encoder.
    encoders: FxHashMap<u64, Vec<u64>>,
    fences: FxHashMap<u64, FenceState>,
    devices: FxHashMap<u64, DeviceState>,
    tombs: FxHashMap<u64, (ObjectKind, Option<Box<str>>)>,
    burials: VecDeque<u64>,
}

fn label(label: Option<&str>) -> Option<Box<str>> {
    label.filter(|label| !label.is_empty()).map(Box::from)
}

/// Birth.
impl Ledger {
    /// Counts a bind group with the layout that it holds.
    fn count_group(&mut self, holds: &[Key], count: impl Fn(usize) -> usize) {
        let is_layout = |key: &&Key| key.kind == ObjectKind::BindGroupLayout;
        for key in holds.iter().filter(is_layout) {
            if let Some(layout) = self.objects.get_mut(&key.id) {
                layout.groups = count(layout.groups);
            }
        }
    }

    fn number(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    pub fn device(&mut self) -> u64 {
        let id = self.number();
        self.devices.insert(id, DeviceState::default());
        id
    }

    /// Enters an object that holds `direct` and, by it, everything that those hold.
    pub fn born(
        &mut self,
        kind: ObjectKind,
        name: Option<&str>,
        device: u64,
        direct: &[Key],
        bytes: u64,
    ) -> u64 {
        let id = self.number();
        let mut holds: Vec<Key> = Vec::new();
        for held in direct {
            holds.push(*held);
            if let Some(object) = self.objects.get(&held.id) {
                holds.extend_from_slice(&object.holds);
            }
        }
        holds.sort_unstable_by_key(|held| held.id);
        holds.dedup();
        let object = Object {
            kind,
            label: label(name),
            device,
            holds: holds.into(),
            users: FxHashSet::default(),
            bytes,
            mapped: false,
            groups: 0,
        };
        if kind == ObjectKind::BindGroup {
            self.count_group(direct, |groups| groups + 1);
        }
        self.objects.insert(id, object);
        self.live_bytes += bytes;
        match kind {
            ObjectKind::CommandEncoder => drop(self.encoders.insert(id, Vec::new())),
            ObjectKind::Fence => {
                let fence = FenceState {
                    device,
                    ..FenceState::default()
                };
                self.fences.insert(id, fence);
            }
            _ => {}
        }
        id
    }
}

/// Use.
impl Ledger {
    pub fn info(&self, key: Key) -> ObjectInfo {
        let known = match self.objects.get(&key.id) {
            Some(object) => Some((object.kind, object.label.clone())),
            None => self.tombs.get(&key.id).cloned(),
        };
        // A surface's texture is a texture to its wrapper.
        let (kind, label) = known.unwrap_or((key.kind, None));
        ObjectInfo {
            kind,
            id: key.id,
            label,
        }
    }

    pub fn encoder_info(&self, id: u64) -> ObjectInfo {
        let kind = ObjectKind::CommandEncoder;
        self.info(Key { id, kind })
    }

    pub fn commands_info(&self, id: u64) -> ObjectInfo {
        ObjectInfo {
            kind: ObjectKind::CommandBuffer,
            id,
            label: self.commands.get(&id).and_then(|c| c.label.clone()),
        }
    }

    fn submission_info(&self, device: u64, serial: u64) -> Option<SubmissionInfo> {
        let mut submissions = self.devices.get(&device)?.submissions.iter();
        submissions
            .find(|s| s.info.serial == serial)
            .map(|s| s.info)
    }

    /// Whether `device` may use the object: it must exist and be the device's own.
    pub fn expect(&self, key: Key, device: u64, found: &mut Vec<Finding>) -> bool {
        let (violation, detail) = match self.objects.get(&key.id) {
            Some(object) if object.device == device => return true,
            Some(object) => (
                Violation::ForeignObject,
                format!("it belongs to device #{}", object.device),
            ),
            None => (Violation::UseOfDestroyed, String::new()),
        };
        found.push(Finding::new(violation, device, self.info(key)).detail(detail));
        false
    }

    /// Records that a command of the command buffer `id` uses the object.
    pub fn refer(&mut self, id: u64, key: Key, found: &mut Vec<Finding>) -> bool {
        let Some(commands) = self.commands.get(&id) else {
            return true;
        };
        if commands.refers.contains(&key.id) && self.objects.contains_key(&key.id) {
            return true;
        }
        let device = commands.device;
        if !self.expect(key, device, found) {
            let commands_info = self.commands_info(id);
            if let Some(last) = found.last_mut() {
                last.command_buffer = Some(commands_info);
            }
            let info = self.info(key);
            if let Some(commands) = self.commands.get_mut(&id) {
                commands.broken.get_or_insert(info);
            }
            return false;
        }
        let holds = Arc::clone(&self.objects[&key.id].holds);
        for &held in holds.iter().chain([&key]) {
            if let Some(object) = self.objects.get_mut(&held.id) {
                object.users.insert(id);
                if let Some(commands) = self.commands.get_mut(&id) {
                    commands.refers.insert(held.id);
                }
                continue;
            }
            let gone = self.info(held);
            let commands_info = self.commands_info(id);
            if let Some(commands) = self.commands.get_mut(&id) {
                commands.broken.get_or_insert_with(|| gone.clone());
            }
            if self.strict {
                let holder = self.info(key);
                let finding = Finding::new(Violation::UseOfDestroyed, device, gone)
                    .detail(format!("held by {holder}"))
                    .commands(commands_info, None);
                found.push(finding);
            }
        }
        true
    }

    /// The furthest that a command buffer with this object has come.
    fn furthest(&self, id: u64) -> Option<(u64, Stage)> {
        let users = self.objects.get(&id)?.users.iter();
        users
            .filter_map(|user| Some((*user, self.commands.get(user)?.stage)))
            .max_by_key(|&(user, stage)| (stage, user))
    }

    /// `map_buffer`, or with `on` false `unmap_buffer`; `None` for flush and invalidate.
    pub fn map(
        &mut self,
        key: Key,
        device: u64,
        on: Option<bool>,
        found: &mut Vec<Finding>,
    ) -> bool {
        if !self.expect(key, device, found) {
            return false;
        }
        if on == Some(true) {
            if let Some((user, Stage::InFlight(serial))) = self.furthest(key.id) {
                let finding = Finding::new(Violation::MappedInFlight, device, self.info(key))
                    .commands(
                        self.commands_info(user),
                        self.submission_info(device, serial),
                    );
                found.push(finding);
            }
        } else if !self.objects[&key.id].mapped {
            found.push(Finding::new(Violation::NotMapped, device, self.info(key)));
            return false;
        }
        true
    }

    pub fn set_mapped(&mut self, key: Key, mapped: bool) {
        if let Some(object) = self.objects.get_mut(&key.id) {
            object.mapped = mapped;
        }
    }
}

/// Death.
impl Ledger {
    fn bury(&mut self, id: u64, kind: ObjectKind, label: Option<Box<str>>) {
        self.tombs.insert(id, (kind, label));
        self.burials.push_back(id);
        if self.burials.len() > TOMBSTONES {
            if let Some(old) = self.burials.pop_front() {
                self.tombs.remove(&old);
            }
        }
    }

    fn remove(&mut self, id: u64) {
        let Some(object) = self.objects.remove(&id) else {
            return;
        };
        self.live_bytes -= object.bytes;
        if object.kind == ObjectKind::BindGroup {
            self.count_group(&object.holds, |groups| groups.saturating_sub(1));
        }
        let info = ObjectInfo {
            kind: object.kind,
            id,
            label: object.label.clone(),
        };
        for user in object.users {
            if let Some(commands) = self.commands.get_mut(&user) {
                commands.refers.remove(&id);
                if matches!(commands.stage, Stage::Encoding | Stage::Encoded) {
                    commands.broken.get_or_insert_with(|| info.clone());
                }
            }
        }
        self.bury(id, object.kind, object.label);
    }

    /// `destroy_*`. A texture that is `presented` may be in flight.
    pub fn destroy(
        &mut self,
        key: Key,
        device: u64,
        presented: bool,
        found: &mut Vec<Finding>,
    ) -> bool {
        let info = self.info(key);
        let Some(object) = self.objects.get(&key.id) else {
            found.push(Finding::new(Violation::DoubleDestroy, device, info));
            return false;
        };
        let own = self.expect(key, device, found);
        if object.mapped {
            let finding = Finding::new(Violation::DestroyedWhileMapped, device, info.clone());
            found.push(finding);
        }
        if object.groups > 0 {
            let finding = Finding::new(Violation::LayoutInUse, device, info.clone());
            found.push(finding.detail(format!("{} bind groups of it exist", object.groups)));
        }
        if let Some((user, stage)) = self.furthest(key.id) {
            let violation = match stage {
                Stage::InFlight(_) => (!presented).then_some(Violation::DestroyedInFlight),
                Stage::Encoding => self.strict.then_some(Violation::DestroyedWhileEncoding),
                Stage::Encoded => self.strict.then_some(Violation::DestroyedBeforeSubmit),
                Stage::Complete => self
                    .reset_before_free
                    .then_some(Violation::DestroyedBeforeReset),
            };
            let submission = match stage {
                Stage::InFlight(serial) => self.submission_info(object.device, serial),
                _ => None,
            };
            if let Some(violation) = violation {
                let others = self.objects[&key.id].users.len() - 1;
                let mut finding = Finding::new(violation, device, info)
                    .commands(self.commands_info(user), submission);
                if others > 0 {
                    finding.detail = format!("{others} other command buffers refer to it");
                }
                found.push(finding);
            }
        }
        self.remove(key.id);
        self.fences.remove(&key.id);
        own
    }

    /// What drops a fence, or is about to destroy it: nobody may be going to signal it.
    pub fn drop_fence(&self, key: Key, device: u64, found: &mut Vec<Finding>) {
        let pending = self.devices.get(&device).and_then(|device| {
            let mut pending = device.submissions.iter().map(|s| s.info);
            pending.rfind(|info| info.fence == key.id)
        });
        if let Some(pending) = pending {
            let mut finding = Finding::new(Violation::DroppedInFlight, device, self.info(key));
            finding.submission = Some(pending);
            found.push(finding);
        }
    }

    /// The device goes, and with it everything of it but the encoders: those hold in every backend what
    /// they need of the device, and nothing says that they must go first.
    pub fn gone(&mut self, device: u64, found: &mut Vec<Finding>) {
        let in_flight = self.devices.get(&device).map_or(0, |d| d.submissions.len());
        self.complete_front(device, in_flight);
        for key in self.live(Some(device)) {
            if key.kind != ObjectKind::CommandEncoder {
                found.push(Finding::new(Violation::StillAlive, device, self.info(key)));
                self.fences.remove(&key.id);
                self.remove(key.id);
            }
        }
        self.devices.remove(&device);
    }

    /// What exists, of one device or of all, oldest first.
    pub fn live(&self, device: Option<u64>) -> Vec<Key> {
        let of_device = self
            .objects
            .iter()
            .filter(|(_, object)| device.is_none_or(|device| object.device == device));
        let mut live: Vec<Key> = of_device
            .map(|(&id, object)| Key {
                id,
                kind: object.kind,
            })
            .collect();
        live.sort_unstable_by_key(|key| key.id);
        live
    }
}
