//! `fluxgate journal`: the records of a scheduler's journal. Must never write.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Result, anyhow, bail};
use clap::{Args, Subcommand};
use fluxgate_formats::{JobId, fsd};
use fluxgate_journal::reader::{Item, Place};
use fluxgate_journal::reasons::{Ended, Spell, Wait, reasons as of_job};
use fluxgate_journal::{CheckpointCause, EventRecord, Journal, Record};
use serde_json::{Value, json};

use super::replay::ByDigest;
use crate::{render, values};

/// `fluxgate journal`.
#[derive(Debug, Subcommand)]
pub(crate) enum JournalCmd {
    /// List its records.
    Show(Show),
    /// Read all of it, and say what it holds and whether all of it is as it was written.
    Check(Check),
    /// Tell what a job waited for, and how long. The journal is run again for that, with the policies of then.
    Reasons(Reasons),
}

/// `fluxgate journal show`.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The journal's folder, or one file of it.
    #[arg(value_name = "DIR|FILE")]
    pub(crate) journal: PathBuf,
    /// Only what is about this job: an id as Flux prints it.
    #[arg(long, value_name = "ID")]
    pub(crate) job: Option<String>,
    /// Only from then on: seconds since the epoch, or a date.
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    pub(crate) from: Option<f64>,
    /// Only until then.
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    pub(crate) until: Option<f64>,
    /// Print JSON, one record a line.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `fluxgate journal check`.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The journal's folder, or one file of it.
    #[arg(value_name = "DIR|FILE")]
    pub(crate) journal: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `fluxgate journal reasons`.
#[derive(Debug, Args)]
pub(crate) struct Reasons {
    /// The job: an id as Flux prints it.
    #[arg(value_name = "ID")]
    pub(crate) job: String,
    /// The journal's folder, or one file of it.
    #[arg(value_name = "DIR|FILE")]
    pub(crate) journal: PathBuf,
    /// A folder with the policies that decided.
    #[arg(long, value_name = "DIR")]
    pub(crate) policies: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Run the command.
pub(crate) fn run(command: &JournalCmd) -> Result<()> {
    match command {
        JournalCmd::Show(args) => show(args),
        JournalCmd::Check(args) => check(args),
        JournalCmd::Reasons(args) => reasons(args),
    }
}

fn show(args: &Show) -> Result<()> {
    let journal = Journal::open(&args.journal)?;
    let job =
        args.job.as_ref().map(|id| id.parse::<JobId>()).transpose().map_err(|e| anyhow!("--job: {e}"))?;
    let mut wrong = None;
    for item in journal.items() {
        match item {
            Item::Record(place) => {
                let time = place.record.time().unwrap_or(f64::NEG_INFINITY);
                let out = args.from.is_some_and(|from| time < from) || args.until.is_some_and(|t| time > t);
                if out || job.is_some_and(|job| !concerns(&place.record, job)) {
                    continue;
                }
                match args.json {
                    true => render::line(as_json(&journal, &place))?,
                    false => render::line(text(&place.record))?,
                }
            }
            Item::Torn(file, offset, bytes) if !args.json => {
                render::line(format!(
                    "{}: {bytes} bytes left by a kill at {offset}",
                    journal.files()[file].display()
                ))?;
            }
            Item::Torn(..) => {}
            Item::Damaged(error) => wrong = Some(error),
        }
    }
    wrong.map_or(Ok(()), |error| Err(error.into()))
}

fn reasons(args: &Reasons) -> Result<()> {
    let journal = Journal::open(&args.journal)?;
    let job = args.job.parse::<JobId>().map_err(|error| anyhow!("{}: {error}", args.job))?;
    let mut policies = ByDigest::open(args.policies.as_deref())?;
    let wait = of_job(&journal, &mut policies, job)?;
    let wait = wait.ok_or_else(|| anyhow!("{job}: no scheduler of this journal had it waiting"))?;
    if args.json {
        return render::json(&wait_as_json(job, &wait));
    }
    render::line(wait_in_words(job, &wait))?;
    render::show(&wait_table(&wait))
}

fn waited(wait: &Wait) -> f64 {
    wait.by_kind().iter().map(|(_, seconds)| seconds).sum()
}

fn ended(wait: &Wait) -> &'static str {
    match wait.ended {
        Ended::Started => "started",
        Ended::Withdrawn => "withdrawn",
        Ended::Waits => "waits",
    }
}

fn wait_as_json(job: JobId, wait: &Wait) -> Value {
    let spell = |s: &Spell| json!({"from": s.from, "until": s.until, "kind": s.kind, "reason": s.text});
    json!({
        "id": job.0, "waited": waited(wait), "ended": ended(wait), "complete": wait.complete,
        "kinds": wait.by_kind().iter().map(|(kind, s)| json!({"kind": kind, "seconds": s})).collect::<Vec<_>>(),
        "spells": wait.spells.iter().map(spell).collect::<Vec<_>>(),
    })
}

fn wait_in_words(job: JobId, wait: &Wait) -> String {
    let what = match wait.ended {
        Ended::Started => "waited",
        Ended::Withdrawn => "waited, and was withdrawn, after",
        Ended::Waits => "still waited at the end of the journal, after",
    };
    let part = if wait.complete { "" } else { ", counted from the begin of the journal" };
    format!("{job} {what} {}{part}", fsd::format(waited(wait)))
}

fn wait_table(wait: &Wait) -> comfy_table::Table {
    let mut table = render::table(&["FROM", "FOR>", "KIND", "REASON"]);
    for spell in &wait.spells {
        let long = fsd::format(spell.until - spell.from);
        table.add_row([render::time(spell.from), long, spell.kind.to_owned(), clean(&spell.text)]);
    }
    for (kind, seconds) in wait.by_kind() {
        table.add_row(["in all".to_owned(), fsd::format(seconds), kind.to_owned(), String::new()]);
    }
    table
}

fn concerns(record: &Record, job: JobId) -> bool {
    let named = |record: &Record| match record {
        Record::Step(_, EventRecord::Prioritize(jobs), _) => jobs.iter().any(|(id, _)| *id == job),
        Record::Step(_, event_record, _) => event_record.job() == Some(job),
        _ => false,
    };
    named(record) || record.outcome().is_some_and(|o| o.0.iter().any(|decision| decision.job() == Some(job)))
}

fn as_json(journal: &Journal, place: &Place) -> Value {
    let record = serde_json::to_value(&place.record).unwrap_or(Value::Null);
    json!({
        "file": journal.files()[place.file].file_name().map(|name| name.to_string_lossy()), "offset": place.offset,
        "kind": place.record.kind(), "time": place.record.time(), "record": record,
        "digest": place.record.outcome().map(|outcome| format!("{:016x}", outcome.1)),
    })
}

fn text(record: &Record) -> String {
    let what = match record {
        Record::Checkpoint(base) => format!(
            "{}, {} jobs run, {} wait, {} decides",
            why(&base.why),
            base.engine.running.len(),
            base.engine.pending.len(),
            base.policy.name
        ),
        Record::Spec(row) => format!("number {}", row.number),
        Record::Policy(row) => format!("number {}: {} {} {:?}", row.number, row.name, row.digest, row.config),
        Record::Step(_, event_record, _) => event(event_record),
        Record::Pass(pass) => {
            let cut = pass.4.map_or_else(String::new, |look| format!(", cut at look {look}"));
            format!("policy {}, {} units of fuel, {} queues{cut}", pass.1, pass.2, pass.3)
        }
        Record::Swap(_, number, _, error) => {
            format!(
                "to policy {number}{}",
                error.as_ref().map_or_else(String::new, |e| format!(", refused: {e}"))
            )
        }
        Record::QueueSwap(_, queue, number, _, error) => {
            let refused = error.as_ref().map_or_else(String::new, |e| format!(", refused: {e}"));
            format!("{} to policy {number}{refused}", clean(queue))
        }
        Record::GiveBack(_, queue, error) => {
            let refused = error.as_ref().map_or_else(String::new, |e| format!(", refused: {e}"));
            format!("{} to the default policy{refused}", clean(queue))
        }
        Record::QueueAbandon(_, queue) => clean(queue),
        Record::QueueHold(_, queue, policy) => format!("{} for {}", clean(queue), clean(policy)),
        Record::Hold(_, policy) => clean(policy),
        Record::Offer(_, state) => {
            format!("{} bytes of {}, version {}", state.data.len(), clean(&state.from), state.version)
        }
        Record::Reconfigure(..) | Record::States(..) | Record::Abandon(_) | Record::End(_) => String::new(),
    };
    let time = record.time().map_or_else(|| "-".to_owned(), |time| format!("{time:.6}"));
    let mut line = format!("{time:>17} {:12} {what}", record.kind());
    if let Some(outcome) = record.outcome() {
        for decision in &outcome.0 {
            line += &format!("\n{:>17}   {}", "", clean(&decision.to_string()));
        }
        if outcome.2 > 0 {
            line += &format!("\n{:>17}   {} annotations", "", outcome.2);
        }
    }
    line
}

/// Without control characters: the text may come from a policy or a file.
fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn why(why: &CheckpointCause) -> String {
    match why {
        CheckpointCause::Start => "the scheduler starts".to_owned(),
        CheckpointCause::Rotation => "the file before is full".to_owned(),
        CheckpointCause::Gap(lost, why) => format!("a gap of {lost} records before ({why})"),
    }
}

fn event(event_record: &EventRecord) -> String {
    match event_record {
        EventRecord::Alloc(id, priority, user, _, number, seconds) => {
            format!("{id} of user {user}, priority {priority}, jobspec {number}, {seconds} s")
        }
        EventRecord::Free(id, ranks, last) => {
            let ranks = ranks.as_ref().map_or_else(|| "all".to_owned(), |ranks| format!("ranks {ranks}"));
            format!("{id} {ranks}{}", if *last { ", its last" } else { "" })
        }
        EventRecord::Prioritize(jobs) => {
            jobs.iter().map(|(id, priority)| format!("{id}={priority}")).collect::<Vec<_>>().join(" ")
        }
        EventRecord::Expiration(id, end, _) => format!("{id} to {end}"),
        EventRecord::Up(ranks) | EventRecord::Down(ranks) | EventRecord::Shrink(ranks) => {
            format!("ranks {ranks}")
        }
        EventRecord::PropertyAdd(name, ranks) | EventRecord::PropertyRemove(name, ranks) => {
            format!("{} on ranks {ranks}", clean(name))
        }
        EventRecord::VertexStatus(paths, up) => {
            format!("{} {}", clean(&paths.join(" ")), if *up { "up" } else { "down" })
        }
        EventRecord::VertexProperty(paths, key, value) => {
            let value = value.as_ref().map_or_else(|| " removed".to_owned(), |value| format!("={value}"));
            clean(&format!("{key}{value} on {}", paths.join(" ")))
        }
        EventRecord::PropertiesUnread(unread) => (if *unread { "not known" } else { "known" }).to_owned(),
        EventRecord::PutWindow(text) | EventRecord::RemoveWindow(text) => clean(text),
        EventRecord::InstanceExpiration(end) => end.to_string(),
        other => other.job().map_or_else(String::new, |id| id.to_string()),
    }
}

fn check(args: &Check) -> Result<()> {
    let journal = Journal::open(&args.journal)?;
    let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut decisions, mut starts, mut span) = (0, 0, None::<(f64, f64)>);
    let (mut torn, mut wrong, mut gaps) = (Vec::new(), Vec::new(), Vec::new());
    for item in journal.items() {
        let record = match item {
            Item::Record(place) => place.record,
            Item::Torn(file, offset, bytes) => {
                let file = journal.files()[file].display().to_string();
                torn.push(json!({"file": file, "offset": offset, "bytes": bytes}));
                continue;
            }
            Item::Damaged(error) => {
                wrong.push(error.to_string());
                continue;
            }
        };
        *kinds.entry(record.kind()).or_default() += 1;
        if let Some(time) = record.time() {
            span = Some((span.map_or(time, |(from, _)| from), time));
        }
        if let Some(outcome) = record.outcome() {
            decisions += outcome.0.len();
            starts += outcome
                .0
                .iter()
                .filter(|d| matches!(d, fluxgate_journal::outcome::Decision::Start(..)))
                .count();
        }
        if let Record::Checkpoint(base) = &record
            && let CheckpointCause::Gap(lost, why) = &base.why
        {
            gaps.push(json!({"time": base.time, "lost": lost, "why": why}));
        }
    }
    let bytes: u64 = journal.files().iter().filter_map(|f| Some(std::fs::metadata(f).ok()?.len())).sum();
    if args.json {
        render::json(&json!({
            "files": journal.files().len(), "bytes": bytes, "from": span.map(|s| s.0), "until": span.map(|s| s.1),
            "records": kinds, "decisions": decisions, "starts": starts, "gaps": gaps, "torn": torn, "wrong": wrong,
        }))?;
    } else {
        let all: u64 = kinds.values().sum();
        render::line(format!("{} files, {bytes} bytes, {all} records", journal.files().len()))?;
        if let Some((from, until)) = span {
            render::line(format!("from {from:.3} until {until:.3}: {decisions} decisions, {starts} starts"))?;
        }
        for (kind, count) in &kinds {
            render::line(format!("{count:>10} {kind}"))?;
        }
        for gap in &gaps {
            let why = clean(&render::plain(&gap["why"]));
            render::line(format!("gap before {}: {} records are missing ({why})", gap["time"], gap["lost"]))?;
        }
        for t in &torn {
            let file = render::plain(&t["file"]);
            render::line(format!(
                "{file}: ends in the middle of a record at {}, as a kill leaves it",
                t["offset"]
            ))?;
        }
    }
    if wrong.is_empty() { Ok(()) } else { bail!("{}", wrong.join("\n")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feat_80_what_a_job_waited_for_as_text_and_json() {
        let spell =
            |from: f64, until: f64, kind, text: &str| Spell { from, until, kind, text: text.to_owned() };
        let t = 1_795_431_600.0;
        let wait = Wait {
            spells: vec![
                spell(t, t + 0.5, "unseen", "waiting for the next scheduling pass"),
                spell(t + 0.5, t + 600.0, "busy", "insufficient resources: needs 4 nodes"),
                spell(t + 600.0, t + 900.0, "window", "reserved from 2026-11-23T12:00 for maintenance dst"),
                spell(t + 900.0, t + 1000.0, "busy", "insufficient resources: needs 4 nodes"),
            ],
            ended: Ended::Started,
            complete: true,
        };
        let open = Wait { ended: Ended::Waits, complete: false, ..wait.clone() };
        let words = [wait_in_words(JobId(7), &wait), wait_in_words(JobId(7), &open)].join("\n");
        insta::assert_snapshot!(format!("{words}\n{}", render::text(&wait_table(&wait))));
        insta::assert_json_snapshot!(wait_as_json(JobId(7), &open));
    }
}
