//! The HAL objects that slots hold, and how each is freed.

use super::Lower;
use fencepost_lifetime::{LastUse, Retire, Slot};
use std::sync::{
    atomic::{AtomicBool, Ordering},
    Arc,
};
use wgpu_hal::{self as hal, DynDevice};

/// A HAL object that a [`Slot`] can hold.
pub(crate) trait Raw: Sized + Send + Sync + 'static {
    /// The slot among all payloads.
    fn payload(slot: Arc<Slot<Self>>) -> Payload;
}

/// A HAL buffer, and whether it is mapped: a mapped one is unmapped before it is freed.
#[derive(Debug)]
pub(crate) struct BufferRaw {
    pub hal: Box<dyn hal::DynBuffer>,
    pub mapped: AtomicBool,
}

impl BufferRaw {
    pub fn new(hal: Box<dyn hal::DynBuffer>) -> Self {
        Self {
            hal,
            mapped: AtomicBool::new(false),
        }
    }

    fn free(self, device: &dyn DynDevice) {
        // SAFETY: the payload was taken out of its slot, so the GPU and every mapped view are done with
        // it (I1); it is unmapped first.
        unsafe {
            if self.mapped.load(Ordering::Acquire) {
                device.unmap_buffer(&*self.hal);
            }
            device.destroy_buffer(self.hal);
        }
    }
}

macro_rules! payloads {
    ($($kind:ident($raw:ty): $name:literal, $free:expr;)*) => {
        /// A slot with a HAL object of any kind.
        #[derive(Clone, Debug)]
        pub(crate) enum Payload {
            $($kind(Arc<Slot<$raw>>),)*
        }

        impl Payload {
            /// The stamp.
            pub fn last_use(&self) -> &LastUse {
                match self {
                    $(Self::$kind(slot) => slot.last_use(),)*
                }
            }

            /// Whether the slot was not destroyed.
            pub fn is_present(&self) -> bool {
                match self {
                    $(Self::$kind(slot) => slot.is_present(),)*
                }
            }

            /// What tells this slot from every other one that is alive.
            pub fn key(&self) -> usize {
                match self {
                    $(Self::$kind(slot) => Arc::as_ptr(slot) as usize,)*
                }
            }

            /// What it is, for messages.
            pub fn kind(&self) -> &'static str {
                match self {
                    $(Self::$kind(_) => $name,)*
                }
            }

            /// Destroys the slot if it was not destroyed before.
            pub fn destroy(&self, lower: &Lower) {
                match self {
                    $(Self::$kind(slot) => slot.destroy(lower),)*
                }
            }

            /// Frees the HAL object.
            ///
            /// # Safety
            ///
            /// The retire queue has handed the payload back.
            pub unsafe fn free(self, device: &dyn DynDevice) {
                match self {
                    $(Self::$kind(slot) => {
                        let free: fn(&dyn DynDevice, $raw) = $free;
                        // SAFETY: the caller's promise.
                        free(device, unsafe { slot.take() });
                    })*
                }
            }
        }

        $(
            impl Raw for $raw {
                fn payload(slot: Arc<Slot<Self>>) -> Payload {
                    Payload::$kind(slot)
                }
            }

            impl Retire<$raw> for Lower {
                fn retire(&self, slot: Arc<Slot<$raw>>) {
                    self.retire(Payload::$kind(slot));
                }
            }
        )*
    };
}

impl Payload {
    /// Where it stands when everything is let go of at once: what was made from others goes first, and a
    /// bind group goes back into a pool of its layout.
    pub fn rank(&self) -> u8 {
        match self {
            Self::BindGroup(_) => 0,
            Self::TextureView(_) | Self::ComputePipeline(_) => 1,
            Self::BindGroupLayout(_) => 4,
            Self::PipelineLayout(_) => 3,
            _ => 2,
        }
    }
}

// SAFETY of every `destroy_*` below: the payload was taken out of its slot, so no command buffer refers
// to it (I1) and it is freed once (I2).
payloads! {
    Buffer(BufferRaw): "buffer", |device, raw| raw.free(device);
    Texture(Box<dyn hal::DynTexture>): "texture", |device, raw| {
        // SAFETY: see above.
        unsafe { device.destroy_texture(raw) }
    };
    TextureView(Box<dyn hal::DynTextureView>): "texture view", |device, raw| {
        // SAFETY: see above.
        unsafe { device.destroy_texture_view(raw) }
    };
    Sampler(Box<dyn hal::DynSampler>): "sampler", |device, raw| {
        // SAFETY: see above.
        unsafe { device.destroy_sampler(raw) }
    };
    BindGroupLayout(Box<dyn hal::DynBindGroupLayout>): "bind group layout", |device, raw| {
        // SAFETY: see above.
        unsafe { device.destroy_bind_group_layout(raw) }
    };
    BindGroup(Box<dyn hal::DynBindGroup>): "bind group", |device, raw| {
        // SAFETY: see above.
        unsafe { device.destroy_bind_group(raw) }
    };
    PipelineLayout(Box<dyn hal::DynPipelineLayout>): "pipeline layout", |device, raw| {
        // SAFETY: see above.
        unsafe { device.destroy_pipeline_layout(raw) }
    };
    ShaderModule(Box<dyn hal::DynShaderModule>): "shader module", |device, raw| {
        // SAFETY: see above.
        unsafe { device.destroy_shader_module(raw) }
    };
    ComputePipeline(Box<dyn hal::DynComputePipeline>): "compute pipeline", |device, raw| {
        // SAFETY: see above.
        unsafe { device.destroy_compute_pipeline(raw) }
    };
    PipelineCache(Box<dyn hal::DynPipelineCache>): "pipeline cache", |device, raw| {
        // SAFETY: see above.
        unsafe { device.destroy_pipeline_cache(raw) }
    };
    QuerySet(Box<dyn hal::DynQuerySet>): "query set", |device, raw| {
        // SAFETY: see above.
        unsafe { device.destroy_query_set(raw) }
    };
}
