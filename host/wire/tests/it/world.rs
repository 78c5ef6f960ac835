//! A session with a real engine and a small job manager, and the two lines between them; the test moves the messages.
//! This module knows neither sockets nor a clock.

use fluxgate_formats::JobId;

use crate::host::{Host, machine};
use crate::manager::{Manager, units};

/// Both sides, and the lines between them.
pub struct World {
    pub host: Host,
    pub manager: Manager,
    pub now: f64,
    pub last: u64,
}

impl World {
    pub fn new() -> World {
        World { host: Host::serving(&machine("0-3"), "0-3"), manager: Manager::served(), now: 0.0, last: 0 }
    }

    pub fn submit(&mut self, slots: u32) -> u64 {
        self.last += 1;
        self.manager.submit(self.last, slots);
        self.last
    }

    pub fn hear(&mut self) {
        if let Some(message) = self.manager.from_manager.pop_front() {
            let sent = self.host.say(message);
            self.manager.post(sent);
        }
    }

    pub fn hear_kvs(&mut self) {
        if let Some(message) = self.manager.from_kvs.pop_front() {
            let sent = self.host.say(message);
            self.manager.post(sent);
        }
    }

    pub fn tick(&mut self, seconds: f64) {
        self.now += seconds;
        let sent = self.host.tick(self.now);
        self.manager.post(sent);
    }

    /// Runs until no message is in flight.
    pub fn settle(&mut self) {
        for _ in 0..100_000 {
            if self.manager.is_quiet() {
                return;
            }
            self.manager.deliver();
            self.manager.deliver_kvs();
            self.hear();
            self.hear_kvs();
        }
        panic!("it never ends");
    }

    /// Detects all lost messages: a few outages and audits later.
    pub fn rest(&mut self) {
        self.manager.load();
        self.manager.lose = false;
        for _ in 0..400 {
            self.settle();
            let next = self.host.session.next_tick().expect("it watches");
            let pause = (next - self.now).max(0.0);
            self.tick(pause);
        }
        self.settle();
    }

    /// Compares jobs and their resources on both sides.
    pub fn check(&self) {
        assert!(self.host.fatal.is_none(), "{:?}", self.host.fatal);
        assert!(self.manager.online && self.host.session.is_serving());
        let engine = self.host.engine();
        let ours: Vec<u64> = engine.running_ids().map(|id| id.0).collect();
        let theirs = self.manager.held();
        assert_eq!(ours, theirs.keys().copied().collect::<Vec<_>>());
        for (id, held) in &theirs {
            let r = engine.resources().allocation_r(JobId(*id)).expect("it holds").to_value();
            assert_eq!(&units(&r), held, "job {id}");
        }
        let pending: Vec<u64> =
            self.manager.jobs.iter().filter(|(_, job)| job.pending).map(|(id, _)| *id).collect();
        assert_eq!(engine.pending_ids().map(|id| id.0).collect::<Vec<_>>(), pending);
        assert_eq!(self.host.session.outstanding(), pending.len());
        assert!(!self.manager.jobs.values().any(|job| job.queued), "all are asked for");
        assert_eq!(self.manager.raised, [0; 0], "no job was killed");
        assert!(theirs.len() + pending.len() == 0 || !theirs.is_empty(), "some job runs");
        let state = self.host.session.audit();
        assert_eq!((state.agrees, state.text.as_str()), (Some(true), ""));
        assert!(state.withheld.is_empty());
    }
}
