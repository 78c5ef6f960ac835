//! Settings that change while the scheduler runs: by a request, by SIGHUP, by the broker's own reload.
//!
//! A new set is checked as a whole, its policy compiled and tried, before anything of it is in force; if any of
//! it is refused, everything stays as it was. Another policy is a hot swap, and the rest follows when it has
//! taken over. What only a new handshake could bring (the queue depth) is told, never left out silently.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use fluxgate_engine::BUILTIN;
use fluxgate_policy::Compiled;
use fluxgate_wire::message::Message;
use fluxgate_wire::proto::errno;
use fluxgate_wire::session::ControlRequest;
use serde_json::{Map, Value, json};

use super::policies::{Components, Loaded};
use super::roster::{By, Choice};
use super::settings::{KEYS, Settings, read_file};
use super::{Scheduler, Waiting, open_shelf};
use crate::logging;
use crate::policies::Shelf;

/// Matchtag of `config.get`, far from those that the session counts up from 1.
const CONFIG_TAG: u32 = u32::MAX - 1;
/// Most requests that wait for the broker's configuration.
const READERS_MAX: usize = 64;

/// The settings in force, and where they are read from again.
pub(super) struct InForce {
    pub(super) settings: Settings,
    /// Arguments, which win over every table.
    args: Vec<String>,
    /// The file that was named at the start; without one the broker has the configuration.
    file: Option<PathBuf>,
    /// The queue depth that the next start will bring.
    depth_later: Option<Value>,
    /// The journal's settings changed, for the next start.
    journal_later: bool,
    /// Who waits for the broker's configuration; `None` is a signal.
    readers: Vec<Option<ControlRequest>>,
}

impl InForce {
    pub(super) fn new(settings: Settings, args: Vec<String>, file: Option<PathBuf>) -> InForce {
        InForce { settings, args, file, depth_later: None, journal_later: false, readers: Vec::new() }
    }
}

/// A set of settings that was found good, on its way into force.
pub(crate) struct Reload {
    settings: Settings,
    changed: Map<String, Value>,
    request: Option<ControlRequest>,
    /// Another folder of policies.
    shelf: Option<Arc<Shelf>>,
    /// What is in it.
    others: Vec<(PathBuf, Compiled)>,
    /// The policy of the same name that was there before.
    before: Option<Choice>,
    policy: Option<String>,
    /// Is the default policy to be another one, or another instance?
    swap: bool,
    /// Who is to decide these queues.
    queues: Vec<(String, Choice)>,
}

/// What is different, key by key.
fn changes(old: &Settings, new: &Settings) -> Map<String, Value> {
    let change = |name: &'static str| {
        let (from, to) = (old.value(name), new.value(name));
        (from != to).then(|| (name.to_owned(), json!({"from": from, "to": to})))
    };
    KEYS.iter().filter_map(|key| change(key.name)).collect()
}

impl Scheduler {
    /// A control request with a whole configuration as its payload; the broker's own reload is one.
    pub(super) fn config_reload(&mut self, request: &ControlRequest) -> Result<()> {
        self.reload(&request.payload, Some(request.clone()))
    }

    /// Read again what was read at the start, for a request or a signal.
    pub(super) fn config_read(&mut self, request: Option<ControlRequest>) -> Result<()> {
        if let Some(path) = self.in_force.file.clone() {
            let config = read_file(&path)?;
            return self.reload(&config, request).with_context(|| path.display().to_string());
        }
        if self.in_force.readers.len() >= READERS_MAX {
            bail!("more than {READERS_MAX} requests wait for the broker's configuration");
        }
        self.in_force.readers.push(request);
        if self.in_force.readers.len() == 1 {
            let question = Message::request("config.get").with_json(&json!({})).with_matchtag(CONFIG_TAG);
            self.send(Some(question));
        }
        Ok(())
    }

    /// SIGHUP.
    pub(super) fn hangup(&mut self) {
        if let Err(error) = self.config_read(None) {
            tracing::error!("configuration refused, the old one stays: {error:#}");
        }
    }

    /// Is this the broker's configuration? Then it is taken in.
    pub(super) fn config_answer(&mut self, message: &Message) -> bool {
        if !(message.is_response() && message.matchtag() == CONFIG_TAG) {
            return false;
        }
        for request in std::mem::take(&mut self.in_force.readers) {
            let answer = match message.errnum() {
                0 => message
                    .json()
                    .context("config.get")
                    .and_then(|config| self.reload(&config, request.clone())),
                errno::ENOSYS => Err(anyhow!(
                    "this instance has no configuration to read; name a file with --config-file at the start, or \
                     give one with 'fluxgate config reload --file'"
                )),
                errnum => Err(anyhow!("config.get: the broker answers error {errnum}")),
            };
            if let Err(error) = answer {
                self.refused(request, &error);
            }
        }
        true
    }

    fn refused(&mut self, request: Option<ControlRequest>, error: &anyhow::Error) {
        tracing::error!("configuration refused, the old one stays: {error:#}");
        if let Some(request) = request {
            self.send(request.error(errno::EINVAL, &format!("{error:#}")));
        }
    }

    /// Check a configuration, and begin to bring it into force. The answer follows.
    fn reload(&mut self, config: &Value, request: Option<ControlRequest>) -> Result<()> {
        let settings = Settings::from_config(config)?.with_args(&self.in_force.args)?;
        self.give_way(None);
        if let Some(waiting) = self.swaps.get(&None) {
            bail!("a swap to {} is on its way; try again", waiting.choice.name());
        }
        if std::mem::replace(&mut self.reloading, true) {
            bail!("another configuration is on its way; try again");
        }
        let changed = changes(&self.in_force.settings, &settings);
        let other = |keys: &[&str]| keys.iter().any(|key| changed.contains_key(*key));
        let new_shelf =
            other(&["policies", "limits", "require-manifest", "require-signature", "trusted-keys"]);
        let new_policy = new_shelf || other(&["policy", "policy-config"]);
        let mut reload = Reload {
            settings,
            changed,
            request,
            shelf: None,
            others: Vec::new(),
            before: None,
            policy: None,
            swap: new_policy,
            queues: Vec::new(),
        };
        let others = reload.settings.other_queue_policies(&self.in_force.settings, new_shelf);
        if !new_policy && others.is_empty() {
            self.apply(reload);
            return Ok(());
        }
        let shelf = match new_shelf {
            false => Arc::clone(&self.shelf),
            true => match open_shelf(&reload.settings) {
                Ok(shelf) => Arc::new(shelf.continuing(&self.shelf)),
                Err(error) => {
                    self.reloading = false;
                    return Err(error.context("policies"));
                }
            },
        };
        let done = self.loaded.clone();
        tokio::task::spawn_blocking(move || {
            let component = |policy: &str| match policy {
                BUILTIN => Ok(None),
                policy => shelf.find(policy).and_then(|path| Ok(Some((path, shelf.compile(policy)?)))),
            };
            let compiled = || {
                let default = match reload.swap {
                    true => component(&reload.settings.policy).context("policy")?,
                    false => None,
                };
                let mut queues = Vec::new();
                for queue in others {
                    let own = reload.settings.queue_policy(&queue);
                    let made = own.map_or(Ok(None), |own| component(&own.policy));
                    queues.push((queue.clone(), made.with_context(|| format!("queues.{queue}.policy"))?));
                }
                Ok(Components { default, queues })
            };
            let compiled = compiled();
            if new_shelf {
                let files = shelf.files().into_values();
                let good = files.filter_map(|path| Some((path.clone(), shelf.compile(path.to_str()?).ok()?)));
                reload.others = good.collect();
                reload.shelf = Some(Arc::clone(&shelf));
            }
            // Without a receiver the scheduler is gone, and so is whoever asked.
            let _ = done.send(Loaded::Reload(Box::new(reload), compiled));
        });
        Ok(())
    }

    /// The policy is compiled, or cannot be.
    pub(super) fn finish_reload(&mut self, reload: Reload, compiled: Result<Components>) {
        let (request, mut reload) = (reload.request.clone(), reload);
        if let Err(error) = self.try_reload(&mut reload, compiled) {
            self.abandon(&reload);
            self.refused(request, &error);
        } else if self.engine.is_none() || !reload.swap {
            self.apply(reload);
        } else {
            let (name, before) = (reload.policy.clone().unwrap_or_default(), reload.before.clone());
            let begun = self.roster.get(&name).and_then(|choice| {
                let reload = Some(Box::new(reload));
                self.begin_swap(Waiting { reload, ..Waiting::new(choice, By::Person) })
            });
            if let Err(error) = begun {
                self.reloading = false;
                self.roster.restore(&name, before);
                self.record("swap", request.as_ref(), None, &name, Err(&format!("{error:#}")));
                self.refused(request, &error.context("policy"));
            }
        }
    }

    fn try_reload(&mut self, reload: &mut Reload, compiled: Result<Components>) -> Result<()> {
        let Components { default, queues } = compiled?;
        for (queue, component) in queues {
            let at = || format!("queues.{queue}.policy");
            let own = reload.settings.queue_policy(&queue).cloned();
            let choice = match (component, own) {
                (_, None) => Choice::Default,
                (None, Some(own)) => self.roster.variant(&Choice::Builtin, own.config).with_context(at)?,
                (Some((path, compiled)), Some(own)) => {
                    self.roster.apart(compiled, own.config, &path).with_context(at)?
                }
            };
            reload.queues.push((queue, choice));
        }
        if !reload.swap {
            return Ok(());
        }
        let Some((path, compiled)) = default else {
            reload.policy = Some(BUILTIN.to_owned());
            return Ok(());
        };
        reload.before = self.roster.get(&compiled.description().name).ok();
        let config = reload.settings.policy_config.clone();
        reload.policy = Some(self.roster.add(compiled, config, &path).context("policy")?);
        Ok(())
    }

    /// The policy of this reload did not take over: the one of its name that was there before is back.
    pub(super) fn abandon(&mut self, reload: &Reload) {
        self.reloading = false;
        if let Some(name) = &reload.policy {
            self.roster.restore(name, reload.before.clone());
        }
    }

    /// Its policy did not take over.
    pub(super) fn reload_failed(&mut self, reload: &Reload, why: &str) {
        self.abandon(reload);
        self.refused(reload.request.clone(), &anyhow!("policy: {why}"));
    }

    /// Nothing can go wrong any more: it is in force from here on.
    pub(super) fn apply(&mut self, reload: Reload) {
        let Reload { mut settings, mut changed, request, shelf, others, policy, queues, .. } = reload;
        self.reloading = false;
        if let Some(shelf) = shelf {
            self.shelf = shelf;
            for (path, compiled) in others {
                if policy.as_deref() != Some(&compiled.description().name)
                    && let Err(error) = self.roster.add(compiled, Default::default(), &path)
                {
                    tracing::warn!(policy = %path.display(), "left out: {error:#}");
                }
            }
        }
        if let Some(name) = policy {
            self.first_policy = name;
        }
        for (queue, choice) in &queues {
            self.first_queues.retain(|(known, _)| known != queue);
            if settings.queue_policy(queue).is_some() {
                self.first_queues.push((queue.clone(), choice.clone()));
            }
        }
        let old = &self.in_force.settings;
        self.in_force.depth_later = changed.remove("queue-depth").map(|change| change["to"].clone());
        let later = ["journal", "journal-size"].map(|key| changed.remove(key).is_some());
        self.in_force.journal_later = later.contains(&true);
        settings.keep_fixed_of(old);
        self.shadows.settings(&settings.engine());
        let now = self.clock.now();
        let actions = self.engine.as_mut().map(|engine| engine.reconfigure(settings.engine(), now));
        if settings.log_level != old.log_level
            && let Err(error) = logging::set_broker_level(settings.log_level.filter())
        {
            tracing::warn!("{error:#}");
        }
        let (watch, audit) = settings.periods();
        self.session.set_periods(watch, audit);
        self.in_force.settings = settings;
        self.actions(actions.unwrap_or_default());
        if self.engine.is_some() {
            self.seat(queues, By::Person);
        }
        let notes = self.config_notes();
        let keys: Vec<&str> = changed.keys().map(String::as_str).collect();
        let keys = if keys.is_empty() { "nothing changed".to_owned() } else { keys.join(", ") };
        tracing::info!("configuration reloaded: {keys}");
        for note in &notes {
            tracing::warn!("configuration: {note}");
        }
        if let Some(request) = request {
            self.send(request.ok(&json!({"changed": changed, "notes": notes})));
        }
        self.carry_out(Vec::new());
    }

    /// What the settings alone do not say.
    fn config_notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(depth) = &self.in_force.depth_later {
            notes.push(format!(
                "queue-depth stays {} until the scheduler is started again, then it is {depth}: the job manager \
                 learns it in the handshake only",
                self.in_force.settings.value("queue-depth"),
            ));
        }
        if self.in_force.journal_later {
            notes.push("the journal stays as it is until the scheduler is started again".to_owned());
        }
        let (active, configured) = (self.roster.active(), &self.first_policy);
        if self.engine.is_some() && !self.swaps.contains_key(&None) && active != configured {
            notes.push(format!(
                "{active} decides, not {configured} as configured: it was swapped in by hand, or {configured} failed"
            ));
        }
        for (queue, choice) in &self.first_queues {
            let Some(chair) = self.roster.look(Some(queue)) else { continue };
            let (active, configured) = (chair.active().name(), choice.name());
            if !self.swaps.contains_key(&Some(queue.clone())) && active != configured {
                notes.push(format!("queue {queue}: {active} decides, not {configured} as configured"));
            }
        }
        notes
    }

    /// The settings in force, where each comes from, and where they are read from again.
    pub(super) fn config_show(&self) -> Value {
        json!({
            "settings": self.in_force.settings.show(),
            "arguments": self.in_force.args,
            "file": self.in_force.file,
            "notes": self.config_notes(),
        })
    }
}
