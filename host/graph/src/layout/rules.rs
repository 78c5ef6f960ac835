//! Rules of a site about what requests take: pools that are granted by unit, and attributes that bind a job to the nodes below
//! some vertices.
//!
//! This module must never know a request.

use std::collections::{BTreeMap, BTreeSet};

use fluxgate_formats::constraint::Constraint;
use fluxgate_formats::{Idset, Jobspec};
use serde::{Deserialize, Serialize};

use crate::description::names::Name;
use crate::layout::graph::Graph;
use crate::layout::site::Spot;

/// Rules of a site about the resources of jobs, beside their jobspecs. The default has none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SiteRules {
    /// Types of vertices above nodes or beside them, such as `ssd`. A request takes as many units of them as it names, also
    /// where it is exclusive; without the rule an exclusive request takes whole vertices.
    pub by_unit: BTreeSet<String>,
    /// Attributes of jobs, each with a property of vertices above nodes. A job with `attributes.system.ATTRIBUTE` takes only
    /// nodes below a vertex that has the property in the graph of the site, such as `dw` and `rabbit`: jobs with burst buffer
    /// directives run behind a rabbit. Properties that are set while jobs run do not count.
    pub nodes_below: BTreeMap<String, String>,
}

impl SiteRules {
    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.by_unit.is_empty() && self.nodes_below.is_empty()
    }
}

/// The rules, resolved against a machine.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rules {
    pub(crate) said: SiteRules,
    /// The types of pools that are granted by unit.
    pub(crate) by_unit: BTreeSet<Name>,
    /// Attribute and the ranks of the nodes that its jobs may take; attributes whose jobs may take all nodes are not listed.
    below: Vec<(Box<str>, Idset)>,
}

impl Rules {
    /// The rules on this machine.
    pub(crate) fn of(graph: &Graph, said: SiteRules) -> Rules {
        let by_unit = said.by_unit.iter().filter_map(|type_| graph.names.get(type_)).collect();
        let mut below = Vec::new();
        for (attribute, property) in &said.nodes_below {
            let mut ranks = Idset::new();
            for at in graph.having(property) {
                let (first, after) = graph.upper_nodes[at as usize];
                ranks.extend((first..after).map(|node| graph.nodes[node as usize].rank));
            }
            if ranks.len() < graph.nodes.len() as u64 {
                below.push((attribute.as_str().into(), ranks));
            }
        }
        Rules { said, by_unit, below }
    }

    /// The constraint of a job: its own, and those of its attributes.
    pub(crate) fn constraint(&self, jobspec: &Jobspec) -> Constraint {
        let own = jobspec.constraints().cloned().unwrap_or(Constraint::All);
        let bound = self.below.iter().filter(|(attribute, _)| jobspec.system_attr(attribute).is_some());
        let mut all: Vec<Constraint> = bound.map(|(_, ranks)| Constraint::Ranks(ranks.clone())).collect();
        if all.is_empty() {
            return own;
        }
        all.insert(0, own);
        Constraint::And(all)
    }
}

impl Graph {
    /// The vertices above nodes that have a property in the graph of the site, by position in `upper`.
    pub(crate) fn having<'a>(&'a self, property: &'a str) -> impl Iterator<Item = u32> + 'a {
        let values = |at: u32| self.site.as_ref().map(|site| &site.label(Spot::Upper(at)).values);
        let has = move |at: &u32| values(*at).is_some_and(|values| values.contains_key(property));
        (0..self.upper_tree() as u32).filter(has)
    }
}
