//! The reclaim thread: memory comes back when nobody calls in.
//!
//! It sleeps until something is retired while in flight, looks at the fence until that has completed, and
//! takes a reclaim step each time the fence has moved. It runs no code of the program's (I6) and ends with
//! its device.

use super::Lower;
use std::{io, sync::Arc, thread, time::Duration};

/// How the thread waits for the fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// It looks every few milliseconds. A program that waits for the same fence is not slowed down: on
    /// NVIDIA's driver a second waiter costs the first a third of its speed, and on GL whoever waits holds
    /// the context.
    Looking,
    /// It waits in the driver and returns with the fence: for programs that leave the waiting to it.
    Blocking,
}

/// Between two looks at the fence.
const NAP: Duration = Duration::from_millis(4);
/// How long the end of the device may have to wait for a blocking thread to notice it.
const SLICE: Duration = Duration::from_millis(50);

/// Starts the thread of one device.
pub(crate) fn spawn(lower: Arc<Lower>, waiting: Waiting) -> io::Result<thread::JoinHandle<()>> {
    thread::Builder::new()
        .name("fencepost reclaim".into())
        .spawn(move || {
            while let Some(serial) = lower.retired.next() {
                if waiting == Waiting::Blocking {
                    if let Err(error) = lower.wait(serial, Some(SLICE)) {
                        // The device may still work; trying again at once would burn a core.
                        log::error!("waiting for submission {serial} failed: {error}");
                        thread::sleep(SLICE);
                    }
                }
                lower.reclaim();
                if waiting == Waiting::Looking && lower.retired.reclaimed() < serial {
                    thread::sleep(NAP);
                }
            }
        })
}
