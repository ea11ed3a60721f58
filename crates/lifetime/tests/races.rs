//! Races on real hardware. Loom (`tests/loom.rs`) finds what can go wrong in principle; this finds what
//! goes wrong in the machine code, and at length.
#![cfg(not(loom))]

use fencepost_lifetime::{Disposal, Retire, RetireQueue, Serial, Slot, Submitter};
use std::{
    sync::{
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*},
        Arc, Barrier, Mutex,
    },
    thread,
    time::{Duration, Instant},
};

/// A payload that knows whether it was freed, and which submission used it last.
#[derive(Clone, Default)]
struct Handle(Arc<State>);

#[derive(Default)]
struct State {
    freed: AtomicBool,
    used_by: AtomicU64,
}

impl Handle {
    #[track_caller]
    fn use_it(&self) {
        assert!(!self.0.freed.load(Relaxed), "used after it was freed");
    }

    fn submit(&self, serial: Serial) {
        self.use_it();
        self.0.used_by.store(serial.get(), Relaxed);
    }
}

type Object = Arc<Slot<Handle>>;

struct Device {
    queue: Arc<RetireQueue<Object>>,
    /// The value of the fence.
    fence: AtomicU64,
    /// Up to which serial the command buffers were reset.
    reset: AtomicU64,
    created: AtomicUsize,
    freed: AtomicUsize,
}

impl Device {
    fn new() -> (Self, Submitter<Object>) {
        let (queue, submitter) = RetireQueue::new();
        let device = Self {
            queue,
            fence: AtomicU64::new(0),
            reset: AtomicU64::new(0),
            created: AtomicUsize::new(0),
            freed: AtomicUsize::new(0),
        };
        (device, submitter)
    }

    fn create(&self) -> Object {
        self.created.fetch_add(1, Relaxed);
        Arc::new(Slot::new(Handle::default()))
    }

    fn free(&self, object: Object) {
        // SAFETY: the queue has handed it back.
        let handle = unsafe { object.take() };
        assert!(!handle.0.freed.swap(true, Relaxed), "freed twice");
        assert!(
            handle.0.used_by.load(Relaxed) <= self.reset.load(Relaxed),
            "freed under a command buffer that exists"
        );
        self.freed.fetch_add(1, Relaxed);
    }

    fn reclaim(&self) {
        let completed = Serial::new(self.fence.load(Acquire));
        let reset = |up_to: Serial| {
            let before = self.reset.swap(up_to.get(), AcqRel);
            assert!(before < up_to.get(), "reset twice");
        };
        for object in self.queue.advance(completed, reset) {
            self.free(object);
        }
    }

    #[track_caller]
    fn assert_clean(&self) {
        assert!(self.queue.is_empty());
        assert_eq!(self.freed.load(Relaxed), self.created.load(Relaxed));
    }
}

impl Retire<Handle> for Device {
    fn retire(&self, object: Object) {
        if let Disposal::Free(object) = self.queue.retire(object.last_use(), object.clone()) {
            self.free(object);
        }
    }
}

/// Scenario 22: a resource is destroyed on one thread while another submits its user.
#[test]
fn destroy_against_submit() {
    const ROUNDS: usize = 30_000;
    let (device, mut submitter) = Device::new();
    let objects: Vec<Object> = (0..ROUNDS).map(|_| device.create()).collect();
    // Each side waits here for the other, so that they meet at every object.
    let meeting = [AtomicUsize::new(0), AtomicUsize::new(0)];
    let meet = |side: usize, round: usize| {
        meeting[side].store(round + 1, Release);
        let mut spins = 0_u32;
        while meeting[1 - side].load(Acquire) <= round {
            spins += 1;
            if spins.is_multiple_of(64) {
                thread::yield_now();
            }
            std::hint::spin_loop();
        }
    };
    let mut executed = 0;
    thread::scope(|scope| {
        scope.spawn(|| {
            for (round, object) in objects.iter().enumerate() {
                meet(0, round);
                object.destroy(&device);
            }
        });
        for (round, object) in objects.iter().enumerate() {
            meet(1, round);
            let mut submission = submitter.begin();
            let serial = submission.serial();
            submission.stamp(object.last_use());
            submission.seal();
            if !object.is_present() {
                continue;
            }
            // SAFETY: stamped, sealed and found present.
            let handle = unsafe { object.get() }.clone();
            handle.submit(serial);
            submission.commit();
            handle.use_it(); // as the GPU does
            device.fence.store(serial.get(), Release);
            device.reclaim();
            executed += 1;
        }
    });
    device.reclaim();
    device.assert_clean();
    println!("{executed} of {ROUNDS} submissions came first");
}

/// Eight threads create, pin, submit, destroy and drop, beside a GPU and a reclaim thread.
#[test]
fn storm() {
    const THREADS: usize = 8;
    let end = Instant::now() + Duration::from_secs(2);
    let (device, submitter) = Device::new();
    let submitter = Mutex::new(submitter);
    let shared: Vec<Mutex<Object>> = (0..4).map(|_| Mutex::new(device.create())).collect();
    let over = AtomicBool::new(false);
    let aborted = AtomicUsize::new(0);
    let start = Barrier::new(THREADS);

    let worker = |seed: u64| {
        let mut state = seed * 2 + 1;
        let mut random = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        start.wait();
        while Instant::now() < end {
            let of_all = &shared[random(4) as usize];
            let own = device.create();
            match random(4) {
                // Replace a shared object while others use it.
                0 => {
                    let old = std::mem::replace(&mut *of_all.lock().unwrap(), own);
                    old.destroy(&device);
                }
                1 => {
                    let theirs = of_all.lock().unwrap().clone();
                    if let Some(pin) = theirs.pin(&device) {
                        if random(2) == 0 {
                            thread::yield_now();
                        }
                        pin.use_it();
                    }
                    own.destroy(&device);
                }
                _ => {
                    let theirs = of_all.lock().unwrap().clone();
                    let mut submitter = submitter.lock().unwrap();
                    let mut submission = submitter.begin();
                    let serial = submission.serial();
                    submission.stamp(own.last_use());
                    submission.stamp(theirs.last_use());
                    if random(2) == 0 {
                        own.destroy(&device);
                    }
                    if random(64) == 0 {
                        thread::yield_now();
                    }
                    submission.seal();
                    if own.is_present() && theirs.is_present() {
                        for object in [&own, &theirs] {
                            // SAFETY: stamped, sealed and found present.
                            unsafe { object.get() }.submit(serial);
                        }
                        submission.commit();
                    } else {
                        drop(submission);
                        aborted.fetch_add(1, Relaxed);
                    }
                    drop(submitter);
                    own.destroy(&device);
                }
            }
        }
    };

    thread::scope(|scope| {
        // The GPU: completes what was published, a little later.
        scope.spawn(|| loop {
            let last = over.load(Acquire);
            let published = device.queue.published().get();
            thread::sleep(Duration::from_micros(300));
            device.fence.store(published, Release);
            if last {
                return;
            }
        });
        // The reclaim thread.
        scope.spawn(|| {
            while let Some(serial) = device.queue.next() {
                while device.fence.load(Acquire) < serial.get() {
                    thread::sleep(Duration::from_micros(100));
                }
                device.reclaim();
            }
        });
        let workers: Vec<_> = (0..THREADS as u64)
            .map(|seed| scope.spawn(move || worker(seed)))
            .collect();
        let outcomes: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        for object in &shared {
            object.lock().unwrap().destroy(&device);
        }
        // Nobody calls in any more: the thread alone must bring everything back.
        let deadline = Instant::now() + Duration::from_secs(20);
        while !device.queue.is_empty() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
        let stranded = device.queue.len();
        over.store(true, Release);
        device.queue.shut();
        for outcome in outcomes {
            outcome.expect("a worker panicked");
        }
        assert_eq!(stranded, 0, "payloads were stranded");
    });
    device.assert_clean();
    println!(
        "{} objects, {} submissions, {} of them aborted",
        device.created.load(Relaxed),
        device.queue.published(),
        aborted.load(Relaxed)
    );
    assert!(aborted.load(Relaxed) > 0, "the storm was too calm");
}
