//! `[sched-fluxion-qmanager]`: the policy of each queue, how many jobs are looked at, how many get a reservation.
//!
//! Must never know placement.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::depths::{Decision, Policy, QUEUE_DEPTH, Scope};
use super::options::{Found, Options, QMANAGER, Sources};
use super::ours::Ours;
use super::params::{self, Params};
use super::per_queue::Queues;
use super::report::{Level, Report, default, quoted};

/// Jobs without a possible start that a policy of ours passes over in one pass; they count as looked at. From this bound
/// on, jobs behind them are looked at.
const PASSED_OVER: u32 = 64;

/// The settings of all queues, or of one.
#[derive(Debug, Default)]
struct Own {
    policy: Option<(Found, Option<Policy>)>,
    queue: Option<Params>,
    reservations: Option<Params>,
}

/// Translate the table.
pub(super) fn translate(
    config: &Map<String, Value>,
    sources: &Sources,
    ours: &mut Ours,
    report: &mut Report,
) {
    let queues = Queues::new(config, report);
    let options = &sources.qmanager;
    let base = Own {
        policy: options.get("queue-policy").map(|found| policy(found.clone())),
        queue: options.get("queue-params").map(|found| params::parse(found, params::QUEUE, report)),
        reservations: options.get("policy-params").map(|found| params::parse(found, params::POLICY, report)),
    };
    let own = own(options, &queues, report);
    let all = scope(&base, None);
    let scopes: BTreeMap<&String, Scope<'_>> =
        queues.real.iter().map(|name| (name, scope(&base, own.get(name)))).collect();
    let used: Vec<&Scope<'_>> = if scopes.is_empty() { vec![&all] } else { scopes.values().collect() };

    let decision = all.decision();
    policies(&base, &own, &scopes, &decision, report);
    ours.set("policy", decision.policy);
    if !decision.config.is_empty() {
        ours.set("policy-config", decision.config.clone());
    }
    for (name, scope) in &scopes {
        set_queue(name, &scope.decision(), &decision, ours);
    }
    for (name, parent) in &queues.parents {
        if let Some(scope) = scopes.get(parent) {
            set_queue(name, &scope.decision(), &decision, ours);
            let text = "Fluxion has the jobs of a virtual queue in the queue of its parent; here it is a queue of its own, \
                        with the policy of its parent";
            report.warn(format!("queues.{name}.parent"), quoted(parent), text);
        }
    }

    let bound = Bound::of(&used);
    if let Some(jobs) = bound.set {
        ours.set("candidates-per-pass-max", jobs);
    }
    let owners = [&base].into_iter().chain(own.values());
    for one in owners {
        queue_lines(one.queue.as_ref(), &used, &bound, report);
        reservation_lines(one.reservations.as_ref(), &used, report);
    }
    let refused = report.lines.iter().any(|line| line.level == Level::Error);
    if !refused && used.iter().all(|scope| !scope.bounded()) {
        let text = "not carried over: a pass looks at all jobs that could start, so more of them may be backfilled; \
                    candidates-per-pass-max bounds it";
        report.info(format!("{QMANAGER}.queue-params.queue-depth"), default(QUEUE_DEPTH), text);
    }
}

fn policy(found: Found) -> (Found, Option<Policy>) {
    let policy = Policy::from_name(&found.text());
    (found, policy)
}

/// The settings that single queues have of their own.
fn own(options: &Options, queues: &Queues, report: &mut Report) -> BTreeMap<String, Own> {
    let mut all: BTreeMap<String, Own> = BTreeMap::new();
    let entries = |key, report: &mut Report| {
        options.get(key).map(|found| queues.entries(found, report)).unwrap_or_default()
    };
    for (queue, found) in entries("queue-policy-per-queue", report) {
        all.entry(queue).or_default().policy = Some(policy(found));
    }
    for (queue, found) in entries("queue-params-per-queue", report) {
        all.entry(queue).or_default().queue = Some(params::parse(&found, params::QUEUE, report));
    }
    for (queue, found) in entries("policy-params-per-queue", report) {
        all.entry(queue).or_default().reservations = Some(params::parse(&found, params::POLICY, report));
    }
    all
}

/// The settings in force for a queue: its own parts, each as a whole, over those of all queues.
fn scope<'a>(base: &'a Own, own: Option<&'a Own>) -> Scope<'a> {
    let policy = |own: &Own| own.policy.as_ref().and_then(|(_, policy)| *policy);
    Scope {
        policy: own.and_then(policy).or_else(|| policy(base)).unwrap_or_default(),
        queue: own.and_then(|own| own.queue.as_ref()).or(base.queue.as_ref()),
        reservations: own.and_then(|own| own.reservations.as_ref()).or(base.reservations.as_ref()),
    }
}

fn set_queue(name: &str, decision: &Decision, base: &Decision, ours: &mut Ours) {
    if decision.same(base) {
        return;
    }
    let mut settings = Map::from_iter([("policy".to_owned(), json!(decision.policy))]);
    if !decision.config.is_empty() {
        settings.insert("policy-config".to_owned(), Value::Object(decision.config.clone()));
    }
    ours.queue(name, settings);
}

/// A line for each policy.
fn policies(
    base: &Own,
    own: &BTreeMap<String, Own>,
    scopes: &BTreeMap<&String, Scope<'_>>,
    decision: &Decision,
    report: &mut Report,
) {
    match &base.policy {
        Some((found, policy)) => policy_line(found, *policy, decision, "", "Fluxion uses fcfs", report),
        None => {
            report.info(format!("{QMANAGER}.queue-policy"), default("fcfs"), decision.shown());
        }
    }
    for (name, own) in own {
        let Some(scope) = scopes.get(name) else { continue };
        let (at, other) = (format!("queues.{name}."), scope.decision());
        match &own.policy {
            Some((found, policy)) => {
                policy_line(found, *policy, &other, &at, "Fluxion uses the policy of all queues", report);
            }
            // The depths of a queue alone can give it another policy of ours.
            None if !other.same(decision) => {
                let note = if other.note.is_empty() { String::new() } else { format!("; {}", other.note) };
                let text = format!("{at}{}, by its own depths{note}", other.shown());
                report.line(
                    other.level.max(Level::Info),
                    format!("{QMANAGER}.queue-policy of {name}"),
                    "(of all queues)",
                    text,
                );
            }
            None => {}
        }
    }
}

fn policy_line(
    found: &Found,
    policy: Option<Policy>,
    decision: &Decision,
    at: &str,
    instead: &str,
    report: &mut Report,
) {
    let mut text = format!("{at}{}", decision.shown());
    let mut level = decision.level;
    if policy.is_none() {
        level = Level::Warn;
        text.push_str(&format!("; unknown, and {instead}; known are {}", Policy::NAMES));
    }
    if !decision.note.is_empty() {
        text.push_str("; ");
        text.push_str(&decision.note);
    }
    report.line(level, found.name.clone(), found.shown(), text);
}

/// How many jobs are looked at in a pass: one bound for all queues.
struct Bound {
    set: Option<u32>,
    level: Level,
    note: String,
}

impl Bound {
    fn of(scopes: &[&Scope<'_>]) -> Bound {
        let most = scopes.iter().map(|scope| scope.queue_depth()).max().unwrap_or(QUEUE_DEPTH);
        if !scopes.iter().all(|scope| scope.bounded()) {
            let note = "not carried over: there is one bound for all queues (candidates-per-pass-max), and some queues \
                        have none";
            return Bound { set: None, level: Level::Warn, note: note.to_owned() };
        }
        let mut bound = Bound {
            set: Some(most),
            level: Level::Info,
            note: format!(
                "candidates-per-pass-max = {most}: jobs looked at in one pass of a queue (queue-depth is another bound \
                 here, of what the job manager sends, and stays unlimited)"
            ),
        };
        if scopes.iter().any(|scope| scope.queue_depth() != most) {
            bound.level = Level::Warn;
            bound.note.push_str("; one bound for all queues, the largest of theirs");
        }
        if most <= PASSED_OVER && scopes.iter().any(|scope| scope.policy != Policy::Fcfs) {
            bound.level = Level::Warn;
            bound.note.push_str(&format!(
                "; jobs that no node that is up can start count here and not in Fluxion, so a queue that begins with {most} \
                 of them stands still"
            ));
        }
        bound
    }
}

fn same(one: Option<&Params>, other: &Params) -> bool {
    one.is_some_and(|one| std::ptr::eq(one, other))
}

fn queue_lines(params: Option<&Params>, scopes: &[&Scope<'_>], bound: &Bound, report: &mut Report) {
    let Some(params) = params else { return };
    let used = scopes.iter().any(|scope| same(scope.queue, params));
    let depth = params.get("queue-depth").unwrap_or(QUEUE_DEPTH);
    for (key, found) in &params.depths {
        let (name, shown) = (found.name.clone(), found.value.to_string());
        if !used {
            report.info(name, shown, "ignored: every queue has queue-params of its own");
        } else if *key == "queue-depth" {
            report.line(bound.level, name, shown, &bound.note);
        } else if found.value >= depth {
            report.ok(name, shown, format!("nothing to set: queue-depth is {depth}"));
        } else {
            report.line(bound.level, name, shown, format!("it caps queue-depth; {}", bound.note));
        }
    }
}

fn reservation_lines(params: Option<&Params>, scopes: &[&Scope<'_>], report: &mut Report) {
    let Some(params) = params else { return };
    let users = || scopes.iter().filter(|scope| same(scope.reservations, params));
    for (key, found) in &params.depths {
        let (name, shown) = (found.name.clone(), found.value.to_string());
        let capped = *key == "max-reservation-depth";
        let reads = |scope: &&&Scope<'_>| {
            scope.policy == Policy::Hybrid || capped && scope.policy == Policy::Conservative
        };
        let Some(scope) = users().find(reads) else {
            let by = if capped { "hybrid and conservative" } else { "hybrid" };
            report.info(name, shown, format!("ignored: no queue with this setting has the policy {by}"));
            continue;
        };
        // One of both keys tells it.
        let odd = scope.reservation_depth_in_code();
        let odd = odd.filter(|_| !capped || params.get("reservation-depth").is_none());
        let text = scope.decision().shown();
        match odd {
            Some(code) => {
                let why = format!("{text}, as Fluxion's manual has it; its code reserves for {code} jobs");
                report.warn(name, shown, why);
            }
            None => report.ok(name, shown, text),
        }
    }
}
