//! Runs that were interrupted: what goes on from any of their checkpoints ends as the run without interruption.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use fluxgate_engine::{
    Abilities, Config, JobColumns, JobEvent, JobEventKind, Pass, Policy, PolicyError, Refusal, SavedState,
};
use fluxgate_formats::JobId;
use fluxgate_sim::checkpoint::{self, Identity};
use fluxgate_sim::driver::{self, Deciders, Outcome, Surroundings};
use fluxgate_sim::follow::{Following, Group};
use fluxgate_sim::keeping::{Every, Keeping, Writes};
use fluxgate_sim::machine::Machine;
use fluxgate_sim::metrics::{Metrics, Summary};
use fluxgate_sim::observe::Observer;
use fluxgate_sim::outages::{Change, OnFailure, Outage, Outages};
use fluxgate_sim::replay;
use fluxgate_sim::rules::{Rules, Semantics, picking};
use fluxgate_sim::schedule::{Collect, Row, Writer};
use fluxgate_sim::workload::{self, Job};
use proptest::prelude::*;

use crate::native::{Does, easy};

/// Orders jobs by what it saw of jobs with the same id modulo 3, and makes passes as EASY.
#[derive(Default)]
struct Learns {
    /// Ended jobs, and the sum of their run times in seconds.
    seen: [(f64, f64); 3],
}

impl Policy for Learns {
    fn name(&self) -> &str {
        "learns"
    }

    fn abilities(&self) -> Abilities {
        Abilities { ordering: true, observing: true, state: true, ..Abilities::default() }
    }

    fn keys(&mut self, now: f64, jobs: &JobColumns) -> Result<Vec<f64>, PolicyError> {
        let of = |id: &JobId| self.seen[(id.0 % 3) as usize];
        // Also of an infinite key a checkpoint has to hold.
        let key =
            |(count, sum): (f64, f64)| if count == 0.0 { f64::INFINITY } else { sum / count + now % 7.0 };
        Ok(jobs.id.iter().map(|id| key(of(id))).collect())
    }

    fn observe(&mut self, _now: f64, events: &[JobEvent]) -> Result<(), PolicyError> {
        for event in events.iter().filter(|event| event.kind == JobEventKind::Ended) {
            let (count, sum) = &mut self.seen[(event.job.0 % 3) as usize];
            (*count, *sum) = (*count + 1.0, *sum + event.time - event.value);
        }
        Ok(())
    }

    fn save(&mut self) -> Result<SavedState, PolicyError> {
        let data = self.seen.iter().flat_map(|(a, b)| [a.to_le_bytes(), b.to_le_bytes()]).flatten().collect();
        Ok(SavedState { from: "learns".to_owned(), version: 1, data })
    }

    fn restore(&mut self, state: &SavedState) -> Result<(), PolicyError> {
        let numbers: Vec<f64> =
            state.data.chunks(8).map(|bytes| f64::from_le_bytes(bytes.try_into().unwrap())).collect();
        self.seen = std::array::from_fn(|at| (numbers[2 * at], numbers[2 * at + 1]));
        Ok(())
    }
}

/// A reservation for every job that does not fit.
fn conservative() -> Does {
    Does("conservative-native", |pass: &mut Pass| {
        while let Some(candidate) = pass.next() {
            match pass.start(candidate, None)? {
                Ok(()) => {}
                Err(Refusal::Limit) => return Ok(()),
                Err(_) => drop(pass.reserve(candidate)?),
            }
        }
        Ok(())
    })
}

/// The policies by number.
fn policy(number: usize, rules: Rules) -> Option<Box<dyn Policy>> {
    let policy: Option<Box<dyn Policy>> = match number {
        0 => None,
        1 => Some(Box::new(easy())),
        2 => Some(Box::new(conservative())),
        _ => Some(Box::new(Learns::default())),
    };
    picking::apply(policy, &rules).expect("it gives an order")
}

#[derive(Debug, Clone)]
struct World {
    jobs: Vec<Job>,
    surroundings: Surroundings,
    machine: Machine,
    policy: usize,
    /// The policy of queue q1.
    own: Option<usize>,
}

/// All that comes out of a run.
#[derive(Debug, PartialEq)]
struct Made {
    schedule: String,
    rows: Vec<Row>,
    summary: Summary,
    violations: u64,
    denied: Vec<(JobId, String)>,
    unfinished: Vec<(JobId, String)>,
    counts: [u64; 6],
    lost: f64,
}

impl World {
    fn deciders(&self, policy: usize) -> Deciders {
        let own = self.own.map(|own| ("q1".to_owned(), self::policy(own, Rules::default())));
        let own = own.and_then(|(queue, policy)| Some((queue, policy?)));
        Deciders {
            default: self::policy(policy, self.surroundings.rules),
            queues: own.into_iter().collect(),
            ..Deciders::default()
        }
    }

    fn run_with(&self, policy: usize, keeping: Keeping) -> Made {
        let (mut metrics, mut rows) = (Metrics::new(self.machine.total_cores()), Collect::default());
        let mut schedule = Writer::new(Vec::new(), true).unwrap();
        let mut observers: [&mut dyn Observer; 3] = [&mut metrics, &mut rows, &mut schedule];
        let config: Config = driver::replay_config();
        let (outcome, report) = replay::run_keeping(
            self.jobs.iter().copied(),
            &self.surroundings,
            &self.machine,
            (config, self.deciders(policy)),
            &mut observers,
            true,
            keeping,
        )
        .unwrap();
        let Outcome { submitted, started, failed, requeued, instants, peak_waiting, .. } = outcome;
        Made {
            schedule: String::from_utf8(schedule.finish().unwrap()).unwrap(),
            rows: rows.rows,
            summary: metrics.summary().unwrap(),
            violations: report.unwrap().first.len() as u64,
            denied: outcome.denied,
            unfinished: outcome.unfinished,
            counts: [submitted, started, failed, requeued, instants, peak_waiting],
            lost: outcome.lost_core_seconds,
        }
    }

    fn writes(&self, every: Every, folder: &Path) -> Writes {
        let identity = Identity { version: "1".to_owned(), ..Identity::default() };
        Writes { every, folder: folder.to_owned(), name: "run".to_owned(), identity }
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

fn rules() -> impl Strategy<Value = Rules> {
    let own = Rules::default();
    let event = Rules { pass: fluxgate_sim::rules::PassPer::Event, ..own };
    prop_oneof![
        4 => Just(own),
        1 => Just(event),
        1 => Just(Semantics::Pyss.rules()),
        1 => Just(Semantics::RlScheduler.rules()),
        1 => Just(Semantics::Sc17.rules()),
    ]
}

prop_compose! {
    fn worlds()(
        fields in proptest::collection::vec((0..12_u32, 1..10_u32, 1..40_u32, 0..50_u32, 0..3_u32, 0..2_u32), 1..60),
        nodes in 1..9_u32,
        rules in rules(),
        policy in 0..4_usize,
        own in prop::option::weighted(0.3, 1..4_usize),
        follow in prop::option::weighted(0.3, 2..5_usize),
        fails in prop::collection::vec((0..200_u32, 0..8_u32, 0..3_u8), 0..4),
        on_failure in prop_oneof![Just(OnFailure::End), Just(OnFailure::Requeue), Just(OnFailure::Checkpoint(5.0))],
    ) -> World {
        let (mut submit, n) = (0.0, fields.len() as u64);
        let mut jobs: Vec<Job> = fields.into_iter().enumerate().map(|(i, (gap, cores, limit, run, burst, queue))| {
            if burst == 0 {
                submit += f64::from(gap);
            }
            let job = Job::new(JobId(n - i as u64), submit, cores, f64::from(limit), f64::from(run));
            Job { user: 1 + i as u32 % 4, queue: if own.is_some() { queue } else { 0 }, ..job }
        }).collect();
        workload::sort(&mut jobs);
        let mut following = Following::default();
        if let Some(each) = follow {
            let (mut roots, mut last) = (Vec::new(), None);
            for (i, job) in jobs.into_iter().enumerate() {
                match last.filter(|_| i % each == 0) {
                    Some(after) => {
                        following.groups.push(Group { after: vec![after], think: 3.0, jobs: vec![(0.0, job)] });
                    }
                    None => roots.push(job),
                }
                last = Some(job.id);
            }
            jobs = roots;
        }
        let mut changes: Vec<(f64, Outage)> = fails.into_iter().map(|(time, rank, change)| {
            let change = [Change::Fail, Change::Drain, Change::Return][usize::from(change)];
            (f64::from(time), Outage { ranks: [rank % nodes].into_iter().collect(), change })
        }).collect();
        changes.sort_by(|a, b| a.0.total_cmp(&b.0));
        // Replaced passes give no order by themselves, and are for one queue.
        let (policy, own) = if rules.picks() { (policy / 2 * 3, None) } else { (policy, own) };
        let surroundings = Surroundings {
            following: following.into(),
            outages: Outages::of(changes),
            on_failure,
            rules,
            ..Surroundings::default()
        };
        World { jobs, surroundings, machine: Machine::uniform(nodes, 8).unwrap(), policy, own }
    }
}

fn every() -> impl Strategy<Value = Every> {
    prop_oneof![(1..80_u32).prop_map(|s| Every::Seconds(f64::from(s))), (1..12_u64).prop_map(Every::Jobs)]
}

proptest! {
    #[test]
    fn res_18_a_run_ends_as_without_interruption(world in worlds(), every in every(), pick in any::<prop::sample::Index>()) {
        let whole = world.run_with(world.policy, Keeping::default());
        let folder = tempfile::tempdir().unwrap();
        let writes = Some(world.writes(every, folder.path()));
        let kept = world.run_with(world.policy, Keeping { writes, ..Keeping::default() });
        prop_assert_eq!(&kept, &whole, "a run that writes checkpoints");
        prop_assert_eq!(whole.violations, 0);
        let files = files(folder.path());
        if files.is_empty() {
            return Ok(());
        }
        // From any of them, and once more from one that the resumed run wrote.
        let file = &files[pick.index(files.len())];
        let later = tempfile::tempdir().unwrap();
        let writes = Some(world.writes(every, later.path()));
        let from = Some(checkpoint::open(file).unwrap());
        let resumed = world.run_with(world.policy, Keeping { from, writes, fork: false });
        prop_assert_eq!(&resumed, &whole, "from {}", file.display());
        let written = self::files(later.path());
        let place = files.iter().position(|known| known == file).unwrap();
        let names = |files: &[PathBuf]| files.iter().map(|file| file.file_name().unwrap().to_owned()).collect::<Vec<_>>();
        prop_assert_eq!(written.len() + 1 + earlier(&files, place), files.len(), "{:?} {:?}", names(&files), names(&written));
        if let Some(file) = written.last() {
            let from = Some(checkpoint::open(file).unwrap());
            let again = world.run_with(world.policy, Keeping { from, ..Keeping::default() });
            prop_assert_eq!(&again, &whole, "twice, from {}", file.display());
        }
    }

    #[test]
    fn res_18_a_fork_has_the_same_past(world in worlds(), every in every(), other in 0..4_usize, pick in any::<prop::sample::Index>()) {
        let folder = tempfile::tempdir().unwrap();
        let writes = Some(world.writes(every, folder.path()));
        let whole = world.run_with(world.policy, Keeping { writes, ..Keeping::default() });
        let files = files(folder.path());
        if files.is_empty() || world.surroundings.rules.picks() {
            return Ok(());
        }
        let opened = checkpoint::open(&files[pick.index(files.len())]).unwrap();
        let now = opened.now();
        let forked = World { own: None, ..world.clone() }.run_with(other, Keeping { from: Some(opened), fork: true, writes: None });
        prop_assert_eq!(forked.violations, 0);
        let past = |result: &Made| result.rows.iter().filter(|row| row.start <= now).cloned().collect::<Vec<_>>();
        prop_assert_eq!(past(&forked), past(&whole));
        let ids = |result: &Made| {
            let told = result.denied.iter().chain(&result.unfinished).map(|(id, _)| *id);
            result.rows.iter().map(|row| row.job).chain(told).collect::<BTreeSet<_>>()
        };
        prop_assert_eq!(ids(&forked), ids(&whole));
    }
}

/// Number of files whose checkpoint was due before that of `files[place]`.
fn earlier(files: &[PathBuf], place: usize) -> usize {
    let due = |file: &PathBuf| {
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        let due = name.trim_start_matches("run.").trim_end_matches(".checkpoint");
        due.trim_end_matches("jobs").trim_end_matches('s').parse::<u64>().unwrap()
    };
    files.iter().filter(|file| due(file) < due(&files[place])).count()
}

#[test]
fn res_18_a_fork_is_decided_by_the_other_policy() {
    // Job 2 waits for all cores; 3 fits beside job 1 and ends before it: EASY starts it, FCFS does not.
    let job = |id, submit, cores, run| Job::new(JobId(id), submit, cores, run, run);
    let jobs = vec![job(1, 0.0, 4, 100.0), job(2, 10.0, 8, 10.0), job(3, 30.0, 2, 20.0)];
    let machine = Machine::uniform(2, 8).unwrap();
    let world = World { jobs, surroundings: Surroundings::default(), machine, policy: 0, own: None };
    let folder = tempfile::tempdir().unwrap();
    let writes = Some(world.writes(Every::Jobs(2), folder.path()));
    let whole = world.run_with(0, Keeping { writes, ..Keeping::default() });
    let files = files(folder.path());
    assert_eq!(files.len(), 1, "{files:?}");
    let opened = checkpoint::open(&files[0]).unwrap();
    assert_eq!((opened.now(), opened.submitted()), (10.0, 2));
    let forked = world.run_with(1, Keeping { from: Some(opened), fork: true, writes: None });
    let starts = |result: &Made| result.rows.iter().map(|row| (row.job.0, row.start)).collect::<Vec<_>>();
    assert_eq!(starts(&whole), [(1, 0.0), (2, 100.0), (3, 110.0)]);
    assert_eq!(starts(&forked), [(1, 0.0), (3, 30.0), (2, 100.0)]);
}

#[test]
fn res_18_checkpoints_that_are_not_good() {
    let job = |id: u64| Job::new(JobId(id), id as f64, 2, 30.0, 30.0);
    let jobs: Vec<Job> = (1..40).map(job).collect();
    let machine = Machine::uniform(2, 8).unwrap();
    let world = World { jobs, surroundings: Surroundings::default(), machine, policy: 1, own: None };
    let folder = tempfile::tempdir().unwrap();
    let writes = Some(world.writes(Every::Jobs(20), folder.path()));
    world.run_with(1, Keeping { writes, ..Keeping::default() });
    let bytes = std::fs::read(&files(folder.path())[0]).unwrap();
    let run = |world: &World, bytes: &[u8]| {
        let from = checkpoint::read(std::io::Cursor::new(bytes.to_vec())).map_err(|e| e.to_string())?;
        let keeping = Keeping { from: Some(from), ..Keeping::default() };
        let (config, deciders) = (driver::replay_config(), world.deciders(1));
        let mut rows = Metrics::new(8);
        let jobs = world.jobs.iter().copied();
        let made = replay::run_keeping(
            jobs,
            &world.surroundings,
            &world.machine,
            (config, deciders),
            &mut [&mut rows],
            true,
            keeping,
        );
        made.map(drop).map_err(|e| e.to_string())
    };
    assert_eq!(run(&world, &bytes), Ok(()));
    assert!(run(&world, b"").unwrap_err().starts_with("found no checkpoint of a replay"));
    assert!(run(&world, b"FLUXGRC9 and more").unwrap_err().starts_with("found no checkpoint of a replay"));
    for cut in [9, 30, bytes.len() / 2, bytes.len() - 1] {
        let error = run(&world, &bytes[..cut]).unwrap_err();
        assert!(error.starts_with("the checkpoint is damaged"), "{cut}: {error}");
    }
    for place in (8..bytes.len()).step_by(97) {
        let mut bytes = bytes.clone();
        bytes[place] ^= 0x10;
        // Names and times of a gzip header mean nothing, so a change of them may go unnoticed.
        if let Err(error) = run(&world, &bytes) {
            let told = ["the checkpoint is damaged", "the checkpoint does not fit"];
            assert!(told.iter().any(|words| error.starts_with(words)), "{place}: {error}");
        }
    }
    let mut longer = bytes.clone();
    longer.extend_from_slice(&bytes[8..]);
    assert_eq!(run(&world, &longer).unwrap_err(), "the checkpoint does not fit: there is more after its end");
    // Of another log: a job that was submitted is another one.
    let mut other = world.clone();
    other.jobs[3].cores = 1;
    assert_eq!(
        run(&other, &bytes).unwrap_err(),
        "the checkpoint does not fit: job 4 is another one than in the log"
    );
    let small = World { machine: Machine::uniform(1, 8).unwrap(), ..world };
    let error = run(&small, &bytes).unwrap_err();
    assert!(error.starts_with("the checkpoint does not fit: checkpoint: job "), "{error}");
}

#[test]
fn res_18_checkpoints_of_other_runs_are_refused_in_words() {
    let options = BTreeMap::from([("--machine".to_owned(), "4x2".to_owned())]);
    let here = Identity { version: "1".to_owned(), log: "ab".to_owned(), options, ..Identity::default() };
    assert!(here.check(&here).is_ok());
    let policy = Identity { policy: "sjf".to_owned(), ..here.clone() };
    assert!(policy.check(&here).is_ok(), "a fork");
    let error = |found: Identity| found.check(&here).unwrap_err().to_string();
    let of = "the checkpoint is of another run: ";
    assert_eq!(
        error(Identity { version: "0".to_owned(), ..here.clone() }),
        format!("{of}the version of the program: found \"0\" in the checkpoint and \"1\" here")
    );
    assert_eq!(
        error(Identity { log: "cd".to_owned(), ..here.clone() }),
        format!("{of}the log (SHA-256): found \"cd\" in the checkpoint and \"ab\" here")
    );
    assert_eq!(
        error(Identity { options: BTreeMap::new(), ..here.clone() }),
        format!("{of}--machine: found \"\" in the checkpoint and \"4x2\" here")
    );
}
