//! Writes of the queue's that wait for the next submission.
//!
//! A write copies the program's bytes to staging memory at once and waits, in order, for the next
//! submission to carry the copy. It does not keep its target: should that go first, the write is
//! forgotten and its staging memory comes back at once. When many bytes wait they are submitted without
//! waiting for the program.

use crate::{
    reclaim::{BufferRaw, Lower},
    resource::{Buffer, Texture},
    validate::copy::{LinearPart, TexturePart},
};
use fencepost_lifetime::Slot;
use std::sync::{
    atomic::{AtomicU32, Ordering},
    Arc, Weak,
};

/// A write that waits.
#[derive(Debug)]
pub(crate) struct PendingWrite {
    target: Target,
    source: Arc<Slot<BufferRaw>>,
    bytes: u64,
}

#[derive(Debug)]
pub(crate) enum Target {
    Buffer {
        buffer: Weak<Buffer>,
        offset: u64,
        size: u64,
    },
    Texture {
        texture: Weak<Texture>,
        linear: LinearPart,
        part: TexturePart,
    },
}

impl Target {
    fn address(&self) -> usize {
        match self {
            Self::Buffer { buffer, .. } => buffer.as_ptr() as usize,
            Self::Texture { texture, .. } => texture.as_ptr() as usize,
        }
    }
}

/// A write that is being submitted, with its target.
#[derive(Debug)]
pub(super) enum Held {
    Buffer {
        target: Arc<Buffer>,
        source: Arc<Slot<BufferRaw>>,
        offset: u64,
        size: u64,
    },
    Texture {
        target: Arc<Texture>,
        source: Arc<Slot<BufferRaw>>,
        linear: LinearPart,
        part: TexturePart,
    },
}

impl Held {
    pub fn source(&self) -> &Arc<Slot<BufferRaw>> {
        match self {
            Self::Buffer { source, .. } | Self::Texture { source, .. } => source,
        }
    }

    /// Whether the target was not destroyed. Counts only after the seal of a submission that stamped it.
    pub fn is_present(&self) -> bool {
        match self {
            Self::Buffer { target, .. } => target.body.is_present(),
            Self::Texture { target, .. } => target.body.is_present(),
        }
    }

    fn count(&self) -> &AtomicU32 {
        match self {
            Self::Buffer { target, .. } => &target.pending_writes,
            Self::Texture { target, .. } => &target.pending_writes,
        }
    }
}

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub(crate) struct PendingWrites {
    writes: Vec<PendingWrite>,
    bytes: u64,
}

impl PendingWrites {
    /// Above this they are submitted by themselves, in bytes.
    const MANY_BYTES: u64 = 16 << 20;
    /// The same, in number.
    const MANY_WRITES: usize = 4096;

    /// Adds a write of `bytes` bytes of staging memory, whose `count` is that of its target. Check
    /// afterwards that the target is still there.
    pub fn push(
        &mut self,
        target: Target,
        source: Arc<Slot<BufferRaw>>,
        bytes: u64,
        count: &AtomicU32,
    ) {
        count.fetch_add(1, Ordering::AcqRel);
        self.bytes += bytes;
        self.writes.push(PendingWrite {
            target,
            source,
            bytes,
        });
    }

    /// Whether they should not wait for the program.
    pub fn are_many(&self) -> bool {
        self.bytes > Self::MANY_BYTES || self.writes.len() > Self::MANY_WRITES
    }

    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Forgets the writes to the object at `address`, and gives their staging memory back.
    pub fn forget(&mut self, address: usize, count: &AtomicU32, lower: &Lower) {
        let mut bytes = 0;
        self.writes.retain(|write| {
            let keep = write.target.address() != address;
            if !keep {
                bytes += write.bytes;
                write.source.destroy(lower);
            }
            keep
        });
        self.bytes -= bytes;
        count.store(0, Ordering::Release);
    }

    /// The writes with their targets. They stay until [`submitted`](Self::submitted).
    ///
    /// A target that is on its way to be dropped on another thread is passed over: that thread forgets
    /// the write.
    pub(super) fn hold(&self) -> Vec<Held> {
        let writes = self.writes.iter();
        writes
            .filter_map(|write| {
                let source = Arc::clone(&write.source);
                Some(match &write.target {
                    Target::Buffer {
                        buffer,
                        offset,
                        size,
                    } => Held::Buffer {
                        target: buffer.upgrade()?,
                        source,
                        offset: *offset,
                        size: *size,
                    },
                    Target::Texture {
                        texture,
                        linear,
                        part,
                    } => Held::Texture {
                        target: texture.upgrade()?,
                        source,
                        linear: linear.clone(),
                        part: part.clone(),
                    },
                })
            })
            .collect()
    }

    /// Lets go of everything that waits: it was submitted, or its target is as good as gone. Returns how
    /// many bytes of staging memory that was.
    pub(super) fn submitted(&mut self, held: &[Held], lower: &Lower) -> u64 {
        for write in held {
            write.count().store(0, Ordering::Release);
        }
        self.clear(lower)
    }

    /// Lets go of everything that waits.
    pub fn clear(&mut self, lower: &Lower) -> u64 {
        for write in self.writes.drain(..) {
            write.source.destroy(lower);
        }
        std::mem::take(&mut self.bytes)
    }
}
