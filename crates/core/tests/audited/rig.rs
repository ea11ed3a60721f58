//! A device under the auditor.
//!
//! What a [`Rig`] made is gone when [`Rig::end`] returns, and no rule was broken. A test that fails does not
//! hang as it unwinds.

use crate::watchdog::Watchdog;
use fencepost_audit::{AuditMode, Audited, Auditor, Completion, Contract};
use fencepost_core::{
    resource::{Buffer, ComputePipeline, ComputePipelineDescriptor, ShaderSource},
    Device, Instance, Options, Queue, Reclaim,
};
use std::{
    cell::RefCell,
    sync::{Arc, Once},
    thread,
    time::Duration,
};
use wgpu_hal::{self as hal, Instance as _};
use wgpu_types as wgt;

/// In bytes.
pub const SIZE: u64 = 1 << 20;
/// How long one device of a test may take.
pub const LIMIT: Duration = Duration::from_secs(60);

thread_local! {
    /// What the core said of this thread's devices as it freed what nobody had let go of.
    static STRAYS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Hears what the core logs.
struct Listener;

impl log::Log for Listener {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.level() == log::Level::Error
    }

    fn log(&self, record: &log::Record<'_>) {
        let message = record.args().to_string();
        if message.contains("outlived its device") {
            STRAYS.with_borrow_mut(|strays| strays.push(message));
        }
    }

    fn flush(&self) {}
}

/// Takes what this thread's devices freed in the end although nobody had let go of it: it leaked until then.
pub fn take_strays() -> Vec<String> {
    STRAYS.take()
}

/// An auditor that holds to the strict contract, and to what Fencepost asks of itself beyond it.
pub fn auditor() -> Auditor {
    static LISTENING: Once = Once::new();
    LISTENING.call_once(|| {
        log::set_logger(&Listener).expect("nobody else listens");
        log::set_max_level(log::LevelFilter::Error);
    });
    let auditor = Auditor::new(Contract::Strict, AuditMode::Collect);
    auditor.set_reset_before_free(true);
    auditor
}

/// An audited instance of the back end that does nothing.
pub fn instance(auditor: &Auditor, options: Options) -> Arc<Instance> {
    let mut backend_options = wgt::BackendOptions::default();
    backend_options.noop.enable = true;
    let desc = hal::InstanceDescriptor {
        name: "audited",
        flags: wgt::InstanceFlags::empty(),
        memory_budget_thresholds: Default::default(),
        backend_options,
        telemetry: None,
        display: None,
    };
    // SAFETY: the description is complete.
    let raw = unsafe { <hal::api::Noop as hal::Api>::Instance::init(&desc) }.unwrap();
    let audited = Audited::<hal::api::Noop>::wrap(raw, auditor);
    Instance::from_hal(Box::new(audited), wgt::Backend::Noop, desc.flags, options)
}

/// Nothing is left, and no rule was broken.
#[track_caller]
pub fn assert_clean(auditor: &Auditor, when: &str) {
    let reports: Vec<_> = auditor.reports().iter().map(|r| r.to_string()).collect();
    assert!(reports.is_empty(), "{when}: {reports:#?}");
    let live: Vec<_> = auditor
        .live_objects()
        .iter()
        .map(|object| object.to_string())
        .collect();
    assert!(live.is_empty(), "{when}: still alive: {live:#?}");
    let strays = take_strays();
    assert!(strays.is_empty(), "{when}: {strays:#?}");
    assert_eq!(auditor.live_bytes(), 0, "{when}");
}

/// Goes before the device of a test. If the test has failed, the end of the device does not wait for a clock
/// that nobody turns any more.
pub struct Unblock(pub Auditor);

impl Drop for Unblock {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.clock().set(Completion::ManualOrWaited);
        }
    }
}

/// A device under the auditor.
pub struct Rig {
    _unblock: Unblock,
    pub auditor: Auditor,
    pub device: Arc<Device>,
    pub queue: Queue,
    /// Last: the end of the device is watched as well.
    _watchdog: Watchdog,
}

impl Rig {
    pub fn new(reclaim: Reclaim) -> Self {
        Self::with(Options {
            reclaim,
            ..Default::default()
        })
    }

    pub fn with(options: Options) -> Self {
        let test = thread::current().name().unwrap_or("a test").to_owned();
        let watchdog = Watchdog::new(LIMIT, test);
        let auditor = auditor();
        let instance = instance(&auditor, options);
        let adapter = instance.request_adapter(&Default::default()).unwrap();
        let device = adapter.request_device(&Default::default()).unwrap();
        let queue = Queue::new(&device);
        Self {
            _unblock: Unblock(auditor.clone()),
            auditor,
            device,
            queue,
            _watchdog: watchdog,
        }
    }

    /// A device with a budget that leaves `bytes` for the program.
    pub fn with_budget(bytes: u64, reclaim: Reclaim) -> Self {
        let plain = Self::new(Reclaim::OnCall);
        let own = plain.device.memory_report().bytes;
        plain.end();
        Self::with(Options {
            reclaim,
            memory_budget: Some(own + bytes),
            ..Default::default()
        })
    }

    pub fn buffer(&self, label: &str) -> Arc<Buffer> {
        self.device.create_buffer(&wgt::BufferDescriptor {
            label: Some(label),
            size: SIZE,
            usage: wgt::BufferUsages::COPY_SRC | wgt::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        })
    }

    /// A compute pipeline that uses nothing.
    pub fn pipeline(&self) -> Arc<ComputePipeline> {
        let source = ShaderSource::Wgsl("@compute @workgroup_size(1) fn main() {}".into());
        let checks = wgt::ShaderRuntimeChecks::checked();
        let module = self.device.create_shader_module(None, source, checks);
        self.device
            .create_compute_pipeline(&ComputePipelineDescriptor {
                label: None,
                layout: None,
                module: &module,
                entry_point: None,
                constants: &[],
                zero_initialize_workgroup_memory: true,
                cache: None,
            })
    }

    /// Submits a clear of `buffer`.
    pub fn use_buffer(&self, buffer: &Arc<Buffer>) {
        let encoder = self.device.create_command_encoder(None);
        encoder.clear_buffer(buffer, 0, None);
        self.queue.submit([encoder.finish()]);
    }

    /// Ends the device, and with it everything: nothing was left and no rule was broken.
    pub fn end(self) {
        self.auditor.clock().complete_all();
        let auditor = self.auditor.clone();
        drop(self);
        assert_clean(&auditor, "after the end of the device");
    }
}
