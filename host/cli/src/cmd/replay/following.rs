//! The part on jobs that follow others in a table of `fluxgate replay --dependencies`.
//!
//! Must never know policies.

use anyhow::Result;
use fluxgate_sim::followed::Followed;

use crate::render;

/// Most chains of a log that a table lists.
const CHAINS_SHOWN: usize = 10;
/// Most jobs of one chain that a table lists.
const JOBS_SHOWN: usize = 20;

/// The chains, below a table.
pub(super) fn show(followed: &Followed) -> Result<()> {
    let Followed::Chains(_, told) = followed else { return Ok(()) };
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
