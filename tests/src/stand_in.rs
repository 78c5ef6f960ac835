//! A broker, resource service, key-value store and job manager that answer at once, on a socket: a measurement against them has
//! the scheduler's part alone.
//!
//! Must never judge what the scheduler decides.

use std::path::Path;
use std::process::{Child, Stdio};

use fluxgate_formats::jobspec::Simple;
use fluxgate_wire::message::Message;
use fluxgate_wire::proto::{errno, role};
use fluxgate_wire::server::{Access, Listener};
use fluxgate_wire::transport::{Connection, Options};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::fixture::fluxgate;
use crate::patience::PATIENCE;

/// User id of the instance owner.
pub const OWNER: u32 = 1000;

/// A running job of hello.
#[derive(Debug, Clone)]
pub struct Running {
    /// Its id.
    pub id: u64,
    /// Its R.
    pub r: Value,
    /// Its jobspec.
    pub jobspec: Value,
}

/// The machine, and the jobs that run when a scheduler comes.
#[derive(Debug, Clone, Default)]
pub struct Site {
    /// Nodes, of which all are up.
    pub nodes: u64,
    /// Cores of a node.
    pub cores: u64,
    /// Running jobs.
    pub running: Vec<Running>,
    /// Waiting jobs.
    pub waiting: u64,
}

impl Site {
    fn r(&self) -> Value {
        let (ranks, cores) = (format!("0-{}", self.nodes - 1), format!("0-{}", self.cores - 1));
        json!({"version": 1, "execution": {
            "R_lite": [{"rank": ranks, "children": {"core": cores}}],
            "nodelist": [format!("n[0-{}]", self.nodes - 1)], "starttime": 0.0, "expiration": 0.0}})
    }
}

/// A request as the broker passes it on: of the job manager for the owner, of a client for guests.
pub fn request(userid: u32, topic: &str, payload: &Value) -> Message {
    let mut message = Message::request(topic).with_json(payload);
    let owner = userid == OWNER;
    let rolemask = if owner { role::OWNER | role::LOCAL } else { role::USER | role::LOCAL };
    (message.userid, message.rolemask) = (userid, rolemask);
    message.push_route(if owner { "job-manager" } else { "guest" });
    message.push_route("broker");
    message
}

/// A job of this many cores, anywhere, and of this limit in seconds.
pub fn jobspec(slots: u32, duration: f64) -> Value {
    let simple = Simple { slots, duration, command: vec!["app".into()], ..Simple::default() };
    simple.build().to_value()
}

/// 4,096 nodes of 32 cores on which this many jobs run, of 13 cores each and the last of six, 12,288 at most; and the requests of this many
/// jobs that wait for nearly all of the machine. All durations are different.
pub fn crowded(running: u64, waiting: u64) -> (Site, Vec<Message>) {
    let (nodes, cores) = (4096, 32);
    let run = |number: u64| {
        let (rank, first) = (number % nodes, 13 * (number / nodes));
        let held = 13.min(cores - first);
        let r = json!({"version": 1, "execution": {
            "R_lite": [{"rank": rank.to_string(), "children": {"core": format!("{first}-{}", first + held - 1)}}],
            "nodelist": [format!("n{rank}")], "starttime": 1.0, "expiration": 4e9 + number as f64}});
        Running { id: number + 1, r, jobspec: jobspec(held as u32, 1e6 + number as f64) }
    };
    let wait = |number: u64| {
        let jobspec = jobspec(100_000 + (number % 400) as u32, 60.0 + number as f64);
        let (id, t_submit) = (running + 1 + number, 2.0 + number as f64);
        let payload =
            json!({"id": id, "priority": 16, "userid": OWNER, "t_submit": t_submit, "jobspec": jobspec});
        request(OWNER, "sched.alloc", &payload)
    };
    let site = Site { nodes, cores, running: (0..running).map(run).collect(), waiting };
    (site, (0..waiting).map(wait).collect())
}

/// The socket of a broker in this folder.
///
/// # Panics
/// There can be no socket.
pub fn listen(folder: &Path) -> Listener {
    Listener::bind(&folder.join("local"), Access::owner_only(), Options::default()).expect("a socket")
}

/// A scheduler under EASY that connects to this socket.
///
/// # Panics
/// The binary cannot be run.
pub fn scheduler(uri: &str) -> Child {
    let mut command = fluxgate(["sched", "--uri", uri, "--policy", "easy"]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the scheduler starts")
}

/// The broker's end of the connection of a scheduler.
#[derive(Debug)]
pub struct StandIn {
    site: Site,
    /// The connection.
    pub connection: Connection,
    /// The scheduler was told that it serves.
    pub serving: bool,
}

impl StandIn {
    /// Waits for a scheduler.
    ///
    /// # Panics
    /// The socket fails.
    pub async fn accept(listener: &Listener, site: Site) -> StandIn {
        let (_, connection) = listener.accept().await.expect("it connects");
        StandIn { site, connection, serving: false }
    }

    /// Sends a message to the scheduler.
    ///
    /// # Panics
    /// The scheduler is gone.
    pub fn send(&self, message: &Message) {
        self.connection.outbox.send(message).expect("the scheduler is there");
    }

    async fn receive(&mut self) -> Message {
        let message =
            timeout(PATIENCE, self.connection.inbox.recv()).await.expect("the scheduler says something");
        message.expect("the scheduler goes on")
    }

    /// The next message of the scheduler that is no request, after the requests before it were answered.
    ///
    /// # Panics
    /// The scheduler is gone.
    pub async fn next(&mut self) -> Message {
        loop {
            let message = self.receive().await;
            if message.is_response() {
                return message;
            }
            self.answer(&message);
        }
    }

    /// Until the scheduler was told that it serves.
    pub async fn begin(&mut self) {
        while !self.serving {
            let message = self.receive().await;
            self.answer(&message);
        }
    }

    /// Answers a request of the scheduler.
    pub fn answer(&mut self, message: &Message) {
        let answer = match message.topic() {
            "service.add" | "service.remove" => message.respond(),
            "resource.acquire" => {
                let ranks = format!("0-{}", self.site.nodes - 1);
                message.respond_json(&json!({"resources": self.site.r(), "up": ranks}))
            }
            "job-manager.sched-hello" => {
                for job in &self.site.running {
                    let row = json!({"id": job.id, "priority": 16, "userid": OWNER, "t_submit": 1.0});
                    self.send(&message.respond_json(&row));
                }
                message.respond_error(errno::ENODATA, "")
            }
            "job-manager.sched-ready" => {
                self.serving = true;
                message.respond_json(&json!({"count": self.site.waiting}))
            }
            "job-info.lookup" => self.lookup(message),
            "kvs.commit" => message.respond_json(&json!({"rootref": "x", "rootseq": 1})),
            "kvs.lookup" => message.respond_error(errno::ENOENT, ""),
            "config.get" => message.respond_json(&json!({})),
            _ => message.respond_error(errno::ENOSYS, ""),
        };
        if message.wants_response() {
            self.send(&answer);
        }
    }

    /// Running jobs are in the order of their ids.
    fn lookup(&self, message: &Message) -> Message {
        let id = message.json().ok().and_then(|payload| payload["id"].as_u64());
        let place = id.and_then(|id| self.site.running.binary_search_by_key(&id, |job| job.id).ok());
        match place.map(|place| &self.site.running[place]) {
            Some(job) => message.respond_json(&json!({"id": job.id, "R": job.r, "jobspec": job.jobspec})),
            None => message.respond_error(errno::ENOENT, ""),
        }
    }
}
