//! What a job manager does without telling, and how the session notices: teardown, reload, lost frees, a count that
//! differs. With a real engine behind the session and a small job manager before it (`common/manager.rs`).
#![allow(missing_docs)]

#[path = "common/broker.rs"]
mod broker;
#[path = "common/host.rs"]
mod host;
#[path = "common/manager.rs"]
mod manager;

use fluxgate_formats::JobId;
use host::{Host, machine};
use manager::{Manager, units};
use proptest::prelude::*;

/// Both sides, and the lines between them.
struct World {
    host: Host,
    manager: Manager,
    now: f64,
    last: u64,
}

impl World {
    fn new() -> World {
        World { host: Host::serving(&machine("0-3"), "0-3"), manager: Manager::served(), now: 0.0, last: 0 }
    }

    fn submit(&mut self, slots: u32) -> u64 {
        self.last += 1;
        self.manager.submit(self.last, slots);
        self.last
    }

    fn hear(&mut self) {
        if let Some(message) = self.manager.from_manager.pop_front() {
            let sent = self.host.say(message);
            self.manager.post(sent);
        }
    }

    fn hear_kvs(&mut self) {
        if let Some(message) = self.manager.from_kvs.pop_front() {
            let sent = self.host.say(message);
            self.manager.post(sent);
        }
    }

    fn tick(&mut self, seconds: f64) {
        self.now += seconds;
        let sent = self.host.tick(self.now);
        self.manager.post(sent);
    }

    /// Until no message is on its way.
    fn settle(&mut self) {
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

    /// Whatever was lost is found: a few outages and audits later.
    fn rest(&mut self) {
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

    /// Jobs and what they hold: the same on both sides.
    fn check(&self) {
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
        assert_eq!(self.manager.raised, [0; 0], "nobody was killed");
        assert!(theirs.len() + pending.len() == 0 || !theirs.is_empty(), "somebody runs");
        let state = self.host.session.audit();
        assert_eq!((state.agrees, state.text.as_str()), (Some(true), ""));
        assert!(state.withheld.is_empty());
    }
}

#[derive(Debug, Clone)]
enum Op {
    Submit(u32),
    Hear,
    HearKvs,
    Deliver,
    DeliverKvs,
    Finish(u64, bool),
    Tidy(usize),
    Cancel(u64),
    Teardown,
    Lose,
    Unload,
    Load,
    Tick(f64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (1u32..=16).prop_map(Op::Submit),
        8 => Just(Op::Hear),
        6 => Just(Op::HearKvs),
        8 => Just(Op::Deliver),
        6 => Just(Op::DeliverKvs),
        4 => (0u64..20, any::<bool>()).prop_map(|(id, kept)| Op::Finish(id, kept)),
        3 => (0usize..4).prop_map(Op::Tidy),
        1 => (0u64..20).prop_map(Op::Cancel),
        1 => Just(Op::Teardown),
        1 => Just(Op::Lose),
        1 => Just(Op::Unload),
        2 => Just(Op::Load),
        3 => (0.0f64..30.0).prop_map(Op::Tick),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// Pitfalls 2, 3, 6 and 7, R27-FIN-1 to -3, R27-HELLO-9: whatever is lost on the way and however the job manager
    /// comes and goes, no core is ever given twice (the job manager's book panics), and at rest both sides agree.
    #[test]
    fn at_rest_both_sides_hold_the_same(ops in prop::collection::vec(op(), 0..160)) {
        let mut world = World::new();
        for op in ops {
            let last = world.last.max(1);
            match op {
                Op::Submit(slots) => drop(world.submit(slots)),
                Op::Hear => world.hear(),
                Op::HearKvs => world.hear_kvs(),
                Op::Deliver => world.manager.deliver(),
                Op::DeliverKvs => world.manager.deliver_kvs(),
                Op::Finish(id, kept) => world.manager.finish(id % last + 1, kept),
                Op::Tidy(at) => world.manager.tidy(at),
                Op::Cancel(id) => world.manager.cancel(id % last + 1),
                Op::Teardown => world.manager.teardown(),
                Op::Lose => world.manager.lose = true,
                Op::Unload => world.manager.unload(),
                Op::Load => world.manager.load(),
                Op::Tick(seconds) => world.tick(seconds),
            }
        }
        world.rest();
        world.check();
    }
}
