//! Questions of people about jobs, queues and nodes: `explain`, `when`, `gaps`, `order` and `node`.
//!
//! They are answered on a copy, as work of its own, when no pass is due: an answer is about a state in which every job that
//! could start has started. Guests may ask about their own jobs, and ask questions that tell no more of the jobs of others
//! than Flux does. Times of waiting jobs are those that jobs are annotated with: if the forecast of an answer
//! moved, the jobs are told first.
//!
//! The copy is made in the service's own turn. Questions of guests are answered one at a time, so that no turn makes more than one
//! copy for them.
//!
//! Must never let anything of it reach the engine.

use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use fluxgate_engine::{
    About, Expected, Explanation, FORECAST_JOBS_MAX, GapQuestion, JobRow, Questions, Source, WhenAnswer,
};
use fluxgate_formats::constraint::Constraint;
use fluxgate_formats::{JobId, Jobspec};
use fluxgate_wire::proto::errno;
use fluxgate_wire::session::ControlRequest;
use serde_json::{Value, json};

use super::Service;
use super::control::Answer;
use super::other_policies::Other;
use crate::answers::{self, Asker};
use crate::forecasts::Forecasts;
use crate::settings::FluxTables;

/// Most questions that wait at a time.
const WAITING_MAX: usize = 64;
/// Most questions of one guest that wait at a time.
const GUEST_WAITING_MAX: usize = 8;
/// Most jobs that one question thinks of.
const VARIANTS_MAX: usize = 16;

/// Most time that the answers about the jobs of one question take; then it ends with an error.
const TIME_MAX: Duration = Duration::from_secs(1);
/// Longest time into a question until which expected starts of waiting jobs are looked for; the jobs after that have none in its
/// answer.
const EXPECTED_MAX: Duration = Duration::from_millis(500);

/// A question that waits for its answer.
pub(super) struct Asked {
    pub(super) request: ControlRequest,
    pub(super) asker: Asker,
    pub(super) what: Question,
}

impl Asked {
    /// The same under another policy.
    pub(super) fn under(mut self, policy: Other) -> Asked {
        if let Question::When { other, .. } = &mut self.what {
            *other = Some(policy);
        }
        self
    }

    fn is_under_other(&self) -> bool {
        matches!(self.what, Question::When { other: Some(_), .. })
    }
}

pub(crate) enum Question {
    /// A job: why it waits, its nodes, and what changes of it would give, each with a name.
    Job {
        id: JobId,
        nodes: bool,
        changes: Vec<(String, Jobspec)>,
    },
    /// The starts of jobs that are not submitted.
    When {
        jobs: Vec<Jobspec>,
        priority: Option<u32>,
        /// Under this policy, not under the one that decides.
        other: Option<Other>,
    },
    Gaps(GapQuestion),
    /// The jobs of a queue, or of all, in order.
    Order(Option<String>),
    /// A node by its host or rank.
    Node(String),
}

/// An answer without the times of waiting jobs.
pub(crate) enum Found {
    Job(JobId, Box<Explanation>, Value, Vec<(String, WhenAnswer)>),
    Rows(Vec<JobRow>),
    Done(Value),
}

fn jobspec(value: &Value) -> Result<Jobspec> {
    Ok(Jobspec::from_value(value)?)
}

/// Checks the time that the answers about the first `done` of `of` jobs have taken.
///
/// # Errors
/// It is too long.
pub(super) fn in_time(done: usize, of: usize, spent: Duration) -> Result<()> {
    if spent >= TIME_MAX {
        bail!("{done} of {of} answers took a second; ask about fewer jobs");
    }
    Ok(())
}

impl Question {
    pub(crate) fn read(method: &str, payload: &Value, tables: &FluxTables) -> Result<Question> {
        let list = |key: &str| -> Result<Vec<Value>> {
            let list = match &payload[key] {
                Value::Null => Vec::new(),
                Value::Array(list) => list.clone(),
                _ => bail!("{key}: expected a list"),
            };
            if list.len() > VARIANTS_MAX {
                bail!("{key}: found {}, at most {VARIANTS_MAX} are accepted", list.len());
            }
            Ok(list)
        };
        let queue = match &payload["queue"] {
            Value::Null => None,
            Value::String(queue) => Some(queue.clone()),
            _ => bail!("queue: expected the name of a queue"),
        };
        Ok(match method {
            "explain" => {
                let id = payload["id"].as_u64().map(JobId).ok_or_else(|| anyhow!("id: expected a job id"))?;
                let change = |row: &Value| -> Result<(String, Jobspec)> {
                    let name = row["name"].as_str().ok_or_else(|| anyhow!("changes: expected a name"))?;
                    Ok((name.to_owned(), jobspec(&row["jobspec"]).context("changes: jobspec")?))
                };
                let mut changes: Vec<_> = list("changes")?.iter().map(change).collect::<Result<_>>()?;
                let asked = &payload["queues"];
                if !asked.is_null() {
                    let own = jobspec(&asked["jobspec"]).context("queues: jobspec")?;
                    let names =
                        asked["names"].as_array().ok_or_else(|| anyhow!("queues: names: expected a list"))?;
                    let names = names.iter().filter_map(Value::as_str);
                    let moved =
                        names.filter_map(|name| Some((format!("-q {name}"), tables.moved(&own, name)?)));
                    changes.extend(moved.take(VARIANTS_MAX.saturating_sub(changes.len())));
                }
                Question::Job { id, nodes: payload["nodes"].as_bool() == Some(true), changes }
            }
            "when" => {
                let read = |value: &Value| -> Result<Jobspec> {
                    let mut job = jobspec(value).context("jobs")?;
                    tables.complete(&mut job);
                    Ok(job)
                };
                let jobs = list("jobs")?.iter().map(read).collect::<Result<Vec<_>>>()?;
                if jobs.is_empty() {
                    bail!("jobs: expected at least one jobspec");
                }
                let priority = match &payload["priority"] {
                    Value::Null => None,
                    value => {
                        let priority = value.as_u64().and_then(|value| u32::try_from(value).ok());
                        Some(priority.ok_or_else(|| anyhow!("priority: expected an integer of 32 bits"))?)
                    }
                };
                Question::When { jobs, priority, other: None }
            }
            "gaps" => {
                let queue = queue.or_else(|| tables.default_queue.clone()).unwrap_or_default();
                let own = match &payload["constraint"] {
                    Value::Null => Constraint::All,
                    value => Constraint::from_value(value)?,
                };
                let constraint = own.and(tables.constraint(&queue));
                Question::Gaps(GapQuestion {
                    queue,
                    constraint,
                    cores: payload["cores"].as_bool() == Some(true),
                })
            }
            "order" => Question::Order(queue),
            _ => {
                let node =
                    payload["node"].as_str().ok_or_else(|| anyhow!("node: expected a host or a rank"))?;
                Question::Node(node.to_owned())
            }
        })
    }

    /// The job, and the queues, that the copy has to know.
    pub(crate) fn about(&self) -> (Option<JobId>, Vec<&str>) {
        match self {
            Question::Job { id, changes, .. } => {
                (Some(*id), changes.iter().map(|(_, job)| job.queue().unwrap_or("")).collect())
            }
            Question::When { jobs, .. } => (None, jobs.iter().map(|job| job.queue().unwrap_or("")).collect()),
            Question::Gaps(question) => (None, vec![question.queue.as_str()]),
            Question::Order(_) | Question::Node(_) => (None, Vec::new()),
        }
    }

    /// The answer; `spent` tells how long it has taken so far. Waiting jobs that are reached after [`EXPECTED_MAX`] are told without
    /// expected starts.
    pub(crate) fn answer(
        self,
        of: &mut Questions,
        asker: &Asker,
        spent: &dyn Fn() -> Duration,
    ) -> Result<Found> {
        let enough = &mut || spent() > EXPECTED_MAX;
        match self {
            Question::Job { id, nodes, changes } => {
                let unknown = || match asker.admin {
                    true => anyhow!("job {id}: the scheduler does not know it; it neither waits nor runs"),
                    false => anyhow!("job {id}: the scheduler knows no such job of yours"),
                };
                if !of.user_of(id).is_some_and(|user| asker.owns(user)) {
                    return Err(unknown());
                }
                of.expected_until(enough);
                let why = of.explain(id).ok_or_else(unknown)?;
                let tests = of.node_tests(id).filter(|_| nodes);
                let tests = tests.map_or(Value::Null, |tests| answers::node_tests(of, asker, &tests));
                let try_out =
                    |(name, job): (String, Jobspec)| Some((name, of.instead(id, &job, enough).ok()?));
                let helps = changes.into_iter().filter_map(try_out).collect();
                Ok(Found::Job(id, Box::new(why), tests, helps))
            }
            Question::When { jobs, priority, other: Some(other) } => {
                Ok(Found::Done(other.when(of, asker, (&jobs, priority), spent, enough)?))
            }
            Question::When { jobs, priority, other: None } => {
                let (priority, source) = of.priority(asker.userid, priority);
                let (mut rows, most) = (Vec::new(), jobs.len());
                for job in jobs {
                    in_time(rows.len(), most, spent())?;
                    rows.push(match of.when(&job, asker.userid, priority, enough) {
                        Ok(when) => answers::when(of, asker, &when),
                        Err(never) => json!({"never": never.to_string()}),
                    });
                }
                Ok(Found::Done(json!({
                    "as_of": of.now(), "priority": priority, "priority_from": source.name(), "jobs": rows,
                })))
            }
            Question::Gaps(question) => {
                let gaps = of.gaps(&question)?;
                let rows: Vec<Value> = gaps.gaps.iter().map(|gap| answers::gap(of, asker, gap)).collect();
                Ok(Found::Done(
                    json!({"as_of": of.now(), "queue": question.queue, "gaps": rows, "none": gaps.none}),
                ))
            }
            Question::Order(queue) => {
                of.expected_until(enough);
                Ok(Found::Rows(of.rows(queue.as_deref())))
            }
            Question::Node(node) => {
                let rank = of.rank_of(&node).or_else(|| node.parse().ok());
                let found = rank.and_then(|rank| of.node(rank));
                let found = found.ok_or_else(|| anyhow!("node {node:?}: no such host or rank"))?;
                Ok(Found::Done(answers::node(of, asker, &found)))
            }
        }
    }
}

/// The sources of the times of waiting jobs.
#[derive(Clone, Copy)]
pub(crate) struct Times<'a> {
    pub(crate) forecasts: &'a Forecasts,
    /// Jobs are annotated with forecasts.
    pub(crate) annotated: bool,
    pub(crate) tables: &'a FluxTables,
}

impl Found {
    /// The answer with the times of waiting jobs.
    pub(crate) fn told(self, of: &Questions, asker: &Asker, times: Times<'_>) -> Value {
        let Times { forecasts, annotated, tables } = times;
        match self {
            Found::Done(value) => value,
            Found::Rows(rows) => {
                let rows = rows.into_iter().filter(|row| asker.sees(Some(row.userid))).map(|mut row| {
                    row.expected = settled(forecasts, annotated, row.expected);
                    answers::row(of, asker, &row)
                });
                let rows: Vec<Value> = rows.collect();
                json!({"as_of": of.now(), "complete": of.is_complete(), "jobs": rows})
            }
            Found::Job(id, mut why, nodes, changes) => {
                why.expected = why.expected.map(|expected| settled(forecasts, annotated, expected));
                let start = why.expected.and_then(|expected| expected.start);
                why.earliest =
                    why.earliest.map(|earliest| start.map_or(earliest, |start| earliest.min(start)));
                let mut answer = answers::job(of, asker, id, &why);
                let taken = |(name, when): &&(String, WhenAnswer)| {
                    let queue = name.strip_prefix("-q ");
                    queue.is_none_or(|queue| tables.takes(queue, when.nodes, when.cores, when.duration))
                };
                let useful = changes.iter().filter(|(_, when)| helps(of.now(), start, when)).filter(taken);
                answer["helps"] = useful
                    .map(|(name, when)| {
                        let mut row = answers::when(of, asker, when);
                        row["change"] = name.as_str().into();
                        row
                    })
                    .collect();
                answer["range"] =
                    json!(why.expected.and_then(|expected| forecasts.range(of.now(), &expected)));
                answer["nodes"] = nodes;
                answer
            }
        }
    }
}

/// The time that is told of a waiting job.
fn settled(forecasts: &Forecasts, annotated: bool, expected: Expected) -> Expected {
    match (annotated, expected.source, forecasts.start(expected.id)) {
        (true, Source::Forecast | Source::Unsearched, Some(start)) => {
            Expected { start: Some(start), source: Source::Forecast, ..expected }
        }
        _ => expected,
    }
}

/// Is it worth telling that a job would start then instead?
fn helps(now: f64, start: Option<f64>, instead: &WhenAnswer) -> bool {
    let Some(other) = instead.expected.start else { return false };
    start.is_none_or(|start| start - other > 60.0_f64.max(0.1 * (start - now)))
}

impl Service {
    /// Note a question; it is answered when no pass is due.
    pub(super) fn ask(&mut self, request: &ControlRequest) -> Result<Answer> {
        if self.engine.is_none() {
            bail!("the scheduler is still starting");
        }
        if self.asked.len() >= WAITING_MAX {
            bail!("more than {WAITING_MAX} questions wait already");
        }
        let tables = &self.configuration.settings.flux;
        let message = &request.message;
        let (userid, admin) = (message.userid, message.is_from_admin());
        let own = self.asked.iter().filter(|asked| asked.asker.userid == userid).count();
        if !admin && own >= GUEST_WAITING_MAX {
            bail!("{GUEST_WAITING_MAX} questions of user {userid} wait already");
        }
        let asker = Asker { userid, admin, private: tables.private_mode };
        let what = Question::read(request.method(), &request.payload, tables)?;
        if !admin && let Some(wait) = self.question_budget.wait(userid, self.host.elapsed()) {
            bail!(
                "answers to questions of user {userid} took a second in this minute; ask again in {}s",
                wait.as_secs() + 1
            );
        }
        if matches!(what, Question::When { .. }) && !request.payload["policy"].is_null() {
            return self.ask_other(request, asker, what);
        }
        self.asked.push(Asked { request: request.clone(), asker, what });
        Ok(Answer::Later)
    }

    /// Have the questions answered that wait, unless a pass is due.
    pub(super) fn answer_questions(&mut self) {
        if self.asked.is_empty() || self.needs_pass() {
            return;
        }
        for asked in std::mem::take(&mut self.asked) {
            if !asked.asker.admin {
                if self.guest_is_answered {
                    self.asked.push(asked);
                    continue;
                }
                self.guest_is_answered = true;
            }
            let under_other = asked.is_under_other();
            let Asked { request, asker, what } = asked;
            let Some(engine) = &self.engine else { continue };
            let begin = self.host.elapsed();
            let (job, queues) = what.about();
            let trials = matches!(what, Question::When { .. });
            let about = About { jobs_max: FORECAST_JOBS_MAX, job, queues: &queues, trials };
            let mut of = engine.questions(self.host.now(), &about);
            let copied = self.host.elapsed().saturating_sub(begin);
            self.start_work(
                "question",
                move |host| {
                    let begin = host.elapsed();
                    let spent = || host.elapsed().saturating_sub(begin);
                    let found = what.answer(&mut of, &asker, &spent);
                    (of, found, host.elapsed().saturating_sub(begin).saturating_add(copied))
                },
                move |service, (of, found, took)| {
                    if under_other {
                        service.other_policies_budget.spend(asker.userid, service.host.elapsed(), took);
                    }
                    service.answered(&request, &asker, of, found, took);
                },
            );
        }
    }

    /// An answer about waiting jobs; while nothing starts because reservations are lost, that is the reason of all.
    fn told_of_loss(&self, mut answer: Value) -> Value {
        if self.holds_for_lost_windows() {
            let told = |job: &mut Value| {
                if job["reason"].is_string() {
                    job["reason"] = "nothing starts: reservations of before could not be read".into();
                    if job["text"].is_string() {
                        job["text"] = job["reason"].clone();
                    }
                    job["reason_kind"] = "held".into();
                }
            };
            told(&mut answer);
            answer["jobs"].as_array_mut().into_iter().flatten().for_each(told);
        }
        answer
    }

    /// An answer was found, and it took this long.
    fn answered(
        &mut self,
        request: &ControlRequest,
        asker: &Asker,
        mut of: Questions,
        found: Result<Found>,
        took: Duration,
    ) {
        self.question_budget.spend(asker.userid, self.host.elapsed(), took);
        self.guest_is_answered &= asker.admin;
        let annotated = self.estimates().is_some();
        if annotated && matches!(found, Ok(Found::Job(..) | Found::Rows(_))) {
            let (now, expected) = (of.now(), of.expected().to_vec());
            self.tell_expected(now, &expected);
        }
        let (forecasts, tables) = (&self.forecasts, &self.configuration.settings.flux);
        let times = Times { forecasts, annotated, tables };
        let answer = found.map(|found| found.told(&of, asker, times));
        let answer = answer.map(|answer| self.told_of_loss(answer));
        match answer {
            Ok(answer) => self.send(request.ok(&answer)),
            Err(error) => self.send(request.error(errno::EINVAL, &format!("{error:#}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use fluxgate_engine::{Config, Engine};
    use fluxgate_formats::R;
    use fluxgate_formats::jobspec::Simple;
    use fluxgate_graph::Resources;

    use super::*;

    #[test]
    fn feat_76_answers_about_many_jobs_end_after_a_second() {
        let r = json!({"version": 1, "execution": {
            "R_lite": [{"rank": "0", "children": {"core": "0-3"}}], "nodelist": ["n0"], "starttime": 0, "expiration": 0,
        }});
        let resources = Resources::from_r(&R::from_value(&r).unwrap()).unwrap();
        let engine = Engine::new(resources, Config::default());
        let about = About { trials: true, queues: &[""], ..About::default() };
        let asker = Asker { userid: 1, admin: false, private: false };
        let job =
            Simple { slots: 1, command: vec!["app".to_owned()], ..Simple::default() }.build().to_value();
        let payload = json!({"jobs": [job, job, job]});
        let ask = |each: u64| {
            let question = Question::read("when", &payload, &FluxTables::default()).unwrap();
            let asked = Cell::new(0);
            let spent = || Duration::from_millis(each * asked.replace(asked.get() + 1));
            question.answer(&mut engine.questions(0.0, &about), &asker, &spent).map(drop)
        };
        assert!(ask(499).is_ok());
        let why = ask(500).unwrap_err().to_string();
        assert_eq!(why, "2 of 3 answers took a second; ask about fewer jobs");
    }
}
