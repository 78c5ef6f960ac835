//! Failures and drains of nodes during a workload, from a file.
//!
//! The file is a table (CSV) with the first line `time,ranks,change`: the time (a date in UTC, or seconds since the
//! epoch, as jobs are submitted), the nodes (an RFC 22 idset of ranks), and the change:
//!
//! - `fail`: the nodes are down. Jobs on them end then; [`OnFailure`] says whether they are submitted again.
//! - `drain`: the nodes get no more jobs; jobs on them go on.
//! - `return`: the nodes are in service again.
//!
//! The last change before an instant counts. At one instant, nodes change before passes are made, and a job that ends at
//! the time at which one of its nodes fails has ended by itself.
//!
//! This module knows neither jobs nor policies.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use fluxgate_formats::Idset;

use crate::bounded::Bounded;
use crate::dates::epoch;
use crate::swf::quoted;

/// Maximum number of changes in one file.
pub const CHANGES_MAX: usize = 1_000_000;
/// Largest file, in bytes.
pub const FILE_BYTES_MAX: u64 = 256 << 20;

/// The first line of a file.
const COLUMNS: &str = "time,ranks,change";

/// A change of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The node is down, and the jobs on it end.
    Fail,
    /// The node gets no more jobs.
    Drain,
    /// The node is in service again.
    Return,
}

/// One line: the change of some nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outage {
    /// The nodes, by rank.
    pub ranks: Idset,
    /// The change.
    pub change: Change,
}

/// The rule for a job that ends early: one of its nodes fails, or a reservation that it fills begins.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum OnFailure {
    /// The job has ended, and is not submitted again.
    #[default]
    End,
    /// It is submitted again at once, and begins anew.
    Requeue,
    /// It is submitted again at once, and goes on from its last checkpoint. It makes a checkpoint each time it has run for
    /// this many seconds; a checkpoint takes no time. The value is finite and above 0.
    Checkpoint(f64),
}

impl OnFailure {
    /// Reads `end`, `requeue` or `checkpoint:SECONDS`.
    ///
    /// # Errors
    /// The text found, and what is accepted.
    pub fn named(text: &str) -> Result<Self, String> {
        let seconds = |text: &str| text.parse().ok().filter(|s: &f64| s.is_finite() && *s > 0.0);
        match text.split_once(':') {
            None if text == "end" => Ok(OnFailure::End),
            None if text == "requeue" => Ok(OnFailure::Requeue),
            Some(("checkpoint", every)) => seconds(every)
                .map(OnFailure::Checkpoint)
                .ok_or_else(|| format!("found checkpoint:{every}, accepted are seconds above 0")),
            _ => Err(format!("found `{text}`, accepted is end, requeue or checkpoint:SECONDS")),
        }
    }

    /// The seconds of work that a job keeps which has run for this many seconds; `None` if it is not submitted again.
    pub fn kept(self, ran: f64) -> Option<f64> {
        match self {
            OnFailure::End => None,
            OnFailure::Requeue => Some(0.0),
            OnFailure::Checkpoint(every) => Some((ran / every).floor() * every),
        }
    }
}

/// A file of changes is invalid.
#[derive(Debug, thiserror::Error)]
pub enum OutageError {
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
        /// The text expected.
        accepted: &'static str,
    },
}

/// All changes of a machine's nodes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outages {
    /// In the order of time, and of lines within an instant.
    changes: Vec<(f64, Outage)>,
    /// Times of the failures of each rank.
    failures: BTreeMap<u32, Vec<f64>>,
}

impl Outages {
    /// Reads a file; every rank has to be one of the machine's.
    ///
    /// # Errors
    /// The file cannot be read, or as [`Outages::parse`].
    pub fn load(path: &Path, machine: &Idset) -> Result<Self, OutageError> {
        let file = path.display().to_string();
        let io_error = |source| OutageError::Io { file: file.clone(), source };
        let mut text = String::new();
        let input = std::fs::File::open(path).map_err(io_error)?;
        Bounded::new(input, FILE_BYTES_MAX).read_to_string(&mut text).map_err(io_error)?;
        Self::parse(&text, &file, machine)
    }

    /// Reads a text; `file` is its name in error texts. `machine` has the ranks of the machine.
    ///
    /// # Errors
    /// [`OutageError::Bad`] names the first line that is not valid.
    pub fn parse(text: &str, file: &str, machine: &Idset) -> Result<Self, OutageError> {
        let mut lines = (1..).zip(text.lines().map(str::trim)).filter(|(_, line)| !line.is_empty());
        let bad =
            |line, found: String, accepted| OutageError::Bad { file: file.to_owned(), line, found, accepted };
        match lines.next() {
            Some((_, COLUMNS)) => {}
            Some((line, other)) => {
                return Err(bad(line, quoted(other), "time,ranks,change as the first line"));
            }
            None => return Err(bad(1, "nothing".to_owned(), "time,ranks,change as the first line")),
        }
        let mut changes = Vec::new();
        for (line, text) in lines {
            if changes.len() >= CHANGES_MAX {
                return Err(bad(line, "one more".to_owned(), "at most 1000000 changes"));
            }
            // An idset has commas of its own.
            let fields = text.split_once(',').and_then(|(time, rest)| Some((time, rest.rsplit_once(',')?)));
            let Some((time, (ranks, change))) = fields else {
                return Err(bad(
                    line,
                    quoted(text),
                    "a time, an idset of ranks and a change, with commas between",
                ));
            };
            let at = epoch(time.trim()).ok_or_else(|| {
                bad(
                    line,
                    format!("time {}", quoted(time)),
                    "a date such as 2002-08-15T01:02, or seconds since the epoch",
                )
            })?;
            let ids: Idset = ranks.trim().trim_matches('"').parse().map_err(|_| {
                bad(line, format!("ranks {}", quoted(ranks)), "an RFC 22 idset such as 0-3,7")
            })?;
            if ids.is_empty() || !ids.difference(machine).is_empty() {
                return Err(bad(
                    line,
                    format!("ranks {}", quoted(ranks)),
                    "ranks of the machine, at least one",
                ));
            }
            let change = match change.trim() {
                "fail" => Change::Fail,
                "drain" => Change::Drain,
                "return" => Change::Return,
                other => return Err(bad(line, format!("change {}", quoted(other)), "fail, drain or return")),
            };
            changes.push((at, Outage { ranks: ids, change }));
        }
        Ok(Self::of(changes))
    }

    /// From changes in any order, each with its time in seconds. Changes at one time stay in their order.
    pub fn of(mut changes: Vec<(f64, Outage)>) -> Self {
        changes.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut failures: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for (time, outage) in &changes {
            if outage.change == Change::Fail {
                for rank in outage.ranks.iter() {
                    failures.entry(rank).or_default().push(*time);
                }
            }
        }
        Outages { changes, failures }
    }

    /// True if there is no change.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// All changes in the order of time, each with its time in seconds in the time base of the workload.
    pub fn changes(&self) -> &[(f64, Outage)] {
        &self.changes
    }

    /// The time at which a failure ends a job on these ranks that starts at `start` and would end at `end`, if one
    /// does.
    pub(crate) fn cut(&self, ranks: &Idset, start: f64, end: f64) -> Option<f64> {
        if self.failures.is_empty() {
            return None;
        }
        let first = |rank| {
            let times = self.failures.get(&rank)?;
            times.get(times.partition_point(|time| *time <= start)).copied().filter(|time| *time < end)
        };
        ranks.iter().filter_map(first).min_by(f64::total_cmp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Outages, String> {
        Outages::parse(text, "log", &"0-7".parse().unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_of_changes() {
        let text =
            "time,ranks,change\n2000-01-01T00:01,\"0-1,4\",fail\n5,7,drain\n\n946684900.5,0-1,4,return\n";
        let outages = read(text).unwrap();
        let times: Vec<f64> = outages.changes().iter().map(|(time, _)| *time).collect();
        assert_eq!(times, [5.0, 946_684_860.0, 946_684_900.5]);
        assert_eq!(outages.changes()[2].1.ranks.to_string(), "0-1,4");
        assert_eq!(outages.changes()[0].1.change, Change::Drain);
        assert!(read("time,ranks,change\n").unwrap().is_empty());
    }

    #[test]
    fn files_that_are_not_good() {
        let rows = [
            ("", "log: line 1: found nothing, accepted is time,ranks,change as the first line"),
            ("5,1,fail\n", "log: line 1: found `5,1,fail`, accepted is time,ranks,change as the first line"),
            ("time,ranks,change\n5\n", "log: line 2: found `5`, accepted is a time"),
            ("time,ranks,change\nsoon,1,fail\n", "log: line 2: found time `soon`, accepted is a date"),
            ("time,ranks,change\n5,x,fail\n", "log: line 2: found ranks `x`, accepted is an RFC 22 idset"),
            (
                "time,ranks,change\n5,8,fail\n",
                "log: line 2: found ranks `8`, accepted is ranks of the machine",
            ),
            (
                "time,ranks,change\n5,1,burn\n",
                "log: line 2: found change `burn`, accepted is fail, drain or return",
            ),
        ];
        for (text, expected) in rows {
            let found = read(text).unwrap_err();
            assert!(found.starts_with(expected), "{found}\n{expected}");
        }
    }

    #[test]
    fn the_first_failure_after_the_start_ends_it() {
        let outages = read("time,ranks,change\n10,1,fail\n20,1,return\n30,1-2,fail\n40,3,drain\n").unwrap();
        let cut = |ranks: &str, start, end| outages.cut(&ranks.parse().unwrap(), start, end);
        assert_eq!(cut("0-1", 0.0, 50.0), Some(10.0));
        assert_eq!(cut("0-1", 0.0, 10.0), None, "it ends before the node changes");
        assert_eq!(cut("1-2", 10.0, 50.0), Some(30.0));
        assert_eq!(cut("0,3", 0.0, 50.0), None);
    }
}
