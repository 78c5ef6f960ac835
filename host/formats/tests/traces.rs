//! Idsets, hostlists, job ids and events in recordings of a real instance: each is read, and prints the same text.
//!
//! The recordings (`flux/traces/*.jsonl`) are not part of the project. Without them the test is skipped.

use std::path::PathBuf;

use fluxgate_formats::{Event, Hostlist, Idset, JobId};
use serde_json::Value;

/// Number of checked texts of each kind.
#[derive(Debug, Default)]
struct Seen {
    idsets: usize,
    hostlists: usize,
    events: usize,
    ids: usize,
}

fn check(value: &Value, key: &str, seen: &mut Seen) {
    match (key, value) {
        ("nodelist", Value::String(text)) => {
            let hosts = Hostlist::parse(text).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(hosts.to_string(), *text);
            seen.hostlists += 1;
        }
        ("rank" | "core" | "gpu" | "up" | "down" | "shrink" | "idset" | "free", Value::String(text)) => {
            let ids = Idset::parse(text).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(ids.to_string(), text.trim_matches(['[', ']']));
            seen.idsets += 1;
        }
        ("id", Value::Number(_)) => {
            let id: JobId = serde_json::from_value(value.clone()).unwrap_or_else(|e| panic!("{e}: {value}"));
            for text in [id.to_f58(), id.to_dothex(), id.to_words(), id.to_emoji()] {
                assert_eq!(JobId::parse(&text), Ok(id));
            }
            assert_eq!(serde_json::to_value(id).ok().as_ref(), Some(value));
            seen.ids += 1;
        }
        (_, Value::Object(object)) => {
            if object.contains_key("timestamp") && object.contains_key("name") {
                let event = Event::from_value(value.clone()).unwrap_or_else(|e| panic!("{e}: {value}"));
                assert_eq!(event.to_value(), *value);
                seen.events += 1;
            }
            object.iter().for_each(|(key, value)| check(value, key, seen));
        }
        (_, Value::Array(values)) => values.iter().for_each(|value| check(value, key, seen)),
        _ => {}
    }
}

#[test]
fn recordings_of_a_real_instance_print_back() {
    let Some(folder) = fluxgate_testing::shared("flux/traces") else { return };
    let mut seen = Seen::default();
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for file in files.iter().filter(|path| path.extension().is_some_and(|e| e == "jsonl")) {
        for (number, line) in std::fs::read_to_string(file).unwrap().lines().enumerate() {
            let value = serde_json::from_str(line)
                .unwrap_or_else(|e| panic!("{}:{}: {e}", file.display(), number + 1));
            check(&value, "", &mut seen);
        }
    }
    assert!(seen.idsets > 0 && seen.hostlists > 0 && seen.ids > 0, "{seen:?}");
}
