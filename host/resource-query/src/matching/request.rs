//! A jobspec's resources in the names of one model.
//!
//! This module must never know what is free.

use std::collections::BTreeMap;

use fluxgate_formats::constraint::Constraint;
use fluxgate_formats::jobspec::{Count, Jobspec, Resource};
use fluxgate_graph::description::{Model, Name};

/// What a request asks of one level (RFC 14 resource vertex).
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Want {
    pub(crate) type_: Name,
    pub(crate) count: Count,
    pub(crate) exclusive: Option<bool>,
    pub(crate) label: Option<String>,
    pub(crate) with: Vec<Want>,
    /// Least units of each counted type that one of these needs below it.
    pub(crate) below: BTreeMap<Name, i64>,
    /// Flow that one of these needs: in which subsystem, and how much.
    pub(crate) flows: Vec<(Name, u64)>,
}

impl Want {
    /// How many of them to take when so many are there; 0 when these are too few.
    pub(crate) fn take(&self, there: u64) -> u64 {
        self.count.largest_at_most(there).unwrap_or(0)
    }

    /// How many of them are enough.
    pub(crate) fn enough(&self) -> u64 {
        self.take(u64::from(u32::MAX))
    }
}

/// A jobspec, ready to be matched on the model it was compiled for.
#[derive(Debug, Clone)]
pub struct Request {
    pub(crate) wants: Vec<Want>,
    /// Seconds; 0 means without end.
    pub(crate) duration: i64,
    pub(crate) constraint: Option<Constraint>,
    pub(crate) queue: Option<String>,
    /// True when flow is asked for at all, and when it is asked for where there is nothing that could use it.
    pub(crate) flowing: (bool, bool),
    /// The same for equal requests of one matcher; 0 when nobody numbered it.
    pub(crate) shape: u64,
    /// The same for equal constraints of one matcher; 0 when there is none or nobody numbered it.
    pub(crate) terms: u64,
}

impl Request {
    /// Names the types of a jobspec in a model. Types the model does not have are no error: nothing will match them.
    ///
    /// A type that no vertex has, and that is the name of a subsystem, asks for flow in it: `count` units from a source
    /// of that subsystem to the vertex that it is asked inside of, or to each of its slots.
    pub fn compile(model: &mut Model, jobspec: &Jobspec) -> Request {
        // A fraction of a second counts as one: rather reserve a little more than nothing.
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

/// What is asked for; the flow in it goes to `flows` of what it is asked inside of.
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

/// The subsystem that this asks for flow in.
fn flow(model: &Model, type_: &str) -> Option<Name> {
    let name = model.name(type_).filter(|name| model.subsystems().contains(name))?;
    let has_it = |v| model.vertex(v).is_some_and(|it| it.type_() == name);
    (!model.vertices().any(has_it)).then_some(name)
}
