//! Runs of programs: one, until the core and the model part; or many, on several threads.

use crate::{
    compare::{audit, Comparison, Difference},
    event::Event,
    generate::Generator,
    model::{Model, Seen},
    random::Random,
    shrink,
    step::Step,
    world, DEVICES,
};
use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    fmt,
    panic::{self, AssertUnwindSafe},
    sync::{
        atomic::{AtomicBool, AtomicU64, Ordering},
        Mutex, Once,
    },
    thread,
};

thread_local! {
    /// Whether a panic on this thread is one of the core's, and what it said.
    static WATCHED: Cell<bool> = const { Cell::new(false) };
    static SAID: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps panics that are looked for off the terminal.
fn watch_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if WATCHED.get() {
                SAID.with_borrow_mut(|said| {
                    if said.is_empty() {
                        *said = info.to_string();
                    }
                });
            } else {
                before(info);
            }
        }));
    });
}

/// One program as it ran.
pub(crate) struct Outcome {
    pub steps: Vec<Step>,
    pub difference: Option<Difference>,
    pub tally: BTreeMap<String, u64>,
}

/// Runs the steps that `next` makes up, then lets go of everything.
pub(crate) fn execute(mut next: impl FnMut(&Model) -> Option<Step>) -> Outcome {
    watch_panics();
    let mut steps = Vec::new();
    let mut tally = BTreeMap::new();
    WATCHED.set(true);
    let caught = panic::catch_unwind(AssertUnwindSafe(|| {
        drive(&mut next, &mut steps, &mut tally)
    }));
    WATCHED.set(false);
    let said = SAID.take();
    let difference = match caught {
        Ok(Ok(())) => None,
        Ok(Err(difference)) => {
            // What is left is in no known state.
            world::abandon();
            Some(difference)
        }
        Err(_) => {
            world::abandon();
            let place = said.lines().next().unwrap_or_default();
            Some(Difference {
                kind: format!("panic: {place}"),
                text: said.clone(),
            })
        }
    };
    Outcome {
        steps,
        difference,
        tally,
    }
}

fn drive(
    next: &mut dyn FnMut(&Model) -> Option<Step>,
    steps: &mut Vec<Step>,
    tally: &mut BTreeMap<String, u64>,
) -> Result<(), Difference> {
    world::create(DEVICES);
    let mut model = Model::new(DEVICES);
    let mut comparison = Comparison::new(DEVICES);
    while let Some(step) = next(&model) {
        *tally.entry(step.name()).or_default() += 1;
        steps.push(step);
        let step = steps.last().expect("it was pushed a line ago");
        one(step, &mut model, &mut comparison)?;
    }
    for (what, count) in &model.tally {
        *tally.entry((*what).to_owned()).or_default() += count;
    }
    // The end of every program.
    one(&Step::Budget(None), &mut model, &mut comparison)?;
    loop {
        // Callbacks may make more on the way.
        let remains = world::remains();
        if remains.is_empty() {
            break;
        }
        for step in remains {
            one(&step, &mut model, &mut comparison)?;
        }
    }
    let auditor = world::end();
    audit(&auditor)?;
    let left = auditor.live_objects();
    if left.is_empty() && auditor.live_bytes() == 0 {
        Ok(())
    } else {
        Err(Difference {
            kind: "left over".into(),
            text: format!("at the end there are {left:?}"),
        })
    }
}

fn one(step: &Step, model: &mut Model, comparison: &mut Comparison) -> Result<(), Difference> {
    world::top(step);
    let (seen, ghost) = world::with(|world| {
        let lost = world.lost();
        let loss_done = model.loss_planned && !world.are_planned();
        let fresh = lost
            .iter()
            .zip(&model.devices)
            .any(|(lost, device)| *lost && !device.lost);
        let held = world.events.iter().filter_map(|event| match event {
            Event::Held { range, mapped } => Some((*range, *mapped)),
            _ => None,
        });
        let seen = Seen {
            held: held.collect(),
            loss_done,
            lost,
        };
        (seen, loss_done && !fresh)
    });
    model.top(step, seen);
    world::with(|world| comparison.step(world, model, ghost))
}

/// What a run has seen.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// The steps that were run, without those that are nested in others.
    pub steps: u64,
    /// The programs that they make up.
    pub programs: u64,
    /// How often each kind of step ran, and each kind of thing happened.
    pub counts: BTreeMap<String, u64>,
}

impl Stats {
    fn add(&mut self, outcome: &Outcome) {
        self.steps += outcome.steps.len() as u64;
        self.programs += 1;
        for (what, count) in &outcome.tally {
            *self.counts.entry(what.clone()).or_default() += count;
        }
    }
}

/// A program for which the core and the model differ. Its `Display` output ends in a test to paste.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed of the run.
    pub seed: u64,
    /// The number of the program in the run.
    pub program: u64,
    /// The shortest program that was found to fail in the same way.
    pub steps: Vec<Step>,
    /// What differs, for that program.
    pub difference: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, program, .. } = self;
        writeln!(f, "seed {seed}, program {program}: {}\n", self.difference)?;
        writeln!(f, "#[test]\nfn seed_{seed}_{program}() {{")?;
        writeln!(f, "    use fencepost_simulate::{{replay, Fault::*, Kind::*, List, Mode::*, Step::*, Usage, Wait}};")?;
        writeln!(f, "    replay(&[")?;
        for step in &self.steps {
            writeln!(f, "        {step:?},")?;
        }
        write!(f, "    ]);\n}}")
    }
}

impl std::error::Error for Failure {}

/// The seed of a program of a run.
fn program_seed(seed: u64, program: u64) -> u64 {
    Random::new(seed ^ Random::new(program).bits()).bits()
}

/// Runs one program of a run.
pub(crate) fn program(seed: u64, number: u64) -> Outcome {
    let mut generator = Generator::new(program_seed(seed, number));
    execute(|model| generator.next(model))
}

/// Runs programs of at least `steps` steps together on `jobs` threads. The outcome depends on the seed and on
/// the number of steps alone.
///
/// # Errors
///
/// The first program, in the order of their numbers, for which the core and the model differ, shrunk.
pub fn run(seed: u64, steps: u64, jobs: usize) -> Result<Stats, Failure> {
    let next = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let results = Mutex::new(BTreeMap::new());
    thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                while !stop.load(Ordering::Acquire) {
                    let number = next.fetch_add(1, Ordering::AcqRel);
                    let outcome = program(seed, number);
                    let mut results = results.lock().expect("nothing panics under this lock");
                    let failed = outcome.difference.is_some();
                    let stats = results.entry(number).or_insert((Stats::default(), None));
                    stats.0.add(&outcome);
                    stats.1 = failed.then_some(outcome);
                    // The programs count in order: whatever is missing is still on its way.
                    if is_enough(&results, steps) {
                        stop.store(true, Ordering::Release);
                    }
                }
            });
        }
    });
    let results = results
        .into_inner()
        .expect("nothing panics under this lock");
    let mut stats = Stats::default();
    for (number, (part, failed)) in results {
        if let Some(outcome) = failed {
            return Err(shrink::failure(seed, number, outcome));
        }
        stats.steps += part.steps;
        stats.programs += part.programs;
        for (what, count) in part.counts {
            *stats.counts.entry(what).or_default() += count;
        }
        if stats.steps >= steps {
            break;
        }
    }
    Ok(stats)
}

type Results = BTreeMap<u64, (Stats, Option<Outcome>)>;

/// Whether the programs that are done without a gap before them are enough, or one of them has failed.
fn is_enough(results: &Results, steps: u64) -> bool {
    let mut sum = 0;
    for (expected, (number, (stats, failed))) in (0..).zip(results) {
        if *number != expected {
            return false;
        }
        sum += stats.steps;
        if failed.is_some() || sum >= steps {
            return true;
        }
    }
    false
}

/// Runs a program.
///
/// # Panics
///
/// If the core and the model differ, with the difference.
#[track_caller]
pub fn replay(steps: &[Step]) {
    if let Some(difference) = replay_all(steps).difference {
        panic!("{}: {}", difference.kind, difference.text);
    }
}

pub(crate) fn replay_all(steps: &[Step]) -> Outcome {
    let mut steps = steps.iter().cloned();
    execute(|_| steps.next())
}
