//! The nodes that windows leave a request at later and later starts, updated with every window that begins or ends to be in the way.
//!
//! The nodes for one start alone are [`Machine::eligible_between`]. A search for the earliest start asks for hundreds of starts in
//! order; here each window is looked at twice in the whole search, and not once for each start.
//!
//! This module must never know the purpose of a window.

use fixedbitset::FixedBitSet;

use crate::live::calendar::Window;
use crate::live::machine::Machine;
use crate::live::request::Request;
use crate::live::view::Eligible;

/// See the module text.
pub(crate) struct WindowWalk<'a> {
    /// The nodes that are left, always [`Eligible::Nodes`].
    pub(crate) left: Eligible,
    /// For each node the windows in its way.
    blocks: Vec<u32>,
    /// Windows with the times from which they keep their nodes, in order, and the first that is not reached.
    begins: Vec<(f64, &'a Window)>,
    begun: usize,
    /// The same by their ends.
    ends: Vec<(f64, &'a Window)>,
    ended: usize,
}

impl<'a> WindowWalk<'a> {
    /// For starts at `from` or later; `base` has the nodes that the constraint of the request allows. `None` if no window matters, or
    /// only [`Machine::eligible_between`] has the rule for it.
    pub(crate) fn new(
        machine: &'a Machine,
        request: &Request,
        base: &Eligible,
        from: f64,
    ) -> Option<WindowWalk<'a>> {
        let floats = || machine.calendar.windows.values().any(|window| window.float.is_some());
        if machine.calendar.is_empty() || request.access().is_some() || floats() {
            return None;
        }
        let to_come = machine.calendar.meeting(from, f64::INFINITY);
        let to_come = to_come.filter(|(_, _, window)| window.count > 0);
        let (mut begins, mut ends) = (Vec::new(), Vec::new());
        for (_, span, window) in to_come {
            begins.push((span.from, window));
            ends.push((span.end, window));
        }
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        let left = Eligible::Nodes(machine.node_set(base));
        let blocks = vec![0; machine.graph.nodes.len()];
        (!begins.is_empty()).then_some(WindowWalk { left, blocks, begins, begun: 0, ends, ended: 0 })
    }

    /// The next start, not before the last one, and the end of its span. `turn` is called with each node that a window takes or gives
    /// back.
    pub(crate) fn to(
        &mut self,
        base: &Eligible,
        machine: &Machine,
        (start, end): (f64, f64),
        mut turn: impl FnMut(u32),
    ) {
        let allowed =
            |node: u32| base.node(node) && base.template(machine.graph.nodes[node as usize].template);
        while let Some((_, window)) = self.begins.get(self.begun).filter(|(from, _)| *from < end) {
            self.begun += 1;
            for node in window.nodes.ones().map(|node| node as u32) {
                self.blocks[node as usize] += 1;
                if self.blocks[node as usize] == 1 && allowed(node) {
                    turn(node);
                    self.set(|left| left.remove(node as usize));
                }
            }
        }
        // A window that has ended was reached before: it begins before it ends.
        while let Some((_, window)) = self.ends.get(self.ended).filter(|(ends, _)| *ends <= start) {
            self.ended += 1;
            for node in window.nodes.ones().map(|node| node as u32) {
                self.blocks[node as usize] -= 1;
                if self.blocks[node as usize] == 0 && allowed(node) {
                    self.set(|left| left.insert(node as usize));
                    turn(node);
                }
            }
        }
    }

    fn set(&mut self, change: impl FnOnce(&mut FixedBitSet)) {
        if let Eligible::Nodes(left) = &mut self.left {
            change(left);
        }
    }
}
