//! The queue: what was recorded becomes a HAL submission.
//!
//! One submission takes these steps, all under the queue's lock: it gets the next serial and *stamps*
//! everything in its tables; it seals the stamps and *checks* that each resource is still there and not
//! mapped; it *replays* the writes that waited and then the recordings into one HAL command buffer,
//! with the *transitions* that the queue's view of each resource asks for; the HAL's submit returns; it is
//! committed. Anything that fails before that undoes all of it: stamps, states and initialisation are as
//! before, waiting writes still wait, and every command buffer is spent (I4, I9).
//!
//! After that the tables are dropped, outside the lock: a submission in flight holds no API object.

mod check;
mod copies;
mod encoding;
mod indirect;
mod initialize;
mod journal;
mod pass;
mod pending_writes;
mod queue;
mod replay;

pub use queue::Queue;
pub(crate) use queue::QueueState;
