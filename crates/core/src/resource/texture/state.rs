//! What each subresource of a texture was last used as, and which barriers the next use needs.
//!
//! A texture has a layout as well as memory to synchronise, and the HAL derives the layout from the
//! usage: reading as another kind of read is a transition too. So a set of read usages is one state only
//! where it was asked for as a set, and a smaller set is covered by a larger one only if both mean the
//! same layout.

use super::subresources::{SubRange, SubresourceMap};
use wgpu_types::TextureUses;

/// The usages of a texture's subresources. Belongs to the queue.
#[derive(Clone, Debug)]
pub(crate) struct TextureState {
    uses: SubresourceMap<TextureUses>,
    depth_stencil: bool,
}

impl TextureState {
    /// The state of a fresh texture: nothing in it is initialised.
    pub fn new(mips: u32, layers: u32, depth_stencil: bool) -> Self {
        Self {
            uses: SubresourceMap::new(mips, layers, TextureUses::UNINITIALIZED),
            depth_stencil,
        }
    }

    /// Notes that `range` is used as `to` next and calls `emit` for each barrier that this needs, with
    /// the subresources, the usage before, and the usage after.
    ///
    /// * Reading again as the same, or as part of a set of reads that means the same layout: none.
    /// * Writing again as the same, if that is in `ordered` (what the HAL promises to order by itself):
    ///   none.
    /// * Everything else: one for each run of layers, merged over mip levels where they agree.
    pub fn transition(
        &mut self,
        range: &SubRange,
        to: TextureUses,
        ordered: TextureUses,
        mut emit: impl FnMut(SubRange, TextureUses, TextureUses),
    ) {
        // The common case: the whole texture is in one state, and stays in it.
        if let Some(from) = self.uses.uniform() {
            if !needs_barrier(from, to, ordered, self.depth_stencil) {
                return;
            }
        }
        let depth_stencil = self.depth_stencil;
        let mut changed: smallvec::SmallVec<[SubRange; 4]> = smallvec::SmallVec::new();
        self.uses.for_each(range, |part, from| {
            if needs_barrier(from, to, ordered, depth_stencil) {
                emit(part.clone(), from, to);
                changed.push(part);
            }
        });
        for part in &changed {
            self.uses.set(part, to);
        }
    }

    /// Puts back what a submission that failed has changed: `part` was last used as `from`.
    pub fn restore(&mut self, part: &SubRange, from: TextureUses) {
        self.uses.set(part, from);
    }

    /// The usage that all subresources share, if they do.
    #[cfg(test)]
    pub fn uniform(&self) -> Option<TextureUses> {
        self.uses.uniform()
    }
}

fn needs_barrier(
    from: TextureUses,
    to: TextureUses,
    ordered: TextureUses,
    depth_stencil: bool,
) -> bool {
    let reads = TextureUses::INCLUSIVE;
    if reads.contains(to) {
        !(reads.contains(from)
            && from.contains(to)
            && layout(from, depth_stencil) == layout(to, depth_stencil))
    } else {
        from != to || !ordered.contains(to)
    }
}

/// What a set of read usages is to the driver.
#[derive(Debug, PartialEq, Eq)]
enum Layout {
    CopySource,
    Sampled,
    DepthStencilRead,
    General,
}

/// The layout of a set of read usages, as wgpu-hal's Vulkan back end derives it, which tells the most
/// layouts apart: a single copy or sampled read has its own; other reads, and sets of several, share one
/// that depends on the format.
fn layout(reads: TextureUses, depth_stencil: bool) -> Layout {
    match reads {
        TextureUses::COPY_SRC => Layout::CopySource,
        _ if depth_stencil => Layout::DepthStencilRead,
        TextureUses::RESOURCE => Layout::Sampled,
        _ => Layout::General,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Barrier = (SubRange, TextureUses, TextureUses);

    fn range(mips: std::ops::Range<u32>, layers: std::ops::Range<u32>) -> SubRange {
        SubRange { mips, layers }
    }

    fn barriers(state: &mut TextureState, part: &SubRange, to: TextureUses) -> Vec<Barrier> {
        let mut barriers = Vec::new();
        state.transition(part, to, TextureUses::INCLUSIVE, |part, from, to| {
            barriers.push((part, from, to));
        });
        barriers
    }

    /// The barriers of consecutive uses of the whole of a texture of one subresource.
    fn count(depth_stencil: bool, uses: &[TextureUses]) -> Vec<usize> {
        let mut state = TextureState::new(1, 1, depth_stencil);
        uses.iter()
            .map(|&to| barriers(&mut state, &range(0..1, 0..1), to).len())
            .collect()
    }

    const COPY_SRC: TextureUses = TextureUses::COPY_SRC;
    const COPY_DST: TextureUses = TextureUses::COPY_DST;
    const RESOURCE: TextureUses = TextureUses::RESOURCE;
    const READ_ONLY: TextureUses = TextureUses::STORAGE_READ_ONLY;
    const READ_WRITE: TextureUses = TextureUses::STORAGE_READ_WRITE;
    const DEPTH_READ: TextureUses = TextureUses::DEPTH_STENCIL_READ;

    #[test]
    fn the_first_use_leaves_the_uninitialized_state() {
        let mut state = TextureState::new(3, 2, false);
        let all = range(0..3, 0..2);
        assert_eq!(
            barriers(&mut state, &all, COPY_DST),
            [(all, TextureUses::UNINITIALIZED, COPY_DST)]
        );
        assert_eq!(state.uniform(), Some(COPY_DST));
    }

    #[test]
    fn reading_again_as_the_same_costs_nothing() {
        for read in [COPY_SRC, RESOURCE, READ_ONLY, RESOURCE | READ_ONLY] {
            assert_eq!(count(false, &[read, read, read]), [1, 0, 0]);
        }
    }

    #[test]
    fn another_read_is_a_transition() {
        assert_eq!(count(false, &[RESOURCE, COPY_SRC, RESOURCE]), [1, 1, 1]);
        assert_eq!(count(false, &[RESOURCE, READ_ONLY]), [1, 1]);
        // The same layout, but other stages have to see the memory.
        assert_eq!(count(true, &[RESOURCE, DEPTH_READ]), [1, 1]);
    }

    #[test]
    fn a_set_of_reads_covers_a_part_of_the_same_layout() {
        assert_eq!(count(false, &[RESOURCE | READ_ONLY, READ_ONLY]), [1, 0]);
        assert_eq!(count(false, &[RESOURCE | READ_ONLY, RESOURCE]), [1, 1]);
        assert_eq!(count(false, &[COPY_SRC | READ_ONLY, COPY_SRC]), [1, 1]);
        assert_eq!(count(true, &[RESOURCE | DEPTH_READ, RESOURCE]), [1, 0]);
        assert_eq!(count(true, &[RESOURCE | DEPTH_READ, DEPTH_READ]), [1, 0]);
        assert_eq!(count(true, &[RESOURCE | COPY_SRC, COPY_SRC]), [1, 1]);
    }

    #[test]
    fn a_larger_set_of_reads_is_a_transition() {
        assert_eq!(count(false, &[READ_ONLY, RESOURCE | READ_ONLY]), [1, 1]);
    }

    #[test]
    fn writes_are_always_ordered() {
        for write in [COPY_DST, READ_WRITE, TextureUses::STORAGE_WRITE_ONLY] {
            assert_eq!(count(false, &[write, write, write]), [1, 1, 1]);
            assert_eq!(count(false, &[write, RESOURCE, write]), [1, 1, 1]);
        }
    }

    #[test]
    fn writes_that_the_hal_orders_need_no_barrier() {
        let target = TextureUses::COLOR_TARGET;
        let mut state = TextureState::new(1, 1, false);
        let one = range(0..1, 0..1);
        let ordered = TextureUses::INCLUSIVE | target;
        let mut count = 0;
        for to in [target, target, RESOURCE, target] {
            state.transition(&one, to, ordered, |_, _, _| count += 1);
        }
        assert_eq!(count, 3, "only the second use as a target is free");
    }

    #[test]
    fn parts_are_followed_separately() {
        let mut state = TextureState::new(2, 4, false);
        let all = range(0..2, 0..4);
        barriers(&mut state, &all, RESOURCE);
        let part = range(1..2, 1..3);
        assert_eq!(
            barriers(&mut state, &part, COPY_DST),
            [(part.clone(), RESOURCE, COPY_DST)]
        );
        // Only what was written has to come back.
        assert_eq!(
            barriers(&mut state, &all, RESOURCE),
            [(part, COPY_DST, RESOURCE)]
        );
        assert_eq!(state.uniform(), Some(RESOURCE));
    }

    #[test]
    fn barriers_merge_over_layers_and_levels() {
        let mut state = TextureState::new(4, 4, false);
        let all = range(0..4, 0..4);
        barriers(&mut state, &all, RESOURCE);
        for mip in 1..3 {
            for layer in 0..4 {
                barriers(&mut state, &SubRange::one(mip, layer), COPY_DST);
            }
        }
        assert_eq!(
            barriers(&mut state, &all, COPY_SRC),
            [
                (range(0..1, 0..4), RESOURCE, COPY_SRC),
                (range(1..3, 0..4), COPY_DST, COPY_SRC),
                (range(3..4, 0..4), RESOURCE, COPY_SRC),
            ]
        );
        assert_eq!(
            barriers(&mut state, &all, RESOURCE),
            [(all, COPY_SRC, RESOURCE)]
        );
    }

    #[test]
    fn a_repeated_write_to_a_part_of_a_uniform_texture_emits_that_part() {
        let mut state = TextureState::new(2, 2, false);
        barriers(&mut state, &range(0..2, 0..2), READ_WRITE);
        assert_eq!(
            barriers(&mut state, &range(1..2, 0..1), READ_WRITE),
            [(range(1..2, 0..1), READ_WRITE, READ_WRITE)]
        );
        assert_eq!(state.uniform(), Some(READ_WRITE));
    }

    #[test]
    fn restoring_the_barriers_backwards_undoes_them() {
        let mut state = TextureState::new(2, 3, false);
        let all = range(0..2, 0..3);
        barriers(&mut state, &all, RESOURCE);
        barriers(&mut state, &range(1..2, 1..2), COPY_DST);
        let before = format!("{state:?}");
        let mut undo = barriers(&mut state, &all, COPY_SRC);
        undo.extend(barriers(&mut state, &range(0..1, 0..2), READ_WRITE));
        assert_ne!(format!("{state:?}"), before);
        for (part, from, _) in undo.iter().rev() {
            state.restore(part, *from);
        }
        assert_eq!(format!("{state:?}"), before);
    }
}
