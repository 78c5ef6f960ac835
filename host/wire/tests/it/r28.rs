//! RFC 28, the scheduler's side, with a real engine behind the session: all resources, those that are up, and
//! those that are lost.

use fluxgate_formats::R;
use fluxgate_wire::proto::errno;
use fluxgate_wire::session::SessionConfig;
use serde_json::{Value, json};

use crate::broker::Broker;
use crate::host::{Host, alloc, cores, free, machine, nodes, r_of, successes, whole, with_verdict};

fn ranks(r: &Value) -> String {
    R::from_value(r).unwrap().ranks().to_string()
}

#[test]
fn r28_acq_1_the_request_is_a_stream_without_payload() {
    let broker = Broker::acquiring(SessionConfig::default());
    let request = &broker.acquire;
    assert_eq!((request.topic(), &request.payload), ("resource.acquire", &None));
    assert!(request.is_streaming() && request.wants_response() && request.matchtag() != 0);
}

#[test]
fn r28_acq_2_the_first_answer_is_the_machine_whatever_is_up() {
    for (up, expected) in [("", ""), ("0-8", "0-8"), ("3", "3")] {
        let mut broker = Broker::acquiring(SessionConfig::default());
        let first = broker.acquire.respond_json(&json!({"resources": machine("0-9"), "up": up}));
        let (resources, found) = broker.say(first).inventory.unwrap();
        assert_eq!((resources.ranks().to_string().as_str(), found.to_string().as_str()), ("0-9", expected));
    }
    // Ranks that are up but not in the inventory are ignored.
    let mut broker = Broker::acquiring(SessionConfig::default());
    let first = broker.acquire.respond_json(&json!({"resources": machine("0-3"), "up": "2-7"}));
    assert_eq!(broker.say(first).inventory.unwrap().1.to_string(), "2-3");
    assert_eq!(broker.session.stats().malformed, 1);
}

#[test]
fn r28_acq_3_only_what_is_up_is_given_but_all_of_it_counts_for_satisfiability() {
    let mut host = Host::serving(&machine("0-3"), "1,3");
    assert_eq!(ranks(&host.start(1, &nodes(2, 60.0))), "1,3");
    assert!(successes(&host.run(alloc(2, 16, &cores(1, 60.0)))).is_empty());
    let sent = host.run(alloc(3, 16, &nodes(4, 60.0)));
    assert!(with_verdict(&sent, 2).is_empty(), "it has to wait, and is not denied");
    assert_eq!(host.feasible(&nodes(4, 60.0)), 0);
    // Without the key no rank is up.
    let (mut host, hello) = Host::hello(&machine("0-1"), "");
    let ready = host.say(hello.respond_error(errno::ENODATA, "")).remove(0);
    host.say(ready.respond());
    assert!(successes(&host.run(alloc(1, 16, &cores(1, 60.0)))).is_empty());
}

#[test]
fn r28_upd_1_each_kind_of_update_has_its_effect_alone() {
    let mut host = Host::serving(&machine("0-3"), "0-1");
    let property = |name: &str| {
        let mut jobspec = nodes(1, 60.0);
        jobspec["attributes"]["system"]["constraints"] = json!({"properties": [name]});
        jobspec
    };
    host.update(&json!({"up": "2"}));
    assert_eq!(host.engine().resources().up().to_string(), "0-2");
    host.update(&json!({"down": "0"}));
    assert_eq!(host.engine().resources().up().to_string(), "1-2");
    assert_eq!(host.feasible(&property("new")), errno::EOVERFLOW);
    host.update(&json!({"property-add": {"new": "2"}}));
    assert_eq!((host.feasible(&property("new")), ranks(&host.start(1, &property("new")))), (0, "2".into()));
    host.update(&json!({"property-remove": {"new": "2"}}));
    assert_eq!(host.feasible(&property("new")), errno::EOVERFLOW);
    host.update(&json!({"shrink": "3"}));
    assert_eq!(host.feasible(&nodes(4, 60.0)), errno::EOVERFLOW);
    // An empty update changes nothing.
    host.update(&json!({}));
    assert_eq!(host.engine().resources().up().to_string(), "1-2");
    assert_eq!((host.session.stats().resource_updates, host.session.stats().malformed), (6, 0));
}

#[test]
fn r28_upd_2_updates_are_transitions_and_not_whole_sets() {
    let mut host = Host::serving(&machine("0-5"), "0-2");
    host.update(&json!({"up": "5"}));
    assert_eq!(host.engine().resources().up().to_string(), "0-2,5");
    host.update(&json!({"down": "1"}));
    assert_eq!(host.engine().resources().up().to_string(), "0,2,5");
    // A repeated update has no effect, and both in one message apply to their own ranks.
    host.update(&json!({"down": "1"}));
    host.update(&json!({"up": "1,3", "down": "0"}));
    assert_eq!(host.engine().resources().up().to_string(), "1-3,5");
}

#[test]
fn r28_upd_3_lost_ranks_are_gone_for_good_with_or_without_down() {
    for update in [json!({"down": "3", "shrink": "3"}), json!({"shrink": "3"})] {
        let mut host = Host::serving(&machine("0-3"), "0-3");
        let waiting = host.run(alloc(1, 16, &nodes(3, 60.0)));
        assert_eq!(successes(&waiting), [1]);
        host.run(alloc(2, 16, &nodes(4, 60.0)));
        let sent = host.update(&update);
        assert_eq!(with_verdict(&sent, 2), [2], "{update}: can never run any more");
        assert_eq!(host.feasible(&nodes(4, 60.0)), errno::EOVERFLOW);
        host.update(&json!({"up": "3"}));
        assert_eq!(host.engine().resources().up().to_string(), "0-2", "{update}: does not come back");
    }
}

#[test]
fn r28_upd_4_properties_decide_who_can_ever_run() {
    let mut host = Host::serving(&machine("0-1"), "0-1");
    let mut wants = nodes(1, 60.0);
    wants["attributes"]["system"]["constraints"] = json!({"properties": ["fast"]});
    assert_eq!(with_verdict(&host.run(alloc(1, 16, &wants)), 2), [1]);
    host.update(&json!({"property-add": {"fast": "0-1"}}));
    host.start(2, &nodes(2, 60.0));
    assert!(with_verdict(&host.run(alloc(3, 16, &wants)), 2).is_empty());
    // FEAT-3: a waiting job is not denied for a property that is not there now.
    let sent = host.update(&json!({"property-remove": {"fast": "0-1"}}));
    assert!(with_verdict(&sent, 2).is_empty());
    wants["attributes"]["system"]["constraints"] = json!({"properties": ["+pdat"]});
    assert!(with_verdict(&host.run(alloc(4, 16, &wants)), 2).is_empty());
}

#[test]
fn r28_upd_5_the_end_of_the_instance_is_what_was_said_last() {
    let mut host = Host::serving(&machine("0-3"), "0-3");
    let end = |r: &Value| r["execution"]["expiration"].as_f64().unwrap();
    assert_eq!(end(&host.start(1, &nodes(1, 0.0))), 0.0, "no limit");
    host.update(&json!({"expiration": 5000.5}));
    assert_eq!(end(&host.start(2, &nodes(1, 0.0))), 5000.5);
    host.update(&json!({"expiration": 0.0}));
    assert_eq!(end(&host.start(3, &nodes(1, 0.0))), 0.0);
    // An invalid end is counted, and changes nothing.
    host.update(&json!({"expiration": 6000.0}));
    host.update(&json!({"expiration": "never"}));
    host.update(&json!({"expiration": -1.0}));
    assert_eq!((end(&host.start(4, &nodes(1, 0.0))), host.session.stats().malformed), (6000.0, 2));
}

#[test]
fn r28_job_1_jobs_on_ranks_that_went_down_are_left_alone() {
    let mut host = Host::serving(&machine("0-3"), "0-3");
    host.start(1, &nodes(2, 60.0));
    let held = host.used();
    for update in [json!({"down": "0-1"}), json!({"down": "0", "shrink": "0"}), json!({"shrink": "1"})] {
        assert!(host.update(&update).is_empty(), "{update}");
        assert_eq!((host.engine().running(), host.used()), (1, held.clone()), "{update}");
    }
    // The free comes later. Lost ranks stay lost.
    assert!(host.run(free(1, &whole("0-1", 0.0, 0.0), true)).is_empty());
    assert_eq!((host.engine().running(), host.used().len()), (0, 0));
    assert_eq!(ranks(&host.start(2, &nodes(2, 60.0))), "2-3");
}

#[test]
fn r28_err_1_an_error_at_any_time_ends_the_session() {
    for errnum in [errno::EBUSY, errno::ENOENT, errno::ECANCELED, errno::EPROTO, 9999] {
        let mut broker = Broker::acquiring(SessionConfig::default());
        let refused = broker.acquire.respond_error(errnum, "no");
        assert!(broker.say(refused).fatal.is_some(), "{errnum}");
        let mut host = Host::serving(&machine("0"), "0");
        let commit = host.say(alloc(1, 16, &nodes(1, 60.0))).remove(0);
        let gone = host.acquire.respond_error(errnum, "unloaded");
        host.say(gone);
        let fatal = host.fatal.take().expect("it is over");
        assert_eq!(fatal.is_orderly(), errnum == errno::ECANCELED);
        assert!(fatal.to_string().contains("the resources are no longer ours: unloaded"), "{fatal}");
        assert!(host.say(commit.respond()).is_empty(), "nothing more is said");
    }
}

#[test]
fn r28_dis_1_acquiring_again_comes_with_hello_and_jobs_are_unaffected() {
    let mut first = Host::serving(&machine("0-3"), "0-3");
    let sent = first.run(alloc(1, 16, &nodes(2, 60.0)));
    let r = r_of(&sent, 1);
    // The next session, on a new connection, starts from the resources and continues with hello.
    let (mut second, hello) = Host::hello(&machine("0-3"), "0-3");
    assert_eq!(hello.topic(), "job-manager.sched-hello");
    let line = json!({"id": 1, "priority": 16, "userid": 1000, "t_submit": 1.0});
    let lookup = second.say(hello.respond_json(&line)).remove(0);
    second.say(lookup.respond_json(&json!({ "R": r })));
    let ready = second.say(hello.respond_error(errno::ENODATA, "")).remove(0);
    second.say(ready.respond_json(&json!({"count": 0})));
    assert_eq!(second.used(), first.used());
    assert_eq!(second.engine().running(), 1);
}
