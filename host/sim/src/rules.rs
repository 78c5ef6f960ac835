//! The rules in which published simulators differ, as options of a replay, and named sets of them ([`Semantics`]).
//!
//! The default of each option is this simulator's own rule. A rule of the clock (the order of the events of one instant,
//! and the events after which a pass is made) is applied by [`crate::driver`]; a rule of the pass (committed jobs, the
//! kind of backfilling) replaces the passes of a policy that gives an order, see [`picking`].
//!
//! This module knows neither logs nor the names of policies.

pub mod expected;
pub mod picking;

use std::fmt;

use crate::workload::{Options, Overrun, TimeBase, Width, ZeroRun};

/// The events after which a pass is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PassPer {
    /// One pass after all events of an instant.
    #[default]
    Instant,
    /// One pass after each event.
    Event,
}

/// The kind of events that comes first within an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum First {
    /// Ends of jobs, then changes of nodes, then submissions.
    #[default]
    Ends,
    /// Submissions, then ends of jobs, then changes of nodes.
    Submissions,
}

/// The order of jobs that end at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EndOrder {
    /// By id, ascending.
    #[default]
    Id,
    /// By the order in which they started.
    Start,
}

/// The time until which a job holds its cores, as a pass counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FreeBy {
    /// Until the event of its end.
    #[default]
    Held,
    /// Until its requested end, or until the event of its end if that is earlier: a job whose requested end is now holds
    /// nothing in any pass of this instant.
    Requested,
    /// The same with predicted ends, see [`expected`].
    Predicted,
}

/// The submissions after which a pass is made, with [`PassPer::Event`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AfterSubmission {
    /// All.
    #[default]
    Always,
    /// Those of jobs that need no more cores than are free.
    Fitting,
}

/// The jobs that may start before the first one that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Backfill {
    /// Those that the policy starts in passes of its own.
    #[default]
    Policy,
    /// None: strict order.
    None,
    /// Those that the shadow time allows, in the order of submission.
    Submission,
    /// Those that the shadow time allows, in the order of the policy.
    Score,
}

/// The time at which the shadow time of a waiting job is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shadow {
    /// In each pass.
    #[default]
    Fresh,
    /// Once, when the job becomes the first that waits.
    Frozen,
}

/// The rules of a run; see the [module](self).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// The events after which a pass is made.
    pub pass: PassPer,
    /// The kind of events that comes first within an instant.
    pub first: First,
    /// The order of jobs that end at one instant.
    pub ends: EndOrder,
    /// The time until which a job holds its cores.
    pub free: FreeBy,
    /// The submissions after which a pass is made, with [`PassPer::Event`].
    pub submission: AfterSubmission,
    /// True if a pass is made when the policy asked to be woken.
    pub wakes: bool,
    /// True if the first job that waits is the next to start, whichever jobs are submitted meanwhile.
    pub commit: bool,
    /// The jobs that may start before the first one that waits.
    pub backfill: Backfill,
    /// The time at which the shadow time of the first job that waits is computed.
    pub shadow: Shadow,
    /// True if a job may also start that ends after the shadow time, on cores that are free beside the first job then.
    pub extra: bool,
    /// True if a job may start that ends exactly at the shadow time.
    pub inclusive: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Rules {
            pass: PassPer::Instant,
            first: First::Ends,
            ends: EndOrder::Id,
            free: FreeBy::Held,
            submission: AfterSubmission::Always,
            wakes: true,
            commit: false,
            backfill: Backfill::Policy,
            shadow: Shadow::Fresh,
            extra: true,
            inclusive: true,
        }
    }
}

/// The names of all options with their values, for messages.
pub const ACCEPTED: &str = "pass=instant|event, first=ends|submissions, ends=id|start, \
     free=held|requested|predicted, after-submission=always|fitting, wakes=yes|no, commit=no|yes, \
     backfill=policy|none|submission|score, shadow=fresh|frozen, extra=yes|no and bound=by|before";

impl Rules {
    /// Sets one option by name.
    ///
    /// # Errors
    /// An unknown name or value; the message has both, and [`ACCEPTED`].
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match (name, value) {
            ("pass", "instant") => self.pass = PassPer::Instant,
            ("pass", "event") => self.pass = PassPer::Event,
            ("first", "ends") => self.first = First::Ends,
            ("first", "submissions") => self.first = First::Submissions,
            ("ends", "id") => self.ends = EndOrder::Id,
            ("ends", "start") => self.ends = EndOrder::Start,
            ("free", "held") => self.free = FreeBy::Held,
            ("free", "requested") => self.free = FreeBy::Requested,
            ("free", "predicted") => self.free = FreeBy::Predicted,
            ("after-submission", "always") => self.submission = AfterSubmission::Always,
            ("after-submission", "fitting") => self.submission = AfterSubmission::Fitting,
            ("wakes", "yes" | "no") => self.wakes = value == "yes",
            ("commit", "yes" | "no") => self.commit = value == "yes",
            ("backfill", "policy") => self.backfill = Backfill::Policy,
            ("backfill", "none") => self.backfill = Backfill::None,
            ("backfill", "submission") => self.backfill = Backfill::Submission,
            ("backfill", "score") => self.backfill = Backfill::Score,
            ("shadow", "fresh") => self.shadow = Shadow::Fresh,
            ("shadow", "frozen") => self.shadow = Shadow::Frozen,
            ("extra", "yes" | "no") => self.extra = value == "yes",
            ("bound", "by" | "before") => self.inclusive = value == "by",
            _ => return Err(format!("found `{name}={value}`, accepted is {ACCEPTED}")),
        }
        Ok(())
    }

    /// Sets options from `NAME=VALUE,..`; an empty text changes nothing.
    ///
    /// # Errors
    /// As [`Rules::set`], for the first option that is not accepted. Those before it are set.
    pub fn set_all(&mut self, text: &str) -> Result<(), String> {
        for pair in text.split(',').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            self.set(name.trim(), value.trim())?;
        }
        Ok(())
    }

    /// Every option with its value, in a fixed order.
    pub fn values(&self) -> [(&'static str, &'static str); 11] {
        let yes = |is: bool| if is { "yes" } else { "no" };
        [
            (
                "pass",
                match self.pass {
                    PassPer::Instant => "instant",
                    PassPer::Event => "event",
                },
            ),
            (
                "first",
                match self.first {
                    First::Ends => "ends",
                    First::Submissions => "submissions",
                },
            ),
            (
                "ends",
                match self.ends {
                    EndOrder::Id => "id",
                    EndOrder::Start => "start",
                },
            ),
            (
                "free",
                match self.free {
                    FreeBy::Held => "held",
                    FreeBy::Requested => "requested",
                    FreeBy::Predicted => "predicted",
                },
            ),
            (
                "after-submission",
                match self.submission {
                    AfterSubmission::Always => "always",
                    AfterSubmission::Fitting => "fitting",
                },
            ),
            ("wakes", yes(self.wakes)),
            ("commit", yes(self.commit)),
            (
                "backfill",
                match self.backfill {
                    Backfill::Policy => "policy",
                    Backfill::None => "none",
                    Backfill::Submission => "submission",
                    Backfill::Score => "score",
                },
            ),
            (
                "shadow",
                match self.shadow {
                    Shadow::Fresh => "fresh",
                    Shadow::Frozen => "frozen",
                },
            ),
            ("extra", yes(self.extra)),
            ("bound", if self.inclusive { "by" } else { "before" }),
        ]
    }

    /// The options that differ from this simulator's own rules, as `NAME=VALUE`.
    pub fn deviations(&self) -> Vec<String> {
        let own = Rules::default().values();
        let differing = self.values().into_iter().zip(own).filter(|(mine, own)| mine != own);
        differing.map(|((name, value), _)| format!("{name}={value}")).collect()
    }

    /// True if passes are made by these rules in the place of the policy, which then gives only the order.
    pub fn picks(&self) -> bool {
        self.commit || self.backfill != Backfill::Policy
    }
}

/// A named set of rules, and of rules from lines to jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Semantics {
    /// This simulator's own.
    #[default]
    Fluxgate,
    /// Those of the fork of pyss with which the results of Gaussier, Glesser, Reis, Trystram (SC'15) were computed.
    Pyss,
    /// Those of the environment of Zhang, Dai, He, Bao, Xie: RLScheduler (SC'20), without backfilling.
    RlScheduler,
    /// Those of Carastan-Santos, de Camargo (SC'17), with aggressive backfilling.
    Sc17,
}

impl Semantics {
    /// All semantics.
    pub const ALL: [Semantics; 4] =
        [Semantics::Fluxgate, Semantics::Pyss, Semantics::RlScheduler, Semantics::Sc17];

    /// Its name, such as `pyss`.
    pub fn name(self) -> &'static str {
        match self {
            Semantics::Fluxgate => "fluxgate",
            Semantics::Pyss => "pyss",
            Semantics::RlScheduler => "rlscheduler",
            Semantics::Sc17 => "sc17",
        }
    }

    /// The semantics of this name.
    ///
    /// # Errors
    /// There are none of this name; the message lists all names.
    pub fn named(name: &str) -> Result<Self, String> {
        Semantics::ALL.into_iter().find(|semantics| semantics.name() == name).ok_or_else(|| {
            format!("found `{name}`, accepted is {}", Semantics::ALL.map(Semantics::name).join(", "))
        })
    }

    /// Its rules.
    pub fn rules(self) -> Rules {
        let own = Rules::default();
        match self {
            Semantics::Fluxgate => own,
            Semantics::Pyss => Rules {
                pass: PassPer::Event,
                first: First::Submissions,
                ends: EndOrder::Start,
                free: FreeBy::Requested,
                wakes: false,
                ..own
            },
            Semantics::RlScheduler => Rules {
                pass: PassPer::Event,
                first: First::Submissions,
                ends: EndOrder::Start,
                wakes: false,
                commit: true,
                backfill: Backfill::None,
                shadow: Shadow::Frozen,
                extra: false,
                inclusive: false,
                ..own
            },
            Semantics::Sc17 => Rules { backfill: Backfill::Score, wakes: false, ..own },
        }
    }

    /// Its rules from lines of a log to jobs.
    pub fn options(self) -> Options {
        let own = Options::default();
        match self {
            Semantics::Fluxgate => own,
            Semantics::Pyss => Options { width: Width::Larger, ..own },
            Semantics::RlScheduler => Options {
                width: Width::Larger,
                zero_run: ZeroRun::LeftOut,
                unknown_run: Some(10.0),
                overrun: Overrun::RunOn,
                time_base: TimeBase::Log,
                ..own
            },
            Semantics::Sc17 => Options {
                width: Width::Allocated,
                zero_run: ZeroRun::LeftOut,
                time_base: TimeBase::Log,
                ..own
            },
        }
    }
}

impl fmt::Display for Semantics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_of_every_option_is_read_back() {
        for semantics in Semantics::ALL {
            let rules = semantics.rules();
            let mut again = Rules::default();
            again.set_all(&rules.deviations().join(",")).unwrap();
            assert_eq!(again, rules, "{semantics}");
            assert_eq!(Semantics::named(semantics.name()), Ok(semantics));
        }
        let options = ACCEPTED.replace(" and ", ", ");
        for option in options.split(", ") {
            let (name, values) = option.split_once('=').unwrap();
            for value in values.split('|') {
                let mut rules = Rules::default();
                rules.set(name, value).unwrap();
                assert!(rules.values().contains(&(name, value)), "{name}={value}");
            }
        }
    }

    #[test]
    fn unknown_options_name_those_that_exist() {
        let error = Rules::default().set_all("pass=event,commit=maybe").unwrap_err();
        assert!(error.starts_with("found `commit=maybe`, accepted is pass=instant|event"), "{error}");
        let error = Semantics::named("alea").unwrap_err();
        assert_eq!(error, "found `alea`, accepted is fluxgate, pyss, rlscheduler, sc17");
    }

    #[test]
    fn the_own_rules_deviate_in_nothing() {
        assert!(Rules::default().deviations().is_empty() && !Rules::default().picks());
        assert_eq!(
            Semantics::Pyss.rules().deviations(),
            ["pass=event", "first=submissions", "ends=start", "free=requested", "wakes=no"]
        );
    }
}
