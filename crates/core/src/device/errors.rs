//! Where errors go: to the innermost matching scope of the thread, or to the uncaptured handler.
//!
//! WebGPU specification, section 22.2 "Error scopes". As in `wgpu`, the stack of scopes belongs to the
//! thread that pushed them.

use crate::{Error, ErrorKind};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::{
    fmt,
    sync::Arc,
    thread::{self, ThreadId},
};

/// Receives the errors that no scope catches. Called under no lock.
pub type UncapturedHandler = Arc<dyn Fn(Error) + Send + Sync>;

/// The error scopes of a device and its uncaptured handler.
#[derive(Default)]
pub(crate) struct ErrorSink {
    scopes: Mutex<FxHashMap<ThreadId, Vec<Scope>>>,
    handler: Mutex<Option<UncapturedHandler>>,
}

struct Scope {
    filter: ErrorKind,
    error: Option<Error>,
}

impl fmt::Debug for ErrorSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ErrorSink").finish_non_exhaustive()
    }
}

impl ErrorSink {
    /// Pushes a scope onto the calling thread's stack and returns its index there.
    pub fn push(&self, filter: ErrorKind) -> u32 {
        let mut scopes = self.scopes.lock();
        let stack = scopes.entry(thread::current().id()).or_default();
        stack.push(Scope {
            filter,
            error: None,
        });
        (stack.len() - 1) as u32
    }

    /// Pops the scope with the given index, and those that were pushed after it and forgotten. `None` if
    /// it caught nothing or is not on the calling thread's stack.
    pub fn pop(&self, index: u32) -> Option<Error> {
        let mut scopes = self.scopes.lock();
        let thread = thread::current().id();
        let stack = scopes.get_mut(&thread)?;
        if index as usize >= stack.len() {
            return None;
        }
        let scope = stack.drain(index as usize..).next();
        if stack.is_empty() {
            scopes.remove(&thread);
        }
        scope?.error
    }

    pub fn set_handler(&self, handler: UncapturedHandler) {
        let old = self.handler.lock().replace(handler);
        drop(old);
    }

    /// Hands an error to the innermost scope that takes its kind, which keeps the first it gets, or to
    /// the handler. Without a handler an error is a panic, as `wgpu` documents.
    pub fn report(&self, error: Error) {
        if error.kind() == ErrorKind::DeviceLost {
            return;
        }
        if let Some(stack) = self.scopes.lock().get_mut(&thread::current().id()) {
            let scope = stack
                .iter_mut()
                .rev()
                .find(|scope| scope.filter == error.kind());
            if let Some(scope) = scope {
                scope.error.get_or_insert(error);
                return;
            }
        }
        let handler = self.handler.lock().clone();
        match handler {
            Some(handler) => handler(error),
            // A second panic while unwinding would abort the process and hide the first.
            None if thread::panicking() => log::error!("uncaptured error while unwinding: {error}"),
            None => panic!("wgpu error: {error}"),
        }
    }
}
