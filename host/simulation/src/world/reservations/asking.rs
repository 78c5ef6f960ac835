//! Requests about reservations: right ones of operators with the outcome that they must have, wrong ones, and those of guests.
//!
//! Must never know the answer.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::{Change, World};
use crate::calendar::{Terms, Version};
use crate::dice::Dice;
use crate::flow::factor;
use crate::model::OWNER;
use crate::plan::{BANKS, GROUPS, NAMES, QUEUES};
use crate::world::groups::USERS;
use crate::world::operators::{GUEST, What};

const RUNNING: [&str; 4] = ["refuse", "ignore", "shorten", "end"];
const AFTER: [&str; 2] = ["wait", "free"];

fn some<T: Copy + Ord>(dice: &mut Dice, of: &[T]) -> BTreeSet<T> {
    (0..dice.range(1, 3)).map(|_| *dice.pick(of)).collect()
}

/// Rounds a time to thousandths of a second, which come back as they were written.
fn round(time: f64) -> f64 {
    (time * 1000.0).round() / 1000.0
}

impl World {
    /// An operator asks something about reservations.
    pub(in crate::world) fn reserve(&mut self, dice: &mut Dice) {
        if self.unread && dice.often(300) {
            return self.ask_accept_loss();
        }
        let name = *dice.pick(&NAMES);
        // Two changes of one name at a time could be made in either order.
        if self.calendar.is_asked(name) {
            return self.ask_list();
        }
        let known = self.calendar.known(name).cloned();
        match (dice.below(100), known) {
            (0..6, _) => self.ask_list(),
            (6..16, _) => self.ask_wrongly(name, dice),
            (16..28, _) => self.ask_end(name, "cancel", dice.often(100)),
            (28..36, Some(Some(_))) => self.ask_end(name, "end", dice.often(100)),
            (36..44, Some(Some(_))) => self.ask_end(name, "skip", dice.often(100)),
            (44..62, Some(Some(terms))) => self.ask_alter(name, &terms, dice),
            (_, Some(_)) => self.ask_create(name, dice),
            (_, None) => self.ask_list(),
        }
    }

    fn change(&mut self, method: &'static str, name: &str, payload: &Value, version: Version) {
        let dry_run = payload["dry_run"] == true;
        let change = Change { method, name: name.to_owned(), version: version.clone(), dry_run };
        let topic = format!("sched-fluxgate.reservation-{method}");
        if self.client(OWNER, &topic, payload, What::Reservation(Box::new(change))) && !dry_run {
            let now = self.agenda.now();
            self.calendar.asks(name, version, now);
        }
    }

    /// `skip`, `end` or `cancel`.
    pub(super) fn ask_end(&mut self, name: &str, method: &'static str, dry_run: bool) {
        let mut version = match method {
            "cancel" => None,
            _ => self.calendar.known(name).cloned().flatten(),
        };
        let number = self.calendar.number();
        if let Some(terms) = &mut version {
            terms.number = number;
            match method {
                "end" => terms.ended = true,
                _ => terms.skips = true,
            }
        }
        let mut payload = json!({"name": name});
        if dry_run {
            payload["dry_run"] = true.into();
        }
        self.change(method, name, &payload, version);
    }

    /// Hosts, and their ranks; `None` for all hosts, whose ranks the answer tells.
    fn some_ranks_to_reserve(&self, dice: &mut Dice) -> (String, Option<BTreeSet<u32>>) {
        let all = self.plan.nodes;
        if dice.often(400) {
            return ("all".to_owned(), None);
        }
        let ranks: BTreeSet<u32> =
            (0..dice.range(1, u64::from(all))).map(|_| dice.below(u64::from(all)) as u32).collect();
        let names: Vec<String> = ranks.iter().map(|rank| format!("node{rank}")).collect();
        (names.join(","), Some(ranks))
    }

    fn ask_create(&mut self, name: &str, dice: &mut Dice) {
        let (now, number) = (self.now(), self.calendar.number());
        let dedicated = dice.often(550);
        let start = match dice.below(4) {
            0 => now - dice.seconds(0.0, 5.0),
            1 => now + dice.seconds(0.0, 5.0),
            _ => now + dice.seconds(0.0, 60.0),
        };
        let length = if dice.often(500) { dice.seconds(1.0, 20.0) } else { dice.seconds(5.0, 120.0) };
        let (start, end) = (round(start), round(start + length));
        let mut payload = json!({
            "name": name, "kind": if dedicated { "dedicated" } else { "maintenance" }, "start": start, "end": end,
        });
        let own_margin = dice.often(600).then(|| dice.seconds(0.0, 10.0));
        let site = self.plan.settings["reservations"]["margin"].as_f64().unwrap_or_default();
        let mut terms = Terms {
            number,
            dedicated,
            first: (start, end),
            margin: own_margin.unwrap_or(if dedicated { site } else { 0.0 }),
            running: if dedicated { "refuse" } else { "ignore" },
            after: "wait",
            ..Terms::default()
        };
        if let Some(margin) = own_margin {
            payload["margin"] = margin.into();
        }
        if dice.often(600) {
            let (hosts, ranks) = self.some_ranks_to_reserve(dice);
            payload["hosts"] = hosts.into();
            terms.ranks = ranks;
        } else {
            let nodes = dice.range(1, u64::from(self.plan.nodes)) as u32;
            payload["nodes"] = nodes.into();
            terms.wanted = Some(nodes);
            terms.replace = dice.often(300);
            payload["replace"] = terms.replace.into();
            if !self.plan.conditions.is_empty() && dice.often(500) {
                terms.condition = dice.range(1, self.plan.conditions.len() as u64) as u32;
                payload["constraint"] = json!(self.book.constraints.condition(terms.condition));
            }
        }
        if dedicated {
            self.draw_members(&mut terms, &mut payload, dice);
            self.draw_groups(&mut terms, &mut payload, dice);
        } else if self.plan.parts.groups && dice.often(500) {
            self.draw_pools(&mut terms, &mut payload, dice);
        } else if dice.often(200) {
            let float = dice.seconds(1.0, 60.0);
            (terms.float, payload["float"]) = (Some(float), float.into());
            (terms.margin, payload["margin"]) = (0.0, 0.0.into());
        }
        if terms.float.is_none() {
            terms.fill = dice.often(250);
            payload["fill"] = terms.fill.into();
            if dice.often(700) {
                terms.running = *dice.pick(&RUNNING);
                payload["running"] = terms.running.into();
            }
        }
        if dice.often(500) {
            terms.after = *dice.pick(&AFTER);
            payload["after"] = terms.after.into();
        }
        if dice.often(150) {
            let every = (length + terms.margin + terms.overrun).ceil() + dice.range(1, 60) as f64;
            let until = if dice.often(300) { 0.0 } else { start + every * dice.range(0, 12) as f64 };
            terms.every = Some((every, until));
            payload["repeat"] = json!({"every": format!("{every}s"), "zone": "UTC", "until": until});
        }
        if dice.often(200) {
            terms.note = format!("n{}", dice.below(9));
            payload["note"] = terms.note.as_str().into();
        }
        if dice.often(80) {
            payload["dry_run"] = true.into();
        }
        // A reservation of this name that is not over stays as it is, and the request is refused.
        self.change("create", name, &payload, Some(terms));
    }

    fn draw_members(&self, terms: &mut Terms, payload: &mut Value, dice: &mut Dice) {
        let by_queue = self.plan.queues && dice.often(500);
        if by_queue {
            terms.queues = some(dice, &QUEUES).into_iter().map(str::to_owned).collect();
            payload["queues"] = json!(terms.queues);
        }
        if !by_queue || dice.often(300) {
            terms.users = some(dice, &USERS);
            payload["users"] = json!(terms.users);
        }
        for (key, flag, often) in [
            ("magnetic", &mut terms.magnetic, 300),
            ("flex", &mut terms.flex, 200),
            ("overlap", &mut terms.overlap, 400),
        ] {
            *flag = dice.often(often);
            if *flag || dice.often(500) {
                payload[key] = (*flag).into();
            }
        }
        if dice.often(300) {
            terms.overrun = dice.seconds(0.0, 15.0);
            payload["overrun"] = terms.overrun.into();
        }
        if dice.often(250) {
            let idle = dice.seconds(1.0, 20.0);
            (terms.idle, payload["release_when_idle"]) = (Some(idle), idle.into());
        }
    }

    /// Members by groups and banks.
    fn draw_groups(&self, terms: &mut Terms, payload: &mut Value, dice: &mut Dice) {
        if !self.plan.parts.groups {
            return;
        }
        if dice.often(400) {
            terms.groups = some(dice, &GROUPS).into_iter().map(str::to_owned).collect();
            payload["groups"] = json!(terms.groups);
            if dice.often(500) {
                terms.users.clear();
                payload["users"] = json!([]);
            }
        }
        if dice.often(250) {
            terms.banks = some(dice, &BANKS).into_iter().map(str::to_owned).collect();
            payload["banks"] = json!(terms.banks);
        }
    }

    /// Amounts of pools, often without nodes.
    fn draw_pools(&self, terms: &mut Terms, payload: &mut Value, dice: &mut Dice) {
        let (pools, said) = self.some_pools(dice);
        (terms.pools, payload["pools"]) = (pools, said);
        if dice.often(600) {
            (terms.wanted, terms.replace, terms.ranks) = (None, false, Some(BTreeSet::new()));
            terms.condition = 0;
            for key in ["hosts", "nodes", "replace", "constraint"] {
                payload.as_object_mut().and_then(|payload| payload.remove(key));
            }
        }
    }

    /// Pools with their amounts, and as they are asked for.
    fn some_pools(&self, dice: &mut Dice) -> (BTreeMap<String, u64>, Value) {
        let (mut pools, mut said) = (BTreeMap::new(), json!({}));
        let names = self.book.pools();
        for _ in 0..dice.range(1, 3) {
            let mut name = dice.pick(&names).clone();
            if dice.often(100) {
                let odd = *dice.pick(&["licence", "power", "bandwidth", "power/power9"]);
                // Of several sources one may be left, when all nodes of the others are lost.
                if self.book.pool(odd).is_some() || !self.book.flow.has_sources(odd) {
                    odd.clone_into(&mut name);
                }
            }
            let (size, unit) = self.book.pool(&name).unwrap_or((1, ""));
            let percent = *dice.pick(&[1, 30, 50, 99, 100]);
            let number = dice.range(1, (size / factor(unit).max(1)).max(1));
            let (text, units) = match dice.below(4) {
                0 => ("all".to_owned(), size),
                1 => (format!("{percent}%"), (size * percent).div_ceil(100)),
                _ => (format!("{number}{unit}"), number * factor(unit).max(1)),
            };
            said[&name] = text.into();
            pools.insert(name, units);
        }
        (pools, said)
    }

    fn ask_alter(&mut self, name: &str, old: &Terms, dice: &mut Dice) {
        let (now, number) = (self.now(), self.calendar.number());
        let mut terms = Terms { number, ..old.clone() };
        let mut payload = Map::new();
        payload.insert("name".to_owned(), name.into());
        if terms.wanted.is_some() {
            // Other nodes may be chosen.
            terms.ranks = None;
        }
        let parts: BTreeSet<u64> =
            (0..dice.range(1, 2)).map(|_| dice.below(if self.plan.parts.groups { 16 } else { 12 })).collect();
        for part in parts {
            let (key, value): (&str, Value) = match part {
                0 => {
                    terms.first.0 = round(now + dice.seconds(0.0, 60.0));
                    (terms.gone_before, terms.fixed) = (0.0, None);
                    ("start", terms.first.0.into())
                }
                1 => {
                    terms.first.1 = round(now + dice.seconds(0.0, 120.0));
                    ("end", terms.first.1.into())
                }
                3 => {
                    let (hosts, ranks) = self.some_ranks_to_reserve(dice);
                    (terms.ranks, terms.wanted, terms.fixed) = (ranks, None, None);
                    ("hosts", hosts.into())
                }
                4 => {
                    if payload.contains_key("hosts") {
                        continue;
                    }
                    let nodes = dice.range(1, u64::from(self.plan.nodes)) as u32;
                    (terms.wanted, terms.ranks, terms.fixed) = (Some(nodes), None, None);
                    ("nodes", nodes.into())
                }
                5 => {
                    let users = some(dice, &USERS);
                    terms.users.extend(&users);
                    ("users_add", json!(users))
                }
                6 => {
                    let user = *dice.pick(&USERS);
                    terms.users.remove(&user);
                    ("users_remove", json!([user]))
                }
                7 => {
                    terms.margin = dice.seconds(0.0, 10.0);
                    ("margin", terms.margin.into())
                }
                8 => {
                    terms.overrun = dice.seconds(0.0, 10.0);
                    ("overrun", terms.overrun.into())
                }
                9 => {
                    terms.running = *dice.pick(&RUNNING);
                    ("running", terms.running.into())
                }
                2 | 10 => {
                    if payload.contains_key("after") {
                        continue;
                    }
                    terms.after = *dice.pick(&AFTER);
                    ("after", terms.after.into())
                }
                12 => {
                    let group = *dice.pick(&GROUPS);
                    terms.groups.insert(group.to_owned());
                    ("groups_add", json!([group]))
                }
                13 => {
                    let group = *dice.pick(&GROUPS);
                    terms.groups.remove(group);
                    ("groups_remove", json!([group]))
                }
                14 => {
                    let bank = *dice.pick(&BANKS);
                    let add = dice.often(500);
                    match add {
                        true => drop(terms.banks.insert(bank.to_owned())),
                        false => drop(terms.banks.remove(bank)),
                    }
                    (if add { "banks_add" } else { "banks_remove" }, json!([bank]))
                }
                15 => {
                    let (pools, said) = self.some_pools(dice);
                    terms.pools = pools;
                    ("pools", said)
                }
                _ => {
                    terms.fill = dice.often(500);
                    ("fill", terms.fill.into())
                }
            };
            payload.insert(key.to_owned(), value);
        }
        if dice.often(80) {
            payload.insert("dry_run".to_owned(), true.into());
        }
        self.change("alter", name, &Value::Object(payload), Some(terms));
    }

    /// Makes a request that must be refused: it is not possible, or its user may not make it.
    fn ask_wrongly(&mut self, name: &str, dice: &mut Dice) {
        let now = self.now();
        let right =
            json!({"name": name, "kind": "maintenance", "start": now, "end": now + 60.0, "hosts": "all"});
        let wrong: [(&str, Value); 16] = [
            ("kind", "holiday".into()),
            ("end", now.into()),
            ("end", (now - 1.0).into()),
            ("hosts", "nowhere7".into()),
            ("hosts", Value::Null),
            ("nodes", 1.into()),
            ("users", json!([1001])),
            ("magnetic", true.into()),
            ("flex", true.into()),
            ("overlap", true.into()),
            ("margin", (-1.0).into()),
            ("release_when_idle", 5.0.into()),
            ("float", 0.0.into()),
            ("groups", json!(["nobody"])),
            ("note", "n".repeat(300).into()),
            ("surprise", 1.into()),
        ];
        let mut payload = right.clone();
        match dice.below(4) {
            0 => {
                let topic = format!(
                    "sched-fluxgate.reservation-{}",
                    *dice.pick(&["create", "end", "cancel", "alter"])
                );
                self.client(GUEST, &topic, &right, What::Forbidden);
                return;
            }
            1 => {
                let topic = format!(
                    "sched-fluxgate.reservation-{}",
                    *dice.pick(&["alter", "end", "skip", "cancel", "show"])
                );
                self.client(OWNER, &topic, &json!({"name": "none"}), What::Wrong);
                return;
            }
            2 => payload["name"] = "Not a Name".into(),
            _ => {
                let (key, value) = dice.pick(&wrong).clone();
                payload[key] = value;
            }
        }
        self.client(OWNER, "sched-fluxgate.reservation-create", &payload, What::Wrong);
    }
}
