//! From a machine to a device: the instance, its adapters, and what Fencepost does with what they offer.
//!
//! * [`Instance`] holds a HAL instance for each back end that answers.
//! * [`Adapter`] is one GPU as one back end sees it. It holds its instance.
//! * `features` says which features Fencepost implements, `limits` what may be asked of an adapter,
//!   `format` what can be done with a texture format, `select` which adapter is best.

mod adapter;
mod features;
mod format;
mod limits;
mod select;

use crate::{
    device::{Device, Options},
    instance::select::{Candidate, Preference},
};
use parking_lot::Mutex;
use std::{
    fmt,
    sync::{Arc, Weak},
};
use wgpu_hal::{self as hal, DynInstance};
use wgpu_types as wgt;

pub use adapter::{Adapter, RequestDeviceError};
pub(crate) use format::format_features_for_device;
pub use limits::LimitError;

/// What a program asks for when it requests an adapter. Surfaces are not there yet.
#[derive(Clone, Copy, Debug, Default)]
pub struct AdapterOptions {
    /// Which kind of GPU comes first.
    pub power_preference: wgt::PowerPreference,
    /// Take a software adapter, and nothing else.
    pub force_fallback_adapter: bool,
    /// Report limits and features rounded down to one of a few levels, so that untrusted content learns
    /// little about the machine.
    pub apply_limit_buckets: bool,
}

/// Puts something between the core and each HAL instance that it makes, such as an auditor.
pub trait Decorate {
    /// Wraps an instance of the back end `A`.
    fn decorate<A: hal::Api>(&self, instance: A::Instance) -> Box<dyn DynInstance>;
}

/// Nothing in between.
struct Plain;

impl Decorate for Plain {
    fn decorate<A: hal::Api>(&self, instance: A::Instance) -> Box<dyn DynInstance> {
        Box::new(instance)
    }
}

/// The way to the GPUs of a machine (specification, `GPU`).
pub struct Instance {
    /// In the order of preference: the platform's native interfaces first.
    backends: Vec<(wgt::Backend, Box<dyn DynInstance>)>,
    /// The back ends that were asked for and did not answer, with the reason.
    failures: Vec<(wgt::Backend, hal::InstanceError)>,
    requested: wgt::Backends,
    flags: wgt::InstanceFlags,
    options: Options,
    devices: Mutex<Vec<Weak<Device>>>,
    /// Last, so that it outlives the HAL's instances, which use it.
    _display: Option<Box<dyn wgt::WgpuHasDisplayHandle>>,
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let backends: Vec<_> = self.backends.iter().map(|(backend, _)| backend).collect();
        f.debug_struct("Instance")
            .field("backends", &backends)
            .field("failures", &self.failures)
            .field("flags", &self.flags)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Instance {
    /// Makes a HAL instance for each of `desc.backends` that this platform has and that answers.
    ///
    /// One that does not answer is no error here: the instance works with what is left, and says what was
    /// missing when no adapter can be found. The back end that does nothing must be enabled in
    /// `desc.backend_options.noop` as well.
    pub fn new(desc: wgt::InstanceDescriptor, options: Options) -> Arc<Self> {
        Self::decorated(desc, options, &Plain)
    }

    /// As [`Instance::new`], with a decorator around each HAL instance.
    pub fn decorated(
        mut desc: wgt::InstanceDescriptor,
        options: Options,
        decorator: &impl Decorate,
    ) -> Arc<Self> {
        let display = desc.display.take();
        let mut this = Self {
            backends: Vec::new(),
            failures: Vec::new(),
            requested: desc.backends,
            flags: desc.flags,
            options,
            devices: Mutex::default(),
            _display: None,
        };
        #[cfg(not(target_vendor = "apple"))]
        this.add::<hal::api::Vulkan>(&desc, display.as_deref(), decorator);
        #[cfg(target_vendor = "apple")]
        this.add::<hal::api::Metal>(&desc, display.as_deref(), decorator);
        #[cfg(windows)]
        this.add::<hal::api::Dx12>(&desc, display.as_deref(), decorator);
        #[cfg(not(target_vendor = "apple"))]
        this.add::<hal::api::Gles>(&desc, display.as_deref(), decorator);
        this.add::<hal::api::Noop>(&desc, display.as_deref(), decorator);
        this._display = display;
        Arc::new(this)
    }

    /// An instance on one HAL instance that the caller has made, such as a decorated one.
    pub fn from_hal(
        instance: Box<dyn DynInstance>,
        backend: wgt::Backend,
        flags: wgt::InstanceFlags,
        options: Options,
    ) -> Arc<Self> {
        Arc::new(Self {
            backends: vec![(backend, instance)],
            failures: Vec::new(),
            requested: backend.into(),
            flags,
            options,
            devices: Mutex::default(),
            _display: None,
        })
    }

    fn add<A: hal::Api>(
        &mut self,
        desc: &wgt::InstanceDescriptor,
        display: Option<&dyn wgt::WgpuHasDisplayHandle>,
        decorator: &impl Decorate,
    ) {
        if !self.requested.contains(A::VARIANT.into()) {
            return;
        }
        let display = display.and_then(|display| {
            display
                .display_handle()
                .inspect_err(|error| log::warn!("the display has no handle: {error}"))
                .ok()
        });
        let hal_desc = hal::InstanceDescriptor {
            name: "fencepost",
            flags: desc.flags,
            memory_budget_thresholds: desc.memory_budget_thresholds,
            backend_options: desc.backend_options.clone(),
            telemetry: None,
            display,
        };
        // SAFETY: the description is complete, and the display outlives the HAL's instance, which this
        // object drops first.
        match unsafe { <A::Instance as hal::Instance>::init(&hal_desc) } {
            Ok(instance) => {
                let instance = decorator.decorate::<A>(instance);
                self.backends.push((A::VARIANT, instance));
            }
            Err(error) => {
                log::debug!("back end {} does not answer: {error}", A::VARIANT);
                self.failures.push((A::VARIANT, error));
            }
        }
    }

    /// The back ends that were asked for and did not answer, with the reason of each.
    pub fn failures(&self) -> &[(wgt::Backend, hal::InstanceError)] {
        &self.failures
    }

    /// The flags that the instance was made with.
    pub fn flags(&self) -> wgt::InstanceFlags {
        self.flags
    }

    /// What Fencepost adds to the description of an instance.
    pub fn options(&self) -> Options {
        self.options
    }

    /// Every adapter of the given back ends, in no order that means anything but that of the back ends.
    pub fn enumerate_adapters(self: &Arc<Self>, backends: wgt::Backends) -> Vec<Arc<Adapter>> {
        self.backends
            .iter()
            .filter(|(backend, _)| backends.contains((*backend).into()))
            .flat_map(|(_, instance)| self.adapters_of(&**instance))
            .map(Arc::new)
            .collect()
    }

    fn adapters_of(self: &Arc<Self>, instance: &dyn DynInstance) -> Vec<Adapter> {
        // SAFETY: the instance is alive, and each adapter that comes out of this holds it.
        let exposed = unsafe { instance.enumerate_adapters(None) };
        exposed
            .into_iter()
            .filter_map(|exposed| Adapter::new(self, exposed))
            .collect()
    }

    /// The adapter that suits `options` best (specification, `GPU.requestAdapter`).
    ///
    /// # Errors
    ///
    /// [`wgt::RequestAdapterError::NotFound`] if there is none, with what became of each back end.
    pub fn request_adapter(
        self: &Arc<Self>,
        options: &AdapterOptions,
    ) -> Result<Arc<Adapter>, wgt::RequestAdapterError> {
        let mut candidates = Vec::new();
        let mut no_adapter_backends = wgt::Backends::empty();
        let mut no_fallback_backends = wgt::Backends::empty();
        for (backend, instance) in &self.backends {
            let mut adapters = self.adapters_of(&**instance);
            if adapters.is_empty() {
                no_adapter_backends |= wgt::Backends::from(*backend);
                continue;
            }
            if options.force_fallback_adapter {
                adapters.retain(|adapter| adapter.info().device_type == wgt::DeviceType::Cpu);
                if adapters.is_empty() {
                    no_fallback_backends |= wgt::Backends::from(*backend);
                }
            }
            candidates.extend(adapters.into_iter().filter_map(|adapter| {
                if options.apply_limit_buckets {
                    adapter.bucketed()
                } else {
                    Some(adapter)
                }
            }));
        }
        let kinds: Vec<_> = candidates
            .iter()
            .map(|adapter| Candidate {
                device_type: adapter.info().device_type,
                backend: adapter.info().backend,
            })
            .collect();
        match select::best(&kinds, Preference::from(options.power_preference)) {
            Some(index) => Ok(Arc::new(candidates.swap_remove(index))),
            None => {
                for (backend, error) in &self.failures {
                    log::warn!("back end {backend} does not answer: {error}");
                }
                Err(wgt::RequestAdapterError::NotFound {
                    active_backends: self
                        .backends
                        .iter()
                        .map(|(backend, _)| *backend)
                        .fold(wgt::Backends::empty(), |backends, backend| {
                            backends | wgt::Backends::from(backend)
                        }),
                    requested_backends: self.requested,
                    supported_backends: SUPPORTED,
                    no_fallback_backends,
                    no_adapter_backends,
                    incompatible_surface_backends: wgt::Backends::empty(),
                })
            }
        }
    }

    /// Polls every device that was made from this instance and still exists, and waits for everything
    /// that was submitted to them if `force_wait` is set. True if nothing is in flight any more.
    pub fn poll_all(&self, force_wait: bool) -> bool {
        // A last handle may be the one taken here, and callbacks are the program's: no lock is held.
        let devices: Vec<_> = self
            .devices
            .lock()
            .iter()
            .filter_map(Weak::upgrade)
            .collect();
        let mut idle = true;
        for device in devices {
            let poll = if force_wait {
                wgt::PollType::Wait {
                    submission_index: None,
                    timeout: None,
                }
            } else {
                wgt::PollType::Poll
            };
            idle &= matches!(device.poll(poll), Ok(wgt::PollStatus::QueueEmpty));
        }
        idle
    }

    /// Notes a device that was made from one of the instance's adapters.
    fn register(&self, device: &Arc<Device>) {
        let mut devices = self.devices.lock();
        devices.retain(|device| device.strong_count() > 0);
        devices.push(Arc::downgrade(device));
    }
}

/// The back ends that this platform could have.
const SUPPORTED: wgt::Backends = {
    let native = if cfg!(target_vendor = "apple") {
        wgt::Backends::METAL
    } else if cfg!(windows) {
        wgt::Backends::VULKAN
            .union(wgt::Backends::GL)
            .union(wgt::Backends::DX12)
    } else {
        wgt::Backends::VULKAN.union(wgt::Backends::GL)
    };
    native.union(wgt::Backends::NOOP)
};

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use fencepost_audit::{AuditMode, Audited, Auditor, Contract};

    /// The strict contract: whoever breaks it panics.
    struct Strict(Auditor);

    impl Decorate for Strict {
        fn decorate<A: hal::Api>(&self, instance: A::Instance) -> Box<dyn DynInstance> {
            Box::new(Audited::<A>::wrap(instance, &self.0))
        }
    }

    /// An audited instance of the back end that does nothing, which says what it is told to.
    pub(crate) fn noop(edit: impl FnOnce(&mut wgt::InstanceDescriptor)) -> Arc<Instance> {
        let mut desc = wgt::InstanceDescriptor::new_without_display_handle();
        desc.backends = wgt::Backends::NOOP;
        desc.backend_options.noop.enable = true;
        desc.flags = wgt::InstanceFlags::empty();
        edit(&mut desc);
        let auditor = Auditor::new(Contract::Strict, AuditMode::Panic);
        auditor.set_reset_before_free(true);
        Instance::decorated(desc, Options::default(), &Strict(auditor))
    }

    /// A device of the back end that does nothing.
    pub(crate) fn noop_device(required_features: wgt::Features) -> Arc<Device> {
        noop(|_| {})
            .request_adapter(&AdapterOptions::default())
            .unwrap()
            .request_device(&wgt::DeviceDescriptor {
                required_features,
                ..Default::default()
            })
            .unwrap()
    }

    #[test]
    fn a_back_end_that_does_not_answer_is_kept_for_the_error() {
        let instance = noop(|desc| desc.backend_options.noop.enable = false);
        assert_eq!(instance.failures().len(), 1);
        assert_eq!(instance.failures()[0].0, wgt::Backend::Noop);
        let error = instance
            .request_adapter(&AdapterOptions::default())
            .unwrap_err();
        let message = error.to_string();
        assert!(message.contains("noop not explicitly enabled"), "{message}");
        assert!(message.contains("vulkan not requested"), "{message}");
    }

    #[test]
    fn adapters_come_from_the_asked_back_ends_only() {
        let instance = noop(|_| {});
        assert_eq!(instance.enumerate_adapters(wgt::Backends::all()).len(), 1);
        assert!(instance
            .enumerate_adapters(wgt::Backends::VULKAN)
            .is_empty());
    }

    #[test]
    fn fallback_adapters_are_software() {
        let fallback = AdapterOptions {
            force_fallback_adapter: true,
            ..Default::default()
        };
        assert!(noop(|_| {}).request_adapter(&fallback).is_ok());
        // The back end that does nothing always says that it is software; hide its adapter instead.
        let hidden = noop(|desc| {
            desc.backend_options.noop.limits = Some(wgt::Limits {
                min_uniform_buffer_offset_alignment: 3,
                ..Default::default()
            });
        });
        let error = hidden.request_adapter(&fallback).unwrap_err().to_string();
        assert!(error.contains("noop found no adapters"), "{error}");
    }

    #[test]
    fn strict_compliance_hides_what_is_not_webgpu() {
        let strict = |limits| {
            noop(|desc| {
                desc.flags = wgt::InstanceFlags::STRICT_WEBGPU_COMPLIANCE;
                desc.backend_options.noop.limits = limits;
            })
        };
        let adapter = strict(None)
            .request_adapter(&AdapterOptions::default())
            .unwrap();
        assert!(wgt::Features::all_webgpu_mask().contains(adapter.features()));
        assert_eq!(
            adapter.limits().max_binding_array_elements_per_shader_stage,
            0
        );
        let low = wgt::Limits {
            max_texture_dimension_1d: 8191,
            ..Default::default()
        };
        assert!(strict(Some(low))
            .request_adapter(&AdapterOptions::default())
            .is_err());
    }

    #[test]
    fn devices_are_polled_while_they_exist() {
        let instance = noop(|_| {});
        assert!(instance.poll_all(false), "there are no devices");
        let adapter = instance
            .request_adapter(&AdapterOptions::default())
            .unwrap();
        let first = adapter.request_device(&Default::default()).unwrap();
        let second = adapter.request_device(&Default::default()).unwrap();
        assert!(instance.poll_all(true));
        assert_eq!(instance.devices.lock().len(), 2);
        drop((first, second));
        let third = adapter.request_device(&Default::default()).unwrap();
        assert_eq!(instance.devices.lock().len(), 1, "the dead are forgotten");
        drop(third);
        assert!(instance.poll_all(true));
    }
}
