//! The number of a submission.

/// The number of a submission, and the value that its fence signals.
///
/// Serials count up from 1 in the order of submission. A submission that was aborted leaves a gap: its
/// serial is neither reused nor waited for. [`Serial::NEVER`] comes before all of them and is reclaimed
/// from the start.
///
/// ```
/// use fencepost_lifetime::Serial;
///
/// assert!(Serial::NEVER < Serial::new(1));
/// assert_eq!(Serial::NEVER.next().get(), 1);
/// assert_eq!(Serial::new(7).to_string(), "7");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Serial(u64);

impl Serial {
    /// Before the first submission: the stamp of what was never used.
    pub const NEVER: Self = Self(0);

    /// The serial with the given fence value.
    #[inline]
    pub const fn new(value: u64) -> Self {
        Self(value)
    }

    /// The fence value.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The serial after this one.
    #[inline]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl std::fmt::Display for Serial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
