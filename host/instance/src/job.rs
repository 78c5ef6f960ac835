//! One job: the state machine of RFC 21, driven by events and nothing else, so that replaying a log gives
//! the job as it was.

use std::collections::BTreeSet;
use std::sync::Arc;

use fluxgate_formats::{JobId, R};
use serde_json::{Map, Value};

use crate::annotate;
use crate::spec::{Spec, set_path};
use crate::timers;

/// Priority of a held job, which no scheduler hears of.
pub(crate) const PRIORITY_MIN: u32 = 0;
/// Priority of an expedited job.
pub(crate) const PRIORITY_MAX: u32 = u32::MAX;
/// Urgency of a held job.
pub(crate) const URGENCY_HOLD: u8 = 0;
/// Urgency unless somebody says otherwise.
pub(crate) const URGENCY_DEFAULT: u8 = 16;
/// Urgency of an expedited job; also the highest.
pub(crate) const URGENCY_EXPEDITE: u8 = 31;

/// The states of RFC 21, with their bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    /// Just arrived.
    New = 1,
    /// Waits for other jobs.
    Depend = 2,
    /// Gets its priority.
    Priority = 4,
    /// Waits for resources.
    Sched = 8,
    /// Runs.
    Run = 16,
    /// Gives back what it has.
    Cleanup = 32,
    /// Over.
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

/// How a job ended, with the bits of RFC 43.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Well.
    Completed = 1,
    /// Not well.
    Failed = 2,
    /// Somebody canceled it.
    Canceled = 4,
    /// It took too long.
    Timeout = 8,
}

/// What a job holds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Grant {
    /// As the scheduler gave it, without `scheduling`, with later expirations.
    pub value: Value,
    /// Understood.
    pub r: R,
}

/// A fatal exception.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Exception {
    /// For instance `cancel`.
    pub kind: String,
    /// 0 to 7.
    pub severity: i64,
    /// For people.
    pub note: String,
}

/// What runs for a job.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Exec {
    /// Does anything?
    pub active: bool,
    /// When a simulated job ends.
    pub finish: Option<timers::Key>,
    /// When its time is up.
    pub expire: Option<timers::Key>,
    /// When the other signal is sent.
    pub kill: Option<timers::Key>,
    /// The worst wait status so far.
    pub status: i64,
    /// Real processes that still run.
    pub running_tasks: u64,
    /// The processes could not be started, or nobody knows what became of them.
    pub lost: bool,
}

/// When a job entered its states; 0 when it did not yet. Seconds since the epoch.
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
    /// Its id.
    pub id: JobId,
    /// What it is.
    pub spec: Arc<Spec>,
    /// Whose it is.
    pub userid: u32,
    /// 0 to 31.
    pub urgency: u8,
    /// Submit flags: 1 debug, 2 waitable, 4 novalidate.
    pub flags: u32,
    /// What the queue is ordered by.
    pub priority: u32,
    /// Where it is.
    pub state: State,
    /// When it got there.
    pub times: Times,
    /// From scheduler and users.
    pub annotations: Map<String, Value>,
    /// It waits to be sent to the scheduler.
    pub alloc_queued: bool,
    /// It was sent to the scheduler, and not answered.
    pub alloc_pending: bool,
    /// It holds resources.
    pub has_resources: bool,
    /// Its resources were handed back (to housekeeping or to the scheduler).
    pub free_posted: bool,
    /// The resources.
    pub grant: Option<Box<Grant>>,
    /// What runs for it.
    pub exec: Exec,
    /// It was started, ever.
    pub started: bool,
    /// Wait status of `finish`, if there was one.
    pub status: Option<i64>,
    /// The first exception of severity 0, else the first at all.
    pub exception: Option<Exception>,
    /// Ranks, nodelist, cores and expiration of what it holds or held, for lists.
    pub placed: Option<Box<Placed>>,
    /// Descriptions of the dependencies that it waits for.
    pub(crate) waits: BTreeSet<String>,
    /// The event log, as text.
    pub log: String,
}

/// Where a job ran.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Placed {
    /// Idset.
    pub ranks: String,
    /// Hostlist.
    pub nodelist: String,
    /// Nodes.
    pub nnodes: u64,
    /// Cores.
    pub ncores: u64,
    /// Seconds since the epoch; 0 is none.
    pub expiration: f64,
}

impl Job {
    /// A job of which nothing has happened yet.
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

    /// The priority that its urgency gives it (RFC 30, the default of flux-core).
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

    /// Take what the scheduler gave.
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

    /// Let an event happen. Unknown ones change nothing (RFC 21).
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
                    // What cannot be set was refused before the event was posted.
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

    /// Change when its time is up.
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

    /// How it ended, once it is inactive.
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
