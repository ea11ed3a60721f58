//! Views of textures (specification, `GPUTextureView`).

use super::{Body, SubRange, Texture};
use crate::{
    device::Device,
    error::{invalid, Named, Result},
    instance::format_features_for_device,
    reclaim::Payload,
    validate::texture as rules,
};
use std::sync::Arc;
use wgpu_hal as hal;
use wgpu_types as wgt;

/// What a program asks for when it creates a view.
pub type TextureViewDescriptor<'a> = wgt::TextureViewDescriptor<Option<&'a str>>;

/// A view of a texture. Made by [`Texture::create_view`]. It holds the texture.
#[derive(Debug)]
pub struct TextureView {
    pub(crate) texture: Arc<Texture>,
    label: String,
    /// What it is a view of, with all defaults resolved.
    pub(crate) desc: rules::ResolvedView,
    /// The number of samples of each texel.
    pub(crate) samples: u32,
    /// What the device can do with the view's format.
    pub(crate) format_features: wgt::TextureFormatFeatures,
    pub(crate) body: Body<Box<dyn hal::DynTextureView>>,
}

impl Texture {
    /// Creates a view (specification, `GPUTexture.createView`).
    ///
    /// A view of a destroyed texture is no error; submitting its use is one.
    ///
    /// # Errors
    ///
    /// Reported to the device: a validation error that names the rule and the values, or out of memory.
    /// The view is invalid then.
    pub fn create_view(self: &Arc<Self>, desc: &TextureViewDescriptor) -> Arc<TextureView> {
        let result = TextureView::new(self, desc);
        let view = self
            .device
            .report_if_err("Texture::create_view", result)
            .unwrap_or_else(|| TextureView::invalid(self, desc));
        Arc::new(view)
    }
}

impl TextureView {
    fn new(texture: &Arc<Texture>, desc: &TextureViewDescriptor) -> Result<Self> {
        let device = &texture.device;
        device.check_alive()?;
        let label = desc.label.unwrap_or_default();
        let what = format!("{} of {}", name_of(label), texture.name());
        texture.check_valid().map_err(|error| error.within(&what))?;
        let rules = device.texture_rules();
        let features = |format| format_features_for_device(device, format);
        let resolved = rules::resolve_view(&texture.desc, desc, features, &rules)
            .map_err(|error| error.within(&what))?;
        let format_features = features(resolved.format);
        let body = make(texture, label, &what, &resolved, &format_features)?;
        Ok(Self {
            texture: Arc::clone(texture),
            label: label.into(),
            samples: texture.desc.sample_count,
            desc: resolved,
            format_features,
            body,
        })
    }

    /// The tombstone of a view that could not be created.
    fn invalid(texture: &Arc<Texture>, desc: &TextureViewDescriptor) -> Self {
        Self {
            texture: Arc::clone(texture),
            label: desc.label.unwrap_or_default().into(),
            desc: rules::ResolvedView {
                format: desc.format.unwrap_or(texture.desc.format),
                dimension: desc.dimension.unwrap_or_default(),
                usage: wgt::TextureUsages::empty(),
                aspect: desc.aspect,
                range: SubRange {
                    mips: 0..0,
                    layers: 0..0,
                },
                extent: wgt::Extent3d::default(),
                renderable: false,
            },
            samples: texture.desc.sample_count,
            format_features: texture.format_features,
            body: Body::Invalid,
        }
    }

    /// The texture.
    pub fn texture(&self) -> &Arc<Texture> {
        &self.texture
    }

    /// The device.
    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.texture.device
    }

    /// The label, empty if there is none.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// The view in a message.
    pub(crate) fn name(&self) -> Named<'_> {
        name_of(&self.label)
    }

    /// An error if the creation failed.
    pub(crate) fn check_valid(&self) -> Result<()> {
        if self.body.is_valid() {
            Ok(())
        } else {
            Err(invalid!("{} is invalid", self.name()))
        }
    }

    /// Checks the view against a binding of a layout, and returns what the binding uses it as.
    pub(crate) fn check_binding(&self, ty: &wgt::BindingType) -> Result<wgt::TextureUses> {
        self.check_valid()?;
        let features = self.device().features;
        rules::check_view_binding(
            &self.desc,
            self.samples,
            &self.format_features,
            features,
            ty,
        )
        .map_err(|error| error.within(self.name()))
    }
}

impl Drop for TextureView {
    fn drop(&mut self) {
        if let Body::Live(slot) = &self.body {
            let key = Payload::TextureView(Arc::clone(slot)).key();
            self.texture.children.unlink(key);
            self.body.destroy(&self.device().lower);
        }
    }
}

fn name_of(label: &str) -> Named<'_> {
    Named {
        kind: "Texture view",
        label,
    }
}

/// Makes the HAL's view, unless the texture is destroyed.
///
/// The texture is pinned meanwhile, so that the HAL does not see it freed under its hands. The view is
/// registered with the texture before the texture is looked at once more: a destruction that came in
/// between either found the view registered or is found here.
fn make(
    texture: &Texture,
    label: &str,
    what: &str,
    view: &rules::ResolvedView,
    features: &wgt::TextureFormatFeatures,
) -> Result<Body<Box<dyn hal::DynTextureView>>> {
    let device = &texture.device;
    if !rules::needs_hal_view(view.usage) {
        return Ok(Body::Gone);
    }
    let Some(slot) = texture.body.slot() else {
        return Ok(Body::Gone);
    };
    let Some(pin) = slot.pin(&*device.lower) else {
        return Ok(Body::Gone);
    };
    // One aspect of a combined format is told by the range's aspect, not by a format of its own.
    let format = if view.format.is_depth_stencil_component(texture.desc.format) {
        texture.desc.format
    } else {
        view.format
    };
    let hal_desc = hal::TextureViewDescriptor {
        label: device.adapter.hal_label(label),
        format,
        dimension: view.dimension,
        usage: rules::hal_view_usage(view, features),
        range: wgt::ImageSubresourceRange {
            aspect: view.aspect,
            ..view.range.image_range()
        },
    };
    let raw = device.create(&what, 0, |hal| {
        // SAFETY: the texture is pinned, and the description has passed every rule of WebGPU's.
        unsafe { hal.create_texture_view(&**pin, &hal_desc) }
    })?;
    texture
        .children
        .link(Payload::TextureView(Arc::clone(&raw)));
    let body = Body::Live(raw);
    if !slot.is_present() {
        // The destruction may have taken the children before this one was among them.
        body.destroy(&device.lower);
    }
    Ok(body)
}
