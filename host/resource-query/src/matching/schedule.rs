//! The time at which a request can be matched: now, later, or never.
//!
//! This module must never know how the graph is walked.

use std::collections::BTreeMap;

use fluxgate_graph::description::{Name, State};

use crate::planner::FOREVER;

use super::aggregates::add;
use super::aim::{Aim, asks_exclusively};
use super::booked::{Booked, Hold, Term};
use super::matcher::Matcher;
use super::op::{Miss, Op};
use super::request::{Request, Want};

/// The result of a match.
#[derive(Debug, Clone)]
pub struct Matched {
    /// Its start, in seconds; with [`Op::Satisfiability`] the time of the question.
    pub at: i64,
    /// The selection; empty for [`Op::Satisfiability`].
    pub booked: Booked,
}

impl Matcher {
    /// Matches a request as of `now` (seconds, 0 or more), for a job without bookings.
    ///
    /// # Errors
    /// [`Miss`]: the request is busy, unsatisfiable or invalid. Nothing is booked then.
    pub fn run(&mut self, request: &Request, op: Op, job: u64, now: i64) -> Result<Matched, Miss> {
        if let Some(miss) = self.parked_miss(request, op, now) {
            return Err(miss);
        }
        let before = self.exclusive_types.clone();
        let result = self.run_primed(request, op, job, now);
        self.exclusive_types = before;
        if let Err(miss) = result {
            self.park(request, op, now, miss);
        }
        result
    }

    fn run_primed(&mut self, request: &Request, op: Op, job: u64, now: i64) -> Result<Matched, Miss> {
        if request.wants.is_empty() || now < 0 {
            return Err(Miss::Invalid);
        }
        if request.flowing.1 {
            self.messages += "flow is asked for outside of what could use it\n";
            return Err(Miss::Invalid);
        }
        let mut wants = request.wants.clone();
        let mut demand: BTreeMap<Name, i64> = BTreeMap::new();
        self.prime(&mut wants, &mut demand);
        let duration = if request.duration == 0 { FOREVER } else { request.duration };
        let root_type = self.model[self.root].type_();
        let exclusive = asks_exclusively(&wants, root_type);
        let mut aim = Aim {
            start: now,
            end: now.saturating_add(duration),
            now: true,
            inventory: false,
            flow: request.flowing.0,
            constraint: request.constraint.as_ref(),
            shape: request.shape,
            terms: request.terms,
        };
        let last = FOREVER.saturating_sub(duration).saturating_sub(1).max(0);
        let ever =
            Aim { start: last, end: last.saturating_add(duration), now: false, inventory: true, ..aim };
        if op == Op::Satisfiability {
            let possible = self.select(&wants, &ever, exclusive);
            self.count_visits(false);
            possible.map_err(never)?;
            return Ok(Matched { at: now, booked: Booked::default() });
        }
        self.check_nodes(op, &aim, &demand)?;
        match self.select(&wants, &aim, exclusive) {
            Ok(()) => self.count_visits(false),
            Err(_) => match op {
                Op::Allocate | Op::WithoutAllocating | Op::Satisfiability => return Err(Miss::Busy),
                Op::AllocateWithSatisfiability => {
                    let possible = self.select(&wants, &ever, exclusive);
                    self.count_visits(true);
                    possible.map_err(never)?;
                    return Err(Miss::Busy);
                }
                Op::AllocateOrElseReserve | Op::WithoutAllocatingFuture => {
                    aim.now = false;
                    if !self.select_later(&wants, &mut aim, exclusive, &demand, duration) {
                        self.select(&wants, &ever, exclusive).map_err(never)?;
                        return Err(Miss::Busy);
                    }
                }
            },
        }
        if aim.start == FOREVER {
            return Err(Miss::Busy);
        }
        let hold = match op {
            Op::WithoutAllocating | Op::WithoutAllocatingFuture => Hold::Nothing,
            Op::AllocateOrElseReserve if !aim.now => Hold::Reserve,
            _ => Hold::Allocate,
        };
        let mut booked = self.book(job, aim.start, aim.end, hold, now).map_err(|_| Miss::Busy)?;
        if aim.flow && hold != Hold::Nothing {
            let term = Term { job, start: aim.start, end: aim.end, reserve: hold == Hold::Reserve };
            let ways = std::mem::take(&mut self.ways);
            if let Err(error) = self.open_ways(ways, term) {
                self.messages += &format!("flow for job {job}: {error}\n");
                let given_back = self.cancel(job);
                debug_assert!(given_back.is_ok(), "it was booked just now");
                return Err(Miss::Busy);
            }
        }
        booked.queue.clone_from(&request.queue);
        Ok(Matched { at: aim.start, booked })
    }

    /// Tries the times at which free units change, in order.
    fn select_later(
        &mut self,
        wants: &[Want],
        aim: &mut Aim<'_>,
        exclusive: bool,
        demand: &BTreeMap<Name, i64>,
        duration: i64,
    ) -> bool {
        let (Some(below), Some(booking)) = (self.aggregates.below(self.root), self.ledger.get(self.root))
        else {
            return false;
        };
        let mut amounts = vec![0];
        amounts.extend(below.types.iter().map(|t| demand.get(t).copied().unwrap_or(0)));
        let tree = booking.tags();
        let fits = |&at: &i64| tree.fits(at, at.saturating_add(duration), &amounts);
        let times: Vec<i64> = tree.changes(aim.start.saturating_add(1)).filter(fits).collect();
        for at in times {
            (aim.start, aim.end) = (at, at.saturating_add(duration));
            let found = self.select(wants, aim, exclusive);
            self.count_visits(true);
            if found.is_ok() {
                return true;
            }
        }
        false
    }

    /// Refuses early if too few nodes are up, satisfy the constraint or are free.
    fn check_nodes(&mut self, op: Op, aim: &Aim<'_>, demand: &BTreeMap<Name, i64>) -> Result<(), Miss> {
        let wanted = demand.get(&self.types.node).copied().unwrap_or(0);
        let no = match op {
            Op::AllocateWithSatisfiability | Op::Satisfiability => Miss::Unsatisfiable,
            _ => Miss::Busy,
        };
        if wanted > self.nodes_up {
            return Err(no);
        }
        let Some(constraint) = aim.constraint else { return Ok(()) };
        let duration = aim.end.saturating_sub(aim.start);
        let at = match op {
            Op::Allocate | Op::WithoutAllocating => aim.start,
            _ => FOREVER.saturating_sub(duration).saturating_sub(1),
        };
        let until = at.saturating_add(duration);
        if let Some(good) = self.good_nodes(aim, at.max(0), until, no == Miss::Unsatisfiable) {
            return if u64::try_from(wanted).is_ok_and(|wanted| good < wanted) { Err(no) } else { Ok(()) };
        }
        let good = self.nodes.iter().filter(|&&v| {
            let it = self.model.vertex(v);
            it.is_some_and(|it| no == Miss::Unsatisfiable || it.state() == State::Up)
                && self.meets(v, constraint)
                && self.free(v, at.max(0), until) == 1
        });
        if good.take(usize::try_from(wanted).unwrap_or(0)).count() < usize::try_from(wanted).unwrap_or(0) {
            return Err(no);
        }
        Ok(())
    }

    /// Number of nodes that satisfy the constraint and are free and, unless `any_state`, up; `None` if classes do not
    /// decide.
    fn good_nodes(&mut self, aim: &Aim<'_>, start: i64, end: i64, any_state: bool) -> Option<u64> {
        if self.walks_always {
            return None;
        }
        self.classes.refresh(&self.model, self.dominant, &mut self.ledger);
        self.classes.frame().filter(|frame| frame.sites.len() == self.nodes.len())?;
        let view = self.view(aim)?;
        let frame = self.classes.frame()?;
        let mut good = 0;
        for members in view.classes.values() {
            let Some(&(_, _, node)) = members.ranks.first() else { continue };
            let v = frame.sites[node as usize].vertex;
            if (any_state || self.model[v].state() == State::Up) && self.free(v, start, end) == 1 {
                good += members.ranks.len() as u64;
            }
        }
        self.views.give_back(aim.terms, view);
        Some(good)
    }

    /// Sums up, for every vertex of a request, its least needs below it of the counted types.
    fn prime(&mut self, wants: &mut [Want], to_parent: &mut BTreeMap<Name, i64>) {
        let mut sure: Option<BTreeMap<Name, i64>> = None;
        for want in wants {
            if want.exclusive == Some(true) {
                self.exclusive_types.insert(want.type_);
            }
            let min = i64::try_from(want.count.min()).unwrap_or(i64::MAX);
            if self.aggregates.counts(want.type_) {
                add(to_parent, want.type_, min);
            }
            let mut below = BTreeMap::new();
            self.prime(&mut want.with, &mut below);
            let counted: Vec<(Name, i64)> = below
                .iter()
                .filter(|(type_, _)| self.aggregates.counts(**type_))
                .map(|(&type_, &units)| (type_, min.saturating_mul(units)))
                .collect();
            let slot = want.type_ == self.types.slot || want.type_ == self.types.xor_slot;
            if self.flexible && slot {
                // Of alternatives only the common needs are certain.
                let mine: BTreeMap<Name, i64> = counted.into_iter().collect();
                match &mut sure {
                    None => sure = Some(mine),
                    Some(sure) => {
                        for (type_, units) in sure {
                            *units = mine.get(type_).copied().unwrap_or(0).min(*units);
                        }
                    }
                }
            } else {
                for (type_, units) in counted {
                    add(to_parent, type_, units);
                }
            }
            want.below = below;
        }
        for (type_, units) in sure.unwrap_or_default() {
            add(to_parent, type_, units);
        }
    }
}

/// Resources that do not suffice when everything is free never suffice.
fn never(miss: Miss) -> Miss {
    match miss {
        Miss::Busy | Miss::Unsatisfiable => Miss::Unsatisfiable,
        Miss::Invalid => Miss::Invalid,
    }
}
