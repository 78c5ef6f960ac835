//! Services that mark vertices down and up: their requests, the answers, and the invariants of both.
//!
//! Must never know how the scheduler keeps a mark.

use std::collections::BTreeSet;

use fluxgate_wire::message::Message;
use fluxgate_wire::proto::errno;
use serde_json::{Value, json};

use super::World;
use super::operators::{GUEST, What};
use crate::agenda::{SECOND, Time, micros};
use crate::dice::Dice;
use crate::model::OWNER;

/// The key under which the scheduler keeps marks.
pub(super) const KEY: &str = "sched-fluxgate.vertices";
/// The time without faults, beyond `KEPT`, after which services mark everything up, so that all jobs can end.
const TIDY: Time = 60 * SECOND;
/// The time after the last change of a mark until it is kept.
const KEPT: Time = 60 * SECOND;

/// The state of marks that the book does not have.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// The time at which a vertex was last marked, or marks were last read.
    at: Time,
    /// The scheduler has not read the kept marks.
    unread: bool,
    /// Vertices that were marked meanwhile.
    set: BTreeSet<String>,
    /// The matchtag of its lookup, and the value that was kept then.
    looked_up: Option<(u32, Option<String>)>,
}

/// A mark that was asked for.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Mark {
    pub(super) path: String,
    pub(super) down: bool,
}

impl World {
    /// A service marks some vertices, or unmarks those that it marked when the fault began.
    pub(super) fn mark(&mut self, dice: &mut Dice, down: bool) {
        let paths = self.book.storage.paths();
        if paths.is_empty() {
            return;
        }
        for _ in 0..dice.range(1, 4) {
            let path = dice.pick(&paths).clone();
            self.ask_mark(&path, down);
        }
        if down && dice.often(150) {
            let wrong = json!({"resource_path": "/c/chassis0/ssd99", "status": "down"});
            self.client(OWNER, "sched-fluxgate.set_status", &wrong, What::Unknown);
            let theirs = json!({"resource_path": paths[0], "status": "down"});
            self.client(GUEST, "sched-fluxgate.set_status", &theirs, What::Forbidden);
        }
    }

    fn ask_mark(&mut self, path: &str, down: bool) {
        let status = if down { "down" } else { "up" };
        let payload = json!({"resource_path": path, "status": status});
        let mark = Mark { path: path.to_owned(), down };
        self.client(OWNER, "sched-fluxgate.set_status", &payload, What::Mark(mark));
    }

    /// The scheduler sends an answer: from here on nothing is started on vertices that it was told are down.
    pub(super) fn mark_is_answered(&mut self, message: &Message) {
        let Some(mark) = self.asked_mark(message.matchtag()).filter(|_| message.is_response()) else {
            return;
        };
        match message.errnum() {
            0 => {
                self.book.storage.mark(&mark.path, mark.down);
                if self.marks.unread {
                    self.marks.set.insert(mark.path.clone());
                }
                self.vertices_changed();
                self.tally.reached(if mark.down {
                    "a vertex is marked down"
                } else {
                    "a vertex is marked up"
                });
            }
            // The scheduler is still starting, or goes away.
            errno::EAGAIN | errno::EHOSTUNREACH => self.tally.reached("a mark is refused"),
            errno::EINVAL if self.is_of_lost(&mark.path) => {
                self.tally.reached("a mark of a node that was lost is refused");
            }
            errnum => self.breaks(format!("set_status of {} was answered with {errnum}", mark.path)),
        }
    }

    /// A kept state of vertices has changed: other nodes may be chosen for reservations.
    pub(super) fn vertices_changed(&mut self) {
        self.calendar.nodes_change();
        self.marks.at = self.agenda.now();
    }

    /// A node that was lost is in no later inventory.
    pub(super) fn is_of_lost(&self, path: &str) -> bool {
        let rank = path.rsplit_once("/node").and_then(|(_, rank)| rank.parse().ok());
        rank.is_some_and(|rank| self.book.lost.contains(&rank))
    }

    /// Those of these vertices that are in the inventory.
    fn there(&self, paths: &BTreeSet<String>) -> BTreeSet<String> {
        paths.iter().filter(|path| !self.is_of_lost(path)).cloned().collect()
    }

    /// A scheduler begins: it knows no marks before it has read them.
    pub(super) fn no_marks(&mut self) {
        self.book.storage.begin_with(BTreeSet::new());
        self.marks = Marks { unread: true, ..Marks::default() };
        self.no_properties();
    }

    /// The scheduler looks its marks up.
    pub(super) fn marks_are_looked_up(&mut self, message: &Message) -> Result<Value, i32> {
        let unread = self.weather.no_lookup > self.agenda.now();
        let text = self.store.get(KEY).filter(|_| !unread).map(str::to_owned);
        self.marks.looked_up = Some((message.matchtag(), text));
        match unread {
            true => Err(errno::EIO),
            false => self.store.answer(KEY).ok_or(errno::ENOENT),
        }
    }

    /// The scheduler takes a message in: with the answer to its lookup it knows the kept marks, but for vertices that were marked
    /// meanwhile.
    pub(super) fn marks_are_read(&mut self, message: &Message) {
        let is_answer = |(tag, _): &mut (u32, Option<String>)| {
            message.is_response() && message.topic() == "kvs.lookup" && message.matchtag() == *tag
        };
        let Some((_, text)) = self.marks.looked_up.take_if(is_answer) else { return };
        if message.errnum() == errno::EIO {
            self.properties_are_unread();
            return self.tally.reached("marks cannot be read");
        }
        self.calendar.nodes_change();
        let set = std::mem::take(&mut self.marks.set);
        if !set.is_empty() {
            self.tally.reached("a vertex is marked before the marks are read");
        }
        self.properties_are_read(text.as_deref());
        let kept = text.as_deref().map(kept_down).unwrap_or_default();
        if !kept.is_empty() {
            self.tally.reached("marks are read by the next scheduler");
        }
        let told = self.book.storage.down().iter().filter(|path| set.contains(*path)).cloned();
        let kept = kept.difference(&set).cloned();
        let down = told.chain(kept).collect();
        self.book.storage.begin_with(down);
        (self.marks.unread, self.marks.at) = (false, self.agenda.now());
    }

    /// A job starts on no vertex that is marked down.
    pub(super) fn judge_marks(&mut self, id: u64, r: &Value) {
        if let Some(path) = self.book.storage.down_of(r) {
            self.breaks(format!("job {id} starts on {path}, which is marked down"));
        }
    }

    /// Called every ten seconds.
    pub(super) fn check_marks(&mut self, quiet: bool) {
        let now = self.agenda.now();
        let waits = self.marks_asked();
        self.book.storage.unsure(waits);
        let waits = self.properties_are_asked();
        self.book.constraints.set_unsure(waits);
        if !self.calm || self.scheduler.is_none() {
            return;
        }
        let sure = self.book.storage.is_sure() && self.book.constraints.is_sure();
        let settled = sure && !self.marks.unread && self.marks.at + KEPT < now;
        if quiet && settled && micros(self.plan.calm) + KEPT < now {
            let kept = self.there(&self.store.get(KEY).map(kept_down).unwrap_or_default());
            let there = self.there(self.book.storage.down());
            if kept != there {
                return self.breaks(format!("marked down are {there:?}, and kept are {kept:?}"));
            }
            self.tally.reached("marks are kept");
            self.judge_kept_properties();
        }
        if now >= micros(self.plan.calm) + TIDY + KEPT {
            for path in self.there(self.book.storage.down()) {
                self.ask_mark(&path, false);
            }
            self.properties_as_described();
        }
    }
}

/// The paths of a kept value that are down.
fn kept_down(text: &str) -> BTreeSet<String> {
    let kept: Value = serde_json::from_str(text).unwrap_or_default();
    kept_paths(&kept["down"])
}

/// The paths of a part of a kept value: names by the path above them.
pub(super) fn kept_paths(kept: &Value) -> BTreeSet<String> {
    let parents = kept.as_object().into_iter().flatten();
    let names = |(parent, names): (&String, &Value)| {
        let names = names.as_array().cloned().unwrap_or_default();
        let path = |name: Value| Some(format!("{parent}/{}", name.as_str()?));
        names.into_iter().filter_map(path).collect::<Vec<_>>()
    };
    parents.flat_map(names).collect()
}
