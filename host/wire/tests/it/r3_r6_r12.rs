//! RFC 3, 6 and 12 as far as they concern a scheduler: numbers of the protocol, answers, and access rights.

use fluxgate_engine::{Action, Event, RpcError};
use fluxgate_formats::JobId;
use fluxgate_wire::codec::{FRAME_MAGIC, Limits, decode_body, encode};
use fluxgate_wire::message::{Kind, Message};
use fluxgate_wire::proto::{Flags, MessageType, NODEID_ANY, PROTO_SIZE, USERID_UNKNOWN, errno, role};
use fluxgate_wire::server::{Access, Listener};
use fluxgate_wire::session::SessionConfig;
use fluxgate_wire::transport::Options;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::broker::{Broker, Done, GUEST, OWNER, alloc, from_job_manager, jobspec, start, types};

/// The parts of a frame.
fn parts(frame: &[u8]) -> Vec<Vec<u8>> {
    let mut rest = &frame[8..];
    let mut parts = Vec::new();
    while let Some((&first, after)) = rest.split_first() {
        let (len, from) = match first {
            0xff => (u32::from_be_bytes(after[..4].try_into().unwrap()) as usize, &after[4..]),
            len => (usize::from(len), after),
        };
        parts.push(from[..len].to_vec());
        rest = &from[len..];
    }
    parts
}

#[test]
fn r3_1_parts_come_in_order_and_proto_comes_last() {
    let mut message = Message::request("sched.alloc").with_json(&json!({"id": 1})).with_nodeid(0x0102_0304);
    message.push_route("sender");
    message.push_route("last hop");
    let message = message.with_matchtag(0x0a0b_0c0d);
    let parts = parts(&encode(&message).unwrap());
    let text: Vec<&[u8]> = parts[..5].iter().map(Vec::as_slice).collect();
    assert_eq!(text, [&b"last hop"[..], b"sender", b"", b"sched.alloc", b"{\"id\":1}\0"]);
    let proto = &parts[5];
    assert_eq!((parts.len(), proto.len()), (6, PROTO_SIZE));
    assert_eq!(proto[..4], [0x8e, 1, 1, 0x0b]);
    assert_eq!(proto[12..], [1, 2, 3, 4, 0x0a, 0x0b, 0x0c, 0x0d], "big-endian");
}

#[test]
fn r3_2_numbers_of_types_and_flags() {
    let types = [MessageType::Request, MessageType::Response, MessageType::Event, MessageType::Control];
    assert_eq!(types.map(|kind| kind as u8), [1, 2, 4, 8]);
    let flags = [
        Flags::TOPIC,
        Flags::PAYLOAD,
        Flags::NORESPONSE,
        Flags::ROUTE,
        Flags::UPSTREAM,
        Flags::PRIVATE,
        Flags::STREAMING,
        Flags::USER1,
    ];
    assert_eq!(flags.map(|flag| flag.0), [0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80]);
    // Structural flags follow from the parts.
    let flags_of = |message: &Message| *encode(message).unwrap().iter().rev().nth(16).unwrap();
    let plain = Message::request("a.b");
    assert_eq!(flags_of(&plain), 0x09);
    assert_eq!(flags_of(&plain.clone().with_text("x").streaming()), 0x4b);
    assert_eq!(flags_of(&Message { routes: None, ..plain }.noresponse()), 0x05);
}

#[test]
fn r3_3_an_answer_goes_back_the_way_the_request_came() {
    let mut broker = Broker::serving();
    let mut request = from_job_manager("feasibility.check", &json!({"jobspec": 1})).with_matchtag(99);
    request.push_route("third");
    let answer = broker.say(request.clone()).only();
    assert_eq!((answer.topic(), answer.matchtag()), ("feasibility.check", 99));
    assert_eq!(answer.routes, request.routes);
    assert_eq!(answer.kind, Kind::Response { errnum: 22, matchtag: 99 });
    assert_eq!((answer.userid, answer.rolemask), (USERID_UNKNOWN, role::NONE), "the broker fills them in");
    // The error number is always present: twenty bytes, no more and no less.
    let good = request.respond();
    assert_eq!(parts(&encode(&good).unwrap()).last().unwrap()[12..16], [0; 4]);
}

#[test]
fn r3_4_requests_go_to_the_nearest_who_serves_them_unless_a_rank_is_named() {
    let broker = Broker::acquiring(SessionConfig::default());
    assert!(matches!(broker.acquire.kind, Kind::Request { nodeid: NODEID_ANY, .. }));
    assert!(!broker.acquire.flags.contains(Flags::UPSTREAM));
    // A request to this rank is answered like any other.
    let mut broker = Broker::serving();
    for rank in [0, 7, NODEID_ANY] {
        let ask = from_job_manager("feasibility.check", &json!({})).with_matchtag(3).with_nodeid(rank);
        assert_eq!(broker.say(ask).only().errnum(), errno::EINVAL);
    }
}

#[test]
fn r3_5_payloads_are_objects_with_a_nul_and_may_lack_it() {
    let mut broker = Broker::serving();
    let bytes = alloc(1).payload.unwrap();
    assert_eq!(bytes.last(), Some(&0));
    let without = alloc(1).with_payload(bytes[..bytes.len() - 1].to_vec());
    assert!(matches!(broker.say(without).events[..], [Event::Alloc { .. }]));
    for bad in
        [&b"[1]\0"[..], b"1\0", b"null\0", b"\"id\"\0", b"{\"id\":1}x\0", b"{\"id\":1}\0\0", b"\0", b""]
    {
        assert!(broker.say(alloc(2).with_payload(bad.to_vec())).nothing(), "{bad:?}");
    }
    assert!(broker.say(Message { payload: None, ..alloc(2) }).nothing());
    assert_eq!(broker.session.stats().malformed, 9);
}

#[tokio::test]
async fn r3_6_one_byte_tells_whether_we_are_welcome_and_long_parts_have_long_lengths() {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::Permissions::from_mode(0o700);
    let folder = tempfile::Builder::new().permissions(mode).tempdir().unwrap();
    let path = folder.path().join("local");
    let mut listener = Listener::bind(&path, Access::owner_only(), Options::default()).unwrap();
    let (client, server) = tokio::join!(tokio::net::UnixStream::connect(&path), listener.accept());
    let (mut client, (_, mut server)) = (client.unwrap(), server.unwrap());
    assert_eq!(client.read_u8().await.unwrap(), 0);
    // A part of 255 bytes is the first with a length of four bytes.
    for len in [1usize, 254, 255, 300] {
        let mut body = vec![1, b't'];
        match u8::try_from(len) {
            Ok(len) if len < 255 => body.push(len),
            _ => body.extend([&[0xff][..], &(len as u32).to_be_bytes()].concat()),
        }
        body.extend(vec![b'x'; len]);
        body.extend([20, 0x8e, 1, 1, 0x03]);
        body.extend([0; 16]);
        let mut frame = FRAME_MAGIC.to_ne_bytes().to_vec();
        frame.extend((body.len() as u32).to_be_bytes());
        frame.extend(body);
        client.write_all(&frame).await.unwrap();
        let message = server.inbox.recv().await.unwrap();
        assert_eq!((message.topic(), message.payload.as_ref().map(Vec::len)), ("t", Some(len)));
        server.outbox.send(&message).unwrap();
        let mut back = vec![0; frame.len()];
        client.read_exact(&mut back).await.unwrap();
        assert_eq!(back, frame);
    }
    // Refused: an error number, and the end.
    listener.set_judge(Box::new(|_| Err(errno::EPERM)));
    let mut refused = tokio::net::UnixStream::connect(&path).await.unwrap();
    let mut bytes = Vec::new();
    tokio::select! {
        read = refused.read_to_end(&mut bytes) => assert_eq!(read.unwrap(), 1),
        accepted = listener.accept() => panic!("accepted {accepted:?}"),
    }
    assert_eq!(bytes, [1]);
}

#[test]
fn r3_7_what_wants_no_answer_gets_none() {
    let mut broker = Broker::pending(&[1]);
    for topic in [
        "sched.alloc",
        "sched.free",
        "sched.cancel",
        "sched.prioritize",
        "sched.expiration",
        "sched.nonsense",
        "feasibility.check",
        "feasibility.nonsense",
        "nobody.nothing",
    ] {
        for payload in [json!({}), json!({"id": 77}), json!({"jobspec": {}}), json!({"jobs": 7})] {
            let done = broker.say(from_job_manager(topic, &payload).noresponse());
            assert!(done.sent.is_empty(), "{topic} {payload}: {:?}", done.sent);
        }
    }
    // Valid requests neither.
    let check = json!({"jobspec": jobspec()});
    assert!(broker.say(from_job_manager("feasibility.check", &check).noresponse()).nothing());
    assert!(broker.say(alloc(5).noresponse()).nothing());
}

#[test]
fn r3_e_the_frame_of_the_running_broker() {
    let bytes = encode(&Message::request("a.b").with_text("x")).unwrap();
    assert_eq!(bytes[..4], 0xffee_0012_u32.to_ne_bytes(), "in the order of the machine");
    assert_eq!(u32::from_be_bytes(bytes[4..8].try_into().unwrap()) as usize, bytes.len() - 8);
    assert_eq!(decode_body(&bytes[8..], &Limits::default()).unwrap().topic.as_deref(), Some("a.b"));
    // Topic and routes without NUL, payload with.
    assert_eq!(parts(&bytes)[1..3], [b"a.b".to_vec(), b"x\0".to_vec()]);
    assert_eq!(errno::ENOSYS, 38);
}

#[test]
fn r6_1_a_stream_ends_with_its_error_and_not_before() {
    let (mut broker, hello) = Broker::hello(SessionConfig::default());
    assert!(hello.is_streaming() && broker.acquire.is_streaming());
    // Valid answers keep it open.
    for up in ["9", "8"] {
        let update = broker.acquire.respond_json(&json!({ "up": up }));
        assert_eq!(broker.say(update).events.len(), 1);
    }
    assert!(!broker.say(hello.respond_error(errno::ENODATA, "")).sent.is_empty(), "goes on with ready");
    // Messages after the end belong to no request.
    assert!(broker.say(hello.respond_error(errno::ENODATA, "")).nothing());
    assert_eq!(broker.session.stats().unexpected, 1);
}

#[test]
fn r6_2_matchtags_of_different_clients_may_be_the_same() {
    let mut broker = Broker::serving();
    let ask = |client: &str| {
        let mut request =
            Message::request("feasibility.check").with_json(&json!({"jobspec": jobspec()})).with_matchtag(5);
        request.push_route(client);
        request
    };
    let token = |done: Done| match done.events[..] {
        [Event::Feasibility { token, .. }] => token,
        ref other => panic!("{other:?}"),
    };
    let (a, b) = (token(broker.say(ask("a"))), token(broker.say(ask("b"))));
    let no = Err(RpcError { errnum: 75, text: "no".into() });
    let answers = broker
        .decide(vec![Action::Reply { token: b, result: no }, Action::Reply { token: a, result: Ok(()) }])
        .sent;
    let seen: Vec<_> =
        answers.iter().map(|m| (m.routes.clone().unwrap(), m.matchtag(), m.errnum())).collect();
    assert_eq!(seen, [(vec!["b".to_owned()], 5, 75), (vec!["a".to_owned()], 5, 0)]);
    // Matchtags of this session are not reused while an answer is due.
    let mut broker = Broker::pending(&[1, 2]);
    let tags = [1, 2].map(|id| broker.decide(vec![start(id, "1")]).only().matchtag());
    assert!(tags[0] != tags[1] && !tags.contains(&broker.acquire.matchtag()) && !tags.contains(&0));
}

#[test]
fn r6_3_a_client_that_is_gone_is_not_answered() {
    let mut broker = Broker::serving();
    let mut tokens = Vec::new();
    for client in ["a", "b"] {
        let mut request =
            Message::request("feasibility.check").with_json(&json!({"jobspec": jobspec()})).with_matchtag(5);
        request.push_route(client);
        // The sender is the route nearest the delimiter, with any hops between.
        request.push_route("hop");
        match broker.say(request).events[..] {
            [Event::Feasibility { token, .. }] => tokens.push(token),
            ref other => panic!("{other:?}"),
        }
    }
    let mut gone = Message::request("feasibility.disconnect").noresponse();
    gone.push_route("a");
    gone.push_route("another hop");
    assert!(broker.say(gone).nothing());
    let reply = |token| Action::Reply { token, result: Ok(()) };
    let sent = broker.decide(tokens.into_iter().map(reply).collect()).only();
    assert_eq!(sent.sender(), Some("b"));
}

#[test]
fn r6_4_a_canceled_stream_ends_with_ecanceled() {
    let mut broker = Broker::serving();
    let end = broker.acquire.respond_error(errno::ECANCELED, "");
    assert!(broker.say(end).fatal.is_some_and(|fatal| fatal.is_orderly()));
}

#[test]
fn r6_5_error_texts_are_one_short_line() {
    let mut broker = Broker::serving();
    let ask = |payload: &Value| from_job_manager("feasibility.check", payload).with_matchtag(4);
    let long = "x".repeat(10_000);
    let mut odd = jobspec();
    odd["resources"][0]["type"] = json!(format!("a\nb{long}"));
    for payload in [json!({"jobspec": "a\nb"}), json!({"jobspec": {"a\nb": 1}}), json!({ "jobspec": odd })] {
        let done = broker.say(ask(&payload));
        let answer = match done.events[..] {
            [Event::Feasibility { token, .. }] => {
                let result = Err(RpcError { errnum: 75, text: format!("a\nb {long}") });
                broker.decide(vec![Action::Reply { token, result }]).only()
            }
            _ => done.only(),
        };
        let text = answer.text().unwrap();
        assert!(!text.is_empty() && !text.contains('\n') && text.chars().count() <= 400, "{text}");
    }
}

#[test]
fn r12_1_numbers_of_roles() {
    assert_eq!([role::OWNER, role::USER, role::LOCAL, role::ADMIN], [1, 2, 4, 8]);
    assert_eq!((role::NONE, USERID_UNKNOWN), (0, u32::MAX));
    let bytes = encode(&Message::request("a.b")).unwrap();
    let proto = parts(&bytes).pop().unwrap();
    assert_eq!(proto[4..12], [255, 255, 255, 255, 0, 0, 0, 0], "to be filled in by the router");
}

#[test]
fn r12_3_and_4_the_owner_may_and_others_may_not() {
    // Other bits of the mask do not matter: OWNER makes the sender the owner.
    for (rolemask, may) in [
        (OWNER, true),
        (role::OWNER, true),
        (role::OWNER | role::USER, true),
        (GUEST, false),
        (role::LOCAL, false),
        (role::ADMIN, false),
        (role::NONE, false),
    ] {
        let mut broker = Broker::serving();
        let mut request = alloc(1);
        request.rolemask = rolemask;
        let done = broker.say(request);
        assert_eq!(done.events.len(), usize::from(may), "{rolemask}");
        if !may {
            assert_eq!(done.only().errnum(), errno::EPERM);
        }
        assert_eq!(broker.session.stats().guests_refused, u64::from(!may));
    }
}

#[test]
fn r12_5_events_of_others_change_nothing() {
    let mut broker = Broker::pending(&[1]);
    let before = broker.session.stats();
    for topic in ["sched.alloc", "sched.disconnect", "sched-fluxgate.stats-clear", "job-state"] {
        let event = Message::event(topic, 7).with_json(&json!({"id": 1})).with_flags(Flags::PRIVATE);
        assert!(broker.say(event).nothing(), "{topic}");
    }
    assert_eq!(broker.session.stats(), before);
    // The request is still open.
    let done = broker.decide(vec![Action::Canceled { id: JobId(1) }]);
    assert_eq!(types(&done.sent), [(1, 3)]);
}
