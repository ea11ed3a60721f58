//! Every failure that is not a loss, at every place where a HAL call can fail.
//!
//! Such a failure is one error in the right scope, with the name of the object that it happened to, or none
//! if the core could make up for it. What used the object may fail validation; nothing else is disturbed:
//! the program's second round works. Callbacks run once and everything is freed in the end.
//!
//! A failed submission is the exception: a back end may have executed a part of it, so the device is lost.

use crate::{
    program::{Log, Program, Reported},
    rig::{assert_clean, auditor, LIMIT},
    watchdog::Watchdog,
};
use fencepost_audit::{Completion, ObjectKind, Site};
use fencepost_core::{
    device::LostReason, instance::RequestDeviceError, Callbacks, ErrorKind, Options, Reclaim,
};
use std::sync::Arc;
use wgpu_hal::DeviceError;
use wgpu_types as wgt;

/// What a run has seen.
struct Run {
    log: Log,
    /// How many of its errors, and of its mappings, belong to the first round.
    first: (usize, usize),
}

impl Run {
    /// The outcomes of the mappings of a round.
    fn outcomes(&self, first: bool) -> Vec<(&'static str, bool)> {
        let (first_half, second_half) = self.log.maps.split_at(self.first.1);
        let maps = if first { first_half } else { second_half };
        maps.iter()
            .map(|map| (map.name, map.calls[0].is_ok()))
            .collect()
    }

    /// How many mappings had another outcome than in a run without a failure.
    fn refused(&self, clean: &Self) -> usize {
        let differs = |first| {
            let (got, clean) = (self.outcomes(first), clean.outcomes(first));
            assert_eq!(got.len(), clean.len());
            got.iter().zip(&clean).filter(|(a, b)| a != b).count()
        };
        differs(true) + differs(false)
    }

    fn errors(&self, first: bool) -> &[Reported] {
        let (first_half, second_half) = self.log.errors.split_at(self.first.0);
        if first {
            first_half
        } else {
            second_half
        }
    }
}

/// Runs the program, with one call made to fail. `Err` if the device could not be opened.
fn run(failure: Option<(Site, u64, DeviceError)>, when: &str) -> Result<Run, RequestDeviceError> {
    let auditor = auditor();
    auditor.clock().set(Completion::ManualOrWaited);
    let clean = failure.is_none();
    if let Some((site, nth, error)) = failure {
        auditor.faults().fail_at(site, nth, error);
    }
    let options = Options {
        reclaim: Reclaim::OnCall,
        callbacks: Callbacks::OnPoll,
        ..Default::default()
    };
    let opened = Program::open(&auditor, options, clean);
    if opened.is_err() {
        assert_clean(&auditor, when);
    }
    let program = opened?;
    let log = Arc::clone(&program.log);
    let mut left = program.round();
    program.wait();
    let first = {
        let log = log.lock();
        (log.errors.len(), log.maps.len())
    };
    left.extend(program.round());
    drop(program.buffer("last", wgt::BufferUsages::COPY_DST, false));
    program.poll(wgt::PollType::Poll);
    drop((left, program));
    let log = std::mem::take(&mut *log.lock());
    log.assert_callbacks(&when);
    assert_clean(&auditor, when);
    Ok(Run { log, first })
}

/// How often the program makes a call at `site`. An occurrence that loses the device cannot be overlooked.
fn occurrences(site: Site, watchdog: &Watchdog) -> u64 {
    for nth in 1.. {
        let when = format!("{site:?}, occurrence {nth}, lost");
        watchdog.step(&*when);
        match run(Some((site, nth, DeviceError::Lost)), &when) {
            Err(error) => assert!(
                matches!(error, RequestDeviceError::Driver(DeviceError::Lost)),
                "{when}: {error}"
            ),
            Ok(Run { log, .. }) => {
                assert!(log.errors.is_empty(), "{when}: {:#?}", log.errors);
                if log.lost.is_empty() {
                    return nth - 1;
                }
                assert_eq!(log.lost, [LostReason::Unknown], "{when}");
            }
        }
    }
    unreachable!()
}

fn fail_everywhere(site: Site) {
    let watchdog = Watchdog::new(LIMIT, "nothing fails");
    let clean = run(None, "nothing fails").expect("nothing fails");
    assert!(clean.log.errors.is_empty(), "{:#?}", clean.log.errors);
    let count = occurrences(site, &watchdog);
    assert!(count > 0, "the program never comes to {site:?}");
    let mut silent = 0;
    for error in [DeviceError::OutOfMemory, DeviceError::Unexpected] {
        for nth in 1..=count {
            let when = format!("{site:?}, occurrence {nth} of {count}, {error:?}");
            watchdog.step(&*when);
            match run(Some((site, nth, error.clone())), &when) {
                Err(RequestDeviceError::Driver(told)) if told == error => {}
                Err(other) => panic!("{when}: {other}"),
                Ok(run) => silent += u32::from(check(site, &error, &run, &clean, &when)),
            }
        }
    }
    println!("{site:?}: {count} occurrences, {silent} failures without an error");
}

/// Whether the failure went without an error, as it may.
fn check(site: Site, injected: &DeviceError, run: &Run, clean: &Run, when: &str) -> bool {
    let errors = &run.log.errors;
    if site == Site::Submit {
        assert!(errors.is_empty(), "{when}: {errors:#?}");
        assert_eq!(run.log.lost, [LostReason::Unknown], "{when}");
        return true;
    }
    assert!(run.log.lost.is_empty(), "{when}: the device was lost");
    let kind = match injected {
        DeviceError::OutOfMemory => ErrorKind::OutOfMemory,
        _ => ErrorKind::Internal,
    };
    let Some(first) = errors.first() else {
        match site {
            // Whoever waited can poll again.
            Site::Wait => {}
            // The outcome of the mapping says it.
            Site::Map if run.refused(clean) == 1 => {}
            _ => {
                let made_up_for = kind == ErrorKind::OutOfMemory && run.refused(clean) == 0;
                assert!(made_up_for, "{when}: nothing was reported");
            }
        }
        return true;
    };
    assert_eq!(first.kind, kind, "{when}: {first:?}");
    assert!(first.message.contains(first.step), "{when}: {first:?}");
    for error in &errors[1..] {
        let consequence = error.kind == ErrorKind::Validation && error.message.contains("invalid");
        assert!(consequence, "{when}: after {first:?} came {error:?}");
    }
    if !run.errors(true).is_empty() {
        let second = run.errors(false);
        assert!(
            second.is_empty(),
            "{when}: in the second round: {second:#?}"
        );
        assert_eq!(run.outcomes(false), clean.outcomes(false), "{when}");
    }
    false
}

macro_rules! sites {
    ($($test:ident: $site:expr;)*) => {$(
        #[test]
        fn $test() {
            fail_everywhere($site);
        }
    )*};
}

sites! {
    buffers_fail: Site::Create(ObjectKind::Buffer);
    textures_fail: Site::Create(ObjectKind::Texture);
    texture_views_fail: Site::Create(ObjectKind::TextureView);
    samplers_fail: Site::Create(ObjectKind::Sampler);
    query_sets_fail: Site::Create(ObjectKind::QuerySet);
    bind_group_layouts_fail: Site::Create(ObjectKind::BindGroupLayout);
    bind_groups_fail: Site::Create(ObjectKind::BindGroup);
    pipeline_layouts_fail: Site::Create(ObjectKind::PipelineLayout);
    shader_modules_fail: Site::Create(ObjectKind::ShaderModule);
    compute_pipelines_fail: Site::Create(ObjectKind::ComputePipeline);
    pipeline_caches_fail: Site::Create(ObjectKind::PipelineCache);
    fences_fail: Site::Create(ObjectKind::Fence);
    command_encoders_fail: Site::Create(ObjectKind::CommandEncoder);
    beginnings_of_encodings_fail: Site::BeginEncoding;
    ends_of_encodings_fail: Site::EndEncoding;
    mappings_fail: Site::Map;
    waits_fail: Site::Wait;
    submissions_fail: Site::Submit;
}
