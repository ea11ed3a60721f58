//! What retiring costs does not depend on what is in flight.
#![cfg(not(loom))]

use fencepost_lifetime::{Disposal, LastUse, RetireQueue, Serial};
use std::{
    hint::black_box,
    time::{Duration, Instant},
};

/// The least time that retiring takes with so many submissions in flight: the first call after them, for
/// an object that the last one uses, and the mean of a thousand more all over the timeline.
fn cost(in_flight: usize) -> (Duration, Duration) {
    let measure = || {
        let (queue, mut submitter) = RetireQueue::new();
        let stamps: Vec<LastUse> = (0..in_flight).map(|_| LastUse::new()).collect();
        for stamp in &stamps {
            let mut submission = submitter.begin();
            submission.stamp(stamp);
            submission.commit();
        }
        let start = Instant::now();
        let disposal = queue.retire(&stamps[in_flight - 1], 0);
        let first = start.elapsed();
        assert!(matches!(disposal, Disposal::Retired));

        const MORE: usize = 1000;
        let start = Instant::now();
        for n in 0..MORE {
            let _ = black_box(queue.retire(&stamps[n * in_flight / MORE], n));
        }
        let more = start.elapsed() / MORE as u32;

        assert_eq!(queue.len(), MORE + 1);
        let free = queue.advance(Serial::new(in_flight as u64), |_| ());
        assert_eq!(free.len(), MORE + 1);
        (first, more)
    };
    (0..40)
        .map(|_| measure())
        .reduce(|a, b| (a.0.min(b.0), a.1.min(b.1)))
        .unwrap()
}

#[test]
fn retiring_costs_the_same_with_10_000_submissions_in_flight() {
    let few = cost(10);
    let many = cost(10_000);
    println!(
        "first call: {:?} with 10 in flight, {:?} with 10,000",
        few.0, many.0
    );
    println!(
        "mean: {:?} with 10 in flight, {:?} with 10,000",
        few.1, many.1
    );
    // What is left of a difference is the cache. A search would take a thousand times as long.
    assert!(many.0 < 10 * few.0 + Duration::from_micros(2));
    assert!(many.1 < 10 * few.1 + Duration::from_nanos(500));
}
