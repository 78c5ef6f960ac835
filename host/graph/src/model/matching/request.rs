//! What a jobspec asks for, in the names of one model.
//!
//! This module must never know what is free.

use std::collections::BTreeMap;

use fluxgate_formats::constraint::Constraint;
use fluxgate_formats::jobspec::{Count, Jobspec, Resource};

use crate::model::graph::Model;
use crate::names::Name;

/// What a request asks of one level (RFC 14 resource vertex).
#[derive(Debug, Clone)]
pub(crate) struct Want {
    pub(crate) type_: Name,
    pub(crate) count: Count,
    pub(crate) exclusive: Option<bool>,
    pub(crate) label: Option<String>,
    pub(crate) with: Vec<Want>,
    /// Least units of each counted type that one of these needs below it.
    pub(crate) below: BTreeMap<Name, i64>,
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
}

impl Request {
    /// Names the types of a jobspec in a model. Types the model does not have are no error: nothing will match them.
    pub fn compile(model: &mut Model, jobspec: &Jobspec) -> Request {
        // A fraction of a second counts as one: rather reserve a little more than nothing.
        let duration = jobspec.duration().ceil();
        let duration = if duration >= i64::MAX as f64 { i64::MAX } else { duration as i64 };
        Request {
            wants: wants(model, &jobspec.resources),
            duration,
            constraint: jobspec.constraints().cloned(),
            queue: jobspec.queue().map(str::to_owned),
        }
    }
}

fn wants(model: &mut Model, resources: &[Resource]) -> Vec<Want> {
    let want = |resource: &Resource| Want {
        type_: model.names.intern(&resource.type_),
        count: resource.count.clone(),
        exclusive: resource.exclusive,
        label: resource.label.clone(),
        with: wants(model, &resource.with),
        below: BTreeMap::new(),
    };
    resources.iter().map(want).collect()
}
