//! The usage scope of a dispatch (specification, section 3.4.3 "Synchronization"): within it a resource is
//! read in any number of ways, or written in one.
//!
//! A texture has one layout at a time, so reading one subresource both as a sampled and as a storage texture
//! is possible within one bind group, where the HAL knows of both, but not from two: a limit of this
//! implementation.

use crate::{
    error::{invalid, Result},
    resource::{BindGroup, Buffer, Texture},
};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use wgpu_types::{BufferUses, TextureUses};

/// Checks the usages of groups that a dispatch uses together.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    buffers: FxHashMap<usize, BufferUses>,
    /// By texture, mip level and array layer.
    textures: FxHashMap<(usize, u32, u32), TextureUses>,
}

impl Scope {
    /// Checks several groups together.
    pub fn check<'a>(&mut self, groups: impl Iterator<Item = &'a Arc<BindGroup>>) -> Result<()> {
        self.buffers.clear();
        self.textures.clear();
        for group in groups {
            self.check_one(group)?;
        }
        Ok(())
    }

    /// Checks one more group together with those before.
    pub fn check_one(&mut self, group: &BindGroup) -> Result<()> {
        for member in &group.buffers {
            self.add_buffer(&member.buffer, member.uses)?;
        }
        for member in &group.views {
            let view = &member.view;
            for mip in view.desc.range.mips.clone() {
                for layer in view.desc.range.layers.clone() {
                    self.add_texture(&view.texture, (mip, layer), member.uses)?;
                }
            }
        }
        Ok(())
    }

    fn add_buffer(&mut self, buffer: &Arc<Buffer>, uses: BufferUses) -> Result<()> {
        let before = self
            .buffers
            .entry(Arc::as_ptr(buffer) as usize)
            .or_insert(uses);
        if *before != uses && !BufferUses::INCLUSIVE.contains(*before | uses) {
            return Err(invalid!(
                "{} is used as {:?} and as {uses:?} in one usage scope; a use that writes must be the only \
                 kind",
                buffer.name(),
                *before,
            ));
        }
        *before |= uses;
        Ok(())
    }

    fn add_texture(
        &mut self,
        texture: &Arc<Texture>,
        (mip, layer): (u32, u32),
        uses: TextureUses,
    ) -> Result<()> {
        let key = (Arc::as_ptr(texture) as usize, mip, layer);
        let before = *self.textures.entry(key).or_insert(uses);
        if before == uses {
            return Ok(());
        }
        let why = if TextureUses::INCLUSIVE.contains(before | uses) {
            // Within one bind group the two are one usage, and one layout.
            "reads of different kinds must be in one bind group"
        } else {
            "a use that writes must be the only kind"
        };
        Err(invalid!(
            "mip level {mip} of layer {layer} of {} is used as {before:?} and as {uses:?} in one usage scope; \
             {why}",
            texture.name(),
        ))
    }
}
