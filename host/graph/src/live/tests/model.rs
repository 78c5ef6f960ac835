//! The crate against a slow model that is obviously right: a list of units with the job of each, and every placement
//! tried.
//!
//! Steps are random but drawn by proptest, so a failure shrinks to a short sequence.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

/// The kinds of steps.
#[derive(Debug, Clone)]
enum Step {
    Start { slots: u32, per: u32, whole: bool, duration: u32, placement: usize },
    Release { job: usize, rank: Option<u32> },
    Down(u32),
    Up(u32),
    Shrink(u32),
    Wait(u32),
    Reserve { slots: u32, duration: u32 },
    Unreserve,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1..5u32, 1..3u32, any::<bool>(), 1..20u32, 0..5usize)
            .prop_map(|(slots, per, whole, duration, placement)| Step::Start { slots, per, whole, duration, placement }),
        3 => (0..8usize, proptest::option::of(0..5u32)).prop_map(|(job, rank)| Step::Release { job, rank }),
        1 => (0..5u32).prop_map(Step::Down),
        2 => (0..5u32).prop_map(Step::Up),
        1 => (0..5u32).prop_map(Step::Shrink),
        2 => (1..10u32).prop_map(Step::Wait),
        2 => (1..8u32, 1..20u32).prop_map(|(slots, duration)| Step::Reserve { slots, duration }),
        1 => Just(Step::Unreserve),
    ]
}

/// Units by rank and core, with the job that holds each.
#[derive(Debug, Clone)]
struct Model {
    units: BTreeMap<(u32, u32), Option<u64>>,
    up: BTreeSet<u32>,
    gone: BTreeSet<u32>,
    ends: BTreeMap<u64, f64>,
}

impl Model {
    fn new(sizes: &[u32]) -> Self {
        let mut units = BTreeMap::new();
        for (rank, &n) in sizes.iter().enumerate() {
            units.extend((0..n).map(|core| ((rank as u32, core), None)));
        }
        let up = (0..sizes.len() as u32).collect();
        Model { units, up, gone: BTreeSet::new(), ends: BTreeMap::new() }
    }

    /// Free cores of each node that is up, without the jobs that `held` selects.
    fn free(&self, held: impl Fn(u64) -> bool) -> BTreeMap<u32, (u64, u64)> {
        let mut nodes: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        for ((rank, _), holder) in self.units.iter().filter(|((rank, _), _)| self.up.contains(rank)) {
            let node = nodes.entry(*rank).or_default();
            node.1 += 1;
            node.0 += u64::from(!holder.is_some_and(&held));
        }
        nodes
    }

    fn fits(free: &BTreeMap<u32, (u64, u64)>, slots: u64, per: u64, whole: bool) -> bool {
        if whole {
            free.values().filter(|(free, all)| free == all && *all >= per).count() as u64 >= slots
        } else {
            free.values().map(|(free, _)| free / per).sum::<u64>() >= slots
        }
    }

    fn earliest(&self, now: f64, slots: u64, per: u64, whole: bool) -> Option<f64> {
        let after = |end: f64| if end > now { end } else { now.next_up() };
        let mut times: Vec<f64> = self.ends.values().map(|&end| after(end)).collect();
        times.push(now);
        times.sort_by(f64::total_cmp);
        times.into_iter().find(|&t| Self::fits(&self.free(|id| after(self.ends[&id]) > t), slots, per, whole))
    }
}

fn request(m: &mut Resources, slots: u32, per: u32, whole: bool) -> Arc<Request> {
    let text = if whole {
        format!(
            r#"[{{"type":"slot","count":{slots},"label":"x","with":[{{"type":"node","count":1,"with":[{{"type":"core","count":{per}}}]}}]}}]"#
        )
    } else {
        format!(r#"[{{"type":"slot","count":{slots},"label":"x","with":[{{"type":"core","count":{per}}}]}}]"#)
    };
    m.compile(&jobspec(&text)).unwrap()
}

fn machine(sizes: &[u32]) -> Resources {
    let entries: Vec<String> = sizes
        .iter()
        .enumerate()
        .map(|(rank, n)| {
            let ids = if *n > 1 { format!("0-{}", n - 1) } else { "0".to_owned() };
            format!(r#"{{"rank":"{rank}","children":{{"core":"{ids}"}}}}"#)
        })
        .collect();
    let last = sizes.len() - 1;
    let hosts = if last > 0 { format!("n[0-{last}]") } else { "n0".to_owned() };
    let text = format!(
        r#"{{"version":1,"execution":{{"R_lite":[{}],"nodelist":["{hosts}"],"starttime":0,"expiration":0}}}}"#,
        entries.join(",")
    );
    let mut m = Resources::from_r(&R::from_json(&text).unwrap()).unwrap();
    m.set_up(&(0..sizes.len() as u32).collect());
    m
}

/// M16-16: allocated and available resources are disjoint and together the whole; the ledger agrees with the model.
fn agree(m: &Resources, model: &Model) {
    let all = machine_of(model);
    let allocated = m.allocated_r();
    let mut held: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    for (id, _) in m.allocations() {
        let r = m.allocation_r(id).unwrap();
        // Written by runs of nodes, R is the same as node by node, in canonical form.
        let ranks = r.ranks();
        let one_by_one =
            R::from_nodes(ranks.iter().map(|k| (k, format!("n{k}"), r.children(k).unwrap().clone())));
        assert_eq!((&r.r_lite, &r.nodelist), (&one_by_one.r_lite, &one_by_one.nodelist));
        for entry in &r.r_lite {
            for rank in entry.rank.iter() {
                for core in entry.children.get("core").into_iter().flat_map(|c| c.iter().collect::<Vec<_>>())
                {
                    assert_eq!(held.insert((rank, core), id.0), None, "M16-5: a unit held twice");
                }
            }
        }
    }
    let expected: BTreeMap<(u32, u32), u64> =
        model.units.iter().filter_map(|(&unit, &holder)| Some((unit, holder?))).collect();
    assert_eq!(held, expected);
    assert_eq!(allocated.count("core"), held.len() as u64);
    let free: u64 = model.free(|_| true).values().map(|(free, _)| free).sum();
    let idle = model.free(|_| true).values().filter(|(free, all)| free == all).count();
    let t = m.totals();
    assert_eq!(
        (u64::from(t.free_cores), t.free_nodes as usize, t.up_nodes as usize),
        (free, idle, model.up.len())
    );
    assert_eq!(u64::from(t.cores), all, "R28-UPD-3");
}

fn machine_of(model: &Model) -> u64 {
    model.units.keys().filter(|(rank, _)| !model.gone.contains(rank)).count() as u64
}

/// The kinds of requests.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Mode {
    /// Any request, without reservations.
    Any,
    /// Cores on any nodes, which a plan in counts covers.
    Cores,
    /// Any idle nodes, which a plan in counts covers too; beside starts that share nodes.
    Nodes,
}

fn run(sizes: &[u32], steps: &[Step], mode: Mode) {
    let reserving = mode != Mode::Any;
    let mut m = machine(sizes);
    let mut model = Model::new(sizes);
    let mut now = 0.0;
    let mut next = 1u64;
    // Reservations in counts: job, start, end, cores.
    let mut reserved: BTreeMap<u64, (f64, f64, u64)> = BTreeMap::new();
    for step in steps {
        match *step {
            Step::Start { slots, per, whole, duration, placement } => {
                let (per, whole) = match mode {
                    Mode::Any => (per, whole),
                    Mode::Cores => (1, false),
                    Mode::Nodes if whole => (1, true),
                    Mode::Nodes => (per, false),
                };
                // For requests that share nodes, only the reservations are checked: an exhaustive search may find
                // more.
                let exact = mode != Mode::Nodes || whole || reserved.is_empty();
                let request = request(&mut m, slots, per, whole);
                let end = now + f64::from(duration);
                let fits = Model::fits(&model.free(|_| true), slots.into(), per.into(), whole);
                let keeps = || reserved_kept(&model, &reserved, mode, now, end, slots.into());
                let expected = fits && (reserved.is_empty() || keeps());
                let found = m.match_now(&request, now, end, Placement::ALL[placement]);
                assert!(
                    found.is_ok() == expected || !exact,
                    "{found:?} {slots}x{per} whole={whole} at {now} {reserved:?}"
                );
                if reserved.is_empty() {
                    let earliest = model.earliest(now, slots.into(), per.into(), whole);
                    assert_eq!(
                        m.earliest(&request, now, f64::from(duration)),
                        earliest,
                        "{slots}x{per} {whole}"
                    );
                }
                let Ok(found) = found else { continue };
                let id = next;
                next += 1;
                let r = m.selection_to_r(&found, now, end);
                assert_eq!(r.nslots, Some(slots));
                for entry in &r.r_lite {
                    for rank in entry.rank.iter() {
                        let cores = &entry.children["core"];
                        assert!(whole || cores.len() % u64::from(per) == 0, "a slot lies on one node");
                        for core in cores.iter() {
                            let holder = model.units.get_mut(&(rank, core)).unwrap();
                            assert_eq!(holder.replace(id), None);
                        }
                    }
                }
                if !whole {
                    assert_eq!(r.count("core"), u64::from(slots * per));
                }
                model.ends.insert(id, end);
                assert!(
                    reserved_kept(&model, &reserved, mode, now, now, 0),
                    "{slots}x{per} whole={whole} {reserved:?}"
                );
                m.allocate(JobId(id), &found, now, end).unwrap();
                assert!(m.allocate(JobId(id + 1000), &found, now, end).is_err(), "the gate's last line");
            }
            Step::Release { job, rank } => {
                let Some(&id) = model.ends.keys().nth(job) else { continue };
                let ranks = rank.map(Idset::from);
                let last = m.release(JobId(id), ranks.as_ref()).unwrap();
                for ((at, _), holder) in &mut model.units {
                    if *holder == Some(id) && rank.is_none_or(|r| r == *at) {
                        *holder = None;
                    }
                }
                let left = model.units.values().any(|h| *h == Some(id));
                assert_eq!(last, !left);
                if !left {
                    model.ends.remove(&id);
                }
            }
            Step::Down(rank) => {
                m.set_down(&Idset::from(rank));
                model.up.remove(&rank);
            }
            Step::Up(rank) => {
                m.set_up(&Idset::from(rank));
                if (rank as usize) < sizes.len() && !model.gone.contains(&rank) {
                    model.up.insert(rank);
                }
            }
            Step::Shrink(rank) => {
                m.shrink(&Idset::from(rank));
                model.up.remove(&rank);
                model.gone.insert(rank);
            }
            Step::Wait(seconds) => {
                now += f64::from(seconds);
                reserved.clear();
                for id in m.reservations().map(|(id, ..)| id).collect::<Vec<_>>() {
                    m.unreserve(id);
                }
            }
            Step::Reserve { slots, duration } if reserving => {
                let request = request(&mut m, slots, 1, mode == Mode::Nodes);
                let earliest = m.earliest(&request, now, f64::from(duration));
                assert_eq!(
                    earliest,
                    model_earliest(&model, &reserved, mode, now, f64::from(duration), slots.into())
                );
                if let Some(at) = earliest {
                    let id = 5000 + next;
                    next += 1;
                    m.reserve(JobId(id), &request, at, f64::from(duration)).unwrap();
                    reserved.insert(id, (at, at + f64::from(duration), slots.into()));
                }
            }
            Step::Reserve { .. } => {}
            Step::Unreserve => {
                if let Some((id, _)) = reserved.pop_first() {
                    assert!(m.unreserve(JobId(id)));
                }
            }
        }
        if matches!(step, Step::Down(_) | Step::Up(_) | Step::Shrink(_) | Step::Release { .. }) {
            // Their times were reserved on another machine; this test is about reservations that can be kept.
            for (id, _) in std::mem::take(&mut reserved) {
                m.unreserve(JobId(id));
            }
        }
        agree(&m, &model);
    }
    // After all releases the machine is as it was at first.
    let left: Vec<JobId> = m.allocations().map(|(id, _)| id).collect();
    for id in left {
        assert_eq!(m.release(id, None), Ok(true));
    }
    m.set_up(&(0..sizes.len() as u32).collect());
    let cores = machine_of(&model);
    assert_eq!((u64::from(m.totals().free_cores), m.totals().free_nodes), (cores, m.totals().nodes));
}

/// Free cores, or idle nodes, at a time, with running jobs, reservations, and `extra` of them taken in a span.
fn free_at(
    model: &Model,
    reserved: &BTreeMap<u64, (f64, f64, u64)>,
    mode: Mode,
    now: f64,
    at: f64,
    extra: (f64, f64, u64),
) -> i64 {
    let after = |end: f64| if end > now { end } else { now.next_up() };
    let nodes = model.free(|id| after(model.ends[&id]) > at);
    let free: u64 = match mode {
        Mode::Nodes => nodes.values().filter(|(free, all)| free == all).count() as u64,
        _ => nodes.values().map(|(free, _)| free).sum(),
    };
    let taken: u64 = reserved
        .values()
        .copied()
        .chain([extra])
        .filter(|(s, e, _)| *s <= at && at < *e)
        .map(|(.., n)| n)
        .sum();
    free as i64 - taken as i64
}

fn moments(model: &Model, reserved: &BTreeMap<u64, (f64, f64, u64)>, now: f64) -> Vec<f64> {
    let after = |end: f64| if end > now { end } else { now.next_up() };
    let mut list: Vec<f64> = model.ends.values().map(|&e| after(e)).chain([now]).collect();
    list.extend(reserved.values().flat_map(|(s, e, _)| [*s, *e]));
    list.sort_by(f64::total_cmp);
    list
}

fn reserved_kept(
    model: &Model,
    reserved: &BTreeMap<u64, (f64, f64, u64)>,
    mode: Mode,
    now: f64,
    end: f64,
    cores: u64,
) -> bool {
    moments(model, reserved, now)
        .into_iter()
        .all(|t| free_at(model, reserved, mode, now, t, (now, end, cores)) >= 0)
}

fn model_earliest(
    model: &Model,
    reserved: &BTreeMap<u64, (f64, f64, u64)>,
    mode: Mode,
    now: f64,
    duration: f64,
    cores: u64,
) -> Option<f64> {
    let times = moments(model, reserved, now);
    times.iter().copied().find(|&start| {
        let extra = (start, start + duration, cores);
        times.iter().filter(|&&t| t >= start).all(|&t| free_at(model, reserved, mode, now, t, extra) >= 0)
    })
}

proptest! {
    #![proptest_config(config(300))]

    /// Small machines of unequal nodes: a request is refused if and only if it does not fit; `earliest` agrees; no
    /// unit is lost.
    #[test]
    fn no_reservations(sizes in proptest::collection::vec(1..4u32, 1..5), steps in proptest::collection::vec(step(), 1..60)) {
        let steps: Vec<Step> = steps.into_iter().filter(|s| !matches!(s, Step::Reserve { .. } | Step::Unreserve)).collect();
        run(&sizes, &steps, Mode::Any);
    }

    /// Equal cores, several reservations: a start is refused if and only if it would delay one (EASY's rule for
    /// many).
    #[test]
    fn reservations_of_cores(sizes in proptest::collection::vec(1..4u32, 1..5), steps in proptest::collection::vec(step(), 1..60)) {
        run(&sizes, &steps, Mode::Cores);
    }

    /// The same for whole nodes of several sizes, some of them shared.
    #[test]
    fn reservations_of_nodes(sizes in proptest::collection::vec(1..4u32, 1..7), steps in proptest::collection::vec(step(), 1..60)) {
        run(&sizes, &steps, Mode::Nodes);
    }
}
