//! Checks of a component's decisions in worlds of all kinds.

use fluxgate_engine::{JobColumns, JobEvent, JobEventKind, Policy as _};
use fluxgate_formats::JobId;

use crate::Subject;
use crate::drive::{Successor, Trace, run};
use crate::recorder::Recorder;
use crate::report::Reporter;
use crate::world::{BEGIN, Change, Job, World, deep, flowing, mixed};

/// Waiting jobs of the check `deep-queue`.
const DEEP: u64 = 10_000;

/// The first id that a 64-bit float does not distinguish from its neighbours.
const LARGE: u64 = 1 << 53;

impl Subject<'_> {
    /// A fresh instance; `None` after the failure was reported.
    pub(crate) fn fresh(&self, check: &'static str, reporter: &mut Reporter) -> Option<Recorder> {
        match self.compiled.instantiate(self.config) {
            Ok(policy) => Some(Recorder::new(policy, self.loader.limits())),
            Err(error) => {
                match crate::settings::breach(&error) {
                    Some(breach) => reporter.breach(check, breach),
                    None => reporter.fail(check, error.to_string()),
                }
                None
            }
        }
    }

    /// Runs a world with a fresh instance, and reports the common results of a run.
    pub(crate) fn run(&self, check: &'static str, world: &World, reporter: &mut Reporter) -> Option<Trace> {
        let recorder = self.fresh(check, reporter)?;
        judge(check, run(world, &recorder, Successor::None), reporter)
    }
}

/// The trace of a completed run; reports the common results of a run.
pub(crate) fn judge(check: &'static str, trace: Trace, reporter: &mut Reporter) -> Option<Trace> {
    reporter.ran();
    for line in &trace.calls {
        reporter.cost(line.export, line.fuel, line.limit);
    }
    if trace.snapshot.log_dropped > 0 {
        let reason =
            format!("in {check}: {} messages were dropped for their rate", trace.snapshot.log_dropped);
        reporter.fail("log", reason);
    }
    if trace.snapshot.log_cut > 0 {
        reporter.fail("log", format!("in {check}: {} messages were cut", trace.snapshot.log_cut));
    }
    if let Some(error) = &trace.breach {
        reporter.breach(check, error);
        return None;
    }
    if trace.snapshot.log_dropped > 0 {
        reporter.fail(check, "not played to its end: it floods the log");
        return None;
    }
    Some(trace)
}

pub(crate) fn check(subject: &Subject<'_>, reporter: &mut Reporter) {
    one_job(subject, reporter);
    empty_queue(subject, reporter);
    load(subject, reporter);
    flow(subject, reporter);
    queues(subject, reporter);
    deep_queue(subject, reporter);
    large_ids(subject, reporter);
    priorities(subject, reporter);
    extreme_times(subject, reporter);
    no_resources(subject, reporter);
    repeated_events(subject, reporter);
    unknown_jobs(subject, reporter);
}

fn one_job(subject: &Subject<'_>, reporter: &mut Reporter) {
    let world = World::new(1, 1, vec![Job::new(1, BEGIN)]);
    let Some(trace) = subject.run("one-job", &world, reporter) else { return };
    match trace.starts.first() {
        Some((at, _)) if *at > BEGIN => reporter.pass("one-job", format!("after {} s", at - BEGIN)),
        Some(_) => reporter.pass("one-job", ""),
        None => reporter.fail("one-job", "it was not started, and nothing is in its way"),
    }
}

fn empty_queue(subject: &Subject<'_>, reporter: &mut Reporter) {
    let check = "empty-queue";
    let Some(mut recorder) = subject.fresh(check, reporter) else { return };
    let empty = JobColumns::default();
    let asked = recorder.observe(BEGIN, &[]).and_then(|()| recorder.keys(BEGIN, &empty));
    match asked {
        Ok(keys) if keys.is_empty() => {}
        Ok(keys) => {
            let reason = format!("{} keys for no job", keys.len());
            reporter.fail(check, reason.clone());
            reporter.fail("keys", reason);
            return;
        }
        Err(error) => return reporter.breach(check, &error),
    }
    // The only job is cancelled before it can start, then the machine changes: passes over an empty queue.
    let mut world = World::new(2, 1, vec![Job::new(1, BEGIN)]);
    world.changes =
        vec![(BEGIN, Change::Cancel(1)), (BEGIN + 1.0, Change::Down(0, 1)), (BEGIN + 2.0, Change::Up(0, 1))];
    if judge(check, run(&world, &recorder, Successor::None), reporter).is_some() {
        reporter.pass(check, "");
    }
}

fn load(subject: &Subject<'_>, reporter: &mut Reporter) {
    let check = "mixed-load";
    let world = mixed();
    let Some(first) = subject.run(check, &world, reporter) else { return };
    reporter.pass(check, format!("{} started, {} still wait at the end", first.starts.len(), first.waiting));
    let Some(second) = subject.run("determinism", &world, reporter) else { return };
    if let Some(at) = first.actions.iter().zip(&second.actions).position(|(one, other)| one != other) {
        let cut = |text: &str| text.chars().take(160).collect::<String>();
        let reason = format!(
            "decision {at} differs: {} against {}",
            cut(&first.actions[at]),
            cut(&second.actions[at])
        );
        return reporter.fail("determinism", reason);
    }
    if first.actions.len() != second.actions.len() {
        let reason = format!("{} decisions against {}", first.actions.len(), second.actions.len());
        return reporter.fail("determinism", reason);
    }
    if let Some((one, other)) = first.calls.iter().zip(&second.calls).find(|(one, other)| one != other) {
        let reason =
            format!("the same call of {} took {} and {} units of fuel", one.export, one.fuel, other.fuel);
        return reporter.fail("determinism", reason);
    }
    let fuel: u64 = first.calls.iter().map(|line| line.fuel).sum();
    reporter.pass("determinism", format!("{} calls, {fuel} units of fuel, twice", first.calls.len()));
}

fn flow(subject: &Subject<'_>, reporter: &mut Reporter) {
    let world = flowing();
    let Some(first) = subject.run("flow", &world, reporter) else { return };
    let Some(second) = subject.run("determinism", &world, reporter) else { return };
    if first.actions != second.actions {
        return reporter.fail("determinism", "decisions differ where power and bandwidth flow".to_owned());
    }
    reporter.pass("flow", format!("{} started, {} still wait at the end", first.starts.len(), first.waiting));
}

fn queues(subject: &Subject<'_>, reporter: &mut Reporter) {
    let jobs = (1..=40).map(|id| {
        let mut job = Job::new(id, BEGIN + (id / 5) as f64);
        job.queue = Some(["batch", "debug", "long"][(id % 3) as usize]);
        job.cores = 1 + (id % 4) as u32;
        job
    });
    let world = World::new(2, 4, jobs.collect());
    if let Some(trace) = subject.run("queues", &world, reporter) {
        reporter.pass("queues", format!("{} started", trace.starts.len()));
    }
}

fn deep_queue(subject: &Subject<'_>, reporter: &mut Reporter) {
    let Some(trace) = subject.run("deep-queue", &deep(DEEP), reporter) else { return };
    let dearest = trace.calls.iter().filter(|line| line.export == "run").map(|line| line.fuel).max();
    let reason = match dearest {
        Some(fuel) => format!("dearest pass {fuel} units of fuel"),
        None => "makes no passes of its own".to_owned(),
    };
    reporter.pass("deep-queue", reason);
}

fn large_ids(subject: &Subject<'_>, reporter: &mut Reporter) {
    let check = "large-ids";
    let world = mixed();
    let Some(small) = subject.run(check, &world, reporter) else { return };
    // Ids that a float does not distinguish, and the largest ids.
    type Name = fn(u64) -> u64;
    let names: [(&str, Name); 2] =
        [("above 2^53", |id| LARGE + id), ("up to 2^64-1", |id| u64::MAX - 3 * 240 + id)];
    for (what, name) in names {
        let Some(large) = subject.run(check, &world.renamed(name), reporter) else { return };
        let expected: Vec<(f64, u64)> = small.starts.iter().map(|(at, id)| (*at, name(*id))).collect();
        if large.starts != expected {
            let differs = large.starts.iter().zip(&expected).position(|(one, other)| one != other);
            let at = differs.unwrap_or(expected.len().min(large.starts.len()));
            let reason = format!(
                "with ids {what} start {at} is of another job: ids are for echoing, never for arithmetic"
            );
            return reporter.fail(check, reason);
        }
    }
    reporter.pass(check, "");
}

fn priorities(subject: &Subject<'_>, reporter: &mut Reporter) {
    let check = "priorities";
    let levels = [1, 2, 15, 16, 17, 31, 1 << 16, u32::MAX - 1, u32::MAX];
    let jobs = (0..27_u64).map(|i| {
        let mut job = Job::new(i + 1, BEGIN);
        job.priority = levels[i as usize % levels.len()];
        job
    });
    let mut world = World::new(1, 2, jobs.collect());
    for (i, level) in levels.iter().enumerate() {
        world.changes.push((BEGIN + 60.0 + i as f64, Change::Prioritize(27 - i as u64, *level)));
    }
    if let Some(trace) = subject.run(check, &world, reporter) {
        reporter.pass(check, format!("{} started", trace.starts.len()));
    }
}

fn extreme_times(subject: &Subject<'_>, reporter: &mut Reporter) {
    let check = "extreme-times";
    let Some(mut recorder) = subject.fresh(check, reporter) else { return };
    let times = [0.0, BEGIN, 1e12, 9_007_199_254_740_993.0];
    let durations = [0.0, f64::MIN_POSITIVE, 1e-9, 1.0, 1e18, f64::MAX, f64::INFINITY];
    let mut rows = JobColumns::default();
    for (i, t_submit) in times.iter().enumerate() {
        for (j, duration) in durations.iter().enumerate() {
            let extreme = (i + j) % 2 == 1;
            rows.id.push(JobId((i * durations.len() + j) as u64 + 1));
            rows.t_submit.push(*t_submit);
            rows.duration.push(*duration);
            rows.priority.push(if extreme { u32::MAX } else { 1 });
            rows.userid.push(if extreme { u32::MAX } else { 0 });
            rows.queue.push(0);
            rows.nodes.push(if extreme { u32::MAX } else { 0 });
            rows.cores.push(if extreme { u32::MAX } else { 0 });
            rows.gpus.push(if extreme { u32::MAX } else { 0 });
        }
    }
    for now in [0.0, BEGIN, 1e12] {
        // The host checks length and NaN of every answer.
        if let Err(error) = recorder.keys(now, &rows) {
            return reporter.breach(check, &error);
        }
    }
    let jobs = (1..=60).map(|id| {
        let mut job = Job::new(id, BEGIN + if id % 3 == 0 { 50.0 } else { 0.0 });
        (job.limit, job.runs) =
            [(0.0, 5.0), (0.001, 0.001), (1e9, 7.0), (60.0, 0.0), (60.0, 60.0)][(id % 5) as usize];
        job.cores = 1 + (id % 3) as u32;
        job
    });
    let world = World::new(2, 2, jobs.collect());
    if judge(check, run(&world, &recorder, Successor::None), reporter).is_some() {
        reporter.pass(check, "");
    }
}

fn no_resources(subject: &Subject<'_>, reporter: &mut Reporter) {
    let check = "no-resources";
    let jobs: Vec<Job> = (1..=20).map(|id| Job::new(id, BEGIN + 1.0 + id as f64)).collect();
    let mut down = World::new(4, 2, jobs);
    down.changes = vec![(BEGIN, Change::Down(0, 4)), (BEGIN + 100.0, Change::Up(0, 4))];
    let mut gone = down.clone();
    gone.changes = vec![(BEGIN + 5.0, Change::ShrinkAll)];
    let Some(trace) = subject.run(check, &down, reporter) else { return };
    if subject.run(check, &gone, reporter).is_some() {
        reporter.pass(check, format!("{} of 20 started when nodes came up", trace.starts.len()));
    }
}

/// Every kind of event about these jobs.
fn events(ids: &[u64]) -> Vec<JobEvent> {
    use JobEventKind::{Ended, Expiration, Pending, Priority, Removed, Started};
    let kinds = [
        (Ended, BEGIN),
        (Removed, 0.0),
        (Started, f64::INFINITY),
        (Priority, 4_294_967_295.0),
        (Expiration, f64::INFINITY),
        (Pending, 0.0),
        (Started, BEGIN + 1.0),
        (Expiration, BEGIN - 1.0),
        (Ended, BEGIN + 9.0),
    ];
    let of = |id: &u64| {
        let job = JobId(*id);
        kinds.map(|(kind, value)| JobEvent { kind, job, time: BEGIN, value })
    };
    ids.iter().flat_map(of).collect()
}

fn repeated_events(subject: &Subject<'_>, reporter: &mut Reporter) {
    observes(subject, "repeated-events", &[1, 3, 3, 6, 6, 6, 9], reporter);
}

fn unknown_jobs(subject: &Subject<'_>, reporter: &mut Reporter) {
    observes(subject, "unknown-jobs", &[0, LARGE + 1, u64::MAX, u64::MAX - 1, 1 << 32], reporter);
}

/// An instance observes events of these jobs several times, and still decides.
fn observes(subject: &Subject<'_>, check: &'static str, ids: &[u64], reporter: &mut Reporter) {
    if !subject.compiled.abilities().observing {
        return reporter.skip(check, "it does not observe");
    }
    let Some(mut recorder) = subject.fresh(check, reporter) else { return };
    let events = events(ids);
    for _ in 0..3 {
        if let Err(error) = recorder.observe(BEGIN, &events) {
            return reporter.breach(check, &error);
        }
    }
    let mut world = mixed();
    world.until = BEGIN + 600.0;
    if judge(check, run(&world, &recorder, Successor::None), reporter).is_some() {
        reporter.pass(check, format!("{} events", 3 * events.len()));
    }
}
