//! Mapping, and mapped ranges.

use super::{invalid, memory::Site, Body, Fail, Key, Model, Outcome, Waiting};
use crate::{
    event::{Event, Status},
    step::{Kind, Mode, Usage},
};

#[derive(Default)]
pub(crate) enum Mapping {
    #[default]
    Unmapped,
    /// With its callback.
    Pending(u32),
    Mapped {
        offset: u64,
        size: u64,
    },
    /// Mapped at creation, in staging memory.
    Staged(usize),
}

fn fits(offset: u64, size: u64, within: (u64, u64)) -> bool {
    offset.is_multiple_of(8)
        && size.is_multiple_of(4)
        && offset >= within.0
        && offset + size <= within.1
}

impl Model {
    pub(super) fn mapping(&mut self, buffer: Key) -> &mut Mapping {
        match &mut self.object_mut(buffer).body {
            Body::Buffer { mapping, .. } => mapping,
            _ => unreachable!("it is a buffer"),
        }
    }

    pub(super) fn is_unmapped(&self, buffer: Key) -> bool {
        match &self.object(buffer).body {
            Body::Buffer { mapping, .. } => matches!(mapping, Mapping::Unmapped),
            _ => unreachable!("it is a buffer"),
        }
    }

    pub(super) fn map(&mut self, buffer: Key, id: u32, mode: Mode, offset: u64, size: u64) {
        let device = self.object(buffer).device;
        if self.device(device).lost {
            self.device(device).loose.insert(id);
            return;
        }
        if let Err(fail) = self.start_map(buffer, id, mode, offset, size) {
            self.report(device, fail);
            self.call(device, id, Status::NotMapped);
        }
    }

    fn start_map(&mut self, key: Key, id: u32, mode: Mode, offset: u64, size: u64) -> Outcome {
        let object = self.object(key);
        let device = object.device;
        let Body::Buffer {
            usage, size: whole, ..
        } = object.body
        else {
            unreachable!("it is a buffer")
        };
        let valid = object.valid;
        let names = vec![self.label(key)];
        self.check_alive(device)?;
        let needed = match mode {
            Mode::Reading => Usage::Read,
            Mode::Writing => Usage::Write,
        };
        let fits = fits(offset, size, (0, whole));
        if !valid || !fits || usage != needed || !self.is_present(key) {
            return invalid(names);
        }
        if self.devices[device as usize]
            .writes
            .iter()
            .any(|write| write.target == key)
        {
            self.count("writes flushed by a mapping");
            self.flush(device)?;
        }
        if !self.is_unmapped(key) {
            return invalid(names);
        }
        *self.mapping(key) = Mapping::Pending(id);
        let payload = self.object(key).payload;
        let after = payload.map_or(0, |payload| self.at(payload).last_use);
        self.pending_ranges.insert(id, (offset, size));
        self.wait_for(device, after, Some(key.1), id);
        Ok(())
    }

    pub(super) fn wait_for(&mut self, id: u32, after: u64, buffer: Option<u32>, callback: u32) {
        self.order += 1;
        let order = self.order;
        self.device(id).waiting.push(Waiting {
            after,
            work_done: buffer.is_none(),
            order,
            buffer,
            callback,
        });
    }

    /// A mapping ends before it began.
    pub(super) fn refuse_map(&mut self, device: u32, callback: u32) {
        if self.device(device).lost {
            return;
        }
        self.device(device)
            .waiting
            .retain(|waiting| waiting.callback != callback);
        self.call(device, callback, Status::NotMapped);
    }

    /// A mapping whose submission has completed.
    pub(super) fn resolve_map(&mut self, device: u32, buffer: u32, callback: u32) -> Status {
        let key = (Kind::Buffer, buffer);
        let (offset, size) = self.pending_ranges[&callback];
        let alive = self.check_alive(device).is_ok();
        // Nobody who polls is made to wait for memory.
        let mapped = alive && (size == 0 || self.strike(Site::Map, 0).is_none());
        *self.mapping(key) = if mapped {
            Mapping::Mapped { offset, size }
        } else {
            Mapping::Unmapped
        };
        if mapped {
            Status::Mapped
        } else {
            Status::NotMapped
        }
    }

    pub(super) fn unmap(&mut self, key: Key) {
        if let Some(info) = self.infos.get_mut(&key.1) {
            info.epoch += 1;
        }
        let device = self.object(key).device;
        match std::mem::take(self.mapping(key)) {
            Mapping::Unmapped | Mapping::Mapped { .. } => {}
            Mapping::Pending(callback) => self.refuse_map(device, callback),
            Mapping::Staged(staging) => {
                // A device that is destroyed or lost has no use for the contents.
                if self.check_alive(device).is_ok() {
                    self.push_write(device, key, 0, staging);
                } else {
                    self.destroy(staging);
                }
            }
        }
    }

    pub(super) fn hold(&mut self, key: Key, id: u32, offset: u64, size: u64) {
        let object = self.object(key);
        let (device, own) = (object.device, object.payload);
        let Body::Buffer {
            mapping,
            size: whole,
            ..
        } = &object.body
        else {
            unreachable!("it is a buffer")
        };
        let mut payload = match mapping {
            Mapping::Mapped {
                offset: start,
                size: length,
            } => own.filter(|_| fits(offset, size, (*start, start + length))),
            Mapping::Staged(staging) => Some(*staging).filter(|_| fits(offset, size, (0, *whole))),
            Mapping::Unmapped | Mapping::Pending(_) => None,
        };
        if !self.is_present(key) {
            payload = None;
        }
        self.range_devices.insert(id, device);
        let lost = self.device(device).lost;
        // On a lost device the model has lost track of what is mapped.
        let mapped = if lost {
            self.seen.get(&id).copied().unwrap_or(false)
        } else {
            payload.is_some()
        };
        self.event(device, Event::Held { range: id, mapped });
        if !mapped {
            return;
        }
        if lost {
            payload = match self.mapping(key) {
                Mapping::Staged(staging) => Some(*staging),
                _ => own,
            };
        }
        if let Some(payload) = payload {
            self.at(payload).pins += 1;
        }
        let info = &self.infos[&key.1];
        let body = Body::Range {
            payload,
            offset,
            size,
            buffer: key.1,
            epoch: info.epoch,
            writable: info.usage != Usage::Read || (info.mapped && info.epoch == 0),
        };
        self.insert((Kind::Range, id), device, true, None, body);
    }

    /// The bytes of a range that may be touched.
    fn range(&mut self, id: u32, write: bool) -> Option<(u32, &mut [u16])> {
        let object = self.objects.get(&(Kind::Range, id))?;
        let Body::Range {
            payload,
            offset,
            size,
            buffer,
            epoch,
            writable,
        } = object.body
        else {
            unreachable!("it is a range")
        };
        if self.infos[&buffer].epoch != epoch || (write && !writable) {
            return None;
        }
        let device = object.device;
        let bytes: &mut [u16] = match payload {
            Some(payload) => {
                let range = offset as usize..(offset + size) as usize;
                &mut self.payloads[payload].data[range]
            }
            None => &mut [],
        };
        Some((device, bytes))
    }

    pub(super) fn look(&mut self, id: u32) -> Option<()> {
        let (device, bytes) = self.range(id, false)?;
        let bytes = bytes.to_vec();
        self.event(device, Event::Bytes { range: id, bytes });
        Some(())
    }

    pub(super) fn fill(&mut self, id: u32, value: u8) -> Option<()> {
        let (_, bytes) = self.range(id, true)?;
        bytes.fill(u16::from(value));
        Some(())
    }

    pub(super) fn write_buffer(
        &mut self,
        device: u32,
        key: Key,
        offset: u64,
        size: u64,
        value: u8,
    ) -> Outcome {
        self.check_alive(device)?;
        let object = self.object(key);
        let names = vec![self.label(key)];
        let Body::Buffer {
            usage, size: whole, ..
        } = object.body
        else {
            unreachable!("it is a buffer")
        };
        let fits = offset.is_multiple_of(4) && size.is_multiple_of(4) && offset + size <= whole;
        let right = object.device == device && object.valid && usage != Usage::Write && fits;
        if !right || !self.is_present(key) || !self.is_unmapped(key) {
            return invalid(names);
        }
        if size == 0 {
            return Ok(());
        }
        let staging = self.stage(device, size, &names)?;
        self.at(staging).data.fill(u16::from(value));
        self.push_write(device, key, offset, staging);
        Ok(())
    }

    pub(super) fn write_texture(&mut self, device: u32, key: Key) -> Outcome {
        self.check_alive(device)?;
        let object = self.object(key);
        let names = vec![self.label(key)];
        let Body::Texture { width, .. } = object.body else {
            unreachable!("it is a texture")
        };
        if object.device != device || !object.valid || !self.is_present(key) {
            return Err(Fail::Error(fencepost_core::ErrorKind::Validation, names));
        }
        let staging = self.stage(device, u64::from(width * 4), &names)?;
        self.push_write(device, key, 0, staging);
        Ok(())
    }
}
