//! The table against the sources that use it and the page that explains it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use fluxgate_log::Id;

/// The crates that make up the process of a scheduler. Commands of people, the embedded instance and the dashboard log for themselves.
const ROOMS: [&str; 8] = ["graph", "engine", "journal", "policy", "artefact", "wire", "sched", "cli"];

/// The files of the scheduler's process, with their text up to the tests in them.
fn sources() -> Vec<(PathBuf, String)> {
    fn walk(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() {
                if name != "tests" && !path.ends_with("cli/src/cmd") {
                    walk(&path, found);
                }
            } else if name.ends_with(".rs") {
                let text = fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap().to_owned();
                found.push((path, code));
            }
        }
    }
    let host = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    for room in ROOMS {
        walk(&host.join(room).join("src"), &mut found);
    }
    assert!(found.len() > 200, "{}", found.len());
    found
}

#[test]
fn feat_96_every_line_has_an_id_and_none_is_used_twice() {
    let mut uses: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (path, text) in sources() {
        for level in ["error", "warn", "info"] {
            let bare = format!("tracing::{level}!(");
            assert!(!text.contains(&bare), "{}: `{bare}` writes a line without an id", path.display());
        }
        assert!(!text.contains("tracing::event!("), "{}", path.display());
        let calls = text.split("log!(").skip(1);
        let names = calls.map(|rest| {
            let rest = match rest.trim_start().strip_prefix("target:") {
                Some(rest) => rest.split_once(',').unwrap().1,
                None => rest,
            };
            rest.trim_start().split(|c: char| !c.is_alphanumeric()).next().unwrap().to_owned()
        });
        // A line that goes to the broker by itself.
        let direct = text
            .split("Id::")
            .skip(1)
            .map(|rest| rest.split(|c: char| !c.is_alphanumeric()).next().unwrap().to_owned());
        for name in names.chain(direct.filter(|name| Id::ALL.iter().any(|id| id.name() == name))) {
            uses.entry(name).or_default().push(path.display().to_string());
        }
    }
    for id in Id::ALL {
        let places = uses.remove(id.name()).unwrap_or_default();
        assert_eq!(places.len(), 1, "{id:?} is written in one place: {places:?}");
    }
    assert!(uses.is_empty(), "{uses:?}");
}

#[test]
fn feat_96_ids_are_unlike_and_in_order() {
    assert!(Id::ALL.is_sorted_by(|a, b| a.text() < b.text()));
    let journal: BTreeSet<&str> = Id::ALL.iter().map(|id| id.journal()).collect();
    assert_eq!(journal.len(), Id::ALL.len());
    for id in Id::ALL {
        assert!(id.journal().len() == 32 && id.journal().bytes().all(|b| b.is_ascii_hexdigit()));
        assert_eq!(id.text(), format!("FG-{}", &id.journal()[28..]));
        assert!(id.meaning().ends_with('.') && !id.meaning().contains('|'), "{id:?}");
    }
}

#[test]
fn feat_96_the_page_has_every_id_with_its_level_and_meaning() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/admin.md");
    let page = fs::read_to_string(page).unwrap();
    let mut table = "| id | level | meaning |\n|---|---|---|\n".to_owned();
    for id in Id::ALL {
        let level = id.level().as_str().to_lowercase();
        writeln!(table, "| {} | {level} | {} |", id.text(), id.meaning()).unwrap();
    }
    assert!(page.contains(&table), "docs/admin.md is to have this table:\n{table}");
}
