//! What can be done with a texture format.

use crate::device::Device;
use wgpu_hal::TextureFormatCapabilities as Capabilities;
use wgpu_types::{
    self as wgt, TextureFormatFeatureFlags as Flags, TextureFormatFeatures, TextureUsages,
};

/// The HAL's account of a format in WebGPU's terms.
pub(super) fn from_capabilities(capabilities: Capabilities) -> TextureFormatFeatures {
    const STORAGE: Capabilities = Capabilities::STORAGE_READ_ONLY
        .union(Capabilities::STORAGE_WRITE_ONLY)
        .union(Capabilities::STORAGE_READ_WRITE)
        .union(Capabilities::STORAGE_ATOMIC);
    const ATTACHMENT: Capabilities =
        Capabilities::COLOR_ATTACHMENT.union(Capabilities::DEPTH_STENCIL_ATTACHMENT);

    // Each usage, and the capabilities any of which allows it.
    let usages = [
        (TextureUsages::COPY_SRC, Capabilities::COPY_SRC),
        (TextureUsages::COPY_DST, Capabilities::COPY_DST),
        (TextureUsages::TEXTURE_BINDING, Capabilities::SAMPLED),
        (TextureUsages::STORAGE_BINDING, STORAGE),
        (TextureUsages::STORAGE_ATOMIC, Capabilities::STORAGE_ATOMIC),
        (TextureUsages::RENDER_ATTACHMENT, ATTACHMENT),
        (TextureUsages::TRANSIENT_ATTACHMENT, ATTACHMENT),
    ];
    let flags = [
        (Flags::FILTERABLE, Capabilities::SAMPLED_LINEAR),
        (Flags::BLENDABLE, Capabilities::COLOR_ATTACHMENT_BLEND),
        (Flags::STORAGE_READ_ONLY, Capabilities::STORAGE_READ_ONLY),
        (Flags::STORAGE_WRITE_ONLY, Capabilities::STORAGE_WRITE_ONLY),
        (Flags::STORAGE_READ_WRITE, Capabilities::STORAGE_READ_WRITE),
        (Flags::STORAGE_ATOMIC, Capabilities::STORAGE_ATOMIC),
        (Flags::MULTISAMPLE_X2, Capabilities::MULTISAMPLE_X2),
        (Flags::MULTISAMPLE_X4, Capabilities::MULTISAMPLE_X4),
        (Flags::MULTISAMPLE_X8, Capabilities::MULTISAMPLE_X8),
        (Flags::MULTISAMPLE_X16, Capabilities::MULTISAMPLE_X16),
        (
            Flags::MULTISAMPLE_RESOLVE,
            Capabilities::MULTISAMPLE_RESOLVE,
        ),
    ];
    let mut features = TextureFormatFeatures {
        allowed_usages: TextureUsages::empty(),
        flags: Flags::empty(),
    };
    for (usage, any) in usages {
        features
            .allowed_usages
            .set(usage, capabilities.intersects(any));
    }
    for (flag, any) in flags {
        features.flags.set(flag, capabilities.intersects(any));
    }
    features
}

/// What a device can do with a format whose features it has: what WebGPU guarantees, or what the adapter
/// can do if `TEXTURE_ADAPTER_SPECIFIC_FORMAT_FEATURES` is enabled or the adapter does not keep WebGPU's
/// guarantees.
pub(crate) fn format_features_for_device(
    device: &Device,
    format: wgt::TextureFormat,
) -> TextureFormatFeatures {
    let specific = device
        .features
        .contains(wgt::Features::TEXTURE_ADAPTER_SPECIFIC_FORMAT_FEATURES);
    let guaranteed = device
        .adapter
        .downlevel()
        .flags
        .contains(wgt::DownlevelFlags::WEBGPU_TEXTURE_FORMAT_SUPPORT);
    if guaranteed && !specific {
        return format.guaranteed_format_features(device.features);
    }
    let mut features = device.adapter.format_features(format);
    // An adapter may be able to; the device was not asked to.
    if !device.features.contains(wgt::Features::TEXTURE_ATOMIC) {
        features.allowed_usages -= TextureUsages::STORAGE_ATOMIC;
        features.flags -= Flags::STORAGE_ATOMIC;
    }
    features
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_comes_of_nothing() {
        let features = from_capabilities(Capabilities::empty());
        assert!(features.allowed_usages.is_empty());
        assert!(features.flags.is_empty());
    }

    #[test]
    fn everything_comes_of_everything() {
        let features = from_capabilities(Capabilities::all());
        assert_eq!(features.allowed_usages, TextureUsages::all());
        assert_eq!(features.flags, Flags::all());
    }

    #[test]
    fn each_way_of_storage_allows_the_usage() {
        for (capability, flag) in [
            (Capabilities::STORAGE_READ_ONLY, Flags::STORAGE_READ_ONLY),
            (Capabilities::STORAGE_WRITE_ONLY, Flags::STORAGE_WRITE_ONLY),
            (Capabilities::STORAGE_READ_WRITE, Flags::STORAGE_READ_WRITE),
        ] {
            let features = from_capabilities(capability);
            assert_eq!(features.allowed_usages, TextureUsages::STORAGE_BINDING);
            assert_eq!(features.flags, flag);
        }
    }

    #[test]
    fn depth_and_colour_are_attachments() {
        let attachment = TextureUsages::RENDER_ATTACHMENT | TextureUsages::TRANSIENT_ATTACHMENT;
        for capability in [
            Capabilities::COLOR_ATTACHMENT,
            Capabilities::DEPTH_STENCIL_ATTACHMENT,
        ] {
            assert_eq!(from_capabilities(capability).allowed_usages, attachment);
        }
    }

    #[test]
    fn sample_counts_are_translated_one_by_one() {
        let features =
            from_capabilities(Capabilities::MULTISAMPLE_X2 | Capabilities::MULTISAMPLE_X8);
        assert_eq!(features.flags.supported_sample_counts(), [1, 2, 8]);
    }
}
