//! Compute passes (specification, section 16 "Compute passes").
//!
//! A pass takes the recording out of its encoder and gives it back when it ends, so recording takes no
//! lock. What was checked for a dispatch is not checked again until a pipeline or bind group changes.

use super::{
    commands::Timestamps,
    encoder::{check_buffer, transition},
    queries::{check_query, QueryKind},
    scope::Scope,
    Command, CommandEncoder, Recording,
};
use crate::{
    error::{invalid, Error, Result},
    resource::{BindGroup, Buffer, ComputePipeline, QuerySet, TextureView},
};
use smallvec::SmallVec;
use std::sync::Arc;
use wgpu_hal as hal;
use wgpu_types as wgt;

/// The queries that a pass writes its time to.
#[derive(Clone, Copy, Debug)]
pub struct PassTimestampWrites<'a> {
    /// A set of timestamp queries.
    pub query_set: &'a Arc<QuerySet>,
    /// Written when the pass begins.
    pub beginning_of_pass_write_index: Option<u32>,
    /// Written when the pass ends.
    pub end_of_pass_write_index: Option<u32>,
}

/// What a program asks for when it begins a compute pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct ComputePassDescriptor<'a> {
    /// For debuggers.
    pub label: Option<&'a str>,
    /// Needs the feature `TIMESTAMP_QUERY`.
    pub timestamp_writes: Option<PassTimestampWrites<'a>>,
}

/// A compute pass. It ends when it is dropped.
#[derive(Debug)]
pub struct ComputePass {
    encoder: Arc<CommandEncoder>,
    label: String,
    /// `None` if the encoder was not open when the pass began, or the pass has ended.
    recording: Option<Box<Recording>>,
    error: Option<Error>,
    groups: u32,
    /// The pipeline and the bind groups that are set, by their places in the recording.
    pipeline: Option<u32>,
    bound: [Option<u32>; hal::MAX_BIND_GROUPS],
    /// Whether the pipeline and the groups have been checked as they are.
    checked: bool,
    scope: Scope,
    immediates: naga::valid::ImmediateSlots,
    statistics: Option<(u32, u32)>,
}

impl CommandEncoder {
    /// Begins a compute pass (specification, `beginComputePass`). The encoder is locked until it ends.
    pub fn begin_compute_pass(self: &Arc<Self>, desc: &ComputePassDescriptor<'_>) -> ComputePass {
        let function = "CommandEncoder::begin_compute_pass";
        let mut pass = ComputePass {
            encoder: Arc::clone(self),
            label: desc.label.unwrap_or_default().to_owned(),
            recording: self.lock(function),
            error: None,
            groups: 0,
            pipeline: None,
            bound: Default::default(),
            checked: false,
            scope: Scope::default(),
            immediates: Default::default(),
            statistics: None,
        };
        pass.record(function, |pass, recording| {
            let timestamps = desc
                .timestamp_writes
                .as_ref()
                .map(|writes| pass.timestamps(recording, writes))
                .transpose()?;
            let label = recording.keep_text(&pass.label);
            recording.commands.push(Command::BeginComputePass {
                label,
                timestamps: timestamps.map(Box::new),
            });
            Ok(())
        });
        pass
    }
}

impl ComputePass {
    /// Runs one recording step. An error makes the pass, and with it the encoder, invalid.
    #[inline]
    fn record(
        &mut self,
        function: &'static str,
        step: impl FnOnce(&mut Self, &mut Recording) -> Result<()>,
    ) {
        if self.error.is_some() {
            return;
        }
        let Some(mut recording) = self.recording.take() else {
            return;
        };
        if let Err(error) = step(self, &mut recording) {
            self.error = Some(self.explain(function, error));
        }
        self.recording = Some(recording);
    }

    #[cold]
    fn explain(&self, function: &'static str, error: Error) -> Error {
        let error = error.within(function);
        if self.label.is_empty() {
            error.within("in a compute pass")
        } else {
            error.within(format_args!("in the compute pass {:?}", self.label))
        }
    }

    fn timestamps(
        &self,
        recording: &mut Recording,
        writes: &PassTimestampWrites<'_>,
    ) -> Result<Timestamps> {
        let device = &self.encoder.device;
        device.require_features(wgt::Features::TIMESTAMP_QUERY)?;
        let (begin, end) = (
            writes.beginning_of_pass_write_index,
            writes.end_of_pass_write_index,
        );
        if begin.is_none() && end.is_none() {
            return Err(invalid!(
                "{}: timestamp writes need an index for the beginning or the end of the pass",
                writes.query_set.name()
            ));
        }
        if begin == end {
            return Err(invalid!(
                "{}: query {begin:?} cannot be written at both the beginning and the end of the pass",
                writes.query_set.name()
            ));
        }
        for index in [begin, end].into_iter().flatten() {
            check_query(device, writes.query_set, index, QueryKind::Timestamp)?;
        }
        Ok(Timestamps {
            set: recording.query_sets.enter(writes.query_set),
            begin,
            end,
        })
    }

    /// Makes the pass invalid: it was given something that it cannot use.
    pub fn refuse(&mut self, function: &'static str, why: &str) {
        self.record(function, |_, _| Err(Error::validation(why)));
    }

    /// Sets the pipeline of the dispatches that follow.
    pub fn set_pipeline(&mut self, pipeline: &Arc<ComputePipeline>) {
        self.record("ComputePass::set_pipeline", |pass, recording| {
            let device = &pass.encoder.device;
            device.check_same(&pipeline.device, &pipeline.name())?;
            if !pipeline.body.is_valid() {
                return Err(invalid!("{} is invalid", pipeline.name()));
            }
            let place = recording.pipelines.enter(pipeline);
            if pass.pipeline != Some(place) {
                pass.pipeline = Some(place);
                pass.checked = false;
                recording.commands.push(Command::SetComputePipeline(place));
            }
            Ok(())
        });
    }

    /// Sets or unsets a bind group (specification, `setBindGroup`), with an offset in bytes for each of
    /// its bindings that has a dynamic one, in the order of their numbers.
    pub fn set_bind_group(
        &mut self,
        index: u32,
        group: Option<&Arc<BindGroup>>,
        offsets: &[wgt::DynamicOffset],
    ) {
        self.record("ComputePass::set_bind_group", |pass, recording| {
            let device = &pass.encoder.device;
            let limit = device.limits.max_bind_groups;
            if index >= limit {
                return Err(invalid!(
                    "the index {index} is not below max_bind_groups {limit}"
                ));
            }
            pass.checked = false;
            let Some(group) = group else {
                pass.bound[index as usize] = None;
                return Ok(());
            };
            device.check_same(&group.device, &group.name())?;
            group.check_offsets(offsets)?;
            let group = recording.bind_groups.enter(group);
            pass.bound[index as usize] = Some(group);
            let offsets = recording.keep_words(offsets);
            recording.commands.push(Command::SetBindGroup {
                index,
                group,
                offsets,
            });
            Ok(())
        });
    }

    /// Sets a range of the immediate data, in bytes. Needs the feature `IMMEDIATES`.
    pub fn set_immediates(&mut self, offset: u32, data: &[u8]) {
        self.record("ComputePass::set_immediates", |pass, recording| {
            let device = &pass.encoder.device;
            device.require_features(wgt::Features::IMMEDIATES)?;
            let limit = device.limits.max_immediate_size;
            let size = data.len();
            if !offset.is_multiple_of(wgt::IMMEDIATE_DATA_ALIGNMENT)
                || !size.is_multiple_of(wgt::IMMEDIATE_DATA_ALIGNMENT as usize)
            {
                return Err(invalid!(
                    "the offset {offset} and the size {size} of immediates must be multiples of {}",
                    wgt::IMMEDIATE_DATA_ALIGNMENT
                ));
            }
            let end = offset as usize + size;
            if end > limit as usize {
                return Err(invalid!(
                    "{size} bytes of immediates at {offset} go beyond max_immediate_size {limit}"
                ));
            }
            if data.is_empty() {
                return Ok(());
            }
            pass.immediates |= naga::valid::ImmediateSlots::from_range(offset, size as u32);
            let words: Vec<u32> = data
                .chunks_exact(4)
                .map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]]))
                .collect();
            let words = recording.keep_words(&words);
            recording
                .commands
                .push(Command::SetImmediates { offset, words });
            Ok(())
        });
    }

    /// Dispatches workgroups (specification, `dispatchWorkgroups`).
    pub fn dispatch_workgroups(&mut self, x: u32, y: u32, z: u32) {
        self.record("ComputePass::dispatch_workgroups", |pass, recording| {
            pass.check_dispatch(recording)?;
            let limit = pass.encoder.device.limits.max_compute_workgroups_per_dimension;
            if x > limit || y > limit || z > limit {
                return Err(invalid!(
                    "({x}, {y}, {z}) workgroups are more than max_compute_workgroups_per_dimension {limit}"
                ));
            }
            recording.commands.push(Command::Dispatch([x, y, z]));
            Ok(())
        });
    }

    /// Dispatches as many workgroups as three `u32` in a buffer say (specification,
    /// `dispatchWorkgroupsIndirect`). Numbers above the limit dispatch nothing.
    pub fn dispatch_workgroups_indirect(&mut self, buffer: &Arc<Buffer>, offset: u64) {
        self.record(
            "ComputePass::dispatch_workgroups_indirect",
            |pass, recording| {
                pass.check_dispatch(recording)?;
                let device = &pass.encoder.device;
                check_buffer(device, buffer, wgt::BufferUsages::INDIRECT)?;
                let name = buffer.name();
                if !offset.is_multiple_of(4) {
                    return Err(invalid!(
                        "{name}: the indirect offset {offset} must be a multiple of 4"
                    ));
                }
                if offset.checked_add(12).is_none_or(|end| end > buffer.size) {
                    return Err(invalid!(
                        "{name}: 12 bytes of indirect arguments at {offset} go beyond its {} bytes",
                        buffer.size
                    ));
                }
                pass.check_indirect(recording, buffer)?;
                let first = words_behind_binding(&device.limits, offset);
                if !recording.indirect.contains(&first) {
                    recording.indirect.push(first);
                }
                let buffer = recording.buffers.enter(buffer);
                recording
                    .commands
                    .push(Command::DispatchIndirect { buffer, offset });
                Ok(())
            },
        );
    }

    /// What a dispatch needs: a pipeline, and for each group of its layout one that fits and is large
    /// enough, with no conflict between them.
    #[inline]
    fn check_dispatch(&mut self, recording: &Recording) -> Result<()> {
        if !self.checked {
            self.check_bound(recording)?;
            self.checked = true;
        }
        Ok(())
    }

    fn check_bound(&mut self, recording: &Recording) -> Result<()> {
        let Some(pipeline) = self.pipeline else {
            return Err(invalid!("no pipeline is set"));
        };
        let pipeline = recording.pipelines.get(pipeline);
        let mut groups: SmallVec<[&Arc<BindGroup>; hal::MAX_BIND_GROUPS]> = SmallVec::new();
        for (index, layout) in pipeline.layout.groups.iter().enumerate() {
            let Some(layout) = layout else { continue };
            let Some(group) = self.bound[index] else {
                return Err(invalid!(
                    "{} needs a bind group at index {index}, but none is set",
                    pipeline.name()
                ));
            };
            let group = recording.bind_groups.get(group);
            if !group.layout.is_compatible_with(layout) {
                return Err(invalid!(
                    "{} at index {index} was made with {}, which is not equivalent to the {} that {} needs \
                     there",
                    group.name(),
                    group.layout.name(),
                    layout.name(),
                    pipeline.name()
                ));
            }
            let needed = pipeline.late_sized.get(index).map_or(&[][..], |l| l);
            for ((binding, needed), bound) in needed.iter().zip(&group.late_sizes) {
                if bound < needed {
                    return Err(invalid!(
                        "{} at index {index}: binding {binding} has {bound} bytes, but the shader of {} \
                         needs {needed}",
                        group.name(),
                        pipeline.name()
                    ));
                }
            }
            groups.push(group);
        }
        if let [group] = groups[..] {
            // One group alone was checked when it was made.
            if let Some(conflict) = &group.conflict {
                return Err(conflict.clone());
            }
        } else if groups.iter().any(|group| group.contends) {
            self.scope.check(groups.into_iter())?;
        }
        if !self.immediates.contains(pipeline.immediates) {
            return Err(invalid!(
                "{} reads immediates that were not set",
                pipeline.name()
            ));
        }
        Ok(())
    }

    /// The indirect buffer is read in the usage scope of the dispatch.
    fn check_indirect(&self, recording: &Recording, buffer: &Arc<Buffer>) -> Result<()> {
        let pipeline = self.pipeline.expect("the dispatch was checked");
        let layouts = &recording.pipelines.get(pipeline).layout.groups;
        for (_, group) in layouts
            .iter()
            .zip(self.bound)
            .filter(|(layout, _)| layout.is_some())
        {
            let group = recording
                .bind_groups
                .get(group.expect("the dispatch was checked"));
            let conflict = group.buffers.iter().find(|member| {
                Arc::ptr_eq(&member.buffer, buffer)
                    && !wgt::BufferUses::INCLUSIVE.contains(member.uses)
            });
            if let Some(member) = conflict {
                return Err(invalid!(
                    "{} is used as INDIRECT and as {:?} in one usage scope; a use that writes must be the \
                     only kind",
                    buffer.name(),
                    member.uses
                ));
            }
        }
        Ok(())
    }

    /// Opens a debug group.
    pub fn push_debug_group(&mut self, label: &str) {
        self.record("ComputePass::push_debug_group", |pass, recording| {
            pass.groups += 1;
            let label = recording.keep_text(label);
            recording.commands.push(Command::PushDebugGroup(label));
            Ok(())
        });
    }

    /// Closes the innermost debug group of the pass.
    pub fn pop_debug_group(&mut self) {
        self.record("ComputePass::pop_debug_group", |pass, recording| {
            pass.groups = pass
                .groups
                .checked_sub(1)
                .ok_or_else(|| invalid!("the pass has no debug group open"))?;
            recording.commands.push(Command::PopDebugGroup);
            Ok(())
        });
    }

    /// Inserts a debug marker.
    pub fn insert_debug_marker(&mut self, label: &str) {
        self.record("ComputePass::insert_debug_marker", |_, recording| {
            let label = recording.keep_text(label);
            recording.commands.push(Command::InsertDebugMarker(label));
            Ok(())
        });
    }

    /// Writes the time to a query. Needs the feature `TIMESTAMP_QUERY_INSIDE_PASSES`.
    pub fn write_timestamp(&mut self, set: &Arc<QuerySet>, index: u32) {
        self.record("ComputePass::write_timestamp", |pass, recording| {
            let device = &pass.encoder.device;
            device.require_features(wgt::Features::TIMESTAMP_QUERY_INSIDE_PASSES)?;
            check_query(device, set, index, QueryKind::Timestamp)?;
            let set = recording.query_sets.enter(set);
            recording
                .commands
                .push(Command::WriteTimestamp { set, index });
            Ok(())
        });
    }

    /// Begins counting for a query. Needs the feature `PIPELINE_STATISTICS_QUERY`.
    pub fn begin_pipeline_statistics_query(&mut self, set: &Arc<QuerySet>, index: u32) {
        self.record(
            "ComputePass::begin_pipeline_statistics_query",
            |pass, recording| {
                let device = &pass.encoder.device;
                device.require_features(wgt::Features::PIPELINE_STATISTICS_QUERY)?;
                check_query(device, set, index, QueryKind::PipelineStatistics)?;
                if pass.statistics.is_some() {
                    return Err(invalid!("a pipeline statistics query is active already"));
                }
                let set = recording.query_sets.enter(set);
                pass.statistics = Some((set, index));
                recording
                    .commands
                    .push(Command::BeginPipelineStatistics { set, index });
                Ok(())
            },
        );
    }

    /// Ends the active pipeline statistics query.
    pub fn end_pipeline_statistics_query(&mut self) {
        self.record(
            "ComputePass::end_pipeline_statistics_query",
            |pass, recording| {
                let Some((set, index)) = pass.statistics.take() else {
                    return Err(invalid!("no pipeline statistics query is active"));
                };
                recording
                    .commands
                    .push(Command::EndPipelineStatistics { set, index });
                Ok(())
            },
        );
    }

    /// Puts resources into states of the program's choosing, as
    /// [`CommandEncoder::transition_resources`] does.
    pub fn transition_resources<'a>(
        &mut self,
        buffers: impl Iterator<Item = wgt::BufferTransition<&'a Arc<Buffer>>>,
        views: impl Iterator<Item = wgt::TextureTransition<&'a Arc<TextureView>>>,
    ) {
        let buffers: Vec<_> = buffers.collect();
        let views: Vec<_> = views.collect();
        self.record("ComputePass::transition_resources", |pass, recording| {
            let textures: Vec<_> = views
                .iter()
                .map(|transition| {
                    let range = &transition.texture.desc.range;
                    let selector = transition.selector.clone();
                    wgt::TextureTransition {
                        texture: &transition.texture.texture,
                        selector: Some(selector.unwrap_or(wgt::TextureSelector {
                            mips: range.mips.clone(),
                            layers: range.layers.clone(),
                        })),
                        state: transition.state,
                    }
                })
                .collect();
            transition(&pass.encoder.device, recording, &buffers, &textures)
        });
    }
}

impl Drop for ComputePass {
    fn drop(&mut self) {
        let (groups, statistics) = (self.groups, self.statistics);
        self.record("ComputePass::end", |_, recording| {
            if groups > 0 {
                return Err(invalid!(
                    "{groups} debug groups are open at the end of the pass"
                ));
            }
            if statistics.is_some() {
                return Err(invalid!(
                    "a pipeline statistics query is active at the end of the pass"
                ));
            }
            recording.commands.push(Command::EndComputePass);
            Ok(())
        });
        if let Some(recording) = self.recording.take() {
            self.encoder.unlock(recording, self.error.take());
        }
    }
}

/// How many words an offset lies behind the last one before it that a storage buffer can be bound at.
pub(crate) fn words_behind_binding(limits: &wgt::Limits, offset: u64) -> u32 {
    (offset % u64::from(limits.min_storage_buffer_offset_alignment) / 4) as u32
}
