//! Requests about windows, which people call reservations: `reservation-create`, `-alter`, `-skip`, `-end`, `-cancel`, `-accept-loss`
//! of the owner, `-list` and `-show` of all users.
//!
//! A request is answered when the windows are stored in the KVS (`kept_windows.rs`): an answered change is there again after a
//! crash. With `dry_run` nothing changes, and the answer tells what would. Must never know a calendar: the host turns
//! instants into local times, and knows when a rule has a window come again.

mod asked;

use std::collections::BTreeMap;

use anyhow::{Context, Result, anyhow, bail};
use fluxgate_engine::{
    AfterWindow, Engine, Event, Members, Occurrence, OnRunning, Repeat, Wanted, Window, WindowKind,
    WindowPlan, WindowRefused,
};
use fluxgate_formats::constraint::Constraint;
use fluxgate_formats::{Hostlist, Idset, JobId, fsd};
use fluxgate_graph::Resources;
use fluxgate_wire::message::Message;
use fluxgate_wire::proto::errno;
use fluxgate_wire::session::ControlRequest;
use serde::Deserialize;
use serde_json::{Value, json};

use asked::{Alter, Create};

use super::Service;
use super::control::{Answer, text};
use super::groups::GroupUsers;
use crate::answers::Asker;
use crate::settings::Makers;

/// Occurrences that are made ahead of a window that comes again.
const AHEAD: usize = 8;
/// Most times of a repeated reservation that may pass without an event.
const OVER_MAX: usize = 1_000_000;
/// Most jobs that are named in one line.
const NAMED_MAX: usize = 8;
/// The matchtag of changes of limits; see `kept_vertices.rs`.
const SHORTEN_TAG: u32 = u32::MAX - 7;

/// A request of an administrator who is not the owner.
#[derive(Debug, thiserror::Error)]
#[error("only the owner of the instance may do this; reservations.create = \"admin\" lets administrators")]
pub(super) struct NotAllowed;

fn read<T: for<'de> Deserialize<'de>>(payload: &Value) -> Result<T> {
    T::deserialize(payload).map_err(|error| anyhow!("reservation: {error}"))
}

/// The ranks of hosts; all, for `all`.
fn ranks_of(resources: &Resources, hosts: &str) -> Result<Idset> {
    if hosts == "all" {
        return Ok(resources.to_r_all().ranks());
    }
    let list: Hostlist = hosts.parse().map_err(|error| anyhow!("hosts: {error}"))?;
    let rank =
        |host: &str| resources.rank_of(host).ok_or_else(|| anyhow!("hosts: there is no host {host:?}"));
    list.iter().map(|host| rank(host.as_ref())).collect()
}

/// Why the job manager refused a request, in its words or those of the error number.
pub(super) fn why_refused(answer: &Message) -> String {
    answer.text().map_or_else(|| errno::describe(answer.errnum()), str::to_owned)
}

pub(super) fn hosts(resources: &Resources, ranks: &Idset) -> String {
    resources.hosts_of(ranks).into_iter().collect::<Hostlist>().to_string()
}

/// The first of many, in words.
pub(super) fn named(all: impl ExactSizeIterator<Item = String>) -> String {
    let count = all.len();
    let mut said: Vec<String> = all.take(NAMED_MAX).collect();
    if count > NAMED_MAX {
        said.push(format!("{} others", count - NAMED_MAX));
    }
    said.join(", ")
}

/// Jobs with their ends, in words.
fn named_with_ends(jobs: &[(JobId, f64)], start: f64) -> String {
    let one = |(id, end): &(JobId, f64)| match end.is_finite() {
        true => format!("{id} ({} later)", fsd::format((end - start).max(0.0))),
        false => format!("{id} (without limit)"),
    };
    named(jobs.iter().map(one))
}

/// Units of pools, as they are asked for.
fn pools(
    resources: &Resources,
    name: &str,
    asked: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, u64>> {
    let units = |(pool, text): (&String, &String)| Ok((pool.clone(), resources.pool_units(pool, text)?));
    asked
        .iter()
        .map(units)
        .collect::<Result<_, fluxgate_graph::PoolError>>()
        .map_err(|error| anyhow!("{name}: {error}"))
}

/// A window as JSON.
fn row(resources: &Resources, window: &Window, now: f64, asker: Option<&Asker>) -> Value {
    let first = window.occurrences.first();
    let places = match &window.wanted {
        Some(wanted) => {
            json!({"nodes": wanted.nodes, "cores": wanted.cores, "constraint": wanted.constraint})
        }
        None => json!({"hosts": hosts(resources, &window.ranks)}),
    };
    let of = &window.members;
    let people = !asker.is_some_and(|asker| asker.private && !asker.admin);
    let (users, group_users) = (people.then_some(&of.users), people.then_some(&of.groups));
    let repeat = window.repeat.as_ref();
    json!({
        "name": window.name,
        "kind": window.kind,
        "state": window.state(now),
        "start": first.map(|first| first.start),
        "end": first.map(|first| first.end),
        "occurrences": window.occurrences.iter().map(|times| [times.start, times.end]).collect::<Vec<_>>(),
        "margin": window.margin,
        "overrun": window.overrun,
        "places": places,
        "ranks": window.ranks.to_string(),
        "nodelist": hosts(resources, &window.ranks),
        "nodes": window.ranks.len(),
        "who": {
            "users": users,
            "groups": of.groups.keys().collect::<Vec<_>>(),
            "group_users": group_users,
            "queues": of.queues,
            "banks": of.banks,
            "magnetic": of.magnetic,
        },
        "running": window.running,
        "after": window.after,
        "flex": window.flex,
        "overlap": window.overlap,
        "release_when_idle": window.release_when_idle,
        "float": window.float,
        "pools": window.pools.iter().map(|(pool, units)| (pool, resources.said_of_pool(pool, *units))).collect::<BTreeMap<_, _>>(),
        "fill": window.fill,
        "replace": window.replace,
        "repeat": repeat.map(|repeat| {
            json!({"every": repeat.every, "zone": repeat.zone, "until": repeat.until})
        }),
        "note": window.note,
        "created": {"userid": window.created.0, "time": window.created.1},
    })
}

/// The windows, or the one of this name, as JSON.
pub(crate) fn rows(engine: &Engine, now: f64, asker: &Asker, name: Option<&str>) -> Result<Vec<Value>> {
    let mut windows: Vec<&Window> = match name {
        Some(name) => vec![engine.window(name).ok_or_else(|| anyhow!("there is no reservation {name}"))?],
        None => engine.windows().collect(),
    };
    let start = |window: &Window| window.occurrences.first().map_or(f64::INFINITY, |first| first.start);
    windows.sort_by(|a, b| start(a).total_cmp(&start(b)));
    let running = |window: &Window| {
        let first = window.occurrences.first()?;
        Some(engine.jobs_across(window, first.start).len())
    };
    let rows = windows.into_iter().map(|window| {
        let mut row = row(engine.resources(), window, now, Some(asker));
        row["running_later"] = json!(running(window).unwrap_or(0));
        let (late, jobs) = engine.late_in(window, now);
        row["late"] = json!({
            "ranks": late.to_string(),
            "nodelist": hosts(engine.resources(), &late),
            "nodes": late.len(),
            "jobs": jobs.len(),
        });
        row
    });
    Ok(rows.collect())
}

impl Service {
    /// Serves a request about windows.
    pub(super) fn reservation(&mut self, request: &ControlRequest) -> Result<Answer> {
        if self.engine.is_none() || self.kept_windows.is_reading() {
            bail!("the scheduler is still starting");
        }
        let (payload, settings) = (&request.payload, &self.configuration.settings.reservations);
        let changes = !matches!(request.method(), "reservation-list" | "reservation-show");
        let may = request.message.is_from_owner() || settings.create == Makers::Admin;
        if changes && !may {
            return Err(NotAllowed.into());
        }
        if request.method() == "reservation-accept-loss" {
            return Ok(self.accept_loss(request));
        }
        if let Some(why) = self.kept_windows.refusal().filter(|_| changes) {
            bail!(why);
        }
        match request.method() {
            "reservation-create" => {
                let asked: Create = read(payload)?;
                self.with_groups(request, asked.groups.clone(), move |service, request, groups| {
                    service.create_window(request, asked, groups)
                })
            }
            "reservation-alter" => {
                let asked: Alter = read(payload)?;
                self.with_groups(request, asked.groups_add.clone(), move |service, request, groups| {
                    service.alter_window(request, asked, groups)
                })
            }
            "reservation-skip" | "reservation-end" | "reservation-cancel" => self.end_window(request),
            "reservation-show" => {
                let name = text(payload, "name")?;
                let rows = self.window_rows(request, Some(name))?;
                Ok(Answer::Now(rows.into_iter().next().unwrap_or_default()))
            }
            _ => {
                let rows = self.window_rows(request, None)?;
                let (lost, held) = (self.kept_windows.lost(), self.holds_for_lost_windows());
                let now = self.host.now();
                Ok(Answer::Now(
                    json!({"version": 1, "now": now, "reservations": rows, "lost": lost, "held": held}),
                ))
            }
        }
    }

    fn window_rows(&self, request: &ControlRequest, name: Option<&str>) -> Result<Vec<Value>> {
        let engine = self.engine.as_ref().context("the scheduler is still starting")?;
        let message = &request.message;
        let private = self.configuration.settings.flux.private_mode;
        let asker = Asker { userid: message.userid, admin: message.is_from_admin(), private };
        let now = self.host.now();
        let mut rows = rows(engine, now, &asker, name)?;
        for row in &mut rows {
            let window = row["name"].as_str().and_then(|name| engine.window(name));
            let on = window.filter(|window| window.is_active(now));
            let queues = on.into_iter().flat_map(|window| &window.members.queues);
            row["queues_started"] =
                queues.filter(|queue| self.queue_starts.has_started(queue)).cloned().collect();
        }
        Ok(rows)
    }

    fn occurrence(&self, start: f64, end: f64) -> Occurrence {
        Occurrence { start, end, begins: self.host.local_time(start) }
    }

    fn create_window(
        &mut self,
        request: &ControlRequest,
        asked: Create,
        groups: GroupUsers,
    ) -> Result<Answer> {
        let engine = self.engine.as_ref().context("the scheduler is still starting")?;
        let (now, dry_run) = (self.host.now(), asked.dry_run);
        if engine.window(&asked.name).is_some_and(|window| !window.occurrences.is_empty()) {
            bail!("{}: there is such a reservation; `alter` changes it", asked.name);
        }
        let chosen = asked.nodes.is_some() || asked.cores.is_some();
        let (nodes, cores) = (asked.nodes.unwrap_or(0), asked.cores.unwrap_or(0));
        let (ranks, wanted) = match (&asked.hosts, chosen) {
            (Some(_), true) => bail!("{}: hosts or a number of nodes or cores, not both", asked.name),
            (Some(_), false) if asked.constraint.is_some() => {
                bail!("{}: a constraint goes with a number of nodes or cores, not with hosts", asked.name)
            }
            (Some(hosts), false) => (ranks_of(engine.resources(), hosts)?, None),
            (None, true) => {
                let constraint = asked.constraint.unwrap_or(Constraint::All);
                (Idset::new(), Some(Wanted { nodes, cores, constraint }))
            }
            (None, false) if asked.pools.is_empty() => {
                bail!("{}: it needs hosts, a number of nodes or cores, or pools", asked.name)
            }
            (None, false) if asked.constraint.is_some() || asked.replace => {
                bail!("{}: a constraint and replacement go with a number of nodes or cores", asked.name)
            }
            (None, false) => (Idset::new(), None),
        };
        let pools = pools(engine.resources(), &asked.name, &asked.pools)?;
        let maintenance = asked.kind == WindowKind::Maintenance;
        let margin = self.configuration.settings.reservations.margin;
        let repeat = asked.repeat.map(|repeat| Repeat {
            every: repeat.every,
            zone: repeat.zone,
            until: repeat.until,
            last: asked.start,
        });
        let mut window = Window {
            name: asked.name,
            kind: asked.kind,
            occurrences: vec![self.occurrence(asked.start, asked.end)],
            margin: asked.margin.unwrap_or(if maintenance { 0.0 } else { margin }),
            overrun: asked.overrun,
            wanted,
            ranks,
            degraded: false,
            awaited: None,
            replace: asked.replace,
            members: Members {
                users: asked.users,
                groups,
                queues: asked.queues,
                banks: asked.banks,
                magnetic: asked.magnetic,
            },
            flex: asked.flex,
            overlap: asked.overlap,
            release_when_idle: asked.release_when_idle,
            float: asked.float,
            fill: asked.fill,
            pools,
            running: asked.running.unwrap_or(if maintenance { OnRunning::Ignore } else { OnRunning::Refuse }),
            after: asked.after.unwrap_or(AfterWindow::Wait),
            repeat,
            note: asked.note,
            created: (request.message.userid, now),
        };
        self.repeat_window(&mut window)?;
        self.put_window(request, window, dry_run, "create")
    }

    fn alter_window(&mut self, request: &ControlRequest, asked: Alter, groups: GroupUsers) -> Result<Answer> {
        let engine = self.engine.as_ref().context("the scheduler is still starting")?;
        let mut window = self.live_window(&asked.name)?;
        if asked.start.is_some() || asked.end.is_some() {
            if window.repeat.is_some() {
                bail!(
                    "{}: it comes again: its times are those of its first occurrence and of its rule",
                    asked.name
                );
            }
            let first = &window.occurrences[0];
            if first.start <= self.host.now() && asked.start.is_some_and(|start| start != first.start) {
                bail!("{}: it has begun", asked.name);
            }
            let (start, end) = (asked.start.unwrap_or(first.start), asked.end.unwrap_or(first.end));
            window.occurrences[0] = self.occurrence(start, end);
        }
        let chosen = asked.nodes.is_some() || asked.cores.is_some();
        match (&asked.hosts, chosen) {
            (Some(_), true) => bail!("{}: hosts or a number of nodes or cores, not both", asked.name),
            (Some(hosts), false) => {
                (window.ranks, window.wanted) = (ranks_of(engine.resources(), hosts)?, None);
            }
            (None, true) => {
                let constraint = window.wanted.map_or(Constraint::All, |wanted| wanted.constraint);
                let (nodes, cores) = (asked.nodes.unwrap_or(0), asked.cores.unwrap_or(0));
                window.wanted = Some(Wanted { nodes, cores, constraint });
            }
            (None, false) => {}
        }
        let members = &mut window.members;
        members.users.extend(asked.users_add);
        members.users.retain(|user| !asked.users_remove.contains(user));
        members.groups.extend(groups);
        members.groups.retain(|group, _| !asked.groups_remove.contains(group));
        members.banks.extend(asked.banks_add);
        members.banks.retain(|bank| !asked.banks_remove.contains(bank));
        members.queues.extend(asked.queues_add);
        members.queues.retain(|queue| !asked.queues_remove.contains(queue));
        if let Some(idle) = asked.release_when_idle {
            window.release_when_idle = (idle != 0.0).then_some(idle);
        }
        window.float = asked.float.or(window.float);
        if let Some(asked_pools) = &asked.pools {
            window.pools = pools(engine.resources(), &asked.name, asked_pools)?;
        }
        window.fill = asked.fill.unwrap_or(window.fill);
        window.running = asked.running.unwrap_or(window.running);
        window.after = asked.after.unwrap_or(window.after);
        window.margin = asked.margin.unwrap_or(window.margin);
        window.overrun = asked.overrun.unwrap_or(window.overrun);
        window.note = asked.note.unwrap_or(window.note);
        self.put_window(request, window, asked.dry_run, "alter")
    }

    /// The window of this name, if it is not over.
    fn live_window(&self, name: &str) -> Result<Window> {
        let window = self.engine.as_ref().and_then(|engine| engine.window(name));
        let window = window.ok_or_else(|| anyhow!("there is no reservation {name}"))?;
        if window.occurrences.is_empty() {
            bail!("reservation {name} is over");
        }
        Ok(window.clone())
    }

    /// `skip` leaves out the next occurrence, `end` ends the window, `cancel` forgets it.
    fn end_window(&mut self, request: &ControlRequest) -> Result<Answer> {
        let name = text(&request.payload, "name")?.to_owned();
        let what = request.method().trim_start_matches("reservation-").to_owned();
        let dry_run = request.payload["dry_run"].as_bool() == Some(true);
        let now = self.host.now();
        let engine = self.engine.as_ref().context("the scheduler is still starting")?;
        let known = engine.window(&name).ok_or_else(|| anyhow!("there is no reservation {name}"))?;
        let mut window = known.clone();
        if what != "cancel" && window.occurrences.is_empty() {
            bail!("reservation {name} is over");
        }
        match what.as_str() {
            "skip" if window.is_active(now) => bail!("{name}: it has begun; `end` ends it"),
            "skip" if window.repeat.is_none() => bail!("{name}: it does not come again; `cancel` forgets it"),
            "skip" => {
                window.occurrences.remove(0);
                self.repeat_window(&mut window)?;
            }
            "end" => {
                window.occurrences.clear();
                window.repeat = None;
            }
            _ => {}
        }
        let answer = json!({
            "reservation": row(engine.resources(), &window, now, None), "dry_run": dry_run, "in_the_way": [],
        });
        if dry_run {
            return Ok(Answer::Now(answer));
        }
        self.record_reservation(&what, Some(request), &name, Ok(()));
        match what.as_str() {
            "cancel" => self.step(Event::RemoveWindow { name }),
            _ => self.step(Event::PutWindow(Box::new(window))),
        }
        Ok(self.answer_when_kept(request, answer))
    }

    fn put_window(
        &mut self,
        request: &ControlRequest,
        window: Window,
        dry_run: bool,
        what: &str,
    ) -> Result<Answer> {
        let now = self.host.now();
        let engine = self.engine.as_ref().context("the scheduler is still starting")?;
        // Users may write any bank where nothing validates it.
        if !window.members.banks.is_empty() && !self.configuration.settings.reservations.banks {
            bail!(
                "{}: banks count where a plugin of the job manager validates them; reservations.banks = true says that one does",
                window.name
            );
        }
        let first = window.occurrences.first().map_or(now, |first| first.start);
        let plan = engine.plan_window(window, now).map_err(|refused| match refused {
            WindowRefused::Running(name, jobs) => anyhow!(
                "{name}: {} running jobs end after its start: {}; --running ignore, shorten or end takes them into account",
                jobs.len(),
                named_with_ends(&jobs, first)
            ),
            WindowRefused::Overlap(name, other, ranks, begins) => {
                anyhow!(
                    "{name} overlaps {other} on {} from {begins}; --overlap lets members of both use these nodes",
                    hosts(engine.resources(), &ranks)
                )
            }
            other => anyhow!("{other}"),
        })?;
        let WindowPlan { window, in_the_way } = plan;
        let from = first - window.margin;
        let shorten = window.running == OnRunning::Shorten;
        let jobs = in_the_way.iter().map(
            |(id, end)| json!({"id": id.0, "end": if end.is_finite() { json!(end) } else { Value::Null }}),
        );
        let answer = json!({
            "reservation": row(engine.resources(), &window, now, None),
            "in_the_way": jobs.collect::<Vec<_>>(),
            "shortened": if shorten { in_the_way.len() } else { 0 },
            "dry_run": dry_run,
        });
        if dry_run {
            return Ok(Answer::Now(answer));
        }
        let limits: Vec<(JobId, f64)> = in_the_way
            .iter()
            .filter(|_| shorten)
            .filter_map(|(id, _)| Some((*id, from - engine.resources().allocation(*id)?.start)))
            .collect();
        self.record_reservation(what, Some(request), &window.name, Ok(()));
        fluxgate_log::log!(Reservation, "reservation {}: {what}", window.name);
        self.step(Event::PutWindow(Box::new(window)));
        for (id, seconds) in limits.into_iter().filter(|(_, seconds)| *seconds > 0.0) {
            let payload = json!({"id": id.0, "updates": {"attributes.system.duration": seconds}});
            let update = Message::request("job-manager.update").with_json(&payload);
            self.send(Some(update.with_matchtag(SHORTEN_TAG)));
        }
        Ok(self.answer_when_kept(request, answer))
    }

    /// Is this the answer to a change of a limit?
    pub(super) fn shorten_answer(&self, message: &Message) -> bool {
        let ours = message.is_response() && message.matchtag() == SHORTEN_TAG;
        if ours && message.errnum() != 0 {
            let why = why_refused(message);
            fluxgate_log::log!(LimitKept, "a job that runs into a reservation keeps its limit: {why}");
        }
        ours
    }

    /// Adds occurrences to a window that comes again, up to as many as are made ahead of now. Occurrences that are over are left
    /// out, also where all are.
    pub(super) fn repeat_window(&self, window: &mut Window) -> Result<bool> {
        let Some(mut repeat) = window.repeat.clone() else { return Ok(false) };
        let length = window.occurrences.first().map(|first| first.end - first.start);
        let Some(length) = length else { return Ok(false) };
        let now = self.host.now();
        window.occurrences.retain(|times| times.end > now);
        let (mut more, mut over) = (false, 0);
        while window.occurrences.len() < AHEAD {
            let next = self.host.next_occurrence(&repeat.every, &repeat.zone, repeat.last);
            let next = next.with_context(|| format!("{}: repeat", window.name))?;
            if next <= repeat.last {
                bail!("{}: repeat: {:?} does not go on", window.name, repeat.every);
            }
            if repeat.until > 0.0 && next > repeat.until {
                break;
            }
            repeat.last = next;
            if next + length <= now {
                over += 1;
                if over > OVER_MAX {
                    bail!(
                        "{}: repeat: {OVER_MAX} of its times are over, and it is not made again",
                        window.name
                    );
                }
                continue;
            }
            window.occurrences.push(self.occurrence(next, next + length));
            more = true;
        }
        window.repeat = Some(repeat);
        Ok(more)
    }

    /// Windows of which all times are over at once, because the clock was set or the process did not run, go on with their next
    /// times before the engine forgets them.
    pub(super) fn renew_windows(&mut self) {
        let Some(engine) = &self.engine else { return };
        let now = self.host.now();
        let over = |window: &&Window| {
            window.repeat.is_some() && window.occurrences.last().is_some_and(|last| last.end <= now)
        };
        let over: Vec<Window> = engine.windows().filter(over).cloned().collect();
        self.make_again(over);
    }

    /// Windows that come again are made again, when one of their times is over.
    pub(super) fn repeat_windows(&mut self) {
        let Some(engine) = &self.engine else { return };
        let short = |window: &&Window| {
            window.repeat.is_some() && !window.occurrences.is_empty() && window.occurrences.len() < AHEAD
        };
        let due: Vec<Window> = engine.windows().filter(short).cloned().collect();
        self.make_again(due);
    }

    fn make_again(&mut self, windows: Vec<Window>) {
        for mut window in windows {
            match self.repeat_window(&mut window) {
                Ok(true) => self.step(Event::PutWindow(Box::new(window))),
                Ok(false) => {}
                Err(error) => not_repeated(&error),
            }
        }
    }
}

/// Logs that a window has no next times.
pub(super) fn not_repeated(error: &anyhow::Error) {
    fluxgate_log::log!(NotRepeated, "reservation {error:#}");
}
