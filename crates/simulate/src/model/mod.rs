//! What the promise says a program must see, worked out from the program alone.
//!
//! The model knows nothing of the core's code. It counts handles, numbers submissions, and notes for each
//! piece of GPU memory the last submission that uses it:
//!
//! * memory that was let go of is back once that submission has completed: in the call that lets go of it if
//!   it has completed before, and otherwise by the end of the next call that submits, polls, creates,
//!   destroys or drops something of that device's;
//! * what a submission does to the bytes of buffers happens in the order of submission; what nobody has
//!   written is zero;
//! * callbacks run in `poll` and `submit`, in the order of the submissions that they wait for, mappings
//!   before work-done callbacks; those of a mapping that ends before it began run at once;
//! * of a submission that breaks a rule nothing happens, and its command buffers are gone.
//!
//! Of a device that the driver has lost it says less: nothing is reported, nothing is made, every callback
//! runs once, and everything that is dropped is freed.

mod mapping;
mod memory;
mod queue;
mod record;

use crate::{
    event::{label, Event, ExpectedError},
    step::{Fault, Kind, Step, Usage, Wait},
};
use fencepost_audit::ObjectKind;
use fencepost_core::ErrorKind;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

pub(crate) use mapping::Mapping;
pub(crate) use record::{Phase, Recording};

/// The name of an object. Of a kit, the number counts its three parts.
pub(crate) type Key = (Kind, u32);

/// What a failed call does.
pub(crate) enum Fail {
    /// Nothing is said: the device is destroyed or lost.
    Quiet,
    /// An error that names one of these.
    Error(ErrorKind, Vec<String>),
}

pub(crate) type Outcome<T = ()> = Result<T, Fail>;

fn invalid<T>(names: Vec<String>) -> Outcome<T> {
    Err(Fail::Error(ErrorKind::Validation, names))
}

/// A piece of GPU memory, or another HAL object.
pub(crate) struct Payload {
    pub device: u32,
    pub kind: ObjectKind,
    pub label: String,
    /// As the auditor counts.
    pub bytes: u64,
    /// What the core's own report adds to that.
    queries: u64,
    /// The last submission that uses it.
    pub last_use: u64,
    pub destroyed: bool,
    /// Mapped ranges that show it.
    pub pins: u32,
    /// The contents of a buffer.
    pub data: Vec<u16>,
}

pub(crate) struct Object {
    pub device: u32,
    /// Of the program.
    pub handles: u32,
    /// Of the program and of other objects.
    references: u32,
    /// Whether its creation succeeded.
    pub valid: bool,
    /// The payload, unless it was made of something destroyed.
    pub payload: Option<usize>,
    pub body: Body,
}

pub(crate) enum Body {
    Buffer {
        usage: Usage,
        size: u64,
        mapping: Mapping,
    },
    Texture {
        width: u32,
    },
    View {
        texture: u32,
    },
    Group {
        buffers: [u32; 3],
        view: u32,
        /// The members that it keeps.
        holds: Vec<Key>,
    },
    Set {
        written: Vec<bool>,
    },
    /// Of a kit, with the part that it was made of.
    Part(Option<Key>),
    Encoder {
        phase: Phase,
        error: Option<Vec<String>>,
    },
    Pass {
        encoder: u32,
        recording: Option<Recording>,
        error: Option<Vec<String>>,
        pipeline: bool,
        group: Option<u32>,
    },
    Commands {
        recording: Option<Recording>,
        label: String,
    },
    Range {
        payload: Option<usize>,
        offset: u64,
        size: u64,
        buffer: u32,
        epoch: u32,
        writable: bool,
    },
}

struct Callback {
    device: u32,
    then: Vec<Step>,
}

/// A write of the queue's that waits.
struct Write {
    target: Key,
    offset: u64,
    staging: usize,
}

struct Waiting {
    after: u64,
    work_done: bool,
    order: u64,
    /// The buffer that is to be mapped.
    buffer: Option<u32>,
    callback: u32,
}

#[derive(Default)]
pub(crate) struct Device {
    references: u32,
    pub handles: u32,
    pub queues: u32,
    pub kits: u32,
    pub exists: bool,
    pub destroyed: bool,
    pub lost: bool,
    pub submitted: u64,
    pub completed: u64,
    /// What the core has been able to notice of `completed`.
    reclaimed: u64,
    /// The submissions whose encoders are in use, and the number of encoders that are not.
    encoders: VecDeque<u64>,
    pooled: u32,
    writes: Vec<Write>,
    waiting: Vec<Waiting>,
    ready: VecDeque<(u32, crate::event::Status)>,
    on_lost: Option<u32>,
    zeros: usize,
    /// Callbacks of a lost device, which run whenever they do; those that must.
    pub loose: HashSet<u32>,
    pub loose_lost: HashSet<u32>,
}

pub(crate) struct BufferInfo {
    pub usage: Usage,
    pub mapped: bool,
    pub epoch: u32,
}

#[derive(Default)]
pub(crate) struct Model {
    pub devices: Vec<Device>,
    pub objects: BTreeMap<Key, Object>,
    payloads: Vec<Payload>,
    /// The payloads that are not freed.
    live: BTreeSet<usize>,
    infos: HashMap<u32, BufferInfo>,
    made: HashSet<Key>,
    callbacks: HashMap<u32, Callback>,
    pub range_devices: HashMap<u32, u32>,
    /// What each mapping asked for.
    pending_ranges: HashMap<u32, (u64, u64)>,
    /// Failures that are planned, with the number of calls before each.
    planned: Vec<(Fault, u64)>,
    /// In bytes, for all devices together.
    pub budget: Option<u64>,
    pub loss_planned: bool,
    quiet: bool,
    /// How deep in user code the step is.
    nested: u32,
    order: u64,
    /// What the steps that run have taken a handle of.
    borrowed: Vec<Key>,
    /// Whether a mapped range of a lost device was to be had.
    seen: HashMap<u32, bool>,
    pub events: Vec<Event>,
    pub errors: Vec<ExpectedError>,
    /// What happened, for statistics.
    pub tally: HashMap<&'static str, u64>,
}

/// What cannot be foreseen and must be taken from the run.
#[derive(Default)]
pub(crate) struct Seen {
    /// Whether the loss that was planned has happened.
    pub loss_done: bool,
    /// The devices that are lost now.
    pub lost: Vec<bool>,
    pub held: HashMap<u32, bool>,
}

fn members(buffers: [u32; 3], view: u32) -> [Key; 4] {
    let [a, b, c] = buffers.map(|buffer| (Kind::Buffer, buffer));
    [a, b, c, (Kind::View, view)]
}

fn part(device: u32, part: u32) -> Key {
    (Kind::Kit, device * 3 + part)
}

impl Model {
    pub fn new(devices: u32) -> Self {
        let mut this = Self::default();
        for device in 0..devices {
            let zeros = this.payload(device, ObjectKind::Buffer, "zeros".into(), 512 << 10);
            this.devices.push(Device {
                references: 2,
                handles: 1,
                queues: 1,
                kits: 1,
                exists: true,
                submitted: 1,
                completed: 1,
                reclaimed: 1,
                zeros,
                ..Device::default()
            });
            let kinds = [
                ObjectKind::BindGroupLayout,
                ObjectKind::PipelineLayout,
                ObjectKind::ComputePipeline,
            ];
            for (number, kind) in (0..).zip(kinds) {
                let payload = this.payload(device, kind, label(device, Kind::Kit, device), 0);
                let below = (number > 0).then(|| part(device, number - 1));
                let key = part(device, number);
                this.insert(key, device, true, Some(payload), Body::Part(below));
                below.into_iter().for_each(|below| this.retain(below));
            }
        }
        this
    }

    // Handles.

    fn insert(&mut self, key: Key, device: u32, valid: bool, payload: Option<usize>, body: Body) {
        let object = Object {
            device,
            handles: 1,
            references: 1,
            valid,
            payload,
            body,
        };
        self.retain((Kind::Device, device));
        self.objects.insert(key, object);
    }

    fn retain(&mut self, key: Key) {
        match key.0 {
            Kind::Device => self.devices[key.1 as usize].references += 1,
            _ => self.object_mut(key).references += 1,
        }
    }

    /// Lets go of one reference, and of what held it if it was the last.
    fn release(&mut self, key: Key) {
        if key.0 == Kind::Device {
            let device = &mut self.devices[key.1 as usize];
            device.references -= 1;
            if device.references == 0 {
                self.end_device(key.1);
            }
            return;
        }
        let object = self.object_mut(key);
        object.references -= 1;
        if object.references > 0 {
            return;
        }
        let object = self.objects.remove(&key).expect("it was there a line ago");
        let device = object.device;
        self.end_object(key, object);
        self.release((Kind::Device, device));
    }

    fn end_object(&mut self, key: Key, object: Object) {
        match object.body {
            Body::Buffer { mapping, .. } => {
                self.end_buffer(key.1, object.device, object.payload, mapping);
            }
            Body::Texture { .. } => self.end_texture(key.1, object.device, object.payload),
            Body::View { texture } => {
                self.destroy_some(object.payload);
                self.release((Kind::Texture, texture));
            }
            Body::Group { holds, .. } => {
                self.destroy_some(object.payload);
                self.release(part(object.device, 0));
                for key in holds {
                    self.release(key);
                }
            }
            Body::Set { .. } => self.destroy_some(object.payload),
            Body::Part(Some(below)) => {
                self.destroy_some(object.payload);
                self.release(below);
            }
            // What was made with a layout keeps it, so letting go of it need not free anything.
            Body::Part(None) => {
                if let Some(payload) = object.payload {
                    self.at(payload).destroyed = true;
                }
            }
            Body::Encoder { phase, .. } => {
                if let Phase::Open(recording) = phase {
                    self.forget(object.device, recording);
                }
            }
            Body::Pass {
                encoder,
                recording,
                error,
                ..
            } => {
                self.end_pass(encoder, recording, error);
                self.release((Kind::Encoder, encoder));
            }
            Body::Commands { recording, .. } => {
                if let Some(recording) = recording {
                    self.forget(object.device, recording);
                }
            }
            Body::Range { payload, .. } => {
                if let Some(payload) = payload {
                    self.unpin(payload);
                }
            }
        }
    }

    fn object(&self, key: Key) -> &Object {
        &self.objects[&key]
    }

    fn object_mut(&mut self, key: Key) -> &mut Object {
        self.objects
            .get_mut(&key)
            .expect("what is referred to exists")
    }

    /// The program's handle of an object, which the step holds until it ends.
    fn find(&mut self, kind: Kind, id: u32) -> Option<Key> {
        let there = match kind {
            Kind::Device => self.devices.get(id as usize).is_some_and(Device::is_held),
            _ => self
                .objects
                .get(&(kind, id))
                .is_some_and(|object| object.handles > 0),
        };
        there.then(|| {
            self.retain((kind, id));
            self.borrowed.push((kind, id));
            (kind, id)
        })
    }

    fn find_kit(&mut self, device: u32) -> Option<()> {
        (self.devices.get(device as usize)?.kits > 0).then(|| {
            for number in [0, 2, 1] {
                self.retain(part(device, number));
                self.borrowed.push(part(device, number));
            }
        })
    }

    fn claim(&mut self, kind: Kind, id: u32) -> Option<()> {
        self.made.insert((kind, id)).then_some(())
    }

    fn claim_callback(&mut self, device: u32, id: u32, then: &[Step]) -> Option<()> {
        if self.callbacks.contains_key(&id) {
            return None;
        }
        let then = then.to_vec();
        self.callbacks.insert(id, Callback { device, then });
        Some(())
    }

    pub fn label(&self, key: Key) -> String {
        label(self.object(key).device, key.0, key.1)
    }

    pub fn callback_device(&self, callback: u32) -> Option<u32> {
        Some(self.callbacks.get(&callback)?.device)
    }

    // Errors and events.

    fn device(&mut self, id: u32) -> &mut Device {
        &mut self.devices[id as usize]
    }

    fn is_silent(&self, device: u32) -> bool {
        let device = &self.devices[device as usize];
        device.lost || device.destroyed
    }

    fn check_alive(&self, device: u32) -> Outcome {
        if self.is_silent(device) {
            Err(Fail::Quiet)
        } else {
            Ok(())
        }
    }

    /// Once a device is lost or destroyed, errors are no longer surfaced (specification, section 22).
    fn report(&mut self, device: u32, fail: Fail) {
        if let Fail::Error(kind, names) = fail {
            if !self.is_silent(device) {
                self.count(match kind {
                    ErrorKind::Validation => "validation errors",
                    ErrorKind::OutOfMemory => "out of memory",
                    ErrorKind::Internal | ErrorKind::DeviceLost => "internal errors",
                });
                self.errors.push(ExpectedError {
                    device,
                    kind,
                    names,
                });
            }
        }
    }

    fn count(&mut self, what: &'static str) {
        *self.tally.entry(what).or_default() += 1;
    }

    fn event(&mut self, device: u32, event: Event) {
        if !self.devices[device as usize].lost {
            self.events.push(event);
        }
    }

    // Steps.

    /// Runs a step that is not nested in another one, given what was seen of it.
    pub fn top(&mut self, step: &Step, seen: Seen) {
        self.events.clear();
        self.errors.clear();
        self.seen = seen.held;
        self.quiet = self.loss_planned;
        for (id, lost) in (0..).zip(&seen.lost) {
            if *lost && !self.devices[id as usize].lost {
                self.lose(id);
            }
        }
        if self.budget.is_some() {
            self.settle();
        }
        self.step(step);
        self.loss_planned &= !seen.loss_done;
    }

    fn settle(&mut self) {
        for device in 0..self.devices.len() as u32 {
            if self.devices[device as usize].exists {
                self.reclaim(device);
            }
        }
    }

    fn step(&mut self, step: &Step) {
        let borrowed = self.borrowed.len();
        if self.run(step).is_none() {
            self.count("steps that had nothing to do");
        }
        while self.borrowed.len() > borrowed {
            let key = self.borrowed.pop().expect("it is longer than before");
            self.release(key);
        }
    }

    fn run(&mut self, step: &Step) -> Option<()> {
        match *step {
            Step::MakeBuffer {
                device,
                id,
                size,
                usage,
                mapped,
            } => {
                self.find(Kind::Device, device)?;
                self.claim(Kind::Buffer, id)?;
                self.make_buffer(device, id, size, usage, mapped);
            }
            Step::MakeTexture {
                device,
                id,
                width,
                layers,
            } => {
                self.find(Kind::Device, device)?;
                self.claim(Kind::Texture, id)?;
                let name = label(device, Kind::Texture, id);
                let bytes = u64::from(width * layers * 4);
                let made = self.create(
                    device,
                    ObjectKind::Texture,
                    &name,
                    bytes,
                    vec![name.clone()],
                );
                let body = Body::Texture { width };
                self.insert_made((Kind::Texture, id), device, made.map(Some), body);
            }
            Step::MakeView { texture, id } => {
                let texture = self.find(Kind::Texture, texture)?;
                self.claim(Kind::View, id)?;
                self.make_view(texture, id);
            }
            Step::MakeGroup {
                device,
                id,
                reads,
                writes,
                view,
            } => {
                self.find(Kind::Device, device)?;
                self.find_kit(device)?;
                let buffers = [reads.0, reads.1, writes];
                for buffer in buffers {
                    self.find(Kind::Buffer, buffer)?;
                }
                self.find(Kind::View, view)?;
                self.claim(Kind::Group, id)?;
                self.make_group(device, id, buffers, view);
            }
            Step::MakeSet { device, id, count } => {
                self.find(Kind::Device, device)?;
                self.claim(Kind::Set, id)?;
                let name = label(device, Kind::Set, id);
                let made = self.create(device, ObjectKind::QuerySet, &name, 0, vec![name.clone()]);
                if let Ok(payload) = &made {
                    self.at(*payload).queries = 8 * u64::from(count);
                }
                let written = vec![false; count as usize];
                let body = Body::Set { written };
                self.insert_made((Kind::Set, id), device, made.map(Some), body);
            }
            Step::MakeEncoder { device, id } => {
                self.find(Kind::Device, device)?;
                self.claim(Kind::Encoder, id)?;
                let body = Body::Encoder {
                    phase: Phase::Open(Recording::default()),
                    error: None,
                };
                self.insert((Kind::Encoder, id), device, true, None, body);
            }
            Step::Finish { encoder, id } => {
                let encoder = self.find(Kind::Encoder, encoder)?;
                self.claim(Kind::Commands, id)?;
                self.finish(encoder, id);
            }
            Step::Submit {
                device,
                ref commands,
                ref during,
            } => {
                self.find(Kind::Device, device)?;
                self.submit(device, &commands.0, &during.0);
            }
            Step::WriteBuffer {
                device,
                buffer,
                offset,
                size,
                value,
            } => {
                self.find(Kind::Device, device)?;
                let buffer = self.find(Kind::Buffer, buffer)?;
                let written = self.write_buffer(device, buffer, offset, size, value);
                written.unwrap_or_else(|fail| self.report(device, fail));
            }
            Step::WriteTexture { device, texture } => {
                self.find(Kind::Device, device)?;
                let texture = self.find(Kind::Texture, texture)?;
                let written = self.write_texture(device, texture);
                written.unwrap_or_else(|fail| self.report(device, fail));
            }
            Step::Map {
                buffer,
                id,
                mode,
                offset,
                size,
                ref then,
            } => {
                let buffer = self.find(Kind::Buffer, buffer)?;
                let device = self.object(buffer).device;
                self.claim_callback(device, id, &then.0)?;
                self.map(buffer, id, mode, offset, size);
            }
            Step::Unmap { buffer } => {
                let buffer = self.find(Kind::Buffer, buffer)?;
                self.unmap(buffer);
            }
            Step::Hold {
                buffer,
                id,
                offset,
                size,
            } => {
                let buffer = self.find(Kind::Buffer, buffer)?;
                self.claim(Kind::Range, id)?;
                self.hold(buffer, id, offset, size);
            }
            Step::Look { range } => self.look(range)?,
            Step::Fill { range, value } => self.fill(range, value)?,
            Step::Share(kind, id) => self.share(kind, id)?,
            Step::Drop(kind, id) => self.let_go(kind, id)?,
            Step::Destroy(kind, id) => match kind {
                Kind::Device => {
                    self.find(Kind::Device, id)?;
                    self.destroy_device(id);
                }
                Kind::Buffer => {
                    let buffer = self.find(Kind::Buffer, id)?;
                    self.destroy_buffer(buffer);
                }
                Kind::Texture => {
                    let texture = self.find(Kind::Texture, id)?;
                    let object = self.object(texture);
                    self.end_texture(id, object.device, object.payload);
                }
                Kind::Set => {
                    let set = self.find(Kind::Set, id)?;
                    self.destroy_some(self.object(set).payload);
                }
                _ => return None,
            },
            Step::WorkDone {
                device,
                id,
                ref then,
            } => {
                self.find(Kind::Device, device)?;
                self.claim_callback(device, id, &then.0)?;
                self.work_done(device, id);
            }
            Step::OnLost {
                device,
                id,
                ref then,
            } => {
                self.find(Kind::Device, device)?;
                self.claim_callback(device, id, &then.0)?;
                let device = self.device(device);
                if device.lost {
                    device.loose_lost.insert(id);
                } else {
                    device.on_lost = Some(id);
                }
            }
            Step::Poll { device, wait } => {
                self.find(Kind::Device, device)?;
                let busy = self.budget.is_some() || self.is_planned() || self.quiet;
                if wait == Wait::Timeout && busy {
                    return None;
                }
                self.poll(device, wait);
            }
            Step::Report { device } => {
                self.find(Kind::Device, device)?;
                self.memory_report(device);
            }
            Step::Complete { device: id } => {
                let device = self.devices.get_mut(id as usize)?;
                if device.completed == device.submitted {
                    return None;
                }
                device.completed += 1;
                self.count("completed submissions");
                if self.budget.is_some() {
                    self.settle();
                }
            }
            Step::CompleteAll => {
                for device in &mut self.devices {
                    device.completed = device.submitted;
                }
                if self.budget.is_some() {
                    self.settle();
                }
            }
            Step::Plan(fault) => self.plan(fault)?,
            Step::Budget(room) => {
                if self.loss_planned || self.is_any_lost() {
                    return None;
                }
                self.settle();
                self.budget = room.map(|room| self.live_bytes() + room);
            }
            _ => self.record(step)?,
        }
        Some(())
    }

    /// Whether an object was made, is not destroyed, and can be submitted.
    pub fn is_usable(&self, object: &Object) -> bool {
        let there = object
            .payload
            .is_none_or(|payload| !self.payloads[payload].destroyed);
        object.valid && there
    }

    fn is_any_lost(&self) -> bool {
        self.devices
            .iter()
            .any(|device| device.lost && device.exists)
    }

    fn is_planned(&self) -> bool {
        !self.planned.is_empty() || self.loss_planned
    }

    fn plan(&mut self, fault: Fault) -> Option<()> {
        let loses = matches!(fault, Fault::Lose(_) | Fault::Submit(_));
        let busy = loses && (self.budget.is_some() || self.is_planned() || self.nested > 0);
        if busy || self.loss_planned || self.is_any_lost() {
            return None;
        }
        let nth = match fault {
            Fault::Memory(kind, nth) => {
                let kinds = [
                    Kind::Buffer,
                    Kind::Texture,
                    Kind::View,
                    Kind::Group,
                    Kind::Set,
                ];
                kinds.contains(&kind).then_some(nth)?
            }
            Fault::MapMemory(nth) | Fault::MapUnexpected(nth) => nth,
            Fault::Begin(nth) | Fault::End(nth) => nth,
            Fault::Submit(_) | Fault::Lose(_) => {
                self.loss_planned = true;
                return Some(());
            }
        };
        self.planned.push((fault, nth.saturating_sub(1)));
        Some(())
    }

    fn share(&mut self, kind: Kind, id: u32) -> Option<()> {
        match kind {
            Kind::Device | Kind::Queue | Kind::Kit => {
                let device = self.devices.get_mut(id as usize)?;
                let count = match kind {
                    Kind::Device => &mut device.handles,
                    Kind::Queue => &mut device.queues,
                    _ => &mut device.kits,
                };
                if *count == 0 {
                    return None;
                }
                *count += 1;
                if kind == Kind::Kit {
                    (0..3).for_each(|number| self.retain(part(id, number)));
                } else {
                    self.retain((Kind::Device, id));
                }
            }
            Kind::Pass | Kind::Commands | Kind::Range => return None,
            _ => {
                let object = self
                    .objects
                    .get_mut(&(kind, id))
                    .filter(|o| o.handles > 0)?;
                object.handles += 1;
                object.references += 1;
            }
        }
        Some(())
    }

    fn let_go(&mut self, kind: Kind, id: u32) -> Option<()> {
        match kind {
            Kind::Device | Kind::Queue | Kind::Kit => {
                let device = self.devices.get_mut(id as usize)?;
                let count = match kind {
                    Kind::Device => &mut device.handles,
                    Kind::Queue => &mut device.queues,
                    _ => &mut device.kits,
                };
                *count = count.checked_sub(1)?;
                if kind == Kind::Kit {
                    for number in [0, 2, 1] {
                        self.release(part(id, number));
                    }
                } else {
                    self.release((Kind::Device, id));
                }
            }
            _ => {
                let object = self
                    .objects
                    .get_mut(&(kind, id))
                    .filter(|o| o.handles > 0)?;
                object.handles -= 1;
                self.release((kind, id));
            }
        }
        Some(())
    }
}

impl Device {
    fn is_held(&self) -> bool {
        self.handles + self.queues > 0
    }
}

impl Body {
    /// Whether it is a buffer that is mapped, or waits to be.
    pub fn is_mapped(&self) -> bool {
        matches!(self, Self::Buffer { mapping, .. } if !matches!(mapping, Mapping::Unmapped))
    }
}
