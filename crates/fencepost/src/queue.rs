//! The queue.

use crate::{
    buffer::Buffer,
    convert,
    core::{self, resource::StagingBuffer},
    device::foreign,
    encoder::CommandBuffer,
    unimplemented::AccelerationStructure,
};
use parking_lot::Mutex;
use std::ptr::NonNull;
use wgpu::custom::*;

/// The queue of a device as `wgpu` sees it.
#[derive(Debug)]
pub(crate) struct Queue(pub core::Queue);

impl Queue {
    fn foreign(&self, function: &'static str) {
        foreign(self.0.device(), function);
    }
}

impl QueueInterface for Queue {
    fn write_buffer(&self, buffer: &DispatchBuffer, offset: wgpu::BufferAddress, data: &[u8]) {
        match buffer.as_custom::<Buffer>().and_then(Buffer::core) {
            Some(buffer) => self.0.write_buffer(buffer, offset, data),
            None => self.foreign("Queue::write_buffer"),
        }
    }

    fn create_staging_buffer(&self, size: wgpu::BufferSize) -> Option<DispatchQueueWriteBuffer> {
        let staging = self.0.create_staging_buffer(size.get())?;
        Some(DispatchQueueWriteBuffer::custom(WriteBuffer {
            ptr: staging.as_ptr(),
            len: staging.size(),
            staging: Mutex::new(Some(staging)),
        }))
    }

    fn validate_write_buffer(
        &self,
        buffer: &DispatchBuffer,
        offset: wgpu::BufferAddress,
        size: wgpu::BufferSize,
    ) -> Option<()> {
        let Some(buffer) = buffer.as_custom::<Buffer>().and_then(Buffer::core) else {
            self.foreign("Queue::write_buffer_with");
            return None;
        };
        self.0
            .validate_write_buffer(buffer, offset, size.get())
            .then_some(())
    }

    fn write_staging_buffer(
        &self,
        buffer: &DispatchBuffer,
        offset: wgpu::BufferAddress,
        staging: &DispatchQueueWriteBuffer,
    ) {
        let staging = staging
            .as_custom::<WriteBuffer>()
            .and_then(|staging| staging.staging.lock().take());
        match (buffer.as_custom::<Buffer>().and_then(Buffer::core), staging) {
            (Some(buffer), Some(staging)) => self.0.write_staging_buffer(buffer, offset, staging),
            _ => self.foreign("Queue::write_buffer_with"),
        }
    }

    fn write_texture(
        &self,
        texture: wgpu::TexelCopyTextureInfo<'_>,
        data: &[u8],
        layout: wgpu::TexelCopyBufferLayout,
        size: wgpu::Extent3d,
    ) {
        match convert::copy_texture(&texture) {
            Some(texture) => self.0.write_texture(texture, data, layout, size),
            None => self.foreign("Queue::write_texture"),
        }
    }

    fn submit(&self, commands: &mut dyn Iterator<Item = DispatchCommandBuffer>) -> u64 {
        // All of it is drained, also if something in it is foreign.
        let commands: Vec<_> = commands.collect();
        let ours: Option<Vec<_>> = commands
            .iter()
            .map(|commands| commands.as_custom::<CommandBuffer>()?.0.lock().take())
            .collect();
        match ours {
            Some(ours) => self.0.submit(ours),
            None => {
                self.foreign("Queue::submit");
                self.0.submit([])
            }
        }
    }

    fn get_timestamp_period(&self) -> f32 {
        self.0.get_timestamp_period()
    }

    fn on_submitted_work_done(&self, callback: BoxSubmittedWorkDoneCallback) {
        self.0.on_submitted_work_done(callback);
    }

    fn compact_blas(&self, _blas: &DispatchBlas) -> (Option<u64>, DispatchBlas) {
        let device = self.0.device();
        device.refuse("Queue::compact_blas", AccelerationStructure::WHY);
        (None, DispatchBlas::custom(AccelerationStructure))
    }

    fn present(&self, _detail: &DispatchSurfaceOutputDetail) {
        let device = self.0.device();
        device.refuse("Queue::present", "surfaces are not implemented");
    }
}

/// Staging memory for the program to fill.
#[derive(Debug)]
pub(crate) struct WriteBuffer {
    ptr: NonNull<u8>,
    len: usize,
    /// Taken when it is handed to the queue, after which `wgpu` does not touch the memory any more.
    staging: Mutex<Option<StagingBuffer>>,
}

// SAFETY: the pointer is to memory that `staging` owns.
unsafe impl Send for WriteBuffer {}
// SAFETY: as above; it is written through `&mut self` only.
unsafe impl Sync for WriteBuffer {}

impl QueueWriteBufferInterface for WriteBuffer {
    fn len(&self) -> usize {
        self.len
    }

    unsafe fn write_slice(&mut self) -> wgpu::WriteOnly<'_, [u8]> {
        let len = match self.staging.get_mut() {
            Some(_) => self.len,
            None => 0,
        };
        let bytes = NonNull::slice_from_raw_parts(self.ptr, len);
        // SAFETY: the memory is mapped while `staging` is there, and borrowed mutably.
        unsafe { wgpu::WriteOnly::new(bytes) }
    }
}
