//! Every row of the requirements on resource models has a test that names it, in the name of the test (`m4_20_...`)
//! or in its comment. It must never know the content of a row.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use fluxgate_testing::root;

/// M4-1 to M4-29 (RFC 4) and M16-1 to M16-18 (resource scheduling methods).
fn rows() -> BTreeSet<String> {
    let all = [("M4", 29), ("M16", 18)].into_iter();
    all.flat_map(|(group, last)| (1..=last).map(move |n| format!("{group}-{n}"))).collect()
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("graph/tests/it/rows.rs") {
            found.push(path);
        }
    }
}

/// `m4_18_flow` names M4-18, `m16_2_and_m4_3_x` M16-2 and M4-3, `m16_11_12_x` M16-11 and M16-12.
fn named_by(function: &str) -> BTreeSet<String> {
    let (mut group, mut named) = (None, BTreeSet::new());
    for word in function.split('_') {
        let digits = !word.is_empty() && word.chars().all(|c| c.is_ascii_digit());
        match group {
            Some(group) if digits => drop(named.insert(format!("{group}-{word}"))),
            _ => {
                group = match word {
                    "m4" => Some("M4"),
                    "m16" => Some("M16"),
                    _ => None,
                }
            }
        }
    }
    named
}

/// The rows that a comment names.
fn named_in(comment: &str) -> BTreeSet<String> {
    let words = comment.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    words.filter(|word| word.starts_with("M4-") || word.starts_with("M16-")).map(str::to_owned).collect()
}

/// Which tests name which rows.
fn named() -> BTreeMap<String, Vec<String>> {
    let mut files = Vec::new();
    let graph =
        ["host/graph/src", "host/graph/tests", "host/resource-query/src", "host/resource-query/tests"];
    for room in graph.into_iter().chain(["tests/tests", "host/policy/tests"]) {
        sources(&root().join(room), &mut files);
    }
    let mut named: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a readable file");
        let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
        for (index, line) in lines.iter().enumerate() {
            let Some(rest) = line.strip_prefix("fn ") else { continue };
            let function = rest.split(['(', '<']).next().unwrap_or_default();
            let above =
                lines[..index].iter().rev().take_while(|l| l.starts_with("#[") || l.starts_with("//"));
            let above: Vec<&str> = above.copied().collect();
            if !above.iter().any(|line| line.starts_with("#[test]")) {
                continue;
            }
            let comments = above.iter().filter(|line| line.starts_with("//"));
            let all = comments.flat_map(|line| named_in(line)).chain(named_by(function));
            for row in all.collect::<BTreeSet<String>>() {
                named.entry(row).or_default().push(function.to_owned());
            }
        }
    }
    named
}

#[test]
fn every_row_of_the_resource_model_is_named_by_a_test() {
    let named = named();
    let missing: Vec<String> = rows().into_iter().filter(|row| !named.contains_key(row)).collect();
    assert!(missing.is_empty(), "no test names {missing:?}");
    let unknown: Vec<&String> = named.keys().filter(|row| !rows().contains(*row)).collect();
    assert!(unknown.is_empty(), "tests name rows that are none: {unknown:?}");
}

#[test]
fn no_requirement_is_left_out() {
    let Some(list) = fluxgate_testing::shared("flux/requirements.md") else { return };
    let text = std::fs::read_to_string(list).unwrap();
    let first = text.lines().filter_map(|line| line.strip_prefix("| ")?.split(' ').next());
    let asked: BTreeSet<String> =
        first.filter(|row| row.starts_with("M4-") || row.starts_with("M16-")).map(str::to_owned).collect();
    assert_eq!(asked, rows());
}

#[test]
fn names_are_read_as_they_are_meant() {
    let set = |rows: &[&str]| rows.iter().map(|row| (*row).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(named_by("m4_18_and_m16_2_3_x_7"), set(&["M4-18", "M16-2", "M16-3"]));
    assert_eq!(named_by("from_m4_18"), set(&["M4-18"]));
    assert_eq!(named_by("a_4_18"), set(&[]));
    assert_eq!(named_in("/// M16-5 and M4-1: what (M4-2)."), set(&["M16-5", "M4-1", "M4-2"]));
}
