//! When policies are asked for their states, and when the states are written, read and forgotten.
//!
//! Must never look into a state.

use std::time::Duration;

use super::Service;
use crate::host::Host;

impl Service {
    /// Ask the policies that decide. True when there is something to keep.
    fn ask_states(&mut self) -> bool {
        let (elapsed, now) = (self.host.elapsed(), self.host.now());
        let Some(engine) = &mut self.engine else { return false };
        let passes = engine.stats().passes;
        let (states, actions) = engine.policy_states(now);
        let some = !states.is_empty();
        self.policy_states.keep(elapsed, passes, states);
        self.actions(actions);
        some
    }

    /// Between two passes: keep what policies have learned, if it is time.
    pub(super) fn remember(&mut self) {
        if self.states_due().is_none_or(|due| due > self.host.elapsed()) || !self.ask_states() {
            return;
        }
        self.carry_out(Vec::new());
        if let Some(folder) = self.configuration.settings.policy_state.clone()
            && let Some(states) = self.policy_states.begin_writing()
        {
            let write = move |host: &dyn Host| states.write(host, &folder);
            self.start_work("policy-states", write, |service, ()| service.policy_states.written());
        }
    }

    /// When policies are asked again, in real time.
    pub(super) fn states_due(&self) -> Option<Duration> {
        self.policy_states.due(self.engine.as_ref()?.stats().passes)
    }

    /// The scheduler leaves, or begins anew: the last time to ask.
    pub(super) fn remember_last(&mut self) {
        if self.ask_states()
            && let Some(folder) = &self.configuration.settings.policy_state
        {
            self.policy_states.kept().write(&*self.host, folder);
        }
    }

    /// A scheduler begins: the states that the one before left are read.
    pub(super) fn recall(&mut self) {
        let settings = &self.configuration.settings;
        let Some(folder) = &settings.policy_state else { return };
        let queues = self.first_queues.iter().map(|(queue, _)| Some(queue.as_str()));
        for queue in std::iter::once(None).chain(queues) {
            self.policy_states.recall(&*self.host, folder, queue, settings.guard.limits.state_bytes);
        }
    }

    /// A queue has no policy of its own any more.
    pub(super) fn forget_state(&mut self, queue: &str) {
        let folder = self.configuration.settings.policy_state.as_deref();
        self.policy_states.forget(&*self.host, folder, queue);
    }
}
