//! How much fuel was used since the last look, by the default policy and by those that queues have of their own.
//!
//! Must never know why somebody asks.

use std::collections::BTreeMap;

use fluxgate_engine::Engine;

/// See the module text.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    default: u64,
    own: BTreeMap<String, u64>,
}

impl Meter {
    /// Used since the last look.
    pub(crate) fn look(&mut self, engine: &Engine) -> u64 {
        let since = |fuel: u64, before: u64| fuel.checked_sub(before).unwrap_or(fuel);
        let fuel = engine.policy_cost().fuel;
        let mut used = since(fuel, std::mem::replace(&mut self.default, fuel));
        for (queue, cost) in engine.own_costs() {
            match self.own.get_mut(queue) {
                Some(before) => used += since(cost.fuel, std::mem::replace(before, cost.fuel)),
                None => {
                    used += cost.fuel;
                    self.own.insert(queue.to_owned(), cost.fuel);
                }
            }
        }
        used
    }

    /// Another instance decides: the default one, or that of a queue.
    pub(crate) fn forget(&mut self, queue: Option<&str>) {
        match queue {
            None => self.default = 0,
            Some(queue) => drop(self.own.remove(queue)),
        }
    }
}
