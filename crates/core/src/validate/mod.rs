//! Rules that are pure functions of descriptors and capabilities.

pub(crate) mod buffer;
pub(crate) mod copy;
pub(crate) mod interface;
pub(crate) mod layout;
pub(crate) mod texture;
