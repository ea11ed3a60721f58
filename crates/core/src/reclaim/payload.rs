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

/// A HAL bind group. It pins its layout, whose pool it goes back to, until it is freed.
#[derive(Debug)]
pub(crate) struct BindGroupRaw {
    pub hal: Box<dyn hal::DynBindGroup>,
    /// `None` if the device was destroyed meanwhile, which frees the group first.
    pub layout: Option<Arc<Slot<Box<dyn hal::DynBindGroupLayout>>>>,
}

/// A HAL pipeline layout. It pins its bind group layouts until it is freed: what it is made of must last as
/// long as a command buffer refers to it.
#[derive(Debug)]
pub(crate) struct PipelineLayoutRaw {
    pub hal: Box<dyn hal::DynPipelineLayout>,
    pub groups: Vec<Arc<Slot<Box<dyn hal::DynBindGroupLayout>>>>,
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
            pub unsafe fn free(self, lower: &Lower) {
                match self {
                    $(Self::$kind(slot) => {
                        let free: fn(&Lower, $raw) = $free;
                        // SAFETY: the caller's promise.
                        free(lower, unsafe { slot.take() });
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

// SAFETY of every `destroy_*` below: the payload was taken out of its slot, so no command buffer refers
// to it (I1) and it is freed once (I2).
payloads! {
    Buffer(BufferRaw): "buffer", |lower, raw| raw.free(&*lower.device);
    Texture(Box<dyn hal::DynTexture>): "texture", |lower, raw| {
        // SAFETY: see above.
        unsafe { lower.device.destroy_texture(raw) }
    };
    TextureView(Box<dyn hal::DynTextureView>): "texture view", |lower, raw| {
        // SAFETY: see above.
        unsafe { lower.device.destroy_texture_view(raw) }
    };
    Sampler(Box<dyn hal::DynSampler>): "sampler", |lower, raw| {
        // SAFETY: see above.
        unsafe { lower.device.destroy_sampler(raw) }
    };
    BindGroupLayout(Box<dyn hal::DynBindGroupLayout>): "bind group layout", |lower, raw| {
        // SAFETY: see above.
        unsafe { lower.device.destroy_bind_group_layout(raw) }
    };
    BindGroup(BindGroupRaw): "bind group", |lower, raw| {
        // SAFETY: see above.
        unsafe { lower.device.destroy_bind_group(raw.hal) }
        if let Some(layout) = raw.layout {
            // SAFETY: the one pin of this group.
            unsafe { layout.unpin(lower) }
        }
    };
    PipelineLayout(PipelineLayoutRaw): "pipeline layout", |lower, raw| {
        // SAFETY: see above.
        unsafe { lower.device.destroy_pipeline_layout(raw.hal) }
        for group in raw.groups {
            // SAFETY: the one pin of this layout.
            unsafe { group.unpin(lower) }
        }
    };
    ShaderModule(Box<dyn hal::DynShaderModule>): "shader module", |lower, raw| {
        // SAFETY: see above.
        unsafe { lower.device.destroy_shader_module(raw) }
    };
    ComputePipeline(Box<dyn hal::DynComputePipeline>): "compute pipeline", |lower, raw| {
        // SAFETY: see above.
        unsafe { lower.device.destroy_compute_pipeline(raw) }
    };
    PipelineCache(Box<dyn hal::DynPipelineCache>): "pipeline cache", |lower, raw| {
        // SAFETY: see above.
        unsafe { lower.device.destroy_pipeline_cache(raw) }
    };
    QuerySet(Box<dyn hal::DynQuerySet>): "query set", |lower, raw| {
        // SAFETY: see above.
        unsafe { lower.device.destroy_query_set(raw) }
    };
}
