//! A value for each subresource of a texture: each array layer of each mip level.
//!
//! Nearly always all subresources share one value, so that is stored as one; otherwise each mip level is
//! a list of runs of layers. The cost follows the number of different runs, never the number of layers.
//!
//! Invariants: within a level the runs are in order, none is empty, neighbours differ, and the last ends
//! at the number of layers; a map in which all values are equal is stored as one value.

use smallvec::{smallvec, SmallVec};
use std::ops::Range;
use wgpu_types as wgt;

/// A block of subresources: every layer of `layers` in every level of `mips`.
///
/// One- and three-dimensional textures have one layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SubRange {
    pub mips: Range<u32>,
    pub layers: Range<u32>,
}

impl SubRange {
    /// One subresource.
    pub fn one(mip: u32, layer: u32) -> Self {
        Self {
            mips: mip..mip + 1,
            layers: layer..layer + 1,
        }
    }

    /// The range as the HAL wants it, for all aspects.
    pub fn image_range(&self) -> wgt::ImageSubresourceRange {
        wgt::ImageSubresourceRange {
            aspect: wgt::TextureAspect::All,
            base_mip_level: self.mips.start,
            mip_level_count: Some(self.mips.end - self.mips.start),
            base_array_layer: self.layers.start,
            array_layer_count: Some(self.layers.end - self.layers.start),
        }
    }
}

/// A run of layers that share a value: where it ends (exclusive), and the value. It starts where the run
/// before it ends.
type Run<T> = (u32, T);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Values<T> {
    Uniform(T),
    /// One list per mip level.
    PerMip(Vec<SmallVec<[Run<T>; 1]>>),
}

/// See the [module documentation](self).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SubresourceMap<T> {
    mips: u32,
    layers: u32,
    values: Values<T>,
}

impl<T: Copy + PartialEq> SubresourceMap<T> {
    /// A map of `mips` levels of `layers` layers, neither zero, all of one value.
    pub fn new(mips: u32, layers: u32, value: T) -> Self {
        debug_assert!(mips > 0 && layers > 0);
        Self {
            mips,
            layers,
            values: Values::Uniform(value),
        }
    }

    /// All subresources.
    pub fn full_range(&self) -> SubRange {
        SubRange {
            mips: 0..self.mips,
            layers: 0..self.layers,
        }
    }

    /// The value that all subresources share, if they do.
    pub fn uniform(&self) -> Option<T> {
        match self.values {
            Values::Uniform(value) => Some(value),
            Values::PerMip(_) => None,
        }
    }

    /// Calls `visit` with the value of each part of `range`, level by level; consecutive levels whose
    /// part of the range has one and the same value come as one part.
    pub fn for_each(&self, range: &SubRange, mut visit: impl FnMut(SubRange, T)) {
        self.check(range);
        let levels = match &self.values {
            Values::Uniform(value) => {
                if !range.mips.is_empty() && !range.layers.is_empty() {
                    visit(range.clone(), *value);
                }
                return;
            }
            Values::PerMip(levels) => levels,
        };
        let mut pending: Option<(SubRange, T)> = None;
        for mip in range.mips.clone() {
            let mut start = 0;
            for &(end, value) in &levels[mip as usize] {
                let layers = start.max(range.layers.start)..end.min(range.layers.end);
                start = end;
                if layers.is_empty() {
                    continue;
                }
                match &mut pending {
                    Some((part, last))
                        if *last == value && part.layers == layers && part.mips.end == mip =>
                    {
                        part.mips.end = mip + 1;
                    }
                    _ => {
                        let part = SubRange {
                            mips: mip..mip + 1,
                            layers,
                        };
                        if let Some((part, value)) = pending.replace((part, value)) {
                            visit(part, value);
                        }
                    }
                }
            }
        }
        if let Some((part, value)) = pending {
            visit(part, value);
        }
    }

    /// Gives every subresource of `range` the value `value`.
    pub fn set(&mut self, range: &SubRange, value: T) {
        self.check(range);
        if range.mips.is_empty() || range.layers.is_empty() {
            return;
        }
        if *range == self.full_range() {
            self.values = Values::Uniform(value);
            return;
        }
        let levels = match &mut self.values {
            Values::Uniform(same) if *same == value => return,
            Values::Uniform(same) => {
                let level = smallvec![(self.layers, *same)];
                self.values = Values::PerMip(vec![level; self.mips as usize]);
                match &mut self.values {
                    Values::PerMip(levels) => levels,
                    Values::Uniform(_) => unreachable!("was just replaced"),
                }
            }
            Values::PerMip(levels) => levels,
        };
        for level in &mut levels[range.mips.start as usize..range.mips.end as usize] {
            *level = overwrite(level, &range.layers, value);
        }
        if levels
            .iter()
            .all(|level| matches!(level[..], [(_, only)] if only == value))
        {
            self.values = Values::Uniform(value);
        }
    }

    fn check(&self, range: &SubRange) {
        debug_assert!(
            range.mips.end <= self.mips && range.layers.end <= self.layers,
            "{range:?} lies outside of {:?}",
            self.full_range()
        );
    }
}

/// The runs of one level after `layers`, not empty, got the value `value`.
fn overwrite<T: Copy + PartialEq>(
    runs: &[Run<T>],
    layers: &Range<u32>,
    value: T,
) -> SmallVec<[Run<T>; 1]> {
    let mut result = SmallVec::new();
    let mut push = |end: u32, value: T| match result.last_mut() {
        Some((last_end, _)) if *last_end >= end => {}
        Some((last_end, last)) if *last == value => *last_end = end,
        _ => result.push((end, value)),
    };
    // What lies before the range, the range, what lies behind it.
    let mut start = 0;
    for &(end, old) in runs {
        if start < layers.start {
            push(end.min(layers.start), old);
        }
        start = end;
    }
    push(layers.end, value);
    for &(end, old) in runs {
        if end > layers.end {
            push(end, old);
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(mips: Range<u32>, layers: Range<u32>) -> SubRange {
        SubRange { mips, layers }
    }

    fn parts(map: &SubresourceMap<u8>, of: &SubRange) -> Vec<(SubRange, u8)> {
        let mut parts = Vec::new();
        map.for_each(of, |part, value| parts.push((part, value)));
        parts
    }

    #[test]
    fn a_fresh_map_is_uniform() {
        let map = SubresourceMap::new(3, 4, 7);
        assert_eq!(map.uniform(), Some(7));
        assert_eq!(
            parts(&map, &map.full_range()),
            [(range(0..3, 0..4), 7)],
            "the whole texture is one part"
        );
        assert_eq!(parts(&map, &range(1..2, 1..3)), [(range(1..2, 1..3), 7)]);
    }

    #[test]
    fn a_part_splits_its_level_only() {
        let mut map = SubresourceMap::new(2, 6, 0);
        map.set(&range(1..2, 2..4), 1);
        assert_eq!(map.uniform(), None);
        assert_eq!(
            parts(&map, &map.full_range()),
            [
                (range(0..1, 0..6), 0),
                (range(1..2, 0..2), 0),
                (range(1..2, 2..4), 1),
                (range(1..2, 4..6), 0),
            ]
        );
        assert_eq!(
            parts(&map, &range(1..2, 3..5)),
            [(range(1..2, 3..4), 1), (range(1..2, 4..5), 0)]
        );
    }

    #[test]
    fn levels_of_one_value_come_as_one_part() {
        let mut map = SubresourceMap::new(4, 2, 0);
        map.set(&range(1..3, 0..2), 1);
        assert_eq!(
            parts(&map, &map.full_range()),
            [
                (range(0..1, 0..2), 0),
                (range(1..3, 0..2), 1),
                (range(3..4, 0..2), 0),
            ]
        );
        assert_eq!(parts(&map, &range(0..4, 1..2)).len(), 3);
    }

    #[test]
    fn it_becomes_uniform_again() {
        let mut map = SubresourceMap::new(2, 2, 0);
        map.set(&range(0..2, 0..1), 1);
        map.set(&range(0..1, 1..2), 1);
        assert_eq!(map.uniform(), None);
        map.set(&range(1..2, 1..2), 1);
        assert_eq!(map.uniform(), Some(1));
        map.set(&range(0..1, 0..1), 2);
        map.set(&range(0..2, 0..2), 3);
        assert_eq!(map.uniform(), Some(3));
    }

    #[test]
    fn the_same_value_changes_nothing() {
        let mut map = SubresourceMap::new(2, 2, 5);
        map.set(&range(0..1, 0..1), 5);
        assert_eq!(map.uniform(), Some(5));
    }

    #[test]
    fn empty_ranges_are_nothing() {
        let mut map = SubresourceMap::new(2, 2, 0);
        map.set(&range(0..0, 0..2), 1);
        map.set(&range(0..2, 1..1), 1);
        assert_eq!(map.uniform(), Some(0));
        assert!(parts(&map, &range(0..2, 1..1)).is_empty());
    }

    #[test]
    fn a_great_many_layers_cost_nothing() {
        let layers = i32::MAX as u32;
        let mut map = SubresourceMap::new(2, layers, 0);
        map.set(&range(0..1, layers / 2..layers / 2 + 1), 1);
        assert_eq!(parts(&map, &map.full_range()).len(), 4);
    }

    #[test]
    fn it_agrees_with_a_plain_table() {
        const MIPS: u32 = 3;
        const LAYERS: u32 = 5;
        let mut map = SubresourceMap::new(MIPS, LAYERS, 0_u8);
        let mut table = [[0_u8; LAYERS as usize]; MIPS as usize];
        // A linear congruential generator (Numerical Recipes' constants) is random enough.
        let mut seed = 1_u32;
        let mut random = |below: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 16) % below
        };
        for _ in 0..2000 {
            let mip = random(MIPS);
            let layer = random(LAYERS);
            let part = range(
                mip..mip + 1 + random(MIPS - mip),
                layer..layer + 1 + random(LAYERS - layer),
            );
            let value = random(3) as u8;
            map.set(&part, value);
            for level in &mut table[part.mips.start as usize..part.mips.end as usize] {
                level[part.layers.start as usize..part.layers.end as usize].fill(value);
            }
            let mut seen = [[None; LAYERS as usize]; MIPS as usize];
            map.for_each(&map.full_range(), |part, value| {
                for mip in part.mips {
                    for layer in part.layers.clone() {
                        let before = seen[mip as usize][layer as usize].replace(value);
                        assert_eq!(before, None, "visited twice");
                    }
                }
            });
            assert_eq!(seen, table.map(|level| level.map(Some)));
            let first = table[0][0];
            let uniform = table.iter().flatten().all(|&value| value == first);
            assert_eq!(map.uniform(), uniform.then_some(first));
        }
    }
}
