//! Automatic layouts: what the stages of a pipeline need, put together.

use crate::error::{invalid, Result};
use std::collections::{btree_map::Entry, BTreeMap};
use wgpu_types as wgt;

/// The automatic layout of a pipeline, collected from its stages.
#[derive(Debug, Default)]
pub(crate) struct DerivedLayout {
    groups: Vec<BTreeMap<u32, wgt::BindGroupLayoutEntry>>,
    /// The size in bytes of its immediate data.
    pub immediate_size: u32,
}

impl DerivedLayout {
    pub(super) fn add(
        &mut self,
        group: u32,
        entry: wgt::BindGroupLayoutEntry,
        limits: &wgt::Limits,
    ) -> Result<()> {
        if group >= limits.max_bind_groups {
            return Err(invalid!(
                "the group must be less than max_bind_groups {}",
                limits.max_bind_groups
            ));
        }
        let group = group as usize;
        if group >= self.groups.len() {
            self.groups.resize_with(group + 1, BTreeMap::new);
        }
        match self.groups[group].entry(entry.binding) {
            Entry::Vacant(vacant) => {
                vacant.insert(entry);
            }
            Entry::Occupied(mut before) => {
                let before = before.get_mut();
                let ty = merge(before.ty, entry.ty).filter(|_| before.count == entry.count);
                before.ty = ty.ok_or_else(|| {
                    invalid!(
                        "one stage needs {:?}, another {:?}, so there is no automatic layout",
                        before.ty,
                        entry.ty
                    )
                })?;
                before.visibility |= entry.visibility;
            }
        }
        Ok(())
    }

    /// The entries of each group, sorted by binding number. The last group is not empty.
    pub fn groups(&self) -> Vec<Vec<wgt::BindGroupLayoutEntry>> {
        let groups = self.groups.iter();
        groups
            .map(|group| group.values().copied().collect())
            .collect()
    }
}

/// What satisfies two stages that use the same binding.
fn merge(a: wgt::BindingType, b: wgt::BindingType) -> Option<wgt::BindingType> {
    use wgt::{BindingType as Type, TextureSampleType as Sample};

    match (a, b) {
        (
            Type::Buffer {
                ty,
                has_dynamic_offset,
                min_binding_size: a,
            },
            Type::Buffer {
                ty: other,
                min_binding_size: b,
                ..
            },
        ) if ty == other => Some(Type::Buffer {
            ty,
            has_dynamic_offset,
            min_binding_size: a.max(b),
        }),
        (
            Type::Texture {
                sample_type: Sample::Float { filterable: a },
                view_dimension,
                multisampled,
            },
            Type::Texture {
                sample_type: Sample::Float { filterable: b },
                view_dimension: dimension,
                multisampled: multi,
            },
        ) if (view_dimension, multisampled) == (dimension, multi) => Some(Type::Texture {
            sample_type: Sample::Float { filterable: a || b },
            view_dimension,
            multisampled,
        }),
        (a, b) => (a == b).then_some(a),
    }
}
