//! A session with a real engine, driven by the test: the broker's frames in, the session's out, time as a parameter.
//! This module knows neither sockets nor a clock.

use std::collections::VecDeque;

use fluxgate_engine::{Action, Config, Engine, Event};
use fluxgate_formats::jobspec::Simple;
use fluxgate_formats::{Idset, R};
use fluxgate_graph::Resources;
use fluxgate_wire::message::Message;
use fluxgate_wire::proto::errno;
use fluxgate_wire::session::{Output, Session, SessionConfig, SessionError};
use serde_json::{Value, json};

use crate::broker::from_job_manager;

/// A machine of `ranks`, four cores each.
pub fn machine(ranks: &str) -> Value {
    let all: Idset = ranks.parse().unwrap();
    let hosts: Vec<String> = all.iter().map(|rank| format!("node{rank}")).collect();
    json!({"version": 1, "execution": {
        "R_lite": [{"rank": ranks, "children": {"core": "0-3"}}],
        "nodelist": [hosts.join(",")], "starttime": 0.0, "expiration": 0.0,
    }})
}

/// R of whole nodes of [`machine`].
pub fn whole(ranks: &str, starttime: f64, expiration: f64) -> Value {
    let mut r = machine(ranks);
    r["execution"]["starttime"] = json!(starttime);
    r["execution"]["expiration"] = json!(expiration);
    r
}

/// `slots` slots of one core.
pub fn cores(slots: u32, duration: f64) -> Value {
    Simple { slots, duration, command: vec!["app".into()], ..Simple::default() }.build().to_value()
}

/// Whole nodes.
pub fn nodes(count: u32, duration: f64) -> Value {
    let simple = Simple { nodes: Some(count), duration, command: vec!["app".into()], ..Simple::default() };
    simple.build().to_value()
}

pub fn alloc(id: u64, priority: u32, jobspec: &Value) -> Message {
    let payload =
        json!({"id": id, "priority": priority, "userid": 1000, "t_submit": id as f64, "jobspec": jobspec});
    from_job_manager("sched.alloc", &payload)
}

pub fn cancel(id: u64) -> Message {
    from_job_manager("sched.cancel", &json!({ "id": id })).noresponse()
}

pub fn prioritize(id: u64, priority: u32) -> Message {
    from_job_manager("sched.prioritize", &json!({"jobs": [[id, priority]]})).noresponse()
}

pub fn free(id: u64, r: &Value, last: bool) -> Message {
    from_job_manager("sched.free", &json!({"id": id, "R": r, "final": last}))
}

/// `type` and job of an answer to `sched.alloc`.
pub fn verdict(message: &Message) -> Option<(u64, u64)> {
    if message.topic() != "sched.alloc" {
        return None;
    }
    let payload = message.json().unwrap();
    Some((payload["id"].as_u64().unwrap(), payload["type"].as_u64().unwrap()))
}

/// Jobs with this verdict, in order.
pub fn with_verdict(messages: &[Message], kind: u64) -> Vec<u64> {
    messages.iter().filter_map(verdict).filter(|(_, found)| *found == kind).map(|(id, _)| id).collect()
}

pub fn successes(messages: &[Message]) -> Vec<u64> {
    with_verdict(messages, 0)
}

/// R of a job's SUCCESS.
pub fn r_of(messages: &[Message], id: u64) -> Value {
    let success = messages.iter().find(|message| verdict(message) == Some((id, 0)));
    success.expect("a SUCCESS").json().unwrap()["R"].clone()
}

pub struct Host {
    pub session: Session,
    pub engine: Option<Engine>,
    pub now: f64,
    pub acquire: Message,
    /// The fatal error, which is no frame.
    pub fatal: Option<SessionError>,
    pub actions: Vec<Action>,
    /// Topics of requests that only a driver can answer.
    pub control: Vec<String>,
    sent: Vec<Message>,
}

impl Host {
    /// The first request is sent; see [`Host::begun`].
    pub fn new() -> Host {
        let mut host = Host {
            session: Session::new(SessionConfig {
                register_name: false,
                graph_services: false,
                ..SessionConfig::default()
            }),
            engine: None,
            now: 1000.0,
            acquire: Message::request(""),
            fatal: None,
            actions: Vec::new(),
            control: Vec::new(),
            sent: Vec::new(),
        };
        let begin = host.session.start();
        host.carry_out(begin);
        host
    }

    /// The messages sent at the start.
    pub fn begun(&mut self) -> Vec<Message> {
        std::mem::take(&mut self.sent)
    }

    /// A normal shutdown.
    pub fn shutdown(&mut self) -> Vec<Message> {
        let outputs = self.session.shutdown();
        self.carry_out(outputs);
        std::mem::take(&mut self.sent)
    }

    /// A session up to hello, which is returned.
    pub fn hello(resources: &Value, up: &str) -> (Host, Message) {
        let mut host = Host::new();
        for _ in ["sched", "feasibility"] {
            let request = host.sent.pop().unwrap();
            host.sent = host.say(request.respond());
        }
        host.acquire = host.sent.pop().unwrap();
        let first = host.acquire.respond_json(&json!({"resources": resources, "up": up}));
        let hello = host.say(first).pop().expect("hello");
        assert_eq!(hello.topic(), "job-manager.sched-hello");
        (host, hello)
    }

    /// A serving session; `jobs` hold resources: the line of hello, and R.
    pub fn with_jobs(resources: &Value, up: &str, jobs: &[(Value, Value)]) -> (Host, Vec<Message>) {
        let (mut host, hello) = Host::hello(resources, up);
        let mut lookups = Vec::new();
        for (line, r) in jobs {
            lookups.extend(host.say(hello.respond_json(line)).into_iter().map(|lookup| (lookup, r)));
        }
        let mut sent = host.say(hello.respond_error(errno::ENODATA, ""));
        for (lookup, r) in lookups {
            sent.extend(host.say(lookup.respond_json(&json!({ "R": r }))));
        }
        let at = sent.iter().position(|message| message.topic() == "job-manager.sched-ready").unwrap();
        let ready = sent.remove(at);
        sent.extend(host.say(ready.respond_json(&json!({"count": 0}))));
        (host, sent)
    }

    pub fn serving(resources: &Value, up: &str) -> Host {
        Host::with_jobs(resources, up, &[]).0
    }

    pub fn engine(&self) -> &Engine {
        self.engine.as_ref().expect("the machine is known")
    }

    /// Handles a frame of the broker, and returns the messages sent for it. Commits are not answered.
    pub fn say(&mut self, message: Message) -> Vec<Message> {
        let outputs = self.session.on_message(message);
        self.carry_out(outputs);
        self.passes();
        std::mem::take(&mut self.sent)
    }

    /// Advances the watch of the job manager; without the passes of [`Host::say`].
    pub fn tick(&mut self, now: f64) -> Vec<Message> {
        let outputs = self.session.tick(now);
        self.carry_out(outputs);
        std::mem::take(&mut self.sent)
    }

    /// The same, with every commit answered at once.
    pub fn run(&mut self, message: Message) -> Vec<Message> {
        let mut waiting: VecDeque<Message> = self.say(message).into();
        let mut sent = Vec::new();
        while let Some(message) = waiting.pop_front() {
            if message.topic() == "kvs.commit" {
                waiting.extend(self.say(message.respond_json(&json!({"rootref": "x", "rootseq": 1}))));
            }
            sent.push(message);
        }
        sent
    }

    /// An update of the resources.
    pub fn update(&mut self, payload: &Value) -> Vec<Message> {
        let update = self.acquire.respond_json(payload);
        self.run(update)
    }

    /// Starts a job on these nodes for this duration.
    pub fn start(&mut self, id: u64, jobspec: &Value) -> Value {
        let sent = self.run(alloc(id, 16, jobspec));
        r_of(&sent, id)
    }

    /// Ranks in use.
    pub fn used(&self) -> Idset {
        let resources = self.engine().resources();
        let ranks = |(id, _)| resources.allocation_r(id).map(|r: R| r.ranks()).unwrap_or_default();
        resources.allocations().map(ranks).fold(Idset::new(), |all, ranks| all.union(&ranks))
    }

    pub fn feasible(&mut self, jobspec: &Value) -> i32 {
        let check = from_job_manager("feasibility.check", &json!({ "jobspec": jobspec })).with_matchtag(77);
        let answers = self.say(check);
        assert_eq!(answers.len(), 1, "{answers:?}");
        answers[0].errnum()
    }

    pub fn expire(&mut self, id: u64, expiration: f64) -> Message {
        let payload = json!({"id": id, "expiration": expiration});
        let mut answers =
            self.say(from_job_manager("sched.expiration", &payload).with_matchtag(78).with_nodeid(0));
        // Waiting jobs may get another estimate.
        answers.retain(|answer| answer.topic() == "sched.expiration");
        assert_eq!(answers.len(), 1, "{answers:?}");
        answers.remove(0)
    }

    fn carry_out(&mut self, outputs: Vec<Output>) {
        let mut outputs: VecDeque<Output> = outputs.into();
        while let Some(output) = outputs.pop_front() {
            match output {
                Output::Send(message) => self.sent.push(message),
                Output::Engine(event) => outputs.extend(self.step(event)),
                Output::Inventory { resources, up } => {
                    // An invalid machine ends a driver.
                    let Ok(mut machine) = Resources::from_r(&resources) else { continue };
                    machine.set_down(&resources.ranks());
                    machine.set_up(&up);
                    self.engine = Some(Engine::new(machine, Config::default()));
                }
                Output::Fatal(error) => self.fatal = Some(error),
                Output::Control(request) => self.control.push(request.topic),
                _ => {}
            }
        }
    }

    fn step(&mut self, event: Event) -> Vec<Output> {
        let Some(engine) = &mut self.engine else { return Vec::new() };
        let actions = engine.step(event, self.now);
        self.actions.extend(actions.iter().cloned());
        self.session.on_actions(actions)
    }

    /// Makes the passes that are due.
    pub fn passes(&mut self) {
        while let Some(engine) = &mut self.engine
            && self.session.is_serving()
            && engine.needs_pass(self.now)
        {
            let actions = engine.pass(self.now);
            self.actions.extend(actions.iter().cloned());
            let outputs = self.session.on_actions(actions);
            self.carry_out(outputs);
        }
    }
}
