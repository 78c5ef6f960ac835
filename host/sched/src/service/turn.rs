//! A turn of the service: tasks due by time, a pass if one is due, and its consequences; and when the next turn is due
//! though nothing happens.
//!
//! Messages that are there are all taken in before the turn, so that a burst costs one pass. Must never know the content of a message.

use std::time::Duration;

use anyhow::Result;

use super::{NextTurn, Service};

impl Service {
    /// Makes a whole turn; `waiting` is true if there are messages that were not taken in yet.
    ///
    /// # Errors
    /// As [`Service::settle`].
    pub fn turn(&mut self, waiting: bool) -> Result<()> {
        if self.prepare() {
            self.pass();
        }
        self.settle(waiting)
    }

    /// Begins a turn: tasks due by time. True if a pass is to be made; its time counts from here.
    pub fn prepare(&mut self) -> bool {
        self.heed_clock();
        self.count_idle_windows();
        let outputs = self.session.tick(self.host.elapsed().as_secs_f64());
        self.carry_out(outputs);
        if let Some(engine) = &self.engine {
            self.responder.refresh(engine, self.session.is_serving());
        }
        self.bring_back();
        self.begin_queue_swaps();
        let due = self.needs_pass();
        if due {
            self.renew_windows();
            self.responder.begin(self.host.elapsed());
        }
        due
    }

    /// Makes the passes that are due. The responder may be called meanwhile, and may cut them.
    pub fn pass(&mut self) {
        let spent = self.spent();
        let Some(engine) = &mut self.engine else { return };
        let (before, before_cost) = (*engine.stats(), engine.policy_cost());
        let (begin, now) = (self.host.elapsed(), self.host.now());
        let actions = engine.pass(now);
        let end = self.host.elapsed();
        let (after, took) = (*engine.stats(), end.saturating_sub(begin));
        let interrupted = after.interrupted > before.interrupted;
        self.start_times.pass(&actions, !interrupted, end);
        self.responder.end(end, interrupted);
        match after.swaps > before.swaps {
            true => self.flips.add(took),
            false => self.passes.add(took),
        }
        let retired = engine.engine_unrecorded_mut().take_retired();
        if !retired.is_empty() {
            self.start_work("drop", move |_| drop(retired), |_, ()| {});
        }
        let passed = self.passed(&actions);
        self.tried(took, before_cost, &spent);
        self.actions(actions);
        self.carry_out(Vec::new());
        // The decisions are on their way: now the shadows may follow.
        if let Some(passed) = passed {
            self.shadows.passed(now, &passed);
        }
    }

    /// Ends a turn: its consequences, and tasks that wait until nothing else is due; `waiting` is true if there are messages that
    /// were not taken in yet.
    ///
    /// # Errors
    /// The first fatal error since the last call: the service cannot go on.
    pub fn settle(&mut self, waiting: bool) -> Result<()> {
        self.count_offline();
        self.begin_queue_swaps();
        self.watch();
        self.tend_promotions();
        self.remember();
        self.keep_vertices();
        self.start_queues();
        self.tend_windows();
        self.refresh_groups();
        self.tell_late();
        self.keep_journal(waiting);
        self.answer_questions();
        self.forecast(waiting);
        self.answer_quiescent();
        self.start_shadows();
        self.write_trail();
        match self.fatal.take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// True if a turn is to be made at once, though nothing happens.
    pub fn is_busy(&self) -> bool {
        self.needs_pass() || self.shadows.copying()
    }

    /// The time at which a turn is due unless something happens before.
    pub fn next_turn(&self) -> NextTurn {
        let elapsed = self.host.elapsed();
        let rest = self.responder.rests_until(elapsed);
        let wake = self
            .engine
            .as_ref()
            .filter(|_| rest.is_none() && self.may_pass())
            .and_then(|engine| engine.next_wake());
        let times = [wake, self.next_return(), self.probation_ends(), self.promotions_due()];
        let seconds = |seconds: f64| Duration::try_from_secs_f64(seconds.max(0.0)).ok();
        let watch = self.session.next_tick().and_then(seconds);
        let periods = [
            rest,
            watch,
            self.states_due(),
            self.forecast_due(),
            self.kept_vertices.due(),
            self.kept_windows.due(),
            self.groups.due(),
        ];
        NextTurn {
            time: times.into_iter().flatten().fold(f64::INFINITY, f64::min),
            elapsed: periods.into_iter().flatten().min().unwrap_or(Duration::MAX),
        }
    }

    /// May a pass be made, as far as the conversation goes? While none may, the times of the engine make no turn due.
    fn may_pass(&self) -> bool {
        self.session.is_serving()
            && !self.session.must_count()
            && !self.kept_vertices.is_reading()
            && !self.kept_windows.is_reading()
            && !self.holds_for_lost_windows()
    }

    /// Is there something that a pass would do?
    pub(super) fn pass_is_due(&self) -> bool {
        self.may_pass() && self.engine.as_ref().is_some_and(|e| e.needs_pass(self.host.now()))
    }

    /// Is a pass to be made now?
    pub(super) fn needs_pass(&self) -> bool {
        self.responder.rests_until(self.host.elapsed()).is_none() && self.pass_is_due()
    }
}
