//! Callbacks of the program's, and when they run.
//!
//! One queue holds what waits for the fence: mappings and work-done callbacks. They run in the order of
//! the submissions that they wait for, for each the mappings first, so that a work-done callback finds
//! every mapping of its submission resolved, as `wgpu` documents; beyond that in the order of
//! registration. They run in `poll` and `submit`, and with [`Callbacks::Prompt`](super::Callbacks::Prompt) also on a thread of
//! their own; never under a lock (I6), each exactly once (I8).

use crate::{
    resource::{Buffer, MapCallback, MapError},
    Device,
};
use fencepost_lifetime::Serial;
use parking_lot::Mutex;
use std::{
    collections::VecDeque,
    fmt, io,
    panic::AssertUnwindSafe,
    sync::{
        atomic::{AtomicU64, Ordering},
        Arc, Weak,
    },
    thread,
};

/// Called when the GPU has completed what was submitted before.
pub type WorkDoneCallback = Box<dyn FnOnce() + Send>;

/// Called once when the device is lost, with a message for people.
pub type LostCallback = Box<dyn FnOnce(LostReason, String) + Send>;

/// Why a device is lost (specification, `GPUDeviceLostReason`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostReason {
    /// The driver failed or the hardware is gone.
    Unknown,
    /// The program destroyed it.
    Destroyed,
}

pub(crate) enum Waiting {
    WorkDone(WorkDoneCallback),
    /// A buffer with a pending mapping, and that mapping's ticket. The buffer holds the callback itself, and
    /// resolves it if it goes first.
    Map(Weak<Buffer>, u64),
}

/// A callback with its outcome.
pub(crate) enum Call {
    WorkDone(WorkDoneCallback),
    Map(MapCallback, Result<(), MapError>),
}

impl Call {
    pub fn call(self) {
        match self {
            Self::WorkDone(callback) => callback(),
            Self::Map(callback, outcome) => callback(outcome),
        }
    }
}

/// What waits for the fence or for the loss of the device.
#[derive(Default)]
pub(crate) struct CallbackQueue {
    waiting: Mutex<VecDeque<(Serial, Waiting)>>,
    /// What can be called. A callback that panics leaves the others here.
    ready: Mutex<VecDeque<Call>>,
    /// Held while mappings are resolved, before any callback is called: who polls after the fence finds
    /// every buffer mapped.
    resolving: Mutex<()>,
    lost: Mutex<Option<LostCallback>>,
    tickets: AtomicU64,
}

impl fmt::Debug for CallbackQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallbackQueue")
            .field("waiting", &self.waiting.lock().len())
            .field("ready", &self.ready.lock().len())
            .finish_non_exhaustive()
    }
}

impl CallbackQueue {
    /// A number that no other mapping has.
    pub fn ticket(&self) -> u64 {
        self.tickets.fetch_add(1, Ordering::Relaxed)
    }

    pub fn push(&self, serial: Serial, waiting: Waiting) {
        self.waiting.lock().push_back((serial, waiting));
    }

    pub fn set_lost(&self, callback: LostCallback) {
        let old = self.lost.lock().replace(callback);
        drop(old);
    }

    pub fn take_lost(&self) -> Option<LostCallback> {
        self.lost.lock().take()
    }

    /// Resolves the mappings that wait for submissions up to `reclaimed`, and lines up the callbacks.
    pub fn resolve(&self, reclaimed: Serial) {
        // Dropped last: the last handle of a buffer may be among these.
        let mut buffers = Vec::new();
        let _resolving = self.resolving.lock();
        for waiting in self.take_ready(reclaimed) {
            let call = match waiting {
                Waiting::WorkDone(callback) => Some(Call::WorkDone(callback)),
                Waiting::Map(buffer, ticket) => buffer.upgrade().and_then(|buffer| {
                    let resolved = buffer.resolve_map(ticket);
                    buffers.push(buffer);
                    resolved.map(|(callback, outcome)| Call::Map(callback, outcome))
                }),
            };
            self.ready.lock().extend(call);
        }
    }

    /// The next callback to call.
    pub fn next(&self) -> Option<Call> {
        self.ready.lock().pop_front()
    }

    /// Whether there is anything to call once submissions up to `reclaimed` have completed.
    fn has_ready(&self, reclaimed: Serial, is_lost: bool) -> bool {
        !self.ready.lock().is_empty()
            || is_lost && self.lost.lock().is_some()
            || self
                .waiting
                .lock()
                .iter()
                .any(|(serial, _)| *serial <= reclaimed)
    }

    /// Takes what waits for submissions up to `reclaimed`, in order.
    fn take_ready(&self, reclaimed: Serial) -> Vec<Waiting> {
        let mut waiting = self.waiting.lock();
        if waiting.iter().all(|(serial, _)| *serial > reclaimed) {
            return Vec::new();
        }
        let all = std::mem::take(&mut *waiting);
        let (mut ready, later): (Vec<_>, Vec<_>) = all
            .into_iter()
            .partition(|(serial, _)| *serial <= reclaimed);
        waiting.extend(later);
        ready.sort_by_key(|(serial, waiting)| (*serial, matches!(waiting, Waiting::WorkDone(_))));
        ready.into_iter().map(|(_, waiting)| waiting).collect()
    }
}

/// Starts the callback thread of one device.
pub(crate) fn spawn(device: &Arc<Device>) -> io::Result<thread::JoinHandle<()>> {
    let lower = Arc::clone(&device.lower);
    let callbacks = Arc::clone(&device.callbacks);
    let device = Arc::downgrade(device);
    thread::Builder::new()
        .name("fencepost callbacks".into())
        .spawn(move || {
            while lower.bell.listen() {
                if !callbacks.has_ready(lower.retired.reclaimed(), lower.loss.get().is_some()) {
                    continue;
                }
                // A strong handle for the length of one round: should it be the last, the device ends
                // here, and does not join this thread.
                let Some(device) = device.upgrade() else {
                    return;
                };
                let fired = std::panic::catch_unwind(AssertUnwindSafe(move || {
                    device.fire();
                    drop(device);
                }));
                if fired.is_err() {
                    // The panic was reported by its hook. The other callbacks still wait.
                    lower.bell.ring();
                }
            }
        })
}
