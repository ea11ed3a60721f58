//! What is destroyed with a resource: the views of a texture, the bind groups that name a resource.
//!
//! A child is linked under the parent's lock, after which its maker checks once more that the parent is
//! still there; destroying the parent marks it first and takes the children then. So a child is never
//! missed. The list holds slots, not API objects: an entry neither keeps an object alive nor runs its
//! `Drop`.

use crate::reclaim::{Lower, Payload};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

/// The payloads that go when their parent goes.
#[derive(Debug, Default)]
pub(crate) struct Children(Mutex<FxHashMap<usize, Payload>>);

impl Children {
    /// Adds a child. Check afterwards that the parent is still present.
    pub fn link(&self, child: Payload) {
        self.0.lock().insert(child.key(), child);
    }

    /// Removes a child that was dropped.
    pub fn unlink(&self, key: usize) {
        let child = self.0.lock().remove(&key);
        drop(child);
    }

    /// Destroys all children. Call it after the parent was marked as destroyed.
    pub fn destroy_all(&self, lower: &Lower) {
        let children = {
            let mut children = self.0.lock();
            if children.is_empty() {
                return;
            }
            std::mem::take(&mut *children)
        };
        for child in children.into_values() {
            child.destroy(lower);
        }
    }
}
