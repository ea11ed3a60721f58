//! Compute passes.
//!
//! Nothing can be cleared within a pass, so everything that its dispatches may read is made defined before
//! it begins. Within it, each dispatch has its own usage scope and its own barriers.

use super::replay::Replay;
use crate::{
    error::Result,
    record::{Command, Recording, Timestamps},
    resource::{BindGroup, ComputePipeline},
};
use std::{ops::Range, sync::Arc};
use wgpu_hal as hal;

/// What is set within a pass.
pub(super) struct PassState<'a> {
    recording: &'a Recording,
    pipeline: Option<&'a ComputePipeline>,
    bound: [Option<(&'a BindGroup, &'a Range<u32>)>; hal::MAX_BIND_GROUPS],
    /// The groups that the HAL does not have yet, a bit for each.
    stale: u8,
    immediates: Vec<u32>,
    immediates_stale: bool,
}

impl<'a> PassState<'a> {
    fn new(recording: &'a Recording) -> Self {
        Self {
            recording,
            pipeline: None,
            bound: [None; hal::MAX_BIND_GROUPS],
            stale: 0,
            immediates: Vec::new(),
            immediates_stale: false,
        }
    }

    /// Everything must be set again: another pipeline was in between.
    pub fn invalidate(&mut self) {
        self.stale = u8::MAX;
        self.immediates_stale = true;
    }

    pub fn pipeline(&self) -> &'a ComputePipeline {
        self.pipeline
            .expect("a dispatch was recorded with a pipeline")
    }
}

impl<'a> Replay<'a, '_> {
    /// Replays the pass whose commands begin at `start`, and returns how many there were.
    pub fn compute_pass(
        &mut self,
        recording: &'a Recording,
        label: &Range<u32>,
        timestamps: Option<&'a Timestamps>,
        start: usize,
    ) -> Result<usize> {
        let commands = &recording.commands[start..];
        let end = commands
            .iter()
            .position(|command| matches!(command, Command::EndComputePass));
        let len = end.expect("a pass of a finished recording has an end");
        let commands = &commands[..len];
        for command in commands {
            self.define_for(recording, command)?;
        }
        let timestamp_writes = timestamps.map(|writes| {
            let set = recording.query_sets.get(writes.set);
            let raw = Self::raw_set(set);
            for index in [writes.begin, writes.end].into_iter().flatten() {
                self.journal.write_query(set, index);
                // SAFETY: the query is within the set, and no pass is open.
                unsafe { self.encoder().reset_queries(raw, index..index + 1) };
            }
            hal::PassTimestampWrites {
                query_set: raw,
                beginning_of_pass_write_index: writes.begin,
                end_of_pass_write_index: writes.end,
            }
        });
        let desc = hal::ComputePassDescriptor {
            label: self.device.adapter.hal_label(recording.text(label)),
            timestamp_writes,
        };
        // SAFETY: no pass is open.
        unsafe { self.encoder().begin_compute_pass(&desc) };
        let mut state = PassState::new(recording);
        for command in commands {
            self.pass_command(&mut state, command)?;
        }
        // SAFETY: the pass is open.
        unsafe { self.encoder().end_compute_pass() };
        Ok(len + 1)
    }

    /// Makes everything defined that a command of a pass lets shaders read.
    fn define_for(&mut self, recording: &'a Recording, command: &'a Command) -> Result<()> {
        match command {
            Command::SetBindGroup { group, offsets, .. } => {
                let group = recording.bind_groups.get(*group);
                let mut offsets = recording.words(offsets).iter();
                for member in &group.buffers {
                    let dynamic = member.dynamic.then(|| offsets.next()).flatten();
                    let start = member.offset + u64::from(dynamic.copied().unwrap_or(0));
                    self.define_buffer(&member.buffer, &(start..start + member.size));
                }
                for member in &group.views {
                    self.define_texture(&member.view.texture, &member.view.desc.range)?;
                }
            }
            Command::DispatchIndirect { buffer, offset } => {
                self.define_buffer(recording.buffers.get(*buffer), &(*offset..*offset + 12));
            }
            _ => {}
        }
        Ok(())
    }

    #[inline]
    fn pass_command(&mut self, state: &mut PassState<'a>, command: &'a Command) -> Result<()> {
        let recording = state.recording;
        match command {
            Command::SetComputePipeline(pipeline) => {
                let pipeline: &'a ComputePipeline = recording.pipelines.get(*pipeline);
                let before = state.pipeline.replace(pipeline);
                if before.is_none_or(|before| !Arc::ptr_eq(&before.layout, &pipeline.layout)) {
                    state.invalidate();
                }
                self.set_pipeline(pipeline);
            }
            Command::SetBindGroup {
                index,
                group,
                offsets,
            } => {
                let group: &'a BindGroup = recording.bind_groups.get(*group);
                state.bound[*index as usize] = Some((group, offsets));
                state.stale |= 1 << index;
            }
            Command::SetImmediates { offset, words } => {
                let words = recording.words(words);
                let start = (offset / 4) as usize;
                let end = start + words.len();
                if state.immediates.len() < end {
                    state.immediates.resize(end, 0);
                }
                state.immediates[start..end].copy_from_slice(words);
                state.immediates_stale = true;
            }
            Command::Dispatch(count) => {
                self.begin_dispatch(state);
                if !count.contains(&0) {
                    // SAFETY: pipeline, groups and counts were checked when this was recorded.
                    unsafe { self.encoder().dispatch_workgroups(*count) };
                }
            }
            Command::DispatchIndirect { buffer, offset } => {
                self.dispatch_indirect(state, recording.buffers.get(*buffer), *offset)?;
            }
            Command::WriteTimestamp { set, index } => {
                self.write_timestamp(recording.query_sets.get(*set), *index);
            }
            Command::BeginPipelineStatistics { set, index } => {
                let set = recording.query_sets.get(*set);
                let raw = Self::raw_set(set);
                // SAFETY: the query is within the set, and reset before it is used.
                unsafe {
                    self.encoder().reset_queries(raw, *index..*index + 1);
                    self.encoder().begin_query(raw, *index);
                }
            }
            Command::EndPipelineStatistics { set, index } => {
                let set = recording.query_sets.get(*set);
                self.journal.write_query(set, *index);
                // SAFETY: the query was begun in this pass.
                unsafe { self.encoder().end_query(Self::raw_set(set), *index) };
            }
            other => self.common_command(recording, other),
        }
        Ok(())
    }

    pub fn set_pipeline(&mut self, pipeline: &'a ComputePipeline) {
        let raw = &**Self::raw(pipeline.body.slot());
        // SAFETY: a compute pass is open.
        unsafe { self.encoder().set_compute_pipeline(raw) };
    }

    /// Transitions what the groups of the pipeline use, and sets those that the HAL does not have.
    pub fn begin_dispatch(&mut self, state: &mut PassState<'a>) {
        let pipeline = state.pipeline();
        for (_, group, _) in used_groups(state, pipeline) {
            for member in &group.buffers {
                self.use_buffer(&member.buffer, member.uses);
            }
            for member in &group.views {
                let view = &member.view;
                self.use_texture(&view.texture, &view.desc.range, member.uses);
            }
        }
        self.barriers();
        if state.stale == 0 && !state.immediates_stale {
            return;
        }
        let layout = &*Self::raw(pipeline.layout.body.slot()).hal;
        for (index, group, offsets) in used_groups(state, pipeline) {
            if state.stale & (1 << index) != 0 {
                let raw = &*Self::raw(group.body.slot()).hal;
                let offsets = state.recording.words(offsets);
                // SAFETY: the group fits the layout, and the offsets the group.
                unsafe {
                    self.encoder()
                        .set_bind_group(layout, index as u32, raw, offsets);
                }
            }
        }
        // What the pipeline does not use stays stale: the HAL did not get it.
        for (index, ..) in used_groups(state, pipeline).collect::<smallvec::SmallVec<[_; 8]>>() {
            state.stale &= !(1u8 << index);
        }
        let size = (pipeline.layout.immediate_size / 4) as usize;
        if size > 0 && state.immediates_stale {
            state.immediates.resize(state.immediates.len().max(size), 0);
            // SAFETY: the range is the layout's.
            unsafe {
                self.encoder()
                    .set_immediates(layout, 0, &state.immediates[..size]);
            }
        }
        state.immediates_stale = false;
    }
}

/// The groups that a dispatch with `pipeline` uses, with their indices and dynamic offsets.
fn used_groups<'s, 'a: 's>(
    state: &'s PassState<'a>,
    pipeline: &'a ComputePipeline,
) -> impl Iterator<Item = (usize, &'a BindGroup, &'a Range<u32>)> + 's {
    let layouts = pipeline.layout.groups.iter().zip(&state.bound).enumerate();
    layouts.filter_map(|(index, (layout, bound))| {
        layout.as_ref()?;
        let (group, offsets) = bound.expect("the dispatch was checked");
        Some((index, group, offsets))
    })
}
