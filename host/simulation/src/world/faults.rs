//! The begin and the end of faults. Must never know what the scheduler makes of them.

use std::collections::BTreeSet;

use super::{Step, World};
use crate::agenda::{SECOND, micros};
use crate::dice::Dice;
use crate::fault::Kind;
use crate::plan::FaultPlan;

impl World {
    pub(super) fn fault(&mut self, number: usize, begins: bool) {
        let fault = self.plan.faults[number];
        self.changes += 1;
        if begins {
            self.note(|| format!("fault {}: {} for {} s", fault.number, fault.kind, fault.length));
            self.tally.fault(fault.kind);
            self.fault_begins(fault);
        } else {
            self.fault_ends(fault);
        }
    }

    fn fault_begins(&mut self, fault: FaultPlan) {
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
            Kind::Teardown => {
                self.jobs.whims += 1;
                self.see(|_, jobs, sight| jobs.teardown(sight));
            }
            Kind::Reload => self.manager_reloads(&mut dice),
            Kind::Broker => {
                self.broker += 1;
                (self.committing, self.keeping) = (0, 0);
                self.connection_breaks();
                let since = self.agenda.now().saturating_sub(dice.below(5 * SECOND));
                self.manager_reloads(&mut dice);
                self.see(|_, jobs, sight| jobs.forget_starts(since, sight));
            }
            Kind::SlowCommit => self.weather.slow_commit = until,
            Kind::NoCommit => self.weather.no_commits = dice.range(1, 2) as u32,
            Kind::NoLookup => {
                self.weather.no_lookup = until;
                // Without a hello the scheduler looks nothing up.
                if dice.often(700) {
                    self.process_ends();
                }
            }
            Kind::DiskFull => self.disk.set_room(dice.below(4096) as usize),
            Kind::DiskError => self.disk.set_failing(dice.range(10, 500)),
            Kind::DiskSlow => self.weather.slow_disk = until,
            Kind::Flip => {
                if self.disk.flip() {
                    self.tally.reached("a bit flips");
                }
            }
            Kind::Clock => {
                let jump = *dice.pick(&[-3600.0, -60.0, -1.0, 0.5, 60.0, 3600.0]);
                self.jumped += jump;
                if jump < 0.0 {
                    self.nodes_are_awaited();
                }
                // Times before and after are not of one clock: reservations of before hold no more.
                self.note(|| format!("the clock jumps by {jump} s"));
            }
            Kind::Down | Kind::Drain => {
                let ranks = self.some_ranks(&mut dice);
                let ends = fault.kind == Kind::Down;
                self.calendar.nodes_change();
                self.see(|resources, _, sight| resources.turn(&ranks, false, sight));
                if ends {
                    self.jobs_end_on(&ranks, &mut dice);
                }
            }
            Kind::Shrink => {
                let left: Vec<u32> = self.book.ranks.difference(&self.book.lost).copied().collect();
                if left.len() > 1 {
                    let ranks = BTreeSet::from([*dice.pick(&left)]);
                    self.book.lost_at = Some(self.agenda.now());
                    self.calendar.nodes_change();
                    self.see(|resources, _, sight| resources.lose(&ranks, sight));
                    self.jobs_end_on(&ranks, &mut dice);
                }
            }
            Kind::Expiration => {
                let at = self.now() + dice.seconds(100_000.0, 1_000_000.0);
                let at = if dice.often(300) { 0.0 } else { at };
                self.see(|resources, _, sight| resources.expire(at, sight));
            }
            Kind::LateWork => self.weather.late_work = until.max(self.agenda.now() + 10 * SECOND),
            Kind::Cut => self.weather.cut = until.min(self.agenda.now() + 5 * SECOND),
            Kind::Config
            | Kind::Swap
            | Kind::Broken
            | Kind::Rollback
            | Kind::Load
            | Kind::Shadow
            | Kind::Promote => self.operate(fault.kind, &mut dice),
            Kind::Flood => self.flood(&mut dice),
            Kind::Nonsense => self.nonsense(&mut dice),
            Kind::Reserve => self.reserve(&mut dice),
            Kind::Mark => self.mark(&mut dice, true),
            Kind::Property => self.change_properties(&mut dice),
            Kind::Group => self.group_changes(&mut dice, until),
        }
    }

    fn fault_ends(&mut self, fault: FaultPlan) {
        match fault.kind {
            Kind::DiskFull => self.disk.set_room(usize::MAX),
            Kind::DiskError => self.disk.set_failing(0),
            Kind::Down | Kind::Drain => {
                let ranks = self.some_ranks(&mut Dice::new(fault.seed, "fault"));
                self.calendar.nodes_change();
                self.see(|resources, _, sight| resources.turn(&ranks, true, sight));
            }
            Kind::Mark => self.mark(&mut Dice::new(fault.seed, "fault"), false),
            Kind::Group => self.tell_groups(),
            Kind::Property => self.change_properties(&mut Dice::new(fault.seed, "its end")),
            _ => {}
        }
    }

    /// Some of the ranks, often one, at times all.
    fn some_ranks(&self, dice: &mut Dice) -> BTreeSet<u32> {
        let all: Vec<u32> = self.book.ranks.iter().copied().collect();
        match dice.below(4) {
            0 => all.into_iter().collect(),
            _ => (0..dice.range(1, 2)).map(|_| *dice.pick(&all)).collect(),
        }
    }

    /// Most of the jobs on these ranks are ended from elsewhere.
    fn jobs_end_on(&mut self, ranks: &BTreeSet<u32>, dice: &mut Dice) {
        let on = self.book.held().into_iter().filter(|unit| ranks.contains(&unit.0));
        let units: BTreeSet<u32> = on.map(|unit| unit.0).collect();
        let ids: Vec<u64> = self.jobs.jobs.values().filter(|job| job.r.is_some()).map(|job| job.id).collect();
        for id in ids {
            let there = self.book.of(id).iter().any(|unit| units.contains(&unit.0));
            if there && dice.often(800) {
                let delay = dice.below(5 * SECOND);
                self.agenda.after(delay, Step::Act { id, act: crate::plan::Act::Cancel });
            }
        }
    }

    /// The job manager is reloaded: for a while it is not there.
    fn manager_reloads(&mut self, dice: &mut Dice) {
        let name = self.jobs.name.clone();
        self.managers += 1;
        let generation = self.managers;
        self.see(|_, jobs, sight| jobs.reload(generation, sight));
        self.jobs.absent = true;
        // The broker tells the scheduler that its client is gone.
        if self.says_nothing(dice) {
            self.jobs.whims += 1;
        } else {
            let gone =
                crate::model::request(&name, crate::model::OWNER, "sched.disconnect", &serde_json::json!({}));
            self.send_down(gone.noresponse());
        }
        let delay = dice.range(10_000, 5 * SECOND);
        self.agenda.after(delay, Step::Present);
    }

    /// Some brokers do not tell that a client is gone.
    fn says_nothing(&self, dice: &mut Dice) -> bool {
        dice.often(200)
    }
}
