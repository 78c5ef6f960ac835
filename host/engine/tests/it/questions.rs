//! Questions of people: answers do not contradict each other, and they are true. A named obstacle is one, and a job that is
//! said to start at once does.

use std::sync::Arc;

use fluxgate_engine::{
    About, Engine, Event, GapQuestion, Obstacle, Pass, Policy, PolicyError, Questions, Reason, Refusal,
    Source,
};
use fluxgate_formats::constraint::Constraint;
use fluxgate_formats::jobspec::{Jobspec, Simple};
use fluxgate_formats::{Idset, JobId};
use proptest::prelude::*;

use crate::common::*;
use crate::windows::window;

const ALL: About<'static> = About { jobs_max: 1024, job: None, queues: &[""], trials: true };

/// Every job has a reservation.
fn conservative(pass: &mut Pass) -> Result<(), PolicyError> {
    while let Some(candidate) = pass.next() {
        if let Err(Refusal::Busy | Refusal::DelaysReservation) = pass.start(candidate, None)? {
            let _ = pass.reserve(candidate)?;
        }
    }
    Ok(())
}

/// The last two can be run on a copy.
const POLICIES: [&str; 5] = ["fcfs", "easy", "conservative", "easy-again", "sjf"];

fn shortest() -> Script {
    Script::named("sjf").keys(|jobs| Ok(jobs.duration.clone())).again(shortest)
}

fn easy_again() -> Script {
    Script::named("easy").run(easy).again(easy_again)
}

fn policy(name: &str) -> Script {
    match name {
        "fcfs" => Script::named(name).run(fcfs),
        "easy" => Script::named(name).run(easy),
        "easy-again" => easy_again(),
        "sjf" => shortest(),
        _ => Script::named(name).run(conservative),
    }
}

#[derive(Debug, Clone)]
enum Step {
    /// Slots or, if whole, nodes; tens of seconds.
    Submit {
        count: u32,
        tens: u32,
        whole: bool,
    },
    Free(usize),
    Cancel(usize),
    Down(u32),
    Up(u32),
    Later(u32),
    /// Maintenance: number, tens of seconds from now, tens of seconds, ranks by bit.
    Window(u8, u32, u32, u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (1u32..9, 0u32..12, any::<bool>())
            .prop_map(|(count, tens, whole)| Step::Submit { count, tens, whole }),
        3 => (0usize..8).prop_map(Step::Free),
        1 => (0usize..8).prop_map(Step::Cancel),
        1 => (0u32..4).prop_map(Step::Down),
        1 => (0u32..4).prop_map(Step::Up),
        2 => (1u32..30).prop_map(Step::Later),
        1 => (0u8..3, 0u32..12, 1u32..12, 1u8..16).prop_map(|(n, after, long, on)| Step::Window(n, after, long, on)),
    ]
}

const NODES: u32 = 4;
const CORES: u32 = 4;

fn spec(count: u32, tens: u32, whole: bool) -> Arc<Jobspec> {
    let duration = 10.0 * f64::from(tens);
    let command = vec!["app".to_owned()];
    Arc::new(match whole {
        true => {
            let nodes = count.min(NODES);
            Simple {
                nodes: Some(nodes),
                slots: nodes,
                exclusive: true,
                duration,
                command,
                ..Simple::default()
            }
            .build()
        }
        false => Simple { slots: count, duration, command, ..Simple::default() }.build(),
    })
}

/// A world: an engine after these steps, each with its pass, and the time.
struct World {
    engine: Engine,
    now: f64,
    next: u64,
    specs: Vec<Arc<Jobspec>>,
}

fn world(by: &str, steps: &[Step]) -> World {
    let mut world = World { engine: engine(NODES, CORES), now: 0.0, next: 1, specs: Vec::new() };
    install(&mut world.engine, policy(by), 0.0);
    for step in steps {
        world.take(step);
    }
    world
}

impl World {
    fn take(&mut self, step: &Step) {
        let running: Vec<JobId> = self.engine.running_ids().collect();
        let pending: Vec<JobId> = self.engine.pending_ids().collect();
        let event = match step {
            Step::Submit { count, tens, whole } => {
                self.specs.push(spec(*count, *tens, *whole));
                self.next += 1;
                Some(alloc(self.next - 1, Arc::clone(&self.specs[self.specs.len() - 1])))
            }
            Step::Free(at) => running.get(*at % running.len().max(1)).map(|id| free(id.0)),
            Step::Cancel(at) => pending.get(*at % pending.len().max(1)).map(|id| Event::Cancel { id: *id }),
            Step::Down(rank) => Some(Event::Down(Idset::from(*rank))),
            Step::Up(rank) => Some(Event::Up(Idset::from(*rank))),
            Step::Later(seconds) => {
                self.now += f64::from(*seconds);
                None
            }
            Step::Window(n, after, long, on) => {
                let start = self.now + 10.0 * f64::from(*after);
                let ranks = (0..NODES).filter(|rank| on >> rank & 1 == 1).collect();
                let times = (start, start + 10.0 * f64::from(*long));
                Some(Event::PutWindow(Box::new(window(&format!("w{n}"), times, ranks))))
            }
        };
        if let Some(event) = event {
            self.engine.step(event, self.now);
        }
        self.engine.pass(self.now);
    }

    fn questions(&self) -> Questions {
        self.engine.questions(self.now, &ALL)
    }

    fn starts(&mut self, id: JobId) -> bool {
        let out = self.engine.pass(self.now);
        started(&out).contains(&id.0)
    }

    /// A new job: does it start at the pass that its submission causes?
    fn starts_at_once(&mut self, spec: &Arc<Jobspec>) -> bool {
        let id = self.next;
        self.engine.step(alloc(id, Arc::clone(spec)), self.now);
        self.starts(JobId(id))
    }

    /// Takes an obstacle of a job away.
    fn remove(&mut self, of: JobId, obstacle: &Obstacle) {
        let now = self.now;
        match obstacle {
            Obstacle::Down(ranks) => drop(self.engine.step(Event::Up(ranks.clone()), now)),
            Obstacle::InUse { jobs, .. } => {
                jobs.iter().for_each(|id| drop(self.engine.step(free(id.0), now)));
            }
            Obstacle::Reserved { jobs, .. } => {
                jobs.iter().for_each(|(id, _)| drop(self.engine.step(Event::Cancel { id: *id }, now)));
            }
            Obstacle::Ahead(count) => {
                let rows = self.questions().rows(None);
                let ahead: Vec<JobId> = rows.iter().map(|row| row.id).take_while(|id| *id != of).collect();
                assert_eq!(ahead.len() as u64, *count);
                ahead.into_iter().for_each(|id| drop(self.engine.step(Event::Cancel { id }, now)));
            }
            Obstacle::Window(list) => list.iter().for_each(|(name, _)| {
                drop(self.engine.step(Event::RemoveWindow { name: name.to_string() }, now));
            }),
            other => panic!("{other:?}"),
        }
    }
}

fn id_of(step: &JobId) -> u64 {
    step.0
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    /// FEAT-72, FEAT-74, FEAT-77: reasons and times that different commands tell are the same, in any state.
    #[test]
    fn feat_72_74_77_answers_agree(steps in prop::collection::vec(step(), 1..40), by in 0usize..5) {
        let world = world(POLICIES[by], &steps);
        let mut questions = world.questions();
        let rows = questions.rows(None);
        prop_assert_eq!(rows.len(), world.engine.pending());
        for row in &rows {
            let alone = world.engine.explain(row.id, world.now).unwrap();
            let why = questions.explain(row.id).unwrap();
            prop_assert_eq!(&why.reason, &alone.reason);
            prop_assert_eq!(why.reason.as_ref(), Some(&row.reason));
            prop_assert_eq!(&why.obstacles, &alone.obstacles);
            prop_assert_eq!((why.ahead, why.expected), (row.ahead, Some(row.expected)));
            // The start that the engine annotated the job with is the start that is told.
            if let Some(told) = why.t_estimate.filter(|told| *told >= world.now) {
                prop_assert_eq!(row.expected.start, Some(told));
            }
            if let (Some(earliest), Some(start)) = (why.earliest, row.expected.start) {
                prop_assert!(world.now <= earliest && earliest <= start, "{why:?}");
            }
            // The reason is among the obstacles.
            let kinds: Vec<&str> = why.obstacles.iter().map(Obstacle::kind).collect();
            let fits = match &row.reason {
                Reason::Busy { .. } => kinds.contains(&"in-use") || kinds.contains(&"down"),
                Reason::Delays(id) => why.obstacles.iter().any(|obstacle| match obstacle {
                    Obstacle::Reserved { jobs, .. } => jobs.iter().any(|(of, _)| of == id),
                    _ => false,
                }),
                Reason::Behind => kinds == ["ahead"],
                Reason::Window(window) => why.obstacles.iter().any(|obstacle| match obstacle {
                    Obstacle::Window(list) => list.iter().any(|(of, _)| *of == window.name),
                    _ => false,
                }),
                Reason::Reserved => !kinds.is_empty(),
                _ => false,
            };
            prop_assert!(fits, "{row:?} {kinds:?}");
            prop_assert!(!why.text(world.now, &|id| id.to_string()).is_empty());
            // A job of the same kind behind all others is not expected to start before it. A reserved start is the latest.
            let spec = &world.specs[row.id.0 as usize - 1];
            let when = questions.when(spec, row.userid, None, &mut || false).unwrap();
            match (when.expected.start, row.expected.start) {
                (Some(new), Some(start)) => {
                    let latest = row.expected.source == Source::Reserved;
                    prop_assert!(latest || new >= start, "{when:?} {row:?}");
                }
                (Some(_), None) => prop_assert!(row.expected.source != Source::Forecast, "{when:?} {row:?}"),
                _ => {}
            }
            prop_assert_eq!(when.obstacles.is_empty(), when.expected.source == Source::Free);
            // In its own place it starts when it does.
            let same = questions.instead(row.id, spec, &mut || false).unwrap();
            prop_assert!(same.expected.source != Source::Free, "{same:?} {row:?}");
        }
        // No question left a trace.
        prop_assert_eq!(rows, questions.rows(None));
    }

    /// FEAT-74: without all that is named as being in the way the job starts.
    #[test]
    fn feat_74_without_its_obstacles_a_job_starts(
        steps in prop::collection::vec(step(), 1..30), by in 0usize..5,
    ) {
        let first = world(POLICIES[by], &steps);
        let ids: Vec<JobId> = first.engine.pending_ids().collect();
        for id in ids {
            let mut world = world(POLICIES[by], &steps);
            let obstacles = world.engine.explain(id, world.now).unwrap().obstacles;
            prop_assert!(!obstacles.is_empty());
            // The jobs ahead are counted before others go.
            for obstacle in obstacles.iter().rev() {
                world.remove(id, obstacle);
            }
            prop_assert!(world.starts(id), "{} {obstacles:?}", id_of(&id));
        }
    }

    /// FEAT-72, FEAT-73: every box and every `now` is held by starting it.
    #[test]
    fn feat_72_73_what_is_said_to_start_at_once_does(
        steps in prop::collection::vec(step(), 1..30), by in 0usize..5, asked in (1u32..9, 0u32..12, any::<bool>()),
    ) {
        let first = world(POLICIES[by], &steps);
        for cores in [false, true] {
            let question = GapQuestion { queue: String::new(), constraint: Constraint::All, cores };
            let gaps = first.questions().gaps(&question).unwrap();
            prop_assert_eq!(gaps.gaps.is_empty(), gaps.none.is_some());
            for gap in &gaps.gaps {
                let duration = if gap.duration.is_finite() { gap.duration } else { 0.0 };
                let command = vec!["gap".to_owned()];
                let spec = Arc::new(match cores {
                    true => Simple { slots: gap.cores as u32, duration, command, ..Simple::default() }.build(),
                    false => Simple {
                        nodes: Some(gap.nodes), slots: gap.nodes, exclusive: true, duration, command,
                        ..Simple::default()
                    }.build(),
                });
                prop_assert_eq!(gap.cores, u64::from(if cores { gap.cores as u32 } else { gap.nodes * CORES }));
                prop_assert!(world(POLICIES[by], &steps).starts_at_once(&spec), "{gap:?}");
            }
            let wide = gaps.gaps.windows(2).all(|w| w[0].cores > w[1].cores && w[0].duration < w[1].duration);
            prop_assert!(wide, "{gaps:?}");
        }
        let spec = spec(asked.0, asked.1, asked.2);
        let when = first.questions().when(&spec, 1, None, &mut || false).unwrap();
        let starts = world(POLICIES[by], &steps).starts_at_once(&spec);
        if when.expected.source == Source::Free {
            prop_assert!(starts, "{when:?}");
        } else if by >= 3 {
            prop_assert!(!starts, "{when:?}");
        }
        // FEAT-81: under the policy that decides, as if it were another one.
        if let Some(anew) = policy(POLICIES[by]).anew() {
            let under = first.questions().when_under(&spec, 1, None, &anew, &mut || false).unwrap();
            prop_assert_eq!(under.expected.source == Source::Free, starts, "{:?}", under);
            prop_assert_eq!(under.obstacles.is_empty(), starts);
            prop_assert!(starts || under.expected.start.is_none_or(|start| start >= first.now), "{under:?}");
        }
    }

    /// FEAT-75: each node once.
    #[test]
    fn feat_75_nodes_by_the_first_test_that_they_fail(steps in prop::collection::vec(step(), 1..30), by in 0usize..5) {
        let world = world(POLICIES[by], &steps);
        let questions = world.questions();
        for id in world.engine.pending_ids() {
            let tests = questions.node_tests(id).unwrap();
            let all = tests.iter().fold(Idset::new(), |all, (_, ranks)| all.union(ranks));
            let sum: usize = tests.iter().map(|(_, ranks)| ranks.len() as usize).sum();
            prop_assert_eq!((all.to_string(), sum), ("0-3".to_owned(), NODES as usize), "{:?}", tests);
        }
    }
}

#[test]
fn feat_74_the_reason_is_true_when_it_is_told_not_as_of_the_first_pass() {
    let mut engine = engine(1, 8);
    install(&mut engine, Script::named("easy").run(easy), 0.0);
    submit(&mut engine, 0.0, vec![(1, cores(8, 100.0)), (2, cores(8, 50.0)), (3, cores(4, 500.0))]);
    let reason = |engine: &Engine, id, now| engine.explain(JobId(id), now).unwrap().reason.unwrap();
    assert_eq!(reason(&engine, 3, 0.0), Reason::Busy { nodes: 0, cores: 4, gpus: 0 });
    // Four cores come back: 3 fits, and would delay 2.
    engine.step(free(1), 1.0);
    submit(&mut engine, 1.0, vec![]);
    assert!(engine.running_ids().eq([JobId(2)]));
    submit(&mut engine, 2.0, vec![(4, cores(8, 60.0))]);
    engine.step(free(2), 3.0);
    let now = 3.0;
    engine.pass(now);
    assert_eq!(engine.running_ids().next(), Some(JobId(3)), "3 is before 4");
    submit(&mut engine, 4.0, vec![(5, cores(4, 600.0))]);
    assert_eq!(reason(&engine, 5, 4.0), Reason::Delays(JobId(4)));
}

#[test]
fn feat_74_one_time_is_told_of_a_job_with_a_reserved_start() {
    let mut engine = engine(1, 4);
    install(&mut engine, Script::named("easy").run(easy), 0.0);
    submit(&mut engine, 0.0, vec![(1, cores(4, 600.0)), (2, cores(4, 600.0))]);
    let why = engine.explain(JobId(2), 1.0).unwrap();
    assert_eq!(
        (why.t_estimate, why.earliest),
        (Some(600.0), Some(600.0)),
        "its reservation is not in its own way"
    );
    assert_eq!(
        why.text(1.0, &|id| id.to_string()),
        "first in line, has a reserved start; its start is reserved in 9.98333m; jobs ahead in its queue: 0"
    );
}

#[test]
fn feat_74_75_a_drained_node_is_named() {
    let mut engine = engine(4, 1);
    engine.step(Event::Down("3".parse().unwrap()), 0.0);
    let four =
        Simple { nodes: Some(4), slots: 4, duration: 60.0, command: vec!["a".into()], ..Simple::default() };
    submit(&mut engine, 0.0, vec![(1, Arc::new(four.build()))]);
    let questions = engine.questions(0.0, &ALL);
    let why = engine.explain(JobId(1), 0.0).unwrap();
    let hosts = |ranks: &Idset| questions.hosts_of(ranks).join(",");
    let said: Vec<String> = why.obstacles.iter().map(|o| o.text(0.0, &|id| id.to_string(), &hosts)).collect();
    assert_eq!(said, ["node n3 is down"]);
    assert_eq!((why.earliest, why.expected.map(|e| e.start)), (None, None));
    let tests = format!("{:?}", questions.node_tests(JobId(1)).unwrap());
    assert_eq!(tests, "[(Down, Idset(3)), (Free, Idset(0-2))]");
}

/// FEAT-73: reservations whose start is past are planned again at the next pass, with whatever follows from that.
#[test]
fn feat_73_nothing_is_told_beside_a_reserved_start_that_is_past() {
    let submit = |count, tens, whole| Step::Submit { count, tens, whole };
    let mut steps = vec![submit(5, 1, false), submit(4, 5, true)];
    steps.extend([submit(1, 0, false), Step::Window(0, 6, 1, 1)]);
    let boxes = |steps: &[Step]| {
        let question = GapQuestion { queue: String::new(), constraint: Constraint::All, cores: true };
        world("conservative", steps).questions().gaps(&question).unwrap()
    };
    assert_ne!(boxes(&steps).gaps, []);
    // The first job runs beyond its limit.
    steps.push(Step::Later(11));
    let gaps = boxes(&steps);
    assert_eq!(gaps.gaps, []);
    let none = "the reserved start of \u{192}3 is past; the next scheduling pass plans it again";
    assert_eq!(gaps.none.as_deref(), Some(none));
    let when =
        world("conservative", &steps).questions().when(&spec(9, 0, false), 1, None, &mut || false).unwrap();
    assert_ne!(when.expected.source, Source::Free);
    assert_ne!(when.obstacles, []);
}

/// FEAT-74: two commands name the same reason, also where a job missed for a window first, and misses for others now.
#[test]
fn feat_74_a_miss_for_a_window_is_looked_at_again() {
    let submit = |count, tens, whole| Step::Submit { count, tens, whole };
    let steps = [
        submit(1, 0, false),
        submit(1, 0, false),
        submit(4, 7, true),
        submit(5, 0, false),
        submit(1, 7, true),
        Step::Free(0),
        submit(4, 1, true),
        submit(1, 0, false),
        submit(4, 0, true),
        Step::Window(0, 1, 1, 3),
        Step::Free(0),
        Step::Cancel(0),
    ];
    let world = world("fcfs", &steps);
    for row in world.questions().rows(None) {
        assert_eq!(world.engine.explain(row.id, world.now).unwrap().reason, Some(row.reason));
    }
}

/// FEAT-73: the search for one box moves no reservation for the next.
#[test]
fn feat_73_each_box_is_true_without_the_searches_before_it() {
    let submit = |count, tens, whole| Step::Submit { count, tens, whole };
    let steps = [
        Step::Window(1, 1, 6, 2),
        Step::Window(0, 1, 2, 5),
        submit(6, 10, false),
        submit(7, 5, false),
        submit(2, 2, true),
    ];
    let first = world("conservative", &steps);
    let question = GapQuestion { queue: String::new(), constraint: Constraint::All, cores: true };
    let gaps = first.questions().gaps(&question).unwrap().gaps;
    assert!(gaps.len() > 1, "{gaps:?}");
    for gap in gaps {
        let spec = spec(gap.cores as u32, (gap.duration / 10.0) as u32, false);
        assert!(world("conservative", &steps).starts_at_once(&spec), "{gap:?}");
    }
}

/// A machine of four cores of which two are in use, and a job that waits for all, under this policy.
fn half_in_use(script: Script) -> Engine {
    let mut engine = engine(1, 4);
    install(&mut engine, script, 0.0);
    let starts = [(1, cores(2, 100.0)), (2, cores(4, 50.0))].map(|job| submit(&mut engine, 0.0, vec![job]));
    assert_eq!(started(&starts.concat()), [1]);
    engine
}

/// FEAT-72: a policy that puts a new job first, and starts it, is asked itself.
#[test]
fn feat_72_a_policy_that_can_be_run_on_the_copy_says_where_a_job_stands() {
    let when = |engine: &Engine, slots: u32, duration: f64| {
        engine.questions(0.0, &ALL).when(&cores(slots, duration), 1, None, &mut || false).unwrap()
    };
    let engine = half_in_use(shortest());
    let first = when(&engine, 1, 10.0);
    assert_eq!((first.expected.source, first.expected.start), (Source::Free, Some(0.0)));
    let behind = when(&engine, 1, 60.0);
    assert_eq!((behind.expected.source, behind.expected.start), (Source::Forecast, Some(150.0)));
    assert!(behind.obstacles.contains(&Obstacle::Ahead(1)), "{behind:?}");
    // It stands first, and is too wide.
    let wide = when(&engine, 3, 10.0);
    assert_eq!((wide.expected.source, wide.expected.start), (Source::Forecast, Some(100.0)));
    assert!(!wide.obstacles.iter().any(|obstacle| matches!(obstacle, Obstacle::Ahead(_))), "{wide:?}");
    // The engine itself knows nothing of it.
    assert_eq!((engine.pending(), engine.running()), (1, 1));

    // Where no other instance can be made, or a new one would lack what this one has seen, the job stands behind all that wait.
    let alone = Script::named("sjf").keys(|jobs| Ok(jobs.duration.clone()));
    let mut observing = shortest();
    observing.seen = Some(Arc::default());
    for script in [alone, observing] {
        let answer = when(&half_in_use(script), 1, 10.0);
        assert_eq!((answer.expected.source, answer.expected.start), (Source::Forecast, Some(150.0)));
    }
    // A priority is one of two things that a key is followed by.
    let mut questions = engine.questions(0.0, &ALL);
    let at = |questions: &mut Questions, priority| {
        questions.when(&cores(1, 50.0), 1, Some(priority), &mut || false).unwrap().expected.source
    };
    assert_eq!((at(&mut questions, 17), at(&mut questions, 16)), (Source::Free, Source::Forecast));
}

/// FEAT-72: an instance that fails on the copy is not believed.
#[test]
fn feat_72_a_policy_that_fails_on_the_copy_says_nothing() {
    fn failing() -> Script {
        Script::named("sjf").keys(|_| Err(trap()))
    }
    let engine = half_in_use(Script::named("sjf").keys(|jobs| Ok(jobs.duration.clone())).again(failing));
    let answer = engine.questions(0.0, &ALL).when(&cores(1, 10.0), 1, None, &mut || false).unwrap();
    assert_eq!((answer.expected.source, answer.expected.start), (Source::Forecast, Some(150.0)));
}

/// FEAT-72: where keys order the queue that no new instance can give, no priority puts a job before others.
#[test]
fn feat_72_a_priority_counts_where_jobs_wait_by_priority() {
    let ahead = |script: Script| {
        let mut engine = engine(1, 4);
        install(&mut engine, script, 0.0);
        submit(&mut engine, 0.0, vec![(1, cores(4, 100.0)), (2, cores(4, 50.0))]);
        engine.pass(0.0);
        let answer = engine.questions(0.0, &ALL).when(&cores(4, 10.0), 1, Some(17), &mut || false).unwrap();
        let ahead = answer.obstacles.iter().find_map(|obstacle| match obstacle {
            Obstacle::Ahead(jobs) => Some(*jobs),
            _ => None,
        });
        ahead.unwrap_or(0)
    };
    assert_eq!(ahead(Script::named("conservative").run(conservative)), 0);
    assert_eq!(ahead(Script::named("learned").keys(|jobs| Ok(jobs.duration.clone()))), 1);
    assert_eq!(ahead(shortest()), 0, "it is the shortest");
}

/// On a machine of which the future is costly to search, an answer comes with the expected starts that were found in time.
#[test]
fn a_forecast_that_takes_too_long_is_cut() {
    let mut engine = engine(2, 4);
    let jobs = (1..=6).map(|id| (id, cores(8, 60.0))).collect();
    drop(submit(&mut engine, 0.0, jobs));
    let whole = engine.questions(0.0, &ALL).expected().to_vec();
    assert!(whole.len() == 5 && whole.iter().all(|expected| expected.start.is_some()), "{whole:?}");
    let (mut cut, mut asked) = (engine.questions(0.0, &ALL), 0);
    let mut enough = || {
        asked += 1;
        asked > 2
    };
    let told: Vec<_> =
        cut.expected_until(&mut enough).iter().map(|expected| (expected.start, expected.source)).collect();
    let there = told.iter().filter(|(start, _)| start.is_some()).count();
    assert!((2..5).contains(&there), "{told:?}");
    for (told, whole) in told.iter().zip(&whole) {
        assert!(*told == (whole.start, whole.source) || *told == (None, Source::Unsearched), "{told:?}");
    }
    assert_eq!(cut.expected().len(), 5, "it is not looked for again");
    // A job that would stand behind jobs that were not looked for is told nothing.
    let when = cut.when(&cores(8, 60.0), 1, None, &mut || true).unwrap();
    assert_eq!((when.expected.start, when.expected.source), (None, Source::Unsearched));
    assert!(!when.obstacles.is_empty());
    let why = cut.explain(JobId(6)).unwrap();
    assert!(why.when(0.0).contains("the search for expected starts took too long"), "{}", why.when(0.0));
}
