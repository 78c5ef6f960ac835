//! The jobspecs that `flux submit -N -n -c -g` makes.

use serde_json::{Map, Value};

use super::{Attributes, Jobspec, Resource, SLOT, Task, TaskCount};
use crate::constraint::Constraint;

/// The usual options of a submission; [`build`](Simple::build) makes the version 1 jobspec.
///
/// ```
/// use fluxgate_formats::jobspec::Simple;
///
/// let job = Simple { nodes: Some(2), slots: 8, command: vec!["hostname".into()], ..Simple::default() }.build();
/// assert_eq!((job.min_nodes(), job.min_slots(), job.min_cores()), (2, 8, 8));
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Simple {
    /// Number of nodes over which the slots are spread (`-N`), 0 counting as 1; `None` leaves the nodes open.
    pub nodes: Option<u32>,
    /// Slots, and tasks, in all (`-n`). 0 means one slot on each of the nodes, which are then exclusive, or one slot
    /// without nodes. A number below that of the nodes is raised to one for each node.
    pub slots: u32,
    /// Cores of each slot (`-c`); 0 means 1.
    pub cores_per_slot: u32,
    /// GPUs of each slot (`-g`); 0 for none.
    pub gpus_per_slot: u32,
    /// The nodes are exclusive (`-x`); no effect without `nodes`.
    pub exclusive: bool,
    /// The time limit in seconds (`-t`); 0, or any value that is no positive time, means none.
    pub duration: f64,
    /// The queue (`-q`); `None` for the default queue.
    pub queue: Option<String>,
    /// The working directory of the tasks (`--cwd`).
    pub cwd: Option<String>,
    /// The name of the job (`--job-name`).
    pub name: Option<String>,
    /// Environment variables to set, and (null) to unset.
    pub environment: Map<String, Value>,
    /// Constraints on the nodes (`--requires`); `None` for any nodes.
    pub constraint: Option<Constraint>,
    /// The program and its arguments.
    pub command: Vec<String>,
}

/// The label flux-core gives to the only slot.
const LABEL: &str = "task";

impl Simple {
    /// The jobspec. The parsers accept it if there is a command and the environment holds strings and nulls only.
    pub fn build(self) -> Jobspec {
        let nodes = self.nodes.map(|nodes| nodes.max(1));
        let whole_nodes = self.slots == 0 && nodes.is_some();
        let slots = self.slots.max(nodes.unwrap_or(1));

        let mut with = vec![Resource::new("core", self.cores_per_slot.into())];
        if self.gpus_per_slot > 0 {
            with.push(Resource::new("gpu", self.gpus_per_slot.into()));
        }
        let slot = |count: u32| {
            let label = Some(LABEL.to_owned());
            Resource { label, ..Resource::new(SLOT, count.into()).containing(with) }
        };
        let (resource, count) = match nodes {
            None => (slot(slots), TaskCount::PerSlot(1)),
            Some(nodes) => {
                let node = Resource::new("node", nodes.into()).containing(vec![slot(slots.div_ceil(nodes))]);
                let exclusive = (self.exclusive || whole_nodes).then_some(true);
                // An uneven spread leaves slots of the last nodes without a task.
                let count = if slots.is_multiple_of(nodes) {
                    TaskCount::PerSlot(1)
                } else {
                    TaskCount::Total(slots.into())
                };
                (Resource { exclusive, ..node }, count)
            }
        };
        let task = Task {
            command: self.command,
            slot: LABEL.to_owned(),
            count,
            attributes: None,
            distribution: None,
        };

        let duration = if self.duration.is_finite() { self.duration.max(0.0) } else { 0.0 };
        let mut system = Map::new();
        system.insert("duration".to_owned(), duration.into());
        for (key, text) in [("cwd", self.cwd), ("queue", self.queue)] {
            if let Some(text) = text {
                system.insert(key.to_owned(), text.into());
            }
        }
        if !self.environment.is_empty() {
            system.insert("environment".to_owned(), self.environment.into());
        }
        if let Some(name) = self.name {
            let name = Map::from_iter([("name".to_owned(), name.into())]);
            system.insert("job".to_owned(), name.into());
        }
        if let Some(constraint) = &self.constraint {
            system.insert("constraints".to_owned(), constraint.to_value());
        }
        Jobspec {
            version: 1,
            resources: vec![resource],
            tasks: vec![task],
            attributes: Attributes { user: None, system },
            constraints: self.constraint,
            duration,
        }
    }
}
