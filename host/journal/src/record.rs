//! The records of a journal, in MessagePack; fields of enums in order and without names, for size.
//!
//! Times are seconds since the epoch. Each file contains each jobspec and policy once, before its first use; other
//! records name it by its number.
//!
//! Must never know files.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxgate_engine::{Checkpoint, Config, Event, SavedState};
use fluxgate_formats::{Idset, JobId, R};
use serde::{Deserialize, Serialize};

use crate::outcome::Outcome;
use crate::spec::{SpecError, SpecRow};

/// One record of a journal. The first number of a variant is its time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Record {
    /// A state from which an engine can resume. The first record of every file.
    #[serde(rename = "base")]
    Checkpoint(Box<CheckpointRecord>),
    /// The request of one or more jobs, before the first record that names it.
    #[serde(rename = "spec")]
    Spec(Arc<SpecRow>),
    /// A policy, before the first record that names it.
    #[serde(rename = "policy")]
    Policy(Arc<PolicyRow>),
    /// An event: the time of its step, and its outcome (`None` without actions).
    #[serde(rename = "e")]
    Step(f64, EventRecord, Option<Outcome>),
    /// A call of the engine's `pass`.
    #[serde(rename = "p")]
    Pass(PassRecord),
    /// A call of `swap`: the time, the successor's number, the outcome, the error (`None` if the swap began).
    #[serde(rename = "swap")]
    Swap(f64, u32, Option<Outcome>, Option<String>),
    /// New settings: the time from which they are in force, and the outcome.
    #[serde(rename = "config")]
    Reconfigure(f64, Box<Config>, Option<Outcome>),
    /// A swap under way was abandoned.
    #[serde(rename = "abandon")]
    Abandon(f64),
    /// Scheduling is suspended until a policy is swapped in, because the one of this name could not be started.
    #[serde(rename = "hold")]
    Hold(f64, String),
    /// A call of `swap_queue`: the time, the queue, the successor's number, the outcome, the error (`None` if the swap
    /// began).
    #[serde(rename = "qswap")]
    QueueSwap(f64, String, u32, Option<Outcome>, Option<String>),
    /// A call of `give_back`: the time, the queue, the error (`None` if the return began).
    #[serde(rename = "qback")]
    GiveBack(f64, String, Option<String>),
    /// A swap or return of this queue was abandoned.
    #[serde(rename = "qabandon")]
    QueueAbandon(f64, String),
    /// Scheduling in a queue is suspended until a policy is swapped in, because one could not be started: the time, the queue, the
    /// policy.
    #[serde(rename = "qhold")]
    QueueHold(f64, String, String),
    /// A call of `offer`: the state that is offered to the next successor.
    #[serde(rename = "offer")]
    Offer(f64, SavedState),
    /// A call of `policy_states`, and the outcome.
    #[serde(rename = "states")]
    States(f64, Option<Outcome>),
    /// The scheduler ended normally.
    #[serde(rename = "end")]
    End(f64),
}

impl Record {
    /// A short name of its kind, for output; of an event as [`EventRecord::kind`].
    pub fn kind(&self) -> &'static str {
        match self {
            Record::Checkpoint(_) => "checkpoint",
            Record::Spec(_) => "jobspec",
            Record::Policy(_) => "policy",
            Record::Step(_, event, _) => event.kind(),
            Record::Pass(_) => "pass",
            Record::Swap(..) => "swap",
            Record::Reconfigure(..) => "settings",
            Record::Abandon(_) => "abandon",
            Record::Hold(..) => "hold",
            Record::QueueSwap(..) => "queue-swap",
            Record::GiveBack(..) => "give-back",
            Record::QueueAbandon(..) => "queue-abandon",
            Record::QueueHold(..) => "queue-hold",
            Record::Offer(..) => "offer",
            Record::States(..) => "states",
            Record::End(_) => "end",
        }
    }

    /// Its time, seconds since the epoch; `None` for a request or a policy.
    pub fn time(&self) -> Option<f64> {
        match self {
            Record::Checkpoint(base) => Some(base.time),
            Record::Spec(_) | Record::Policy(_) => None,
            Record::Abandon(t) | Record::Hold(t, _) => Some(*t),
            Record::QueueSwap(t, ..) | Record::GiveBack(t, ..) => Some(*t),
            Record::Offer(t, _) | Record::States(t, _) => Some(*t),
            Record::QueueAbandon(t, _) | Record::QueueHold(t, ..) => Some(*t),
            Record::Step(t, ..) | Record::Swap(t, ..) | Record::Reconfigure(t, ..) | Record::End(t) => {
                Some(*t)
            }
            Record::Pass(pass) => Some(pass.0),
        }
    }

    /// Its outcome; `None` for a kind without one, and for a call without actions.
    pub fn outcome(&self) -> Option<&Outcome> {
        match self {
            Record::Step(.., outcome) | Record::Reconfigure(.., outcome) | Record::Swap(_, _, outcome, _) => {
                outcome.as_ref()
            }
            Record::QueueSwap(_, _, _, outcome, _) | Record::States(_, outcome) => outcome.as_ref(),
            Record::Pass(pass) => pass.5.as_ref(),
            _ => None,
        }
    }
}

/// A call of the engine's `pass`: the time; the number of the default policy after it; the fuel that it and the
/// policies of single queues used since the previous call; passes, as [`Stats::passes`](fluxgate_engine::Stats::passes) counts
/// them; the check at which it was interrupted (`None` if it was not); the outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PassRecord(pub f64, pub u32, pub u64, pub u64, pub Option<u64>, pub Option<Outcome>);

/// The reason for which a file was begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CheckpointCause {
    /// The scheduler started.
    #[serde(rename = "start")]
    Start,
    /// The previous file was full.
    #[serde(rename = "rotation")]
    Rotation,
    /// This number of records could not be written before this one, for this reason.
    #[serde(rename = "gap")]
    Gap(u64, String),
}

/// A state from which an engine can resume.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckpointRecord {
    /// Its time, seconds since the epoch.
    pub time: f64,
    /// The reason for the file that begins with it.
    pub why: CheckpointCause,
    /// Version of the program that wrote it.
    pub version: String,
    /// The state of the engine.
    pub engine: Checkpoint,
    /// For each pending job the number of its request, and its duration in seconds, 0 for no limit.
    pub asks: BTreeMap<JobId, (u32, f64)>,
    /// The requests with these numbers.
    pub specs: Vec<Arc<SpecRow>>,
    /// The active default policy.
    pub policy: Arc<PolicyRow>,
    /// The active policies of single queues, by queue.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub own: BTreeMap<String, Arc<PolicyRow>>,
}

/// A policy, with its settings.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PolicyRow {
    /// Its number, unique during one run of a scheduler; 0 for the built-in policy.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// `sha256:` and 64 digits, of the component; empty for a policy that is no component, such as the built-in one.
    pub digest: String,
    /// Its configuration as it was set, by key.
    pub config: BTreeMap<String, String>,
    /// Its limits, as its executor serialises them; empty for none.
    #[serde(default)]
    pub limits: String,
}

/// An event of [`fluxgate_engine::Event`] in its recorded form. The comment of a variant lists its fields in order; they mean what
/// they mean there. `seconds` is the limit of the job, 0 for none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)] // the variants of `Event`
pub enum EventRecord {
    /// id, priority, userid, t_submit, r, free, queue
    #[serde(rename = "hello")]
    Hello(JobId, u32, u32, f64, Box<R>, Idset, #[serde(default)] Option<String>),
    /// id, priority, userid, t_submit, number of the request, seconds
    #[serde(rename = "a")]
    Alloc(JobId, u32, u32, f64, u32, f64),
    #[serde(rename = "cancel")]
    Cancel(JobId),
    #[serde(rename = "prio")]
    Prioritize(Vec<(JobId, u32)>),
    /// id, ranks, last
    #[serde(rename = "f")]
    Free(JobId, Option<Idset>, bool),
    /// id, expiration, token
    #[serde(rename = "exp")]
    Expiration(JobId, f64, u64),
    /// number of the request, seconds, token
    #[serde(rename = "feas")]
    Feasibility(u32, f64, u64),
    #[serde(rename = "up")]
    Up(Idset),
    #[serde(rename = "down")]
    Down(Idset),
    #[serde(rename = "shrink")]
    Shrink(Idset),
    #[serde(rename = "prop+")]
    PropertyAdd(String, Idset),
    #[serde(rename = "prop-")]
    PropertyRemove(String, Idset),
    /// paths, up
    #[serde(rename = "vertex")]
    VertexStatus(Vec<String>, bool),
    /// paths, property, value
    #[serde(rename = "value")]
    VertexProperty(Vec<String>, String, Option<String>),
    /// jobs
    #[serde(rename = "unread")]
    Unread(Vec<JobId>),
    #[serde(rename = "unread-properties")]
    PropertiesUnread(bool),
    /// the window, as JSON
    #[serde(rename = "window")]
    PutWindow(String),
    /// its name
    #[serde(rename = "nowindow")]
    RemoveWindow(String),
    #[serde(rename = "ends")]
    InstanceExpiration(f64),
    #[serde(rename = "c")]
    Committed(JobId),
    /// jobs, unsettled, complete
    #[serde(rename = "recount")]
    Recount(Vec<(JobId, Idset)>, Vec<JobId>, bool),
    /// theirs, unsettled, within
    #[serde(rename = "audit")]
    Audit(Box<R>, Vec<JobId>, Idset),
}

impl EventRecord {
    /// A short name of its kind, for output.
    pub fn kind(&self) -> &'static str {
        match self {
            EventRecord::Hello(..) => "hello",
            EventRecord::Alloc(..) => "alloc",
            EventRecord::Cancel(_) => "cancel",
            EventRecord::Prioritize(_) => "prioritize",
            EventRecord::Free(..) => "free",
            EventRecord::Expiration(..) => "expiration",
            EventRecord::Feasibility(..) => "feasibility",
            EventRecord::Up(_) => "up",
            EventRecord::Down(_) => "down",
            EventRecord::Shrink(_) => "shrink",
            EventRecord::PropertyAdd(..) => "property-add",
            EventRecord::PropertyRemove(..) => "property-remove",
            EventRecord::VertexStatus(..) => "vertex-status",
            EventRecord::VertexProperty(..) => "vertex-property",
            EventRecord::Unread(_) => "unread",
            EventRecord::PropertiesUnread(_) => "properties-unread",
            EventRecord::PutWindow(_) => "reservation",
            EventRecord::RemoveWindow(_) => "reservation-cancel",
            EventRecord::InstanceExpiration(_) => "instance-expiration",
            EventRecord::Committed(_) => "committed",
            EventRecord::Recount(..) => "recount",
            EventRecord::Audit(..) => "audit",
        }
    }

    /// The job of the event; `None` for an event of several jobs or of none.
    pub fn job(&self) -> Option<JobId> {
        match self {
            EventRecord::Hello(id, ..)
            | EventRecord::Alloc(id, ..)
            | EventRecord::Cancel(id)
            | EventRecord::Free(id, ..)
            | EventRecord::Expiration(id, ..)
            | EventRecord::Committed(id) => Some(*id),
            _ => None,
        }
    }

    /// The event; `spec` finds a jobspec by the number of its request and its limit in seconds.
    ///
    /// # Errors
    /// The error of `spec`; [`SpecError::Window`] for a reservation that cannot be read.
    pub fn event(
        &self,
        mut spec: impl FnMut(u32, f64) -> Result<Arc<fluxgate_formats::Jobspec>, SpecError>,
    ) -> Result<Event, SpecError> {
        Ok(match self.clone() {
            EventRecord::Hello(id, priority, userid, t_submit, r, free, queue) => {
                Event::Hello { id, priority, userid, t_submit, r, free, queue }
            }
            EventRecord::Alloc(id, priority, userid, t_submit, number, duration) => {
                Event::Alloc { id, priority, userid, t_submit, jobspec: spec(number, duration)? }
            }
            EventRecord::Cancel(id) => Event::Cancel { id },
            EventRecord::Prioritize(jobs) => Event::Prioritize { jobs },
            EventRecord::Free(id, ranks, last) => Event::Free { id, ranks, last },
            EventRecord::Expiration(id, expiration, token) => Event::Expiration { id, expiration, token },
            EventRecord::Feasibility(number, duration, token) => {
                Event::Feasibility { jobspec: spec(number, duration)?, token }
            }
            EventRecord::Up(ranks) => Event::Up(ranks),
            EventRecord::Down(ranks) => Event::Down(ranks),
            EventRecord::Shrink(ranks) => Event::Shrink(ranks),
            EventRecord::PropertyAdd(name, ranks) => Event::PropertyAdd { name, ranks },
            EventRecord::PropertyRemove(name, ranks) => Event::PropertyRemove { name, ranks },
            EventRecord::VertexStatus(paths, up) => Event::VertexStatus { paths, up },
            EventRecord::VertexProperty(paths, key, value) => Event::VertexProperty { paths, key, value },
            EventRecord::Unread(jobs) => Event::Unread(jobs),
            EventRecord::PropertiesUnread(unread) => Event::PropertiesUnread(unread),
            EventRecord::PutWindow(text) => {
                let window =
                    serde_json::from_str(&text).map_err(|error| SpecError::Window(error.to_string()))?;
                Event::PutWindow(Box::new(window))
            }
            EventRecord::RemoveWindow(name) => Event::RemoveWindow { name },
            EventRecord::InstanceExpiration(end) => Event::InstanceExpiration(end),
            EventRecord::Committed(id) => Event::Committed { id },
            EventRecord::Recount(jobs, unsettled, complete) => Event::Recount { jobs, unsettled, complete },
            EventRecord::Audit(theirs, unsettled, within) => Event::Audit { theirs, unsettled, within },
        })
    }
}

/// Size above which records are deflated, bytes.
const PLAIN_BYTES_MAX: usize = 4096;
/// Largest record after inflating, bytes.
const INFLATED_BYTES_MAX: u64 = 4 << 30;

/// The error for a payload that is no record of this version.
#[derive(Debug, thiserror::Error)]
#[error("no record that this version can read: {0}")]
pub struct RecordError(String);

impl Record {
    /// The payload of a frame, deflated if it is large; empty if the record cannot be serialised.
    pub fn to_payload(&self) -> Vec<u8> {
        let mut out = vec![0];
        let mut writer = rmp_serde::Serializer::new(&mut out).with_struct_map();
        // Serialisation to memory does not fail.
        if self.serialize(&mut writer).is_err() {
            return Vec::new();
        }
        if out.len() > PLAIN_BYTES_MAX {
            let mut packed = flate2::write::DeflateEncoder::new(vec![1], flate2::Compression::fast());
            if let Ok(packed) =
                std::io::Write::write_all(&mut packed, &out[1..]).and_then(|()| packed.finish())
            {
                return packed;
            }
        }
        out
    }

    /// The record of a payload.
    ///
    /// # Errors
    /// [`RecordError`] for any other payload.
    pub fn from_payload(payload: &[u8]) -> Result<Record, RecordError> {
        use std::io::Read as _;

        let (mut plain, mut inflated);
        // One type of reader: the code that reads a record exists once.
        let reader: &mut dyn std::io::Read = match payload.split_first() {
            Some((0, bytes)) => {
                plain = bytes;
                &mut plain
            }
            Some((1, packed)) => {
                let limited = flate2::read::DeflateDecoder::new(packed).take(INFLATED_BYTES_MAX);
                inflated = std::io::BufReader::new(limited);
                &mut inflated
            }
            _ => return Err(RecordError("unknown packing".to_owned())),
        };
        rmp_serde::from_read(reader).map_err(|error| RecordError(error.to_string()))
    }
}
