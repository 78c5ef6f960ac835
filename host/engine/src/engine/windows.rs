//! Windows on demand: the effect of a window before it is made, the windows that there are, and the events at their edges.
//!
//! Must never know who asks.

use std::collections::BTreeSet;

use fluxgate_formats::{Idset, JobId};
use fluxgate_graph::{OCCURRENCES_MAX, WINDOWS_MAX};

use super::Engine;
use crate::event::Action;
use crate::windows::{
    MEMBERS_MAX, OnRunning, WINDOW_NOTE_MAX, WINDOW_POOLS_MAX, Window, WindowKind, Windows, check_window_name,
};

/// Type of the exception that ends a job in the way of a window.
const EXCEPTION: &str = "reservation";

/// A window as it would be put, and the jobs in its way.
#[derive(Debug, Clone, PartialEq)]
pub struct WindowPlan {
    /// The window with its nodes, chosen if it wants nodes.
    pub window: Window,
    /// Jobs that run on its nodes or hold some of its pools and are expected to end too late, with their ends in seconds since
    /// the epoch (infinite without limit). Empty for a change of a window that is on.
    pub in_the_way: Vec<(JobId, f64)>,
}

/// Why a window cannot be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum WindowRefused {
    /// A part of it is not acceptable, in words.
    #[error("{0}")]
    Wrong(String),
    /// Too few nodes can be chosen: name, nodes wanted, nodes that could be.
    #[error("{0}: {1} nodes are asked for, and {2} are up, meet the constraint and are not reserved then")]
    TooFew(String, u32, u64),
    /// It would overlap another window of members: the names of both, the common ranks, and the start of the other one.
    #[error("{0} overlaps {1}")]
    Overlap(String, String, Idset, String),
    /// Jobs run into it, and it refuses that ([`OnRunning::Refuse`]): its name, and the jobs with their ends.
    #[error("{0}: running jobs end after its start")]
    Running(String, Vec<(JobId, f64)>),
}

impl Engine {
    /// The window as it would be put, and the jobs in its way; nothing changes. The nodes are chosen if the window wants nodes,
    /// unless it has them already.
    ///
    /// # Errors
    /// [`WindowRefused`]: it is not acceptable, too few nodes can be chosen, it would overlap another one, or jobs are in its way.
    pub fn plan_window(&self, mut window: Window, now: f64) -> Result<WindowPlan, WindowRefused> {
        let core = &*self.core;
        let wrong = |what: String| Err(WindowRefused::Wrong(what));
        if let Err(what) = check_window_name(&window.name) {
            return wrong(what);
        }
        let name = window.name.clone();
        let before = core.windows.get(&name).map(|held| held.window.clone());
        if before.is_none() && core.windows.len() >= WINDOWS_MAX {
            return wrong(format!("{WINDOWS_MAX} reservations are there already, and no more are accepted"));
        }
        let members = &window.members;
        let of_groups: BTreeSet<u32> = members.groups.values().flatten().copied().collect();
        let counts = [
            members.users.len(),
            members.queues.len(),
            members.banks.len(),
            members.groups.len(),
            of_groups.len(),
        ];
        if counts.iter().any(|count| *count > MEMBERS_MAX) {
            return wrong(format!("{name}: more than {MEMBERS_MAX} members"));
        }
        if window.note.len() > WINDOW_NOTE_MAX {
            return wrong(format!("{name}: a note has {WINDOW_NOTE_MAX} bytes at most"));
        }
        let named = members.names_people() || !members.queues.is_empty() || !members.banks.is_empty();
        match window.kind {
            WindowKind::Maintenance if named || members.magnetic || window.flex => {
                return wrong(format!("{name}: maintenance has no members"));
            }
            WindowKind::Maintenance if window.overlap => {
                return wrong(format!("{name}: maintenance overlaps anything without being asked to"));
            }
            WindowKind::Dedicated if !named => {
                return wrong(format!("{name}: it needs users, groups, queues or banks who may use it"));
            }
            _ => {}
        }
        let ordered = |a: f64, b: f64| a.is_finite() && b.is_finite() && a < b;
        if !window.occurrences.iter().all(|times| ordered(times.start, times.end)) {
            return wrong(format!("{name}: its end is not later than its start"));
        }
        if window.occurrences.len() > OCCURRENCES_MAX {
            return wrong(format!("{name}: more than {OCCURRENCES_MAX} times"));
        }
        let apart = window
            .occurrences
            .windows(2)
            .all(|two| two[0].end + window.overrun <= two[1].start - window.margin);
        if !apart {
            return wrong(format!("{name}: it would come again before it is over"));
        }
        if window.occurrences.first().is_none_or(|first| first.end <= now) {
            return wrong(format!("{name}: it would be over already"));
        }
        let limits = [window.margin, window.overrun];
        if !limits.iter().all(|limit| limit.is_finite() && *limit >= 0.0) {
            return wrong(format!("{name}: margin and overrun are durations, not negative"));
        }
        let active = before.as_ref().is_some_and(|before| before.is_active(now));
        if let Some(wanted) = &window.wanted {
            if wanted.nodes == 0 && wanted.cores == 0 {
                return wrong(format!("{name}: it needs one node or core at least"));
            }
            let same = before.as_ref().is_some_and(|before| before.wanted.as_ref() == Some(wanted));
            if !(active && same) {
                window.ranks = core.choose_ranks(&window, wanted, &window.ranks);
                window.degraded = false;
            }
            if window.ranks.len() < u64::from(wanted.nodes) {
                return Err(WindowRefused::TooFew(name, wanted.nodes, window.ranks.len()));
            }
            if !core.has_enough(wanted, &window.ranks) {
                return wrong(format!(
                    "{name}: {} cores are asked for, and nodes that are up, meet the constraint and are not reserved then have fewer",
                    wanted.cores
                ));
            }
        }
        for (what, seconds) in [("float", window.float), ("release-when-idle", window.release_when_idle)] {
            if seconds.is_some_and(|seconds| !seconds.is_finite() || seconds <= 0.0) {
                return wrong(format!("{name}: {what} is a duration, longer than 0"));
            }
        }
        if window.float.is_some() {
            if window.kind != WindowKind::Maintenance || window.running != OnRunning::Ignore {
                return wrong(format!("{name}: only maintenance floats, and running jobs go on"));
            }
            if window.fill || window.margin > 0.0 {
                return wrong(format!(
                    "{name}: a reservation that floats has neither a margin nor jobs that fill it"
                ));
            }
        }
        if window.release_when_idle.is_some() && window.kind == WindowKind::Maintenance {
            return wrong(format!("{name}: maintenance has no members, and is not released when it is idle"));
        }
        if !window.pools.is_empty() && (window.kind != WindowKind::Maintenance || window.float.is_some()) {
            return wrong(format!("{name}: only maintenance at fixed times keeps amounts of pools"));
        }
        if window.pools.len() > WINDOW_POOLS_MAX {
            return wrong(format!("{name}: more than {WINDOW_POOLS_MAX} pools"));
        }
        for (pool, units) in &window.pools {
            let unitless = core.resources.pool_units(pool, "all");
            match unitless {
                Err(error) => return wrong(format!("{name}: {error}")),
                Ok(all) if *units == 0 || *units > all => {
                    let all = core.resources.said_of_pool(pool, all);
                    return wrong(format!("{name}: pool {pool} has {all}, and some of it is kept"));
                }
                Ok(_) => {}
            }
        }
        if window.ranks.is_empty() && window.pools.is_empty() {
            return wrong(format!("{name}: it has neither nodes nor pools"));
        }
        let unknown = window.ranks.difference(&core.resources.inventory_r().ranks());
        if !unknown.is_empty() {
            return wrong(format!("{name}: ranks {unknown} are not in the inventory"));
        }
        self.check_overlap(&window)?;
        // Jobs inside an active window use it.
        let first = window.occurrences.first().map_or(now, |first| first.start - window.margin);
        let in_the_way = match (active, window.float) {
            (true, _) => Vec::new(),
            (false, Some(float)) => {
                let mut late = core.jobs_across(&window, first.max(now));
                late.retain(|(_, end)| *end > first.max(now) + float);
                late
            }
            (false, None) => core.jobs_across(&window, first.max(now)),
        };
        if window.running == OnRunning::Refuse && !in_the_way.is_empty() {
            return Err(WindowRefused::Running(name, in_the_way));
        }
        Ok(WindowPlan { window, in_the_way })
    }

    /// Maintenance may overlap anything; other windows a window of members where one of both asks for it.
    fn check_overlap(&self, window: &Window) -> Result<(), WindowRefused> {
        if window.kind == WindowKind::Maintenance {
            return Ok(());
        }
        let core = &*self.core;
        for other in core.windows.iter().map(|held| &held.window) {
            let shared = window.sharing().with(other.sharing());
            if other.name == window.name || other.kind == WindowKind::Maintenance || shared {
                continue;
            }
            let common = other.ranks.intersection(&window.ranks);
            if common.is_empty() {
                continue;
            }
            let met = other.occurrences.iter().find(|theirs| {
                let from = theirs.start - other.margin;
                window.occurrences.iter().any(|ours| {
                    ours.start - window.margin < theirs.end + other.overrun
                        && from < ours.end + window.overrun
                })
            });
            if let Some(met) = met {
                let (name, of, begins) = (window.name.clone(), other.name.clone(), met.begins.clone());
                return Err(WindowRefused::Overlap(name, of, common, begins));
            }
        }
        Ok(())
    }

    /// The windows in the order of their names, also those that are over and were not removed.
    pub fn windows(&self) -> impl Iterator<Item = &Window> {
        self.core.windows.iter().map(|held| &*held.window)
    }

    /// The window of this name; `None` if there is none.
    pub fn window(&self, name: &str) -> Option<&Window> {
        self.core.windows.get(name).map(|held| &*held.window)
    }

    /// A copy of all windows, for [`feasibility`](crate::feasibility).
    pub fn window_book(&self) -> Windows {
        self.core.windows.clone()
    }

    /// A number that advances when a window is put, shortened or removed.
    pub fn windows_version(&self) -> u64 {
        self.core.windows.version
    }

    /// The names of windows that ended early since the last call, and the seconds of idleness after which each did so
    /// ([`Window::release_when_idle`]).
    pub fn take_released_windows(&mut self) -> Vec<(String, f64)> {
        std::mem::take(&mut self.core.windows.released)
    }

    /// The running jobs on the nodes of a window, or with some of its pools, that began before `from` and are expected to end
    /// after it, with their ends (infinite without limit).
    pub fn jobs_across(&self, window: &Window, from: f64) -> Vec<(JobId, f64)> {
        self.core.jobs_across(window, from)
    }

    /// The late nodes of a window that has begun, and their jobs. Jobs that began before the window hold these nodes, whatever their
    /// expected ends. A job that uses the nodes by right, as in another window that shares them, is not late. No job is late
    /// in a window whose members may begin before it, or in a floating one. Both are empty for a window that has not begun.
    pub fn late_in(&self, window: &Window, now: f64) -> (Idset, Vec<JobId>) {
        let Some(first) = window
            .occurrences
            .first()
            .filter(|first| first.start <= now && !window.flex && window.float.is_none())
        else {
            return (Idset::new(), Vec::new());
        };
        self.core.held_since_before(window, first.start)
    }

    /// Windows begin or end.
    pub(super) fn turn_windows(&mut self, now: f64, out: &mut Vec<Action>) {
        for (id, name) in self.core.turn_windows(now) {
            let note = format!("the nodes of the job are reserved for {name}");
            out.push(Action::Raise { id, kind: EXCEPTION.to_owned(), severity: 0, note });
        }
    }
}
