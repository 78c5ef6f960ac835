//! The reservations of operators, in a calendar of the world's own: it shares no code with the scheduler's engine and graph.
//!
//! The world knows its requests and their answers. Between the two, and after an end of the scheduler, each of some versions of
//! a reservation may be in force; lists that the scheduler tells narrow them down. A change that was answered as kept leaves one
//! version. Must never know why anything is reserved.

mod rule;
mod terms;

use std::collections::{BTreeMap, BTreeSet};

pub use rule::Start;
use serde_json::Value;
pub use terms::Terms;

use crate::agenda::Time;

/// A version of a reservation; `None` where there is none.
pub type Version = Option<Terms>;

/// The reservation of one name, as far as it is known.
#[derive(Debug, Clone)]
struct Entry {
    /// Versions that may be in force now.
    now: Vec<Version>,
    /// Versions that may be in force in the next life of the scheduler.
    kept: Vec<Version>,
    /// A change without an answer yet: whether its version was not possible before, now and in the next life.
    asked: Option<(bool, bool)>,
    /// Counts the answers.
    answers: u64,
    /// A change of this life may be lost with it.
    unkept: bool,
    /// The time since which there is one version only.
    since: Time,
}

impl Default for Entry {
    fn default() -> Self {
        Entry { now: vec![None], kept: vec![None], asked: None, answers: 0, unkept: false, since: 0 }
    }
}

impl Entry {
    fn settle(&mut self, time: Time) {
        if self.now.len() > 1 {
            self.since = Time::MAX;
        } else if self.since == Time::MAX {
            self.since = time;
        }
    }
}

/// Seconds after a wait for nodes until the scheduler has chosen others for those that did not come up.
const PASSES: f64 = 60.0;

/// Counts at the request of a list, of answers and of changes of nodes: the list is compared where they are still the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    answers: BTreeMap<String, u64>,
    nodes: u64,
}

/// See the module text.
#[derive(Debug, Default)]
pub struct Calendar {
    entries: BTreeMap<String, Entry>,
    /// The latest time that any clock showed: an occurrence that was over then may be forgotten, even if the clock is set back.
    pub latest: f64,
    /// The last commit of reservations was refused.
    refused: bool,
    /// Counts changes of nodes after which others may be chosen.
    nodes: u64,
    /// The time of the clock up to which nodes that were not up since the inventory may be replaced without a change.
    awaited_until: f64,
    /// The kept versions may differ from a list: a commit of the scheduler before may come late, or they could not be read.
    late: bool,
    last: u64,
}

impl Calendar {
    fn entry(&mut self, name: &str) -> &mut Entry {
        self.entries.entry(name.to_owned()).or_default()
    }

    /// The one version that is in force for sure; `None` if there may be others.
    pub fn known(&self, name: &str) -> Option<&Version> {
        let Some(entry) = self.entries.get(name) else { return Some(&None) };
        if entry.now.len() == 1 && entry.asked.is_none() { entry.now.first() } else { None }
    }

    /// Is an answer about this name still to come?
    pub fn is_asked(&self, name: &str) -> bool {
        self.entries.get(name).is_some_and(|entry| entry.asked.is_some())
    }

    /// Another number for a version.
    pub fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Every name of which a version may be in force.
    pub fn names(&self) -> Vec<String> {
        let some = |(_, entry): &(&String, &Entry)| entry.now.iter().any(Option::is_some);
        self.entries.iter().filter(some).map(|(name, _)| name.clone()).collect()
    }

    /// All versions that may be in force of this name.
    pub fn versions(&self, name: &str) -> impl Iterator<Item = &Terms> {
        self.entries.get(name).into_iter().flat_map(|entry| &entry.now).flatten()
    }

    /// Is there no reservation that may still begin, or is on? Occurrences that were over are to come again if `now` was set back.
    pub fn is_over(&self, now: f64) -> bool {
        let open = |terms: &Terms| terms.times_after(now).next().is_some();
        !self.entries.values().any(|entry| entry.asked.is_some() || entry.now.iter().flatten().any(open))
    }

    /// This version is asked for.
    pub fn asks(&mut self, name: &str, version: Version, time: Time) {
        let entry = self.entry(name);
        let new = |versions: &[Version]| !versions.iter().any(|other| is_version(other, &version));
        let (now, kept) = (new(&entry.now), new(&entry.kept));
        entry.asked = Some((now, kept));
        entry.now.extend(Some(version.clone()).filter(|_| now));
        entry.kept.extend(Some(version).filter(|_| kept));
        entry.settle(time);
    }

    /// A version was made, and is kept or not.
    pub fn made(&mut self, name: &str, version: Version, kept: bool, time: Time) {
        let entry = self.entry(name);
        entry.asked = None;
        entry.answers += 1;
        entry.now = vec![version.clone()];
        match kept {
            true => (entry.kept, entry.unkept) = (vec![version], false),
            false => {
                entry.kept.retain(|other| !is_version(other, &version));
                entry.kept.push(version);
                entry.unkept = true;
            }
        }
        entry.since = time;
        if kept {
            // All reservations are kept together.
            self.late = false;
            for entry in self.entries.values_mut().filter(|entry| entry.asked.is_none()) {
                entry.unkept = false;
                entry.kept.clone_from(&entry.now);
            }
        }
    }

    /// A version was refused.
    pub fn refused(&mut self, name: &str, version: &Version, time: Time) {
        let entry = self.entry(name);
        entry.answers += 1;
        let (now, kept) = entry.asked.take().unwrap_or_default();
        for (versions, new) in [(&mut entry.now, now), (&mut entry.kept, kept)] {
            versions.retain(|other| !new || !is_version(other, version));
        }
        entry.settle(time);
    }

    /// A commit of reservations is kept, or is refused and may be tried again.
    pub fn written(&mut self, kept: bool) {
        self.refused = !kept;
    }

    /// The scheduler is gone: the next one has the kept versions. If the old one `writes`, its commit may be done after they are read.
    pub fn life_ends(&mut self, time: Time, writes: bool) {
        self.nodes_change();
        self.late = writes;
        let unsure = std::mem::take(&mut self.refused) || writes;
        for entry in self.entries.values_mut() {
            (entry.asked, entry.unkept) = (None, false);
            entry.answers += 1;
            // Without the last commit, nodes that were replaced before the begin are those of before again.
            entry.kept.iter_mut().flatten().filter(|_| unsure).for_each(|terms| terms.fixed = None);
            entry.now.clone_from(&entry.kept);
            entry.since = Time::MAX;
            entry.settle(time);
        }
    }

    /// The scheduler could not read the kept reservations: it knows none of them, and leaves them there until it writes.
    pub fn unread(&mut self, time: Time) {
        self.late = true;
        for entry in self.entries.values_mut() {
            (entry.now, entry.since) = (vec![None], time);
            // A change on its way is refused, which takes no version of now back.
            entry.asked = entry.asked.map(|(_, kept)| (false, kept));
        }
    }

    /// From now on the scheduler may write its reservations over those that it could not read.
    pub fn may_write(&mut self) {
        for entry in self.entries.values_mut() {
            let kept = &entry.kept;
            let new = |version: &&Version| !kept.iter().any(|other| is_version(other, version));
            let more: Vec<Version> = entry.now.iter().filter(new).cloned().collect();
            entry.kept.extend(more);
        }
    }

    /// Nodes go down, come up or are lost: others may be chosen.
    pub fn nodes_change(&mut self) {
        self.nodes += 1;
        for entry in self.entries.values_mut() {
            for terms in entry.now.iter_mut().chain(&mut entry.kept).flatten() {
                if terms.wanted.is_some() {
                    terms.ranks = None;
                }
            }
        }
    }

    /// A scheduler begins with this time on its clock. If the clock was set back, the time before a begin comes once more, and nodes
    /// are replaced in it.
    pub fn life_begins(&mut self, clock: f64) {
        for entry in self.entries.values_mut() {
            for terms in entry.now.iter_mut().chain(&mut entry.kept).flatten() {
                terms.fixed = terms.fixed.take().filter(|(start, _)| *start <= clock);
            }
        }
    }

    /// A scheduler gets its inventory and waits this many seconds for nodes of reservations, or the clock is set back meanwhile.
    pub fn nodes_are_awaited(&mut self, seconds: f64) {
        self.nodes_change();
        self.awaited_until = self.latest + seconds + PASSES;
    }

    /// The counts of now, for a list that is asked for.
    pub fn seen(&self) -> Seen {
        let answers = self.entries.iter().map(|(name, entry)| (name.clone(), entry.answers)).collect();
        Seen { answers, nodes: self.nodes }
    }

    /// The scheduler lists its reservations; `clock` is its clock then.
    ///
    /// # Errors
    /// A reservation is missing, is another one, or was never made.
    pub fn listed(&mut self, rows: &[Value], seen: &Seen, clock: f64, time: Time) -> Result<(), String> {
        let mut by_name: BTreeMap<&str, &Value> = BTreeMap::new();
        for row in rows {
            by_name.insert(row["name"].as_str().unwrap_or_default(), row);
        }
        if let Some(name) = by_name.keys().find(|name| !self.entries.contains_key(**name)) {
            return Err(format!("reservation {name} is listed, and nobody made it"));
        }
        let (latest, late) = (self.latest, self.late);
        let nodes = self.nodes == seen.nodes && latest > self.awaited_until;
        for (name, entry) in &mut self.entries {
            if seen.answers.get(name).copied().unwrap_or_default() != entry.answers {
                continue;
            }
            let row = by_name.get(name.as_str());
            let (mut found, mut why) = (Vec::new(), Vec::new());
            for version in &entry.now {
                match (version, row) {
                    (None, None) => found.push(None),
                    (Some(terms), Some(row)) => match terms.told(row, (clock, latest), nodes) {
                        Ok(told) => found.push(Some(told)),
                        Err(error) => why.push(error),
                    },
                    (Some(terms), None) => why.push(format!("{terms:?} is not listed")),
                    (None, Some(row)) => why.push(format!("it is listed: {row}")),
                }
            }
            if found.is_empty() {
                return Err(format!("reservation {name}: {}", why.join("; or ")));
            }
            if entry.asked.is_some() {
                continue;
            }
            entry.now = found;
            if !entry.unkept && !late {
                entry.kept.clone_from(&entry.now);
            }
            entry.settle(time);
        }
        Ok(())
    }

    /// Names with one version since this time, and that version.
    pub fn settled(&self, since: Time) -> impl Iterator<Item = (&str, &Terms)> {
        let sure = move |(_, entry): &(&String, &Entry)| {
            entry.now.len() == 1 && entry.asked.is_none() && entry.since < since
        };
        self.entries
            .iter()
            .filter(sure)
            .filter_map(|(name, entry)| Some((name.as_str(), entry.now.first()?.as_ref()?)))
    }

    /// May a job with these times and nodes be ended since a reservation begins?
    pub fn may_end(&self, start: f64, end: f64, ranks: &BTreeSet<u32>) -> bool {
        let all = self.entries.values().flat_map(|entry| &entry.now).flatten();
        all.filter(|terms| terms.running == "end").any(|terms| {
            // Or the job holds some of its pools.
            let there =
                !terms.pools.is_empty() || terms.ranks.as_ref().is_none_or(|of| !of.is_disjoint(ranks));
            let across = |from: f64| {
                from <= self.latest + 1e-3 && start < from + 1e-6 && (end <= 0.0 || end > from - 1e-6)
            };
            there && terms.all_times().any(|(from, _)| across(from - terms.margin))
        })
    }
}

fn is_version(one: &Version, other: &Version) -> bool {
    one.as_ref().map(|terms| terms.number) == other.as_ref().map(|terms| terms.number)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn terms(number: u64, end: f64) -> Version {
        Some(Terms {
            number,
            first: (10.0, end),
            ranks: Some(BTreeSet::from([0])),
            running: "ignore",
            after: "wait",
            ..Terms::default()
        })
    }

    fn row(end: f64) -> Value {
        json!({
            "name": "w", "kind": "maintenance", "margin": 0.0, "overrun": 0.0, "ranks": "0", "places": {},
            "who": {"users": [], "groups": [], "queues": [], "banks": [], "magnetic": false}, "flex": false, "overlap": false, "replace": false,
            "fill": false, "pools": {}, "running": "ignore", "after": "wait", "note": "", "occurrences": [[10.0, end]], "state": "planned",
        })
    }

    #[test]
    fn feat_26_what_was_kept_is_there_and_what_was_not_answered_may_be() {
        let mut calendar = Calendar::default();
        let listed = |calendar: &mut Calendar, rows: &[Value]| {
            let seen = calendar.seen();
            calendar.listed(rows, &seen, 0.0, 0)
        };
        calendar.asks("w", terms(1, 20.0), 0);
        calendar.made("w", terms(1, 20.0), true, 0);
        calendar.life_ends(0, false);
        listed(&mut calendar, &[]).unwrap_err();
        listed(&mut calendar, &[row(21.0)]).unwrap_err();
        listed(&mut calendar, &[row(20.0)]).unwrap();
        // A change without an answer: either version is right, and the next list tells which.
        calendar.asks("w", terms(2, 21.0), 0);
        calendar.life_ends(0, false);
        assert_eq!(calendar.known("w"), None);
        listed(&mut calendar, &[row(21.0)]).unwrap();
        listed(&mut calendar, &[row(20.0)]).unwrap_err();
        // A change that was made and not kept is in force until the scheduler ends.
        calendar.asks("w", None, 0);
        calendar.made("w", None, false, 0);
        listed(&mut calendar, &[row(21.0)]).unwrap_err();
        calendar.life_ends(0, false);
        listed(&mut calendar, &[row(21.0)]).unwrap();
    }

    #[test]
    fn a_node_that_is_chosen_while_the_scheduler_writes_may_be_lost_with_it() {
        for writes in [true, false] {
            let mut calendar = Calendar::default();
            let chosen = Terms { wanted: Some(1), ranks: None, ..terms(1, 20.0).unwrap() };
            let told = |rank: &str| {
                let mut row = row(20.0);
                row["ranks"] = rank.into();
                row["places"] = json!({"nodes": 1});
                row["state"] = "active".into();
                [row]
            };
            calendar.asks("w", Some(chosen.clone()), 0);
            calendar.made("w", Some(chosen), true, 0);
            let seen = calendar.seen();
            calendar.listed(&told("3"), &seen, 11.0, 0).unwrap();
            calendar.life_ends(0, writes);
            let seen = calendar.seen();
            assert_eq!(calendar.listed(&told("1"), &seen, 12.0, 0).is_ok(), writes);
        }
    }
}
