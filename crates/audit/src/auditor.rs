//! The handle that a test or a program keeps: settings, reports, and the way every call takes.

use crate::{
    clock::{Clock, Completion},
    fault::{FaultState, Faults, Site},
    ledger::{Key, Ledger},
    report::{Finding, ObjectInfo, ObjectKind, Report},
};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::{
    backtrace::Backtrace,
    fmt,
    sync::{
        atomic::{AtomicU64, Ordering},
        Arc,
    },
};
use wgpu_hal as hal;

/// How many reports an [`Auditor`] keeps. Later ones are still counted, logged and panicked on.
pub const MAX_REPORTS: usize = 1024;

/// Which contract the user is held to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Contract {
    /// What `wgpu-hal` documents: everything that a *submitted* command buffer uses must live until it
    /// has completed. What only an unsubmitted command buffer refers to may be destroyed, if the command
    /// buffer is then never submitted.
    #[default]
    Standard,
    /// What a command buffer without references of its own needs (Metal with unretained references,
    /// Metal 4): everything that it refers to must live from the first encoding call that names it until
    /// the command buffer has completed, was discarded or was reset.
    Strict,
}

/// What becomes of a report, apart from being kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AuditMode {
    /// Nothing: the program asks for [`Auditor::reports`].
    Collect,
    /// It goes to `log::error!`, with its backtrace.
    #[default]
    Log,
    /// The thread panics, in the call that broke the rule and before the backend sees it. A thread that
    /// is panicking already logs.
    Panic,
}

#[derive(Debug, Default)]
struct Reports {
    kept: Vec<Report>,
    total: u64,
    mode: AuditMode,
}

/// Everything that one lock protects.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub ledger: Ledger,
    pub faults: FaultState,
    pub completion: Completion,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Rung when a submission completes or a device is lost.
    tick: Condvar,
    reports: Mutex<Reports>,
    calls: AtomicU64,
}

/// Settings, reports, clock and faults of one or more audited instances. Clones are the same auditor.
///
/// # Examples
///
/// ```
/// use fencepost_audit::{AuditMode, Auditor, Contract};
///
/// let auditor = Auditor::new(Contract::Strict, AuditMode::Collect);
/// assert!(auditor.reports().is_empty());
/// ```
#[derive(Clone, Default)]
pub struct Auditor(Arc<Shared>);

impl fmt::Debug for Auditor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Auditor")
            .field("reports", &self.report_count())
            .field("calls", &self.calls())
            .finish_non_exhaustive()
    }
}

impl Auditor {
    /// An auditor that has seen nothing yet. [`Auditor::default`] logs, and holds to the standard contract.
    pub fn new(contract: Contract, mode: AuditMode) -> Self {
        let this = Self::default();
        this.state().ledger.strict = contract == Contract::Strict;
        this.0.reports.lock().mode = mode;
        this
    }

    /// Reports also what is destroyed while a *completed* command buffer that refers to it was not reset
    /// yet ([`DestroyedBeforeReset`](crate::Violation::DestroyedBeforeReset)). Off at first: neither
    /// contract asks for it; Fencepost asks it of itself.
    pub fn set_reset_before_free(&self, on: bool) {
        self.state().ledger.reset_before_free = on;
    }

    /// What becomes of reports from here on.
    pub fn set_mode(&self, mode: AuditMode) {
        self.0.reports.lock().mode = mode;
    }

    /// The first [`MAX_REPORTS`] reports, oldest first.
    pub fn reports(&self) -> Vec<Report> {
        self.0.reports.lock().kept.clone()
    }

    /// Takes the reports out, so that there is room for more.
    pub fn take_reports(&self) -> Vec<Report> {
        std::mem::take(&mut self.0.reports.lock().kept)
    }

    /// How many reports there have been, kept or not.
    pub fn report_count(&self) -> u64 {
        self.0.reports.lock().total
    }

    /// How many calls a device, its queue and its encoders have taken: the scale of
    /// [`Faults::lose_device_at`].
    pub fn calls(&self) -> u64 {
        self.0.calls.load(Ordering::Relaxed)
    }

    /// Live buffers and textures of all devices, in bytes, as their descriptors say (without alignment).
    pub fn live_bytes(&self) -> u64 {
        self.state().ledger.live_bytes
    }

    /// What exists now, of all devices, oldest first. Encoders may outlive their device; the rest is reported
    /// when it does.
    pub fn live_objects(&self) -> Vec<ObjectInfo> {
        let ledger = &self.state().ledger;
        let live = ledger.live(None).into_iter();
        live.map(|key| ledger.info(key)).collect()
    }

    /// When submissions complete.
    pub fn clock(&self) -> Clock {
        Clock::new(self.clone())
    }

    /// What goes wrong on purpose.
    pub fn faults(&self) -> Faults {
        Faults::new(self.clone())
    }
}

/// For the wrappers.
impl Auditor {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }

    pub(crate) fn tick(&self) -> &Condvar {
        &self.0.tick
    }

    /// Runs one rule and reports what it finds, outside of the lock. The flag says whether something
    /// was found.
    pub(crate) fn rule<R>(
        &self,
        call: &'static str,
        rule: impl FnOnce(&mut State, &mut Vec<Finding>) -> R,
    ) -> (R, bool) {
        let mut found = Vec::new();
        let result = rule(&mut self.state(), &mut found);
        let any = !found.is_empty();
        if any {
            self.report(call, found);
        }
        (result, any)
    }

    #[cold]
    pub(crate) fn report(&self, call: &'static str, found: Vec<Finding>) {
        let backtrace = Arc::new(Backtrace::force_capture());
        let mut first = None;
        for finding in found {
            let report = Report {
                violation: finding.violation,
                call,
                device: finding.device,
                object: finding.object,
                command_buffer: finding.command_buffer,
                submission: finding.submission,
                detail: finding.detail,
                backtrace: Arc::clone(&backtrace),
            };
            let mut reports = self.0.reports.lock();
            reports.total += 1;
            if reports.kept.len() < MAX_REPORTS {
                reports.kept.push(report.clone());
            }
            let mode = reports.mode;
            drop(reports);
            match mode {
                AuditMode::Collect => {}
                AuditMode::Panic if !std::thread::panicking() => {
                    first.get_or_insert(report);
                }
                AuditMode::Log | AuditMode::Panic => log::error!("{report}\n{backtrace}"),
            }
        }
        if let Some(report) = first {
            panic!("{report}");
        }
    }

    /// Counts a call that a device takes and lets the faults have their way. `Err` if it must fail.
    ///
    /// The flag says whether the device was lost just now: its real work should then be waited for,
    /// since the user is going to free everything.
    pub(crate) fn enter(
        &self,
        device: u64,
        site: Option<Site>,
        bytes: u64,
    ) -> (Result<(), hal::DeviceError>, bool) {
        self.0.calls.fetch_add(1, Ordering::Relaxed);
        let mut state = self.state();
        let State { ledger, faults, .. } = &mut *state;
        let used = ledger.live_bytes + ledger.promised_bytes;
        let mut error = faults.strike(site, used, bytes);
        let mut fresh = false;
        if error == Some(hal::DeviceError::Lost) {
            fresh = ledger.lose(device);
            self.0.tick.notify_all();
        }
        if ledger.is_lost(device) {
            error = Some(hal::DeviceError::Lost);
        }
        if error.is_none() {
            ledger.promised_bytes += bytes;
        }
        (error.map_or(Ok(()), Err), fresh)
    }

    /// Looks at what the backend returned: a lost device is lost from there on.
    pub(crate) fn track<T, E: Loss>(&self, device: u64, result: Result<T, E>) -> Result<T, E> {
        if result.as_ref().is_err_and(Loss::is_loss) {
            self.state().ledger.lose(device);
            self.0.tick.notify_all();
        }
        result
    }

    pub(crate) fn born(
        &self,
        kind: ObjectKind,
        label: Option<&str>,
        device: u64,
        direct: &[Key],
        bytes: u64,
    ) -> u64 {
        self.state().ledger.born(kind, label, device, direct, bytes)
    }
}

/// The errors of `wgpu-hal` that can say that the device is lost.
pub(crate) trait Loss {
    fn is_loss(&self) -> bool;
}

impl Loss for hal::DeviceError {
    fn is_loss(&self) -> bool {
        *self == Self::Lost
    }
}

macro_rules! loss {
    ($($error:ident)*) => {$(
        impl Loss for hal::$error {
            fn is_loss(&self) -> bool {
                matches!(self, Self::Device(hal::DeviceError::Lost))
            }
        }
    )*};
}
loss!(ShaderError PipelineError PipelineCacheError SurfaceError);
