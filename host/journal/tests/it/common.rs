//! A small machine under load, recorded: jobs of two queues, cancels, priorities, nodes that go down and come up,
//! swaps, policies that fail, interrupted passes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use fluxgate_engine::{
    Abilities, Action, Config, Engine, Event, JobColumns, JobEvent, Members, Occurrence, OnRunning, Pass,
    Policy, PolicyCost, PolicyError, Refusal, SavedState, Wanted, Window, WindowKind,
};
use fluxgate_formats::constraint::Constraint;
use fluxgate_formats::jobspec::{Jobspec, Simple};
use fluxgate_formats::{Idset, JobId, R};
use fluxgate_graph::Resources;
use fluxgate_journal::rerun::Policies;
use fluxgate_journal::{Options, PolicyRow, Recorded, Writer};
use serde_json::json;

pub const NODES: u32 = 8;

/// A window from this time on, whose nodes, members and length follow from a number.
fn window(name: &str, start: f64, dice: u64) -> Window {
    let kind = if dice & 256 == 0 { WindowKind::Maintenance } else { WindowKind::Dedicated };
    let queues = ["debug".to_owned()].into_iter().filter(|_| kind == WindowKind::Dedicated).collect();
    let end = start + 5.0 + (dice / 512 % 32) as f64;
    let ranks = Idset::from_iter([(dice / 2048 % 8) as u32, (dice / 16384 % 8) as u32]);
    let times = Occurrence { start, end, begins: format!("at {start}") };
    Window {
        kind,
        margin: 1.0,
        wanted: (dice & 1024 == 0).then_some(Wanted { nodes: 2, cores: 0, constraint: Constraint::All }),
        replace: true,
        members: Members { queues, ..Members::default() },
        overlap: dice & 2048 == 0,
        fill: dice & 8192 == 0,
        running: if dice & 4096 == 0 { OnRunning::End } else { OnRunning::Ignore },
        ..Window::maintenance(name, vec![times], ranks)
    }
}

pub fn machine() -> Resources {
    let r = serde_json::json!({
        "version": 1,
        "execution": {
            "R_lite": [{"rank": "0-7", "children": {"core": "0-3"}}],
            "nodelist": ["n[0-7]"], "starttime": 0, "expiration": 0,
        },
    });
    let mut resources = Resources::from_r(&R::from_value(&r).unwrap()).unwrap();
    let all = resources.to_r_all().ranks();
    resources.set_up(&all);
    resources
}

pub fn spec(slots: u32, duration: f64, queue: &str) -> Arc<Jobspec> {
    let (queue, command) = (Some(queue.to_owned()), vec!["true".to_owned()]);
    Arc::new(Simple { slots, duration, queue, command, ..Simple::default() }.build())
}

/// Backfills after the first job that does not fit; annotates with a number that is part of its state; `sign` is its
/// order; fails in the pass `breaks`. `mute` fails in `save`.
pub struct Native {
    pub name: String,
    pub sign: f64,
    pub seen: u8,
    pub breaks: Option<u8>,
}

impl Native {
    pub fn make(name: &str) -> Box<dyn Policy> {
        let sign = if name == "longest" { -1.0 } else { 1.0 };
        let breaks = (name == "broken").then_some(3);
        Box::new(Native { name: name.to_owned(), sign, seen: 0, breaks })
    }
}

impl Policy for Native {
    fn name(&self) -> &str {
        &self.name
    }
    fn abilities(&self) -> Abilities {
        Abilities { ordering: true, scheduling: true, observing: true, state: true, ranking: false }
    }
    fn keys(&mut self, _: f64, jobs: &JobColumns) -> Result<Vec<f64>, PolicyError> {
        Ok(jobs.duration.iter().map(|d| self.sign * d.min(1e6)).collect())
    }
    fn observe(&mut self, _: f64, events: &[JobEvent]) -> Result<(), PolicyError> {
        self.seen = self.seen.wrapping_add(events.len() as u8);
        Ok(())
    }
    fn run(&mut self, mut pass: Box<Pass>) -> (Box<Pass>, Result<(), PolicyError>) {
        self.seen = self.seen.wrapping_add(1);
        if let Some(left) = &mut self.breaks {
            *left -= 1;
            if *left == 0 {
                let message = "it is made to".to_owned();
                return (pass, Err(PolicyError::Trap { during: "scheduling.run", message }));
            }
        }
        let mut head = true;
        while let Some(c) = if head { pass.next() } else { pass.next_fitting() } {
            let done =
                pass.annotate(c, "user.seen", &self.seen.to_string()).and_then(|()| pass.start(c, None));
            let done = match done {
                Ok(Err(Refusal::Busy)) if head => {
                    head = false;
                    pass.reserve(c).map(drop)
                }
                other => other.map(drop),
            };
            if let Err(error) = done {
                return (pass, Err(error));
            }
        }
        (pass, Ok(()))
    }
    fn save(&mut self) -> Result<SavedState, PolicyError> {
        if self.name == "mute" {
            return Err(PolicyError::Trap { during: "state.save", message: "it does not speak".to_owned() });
        }
        Ok(SavedState { from: self.name.clone(), version: 1, data: vec![self.seen] })
    }
    fn restore(&mut self, state: &SavedState) -> Result<(), PolicyError> {
        self.seen = state.data.first().copied().unwrap_or_default();
        Ok(())
    }
    fn cost(&self) -> PolicyCost {
        PolicyCost { fuel: u64::from(self.seen), ..PolicyCost::default() }
    }
}

/// Every native policy by its name, or one policy in place of all.
pub struct NativePolicies(pub Option<&'static str>);

impl Policies for NativePolicies {
    fn make(&mut self, row: &PolicyRow) -> Result<Box<dyn Policy>, String> {
        Ok(Native::make(self.0.unwrap_or(&row.name)))
    }
}

pub struct Load {
    pub engine: Recorded,
    pub now: f64,
    dice: u64,
    next: u64,
    pub starts: Vec<(JobId, f64)>,
    /// True if services also mark nodes and set their properties.
    pub vertices: bool,
    /// Windows come and go.
    pub windows: bool,
    /// The states of the last call of `policy_states`.
    pub states: Vec<(Option<String>, SavedState)>,
}

impl Load {
    pub fn new(options: Option<&Options>, seed: u64) -> Load {
        Load::at(options, seed, 1000.0)
    }

    /// A scheduler that starts at this time, with job ids after those of others.
    pub fn at(options: Option<&Options>, seed: u64, now: f64) -> Load {
        Load::with(options.map(|options| Writer::open(options).unwrap()), seed, now)
    }

    pub fn with(writer: Option<Writer>, seed: u64, now: f64) -> Load {
        let engine = Recorded::new(Engine::new(machine(), Config::default()), writer, now);
        let mut load = Load {
            engine,
            now,
            dice: seed,
            next: now as u64,
            starts: Vec::new(),
            vertices: false,
            windows: false,
            states: Vec::new(),
        };
        load.swap("shortest");
        load
    }

    pub fn dice(&mut self, sides: u64) -> u64 {
        self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.dice >> 33) % sides
    }

    pub fn swap(&mut self, name: &str) {
        let set = BTreeMap::from([("depth".to_owned(), "4".to_owned())]);
        let (name, digest) = (name.to_owned(), format!("sha256:{name}"));
        let row = PolicyRow { name, digest, config: set, ..PolicyRow::default() };
        if let Ok(actions) = self.engine.swap(Native::make(&row.name), &row, self.now) {
            self.follow(actions);
        }
        self.pass();
    }

    /// Gives a queue a policy of its own; without a name returns it to the default policy.
    pub fn set_queue_policy(&mut self, queue: &str, name: Option<&str>) {
        match name {
            Some(name) => {
                let (name, digest) = (name.to_owned(), format!("sha256:{name}"));
                let row = PolicyRow { name, digest, ..PolicyRow::default() };
                let made = Native::make(&row.name);
                if let Ok(actions) = self.engine.swap_queue(queue, made, &row, self.now) {
                    self.follow(actions);
                }
            }
            // Refused if the queue has no policy of its own; that is recorded too.
            None => drop(self.engine.give_back(queue, self.now)),
        }
        self.pass();
    }

    /// Saves the states of the active policies.
    pub fn remember(&mut self) {
        let (states, actions) = self.engine.policy_states(self.now);
        self.states = states;
        self.follow(actions);
    }

    /// Offers the next successor the state of the policy that was active then.
    pub fn offer(&mut self) {
        if let Some((_, state)) = self.states.first() {
            self.engine.offer(state.clone(), self.now);
        }
    }

    fn follow(&mut self, actions: Vec<Action>) {
        for action in actions {
            if let Action::Start { id, .. } = action {
                self.starts.push((id, self.now));
                let more = self.engine.step(Event::Committed { id }, self.now);
                self.follow(more);
            }
        }
    }

    pub fn step(&mut self, event: Event) {
        let actions = self.engine.step(event, self.now);
        self.follow(actions);
    }

    pub fn pass(&mut self) {
        let actions = self.engine.pass(self.now);
        self.follow(actions);
        if self.engine.repeats_pass() {
            self.pass();
        }
    }

    pub fn submit(&mut self) -> JobId {
        self.next += 1;
        let id = JobId(self.next << 24);
        let queue = ["batch", "debug"][self.dice(2) as usize];
        let mut jobspec = spec(1 + self.dice(12) as u32, 10.0 + self.dice(8) as f64, queue);
        // Counts do not determine the nodes of these jobs.
        let asked = match self.dice(10) {
            0 => Some(("constraints", json!({"ranks": ["0-3"]}))),
            1 => Some(("constraints", json!({"ranks": ["2-6"]}))),
            3 if self.vertices => Some(("constraints", json!({"properties": ["^bad"]}))),
            2 => Some(("fluxgate.placement", json!("hinodex"))),
            4 if self.windows => Some(("preemptible-after", json!(2))),
            _ => None,
        };
        if let Some((key, value)) = asked {
            Arc::make_mut(&mut jobspec).set_system_attr(key, value).unwrap();
        }
        let (userid, t_submit) = (self.dice(5) as u32, self.now);
        self.step(Event::Alloc { id, priority: 16, userid, t_submit, jobspec });
        id
    }

    /// Steps one random event, then makes a pass.
    pub fn go(&mut self) {
        self.now += self.dice(40) as f64 / 16.0;
        let running: Vec<JobId> = self.engine.running_ids().collect();
        let pending: Vec<JobId> = self.engine.pending_ids().take(30).collect();
        let any = |ids: &[JobId], dice: u64| (!ids.is_empty()).then(|| ids[dice as usize % ids.len()]);
        let dice = self.dice(1 << 20);
        let rank = Idset::from_iter([self.dice(u64::from(NODES)) as u32]);
        if self.vertices && dice.is_multiple_of(4) {
            let paths = vec![format!("/cluster0/n{}", dice / 4 % u64::from(NODES))];
            let value = (dice & 64 == 0).then(|| dice.to_string());
            self.step(match dice & 128 {
                0 => Event::VertexStatus { paths, up: dice & 64 == 0 },
                _ => Event::VertexProperty { paths, key: "bad".to_owned(), value },
            });
        }
        if self.windows && dice.is_multiple_of(8) {
            let name = format!("w{}", dice / 8 % 3);
            self.step(match dice & 64 {
                0 => Event::PutWindow(Box::new(window(&name, self.now + (dice / 128 % 64) as f64, dice))),
                _ => Event::RemoveWindow { name },
            });
        }
        match self.dice(24) {
            0..8 => drop(self.submit()),
            8..17 => {
                if let Some(id) = any(&running, dice) {
                    self.step(Event::Free { id, ranks: None, last: true });
                }
            }
            17 => {
                if let Some(id) = any(&pending, dice) {
                    self.step(Event::Cancel { id });
                }
            }
            18 => {
                let jobs = pending.iter().take(3).map(|id| (*id, 1 + dice as u32 % 60)).collect();
                self.step(Event::Prioritize { jobs });
            }
            19 => self.step(Event::Down(rank)),
            20 => self.step(Event::Up(rank)),
            21 => {
                if let Some(id) = any(&running, dice) {
                    self.step(Event::Expiration { id, expiration: self.now + 90.0, token: dice });
                }
            }
            22 => {
                self.engine.engine_unrecorded_mut().interrupt_at(Some(1 + dice % 9));
                self.submit();
            }
            _ => {
                let token = dice;
                self.step(Event::Feasibility { jobspec: spec(1 + dice as u32 % 40, 5.0, "batch"), token });
            }
        }
        self.pass();
        let actions = self.engine.keep_journal(true, self.now);
        self.follow(actions);
    }
}

/// Bytes of all files of a journal.
pub fn size(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    // A file may have been dropped since.
    entries.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum()
}
