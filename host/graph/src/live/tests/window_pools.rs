//! Windows that keep amounts of pools, with nodes or without, against a sum over time.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::site::{Rabbits, beside};
use super::*;
use crate::{PoolError, Sharing, WindowId, WindowSpan, WindowTerms};

/// Twelve nodes on one file system of 10 GB/s, and in two racks of 12 kW.
fn machine() -> Resources {
    let flow = json!({
        "io": {"unit": "GB/s", "pools": [{"name": "pfs", "type": "filesystem", "size": 10, "hosts": "n[0-11]"}]},
        "power": {"unit": "kW", "pools": [
            {"name": "rack0", "size": 12, "hosts": "n[0-5]"},
            {"name": "rack1", "size": 12, "hosts": "n[6-11]"}]},
    });
    let r = json!({"version": 1, "execution": {"R_lite": [{"rank": "0-11", "children": {"core": "0-3"}}],
        "nodelist": ["n[0-11]"], "starttime": 0, "expiration": 0}, "scheduling": {"writer": "fluxgate", "flow": flow}});
    let mut machine = Resources::from_r(&R::from_value(&r).unwrap()).unwrap();
    machine.set_up(&ids("0-11"));
    machine
}

/// A node with one core and this flow.
fn ask(m: &mut Resources, flow: &str, amount: u32) -> Arc<Request> {
    let text = format!(
        r#"[{{"type":"node","count":1,"with":[{{"type":"slot","count":1,"label":"x","with":[{{"type":"core","count":1}},{{"type":"{flow}","count":{amount}}}]}}]}}]"#
    );
    m.compile(&jobspec(&text)).unwrap()
}

fn window(from: f64, end: f64, pool: &str, units: u64) -> WindowTerms {
    let span = WindowSpan { from, start: from, end, until: end };
    WindowTerms { amounts: vec![(pool.to_owned(), units)], ..WindowTerms::new(vec![span], Sharing::Never) }
}

const GB: u64 = 1_000_000_000;

/// FEAT-11: a file system's downtime. A job that asks for none of its flow starts as before, with not one search more.
#[test]
fn feat_11_a_pool_without_nodes_is_kept() {
    let mut m = machine();
    assert_eq!(m.pool_units("io", "all"), Ok(10 * GB));
    m.put_window(WindowId(1), &ids(""), window(100.0, 200.0, "io/pfs", 10 * GB)).unwrap();
    let (io, plain) = (ask(&mut m, "io", 1), cores(&mut m, 1, 1));
    assert!(m.match_now(&io, 0.0, 100.0, Placement::First).is_ok(), "it ends in time");
    assert_eq!(m.match_now(&io, 0.0, 101.0, Placement::First), Err(NoFit::Window(WindowId(1), 100.0)));
    assert_eq!(m.earliest(&io, 0.0, 101.0), Some(200.0));
    let searched = m.searches();
    assert!(m.match_now(&plain, 0.0, 500.0, Placement::First).is_ok());
    assert_eq!(m.earliest(&plain, 0.0, 500.0), Some(0.0));
    assert_eq!(m.searches(), searched + 1);
    let big = cores(&mut m, 48, 1);
    m.reserve(JobId(9), &big, 150.0, 20.0).unwrap();
    assert!(m.core_limits(0.0).is_some(), "counts decide");
    // Half of the power of one rack: the other one has all of it.
    m.unreserve(JobId(9));
    assert_eq!(m.match_now(&io, 200.0, 300.0, Placement::First).map(drop), Ok(()));
    m.put_window(WindowId(1), &ids(""), window(0.0, 200.0, "power/rack0", 6000)).unwrap();
    let (some, much) = (ask(&mut m, "power", 6), ask(&mut m, "power", 7));
    for (id, rank) in [(1, "rank0"), (2, "rank6"), (3, "rank6")] {
        let r = start(&mut m, id, &some, 0.0, 50.0, Placement::First).unwrap();
        assert!(r.starts_with(rank) || id == 3, "{r}");
    }
    assert_eq!(m.match_now(&some, 0.0, 50.0, Placement::First), Err(NoFit::Window(WindowId(1), 0.0)));
    assert_eq!(m.earliest(&much, 0.0, 10.0), Some(50.0), "on the other rack");
    assert!(m.remove_window(WindowId(1)));
    assert!(m.match_now(&some, 0.0, 50.0, Placement::First).is_ok());
}

/// FEAT-11: pools by path and by type, and what is no pool and no amount.
#[test]
fn feat_11_pools_are_named_and_their_amounts_checked() {
    let m = machine();
    for (pool, text, units) in [
        ("io/pfs", "3", 3 * GB),
        ("io", "25%", 5 * GB / 2),
        ("power/rack1", "500W", 500),
        ("power/rack1", "12 kW", 12_000),
        ("power/rack0", "100%", 12_000),
    ] {
        assert_eq!(m.pool_units(pool, text), Ok(units), "{pool} {text}");
    }
    for pool in ["power", "power/rack7", "io/", "scratch", "/cluster0", "node", ""] {
        assert_eq!(m.pool_units(pool, "all"), Err(PoolError::Unknown(pool.to_owned())));
    }
    for text in ["0", "13", "13kW", "-1", "much", "101%", "", "5GB", "0%", "18446744073709551615"] {
        let why = m.pool_units("power/rack0", text).unwrap_err().to_string();
        assert!(why.contains(&format!("pool power/rack0: found {text:?}")) && why.contains("12 kW"), "{why}");
    }
    assert_eq!(m.said_of_pool("power/rack0", 2500), "2500 W");
    let mut m = Rabbits::default().machine();
    assert_eq!(m.pool_units("/site/chassis0/ssd1", "50%"), Ok(50));
    assert_eq!(m.pool_units("/site/chassis0/ssd1", "10GiB"), Ok(10));
    for pool in ["/site/chassis0", "/site/n4", "ssd"] {
        assert_eq!(m.pool_units(pool, "all"), Err(PoolError::Unknown(pool.to_owned())), "{pool}");
    }
    // All storage of a chassis: jobs go to the other one.
    for ssd in 0..3 {
        let terms = window(0.0, 100.0, &format!("/site/chassis0/ssd{ssd}"), 100);
        m.put_window(WindowId(ssd), &ids(""), terms).unwrap();
    }
    let one = site::ask(&mut m, &beside(1, 10));
    assert_eq!(start(&mut m, 1, &one, 0.0, 50.0, Placement::First).unwrap(), "rank2/core[0-3]");
}

#[derive(Debug, Clone)]
enum Step {
    Start { amount: u32, duration: u32 },
    Window { id: u32, after: u32, long: u32, units: u32 },
    Remove(u32),
    Release(usize),
    Wait(u32),
    Reserve { amount: u32, duration: u32 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1..8u32, 1..30u32).prop_map(|(amount, duration)| Step::Start { amount, duration }),
        3 => (0..3u32, 0..30u32, 1..25u32, 1..=10u32)
            .prop_map(|(id, after, long, units)| Step::Window { id, after, long, units }),
        1 => (0..3u32).prop_map(Step::Remove),
        2 => (0..8usize).prop_map(Step::Release),
        3 => (1..12u32).prop_map(Step::Wait),
        1 => (1..8u32, 1..30u32).prop_map(|(amount, duration)| Step::Reserve { amount, duration }),
    ]
}

/// Units that jobs hold, with their ends, and units that windows keep, with their spans.
#[derive(Debug, Default)]
struct Model {
    held: BTreeMap<u64, (u64, f64)>,
    kept: BTreeMap<u32, (f64, f64, u64)>,
}

impl Model {
    /// At every time of the span this amount is there, beside the units that are kept and held then.
    fn fits(&self, amount: u64, now: f64, (at, end): (f64, f64)) -> bool {
        let after = |end: f64| if end > now { end } else { now.next_up() };
        let used = |time: f64| -> u64 {
            let held = self.held.values().filter(|(_, end)| after(*end) > time).map(|(units, _)| units);
            let then = self.kept.values().filter(|(from, to, _)| *from <= time && time < *to);
            held.chain(then.map(|(.., units)| units)).sum()
        };
        let mut times = vec![at];
        times.extend(self.kept.values().map(|(from, ..)| *from).filter(|from| *from > at && *from < end));
        times.into_iter().all(|time| used(time) + amount <= 10)
    }

    fn earliest(&self, amount: u64, now: f64, duration: f64) -> Option<f64> {
        let after = |end: f64| if end > now { end } else { now.next_up() };
        let mut times: Vec<f64> = self.held.values().map(|(_, end)| after(*end)).collect();
        times.extend(self.kept.values().flat_map(|(from, to, _)| [*from, *to]).filter(|time| *time > now));
        times.push(now);
        times.sort_by(f64::total_cmp);
        times.into_iter().find(|at| self.fits(amount, now, (*at, at + duration)))
    }
}

proptest! {
    #![proptest_config(config(300))]

    /// FEAT-11: a start is admitted if and only if the pool has, at every time of its span, the units that it asks for beside all that
    /// is kept then; the earliest start is the first time at which that is so; a reserved start is kept.
    #[test]
    fn feat_11_amounts_over_time(steps in proptest::collection::vec(step(), 1..40), promised in any::<bool>()) {
        let (mut m, mut model, mut now, mut next) = (machine(), Model::default(), 0.0, 1);
        let mut reserved: Option<(JobId, f64, f64, u32)> = None;
        for step in steps {
            match step {
                Step::Start { amount, duration } => {
                    let request = ask(&mut m, "io", amount);
                    let end = now + f64::from(duration);
                    let expected = model.fits(amount.into(), now, (now, end)) && model.held.len() < 48;
                    if reserved.is_none() {
                        let earliest = model.earliest(amount.into(), now, f64::from(duration));
                        prop_assert_eq!(m.earliest(&request, now, f64::from(duration)), earliest);
                    }
                    let found = start(&mut m, next, &request, now, end, Placement::First);
                    prop_assert!(found.is_err() || expected, "{model:?}");
                    prop_assert!(reserved.is_some() || found.is_ok() == expected, "{model:?}");
                    if found.is_ok() {
                        model.held.insert(next, (amount.into(), end));
                    }
                    next += 1;
                }
                Step::Window { id, after, long, units } => {
                    let from = now + f64::from(after);
                    let end = from + f64::from(long);
                    if let Some((id, ..)) = reserved.take() {
                        m.unreserve(id);
                    }
                    m.put_window(WindowId(id), &ids(""), window(from, end, "io", u64::from(units) * GB)).unwrap();
                    model.kept.insert(id, (from, end, units.into()));
                }
                Step::Remove(id) => {
                    prop_assert_eq!(m.remove_window(WindowId(id)), model.kept.remove(&id).is_some());
                }
                Step::Release(nth) => {
                    if let Some(id) = model.held.keys().nth(nth).copied() {
                        model.held.remove(&id);
                        m.release(JobId(id), None).unwrap();
                    }
                }
                Step::Wait(seconds) => {
                    let then = now + f64::from(seconds);
                    // At the reserved start, jobs that overstay would be in its way.
                    now = if reserved.as_ref().is_some_and(|(_, start, ..)| *start <= then) { now } else { then };
                }
                Step::Reserve { amount, duration } if promised && reserved.is_none() => {
                    let request = ask(&mut m, "io", amount);
                    if let Some(at) = m.earliest(&request, now, f64::from(duration)) {
                        m.reserve(JobId(5000 + next), &request, at, f64::from(duration)).unwrap();
                        reserved = Some((JobId(5000 + next), at, f64::from(duration), amount));
                        next += 1;
                    }
                }
                Step::Reserve { .. } => {}
            }
        }
        if let Some((id, at, duration, amount)) = reserved {
            let over: Vec<u64> = model.held.iter().filter(|(_, (_, end))| *end <= at).map(|(id, _)| *id).collect();
            over.into_iter().for_each(|id| drop(m.release(JobId(id), None)));
            m.unreserve(id);
            let request = ask(&mut m, "io", amount);
            let found = m.match_now(&request, at, at + duration, Placement::First);
            prop_assert!(found.is_ok(), "{found:?} {amount} at {at} for {duration}: {model:?}");
        }
    }
}
