//! The graph scheduler's tool `resource-query` on the same machine and the same jobs, as a program beside the bench.
//!
//! It is started with the JGF of the machine, every vertex up, and gets one command at a time. Its own `ELAPSE` of each command is
//! taken, so neither the pipe nor the printing of matches counts.

use std::io::{BufRead, BufReader, Write};
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

/// Filters with which the tool passes over full subtrees: cores, as by default, and storage.
const FILTERS: &str = "ALL:core,ALL:ssd";
/// The start of the line with the load time in seconds.
const LOADED: &str = "INFO: Graph Load Time:";
/// The start of the line with the time of a command in seconds.
const ELAPSED: &str = "INFO: ELAPSE=";

/// The tool, with the machine loaded.
pub struct Peer {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    dir: tempfile::TempDir,
    load_s: f64,
}

impl Peer {
    /// Starts the tool on a JGF text.
    pub fn start(program: &Path, jgf: &str) -> Peer {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("machine.json");
        std::fs::write(&file, jgf).expect("the machine is written");
        let mut child = Command::new(program)
            .arg("-L")
            .arg(&file)
            .args(["-f", "jgf", "-S", "CA", "-P", "first", "-F", "rv1_nosched", "-e", "-d", "-p", FILTERS])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let commands = child.stdin.take().expect("a pipe");
        let answers = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut peer = Peer { child, commands, answers, dir, load_s: 0.0 };
        let line = peer.until(&[LOADED]);
        peer.load_s = line[LOADED.len()..].trim().parse().expect("seconds");
        peer
    }

    /// Seconds from the text to the machine, as it tells.
    pub fn load_s(&self) -> f64 {
        self.load_s
    }

    /// Whether a job of this jobspec was started, and microseconds.
    pub fn allocate(&mut self, jobspec: &str) -> (bool, f64) {
        let file = self.dir.path().join("job.json");
        std::fs::write(&file, jobspec).expect("the jobspec is written");
        self.say(&format!("match allocate {}", file.display()));
        let found =
            self.until(&["INFO: RESOURCES=ALLOCATED", "INFO: No matching"]).starts_with("INFO: RESOURCES");
        let line = self.until(&[ELAPSED]);
        let seconds: f64 = line[ELAPSED.len()..].trim().parse().expect("seconds");
        (found, seconds * 1e6)
    }

    /// Ends jobs, numbered from 1; microseconds of each, with the pipe.
    pub fn cancel(&mut self, jobs: RangeInclusive<u64>) -> f64 {
        let (last, count) = (*jobs.end(), jobs.clone().count());
        let begin = Instant::now();
        jobs.for_each(|job| self.say(&format!("cancel {job}")));
        // It says nothing of a job that ended; the answer to the next command tells that it did.
        self.say(&format!("info {last}"));
        let line = self.until(&[&format!("INFO: {last}, ")]);
        assert!(line.contains("CANCELED"), "{line}");
        begin.elapsed().as_secs_f64() * 1e6 / count as f64
    }

    /// Its most memory so far, MB.
    pub fn peak(&self) -> u64 {
        super::peak_of(&self.child.id().to_string())
    }

    fn say(&mut self, command: &str) {
        writeln!(self.commands, "{command}").and_then(|()| self.commands.flush()).expect("it runs");
    }

    /// The next line that begins with one of these.
    fn until(&mut self, begins: &[&str]) -> String {
        loop {
            let mut line = String::new();
            assert!(self.answers.read_line(&mut line).expect("it answers") > 0, "it ended");
            if begins.iter().any(|begin| line.starts_with(begin)) {
                return line;
            }
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = writeln!(self.commands, "quit");
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
