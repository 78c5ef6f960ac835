//! The narrower rules of version 1 jobspecs (RFC 25).

use super::{Count, Jobspec, Resource, TaskCount, read};
use crate::document::{DocumentError, Fault, Path};

impl Jobspec {
    /// Checks what RFC 25 demands of a version 1 jobspec beyond RFC 14: one of four resource graphs with fixed counts,
    /// one task, a duration.
    ///
    /// A total of tasks above the number of slots, which the text forbids, is accepted: the RFC's own use case 2.1 has
    /// one, and flux-core accepts it.
    ///
    /// # Errors
    /// The first rule that the jobspec breaks, with the path, the value found and the values accepted.
    pub fn check_v1(&self) -> Result<(), DocumentError> {
        self.v1().map_err(|fault| DocumentError::invalid(read::WHAT, fault))
    }

    fn v1(&self) -> Result<(), Fault> {
        const GRAPHS: &str = "slot>core or slot>(core,gpu), in a node or not (jobspec version 1)";
        let root = Path::Root;
        if self.version != 1 {
            return Err(root.key("version").fault(self.version.to_string(), "1"));
        }
        let path = root.key("resources");
        let [top] = self.resources.as_slice() else {
            return Err(path.fault(format!("{} resources", self.resources.len()), "one (jobspec version 1)"));
        };
        let (outer, inner) = (path.index(0), Path::Key(&path.index(0), "with").index(0).to_string());
        let (slot, at, nodes) = match (top.type_.as_str(), top.with.as_slice()) {
            ("slot", _) => (top, outer.to_string(), 1),
            ("node", [slot]) if slot.is_slot() => (slot, inner, fixed(top, &outer.to_string())?),
            _ => return Err(outer.fault(shape(top), GRAPHS)),
        };
        fixed(slot, &at)?;
        if slot.exclusive.is_some() || top.id.is_some() || slot.id.is_some() {
            let keys = "only type, count, unit, with and label, and exclusive of a node (jobspec version 1)";
            return Err(Fault { path: at, found: "more keys".to_owned(), expected: keys.to_owned() });
        }
        let mut seen = (false, false);
        for (i, vertex) in slot.with.iter().enumerate() {
            let at = format!("{at}.with[{i}]");
            let fresh = match vertex.type_.as_str() {
                "core" => !std::mem::replace(&mut seen.0, true),
                "gpu" => !std::mem::replace(&mut seen.1, true),
                _ => false,
            };
            if !fresh || !vertex.with.is_empty() || vertex.exclusive.is_some() || vertex.id.is_some() {
                return Err(Fault { path: at, found: shape(vertex), expected: GRAPHS.to_owned() });
            }
            fixed(vertex, &at)?;
        }
        if !seen.0 {
            return Err(Fault {
                path: at,
                found: "a slot without core".to_owned(),
                expected: GRAPHS.to_owned(),
            });
        }
        self.v1_task(nodes)?;
        if !self.attributes.system.contains_key("duration") {
            let path = root.key("attributes");
            return Err(path.key("system").fault("nothing", "the key 'duration' (jobspec version 1)"));
        }
        Ok(())
    }

    fn v1_task(&self, nodes: u64) -> Result<(), Fault> {
        let path = Path::Root;
        let path = path.key("tasks");
        let [task] = self.tasks.as_slice() else {
            return Err(path.fault(format!("{} tasks", self.tasks.len()), "one (jobspec version 1)"));
        };
        let path = path.index(0);
        let path = path.key("count");
        match &task.count {
            TaskCount::PerSlot(1) => Ok(()),
            TaskCount::PerSlot(n) => Err(path.key("per_slot").fault(n.to_string(), "1 (jobspec version 1)")),
            TaskCount::PerResource { .. } => {
                Err(path.fault("per_resource", "per_slot or total (jobspec version 1)"))
            }
            TaskCount::Total(n) if *n < nodes => {
                Err(path.key("total").fault(n.to_string(), format!("at least one for each of {nodes} nodes")))
            }
            TaskCount::Total(_) => Ok(()),
        }
    }
}

fn fixed(vertex: &Resource, at: &str) -> Result<u64, Fault> {
    match &vertex.count {
        Count::Fixed(n) => Ok(*n),
        range => Err(Fault {
            path: format!("{at}.count"),
            found: format!("\"{range}\""),
            expected: "one positive integer (jobspec version 1)".to_owned(),
        }),
    }
}

/// The types of a vertex and of its content, as in `node>(slot,core)`.
fn shape(vertex: &Resource) -> String {
    let types = vertex.with.iter().map(|inner| inner.type_.as_str()).collect::<Vec<_>>();
    let text = match types.as_slice() {
        [] => vertex.type_.clone(),
        [one] => format!("{}>{one}", vertex.type_),
        _ => format!("{}>({})", vertex.type_, types.join(",")),
    };
    crate::text::excerpt(&text)
}
