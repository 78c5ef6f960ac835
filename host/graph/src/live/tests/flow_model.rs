//! Flow against a slow model: random forests of pools, jobs with power and without, whole and partial releases, nodes
//! that go down, restarts, reservations. The model adds up the R of every job and tries every placement of a request.
//! The model knows of a pool only the pool that feeds it.
//!
//! `FLUXGATE_MODEL_STEPS` sets the number of steps.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::story::{on_time, starts};
use super::*;

/// Default number of steps.
const STEPS: u64 = 6_000;
/// Steps on one machine.
const EPISODE: u64 = 60;

/// Splitmix64: the same numbers on every machine.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

/// A pool: the pool that feeds it, and its capacity.
#[derive(Debug, Clone)]
struct Pool {
    above: Option<usize>,
    size: u64,
}

/// The resources of a job: cores and power by node.
#[derive(Debug, Clone, Default)]
struct Held {
    end: f64,
    on: BTreeMap<usize, (u64, u64)>,
}

#[derive(Debug, Clone)]
struct World {
    pools: Vec<Pool>,
    /// Cores of each node, and the pool that feeds it.
    nodes: Vec<(u64, Option<usize>)>,
    up: Vec<bool>,
    jobs: BTreeMap<u64, Held>,
}

/// A number of slots with cores and power each; whole nodes or parts.
#[derive(Debug, Clone, Copy)]
struct Ask {
    slots: u64,
    per: u64,
    power: u64,
    whole: bool,
}

impl World {
    fn new(dice: &mut Dice) -> World {
        let mut pools = Vec::new();
        for at in 0..1 + dice.below(4) {
            let above = (at > 0 && dice.below(4) > 0).then(|| dice.below(at) as usize);
            pools.push(Pool { above, size: 1 + dice.below(12) });
        }
        let mut nodes = Vec::new();
        for _ in 0..1 + dice.below(5) {
            let pool =
                (nodes.is_empty() || dice.below(8) > 0).then(|| dice.below(pools.len() as u64) as usize);
            nodes.push((1 + dice.below(3), pool));
            // Some nodes have a pool of their own.
            if let (Some(above), 0) = (pool, dice.below(3)) {
                let size = 1 + dice.below(6);
                pools.push(Pool { above: Some(above), size });
                nodes.last_mut().unwrap().1 = Some(pools.len() - 1);
            }
        }
        let up = vec![true; nodes.len()];
        World { pools, nodes, up, jobs: BTreeMap::new() }
    }

    fn way(&self, pool: Option<usize>) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(pool, |pool| self.pools[*pool].above)
    }

    fn resources(&self) -> Resources {
        let mut pools: Vec<Value> = Vec::new();
        for (index, pool) in self.pools.iter().enumerate() {
            let hosts: Vec<String> = (0..self.nodes.len())
                .filter(|n| self.nodes[*n].1 == Some(index))
                .map(|n| format!("n{n}"))
                .collect();
            let mut said = json!({"name": format!("p{index}"), "size": pool.size, "hosts": hosts.join(",")});
            if let Some(above) = pool.above {
                said["from"] = json!(format!("p{above}"));
            }
            pools.push(said);
        }
        // The order of pools in the description has no meaning.
        pools.reverse();
        let entries: Vec<Value> = (0..self.nodes.len())
            .map(|n| json!({"rank": n.to_string(), "children": {"core": (0..self.nodes[n].0 as u32).collect::<Idset>().to_string()}}))
            .collect();
        let hosts: Vec<String> = (0..self.nodes.len()).map(|n| format!("n{n}")).collect();
        let r = json!({"version": 1, "execution": {"R_lite": entries, "nodelist": [hosts.join(",")],
            "starttime": 0, "expiration": 0}, "scheduling": {"flow": {"power": {"pools": pools}}}});
        let mut machine = Resources::from_r(&R::from_value(&r).unwrap()).unwrap();
        assert_eq!(machine.unused_topology(), None, "{r}");
        let up = (0..self.nodes.len() as u32).filter(|n| self.up[*n as usize]).collect();
        machine.set_up(&up);
        machine
    }

    /// The free cores and power, without the jobs that `held` selects.
    fn left(&self, held: impl Fn(&Held) -> bool) -> (Vec<u64>, Vec<i64>) {
        let mut cores: Vec<u64> = self.nodes.iter().map(|(cores, _)| *cores).collect();
        let mut pools: Vec<i64> = self.pools.iter().map(|pool| pool.size as i64).collect();
        for (node, (taken, power)) in self.jobs.values().filter(|job| held(job)).flat_map(|job| &job.on) {
            cores[*node] -= taken;
            self.way(self.nodes[*node].1).for_each(|pool| pools[pool] -= *power as i64);
        }
        (cores, pools)
    }

    fn fits(&self, ask: Ask, (cores, pools): (Vec<u64>, Vec<i64>), everything: bool) -> bool {
        let room: Vec<u64> = (0..self.nodes.len())
            .map(|n| match (self.up[n] || everything, ask.whole) {
                (false, _) => 0,
                (true, true) => u64::from(cores[n] == self.nodes[n].0 && cores[n] >= ask.per),
                (true, false) => cores[n] / ask.per,
            })
            .collect();
        self.place(ask, &room, 0, ask.slots, pools)
    }

    /// Tries every number of slots on every node.
    fn place(&self, ask: Ask, room: &[u64], node: usize, slots: u64, pools: Vec<i64>) -> bool {
        if slots == 0 {
            return true;
        }
        if node == room.len() {
            return false;
        }
        (0..=room[node].min(slots)).any(|n| {
            let mut pools = pools.clone();
            let power = (n * ask.power) as i64;
            self.way(self.nodes[node].1).for_each(|pool| pools[pool] -= power);
            let flows = power == 0 || self.nodes[node].1.is_some() && pools.iter().all(|left| *left >= 0);
            flows && self.place(ask, room, node + 1, slots - n, pools)
        })
    }

    fn earliest(&self, ask: Ask, now: f64) -> Option<f64> {
        let after = |end: f64| if end > now { end } else { now.next_up() };
        let mut times: Vec<f64> = self.jobs.values().map(|job| after(job.end)).chain([now]).collect();
        times.sort_by(f64::total_cmp);
        times.into_iter().find(|at| self.fits(ask, self.left(|job| after(job.end) > *at), false))
    }

    fn ask(&self, dice: &mut Dice) -> Ask {
        let power = if dice.below(4) == 0 { 0 } else { 1 + dice.below(4) };
        Ask { slots: 1 + dice.below(4), per: 1 + dice.below(2), power, whole: dice.below(3) == 0 }
    }

    /// The resources of a job by its R alone.
    fn read(&self, r: &R, end: f64) -> Held {
        let mut held = Held { end, on: BTreeMap::new() };
        for rank in r.ranks().iter() {
            held.on.insert(rank as usize, (r.children(rank).unwrap()["core"].len(), 0));
        }
        let flow =
            r.scheduling.as_ref().map_or(&Value::Null, |scheduling| &scheduling["flow"]["power"]["pools"]);
        for pool in flow.as_array().into_iter().flatten() {
            let hosts: fluxgate_formats::Hostlist = pool["hosts"].as_str().unwrap().parse().unwrap();
            for host in hosts.iter() {
                let node: usize = host[1..].parse().unwrap();
                held.on.get_mut(&node).expect("flow goes where R names something").1 +=
                    pool["each"].as_u64().unwrap();
            }
        }
        held
    }

    /// Checks that no unit is held twice, and that the ledger agrees with the Rs.
    fn agree(&self, m: &Resources) {
        let (cores, pools) = self.left(|_| true);
        assert!(pools.iter().all(|left| *left >= 0), "{pools:?} {self:?}");
        let free: u64 = (0..cores.len()).filter(|n| self.up[*n]).map(|n| cores[n]).sum();
        assert_eq!(u64::from(m.totals().free_cores), free);
        for (id, job) in &self.jobs {
            let read = self.read(&m.allocation_r(JobId(*id)).unwrap(), job.end);
            assert_eq!(read.on, job.on, "job {id}");
        }
        let graph = m.graph();
        for (at, _) in graph.flows.pools(0) {
            let name = graph.vertex_name(crate::VertexId(graph.upper[at as usize]), 0).unwrap();
            let pool: usize = name[1..].parse().unwrap();
            assert_eq!(
                crate::layout::flow::headroom(m.machine.ledger.upper()[at as usize]) as i64,
                pools[pool],
                "{name} {self:?}"
            );
        }
    }
}

fn compile(m: &mut Resources, ask: Ask) -> Arc<Request> {
    let Ask { slots, per, power, whole } = ask;
    let power = if power > 0 { format!(r#",{{"type":"power","count":{power}}}"#) } else { String::new() };
    let cores = format!(r#"{{"type":"core","count":{per}}}{power}"#);
    let inside = if whole { format!(r#"{{"type":"node","count":1,"with":[{cores}]}}"#) } else { cores };
    m.compile(&jobspec(&format!(r#"[{{"type":"slot","count":{slots},"label":"x","with":[{inside}]}}]"#)))
        .unwrap()
}

const PLACEMENTS: [Placement; 7] = [
    Placement::First,
    Placement::High,
    Placement::Pack,
    Placement::Spread,
    Placement::Locality,
    Placement::Variation,
    Placement::Power,
];

/// Starts a job where the machine places it, and checks its resources.
fn begin(
    world: &mut World,
    m: &mut Resources,
    id: u64,
    ask: Ask,
    found: &crate::Selection,
    (now, end): (f64, f64),
) {
    let r = m.selection_to_r(found, now, end);
    let held = world.read(&R::from_json(&r.to_value().to_string()).unwrap(), end);
    assert_eq!(held.on.values().map(|(_, power)| power).sum::<u64>(), ask.slots * ask.power, "{ask:?} {r:?}");
    if ask.power > 0 && !ask.whole {
        assert!(
            held.on.values().all(|(cores, power)| cores / ask.per * ask.power == *power),
            "{ask:?} {r:?}"
        );
    }
    m.allocate(JobId(id), found, now, end).unwrap();
    world.jobs.insert(id, held);
    world.agree(m);
}

fn release(world: &mut World, m: &mut Resources, id: u64, rank: Option<u32>) {
    let last = m.release(JobId(id), rank.map(Idset::from).as_ref()).unwrap();
    let job = world.jobs.get_mut(&id).unwrap();
    job.on.retain(|node, _| rank.is_some_and(|rank| rank as usize != *node));
    assert_eq!(last, job.on.is_empty());
    if last {
        world.jobs.remove(&id);
    }
    world.agree(m);
}

fn steps() -> u64 {
    std::env::var("FLUXGATE_MODEL_STEPS").ok().and_then(|n| n.parse().ok()).unwrap_or(STEPS)
}

/// A request is refused if and only if no placement exists: now, at any end of a job, and on the idle machine.
#[test]
fn m4_18_flow_is_found_if_and_only_if_it_is_there() {
    for episode in 0..steps().div_ceil(EPISODE) {
        let dice = &mut Dice(episode);
        let mut world = World::new(dice);
        let mut m = world.resources();
        let mut now = 0.0;
        for id in 1..=EPISODE {
            match dice.below(10) {
                0..=4 => {
                    let ask = world.ask(dice);
                    let request = compile(&mut m, ask);
                    let end = now + 1.0 + dice.below(20) as f64;
                    let placement = PLACEMENTS[dice.below(PLACEMENTS.len() as u64) as usize];
                    let idle = world.left(|_| false);
                    assert_eq!(
                        m.satisfiable(&request).is_ok(),
                        world.fits(ask, idle, true),
                        "{ask:?} {world:?}"
                    );
                    let expected = world.fits(ask, world.left(|_| true), false);
                    let found = m.match_now(&request, now, end, placement);
                    assert_eq!(found.is_ok(), expected, "{ask:?} {placement:?} {world:?}");
                    assert_eq!(
                        m.earliest(&request, now, 5.0),
                        world.earliest(ask, now),
                        "{ask:?} {now} {world:?}"
                    );
                    match found {
                        Ok(found) => begin(&mut world, &mut m, id, ask, &found, (now, end)),
                        Err(_) => {
                            let short = m.shortage(&request);
                            let bare = Ask { power: 0, ..ask };
                            let plain = world.fits(bare, world.left(|_| true), false);
                            assert_eq!(
                                short.is_some(),
                                plain && ask.power > 0,
                                "{ask:?} {short:?} {world:?}"
                            );
                        }
                    }
                }
                5 | 6 => {
                    let Some(job) = world.jobs.keys().nth(dice.below(6) as usize).copied() else { continue };
                    let rank = (dice.below(2) == 0).then(|| dice.below(world.nodes.len() as u64) as u32);
                    release(&mut world, &mut m, job, rank);
                }
                7 => {
                    let node = dice.below(world.nodes.len() as u64) as usize;
                    world.up[node] = !world.up[node];
                    let rank = Idset::from(node as u32);
                    if world.up[node] { m.set_up(&rank) } else { m.set_down(&rank) }
                }
                8 => now += dice.below(10) as f64,
                // A restart of the scheduler, which then knows only the Rs.
                _ => {
                    let held: Vec<(u64, R)> =
                        world.jobs.keys().map(|id| (*id, m.allocation_r(JobId(*id)).unwrap())).collect();
                    let machine = R::from_json(&m.to_r_all().to_value().to_string()).unwrap();
                    m = Resources::from_r(&machine).unwrap();
                    m.set_up(&(0..world.nodes.len() as u32).filter(|n| world.up[*n as usize]).collect());
                    for (id, r) in held {
                        let end = world.jobs[&id].end;
                        m.allocate_r(JobId(id), &r, &Idset::new(), 0.0, end).unwrap();
                    }
                    let named =
                        |at: u32| m.graph().vertex_name(crate::VertexId(m.graph().upper[at as usize]), 0);
                    if m.graph().flows.pools(0).all(|(at, _)| named(at).unwrap().starts_with('p')) {
                        world.agree(&m);
                    }
                }
            }
        }
        let ids: Vec<u64> = world.jobs.keys().copied().collect();
        ids.into_iter().for_each(|id| release(&mut world, &mut m, id, None));
        assert_eq!(m.machine.ledger.upper(), &*m.idle_upper, "M16-16: exactly what was there");
    }
}

/// Jobs end on time or earlier. The only job with a reservation starts at its reserved time, whatever was started
/// meanwhile; of several reservations, a start delays none.
#[test]
fn m4_18_flow_that_was_reserved_is_there() {
    for episode in 0..steps().div_ceil(EPISODE) {
        let dice = &mut Dice(episode ^ 0x5eed);
        let mut world = World::new(dice);
        let mut m = world.resources();
        let mut now = 0.0;
        let mut reserved: BTreeMap<u64, (Ask, f64, f64)> = BTreeMap::new();
        let mut log: Vec<String> = Vec::new();
        let many = if dice.below(2) == 0 { 1 } else { 4 };
        for id in 1..=EPISODE {
            match dice.below(10) {
                0..=3 => {
                    let ask = world.ask(dice);
                    let request = compile(&mut m, ask);
                    let end = now + 1.0 + dice.below(20) as f64;
                    let before = starts(&mut m, now);
                    if let Ok(found) = m.match_now(&request, now, end, PLACEMENTS[dice.below(7) as usize]) {
                        log.push(format!(
                            "{now}: {id} {ask:?} until {end}: {}",
                            m.selection_to_r(&found, now, end).summary()
                        ));
                        begin(&mut world, &mut m, id, ask, &found, (now, end));
                        let kept = |now: &(JobId, f64), was: &(JobId, f64)| now.0 == was.0 && now.1 <= was.1;
                        let after = starts(&mut m, now);
                        assert!(
                            !on_time(&m, now, &before) || after.iter().zip(&before).all(|(a, b)| kept(a, b)),
                            "{before:?} became {after:?} {world:?}\n{}",
                            log.join("\n")
                        );
                    }
                }
                4..=6 if reserved.len() < many => {
                    let ask = world.ask(dice);
                    let request = compile(&mut m, ask);
                    let duration = 1.0 + dice.below(20) as f64;
                    if let Some(at) = m.earliest(&request, now, duration) {
                        m.reserve(JobId(id), &request, at, duration).unwrap();
                        reserved.insert(id, (ask, at, duration));
                        log.push(format!("{now}: {id} {ask:?} reserved from {at} for {duration}"));
                    }
                }
                7 => {
                    let Some(job) = world.jobs.keys().nth(dice.below(6) as usize).copied() else { continue };
                    log.push(format!("{now}: {job} released"));
                    release(&mut world, &mut m, job, None);
                }
                _ => {
                    // The next event.
                    let ends = world.jobs.values().map(|job| job.end);
                    let next = ends.chain(reserved.values().map(|(_, at, _)| *at)).min_by(f64::total_cmp);
                    now = next.unwrap_or(now + 1.0).max(now);
                    let over: Vec<u64> =
                        world.jobs.iter().filter(|(_, job)| job.end <= now).map(|(id, _)| *id).collect();
                    over.into_iter().for_each(|id| release(&mut world, &mut m, id, None));
                    let due: Vec<u64> =
                        reserved.iter().filter(|(_, p)| p.1 <= now).map(|(id, _)| *id).collect();
                    for id in due {
                        let (ask, at, duration) = reserved.remove(&id).unwrap();
                        m.unreserve(JobId(id));
                        let request = compile(&mut m, ask);
                        let found = m.match_now(&request, now, now + duration, Placement::First);
                        if many > 1 && found.is_err() {
                            continue;
                        }
                        let found = found.unwrap_or_else(|why| {
                            panic!("{id} {ask:?} at {at}: {why} {world:?}\n{}", log.join("\n"))
                        });
                        begin(&mut world, &mut m, id, ask, &found, (now, now + duration));
                    }
                }
            }
        }
    }
}
