//! Every row of the requirements and every pitfall has a test that names it: the table in docs/protocol.md is
//! compared with the sources, and with the list of requirements where that is available.
//! This module does not know the content of a row.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use fluxgate_testing::root;

/// The rows of a table of docs/protocol.md below this heading: the first cell, and the names in the last.
fn table(page: &str, heading: &str) -> BTreeMap<String, Vec<String>> {
    let from = page.find(heading).unwrap_or_else(|| panic!("docs/protocol.md has no heading {heading:?}"));
    let section = &page[from + heading.len()..];
    let section = &section[..section.find("\n## ").unwrap_or(section.len())];
    let mut rows = BTreeMap::new();
    for line in section.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| row ")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let names = cells.last().unwrap().split('`').skip(1).step_by(2).map(str::to_owned);
        let old = rows.insert(cells[0].to_owned(), names.collect());
        assert!(old.is_none(), "{} is there twice", cells[0]);
    }
    rows
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            sources(&path, found);
        } else if name.ends_with(".rs") {
            found.push(path);
        }
    }
}

/// All tests, with their source text.
fn tests() -> BTreeMap<String, String> {
    let mut files = Vec::new();
    for room in ["host", "tests"] {
        sources(&root().join(room), &mut files);
    }
    let mut tests = BTreeMap::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a readable file");
        let lines: Vec<&str> = text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            let code = line.trim_start();
            let indent = &line[..line.len() - code.len()];
            let Some(rest) = code.strip_prefix("async fn ").or_else(|| code.strip_prefix("fn ")) else {
                continue;
            };
            let attributes = lines[..index].iter().rev().take_while(|line| {
                let line = line.trim_start();
                line.starts_with("#[") || line.starts_with("//")
            });
            if !attributes.clone().any(|line| line.contains("test]")) {
                continue;
            }
            let above: Vec<&str> = attributes.copied().collect();
            let end = lines[index..].iter().position(|line| *line == format!("{indent}}}")).unwrap_or(0);
            let body = format!("{}\n{}", above.join("\n"), lines[index..=index + end].join("\n"));
            let name = rest.split(['(', '<']).next().unwrap().to_owned();
            tests.insert(name, body);
        }
    }
    tests
}

/// `r27_hello_1_2_and_ready_1_x` names R27-HELLO-1, R27-HELLO-2 and R27-READY-1.
fn named_by(function: &str) -> BTreeSet<String> {
    let mut named = BTreeSet::new();
    let (mut document, mut group) = (String::new(), String::new());
    for word in function.split('_') {
        let digits = word.chars().all(|c| c.is_ascii_digit());
        if word.starts_with('r') && word.len() > 1 && word[1..].chars().all(|c| c.is_ascii_digit()) {
            (document, group) = (word.to_uppercase(), String::new());
        } else if word == "pitfall" || word == "pitfalls" {
            (document, group) = ("pitfall".to_owned(), String::new());
        } else if digits && document == "pitfall" {
            named.insert(format!("pitfall {word}"));
        } else if digits && group.is_empty() {
            named.insert(format!("{document}-{word}"));
        } else if digits {
            named.insert(format!("{document}-{group}-{word}"));
        } else if word != "and" {
            group = word.to_uppercase();
            named.insert(format!("{document}-{group}"));
        }
    }
    named
}

fn names(function: &str, body: &str, row: &str) -> bool {
    if named_by(function).contains(row) {
        return true;
    }
    // Not followed by a digit.
    body.to_lowercase()
        .match_indices(&row.to_lowercase())
        .any(|(at, found)| !body.to_lowercase()[at + found.len()..].starts_with(|c: char| c.is_ascii_digit()))
}

fn page() -> String {
    std::fs::read_to_string(root().join("docs/protocol.md")).expect("docs/protocol.md")
}

#[test]
fn each_row_of_the_table_has_tests_and_they_name_it() {
    let tests = tests();
    let mut wrong = Vec::new();
    for (row, functions) in table(&page(), "## Rows and their tests") {
        if functions.is_empty() {
            wrong.push(format!("{row}: no test"));
        }
        for function in functions {
            match tests.get(&function) {
                None => wrong.push(format!("{row}: there is no test `{function}`")),
                Some(body) if !names(&function, body, &row) => {
                    wrong.push(format!("{row}: `{function}` does not name it"));
                }
                Some(_) => {}
            }
        }
    }
    assert!(wrong.is_empty(), "docs/protocol.md:\n{}", wrong.join("\n"));
}

#[test]
fn no_requirement_is_left_out() {
    let Some(list) = fluxgate_testing::shared("flux/requirements.md") else { return };
    let text = std::fs::read_to_string(list).expect("requirements.md");
    let part = |from: &str, to: &str| {
        let at = text.find(from).unwrap();
        &text[at..at + text[at..].find(to).unwrap()]
    };
    let mut asked: BTreeSet<String> = part("### 1.1", "### 1.4")
        .lines()
        .filter_map(|line| line.strip_prefix("| R")?.split(' ').next())
        .map(|row| format!("R{row}"))
        .collect();
    assert!(asked.len() > 80, "{asked:?}");
    let pitfalls = part("## 5.", "\n## 6").lines().filter_map(|line| line.split_once(". ")?.0.parse().ok());
    let pitfalls: Vec<u32> = pitfalls.collect();
    assert_eq!(pitfalls, (1..=25).collect::<Vec<u32>>());
    asked.extend(pitfalls.iter().map(|number| format!("pitfall {number}")));
    let page = page();
    let told: BTreeSet<String> = table(&page, "## Rows and their tests").into_keys().collect();
    let missing: Vec<_> = asked.difference(&told).collect();
    let unknown: Vec<_> = told.difference(&asked).collect();
    assert!(missing.is_empty() && unknown.is_empty(), "missing: {missing:?}, unknown: {unknown:?}");
}

#[test]
fn names_are_read_as_they_are_meant() {
    let named = named_by("r27_hello_1_2_and_ready_1_in_order");
    for row in ["R27-HELLO-1", "R27-HELLO-2", "R27-READY-1"] {
        assert!(named.contains(row), "{named:?}");
    }
    assert!(!named.contains("R27-HELLO-3"));
    assert!(named_by("r3_1_proto").contains("R3-1"));
    assert!(named_by("r3_e_enosys").contains("R3-E"));
    assert!(named_by("pitfall_21_x").contains("pitfall 21") && named_by("r27_stat_x").contains("R27-STAT"));
    assert!(names("x", "// R27-EXP-1.", "R27-EXP-1") && !names("x", "// R27-EXP-12", "R27-EXP-1"));
}
