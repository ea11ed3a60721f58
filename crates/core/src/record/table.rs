//! The objects of one kind that a recording uses. Commands name them by their places.
//!
//! An object that is named again and again enters once: a small direct-mapped cache finds it. Should it
//! have been driven out of the cache, it enters again, which costs a handle and nothing else: whoever walks
//! a table may meet an object twice.

use std::sync::Arc;

/// See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct Table<T> {
    items: Vec<Arc<T>>,
    /// The place that an address was last seen at, made once there are too many items to look through.
    cache: Option<Box<[u32; CACHED]>>,
}

const CACHED: usize = 256;
/// Up to this many items are looked through one by one.
const FEW: usize = 8;

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            cache: None,
        }
    }
}

impl<T> Table<T> {
    /// The place of `item`, which enters if it is not found.
    #[inline]
    pub fn enter(&mut self, item: &Arc<T>) -> u32 {
        let next = self.items.len() as u32;
        let Some(cache) = &mut self.cache else {
            let known = self.items.iter().position(|known| Arc::ptr_eq(known, item));
            return match known {
                Some(place) => place as u32,
                None => {
                    self.items.push(Arc::clone(item));
                    if self.items.len() > FEW {
                        self.start_cache();
                    }
                    next
                }
            };
        };
        let line = &mut cache[line_of(item)];
        if Arc::ptr_eq(&self.items[*line as usize], item) {
            return *line;
        }
        *line = next;
        self.items.push(Arc::clone(item));
        next
    }

    #[cold]
    fn start_cache(&mut self) {
        let mut cache = Box::new([0; CACHED]);
        for (place, item) in self.items.iter().enumerate() {
            cache[line_of(item)] = place as u32;
        }
        self.cache = Some(cache);
    }

    /// The item at a place that [`enter`](Self::enter) has returned.
    #[inline]
    pub fn get(&self, place: u32) -> &Arc<T> {
        &self.items[place as usize]
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Arc<T>> {
        self.items.iter()
    }
}

/// The line of the cache for an address. Allocations are at multiples of 16, often of the same few sizes.
#[inline]
fn line_of<T>(item: &Arc<T>) -> usize {
    let address = Arc::as_ptr(item) as usize;
    ((address >> 4) ^ (address >> 12)) % CACHED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_name_what_entered() {
        let items: Vec<_> = (0..2000).map(Arc::new).collect();
        let mut table = Table::default();
        let places: Vec<_> = items.iter().map(|item| table.enter(item)).collect();
        for (item, place) in items.iter().zip(&places) {
            assert!(Arc::ptr_eq(item, table.get(*place)));
        }
        assert_eq!(table.iter().count(), 2000);
    }

    #[test]
    fn what_is_named_again_does_not_enter_again() {
        let items: Vec<_> = (0..FEW).map(Arc::new).collect();
        let hot = Arc::new(100);
        let mut table = Table::default();
        for _ in 0..100 {
            for item in &items {
                table.enter(item);
            }
            assert_eq!(
                *table.get(table.items.len() as u32 - 1),
                *items.last().unwrap()
            );
        }
        assert_eq!(table.iter().count(), FEW);
        let place = table.enter(&hot);
        assert_eq!(table.iter().count(), FEW + 1);
        assert_eq!(table.enter(&hot), place);
        assert_eq!(table.iter().count(), FEW + 1);
    }
}
