//! The queue: what a submission does, and when callbacks run.

use super::{invalid, memory::Site, part, Body, Fail, Key, Model, Outcome, Write};
use crate::{
    event::{Event, Polled, Status, UNKNOWN},
    model::record::{Command, Recording},
    step::{Kind, Step, Wait},
};
use std::collections::BTreeSet;

impl Model {
    pub(super) fn push_write(&mut self, device: u32, target: Key, offset: u64, staging: usize) {
        self.device(device).writes.push(Write {
            target,
            offset,
            staging,
        });
    }

    /// Writes whose target goes go with it, and their memory is back.
    pub(super) fn forget_writes(&mut self, device: u32, target: Key) {
        let writes = std::mem::take(&mut self.device(device).writes);
        for write in writes {
            if write.target == target {
                self.count("writes forgotten with their target");
                self.destroy(write.staging);
            } else {
                self.device(device).writes.push(write);
            }
        }
    }

    pub(super) fn drop_writes(&mut self, device: u32) {
        for write in std::mem::take(&mut self.device(device).writes) {
            self.destroy(write.staging);
        }
    }

    /// Submits the writes that wait.
    pub(super) fn flush(&mut self, device: u32) -> Outcome {
        let result = self.accept(device, &[]);
        self.reclaim(device);
        result
    }

    pub(super) fn submit(&mut self, device: u32, ids: &[u32], during: &[Step]) {
        let mut taken = Vec::new();
        for id in ids {
            let key = (Kind::Commands, *id);
            if self
                .objects
                .get(&key)
                .is_some_and(|object| object.handles > 0)
            {
                let object = self.object_mut(key);
                object.handles = 0;
                taken.push(key);
            }
        }
        if !self.quiet {
            self.nested += 1;
            for step in during {
                self.step(step);
            }
            self.nested -= 1;
        }
        self.reclaim(device);
        let result = self.accept(device, &taken);
        for key in taken {
            self.release(key);
        }
        if let Err(fail) = result {
            if let Fail::Error(..) = fail {
                self.count("refused submissions");
            }
            self.report(device, fail);
        }
        self.reclaim(device);
        self.fire(device);
    }

    fn recording(&self, key: Key) -> Option<&Recording> {
        match &self.object(key).body {
            Body::Commands { recording, .. } => recording.as_ref(),
            _ => unreachable!("it is a command buffer"),
        }
    }

    /// The objects that a submission of a recording needs, those of bind groups included.
    fn needed(&self, recording: &Recording) -> BTreeSet<Key> {
        let mut needed = BTreeSet::new();
        let mut add = |kind, ids: &[u32]| needed.extend(ids.iter().map(|id| (kind, *id)));
        add(Kind::Buffer, &recording.buffers);
        add(Kind::Texture, &recording.textures);
        add(Kind::Set, &recording.sets);
        add(Kind::Kit, &recording.pipelines);
        for group in &recording.groups {
            add(Kind::Group, &[*group]);
            let group = self.object((Kind::Group, *group));
            if let Body::Group { buffers, view, .. } = &group.body {
                add(Kind::Buffer, buffers);
                add(Kind::View, &[*view]);
                add(Kind::Kit, &[part(group.device, 0).1]);
                if let Body::View { texture } = self.object((Kind::View, *view)).body {
                    add(Kind::Texture, &[texture]);
                }
            }
        }
        for pipeline in &recording.pipelines {
            add(Kind::Kit, &[pipeline - 1, pipeline - 2]);
        }
        needed
    }

    /// All of the command buffers run, after the writes that wait, or nothing does.
    fn accept(&mut self, device: u32, commands: &[Key]) -> Outcome {
        self.check_alive(device)?;
        for key in commands {
            let Body::Commands { recording, label } = &self.object(*key).body else {
                unreachable!("it is a command buffer")
            };
            if self.object(*key).device != device || recording.is_none() {
                return invalid(vec![label.clone()]);
            }
        }
        let mut needed = BTreeSet::new();
        let mut empty = self.device(device).writes.is_empty();
        for key in commands {
            let recording = self.recording(*key).expect("it was looked at");
            empty &= recording.commands.is_empty();
            needed.append(&mut self.needed(recording));
        }
        let mut bad = Vec::new();
        for key in &needed {
            let there = self.is_present(*key);
            if !there || (key.0 == Kind::Buffer && !self.is_unmapped(*key)) {
                bad.push(self.label(*key));
            }
        }
        if !bad.is_empty() {
            return invalid(bad);
        }
        if !empty {
            let begun = self.under_pressure(device, |this| {
                let pooled = &mut this.device(device).pooled;
                *pooled = pooled.saturating_sub(1);
                this.strike(Site::Begin, 0)
            });
            begun
                .and_then(|()| self.strike(Site::End, 0).map_or(Ok(()), Err))
                .map_err(|error| Fail::Error(error, Vec::new()))?;
        }
        self.count("submissions");
        self.device(device).submitted += 1;
        let serial = self.device(device).submitted;
        if !empty {
            self.device(device).encoders.push_back(serial);
        }
        let writes = std::mem::take(&mut self.device(device).writes);
        needed.extend(writes.iter().map(|write| write.target));
        let used = needed.iter().filter_map(|key| self.object(*key).payload);
        let mut used: Vec<usize> = used.collect();
        used.extend(writes.iter().map(|write| write.staging));
        used.push(self.device(device).zeros);
        for payload in used {
            self.at(payload).last_use = serial;
        }
        for write in &writes {
            self.carry_out(write);
        }
        for key in commands {
            let recording = self.recording(*key).expect("it was looked at");
            for command in recording.commands.clone() {
                self.execute(command);
            }
        }
        for write in writes {
            self.destroy(write.staging);
        }
        Ok(())
    }

    fn bytes(&mut self, buffer: u32) -> &mut Vec<u16> {
        let payload = self.object((Kind::Buffer, buffer)).payload;
        &mut self
            .at(payload.expect("it was there at the submission"))
            .data
    }

    fn carry_out(&mut self, write: &Write) {
        if write.target.0 == Kind::Buffer {
            let data = self.at(write.staging).data.clone();
            let start = write.offset as usize;
            self.bytes(write.target.1)[start..start + data.len()].copy_from_slice(&data);
        }
    }

    fn execute(&mut self, command: Command) {
        match command {
            Command::Copy {
                from,
                from_offset,
                to,
                to_offset,
                size,
            } => {
                let (start, to_start, size) =
                    (from_offset as usize, to_offset as usize, size as usize);
                let data = self.bytes(from)[start..start + size].to_vec();
                self.bytes(to)[to_start..to_start + size].copy_from_slice(&data);
            }
            Command::Clear {
                buffer,
                offset,
                size,
            } => {
                self.bytes(buffer)[offset as usize..(offset + size) as usize].fill(0);
            }
            Command::Overwrite {
                buffer,
                offset,
                size,
            } => {
                self.bytes(buffer)[offset as usize..(offset + size) as usize].fill(UNKNOWN);
            }
            Command::Timestamp { set, index } => {
                self.written(set)[index as usize] = true;
            }
            Command::Resolve {
                set,
                first,
                count,
                buffer,
                offset,
            } => {
                for query in 0..count {
                    let written = self.written(set)[(first + query) as usize];
                    let start = (offset + u64::from(query) * 8) as usize;
                    let value = if written { UNKNOWN } else { 0 };
                    self.bytes(buffer)[start..start + 8].fill(value);
                }
            }
            Command::Other => {}
        }
    }

    fn written(&mut self, set: u32) -> &mut Vec<bool> {
        match &mut self.object_mut((Kind::Set, set)).body {
            Body::Set { written } => written,
            _ => unreachable!("it is a query set"),
        }
    }

    // Callbacks.

    pub(super) fn work_done(&mut self, device: u32, callback: u32) {
        if self.device(device).lost {
            self.device(device).loose.insert(callback);
            return;
        }
        let after = self.device(device).submitted;
        self.wait_for(device, after, None, callback);
    }

    /// Calls a callback, whose steps run at once.
    pub(super) fn call(&mut self, device: u32, callback: u32, status: Status) {
        self.count("callbacks");
        self.event(device, Event::Called { callback, status });
        let then = std::mem::take(
            &mut self
                .callbacks
                .get_mut(&callback)
                .expect("callbacks are never removed")
                .then,
        );
        if !self.quiet && !self.device(device).lost {
            self.nested += 1;
            for step in &then {
                self.count("steps in callbacks");
                self.step(step);
            }
            self.nested -= 1;
        }
    }

    /// Runs the callbacks that are ready: by submission, mappings first, as they were asked for.
    pub(super) fn fire(&mut self, id: u32) {
        if self.device(id).lost {
            return;
        }
        let reclaimed = self.device(id).reclaimed;
        let waiting = std::mem::take(&mut self.device(id).waiting);
        let (mut due, later): (Vec<_>, Vec<_>) = waiting
            .into_iter()
            .partition(|waiting| waiting.after <= reclaimed);
        self.device(id).waiting = later;
        due.sort_by_key(|waiting| (waiting.after, waiting.work_done, waiting.order));
        for waiting in due {
            let callback = waiting.callback;
            let status = match waiting.buffer {
                Some(buffer) => self.resolve_map(id, buffer, callback),
                None => Status::Done,
            };
            self.device(id).ready.push_back((callback, status));
        }
        while let Some((callback, status)) = self.device(id).ready.pop_front() {
            self.call(id, callback, status);
        }
        let device = self.device(id);
        if device.destroyed && device.reclaimed == device.submitted {
            if let Some(callback) = device.on_lost.take() {
                self.call(id, callback, Status::Destroyed);
            }
        }
    }

    pub(super) fn poll(&mut self, id: u32, wait: Wait) {
        if wait == Wait::Full {
            let device = self.device(id);
            device.completed = device.submitted;
        }
        if wait == Wait::Timeout {
            self.quiet = true;
        }
        self.reclaim(id);
        let device = self.device(id);
        let idle = device.reclaimed == device.submitted;
        self.fire(id);
        if wait == Wait::Timeout {
            self.quiet = false;
        }
        let answer = match wait {
            _ if idle => Polled::Empty,
            Wait::No => Polled::Busy,
            Wait::Full => Polled::Succeeded,
            Wait::Timeout => Polled::Timeout,
        };
        self.event(id, Event::Polled { device: id, answer });
    }
}
