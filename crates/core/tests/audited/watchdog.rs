//! A hang is a failure: whoever takes too long is named, and the process ends.
//!
//! A thread that hangs cannot be ended, so the process is. What the test printed before is lost with it;
//! the message goes past the capture of the test harness.

use parking_lot::{Condvar, Mutex};
use std::{
    io::{self, Write},
    process,
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

struct State {
    what: String,
    deadline: Instant,
    done: bool,
}

/// Ends the process when a step takes longer than its limit.
pub struct Watchdog {
    limit: Duration,
    shared: Arc<(Mutex<State>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Watches the first step, which is called `what`. Each step may take `limit`.
    pub fn new(limit: Duration, what: impl Into<String>) -> Self {
        let state = State {
            what: what.into(),
            deadline: Instant::now() + limit,
            done: false,
        };
        let shared = Arc::new((Mutex::new(state), Condvar::new()));
        let watched = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            let (state, changed) = &*watched;
            let mut state = state.lock();
            while !state.done {
                let deadline = state.deadline;
                // A step that began meanwhile has moved the deadline.
                if changed.wait_until(&mut state, deadline).timed_out()
                    && !state.done
                    && state.deadline <= Instant::now()
                {
                    let what = &state.what;
                    let _ = writeln!(io::stderr(), "\nhang: {what}: no end after {limit:?}");
                    process::abort();
                }
            }
        });
        Self {
            limit,
            shared,
            thread: Some(thread),
        }
    }

    /// The next step.
    pub fn step(&self, what: impl Into<String>) {
        let mut state = self.shared.0.lock();
        state.what = what.into();
        state.deadline = Instant::now() + self.limit;
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.shared.0.lock().done = true;
        self.shared.1.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
