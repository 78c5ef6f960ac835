//! The policies of a replay: for each run a default one, and those of queues.
//!
//! Must never know jobs.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use fluxgate_engine::{BUILTIN, Policy};
use fluxgate_policy::{Compiled, Config};
use fluxgate_sched::Builtin;
use fluxgate_sched::settings::POLICY_DEFAULT;
use fluxgate_sim::driver::Deciders;
use fluxgate_sim::rules::{Rules, picking};
use fluxgate_sim::words::label;

use super::args::Replay;
use crate::fail::usage;
use crate::files;
use crate::policy_source::PolicySource;
use crate::values::{named, settings};

/// The policies of a run, or of several runs on parts of a log.
pub(super) struct Asked {
    /// Name in tables and file names.
    pub(super) label: String,
    /// The default policy as it was named.
    pub(super) policy: String,
    /// Settings of it from --config.
    pub(super) config: Vec<String>,
    /// The policies of single queues as they were named.
    pub(super) queue_policies: Vec<String>,
    /// Makes their instances.
    pub(super) recipes: Recipes,
}

/// Makes instances of a policy: of a component, or of the built-in one.
pub(super) struct Recipe {
    name: String,
    component: Option<(Compiled, Config)>,
    /// Rules of the pass.
    rules: Rules,
}

impl Recipe {
    /// Of a policy by name or path, with these settings.
    pub(super) fn of(source: &PolicySource, policy: &str, settings: &[(String, String)]) -> Result<Recipe> {
        let config = settings.iter().cloned().collect();
        let compiled = (policy != BUILTIN).then(|| source.compile(policy)).transpose()?;
        let component = compiled.map(|compiled| (compiled, config));
        Ok(Recipe { name: policy.to_owned(), component, rules: Rules::default() })
    }

    /// The same under other rules of the pass.
    pub(super) fn under(self, rules: Rules) -> Recipe {
        Recipe { rules, ..self }
    }

    /// A text that only the same component with the same settings has.
    fn identity(&self) -> String {
        match &self.component {
            Some((compiled, config)) => {
                let settings: Vec<String> =
                    config.iter().map(|(key, value)| format!("{key}={value}")).collect();
                format!("{} {}", compiled.digest(), settings.join(" ")).trim_end().to_owned()
            }
            None => BUILTIN.to_owned(),
        }
    }

    /// A new instance; `None` is the built-in one.
    pub(super) fn make(&self) -> Result<Option<Box<dyn Policy>>> {
        let made: Option<Box<dyn Policy>> = match &self.component {
            Some((compiled, config)) => {
                Some(Box::new(compiled.instantiate(config).with_context(|| self.name.clone())?))
            }
            None => None,
        };
        Ok(picking::apply(made, &self.rules)?)
    }
}

/// The policies of one run.
pub(super) struct Recipes {
    pub(super) default: Recipe,
    /// By queue.
    pub(super) queues: Vec<(String, Recipe)>,
}

impl Recipes {
    /// New instances for one run.
    pub(super) fn make(&self) -> Result<Deciders> {
        Ok(Deciders { default: self.default.make()?, queues: self.of_queues()?, ..Deciders::default() })
    }

    /// True if one of them reads attributes of jobs.
    pub(super) fn read_attributes(&self) -> bool {
        let own = self.queues.iter().map(|(_, recipe)| recipe);
        let mut all = std::iter::once(&self.default).chain(own);
        all.any(|recipe| recipe.component.as_ref().is_some_and(|(compiled, _)| compiled.reads_attributes()))
    }

    /// The policies as [`fluxgate_sim::checkpoint::Identity::deciders`] has them.
    pub(super) fn identity(&self) -> BTreeMap<String, String> {
        let own = self.queues.iter().map(|(queue, recipe)| (queue.clone(), recipe.identity()));
        own.chain([(String::new(), self.default.identity())]).collect()
    }

    /// New instances of the policies of queues.
    fn of_queues(&self) -> Result<Vec<(String, Box<dyn Policy>)>> {
        let make = |(queue, recipe): &(String, Recipe)| {
            Ok((queue.clone(), recipe.make()?.unwrap_or_else(|| Box::new(Builtin))))
        };
        self.queues.iter().map(make).collect()
    }
}

/// Every policy of `--policy`, with its settings. A setting that no policy has is an error.
pub(super) fn policies(args: &Replay, source: &PolicySource) -> Result<Vec<Asked>> {
    let wanted = files::settings(&args.config)?;
    let mut taken = vec![false; wanted.len()];
    let mut all: Vec<Asked> = Vec::new();
    let usual = [POLICY_DEFAULT.to_owned()];
    for asked in if args.policy.is_empty() { &usual[..] } else { &args.policy } {
        let (policy, own) = named(asked);
        let mut mine = settings(&own)?;
        let mut config = Vec::new();
        if policy != BUILTIN {
            let known = source.compile(policy)?;
            for (setting, taken) in wanted.iter().zip(&mut taken) {
                if known.description().config.iter().any(|key| key.name == setting.0) {
                    *taken = true;
                    if !mine.iter().any(|own| own.0 == setting.0) {
                        mine.push(setting.clone());
                        config.push(format!("{}={}", setting.0, setting.1));
                    }
                }
            }
        }
        let default = Recipe::of(source, policy, &mine)?.under(args.rules());
        let made = default.make()?;
        let name = made.as_ref().map_or(BUILTIN, |p| p.name());
        let label = label(name, &own, all.iter().map(|asked| asked.label.as_str()));
        let recipes = Recipes { default, queues: queue_policies(args, source)? };
        let queues = recipes.of_queues()?;
        let own: String =
            queues.iter().map(|(queue, policy)| format!("+{queue}={}", policy.name())).collect();
        all.push(Asked {
            label: label + &own,
            policy: asked.clone(),
            config,
            queue_policies: args.queue_policy.clone(),
            recipes,
        });
    }
    match wanted.iter().zip(&taken).find(|(_, taken)| !**taken) {
        Some(((key, _), _)) => Err(usage(format!("--config {key}: none of the policies has this setting"))),
        None => Ok(all),
    }
}

/// The policies of `--queue-policy`.
fn queue_policies(args: &Replay, source: &PolicySource) -> Result<Vec<(String, Recipe)>> {
    let mut all: Vec<(String, Recipe)> = Vec::new();
    if args.rules().picks() && !args.queue_policy.is_empty() {
        return Err(usage(
            "--queue-policy: the rules commit=yes and backfill=none|submission|score are for one queue",
        ));
    }
    for asked in &args.queue_policy {
        let wrong = || usage(format!("--queue-policy {asked}: expected QUEUE=POLICY"));
        let (queue, policy) = asked.split_once('=').ok_or_else(wrong)?;
        if queue.is_empty() || policy.is_empty() {
            return Err(wrong());
        }
        if all.iter().any(|(known, _)| known == queue) {
            return Err(usage(format!("--queue-policy {asked}: queue {queue} has one already")));
        }
        let (policy, own) = named(policy);
        all.push((queue.to_owned(), Recipe::of(source, policy, &settings(&own)?)?));
    }
    Ok(all)
}

/// Refuse a flag for a queue that no job is in.
pub(super) fn check_queues<'a>(args: &'a Replay, there: &BTreeSet<String>) -> Result<()> {
    let asked = |flag: &'static str, list: &'a [String]| list.iter().map(move |asked| (flag, asked));
    let all = asked("--queue-policy", &args.queue_policy)
        .chain(asked("--queue-ceiling", &args.queue_ceiling))
        .chain(asked("--queue-floor", &args.queue_floor));
    for (flag, asked) in all {
        let queue = asked.split_once('=').map_or(asked.as_str(), |(queue, _)| queue);
        if !there.contains(queue) {
            let names: Vec<&str> = there.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
            let names = if names.is_empty() {
                "no job is in a named queue".to_owned()
            } else {
                format!("queues are {}", names.join(", "))
            };
            bail!("{flag} {asked}: no job is in queue {queue}; {names}");
        }
    }
    Ok(())
}
