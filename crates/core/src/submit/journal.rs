//! The queue's view of resources, and how a submission that fails takes its changes back.
//!
//! A state changes while the command that needs it is replayed. The journal notes what was there before,
//! and puts it back, last change first, unless the submission is accepted.

use crate::resource::{Buffer, QuerySet, SubRange, Texture};
use std::ops::Range;
use wgpu_types as wgt;

/// See the [module documentation](self). Dropping it undoes what it holds.
#[derive(Debug, Default)]
pub(super) struct Journal<'a>(Vec<Entry<'a>>);

#[derive(Debug)]
enum Entry<'a> {
    BufferState(&'a Buffer, wgt::BufferUses),
    BufferInit(&'a Buffer, Vec<Range<u64>>),
    TextureState(&'a Texture, SubRange, wgt::TextureUses),
    TextureInit(&'a Texture, SubRange),
    Query(&'a QuerySet, u32),
}

impl<'a> Journal<'a> {
    /// Keeps the changes: the submission was accepted.
    pub fn keep(&mut self) {
        self.0.clear();
    }

    /// Sets how a buffer is used next. Returns the state before if that takes a barrier.
    ///
    /// Reads follow reads without one, once each kind of read has had its own after the last write;
    /// a write needs one after anything but the first use, unless the HAL orders it by itself.
    #[inline]
    pub fn use_buffer(
        &mut self,
        buffer: &'a Buffer,
        to: wgt::BufferUses,
        ordered: wgt::BufferUses,
    ) -> Option<wgt::BufferUses> {
        let reads = wgt::BufferUses::INCLUSIVE;
        let from = buffer.state();
        if reads.contains(from | to) {
            if from.contains(to) {
                return None;
            }
            self.0.push(Entry::BufferState(buffer, from));
            buffer.set_state(from | to);
            return (!from.is_empty()).then_some(from);
        }
        if from == to && ordered.contains(to) {
            return None;
        }
        self.0.push(Entry::BufferState(buffer, from));
        buffer.set_state(to);
        (!from.is_empty()).then_some(from)
    }

    /// Marks a range of a buffer as written and returns the parts that were not before.
    pub fn fill_buffer(&mut self, buffer: &'a Buffer, range: &Range<u64>) -> Vec<Range<u64>> {
        if buffer.init.is_whole() {
            return Vec::new();
        }
        let holes = buffer.init.fill(range);
        if !holes.is_empty() {
            self.0.push(Entry::BufferInit(buffer, holes.clone()));
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
            self.0
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
            self.0.push(Entry::TextureInit(texture, hole.clone()));
        }
        holes.into_vec()
    }

    /// Marks a query as written.
    pub fn write_query(&mut self, set: &'a QuerySet, index: u32) {
        if set.written.set(index, true) {
            self.0.push(Entry::Query(set, index));
        }
    }
}

impl Drop for Journal<'_> {
    fn drop(&mut self) {
        for entry in self.0.drain(..).rev() {
            match entry {
                Entry::BufferState(buffer, state) => buffer.set_state(state),
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
