//! Waiting with an end. A process that hangs fails the test that waits for it, with the place where its threads wait, so
//! that no suite hangs without a word.
//!
//! Must never know the process that is waited for.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Longest wait for a line, an answer or the end of a process that was told to end. It is reached only by a process that
/// hangs.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// Longest run of a command: the replays of the largest logs take minutes without optimisation.
const LONGEST: Duration = Duration::from_secs(1500);

/// Runs a command to its end, as [`Command::output`] does.
///
/// # Panics
///
/// If it cannot be started, or does not end.
pub fn output(mut command: Command) -> Output {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}; run `cargo xtask build`"));
    let id = child.id();
    let (ends, ended) = channel();
    thread::spawn(move || ends.send(child.wait_with_output()));
    match ended.recv_timeout(LONGEST) {
        Ok(output) => output.expect("a child can be waited for"),
        Err(_) => panic!("{command:?} does not end within {LONGEST:?}{}", stuck(id)),
    }
}

/// Waits for the end of a process that was told to end.
///
/// # Panics
///
/// If it does not end.
pub fn end(child: &mut Child) -> ExitStatus {
    let id = child.id();
    let (ends, ended) = channel();
    let status = thread::scope(|scope| {
        scope.spawn(|| ends.send(child.wait()));
        // Ended now, or the thread that waits for it would not.
        ended.recv_timeout(PATIENCE).map_err(|_| stuck(id))
    });
    match status {
        Ok(status) => status.expect("a child can be waited for"),
        // A second panic would end the suite.
        Err(_) if thread::panicking() => ExitStatus::default(),
        Err(stuck) => panic!("process {id} does not end within {PATIENCE:?}{stuck}"),
    }
}

/// The lines that a process prints, each waited for with an end.
pub struct Lines {
    id: u32,
    lines: Receiver<String>,
}

impl Lines {
    /// Those of the standard output of a child, which must be a pipe that was not taken before.
    pub fn of(child: &mut Child) -> Lines {
        let out = child.stdout.take().expect("a pipe was asked for");
        let (says, lines) = channel();
        // Read to the end, without a receiver too: a closed pipe would end the process.
        thread::spawn(move || {
            BufReader::new(out).lines().map_while(Result::ok).for_each(|line| drop(says.send(line)));
        });
        Lines { id: child.id(), lines }
    }

    /// Reads up to a line that has this text; false if the output ends without it.
    pub fn reach(&mut self, sought: &str) -> bool {
        self.any(|line| line.contains(sought))
    }
}

impl Iterator for Lines {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                panic!("process {} prints nothing within {PATIENCE:?}{}", self.id, stuck(self.id))
            }
        }
    }
}

/// Ends a process that hangs; tells the place in the kernel where its threads and those of its children wait.
pub fn stuck(id: u32) -> String {
    let mut text = String::new();
    tell(id, &mut text);
    let _ = kill(Pid::from_raw(id as i32), Signal::SIGKILL);
    text
}

fn tell(id: u32, text: &mut String) {
    let word = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().replace('\0', " ");
    let _ = write!(text, "\nprocess {id}: {}", word(&format!("/proc/{id}/cmdline")));
    let tasks = fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
    for task in tasks.map(|task| task.path().display().to_string()) {
        let [name, place, call] = ["comm", "wchan", "syscall"].map(|file| word(&format!("{task}/{file}")));
        let _ = write!(text, "\n  thread {name}: {place}, system call {call}");
        for child in word(&format!("{task}/children")).split_whitespace() {
            tell(child.parse().unwrap_or_default(), text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_hangs_is_told_of_and_ended() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let said = stuck(child.id());
        assert!(said.contains(&format!("process {}", child.id())) && said.contains("thread "), "{said}");
        assert!(!end(&mut child).success());
    }

    #[test]
    fn lines_end_with_the_output() {
        let mut command = Command::new("printf");
        let mut child = command.arg("one\nready\nthree\n").stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = Lines::of(&mut child);
        assert!(lines.reach("ready"));
        assert_eq!((lines.next().as_deref(), lines.next()), (Some("three"), None));
        assert!(end(&mut child).success());
    }
}
