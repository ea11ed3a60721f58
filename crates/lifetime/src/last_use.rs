//! The stamp on an object: which submission uses it last.
//!
//! Only the open submission writes stamps, and there is one at a time (its [`Submitter`] is borrowed).
//! The stamp before the open one is kept beside it, so that an aborted submission can be undone and so
//! that what is destroyed while a submission is open can be filed under both.
//!
//! [`Submitter`]: crate::Submitter

use crate::{
    sync::{AtomicU64, Ordering},
    Serial,
};

/// The serial of the last submission that uses an object.
///
/// A [`Slot`](crate::Slot) has one. It also serves alone, for something that is retired without a slot.
///
/// ```
/// use fencepost_lifetime::{LastUse, RetireQueue, Serial};
///
/// let (_queue, mut submitter) = RetireQueue::<()>::new();
/// let last_use = LastUse::new();
/// assert_eq!(last_use.get(), Serial::NEVER);
///
/// let mut submission = submitter.begin();
/// assert!(submission.stamp(&last_use));
/// assert!(!submission.stamp(&last_use), "stamped before");
/// let serial = submission.serial();
/// submission.commit();
/// assert_eq!(last_use.get(), serial);
/// ```
#[derive(Debug)]
pub struct LastUse {
    current: AtomicU64,
    /// The stamp before `current`. Means something only while `current` is the open serial.
    previous: AtomicU64,
}

impl LastUse {
    /// The stamp of an object that was never used.
    pub fn new() -> Self {
        Self {
            current: AtomicU64::new(0),
            previous: AtomicU64::new(0),
        }
    }

    /// The last submission that uses the object, the open one included.
    #[inline]
    pub fn get(&self) -> Serial {
        Serial::new(self.current.load(Ordering::Acquire))
    }

    /// The stamp before the open submission's. Means something only while [`get`](Self::get) returns
    /// the open serial.
    #[inline]
    pub(crate) fn previous(&self) -> Serial {
        Serial::new(self.previous.load(Ordering::Relaxed))
    }

    /// Stamps with the open serial. True if it was not stamped with it before.
    #[inline]
    pub(crate) fn stamp(&self, open: Serial) -> bool {
        let current = self.current.load(Ordering::Relaxed);
        if current == open.get() {
            return false;
        }
        self.previous.store(current, Ordering::Relaxed);
        // Release: who reads the open serial in `current` also reads what it replaced.
        self.current.store(open.get(), Ordering::Release);
        true
    }

    /// Takes the open serial's stamp back. Release: whoever frees on the strength of the older stamp comes
    /// after what the aborted submission did with the payload.
    pub(crate) fn restore(&self) {
        let previous = self.previous.load(Ordering::Relaxed);
        self.current.store(previous, Ordering::Release);
    }
}

impl Default for LastUse {
    fn default() -> Self {
        Self::new()
    }
}
