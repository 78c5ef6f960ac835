//! A queue of limited depth: the job manager shows only the best jobs, so jobs that a reservation is for may be unseen when it
//! begins. Such reservations are not made, and settings that limit the depth beside them are told.
//!
//! Must never know how a reservation is kept.

use anyhow::{Result, bail};
use fluxgate_engine::WindowKind;
use fluxgate_wire::session::{ControlRequest, Mode};
use serde_json::json;

use super::Service;
use super::reservations::named;

impl Service {
    /// Refuses a reservation with members while the depth of the queue is limited (FEAT-101).
    pub(super) fn members_are_seen(&self, request: &ControlRequest) -> Result<()> {
        let Mode::Limited(depth) = self.identity.session.mode else { return Ok(()) };
        if request.payload["kind"] != json!(WindowKind::Dedicated) {
            return Ok(());
        }
        bail!(
            "queue-depth is {depth}: the job manager shows the best {depth} jobs only, and those of members may not be \
             among them when a reservation begins; set queue-depth = \"unlimited\" and start the scheduler again, or \
             reserve for maintenance"
        )
    }

    /// A note on reservations with members beside a limited depth, now or after the next start.
    pub(super) fn unseen_members(&self) -> Option<String> {
        let later = self.configuration.depth_later.as_ref();
        let limited = later.is_some_and(|depth| depth != "unlimited")
            || (later.is_none() && matches!(self.identity.session.mode, Mode::Limited(_)));
        let dedicated = self.engine.iter().flat_map(|engine| engine.windows());
        let names: Vec<String> = dedicated
            .filter(|window| window.kind == WindowKind::Dedicated && !window.occurrences.is_empty())
            .map(|window| window.name.clone())
            .collect();
        if !limited || names.is_empty() {
            return None;
        }
        let names = named(names.into_iter());
        Some(format!(
            "queue-depth is limited beside reservations with members ({names}): the job manager may not show the \
             jobs of members when theirs begins"
        ))
    }
}
