//! Commands of `fluxgate policy` that work on components and need no scheduler: check them, ship them, govern them.
//!
//! Must never talk to a scheduler.

pub(super) mod args;
mod check;
mod govern;
mod publish;
mod recorded;
mod store;
mod trial;

use anyhow::Result;

use self::args::ArtefactCmd;

pub(crate) use govern::seal_built;
pub(crate) use store::list;
pub(crate) use trial::test;

/// Run a subcommand.
pub(crate) fn run(command: &ArtefactCmd) -> Result<()> {
    match command {
        ArtefactCmd::Bench { policy, config, json, folder } => {
            trial::bench(policy, config, *json, folder.policies.as_deref())
        }
        ArtefactCmd::Seal { file, manifest, out, json } => {
            govern::seal(file, manifest, out.as_deref(), *json)
        }
        ArtefactCmd::GenerateKey { path, json } => govern::generate_key(path, *json),
        ArtefactCmd::Sign { file, key, comment, json } => govern::sign(file, key, comment.as_deref(), *json),
        ArtefactCmd::Verify { file, recorded: Some(recorded), json, .. } => {
            recorded::verify(file, recorded, *json)
        }
        ArtefactCmd::Verify { file, key, keys, json, .. } => {
            govern::verify(file, key.as_deref(), keys.as_deref(), *json)
        }
        ArtefactCmd::Install { file, unchecked, downgrade, key, keys, json, folder } => {
            let keys = govern::keys(key.as_deref(), keys.as_deref())?;
            store::install(file, *unchecked, *downgrade, keys.as_ref(), *json, folder.policies.as_deref())
        }
        ArtefactCmd::Publish { policy, target, unchecked, json, folder } => {
            publish::run(policy, target, *unchecked, *json, folder.policies.as_deref())
        }
        ArtefactCmd::Remove { name, json, folder } => store::remove(name, *json, folder.policies.as_deref()),
        ArtefactCmd::Audit { file, json } => govern::audit(file.as_deref(), *json),
        ArtefactCmd::Check { policy, config, json, folder } => {
            check::run(policy, config, *json, folder.policies.as_deref())
        }
    }
}
