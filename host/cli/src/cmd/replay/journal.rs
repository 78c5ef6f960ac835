//! `fluxgate replay --journal`: the passes of a scheduler, made again and compared; or the schedule of another policy.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use fluxgate_engine::{BUILTIN, Policy};
use fluxgate_journal::rerun::{Policies, Verified, verify};
use fluxgate_journal::what_if::{History, JobRun, Schedule};
use fluxgate_journal::{Journal, PolicyRow};
use fluxgate_policy::{Compiled, Digest, Limits};
use fluxgate_sched::Builtin;
use fluxgate_sched::settings::Rules;
use fluxgate_sim::diff::{LISTED_MAX, Pair};
use fluxgate_sim::record::Done;
use serde_json::{Value, json};

use super::args::Replay;
use super::deciders;
use crate::fail::usage;
use crate::policy_source::PolicySource;
use crate::render;

/// Components of a policy source, found by their digests.
pub(in crate::cmd) struct ByDigest {
    source: PolicySource,
    folder: Option<PathBuf>,
    found: Vec<(String, Compiled)>,
}

impl ByDigest {
    /// The components of a folder; without one, those of the default folder.
    pub(crate) fn open(folder: Option<&Path>) -> Result<ByDigest> {
        let source = PolicySource::open(folder)?;
        Ok(ByDigest { source, folder: folder.map(Path::to_owned), found: Vec::new() })
    }

    fn find(&mut self, row: &PolicyRow) -> Result<&Compiled> {
        let same =
            |(limits, c): &(String, Compiled)| *limits == row.limits && c.digest().to_string() == row.digest;
        if let Some(at) = self.found.iter().position(same) {
            return Ok(&self.found[at].1);
        }
        for path in self.source.files().into_values() {
            // A file that cannot be read is not the one.
            let Ok(bytes) = std::fs::read(&path) else { continue };
            if Digest::of(&bytes).to_string() == row.digest {
                // The bounds decide when a policy fails, so they are those of the journal.
                let limits = match row.limits.is_empty() {
                    true => Limits::default(),
                    false => {
                        serde_json::from_str(&row.limits).context("bounds of the policy in the journal")?
                    }
                };
                let source = PolicySource::governed(self.folder.as_deref(), limits, Rules::default())?;
                self.found.push((row.limits.clone(), source.compile(&path.to_string_lossy())?));
                return self.found.last().map(|(_, c)| c).context("it was put there just now");
            }
        }
        bail!(
            "policy {} with the digest {} is not among the {} files of {}; name the folder that has it with --policies",
            row.name,
            row.digest,
            self.source.files().len(),
            self.source
                .folder()
                .map_or_else(|| "any folder of policies".to_owned(), |dir| dir.display().to_string())
        )
    }
}

impl Policies for ByDigest {
    fn make(&mut self, row: &PolicyRow) -> Result<Box<dyn Policy>, String> {
        if row.digest.is_empty() {
            return match row.name == BUILTIN {
                true => Ok(Box::new(Builtin)),
                false => Err(format!("policy {}: it is no component", row.name)),
            };
        }
        let compiled = self.find(row).map_err(|e| format!("{e:#}"))?;
        let made = compiled.instantiate(&row.config).map_err(|e| format!("policy {}: {e}", row.name))?;
        Ok(Box::new(made))
    }
}

/// Run the command.
pub(super) fn run(args: &Replay, path: &Path) -> Result<()> {
    let journal = Journal::open(path)?;
    let source = PolicySource::open(args.policies.as_deref())?;
    if args.policy.is_empty() && !args.queue_policy.is_empty() {
        return Err(usage(
            "--queue-policy: with --journal name who decides the other queues as well: --policy NAME",
        ));
    }
    if !args.policy.is_empty() {
        return what_if(args, path, &journal, &source);
    }
    let mut policies = ByDigest { source, folder: args.policies.clone(), found: Vec::new() };
    let done = verify(&journal, &mut policies, args.selection.from, args.selection.until)?;
    tell(args, &journal, &done)
}

fn tell(args: &Replay, journal: &Journal, done: &Verified) -> Result<()> {
    let (from, until) = done.span.unwrap_or_default();
    if args.json {
        let gaps: Vec<Value> = done
            .gaps
            .iter()
            .map(|(time, lost, why)| json!({"time": time, "lost": lost, "why": why}))
            .collect();
        let torn: Vec<Value> =
            done.torn.iter().map(|(file, bytes)| json!({"file": file, "bytes": bytes})).collect();
        return render::json(&json!({
            "verified": true, "files": journal.files().len(), "records": done.records, "events": done.events,
            "passes": done.passes, "cut": done.cut, "decisions": done.decisions, "starts": done.starts,
            "annotations": done.annotations, "swaps": done.swaps, "breaches": done.breaches,
            "checkpoints": done.checkpoints, "resumed": done.resumed, "lives": done.lives,
            "deadlines": done.deadlines, "gaps": gaps, "torn": torn, "from": from, "until": until,
        }));
    }
    render::line(format!(
        "verified {} passes and {} decisions ({} starts) of {} events: the same, to the byte",
        done.passes, done.decisions, done.starts, done.events
    ))?;
    render::line(format!(
        "from {from:.3} until {until:.3}: {} passes cut, {} swaps, {} breaches, {} annotations",
        done.cut, done.swaps, done.breaches, done.annotations
    ))?;
    if done.resumed > 0 || done.lives > 1 || done.checkpoints > 0 {
        render::line(format!(
            "{} schedulers from their start, {} times on from a checkpoint, {} checkpoints reached in the same state",
            done.lives, done.resumed, done.checkpoints
        ))?;
    }
    for (time, lost, why) in &done.gaps {
        render::line(format!("gap before {time}: {lost} records are missing ({why})"))?;
    }
    for (file, bytes) in &done.torn {
        render::line(format!("{}: {bytes} bytes at its end were left by a kill", file.display()))?;
    }
    if done.deadlines > 0 {
        render::line(format!(
            "{} policies were failed by the clock; that is taken from the journal",
            done.deadlines
        ))?;
    }
    Ok(())
}

/// Figures of one world.
fn figures(world: &Schedule, cores: u64, span: (f64, f64)) -> Value {
    let count = world.runs.len() as f64;
    let waits: Vec<f64> = world.runs.iter().map(|ran| (ran.start - ran.submit).max(0.0)).collect();
    let mean = if count > 0.0 { waits.iter().sum::<f64>() / count } else { 0.0 };
    let busy: f64 = world.runs.iter().map(|ran| (ran.end.min(span.1) - ran.start) * ran.cores as f64).sum();
    let room = (span.1 - span.0) * cores as f64;
    json!({
        "started": world.runs.len(), "waiting": world.waiting.len(), "mean_wait_s": mean,
        "max_wait_s": waits.iter().copied().fold(0.0, f64::max),
        "utilisation": if room > 0.0 { busy / room } else { 0.0 },
        "open": world.runs.iter().filter(|ran| !ran.known).count(),
    })
}

fn done(ran: &JobRun) -> Done {
    Done {
        job: ran.id.0,
        user: ran.user,
        cores: u32::try_from(ran.cores).unwrap_or(u32::MAX),
        submit: ran.submit,
        start: ran.start,
        end: ran.end,
        limit: ran.limit,
        backfilled: false,
    }
}

fn what_if(args: &Replay, path: &Path, journal: &Journal, source: &PolicySource) -> Result<()> {
    let asked = deciders::policies(args, source)?;
    let mut history = History::read(journal, args.selection.from, args.selection.until)?;
    deciders::check_queues(args, &history.queues())?;
    let was = history.schedule();
    let (cores, span) = (history.cores(), history.span);
    let before: Vec<Done> = was.runs.iter().map(done).collect();
    let policies = history.policies.join(", ");
    let mut runs = Vec::new();
    for asked in asked {
        let deciders = asked.recipes.make()?;
        let world = history
            .schedule_with(deciders.default, deciders.queues)
            .with_context(|| format!("replay with {}", asked.label))?;
        runs.push((asked.label, world));
    }
    let mut told = Vec::new();
    for (label, world) in &runs {
        let after: Vec<Done> = world.runs.iter().map(done).collect();
        let view = Pair::new(&before, &after).overview();
        let figures = figures(world, cores, span);
        if args.json {
            let open: Vec<u64> = world.runs.iter().filter(|ran| !ran.known).map(|ran| ran.id.0).collect();
            told.push(json!({
                "policy": label, "figures": figures, "both": view.both, "same": view.same, "only_journal": view.only_a,
                "only_here": view.only_b, "first": view.first, "later_s": view.later, "sooner_s": view.sooner,
                "total_s": view.total, "end_unknown": open, "passes": world.passes, "fuel": world.fuel,
            }));
            continue;
        }
        render::line(format!(
            "{label}: {} jobs start in both, {} at the same time, {} later, {} sooner; {} start only in the journal, {} only here",
            view.both,
            view.same,
            view.later.len(),
            view.sooner.len(),
            view.only_a.len(),
            view.only_b.len()
        ))?;
        for (words, list) in [("later", &view.later), ("sooner", &view.sooner)] {
            for (job, seconds) in list.iter().take(LISTED_MAX) {
                render::line(format!("  job {}: {seconds:.1} s {words}", fluxgate_formats::JobId(*job)))?;
            }
            if list.len() > LISTED_MAX {
                render::line(format!("  and {} more {words}; --json lists all", list.len() - LISTED_MAX))?;
            }
        }
    }
    let all = figures(&was, cores, span);
    if args.json {
        let damaged: Vec<String> = history.damaged.iter().map(ToString::to_string).collect();
        return render::json(&json!({
            "journal": path.display().to_string(), "from": span.0, "until": span.1, "cores": cores,
            "decided": history.policies, "lost": history.lost, "damaged": damaged, "was": all, "runs": told,
        }));
    }
    let mut columns = vec!["FIGURE".to_owned(), format!("{policies}>")];
    columns.extend(runs.iter().map(|(label, _)| format!("{label}>")));
    let names: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut table = render::table(&names);
    let each: Vec<Value> =
        std::iter::once(all).chain(runs.iter().map(|(_, world)| figures(world, cores, span))).collect();
    for key in ["started", "waiting", "mean_wait_s", "max_wait_s", "utilisation", "open"] {
        let values = each.iter().map(|figures| render::number(figures[key].as_f64().unwrap_or_default()));
        table.add_row(std::iter::once(key.to_owned()).chain(values));
    }
    render::line(table)?;
    render::line(
        "open: jobs of which nobody knows how long they run; they are taken to run to the end of the journal",
    )?;
    if history.lost > 0 || !history.damaged.is_empty() {
        render::line(format!(
            "the journal is not whole: {} records are missing, {} files are damaged",
            history.lost,
            history.damaged.len()
        ))?;
    }
    Ok(())
}
