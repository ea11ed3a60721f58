//! Messages of the Khronos validation layer, as wgpu-hal hands them to the `log` crate.
//!
//! Invariant: every error and warning of the layer is kept until the test that caused it takes it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Once;

use parking_lot::Mutex;

use crate::harness::{core, Core};

/// Where wgpu-hal's debug messenger logs from.
const TARGET: &str = "wgpu_hal::vulkan::instance";

/// Messages that no core can cause or prevent: identifier, a part of the text, and why.
const NOT_OURS: &[(&str, &str)] = &[
    // The layer of 2023 is older than the number that SPIR-V gave to WGSL as a source language
    // (10, in the unified registry since); naga writes it into modules with debug information.
    (
        "UNASSIGNED-CoreValidation-Shader-InconsistentSpirv",
        "Invalid source language operand: 10",
    ),
    // wgpu-hal itself makes the device, and turns on descriptor indexing beside robustBufferAccess without
    // asking for robustBufferAccessUpdateAfterBind. Only where binding arrays are asked for.
    (
        "VUID-VkDeviceCreateInfo-robustBufferAccess-10247",
        "vkCreateDevice()",
    ),
];

struct Logger;

static LOGGER: Logger = Logger;
static KEPT: Mutex<Vec<String>> = Mutex::new(Vec::new());
static INSTALL: Once = Once::new();
static NO_LAYER: AtomicBool = AtomicBool::new(false);

impl log::Log for Logger {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &log::Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let text = record.args().to_string();
        if text.contains("VALIDATION requested, but unable to find layer") {
            NO_LAYER.store(true, Ordering::Relaxed);
        }
        if record.level() > log::Level::Warn {
            return;
        }
        if std::env::var_os("FENCEPOST_TEST_LOG").is_some() {
            eprintln!("{} {}: {text}", record.level(), record.target());
        }
        // GENERAL messages are the loader's, about layers and drivers that it did not find.
        let layer = text.starts_with("VALIDATION") || text.starts_with("PERFORMANCE");
        if record.target() != TARGET || !layer {
            return;
        }
        if NOT_OURS
            .iter()
            .any(|(id, part)| text.contains(id) && text.contains(part))
        {
            return;
        }
        // wgpu-core puts no barrier between two writes of a queue to one buffer.
        if text.contains("SYNC-HAZARD-WRITE-AFTER-WRITE") && core() == Core::Wgpu {
            return;
        }
        KEPT.lock().push(text);
    }

    fn flush(&self) {}
}

/// Starts to listen; again and again is fine. The first call makes an instance with `instance`, to
/// learn whether the layer is there: wgpu-hal says so at the level of debugging only.
pub fn listen(instance: impl FnOnce()) {
    INSTALL.call_once(|| {
        log::set_logger(&LOGGER).expect("the test binary installs the only logger");
        log::set_max_level(log::LevelFilter::Debug);
        instance();
        log::set_max_level(log::LevelFilter::Warn);
    });
}

/// Takes what has been said since the last call.
pub fn take() -> Vec<String> {
    std::mem::take(&mut *KEPT.lock())
}

/// Whether an instance asked for the layer and did not get it.
pub fn no_layer() -> bool {
    NO_LAYER.load(Ordering::Relaxed)
}
