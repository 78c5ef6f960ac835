//! Who decides at one place, all queues without a policy of their own or one queue: the one in charge, those before it,
//! who is wanted, and who failed there.
//!
//! Time is a parameter. Must never know engines or protocol.

use fluxgate_engine::PolicyError;
use serde_json::{Value, json};

use super::contain::{Out, Records};
use super::roster::{By, Choice};
use super::settings::Guard;

/// Most policies remembered for rollback.
const HISTORY_MAX: usize = 64;

/// See the module text.
pub(crate) struct Chair {
    active: Choice,
    /// Who decided before, the latest last.
    history: Vec<Choice>,
    /// Who is to decide, as a person or the configuration last said.
    wanted: Choice,
    /// The active one is there only because another failed.
    fallback: bool,
    pub(super) records: Records,
    /// How often a policy came back by itself, and how often another was gone back to.
    returns: u64,
    rollbacks: u64,
}

impl Chair {
    pub(crate) fn new(first: Choice) -> Chair {
        Chair {
            active: first.clone(),
            history: Vec::new(),
            wanted: first,
            fallback: false,
            records: Records::default(),
            returns: 0,
            rollbacks: 0,
        }
    }

    /// Who decides.
    pub(crate) fn active(&self) -> &Choice {
        &self.active
    }

    /// Who is to decide.
    pub(crate) fn wanted(&self) -> &Choice {
        &self.wanted
    }

    /// This one decides from now on. With `remember`, a rollback leads to the one before.
    pub(crate) fn activated(&mut self, choice: Choice, remember: bool, by: By, now: f64) {
        match by {
            By::Start | By::Person => {
                self.records.pardon(choice.name());
                self.wanted = choice.clone();
            }
            By::Failure => self.rollbacks += 1,
            By::Return => {
                self.records.returned(choice.name(), now);
                self.returns += 1;
            }
        }
        // Whoever only stood in is nobody to go back to.
        let stood_in = std::mem::replace(&mut self.fallback, false) && by == By::Return;
        let before = std::mem::replace(&mut self.active, choice);
        if remember && !stood_in {
            self.history.push(before);
            if self.history.len() > HISTORY_MAX {
                self.history.remove(0);
            }
        }
    }

    /// The running policy failed; until another takes over, none decides or the built-in one.
    pub(crate) fn active_failed(&mut self, name: &str, error: &PolicyError, now: f64, guard: &Guard) -> Out {
        self.active = Choice::Builtin;
        self.fallback = true;
        self.failed(name, error, now, guard)
    }

    /// The policy of a starting scheduler could not take over.
    pub(crate) fn start_failed(&mut self, choice: Choice) {
        self.wanted = choice;
        self.fallback = true;
    }

    /// A policy failed, running or on its way. How long it is out.
    pub(crate) fn failed(&mut self, name: &str, error: &PolicyError, now: f64, guard: &Guard) -> Out {
        self.records.failed(name, error, now, guard)
    }

    /// A policy broke a rule of the site.
    pub(crate) fn expelled(&mut self, name: &str, kind: &'static str, reason: &str, now: f64) {
        self.records.expelled(name, kind, reason, now);
    }

    /// Does somebody decide, or nobody, only because another failed?
    pub(crate) fn is_fallback(&self) -> bool {
        self.fallback
    }

    /// Whoever is wanted, was out, and may come back at this time.
    pub(crate) fn due(&self, now: f64) -> Option<Choice> {
        self.next_due().filter(|time| *time <= now).map(|_| self.wanted.clone())
    }

    /// When [`Chair::due`] has somebody next.
    pub(crate) fn next_due(&self) -> Option<f64> {
        match self.records.out(self.wanted.name()) {
            Some(Out::Until(time)) if self.fallback || self.active.name() != self.wanted.name() => Some(time),
            _ => None,
        }
    }

    /// Whoever decided before the active one and can be trusted; removed from the history.
    pub(crate) fn previous(&mut self, now: f64) -> Option<Choice> {
        let records = &self.records;
        let trusted = |choice: &Choice| records.trusted(choice.name(), now);
        std::iter::from_fn(|| self.history.pop()).find(trusted)
    }

    /// Was there anybody before?
    pub(crate) fn has_history(&self) -> bool {
        !self.history.is_empty()
    }

    /// The way back to [`Chair::previous`] was not taken after all.
    pub(crate) fn keep(&mut self, choice: Choice) {
        self.history.push(choice);
    }

    /// Nobody decided here before: the scheduler begins anew.
    pub(crate) fn restart(&mut self, first: Choice) {
        self.active = first;
    }

    /// For `stats-get`.
    pub(crate) fn containment(&self) -> Value {
        json!({
            "wanted": self.wanted.name(), "breaches": self.records.breaches(),
            "rollbacks": self.rollbacks, "returns": self.returns,
        })
    }
}
