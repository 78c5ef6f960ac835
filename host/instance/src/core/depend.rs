//! Dependencies between jobs (RFC 26): jobs in DEPEND, until the last of their dependencies is removed.

use std::collections::{BTreeMap, VecDeque};

use fluxgate_formats::JobId;
use fluxgate_wire::errno;
use serde_json::json;

use super::jobs::context;
use super::{Core, Request, Timer};
use crate::dependency::{Condition, Dependency};
use crate::fail::Fail;
use crate::job::State;
use crate::spec::Spec;

/// The waiting jobs, by the job that they wait for.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    by_target: BTreeMap<JobId, Vec<(JobId, Condition)>>,
    /// Jobs that started or ended, and whose dependents have not been processed yet. A queue and no recursion: a chain
    /// of dependents may be as long as there are jobs.
    news: VecDeque<JobId>,
}

impl Core {
    /// Checks whether a job with these dependencies may be submitted.
    pub(super) fn check_dependencies(&self, request: &Request, spec: &Spec) -> Result<(), Fail> {
        for dependency in &spec.dependencies {
            let Dependency::Job(condition, target) = dependency else { continue };
            let what = dependency.description();
            let Some(job) = self.table.get(*target) else {
                return Err(Fail::new(errno::ENOENT, format!("dependency {what}: unknown job {target}")));
            };
            if !request.message.is_from_owner() && job.userid != request.message.userid {
                return Err(Fail::denied(format!("dependency {what}: the job belongs to another user")));
            }
            if condition.met(job.started, job.outcome()) == Some(false) {
                return Err(Fail::invalid(format!("dependency {what} can never be satisfied")));
            }
        }
        Ok(())
    }

    /// A job was submitted: its dependencies are added, unless they are met already.
    pub(super) fn add_dependencies(&mut self, id: JobId) {
        let Some(spec) = self.table.get(id).map(|job| std::sync::Arc::clone(&job.spec)) else { return };
        for dependency in &spec.dependencies {
            let met = match dependency {
                Dependency::Time(time) => *time <= self.now,
                Dependency::Job(condition, target) => {
                    // A job that existed at submission and is unknown by now has ended.
                    self.table
                        .get(*target)
                        .is_none_or(|job| condition.met(job.started, job.outcome()) == Some(true))
                }
            };
            if !met {
                let details = json!({ "description": dependency.description() });
                self.post(id, "dependency-add", context(details));
                self.wait_for(id, *dependency);
            }
        }
    }

    /// Records that a job waits.
    pub(super) fn wait_for(&mut self, id: JobId, dependency: Dependency) {
        match dependency {
            Dependency::Time(time) => drop(self.timers.set(time, Timer::Begin(id))),
            Dependency::Job(condition, target) => {
                self.waiting.by_target.entry(target).or_default().push((id, condition));
            }
        }
    }

    /// The time for which a job waited has come.
    pub(super) fn begin_time(&mut self, id: JobId) {
        let Some(job) = self.table.get(id) else { return };
        let due =
            |dependency: &&Dependency| matches!(dependency, Dependency::Time(time) if *time <= self.now);
        let due: Vec<Dependency> = job.spec.dependencies.iter().filter(due).copied().collect();
        for dependency in due {
            self.remove_dependency(id, dependency);
        }
    }

    fn remove_dependency(&mut self, id: JobId, dependency: Dependency) {
        let what = dependency.description();
        let waits = |job: &&crate::job::Job| job.state == State::Depend && job.waits.contains(&what);
        if self.table.get(id).filter(waits).is_some() {
            self.post(id, "dependency-remove", context(json!({ "description": what })));
        }
    }

    /// A job started or ended.
    pub(super) fn spread_news(&mut self, target: JobId) {
        if self.waiting.by_target.contains_key(&target) {
            self.waiting.news.push_back(target);
        }
    }

    /// Processes the dependents of jobs that started or ended.
    pub(super) fn pump_news(&mut self) {
        while let Some(target) = self.waiting.news.pop_front() {
            self.wake_dependents(target);
        }
    }

    /// A job that waited for this one goes on, or never will.
    fn wake_dependents(&mut self, target: JobId) {
        let Some(dependents) = self.waiting.by_target.remove(&target) else { return };
        let Some(job) = self.table.get(target) else { return };
        let (started, outcome) = (job.started, job.outcome());
        let mut still = Vec::new();
        for (id, condition) in dependents {
            let dependency = Dependency::Job(condition, target);
            match condition.met(started, outcome) {
                None => still.push((id, condition)),
                Some(true) => self.remove_dependency(id, dependency),
                Some(false) => {
                    let note = format!("dependency {} can never be satisfied", dependency.description());
                    if self.table.active(id).is_some_and(|job| job.state == State::Depend) {
                        self.raise(id, "dependency", 0, self.owner, &note);
                    }
                }
            }
        }
        if !still.is_empty() {
            self.waiting.by_target.entry(target).or_default().append(&mut still);
        }
    }

    /// After a restart: waiting jobs wait again, for dependencies that are not met.
    pub(super) fn restore_waiting(&mut self, id: JobId) {
        let Some(job) = self.table.get(id).filter(|job| job.state == State::Depend) else { return };
        let (spec, waits) = (std::sync::Arc::clone(&job.spec), job.waits.clone());
        for dependency in spec.dependencies.iter().filter(|d| waits.contains(&d.description())) {
            self.wait_for(id, *dependency);
            if let Dependency::Job(_, target) = dependency {
                self.spread_news(*target);
            }
        }
    }
}
