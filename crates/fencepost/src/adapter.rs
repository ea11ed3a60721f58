//! Instances and adapters.

use crate::{convert::ready, core, device::Device, queue::Queue};
use std::{pin::Pin, sync::Arc};
use wgpu::custom::*;

/// An instance of ours as `wgpu` sees it.
#[derive(Debug)]
pub(crate) struct Instance(pub Arc<core::Instance>);

/// An adapter of ours as `wgpu` sees it.
#[derive(Debug)]
pub(crate) struct Adapter(Arc<core::Adapter>);

impl InstanceInterface for Instance {
    fn new(desc: wgpu::InstanceDescriptor) -> Self {
        Self(core::Instance::new(desc, core::Options::default()))
    }

    unsafe fn create_surface(
        &self,
        _target: wgpu::SurfaceTargetUnsafe,
    ) -> Result<DispatchSurface, wgpu::CreateSurfaceError> {
        // Surfaces are not implemented. The error's type has no room to say so, and no constructor but
        // this conversion; it lists the backends on which a surface could not be made.
        let failures = Default::default();
        Err(
            wgpu::wgc::instance::CreateSurfaceError::FailedToCreateSurfaceForAnyBackend(failures)
                .into(),
        )
    }

    fn request_adapter(
        &self,
        options: &wgpu::RequestAdapterOptions<'_, '_>,
    ) -> Pin<Box<dyn RequestAdapterFuture>> {
        let adapter = self.0.request_adapter(&core::instance::AdapterOptions {
            power_preference: options.power_preference,
            force_fallback_adapter: options.force_fallback_adapter,
            apply_limit_buckets: options.apply_limit_buckets,
        });
        ready(adapter.map(|adapter| DispatchAdapter::custom(Adapter(adapter))))
    }

    fn poll_all_devices(&self, force_wait: bool) -> bool {
        self.0.poll_all(force_wait)
    }

    fn wgsl_language_features(&self) -> wgpu::WgslLanguageFeatures {
        use naga::front::wgsl::ImplementedLanguageExtension as Extension;
        let mut features = wgpu::WgslLanguageFeatures::empty();
        for extension in Extension::all() {
            features |= match extension {
                Extension::ReadOnlyAndReadWriteStorageTextures => {
                    wgpu::WgslLanguageFeatures::ReadOnlyAndReadWriteStorageTextures
                }
                Extension::Packed4x8IntegerDotProduct => {
                    wgpu::WgslLanguageFeatures::Packed4x8IntegerDotProduct
                }
                Extension::PointerCompositeAccess => {
                    wgpu::WgslLanguageFeatures::PointerCompositeAccess
                }
                #[allow(unreachable_patterns, reason = "naga may implement more")]
                _ => wgpu::WgslLanguageFeatures::empty(),
            };
        }
        features
    }

    fn enumerate_adapters(&self, backends: wgpu::Backends) -> Pin<Box<dyn EnumerateAdapterFuture>> {
        let adapters = self.0.enumerate_adapters(backends);
        let adapters = adapters.into_iter();
        let adapters: Vec<_> = adapters
            .map(|adapter| DispatchAdapter::custom(Adapter(adapter)))
            .collect();
        ready(adapters)
    }
}

impl AdapterInterface for Adapter {
    fn request_device(
        &self,
        desc: &wgpu::DeviceDescriptor<'_>,
    ) -> Pin<Box<dyn RequestDeviceFuture>> {
        ready(
            self.0
                .request_device(desc)
                .map(|device| {
                    let queue = core::Queue::new(&device);
                    (
                        DispatchDevice::custom(Device::new(device)),
                        DispatchQueue::custom(Queue(queue)),
                    )
                })
                .map_err(|error| wgpu::RequestDeviceError::from_message(error.to_string())),
        )
    }

    fn is_surface_supported(&self, _surface: &DispatchSurface) -> bool {
        false
    }

    fn features(&self) -> wgpu::Features {
        self.0.features()
    }

    fn limits(&self) -> wgpu::Limits {
        self.0.limits().clone()
    }

    fn downlevel_capabilities(&self) -> wgpu::DownlevelCapabilities {
        self.0.downlevel().clone()
    }

    fn get_info(&self) -> wgpu::AdapterInfo {
        self.0.info().clone()
    }

    fn get_texture_format_features(
        &self,
        format: wgpu::TextureFormat,
    ) -> wgpu::TextureFormatFeatures {
        self.0.format_features(format)
    }

    fn get_presentation_timestamp(&self) -> wgpu::PresentationTimestamp {
        self.0.presentation_timestamp()
    }

    fn cooperative_matrix_properties(&self) -> Vec<wgpu::CooperativeMatrixProperties> {
        self.0.cooperative_matrix_properties()
    }
}
