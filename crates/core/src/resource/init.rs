//! Which bytes of a buffer have defined contents (I7).
//!
//! Fresh memory may hold anybody's bytes. A range is cleared when it is first read, or written in part;
//! what a copy or a write fills as a whole is never cleared.

use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    ops::Range,
    sync::atomic::{AtomicBool, Ordering},
};

/// The ranges of a buffer that nobody has written. The cost of a change follows the number of ranges that
/// it touches, and the logarithm of all.
#[derive(Debug)]
pub(crate) struct BufferInit {
    holes: Mutex<Holes>,
    /// Set once there are no holes. They may come back when a submission fails and is undone.
    whole: AtomicBool,
}

#[derive(Debug)]
enum Holes {
    /// Nothing of this many bytes is written: the state of most buffers until they are filled.
    All(u64),
    /// Where each hole starts and ends. Disjoint and not adjacent.
    Some(BTreeMap<u64, u64>),
}

impl Holes {
    fn map(&mut self) -> &mut BTreeMap<u64, u64> {
        if let Self::All(size) = *self {
            *self = Self::Some(BTreeMap::from([(0, size)]));
        }
        match self {
            Self::Some(map) => map,
            Self::All(_) => unreachable!("it was made a map a line ago"),
        }
    }
}

impl BufferInit {
    /// Nothing of the `size` bytes is written.
    pub fn uninitialized(size: u64) -> Self {
        Self {
            holes: Mutex::new(Holes::All(size)),
            whole: AtomicBool::new(size == 0),
        }
    }

    /// Everything is written.
    pub fn initialized() -> Self {
        Self {
            holes: Mutex::new(Holes::Some(BTreeMap::new())),
            whole: AtomicBool::new(true),
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
        let map = holes.map();
        // The last hole that starts before the end of the range, and so on backwards.
        while let Some((&start, &end)) = map.range(..range.end).next_back() {
            if end <= range.start {
                break;
            }
            map.remove(&start);
            if end > range.end {
                map.insert(range.end, end);
            }
            filled.push(start.max(range.start)..end.min(range.end));
            if start < range.start {
                map.insert(start, range.start);
                break;
            }
        }
        filled.reverse();
        self.whole.store(map.is_empty(), Ordering::Release);
        filled
    }

    /// Puts back holes that [`fill`](Self::fill) has taken out.
    pub fn unfill(&self, taken: Vec<Range<u64>>) {
        let mut holes = self.holes.lock();
        let map = holes.map();
        for mut hole in taken {
            if let Some((&start, &end)) = map.range(..=hole.start).next_back() {
                if end >= hole.start {
                    map.remove(&start);
                    hole = start..hole.end.max(end);
                }
            }
            if let Some(end) = map.remove(&hole.end) {
                hole.end = end;
            }
            map.insert(hole.start, hole.end);
        }
        self.whole.store(map.is_empty(), Ordering::Release);
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
        assert!(BufferInit::uninitialized(0).is_whole());
    }

    #[test]
    fn unfill_undoes_fill() {
        let init = BufferInit::uninitialized(100);
        init.fill(&(40..60));
        let taken = init.fill(&(0..100));
        assert_eq!(ends(&taken), [(0, 40), (60, 100)]);
        assert!(init.is_whole());
        init.unfill(taken);
        assert!(!init.is_whole());
        init.unfill(Vec::from_iter(Some(40..60)));
        assert_eq!(ends(&init.fill(&(0..100))), [(0, 100)]);
    }

    /// Against a bit for each byte.
    #[test]
    fn any_order_of_fills_and_undos() {
        let mut seed = 7u64;
        let mut random = |below: u64| {
            seed = seed
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (seed >> 33) % below
        };
        const SIZE: u64 = 64;
        let init = BufferInit::uninitialized(SIZE);
        let mut written = [false; SIZE as usize];
        let mut undo: Vec<Vec<Range<u64>>> = Vec::new();
        for _ in 0..20_000 {
            if random(3) > 0 {
                let start = random(SIZE);
                let range = start..start + 1 + random((SIZE - start).max(1)).min(SIZE - start - 1);
                let taken = init.fill(&range);
                let mut expected = range.clone().filter(|&byte| !written[byte as usize]);
                assert!(taken.iter().cloned().flatten().eq(&mut expected));
                range.for_each(|byte| written[byte as usize] = true);
                undo.push(taken);
            } else if let Some(taken) = undo.pop() {
                taken
                    .iter()
                    .cloned()
                    .flatten()
                    .for_each(|byte| written[byte as usize] = false);
                init.unfill(taken);
            }
            assert_eq!(init.is_whole(), written.iter().all(|&written| written));
        }
    }
}
