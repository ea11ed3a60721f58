//! Wakes the callback thread.

use parking_lot::{Condvar, Mutex};

/// A bell that remembers whether it was rung.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    state: Mutex<State>,
    rung: Condvar,
}

#[derive(Debug, Default)]
struct State {
    rung: bool,
    shut: bool,
}

impl Bell {
    /// Wakes the listener, now or when it next listens.
    pub fn ring(&self) {
        self.state.lock().rung = true;
        self.rung.notify_all();
    }

    /// Ends [`listen`](Self::listen) for good.
    pub fn shut(&self) {
        self.state.lock().shut = true;
        self.rung.notify_all();
    }

    /// Sleeps until the bell rings. False once it was shut.
    pub fn listen(&self) -> bool {
        let mut state = self.state.lock();
        while !state.rung && !state.shut {
            self.rung.wait(&mut state);
        }
        state.rung = false;
        !state.shut
    }
}
