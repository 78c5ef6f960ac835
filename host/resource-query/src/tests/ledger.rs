//! Random graphs, requests, releases, drains, power, removed and added nodes, on three implementations at once: a
//! matcher that answers by classes of nodes, one that always walks, and a plain list of held units.
//!
//! The first two must select the same. The list must never see a unit with two jobs, must agree with them on held and
//! free units at every moment, and must be empty after all releases. `FLUXGATE_MODEL_STEPS` sets the number of steps.

use std::collections::{BTreeMap, BTreeSet};

use fluxgate_formats::jobspec::{Checks, Jobspec};
use serde_json::json;

use crate::matching::{Item, Matcher, Op, Policy, Setup};
use fluxgate_graph::description::{Model, Pool, Relation, State, VertexId};

/// Default number of steps.
const STEPS: u64 = 3_000;
/// Steps on one graph.
const EPISODE: u64 = 80;

const POLICIES: [&str; 11] = [
    "first",
    "firstnodex",
    "low",
    "high",
    "lonode",
    "hinode",
    "lonodex",
    "hinodex",
    "locality",
    "variation",
    "ranked",
];

/// Splitmix64: the same numbers on every machine.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn of<'l, T>(&mut self, list: &'l [T]) -> &'l T {
        &list[self.below(list.len() as u64) as usize]
    }
}

fn inside(model: &mut Model, parent: VertexId, pool: Pool) -> VertexId {
    let id = model.add(pool).unwrap();
    model.connect(parent, id, &Relation::contains()).unwrap();
    id
}

/// A cluster of nodes, with or without racks and sockets, of one or several templates; ids may repeat.
fn graph(dice: &mut Dice) -> (Model, Power) {
    let mut model = Model::new();
    let cluster = model.add(Pool::new("cluster", 0)).unwrap();
    let (racks, sockets, repeat, graded) = (dice.one_in(2), dice.one_in(2), dice.one_in(3), dice.one_in(3));
    let mixed = dice.one_in(3);
    let many = if dice.one_in(4) { 24 } else { 5 };
    let mut number = 0;
    let mut power = Power::default();
    let powered = dice.one_in(3);
    let zones: Vec<VertexId> = match racks && dice.one_in(3) {
        true => (0..2).map(|z| inside(&mut model, cluster, Pool::new("zone", z))).collect(),
        false => vec![cluster],
    };
    let supply = if powered { model.add(sized("supply", 0, 4 + dice.below(30))).ok() } else { None };
    let way = Relation::of("power", "conduit_of", "");
    for r in 0..1 + dice.below(3) as i64 {
        let zone = zones[r as usize % zones.len()];
        let above = if racks { inside(&mut model, zone, Pool::new("rack", r)) } else { cluster };
        let mut cores = 1 + dice.below(4) as i64;
        let unit = supply.map(|supply| {
            let unit = model.add(sized("unit", r, 2 + dice.below(10))).unwrap();
            model.connect(supply, unit, &way).unwrap();
            power.sizes.extend([supply, unit].map(|v| (v, model.vertex(v).unwrap().size())));
            unit
        });
        for n in 0..1 + dice.below(many) as i64 {
            let mut pool = Pool::new("node", if repeat { n } else { number });
            pool.rank = number;
            number += 1;
            if graded && dice.one_in(2) {
                pool.properties.push(("perf_class".to_owned(), dice.below(3).to_string()));
            }
            if dice.one_in(3) {
                pool.properties.push(("ssd".to_owned(), String::new()));
            }
            let node = inside(&mut model, above, pool);
            if mixed && dice.one_in(3) {
                cores = 1 + dice.below(4) as i64;
            }
            if let Some((supply, unit)) = supply.zip(unit)
                && !dice.one_in(5)
            {
                model.connect(unit, node, &way).unwrap();
                power.to.insert(node, [supply, unit]);
            }
            for s in 0..if sockets { 2 } else { 1 } {
                let place = if sockets { inside(&mut model, node, Pool::new("socket", s)) } else { node };
                for c in 0..cores {
                    inside(&mut model, place, Pool::new("core", s * cores + c));
                }
                let mut memory = Pool::new("memory", s);
                memory.size = 1 + dice.below(3);
                memory.size = if mixed { memory.size } else { 4 };
                inside(&mut model, place, memory);
            }
            if dice.one_in(2) {
                inside(&mut model, node, Pool::new("gpu", 0));
            }
        }
        if dice.one_in(3) {
            inside(&mut model, above, Pool::new("ssd", r));
        }
    }
    model.finish().unwrap();
    (model, power)
}

fn sized(type_: &str, id: i64, size: u64) -> Pool {
    let mut pool = Pool::new(type_, id);
    pool.size = size;
    pool
}

/// Power as a list: the capacity of each pool, the pools on the path to each node, and the uses over time.
#[derive(Default)]
struct Power {
    sizes: BTreeMap<VertexId, u64>,
    to: BTreeMap<VertexId, [VertexId; 2]>,
    draws: Vec<(VertexId, Hold)>,
}

impl Power {
    fn held(&self, pool: VertexId, at: i64) -> u64 {
        let here = |(node, draw): &&(VertexId, Hold)| {
            self.to.get(node).is_some_and(|way| way.contains(&pool)) && draw.start <= at && at < draw.end
        };
        self.draws.iter().filter(here).map(|(_, draw)| draw.units).sum()
    }

    /// Adds the power of the nodes of a booking, and fails above the capacity.
    fn take(&mut self, model: &Model, job: u64, items: &[Item], (start, end): (i64, i64), units: u64) {
        for item in items {
            let Item::Vertex { vertex, .. } = *item else { continue };
            if units == 0 || model.text(model.vertex(vertex).unwrap().type_()) != "node" {
                continue;
            }
            assert!(self.to.contains_key(&vertex), "job {job}: no power comes to {vertex:?}");
            self.draws.push((vertex, Hold { job, start, end, units }));
        }
        let begins = self.draws.iter().map(|(_, draw)| draw.start).filter(|at| (start..end).contains(at));
        for at in begins {
            for (&pool, &size) in &self.sizes {
                assert!(self.held(pool, at) <= size, "job {job}: more power than {size} at {at}");
            }
        }
    }

    /// Removes the power of nodes of which the job holds nothing any more.
    fn settle(&mut self, model: &Model, plain: &Plain, given: Option<(u64, &BTreeSet<VertexId>)>) {
        let containment = model.name("containment").unwrap();
        let gone = |v: VertexId| model.vertex(v).is_none();
        self.draws.retain(|(node, draw)| {
            !gone(*node)
                && !given.is_some_and(|(job, nodes)| job == draw.job && nodes.contains(node))
                && model
                    .subtree(*node, containment)
                    .into_iter()
                    .any(|v| plain.at(v).iter().any(|h| h.job == draw.job))
        });
    }

    /// The free power of each pool is its capacity less all uses, now and later.
    fn agrees(&self, matcher: &Matcher, now: i64, place: &str) {
        for (&pool, &size) in &self.sizes {
            for at in [now, now + 7, now + 60] {
                let left = size - self.held(pool, at);
                let free = |units: u64| matcher.route("power", pool, pool, units, (at, at + 1)).is_ok();
                assert!(left == 0 || free(left), "{place}: {left} of {size} are left at {at}");
                assert!(!free(left + 1), "{place}: no more than {left} of {size} are left at {at}");
            }
        }
    }
}

/// A random constraint.
fn constraint(dice: &mut Dice) -> String {
    let (from, to) = (dice.below(4), 1 + dice.below(30));
    match dice.below(7) {
        0 | 1 => "properties: [ssd]".to_owned(),
        2 => "properties: [^ssd]".to_owned(),
        3 => format!("ranks: ['{from}-{}']", from + to),
        4 => format!("hostlist: ['node[{from}-{}]']", from + to),
        5 => format!("not: [{{{}}}]", constraint(dice)),
        _ => format!(
            "or: [{{ranks: ['{to}']}}, {{and: [{{{}}}, {{hostlist: ['node[0-9]']}}]}}]",
            constraint(dice)
        ),
    }
}

/// A random request with its duration in seconds, with alternative slots if `flexible`. Some request power; the
/// second result is the amount for each node.
fn request(dice: &mut Dice, flexible: bool, powered: bool) -> (String, u64) {
    let n = 1 + dice.below(4);
    let few = 1 + dice.below(3);
    let exclusive = *dice.of(&["", ", exclusive: true"]);
    let core = format!("{{type: core, count: {few}}}");
    let slot = |count: u64, with: &str| format!("{{type: slot, count: {count}, label: s, with: [{with}]}}");
    let node = |count: u64, with: &str| format!("{{type: node, count: {count}{exclusive}, with: [{with}]}}");
    let watts = if powered && dice.one_in(2) { 1 + dice.below(4) } else { 0 };
    let power = format!("{{type: power, count: {watts}}}");
    let resources = match if watts > 0 {
        20 + dice.below(4)
    } else if flexible {
        *dice.of(&[12, 13, 14, 15, 16, 17, 18, 19, 24, 25, 28, 29])
    } else {
        *dice.of(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27])
    } {
        24 => slot(few, &format!("{{type: rack, count: 1, with: [{}]}}", node(few, &core))),
        25 => format!(
            "{{type: cluster, count: 1, with: [{{type: rack, count: {few}, with: [{}]}}]}}",
            node(n, &slot(1, &core))
        ),
        26 => format!(
            "{{type: zone, count: 1, with: [{{type: rack, count: {few}{exclusive}, with: [{}]}}]}}",
            node(n, &slot(few, "{type: core, count: {min: 1, max: 3}}"))
        ),
        27 => slot(
            1,
            &format!("{{type: rack, count: {few}, with: [{}, {{type: ssd, count: 1}}]}}", node(1, &core)),
        ),
        28 => format!("{}, {}", slot(n, &node(1, &core)), slot(n, &node(1, "{type: gpu, count: 1}"))),
        29 => format!(
            "{{type: rack, count: 1, with: [{}, {}]}}",
            slot(few, &node(1, &core)),
            slot(1, &node(2, "{type: gpu, count: 1}"))
        ),
        20 => node(n, &format!("{}, {power}", slot(1, &core))),
        21 => slot(n, &node(1, &format!("{core}, {power}"))),
        22 => format!(
            "{{type: rack, count: 1, with: [{}]}}",
            node(few, &format!("{}, {power}", slot(1, &core)))
        ),
        23 => slot(1, &node(n, &format!("{core}, {power}"))),
        16 => format!("{}, {}", slot(n, &core), slot(n, "{type: gpu, count: 1}")),
        17 => node(1, &format!("{}, {}", slot(few, "{type: gpu, count: 1}"), slot(few, &core))),
        18 => node(n, &format!("{}, {}", slot(1, "{type: memory, count: 2}"), slot(1, &core))),
        19 => slot(n, "{type: core, count: {min: 1, max: 4, operand: 2, operator: '*'}}"),
        0 => slot(n, &core),
        1 => slot(n, &node(1, &core)),
        2 => node(n, &slot(1, &core)),
        3 => node(n, &slot(few, "{type: core, count: 1}")),
        4 => slot(n, "{type: node, count: 1}"),
        5 => slot(1, &node(2, &core)),
        6 => node(n, &slot(1, "{type: socket, count: 1, with: [{type: core, count: 1}]}")),
        7 => slot(n, "{type: socket, count: 1}"),
        8 => node(1, &slot(1, &format!("{core}, {{type: memory, count: {few}}}"))),
        9 => slot(n, &format!("{{type: memory, count: {few}}}")),
        10 => format!("{{type: rack, count: 1, with: [{}]}}", node(few, &slot(1, &core))),
        11 => node(n, &slot(1, &format!("{core}, {{type: gpu, count: 1}}"))),
        13 => format!("{{type: rack, count: {few}{exclusive}, with: [{}]}}", node(n, &slot(few, &core))),
        14 => format!("{{type: rack, count: {{min: 1, max: {n}}}, with: [{}]}}", node(few, &slot(1, &core))),
        12 => slot(1, &format!("{{type: core, count: {{min: 1, max: {n}}}}}")),
        _ => slot(n, "{type: ssd, count: 1}"),
    };
    let constraint =
        if dice.one_in(3) { format!(", constraints: {{{}}}", constraint(dice)) } else { String::new() };
    let seconds = *dice.of(&[5, 10, 10, 10, 100]);
    let text = format!(
        "version: 9999\nresources: [{resources}]\ntasks: [{{command: [app], slot: s, count: {{per_slot: 1}}}}]\n\
         attributes: {{system: {{duration: {seconds}{constraint}}}}}"
    );
    (text, watts)
}

/// The units of a vertex that a job holds, and the time span.
#[derive(Debug, Clone, Copy)]
struct Hold {
    job: u64,
    start: i64,
    end: i64,
    units: u64,
}

impl Hold {
    fn meets(&self, start: i64, end: i64) -> bool {
        self.start < end && start < self.end
    }
}

#[derive(Default)]
struct Plain(BTreeMap<VertexId, Vec<Hold>>);

impl Plain {
    fn at(&self, v: VertexId) -> &[Hold] {
        self.0.get(&v).map_or(&[], Vec::as_slice)
    }

    /// Adds a booking, and fails if a unit has two jobs.
    fn take(&mut self, model: &Model, job: u64, items: &[Item], start: i64, end: i64) {
        let containment = model.name("containment").unwrap();
        for item in items {
            let Item::Vertex { vertex, units, exclusive: true, .. } = *item else { continue };
            let it = model.vertex(vertex).unwrap();
            let others = |v: VertexId| {
                let foreign = self.at(v).iter().filter(|h| h.job != job && h.meets(start, end));
                foreign.copied().collect::<Vec<Hold>>()
            };
            // The use is highest at the start of some span.
            let mine = others(vertex);
            let times = mine.iter().map(|h| h.start.max(start)).chain([start]);
            for at in times {
                let held: u64 = mine.iter().filter(|h| h.start <= at && at < h.end).map(|h| h.units).sum();
                assert!(held + units <= it.size(), "job {job}: {held} + {units} of {} at {at}", it.size());
            }
            let mut above = model.parent(vertex, containment);
            while let Some(v) = above {
                assert!(others(v).is_empty(), "job {job} inside what another holds");
                above = model.parent(v, containment);
            }
            for v in model.subtree(vertex, containment).into_iter().skip(1) {
                assert!(others(v).is_empty(), "job {job} around what another holds");
            }
        }
        for item in items {
            let Item::Vertex { vertex, units, exclusive: true, .. } = *item else { continue };
            self.0.entry(vertex).or_default().push(Hold { job, start, end, units });
        }
    }

    fn holds(&self, job: u64) -> bool {
        self.0.values().flatten().any(|h| h.job == job)
    }

    fn drop(&mut self, job: u64, at: Option<&BTreeSet<VertexId>>) {
        for (v, holds) in &mut self.0 {
            if at.is_none_or(|at| at.contains(v)) {
                holds.retain(|h| h.job != job);
            }
        }
        self.0.retain(|_, holds| !holds.is_empty());
    }
}

fn is_up(model: &Model, v: VertexId) -> bool {
    let containment = model.name("containment").unwrap();
    let mut at = Some(v);
    while let Some(v) = at {
        if model.vertex(v).unwrap().state() != State::Up {
            return false;
        }
        at = model.parent(v, containment);
    }
    true
}

fn partition(matcher: &Matcher, plain: &Plain, power: &Power) {
    let pool = |v: &VertexId| power.sizes.contains_key(v);
    let all: BTreeSet<VertexId> = matcher.model().vertices().filter(|v| !pool(v)).collect();
    let find = |text: &str| matcher.holding(text).unwrap().into_iter().collect::<BTreeSet<_>>();
    let (held, free) = (find("sched-now=allocated"), find("sched-now=free"));
    assert!(held.is_disjoint(&free), "nothing is both");
    assert_eq!(held.union(&free).copied().collect::<BTreeSet<_>>(), all, "nothing is neither");
    for v in plain.0.keys() {
        let job = plain.at(*v)[0].job;
        let holds = find(&format!("jobid-alloc={job} or jobid-reserved={job}"));
        assert!(holds.contains(v), "what is held is told");
    }
}

/// A node with a number of cores, to be added to a rack or beside a node.
fn node_below(model: &Model, at: VertexId, rank: u64, cores: u64) -> String {
    let containment = model.name("containment").unwrap();
    let rack = |v: VertexId| model.text(model.vertex(v).unwrap().type_()) == "rack";
    let above = if rack(at) { at } else { model.parent(at, containment).unwrap() };
    let path = model.path(above, containment).unwrap();
    let part = |id: &str, kind: &str, number: u64, path: String| {
        let rank = if id == "r" { -1 } else { rank as i64 };
        json!({"id": id, "metadata": {"type": kind, "id": number, "rank": rank, "paths": {"containment": path}}})
    };
    let node = format!("{path}/node{rank}");
    let mut nodes = vec![part("r", "rack", 0, path), part("n", "node", rank, node.clone())];
    let mut edges = vec![json!({"source": "r", "target": "n"})];
    for core in 0..cores {
        let id = format!("c{core}");
        nodes.push(part(&id, "core", core, format!("{node}/core{core}")));
        edges.push(json!({"source": "n", "target": id}));
    }
    json!({"graph": {"nodes": nodes, "edges": edges}}).to_string()
}

/// Runs the steps on one graph.
fn episode(seed: u64, steps: u64) {
    let mut dice = Dice(seed);
    let (model, mut power) = graph(&mut dice);
    let powered = !power.sizes.is_empty();
    let name = *dice.of(&POLICIES);
    let flexible = dice.one_in(5);
    let setup = || Setup {
        flexible,
        policy: if name == "ranked" { Policy::ranked() } else { Policy::parse(name).unwrap() },
        prune: "ALL:core,ALL:node,ALL:memory".to_owned(),
        ..Setup::default()
    };
    let mut quick = Matcher::new(model.clone(), &setup()).unwrap();
    let mut walker = Matcher::new(model.clone(), &setup()).unwrap();
    walker.walk_always(true);
    let mut plain = Plain::default();
    let mut jobs: Vec<u64> = Vec::new();
    let shapes: Vec<(Jobspec, u64)> = (0..6)
        .map(|_| {
            let (text, watts) = request(&mut dice, flexible, powered);
            (Jobspec::from_yaml_with(&text, Checks::Scheduling).unwrap(), watts)
        })
        .collect();
    let mut tops: Vec<VertexId> = model
        .vertices()
        .filter(|&v| ["node", "rack"].contains(&model.text(model.vertex(v).unwrap().type_())))
        .collect();
    let (mut now, mut order) = (0, Vec::<VertexId>::new());
    for step in 0..steps {
        let job = step + 1;
        let place = format!("seed {seed} ({name}), step {step}");
        if name == "ranked" && (step == 0 || dice.one_in(20)) {
            // Some of the nodes, in random order, some of them twice, with other vertices and removed ones.
            order = (0..dice.below(12)).map(|_| *dice.of(&tops)).collect();
            quick.order_nodes(&order);
            walker.order_nodes(&order);
        }
        match dice.below(12) {
            0..=6 => {
                let (spec, watts) = dice.of(&shapes);
                let op = dice.of(&Op::ALL).1;
                let mine = quick.compile(spec);
                let theirs = walker.compile(spec);
                let (a, b) = (quick.run(&mine, op, job, now), walker.run(&theirs, op, job, now));
                quick.take_messages();
                walker.take_messages();
                match (a, b) {
                    (Ok(a), Ok(b)) => {
                        assert_eq!((a.at, &a.booked), (b.at, &b.booked), "{place}: {op:?} {spec:?}");
                        if op.books() {
                            // A request for an exclusive rack gets all of its content.
                            let up = a.booked.items.iter().all(|i| match i {
                                Item::Vertex { vertex, exclusive: true, implied: false, .. } => {
                                    is_up(quick.model(), *vertex)
                                }
                                _ => true,
                            });
                            assert!(up, "{place}: only what is up is given");
                            let (start, end) = (a.booked.start, a.booked.end);
                            plain.take(quick.model(), job, &a.booked.items, start, end);
                            power.take(quick.model(), job, &a.booked.items, (start, end), *watts);
                            jobs.push(job);
                        }
                    }
                    (a, b) => {
                        assert_eq!(a.map(|m| m.at).err(), b.map(|m| m.at).err(), "{place}: {op:?} {spec:?}")
                    }
                }
            }
            7 | 8 if !jobs.is_empty() => {
                let job = jobs.swap_remove(dice.below(jobs.len() as u64) as usize);
                assert_eq!(quick.cancel(job), walker.cancel(job), "{place}");
                plain.drop(job, None);
                power.settle(quick.model(), &plain, None);
            }
            9 if !jobs.is_empty() => {
                let at = dice.below(jobs.len() as u64) as usize;
                let held: Vec<VertexId> = plain
                    .0
                    .iter()
                    .filter(|(_, h)| h.iter().any(|h| h.job == jobs[at]))
                    .map(|(&v, _)| v)
                    .collect();
                let some: BTreeSet<VertexId> = held.into_iter().filter(|_| dice.one_in(2)).collect();
                let (a, b) = (quick.release(jobs[at], &some), walker.release(jobs[at], &some));
                assert_eq!(a, b, "{place}");
                if a.is_ok() {
                    plain.drop(jobs[at], Some(&some));
                    power.settle(quick.model(), &plain, Some((jobs[at], &some)));
                }
                if a == Ok(true) {
                    jobs.swap_remove(at);
                }
            }
            10 => {
                let v = *dice.of(&tops);
                let state = *dice.of(&[State::Up, State::Up, State::Down, State::Degraded]);
                assert_eq!(quick.set_state(v, state), walker.set_state(v, state), "{place}");
            }
            11 if tops.len() > 3 && dice.one_in(6) => {
                let gone = BTreeSet::from([dice.below(12) as i64]);
                assert_eq!(quick.remove_ranks(&gone), walker.remove_ranks(&gone), "{place}");
                let left: BTreeSet<VertexId> = quick.model().vertices().collect();
                assert_eq!(left, walker.model().vertices().collect(), "{place}");
                tops.retain(|v| left.contains(v));
                plain.0.retain(|v, _| left.contains(v));
                power.settle(quick.model(), &plain, None);
                // Jobs without units are dropped.
                jobs.retain(|&job| plain.holds(job));
            }
            11 if dice.one_in(4) => {
                let at = *dice.of(&tops);
                let text = node_below(quick.model(), at, 1000 + step, 1 + dice.below(3));
                assert_eq!(quick.attach(&text), walker.attach(&text), "{place}");
                let added = tops.len();
                let found = quick.model().vertices();
                let node =
                    |v: &VertexId| quick.model().vertex(*v).unwrap().rank() == Some(1000 + step as i64);
                let node = found.filter(node).find(|v| quick.model().vertex(*v).unwrap().size() == 1);
                tops.extend(node);
                assert_eq!(tops.len(), added + 1, "{place}: {text}");
            }
            11 if dice.one_in(3) => now += dice.below(8) as i64,
            11 => {
                let v = *dice.of(&tops);
                let grade = dice.below(3).to_string();
                let key = *dice.of(&["perf_class", "ssd"]);
                assert_eq!(
                    quick.set_property(v, key, &grade),
                    walker.set_property(v, key, &grade),
                    "{place}"
                );
            }
            _ => {}
        }
        if step % 16 == 0 {
            partition(&quick, &plain, &power);
        }
        for matcher in [&quick, &walker].into_iter().filter(|_| powered) {
            power.agrees(matcher, now, &place);
        }
    }
    // After all releases everything is free.
    for job in jobs {
        quick.cancel(job).unwrap();
        plain.drop(job, None);
    }
    assert!(plain.0.is_empty());
    for &v in &tops {
        quick.set_state(v, State::Up).unwrap();
    }
    let fresh_model = quick.model().clone();
    let mut fresh = Matcher::new(fresh_model, &setup()).unwrap();
    fresh.walk_always(true);
    fresh.order_nodes(&order);
    if !name.starts_with("first") {
        for (index, (spec, _)) in shapes.iter().enumerate() {
            let (mine, theirs) = (quick.compile(spec), fresh.compile(spec));
            let job = steps + 1 + index as u64;
            let a = quick.run(&mine, Op::WithoutAllocating, job, now).map(|m| m.booked);
            let b = fresh.run(&theirs, Op::WithoutAllocating, job, now).map(|m| m.booked);
            assert_eq!(a, b, "seed {seed} ({name}): released is as new, {spec:?}");
        }
    }
}

#[test]
fn m4_10_m16_15_m16_16_classes_walks_and_a_plain_list_agree() {
    let steps = std::env::var("FLUXGATE_MODEL_STEPS").ok().and_then(|n| n.parse().ok()).unwrap_or(STEPS);
    for seed in 0..steps.div_ceil(EPISODE) {
        episode(seed, EPISODE);
    }
}
