//! Jobs that run already when a workload begins, from a file.
//!
//! The file is a table (CSV) with the first line `job,cores,user,ran,limit,left`: the job's number, which no job of the
//! workload has; its cores, or with `--map procs=nodes` its whole nodes; its user's number; the seconds that it has run
//! when the first job of the workload is submitted; the seconds that it asked for in all; the seconds that it runs on.
//!
//! They hold the first cores of the machine that are free, in the order of lines and of ranks. They are in no metric
//! and in no schedule; the independent check counts their cores.
//!
//! This module knows neither policies nor the engine.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;

use fluxgate_formats::rset::Children;
use fluxgate_formats::{Idset, JobId, R};

use crate::bounded::Bounded;
use crate::schedule::Cores;
use crate::swf::quoted;
use crate::workload::{Job, Procs};

/// Largest number of jobs in one file.
pub const JOBS_MAX: usize = 1_000_000;
/// Largest file, in bytes.
pub const FILE_BYTES_MAX: u64 = 256 << 20;

/// The first line of a file.
const COLUMNS: &str = "job,cores,user,ran,limit,left";

/// A job that runs when a workload begins. Times in seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct WarmJob {
    /// Its number, which no job of the workload has.
    pub id: JobId,
    /// Number of its cores.
    pub cores: u32,
    /// Its user.
    pub user: u32,
    /// Time since its start, 0 or more.
    pub ran: f64,
    /// Requested duration, from its start, above 0.
    pub limit: f64,
    /// Time to its end, above 0; at most the limit less the time since its start.
    pub left: f64,
    /// Its resources (RFC 20), without times.
    pub r: R,
}

impl WarmJob {
    /// The job that it is in a workload that begins at `begin`, submitted at its start.
    pub fn job(&self, begin: f64) -> Job {
        let job = Job::new(self.id, begin - self.ran, self.cores, self.limit, self.ran + self.left);
        Job { user: self.user, ..job }
    }
}

/// A file of running jobs is invalid.
#[derive(Debug, thiserror::Error)]
pub enum WarmError {
    /// The file cannot be read.
    #[error("{file}: {source}")]
    Io {
        /// The file.
        file: String,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A line is invalid.
    #[error("{file}: line {line}: found {found}, accepted is {accepted}")]
    Bad {
        /// The file.
        file: String,
        /// The line, from 1.
        line: u64,
        /// The text found.
        found: String,
        /// The values accepted.
        accepted: String,
    },
}

/// Reads a file for a machine of these cores. Jobs come in the order of starts; `procs` tells whether the column `cores` counts
/// cores or nodes.
///
/// # Errors
/// The file cannot be read, a line is invalid, or the machine has too few cores for a job.
pub fn load(path: &Path, machine: &Cores, procs: Procs) -> Result<Vec<WarmJob>, WarmError> {
    let file = path.display().to_string();
    let io_error = |source| WarmError::Io { file: file.clone(), source };
    let mut text = String::new();
    let input = std::fs::File::open(path).map_err(io_error)?;
    Bounded::new(input, FILE_BYTES_MAX).read_to_string(&mut text).map_err(io_error)?;
    parse(&text, &file, machine, procs)
}

/// Reads a text; `file` is its name in error texts.
///
/// # Errors
/// As [`load`].
pub fn parse(text: &str, file: &str, machine: &Cores, procs: Procs) -> Result<Vec<WarmJob>, WarmError> {
    let bad = |line, found: String, accepted: &str| WarmError::Bad {
        file: file.to_owned(),
        line,
        found,
        accepted: accepted.to_owned(),
    };
    let header = format!("{COLUMNS} as the first line");
    let mut lines = (1..).zip(text.lines().map(str::trim)).filter(|(_, line)| !line.is_empty());
    match lines.next() {
        Some((_, COLUMNS)) => {}
        Some((line, other)) => return Err(bad(line, quoted(other), &header)),
        None => return Err(bad(1, "nothing".to_owned(), &header)),
    }
    let (mut free, mut ids, mut jobs) = (machine.clone(), BTreeSet::new(), Vec::new());
    for (line, text) in lines {
        if jobs.len() >= JOBS_MAX {
            return Err(bad(line, "one more".to_owned(), &format!("at most {JOBS_MAX} jobs")));
        }
        let fields: Vec<&str> = text.split(',').map(str::trim).collect();
        let [id, cores, user, ran, limit, left] = fields[..] else {
            return Err(bad(line, quoted(text), &format!("the six values {COLUMNS}")));
        };
        let wrong = |column: &str, value: &str, accepted: &str| {
            bad(line, format!("{column} {}", quoted(value)), accepted)
        };
        let seconds = |column: &str, text: &str, zero: bool| {
            let value = text.parse().ok().filter(|s: &f64| s.is_finite() && (*s > 0.0 || zero && *s == 0.0));
            value.ok_or_else(|| {
                wrong(column, text, if zero { "seconds, 0 or more" } else { "seconds above 0" })
            })
        };
        let number: u64 = id.parse().map_err(|_| wrong("job", id, "a number"))?;
        if !ids.insert(number) {
            return Err(wrong("job", id, "a number that no earlier line has"));
        }
        let width: u32 =
            cores.parse().ok().filter(|n| *n > 0).ok_or_else(|| wrong("cores", cores, "1 or more"))?;
        let user = user.parse().map_err(|_| wrong("user", user, "a number"))?;
        let (ran, limit) = (seconds("ran", ran, true)?, seconds("limit", limit, false)?);
        let rest = seconds("left", left, false)?;
        if ran + rest > limit {
            return Err(wrong("left", left, "at most limit less ran"));
        }
        let taken = match procs {
            Procs::Cores => take(&mut free, width),
            Procs::Nodes => take_nodes(&mut free, machine, width),
        };
        let taken = taken
            .ok_or_else(|| wrong("cores", cores, "at most as many as are free beside the lines above"))?;
        let cores = taken.values().map(Idset::len).sum::<u64>();
        let cores = u32::try_from(cores).map_err(|_| wrong("cores", fields[1], "fewer"))?;
        let node = |(rank, ids)| (rank, format!("node{rank}"), Children::from([("core".to_owned(), ids)]));
        let r = R::from_nodes(taken.into_iter().map(node));
        jobs.push(WarmJob { id: JobId(number), cores, user, ran, limit, left: rest, r });
    }
    // The order of starts.
    jobs.sort_by(|a, b| b.ran.total_cmp(&a.ran).then(a.id.cmp(&b.id)));
    Ok(jobs)
}

/// Takes the first free cores.
fn take(free: &mut Cores, cores: u32) -> Option<Cores> {
    let mut open = u64::from(cores);
    let mut taken = Cores::new();
    for (rank, ids) in free.iter_mut().filter(|(_, ids)| !ids.is_empty()) {
        let part = ids.take(open);
        open -= part.len();
        *ids = ids.difference(&part);
        taken.insert(*rank, part);
        if open == 0 {
            free.retain(|_, ids| !ids.is_empty());
            return Some(taken);
        }
    }
    None
}

/// Takes the first nodes that are free.
fn take_nodes(free: &mut Cores, machine: &Cores, nodes: u32) -> Option<Cores> {
    let idle = free.iter().filter(|(rank, ids)| machine.get(rank) == Some(ids));
    let taken: Cores = idle.take(nodes as usize).map(|(rank, ids)| (*rank, ids.clone())).collect();
    free.retain(|rank, _| !taken.contains_key(rank));
    (taken.len() == nodes as usize).then_some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;

    fn read(text: &str, procs: Procs) -> Result<Vec<WarmJob>, String> {
        let machine = Machine::uniform(3, 12).unwrap();
        parse(text, "warm", &machine.cores, procs).map_err(|error| error.to_string())
    }

    #[test]
    fn res_10_running_jobs_hold_the_first_free_cores() {
        let text = "job,cores,user,ran,limit,left\n900,6,7,10,100,20\n\n901,1,8,50.5,60,9.5\n";
        let jobs = read(text, Procs::Cores).unwrap();
        let told: Vec<(u64, u32, u64, String)> = jobs
            .iter()
            .map(|job| (job.id.0, job.cores, job.r.count("core"), job.r.ranks().to_string()))
            .collect();
        assert_eq!(told, [(901, 1, 1, "1".to_owned()), (900, 6, 6, "0-1".to_owned())], "by start");
        let job = jobs[0].job(1000.0);
        assert_eq!((job.submit, job.limit, job.run_time(), job.user), (949.5, 60.0, 60.0, 8));
        let nodes =
            read("job,cores,user,ran,limit,left\n5,2,0,0,10,10\n6,1,0,0,10,10\n", Procs::Nodes).unwrap();
        assert_eq!(nodes.iter().map(|job| job.cores).collect::<Vec<_>>(), [8, 4]);
        assert_eq!(nodes[1].r.ranks().to_string(), "2");
    }

    #[test]
    fn files_that_are_not_good() {
        let line = |text: &str| format!("job,cores,user,ran,limit,left\n{text}\n");
        let rows = [
            (
                String::new(),
                "line 1: found nothing, accepted is job,cores,user,ran,limit,left as the first line",
            ),
            ("job,cores\n".to_owned(), "line 1: found `job,cores`"),
            (line("1,2,3"), "line 2: found `1,2,3`, accepted is the six values"),
            (line("x,2,0,0,9,9"), "line 2: found job `x`, accepted is a number"),
            (line("1,0,0,0,9,9"), "line 2: found cores `0`, accepted is 1 or more"),
            (line("1,2,-1,0,9,9"), "line 2: found user `-1`"),
            (line("1,2,0,-1,9,9"), "line 2: found ran `-1`, accepted is seconds, 0 or more"),
            (line("1,2,0,0,inf,9"), "line 2: found limit `inf`, accepted is seconds above 0"),
            (line("1,2,0,0,9,0"), "line 2: found left `0`, accepted is seconds above 0"),
            (line("1,2,0,5,9,5"), "line 2: found left `5`, accepted is at most limit less ran"),
            (line("1,13,0,0,9,9"), "line 2: found cores `13`, accepted is at most as many as are free"),
            (
                line("1,2,0,0,9,9\n1,2,0,0,9,9"),
                "line 3: found job `1`, accepted is a number that no earlier line has",
            ),
        ];
        for (text, expected) in rows {
            let found = read(&text, Procs::Cores).unwrap_err();
            assert!(found.starts_with(&format!("warm: {expected}")), "{found}\n{expected}");
        }
        assert!(
            read(&line("1,2,0,0,9,9\n2,2,0,0,9,9"), Procs::Nodes)
                .unwrap_err()
                .contains("line 3: found cores `2`")
        );
    }
}
