//! `fluxgate policy`: look at policies, load and swap them, write, ship and govern them.

pub(super) mod answers;
mod args;
mod artefact;
mod author;
mod build;
mod live;
mod new;
mod shadow;
mod watch;

use anyhow::Result;

pub(super) use self::args::PolicyCmd;

/// Run a subcommand.
pub(crate) fn run(command: &PolicyCmd) -> Result<()> {
    match command {
        PolicyCmd::List { all: true, folder, json, .. } => artefact::list(folder.policies.as_deref(), *json),
        PolicyCmd::List { target, json, .. } => live::list(target, *json),
        PolicyCmd::Show { target, name, json } => live::show(target, name, *json),
        PolicyCmd::Load { target, file, config, watch, json } => {
            live::load(target, file, config, *watch, *json)
        }
        PolicyCmd::Swap { target, name, queue, config, probation, dry_run, json } => {
            let length = probation.as_deref();
            live::swap(target, name, queue.as_deref(), config, (length, *dry_run), *json)
        }
        PolicyCmd::Shadow(args) => shadow::shadow(args),
        PolicyCmd::Diff(args) => shadow::diff(args),
        PolicyCmd::Promote(args) => shadow::promote(args),
        PolicyCmd::Watch(args) => watch::run(args),
        PolicyCmd::Unset { target, queue, json } => {
            live::back(target, "sched-fluxgate.policy-unset", Some(queue), *json)
        }
        PolicyCmd::Rollback { target, queue, json } => {
            live::back(target, "sched-fluxgate.policy-rollback", queue.as_deref(), *json)
        }
        PolicyCmd::Unload { target, name, json } => live::unload(target, name, *json),
        PolicyCmd::Artefact(command) => artefact::run(command),
        PolicyCmd::Build { folder, out, json } => build::build(folder, out.as_deref(), *json),
        PolicyCmd::Test { policy, config, folder, out, json } => {
            build::test(policy, out.as_deref(), config, folder.policies.as_deref(), *json)
        }
        PolicyCmd::New { name, lang, template, weights, path, json } => {
            let made_of = template.as_deref().zip(weights.as_deref());
            new::run(name, lang, made_of, path.as_deref(), *json)
        }
    }
}
