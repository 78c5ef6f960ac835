//! Windows over a restart of the scheduler, and the queues that were started for them: kept in the KVS of the instance.
//!
//! They are written, with a checkpoint of the KVS (FLUX_KVS_SYNC), after every change, and requests that changed them are answered
//! after that. A new scheduler reads the key before its first pass. Must never know what a window is for.

use std::collections::BTreeSet;
use std::time::Duration;

use fluxgate_engine::{Event, Window};
use fluxgate_formats::Idset;
use fluxgate_wire::dialect;
use fluxgate_wire::message::Message;
use fluxgate_wire::proto::errno;
use fluxgate_wire::session::ControlRequest;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Service;
use super::control::Answer;
use super::kept_value::{Found, RETRY, found};
use crate::settings::Lost;

/// The key of the KVS.
const KEY: &str = "sched-fluxgate.reservations";
/// The key under which a value that cannot be read is put aside.
const ASIDE: &str = "sched-fluxgate.reservations-unreadable";
/// Matchtags; see `kept_vertices.rs`.
const READ_TAG: u32 = u32::MAX - 5;
const WRITE_TAG: u32 = u32::MAX - 6;
const ASIDE_TAG: u32 = u32::MAX - 8;
/// The version of the value.
const VERSION: u32 = 1;

/// The value of the key.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    version: u32,
    reservations: Vec<Window>,
    /// Queues that were started for a reservation and are to be stopped.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    started_queues: BTreeSet<String>,
}

/// See the module text.
#[derive(Debug, Default)]
pub(super) struct KeptWindows {
    reading: bool,
    /// Why the key could not be read, so that it must not be written over.
    unread: Option<String>,
    /// Why the reservations of the scheduler before are not in force, until an operator accepts their loss.
    lost: Option<String>,
    /// The version of the windows that is written, or being written.
    written: u64,
    /// The started queues that are written, or being written.
    written_queues: BTreeSet<String>,
    writing: bool,
    /// When the windows are written again, in real time, because the last try was refused.
    again: Option<Duration>,
    /// There is no store under the KVS that a write could be flushed to.
    unsynced: bool,
    /// Requests that are answered when the windows of this version are written.
    waiting: Vec<(u64, ControlRequest, Value)>,
}

impl KeptWindows {
    /// Is the key being read?
    pub(super) fn is_reading(&self) -> bool {
        self.reading
    }

    /// When the windows are written again, in real time, if the last try was refused.
    pub(super) fn due(&self) -> Option<Duration> {
        self.again.filter(|_| !self.writing && !self.reading && self.unread.is_none())
    }

    /// Why nothing may be changed, if that is so.
    pub(super) fn refusal(&self) -> Option<String> {
        self.unread.as_ref().map(|why| {
            format!(
                "{KEY} could not be read, and is not written over before `reservation accept-loss`: {why}"
            )
        })
    }

    /// Is it written, as far as the KVS can be written, that this queue is to be stopped?
    pub(super) fn has_started_queue(&self, queue: &str) -> bool {
        self.unread.is_some() || !self.writing && self.written_queues.contains(queue)
    }

    /// Why the reservations of the scheduler before are not in force, in words.
    pub(super) fn lost(&self) -> Option<&str> {
        self.lost.as_deref()
    }
}

impl KeptWindows {
    /// Another engine has the windows from now on: they are written anew, and requests wait for that.
    pub(super) fn renew(&mut self) {
        self.written = u64::MAX;
        self.waiting.iter_mut().for_each(|(version, ..)| *version = 0);
    }
}

impl Service {
    /// A scheduler begins: the windows of the one before it are read. No pass is made before the answer.
    pub(super) fn read_windows(&mut self) {
        self.kept_windows.reading = true;
        self.send(Some(dialect::kvs_lookup(KEY).with_matchtag(READ_TAG)));
    }

    /// An engine begins with the windows of the one before it. Brokers of their nodes may come up one by one.
    pub(super) fn put_windows(&mut self, windows: Vec<Window>) {
        let (now, seconds) = (self.host.now(), self.configuration.settings.reservations.wait_for_nodes);
        for window in windows {
            self.step(Event::PutWindow(Box::new(window.awaiting(now, seconds))));
        }
    }

    /// A request is answered when the windows are written.
    pub(super) fn answer_when_kept(&mut self, request: &ControlRequest, answer: Value) -> Answer {
        let version = self.engine.as_ref().map_or(0, |engine| engine.windows_version());
        self.kept_windows.waiting.push((version, request.clone(), answer));
        self.keep_windows();
        Answer::Later
    }

    /// Does nothing start since reservations are lost, and no operator accepted that?
    pub(super) fn holds_for_lost_windows(&self) -> bool {
        self.kept_windows.lost.is_some() && self.configuration.settings.reservations.lost == Lost::Hold
    }

    /// The owner says that the reservations are lost: the scheduler goes on, and writes those that are made from now on.
    pub(super) fn accept_loss(&mut self, request: &ControlRequest) -> Answer {
        let (why, held) = (self.kept_windows.lost.clone(), self.holds_for_lost_windows());
        let dry_run = request.payload["dry_run"].as_bool() == Some(true);
        if !dry_run && let Some(why) = &why {
            self.record_reservation("accept-loss", Some(request), "", Ok(()));
            fluxgate_log::log!(
                LossAccepted,
                "{KEY}: user {} goes on without what is lost: {why}",
                request.message.userid
            );
            self.kept_windows.lost = None;
            self.kept_windows.unread = None;
        }
        Answer::Now(json!({"lost": why, "held": held, "dry_run": dry_run}))
    }

    /// Is this the answer to reading or writing?
    pub(super) fn windows_answer(&mut self, message: &Message) -> bool {
        match message.matchtag() {
            READ_TAG if message.is_response() => {
                if std::mem::take(&mut self.kept_windows.reading) {
                    self.windows_read(message);
                    self.carry_out(Vec::new());
                }
            }
            WRITE_TAG if message.is_response() => self.windows_written(message.errnum()),
            ASIDE_TAG if message.is_response() => {}
            _ => return false,
        }
        true
    }

    fn windows_read(&mut self, answer: &Message) {
        match found::<Kept>(answer) {
            Found::Value(kept) if kept.version == VERSION => {
                fluxgate_log::log!(
                    ReservationsRestored,
                    "{KEY}: {} reservations are set again",
                    kept.reservations.len()
                );
                self.kept_windows.written_queues.clone_from(&kept.started_queues);
                self.queue_starts.restore(kept.started_queues);
                // Some of their times may have passed without a scheduler.
                let mut windows = kept.reservations;
                let mut more = false;
                for window in &mut windows {
                    match self.repeat_window(window) {
                        Ok(again) => more |= again,
                        Err(error) => super::reservations::not_repeated(&error),
                    }
                }
                let kept: Vec<(String, Idset)> =
                    windows.iter().map(|window| (window.name.clone(), window.ranks.clone())).collect();
                self.put_windows(windows);
                // Nodes that are down may have been replaced at once: the next scheduler must know the new ones.
                let engine = self.engine.as_ref();
                let is_as_kept = |(name, ranks): &(String, Idset)| {
                    engine.and_then(|engine| engine.window(name)).is_none_or(|window| window.ranks == *ranks)
                };
                if !more && kept.iter().all(is_as_kept) {
                    self.kept_windows.written =
                        self.engine.as_ref().map_or(0, |engine| engine.windows_version());
                }
            }
            Found::Value(kept) => self.put_aside(answer, &format!("version {} is not known", kept.version)),
            Found::Nothing => {}
            Found::Strange(why) => self.put_aside(answer, &why),
            Found::Failed(why) => {
                fluxgate_log::log!(
                    ReservationsUnread,
                    "{KEY}: reservations cannot be read and are not in force: {why}"
                );
                self.kept_windows.unread = Some(why.clone());
                self.windows_lost(why);
            }
        }
    }

    fn windows_lost(&mut self, why: String) {
        self.kept_windows.lost = Some(why);
        if self.holds_for_lost_windows() {
            fluxgate_log::log!(
                HeldForReservations,
                "{KEY}: nothing starts until the owner says `reservation accept-loss`, or reservations.lost is \"go-on\""
            );
        }
    }

    fn put_aside(&mut self, answer: &Message, why: &str) {
        fluxgate_log::log!(
            ReservationsPutAside,
            "{KEY}: reservations cannot be read and are not kept; the value is in {ASIDE}: {why}"
        );
        let value = answer.json().map_or(Value::Null, |payload| payload["val"].clone());
        self.send(Some(dialect::kvs_put(ASIDE, &value.to_string()).with_matchtag(ASIDE_TAG)));
        self.windows_lost(why.to_owned());
    }

    /// Writes the windows if they have changed.
    pub(super) fn keep_windows(&mut self) {
        let Some(engine) = &self.engine else { return };
        let version = engine.windows_version();
        if self.kept_windows.unread.is_some() {
            return;
        }
        let again = self.kept_windows.due().is_some_and(|due| due <= self.host.elapsed());
        let changed = again
            || version != self.kept_windows.written
            || !self.queue_starts.started().eq(&self.kept_windows.written_queues);
        if self.kept_windows.writing || self.kept_windows.reading || !changed {
            return;
        }
        let started_queues: BTreeSet<String> = self.queue_starts.started().cloned().collect();
        self.kept_windows.written_queues.clone_from(&started_queues);
        let kept =
            Kept { version: VERSION, reservations: engine.windows().cloned().collect(), started_queues };
        match serde_json::to_string(&kept) {
            Ok(text) => {
                self.kept_windows.written = version;
                self.kept_windows.writing = true;
                let sync = !self.kept_windows.unsynced;
                self.send(Some(dialect::kvs_put_synced(KEY, &text, sync).with_matchtag(WRITE_TAG)));
            }
            Err(error) => fluxgate_log::log!(ReservationsUnwritten, "{KEY}: {error}"),
        }
    }

    fn windows_written(&mut self, errnum: i32) {
        self.kept_windows.writing = false;
        if errnum == errno::ENOSYS && !self.kept_windows.unsynced {
            // Without a store a write cannot be flushed: it is kept as long as the KVS is.
            self.kept_windows.unsynced = true;
            self.kept_windows.written = self.kept_windows.written.wrapping_sub(1);
            return self.keep_windows();
        }
        let refused = (errnum != 0).then(|| self.host.elapsed().saturating_add(RETRY));
        let before = std::mem::replace(&mut self.kept_windows.again, refused);
        if errnum != 0 && before.is_none() {
            let why = errno::describe(errnum);
            fluxgate_log::log!(
                ReservationsNotKept,
                "{KEY}: reservations are not kept over a restart, and are written again in {} s: {why}",
                RETRY.as_secs()
            );
        }
        let written = self.kept_windows.written;
        let waiting = std::mem::take(&mut self.kept_windows.waiting);
        let (done, rest): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|(version, ..)| *version <= written);
        self.kept_windows.waiting = rest;
        for (_, request, mut answer) in done {
            answer["kept"] = (errnum == 0).into();
            self.send(request.ok(&answer));
        }
        self.keep_windows();
    }

    /// Between two passes: windows come again, and what changed is written.
    pub(super) fn tend_windows(&mut self) {
        let version = self.engine.as_ref().map_or(0, |engine| engine.windows_version());
        let again = self.kept_windows.due().is_some_and(|due| due <= self.host.elapsed());
        if (again || version != self.kept_windows.written) && !self.kept_windows.reading {
            self.repeat_windows();
        }
        self.keep_windows();
    }
}
