//! A jobspec's resources in the names of one model.
//!
//! This module must never know allocations.

use std::collections::BTreeMap;

use fluxgate_formats::constraint::Constraint;
use fluxgate_formats::jobspec::{Count, Jobspec, Resource};
use fluxgate_graph::description::{Model, Name};

/// The need of one level (RFC 14 resource vertex).
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Want {
    pub(crate) type_: Name,
    pub(crate) count: Count,
    pub(crate) exclusive: Option<bool>,
    pub(crate) label: Option<String>,
    pub(crate) with: Vec<Want>,
    /// Least units of each counted type below one of these.
    pub(crate) below: BTreeMap<Name, i64>,
    /// Flow to each of these: subsystem and amount.
    pub(crate) flows: Vec<(Name, u64)>,
}

impl Want {
    /// The number to take if this many are available; 0 if these are too few.
    pub(crate) fn take(&self, there: u64) -> u64 {
        self.count.largest_at_most(there).unwrap_or(0)
    }

    /// The count that suffices.
    pub(crate) fn enough(&self) -> u64 {
        self.take(u64::from(u32::MAX))
    }
}

/// A jobspec compiled for one model: its resources, duration, constraints and queue.
#[derive(Debug, Clone)]
pub struct Request {
    pub(crate) wants: Vec<Want>,
    /// Seconds; 0 means no end.
    pub(crate) duration: i64,
    pub(crate) constraint: Option<Constraint>,
    pub(crate) queue: Option<String>,
    /// True if the request has flow; and true if it has flow outside of a vertex that could use it.
    pub(crate) flowing: (bool, bool),
    /// Equal for equal requests of one matcher; 0 if it has no number.
    pub(crate) shape: u64,
    /// Equal for equal constraints of one matcher; 0 without a constraint or a number.
    pub(crate) terms: u64,
}

impl Request {
    /// Compiles a jobspec with the names of a model. Types that the model lacks are no error: nothing matches them.
    ///
    /// A type that no vertex has, and that is the name of a subsystem, requests flow in it: `count` units from a
    /// source of that subsystem to the vertex that contains the need, or to each of its slots.
    pub fn compile(model: &mut Model, jobspec: &Jobspec) -> Request {
        // A fraction of a second is rounded up, so that the time span is not shorter than the request.
        let duration = jobspec.duration().ceil();
        let duration = if duration >= i64::MAX as f64 { i64::MAX } else { duration as i64 };
        let (mut any, mut outside) = (false, Vec::new());
        let wants = wants(model, &jobspec.resources, &mut outside, &mut any);
        Request {
            wants,
            flowing: (any, !outside.is_empty()),
            duration,
            constraint: jobspec.constraints().cloned(),
            queue: jobspec.queue().map(str::to_owned),
            shape: 0,
            terms: 0,
        }
    }
}

/// The needs of a list; flow in it is added to `flows` of the vertex that contains the list.
fn wants(
    model: &mut Model,
    resources: &[Resource],
    flows: &mut Vec<(Name, u64)>,
    any: &mut bool,
) -> Vec<Want> {
    let mut all = Vec::new();
    for resource in resources {
        let min = resource.count.min();
        if let Some(subsystem) = flow(model, &resource.type_) {
            *any = true;
            flows.push((subsystem, min));
            continue;
        }
        let mut own = Vec::new();
        let with = wants(model, &resource.with, &mut own, any);
        if matches!(&*resource.type_, "slot" | "xor_slot") {
            flows.extend(own.drain(..).map(|(subsystem, units)| (subsystem, units.saturating_mul(min))));
        }
        all.push(Want {
            type_: model.intern(&resource.type_),
            count: resource.count.clone(),
            exclusive: resource.exclusive,
            label: resource.label.clone(),
            with,
            below: BTreeMap::new(),
            flows: own,
        });
    }
    all
}

/// The subsystem in which this type requests flow.
fn flow(model: &Model, type_: &str) -> Option<Name> {
    let name = model.name(type_).filter(|name| model.subsystems().contains(name))?;
    let has_it = |v| model.vertex(v).is_some_and(|it| it.type_() == name);
    (!model.vertices().any(has_it)).then_some(name)
}
