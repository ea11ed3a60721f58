//! What a program sees of a step: errors, callbacks, bytes, answers.

use fencepost_core::ErrorKind;

/// How a callback was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Mapped,
    NotMapped,
    Done,
    /// Lost by the driver.
    Lost,
    /// Lost by `Device::destroy`.
    Destroyed,
}

/// The answer of a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Polled {
    Empty,
    Succeeded,
    Busy,
    Timeout,
    Other,
}

/// One thing that was seen, or that the model says will be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Called {
        callback: u32,
        status: Status,
    },
    Held {
        range: u32,
        mapped: bool,
    },
    /// What a mapped range shows. The model says [`UNKNOWN`] where it does not know.
    Bytes {
        range: u32,
        bytes: Vec<u16>,
    },
    Polled {
        device: u32,
        answer: Polled,
    },
    Report {
        device: u32,
        bytes: u64,
        retired_bytes: u64,
        in_flight: u64,
    },
}

/// A byte that may be anything.
pub(crate) const UNKNOWN: u16 = 256;

/// An error as it was seen.
#[derive(Clone, Debug)]
pub(crate) struct SeenError {
    pub device: u32,
    pub kind: ErrorKind,
    pub message: String,
}

/// An error that the model expects.
#[derive(Clone, Debug)]
pub(crate) struct ExpectedError {
    pub device: u32,
    pub kind: ErrorKind,
    /// Labels, at least one of which the message has. None if the error has no object.
    pub names: Vec<String>,
}

impl ExpectedError {
    pub fn fits(&self, seen: &SeenError) -> bool {
        let named = |name: &String| seen.message.contains(&format!("{name:?}"));
        self.device == seen.device
            && self.kind == seen.kind
            && (self.names.is_empty() || self.names.iter().any(named))
    }
}

/// The label of an object.
pub(crate) fn label(device: u32, kind: crate::Kind, id: u32) -> String {
    use crate::Kind;
    let kind = match kind {
        Kind::Buffer => "buffer",
        Kind::Texture => "texture",
        Kind::View => "view",
        Kind::Group => "group",
        Kind::Set => "set",
        Kind::Encoder => "encoder",
        Kind::Device | Kind::Queue | Kind::Kit | Kind::Pass | Kind::Commands | Kind::Range => "kit",
    };
    format!("{device}.{kind}{id}")
}
