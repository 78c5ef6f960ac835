//! All windows by name: the windows that concern a job, and the access of the job to them.
//!
//! Must never know why a window changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fluxgate_formats::fsd;
use fluxgate_graph::{Access, Rights, WindowId};

use super::{AfterWindow, Awaited, NOWHERE, OnRunning, Window, WindowKind};

/// A window with its number in the calendar of the ledger.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Held {
    pub(crate) id: WindowId,
    pub(crate) window: Arc<Window>,
    /// Since when no member runs or waits, if it ends early for that.
    pub(crate) idle_since: Option<f64>,
}

/// All windows by name, also those that are over and were not removed. [`Engine::window_book`](crate::Engine::window_book) copies them.
#[derive(Debug, Clone, Default)]
pub struct Windows {
    by_name: BTreeMap<String, Held>,
    /// The names of those for jobs of their queues, by queue. Windows for maintenance are for no job.
    of_queues: BTreeMap<String, BTreeSet<String>>,
    /// The names of those that attract jobs.
    magnetic: BTreeSet<String>,
    /// The next time at which a window begins or ends; a pass is due then.
    pub(crate) wake: Option<f64>,
    /// Advances on every change.
    pub(crate) version: u64,
    /// Those that ended early since they were asked for, with the seconds for which they were idle.
    pub(crate) released: Vec<(String, f64)>,
    /// The number of those that are to be filled.
    filling: u32,
    /// The number of those that end early if they are idle.
    releasing: u32,
}

/// A job as windows see it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Applicant<'a> {
    /// The window that its jobspec names.
    pub(crate) named: Option<&'a str>,
    pub(crate) user: u32,
    pub(crate) queue: &'a str,
    pub(crate) bank: Option<&'a str>,
    /// Seconds after which it may be ended.
    pub(crate) preemptible_after: Option<u32>,
}

impl Windows {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Held> {
        self.by_name.values()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Held> {
        self.by_name.get(name)
    }

    pub(crate) fn by_id(&self, id: WindowId) -> Option<&Window> {
        self.by_name.values().find(|held| held.id == id).map(|held| &*held.window)
    }

    /// The number of the window of this name, or the first that is free.
    pub(crate) fn number_of(&self, name: &str) -> WindowId {
        let used: BTreeSet<WindowId> = self.by_name.values().map(|held| held.id).collect();
        let free = || (0..).map(WindowId).find(|id| !used.contains(id)).unwrap_or(NOWHERE);
        self.get(name).map_or_else(free, |held| held.id)
    }

    /// Keeps a window under this number; returns the one that had its name.
    pub(crate) fn put(&mut self, window: Window, id: WindowId) -> Option<Held> {
        let before = self.remove(&window.name);
        if window.kind == WindowKind::Dedicated {
            for queue in &window.members.queues {
                self.of_queues.entry(queue.clone()).or_default().insert(window.name.clone());
            }
            if window.members.magnetic {
                self.magnetic.insert(window.name.clone());
            }
        }
        self.filling += u32::from(window.fill);
        self.releasing += u32::from(window.release_when_idle.is_some());
        let idle_since = before.as_ref().and_then(|held| held.idle_since);
        self.by_name.insert(window.name.clone(), Held { id, window: Arc::new(window), idle_since });
        before
    }

    /// Forgets a window.
    pub(crate) fn remove(&mut self, name: &str) -> Option<Held> {
        self.version += 1;
        let held = self.by_name.remove(name)?;
        for queue in &held.window.members.queues {
            if let Some(names) = self.of_queues.get_mut(queue) {
                names.remove(name);
                if names.is_empty() {
                    self.of_queues.remove(queue);
                }
            }
        }
        self.magnetic.remove(name);
        self.filling -= u32::from(held.window.fill);
        self.releasing -= u32::from(held.window.release_when_idle.is_some());
        Some(held)
    }

    /// The windows that name this queue, and may admit its jobs.
    fn naming(&self, queue: &str) -> impl Iterator<Item = &Held> {
        self.of_queues.get(queue).into_iter().flatten().filter_map(|name| self.by_name.get(name))
    }

    /// The first time after `now` at which a window begins or ends, its jobs in the way are to be ended, or its nodes are no
    /// longer waited for.
    pub(crate) fn next_turn(&self, now: f64) -> Option<f64> {
        let turns = self.by_name.values().flat_map(|held| {
            let ends = held.window.running == OnRunning::End;
            let margin = held.window.margin;
            let all = held.window.occurrences.iter();
            let edges = all.flat_map(move |times| {
                let from = if ends { times.start - margin } else { times.start };
                [from, times.start, times.end]
            });
            let idle = held.idle_since.zip(held.window.release_when_idle);
            let awaited = held.window.awaited.as_ref().map(|awaited| awaited.until);
            edges.chain(idle.map(|(since, after)| since + after)).chain(awaited)
        });
        turns.filter(|turn| *turn > now).min_by(f64::total_cmp)
    }

    /// True if jobs that may be ended can start before a window that is to be filled.
    pub(crate) fn are_filled(&self) -> bool {
        self.filling > 0
    }

    /// In words, the window until which a job runs that may be ended, by the end of that job.
    pub(crate) fn filled_until(&self, end: f64) -> Option<String> {
        let filled = self.by_name.values().map(|held| &held.window).filter(|window| window.fill);
        let of = |window: &Arc<Window>| {
            let begins = window.occurrences.iter().find(|times| times.start - window.margin == end)?;
            Some(format!("reserved from {} for {}", begins.begins, window.title()))
        };
        filled.into_iter().find_map(of)
    }

    /// True if a window ends early when it is idle.
    pub(crate) fn release(&self) -> bool {
        self.releasing > 0
    }

    /// Sets since when a window is idle.
    pub(crate) fn idle(&mut self, name: &str, since: Option<f64>) {
        if let Some(held) = self.by_name.get_mut(name) {
            held.idle_since = since;
        }
    }

    /// Sets the nodes that a window waits for.
    pub(crate) fn awaits(&mut self, name: &str, awaited: Option<Awaited>) {
        if let Some(held) = self.by_name.get_mut(name) {
            Arc::make_mut(&mut held.window).awaited = awaited;
        }
    }

    /// The rights of a job in windows.
    pub(crate) fn rights(&self, job: Applicant<'_>) -> Rights {
        Rights { access: self.access(job), fills: job.preemptible_after.filter(|_| self.are_filled()) }
    }

    /// How a job may use windows: the one that it names, else the first that is for jobs of its queue, else the first that
    /// attracts it.
    pub(crate) fn access(&self, job: Applicant<'_>) -> Option<Access> {
        let bound = |held: &Held| match held.window.flex {
            true => Access::Free(held.id),
            false => Access::Only(held.id),
        };
        if let Some(name) = job.named {
            let held = self.get(name).filter(|held| held.window.kind == WindowKind::Dedicated);
            return match held.filter(|held| held.window.members.admit(job)) {
                Some(held) if held.window.occurrences.is_empty() => match held.window.after {
                    AfterWindow::Free => None,
                    AfterWindow::Wait => Some(Access::Only(NOWHERE)),
                },
                Some(held) => Some(bound(held)),
                None => Some(Access::Only(NOWHERE)),
            };
        }
        let open = |held: &&Held| {
            held.window.kind == WindowKind::Dedicated
                && held.window.members.admit(job)
                && !held.window.occurrences.is_empty()
        };
        let start = |held: &&Held| held.window.occurrences.first().map_or(f64::INFINITY, |first| first.start);
        let of_queue = self.naming(job.queue).filter(open).filter(|held| !held.window.members.magnetic);
        if let Some(held) = of_queue.min_by(|a, b| start(a).total_cmp(&start(b))) {
            return Some(bound(held));
        }
        if self.over_for(job).is_some() {
            return Some(Access::Only(NOWHERE));
        }
        let magnetic = self.magnetic.iter().filter_map(|name| self.by_name.get(name)).filter(open);
        magnetic.min_by(|a, b| start(a).total_cmp(&start(b))).map(|held| match held.window.flex {
            true => Access::Free(held.id),
            false => Access::Also(held.id),
        })
    }

    /// The first window that is for all jobs of a queue.
    pub(crate) fn for_queue(&self, queue: &str) -> Option<&Window> {
        let all = self.by_name.values().map(|held| &*held.window);
        let open = all.filter(|window| window.takes_jobs_of(queue) && window.members.queues.contains(queue));
        let open = open.filter(|window| !window.members.magnetic && !window.members.names_people());
        let open = open.filter(|window| window.members.banks.is_empty());
        let start = |window: &Window| window.occurrences.first().map_or(f64::INFINITY, |first| first.start);
        open.min_by(|a, b| start(a).total_cmp(&start(b)))
    }

    /// A window for the queue of this job that is over and keeps the job waiting.
    fn over_for(&self, job: Applicant<'_>) -> Option<&Window> {
        let mut all = self.naming(job.queue).map(|held| &*held.window);
        all.find(|window| {
            window.occurrences.is_empty()
                && window.after == AfterWindow::Wait
                && !window.members.magnetic
                && window.members.admit(job)
        })
    }

    /// The name of a window and the reason, in words, for which it keeps a job waiting. A job with an end until `latest` would not
    /// be kept waiting.
    pub(crate) fn reason(
        &self,
        access: Option<Access>,
        id: WindowId,
        latest: f64,
    ) -> Option<(Arc<str>, Arc<str>)> {
        let window = self.by_id(id)?;
        let name: Arc<str> = window.name.as_str().into();
        if access == Some(Access::Only(id)) {
            let first = window.occurrences.first()?;
            let text = match latest.is_finite() {
                true => format!("its limit ends later than reservation {name}"),
                false => format!("reservation {name} begins {}", first.begins),
            };
            return Some((name, text.into()));
        }
        if let Some(float) = window.float {
            let text =
                format!("its nodes take jobs of {} at most, for {}", fsd::format(float), window.title());
            return Some((name, text.into()));
        }
        let met = window.occurrences.iter().find(|times| times.start - window.margin == latest);
        let begins = &met.or(window.occurrences.first())?.begins;
        let text = format!("reserved from {begins} for {}", window.title());
        Some((name, text.into()))
    }

    /// Why a job that names a window which it cannot use waits, in words.
    pub(crate) fn refusal(&self, job: Applicant<'_>) -> Option<(Arc<str>, Arc<str>)> {
        let name = job.named.or_else(|| self.over_for(job).map(|window| window.name.as_str()))?;
        let text = match self.get(name) {
            Some(held) if held.window.kind == WindowKind::Maintenance => {
                format!("reservation {name} is for maintenance")
            }
            Some(held) if !held.window.members.admit(job) => {
                format!("reservation {name} does not admit it")
            }
            Some(held) if held.window.occurrences.is_empty() => format!("reservation {name} is over"),
            Some(_) => return None,
            None => format!("there is no reservation {name}"),
        };
        Some((name.into(), text.into()))
    }
}

#[cfg(test)]
mod tests;
