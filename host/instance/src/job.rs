//! One job: the state machine of RFC 21, driven by events alone, so that replaying a log restores the job.

use std::collections::BTreeSet;
use std::sync::Arc;

use fluxgate_formats::{JobId, R};
use serde_json::{Map, Value};

use crate::annotate;
use crate::spec::{Spec, set_path};
use crate::timers;

/// Priority of a job that a user holds; it is not sent to the scheduler.
pub(crate) const PRIORITY_MIN: u32 = 0;
/// Priority of an expedited job.
pub(crate) const PRIORITY_MAX: u32 = u32::MAX;
/// Urgency of a job that a user holds.
pub(crate) const URGENCY_HOLD: u8 = 0;
/// Default urgency.
pub(crate) const URGENCY_DEFAULT: u8 = 16;
/// Urgency of an expedited job; also the highest.
pub(crate) const URGENCY_EXPEDITE: u8 = 31;

/// The states of RFC 21, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    /// NEW: just submitted.
    New = 1,
    /// DEPEND: waits for dependencies.
    Depend = 2,
    /// PRIORITY: gets its priority.
    Priority = 4,
    /// SCHED: waits for resources.
    Sched = 8,
    /// RUN: runs.
    Run = 16,
    /// CLEANUP: releases its resources.
    Cleanup = 32,
    /// INACTIVE: has ended.
    Inactive = 64,
}

impl State {
    /// All of them.
    pub(crate) const ALL: [State; 7] = [
        State::New,
        State::Depend,
        State::Priority,
        State::Sched,
        State::Run,
        State::Cleanup,
        State::Inactive,
    ];
    /// DEPEND, PRIORITY and SCHED.
    pub(crate) const PENDING: i64 = 14;
    /// RUN and CLEANUP.
    pub(crate) const RUNNING: i64 = 48;
    /// Everything but NEW and INACTIVE.
    pub(crate) const ACTIVE: i64 = 62;

    /// Its bit.
    pub(crate) fn bit(self) -> i64 {
        self as i64
    }

    /// Its name in lower case.
    pub(crate) fn name(self) -> &'static str {
        match self {
            State::New => "new",
            State::Depend => "depend",
            State::Priority => "priority",
            State::Sched => "sched",
            State::Run => "run",
            State::Cleanup => "cleanup",
            State::Inactive => "inactive",
        }
    }
}

/// The result of a job, with the bits of RFC 43.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Success.
    Completed = 1,
    /// Failure.
    Failed = 2,
    /// Cancelled by a user.
    Canceled = 4,
    /// Ended at its time limit.
    Timeout = 8,
}

/// The resources of a job.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Grant {
    /// R from the scheduler, without `scheduling`, with later expirations applied.
    pub value: Value,
    /// The parsed R.
    pub r: R,
}

/// A fatal exception.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Exception {
    /// Its type, for instance `cancel`.
    pub kind: String,
    /// Its severity, 0 to 7.
    pub severity: i64,
    /// Its note.
    pub note: String,
}

/// The execution of a job.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Exec {
    /// True if processes run, real or simulated.
    pub active: bool,
    /// End of a simulated job, seconds since the epoch.
    pub finish: Option<timers::Key>,
    /// Time limit, seconds since the epoch.
    pub expire: Option<timers::Key>,
    /// Time of the second signal, seconds since the epoch.
    pub kill: Option<timers::Key>,
    /// The worst wait status so far.
    pub status: i64,
    /// Real processes that still run.
    pub running_tasks: u64,
    /// The processes could not be started, or their end is unknown.
    pub lost: bool,
}

/// Times at which a job entered its states; 0 for not yet. Seconds since the epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Times {
    /// `submit`.
    pub submit: f64,
    /// `validate`.
    pub depend: f64,
    /// First time in PRIORITY.
    pub priority: f64,
    /// First time in SCHED.
    pub sched: f64,
    /// `alloc`.
    pub run: f64,
    /// `start`.
    pub start: f64,
    /// First time in CLEANUP.
    pub cleanup: f64,
    /// `clean`.
    pub inactive: f64,
}

/// A job.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    /// Id.
    pub id: JobId,
    /// The jobspec.
    pub spec: Arc<Spec>,
    /// User id of its owner.
    pub userid: u32,
    /// Urgency, 0 to 31.
    pub urgency: u8,
    /// Submit flags: 1 debug, 2 waitable, 4 novalidate.
    pub flags: u32,
    /// Priority, the order of the queue.
    pub priority: u32,
    /// State.
    pub state: State,
    /// Times of its states.
    pub times: Times,
    /// Annotations of scheduler and users.
    pub annotations: Map<String, Value>,
    /// True while it waits to be sent to the scheduler.
    pub alloc_queued: bool,
    /// True if it was sent to the scheduler and not answered.
    pub alloc_pending: bool,
    /// True if it holds resources.
    pub has_resources: bool,
    /// True if its resources were released (to housekeeping or to the scheduler).
    pub free_posted: bool,
    /// The resources.
    pub grant: Option<Box<Grant>>,
    /// Its execution.
    pub exec: Exec,
    /// True if it was ever started.
    pub started: bool,
    /// Wait status of `finish`, if there was one.
    pub status: Option<i64>,
    /// The first exception of severity 0, else the first at all.
    pub exception: Option<Exception>,
    /// Ranks, nodelist, cores and expiration of its present or past allocation, for lists.
    pub placed: Option<Box<Placed>>,
    /// Descriptions of its open dependencies.
    pub(crate) waits: BTreeSet<String>,
    /// The event log, as text.
    pub log: String,
}

/// The place of a job's allocation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Placed {
    /// Idset.
    pub ranks: String,
    /// Hostlist.
    pub nodelist: String,
    /// Number of nodes.
    pub nnodes: u64,
    /// Number of cores.
    pub ncores: u64,
    /// Expiration, seconds since the epoch; 0 is none.
    pub expiration: f64,
}

impl Job {
    /// A job without any event.
    pub(crate) fn new(id: JobId, spec: Arc<Spec>) -> Self {
        Job {
            id,
            spec,
            userid: 0,
            urgency: URGENCY_DEFAULT,
            flags: 0,
            priority: PRIORITY_MIN,
            state: State::New,
            times: Times::default(),
            annotations: Map::new(),
            alloc_queued: false,
            alloc_pending: false,
            has_resources: false,
            free_posted: false,
            grant: None,
            exec: Exec::default(),
            started: false,
            status: None,
            exception: None,
            placed: None,
            waits: BTreeSet::new(),
            log: String::new(),
        }
    }

    /// The priority that follows from its urgency (RFC 30, the default of flux-core).
    pub(crate) fn natural_priority(&self) -> u32 {
        match self.urgency {
            URGENCY_HOLD => PRIORITY_MIN,
            URGENCY_EXPEDITE => PRIORITY_MAX,
            urgency => u32::from(urgency),
        }
    }

    fn enter(&mut self, state: State, time: f64) {
        if self.state == state {
            return;
        }
        self.state = state;
        let first = |slot: &mut f64| {
            if *slot == 0.0 {
                *slot = time;
            }
        };
        match state {
            State::New => {}
            State::Depend => first(&mut self.times.depend),
            State::Priority => first(&mut self.times.priority),
            State::Sched => first(&mut self.times.sched),
            State::Run => first(&mut self.times.run),
            State::Cleanup => first(&mut self.times.cleanup),
            State::Inactive => first(&mut self.times.inactive),
        }
    }

    /// Stores the resources that the scheduler allocated.
    pub(crate) fn take(&mut self, grant: Grant) {
        let r = &grant.r;
        self.placed = Some(Box::new(Placed {
            ranks: r.ranks().to_string(),
            nodelist: r.nodelist.to_string(),
            nnodes: r.ranks().len(),
            ncores: r.count("core"),
            expiration: r.expiration,
        }));
        self.grant = Some(Box::new(grant));
    }

    /// Applies an event. Unknown ones have no effect (RFC 21).
    pub(crate) fn apply(&mut self, name: &str, context: &Map<String, Value>, time: f64) {
        let number = |key: &str| context.get(key).and_then(Value::as_i64);
        let text = |key: &str| context.get(key).and_then(Value::as_str).unwrap_or("").to_owned();
        match name {
            "submit" => {
                self.times.submit = time;
                self.userid = number("userid").unwrap_or(0) as u32;
                self.urgency = number("urgency").unwrap_or(16) as u8;
                self.flags = number("flags").unwrap_or(0) as u32;
            }
            "validate" => self.enter(State::Depend, time),
            "dependency-add" => drop(self.waits.insert(text("description"))),
            "dependency-remove" => drop(self.waits.remove(&text("description"))),
            "depend" if self.state == State::Depend => self.enter(State::Priority, time),
            "priority" if matches!(self.state, State::Priority | State::Sched) => {
                let priority = context.get("priority").and_then(Value::as_u64).unwrap_or(0);
                self.priority = u32::try_from(priority).unwrap_or(PRIORITY_MAX);
                self.enter(State::Sched, time);
            }
            "urgency" => {
                self.urgency = number("urgency").unwrap_or(16) as u8;
                if self.state == State::Sched {
                    self.enter(State::Priority, time);
                }
            }
            "flux-restart" if self.state == State::Sched => self.enter(State::Priority, time),
            "jobspec-update" => {
                let mut value = self.spec.value();
                for (path, new) in context {
                    // Invalid values were refused before the event was posted.
                    let _ = set_path(&mut value, path, new.clone());
                }
                if let Ok(mut spec) = Spec::new(&value) {
                    spec.key = self.spec.key;
                    self.spec = Arc::new(spec);
                }
                if self.state == State::Sched {
                    self.enter(State::Priority, time);
                }
            }
            "resource-update" => {
                if let Some(expiration) = context.get("expiration").and_then(Value::as_f64) {
                    self.set_expiration(expiration);
                }
            }
            "memo" => {
                let mut user = Map::new();
                user.insert("user".to_owned(), Value::Object(context.clone()));
                annotate::merge_bounded(&mut self.annotations, &user);
            }
            "alloc" => {
                self.has_resources = true;
                if let Some(Value::Object(annotations)) = context.get("annotations") {
                    self.annotations = annotations.clone();
                }
                if self.state == State::Sched {
                    self.enter(State::Run, time);
                }
            }
            "start" => {
                self.started = true;
                self.times.start = time;
            }
            "finish" => {
                self.status = number("status").or(Some(0));
                if self.state == State::Run {
                    self.enter(State::Cleanup, time);
                }
            }
            "exception" if !matches!(self.state, State::New | State::Inactive) => {
                let severity = number("severity").unwrap_or(0);
                let kind = text("type");
                if severity == 0 && kind == "scheduler-restart" {
                    self.has_resources = false;
                }
                if self.exception.as_ref().is_none_or(|e| severity < e.severity) {
                    self.exception = Some(Exception { kind, severity, note: text("note") });
                }
                if severity == 0 {
                    self.enter(State::Cleanup, time);
                }
            }
            "free" => {
                self.free_posted = true;
                self.has_resources = false;
            }
            "clean" if self.state == State::Cleanup => self.enter(State::Inactive, time),
            _ => {}
        }
    }

    /// Changes its expiration.
    pub(crate) fn set_expiration(&mut self, expiration: f64) {
        if let Some(grant) = &mut self.grant {
            grant.r.expiration = expiration;
            if let Some(execution) = grant.value.get_mut("execution").and_then(Value::as_object_mut) {
                execution.insert("expiration".to_owned(), expiration.into());
            }
        }
        if let Some(placed) = &mut self.placed {
            placed.expiration = expiration;
        }
    }

    /// Its result, once it is inactive.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        if self.state != State::Inactive {
            return None;
        }
        Some(match &self.exception {
            Some(e) if e.severity == 0 => match e.kind.as_str() {
                "cancel" => Outcome::Canceled,
                "timeout" => Outcome::Timeout,
                _ => Outcome::Failed,
            },
            _ if self.status == Some(0) => Outcome::Completed,
            _ => Outcome::Failed,
        })
    }
}
