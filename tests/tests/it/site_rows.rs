//! The tables of `docs/site-stack.md` and `docs/site-features.md` name tests that there are.

use std::collections::BTreeSet;
use std::path::Path;

use fluxgate_tests::fixture::root;

fn functions(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            functions(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).expect("a readable file");
            let names =
                text.lines().filter_map(|line| line.trim_start().strip_prefix("fn ")?.split('(').next());
            found.extend(names.map(|name| name.split('<').next().unwrap_or(name).to_owned()));
        }
    }
}

#[test]
fn every_test_of_the_tables_is_there() {
    let mut there = BTreeSet::new();
    for folder in ["host", "tests/tests"] {
        functions(&root().join(folder), &mut there);
    }
    for (page, least) in [("docs/site-stack.md", 50), ("docs/site-features.md", 20)] {
        let table = std::fs::read_to_string(root().join(page)).expect("the table");
        let mut named = 0;
        for line in table.lines().filter(|line| line.starts_with("| ") && line.contains("| `")) {
            let cell = line.split('|').nth(3).unwrap_or_default();
            let cell = cell.split(';').next().unwrap_or_default();
            for name in cell.split(',').filter_map(|part| part.trim().strip_prefix('`')?.strip_suffix('`')) {
                assert!(there.contains(name), "{page}: {line}: there is no test {name}");
                named += 1;
            }
        }
        assert!(named > least, "{page} names {named} tests");
    }
}
