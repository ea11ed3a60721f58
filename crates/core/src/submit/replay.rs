//! Replaying recordings into a HAL encoder.
//!
//! Invariants: everything that a replayed command refers to was stamped by the open submission and found
//! present after its seal; before each command, contents that it may show are defined (I7) and the
//! barriers that it needs are in the encoder (I9).

use super::{encoding::Encoding, indirect::IndirectChecks, journal::Journal};
use crate::{
    device::Device,
    error::{Error, Result},
    reclaim::{lower::InFlight, BufferRaw, Payload, Raw},
    record::{Command, Recording},
    resource::{Buffer, QuerySet, SubRange, Texture},
};
use fencepost_lifetime::{Serial, Slot, Submission};
use std::{fmt, ops::Range, sync::Arc};
use wgpu_hal as hal;
use wgpu_types as wgt;

/// What a finished replay hands to the HAL's submit.
pub(super) struct Replayed<'a> {
    /// `None` if there was nothing to encode.
    pub in_flight: Option<InFlight>,
    pub journal: Journal<'a>,
    pub zeros_ready: bool,
}

impl Replayed<'_> {
    /// A submission that only signals its fence.
    pub fn nothing(serial: Serial, zeros_ready: bool) -> Self {
        Self {
            in_flight: None,
            journal: Journal::new(serial, true),
            zeros_ready,
        }
    }
}

/// Hands a new HAL object to the submission that alone uses it: it is retired from the start, so that nobody
/// else lets go of it, and freed when the submission has completed or was aborted.
pub(super) fn keep<T: Raw>(
    submission: &Submission<'_, '_, Payload>,
    slot: Arc<Slot<T>>,
) -> Result<Arc<Slot<T>>> {
    if !slot.mark_destroyed() {
        // The device is being destroyed, and has let go of the object itself.
        return Err(Error::device_lost());
    }
    submission.keep(T::payload(Arc::clone(&slot)));
    Ok(slot)
}

/// See the [module documentation](self).
pub(super) struct Replay<'a, 's> {
    pub device: &'a Device,
    pub submission: &'s Submission<'s, 's, Payload>,
    pub encoding: Encoding<'a>,
    pub journal: Journal<'a>,
    pub zeros_ready: bool,
    pub indirect: &'s IndirectChecks,
    buffer_barriers: Vec<hal::BufferBarrier<'a, dyn hal::DynBuffer>>,
    texture_barriers: Vec<hal::TextureBarrier<'a, dyn hal::DynTexture>>,
    /// Buffers that the CPU can read and the submission has written.
    readback: Vec<&'a Buffer>,
}

impl<'a, 's> Replay<'a, 's> {
    pub fn new(
        device: &'a Device,
        submission: &'s Submission<'s, 's, Payload>,
        encoding: Encoding<'a>,
        zeros_ready: bool,
        indirect: &'s IndirectChecks,
    ) -> Self {
        Self {
            device,
            submission,
            encoding,
            journal: Journal::new(submission.serial(), device.lower.submissions_order),
            zeros_ready,
            indirect,
            buffer_barriers: Vec::new(),
            texture_barriers: Vec::new(),
            readback: Vec::new(),
        }
    }

    /// Ends the encoding. What the CPU may read next is made visible to it.
    pub fn finish(mut self, serial: Serial) -> Result<Replayed<'a>> {
        for buffer in std::mem::take(&mut self.readback) {
            self.use_buffer(buffer, wgt::BufferUses::MAP_READ);
        }
        self.barriers();
        let in_flight = self.encoding.end(serial);
        Ok(Replayed {
            in_flight: Some(in_flight.map_err(|error| {
                let error = self.device.lower.error(error);
                error.within("the end of a command encoder")
            })?),
            journal: self.journal,
            zeros_ready: self.zeros_ready,
        })
    }

    pub fn encoder(&mut self) -> &mut dyn hal::DynCommandEncoder {
        self.encoding.get()
    }

    /// Makes a HAL object that only this submission uses.
    pub fn make<T: Raw>(
        &mut self,
        what: &dyn fmt::Display,
        bytes: u64,
        create: impl FnMut(&dyn hal::DynDevice) -> Result<T, hal::DeviceError>,
    ) -> Result<Arc<Slot<T>>> {
        keep(
            self.submission,
            self.device.lower.create(what, bytes, create)?,
        )
    }

    // HAL objects. All are stamped and present by the invariant.

    pub fn raw<T>(slot: Option<&'a Arc<Slot<T>>>) -> &'a T {
        let slot = slot.expect("a checked object has a slot");
        // SAFETY: the open submission stamped the slot and found it present after its seal (I5), and
        // outlives this replay.
        unsafe { slot.get() }
    }

    pub fn raw_buffer(buffer: &'a Buffer) -> &'a dyn hal::DynBuffer {
        &*Self::raw::<BufferRaw>(buffer.body.slot()).hal
    }

    pub fn raw_texture(texture: &'a Texture) -> &'a dyn hal::DynTexture {
        &**Self::raw(texture.body.slot())
    }

    pub fn raw_set(set: &'a QuerySet) -> &'a dyn hal::DynQuerySet {
        &**Self::raw(set.body.slot())
    }

    // Transitions. They are gathered and issued by `barriers`, before the command that needs them.

    #[inline]
    pub fn use_buffer(&mut self, buffer: &'a Buffer, to: wgt::BufferUses) {
        let ordered = self.device.ordered_buffer_uses;
        if let Some(from) = self.journal.use_buffer(buffer, to, ordered) {
            self.buffer_barriers.push(hal::BufferBarrier {
                buffer: Self::raw_buffer(buffer),
                usage: hal::StateTransition { from, to },
            });
        }
        let writes = !wgt::BufferUses::INCLUSIVE.contains(to);
        if writes && buffer.usage.contains(wgt::BufferUsages::MAP_READ) {
            let last = self.readback.last();
            if last.is_none_or(|last| !std::ptr::eq(*last, buffer)) {
                self.readback.push(buffer);
            }
        }
    }

    pub fn use_texture(&mut self, texture: &'a Texture, range: &SubRange, to: wgt::TextureUses) {
        let ordered = self.device.ordered_texture_uses;
        let Self {
            journal,
            texture_barriers,
            ..
        } = self;
        journal.use_texture(texture, range, to, ordered, |part, from, to| {
            texture_barriers.push(hal::TextureBarrier {
                texture: Self::raw_texture(texture),
                range: part.image_range(),
                usage: hal::StateTransition { from, to },
            });
        });
    }

    #[inline]
    pub fn barriers(&mut self) {
        // SAFETY: the encoder is recording, and the resources are alive by the invariant.
        unsafe {
            if !self.buffer_barriers.is_empty() {
                let encoder = self.encoding.get();
                encoder.transition_buffers(&self.buffer_barriers);
                self.buffer_barriers.clear();
            }
            if !self.texture_barriers.is_empty() {
                let encoder = self.encoding.get();
                encoder.transition_textures(&self.texture_barriers);
                self.texture_barriers.clear();
            }
        }
    }

    // Commands.

    pub fn run(&mut self, recording: &'a Recording) -> Result<()> {
        let mut next = 0;
        while let Some(command) = recording.commands.get(next) {
            next += 1;
            if let Command::BeginComputePass { label, timestamps } = command {
                next += self.compute_pass(recording, label, timestamps.as_deref(), next)?;
            } else {
                self.encoder_command(recording, command)?;
            }
        }
        Ok(())
    }

    fn encoder_command(&mut self, recording: &'a Recording, command: &'a Command) -> Result<()> {
        match command {
            Command::CopyBufferToBuffer {
                source,
                source_offset,
                destination,
                destination_offset,
                size,
            } => {
                let source = recording.buffers.get(*source);
                let destination = recording.buffers.get(*destination);
                let to = *destination_offset;
                self.copy_buffer(source, *source_offset, destination, to, *size);
            }
            Command::CopyBufferToTexture(copy) => self.copy_to_texture(recording, copy)?,
            Command::CopyTextureToBuffer(copy) => self.copy_from_texture(recording, copy)?,
            Command::CopyTextureToTexture(copy) => self.copy_texture(recording, copy)?,
            Command::ClearBuffer { buffer, range } => {
                self.clear_buffer(recording.buffers.get(*buffer), range);
            }
            Command::ClearTexture { texture, range } => {
                let texture = recording.textures.get(*texture);
                self.journal.fill_texture(texture, range);
                self.zero_texture(texture, range)?;
            }
            Command::WriteTimestamp { set, index } => {
                self.write_timestamp(recording.query_sets.get(*set), *index);
            }
            Command::ResolveQuerySet {
                set,
                queries,
                buffer,
                offset,
            } => self.resolve(
                recording.query_sets.get(*set),
                queries,
                recording.buffers.get(*buffer),
                *offset,
            ),
            other => self.common_command(recording, other),
        }
        Ok(())
    }

    /// The commands that mean the same inside and outside of a pass.
    pub fn common_command(&mut self, recording: &'a Recording, command: &'a Command) {
        match command {
            Command::TransitionBuffer { buffer, to } => {
                self.use_buffer(recording.buffers.get(*buffer), *to);
                self.barriers();
            }
            Command::TransitionTexture { texture, range, to } => {
                self.use_texture(recording.textures.get(*texture), range, *to);
                self.barriers();
            }
            Command::PushDebugGroup(label) => {
                let label = self.device.adapter.hal_label(recording.text(label));
                // SAFETY: the encoder is recording.
                unsafe { self.encoder().begin_debug_marker(label.unwrap_or_default()) };
            }
            Command::PopDebugGroup => {
                // SAFETY: as above; groups are balanced in each encoder and pass.
                unsafe { self.encoder().end_debug_marker() };
            }
            Command::InsertDebugMarker(label) => {
                if let Some(label) = self.device.adapter.hal_label(recording.text(label)) {
                    // SAFETY: the encoder is recording.
                    unsafe { self.encoder().insert_debug_marker(label) };
                }
            }
            other => unreachable!("{other:?} was recorded in the wrong place"),
        }
    }

    pub fn write_timestamp(&mut self, set: &'a QuerySet, index: u32) {
        let raw = Self::raw_set(set);
        self.journal.write_query(set, index);
        // SAFETY: the encoder is recording, and the query is within the set. A query is reset before each
        // time that it is written.
        unsafe {
            self.encoder().reset_queries(raw, index..index + 1);
            self.encoder().write_timestamp(raw, index);
        }
    }

    /// Copies the results of queries that were written, and zeros for the others.
    fn resolve(
        &mut self,
        set: &'a QuerySet,
        queries: &Range<u32>,
        buffer: &'a Buffer,
        offset: u64,
    ) {
        let stride = set.result_size();
        let place = |query: u32| offset + u64::from(query - queries.start) * stride;
        let mut next = queries.start;
        while next < queries.end {
            let written = set.written.get(next);
            let start = next;
            while next < queries.end && set.written.get(next) == written {
                next += 1;
            }
            let range = place(start)..place(next);
            if !written {
                self.clear_buffer(buffer, &range);
                continue;
            }
            self.overwrite_buffer(buffer, &range, wgt::BufferUses::QUERY_RESOLVE);
            self.barriers();
            let (raw, buffer) = (Self::raw_set(set), Self::raw_buffer(buffer));
            let stride = wgt::BufferSize::new(stride).expect("a query has at least one result");
            // SAFETY: the queries are within the set and were written, the results within the buffer.
            unsafe {
                let encoder = self.encoder();
                encoder.copy_query_results(raw, start..next, buffer, range.start, stride);
            }
        }
    }
}
