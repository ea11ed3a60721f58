//! Submitting: the check of everything that the command buffers refer to.

use crate::{
    auditor::Auditor, device::Inner, fault::Site, Audited, CommandBuffer, Fence, Surface,
    SurfaceTexture,
};
use std::{any::Any, fmt, sync::Arc};
use wgpu_hal::{self as hal, Api};

/// An audited `Queue`.
pub struct Queue<A: Api> {
    pub(crate) inner: Arc<Inner<A>>,
    /// The device's number.
    pub(crate) id: u64,
    pub(crate) auditor: Auditor,
}

impl<A: Api> fmt::Debug for Queue<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Queue of device #{}", self.id)
    }
}

impl<A: Api> hal::DynResource for Queue<A> {
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

impl<A: Api> Queue<A> {
    /// The backend's own queue. What is submitted to it is not audited.
    pub fn inner(&self) -> &A::Queue {
        &self.inner.queue
    }
}

impl<A: Api> hal::Queue for Queue<A> {
    type A = Audited<A>;

    unsafe fn submit(
        &self,
        command_buffers: &[&CommandBuffer<A>],
        surface_textures: &[&SurfaceTexture<A>],
        (fence, value): (&Fence<A>, hal::FenceValue),
    ) -> Result<(), hal::DeviceError> {
        self.inner
            .enter(&self.auditor, self.id, Some(Site::Submit), 0)?;
        let commands: Vec<u64> = command_buffers.iter().map(|c| c.id).collect();
        let textures: Vec<_> = surface_textures.iter().map(|t| t.key()).collect();
        let (serial, _) = self.auditor.rule("submit", |state, found| {
            let ledger = &mut state.ledger;
            ledger.submit(self.id, &commands, &textures, fence.key(), value, found)
        });
        let Some(serial) = serial else {
            return Err(hal::DeviceError::Unexpected);
        };
        let raw_commands: Vec<_> = command_buffers.iter().map(|c| &c.raw).collect();
        let raw_textures: Vec<_> = surface_textures.iter().map(|t| t.inner()).collect();
        let result = {
            let _gate = self.inner.gate.lock();
            // SAFETY: the caller's obligations are the backend's, and the ledger has just found that
            // everything is there and of this device.
            unsafe {
                self.inner
                    .queue
                    .submit(&raw_commands, &raw_textures, (fence.raw(), value))
            }
        };
        self.auditor
            .state()
            .ledger
            .submitted(self.id, serial, result.is_ok());
        self.auditor.tick().notify_all();
        self.auditor.track(self.id, result)
    }

    unsafe fn present(
        &self,
        surface: &Surface<A>,
        texture: SurfaceTexture<A>,
    ) -> Result<(), hal::SurfaceError> {
        let entered = self.inner.enter(&self.auditor, self.id, None, 0);
        let (forward, _) = self.auditor.rule("present", |state, found| {
            state.ledger.destroy(texture.key(), self.id, true, found)
        });
        if !forward {
            std::mem::forget(texture);
            return Err(hal::DeviceError::Unexpected.into());
        }
        // On a lost device the texture goes as it is.
        entered?;
        let _gate = self.inner.gate.lock();
        // SAFETY: the caller's obligations are the backend's, and the texture is still there.
        let result = unsafe {
            self.inner
                .queue
                .present(surface.inner(), texture.into_raw())
        };
        self.auditor.track(self.id, result)
    }

    unsafe fn get_timestamp_period(&self) -> f32 {
        // SAFETY: the caller's obligations are the backend's.
        unsafe { self.inner.queue.get_timestamp_period() }
    }

    unsafe fn wait_for_idle(&self) -> Result<(), hal::DeviceError> {
        self.inner.enter(&self.auditor, self.id, None, 0)?;
        self.auditor.hold(self.id, None, None)?;
        let result = self.inner.drain();
        self.auditor.track(self.id, result)?;
        self.auditor.state().ledger.idle(self.id);
        self.auditor.tick().notify_all();
        Ok(())
    }
}
