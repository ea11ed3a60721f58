//! What an API object has of its HAL object.

use super::Children;
use crate::reclaim::{Lower, Raw};
use fencepost_lifetime::{mutation::planted, Retire, Slot};
use std::sync::Arc;

/// The payload of an API object, or why it has none.
#[derive(Debug)]
pub(crate) enum Body<T> {
    /// A slot, destroyed or not.
    Live(Arc<Slot<T>>),
    /// It was made from something destroyed. No error until it is submitted.
    Gone,
    /// Its creation failed. Using it is an error.
    Invalid,
}

impl<T: Raw> Body<T>
where
    Lower: Retire<T>,
{
    /// The slot, if there ever was one.
    pub fn slot(&self) -> Option<&Arc<Slot<T>>> {
        match self {
            Self::Live(slot) => Some(slot),
            Self::Gone | Self::Invalid => None,
        }
    }

    /// Whether the creation succeeded.
    pub fn is_valid(&self) -> bool {
        !matches!(self, Self::Invalid)
    }

    /// Whether the payload is there and not destroyed. Counts only within a sealed submission that
    /// stamped the slot.
    pub fn is_present(&self) -> bool {
        self.slot().is_some_and(|slot| slot.is_present())
    }

    /// Destroys the payload after what was made from it, if it was not destroyed before.
    pub fn destroy_with(&self, children: &Children, lower: &Lower) {
        if let Self::Live(slot) = self {
            let retire = slot.mark_destroyed();
            if !planted("a destroyed resource whose bind groups stay") {
                children.destroy_all(lower);
            }
            if retire {
                lower.retire(T::payload(Arc::clone(slot)));
            }
        }
    }

    /// Destroys the payload if it was not destroyed before.
    pub fn destroy(&self, lower: &Lower) {
        if let Self::Live(slot) = self {
            slot.destroy(lower);
        }
    }
}
