//! Buffers (specification, section 5.1 "GPUBuffer").

use super::{
    staging::{Memory, StagingBuffer},
    Body, BufferInit, Children, MapMode, Mapping,
};
use crate::{
    device::Device,
    error::{Named, Result},
    reclaim::BufferRaw,
    validate,
};
use fencepost_lifetime::{mutation::planted, Serial, Slot};
use parking_lot::Mutex;
use std::sync::{
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    Arc,
};
use wgpu_hal as hal;
use wgpu_types as wgt;

/// A buffer. Dropping the last handle frees its memory as [`destroy`](Self::destroy) does.
#[derive(Debug)]
pub struct Buffer {
    pub(crate) device: Arc<Device>,
    label: String,
    pub(crate) size: u64,
    pub(crate) usage: wgt::BufferUsages,
    pub(crate) body: Body<BufferRaw>,
    pub(crate) mapping: Mutex<Mapping>,
    /// Whether the buffer is unmapped, which is what a submission asks for.
    pub(crate) available: AtomicBool,
    pub(crate) init: BufferInit,
    pub(crate) state: BufferState,
    /// The bind groups that name the buffer.
    pub(crate) children: Children,
    /// How many writes to the buffer the queue has not submitted.
    pub(crate) pending_writes: AtomicU32,
}

/// The queue's view of how a buffer was last used, and by which submission. Changes under its lock.
#[derive(Debug, Default)]
pub(crate) struct BufferState(AtomicU64);

impl BufferState {
    /// The serial's low bits and the uses. Submissions whose serials agree in the low bits are 2^48 apart.
    fn pack(serial: Serial, uses: wgt::BufferUses) -> u64 {
        serial.get() << 16 | u64::from(uses.bits())
    }

    /// The uses, if they are those of the given submission, and none otherwise.
    pub fn within(&self, serial: Serial) -> wgt::BufferUses {
        let state = self.0.load(Ordering::Relaxed);
        if state >> 16 == Self::pack(serial, wgt::BufferUses::empty()) >> 16 {
            wgt::BufferUses::from_bits_retain(state as u16)
        } else {
            wgt::BufferUses::empty()
        }
    }

    /// The uses, whichever submission they are of.
    pub fn last(&self) -> wgt::BufferUses {
        wgt::BufferUses::from_bits_retain(self.0.load(Ordering::Relaxed) as u16)
    }

    /// Sets the uses of a submission. Returns what [`restore`](Self::restore) takes.
    pub fn set(&self, serial: Serial, uses: wgt::BufferUses) -> u64 {
        let before = self.0.load(Ordering::Relaxed);
        self.0.store(Self::pack(serial, uses), Ordering::Relaxed);
        before
    }

    /// Undoes a [`set`](Self::set).
    pub fn restore(&self, before: u64) {
        self.0.store(before, Ordering::Relaxed);
    }
}

impl Device {
    /// Makes a buffer (specification, `createBuffer`). If that fails, the error is reported and the
    /// buffer is invalid.
    pub fn create_buffer(
        self: &Arc<Self>,
        desc: &wgt::BufferDescriptor<Option<&str>>,
    ) -> Arc<Buffer> {
        let created = Buffer::new(self, desc);
        self.report_if_err("Device::create_buffer", created)
            .unwrap_or_else(|| {
                let init = BufferInit::initialized();
                Buffer::with_body(self, desc, Body::Invalid, Mapping::Unmapped, init)
            })
    }
}

impl Buffer {
    fn new(device: &Arc<Device>, desc: &wgt::BufferDescriptor<Option<&str>>) -> Result<Arc<Self>> {
        device.check_alive()?;
        let name = Named {
            kind: "buffer",
            label: desc.label.unwrap_or_default(),
        };
        validate::buffer::check_descriptor(
            &name,
            desc,
            device.features,
            &device.limits,
            device.adapter.capabilities.downlevel.flags,
        )?;
        let uploads = desc.usage.contains(wgt::BufferUsages::MAP_WRITE);
        // The CPU fills a buffer that is mapped at creation: directly if it may, through staging memory
        // otherwise.
        let staging = (desc.mapped_at_creation && !uploads && desc.size > 0)
            .then(|| StagingBuffer::new(device, desc.size))
            .transpose()
            .map_err(|error| error.within(name))?;
        // A HAL buffer is never empty, and clears come in units of four bytes.
        let aligned = desc
            .size
            .max(1)
            .next_multiple_of(wgt::COPY_BUFFER_ALIGNMENT);
        let hal_desc = hal::BufferDescriptor {
            label: device.adapter.hal_label(desc.label.unwrap_or_default()),
            size: aligned,
            usage: validate::buffer::hal_usage(desc),
            memory_flags: hal::MemoryFlags::empty(),
        };
        let slot = device.create(&name, aligned, |hal| {
            // SAFETY: the descriptor was validated.
            unsafe { hal.create_buffer(&hal_desc) }.map(BufferRaw::new)
        })?;
        let (mapping, init) = if !desc.mapped_at_creation {
            (Mapping::Unmapped, BufferInit::uninitialized(aligned))
        } else if let Some(mut staging) = staging {
            // SAFETY: nobody else has seen the memory yet.
            unsafe { staging.memory().zero(0, staging.size()) };
            staging.unpin();
            let mapping = Mapping::Staged(Box::new(staging));
            (mapping, BufferInit::initialized())
        } else {
            let mapping = map_new(device, &name, &slot, desc.size)?;
            (mapping, BufferInit::initialized())
        };
        let body = Body::Live(slot);
        Ok(Self::with_body(device, desc, body, mapping, init))
    }

    fn with_body(
        device: &Arc<Device>,
        desc: &wgt::BufferDescriptor<Option<&str>>,
        body: Body<BufferRaw>,
        mapping: Mapping,
        init: BufferInit,
    ) -> Arc<Self> {
        Arc::new(Self {
            device: Arc::clone(device),
            label: desc.label.unwrap_or_default().to_owned(),
            size: desc.size,
            usage: desc.usage,
            body,
            available: AtomicBool::new(matches!(mapping, Mapping::Unmapped)),
            mapping: Mutex::new(mapping),
            init,
            state: BufferState::default(),
            children: Children::default(),
            pending_writes: AtomicU32::new(0),
        })
    }

    /// The device.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// The label, empty if there is none.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// The size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The usages that the program asked for.
    pub fn usage(&self) -> wgt::BufferUsages {
        self.usage
    }

    /// The HAL usages of the memory.
    pub(crate) fn hal_usage(&self) -> wgt::BufferUses {
        validate::buffer::hal_usage(&wgt::BufferDescriptor {
            label: None,
            size: self.size,
            usage: self.usage,
            mapped_at_creation: false,
        })
    }

    pub(crate) fn name(&self) -> Named<'_> {
        Named {
            kind: "buffer",
            label: &self.label,
        }
    }

    /// Frees the memory: at once if the GPU is done with it, when its last submission completes
    /// otherwise (specification, `destroy`). A mapping ends; submitting what uses the buffer is an error
    /// from now on. Doing it twice is fine.
    pub fn destroy(&self) {
        self.body.destroy_with(&self.children, &self.device.lower);
        self.abandon_map();
        if self.pending_writes.load(Ordering::Acquire) > 0
            && !planted("staging memory kept for a destroyed target")
        {
            self.device.forget_writes_to_buffer(self);
        }
    }
}

/// Maps the memory of a new buffer as a whole, and zeroes it.
fn map_new(
    device: &Device,
    name: &Named<'_>,
    slot: &Arc<Slot<BufferRaw>>,
    size: u64,
) -> Result<Mapping> {
    let range = 0..size;
    let memory = match slot.pin(&*device.lower) {
        Some(raw) => device.lower.under_pressure(name, || {
            // SAFETY: the buffer is new and pinned, and has a mappable usage unless it is empty.
            unsafe { Memory::map(device.hal(), &raw, range.clone()) }
        }),
        None => Ok(Memory::EMPTY),
    };
    let memory = memory.inspect_err(|_| slot.destroy(&*device.lower))?;
    // SAFETY: nobody else has seen the memory yet.
    unsafe { memory.zero(0, memory.size) };
    Ok(Mapping::Mapped {
        mode: MapMode::Write,
        range,
        memory,
    })
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.destroy();
    }
}
