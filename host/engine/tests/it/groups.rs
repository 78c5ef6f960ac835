//! Candidates by group: a pass that compares the first jobs of the groups starts the jobs of a pass that compares all.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use fluxgate_engine::{Config, Engine, Event, GroupChanges, JobView, Pass, PolicyError, Refusal};
use fluxgate_formats::jobspec::Simple;
use fluxgate_formats::{JobId, Jobspec};
use proptest::prelude::*;

use crate::common::*;

/// The position of a job: a score that grows with age up to a bound, and differs by user, priority and size; larger
/// first. Ties are in Flux's own order. The weights of users change with time.
type Place = (std::cmp::Reverse<i64>, std::cmp::Reverse<u32>, i64, JobId);

fn place(now: f64, by_cores: bool, job: &JobView) -> Place {
    let age = ((now - job.t_submit) / 7.0).clamp(0.0, 5.0).round() as i64;
    let user = (now as i64 / 11 + i64::from(job.userid) * 3) % 7;
    let size = if by_cores { i64::from(job.cores % 5) } else { 0 };
    let score = age + user + size + i64::from(job.priority) % 4;
    (std::cmp::Reverse(score), std::cmp::Reverse(job.priority), job.t_submit as i64, job.id)
}

/// Starts jobs in order, makes `depth` reservations, and returns the jobs behind them.
fn heads(
    pass: &mut Pass,
    depth: usize,
    mut next: impl FnMut(&mut Pass) -> Result<Option<u32>, PolicyError>,
) -> Result<(), PolicyError> {
    let mut reserved = 0;
    while reserved < depth
        && let Some(c) = next(pass)?
    {
        let refused = matches!(pass.start(c, None)?, Err(Refusal::Busy | Refusal::DelaysReservation));
        if refused && pass.reserve(c)?.is_ok() {
            reserved += 1;
        }
    }
    Ok(())
}

/// The pass that compares all jobs.
fn every_job(pass: &mut Pass, depth: usize, by_cores: bool) -> Result<(), PolicyError> {
    let mut all = BTreeMap::new();
    while let Some(c) = pass.next() {
        all.insert(place(pass.now(), by_cores, &pass.describe(c)?), c);
    }
    let mut all = all.into_values();
    heads(pass, depth, |_| Ok(all.next()))?;
    for c in all {
        let _ = pass.start(c, None)?;
    }
    Ok(())
}

fn put(
    pass: &mut Pass,
    by_cores: bool,
    into: &mut BTreeMap<Place, u32>,
    c: Option<u32>,
) -> Result<(), PolicyError> {
    if let Some(c) = c {
        into.insert(place(pass.now(), by_cores, &pass.describe(c)?), c);
    }
    Ok(())
}

/// The first candidates of all groups, asked for few at a time.
fn first(pass: &mut Pass, by_cores: bool, fitting: bool) -> Result<BTreeMap<Place, u32>, PolicyError> {
    let (mut all, mut after) = (BTreeMap::new(), None);
    loop {
        let some = pass.group_heads(by_cores, fitting, after, 3)?;
        for c in &some {
            put(pass, by_cores, &mut all, Some(*c))?;
        }
        if some.len() < 3 {
            return Ok(all);
        }
        after = some.last().copied();
    }
}

/// The first part of a pass over the first jobs of groups. Returns its last job, behind which nothing was asked for.
fn first_in_turn(
    pass: &mut Pass,
    depth: usize,
    by_cores: bool,
    all: &mut BTreeMap<Place, u32>,
) -> Result<Option<u32>, PolicyError> {
    let mut last: Option<u32> = None;
    heads(pass, depth, |pass| {
        if let Some(c) = last.take() {
            let behind = pass.next_in_group(c, false)?;
            put(pass, by_cores, all, behind)?;
        }
        last = all.pop_first().map(|(_, c)| c);
        Ok(last)
    })?;
    Ok(last)
}

/// The part behind the reservations.
fn rest_in_turn(pass: &mut Pass, by_cores: bool, all: &mut BTreeMap<Place, u32>) -> Result<(), PolicyError> {
    while let Some((_, c)) = all.pop_first() {
        let _ = pass.start(c, None)?;
        let behind = pass.next_in_group(c, true)?;
        put(pass, by_cores, all, behind)?;
    }
    Ok(())
}

/// The pass that compares the first jobs of the groups.
fn by_groups(pass: &mut Pass, depth: usize, by_cores: bool) -> Result<(), PolicyError> {
    let mut all = first(pass, by_cores, false)?;
    first_in_turn(pass, depth, by_cores, &mut all)?;
    let mut fitting = first(pass, by_cores, true)?;
    rest_in_turn(pass, by_cores, &mut fitting)
}

/// The first candidates of groups, by number, as a policy keeps them.
type Kept = BTreeMap<u32, (u32, JobView)>;

/// The changes since the last pass, asked for few at a time.
fn keep(pass: &mut Pass, by_cores: bool, kept: &mut Kept) -> Result<(), PolicyError> {
    for most in 2.. {
        let GroupChanges { all, heads } = pass.changed_heads(by_cores, most)?;
        if all {
            kept.clear();
        }
        let last = heads.len() < most;
        for head in heads {
            match head.first {
                Some(first) => kept.insert(head.group, first),
                None => kept.remove(&head.group),
            };
        }
        if last {
            break;
        }
    }
    Ok(())
}

/// As [`by_groups`], with the first jobs of groups that are kept from pass to pass; `anew` if each pass is told of all.
fn by_changes(
    pass: &mut Pass,
    depth: usize,
    (by_cores, anew): (bool, bool),
    kept: &mut Kept,
) -> Result<(), PolicyError> {
    // Some passes ask for other groups, or do not ask for changes.
    let time = pass.now() as u64;
    if time.is_multiple_of(5) {
        return by_groups(pass, depth, by_cores);
    }
    let rule = by_cores || time.is_multiple_of(7);
    if anew {
        // Another rule makes the index anew.
        pass.group_heads(!rule, false, None, 0)?;
    }
    keep(pass, rule, kept)?;
    let now = pass.now();
    let mut all: BTreeMap<Place, u32> =
        kept.values().map(|(c, job)| (place(now, by_cores, job), *c)).collect();
    let last = first_in_turn(pass, depth, by_cores, &mut all)?;
    let behind = last.map(|c| pass.next_in_group(c, true)).transpose()?.flatten();
    put(pass, by_cores, &mut all, behind)?;
    rest_in_turn(pass, by_cores, &mut all)
}

#[derive(Debug, Clone)]
enum Op {
    /// A number of cores, or of nodes above 20, seconds (0 is no limit), user and priority.
    Submit(u32, u16, u32, u32),
    End(usize),
    Cancel(usize),
    Prioritize(usize, u32),
    Later(u16),
    Node(u32, bool),
}

fn op() -> impl Strategy<Value = Op> {
    let priority = || prop_oneof![6 => 14..18u32, 1 => Just(u32::MAX)];
    let duration = prop_oneof![9 => 1..400u16, 1 => Just(0), 2 => Just(60)];
    prop_oneof![
        6 => (1..26u32, duration, 0..3u32, priority()).prop_map(|(n, d, u, p)| Op::Submit(n, d, u, p)),
        4 => (0..30usize).prop_map(Op::End),
        1 => (0..30usize).prop_map(Op::Cancel),
        1 => (0..30usize, priority()).prop_map(|(n, p)| Op::Prioritize(n, p)),
        3 => (1..90u16).prop_map(Op::Later),
        1 => (0..6u32, any::<bool>()).prop_map(|(n, up)| Op::Node(n, up)),
    ]
}

fn asking(n: u32, duration: f64) -> Arc<Jobspec> {
    match n {
        21.. => {
            let n = n - 20;
            let simple = Simple { nodes: Some(n), slots: n, exclusive: true, duration, ..Simple::default() };
            Arc::new(simple.build())
        }
        _ => cores(n, duration),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_pass_by_groups_starts_the_jobs_of_a_pass_over_all_jobs(
        by_cores: bool,
        ceiling: bool,
        depth in 1..4usize,
        ops in prop::collection::vec(op(), 1..120),
    ) {
        let every = Script::named("every").run(move |pass| every_job(pass, depth, by_cores));
        let groups = Script::named("groups").run(move |pass| by_groups(pass, depth, by_cores));
        let script = |anew: bool| {
            let mut kept = Kept::new();
            Script::named("changes").run(move |pass| by_changes(pass, depth, (by_cores, anew), &mut kept))
        };
        let (mut every, mut groups) = (Side::of(every, ceiling), Side::of(groups, ceiling));
        let mut changes = Side::of(script(false), ceiling);
        let mut anew = Side::of(script(true), ceiling);
        let (mut now, mut next) = (1.0, 1);
        for op in ops {
            let waits = |side: &Side, at: usize| JobId(side.waiting[at % side.waiting.len()]);
            let event = match op {
                Op::Submit(n, duration, userid, priority) => {
                    next += 1;
                    every.waiting.push(next);
                    groups.waiting.push(next);
                    changes.waiting.push(next);
                    anew.waiting.push(next);
                    // Three jobs are submitted at one time.
                    let t_submit = (next / 3) as f64;
                    Event::Alloc { id: JobId(next), priority, userid, t_submit, jobspec: asking(n, f64::from(duration)) }
                }
                Op::End(at) if !every.running.is_empty() => {
                    let at = at % every.running.len();
                    groups.running.remove(at);
                    changes.running.remove(at);
                    anew.running.remove(at);
                    free(every.running.remove(at))
                }
                Op::Cancel(at) if !every.waiting.is_empty() => {
                    let id = waits(&every, at);
                    every.waiting.retain(|other| *other != id.0);
                    groups.waiting.retain(|other| *other != id.0);
                    changes.waiting.retain(|other| *other != id.0);
                    anew.waiting.retain(|other| *other != id.0);
                    Event::Cancel { id }
                }
                Op::Prioritize(at, priority) if !every.waiting.is_empty() => {
                    Event::Prioritize { jobs: vec![(waits(&every, at), priority)] }
                }
                Op::Node(n, up) => {
                    let node = n.to_string().parse().unwrap();
                    if up { Event::Up(node) } else { Event::Down(node) }
                }
                Op::Later(by) => {
                    now += f64::from(by);
                    Event::Up("0".parse().unwrap())
                }
                _ => continue,
            };
            let starts = every.step(event.clone(), now);
            prop_assert_eq!(groups.step(event.clone(), now), starts.clone());
            prop_assert_eq!(changes.step(event.clone(), now), starts.clone());
            prop_assert_eq!(anew.step(event, now), starts);
            prop_assert_eq!(format!("{:?}", &changes.told), format!("{:?}", &anew.told), "the same annotations");
        }
    }
}

#[test]
fn the_next_of_a_group_needs_groups_that_were_asked_for_in_this_pass() {
    let mut engine = engine(1, 4);
    let mut first = true;
    let script = Script::named("stray").run(move |pass| {
        if std::mem::take(&mut first) {
            pass.group_heads(false, false, None, 8)?;
            return Ok(());
        }
        let Some(c) = pass.next() else { return Ok(()) };
        pass.next_in_group(c, false).map(drop)
    });
    install(&mut engine, script, 0.0);
    submit(&mut engine, 0.0, vec![(1, cores(1, 10.0))]);
    assert_eq!(engine.stats().policy_failures, 0);
    // The built-in policy makes the pass of the one that failed.
    submit(&mut engine, 1.0, vec![(2, cores(1, 10.0))]);
    assert_eq!(engine.stats().policy_failures, 1);
}

/// Submits a job of each of these users, the first id being `from`, in an instant.
fn submit_of(engine: &mut Engine, from: u64, users: std::ops::Range<u32>) {
    let job = |(id, userid)| Event::Alloc {
        id: JobId(id),
        priority: 16,
        userid,
        t_submit: 0.0,
        jobspec: cores(4, 10.0),
    };
    (from..).zip(users).map(job).for_each(|event| drop(engine.step(event, 1.0)));
    engine.pass(1.0);
}

/// A policy that starts nothing, and notes the changes of each of its passes.
fn noting(noted: &Arc<Mutex<Vec<GroupChanges>>>) -> Script {
    let noted = Arc::clone(noted);
    Script::named("noting").run(move |pass| {
        noted.lock().unwrap().push(pass.changed_heads(false, 8)?);
        assert_eq!(pass.changed_heads(false, 8)?, GroupChanges::default(), "all was told");
        Ok(())
    })
}

#[test]
fn a_policy_is_told_of_all_groups_once_and_of_changes_then() {
    let noted = Arc::default();
    let mut engine = engine(1, 4);
    install(&mut engine, noting(&noted), 0.0);
    submit_of(&mut engine, 1, 0..3);
    submit_of(&mut engine, 4, 2..4);
    engine.step(Event::Cancel { id: JobId(1) }, 2.0);
    engine.step(Event::Prioritize { jobs: vec![(JobId(2), 17)] }, 2.0);
    engine.pass(2.0);
    let told = |changes: &GroupChanges| {
        let heads: Vec<(u32, Option<u64>)> =
            changes.heads.iter().map(|head| (head.group, head.first.map(|(_, job)| job.id.0))).collect();
        (changes.all, heads)
    };
    let rest = [
        (true, vec![(0, Some(1)), (1, Some(2)), (2, Some(3))]),
        (false, vec![(3, Some(5))]),
        // User 1 has a group of another priority, which has the number of the one before.
        (false, vec![(0, None), (1, Some(2))]),
    ];
    let mut noted_so_far = std::mem::take(&mut *noted.lock().unwrap());
    noted_so_far.retain(|changes| *changes != GroupChanges { all: true, heads: Vec::new() });
    assert_eq!(noted_so_far.iter().map(told).collect::<Vec<_>>(), rest);
    // Another policy knows nothing of what the one before it was told.
    install(&mut engine, noting(&noted), 3.0);
    submit_of(&mut engine, 6, 0..1);
    let after = noted.lock().unwrap().clone();
    assert_eq!(after.iter().map(|changes| changes.all).collect::<Vec<_>>(), [true, false]);
    assert_eq!((after[0].heads.len(), after[1].heads.len()), (3, 1));
}

#[test]
fn changes_of_groups_after_a_decision_are_a_breach() {
    let mut engine = engine(1, 4);
    let script = Script::named("late").run(|pass| {
        if let Some(c) = pass.next() {
            let _ = pass.start(c, None)?;
        }
        pass.changed_heads(false, 8).map(drop)
    });
    install(&mut engine, script, 0.0);
    submit(&mut engine, 0.0, vec![(1, cores(1, 10.0))]);
    assert_eq!(engine.stats().policy_failures, 1);
}

#[test]
fn an_answer_of_groups_that_a_bound_cut_short_is_given_again() {
    let noted: Arc<Mutex<Vec<GroupChanges>>> = Arc::default();
    let config = Config { candidates_per_pass_max: 2, ..Config::default() };
    let mut engine = Engine::new(machine(1, 4), config);
    let script = {
        let noted = Arc::clone(&noted);
        Script::named("bounded").run(move |pass| {
            noted.lock().unwrap().push(pass.changed_heads(false, 8)?);
            Ok(())
        })
    };
    install(&mut engine, script, 0.0);
    submit_of(&mut engine, 1, 0..5);
    let told = noted.lock().unwrap().last().cloned().unwrap();
    assert_eq!((told.all, told.heads.len()), (true, 2));
    submit_of(&mut engine, 6, 0..1);
    let told = noted.lock().unwrap().last().cloned().unwrap();
    assert_eq!(
        (told.all, told.heads.len()),
        (true, 2),
        "the first answer was not complete, so it does not count"
    );
}
