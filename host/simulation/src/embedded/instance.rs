//! The process of the instance: its turns, its inputs and its answers.
//!
//! It is killed at any time, and another one begins from the records. Must never know what a fault is for.

use fluxgate_formats::{Idset, R};
use fluxgate_instance::durable::Durable;
use fluxgate_instance::{ClientId, Config, Dialect, Effect, Housekeeping, QueueConfig};
use fluxgate_wire::message::Message;
use fluxgate_wire::proto::role;
use fluxgate_wire::server::{Access, Credential, Peer};
use serde_json::json;

use super::clients::User;
use super::{EmbeddedWorld, Step};
use crate::agenda::{SECOND, micros};
use crate::dice::Dice;
use crate::model::OWNER;
use crate::plan::{Plan, QUEUES};

/// Users beside the owner.
const GUESTS: std::ops::Range<u32> = 1001..1005;
/// Most turns in a row of an instance that says there is more to do.
const PORTIONS_MAX: u32 = 100_000;

/// An input that waits for a turn of the instance.
#[derive(Debug)]
pub(super) enum Input {
    Connected(ClientId, Peer),
    Message(ClientId, Message),
    Gone(ClientId),
    Down(Idset, bool),
    Up(Idset),
}

/// The configuration of the instance of a plan.
pub(super) fn config(plan: &Plan, dice: &mut Dice) -> Config {
    let mut children = json!({"core": ids(plan.cores)});
    if plan.gpus > 0 {
        children["gpu"] = ids(plan.gpus).into();
    }
    let names: Vec<String> = (0..plan.nodes).map(|rank| format!("node{rank}")).collect();
    let machine = json!({"version": 1, "execution": {
        "R_lite": [{"rank": ids(plan.nodes), "children": children}],
        "nodelist": [names.join(",")], "starttime": 0.0, "expiration": 0.0}});
    // The value is made from an idset and names of hosts, so that it is an R.
    let machine = R::from_value(&machine).unwrap_or_default();
    let mut config = Config::new("/instance", machine);
    config.access = Access { owner: OWNER, allow_guest_user: true, allow_root_owner: false };
    if plan.queues {
        let queue = |name: &str| QueueConfig { name: name.to_owned(), ..QueueConfig::default() };
        config.queues = QUEUES.map(queue).into();
        config.default_queue = Some(QUEUES[0].to_owned());
    }
    if plan.founding {
        config.dialect = Dialect::Founding;
    } else if dice.often(400) {
        config.housekeeping = Some(Housekeeping {
            seconds: dice.seconds(0.0, 20.0),
            stagger: dice.seconds(0.0, 3.0),
            partial: dice.often(500),
        });
    }
    config.shrink_down_ranks = dice.often(100);
    config
}

/// A user at a connection.
pub(super) fn peer(client: ClientId, userid: u32) -> Peer {
    let roles = if userid == OWNER { role::OWNER } else { role::USER };
    let credential = Credential { userid, rolemask: roles | role::LOCAL };
    Peer { credential, pid: None, uuid: format!("client-{}", client.0) }
}

fn ids(count: u32) -> String {
    if count == 1 { "0".to_owned() } else { format!("0-{}", count - 1) }
}

impl EmbeddedWorld {
    pub(super) fn start_instance(&mut self) {
        if self.instance.is_some() {
            return;
        }
        self.instances += 1;
        let (life, now) = (self.instances, self.now());
        self.note(|| format!("instance {life} starts"));
        let records = self.written.clone();
        match Durable::new(self.config.clone(), records.all.clone(), now, records) {
            Ok(instance) => self.instance = Some(instance),
            Err(error) => return self.breaks(format!("the instance does not start: {error}")),
        }
        (self.instance_turn, self.instance_wake) = (false, self.instance_wake + 1);
        self.log.restart();
        for userid in [OWNER].into_iter().chain(GUESTS) {
            let client = self.new_client();
            self.users.insert(client, User { userid });
            self.input(Input::Connected(client, peer(client, userid)));
        }
        self.plan_instance_turn(0);
    }

    pub(super) fn new_client(&mut self) -> ClientId {
        self.last_client += 1;
        ClientId(self.last_client)
    }

    /// Adds an input for the next turn of the instance, if there is an instance.
    pub(super) fn input(&mut self, input: Input) {
        if self.instance.is_none() {
            return;
        }
        self.inputs.push_back(input);
        let delay = if self.dice.often(50) { self.dice.below(300_000) } else { self.dice.below(2_000) };
        self.plan_instance_turn(delay);
    }

    fn plan_instance_turn(&mut self, delay: u64) {
        if !std::mem::replace(&mut self.instance_turn, true) {
            self.agenda.after(delay, Step::InstanceTurn { life: self.instances });
        }
    }

    pub(super) fn wake_instance(&mut self, life: u64, number: u64) {
        if self.instance.is_some() && (life, number) == (self.instances, self.instance_wake) {
            self.plan_instance_turn(0);
        }
    }

    pub(super) fn turn_of_instance(&mut self, life: u64) {
        if life != self.instances {
            return;
        }
        let now = self.now();
        let portion = if self.dice.often(100) { self.dice.range(1, 3) as usize } else { usize::MAX };
        let window = if self.dice.often(200) { self.dice.below(4) as usize } else { 4096 };
        let Some(instance) = &mut self.instance else { return };
        self.instance_turn = false;
        let mut more = false;
        for portions in 0.. {
            if portions > PORTIONS_MAX {
                return self.breaks("the instance has timers that are due again and again");
            }
            if !instance.advance(now) {
                break;
            }
        }
        for _ in 0..portion {
            let Some(input) = self.inputs.pop_front() else { break };
            match input {
                Input::Connected(client, peer) => instance.connect(client, peer),
                Input::Message(client, message) => instance.message(client, message),
                Input::Gone(client) => instance.disconnect(client),
                Input::Down(ranks, lost) => {
                    instance.nodes_down(&ranks, lost);
                    if lost || self.config.shrink_down_ranks {
                        self.log.book.lost.extend(ranks.iter());
                    }
                }
                Input::Up(ranks) => instance.nodes_up(&ranks),
            }
        }
        more |= instance.pump(window) || !self.inputs.is_empty();
        let held = instance.holds().is_some();
        let effects = instance.settle();
        let holds = instance.holds().is_some();
        if holds && !held {
            self.tally.reached("the instance cannot write, and holds");
            self.agenda.after(SECOND, Step::Retry { life });
        }
        self.carry_out(effects);
        self.plan_instance(more && !holds || !self.inputs.is_empty());
    }

    /// Plans the next turn of the instance.
    fn plan_instance(&mut self, more: bool) {
        if more {
            return self.plan_instance_turn(100);
        }
        let (now, time, life) = (self.now(), self.agenda.now(), self.instances);
        let Some(instance) = self.instance.as_ref().filter(|instance| instance.holds().is_none()) else {
            return;
        };
        let Some(wake) = instance.next_wake() else { return };
        self.instance_wake += 1;
        let at = (time + micros(wake - now) + 1).min(self.end.max(time) + 10 * SECOND);
        self.agenda.at(at, Step::InstanceWake { life, number: self.instance_wake });
    }

    pub(super) fn retry(&mut self, life: u64) {
        let Some(instance) = self.instance.as_mut().filter(|_| life == self.instances) else { return };
        let effects = instance.retry();
        let holds = instance.holds().is_some();
        self.carry_out(effects);
        match holds {
            true => self.agenda.after(SECOND, Step::Retry { life }),
            false => self.plan_instance_turn(0),
        }
    }

    /// Judges the records that were written, and then carries out the effects.
    fn carry_out(&mut self, effects: Vec<Effect>) {
        self.judge_records();
        for effect in effects {
            match effect {
                Effect::Send(client, message) if client.0 == self.link_number => {
                    self.judge_request(&message);
                    self.send_down(&message);
                }
                Effect::Send(client, message) => self.answered(client, &message),
                Effect::Close(client) if client.0 == self.link_number => self.connection_breaks(),
                Effect::Close(_) => {}
                other => self.breaks(format!("{other:?}, and no job is a real one")),
            }
        }
    }

    /// The process of the instance is killed, and another one begins after this many microseconds.
    pub(super) fn instance_ends(&mut self, pause: u64) {
        let Some(instance) = self.instance.take() else { return };
        let life = self.instances;
        self.note(|| format!("instance {life} is gone"));
        if instance.holds().is_some() {
            self.tally.reached("the instance is killed while it holds");
        }
        self.written = instance.records().clone();
        self.inputs.clear();
        self.users.clear();
        self.asked.clear();
        self.connection_breaks();
        self.changes += 1;
        self.agenda.after(pause, Step::InstanceStart);
    }
}
