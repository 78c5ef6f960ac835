//! Jobs of a replay that did not run: refused for good, or kept waiting by the policy until nothing could happen any more.
//!
//! Must never decide whether a job ran.

use anyhow::Result;
use fluxgate_formats::JobId;

use super::run::Run;
use crate::render;

/// Most refused jobs of one run, and most reasons to wait for ever, that a table lists,
const LINES_MAX: usize = 10;
/// and jobs of one reason.
const JOBS_MAX: usize = 10;

/// Jobs with reasons, for a report's page.
pub(super) fn plain(jobs: &[(JobId, String)]) -> Vec<(u64, String)> {
    jobs.iter().map(|(id, why)| (id.0, why.clone())).collect()
}

/// By reason, in the order in which the reasons first come.
fn by_reason(jobs: &[(JobId, String)]) -> Vec<(&str, Vec<JobId>)> {
    let mut places = std::collections::BTreeMap::new();
    let mut groups: Vec<(&str, Vec<JobId>)> = Vec::new();
    for (id, why) in jobs {
        let place = *places.entry(why.as_str()).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.1.push(*id),
            None => groups.push((why, vec![*id])),
        }
    }
    groups
}

/// The lines below the table.
pub(super) fn show(runs: &[Run]) -> Result<()> {
    for run in runs {
        let (name, Run { denied, left, .. }) = (&run.label(), run);
        for (id, why) in denied.iter().take(LINES_MAX) {
            render::line(format!("{name}: job {} can never run: {}", id.0, printable(why)))?;
        }
        more(name, denied.len(), LINES_MAX, "")?;
        if left.is_empty() {
            continue;
        }
        let jobs = if left.len() == 1 { "1 job" } else { &format!("{} jobs", left.len()) };
        render::line(format!("{name}: {jobs} never started; the figures are of those that did"))?;
        let groups = by_reason(left);
        for (why, ids) in groups.iter().take(LINES_MAX) {
            let some: Vec<String> = ids.iter().take(JOBS_MAX).map(|id| id.0.to_string()).collect();
            let rest = ids.len() - some.len();
            let rest = if rest > 0 { format!(" and {rest} more") } else { String::new() };
            let job = if ids.len() == 1 { "job" } else { "jobs" };
            render::line(format!("{name}: {job} {}{rest}: {}", some.join(", "), printable(why)))?;
        }
        more(name, groups.len(), LINES_MAX, " reasons")?;
    }
    Ok(())
}

/// Without control characters: the text may come from a policy.
fn printable(text: &str) -> String {
    text.replace(char::is_control, "?")
}

fn more(name: &str, all: usize, shown: usize, what: &str) -> Result<()> {
    match all.checked_sub(shown) {
        None | Some(0) => Ok(()),
        Some(rest) => render::line(format!("{name}: and {rest} more{what}; --json lists all")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_stand_once_in_the_order_in_which_they_come() {
        let jobs = [(9, "b"), (2, "a"), (7, "b")].map(|(id, why)| (JobId(id), why.to_owned()));
        assert_eq!(by_reason(&jobs), [("b", vec![JobId(9), JobId(7)]), ("a", vec![JobId(2)])]);
    }
}
