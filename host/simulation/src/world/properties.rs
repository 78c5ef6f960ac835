//! Services that set and remove properties of nodes: their requests, the answers, and the invariants of both.
//!
//! Must never know how the scheduler keeps a property.

use std::collections::BTreeSet;

use fluxgate_wire::message::Message;
use fluxgate_wire::proto::errno;
use serde_json::{Value, json};

use super::World;
use super::marks::{KEY, kept_paths};
use super::operators::{GUEST, What};
use crate::book::units;
use crate::constraints::{Properties, has, put};
use crate::dice::Dice;
use crate::model::OWNER;
use crate::plan::SET;

/// Changes before the scheduler of now had read the kept properties: names of properties, and ranks.
#[derive(Debug, Default)]
pub(super) struct Unread(BTreeSet<(String, u32)>);

/// A change of a property that was asked for.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Setting {
    name: String,
    paths: Vec<String>,
    has: bool,
}

/// The rank of a node, by its path.
fn rank_of(path: &str) -> Option<u32> {
    path.rsplit_once("/node")?.1.parse().ok()
}

impl World {
    /// A service sets or removes some properties.
    pub(super) fn change_properties(&mut self, dice: &mut Dice) {
        if self.book.storage.paths().is_empty() {
            return;
        }
        for _ in 0..dice.range(1, 4) {
            let (name, has) = (*dice.pick(&SET), dice.often(500));
            let count = if has { dice.range(1, 3) } else { 1 };
            let ranks: BTreeSet<u32> =
                (0..count).map(|_| dice.below(u64::from(self.plan.nodes)) as u32).collect();
            self.ask_property(name, &ranks, has);
        }
        if dice.often(150) {
            let paths = [self.book.storage.node(0), "/c/node99".to_owned()];
            let wrong = json!({"sp_resource_path": paths, "sp_keyval": "p0=v"});
            self.client(OWNER, "sched-fluxgate.set_property", &wrong, What::Unknown);
            let theirs = json!({"resource_path": paths[0], "key": "p0"});
            self.client(GUEST, "sched-fluxgate.remove_property", &theirs, What::Forbidden);
        }
    }

    fn ask_property(&mut self, name: &str, ranks: &BTreeSet<u32>, has: bool) {
        let paths: Vec<String> = ranks.iter().map(|rank| self.book.storage.node(*rank)).collect();
        let one_or_all = if let [path] = paths.as_slice() { json!(path) } else { json!(paths) };
        let (topic, payload) = match has {
            true => {
                ("set_property", json!({"sp_resource_path": one_or_all, "sp_keyval": format!("{name}=v")}))
            }
            false => ("remove_property", json!({"resource_path": one_or_all, "key": name})),
        };
        let setting = Setting { name: name.to_owned(), paths, has };
        self.client(OWNER, &format!("sched-fluxgate.{topic}"), &payload, What::Property(setting));
    }

    /// The scheduler sends an answer: from here on jobs start by the properties that it was told.
    pub(super) fn property_is_answered(&mut self, message: &Message) {
        let Some(setting) = self.asked_setting(message.matchtag()).filter(|_| message.is_response()) else {
            return;
        };
        match message.errnum() {
            0 => {
                let mut now = self.book.constraints.now().clone();
                for rank in setting.paths.iter().filter_map(|path| rank_of(path)) {
                    put(&mut now, &setting.name, rank, setting.has);
                    self.properties.0.insert((setting.name.clone(), rank));
                }
                self.book.constraints.tell(now);
                self.vertices_changed();
                self.tally.reached(if setting.has { "a property is set" } else { "a property is removed" });
            }
            errno::EAGAIN | errno::EHOSTUNREACH => self.tally.reached("a change of a property is refused"),
            _ if setting.paths.iter().any(|path| self.is_of_lost(path)) => {
                self.tally.reached("a property of a node that was lost is refused");
            }
            errnum => self.breaks(format!("{setting:?} was answered with {errnum}")),
        }
    }

    /// A scheduler begins: it knows the described properties, and has not read the kept ones.
    pub(super) fn no_properties(&mut self) {
        self.book.constraints.begin();
        self.properties = Unread::default();
    }

    /// The scheduler has read the kept properties; they count but for those that were changed meanwhile.
    pub(super) fn properties_are_read(&mut self, kept: Option<&str>) {
        let mut all = self.book.constraints.described().clone();
        let news = std::mem::take(&mut self.properties.0);
        kept_properties(kept, |name, rank, has| put(&mut all, name, rank, has));
        for (name, rank) in &news {
            put(&mut all, name, *rank, has(self.book.constraints.now(), name, *rank));
        }
        if all != *self.book.constraints.described() {
            self.tally.reached("properties are read by the next scheduler");
        }
        self.book.constraints.know(all);
    }

    /// The kept properties cannot be read: where there are vertices, a service may have set some.
    pub(super) fn properties_are_unread(&mut self) {
        if self.book.storage.paths().is_empty() {
            let described = self.book.constraints.described().clone();
            self.book.constraints.know(described);
        }
    }

    /// A job starts on nodes that meet its condition.
    pub(super) fn judge_condition(&mut self, id: u64, r: &Value) {
        let Some(condition) = self.jobs.jobs.get(&id).map(|job| job.plan.condition) else { return };
        let constraints = &self.book.constraints;
        let Some(text) = constraints.condition(condition) else { return };
        let mut ranks = units(r).unwrap_or_default().into_iter().map(|(rank, ..)| rank);
        match ranks.find(|rank| !constraints.meets(condition, *rank, constraints.now())) {
            Some(rank) => self.breaks(format!("job {id} starts on rank {rank}, which does not meet {text}")),
            None => self.tally.reached("a job with a condition starts"),
        }
    }

    /// When it is quiet, the key has the properties that were set.
    pub(super) fn judge_kept_properties(&mut self) {
        let mut kept = self.book.constraints.described().clone();
        kept_properties(self.store.get(KEY), |name, rank, has| put(&mut kept, name, rank, has));
        let (there, kept) = (self.pairs(self.book.constraints.now()), self.pairs(&kept));
        if there != kept {
            self.breaks(format!("properties of nodes are {there:?}, and kept are {kept:?}"));
        }
    }

    /// Properties with the ranks that have them, of those that were not lost.
    fn pairs(&self, properties: &Properties) -> BTreeSet<(String, u32)> {
        let lost = &self.book.lost;
        let of = |(name, ranks): (&String, &BTreeSet<u32>)| {
            ranks.difference(lost).map(|rank| (name.clone(), *rank)).collect::<Vec<_>>()
        };
        properties.iter().flat_map(of).collect()
    }

    /// Services give the nodes back the properties that they are described with, so that all jobs can end.
    pub(super) fn properties_as_described(&mut self) {
        let (there, described) =
            (self.pairs(self.book.constraints.now()), self.pairs(self.book.constraints.described()));
        for (name, rank) in there.symmetric_difference(&described) {
            self.ask_property(name, &BTreeSet::from([*rank]), described.contains(&(name.clone(), *rank)));
        }
    }
}

/// The properties of a kept value: name, rank, and whether the rank has it.
fn kept_properties(text: Option<&str>, mut each: impl FnMut(&str, u32, bool)) {
    let kept: Value = text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    for one in kept["properties"].as_array().into_iter().flatten() {
        for rank in kept_paths(&one["paths"]).iter().filter_map(|path| rank_of(path)) {
            each(one["key"].as_str().unwrap_or_default(), rank, !one["value"].is_null());
        }
    }
}
