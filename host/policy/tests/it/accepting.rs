//! Files that are accepted as a policy, and the errors for others.

use std::fs;

use fluxgate_policy::{Config, Limits, LoadError, Loader};

use crate::support::{ORDERING, Wat, Worlds, encode, loader, small};

fn refuse(bytes: &[u8]) -> String {
    loader().compile(bytes).unwrap_err().to_string()
}

#[test]
fn abilities_are_what_is_exported() {
    for bits in 0..16_u8 {
        let has = |bit: u8| bits & bit != 0;
        let worlds =
            Worlds { ordering: has(1), scheduling: has(2), observing: has(4), state: has(8), ..ORDERING };
        let found = loader().compile(&Wat::default().build(worlds)).unwrap().abilities();
        let found = (found.ordering, found.scheduling, found.observing, found.state);
        assert_eq!(found, (has(1), has(2), has(4), has(8)));
    }
}

#[test]
fn a_truncated_component_is_said_to_be_truncated() {
    let whole = Wat::default().build(ORDERING);
    for end in [5, 9, 40, whole.len() / 2, whole.len() - 1] {
        let error = refuse(&whole[..end]);
        assert!(error.starts_with("truncated: the section at byte"), "{end}: {error}");
    }
    let mut broken = whole.clone();
    broken[30..60].fill(0xee);
    assert!(loader().compile(&broken).is_err());
}

#[test]
fn too_large_a_component_is_not_even_looked_at() {
    let bytes = Wat::default().build(ORDERING);
    let loader = Loader::new(Limits { component_bytes: 1024, ..small() }, None).unwrap();
    assert_eq!(loader.compile(&bytes).unwrap_err().kind(), "too-large");
    let tmp = tempfile::tempdir().unwrap();
    let path = tmp.path().join("huge.wasm");
    fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
    let error = loader.compile_file(&path).unwrap_err().to_string();
    assert!(error.ends_with("huge.wasm: the component has 1099511627776 bytes; at most 1024 are accepted (limit component-bytes)"), "{error}");
}

#[test]
fn components_of_other_worlds() {
    let empty = encode("(module)", &["package a:b; world w {}".to_owned()]);
    assert_eq!(refuse(&empty), "does not export fluxgate:policy/policy@0.1.0; it exports nothing");
    let other = encode(
        r#"(module (func (export "a:b/run@2.0.0#go")))"#,
        &["package a:b@2.0.0; interface run { go: func(); } world w { export run; }".to_owned()],
    );
    assert_eq!(refuse(&other), "does not export fluxgate:policy/policy@0.1.0; it exports a:b/run@2.0.0");
}

#[test]
fn another_version_of_the_contract_is_named() {
    let package = "package fluxgate:policy@0.2.0; interface ordering { rank: func(); } interface log { }";
    let exports = encode(
        r#"(module (func (export "fluxgate:policy/ordering@0.2.0#rank")))"#,
        &[format!("{package} world w {{ export ordering; }}")],
    );
    assert_eq!(
        refuse(&exports),
        "exports fluxgate:policy/ordering@0.2.0; this host has version 0.1.0: build the component against that, or use a host that has 0.2.0"
    );
    let imports = encode(
        r#"(module (import "fluxgate:policy/log@0.3.1" "say" (func)))"#,
        &["package fluxgate:policy@0.3.1; interface log { say: func(); } world w { import log; }".to_owned()],
    );
    assert_eq!(
        refuse(&imports),
        "imports fluxgate:policy/log@0.3.1; this host has version 0.1.0: build the component against that, or use a host that has 0.3.1"
    );
    let unknown = encode(
        r#"(module (func (export "fluxgate:policy/sorting@0.1.0#go")))"#,
        &["package fluxgate:policy@0.1.0; interface sorting { go: func(); } world w { export sorting; }"
            .to_owned()],
    );
    assert!(refuse(&unknown).starts_with("exports fluxgate:policy/sorting@0.1.0, which is no ability of the contract; known are fluxgate:policy/ordering@0.1.0,"));
}

#[test]
fn imports_that_no_policy_gets_are_named() {
    let wasi = "package wasi:clocks@0.2.3; interface monotonic-clock { now: func() -> u64; }";
    let wat = Wat {
        more: r#"(import "wasi:clocks/monotonic-clock@0.2.3" "now" (func (result i64)))"#.into(),
        ..Wat::default()
    };
    let worlds = Worlds { extra: "import wasi:clocks/monotonic-clock@0.2.3;", packages: &[wasi], ..ORDERING };
    let error = refuse(&wat.build(worlds));
    assert!(error.starts_with("imports wasi:clocks/monotonic-clock@0.2.3, which this host does not offer; a policy may import only fluxgate:policy/attributes@0.1.0, fluxgate:policy/flow@0.1.0,"), "{error}");
    assert!(error.contains("policies get no WASI"), "{error}");
    let wat = Wat { more: r#"(import "$root" "peek" (func))"#.into(), ..Wat::default() };
    let error = refuse(&wat.build(Worlds { extra: "import peek: func();", ..ORDERING }));
    assert!(error.starts_with("imports peek, which this host does not offer"), "{error}");
}

#[test]
fn the_right_name_with_another_type() {
    let text = "package fluxgate:policy@0.1.0;
        interface policy { describe: func() -> u32; configure: func() -> u32; }
        world w { export policy; }";
    let module = r#"(module
        (func (export "fluxgate:policy/policy@0.1.0#describe") (result i32) (i32.const 1))
        (func (export "fluxgate:policy/policy@0.1.0#configure") (result i32) (i32.const 1)))"#;
    let error = loader().compile(&encode(module, &[text.to_owned()])).unwrap_err();
    assert!(matches!(error, LoadError::Signature { interface: "policy", .. }), "{error}");
    let text = "package fluxgate:policy@0.1.0; interface log { shout: func(); } interface policy { }
        world w { import log; export policy; }";
    let module = r#"(module (import "fluxgate:policy/log@0.1.0" "shout" (func)))"#;
    let error = loader().compile(&encode(module, &[text.to_owned()])).unwrap_err().to_string();
    assert!(error.contains("shout") || error.starts_with("does not export"), "{error}");
}

#[test]
fn the_cache_is_used_and_never_believed() {
    let tmp = tempfile::tempdir().unwrap();
    let folder = tmp.path().join("cache");
    let bytes = Wat::default().build(ORDERING);
    let compile = |limits: Limits| Loader::new(limits, Some(&folder)).unwrap().compile(&bytes).unwrap();
    assert!(!compile(small()).from_cache());
    assert!(compile(small()).from_cache());
    compile(small()).instantiate(&Config::new()).unwrap();
    let entry = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    fs::write(&entry, b"rubbish").unwrap();
    assert!(!compile(small()).from_cache(), "a damaged entry is compiled anew");
    assert!(compile(small()).from_cache());
}

#[test]
fn files_that_are_not_there_are_named() {
    let error = loader().compile_file(std::path::Path::new("/nonexistent/p.wasm")).unwrap_err();
    assert!(error.to_string().starts_with("/nonexistent/p.wasm: cannot be read: No such file"), "{error}");
    assert_eq!(error.kind(), "read");
    let error = loader().compile_file(std::path::Path::new("/")).unwrap_err();
    assert!(error.to_string().contains("it is a folder"), "{error}");
    // A named pipe without a writer is not waited for.
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("p.wasm");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let error = loader().compile_file(&pipe).unwrap_err();
    assert!(error.to_string().contains("it is no regular file"), "{error}");
}

#[test]
fn damaged_components_are_refused_or_run_but_never_more() {
    let whole = Wat::default().build(Worlds { scheduling: true, state: true, ..ORDERING });
    let loader = loader();
    let mut seed = 0x9e37_79b9_u64;
    let mut random = |below: usize| {
        // A generator of Lehmer's kind: the same damage in every run.
        seed = seed.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(1);
        (seed >> 33) as usize % below
    };
    let mut refused = 0;
    for _ in 0..300 {
        let mut bytes = whole.clone();
        for _ in 0..=random(3) {
            let at = random(bytes.len());
            bytes[at] = random(256) as u8;
        }
        if let Err(error) = loader.load(&bytes, &Config::new()) {
            refused += 1;
            assert!(error.to_string().len() < 1500 && !error.to_string().contains('\n'), "{error}");
        }
    }
    assert!(refused > 100, "{refused}");
}
