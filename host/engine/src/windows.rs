//! Windows: nodes that are kept from one time to another, for maintenance or for some jobs.
//!
//! People and commands call a window a reservation; here a reservation is the start that a policy promises to one job. An
//! administrator makes a window, and no policy makes or breaks one. The nodes and times are in the ledger
//! ([`fluxgate_graph::WindowSpan`]), where every search for a start finds them; here are the rules of access to them.
//!
//! Must never know a calendar or a time zone: all times are seconds since the epoch, and texts of times come with them.

mod all;

use std::collections::{BTreeMap, BTreeSet};

use fluxgate_formats::Idset;
use fluxgate_formats::constraint::Constraint;
use fluxgate_graph::{Sharing, WindowId, WindowSpan, WindowTerms};
use serde::{Deserialize, Serialize};

pub use all::Windows;
pub(crate) use all::{Applicant, Held};

/// Most characters of the name of a window.
pub const WINDOW_NAME_MAX: usize = 64;
/// Most bytes of its note.
pub const WINDOW_NOTE_MAX: usize = 256;
/// Most pools of which one window keeps amounts.
pub const WINDOW_POOLS_MAX: usize = 64;
/// Most users, groups, queues and banks, each, that one window names; and most users of all its groups together.
pub const MEMBERS_MAX: usize = 1024;

/// The number of a window that is not in the calendar: nothing fits there.
pub(crate) const NOWHERE: WindowId = WindowId(u32::MAX);

/// The purpose of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WindowKind {
    /// No job uses its nodes.
    Maintenance,
    /// Its members use it.
    Dedicated,
}

/// The treatment of jobs that run on the nodes of a window and are expected to end too late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnRunning {
    /// The window is not made.
    Refuse,
    /// They go on.
    Ignore,
    /// Their limits end at its start.
    Shorten,
    /// They are ended at its start, by an exception.
    End,
}

/// The treatment of members that wait at the end of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AfterWindow {
    /// They go on waiting.
    Wait,
    /// They are ordinary jobs from then on.
    Free,
}

/// One time at which a window is on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Occurrence {
    /// Seconds since the epoch.
    pub start: f64,
    /// Seconds since the epoch, later.
    pub end: f64,
    /// Its start in words, for the reasons of jobs that wait.
    pub begins: String,
}

/// Access rules of a window. People (users and those of groups), queues and banks must all admit a job, where they are given.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Members {
    /// These users; all, when empty and without groups.
    pub users: BTreeSet<u32>,
    /// The users of these groups as well, as they were looked up last. The engine never looks up a group.
    #[serde(default)]
    pub groups: BTreeMap<String, BTreeSet<u32>>,
    /// Jobs of these queues; all, when empty.
    pub queues: BTreeSet<String>,
    /// Jobs of these banks (`attributes.system.bank`); all, when empty.
    #[serde(default)]
    pub banks: BTreeSet<String>,
    /// Jobs of its users and queues may use it without naming it, and other nodes besides.
    pub magnetic: bool,
}

impl Members {
    /// Are only some users admitted?
    pub fn names_people(&self) -> bool {
        !self.users.is_empty() || !self.groups.is_empty()
    }

    fn admit(&self, job: Applicant<'_>) -> bool {
        let of_group = || self.groups.values().any(|users| users.contains(&job.user));
        (!self.names_people() || self.users.contains(&job.user) || of_group())
            && (self.queues.is_empty() || self.queues.contains(job.queue))
            && (self.banks.is_empty() || job.bank.is_some_and(|bank| self.banks.contains(bank)))
    }
}

fn no_cores(cores: &u64) -> bool {
    *cores == 0
}

/// Nodes that are chosen for a window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Wanted {
    /// Fewest nodes.
    pub nodes: u32,
    /// Fewest cores of all these nodes together.
    #[serde(default, skip_serializing_if = "no_cores")]
    pub cores: u64,
    /// The constraint that they meet (RFC 31).
    pub constraint: Constraint,
}

impl Wanted {
    /// True if these ranks are enough; `cores` are those of each rank, and are looked at only if cores are wanted.
    pub(crate) fn suffices(&self, ranks: &Idset, cores: &BTreeMap<u32, u64>) -> bool {
        let of = |rank: u32| cores.get(&rank).copied().unwrap_or(0);
        ranks.len() >= u64::from(self.nodes)
            && (self.cores == 0 || ranks.iter().map(of).fold(0, u64::saturating_add) >= self.cores)
    }
}

/// Nodes of a window that have not been up since its scheduler began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Awaited {
    /// Their ranks.
    pub ranks: Idset,
    /// Until then they keep their places in the window, seconds since the epoch.
    pub until: f64,
}

/// A rule by which a window is made again; for the driver, which knows a calendar.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Repeat {
    /// `hourly`, `daily`, `weekly`, `weekdays`, `weekend`, or a duration (RFC 23).
    pub every: String,
    /// Name of a time zone.
    pub zone: String,
    /// No occurrence begins after that; 0 is no end.
    pub until: f64,
    /// Start of the last occurrence that was made, seconds since the epoch.
    pub last: f64,
}

/// A window. See the module.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// `[a-z0-9_-]{1,64}`.
    pub name: String,
    /// Its purpose.
    pub kind: WindowKind,
    /// Its occurrences in order, without those that are over; empty when all are.
    pub occurrences: Vec<Occurrence>,
    /// Seconds before a start at which other jobs must have ended.
    pub margin: f64,
    /// Seconds after an end until which its members may run.
    pub overrun: f64,
    /// Its nodes are chosen; `None` when they are given.
    pub wanted: Option<Wanted>,
    /// Its nodes.
    pub ranks: Idset,
    /// It has fewer nodes up than it should.
    pub degraded: bool,
    /// The scheduler has begun, and the brokers of these nodes may come up one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awaited: Option<Awaited>,
    /// Nodes that go down are replaced after its start as well.
    pub replace: bool,
    /// Its access rules.
    pub members: Members,
    /// Its members may use other nodes and times as well.
    pub flex: bool,
    /// It may overlap other windows of members; members of both use the nodes that both have.
    #[serde(default)]
    pub overlap: bool,
    /// Seconds after which it ends early if no member runs or waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release_when_idle: Option<f64>,
    /// It floats: from its start to its end, jobs of its nodes have limits of this many seconds at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub float: Option<f64>,
    /// Jobs that may be ended (`attributes.system.preemptible-after`) run until it begins, whatever their limits are.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fill: bool,
    /// Units of pools that it keeps, by the name of the pool (see [`fluxgate_graph::Resources::pool_units`]). A job that asks for
    /// none of them is not concerned.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pools: BTreeMap<String, u64>,
    /// The treatment of jobs in the way.
    pub running: OnRunning,
    /// The treatment of members that wait at its end.
    pub after: AfterWindow,
    /// Whether it comes again.
    pub repeat: Option<Repeat>,
    /// For people.
    pub note: String,
    /// Its maker and the time at which it was made: user id, seconds since the epoch.
    pub created: (u32, f64),
}

impl Window {
    /// Maintenance of these nodes at these times, and nothing else that could be asked for: no margin, running jobs are left alone.
    pub fn maintenance(name: &str, occurrences: Vec<Occurrence>, ranks: Idset) -> Window {
        Window {
            name: name.to_owned(),
            kind: WindowKind::Maintenance,
            occurrences,
            margin: 0.0,
            overrun: 0.0,
            wanted: None,
            ranks,
            degraded: false,
            awaited: None,
            replace: false,
            members: Members::default(),
            flex: false,
            overlap: false,
            release_when_idle: None,
            float: None,
            fill: false,
            pools: BTreeMap::new(),
            running: OnRunning::Ignore,
            after: AfterWindow::Wait,
            repeat: None,
            note: String::new(),
            created: (0, 0.0),
        }
    }

    /// Its terms in the calendar of the ledger.
    pub(crate) fn terms(&self) -> WindowTerms {
        let amounts = self.pools.iter().map(|(pool, units)| (pool.clone(), *units)).collect();
        WindowTerms {
            float: self.float,
            fills: self.fill,
            amounts,
            ..WindowTerms::new(self.spans(), self.sharing())
        }
    }

    /// Its times in the calendar of the ledger.
    pub(crate) fn spans(&self) -> Vec<WindowSpan> {
        let span = |times: &Occurrence| WindowSpan {
            from: times.start - self.margin,
            start: times.start,
            end: times.end,
            until: times.end + self.overrun,
        };
        self.occurrences.iter().map(span).collect()
    }

    /// Its rule for members of other windows.
    pub(crate) fn sharing(&self) -> Sharing {
        match (self.kind, self.overlap) {
            (WindowKind::Maintenance, _) => Sharing::Never,
            (WindowKind::Dedicated, false) => Sharing::IfAsked,
            (WindowKind::Dedicated, true) => Sharing::Asked,
        }
    }

    /// Does the access of this job depend on this window?
    pub(crate) fn concerns(&self, job: Applicant<'_>) -> bool {
        let named = job.named == Some(self.name.as_str());
        self.kind == WindowKind::Dedicated
            && (named || self.members.magnetic || !self.members.queues.is_empty())
            && self.members.admit(job)
    }

    /// Is it on at this time?
    pub fn is_active(&self, now: f64) -> bool {
        self.occurrences.first().is_some_and(|first| first.start <= now)
    }

    /// Could a job of this queue, of some user, use it?
    pub(crate) fn takes_jobs_of(&self, queue: &str) -> bool {
        let queues = &self.members.queues;
        self.kind == WindowKind::Dedicated
            && !self.occurrences.is_empty()
            && (queues.is_empty() || queues.contains(queue))
    }

    /// From now on its nodes are waited for, this many seconds, and no longer than a second before other jobs must have ended.
    #[must_use]
    pub fn awaiting(mut self, now: f64, seconds: f64) -> Window {
        let margin = self.margin.max(1.0);
        let first = self.occurrences.first().map_or(f64::NEG_INFINITY, |first| first.start - margin);
        let until = first.min(now + seconds);
        self.awaited = Some(Awaited { ranks: self.ranks.clone(), until })
            .filter(|awaited| self.wanted.is_some() && awaited.until > now);
        self
    }

    /// Its state in one word.
    pub fn state(&self, now: f64) -> &'static str {
        match (self.occurrences.is_empty(), self.is_active(now), self.degraded) {
            (true, ..) => "over",
            (_, _, true) => "degraded",
            (_, true, _) => "active",
            _ => "planned",
        }
    }

    pub(crate) fn title(&self) -> String {
        match self.kind {
            WindowKind::Maintenance => format!("maintenance {}", self.name),
            WindowKind::Dedicated => format!("reservation {}", self.name),
        }
    }
}

/// Why a name cannot be that of a window, in words.
pub fn check_window_name(name: &str) -> Result<(), String> {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
    if name.is_empty() || name.len() > WINDOW_NAME_MAX || !name.chars().all(legal) {
        let found: String = name.chars().take(WINDOW_NAME_MAX).collect();
        return Err(format!("name: found {found:?}, [a-z0-9_-]{{1,{WINDOW_NAME_MAX}}} is accepted"));
    }
    Ok(())
}
