//! Samplers (specification, `GPUSampler`).

use super::Body;
use crate::{
    device::Device,
    error::{invalid, Named, Result},
};
use std::sync::Arc;
use wgpu_hal as hal;
use wgpu_types as wgt;

/// What a program asks for when it creates a sampler.
pub type SamplerDescriptor<'a> = wgt::SamplerDescriptor<Option<&'a str>>;

/// A sampler. Made by [`Device::create_sampler`].
#[derive(Debug)]
pub struct Sampler {
    pub(crate) device: Arc<Device>,
    label: String,
    /// Whether it compares.
    pub(crate) comparison: bool,
    /// Whether it filters in any direction, so that only filterable textures go with it.
    pub(crate) filtering: bool,
    pub(crate) body: Body<Box<dyn hal::DynSampler>>,
}

impl Device {
    /// Creates a sampler (specification, `GPUDevice.createSampler`).
    ///
    /// # Errors
    ///
    /// Reported to the device: a validation error that names the rule and the values, or out of memory.
    /// The sampler is invalid then.
    pub fn create_sampler(self: &Arc<Self>, desc: &SamplerDescriptor) -> Arc<Sampler> {
        let body = create(self, desc);
        let body = self
            .report_if_err("Device::create_sampler", body)
            .unwrap_or(Body::Invalid);
        Arc::new(Sampler {
            device: Arc::clone(self),
            label: desc.label.unwrap_or_default().into(),
            comparison: desc.compare.is_some(),
            filtering: desc.mag_filter == wgt::FilterMode::Linear
                || desc.min_filter == wgt::FilterMode::Linear
                || desc.mipmap_filter == wgt::MipmapFilterMode::Linear,
            body,
        })
    }
}

impl Sampler {
    /// The label, empty if there is none.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// The sampler in a message.
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

    /// Checks the sampler against a binding of a layout (specification, `createBindGroup`).
    pub(crate) fn check_binding(&self, ty: &wgt::BindingType) -> Result<()> {
        self.check_valid()?;
        let wgt::BindingType::Sampler(ty) = *ty else {
            return Err(invalid!(
                "{} is given, but the layout has {ty:?}",
                self.name()
            ));
        };
        if fits(ty, self.comparison, self.filtering) {
            return Ok(());
        }
        Err(invalid!(
            "{} {} and {}, which does not go with a layout for a {ty:?} sampler",
            self.name(),
            if self.comparison {
                "compares"
            } else {
                "does not compare"
            },
            if self.filtering {
                "filters"
            } else {
                "does not filter"
            },
        ))
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.body.destroy(&self.device.lower);
    }
}

/// Whether a sampler may be bound where a layout says `ty`.
fn fits(ty: wgt::SamplerBindingType, comparison: bool, filtering: bool) -> bool {
    match ty {
        wgt::SamplerBindingType::Filtering => !comparison,
        wgt::SamplerBindingType::NonFiltering => !comparison && !filtering,
        wgt::SamplerBindingType::Comparison => comparison,
    }
}

fn name_of(label: &str) -> Named<'_> {
    Named {
        kind: "Sampler",
        label,
    }
}

fn create(device: &Device, desc: &SamplerDescriptor) -> Result<Body<Box<dyn hal::DynSampler>>> {
    device.check_alive()?;
    let label = desc.label.unwrap_or_default();
    let what = name_of(label);
    let downlevel = device.adapter.downlevel().flags;
    device
        .require_features(needed_features(desc))
        .and_then(|()| check(desc, downlevel))
        .map_err(|error| error.within(what))?;
    let hal_desc = hal::SamplerDescriptor {
        label: device.adapter.hal_label(label),
        address_modes: [
            desc.address_mode_u,
            desc.address_mode_v,
            desc.address_mode_w,
        ],
        mag_filter: desc.mag_filter,
        min_filter: desc.min_filter,
        mipmap_filter: desc.mipmap_filter,
        lod_clamp: desc.lod_min_clamp.min(f32::MAX)..desc.lod_max_clamp.min(f32::MAX),
        compare: desc.compare,
        anisotropy_clamp: anisotropy(desc.anisotropy_clamp, downlevel),
        border_color: desc.border_color,
    };
    let slot = device.create(&what, 0, |hal| {
        // SAFETY: the description has passed every rule of WebGPU's, and the anisotropy is within what
        // the HAL asks for.
        unsafe { hal.create_sampler(&hal_desc) }
    })?;
    Ok(Body::Live(slot))
}

fn needed_features(desc: &SamplerDescriptor) -> wgt::Features {
    let modes = [
        desc.address_mode_u,
        desc.address_mode_v,
        desc.address_mode_w,
    ];
    let mut needed = wgt::Features::empty();
    if modes.contains(&wgt::AddressMode::ClampToBorder) {
        needed |= wgt::Features::ADDRESS_MODE_CLAMP_TO_BORDER;
    }
    if desc.border_color == Some(wgt::SamplerBorderColor::Zero) {
        needed |= wgt::Features::ADDRESS_MODE_CLAMP_TO_ZERO;
    }
    needed
}

fn check(desc: &SamplerDescriptor, downlevel: wgt::DownlevelFlags) -> Result<()> {
    let (lod_min, lod_max) = (desc.lod_min_clamp, desc.lod_max_clamp);
    // Neither comparison holds for a number that is none.
    let ordered = lod_min >= 0.0 && lod_max >= lod_min;
    if !ordered {
        return Err(invalid!(
            "lod_min_clamp {lod_min} and lod_max_clamp {lod_max} are not 0 <= min <= max"
        ));
    }
    if desc.anisotropy_clamp == 0 {
        return Err(invalid!("anisotropy_clamp is 0, it must be at least 1"));
    }
    if desc.anisotropy_clamp > 1 {
        let linear = [
            ("mag_filter", desc.mag_filter == wgt::FilterMode::Linear),
            ("min_filter", desc.min_filter == wgt::FilterMode::Linear),
            (
                "mipmap_filter",
                desc.mipmap_filter == wgt::MipmapFilterMode::Linear,
            ),
        ];
        for (name, linear) in linear {
            if !linear {
                return Err(invalid!(
                    "{name} must be Linear with anisotropy_clamp {}, which is more than 1",
                    desc.anisotropy_clamp
                ));
            }
        }
    }
    if desc.compare.is_some() && !downlevel.contains(wgt::DownlevelFlags::COMPARISON_SAMPLERS) {
        return Err(invalid!(
            "this adapter has no comparison samplers (it lacks COMPARISON_SAMPLERS)"
        ));
    }
    Ok(())
}

/// The anisotropy that the HAL is asked for. WebGPU clamps it to what there is.
fn anisotropy(clamp: u16, downlevel: wgt::DownlevelFlags) -> u16 {
    if downlevel.contains(wgt::DownlevelFlags::ANISOTROPIC_FILTERING) {
        clamp.clamp(1, 16)
    } else {
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: wgt::DownlevelFlags = wgt::DownlevelFlags::all();

    fn message(desc: &SamplerDescriptor, downlevel: wgt::DownlevelFlags) -> String {
        check(desc, downlevel).unwrap_err().to_string()
    }

    #[test]
    fn the_default_is_valid() {
        let desc = SamplerDescriptor::default();
        assert!(check(&desc, ALL).is_ok());
        assert!(needed_features(&desc).is_empty());
    }

    #[test]
    fn lod_clamps_are_ordered() {
        let with = |lod_min_clamp, lod_max_clamp| SamplerDescriptor {
            lod_min_clamp,
            lod_max_clamp,
            ..Default::default()
        };
        for (min, max) in [
            (0.0, 0.0),
            (1.0, 1.0),
            (0.0, f32::MAX),
            (0.0, f32::INFINITY),
        ] {
            assert!(check(&with(min, max), ALL).is_ok(), "{min} {max}");
        }
        for (min, max) in [
            (-0.5, 1.0),
            (1.0, 0.5),
            (f32::NAN, 1.0),
            (0.0, f32::NAN),
            (f32::INFINITY, 1.0),
        ] {
            let message = message(&with(min, max), ALL);
            assert!(message.contains("lod_min_clamp"), "{min} {max}: {message}");
        }
    }

    #[test]
    fn anisotropy_needs_linear_filters() {
        let linear = SamplerDescriptor {
            mag_filter: wgt::FilterMode::Linear,
            min_filter: wgt::FilterMode::Linear,
            mipmap_filter: wgt::MipmapFilterMode::Linear,
            anisotropy_clamp: 2,
            ..Default::default()
        };
        assert!(check(&linear, ALL).is_ok());
        let spoilt = [
            SamplerDescriptor {
                mag_filter: wgt::FilterMode::Nearest,
                ..linear.clone()
            },
            SamplerDescriptor {
                min_filter: wgt::FilterMode::Nearest,
                ..linear.clone()
            },
            SamplerDescriptor {
                mipmap_filter: wgt::MipmapFilterMode::Nearest,
                ..linear.clone()
            },
        ];
        for (desc, name) in spoilt
            .iter()
            .zip(["mag_filter", "min_filter", "mipmap_filter"])
        {
            assert!(message(desc, ALL).contains(name));
            let one = SamplerDescriptor {
                anisotropy_clamp: 1,
                ..desc.clone()
            };
            assert!(check(&one, ALL).is_ok());
        }
        let zero = SamplerDescriptor {
            anisotropy_clamp: 0,
            ..linear
        };
        assert!(message(&zero, ALL).contains("anisotropy_clamp is 0"));
    }

    #[test]
    fn anisotropy_is_clamped_to_what_there_is() {
        assert_eq!(anisotropy(16, ALL), 16);
        assert_eq!(anisotropy(17, ALL), 16);
        assert_eq!(anisotropy(u16::MAX, ALL), 16);
        assert_eq!(anisotropy(16, wgt::DownlevelFlags::empty()), 1);
    }

    #[test]
    fn comparison_needs_its_downlevel_flag() {
        let desc = SamplerDescriptor {
            compare: Some(wgt::CompareFunction::Less),
            ..Default::default()
        };
        assert!(check(&desc, ALL).is_ok());
        let without = ALL - wgt::DownlevelFlags::COMPARISON_SAMPLERS;
        assert!(message(&desc, without).contains("COMPARISON_SAMPLERS"));
    }

    #[test]
    fn borders_need_features() {
        let border = SamplerDescriptor {
            address_mode_w: wgt::AddressMode::ClampToBorder,
            border_color: Some(wgt::SamplerBorderColor::Zero),
            ..Default::default()
        };
        assert_eq!(
            needed_features(&border),
            wgt::Features::ADDRESS_MODE_CLAMP_TO_BORDER | wgt::Features::ADDRESS_MODE_CLAMP_TO_ZERO
        );
    }

    #[test]
    fn bindings_tell_comparing_and_filtering_apart() {
        use wgt::SamplerBindingType as Type;
        // Comparing, filtering, and the bindings that go with it.
        for (comparison, filtering, fitting) in [
            (false, false, &[Type::Filtering, Type::NonFiltering][..]),
            (false, true, &[Type::Filtering]),
            (true, false, &[Type::Comparison]),
            (true, true, &[Type::Comparison]),
        ] {
            for ty in [Type::Filtering, Type::NonFiltering, Type::Comparison] {
                assert_eq!(
                    fits(ty, comparison, filtering),
                    fitting.contains(&ty),
                    "{comparison} {filtering} {ty:?}"
                );
            }
        }
    }
}
