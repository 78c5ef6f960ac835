//! The service never gets its turn in these tests, as if a pass took for ever.

use fluxgate_formats::R;
use fluxgate_formats::jobspec::Simple;
use fluxgate_wire::proto::{errno, role};
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

/// The answer to a message, if it is not for the service.
fn answer(responder: &Responder, message: &Message) -> Option<Message> {
    // The owner's, as the job manager's are.
    let mut message = message.clone();
    message.rolemask = role::OWNER;
    match responder.hear(message) {
        Heard::Answer(answer) => Some(answer),
        Heard::Onward(_) => None,
        Heard::Guest | Heard::Dropped => panic!("it is the owner's"),
        Heard::Question => match responder.check(|| Duration::ZERO) {
            Checked::Answer(answer) => Some(answer),
            other => panic!("{other:?}"),
        },
    }
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
    responder.refresh(&engine("0-3"), true);
    responder.begin(Duration::ZERO);
    for topic in ["sched-fluxgate.ping", "sched.ping", "feasibility.ping"] {
        let ping = Message::request(topic).with_json(&json!({"seq": 7})).with_matchtag(1);
        let answer = answer(&responder, &ping).unwrap();
        let payload = answer.json().unwrap();
        assert_eq!(
            (answer.errnum(), &payload["seq"], &payload["rank"]),
            (0, &json!(7), &json!(3)),
            "{topic}"
        );
        assert!(payload["route"].is_string() && payload["userid"].is_number(), "{payload}");
    }
    for (nodes, expected) in [(2, 0), (3, errno::EOVERFLOW)] {
        let answer = answer(&responder, &check(nodes, nodes)).unwrap();
        assert_eq!((answer.matchtag(), answer.errnum()), (nodes, expected), "{answer:?}");
    }
    assert_eq!(responder.answered(), 2);
    responder.clear();
    assert_eq!(responder.answered(), 0);
}

#[test]
fn what_it_cannot_answer_is_for_the_service() {
    let responder = responder();
    // No inventory yet; then one, but no object, no wish for an answer.
    assert!(answer(&responder, &check(1, 1)).is_none());
    responder.refresh(&engine("0-3"), true);
    let bad = [
        Message::request("feasibility.check").with_json(&json!({})).noresponse(),
        Message::request("sched.ping").with_text("[]").with_matchtag(4),
        Message::request("sched.ping").noresponse(),
        Message::request("sched.alloc").with_json(&json!({"id": 1})).with_matchtag(5),
    ];
    for message in &bad {
        assert!(answer(&responder, message).is_none(), "{message:?}");
    }
    // Another inventory: the old one answers nothing.
    responder.forget();
    assert!(answer(&responder, &check(1, 6)).is_none());
}

#[test]
fn a_removed_node_is_known_at_the_next_turn() {
    let (responder, mut engine) = (responder(), engine("0-3"));
    responder.refresh(&engine, false);
    assert!(answer(&responder, &check(2, 1)).is_none(), "the job manager was not there yet");
    responder.refresh(&engine, true);
    engine.step(fluxgate_engine::Event::Shrink("1".parse().unwrap()), 0.0);
    responder.refresh(&engine, true);
    assert_eq!(answer(&responder, &check(2, 1)).unwrap().errnum(), errno::EOVERFLOW);
    // A node that is only down still counts.
    engine.step(fluxgate_engine::Event::Down("0".parse().unwrap()), 0.0);
    responder.refresh(&engine, true);
    assert_eq!(answer(&responder, &check(1, 2)).unwrap().errnum(), 0);
    // The job manager is away.
    engine.step(fluxgate_engine::Event::Shrink("0".parse().unwrap()), 0.0);
    responder.refresh(&engine, false);
    assert_eq!(answer(&responder, &check(1, 3)).unwrap().errnum(), errno::EOVERFLOW);
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

#[test]
fn questions_that_cannot_be_read_are_refused_in_words() {
    let responder = responder();
    responder.refresh(&engine("0-3"), true);
    let bad = [
        ("{}", "field `jobspec`: found nothing, expected an object"),
        ("[]", "the payload is an array instead of a JSON object"),
    ];
    for (text, why) in bad {
        let question = Message::request("feasibility.check").with_text(text).with_matchtag(2);
        let answer = answer(&responder, &question).unwrap();
        assert_eq!((answer.errnum(), answer.text().unwrap()), (errno::EINVAL, why));
    }
}

#[test]
fn questions_wait_for_the_next_inventory_and_too_many_are_refused() {
    let responder = responder();
    responder.refresh(&engine("0-3"), true);
    let guest = |tag| {
        let mut question = check(3, tag);
        (question.userid, question.rolemask) = (7, role::USER);
        question
    };
    for tag in 1.. {
        match responder.hear(guest(tag)) {
            Heard::Question => {}
            Heard::Answer(answer) => {
                assert_eq!((answer.matchtag(), answer.errnum()), (tag, errno::EAGAIN));
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((responder.refused(), responder.answered()), (1, 0));
    responder.forget();
    assert!(matches!(responder.check(|| Duration::ZERO), Checked::Wait(_)));
    responder.refresh(&engine("0-1"), true);
    let Checked::Answer(answer) = responder.check(|| Duration::ZERO) else { panic!("no answer") };
    assert_eq!((answer.matchtag(), answer.errnum()), (1, errno::EOVERFLOW));
}

#[test]
fn requests_of_guests_wait_for_their_turn_and_those_of_the_owner_do_not() {
    let responder = responder();
    let request = |user: u32, tag| {
        let mut request =
            Message::request("sched-fluxgate.explain").with_json(&json!({"id": 1})).with_matchtag(tag);
        (request.userid, request.rolemask) = (user, if user == 0 { role::OWNER } else { role::USER });
        request
    };
    for tag in 0..crate::guest_backlog::GUEST_MESSAGES_MAX as u32 {
        assert!(matches!(responder.hear(request(7, tag)), Heard::Guest));
    }
    let Heard::Answer(refused) = responder.hear(request(7, 900)) else { panic!("taken in") };
    assert_eq!((refused.matchtag(), refused.errnum()), (900, errno::EAGAIN));
    assert!(matches!(responder.hear(request(7, 901).noresponse()), Heard::Dropped));
    assert!(matches!(responder.hear(request(8, 1000)), Heard::Guest), "another guest");
    assert!(matches!(responder.hear(request(0, 1001)), Heard::Onward(_)), "the owner");
    assert!(responder.has_guests());
    assert_eq!([0; 3].map(|_| responder.guest().unwrap().matchtag()), [0, 1000, 1]);
    assert_eq!(responder.refused(), 2);
}
