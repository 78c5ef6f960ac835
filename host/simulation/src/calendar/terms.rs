//! The terms of one reservation, as it was asked for, and their comparison with a row that the scheduler tells.
//!
//! Must never know other reservations.

use std::collections::{BTreeMap, BTreeSet};

use fluxgate_formats::Idset;
use serde_json::Value;

use crate::flow::factor;

/// Most times of one reservation that a world sees.
const TIMES_MAX: usize = 2000;
/// Times that are told ahead.
const AHEAD: usize = 8;

/// See the module text.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Terms {
    /// Tells versions apart.
    pub number: u64,
    /// For members; else for maintenance.
    pub dedicated: bool,
    /// The first time.
    pub first: (f64, f64),
    /// It comes again this many seconds later, and after that, up to this time if it is above 0.
    pub every: Option<(f64, f64)>,
    /// Times that begin earlier are left out.
    pub gone_before: f64,
    /// The next time that has not begun may be left out.
    pub skips: bool,
    /// It was ended.
    pub ended: bool,
    /// Seconds.
    pub margin: f64,
    /// Seconds.
    pub overrun: f64,
    /// This many nodes are chosen.
    pub wanted: Option<u32>,
    /// The number of the condition that chosen nodes meet; 0 is none.
    pub condition: u32,
    /// Its nodes, where they are known.
    pub ranks: Option<BTreeSet<u32>>,
    /// The start of the time for which the nodes were told.
    pub told_for: Option<f64>,
    /// The start of a time that has begun with chosen nodes, and these nodes, which stay.
    pub fixed: Option<(f64, BTreeSet<u32>)>,
    /// Members.
    pub users: BTreeSet<u32>,
    /// Members are in one of these groups, or are its users.
    pub groups: BTreeSet<String>,
    /// Members.
    pub queues: BTreeSet<String>,
    /// Members.
    pub banks: BTreeSet<String>,
    /// Units of pools that it keeps.
    pub pools: BTreeMap<String, u64>,
    /// It attracts jobs that do not name it.
    pub magnetic: bool,
    /// Members may be elsewhere.
    pub flex: bool,
    /// It shares nodes.
    pub overlap: bool,
    /// Nodes are replaced after its start.
    pub replace: bool,
    /// Jobs that may be ended fill the time before it.
    pub fill: bool,
    /// It ends once it has been idle for this many seconds.
    pub idle: Option<f64>,
    /// It floats.
    pub float: Option<f64>,
    /// The rule for running jobs.
    pub running: &'static str,
    /// The rule for members that wait when it is over.
    pub after: &'static str,
    /// A text for people.
    pub note: String,
}

impl Terms {
    /// All times, with those that may be over or left out.
    pub fn all_times(&self) -> impl Iterator<Item = (f64, f64)> {
        let (start, end) = self.first;
        let (every, until) = self.every.unwrap_or((0.0, 0.0));
        let count = if self.ended {
            0
        } else if self.every.is_some() {
            TIMES_MAX
        } else {
            1
        };
        let times = (0..count).map(move |n| (start + n as f64 * every, end + n as f64 * every));
        let gone = self.gone_before;
        times
            .take_while(move |time| until <= 0.0 || time.0 <= until + 1e-6 || time.0 == start)
            .filter(move |time| time.0 >= gone - 1e-6)
    }

    /// The times that are not over at this one.
    pub fn times_after(&self, now: f64) -> impl Iterator<Item = (f64, f64)> {
        self.all_times().filter(move |time| time.1 > now)
    }

    /// May a time that begins then be missing, though it is not over?
    pub fn may_miss(&self, start: f64, latest: f64) -> bool {
        self.skips || self.was_idle(start, latest)
    }

    /// May a time that begins then have ended early?
    fn was_idle(&self, start: f64, latest: f64) -> bool {
        self.idle.is_some_and(|idle| start + idle <= latest + 1e-3)
    }

    /// Compares a row of a list with these terms; returns them with the nodes and times that the row tells.
    ///
    /// # Errors
    /// The difference.
    pub fn told(&self, row: &Value, (clock, latest): (f64, f64), nodes_known: bool) -> Result<Terms, String> {
        let mut told = self.clone();
        let users: BTreeSet<u64> = self.users.iter().map(|user| u64::from(*user)).collect();
        let set = |value: &Value| {
            let all = value.as_array().into_iter().flatten();
            all.map(|value| value.as_str().unwrap_or_default().to_owned()).collect::<BTreeSet<String>>()
        };
        let told_users: BTreeSet<u64> =
            row["who"]["users"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
        let same = [
            ("kind", row["kind"] == if self.dedicated { "dedicated" } else { "maintenance" }),
            ("margin", row["margin"] == self.margin),
            ("overrun", row["overrun"] == self.overrun),
            ("users", told_users == users),
            ("groups", set(&row["who"]["groups"]) == self.groups),
            ("queues", set(&row["who"]["queues"]) == self.queues),
            ("banks", set(&row["who"]["banks"]) == self.banks),
            ("pools", pools_told(&row["pools"]).as_ref() == Some(&self.pools)),
            ("magnetic", row["who"]["magnetic"] == self.magnetic),
            ("flex", row["flex"] == self.flex),
            ("overlap", row["overlap"] == self.overlap),
            ("replace", row["replace"] == self.replace),
            ("fill", row["fill"] == self.fill),
            ("release_when_idle", row["release_when_idle"].as_f64() == self.idle),
            ("float", row["float"].as_f64() == self.float),
            ("running", row["running"] == self.running),
            ("after", row["after"] == self.after),
            ("note", row["note"] == self.note.as_str()),
        ];
        if let Some((what, _)) = same.iter().find(|(_, same)| !same) {
            return Err(format!("{what} of {self:?} is not that of {row}"));
        }
        let ranks = row["ranks"].as_str().and_then(|text| Idset::parse(text).ok()).unwrap_or_default();
        let ranks: BTreeSet<u32> = ranks.iter().collect();
        let times = self.times_told(row, latest)?;
        let first = times.first().copied();
        match self.wanted {
            None if self.ranks.as_ref().is_some_and(|known| *known != ranks) => {
                return Err(format!("nodes {ranks:?} instead of {:?}", self.ranks));
            }
            None => told.ranks = Some(ranks),
            Some(wanted) => {
                if row["places"]["nodes"] != wanted || ranks.len() != wanted as usize {
                    return Err(format!("{} nodes instead of {wanted}: {row}", ranks.len()));
                }
                // Nodes that went down in the occurrence before were replaced at its end.
                let start = first.map(|first| first.0);
                let turned = self.told_for.is_some() && self.told_for != start;
                let known = self.ranks.as_ref().filter(|_| nodes_known && !turned && first.is_some());
                if known.is_some_and(|known| *known != ranks) {
                    return Err(format!("nodes {ranks:?} instead of {:?}, and no node changed", self.ranks));
                }
                // A scheduler that begins with its clock set back has the time before the start once more.
                told.fixed = told.fixed.filter(|(start, _)| clock > start - 1e-6);
                if let (Some((start, fixed)), Some(first)) = (&told.fixed, first)
                    && (first.0 - start).abs() < 1e-6
                    && !self.replace
                    && *fixed != ranks
                {
                    return Err(format!("nodes {ranks:?} instead of {fixed:?}, after its start"));
                }
                told.ranks = nodes_known.then(|| ranks.clone());
                told.told_for = start;
                let begun = first.filter(|_| row["state"] == "active");
                if let Some(first) = begun {
                    told.fixed = Some((first.0, ranks));
                }
            }
        }
        // A time that is missing since it is over, or was idle, may be there again if that was not kept.
        if self.skips {
            (told.gone_before, told.skips) = (first.map_or(f64::INFINITY, |first| first.0), false);
        }
        Ok(told)
    }

    /// The times of a row, if they are those that there must be.
    fn times_told(&self, row: &Value, latest: f64) -> Result<Vec<(f64, f64)>, String> {
        let pair = |value: &Value| Some((value[0].as_f64()?, value[1].as_f64()?));
        let told: Vec<(f64, f64)> =
            row["occurrences"].as_array().into_iter().flatten().filter_map(pair).collect();
        let is = |a: &(f64, f64), b: &(f64, f64)| (a.0 - b.0).abs() < 1e-6 && (a.1 - b.1).abs() < 1e-6;
        let mut all = self.all_times().peekable();
        // One time may be left out as skipped, and one as idle.
        let (mut skip, mut idle) = (self.skips, self.idle.is_some());
        let mut may_miss = |other: &(f64, f64)| {
            other.1 <= latest
                || self.was_idle(other.0, latest) && std::mem::take(&mut idle)
                || std::mem::take(&mut skip)
        };
        for (number, time) in told.iter().enumerate() {
            // Times that are left out before this one.
            while let Some(other) = all.next_if(|other| !is(other, time)) {
                if number > 0 || !may_miss(&other) {
                    return Err(format!("the time {other:?} of {self:?} is missing: {told:?}"));
                }
            }
            if all.next().is_none() {
                return Err(format!("the time {time:?} is none of {self:?}"));
            }
        }
        if told.len() + 1 < AHEAD
            && let Some(other) = all.find(|other| !(told.is_empty() && may_miss(other) || other.1 <= latest))
        {
            return Err(format!("the time {other:?} of {self:?} is missing: {told:?}"));
        }
        Ok(told)
    }
}

/// Units of pools as a row has them, in words; `None` if one of them cannot be read.
fn pools_told(row: &Value) -> Option<BTreeMap<String, u64>> {
    let one = |(pool, said): (&String, &Value)| {
        let (count, unit) = said.as_str()?.split_once(' ').unwrap_or((said.as_str()?, ""));
        Some((pool.clone(), count.parse::<u64>().ok()?.checked_mul(factor(unit))?))
    };
    row.as_object().into_iter().flatten().map(one).collect()
}
