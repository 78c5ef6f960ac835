//! One policy in seven languages makes the same decisions, job for job; and none of them gets WASI.
//!
//! The suite builds only Rust. The others are compared after `cargo xtask policies --lang all`.

use std::sync::OnceLock;

use fluxgate_policy::{Compiled, Limits};
use fluxgate_sim::machine::Machine;
use fluxgate_sim::workload::{Options, Workload};
use fluxgate_testing::{Need, skipped};
use fluxgate_tests::drive::{made_up, schedule};
use fluxgate_tests::fixture::{loader, policies, shared};
use fluxgate_tests::native_twin::NativeTwin;

/// Languages and their tools.
const LANGUAGES: [(&str, &str); 6] = [
    ("c", "clang"),
    ("cpp", "clang"),
    ("go", "Go"),
    ("js", "componentize-qjs"),
    ("ts", "typescript"),
    ("python", "componentize-py"),
];

/// A component that was built.
struct Built {
    language: &'static str,
    bytes: Vec<u8>,
    compiled: Compiled,
}

/// All components that were built, compiled once for all tests. Others are skipped.
fn built() -> impl Iterator<Item = &'static Built> {
    static BUILT: [OnceLock<Option<Built>>; LANGUAGES.len()] = [const { OnceLock::new() }; LANGUAGES.len()];
    LANGUAGES.iter().zip(&BUILT).filter_map(|(&(language, toolchain), built)| {
        let built = built.get_or_init(|| {
            let bytes = std::fs::read(policies().join(format!("easy-{language}.wasm"))).ok()?;
            let compiled = loader(Limits::default()).compile(&bytes);
            let compiled = compiled.unwrap_or_else(|error| panic!("{language}: {error}"));
            Some(Built { language, bytes, compiled })
        });
        if built.is_none() {
            let how = format!("no {toolchain}; try `cargo xtask policies --lang {language}`");
            skipped(Need::Languages, how);
        }
        built.as_ref()
    })
}

/// Every language against Rust compiled natively, with one reservation and with several.
fn compare(workload: &Workload, machine: &Machine) {
    let native = |depth: &str| {
        let policy = NativeTwin::<policy_easy::Easy>::new(&[("depth", depth)]).unwrap();
        schedule(workload, machine, Box::new(policy))
    };
    let expected = [("1", native("1")), ("5", native("5"))];
    assert!(expected[0].1 != expected[1].1, "the log must tell the two apart");
    for Built { language, compiled, .. } in built() {
        for (depth, expected) in &expected {
            let config = [("depth".to_owned(), (*depth).to_owned())].into_iter().collect();
            let policy = compiled.instantiate(&config).unwrap_or_else(|error| panic!("{language}: {error}"));
            let found = schedule(workload, machine, Box::new(policy));
            assert_eq!(found.len(), workload.jobs.len());
            let differs = found.iter().zip(expected).find(|(found, expected)| found != expected);
            assert!(differs.is_none(), "{language}, depth {depth}: {differs:?}");
        }
    }
}

#[test]
fn seven_languages_one_schedule_of_a_made_up_log() {
    let workload = made_up(1500);
    let machine = Machine::from_header(&workload.header).unwrap();
    compare(&workload, &machine);
}

#[test]
fn seven_languages_one_schedule_of_a_real_log() {
    let Some(path) = shared("data/swf/KTH-SP2-1996-2.1-cln.swf.gz") else { return };
    let workload = Workload::load(&path, &Options { max_jobs: Some(5000), ..Options::default() }).unwrap();
    let machine = Machine::from_header(&workload.header).unwrap();
    compare(&workload, &machine);
}

#[test]
fn settings_out_of_range_are_refused_in_every_language() {
    for Built { language, compiled, .. } in built() {
        for depth in ["0", "-1", "1001", "9223372036854775807"] {
            let config = [("depth".to_owned(), depth.to_owned())].into_iter().collect();
            let refusal = compiled.instantiate(&config).err().map(|error| error.to_string());
            let refusal = refusal.unwrap_or_else(|| panic!("{language} takes depth {depth}"));
            assert!(refusal.contains("between 1 and 1000"), "{language}: {refusal}");
        }
    }
}

/// A policy of a core module with calls to WASI, which `deny.wat` answers.
const CURIOUS: &str = r#"(module
  (import "wasi_snapshot_preview1" "clock_time_get" (func $clock (param i32 i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_sizes_get" (func $environ (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_open"
    (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "curious1.0")
  (func $must (param i32) (if (i32.eqz (local.get 0)) (then unreachable)))
  ;; A record of name, version, summary and no settings.
  (func (export "fluxgate:policy/policy@0.1.0#describe") (result i32)
    (i32.store (i32.const 68) (i32.const 7))
    (i32.store (i32.const 72) (i32.const 7)) (i32.store (i32.const 76) (i32.const 3))
    (i32.store (i32.const 84) (i32.const 7))
    (i32.const 64))
  (func (export "fluxgate:policy/policy@0.1.0#configure") (param i32 i32) (result i32)
    (i64.store (i32.const 200) (i64.const -1))
    (call $must (i32.eqz (call $clock (i32.const 0) (i64.const 1) (i32.const 200))))
    (call $must (i64.eq (i64.load (i32.const 200)) (i64.const 1)))
    (call $must (i32.eqz (call $clock (i32.const 1) (i64.const 1) (i32.const 200))))
    (call $must (i64.eq (i64.load (i32.const 200)) (i64.const 1)))
    (i64.store (i32.const 200) (i64.const -1))
    (call $must (i32.eqz (call $random (i32.const 200) (i32.const 7))))
    (call $must (i64.eq (i64.load (i32.const 200)) (i64.const 0xff00000000000000)))
    (call $must (i32.eqz (call $environ (i32.const 200) (i32.const 204))))
    (call $must (i64.eqz (i64.load (i32.const 200))))
    (call $must (i32.eq (call $write (i32.const 1) (i32.const 0) (i32.const 0) (i32.const 208)) (i32.const 8)))
    (call $must (i32.eq (i32.const 8) (call $open (i32.const 3) (i32.const 0) (i32.const 0) (i32.const 7)
      (i32.const 0) (i64.const 0) (i64.const 0) (i32.const 0) (i32.const 208))))
    (i32.store (i32.const 128) (i32.const 0))
    (i32.const 128))
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024)))"#;

#[test]
fn a_core_module_that_wants_a_system_finds_every_door_closed() {
    let component = fluxgate_languages::wrap(&wat::parse_str(CURIOUS).unwrap()).unwrap();
    let loader = loader(Limits::default());
    let policy = loader.compile(&component).unwrap();
    policy.instantiate(&Default::default()).expect("nothing it asked was answered otherwise");
}

/// EASY asks nothing that the contract gained after its first release, so it runs on every host.
#[test]
fn no_language_imports_more_than_the_first_release() {
    let first = ["types", "log", "machine", "pass"].map(|name| format!("fluxgate:policy/{name}@0.1.0"));
    for Built { language, bytes, .. } in built() {
        let mut depth = 0;
        for payload in wasmparser::Parser::new(0).parse_all(bytes) {
            match payload.unwrap() {
                wasmparser::Payload::Version { .. } => depth += 1,
                wasmparser::Payload::End(_) => depth -= 1,
                wasmparser::Payload::ComponentImportSection(section) if depth == 1 => {
                    for import in section {
                        let name = import.unwrap().name.name.to_owned();
                        assert!(first.contains(&name), "{language} imports {name}");
                    }
                }
                _ => {}
            }
        }
    }
}
