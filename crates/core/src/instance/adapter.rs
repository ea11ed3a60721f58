//! Adapters (specification, `GPUAdapter`): one GPU as one back end sees it.

use super::{
    features::{offered, IMPLEMENTED},
    format,
    limits::{self, LimitError},
    Instance,
};
use crate::device::Device;
use std::{fmt, sync::Arc};
use wgpu_hal::{self as hal, DynAdapter};
use wgpu_types as wgt;

/// A GPU as one back end sees it. Made by [`Instance::request_adapter`] and
/// [`Instance::enumerate_adapters`]; any number of devices can be made from one.
pub struct Adapter {
    pub(crate) raw: Box<dyn DynAdapter>,
    pub(crate) info: wgt::AdapterInfo,
    features: wgt::Features,
    pub(crate) capabilities: hal::Capabilities,
    /// Last: the HAL's adapter must go before the HAL's instance.
    pub(crate) instance: Arc<Instance>,
}

/// In bytes: [`naga::valid::ImmediateSlots`] has a bit for each of 64 words.
const MOST_IMMEDIATES: u32 = 256;

impl fmt::Debug for Adapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Adapter")
            .field("info", &self.info)
            .finish_non_exhaustive()
    }
}

impl Adapter {
    /// `None` if the adapter cannot be offered.
    pub(super) fn new(instance: &Arc<Instance>, exposed: hal::DynExposedAdapter) -> Option<Self> {
        let hal::DynExposedAdapter {
            adapter: raw,
            info,
            features,
            mut capabilities,
        } = exposed;
        let strict = is_strict(instance);
        let mut features = offered(features, info.backend);
        if strict {
            features &= wgt::Features::all_webgpu_mask();
            capabilities.limits.zero_native_only();
        }
        if !limits::is_usable(&capabilities.limits, &capabilities.downlevel, strict) {
            log::debug!("adapter {} does not keep WebGPU's rules", info.name);
            return None;
        }
        // What the HAL's own arrays, and naga's account of immediates, have room for.
        let limits = &mut capabilities.limits;
        limits.max_bind_groups = limits.max_bind_groups.min(hal::MAX_BIND_GROUPS as u32);
        limits.max_immediate_size = limits.max_immediate_size.min(MOST_IMMEDIATES);
        Some(Self {
            raw,
            info,
            features,
            capabilities,
            instance: Arc::clone(instance),
        })
    }

    /// The adapter with its limits and features rounded down; `None` if it does not reach the lowest level.
    pub(super) fn bucketed(mut self) -> Option<Self> {
        let strict = is_strict(&self.instance);
        let bucket = limits::bucket(&self.capabilities.limits, self.features, strict)?;
        bucket.apply(
            &mut self.info,
            &mut self.capabilities.limits,
            &mut self.features,
        );
        Some(self)
    }

    /// What the adapter is.
    pub fn info(&self) -> &wgt::AdapterInfo {
        &self.info
    }

    /// The features that a device can be made with: those of the back end that Fencepost implements.
    pub fn features(&self) -> wgt::Features {
        self.features
    }

    /// The best limits that a device can be made with.
    pub fn limits(&self) -> &wgt::Limits {
        &self.capabilities.limits
    }

    /// How the adapter falls short of what WebGPU asks for.
    pub fn downlevel(&self) -> &wgt::DownlevelCapabilities {
        &self.capabilities.downlevel
    }

    /// What the adapter can do with a texture format. A device can do all of it only if it has the feature
    /// `TEXTURE_ADAPTER_SPECIFIC_FORMAT_FEATURES`.
    pub fn format_features(&self, format: wgt::TextureFormat) -> wgt::TextureFormatFeatures {
        if !IMPLEMENTED.contains(format.required_features()) {
            return format::from_capabilities(hal::TextureFormatCapabilities::empty());
        }
        // SAFETY: the adapter is alive.
        format::from_capabilities(unsafe { self.raw.texture_format_capabilities(format) })
    }

    /// The clock that the presentation engine of the platform uses, now.
    pub fn presentation_timestamp(&self) -> wgt::PresentationTimestamp {
        // SAFETY: the adapter is alive.
        unsafe { self.raw.get_presentation_timestamp() }
    }

    /// The shapes of cooperative matrices: none, as long as the feature is not implemented.
    pub fn cooperative_matrix_properties(&self) -> Vec<wgt::CooperativeMatrixProperties> {
        Vec::new()
    }

    /// The instance that the adapter came from.
    pub fn instance(&self) -> &Arc<Instance> {
        &self.instance
    }

    /// A label as the HAL gets it: none if it is empty or the program wants none to reach the driver.
    pub(crate) fn hal_label<'a>(&self, label: &'a str) -> Option<&'a str> {
        let discard = wgt::InstanceFlags::DISCARD_HAL_LABELS;
        (!label.is_empty() && !self.instance.flags().contains(discard)).then_some(label)
    }

    /// Opens the adapter (specification, `GPUAdapter.requestDevice`).
    ///
    /// # Errors
    ///
    /// If a feature or a limit cannot be had, or the driver fails. See [`RequestDeviceError`].
    pub fn request_device(
        self: &Arc<Self>,
        desc: &wgt::DeviceDescriptor<Option<&str>>,
    ) -> Result<Arc<Device>, RequestDeviceError> {
        let mut limits = desc.required_limits.clone();
        if is_strict(&self.instance) {
            // The defaults of these are not zero, so a program that asks for the defaults asks for them.
            limits.zero_native_only();
        }
        self.check(desc, &limits)?;
        // SAFETY: the features and limits are within what the adapter has.
        let open = unsafe {
            self.raw
                .open(desc.required_features, &limits, &desc.memory_hints)
        }?;
        let options = self.instance.options();
        let device = Device::new(self, open, desc.required_features, limits, options)?;
        self.instance.register(&device);
        Ok(device)
    }

    fn check(
        &self,
        desc: &wgt::DeviceDescriptor<Option<&str>>,
        limits: &wgt::Limits,
    ) -> Result<(), RequestDeviceError> {
        let missing = desc.required_features - self.features;
        if !missing.is_empty() {
            return Err(RequestDeviceError::Features {
                adapter: self.info.name.clone(),
                missing,
            });
        }
        let experimental = desc.required_features & wgt::Features::all_experimental_mask();
        if !experimental.is_empty() && !desc.experimental_features.is_enabled() {
            return Err(RequestDeviceError::Experimental(experimental));
        }
        let exceeded = limits::check(limits, &self.capabilities.limits);
        if !exceeded.is_empty() {
            return Err(RequestDeviceError::Limits {
                adapter: self.info.name.clone(),
                exceeded,
            });
        }
        Ok(())
    }
}

fn is_strict(instance: &Instance) -> bool {
    instance
        .flags()
        .contains(wgt::InstanceFlags::STRICT_WEBGPU_COMPLIANCE)
}

/// Why [`Adapter::request_device`] failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestDeviceError {
    /// The adapter does not offer features that were asked for.
    #[error("adapter {adapter:?} does not offer the required features {missing}")]
    Features {
        /// The name of the adapter.
        adapter: String,
        /// The features.
        missing: wgt::Features,
    },
    /// Experimental features were asked for without saying that they are experimental.
    #[error(
        "the required features {0} are experimental, and the descriptor's experimental_features does not \
         enable those"
    )]
    Experimental(wgt::Features),
    /// The adapter does not reach limits that were asked for.
    #[error("adapter {adapter:?} does not reach the required limits: {}", list(.exceeded))]
    Limits {
        /// The name of the adapter.
        adapter: String,
        /// The limits, with the values that were asked for and those that can be had.
        exceeded: Vec<LimitError>,
    },
    /// The driver failed.
    #[error("opening the adapter failed: {0}")]
    Driver(#[from] hal::DeviceError),
}

fn list(limits: &[LimitError]) -> String {
    let limits: Vec<_> = limits.iter().map(LimitError::to_string).collect();
    limits.join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::{tests::noop, AdapterOptions};
    use super::*;

    fn adapter() -> Arc<Adapter> {
        noop(|_| {})
            .request_adapter(&AdapterOptions::default())
            .unwrap()
    }

    #[test]
    fn only_what_is_implemented_is_offered() {
        // The back end that does nothing claims to have everything.
        assert_eq!(adapter().features(), IMPLEMENTED);
    }

    #[test]
    fn every_missing_feature_is_named() {
        let missing = wgt::Features::EXPERIMENTAL_RAY_QUERY | wgt::Features::MULTIVIEW;
        let error = adapter()
            .request_device(&wgt::DeviceDescriptor {
                required_features: missing | wgt::Features::CLEAR_TEXTURE,
                ..Default::default()
            })
            .unwrap_err()
            .to_string();
        assert!(error.contains("EXPERIMENTAL_RAY_QUERY"), "{error}");
        assert!(error.contains("MULTIVIEW"), "{error}");
        assert!(!error.contains("CLEAR_TEXTURE"), "{error}");
        assert!(error.contains("noop wgpu backend"), "{error}");
    }

    #[test]
    fn every_exceeded_limit_is_named() {
        let error = adapter()
            .request_device(&wgt::DeviceDescriptor {
                required_limits: wgt::Limits {
                    max_buffer_size: 1 << 40,
                    max_bind_groups: u32::MAX,
                    ..Default::default()
                },
                ..Default::default()
            })
            .unwrap_err()
            .to_string();
        let buffers = "max_buffer_size 1099511627776 is greater than 2147483647";
        assert!(error.contains(buffers), "{error}");
        let groups = "max_bind_groups 4294967295 is greater than 8";
        assert!(error.contains(groups), "{error}");
    }

    #[test]
    fn one_adapter_makes_several_devices() {
        let adapter = adapter();
        let desc = wgt::DeviceDescriptor {
            required_features: wgt::Features::CLEAR_TEXTURE,
            ..Default::default()
        };
        let first = adapter.request_device(&desc).unwrap();
        let second = adapter.request_device(&Default::default()).unwrap();
        assert_eq!(first.features(), wgt::Features::CLEAR_TEXTURE);
        assert!(second.features().is_empty());
        assert!(Arc::ptr_eq(first.adapter(), second.adapter()));
    }

    #[test]
    fn a_device_keeps_what_it_came_from() {
        let instance = noop(|_| {});
        let weak = Arc::downgrade(&instance);
        let adapter = instance
            .request_adapter(&AdapterOptions::default())
            .unwrap();
        let device = adapter.request_device(&Default::default()).unwrap();
        drop((instance, adapter));
        assert!(weak.upgrade().is_some());
        drop(device);
        assert!(weak.upgrade().is_none());
    }

    #[test]
    fn buckets_hide_features_and_limits() {
        let adapter = noop(|_| {})
            .request_adapter(&AdapterOptions {
                apply_limit_buckets: true,
                ..Default::default()
            })
            .unwrap();
        assert!(adapter.info().limit_bucket.is_some());
        assert!(adapter
            .request_device(&wgt::DeviceDescriptor {
                required_features: wgt::Features::SHADER_F64,
                ..Default::default()
            })
            .is_err());
    }

    #[test]
    fn labels_reach_the_driver_unless_they_are_discarded() {
        let adapter = adapter();
        assert_eq!(adapter.hal_label("vertices"), Some("vertices"));
        assert_eq!(adapter.hal_label(""), None);
        let quiet = noop(|desc| desc.flags = wgt::InstanceFlags::DISCARD_HAL_LABELS)
            .request_adapter(&AdapterOptions::default())
            .unwrap();
        assert_eq!(quiet.hal_label("vertices"), None);
    }

    #[test]
    fn formats_that_are_not_implemented_can_do_nothing() {
        let features = adapter().format_features(wgt::TextureFormat::NV12);
        assert!(features.allowed_usages.is_empty());
    }
}
