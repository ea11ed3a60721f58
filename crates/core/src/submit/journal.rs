//! The queue's view of resources, and how a submission that fails takes its changes back.
//!
//! A state changes while the command that needs it is replayed. The journal notes what was there before,
//! and puts it back, last change first, unless the submission is accepted.

use crate::resource::{Buffer, QuerySet, SubRange, Texture};
use fencepost_lifetime::{mutation::planted, Serial};
use std::ops::Range;
use wgpu_types as wgt;

/// See the [module documentation](self). Dropping it undoes what it holds.
#[derive(Debug)]
pub(super) struct Journal<'a> {
    serial: Serial,
    /// Whether everything that a submission did is visible to the next one without a barrier, as the HAL's
    /// contract says. GL does not keep it.
    submissions_order: bool,
    entries: Vec<Entry<'a>>,
}

#[derive(Debug)]
enum Entry<'a> {
    BufferState(&'a Buffer, u64),
    BufferInit(&'a Buffer, Vec<Range<u64>>),
    TextureState(&'a Texture, SubRange, wgt::TextureUses),
    TextureInit(&'a Texture, SubRange),
    Query(&'a QuerySet, u32),
}

impl<'a> Journal<'a> {
    /// Of an open submission.
    pub fn new(serial: Serial, submissions_order: bool) -> Self {
        Self {
            serial,
            submissions_order,
            entries: Vec::new(),
        }
    }

    /// Keeps the changes: the submission was accepted.
    pub fn keep(&mut self) {
        self.entries.clear();
    }

    /// Sets how a buffer is used next. Returns the state before if that takes a barrier.
    ///
    /// Reads follow reads without one, once each kind of read has had its own after the last write; a
    /// write needs one after anything but the submission's first use, unless the HAL orders it by itself.
    #[inline]
    pub fn use_buffer(
        &mut self,
        buffer: &'a Buffer,
        to: wgt::BufferUses,
        ordered: wgt::BufferUses,
    ) -> Option<wgt::BufferUses> {
        let reads = wgt::BufferUses::INCLUSIVE;
        let from = if self.submissions_order {
            buffer.state.within(self.serial)
        } else {
            buffer.state.last()
        };
        let state = if reads.contains(from | to) {
            if from.contains(to) {
                return None;
            }
            from | to
        } else if from == to && ordered.contains(to) {
            return None;
        } else {
            to
        };
        let before = buffer.state.set(self.serial, state);
        self.entries.push(Entry::BufferState(buffer, before));
        (!from.is_empty()).then_some(from)
    }

    /// Marks a range of a buffer as written and returns the parts that were not before.
    pub fn fill_buffer(&mut self, buffer: &'a Buffer, range: &Range<u64>) -> Vec<Range<u64>> {
        if buffer.init.is_whole() {
            return Vec::new();
        }
        let holes = buffer.init.fill(range);
        if !holes.is_empty() {
            self.entries.push(Entry::BufferInit(buffer, holes.clone()));
        }
        holes
    }

    /// Sets how a part of a texture is used next and calls `barrier` for each part that takes one.
    pub fn use_texture(
        &mut self,
        texture: &'a Texture,
        range: &SubRange,
        to: wgt::TextureUses,
        ordered: wgt::TextureUses,
        mut barrier: impl FnMut(SubRange, wgt::TextureUses, wgt::TextureUses),
    ) {
        let mut state = texture.state.lock();
        state.transition(range, to, ordered, |part, from, to| {
            self.entries
                .push(Entry::TextureState(texture, part.clone(), from));
            barrier(part, from, to);
        });
    }

    /// Marks a part of a texture as written and returns the parts that were not before.
    pub fn fill_texture(&mut self, texture: &'a Texture, range: &SubRange) -> Vec<SubRange> {
        let mut init = texture.init.lock();
        if init.is_all_initialized() {
            return Vec::new();
        }
        let holes = init.uninitialized_in(range);
        for hole in &holes {
            init.mark(hole);
            self.entries.push(Entry::TextureInit(texture, hole.clone()));
        }
        holes.into_vec()
    }

    /// Marks a query as written.
    pub fn write_query(&mut self, set: &'a QuerySet, index: u32) {
        if set.written.set(index, true) {
            self.entries.push(Entry::Query(set, index));
        }
    }
}

impl Drop for Journal<'_> {
    fn drop(&mut self) {
        if planted("a failed submission that is not undone") {
            return;
        }
        for entry in self.entries.drain(..).rev() {
            match entry {
                Entry::BufferState(buffer, before) => buffer.state.restore(before),
                Entry::BufferInit(buffer, holes) => buffer.init.unfill(holes),
                Entry::TextureState(texture, range, state) => {
                    texture.state.lock().restore(&range, state);
                }
                Entry::TextureInit(texture, range) => {
                    texture.init.lock().mark_uninitialized(&range);
                }
                Entry::Query(set, index) => {
                    set.written.set(index, false);
                }
            }
        }
    }
}
