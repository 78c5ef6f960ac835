//! Policies by name: load, replace, show.

use fluxgate_engine::Policy;
use fluxgate_policy::{Catalogue, Config, ENTRIES_MAX};

use crate::support::{ORDERING, Wat, loader};

/// A policy with a name of seven letters.
fn named(name: &str) -> Vec<u8> {
    assert_eq!(name.len(), 7);
    let more = format!("(data (i32.const 1016) \"{name}\")");
    let describe = "(i32.store (i32.const 512) (i32.const 1016)) (i32.const 512)".to_owned();
    Wat { more, describe, ..Wat::default() }.build(ORDERING)
}

#[test]
fn load_list_show_and_instantiate() {
    let tmp = tempfile::tempdir().unwrap();
    let path = tmp.path().join("first.wasm");
    std::fs::write(&path, named("first-1")).unwrap();
    let mut all = Catalogue::new(loader());
    assert_eq!(all.load(&path, Config::new()).unwrap().name(), "first-1");
    all.load_bytes(&named("another"), Config::new()).unwrap();
    let names: Vec<&str> = all.entries().map(|entry| entry.name()).collect();
    assert_eq!(names, ["another", "first-1"]);
    assert_eq!(all.instantiate("first-1").unwrap().name(), "first-1");
    let error = all.instantiate("fcfs").unwrap_err().to_string();
    assert_eq!(error, "no policy is called \"fcfs\"; loaded are another, first-1");

    let summary = all.get("first-1").unwrap().summary();
    assert_eq!(summary.source.as_deref(), Some(path.as_path()));
    let json = serde_json::to_value(&summary).unwrap();
    assert_eq!(json["abilities"], serde_json::json!(["ordering"]));
    assert_eq!(json["config"], serde_json::json!([]));
    assert!(json["digest"].as_str().unwrap().starts_with("sha256:"));

    std::fs::write(&path, b"rubbish!").unwrap();
    let error = all.load(&path, Config::new()).unwrap_err().to_string();
    assert!(error.contains("first.wasm: not a WebAssembly component"), "{error}");
    assert_eq!(all.entries().count(), 2);
    all.unload("another").unwrap();
    assert!(all.unload("another").is_err());
}

#[test]
fn an_entry_stays_what_it_was_when_its_name_is_given_to_another_component() {
    let mut all = Catalogue::new(loader());
    let old = all.load_bytes(&named("first-1"), Config::new()).unwrap().clone();
    let replaced = {
        let more = "(data (i32.const 900) \"different bytes\")".to_owned();
        let describe = "(i32.store (i32.const 512) (i32.const 1016)) (i32.const 512)".to_owned();
        let more = format!("{more} (data (i32.const 1016) \"first-1\")");
        Wat { more, describe, ..Wat::default() }.build(ORDERING)
    };
    all.load_bytes(&replaced, Config::new()).unwrap();
    assert_ne!(all.get("first-1").unwrap().digest(), old.digest());
    assert_eq!(old.instantiate().unwrap().name(), "first-1");
}

#[test]
fn the_catalogue_is_bounded() {
    let mut all = Catalogue::new(loader());
    for i in 0..ENTRIES_MAX {
        all.load_bytes(&named(&format!("name-{i:02}")), Config::new()).unwrap();
    }
    assert_eq!(all.load_bytes(&named("onemore"), Config::new()).unwrap_err().kind(), "catalogue-full");
    all.load_bytes(&named("name-00"), Config::new()).unwrap();
}
