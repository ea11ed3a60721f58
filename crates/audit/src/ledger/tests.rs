//! What the wrappers cannot show: that the books stay consistent and bounded.

use super::*;

impl Ledger {
    /// The module's invariants.
    fn check(&self) {
        for (id, commands) in &self.commands {
            for object in &commands.refers {
                assert!(self.objects[object].users.contains(id));
            }
        }
        for (id, object) in &self.objects {
            for user in &object.users {
                assert!(self.commands[user].refers.contains(id));
            }
        }
        let live: u64 = self.objects.values().map(|object| object.bytes).sum();
        assert_eq!(live, self.live_bytes);
    }
}

fn key(id: u64, kind: ObjectKind) -> Key {
    Key { id, kind }
}

#[test]
fn references_and_users_stay_each_others_inverse() {
    let mut ledger = Ledger {
        strict: true,
        ..Ledger::default()
    };
    let mut found = Vec::new();
    let device = ledger.device();
    let buffer = key(
        ledger.born(ObjectKind::Buffer, Some("b"), device, &[], 16),
        ObjectKind::Buffer,
    );
    let group = key(
        ledger.born(ObjectKind::BindGroup, None, device, &[buffer], 0),
        ObjectKind::BindGroup,
    );
    let outer = key(
        ledger.born(ObjectKind::BindGroup, None, device, &[group], 0),
        ObjectKind::BindGroup,
    );
    let encoder = ledger.born(ObjectKind::CommandEncoder, None, device, &[], 0);
    let commands = ledger.begin(encoder, device, Some("c"));
    assert!(ledger.refer(commands, outer, &mut found));
    assert_eq!(ledger.commands[&commands].refers.len(), 3);
    ledger.check();
    assert!(ledger.destroy(buffer, device, false, &mut found));
    ledger.check();
    assert_eq!(found[0].violation, Violation::DestroyedWhileEncoding);
    ledger.forget(commands);
    ledger.check();
    assert_eq!(ledger.live_bytes, 0);
    assert!(ledger.objects[&group.id].users.is_empty());
}

#[test]
fn labels_of_the_destroyed_are_bounded() {
    let mut ledger = Ledger::default();
    let device = ledger.device();
    let mut found = Vec::new();
    for _ in 0..TOMBSTONES + 10 {
        let id = ledger.born(ObjectKind::Sampler, Some("s"), device, &[], 0);
        ledger.destroy(key(id, ObjectKind::Sampler), device, false, &mut found);
    }
    assert_eq!(ledger.tombs.len(), TOMBSTONES);
    assert_eq!(ledger.burials.len(), TOMBSTONES);
    assert!(found.is_empty());
}
