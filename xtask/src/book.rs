//! `cargo xtask book`: the pages of the repository as a book with search, by mdBook.
//!
//! A book has no files outside of its folder. So the pages that `docs/SUMMARY.md` names, and the files that they link to, are put
//! into a folder of their own, each at its path in the repository, and the links between them hold as they are. Must never know
//! what a page says.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::house::{House, files};
use crate::pages::{links, resolved};
use crate::tools;

/// The crate of the tool, and its version; of its features only the search is asked for.
const TOOL: (&str, &str, &str) = ("mdbook", "0.5.4", "search");

/// The table of contents.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Settings of the book and its rules of style.
const SETTINGS: [(&str, &str); 2] = [("docs/book.toml", "book.toml"), ("docs/book.css", "book.css")];

/// Builds the book into `target/book` and follows every link of what was built.
pub(crate) fn build(house: &House) -> Result<()> {
    let (name, version, features) = TOOL;
    let programs = tools::from_crates(house, name, version, features)?;
    let source = house.target().join("book-source");
    let out = house.target().join("book");
    let pages = stage(house.root(), &source)?;
    let mdbook = house.program(programs.join(name)).args(["build"]).arg(&source);
    mdbook.arg("--dest-dir").arg(&out).run()?;
    let broken = broken(&out)?;
    ensure!(broken.is_empty(), "links of the book lead nowhere:\n  {}", broken.join("\n  "));
    println!("{pages} pages: {}", out.join("index.html").display());
    Ok(())
}

/// Fills the folder from which the book is built; the number of its pages.
fn stage(root: &Path, source: &Path) -> Result<usize> {
    if source.exists() {
        fs::remove_dir_all(source).with_context(|| format!("{}", source.display()))?;
    }
    let put = |from: &Path, to: &Path| {
        let to = source.join(to);
        fs::create_dir_all(to.parent().context("it is below the folder")?)?;
        fs::copy(root.join(from), &to).with_context(|| format!("{}", from.display())).map(drop)
    };
    let read =
        |page: &Path| fs::read_to_string(root.join(page)).with_context(|| format!("{}", page.display()));
    let summary = read(Path::new(SUMMARY))?;
    let page_of = |link: &str| resolved(Path::new(SUMMARY), link);
    let pages: BTreeSet<PathBuf> = links(&summary).iter().map(|link| page_of(&link.path)).collect();
    for page in &pages {
        put(page, page)?;
        for link in links(&read(page)?) {
            let to = resolved(page, &link.path);
            if pages.contains(&to) {
                continue;
            }
            if to.extension().is_some_and(|extension| extension == "md") || !root.join(&to).is_file() {
                let place = format!("{}:{}", page.display(), link.line);
                bail!(
                    "{place}: a book has pages that {SUMMARY} names, and files; this is neither: {}",
                    to.display()
                );
            }
            put(&to, &to)?;
        }
    }
    let mut contents = String::new();
    for line in summary.lines() {
        match links(line).first() {
            Some(link) => {
                let page = page_of(&link.path).display().to_string();
                contents += &line.replace(&format!("({})", link.path), &format!("({page})"));
            }
            None => contents += line,
        }
        contents.push('\n');
    }
    fs::write(source.join("SUMMARY.md"), contents)?;
    for (from, to) in SETTINGS {
        put(Path::new(from), Path::new(to))?;
    }
    Ok(pages.len())
}

/// Links of the built book to pages and headings that are not there.
fn broken(out: &Path) -> Result<Vec<String>> {
    let mut broken = Vec::new();
    for page in files(out)?.iter().filter(|path| path.extension().is_some_and(|it| it == "html")) {
        let page = page.strip_prefix(out)?;
        // The page for missing pages is read at any path.
        if page == Path::new("404.html") {
            continue;
        }
        let text = fs::read_to_string(out.join(page))?;
        for target in targets(&text) {
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let to = resolved(page, path);
            let found = out.join(&to);
            let whole = found.exists()
                && (anchor.is_empty()
                    || fs::read_to_string(&found)
                        .is_ok_and(|text| text.contains(&format!("id=\"{anchor}\""))));
            if !whole {
                broken.push(format!("{}: {target}", page.display()));
            }
        }
    }
    broken.dedup();
    Ok(broken)
}

/// Links of a built page into its book.
fn targets(html: &str) -> impl Iterator<Item = &str> {
    let marks = [" href=\"", " src=\""];
    let found = marks.into_iter().flat_map(move |mark| html.split(mark).skip(1));
    let found = found.filter_map(|rest| rest.split('"').next());
    found.filter(|target| !target.contains(':') && !target.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_book_has_all_that_its_pages_lead_to() {
        let house = House::find().unwrap();
        let source = tempfile::tempdir().unwrap();
        let source = source.path().join("source");
        let pages = stage(house.root(), &source).unwrap();
        assert!(pages > 40, "{pages}");
        let summary = fs::read_to_string(source.join("SUMMARY.md")).unwrap();
        assert!(summary.contains("](docs/admin.md)") && summary.contains("](README.md)"), "{summary}");
        assert!(source.join("docs/images/web/now-light.png").is_file());
    }

    #[test]
    fn links_of_built_pages_are_followed() {
        let out = tempfile::tempdir().unwrap();
        fs::create_dir(out.path().join("a")).unwrap();
        fs::write(out.path().join("index.html"), "<h1 id=\"top\"><a href=\"a/b.html#x\"><a href=\"#top\">")
            .unwrap();
        let page =
            "<i id=\"x\"><img src=\"../gone.png\"><a href=\"../index.html#no\"><a href=\"https://e.org/\">";
        fs::write(out.path().join("a/b.html"), page).unwrap();
        assert_eq!(broken(out.path()).unwrap(), ["a/b.html: ../index.html#no", "a/b.html: ../gone.png"]);
    }
}
