//! Links of the pages: the file is there, and so is the heading. The table of contents of the book names each page of `docs/`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::pages::{all, anchors, links, resolved};

/// The table of contents of the book.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Lists every link of a page to a file or a heading that does not exist, and every page of `docs/` and of `policies/` that the
/// book lacks.
pub(super) fn judge(root: &Path) -> Result<Vec<String>> {
    let mut texts = BTreeMap::new();
    for page in all(root)? {
        let text = fs::read_to_string(root.join(&page)).with_context(|| format!("{}", page.display()))?;
        texts.insert(page, text);
    }
    let headings: BTreeMap<&PathBuf, Vec<String>> =
        texts.iter().map(|(page, text)| (page, anchors(text))).collect();
    let mut breaches = Vec::new();
    for (page, text) in &texts {
        for link in links(text) {
            let to = resolved(page, &link.path);
            let place = format!("{}:{}", page.display(), link.line);
            if !root.join(&to).exists() {
                breaches.push(format!("{place}: the link `{}` leads to no file", link.path));
            } else if let (Some(anchor), Some(known)) = (link.anchor, headings.get(&to))
                && !known.contains(&anchor)
            {
                breaches.push(format!("{place}: {} has no heading `#{anchor}`", to.display()));
            }
        }
    }
    let summary = Path::new(SUMMARY);
    let listed: Vec<PathBuf> = texts
        .get(summary)
        .map(|text| links(text))
        .unwrap_or_default()
        .iter()
        .map(|link| resolved(summary, &link.path))
        .collect();
    let shown = |page: &Path| page != summary && page.parent().is_some_and(|folder| folder != Path::new(""));
    for page in texts.keys().filter(|page| shown(page)) {
        match listed.iter().filter(|other| *other == page).count() {
            1 => {}
            times => {
                breaches.push(format!("{SUMMARY}: names {} {times} times, accepted is once", page.display()))
            }
        }
    }
    Ok(breaches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_lead_nowhere_are_breaches() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(
            "README.md",
            "# Top\n[a](docs/a.md#part-one), [b](docs/b.md), [c](docs/a.md#gone), [d](#top)\n",
        );
        write("docs/a.md", "## Part one\n![p](p.png) ![q](q.png)\n");
        write("docs/p.png", "");
        write("docs/lost.md", "");
        write("docs/SUMMARY.md", "- [Top](../README.md)\n- [A](a.md)\n");
        assert_eq!(
            judge(root.path()).unwrap(),
            [
                "README.md:2: the link `docs/b.md` leads to no file",
                "README.md:2: docs/a.md has no heading `#gone`",
                "docs/a.md:2: the link `q.png` leads to no file",
                "docs/SUMMARY.md: names docs/lost.md 0 times, accepted is once",
            ]
        );
    }
}
