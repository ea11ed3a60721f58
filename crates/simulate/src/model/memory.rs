//! When HAL objects come and go.

use super::{invalid, members, part, Body, Fail, Key, Mapping, Model, Outcome, Payload};
use crate::{
    event::{label, Event},
    step::{Fault, Kind, Usage},
};
use fencepost_audit::ObjectKind;
use fencepost_core::ErrorKind;

/// A HAL call that can be made to fail.
#[derive(Clone, Copy)]
pub(super) enum Site {
    Create(ObjectKind),
    Map,
    Begin,
    End,
}

impl Site {
    fn is_of(self, fault: Fault) -> Option<ErrorKind> {
        let memory = match (self, fault) {
            (Self::Create(kind), Fault::Memory(of, _)) => {
                matches!(
                    (kind, of),
                    (ObjectKind::Buffer, Kind::Buffer)
                        | (ObjectKind::Texture, Kind::Texture)
                        | (ObjectKind::TextureView, Kind::View)
                        | (ObjectKind::BindGroup, Kind::Group)
                        | (ObjectKind::QuerySet, Kind::Set)
                )
            }
            (Self::Map, Fault::MapUnexpected(_)) => return Some(ErrorKind::Internal),
            (Self::Map, Fault::MapMemory(_))
            | (Self::Begin, Fault::Begin(_))
            | (Self::End, Fault::End(_)) => true,
            _ => false,
        };
        memory.then_some(ErrorKind::OutOfMemory)
    }
}

fn aligned(size: u64) -> u64 {
    size.max(1).next_multiple_of(4)
}

impl Model {
    // Freeing.

    pub(super) fn payload(
        &mut self,
        device: u32,
        kind: ObjectKind,
        label: String,
        bytes: u64,
    ) -> usize {
        self.payloads.push(Payload {
            device,
            kind,
            label,
            bytes,
            queries: 0,
            last_use: 0,
            destroyed: false,
            pins: 0,
            data: Vec::new(),
        });
        self.live.insert(self.payloads.len() - 1);
        self.payloads.len() - 1
    }

    /// What exists for sure, and what may or may not: its time has come, but nobody has called in since.
    pub fn existing(&self) -> impl Iterator<Item = (&Payload, bool)> {
        self.live.iter().map(|&payload| {
            let payload = &self.payloads[payload];
            let device = &self.devices[payload.device as usize];
            let due =
                payload.destroyed && payload.pins == 0 && payload.last_use <= device.completed;
            (payload, !due && !device.lost)
        })
    }

    /// The number of encoders that exist.
    pub fn encoders(&self) -> (u64, u64) {
        let devices = self.devices.iter().filter(|device| device.exists);
        devices.fold((0, 0), |(least, most), device| {
            let busy = device.encoders.len() as u64;
            let all = busy + u64::from(device.pooled);
            let due = device
                .encoders
                .iter()
                .filter(|&&serial| serial <= device.completed)
                .count();
            // Of those that are due, what does not fit in the pool goes when somebody calls in.
            let kept = busy - due as u64 + (u64::from(device.pooled) + due as u64).min(8);
            (least + kept.min(all), most + all)
        })
    }

    pub(super) fn live_bytes(&self) -> u64 {
        let live = self.live.iter();
        live.map(|&payload| self.payloads[payload].bytes).sum()
    }

    /// What every call of the device's does that may free something.
    pub(super) fn reclaim(&mut self, id: u32) {
        let device = &mut self.devices[id as usize];
        device.reclaimed = device.completed;
        while device
            .encoders
            .front()
            .is_some_and(|serial| *serial <= device.reclaimed)
        {
            device.encoders.pop_front();
            device.pooled = (device.pooled + 1).min(8);
        }
        let reclaimed = device.reclaimed;
        let due = |payload: &usize| {
            let payload = &self.payloads[*payload];
            payload.device == id
                && payload.destroyed
                && payload.pins == 0
                && payload.last_use <= reclaimed
        };
        let due: Vec<_> = self.live.iter().copied().filter(due).collect();
        for payload in due {
            self.live.remove(&payload);
        }
    }

    pub(super) fn destroy(&mut self, payload: usize) {
        if !std::mem::replace(&mut self.payloads[payload].destroyed, true)
            && self.payloads[payload].pins == 0
        {
            self.reclaim(self.payloads[payload].device);
        }
    }

    pub(super) fn destroy_some(&mut self, payload: Option<usize>) {
        if let Some(payload) = payload {
            self.destroy(payload);
        }
    }

    pub(super) fn unpin(&mut self, payload: usize) {
        let this = &mut self.payloads[payload];
        this.pins -= 1;
        if this.pins == 0 && this.destroyed {
            let device = this.device;
            self.reclaim(device);
        }
    }

    pub(super) fn is_present(&self, key: Key) -> bool {
        let payload = self.object(key).payload;
        payload.is_some_and(|payload| !self.payloads[payload].destroyed)
    }

    pub(super) fn at(&mut self, payload: usize) -> &mut Payload {
        &mut self.payloads[payload]
    }

    // Making.

    /// Whether a HAL call fails, and how. Plans count down.
    pub(super) fn strike(&mut self, site: Site, bytes: u64) -> Option<ErrorKind> {
        let mut struck = None;
        self.planned.retain_mut(|(fault, skip)| {
            let Some(error) = site.is_of(*fault) else {
                return true;
            };
            if *skip > 0 {
                *skip -= 1;
                return true;
            }
            struck.get_or_insert(error);
            false
        });
        if struck.is_some() {
            self.count("planned failures");
        }
        let room = self
            .budget
            .map(|budget| budget.saturating_sub(self.live_bytes()));
        if bytes > 0 && room.is_some_and(|room| bytes > room) {
            struck.get_or_insert(ErrorKind::OutOfMemory);
        }
        struck
    }

    /// Tries until it succeeds or nothing is left that could come back: encoders that nobody uses, then memory
    /// that was let go of and waits for the GPU, oldest submission first; and one time more after that.
    pub(super) fn under_pressure(
        &mut self,
        id: u32,
        mut attempt: impl FnMut(&mut Self) -> Option<ErrorKind>,
    ) -> Result<(), ErrorKind> {
        let mut is_last = false;
        loop {
            match attempt(self) {
                None => return Ok(()),
                Some(ErrorKind::OutOfMemory) => {}
                Some(error) => return Err(error),
            }
            if is_last {
                return Err(ErrorKind::OutOfMemory);
            }
            self.reclaim(id);
            if std::mem::take(&mut self.device(id).pooled) > 0 {
                continue;
            }
            let waits = |payload: &usize| {
                let payload = &self.payloads[*payload];
                payload.device == id && payload.destroyed && payload.pins == 0
            };
            if self.live.iter().any(waits) {
                self.count("waits for memory");
                self.device(id).completed += 1;
                self.reclaim(id);
            } else {
                is_last = true;
            }
        }
    }

    fn try_create(
        &mut self,
        device: u32,
        kind: ObjectKind,
        label: &str,
        bytes: u64,
    ) -> Result<usize, ErrorKind> {
        self.reclaim(device);
        self.under_pressure(device, |this| this.strike(Site::Create(kind), bytes))?;
        Ok(self.payload(device, kind, label.to_owned(), bytes))
    }

    /// Makes a HAL object. What the queue was told to write is submitted if memory is short.
    pub(super) fn create(
        &mut self,
        device: u32,
        kind: ObjectKind,
        label: &str,
        bytes: u64,
        names: Vec<String>,
    ) -> Outcome<usize> {
        self.check_alive(device)?;
        let mut made = self.try_create(device, kind, label, bytes);
        if made == Err(ErrorKind::OutOfMemory) {
            if !self.device(device).writes.is_empty() {
                let _ = self.flush(device);
            }
            made = self.try_create(device, kind, label, bytes);
        }
        made.map_err(|error| Fail::Error(error, names))
    }

    /// Enters an object, valid or not.
    pub(super) fn insert_made(
        &mut self,
        key: Key,
        device: u32,
        made: Outcome<Option<usize>>,
        body: Body,
    ) {
        let (valid, payload) = match made {
            Ok(payload) => (true, payload),
            Err(fail) => {
                self.report(device, fail);
                (false, None)
            }
        };
        self.insert(key, device, valid, payload, body);
    }

    /// Staging memory, mapped and filled with zeros.
    pub(super) fn stage(&mut self, device: u32, size: u64, names: &[String]) -> Outcome<usize> {
        let kind = ObjectKind::Buffer;
        let bytes = aligned(size);
        let staging = self.create(device, kind, "staging", bytes, names.to_vec())?;
        let mapped = self.under_pressure(device, |this| this.strike(Site::Map, 0));
        if let Err(error) = mapped {
            self.destroy(staging);
            return Err(Fail::Error(error, names.to_vec()));
        }
        self.at(staging).data = vec![0; size as usize];
        Ok(staging)
    }

    pub(super) fn make_buffer(
        &mut self,
        device: u32,
        id: u32,
        size: u64,
        usage: Usage,
        mapped: bool,
    ) {
        let name = label(device, Kind::Buffer, id);
        let mut mapping = Mapping::Unmapped;
        let made = self.try_make_buffer(device, &name, size, usage, mapped, &mut mapping);
        let info = super::BufferInfo {
            usage,
            mapped,
            epoch: 0,
        };
        self.infos.insert(id, info);
        let body = Body::Buffer {
            usage,
            size,
            mapping,
        };
        self.insert_made((Kind::Buffer, id), device, made.map(Some), body);
    }

    fn try_make_buffer(
        &mut self,
        device: u32,
        name: &str,
        size: u64,
        usage: Usage,
        mapped: bool,
        mapping: &mut Mapping,
    ) -> Outcome<usize> {
        let names = vec![name.to_owned()];
        let uploads = usage == Usage::Write;
        self.check_alive(device)?;
        let staging = if mapped && !uploads && size > 0 {
            Some(self.stage(device, size, &names)?)
        } else {
            None
        };
        let made = self.create(
            device,
            ObjectKind::Buffer,
            name,
            aligned(size),
            names.clone(),
        );
        let payload = match made {
            Ok(payload) => payload,
            Err(fail) => {
                self.destroy_some(staging);
                return Err(fail);
            }
        };
        self.at(payload).data = vec![0; size as usize];
        if let Some(staging) = staging {
            *mapping = Mapping::Staged(staging);
        } else if mapped {
            if size > 0 {
                let mapped = self.under_pressure(device, |this| this.strike(Site::Map, 0));
                if let Err(error) = mapped {
                    self.destroy(payload);
                    return Err(Fail::Error(error, names));
                }
            }
            *mapping = Mapping::Mapped { offset: 0, size };
        }
        Ok(payload)
    }

    pub(super) fn make_view(&mut self, texture: Key, id: u32) {
        let device = self.object(texture).device;
        let name = label(device, Kind::View, id);
        let names = vec![name.clone(), self.label(texture)];
        let made = if let Err(fail) = self.check_alive(device) {
            Err(fail)
        } else if !self.object(texture).valid {
            invalid(names)
        } else if self.is_present(texture) {
            let kind = ObjectKind::TextureView;
            self.create(device, kind, &name, 0, names).map(Some)
        } else {
            Ok(None)
        };
        self.retain(texture);
        let body = Body::View { texture: texture.1 };
        self.insert_made((Kind::View, id), device, made, body);
    }

    pub(super) fn make_group(&mut self, device: u32, id: u32, buffers: [u32; 3], view: u32) {
        let name = label(device, Kind::Group, id);
        let members = members(buffers, view);
        let fine = members
            .iter()
            .take_while(|key| self.can_bind(device, **key));
        let fine = fine.count();
        let made = self.try_make_group(device, &name, members, fine);
        self.retain(part(device, 0));
        let lost = self.devices[device as usize].lost;
        let holds: Vec<Key> = match &made {
            Ok(_) => members.to_vec(),
            // The driver may have made it before it lost the device.
            Err(_) if lost => {
                let own = |key: &Key| self.object(*key).device == device;
                members.into_iter().filter(own).collect()
            }
            Err(_) => Vec::new(),
        };
        for key in &holds {
            self.retain(*key);
        }
        let body = Body::Group {
            buffers,
            view,
            holds,
        };
        self.insert_made((Kind::Group, id), device, made, body);
    }

    fn can_bind(&self, device: u32, key: Key) -> bool {
        let object = self.object(key);
        let fits = match object.body {
            Body::Buffer { usage, size, .. } => usage == Usage::Storage && size > 0,
            _ => true,
        };
        object.device == device && object.valid && fits
    }

    fn try_make_group(
        &mut self,
        device: u32,
        name: &str,
        members: [Key; 4],
        fine: usize,
    ) -> Outcome<Option<usize>> {
        self.check_alive(device)?;
        if let Some(bad) = members.get(fine) {
            return invalid(vec![self.label(*bad)]);
        }
        if !members.iter().all(|key| self.is_present(*key)) {
            return Ok(None);
        }
        let kind = ObjectKind::BindGroup;
        self.create(device, kind, name, 0, vec![name.to_owned()])
            .map(Some)
    }

    // Destroying.

    /// Bind groups that name an object, and views of a texture, go with it.
    fn destroy_with(&mut self, payload: usize, of: impl Fn(&Model, &Body) -> bool) {
        if self.payloads[payload].destroyed {
            return;
        }
        self.payloads[payload].destroyed = true;
        let dependants: Vec<_> = self
            .objects
            .values()
            .filter(|object| of(self, &object.body))
            .filter_map(|object| object.payload)
            .collect();
        for dependant in dependants {
            self.destroy(dependant);
        }
        if self.payloads[payload].pins == 0 {
            self.reclaim(self.payloads[payload].device);
        }
    }

    pub(super) fn destroy_buffer(&mut self, key: Key) {
        let object = self.object_mut(key);
        let (device, payload) = (object.device, object.payload);
        let Body::Buffer { mapping, .. } = &mut object.body else {
            unreachable!("it is a buffer")
        };
        let mapping = std::mem::take(mapping);
        self.end_buffer(key.1, device, payload, mapping);
    }

    pub(super) fn end_buffer(
        &mut self,
        id: u32,
        device: u32,
        payload: Option<usize>,
        mapping: Mapping,
    ) {
        if let Some(payload) = payload {
            self.destroy_with(
                payload,
                |_, body| matches!(body, Body::Group { buffers, .. } if buffers.contains(&id)),
            );
        }
        match mapping {
            Mapping::Unmapped | Mapping::Mapped { .. } => {}
            Mapping::Pending(callback) => self.refuse_map(device, callback),
            Mapping::Staged(staging) => self.destroy(staging),
        }
        self.forget_writes(device, (Kind::Buffer, id));
    }

    pub(super) fn end_texture(&mut self, id: u32, device: u32, payload: Option<usize>) {
        if let Some(payload) = payload {
            self.destroy_with(payload, |this, body| match body {
                Body::View { texture } => *texture == id,
                Body::Group { view, .. } => {
                    let view = this.objects.get(&(Kind::View, *view));
                    let view = view.map(|view| &view.body);
                    matches!(view, Some(Body::View { texture }) if *texture == id)
                }
                _ => false,
            });
        }
        self.forget_writes(device, (Kind::Texture, id));
    }

    pub(super) fn destroy_device(&mut self, id: u32) {
        if std::mem::replace(&mut self.device(id).destroyed, true) {
            return;
        }
        self.count("destroyed devices");
        self.drop_writes(id);
        let all: Vec<_> = self.live.iter().copied().collect();
        for payload in all {
            if self.payloads[payload].device == id {
                self.destroy(payload);
            }
        }
        self.reclaim(id);
    }

    /// The last handle of a device, of its queue and of everything made from it is gone.
    pub(super) fn end_device(&mut self, id: u32) {
        self.device(id).completed = self.devices[id as usize].submitted;
        self.drop_writes(id);
        let zeros = self.devices[id as usize].zeros;
        self.destroy(zeros);
        self.reclaim(id);
        if self.device(id).lost {
            self.live
                .retain(|payload| self.payloads[*payload].device != id);
        } else {
            // One more reference: callbacks may not end it a second time.
            self.fire(id);
        }
        self.device(id).exists = false;
        self.count("ended devices");
    }

    /// The driver lost the device.
    pub(super) fn lose(&mut self, id: u32) {
        self.count("lost devices");
        let device = self.device(id);
        device.lost = true;
        device.completed = device.submitted;
        let waiting = std::mem::take(&mut device.waiting);
        let waiting = waiting.iter().map(|waiting| waiting.callback);
        device.loose.extend(waiting);
        let ready = std::mem::take(&mut device.ready);
        device
            .loose
            .extend(ready.iter().map(|(callback, _)| *callback));
        let on_lost = device.on_lost.take();
        device.loose_lost.extend(on_lost);
        device.encoders.clear();
        device.pooled = 0;
    }

    pub(super) fn memory_report(&mut self, id: u32) {
        self.reclaim(id);
        let (mut bytes, mut retired_bytes) = (0, 0);
        for payload in &self.live {
            let payload = &self.payloads[*payload];
            if payload.device == id {
                let own = payload.bytes + payload.queries;
                bytes += own;
                retired_bytes += if payload.destroyed { own } else { 0 };
            }
        }
        let device = &self.devices[id as usize];
        let in_flight = device.submitted - device.completed;
        self.event(
            id,
            Event::Report {
                device: id,
                bytes,
                retired_bytes,
                in_flight,
            },
        );
    }
}
