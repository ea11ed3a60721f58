//! Where payloads wait for the watermark.
//!
//! One lock guards three things that must agree: which serial is open, how far the timeline has been
//! reclaimed, and what is filed under which serial. Filing and moving the watermark both take it, so that
//! nothing is ever filed under a serial that has just been emptied. Whoever finds a stamp below the
//! watermark, which only rises, may free without the lock.
//!
//! Who calls in may give payloads back, and a thread that sleeps in [`RetireQueue::next`] does it when
//! nobody calls in. It is woken by one rule: each change under the lock looks at whether the thread was
//! wanted before and is wanted after, and rings on the step from no to yes.

use crate::{
    mutation::planted,
    sync::{Arc, AtomicBool, AtomicU64, Condvar, Mutex, MutexGuard, Ordering},
    LastUse, Serial, Submitter,
};
use std::collections::VecDeque;

/// What became of a payload given to [`RetireQueue::retire`].
#[derive(Debug)]
#[must_use = "a payload that is free must be freed by the caller"]
pub enum Disposal<T> {
    /// The GPU has no more use for it: free it now.
    Free(T),
    /// It waits for the fence and will come back from [`RetireQueue::advance`].
    Retired,
}

/// Payloads that were let go of while the GPU may still use them, by serial.
///
/// A queue dropped with payloads in it drops them. At the end of a device, wait for the GPU, then
/// [`advance`](Self::advance) to [`published`](Self::published): with no submission open, that gives
/// everything back. A lost device works at nothing any more, so the same call serves there, without the
/// wait.
///
/// ```
/// use fencepost_lifetime::{Disposal, RetireQueue, Slot};
/// use std::sync::Arc;
///
/// let (queue, mut submitter) = RetireQueue::<Arc<Slot<&str>>>::new();
/// let buffer = Arc::new(Slot::new("buffer"));
///
/// let mut submission = submitter.begin();
/// submission.stamp(buffer.last_use());
/// submission.seal();
/// assert!(buffer.is_present());
/// submission.commit();
///
/// assert!(buffer.mark_destroyed());
/// let disposal = queue.retire(buffer.last_use(), buffer.clone());
/// assert!(matches!(disposal, Disposal::Retired));
/// assert_eq!(queue.len(), 1);
///
/// // The GPU has reached the last submission.
/// let free = queue.advance(queue.published(), |up_to| println!("reset what ran up to {up_to}"));
/// assert_eq!(free.len(), 1);
/// assert!(queue.is_empty());
/// ```
#[derive(Debug)]
pub struct RetireQueue<T> {
    /// Written under the `filing` lock.
    reclaimed: AtomicU64,
    /// Written under the `filing` lock.
    published: AtomicU64,
    filing: Mutex<Filing<T>>,
    /// Signalled when the thread in [`RetireQueue::next`] is wanted again, and when the queue is shut.
    wanted: Condvar,
    /// Held while the watermark moves.
    advancing: Mutex<()>,
    /// Whether `Filing::free` holds anything. Written under the `filing` lock.
    left_over: AtomicBool,
}

#[derive(Debug)]
struct Filing<T> {
    open: Option<Serial>,
    /// Retired while stamped by the open submission, each with the stamp before.
    undecided: Vec<(Serial, T)>,
    /// The first committed serial above the watermark, if there is one.
    first: Serial,
    /// One for each serial from `first` to `published`: its payloads, or `None` if it was aborted. The
    /// first and the last are never `None`.
    drawers: VecDeque<Option<Vec<T>>>,
    /// How many payloads are in `drawers`.
    count: usize,
    /// Payloads that an aborted submission held back: nothing uses them.
    free: Vec<T>,
    /// The highest serial that something besides a payload waits for.
    watched: Serial,
    shut: bool,
}

impl<T> RetireQueue<T> {
    /// An empty queue, and the one [`Submitter`] that opens its submissions.
    #[allow(clippy::new_ret_no_self, reason = "the two halves are made together")]
    pub fn new() -> (Arc<Self>, Submitter<T>) {
        let queue = Arc::new(Self {
            reclaimed: AtomicU64::new(0),
            published: AtomicU64::new(0),
            filing: Mutex::new(Filing {
                open: None,
                undecided: Vec::new(),
                first: Serial::NEVER,
                drawers: VecDeque::new(),
                count: 0,
                free: Vec::new(),
                watched: Serial::NEVER,
                shut: false,
            }),
            wanted: Condvar::new(),
            advancing: Mutex::new(()),
            left_over: AtomicBool::new(false),
        });
        (Arc::clone(&queue), Submitter::new(queue))
    }

    /// The watermark: every submission up to here has completed, and what it held has been given back.
    #[inline]
    pub fn reclaimed(&self) -> Serial {
        // Acquire: whoever frees on the strength of it comes after the reset of the command buffers and
        // after everything that those submissions did with their payloads.
        Serial::new(self.reclaimed.load(Ordering::Acquire))
    }

    /// The last submission that was committed.
    #[inline]
    pub fn published(&self) -> Serial {
        Serial::new(self.published.load(Ordering::Acquire))
    }

    /// The first committed submission above the watermark: the one to wait for when memory is short.
    /// `None` if nothing is in flight. It is never one that was aborted, whose value nobody signals.
    pub fn oldest_in_flight(&self) -> Option<Serial> {
        let filing = self.filing.lock();
        (!filing.drawers.is_empty()).then_some(filing.first)
    }

    /// The submission to wait for when memory is short: the first committed one above the watermark, if any
    /// payload waits for the fence. What waits for the open submission to be decided does not count.
    pub fn oldest_wanted(&self) -> Option<Serial> {
        let filing = self.filing.lock();
        (filing.count > 0).then_some(filing.first)
    }

    /// How many committed submissions lie above the watermark. Takes time in proportion to that.
    pub fn in_flight(&self) -> usize {
        self.filing.lock().drawers.iter().flatten().count()
    }

    /// Whether [`advance`](Self::advance) has nothing to do whatever the fence reads, so that it need not
    /// be read: nothing is in flight, and nothing was left over by an aborted submission.
    ///
    /// ```
    /// use fencepost_lifetime::RetireQueue;
    ///
    /// let (queue, mut submitter) = RetireQueue::<()>::new();
    /// assert!(queue.is_settled());
    /// let submission = submitter.begin();
    /// let serial = submission.serial();
    /// submission.commit();
    /// assert!(!queue.is_settled());
    /// queue.advance(serial, |_| ());
    /// assert!(queue.is_settled());
    /// ```
    #[inline]
    pub fn is_settled(&self) -> bool {
        self.reclaimed() >= self.published() && !self.left_over.load(Ordering::Acquire)
    }

    /// How many payloads wait: for the fence, for the open submission to be decided, or for the next
    /// [`advance`](Self::advance).
    pub fn len(&self) -> usize {
        let filing = self.filing.lock();
        filing.count + filing.undecided.len() + filing.free.len()
    }

    /// Whether no payload waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes a payload that was let go of. Its slot must have been
    /// [marked](crate::Slot::mark_destroyed) as destroyed, by the same thread, before this call, and
    /// stamped by this queue's submissions only.
    ///
    /// Constant time, whatever is in flight.
    pub fn retire(&self, last_use: &LastUse, payload: T) -> Disposal<T> {
        // No lock is needed here. The mark came first (I5), so no submission begun after this look at the
        // stamp will use the payload; and a stamp below the watermark is not the open one, for the open
        // serial lies above everything published.
        if last_use.get() <= self.reclaimed()
            || planted("a payload freed one serial early")
                && last_use.get() <= self.reclaimed().next()
        {
            return Disposal::Free(payload);
        }
        let mut filing = self.filing.lock();
        // Under the lock the stamp is exact: an aborted submission restores its stamps before it closes.
        let stamp = last_use.get();
        if filing.open == Some(stamp) {
            filing.undecided.push((last_use.previous(), payload));
            return Disposal::Retired;
        }
        let was_wanted = self.is_wanted(&filing);
        let disposal = self.file(&mut filing, stamp, payload);
        self.wake(filing, was_wanted);
        disposal
    }

    /// Moves the watermark up to `completed`, a value that the fence has reached, and gives back every
    /// payload that was filed up to there, in the order of the serials, then what an aborted submission
    /// held back. A value above [`published`](Self::published) counts as `published`.
    ///
    /// `reset` runs first, if the watermark will move, with the new watermark: reset there the command
    /// buffers of the submissions up to it, so that nothing is freed while one exists that refers to it
    /// (I1). Another thread that advances waits meanwhile. It must not call into this queue. If it
    /// panics, the watermark stays, nothing is lost, and the next call runs its `reset` for the same
    /// submissions.
    pub fn advance(&self, completed: Serial, reset: impl FnOnce(Serial)) -> Vec<T> {
        let mut free = Vec::new();
        if completed > self.reclaimed() {
            self.raise(completed, reset, &mut free);
        }
        if self.left_over.load(Ordering::Acquire) {
            let mut filing = self.filing.lock();
            self.left_over.store(false, Ordering::Relaxed);
            free.append(&mut filing.free);
        }
        free
    }

    fn raise(&self, completed: Serial, reset: impl FnOnce(Serial), free: &mut Vec<T>) {
        let _advancing = self.advancing.lock();
        // The GPU may be done with the open submission before it is committed. Its turn comes after.
        let completed = completed.min(self.published());
        if completed <= self.reclaimed() {
            return;
        }
        reset(completed);
        let mut filing = self.filing.lock();
        filing.empty(completed, free);
        if planted("a watermark published outside the lock") {
            drop(filing);
            return self.reclaimed.store(completed.get(), Ordering::Release);
        }
        // Under the lock, or `retire` files under a serial that nobody looks at again.
        self.reclaimed.store(completed.get(), Ordering::Release);
    }

    /// Makes [`next`](Self::next) wait for `serial` even if no payload does: for a callback, say.
    pub fn watch(&self, serial: Serial) {
        let mut filing = self.filing.lock();
        if serial > filing.watched {
            let was_wanted = self.is_wanted(&filing);
            filing.watched = serial;
            self.wake(filing, was_wanted);
        }
    }

    /// For the thread that reclaims: sleeps until there is something to do, then returns the serial to
    /// wait for before the next [`advance`](Self::advance). `None` once the queue was
    /// [shut](Self::shut).
    ///
    /// The serials come step by step, since something may be filed under an early one while the caller
    /// waits: each is the first committed one above the watermark. The exception is when an aborted
    /// submission has left payloads behind. Then it is the watermark itself: there is nothing to wait for,
    /// only to advance.
    ///
    /// ```
    /// # use fencepost_lifetime::{RetireQueue, Serial};
    /// # fn wait_for_fence(_: Serial) -> Serial { Serial::NEVER }
    /// # fn reset_command_buffers(_: Serial) {}
    /// # fn free(_: u32) {}
    /// fn reclaim_thread(queue: &RetireQueue<u32>) {
    ///     while let Some(serial) = queue.next() {
    ///         let completed = wait_for_fence(serial); // what the fence reads afterwards
    ///         queue
    ///             .advance(completed, reset_command_buffers)
    ///             .into_iter()
    ///             .for_each(free);
    ///     }
    /// }
    /// # let (queue, _submitter) = RetireQueue::new();
    /// # queue.shut();
    /// # reclaim_thread(&queue);
    /// ```
    pub fn next(&self) -> Option<Serial> {
        let mut filing = self.filing.lock();
        loop {
            if filing.shut {
                return None;
            }
            if !filing.free.is_empty() {
                return Some(self.reclaimed());
            }
            if self.is_wanted(&filing) {
                return Some(filing.first);
            }
            filing = self.wanted.wait(filing);
        }
    }

    /// Ends [`next`](Self::next) for good. Everything else works on.
    pub fn shut(&self) {
        self.filing.lock().shut = true;
        self.wanted.notify_all();
    }

    /// Whether [`shut`](Self::shut) was called.
    pub fn is_shut(&self) -> bool {
        self.filing.lock().shut
    }

    /// Whether there is something for [`next`](Self::next) to return.
    fn is_wanted(&self, filing: &Filing<T>) -> bool {
        filing.count > 0
            || !filing.free.is_empty()
            || filing.watched.min(self.published()) > self.reclaimed()
    }

    /// Ends a change under the lock.
    fn wake(&self, filing: MutexGuard<'_, Filing<T>>, was_wanted: bool) {
        let ring = !was_wanted
            && self.is_wanted(&filing)
            && !planted("a reclaim thread that is not woken");
        drop(filing);
        if ring {
            self.wanted.notify_all();
        }
    }

    fn file(&self, filing: &mut Filing<T>, stamp: Serial, payload: T) -> Disposal<T> {
        if stamp <= self.reclaimed() {
            return Disposal::Free(payload);
        }
        match filing.drawer(stamp) {
            Some(drawer) => drawer.push(payload),
            None => return Disposal::Free(payload),
        }
        filing.count += 1;
        Disposal::Retired
    }

    pub(crate) fn open(&self, serial: Serial) {
        self.filing.lock().open = Some(serial);
    }

    /// Decides the open submission. What was retired meanwhile is filed under it, or under the stamp
    /// before it.
    pub(crate) fn close(&self, serial: Serial, committed: bool) {
        let mut filing = self.filing.lock();
        let was_wanted = self.is_wanted(&filing);
        filing.open = None;
        if committed {
            filing.add_drawer(serial);
            // Release: whoever frees what this submission used comes after what it did with it.
            self.published.store(serial.get(), Ordering::Release);
        }
        let mut undecided = std::mem::take(&mut filing.undecided);
        for (previous, payload) in undecided.drain(..) {
            let stamp = if committed { serial } else { previous };
            if let Disposal::Free(payload) = self.file(&mut filing, stamp, payload) {
                filing.free.push(payload);
                self.left_over.store(true, Ordering::Release);
            }
        }
        filing.undecided = undecided; // keeps the memory for the next one
        self.wake(filing, was_wanted);
    }

    /// Keeps a payload until the open submission is decided: until it completes, or no longer if it is
    /// aborted.
    pub(crate) fn keep(&self, payload: T) {
        self.filing.lock().undecided.push((Serial::NEVER, payload));
    }
}

impl<T> Filing<T> {
    /// Makes the drawer of a committed serial, so that [`drawer`](Self::drawer) takes constant time.
    fn add_drawer(&mut self, serial: Serial) {
        if self.drawers.is_empty() {
            self.first = serial;
        }
        let index = (serial.get() - self.first.get()) as usize;
        self.drawers.resize_with(index, || None);
        self.drawers.push_back(Some(Vec::new()));
    }

    /// The drawer of a stamp above the watermark. The stamp of a submission that was forgotten, neither
    /// committed nor dropped, has none of its own: it gets the next one, or the last if there is no next
    /// one, or none if nothing is in flight.
    fn drawer(&mut self, stamp: Serial) -> Option<&mut Vec<T>> {
        let index = stamp.get().saturating_sub(self.first.get()) as usize;
        let last = self.drawers.len().checked_sub(1)?;
        self.drawers.range_mut(index.min(last)..).flatten().next()
    }

    /// Moves the payloads of the serials up to `completed` to `free`.
    fn empty(&mut self, completed: Serial, free: &mut Vec<T>) {
        while let Some(drawer) = self.drawers.front_mut() {
            if let Some(drawer) = drawer {
                if self.first > completed {
                    break;
                }
                self.count -= drawer.len();
                free.append(drawer);
            }
            self.drawers.pop_front();
            self.first = self.first.next();
        }
    }
}
