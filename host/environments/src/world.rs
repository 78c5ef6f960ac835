//! The engine's pass as the pass of trained policies needs it, and the [`Player`] of decisions about rows of jobs.
//!
//! This module decides nothing, and must never know rewards.

use fluxgate_engine::{Abilities, JobEvent, JobEventKind, Pass, PolicyError, Refusal};
use fluxgate_networks::features::{Around, Waiting};
use fluxgate_networks::model::Seen;
use fluxgate_networks::pick::{Refused, World};

use crate::deciding::Decider;
use crate::player::{Answer, Player};

/// The player of a [`Decider`]: answers are actions, and observations its rows.
pub struct Rows {
    decider: Box<dyn Decider>,
    /// The observation of the question.
    seen: Seen,
}

impl Rows {
    /// A player before its first pass.
    pub fn new(decider: Box<dyn Decider>) -> Self {
        Rows { decider, seen: Seen::default() }
    }
}

impl Player for Rows {
    fn abilities(&self) -> Abilities {
        Abilities { scheduling: true, observing: true, ..Abilities::default() }
    }

    fn observe(&mut self, _now: f64, events: &[JobEvent]) -> Result<(), PolicyError> {
        for event in events.iter().filter(|event| event.kind == JobEventKind::Ended) {
            self.decider.ended(event.job.0);
        }
        Ok(())
    }

    fn run(&mut self, pass: Box<Pass>) -> (Box<Pass>, Result<bool, PolicyError>) {
        let mut hosted = Hosted { pass, error: None };
        let asks = self.decider.pass(&mut hosted, &mut self.seen);
        (hosted.pass, hosted.error.map_or(Ok(asks), Err))
    }

    fn answer(&mut self, answer: Answer<'_>) -> Result<(), String> {
        let Answer::Action(action) = answer else { return Err("the number of an action".to_owned()) };
        self.decider.answer(action, &self.seen);
        Ok(())
    }

    fn mask(&self, out: &mut Vec<bool>) {
        self.decider.mask(&self.seen, out);
    }

    fn write(&self, values: &mut [f32]) {
        let count = self.seen.values.len().min(values.len());
        values[..count].copy_from_slice(&self.seen.values[..count]);
    }

    fn pad(&self, values: &mut [f32]) {
        let view = self.decider.view();
        let rows = (view.rows * view.set.width()).min(values.len());
        let (rows, others) = values.split_at_mut(rows);
        rows.chunks_exact_mut(view.set.width()).for_each(|row| view.set.pad(row));
        others.fill(0.0);
    }

    fn jobs(&self) -> &[Waiting] {
        &self.seen.jobs
    }

    fn waiting(&self) -> usize {
        self.seen.waiting
    }

    fn beyond(&self) -> u64 {
        self.decider.beyond()
    }
}

/// A pass of the engine; a breach of the contract ends it.
struct Hosted {
    pass: Box<Pass>,
    error: Option<PolicyError>,
}

impl Hosted {
    /// An answer of the engine; after a breach `otherwise`.
    fn ask<T>(&mut self, otherwise: T, question: impl FnOnce(&mut Pass) -> Result<T, PolicyError>) -> T {
        question(&mut self.pass).unwrap_or_else(|error| {
            self.error.get_or_insert(error);
            otherwise
        })
    }
}

fn refused(refusal: Refusal) -> Refused {
    match refusal {
        Refusal::Busy | Refusal::DelaysReservation => Refused::Waits,
        Refusal::Unsatisfiable | Refusal::NotEligible => Refused::Never,
        Refusal::Limit => Refused::Over,
    }
}

impl World for Hosted {
    fn around(&mut self) -> Around {
        around(&self.pass)
    }

    fn jobs(&mut self, out: &mut Vec<Waiting>) {
        if let Err(error) = waiting(&mut self.pass, out) {
            self.error.get_or_insert(error);
        }
    }

    fn fits(&mut self, job: &Waiting) -> bool {
        self.ask(false, |pass| pass.fits(job.candidate))
    }

    fn earliest(&mut self, job: &Waiting) -> f64 {
        self.ask(f64::INFINITY, |pass| pass.earliest(job.candidate))
    }

    fn start(&mut self, job: &Waiting) -> Result<(), Refused> {
        self.ask(Err(Refusal::Limit), |pass| pass.start(job.candidate, None)).map_err(refused)
    }

    fn reserve(&mut self, job: &Waiting) -> Result<f64, Refused> {
        self.ask(Err(Refusal::Limit), |pass| pass.reserve(job.candidate)).map_err(refused)
    }
}

/// Time and counts of a pass, staged decisions included.
pub(crate) fn around(pass: &Pass) -> Around {
    let totals = pass.totals();
    Around {
        now: pass.now(),
        cores: totals.cores,
        free_cores: totals.free_cores,
        free_nodes: totals.free_nodes,
        waiting: pass.job_counts().1,
        gap: 0.0,
    }
}

/// The waiting jobs of a pass, in the order of the queue.
pub(crate) fn waiting(pass: &mut Pass, out: &mut Vec<Waiting>) -> Result<(), PolicyError> {
    pass.rewind();
    while let Some(candidate) = pass.next() {
        let job = pass.describe(candidate)?;
        out.push(Waiting {
            candidate,
            id: job.id.0,
            submit: job.t_submit,
            duration: job.duration,
            cores: job.cores,
            nodes: job.nodes,
            user: job.userid,
        });
    }
    Ok(())
}
