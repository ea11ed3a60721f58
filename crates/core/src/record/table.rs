//! The objects of one kind that a recording uses: each enters once, and commands name it by its place.

use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Handles without repetition, in the order of first use.
#[derive(Debug)]
pub(crate) struct Table<T> {
    items: Vec<Arc<T>>,
    places: FxHashMap<usize, u32>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            places: FxHashMap::default(),
        }
    }
}

impl<T> Table<T> {
    /// The place of `item`, which enters if it is new.
    #[inline]
    pub fn enter(&mut self, item: &Arc<T>) -> u32 {
        let next = self.items.len() as u32;
        let place = *self
            .places
            .entry(Arc::as_ptr(item) as usize)
            .or_insert(next);
        if place == next {
            self.items.push(Arc::clone(item));
        }
        place
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
