//! A broker and an engine for a session, as test doubles.

use fluxgate_engine::{Action, Event};
use fluxgate_formats::{Idset, JobId, R};
use fluxgate_wire::message::Message;
use fluxgate_wire::proto::{errno, role};
use fluxgate_wire::session::{ControlRequest, Output, Session, SessionConfig, SessionError};
use serde_json::{Value, json};

pub const OWNER: u32 = role::OWNER | role::LOCAL;
pub const GUEST: u32 = role::USER | role::LOCAL;

pub fn r_value(ranks: &str) -> Value {
    let hosts: Vec<String> = ids(ranks).iter().map(|rank| format!("node{rank}")).collect();
    json!({"version": 1, "execution": {
        "R_lite": [{"rank": ranks, "children": {"core": "0-3"}}],
        "nodelist": [hosts.join(",")], "starttime": 1.5, "expiration": 0.0, "properties": {"+batch": ranks, "xx": ranks},
    }})
}

pub fn r(ranks: &str) -> Box<R> {
    Box::new(R::from_value(&r_value(ranks)).unwrap())
}

pub fn ids(text: &str) -> Idset {
    Idset::parse(text).unwrap()
}

pub fn jobspec() -> Value {
    json!({
        "version": 1,
        "resources": [{"type": "slot", "count": 1, "label": "task", "with": [{"type": "core", "count": 1}]}],
        "tasks": [{"command": ["app"], "slot": "task", "count": {"per_slot": 1}}],
        "attributes": {"system": {"duration": 60.0}},
    })
}

pub fn from_job_manager(topic: &str, payload: &Value) -> Message {
    let mut message = Message::request(topic).with_json(payload);
    message.userid = 1000;
    message.rolemask = OWNER;
    message.push_route("job-manager");
    message.push_route("broker");
    message
}

pub fn alloc(id: u64) -> Message {
    let payload = json!({"id": id, "priority": 16, "userid": 1000, "t_submit": 2.5, "jobspec": jobspec()});
    from_job_manager("sched.alloc", &payload)
}

pub fn start(id: u64, rank: &str) -> Action {
    Action::Start { id: JobId(id), r: (*r(rank)).into(), annotations: json!({"sched": {"t_estimate": null}}) }
}

#[derive(Debug, Default)]
pub struct Done {
    pub sent: Vec<Message>,
    pub events: Vec<Event>,
    pub control: Vec<ControlRequest>,
    pub fatal: Option<SessionError>,
    pub ready: bool,
    pub shutdown: bool,
    pub inventory: Option<(Box<R>, Idset)>,
}

impl Done {
    pub fn of(outputs: Vec<Output>) -> Done {
        let mut done = Done::default();
        for output in outputs {
            match output {
                Output::Send(message) => done.sent.push(message),
                Output::Engine(event) => done.events.push(event),
                Output::Control(request) => done.control.push(request),
                Output::Fatal(error) => done.fatal = Some(error),
                Output::Ready { .. } => done.ready = true,
                Output::Inventory { resources, up } => done.inventory = Some((resources, up)),
                Output::Shutdown => done.shutdown = true,
                Output::Disconnected { .. } => {}
            }
        }
        done
    }

    pub fn nothing(&self) -> bool {
        self.sent.is_empty() && self.events.is_empty() && self.control.is_empty() && self.fatal.is_none()
    }

    pub fn only(self) -> Message {
        let [message] = <[Message; 1]>::try_from(self.sent).expect("exactly one message");
        message
    }
}

/// The services that a session registers, in order.
pub const SERVICES: [&str; 5] =
    ["sched", "feasibility", "sched-fluxgate", "sched-fluxion-resource", "sched-fluxion-qmanager"];

pub struct Broker {
    pub session: Session,
    pub acquire: Message,
}

impl Broker {
    pub fn say(&mut self, message: Message) -> Done {
        Done::of(self.session.on_message(message))
    }

    pub fn decide(&mut self, actions: Vec<Action>) -> Done {
        Done::of(self.session.on_actions(actions))
    }

    /// A session up to the request for resources.
    pub fn acquiring(config: SessionConfig) -> Broker {
        let mut session = Session::new(config);
        let mut request = Done::of(session.start()).only();
        for service in SERVICES {
            assert_eq!(
                (request.topic(), request.json().unwrap()),
                ("service.add", json!({ "service": service }))
            );
            request = Done::of(session.on_message(request.respond())).only();
        }
        assert_eq!((request.topic(), request.payload.is_none()), ("resource.acquire", true), "R28-ACQ-1");
        assert!(request.is_streaming());
        Broker { session, acquire: request }
    }

    /// A session up to hello.
    pub fn hello(config: SessionConfig) -> (Broker, Message) {
        let mut broker = Broker::acquiring(config);
        let first = broker.acquire.respond_json(&json!({"resources": r_value("0-9"), "up": "0-8"}));
        let mut done = broker.say(first);
        let (resources, up) = done.inventory.take().unwrap();
        assert_eq!((resources.ranks(), up), (ids("0-9"), ids("0-8")), "R28-ACQ-2");
        (broker, done.only())
    }

    pub fn serving() -> Broker {
        let (mut broker, hello) = Broker::hello(SessionConfig::default());
        let ready = broker.say(hello.respond_error(errno::ENODATA, "")).only();
        assert_eq!(ready.json().unwrap(), json!({"mode": "unlimited"}));
        assert!(broker.say(ready.respond_json(&json!({"count": 0}))).ready);
        broker
    }

    pub fn pending(list: &[u64]) -> Broker {
        let mut broker = Broker::serving();
        for id in list {
            assert!(matches!(broker.say(alloc(*id)).events[..], [Event::Alloc { .. }]));
        }
        broker
    }
}

pub fn types(messages: &[Message]) -> Vec<(u64, u64)> {
    let pair = |m: &Message| {
        let payload = m.json().unwrap();
        assert_eq!((m.topic(), m.errnum(), m.matchtag()), ("sched.alloc", 0, 0), "R27-GEN-1, R27-GEN-3");
        assert_eq!(m.routes.as_deref().unwrap(), ["broker", "job-manager"], "routes verbatim");
        (payload["id"].as_u64().unwrap(), payload["type"].as_u64().unwrap())
    };
    messages.iter().map(pair).collect()
}
