//! `cargo xtask flux-tests`: scripts of flux-core's own test suite with Fluxgate in the place of its schedulers, and the table of
//! `docs/flux-core-tests.md` that they make.
//!
//! The tree of flux-core is the user's, built in place; nothing is written into it. Must never know what a script tests.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::house::{House, Program};
use crate::policies;

/// Options of `cargo xtask flux-tests`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// A source tree of flux-core, configured and built in place.
    #[arg(long, value_name = "DIR")]
    flux_core: PathBuf,
    /// Write the rows into docs/flux-core-tests.md, too.
    #[arg(long)]
    write: bool,
    /// Seconds after which a script is ended.
    #[arg(long, default_value_t = 240, value_name = "SECONDS")]
    limit: u64,
    /// Scripts of its folder t, such as t2300-sched-simple; by default those of the table in docs/flux-core-tests.md.
    scripts: Vec<String>,
}

/// The page with the table, and the head of the table.
const PAGE: &str = "docs/flux-core-tests.md";
const HEAD: &str = "| script | passed | failed | run | reason |";

/// The schedulers that are replaced, and the arguments that come before those of a script.
const REPLACED: [(&str, &[&str]); 3] = [
    ("sched-simple", &["policy=fcfs", "placement=spread", "queue-depth=8"]),
    ("sched-fifo", &["policy=fcfs", "placement=spread"]),
    ("sched-backfill", &["policy=easy", "placement=spread"]),
];
/// An argument of these schedulers that is an argument of another name here.
const TRANSLATED: (&str, &str) = ("pool-class=TreePool", "placement=locality");

/// What a script said.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: usize,
    failed: usize,
    /// Names of the cases that failed.
    names: Vec<String>,
    /// Why there are no counts, or not of all cases.
    cut: Option<String>,
}

/// Runs the scripts, prints and, if it is asked for, writes their rows.
pub(crate) fn run(house: &House, options: &Options) -> Result<()> {
    let tree =
        options.flux_core.canonicalize().with_context(|| format!("{}", options.flux_core.display()))?;
    let flux = tree.join("src/cmd/flux");
    if !flux.is_file() {
        bail!("{}: no src/cmd/flux: build flux-core there first", tree.display());
    }
    let page = house.root().join(PAGE);
    let text = fs::read_to_string(&page).with_context(|| format!("{}", page.display()))?;
    let rows = rows(&text)?;
    let scripts: Vec<String> = match options.scripts.is_empty() {
        true => rows.keys().cloned().collect(),
        false => options.scripts.iter().map(|name| name.trim_end_matches(".t").to_owned()).collect(),
    };
    policies::build_beside(
        house,
        &[],
        house.cargo("build").args(["--package", "fluxgate", "--bin", "fluxgate"]),
    )?;
    let shims = tempfile::tempdir().context("cannot make a folder")?;
    let source = fs::read_to_string(house.root().join("host/cli/share/sched-fluxgate.py"))?;
    for (name, before) in REPLACED {
        let binary = house.target().join("debug/fluxgate");
        fs::write(shims.path().join(format!("{name}.py")), shim(&source, &binary, before)?)?;
    }
    let run = when(house)?;
    let version = Program::new(&flux).arg("version").read()?;
    let version = version.lines().find_map(|line| line.strip_prefix("libflux-core:")).unwrap_or("").trim();
    println!("flux-core {version}, Fluxgate {run}\n\n{HEAD}\n|---|--:|--:|---|---|");
    let mut text = text;
    for name in &scripts {
        let counts = script(house, &tree, shims.path(), name, options.limit)?;
        let before = rows.get(name);
        let row = row(name, &counts, &run, before.map_or("", |row| &row[3]));
        println!("{row}");
        counts.names.iter().for_each(|name| eprintln!("  failed: {name}"));
        if before
            .is_some_and(|row| row[0] != counts.passed.to_string() || row[1] != counts.failed.to_string())
        {
            eprintln!("  the page has other counts: its reason may no longer be true");
        }
        text = with(&text, name, &row)?;
    }
    if options.write {
        fs::write(&page, text).with_context(|| format!("{}", page.display()))?;
    }
    Ok(())
}

/// The day, and the commit of this tree.
fn when(house: &House) -> Result<String> {
    let day = Program::new("date").args(["-u", "+%F"]).read()?;
    let describe = ["describe", "--always", "--dirty=+changes", "--exclude=*"];
    let commit = Program::new("git").folder(house.root()).args(describe).read()?;
    Ok(format!("{}, {}", day.trim(), commit.trim()))
}

/// The shim of one scheduler: ours, with arguments before those of the script.
fn shim(source: &str, binary: &Path, before: &[&str]) -> Result<String> {
    let own = "json.dumps(args)";
    if !source.contains(own) || !source.contains("@BINARY@") {
        bail!("the installed shim has no `{own}` or no @BINARY@");
    }
    let (theirs, ours) = TRANSLATED;
    let arguments =
        format!("json.dumps({before:?} + [\"{ours}\" if one == \"{theirs}\" else one for one in args])");
    Ok(source.replace(own, &arguments).replace("@BINARY@", &binary.display().to_string()))
}

/// Runs one script with shims in the place of schedulers.
fn script(house: &House, tree: &Path, shims: &Path, name: &str, limit: u64) -> Result<Counts> {
    let file = tree.join("t").join(format!("{name}.t"));
    if !file.is_file() {
        bail!("{}: there is no such script", file.display());
    }
    let trash = tempfile::tempdir().context("cannot make a folder")?;
    let mut command = Command::new("timeout");
    command.args(["--kill-after=10", &limit.to_string()]).arg(&file);
    command.arg(format!("--root={}", trash.path().display())).current_dir(tree.join("t"));
    command.env("FLUX_MODULE_PATH_PREPEND", shims).env("FLUXGATE_POLICIES", house.policies());
    command.env_remove("FLUX_URI").stdin(Stdio::null());
    let output = command.output().with_context(|| format!("{}", file.display()))?;
    Ok(counts(&String::from_utf8_lossy(&output.stdout)))
}

/// Reads the results of a script, which are in the Test Anything Protocol.
fn counts(said: &str) -> Counts {
    let mut counts = Counts::default();
    let mut ended = false;
    for line in said.lines() {
        let lower = line.to_ascii_lowercase();
        if lower.starts_with("ok ") && !lower.contains("# skip") {
            counts.passed += 1;
        } else if lower.starts_with("not ok ") && !lower.contains("# todo") {
            counts.failed += 1;
            counts.names.push(line["not ok ".len()..].to_owned());
        } else if let Some(plan) = line.strip_prefix("1..") {
            ended = true;
            counts.cut = plan
                .split_once('#')
                .filter(|(count, _)| count.trim() == "0")
                .map(|(_, why)| why.trim().to_owned());
        }
    }
    if !ended {
        counts.cut = Some("did not come to its end".to_owned());
    }
    counts
}

fn row(name: &str, counts: &Counts, run: &str, reason: &str) -> String {
    let Counts { passed, failed, cut, .. } = counts;
    let reason = match cut {
        Some(why) => why,
        None if *failed == 0 => "",
        None => reason,
    };
    let space = if reason.is_empty() { "" } else { " " };
    format!("| {name} | {passed} | {failed} | {run} |{space}{reason} |")
}

/// The rows of the table, by script: passed, failed, run, reason.
fn rows(text: &str) -> Result<BTreeMap<String, [String; 4]>> {
    let (_, table) =
        text.split_once(HEAD).with_context(|| format!("{PAGE}: no table with the head {HEAD}"))?;
    let lines = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    Ok(lines
        .filter_map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [name, passed, failed, run, reason] = cells[..] else { return None };
            Some((name.to_owned(), [passed, failed, run, reason].map(str::to_owned)))
        })
        .collect())
}

/// The page with this row in the place of the script's own, or where it stands by its name.
fn with(text: &str, name: &str, row: &str) -> Result<String> {
    let (before, table) =
        text.split_once(HEAD).with_context(|| format!("{PAGE}: no table with the head {HEAD}"))?;
    let mut lines: Vec<&str> = table.split('\n').collect();
    let of = |line: &str| line.trim_matches('|').split('|').next().map(|cell| cell.trim().to_owned());
    let end = (2..lines.len()).find(|at| !lines[*at].starts_with('|')).unwrap_or(lines.len());
    match (2..end).find(|at| of(lines[*at]).is_some_and(|other| other.as_str() >= name)) {
        Some(at) if of(lines[at]).as_deref() == Some(name) => lines[at] = row,
        Some(at) => lines.insert(at, row),
        None => lines.insert(end, row),
    }
    Ok(format!("{before}{HEAD}{}", lines.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_counted() {
        let said = "ok 1 - loads\nnot ok 2 - a note\nok 3 # skip no tool (missing TOOL)\nnot ok 4 - old # TODO known breakage\n\
                    # failed 1\n1..4\n";
        let found = counts(said);
        assert_eq!(
            (found.passed, found.failed, found.names.as_slice()),
            (1, 1, &["2 - a note".to_owned()][..])
        );
        assert_eq!(found.cut, None);
        assert_eq!(counts("1..0 # SKIP no gpus\n").cut.as_deref(), Some("SKIP no gpus"));
        assert_eq!(counts("ok 1 - loads\n").cut.as_deref(), Some("did not come to its end"));
    }

    #[test]
    fn a_row_comes_into_its_place_and_reasons_stay_while_cases_fail() {
        let page = format!(
            "text\n\n{HEAD}\n|---|--:|--:|---|---|\n| t1-a | 3 | 1 | then, abc | (a) |\n| t3-c | 1 | 0 | then, abc | |\n\nmore\n"
        );
        let before = rows(&page).unwrap();
        assert_eq!(before["t1-a"], ["3", "1", "then, abc", "(a)"].map(str::to_owned));
        let one = Counts { passed: 2, failed: 2, ..Counts::default() };
        let page = with(&page, "t1-a", &row("t1-a", &one, "now, def", &before["t1-a"][3])).unwrap();
        let page =
            with(&page, "t2-b", &row("t2-b", &Counts { passed: 4, ..Counts::default() }, "now, def", ""))
                .unwrap();
        let page = with(&page, "t4-d", &row("t4-d", &Counts::default(), "now, def", "")).unwrap();
        let expected = format!(
            "text\n\n{HEAD}\n|---|--:|--:|---|---|\n| t1-a | 2 | 2 | now, def | (a) |\n| t2-b | 4 | 0 | now, def | |\n\
             | t3-c | 1 | 0 | then, abc | |\n| t4-d | 0 | 0 | now, def | |\n\nmore\n"
        );
        assert_eq!(page, expected);
    }

    #[test]
    fn the_installed_shim_gets_arguments() {
        let source = include_str!("../../host/cli/share/sched-fluxgate.py");
        let made = shim(source, Path::new("/x/fluxgate"), REPLACED[0].1).unwrap();
        assert!(made.contains("BINARY = \"/x/fluxgate\""), "{made}");
        assert!(
            made.contains(r#"json.dumps(["policy=fcfs", "placement=spread", "queue-depth=8"] + ["#),
            "{made}"
        );
    }

    #[test]
    fn the_page_has_the_table() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(PAGE);
        assert!(rows(&fs::read_to_string(page).unwrap()).unwrap().len() > 20);
    }
}
