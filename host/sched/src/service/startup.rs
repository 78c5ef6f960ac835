//! The schedule begins when the inventory is known, and again when the broker hands it over once more; the service is ready
//! when the policy that was asked for decides.
//!
//! Must never decide anything.

use anyhow::{Context, Result};
use fluxgate_engine::Engine;
use fluxgate_graph::Resources;
use fluxgate_journal::Recorded;

use super::Service;
use super::journal;
use crate::pending_swap::PendingSwap;
use crate::policy_choice::Origin;

impl Service {
    pub(super) fn inventory(&mut self, r: &fluxgate_formats::R, up: &fluxgate_formats::Idset) -> Result<()> {
        let mut resources = Resources::from_r(r).context("resource.acquire: the inventory cannot be used")?;
        let all = r.ranks();
        if let Some(why) = resources.unused_topology() {
            fluxgate_log::log!(UnusedTopology, "not all that R tells beside the resources is used: {why}");
        }
        let missing = resources.missing_of(&self.configuration.settings.site_rules);
        if !missing.is_empty() {
            let missing = missing.join(", ");
            fluxgate_log::log!(UnusedRules, "settings resources: no vertex of this machine has {missing}");
        }
        resources.set_down(&all);
        resources.set_up(up);
        if self.engine.is_some() {
            // The same process goes on: the states of its policies are not lost.
            self.remember_last();
        } else {
            self.recall();
        }
        let windows = self.engine.as_ref().map(|before| before.windows().cloned().collect::<Vec<_>>());
        // Status and properties of vertices are set again: this process knows them, or the one before it wrote them down.
        match &self.engine {
            Some(before) => {
                resources.restore_marks(&before.resources().vertex_marks());
                resources.set_properties_unread(before.resources().properties_unread());
            }
            None => {
                resources.set_properties_unread(resources.has_site_graph());
                self.read_vertices();
            }
        }
        let engine = Engine::new(resources, self.configuration.settings.engine());
        let writer = match &mut self.engine {
            Some(before) => before.take_writer(),
            None => journal::open(&self.configuration.settings, &*self.host),
        };
        let mut engine = Recorded::new(engine, writer, self.host.now());
        engine.engine_unrecorded_mut().set_interrupt(self.responder.interrupt());
        self.responder.forget();
        // Shadows and probations were about another schedule.
        self.shadows.clear();
        self.promotions.clear();
        self.probations.clear();
        self.swaps.clear();
        self.queues.forget();
        self.registry.restart();
        self.forecasts.forget();
        self.engine = Some(engine);
        match windows {
            Some(windows) => {
                self.kept_windows.renew();
                self.put_windows(windows);
            }
            None => self.read_windows(),
        }
        self.graph_service.began = self.host.now();
        let first = self.first_policy.clone();
        if first != fluxgate_engine::BUILTIN {
            let choice = self.registry.get(&first)?;
            self.begin_swap(PendingSwap::new(choice, Origin::Start))?;
        }
        self.want_queue_policies(self.first_queues.clone(), Origin::Start);
        self.begin_queue_swaps();
        Ok(())
    }

    /// True while the job manager is served and no swap is under way: the policies that were asked for decide, or have failed.
    pub fn is_ready(&self) -> bool {
        self.session.is_serving()
            && !self.kept_vertices.is_reading()
            && !self.kept_windows.is_reading()
            && self.swaps.is_empty()
            && !self.queues.are_pending()
    }

    /// The state of the scheduler in a line: the default policy, and the numbers of jobs that wait and that hold resources.
    pub fn status_line(&self) -> String {
        match &self.engine {
            Some(engine) if self.session.is_serving() => {
                let (policy, waiting, running) = (engine.policy_name(), engine.pending(), engine.running());
                let held = match self.holds_for_lost_windows() {
                    true => ", nothing starts: reservations are lost",
                    false => "",
                };
                format!("policy {policy}, {waiting} waiting, {running} running{held}")
            }
            _ => "waits for the job manager".to_owned(),
        }
    }
}
