//! Flow in a request: a resource type that no vertex has and that is the name of a subsystem.
//!
//! Flow goes to the node in or on which it is requested, an amount for each slot or vertex that contains it. This
//! module must never know which units are free.

use fluxgate_formats::jobspec::Resource;

use crate::layout::graph::Graph;

use super::{Level, Need, RequestError, Types, read};

/// The needs of a list of resources; flow that no core or gpu could use is refused.
pub(super) fn list(graph: &Graph, types: &Types, resources: &[Resource]) -> Result<Vec<Need>, RequestError> {
    if let Some(flow) = resources.iter().find(|r| kind(graph, types, r).is_some()) {
        return Err(outside(flow));
    }
    let needs: Vec<Need> =
        resources.iter().map(|r| read(graph, types, r, false, false)).collect::<Result<_, _>>()?;
    needs.iter().try_for_each(|need| used(graph, need))?;
    Ok(needs)
}

fn outside(r: &Resource) -> RequestError {
    RequestError::Flow(
        r.type_.clone(),
        "is asked for outside of a node; accepted: inside one, or beside cores in a slot",
    )
}

/// The subsystem whose flow is requested.
pub(super) fn kind(graph: &Graph, types: &Types, r: &Resource) -> Option<u32> {
    if graph.flows.kinds.is_empty() || r.is_slot() {
        return None;
    }
    let name = graph.names.get(&r.type_)?;
    let taken = types.local.contains(&name) || types.upper.contains(&name) || name == graph.node;
    let (kind, it) = graph.flows.find(name).filter(|_| !taken)?;
    it.refused.is_none().then_some(kind as u32)
}

/// True if the need, or one inside it, requests flow.
pub(super) fn flows(need: &Need) -> bool {
    !need.flows.is_empty() || need.with.iter().any(flows)
}

/// Gives a need its flow: its own, and that of the vertices in it, which are on the same node.
pub(super) fn gather(
    graph: &Graph,
    types: &Types,
    r: &Resource,
    need: &mut Need,
) -> Result<(), RequestError> {
    let mut sum: Vec<(u32, u64)> = Vec::new();
    let fault = |kind: u32, why| {
        let name = graph.flows.kinds[kind as usize].name;
        RequestError::Flow(graph.text(name).to_owned(), why)
    };
    let mut add = |kind: u32, units: Option<u64>| {
        let all = sum.iter_mut().find(|(k, _)| *k == kind);
        let before = all.as_ref().map_or(0, |(_, n)| *n);
        let units = units.and_then(|n| n.checked_add(before)).filter(|n| *n <= crate::SIZE_MAX);
        let units = units
            .ok_or_else(|| fault(kind, "is asked for in units that are unknown here, or is too much"))?;
        match all {
            Some(all) => all.1 = units,
            None => sum.push((kind, units)),
        }
        Ok(())
    };
    for child in &r.with {
        let Some(kind) = kind(graph, types, child) else { continue };
        if need.level == Level::Upper {
            return Err(outside(child));
        }
        if child.exclusive == Some(true) || !child.with.is_empty() {
            return Err(fault(kind, "is neither exclusive nor contains anything"));
        }
        // The minimum of a range counts.
        let it = &graph.flows.kinds[kind as usize];
        add(kind, it.amount(&graph.names, child.count.min(), child.unit.as_deref().unwrap_or("")))?;
    }
    if need.level != Level::Upper {
        for child in &mut need.with {
            for (kind, units) in std::mem::take(&mut child.flows) {
                let Some(count) = child.count.fixed() else {
                    return Err(fault(
                        kind,
                        "is asked for in a range of vertices of one node; one number is accepted",
                    ));
                };
                add(kind, units.checked_mul(count))?;
            }
        }
    }
    sum.retain(|(_, units)| *units > 0);
    sum.sort_unstable();
    need.flows = sum.into();
    Ok(())
}

/// Checks that flow goes to vertices that R names.
fn used(graph: &Graph, need: &Need) -> Result<(), RequestError> {
    if let Some((kind, _)) = need.flows.first()
        && !names(graph, need)
    {
        let name = graph.flows.kinds[*kind as usize].name;
        return Err(RequestError::Flow(graph.text(name).to_owned(), "is asked for where no core or gpu is"));
    }
    need.with.iter().try_for_each(|inner| used(graph, inner))
}

fn names(graph: &Graph, need: &Need) -> bool {
    let counted = need.min() > 0 && [graph.core, graph.gpu].contains(&need.type_) && !need.slot;
    counted
        || need.level == Level::Node && need.exclusive
        || need.min() > 0 && need.with.iter().any(|inner| names(graph, inner))
}
