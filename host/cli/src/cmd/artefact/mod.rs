//! Commands of `fluxgate policy` that work on components and need no scheduler: check them, ship them, govern them.
//!
//! Must never know who schedules.

mod check;

use anyhow::Result;

use crate::args::artefact::ArtefactCmd;

/// Run a subcommand.
pub(crate) fn run(command: &ArtefactCmd) -> Result<()> {
    match command {
        ArtefactCmd::Check { policy, config, json, shelves } => {
            check::run(policy, config, *json, shelves.policies.as_deref())
        }
    }
}
