//! The policies of this repository, as components. Needs `cargo xtask policies`; skipped without.

use std::sync::OnceLock;

use fluxgate_engine::{JobColumns, JobEvent, JobEventKind, Policy, PolicyError};
use fluxgate_formats::JobId;
use fluxgate_policy::{Compiled, Config, Limits, Loader, WasmPolicy};
use fluxgate_testing::{SHIPPED, component};

fn columns(durations: &[f64]) -> JobColumns {
    let rows = durations.len();
    JobColumns {
        id: (0..rows as u64).map(JobId).collect(),
        t_submit: vec![1.0; rows],
        duration: durations.to_vec(),
        priority: vec![16; rows],
        userid: vec![1000; rows],
        queue: vec![0; rows],
        nodes: vec![1; rows],
        cores: vec![1; rows],
        gpus: vec![0; rows],
    }
}

#[test]
fn all_of_them_load_with_their_defaults() {
    for name in SHIPPED {
        let Some(path) = component(name) else { return };
        let policy = Loader::new(Limits::default(), None).unwrap().load_file(&path, &Config::new()).unwrap();
        assert_eq!(policy.name(), name);
        // Loading takes a thousandth of the bound, so there is no false alarm on any machine.
        for row in policy.meter().snapshot().calls {
            assert!(row.fuel_max < 2_000_000, "{name}: {row:?}");
        }
    }
}

#[test]
fn sjf_puts_short_jobs_first() {
    let Some(path) = component("sjf") else { return };
    let mut policy = Loader::new(Limits::default(), None).unwrap().load_file(&path, &Config::new()).unwrap();
    let keys = policy.keys(0.0, &columns(&[30.0, 10.0, f64::INFINITY, 20.0])).unwrap();
    assert!(keys[1] < keys[3] && keys[3] < keys[0] && keys[0] < keys[2], "{keys:?}");
}

fn broken(mode: &str, when: &str) -> Option<Result<WasmPolicy, String>> {
    static COMPILED: OnceLock<Compiled> = OnceLock::new();
    let file = component("broken")?;
    let compiled = COMPILED.get_or_init(|| {
        let limits = Limits { memory_bytes: 16 << 20, ..Limits::default() };
        Loader::new(limits, None).unwrap().compile_file(&file).unwrap()
    });
    let config = Config::from([("mode".into(), mode.into()), ("when".into(), when.into())]);
    Some(compiled.instantiate(&config).map_err(|error| error.kind().to_owned()))
}

/// The error of each mode outside of a pass.
const MODES: [(&str, &str); 7] = [
    ("trap", "trap"),
    ("loop", "fuel"),
    ("memory", "memory"),
    ("stack", "trap"),
    ("unknown-job", "trap"),
    ("duplicate", "trap"),
    ("annotation-bomb", "trap"),
];

#[test]
fn misbehaviour_at_load_is_a_typed_refusal() {
    for (mode, kind) in MODES {
        let Some(loaded) = broken(mode, "load") else { return };
        assert_eq!(loaded.err().as_deref(), Some(kind), "{mode}");
    }
    assert!(broken("none", "load").unwrap().is_ok());
    // Text that crosses costs fuel, whether it is kept or dropped.
    assert_eq!(broken("log-bomb", "load").unwrap().err().as_deref(), Some("fuel"));
}

#[test]
fn misbehaviour_in_any_call_is_a_typed_error() {
    type Call = fn(&mut WasmPolicy) -> Result<(), PolicyError>;
    let event = |policy: &mut WasmPolicy| {
        policy.observe(1.0, &[JobEvent { kind: JobEventKind::Pending, job: JobId(1), time: 1.0, value: 0.0 }])
    };
    let moments: [(&str, Call); 3] = [
        ("observe", event),
        ("keys", |policy| policy.keys(1.0, &columns(&[1.0, 2.0])).map(drop)),
        ("swap", |policy| policy.save().map(drop)),
    ];
    for (when, call) in moments {
        for (mode, kind) in MODES {
            let Some(loaded) = broken(mode, when) else { return };
            let mut policy =
                loaded.unwrap_or_else(|kind| panic!("{mode} at {when}: refused at load: {kind}"));
            let error = call(&mut policy).unwrap_err();
            assert_eq!(error.kind(), kind, "{mode} at {when}: {error}");
        }
    }
    for (mode, kind) in [("nan-key", "bad-value"), ("short-keys", "bad-value")] {
        let mut policy = broken(mode, "keys").unwrap().unwrap();
        assert_eq!(policy.keys(1.0, &columns(&[1.0, 2.0])).unwrap_err().kind(), kind, "{mode}");
    }
    assert_eq!(broken("trap-in-save", "swap").unwrap().unwrap().save().unwrap_err().kind(), "trap");
}

#[test]
fn a_panic_is_told_in_the_words_of_the_policy() {
    let Some(loaded) = broken("trap", "keys") else { return };
    let error = loaded.unwrap().keys(1.0, &columns(&[1.0])).unwrap_err().to_string();
    assert!(error.contains("; its last words: panicked at "), "{error}");
    assert!(
        error.contains(" in broken::") || error.contains("Broken"),
        "names of functions are readable: {error}"
    );
}
