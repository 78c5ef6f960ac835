//! Jobs of hello of which R can be read neither from job-info nor from the KVS, and those whose R names lost ranks: the
//! engine knows of them until the job manager has their resources as free.

use fluxgate_formats::JobId;
use fluxgate_wire::message::Message;
use fluxgate_wire::proto::errno;
use serde_json::{Value, json};

use crate::host::{Host, free, machine, whole};

const HELLO: &str = "job-manager.sched-hello";
const COUNT: &str = "job-manager.resource-status";
const READY: &str = "job-manager.sched-ready";
const RAISE: &str = "job-manager.raise";
const INFO: &str = "job-info.lookup";
const KVS: &str = "kvs.lookup";

fn line(id: u64) -> Value {
    json!({"id": id, "priority": 16, "userid": 1000, "t_submit": 1.0})
}

fn asked(sent: &[Message], topic: &str) -> Message {
    let topics: Vec<&str> = sent.iter().map(Message::topic).collect();
    sent.iter()
        .find(|message| message.topic() == topic)
        .unwrap_or_else(|| panic!("{topic}: {topics:?}"))
        .clone()
}

fn unread(host: &Host) -> Vec<u64> {
    host.engine().resources().unread().iter().map(|id| id.0).collect()
}

/// The answers to the lookups of R fail.
fn fails(host: &mut Host, lookup: &Message) -> Vec<Message> {
    let sent = host.say(lookup.respond_error(errno::EIO, "input/output error"));
    host.say(asked(&sent, KVS).respond_error(errno::EIO, "input/output error"))
}

/// A scheduler begins while job 1 is in housekeeping and its R cannot be read.
fn begun() -> Host {
    let (mut host, hello) = Host::hello(&machine("0-1"), "0-1");
    let lookup = asked(&host.say(hello.respond_json(&line(1))), INFO);
    host.say(hello.respond_error(errno::ENODATA, ""));
    let sent = fails(&mut host, &lookup);
    let (raise, ready) = (asked(&sent, RAISE), asked(&sent, READY));
    host.say(raise.respond_error(errno::ENOENT, "unknown job"));
    host.say(ready.respond_json(&json!({"count": 0})));
    assert_eq!(unread(&host), [1]);
    assert!(host.session.must_count());
    host
}

/// The job manager counts rank 0 and lists job 1; the lookup of its R.
fn counted(host: &mut Host) -> Message {
    host.now += 60.0;
    let count = asked(&host.tick(host.now), COUNT);
    let hello = asked(&host.say(count.respond_json(&json!({"allocated": whole("0", 0.0, 0.0)}))), HELLO);
    host.say(hello.respond_json(&line(1)));
    asked(&host.say(hello.respond_error(errno::ENODATA, "")), INFO)
}

#[test]
fn a_job_whose_r_is_read_later_is_taken_in() {
    let mut host = begun();
    let lookup = counted(&mut host);
    let count = asked(&fails(&mut host, &lookup), COUNT);
    host.say(count.respond_json(&json!({"allocated": whole("0", 0.0, 0.0)})));
    assert_eq!((unread(&host), host.session.audit().withheld.to_string()), (vec![1], "0".to_owned()));
    // Its R is looked up again with the next count.
    let lookup = counted(&mut host);
    let count = asked(&host.say(lookup.respond_json(&json!({"R": whole("0", 900.0, 950.0)}))), COUNT);
    host.say(count.respond_json(&json!({"allocated": whole("0", 0.0, 0.0)})));
    assert_eq!((unread(&host), host.used().to_string()), (vec![], "0".to_owned()));
    assert!(host.session.audit().withheld.is_empty());
}

#[test]
fn a_job_that_releases_the_rest_is_known_to_hold_nothing() {
    let mut host = begun();
    host.run(free(1, &whole("0", 0.0, 0.0), false));
    assert_eq!(unread(&host), [1], "a part");
    host.run(free(1, &whole("1", 0.0, 0.0), true));
    assert!(unread(&host).is_empty());
}

#[test]
fn a_job_that_the_job_manager_does_not_list_any_more_holds_nothing() {
    let mut host = begun();
    host.now += 60.0;
    // Both count nothing. All that the job holds on nodes may be lost to the inventory, so hello decides.
    let count = asked(&host.tick(host.now), COUNT);
    let none = json!({"allocated": {"version": 1, "execution": {"R_lite": [], "nodelist": [], "starttime": 0.0, "expiration": 0.0}}});
    let hello = asked(&host.say(count.respond_json(&none)), HELLO);
    assert_eq!(unread(&host), [1]);
    let count = asked(&host.say(hello.respond_error(errno::ENODATA, "")), COUNT);
    host.say(count.respond_json(&none));
    assert!(unread(&host).is_empty());
}

#[test]
fn without_a_count_it_is_as_the_job_manager_has_it() {
    let mut host = begun();
    host.now += 60.0;
    let count = asked(&host.tick(host.now), COUNT);
    host.say(count.respond_error(errno::ENOSYS, "no such method"));
    assert!(unread(&host).is_empty());
}

#[test]
fn a_job_on_lost_ranks_gets_one_exception_and_counts_until_it_is_gone() {
    let (mut host, hello) = Host::hello(&machine("0-1"), "0-1");
    let lookup = asked(&host.say(hello.respond_json(&line(1))), INFO);
    host.say(hello.respond_error(errno::ENODATA, ""));
    let mut sent = host.say(lookup.respond_json(&json!({"R": whole("0,7", 900.0, 5000.0)})));
    assert_eq!(sent.iter().filter(|message| message.topic() == RAISE).count(), 1);
    host.say(asked(&sent, READY).respond_json(&json!({"count": 0})));
    for _ in 0..2 {
        host.now += 60.0;
        let count = asked(&host.tick(host.now), COUNT);
        let hello = asked(&host.say(count.respond_json(&json!({"allocated": whole("0", 0.0, 0.0)}))), HELLO);
        host.say(hello.respond_json(&line(1)));
        sent = host.say(hello.respond_error(errno::ENODATA, ""));
        let count = asked(&sent, COUNT);
        assert_eq!(sent.len(), 1, "neither a lookup nor an exception: {sent:?}");
        host.say(count.respond_json(&json!({"allocated": whole("0", 0.0, 0.0)})));
        assert_eq!((unread(&host), host.session.audit().withheld.to_string()), (vec![1], "0".to_owned()));
    }
    let raised = host
        .actions
        .iter()
        .filter(|action| matches!(action, fluxgate_engine::Action::Raise { id: JobId(1), .. }));
    assert_eq!(raised.count(), 1);
}
