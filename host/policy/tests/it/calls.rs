//! Calls into components, well-behaved ones and hostile ones, one case for each breach.

use fluxgate_engine::{
    JobColumns, JobEvent, JobEventKind, Machine, MachineTotals, Policy, PolicyError, SavedState,
};
use fluxgate_formats::JobId;
use fluxgate_policy::{Config, Limits, LoadError, Loader, WasmPolicy};

use crate::support::{LOG, ORDERING, PASS, Wat, Worlds, loader, small};

const STATE: Worlds<'_> = Worlds { state: true, ordering: false, ..ORDERING };
const OBSERVING: Worlds<'_> = Worlds { observing: true, ordering: false, ..ORDERING };

fn columns(rows: usize) -> JobColumns {
    let n = rows as u64;
    JobColumns {
        id: (0..n).map(|i| JobId(u64::MAX - i)).collect(),
        t_submit: (0..n).map(|i| 1000.0 + i as f64).collect(),
        duration: vec![f64::INFINITY; rows],
        priority: vec![16; rows],
        userid: vec![1000; rows],
        queue: vec![0; rows],
        nodes: vec![1; rows],
        cores: vec![32; rows],
        gpus: vec![0; rows],
    }
}

fn load(wat: &Wat, worlds: Worlds<'_>) -> WasmPolicy {
    loader().load(&wat.build(worlds), &Config::new()).unwrap()
}

fn keys_error(wat: &Wat) -> PolicyError {
    load(wat, ORDERING).keys(0.0, &columns(10)).unwrap_err()
}

fn load_error(wat: &Wat, worlds: Worlds<'_>) -> LoadError {
    loader().load(&wat.build(worlds), &Config::new()).unwrap_err()
}

#[test]
fn columns_cross_whole_and_in_batches() {
    let limits = Limits { batch_rows: 7, ..small() };
    let bytes = Wat::default().build(ORDERING);
    let mut policy = Loader::new(limits, None).unwrap().load(&bytes, &Config::new()).unwrap();
    assert_eq!(policy.name(), "odd-one");
    assert!(policy.abilities().ordering && !policy.abilities().scheduling);
    for rows in [0, 1, 7, 8, 50] {
        let jobs = columns(rows);
        assert_eq!(policy.keys(1.5, &jobs).unwrap(), jobs.t_submit, "{rows} rows");
    }
    let snapshot = policy.meter().snapshot();
    let keys = snapshot.calls.iter().find(|row| row.export == "ordering.keys").unwrap();
    assert_eq!(keys.calls, 1 + 1 + 2 + 8);
    assert_eq!(policy.cost().memory, 2 << 16);
    assert!(policy.cost().fuel > 0 && policy.cost().nanos > 0);
}

#[test]
fn the_same_work_takes_the_same_fuel() {
    let fuel = || {
        let mut policy = load(&Wat::default(), ORDERING);
        policy.keys(0.0, &columns(1000)).unwrap();
        policy.cost().fuel
    };
    let first = fuel();
    assert!((0..3).all(|_| fuel() == first));
}

#[test]
fn a_trap_names_the_function_and_kills_the_instance() {
    let wat = Wat {
        keys: "(call $deep) (i32.const 0)".into(),
        more: "(func $deep unreachable)".into(),
        ..Wat::default()
    };
    let mut policy = load(&wat, ORDERING);
    let error = policy.keys(0.0, &columns(1)).unwrap_err();
    assert!(error.to_string().starts_with("trap in ordering.keys: wasm trap: wasm `unreachable`"), "{error}");
    assert!(error.to_string().contains("in deep"), "{error}");
    let calls = policy.cost().calls;
    assert_eq!(policy.keys(0.0, &columns(1)).unwrap_err(), error, "it is never entered again");
    assert_eq!(policy.cost().calls, calls);
}

#[test]
fn the_last_words_are_kept() {
    let more = format!("{LOG} (data (i32.const 700) \"index out of bounds\")");
    let keys = "(call $log (i32.const 0) (i32.const 700) (i32.const 19)) unreachable".into();
    let error = keys_error(&Wat { keys, more, ..Wat::default() });
    assert!(error.to_string().ends_with("its last words: index out of bounds"), "{error}");
}

#[test]
fn endless_loops_run_out_of_fuel_and_recursion_out_of_stack() {
    let error = keys_error(&Wat { keys: "(loop $l (br $l)) (i32.const 0)".into(), ..Wat::default() });
    assert_eq!(error, PolicyError::Fuel { during: "ordering.keys", limit: 10_000_000 + 10 * 20_000 });
    let more = "(func $f (result i32) (i32.add (call $f) (i32.const 1)))".into();
    let error = keys_error(&Wat { keys: "(call $f)".into(), more, ..Wat::default() });
    assert!(matches!(error, PolicyError::Bound { bound: "stack-bytes", .. }), "{error}");
}

#[test]
fn calls_of_one_pass_share_its_fuel() {
    let limits = Limits { fuel_pass: 20_000, fuel_keys_row: 0, ..small() };
    let mut policy =
        Loader::new(limits, None).unwrap().load(&Wat::default().build(ORDERING), &Config::new()).unwrap();
    // Each of them is well within the fuel of one call.
    let error = (0..10_000).find_map(|_| policy.keys(0.0, &columns(10)).err()).expect("no pass ends here");
    assert!(matches!(error, PolicyError::Bound { bound: "fuel-pass", limit: 20_000, .. }), "{error}");
    assert_eq!(policy.keys(0.0, &columns(1)).unwrap_err(), error, "it is dead");
    // The fuel for rows is added, so that many jobs at a time are no breach.
    let limits = Limits { fuel_pass: 20_000, ..small() };
    let mut policy =
        Loader::new(limits, None).unwrap().load(&Wat::default().build(ORDERING), &Config::new()).unwrap();
    assert!((0..1_000).all(|_| policy.keys(0.0, &columns(10)).is_ok()));
}

#[test]
fn the_deadline_stands_behind_the_fuel() {
    let forever = u64::MAX / 2;
    let limits = Limits { fuel_keys: forever, fuel_pass: forever, deadline_ms: 200, ..small() };
    let bytes = Wat { keys: "(loop $l (br $l)) (i32.const 0)".into(), ..Wat::default() }.build(ORDERING);
    let mut policy = Loader::new(limits, None).unwrap().load(&bytes, &Config::new()).unwrap();
    let error = policy.keys(0.0, &columns(1)).unwrap_err();
    assert_eq!(error, PolicyError::Deadline { during: "ordering.keys", limit_ms: 200 });
}

#[test]
fn without_a_clock_fuel_alone_judges() {
    // Longer than the deadline on any machine.
    let (fuel_keys, fuel_pass) = (1_000_000_000, u64::MAX / 2);
    let limits = Limits { fuel_keys, fuel_keys_row: 0, fuel_pass, deadline_ms: 200, ..small() };
    let bytes = Wat { keys: "(loop $l (br $l)) (i32.const 0)".into(), ..Wat::default() }.build(ORDERING);
    let mut policy = Loader::without_clock(limits).unwrap().load(&bytes, &Config::new()).unwrap();
    let error = policy.keys(0.0, &columns(1)).unwrap_err();
    assert_eq!(error, PolicyError::Fuel { during: "ordering.keys", limit: fuel_keys });
    assert_eq!((policy.cost().nanos, policy.cost().calls), (0, 4));
}

#[test]
fn memory_and_tables_are_bounded() {
    let grow = "(block $full (loop $more
        (br_if $full (i32.eq (memory.grow (i32.const 1)) (i32.const -1))) (br $more))) unreachable";
    let error = keys_error(&Wat { keys: grow.into(), ..Wat::default() });
    assert_eq!(error, PolicyError::Memory { during: "ordering.keys", limit: 4 << 20 });
    // A policy that goes on after the denial has not failed.
    let modest = format!("(drop (memory.grow (i32.const 60000))) {}", Wat::default().keys);
    load(&Wat { keys: modest, ..Wat::default() }, ORDERING).keys(0.0, &columns(5)).unwrap();
    let keys =
        "(if (i32.eq (table.grow $t (ref.null func) (i32.const 300000)) (i32.const -1)) (then unreachable))
        (i32.const 0)";
    let error = keys_error(&Wat { keys: keys.into(), more: "(table $t 1 funcref)".into(), ..Wat::default() });
    assert!(error.to_string().starts_with("bound table-elements exceeded in ordering.keys: 300"), "{error}");
    // Too large at the start.
    let error = load_error(&Wat { more: "(table $t 300000 funcref)".into(), ..Wat::default() }, ORDERING);
    assert_eq!(error.kind(), "bound", "{error}");
}

#[test]
fn keys_that_are_no_keys() {
    // A list of one element fewer.
    let short = "(i32.store (i32.const 608) (i32.load offset=16 (local.get 0)))
        (i32.store (i32.const 612) (i32.sub (i32.load offset=20 (local.get 0)) (i32.const 1))) (i32.const 608)";
    let error = keys_error(&Wat { keys: short.into(), ..Wat::default() });
    assert_eq!(error.to_string(), "bad value from ordering.keys: 9 keys for 10 jobs");
    let nan = "(f64.store offset=24 (i32.load offset=16 (local.get 0)) (f64.div (f64.const 0) (f64.const 0)))
        (i32.store (i32.const 608) (i32.load offset=16 (local.get 0)))
        (i32.store (i32.const 612) (i32.load offset=20 (local.get 0))) (i32.const 608)";
    let error = keys_error(&Wat { keys: nan.into(), ..Wat::default() });
    assert_eq!(error.to_string(), "bad value from ordering.keys: the key of row 3 of 10 is not a number");
    // A pointer outside of memory.
    let wild = "(i32.store (i32.const 608) (i32.const 0x7fff0000)) (i32.store (i32.const 612) (i32.const 10))
        (i32.const 608)";
    let error = keys_error(&Wat { keys: wild.into(), ..Wat::default() });
    assert_eq!(error.kind(), "bad-value", "{error}");
}

#[test]
fn a_crossing_copies_a_bounded_number_of_bytes() {
    let limits = Limits { copy_bytes: 64 << 10, ..small() };
    let save = "(drop (memory.grow (i32.const 10))) (i32.store (i32.const 620) (i32.const 1))
        (i32.store (i32.const 624) (i32.const 0)) (i32.store (i32.const 628) (i32.const 0x20000)) (i32.const 620)";
    let bytes = Wat { save: save.into(), ..Wat::default() }.build(STATE);
    let mut policy = Loader::new(limits, None).unwrap().load(&bytes, &Config::new()).unwrap();
    let error = policy.save().unwrap_err();
    assert!(matches!(error, PolicyError::Bound { bound: "copy-bytes", limit: 65536, .. }), "{error}");
}

#[test]
fn state_goes_out_and_in() {
    let mut policy = load(&Wat::default(), STATE);
    let state = policy.save().unwrap();
    assert_eq!(state, SavedState { from: "odd-one".into(), version: 7, data: b"abc".to_vec() });
    policy.restore(&state).unwrap();

    let refuse = "(i32.store8 (i32.const 600) (i32.const 1)) (i32.store (i32.const 604) (i32.const 16))
        (i32.store (i32.const 608) (i32.const 3)) (i32.const 600)";
    let mut policy = load(&Wat { restore: refuse.into(), ..Wat::default() }, STATE);
    assert_eq!(policy.restore(&state).unwrap_err().to_string(), "refused in state.restore: odd");
    policy.save().unwrap();

    let limits = Limits { state_bytes: 2, ..small() };
    let bytes = Wat::default().build(STATE);
    let mut policy = Loader::new(limits, None).unwrap().load(&bytes, &Config::new()).unwrap();
    assert_eq!(policy.save().unwrap_err().to_string(), "bound state-bytes exceeded in state.save: 3 > 2");

    let mut policy = load(&Wat { save: "unreachable".into(), ..Wat::default() }, STATE);
    assert_eq!(policy.save().unwrap_err().kind(), "trap");
}

#[test]
fn events_cross() {
    // Traps unless the third event has the expected fields.
    let observe = "(if (i32.ne (local.get 2) (i32.const 3)) (then unreachable))
        (if (i64.ne (i64.load offset=72 (local.get 1)) (i64.const -2)) (then unreachable))
        (if (i32.ne (i32.load8_u offset=64 (local.get 1)) (i32.const 5)) (then unreachable))
        (if (f64.ne (f64.load offset=88 (local.get 1)) (f64.const 30.5)) (then unreachable))";
    let mut policy = load(&Wat { observe: observe.into(), ..Wat::default() }, OBSERVING);
    let event = |kind| JobEvent { kind, job: JobId(u64::MAX - 1), time: 20.0, value: 30.5 };
    let events =
        [event(JobEventKind::Pending), event(JobEventKind::Started), event(JobEventKind::Expiration)];
    policy.observe(21.0, &events).unwrap();
    policy.observe(21.0, &[]).unwrap();
}

#[test]
fn the_log_is_bounded() {
    let more = format!("{LOG} (global $n (mut i32) (i32.const 0))");
    // A thousand messages of 64 KiB.
    let keys = "(global.set $n (i32.const 1000))
        (loop $l (call $log (i32.const 3) (i32.const 65536) (i32.const 65536))
          (global.set $n (i32.sub (global.get $n) (i32.const 1))) (br_if $l (global.get $n)))
        (i32.const 648)";
    let wat = Wat { keys: keys.into(), more, ..Wat::default() };
    let limits = Limits { log_burst: 5, log_refill: 2, fuel_keys: 100_000_000, ..small() };
    let mut policy = Loader::new(limits, None).unwrap().load(&wat.build(ORDERING), &Config::new()).unwrap();
    assert!(policy.keys(0.0, &columns(0)).unwrap().is_empty());
    // Without rows there is no call.
    assert_eq!(policy.meter().snapshot().log_written, 0);
    let error = policy.keys(0.0, &columns(1)).unwrap_err();
    assert_eq!(error.kind(), "bad-value", "{error}");
    let snapshot = policy.meter().snapshot();
    assert_eq!((snapshot.log_written, snapshot.log_dropped, snapshot.log_cut), (5, 995, 5));
    // Queries are counted as well as charged.
    let limits = Limits { questions: 100, fuel_keys: 100_000_000, ..small() };
    let mut policy = Loader::new(limits, None).unwrap().load(&wat.build(ORDERING), &Config::new()).unwrap();
    let error = policy.keys(0.0, &columns(1)).unwrap_err();
    assert!(
        matches!(error, PolicyError::Bound { bound: "questions", limit: 100, found: 101, .. }),
        "{error}"
    );
    // Text that crosses is charged as fuel.
    let limits = Limits { fuel_keys: 30 << 20, fuel_keys_row: 0, ..small() };
    let mut policy = Loader::new(limits, None).unwrap().load(&wat.build(ORDERING), &Config::new()).unwrap();
    assert_eq!(policy.keys(0.0, &columns(1)).unwrap_err().kind(), "fuel");
}

#[test]
fn a_pass_is_there_only_in_a_pass() {
    let wat = Wat { keys: "(drop (call $now)) (i32.const 0)".into(), more: PASS.into(), ..Wat::default() };
    let error = keys_error(&wat);
    assert_eq!(error.to_string(), "trap in ordering.keys: pass.now was called outside of scheduling.run");
}

#[test]
fn the_machine_is_seen_outside_of_a_pass() {
    let more = r#"(import "fluxgate:policy/machine@0.1.0" "totals" (func $totals (param i32)))
        (import "fluxgate:policy/machine@0.1.0" "queue-count" (func $queues (result i32)))
        (import "fluxgate:policy/machine@0.1.0" "queue-name" (func $queue (param i32 i32)))"#;
    // The key is cores * 1000 + queues * 100 + length of the second queue's name.
    let keys = "(call $totals (i32.const 640)) (call $queue (i32.const 1) (i32.const 700))
        (f64.store (i32.const 720) (f64.convert_i32_u (i32.add
          (i32.mul (i32.load (i32.const 644)) (i32.const 1000))
          (i32.add (i32.mul (call $queues) (i32.const 100)) (i32.load (i32.const 704))))))
        (i32.store (i32.const 608) (i32.const 720)) (i32.store (i32.const 612) (i32.const 1)) (i32.const 608)";
    let mut policy = load(&Wat { keys: keys.into(), more: more.into(), ..Wat::default() }, ORDERING);
    assert_eq!(policy.keys(0.0, &columns(1)).unwrap(), [0.0]);
    let totals = MachineTotals { cores: 64, ..MachineTotals::default() };
    policy.machine(Machine { totals, queues: ["".to_owned(), "debug".to_owned()].into() });
    assert_eq!(policy.keys(0.0, &columns(1)).unwrap(), [64_205.0]);
}

#[test]
fn failures_before_the_first_call() {
    let start = "(func $s (loop $l (br $l))) (start $s)";
    let error = load_error(&Wat { more: start.into(), ..Wat::default() }, ORDERING);
    assert_eq!(error.to_string(), "out of fuel in start-up: more than 10000000 units");
    let error =
        load_error(&Wat { more: "(func $s unreachable) (start $s)".into(), ..Wat::default() }, ORDERING);
    assert!(error.to_string().starts_with("trap in start-up: wasm trap: wasm `unreachable`"), "{error}");
    let error = load_error(&Wat { describe: "unreachable".into(), ..Wat::default() }, ORDERING);
    assert!(error.to_string().starts_with("trap in policy.describe"), "{error}");
    let error =
        load_error(&Wat { configure: "(loop $l (br $l)) unreachable".into(), ..Wat::default() }, ORDERING);
    assert_eq!(error.kind(), "fuel");
    let refuse = "(i32.store8 (i32.const 600) (i32.const 1)) (i32.store (i32.const 604) (i32.const 48))
        (i32.store (i32.const 608) (i32.const 6)) (i32.const 600)";
    let error = load_error(&Wat { configure: refuse.into(), ..Wat::default() }, ORDERING);
    assert_eq!(error.to_string(), "refused in policy.configure: a test");
    // A name of 65,536 bytes, a name that is not UTF-8, and a description that changes.
    let long = "(i32.store (i32.const 516) (i32.const 65536)) (i32.const 512)";
    let error = load_error(&Wat { describe: long.into(), ..Wat::default() }, ORDERING);
    assert!(error.to_string().contains("(65536 bytes); accepted are 1 to 64"), "{error}");
    let binary = "(i32.store (i32.const 16) (i32.const -1)) (i32.const 512)";
    let error = load_error(&Wat { describe: binary.into(), ..Wat::default() }, ORDERING);
    assert_eq!(error.kind(), "bad-value", "{error}");
}

#[test]
fn configuration_is_checked_before_the_policy_sees_it() {
    let bytes = Wat { configure: "unreachable".into(), ..Wat::default() }.build(ORDERING);
    let set = Config::from([("depth".to_owned(), "3".to_owned())]);
    let error = loader().load(&bytes, &set).unwrap_err();
    assert_eq!(error.to_string(), "policy odd-one has no configuration key \"depth\"; it has none");
}
