//! Which subresources of a texture hold defined contents.
//!
//! A fresh texture's memory may hold anybody's bytes (I7). A subresource is cleared right before the
//! first use that would not overwrite all of it; this is where the queue looks that up. All aspects of a
//! subresource, and all slices of a three-dimensional one, count as one.

use super::subresources::{SubRange, SubresourceMap};
use smallvec::SmallVec;

/// See the [module documentation](self).
#[derive(Clone, Debug)]
pub(crate) struct TextureInit(SubresourceMap<bool>);

impl TextureInit {
    /// Nothing is initialised.
    pub fn new(mips: u32, layers: u32) -> Self {
        Self(SubresourceMap::new(mips, layers, false))
    }

    /// Whether everything is: the fast path.
    #[inline]
    pub fn is_all_initialized(&self) -> bool {
        self.0.uniform() == Some(true)
    }

    /// The parts of `range` that hold undefined contents.
    pub fn uninitialized_in(&self, range: &SubRange) -> SmallVec<[SubRange; 1]> {
        let mut parts = SmallVec::new();
        self.0.for_each(range, |part, initialized| {
            if !initialized {
                parts.push(part);
            }
        });
        parts
    }

    /// Notes that `range` was written or cleared.
    pub fn mark(&mut self, range: &SubRange) {
        self.0.set(range, true);
    }

    /// Notes that the contents of `range` were discarded, or that what should have written them did not
    /// happen.
    pub fn mark_uninitialized(&mut self, range: &SubRange) {
        self.0.set(range, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(mips: std::ops::Range<u32>, layers: std::ops::Range<u32>) -> SubRange {
        SubRange { mips, layers }
    }

    #[test]
    fn a_fresh_texture_is_uninitialized() {
        let init = TextureInit::new(3, 2);
        assert!(!init.is_all_initialized());
        assert_eq!(
            init.uninitialized_in(&range(1..2, 0..2)).as_slice(),
            [range(1..2, 0..2)]
        );
    }

    #[test]
    fn only_what_was_not_written_is_left() {
        let mut init = TextureInit::new(2, 4);
        init.mark(&range(0..1, 1..3));
        assert_eq!(
            init.uninitialized_in(&range(0..2, 0..4)).as_slice(),
            [range(0..1, 0..1), range(0..1, 3..4), range(1..2, 0..4)]
        );
        assert!(init.uninitialized_in(&range(0..1, 1..3)).is_empty());
    }

    #[test]
    fn all_parts_make_the_whole() {
        let mut init = TextureInit::new(2, 2);
        for mip in 0..2 {
            for layer in 0..2 {
                assert!(!init.is_all_initialized());
                init.mark(&SubRange::one(mip, layer));
            }
        }
        assert!(init.is_all_initialized());
        assert!(init.uninitialized_in(&range(0..2, 0..2)).is_empty());
    }

    #[test]
    fn discarded_contents_are_uninitialized_again() {
        let mut init = TextureInit::new(1, 3);
        init.mark(&range(0..1, 0..3));
        init.mark_uninitialized(&range(0..1, 1..2));
        assert!(!init.is_all_initialized());
        assert_eq!(
            init.uninitialized_in(&range(0..1, 0..3)).as_slice(),
            [range(0..1, 1..2)]
        );
    }
}
