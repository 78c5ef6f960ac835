//! The begin and the end of faults in the world of the embedded instance.
//!
//! Must never know what the instance or the scheduler makes of them.

use std::collections::BTreeSet;

use fluxgate_formats::Idset;
use serde_json::json;

use super::clients::Asked;
use super::instance::Input;
use super::{EmbeddedWorld, JUMP_MAX};
use crate::agenda::{SECOND, micros};
use crate::dice::Dice;
use crate::fault::Kind;
use crate::model::OWNER;
use crate::operations;
use crate::plan::{FaultPlan, QUEUES};

/// A bit for each rank; a machine has eight at most.
pub(super) fn bits(ranks: &Idset) -> u8 {
    ranks.iter().fold(0, |bits, rank| bits | 1 << rank)
}

impl EmbeddedWorld {
    pub(super) fn fault(&mut self, number: usize, begins: bool) {
        let fault = self.plan.faults[number];
        self.changes += 1;
        if !begins {
            return self.fault_ends(fault);
        }
        self.note(|| format!("fault {}: {} for {} s", fault.number, fault.kind, fault.length));
        self.tally.fault(fault.kind);
        let mut dice = Dice::new(fault.seed, "fault");
        let until = self.agenda.now() + micros(fault.length);
        match fault.kind {
            Kind::Kill => self.process_ends(),
            Kind::Stop => self.end_in_order(),
            Kind::Power => {
                self.process_ends();
                self.disk.power_lost();
            }
            Kind::Close => self.connection_breaks(),
            Kind::Stall => {
                let until = until.min(self.agenda.now() + 90 * SECOND);
                if dice.often(500) {
                    self.link.to_broker.stall(until);
                }
                self.link.to_scheduler.stall(until);
            }
            Kind::Broker => self.instance_ends(dice.below(5 * SECOND)),
            Kind::NoCommit => self.refuse_commits(*dice.pick(&[100, 500, 1000])),
            Kind::DiskFull => self.disk.set_room(dice.below(4096) as usize),
            Kind::DiskError => self.disk.set_failing(dice.range(10, 500)),
            Kind::DiskSlow => self.slow_disk = until,
            Kind::Flip => drop(self.disk.flip()),
            Kind::Down => {
                let ranks = self.some_ranks(&mut dice);
                self.input(Input::Down(ranks, false));
            }
            Kind::Shrink => {
                let ranks = Idset::from_iter([dice.below(u64::from(self.plan.nodes)) as u32]);
                self.input(Input::Down(ranks, self.plan.nodes > 1));
            }
            Kind::Drain => {
                let ranks = self.some_ranks(&mut dice);
                let payload = json!({"targets": ranks.to_string(), "reason": "fault"});
                self.ask(OWNER, "resource.drain", &payload, Asked::Drain(bits(&ranks), true));
            }
            Kind::Expiration => {
                let at = self.now() + dice.seconds(100_000.0, 1_000_000.0);
                let at = if dice.often(300) { 0.0 } else { at };
                self.ask(OWNER, "resource.expiration-update", &json!({"expiration": at}), Asked::Something);
            }
            Kind::Config if self.is_about_settings(&mut dice) => self.configure(&mut dice),
            Kind::Config => self.change_queue(&mut dice, false),
            Kind::Clock => {
                let jump = *dice.pick(&[-JUMP_MAX, -60.0, -1.0, 0.5, 60.0, JUMP_MAX]);
                self.jumped += jump;
                self.note(|| format!("the clock jumps by {jump} s"));
            }
            Kind::LateWork => self.late_work = until.max(self.agenda.now() + 10 * SECOND),
            Kind::Swap | Kind::Broken | Kind::Rollback | Kind::Load | Kind::Shadow | Kind::Promote => {
                for (topic, payload) in operations::about_policies(fault.kind, self.plan.queues, &mut dice) {
                    self.ask(OWNER, topic, &payload, Asked::Control(topic));
                }
            }
            Kind::Cut => self.cut = until.min(self.agenda.now() + 5 * SECOND),
            Kind::Flood => self.flood(&mut dice),
            Kind::Nonsense => self.nonsense(&mut dice),
            // The other kinds do not occur in this world.
            _ => {}
        }
    }

    fn fault_ends(&mut self, fault: FaultPlan) {
        let mut dice = Dice::new(fault.seed, "fault");
        match fault.kind {
            Kind::DiskFull => self.disk.set_room(usize::MAX),
            Kind::DiskError => self.disk.set_failing(0),
            Kind::NoCommit => self.refuse_commits(0),
            Kind::Down => {
                let ranks = self.some_ranks(&mut dice);
                self.input(Input::Up(ranks));
            }
            Kind::Drain => {
                let ranks = self.some_ranks(&mut dice);
                let payload = json!({"targets": ranks.to_string()});
                self.ask(OWNER, "resource.undrain", &payload, Asked::Drain(bits(&ranks), false));
            }
            Kind::Config if !self.is_about_settings(&mut dice) => self.change_queue(&mut dice, true),
            _ => {}
        }
    }

    /// Does the configuration of the scheduler change, and not the state of queues?
    fn is_about_settings(&self, dice: &mut Dice) -> bool {
        self.plan.profile.has_components() && dice.often(500)
    }

    /// The scheduler's configuration changes.
    fn configure(&mut self, dice: &mut Dice) {
        let (settings, is_wrong) = operations::settings(&self.settings, true, dice);
        let topic = "sched-fluxgate.config-reload";
        self.ask(OWNER, topic, &settings, Asked::Control(topic));
        if !is_wrong {
            self.settings = settings;
        }
    }

    /// From now on this many commits in a thousand are refused.
    fn refuse_commits(&mut self, per_mille: u64) {
        self.written.refused = per_mille;
        if let Some(instance) = &mut self.instance {
            instance.records_mut().refused = per_mille;
        }
    }

    /// A queue is stopped, or takes no jobs; with `again`, it starts or takes them again.
    fn change_queue(&mut self, dice: &mut Dice, again: bool) {
        let (starts, all) = (dice.often(600), dice.often(500));
        let name = if self.plan.queues && !all { Some(*dice.pick(&QUEUES)) } else { None };
        let (topic, key) = match starts {
            true => ("job-manager.queue-start", "start"),
            false => ("job-manager.queue-enable", "enable"),
        };
        let mut payload = json!({"all": name.is_none() && self.plan.queues, "reason": "fault"});
        payload[key] = again.into();
        if let Some(name) = name {
            payload["name"] = name.into();
        }
        self.ask(OWNER, topic, &payload, Asked::Something);
    }

    /// The faults are over: queues run, nodes are up, and no job is on hold.
    pub(super) fn tidy(&mut self) {
        self.refuse_commits(0);
        self.late_work = 0;
        if !self.plain {
            for (topic, payload) in operations::back_to_the_builtin(self.plan.queues) {
                let is_last = topic == "sched-fluxgate.policy-swap";
                self.ask(OWNER, topic, &payload, if is_last { Asked::Plain } else { Asked::Something });
            }
        }
        let all: Idset = (0..self.plan.nodes).collect();
        self.input(Input::Up(all.clone()));
        self.ask(
            OWNER,
            "resource.undrain",
            &json!({"targets": all.to_string(), "mode": "force"}),
            Asked::Drain(u8::MAX, false),
        );
        for (topic, key) in [("job-manager.queue-start", "start"), ("job-manager.queue-enable", "enable")] {
            let mut payload = json!({"all": self.plan.queues});
            payload[key] = true.into();
            self.ask(OWNER, topic, &payload, Asked::Something);
        }
        for number in std::mem::take(&mut self.held) {
            self.act(number, crate::plan::Act::Urgency(16));
        }
    }

    /// Some of the ranks, often one, at times all.
    fn some_ranks(&self, dice: &mut Dice) -> Idset {
        let all = u64::from(self.plan.nodes);
        let some: BTreeSet<u32> = match dice.below(4) {
            0 => (0..self.plan.nodes).collect(),
            _ => (0..dice.range(1, 2)).map(|_| dice.below(all) as u32).collect(),
        };
        some.into_iter().collect()
    }
}
