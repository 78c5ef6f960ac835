//! The main loop never gets its turn in these tests, as if a pass took for ever.

use fluxgate_formats::R;
use fluxgate_formats::jobspec::Simple;
use fluxgate_wire::proto::errno;
use fluxgate_wire::session::SessionConfig;
use fluxgate_wire::transport::{Connection, Options};
use serde_json::json;
use tokio::net::UnixStream;

use super::*;

fn engine(cores: &str) -> Engine {
    let r = json!({
        "version": 1,
        "execution": {
            "R_lite": [{"rank": "0-1", "children": {"core": cores}}],
            "nodelist": ["n[0-1]"], "starttime": 0, "expiration": 0,
        },
    });
    let resources = Resources::from_r(&R::from_value(&r).unwrap()).unwrap();
    Engine::new(resources, fluxgate_engine::Config::default())
}

/// The broker's end of a connection whose other end is only looked after by the front desk.
fn busy(front: &Front) -> (Connection, Inbox) {
    let (near, far) = UnixStream::pair().unwrap();
    let Connection { outbox, mut inbox } = Connection::serve(near, Options::default());
    let session = SessionConfig { name: "sched-fluxgate".to_owned(), ..SessionConfig::default() };
    front.open(&mut inbox, &outbox, &Seat { session, rank: 3, uuid: None });
    (Connection::serve(far, Options::default()), inbox)
}

fn check(nodes: u32, tag: u32) -> Message {
    let jobspec =
        Simple { nodes: Some(nodes), slots: nodes, command: vec!["true".into()], ..Simple::default() };
    let payload = json!({"jobspec": jobspec.build().to_value()});
    Message::request("feasibility.check").with_json(&payload).with_matchtag(tag)
}

#[tokio::test]
async fn ping_and_feasibility_are_answered_while_nobody_listens() {
    let mut front = Front::default();
    front.refresh(&engine("0-3"));
    front.begin(false);
    let (mut broker, mut inbox) = busy(&front);
    for topic in ["sched-fluxgate.ping", "sched.ping", "feasibility.ping"] {
        broker.outbox.send(&Message::request(topic).with_json(&json!({"seq": 7})).with_matchtag(1)).unwrap();
        let answer = broker.inbox.recv().await.unwrap();
        let payload = answer.json().unwrap();
        assert_eq!(
            (answer.errnum(), &payload["seq"], &payload["rank"]),
            (0, &json!(7), &json!(3)),
            "{topic}"
        );
        assert!(payload["route"].is_string() && payload["userid"].is_number(), "{payload}");
    }
    for (nodes, expected) in [(2, 0), (3, errno::EOVERFLOW)] {
        broker.outbox.send(&check(nodes, nodes)).unwrap();
        let answer = broker.inbox.recv().await.unwrap();
        assert_eq!((answer.matchtag(), answer.errnum()), (nodes, expected), "{answer:?}");
    }
    assert_eq!(front.answered(), 2);
    assert!(inbox.try_recv().is_none(), "nothing of it is left for the main loop");
}

#[tokio::test]
async fn what_it_cannot_answer_it_lets_through_in_order() {
    let mut front = Front::default();
    let (broker, mut inbox) = busy(&front);
    // No inventory yet; then one, but no jobspec, no object, no wish for an answer.
    broker.outbox.send(&check(1, 1)).unwrap();
    assert_eq!(inbox.recv().await.unwrap().matchtag(), 1);
    front.refresh(&engine("0-3"));
    let bad = [
        Message::request("feasibility.check").with_json(&json!({})).with_matchtag(2),
        Message::request("feasibility.check").with_text("[]").with_matchtag(3),
        Message::request("sched.ping").with_text("[]").with_matchtag(4),
        Message::request("sched.ping").noresponse(),
        Message::request("sched.alloc").with_json(&json!({"id": 1})).with_matchtag(5),
    ];
    for message in &bad {
        broker.outbox.send(message).unwrap();
    }
    for message in &bad {
        let arrived = inbox.recv().await.unwrap();
        assert_eq!((arrived.topic(), arrived.matchtag()), (message.topic(), message.matchtag()));
    }
    // Another inventory: the old one answers nothing.
    front.forget();
    broker.outbox.send(&check(1, 6)).unwrap();
    assert_eq!(inbox.recv().await.unwrap().matchtag(), 6);
}

#[tokio::test]
async fn a_removed_node_is_known_at_the_next_turn() {
    let (mut front, mut engine) = (Front::default(), engine("0-3"));
    front.refresh(&engine);
    let (mut broker, _inbox) = busy(&front);
    engine.step(fluxgate_engine::Event::Shrink("1".parse().unwrap()), 0.0);
    front.refresh(&engine);
    broker.outbox.send(&check(2, 1)).unwrap();
    assert_eq!(broker.inbox.recv().await.unwrap().errnum(), errno::EOVERFLOW);
    // A node that is only down still counts.
    engine.step(fluxgate_engine::Event::Down("0".parse().unwrap()), 0.0);
    front.refresh(&engine);
    broker.outbox.send(&check(1, 2)).unwrap();
    assert_eq!(broker.inbox.recv().await.unwrap().errnum(), 0);
}

#[tokio::test]
async fn whoever_comes_during_a_pass_ends_it_and_each_cut_pass_gets_twice_the_time() {
    let mut front = Front::default();
    let (broker, mut inbox) = busy(&front);
    let interrupt = front.interrupt();
    let mut given = Vec::new();
    for _ in 0..3 {
        let begun = Instant::now();
        front.begin(false);
        given.push(
            Shared::lock(&front.shared.due).unwrap().duration_since(begun).as_millis()
                / UNDISTURBED.as_millis(),
        );
        assert!(!interrupt.load(Ordering::Relaxed), "each pass begins undisturbed");
        broker.outbox.send(&Message::request("sched.cancel").with_json(&json!({"id": 1}))).unwrap();
        while !interrupt.load(Ordering::Relaxed) {
            tokio::task::yield_now().await;
        }
        front.end(true);
        inbox.recv().await.unwrap();
    }
    assert_eq!(given, [1, 2, 4]);
    front.begin(true);
    front.end(false);
    let begun = Instant::now();
    front.begin(false);
    let due = Shared::lock(&front.shared.due).unwrap().duration_since(begun);
    assert!(due < UNDISTURBED * 2, "a whole pass begins the count anew: {due:?}");
}

#[tokio::test]
async fn a_pass_that_goes_on_and_on_is_cut_though_nobody_waits_and_a_rest_follows() {
    let mut front = Front::default();
    let interrupt = front.interrupt();
    front.begin(false);
    front.shared.look(Instant::now());
    assert!(!interrupt.load(Ordering::Relaxed));
    front.shared.look(Instant::now() + PASS_MAX);
    assert!(interrupt.load(Ordering::Relaxed));
    // As if it had taken so long.
    *Shared::lock(&front.shared.began) = Instant::now().checked_sub(PASS_MAX * 3);
    front.end(true);
    assert!(front.rests_for().is_some_and(|left| left > PASS_MAX * 2));
    front.wake();
    assert_eq!(front.rests_for(), None);
    // Between passes there is nothing to cut.
    front.begin(false);
    front.end(false);
    front.shared.look(Instant::now() + PASS_MAX * 9);
    assert!(!interrupt.load(Ordering::Relaxed));
    assert_eq!(front.rests_for(), None);
}
