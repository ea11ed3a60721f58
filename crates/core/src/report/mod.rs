//! What a device holds, in numbers.

use std::fmt;

/// What Fencepost itself knows of a device's memory.
///
/// The sizes are those asked for; what the allocator adds is in
/// [`Device::generate_allocator_report`](crate::Device::generate_allocator_report).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryReport {
    /// How many HAL objects exist.
    pub objects: u64,
    /// The bytes of buffers, textures and query sets that exist, staging included.
    pub bytes: u64,
    /// How many of the objects were let go of and wait for the fence or for a mapped view.
    pub retired_objects: u64,
    /// How many of the bytes.
    pub retired_bytes: u64,
    /// How many submissions the GPU has not completed, as of the last look at the fence.
    pub submissions_in_flight: u64,
    /// The most that [`bytes`](Self::bytes) may be, if the program has set that.
    pub budget: Option<u64>,
}

impl fmt::Display for MemoryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} objects of {} bytes exist, {} of them, of {} bytes, retired; {} submissions in flight",
            self.objects, self.bytes, self.retired_objects, self.retired_bytes, self.submissions_in_flight
        )?;
        match self.budget {
            Some(budget) => write!(f, "; the budget is {budget} bytes"),
            None => Ok(()),
        }
    }
}
