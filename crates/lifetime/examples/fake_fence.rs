//! Guards plain values with a fake fence, and prints what is freed when.
//!
//! The "GPU" is a thread that takes 100 ms over each submission and then raises a number, the fence. The
//! values are names. Everything else is what a program does on top of a real graphics API.
//!
//! ```text
//! cargo run -p fencepost-lifetime --example fake_fence
//! ```

use fencepost_lifetime::{Disposal, Retire, RetireQueue, Serial, Slot, Submitter};
use std::{
    sync::{mpsc, Arc, Condvar, Mutex},
    thread,
    time::{Duration, Instant},
};

/// In a real program: a handle of the graphics API.
type Object = Arc<Slot<&'static str>>;

/// A number that the GPU raises and others wait for, as a timeline semaphore is.
#[derive(Default)]
struct Fence {
    value: Mutex<u64>,
    raised: Condvar,
}

impl Fence {
    fn signal(&self, value: u64) {
        *self.value.lock().unwrap() = value;
        self.raised.notify_all();
    }

    fn wait(&self, value: u64) -> u64 {
        let reached = self.value.lock().unwrap();
        *self
            .raised
            .wait_while(reached, |reached| *reached < value)
            .unwrap()
    }
}

struct Device {
    queue: Arc<RetireQueue<Object>>,
    fence: Fence,
    start: Instant,
}

impl Device {
    fn say(&self, what: std::fmt::Arguments) {
        println!("{:4} ms  {what}", self.start.elapsed().as_millis());
    }

    fn free(&self, object: Object) {
        // SAFETY: only what the queue has handed back comes here.
        let name = unsafe { object.take() };
        self.say(format_args!("    freed: {name}"));
    }

    /// What the reclaim thread does: sleep, wait for the fence, free.
    fn reclaim(&self) {
        while let Some(serial) = self.queue.next() {
            let completed = Serial::new(self.fence.wait(serial.get()));
            let reset = |up_to| self.say(format_args!("    command buffers reset up to {up_to}"));
            for object in self.queue.advance(completed, reset) {
                self.free(object);
            }
        }
    }

    /// Submits work that uses the objects, unless one of them was destroyed.
    fn submit(
        &self,
        submitter: &mut Submitter<Object>,
        gpu: &mpsc::Sender<u64>,
        objects: &[&Object],
    ) {
        let mut submission = submitter.begin();
        let serial = submission.serial();
        for object in objects {
            submission.stamp(object.last_use());
        }
        submission.seal();
        if !objects.iter().all(|object| object.is_present()) {
            self.say(format_args!(
                "submission {serial} refused: it uses something destroyed"
            ));
            return; // which takes the stamps back
        }
        gpu.send(serial.get()).expect("the GPU works until the end");
        submission.commit();
        self.say(format_args!("submission {serial} is in flight"));
    }

    fn destroy(&self, name: &str, object: &Object) {
        self.say(format_args!("destroy {name}"));
        object.destroy(self);
    }
}

impl Retire<&'static str> for Device {
    fn retire(&self, object: Object) {
        match self.queue.retire(object.last_use(), object.clone()) {
            Disposal::Free(object) => self.free(object),
            Disposal::Retired => self.say(format_args!("    it waits for the fence")),
        }
    }
}

fn main() {
    let (queue, mut submitter) = RetireQueue::new();
    let device = Device {
        queue,
        fence: Fence::default(),
        start: Instant::now(),
    };
    let (gpu, submissions) = mpsc::channel::<u64>();

    thread::scope(|scope| {
        scope.spawn(|| {
            for serial in submissions {
                thread::sleep(Duration::from_millis(100));
                device.say(format_args!("the fence signals {serial}"));
                device.fence.signal(serial);
            }
        });
        let reclaim = scope.spawn(|| device.reclaim());

        let [vertices, texture, scratch] =
            ["vertices", "texture", "scratch"].map(|name| Arc::new(Slot::new(name)));
        device.submit(&mut submitter, &gpu, &[&vertices, &texture]);
        device.submit(&mut submitter, &gpu, &[&texture]);
        // Idle, used by the first, used by both. Nobody polls after that.
        device.destroy("scratch", &scratch);
        device.destroy("vertices", &vertices);
        device.destroy("texture", &texture);
        thread::sleep(Duration::from_millis(300));

        // A refused submission delays nothing, though none follows that the fence could signal.
        let uniforms = Arc::new(Slot::new("uniforms"));
        device.submit(&mut submitter, &gpu, &[&uniforms, &texture]);
        device.destroy("uniforms", &uniforms);

        // A pin keeps a value beyond its destruction.
        let staging = Arc::new(Slot::new("staging"));
        let view = staging.pin(&device).expect("it is not destroyed");
        device.destroy("staging", &staging);
        device.say(format_args!("    a view of it still reads {:?}", *view));
        drop(view);

        // The end: the thread, the GPU, and what is left.
        device.queue.shut();
        reclaim.join().expect("the reclaim thread does not panic");
        drop(gpu);
        for object in device.queue.advance(device.queue.published(), |_| ()) {
            device.free(object);
        }
        assert!(device.queue.is_empty());
    });
}
