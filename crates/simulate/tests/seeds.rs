//! A fixed set of seeds, and that a seed says everything about its run.

use fencepost_simulate::run;

#[test]
fn fixed_seeds_find_nothing() {
    for seed in 1..=6 {
        match run(seed, 4_000, 2) {
            Ok(stats) => assert!(stats.steps >= 4_000),
            Err(failure) => panic!("{failure}"),
        }
    }
}

/// Every kind of step runs, and everything that a program is meant to meet happens.
#[test]
fn a_run_meets_everything() {
    let stats = run(7, 30_000, 2).unwrap_or_else(|failure| panic!("{failure}"));
    for what in [
        "BeginPass",
        "Budget",
        "Clear",
        "ClearTexture",
        "Complete",
        "CompleteAll",
        "Copy",
        "CopyFromTexture",
        "CopyTexture",
        "CopyToTexture",
        "Destroy Buffer",
        "Destroy Device",
        "Destroy Set",
        "Destroy Texture",
        "Dispatch",
        "Drop Commands",
        "Drop Device",
        "Drop Kit",
        "Drop Queue",
        "Drop Range",
        "Drop View",
        "Fill",
        "Look",
        "Resolve",
        "Share",
        "Timestamp",
        "WriteTexture",
        "callbacks",
        "destroyed devices",
        "ended devices",
        "internal errors",
        "lost devices",
        "out of memory",
        "planned failures",
        "refused submissions",
        "steps in callbacks",
        "validation errors",
        "waits for memory",
        "writes flushed by a mapping",
        "writes forgotten with their target",
    ] {
        assert!(
            stats.counts.get(what).is_some_and(|count| *count > 0),
            "{what}: {stats:#?}"
        );
    }
}

#[test]
fn the_number_of_jobs_changes_nothing() {
    let [one, three] = [1, 3].map(|jobs| {
        let stats = run(8, 5_000, jobs).unwrap_or_else(|failure| panic!("{failure}"));
        (stats.steps, stats.programs, stats.counts)
    });
    assert_eq!(one, three);
    let other = run(9, 5_000, 2).unwrap_or_else(|failure| panic!("{failure}"));
    assert_ne!(one.2, other.counts, "another seed makes other programs");
}
