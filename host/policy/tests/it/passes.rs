//! Components as active policies of an engine: passes that succeed, and every way in which one fails.
//!
//! With any policy the jobs start: by the policy, or in the same pass by the built-in one.

use std::sync::{Arc, OnceLock};

use fluxgate_engine::{Action, BUILTIN, Config as EngineConfig, Engine, Event, PolicyNotice};
use fluxgate_formats::{Idset, JobId, Jobspec, R};
use fluxgate_graph::Resources;
use fluxgate_policy::{Compiled, Config, Limits, Loader, WasmPolicy};
use fluxgate_testing::component;
use serde_json::json;

use crate::support::{ORDERING, PASS, Wat, Worlds, loader, small};

const SCHEDULING: Worlds<'_> = Worlds { scheduling: true, ordering: false, ..ORDERING };

/// Four nodes of four cores, all up.
fn engine() -> Engine {
    let r = json!({
        "version": 1,
        "execution": {
            "R_lite": [{"rank": "0-3", "children": {"core": "0-3"}}],
            "nodelist": ["n[0-3]"], "starttime": 0.0, "expiration": 0.0,
        },
    });
    let mut resources = Resources::from_r(&R::from_json(&r.to_string()).unwrap()).unwrap();
    resources.set_up(&"0-3".parse::<Idset>().unwrap());
    Engine::new(resources, EngineConfig::default())
}

/// A job of a number of whole nodes for a number of seconds.
pub(crate) fn alloc(id: u64, nodes: u64, duration: f64) -> Event {
    let spec = json!({
        "version": 1,
        "resources": [{"type": "node", "count": nodes, "with": [
            {"type": "slot", "count": 1, "label": "task", "with": [{"type": "core", "count": 4}]}]}],
        "tasks": [{"command": ["true"], "slot": "task", "count": {"per_slot": 1}}],
        "attributes": {"system": {"duration": duration}},
    });
    let jobspec = Arc::new(Jobspec::from_json(&spec.to_string()).unwrap());
    Event::Alloc { id: JobId(id), priority: 16, userid: 1000, t_submit: id as f64, jobspec }
}

/// The actions in short form.
pub(crate) fn told(actions: &[Action]) -> Vec<String> {
    let word = |action: &Action| match action {
        Action::Start { id, r, .. } => Some(format!("start {} on {}", id.0, r.ranks())),
        Action::Notice(PolicyNotice::Swapped { from, to, state }) => {
            Some(format!("{from} -> {to}, state {state}"))
        }
        Action::Notice(PolicyNotice::SwapFailed { name, error }) => {
            Some(format!("{name} not taken: {}", error.kind()))
        }
        Action::Notice(PolicyNotice::Failed { name, error }) => {
            Some(format!("{name} failed: {}", error.kind()))
        }
        _ => None,
    };
    actions.iter().filter_map(word).collect()
}

/// Makes a policy the active one of an engine without jobs.
pub(crate) fn in_charge(policy: WasmPolicy) -> Engine {
    let mut engine = engine();
    engine.swap(Box::new(policy)).unwrap();
    let notices = told(&engine.pass(0.0));
    assert_eq!(notices.len(), 1, "{notices:?}");
    engine
}

fn made(run: &str) -> WasmPolicy {
    let wat = Wat { run: run.into(), more: PASS.into(), ..Wat::default() };
    loader().load(&wat.build(SCHEDULING), &Config::new()).unwrap()
}

/// Two jobs on the engine, one pass.
fn two_jobs(engine: &mut Engine) -> Vec<String> {
    for id in [1, 2] {
        assert!(told(&engine.step(alloc(id, 2, 100.0), 10.0)).is_empty());
    }
    told(&engine.pass(10.0))
}

#[test]
fn every_breach_in_a_pass_ends_in_the_same_pass_by_the_builtin_policy() {
    let next = "(drop (call $next))";
    let cases = [
        ("trap at once", "unreachable".to_owned(), "trap"),
        ("trap with a start staged", "(call $start (call $next) (i32.const 700)) unreachable".to_owned(), "trap"),
        ("unknown candidate", "(call $start (i32.const 12345) (i32.const 700))".to_owned(), "bad-decision"),
        ("unknown candidate asked", "(drop (call $fits (i32.const -1)))".to_owned(), "bad-decision"),
        (
            "the same twice",
            "(local $c i32) (local.set $c (call $next)) (call $start (local.get $c) (i32.const 700))
             (call $start (local.get $c) (i32.const 700))"
                .to_owned(),
            "bad-decision",
        ),
        ("endless loop", "(loop $l (br $l))".to_owned(), "fuel"),
        ("endless questions", "(loop $l (drop (call $next)) (br $l))".to_owned(), "fuel"),
        (
            "endless plans",
            "(local $c i32) (local.set $c (call $next)) (loop $l (drop (call $earliest (local.get $c))) (br $l))"
                .to_owned(),
            "fuel",
        ),
        (
            "a placement that was never given",
            "(call $start-placed (call $next) (i32.const 77) (i32.const 700))".to_owned(),
            "bad-decision",
        ),
        (
            "a memory of annotation",
            "(call $annotate (call $next) (i32.const 16) (i32.const 7) (i32.const 65536) (i32.const 65536))".to_owned(),
            "bound",
        ),
        (
            "annotation out of memory",
            "(call $annotate (call $next) (i32.const 16) (i32.const 7) (i32.const 0) (i32.const 0x7fffffff))".to_owned(),
            "bad-value",
        ),
        ("memory", format!("{next} (loop $l (br_if $l (i32.ne (memory.grow (i32.const 1)) (i32.const -1)))) unreachable"), "memory"),
    ];
    for (name, run, kind) in cases {
        let mut engine = in_charge(made(&run));
        let expected = [format!("odd-one failed: {kind}"), "start 1 on 0-1".into(), "start 2 on 2-3".into()];
        assert_eq!(two_jobs(&mut engine), expected, "{name}");
        assert_eq!(engine.policy_name(), BUILTIN);
        assert_eq!((engine.running(), engine.pending()), (2, 0), "{name}");
    }
}

/// Imports in text form, and the world that has them.
const FLOW: &str = r#"
  (import "fluxgate:policy/flow@0.1.0" "kinds" (func $kinds (param i32)))
  (import "fluxgate:policy/flow@0.1.0" "asked" (func $asked (param i32 i32 i32)))
  (import "fluxgate:policy/flow@0.1.0" "spans" (func $spans (param i32 i32)))
  (import "fluxgate:policy/flow@0.1.0" "earliest-after" (func $earliest-after (param i32 f64) (result f64)))
  (import "fluxgate:policy/flow@0.1.0" "reserve-after" (func $reserve-after (param i32 f64 i32)))
"#;

fn asking_for_flow(run: &str, observe: &str) -> WasmPolicy {
    importing("flow", "import fluxgate:policy/flow@0.1.0;", FLOW, run, observe)
}

/// A policy that imports an interface which the contract gained.
pub(crate) fn importing(
    file: &str,
    extra: &'static str,
    imports: &str,
    run: &str,
    observe: &str,
) -> WasmPolicy {
    let gained = fluxgate_testing::root().join("wit/0.1.0").join(file).with_extension("wit");
    let gained = std::fs::read_to_string(gained).unwrap();
    let gained = gained.replacen("package fluxgate:policy@0.1.0;", "", 1);
    let worlds = Worlds { observing: !observe.is_empty(), extra, ..SCHEDULING };
    let wat =
        Wat { run: run.into(), observe: observe.into(), more: format!("{PASS}{imports}"), ..Wat::default() };
    loader().load(&wat.build(Worlds { contract_more: &gained, ..worlds }), &Config::new()).unwrap()
}

#[test]
fn what_flows_is_asked_within_the_contract_or_the_pass_is_anothers() {
    let cases = [
        ("not a number", "(drop (call $earliest-after (call $next) (f64.const nan)))", "bad-decision"),
        ("not a number to reserve", "(call $reserve-after (call $next) (f64.const nan) (i32.const 704))", "bad-decision"),
        ("unknown candidate", "(drop (call $earliest-after (i32.const 77) (f64.const 0)))", "bad-decision"),
        ("unknown candidate to reserve", "(call $reserve-after (i32.const 77) (f64.const 0) (i32.const 704))", "bad-decision"),
        (
            "unknown candidate asked about",
            "(i32.store (i32.const 640) (i32.const 77)) (call $asked (i32.const 640) (i32.const 1) (i32.const 700))",
            "bad-decision",
        ),
        (
            "reserved twice",
            "(local $c i32) (local.set $c (call $next)) (call $reserve-after (local.get $c) (f64.const 0) (i32.const 704))
             (call $reserve-after (local.get $c) (f64.const 0) (i32.const 704))",
            "bad-decision",
        ),
        ("endless questions", "(loop $l (call $kinds (i32.const 700)) (br $l))", "fuel"),
        (
            "endless plans",
            "(local $c i32) (local.set $c (call $next))
             (loop $l (drop (call $earliest-after (local.get $c) (f64.const 1e9))) (br $l))",
            "fuel",
        ),
    ];
    for (name, run, kind) in cases {
        let mut engine = in_charge(asking_for_flow(run, ""));
        let expected = [format!("odd-one failed: {kind}"), "start 1 on 0-1".into(), "start 2 on 2-3".into()];
        assert_eq!(two_jobs(&mut engine), expected, "{name}");
    }
    // Infinity is no time, a past time means now, and a reservation starts at the given time.
    let run = "(local $c i32) (local.set $c (call $next))
        (if (f64.ne (call $earliest-after (local.get $c) (f64.const inf)) (f64.const inf)) (then unreachable))
        (if (f64.ne (call $earliest-after (local.get $c) (f64.const -5)) (call $now)) (then unreachable))
        (if (f64.ne (call $earliest-after (local.get $c) (f64.const 1234.5)) (f64.const 1234.5)) (then unreachable))
        (call $reserve-after (local.get $c) (f64.const 1234.5) (i32.const 704))
        (if (i32.load8_u (i32.const 704)) (then unreachable))
        (if (f64.ne (f64.load (i32.const 712)) (f64.const 1234.5)) (then unreachable))
        ;; the other one takes the rest of the machine, for less time
        (call $start (call $next) (i32.const 704))";
    let mut engine = in_charge(asking_for_flow(run, ""));
    assert_eq!(two_jobs(&mut engine), ["start 2 on 0-1"]);
    // Outside of a pass there is no flow to query.
    let mut engine = in_charge(asking_for_flow("", "(call $kinds (i32.const 700))"));
    let told = two_jobs(&mut engine);
    assert_eq!(told, ["odd-one failed: trap", "start 1 on 0-1", "start 2 on 2-3"]);
}

const RESOURCES: &str = r#"
  (import "fluxgate:policy/resources@0.1.0" "kinds" (func $kinds (param i32)))
  (import "fluxgate:policy/resources@0.1.0" "asked" (func $asked (param i32 i32 i32)))
"#;

#[test]
fn resources_are_asked_within_the_contract_or_the_pass_is_anothers() {
    let asking = |run: &str, observe: &str| {
        importing("resources", "import fluxgate:policy/resources@0.1.0;", RESOURCES, run, observe)
    };
    let others = ["start 1 on 0-1".to_owned(), "start 2 on 2-3".to_owned()];
    for (name, run, kind) in [
        (
            "unknown candidate",
            "(i32.store (i32.const 640) (i32.const 77)) (call $asked (i32.const 640) (i32.const 1) (i32.const 700))",
            "bad-decision",
        ),
        ("endless questions", "(loop $l (call $kinds (i32.const 700)) (br $l))", "fuel"),
    ] {
        let told = two_jobs(&mut in_charge(asking(run, "")));
        assert_eq!((&told[0], &told[1..]), (&format!("odd-one failed: {kind}"), &others[..]), "{name}");
    }
    let told = two_jobs(&mut in_charge(asking("", "(call $kinds (i32.const 700))")));
    assert_eq!((told[0].as_str(), &told[1..]), ("odd-one failed: trap", &others[..]), "outside of a pass");
    // This machine has nothing beside nodes and cores: no kind, and no amount for a candidate.
    let run = "(call $kinds (i32.const 700)) (if (i32.load (i32.const 704)) (then unreachable))
        (i32.store (i32.const 640) (call $next))
        (call $asked (i32.const 640) (i32.const 1) (i32.const 700)) (if (i32.load (i32.const 704)) (then unreachable))
        (call $start (i32.load (i32.const 640)) (i32.const 704))";
    assert_eq!(two_jobs(&mut in_charge(asking(run, ""))), ["start 1 on 0-1"]);
}

const ATTRIBUTES: &str = r#"
  (import "fluxgate:policy/attributes@0.1.0" "text" (func $text (param i32 i32 i32 i32 i32)))
  (import "fluxgate:policy/attributes@0.1.0" "numbers" (func $numbers (param i32 i32 i32 i32 i32)))
  (data (i32.const 800) "memory")
  (data (i32.const 808) "group")
"#;

/// As [`alloc`], with these attributes of its own.
fn alloc_with(id: u64, attributes: serde_json::Value) -> Event {
    let Event::Alloc { priority, userid, t_submit, jobspec, id } = alloc(id, 4, 100.0) else {
        unreachable!()
    };
    let mut jobspec = (*jobspec).clone();
    jobspec.set_system_attr("fluxgate.attributes", attributes).unwrap();
    Event::Alloc { id, priority, userid, t_submit, jobspec: Arc::new(jobspec) }
}

#[test]
fn res_15_memory_and_group_decide() {
    let asking = |run: &str, observe: &str| {
        importing("attributes", "import fluxgate:policy/attributes@0.1.0;", ATTRIBUTES, run, observe)
    };
    // Starts the first candidate that has at least 2e9 bytes, or whose group has 7 bytes; both lists are asked at once.
    let run = "(local $n i32) (local $i i32) (local $c i32)
        (block $end (loop $each
          (local.set $c (call $next))
          (br_if $end (i32.eq (local.get $c) (i32.const -1)))
          (i32.store (i32.add (i32.const 640) (i32.mul (i32.const 4) (local.get $n))) (local.get $c))
          (local.set $n (i32.add (local.get $n) (i32.const 1)))
          (br $each)))
        (call $numbers (i32.const 800) (i32.const 6) (i32.const 640) (local.get $n) (i32.const 700))
        (call $text (i32.const 808) (i32.const 5) (i32.const 640) (local.get $n) (i32.const 712))
        (if (i32.ne (i32.load (i32.const 704)) (local.get $n)) (then unreachable))
        (if (i32.ne (i32.load (i32.const 716)) (local.get $n)) (then unreachable))
        (loop $each
          (if (i32.lt_u (local.get $i) (local.get $n)) (then
            (local.set $c (i32.add (i32.load (i32.const 712)) (i32.mul (i32.const 12) (local.get $i))))
            (if (i32.or
                  (f64.ge (f64.load (i32.add (i32.load (i32.const 700)) (i32.mul (i32.const 8) (local.get $i)))) (f64.const 2e9))
                  (i32.and (i32.load8_u (local.get $c)) (i32.eq (i32.load (i32.add (local.get $c) (i32.const 8))) (i32.const 7))))
              (then
                (call $start (i32.load (i32.add (i32.const 640) (i32.mul (i32.const 4) (local.get $i)))) (i32.const 760))
                (return)))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br $each))))";
    let policy = asking(run, "");
    assert!(fluxgate_engine::Policy::reads_attributes(&policy));
    let mut engine = in_charge(policy);
    let attributes = [
        json!({"group": "art"}),
        json!({}),
        json!({"memory": 3_000_000_000_u64}),
        json!({"group": "physics"}),
    ];
    for (id, attributes) in (1..).zip(attributes) {
        engine.step(alloc_with(id, attributes), 10.0);
    }
    assert_eq!(told(&engine.pass(10.0)), ["start 3 on 0-3"], "memory");
    engine.step(Event::Free { id: JobId(3), ranks: None, last: true }, 20.0);
    assert_eq!(told(&engine.pass(20.0)), ["start 4 on 0-3"], "group");
    engine.step(Event::Free { id: JobId(4), ranks: None, last: true }, 30.0);
    assert!(told(&engine.pass(30.0)).is_empty(), "nobody else has either");

    // The state of an engine has them through the jobspecs of its jobs.
    let (checkpoint, _) = engine.checkpoint().unwrap();
    let spec = |id: JobId| match alloc_with(id.0, json!({"memory": 2_000_000_000_u64})) {
        Event::Alloc { jobspec, .. } => Some(jobspec),
        _ => None,
    };
    let mut resumed =
        Engine::resume(&checkpoint, spec, Some(Box::new(asking(run, ""))), Default::default()).unwrap();
    resumed.step(Event::Up(Idset::new()), 40.0);
    assert_eq!(told(&resumed.pass(40.0)), ["start 1 on 0-3"]);

    // A policy that does not ask has an engine that keeps none.
    let plain = in_charge(made(""));
    assert!(engine.keeps_attributes() && !plain.keeps_attributes());
    let mut late = plain;
    late.step(alloc_with(1, json!({"memory": 3_000_000_000_u64})), 10.0);
    late.swap(Box::new(asking(run, ""))).unwrap();
    late.pass(10.0);
    late.step(alloc_with(2, json!({"memory": 3_000_000_000_u64})), 20.0);
    assert_eq!(told(&late.pass(20.0)), ["start 2 on 0-3"], "job 1 was submitted before anybody asked");
}

#[test]
fn res_15_attributes_are_asked_within_the_contract_or_the_pass_is_anothers() {
    let asking = |run: &str, observe: &str| {
        importing("attributes", "import fluxgate:policy/attributes@0.1.0;", ATTRIBUTES, run, observe)
    };
    let others = ["start 1 on 0-1".to_owned(), "start 2 on 2-3".to_owned()];
    let ask = |function: &str| {
        format!(
            "(call {function} (i32.const 800) (i32.const 6) (i32.const 640) (i32.const 1) (i32.const 700))"
        )
    };
    for function in ["$text", "$numbers"] {
        let unknown = format!("(i32.store (i32.const 640) (i32.const 77)) {}", ask(function));
        let told = two_jobs(&mut in_charge(asking(&unknown, "")));
        assert_eq!((told[0].as_str(), &told[1..]), ("odd-one failed: bad-decision", &others[..]));
        let endless = format!("(i32.store (i32.const 640) (call $next)) (loop $l {} (br $l))", ask(function));
        let told = two_jobs(&mut in_charge(asking(&endless, "")));
        assert_eq!((told[0].as_str(), &told[1..]), ("odd-one failed: fuel", &others[..]));
        let told = two_jobs(&mut in_charge(asking("", &ask(function))));
        assert_eq!(
            (told[0].as_str(), &told[1..]),
            ("odd-one failed: trap", &others[..]),
            "outside of a pass"
        );
    }
    // An attribute with an unknown name is unknown for every job.
    let run = "(i32.store (i32.const 640) (call $next))
        (call $numbers (i32.const 816) (i32.const 5) (i32.const 640) (i32.const 1) (i32.const 700))
        (if (f64.eq (f64.load (i32.load (i32.const 700))) (f64.load (i32.load (i32.const 700)))) (then unreachable))
        (call $text (i32.const 816) (i32.const 5) (i32.const 640) (i32.const 1) (i32.const 700))
        (if (i32.load8_u (i32.load (i32.const 700))) (then unreachable))
        (call $start (i32.load (i32.const 640)) (i32.const 704))";
    assert_eq!(two_jobs(&mut in_charge(asking(run, ""))), ["start 1 on 0-1"]);
}

#[test]
fn a_policy_that_does_nothing_starts_nothing_and_is_no_breach() {
    let mut engine = in_charge(made(""));
    assert!(two_jobs(&mut engine).is_empty());
    assert_eq!(engine.pending(), 2);
    // The next policy works.
    let fcfs = Wat::default();
    let plain =
        loader().load(&fcfs.build(Worlds { scheduling: false, ..SCHEDULING }), &Config::new()).unwrap();
    engine.swap(Box::new(plain)).unwrap();
    let told = told(&engine.pass(11.0));
    assert_eq!(told, ["odd-one -> odd-one, state false", "start 1 on 0-1", "start 2 on 2-3"]);
}

#[test]
fn a_pass_with_too_many_questions_is_told_to_end_before_it_is_a_breach() {
    let limits = Limits { fuel_fit: 6_000_000, ..small() };
    let run = "(call $start (call $next) (i32.const 700)) (call $start (call $next) (i32.const 704))
        ;; the second answer is the error `limit`
        (if (i32.ne (i32.load8_u (i32.const 704)) (i32.const 1)) (then unreachable))
        (if (i32.ne (i32.load8_u (i32.const 705)) (i32.const 4)) (then unreachable))";
    let wat = Wat { run: run.into(), more: PASS.into(), ..Wat::default() };
    let policy = Loader::new(limits, None).unwrap().load(&wat.build(SCHEDULING), &Config::new()).unwrap();
    let mut engine = in_charge(policy);
    assert_eq!(two_jobs(&mut engine), ["start 1 on 0-1"]);
}

#[test]
fn easy_backfills_and_fcfs_does_not() {
    for (name, starts) in [("fcfs", vec!["start 1 on 0-1"]), ("easy", vec!["start 1 on 0-1", "start 3 on 2"])]
    {
        let Some(path) = component(name) else { return };
        let policy = Loader::new(Limits::default(), None).unwrap().load_file(&path, &Config::new()).unwrap();
        let mut engine = in_charge(policy);
        // Two nodes for 100 s; then all four, which must wait; then one node for 50 s, which may pass; then
        // one for 500 s, which may not.
        for job in [alloc(1, 2, 100.0), alloc(2, 4, 100.0), alloc(3, 1, 50.0), alloc(4, 1, 500.0)] {
            engine.step(job, 10.0);
        }
        assert_eq!(told(&engine.pass(10.0)), starts, "{name}");
        engine.step(Event::Free { id: JobId(1), ranks: None, last: true }, 110.0);
        if name == "easy" {
            engine.step(Event::Free { id: JobId(3), ranks: None, last: true }, 110.0);
        }
        assert_eq!(told(&engine.pass(110.0)), ["start 2 on 0-3"], "{name}");
    }
}

fn broken(mode: &str, when: &str) -> Option<WasmPolicy> {
    static COMPILED: OnceLock<Compiled> = OnceLock::new();
    let file = component("broken")?;
    let compiled = COMPILED.get_or_init(|| {
        let limits = Limits { memory_bytes: 64 << 20, ..Limits::default() };
        Loader::new(limits, None).unwrap().compile_file(&file).unwrap()
    });
    let config = Config::from([("mode".into(), mode.into()), ("when".into(), when.into())]);
    Some(compiled.instantiate(&config).unwrap())
}

#[test]
fn broken_in_a_pass_loses_nothing() {
    let modes = [
        ("trap", "trap"),
        ("loop", "fuel"),
        ("memory", "memory"),
        ("stack", "trap"),
        ("unknown-job", "bad-decision"),
        ("duplicate", "bad-decision"),
        ("annotation-bomb", "bound"),
    ];
    for when in ["first-pass", "mid-pass"] {
        for (mode, kind) in modes {
            let Some(policy) = broken(mode, when) else { return };
            let mut engine = in_charge(policy);
            let expected =
                [format!("broken failed: {kind}"), "start 1 on 0-1".into(), "start 2 on 2-3".into()];
            assert_eq!(two_jobs(&mut engine), expected, "{mode} at {when}");
        }
    }
}

#[test]
fn a_million_messages_are_dropped_and_counted_and_no_breach() {
    let Some(policy) = broken("log-bomb", "first-pass") else { return };
    let meter = policy.meter();
    let mut engine = in_charge(policy);
    assert_eq!(two_jobs(&mut engine), ["start 1 on 0-1", "start 2 on 2-3"]);
    let snapshot = meter.snapshot();
    assert!(snapshot.log_dropped > 900_000 && snapshot.log_written < 1_000, "{snapshot:?}");
}

#[test]
fn broken_in_a_swap_leaves_the_other_in_charge() {
    // As the successor: it fails to restore the state, and the old policy stays active.
    let (Some(good), Some(bad)) = (broken("none", "load"), broken("trap", "swap")) else { return };
    let mut engine = in_charge(good);
    let error = engine.swap(Box::new(bad)).unwrap_err().to_string();
    assert!(error.starts_with("broken: trap in state.restore"), "{error}");
    assert_eq!(engine.policy_name(), "broken");
    assert_eq!(two_jobs(&mut engine), ["start 1 on 0-1", "start 2 on 2-3"]);

    // As the predecessor: it fails to save its state, and the new policy starts cold.
    let (Some(good), Some(bad)) = (broken("none", "load"), broken("trap-in-save", "swap")) else { return };
    let mut engine = in_charge(bad);
    assert_eq!(told(&engine.swap(Box::new(good)).unwrap()), ["broken failed: trap"]);
    assert_eq!(two_jobs(&mut engine).last().unwrap(), "start 2 on 2-3");
    assert_eq!(engine.policy_name(), "broken");

    // Both work: the state is handed over.
    let (Some(old), Some(new)) = (broken("none", "load"), broken("none", "load")) else { return };
    let mut engine = in_charge(old);
    engine.swap(Box::new(new)).unwrap();
    assert_eq!(told(&engine.pass(1.0)), ["broken -> broken, state true"]);
}
