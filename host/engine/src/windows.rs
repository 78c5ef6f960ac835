//! Windows: nodes that are kept from one time to another, for maintenance or for some jobs.
//!
//! People and commands call a window a reservation; here a reservation is the start that a policy reserves for one job. An
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
    /// No job uses its nodes, or only short ones ([`Window::float`]); it has no members.
    Maintenance,
    /// Only its members use its nodes.
    Dedicated,
}

/// The treatment of jobs that run on the nodes of a window and are expected to end too late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnRunning {
    /// The window is not made.
    Refuse,
    /// The jobs go on.
    Ignore,
    /// The driver shortens their limits, so that they end at its start, less its margin.
    Shorten,
    /// An exception ends the jobs at its start, less its margin.
    End,
}

/// The treatment of members that wait at the end of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AfterWindow {
    /// The members go on waiting.
    Wait,
    /// The members are ordinary jobs from then on.
    Free,
}

/// One time at which a window is on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Occurrence {
    /// Its start, seconds since the epoch; finite.
    pub start: f64,
    /// Its end, seconds since the epoch; finite, and later than the start.
    pub end: f64,
    /// Its start in words, for the reasons of jobs that wait.
    pub begins: String,
}

/// Access rules of a window. People (users and those of groups), queues and banks must all admit a job, where they are given.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Members {
    /// The admitted users; all users, when empty and without groups.
    pub users: BTreeSet<u32>,
    /// Groups with their users, admitted as well, as the driver looked them up last. The engine never looks up a group.
    #[serde(default)]
    pub groups: BTreeMap<String, BTreeSet<u32>>,
    /// The queues with admitted jobs; all queues, when empty.
    pub queues: BTreeSet<String>,
    /// The banks (`attributes.system.bank`) with admitted jobs; all jobs, also those without a bank, when empty.
    #[serde(default)]
    pub banks: BTreeSet<String>,
    /// True if admitted jobs may use it without naming it, and other nodes besides.
    pub magnetic: bool,
}

impl Members {
    /// True if it names users or groups, so that not all users are admitted.
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

/// The nodes that the engine chooses for a window; nodes or cores are above 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Wanted {
    /// Fewest nodes; 0 for no bound.
    pub nodes: u32,
    /// Fewest cores of all these nodes together; 0 for no bound.
    #[serde(default, skip_serializing_if = "no_cores")]
    pub cores: u64,
    /// The constraint that each node meets (RFC 31).
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
    /// The time until which they keep their places in the window, seconds since the epoch.
    pub until: f64,
}

/// A rule by which a window is made again; for the driver, which knows a calendar.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Repeat {
    /// `hourly`, `daily`, `weekly`, `weekdays`, `weekend`, or a duration (RFC 23).
    pub every: String,
    /// Name of the time zone in which days and hours are counted.
    pub zone: String,
    /// The time after which no occurrence begins, seconds since the epoch; 0 for no end.
    pub until: f64,
    /// Start of the last occurrence that was made, seconds since the epoch.
    pub last: f64,
}

/// Nodes that are kept from one time to another, for maintenance or for some jobs; users call it a reservation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Its name, `[a-z0-9_-]{1,64}`; see [`check_window_name`].
    pub name: String,
    /// Its purpose.
    pub kind: WindowKind,
    /// Its occurrences in order, without those that are over; empty when all are over.
    pub occurrences: Vec<Occurrence>,
    /// Seconds before a start at which other jobs must have ended; finite, 0 for none.
    pub margin: f64,
    /// Seconds after an end until which its members may run; finite, 0 for none.
    pub overrun: f64,
    /// The rule by which the engine chooses its nodes; `None` when they are given.
    pub wanted: Option<Wanted>,
    /// The ranks of its nodes.
    pub ranks: Idset,
    /// True if fewer of its nodes are up than it wants.
    pub degraded: bool,
    /// Nodes that are waited for after a start of the scheduler, as brokers come up one by one; `None` for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awaited: Option<Awaited>,
    /// True if nodes that go down are replaced after its start as well.
    pub replace: bool,
    /// Its access rules; empty for maintenance.
    pub members: Members,
    /// True if its members may use other nodes and times as well.
    pub flex: bool,
    /// True if it may overlap other windows of members; members of both use the nodes that both have.
    #[serde(default)]
    pub overlap: bool,
    /// Seconds, above 0, after which an occurrence ends early if no member runs or waits; `None` for never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release_when_idle: Option<f64>,
    /// Longest time in seconds, above 0, for which jobs take its nodes from its start to its end: it floats. `None` for other windows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub float: Option<f64>,
    /// True if jobs that may be ended (`attributes.system.preemptible-after`) run until it begins, whatever their limits are.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fill: bool,
    /// Units of pools that it keeps, by the name of the pool (see [`fluxgate_graph::Resources::pool_units`]). A job that asks for
    /// none of them is not concerned.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pools: BTreeMap<String, u64>,
    /// The treatment of running jobs in its way.
    pub running: OnRunning,
    /// The treatment of members that wait at its end.
    pub after: AfterWindow,
    /// The rule by which the driver makes further occurrences; `None` if it does not come again.
    pub repeat: Option<Repeat>,
    /// A note for people, may be empty.
    pub note: String,
    /// User id of its maker, and the time at which it was made in seconds since the epoch.
    pub created: (u32, f64),
}

impl Window {
    /// Maintenance of these nodes at these times, with all else at its default: no margin, and running jobs go on.
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

    /// The start of its first occurrence that is after `now` (seconds since the epoch); infinite if none is.
    pub fn next_start(&self, now: f64) -> f64 {
        self.occurrences.iter().map(|times| times.start).find(|start| *start > now).unwrap_or(f64::INFINITY)
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

    /// True if its first occurrence has begun at this time.
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

    /// The window with its nodes waited for from `now` on, for `seconds`, and at most until its first start, less its margin (a second
    /// at least). A window with given nodes waits for none.
    #[must_use]
    pub fn awaiting(mut self, now: f64, seconds: f64) -> Window {
        let margin = self.margin.max(1.0);
        let first = self.occurrences.first().map_or(f64::NEG_INFINITY, |first| first.start - margin);
        let until = first.min(now + seconds);
        self.awaited = Some(Awaited { ranks: self.ranks.clone(), until })
            .filter(|awaited| self.wanted.is_some() && awaited.until > now);
        self
    }

    /// Its state at this time in one word: `over`, `degraded`, `active` or `planned`.
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

/// Checks the name of a window: one to [`WINDOW_NAME_MAX`] characters of `a-z`, `0-9`, `_` and `-`.
///
/// # Errors
/// The name that was found and the names that are accepted, in words.
pub fn check_window_name(name: &str) -> Result<(), String> {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
    if name.is_empty() || name.len() > WINDOW_NAME_MAX || !name.chars().all(legal) {
        let found: String = name.chars().take(WINDOW_NAME_MAX).collect();
        return Err(format!("name: found {found:?}, [a-z0-9_-]{{1,{WINDOW_NAME_MAX}}} is accepted"));
    }
    Ok(())
}
