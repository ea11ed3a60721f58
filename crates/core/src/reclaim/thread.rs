//! The reclaim thread: memory comes back when nobody calls in.
//!
//! It sleeps until something is retired while in flight, waits for the fence step by step, and takes a
//! reclaim step after each. It runs no code of the program's (I6) and ends with its device.

use super::Lower;
use std::{io, sync::Arc, thread, time::Duration};

/// Starts the thread of one device.
pub(crate) fn spawn(lower: Arc<Lower>) -> io::Result<thread::JoinHandle<()>> {
    thread::Builder::new()
        .name("fencepost reclaim".into())
        .spawn(move || run(&lower))
}

fn run(lower: &Lower) {
    /// How long the end of the device may have to wait for this thread to notice it.
    const SLICE: Duration = Duration::from_millis(50);
    /// Between two looks at the fence where waiting would hold up everybody else.
    const NAP: Duration = Duration::from_millis(2);

    while let Some(serial) = lower.retired.next() {
        if lower.exclusive_wait {
            lower.reclaim();
            if lower.retired.reclaimed() < serial {
                thread::sleep(NAP);
            }
            continue;
        }
        match lower.wait(serial, Some(SLICE)) {
            Ok(true) => lower.reclaim(),
            Ok(false) => {}
            Err(error) => {
                // The device may still work; trying again at once would burn a core.
                log::error!("waiting for submission {serial} failed: {error}");
                thread::sleep(SLICE);
                lower.reclaim();
            }
        }
    }
}
