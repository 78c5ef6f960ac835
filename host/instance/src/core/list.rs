//! Lists of jobs (RFC 43).

use fluxgate_wire::errno;
use serde_json::{Map, Value, json};

use super::{Core, Handled, Reply, Request};
use crate::fail::Fail;
use crate::fields::Fields;
use crate::job::{Job, Outcome, State};
use crate::limits::LIST_ENTRIES_MAX;
use crate::query::Query;

/// All attributes but `id`, which is always there.
pub(super) const ATTRIBUTES: [&str; 32] = [
    "userid",
    "urgency",
    "priority",
    "t_submit",
    "t_depend",
    "t_priority",
    "t_sched",
    "t_run",
    "t_cleanup",
    "t_inactive",
    "state",
    "name",
    "queue",
    "cwd",
    "ntasks",
    "ncores",
    "duration",
    "nnodes",
    "ranks",
    "nodelist",
    "expiration",
    "waitstatus",
    "success",
    "result",
    "exception_occurred",
    "exception_severity",
    "exception_type",
    "exception_note",
    "annotations",
    "dependencies",
    "project",
    "bank",
];

/// One attribute of a job; `None` when it has none.
fn attribute(job: &Job, name: &str) -> Option<Value> {
    let over = job.state == State::Inactive;
    let time = |t: f64| (t > 0.0).then(|| json!(t));
    let placed = job.placed.as_deref();
    let fatal = job.exception.as_ref().filter(|_| over);
    match name {
        "userid" => Some(job.userid.into()),
        "urgency" => Some(job.urgency.into()),
        "priority" => (job.times.sched > 0.0).then(|| job.priority.into()),
        "t_submit" => time(job.times.submit),
        "t_depend" => time(job.times.depend),
        "t_priority" => time(job.times.priority),
        "t_sched" => time(job.times.sched),
        "t_run" => time(job.times.run),
        "t_cleanup" => time(job.times.cleanup),
        "t_inactive" => time(job.times.inactive),
        "state" => Some(job.state.bit().into()),
        "name" => Some(job.spec.name.as_str().into()),
        "queue" => job.spec.queue.as_deref().map(Value::from),
        "cwd" => job.spec.cwd.as_deref().map(Value::from),
        "ntasks" => Some(job.spec.ntasks.into()),
        "ncores" => Some(placed.map_or(job.spec.ncores, |p| p.ncores).into()),
        "duration" => Some(job.spec.duration.into()),
        "nnodes" => placed.map(|p| p.nnodes).or(job.spec.nnodes).map(Value::from),
        "ranks" => placed.map(|p| p.ranks.as_str().into()),
        "nodelist" => placed.map(|p| p.nodelist.as_str().into()),
        "expiration" => placed.map(|p| p.expiration.into()),
        "waitstatus" => job.status.map(Value::from),
        "success" => over.then(|| (job.outcome() == Some(Outcome::Completed)).into()),
        "result" => job.outcome().map(|outcome| (outcome as i64).into()),
        "exception_occurred" => over.then(|| job.exception.is_some().into()),
        "exception_severity" => fatal.map(|e| e.severity.into()),
        "exception_type" => fatal.map(|e| e.kind.as_str().into()),
        "exception_note" => fatal.map(|e| e.note.as_str().into()),
        "annotations" => (!job.annotations.is_empty()).then(|| Value::Object(job.annotations.clone())),
        "dependencies" => {
            (!job.waits.is_empty() && !over).then(|| job.waits.iter().map(String::as_str).collect())
        }
        _ => None,
    }
}

fn describe(job: &Job, attributes: &[&str]) -> Value {
    let mut object = Map::new();
    object.insert("id".to_owned(), json!(job.id));
    for name in attributes {
        if let Some(value) = attribute(job, name) {
            object.insert((*name).to_owned(), value);
        }
    }
    Value::Object(object)
}

fn attributes<'a>(fields: Fields<'a>) -> Result<Vec<&'a str>, Fail> {
    let mut names = Vec::new();
    for name in fields.strings("attrs")? {
        match name {
            "all" => names.extend(ATTRIBUTES),
            "id" => {}
            known if ATTRIBUTES.contains(&known) => names.push(known),
            other => return Err(Fail::invalid(format!("field 'attrs': {other} is not a valid attribute"))),
        }
    }
    Ok(names)
}

impl Core {
    pub(super) fn job_list(&mut self, method: &str, request: &Request) -> Handled {
        let fields = Fields::of(&request.payload)?;
        match method {
            "list" => self.list(request, fields),
            "list-id" => {
                let id = fields.id()?;
                let names = attributes(fields)?;
                let job = self.table.get(id).ok_or_else(|| Fail::missing(format!("unknown job {id}")))?;
                Ok(Reply::Now(Some(json!({ "job": describe(job, &names) }))))
            }
            "job-stats" => Ok(Reply::Now(Some(self.job_stats()))),
            _ => Err(Fail::new(errno::ENOSYS, format!("job-list has no method '{method}'"))),
        }
    }

    fn list(&mut self, request: &Request, fields: Fields<'_>) -> Handled {
        let max = fields.opt_u64("max_entries")?.unwrap_or(0);
        let max = if max == 0 { LIST_ENTRIES_MAX } else { LIST_ENTRIES_MAX.min(max as usize) };
        let since = fields.opt_f64("since")?.unwrap_or(0.0);
        let names = attributes(fields)?;
        let query = Query::new(fields.get("constraint"))
            .map_err(|text| Fail::proto(format!("field 'constraint': {text}")))?;
        // States decide which of the three orders are walked at all.
        let states = query.states();
        let walk = |wanted: i64| states & wanted != 0;
        let fits =
            |job: &&Job| query.matches(job) && (job.state != State::Inactive || job.times.inactive > since);
        let pending = self.table.pending().take_while(|_| walk(State::PENDING | 1));
        let running = self.table.running().take_while(|_| walk(State::RUNNING));
        let inactive = self.table.inactive().take_while(|_| walk(State::Inactive.bit()));
        let jobs = pending.chain(running).chain(inactive).filter(fits).take(max);
        let jobs: Vec<Value> = jobs.map(|job| describe(job, &names)).collect();
        if !request.message.is_streaming() {
            return Ok(Reply::Now(Some(json!({ "jobs": jobs }))));
        }
        let reply = request.message.reply_to();
        for (index, job) in jobs.into_iter().enumerate() {
            let line =
                if index == 0 { json!({ "jobs": [job], "version": 1 }) } else { json!({ "jobs": [job] }) };
            self.reply_to(request.client, &reply, Ok(Some(line)));
        }
        Err(Fail::new(errno::ENODATA, ""))
    }

    pub(super) fn job_stats(&self) -> Value {
        let mut states = Map::new();
        for state in State::ALL {
            states.insert(state.name().to_owned(), self.table.count(state).into());
        }
        let total: u64 = State::ALL.iter().map(|state| self.table.count(*state)).sum();
        states.insert("total".to_owned(), total.into());
        json!({
            "job_states": states,
            "successful": self.table.results(Outcome::Completed),
            "failed": self.table.results(Outcome::Failed),
            "canceled": self.table.results(Outcome::Canceled),
            "timeout": self.table.results(Outcome::Timeout),
        })
    }
}
