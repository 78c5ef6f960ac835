//! A scheduler of the past: answers about an engine as a journal has it at some time, in the words of the scheduler that wrote it.
//!
//! Where the job manager and the resource service answer about the present, the engine answers here, as far as it knows. What a
//! journal does not have is refused with the reason, and counters are left out: an engine that was resumed counts anew.
//!
//! Must never know journals, and must never change anything.

use std::time::Duration;

use anyhow::{Result, bail};
use fluxgate_engine::{About, Engine, FORECAST_JOBS_MAX, RunningJob};
use fluxgate_formats::{Hostlist, JobId};
use serde_json::{Value, json};

use crate::answers::{self, Asker};
use crate::forecasts::Forecasts;
use crate::service::questions::{Question, Times};
use crate::service::{metrics, reservations};
use crate::settings::FluxTables;

/// States of RFC 21: a job that waits for resources, and one that runs.
const SCHED: u64 = 8;
const RUN: u64 = 16;
/// States of jobs that have ended.
const INACTIVE: u64 = 64;

/// See the module text.
#[derive(Debug)]
pub struct Past {
    engine: Engine,
    now: f64,
}

impl Past {
    /// The scheduler that had this engine at this time, seconds since the epoch.
    pub fn new(engine: Engine, now: f64) -> Past {
        Past { engine, now }
    }

    /// The answer of `topic` to this payload.
    ///
    /// # Errors
    /// The reason why there is none, for people.
    pub fn answer(&self, topic: &str, payload: &Value) -> Result<Value> {
        let engine = &self.engine;
        Ok(match topic {
            "fluxgate-instance.info" => json!({"now": self.now}),
            "sched-fluxgate.stats-get" => self.stats(),
            "sched-fluxgate.metrics-get" => json!({"metrics": metrics::page_at(engine, self.now)}),
            "sched-fluxgate.reservation-list" => {
                let rows = reservations::rows(engine, self.now, &ASKER, None)?;
                json!({"version": 1, "now": self.now, "reservations": rows})
            }
            "resource.sched-status" => answers::resources(engine),
            "resource.status" => bail!("why nodes were out is not in a journal"),
            "job-list.list" => self.list(payload)?,
            "job-list.list-id" => self.job(payload["id"].as_u64().map(JobId))?,
            "job-info.lookup" => bail!("events of jobs are not in a journal"),
            _ => match topic.strip_prefix("sched-fluxgate.") {
                Some(method @ ("explain" | "when" | "gaps" | "order" | "node")) => {
                    self.question(method, payload)?
                }
                Some(method) if method.starts_with("policy-") => {
                    bail!("which policies were loaded is not in a journal")
                }
                _ => bail!("{topic}: not in a journal"),
            },
        })
    }

    fn question(&self, method: &str, payload: &Value) -> Result<Value> {
        let tables = FluxTables::default();
        if !payload["policy"].is_null() {
            bail!("policy: no other policy answers about the past");
        }
        let what = Question::read(method, payload, &tables)?;
        let (job, queues) = what.about();
        let about = About { jobs_max: FORECAST_JOBS_MAX, job, queues: &queues, trials: false };
        let mut of = self.engine.questions(self.now, &about);
        let found = what.answer(&mut of, &ASKER, &|| Duration::ZERO)?;
        let times = Times { forecasts: &Forecasts::default(), annotated: false, tables: &tables };
        Ok(found.told(&of, &ASKER, times))
    }

    fn stats(&self) -> Value {
        let engine = &self.engine;
        json!({
            "ready": true,
            "policy": engine.policy_name(),
            "swap": engine.swap_state().map(|s| json!({"to": s.to, "keyed": s.keyed})),
            "queues": engine.queues().map(|queue| answers::queue(&queue)).collect::<Vec<_>>(),
            "pending": engine.pending(),
            "running": engine.running(),
            "resources": answers::totals(engine),
            "containment": {"held": engine.suspended_by()},
        })
    }

    /// Jobs that run, first ones first.
    fn list(&self, payload: &Value) -> Result<Value> {
        if payload["constraint"]["states"][0].as_u64() == Some(INACTIVE) {
            bail!("which jobs had ended by then is not in a journal");
        }
        let most = payload["max_entries"].as_u64().and_then(|most| usize::try_from(most).ok());
        let jobs = self.engine.running_jobs().take(most.unwrap_or(usize::MAX));
        Ok(json!({"jobs": jobs.map(|job| self.running(&job)).collect::<Vec<_>>()}))
    }

    /// A job that runs, in the words of job-list (RFC 43). Its name and its submission are not known any more.
    fn running(&self, job: &RunningJob<'_>) -> Value {
        let r = self.engine.resources().allocation_r(job.id).unwrap_or_default();
        let ranks = r.ranks();
        let cores = r.r_lite.iter().map(|part| {
            let each = part.children.get("core").map_or(0, |ids| ids.len());
            each * part.rank.len()
        });
        let limit = job.end.is_finite();
        json!({
            "id": job.id.0, "userid": job.userid, "queue": job.queue, "state": RUN, "t_run": job.start,
            "nnodes": ranks.len(), "ncores": cores.sum::<u64>(), "ranks": ranks.to_string(),
            "nodelist": self.engine.resources().hosts_of(&ranks).into_iter().collect::<Hostlist>().to_string(),
            "expiration": if limit { job.end } else { 0.0 }, "duration": if limit { job.end - job.start } else { 0.0 },
        })
    }

    fn job(&self, id: Option<JobId>) -> Result<Value> {
        let Some(id) = id else { bail!("id: expected a job id") };
        if let Some(job) = self.engine.running_jobs().find(|job| job.id == id) {
            return Ok(json!({"job": self.running(&job)}));
        }
        let about = About { job: Some(id), ..About::default() };
        let Some(row) = self.engine.questions(self.now, &about).row(id) else {
            bail!("job {id} neither waited nor ran then; whether it had ended is not in a journal");
        };
        Ok(json!({"job": {
            "id": id.0, "userid": row.userid, "queue": row.queue, "priority": row.priority, "state": SCHED,
            "t_submit": row.t_submit, "duration": if row.duration.is_finite() { row.duration } else { 0.0 },
            "nnodes": (row.nodes > 0).then_some(row.nodes), "ncores": row.cores,
        }}))
    }
}

/// Who may read a journal may know all that is in it.
const ASKER: Asker = Asker { userid: 0, admin: true, private: false };
