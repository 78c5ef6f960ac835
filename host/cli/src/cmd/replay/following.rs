//! `fluxgate replay --dependencies` and `--feedback`: which jobs are submitted when others have ended, and what is told of
//! them.
//!
//! Must never know policies.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;
use fluxgate_formats::JobId;
use fluxgate_sim::follow::{self, Chains, Following, Link};
use fluxgate_sim::workload::Job;
use serde_json::{Value, json};

use super::args::{Dependencies, Replay};
use crate::render;

/// Most chains of a log that a table lists,
const CHAINS_SHOWN: usize = 10;
/// and jobs of one chain.
const JOBS_SHOWN: usize = 20;

/// What was asked for, and what was found.
pub(super) enum Followed {
    /// Nothing.
    No,
    /// Fields 17 and 18; the chains of all parts.
    Chains(u64, Chains),
    /// Sessions with this gap in seconds: number of sessions, and of jobs that follow others.
    Sessions(f64, u64, u64),
}

impl Followed {
    /// As asked for, with nothing found yet.
    pub(super) fn of(args: &Replay) -> Followed {
        match (args.dependencies, args.feedback) {
            (Dependencies::Respect, _) => Followed::Chains(0, Chains::default()),
            (Dependencies::Ignore, Some(gap)) => Followed::Sessions(gap, 0, 0),
            (Dependencies::Ignore, None) => Followed::No,
        }
    }

    /// True if some jobs may follow others.
    pub(super) fn is_some(&self) -> bool {
        !matches!(self, Followed::No)
    }

    /// Takes the jobs out that follow others.
    pub(super) fn divide(&mut self, jobs: &mut Vec<Job>, links: &BTreeMap<JobId, Link>) -> Arc<Following> {
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

    /// A note for the user.
    pub(super) fn note(&self) -> Option<String> {
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

    /// For programs, if jobs follow others.
    pub(super) fn json(&self) -> Option<Value> {
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

    /// The chains, below a table.
    pub(super) fn show(&self) -> Result<()> {
        let Followed::Chains(_, told) = self else { return Ok(()) };
        for chain in told.chains.iter().take(CHAINS_SHOWN) {
            let jobs: Vec<String> = chain.iter().take(JOBS_SHOWN).map(u64::to_string).collect();
            let more = chain.len() - jobs.len();
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            render::line(format!("chain: {}{more}", jobs.join(", ")))?;
        }
        if told.chains.len() > CHAINS_SHOWN {
            let more = told.chains.len() - CHAINS_SHOWN;
            render::line(format!("and {more} more chains; --json lists all"))?;
        }
        Ok(())
    }
}
