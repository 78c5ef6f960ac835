//! `docs/limits.md`: the bounds of the host, written from the constants that enforce them.
//!
//! A bound is a constant whose name ends in `_MAX`. Its doc comment says what it bounds.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// The page.
pub(super) const PAGE: &str = "docs/limits.md";

/// The crates whose bounds stand on the page, with their headings: those that foreign bytes and foreign code reach.
const CRATES: [(&str, &str); 11] = [
    ("wire", "The wire of a broker"),
    ("sched", "The scheduler service"),
    ("engine", "The engine"),
    ("graph", "The resource graph"),
    ("formats", "Formats"),
    ("policy", "Policies"),
    ("artefact", "Registries, keys and the audit trail"),
    ("journal", "The journal"),
    ("instance", "The embedded instance"),
    ("web", "The dashboard"),
    ("cli", "The command line"),
];

const HEAD: &str = "# Limits

Every size that others decide is bounded. This page is written from the constants that the code enforces (`cargo xtask tidy
--write`), and a test fails when it is out of date. What a policy may use of fuel, memory and time is set by the site:
`share/doc/fluxgate/sched-fluxgate.toml` of an installation has those bounds with their defaults.
";

/// A page that is out of date.
pub(super) fn judge(root: &Path) -> Result<Option<String>> {
    let written = fs::read_to_string(root.join(PAGE)).unwrap_or_default();
    let stale = written != page(root)?;
    Ok(stale.then(|| format!("{PAGE}: not what the constants say; `cargo xtask tidy --write` writes it")))
}

/// The page as it should be.
pub(super) fn page(root: &Path) -> Result<String> {
    let mut text = HEAD.to_owned();
    for (name, heading) in CRATES {
        let _ = write!(text, "\n## {heading}\n\n| limit | value | where |\n|--|--:|--|\n");
        let folder = Path::new("host").join(name).join("src");
        let mut files = Vec::new();
        super::sources(&root.join(&folder), &mut files)?;
        files.retain(|file| !file.components().any(|part| part.as_os_str() == "tests"));
        files.sort();
        for file in files {
            let source = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
            let shown = file.strip_prefix(root).unwrap_or(&file).display().to_string();
            for (what, value) in bounds(&source).with_context(|| shown.clone())? {
                let _ = writeln!(text, "| {what} | {value} | `{shown}` |");
            }
        }
    }
    Ok(text)
}

/// The description of each bound of a file, and its value.
fn bounds(source: &str) -> Result<Vec<(String, String)>> {
    let mut rows = Vec::new();
    let mut doc = String::new();
    for line in source.lines().map(str::trim) {
        if line == "#[cfg(test)]" {
            break;
        }
        if let Some(text) = line.strip_prefix("///") {
            doc.push_str(text);
            continue;
        }
        if let Some((name, value)) = constant(line) {
            let sentence = doc.trim().split(". ").next().unwrap_or_default().trim_end_matches('.');
            let bytes = sentence.contains("bytes") || name.contains("BYTES");
            match shown(&value, bytes) {
                Some(_) if doc.is_empty() => bail!("{name} has no comment that says what it bounds"),
                Some(value) => rows.push((linkless(sentence), value)),
                None => {}
            }
        }
        doc.clear();
    }
    Ok(rows)
}

/// The name and the expression of a bound.
fn constant(line: &str) -> Option<(&str, String)> {
    let rest = ["pub const ", "pub(crate) const ", "pub(super) const ", "const "]
        .iter()
        .find_map(|start| line.strip_prefix(start))?;
    let (name, rest) = rest.split_once(": ")?;
    let (_, value) = rest.split_once(" = ")?;
    name.ends_with("_MAX").then(|| (name, value.trim_end_matches(';').replace('_', "")))
}

/// A value for people; `None` for an expression of other constants.
fn shown(value: &str, bytes: bool) -> Option<String> {
    let seconds = |text: &str, unit: &str| Some(format!("{} {unit}", text.strip_suffix(')')?));
    if let Some(text) = value.strip_prefix("Duration::fromsecs(") {
        return seconds(text, "s");
    }
    if let Some(text) = value.strip_prefix("Duration::frommillis(") {
        return seconds(text, "ms");
    }
    let number = number(value)?;
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let unit = units.iter().find(|(_, bits)| bytes && number % (1 << bits) == 0);
    Some(match unit {
        Some((unit, bits)) => format!("{} {unit}", number >> bits),
        None => grouped(number),
    })
}

fn number(value: &str) -> Option<u128> {
    let known = [("u32::MAX", u128::from(u32::MAX)), ("i32::MAX as u64", i32::MAX as u128)];
    let known = known.into_iter().chain([("i64::MAX as u64", i64::MAX as u128)]);
    if let Some((_, number)) = known.into_iter().find(|(name, _)| *name == value) {
        return Some(number);
    }
    if let Some((number, bits)) = value.split_once(" << ") {
        return Some(number.parse::<u128>().ok()? << bits.parse::<u32>().ok().filter(|bits| *bits < 64)?);
    }
    if let Some((a, b)) = value.split_once(" * ") {
        return number(a)?.checked_mul(number(b)?);
    }
    value.trim_end_matches(".0").parse().ok()
}

/// Digits in groups of three.
fn grouped(number: u128) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A sentence without the links of rustdoc, and with `|` escaped for a cell.
fn linkless(sentence: &str) -> String {
    sentence.replace(['[', ']'], "").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_shown_in_words_and_digits() {
        let source = "/// Longest line, bytes. More is cut.\npub const LINE_MAX: usize = 64 << 10;\n\
            /// Most jobs.\nconst JOBS_MAX: u64 = 1_000_000;\n/// Longest wait.\npub(crate) const WAIT_MAX: Duration = \
            Duration::from_secs(4);\nconst OTHER: u8 = 3;\n#[cfg(test)]\nconst NOT_MAX: u8 = 1;\n";
        let row = |(what, value): &(String, String)| format!("{what}: {value}");
        let rows: Vec<String> = bounds(source).unwrap().iter().map(row).collect();
        assert_eq!(rows, ["Longest line, bytes: 64 KiB", "Most jobs: 1,000,000", "Longest wait: 4 s"]);
        let error = bounds("const X_MAX: u8 = 1;\n").unwrap_err();
        assert!(error.to_string().contains("X_MAX"), "{error}");
    }
}
