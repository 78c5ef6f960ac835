//! The process of the scheduler and its connection to the instance.
//!
//! Must never know what a fault is for.

use fluxgate_instance::ClientId;
use fluxgate_wire::message::Message;

use super::instance::{Input, peer};
use super::{EmbeddedWorld, Step};
use crate::agenda::{SECOND, Time};
use crate::link::Link;
use crate::model::OWNER;
use crate::process::{NextTurn, Process};

impl EmbeddedWorld {
    pub(super) fn start_scheduler(&mut self) {
        if self.scheduler.is_some() {
            return;
        }
        if self.instance.is_none() {
            // The socket is not there.
            return self.agenda.after(SECOND, Step::Start);
        }
        self.lives += 1;
        self.tally.lives += 1;
        let (life, times) = (self.lives, (self.now(), self.agenda.now()));
        self.note(|| format!("scheduler {life} starts"));
        match Process::start(life, &self.settings, &self.disk, &self.compiled, times) {
            Ok(scheduler) => self.scheduler = Some(scheduler),
            Err(error) => return self.breaks(format!("{error:#}")),
        }
        let client = self.new_client();
        (self.link, self.link_number) = (Link::default(), client.0);
        self.input(Input::Connected(client, peer(client, OWNER)));
        self.flush();
        self.plan_turn(0);
        self.agenda.after(SECOND, Step::Pump { life });
    }

    pub(super) fn plan_turn(&mut self, delay: Time) {
        if let Some(scheduler) = &mut self.scheduler
            && !std::mem::replace(&mut scheduler.turn, true)
        {
            self.agenda.after(delay, Step::Turn { life: scheduler.life });
        }
    }

    /// Bytes arrive.
    pub(super) fn piece(&mut self, link: u64, to_instance: bool) {
        if link != self.link_number {
            return;
        }
        let pipe = if to_instance { &mut self.link.to_broker } else { &mut self.link.to_scheduler };
        for message in pipe.arrives() {
            self.hash.add(&self.agenda.now().to_le_bytes());
            self.hash.add(message.topic().as_bytes());
            self.hash.add(message.payload_bytes().unwrap_or_default());
            self.tally.messages += 1;
            match to_instance {
                true => self.input(Input::Message(ClientId(link), message)),
                false => self.arrived(message),
            }
        }
    }

    fn send_up(&mut self, message: &Message) {
        if self.link_number == 0 {
            return;
        }
        self.changed(message);
        self.note_message("up", message);
        let (now, delays, link) = (self.agenda.now(), self.delays(), self.link_number);
        for time in self.link.to_broker.send(message, now, delays, &mut self.dice) {
            self.agenda.at(time, Step::Piece { link, to_instance: true });
        }
    }

    pub(super) fn send_down(&mut self, message: &Message) {
        self.changed(message);
        self.note_message("down", message);
        let (now, delays, link) = (self.agenda.now(), self.delays(), self.link_number);
        for time in self.link.to_scheduler.send(message, now, delays, &mut self.dice) {
            self.agenda.at(time, Step::Piece { link, to_instance: false });
        }
    }

    /// Questions change nothing.
    fn changed(&mut self, message: &Message) {
        let topic = message.topic();
        let asks = topic.ends_with("-status") || topic.ends_with(".ping") || topic.ends_with("queue-list");
        self.changes += u64::from(!asks);
    }

    fn arrived(&mut self, message: Message) {
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
        let cut = self.cut > time && self.dice.often(700);
        let portion = if self.dice.often(100) { self.dice.range(1, 3) as usize } else { usize::MAX };
        let Some(scheduler) = self.scheduler.as_mut().filter(|scheduler| scheduler.life == life) else {
            return;
        };
        scheduler.set_time(now, time);
        let count = portion.min(scheduler.inbox.len());
        let has_reason = scheduler.begin_turn(count);
        for _ in 0..count {
            scheduler.read();
        }
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

    fn flush(&mut self) {
        let Some(scheduler) = &mut self.scheduler else { return };
        let (sent, work, life) = (scheduler.outside.sent(), scheduler.outside.work(), scheduler.life);
        for work in work {
            let Some(scheduler) = &mut self.scheduler else { return };
            let name = work.name();
            let number = scheduler.begin_work(work);
            let late = self.agenda.now() < self.late_work && name != "drop";
            let delay = match name {
                _ if late => self.late_work - self.agenda.now(),
                "compile" | "reload" => self.dice.range(10_000, 2 * SECOND),
                _ => self.dice.range(100, 200_000),
            };
            self.agenda.after(delay, Step::Work { life, number });
        }
        for message in sent {
            if message.topic() == "kvs.commit" {
                self.judge_commit(&message);
            }
            self.send_up(&message);
        }
    }

    pub(super) fn work_done(&mut self, life: u64, number: u64) {
        let (now, time) = (self.now(), self.agenda.now());
        let Some(scheduler) = self.scheduler.as_mut().filter(|scheduler| scheduler.life == life) else {
            return;
        };
        scheduler.set_time(now, time);
        if scheduler.end_work(number).is_none() {
            return;
        }
        self.flush();
        self.plan_turn(100);
    }

    pub(super) fn pump(&mut self, life: u64) {
        let (now, time) = (self.now(), self.agenda.now());
        let Some(scheduler) = self.scheduler.as_mut().filter(|scheduler| scheduler.life == life) else {
            return;
        };
        scheduler.set_time(now, time);
        self.disk.set_time(time);
        let slow = self.slow_disk > time;
        if !slow {
            scheduler.outside.pump();
        }
        let next = if slow { self.slow_disk - time } else { self.dice.range(50_000, SECOND) };
        self.agenda.after(next, Step::Pump { life });
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

    /// Does a scheduler that begins have the built-in policy alone?
    pub(super) fn is_plain(&self) -> bool {
        !self.plan.profile.has_components()
    }

    /// The process is no more: some of the bytes that it sent still arrive.
    pub(super) fn process_ends(&mut self) {
        let Some(scheduler) = self.scheduler.take() else { return };
        let life = scheduler.life;
        self.note(|| format!("scheduler {life} is gone"));
        drop(scheduler);
        self.plain = self.is_plain();
        self.disk.released();
        let link = std::mem::take(&mut self.link_number);
        if link != 0 {
            let (whole, cut) = self.link.to_broker.ends(&mut self.dice);
            if cut {
                self.tally.reached("a frame is cut");
            }
            for message in whole {
                self.input(Input::Message(ClientId(link), message));
            }
            let seen =
                if self.dice.often(100) { self.dice.below(5 * SECOND) } else { self.dice.below(50_000) };
            self.agenda.after(seen, Step::Gone { link });
        }
        self.changes += 1;
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
        let (to_instance, cut) = self.link.to_broker.ends(&mut self.dice);
        let (to_scheduler, cut_too) = self.link.to_scheduler.ends(&mut self.dice);
        if cut || cut_too {
            self.tally.reached("a frame is cut");
        }
        for message in to_instance {
            self.input(Input::Message(ClientId(link), message));
        }
        self.input(Input::Gone(ClientId(link)));
        for message in to_scheduler {
            self.arrived(message);
        }
        if let Some(life) = self.scheduler.as_ref().map(|scheduler| scheduler.life) {
            self.turn(life);
        }
        self.end_in_order();
    }
}
