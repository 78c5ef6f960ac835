//! Every command line of the documentation is one that this program takes, in the words of today.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Parser;

use super::Cli;
use crate::spelling;

/// The workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The pages: those for readers, in the root and below `docs`.
fn pages() -> Vec<PathBuf> {
    let below = |folder: &Path| -> Vec<PathBuf> {
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    let folders = ["", "docs", "docs/tutorials", "docs/graphs", "policies"].map(|folder| root().join(folder));
    let mut pages: Vec<PathBuf> = folders.iter().flat_map(|folder| below(folder)).collect();
    pages.retain(|path| path.extension().is_some_and(|ending| ending == "md"));
    // The changelog keeps the words of each release.
    pages.retain(|path| path.file_name().is_some_and(|name| name != "CHANGELOG.md"));
    pages.sort();
    pages
}

/// The commands of a line of a shell: words without quotes, cut at `;`, `|`, `&`, and up to a comment or a redirection.
fn commands(line: &str) -> Vec<Vec<String>> {
    let mut all = vec![Vec::new()];
    let (mut word, mut quote) = (None::<String>, None);
    let end = |word: &mut Option<String>, all: &mut Vec<Vec<String>>| {
        if let (Some(word), Some(last)) = (word.take(), all.last_mut()) {
            last.push(word);
        }
    };
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, ' ' | '\t') => end(&mut word, &mut all),
            (None, '#' | '>' | '<') if word.is_none() => break,
            (None, ';' | '|' | '&') => {
                end(&mut word, &mut all);
                all.push(Vec::new());
            }
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    end(&mut word, &mut all);
    all
}

/// True for a form of a command, with placeholders, which is no command.
fn is_form(words: &[String]) -> bool {
    words.iter().any(|word| {
        word.contains("...") || word.contains('[') && !word.contains(char::is_numeric) || word == "…"
    })
}

#[test]
fn every_command_on_a_page_is_one_of_today() {
    let (mut seen, mut wrong) = (0, Vec::new());
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        let mut fenced = false;
        for (number, line) in text.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                fenced = !fenced;
                continue;
            }
            for words in commands(line.trim_start().trim_start_matches("$ ")) {
                let mut ours = match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
                    ["fluxgate", ..] => words.clone(),
                    ["flux", "gate", ..] => words[1..].to_vec(),
                    _ => continue,
                };
                if !fenced || is_form(&ours) || ours.len() < 2 || line.trim_end().ends_with('\\') {
                    continue;
                }
                seen += 1;
                // The environment of an instance has the URI.
                if ours[1] == "sched" && !ours.iter().any(|word| word == "--uri") {
                    ours.extend(["--uri", "local:///x"].map(str::to_owned));
                }
                let (today, hints) = spelling::today(ours.iter().map(OsString::from));
                let parsed = Cli::try_parse_from(today);
                let fault = match parsed {
                    Ok(_) => hints.first().cloned(),
                    // Help and the version are answers.
                    Err(error) if !error.use_stderr() => None,
                    Err(error) => Some(error.to_string()),
                };
                if let Some(fault) = fault {
                    wrong.push(format!("{}:{}: {line}\n  {fault}", page.display(), number + 1));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 80, "{seen} commands were found");
}

#[test]
fn a_line_of_a_shell_is_cut_into_commands() {
    let cut = |line: &str| commands(line).iter().map(|words| words.join("/")).collect::<Vec<_>>();
    assert_eq!(cut("fluxgate a 'b c' \"d\" # e"), ["fluxgate/a/b c/d"]);
    assert_eq!(cut("fluxgate a && fluxgate b | c > d"), ["fluxgate/a", "", "fluxgate/b", "c"]);
    assert_eq!(cut("x '' y#z"), ["x//y#z"]);
}
