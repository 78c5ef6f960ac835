//! Labels from the graph of a site: containment paths, ids and properties with values.
//!
//! A site's services address vertices by path, and the R of a job names vertices as the site's graph does. Vertices inside
//! nodes have no label: R names them by the ids of their type.
//!
//! This module must never know which vertices are down now.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The vertices beside cores and gpus that the R of a job names, where the machine has the graph of a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum RecordFormat {
    /// None. After a restart of the scheduler, storage and other vertices above nodes that jobs hold are free.
    #[serde(rename = "rv1_nosched")]
    NoGraph,
    /// Every vertex that the job holds, with all vertices above it.
    #[serde(rename = "rv1")]
    Full,
    /// As `Full`, without the vertices below those that are held exclusively.
    #[default]
    #[serde(rename = "rv1_shorthand")]
    Shorthand,
}

impl RecordFormat {
    /// All of them.
    pub const ALL: [RecordFormat; 3] = [RecordFormat::NoGraph, RecordFormat::Full, RecordFormat::Shorthand];

    /// The name in the configuration of the graph scheduler: `rv1_nosched`, `rv1` or `rv1_shorthand`.
    pub fn name(self) -> &'static str {
        match self {
            RecordFormat::NoGraph => "rv1_nosched",
            RecordFormat::Full => "rv1",
            RecordFormat::Shorthand => "rv1_shorthand",
        }
    }

    /// The format of this name; `None` for any other text.
    pub fn from_name(name: &str) -> Option<RecordFormat> {
        RecordFormat::ALL.into_iter().find(|format| format.name() == name)
    }
}

/// The label of one vertex.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Label {
    /// Its containment path, such as `/cluster/chassis0/ssd3`. The last part may differ from its name.
    pub(crate) path: Box<str>,
    /// Its id in the file.
    pub(crate) id: Box<str>,
    /// Its properties with their values, which are mostly empty.
    pub(crate) values: BTreeMap<Box<str>, Box<str>>,
    /// The file says that it is down.
    pub(crate) down: bool,
}

/// A property that was set on a vertex, or removed from it, while jobs ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SetValue {
    /// `None` hides the value in the machine's description.
    pub(crate) value: Option<Box<str>>,
    /// A node that did not have the property before.
    pub(crate) added: bool,
}

/// The properties that were set, by vertex and key.
pub(crate) type SetValues = BTreeMap<Spot, BTreeMap<Box<str>, SetValue>>;

/// A vertex that has a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Spot {
    /// Above nodes or beside them: position in `Graph::upper`.
    Upper(u32),
    /// A node.
    Node(u32),
}

/// The labels of a machine.
#[derive(Debug, Clone, Default)]
pub(crate) struct Site {
    upper: Vec<Label>,
    nodes: Vec<Label>,
    by_path: BTreeMap<Box<str>, Vec<Spot>>,
    /// One more than the largest id that is a number.
    pub(crate) next_id: u64,
}

impl Site {
    /// Labels of a machine with these numbers of upper vertices and nodes.
    pub(crate) fn new(upper: usize, nodes: usize, labels: impl Iterator<Item = (Spot, Label)>) -> Self {
        let mut site = Site {
            upper: vec![Label::default(); upper],
            nodes: vec![Label::default(); nodes],
            ..Site::default()
        };
        for (spot, label) in labels {
            let number = label.id.parse().map_or(0, |id: u64| id.saturating_add(1));
            site.next_id = site.next_id.max(number);
            site.by_path.entry(label.path.clone()).or_default().push(spot);
            match spot {
                Spot::Upper(at) => site.upper[at as usize] = label,
                Spot::Node(node) => site.nodes[node as usize] = label,
            }
        }
        site.by_path.values_mut().for_each(|spots| spots.sort_unstable());
        site
    }

    /// The label of a vertex.
    pub(crate) fn label(&self, spot: Spot) -> &Label {
        match spot {
            Spot::Upper(at) => &self.upper[at as usize],
            Spot::Node(node) => &self.nodes[node as usize],
        }
    }

    /// The vertices of a path: several where hosts of one name have several ranks.
    pub(crate) fn find(&self, path: &str) -> &[Spot] {
        self.by_path.get(path).map_or(&[], Vec::as_slice)
    }

    /// Upper vertices that the file says are down.
    pub(crate) fn down(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.upper.len() as u32).filter(|at| self.upper[*at as usize].down)
    }
}
