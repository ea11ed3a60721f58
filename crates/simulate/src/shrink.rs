//! From a long program that fails to a short one that fails in the same way.
//!
//! Zeller and Hildebrandt's ddmin over the steps, then over the steps of user code, then smaller arguments;
//! over again while that helps.

use crate::{
    run::{replay_all, Failure, Outcome},
    step::{List, Step},
};

/// The most programs that are tried.
const MOST_TRIES: u32 = 5_000;

/// Makes `steps` shorter while `fails` says that it still fails.
pub fn shrink(mut steps: Vec<Step>, fails: &mut dyn FnMut(&[Step]) -> bool) -> Vec<Step> {
    let mut tries = 0;
    let mut fails = |steps: &[Step]| {
        tries += 1;
        tries < MOST_TRIES && fails(steps)
    };
    loop {
        let before = steps.clone();
        drop_steps(&mut steps, &mut fails);
        simplify(&mut steps, &mut fails);
        if steps == before {
            return steps;
        }
    }
}

fn drop_steps(steps: &mut Vec<Step>, fails: &mut dyn FnMut(&[Step]) -> bool) {
    let mut chunk = steps.len().div_ceil(2).max(1);
    loop {
        let mut at = 0;
        while at < steps.len() {
            let mut shorter = steps.clone();
            shorter.drain(at..(at + chunk).min(steps.len()));
            if fails(&shorter) {
                *steps = shorter;
            } else {
                at += chunk;
            }
        }
        if chunk == 1 {
            return;
        }
        chunk = chunk.div_ceil(2);
    }
}

/// Tries simpler forms of each step, each of which is kept if the program still fails.
fn simplify(steps: &mut [Step], fails: &mut dyn FnMut(&[Step]) -> bool) {
    for at in 0..steps.len() {
        // Each round makes the step smaller, so this ends.
        let mut again = true;
        while again {
            again = false;
            for simpler in simpler(&steps[at]) {
                let before = std::mem::replace(&mut steps[at], simpler);
                if fails(steps) {
                    again = true;
                    break;
                }
                steps[at] = before;
            }
        }
    }
}

/// Forms of a step that are smaller by some measure.
fn simpler(step: &Step) -> Vec<Step> {
    let mut forms = Vec::new();
    let mut copy = step.clone();
    if let Some(nested) = copy.nested() {
        let inner = nested.clone();
        for at in 0..inner.len() {
            let mut fewer = inner.clone();
            fewer.remove(at);
            let mut form = step.clone();
            *form.nested().expect("it has nested steps") = fewer;
            forms.push(form);
            for simpler in simpler(&inner[at]) {
                let mut form = step.clone();
                form.nested().expect("it has nested steps")[at] = simpler;
                forms.push(form);
            }
        }
    }
    if let Step::Submit {
        device,
        commands,
        during,
    } = step
    {
        for at in 0..commands.0.len() {
            let mut fewer = commands.0.clone();
            fewer.remove(at);
            forms.push(Step::Submit {
                device: *device,
                commands: List(fewer),
                during: during.clone(),
            });
        }
    }
    let mut number = |form: Step| forms.push(form);
    match step.clone() {
        Step::MakeBuffer {
            device,
            id,
            size,
            usage,
            mapped,
        } => {
            if mapped {
                number(Step::MakeBuffer {
                    device,
                    id,
                    size,
                    usage,
                    mapped: false,
                });
            }
            if size > 4 {
                number(Step::MakeBuffer {
                    device,
                    id,
                    size: 4,
                    usage,
                    mapped,
                });
            }
        }
        Step::Copy {
            encoder,
            from,
            from_offset,
            to,
            to_offset,
            size,
        } => {
            if from_offset > 0 {
                number(Step::Copy {
                    encoder,
                    from,
                    from_offset: 0,
                    to,
                    to_offset,
                    size,
                });
            }
            if to_offset > 0 {
                number(Step::Copy {
                    encoder,
                    from,
                    from_offset,
                    to,
                    to_offset: 0,
                    size,
                });
            }
            if size > 4 {
                number(Step::Copy {
                    encoder,
                    from,
                    from_offset,
                    to,
                    to_offset,
                    size: 4,
                });
            }
        }
        Step::WriteBuffer {
            device,
            buffer,
            offset,
            size,
            value,
        } => {
            if offset > 0 {
                number(Step::WriteBuffer {
                    device,
                    buffer,
                    offset: 0,
                    size,
                    value,
                });
            }
            if size > 4 {
                number(Step::WriteBuffer {
                    device,
                    buffer,
                    offset,
                    size: 4,
                    value,
                });
            }
        }
        Step::Clear {
            encoder,
            buffer,
            offset,
            size,
        } => {
            if offset > 0 {
                number(Step::Clear {
                    encoder,
                    buffer,
                    offset: 0,
                    size,
                });
            }
            if size > 4 {
                number(Step::Clear {
                    encoder,
                    buffer,
                    offset,
                    size: 4,
                });
            }
        }
        Step::Map {
            buffer,
            id,
            mode,
            offset,
            size,
            then,
        } => {
            if offset > 0 {
                number(Step::Map {
                    buffer,
                    id,
                    mode,
                    offset: 0,
                    size,
                    then: then.clone(),
                });
            }
            if size > 4 {
                number(Step::Map {
                    buffer,
                    id,
                    mode,
                    offset,
                    size: 4,
                    then,
                });
            }
        }
        Step::Hold {
            buffer,
            id,
            offset,
            size,
        } => {
            if offset > 0 {
                number(Step::Hold {
                    buffer,
                    id,
                    offset: 0,
                    size,
                });
            }
            if size > 4 {
                number(Step::Hold {
                    buffer,
                    id,
                    offset,
                    size: 4,
                });
            }
        }
        Step::CompleteAll => number(Step::Complete { device: 0 }),
        _ => {}
    }
    forms
}

/// Shrinks the program of a run that has failed.
pub(crate) fn failure(seed: u64, number: u64, outcome: Outcome) -> Failure {
    let difference = outcome.difference.expect("it has failed");
    let same = |steps: &[Step]| {
        let again = replay_all(steps).difference;
        again.filter(|again| again.kind == difference.kind)
    };
    let steps = shrink(outcome.steps, &mut |steps| same(steps).is_some());
    let difference = same(&steps).unwrap_or(difference.clone());
    Failure {
        seed,
        program: number,
        steps,
        difference: format!("{}: {}", difference.kind, difference.text),
    }
}
