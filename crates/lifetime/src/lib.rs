//! Frees GPU objects exactly when the GPU has no more use for them.
//!
//! A GPU works through submissions in order, and a fence tells how far it has come. An object that
//! a program lets go of may still be read by a submission that has not completed. This crate decides
//! when it can be freed: at once when it is idle, when its last submission completes otherwise. It
//! knows nothing of any graphics API: it hands payloads back to the caller, who frees them.
//!
//! # The idea
//!
//! It is epoch-based reclamation (Fraser, *Practical lock-freedom*, 2004) with the GPU's timeline as
//! the epoch.
//!
//! * Each submission has a [`Serial`], which is also the value that its fence will signal.
//! * Each object has a [`Slot`], which holds its payload and remembers in a [`LastUse`] the serial of
//!   the last submission that uses it.
//! * A [`Submission`] stamps the slots that it uses, [seals](Submission::seal) the stamps with one
//!   sequentially consistent fence, and then checks that each slot is still
//!   [present](Slot::is_present).
//! * Destroying a slot marks it, issues one sequentially consistent fence, and reads the stamp. The
//!   payload is free at once if that serial has been reclaimed; otherwise it is filed under that
//!   serial in the [`RetireQueue`].
//! * [`RetireQueue::advance`] moves the watermark when the fence has moved, and gives back what was
//!   filed up to it.
//!
//! The two fences make a store-buffering pair (Dekker's algorithm): of a destruction and a submission
//! that race, at least one sees the other. Either the submission finds the slot destroyed and gives
//! up, or the destruction finds the stamp and waits for that submission. Never neither.
//!
//! A submission that gives up ([`Submission`] dropped without [`commit`](Submission::commit)) takes
//! its stamps back, so that it delays nothing: what was destroyed meanwhile is filed again under the
//! stamp that it had before.
//!
//! # A tour
//!
//! ```
//! use fencepost_lifetime::{Disposal, RetireQueue, Serial, Slot};
//! use std::sync::Arc;
//!
//! // The payloads here are names; on a GPU they would be handles.
//! let (queue, mut submitter) = RetireQueue::<Arc<Slot<&str>>>::new();
//!
//! let vertices = Arc::new(Slot::new("vertices"));
//! let scratch = Arc::new(Slot::new("scratch"));
//!
//! // Submit work that uses `vertices`.
//! let mut submission = submitter.begin();
//! let serial = submission.serial();
//! submission.stamp(vertices.last_use());
//! submission.seal();
//! assert!(vertices.is_present());
//! submission.commit(); // the GPU will signal `serial` when it is done
//!
//! // `scratch` is idle: its payload comes back on the spot.
//! assert!(scratch.mark_destroyed());
//! let Disposal::Free(slot) = queue.retire(scratch.last_use(), scratch.clone()) else { panic!() };
//! // SAFETY: the queue has handed the slot back, so nothing refers to its payload any more.
//! assert_eq!(unsafe { slot.take() }, "scratch");
//!
//! // `vertices` is in flight: its payload comes back when the fence has passed `serial`.
//! assert!(vertices.mark_destroyed());
//! assert!(matches!(queue.retire(vertices.last_use(), vertices.clone()), Disposal::Retired));
//! assert!(queue.advance(Serial::NEVER, |_| ()).is_empty());
//! assert_eq!(queue.advance(serial, |_| ()).len(), 1);
//! ```
//!
//! # What the caller must do
//!
//! * Use a slot's payload for GPU work only within a [`Submission`] that stamped it, sealed, and found
//!   it present; for anything else, [`pin`](Slot::pin) it.
//! * Record command buffers within the submission, and get rid of them before it is dropped if it is not
//!   committed. A command buffer that was recorded earlier refers to objects that nothing protects.
//! * Commit a submission only after the GPU API has accepted it, and let its fence signal exactly
//!   [`Submission::serial`].
//! * Pass to [`RetireQueue::advance`] only serials that the fence has reached, and reset there the command
//!   buffers of the submissions up to it.
//!
//! # On top of a graphics API
//!
//! The crate asks four things of one: a number that rises as submissions complete, a way to submit with
//! the next number, a way to read it, and a way to wait for it.
//!
//! | | Vulkan (`ash`) | Metal | Direct3D 12 |
//! | --- | --- | --- | --- |
//! | the number | timeline `VkSemaphore` | `MTLSharedEvent` | `ID3D12Fence` |
//! | submit with it | signal it in `vkQueueSubmit` | `encodeSignalEvent:value:`, then `commit` | `ExecuteCommandLists`, then `Signal` |
//! | read it | `vkGetSemaphoreCounterValue` | `signaledValue` | `GetCompletedValue` |
//! | wait for it | `vkWaitSemaphores` | `waitUntilSignaledValue:timeoutMS:` | `SetEventOnCompletion` |
//! | at the reset | reset or destroy the command pool | drop the `MTLCommandBuffer` | reset the command allocator |
//! | the payload | `VkBuffer` and its memory, … | the retained object | the `ID3D12Resource` |
//!
//! Where there are only binary fences, as in Vulkan 1.0, keep them in a list with their serials; the
//! number is the serial of the last that was signalled. On Metal the payload's own reference is then the
//! only one that is needed: command buffers may be made with unretained references. A removed Direct3D
//! device reads as `u64::MAX`, and counts as having completed everything.
//!
//! With several queues, give each its own [`RetireQueue`], [`Submitter`] and [`LastUse`]; a payload is free
//! once it has been handed back by every queue that it was used on.
//!
//! `examples/vulkan.rs` is a whole program on `ash`, `examples/fake_fence.rs` one without a GPU.
//!
//! # How it is tested
//!
//! Loom models (`tests/loom.rs`) run every interleaving of the races above under the C11 memory model;
//! a seeded simulation (`tests/simulate.rs`) checks random programs against the rules, stated anew;
//! `tests/races.rs` runs the races at length on real threads. The crate has no dependencies.

mod last_use;
#[doc(hidden)]
pub mod mutation;
mod retire;
mod serial;
mod slot;
mod submission;
mod sync;

pub use last_use::LastUse;
pub use retire::{Disposal, RetireQueue};
pub use serial::Serial;
pub use slot::{Pin, Retire, Slot};
pub use submission::{Submission, Submitter};
pub use sync::Arc;
