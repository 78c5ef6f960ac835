//! Contents of the Markdown pages of this repository, as far as checks and the book need them: links and headings.
//!
//! Must never know what a page says.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};

use crate::house::files;

/// Folders whose pages are read by people; templates of new policies and the packages of crates have pages of their own.
const FOLDERS: [&str; 2] = ["docs", "policies"];

/// A link or a picture of a page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// Number of its line.
    pub(crate) line: usize,
    /// Path relative to the page; empty for a heading of the page itself.
    pub(crate) path: String,
    /// Heading after `#`, if it names one.
    pub(crate) anchor: Option<String>,
}

/// The pages of the root, of `docs/` and of `policies/`, as paths from the root, in order.
pub(crate) fn all(root: &Path) -> Result<Vec<PathBuf>> {
    let mut pages = Vec::new();
    for entry in fs::read_dir(root).with_context(|| format!("{}", root.display()))? {
        pages.push(entry?.path());
    }
    for folder in FOLDERS {
        pages.extend(files(&root.join(folder))?);
    }
    pages.retain(|page| page.is_file() && page.extension().is_some_and(|extension| extension == "md"));
    pages.sort();
    Ok(pages.iter().filter_map(|page| Some(page.strip_prefix(root).ok()?.to_path_buf())).collect())
}

/// The lines of a page outside of fenced blocks, without texts in backticks if `spans` is false.
fn prose(text: &str, spans: bool) -> impl Iterator<Item = (usize, String)> {
    let mut fenced = false;
    text.lines().zip(1..).filter_map(move |(line, number)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        let plain = || match spans {
            true => line.to_owned(),
            false => line.split('`').step_by(2).collect(),
        };
        (!fence && !fenced).then(|| (number, plain()))
    })
}

/// The links of a page to files and headings; those to other sites are left out.
pub(crate) fn links(text: &str) -> Vec<Link> {
    let mut links = Vec::new();
    for (line, prose) in prose(text, false) {
        for rest in prose.split("](").skip(1) {
            let target = rest.split(')').next().unwrap_or_default();
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = match target.split_once('#') {
                Some((path, anchor)) => (path, Some(anchor.to_owned())),
                None => (target, None),
            };
            links.push(Link { line, path: path.to_owned(), anchor });
        }
    }
    links
}

/// The anchors of a page's headings, as GitHub and mdBook make them.
pub(crate) fn anchors(text: &str) -> Vec<String> {
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    let mut anchors = Vec::new();
    for (_, line) in prose(text, true) {
        let level = line.chars().take_while(|c| *c == '#').count();
        let Some(title) = line.get(level..).filter(|rest| level > 0 && rest.starts_with(' ')) else {
            continue;
        };
        let plain = slug(&without_targets(title));
        let seen = times.entry(plain.clone()).or_default();
        anchors.push(if *seen == 0 { plain } else { format!("{plain}-{seen}") });
        *seen += 1;
    }
    anchors
}

/// A heading with the words of its links alone.
fn without_targets(title: &str) -> String {
    let mut parts = title.split("](");
    let mut words = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        words += part.split_once(')').map_or("", |(_, rest)| rest);
    }
    words
}

fn slug(title: &str) -> String {
    let kept = title.trim().chars().filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The path from the root that a link of a page leads to.
pub(crate) fn resolved(page: &Path, link: &str) -> PathBuf {
    if link.is_empty() {
        return page.to_path_buf();
    }
    let mut path = PathBuf::new();
    for part in page.parent().unwrap_or(Path::new("")).join(link).components() {
        match part {
            Component::ParentDir if path.pop() => {}
            Component::CurDir => {}
            // A path that leaves the root keeps its dots, so that it leads nowhere.
            other => path.push(other),
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_those_of_prose() {
        let text = "See [a](b.md#c), ![d](e/f.png) and [`g`](#h).\n`[x](y)` [z](https://z)\n```\n[x](y)\n```\n[k](l)\n";
        let link = |line, path: &str, anchor: Option<&str>| Link {
            line,
            path: path.to_owned(),
            anchor: anchor.map(str::to_owned),
        };
        assert_eq!(
            links(text),
            [
                link(1, "b.md", Some("c")),
                link(1, "e/f.png", None),
                link(1, "", Some("h")),
                link(6, "l", None)
            ]
        );
    }

    #[test]
    fn anchors_are_words_with_hyphens() {
        let text = "# One `two`, three: é\n## A\n```\n# no\n```\n## A\n## See [b c](d.md)\n#no\n";
        assert_eq!(anchors(text), ["one-two-three-é", "a", "a-1", "see-b-c"]);
    }

    #[test]
    fn a_link_is_relative_to_its_page() {
        let to = |page: &str, link: &str| resolved(Path::new(page), link).display().to_string();
        assert_eq!(to("docs/a/b.md", "../c.md"), "docs/c.md");
        assert_eq!(to("docs/b.md", "./../c.md"), "c.md");
        assert_eq!(to("docs/b.md", ""), "docs/b.md");
        assert_eq!(to("b.md", "../c.md"), "../c.md");
    }
}
