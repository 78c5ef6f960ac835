//! The engine's pass as the pass of a trained policy needs it, and the policy that makes its passes by a [`Decider`].
//!
//! This module decides nothing.

use std::sync::{Arc, Mutex, PoisonError};

use fluxgate_engine::{Abilities, JobEvent, JobEventKind, Pass, Policy, PolicyCost, PolicyError, Refusal};
use fluxgate_networks::features::{Around, Waiting};
use fluxgate_networks::model::Seen;
use fluxgate_networks::pick::{Refused, World};

use crate::deciding::Decider;

/// What an environment and its policy share.
pub(crate) struct Desk {
    /// Makes the passes.
    pub(crate) decider: Box<dyn Decider>,
    /// What is shown with the question.
    pub(crate) seen: Seen,
    /// True if a question waits for an answer.
    pub(crate) asks: bool,
}

/// The policy of an environment.
pub(crate) struct Deciding {
    pub(crate) desk: Arc<Mutex<Desk>>,
}

impl Policy for Deciding {
    fn name(&self) -> &str {
        "environment"
    }

    fn abilities(&self) -> Abilities {
        Abilities { scheduling: true, observing: true, ..Abilities::default() }
    }

    fn observe(&mut self, _now: f64, events: &[JobEvent]) -> Result<(), PolicyError> {
        let mut desk = self.desk.lock().unwrap_or_else(PoisonError::into_inner);
        for event in events.iter().filter(|event| event.kind == JobEventKind::Ended) {
            desk.decider.ended(event.job.0);
        }
        Ok(())
    }

    fn run(&mut self, pass: Pass) -> (Pass, Result<(), PolicyError>) {
        let mut desk = self.desk.lock().unwrap_or_else(PoisonError::into_inner);
        let Desk { decider, seen, asks } = &mut *desk;
        let mut hosted = Hosted { pass, error: None };
        *asks = decider.pass(&mut hosted, seen);
        (hosted.pass, hosted.error.map_or(Ok(()), Err))
    }

    fn cost(&self) -> PolicyCost {
        PolicyCost::default()
    }
}

/// A pass of the engine; a breach of the contract ends it.
struct Hosted {
    pass: Pass,
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
        let totals = self.pass.totals();
        Around {
            now: self.pass.now(),
            cores: totals.cores,
            free_cores: totals.free_cores,
            free_nodes: totals.free_nodes,
            waiting: self.pass.job_counts().1,
            gap: 0.0,
        }
    }

    fn jobs(&mut self, out: &mut Vec<Waiting>) {
        self.pass.rewind();
        while let Some(candidate) = self.pass.next() {
            let Some(job) = self.ask(None, |pass| pass.describe(candidate).map(Some)) else { return };
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
