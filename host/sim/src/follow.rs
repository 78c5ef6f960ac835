//! Jobs that are submitted when others have ended in the simulation, not at the time of the log.
//!
//! Two sources of such groups, both off unless they are asked for:
//!
//! - [`chains`]: fields 17 and 18 of the Standard Workload Format. A job is submitted its think time after the job that
//!   it follows has ended. Without a think time that is 0.
//! - [`sessions`]: the behaviour of users, after Shmueli, Feitelson (IEEE TPDS 20(10), 2009) and Zakay, Feitelson
//!   (MASCOTS 2014). The jobs that a user submits before all earlier ones of the same *batch* have ended are one batch.
//!   A batch that begins at most the *gap* after the end of the last one follows it, with the time between as think
//!   time; its other jobs come at their distances from its first. A later one begins a *session*, at the time of the
//!   log. Ends are those of the log. Throughput so reacts to the policy.
//!
//! A job that is denied counts as ended then. This module knows neither policies nor the driver.

use std::collections::BTreeMap;

use fluxgate_formats::JobId;
use serde::Serialize;

use crate::workload::Job;

/// Default gap of sessions in seconds: 20 minutes, as in the literature above.
pub const GAP_S: f64 = 1200.0;

/// The log's knowledge of a job beside [`Job`]. Times in seconds, in the time base of the workload.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// Field 17, the job that it follows; `None` if unknown.
    pub after: Option<JobId>,
    /// Field 18, seconds from the end of that one to its submission; `None` if unknown.
    pub think: Option<f64>,
    /// Submission.
    pub submit: f64,
    /// End in the log; `None` unless wait and run time are known.
    pub end: Option<f64>,
}

/// Jobs that are submitted when some others have ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// The jobs that have to end.
    pub after: Vec<JobId>,
    /// Seconds from the last of these ends to the submission of the first job.
    pub think: f64,
    /// The jobs, each with its seconds after the first, ascending.
    pub jobs: Vec<(f64, Job)>,
}

/// All groups of a workload.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Following {
    /// The groups, in the order of the log.
    pub groups: Vec<Group>,
}

impl Following {
    /// Number of jobs that follow others.
    pub fn jobs(&self) -> usize {
        self.groups.iter().map(|group| group.jobs.len()).sum()
    }

    /// Calls `change` for each job that follows others.
    pub fn for_each(&mut self, mut change: impl FnMut(&mut Job)) {
        self.groups.iter_mut().flat_map(|group| &mut group.jobs).for_each(|(_, job)| change(job));
    }
}

/// Jobs that follow each other by fields 17 and 18.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Chains {
    /// Each chain: a job that follows none, and those that follow it, directly or not, in the order of the log.
    pub chains: Vec<Vec<u64>>,
    /// Number of jobs that name a job which is not before them in the workload. They come at the time of the log.
    pub unknown: u64,
}

/// Divides jobs, by submission and id, into those at the time of the log and those that follow others. A job follows at most one
/// job, and only one that is before it.
pub fn chains(jobs: Vec<Job>, links: &BTreeMap<JobId, Link>) -> (Vec<Job>, Following, Chains) {
    let (mut roots, mut following, mut told) = (Vec::new(), Following::default(), Chains::default());
    // The chain of each job that was seen, and the job at its begin.
    let mut first: BTreeMap<JobId, JobId> = BTreeMap::new();
    let mut members: BTreeMap<JobId, Vec<u64>> = BTreeMap::new();
    let mut order = Vec::new();
    for job in jobs {
        let link = links.get(&job.id);
        let after = link.and_then(|link| link.after);
        let root = after.and_then(|after| first.get(&after)).copied();
        first.insert(job.id, root.unwrap_or(job.id));
        let (Some(after), Some(root)) = (after, root) else {
            told.unknown += u64::from(after.is_some());
            roots.push(job);
            continue;
        };
        let chain = members.entry(root).or_insert_with(|| {
            order.push(root);
            vec![root.0]
        });
        chain.push(job.id.0);
        let think = link.and_then(|link| link.think).unwrap_or(0.0).max(0.0);
        following.groups.push(Group { after: vec![after], think, jobs: vec![(0.0, job)] });
    }
    told.chains = order.iter().filter_map(|root| members.remove(root)).collect();
    (roots, following, told)
}

/// The batch of a user to which the next job may belong.
struct Batch {
    jobs: Vec<JobId>,
    /// Submission of its first job in the log.
    first: f64,
    /// Last end so far, in the log.
    end: f64,
    /// Its group, if it follows another batch.
    group: Option<usize>,
}

/// Divides jobs, by submission and id, into those at the time of the log and those that follow others in sessions with
/// this gap in seconds. Jobs of an unknown user (0) follow none. Also returns the number of sessions.
pub fn sessions(jobs: Vec<Job>, links: &BTreeMap<JobId, Link>, gap: f64) -> (Vec<Job>, Following, u64) {
    let (mut roots, mut following, mut count) = (Vec::new(), Following::default(), 0);
    let mut users: BTreeMap<u32, Batch> = BTreeMap::new();
    for job in jobs {
        let Some(link) = links.get(&job.id).filter(|_| job.user > 0) else {
            roots.push(job);
            continue;
        };
        let (submit, end) = (link.submit, link.end.unwrap_or(link.submit));
        match users.get_mut(&job.user) {
            Some(batch) if submit < batch.end => {
                batch.jobs.push(job.id);
                batch.end = batch.end.max(end);
                match batch.group {
                    Some(group) => following.groups[group].jobs.push((submit - batch.first, job)),
                    None => roots.push(job),
                }
            }
            last => {
                let think = last.as_ref().map(|batch| submit - batch.end).filter(|think| *think <= gap);
                let after = last.map(|batch| std::mem::take(&mut batch.jobs));
                let group = think.zip(after).map(|(think, after)| {
                    following.groups.push(Group { after, think, jobs: vec![(0.0, job)] });
                    following.groups.len() - 1
                });
                if group.is_none() {
                    roots.push(job);
                    count += 1;
                }
                users.insert(job.user, Batch { jobs: vec![job.id], first: submit, end, group });
            }
        }
    }
    (roots, following, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(id: u64, submit: f64, user: u32) -> Job {
        Job { user, ..Job::new(JobId(id), submit, 1, 10.0, 10.0) }
    }

    fn ids(jobs: &[Job]) -> Vec<u64> {
        jobs.iter().map(|job| job.id.0).collect()
    }

    #[test]
    fn res_13_chains_are_listed() {
        let jobs: Vec<Job> = (1..=7).map(|id| job(id, id as f64, 1)).collect();
        let link = |after, think| Link { after: Some(JobId(after)), think, submit: 0.0, end: None };
        let links = BTreeMap::from([
            (JobId(2), link(1, Some(30.0))),
            (JobId(3), link(2, None)),
            (JobId(4), link(99, Some(5.0))),
            (JobId(5), link(6, Some(5.0))),
            (JobId(7), link(1, Some(-3.0))),
        ]);
        let (roots, following, told) = chains(jobs, &links);
        assert_eq!(ids(&roots), [1, 4, 5, 6], "an unknown job, and one that comes later, are not followed");
        assert_eq!(told, Chains { chains: vec![vec![1, 2, 3, 7]], unknown: 2 });
        let groups: Vec<(u64, f64, u64)> = following
            .groups
            .iter()
            .map(|group| (group.after[0].0, group.think, group.jobs[0].1.id.0))
            .collect();
        assert_eq!(groups, [(1, 30.0, 2), (2, 0.0, 3), (1, 0.0, 7)]);
    }

    #[test]
    fn res_14_batches_and_sessions() {
        // Submission, end and user.
        let rows = [
            (0.0, 100.0, 1),     // 1: a session
            (10.0, 300.0, 1),    // 2: the same batch
            (20.0, 30.0, 2),     // 3: a session of another user
            (400.0, 450.0, 1),   // 4: 100 s after the batch
            (405.0, 460.0, 1),   // 5: beside it
            (2000.0, 2100.0, 1), // 6: too late: a session
            (2100.0, 2200.0, 1), // 7: at once
            (2100.0, 2200.0, 0), // 8: of an unknown user
        ];
        let jobs: Vec<Job> = (1..).zip(rows).map(|(id, (submit, _, user))| job(id, submit, user)).collect();
        let links = (1..).zip(rows).map(|(id, (submit, end, _))| {
            (JobId(id), Link { after: None, think: None, submit, end: Some(end) })
        });
        let (roots, following, count) = sessions(jobs, &links.collect(), 1200.0);
        assert_eq!((ids(&roots), count), (vec![1, 2, 3, 6, 8], 3));
        let told: Vec<_> = following
            .groups
            .iter()
            .map(|group| {
                let after: Vec<u64> = group.after.iter().map(|id| id.0).collect();
                let jobs: Vec<(f64, u64)> =
                    group.jobs.iter().map(|(offset, job)| (*offset, job.id.0)).collect();
                (after, group.think, jobs)
            })
            .collect();
        let expected = [(vec![1, 2], 100.0, vec![(0.0, 4), (5.0, 5)]), (vec![6], 0.0, vec![(0.0, 7)])];
        assert_eq!(told, expected);
        assert_eq!(following.jobs(), 3);
    }
}
