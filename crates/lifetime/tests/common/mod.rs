//! A device for tests: what it freed, in order, and what its submissions did.
#![allow(dead_code, reason = "each test file uses its part")]

use fencepost_lifetime::{Disposal, Retire, RetireQueue, Serial, Slot, Submission, Submitter};
use std::sync::{Arc, Mutex};

pub type Object = Arc<Slot<&'static str>>;

/// What the device did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Reset(u64),
    Freed(&'static str),
}
pub use Event::{Freed, Reset};

pub struct Device {
    pub queue: Arc<RetireQueue<Object>>,
    events: Mutex<Vec<Event>>,
}

impl Device {
    pub fn new() -> (Self, Submitter<Object>) {
        let (queue, submitter) = RetireQueue::new();
        let device = Self {
            queue,
            events: Mutex::default(),
        };
        (device, submitter)
    }

    pub fn object(&self, name: &'static str) -> Object {
        Arc::new(Slot::new(name))
    }

    pub fn free(&self, object: Object) {
        // SAFETY: only what the queue has handed back comes here.
        let name = unsafe { object.take() };
        self.events.lock().unwrap().push(Freed(name));
    }

    /// The fence has reached `completed`.
    pub fn advance(&self, completed: u64) {
        let reset = |up_to: Serial| self.events.lock().unwrap().push(Reset(up_to.get()));
        for object in self.queue.advance(Serial::new(completed), reset) {
            self.free(object);
        }
    }

    /// What happened since the last call.
    pub fn events(&self) -> Vec<Event> {
        std::mem::take(&mut self.events.lock().unwrap())
    }

    /// Submits work that uses the objects, all of which must be present.
    pub fn submit(&self, submitter: &mut Submitter<Object>, objects: &[&Object]) -> u64 {
        let submission = stamped(submitter, objects);
        assert!(objects.iter().all(|object| object.is_present()));
        let serial = submission.serial();
        submission.commit();
        serial.get()
    }
}

/// An open submission, sealed, that uses the objects.
pub fn stamped<'s>(
    submitter: &'s mut Submitter<Object>,
    objects: &[&'s Object],
) -> Submission<'s, 's, Object> {
    let mut submission = submitter.begin();
    for object in objects {
        submission.stamp(object.last_use());
    }
    submission.seal();
    submission
}

impl Retire<&'static str> for Device {
    fn retire(&self, object: Object) {
        if let Disposal::Free(object) = self.queue.retire(object.last_use(), object.clone()) {
            self.free(object);
        }
    }
}
