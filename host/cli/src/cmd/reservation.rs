//! `fluxgate reservation`: make, change, end, list and show reservations of nodes for maintenance or for some jobs.
//!
//! Times, users and rules are read here, so that the scheduler gets instants and numbers. Must never decide anything.

mod told;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, anyhow};
use clap::{Args, Subcommand, ValueEnum};
use fluxgate_formats::fsd;
use serde_json::{Value, json};

use super::job_args;
use crate::args::Target;
use crate::calendar;
use crate::client::Client;
use crate::fail::usage;
use crate::render;
use told::{accepted, loss, pairs, said, table};

/// Keep nodes for maintenance, or for some users or queues, from one time to another.
#[derive(Debug, Subcommand)]
pub(crate) enum ReservationCmd {
    /// Make a reservation.
    Create(Box<Create>),
    /// Change a reservation.
    Alter(Box<Alter>),
    /// Leave out the next time of a reservation that comes again.
    Skip(Named),
    /// End a reservation now; it stays in the list.
    End(Named),
    /// Forget a reservation, whatever its state.
    Cancel(Named),
    /// Go on without reservations of before that could not be read; with `reservations.lost = "hold"` nothing starts before.
    AcceptLoss(AcceptLoss),
    /// List reservations by start.
    List(List),
    /// Show one reservation.
    Show(Show),
}

/// The fate of running jobs in the way.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Running {
    /// No reservation is made.
    Refuse,
    /// They go on.
    Ignore,
    /// Their limits end at its start.
    Shorten,
    /// They are ended at its start.
    End,
}

/// The fate of members that wait at the end.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum After {
    /// They go on waiting.
    Wait,
    /// They are ordinary jobs from then on.
    Free,
}

fn word(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// `fluxgate reservation create`.
#[derive(Debug, Args)]
#[command(
    after_help = "Times: now, +2h, 17:00, \"tomorrow 17:00\", 2026-12-01, \"2026-12-01 08:00\", @EPOCH.\n\n\
    For instance:\n  \
    create dst1201 --maintenance --start \"2026-12-01 08:00\" --duration 12h --hosts all\n  \
    create dat42 --start \"tomorrow 17:00\" --duration 15h --nodes 512 --users alice,bob --running shorten\n  \
    create drain7 --maintenance --float 1h --start now --duration 30d --hosts node7",
    group = clap::ArgGroup::new("number").args(["nodes", "cores"]).multiple(true)
)]
pub(crate) struct Create {
    #[command(flatten)]
    target: Target,
    /// Its name: [a-z0-9_-]{1,64}.
    name: String,
    /// No job uses the nodes; without, jobs of the members do.
    #[arg(long)]
    maintenance: bool,
    /// When it begins.
    #[arg(long, value_name = "TIME")]
    start: String,
    /// How long it lasts (RFC 23).
    #[arg(long, value_name = "FSD", conflicts_with = "end", required_unless_present = "end")]
    duration: Option<String>,
    /// When it ends; +2h is counted from its start.
    #[arg(long, value_name = "TIME")]
    end: Option<String>,
    /// These hosts, as a hostlist (RFC 29), or all.
    #[arg(long, value_name = "HOSTS", conflicts_with = "nodes", required_unless_present_any = ["nodes", "cores", "pool"])]
    hosts: Option<String>,
    /// This many nodes, which the scheduler chooses; those that go down before the start are replaced.
    #[arg(long, value_name = "N")]
    nodes: Option<u32>,
    /// As many nodes as have this many cores together, chosen likewise.
    #[arg(long, value_name = "N", conflicts_with = "hosts")]
    cores: Option<u64>,
    /// The constraint that chosen nodes must meet, in the syntax of RFC 35.
    #[arg(long, value_name = "CONSTRAINT", requires = "number")]
    requires: Option<String>,
    /// Nodes that go down after the start are replaced as well.
    #[arg(long, requires = "number")]
    replace: bool,
    /// Members: these users, by name or number.
    #[arg(long, value_name = "USERS", value_delimiter = ',')]
    users: Vec<String>,
    /// Members: the users of these groups as well; they are looked up now and every ten minutes.
    #[arg(long, value_name = "GROUPS", value_delimiter = ',')]
    groups: Vec<String>,
    /// Members: jobs of these banks; with users, groups or queues, of these. Needs reservations.banks.
    #[arg(long, value_name = "BANKS", value_delimiter = ',')]
    banks: Vec<String>,
    /// Members: jobs of these queues; with users, of these users.
    #[arg(long, value_name = "QUEUES", value_delimiter = ',')]
    queues: Vec<String>,
    /// Jobs of the members use it without naming it, and other nodes besides.
    #[arg(long)]
    magnetic: bool,
    /// Members may use other nodes and times as well; others are kept out all the same.
    #[arg(long)]
    flex: bool,
    /// It may have nodes of other reservations of members; members of both use these.
    #[arg(long, conflicts_with = "maintenance")]
    overlap: bool,
    /// It ends early when no member has run or waited for so long.
    #[arg(long, value_name = "FSD", conflicts_with = "maintenance")]
    release_when_idle: Option<String>,
    /// It floats: from its start to its end its nodes take jobs with limits of so long at most.
    #[arg(long, value_name = "FSD", requires = "maintenance")]
    float: Option<String>,
    /// Jobs that may be ended (preemptible-after in their jobspec) run until it begins, whatever their limits are.
    #[arg(long, conflicts_with = "float")]
    fill: bool,
    /// This much of a pool, such as scratch=all, power/rack0=6kW or /site/chassis0/ssd0=50%, with nodes or without; may be repeated.
    #[arg(long, value_name = "POOL=AMOUNT", requires = "maintenance", conflicts_with = "float")]
    pool: Vec<String>,
    /// Running jobs that are expected to end after its start [default: refuse; for maintenance ignore].
    #[arg(long, value_enum)]
    running: Option<Running>,
    /// Members that wait at its end [default: wait].
    #[arg(long, value_enum)]
    after: Option<After>,
    /// Other jobs must end so long before its start [default: 5m; for maintenance 0].
    #[arg(long, value_name = "FSD")]
    margin: Option<String>,
    /// Members may run so long after its end.
    #[arg(long, value_name = "FSD")]
    overrun: Option<String>,
    /// It comes again: hourly, daily, weekly, weekdays, weekend, or every FSD.
    #[arg(long, value_name = "RULE")]
    repeat: Option<String>,
    /// The time zone of its times, such as Europe/Paris [default: that of this machine].
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,
    /// It does not come again after that.
    #[arg(long, value_name = "TIME", requires = "repeat")]
    until: Option<String>,
    /// For people, 256 bytes at most.
    #[arg(long, value_name = "TEXT", default_value = "")]
    note: String,
    #[command(flatten)]
    how: How,
}

/// How a change is asked for and answered.
#[derive(Debug, Args)]
struct How {
    /// Print what would change, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print the answer as JSON.
    #[arg(long)]
    json: bool,
}

/// `fluxgate reservation alter`.
#[derive(Debug, Args)]
pub(crate) struct Alter {
    #[command(flatten)]
    target: Target,
    /// Its name.
    name: String,
    /// Another start.
    #[arg(long, value_name = "TIME")]
    start: Option<String>,
    /// Another end; +2h is counted from the present end.
    #[arg(long, value_name = "TIME")]
    end: Option<String>,
    /// Other hosts.
    #[arg(long, value_name = "HOSTS", conflicts_with = "nodes")]
    hosts: Option<String>,
    /// Another number of nodes.
    #[arg(long, value_name = "N")]
    nodes: Option<u32>,
    /// As many nodes as have this many cores together.
    #[arg(long, value_name = "N", conflicts_with = "hosts")]
    cores: Option<u64>,
    /// Users who join or leave: +carol,-bob.
    #[arg(long, value_name = "+USER,-USER", value_delimiter = ',', allow_hyphen_values = true)]
    users: Vec<String>,
    /// Groups that join or leave.
    #[arg(long, value_name = "+GROUP,-GROUP", value_delimiter = ',', allow_hyphen_values = true)]
    groups: Vec<String>,
    /// Banks that join or leave.
    #[arg(long, value_name = "+BANK,-BANK", value_delimiter = ',', allow_hyphen_values = true)]
    banks: Vec<String>,
    /// Queues that join or leave.
    #[arg(long, value_name = "+QUEUE,-QUEUE", value_delimiter = ',', allow_hyphen_values = true)]
    queues: Vec<String>,
    /// It ends early when no member has run or waited for so long; 0 takes that back.
    #[arg(long, value_name = "FSD")]
    release_when_idle: Option<String>,
    /// It floats, with this longest limit.
    #[arg(long, value_name = "FSD")]
    float: Option<String>,
    /// Whether jobs that may be ended run until it begins.
    #[arg(long, value_name = "BOOL")]
    fill: Option<bool>,
    /// Other amounts of pools, instead of all of before; may be repeated.
    #[arg(long, value_name = "POOL=AMOUNT")]
    pool: Vec<String>,
    /// Running jobs that are expected to end after its start.
    #[arg(long, value_enum)]
    running: Option<Running>,
    /// Members that wait at its end.
    #[arg(long, value_enum)]
    after: Option<After>,
    /// Other jobs must end so long before its start.
    #[arg(long, value_name = "FSD")]
    margin: Option<String>,
    /// Members may run so long after its end.
    #[arg(long, value_name = "FSD")]
    overrun: Option<String>,
    /// For people.
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    #[command(flatten)]
    how: How,
}

/// A reservation by its name.
#[derive(Debug, Args)]
pub(crate) struct Named {
    #[command(flatten)]
    target: Target,
    /// Its name.
    name: String,
    #[command(flatten)]
    how: How,
}

/// `fluxgate reservation accept-loss`.
#[derive(Debug, Args)]
pub(crate) struct AcceptLoss {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    how: How,
}

/// `fluxgate reservation list`.
#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    target: Target,
    /// Print the answer as JSON.
    #[arg(long)]
    json: bool,
}

/// `fluxgate reservation show`.
#[derive(Debug, Args)]
pub(crate) struct Show {
    #[command(flatten)]
    target: Target,
    /// Its name.
    name: String,
    /// Print the answer as JSON.
    #[arg(long)]
    json: bool,
}

fn duration(flag: &str, text: &str) -> Result<f64> {
    let long = fsd::parse(text).ok().filter(|long| long.is_finite());
    long.ok_or_else(|| usage(format!("--{flag} {text}: expected a duration such as 30m or 12h (RFC 23)")))
}

fn optional(flag: &str, text: Option<&String>) -> Result<Option<f64>> {
    text.map(|text| duration(flag, text)).transpose()
}

/// Amounts of pools.
fn pools(list: &[String]) -> Result<BTreeMap<&str, &str>> {
    let one = |text: &String| format!("--pool {text}: expected POOL=AMOUNT, such as scratch=all");
    list.iter()
        .map(|text| text.split_once('=').filter(|(pool, _)| !pool.is_empty()).ok_or_else(|| usage(one(text))))
        .collect()
}

/// A user by name or number.
fn user(text: &str) -> Result<u32> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let known = nix::unistd::User::from_name(text).context("users")?;
    known.map(|user| user.uid.as_raw()).ok_or_else(|| usage(format!("--users {text}: there is no such user")))
}

/// The names to add and the names to remove.
fn changes(flag: &str, list: &[String]) -> Result<(Vec<String>, Vec<String>)> {
    let (mut add, mut remove) = (Vec::new(), Vec::new());
    for one in list {
        match one.split_at_checked(1) {
            Some(("+", name)) => add.push(name.to_owned()),
            Some(("-", name)) => remove.push(name.to_owned()),
            _ => return Err(usage(format!("--{flag} {one}: expected +NAME or -NAME"))),
        }
    }
    Ok((add, remove))
}

impl Create {
    fn request(&self, now: f64) -> Result<Value> {
        let name = self.zone.clone().unwrap_or_else(calendar::own_zone);
        let zone = calendar::zone(&name)?;
        let start = calendar::parse(&self.start, now, now, &zone)?;
        let end = match (&self.duration, &self.end) {
            (Some(long), _) => start + duration("duration", long)?,
            (None, Some(end)) => calendar::parse(end, now, start, &zone)?,
            (None, None) => return Err(usage("--duration or --end is needed")),
        };
        let users = self.users.iter().map(|text| user(text)).collect::<Result<BTreeSet<u32>>>()?;
        let constraint = self.requires.as_deref().map(job_args::constraint).transpose()?;
        let until = self.until.as_ref().map(|text| calendar::parse(text, now, start, &zone)).transpose()?;
        let repeat = self
            .repeat
            .as_ref()
            .map(|every| json!({"every": every, "zone": name, "until": until.unwrap_or(0.0)}));
        Ok(json!({
            "name": self.name,
            "kind": if self.maintenance { "maintenance" } else { "dedicated" },
            "start": start,
            "end": end,
            "hosts": self.hosts,
            "nodes": self.nodes,
            "cores": self.cores,
            "constraint": constraint.map(|constraint| constraint.to_value()),
            "replace": self.replace,
            "users": users,
            "groups": self.groups,
            "queues": self.queues,
            "banks": self.banks,
            "magnetic": self.magnetic,
            "flex": self.flex,
            "overlap": self.overlap,
            "release_when_idle": optional("release-when-idle", self.release_when_idle.as_ref())?,
            "float": optional("float", self.float.as_ref())?,
            "fill": self.fill,
            "pools": pools(&self.pool)?,
            "running": self.running.map(word),
            "after": self.after.map(word),
            "margin": optional("margin", self.margin.as_ref())?,
            "overrun": optional("overrun", self.overrun.as_ref())?.unwrap_or(0.0),
            "repeat": repeat,
            "note": self.note,
            "dry_run": self.how.dry_run,
        }))
    }
}

impl Alter {
    fn request(&self, now: f64, present: &Value) -> Result<Value> {
        let zone = calendar::zone("")?;
        let (start, end) = (present["start"].as_f64().unwrap_or(now), present["end"].as_f64().unwrap_or(now));
        let time = |text: &Option<String>, from: f64| {
            text.as_ref().map(|text| calendar::parse(text, now, from, &zone)).transpose()
        };
        let (users_add, users_remove) = changes("users", &self.users)?;
        let numbers =
            |list: Vec<String>| list.iter().map(|text| user(text)).collect::<Result<BTreeSet<u32>>>();
        let (queues_add, queues_remove) = changes("queues", &self.queues)?;
        let (groups_add, groups_remove) = changes("groups", &self.groups)?;
        let (banks_add, banks_remove) = changes("banks", &self.banks)?;
        Ok(json!({
            "name": self.name,
            "start": time(&self.start, start)?,
            "end": time(&self.end, end)?,
            "hosts": self.hosts,
            "nodes": self.nodes,
            "cores": self.cores,
            "users_add": numbers(users_add)?,
            "users_remove": numbers(users_remove)?,
            "groups_add": groups_add,
            "groups_remove": groups_remove,
            "banks_add": banks_add,
            "banks_remove": banks_remove,
            "queues_add": queues_add,
            "queues_remove": queues_remove,
            "release_when_idle": optional("release-when-idle", self.release_when_idle.as_ref())?,
            "float": optional("float", self.float.as_ref())?,
            "fill": self.fill,
            "pools": if self.pool.is_empty() { None } else { Some(pools(&self.pool)?) },
            "running": self.running.map(word),
            "after": self.after.map(word),
            "margin": optional("margin", self.margin.as_ref())?,
            "overrun": optional("overrun", self.overrun.as_ref())?,
            "note": self.note,
            "dry_run": self.how.dry_run,
        }))
    }
}

/// `fluxgate reservation`.
pub(crate) fn run(command: &ReservationCmd) -> Result<()> {
    match command {
        ReservationCmd::Create(args) => {
            let client = Client::connect(&args.target)?;
            changed(&client, "create", &args.request(present(&client)?)?, &args.how)
        }
        ReservationCmd::Alter(args) => {
            let client = Client::connect(&args.target)?;
            let shown = client.sched("sched-fluxgate.reservation-show", json!({"name": args.name}))?;
            changed(&client, "alter", &args.request(present(&client)?, &shown)?, &args.how)
        }
        ReservationCmd::Skip(args) => named("skip", args),
        ReservationCmd::End(args) => named("end", args),
        ReservationCmd::Cancel(args) => named("cancel", args),
        ReservationCmd::AcceptLoss(args) => {
            let client = Client::connect(&args.target)?;
            let request = json!({"dry_run": args.how.dry_run});
            let answer = client.sched("sched-fluxgate.reservation-accept-loss", request)?;
            if args.how.json {
                return render::json(&answer);
            }
            render::line(accepted(&answer))
        }
        ReservationCmd::List(args) => {
            let answer =
                Client::connect(&args.target)?.sched("sched-fluxgate.reservation-list", json!({}))?;
            if args.json {
                return render::json(&answer);
            }
            if let Some(why) = loss(&answer) {
                render::line(why)?;
            }
            render::show(&table(answer["reservations"].as_array().map_or(&[][..], |rows| rows)))
        }
        ReservationCmd::Show(args) => {
            let client = Client::connect(&args.target)?;
            let answer = client.sched("sched-fluxgate.reservation-show", json!({"name": args.name}))?;
            if args.json {
                return render::json(&answer);
            }
            render::show(&pairs(&answer))
        }
    }
}

/// The time of the instance, whose clock may be another than this machine's.
fn present(client: &Client) -> Result<f64> {
    let answer = client.sched("sched-fluxgate.reservation-list", json!({}))?;
    answer["now"].as_f64().ok_or_else(|| anyhow!("the scheduler does not tell its time"))
}

fn named(what: &str, args: &Named) -> Result<()> {
    let request = json!({"name": args.name, "dry_run": args.how.dry_run});
    changed(&Client::connect(&args.target)?, what, &request, &args.how)
}

fn changed(client: &Client, what: &str, request: &Value, how: &How) -> Result<()> {
    let answer = client.sched(&format!("sched-fluxgate.reservation-{what}"), request.clone())?;
    if how.json {
        return render::json(&answer);
    }
    render::line(said(what, &answer))?;
    if answer["kept"] == false {
        return Err(anyhow!(
            "the reservation is in force, and it could not be stored: a restart would lose it"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
