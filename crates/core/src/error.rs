//! The errors that a program can see.
//!
//! WebGPU knows three kinds (specification, section 22.2 "Error scopes"). A lost device is a state rather
//! than an error: what fails because of it fails quietly.

use std::fmt;
use wgpu_hal as hal;

/// The kind of an [`Error`], which decides the error scope that catches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The program broke a rule.
    Validation,
    /// The device has too little memory.
    OutOfMemory,
    /// The implementation or the driver failed.
    Internal,
    /// The device is lost. Never reported: the lost callback says it once.
    DeviceLost,
}

/// An error: its kind, and a message that names the object, the rule and the values.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

impl Error {
    /// The program broke a rule.
    pub fn validation(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Validation, message)
    }

    /// The device has too little memory.
    pub fn out_of_memory(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::OutOfMemory, message)
    }

    /// The implementation or the driver failed.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    /// The device is lost.
    pub(crate) fn device_lost() -> Self {
        Self::new(ErrorKind::DeviceLost, "the device is lost")
    }

    fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }

    /// The kind.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The same error, with the place where it happened in front of the message.
    pub(crate) fn within(mut self, place: impl fmt::Display) -> Self {
        self.message = format!("{place}: {}", self.message);
        self
    }
}

impl From<hal::DeviceError> for Error {
    fn from(error: hal::DeviceError) -> Self {
        match error {
            hal::DeviceError::OutOfMemory => Self::out_of_memory("the device is out of memory"),
            hal::DeviceError::Lost => Self::device_lost(),
            hal::DeviceError::Unexpected => Self::internal("the driver failed unexpectedly"),
        }
    }
}

/// The result of what a program can get wrong.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A validation error with a formatted message.
macro_rules! invalid {
    ($($message:tt)*) => {
        $crate::error::Error::validation(format!($($message)*))
    };
}
pub(crate) use invalid;

/// An object in a message: `Buffer "vertices"`, or `Buffer without a label`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named<'a> {
    pub kind: &'static str,
    pub label: &'a str,
}

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, label } = self;
        if label.is_empty() {
            write!(f, "{kind} without a label")
        } else {
            write!(f, "{kind} {label:?}")
        }
    }
}
