//! How much GPU memory is allocated: one quantity, read in the same way on both cores.
//!
//! On a GPU this is the sum of wgpu-hal's counters for buffer and texture memory, which
//! `Device::get_internal_counters` passes on; reading it frees nothing and waits for nothing. The
//! no-op back end keeps no such counters but puts each buffer into host memory, so there the
//! resident size of this process is read instead.

use crate::cores::{Below, Gpu};

/// Bytes allocated now, or `None` where this platform does not tell.
pub fn allocated(gpu: &Gpu) -> Option<u64> {
    match gpu.below {
        Below::Gpu => {
            let hal = gpu.device.get_internal_counters().hal;
            let bytes = hal.buffer_memory.read() + hal.texture_memory.read();
            Some(u64::try_from(bytes).unwrap_or(0))
        }
        Below::Noop => resident(),
    }
}

/// The resident size of this process, from Linux's /proc.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// What was allocated at the moments that matter, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moments {
    /// With the device and nothing else.
    pub before: Option<u64>,
    /// The most that was seen.
    pub peak: Option<u64>,
    /// Right after everything was dropped.
    pub dropped: Option<u64>,
    /// Two seconds later, with no call into the API.
    pub idle: Option<u64>,
    /// After one `poll`.
    pub polled: Option<u64>,
}

impl Moments {
    /// Looks now, and keeps the value if it is the highest so far.
    pub fn look(&mut self, gpu: &Gpu) {
        self.peak = self.peak.max(allocated(gpu));
    }

    /// Call with everything dropped: fills in the last three moments. Takes two seconds.
    pub fn finish(&mut self, gpu: &Gpu) -> Result<(), String> {
        self.dropped = allocated(gpu);
        std::thread::sleep(std::time::Duration::from_secs(2));
        self.idle = allocated(gpu);
        gpu.poll()?;
        self.polled = allocated(gpu);
        Ok(())
    }

    /// The moments with their names, in order.
    pub fn rows(&self) -> [(&'static str, Option<u64>); 5] {
        [
            ("before", self.before),
            ("at peak", self.peak),
            ("right after everything was dropped", self.dropped),
            ("2 s later, nobody polled", self.idle),
            ("after a poll", self.polled),
        ]
    }
}
