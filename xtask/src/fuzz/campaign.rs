//! Runs of libFuzzer, some at a time: their processor time, and what they say at their end.
//!
//! Must never know targets by name, nor where results are kept.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::resource::{UsageWho, getrusage};

/// The result of one run.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Run {
    /// Processor time, seconds.
    pub(super) seconds: f64,
    /// Inputs that were run.
    pub(super) executions: u64,
    /// Edges of the control flow that some input reached.
    pub(super) edges: u64,
    /// Inputs that are kept, since each reaches something that no other does.
    pub(super) inputs: u64,
    /// An input made the target fail.
    pub(super) failed: bool,
}

impl Run {
    /// Reads what libFuzzer says, line by line; true for a line about its progress.
    fn hear(&mut self, line: &str) -> bool {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |name: &str| {
            let at = words.iter().position(|word| *word == name)?;
            words.get(at + 1)?.split('/').next()?.parse::<u64>().ok()
        };
        if let Some(edges) = number("cov:") {
            self.edges = edges;
            self.inputs = number("corp:").unwrap_or(self.inputs);
            return true;
        }
        if let Some(count) = number("stat::number_of_executed_units:") {
            self.executions = count;
        }
        false
    }
}

/// A run that goes on.
struct Going {
    place: usize,
    child: Child,
    /// Reads what it says; all of it, if it fails.
    reader: JoinHandle<(Run, Vec<String>)>,
}

/// How often the runs are looked at.
const LOOK: Duration = Duration::from_millis(100);
/// Lines of a failed run that are shown.
const LINES_MAX: usize = 60;

/// Runs all commands, `jobs` at a time, and tells of each that ended. The results are in the order of the commands.
pub(super) fn run(
    commands: Vec<Command>,
    jobs: usize,
    mut ended: impl FnMut(usize, &Run) -> Result<()>,
) -> Result<()> {
    let mut waiting = commands.into_iter().enumerate();
    let mut going: Vec<Going> = Vec::new();
    let mut spent = children()?;
    loop {
        while going.len() < jobs.max(1)
            && let Some((place, command)) = waiting.next()
        {
            going.push(start(place, command)?);
        }
        if going.is_empty() {
            return Ok(());
        }
        let mut left = Vec::new();
        for mut one in going {
            match one.child.try_wait().context("cannot wait")? {
                None => left.push(one),
                Some(status) => {
                    // Only children that were waited for are in the sum.
                    let now = children()?;
                    let run = finish(one.reader, status, now - spent)?;
                    spent = now;
                    ended(one.place, &run)?;
                }
            }
        }
        going = left;
        thread::sleep(LOOK);
    }
}

/// Processor time of children that have ended, seconds.
fn children() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("getrusage")?;
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}

fn start(place: usize, mut command: Command) -> Result<Going> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {command:?}"))?;
    let said = child.stderr.take().context("its standard error is a pipe")?;
    let reader = thread::spawn(move || {
        let (mut run, mut lines) = (Run::default(), Vec::new());
        for line in BufReader::new(said).lines().map_while(Result::ok) {
            if !run.hear(&line) {
                lines.push(line);
                if lines.len() > LINES_MAX {
                    lines.remove(0);
                }
            }
        }
        (run, lines)
    });
    Ok(Going { place, child, reader })
}

fn finish(reader: JoinHandle<(Run, Vec<String>)>, status: ExitStatus, seconds: f64) -> Result<Run> {
    let (run, lines) = reader.join().ok().context("what it said cannot be read")?;
    if !status.success() {
        lines.iter().for_each(|line| println!("  {line}"));
    }
    Ok(Run { seconds, failed: !status.success(), ..run })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_says_at_its_end_is_read() {
        let mut run = Run::default();
        assert!(
            run.hear("#1024\tNEW    cov: 311 ft: 400 corp: 12/3Kb lim: 17 exec/s: 512 rss: 41Mb L: 9/64")
        );
        assert!(run.hear("#4096\tDONE   cov: 320 ft: 433 corp: 19/5Kb lim: 43 exec/s: 2048 rss: 44Mb"));
        assert!(!run.hear("stat::number_of_executed_units: 4096"));
        assert!(!run.hear("Done 4096 runs in 2 second(s)"));
        let expected = Run { executions: 4096, edges: 320, inputs: 19, ..Run::default() };
        assert_eq!(run, expected);
    }

    #[test]
    fn runs_are_told_of_with_their_place_and_their_failure() {
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        };
        let commands = vec![
            shell("echo '#1 DONE cov: 5 ft: 6 corp: 2/1b' >&2; echo 'stat::number_of_executed_units: 7' >&2"),
            shell("exit 1"),
        ];
        let mut found = Vec::new();
        run(commands, 2, |place, run| {
            found.push((place, run.edges, run.executions, run.failed));
            Ok(())
        })
        .unwrap();
        found.sort_unstable();
        assert_eq!(found, [(0, 5, 7, false), (1, 0, 0, true)]);
    }
}
