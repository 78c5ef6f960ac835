//! The fuel that the default policy and the policies of single queues used since the last call.
//!
//! Must never know the use of the figure.

use std::collections::BTreeMap;

use fluxgate_engine::Engine;

/// The meter; see the module.
#[derive(Debug, Default)]
pub(crate) struct FuelMeter {
    default: u64,
    own: BTreeMap<String, u64>,
}

impl FuelMeter {
    /// The fuel used since the last call.
    pub(crate) fn used(&mut self, engine: &Engine) -> u64 {
        let since = |fuel: u64, before: u64| fuel.checked_sub(before).unwrap_or(fuel);
        let fuel = engine.policy_cost().fuel;
        let mut used = since(fuel, std::mem::replace(&mut self.default, fuel));
        for (queue, cost) in engine.queue_policy_costs() {
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

    /// Notes that another instance is active: of the default policy, or of a queue.
    pub(crate) fn forget(&mut self, queue: Option<&str>) {
        match queue {
            None => self.default = 0,
            Some(queue) => drop(self.own.remove(queue)),
        }
    }
}
