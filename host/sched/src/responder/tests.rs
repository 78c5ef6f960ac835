//! The service never gets its turn in these tests, as if a pass took for ever.

use fluxgate_formats::R;
use fluxgate_formats::jobspec::Simple;
use fluxgate_wire::proto::errno;
use serde_json::json;

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

fn responder() -> Responder {
    Responder::new("sched-fluxgate", 3, None)
}

fn check(nodes: u32, tag: u32) -> Message {
    let jobspec =
        Simple { nodes: Some(nodes), slots: nodes, command: vec!["true".into()], ..Simple::default() };
    let payload = json!({"jobspec": jobspec.build().to_value()});
    Message::request("feasibility.check").with_json(&payload).with_matchtag(tag)
}

#[test]
fn ping_and_feasibility_are_answered_during_a_pass() {
    let responder = responder();
    responder.refresh(&engine("0-3"));
    responder.begin(Duration::ZERO);
    for topic in ["sched-fluxgate.ping", "sched.ping", "feasibility.ping"] {
        let ping = Message::request(topic).with_json(&json!({"seq": 7})).with_matchtag(1);
        let answer = responder.answer(&ping).unwrap();
        let payload = answer.json().unwrap();
        assert_eq!(
            (answer.errnum(), &payload["seq"], &payload["rank"]),
            (0, &json!(7), &json!(3)),
            "{topic}"
        );
        assert!(payload["route"].is_string() && payload["userid"].is_number(), "{payload}");
    }
    for (nodes, expected) in [(2, 0), (3, errno::EOVERFLOW)] {
        let answer = responder.answer(&check(nodes, nodes)).unwrap();
        assert_eq!((answer.matchtag(), answer.errnum()), (nodes, expected), "{answer:?}");
    }
    assert_eq!(responder.answered(), 2);
    responder.clear();
    assert_eq!(responder.answered(), 0);
}

#[test]
fn what_it_cannot_answer_is_for_the_service() {
    let responder = responder();
    // No inventory yet; then one, but no jobspec, no object, no wish for an answer.
    assert!(responder.answer(&check(1, 1)).is_none());
    responder.refresh(&engine("0-3"));
    let bad = [
        Message::request("feasibility.check").with_json(&json!({})).with_matchtag(2),
        Message::request("feasibility.check").with_text("[]").with_matchtag(3),
        Message::request("sched.ping").with_text("[]").with_matchtag(4),
        Message::request("sched.ping").noresponse(),
        Message::request("sched.alloc").with_json(&json!({"id": 1})).with_matchtag(5),
    ];
    for message in &bad {
        assert!(responder.answer(message).is_none(), "{message:?}");
    }
    // Another inventory: the old one answers nothing.
    responder.forget();
    assert!(responder.answer(&check(1, 6)).is_none());
}

#[test]
fn a_removed_node_is_known_at_the_next_turn() {
    let (responder, mut engine) = (responder(), engine("0-3"));
    responder.refresh(&engine);
    engine.step(fluxgate_engine::Event::Shrink("1".parse().unwrap()), 0.0);
    responder.refresh(&engine);
    assert_eq!(responder.answer(&check(2, 1)).unwrap().errnum(), errno::EOVERFLOW);
    // A node that is only down still counts.
    engine.step(fluxgate_engine::Event::Down("0".parse().unwrap()), 0.0);
    responder.refresh(&engine);
    assert_eq!(responder.answer(&check(1, 2)).unwrap().errnum(), 0);
}

#[test]
fn a_cut_that_is_due_ends_its_pass_and_no_other() {
    let responder = responder();
    let interrupt = responder.interrupt();
    let raised = || interrupt.load(Ordering::Relaxed);
    assert!(responder.waits().is_none(), "no pass is being made");
    responder.begin(Duration::ZERO);
    let cut = responder.waits().unwrap();
    responder.end(cut.at, false);
    responder.begin(cut.at);
    responder.cut(&cut);
    assert!(!raised(), "that pass is over");
    let cut = responder.waits().unwrap();
    responder.cut(&cut);
    assert!(raised());
    responder.end(cut.at, true);
    responder.begin(cut.at);
    assert!(!raised(), "each pass begins undisturbed");
    responder.look(cut.at + PASS_MAX / 2);
    assert!(!raised());
    responder.look(cut.at + PASS_MAX);
    assert!(raised(), "it went on for too long");
}
