//! What a program consists of.
//!
//! The `Debug` output of a step is the Rust expression that makes it. Objects are named by their kind and a
//! number that the program chooses; a step that names something that is not there does nothing, so any
//! part of a program is a program.

use std::fmt;

/// The kinds of thing that a program holds handles of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(
    missing_docs,
    reason = "each is the core's type with that name, but for the three explained"
)]
pub enum Kind {
    Device,
    Queue,
    /// The one bind group layout, pipeline layout and compute pipeline of a device, which has its number.
    Kit,
    Buffer,
    Texture,
    View,
    Group,
    Set,
    Encoder,
    Pass,
    /// A finished command buffer.
    Commands,
    /// A mapped range.
    Range,
}

/// What a buffer may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// Copies in both directions.
    Copy,
    /// Copied to, and read by the CPU.
    Read,
    /// Written by the CPU, and copied from.
    Write,
    /// Copies, storage and the results of queries.
    Storage,
}

/// How a buffer is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "as the core has it")]
pub enum Mode {
    Reading,
    Writing,
}

/// How to poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Not at all.
    No,
    /// For everything that was submitted.
    Full,
    /// For everything that was submitted, but no time at all.
    Timeout,
}

/// Something that goes wrong on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The `nth` creation from now of a HAL object of this kind runs out of memory.
    Memory(Kind, u64),
    /// The `nth` mapping from now runs out of memory.
    MapMemory(u64),
    /// The `nth` mapping from now fails unexpectedly.
    MapUnexpected(u64),
    /// The `nth` encoding from now does not begin for want of memory.
    Begin(u64),
    /// The `nth` encoding from now does not end for want of memory.
    End(u64),
    /// The device of the `nth` submission from now is lost by it. Not from within user code, and not
    /// together with another plan.
    Submit(u64),
    /// The device that takes the `nth` HAL call from now is lost by it. As above.
    Lose(u64),
}

/// A list whose `Debug` output makes it again.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct List<T>(pub Vec<T>);

impl<T: fmt::Debug> fmt::Debug for List<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "List(vec!{:?})", self.0)
    }
}

/// One step. Sizes and offsets are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "the fields are the arguments of the core's function of that name"
)]
pub enum Step {
    MakeBuffer {
        device: u32,
        id: u32,
        size: u64,
        usage: Usage,
        mapped: bool,
    },
    /// One row of texels.
    MakeTexture {
        device: u32,
        id: u32,
        width: u32,
        layers: u32,
    },
    MakeView {
        texture: u32,
        id: u32,
    },
    /// Two buffers that shaders read, one that they write, and a view.
    MakeGroup {
        device: u32,
        id: u32,
        reads: (u32, u32),
        writes: u32,
        view: u32,
    },
    /// Of timestamps.
    MakeSet {
        device: u32,
        id: u32,
        count: u32,
    },
    MakeEncoder {
        device: u32,
        id: u32,
    },
    Copy {
        encoder: u32,
        from: u32,
        from_offset: u64,
        to: u32,
        to_offset: u64,
        size: u64,
    },
    Clear {
        encoder: u32,
        buffer: u32,
        offset: u64,
        size: u64,
    },
    /// Copies the first row of a buffer's texels to the first layer.
    CopyToTexture {
        encoder: u32,
        buffer: u32,
        offset: u64,
        texture: u32,
    },
    CopyFromTexture {
        encoder: u32,
        texture: u32,
        buffer: u32,
        offset: u64,
    },
    CopyTexture {
        encoder: u32,
        from: u32,
        to: u32,
    },
    ClearTexture {
        encoder: u32,
        texture: u32,
    },
    Timestamp {
        encoder: u32,
        set: u32,
        index: u32,
    },
    Resolve {
        encoder: u32,
        set: u32,
        first: u32,
        count: u32,
        buffer: u32,
        offset: u64,
    },
    /// With a query set and the query that the beginning is written to.
    BeginPass {
        encoder: u32,
        id: u32,
        timestamp: Option<(u32, u32)>,
    },
    SetPipeline {
        pass: u32,
        kit: u32,
    },
    SetGroup {
        pass: u32,
        group: u32,
    },
    Dispatch {
        pass: u32,
    },
    Finish {
        encoder: u32,
        id: u32,
    },
    /// The iterator over the command buffers runs the steps before it yields the first.
    Submit {
        device: u32,
        commands: List<u32>,
        during: List<Step>,
    },
    WriteBuffer {
        device: u32,
        buffer: u32,
        offset: u64,
        size: u64,
        value: u8,
    },
    /// Writes all of the first layer.
    WriteTexture {
        device: u32,
        texture: u32,
    },
    /// The callback runs the steps.
    Map {
        buffer: u32,
        id: u32,
        mode: Mode,
        offset: u64,
        size: u64,
        then: List<Step>,
    },
    Unmap {
        buffer: u32,
    },
    /// Takes a mapped range.
    Hold {
        buffer: u32,
        id: u32,
        offset: u64,
        size: u64,
    },
    /// Reads a mapped range.
    Look {
        range: u32,
    },
    /// Writes to a mapped range.
    Fill {
        range: u32,
        value: u8,
    },
    /// Another handle.
    Share(Kind, u32),
    Drop(Kind, u32),
    Destroy(Kind, u32),
    WorkDone {
        device: u32,
        id: u32,
        then: List<Step>,
    },
    OnLost {
        device: u32,
        id: u32,
        then: List<Step>,
    },
    Poll {
        device: u32,
        wait: Wait,
    },
    /// The core's memory report.
    Report {
        device: u32,
    },
    /// The clock passes the oldest submission of a device.
    Complete {
        device: u32,
    },
    CompleteAll,
    Plan(Fault),
    /// The HAL has room for so many bytes more, from now on.
    Budget(Option<u64>),
}

impl Step {
    /// The steps that user code runs in the middle of this one.
    pub fn nested(&mut self) -> Option<&mut Vec<Step>> {
        match self {
            Self::Submit { during: list, .. }
            | Self::Map { then: list, .. }
            | Self::WorkDone { then: list, .. }
            | Self::OnLost { then: list, .. } => Some(&mut list.0),
            _ => None,
        }
    }

    /// The kind of step, for statistics.
    pub fn name(&self) -> String {
        let name = format!("{self:?}");
        let end = name
            .find(|c: char| !c.is_alphanumeric())
            .unwrap_or(name.len());
        match self {
            Self::Destroy(kind, _) => format!("Destroy {kind:?}"),
            Self::Drop(kind, _) => format!("Drop {kind:?}"),
            _ => name[..end].to_owned(),
        }
    }
}
