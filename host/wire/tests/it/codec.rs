//! Frames: the captured conversations byte for byte, and garbage of all kinds.

use fluxgate_wire::codec::{
    DecodeError, Decoder, EncodeError, FRAME_MAGIC, Limits, decode_body, encode, encode_into,
};
use fluxgate_wire::message::{Kind, Message};
use fluxgate_wire::proto::{Flags, ProtoError};
use proptest::prelude::*;
use serde_json::json;

use crate::common;

fn decode_all(limits: Limits, chunks: &[&[u8]]) -> (Vec<Message>, Option<DecodeError>) {
    let mut decoder = Decoder::new(limits);
    let mut messages = Vec::new();
    for chunk in chunks {
        decoder.push(chunk);
        loop {
            match decoder.next_message() {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break,
                Err(error) => return (messages, Some(error)),
            }
        }
    }
    (messages, None)
}

fn frame(body: &[u8]) -> Vec<u8> {
    let mut out = FRAME_MAGIC.to_ne_bytes().to_vec();
    out.extend_from_slice(&(body.len() as u32).to_be_bytes());
    out.extend_from_slice(body);
    out
}

fn proto(flags: u8) -> Vec<u8> {
    let mut part = vec![20, 0x8e, 1, 1, flags];
    part.extend_from_slice(&[0; 16]);
    part
}

#[test]
fn every_captured_frame_round_trips_byte_for_byte() {
    let Some(traces) = common::all_traces() else { return };
    let mut frames = 0;
    for (name, records) in &traces {
        for record in records {
            let (messages, error) = decode_all(Limits::default(), &[&record.frame]);
            assert_eq!(error, None, "{name} frame {}", record.n);
            let [message] = &messages[..] else { panic!("{name} frame {}: {messages:?}", record.n) };
            assert_eq!(encode(message).unwrap(), record.frame, "{name} frame {}", record.n);
            let meta = &record.meta;
            assert_eq!(meta["topic"].as_str().unwrap_or(""), message.topic(), "{name} frame {}", record.n);
            assert_eq!(meta["userid"], message.userid);
            assert_eq!(meta["rolemask"], message.rolemask);
            assert_eq!(meta["routes"], json!(message.routes));
            match message.kind {
                Kind::Request { nodeid, matchtag } => {
                    assert_eq!((&meta["nodeid"], &meta["matchtag"]), (&json!(nodeid), &json!(matchtag)));
                }
                Kind::Response { errnum, matchtag } => {
                    assert_eq!((&meta["errnum"], &meta["matchtag"]), (&json!(errnum), &json!(matchtag)));
                }
                other => panic!("{name} frame {}: {other:?}", record.n),
            }
            if meta["payload"].is_object() {
                assert_eq!(message.json().unwrap(), meta["payload"], "{name} frame {}", record.n);
            } else if let Some(text) = meta["payload_text"].as_str() {
                assert_eq!(message.text(), Some(text), "{name} frame {}", record.n);
            }
            frames += 1;
        }
        // The same as one stream, in pieces of 7 bytes.
        let whole: Vec<u8> = records.iter().flat_map(|r| r.frame.clone()).collect();
        let chunks: Vec<&[u8]> = whole.chunks(7).collect();
        assert_eq!(decode_all(Limits::default(), &chunks), decode_all(Limits::default(), &[&whole]));
    }
    assert!(frames > 500, "only {frames} frames");
}

#[test]
fn r3_the_example_of_the_measured_protocol() {
    let bytes = common::unhex(concat!(
        "1200eeff00000037000b736572766963652e616464",
        "147b2273657276696365223a227363686564227d00",
        "148e01010bffffffff00000000ffffffff00000001"
    ));
    let message = Message::request("service.add").with_json(&json!({"service": "sched"})).with_matchtag(1);
    if cfg!(target_endian = "little") {
        assert_eq!(encode(&message).unwrap(), bytes);
    }
    assert_eq!(decode_body(&bytes[8..], &Limits::default()).unwrap(), message);
}

#[test]
fn large_parts_use_the_long_form() {
    for len in [0, 1, 254, 255, 256, 70_000] {
        let message = Message::request("a.b").with_payload(vec![7; len]);
        let bytes = encode(&message).unwrap();
        assert_eq!(decode_all(Limits::default(), &[&bytes]), (vec![message], None), "{len}");
    }
}

#[test]
fn each_refusal_has_its_name() {
    let limits = Limits { frame_size_max: 1000, routes_max: 3 };
    let refuse = |bytes: &[u8]| decode_all(limits, &[bytes]).1;
    let found = u32::from_ne_bytes(*b"GET ");
    assert_eq!(refuse(b"GET / HTTP/1.1\r\n"), Some(DecodeError::WrongMagic { found }));
    assert_eq!(refuse(b"GET "), Some(DecodeError::WrongMagic { found }), "as soon as it is there");
    assert_eq!(refuse(b"GE"), None);
    let mut large = FRAME_MAGIC.to_ne_bytes().to_vec();
    large.extend_from_slice(&1001u32.to_be_bytes());
    assert_eq!(refuse(&large), Some(DecodeError::TooLarge { size: 1001, limit: 1000 }));
    assert_eq!(refuse(&frame(&[])), Some(DecodeError::MissingPart { part: "PROTO" }));
    assert_eq!(
        refuse(&frame(&[30, 1, 2])),
        Some(DecodeError::Truncated { part: 0, offset: 0, need: 31, have: 3 })
    );
    assert_eq!(
        refuse(&frame(&[1, 9, 0xff, 0, 0])),
        Some(DecodeError::Truncated { part: 1, offset: 2, need: 5, have: 3 })
    );
    assert_eq!(
        refuse(&frame(&[0xff, 0xff, 0xff, 0xff, 0xff, 0])),
        Some(DecodeError::Truncated { part: 0, offset: 0, need: 5 + u32::MAX as usize, have: 6 })
    );
    assert_eq!(refuse(&frame(&[0; 8])), Some(DecodeError::TooManyParts { limit: 7 }));
    assert_eq!(refuse(&frame(&[2, 1, 2])), Some(DecodeError::Proto(ProtoError::Length { found: 2 })));
    let mut bad = proto(0);
    bad[1] = 0;
    assert_eq!(refuse(&frame(&bad)), Some(DecodeError::Proto(ProtoError::Magic { found: 0 })));
    bad = proto(0);
    bad[2] = 9;
    assert_eq!(refuse(&frame(&bad)), Some(DecodeError::Proto(ProtoError::Version { found: 9 })));
    let body = |parts: &[&[u8]], flags: u8| {
        let mut body = Vec::new();
        for part in parts {
            body.push(part.len() as u8);
            body.extend_from_slice(part);
        }
        body.extend_from_slice(&proto(flags));
        frame(&body)
    };
    assert_eq!(refuse(&body(&[], 8)), Some(DecodeError::MissingPart { part: "delimiter" }));
    assert_eq!(refuse(&body(&[b"r"], 8)), Some(DecodeError::MissingPart { part: "delimiter" }));
    assert_eq!(refuse(&body(&[b""], 9)), Some(DecodeError::MissingPart { part: "topic" }));
    assert_eq!(refuse(&body(&[b"t"], 3)), Some(DecodeError::MissingPart { part: "payload" }));
    assert_eq!(refuse(&body(&[b"t", b"p"], 1)), Some(DecodeError::ExtraParts { count: 1 }));
    assert_eq!(
        refuse(&body(&[b"a", b"b", b"c", b"d", b""], 8)),
        Some(DecodeError::TooManyRoutes { limit: 3 })
    );
    assert_eq!(refuse(&body(&[b"\xff\xfe"], 1)), Some(DecodeError::NotText { part: "topic" }));
    let mut long = vec![0xff, 0, 0, 1, 0];
    long.extend_from_slice(&[b'x'; 256]);
    long.extend_from_slice(&proto(1));
    assert_eq!(refuse(&frame(&long)), Some(DecodeError::PartTooLong { part: "topic", len: 256, limit: 255 }));
}

#[test]
fn an_error_is_final() {
    let mut decoder = Decoder::default();
    decoder.push(b"nonsense");
    let error = decoder.next_message().unwrap_err();
    decoder.push(&encode(&Message::request("a.b")).unwrap());
    assert_eq!(decoder.next_message().unwrap_err(), error);
    assert_eq!(decoder.pending(), 0);
}

#[test]
fn what_can_not_be_read_is_not_written() {
    let limits = Limits { frame_size_max: 100, ..Limits::default() };
    let mut out = vec![1];
    let large = Message::request("a.b").with_payload(vec![0; 100]);
    assert!(matches!(encode_into(&large, &limits, &mut out), Err(EncodeError::TooLarge { limit: 100, .. })));
    assert_eq!(out, [1]);
    let long = Message::request(&"x".repeat(256));
    assert_eq!(encode(&long), Err(EncodeError::BadPart { part: "topic", len: 256 }));
    let mut hollow = Message::request("a.b");
    hollow.push_route("");
    assert_eq!(encode(&hollow), Err(EncodeError::BadPart { part: "route", len: 0 }));
}

fn messages() -> impl Strategy<Value = Message> {
    let kind = prop_oneof![
        (any::<u32>(), any::<u32>()).prop_map(|(nodeid, matchtag)| Kind::Request { nodeid, matchtag }),
        (any::<u32>(), any::<u32>()).prop_map(|(errnum, matchtag)| Kind::Response { errnum, matchtag }),
        any::<u32>().prop_map(|sequence| Kind::Event { sequence }),
    ];
    let routes = proptest::option::of(proptest::collection::vec("[a-f0-9-]{1,40}", 0..5));
    let topic = proptest::option::of("[a-z.-]{1,255}");
    let payload = proptest::option::of(proptest::collection::vec(any::<u8>(), 0..600));
    (kind, any::<u8>(), any::<u32>(), any::<u32>(), routes, topic, payload).prop_map(
        |(kind, flags, userid, rolemask, routes, topic, payload)| Message {
            kind,
            flags: Flags(flags).without(Flags::STRUCTURE),
            userid,
            rolemask,
            routes,
            topic,
            payload,
        },
    )
}

proptest! {
    #[test]
    fn any_message_round_trips_in_any_pieces(list in proptest::collection::vec(messages(), 1..4), size in 1usize..50) {
        let mut bytes = Vec::new();
        for message in &list {
            encode_into(message, &Limits::default(), &mut bytes).unwrap();
        }
        let chunks: Vec<&[u8]> = bytes.chunks(size).collect();
        prop_assert_eq!(decode_all(Limits::default(), &chunks), (list, None));
    }

    #[test]
    fn garbage_never_panics_and_pieces_do_not_matter(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..400),
        with_header in any::<bool>(),
        size in 1usize..50,
    ) {
        if with_header {
            bytes = frame(&bytes);
        }
        let limits = Limits { frame_size_max: 300, routes_max: 4 };
        let chunks: Vec<&[u8]> = bytes.chunks(size).collect();
        prop_assert_eq!(decode_all(limits, &chunks), decode_all(limits, &[&bytes]));
    }

    #[test]
    fn a_damaged_frame_never_panics(message in messages(), at in any::<prop::sample::Index>(), value in any::<u8>(), cut in any::<prop::sample::Index>()) {
        let mut bytes = encode(&message).unwrap();
        let at = at.index(bytes.len());
        bytes[at] = value;
        let (decoded, _) = decode_all(Limits::default(), &[&bytes]);
        for message in decoded {
            // An accepted message can be encoded again, with the same meaning.
            let again = encode(&message).unwrap();
            prop_assert_eq!(decode_all(Limits::default(), &[&again]).0, vec![message]);
        }
        bytes.truncate(cut.index(bytes.len() + 1));
        decode_all(Limits::default(), &[&bytes]);
    }
}
