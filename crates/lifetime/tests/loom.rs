//! Loom models, each named after what could go wrong.
//!
//! Run with
//! `RUSTFLAGS="--cfg loom" cargo test -p fencepost-lifetime --release --test loom`.
//!
//! Loom runs every interleaving of a model's threads and every value that the C11 memory model lets a load
//! return, without a bound on preemptions except where a model says so. Two things are checked in every
//! model without being asked for: a payload's last use happens before it is taken (the slot's cell is a
//! loom cell), and no thread is left asleep (loom reports a deadlock). Loom 0.7 models `fence(SeqCst)`, but
//! treats sequentially consistent accesses as acquire and release, which is why the crate uses fences.
//!
//! The GPU of the models is [`Gpu::execute`]: it uses the payload once more after the commit, and then
//! signals the fence.
#![cfg(loom)]

use fencepost_lifetime::{Disposal, Retire, RetireQueue, Serial, Slot, Submitter};
use loom::{
    cell::UnsafeCell,
    model,
    sync::atomic::{AtomicU64, Ordering::*},
    thread,
};
use std::sync::{atomic::AtomicUsize, Arc};

type Object = Arc<Slot<&'static str>>;

/// A device: the queue, a fence, and a count of what was freed. The count is `std`'s, so that the model
/// has no ordering from it.
struct Gpu {
    queue: Arc<RetireQueue<Object>>,
    fence: AtomicU64,
    freed: AtomicUsize,
}

impl Gpu {
    fn new() -> (Arc<Self>, Submitter<Object>) {
        let (queue, submitter) = RetireQueue::new();
        let gpu = Self {
            queue,
            fence: AtomicU64::new(0),
            freed: AtomicUsize::new(0),
        };
        (Arc::new(gpu), submitter)
    }

    fn free(&self, object: Object) {
        // SAFETY: comes from the queue. That this is sound is what the models check.
        unsafe { object.take() };
        self.freed.fetch_add(1, Relaxed);
    }

    fn freed(&self) -> usize {
        self.freed.load(Relaxed)
    }

    fn reclaim(&self) {
        self.reclaim_to(Serial::new(self.fence.load(Acquire)));
    }

    fn reclaim_to(&self, serial: Serial) {
        let reset = |up_to| assert!(up_to <= self.queue.published(), "reset under a submission");
        for object in self.queue.advance(serial, reset) {
            self.free(object);
        }
    }

    /// Uses the object as the GPU does, then signals the fence.
    fn execute(&self, serial: Serial, object: &Object) {
        use_payload(object);
        self.fence.store(serial.get(), Release);
    }

    /// A whole submission of one object, as a caller should make it. `None` if it found the object
    /// destroyed.
    fn submit(&self, submitter: &mut Submitter<Object>, object: &Object) -> Option<Serial> {
        let mut submission = submitter.begin();
        let serial = submission.serial();
        submission.stamp(object.last_use());
        submission.seal();
        if !object.is_present() {
            return None;
        }
        use_payload(object);
        submission.commit();
        Some(serial)
    }

    /// After every thread was joined: nothing waits and everything was freed, once.
    fn assert_freed(&self, objects: usize) {
        assert!(self.queue.is_empty(), "a payload was stranded");
        assert_eq!(self.freed(), objects);
    }
}

impl Retire<&'static str> for Gpu {
    fn retire(&self, object: Object) {
        if let Disposal::Free(object) = self.queue.retire(object.last_use(), object.clone()) {
            self.free(object);
        }
    }
}

fn use_payload(object: &Object) {
    // SAFETY: a submission holds it. That this is sound is what the models check.
    assert_eq!(*unsafe { object.get() }, "payload");
}

fn object() -> Object {
    Arc::new(Slot::new("payload"))
}

/// I5: a submission uses what a destruction has freed.
#[test]
fn destroy_racing_submit() {
    model(|| {
        let (gpu, mut submitter) = Gpu::new();
        let object = object();
        let destroyer = thread::spawn({
            let (gpu, object) = (gpu.clone(), object.clone());
            move || object.destroy(&*gpu)
        });
        let submitted = gpu.submit(&mut submitter, &object);
        if let Some(serial) = submitted {
            gpu.execute(serial, &object);
        }
        destroyer.join().unwrap();
        gpu.reclaim();
        gpu.assert_freed(1);
    });
}

/// I5, with somebody who moves the watermark at the worst moment.
#[test]
fn destroy_racing_submit_and_reclaim() {
    model(|| {
        let (gpu, mut submitter) = Gpu::new();
        let object = object();
        let destroyer = thread::spawn({
            let (gpu, object) = (gpu.clone(), object.clone());
            move || object.destroy(&*gpu)
        });
        let reclaimer = thread::spawn({
            let gpu = gpu.clone();
            move || gpu.reclaim()
        });
        if let Some(serial) = gpu.submit(&mut submitter, &object) {
            gpu.execute(serial, &object);
        }
        destroyer.join().unwrap();
        reclaimer.join().unwrap();
        gpu.reclaim();
        gpu.assert_freed(1);
    });
}

/// I5: of two objects in one submission one is destroyed, so the submission gives up after having used
/// the other, which is destroyed then.
#[test]
fn abort_after_use_racing_destroy() {
    model(|| {
        let (gpu, mut submitter) = Gpu::new();
        let object = object();
        let destroyer = thread::spawn({
            let (gpu, object) = (gpu.clone(), object.clone());
            move || object.destroy(&*gpu)
        });
        let mut submission = submitter.begin();
        submission.stamp(object.last_use());
        submission.seal();
        if object.is_present() {
            use_payload(&object); // recorded into a command buffer, which was discarded again
        }
        drop(submission);
        destroyer.join().unwrap();
        gpu.reclaim();
        gpu.assert_freed(1);
    });
}

/// I3: a payload is filed under a serial that has just been emptied, and nobody looks there again.
/// I1: it is freed before the command buffers that refer to it are reset.
#[test]
fn drop_racing_reclaim() {
    model(|| {
        let (gpu, mut submitter) = Gpu::new();
        let object = object();
        let serial = gpu.submit(&mut submitter, &object).unwrap();
        submitter.begin().commit(); // which goes on, and which nothing has to wait for
        gpu.execute(serial, &object);
        let command_buffer = Arc::new(UnsafeCell::new(true));

        let free = |gpu: &Gpu, object: Object, command_buffer: &UnsafeCell<bool>| {
            // SAFETY: loom reports a race with the reset.
            let exists = command_buffer.with(|exists| unsafe { *exists });
            assert!(!exists, "freed under a command buffer that exists");
            gpu.free(object);
        };
        let dropper = thread::spawn({
            let (gpu, command_buffer) = (gpu.clone(), command_buffer.clone());
            move || {
                assert!(object.mark_destroyed());
                if let Disposal::Free(object) = gpu.queue.retire(object.last_use(), object.clone())
                {
                    free(&gpu, object, &command_buffer);
                }
            }
        });
        let given_back = gpu.queue.advance(serial, |up_to| {
            assert_eq!(up_to, serial);
            // SAFETY: loom reports a race with whoever frees.
            command_buffer.with_mut(|exists| unsafe { *exists = false });
        });
        for object in given_back {
            free(&gpu, object, &command_buffer);
        }
        dropper.join().unwrap();
        gpu.assert_freed(1); // and nobody needs to advance again
    });
}

/// I4: the stamp of an aborted submission holds an idle payload back for ever, since no submission
/// follows.
#[test]
fn aborted_submission_followed_by_nothing() {
    model(|| {
        let (gpu, mut submitter) = Gpu::new();
        let object = object();
        let destroyer = thread::spawn({
            let (gpu, object) = (gpu.clone(), object.clone());
            move || object.destroy(&*gpu)
        });
        let mut submission = submitter.begin();
        submission.stamp(object.last_use());
        drop(submission);
        destroyer.join().unwrap();
        gpu.reclaim_to(Serial::NEVER);
        gpu.assert_freed(1);
    });
}

/// I4: an aborted submission frees early what an older one uses, or holds it back once that has
/// completed.
#[test]
fn aborted_submission_over_one_in_flight() {
    model(|| {
        let (gpu, mut submitter) = Gpu::new();
        let object = object();
        let in_flight = gpu.submit(&mut submitter, &object).unwrap();
        let destroyer = thread::spawn({
            let (gpu, object) = (gpu.clone(), object.clone());
            move || object.destroy(&*gpu)
        });
        let mut submission = submitter.begin();
        submission.stamp(object.last_use());
        drop(submission);
        destroyer.join().unwrap();
        gpu.reclaim_to(Serial::NEVER);
        assert_eq!(gpu.freed(), 0, "freed early");
        gpu.execute(in_flight, &object);
        gpu.reclaim();
        gpu.assert_freed(1);
    });
}

/// I4: an aborted submission makes an idle payload wait for a submission that never used it.
#[test]
fn aborted_submission_beside_one_in_flight() {
    model(|| {
        let (gpu, mut submitter) = Gpu::new();
        let (busy, idle) = (object(), object());
        gpu.submit(&mut submitter, &busy).unwrap();
        let destroyer = thread::spawn({
            let (gpu, idle) = (gpu.clone(), idle.clone());
            move || idle.destroy(&*gpu)
        });
        let mut submission = submitter.begin();
        submission.stamp(idle.last_use());
        drop(submission);
        destroyer.join().unwrap();
        gpu.reclaim_to(Serial::NEVER);
        gpu.assert_freed(1);
    });
}

/// I4: the watermark passes an aborted serial while a payload that bears its stamp is being retired.
#[test]
fn aborted_serial_is_passed_by_the_next() {
    model(|| {
        let (gpu, mut submitter) = Gpu::new();
        let first = object();
        let second = object();
        let destroyer = thread::spawn({
            let (gpu, first) = (gpu.clone(), first.clone());
            move || first.destroy(&*gpu)
        });
        let mut aborted = submitter.begin();
        aborted.stamp(first.last_use());
        drop(aborted);
        let serial = gpu.submit(&mut submitter, &second).unwrap();
        gpu.execute(serial, &second);
        gpu.reclaim();
        destroyer.join().unwrap();
        gpu.reclaim();
        gpu.assert_freed(1);
        second.destroy(&*gpu);
        gpu.assert_freed(2);
    });
}

/// I3: the fence is ahead of the commit, and somebody reclaims in between: what is filed at the commit
/// is passed over.
#[test]
fn fence_ahead_of_commit() {
    model(|| {
        let (gpu, mut submitter) = Gpu::new();
        let object = object();
        let reclaimer = thread::spawn({
            let gpu = gpu.clone();
            move || gpu.reclaim()
        });
        let mut submission = submitter.begin();
        let serial = submission.serial();
        submission.stamp(object.last_use());
        submission.seal();
        object.destroy(&*gpu);
        gpu.execute(serial, &object);
        submission.commit();
        reclaimer.join().unwrap();
        gpu.reclaim();
        gpu.assert_freed(1);
    });
}

/// I2, I3: two threads file into the same drawer while it is emptied.
#[test]
fn two_retire_while_the_watermark_moves() {
    model(|| {
        let (gpu, mut submitter) = Gpu::new();
        let (one, two) = (object(), object());
        let mut submission = submitter.begin();
        let serial = submission.serial();
        submission.stamp(one.last_use());
        submission.stamp(two.last_use());
        submission.commit();
        submitter.begin().commit(); // which goes on, and which nothing has to wait for
        let retirer = |object: Object| {
            let gpu = gpu.clone();
            thread::spawn(move || object.destroy(&*gpu))
        };
        let (one, two) = (retirer(one), retirer(two));
        gpu.reclaim_to(serial);
        one.join().unwrap();
        two.join().unwrap();
        gpu.assert_freed(2);
    });
}

/// I1, I2: two threads move the watermark: command buffers are reset twice, or one of the threads gives
/// payloads back while the other still resets.
#[test]
fn two_move_the_watermark() {
    model(|| {
        let (gpu, mut submitter) = Gpu::new();
        let object = object();
        gpu.submit(&mut submitter, &object).unwrap();
        submitter.begin().commit();
        object.destroy(&*gpu);
        let reset_to = Arc::new(UnsafeCell::new(Serial::NEVER));
        let advance = |gpu: &Gpu, reset_to: &UnsafeCell<Serial>, serial| {
            let given_back = gpu.queue.advance(serial, |up_to| {
                // SAFETY: loom reports a race.
                reset_to.with_mut(|reset_to| unsafe {
                    assert!(*reset_to < up_to, "reset twice");
                    *reset_to = up_to;
                })
            });
            for object in given_back {
                gpu.free(object);
            }
        };
        let other = thread::spawn({
            let (gpu, reset_to) = (gpu.clone(), reset_to.clone());
            move || advance(&gpu, &reset_to, Serial::new(1))
        });
        advance(&gpu, &reset_to, Serial::new(2));
        assert_eq!(gpu.queue.reclaimed(), Serial::new(2));
        other.join().unwrap();
        gpu.assert_freed(1);
    });
}

/// I2: two threads destroy one object.
#[test]
fn two_destroy() {
    model(|| {
        let (gpu, _submitter) = Gpu::new();
        let object = object();
        let other = thread::spawn({
            let (gpu, object) = (gpu.clone(), object.clone());
            move || object.destroy(&*gpu)
        });
        object.destroy(&*gpu);
        other.join().unwrap();
        gpu.assert_freed(1);
    });
}

/// A pinned payload is taken, or retired twice, or by nobody.
#[test]
fn pin_racing_destroy() {
    model(|| {
        let (gpu, _submitter) = Gpu::new();
        let object = object();
        let pinner = || {
            let (gpu, object) = (gpu.clone(), object.clone());
            thread::spawn(move || {
                if let Some(pin) = object.pin(gpu) {
                    assert_eq!(*pin, "payload");
                }
            })
        };
        let (one, two) = (pinner(), pinner());
        object.destroy(&*gpu);
        one.join().unwrap();
        two.join().unwrap();
        gpu.assert_freed(1);
    });
}

/// I5 where the last pin retires: the mark and the look at the stamp are on different threads.
#[test]
fn last_pin_racing_submit() {
    model(|| {
        let (gpu, mut submitter) = Gpu::new();
        let object = object();
        let pin = object.pin(gpu.clone()).unwrap();
        let unpinner = thread::spawn(move || drop(pin));
        let destroyer = thread::spawn({
            let (gpu, object) = (gpu.clone(), object.clone());
            move || object.destroy(&*gpu)
        });
        if let Some(serial) = gpu.submit(&mut submitter, &object) {
            gpu.execute(serial, &object);
        }
        unpinner.join().unwrap();
        destroyer.join().unwrap();
        gpu.reclaim();
        gpu.assert_freed(1);
    });
}

/// The reclaim thread of the models below: one round.
fn reclaim_thread(gpu: &Arc<Gpu>) -> thread::JoinHandle<()> {
    let gpu = gpu.clone();
    thread::spawn(move || {
        let serial = gpu.queue.next().expect("nobody shuts the queue");
        assert!(serial <= gpu.queue.published(), "it would wait for ever");
        gpu.reclaim_to(serial);
    })
}

/// The thread sleeps on after something was retired.
#[test]
fn wake_up_lost_at_retire() {
    model(|| {
        let (gpu, mut submitter) = Gpu::new();
        let object = object();
        let thread = reclaim_thread(&gpu);
        gpu.submit(&mut submitter, &object).unwrap();
        object.destroy(&*gpu);
        thread.join().unwrap();
        gpu.assert_freed(1);
    });
}

/// The thread sleeps on after a submission was committed under which something is filed only then.
#[test]
fn wake_up_lost_at_commit() {
    model(|| {
        let (gpu, mut submitter) = Gpu::new();
        let object = object();
        let thread = reclaim_thread(&gpu);
        let mut submission = submitter.begin();
        submission.stamp(object.last_use());
        submission.seal();
        object.destroy(&*gpu);
        submission.commit();
        thread.join().unwrap();
        gpu.assert_freed(1);
    });
}

/// The thread sleeps on after an aborted submission has left something free behind, with nobody else to
/// fetch it.
#[test]
fn wake_up_lost_at_abort() {
    model(|| {
        let (gpu, mut submitter) = Gpu::new();
        let object = object();
        let thread = reclaim_thread(&gpu);
        let mut submission = submitter.begin();
        submission.stamp(object.last_use());
        object.destroy(&*gpu);
        drop(submission);
        thread.join().unwrap();
        gpu.assert_freed(1);
    });
}

/// The thread sleeps on although somebody waits for a serial: asked for before or after its commit, on
/// another thread.
#[test]
fn wake_up_lost_at_watch() {
    model(|| {
        let (gpu, mut submitter) = Gpu::new();
        let thread = reclaim_thread(&gpu);
        let watcher = thread::spawn({
            let gpu = gpu.clone();
            move || gpu.queue.watch(Serial::new(1))
        });
        submitter.begin().commit();
        watcher.join().unwrap();
        thread.join().unwrap();
        assert_eq!(gpu.queue.reclaimed(), Serial::new(1));
    });
}

/// The thread sleeps on although the serial that somebody waits for was aborted and a later one is in
/// flight.
#[test]
fn wake_up_lost_at_a_gap() {
    model(|| {
        let (gpu, mut submitter) = Gpu::new();
        let thread = reclaim_thread(&gpu);
        gpu.queue.watch(Serial::new(1));
        drop(submitter.begin());
        submitter.begin().commit();
        thread.join().unwrap();
        assert_eq!(gpu.queue.reclaimed(), Serial::new(2));
    });
}

/// The thread does not end with its device, or leaves something behind that was filed before the end.
#[test]
fn wake_up_lost_at_shut() {
    model(|| {
        let (gpu, mut submitter) = Gpu::new();
        let object = object();
        let thread = thread::spawn({
            let gpu = gpu.clone();
            move || {
                while let Some(serial) = gpu.queue.next() {
                    gpu.reclaim_to(serial);
                }
            }
        });
        gpu.submit(&mut submitter, &object).unwrap();
        object.destroy(&*gpu);
        gpu.queue.shut();
        thread.join().unwrap();
        gpu.reclaim_to(gpu.queue.published());
        gpu.assert_freed(1);
    });
}

/// All of it together: one thread submits twice and may have to give up, one destroys, one reclaims.
///
/// At most four preemptions; without a bound it takes minutes.
#[test]
fn storm() {
    let mut builder = model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(4));
    builder.check(|| {
        let (gpu, mut submitter) = Gpu::new();
        let (one, two) = (object(), object());
        let destroyer = thread::spawn({
            let (gpu, one, two) = (gpu.clone(), one.clone(), two.clone());
            move || {
                one.destroy(&*gpu);
                two.destroy(&*gpu);
            }
        });
        let reclaimer = thread::spawn({
            let gpu = gpu.clone();
            move || gpu.reclaim()
        });
        // The first uses both, the second what is left.
        let mut submission = submitter.begin();
        let serial = submission.serial();
        submission.stamp(one.last_use());
        submission.stamp(two.last_use());
        submission.seal();
        if one.is_present() && two.is_present() {
            submission.commit();
            use_payload(&one);
            gpu.execute(serial, &two);
        } else {
            drop(submission);
        }
        if let Some(serial) = gpu.submit(&mut submitter, &two) {
            gpu.execute(serial, &two);
        }
        destroyer.join().unwrap();
        reclaimer.join().unwrap();
        gpu.reclaim();
        gpu.assert_freed(2);
    });
}

/// The deliberate bugs that only an interleaving can show: each is found by a model above. Run it alone,
/// since a planted bug is planted for the whole process.
#[cfg(mutate)]
#[test]
fn mutations_are_found() {
    use fencepost_lifetime::mutation;
    const BUGS: &[(&str, fn())] = &[
        ("a seal without its fence", destroy_racing_submit),
        ("a destruction without its fence", destroy_racing_submit),
        ("a last unpin without its fence", last_pin_racing_submit),
        (
            "a watermark published outside the lock",
            drop_racing_reclaim,
        ),
        ("a reclaim thread that is not woken", wake_up_lost_at_retire),
    ];
    for (bug, model) in BUGS {
        mutation::plant("");
        assert!(
            std::thread::spawn(model).join().is_ok(),
            "the model of {bug}"
        );
        mutation::plant(bug);
        let found = std::thread::spawn(model).join().is_err();
        assert!(
            found,
            "{bug}: no model found it (reached: {})",
            mutation::was_reached()
        );
        println!("found by loom: {bug}");
    }
    mutation::plant("");
}
