//! Any payload to any topic, from any sender: the state machine answers or ignores it, and goes on.

use fluxgate_wire::Flags;
use proptest::prelude::*;

use super::*;

const TOPICS: [&str; 38] = [
    "attr.get",
    "broker.ping",
    "config.get",
    "event.subscribe",
    "fluxgate-instance.info",
    "job-info.eventlog-watch",
    "job-info.eventlog-watch-cancel",
    "job-info.lookup",
    "job-ingest.submit",
    "job-list.job-stats",
    "job-list.list",
    "job-list.list-id",
    "job-manager.alloc-query",
    "job-manager.kill",
    "job-manager.memo",
    "job-manager.queue-enable",
    "job-manager.queue-list",
    "job-manager.queue-start",
    "job-manager.queue-status",
    "job-manager.raise",
    "job-manager.raiseall",
    "job-manager.resource-status",
    "job-manager.sched-hello",
    "job-manager.sched-ready",
    "job-manager.update",
    "job-manager.urgency",
    "kvs.commit",
    "kvs.lookup",
    "log.append",
    "resource.acquire",
    "resource.acquire-cancel",
    "resource.drain",
    "resource.expiration-update",
    "resource.monitor-force-down",
    "resource.status",
    "resource.undrain",
    "service.remove",
    "nobody.nothing",
];

const KEYS: [&str; 30] = [
    "id",
    "jobspec",
    "J",
    "urgency",
    "flags",
    "copies",
    "severity",
    "type",
    "note",
    "signum",
    "userid",
    "states",
    "dry_run",
    "memo",
    "updates",
    "name",
    "enable",
    "start",
    "all",
    "reason",
    "targets",
    "mode",
    "limit",
    "ranks",
    "ops",
    "key",
    "attrs",
    "constraint",
    "max_entries",
    "R",
];

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        prop_oneof![Just(0u64), Just(1), Just(31), Just(1 << 24), any::<u64>()].prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop_oneof![
            Just("0"),
            Just("0-3"),
            Just("all"),
            Just("cancel"),
            Just("unlimited"),
            Just("limited"),
            Just("ƒ1"),
            Just("a.b.c"),
            Just("attributes.system.duration"),
            Just("")
        ]
        .prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        Just(jobspec(1, 1.0, 2.0)),
        Just(r("0", EPOCH, EPOCH + 5.0)),
    ]
}

fn json() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::btree_map(prop::sample::select(&KEYS[..]), inner, 0..6).prop_map(|entries| {
                Value::Object(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
            }),
        ]
    })
}

fn payload() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => prop::collection::btree_map(prop::sample::select(&KEYS[..]), json(), 0..8).prop_map(|entries| {
            let map: serde_json::Map<String, Value> =
                entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
            Value::Object(map).to_string().into_bytes()
        }),
        1 => json().prop_map(|value| value.to_string().into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn nonsense_is_answered_and_nothing_breaks(
        frames in prop::collection::vec(
            (prop::sample::select(&TOPICS[..]), payload(), 1u64..5, any::<bool>(), any::<bool>(), 0u8..12),
            1..25,
        )
    ) {
        let mut bench = Bench::ready();
        let ids: Vec<JobId> = (0..3).map(|_| bench.submit(jobspec(4, 50.0, 60.0))).collect();
        bench.allocate(ids[0], r("0", EPOCH, EPOCH + 60.0));
        for (topic, payload, client, streaming, noresponse, special) in frames {
            let client = ClientId(client);
            let mut message = Message::request(topic).with_matchtag(77).with_payload(payload.clone());
            if streaming {
                message = message.streaming();
            }
            if noresponse {
                message = message.noresponse();
            }
            bench.frames(client);
            match special {
                0 => bench.send(client, message.respond_error(3, "x")),
                1 => {
                    let mut alloc = Message::request("sched.alloc");
                    bench.core.router.sign_internal("job-manager", &mut alloc);
                    bench.send(SCHED, alloc.respond().with_payload(payload));
                }
                2 => {
                    bench.disconnect(client);
                    bench.reconnect(client);
                }
                _ => bench.send(client, message.with_flags(Flags::NONE)),
            }
            bench.advance(1.0);
            if noresponse && special > 2 {
                let answered = bench.frames(client).iter().any(|m| m.is_response() && m.topic() == topic);
                // Streams that were opened before may still end or go on.
                prop_assert!(!answered || topic.contains("watch") || topic.contains("acquire") || topic.contains("resource"));
            }
        }
        // The instance still answers, and has the same state after a crash.
        bench.ask(TOOL, "fluxgate-instance.info", json!({})).unwrap();
        bench.crash();
        bench.ask(TOOL, "fluxgate-instance.info", json!({})).unwrap();
        prop_assert_eq!(bench.count(ids[0], "start"), 1);
    }
}
