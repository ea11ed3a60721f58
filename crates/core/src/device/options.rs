//! What Fencepost adds to an instance's descriptor.

/// Who takes a reclaim step when the program does not call in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reclaim {
    /// A thread per device, which sleeps until something is retired while in flight.
    #[default]
    Thread,
    /// Nobody: memory comes back within the next call that submits, polls, allocates, destroys or drops.
    OnCall,
}

/// Where the callbacks of mapping, work done and device loss run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Callbacks {
    /// In the program's own calls of `poll` and `submit`, as `wgpu` documents.
    #[default]
    OnPoll,
    /// On a callback thread of the device's, at the fence, nobody polling. `poll` and `submit` run those
    /// that they find ready. A program that drops its last handle while a callback runs ends the device on
    /// that thread, a moment later.
    Prompt,
}

/// Options of an instance, for every device that is made from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Who reclaims.
    pub reclaim: Reclaim,
    /// Where callbacks run.
    pub callbacks: Callbacks,
    /// The most bytes that the buffers, textures, query sets and staging memory of one device may take, as
    /// their descriptors say. Beyond it a creation runs out of memory, and waits first for what comes back.
    pub memory_budget: Option<u64>,
}
