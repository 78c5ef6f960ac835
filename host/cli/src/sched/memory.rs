//! What policies have learned, over failures, restarts and reconnections: asked for from time to time and at the end, kept
//! here and in the folder of the setting `policy-state`, offered to whoever comes where nobody decides.
//!
//! A state that cannot be written or read is told of and stops nothing. Must never look into a state.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use fluxgate_engine::SavedState;
use fluxgate_policy::Digest;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::Scheduler;

/// Real seconds between two times that policies are asked.
const EVERY: f64 = 300.0;
/// Most bytes of the line before a state.
const HEAD_BYTES_MAX: u64 = 4096;
/// The format of the files.
const FORMAT: u32 = 1;

/// The states by queue, `None` for the default policy's.
type States = BTreeMap<Option<String>, SavedState>;

/// See the module text.
#[derive(Default)]
pub(super) struct Memory {
    kept: States,
    /// When policies were asked last, in real seconds, and how many passes there were.
    asked: (f64, u64),
    writing: Option<JoinHandle<()>>,
}

impl Memory {
    /// What is kept for whoever comes to a queue, or to all without a policy of their own.
    pub(super) fn recalled(&self, queue: Option<&str>) -> Option<&SavedState> {
        self.kept.get(&queue.map(str::to_owned))
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

fn write(folder: &Path, queue: Option<&str>, state: &SavedState) -> Result<()> {
    let path = file(folder, queue);
    let cannot = || format!("{}: cannot be written", path.display());
    fs::create_dir_all(folder).with_context(cannot)?;
    let head = Head {
        format: FORMAT,
        policy: state.from.clone(),
        version: state.version,
        bytes: state.data.len() as u64,
        digest: Digest::of(&state.data).to_string(),
    };
    // Readable by its owner only, as all that this crate makes.
    let mut draft = tempfile::NamedTempFile::new_in(folder).with_context(cannot)?;
    let mut text = serde_json::to_string(&head).with_context(cannot)?;
    text.push('\n');
    draft.write_all(text.as_bytes()).and_then(|()| draft.write_all(&state.data)).with_context(cannot)?;
    draft.as_file().sync_all().with_context(cannot)?;
    draft.persist(&path).with_context(cannot)?;
    Ok(())
}

/// The state in a file; `None` when there is no such file.
fn read(path: &Path, bytes_max: u64) -> Result<Option<SavedState>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let meta = file.metadata()?;
    ensure!(meta.is_file(), "it is no file");
    let owner = nix::unistd::geteuid().as_raw();
    ensure!(meta.uid() == owner, "it belongs to user {}, and not to {owner}", meta.uid());
    ensure!(meta.mode() & 0o022 == 0, "others than its owner may write it");
    let mut file = BufReader::new(file);
    let mut line = Vec::new();
    file.by_ref().take(HEAD_BYTES_MAX).read_until(b'\n', &mut line)?;
    let head: Head = serde_json::from_slice(&line).context("its first line is not that of a state")?;
    ensure!(head.format == FORMAT, "format {}; this scheduler knows {FORMAT}", head.format);
    ensure!(head.bytes <= bytes_max, "{} bytes; state-bytes is {bytes_max}", head.bytes);
    let mut data = Vec::new();
    file.take(head.bytes + 1).read_to_end(&mut data)?;
    ensure!(data.len() as u64 == head.bytes, "{} bytes where {} were written", data.len(), head.bytes);
    if Digest::of(&data).to_string() != head.digest {
        bail!("its digest is another: it was damaged or changed");
    }
    Ok(Some(SavedState { from: head.policy, version: head.version, data }))
}

fn write_all(folder: &Path, states: &States) {
    for (queue, state) in states {
        if let Err(error) = write(folder, queue.as_deref(), state) {
            tracing::error!(policy = state.from, "what the policy has learned is not kept: {error:#}");
        }
    }
}

impl Scheduler {
    /// Ask the policies that decide. True when there is something to keep.
    fn ask_states(&mut self) -> bool {
        let now = self.clock.now();
        let Some(engine) = &mut self.engine else { return false };
        self.memory.asked = (self.clock.elapsed(), engine.stats().passes);
        let (states, actions) = engine.states(now);
        let some = !states.is_empty();
        self.memory.kept.extend(states);
        self.actions(actions);
        some
    }

    /// Between two passes: keep what policies have learned, if it is time.
    pub(super) fn remember(&mut self) {
        if self.memory_due().is_none_or(|left| left > 0.0) || !self.ask_states() {
            return;
        }
        self.carry_out(Vec::new());
        let Some(folder) = self.in_force.settings.policy_state.clone() else { return };
        // A disk that takes longer than this is left alone until the next time.
        if self.memory.writing.as_ref().is_none_or(JoinHandle::is_finished) {
            let states = self.memory.kept.clone();
            self.memory.writing = Some(tokio::task::spawn_blocking(move || write_all(&folder, &states)));
        }
    }

    /// Real seconds until policies are asked again; `None` while nothing happens that they could learn from.
    pub(super) fn memory_due(&self) -> Option<f64> {
        let (asked, passes) = self.memory.asked;
        let happened = self.engine.as_ref().is_some_and(|engine| engine.stats().passes != passes);
        happened.then(|| asked + EVERY - self.clock.elapsed())
    }

    /// The scheduler leaves, or begins anew: the last time to ask.
    pub(super) fn remember_last(&mut self) {
        if self.ask_states()
            && let Some(folder) = &self.in_force.settings.policy_state
        {
            write_all(folder, &self.memory.kept);
        }
    }

    /// A scheduler begins: what the one before left is read.
    pub(super) fn recall(&mut self) {
        let settings = &self.in_force.settings;
        let Some(folder) = &settings.policy_state else { return };
        let queues = self.first_queues.iter().map(|(queue, _)| Some(queue.clone()));
        for queue in std::iter::once(None).chain(queues) {
            let path = file(folder, queue.as_deref());
            match read(&path, settings.guard.limits.state_bytes) {
                Ok(Some(state)) => {
                    tracing::info!(policy = state.from, bytes = state.data.len(), "{}: read", path.display());
                    self.memory.kept.insert(queue, state);
                }
                Ok(None) => {}
                Err(error) => {
                    tracing::error!(
                        "{}: its policy begins without what was learned: {error:#}",
                        path.display()
                    );
                }
            }
        }
    }

    /// A queue has no policy of its own any more: what that had learned is of no use there.
    pub(super) fn forget_queue(&mut self, queue: &str) {
        let queue = Some(queue.to_owned());
        if self.memory.kept.remove(&queue).is_some()
            && let Some(folder) = &self.in_force.settings.policy_state
        {
            // There may be none yet.
            let _ = fs::remove_file(file(folder, queue.as_deref()));
        }
    }

    /// For `stats-get`.
    pub(super) fn memories(&self) -> Value {
        let row = |(queue, state): (&Option<String>, &SavedState)| json!({"queue": queue, "policy": state.from, "version": state.version, "bytes": state.data.len()});
        self.memory.kept.iter().map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(data: &[u8]) -> SavedState {
        SavedState { from: "multifactor".to_owned(), version: 3, data: data.to_vec() }
    }

    #[test]
    fn what_is_written_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("made/on/the/way");
        for queue in [None, Some("debug"), Some("../a b/%")] {
            assert_eq!(read(&file(&folder, queue), 100).unwrap(), None);
            write(&folder, queue, &state(b"one")).unwrap();
            write(&folder, queue, &state(b"\ntwo\n")).unwrap();
            assert_eq!(read(&file(&folder, queue), 100).unwrap(), Some(state(b"\ntwo\n")));
        }
        let mut names: Vec<_> =
            fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        assert_eq!(names, ["default.state", "queue-%2e%2e%2fa%20b%2f%25.state", "queue-debug.state"]);
        let mode = fs::metadata(file(&folder, None)).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = file(dir.path(), None);
        write(dir.path(), None, &state(b"learned")).unwrap();
        let good = fs::read(&path).unwrap();
        let refused = |bytes: &[u8], most: u64| {
            fs::write(&path, bytes).unwrap();
            format!("{:#}", read(&path, most).unwrap_err())
        };
        assert!(refused(&good, 6).contains("7 bytes; state-bytes is 6"));
        assert!(refused(&good[..good.len() - 1], 100).contains("6 bytes where 7 were written"));
        assert!(refused(&[&good[..], b"!"].concat(), 100).contains("8 bytes where 7"));
        let mut other = good.clone();
        *other.last_mut().unwrap() ^= 1;
        assert!(refused(&other, 100).contains("digest"));
        assert!(refused(b"", 100).contains("first line"));
        assert!(refused(&[b'{'; 10_000], 100).contains("first line"));
        let newer = String::from_utf8(good.clone()).unwrap().replace("\"format\":1", "\"format\":2");
        assert!(refused(newer.as_bytes(), 100).contains("format 2; this scheduler knows 1"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(refused(&good, 100).contains("others than its owner"));
    }
}
