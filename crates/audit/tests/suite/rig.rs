//! A device of some backend under the auditor, and short ways to do what the tests do over and over.

use fencepost_audit::{
    AuditMode, Audited, Auditor, Buffer, CommandBuffer, CommandEncoder, Contract, Device, Fence,
    Instance, Queue, Report, Texture, Violation,
};
use wgpu_hal::{self as hal, Adapter as _, Api, CommandEncoder as _, Device as _, Instance as _};
use wgpu_hal::{api::Noop, Queue as _};
use wgpu_types as wgt;

/// The real backend that the tests use.
#[cfg(not(target_vendor = "apple"))]
pub type Native = hal::api::Vulkan;
/// The real backend that the tests use.
#[cfg(target_vendor = "apple")]
pub type Native = hal::api::Metal;

/// One device of one backend. `finish` ends it properly.
pub struct Rig<A: Api> {
    pub auditor: Auditor,
    pub fence: Fence<A>,
    pub queue: Queue<A>,
    pub device: Device<A>,
    pub value: u64,
    /// Last: GL needs its instance for as long as anything lives.
    pub instance: Instance<A>,
}

pub fn instance<A: Api>(auditor: &Auditor) -> Result<Instance<A>, hal::InstanceError> {
    let mut backend_options = wgt::BackendOptions::default();
    backend_options.noop.enable = true;
    let desc = hal::InstanceDescriptor {
        name: "audit",
        flags: wgt::InstanceFlags::empty(),
        memory_budget_thresholds: wgt::MemoryBudgetThresholds::default(),
        backend_options,
        telemetry: None,
        display: None,
    };
    // SAFETY: the description is complete.
    let raw = unsafe { A::Instance::init(&desc) }?;
    Ok(Audited::<A>::wrap(raw, auditor))
}

impl<A: Api> Rig<A> {
    /// `None` if there is no such adapter here.
    pub fn open(auditor: &Auditor) -> Option<Self> {
        let instance = instance::<A>(auditor).ok()?;
        // SAFETY: the instance is alive, as what comes from it is meant to be.
        let mut adapters = unsafe { instance.enumerate_adapters(None) };
        let exposed = adapters.drain(..).next()?;
        // SAFETY: the adapter offers these limits.
        let open = unsafe {
            exposed.adapter.open(
                wgt::Features::empty(),
                &exposed.capabilities.limits,
                &wgt::MemoryHints::default(),
            )
        }
        .ok()?;
        // SAFETY: the device is new.
        let fence = unsafe { open.device.create_fence() }.ok()?;
        Some(Self {
            auditor: auditor.clone(),
            fence,
            queue: open.queue,
            device: open.device,
            value: 0,
            instance,
        })
    }

    pub fn buffer(&self, label: &str) -> Buffer<A> {
        self.try_buffer(label, 64).expect("there is memory")
    }

    pub fn try_buffer(&self, label: &str, size: u64) -> Result<Buffer<A>, hal::DeviceError> {
        let desc = hal::BufferDescriptor {
            label: Some(label),
            size,
            usage: wgt::BufferUses::all(),
            memory_flags: hal::MemoryFlags::empty(),
        };
        // SAFETY: nothing is asked of the description.
        unsafe { self.device.create_buffer(&desc) }
    }

    pub fn host_buffer(&self, label: &str, usage: wgt::BufferUses) -> Buffer<A> {
        let desc = hal::BufferDescriptor {
            label: Some(label),
            size: 64,
            usage,
            memory_flags: hal::MemoryFlags::PREFER_COHERENT,
        };
        // SAFETY: nothing is asked of the description.
        unsafe { self.device.create_buffer(&desc) }.expect("there is memory")
    }

    pub fn texture(&self, label: &str) -> Texture<A> {
        let desc = hal::TextureDescriptor {
            label: Some(label),
            size: wgt::Extent3d {
                width: 4,
                height: 4,
                depth_or_array_layers: 1,
            },
            mip_level_count: 1,
            sample_count: 1,
            dimension: wgt::TextureDimension::D2,
            format: wgt::TextureFormat::Rgba8Unorm,
            usage: wgt::TextureUses::COPY_DST | wgt::TextureUses::RESOURCE,
            memory_flags: hal::MemoryFlags::empty(),
            view_formats: Vec::new(),
        };
        // SAFETY: the description is a plain one.
        unsafe { self.device.create_texture(&desc) }.expect("there is memory")
    }

    pub fn encoder(&self, label: &str) -> CommandEncoder<A> {
        let desc = hal::CommandEncoderDescriptor {
            label: Some(label),
            queue: &self.queue,
        };
        // SAFETY: the queue is the device's.
        unsafe { self.device.create_command_encoder(&desc) }.expect("there is memory")
    }

    /// Records what `record` does.
    pub fn record(
        &self,
        encoder: &mut CommandEncoder<A>,
        label: &str,
        record: impl FnOnce(&mut CommandEncoder<A>),
    ) -> CommandBuffer<A> {
        // SAFETY: the tests hand a closed encoder.
        unsafe { encoder.begin_encoding(Some(label)) }.expect("the encoder is closed");
        record(encoder);
        // SAFETY: it is recording.
        unsafe { encoder.end_encoding() }.expect("the encoder is recording")
    }

    /// Records a clear of the buffer.
    pub fn clear(
        &self,
        encoder: &mut CommandEncoder<A>,
        label: &str,
        buffer: &Buffer<A>,
    ) -> CommandBuffer<A> {
        self.record(encoder, label, |encoder| {
            // SAFETY: the range is the buffer's.
            unsafe { encoder.clear_buffer(buffer, 0..64) };
        })
    }

    pub fn submit(&mut self, commands: &[&CommandBuffer<A>]) -> Result<u64, hal::DeviceError> {
        self.value += 1;
        // SAFETY: the tests know what they hand in; the auditor knows better.
        unsafe {
            self.queue
                .submit(commands, &[], (&self.fence, self.value))?;
        }
        Ok(self.value)
    }

    pub fn wait(&self, value: u64) {
        // SAFETY: the value was submitted.
        let done = unsafe { self.device.wait(&self.fence, value, None) };
        assert_eq!(done, Ok(true));
    }

    pub fn reset(&self, encoder: &mut CommandEncoder<A>, commands: Vec<CommandBuffer<A>>) {
        // SAFETY: the encoder is closed and these are its command buffers, if the test is a good one.
        unsafe { encoder.reset_all(commands.into_iter()) };
    }

    pub fn destroy(&self, buffer: Buffer<A>) {
        // SAFETY: the buffer is unused, if the test is a good one.
        unsafe { self.device.destroy_buffer(buffer) };
    }

    /// Takes the one report that there must be, and checks its rule and the label of its object.
    #[track_caller]
    pub fn only(&self, violation: Violation, label: &str) -> Report {
        only(&self.auditor, violation, label)
    }

    #[track_caller]
    pub fn nothing(&self) {
        nothing(&self.auditor);
    }

    /// Destroys the fence and drops the rest.
    pub fn finish(self) {
        // SAFETY: the tests wait for what they submit, or mean not to.
        unsafe { self.device.destroy_fence(self.fence) };
        drop(self.queue);
        drop(self.device);
    }
}

/// A device that does nothing, collecting reports.
pub fn noop(contract: Contract) -> Rig<Noop> {
    let auditor = Auditor::new(contract, AuditMode::Collect);
    Rig::open(&auditor).expect("the no-op backend is always there")
}

#[track_caller]
pub fn only(auditor: &Auditor, violation: Violation, label: &str) -> Report {
    let mut reports = auditor.take_reports();
    let lines: Vec<String> = reports.iter().map(Report::to_string).collect();
    assert_eq!(reports.len(), 1, "{lines:#?}");
    let report = reports.remove(0);
    assert_eq!(report.violation, violation, "{report}");
    assert_eq!(
        report.object.label.as_deref().unwrap_or(""),
        label,
        "{report}"
    );
    report
}

#[track_caller]
pub fn nothing(auditor: &Auditor) {
    let lines: Vec<String> = auditor.reports().iter().map(Report::to_string).collect();
    assert!(lines.is_empty(), "{lines:#?}");
}

/// The same handle once more: what a program has that destroys something twice.
pub fn stale<T>(object: &T) -> std::mem::ManuallyDrop<T> {
    // SAFETY: the copy is only handed to calls that withhold it, and never dropped here.
    std::mem::ManuallyDrop::new(unsafe { std::ptr::read(object) })
}

pub fn unstale<T>(object: std::mem::ManuallyDrop<T>) -> T {
    std::mem::ManuallyDrop::into_inner(object)
}
