//! The policy and the depths of a queue of Fluxion, and the policy of ours that does the same.
//!
//! Must never know where the settings of a queue were found.

use serde_json::{Map, Value, json};

use super::params::Params;
use super::report::Level;

/// Jobs that Fluxion looks at if it is told nothing.
pub(super) const QUEUE_DEPTH: u32 = 32;
const QUEUE_DEPTH_CAP: u32 = 1_000_000;
const RESERVATION_DEPTH: u32 = 64;
const RESERVATION_DEPTH_CAP: u32 = 100_000;
/// Greatest `depth` of our policy `hybrid`.
const HYBRID_DEPTH_MAX: u32 = 1_000;

/// A policy of Fluxion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Policy {
    /// The policy of a Fluxion that is told nothing, or something unknown.
    #[default]
    Fcfs,
    Easy,
    Conservative,
    Hybrid,
}

impl Policy {
    /// All names, for messages.
    pub(super) const NAMES: &'static str = "fcfs, easy, conservative and hybrid";

    pub(super) fn from_name(name: &str) -> Option<Policy> {
        match name {
            "fcfs" => Some(Policy::Fcfs),
            "easy" => Some(Policy::Easy),
            "conservative" => Some(Policy::Conservative),
            "hybrid" => Some(Policy::Hybrid),
            _ => None,
        }
    }
}

/// A queue, or all queues where there are no named ones.
#[derive(Debug, Clone)]
pub(super) struct Scope<'a> {
    pub(super) policy: Policy,
    pub(super) queue: Option<&'a Params>,
    pub(super) reservations: Option<&'a Params>,
}

/// The policy that decides a scope here, with its settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) policy: &'static str,
    pub(super) config: Map<String, Value>,
    pub(super) level: Level,
    /// The differences; empty if there are none.
    pub(super) note: String,
}

impl Decision {
    /// The settings as a line has them.
    pub(super) fn shown(&self) -> String {
        let mut text = format!("policy = \"{}\"", self.policy);
        for (key, value) in &self.config {
            text.push_str(&format!(", policy-config.{key} = {value}"));
        }
        text
    }

    /// Do both decide alike?
    pub(super) fn same(&self, other: &Decision) -> bool {
        (self.policy, &self.config) == (other.policy, &other.config)
    }
}

impl Scope<'_> {
    fn queue_param(&self, key: &str) -> Option<u32> {
        self.queue?.get(key)
    }

    fn reservation_param(&self, key: &str) -> Option<u32> {
        self.reservations?.get(key)
    }

    /// Jobs that are looked at in one loop.
    pub(super) fn queue_depth(&self) -> u32 {
        let cap = self.queue_param("max-queue-depth").unwrap_or(QUEUE_DEPTH_CAP);
        self.queue_param("queue-depth").unwrap_or(QUEUE_DEPTH).min(cap)
    }

    /// Did the site bound the jobs that are looked at?
    pub(super) fn bounded(&self) -> bool {
        self.queue_param("queue-depth").is_some() || self.queue_depth() < QUEUE_DEPTH
    }

    fn reservation_cap(&self) -> u32 {
        self.reservation_param("max-reservation-depth").unwrap_or(RESERVATION_DEPTH_CAP)
    }

    /// Waiting jobs that get a reservation.
    pub(super) fn reservation_depth(&self) -> u32 {
        match self.policy {
            Policy::Fcfs => 0,
            Policy::Easy => 1,
            Policy::Hybrid => {
                let depth = self.reservation_param("reservation-depth").unwrap_or(RESERVATION_DEPTH);
                depth.min(self.reservation_cap())
            }
            Policy::Conservative => self.queue_depth().min(self.reservation_cap()),
        }
    }

    /// The reservation depth in the code of Fluxion where it differs from the manual: a `reservation-depth` that is not below
    /// `max-reservation-depth` leaves the default.
    pub(super) fn reservation_depth_in_code(&self) -> Option<u32> {
        if self.policy != Policy::Hybrid {
            return None;
        }
        let given = self.reservation_param("reservation-depth");
        let code = given.filter(|depth| *depth < self.reservation_cap()).unwrap_or(RESERVATION_DEPTH);
        (code != self.reservation_depth()).then_some(code)
    }

    /// The policy of ours that does the same.
    pub(super) fn decision(&self) -> Decision {
        let plain = |policy| Decision { policy, config: Map::new(), level: Level::Ok, note: String::new() };
        let depth = self.reservation_depth();
        let mut decision = match self.policy {
            Policy::Fcfs => return plain("fcfs"),
            Policy::Easy => return plain("easy"),
            Policy::Conservative | Policy::Hybrid if depth <= HYBRID_DEPTH_MAX => {
                let config = Map::from_iter([("depth".to_owned(), json!(depth))]);
                Decision { config, ..plain("hybrid") }
            }
            Policy::Conservative | Policy::Hybrid => {
                let config = Map::from_iter([("renew".to_owned(), json!("queue"))]);
                let note = format!(
                    "Fluxion reserves for {depth} waiting jobs and hybrid takes at most {HYBRID_DEPTH_MAX}; this one \
                     reserves for all, up to decisions-per-pass-max and reservations-max"
                );
                Decision { config, level: Level::Warn, note, ..plain("conservative") }
            }
        };
        if self.policy == Policy::Conservative && decision.level == Level::Ok {
            decision.level = Level::Info;
            decision.note = format!(
                "Fluxion's conservative reserves for the smaller of queue-depth and max-reservation-depth, {depth} waiting \
                 jobs, anew in the order of the queue; conservative here reserves for all"
            );
        }
        decision
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fluxion::params;
    use crate::fluxion::report::Report;

    fn depths(policy: Policy, queue: &str, reservations: &str) -> (u32, u32, Option<u32>) {
        let mut report = Report::default();
        let queue = params::from_text("q", queue, params::QUEUE, &mut report);
        let reservations = params::from_text("p", reservations, params::POLICY, &mut report);
        assert!(report.lines.is_empty(), "{report:?}");
        let scope = Scope { policy, queue: Some(&queue), reservations: Some(&reservations) };
        (scope.queue_depth(), scope.reservation_depth(), scope.reservation_depth_in_code())
    }

    #[test]
    fn site_91_depths_are_the_smaller_of_depth_and_cap() {
        use Policy::{Conservative, Easy, Fcfs, Hybrid};
        assert_eq!(depths(Fcfs, "", ""), (32, 0, None));
        assert_eq!(depths(Easy, "queue-depth=1024", ""), (1024, 1, None));
        assert_eq!(depths(Easy, "queue-depth=1024,max-queue-depth=100", ""), (100, 1, None));
        assert_eq!(depths(Easy, "max-queue-depth=10", ""), (10, 1, None));
        assert_eq!(depths(Hybrid, "", ""), (32, 64, None));
        assert_eq!(depths(Hybrid, "", "reservation-depth=8,max-reservation-depth=100"), (32, 8, None));
        assert_eq!(depths(Conservative, "", ""), (32, 32, None));
        assert_eq!(depths(Conservative, "queue-depth=8192", "max-reservation-depth=64"), (8192, 64, None));
        assert_eq!(depths(Conservative, "queue-depth=8192", "reservation-depth=2"), (8192, 8192, None));
    }

    #[test]
    fn site_91_hybrid_depth_in_the_code_of_fluxion_is_the_default_from_the_cap_on() {
        let hybrid = |params| depths(Policy::Hybrid, "", params);
        assert_eq!(hybrid("reservation-depth=128,max-reservation-depth=64"), (32, 64, None));
        assert_eq!(hybrid("reservation-depth=20,max-reservation-depth=10"), (32, 10, Some(64)));
        assert_eq!(hybrid("reservation-depth=128,max-reservation-depth=128"), (32, 128, Some(64)));
        assert_eq!(hybrid("max-reservation-depth=10"), (32, 10, Some(64)));
    }
}
