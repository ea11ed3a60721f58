//! Which adapter is best for a program.

use wgpu_types as wgt;

/// What the choice depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub device_type: wgt::DeviceType,
    pub backend: wgt::Backend,
}

/// Which kind of GPU comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Preference {
    /// The first that does work, in the order of the back ends.
    None,
    LowPower,
    HighPerformance,
}

impl From<wgt::PowerPreference> for Preference {
    fn from(preference: wgt::PowerPreference) -> Self {
        match preference {
            wgt::PowerPreference::None => Self::None,
            wgt::PowerPreference::LowPower => Self::LowPower,
            wgt::PowerPreference::HighPerformance => Self::HighPerformance,
        }
    }
}

/// The index of the best of the candidates; of equals, the first.
pub(super) fn best(candidates: &[Candidate], preference: Preference) -> Option<usize> {
    (0..candidates.len()).min_by_key(|&index| rank(candidates[index], preference))
}

/// A lower rank is better.
///
/// A type of `Other` stands for an interface that does not tell, so an adapter that is known to be a GPU
/// goes first. Software goes last, and what does nothing at all after that.
fn rank(candidate: Candidate, preference: Preference) -> u8 {
    use wgt::DeviceType::*;
    if candidate.backend == wgt::Backend::Noop {
        return 5;
    }
    match (candidate.device_type, preference) {
        (DiscreteGpu, Preference::HighPerformance) | (IntegratedGpu, Preference::LowPower) => 0,
        (DiscreteGpu | IntegratedGpu, Preference::None) => 0,
        (DiscreteGpu | IntegratedGpu, _) => 1,
        (Other, _) => 2,
        (VirtualGpu, _) => 3,
        (Cpu, _) => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wgt::DeviceType::*;

    fn choose(types: &[wgt::DeviceType], preference: Preference) -> Option<wgt::DeviceType> {
        let candidates: Vec<_> = types
            .iter()
            .map(|&device_type| Candidate {
                device_type,
                backend: wgt::Backend::Vulkan,
            })
            .collect();
        best(&candidates, preference).map(|index| types[index])
    }

    #[test]
    fn there_may_be_none() {
        assert_eq!(choose(&[], Preference::None), None);
    }

    #[test]
    fn power_preference_orders_gpus() {
        let both = [Cpu, IntegratedGpu, DiscreteGpu];
        assert_eq!(choose(&both, Preference::LowPower), Some(IntegratedGpu));
        assert_eq!(
            choose(&both, Preference::HighPerformance),
            Some(DiscreteGpu)
        );
        assert_eq!(choose(&both, Preference::None), Some(IntegratedGpu));
        let reversed = [DiscreteGpu, IntegratedGpu];
        assert_eq!(choose(&reversed, Preference::None), Some(DiscreteGpu));
        assert_eq!(choose(&reversed, Preference::LowPower), Some(IntegratedGpu));
    }

    #[test]
    fn software_comes_last() {
        for preference in [
            Preference::None,
            Preference::LowPower,
            Preference::HighPerformance,
        ] {
            let order = [IntegratedGpu, Other, VirtualGpu, Cpu];
            for first in 0..order.len() {
                let mut types = order[first..].to_vec();
                types.reverse();
                assert_eq!(choose(&types, preference), Some(order[first]));
            }
        }
    }

    #[test]
    fn doing_nothing_comes_after_everything() {
        let candidate = |device_type, backend| Candidate {
            device_type,
            backend,
        };
        let candidates = [
            candidate(DiscreteGpu, wgt::Backend::Noop),
            candidate(Cpu, wgt::Backend::Gl),
        ];
        assert_eq!(best(&candidates, Preference::HighPerformance), Some(1));
        assert_eq!(best(&candidates[..1], Preference::None), Some(0));
    }

    #[test]
    fn of_equals_the_first_is_taken() {
        let candidate = |backend| Candidate {
            device_type: Cpu,
            backend,
        };
        let candidates = [candidate(wgt::Backend::Vulkan), candidate(wgt::Backend::Gl)];
        assert_eq!(best(&candidates, Preference::None), Some(0));
    }
}
