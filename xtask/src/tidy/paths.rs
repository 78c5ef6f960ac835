//! Paths of this repository in its pages, which must exist.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Folders of the repository. A path that begins with one of them is a path of the repository.
const FOLDERS: [&str; 10] =
    ["docs/", "fuzz/", "guest-sdk/", "host/", "languages/", "policies/", "tests/", "wit/", "xtask/", ".ci/"];

/// Lists every path in backticks, in `ARCHITECTURE.md` and in the pages of `docs/`, that does not exist. (The tutorials name
/// paths of the reader's own folder.)
pub(super) fn judge(root: &Path) -> Result<Vec<String>> {
    let mut pages = vec![root.join("ARCHITECTURE.md")];
    for entry in fs::read_dir(root.join("docs")).context("docs")? {
        pages.push(entry?.path());
    }
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    pages.sort();
    let mut breaches = Vec::new();
    for page in pages {
        let text = fs::read_to_string(&page).with_context(|| format!("{}", page.display()))?;
        let name = page.strip_prefix(root).unwrap_or(&page).to_string_lossy().into_owned();
        let missing = paths(&text).into_iter().filter(|(_, path)| !root.join(path).exists());
        breaches.extend(missing.map(|(line, path)| format!("{name}:{line}: `{path}` does not exist")));
    }
    Ok(breaches)
}

/// The paths of the repository in a page, each with the number of its line. A code span with a wildcard, a
/// placeholder or a blank is no path.
fn paths(text: &str) -> Vec<(usize, &str)> {
    let path = |span: &&str| {
        FOLDERS.iter().any(|folder| span.starts_with(folder))
            && span.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c))
    };
    let spans = |line| str::split(line, '`').skip(1).step_by(2).filter(path);
    text.lines().zip(1..).flat_map(|(line, number)| spans(line).map(move |span| (number, span))).collect()
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
    fn a_path_that_does_not_exist_is_a_breach() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("docs")).unwrap();
        fs::write(root.path().join("ARCHITECTURE.md"), "`docs/a.md`\n").unwrap();
        fs::write(root.path().join("docs/a.md"), "\n`docs/a.md` and `docs/b.md`\n").unwrap();
        assert_eq!(judge(root.path()).unwrap(), ["docs/a.md:2: `docs/b.md` does not exist"]);
    }
}
