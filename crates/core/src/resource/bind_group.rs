//! Bind groups (specification, section 8.2 "GPUBindGroup").
//!
//! A bind group holds the objects that it names, and knows from the start all that a dispatch asks of it:
//! which buffers and views it uses and how, where dynamic offsets may go, how large its late-sized
//! bindings are, and whether it is in conflict with itself.

use super::{BindGroupLayout, Body, Buffer, Sampler, TextureView};
use crate::{
    device::Device,
    error::{invalid, Error, Named, Result},
    reclaim::{BindGroupRaw, BufferRaw, Lower, Payload},
    record::Scope,
    validate::interface::is_late_sized,
};
use fencepost_lifetime::{Pin, Slot};
use std::{num::NonZeroU64, sync::Arc};
use wgpu_hal as hal;
use wgpu_types as wgt;

/// A range of a buffer to bind. Without a size, up to its end.
#[derive(Clone, Copy, Debug)]
pub struct BufferBinding<'a> {
    /// The buffer.
    pub buffer: &'a Arc<Buffer>,
    /// In bytes.
    pub offset: u64,
    /// In bytes.
    pub size: Option<NonZeroU64>,
}

/// What is bound at one number.
#[derive(Clone, Debug)]
pub enum BindingResource<'a> {
    /// One buffer or several.
    Buffers(Vec<BufferBinding<'a>>),
    /// One sampler or several.
    Samplers(Vec<&'a Arc<Sampler>>),
    /// One view or several.
    TextureViews(Vec<&'a Arc<TextureView>>),
    /// Something that is not implemented.
    Unsupported(&'static str),
}

/// An entry of a bind group.
#[derive(Clone, Debug)]
pub struct BindGroupEntry<'a> {
    /// The number of the binding in the layout.
    pub binding: u32,
    /// What to bind there.
    pub resource: BindingResource<'a>,
    /// Whether the program gave it as an array.
    pub array: bool,
}

/// What a program asks for when it creates a bind group.
#[derive(Clone, Debug)]
pub struct BindGroupDescriptor<'a> {
    /// For messages and debuggers.
    pub label: Option<&'a str>,
    /// The layout, which the entries match one by one.
    pub layout: &'a Arc<BindGroupLayout>,
    /// In any order.
    pub entries: &'a [BindGroupEntry<'a>],
}

/// A buffer that a bind group names.
#[derive(Debug)]
pub(crate) struct BufferMember {
    pub buffer: Arc<Buffer>,
    /// The bytes that are bound, before any dynamic offset.
    pub offset: u64,
    pub size: u64,
    pub dynamic: bool,
    pub uses: wgt::BufferUses,
}

/// A view that a bind group names.
#[derive(Debug)]
pub(crate) struct ViewMember {
    pub view: Arc<TextureView>,
    pub uses: wgt::TextureUses,
}

/// A binding with a dynamic offset.
#[derive(Debug)]
struct Dynamic {
    binding: u32,
    /// The place in `buffers`.
    member: usize,
    alignment: u32,
}

/// A bind group. Made by [`Device::create_bind_group`].
#[derive(Debug)]
pub struct BindGroup {
    pub(crate) device: Arc<Device>,
    label: String,
    pub(crate) layout: Arc<BindGroupLayout>,
    pub(crate) body: Body<BindGroupRaw>,
    pub(crate) buffers: Vec<BufferMember>,
    pub(crate) views: Vec<ViewMember>,
    pub(crate) samplers: Vec<Arc<Sampler>>,
    /// In the order of the bindings.
    dynamic: Vec<Dynamic>,
    /// The sizes in bytes of the bindings whose layout does not say how large they must be, in its order.
    pub(crate) late_sizes: Vec<u64>,
    /// Whether it can be in conflict with another group: it writes, or has storage textures.
    pub(crate) contends: bool,
    /// The error of a dispatch with this group alone.
    pub(crate) conflict: Option<Error>,
}

impl Device {
    /// Creates a bind group (specification, `createBindGroup`). A bind group of something destroyed is no
    /// error; submitting its use is one.
    ///
    /// # Errors
    ///
    /// Reported to the device: a validation error that names the binding, the rule and the values, or out
    /// of memory. The bind group is invalid then.
    pub fn create_bind_group(self: &Arc<Self>, desc: &BindGroupDescriptor<'_>) -> Arc<BindGroup> {
        let invalid = || BindGroup::invalid(self, desc.label.unwrap_or_default(), desc.layout);
        let mut group = invalid();
        let body = group.fill(desc).map_err(|e| e.within(group.name()));
        match self.report_if_err("Device::create_bind_group", body) {
            Some(body) => {
                group.body = body;
                Arc::new(group)
            }
            // It keeps nothing of what it was to be made of.
            None => Arc::new(invalid()),
        }
    }
}

/// The HAL's arguments for a bind group, by the kinds of resource.
#[derive(Default)]
struct Arguments<'a> {
    buffers: Vec<(&'a Arc<Buffer>, u64, u64)>,
    samplers: Vec<&'a Arc<Sampler>>,
    views: Vec<(&'a Arc<TextureView>, wgt::TextureUses)>,
    entries: Vec<hal::BindGroupEntry>,
}

impl BindGroup {
    /// The tombstone of a bind group that could not be created, or was not yet.
    pub(crate) fn invalid(
        device: &Arc<Device>,
        label: &str,
        layout: &Arc<BindGroupLayout>,
    ) -> Self {
        Self {
            device: Arc::clone(device),
            label: label.to_owned(),
            layout: Arc::clone(layout),
            body: Body::Invalid,
            buffers: Vec::new(),
            views: Vec::new(),
            samplers: Vec::new(),
            dynamic: Vec::new(),
            late_sizes: Vec::new(),
            contends: false,
            conflict: None,
        }
    }

    /// The label, empty if there is none.
    pub fn label(&self) -> &str {
        &self.label
    }

    pub(crate) fn name(&self) -> Named<'_> {
        Named {
            kind: "bind group",
            label: &self.label,
        }
    }

    /// Checks the entries against the layout and makes the HAL's object.
    fn fill(&mut self, desc: &BindGroupDescriptor<'_>) -> Result<Body<BindGroupRaw>> {
        let device = Arc::clone(&self.device);
        device.check_alive()?;
        let layout = desc.layout;
        device.check_same(&layout.device, &layout.name())?;
        layout.check_valid()?;
        if desc.entries.len() != layout.entries.len() {
            return Err(invalid!(
                "{} entries are given, but {} has {}",
                desc.entries.len(),
                layout.name(),
                layout.entries.len()
            ));
        }
        let mut arguments = Arguments::default();
        for slot in layout.entries.iter() {
            let mut entries = desc.entries.iter().filter(|e| e.binding == slot.binding);
            let (Some(entry), None) = (entries.next(), entries.next()) else {
                return Err(invalid!(
                    "binding {} of {} needs exactly one entry",
                    slot.binding,
                    layout.name()
                ));
            };
            self.add(slot, entry, &mut arguments)
                .map_err(|e| e.within(format_args!("binding {}", slot.binding)))?;
        }
        self.unite_reads(&mut arguments);
        self.conflict = Scope::default().check_one(self).err();
        self.make(&arguments)
    }

    fn add<'a>(
        &mut self,
        slot: &wgt::BindGroupLayoutEntry,
        entry: &BindGroupEntry<'a>,
        arguments: &mut Arguments<'a>,
    ) -> Result<()> {
        let (start, len) = match &entry.resource {
            BindingResource::Buffers(bindings) => {
                let start = arguments.buffers.len();
                for binding in bindings {
                    self.add_buffer(slot, binding, arguments)?;
                }
                if is_late_sized(slot) {
                    // Of an array, the smallest must be large enough.
                    let sizes = arguments.buffers[start..].iter().map(|(.., size)| *size);
                    self.late_sizes.push(sizes.min().unwrap_or(0));
                }
                (start, bindings.len())
            }
            BindingResource::Samplers(samplers) => {
                let start = arguments.samplers.len();
                for sampler in samplers {
                    self.device.check_same(&sampler.device, &sampler.name())?;
                    sampler.check_binding(&slot.ty)?;
                    self.samplers.push(Arc::clone(sampler));
                    arguments.samplers.push(sampler);
                }
                (start, samplers.len())
            }
            BindingResource::TextureViews(views) => {
                let start = arguments.views.len();
                for view in views {
                    self.device.check_same(view.device(), &view.name())?;
                    let uses = view.check_binding(&slot.ty)?;
                    self.contends |= uses != wgt::TextureUses::RESOURCE;
                    self.views.push(ViewMember {
                        view: Arc::clone(view),
                        uses,
                    });
                    arguments.views.push((view, uses));
                }
                (start, views.len())
            }
            BindingResource::Unsupported(what) => {
                return Err(invalid!("{what} cannot be bound: it is not implemented"))
            }
        };
        self.check_count(slot, entry, len)?;
        arguments.entries.push(hal::BindGroupEntry {
            binding: slot.binding,
            resource_index: start as u32,
            count: len as u32,
        });
        Ok(())
    }

    /// A texture that is read in two ways at once has one layout for both, which the HAL derives from the
    /// two usages together.
    fn unite_reads(&mut self, arguments: &mut Arguments<'_>) {
        if !self.contends {
            return;
        }
        for first in 0..self.views.len() {
            for second in first + 1..self.views.len() {
                let uses = self.views[first].uses | self.views[second].uses;
                let reads = wgt::TextureUses::INCLUSIVE.contains(uses);
                if reads && overlap(&self.views[first].view, &self.views[second].view) {
                    for index in [first, second] {
                        self.views[index].uses = uses;
                        arguments.views[index].1 = uses;
                    }
                }
            }
        }
    }

    fn check_count(
        &self,
        slot: &wgt::BindGroupLayoutEntry,
        entry: &BindGroupEntry<'_>,
        len: usize,
    ) -> Result<()> {
        match slot.count {
            None if entry.array => Err(invalid!(
                "an array of {len} is given, but the layout has one resource"
            )),
            None => Ok(()),
            Some(count) if !entry.array => Err(invalid!(
                "one resource is given, but the layout has an array of {count}"
            )),
            Some(count) => {
                let count = count.get() as usize;
                let partial = wgt::Features::PARTIALLY_BOUND_BINDING_ARRAY;
                if len == count || (len < count && self.device.features.contains(partial)) {
                    Ok(())
                } else {
                    Err(invalid!(
                        "an array of {len} is given, but the layout has one of {count}"
                    ))
                }
            }
        }
    }

    fn add_buffer<'a>(
        &mut self,
        slot: &wgt::BindGroupLayoutEntry,
        binding: &BufferBinding<'a>,
        arguments: &mut Arguments<'a>,
    ) -> Result<()> {
        let wgt::BindingType::Buffer {
            ty,
            has_dynamic_offset,
            min_binding_size,
        } = slot.ty
        else {
            return Err(invalid!(
                "a buffer is given, but the layout has {:?}",
                slot.ty
            ));
        };
        let limits = &self.device.limits;
        let (usage, uses, alignment, max_size, limit_name) = match ty {
            wgt::BufferBindingType::Uniform => (
                wgt::BufferUsages::UNIFORM,
                wgt::BufferUses::UNIFORM,
                limits.min_uniform_buffer_offset_alignment,
                limits.max_uniform_buffer_binding_size,
                "max_uniform_buffer_binding_size",
            ),
            wgt::BufferBindingType::Storage { read_only } => (
                wgt::BufferUsages::STORAGE,
                if read_only {
                    wgt::BufferUses::STORAGE_READ_ONLY
                } else {
                    wgt::BufferUses::STORAGE_READ_WRITE
                },
                limits.min_storage_buffer_offset_alignment,
                limits.max_storage_buffer_binding_size,
                "max_storage_buffer_binding_size",
            ),
        };
        let BufferBinding {
            buffer,
            offset,
            size,
        } = *binding;
        let name = buffer.name();
        self.device.check_same(&buffer.device, &name)?;
        if !buffer.body.is_valid() {
            return Err(invalid!("{name} is invalid"));
        }
        if !buffer.usage.contains(usage) {
            return Err(invalid!(
                "{name}: the usage {usage:?} is needed, but the buffer has {:?}",
                buffer.usage
            ));
        }
        if !offset.is_multiple_of(u64::from(alignment)) {
            return Err(invalid!(
                "{name}: the offset {offset} must be a multiple of {alignment}"
            ));
        }
        let rest = buffer.size.checked_sub(offset);
        let bound = size.map_or(rest, |size| Some(size.get()));
        let (Some(rest), Some(bound)) = (rest, bound) else {
            return Err(invalid!(
                "{name}: the offset {offset} goes beyond its {} bytes",
                buffer.size
            ));
        };
        if bound > rest {
            return Err(invalid!(
                "{name}: {bound} bytes at {offset} go beyond its {} bytes",
                buffer.size
            ));
        }
        if bound == 0 {
            return Err(invalid!("{name}: nothing is left to bind at {offset}"));
        }
        if bound > max_size {
            return Err(invalid!(
                "{name}: {bound} bytes are more than {limit_name} {max_size}"
            ));
        }
        if usage == wgt::BufferUsages::STORAGE && !bound.is_multiple_of(4) {
            return Err(invalid!(
                "{name}: the size {bound} of a storage binding must be a multiple of 4"
            ));
        }
        if let Some(min) = min_binding_size.filter(|min| bound < min.get()) {
            return Err(invalid!(
                "{name}: {bound} bytes are less than min_binding_size {min}"
            ));
        }
        if has_dynamic_offset {
            self.dynamic.push(Dynamic {
                binding: slot.binding,
                member: self.buffers.len(),
                alignment,
            });
        }
        self.contends |= !wgt::BufferUses::INCLUSIVE.contains(uses);
        self.buffers.push(BufferMember {
            buffer: Arc::clone(buffer),
            offset,
            size: bound,
            dynamic: has_dynamic_offset,
            uses,
        });
        arguments.buffers.push((buffer, offset, bound));
        Ok(())
    }

    /// Makes the HAL's object while everything in it is pinned, links it to its members, and looks
    /// whether they are all still there: a destruction either finds it linked or is found here.
    fn make(&self, arguments: &Arguments<'_>) -> Result<Body<BindGroupRaw>> {
        let lower: &Lower = &self.device.lower;
        let buffers: Option<Vec<Pin<BufferRaw, &Lower>>> = arguments
            .buffers
            .iter()
            .map(|(buffer, ..)| buffer.body.slot()?.pin(lower))
            .collect();
        // A view is of use only while its texture is there. Declared first, so that views go first.
        let textures: Option<Vec<_>> = arguments
            .views
            .iter()
            .map(|(view, _)| view.texture.body.slot()?.pin(lower))
            .collect();
        let views: Option<Vec<_>> = arguments
            .views
            .iter()
            .map(|(view, _)| view.body.slot()?.pin(lower))
            .collect();
        let samplers: Option<Vec<_>> = arguments
            .samplers
            .iter()
            .map(|sampler| sampler.body.slot()?.pin(lower))
            .collect();
        let layout = self.layout.body.slot().and_then(|slot| slot.pin(lower));
        let (Some(buffers), Some(_textures), Some(views), Some(samplers), Some(layout)) =
            (buffers, textures, views, samplers, layout)
        else {
            return Ok(Body::Gone);
        };
        let hal_buffers: Vec<_> = buffers
            .iter()
            .zip(&arguments.buffers)
            .map(|(raw, &(_, offset, size))| {
                hal::BufferBinding::new_unchecked(&*raw.hal, offset, NonZeroU64::new(size))
            })
            .collect();
        let hal_views: Vec<_> = views
            .iter()
            .zip(&arguments.views)
            .map(|(raw, &(_, usage))| hal::TextureBinding {
                view: &***raw,
                usage,
            })
            .collect();
        let hal_samplers: Vec<&dyn hal::DynSampler> = samplers.iter().map(|raw| &***raw).collect();
        let desc = hal::BindGroupDescriptor {
            label: self.device.adapter.hal_label(&self.label),
            layout: &**layout,
            buffers: &hal_buffers,
            samplers: &hal_samplers,
            textures: &hal_views,
            entries: &arguments.entries,
            acceleration_structures: &[],
            external_textures: &[],
        };
        let slot = self.device.create(&self.name(), 0, |hal| {
            // SAFETY: everything is pinned and was checked against the layout.
            unsafe { hal.create_bind_group(&desc) }.map(|hal| BindGroupRaw {
                hal,
                layout: self
                    .layout
                    .body
                    .slot()
                    .and_then(|slot| slot.pin(lower))
                    .map(Pin::detach),
            })
        })?;
        self.link(&slot);
        let present = self
            .buffers
            .iter()
            .all(|member| member.buffer.body.is_present())
            && self.views.iter().all(|member| {
                member.view.body.is_present() && member.view.texture.body.is_present()
            });
        let body = Body::Live(slot);
        if !present {
            body.destroy(lower);
        }
        Ok(body)
    }

    fn link(&self, slot: &Arc<Slot<BindGroupRaw>>) {
        for member in &self.buffers {
            let children = &member.buffer.children;
            children.link(Payload::BindGroup(Arc::clone(slot)));
        }
        for member in &self.views {
            let children = &member.view.texture.children;
            children.link(Payload::BindGroup(Arc::clone(slot)));
        }
    }

    /// The rules of dynamic offsets (specification, `setBindGroup`).
    pub(crate) fn check_offsets(&self, offsets: &[u32]) -> Result<()> {
        let name = self.name();
        if !self.body.is_valid() {
            return Err(invalid!("{name} is invalid"));
        }
        if offsets.len() != self.dynamic.len() {
            return Err(invalid!(
                "{name} needs {} dynamic offsets, but {} are given",
                self.dynamic.len(),
                offsets.len()
            ));
        }
        for (dynamic, &offset) in self.dynamic.iter().zip(offsets) {
            let member = &self.buffers[dynamic.member];
            let binding = dynamic.binding;
            if !offset.is_multiple_of(dynamic.alignment) {
                return Err(invalid!(
                    "{name}: the dynamic offset {offset} of binding {binding} must be a multiple of {}",
                    dynamic.alignment
                ));
            }
            let end = member.offset + member.size + u64::from(offset);
            if end > member.buffer.size {
                return Err(invalid!(
                    "{name}: with the dynamic offset {offset}, binding {binding} ends at {end}, beyond the \
                     {} bytes of {}",
                    member.buffer.size,
                    member.buffer.name()
                ));
            }
        }
        Ok(())
    }
}

/// Whether two views have a subresource in common.
fn overlap(first: &TextureView, second: &TextureView) -> bool {
    let common =
        |a: &std::ops::Range<u32>, b: &std::ops::Range<u32>| a.start < b.end && b.start < a.end;
    let (a, b) = (&first.desc.range, &second.desc.range);
    Arc::ptr_eq(&first.texture, &second.texture)
        && common(&a.mips, &b.mips)
        && common(&a.layers, &b.layers)
}

impl Drop for BindGroup {
    fn drop(&mut self) {
        let Some(slot) = self.body.slot() else { return };
        let key = Payload::BindGroup(Arc::clone(slot)).key();
        for member in &self.buffers {
            member.buffer.children.unlink(key);
        }
        for member in &self.views {
            member.view.texture.children.unlink(key);
        }
        self.body.destroy(&self.device.lower);
    }
}
