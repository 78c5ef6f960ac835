//! The policies of one policy scope (all queues without a policy of their own, or one queue): the active one, those before it,
//! the one that is wanted, and those that failed there.
//!
//! Time is a parameter. Must never know engines or protocol.

use fluxgate_engine::PolicyError;
use serde_json::{Value, json};

use crate::policy_choice::{Origin, PolicyChoice};
use crate::quarantine::{Out, Records};
use crate::settings::Guard;

/// Most policies remembered for rollback.
const HISTORY_MAX: usize = 64;

/// See the module text.
pub(crate) struct PolicyHistory {
    active: PolicyChoice,
    /// The policies that were active before, the latest last.
    history: Vec<PolicyChoice>,
    /// The policy that a person or the configuration last asked for.
    wanted: PolicyChoice,
    /// The active one is there only because another failed.
    fallback: bool,
    pub(super) records: Records,
    /// How often a policy came back by itself, and how often another was gone back to.
    returns: u64,
    rollbacks: u64,
}

impl PolicyHistory {
    pub(crate) fn new(first: PolicyChoice) -> PolicyHistory {
        PolicyHistory {
            active: first.clone(),
            history: Vec::new(),
            wanted: first,
            fallback: false,
            records: Records::default(),
            returns: 0,
            rollbacks: 0,
        }
    }

    /// The active policy.
    pub(crate) fn active(&self) -> &PolicyChoice {
        &self.active
    }

    /// The policy that is wanted.
    pub(crate) fn wanted(&self) -> &PolicyChoice {
        &self.wanted
    }

    /// This policy decides from now on. With `remember`, a rollback leads to the policy before it.
    pub(crate) fn activated(&mut self, choice: PolicyChoice, remember: bool, origin: Origin, now: f64) {
        match origin {
            Origin::Start | Origin::Person => {
                self.records.pardon(choice.name());
                self.wanted = choice.clone();
            }
            Origin::Failure => self.rollbacks += 1,
            Origin::Return => {
                self.records.returned(choice.name(), now);
                self.returns += 1;
            }
        }
        // A policy that only stood in is no target of a rollback.
        let stood_in = std::mem::replace(&mut self.fallback, false) && origin == Origin::Return;
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
        self.active = PolicyChoice::Builtin;
        self.fallback = true;
        self.failed(name, error, now, guard)
    }

    /// The policy of a starting scheduler could not take over.
    pub(crate) fn start_failed(&mut self, choice: PolicyChoice) {
        self.wanted = choice;
        self.fallback = true;
    }

    /// A policy failed, running or on its way. Returns how long it is out.
    pub(crate) fn failed(&mut self, name: &str, error: &PolicyError, now: f64, guard: &Guard) -> Out {
        self.records.failed(name, error, now, guard)
    }

    /// A policy broke a rule of the site.
    pub(crate) fn expelled(&mut self, name: &str, kind: &'static str, reason: &str, now: f64) {
        self.records.expelled(name, kind, reason, now);
    }

    /// Is the active policy active only because another failed?
    pub(crate) fn is_fallback(&self) -> bool {
        self.fallback
    }

    /// The policy that is wanted, if its quarantine is over at this time.
    pub(crate) fn due(&self, now: f64) -> Option<PolicyChoice> {
        self.next_due().filter(|time| *time <= now).map(|_| self.wanted.clone())
    }

    /// When [`PolicyHistory::due`] has a policy next.
    pub(crate) fn next_due(&self) -> Option<f64> {
        match self.records.out(self.wanted.name()) {
            Some(Out::Until(time)) if self.fallback || self.active.name() != self.wanted.name() => Some(time),
            _ => None,
        }
    }

    /// The last policy before the active one that is in no quarantine; removed from the history.
    pub(crate) fn previous(&mut self, now: f64) -> Option<PolicyChoice> {
        let records = &self.records;
        let trusted = |choice: &PolicyChoice| records.trusted(choice.name(), now);
        std::iter::from_fn(|| self.history.pop()).find(trusted)
    }

    /// All policies of the history: active, wanted and earlier ones.
    pub(crate) fn choices(&self) -> impl Iterator<Item = &PolicyChoice> {
        [&self.active, &self.wanted].into_iter().chain(&self.history)
    }

    /// No rollback leads to this policy any more.
    pub(crate) fn forget(&mut self, name: &str) {
        self.history.retain(|choice| choice.name() != name);
        self.records.forget(name);
    }

    /// Was there a policy before?
    pub(crate) fn has_history(&self) -> bool {
        !self.history.is_empty()
    }

    /// The way back to [`PolicyHistory::previous`] was not taken after all.
    pub(crate) fn keep(&mut self, choice: PolicyChoice) {
        self.history.push(choice);
    }

    /// The scheduler begins anew: no policy was active here before.
    pub(crate) fn restart(&mut self, first: PolicyChoice) {
        self.active = first;
    }

    /// How often another policy was gone back to, and how often one came back by itself.
    pub(crate) fn ways_back(&self) -> (u64, u64) {
        (self.rollbacks, self.returns)
    }

    /// For `stats-get`.
    pub(crate) fn containment(&self) -> Value {
        json!({
            "wanted": self.wanted.name(), "breaches": self.records.breaches(),
            "rollbacks": self.rollbacks, "returns": self.returns,
        })
    }
}
