//! The auditor below the core.

use fencepost_audit::{Audited, Auditor};
use fencepost_core::instance::Decorate;
use wgpu_hal::{Api, DynInstance};

/// Puts an auditor around each HAL instance.
pub(crate) struct Audit(pub Auditor);

impl Decorate for Audit {
    fn decorate<A: Api>(&self, instance: A::Instance) -> Box<dyn DynInstance> {
        Box::new(Audited::<A>::wrap(instance, &self.0))
    }
}
