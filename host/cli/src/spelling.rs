//! Words of the command line as earlier releases spelt them: they are accepted, with a hint.
//!
//! They are rewritten before anything is parsed, so that help, completions and man pages know only the words of today. Must never
//! do what a command says.

use std::ffi::{OsStr, OsString};

/// The present spelling of an earlier word.
#[derive(Debug, Clone, Copy)]
enum Change {
    /// The next word of a command: `graph load` is `graph check`.
    Command(&'static str, &'static str),
    /// A flag, with or without `=VALUE`: `--connect URI` is `--uri URI`.
    Flag(&'static str, &'static str),
    /// A flag that had a value of its own: `--from-instance=URI` is `--from-instance --uri=URI`.
    Value(&'static str, &'static str),
}

/// The commands below which a word was spelt otherwise, and how.
const EARLIER: &[(&[&str], Change)] = &[
    (&["graph"], Change::Command("load", "check")),
    (&["graph"], Change::Command("destroy", "remove")),
    (&["graph"], Change::Value("--from-instance", "--uri")),
    (&["policy"], Change::Command("key", "generate-key")),
    (&["sched"], Change::Flag("--connect", "--uri")),
    (&["sched"], Change::Flag("--limit", "--queue-depth")),
];

/// The arguments as they are spelt today, the name of the program first, and a hint for each earlier spelling.
pub(crate) fn today(arguments: impl IntoIterator<Item = OsString>) -> (Vec<OsString>, Vec<String>) {
    let (mut written, mut hints, mut path) = (Vec::new(), Vec::new(), Vec::<String>::new());
    // The words before the first flag name the command; from `--` on all words are those of another program.
    let (mut naming, mut ours) = (true, true);
    for (place, argument) in arguments.into_iter().enumerate() {
        let word = argument.to_str().unwrap_or_default().to_owned();
        ours = ours && word != "--";
        let change = EARLIER
            .iter()
            .filter(|(below, _)| place > 0 && ours && is_below(&path, below))
            .find_map(|(below, change)| rewritten(*change, &word, naming && path.len() == below.len()));
        naming = naming && !word.starts_with('-');
        let name = match change {
            None => {
                written.push(argument);
                word
            }
            Some((now, hint)) => {
                written.extend(now.iter().map(OsString::from));
                hints.push(hint);
                now.into_iter().next().unwrap_or_default()
            }
        };
        if place > 0 && naming {
            path.push(name);
        }
    }
    (written, hints)
}

fn is_below(path: &[String], command: &[&str]) -> bool {
    path.iter().map(OsStr::new).zip(command).filter(|(a, b)| a == *b).count() == command.len()
}

/// The present spelling of a word, and the hint; `None` if it is no word of an earlier release.
fn rewritten(change: Change, word: &str, names: bool) -> Option<(Vec<String>, String)> {
    let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
    let hint = |old: &str, new: &str| format!("{old} is called {new} now");
    match change {
        Change::Command(old, new) => (names && word == old).then(|| (vec![new.to_owned()], hint(old, new))),
        Change::Flag(old, new) if name == old => {
            let now = value.map_or_else(|| new.to_owned(), |value| format!("{new}={value}"));
            Some((vec![now], hint(old, new)))
        }
        Change::Value(flag, new) if name == flag => value.map(|value| {
            let now = vec![flag.to_owned(), format!("{new}={value}")];
            (now, format!("{flag}=... is written {flag} {new}=... now"))
        }),
        Change::Flag(..) | Change::Value(..) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> (String, usize) {
        let (words, hints) = today(line.split(' ').map(OsString::from));
        let words: Vec<String> = words.into_iter().map(|word| word.into_string().unwrap()).collect();
        (words.join(" "), hints.len())
    }

    #[test]
    fn words_of_earlier_releases_are_rewritten_where_they_stood() {
        for (then, now) in [
            ("fluxgate graph load a.json --json", "fluxgate graph check a.json --json"),
            ("fluxgate graph destroy load", "fluxgate graph remove load"),
            (
                "fluxgate graph find --from-instance=local:///a x",
                "fluxgate graph find --from-instance --uri=local:///a x",
            ),
            ("gate policy key k", "gate policy generate-key k"),
            ("fluxgate sched --connect a --limit=4", "fluxgate sched --uri a --queue-depth=4"),
        ] {
            let (words, hints) = of(then);
            assert_eq!(words, now);
            assert!(hints > 0, "{then}");
        }
        // Of today, of other commands, and other programs' words.
        for line in [
            "fluxgate graph check load",
            "fluxgate graph find --from-instance x",
            "fluxgate replay key --limit 4",
            "fluxgate submit sched --connect a",
            "fluxgate submit -n2 -- graph load --connect",
            "fluxgate sched --uri a -- --connect",
            "fluxgate",
        ] {
            assert_eq!(of(line), (line.to_owned(), 0));
        }
        assert!(
            today(["fluxgate", "graph", "load"].map(OsString::from)).1[0].contains("load is called check")
        );
    }
}
