//! Checkpoints of a replay: `--checkpoint-every`, `--checkpoint-to` and `--resume`.
//!
//! Must never know more of a checkpoint than the run to which it belongs.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use fluxgate_sim::checkpoint::{self, Identity, Opened};
use fluxgate_sim::keeping::{Keeping, Writes};
use fluxgate_sim::workload::Options;

use super::args::Replay;
use super::deciders::Asked;
use super::input::Input;
use crate::files::sha256;

/// The checkpoints that the runs of a replay write, and the one from which they go on.
pub(super) struct Checkpoints {
    writes: Option<(fluxgate_sim::keeping::Every, PathBuf)>,
    /// The file, and the part of the log that it is of.
    from: Option<(PathBuf, String)>,
    /// True if the policies were named, and not taken from the checkpoint.
    named: bool,
    /// The common identity of all runs of the replay.
    identity: Identity,
}

fn open(path: &Path) -> Result<Opened> {
    checkpoint::open(path).with_context(|| path.display().to_string())
}

/// The arguments with the policies of the checkpoint, where none are named.
pub(super) fn resumed(args: &Replay) -> Result<Option<Replay>> {
    let Some(path) = args.resume.as_deref().filter(|_| args.policy.is_empty()) else { return Ok(None) };
    let Identity { policy, config, queue_policies, .. } = open(path)?.identity;
    let mut with = Replay { policy: vec![policy], ..args.clone() };
    if with.queue_policy.is_empty() {
        with.queue_policy = queue_policies;
    }
    if with.config.is_empty() {
        with.config = config;
    }
    Ok(Some(with))
}

/// The options on which a run depends, by name. Options that only show or write parts of a run are not among them.
fn options(args: &Replay) -> Result<BTreeMap<String, String>> {
    fn told(value: &impl Debug) -> String {
        format!("{value:?}")
    }
    let hash = |path: &Option<PathBuf>| match path {
        Some(path) if path.exists() => sha256(path).with_context(|| path.display().to_string()),
        Some(words) => Ok(words.display().to_string()),
        None => Ok(String::new()),
    };
    let lines = Options { format: None, max_jobs: None, ..args.options() };
    let parts =
        args.resample.map(|what| format!("{what:?}, {} draws, seed {}", args.draws, args.selection.seed));
    let selection = &args.selection;
    Ok([
        ("how lines become jobs (--map, --semantics, --skip-bad)", told(&lines)),
        ("--limit", told(&selection.limit)),
        ("--from, --until, --load, --estimates and --seed", told(&selection.transform())),
        ("--resample", parts.unwrap_or_default()),
        ("--dependencies", told(&args.dependencies)),
        ("--feedback", told(&args.feedback)),
        ("--machine", hash(&args.machine)?),
        ("--pool", told(&args.pool)),
        ("--flow", told(&args.flow)),
        ("--warm", hash(&args.warm)?),
        ("--outages", hash(&args.outages)?),
        ("--on-failure", told(&args.on_failure)),
        ("--reservations", hash(&args.reservations)?),
        ("--queue-ceiling", told(&args.queue_ceiling)),
        ("--queue-floor", told(&args.queue_floor)),
        ("--rules and --semantics", told(&args.rules().values())),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into())
}

impl Checkpoints {
    /// The checkpoints that the arguments name; `named` if the user named the policies. The folder is made.
    pub(super) fn of(args: &Replay, log: &Path, named: bool) -> Result<Checkpoints> {
        let writes = args.checkpoint_every.zip(args.checkpoint_to.clone());
        let mut all = Checkpoints { writes, from: None, named, identity: Identity::default() };
        if all.writes.is_none() && args.resume.is_none() {
            return Ok(all);
        }
        all.identity = Identity {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            log: sha256(log).with_context(|| log.display().to_string())?,
            options: options(args)?,
            ..Identity::default()
        };
        if let Some(path) = &args.resume {
            let opened = open(path)?;
            if !args.quiet {
                let (now, jobs, policy) = (opened.now(), opened.submitted(), &opened.identity.policy);
                let name = path.display();
                let told = format!("{name}: goes on at {now}, after {jobs} jobs, from a run under {policy}");
                let _ = writeln!(io::stderr(), "{told}");
            }
            all.from = Some((path.clone(), opened.identity.part));
        }
        if let Some((_, folder)) = &all.writes {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        }
        Ok(all)
    }

    /// True if this part of the log is run.
    pub(super) fn is_of(&self, part: &str) -> bool {
        self.from.as_ref().is_none_or(|(_, known)| known == part)
    }

    fn identity(&self, asked: &Asked, part: &str) -> Identity {
        Identity {
            part: part.to_owned(),
            policy: asked.policy.clone(),
            config: asked.config.clone(),
            queue_policies: asked.queue_policies.clone(),
            deciders: asked.recipes.identity(),
            ..self.identity.clone()
        }
    }

    /// Refuses a checkpoint of another run before any run begins.
    pub(super) fn check(&self, asked: &[Asked], input: &Input) -> Result<()> {
        let Some((path, part)) = &self.from else { return Ok(()) };
        let parts: Vec<&str> = input.parts().into_iter().map(|part| input.part_name(part)).collect();
        if !parts.contains(&part.as_str()) {
            let name =
                |part: &str| if part.is_empty() { "the whole log".to_owned() } else { part.to_owned() };
            let accepted: Vec<String> = parts.iter().map(|part| name(part)).collect();
            let (path, found) = (path.display(), name(part));
            bail!(
                "{path}: the checkpoint is of another run: found {found}, accepted is {}",
                accepted.join(", ")
            );
        }
        asked.iter().try_for_each(|asked| self.of_run(asked, part).map(drop))
    }

    /// The checkpoints that the run of a policy on a part of the log goes on from and writes.
    pub(super) fn of_run(&self, asked: &Asked, part: &str) -> Result<Keeping> {
        let here = self.identity(asked, part);
        let mut keeping = Keeping::default();
        if let Some((path, _)) = &self.from {
            let opened = open(path)?;
            opened.identity.check(&here).with_context(|| path.display().to_string())?;
            keeping.fork = opened.identity.deciders != here.deciders;
            if keeping.fork && !self.named {
                bail!(
                    "{}: the checkpoint is of another run: policy {} was {:?} and is {:?}; name it with --policy to go on under it",
                    path.display(),
                    asked.label,
                    opened.identity.deciders,
                    here.deciders
                );
            }
            keeping.from = Some(opened);
        }
        keeping.writes = self.writes.clone().map(|(every, folder)| {
            let parts = [asked.label.as_str(), part];
            let name = parts.into_iter().filter(|name| !name.is_empty()).collect::<Vec<_>>().join(".");
            Writes { every, folder, name: name.replace('/', "_"), identity: here }
        });
        Ok(keeping)
    }
}
