//! The process of the scheduler in its world: its turns, and its messages both ways.
//!
//! It ends in order, by a kill, or by itself, and another one is started. Must never know what a fault is for.

use fluxgate_wire::message::Message;

use super::{Step, World};
use crate::agenda::{SECOND, Time};
use crate::link::Link;
use crate::process::{NextTurn, Process};

/// Longest time that bytes of the journal wait for a sync while the disk is well.
const UNSYNCED_MAX: Time = 5 * SECOND;
/// Most messages sent in one turn, beside one for each job.
const SENT_MAX: usize = 10_000;

impl World {
    pub(super) fn start_scheduler(&mut self) {
        if self.scheduler.is_some() {
            return;
        }
        self.lives += 1;
        self.no_marks();
        self.decided.clear();
        // The job manager has not taken this scheduler offline for no reason yet.
        self.jobs.whims = 0;
        self.links += 1;
        self.tally.lives += 1;
        (self.link, self.link_number) = (Link::default(), self.links);
        let (life, times) = (self.lives, (self.now(), self.agenda.now()));
        let scheduler = match Process::start(life, &self.config, &self.disk, &self.compiled, times) {
            Ok(scheduler) => scheduler,
            Err(error) => return self.breaks(format!("{error:#}")),
        };
        self.note(|| format!("scheduler {life} starts"));
        self.scheduler = Some(scheduler);
        self.groups_begin();
        self.flush();
        self.plan_turn(0);
        self.agenda.after(SECOND, Step::Pump { life });
    }

    /// Plans a turn, unless there is one.
    pub(super) fn plan_turn(&mut self, delay: Time) {
        if let Some(scheduler) = &mut self.scheduler
            && !std::mem::replace(&mut scheduler.turn, true)
        {
            self.agenda.after(delay, Step::Turn { life: scheduler.life });
        }
    }

    /// A message has arrived at the scheduler.
    pub(super) fn arrived(&mut self, message: Message) {
        let (now, time) = (self.now(), self.agenda.now());
        let Some(scheduler) = &mut self.scheduler else { return };
        scheduler.set_time(now, time);
        match scheduler.hear(message, time) {
            Err(answer) => return self.send_up(&answer),
            Ok(false) => return,
            Ok(true) => {}
        }
        let delay = if self.dice.often(50) { self.dice.below(300_000) } else { self.dice.below(2_000) };
        self.plan_turn(delay);
    }

    pub(super) fn wake(&mut self, life: u64, number: u64) {
        if self.scheduler.as_ref().is_some_and(|s| s.life == life && s.wake == number) {
            self.plan_turn(0);
        }
    }

    pub(super) fn turn(&mut self, life: u64) {
        let (now, time) = (self.now(), self.agenda.now());
        let cut = self.weather.cut > time && self.dice.often(700);
        let some = self.dice.often(100);
        let portion = self.dice.range(1, 3) as usize;
        let Some(scheduler) = self.scheduler.as_mut().filter(|scheduler| scheduler.life == life) else {
            return;
        };
        scheduler.set_time(now, time);
        let count = if some { portion.min(scheduler.inbox.len()) } else { scheduler.inbox.len() };
        let has_reason = scheduler.begin_turn(count);
        for _ in 0..count {
            let Some(scheduler) = &mut self.scheduler else { return };
            let Some(message) = scheduler.read() else { break };
            self.marks_are_read(&message);
        }
        let Some(scheduler) = &mut self.scheduler else { return };
        let result = scheduler.end_turn(cut);
        let leaving = scheduler.service.is_leaving();
        self.flush();
        if !has_reason {
            return self.breaks("the scheduler has one turn after the other, and does nothing");
        }
        match result {
            Err(error) => {
                self.note(|| format!("scheduler {life} ends: {error:#}"));
                self.tally.reached("the scheduler ends by itself");
                self.end_in_order();
            }
            Ok(()) if leaving => self.end_in_order(),
            Ok(()) => self.plan_next(),
        }
    }

    /// Plans the next turn of the scheduler.
    fn plan_next(&mut self) {
        let (now, time) = (self.now(), self.agenda.now());
        let Some(scheduler) = &mut self.scheduler else { return };
        match scheduler.plan_wake(now, time) {
            NextTurn::Now => self.plan_turn(100),
            NextTurn::At(at, number) => {
                let life = scheduler.life;
                self.agenda.at(at, Step::Wake { life, number });
            }
            NextTurn::Never => {}
        }
    }

    /// Puts the messages of the service onto the connection, and plans the end of the work that it started.
    pub(super) fn flush(&mut self) {
        let Some(scheduler) = &mut self.scheduler else { return };
        let (sent, work, life) = (scheduler.outside.sent(), scheduler.outside.work(), scheduler.life);
        if sent.len() > SENT_MAX + 4 * self.plan.jobs.len() {
            self.breaks(format!("{} messages were sent in one turn", sent.len()));
        }
        for work in work {
            let Some(scheduler) = &mut self.scheduler else { return };
            let name = work.name();
            let number = scheduler.begin_work(work);
            let late = self.agenda.now() < self.weather.late_work && name != "drop";
            let delay = match name {
                _ if late => self.weather.late_work - self.agenda.now(),
                "compile" | "reload" => self.dice.range(10_000, 2 * SECOND),
                _ => self.dice.range(100, 200_000),
            };
            self.agenda.after(delay, Step::Work { life, number });
        }
        for message in sent {
            if message.topic() == "kvs.commit" {
                self.judge_commit(&message);
            }
            if message.topic() == "sched-fluxgate.set_status" {
                self.mark_is_answered(&message);
            }
            if matches!(message.topic(), "sched-fluxgate.set_property" | "sched-fluxgate.remove_property") {
                self.property_is_answered(&message);
            }
            self.send_up(&message);
        }
    }

    /// Nothing is started on ranks that the scheduler was told are down.
    fn judge_commit(&mut self, message: &Message) {
        let Some(scheduler) = &self.scheduler else { return };
        let (starts, wrong) = scheduler.starts(message);
        for what in wrong {
            self.breaks(what);
        }
        for (key, r) in starts {
            let Some(id) = self.job_of(&key) else { continue };
            self.decided.insert(id, self.agenda.now());
            self.judge_start(id, &r);
            self.judge_marks(id, &r);
            self.judge_condition(id, &r);
        }
    }

    pub(super) fn work_done(&mut self, life: u64, number: u64) {
        let (now, time) = (self.now(), self.agenda.now());
        let Some(scheduler) = self.scheduler.as_mut().filter(|scheduler| scheduler.life == life) else {
            return;
        };
        scheduler.set_time(now, time);
        let Some(name) = scheduler.end_work(number) else { return };
        self.note(|| format!("work is done: {name}"));
        self.flush();
        self.plan_turn(100);
    }

    pub(super) fn pump(&mut self, life: u64) {
        let (now, time) = (self.now(), self.agenda.now());
        let Some(scheduler) = self.scheduler.as_mut().filter(|scheduler| scheduler.life == life) else {
            return;
        };
        scheduler.set_time(now, time);
        let slow = self.weather.slow_disk > time;
        self.disk.set_time(time);
        if !slow {
            scheduler.outside.pump();
        }
        if !slow && self.disk.is_well() && self.disk.unsynced_for() > UNSYNCED_MAX {
            self.breaks(format!(
                "bytes of the journal wait for a sync since {} us",
                self.disk.unsynced_for()
            ));
        }
        let next = if slow { self.weather.slow_disk - time } else { self.dice.range(50_000, SECOND) };
        self.agenda.after(next, Step::Pump { life });
    }

    /// SIGHUP: the configuration is read again.
    pub(super) fn hang_up(&mut self) {
        let (now, time) = (self.now(), self.agenda.now());
        let Some(scheduler) = &mut self.scheduler else { return };
        scheduler.set_time(now, time);
        scheduler.service.hangup();
        self.flush();
        self.plan_turn(100);
    }

    /// The process says goodbye, and its connection is closed.
    pub(super) fn end_in_order(&mut self) {
        let Some(scheduler) = &mut self.scheduler else { return };
        scheduler.service.goodbye();
        self.flush();
        if let Some(scheduler) = &mut self.scheduler {
            scheduler.outside.close();
        }
        self.process_ends();
    }

    /// The process is no more: some of the bytes that it sent still arrive.
    pub(super) fn process_ends(&mut self) {
        let Some(scheduler) = self.scheduler.take() else { return };
        let life = scheduler.life;
        self.note(|| format!("scheduler {life} is gone"));
        drop(scheduler);
        self.disk.released();
        let link = std::mem::take(&mut self.link_number);
        if link != 0 {
            if self.committing > 0 {
                self.tally.reached("killed while a commit is under way");
            }
            let (whole, cut) = self.link.to_broker.ends(&mut self.dice);
            if cut {
                self.tally.reached("a frame is cut");
            }
            for message in whole {
                self.received(link, message);
            }
            let seen =
                if self.dice.often(100) { self.dice.below(5 * SECOND) } else { self.dice.below(50_000) };
            self.agenda.after(seen, Step::Gone { link });
        }
        self.nobody_answers(self.lives);
        self.calendar.life_ends(self.agenda.now(), self.keeping > 0);
        (self.serving_since, self.unread, self.accepting) = (None, false, None);
        let pause = self.dice.range(10_000, 3 * SECOND);
        self.agenda.after(pause, Step::Start);
    }

    /// The connection breaks: both sides see it.
    pub(super) fn connection_breaks(&mut self) {
        let link = std::mem::take(&mut self.link_number);
        if link == 0 {
            return;
        }
        self.note(|| format!("connection {link} breaks"));
        let (to_broker, cut) = self.link.to_broker.ends(&mut self.dice);
        let (to_scheduler, cut_too) = self.link.to_scheduler.ends(&mut self.dice);
        if cut || cut_too {
            self.tally.reached("a frame is cut");
        }
        for message in to_broker {
            self.received(link, message);
        }
        self.gone(link);
        for message in to_scheduler {
            self.arrived(message);
        }
        if let Some(life) = self.scheduler.as_ref().map(|scheduler| scheduler.life) {
            self.turn(life);
        }
        self.end_in_order();
    }
}
