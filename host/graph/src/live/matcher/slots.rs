//! Slots above nodes: the places of a slot that names a node and a vertex beside it.
//!
//! The slot is at one vertex that has direct children of all types in the slot. The search visits only vertices that
//! have a node which fits and a pool that is not empty now.
//!
//! This module must never know the name of a vertex.

use crate::layout::vertex::NONE;
use crate::live::index::State;
use crate::live::local;
use crate::live::request::{Level, Need};
use crate::live::share::is_exclusive;

use super::Matcher;

impl<'a> Matcher<'a> {
    /// Places slots above nodes, each at one of its possible places, in order; several at one place if they fit.
    pub(super) fn slots(&mut self, scope: u32, need: &Need) -> bool {
        let graph = self.view.graph;
        let counts = need.is_task_slot();
        let once = |this: &mut Self, scope: u32| {
            let ok = this.all(scope, &need.with);
            this.found.slots += u64::from(ok && counts);
            ok
        };
        let Some(places) = &need.places else { return self.repeat(need, |this| once(this, scope)) };
        let end = if scope == NONE { NONE } else { graph.vertices[scope as usize].end };
        let inside = |at: &u32| {
            let vertex = graph.upper[*at as usize];
            (scope == NONE || vertex >= scope) && vertex < end
        };
        let mut list: Vec<u32> = places.iter().copied().filter(inside).collect();
        if self.high {
            list.reverse();
        }
        let pools = need.with.iter().any(|inner| inner.is_pool() && !inner.is_machine_wide(graph));
        let states = self.states_for(need);
        // The nearest node that could fit, and how far the search went.
        let mut nearest: Option<(u32, Option<u32>)> = None;
        let mut list = list.into_iter().peekable();
        self.repeat(need, |this| {
            while let Some(&at) = list.peek() {
                let usable = this.view.upper_is_up(at)
                    && (!pools || this.view.is_open(at))
                    && this.has_node(at, states.as_deref(), &mut nearest)
                    && !is_exclusive(this.view.upper(&this.scratch, at));
                if usable && once(this, graph.upper[at as usize]) {
                    return true;
                }
                list.next();
            }
            false
        })
    }

    /// The states of nodes on which the node part of a slot could fit; `None` if the slot names no node.
    fn states_for(&self, need: &Need) -> Option<Vec<&'a State>> {
        let (graph, index) = (self.view.graph, self.view.index);
        let inner = need.with.iter().find(|inner| inner.level != Level::Upper)?;
        let fits = |state: &&State| {
            let template = &graph.templates[state.template.0 as usize];
            self.eligible.template(state.template)
                && local::capacity(graph, template, &state.free, inner, 1) > 0
        };
        Some(index.live().filter(fits).collect())
    }

    /// True if a node below a place could fit. `nearest` keeps the answer for the places that follow.
    fn has_node(&self, at: u32, states: Option<&[&State]>, nearest: &mut Option<(u32, Option<u32>)>) -> bool {
        let Some(states) = states else { return true };
        let (first, after) = self.view.graph.upper_nodes[at as usize];
        let (from, up) = if self.high { (after, false) } else { (first, true) };
        let holds = |(asked, found): (u32, Option<u32>)| match found {
            Some(found) if up => asked <= from && found >= from,
            Some(found) => asked >= from && found < from,
            None => {
                if up {
                    asked <= from
                } else {
                    asked >= from
                }
            }
        };
        let found = match nearest.filter(|known| holds(*known)) {
            Some((_, found)) => found,
            None => {
                let found = self.view.nearest(&self.scratch, states, from, up);
                *nearest = Some((from, found));
                found
            }
        };
        found.is_some_and(|node| (first..after).contains(&node))
    }
}
