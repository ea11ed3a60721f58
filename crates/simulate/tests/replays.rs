//! Programs that once showed a difference, as the simulator printed them, each with what was wrong.

use fencepost_simulate::{replay, Kind::*, List, Mode::*, Step::*, Usage, Wait};

/// The memory report did not count a submission without commands as in flight.
#[test]
fn empty_submissions_are_in_flight() {
    replay(&[
        Submit {
            device: 0,
            commands: List(vec![]),
            during: List(vec![]),
        },
        Report { device: 0 },
    ]);
}

/// A bind group layout was freed while a pipeline that was made with it was in flight.
#[test]
fn layouts_outlive_pipelines_in_flight() {
    replay(&[
        MakeEncoder { device: 0, id: 36 },
        BeginPass {
            encoder: 36,
            id: 38,
            timestamp: None,
        },
        SetPipeline { pass: 38, kit: 0 },
        Drop(Pass, 38),
        Finish {
            encoder: 36,
            id: 37,
        },
        Submit {
            device: 0,
            commands: List(vec![37]),
            during: List(vec![]),
        },
        Drop(Kit, 0),
        Complete { device: 0 },
        Poll {
            device: 0,
            wait: Wait::No,
        },
    ]);
}

/// A bind group whose creation failed kept the members that had been looked at before.
#[test]
fn invalid_groups_keep_nothing() {
    replay(&[
        MakeTexture {
            device: 0,
            id: 42,
            width: 2,
            layers: 1,
        },
        MakeView {
            texture: 42,
            id: 67,
        },
        MakeBuffer {
            device: 2,
            id: 89,
            size: 4,
            usage: Usage::Storage,
            mapped: false,
        },
        MakeGroup {
            device: 2,
            id: 107,
            reads: (89, 89),
            writes: 89,
            view: 67,
        },
        Drop(Buffer, 89),
    ]);
}

/// The staging memory of a buffer that is mapped at creation outlived the destruction of its device.
#[test]
fn staging_goes_with_its_device() {
    replay(&[
        MakeBuffer {
            device: 0,
            id: 59,
            size: 4,
            usage: Usage::Copy,
            mapped: true,
        },
        Destroy(Device, 0),
    ]);
}

/// A mapping took the place in line of one of the same buffer that had ended before it began.
#[test]
fn mappings_wait_for_their_own_turn() {
    let read = |id| MakeBuffer {
        device: 0,
        id,
        size: 4,
        usage: Usage::Read,
        mapped: false,
    };
    let map = |buffer, id| Map {
        buffer,
        id,
        mode: Reading,
        offset: 0,
        size: 4,
        then: List(vec![]),
    };
    replay(&[
        read(55),
        read(80),
        map(55, 111),
        Unmap { buffer: 55 },
        map(80, 121),
        map(55, 122),
        Poll {
            device: 0,
            wait: Wait::No,
        },
    ]);
}
