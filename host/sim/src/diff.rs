//! Comparison of two runs of one workload, job for job: why a job started later.
//!
//! The answer comes from the two records alone. Its time is the start of the job in the run that started it earlier.
//! It lists the jobs that held cores at that time in the other run but not in this one.
//!
//! This module does not know policies.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::record::Done;

/// Maximum number of jobs listed in an answer.
pub const LISTED_MAX: usize = 10;

/// Two records of one workload.
#[derive(Debug)]
pub struct Pair<'a> {
    a: BTreeMap<u64, &'a Done>,
    b: BTreeMap<u64, &'a Done>,
}

/// The differences between two records.
#[derive(Debug, Clone, PartialEq)]
pub struct Overview {
    /// Number of jobs in both.
    pub both: usize,
    /// Numbers of the jobs that are only in the first, ascending.
    pub only_a: Vec<u64>,
    /// Numbers of the jobs that are only in the second, ascending.
    pub only_b: Vec<u64>,
    /// Number of jobs that started at the same time.
    pub same: usize,
    /// Jobs that started later in the second, and by how many seconds; largest delay first, ties by number.
    pub later: Vec<(u64, f64)>,
    /// Jobs that started earlier in the second, and by how many seconds; largest difference first, ties by number.
    pub sooner: Vec<(u64, f64)>,
    /// Sum over the jobs in both of the start in the second less that in the first, in seconds; negative if jobs started earlier in sum.
    pub total: f64,
    /// The job with the earliest differing start: before it the runs are equal. `None` if all jobs in both started at the same times.
    pub first: Option<u64>,
}

/// The reasons why a job started later in one run than in the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Why {
    /// The job in the first record and in the second.
    pub job: (Done, Done),
    /// True if "here" is the second record. Here is the run in which it started later; "there" is the other.
    pub later_in_b: bool,
    /// The time at which it started there, in seconds.
    pub time: f64,
    /// Maximum number of cores in use at once over all of this record: the size of the machine, if it was ever full.
    pub peak: u64,
    /// Cores in use here at that time.
    pub busy: u64,
    /// Jobs that held cores here at that time and not there, widest first.
    pub instead: Vec<Done>,
    /// Number of the jobs in `instead` that were submitted after the job: they overtook it here.
    pub passed: usize,
    /// Number of jobs that waited here at that time.
    pub waiting: usize,
}

impl<'a> Pair<'a> {
    /// Compares two records.
    pub fn new(a: &'a [Done], b: &'a [Done]) -> Self {
        let by_job = |jobs: &'a [Done]| jobs.iter().map(|job| (job.job, job)).collect();
        Pair { a: by_job(a), b: by_job(b) }
    }

    /// Compares all jobs.
    pub fn overview(&self) -> Overview {
        let only = |x: &BTreeMap<u64, &Done>, y: &BTreeMap<u64, &Done>| {
            x.keys().filter(|job| !y.contains_key(*job)).copied().collect()
        };
        let mut view = Overview {
            both: 0,
            only_a: only(&self.a, &self.b),
            only_b: only(&self.b, &self.a),
            same: 0,
            later: Vec::new(),
            sooner: Vec::new(),
            total: 0.0,
            first: None,
        };
        let mut first = f64::INFINITY;
        for (&number, a) in &self.a {
            let Some(b) = self.b.get(&number) else { continue };
            view.both += 1;
            let more = b.start - a.start;
            view.total += more;
            if more == 0.0 {
                view.same += 1;
                continue;
            }
            if a.start.min(b.start) < first {
                (first, view.first) = (a.start.min(b.start), Some(number));
            }
            if more > 0.0 { view.later.push((number, more)) } else { view.sooner.push((number, -more)) }
        }
        for list in [&mut view.later, &mut view.sooner] {
            list.sort_by(|x, y| y.1.total_cmp(&x.1).then(x.0.cmp(&y.0)));
        }
        view
    }

    /// Compares one job; `None` when it is not in both, or started at the same time.
    pub fn why(&self, job: u64) -> Option<Why> {
        let (a, b) = (**self.a.get(&job)?, **self.b.get(&job)?);
        if a.start == b.start {
            return None;
        }
        let later_in_b = b.start > a.start;
        let (here, there) = if later_in_b { (&self.b, &self.a) } else { (&self.a, &self.b) };
        let time = a.start.min(b.start);
        let holds = |job: &Done| job.start <= time && time < job.end;
        let held: Vec<&Done> = here.values().copied().filter(|job| holds(job)).collect();
        let mut instead: Vec<Done> = held
            .iter()
            .filter(|held| !there.get(&held.job).is_some_and(|job| holds(job)))
            .map(|held| **held)
            .collect();
        instead.sort_by(|x, y| y.cores.cmp(&x.cores).then(x.job.cmp(&y.job)));
        let passed = instead.iter().filter(|other| (other.submit, other.job) > (a.submit, a.job)).count();
        Some(Why {
            job: (a, b),
            later_in_b,
            time,
            peak: peak(here),
            busy: held.iter().map(|job| u64::from(job.cores)).sum(),
            instead,
            passed,
            waiting: here.values().filter(|job| job.submit <= time && time < job.start).count(),
        })
    }
}

fn peak(jobs: &BTreeMap<u64, &Done>) -> u64 {
    let mut changes: Vec<(f64, i64)> = jobs
        .values()
        .filter(|job| job.end > job.start)
        .flat_map(|job| [(job.start, i64::from(job.cores)), (job.end, -i64::from(job.cores))])
        .collect();
    changes.sort_by(|x, y| x.0.total_cmp(&y.0).then(x.1.cmp(&y.1)));
    let (mut now, mut most) = (0, 0);
    for (_, change) in changes {
        now += change;
        most = most.max(now);
    }
    most.unsigned_abs()
}

impl Why {
    /// The answer as text; `names` are those of the two records.
    pub fn text(&self, names: (&str, &str)) -> String {
        let (a, b) = self.job;
        let (there, here) = if self.later_in_b { names } else { (names.1, names.0) };
        let late = (a.start - b.start).abs();
        let mut text = format!(
            "job {}: {} cores for at most {} s, submitted at {}\n  {}: waited {} s, started at {}\n  {}: waited {} s, started at {}\n\
             It started {late} s later in {here}. When it started in {there}, at {}, in {here}\n  {} of {} cores were in use",
            a.job,
            a.cores,
            a.limit,
            a.submit,
            names.0,
            a.wait(),
            a.start,
            names.1,
            b.wait(),
            b.start,
            self.time,
            self.busy,
            self.peak
        );
        let free = self.peak.saturating_sub(self.busy);
        let enough = free >= u64::from(a.cores);
        let _ = match enough {
            true => write!(text, ": it would have fitted, and was held back for others"),
            false => write!(text, ", too many for it to fit"),
        };
        let _ = write!(text, ";\n  {} jobs waited, it among them;", self.waiting);
        if self.instead.is_empty() {
            let _ = write!(text, "\n  nobody held cores who did not hold them in {there}.");
            return text;
        }
        let cores: u64 = self.instead.iter().map(|job| u64::from(job.cores)).sum();
        let _ = write!(
            text,
            "\n  {} jobs held {cores} cores that they did not hold in {there}; {} of them were submitted after it:",
            self.instead.len(),
            self.passed
        );
        for job in self.instead.iter().take(LISTED_MAX) {
            let _ = write!(
                text,
                "\n    job {}: {} cores, submitted at {}, from {} to {}{}",
                job.job,
                job.cores,
                job.submit,
                job.start,
                job.end,
                if job.backfilled { ", backfilled" } else { "" }
            );
        }
        if self.instead.len() > LISTED_MAX {
            let _ = write!(text, "\n    and {} more", self.instead.len() - LISTED_MAX);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(job: u64, cores: u32, submit: f64, start: f64, end: f64) -> Done {
        Done { job, user: 0, cores, submit, start, end, limit: end - start, backfilled: job == 3 }
    }

    #[test]
    fn a_job_that_was_passed() {
        // 4 cores. In the first run job 2 follows job 1; in the second, job 3 goes first.
        let a = [done(1, 4, 0.0, 0.0, 10.0), done(2, 4, 1.0, 10.0, 20.0), done(3, 2, 2.0, 20.0, 25.0)];
        let b = [done(1, 4, 0.0, 0.0, 10.0), done(2, 4, 1.0, 15.0, 25.0), done(3, 2, 2.0, 10.0, 15.0)];
        let pair = Pair::new(&a, &b);
        let view = pair.overview();
        assert_eq!((view.both, view.same, view.first, view.total), (3, 1, Some(2), -5.0));
        assert_eq!((view.later, view.sooner), (vec![(2, 5.0)], vec![(3, 10.0)]));
        let why = pair.why(2).unwrap();
        assert_eq!((why.time, why.busy, why.peak, why.passed, why.waiting), (10.0, 2, 4, 1, 1));
        assert_eq!(why.instead, [b[2]]);
        let text = why.text(("a", "b"));
        assert!(
            text.contains("5 s later in b") && text.contains("2 of 4 cores were in use, too many"),
            "{text}"
        );
        assert!(text.contains("job 3: 2 cores, submitted at 2, from 10 to 15, backfilled"), "{text}");
        let why = pair.why(3).unwrap();
        assert!(!why.later_in_b && why.text(("a", "b")).contains("10 s later in a"));
        assert_eq!((pair.why(1), pair.why(9)), (None, None));
    }

    #[test]
    fn jobs_of_one_side_are_told() {
        let a = [done(1, 1, 0.0, 0.0, 1.0), done(2, 1, 0.0, 0.0, 1.0)];
        let view = Pair::new(&a[..1], &a[1..]).overview();
        assert_eq!((view.both, view.only_a, view.only_b, view.first), (0, vec![1], vec![2], None));
    }
}
