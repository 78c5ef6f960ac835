//! The states that policies learn, over failures, restarts and reconnections: asked for from time to time and at the end, kept
//! here and in the folder of the setting `policy-state`, offered to a policy that comes where the built-in one decides.
//!
//! A state that cannot be written or read is logged, and scheduling goes on. Must never look into a state.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use fluxgate_engine::SavedState;
use fluxgate_policy::Digest;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::host::{Document, Host, Store};

/// Real time between two times that policies are asked.
const EVERY: Duration = Duration::from_secs(300);
/// Most bytes of the line before a state.
const HEAD_BYTES_MAX: u64 = 4096;
/// The format of the files.
const FORMAT: u32 = 1;

/// States by queue; `None` is the default policy's.
#[derive(Clone, Default)]
pub(crate) struct States(BTreeMap<Option<String>, SavedState>);

/// See the module text.
#[derive(Default)]
pub(crate) struct PolicyStates {
    kept: States,
    /// When policies were asked last, in real time, and how many passes there were.
    asked: (Duration, u64),
    /// States are being written.
    writing: bool,
}

impl PolicyStates {
    /// The state that a policy of this queue, or the default policy, would begin with.
    pub(crate) fn recalled(&self, queue: Option<&str>) -> Option<&SavedState> {
        self.kept.0.get(&queue.map(str::to_owned))
    }

    /// When policies are asked again, in real time, given the passes so far; `None` while no pass was made since they were asked:
    /// nothing happened that they could learn from.
    pub(crate) fn due(&self, passes: u64) -> Option<Duration> {
        let (asked, before) = self.asked;
        (before != passes).then(|| asked + EVERY)
    }

    /// Policies were asked at this time, after this many passes, and these are their states.
    pub(crate) fn keep(&mut self, elapsed: Duration, passes: u64, states: Vec<(Option<String>, SavedState)>) {
        self.asked = (elapsed, passes);
        self.kept.0.extend(states);
    }

    /// The states to be written now. A disk that still writes is left alone until the next time.
    pub(crate) fn begin_writing(&mut self) -> Option<States> {
        (!std::mem::replace(&mut self.writing, true)).then(|| self.kept.clone())
    }

    /// The states were written.
    pub(crate) fn written(&mut self) {
        self.writing = false;
    }

    /// The states that are kept.
    pub(crate) fn kept(&self) -> &States {
        &self.kept
    }

    /// Read the state of a queue's policy, or of the default one, that an earlier scheduler left.
    pub(crate) fn recall(&mut self, host: &dyn Host, folder: &Path, queue: Option<&str>, bytes_max: u64) {
        let path = file(folder, queue);
        match read(host, &path, bytes_max) {
            Ok(Some(state)) => {
                fluxgate_log::log!(
                    StateRead,
                    policy = state.from,
                    bytes = state.data.len(),
                    "{}: read",
                    path.display()
                );
                self.kept.0.insert(queue.map(str::to_owned), state);
            }
            Ok(None) => {}
            Err(error) => {
                fluxgate_log::log!(
                    StateUnread,
                    "{}: its policy begins without what was learned: {error:#}",
                    path.display()
                );
            }
        }
    }

    /// A queue has no policy of its own any more: its state is of no use there.
    pub(crate) fn forget(&mut self, host: &dyn Host, folder: Option<&Path>, queue: &str) {
        let removed = self.kept.0.remove(&Some(queue.to_owned()));
        if let Some(folder) = folder.filter(|_| removed.is_some()) {
            // There may be none yet.
            let _ = host.store(Store::NoPolicyState(&file(folder, Some(queue))));
        }
    }

    /// The queue, the policy and the size of each state.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = (Option<&str>, &str, usize)> {
        self.kept.0.iter().map(|(queue, state)| (queue.as_deref(), state.from.as_str(), state.data.len()))
    }

    /// For `stats-get`.
    pub(crate) fn figures(&self) -> Value {
        let row = |(queue, state): (&Option<String>, &SavedState)| json!({"queue": queue, "policy": state.from, "version": state.version, "bytes": state.data.len()});
        self.kept.0.iter().map(row).collect()
    }
}

impl States {
    /// Write them all.
    pub(crate) fn write(&self, host: &dyn Host, folder: &Path) {
        for (queue, state) in &self.0 {
            let path = file(folder, queue.as_deref());
            let written = encode(state).and_then(|bytes| Ok(host.store(Store::PolicyState(&path, &bytes))?));
            if let Err(error) = written.with_context(|| format!("{}: cannot be written", path.display())) {
                fluxgate_log::log!(
                    StateNotKept,
                    policy = state.from,
                    "what the policy has learned is not kept: {error:#}"
                );
            }
        }
    }
}

/// The line before a state.
#[derive(Serialize, Deserialize)]
struct Head {
    format: u32,
    policy: String,
    version: u32,
    bytes: u64,
    digest: String,
}

/// The file of a queue's policy, or of the default one.
fn file(folder: &Path, queue: Option<&str>) -> PathBuf {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let name: String = match queue {
        None => "default".to_owned(),
        Some(queue) => std::iter::once("queue-".to_owned())
            .chain(
                queue.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02x}") }),
            )
            .collect(),
    };
    folder.join(format!("{name}.state"))
}

/// A state as it stands in a file.
fn encode(state: &SavedState) -> Result<Vec<u8>> {
    let head = Head {
        format: FORMAT,
        policy: state.from.clone(),
        version: state.version,
        bytes: state.data.len() as u64,
        digest: Digest::of(&state.data).to_string(),
    };
    let mut bytes = serde_json::to_vec(&head)?;
    bytes.push(b'\n');
    bytes.extend_from_slice(&state.data);
    Ok(bytes)
}

/// The state in the bytes of a file.
fn decode(bytes: &[u8], bytes_max: u64) -> Result<SavedState> {
    let start = &bytes[..bytes.len().min(HEAD_BYTES_MAX as usize)];
    let end = start.iter().position(|byte| *byte == b'\n').map_or(start.len(), |end| end + 1);
    let (line, data) = bytes.split_at(end);
    let head: Head = serde_json::from_slice(line).context("its first line is not that of a state")?;
    ensure!(head.format == FORMAT, "format {}; this scheduler knows {FORMAT}", head.format);
    ensure!(head.bytes <= bytes_max, "{} bytes; state-bytes is {bytes_max}", head.bytes);
    let found = (data.len() as u64).min(head.bytes + 1);
    ensure!(found == head.bytes, "{found} bytes where {} were written", head.bytes);
    if Digest::of(data).to_string() != head.digest {
        bail!("its digest is another: it was damaged or changed");
    }
    Ok(SavedState { from: head.policy, version: head.version, data: data.to_vec() })
}

fn read(host: &dyn Host, path: &Path, bytes_max: u64) -> Result<Option<SavedState>> {
    let document = Document::PolicyState { path, bytes_max: bytes_max.saturating_add(HEAD_BYTES_MAX + 1) };
    host.read(document)?.map(|bytes| decode(&bytes, bytes_max)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(data: &[u8]) -> SavedState {
        SavedState { from: "multifactor".to_owned(), version: 3, data: data.to_vec() }
    }

    #[test]
    fn what_is_written_is_read() {
        for data in [&b""[..], b"one", b"\ntwo\n"] {
            let bytes = encode(&state(data)).unwrap();
            assert_eq!(decode(&bytes, 100).unwrap(), state(data));
        }
        let names = [None, Some("debug"), Some("../a b/%")].map(|queue| file(Path::new("/x"), queue));
        let plain = ["/x/default.state", "/x/queue-debug.state", "/x/queue-%2e%2e%2fa%20b%2f%25.state"];
        assert_eq!(names, plain.map(PathBuf::from));
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said() {
        let good = encode(&state(b"learned")).unwrap();
        let refused = |bytes: &[u8], most: u64| format!("{:#}", decode(bytes, most).unwrap_err());
        assert!(refused(&good, 6).contains("7 bytes; state-bytes is 6"));
        assert!(refused(&good[..good.len() - 1], 100).contains("6 bytes where 7 were written"));
        assert!(refused(&[&good[..], b"!"].concat(), 100).contains("8 bytes where 7"));
        let mut other = good.clone();
        *other.last_mut().unwrap() ^= 1;
        assert!(refused(&other, 100).contains("digest"));
        assert!(refused(b"", 100).contains("first line"));
        assert!(refused(&[b'{'; 10_000], 100).contains("first line"));
        let newer = String::from_utf8(good).unwrap().replace("\"format\":1", "\"format\":2");
        assert!(refused(newer.as_bytes(), 100).contains("format 2; this scheduler knows 1"));
    }
}
