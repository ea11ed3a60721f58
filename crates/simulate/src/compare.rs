//! What the core did beside what the model says.

use crate::{
    event::{Event, SeenError, Status, UNKNOWN},
    model::Model,
    world::World,
};
use fencepost_audit::ObjectKind;
use std::collections::{BTreeMap, HashSet};

/// Where the core and the model part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    /// What kind of difference it is: a program is shrunk as long as this stays.
    pub kind: String,
    pub text: String,
}

fn differ(kind: impl Into<String>, text: impl Into<String>) -> Result<(), Difference> {
    Err(Difference {
        kind: kind.into(),
        text: text.into(),
    })
}

/// What is known of the objects of a lost device, which only ever become fewer.
#[derive(Default)]
struct Lost {
    known: bool,
    labels: HashSet<String>,
    /// What the model had freed when the device was lost, and the core had not.
    late: HashSet<String>,
    ended: bool,
}

/// Compares step by step.
pub(crate) struct Comparison {
    lost: Vec<Lost>,
}

impl Comparison {
    pub fn new(devices: u32) -> Self {
        Self {
            lost: (0..devices).map(|_| Lost::default()).collect(),
        }
    }

    /// After a step. `ghost` says that a loss struck a device that is gone by now.
    pub fn step(
        &mut self,
        world: &mut World,
        model: &mut Model,
        ghost: bool,
    ) -> Result<(), Difference> {
        audit(&world.auditor)?;
        errors(&std::mem::take(&mut world.errors), model)?;
        events(&std::mem::take(&mut world.events), model, ghost)?;
        for (id, (seen, device)) in world
            .in_flight()
            .into_iter()
            .zip(&model.devices)
            .enumerate()
        {
            let expected = if device.lost {
                0
            } else {
                device.submitted - device.completed
            };
            if seen != expected {
                differ(
                    "in flight",
                    format!("device {id} has {seen} submissions in flight, expected {expected}"),
                )?;
            }
        }
        self.objects(world, model)
    }

    fn objects(&mut self, world: &World, model: &mut Model) -> Result<(), Difference> {
        let mut counts: BTreeMap<(u8, &str), (u32, u32, u32)> = BTreeMap::new();
        let live = world.auditor.live_objects();
        let mut encoders = 0;
        for object in &live {
            match object.kind {
                ObjectKind::CommandEncoder => encoders += 1,
                ObjectKind::Fence => {}
                _ => {
                    let label = object.label.as_deref().unwrap_or_default();
                    counts.entry((object.kind as u8, label)).or_default().0 += 1;
                }
            }
        }
        for (payload, sure) in model.existing() {
            let count = counts
                .entry((payload.kind as u8, &payload.label))
                .or_default();
            count.1 += u32::from(sure);
            count.2 += 1;
        }
        let any_lost = model
            .devices
            .iter()
            .any(|device| device.lost && device.exists);
        let mut of_lost: Vec<HashSet<String>> = vec![HashSet::new(); self.lost.len()];
        for ((_, label), (seen, least, most)) in counts {
            let owner = label
                .split('.')
                .next()
                .and_then(|device| device.parse::<usize>().ok());
            if let Some(owner) = owner.filter(|owner| model.devices[*owner].lost) {
                if seen > 0 {
                    of_lost[owner].insert(label.to_owned());
                    let state = &mut self.lost[owner];
                    let gone = most == 0;
                    if !model.devices[owner].exists
                        || (state.known && !state.labels.contains(label))
                    {
                        differ("lost device", format!("{label:?} exists on a lost device"))?;
                    }
                    if !state.known && gone {
                        state.late.insert(label.to_owned());
                    }
                    if state.known && gone && !state.late.contains(label) {
                        differ(
                            "lost device",
                            format!("{label:?} was not freed on a lost device"),
                        )?;
                    }
                }
                continue;
            }
            let shared = any_lost && matches!(label, "zeros" | "staging");
            if seen < least {
                differ(
                    "freed early",
                    format!("{seen} of {label:?} exist, expected at least {least}"),
                )?;
            }
            if seen > most && !shared {
                differ(
                    "not freed",
                    format!("{seen} of {label:?} exist, expected at most {most}"),
                )?;
            }
        }
        for (id, labels) in of_lost.into_iter().enumerate() {
            let device = &model.devices[id];
            let state = &mut self.lost[id];
            if device.lost && !state.ended {
                state.known = true;
                state.labels = labels;
                if !device.exists {
                    state.ended = true;
                    if !device.loose.is_empty() {
                        let text =
                            format!("callbacks {:?} of a lost device never ran", device.loose);
                        differ("callback never ran", text)?;
                    }
                }
            }
        }
        let (least, most) = model.encoders();
        if !any_lost && !(least..=most).contains(&encoders) {
            let text = format!("{encoders} encoders exist, expected {least} to {most}");
            differ("encoders", text)?;
        }
        Ok(())
    }
}

/// Nothing is reported.
pub(crate) fn audit(auditor: &fencepost_audit::Auditor) -> Result<(), Difference> {
    if auditor.report_count() == 0 {
        return Ok(());
    }
    let reports = auditor.reports();
    let kind = format!("audit: {:?}", reports[0].violation);
    let lines: Vec<String> = reports.iter().map(ToString::to_string).collect();
    differ(kind, lines.join("\n"))
}

fn errors(seen: &[SeenError], model: &Model) -> Result<(), Difference> {
    let mut expected: Vec<_> = model.errors.iter().collect();
    for error in seen {
        let device = &model.devices[error.device as usize];
        if device.lost {
            continue;
        }
        match expected.iter().position(|expected| expected.fits(error)) {
            Some(found) => drop(expected.remove(found)),
            None => {
                let text = format!(
                    "unexpected error of device {}: {:?}: {}; expected {expected:?}",
                    error.device, error.kind, error.message
                );
                let kind = if expected.is_empty() {
                    "unexpected error"
                } else {
                    "wrong error"
                };
                return differ(format!("{kind} {:?}", error.kind), text);
            }
        }
    }
    let missing = expected
        .iter()
        .find(|error| !model.devices[error.device as usize].lost);
    match missing {
        Some(missing) => differ(
            format!("missing error {:?}", missing.kind),
            format!("{missing:?}"),
        ),
        None => Ok(()),
    }
}

fn device_of(event: &Event, model: &Model) -> Option<u32> {
    match event {
        Event::Called { callback, .. } => model.callback_device(*callback),
        Event::Held { range, .. } | Event::Bytes { range, .. } => {
            model.range_devices.get(range).copied()
        }
        Event::Polled { device, .. } | Event::Report { device, .. } => Some(*device),
    }
}

fn events(seen: &[Event], model: &mut Model, ghost: bool) -> Result<(), Difference> {
    let mut strict = Vec::new();
    for event in seen {
        let device = device_of(event, model);
        let lost = device.filter(|device| model.devices[*device as usize].lost);
        if let Event::Called { callback, status } = event {
            if ghost && *status == Status::Lost {
                continue;
            }
            if let Some(device) = lost {
                let device = &mut model.devices[device as usize];
                if !device.loose.remove(callback) && !device.loose_lost.remove(callback) {
                    let text = format!("callback {callback} of a lost device ran again");
                    return differ("callback ran twice", text);
                }
            }
        }
        if lost.is_none() {
            strict.push(event);
        }
    }
    let lost = |event: &&Event| {
        let device = device_of(event, model);
        device.is_none_or(|device| !model.devices[device as usize].lost)
    };
    let expected: Vec<_> = model.events.iter().filter(lost).collect();
    for at in 0..strict.len().max(expected.len()) {
        let (seen, expected) = (strict.get(at), expected.get(at));
        let same = match (seen, expected) {
            (Some(seen), Some(expected)) => is_same(seen, expected),
            _ => false,
        };
        if !same {
            let kind = match (seen, expected) {
                (Some(Event::Bytes { .. }), Some(Event::Bytes { .. })) => "contents",
                (Some(Event::Report { .. }), Some(Event::Report { .. })) => "memory report",
                (Some(Event::Called { .. }), None) => "unexpected callback",
                (None, Some(Event::Called { .. })) => "missing callback",
                (Some(Event::Called { .. }), Some(Event::Called { .. })) => "wrong callback",
                _ => "events",
            };
            return differ(kind, format!("seen {seen:?}, expected {expected:?}"));
        }
    }
    Ok(())
}

fn is_same(seen: &Event, expected: &Event) -> bool {
    match (seen, expected) {
        (
            Event::Bytes { range, bytes },
            Event::Bytes {
                range: expected_range,
                bytes: expected,
            },
        ) => {
            range == expected_range
                && bytes.len() == expected.len()
                && bytes
                    .iter()
                    .zip(expected)
                    .all(|(seen, byte)| *byte == UNKNOWN || seen == byte)
        }
        _ => seen == expected,
    }
}
