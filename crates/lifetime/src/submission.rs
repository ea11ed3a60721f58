//! An open submission: the stamps that it has made and may have to take back.

use crate::{
    mutation::planted,
    sync::{fence, Arc, Ordering},
    LastUse, RetireQueue, Serial,
};

/// Opens submissions, one at a time. Made with its queue by [`RetireQueue::new`], and kept by the caller
/// under the lock that orders submissions.
///
/// ```
/// use fencepost_lifetime::{RetireQueue, Serial};
///
/// let (queue, mut submitter) = RetireQueue::<()>::new();
/// submitter.begin().commit();
/// drop(submitter.begin()); // aborted: its serial is not used again
/// let submission = submitter.begin();
/// assert_eq!(submission.serial(), Serial::new(3));
/// submission.commit();
/// assert_eq!(queue.published(), Serial::new(3));
/// ```
#[derive(Debug)]
pub struct Submitter<T> {
    queue: Arc<RetireQueue<T>>,
    issued: Serial,
}

impl<T> Submitter<T> {
    pub(crate) fn new(queue: Arc<RetireQueue<T>>) -> Self {
        Self {
            queue,
            issued: Serial::NEVER,
        }
    }

    /// Opens the next submission.
    pub fn begin(&mut self) -> Submission<'_, '_, T> {
        self.issued = self.issued.next();
        self.queue.open(self.issued);
        Submission {
            queue: &self.queue,
            serial: self.issued,
            stamped: Vec::new(),
            committed: false,
        }
    }
}

/// A submission that is being put together. Dropping it without [`commit`](Self::commit) aborts it, also
/// on unwinding: every stamp is taken back, and what was destroyed meanwhile is filed under the stamp
/// that it had before (I4). What turns out to be free by that comes back from the next
/// [`RetireQueue::advance`], so call it after an abort; a thread in [`RetireQueue::next`] is woken for it
/// as well.
///
/// Command buffers that were recorded for a submission must be gone (discarded or reset) before it is
/// dropped, for from then on nothing protects what they refer to. Locals are dropped in reverse order, so
/// declare the submission before its command buffers.
///
/// A submission that is forgotten (`std::mem::forget`) counts as aborted once the next one begins, but its
/// stamps stay, and may hold payloads back until a later submission completes.
///
/// ```
/// use fencepost_lifetime::{Disposal, RetireQueue, Serial, Slot};
/// use std::sync::Arc;
///
/// let (queue, mut submitter) = RetireQueue::<Arc<Slot<&str>>>::new();
/// let slot = Arc::new(Slot::new("buffer"));
///
/// let mut submission = submitter.begin();
/// assert!(submission.stamp(slot.last_use()));
/// // Another thread destroys the buffer now:
/// assert!(slot.mark_destroyed());
/// let disposal = queue.retire(slot.last_use(), slot.clone());
/// assert!(matches!(disposal, Disposal::Retired));
/// // The submission finds that out and gives up.
/// submission.seal();
/// assert!(!slot.is_present());
/// drop(submission);
///
/// // Nothing was ever submitted, and yet nothing is held back.
/// assert_eq!(slot.last_use().get(), Serial::NEVER);
/// assert_eq!(queue.advance(queue.reclaimed(), |_| ()).len(), 1);
/// ```
#[derive(Debug)]
#[must_use = "a submission that is dropped is aborted"]
pub struct Submission<'q, 'r, T> {
    queue: &'q RetireQueue<T>,
    serial: Serial,
    stamped: Vec<&'r LastUse>,
    committed: bool,
}

impl<'r, T> Submission<'_, 'r, T> {
    /// The serial, which is the value that the submission's fence must signal.
    pub fn serial(&self) -> Serial {
        self.serial
    }

    /// Stamps an object that the submission uses. True the first time.
    #[inline]
    pub fn stamp(&mut self, last_use: &'r LastUse) -> bool {
        let first = last_use.stamp(self.serial);
        if first {
            self.stamped.push(last_use);
        }
        first
    }

    /// Orders the stamps before the checks that follow. Call it after the last stamp and before the first
    /// [`Slot::is_present`](crate::Slot::is_present) that is to count.
    pub fn seal(&self) {
        // The other half of the pair is in `Slot::mark_destroyed` (I5).
        if !planted("a seal without its fence") {
            fence(Ordering::SeqCst);
        }
    }

    /// Keeps a payload that this submission alone uses, such as a temporary bind group, until it
    /// completes. Should it be aborted, the next [`RetireQueue::advance`] gives the payload back.
    pub fn keep(&self, payload: T) {
        self.queue.keep(payload);
    }

    /// Publishes the submission: the GPU API has accepted it and will signal [`serial`](Self::serial). By
    /// now [`RetireQueue::advance`] must know of its command buffers, for it may be called for this serial
    /// the moment after.
    pub fn commit(mut self) {
        self.committed = true;
    }
}

impl<T> Drop for Submission<'_, '_, T> {
    fn drop(&mut self) {
        if !self.committed && !planted("stamps kept by an aborted submission") {
            for last_use in self.stamped.drain(..) {
                last_use.restore();
            }
        }
        self.queue.close(self.serial, self.committed);
    }
}
