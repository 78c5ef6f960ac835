//! The groups of a queue whose first jobs changed since its policy was told of them.
//!
//! A policy that keeps the first jobs of all groups learns only of these, so a pass costs nothing for each of the other groups. Must
//! never know jobs or policies.

use super::groups::GroupKey;

/// The changes since the last pass that was told of them; see the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Changes {
    /// The groups by number. A number that is free is given to another group.
    groups: Vec<Option<GroupKey>>,
    vacant: Vec<u32>,
    /// Numbers whose group is new, is gone, or has another first job, each once, in the order of the first such change.
    noted: Vec<u32>,
    /// By number: it is in `noted`.
    is_noted: Vec<bool>,
    /// The policy that made the last pass knows all first jobs but those of `noted`.
    told: bool,
}

impl Changes {
    /// A number for a new group.
    pub(super) fn number(&mut self, group: GroupKey) -> u32 {
        let number = self.vacant.pop().unwrap_or(self.groups.len() as u32);
        match self.groups.get_mut(number as usize) {
            Some(vacant) => *vacant = Some(group),
            None => {
                self.groups.push(Some(group));
                self.is_noted.push(false);
            }
        }
        number
    }

    /// The group of this number is gone.
    pub(super) fn vacate(&mut self, number: u32) {
        self.groups[number as usize] = None;
        self.vacant.push(number);
    }

    /// The group of this number is new or gone, or has another first job.
    pub(super) fn note(&mut self, number: u32) {
        if !std::mem::replace(&mut self.is_noted[number as usize], true) {
            self.noted.push(number);
        }
    }

    /// True if the changes are all that the policy of the last pass does not know.
    pub(crate) fn is_told(&self) -> bool {
        self.told
    }

    /// The changed groups from the one at this place on, each with its number; without a key where none has this number any more.
    pub(crate) fn from(&self, place: usize) -> impl Iterator<Item = (u32, Option<GroupKey>)> {
        let noted = self.noted.get(place..).unwrap_or_default();
        noted.iter().map(|number| (*number, self.groups[*number as usize]))
    }

    /// The first `count` changes were told to the policy of a pass; `told` if it knows all others.
    pub(crate) fn settle(&mut self, count: usize, told: bool) {
        for number in self.noted.drain(..count.min(self.noted.len())) {
            self.is_noted[number as usize] = false;
        }
        self.told = told;
    }
}
