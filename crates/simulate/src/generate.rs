//! Programs at random: mostly legal, and never for long.
//!
//! A few simulated threads each have something under way, step by step, and share every object; which one
//! goes on is drawn for each step. What is made up looks at the model to know what there is.

use crate::{
    model::{Body, Model, Object},
    random::Random,
    step::{Fault, Kind, List, Mode, Step, Usage, Wait},
    DEVICES,
};
use std::collections::VecDeque;

const THREADS: usize = 3;
/// Once in so many times something is picked without a look at what it is.
const ODD: u32 = 40;

/// Makes up one program.
pub(crate) struct Generator {
    random: Random,
    /// The next number for an object.
    next: u32,
    threads: [VecDeque<Step>; THREADS],
    /// How many steps are left.
    left: u32,
    length: u32,
    devices: u32,
    faults: bool,
    /// Whether something was looked for that is not there.
    missed: bool,
    /// Whether devices are destroyed, lost and let go of early.
    deadly: bool,
}

impl Generator {
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let length = 100 + random.below(300);
        Self {
            next: 0,
            threads: Default::default(),
            left: length,
            length,
            devices: 1 + random.below(DEVICES),
            faults: random.one_in(2),
            missed: false,
            deadly: random.one_in(2),
            random,
        }
    }

    /// The next step. `None` at the end.
    pub fn next(&mut self, model: &Model) -> Option<Step> {
        self.left = self.left.checked_sub(1)?;
        let ends = self.left < self.length / 8;
        if ends && !self.random.one_in(4) {
            return Some(self.let_go(model));
        }
        let thread = self.random.below(THREADS as u32) as usize;
        if self.threads[thread].is_empty() && self.random.one_in(3) {
            let script = self.sensible(|this| this.script(model));
            self.threads[thread] = script.into();
        }
        if !self.random.one_in(5) {
            if let Some(step) = self.threads[thread].pop_front() {
                return Some(step);
            }
        }
        Some(self.sensible(|this| this.atom(model, 2)))
    }

    /// Makes something up, and something else if it names what is not there, a few times.
    fn sensible<T>(&mut self, make: impl Fn(&mut Self) -> T) -> T {
        for _ in 0..4 {
            self.missed = false;
            let made = make(self);
            if !self.missed {
                return made;
            }
        }
        make(self)
    }

    fn found(&mut self, id: Option<u32>) -> u32 {
        self.missed |= id.is_none();
        id.unwrap_or(0)
    }

    fn id(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    fn device(&mut self) -> u32 {
        self.random.below(self.devices)
    }

    fn pick(&mut self, model: &Model, kind: Kind, fits: impl Fn(&Object) -> bool) -> Option<u32> {
        let there = model.objects.range((kind, 0)..=(kind, u32::MAX));
        let ids: Vec<u32> = there
            .filter(|(_, object)| object.handles > 0 && fits(object))
            .map(|((_, id), _)| *id)
            .collect();
        self.random.pick(&ids)
    }

    /// One that is there, mostly one that is of use to a device; 0 if there is none.
    fn of(&mut self, model: &Model, device: u32, kind: Kind) -> u32 {
        let odd = self.random.one_in(ODD);
        let fits = |object: &Object| odd || (object.device == device && model.is_usable(object));
        let id = self.pick(model, kind, fits);
        self.found(id)
    }

    fn buffer(&mut self, model: &Model, device: u32, usages: &[Usage]) -> u32 {
        let odd = self.random.one_in(ODD);
        let fits = |object: &Object| {
            let right =
                matches!(&object.body, Body::Buffer { usage, .. } if usages.contains(usage));
            odd || (right && object.device == device && model.is_usable(object))
        };
        let id = self.pick(model, Kind::Buffer, fits);
        self.found(id)
    }

    fn size_of(model: &Model, buffer: u32) -> u64 {
        match model.objects.get(&(Kind::Buffer, buffer)).map(|o| &o.body) {
            Some(Body::Buffer { size, .. }) => *size,
            _ => 16,
        }
    }

    /// A part of so many bytes, mostly.
    fn part(&mut self, size: u64, unit: u64) -> (u64, u64) {
        if self.random.one_in(60) {
            return (4, size + 4);
        }
        if self.random.one_in(3) {
            return (0, size);
        }
        let offset = u64::from(self.random.below((size / unit) as u32 + 1)) * unit;
        let rest = (size - offset.min(size)) / 4;
        (offset, u64::from(self.random.below(rest as u32 + 1)) * 4)
    }

    fn steps(&mut self, model: &Model, depth: u32) -> List<Step> {
        let mut steps = Vec::new();
        if depth > 0 {
            while self.random.one_in(3) && steps.len() < 3 {
                steps.push(self.atom(model, depth - 1));
            }
        }
        List(steps)
    }

    fn size(&mut self) -> u64 {
        let sizes = [4, 8, 8, 12, 16, 16, 32, 64, 0];
        let count = sizes.len() as u32 - u32::from(!self.random.one_in(8));
        sizes[self.random.below(count) as usize]
    }

    fn make_buffer(&mut self) -> Step {
        let usages = [Usage::Copy, Usage::Read, Usage::Write, Usage::Storage];
        let usage = usages[self.random.below(4) as usize];
        Step::MakeBuffer {
            device: self.device(),
            id: self.id(),
            size: self.size(),
            usage,
            mapped: self.random.one_in(4),
        }
    }

    /// A command for an encoder.
    fn command(&mut self, model: &Model, device: u32, encoder: u32) -> Step {
        const SOURCES: &[Usage] = &[Usage::Copy, Usage::Write, Usage::Storage];
        const TARGETS: &[Usage] = &[Usage::Copy, Usage::Read, Usage::Storage];
        match self.random.below(12) {
            0..=4 => {
                let from = self.buffer(model, device, SOURCES);
                let to = self.buffer(model, device, TARGETS);
                let room = Self::size_of(model, to);
                let (from_offset, size) = self.part(Self::size_of(model, from).min(room), 4);
                let to_offset = if self.random.one_in(2) {
                    room.saturating_sub(size)
                } else {
                    0
                };
                Step::Copy {
                    encoder,
                    from,
                    from_offset,
                    to,
                    to_offset,
                    size,
                }
            }
            5 | 6 => {
                let buffer = self.buffer(model, device, TARGETS);
                let (offset, size) = self.part(Self::size_of(model, buffer), 4);
                Step::Clear {
                    encoder,
                    buffer,
                    offset,
                    size,
                }
            }
            7 => Step::CopyToTexture {
                encoder,
                buffer: self.buffer(model, device, SOURCES),
                offset: u64::from(self.random.below(3)) * 4,
                texture: self.of(model, device, Kind::Texture),
            },
            8 => Step::CopyFromTexture {
                encoder,
                texture: self.of(model, device, Kind::Texture),
                buffer: self.buffer(model, device, TARGETS),
                offset: u64::from(self.random.below(3)) * 4,
            },
            9 => Step::CopyTexture {
                encoder,
                from: self.of(model, device, Kind::Texture),
                to: self.of(model, device, Kind::Texture),
            },
            10 => Step::ClearTexture {
                encoder,
                texture: self.of(model, device, Kind::Texture),
            },
            _ => {
                let set = self.of(model, device, Kind::Set);
                if self.random.one_in(2) {
                    let index = self.random.below(3);
                    return Step::Timestamp {
                        encoder,
                        set,
                        index,
                    };
                }
                let first = self.random.below(2);
                let count = self.random.below(3);
                let buffer = self.buffer(model, device, &[Usage::Storage]);
                Step::Resolve {
                    encoder,
                    set,
                    first,
                    count,
                    buffer,
                    offset: 0,
                }
            }
        }
    }

    /// Something that takes several steps.
    fn script(&mut self, model: &Model) -> Vec<Step> {
        let device = self.device();
        let (encoder, commands) = (self.id(), self.id());
        let mut steps = vec![Step::MakeEncoder {
            device,
            id: encoder,
        }];
        let end = [
            Step::Finish {
                encoder,
                id: commands,
            },
            Step::Submit {
                device,
                commands: List(vec![commands]),
                during: self.steps(model, 1),
            },
        ];
        match self.random.below(6) {
            0 | 1 => {
                for _ in 0..=self.random.below(4) {
                    steps.push(self.command(model, device, encoder));
                }
                steps.extend(end);
                if self.random.one_in(2) {
                    steps.push(Step::Drop(Kind::Encoder, encoder));
                }
            }
            2 | 3 => {
                // What is in a buffer?
                let from = self.buffer(model, device, &[Usage::Copy, Usage::Storage, Usage::Write]);
                let size = Self::size_of(model, from);
                let (to, callback, range) = (self.id(), self.id(), self.id());
                let read = Step::MakeBuffer {
                    device,
                    id: to,
                    size,
                    usage: Usage::Read,
                    mapped: false,
                };
                steps.insert(0, read);
                steps.push(Step::Copy {
                    encoder,
                    from,
                    from_offset: 0,
                    to,
                    to_offset: 0,
                    size,
                });
                steps.extend(end);
                steps.push(Step::Map {
                    buffer: to,
                    id: callback,
                    mode: Mode::Reading,
                    offset: 0,
                    size,
                    then: self.steps(model, 1),
                });
                let wait = self.random.one_in(2);
                if !wait {
                    steps.extend([Step::Complete { device }, Step::Complete { device }]);
                }
                let wait = if wait { Wait::Full } else { Wait::No };
                steps.push(Step::Poll { device, wait });
                steps.push(Step::Hold {
                    buffer: to,
                    id: range,
                    offset: 0,
                    size,
                });
                steps.push(Step::Look { range });
                steps.push(Step::Drop(Kind::Range, range));
                steps.push(if self.random.one_in(2) {
                    Step::Unmap { buffer: to }
                } else {
                    Step::Drop(Kind::Buffer, to)
                });
            }
            4 => {
                let pass = self.id();
                let set = self.pick(model, Kind::Set, |set| set.device == device);
                let timestamp = set.filter(|_| self.random.one_in(2));
                steps.push(Step::BeginPass {
                    encoder,
                    id: pass,
                    timestamp: timestamp.map(|set| (set, 0)),
                });
                steps.push(Step::SetPipeline { pass, kit: device });
                if !self.random.one_in(4) {
                    let group = self.pick(model, Kind::Group, |group| group.device == device);
                    let group = match group {
                        Some(group) if !self.random.one_in(3) => group,
                        _ => self.group(device, &mut steps),
                    };
                    steps.extend([Step::SetGroup { pass, group }, Step::Dispatch { pass }]);
                }
                steps.push(Step::Drop(Kind::Pass, pass));
                steps.extend(end);
            }
            _ => {
                // A buffer that the CPU writes.
                let (buffer, range, callback) = (self.id(), self.id(), self.id());
                let size = self.size();
                let mapped = self.random.one_in(2);
                let value = self.random.below(200) as u8;
                let usage = if self.random.one_in(2) {
                    Usage::Write
                } else {
                    Usage::Copy
                };
                steps = vec![Step::MakeBuffer {
                    device,
                    id: buffer,
                    size,
                    usage,
                    mapped,
                }];
                if !mapped {
                    let mode = Mode::Writing;
                    let then = self.steps(model, 1);
                    steps.push(Step::Map {
                        buffer,
                        id: callback,
                        mode,
                        offset: 0,
                        size,
                        then,
                    });
                    steps.push(Step::Poll {
                        device,
                        wait: Wait::No,
                    });
                }
                steps.push(Step::Hold {
                    buffer,
                    id: range,
                    offset: 0,
                    size,
                });
                steps.push(Step::Look { range });
                steps.push(Step::Fill { range, value });
                steps.push(Step::Look { range });
                if !self.random.one_in(4) {
                    steps.push(Step::Drop(Kind::Range, range));
                }
                steps.push(Step::Unmap { buffer });
            }
        }
        steps
    }

    /// Makes a bind group and all that it takes before `steps`.
    fn group(&mut self, device: u32, steps: &mut Vec<Step>) -> u32 {
        let [a, b, texture, view, id] = [(); 5].map(|()| self.id());
        let same = self.random.one_in(3);
        let buffer = |id| Step::MakeBuffer {
            device,
            id,
            size: 16,
            usage: Usage::Storage,
            mapped: false,
        };
        let made = [
            buffer(a),
            buffer(b),
            Step::MakeTexture {
                device,
                id: texture,
                width: 1,
                layers: 1,
            },
            Step::MakeView { texture, id: view },
            Step::MakeGroup {
                device,
                id,
                reads: (a, if same { a } else { b }),
                writes: if same { b } else { self.id() },
                view,
            },
        ];
        let writes = match &made[4] {
            Step::MakeGroup { writes, .. } if *writes != b => Some(buffer(*writes)),
            _ => None,
        };
        let mut first: Vec<Step> = writes.into_iter().chain(made).collect();
        first.append(steps);
        *steps = first;
        id
    }

    /// Drops a handle.
    fn let_go(&mut self, model: &Model) -> Step {
        let early = self.left >= self.length / 8;
        let there = model
            .objects
            .iter()
            .filter(|(_, object)| object.handles > 0);
        let mut all: Vec<(Kind, u32)> = there.map(|(key, _)| *key).collect();
        all.retain(|key| key.0 != Kind::Kit);
        if !early || (self.deadly && self.random.one_in(10)) {
            for id in 0..self.devices {
                all.extend([(Kind::Device, id), (Kind::Queue, id), (Kind::Kit, id)]);
            }
        }
        match self.random.pick(&all) {
            Some((kind, id)) => Step::Drop(kind, id),
            None => Step::CompleteAll,
        }
    }

    fn plan(&mut self) -> Step {
        let nth = 1 + u64::from(self.random.below(3));
        let kinds = [
            Kind::Buffer,
            Kind::Buffer,
            Kind::Texture,
            Kind::View,
            Kind::Group,
            Kind::Set,
        ];
        let kind = kinds[self.random.below(6) as usize];
        match self.random.below(11) {
            0..=3 => Step::Plan(Fault::Memory(kind, nth)),
            4 => Step::Plan(Fault::MapMemory(nth)),
            5 => Step::Plan(Fault::MapUnexpected(nth)),
            6 => Step::Plan(Fault::Begin(nth)),
            7 => Step::Plan(Fault::End(nth)),
            8 | 9 => Step::Budget(Some(u64::from(self.random.below(50)) * 4)),
            _ => Step::Budget(None),
        }
    }

    /// A single step.
    fn atom(&mut self, model: &Model, depth: u32) -> Step {
        let device = self.device();
        if model.objects.len() > 40 && self.random.one_in(2) {
            return self.let_go(model);
        }
        match self.random.below(64) {
            0..=4 => self.make_buffer(),
            5 => Step::MakeTexture {
                device,
                id: self.id(),
                width: 1 + self.random.below(4),
                layers: 1 + self.random.below(2),
            },
            6 => Step::MakeView {
                texture: self.of(model, device, Kind::Texture),
                id: self.id(),
            },
            7 | 8 => {
                let storage = &[Usage::Storage];
                Step::MakeGroup {
                    device,
                    id: self.id(),
                    reads: (
                        self.buffer(model, device, storage),
                        self.buffer(model, device, storage),
                    ),
                    writes: self.buffer(model, device, storage),
                    view: self.of(model, device, Kind::View),
                }
            }
            9 => Step::MakeSet {
                device,
                id: self.id(),
                count: 1 + self.random.below(3),
            },
            10 => Step::MakeEncoder {
                device,
                id: self.id(),
            },
            11..=14 => {
                let encoder = self.of(model, device, Kind::Encoder);
                self.command(model, device, encoder)
            }
            15 => Step::BeginPass {
                encoder: self.of(model, device, Kind::Encoder),
                id: self.id(),
                timestamp: None,
            },
            16 => {
                let pass = self.of(model, device, Kind::Pass);
                match self.random.below(4) {
                    0 => Step::SetPipeline { pass, kit: device },
                    1 => Step::SetGroup {
                        pass,
                        group: self.of(model, device, Kind::Group),
                    },
                    2 => Step::Dispatch { pass },
                    _ => Step::Drop(Kind::Pass, pass),
                }
            }
            17 => Step::Finish {
                encoder: self.of(model, device, Kind::Encoder),
                id: self.id(),
            },
            18..=21 => {
                let mut commands = Vec::new();
                for _ in 0..self.random.below(3) {
                    commands.push(self.of(model, device, Kind::Commands));
                }
                let during = self.steps(model, depth);
                Step::Submit {
                    device,
                    commands: List(commands),
                    during,
                }
            }
            22..=25 => {
                let buffer =
                    self.buffer(model, device, &[Usage::Copy, Usage::Storage, Usage::Read]);
                let (offset, size) = self.part(Self::size_of(model, buffer), 4);
                let value = self.random.below(200) as u8;
                Step::WriteBuffer {
                    device,
                    buffer,
                    offset,
                    size,
                    value,
                }
            }
            26 => Step::WriteTexture {
                device,
                texture: self.of(model, device, Kind::Texture),
            },
            27..=30 => {
                let (usage, mode) = if self.random.one_in(2) {
                    (Usage::Read, Mode::Reading)
                } else {
                    (Usage::Write, Mode::Writing)
                };
                let buffer = self.buffer(model, device, &[usage]);
                let (offset, size) = self.part(Self::size_of(model, buffer), 8);
                let id = self.id();
                let then = self.steps(model, depth);
                Step::Map {
                    buffer,
                    id,
                    mode,
                    offset,
                    size,
                    then,
                }
            }
            31..=33 => {
                let mapped = |object: &Object| object.body.is_mapped();
                let mapped = self.pick(model, Kind::Buffer, mapped);
                let buffer = mapped.unwrap_or_else(|| self.of(model, device, Kind::Buffer));
                Step::Unmap { buffer }
            }
            34 | 35 => {
                let mapped = |object: &Object| object.body.is_mapped();
                let buffer = self.pick(model, Kind::Buffer, mapped);
                let buffer = self.found(buffer);
                let (offset, size) = self.part(Self::size_of(model, buffer), 8);
                Step::Hold {
                    buffer,
                    id: self.id(),
                    offset,
                    size,
                }
            }
            36 => Step::Look {
                range: self.of(model, device, Kind::Range),
            },
            37 => Step::Fill {
                range: self.of(model, device, Kind::Range),
                value: self.random.below(200) as u8,
            },
            38 => {
                let kinds = [
                    Kind::Buffer,
                    Kind::Texture,
                    Kind::View,
                    Kind::Group,
                    Kind::Encoder,
                ];
                let kind = kinds[self.random.below(5) as usize];
                Step::Share(kind, self.of(model, device, kind))
            }
            39..=44 => self.let_go(model),
            45..=47 => {
                let kinds = [Kind::Buffer, Kind::Buffer, Kind::Texture, Kind::Set];
                let kind = kinds[self.random.below(4) as usize];
                Step::Destroy(kind, self.of(model, device, kind))
            }
            48 | 49 => {
                let id = self.id();
                let then = self.steps(model, depth);
                Step::WorkDone { device, id, then }
            }
            50 => {
                let id = self.id();
                let then = self.steps(model, depth);
                Step::OnLost { device, id, then }
            }
            51..=53 => {
                let wait = match self.random.below(8) {
                    0 => Wait::Full,
                    1 => Wait::Timeout,
                    _ => Wait::No,
                };
                Step::Poll { device, wait }
            }
            54 => Step::Report { device },
            55..=59 => Step::Complete { device },
            60 => Step::CompleteAll,
            61 | 62 if self.faults => self.plan(),
            63 if self.deadly && self.random.one_in(2) => match self.random.below(3) {
                0 => Step::Destroy(Kind::Device, device),
                1 => Step::Plan(Fault::Submit(1 + u64::from(self.random.below(3)))),
                _ => Step::Plan(Fault::Lose(1 + u64::from(self.random.below(60)))),
            },
            _ => Step::Poll {
                device,
                wait: Wait::No,
            },
        }
    }
}
