//! Callbacks of the program's, and when they run.
//!
//! One queue holds what waits for the fence: mappings and work-done callbacks. They run in the order of
//! the submissions that they wait for, for each the mappings first, so that a work-done callback finds
//! every mapping of its submission resolved, as `wgpu` documents; beyond that in the order of
//! registration. They run in `poll` and `submit`, and with [`Callbacks::Prompt`](super::Callbacks::Prompt) also on a thread of
//! their own; never under a lock (I6), each exactly once (I8).

use crate::{resource::Buffer, Device};
use fencepost_lifetime::Serial;
use parking_lot::Mutex;
use std::{
    collections::VecDeque,
    fmt, io,
    sync::{Arc, Weak},
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
    /// A buffer with a pending mapping. It holds the callback itself, and resolves it if it goes first.
    Map(Weak<Buffer>),
}

/// What waits for the fence or for the loss of the device.
#[derive(Default)]
pub(crate) struct CallbackQueue {
    waiting: Mutex<VecDeque<(Serial, Waiting)>>,
    lost: Mutex<Option<LostCallback>>,
}

impl fmt::Debug for CallbackQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallbackQueue")
            .field("waiting", &self.waiting.lock().len())
            .finish_non_exhaustive()
    }
}

impl CallbackQueue {
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

    /// Takes what waits for submissions up to `reclaimed`, in order.
    pub fn take_ready(&self, reclaimed: Serial) -> Vec<Waiting> {
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
    let device = Arc::downgrade(device);
    thread::Builder::new()
        .name("fencepost callbacks".into())
        .spawn(move || {
            while lower.bell.listen() {
                // A strong handle for the length of one round: should it be the last, the device ends
                // here, and does not join this thread.
                let Some(device) = device.upgrade() else {
                    return;
                };
                device.fire();
            }
        })
}
