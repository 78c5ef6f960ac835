//! Status and properties that services set on vertices, kept over a restart of the scheduler in the KVS of the instance.
//!
//! Storage services tell the status of all storage when they start, and they do not start again with the scheduler. A new
//! scheduler reads the key before its first pass. Where it cannot, it goes on and tries again. Until then the kept value is not
//! written over, and settings of services meanwhile are newer than it. Must never know which service set a vertex.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fluxgate_engine::Event;
use fluxgate_graph::{Resources, VertexMarks};
use fluxgate_wire::dialect;
use fluxgate_wire::message::Message;
use fluxgate_wire::proto::errno;
use fluxgate_wire::session::ControlRequest;
use serde::{Deserialize, Serialize};

use super::Service;
use super::kept_value::{Found, RETRY, found};

/// The key of the KVS.
const KEY: &str = "sched-fluxgate.vertices";
/// Real time from a change until it is written, so that a burst of changes is written once.
const DELAY: Duration = Duration::from_secs(1);
/// Matchtags of reading and writing, far from those that the session counts up from 1.
const READ_TAG: u32 = u32::MAX - 3;
const WRITE_TAG: u32 = u32::MAX - 4;
/// Most requests that wait until the key is read.
const EARLY_MAX: usize = 65_536;
/// Most unknown paths that are named in one line.
const SHOWN_MAX: usize = 3;

/// See the module text.
#[derive(Debug, Default)]
pub(super) struct KeptVertices {
    /// The key is being read; these requests came meanwhile.
    reading: Option<Vec<ControlRequest>>,
    /// When the first change was made that is not written, in real time.
    changed: Option<Duration>,
    writing: bool,
    /// The last try to write failed.
    refused: bool,
    /// The key could not be read.
    unread: Option<Unread>,
}

/// The state while the kept value could not be read.
#[derive(Debug, Default)]
struct Unread {
    /// When it is read again, in real time; `None` while that is under way.
    next: Option<Duration>,
    /// The status and properties that were set since.
    set: BTreeSet<Setting>,
}

/// Path of a vertex, and a property; without one, the status.
type Setting = (String, Option<String>);

impl KeptVertices {
    /// Is the key being read?
    pub(super) fn is_reading(&self) -> bool {
        self.reading.is_some()
    }

    /// Could the key not be read, so that it is read again?
    pub(super) fn is_unread(&self) -> bool {
        self.unread.is_some()
    }

    /// Keep a request until the key is read; false if it is to be served now.
    pub(super) fn postpone(&mut self, request: &ControlRequest) -> bool {
        match &mut self.reading {
            Some(early) if early.len() < EARLY_MAX => {
                early.push(request.clone());
                true
            }
            _ => false,
        }
    }

    /// There is something to be written.
    pub(super) fn change(&mut self, elapsed: Duration) {
        self.changed.get_or_insert(elapsed);
    }

    /// When the key is to be written, or read again.
    pub(super) fn due(&self) -> Option<Duration> {
        match &self.unread {
            Some(unread) => unread.next,
            None => self.changed.filter(|_| !self.writing).map(|changed| changed + DELAY),
        }
    }
}

/// Names by their parent path: most paths differ in their last part only.
type Paths = BTreeMap<String, Vec<String>>;

/// The value of the key.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Kept {
    down: Paths,
    up: Paths,
    properties: Vec<KeptProperty>,
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct KeptProperty {
    key: String,
    value: Option<String>,
    paths: Paths,
}

fn fold(paths: impl IntoIterator<Item = String>) -> Paths {
    let mut folded = Paths::new();
    for path in paths {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", &path));
        folded.entry(parent.to_owned()).or_default().push(name.to_owned());
    }
    folded
}

fn unfold(paths: Paths) -> Vec<String> {
    let below = |(parent, names): (String, Vec<String>)| {
        names.into_iter().map(move |name| format!("{parent}/{name}")).collect::<Vec<_>>()
    };
    paths.into_iter().flat_map(below).collect()
}

impl Kept {
    fn of(marks: VertexMarks) -> Kept {
        let mut properties: BTreeMap<(String, Option<String>), Vec<String>> = BTreeMap::new();
        for (path, key, value) in marks.properties {
            properties.entry((key, value)).or_default().push(path);
        }
        let property = |((key, value), paths): ((String, Option<String>), Vec<String>)| KeptProperty {
            key,
            value,
            paths: fold(paths),
        };
        Kept {
            down: fold(marks.down),
            up: fold(marks.up),
            properties: properties.into_iter().map(property).collect(),
        }
    }

    /// The events that set the kept status and properties again, except where newer ones are known, on vertices that the machine
    /// has; and the paths that it does not have.
    fn events(self, resources: &Resources, newer: &BTreeSet<Setting>) -> (Vec<Event>, Vec<String>) {
        let mut unknown = Vec::new();
        let mut known = |paths: Paths, key: Option<&String>| {
            let is_newer = |path: &String| newer.contains(&(path.clone(), key.cloned()));
            let paths = unfold(paths).into_iter().filter(|path| !is_newer(path));
            let (known, other): (Vec<_>, Vec<_>) = paths.partition(|path| resources.has_path(path));
            unknown.extend(other);
            known
        };
        let mut events = Vec::new();
        for (paths, up) in [(self.down, false), (self.up, true)] {
            events.push(Event::VertexStatus { paths: known(paths, None), up });
        }
        for KeptProperty { key, value, paths } in self.properties {
            let paths = known(paths, Some(&key));
            events.push(Event::VertexProperty { paths, key, value });
        }
        events.retain(|event| match event {
            Event::VertexStatus { paths, .. } | Event::VertexProperty { paths, .. } => !paths.is_empty(),
            _ => true,
        });
        (events, unknown)
    }
}

impl Service {
    /// A scheduler begins: the kept value of the one before it is read. No pass is made before the answer.
    pub(super) fn read_vertices(&mut self) {
        self.kept_vertices.reading = Some(Vec::new());
        self.send(Some(dialect::kvs_lookup(KEY).with_matchtag(READ_TAG)));
    }

    /// Is this the answer to reading or writing?
    pub(super) fn vertices_answer(&mut self, message: &Message) -> bool {
        match message.matchtag() {
            READ_TAG if message.is_response() => {
                let early = self.kept_vertices.reading.take();
                let unread = self.kept_vertices.unread.take();
                if early.is_some() || unread.is_some() {
                    self.set_again(message, unread);
                    early.into_iter().flatten().for_each(|request| self.control(request));
                    self.carry_out(Vec::new());
                }
            }
            WRITE_TAG if message.is_response() => {
                self.kept_vertices.writing = false;
                let before = std::mem::replace(&mut self.kept_vertices.refused, message.errnum() != 0);
                if message.errnum() != 0 {
                    self.kept_vertices.change(self.host.elapsed().saturating_add(RETRY));
                }
                if message.errnum() != 0 && !before {
                    let why = errno::describe(message.errnum());
                    fluxgate_log::log!(
                        VerticesNotKept,
                        "{KEY}: status and properties of vertices are not kept over a restart, and are written again in {} s: {why}",
                        RETRY.as_secs()
                    );
                }
            }
            _ => return false,
        }
        true
    }

    /// A service sets status or a property of these vertices, whether or not that changes anything.
    pub(super) fn note_set(&mut self, paths: &[String], key: Option<&String>) {
        let (Some(unread), Some(engine)) = (&mut self.kept_vertices.unread, &self.engine) else { return };
        let known = paths.iter().filter(|path| engine.resources().has_path(path));
        unread.set.extend(known.map(|path| (path.clone(), key.cloned())));
    }

    fn read_again_later(&mut self, mut unread: Unread) {
        unread.next = Some(self.host.elapsed().saturating_add(RETRY));
        self.kept_vertices.unread = Some(unread);
    }

    /// The kept value could not be read. With `again`, the state meanwhile, it is read again.
    fn vertices_are_unread(&mut self, why: &str, again: Option<Unread>) {
        let more = if again.is_some() { ", and is read again soon" } else { "" };
        fluxgate_log::log!(VerticesUnread, "{KEY}: what was set on vertices is not set again{more}: {why}");
        if let Some(unread) = again {
            self.read_again_later(unread);
        }
    }

    /// The key is not read again: a property that a node lacks now was set by no service.
    fn vertices_are_known(&mut self) {
        if self.engine.as_ref().is_some_and(|engine| engine.resources().properties_unread()) {
            self.step(Event::PropertiesUnread(false));
        }
    }

    fn set_again(&mut self, answer: &Message, unread: Option<Unread>) {
        let again = unread.is_some();
        let unread = unread.unwrap_or_default();
        let (events, unknown) = match (found::<Kept>(answer), &self.engine) {
            (Found::Value(kept), Some(engine)) => kept.events(engine.resources(), &unread.set),
            (Found::Failed(_), _) if again => return self.read_again_later(unread),
            (Found::Failed(why), _) => return self.vertices_are_unread(&why, Some(unread)),
            (Found::Strange(why), _) => {
                self.vertices_are_known();
                return self.vertices_are_unread(&why, None);
            }
            (Found::Value(_), None) => return,
            (Found::Nothing, _) => Default::default(),
        };
        if !unknown.is_empty() {
            let shown: Vec<&str> = unknown.iter().take(SHOWN_MAX).map(String::as_str).collect();
            let more = if unknown.len() > shown.len() { ", ..." } else { "" };
            fluxgate_log::log!(
                VerticesGone,
                "{KEY}: {} paths are not in the resource graph any more: {}{more}",
                unknown.len(),
                shown.join(", ")
            );
        }
        if !events.is_empty() {
            fluxgate_log::log!(VerticesRestored, "{KEY}: status and properties of vertices are set again");
        }
        events.into_iter().for_each(|event| self.step(event));
        self.vertices_are_known();
        // A commit of the scheduler before may still be on its way: the values in force now are written after it.
        let has_graph = self.engine.as_ref().is_some_and(|engine| engine.resources().has_site_graph());
        self.kept_vertices.changed = has_graph.then(|| self.host.elapsed());
    }

    /// Between two passes: the key is written, or read again, if it is time.
    pub(super) fn keep_vertices(&mut self) {
        if self.kept_vertices.due().is_none_or(|due| due > self.host.elapsed()) {
            return;
        }
        match &mut self.kept_vertices.unread {
            Some(unread) => {
                unread.next = None;
                self.send(Some(dialect::kvs_lookup(KEY).with_matchtag(READ_TAG)));
            }
            None => self.write_vertices(),
        }
    }

    /// Write status and properties, if there is an unwritten change.
    pub(super) fn write_vertices(&mut self) {
        if self.kept_vertices.changed.is_none() || self.kept_vertices.unread.is_some() {
            return;
        }
        let Some(engine) = &self.engine else { return };
        let kept = Kept::of(engine.resources().vertex_marks());
        match serde_json::to_string(&kept) {
            Ok(text) => {
                self.kept_vertices.changed = None;
                self.kept_vertices.writing = true;
                self.send(Some(dialect::kvs_put(KEY, &text).with_matchtag(WRITE_TAG)));
            }
            Err(error) => fluxgate_log::log!(VerticesUnwritten, "{KEY}: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn site_78_what_is_written_is_read() {
        let paths = |list: &[&str]| list.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>();
        let all = paths(&["/a/b/ssd0", "/a/b/ssd1", "/a/c/ssd0", "/a"]);
        assert_eq!(fold(all.clone()).len(), 3);
        let mut back = unfold(fold(all.clone()));
        back.sort_unstable();
        let mut sorted = all.clone();
        sorted.sort_unstable();
        assert_eq!(back, sorted);
        let properties =
            all.iter().map(|path| (path.clone(), "k".to_owned(), Some("v".to_owned()))).collect();
        let marks = VertexMarks { down: all.clone(), up: Vec::new(), properties };
        let kept = Kept::of(marks);
        let text = serde_json::to_string(&kept).unwrap();
        assert_eq!(serde_json::from_str::<Kept>(&text).unwrap(), kept);
        assert_eq!((kept.properties.len(), kept.properties[0].paths.len()), (1, 3));
    }
}
