//! Shadows beside the scheduler: each candidate on a thread of its own, fed with what happened after it was dealt
//! with, so that it can be slow, fail or hang without anybody noticing.
//!
//! What a shadow is, and what it compares, is in the engine. Nothing here ever reaches the ledger.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use fluxgate_engine::{
    Action, Config, Engine, Event, Passed, PolicyCost, Shadow, ShadowError, ShadowJobs, Tally, When,
};
use fluxgate_formats::JobId;
use fluxgate_wire::proto::errno;
use fluxgate_wire::session::ControlRequest;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;

use super::policies::Loaded;
use super::roster::Choice;
use super::settings::Guard;

/// Most shadows at a time.
const SHADOWS_MAX: usize = 4;
/// Most notes that a shadow may be behind; then it is stopped.
const NOTES_MAX: usize = 65_536;
/// Waiting jobs that are handed over between two turns of the scheduler.
const PORTION: usize = 2_048;
/// Most jobs that `policy diff` names.
const NAMED_MAX: usize = 50;

/// What a shadow is told.
enum Note {
    Jobs(ShadowJobs),
    Event(Box<Event>, f64),
    Passed(f64, Passed),
    /// The queues there are, and whether each has a policy of its own.
    Queues(Vec<(String, bool)>),
    Settings(Box<Config>),
    Ask(Box<ControlRequest>, Option<JobId>, Value),
}

/// What the scheduler may see without asking.
#[derive(Debug, Clone, Default)]
struct Seen {
    passes: u64,
    share: f64,
    waits: (f64, f64),
    cost: PolicyCost,
    nanos: u64,
    /// Why it ended: the limit or kind, and the words.
    ended: Option<(&'static str, String)>,
}

/// One candidate.
struct Candidate {
    choice: Choice,
    since: f64,
    notes: SyncSender<Note>,
    seen: Arc<Mutex<Seen>>,
    interrupt: Arc<AtomicBool>,
    /// The last waiting job that was handed over, while there are more.
    copying: Option<Option<JobId>>,
}

impl Candidate {
    fn seen(&self) -> Seen {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn tell(&mut self, note: Note) {
        match self.notes.try_send(note) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => self.end("behind", format!("more than {NOTES_MAX} events behind")),
            Err(TrySendError::Disconnected(_)) => self.end("gone", "its thread ended".to_owned()),
        }
    }

    fn end(&mut self, kind: &'static str, why: String) {
        self.interrupt.store(true, Ordering::Relaxed);
        self.copying = None;
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).ended.get_or_insert((kind, why));
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        // Its thread ends when it has dealt with what is on its way; nobody waits for that.
        self.interrupt.store(true, Ordering::Relaxed);
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .ended
            .get_or_insert(("stopped", "it was stopped".to_owned()));
    }
}

/// A candidate's name, and the queue whose policy it would be; `None` for the default one.
type Key = (String, Option<String>);

/// All candidates.
#[derive(Default)]
pub(super) struct Shadows {
    candidates: BTreeMap<Key, Candidate>,
}

/// A candidate in words.
fn words((name, queue): &Key) -> String {
    match queue {
        None => name.clone(),
        Some(queue) => format!("{name} (queue {queue})"),
    }
}

impl Shadows {
    /// Begin one.
    pub(super) fn begin(
        &mut self,
        choice: Choice,
        queue: Option<&str>,
        engine: &Engine,
        now: f64,
        answers: UnboundedSender<Loaded>,
    ) -> Result<()> {
        let key: Key = (choice.name().to_owned(), queue.map(str::to_owned));
        if self.candidates.contains_key(&key) {
            bail!("{} is a shadow already; 'policy shadow --stop {}' ends it", words(&key), key.0);
        }
        if self.candidates.len() >= SHADOWS_MAX {
            bail!("{SHADOWS_MAX} shadows are there already; stop one first");
        }
        let policy = choice.instantiate()?;
        let (notes, inbox) = sync_channel(NOTES_MAX);
        let seen = Arc::new(Mutex::new(Seen::default()));
        let interrupt = Arc::new(AtomicBool::new(false));
        let base = engine.shadow_base();
        let (theirs, stop, of) = (Arc::clone(&seen), Arc::clone(&interrupt), key.1.clone());
        std::thread::Builder::new()
            .name("shadow".to_owned())
            .spawn(move || follow(Shadow::new(base, policy, of.as_deref()), &inbox, &theirs, stop, &answers))
            .context("a thread for the shadow")?;
        let copying = Some(None);
        self.candidates.insert(key, Candidate { choice, since: now, notes, seen, interrupt, copying });
        Ok(())
    }

    /// The one of this name, and for this queue where there are several.
    fn find(&self, name: &str, queue: Option<&str>) -> Result<Key> {
        let key: Key = (name.to_owned(), queue.map(str::to_owned));
        let like: Vec<&Key> = self.candidates.keys().filter(|known| known.0 == name).collect();
        match like.as_slice() {
            _ if self.candidates.contains_key(&key) => Ok(key),
            [one] if queue.is_none() => Ok((*one).clone()),
            [_, _, ..] if queue.is_none() => {
                bail!("{name} is a shadow for several queues; say which with --queue")
            }
            _ => {
                let known: Vec<String> = self.candidates.keys().map(words).collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                bail!("{} is no shadow; shadows are: {known}", words(&key))
            }
        }
    }

    /// End one.
    pub(super) fn stop(&mut self, name: &str, queue: Option<&str>) -> Result<()> {
        let key = self.find(name, queue)?;
        self.candidates.remove(&key);
        Ok(())
    }

    /// End all: the scheduler begins anew.
    pub(super) fn clear(&mut self) {
        self.candidates.clear();
    }

    /// Nobody to tell?
    pub(super) fn is_empty(&self) -> bool {
        self.candidates.is_empty()
    }

    fn following(&mut self) -> impl Iterator<Item = &mut Candidate> {
        self.candidates.values_mut().filter(|candidate| candidate.seen().ended.is_none())
    }

    /// Are there waiting jobs still to be handed over?
    pub(super) fn copying(&self) -> bool {
        self.candidates.values().any(|candidate| candidate.copying.is_some())
    }

    /// Hand over one more portion of the jobs that wait.
    pub(super) fn copy(&mut self, engine: &Engine) {
        for candidate in self.following() {
            let Some(after) = candidate.copying else { continue };
            let jobs = engine.shadow_jobs(after, PORTION);
            candidate.copying = jobs.last().map(Some);
            if candidate.copying.is_some() {
                candidate.tell(Note::Jobs(jobs));
            }
        }
        for candidate in self.candidates.values_mut() {
            if candidate.seen().ended.is_some() {
                candidate.copying = None;
            }
        }
    }

    /// The engine took this in, and answered so.
    pub(super) fn event(&mut self, event: &Event, actions: &[Action], now: f64) {
        let refused = actions.iter().any(|action| matches!(action, Action::Reply { result: Err(_), .. }));
        if refused || matches!(event, Event::Audit { .. } | Event::Feasibility { .. }) {
            return;
        }
        for candidate in self.following() {
            candidate.tell(Note::Event(Box::new(event.clone()), now));
        }
    }

    /// The engine made its passes, and decided this.
    pub(super) fn passed(&mut self, now: f64, passed: &Passed) {
        for candidate in self.following() {
            candidate.tell(Note::Passed(now, passed.clone()));
        }
    }

    /// There may be other queues now, or other policies of their own.
    pub(super) fn queues(&mut self, engine: &Engine) {
        for candidate in self.following() {
            let queues = engine.queue_names().map(|(name, own)| (name.to_owned(), own));
            candidate.tell(Note::Queues(queues.collect()));
        }
    }

    /// The engine has other settings.
    pub(super) fn settings(&mut self, config: &Config) {
        for candidate in self.following() {
            candidate.tell(Note::Settings(Box::new(config.clone())));
        }
    }

    /// Have a shadow answer what it found; `Err` when there is none of this name.
    pub(super) fn ask(
        &mut self,
        name: &str,
        queue: Option<&str>,
        job: Option<JobId>,
        request: &ControlRequest,
        guard: &Guard,
    ) -> Result<()> {
        let key = self.find(name, queue)?;
        let candidate = &self.candidates[&key];
        let head = json!({
            "name": name, "queue": key.1, "since": candidate.since, "ended": candidate.seen().ended.map(|(_, why)| why),
            "gate": gate(&candidate.seen(), guard),
        });
        let note = Note::Ask(Box::new(request.clone()), job, head);
        candidate.notes.try_send(note).map_err(|_| anyhow::anyhow!("{name} does not answer; it is behind"))
    }

    /// The candidate of this name with the queue that it is for, if its gate holds or is not asked for.
    pub(super) fn promote(
        &self,
        name: &str,
        queue: Option<&str>,
        force: bool,
        guard: &Guard,
    ) -> Result<(Choice, Option<String>)> {
        let key = self.find(name, queue).with_context(|| format!("'policy shadow {name}' first"))?;
        let candidate = &self.candidates[&key];
        let reasons = gate(&candidate.seen(), guard);
        if !force && !reasons.is_empty() {
            bail!("{} is not promoted: {}; --force overrides", words(&key), reasons.join("; "));
        }
        Ok((candidate.choice.clone(), key.1))
    }

    /// For `policy list` and `stats-get`.
    pub(super) fn tell(&self, guard: &Guard) -> Value {
        let told = self.candidates.iter().map(|((name, queue), candidate)| {
            let seen = candidate.seen();
            json!({
                "name": name, "queue": queue, "since": candidate.since, "passes": seen.passes,
                "copying": candidate.copying.is_some(), "differing": seen.share,
                "cost": cost(&seen.cost, seen.nanos), "ended": seen.ended.as_ref().map(|(_, why)| why),
                "ended_by": seen.ended.as_ref().map(|(kind, _)| kind), "gate": gate(&seen, guard),
            })
        });
        told.collect()
    }
}

/// Why a candidate may not be promoted; empty when it may.
fn gate(seen: &Seen, guard: &Guard) -> Vec<String> {
    let mut reasons = Vec::new();
    if let Some((_, why)) = &seen.ended {
        reasons.push(format!("it ended: {why}"));
    }
    let least = guard.promote_passes_min;
    if seen.passes < least {
        reasons.push(format!("{} passes without a breach, promote-passes-min is {least}", seen.passes));
    }
    let most = guard.promote_differences_max;
    if seen.share * 100.0 > most as f64 {
        reasons.push(format!(
            "{:.1} % of the jobs would have started at another time, promote-differences-max is {most}",
            seen.share * 100.0
        ));
    }
    let (most, (live, shadow)) = (guard.promote_wait_max, seen.waits);
    if most > 0 && shadow * 100.0 > live * most as f64 {
        reasons.push(format!(
            "jobs would have waited {:.0} % of what they did, promote-wait-max is {most}",
            shadow * 100.0 / live.max(f64::MIN_POSITIVE)
        ));
    }
    reasons
}

fn cost(cost: &PolicyCost, nanos: u64) -> Value {
    json!({
        "calls": cost.calls, "fuel": cost.fuel, "memory": cost.memory, "milliseconds": cost.nanos as f64 / 1e6,
        "pass_milliseconds": nanos as f64 / 1e6,
    })
}

/// The life of a shadow, on its thread.
fn follow(
    mut shadow: Shadow,
    inbox: &Receiver<Note>,
    seen: &Mutex<Seen>,
    interrupt: Arc<AtomicBool>,
    answers: &UnboundedSender<Loaded>,
) {
    shadow.set_interrupt(interrupt);
    let look = || seen.lock().unwrap_or_else(PoisonError::into_inner);
    while let Ok(note) = inbox.recv() {
        if let Note::Ask(request, job, head) = note {
            // Without a receiver the scheduler is gone, and so is whoever asked.
            let _ = answers.send(Loaded::Shadow(request, answer(&shadow, job, head)));
            continue;
        }
        if look().ended.is_some() {
            continue;
        }
        match note {
            Note::Jobs(jobs) => shadow.take(jobs),
            Note::Event(event, now) => shadow.step(*event, now),
            Note::Settings(config) => shadow.reconfigure(*config),
            Note::Queues(queues) => {
                shadow.queues(queues.iter().map(|(name, own)| (name.as_str(), *own)));
            }
            Note::Passed(now, live) => {
                let begin = Instant::now();
                let passed = shadow.passed(now, &live);
                let took = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
                let mut seen = look();
                let tally = shadow.tally();
                (seen.passes, seen.share, seen.waits) = (tally.passes, tally.share_differing(), tally.waits);
                seen.cost = shadow.cost();
                seen.nanos = seen.nanos.saturating_add(took);
                if let Err(error) = passed {
                    let kind = match &error {
                        ShadowError::Failed(error) => error.limit(),
                        ShadowError::LostTrack { .. } => "lost-track",
                    };
                    tracing::warn!(policy = shadow.name(), kind, "shadow ended: {error}");
                    seen.ended.get_or_insert((kind, error.to_string()));
                }
            }
            Note::Ask(..) => {}
        }
    }
}

fn answer(shadow: &Shadow, job: Option<JobId>, mut head: Value) -> Result<Value, (i32, String)> {
    let tally = shadow.tally();
    let one = |id: JobId| {
        let found = tally.difference(id)?;
        Some(json!({
            "id": id.0, "job": id.to_string(), "t_submit": found.t_submit, "live": found.live,
            "shadow": match found.shadow {
                When::Started(time) | When::Promised(time) => json!(time),
                When::Later => Value::Null,
            },
            "seconds": found.seconds(),
        }))
    };
    if let Some(id) = job {
        let waits = || {
            let (proposed, promised) = (tally.proposed(id), tally.promised(id));
            (proposed.is_some() || promised.is_some()).then(|| {
                json!({"id": id.0, "job": id.to_string(), "live": null, "shadow": proposed, "promised": promised})
            })
        };
        head["job"] = one(id).or_else(waits).ok_or_else(|| {
            (errno::EINVAL, format!("job {id}: nothing was decided about it since the shadow began"))
        })?;
        return Ok(head);
    }
    let mean = |(count, sum): (u64, f64)| json!({"jobs": count, "mean_seconds": if count > 0 { sum / count as f64 } else { 0.0 }});
    let known = tally.jobs - tally.unknown;
    let wait = |sum: f64| if known > 0 { json!(sum / known as f64) } else { Value::Null };
    let utilisation = tally.utilisation();
    let mut most: Vec<_> = tally.differences().filter(|d| d.seconds() != Some(0.0)).collect();
    most.sort_by(|a, b| {
        let size = |d: &fluxgate_engine::Difference| d.seconds().map_or(f64::INFINITY, f64::abs);
        size(b).total_cmp(&size(a)).then(a.id.cmp(&b.id))
    });
    head["passes"] = tally.passes.into();
    head["passes_differing"] = tally.differing.into();
    head["jobs"] = summary(tally);
    head["earlier"] = mean(tally.earlier);
    head["later"] = mean(tally.later);
    head["mean_wait"] = json!({"live": wait(tally.waits.0), "shadow": wait(tally.waits.1)});
    head["utilisation"] = json!({"live": utilisation.map(|u| u.0), "shadow": utilisation.map(|u| u.1)});
    head["cost"] = cost(&shadow.cost(), 0);
    head["differences"] = most.into_iter().take(NAMED_MAX).filter_map(|d| one(d.id)).collect();
    Ok(head)
}

fn summary(tally: &Tally) -> Value {
    json!({
        "compared": tally.jobs, "same": tally.same, "later_unknown": tally.unknown,
        "would_run": tally.waiting(), "share_differing": tally.share_differing(),
    })
}
