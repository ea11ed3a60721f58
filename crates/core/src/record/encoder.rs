//! Command encoders and what they end in.
//!
//! An encoder is open, locked by a pass, or ended (specification, section 13.1 "Encoder state"). The first
//! rule that is broken makes it invalid: it takes nothing more, and `finish` reports the error.

use super::{
    queries::{check_query, check_set, QueryKind},
    Command, LinearCopy, Recording, TextureCopy,
};
use crate::{
    device::Device,
    error::{invalid, Error, Named, Result},
    resource::{Buffer, QuerySet, SubRange, Texture},
    validate::{
        buffer::check_copy_range,
        copy::{self, End},
    },
};
use parking_lot::Mutex;
use std::sync::Arc;
use wgpu_types as wgt;

/// A buffer as one end of a copy.
pub type TexelCopyBufferInfo<'a> = wgt::TexelCopyBufferInfo<&'a Arc<Buffer>>;
/// A texture as one end of a copy.
pub type TexelCopyTextureInfo<'a> = wgt::TexelCopyTextureInfo<&'a Arc<Texture>>;

/// Records commands (specification, `GPUCommandEncoder`).
#[derive(Debug)]
pub struct CommandEncoder {
    pub(super) device: Arc<Device>,
    label: String,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    /// Debug groups that are open.
    groups: u32,
    /// The first rule that was broken.
    error: Option<Error>,
}

#[derive(Debug)]
enum Phase {
    Open(Box<Recording>),
    /// A pass has the recording.
    Locked,
    Ended,
}

/// What was recorded (specification, `GPUCommandBuffer`). It can be submitted once.
#[derive(Debug)]
pub struct CommandBuffer {
    pub(crate) device: Arc<Device>,
    pub(crate) label: String,
    /// `None` if the encoder was invalid.
    pub(crate) recording: Option<Box<Recording>>,
}

impl CommandBuffer {
    pub(crate) fn name(&self) -> Named<'_> {
        Named {
            kind: "command buffer",
            label: &self.label,
        }
    }
}

impl Device {
    /// Makes a command encoder (specification, `createCommandEncoder`). It costs nothing but host memory.
    pub fn create_command_encoder(self: &Arc<Self>, label: Option<&str>) -> Arc<CommandEncoder> {
        Arc::new(CommandEncoder {
            device: Arc::clone(self),
            label: label.unwrap_or_default().to_owned(),
            state: Mutex::new(State {
                phase: Phase::Open(Box::default()),
                groups: 0,
                error: None,
            }),
        })
    }
}

impl CommandEncoder {
    pub(crate) fn name(&self) -> Named<'_> {
        Named {
            kind: "command encoder",
            label: &self.label,
        }
    }

    /// Runs one recording step. An error makes the encoder invalid; after the end it is reported at once.
    fn record(
        &self,
        function: &'static str,
        step: impl FnOnce(&mut Recording, &mut u32) -> Result<()>,
    ) {
        let mut state = self.state.lock();
        let State {
            phase,
            groups,
            error,
        } = &mut *state;
        match phase {
            Phase::Open(recording) => {
                if error.is_none() {
                    *error = step(recording, groups)
                        .map_err(|e| e.within(function))
                        .err();
                }
            }
            Phase::Locked => {
                let locked = invalid!("{function}: {} is locked by an open pass", self.name());
                error.get_or_insert(locked);
            }
            Phase::Ended => {
                drop(state);
                let ended = invalid!("{} was finished", self.name());
                self.device.report(function, ended);
            }
        }
    }

    /// Makes the encoder invalid: something that is not implemented was asked for.
    pub fn refuse(&self, function: &'static str, what: &str) {
        self.record(function, |_, _| Err(Error::validation(what)));
    }

    /// Hands the recording to a pass.
    pub(super) fn lock(&self, function: &'static str) -> Option<Box<Recording>> {
        let mut state = self.state.lock();
        match std::mem::replace(&mut state.phase, Phase::Locked) {
            Phase::Open(recording) => Some(recording),
            other => {
                state.phase = other;
                drop(state);
                self.record(function, |_, _| Ok(()));
                None
            }
        }
    }

    /// Takes the recording back from a pass that ends.
    pub(super) fn unlock(&self, recording: Box<Recording>, error: Option<Error>) {
        let mut state = self.state.lock();
        if let Some(error) = error {
            state.error.get_or_insert(error);
        }
        if matches!(state.phase, Phase::Locked) {
            state.phase = Phase::Open(recording);
        } else {
            // The encoder was finished without waiting for the pass. Handles drop outside the lock.
            drop(state);
            drop(recording);
        }
    }

    /// Ends the recording (specification, `finish`). What is wrong with it is reported; the command buffer
    /// is then invalid.
    pub fn finish(&self) -> CommandBuffer {
        let (phase, groups, error) = {
            let mut state = self.state.lock();
            let phase = std::mem::replace(&mut state.phase, Phase::Ended);
            (phase, state.groups, state.error.take())
        };
        let recording = match (phase, error) {
            (Phase::Ended, _) => Err(invalid!("{} was finished before", self.name())),
            (_, Some(error)) => Err(error),
            (Phase::Locked, None) => Err(invalid!(
                "{} was finished while a pass is open",
                self.name()
            )),
            (Phase::Open(_), None) if groups > 0 => Err(invalid!(
                "{} was finished with {groups} debug groups open",
                self.name()
            )),
            (Phase::Open(recording), None) => self.device.check_alive().map(|()| recording),
        };
        let finished = recording.map_err(|error| error.within(self.name()));
        CommandBuffer {
            device: Arc::clone(&self.device),
            label: self.label.clone(),
            recording: self
                .device
                .report_if_err("CommandEncoder::finish", finished),
        }
    }

    /// Copies bytes between buffers (specification, `copyBufferToBuffer`). Without a size, up to the end
    /// of the source.
    pub fn copy_buffer_to_buffer(
        &self,
        source: &Arc<Buffer>,
        source_offset: u64,
        destination: &Arc<Buffer>,
        destination_offset: u64,
        size: Option<u64>,
    ) {
        self.record("CommandEncoder::copy_buffer_to_buffer", |recording, _| {
            let (from, to) = (source.name(), destination.name());
            self.check_buffer(source, wgt::BufferUsages::COPY_SRC)?;
            self.check_buffer(destination, wgt::BufferUsages::COPY_DST)?;
            if Arc::ptr_eq(source, destination) {
                return Err(invalid!("{from} is both source and destination of a copy"));
            }
            let size = size.unwrap_or_else(|| source.size.saturating_sub(source_offset));
            check_copy_range(&from, "source", source_offset, size, source.size)?;
            check_copy_range(
                &to,
                "destination",
                destination_offset,
                size,
                destination.size,
            )?;
            let source = recording.buffers.enter(source);
            let destination = recording.buffers.enter(destination);
            recording.commands.push(Command::CopyBufferToBuffer {
                source,
                source_offset,
                destination,
                destination_offset,
                size,
            });
            Ok(())
        });
    }

    /// Copies texels from a buffer (specification, `copyBufferToTexture`).
    pub fn copy_buffer_to_texture(
        &self,
        source: TexelCopyBufferInfo<'_>,
        destination: TexelCopyTextureInfo<'_>,
        size: wgt::Extent3d,
    ) {
        self.record("CommandEncoder::copy_buffer_to_texture", |recording, _| {
            self.check_buffer(source.buffer, wgt::BufferUsages::COPY_SRC)?;
            let copy =
                self.linear_copy(recording, &source, &destination, End::Destination, &size)?;
            recording.commands.push(Command::CopyBufferToTexture(copy));
            Ok(())
        });
    }

    /// Copies texels to a buffer (specification, `copyTextureToBuffer`).
    pub fn copy_texture_to_buffer(
        &self,
        source: TexelCopyTextureInfo<'_>,
        destination: TexelCopyBufferInfo<'_>,
        size: wgt::Extent3d,
    ) {
        self.record("CommandEncoder::copy_texture_to_buffer", |recording, _| {
            self.check_buffer(destination.buffer, wgt::BufferUsages::COPY_DST)?;
            let copy = self.linear_copy(recording, &destination, &source, End::Source, &size)?;
            recording.commands.push(Command::CopyTextureToBuffer(copy));
            Ok(())
        });
    }

    fn linear_copy(
        &self,
        recording: &mut Recording,
        buffer: &TexelCopyBufferInfo<'_>,
        texture: &TexelCopyTextureInfo<'_>,
        end: End,
        size: &wgt::Extent3d,
    ) -> Result<Box<LinearCopy>> {
        self.check_texture(texture.texture)?;
        let (part, linear) = copy::buffer_copy(
            &texture
                .texture
                .copy_end(end, texture.mip_level, texture.origin, texture.aspect),
            &buffer.layout,
            &buffer.buffer.name(),
            buffer.buffer.size,
            size,
            self.device.adapter.downlevel().flags,
        )?;
        Ok(Box::new(LinearCopy {
            buffer: recording.buffers.enter(buffer.buffer),
            linear,
            texture: recording.textures.enter(texture.texture),
            part,
        }))
    }

    /// Copies texels between textures (specification, `copyTextureToTexture`).
    pub fn copy_texture_to_texture(
        &self,
        source: TexelCopyTextureInfo<'_>,
        destination: TexelCopyTextureInfo<'_>,
        size: wgt::Extent3d,
    ) {
        self.record("CommandEncoder::copy_texture_to_texture", |recording, _| {
            self.check_texture(source.texture)?;
            self.check_texture(destination.texture)?;
            let [from, to] =
                [(source, End::Source), (destination, End::Destination)].map(|(info, end)| {
                    info.texture
                        .copy_end(end, info.mip_level, info.origin, info.aspect)
                });
            let same = Arc::ptr_eq(source.texture, destination.texture);
            let (from, to) = copy::texture_copy(&from, &to, same, &size)?;
            let copy = Box::new(TextureCopy {
                source: recording.textures.enter(source.texture),
                from,
                destination: recording.textures.enter(destination.texture),
                to,
            });
            recording.commands.push(Command::CopyTextureToTexture(copy));
            Ok(())
        });
    }

    /// Fills a range of a buffer with zeros (specification, `clearBuffer`). Without a size, up to its end.
    pub fn clear_buffer(&self, buffer: &Arc<Buffer>, offset: u64, size: Option<u64>) {
        self.record("CommandEncoder::clear_buffer", |recording, _| {
            self.check_buffer(buffer, wgt::BufferUsages::COPY_DST)?;
            let size = size.unwrap_or_else(|| buffer.size.saturating_sub(offset));
            check_copy_range(&buffer.name(), "clear", offset, size, buffer.size)?;
            let buffer = recording.buffers.enter(buffer);
            recording.commands.push(Command::ClearBuffer {
                buffer,
                range: offset..offset + size,
            });
            Ok(())
        });
    }

    /// Fills subresources of a texture with zeros. Needs the feature `CLEAR_TEXTURE`.
    pub fn clear_texture(&self, texture: &Arc<Texture>, range: &wgt::ImageSubresourceRange) {
        self.record("CommandEncoder::clear_texture", |recording, _| {
            self.device.require_features(wgt::Features::CLEAR_TEXTURE)?;
            self.check_texture(texture)?;
            let name = texture.name();
            let aspects = wgpu_hal::FormatAspects::from(texture.desc.format);
            if wgpu_hal::FormatAspects::new(texture.desc.format, range.aspect) != aspects {
                return Err(invalid!(
                    "{name}: clearing needs all aspects of the format {:?}, not {:?}",
                    texture.desc.format,
                    range.aspect
                ));
            }
            let full = texture.full_range();
            let part = |start: u32, count: Option<u32>, all: &std::ops::Range<u32>| {
                let end = count.map_or(Some(all.end), |count| start.checked_add(count));
                end.map(|end| start..end)
                    .filter(|part| part.end <= all.end && part.start < part.end)
            };
            let mips = part(range.base_mip_level, range.mip_level_count, &full.mips);
            let layers = part(
                range.base_array_layer,
                range.array_layer_count,
                &full.layers,
            );
            let (Some(mips), Some(layers)) = (mips, layers) else {
                return Err(invalid!(
                    "{name}: {range:?} is empty or not within {full:?}"
                ));
            };
            let texture = recording.textures.enter(texture);
            let range = Box::new(SubRange { mips, layers });
            recording
                .commands
                .push(Command::ClearTexture { texture, range });
            Ok(())
        });
    }

    /// Opens a debug group.
    pub fn push_debug_group(&self, label: &str) {
        self.record("CommandEncoder::push_debug_group", |recording, groups| {
            *groups += 1;
            let label = recording.keep_text(label);
            recording.commands.push(Command::PushDebugGroup(label));
            Ok(())
        });
    }

    /// Closes the innermost debug group.
    pub fn pop_debug_group(&self) {
        self.record("CommandEncoder::pop_debug_group", |recording, groups| {
            *groups = groups
                .checked_sub(1)
                .ok_or_else(|| invalid!("{} has no debug group open", self.name()))?;
            recording.commands.push(Command::PopDebugGroup);
            Ok(())
        });
    }

    /// Inserts a debug marker.
    pub fn insert_debug_marker(&self, label: &str) {
        self.record("CommandEncoder::insert_debug_marker", |recording, _| {
            let label = recording.keep_text(label);
            recording.commands.push(Command::InsertDebugMarker(label));
            Ok(())
        });
    }

    /// Writes the time to a query. Needs the feature `TIMESTAMP_QUERY_INSIDE_ENCODERS`.
    pub fn write_timestamp(&self, set: &Arc<QuerySet>, index: u32) {
        self.record("CommandEncoder::write_timestamp", |recording, _| {
            self.device
                .require_features(wgt::Features::TIMESTAMP_QUERY_INSIDE_ENCODERS)?;
            check_query(&self.device, set, index, QueryKind::Timestamp)?;
            let set = recording.query_sets.enter(set);
            recording
                .commands
                .push(Command::WriteTimestamp { set, index });
            Ok(())
        });
    }

    /// Copies the results of queries to a buffer, 8 bytes for each value (specification,
    /// `resolveQuerySet`). Queries that were never written read as zero.
    pub fn resolve_query_set(
        &self,
        set: &Arc<QuerySet>,
        first: u32,
        count: u32,
        destination: &Arc<Buffer>,
        offset: u64,
    ) {
        self.record("CommandEncoder::resolve_query_set", |recording, _| {
            check_set(&self.device, set)?;
            let end = first.saturating_add(count);
            self.check_buffer(destination, wgt::BufferUsages::QUERY_RESOLVE)?;
            let name = destination.name();
            if !offset.is_multiple_of(wgt::QUERY_RESOLVE_BUFFER_ALIGNMENT) {
                return Err(invalid!(
                    "{name}: the destination offset {offset} must be a multiple of {}",
                    wgt::QUERY_RESOLVE_BUFFER_ALIGNMENT
                ));
            }
            if end > set.count {
                return Err(invalid!(
                    "{}: queries {first}..{end} are not within its {}",
                    set.name(),
                    set.count
                ));
            }
            let size = u64::from(count) * set.result_size();
            if offset
                .checked_add(size)
                .is_none_or(|end| end > destination.size)
            {
                return Err(invalid!(
                    "{name}: {size} bytes of results at {offset} go beyond its {} bytes",
                    destination.size
                ));
            }
            let set = recording.query_sets.enter(set);
            let buffer = recording.buffers.enter(destination);
            recording.commands.push(Command::ResolveQuerySet {
                set,
                queries: first..end,
                buffer,
                offset,
            });
            Ok(())
        });
    }

    /// Puts resources into states of the program's choosing. WebGPU tracks states by itself; this serves
    /// programs that share resources with other APIs.
    pub fn transition_resources<'a>(
        &self,
        buffers: impl Iterator<Item = wgt::BufferTransition<&'a Arc<Buffer>>>,
        textures: impl Iterator<Item = wgt::TextureTransition<&'a Arc<Texture>>>,
    ) {
        // The iterators are the program's code, so they run outside the lock.
        let buffers: Vec<_> = buffers.collect();
        let textures: Vec<_> = textures.collect();
        self.record("CommandEncoder::transition_resources", |recording, _| {
            transition(&self.device, recording, &buffers, &textures)
        });
    }

    fn check_buffer(&self, buffer: &Buffer, usage: wgt::BufferUsages) -> Result<()> {
        check_buffer(&self.device, buffer, usage)
    }

    fn check_texture(&self, texture: &Texture) -> Result<()> {
        self.device.check_same(&texture.device, &texture.name())?;
        texture.check_valid()
    }
}

/// The rules of a buffer that a command uses. Whether it is destroyed or mapped is asked at submit.
pub(super) fn check_buffer(
    device: &Device,
    buffer: &Buffer,
    usage: wgt::BufferUsages,
) -> Result<()> {
    let name = buffer.name();
    device.check_same(&buffer.device, &name)?;
    if !buffer.body.is_valid() {
        return Err(invalid!("{name} is invalid"));
    }
    if !buffer.usage.contains(usage) {
        return Err(invalid!(
            "{name}: the usage {usage:?} is needed, but the buffer has {:?}",
            buffer.usage
        ));
    }
    Ok(())
}

/// Records transitions to states of the program's choosing.
pub(super) fn transition(
    device: &Device,
    recording: &mut Recording,
    buffers: &[wgt::BufferTransition<&Arc<Buffer>>],
    textures: &[wgt::TextureTransition<&Arc<Texture>>],
) -> Result<()> {
    for transition in buffers {
        let buffer = transition.buffer;
        check_buffer(device, buffer, wgt::BufferUsages::empty())?;
        let possible = buffer.hal_usage();
        if transition.state.is_empty() || !possible.contains(transition.state) {
            return Err(invalid!(
                "{}: the state {:?} is not among those of its usage, {possible:?}",
                buffer.name(),
                transition.state
            ));
        }
        let buffer = recording.buffers.enter(buffer);
        recording.commands.push(Command::TransitionBuffer {
            buffer,
            to: transition.state,
        });
    }
    for transition in textures {
        let texture = transition.texture;
        device.check_same(&texture.device, &texture.name())?;
        texture.check_valid()?;
        let full = texture.full_range();
        let range = match &transition.selector {
            Some(selector) => SubRange {
                mips: selector.mips.clone(),
                layers: selector.layers.clone(),
            },
            None => full.clone(),
        };
        let within = |part: &std::ops::Range<u32>, all: &std::ops::Range<u32>| {
            part.start < part.end && part.end <= all.end
        };
        if !within(&range.mips, &full.mips) || !within(&range.layers, &full.layers) {
            return Err(invalid!(
                "{}: {range:?} is empty or not within {full:?}",
                texture.name()
            ));
        }
        if transition.state.is_empty() || !texture.hal_usage.contains(transition.state) {
            return Err(invalid!(
                "{}: the state {:?} is not among those of its usage, {:?}",
                texture.name(),
                transition.state,
                texture.hal_usage
            ));
        }
        let texture = recording.textures.enter(texture);
        recording.commands.push(Command::TransitionTexture {
            texture,
            range: Box::new(range),
            to: transition.state,
        });
    }
    Ok(())
}
