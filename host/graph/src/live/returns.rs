//! The cores and gpus that running jobs make free, over time: the part of every plan in counts that is the same until a job
//! starts or ends, kept from plan to plan.
//!
//! Must never know reservations, or what time it is.

use crate::live::ledger::Allocation;
use crate::live::machine::Machine;
use crate::live::profile::Profile;
use fluxgate_formats::JobId;

/// Sums of the units that have become free by each expected end. Jobs without an end are left out.
#[derive(Debug, Clone)]
pub(crate) struct Returns {
    /// On nodes that are up.
    pub(crate) cores: Profile,
    /// On nodes that are up.
    pub(crate) gpus: Profile,
}

impl Returns {
    fn of(machine: &Machine) -> Returns {
        let ends = machine.ledger.ends().take_while(|(end, _)| end.is_finite());
        let back = |(end, id)| (end, machine.returns(&machine.ledger.jobs()[&id]));
        let all: Vec<(f64, (u64, u64))> = ends.map(back).collect();
        Returns {
            cores: Profile::new(0, all.iter().map(|(end, (cores, _))| (*end, *cores))),
            gpus: Profile::new(0, all.iter().map(|(end, (_, gpus))| (*end, *gpus))),
        }
    }

    fn note(&mut self, end: f64, (cores, gpus): (u64, u64), more: bool) {
        for (profile, units) in [(&mut self.cores, cores), (&mut self.gpus, gpus)] {
            if units == 0 {
                continue;
            }
            if more {
                profile.give(units, end, f64::INFINITY);
            } else {
                profile.take(units, end, f64::INFINITY);
                profile.join(end);
            }
        }
    }
}

impl Machine {
    /// The cores and gpus that running jobs make free.
    pub(crate) fn all_returns(&self) -> &Returns {
        self.all_returns.get_or_init(|| Returns::of(self))
    }

    /// The allocation of a job was made, or is about to be released or changed.
    pub(crate) fn note_returns(&mut self, id: JobId, made: bool) {
        self.note_node_ends(id, made);
        if self.all_returns.get().is_none() {
            return;
        }
        let back = |allocation: &Allocation| (allocation.end, self.returns(allocation));
        if let Some((end, units)) = self.ledger.jobs().get(&id).map(back).filter(|(end, _)| end.is_finite())
            && let Some(all) = self.all_returns.get_mut()
        {
            all.note(end, units, made);
        }
    }

    /// Do they agree with the allocations?
    #[cfg(test)]
    pub(crate) fn returns_are_in_step(&self) -> bool {
        let steps = |of: &Returns| (of.cores.steps(), of.gpus.steps());
        self.all_returns.get().is_none_or(|all| steps(all) == steps(&Returns::of(self)))
    }
}
