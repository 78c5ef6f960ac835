//! Windows against a slow model that is obviously right: a list of nodes with their jobs and ends, and the rule of the gate
//! (FEAT-6) node by node.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::{
    Access, OCCURRENCES_MAX, Rights, Sharing, WINDOWS_MAX, WindowError, WindowId, WindowSpan, WindowTerms,
};

/// The kinds of steps.
#[derive(Debug, Clone)]
enum Step {
    Start {
        nodes: u32,
        duration: u32,
        access: Option<(u8, u32)>,
        cores: bool,
    },
    Release(usize),
    Wait(u32),
    Window {
        id: u32,
        after: u32,
        long: u32,
        margin: u32,
        overrun: u32,
        nodes: u8,
        every: u32,
        times: u32,
        sharing: u8,
        float: Option<u32>,
    },
    Remove(u32),
    Reserve {
        nodes: u32,
        duration: u32,
        access: Option<(u8, u32)>,
    },
}

fn access() -> impl Strategy<Value = Option<(u8, u32)>> {
    proptest::option::of((0..3u8, 0..3u32))
}

fn step() -> impl Strategy<Value = Step> {
    // Windows of all nodes leave plans in counts.
    let nodes = prop_oneof![any::<u8>(), Just(u8::MAX)];
    let floats = prop_oneof![3 => Just(None), 1 => (1..25u32).prop_map(Some)];
    prop_oneof![
        6 => (1..5u32, 1..30u32, access(), any::<bool>())
            .prop_map(|(nodes, duration, access, cores)| Step::Start { nodes, duration, access, cores }),
        2 => (0..8usize).prop_map(Step::Release),
        3 => (1..12u32).prop_map(Step::Wait),
        3 => (0..3u32, 0..30u32, 1..25u32, 0..4u32, (0..4u32, nodes), 25..40u32, 0..3u32, 0..3u8, floats)
            .prop_map(|(id, after, long, margin, (overrun, nodes), every, times, sharing, float)| {
                Step::Window { id, after, long, margin, overrun, nodes, every, times, sharing, float }
            }),
        1 => (0..3u32).prop_map(Step::Remove),
        2 => (1..5u32, 1..30u32, access())
            .prop_map(|(nodes, duration, access)| Step::Reserve { nodes, duration, access }),
    ]
}

fn plain(spans: Vec<WindowSpan>) -> WindowTerms {
    WindowTerms::new(spans, Sharing::Never)
}

fn access_of(access: Option<(u8, u32)>) -> Option<Access> {
    access.map(|(kind, id)| match kind {
        0 => Access::Only(WindowId(id)),
        1 => Access::Also(WindowId(id)),
        _ => Access::Free(WindowId(id)),
    })
}

/// The job on each node with its end, and the windows.
#[derive(Debug, Clone, Default)]
struct Model {
    nodes: u32,
    held: BTreeMap<u32, (u64, f64)>,
    windows: BTreeMap<u32, (Idset, Vec<WindowSpan>, Sharing, Option<f64>)>,
}

impl Model {
    /// FEAT-6 for one node: a request without access takes it for no span that meets a window of it; one with access takes only nodes of
    /// the window, inside of it. FEAT-25: inside of its own window it may take nodes that another window shares. FEAT-23: of a floating
    /// window it takes nodes for a bounded time.
    fn allows(&self, node: u32, access: Option<Access>, start: f64, end: f64) -> bool {
        let inside = |w: &WindowSpan| w.start <= start && end <= w.until;
        let of = access.and_then(|access| self.windows.get(&access.window().0));
        let own = of.filter(|(ranks, spans, ..)| ranks.contains(node) && spans.iter().any(inside));
        let others = self.windows.iter().all(|(id, (ranks, spans, sharing, float))| {
            let floats = |w: &WindowSpan| float.is_none_or(|float| w.start <= start && end - start > float);
            let met =
                ranks.contains(node) && spans.iter().any(|w| w.from < end && start < w.end && floats(w));
            let this = access.filter(|access| access.window() == WindowId(*id));
            let asked = |of: Sharing| of == Sharing::Asked;
            let never = |of: Sharing| of == Sharing::Never;
            let shared = own.is_some_and(|(_, _, of, _)| {
                (asked(*of) || asked(*sharing)) && !never(*of) && !never(*sharing)
            });
            !met || shared
                || this.is_some_and(|access| matches!(access, Access::Free(_)) || spans.iter().any(inside))
        });
        let own = match access {
            Some(Access::Only(_)) => own.is_some(),
            _ => true,
        };
        others && own
    }

    fn fits(&self, nodes: u32, access: Option<Access>, now: f64, at: f64, end: f64) -> bool {
        let after = |end: f64| if end > now { end } else { now.next_up() };
        let free = |node: &u32| self.held.get(node).is_none_or(|(_, end)| after(*end) <= at);
        let able = (0..self.nodes).filter(free).filter(|node| self.allows(*node, access, at, end));
        able.count() as u32 >= nodes
    }

    fn earliest(&self, nodes: u32, access: Option<Access>, now: f64, duration: f64) -> Option<f64> {
        let after = |end: f64| if end > now { end } else { now.next_up() };
        let mut times: Vec<f64> = self.held.values().map(|(_, end)| after(*end)).collect();
        times.extend(
            self.windows
                .values()
                .flat_map(|(_, all, ..)| all)
                .flat_map(|w| [w.start, w.end])
                .filter(|time| *time > now),
        );
        times.push(now);
        times.sort_by(f64::total_cmp);
        times.into_iter().find(|&at| self.fits(nodes, access, now, at, at + duration))
    }
}

/// A request for whole nodes, or for as many cores: nodes have one.
fn ask(m: &mut Resources, nodes: u32, cores: bool, access: Option<Access>) -> Arc<Request> {
    let request = if cores { super::cores(m, nodes, 1) } else { super::nodes(m, nodes) };
    m.with_rights(request, Rights::of(access))
}

struct World {
    m: Resources,
    model: Model,
    now: f64,
    next: u64,
}

impl World {
    fn new(nodes: u32) -> World {
        World { m: cluster(nodes, 1, 0), model: Model { nodes, ..Model::default() }, now: 0.0, next: 1 }
    }

    fn book(&mut self, request: &Request, access: Option<Access>, end: f64) -> Result<(), NoFit> {
        let found = self.m.match_now(request, self.now, end, Placement::First)?;
        let r = self.m.selection_to_r(&found, self.now, end);
        for rank in r.ranks().iter() {
            assert!(self.model.allows(rank, access, self.now, end), "rank {rank} from {} to {end}", self.now);
            assert_eq!(self.model.held.insert(rank, (self.next, end)), None);
        }
        self.m.allocate(JobId(self.next), &found, self.now, end).unwrap();
        self.next += 1;
        Ok(())
    }

    fn release(&mut self, id: u64) {
        self.model.held.retain(|_, (of, _)| *of != id);
        self.m.release(JobId(id), None).unwrap();
    }

    /// Puts a window into the calendar and the model. The calendar keeps ended windows, which the caller has to take away.
    fn window(&mut self, step: &Step) {
        let Step::Window { id, after, long, margin, overrun, nodes, every, times, sharing, float } = *step
        else {
            return;
        };
        let ranks: Idset = (0..self.model.nodes).filter(|node| nodes >> (node % 8) & 1 == 1).collect();
        let span = |n: u32| {
            let start = self.now + f64::from(after + n * every);
            let end = start + f64::from(long);
            WindowSpan { from: start - f64::from(margin), start, end, until: end + f64::from(overrun) }
        };
        let spans: Vec<WindowSpan> = (0..=times).map(span).collect();
        let sharing = [Sharing::Never, Sharing::IfAsked, Sharing::Asked][sharing as usize];
        let float = float.map(f64::from);
        let terms = WindowTerms { float, ..WindowTerms::new(spans.clone(), sharing) };
        self.m.put_window(WindowId(id), &ranks, terms).unwrap();
        self.model.windows.insert(id, (ranks, spans, sharing, float));
    }
}

fn run(nodes: u32, steps: &[Step]) {
    let mut world = World::new(nodes);
    for step in steps {
        match *step {
            Step::Start { nodes, duration, access, cores } => {
                let (access, duration) = (access_of(access), f64::from(duration));
                let request = ask(&mut world.m, nodes, cores, access);
                let (now, end) = (world.now, world.now + duration);
                let expected = world.model.fits(nodes, access, now, now, end);
                let earliest = world.model.earliest(nodes, access, now, duration);
                assert_eq!(world.m.estimate_from(&request, now, now, duration), earliest);
                assert_eq!(world.m.earliest(&request, now, duration), earliest, "{nodes} {access:?}");
                let found = world.book(&request, access, end);
                assert_eq!(found.is_ok(), expected, "{found:?} {nodes} {access:?} {now} {:?}", world.model);
                if let Err(NoFit::Window(_, latest)) = found {
                    // No end beyond this helps, and without windows it fits.
                    let ends = [latest.next_up(), end, end + 7.0].into_iter();
                    for end in ends.filter(|end| *end > latest && *end > now) {
                        assert!(!world.model.fits(nodes, access, now, now, end), "{latest}");
                    }
                }
            }
            Step::Release(job) => {
                let ids: std::collections::BTreeSet<u64> =
                    world.model.held.values().map(|(id, _)| *id).collect();
                if let Some(id) = ids.into_iter().nth(job) {
                    world.release(id);
                }
            }
            Step::Wait(seconds) => world.now += f64::from(seconds),
            Step::Window { .. } => world.window(step),
            Step::Remove(id) => {
                let there = world.model.windows.remove(&id).is_some();
                assert_eq!(world.m.remove_window(WindowId(id)), there);
            }
            Step::Reserve { .. } => {}
        }
    }
}

/// Reservations are made, and jobs started beside them. Then nothing else happens: every reservation can start on time.
///
/// With `asked`, other starts are asked for between a search and its reservation; then only the plan is looked at.
fn promise(nodes: u32, steps: &[Step], asked: bool) {
    let mut world = World::new(nodes);
    let mut reserved: BTreeMap<u64, (f64, f64, Arc<Request>, Option<Access>)> = BTreeMap::new();
    for step in steps {
        match *step {
            Step::Start { nodes, duration, access, cores } => {
                let access = access_of(access);
                let request = ask(&mut world.m, nodes, cores, access);
                let end = world.now + f64::from(duration);
                let _ = world.book(&request, access, end);
            }
            // A change of windows moves reserved starts, as the next pass would: here they are dropped.
            Step::Window { .. } => {
                reserved.keys().for_each(|id| assert!(world.m.unreserve(JobId(*id))));
                reserved.clear();
                world.window(step);
            }
            Step::Reserve { nodes, duration, access } => {
                let (access, duration) = (access_of(access), f64::from(duration));
                let request = ask(&mut world.m, nodes, false, access);
                if let Some(start) = world.m.earliest(&request, world.now, duration) {
                    if asked {
                        // The question is about a shorter job of the shape, whose place is another.
                        world.m.earliest(&request, world.now, 1.0);
                    }
                    let id = 5000 + world.next;
                    world.next += 1;
                    world.m.reserve(JobId(id), &request, start, duration).unwrap();
                    let World { m, .. } = &world;
                    assert!(m.planning.plan.as_ref().is_none_or(|plan| plan.is_in_step(&m.machine)));
                    reserved.insert(id, (start, duration, request, access));
                }
            }
            _ => {}
        }
    }
    if asked {
        return;
    }
    let mut order: Vec<_> = reserved.into_iter().collect();
    order.sort_by(|a, b| a.1.0.total_cmp(&b.1.0).then(a.0.cmp(&b.0)));
    for (id, (start, duration, request, access)) in order {
        let over: Vec<u64> =
            world.model.held.values().filter(|(_, end)| *end <= start).map(|(id, _)| *id).collect();
        for id in over.into_iter().collect::<std::collections::BTreeSet<_>>() {
            world.release(id);
        }
        world.now = start;
        assert!(world.m.unreserve(JobId(id)));
        let found = world.book(&request, access, start + duration);
        assert!(found.is_ok(), "{found:?}: job {id} was told {start}; {:?}", world.model);
    }
}

proptest! {
    #![proptest_config(config(400))]

    /// FEAT-6, FEAT-7: a start is admitted if and only if enough nodes are free that the rule allows, and the earliest start is
    /// the first moment at which that is so.
    #[test]
    fn feat_6_feat_7_feat_25_the_rule_of_the_gate(nodes in 1..7u32, steps in proptest::collection::vec(step(), 1..50)) {
        run(nodes, &steps);
    }

    /// FEAT-7: whatever `earliest` says can be started then if nothing else happens, beside other reservations and windows.
    #[test]
    fn feat_7_reserved_starts_are_kept_beside_windows(
        nodes in 1..7u32,
        steps in proptest::collection::vec(step(), 1..25),
    ) {
        promise(nodes, &steps, false);
    }

    /// A plan to which reservations were added is the one that is made anew, also if another start was asked for in between.
    #[test]
    fn feat_8_a_plan_with_reservations_added_is_the_one_made_anew(
        nodes in 1..7u32,
        steps in proptest::collection::vec(step(), 1..25),
    ) {
        promise(nodes, &steps, true);
    }
}

/// FEAT-8: a window that no job meets costs no search and changes no answer; plans stay in counts.
#[test]
fn feat_8_a_far_window_costs_nothing() {
    let answers = |window: bool| {
        let mut m = cluster(8, 4, 0);
        if window {
            let span = WindowSpan { from: 1e6, start: 1e6, end: 2e6, until: 2e6 };
            m.put_window(WindowId(1), &ids("0-7"), plain(vec![span])).unwrap();
        }
        let (half, all, one) = (cores(&mut m, 16, 1), cores(&mut m, 32, 1), cores(&mut m, 1, 1));
        start(&mut m, 1, &half, 0.0, 50.0, Placement::First).unwrap();
        let at = m.earliest(&all, 0.0, 100.0).unwrap();
        m.reserve(JobId(2), &all, at, 100.0).unwrap();
        let limits = m.core_limits(0.0);
        let short = m.match_now(&one, 0.0, 50.0, Placement::First).is_ok();
        let long = m.match_now(&one, 0.0, 51.0, Placement::First);
        (at, limits, short, long, m.earliest(&one, 0.0, 51.0), m.searches())
    };
    assert_eq!(answers(true), answers(false));
    assert!(answers(true).1.is_some(), "counts decide");
}

/// FEAT-8: windows of all nodes leave plans in counts, also where jobs meet them: they search no places, and have the
/// answers of windows of all nodes but one that is down, which search them.
#[test]
fn feat_8_windows_of_all_nodes_search_no_places() {
    let answers = |ranks: &str| {
        let mut m = cluster(9, 4, 0);
        m.set_down(&ids("8"));
        for week in 0..20 {
            let start = 100.0 + 1000.0 * f64::from(week);
            let span = WindowSpan { from: start, start, end: start + 300.0, until: start + 300.0 };
            m.put_window(WindowId(week), &ids(ranks), plain(vec![span])).unwrap();
        }
        let (half, all, one) = (cores(&mut m, 16, 1), cores(&mut m, 32, 1), cores(&mut m, 1, 1));
        start(&mut m, 1, &half, 0.0, 50.0, Placement::First).unwrap();
        let mut starts = Vec::new();
        for (job, (request, lasts)) in (2..).zip([
            (&all, 20.0),
            (&all, 60.0),
            (&one, 101.0),
            (&half, 700.0),
            (&all, 700.0),
            (&one, 500.0),
            (&one, f64::INFINITY),
            (&one, 30.0),
        ]) {
            let at = m.earliest(request, 0.0, lasts).unwrap();
            m.reserve(JobId(job), request, at, lasts).unwrap();
            starts.push(at);
        }
        let short = m.match_now(&one, 0.0, 50.0, Placement::First).is_ok();
        let long = m.match_now(&one, 0.0, 101.0, Placement::First);
        (starts, short, long, m.core_limits(0.0).is_some())
    };
    let (counted, searched) = (answers("0-8"), answers("0-7"));
    assert_eq!(counted.0, [50.0, 400.0, 460.0, 1400.0, 2400.0, 460.0, 19_400.0, 0.0]);
    assert_eq!((&counted.0, counted.1, &counted.2), (&searched.0, searched.1, &searched.2));
    assert_eq!(counted.2, Err(NoFit::Window(WindowId(0), 100.0)));
    assert!(counted.3, "counts decide");
}

/// FEAT-9: a shape that does not fit before a window is not searched again while time passes, until the window ends, moves,
/// or a shorter job of the shape asks.
#[test]
fn feat_9_time_passing_searches_nothing() {
    let mut m = cluster(4, 1, 0);
    let put = |m: &mut Resources, start: f64| {
        let span = WindowSpan { from: start, start, end: 1000.0, until: 1000.0 };
        m.put_window(WindowId(1), &ids("0-2"), plain(vec![span])).unwrap();
    };
    put(&mut m, 500.0);
    let two = nodes(&mut m, 2);
    let refused = Err(NoFit::Window(WindowId(1), 500.0));
    assert_eq!(m.match_now(&two, 0.0, 600.0, Placement::First), refused);
    let searched = m.searches();
    for now in 1..400 {
        let now = f64::from(now);
        assert_eq!(m.match_now(&two, now, now + 600.0, Placement::First), refused);
        assert_eq!(m.latest_beside_windows(&two, now), 500.0);
    }
    assert_eq!(m.searches(), searched, "time passing");
    assert!(m.match_now(&two, 400.0, 500.0, Placement::First).is_ok(), "a shorter one");
    put(&mut m, 900.0);
    assert!(m.match_now(&two, 200.0, 800.0, Placement::First).is_ok(), "the window moves");
    put(&mut m, 500.0);
    assert_eq!(m.match_now(&two, 400.0, 700.0, Placement::First), refused);
    assert!(m.match_now(&two, 1000.0, 1700.0, Placement::First).is_ok(), "the window has ended");
}

/// FEAT-23: a known miss beside a floating window holds as time passes: the bound is a duration.
#[test]
fn feat_23_a_floating_window_bounds_durations() {
    let mut m = cluster(4, 1, 0);
    let span = WindowSpan { from: 10.0, start: 10.0, end: 1000.0, until: 1000.0 };
    let terms = WindowTerms { float: Some(60.0), ..plain(vec![span]) };
    m.put_window(WindowId(1), &ids("0-2"), terms).unwrap();
    let two = nodes(&mut m, 2);
    assert!(m.match_now(&two, 9.0, 5000.0, Placement::First).is_ok(), "before its start");
    assert_eq!(m.match_now(&two, 10.0, 71.0, Placement::First), Err(NoFit::Window(WindowId(1), 70.0)));
    let searched = m.searches();
    for now in 11..900 {
        let now = f64::from(now);
        assert_eq!(m.latest_beside_windows(&two, now), now + 60.0);
        let refused = Err(NoFit::Window(WindowId(1), now + 60.0));
        assert_eq!(m.match_now(&two, now, now + 61.0, Placement::First), refused);
    }
    assert_eq!(m.searches(), searched, "time passing");
    assert!(m.match_now(&two, 500.0, 560.0, Placement::First).is_ok(), "a short one");
    assert_eq!(m.earliest(&two, 500.0, 61.0), Some(1000.0));
    let one = nodes(&mut m, 1);
    assert!(m.match_now(&one, 500.0, 5000.0, Placement::First).is_ok(), "another node");
    assert!(m.match_now(&two, 1000.0, 5000.0, Placement::First).is_ok(), "after its end");
    for float in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let terms = WindowTerms { float: Some(float), ..plain(vec![span]) };
        assert_eq!(m.put_window(WindowId(2), &ids("0"), terms), Err(WindowError::Float));
    }
}

/// A window whose times are not in order is refused, and the calendar is bounded (FEAT-30).
#[test]
fn feat_30_windows_are_checked_and_bounded() {
    let mut m = cluster(1, 1, 0);
    let span = WindowSpan { from: 0.0, start: 1.0, end: 2.0, until: 2.0 };
    for wrong in [
        WindowSpan { from: 1.5, ..span },
        WindowSpan { end: 1.0, ..span },
        WindowSpan { until: 1.5, ..span },
        WindowSpan { end: f64::INFINITY, until: f64::INFINITY, ..span },
        WindowSpan { from: f64::NAN, ..span },
    ] {
        assert_eq!(m.put_window(WindowId(0), &ids("0"), plain(vec![span, wrong])), Err(WindowError::Times));
    }
    for id in 0..WINDOWS_MAX as u32 {
        m.put_window(WindowId(id), &ids("0"), plain(vec![span])).unwrap();
    }
    assert_eq!(m.put_window(WindowId(u32::MAX), &ids("0"), plain(vec![span])), Err(WindowError::TooMany));
    assert_eq!(m.put_window(WindowId(7), &ids("0"), plain(vec![span])), Ok(()), "in the place of another");
    let often = vec![span; OCCURRENCES_MAX + 1];
    assert_eq!(m.put_window(WindowId(7), &ids("0"), plain(often)), Err(WindowError::TooOften));
}
