//! Killed at any instruction, restarted from the committed records.

use proptest::prelude::*;

use super::*;

#[test]
fn pending_jobs_are_pending_again_and_running_ones_run_for_what_is_left() {
    let mut bench = Bench::ready();
    let running = bench.submit(jobspec(4, 100.0, 200.0));
    let pending = bench.submit(jobspec(4, 100.0, 200.0));
    bench.ask(TOOL, "job-manager.urgency", json!({ "id": pending, "urgency": 20 })).unwrap();
    bench.allocate(running, r("0", EPOCH, EPOCH + 200.0));
    bench.advance(40.0);
    bench.crash();
    assert_eq!((bench.state(running), bench.state(pending)), (16, 8));
    bench.handshake(json!({ "mode": "unlimited" }));
    assert_eq!(bench.heard(SCHED), [format!("sched.alloc id={} priority=20", pending.0)]);
    let hello = bench.hello();
    assert_eq!(hello.len(), 1);
    assert_eq!(
        (&hello[0]["id"], &hello[0]["priority"], hello[0].get("free")),
        (&json!(running), &json!(16), None)
    );
    bench.advance(59.0);
    assert_eq!(bench.state(running), 16);
    bench.advance(2.0);
    let job = bench.job(running);
    assert_eq!((&job["result"], &job["t_cleanup"]), (&json!(1), &json!(EPOCH + 100.0)));
    assert_eq!(bench.count(running, "start"), 1);
    let log = bench.log(pending);
    assert!(log.contains(&"flux-restart"), "{log:?}");
}

#[test]
fn jobs_that_ended_at_one_time_are_listed_in_the_same_order_after_a_restart() {
    let mut bench = Bench::ready();
    let ids: Vec<JobId> = (0..3).map(|_| bench.submit(jobspec(4, 100.0, 200.0))).collect();
    for id in [ids[1], ids[2], ids[0]] {
        bench.respond(json!({ "id": id, "type": 2, "note": "no" }));
    }
    let listed = |bench: &mut Bench| {
        let answer =
            bench.ask(TOOL, "job-list.list", json!({ "attrs": ["t_inactive"], "max_entries": 0 })).unwrap();
        let jobs = answer["jobs"].as_array().unwrap().clone();
        (jobs.iter().map(|job| JobId(job["id"].as_u64().unwrap())).collect::<Vec<_>>(), jobs)
    };
    let (order, jobs) = listed(&mut bench);
    assert_eq!(order, [ids[0], ids[2], ids[1]]);
    bench.crash();
    assert_eq!(listed(&mut bench).1, jobs);
}

#[test]
fn new_ids_are_larger_than_all_old_ones() {
    let mut bench = Bench::ready();
    let old = bench.submit(jobspec(1, 1.0, 2.0));
    bench.crash();
    assert!(bench.submit(jobspec(1, 1.0, 2.0)) > old);
}

#[test]
fn adm_10_an_r_without_alloc_is_harmless_and_an_alloc_without_r_ends_the_job() {
    let mut bench = Bench::ready();
    let (first, second) = (bench.submit(jobspec(4, 100.0, 200.0)), bench.submit(jobspec(4, 100.0, 200.0)));
    bench.commit_r(first, &r("0", EPOCH, EPOCH + 200.0));
    bench.allocate(second, r("1", EPOCH, EPOCH + 200.0));
    bench.written.values.retain(|(key, _)| !key.starts_with(&second.kvs_dir()));
    bench.crash();
    bench.handshake(json!({ "mode": "unlimited" }));
    assert_eq!((bench.state(first), bench.state(second)), (8, 64));
    bench.allocate(first, r("2", EPOCH, EPOCH + 200.0));
    assert_eq!((bench.state(first), &bench.job(first)["ranks"]), (16, &json!("2")));
    assert_eq!(bench.job(second)["exception_type"], json!("exec"));
}

#[test]
fn real_jobs_are_looked_for_and_never_started_again() {
    let mut bench = Bench::ready();
    let spec = Simple { slots: 1, command: vec!["sleep".into()], ..Simple::default() };
    let id = bench.submit(spec.build().to_value());
    bench.allocate(id, r("0", EPOCH, 0.0));
    bench.crash();
    assert_eq!(bench.effects, [Effect::Reattach { id }]);
    bench.core.task_failed(id, "no process was left", 256);
    bench.settle();
    let job = bench.job(id);
    assert_eq!((&job["state"], &job["exception_note"]), (&json!(64), &json!("no process was left")));
    assert_eq!(bench.count(id, "start"), 1);
    // A job that was being cancelled is signalled again.
    let id = bench.submit(spec_of_sleep());
    bench.handshake(json!({ "mode": "unlimited" }));
    bench.allocate(id, r("0", EPOCH, 0.0));
    bench.ask(TOOL, "job-manager.raise", json!({ "id": id, "severity": 0, "type": "cancel" })).unwrap();
    bench.crash();
    assert_eq!(bench.effects, [Effect::Reattach { id }, Effect::Signal { id, signal: 15 }]);
}

fn spec_of_sleep() -> Value {
    Simple { slots: 1, command: vec!["sleep".into()], ..Simple::default() }.build().to_value()
}

/// The kinds of steps.
#[derive(Debug, Clone)]
enum Step {
    Submit(u8, f64, f64),
    Grant(u8),
    Deny(u8),
    Urgency(u8, u8),
    Cancel(u8),
    Wait(f64),
    Crash,
    SchedulerDies,
    Stop(bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (1u8..17, 1.0..50.0, 1.0..50.0).prop_map(|(cores, d, l)| Step::Submit(cores, d, l)),
        6 => any::<u8>().prop_map(Step::Grant),
        1 => any::<u8>().prop_map(Step::Deny),
        2 => (any::<u8>(), 0u8..32).prop_map(|(job, urgency)| Step::Urgency(job, urgency)),
        2 => any::<u8>().prop_map(Step::Cancel),
        3 => (0.0..30.0).prop_map(Step::Wait),
        1 => Just(Step::Crash),
        1 => Just(Step::SchedulerDies),
        1 => any::<bool>().prop_map(Step::Stop),
    ];
    prop::collection::vec(step, 1..60)
}

/// A scheduler with a list of free ranks and waiting jobs.
#[derive(Default)]
struct Scheduler {
    held: BTreeMap<u64, R>,
    waiting: Vec<u64>,
}

impl Scheduler {
    fn listen(&mut self, bench: &mut Bench) {
        let frames = bench.frames(SCHED);
        if frames.is_empty() {
            return;
        }
        let (mut answers, mut freed) = (Vec::new(), Vec::new());
        for frame in frames {
            let payload = frame.json_or_empty().unwrap();
            let id = payload["id"].as_u64().unwrap_or(0);
            match frame.topic() {
                "sched.alloc" => {
                    assert!(!self.waiting.contains(&id), "R27-GEN-2: never two requests for one job");
                    self.waiting.push(id);
                }
                "sched.cancel" => {
                    if let Some(at) = self.waiting.iter().position(|job| *job == id) {
                        self.waiting.remove(at);
                        answers.push(json!({ "id": id, "type": 3 }));
                    }
                }
                "sched.free" => {
                    let r = self.held.remove(&id).expect("only what is held is freed");
                    if bench.config.dialect.free_is_answered() {
                        assert_eq!(payload, json!({ "id": id }), "R27-FREE-1");
                        freed.push(id);
                    } else {
                        assert_eq!(R::from_value(&payload["R"]).unwrap().ranks(), r.ranks());
                    }
                }
                "sched.prioritize" => {}
                other => panic!("{other}"),
            }
        }
        for answer in answers {
            bench.respond(answer);
        }
        for id in freed {
            bench.freed(id);
        }
        self.listen(bench);
    }

    fn connect(&mut self, bench: &mut Bench) {
        *self = Scheduler::default();
        bench.ask(SCHED, "service.add", json!({ "service": "sched" })).unwrap();
        for job in bench.hello() {
            let id = job["id"].as_u64().unwrap();
            let lookup = json!({ "id": id, "keys": ["R"], "flags": 3 });
            let found = bench.ask(SCHED, "job-info.lookup", lookup).unwrap();
            self.held.insert(id, R::from_value(&found["R"]).unwrap());
        }
        bench.ask(SCHED, "job-manager.sched-ready", json!({ "mode": "unlimited" })).unwrap();
        self.listen(bench);
    }

    fn pick(&self, n: u8) -> Option<u64> {
        (!self.waiting.is_empty()).then(|| self.waiting[usize::from(n) % self.waiting.len()])
    }

    fn free_rank(&self) -> Option<u32> {
        (0..4).find(|rank| !self.held.values().any(|r| r.ranks().contains(*rank)))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn whatever_happens_no_job_is_lost_or_started_twice(steps in steps(), founding in any::<bool>()) {
        let dialect = if founding { Dialect::Founding } else { Dialect::Current };
        let mut bench = Bench::new(Config { dialect, ..config() });
        let mut sched = Scheduler::default();
        sched.connect(&mut bench);
        let mut ids: Vec<JobId> = Vec::new();
        let pick = |ids: &Vec<JobId>, n: u8| (!ids.is_empty()).then(|| ids[usize::from(n) % ids.len()]);
        for step in steps {
            match step {
                Step::Submit(cores, duration, limit) => ids.push(bench.submit(jobspec(cores.into(), duration, limit))),
                Step::Grant(n) => {
                    if let (Some(id), Some(rank)) = (sched.pick(n), sched.free_rank()) {
                        let given = r(&rank.to_string(), bench.now, bench.now + 25.0);
                        sched.waiting.retain(|job| *job != id);
                        sched.held.insert(id, R::from_value(&given).unwrap());
                        bench.allocate(JobId(id), given);
                    }
                }
                Step::Deny(n) => {
                    if let Some(id) = sched.pick(n) {
                        sched.waiting.retain(|job| *job != id);
                        bench.respond(json!({ "id": id, "type": 2, "note": "no" }));
                    }
                }
                Step::Urgency(n, urgency) => {
                    if let Some(id) = pick(&ids, n) {
                        let _ = bench.ask(TOOL, "job-manager.urgency", json!({ "id": id, "urgency": urgency }));
                    }
                }
                Step::Cancel(n) => {
                    if let Some(id) = pick(&ids, n) {
                        let payload = json!({ "id": id, "severity": 0, "type": "cancel" });
                        let _ = bench.ask(TOOL, "job-manager.raise", payload);
                    }
                }
                Step::Wait(seconds) => bench.advance(seconds),
                Step::Crash => {
                    bench.crash();
                    sched.connect(&mut bench);
                }
                Step::SchedulerDies => {
                    bench.disconnect(SCHED);
                    bench.reconnect(SCHED);
                    sched.connect(&mut bench);
                }
                Step::Stop(start) => {
                    let payload = json!({ "start": start, "all": true });
                    bench.ask(TOOL, "job-manager.queue-start", payload).unwrap();
                }
            }
            sched.listen(&mut bench);
            // The scheduler's allocations are those that the job manager reports.
            let status = bench.ask(TOOL, "job-manager.resource-status", json!({})).unwrap();
            let allocated = R::from_value(&status["allocated"]).unwrap();
            let held = sched.held.values().fold(R::new(), |all, r| all.union(r));
            prop_assert_eq!(allocated.ranks(), held.ranks());
        }
        // Every job ends: held ones are released, and allocations are made until no job waits.
        bench.ask(TOOL, "job-manager.queue-start", json!({ "start": true, "all": true })).unwrap();
        for id in &ids {
            let _ = bench.ask(TOOL, "job-manager.urgency", json!({ "id": id, "urgency": 16 }));
        }
        sched.listen(&mut bench);
        for _ in 0..ids.len() + 1 {
            while let (Some(id), Some(rank)) = (sched.pick(0), sched.free_rank()) {
                let given = r(&rank.to_string(), bench.now, bench.now + 25.0);
                sched.waiting.retain(|job| *job != id);
                sched.held.insert(id, R::from_value(&given).unwrap());
                bench.allocate(JobId(id), given);
                sched.listen(&mut bench);
            }
            bench.advance(100.0);
            sched.listen(&mut bench);
        }
        prop_assert!(sched.held.is_empty() && sched.waiting.is_empty());
        for id in &ids {
            prop_assert_eq!(bench.state(*id), 64);
            prop_assert!(bench.count(*id, "start") <= 1);
            prop_assert_eq!(bench.count(*id, "clean"), 1);
            let job = bench.job(*id);
            let before = job.clone();
            prop_assert!(job.get("result").is_some(), "{}", before);
        }
        bench.crash();
        for id in &ids {
            prop_assert_eq!(bench.state(*id), 64);
        }
    }
}
