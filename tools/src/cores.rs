//! The two cores, and a device on either of them.
//!
//! Invariant: both cores are asked for the same back ends, the same adapter and the same limits.

use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A WebGPU core that can stand behind the `wgpu` API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Core {
    /// The core that `wgpu` comes with.
    WgpuCore,
    /// Ours.
    Fencepost,
}

impl Core {
    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Core::WgpuCore => "wgpu-core",
            Core::Fencepost => "Fencepost",
        }
    }

    /// The one line in which programs for the two cores differ.
    fn instance(self, desc: wgpu::InstanceDescriptor) -> wgpu::Instance {
        match self {
            Core::WgpuCore => wgpu::Instance::new(desc),
            Core::Fencepost => fencepost::instance(desc),
        }
    }
}

/// Both cores, in the order of the columns.
pub fn cores() -> [Core; 2] {
    [Core::WgpuCore, Core::Fencepost]
}

/// What stands below the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Below {
    /// The system's graphics API.
    Gpu,
    /// wgpu-hal's no-op back end: buffers are host memory, copies happen inside submit, shaders do nothing.
    Noop,
}

fn descriptor(below: Below) -> wgpu::InstanceDescriptor {
    let mut desc = wgpu::InstanceDescriptor::new_without_display_handle();
    match below {
        Below::Gpu => {
            desc.backends = wgpu::Backends::from_env().unwrap_or(wgpu::Backends::PRIMARY)
                - wgpu::Backends::NOOP;
        }
        Below::Noop => {
            desc.backends = wgpu::Backends::NOOP;
            desc.backend_options.noop = wgpu::NoopBackendOptions::enabled();
        }
    }
    // Neither core pays for validation layers or debug names here.
    desc.flags = wgpu::InstanceFlags::empty().with_env();
    desc
}

/// A device on one of the cores.
pub struct Gpu {
    /// Which core.
    pub core: Core,
    /// What stands below it.
    pub below: Below,
    /// The adapter that answered.
    pub info: wgpu::AdapterInfo,
    /// The device.
    pub device: wgpu::Device,
    /// Its queue.
    pub queue: wgpu::Queue,
    errors: Arc<Mutex<Vec<String>>>,
}

/// How long a wait for the GPU may take before it is reported as an error.
const PATIENCE: Duration = Duration::from_secs(900);

impl Gpu {
    /// Waits until the queue has nothing left to do.
    pub fn wait(&self) -> Result<(), String> {
        self.device
            .poll(wgpu::PollType::Wait {
                submission_index: None,
                timeout: Some(PATIENCE),
            })
            .map_err(|error| format!("{}: waiting for the GPU: {error}", self.core.name()))?;
        self.check()
    }

    /// Polls once without waiting.
    pub fn poll(&self) -> Result<(), String> {
        self.device
            .poll(wgpu::PollType::Poll)
            .map_err(|error| format!("{}: polling: {error}", self.core.name()))?;
        self.check()
    }

    /// Fails with the first error that the device has reported, if there was one.
    pub fn check(&self) -> Result<(), String> {
        let errors = self.errors.lock().unwrap_or_else(|e| e.into_inner());
        match errors.first() {
            None => Ok(()),
            Some(first) => Err(format!(
                "{} reported {} error(s), the first: {first}",
                self.core.name(),
                errors.len()
            )),
        }
    }

    /// An encoder without a label.
    pub fn encoder(&self) -> wgpu::CommandEncoder {
        self.device
            .create_command_encoder(&wgpu::CommandEncoderDescriptor::default())
    }

    /// A buffer of `size` bytes.
    pub fn buffer(&self, label: &str, size: u64, usage: wgpu::BufferUsages) -> wgpu::Buffer {
        self.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some(label),
            size,
            usage,
            mapped_at_creation: false,
        })
    }
}

/// Opens a device of `core`. Fails with a text when no adapter answers or the device is refused.
pub fn open(core: Core, below: Below) -> Result<Gpu, String> {
    let instance = core.instance(descriptor(below));
    let adapter = pollster::block_on(instance.request_adapter(&wgpu::RequestAdapterOptions {
        power_preference: wgpu::PowerPreference::HighPerformance,
        ..Default::default()
    }))
    .map_err(|error| format!("{}: no adapter: {error}", core.name()))?;
    let offered = adapter.limits();
    // The sizes that large pictures need, where the adapter has them; wgpu's defaults otherwise.
    let limits = wgpu::Limits {
        max_texture_dimension_2d: offered.max_texture_dimension_2d.min(16384),
        max_buffer_size: offered.max_buffer_size.min(1 << 31),
        max_storage_buffer_binding_size: offered.max_storage_buffer_binding_size.min(1 << 30),
        ..wgpu::Limits::default()
    };
    let (device, queue) = pollster::block_on(adapter.request_device(&wgpu::DeviceDescriptor {
        label: Some(core.name()),
        required_limits: limits,
        ..Default::default()
    }))
    .map_err(|error| format!("{}: no device: {error}", core.name()))?;

    let errors = Arc::new(Mutex::new(Vec::new()));
    let sink = errors.clone();
    device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
        sink.lock()
            .unwrap_or_else(|e| e.into_inner())
            .push(error.to_string());
    }));
    Ok(Gpu {
        core,
        below,
        info: adapter.get_info(),
        device,
        queue,
        errors,
    })
}

/// A device on each core; an error if the two do not sit on the same adapter.
pub fn open_both(below: Below) -> Result<[Gpu; 2], String> {
    let [a, b] = cores();
    let (a, b) = (open(a, below)?, open(b, below)?);
    if a.info.name != b.info.name || a.info.backend != b.info.backend {
        return Err(format!(
            "the two cores chose different adapters, so that no figure would mean anything: {} took {}, {} took {}",
            a.core.name(),
            describe(&a.info),
            b.core.name(),
            describe(&b.info)
        ));
    }
    Ok([a, b])
}

/// An adapter in one line.
pub fn describe(info: &wgpu::AdapterInfo) -> String {
    let mut line = format!("{}, {:?}", info.name, info.backend);
    for part in [&info.driver, &info.driver_info] {
        if !part.is_empty() {
            line.push_str(", ");
            line.push_str(part);
        }
    }
    line
}

/// Names the adapter that wgpu-core would use, and whether it is a software one.
pub fn probe() -> Result<(), String> {
    let gpu = open(Core::WgpuCore, Below::Gpu)?;
    println!("adapter: {}", describe(&gpu.info));
    println!("type: {:?}", gpu.info.device_type);
    Ok(())
}
