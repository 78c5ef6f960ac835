//! A process of the scheduler: the real service, its unread messages, and the work that it started.
//!
//! Must never know where its messages go, nor when its turns are.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use fluxgate_formats::Idset;
use fluxgate_sched::settings::Settings;
use fluxgate_sched::{Checked, Configuration, Heard, Responder, Service, ServiceIdentity, Work};
use fluxgate_wire::message::Message;
use serde_json::Value;

use crate::agenda::{Time, micros};
use crate::book::units;
use crate::components::{CompiledPolicies, ServiceComponents};
use crate::disk::SimulatedDisk;
use crate::model::store::operations;
use crate::outside::Outside;

/// Most turns in a row that nothing gave a reason for.
const IDLE_TURNS_MAX: u32 = 20_000;
/// The shortest delay of a timer, microseconds: none rings at once.
const WAKE_MIN: Time = 100;

/// The next turn of a process, if nothing happens before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextTurn {
    /// There is more to do.
    Now,
    /// At this time, by the wake with this number.
    At(Time, u64),
    /// Nothing is due.
    Never,
}

/// See the module text.
pub struct Process {
    /// Its number.
    pub life: u64,
    /// The service.
    pub service: Service,
    /// Messages that it has not read.
    pub inbox: VecDeque<Message>,
    /// Everything that it reaches outside of itself.
    pub outside: Arc<Outside>,
    /// Its other thread.
    pub responder: Arc<Responder>,
    work: BTreeMap<u64, Work>,
    works: u64,
    /// The time at which it began.
    pub begun: Time,
    /// A turn is planned.
    pub turn: bool,
    /// The number of the last wake that was planned.
    pub wake: u64,
    /// Turns since something happened.
    pub idle: u32,
    /// The ranks that it was told are up.
    pub up: BTreeSet<u32>,
}

impl Process {
    /// A scheduler with this configuration of its broker, at the time `now` of the instance.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(
        life: u64,
        config: &Value,
        disk: &SimulatedDisk,
        compiled: &Arc<CompiledPolicies>,
        (now, time): (f64, Time),
    ) -> Result<Process> {
        let settings = Settings::from_config(config).context("the world's own settings are refused")?;
        let identity = ServiceIdentity {
            session: settings.session(),
            rank: 0,
            uuid: None,
            audit_trail: Some(PathBuf::from("/trail")),
        };
        let outside = Arc::new(Outside::new(disk.clone()));
        outside.set_time(now, Duration::ZERO);
        let components = Arc::new(ServiceComponents(Arc::clone(compiled)));
        let configuration = Configuration::new(settings, Vec::new(), None);
        let mut service = Service::new(Arc::clone(&outside) as _, identity, configuration, components)
            .context("the scheduler does not start")?;
        let responder = service.responder();
        service.start();
        Ok(Process {
            life,
            service,
            inbox: VecDeque::new(),
            outside,
            responder,
            work: BTreeMap::new(),
            works: 0,
            begun: time,
            turn: false,
            wake: 0,
            idle: 0,
            up: BTreeSet::new(),
        })
    }

    /// It is this time on the clock of the instance, and this time in the world.
    pub fn set_time(&self, now: f64, time: Time) {
        self.outside.set_time(now, Duration::from_micros(time - self.begun));
    }

    /// A message has arrived: true if it waits for a turn now; an answer at once comes as the error.
    pub fn hear(&mut self, message: Message, time: Time) -> Result<bool, Message> {
        let onward = match self.responder.hear(message) {
            Heard::Answer(answer) => return Err(answer),
            Heard::Question => {
                let elapsed = Duration::from_micros(time - self.begun);
                return match self.responder.check(|| elapsed) {
                    Checked::Answer(answer) => Err(answer),
                    _ => Ok(false),
                };
            }
            Heard::Guest => self.responder.guest(),
            Heard::Onward(message) => Some(message),
            Heard::Dropped => None,
        };
        let waits = onward.is_some();
        self.inbox.extend(onward);
        Ok(waits)
    }

    /// A turn begins, in which it takes `count` messages in. False if it has one turn after the other, and does nothing.
    pub fn begin_turn(&mut self, count: usize) -> bool {
        self.turn = false;
        self.idle = if count > 0 { 0 } else { self.idle + 1 };
        self.idle <= IDLE_TURNS_MAX
    }

    /// It takes the next message in.
    pub fn read(&mut self) -> Option<Message> {
        let message = self.inbox.pop_front()?;
        self.learn(&message);
        self.service.message(message.clone());
        Some(message)
    }

    /// The end of a turn: a pass if one is due, which may be `cut`, and what follows.
    ///
    /// # Errors
    /// The scheduler ends by itself.
    pub fn end_turn(&mut self, cut: bool) -> Result<()> {
        let waiting = !self.inbox.is_empty();
        if self.service.prepare() {
            if cut && let Some(cut) = self.responder.waits() {
                self.responder.cut(&cut);
            }
            self.service.pass();
        }
        self.service.settle(waiting)
    }

    /// Plans the next turn; an earlier wake counts no more.
    pub fn plan_wake(&mut self, now: f64, time: Time) -> NextTurn {
        if !self.inbox.is_empty() || self.service.is_busy() {
            return NextTurn::Now;
        }
        let next = self.service.next_turn();
        let by_clock = if next.time.is_finite() { time + micros(next.time - now) } else { Time::MAX };
        let elapsed = Time::try_from(next.elapsed.as_micros()).unwrap_or(Time::MAX);
        let at = by_clock.min(self.begun.saturating_add(elapsed));
        self.wake += 1;
        if at < Time::MAX / 2 { NextTurn::At(at.max(time) + WAKE_MIN, self.wake) } else { NextTurn::Never }
    }

    /// The starts in a commit to the KVS, with key and R, and the errors in them: an R that cannot be read, or ranks that it was
    /// told are down.
    pub fn starts(&self, commit: &Message) -> (Vec<(String, Value)>, Vec<String>) {
        let read = commit.json().map_err(|error| error.to_string());
        let operations = match read.and_then(|payload| operations(&payload)) {
            Ok(operations) => operations,
            Err(error) => return (Vec::new(), vec![format!("kvs.commit: {error}")]),
        };
        let (mut starts, mut wrong) = (Vec::new(), Vec::new());
        for (key, text) in operations.into_iter().filter(|(key, _)| key.ends_with(".R")) {
            let r = serde_json::from_str::<Value>(&text).map_err(|error| error.to_string());
            match r.and_then(|r| Ok((units(&r)?, r))) {
                Ok((units, r)) => {
                    let ranks: BTreeSet<u32> = units.iter().map(|(rank, ..)| *rank).collect();
                    let down: BTreeSet<u32> = ranks.difference(&self.up).copied().collect();
                    if !down.is_empty() {
                        wrong.push(format!("{key} has ranks {down:?}, which are down"));
                    }
                    starts.push((key, r));
                }
                Err(error) => wrong.push(format!("{key}: {error}")),
            }
        }
        (starts, wrong)
    }

    /// Work was started; returns its number.
    pub fn begin_work(&mut self, work: Work) -> u64 {
        self.works += 1;
        self.work.insert(self.works, work);
        self.works
    }

    /// Work is done; returns its name, if it was not done before.
    pub fn end_work(&mut self, number: u64) -> Option<&'static str> {
        let work = self.work.remove(&number)?;
        let name = work.name();
        let finished = work.run(&*self.outside);
        self.service.finished(finished);
        self.idle = 0;
        Some(name)
    }

    /// Learns from a message which ranks are up.
    fn learn(&mut self, message: &Message) {
        if message.topic() != "resource.acquire" || message.errnum() != 0 {
            return;
        }
        let Ok(payload) = message.json() else { return };
        let set = |key: &str| {
            let ranks = payload[key].as_str().and_then(|text| Idset::parse(text).ok());
            ranks.map(|ranks| ranks.iter().collect::<BTreeSet<u32>>()).unwrap_or_default()
        };
        if payload.get("resources").is_some() {
            self.up.clear();
        }
        self.up.extend(set("up"));
        let gone: BTreeSet<u32> = set("down").union(&set("shrink")).copied().collect();
        self.up.retain(|rank| !gone.contains(rank));
    }
}
