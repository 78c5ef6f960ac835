//! The commands in the Markdown pages of the project: lines of fenced blocks, and texts in backticks.
//!
//! Must never know what a command does.

use std::fs;
use std::path::{Path, PathBuf};

/// The languages of blocks that may hold commands.
const BLOCKS: [&str; 2] = ["", "sh"];

/// A command of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Path of the page from the root of the project.
    pub page: String,
    /// Number of its line.
    pub line: usize,
    /// The text that a person would type, without the comment.
    pub text: String,
}

/// `README.md` and the pages of `docs/`, as paths from the root, in order.
///
/// # Panics
/// A folder cannot be read.
pub fn all(root: &Path) -> Vec<PathBuf> {
    let (mut pages, mut next) = (vec![PathBuf::from("README.md")], vec![root.join("docs")]);
    while let Some(folder) = next.pop() {
        for entry in fs::read_dir(&folder).expect("the pages are there") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                next.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path.strip_prefix(root).expect("it is below the root").to_path_buf());
            }
        }
    }
    pages.sort();
    pages
}

/// The commands in the fenced blocks of all pages. A block is one of commands if a line of it begins with one of these programs;
/// then all lines do, or go on with the one before.
///
/// # Panics
/// A page cannot be read, or a block has a command and something else.
pub fn commands(root: &Path, programs: &[&str]) -> Vec<Command> {
    let mut commands = Vec::new();
    for page in all(root) {
        let text = fs::read_to_string(root.join(&page)).expect("a page can be read");
        commands.extend(of_page(&page.to_string_lossy(), &text, programs));
    }
    commands
}

/// The same for the text of one page.
///
/// # Panics
/// A block has a command and something else.
pub fn of_page(page: &str, text: &str, programs: &[&str]) -> Vec<Command> {
    let (mut found, mut block, mut language) = (Vec::new(), Vec::new(), None::<&str>);
    for (line, number) in text.lines().zip(1..) {
        match (line.trim_start().strip_prefix("```"), language) {
            (Some(name), None) => language = Some(name.trim()),
            (Some(_), Some(name)) => {
                if BLOCKS.contains(&name) {
                    found.extend(of_block(page, &block, programs));
                }
                block.clear();
                language = None;
            }
            (None, Some(_)) => block.push((number, line)),
            (None, None) => {}
        }
    }
    found
}

fn of_block(page: &str, block: &[(usize, &str)], programs: &[&str]) -> Vec<Command> {
    let (mut found, mut goes_on) = (Vec::<Command>::new(), false);
    for (line, text) in block.iter().filter(|(_, text)| !text.trim().is_empty()) {
        let (bare, more) = match text.strip_suffix('\\') {
            Some(bare) => (bare, true),
            None => (*text, false),
        };
        let bare = without_comment(bare).trim();
        match found.last_mut().filter(|_| goes_on) {
            Some(before) => before.text += &format!(" {bare}"),
            None => found.push(Command { page: page.to_owned(), line: *line, text: bare.to_owned() }),
        }
        goes_on = more;
    }
    let is_command =
        |one: &Command| one.text.split(' ').next().is_some_and(|first| programs.contains(&first));
    if !found.iter().any(is_command) {
        return Vec::new();
    }
    if let Some(other) = found.iter().find(|one| !is_command(one)) {
        panic!(
            "{page}:{}: neither a command of {programs:?} nor a block of output: {}",
            other.line, other.text
        );
    }
    found
}

/// The texts in backticks, outside of blocks, that begin with one of these programs and a blank.
///
/// # Panics
/// A page cannot be read.
pub fn spans(root: &Path, programs: &[&str]) -> Vec<Command> {
    let mut found = Vec::new();
    for page in all(root) {
        let text = fs::read_to_string(root.join(&page)).expect("a page can be read");
        let mut fenced = false;
        for (text, line) in text.lines().zip(1..) {
            fenced ^= text.trim_start().starts_with("```");
            for span in text.split('`').skip(1).step_by(2).filter(|_| !fenced) {
                if programs
                    .iter()
                    .any(|name| span.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')))
                {
                    let page = page.to_string_lossy().into_owned();
                    found.push(Command { page, line, text: span.to_owned() });
                }
            }
        }
    }
    found
}

/// A line without its comment, which begins with a blank and `#` outside of quotes.
fn without_comment(line: &str) -> &str {
    let (mut quote, mut before) = (None, ' ');
    for (at, c) in line.char_indices() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if c == '\'' || c == '"' => quote = Some(c),
            None if c == '#' && before == ' ' => return line.get(..at).unwrap_or(line),
            None => {}
        }
        before = c;
    }
    line
}

/// The words of each program that a command starts, as a shell takes them apart: `;`, `&&` and `|` are between programs, and what
/// is read from or written to a file is left out.
pub fn calls(text: &str) -> Vec<Vec<String>> {
    let (mut calls, mut words, mut word, mut quote) = (Vec::new(), Vec::new(), None::<String>, None);
    for c in text.chars().chain([';']) {
        match quote {
            Some(open) if c == open => quote = None,
            None if c == '\'' || c == '"' => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if " ;&|<>".contains(c) => {
                words.extend(word.take());
                if "<>".contains(c) {
                    words.push(c.to_string());
                } else if c != ' ' {
                    calls.push(std::mem::take(&mut words));
                }
            }
            _ => word.get_or_insert_default().push(c),
        }
    }
    for words in &mut calls {
        while let Some(at) = words.iter().position(|word| word == "<" || word == ">") {
            words.drain(at..words.len().min(at + 2));
        }
    }
    calls.retain(|words| !words.is_empty());
    calls
}
