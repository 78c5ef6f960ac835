//! Settings that change while the scheduler runs: by a request, by SIGHUP, by the broker's own reload.
//!
//! A new set is checked as a whole, its policy compiled and tried, before anything of it is in force; if any of
//! it is refused, everything stays as it was. Another policy is a hot swap, and the rest follows when it has
//! taken over. A setting that needs a new handshake (the queue depth) is noted in the answer.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use fluxgate_engine::BUILTIN;
use fluxgate_policy::Compiled;
use fluxgate_wire::message::Message;
use fluxgate_wire::proto::errno;
use fluxgate_wire::session::ControlRequest;
use serde_json::{Value, json};

use super::Service;
use super::control::Answer;
use crate::components::Components;
use crate::configuration::{Reload, changes};
use crate::host::Document;
use crate::pending_swap::PendingSwap;
use crate::policy_choice::{Origin, PolicyChoice};
use crate::settings::{FIXED, parse_config};

/// Matchtag of `config.get`, far from those that the session counts up from 1.
const CONFIG_TAG: u32 = u32::MAX - 1;
/// Most requests that wait for the broker's configuration.
const READERS_MAX: usize = 64;

/// The component of a policy, and its file; `None` is the built-in policy, or none at all.
type Component = Option<(PathBuf, Compiled)>;

/// The components that changed settings name, compiled.
struct Compilation {
    /// The default policy, if it is to be another one.
    default: Component,
    /// The policies of queues.
    queues: Vec<(String, Component)>,
}

fn component(components: &dyn Components, policy: &str) -> Result<Component> {
    match policy {
        BUILTIN => Ok(None),
        policy => components.find(policy).and_then(|path| Ok(Some((path, components.compile(policy)?)))),
    }
}

/// Compile the components that these settings name: the default policy, if it changes, and the policies of these queues.
fn compile(components: &dyn Components, reload: &Reload, queues: Vec<String>) -> Result<Compilation> {
    let default = match reload.swap {
        true => component(components, &reload.settings.policy).context("policy")?,
        false => None,
    };
    let compiled = queues.into_iter().map(|queue| {
        let own = reload.settings.queue_policy(&queue);
        let made = own.map_or(Ok(None), |own| component(components, &own.policy));
        let made = made.with_context(|| format!("queues.{queue}.policy"))?;
        Ok((queue, made))
    });
    Ok(Compilation { default, queues: compiled.collect::<Result<_>>()? })
}

impl Service {
    /// A request for other settings: a refusal at once is told as a later one is.
    pub(super) fn config_request(
        &mut self,
        request: &ControlRequest,
        serve: impl FnOnce(&mut Service) -> Result<()>,
    ) -> Answer {
        if let Err(error) = serve(self) {
            self.refused(Some(request.clone()), &error);
        }
        Answer::Later
    }

    /// A control request with a whole configuration as its payload; the broker's own reload is one.
    pub(super) fn config_reload(&mut self, request: &ControlRequest) -> Result<()> {
        self.reload(&request.payload, Some(request.clone()))
    }

    /// Read the configuration again from its source, for a request or a signal.
    pub(super) fn config_read(&mut self, request: Option<ControlRequest>) -> Result<()> {
        if let Some(path) = self.configuration.file.clone() {
            let config = self.read_config(&path)?;
            return self.reload(&config, request).with_context(|| path.display().to_string());
        }
        if self.configuration.readers.len() >= READERS_MAX {
            bail!("more than {READERS_MAX} requests wait for the broker's configuration");
        }
        self.configuration.readers.push(request);
        if self.configuration.readers.len() == 1 {
            let question = Message::request("config.get").with_json(&json!({})).with_matchtag(CONFIG_TAG);
            self.send(Some(question));
        }
        Ok(())
    }

    fn read_config(&self, path: &Path) -> Result<Value> {
        let name = || path.display().to_string();
        let text = self.host.read(Document::Config(path))?.with_context(name)?;
        parse_config(&String::from_utf8_lossy(&text)).with_context(name)
    }

    /// Begins to read the configuration again, as SIGHUP asks for.
    pub fn hangup(&mut self) {
        if let Err(error) = self.config_read(None) {
            self.refused(None, &error);
        }
    }

    /// True while a configuration is on its way that is neither in force nor refused.
    pub fn is_reloading(&self) -> bool {
        self.reloading || !self.configuration.readers.is_empty()
    }

    /// Is this the broker's configuration? Then it is taken in.
    pub(super) fn config_answer(&mut self, message: &Message) -> bool {
        if !(message.is_response() && message.matchtag() == CONFIG_TAG) {
            return false;
        }
        for request in std::mem::take(&mut self.configuration.readers) {
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
        self.record_settings_refused(request.as_ref(), &format!("{error:#}"));
        fluxgate_log::log!(ReloadRefused, "configuration refused, the old one stays: {error:#}");
        if let Some(request) = request {
            self.send(request.error(errno::EINVAL, &format!("{error:#}")));
        }
    }

    /// Check a configuration, and begin to bring it into force. The answer follows.
    fn reload(&mut self, config: &Value, request: Option<ControlRequest>) -> Result<()> {
        let settings = self.configuration.read(config)?;
        self.give_way(None);
        if let Some(swap) = self.swaps.get(&None) {
            bail!("a swap to {} is on its way; try again", swap.choice.name());
        }
        if std::mem::replace(&mut self.reloading, true) {
            bail!("another configuration is on its way; try again");
        }
        let changed = changes(&self.configuration.settings, &settings);
        let other = |keys: &[&str]| keys.iter().any(|key| changed.contains_key(*key));
        let new_components =
            other(&["policies", "limits", "require-manifest", "require-signature", "trusted-keys"]);
        let new_policy = new_components || other(&["policy", "policy-config"]);
        let mut reload = Reload {
            settings,
            changed,
            request,
            components: None,
            refused: BTreeMap::new(),
            others: Vec::new(),
            before: None,
            policy: None,
            swap: new_policy,
            queues: Vec::new(),
        };
        let others = reload.settings.other_queue_policies(&self.configuration.settings, new_components);
        if !new_policy && others.is_empty() {
            self.apply(reload);
            return Ok(());
        }
        let components = match new_components {
            false => Arc::clone(&self.components),
            true => match self.components.reopen(&reload.settings) {
                Ok(components) => components,
                Err(error) => {
                    self.reloading = false;
                    return Err(error.context("policies"));
                }
            },
        };
        let loaded = self.registry.loaded();
        let run = move || {
            let compiled = compile(&*components, &reload, others);
            if new_components {
                let judged = loaded.into_iter().filter_map(|(digest, source)| {
                    let refusal = components.admit(&digest, source.as_deref()).err()?;
                    Some((digest, format!("{refusal:#}")))
                });
                reload.refused = judged.collect();
                let files = components.files().into_values();
                let good =
                    files.filter_map(|path| Some((path.clone(), components.compile(path.to_str()?).ok()?)));
                reload.others = good.collect();
                reload.components = Some(components);
            }
            (reload, compiled)
        };
        self.start_work(
            "reload",
            |_| run(),
            |service, (reload, compiled)| service.reloaded(reload, compiled),
        );
        Ok(())
    }

    /// The policies of a reload are compiled, or cannot be.
    fn reloaded(&mut self, reload: Reload, compiled: Result<Compilation>) {
        let (request, mut reload) = (reload.request.clone(), reload);
        if let Err(error) = self.try_reload(&mut reload, compiled) {
            self.abandon(&reload);
            self.refused(request, &error);
        } else if self.engine.is_none() || !reload.swap {
            self.apply(reload);
        } else {
            let (name, before) = (reload.policy.clone().unwrap_or_default(), reload.before.clone());
            let begun = self.registry.get(&name).and_then(|choice| {
                let reload = Some(Box::new(reload));
                self.begin_swap(PendingSwap { reload, ..PendingSwap::new(choice, Origin::Person) })
            });
            if let Err(error) = begun {
                self.reloading = false;
                self.registry.restore(&name, before);
                self.record("swap", request.as_ref(), None, &name, Err(&format!("{error:#}")));
                self.refused(request, &error.context("policy"));
            }
        }
    }

    fn try_reload(&mut self, reload: &mut Reload, compiled: Result<Compilation>) -> Result<()> {
        let Compilation { default, queues } = compiled?;
        for (queue, component) in queues {
            let at = || format!("queues.{queue}.policy");
            let own = reload.settings.queue_policy(&queue).cloned();
            let choice = match (component, own) {
                (_, None) => PolicyChoice::Default,
                (None, Some(own)) => {
                    self.registry.variant(&PolicyChoice::Builtin, own.config).with_context(at)?
                }
                (Some((path, compiled)), Some(own)) => {
                    self.registry.apart(compiled, own.config, &path).with_context(at)?
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
        reload.before = self.registry.get(&compiled.description().name).ok();
        let config = reload.settings.policy_config.clone();
        reload.policy = Some(self.registry.add(compiled, config, &path).context("policy")?);
        Ok(())
    }

    /// The policy of this reload did not take over: the one of its name that was there before is back.
    pub(super) fn abandon(&mut self, reload: &Reload) {
        self.reloading = false;
        if let Some(name) = &reload.policy {
            self.registry.restore(name, reload.before.clone());
        }
    }

    /// The policy of a reload did not take over.
    pub(super) fn reload_failed(&mut self, reload: &Reload, why: &str) {
        self.abandon(reload);
        self.refused(reload.request.clone(), &anyhow!("policy: {why}"));
    }

    /// Nothing can go wrong any more: the reload is in force from here on.
    pub(super) fn apply(&mut self, reload: Reload) {
        let Reload {
            mut settings, mut changed, request, components, refused, others, policy, queues, ..
        } = reload;
        self.reloading = false;
        if let Some(components) = components {
            self.components = components;
            self.registry.refuse(refused);
            for (path, compiled) in others {
                if policy.as_deref() != Some(&compiled.description().name)
                    && let Err(error) = self.registry.add(compiled, Default::default(), &path)
                {
                    super::left_out(&path.display().to_string(), &error);
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
        let old = &self.configuration.settings;
        self.configuration.depth_later = changed.remove("queue-depth").map(|change| change["to"].clone());
        let [journal, size, rules] = FIXED.map(|key| changed.remove(key).is_some());
        let later = [(journal || size, "the journal"), (rules, "resources")];
        self.configuration.later =
            later.into_iter().filter(|(changes, _)| *changes).map(|(_, what)| what).collect();
        settings.keep_fixed_of(old);
        self.shadows.settings(&settings.engine());
        let now = self.host.now();
        let actions = self.engine.as_mut().map(|engine| engine.reconfigure(settings.engine(), now));
        if settings.log_level != old.log_level
            && let Err(error) = self.host.set_log_level(settings.log_level.filter())
        {
            fluxgate_log::log!(LogLevelNotSet, "{error:#}");
        }
        let (watch, audit) = settings.periods();
        self.session.set_periods(watch, audit);
        self.session.set_virtual_queues(settings.virtual_queues.clone());
        self.configuration.settings = settings;
        self.actions(actions.unwrap_or_default());
        if self.engine.is_some() {
            self.want_queue_policies(queues, Origin::Person);
        }
        let notes = self.config_notes();
        self.record_settings(request.as_ref(), &changed);
        let told =
            changed.iter().map(|(key, change)| format!("{key} {} -> {}", change["from"], change["to"]));
        let told: Vec<String> = told.collect();
        let told = if told.is_empty() { "nothing changed".to_owned() } else { told.join(", ") };
        fluxgate_log::log!(Reloaded, "configuration reloaded: {told}");
        for note in &notes {
            fluxgate_log::log!(ReloadNote, "configuration: {note}");
        }
        if let Some(request) = request {
            self.send(request.ok(&json!({"changed": changed, "notes": notes})));
        }
        self.carry_out(Vec::new());
    }

    /// Notes on facts that the settings alone do not tell.
    fn config_notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for (queue, name, reason) in self.registry.refused_active() {
            let at = queue.map_or_else(String::new, |queue| format!("queue {queue}: "));
            notes.push(format!(
                "{at}{name} decides, though the rules of the site refuse it: {reason}; swap another one in"
            ));
        }
        if let Some(depth) = &self.configuration.depth_later {
            notes.push(format!(
                "queue-depth stays {} until the scheduler is started again, then it is {depth}: the job manager \
                 learns it in the handshake only",
                self.configuration.settings.value("queue-depth"),
            ));
        }
        notes.extend(self.unseen_members());
        for what in &self.configuration.later {
            notes.push(format!("{what} stays as it is until the scheduler is started again"));
        }
        let (active, configured) = (self.registry.active(), &self.first_policy);
        if self.engine.is_some() && !self.swaps.contains_key(&None) && active != configured {
            notes.push(format!(
                "{active} decides, not {configured} as configured: it was swapped in by hand, or {configured} failed"
            ));
        }
        for (queue, choice) in &self.first_queues {
            let Some(history) = self.registry.look(Some(queue)) else { continue };
            let (active, configured) = (history.active().name(), choice.name());
            if !self.swaps.contains_key(&Some(queue.clone())) && active != configured {
                notes.push(format!("queue {queue}: {active} decides, not {configured} as configured"));
            }
        }
        notes
    }

    /// The settings in force, where each comes from, and where they are read from again.
    pub(super) fn config_show(&self) -> Value {
        json!({
            "settings": self.configuration.settings.show(),
            "arguments": self.configuration.args,
            "file": self.configuration.file,
            "notes": self.config_notes(),
        })
    }
}
