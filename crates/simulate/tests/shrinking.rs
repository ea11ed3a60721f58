//! A program that fails becomes as short as it can be, and its printed form is the program.

use fencepost_simulate::{shrink, Fault, Kind, List, Step, Usage, Wait};

fn buffer(id: u32, size: u64, mapped: bool) -> Step {
    Step::MakeBuffer {
        device: 0,
        id,
        size,
        usage: Usage::Copy,
        mapped,
    }
}

/// Whether a buffer is destroyed that was made before, wherever that is.
fn destroys_what_it_made(steps: &[Step], made: &mut Vec<u32>) -> bool {
    steps.iter().any(|step| match step {
        Step::MakeBuffer { id, .. } => {
            made.push(*id);
            false
        }
        Step::Destroy(Kind::Buffer, id) => made.contains(id),
        Step::Submit { during, .. } => destroys_what_it_made(&during.0, made),
        _ => false,
    })
}

#[test]
fn a_planted_failure_shrinks_to_what_it_takes() {
    let mut program: Vec<Step> = (0..100).map(|id| buffer(id, 64, id % 2 == 0)).collect();
    program.extend((0..50).map(|device| Step::Poll {
        device,
        wait: Wait::No,
    }));
    program.push(Step::Submit {
        device: 0,
        commands: List(vec![1, 2, 3]),
        during: List(vec![Step::CompleteAll, Step::Destroy(Kind::Buffer, 42)]),
    });
    program.extend((0..50).map(|device| Step::Report { device }));
    let mut tries = 0;
    let short = shrink(program, &mut |steps| {
        tries += 1;
        destroys_what_it_made(steps, &mut Vec::new())
    });
    let expected = [
        buffer(42, 4, false),
        Step::Submit {
            device: 0,
            commands: List(vec![]),
            during: List(vec![Step::Destroy(Kind::Buffer, 42)]),
        },
    ];
    assert_eq!(short, expected);
    assert!(tries < 1000, "{tries}");
}

#[test]
fn steps_print_as_what_makes_them() {
    let step = Step::WorkDone {
        device: 1,
        id: 2,
        then: List(vec![
            Step::Drop(Kind::Set, 3),
            Step::Plan(Fault::Memory(Kind::View, 1)),
            Step::Budget(Some(8)),
        ]),
    };
    assert_eq!(
        format!("{step:?}"),
        "WorkDone { device: 1, id: 2, then: List(vec![Drop(Set, 3), Plan(Memory(View, 1)), Budget(Some(8))]) }"
    );
}
