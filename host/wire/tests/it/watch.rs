//! Silent actions of a job manager, and their detection by the session: teardown, reload, lost frees, a count that
//! differs. With a real engine behind the session and a small job manager before it (`manager.rs`).

use std::time::Duration;

use fluxgate_engine::{Action, Event};
use fluxgate_formats::JobId;
use fluxgate_wire::message::Message;
use fluxgate_wire::proto::errno;
use fluxgate_wire::session::{SessionConfig, SessionError};
use proptest::prelude::*;
use serde_json::json;

use crate::broker;
use crate::host;
use crate::host::{Host, machine};
use crate::manager;
use crate::world::World;

const PERIOD: f64 = 2.0;
const AUDIT: f64 = 60.0;

#[test]
fn pitfall_2_and_r27_fin_3_a_silent_teardown_is_noticed_and_everything_is_asked_again() {
    let mut world = World::new();
    let (running, waiting) = (world.submit(10), world.submit(8));
    world.settle();
    world.tick(0.0);
    world.settle();
    world.manager.teardown();
    // R27-FIN-3: this free is dropped, without a message.
    world.manager.finish(running, false);
    let late = world.submit(1);
    assert!(world.manager.is_quiet() && world.host.session.is_serving());
    world.tick(PERIOD);
    world.settle();
    // R27-FIN-2: a new hello and ready, and waiting jobs are requested again.
    assert!(!world.host.session.is_serving(), "from the notice on nothing is decided");
    world.tick(0.0);
    world.settle();
    assert_eq!((world.manager.hellos, world.manager.readys), (1, 1));
    assert!(world.manager.jobs[&waiting].has_resources && world.manager.jobs[&late].has_resources);
    let stats = world.host.session.stats();
    assert_eq!((stats.teardowns, stats.rehellos, stats.reclaimed), (1, 1, 1));
    world.rest();
    world.check();
    assert_eq!(world.host.session.stats().teardowns, 1);
}

#[test]
fn pitfall_3_a_free_that_was_lost_is_found_by_the_audit() {
    let mut world = World::new();
    let (lost, stays) = (world.submit(6), world.submit(6));
    world.settle();
    world.tick(0.0);
    world.settle();
    world.manager.lose = true;
    world.manager.finish(lost, false);
    world.settle();
    assert_eq!(world.host.engine().running(), 2, "without a free");
    world.tick(AUDIT);
    world.settle();
    let stats = world.host.session.stats();
    assert_eq!((stats.reclaimed, stats.teardowns, stats.audit_differences), (1, 0, 0));
    assert_eq!(world.host.engine().running_ids().collect::<Vec<_>>(), [JobId(stays)]);
    world.rest();
    world.check();
}

#[test]
fn pitfall_3_and_r27_hello_9_of_a_lost_partial_free_just_those_ranks_come_back() {
    let mut world = World::new();
    let id = world.submit(16);
    world.settle();
    world.manager.finish(id, true);
    world.manager.lose = true;
    world.manager.tidy(0);
    world.settle();
    assert_eq!(world.host.used().to_string(), "0-3");
    world.tick(AUDIT);
    world.settle();
    assert_eq!(world.host.used().to_string(), "1-3", "still in housekeeping there");
    assert_eq!(world.manager.housekeeping.len(), 1, "partial-ok was said");
    world.check();
    for _ in 0..3 {
        world.manager.tidy(0);
    }
    world.rest();
    world.check();
    assert_eq!(world.host.engine().running(), 0);
}

#[test]
fn pitfall_3_a_free_between_hello_and_ready_is_found_right_after_ready() {
    let mut world = World::new();
    let id = world.submit(4);
    world.settle();
    world.tick(0.0);
    world.settle();
    world.manager.teardown();
    world.tick(PERIOD);
    world.settle();
    world.tick(0.0);
    // Hello is answered; then the job ends, while the scheduler is still offline.
    world.manager.deliver();
    assert_eq!(world.manager.hellos, 1);
    world.manager.finish(id, false);
    world.settle();
    assert!(world.host.session.is_serving());
    assert_eq!(world.host.engine().running(), 1);
    assert!(world.host.session.next_tick().unwrap() <= world.now, "at once, not a period later");
    world.tick(0.0);
    world.settle();
    assert_eq!(world.host.engine().running(), 0);
    world.check();
}

#[test]
fn pitfall_6_what_is_being_committed_at_a_teardown_is_given_back_and_not_answered() {
    let mut world = World::new();
    world.tick(0.0);
    world.settle();
    let id = world.submit(16);
    world.hear();
    assert_eq!(world.manager.to_kvs.len(), 1, "R is on its way");
    world.manager.teardown();
    world.tick(PERIOD);
    for _ in 0..4 {
        world.manager.deliver();
        world.hear();
    }
    assert!(!world.host.session.is_serving());
    assert_eq!((world.host.engine().running(), world.host.session.outstanding()), (0, 0));
    world.tick(0.0);
    for _ in 0..4 {
        world.manager.deliver();
        world.hear();
    }
    // Requested and started again before the first commit is answered: one SUCCESS, for the second.
    assert!(world.host.session.is_serving() && world.manager.to_kvs.len() == 2);
    world.manager.deliver_kvs();
    world.hear_kvs();
    assert!(!world.manager.to_manager.iter().any(|message| message.topic() == "sched.alloc"));
    world.settle();
    assert!(world.manager.jobs[&id].has_resources);
    assert_eq!(world.host.session.stats().started, 1);
    world.rest();
    world.check();
}

#[test]
fn r27_fin_1_a_job_manager_that_is_reloaded_is_served_again() {
    let mut world = World::new();
    let (stays, waiting) = (world.submit(12), world.submit(12));
    world.settle();
    world.tick(0.0);
    world.settle();
    world.manager.unload();
    world.settle();
    assert!(!world.host.session.is_serving(), "sched.disconnect of the job manager");
    // Without an answer the question is repeated, with pauses.
    for _ in 0..10 {
        let next = world.host.session.next_tick().unwrap();
        let pause = (next - world.now).max(0.0);
        world.tick(pause);
        world.settle();
    }
    assert!(world.now >= 9.0 * PERIOD, "{}", world.now);
    world.manager.load();
    world.tick(PERIOD);
    world.settle();
    assert!(world.manager.online);
    world.manager.finish(stays, false);
    world.settle();
    assert!(world.manager.jobs[&waiting].has_resources);
    world.rest();
    world.check();
}

#[test]
fn pitfall_2_who_tears_down_again_and_again_is_not_asked_all_the_time() {
    let mut world = World::new();
    world.tick(0.0);
    world.settle();
    while world.now < 3600.0 {
        world.manager.teardown();
        let next = world.host.session.next_tick().unwrap();
        let pause = (next - world.now).max(0.0);
        world.tick(pause);
        world.settle();
    }
    assert!((20..100).contains(&world.manager.hellos), "{} in an hour", world.manager.hellos);
    world.rest();
    world.check();
}

#[test]
fn pitfall_7_a_start_that_is_refused_again_and_again_is_denied() {
    let mut world = World::new();
    let (bad, good) = (world.submit(2), world.submit(2));
    // After a reload the job manager has the R of a start that it never accepted, and answers EEXIST to any other.
    world.manager.jobs.get_mut(&bad).unwrap().r = Some(manager::to_r(&[(3, 0)].into()));
    world.rest();
    assert_eq!(world.manager.refused, 2, "one could be bad luck");
    assert!(world.manager.denied.contains(&bad) && world.manager.jobs[&good].has_resources);
    world.check();
}

#[test]
fn pitfall_7_a_start_that_is_lost_with_a_job_manager_is_not_refused() {
    let mut world = World::new();
    world.tick(0.0);
    let lost = world.submit(2);
    for _ in 0..5 {
        // The start is decided and committed; its answer finds another job manager.
        while !world.manager.to_manager.iter().any(|message| message.topic() == "sched.alloc") {
            if world.manager.is_quiet() {
                let next = world.host.session.next_tick().unwrap();
                let pause = (next - world.now).max(0.0);
                world.tick(pause);
            }
            world.manager.deliver();
            world.manager.deliver_kvs();
            world.hear();
            world.hear_kvs();
        }
        world.manager.reload_silently();
        world.manager.to_manager.retain(|message| message.topic() != "sched.alloc");
    }
    world.rest();
    assert!(world.manager.denied.is_empty() && world.manager.jobs[&lost].has_resources);
    world.check();
}

#[test]
fn r27_fin_1_a_stray_request_of_another_client_makes_it_no_job_manager() {
    let mut world = World::new();
    world.submit(2);
    world.settle();
    let mut stray = Message::request("sched.cancel").with_json(&json!({"id": 12345}));
    (stray.userid, stray.rolemask) = (1000, broker::OWNER);
    stray.push_route("tool");
    stray.push_route("broker");
    world.manager.from_manager.push_back(stray.noresponse());
    world.settle();
    world.manager.unload();
    world.settle();
    assert!(!world.host.session.is_serving(), "sched.disconnect of the job manager");
    world.rest();
    world.check();
}

#[test]
fn resources_that_only_the_job_manager_counts_are_not_allocated() {
    let mut world = World::new();
    world.manager.ghosts = [(2, 1)].into();
    world.tick(0.0);
    world.settle();
    let state = world.host.session.audit().clone();
    assert_eq!((state.agrees, state.withheld.to_string()), (Some(false), "2".to_owned()));
    assert_eq!(state.text, "held to the job manager but by no job known here: rank 2 core 1");
    let (small, large) = (world.submit(12), world.submit(16));
    world.settle();
    assert!(world.manager.jobs[&small].has_resources && world.manager.jobs[&large].pending);
    assert_eq!(world.host.used().to_string(), "0-1,3");
    // A node that comes up is still withheld, and one that went down meanwhile does not come up with the others.
    world.host.update(&serde_json::json!({"down": "2"}));
    world.host.update(&serde_json::json!({"up": "2"}));
    assert_eq!(world.host.engine().resources().up().to_string(), "0-1,3");
    world.manager.finish(small, false);
    world.settle();
    assert!(world.manager.jobs[&large].pending);
    // It is counted again soon, and reported once.
    let audits = world.host.session.stats().audits;
    world.tick(PERIOD);
    world.settle();
    assert!(world.host.session.stats().audits > audits);
    world.manager.ghosts.clear();
    world.rest();
    assert!(world.manager.jobs[&large].has_resources);
    world.check();
}

#[test]
fn a_job_that_the_job_manager_tells_of_later_is_taken_in() {
    let mut world = World::new();
    world.last = 1;
    let r = manager::to_r(&[(0, 0), (0, 1), (1, 0)].into());
    let job = manager::Job { slots: 3, has_resources: true, r: Some(r.clone()), ..Default::default() };
    world.manager.jobs.insert(1, job);
    world.manager.kvs.insert(1, r);
    world.tick(0.0);
    while world.manager.to_kvs.is_empty() {
        world.manager.deliver();
        world.hear();
    }
    // Its R is being looked up when it releases a rank: that rank is not booked.
    world.manager.finish(1, true);
    world.manager.tidy(0);
    world.settle();
    assert_eq!(world.host.used().to_string(), "1");
    let stats = world.host.session.stats();
    assert_eq!((stats.adopted, stats.audit_differences), (1, 0));
    world.check();
    world.manager.tidy(0);
    world.rest();
    world.check();
}

#[test]
fn what_starts_after_the_question_is_no_difference() {
    for hello in [false, true] {
        let mut world = World::new();
        let lost = world.submit(1);
        world.settle();
        if hello {
            world.manager.lose = true;
            world.manager.finish(lost, false);
        }
        let id = world.submit(4);
        world.hear();
        world.manager.deliver_kvs();
        assert_eq!(world.manager.from_kvs.len(), 1);
        world.tick(0.0);
        if hello {
            // The count differs, so hello is requested; it is answered before the job is known.
            for _ in 0..2 {
                world.manager.deliver();
            }
            for _ in 0..2 {
                world.hear();
            }
        }
        while !world.manager.to_manager.is_empty() {
            world.manager.deliver();
        }
        world.hear_kvs();
        assert_eq!(world.host.session.stats().started, 2);
        while !world.manager.from_manager.is_empty() {
            world.hear();
        }
        assert!(world.host.engine().running_ids().any(|running| running == JobId(id)), "hello: {hello}");
        world.settle();
        assert_eq!(world.host.session.stats().audit_differences, 0);
        assert_eq!(world.host.session.stats().reclaimed, u64::from(hello));
        world.check();
    }
}

/// The only request with this topic.
fn only(sent: Vec<Message>, topic: &str) -> Message {
    let mut found: Vec<Message> = sent.into_iter().filter(|message| message.topic() == topic).collect();
    assert_eq!(found.len(), 1, "{topic}");
    found.remove(0)
}

const STATUS: &str = "job-manager.queue-status";
const COUNT: &str = "job-manager.resource-status";

#[test]
fn named_queues_are_asked_by_name_and_a_stopped_one_does_not_hide_the_others() {
    let mut host = Host::serving(&machine("0-3"), "0-3");
    let status = only(host.tick(0.0), STATUS);
    assert_eq!(status.json().unwrap(), json!({}));
    let list = only(
        host.say(status.respond_error(errno::EINVAL, "a named queue is required")),
        "job-manager.queue-list",
    );
    let mut status = only(host.say(list.respond_json(&json!({"queues": ["batch", "debug"]}))), STATUS);
    for (turn, name) in ["batch", "debug", "debug", "debug"].into_iter().enumerate() {
        assert_eq!(status.json().unwrap(), json!({ "name": name }));
        let answer = match name {
            "batch" => json!({"enable": true, "start": false, "stop_reason": "maintenance"}),
            _ => json!({"enable": true, "start": true}),
        };
        assert!(host.say(status.respond_json(&answer)).is_empty());
        assert!(host.tick(2.0 * turn as f64 + 1.0).is_empty(), "not before its time");
        status = only(host.tick(2.0 * turn as f64 + 2.0), STATUS);
    }
    let blocked = json!({"enable": true, "start": false, "blocked": "scheduler", "stop_reason": "x"});
    host.say(status.respond_json(&blocked));
    assert!(!host.session.is_serving());
    // A list that does not help is not requested repeatedly.
    let mut host = Host::serving(&machine("0-3"), "0-3");
    let status = only(host.tick(0.0), STATUS);
    let list = only(host.say(status.respond_error(errno::EINVAL, "")), "job-manager.queue-list");
    let status = only(host.say(list.respond_json(&json!({"queues": []}))), STATUS);
    assert!(host.say(status.respond_error(errno::EINVAL, "")).is_empty());
}

#[test]
fn a_queue_that_is_stopped_by_its_parent_is_no_teardown() {
    let mut host = Host::serving(&machine("0-3"), "0-3");
    for answer in [
        json!({"enable": true, "start": false, "blocked": "parent", "stop_reason": "parent queue 'a' is stopped"}),
        json!({"enable": false, "start": false, "stop_reason": "maintenance"}),
        json!([]),
    ] {
        let status = only(host.tick(host.now), STATUS);
        host.say(status.respond_json(&answer));
        assert!(host.session.is_serving(), "{answer}");
        host.now += 2.0;
    }
    // All queues are stopped, and the scheduler is offline: only the reason shows it.
    let status = only(host.tick(host.now), STATUS);
    host.say(
        status.respond_json(&json!({"enable": true, "start": false, "stop_reason": "Scheduler is offline"})),
    );
    assert!(!host.session.is_serving());
}

#[test]
fn a_job_manager_without_these_methods_is_left_in_peace() {
    let mut host = Host::serving(&machine("0-3"), "0-3");
    let mut asked = 0;
    for second in 0..600 {
        for request in host.tick(f64::from(second)) {
            asked += 1;
            assert!(host.say(request.respond_error(errno::ENOSYS, "")).is_empty());
        }
    }
    assert!(asked <= 22, "{asked} in ten minutes");
    assert!(host.session.is_serving() && host.session.audit().agrees.is_none());
    // With zero periods, or before the first tick, no question is sent.
    let off = SessionConfig { watch: Duration::ZERO, audit: Duration::ZERO, ..SessionConfig::default() };
    let (mut broker, hello) = broker::Broker::hello(off);
    assert!(broker.session.tick(0.0).is_empty() && broker.session.next_tick().is_none());
    let ready = broker.say(hello.respond_error(errno::ENODATA, "")).only();
    assert!(broker.say(ready.respond()).sent.is_empty());
    assert!(broker.session.tick(5.0).is_empty() && broker.session.next_tick().is_none());
}

#[test]
fn the_founding_revision_has_no_count_and_hello_comes_in_one() {
    let mut broker = broker::Broker::hello(SessionConfig::default());
    let plain = broker.0.say(broker.1.respond_error(errno::EPROTO, "")).only();
    let ready = broker.0.say(plain.respond_json(&json!({"alloc": []}))).only();
    broker.0.say(ready.respond());
    let mut session = broker.0.session;
    let sent = broker::Done::of(session.tick(0.0)).sent;
    assert_eq!(sent.iter().map(Message::topic).collect::<Vec<_>>(), [STATUS]);
    let blocked = json!({"start": false, "blocked": "scheduler"});
    session.on_message(sent[0].respond_json(&blocked));
    let hello = broker::Done::of(session.tick(0.0)).only();
    assert!(hello.topic() == "job-manager.sched-hello" && !hello.is_streaming() && hello.payload.is_none());
    let done = broker::Done::of(session.on_message(hello.respond_json(&json!({"alloc": []}))));
    assert!(matches!(&done.events[..], [Event::Recount { jobs, complete: true, .. }] if jobs.is_empty()));
    let recounted = Action::Recounted { unknown: Vec::new(), released: Vec::new() };
    let ready = broker::Done::of(session.on_actions([recounted])).only();
    assert_eq!(ready.topic(), "job-manager.sched-ready");
    assert!(broker::Done::of(session.on_message(ready.respond())).ready && session.is_serving());
}

#[test]
fn r27_hello_8_and_nonsense_in_a_repeated_hello() {
    let line = json!({"id": 1, "priority": 16, "userid": 1, "t_submit": 1.0});
    for fatal in [false, true] {
        let mut host = Host::with_jobs(
            &machine("0-3"),
            "0-3",
            &[
                (line.clone(), host::whole("0", 1.0, 0.0)),
                (json!({"id": 2, "priority": 16, "userid": 1, "t_submit": 1.0}), host::whole("1", 1.0, 0.0)),
            ],
        )
        .0;
        let status = only(host.tick(0.0), STATUS);
        host.say(status.respond_json(&json!({"start": false, "blocked": "scheduler"})));
        let hello = only(host.tick(0.0), "job-manager.sched-hello");
        assert!(host.say(hello.respond_json(&line)).is_empty());
        if fatal {
            host.say(hello.respond_error(errno::EPERM, "no"));
            assert!(matches!(host.fatal, Some(SessionError::Hello { errnum: errno::EPERM, .. })));
            continue;
        }
        // The unreadable job keeps its resources, and the handshake goes on.
        assert!(host.say(hello.respond_json(&json!({"id": "two"}))).is_empty());
        let ready = only(host.say(hello.respond_error(errno::ENODATA, "")), "job-manager.sched-ready");
        host.say(ready.respond());
        assert!(host.session.is_serving() && host.used().to_string() == "0-1");
        assert_eq!(host.session.stats().malformed, 1);
    }
}

#[test]
fn a_count_that_the_job_manager_cannot_make_or_that_cannot_be_read() {
    let mut host = Host::serving(&machine("0-3"), "0-3");
    for answer in [json!({}), json!({"allocated": 7}), json!([])] {
        let count = only(host.tick(host.now), COUNT);
        host.say(count.respond_json(&answer));
        host.now += AUDIT;
    }
    assert_eq!(host.session.stats().malformed, 3);
    // Two of its jobs hold the same resource: hello, one more count, and a report.
    let count = only(host.tick(host.now), COUNT);
    let hello = only(
        host.say(count.respond_error(errno::EINVAL, "f1: duplicate allocation")),
        "job-manager.sched-hello",
    );
    let count = only(host.say(hello.respond_error(errno::ENODATA, "")), COUNT);
    host.say(count.respond_error(errno::EINVAL, "f1: duplicate allocation"));
    let state = host.session.audit();
    assert_eq!((state.agrees, host.session.stats().audit_differences), (Some(false), 1));
    assert_eq!(state.text, "the job manager says: f1: duplicate allocation");
    // No answer: the question is repeated after a while.
    host.now += 10.0;
    assert_eq!(host.tick(host.now).iter().filter(|message| message.topic() == COUNT).count(), 1);
    host.now += 59.0;
    assert_eq!(host.tick(host.now).iter().filter(|message| message.topic() == COUNT).count(), 0);
    host.now += 2.0;
    assert_eq!(host.tick(host.now).iter().filter(|message| message.topic() == COUNT).count(), 1);
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

    /// Pitfalls 2, 3, 6 and 7, R27-FIN-1 to -3, R27-HELLO-9: for any lost messages, outages and reloads of the job
    /// manager, no core is ever allocated twice (the job manager's book panics), and at rest both sides agree.
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
