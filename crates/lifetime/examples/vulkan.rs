//! Guards raw Vulkan buffers through `ash`.
//!
//! A device with a timeline semaphore (plain fences where there is none, or with `--plain-fences`), a
//! handful of buffers in [`Slot`]s, and work that a second semaphore, the gate, holds in flight until the
//! program lets it go. Buffers are destroyed idle, in flight and under a refused submission; a thread frees
//! them when the first semaphore passes. The program checks that each was freed when it should be, and
//! says so. Without timeline semaphores there is no gate, and the work may be done before it is looked at.
//!
//! ```text
//! cargo run -p fencepost-lifetime --example vulkan
//! VK_INSTANCE_LAYERS=VK_LAYER_KHRONOS_validation cargo run -p fencepost-lifetime --example vulkan
//! ```

use ash::{prelude::VkResult, vk};
use fencepost_lifetime::{Disposal, Retire, RetireQueue, Serial, Slot, Submitter};
use std::{
    collections::VecDeque,
    error::Error,
    sync::{
        atomic::{AtomicU64, Ordering},
        Arc, Mutex,
    },
    thread,
    time::{Duration, Instant},
};

const BYTES: u64 = 1 << 20;
const PATTERN: u32 = 0xFE9C_E905;

/// What the program holds. Dropping it is the same as destroying it.
struct Buffer<'d> {
    device: &'d Device,
    slot: BufferSlot,
}

impl Buffer<'_> {
    fn destroy(&self) {
        self.slot.destroy(self.device);
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        self.destroy();
    }
}

/// The payload: what has to be freed, and only when the GPU is done with it.
struct RawBuffer {
    name: &'static str,
    raw: vk::Buffer,
    memory: vk::DeviceMemory,
}

type BufferSlot = Arc<Slot<RawBuffer>>;

/// What the GPU signals with each submission.
enum Fence {
    /// One semaphore that counts serials.
    Timeline(vk::Semaphore),
    /// A fence per submission in flight, oldest first, and the last serial whose fence was signalled.
    Plain {
        in_flight: Mutex<VecDeque<(Serial, vk::Fence)>>,
        completed: AtomicU64,
    },
}

/// What the objects and the reclaim thread share.
struct Device {
    raw: ash::Device,
    fence: Fence,
    retired: Arc<RetireQueue<BufferSlot>>,
    /// The command pools of the submissions in flight, oldest first.
    in_flight: Mutex<VecDeque<(Serial, vk::CommandPool)>>,
    /// A timeline semaphore that every submission waits for to reach 1.
    gate: Option<vk::Semaphore>,
    memory_types: Vec<vk::MemoryType>,
    /// Bytes of buffers that are not freed.
    allocated: AtomicU64,
    start: Instant,
}

/// What only submitting needs. A program keeps it under a lock.
struct Queue {
    raw: vk::Queue,
    family: u32,
    submitter: Submitter<BufferSlot>,
}

impl Device {
    fn say(&self, what: std::fmt::Arguments) {
        let kib = self.allocated.load(Ordering::Relaxed) >> 10;
        println!(
            "{:4} ms {kib:6} KiB  {what}",
            self.start.elapsed().as_millis()
        );
    }

    fn create_buffer(&self, name: &'static str) -> Result<Buffer<'_>, Box<dyn Error>> {
        let info = vk::BufferCreateInfo::default()
            .size(BYTES)
            .usage(vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::TRANSFER_DST);
        let host = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
        // SAFETY: ordinary creation; the memory type is one that the buffer allows. The memory is bound
        // once, to an offset of zero.
        let (raw, memory) = unsafe {
            let raw = self.raw.create_buffer(&info, None)?;
            let needs = self.raw.get_buffer_memory_requirements(raw);
            let memory_type = (0..)
                .zip(&self.memory_types)
                .find(|(index, kind)| {
                    needs.memory_type_bits & (1_u32 << index) != 0
                        && kind.property_flags.contains(host)
                })
                .ok_or("Vulkan promises such a memory type")?
                .0;
            let allocate = vk::MemoryAllocateInfo::default()
                .allocation_size(needs.size)
                .memory_type_index(memory_type);
            let memory = self.raw.allocate_memory(&allocate, None)?;
            self.raw.bind_buffer_memory(raw, memory, 0)?;
            (raw, memory)
        };
        self.allocated.fetch_add(BYTES, Ordering::Relaxed);
        Ok(Buffer {
            device: self,
            slot: Arc::new(Slot::new(RawBuffer { name, raw, memory })),
        })
    }

    fn free(&self, slot: BufferSlot) {
        // SAFETY: only what the retire queue has handed back comes here.
        let buffer = unsafe { slot.take() };
        // SAFETY: so the GPU has no more use for it, and no command buffer refers to it.
        unsafe {
            self.raw.destroy_buffer(buffer.raw, None);
            self.raw.free_memory(buffer.memory, None);
        }
        self.allocated.fetch_sub(BYTES, Ordering::Relaxed);
        self.say(format_args!("    freed: {}", buffer.name));
    }

    /// Ends the command buffers of the submissions up to `up_to`, which have completed.
    fn reset(&self, up_to: Serial) {
        let mut in_flight = self.in_flight.lock().unwrap();
        while let Some(&(serial, pool)) = in_flight.front() {
            if serial > up_to {
                break;
            }
            in_flight.pop_front();
            // SAFETY: the GPU has completed the one command buffer of the pool.
            unsafe { self.raw.destroy_command_pool(pool, None) };
        }
    }

    /// Reads the fence and frees what it has passed.
    fn reclaim(&self) -> VkResult<()> {
        let completed = self.completed()?;
        for slot in self.retired.advance(completed, |up_to| self.reset(up_to)) {
            self.free(slot);
        }
        Ok(())
    }

    fn completed(&self) -> VkResult<Serial> {
        match &self.fence {
            Fence::Timeline(semaphore) => {
                // SAFETY: the semaphore is a timeline semaphore of this device.
                let value = unsafe { self.raw.get_semaphore_counter_value(*semaphore) }?;
                Ok(Serial::new(value))
            }
            Fence::Plain {
                in_flight,
                completed,
            } => {
                let mut in_flight = in_flight.lock().unwrap();
                while let Some(&(serial, fence)) = in_flight.front() {
                    // SAFETY: a fence in the list exists, and is destroyed only under the lock.
                    unsafe {
                        if !self.raw.get_fence_status(fence)? {
                            break;
                        }
                        self.raw.destroy_fence(fence, None);
                    }
                    in_flight.pop_front();
                    completed.store(serial.get(), Ordering::Release);
                }
                Ok(Serial::new(completed.load(Ordering::Acquire)))
            }
        }
    }

    /// Waits until the fence has reached `serial`, or not much longer than `timeout`.
    fn wait(&self, serial: Serial, timeout: Duration) -> VkResult<()> {
        if serial <= self.retired.reclaimed() {
            return Ok(());
        }
        let nanoseconds = timeout.as_nanos() as u64;
        let waited = match &self.fence {
            Fence::Timeline(semaphore) => {
                let (semaphores, values) = ([*semaphore], [serial.get()]);
                let info = vk::SemaphoreWaitInfo::default()
                    .semaphores(&semaphores)
                    .values(&values);
                // SAFETY: the semaphore is a timeline semaphore of this device.
                unsafe { self.raw.wait_semaphores(&info, nanoseconds) }
            }
            Fence::Plain { in_flight, .. } => {
                // The lock keeps the fence alive. A real program would rather count its waiters.
                let in_flight = in_flight.lock().unwrap();
                match in_flight.iter().find(|&&(value, _)| value == serial) {
                    // SAFETY: as above.
                    Some(&(_, fence)) => unsafe {
                        self.raw.wait_for_fences(&[fence], true, nanoseconds)
                    },
                    None => Ok(()),
                }
            }
        };
        match waited {
            Err(vk::Result::TIMEOUT) => Ok(()),
            other => other,
        }
    }

    /// What the reclaim thread does.
    fn reclaim_until_shut(&self) -> VkResult<()> {
        while let Some(serial) = self.retired.next() {
            self.wait(serial, Duration::from_millis(20))?;
            self.reclaim()?;
        }
        Ok(())
    }

    /// # Safety
    ///
    /// All handles are of this device, the buffers outlive the submission with this serial, and nobody
    /// else uses the queue.
    unsafe fn record_and_submit(
        &self,
        queue: vk::Queue,
        serial: Serial,
        pool: vk::CommandPool,
        source: vk::Buffer,
        target: vk::Buffer,
    ) -> VkResult<()> {
        use vk::{AccessFlags as Access, PipelineStageFlags as Stage};
        let barrier = |before, after| {
            [vk::MemoryBarrier::default()
                .src_access_mask(before)
                .dst_access_mask(after)]
        };
        let written = barrier(Access::TRANSFER_WRITE, Access::TRANSFER_READ);
        let readable = barrier(Access::TRANSFER_WRITE, Access::HOST_READ);
        let flags = vk::DependencyFlags::empty();
        let copy = [vk::BufferCopy::default().size(BYTES)];
        let raw = &self.raw;
        // SAFETY: the caller's promise; barriers stand between the writes and the reads.
        unsafe {
            let info = vk::CommandBufferAllocateInfo::default()
                .command_pool(pool)
                .command_buffer_count(1);
            let commands = raw.allocate_command_buffers(&info)?;
            let cmd = commands[0];
            let once = vk::CommandBufferBeginInfo::default()
                .flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
            raw.begin_command_buffer(cmd, &once)?;
            raw.cmd_fill_buffer(cmd, source, 0, BYTES, PATTERN);
            raw.cmd_pipeline_barrier(
                cmd,
                Stage::TRANSFER,
                Stage::TRANSFER,
                flags,
                &written,
                &[],
                &[],
            );
            raw.cmd_copy_buffer(cmd, source, target, &copy);
            raw.cmd_pipeline_barrier(
                cmd,
                Stage::TRANSFER,
                Stage::HOST,
                flags,
                &readable,
                &[],
                &[],
            );
            raw.end_command_buffer(cmd)?;

            // Semaphores that the work waits for, and those that it signals, with their values.
            let gate: Vec<_> = self.gate.into_iter().collect();
            let (timeline, fence) = match &self.fence {
                Fence::Timeline(semaphore) => (vec![*semaphore], vk::Fence::null()),
                Fence::Plain { .. } => {
                    let fence = raw.create_fence(&vk::FenceCreateInfo::default(), None)?;
                    (Vec::new(), fence)
                }
            };
            let (open, serials) = ([1], [serial.get()]);
            let mut values = vk::TimelineSemaphoreSubmitInfo::default()
                .wait_semaphore_values(&open[..gate.len()])
                .signal_semaphore_values(&serials[..timeline.len()]);
            let mut submit = vk::SubmitInfo::default()
                .command_buffers(&commands)
                .wait_semaphores(&gate)
                .wait_dst_stage_mask(&[Stage::TRANSFER][..gate.len()])
                .signal_semaphores(&timeline);
            if !(gate.is_empty() && timeline.is_empty()) {
                submit = submit.push_next(&mut values);
            }
            let submitted = raw.queue_submit(queue, &[submit], fence);
            if let Fence::Plain { in_flight, .. } = &self.fence {
                match submitted {
                    Ok(()) => in_flight.lock().unwrap().push_back((serial, fence)),
                    Err(_) => raw.destroy_fence(fence, None),
                }
            }
            submitted
        }
    }

    /// Lets the submissions go that wait for the gate, and those to come.
    fn open_gate(&self) -> VkResult<()> {
        let Some(gate) = self.gate else { return Ok(()) };
        // SAFETY: the semaphore is a timeline semaphore of this device, which nothing else signals; its
        // value only rises.
        unsafe {
            if self.raw.get_semaphore_counter_value(gate)? == 0 {
                let info = vk::SemaphoreSignalInfo::default().semaphore(gate).value(1);
                self.raw.signal_semaphore(&info)?;
            }
        }
        Ok(())
    }
}

impl Retire<RawBuffer> for Device {
    fn retire(&self, slot: BufferSlot) {
        match self.retired.retire(slot.last_use(), slot.clone()) {
            Disposal::Free(slot) => self.free(slot),
            Disposal::Retired => self.say(format_args!("    it waits for the GPU")),
        }
    }
}

impl Queue {
    /// Fills `source` and copies it to `target`, once the gate is open. `Ok(None)` if one of the buffers
    /// was destroyed.
    fn fill_and_copy(
        &mut self,
        device: &Device,
        source: &Buffer,
        target: &Buffer,
    ) -> VkResult<Option<Serial>> {
        // The guard comes first, so that it is dropped last: after every command buffer that refers to
        // what it holds.
        let (source, target) = (&source.slot, &target.slot);
        let mut submission = self.submitter.begin();
        let serial = submission.serial();
        submission.stamp(source.last_use());
        submission.stamp(target.last_use());
        submission.seal();
        if !source.is_present() || !target.is_present() {
            device.say(format_args!(
                "submission {serial} refused: it uses something destroyed"
            ));
            return Ok(None);
        }
        // SAFETY: stamped, sealed and found present.
        let (source, target) = unsafe { (source.get().raw, target.get().raw) };

        // SAFETY: all handles are of this device, the buffers live until the submission has completed,
        // and barriers stand between the writes and the reads. After a failure nothing is pending, and
        // destroying the pool ends the command buffer.
        unsafe {
            let info = vk::CommandPoolCreateInfo::default().queue_family_index(self.family);
            let pool = device.raw.create_command_pool(&info, None)?;
            let submitted = device.record_and_submit(self.raw, serial, pool, source, target);
            if let Err(error) = submitted {
                device.raw.destroy_command_pool(pool, None);
                return Err(error);
            }
            device.in_flight.lock().unwrap().push_back((serial, pool));
        }
        submission.commit();
        device.say(format_args!("submission {serial} is in flight"));
        Ok(Some(serial))
    }
}

/// Whether every word of the buffer has the pattern. The GPU must have completed what wrote it.
fn has_pattern(device: &Device, buffer: &Buffer) -> VkResult<bool> {
    let Some(buffer) = buffer.slot.pin(device) else {
        return Ok(false);
    };
    // SAFETY: the pin keeps the buffer; its memory is coherent, mapped by nobody else, and as long as
    // the slice; the submission that wrote it has completed.
    unsafe {
        let flags = vk::MemoryMapFlags::empty();
        let address = device.raw.map_memory(buffer.memory, 0, BYTES, flags)?;
        let words = std::slice::from_raw_parts(address.cast::<u32>(), BYTES as usize / 4);
        let equal = words.iter().all(|&word| word == PATTERN);
        device.raw.unmap_memory(buffer.memory);
        Ok(equal)
    }
}

fn expect(holds: bool, what: &str) -> Result<(), String> {
    match holds {
        true => Ok(()),
        false => Err(format!("this does not hold: {what}")),
    }
}

/// The lives of a few buffers.
fn lives(device: &Device, queue: &mut Queue) -> Result<(), Box<dyn Error>> {
    let allocated = || device.allocated.load(Ordering::Relaxed) / BYTES;

    let idle = device.create_buffer("idle")?;
    device.say(format_args!("destroy idle"));
    idle.destroy();
    expect(allocated() == 0, "an idle buffer is freed on the spot")?;

    let source = device.create_buffer("source")?;
    let target = device.create_buffer("target")?;
    let first = queue
        .fill_and_copy(device, &source, &target)?
        .ok_or("nothing was destroyed yet")?;
    device.say(format_args!("destroy source"));
    source.destroy();
    device.reclaim()?;
    let gated = device.gate.is_some();
    expect(allocated() == 2 || !gated, "a buffer in flight stays")?;

    // While the first submission is in flight, a second is refused. Its buffer does not wait for
    // anything, and the one that is in flight waits no longer than before.
    let other = device.create_buffer("other")?;
    let refused = queue.fill_and_copy(device, &source, &other)?;
    expect(refused.is_none(), "what uses a destroyed buffer is refused")?;
    device.say(format_args!("destroy other"));
    other.destroy();
    expect(
        allocated() == 2 || !gated,
        "a refused submission delays nothing",
    )?;

    device.say(format_args!("the gate lets submission {first} go"));
    device.open_gate()?;
    // Nobody calls into the engine now. The reclaim thread does it all.
    let deadline = Instant::now() + Duration::from_secs(10);
    while allocated() > 1 && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(1));
    }
    expect(allocated() == 1, "the source is freed when the GPU is done")?;
    expect(
        has_pattern(device, &target)?,
        "the GPU read what was destroyed under it",
    )?;
    device.say(format_args!("the copy of the destroyed source is right"));

    // In flight at the end of the device. Dropping is as good as destroying.
    let last = device.create_buffer("last")?;
    queue.fill_and_copy(device, &target, &last)?;
    device.say(format_args!("drop everything"));
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    // SAFETY: loads the system's Vulkan library, whose initialisers are trusted.
    let entry = match unsafe { ash::Entry::load() } {
        Ok(entry) => entry,
        Err(error) => {
            println!("There is no Vulkan loader here, so there is nothing to show: {error}");
            return Ok(());
        }
    };
    let app = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_2);
    let info = vk::InstanceCreateInfo::default().application_info(&app);
    // SAFETY: the description is complete, and the instance is destroyed before the entry.
    let instance = match unsafe { entry.create_instance(&info, None) } {
        Ok(instance) => instance,
        Err(error) => {
            println!("No Vulkan driver answers, so there is nothing to show: {error}");
            return Ok(());
        }
    };
    let result = with_instance(&instance);
    // SAFETY: `with_instance` has destroyed everything that it made, or has failed on the way.
    unsafe { instance.destroy_instance(None) };
    result
}

fn with_instance(instance: &ash::Instance) -> Result<(), Box<dyn Error>> {
    // SAFETY: the instance lives.
    let Some(&physical) = unsafe { instance.enumerate_physical_devices() }?.first() else {
        println!("No Vulkan device answers, so there is nothing to show.");
        return Ok(());
    };
    // SAFETY: the physical device is one of the instance.
    let (properties, families, memory) = unsafe {
        (
            instance.get_physical_device_properties(physical),
            instance.get_physical_device_queue_family_properties(physical),
            instance.get_physical_device_memory_properties(physical),
        )
    };
    let works = vk::QueueFlags::GRAPHICS | vk::QueueFlags::COMPUTE;
    let family = families
        .iter()
        .position(|family| family.queue_flags.intersects(works))
        .ok_or("Vulkan promises a queue that works")? as u32;

    let mut timeline = vk::PhysicalDeviceTimelineSemaphoreFeatures::default();
    if properties.api_version >= vk::API_VERSION_1_2 {
        let mut features = vk::PhysicalDeviceFeatures2::default().push_next(&mut timeline);
        // SAFETY: the device knows version 1.2, and so this call and this structure.
        unsafe { instance.get_physical_device_features2(physical, &mut features) };
    }
    let has_timeline = timeline.timeline_semaphore == vk::TRUE;
    let use_timeline = has_timeline && !std::env::args().any(|arg| arg == "--plain-fences");
    println!(
        "{} with {}",
        properties.device_name_as_c_str()?.to_string_lossy(),
        match use_timeline {
            true => "a timeline semaphore",
            false => "plain fences",
        }
    );

    let queues = [vk::DeviceQueueCreateInfo::default()
        .queue_family_index(family)
        .queue_priorities(&[1.0])];
    let mut info = vk::DeviceCreateInfo::default().queue_create_infos(&queues);
    let mut timeline =
        vk::PhysicalDeviceTimelineSemaphoreFeatures::default().timeline_semaphore(true);
    if has_timeline {
        info = info.push_next(&mut timeline);
    }
    // SAFETY: the queue family exists, and the feature is asked for only where it does.
    let raw = unsafe { instance.create_device(physical, &info, None) }?;
    let timeline_semaphore = || {
        let mut kind =
            vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
        let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        // SAFETY: called only where the feature is on.
        unsafe { raw.create_semaphore(&info, None) }
    };
    let fence = match use_timeline {
        true => Fence::Timeline(timeline_semaphore()?),
        false => Fence::Plain {
            in_flight: Mutex::default(),
            completed: AtomicU64::new(0),
        },
    };
    let gate = has_timeline.then(timeline_semaphore).transpose()?;
    let (retired, submitter) = RetireQueue::new();
    // SAFETY: the device was made with this queue.
    let queue = unsafe { raw.get_device_queue(family, 0) };
    let mut queue = Queue {
        raw: queue,
        family,
        submitter,
    };
    let device = Device {
        raw,
        fence,
        retired,
        in_flight: Mutex::default(),
        gate,
        memory_types: memory.memory_types[..memory.memory_type_count as usize].to_vec(),
        allocated: AtomicU64::new(0),
        start: Instant::now(),
    };
    // The reclaim thread borrows the lower half of the device and ends before it.
    let result = thread::scope(|scope| {
        let reclaim = scope.spawn(|| device.reclaim_until_shut());
        let result = lives(&device, &mut queue);
        device.retired.shut();
        reclaim.join().expect("the reclaim thread does not panic")?;
        result
    });

    // The end of the device: wait for the GPU, and everything comes back.
    device.open_gate()?; // an error may have come before the program did it
                         // SAFETY: nobody else uses the device any more.
    unsafe { device.raw.device_wait_idle() }?;
    device.reclaim()?;
    assert!(device.retired.is_empty());
    assert_eq!(device.allocated.load(Ordering::Relaxed), 0);
    // SAFETY: the GPU is idle, and what was made is destroyed once.
    unsafe {
        let semaphores = match device.fence {
            Fence::Timeline(semaphore) => [Some(semaphore), device.gate],
            Fence::Plain { .. } => [None, device.gate],
        };
        for semaphore in semaphores.into_iter().flatten() {
            device.raw.destroy_semaphore(semaphore, None);
        }
        device.raw.destroy_device(None);
    }
    result
}
