//! From the backend's instance to a device: thin wrappers that pass the [`Auditor`] down.

use crate::{
    auditor::Auditor, device::Inner, report::ObjectKind, Audited, Device, Fence, Queue,
    SurfaceTexture,
};
use parking_lot::Mutex;
use raw_window_handle::{RawDisplayHandle, RawWindowHandle};
use std::{
    any::Any,
    fmt,
    sync::{
        atomic::{AtomicU64, Ordering},
        Arc,
    },
    time::Duration,
};
use wgpu_hal::{self as hal, Api};
use wgpu_types as wgt;

macro_rules! shell {
    ($($name:ident)*) => {$(
        impl<A: Api> fmt::Debug for $name<A> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
        impl<A: Api> hal::DynResource for $name<A> {
            fn as_any(&self) -> &dyn Any {
                self
            }
            fn as_any_mut(&mut self) -> &mut dyn Any {
                self
            }
        }
        impl<A: Api> $name<A> {
            /// The backend's own object. What is done with it is not audited.
            pub fn inner(&self) -> &A::$name {
                &self.inner
            }
        }
    )*};
}
shell!(Instance Adapter Surface);

/// An audited `Instance`. Made by [`Audited::wrap`].
pub struct Instance<A: Api> {
    inner: A::Instance,
    auditor: Auditor,
}

impl<A: Api> Instance<A> {
    pub(crate) fn new(inner: A::Instance, auditor: Auditor) -> Self {
        Self { inner, auditor }
    }

    /// The auditor of this instance and everything made from it.
    pub fn auditor(&self) -> &Auditor {
        &self.auditor
    }
}

impl<A: Api> hal::Instance for Instance<A> {
    type A = Audited<A>;

    /// Makes the backend's instance and an auditor of its own, [`Auditor::default`]: standard contract,
    /// logging. With a handle in hand, use [`Audited::wrap`].
    unsafe fn init(desc: &hal::InstanceDescriptor<'_>) -> Result<Self, hal::InstanceError> {
        // SAFETY: the caller's obligations are the backend's.
        let inner = unsafe { A::Instance::init(desc) }?;
        Ok(Self::new(inner, Auditor::default()))
    }

    unsafe fn create_surface(
        &self,
        display_handle: RawDisplayHandle,
        window_handle: RawWindowHandle,
    ) -> Result<Surface<A>, hal::InstanceError> {
        // SAFETY: the caller's obligations are the backend's.
        let inner = unsafe { self.inner.create_surface(display_handle, window_handle) }?;
        Ok(Surface {
            inner,
            device: AtomicU64::new(0),
            auditor: self.auditor.clone(),
        })
    }

    unsafe fn enumerate_adapters(
        &self,
        surface_hint: Option<&Surface<A>>,
    ) -> Vec<hal::ExposedAdapter<Audited<A>>> {
        let hint = surface_hint.map(|surface| &surface.inner);
        // SAFETY: the caller's obligations are the backend's.
        let exposed = unsafe { self.inner.enumerate_adapters(hint) };
        let wrap = |exposed: hal::ExposedAdapter<A>| hal::ExposedAdapter {
            adapter: Adapter {
                inner: exposed.adapter,
                auditor: self.auditor.clone(),
            },
            info: exposed.info,
            features: exposed.features,
            capabilities: exposed.capabilities,
        };
        exposed.into_iter().map(wrap).collect()
    }
}

/// An audited `Surface`.
pub struct Surface<A: Api> {
    inner: A::Surface,
    /// The device that it is configured for; 0 is none.
    device: AtomicU64,
    auditor: Auditor,
}

impl<A: Api> hal::Surface for Surface<A> {
    type A = Audited<A>;

    unsafe fn configure(
        &self,
        device: &Device<A>,
        config: &hal::SurfaceConfiguration,
    ) -> Result<(), hal::SurfaceError> {
        // SAFETY: the caller's obligations are the backend's.
        let result = unsafe { self.inner.configure(device.inner(), config) };
        self.device.store(device.id, Ordering::Relaxed);
        self.auditor.track(device.id, result)
    }

    unsafe fn unconfigure(&self, device: &Device<A>) {
        // SAFETY: the caller's obligations are the backend's.
        unsafe { self.inner.unconfigure(device.inner()) };
        self.device.store(0, Ordering::Relaxed);
    }

    unsafe fn acquire_texture(
        &self,
        timeout: Option<Duration>,
        fence: &Fence<A>,
    ) -> Result<hal::AcquiredSurfaceTexture<Audited<A>>, hal::SurfaceError> {
        let device = self.device.load(Ordering::Relaxed);
        // SAFETY: the caller's obligations are the backend's.
        let result = unsafe { self.inner.acquire_texture(timeout, fence.raw()) };
        let acquired = self.auditor.track(device, result)?;
        let kind = ObjectKind::SurfaceTexture;
        let id = self.auditor.born(kind, None, device, &[], 0);
        Ok(hal::AcquiredSurfaceTexture {
            texture: SurfaceTexture::new(acquired.texture, id),
            suboptimal: acquired.suboptimal,
        })
    }

    unsafe fn discard_texture(&self, texture: SurfaceTexture<A>) {
        let device = self.device.load(Ordering::Relaxed);
        let (forward, _) = self.auditor.rule("discard_texture", |state, found| {
            state.ledger.destroy(texture.key(), device, false, found)
        });
        if forward {
            // SAFETY: the caller's obligations are the backend's, and the texture is still there.
            unsafe { self.inner.discard_texture(texture.into_raw()) };
        } else {
            std::mem::forget(texture);
        }
    }
}

/// An audited `Adapter`.
pub struct Adapter<A: Api> {
    inner: A::Adapter,
    auditor: Auditor,
}

impl<A: Api> hal::Adapter for Adapter<A> {
    type A = Audited<A>;

    unsafe fn open(
        &self,
        features: wgt::Features,
        limits: &wgt::Limits,
        memory_hints: &wgt::MemoryHints,
    ) -> Result<hal::OpenDevice<Audited<A>>, hal::DeviceError> {
        // SAFETY: the caller's obligations are the backend's.
        let open = unsafe { self.inner.open(features, limits, memory_hints) }?;
        let id = self.auditor.state().ledger.device();
        let inner = Arc::new(Inner::<A> {
            device: open.device,
            queue: open.queue,
            gate: Mutex::new(()),
        });
        Ok(hal::OpenDevice {
            device: Device {
                inner: Arc::clone(&inner),
                id,
                auditor: self.auditor.clone(),
            },
            queue: Queue {
                inner,
                id,
                auditor: self.auditor.clone(),
            },
        })
    }

    unsafe fn texture_format_capabilities(
        &self,
        format: wgt::TextureFormat,
    ) -> hal::TextureFormatCapabilities {
        // SAFETY: the caller's obligations are the backend's.
        unsafe { self.inner.texture_format_capabilities(format) }
    }

    unsafe fn surface_capabilities(
        &self,
        surface: &Surface<A>,
    ) -> Option<hal::SurfaceCapabilities> {
        // SAFETY: the caller's obligations are the backend's.
        unsafe { self.inner.surface_capabilities(&surface.inner) }
    }

    unsafe fn surface_display_hdr_info(&self, surface: &Surface<A>) -> Option<wgt::DisplayHdrInfo> {
        // SAFETY: the caller's obligations are the backend's.
        unsafe { self.inner.surface_display_hdr_info(&surface.inner) }
    }

    unsafe fn get_presentation_timestamp(&self) -> wgt::PresentationTimestamp {
        // SAFETY: the caller's obligations are the backend's.
        unsafe { self.inner.get_presentation_timestamp() }
    }

    fn get_ordered_buffer_usages(&self) -> wgt::BufferUses {
        self.inner.get_ordered_buffer_usages()
    }

    fn get_ordered_texture_usages(&self) -> wgt::TextureUses {
        self.inner.get_ordered_texture_usages()
    }
}
