//! New settings for a running engine. Waiting jobs, running jobs and swaps under way are kept.
//!
//! Must never know the source of the settings.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Engine;
use crate::annotate::nest;
use crate::config::{Config, OnBreach};

use crate::event::Action;

impl Engine {
    /// Replaces the settings; equal ones change nothing. They apply from the next pass, which becomes due for every queue with
    /// waiting jobs. A raised bound may let jobs start. A lowered bound applies when reservations are next made.
    /// [`OnBreach::Fallback`] ends all suspensions. Known queues stay, also beyond a lowered [`Config::queues_max`].
    /// [`Config::site_rules`] stay as they are, because the requests of waiting jobs contain them.
    ///
    /// When [`Config::annotate`] is turned off, the annotations of waiting jobs are removed; when it is turned on,
    /// the next pass annotates them. When [`Config::annotate_reason`] changes alone, jobs with a reason get or lose that
    /// annotation at once. The actions are carried out like those of [`Engine::step`].
    pub fn reconfigure(&mut self, mut config: Config) -> Vec<Action> {
        let core = &mut *self.core;
        let mut out = Vec::new();
        config.site_rules.clone_from(&core.config.site_rules);
        if core.config == config {
            return out;
        }
        let before = std::mem::replace(&mut core.config, config);
        core.resources.set_record_format(core.config.record_format);
        let (was, is) = (before.annotate, core.config.annotate);
        if was != is {
            let waiting: Vec<_> = core.pending_after(None).map(|(_, slot)| slot).collect();
            for slot in waiting {
                let Some(job) = core.job_mut(slot) else { continue };
                let told = std::mem::take(&mut job.annotations).all();
                let (id, queue) = (job.id, job.queue as usize);
                if is {
                    core.queues[queue].fresh.push(slot);
                } else if !told.is_empty() {
                    let nothing: BTreeMap<String, Value> =
                        told.into_keys().map(|key| (key, Value::Null)).collect();
                    out.push(Action::Annotate { id, annotations: nest(nothing) });
                }
            }
        }
        let (told, tells) = (before.annotate_reason, core.config.annotate_reason);
        if was && is && told != tells {
            let waiting: Vec<_> = core.pending_after(None).map(|(_, slot)| slot).collect();
            for slot in waiting {
                let Some(job) = core.job_mut(slot) else { continue };
                let (id, news) = (job.id, job.annotations.tell_fields(tells));
                if !news.is_empty() {
                    out.push(Action::Annotate { id, annotations: nest(news) });
                }
            }
        }
        if core.config.on_breach == OnBreach::Fallback {
            for scope in core.scopes() {
                core.end_suspension(scope);
            }
        }
        for queue in &mut core.queues {
            queue.unpark_all();
        }
        let placements = |config: &Config| (config.placement, config.queue_placements.clone());
        if placements(&before) != placements(&core.config) {
            let waiting: Vec<_> = core.pending_after(None).map(|(_, slot)| slot).collect();
            waiting.into_iter().for_each(|slot| core.refit(slot));
        }
        core.all_dirty();
        out
    }
}
