//! The parts of a task: the whole log, sequences at fixed places and at places that are drawn, or windows of time.
//!
//! Must never know policies or metrics.

use fluxgate_formats::JobId;

use super::Task;
use crate::bootstrap::Numbers;
use crate::parts::Part;
use crate::workload::Job;

/// Most parts of a task.
pub const PARTS_MAX: usize = 10_000;

/// Seconds of a day.
const DAY_SECONDS: f64 = 86_400.0;

impl Task {
    /// True if each of its parts is a sequence or a window; false if the whole log is one run.
    pub fn has_parts(&self) -> bool {
        self.length > 0 || self.window_days.is_some()
    }

    /// Its parts of these jobs, which are by submission and id. Sequences at places that are drawn need the seed; without
    /// one there are only those at fixed places.
    ///
    /// # Errors
    /// The log has too few jobs, too many windows, or no part with a job that counts.
    pub fn parts(&self, jobs: Vec<Job>, seed: Option<u64>) -> Result<Vec<Part>, String> {
        let parts = match (self.window_days, self.length) {
            (Some(days), _) => windows(&jobs, f64::from(days) * DAY_SECONDS, self.uncounted)?,
            (None, 0) => vec![Part::new(String::new(), jobs)],
            (None, length) => {
                let drawn =
                    seed.map_or_else(|| Ok(Vec::new()), |seed| self.drawn_starts(jobs.len(), seed))?;
                let part = |first: usize| {
                    let part = jobs.get(first..first.saturating_add(length)).ok_or_else(|| {
                        format!(
                            "found {} jobs, but a part begins at {first} and has {length} jobs",
                            jobs.len()
                        )
                    })?;
                    Ok(Part::new(format!("{first}+{length}"), part.to_vec()))
                };
                self.starts.iter().copied().chain(drawn).map(part).collect::<Result<_, String>>()?
            }
        };
        match parts.iter().find(|part| part.jobs.len() <= self.uncounted) {
            Some(part) => Err(format!(
                "found a part of {} jobs, accepted are parts of more than the {} that do not count",
                part.jobs.len(),
                self.uncounted
            )),
            None if parts.is_empty() => Err("found no part in the log".to_owned()),
            None => Ok(parts),
        }
    }

    /// The first job of a part that counts, by submission and id; `None` if all count.
    pub fn counted(&self, part: &Part) -> Option<(f64, JobId)> {
        let first = part.jobs.get(self.uncounted).filter(|_| self.uncounted > 0);
        first.map(|job| (job.submit, job.id))
    }

    /// Places of sequences from a seed: all different, and none of the fixed ones.
    fn drawn_starts(&self, jobs: usize, seed: u64) -> Result<Vec<usize>, String> {
        let places = (jobs + 1).saturating_sub(self.length);
        if places < 2 * (self.drawn + self.starts.len()) {
            return Err(format!("found {jobs} jobs, which is too few to draw {} sequences", self.drawn));
        }
        let (mut numbers, mut drawn) = (Numbers(seed), Vec::with_capacity(self.drawn));
        while drawn.len() < self.drawn {
            let first = numbers.below(places);
            if !drawn.contains(&first) && !self.starts.contains(&first) {
                drawn.push(first);
            }
        }
        Ok(drawn)
    }
}

/// Windows of this many seconds one after the other from the first submission on. The last one, which the end of the log
/// cuts off, and those in which no job would count are left out.
fn windows(jobs: &[Job], seconds: f64, uncounted: usize) -> Result<Vec<Part>, String> {
    let (Some(first), Some(last)) = (jobs.first(), jobs.last()) else { return Ok(Vec::new()) };
    let count = ((last.submit - first.submit) / seconds).floor();
    if count > PARTS_MAX as f64 {
        return Err(format!("found {count} windows, accepted are at most {PARTS_MAX}"));
    }
    let mut parts = Vec::new();
    let mut begin = 0;
    for number in 1..=count as usize {
        let until = first.submit + number as f64 * seconds;
        let end = begin + jobs[begin..].partition_point(|job| job.submit < until);
        if end - begin > uncounted {
            parts.push(Part::new(format!("{begin}+{}", end - begin), jobs[begin..end].to_vec()));
        }
        begin = end;
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(change: impl FnOnce(&mut Task)) -> Task {
        let text = "name = \"a\"\nlog = \"l\"\n[[entry]]\nname = \"E\"\npolicy = \"easy\"\n";
        let mut task: Task = toml::from_str(text).unwrap();
        change(&mut task);
        task
    }

    /// A job every six hours.
    fn jobs(count: u64) -> Vec<Job> {
        (0..count).map(|id| Job::new(JobId(id + 1), id as f64 * 21_600.0, 1, 5.0, 5.0)).collect()
    }

    fn names(parts: &[Part]) -> Vec<&str> {
        parts.iter().map(|part| part.name.as_str()).collect()
    }

    #[test]
    fn res_54_windows_are_whole_and_have_jobs_that_count() {
        let task = task(|task| (task.window_days, task.uncounted) = (Some(2), 3));
        let mut log = jobs(40);
        // Nothing but two jobs in the second window, and a last one that is cut off.
        log.retain(|job| !(11..=15).contains(&job.id.0) && job.id.0 != 9);
        let parts = task.parts(log, None).unwrap();
        assert_eq!(names(&parts), ["0+8", "10+8", "18+8"]);
        assert_eq!(task.counted(&parts[1]), Some((19.0 * 21_600.0, JobId(20))));
        assert!(task.parts(vec![], None).unwrap_err().contains("no part"));
        let far = vec![Job::new(JobId(1), 0.0, 1, 5.0, 5.0), Job::new(JobId(2), 1e12, 1, 5.0, 5.0)];
        assert!(task.parts(far, None).unwrap_err().contains("accepted are at most 10000"));
    }

    #[test]
    fn res_54_sequences_are_drawn_when_their_seed_is_known() {
        let task = task(|task| (task.starts, task.length, task.drawn) = (vec![3, 20], 5, 4));
        assert_eq!(names(&task.parts(jobs(40), None).unwrap()), ["3+5", "20+5"]);
        let parts = task.parts(jobs(40), Some(7)).unwrap();
        assert_eq!(parts.len(), 6);
        assert_eq!(names(&parts[..2]), ["3+5", "20+5"], "the public ones come first");
        let all: std::collections::BTreeSet<&str> = names(&parts).into_iter().collect();
        assert_eq!(all.len(), 6, "all differ");
        assert_eq!(parts, task.parts(jobs(40), Some(7)).unwrap());
        assert_ne!(names(&parts), names(&task.parts(jobs(40), Some(8)).unwrap()));
        assert!(task.parts(jobs(15), Some(7)).unwrap_err().contains("too few to draw 4 sequences"));
        assert!(task.parts(jobs(21), None).unwrap_err().contains("begins at 20 and has 5 jobs"));
    }

    #[test]
    fn a_whole_log_is_one_part() {
        let plain = task(|_| {});
        let parts = plain.parts(jobs(4), None).unwrap();
        assert_eq!((parts.len(), plain.counted(&parts[0]), plain.has_parts()), (1, None, false));
        let short = task(|task| task.uncounted = 4);
        assert!(short.parts(jobs(4), None).unwrap_err().contains("more than the 4 that do not count"));
    }
}
