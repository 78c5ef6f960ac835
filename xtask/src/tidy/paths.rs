//! Paths of this repository and names of its tests in its pages, which must exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Folders of the repository. A path that begins with one of them is a path of the repository.
const FOLDERS: [&str; 12] = [
    "docs/",
    "fuzz/",
    "guest-sdk/",
    "host/",
    "languages/",
    "networks/",
    "policies/",
    "python/",
    "tests/",
    "wit/",
    "xtask/",
    ".ci/",
];

/// Least words of the name of a test, as pages name it.
const WORDS_MIN: usize = 4;

/// Lists every path and every name of a test in backticks, in `ARCHITECTURE.md`, `SECURITY.md` and the pages of `docs/`, that does
/// not exist. `names` is every name in the code that is as long as that of a test. (The tutorials name paths of the
/// reader's own folder.)
pub(super) fn judge(root: &Path, names: &BTreeSet<String>) -> Result<Vec<String>> {
    let mut pages = vec![root.join("ARCHITECTURE.md"), root.join("SECURITY.md")];
    for entry in fs::read_dir(root.join("docs")).context("docs")? {
        pages.push(entry?.path());
    }
    pages.retain(|page| page.exists() && page.extension().is_some_and(|extension| extension == "md"));
    pages.sort();
    let mut breaches = Vec::new();
    for page in pages {
        let text = fs::read_to_string(&page).with_context(|| format!("{}", page.display()))?;
        let name = page.strip_prefix(root).unwrap_or(&page).to_string_lossy().into_owned();
        let missing = paths(&text).into_iter().filter(|(_, path)| !root.join(path).exists());
        breaches.extend(missing.map(|(line, path)| format!("{name}:{line}: `{path}` does not exist")));
        let gone = spans(&text).filter(|(_, span)| is_test_name(span) && !names.contains(*span));
        breaches.extend(gone.map(|(line, span)| format!("{name}:{line}: no code has the name `{span}`")));
    }
    Ok(breaches)
}

/// The texts in backticks in a page, each with the number of its line.
fn spans(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .zip(1..)
        .flat_map(|(line, number)| line.split('`').skip(1).step_by(2).map(move |it| (number, it)))
}

/// Is this a name with as many words as a test's? Figures (`fluxgate_...`) are put together from their parts.
fn is_test_name(span: &str) -> bool {
    if span.starts_with("fluxgate_") {
        return false;
    }
    let snake = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    span.chars().all(snake) && span.matches('_').count() >= WORDS_MIN - 1
}

/// Adds the names of this code that are as long as that of a test.
pub(super) fn add_names(text: &str, names: &mut BTreeSet<String>) {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    names.extend(words.filter(|word| is_test_name(word)).map(str::to_owned));
}

/// The paths of the repository in a page, each with the number of its line. A code span with a wildcard, a
/// placeholder or a blank is no path.
fn paths(text: &str) -> Vec<(usize, &str)> {
    let path = |span: &&str| {
        FOLDERS.iter().any(|folder| span.starts_with(folder))
            && span.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c))
    };
    spans(text).filter(|(_, span)| path(span)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_span_that_begins_with_a_folder() {
        let text = "See `host/a.rs`, `cargo run`, `docs/*.md`,\n`tests/NAME x`, `/etc/flux` and `tests/b`.";
        assert_eq!(paths(text), [(1, "host/a.rs"), (2, "tests/b")]);
    }

    #[test]
    fn a_test_that_does_not_exist_is_a_breach() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("docs")).unwrap();
        fs::write(root.path().join("docs/a.md"), "`it_is_so_now`, `it_is`\n`it_was_so_once`\n").unwrap();
        let mut names = BTreeSet::new();
        add_names("#[test]\nfn it_is_so_now() {}", &mut names);
        assert_eq!(
            judge(root.path(), &names).unwrap(),
            ["docs/a.md:2: no code has the name `it_was_so_once`"]
        );
    }

    #[test]
    fn a_path_that_does_not_exist_is_a_breach() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("docs")).unwrap();
        fs::write(root.path().join("ARCHITECTURE.md"), "`docs/a.md`\n").unwrap();
        fs::write(root.path().join("docs/a.md"), "\n`docs/a.md` and `docs/b.md`\n").unwrap();
        assert_eq!(
            judge(root.path(), &BTreeSet::new()).unwrap(),
            ["docs/a.md:2: `docs/b.md` does not exist"]
        );
    }
}
