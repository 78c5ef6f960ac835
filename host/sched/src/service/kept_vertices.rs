//! What services set on vertices, over a restart of the scheduler: kept in the KVS of the instance.
//!
//! Storage services tell the status of all storage when they start, and they do not start again with the scheduler. A new
//! scheduler reads the key before its first pass. Must never know who set what.

use std::collections::BTreeMap;
use std::time::Duration;

use fluxgate_engine::Event;
use fluxgate_graph::{Resources, VertexMarks};
use fluxgate_wire::dialect;
use fluxgate_wire::message::Message;
use fluxgate_wire::proto::errno;
use fluxgate_wire::session::ControlRequest;
use serde::{Deserialize, Serialize};

use super::Service;
use super::kept_value::{Found, found};

/// Where they are kept.
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
}

impl KeptVertices {
    /// Is the key being read?
    pub(super) fn is_reading(&self) -> bool {
        self.reading.is_some()
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

    /// When it is to be written.
    pub(super) fn due(&self) -> Option<Duration> {
        self.changed.filter(|_| !self.writing).map(|changed| changed + DELAY)
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

    /// The events that set it again, as far as the machine has the vertices; and the paths that it does not have.
    fn events(self, resources: &Resources) -> (Vec<Event>, Vec<String>) {
        let mut unknown = Vec::new();
        let mut known = |paths: Paths| {
            let (known, other): (Vec<_>, Vec<_>) =
                unfold(paths).into_iter().partition(|path| resources.has_path(path));
            unknown.extend(other);
            known
        };
        let mut events = Vec::new();
        for (paths, up) in [(self.down, false), (self.up, true)] {
            events.push(Event::VertexStatus { paths: known(paths), up });
        }
        for KeptProperty { key, value, paths } in self.properties {
            events.push(Event::VertexProperty { paths: known(paths), key, value });
        }
        events.retain(|event| match event {
            Event::VertexStatus { paths, .. } | Event::VertexProperty { paths, .. } => !paths.is_empty(),
            _ => true,
        });
        (events, unknown)
    }
}

impl Service {
    /// A scheduler begins: what the one before it was told is read. No pass is made before the answer.
    pub(super) fn read_vertices(&mut self) {
        self.kept_vertices.reading = Some(Vec::new());
        self.send(Some(dialect::kvs_lookup(KEY).with_matchtag(READ_TAG)));
    }

    /// Is this the answer to reading or writing?
    pub(super) fn vertices_answer(&mut self, message: &Message) -> bool {
        match message.matchtag() {
            READ_TAG if message.is_response() => {
                if let Some(early) = self.kept_vertices.reading.take() {
                    self.set_again(message);
                    early.into_iter().for_each(|request| self.control(request));
                    self.carry_out(Vec::new());
                }
            }
            WRITE_TAG if message.is_response() => {
                self.kept_vertices.writing = false;
                if message.errnum() != 0 {
                    let why = errno::describe(message.errnum());
                    fluxgate_log::log!(
                        VerticesNotKept,
                        "{KEY}: status and properties of vertices are not kept over a restart: {why}"
                    );
                }
            }
            _ => return false,
        }
        true
    }

    fn set_again(&mut self, answer: &Message) {
        let (events, unknown) = match (found::<Kept>(answer), &self.engine) {
            (Found::Value(kept), Some(engine)) => kept.events(engine.resources()),
            (Found::Strange(why) | Found::Failed(why), _) => {
                return fluxgate_log::log!(
                    VerticesUnread,
                    "{KEY}: what was set on vertices is not set again: {why}"
                );
            }
            (Found::Value(_), None) | (Found::Nothing, _) => return,
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
        self.kept_vertices.changed = None;
    }

    /// Between two passes: write what was set, if it is time.
    pub(super) fn keep_vertices(&mut self) {
        if self.kept_vertices.due().is_some_and(|due| due <= self.host.elapsed()) {
            self.write_vertices();
        }
    }

    /// Write what was set and is not written.
    pub(super) fn write_vertices(&mut self) {
        if self.kept_vertices.changed.is_none() {
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
