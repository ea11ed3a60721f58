//! Deliberate bugs, which prove that the tests would find them.
//!
//! Each is a line of code behind [`planted`], which is `false` and compiled away unless the crates are built
//! with `--cfg mutate`. Then a test plants one at a time and asserts that it is found.

/// Whether the bug of this name is planted.
#[cfg(not(mutate))]
#[inline(always)]
pub const fn planted(_bug: &str) -> bool {
    false
}

#[cfg(mutate)]
pub use switch::{plant, planted, was_reached};

#[cfg(mutate)]
mod switch {
    use std::sync::{
        atomic::{AtomicBool, Ordering},
        RwLock,
    };

    static PLANTED: RwLock<&str> = RwLock::new("");
    static REACHED: AtomicBool = AtomicBool::new(false);

    /// Whether the bug of this name is planted.
    pub fn planted(bug: &str) -> bool {
        let planted = *PLANTED
            .read()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            == bug;
        if planted {
            REACHED.store(true, Ordering::Relaxed);
        }
        planted
    }

    /// Plants the bug of this name, in the whole process, instead of the one before; none if it is empty.
    pub fn plant(bug: &'static str) {
        *PLANTED
            .write()
            .unwrap_or_else(|poisoned| poisoned.into_inner()) = bug;
        REACHED.store(false, Ordering::Relaxed);
    }

    /// Whether anybody came by the planted bug.
    pub fn was_reached() -> bool {
        REACHED.load(Ordering::Relaxed)
    }
}
