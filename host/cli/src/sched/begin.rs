//! A scheduler begins when the inventory is known, and again when the broker hands it over once more; whoever started it is
//! told when the policy that was asked for decides.
//!
//! Must never decide anything.

use std::io::Write;

use anyhow::{Context, Result};
use fluxgate_engine::Engine;
use fluxgate_graph::Resources;
use fluxgate_journal::Recorded;

use super::roster::By;
use super::{READY, Scheduler, Waiting, journal};

impl Scheduler {
    pub(super) fn inventory(&mut self, r: &fluxgate_formats::R, up: &fluxgate_formats::Idset) -> Result<()> {
        let mut resources = Resources::from_r(r).context("resource.acquire: the inventory cannot be used")?;
        let all = r.ranks();
        if let Some(why) = resources.unused_topology() {
            tracing::warn!("not all that R tells beside the resources is used: {why}");
        }
        resources.set_down(&all);
        resources.set_up(up);
        if self.engine.is_some() {
            // The same process goes on: what its policies know is not lost.
            self.remember_last();
        } else {
            self.recall();
        }
        let engine = Engine::new(resources, self.in_force.settings.engine());
        let writer = match &mut self.engine {
            Some(before) => before.take_writer(),
            None => journal::open(&self.in_force.settings),
        };
        let mut engine = Recorded::new(engine, writer, self.clock.now());
        engine.aside().set_interrupt(self.front.interrupt());
        self.front.forget();
        // Whatever they compared was another scheduler.
        self.shadows.clear();
        self.probations.clear();
        self.swaps.clear();
        self.forget_queues();
        self.expected.forget();
        self.engine = Some(engine);
        let first = self.first_policy.clone();
        if first != fluxgate_engine::BUILTIN {
            let choice = self.roster.get(&first)?;
            self.begin_swap(Waiting::new(choice, By::Start))?;
        }
        self.seat(self.first_queues.clone(), By::Start);
        self.seat_queues();
        Ok(())
    }

    /// Tell whoever started us, once the policy that was asked for decides, or has failed.
    pub(super) fn announce(&mut self) {
        let settled = self.swaps.is_empty() && !self.queues_wait();
        if self.session.is_serving() && settled && !std::mem::replace(&mut self.announced, true) {
            // Nobody may be there any more.
            let mut out = std::io::stdout();
            let _ = writeln!(out, "{READY}").and_then(|()| out.flush());
        }
    }
}
