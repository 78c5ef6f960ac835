//! Other settings for a running engine. Nothing that waits, runs or is on its way is lost or done again.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::config::{Config, OnBreach};
use crate::core::nest;
use crate::engine::Engine;
use crate::event::Action;

impl Engine {
    /// Other settings from now on. They hold from the next pass, which becomes due for every queue in which
    /// jobs wait: a bound that was raised may let jobs start, one that was lowered holds when the reservations
    /// are next made. Queues that exist stay, however many they are.
    ///
    /// When [`Config::annotate`] is turned off, waiting jobs have taken back what they were told; when it is
    /// turned on, they are told in the next pass. The actions are to be carried out like those of
    /// [`Engine::step`].
    pub fn reconfigure(&mut self, config: Config) -> Vec<Action> {
        let core = self.core_mut();
        let mut out = Vec::new();
        if core.config == config {
            return out;
        }
        let before = std::mem::replace(&mut core.config, config);
        let (was, is) = (before.annotate, core.config.annotate);
        if was != is {
            let waiting: Vec<_> = core.pending_after(None).map(|(_, slot)| slot).collect();
            for slot in waiting {
                let Some(job) = core.job_mut(slot) else { continue };
                job.told_reason = None;
                let told = std::mem::take(&mut job.told);
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
        if core.config.on_breach == OnBreach::Fallback {
            for post in core.posts() {
                core.release_hold(post);
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
