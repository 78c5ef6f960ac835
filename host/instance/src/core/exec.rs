//! Running jobs: simulated ones on the clock, real ones by effects; time limits; and the release of resources after the
//! end of a job.
//!
//! A job is started once: `start` is posted before any process runs, and effects are carried out only after the event
//! is committed. A job with `start` in its log is never started again.

use fluxgate_formats::{Idset, JobId, R};
use serde_json::{Value, json};

use super::jobs::context;
use super::{Core, Timer};
use crate::effect::{Effect, Launch};
use crate::job::{Job, State};
use crate::limits::{KILL_TIMEOUT, TASKS_MAX};
use crate::spec::Work;

/// A simulated job that ends within this many seconds of its limit is not killed: the two times are sums of the same
/// numbers in another order.
const LIMIT_SLACK: f64 = 1e-3;

/// Number of SIGALRM, which flux-core sends first when the time is up.
const SIGALRM: i32 = 14;
/// Number of SIGTERM.
const SIGTERM: i32 = 15;
/// Number of SIGKILL.
const SIGKILL: i32 = 9;

/// Resources of an ended job that are not all released.
#[derive(Debug, Clone)]
pub(super) struct Housekept {
    pub(super) priority: u32,
    pub(super) userid: u32,
    pub(super) t_submit: f64,
    pub(super) r: R,
    /// Ranks that are not released to the scheduler yet.
    pub(super) held: Idset,
}

impl Core {
    /// Starts a job that got its resources.
    pub(super) fn start(&mut self, id: JobId) {
        let Some(work) = self.table.get(id).map(|job| job.spec.work) else { return };
        match work {
            Work::Simulated { duration, .. } => {
                self.change(id, |job| job.exec.active = true);
                self.post(id, "start", None);
                let finish = self.timers.set(self.now + duration, Timer::Finish(id));
                self.change(id, |job| job.exec.finish = Some(finish));
                self.arm_limit(id);
            }
            Work::Process => match self.table.get(id).and_then(launch) {
                Some(Ok(launch)) => {
                    let tasks = launch.ntasks;
                    self.change(id, |job| {
                        job.exec.active = true;
                        job.exec.running_tasks = tasks;
                    });
                    self.post(id, "start", None);
                    self.arm_limit(id);
                    self.effects.push(Effect::Spawn(Box::new(launch)));
                }
                Some(Err(note)) => self.raise(id, "exec", 0, self.owner, &note),
                None => {}
            },
        }
    }

    /// Resumes a job that was started before a restart of the instance.
    pub(super) fn resume(&mut self, id: JobId) {
        let Some(job) = self.table.get(id) else { return };
        let (work, t_start) = (job.spec.work, job.times.start);
        self.change(id, |job| job.exec.active = true);
        match work {
            Work::Simulated { duration, .. } => {
                let finish = self.timers.set(t_start + duration, Timer::Finish(id));
                self.change(id, |job| job.exec.finish = Some(finish));
            }
            Work::Process => {
                self.change(id, |job| job.exec.running_tasks = 1);
                self.effects.push(Effect::Reattach { id });
            }
        }
        self.arm_limit(id);
    }

    /// Sets the timer for the time limit. As in flux-core, the delay between the creation of R and the start does not
    /// reduce the job's time.
    pub(super) fn arm_limit(&mut self, id: JobId) {
        let Some(job) = self.table.get(id) else { return };
        let Some(grant) = &job.grant else { return };
        if let Some(old) = job.exec.expire {
            self.timers.cancel(old);
        }
        let (begin, end) = (grant.r.starttime, grant.r.expiration);
        let start = job.times.start;
        let mut due = if begin > 0.0 { start + (end - begin) } else { end };
        if let Some(finish) = job.exec.finish.map(|key| key.time())
            && (finish - due).abs() < LIMIT_SLACK
        {
            due = due.max(finish);
        }
        let expire = (end > 0.0).then(|| self.timers.set(due, Timer::Expire(id)));
        self.change(id, |job| job.exec.expire = expire);
    }

    /// A simulated job reached its end.
    pub(super) fn simulated_end(&mut self, id: JobId) {
        let Some(job) = self.table.get(id) else { return };
        if let (true, Work::Simulated { status, .. }) = (job.exec.active, job.spec.work) {
            self.finished(id, status);
        }
    }

    /// A job reached its time limit.
    pub(super) fn expired(&mut self, id: JobId) {
        if self.table.get(id).is_some_and(|job| job.exec.active && job.state == State::Run) {
            self.raise(id, "timeout", 0, self.owner, "resource allocation expired");
        }
    }

    /// An exception was posted: a fatal one ends the job's processes.
    pub(super) fn exception_hits(&mut self, id: JobId) {
        let Some(job) = self.table.get(id) else { return };
        if !job.exec.active || job.state != State::Cleanup {
            return;
        }
        let timeout = job.exception.as_ref().is_some_and(|e| e.kind == "timeout");
        let signal = if timeout { SIGALRM } else { SIGTERM };
        match job.spec.work {
            Work::Simulated { .. } => self.finished(id, signal.into()),
            // A job without processes needs no signal.
            Work::Process if job.exec.kill.is_none() && !job.exec.lost => {
                let real = KILL_TIMEOUT.as_secs_f64() * self.config.speed;
                let kill = self.timers.set(self.now + real, Timer::Kill(id));
                self.change(id, |job| job.exec.kill = Some(kill));
                self.effects.push(Effect::Signal { id, signal });
            }
            Work::Process => {}
        }
    }

    /// The processes did not end after the first signal.
    pub(super) fn kill_hard(&mut self, id: JobId) {
        if self.table.get(id).is_some_and(|job| job.exec.active) {
            self.effects.push(Effect::Signal { id, signal: SIGKILL });
        }
    }

    /// Sends a signal to the job's processes, for `job-manager.kill`.
    pub(super) fn signal(&mut self, id: JobId, signal: i32) {
        let Some(job) = self.table.get(id) else { return };
        if !job.exec.active {
            return;
        }
        match job.spec.work {
            Work::Simulated { .. } => self.finished(id, signal.into()),
            Work::Process => self.effects.push(Effect::Signal { id, signal }),
        }
    }

    /// A real process has ended with this wait status.
    pub(crate) fn task_exited(&mut self, id: JobId, status: i64) {
        let Some(job) = self.table.active(id).filter(|job| job.exec.active) else { return };
        let last = job.exec.running_tasks <= 1;
        let worst = job.exec.status.max(status);
        self.change(id, |job| {
            job.exec.running_tasks = job.exec.running_tasks.saturating_sub(1);
            job.exec.status = worst;
        });
        if last {
            self.finished(id, worst);
        }
    }

    /// Processes of a job could not be started, or were lost; `status` is that of the job then.
    pub(crate) fn task_failed(&mut self, id: JobId, note: &str, status: i64) {
        if !self.table.active(id).is_some_and(|job| job.exec.active) {
            return;
        }
        let running = self.change(id, |job| {
            (job.exec.running_tasks, job.exec.lost) = (0, true);
            job.state == State::Run
        });
        if running == Some(true) {
            self.raise(id, "exec", 0, self.owner, note);
        }
        self.finished(id, status);
    }

    /// True if processes of the job run, real or simulated.
    pub(crate) fn executes(&self, id: JobId) -> bool {
        self.table.active(id).is_some_and(|job| job.exec.active)
    }

    /// The job's processes have ended.
    fn finished(&mut self, id: JobId, status: i64) {
        let Some(keys) =
            self.change(id, |job| [job.exec.finish.take(), job.exec.expire.take(), job.exec.kill.take()])
        else {
            return;
        };
        for key in keys.into_iter().flatten() {
            self.timers.cancel(key);
        }
        self.post(id, "finish", context(json!({ "status": status })));
        self.post(id, "release", context(json!({ "ranks": "all", "final": true })));
        self.change(id, |job| job.exec.active = false);
        self.act(id);
    }

    /// Releases the resources of a job, at once or through housekeeping.
    pub(super) fn release(&mut self, id: JobId) {
        let Some(job) = self.table.get(id) else { return };
        let Some(grant) = job.grant.clone() else { return };
        let Some(rules) = self.config.housekeeping else {
            return self.send_free(id, &grant.value, true);
        };
        let ranks = grant.r.ranks();
        let kept = Housekept {
            priority: job.priority,
            userid: job.userid,
            t_submit: job.times.submit,
            r: grant.r,
            held: ranks.clone(),
        };
        self.housekeeping.insert(id, kept);
        let when = |index: usize| self.now + rules.seconds + rules.stagger * index as f64;
        if rules.partial {
            let due: Vec<(f64, u32)> = ranks.iter().enumerate().map(|(i, rank)| (when(i), rank)).collect();
            for (time, rank) in due {
                self.timers.set(time, Timer::Housekeeping(id, Some(rank)));
            }
        } else {
            let last = when((ranks.len() as usize).saturating_sub(1));
            self.timers.set(last, Timer::Housekeeping(id, None));
        }
    }

    /// Housekeeping of one rank, or of all, is complete.
    pub(super) fn housekeeping_done(&mut self, id: JobId, rank: Option<u32>) {
        let Some(kept) = self.housekeeping.get_mut(&id) else { return };
        let done = match rank {
            Some(rank) => Idset::from(rank).intersection(&kept.held),
            None => kept.held.clone(),
        };
        if done.is_empty() {
            return;
        }
        kept.held = kept.held.difference(&done);
        let last = kept.held.is_empty();
        let mut part = kept.r.subset(&done);
        // As flux-core does for resources after housekeeping.
        (part.starttime, part.expiration) = (0.0, 0.0);
        if last {
            self.housekeeping.remove(&id);
        }
        self.send_free(id, &part.to_value(), last);
    }

    /// Cancels jobs with real processes, because the instance ends.
    pub(super) fn stop_processes(&mut self) {
        let real = |job: &&Job| job.exec.active && job.spec.work == Work::Process;
        let ids: Vec<JobId> = self.table.running().filter(real).map(|job| job.id).collect();
        for id in ids {
            self.raise(id, "cancel", 0, self.owner, "the instance was shut down");
        }
    }
}

fn launch(job: &Job) -> Option<Result<Launch, String>> {
    let grant = job.grant.as_ref()?;
    let spec = job.spec.value();
    let command: Vec<String> = match spec.pointer("/tasks/0/command") {
        Some(Value::Array(words)) => words.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Some(Value::String(word)) => vec![word.clone()],
        _ => Vec::new(),
    };
    if command.is_empty() {
        return Some(Err("the jobspec has no command".to_owned()));
    }
    let ntasks = job.spec.ntasks.max(1);
    if ntasks > TASKS_MAX {
        return Some(Err(format!("{ntasks} tasks, but at most {TASKS_MAX} real processes are started")));
    }
    let environment = match spec.pointer("/attributes/system/environment") {
        Some(Value::Object(map)) => {
            map.iter().filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
        }
        _ => Vec::new(),
    };
    Some(Ok(Launch {
        id: job.id,
        command,
        environment,
        cwd: job.spec.cwd.clone(),
        ntasks,
        nnodes: grant.r.ranks().len(),
    }))
}
