//! The first two steps of a submission: stamp everything that it uses, then look whether it is there.

use super::pending_writes::Held;
use crate::{
    error::{invalid, Result},
    reclaim::Payload,
    record::Recording,
    resource::{BindGroup, Buffer, QuerySet, Texture},
};
use fencepost_lifetime::{mutation::planted, Slot, Submission};
use std::sync::Arc;

use crate::record::CommandBuffer;

type Open<'q, 'r> = Submission<'q, 'r, Payload>;

fn stamp<'r, T>(submission: &mut Open<'_, 'r>, slot: Option<&'r Arc<Slot<T>>>) {
    if let Some(slot) = slot {
        submission.stamp(slot.last_use());
    }
}

/// Stamps everything that a recording can make the HAL refer to.
pub(super) fn stamp_recording<'r>(submission: &mut Open<'_, 'r>, recording: &'r Recording) {
    for buffer in recording.buffers.iter() {
        stamp(submission, buffer.body.slot());
    }
    for texture in recording.textures.iter() {
        stamp(submission, texture.body.slot());
    }
    for group in recording.bind_groups.iter() {
        if planted("bind groups without a stamp") {
            break;
        }
        stamp(submission, group.body.slot());
        for member in &group.buffers {
            stamp(submission, member.buffer.body.slot());
        }
        for member in &group.views {
            stamp(submission, member.view.body.slot());
            stamp(submission, member.view.texture.body.slot());
        }
        for sampler in &group.samplers {
            stamp(submission, sampler.body.slot());
        }
    }
    for pipeline in recording.pipelines.iter() {
        stamp(submission, pipeline.body.slot());
        stamp(submission, pipeline.layout.body.slot());
    }
    for set in recording.query_sets.iter() {
        stamp(submission, set.body.slot());
    }
}

/// Stamps what a waiting write uses.
pub(super) fn stamp_write<'r>(submission: &mut Open<'_, 'r>, write: &'r Held) {
    if !planted("staging memory without a stamp") {
        submission.stamp(write.source().last_use());
    }
    match write {
        Held::Buffer { target, .. } => stamp(submission, target.body.slot()),
        Held::Texture { target, .. } => stamp(submission, target.body.slot()),
    }
}

/// Checks, after the seal, that everything in a command buffer is there and not mapped.
pub(super) fn check_recording(commands: &CommandBuffer, recording: &Recording) -> Result<()> {
    recording.buffers.iter().try_for_each(|b| check_buffer(b))?;
    recording
        .textures
        .iter()
        .try_for_each(|t| check_texture(t))?;
    recording
        .bind_groups
        .iter()
        .try_for_each(|g| check_group(g))?;
    recording.query_sets.iter().try_for_each(|s| check_set(s))?;
    let pipelines = recording.pipelines.iter();
    for pipeline in pipelines {
        if !pipeline.body.is_present() || !pipeline.layout.body.is_present() {
            return Err(invalid!("{} is gone with its device", pipeline.name()));
        }
    }
    debug_assert!(commands.recording.is_some());
    Ok(())
}

fn check_buffer(buffer: &Buffer) -> Result<()> {
    if !buffer.body.is_present() && !planted("a submission that does not check") {
        return Err(invalid!("{} is destroyed", buffer.name()));
    }
    if !buffer.available.load(std::sync::atomic::Ordering::Acquire) {
        return Err(invalid!(
            "{} is mapped, or waits to be mapped",
            buffer.name()
        ));
    }
    Ok(())
}

fn check_texture(texture: &Texture) -> Result<()> {
    if texture.body.is_present() {
        Ok(())
    } else {
        Err(invalid!("{} is destroyed", texture.name()))
    }
}

fn check_set(set: &QuerySet) -> Result<()> {
    if set.body.is_present() {
        Ok(())
    } else {
        Err(invalid!("{} is destroyed", set.name()))
    }
}

fn check_group(group: &BindGroup) -> Result<()> {
    let members = || {
        for member in &group.buffers {
            check_buffer(&member.buffer)?;
        }
        for member in &group.views {
            check_texture(&member.view.texture)?;
        }
        Ok(())
    };
    members().map_err(|error: crate::Error| error.within(group.name()))?;
    // Something in it was destroyed before it was made.
    if !group.body.is_present() {
        return Err(invalid!("{} was made of something destroyed", group.name()));
    }
    Ok(())
}
