//! Groups of users: their changes, times at which they cannot be looked up, and the check that reservations have the right users.
//!
//! Must never know what reservations are for.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::World;
use crate::agenda::{SECOND, Time};
use crate::dice::Dice;
use crate::plan::GROUPS;

/// Users of jobs.
pub(super) const USERS: [u32; 4] = [1001, 1002, 1003, 1004];
/// The time after a look-up of groups until reservations have their users, if nothing is late.
const KNOWN: Time = 60 * SECOND;
/// The time between two look-ups of all groups.
const EVERY: Time = 600 * SECOND;

/// See the module text.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// The users of each group, and since when.
    all: BTreeMap<&'static str, Vec<(Time, BTreeSet<u32>)>>,
    /// The time up to which no group can be looked up.
    unknown_until: Time,
    /// The time at which the scheduler of now began.
    begun: Time,
}

impl Groups {
    /// The groups of a world.
    pub(super) fn new(seed: u64) -> Groups {
        let mut dice = Dice::new(seed, "users of groups");
        let mut group = |name| {
            let users = USERS.into_iter().filter(|_| dice.often(400)).collect();
            (name, vec![(0, users)])
        };
        Groups { all: GROUPS.into_iter().map(&mut group).collect(), ..Groups::default() }
    }

    /// The users of each group now.
    fn now(&self) -> BTreeMap<String, BTreeSet<u32>> {
        let last = |(name, sets): (&&str, &Vec<(Time, BTreeSet<u32>)>)| {
            Some(((*name).to_owned(), sets.last()?.1.clone()))
        };
        self.all.iter().filter_map(last).collect()
    }

    /// The groups in which a user was at all times, and those in which it was at some.
    pub(super) fn of(&self, user: u32) -> (BTreeSet<&'static str>, BTreeSet<&'static str>) {
        let is_in = |(_, users): &(Time, BTreeSet<u32>)| users.contains(&user);
        let always = self.all.iter().filter(|(_, sets)| sets.iter().all(is_in));
        let ever = self.all.iter().filter(|(_, sets)| sets.iter().any(is_in));
        (always.map(|(name, _)| *name).collect(), ever.map(|(name, _)| *name).collect())
    }

    /// Are these the users that a reservation may have of a group at this time, or, with `sure`, those that it must have?
    fn judge(&self, group: &str, users: &BTreeSet<u32>, now: Time, sure: bool) -> Result<(), String> {
        let sets = self.all.get(group).ok_or_else(|| format!("there is no group {group}"))?;
        if !sets.iter().any(|(_, known)| known == users) {
            return Err(format!("group {group} never had the users {users:?}"));
        }
        let Some((since, last)) = sets.last() else { return Ok(()) };
        let looked_up = *since + KNOWN < self.begun || *since + EVERY + KNOWN < now;
        let late = self.begun + KNOWN >= now || self.unknown_until + EVERY + KNOWN >= now;
        match sure && looked_up && !late && last != users {
            true => Err(format!("group {group} has the users {last:?} since {} s", since / SECOND)),
            false => Ok(()),
        }
    }
}

impl World {
    /// A scheduler begins.
    pub(super) fn groups_begin(&mut self) {
        self.groups.begun = self.agenda.now();
        self.tell_groups();
    }

    /// Sets the groups that the scheduler finds from now on when it looks them up.
    pub(super) fn tell_groups(&mut self) {
        let known = self.groups.unknown_until <= self.agenda.now();
        let groups = known.then(|| self.groups.now());
        if let Some(scheduler) = &self.scheduler {
            scheduler.outside.set_groups(groups);
        }
    }

    /// A user joins or leaves a group, or no group can be looked up until this time.
    pub(super) fn group_changes(&mut self, dice: &mut Dice, until: Time) {
        let now = self.agenda.now();
        if dice.often(300) {
            self.groups.unknown_until = until;
            self.tally.reached("groups cannot be looked up");
            return self.tell_groups();
        }
        let (group, user) = (*dice.pick(&GROUPS), *dice.pick(&USERS));
        if let Some(sets) = self.groups.all.get_mut(group) {
            let mut users = sets.last().map(|(_, users)| users.clone()).unwrap_or_default();
            if !users.remove(&user) {
                users.insert(user);
            }
            sets.push((now, users));
        }
        self.tell_groups();
    }

    /// Judges the users of groups in the list of reservations.
    pub(super) fn judge_groups(&mut self, rows: &[Value]) {
        let (now, sure) = (self.agenda.now(), self.calm);
        for row in rows.iter().filter(|row| row["state"] != "over") {
            for (group, users) in row["who"]["group_users"].as_object().into_iter().flatten() {
                let users = users.as_array().into_iter().flatten().filter_map(Value::as_u64);
                let users: BTreeSet<u32> = users.filter_map(|user| u32::try_from(user).ok()).collect();
                match self.groups.judge(group, &users, now, sure) {
                    Ok(()) => self.tally.reached("a reservation has the users of a group"),
                    Err(what) => return self.breaks(format!("reservation {}: {what}", row["name"])),
                }
            }
        }
    }
}
