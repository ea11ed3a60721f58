//! Command buffers from `begin_encoding` to `reset_all`, and the encoders that own them.

use super::{label, Commands, Key, Ledger, Stage};
use crate::report::{Finding, ObjectKind, Violation};
use rustc_hash::FxHashSet;

impl Ledger {
    pub fn begin(&mut self, encoder: u64, device: u64, name: Option<&str>) -> u64 {
        let id = self.number();
        let commands = Commands {
            encoder,
            device,
            label: label(name),
            stage: Stage::Encoding,
            refers: FxHashSet::default(),
            broken: None,
        };
        self.commands.insert(id, commands);
        if let Some(list) = self.encoders.get_mut(&encoder) {
            list.push(id);
        }
        id
    }

    pub fn end(&mut self, id: u64) {
        if let Some(commands) = self.commands.get_mut(&id) {
            commands.stage = Stage::Encoded;
        }
    }

    /// Discarded or reset: the command buffer refers to nothing any more.
    pub fn forget(&mut self, id: u64) {
        let Some(commands) = self.commands.remove(&id) else {
            return;
        };
        for object in commands.refers {
            if let Some(object) = self.objects.get_mut(&object) {
                object.users.remove(&id);
            }
        }
        if let Some(list) = self.encoders.get_mut(&commands.encoder) {
            list.retain(|&other| other != id);
        }
        self.bury(id, ObjectKind::CommandBuffer, commands.label);
    }

    /// One of the command buffers that `reset_all` was given. Says whether it may be passed on.
    pub fn reset(&mut self, id: u64, encoder: u64, device: u64, found: &mut Vec<Finding>) -> bool {
        let info = self.commands_info(id);
        let Some(commands) = self.commands.get(&id) else {
            let key = Key {
                id,
                kind: ObjectKind::CommandBuffer,
            };
            let finding = Finding::new(Violation::DoubleDestroy, device, self.info(key));
            found.push(finding.detail("it was reset, or its encoder dropped, before"));
            return false;
        };
        if commands.encoder != encoder {
            let of = self.encoder_info(commands.encoder);
            found.push(
                Finding::new(Violation::ForeignObject, device, info)
                    .detail(format!("it belongs to {of}")),
            );
            return false;
        }
        if let Stage::InFlight(serial) = commands.stage {
            let mut finding = Finding::new(Violation::ResetInFlight, device, info);
            finding.submission = self.submission_info(device, serial);
            found.push(finding);
        }
        self.forget(id);
        true
    }

    /// The end of `reset_all`: nothing of the encoder may be left.
    pub fn reset_rest(&mut self, encoder: u64, device: u64, found: &mut Vec<Finding>) {
        for id in self.encoders.get(&encoder).cloned().unwrap_or_default() {
            let mut finding = Finding::new(
                Violation::ResetIncomplete,
                device,
                self.encoder_info(encoder),
            )
            .commands(self.commands_info(id), None);
            if let Stage::InFlight(serial) = self.commands[&id].stage {
                finding.violation = Violation::ResetInFlight;
                finding.submission = self.submission_info(device, serial);
            }
            found.push(finding);
            self.forget(id);
        }
    }

    pub fn drop_encoder(&mut self, encoder: u64, device: u64, found: &mut Vec<Finding>) {
        let list = self.encoders.remove(&encoder).unwrap_or_default();
        let in_flight = list.iter().find_map(|&id| match self.commands[&id].stage {
            Stage::InFlight(serial) => Some((id, serial)),
            _ => None,
        });
        if let Some((id, serial)) = in_flight {
            let info = self.encoder_info(encoder);
            let finding = Finding::new(Violation::DroppedInFlight, device, info)
                .commands(self.commands_info(id), self.submission_info(device, serial));
            found.push(finding);
        }
        for id in list {
            self.forget(id);
        }
        self.remove(encoder);
    }
}
