//! The wrappers of what has no methods: a backend's object and its number in the [ledger](crate::ledger).
//!
//! # Reading a buffer back out of a `BufferBinding`
//!
//! `wgpu-hal` hands buffers to bind groups and vertex slots inside a [`hal::BufferBinding`], whose buffer
//! is private to it; a decorator has to get at it, to know which buffer it is and to rebind the inner one.
//! The one public thing that a binding does with its buffer is to print it: `Debug` is derived. So
//! [`bound`] prints the binding into nowhere, and the `Debug` of [`Buffer`] leaves its own address in a
//! thread-local when it is asked to. `tests/suite` would notice at once if a later `wgpu-hal`
//! printed its bindings in another way, since no bind group could be made any more.

use crate::{auditor::Auditor, ledger::Key, report::ObjectKind};
use std::{any::Any, borrow::Borrow, cell::Cell, fmt, ptr::NonNull};
use wgpu_hal::{self as hal, Api};

/// What a command takes: a wrapper, of which the backend must see the inner object, or a plain value.
pub(crate) trait Argument {
    type Lowered;
    fn named(&self) -> Option<Key> {
        None
    }
    fn lowered(self) -> Self::Lowered;
}

macro_rules! plain {
    ($($ty:ty)*) => {$(
        impl Argument for $ty {
            type Lowered = Self;
            fn lowered(self) -> Self {
                self
            }
        }
    )*};
}
plain! {
    u32 i32 u64 [u32; 3] &str &[u32] &[f32; 4]
    std::num::NonZeroU64 std::ops::Range<u32> std::ops::Range<u64> std::ops::Range<f32>
    &hal::Rect<u32> &hal::Rect<f32> wgpu_types::IndexFormat wgpu_types::AccelerationStructureCopy
    hal::AccelerationStructureBarrier
}

/// What every wrapper is, once its fields are there.
macro_rules! wrapper {
    ($name:ident: $dyn:ident) => {
        impl<A: Api> hal::DynResource for $name<A> {
            fn as_any(&self) -> &dyn Any {
                self
            }
            fn as_any_mut(&mut self) -> &mut dyn Any {
                self
            }
        }
        impl<A: Api> hal::$dyn for $name<A> {}
        impl<A: Api> $name<A> {
            pub(crate) fn key(&self) -> Key {
                Key {
                    id: self.id,
                    kind: ObjectKind::$name,
                }
            }
            /// The backend's own object. What is done with it is not audited.
            pub fn inner(&self) -> &A::$name {
                self.raw()
            }
        }
        impl<'a, A: Api> Argument for &'a $name<A> {
            type Lowered = &'a A::$name;
            fn named(&self) -> Option<Key> {
                Some(self.key())
            }
            fn lowered(self) -> &'a A::$name {
                self.raw()
            }
        }
    };
}

macro_rules! debug {
    ($($name:ident)*) => {$(
        impl<A: Api> fmt::Debug for $name<A> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), " #{}"), self.id)
            }
        }
    )*};
}
pub(crate) use debug;

macro_rules! wrappers {
    ($($name:ident: $dyn:ident)*) => {$(
        #[doc = concat!("An audited `", stringify!($name), "`.")]
        pub struct $name<A: Api> {
            pub(crate) raw: A::$name,
            pub(crate) id: u64,
        }
        impl<A: Api> $name<A> {
            pub(crate) fn new(raw: A::$name, id: u64) -> Self {
                Self { raw, id }
            }
            pub(crate) fn raw(&self) -> &A::$name {
                &self.raw
            }
        }
        wrapper!($name: $dyn);
    )*};
}

wrappers! {
    Buffer: DynBuffer
    TextureView: DynTextureView
    Sampler: DynSampler
    QuerySet: DynQuerySet
    BindGroupLayout: DynBindGroupLayout
    BindGroup: DynBindGroup
    PipelineLayout: DynPipelineLayout
    ShaderModule: DynShaderModule
    RenderPipeline: DynRenderPipeline
    ComputePipeline: DynComputePipeline
    RayTracingPipeline: DynRayTracingPipeline
    PipelineCache: DynPipelineCache
    AccelerationStructure: DynAccelerationStructure
}
debug! {
    Texture TextureView Sampler QuerySet BindGroupLayout BindGroup PipelineLayout ShaderModule
    RenderPipeline ComputePipeline RayTracingPipeline PipelineCache AccelerationStructure Fence
    CommandBuffer
}

pub(crate) enum TextureContent<A: Api> {
    Own(A::Texture),
    Surface(A::SurfaceTexture),
}

/// An audited `Texture`: one that was created, or what is inside a [`SurfaceTexture`].
pub struct Texture<A: Api> {
    pub(crate) content: TextureContent<A>,
    pub(crate) id: u64,
}

impl<A: Api> Texture<A> {
    pub(crate) fn raw(&self) -> &A::Texture {
        match &self.content {
            TextureContent::Own(texture) => texture,
            TextureContent::Surface(texture) => texture.borrow(),
        }
    }
}
wrapper!(Texture: DynTexture);

/// An audited `SurfaceTexture`.
#[derive(Debug)]
pub struct SurfaceTexture<A: Api>(Texture<A>);

impl<A: Api> SurfaceTexture<A> {
    pub(crate) fn new(raw: A::SurfaceTexture, id: u64) -> Self {
        let content = TextureContent::Surface(raw);
        Self(Texture { content, id })
    }

    pub(crate) fn key(&self) -> Key {
        Key {
            id: self.0.id,
            kind: ObjectKind::SurfaceTexture,
        }
    }

    /// The backend's own object. What is done with it is not audited.
    pub fn inner(&self) -> &A::SurfaceTexture {
        match &self.0.content {
            TextureContent::Surface(texture) => texture,
            TextureContent::Own(_) => unreachable!("made from a surface texture"),
        }
    }

    pub(crate) fn into_raw(self) -> A::SurfaceTexture {
        match self.0.content {
            TextureContent::Surface(texture) => texture,
            TextureContent::Own(_) => unreachable!("made from a surface texture"),
        }
    }
}

impl<A: Api> hal::DynResource for SurfaceTexture<A> {
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
impl<A: Api> hal::DynSurfaceTexture for SurfaceTexture<A> {}
impl<A: Api> Borrow<Texture<A>> for SurfaceTexture<A> {
    fn borrow(&self) -> &Texture<A> {
        &self.0
    }
}
impl<A: Api> Borrow<dyn hal::DynTexture> for SurfaceTexture<A> {
    fn borrow(&self) -> &(dyn hal::DynTexture + 'static) {
        &self.0
    }
}

/// An audited `Fence`. Its drop is audited too.
pub struct Fence<A: Api> {
    /// `None` once it was destroyed.
    pub(crate) raw: Option<A::Fence>,
    pub(crate) id: u64,
    pub(crate) device: u64,
    pub(crate) auditor: Auditor,
}

impl<A: Api> Fence<A> {
    pub(crate) fn raw(&self) -> &A::Fence {
        let Some(raw) = &self.raw else {
            unreachable!("taken only by the call that consumes the fence")
        };
        raw
    }
}
wrapper!(Fence: DynFence);

impl<A: Api> Drop for Fence<A> {
    fn drop(&mut self) {
        // A fence that was not destroyed leaks, and is reported as alive when its device goes.
        if self.raw.is_some() {
            let key = self.key();
            self.auditor.rule("drop of a fence", |state, found| {
                state.ledger.drop_fence(key, self.device, found);
            });
        }
    }
}

/// An audited `CommandBuffer`.
pub struct CommandBuffer<A: Api> {
    pub(crate) raw: A::CommandBuffer,
    pub(crate) id: u64,
    pub(crate) auditor: Auditor,
}

impl<A: Api> CommandBuffer<A> {
    pub(crate) fn raw(&self) -> &A::CommandBuffer {
        &self.raw
    }
}
wrapper!(CommandBuffer: DynCommandBuffer);

#[derive(Clone, Copy)]
enum ReadBack {
    Off,
    Armed,
    Found(NonNull<()>),
}

thread_local! {
    static READ_BACK: Cell<ReadBack> = const { Cell::new(ReadBack::Off) };
}

impl<A: Api> fmt::Debug for Buffer<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let ReadBack::Armed = READ_BACK.get() {
            READ_BACK.set(ReadBack::Found(NonNull::from(self).cast()));
            // The rest of the binding need not be printed.
            return Err(fmt::Error);
        }
        write!(f, "Buffer #{}", self.id)
    }
}

struct Nowhere;

impl fmt::Write for Nowhere {
    fn write_str(&mut self, _: &str) -> fmt::Result {
        Ok(())
    }
}

/// The buffer that is bound. See the [module](self) for how.
pub(crate) fn bound<'a, A: Api>(binding: &hal::BufferBinding<'a, Buffer<A>>) -> &'a Buffer<A> {
    READ_BACK.set(ReadBack::Armed);
    let _ = fmt::Write::write_fmt(&mut Nowhere, format_args!("{binding:?}"));
    match READ_BACK.replace(ReadBack::Off) {
        // SAFETY: armed on this thread and disarmed by the first `Debug` of a `Buffer`, which can only be
        // that of the binding's: it holds nothing else that is generic. The binding has it as a
        // `&'a Buffer<A>`, so it is valid for `'a` and of that type.
        ReadBack::Found(buffer) => unsafe { buffer.cast::<Buffer<A>>().as_ref() },
        _ => unreachable!("the Debug of wgpu-hal's BufferBinding prints its buffer"),
    }
}

/// The same binding of the inner buffer.
pub(crate) fn rebind<'a, A: Api>(
    binding: &hal::BufferBinding<'a, Buffer<A>>,
) -> hal::BufferBinding<'a, A::Buffer> {
    hal::BufferBinding::new_unchecked(&bound(binding).raw, binding.offset, binding.size)
}

impl<'a, A: Api> Argument for hal::BufferBinding<'a, Buffer<A>> {
    type Lowered = hal::BufferBinding<'a, A::Buffer>;
    fn named(&self) -> Option<Key> {
        Some(bound(self).key())
    }
    fn lowered(self) -> Self::Lowered {
        rebind(&self)
    }
}
