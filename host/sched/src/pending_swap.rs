//! A swap that was asked for and is on its way, with the steps that follow its end.
//!
//! Must never know how a swap goes.

use fluxgate_wire::session::ControlRequest;

use crate::configuration::Reload;
use crate::policy_choice::{Origin, PolicyChoice};

/// See the module text.
pub(crate) struct PendingSwap {
    /// The queue whose own policy it is about; without, the default policy.
    pub(crate) queue: Option<String>,
    pub(crate) choice: PolicyChoice,
    /// The request that is answered when it ends.
    pub(crate) request: Option<ControlRequest>,
    /// Does the policy before go into the history?
    pub(crate) remember: bool,
    /// Settings that are to be in force with it.
    pub(crate) reload: Option<Box<Reload>>,
    pub(crate) origin: Origin,
    /// Seconds on probation.
    pub(crate) probation: Option<f64>,
    /// The policy of the same name that was there before, if this one has other settings.
    pub(crate) before: Option<PolicyChoice>,
    /// A shadow of this policy ends with it.
    pub(crate) promoted: bool,
}

impl PendingSwap {
    /// A swap that no request waits for.
    pub(crate) fn new(choice: PolicyChoice, origin: Origin) -> PendingSwap {
        PendingSwap {
            queue: None,
            choice,
            request: None,
            remember: matches!(origin, Origin::Person | Origin::Return),
            reload: None,
            origin,
            probation: None,
            before: None,
            promoted: false,
        }
    }

    /// The word for the swap in the audit trail.
    pub(crate) fn what(&self) -> &'static str {
        match self.origin {
            Origin::Start => "start",
            Origin::Person if matches!(self.choice, PolicyChoice::Default) => "unset",
            _ if self.promoted => "promote",
            _ if self.remember => "swap",
            _ => "rollback",
        }
    }

    /// The same for the policy of this queue.
    pub(crate) fn at(self, queue: Option<&str>) -> PendingSwap {
        PendingSwap { queue: queue.map(str::to_owned), ..self }
    }
}
