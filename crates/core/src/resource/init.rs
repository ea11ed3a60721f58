//! Which bytes of a buffer have defined contents (I7).
//!
//! Fresh memory may hold anybody's bytes. A range is cleared when it is first read, or written in part;
//! what a copy or a write fills as a whole is never cleared.

use parking_lot::Mutex;
use smallvec::SmallVec;
use std::{
    ops::Range,
    sync::atomic::{AtomicBool, Ordering},
};

/// The ranges of a buffer that nobody has written.
#[derive(Debug)]
pub(crate) struct BufferInit {
    /// In order, disjoint and not adjacent.
    holes: Mutex<SmallVec<[Range<u64>; 1]>>,
    /// Set once there are no holes. They may come back when a submission fails and is undone.
    whole: AtomicBool,
}

impl BufferInit {
    /// Nothing of the `size` bytes is written.
    pub fn uninitialized(size: u64) -> Self {
        Self::from_holes((size > 0).then_some(0..size).into_iter().collect())
    }

    /// Everything is written.
    pub fn initialized() -> Self {
        Self::from_holes(SmallVec::new())
    }

    fn from_holes(holes: SmallVec<[Range<u64>; 1]>) -> Self {
        Self {
            whole: AtomicBool::new(holes.is_empty()),
            holes: Mutex::new(holes),
        }
    }

    /// Whether no hole is left.
    #[inline]
    pub fn is_whole(&self) -> bool {
        self.whole.load(Ordering::Acquire)
    }

    /// Takes the holes out of `range`, which is written from now on, and returns them.
    pub fn fill(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let mut filled = Vec::new();
        if self.is_whole() || range.is_empty() {
            return filled;
        }
        let mut holes = self.holes.lock();
        let mut left = SmallVec::new();
        for hole in holes.drain(..) {
            let common = hole.start.max(range.start)..hole.end.min(range.end);
            if common.is_empty() {
                left.push(hole);
                continue;
            }
            if hole.start < common.start {
                left.push(hole.start..common.start);
            }
            if common.end < hole.end {
                left.push(common.end..hole.end);
            }
            filled.push(common);
        }
        self.whole.store(left.is_empty(), Ordering::Release);
        *holes = left;
        filled
    }

    /// Puts back holes that [`fill`](Self::fill) has taken out.
    pub fn unfill(&self, taken: Vec<Range<u64>>) {
        let mut holes = self.holes.lock();
        holes.extend(taken);
        holes.sort_by_key(|hole| hole.start);
        let mut merged: SmallVec<[Range<u64>; 1]> = SmallVec::new();
        for hole in holes.drain(..) {
            match merged.last_mut() {
                Some(last) if last.end >= hole.start => last.end = last.end.max(hole.end),
                _ => merged.push(hole),
            }
        }
        self.whole.store(merged.is_empty(), Ordering::Release);
        *holes = merged;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The starts and ends of ranges.
    fn ends(ranges: &[Range<u64>]) -> Vec<(u64, u64)> {
        ranges
            .iter()
            .map(|range| (range.start, range.end))
            .collect()
    }

    #[test]
    fn fill_returns_each_hole_once() {
        let init = BufferInit::uninitialized(100);
        assert_eq!(ends(&init.fill(&(10..20))), [(10, 20)]);
        assert_eq!(ends(&init.fill(&(0..30))), [(0, 10), (20, 30)]);
        assert!(init.fill(&(0..30)).is_empty());
        assert!(!init.is_whole());
        assert_eq!(ends(&init.fill(&(0..100))), [(30, 100)]);
        assert!(init.is_whole());
        assert!(init.fill(&(0..100)).is_empty());
    }

    #[test]
    fn unfill_undoes_fill() {
        let init = BufferInit::uninitialized(100);
        init.fill(&(40..60));
        let taken = init.fill(&(0..100));
        assert!(init.is_whole());
        init.unfill(taken);
        assert!(!init.is_whole());
        let taken = init.fill(&(0..100));
        assert_eq!(ends(&taken), [(0, 40), (60, 100)]);
        init.unfill(taken);
        init.unfill(Vec::from_iter(Some(40..60)));
        assert_eq!(ends(&init.fill(&(0..100))), [(0, 100)]);
    }
}
