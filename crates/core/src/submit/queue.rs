//! The queue of a device (specification, section 19.2 "GPUQueue").

use super::{
    check,
    encoding::Encoding,
    indirect::IndirectChecks,
    pending_writes::{Held, PendingWrites, Target},
    replay::{Replay, Replayed},
};
use crate::{
    device::{Device, WorkDoneCallback},
    error::{invalid, Error, Named, Result},
    reclaim::{Lower, Payload},
    record::{CommandBuffer, Recording, TexelCopyTextureInfo},
    resource::{Buffer, StagingBuffer, Texture},
    validate::{
        buffer::check_copy_range,
        copy::{self, End, LinearPart},
    },
};
use fencepost_lifetime::{mutation::planted, Serial, Submitter};
use smallvec::SmallVec;
use std::{
    collections::VecDeque,
    sync::{
        atomic::{fence, AtomicU32, Ordering},
        Arc,
    },
};
use wgpu_types as wgt;

/// The most commands of a submission whose encoder is used again: a pool keeps the memory of the largest
/// submission that it ever held, and beside this many commands a new pool costs little.
const MOST_POOLED: usize = 4096;

/// What the queue's lock guards.
#[derive(Debug)]
pub(crate) struct QueueState {
    submitter: Submitter<Payload>,
    pub(crate) pending: PendingWrites,
    /// Whether the device's zeros are zeros yet.
    zeros_ready: bool,
    indirect: IndirectChecks,
    /// The staging memory of submissions, in bytes, the oldest first.
    staged: VecDeque<(Serial, u64)>,
}

impl QueueState {
    pub fn new(submitter: Submitter<Payload>) -> Self {
        Self {
            submitter,
            pending: PendingWrites::default(),
            zeros_ready: false,
            indirect: IndirectChecks::default(),
            staged: VecDeque::new(),
        }
    }

    /// Lets go of what the queue itself holds.
    pub fn end(&mut self, lower: &Lower) {
        self.pending.clear(lower);
        self.indirect.destroy(lower);
    }
}

/// The queue of a [`Device`], and a handle of that device. It may outlive every other one.
#[derive(Clone, Debug)]
pub struct Queue(Arc<Device>);

impl Queue {
    /// The queue of a device.
    pub fn new(device: &Arc<Device>) -> Self {
        Self(Arc::clone(device))
    }

    /// The device.
    pub fn device(&self) -> &Arc<Device> {
        &self.0
    }

    /// Submits command buffers, in order (specification, `submit`): all of them or, if one breaks a rule,
    /// none; each can be submitted once. Returns the number of the last submission that was accepted.
    ///
    /// Takes a reclaim step and runs the callbacks that are ready.
    pub fn submit(&self, commands: impl IntoIterator<Item = CommandBuffer>) -> u64 {
        // The iterator is the program's code.
        let commands: Vec<CommandBuffer> = commands.into_iter().collect();
        let device = &*self.0;
        device.lower.reclaim();
        let submitted = device.submit(&commands);
        // So are the drops of what the tables held last.
        drop(commands);
        device.report_if_err("Queue::submit", submitted);
        device.lower.reclaim();
        device.fire();
        device.lower.retired.published().get()
    }

    /// Calls `callback` once everything that was submitted so far has completed.
    pub fn on_submitted_work_done(&self, callback: WorkDoneCallback) {
        self.0.on_submitted_work_done(callback);
    }

    /// The nanoseconds of one tick of a timestamp query.
    pub fn get_timestamp_period(&self) -> f32 {
        // SAFETY: the queue belongs to the device.
        unsafe { self.0.lower.queue.get_timestamp_period() }
    }

    /// Writes bytes to a buffer before the next submission (specification, `writeBuffer`).
    pub fn write_buffer(&self, buffer: &Arc<Buffer>, offset: u64, data: &[u8]) {
        let write = || -> Result<()> {
            self.check_write(buffer, offset, data.len() as u64)?;
            if data.is_empty() {
                return Ok(());
            }
            let mut staging = StagingBuffer::new(&self.0, data.len() as u64)
                .map_err(|error| error.within(buffer.name()))?;
            staging.write(data);
            let admit = || check_available(buffer);
            self.0.write_staged(buffer, offset, staging, admit)
        };
        self.0.report_if_err("Queue::write_buffer", write());
    }

    /// Checks a write to a buffer before the program fills staging memory for it. False if it was
    /// reported as an error.
    pub fn validate_write_buffer(&self, buffer: &Arc<Buffer>, offset: u64, size: u64) -> bool {
        let checked = self.check_write(buffer, offset, size);
        self.0
            .report_if_err("Queue::write_buffer_with", checked)
            .is_some()
    }

    /// Makes staging memory for the program to fill, zeroed, since the program may leave gaps. `None` if
    /// that was reported as an error.
    pub fn create_staging_buffer(&self, size: u64) -> Option<StagingBuffer> {
        let staging = StagingBuffer::new(&self.0, size).inspect(|staging| {
            // SAFETY: nobody else has seen the memory yet.
            unsafe { staging.memory().zero(0, staging.size()) };
        });
        self.0.report_if_err("Queue::write_buffer_with", staging)
    }

    /// Writes staging memory that the program has filled to a buffer before the next submission.
    pub fn write_staging_buffer(&self, buffer: &Arc<Buffer>, offset: u64, staging: StagingBuffer) {
        let write = || -> Result<()> {
            self.check_write(buffer, offset, staging.size() as u64)?;
            self.0.check_same(
                staging.device(),
                &Named {
                    kind: "staging memory",
                    label: "",
                },
            )?;
            let admit = || check_available(buffer);
            self.0.write_staged(buffer, offset, staging, admit)
        };
        let written = write();
        self.0.report_if_err("Queue::write_buffer_with", written);
    }

    fn check_write(&self, buffer: &Buffer, offset: u64, size: u64) -> Result<()> {
        let device = &*self.0;
        device.check_alive()?;
        let name = buffer.name();
        device.check_same(&buffer.device, &name)?;
        if !buffer.body.is_valid() {
            return Err(invalid!("{name} is invalid"));
        }
        if !buffer.usage.contains(wgt::BufferUsages::COPY_DST) {
            return Err(invalid!(
                "{name}: writing needs the usage COPY_DST, but the buffer has {:?}",
                buffer.usage
            ));
        }
        check_copy_range(&name, "write", offset, size, buffer.size)?;
        if !buffer.body.is_present() {
            return Err(invalid!("{name} is destroyed"));
        }
        check_available(buffer)
    }

    /// Writes texels to a texture before the next submission (specification, `writeTexture`).
    pub fn write_texture(
        &self,
        destination: TexelCopyTextureInfo<'_>,
        data: &[u8],
        layout: wgt::TexelCopyBufferLayout,
        size: wgt::Extent3d,
    ) {
        let written = self.try_write_texture(destination, data, layout, size);
        self.0.report_if_err("Queue::write_texture", written);
    }

    fn try_write_texture(
        &self,
        destination: TexelCopyTextureInfo<'_>,
        data: &[u8],
        layout: wgt::TexelCopyBufferLayout,
        size: wgt::Extent3d,
    ) -> Result<()> {
        let device = &self.0;
        device.check_alive()?;
        let texture = destination.texture;
        let name = texture.name();
        device.check_same(&texture.device, &name)?;
        texture.check_valid()?;
        let (part, linear) = copy::write(
            &texture.copy_end(
                End::Destination,
                destination.mip_level,
                destination.origin,
                destination.aspect,
            ),
            &layout,
            data.len() as u64,
            &size,
            device.adapter.downlevel().flags,
        )?;
        if !texture.body.is_present() {
            return Err(invalid!("{name} is destroyed"));
        }
        if part.is_empty() {
            return Ok(());
        }
        let images = u64::from(part.layer_count()) * u64::from(part.extent.depth);
        let pitch = device
            .adapter
            .capabilities
            .alignments
            .buffer_copy_pitch
            .get();
        let (staging, staged) =
            stage(device, data, &linear, images, pitch).map_err(|error| error.within(name))?;
        device.push_write(
            Target::Texture {
                texture: Arc::downgrade(texture),
                linear: staged,
                part,
            },
            staging,
            &texture.pending_writes,
            || Ok(()),
        )?;
        // The other half of the pair is in `destroy`, which marks the texture first.
        fence(Ordering::SeqCst);
        if !texture.body.is_present() {
            device.forget_writes_to_texture(texture);
        }
        device.flush_writes_if_many();
        Ok(())
    }
}

fn check_available(buffer: &Buffer) -> Result<()> {
    if buffer.available.load(Ordering::Acquire) {
        Ok(())
    } else {
        let name = buffer.name();
        Err(invalid!("{name} is mapped, or waits to be mapped"))
    }
}

/// Copies rows of texels to staging memory with the pitch that the HAL asks for.
fn stage(
    device: &Arc<Device>,
    data: &[u8],
    linear: &LinearPart,
    images: u64,
    pitch: u64,
) -> Result<(StagingBuffer, LinearPart)> {
    let stride = linear.row_bytes.next_multiple_of(pitch);
    let image = stride * linear.rows;
    let mut staging = StagingBuffer::new(device, image * images)?;
    let data = &data[linear.layout.offset as usize..];
    if linear.tight && stride == linear.row_bytes {
        staging.write(&data[..linear.bytes as usize]);
    } else {
        for index in 0..images {
            for row in 0..linear.rows {
                let from = (index * linear.image_stride + row * linear.row_stride) as usize;
                let to = index * image + row * stride;
                staging.write_at(to as usize, &data[from..from + linear.row_bytes as usize]);
            }
        }
    }
    let (bytes_per_row, rows) = (u32::try_from(stride), u32::try_from(linear.rows));
    let (Ok(bytes_per_row), Ok(rows)) = (bytes_per_row, rows) else {
        return Err(invalid!(
            "a row of {stride} bytes, or {} rows, is too much",
            linear.rows
        ));
    };
    let staged = LinearPart {
        layout: wgt::TexelCopyBufferLayout {
            offset: 0,
            bytes_per_row: Some(bytes_per_row),
            rows_per_image: Some(rows),
        },
        bytes: image * images,
        row_stride: stride,
        image_stride: image,
        tight: stride == linear.row_bytes,
        ..linear.clone()
    };
    Ok((staging, staged))
}

impl Device {
    /// The steps of a submission. See the [module documentation](super).
    fn submit(&self, commands: &[CommandBuffer]) -> Result<()> {
        let mut queue = self.queue.lock();
        let held = queue.pending.hold();
        let result = self.submit_locked(&mut queue, commands, &held);
        drop(queue);
        // The last handle of a target may be among these.
        drop(held);
        result
    }

    fn submit_locked(
        &self,
        queue: &mut QueueState,
        commands: &[CommandBuffer],
        held: &[Held],
    ) -> Result<()> {
        self.check_alive()?;
        for buffer in commands {
            let name = buffer.name();
            self.check_same(&buffer.device, &name)?;
            if buffer.recording.is_none() {
                return Err(invalid!("{name} is invalid"));
            }
        }
        let recordings = || {
            commands
                .iter()
                .filter_map(|buffer| Some((buffer, buffer.recording.as_deref()?)))
        };
        let QueueState {
            submitter,
            pending,
            zeros_ready,
            indirect,
            staged,
        } = queue;
        let mut submission = submitter.begin();
        let serial = submission.serial();
        for (_, recording) in recordings() {
            check::stamp_recording(&mut submission, recording);
        }
        for write in held {
            check::stamp_write(&mut submission, write);
        }
        submission.stamp(self.zeros.last_use());
        submission.seal();
        // A write whose target is gone goes with it; what is there now outlives this submission.
        let writes: Vec<&Held> = held.iter().filter(|write| write.is_present()).collect();
        for (buffer, recording) in recordings() {
            let checked = check::check_recording(buffer, recording);
            if checked.is_err() && planted("a refused submission that forgets the writes before it")
            {
                pending.clear(&self.lower);
            }
            checked.map_err(|error| error.within(buffer.name()))?;
        }

        // Nobody else lets go of these while the queue is locked, so they need no look after their stamp.
        for (_, recording) in recordings() {
            indirect.prepare(self, recording)?;
        }
        let indirect = &*indirect;
        if recordings().any(|(_, recording)| !recording.indirect.is_empty()) {
            indirect.stamp(&mut submission);
        }

        let is_empty = |recording: &Recording| recording.commands.is_empty();
        let nothing = held.is_empty() && recordings().all(|(_, recording)| is_empty(recording));
        let mut done = if nothing {
            Replayed::nothing(serial, *zeros_ready)
        } else {
            let label = commands.first().map_or("", |first| &first.label);
            let encoding = Encoding::begin(&self.lower, self.adapter.hal_label(label))?;
            let mut replay = Replay::new(self, &submission, encoding, *zeros_ready, indirect);
            let commands = recordings().map(|(_, recording)| recording.commands.len());
            if commands.sum::<usize>() > MOST_POOLED {
                replay.encoding.spend();
            }
            let late = planted("writes after the commands");
            if !late {
                writes.iter().try_for_each(|write| replay.write(write))?;
            }
            for (_, recording) in recordings() {
                replay.run(recording)?;
            }
            if late {
                writes.iter().try_for_each(|write| replay.write(write))?;
            }
            replay.finish(serial)?
        };

        self.lower.issued.store(serial.get(), Ordering::Release);
        let in_flight = done.in_flight.iter();
        let buffers: SmallVec<[_; 1]> = in_flight
            .flat_map(|in_flight| in_flight.commands.iter().map(|buffer| &**buffer))
            .collect();
        let signal = (self.lower.fence(), serial.get());
        // SAFETY: everything that the command buffer refers to was stamped and found present, so it
        // outlives the submission (I1, I5); the encoder is kept until the fence has passed.
        let submitted = unsafe { self.lower.queue.submit(&buffers, &[], signal) };
        drop(buffers);
        done.journal.keep();
        *zeros_ready = done.zeros_ready;
        if let Some(in_flight) = done.in_flight {
            self.lower.in_flight.lock().push_back(in_flight);
        }
        if let Err(error) = submitted.clone() {
            // The back end may have executed a part: nothing can be taken back. Whoever waits for this
            // submission must know before it is published.
            log::error!("submission {serial} failed: {error}");
            self.lower.give_up(error);
        }
        submission.commit();
        let bytes = pending.submitted(held, &self.lower);
        let reclaimed = self.lower.retired.reclaimed();
        while staged
            .front()
            .is_some_and(|(serial, _)| *serial <= reclaimed)
        {
            staged.pop_front();
        }
        if bytes > 0 {
            staged.push_back((serial, bytes));
        }
        submitted.map_err(|_| Error::device_lost())
    }

    /// Queues the copy from staging memory to a buffer, if `admit` agrees under the queue's lock. The
    /// caller has checked the range.
    pub(crate) fn write_staged(
        &self,
        buffer: &Arc<Buffer>,
        offset: u64,
        staging: StagingBuffer,
        admit: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let size = staging.size() as u64;
        let target = Target::Buffer {
            buffer: Arc::downgrade(buffer),
            offset,
            size,
        };
        self.push_write(target, staging, &buffer.pending_writes, admit)?;
        // The other half of the pair is in `destroy`, which marks the buffer first.
        fence(Ordering::SeqCst);
        if !buffer.body.is_present() {
            self.forget_writes_to_buffer(buffer);
        }
        self.flush_writes_if_many();
        Ok(())
    }

    fn push_write(
        &self,
        target: Target,
        staging: StagingBuffer,
        count: &AtomicU32,
        admit: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let bytes = staging.size() as u64;
        let mut queue = self.queue.lock();
        if let Err(error) = admit() {
            drop(queue);
            drop(staging);
            return Err(error);
        }
        queue.pending.push(target, staging.finish(), bytes, count);
        Ok(())
    }

    /// Forgets the writes to a buffer that is destroyed.
    pub(crate) fn forget_writes_to_buffer(&self, buffer: &Buffer) {
        let address = std::ptr::from_ref(buffer) as usize;
        let mut queue = self.queue.lock();
        queue
            .pending
            .forget(address, &buffer.pending_writes, &self.lower);
    }

    /// Forgets the writes to a texture that is destroyed.
    pub(crate) fn forget_writes_to_texture(&self, texture: &Texture) {
        if texture.pending_writes.load(Ordering::Acquire) == 0 {
            return;
        }
        let address = std::ptr::from_ref(texture) as usize;
        let mut queue = self.queue.lock();
        queue
            .pending
            .forget(address, &texture.pending_writes, &self.lower);
    }

    /// Submits the writes that wait. `Ok(false)` if there are none.
    pub(crate) fn flush_writes(&self) -> Result<bool> {
        let empty = self.queue.lock().pending.is_empty();
        if empty {
            return Ok(false);
        }
        let result = self.submit(&[]);
        self.lower.reclaim();
        result.map(|()| true)
    }

    /// Submits the writes that wait if they are many, and bounds the staging memory in flight. If that fails
    /// they wait on: it is not the fault of the write that came last.
    pub(crate) fn flush_writes_if_many(&self) {
        /// In bytes. Beyond it the program waits for the GPU.
        const MOST_IN_FLIGHT: u64 = 256 << 20;
        if !self.queue.lock().pending.are_many() {
            return;
        }
        if let Err(error) = self.flush_writes() {
            return log::warn!("the writes that wait could not be submitted: {error}");
        }
        loop {
            let oldest = {
                let mut queue = self.queue.lock();
                let reclaimed = self.lower.retired.reclaimed();
                queue.staged.retain(|(serial, _)| *serial > reclaimed);
                let bytes: u64 = queue.staged.iter().map(|(_, bytes)| bytes).sum();
                let oldest = queue.staged.front();
                oldest.filter(|_| bytes > MOST_IN_FLIGHT).copied()
            };
            let Some((serial, _)) = oldest else { return };
            if let Err(error) = self.lower.wait(serial, None) {
                return log::warn!("waiting for staging memory failed: {error}");
            }
            self.lower.reclaim();
            if self.lower.retired.reclaimed() < serial {
                return;
            }
        }
    }
}
