//! Pipeline layouts (specification, section 8.3 "GPUPipelineLayout").

use super::{BindGroupLayout, Body};
use crate::{
    device::Device,
    error::{invalid, Named, Result},
    reclaim::PipelineLayoutRaw,
    validate::layout::{check_immediate_size, Counts},
};
use fencepost_lifetime::Pin;
use std::sync::Arc;
use wgpu_hal as hal;
use wgpu_types as wgt;

/// What a program asks for when it creates a pipeline layout.
#[derive(Clone, Debug, Default)]
pub struct PipelineLayoutDescriptor<'a> {
    /// For messages and debuggers.
    pub label: Option<&'a str>,
    /// The layout of each bind group; `None` where there is none.
    pub bind_group_layouts: &'a [Option<Arc<BindGroupLayout>>],
    /// In bytes.
    pub immediate_size: u32,
}

/// The layout of what a pipeline can use. Made by [`Device::create_pipeline_layout`].
#[derive(Debug)]
pub struct PipelineLayout {
    pub(crate) device: Arc<Device>,
    label: String,
    /// `None` where there is no layout or one without entries.
    pub(crate) groups: Vec<Option<Arc<BindGroupLayout>>>,
    /// In bytes.
    pub(crate) immediate_size: u32,
    pub(crate) body: Body<PipelineLayoutRaw>,
}

impl Device {
    /// Creates a pipeline layout (specification, `GPUDevice.createPipelineLayout`).
    ///
    /// # Errors
    ///
    /// Reported to the device: a validation error that names the layout, the rule and the values, or out
    /// of memory. The layout is invalid then.
    pub fn create_pipeline_layout(
        self: &Arc<Self>,
        desc: &PipelineLayoutDescriptor<'_>,
    ) -> Arc<PipelineLayout> {
        let label = desc.label.unwrap_or_default();
        let made = self.check_explicit(desc.bind_group_layouts).and_then(|()| {
            let groups = desc.bind_group_layouts;
            PipelineLayout::new(self, label, groups, desc.immediate_size)
        });
        let made = made.map_err(|error| error.within(name_of(label)));
        let layout = self
            .report_if_err("Device::create_pipeline_layout", made)
            .unwrap_or_else(|| PipelineLayout::invalid(self, label));
        Arc::new(layout)
    }

    /// Layouts that were derived for one pipeline are not for others.
    fn check_explicit(&self, layouts: &[Option<Arc<BindGroupLayout>>]) -> Result<()> {
        let mut layouts = layouts.iter().enumerate();
        let exclusive =
            layouts.find(|(_, layout)| layout.as_ref().is_some_and(|layout| layout.is_exclusive()));
        match exclusive {
            Some((index, _)) => Err(invalid!(
                "the bind group layout at index {index} belongs to a pipeline with an automatic layout"
            )),
            None => Ok(()),
        }
    }
}

impl PipelineLayout {
    pub(crate) fn new(
        device: &Arc<Device>,
        label: &str,
        layouts: &[Option<Arc<BindGroupLayout>>],
        immediate_size: u32,
    ) -> Result<Self> {
        device.check_alive()?;
        let limit = device.limits.max_bind_groups as usize;
        if layouts.len() > limit {
            return Err(invalid!(
                "{} bind group layouts are more than max_bind_groups {limit}",
                layouts.len()
            ));
        }
        check_immediate_size(immediate_size, device.features, &device.limits)?;
        let mut counts = Counts::default();
        for layout in layouts.iter().flatten() {
            device.check_same(&layout.device, &layout.name())?;
            layout.check_valid()?;
            counts.merge(&layout.counts);
        }
        device.with_layout_rules(|rules| counts.check(rules))?;
        let with_entries = |layout: &Option<Arc<BindGroupLayout>>| {
            layout.clone().filter(|layout| !layout.entries.is_empty())
        };
        let mut layout = Self {
            device: Arc::clone(device),
            label: label.to_owned(),
            groups: layouts.iter().map(with_entries).collect(),
            immediate_size,
            body: Body::Gone,
        };
        layout.body = layout.make()?;
        Ok(layout)
    }

    fn make(&self) -> Result<Body<PipelineLayoutRaw>> {
        let device = &self.device;
        let mut pins = Vec::with_capacity(self.groups.len());
        for group in &self.groups {
            let pin = match group {
                Some(group) => match group.body.slot().and_then(|slot| slot.pin(&*device.lower)) {
                    Some(pin) => Some(pin),
                    // The device was destroyed.
                    None => return Ok(Body::Gone),
                },
                None => None,
            };
            pins.push(pin);
        }
        let raw: Vec<_> = pins
            .iter()
            .map(|pin| pin.as_ref().map(|pin| &***pin))
            .collect();
        let desc = hal::PipelineLayoutDescriptor {
            label: device.adapter.hal_label(&self.label),
            flags: hal::PipelineLayoutFlags::FIRST_VERTEX_INSTANCE
                | hal::PipelineLayoutFlags::NUM_WORK_GROUPS,
            bind_group_layouts: &raw,
            immediate_size: self.immediate_size,
        };
        let slot = device.create(&self.name(), 0, |hal| {
            // SAFETY: the layouts are pinned, and what they add up to is within the limits.
            let hal = unsafe { hal.create_pipeline_layout(&desc) }?;
            let groups = self.groups.iter().flatten();
            let pins = groups.filter_map(|group| group.body.slot()?.pin(&*device.lower));
            Ok(PipelineLayoutRaw {
                hal,
                groups: pins.map(Pin::detach).collect(),
            })
        })?;
        Ok(Body::Live(slot))
    }

    /// A layout whose creation failed.
    pub(crate) fn invalid(device: &Arc<Device>, label: &str) -> Self {
        Self {
            device: Arc::clone(device),
            label: label.to_owned(),
            groups: Vec::new(),
            immediate_size: 0,
            body: Body::Invalid,
        }
    }

    /// The label, empty if there is none.
    pub fn label(&self) -> &str {
        &self.label
    }

    pub(crate) fn name(&self) -> Named<'_> {
        name_of(&self.label)
    }

    /// An error if the creation failed.
    pub(crate) fn check_valid(&self) -> Result<()> {
        if self.body.is_valid() {
            Ok(())
        } else {
            Err(invalid!("{} is invalid", self.name()))
        }
    }

    /// The entries of each group.
    pub(crate) fn entries(&self) -> Vec<Option<&[wgt::BindGroupLayoutEntry]>> {
        let groups = self.groups.iter();
        groups
            .map(|group| group.as_deref().map(|group| &*group.entries))
            .collect()
    }
}

impl Drop for PipelineLayout {
    fn drop(&mut self) {
        self.body.destroy(&self.device.lower);
    }
}

fn name_of(label: &str) -> Named<'_> {
    Named {
        kind: "pipeline layout",
        label,
    }
}
