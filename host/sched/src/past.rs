//! A scheduler of the past: answers about an engine as a journal has it at some time, in the words of the scheduler that wrote it.
//!
//! Where the job manager and the resource service answer about the present, the engine answers here, as far as it knows. A question
//! that a journal cannot answer is refused with the reason. Counters are left out: an engine that was resumed counts anew.
//!
//! Must never know journals, and must never change anything.

use std::time::Duration;

use anyhow::{Result, anyhow, bail};
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

/// A scheduler of the past, which answers questions and changes nothing; see the module.
#[derive(Debug)]
pub struct Past {
    engine: Engine,
    now: f64,
    asker: Asker,
}

/// The user who looks at the past, and the rights of that user in the instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Viewer {
    /// User id.
    pub userid: u32,
    /// True for the owner of the instance and for an administrator, who see all jobs.
    pub admin: bool,
    /// True if guests see their own jobs alone (`access.private-mode`).
    pub private: bool,
}

impl Past {
    /// The scheduler that had this engine at the time `now`, in seconds since the epoch, as it answers this viewer.
    pub fn new(engine: Engine, now: f64, viewer: Viewer) -> Past {
        let Viewer { userid, admin, private } = viewer;
        Past { engine, now, asker: Asker { userid, admin, private } }
    }

    /// The answer of the method `topic` to this payload; `spent` tells the time that it has taken so far.
    ///
    /// # Errors
    /// The reason, in words, for which there is none: the topic or payload is not accepted, or a journal does not have the answer.
    pub fn answer(&self, topic: &str, payload: &Value, spent: &dyn Fn() -> Duration) -> Result<Value> {
        let engine = &self.engine;
        Ok(match topic {
            "fluxgate-instance.info" => json!({"now": self.now}),
            "sched-fluxgate.stats-get" => self.stats(),
            "sched-fluxgate.metrics-get" => json!({"metrics": metrics::page_at(engine, self.now)}),
            "sched-fluxgate.reservation-list" => {
                let rows = reservations::rows(engine, self.now, &self.asker, None)?;
                json!({"version": 1, "now": self.now, "reservations": rows})
            }
            "sched-fluxgate.levels" => answers::levels(engine),
            "resource.sched-status" => answers::resources(engine),
            "resource.status" => bail!("why nodes were out is not in a journal"),
            "job-list.list" => self.list(payload)?,
            "job-list.list-id" => self.job(payload["id"].as_u64().map(JobId))?,
            "job-info.lookup" => bail!("events of jobs are not in a journal"),
            _ => match topic.strip_prefix("sched-fluxgate.") {
                Some(method @ ("explain" | "when" | "gaps" | "order" | "node")) => {
                    self.question(method, payload, spent)?
                }
                Some(method) if method.starts_with("policy-") => {
                    bail!("which policies were loaded is not in a journal")
                }
                _ => bail!("{topic}: not in a journal"),
            },
        })
    }

    fn question(&self, method: &str, payload: &Value, spent: &dyn Fn() -> Duration) -> Result<Value> {
        let tables = FluxTables::default();
        if !payload["policy"].is_null() {
            bail!("policy: no other policy answers about the past");
        }
        let what = Question::read(method, payload, &tables)?;
        let (job, queues) = what.about();
        let about = About { jobs_max: FORECAST_JOBS_MAX, job, queues: &queues, trials: false };
        let mut of = self.engine.questions(self.now, &about);
        let found = what.answer(&mut of, &self.asker, spent)?;
        let times = Times { forecasts: &Forecasts::default(), annotated: false, tables: &tables };
        Ok(found.told(&of, &self.asker, times))
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

    /// Running jobs, ascending by id.
    fn list(&self, payload: &Value) -> Result<Value> {
        if payload["constraint"]["states"][0].as_u64() == Some(INACTIVE) {
            bail!("which jobs had ended by then is not in a journal");
        }
        let most = payload["max_entries"].as_u64().and_then(|most| usize::try_from(most).ok());
        let seen = self.engine.running_jobs().filter(|job| self.asker.sees(job.userid));
        let jobs = seen.take(most.unwrap_or(usize::MAX));
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
        let gone =
            || anyhow!("job {id} neither waited nor ran then; whether it had ended is not in a journal");
        if let Some(job) = self.engine.running_jobs().find(|job| job.id == id) {
            // A job that may not be seen is answered as one that is not there.
            if !self.asker.sees(job.userid) {
                return Err(gone());
            }
            return Ok(json!({"job": self.running(&job)}));
        }
        let about = About { job: Some(id), ..About::default() };
        let row = self.engine.questions(self.now, &about).row(id);
        let row = row.filter(|row| self.asker.sees(Some(row.userid))).ok_or_else(gone)?;
        Ok(json!({"job": {
            "id": id.0, "userid": row.userid, "queue": row.queue, "priority": row.priority, "state": SCHED,
            "t_submit": row.t_submit, "duration": if row.duration.is_finite() { row.duration } else { 0.0 },
            "nnodes": (row.nodes > 0).then_some(row.nodes), "ncores": row.cores,
        }}))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fluxgate_engine::{Config, Event};
    use fluxgate_formats::R;
    use fluxgate_formats::jobspec::Simple;
    use fluxgate_graph::Resources;

    use super::*;

    /// Jobs of the users 5 and 6: one of each runs, one of each waits.
    fn engine() -> Engine {
        let r = json!({"version": 1, "execution": {"R_lite": [{"rank": "0-1", "children": {"core": "0"}}],
            "starttime": 0.0, "expiration": 0.0, "nodelist": ["n[0-1]"]}});
        let mut resources = Resources::from_r(&R::from_value(&r).unwrap()).unwrap();
        resources.set_up(&"0-1".parse().unwrap());
        let mut engine = Engine::new(resources, Config::default());
        for (id, userid) in [(1, 5), (2, 6), (3, 5), (4, 6)] {
            let job = Simple { slots: 1, duration: 60.0, command: vec!["a".into()], ..Simple::default() };
            let (id, jobspec) = (JobId(id), Arc::new(job.build()));
            engine.step(Event::Alloc { id, priority: 16, userid, t_submit: id.0 as f64, jobspec }, 10.0);
        }
        engine.pass(10.0);
        assert_eq!((engine.running(), engine.pending()), (2, 2));
        engine
    }

    #[test]
    fn feat_66_69_guests_are_told_of_the_past_what_they_would_have_been_told_then() {
        let told = |viewer: Viewer| {
            let past = Past::new(engine(), 20.0, viewer);
            let ids = |answer: Value| -> Vec<u64> {
                answer["jobs"].as_array().unwrap().iter().filter_map(|job| job["id"].as_u64()).collect()
            };
            let running = ids(past
                .answer("job-list.list", &json!({"constraint": {"states": [48]}}), &|| Duration::ZERO)
                .unwrap());
            let waiting = ids(past
                .answer("sched-fluxgate.order", &json!({"queue": null}), &|| Duration::ZERO)
                .unwrap());
            let of = |topic: &str| {
                [2, 4].map(|id| past.answer(topic, &json!({ "id": id }), &|| Duration::ZERO).is_ok())
            };
            (running, waiting, of("job-list.list-id"), of("sched-fluxgate.explain"))
        };
        let guest = Viewer { userid: 5, admin: false, private: true };
        assert_eq!(told(guest), (vec![1], vec![3], [false, false], [false, false]));
        let open = Viewer { private: false, ..guest };
        assert_eq!(told(open), (vec![1, 2], vec![3, 4], [true, true], [false, false]));
        let owner = Viewer { admin: true, ..guest };
        assert_eq!(told(owner), (vec![1, 2], vec![3, 4], [true, true], [true, true]));
    }
}
