//! Recording: what an encoder holds, and which rules it checks.

use super::{part, Body, Fail, Key, Model};
use crate::{
    event::label,
    step::{Kind, Step, Usage},
};
use fencepost_core::ErrorKind;

/// Commands, and the objects that they name, each in the order in which it was named first.
#[derive(Default)]
pub(crate) struct Recording {
    pub buffers: Vec<u32>,
    pub textures: Vec<u32>,
    pub groups: Vec<u32>,
    pub pipelines: Vec<u32>,
    pub sets: Vec<u32>,
    pub commands: Vec<Command>,
}

/// A command that changes what the CPU can see, or another one.
#[derive(Clone, Copy)]
pub(crate) enum Command {
    Copy {
        from: u32,
        from_offset: u64,
        to: u32,
        to_offset: u64,
        size: u64,
    },
    Clear {
        buffer: u32,
        offset: u64,
        size: u64,
    },
    /// Something that the no-op back end does not carry out is written.
    Overwrite {
        buffer: u32,
        offset: u64,
        size: u64,
    },
    Timestamp {
        set: u32,
        index: u32,
    },
    Resolve {
        set: u32,
        first: u32,
        count: u32,
        buffer: u32,
        offset: u64,
    },
    Other,
}

pub(crate) enum Phase {
    Open(Recording),
    /// A pass has the recording.
    Locked,
    Ended,
}

/// A rule that is broken, with the labels that the message may name.
type Broken = Vec<String>;

impl Model {
    fn enter(&mut self, recording: &mut Recording, key: Key) {
        let list = match key.0 {
            Kind::Buffer => &mut recording.buffers,
            Kind::Texture => &mut recording.textures,
            Kind::Group => &mut recording.groups,
            Kind::Kit => &mut recording.pipelines,
            Kind::Set => &mut recording.sets,
            _ => unreachable!("commands name nothing else"),
        };
        if !list.contains(&key.1) {
            list.push(key.1);
            self.retain(key);
        }
    }

    /// Lets go of what a recording names.
    pub(super) fn forget(&mut self, _device: u32, recording: Recording) {
        let kinds = [
            (Kind::Buffer, recording.buffers),
            (Kind::Texture, recording.textures),
            (Kind::Group, recording.groups),
            (Kind::Kit, recording.pipelines),
            (Kind::Set, recording.sets),
        ];
        for (kind, list) in kinds {
            for id in list {
                self.release((kind, id));
            }
        }
    }

    /// The object is this device's and was made.
    fn expect(&self, device: u32, key: Key) -> Result<(), Broken> {
        let object = self.object(key);
        if object.device == device && object.valid {
            Ok(())
        } else {
            Err(vec![self.label(key)])
        }
    }

    fn expect_range(
        &self,
        device: u32,
        key: Key,
        usages: &[Usage],
        (offset, size): (u64, u64),
    ) -> Result<(), Broken> {
        self.expect(device, key)?;
        let Body::Buffer {
            usage, size: whole, ..
        } = &self.object(key).body
        else {
            unreachable!("it is a buffer")
        };
        let aligned = offset.is_multiple_of(4) && size.is_multiple_of(4);
        if usages.contains(usage) && aligned && offset + size <= *whole {
            Ok(())
        } else {
            Err(vec![self.label(key)])
        }
    }

    fn expect_query(&self, device: u32, key: Key, end: u32) -> Result<(), Broken> {
        self.expect(device, key)?;
        match &self.object(key).body {
            Body::Set { written } if end as usize <= written.len() => Ok(()),
            _ => Err(vec![self.label(key)]),
        }
    }

    /// The steps that record.
    pub(super) fn record(&mut self, step: &Step) -> Option<()> {
        const SOURCES: &[Usage] = &[Usage::Copy, Usage::Write, Usage::Storage];
        const TARGETS: &[Usage] = &[Usage::Copy, Usage::Read, Usage::Storage];
        match *step {
            Step::Copy {
                encoder,
                from,
                from_offset,
                to,
                to_offset,
                size,
            } => {
                let (from, to) = (self.find(Kind::Buffer, from)?, self.find(Kind::Buffer, to)?);
                self.append(encoder, |this, device| {
                    this.expect_range(device, from, SOURCES, (from_offset, size))?;
                    this.expect_range(device, to, TARGETS, (to_offset, size))?;
                    if from == to {
                        return Err(vec![this.label(from)]);
                    }
                    let command = Command::Copy {
                        from: from.1,
                        from_offset,
                        to: to.1,
                        to_offset,
                        size,
                    };
                    Ok((vec![from, to], command))
                })
            }
            Step::Clear {
                encoder,
                buffer,
                offset,
                size,
            } => {
                // The encoder is looked at first.
                let encoder = self.find(Kind::Encoder, encoder)?.1;
                let buffer = self.find(Kind::Buffer, buffer)?;
                self.append(encoder, |this, device| {
                    this.expect_range(device, buffer, TARGETS, (offset, size))?;
                    let command = Command::Clear {
                        buffer: buffer.1,
                        offset,
                        size,
                    };
                    Ok((vec![buffer], command))
                })
            }
            Step::CopyToTexture {
                encoder,
                buffer,
                offset,
                texture,
            } => {
                let buffer = self.find(Kind::Buffer, buffer)?;
                let texture = self.find(Kind::Texture, texture)?;
                let size = self.row(texture);
                self.append(encoder, |this, device| {
                    this.expect(device, texture)?;
                    this.expect_range(device, buffer, SOURCES, (offset, size))?;
                    Ok((vec![buffer, texture], Command::Other))
                })
            }
            Step::CopyFromTexture {
                encoder,
                texture,
                buffer,
                offset,
            } => {
                let buffer = self.find(Kind::Buffer, buffer)?;
                let texture = self.find(Kind::Texture, texture)?;
                let size = self.row(texture);
                self.append(encoder, |this, device| {
                    this.expect(device, texture)?;
                    this.expect_range(device, buffer, TARGETS, (offset, size))?;
                    let command = Command::Overwrite {
                        buffer: buffer.1,
                        offset,
                        size,
                    };
                    Ok((vec![buffer, texture], command))
                })
            }
            Step::CopyTexture { encoder, from, to } => {
                let from = self.find(Kind::Texture, from)?;
                let to = self.find(Kind::Texture, to)?;
                let fits = self.row(from) <= self.row(to);
                self.append(encoder, |this, device| {
                    this.expect(device, from)?;
                    this.expect(device, to)?;
                    if from == to || !fits {
                        return Err(vec![this.label(from), this.label(to)]);
                    }
                    Ok((vec![from, to], Command::Other))
                })
            }
            Step::ClearTexture { encoder, texture } => {
                let encoder = self.find(Kind::Encoder, encoder)?.1;
                let texture = self.find(Kind::Texture, texture)?;
                self.append(encoder, |this, device| {
                    this.expect(device, texture)?;
                    Ok((vec![texture], Command::Other))
                })
            }
            Step::Timestamp {
                encoder,
                set,
                index,
            } => {
                let encoder = self.find(Kind::Encoder, encoder)?.1;
                let set = self.find(Kind::Set, set)?;
                self.append(encoder, |this, device| {
                    this.expect_query(device, set, index + 1)?;
                    Ok((vec![set], Command::Timestamp { set: set.1, index }))
                })
            }
            Step::Resolve {
                encoder,
                set,
                first,
                count,
                buffer,
                offset,
            } => {
                let encoder = self.find(Kind::Encoder, encoder)?.1;
                let set = self.find(Kind::Set, set)?;
                let buffer = self.find(Kind::Buffer, buffer)?;
                self.append(encoder, |this, device| {
                    this.expect(device, set)?;
                    let size = u64::from(count) * 8;
                    this.expect_range(device, buffer, &[Usage::Storage], (offset, size))?;
                    if !offset.is_multiple_of(256) {
                        return Err(vec![this.label(buffer)]);
                    }
                    this.expect_query(device, set, first + count)?;
                    let command = Command::Resolve {
                        set: set.1,
                        first,
                        count,
                        buffer: buffer.1,
                        offset,
                    };
                    Ok((vec![set, buffer], command))
                })
            }
            Step::BeginPass {
                encoder,
                id,
                timestamp,
            } => {
                let encoder = self.find(Kind::Encoder, encoder)?;
                let set = match timestamp {
                    Some((set, index)) => Some((self.find(Kind::Set, set)?, index)),
                    None => None,
                };
                self.claim(Kind::Pass, id)?;
                self.begin_pass(encoder, id, set);
                Some(())
            }
            Step::SetPipeline { pass, kit } => {
                self.find_kit(kit)?;
                let key = part(kit, 2);
                self.append_to_pass(pass, |this, device, pass| {
                    this.expect(device, key)
                        .map_err(|_| vec![label(kit, Kind::Kit, kit)])?;
                    if let Body::Pass { pipeline, .. } = pass {
                        *pipeline = true;
                    }
                    Ok((vec![key], Command::Other))
                })
            }
            Step::SetGroup { pass, group } => {
                let key = self.find(Kind::Group, group)?;
                self.append_to_pass(pass, |this, device, pass| {
                    this.expect(device, key)?;
                    if let Body::Pass { group, .. } = pass {
                        *group = Some(key.1);
                    }
                    Ok((vec![key], Command::Other))
                })
            }
            Step::Dispatch { pass } => self.append_to_pass(pass, |this, _, pass| {
                let Body::Pass {
                    pipeline: true,
                    group: Some(group),
                    ..
                } = pass
                else {
                    return Err(Vec::new());
                };
                let Body::Group { buffers, .. } = &this.object((Kind::Group, *group)).body else {
                    unreachable!("it is a bind group")
                };
                // What a dispatch writes it uses in no other way.
                if buffers[..2].contains(&buffers[2]) {
                    return Err(vec![this.label((Kind::Buffer, buffers[2]))]);
                }
                Ok((Vec::new(), Command::Other))
            }),
            _ => unreachable!("every other step is run elsewhere"),
        }
    }

    /// The bytes of a row of texels.
    fn row(&self, texture: Key) -> u64 {
        match self.object(texture).body {
            Body::Texture { width, .. } => u64::from(width * 4),
            _ => unreachable!("it is a texture"),
        }
    }

    /// Appends a command to an encoder. The first rule that is broken makes the encoder invalid; one that
    /// has ended says so at once.
    fn append(
        &mut self,
        encoder: u32,
        check: impl FnOnce(&Self, u32) -> Result<(Vec<Key>, Command), Broken>,
    ) -> Option<()> {
        let key = self.find(Kind::Encoder, encoder)?;
        let checked = check(self, self.object(key).device);
        let name = self.label(key);
        let object = self.object_mut(key);
        let device = object.device;
        let Body::Encoder { phase, error } = &mut object.body else {
            unreachable!("it is an encoder")
        };
        match phase {
            Phase::Ended => {
                let fail = Fail::Error(ErrorKind::Validation, vec![name]);
                self.report(device, fail);
            }
            Phase::Locked => {
                error.get_or_insert_with(|| vec![name]);
            }
            Phase::Open(_) if error.is_some() => {}
            Phase::Open(recording) => match checked {
                Err(broken) => *error = Some(broken),
                Ok((keys, command)) => {
                    let mut taken = std::mem::take(recording);
                    for key in keys {
                        self.enter(&mut taken, key);
                    }
                    taken.commands.push(command);
                    if let Body::Encoder { phase, .. } = &mut self.object_mut(key).body {
                        *phase = Phase::Open(taken);
                    }
                }
            },
        }
        Some(())
    }

    fn begin_pass(&mut self, encoder: Key, id: u32, set: Option<(Key, u32)>) {
        let name = self.label(encoder);
        let device = self.object(encoder).device;
        let Body::Encoder { phase, error } = &mut self.object_mut(encoder).body else {
            unreachable!("it is an encoder")
        };
        let mut recording = None;
        let mut ended = false;
        match std::mem::replace(phase, Phase::Locked) {
            Phase::Open(open) => recording = Some(open),
            Phase::Locked => {
                error.get_or_insert_with(|| vec![name.clone()]);
            }
            Phase::Ended => {
                *phase = Phase::Ended;
                ended = true;
            }
        }
        if ended {
            self.report(device, Fail::Error(ErrorKind::Validation, vec![name]));
        }
        self.retain(encoder);
        let body = Body::Pass {
            encoder: encoder.1,
            recording,
            error: None,
            pipeline: false,
            group: None,
        };
        self.insert((Kind::Pass, id), device, true, None, body);
        let begun = self.append_to_pass(id, |this, device, _| match set {
            Some((set, index)) => {
                this.expect_query(device, set, index + 1)?;
                Ok((vec![set], Command::Timestamp { set: set.1, index }))
            }
            None => Ok((Vec::new(), Command::Other)),
        });
        debug_assert!(begun.is_some(), "the pass was made a line ago");
    }

    /// Appends a command to a pass, which may have ended with its encoder.
    fn append_to_pass(
        &mut self,
        pass: u32,
        check: impl FnOnce(&Self, u32, &mut Body) -> Result<(Vec<Key>, Command), Broken>,
    ) -> Option<()> {
        let key = self.find(Kind::Pass, pass)?;
        let object = self.object_mut(key);
        let device = object.device;
        // Taken out while others are looked at.
        let mut body = std::mem::replace(&mut object.body, Body::Part(None));
        let open = matches!(
            &body,
            Body::Pass {
                recording: Some(_),
                error: None,
                ..
            }
        );
        if open {
            let checked = check(self, device, &mut body);
            let Body::Pass {
                recording, error, ..
            } = &mut body
            else {
                unreachable!("it is a pass")
            };
            match (checked, recording) {
                (Err(broken), _) => *error = Some(broken),
                (Ok((keys, command)), Some(recording)) => {
                    for key in keys {
                        self.enter(recording, key);
                    }
                    recording.commands.push(command);
                }
                (Ok(_), None) => unreachable!("it is open"),
            }
        }
        self.object_mut(key).body = body;
        Some(())
    }

    /// A pass ends, and gives the recording back.
    pub(super) fn end_pass(
        &mut self,
        encoder: u32,
        recording: Option<Recording>,
        broken: Option<Broken>,
    ) {
        let Some(recording) = recording else { return };
        let key = (Kind::Encoder, encoder);
        let device = self.object(key).device;
        let Body::Encoder { phase, error } = &mut self.object_mut(key).body else {
            unreachable!("it is an encoder")
        };
        if let Some(broken) = broken {
            error.get_or_insert(broken);
        }
        if matches!(phase, Phase::Locked) {
            *phase = Phase::Open(recording);
        } else {
            self.forget(device, recording);
        }
    }

    pub(super) fn finish(&mut self, encoder: Key, id: u32) {
        let name = self.label(encoder);
        let object = self.object_mut(encoder);
        let device = object.device;
        let Body::Encoder { phase, error } = &mut object.body else {
            unreachable!("it is an encoder")
        };
        let error = error.take();
        let mut recording = match std::mem::replace(phase, Phase::Ended) {
            Phase::Open(recording) => Some(recording),
            Phase::Locked | Phase::Ended => None,
        };
        let broken = match (&recording, error) {
            (_, Some(mut names)) => {
                names.push(name.clone());
                Some(names)
            }
            (None, None) => Some(vec![name.clone()]),
            (Some(_), None) => None,
        };
        // A core that has not noticed the loss of its device keeps the recording.
        let destroyed = self.device(device).destroyed;
        if broken.is_some() || destroyed {
            if let Some(recording) = recording.take() {
                self.forget(device, recording);
            }
        }
        if let Some(names) = broken {
            self.report(device, Fail::Error(ErrorKind::Validation, names));
        }
        let body = Body::Commands {
            recording,
            label: name,
        };
        self.insert((Kind::Commands, id), device, true, None, body);
    }
}
