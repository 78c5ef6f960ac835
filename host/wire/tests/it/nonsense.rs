//! A valid conversation with errors in it: wrong types, missing keys, unknown ids, cut JSON, huge sets, unexpected
//! errors, frames repeated, out of order or missing. The session's own messages stay valid in every case.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fluxgate_formats::JobId;
use fluxgate_wire::dialect::Dialect;
use fluxgate_wire::message::{Kind, Message};
use fluxgate_wire::proto::{errno, role};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::broker::GUEST;
use crate::host::{Host, alloc, cancel, nodes, verdict, whole};
use crate::talk::{Step, captured, conversation, end, founding, outages};

#[derive(Debug, Clone)]
enum Mistake {
    Drop,
    Twice,
    Swap(prop::sample::Index),
    Cut(prop::sample::Index),
    Replace(prop::sample::Index, Value),
    Remove(prop::sample::Index),
    Whole(String),
    Errnum(i32),
    /// An answer gets another matchtag; a request loses or gains one.
    Tag(u32),
    NoResponse,
    Guest,
}

fn values() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0u64..16).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(vec![
            "",
            "0",
            "0-5",
            "3,5",
            "0-4294967294",
            "0-99999999999999999999",
            "1-",
            "node[0-9999999]",
            "ƒ1",
            "x\ny",
        ])
        .prop_map(Value::from),
        Just(json!([])),
        Just(json!({})),
        Just(json!([[1, 2], 3, "x"])),
        Just(nodes(1, 60.0)),
        Just(whole("0-5", 1.0, 2.0)),
    ]
}

fn mistakes() -> impl Strategy<Value = Mistake> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        1 => Just(Mistake::Drop),
        2 => Just(Mistake::Twice),
        2 => index().prop_map(Mistake::Swap),
        1 => index().prop_map(Mistake::Cut),
        6 => (index(), values()).prop_map(|(at, value)| Mistake::Replace(at, value)),
        3 => index().prop_map(Mistake::Remove),
        1 => prop::sample::select(vec!["", "[]", "7", "null", "\"x\"", "{}", "{\"id\":", "\u{0}{}"])
            .prop_map(|text| Mistake::Whole(text.to_owned())),
        2 => prop::sample::select(vec![1, 2, 5, 17, 22, 38, 61, 71, 113, 125, 9999]).prop_map(Mistake::Errnum),
        1 => prop::sample::select(vec![0, 1, 3, 5, 7, 9, 4711]).prop_map(Mistake::Tag),
        1 => Just(Mistake::NoResponse),
        1 => Just(Mistake::Guest),
    ]
}

/// Number of values inside a value.
fn count(value: &Value) -> usize {
    match value {
        Value::Array(list) => list.iter().map(|each| 1 + count(each)).sum(),
        Value::Object(map) => map.values().map(|each| 1 + count(each)).sum(),
        _ => 0,
    }
}

/// Replaces the value with this number, or removes it.
fn change(value: &mut Value, at: &mut usize, new: &Option<Value>) -> bool {
    match value {
        Value::Array(list) => {
            for index in 0..list.len() {
                if *at == 0 {
                    match new {
                        Some(new) => list[index] = new.clone(),
                        None => drop(list.remove(index)),
                    }
                    return true;
                }
                *at -= 1;
                if change(&mut list[index], at, new) {
                    return true;
                }
            }
            false
        }
        Value::Object(map) => {
            let keys: Vec<String> = map.keys().cloned().collect();
            for key in keys {
                if *at == 0 {
                    match new {
                        Some(new) => drop(map.insert(key, new.clone())),
                        None => drop(map.remove(&key)),
                    }
                    return true;
                }
                *at -= 1;
                if map.get_mut(&key).is_some_and(|inner| change(inner, at, new)) {
                    return true;
                }
            }
            false
        }
        _ => false,
    }
}

fn text_of(step: &Step) -> Option<String> {
    match step {
        Step::Say(message) => message.text().map(str::to_owned),
        Step::Answer { payload, .. } => payload.clone(),
        Step::Wait(_) => None,
    }
}

fn with_text(step: &mut Step, text: &str) {
    match step {
        Step::Say(message) => *message = message.clone().with_text(text),
        Step::Answer { payload, .. } => *payload = Some(text.to_owned()),
        Step::Wait(_) => {}
    }
}

fn apply(steps: &mut Vec<Step>, at: usize, mistake: &Mistake) {
    match mistake {
        Mistake::Drop => drop(steps.remove(at)),
        Mistake::Twice => steps.insert(at, steps[at].clone()),
        Mistake::Swap(with) => {
            let with = with.index(steps.len());
            steps.swap(at, with);
        }
        Mistake::Cut(to) => {
            if let Some(text) = text_of(&steps[at]) {
                let mut end = to.index(text.len() + 1);
                while !text.is_char_boundary(end) {
                    end -= 1;
                }
                with_text(&mut steps[at], &text[..end]);
            }
        }
        Mistake::Whole(text) => with_text(&mut steps[at], text),
        Mistake::Replace(which, _) | Mistake::Remove(which) => {
            let Some(mut value) = text_of(&steps[at]).and_then(|text| serde_json::from_str(&text).ok())
            else {
                return;
            };
            if count(&value) > 0 {
                let new = if let Mistake::Replace(_, new) = mistake { Some(new.clone()) } else { None };
                let mut which = which.index(count(&value));
                change(&mut value, &mut which, &new);
                with_text(&mut steps[at], &value.to_string());
            }
        }
        Mistake::Errnum(number) => match &mut steps[at] {
            Step::Answer { errnum, .. } => *errnum = *number,
            Step::Wait(seconds) => *seconds = f64::from(*number),
            // A request that became an answer.
            Step::Say(message) => {
                message.kind = Kind::Response { errnum: number.unsigned_abs(), matchtag: message.matchtag() };
            }
        },
        Mistake::Tag(tag) => match &steps[at] {
            Step::Answer { topic, errnum, payload } => {
                let mut stray =
                    Message::request(topic).respond_error(*errnum, payload.as_deref().unwrap_or(""));
                stray.kind = Kind::Response { errnum: errnum.unsigned_abs(), matchtag: *tag };
                steps[at] = Step::Say(stray);
            }
            Step::Say(message) => steps[at] = Step::Say(message.clone().with_matchtag(*tag)),
            Step::Wait(_) => {}
        },
        Mistake::NoResponse => {
            if let Step::Say(message) = &mut steps[at] {
                *message = message.clone().noresponse();
            }
        }
        Mistake::Guest => {
            if let Step::Say(message) = &mut steps[at] {
                (message.userid, message.rolemask) = (2001, GUEST);
            }
        }
    }
}

/// The broker's record of the session.
#[derive(Default)]
struct Books {
    /// The session's open requests, in order.
    asked: VecDeque<Message>,
    /// Jobs of unanswered commits, by matchtag.
    commits: BTreeMap<u32, Vec<u64>>,
    /// Requests for resources that were delivered and not retired, by job.
    pending: BTreeMap<u64, u32>,
    /// Jobs whose R is durable and that have no SUCCESS yet.
    committed: BTreeMap<u64, u32>,
    /// Jobs that got SUCCESS, without a free since, and named by every later hello.
    held: BTreeSet<u64>,
    /// Jobs named by the hello in progress, by matchtag.
    told: BTreeMap<u32, BTreeSet<u64>>,
    teardowns: u64,
    /// Questions that require an answer, by matchtag.
    questions: BTreeSet<u32>,
    last_tag: u32,
    over: bool,
}

/// Matchtags of questions; those of the session's requests are below.
const QUESTIONS: u32 = 1 << 20;

fn job_of_key(key: &Value) -> u64 {
    let key = key.as_str().unwrap();
    key["job.".len()..].trim_end_matches(".R").parse::<JobId>().expect("dothex").0
}

impl Books {
    /// Checks the messages of the session.
    fn read(&mut self, host: &Host, sent: Vec<Message>) {
        assert!(!self.over || sent.is_empty(), "after the end: {sent:?}");
        for message in sent {
            if message.is_request() {
                if message.wants_response() {
                    let tag = message.matchtag();
                    assert!(tag != 0 && self.asked.iter().all(|old| old.matchtag() != tag));
                    if message.topic() == "kvs.commit" {
                        let ops = message.json().unwrap()["ops"].as_array().unwrap().clone();
                        self.commits.insert(tag, ops.iter().map(|op| job_of_key(&op["key"])).collect());
                    }
                    self.asked.push_back(message);
                }
            } else if message.topic() == "sched.alloc" && message.errnum() != 0 {
                assert_eq!(message.errnum(), errno::EPERM, "only guests hear an error number");
            } else if let Some((id, kind)) = verdict(&message) {
                let pending = self.pending.entry(id).or_default();
                assert!(*pending > 0, "type {kind} for {id}, without a request");
                *pending -= u32::from(kind != 1);
                if kind == 0 {
                    let committed = self.committed.entry(id).or_default();
                    assert!(*committed > 0, "SUCCESS for {id} without a commit");
                    *committed -= 1;
                    assert!(message.json().unwrap()["R"].is_object());
                    assert!(self.held.insert(id), "two SUCCESS for {id}");
                }
            } else if message.matchtag() > QUESTIONS {
                assert!(self.questions.remove(&message.matchtag()), "answered twice: {message:?}");
            }
        }
        self.over |= host.fatal.is_some();
    }

    fn asks(&self, topic: &str) -> bool {
        self.asked.iter().any(|request| request.topic() == topic)
    }

    fn deliver(&mut self, host: &mut Host, step: Step) {
        // The captured schedulers asked the KVS at once; this session does without a job-info service.
        if matches!(&step, Step::Answer { topic, .. } if topic == "kvs.lookup" && !self.asks(topic))
            && self.asks("job-info.lookup")
            && !self.over
        {
            self.deliver(host, end("job-info.lookup", errno::ENOSYS));
        }
        let mut message = match step {
            Step::Say(message) => message,
            Step::Wait(seconds) => {
                host.now += seconds;
                let now = host.now;
                let sent = host.tick(now);
                return self.read(host, sent);
            }
            Step::Answer { topic, errnum, payload } => {
                let Some(request) = self.asked.iter().find(|m| m.topic() == topic) else { return };
                let answer = request.respond_error(errnum, "");
                match payload {
                    Some(text) => answer.with_text(&text),
                    None => answer,
                }
            }
        };
        let id = message.json().ok().and_then(|payload| payload["id"].as_u64());
        let (owner, asks) = (message.is_from_owner(), message.wants_response());
        match message.topic() {
            _ if self.over => {}
            _ if message.is_response() => {
                let (tag, good) = (message.matchtag(), message.errnum() == 0);
                self.hear_hello(tag, good, message.errnum(), id);
                self.asked.retain(|request| request.matchtag() != tag || (good && request.is_streaming()));
                // The request with this matchtag takes it for its answer, also when it was meant for another.
                let jobs = self.commits.remove(&tag).filter(|_| good);
                for job in jobs.into_iter().flatten() {
                    *self.committed.entry(job).or_default() += 1;
                }
            }
            "sched.alloc" if asks && owner => {
                if let Some(id) = id {
                    *self.pending.entry(id).or_default() += 1;
                }
            }
            "sched.free" if owner => self.held.retain(|held| Some(*held) != id),
            "feasibility.check" | "sched.expiration" | "sched.nothing" if asks => {
                self.last_tag += 1;
                message = message.with_matchtag(QUESTIONS + self.last_tag);
                self.questions.insert(message.matchtag());
            }
            _ => {}
        }
        let before = counted(host);
        let update = |request: &Message| request.topic() == "resource.acquire";
        let expected = match message.kind {
            Kind::Request { .. } => !message.topic().ends_with(".disconnect"),
            Kind::Response { matchtag, .. } if message.errnum() == 0 && host.session.is_serving() => {
                self.asked.iter().any(|request| request.matchtag() == matchtag && update(request))
            }
            _ => false,
        };
        let bad = expected && message.json().is_err();
        let was_over = self.over;
        let sent = host.say(message.clone());
        if host.session.stats().teardowns > self.teardowns {
            // All earlier questions are void.
            self.teardowns = host.session.stats().teardowns;
            self.pending.clear();
            self.committed.clear();
            self.commits.values_mut().for_each(Vec::clear);
        }
        assert!(!bad || was_over || counted(host) > before || !host.session.is_serving(), "{message:?}");
        self.read(host, sent);
    }

    /// Resources that hello does not name are not held, whatever was reported before.
    fn hear_hello(&mut self, tag: u32, good: bool, errnum: i32, id: Option<u64>) {
        let hello = "job-manager.sched-hello";
        if self.asked.iter().any(|request| request.matchtag() == tag && request.topic() == hello) {
            let told = self.told.entry(tag).or_default();
            if good {
                told.extend(id);
            } else if errnum == errno::ENODATA {
                self.held.retain(|held| told.contains(held));
            }
        }
    }

    /// The broker becomes valid again: every request of the session is answered, every request of the broker
    /// withdrawn.
    fn finish(&mut self, host: &mut Host) {
        let ids: Vec<u64> = self.pending.iter().filter(|(_, count)| **count > 0).map(|(id, _)| *id).collect();
        for id in ids.iter().chain(&ids) {
            self.deliver(host, Step::Say(cancel(*id)));
            while !self.over
                && let Some(at) = self.asked.iter().position(|m| m.topic() != "resource.acquire")
            {
                let errnum = match self.asked[at].topic() {
                    "job-manager.sched-hello" => errno::ENODATA,
                    "job-info.lookup" | "kvs.lookup" => errno::ENOENT,
                    _ => 0,
                };
                let answer = self.asked[at].respond_error(errnum, "");
                self.deliver(host, Step::Say(answer));
            }
        }
        if host.session.is_serving() && host.engine.is_some() {
            assert_eq!(host.session.outstanding(), 0, "{:?}", host.session);
        }
        let goodbye = host.shutdown();
        self.read(host, goodbye);
        assert!(self.questions.is_empty(), "never answered: {:?}", self.questions);
    }
}

/// All messages that were counted as invalid.
fn counted(host: &Host) -> u64 {
    let stats = host.session.stats();
    stats.malformed + stats.unexpected + stats.guests_refused + stats.unknown_methods
}

fn play(steps: Vec<Step>) -> (Host, Books) {
    let mut host = Host::new();
    let mut books = Books::default();
    let begun = host.begun();
    books.read(&host, begun);
    for step in steps {
        host.now += 1.0;
        books.deliver(&mut host, step);
    }
    (host, books)
}

#[test]
fn the_conversation_is_a_good_one() {
    let (mut host, mut books) = play(conversation());
    assert!(host.session.is_serving() && host.fatal.is_none());
    let stats = host.session.stats();
    assert_eq!((stats.malformed, stats.unexpected, stats.guests_refused), (0, 0, 0));
    assert_eq!((stats.hello_jobs, stats.hello_lost, stats.unknown_methods), (2, 0, 1));
    // Jobs 10, 11, 13, 14, and 10 again.
    assert_eq!((stats.started, stats.allocs, stats.denied), (5, 7, 0), "{stats:?}");
    assert!(stats.canceled == 2 && stats.cancels_ignored == 1 && stats.annotated > 0, "{stats:?}");
    books.finish(&mut host);

    let (mut host, mut books) = play(founding());
    assert!(host.session.is_serving() && host.session.dialect() == Dialect::Founding);
    let stats = host.session.stats();
    assert_eq!((stats.malformed, stats.unexpected, stats.started, stats.canceled), (0, 0, 3, 1), "{stats:?}");
    books.finish(&mut host);
    let (mut host, mut books) = play(outages());
    let stats = host.session.stats();
    assert_eq!((stats.malformed, stats.unexpected, stats.teardowns), (0, 0, 2), "{stats:?}");
    assert!(host.session.is_serving() && stats.audits > 4 && stats.rehellos == 5, "{stats:?}");
    assert_eq!((stats.adopted, stats.audit_differences), (1, 0), "{stats:?}");
    books.finish(&mut host);
    for (name, steps) in captured() {
        let (mut host, mut books) = play(steps);
        let stats = host.session.stats();
        assert_eq!((stats.malformed, stats.unexpected), (0, 0), "{name}");
        books.finish(&mut host);
    }
}

/// A few errors: position and kind.
fn errors() -> impl Strategy<Value = Vec<(prop::sample::Index, Mistake)>> {
    prop::collection::vec((any::<prop::sample::Index>(), mistakes()), 1..8)
}

fn play_with(mut steps: Vec<Step>, errors: &[(prop::sample::Index, Mistake)]) {
    for (at, mistake) in errors {
        // Even the last frame can be dropped.
        if !steps.is_empty() {
            let at = at.index(steps.len());
            apply(&mut steps, at, mistake);
        }
    }
    let (mut host, mut books) = play(steps);
    books.finish(&mut host);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

    // The invariants: R27-SUCC-1 (no SUCCESS without a commit), R27-SUCC-4 (one end for each request), pitfall 7 (no
    // second SUCCESS for held resources), and an answer for every request that requires one.
    #[test]
    fn whatever_the_broker_does_wrong_we_do_right(errors in errors()) {
        play_with(conversation(), &errors);
    }

    #[test]
    fn whatever_a_broker_of_the_founding_revision_does_wrong_we_do_right(errors in errors()) {
        play_with(founding(), &errors);
    }

    #[test]
    fn whatever_goes_wrong_around_outages_we_do_right(errors in errors()) {
        play_with(outages(), &errors);
    }

    // R12-3: a guest can send any message, under any name.
    #[test]
    fn r12_3_guests_change_nothing_whatever_they_send(
        messages in prop::collection::vec(
            (
                prop::sample::select(&GUEST_TOPICS[..]),
                prop_oneof![
                    prop::collection::btree_map(prop::sample::select(&KEYS[..]), values(), 0..6)
                        .prop_map(|map| json!(map).to_string()),
                    prop::sample::select(vec!["", "[]", "{", "{\"id\": 12}"]).prop_map(str::to_owned),
                ],
                prop::sample::select(vec![0, role::USER, role::LOCAL, role::USER | role::LOCAL, role::ADMIN]),
                any::<bool>(),
                any::<bool>(),
            ),
            1..12,
        ),
    ) {
        let (mut host, mut books) = play(conversation());
        // State to protect: one job waits, and the R of another is being committed.
        for step in [alloc(20, 16, &nodes(1, 60.0)), alloc(21, 16, &nodes(5, 60.0))] {
            books.deliver(&mut host, Step::Say(step));
        }
        prop_assert!(host.session.outstanding() == 2 && host.engine().pending() == 1);
        let before = picture(&host);
        for (topic, payload, rolemask, noresponse, forged) in messages {
            let mut message = Message::request(topic).with_text(&payload).with_matchtag(9);
            (message.userid, message.rolemask) = (2001, rolemask);
            message.push_route(if forged { "job-manager" } else { "guest" });
            message.push_route("broker");
            let message = if noresponse { message.noresponse() } else { message };
            let sent = host.say(message.clone());
            prop_assert!(sent.len() <= usize::from(!noresponse), "{:?}", sent);
            for answer in sent {
                prop_assert_eq!(&answer.routes, &message.routes);
            }
            for topic in host.control.drain(..) {
                let open = ["ping", "resource-status", "stats-get", "policy-list", "policy-show"];
                prop_assert!(open.contains(&topic.rsplit('.').next().unwrap()), "{}", topic);
            }
        }
        prop_assert_eq!(picture(&host), before);
        books.finish(&mut host);
    }
}

const GUEST_TOPICS: [&str; 19] = [
    "sched-fluxion-resource.set_status",
    "sched.alloc",
    "sched.free",
    "sched.cancel",
    "sched.prioritize",
    "sched.expiration",
    "sched.hello",
    "sched.disconnect",
    "sched.resource-status",
    "sched.stats-clear",
    "feasibility.check",
    "feasibility.disconnect",
    "feasibility.cancel",
    "sched-fluxgate.policy-load",
    "sched-fluxgate.policy-swap",
    "sched-fluxgate.config-reload",
    "sched-fluxgate.shutdown",
    "sched-fluxgate.disconnect",
    "",
];

const KEYS: [&str; 12] = [
    "id",
    "jobs",
    "jobspec",
    "R",
    "final",
    "expiration",
    "priority",
    "userid",
    "name",
    "matchtag",
    "ranks",
    "up",
];

/// All state that a guest must not change.
fn picture(host: &Host) -> String {
    let engine = host.engine();
    let all = engine.resources();
    let mut stats = host.session.stats();
    // Refused and invalid messages are counted.
    (stats.guests_refused, stats.unknown_methods, stats.malformed, stats.unexpected) = (0, 0, 0, 0);
    stats.feasibility_checks = 0;
    format!(
        "{stats:?} {:?} {} {:?} {:?} {:?} {} {}",
        host.session.dialect(),
        host.session.outstanding(),
        engine.running_ids().collect::<Vec<_>>(),
        engine.pending_ids().collect::<Vec<_>>(),
        all.allocations().collect::<Vec<_>>(),
        all.up(),
        all.to_r_all().to_json(),
    )
}

#[test]
fn whatever_goes_wrong_in_a_captured_conversation_we_do_right() {
    for (_, steps) in captured() {
        let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(20) };
        proptest!(config, |(errors in errors())| { play_with(steps.clone(), &errors) });
    }
}
