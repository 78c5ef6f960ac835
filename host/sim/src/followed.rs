//! Jobs of a replay that are submitted when others have ended, by the rule that was asked for, and the report of them.
//!
//! The command line and the Python package divide and tell through this module. It must never know policies.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxgate_formats::JobId;
use serde_json::{Value, json};

use crate::follow::{self, Chains, Following, Link};
use crate::workload::Job;

/// The rule that was asked for, with counts of the jobs that follow others by it.
#[derive(Debug, Clone, PartialEq)]
pub enum Followed {
    /// No rule: no job follows another.
    No,
    /// Fields 17 and 18: number of jobs that follow others, and the chains of all parts.
    Chains(u64, Chains),
    /// Sessions with this gap in seconds: number of sessions, and of jobs that follow others.
    Sessions(f64, u64, u64),
}

impl Followed {
    /// As asked for, with nothing found yet: by fields 17 and 18, or else in sessions with this gap in seconds; no rule without both.
    pub fn of(dependencies: bool, sessions: Option<f64>) -> Followed {
        match sessions {
            _ if dependencies => Followed::Chains(0, Chains::default()),
            Some(gap) => Followed::Sessions(gap, 0, 0),
            None => Followed::No,
        }
    }

    /// True if there is a rule, by which some jobs may follow others.
    pub fn is_some(&self) -> bool {
        !matches!(self, Followed::No)
    }

    /// Takes the jobs that follow others out of `jobs`, which are by submission and id, and returns them. They are added to the counts.
    pub fn divide(&mut self, jobs: &mut Vec<Job>, links: &BTreeMap<JobId, Link>) -> Arc<Following> {
        let all = std::mem::take(jobs);
        let following;
        match self {
            Followed::No => (*jobs, following) = (all, Following::default()),
            Followed::Chains(count, told) => {
                let found;
                (*jobs, following, found) = follow::chains(all, links);
                *count += following.jobs() as u64;
                told.unknown += found.unknown;
                told.chains.extend(found.chains);
            }
            Followed::Sessions(gap, sessions, count) => {
                let found;
                (*jobs, following, found) = follow::sessions(all, links, *gap);
                *sessions += found;
                *count += following.jobs() as u64;
            }
        }
        Arc::new(following)
    }

    /// A note for the user; `None` without a rule.
    pub fn note(&self) -> Option<String> {
        match self {
            Followed::No => None,
            Followed::Chains(count, told) => {
                let longest = told.chains.iter().map(Vec::len).max().unwrap_or(0);
                Some(format!(
                    "dependencies: {count} jobs follow others in {} chains, of which the longest has {longest} jobs; {} name a job \
                     that is not before them",
                    told.chains.len(),
                    told.unknown
                ))
            }
            Followed::Sessions(gap, sessions, count) => Some(format!(
                "feedback: {sessions} sessions of users, in which {count} jobs follow others within {gap} s"
            )),
        }
    }

    /// The counts for programs, as an object; `None` without a rule.
    pub fn json(&self) -> Option<Value> {
        match self {
            Followed::No => None,
            Followed::Chains(count, told) => Some(
                json!({"by": "dependencies", "jobs": count, "chains": told.chains, "unknown": told.unknown}),
            ),
            Followed::Sessions(gap, sessions, count) => {
                Some(json!({"by": "sessions", "gap_s": gap, "jobs": count, "sessions": sessions}))
            }
        }
    }
}
