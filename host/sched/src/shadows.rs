//! Shadows beside the scheduler: each candidate follows events that the scheduler has dealt with, as work of its own, so that
//! it can be slow, fail or hang without keeping the schedule waiting.
//!
//! Notes wait until the shadow is there to take them; then it leaves with them on a [`Round`] and comes back with what it
//! found. The shadow itself, and its comparison, are in the engine. Nothing here ever reaches the ledger.

mod round;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use fluxgate_engine::{Action, Config, Decisions, Engine, Event, Shadow};
use fluxgate_formats::JobId;
use fluxgate_wire::session::ControlRequest;
use serde_json::{Value, json};

use crate::policy_choice::PolicyChoice;
use crate::settings::Guard;
pub(crate) use round::Round;
use round::{Note, Seen, cost};

/// Most shadows at a time.
const SHADOWS_MAX: usize = 4;
/// Most notes that wait for a shadow; then it is stopped.
const NOTES_MAX: usize = 65_536;
/// Most notes that a shadow leaves with.
const ROUND_MAX: usize = 4_096;
/// Waiting jobs that are handed over between two turns of the scheduler.
const PORTION: usize = 2_048;

/// One candidate.
struct Candidate {
    /// Distinguishes it from others of the same name, before it and after.
    number: u64,
    choice: PolicyChoice,
    since: f64,
    /// The shadow, unless it is on a round.
    shadow: Option<Shadow>,
    notes: VecDeque<Note>,
    /// Its figures as of its last round.
    seen: Seen,
    /// Cuts the pass that the shadow makes, once it has ended.
    interrupt: Arc<AtomicBool>,
    /// The last waiting job that was handed over, while there are more.
    copying: Option<Option<JobId>>,
}

impl Candidate {
    fn note(&mut self, note: Note) {
        if self.notes.len() < NOTES_MAX {
            self.notes.push_back(note);
        } else {
            self.end("behind", format!("more than {NOTES_MAX} events behind"));
        }
    }

    fn end(&mut self, kind: &'static str, why: String) {
        self.interrupt.store(true, Ordering::Relaxed);
        self.copying = None;
        self.seen.ended.get_or_insert((kind, why));
    }

    /// The shadow leaves with the notes that wait, if it is there and some do.
    fn leaves(&mut self) -> Option<Round> {
        if self.notes.is_empty() {
            return None;
        }
        let shadow = self.shadow.take()?;
        let notes = self.notes.drain(..self.notes.len().min(ROUND_MAX)).collect();
        let (seen, interrupt) = (self.seen.clone(), Arc::clone(&self.interrupt));
        Some(Round { number: self.number, shadow, notes, seen, interrupt, answers: Vec::new() })
    }

    /// The shadow is back from a round.
    fn returns(&mut self, round: Round) {
        let ended = self.seen.ended.take();
        if let (None, Some((kind, why))) = (&ended, &round.seen.ended) {
            fluxgate_log::log!(ShadowEnded, policy = round.shadow.name(), kind, "shadow ended: {why}");
        }
        self.seen = round.seen;
        self.seen.ended = ended.or(self.seen.ended.take());
        self.shadow = Some(round.shadow);
    }
}

/// A candidate's name, and the queue whose policy it would be; `None` for the default one.
type Key = (String, Option<String>);

/// All candidates.
#[derive(Default)]
pub(crate) struct Shadows {
    candidates: BTreeMap<Key, Candidate>,
    /// Those that were stopped while their shadows were on a round, or had requests to answer.
    stopped: Vec<Candidate>,
    begun: u64,
}

/// A candidate in words.
fn words((name, queue): &Key) -> String {
    match queue {
        None => name.clone(),
        Some(queue) => format!("{name} (queue {queue})"),
    }
}

impl Shadows {
    /// Begin a shadow.
    pub(crate) fn begin(
        &mut self,
        choice: PolicyChoice,
        queue: Option<&str>,
        engine: &Engine,
        now: f64,
    ) -> Result<()> {
        let key: Key = (choice.name().to_owned(), queue.map(str::to_owned));
        if self.candidates.contains_key(&key) {
            bail!("{} is a shadow already; 'policy shadow --stop {}' ends it", words(&key), key.0);
        }
        if self.candidates.len() >= SHADOWS_MAX {
            bail!("{SHADOWS_MAX} shadows are there already; stop one first");
        }
        let mut shadow = Shadow::new(engine.shadow_base(), choice.instantiate()?, queue);
        let interrupt = Arc::new(AtomicBool::new(false));
        shadow.set_interrupt(Arc::clone(&interrupt));
        self.begun += 1;
        let candidate = Candidate {
            number: self.begun,
            choice,
            since: now,
            shadow: Some(shadow),
            notes: VecDeque::new(),
            seen: Seen::default(),
            interrupt,
            copying: Some(None),
        };
        self.candidates.insert(key, candidate);
        Ok(())
    }

    /// The candidate of this name, and for this queue where there are several.
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

    /// End a shadow.
    pub(crate) fn stop(&mut self, name: &str, queue: Option<&str>) -> Result<()> {
        let key = self.find(name, queue)?;
        let candidate = self.candidates.remove(&key);
        candidate.into_iter().for_each(|candidate| self.end(candidate));
        Ok(())
    }

    /// Does a shadow of this policy follow somewhere?
    pub(crate) fn follows(&self, name: &str) -> bool {
        self.candidates.keys().any(|(known, _)| known == name)
    }

    /// End all shadows: the scheduler begins anew.
    pub(crate) fn clear(&mut self) {
        std::mem::take(&mut self.candidates).into_values().for_each(|candidate| self.end(candidate));
    }

    /// A candidate ends when its shadow has answered all requests.
    fn end(&mut self, mut candidate: Candidate) {
        candidate.end("stopped", "it was stopped".to_owned());
        candidate.notes.retain(|note| matches!(note, Note::Ask(..)));
        self.stopped.push(candidate);
    }

    /// The shadows that leave on a round, and those that are not needed any more.
    pub(crate) fn leaving(&mut self) -> (Vec<Round>, Vec<Shadow>) {
        let done = |candidate: &Candidate| candidate.shadow.is_some() && candidate.notes.is_empty();
        let (done, stopped) = std::mem::take(&mut self.stopped).into_iter().partition(done);
        self.stopped = stopped;
        let done = Vec::into_iter(done).filter_map(|candidate| candidate.shadow).collect();
        let all = self.candidates.values_mut().chain(&mut self.stopped);
        (all.filter_map(Candidate::leaves).collect(), done)
    }

    /// A shadow is back from a round.
    pub(crate) fn returned(&mut self, round: Round) {
        let mut all = self.candidates.values_mut().chain(&mut self.stopped);
        if let Some(candidate) = all.find(|candidate| candidate.number == round.number) {
            candidate.returns(round);
        }
    }

    /// Is there no shadow?
    pub(crate) fn is_empty(&self) -> bool {
        self.candidates.is_empty()
    }

    fn following(&mut self) -> impl Iterator<Item = &mut Candidate> {
        self.candidates.values_mut().filter(|candidate| candidate.seen.ended.is_none())
    }

    /// Are there waiting jobs still to be handed over?
    pub(crate) fn copying(&self) -> bool {
        self.candidates.values().any(|candidate| candidate.copying.is_some())
    }

    /// Hand over one more portion of the jobs that wait.
    pub(crate) fn copy(&mut self, engine: &Engine) {
        for candidate in self.following() {
            let Some(after) = candidate.copying else { continue };
            let jobs = engine.shadow_jobs(after, PORTION);
            candidate.copying = jobs.last().map(Some);
            if candidate.copying.is_some() {
                candidate.note(Note::Jobs(jobs));
            }
        }
        for candidate in self.candidates.values_mut() {
            if candidate.seen.ended.is_some() {
                candidate.copying = None;
            }
        }
    }

    /// The engine took in this event, and answered with these actions.
    pub(crate) fn event(&mut self, event: &Event, actions: &[Action], now: f64) {
        let refused = actions.iter().any(|action| matches!(action, Action::Reply { result: Err(_), .. }));
        if refused || matches!(event, Event::Audit { .. } | Event::Feasibility { .. }) {
            return;
        }
        for candidate in self.following() {
            candidate.note(Note::Event(Box::new(event.clone()), now));
        }
    }

    /// The engine made its passes, with these decisions.
    pub(crate) fn passed(&mut self, now: f64, passed: &Decisions) {
        for candidate in self.following() {
            candidate.note(Note::Passed(now, passed.clone()));
        }
    }

    /// There may be other queues now, or other policies of their own.
    pub(crate) fn queues(&mut self, engine: &Engine) {
        for candidate in self.following() {
            let queues = engine.queue_names().map(|(name, own)| (name.to_owned(), own));
            candidate.note(Note::Queues(queues.collect()));
        }
    }

    /// The engine has other settings.
    pub(crate) fn settings(&mut self, config: &Config) {
        for candidate in self.following() {
            candidate.note(Note::Settings(Box::new(config.clone())));
        }
    }

    /// Have a shadow answer what it found; `Err` when there is none of this name.
    pub(crate) fn ask(
        &mut self,
        name: &str,
        queue: Option<&str>,
        job: Option<JobId>,
        request: &ControlRequest,
        guard: &Guard,
    ) -> Result<()> {
        let key = self.find(name, queue)?;
        let Some(candidate) = self.candidates.get_mut(&key) else { bail!("{} is no shadow", words(&key)) };
        let head = json!({
            "name": name, "queue": key.1, "since": candidate.since, "ended": candidate.seen.ended.as_ref().map(|(_, why)| why),
            "gate": gate(&candidate.seen, guard),
        });
        if candidate.notes.len() >= NOTES_MAX {
            bail!("{name} does not answer; it is behind");
        }
        candidate.notes.push_back(Note::Ask(Box::new(request.clone()), job, head));
        Ok(())
    }

    /// The candidate of this name with the queue that it is for, if its gate holds or is not asked for.
    pub(crate) fn promote(
        &self,
        name: &str,
        queue: Option<&str>,
        force: bool,
        guard: &Guard,
    ) -> Result<(PolicyChoice, Option<String>)> {
        let key = self.find(name, queue).with_context(|| format!("'policy shadow {name}' first"))?;
        let candidate = &self.candidates[&key];
        let reasons = gate(&candidate.seen, guard);
        if !force && !reasons.is_empty() {
            bail!("{} is not promoted: {}; --force overrides", words(&key), reasons.join("; "));
        }
        Ok((candidate.choice.clone(), key.1))
    }

    /// For `metrics-get`.
    pub(crate) fn figures(&self) -> Vec<ShadowFigures<'_>> {
        let figures = self.candidates.iter().map(|((policy, queue), candidate)| ShadowFigures {
            policy,
            queue: queue.as_deref().unwrap_or_default(),
            passes: candidate.seen.passes,
            differing: candidate.seen.share,
            behind: candidate.notes.len(),
            ended: candidate.seen.ended.is_some(),
        });
        figures.collect()
    }

    /// For `policy list` and `stats-get`.
    pub(crate) fn summary(&self, guard: &Guard) -> Value {
        let all = self.candidates.iter().map(|((name, queue), candidate)| {
            let seen = &candidate.seen;
            json!({
                "name": name, "queue": queue, "since": candidate.since, "passes": seen.passes,
                "copying": candidate.copying.is_some(), "differing": seen.share,
                "cost": cost(&seen.cost, seen.nanos), "ended": seen.ended.as_ref().map(|(_, why)| why),
                "ended_by": seen.ended.as_ref().map(|(kind, _)| kind), "gate": gate(seen, guard),
            })
        });
        all.collect()
    }
}

/// Figures of a shadow.
pub(crate) struct ShadowFigures<'a> {
    policy: &'a str,
    /// Empty for the default.
    queue: &'a str,
    pub(crate) passes: u64,
    /// Part of the jobs that would have started at another time.
    pub(crate) differing: f64,
    /// Events and passes that it has still to follow.
    pub(crate) behind: usize,
    pub(crate) ended: bool,
}

impl ShadowFigures<'_> {
    /// The labels of its figures.
    pub(crate) fn labels(&self) -> [(&'static str, &str); 2] {
        [("queue", self.queue), ("policy", self.policy)]
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
