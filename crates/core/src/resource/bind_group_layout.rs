//! Bind group layouts (specification, section 8.1 "GPUBindGroupLayout").
//!
//! Layouts with equal entries share one HAL layout, so that layouts are compatible exactly when they share
//! it. A layout that was derived for one pipeline shares it only within that pipeline.

use super::Body;
use crate::{
    device::Device,
    error::{invalid, Named, Result},
    instance::format_features_for_device,
    validate::layout::{check_entries, Counts, Rules},
};
use fencepost_lifetime::Slot;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::sync::{Arc, Weak};
use wgpu_hal as hal;
use wgpu_types as wgt;

/// What a program asks for when it creates a bind group layout.
#[derive(Clone, Debug, Default)]
pub struct BindGroupLayoutDescriptor<'a> {
    /// For messages and debuggers.
    pub label: Option<&'a str>,
    /// The bindings, in any order.
    pub entries: &'a [wgt::BindGroupLayoutEntry],
}

/// The layout of a bind group. Made by [`Device::create_bind_group_layout`], or by
/// [`ComputePipeline::get_bind_group_layout`](super::ComputePipeline::get_bind_group_layout).
#[derive(Debug)]
pub struct BindGroupLayout {
    pub(crate) device: Arc<Device>,
    label: String,
    /// Sorted by binding number.
    pub(crate) entries: Vec<wgt::BindGroupLayoutEntry>,
    pub(crate) counts: Counts,
    /// The slot belongs to `shared`, which destroys it.
    pub(crate) body: Body<Box<dyn hal::DynBindGroupLayout>>,
    shared: Option<Arc<Shared>>,
}

/// A HAL layout and those who share it.
#[derive(Debug)]
struct Shared {
    device: Arc<Device>,
    entries: Arc<[wgt::BindGroupLayoutEntry]>,
    slot: Arc<Slot<Box<dyn hal::DynBindGroupLayout>>>,
    /// Whether it was derived for one pipeline and belongs to it.
    exclusive: bool,
}

/// The HAL layouts of a device that explicit layouts share, by their entries.
#[derive(Debug, Default)]
pub(crate) struct BindGroupLayoutCache(
    Mutex<FxHashMap<Arc<[wgt::BindGroupLayoutEntry]>, Weak<Shared>>>,
);

impl Device {
    /// Creates a bind group layout (specification, `GPUDevice.createBindGroupLayout`).
    ///
    /// # Errors
    ///
    /// Reported to the device: a validation error that names the binding, the rule and the values, or out
    /// of memory. The layout is invalid then.
    pub fn create_bind_group_layout(
        self: &Arc<Self>,
        desc: &BindGroupLayoutDescriptor<'_>,
    ) -> Arc<BindGroupLayout> {
        let label = desc.label.unwrap_or_default();
        let made = BindGroupLayout::new(self, label, desc.entries);
        let layout = self
            .report_if_err("Device::create_bind_group_layout", made)
            .unwrap_or_else(|| BindGroupLayout::invalid(self, label));
        Arc::new(layout)
    }

    /// What the rules of layouts depend on.
    pub(crate) fn with_layout_rules<T>(&self, use_rules: impl FnOnce(&Rules<'_>) -> T) -> T {
        let flags = self.adapter.instance().flags();
        use_rules(&Rules {
            features: self.features,
            downlevel: self.adapter.downlevel().flags,
            limits: &self.limits,
            strict: flags.contains(wgt::InstanceFlags::STRICT_WEBGPU_COMPLIANCE),
            format_flags: &|format| format_features_for_device(self, format).flags,
        })
    }
}

impl BindGroupLayout {
    /// An explicit layout.
    fn new(
        device: &Arc<Device>,
        label: &str,
        entries: &[wgt::BindGroupLayoutEntry],
    ) -> Result<Self> {
        device.check_alive()?;
        let name = name_of(label);
        let (entries, counts) = device
            .with_layout_rules(|rules| check_entries(entries, rules))
            .map_err(|error| error.within(name))?;
        let known = device.layouts.find(&entries);
        let shared = match known {
            Some(shared) => shared,
            None => {
                let made = Arc::new(Shared::new(device, label, entries.into(), false)?);
                device.layouts.enter(made)
            }
        };
        Ok(Self::of(device, label, counts, shared))
    }

    /// The layouts of the groups of a pipeline that derives its own. Groups with equal entries are
    /// compatible with each other and with no other layout; a group without entries has no layout.
    pub(crate) fn derived(
        device: &Arc<Device>,
        groups: &[Vec<wgt::BindGroupLayoutEntry>],
    ) -> Result<Vec<Option<Arc<Self>>>> {
        let mut layouts: Vec<Option<Arc<Self>>> = Vec::with_capacity(groups.len());
        for (index, group) in groups.iter().enumerate() {
            if group.is_empty() {
                layouts.push(None);
                continue;
            }
            let equal = layouts
                .iter()
                .flatten()
                .find(|layout| layout.entries == *group);
            let layout = match equal {
                Some(layout) => Arc::clone(layout),
                None => {
                    let (entries, counts) = device
                        .with_layout_rules(|rules| check_entries(group, rules))
                        .map_err(|error| error.within(format_args!("group {index}")))?;
                    let shared = Shared::new(device, "", entries.into(), true)?;
                    Arc::new(Self::of(device, "", counts, Arc::new(shared)))
                }
            };
            layouts.push(Some(layout));
        }
        Ok(layouts)
    }

    /// A layout without entries: what a pipeline answers for a group that it does not use.
    pub(crate) fn empty(device: &Arc<Device>, exclusive: bool) -> Result<Self> {
        if !exclusive {
            return Self::new(device, "", &[]);
        }
        device.check_alive()?;
        let shared = Shared::new(device, "", Arc::new([]), true)?;
        Ok(Self::of(device, "", Counts::default(), Arc::new(shared)))
    }

    fn of(device: &Arc<Device>, label: &str, counts: Counts, shared: Arc<Shared>) -> Self {
        Self {
            device: Arc::clone(device),
            label: label.to_owned(),
            entries: shared.entries.to_vec(),
            counts,
            body: Body::Live(Arc::clone(&shared.slot)),
            shared: Some(shared),
        }
    }

    /// A layout whose creation failed.
    pub(crate) fn invalid(device: &Arc<Device>, label: &str) -> Self {
        Self {
            device: Arc::clone(device),
            label: label.to_owned(),
            entries: Vec::new(),
            counts: Counts::default(),
            body: Body::Invalid,
            shared: None,
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

    /// Whether the layout was derived for one pipeline, so that no other may be made with it.
    pub(crate) fn is_exclusive(&self) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.exclusive)
    }

    /// Whether a bind group that was made with one can be used where the other is needed (specification,
    /// "group-equivalent"). An invalid layout goes with none.
    #[inline]
    pub fn is_compatible_with(&self, other: &Self) -> bool {
        match (&self.shared, &other.shared) {
            (Some(mine), Some(theirs)) => Arc::ptr_eq(mine, theirs),
            _ => false,
        }
    }
}

fn name_of(label: &str) -> Named<'_> {
    Named {
        kind: "bind group layout",
        label,
    }
}

impl Shared {
    fn new(
        device: &Arc<Device>,
        label: &str,
        entries: Arc<[wgt::BindGroupLayoutEntry]>,
        exclusive: bool,
    ) -> Result<Self> {
        let partial = wgt::Features::PARTIALLY_BOUND_BINDING_ARRAY;
        let mut flags = hal::BindGroupLayoutFlags::empty();
        flags.set(
            hal::BindGroupLayoutFlags::PARTIALLY_BOUND,
            device.features.contains(partial),
        );
        let desc = hal::BindGroupLayoutDescriptor {
            label: device.adapter.hal_label(label),
            flags,
            entries: &entries,
        };
        let slot = device.create(&name_of(label), 0, |hal| {
            // SAFETY: the entries have passed every rule and are sorted.
            unsafe { hal.create_bind_group_layout(&desc) }
        })?;
        Ok(Self {
            device: Arc::clone(device),
            entries,
            slot,
            exclusive,
        })
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if !self.exclusive {
            self.device.layouts.forget(&self.entries);
        }
        self.slot.destroy(&*self.device.lower);
    }
}

impl BindGroupLayoutCache {
    fn find(&self, entries: &[wgt::BindGroupLayoutEntry]) -> Option<Arc<Shared>> {
        self.0.lock().get(entries)?.upgrade()
    }

    /// Adds a layout. Another thread may have added an equal one meanwhile: then that one counts.
    fn enter(&self, made: Arc<Shared>) -> Arc<Shared> {
        let mut layouts = self.0.lock();
        let place = layouts.entry(Arc::clone(&made.entries)).or_default();
        match place.upgrade() {
            Some(earlier) => {
                // Its drop looks for it here, so not under the lock.
                drop(layouts);
                drop(made);
                earlier
            }
            None => {
                *place = Arc::downgrade(&made);
                made
            }
        }
    }

    /// Removes what nobody shares any more.
    fn forget(&self, entries: &[wgt::BindGroupLayoutEntry]) {
        let mut layouts = self.0.lock();
        if layouts
            .get(entries)
            .is_some_and(|layout| layout.strong_count() == 0)
        {
            layouts.remove(entries);
        }
    }
}
