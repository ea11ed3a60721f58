//! Textures (specification, `GPUTexture`).
//!
//! What a texture was last used as and which of it holds defined contents belongs to the queue: both are
//! read and written under the queue's lock, in the order of submission.

mod init;
mod state;
mod subresources;

use super::{Body, Children};
use crate::{
    device::Device,
    error::{invalid, Named, Result},
    instance::format_features_for_device,
    validate::{
        copy::{End, TextureEnd},
        texture as rules,
    },
};
use parking_lot::Mutex;
use std::sync::{atomic::AtomicU32, Arc};
use wgpu_hal::{self as hal, FormatAspects};
use wgpu_types as wgt;

pub(crate) use init::TextureInit;
pub(crate) use state::TextureState;
pub(crate) use subresources::SubRange;

/// What a program asks for when it creates a texture.
pub type TextureDescriptor<'a> = wgt::TextureDescriptor<Option<&'a str>, &'a [wgt::TextureFormat]>;

/// A texture. Made by [`Device::create_texture`].
#[derive(Debug)]
pub struct Texture {
    pub(crate) device: Arc<Device>,
    label: String,
    pub(crate) desc: rules::TextureDesc,
    /// The usages of the HAL's texture: those of the program's, and what zeroing it takes.
    pub(crate) hal_usage: wgt::TextureUses,
    /// The usage that zeroing the texture takes: a copy destination or an attachment.
    pub(crate) clear_usage: wgt::TextureUses,
    /// What the device can do with the format.
    pub(crate) format_features: wgt::TextureFormatFeatures,
    pub(crate) body: Body<Box<dyn hal::DynTexture>>,
    pub(crate) state: Mutex<TextureState>,
    pub(crate) init: Mutex<TextureInit>,
    /// The views of the texture, and the bind groups that name one.
    pub(crate) children: Children,
    /// How many writes to the texture wait for the next submission.
    pub(crate) pending_writes: AtomicU32,
}

impl Device {
    /// Creates a texture (specification, `GPUDevice.createTexture`).
    ///
    /// # Errors
    ///
    /// Reported to the device: a validation error that names the rule and the values, or out of memory.
    /// The texture is invalid then.
    pub fn create_texture(self: &Arc<Self>, desc: &TextureDescriptor) -> Arc<Texture> {
        let result = Texture::new(self, desc);
        let texture = self
            .report_if_err("Device::create_texture", result)
            .unwrap_or_else(|| Texture::invalid(self, desc));
        Arc::new(texture)
    }

    /// What the rules of textures depend on.
    pub(crate) fn texture_rules(&self) -> rules::Rules<'_> {
        rules::Rules {
            limits: &self.limits,
            features: self.features,
            downlevel: self.adapter.downlevel().flags,
            backend: self.adapter.info().backend,
        }
    }
}

impl Texture {
    fn new(device: &Arc<Device>, desc: &TextureDescriptor) -> Result<Self> {
        device.check_alive()?;
        let label = desc.label.unwrap_or_default();
        let what = Named {
            kind: "Texture",
            label,
        };
        let rules = device.texture_rules();
        let desc = own(desc);
        rules
            .require_format(desc.format)
            .map_err(|error| error.within(what))?;
        let features = format_features_for_device(device, desc.format);
        rules::check_texture(&desc, &features, &rules).map_err(|error| error.within(what))?;

        let aspects = FormatAspects::from(desc.format);
        let clear_usage = rules::clear_usage(&desc, &features);
        let hal_usage = rules::hal_usage(desc.usage, aspects, &features) | clear_usage;
        let hal_desc = hal::TextureDescriptor {
            label: device.adapter.hal_label(label),
            size: desc.size,
            mip_level_count: desc.mip_level_count,
            sample_count: desc.sample_count,
            dimension: desc.dimension,
            format: desc.format,
            usage: hal_usage,
            memory_flags: hal::MemoryFlags::empty(),
            view_formats: other_formats(&desc),
        };
        let slot = device.create(&what, rules::size_in_bytes(&desc), |hal| {
            // SAFETY: the description has passed every rule of WebGPU's, within the device's limits.
            unsafe { hal.create_texture(&hal_desc) }
        })?;
        Ok(Self::with_body(
            device,
            label,
            desc,
            (hal_usage, clear_usage),
            features,
            Body::Live(slot),
        ))
    }

    /// The tombstone of a texture that could not be created.
    fn invalid(device: &Arc<Device>, desc: &TextureDescriptor) -> Self {
        Self::with_body(
            device,
            desc.label.unwrap_or_default(),
            own(desc),
            (wgt::TextureUses::empty(), wgt::TextureUses::empty()),
            wgt::TextureFormatFeatures {
                allowed_usages: wgt::TextureUsages::empty(),
                flags: wgt::TextureFormatFeatureFlags::empty(),
            },
            Body::Invalid,
        )
    }

    fn with_body(
        device: &Arc<Device>,
        label: &str,
        desc: rules::TextureDesc,
        (hal_usage, clear_usage): (wgt::TextureUses, wgt::TextureUses),
        format_features: wgt::TextureFormatFeatures,
        body: Body<Box<dyn hal::DynTexture>>,
    ) -> Self {
        // An invalid texture may have none, and is never used.
        let mips = desc.mip_level_count.max(1);
        let layers = desc.array_layer_count().max(1);
        let state = TextureState::new(mips, layers, desc.format.is_depth_stencil_format());
        Self {
            device: Arc::clone(device),
            label: label.into(),
            hal_usage,
            clear_usage,
            format_features,
            body,
            state: Mutex::new(state),
            init: Mutex::new(TextureInit::new(mips, layers)),
            children: Children::default(),
            pending_writes: AtomicU32::new(0),
            desc,
        }
    }

    /// Destroys the texture (specification, `GPUTexture.destroy`): its memory comes back at once if it is
    /// idle, when the last submission that uses it completes otherwise. Its views and the bind groups
    /// that name them go with it, and writes to it that wait for a submission are forgotten.
    ///
    /// Doing so twice does nothing. What was recorded with the texture can be finished, and fails when it
    /// is submitted.
    pub fn destroy(&self) {
        self.body.destroy_with(&self.children, &self.device.lower);
        self.device.forget_writes_to_texture(self);
    }

    /// The label, empty if there is none.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// The size in texels, and in layers or slices, of the first mip level.
    pub fn size(&self) -> wgt::Extent3d {
        self.desc.size
    }

    /// The number of mip levels.
    pub fn mip_level_count(&self) -> u32 {
        self.desc.mip_level_count
    }

    /// The number of samples of each texel.
    pub fn sample_count(&self) -> u32 {
        self.desc.sample_count
    }

    /// The dimension.
    pub fn dimension(&self) -> wgt::TextureDimension {
        self.desc.dimension
    }

    /// The format.
    pub fn format(&self) -> wgt::TextureFormat {
        self.desc.format
    }

    /// The usages that the program asked for.
    pub fn usage(&self) -> wgt::TextureUsages {
        self.desc.usage
    }

    /// The texture in a message.
    pub(crate) fn name(&self) -> Named<'_> {
        Named {
            kind: "Texture",
            label: &self.label,
        }
    }

    /// All subresources.
    pub(crate) fn full_range(&self) -> SubRange {
        SubRange {
            mips: 0..self.desc.mip_level_count,
            layers: 0..self.desc.array_layer_count(),
        }
    }

    /// An error if the creation failed.
    pub(crate) fn check_valid(&self) -> Result<()> {
        if self.body.is_valid() {
            Ok(())
        } else {
            Err(invalid!("{} is invalid", self.name()))
        }
    }

    /// The texture as one end of a copy.
    pub(crate) fn copy_end(
        &self,
        end: End,
        mip_level: u32,
        origin: wgt::Origin3d,
        aspect: wgt::TextureAspect,
    ) -> TextureEnd<'_> {
        TextureEnd {
            end,
            label: &self.label,
            desc: &self.desc,
            mip_level,
            origin,
            aspect,
        }
    }
}

impl Drop for Texture {
    /// The last drop is a destruction. Views hold the texture, so none is left; bind groups hold views.
    fn drop(&mut self) {
        self.destroy();
    }
}

fn own(desc: &TextureDescriptor) -> rules::TextureDesc {
    wgt::TextureDescriptor {
        label: (),
        size: desc.size,
        mip_level_count: desc.mip_level_count,
        sample_count: desc.sample_count,
        dimension: desc.dimension,
        format: desc.format,
        usage: desc.usage,
        view_formats: desc.view_formats.to_vec(),
    }
}

/// The formats of views that are not the texture's own, each once.
fn other_formats(desc: &rules::TextureDesc) -> Vec<wgt::TextureFormat> {
    let mut formats = Vec::new();
    for &format in &desc.view_formats {
        if format != desc.format && !formats.contains(&format) {
            formats.push(format);
        }
    }
    formats
}

#[cfg(test)]
mod tests;
