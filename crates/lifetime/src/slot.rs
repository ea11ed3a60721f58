//! The place of a payload: where it stays until it is freed.
//!
//! A payload never moves while anything refers to it. Destroying a slot only marks it; the slot itself
//! is what is filed in the [`RetireQueue`](crate::RetireQueue), and whoever gets it back takes the
//! payload out. Relations between objects (a texture and its views) can therefore hold slots, which say
//! whether they were destroyed and otherwise give nothing away.
//! Three things can hold a payload: the program (until the slot is destroyed), a
//! submission (by its stamp), and a [`Pin`], which keeps it through a short use outside a submission or
//! for as long as a mapped view lives. A destroyed slot is retired by whoever lets go of it last.

use crate::{
    mutation::planted,
    sync::{fence, Arc, AtomicU32, Ordering, UnsafeCell},
    LastUse,
};
use std::ops::Deref;

const DESTROYED: u32 = 1 << 31;

/// A payload with its stamp.
///
/// Dropping a slot drops the payload if it is still there: on a GPU that would leak a handle, so take
/// payloads out first.
///
/// ```
/// use fencepost_lifetime::{Disposal, RetireQueue, Slot};
/// use std::sync::Arc;
///
/// let (queue, _submitter) = RetireQueue::<Arc<Slot<String>>>::new();
/// let slot = Arc::new(Slot::new(String::from("a handle")));
/// assert!(slot.is_present());
///
/// assert!(slot.mark_destroyed());
/// assert!(!slot.is_present());
/// assert!(!slot.mark_destroyed(), "the second call has nothing to do");
///
/// // It was never used, so the queue hands it straight back.
/// let Disposal::Free(slot) = queue.retire(slot.last_use(), slot.clone()) else { panic!() };
/// // SAFETY: the queue has handed the slot back.
/// assert_eq!(unsafe { slot.take() }, "a handle");
/// ```
#[derive(Debug)]
pub struct Slot<T> {
    last_use: LastUse,
    /// The number of pins, and [`DESTROYED`].
    state: AtomicU32,
    payload: UnsafeCell<Option<T>>,
}

// SAFETY: a shared slot hands out `&T` (so `T: Sync`) and, once, `T` itself to whichever thread frees it
// (so `T: Send`); the rules of `get` and `take` keep the two apart.
unsafe impl<T: Send + Sync> Sync for Slot<T> {}

impl<T> Slot<T> {
    /// A slot that holds `payload`, never used.
    pub fn new(payload: T) -> Self {
        Self {
            last_use: LastUse::new(),
            state: AtomicU32::new(0),
            payload: UnsafeCell::new(Some(payload)),
        }
    }

    /// The stamp.
    #[inline]
    pub fn last_use(&self) -> &LastUse {
        &self.last_use
    }

    /// Whether the slot has not been destroyed.
    ///
    /// Within a sealed [`Submission`](crate::Submission) that stamped the slot, `true` means that the
    /// payload outlives that submission.
    #[inline]
    pub fn is_present(&self) -> bool {
        self.state.load(Ordering::Acquire) & DESTROYED == 0
    }

    /// Keeps the payload while the pin lives; `None` if the slot was destroyed (or if 2³¹ - 1 pins of it
    /// are alive).
    ///
    /// Should the slot be destroyed meanwhile, the last pin to go hands it to `retire`. A pin that is
    /// forgotten keeps the payload for ever.
    pub fn pin<R>(self: &Arc<Self>, retire: R) -> Option<Pin<T, R>>
    where
        R: Deref<Target: Retire<T>>,
    {
        // Once destroyed, the count only falls: that is what makes one unpin the last. The bound also
        // keeps the count out of the mark.
        let pinned = self
            .state
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, |state| {
                (state < DESTROYED - 1).then(|| state + 1)
            });
        pinned.ok().map(|_| Pin {
            slot: Arc::clone(self),
            retire,
        })
    }

    /// Marks the slot as destroyed and issues the fence that orders the mark before the next look at the
    /// stamp. True for the one caller who must now retire the slot; false if it was destroyed before or
    /// is pinned (the last pin retires it then).
    #[must_use = "who gets `true` must retire the slot"]
    pub fn mark_destroyed(&self) -> bool {
        // Acquire: what earlier pins did with the payload comes before it is freed.
        let before = self.state.fetch_or(DESTROYED, Ordering::AcqRel);
        // The other half of the pair is in `Submission::seal` (I5).
        if !planted("a destruction without its fence") {
            fence(Ordering::SeqCst);
        }
        before == 0
            || planted("a slot retired twice") && before == DESTROYED
            || planted("a destruction that ignores pins") && before < DESTROYED
    }

    /// Destroys the slot: marks it and hands it to `retire`, unless it was destroyed before or is pinned.
    pub fn destroy<R: Retire<T> + ?Sized>(self: &Arc<Self>, retire: &R) {
        if self.mark_destroyed() {
            retire.retire(Arc::clone(self));
        }
    }

    /// The payload, for a submission.
    ///
    /// # Safety
    ///
    /// The caller holds a sealed [`Submission`](crate::Submission) that stamped the slot before it found
    /// the slot present, or otherwise knows that nobody can [take](Self::take) the payload while the
    /// reference lives.
    #[inline]
    pub unsafe fn get(&self) -> &T {
        self.payload.with(|payload| {
            // SAFETY: by the caller's promise nobody writes to the cell (I1, I5).
            unsafe { (*payload).as_ref() }.expect("a payload was used after it was taken")
        })
    }

    /// Undoes a pin that was [detached](Pin::detach).
    ///
    /// # Safety
    ///
    /// Once for each detached pin.
    pub unsafe fn unpin<R: Retire<T> + ?Sized>(self: &Arc<Self>, retire: &R) {
        // Release and acquire: what the pins did with the payload comes before it is freed.
        if self.state.fetch_sub(1, Ordering::AcqRel) == DESTROYED | 1 {
            // The mark is in `state` by now, but the fence of whoever set it may be yet to come: this
            // thread needs its own before it looks at the stamp (I5).
            if !planted("a last unpin without its fence") {
                fence(Ordering::SeqCst);
            }
            retire.retire(Arc::clone(self));
        }
    }

    /// Takes the payload out, to free it.
    ///
    /// # Panics
    ///
    /// If it was taken before (I2).
    ///
    /// # Safety
    ///
    /// The [`RetireQueue`](crate::RetireQueue) has handed the slot back, or the slot was never shared:
    /// no submission, pin or other reference to the payload exists.
    pub unsafe fn take(&self) -> T {
        self.payload.with_mut(|payload| {
            // SAFETY: by the caller's promise there is no other reference to the payload.
            unsafe { (*payload).take() }.expect("a payload was taken twice")
        })
    }
}

/// Where slots go that were destroyed and are no longer pinned.
///
/// An implementation files the slot in a [`RetireQueue`](crate::RetireQueue) and frees it if the queue
/// hands it straight back.
///
/// ```
/// use fencepost_lifetime::{Disposal, Retire, RetireQueue, Slot};
/// use std::sync::Arc;
///
/// struct Device {
///     queue: Arc<RetireQueue<Arc<Slot<u32>>>>,
/// }
///
/// impl Device {
///     fn free(&self, slot: Arc<Slot<u32>>) {
///         // SAFETY: only what the queue has handed back comes here.
///         println!("freed {}", unsafe { slot.take() });
///     }
/// }
///
/// impl Retire<u32> for Device {
///     fn retire(&self, slot: Arc<Slot<u32>>) {
///         if let Disposal::Free(slot) = self.queue.retire(slot.last_use(), slot.clone()) {
///             self.free(slot);
///         }
///     }
/// }
///
/// let device = Device { queue: RetireQueue::new().0 };
/// let slot = Arc::new(Slot::new(7));
/// slot.destroy(&device); // prints "freed 7"
/// ```
pub trait Retire<T> {
    /// Called once per slot, by the thread that let go of it last.
    fn retire(&self, slot: Arc<Slot<T>>);
}

/// Keeps the payload of a [`Slot`]. Made by [`Slot::pin`].
///
/// A pin is for the readers besides submissions: making a view of a texture, flushing a buffer, a mapped
/// view that the program still holds. It orders nothing on the GPU.
///
/// ```
/// # use fencepost_lifetime::{Retire, Slot};
/// # use std::{cell::Cell, sync::Arc};
/// # struct Device(Cell<bool>);
/// # impl Retire<u32> for Device {
/// #     fn retire(&self, _: Arc<Slot<u32>>) {
/// #         self.0.set(true);
/// #     }
/// # }
/// # let device = Device(Cell::new(false));
/// let slot = Arc::new(Slot::new(7));
/// let pin = slot.pin(&device).expect("it is not destroyed");
/// slot.destroy(&device); // marked; the pin holds the payload
/// assert!(slot.pin(&device).is_none());
/// assert_eq!(*pin, 7);
/// drop(pin); // now `device.retire` is called
/// # assert!(device.0.get());
/// ```
#[derive(Debug)]
#[must_use = "a pin that is dropped keeps nothing"]
pub struct Pin<T, R: Deref<Target: Retire<T>>> {
    slot: Arc<Slot<T>>,
    retire: R,
}

impl<T, R: Deref<Target: Retire<T>>> Pin<T, R> {
    /// Keeps the pin without its holder, until [`Slot::unpin`].
    pub fn detach(self) -> Arc<Slot<T>> {
        let slot = Arc::clone(&self.slot);
        self.slot.state.fetch_add(1, Ordering::Relaxed);
        slot
    }

    /// What the pin was made with, through which it retires the slot.
    pub fn holder(&self) -> &R {
        &self.retire
    }
}

impl<T, R: Deref<Target: Retire<T>>> Deref for Pin<T, R> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: a pinned slot is not retired, so nobody takes its payload.
        unsafe { self.slot.get() }
    }
}

impl<T, R: Deref<Target: Retire<T>>> Drop for Pin<T, R> {
    fn drop(&mut self) {
        // SAFETY: this is the one pin that is counted for this object.
        unsafe { self.slot.unpin(&*self.retire) };
    }
}
