//! A seeded simulation: random programs, checked after every step against what the rules say.
//!
//! The rules are stated here anew, in the plainest way: which serials use which object, what the GPU has
//! completed, what is destroyed, what is pinned. A failure prints the seed, and
//! `FENCEPOST_SEED=n cargo test -p fencepost-lifetime --test simulate` runs it alone.
#![cfg(not(loom))]

use fencepost_lifetime::{Disposal, Pin, Retire, RetireQueue, Serial, Slot, Submitter};
use std::{
    cell::RefCell,
    panic::{catch_unwind, AssertUnwindSafe},
    sync::Arc,
};

const OBJECTS: usize = 10;
const STEPS: usize = 300;
const SEEDS: u64 = 2000;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// What the rules say of one object.
#[derive(Clone, Debug, Default)]
struct Expected {
    /// The last committed serial that uses it.
    last_use: u64,
    /// Whether the open submission has stamped it before it was retired.
    in_open: bool,
    destroyed: bool,
    pins: usize,
    freed: bool,
}

struct World {
    queue: Arc<RetireQueue<Arc<Slot<usize>>>>,
    expected: RefCell<Vec<Expected>>,
}

impl World {
    fn free(&self, object: Arc<Slot<usize>>) {
        // SAFETY: the queue has handed it back.
        let index = unsafe { object.take() };
        let expected = &mut self.expected.borrow_mut()[index];
        assert!(!expected.freed, "object {index} was freed twice");
        expected.freed = true;
        assert!(
            expected.destroyed,
            "object {index} was freed though not destroyed"
        );
        assert_eq!(expected.pins, 0, "object {index} was freed though pinned");
        assert!(
            !expected.in_open,
            "object {index} was freed under the open submission"
        );
        assert!(
            expected.last_use <= self.queue.reclaimed().get(),
            "object {index} was freed at {} though {} uses it",
            self.queue.reclaimed(),
            expected.last_use
        );
    }

    fn advance(&self, fence: u64) {
        let before = self.queue.reclaimed();
        for object in self.queue.advance(Serial::new(fence), |_| ()) {
            self.free(object);
        }
        let reached = fence.min(self.queue.published().get());
        assert_eq!(self.queue.reclaimed().get(), reached.max(before.get()));
        // I3, I4: right after a step, what can be free is.
        let mut waiting = 0;
        for (index, object) in self.expected.borrow().iter().enumerate() {
            let done = object.destroyed
                && object.pins == 0
                && !object.in_open
                && object.last_use <= self.queue.reclaimed().get();
            assert_eq!(object.freed, done, "object {index} is {object:?}");
            waiting += usize::from(object.destroyed && object.pins == 0 && !object.freed);
        }
        assert_eq!(self.queue.len(), waiting);
    }
}

impl Retire<usize> for World {
    fn retire(&self, object: Arc<Slot<usize>>) {
        if let Disposal::Free(object) = self.queue.retire(object.last_use(), object.clone()) {
            self.free(object);
        }
    }
}

fn run(seed: u64) {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let (queue, mut submitter) = RetireQueue::new();
    let world = World {
        queue,
        expected: RefCell::new(vec![Expected::default(); OBJECTS]),
    };
    let objects: Vec<_> = (0..OBJECTS).map(|n| Arc::new(Slot::new(n))).collect();
    let mut pins = Vec::new();
    let mut fence = 0;
    for _ in 0..STEPS {
        if random.one_in(3) {
            submit(&world, &mut submitter, &objects, &mut pins, &mut random);
        } else {
            act(&world, &objects, &mut pins, &mut random);
        }
        if random.one_in(3) {
            let published = world.queue.published().get();
            fence += random.below((published - fence) as usize + 1) as u64;
            world.advance(fence);
        }
    }
    // The end of the device.
    while let Some((index, pin)) = pins.pop() {
        world.expected.borrow_mut()[index].pins -= 1;
        drop(pin);
    }
    for (index, object) in objects.iter().enumerate() {
        world.expected.borrow_mut()[index].destroyed = true;
        object.destroy(&world);
    }
    world.advance(world.queue.published().get());
    assert!(world.expected.borrow().iter().all(|object| object.freed));
    assert!(world.queue.is_empty());
}

type Pins<'w> = Vec<(usize, Pin<usize, &'w World>)>;

/// One thing that the program does besides submitting.
fn act<'w>(
    world: &'w World,
    objects: &[Arc<Slot<usize>>],
    pins: &mut Pins<'w>,
    random: &mut Random,
) {
    let index = random.below(objects.len());
    match random.below(4) {
        0 => {
            world.expected.borrow_mut()[index].destroyed = true;
            objects[index].destroy(world);
        }
        1 | 2 => {
            let pin = objects[index].pin(world);
            let expected = &mut world.expected.borrow_mut()[index];
            assert_eq!(pin.is_none(), expected.destroyed);
            if let Some(pin) = pin {
                expected.pins += 1;
                pins.push((index, pin));
            }
        }
        _ => {
            if !pins.is_empty() {
                let (index, pin) = pins.swap_remove(random.below(pins.len()));
                assert_eq!(*pin, index);
                world.expected.borrow_mut()[index].pins -= 1;
                drop(pin);
            }
        }
    }
}

fn submit<'w>(
    world: &'w World,
    submitter: &mut Submitter<Arc<Slot<usize>>>,
    objects: &[Arc<Slot<usize>>],
    pins: &mut Pins<'w>,
    random: &mut Random,
) {
    let mut submission = submitter.begin();
    let serial = submission.serial().get();
    let mut used = Vec::new();
    for _ in 0..random.below(4) {
        let index = random.below(objects.len());
        let first = submission.stamp(objects[index].last_use());
        assert_eq!(first, !used.contains(&index));
        if first {
            used.push(index);
            // What was retired before does not wait for this submission, which will find that out.
            let expected = &mut world.expected.borrow_mut()[index];
            expected.in_open = !expected.destroyed || expected.pins > 0;
        }
        if random.one_in(3) {
            act(world, objects, pins, random);
        }
        if random.one_in(5) {
            world.advance(world.queue.reclaimed().get());
        }
    }
    submission.seal();
    let present = used.iter().all(|&index| objects[index].is_present());
    let expected_present = {
        let expected = world.expected.borrow();
        used.iter().all(|&index| !expected[index].destroyed)
    };
    assert_eq!(present, expected_present);
    if random.one_in(3) {
        act(world, objects, pins, random); // between the check and the commit
    }
    let commit = present && !random.one_in(4);
    for &index in &used {
        let expected = &mut world.expected.borrow_mut()[index];
        if commit {
            // SAFETY: stamped, sealed and found present.
            assert_eq!(*unsafe { objects[index].get() }, index);
            expected.last_use = serial;
        }
        expected.in_open = false;
    }
    if commit {
        submission.commit();
        assert_eq!(world.queue.published().get(), serial);
    } else {
        drop(submission);
    }
}

#[test]
fn random_programs_keep_the_rules() {
    let seeds = match std::env::var("FENCEPOST_SEED") {
        Ok(seed) => {
            let seed = seed.parse().expect("FENCEPOST_SEED is a number");
            seed..seed + 1
        }
        Err(_) => 0..SEEDS,
    };
    for seed in seeds {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(seed))) {
            eprintln!("seed {seed} failed");
            std::panic::resume_unwind(panic);
        }
    }
}
