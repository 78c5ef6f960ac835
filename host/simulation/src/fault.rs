//! The kinds of faults and disturbances, by name. Must never know how one is brought about.

use std::fmt;
use std::str::FromStr;

/// A kind of fault, or of disturbance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The scheduler is killed.
    Kill,
    /// The scheduler is told to end, and does so in order.
    Stop,
    /// The machine of the scheduler loses its power: bytes that its disk did not sync may be lost.
    Power,
    /// The connection breaks.
    Close,
    /// Nothing arrives on the connection for a while.
    Stall,
    /// The job manager takes the scheduler offline without telling it.
    Teardown,
    /// The job manager is reloaded.
    Reload,
    /// The broker is killed: starts of the last moments are forgotten, their R stays in the KVS.
    Broker,
    /// Commits to the KVS take long.
    SlowCommit,
    /// A commit to the KVS is refused.
    NoCommit,
    /// `job-info` does not answer lookups, or the R of a job cannot be read.
    NoLookup,
    /// The disk has no room.
    DiskFull,
    /// Calls of the disk fail.
    DiskError,
    /// The disk is slow.
    DiskSlow,
    /// A bit on the disk flips.
    Flip,
    /// The clock of the instance jumps.
    Clock,
    /// Nodes go down and come back.
    Down,
    /// Nodes are drained, while jobs run there, and undrained.
    Drain,
    /// Nodes are lost for good.
    Shrink,
    /// The instance ends at another time.
    Expiration,
    /// The configuration is reloaded.
    Config,
    /// A policy is swapped in, by default or for a queue.
    Swap,
    /// A policy that fails is swapped in.
    Broken,
    /// Back to the policy before.
    Rollback,
    /// A policy is compiled and loaded.
    Load,
    /// A shadow begins or ends.
    Shadow,
    /// A shadow is to decide.
    Promote,
    /// Work that was started takes very long.
    LateWork,
    /// Passes are cut at their beginning for a while.
    Cut,
    /// Guests ask many questions at once.
    Flood,
    /// Guests make requests that they may not make, and the job manager sends requests that make no sense.
    Nonsense,
    /// An operator asks something about reservations; in profiles with reservations alone.
    Reserve,
    /// A service marks vertices down, and later up; in profiles with storage alone.
    Mark,
    /// Users join and leave groups, or groups cannot be looked up; in profiles with everything alone.
    Group,
    /// A service sets and removes properties of nodes; in profiles with constraints, where there is storage.
    Property,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 35] = [
        Kind::Kill,
        Kind::Stop,
        Kind::Power,
        Kind::Close,
        Kind::Stall,
        Kind::Teardown,
        Kind::Reload,
        Kind::Broker,
        Kind::SlowCommit,
        Kind::NoCommit,
        Kind::NoLookup,
        Kind::DiskFull,
        Kind::DiskError,
        Kind::DiskSlow,
        Kind::Flip,
        Kind::Clock,
        Kind::Down,
        Kind::Drain,
        Kind::Shrink,
        Kind::Expiration,
        Kind::Config,
        Kind::Swap,
        Kind::Broken,
        Kind::Rollback,
        Kind::Load,
        Kind::Shadow,
        Kind::Promote,
        Kind::LateWork,
        Kind::Cut,
        Kind::Flood,
        Kind::Nonsense,
        Kind::Reserve,
        Kind::Mark,
        Kind::Group,
        Kind::Property,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Kill => "kill",
            Kind::Stop => "stop",
            Kind::Power => "power",
            Kind::Close => "close",
            Kind::Stall => "stall",
            Kind::Teardown => "teardown",
            Kind::Reload => "reload",
            Kind::Broker => "broker",
            Kind::SlowCommit => "slow-commit",
            Kind::NoCommit => "no-commit",
            Kind::NoLookup => "no-lookup",
            Kind::DiskFull => "disk-full",
            Kind::DiskError => "disk-error",
            Kind::DiskSlow => "disk-slow",
            Kind::Flip => "flip",
            Kind::Clock => "clock",
            Kind::Down => "down",
            Kind::Drain => "drain",
            Kind::Shrink => "shrink",
            Kind::Expiration => "expiration",
            Kind::Config => "config",
            Kind::Swap => "swap",
            Kind::Broken => "broken",
            Kind::Rollback => "rollback",
            Kind::Load => "load",
            Kind::Shadow => "shadow",
            Kind::Promote => "promote",
            Kind::LateWork => "late-work",
            Kind::Cut => "cut",
            Kind::Flood => "flood",
            Kind::Nonsense => "nonsense",
            Kind::Reserve => "reserve",
            Kind::Mark => "mark",
            Kind::Group => "group",
            Kind::Property => "property",
        }
    }

    /// Is it in the world of the embedded instance, too?
    pub fn is_of_instance(self) -> bool {
        let ends =
            matches!(self, Kind::Kill | Kind::Stop | Kind::Power | Kind::Close | Kind::Stall | Kind::Broker);
        let disks =
            matches!(self, Kind::NoCommit | Kind::DiskFull | Kind::DiskError | Kind::DiskSlow | Kind::Flip);
        let nodes = matches!(self, Kind::Down | Kind::Drain | Kind::Shrink | Kind::Expiration);
        ends || disks || nodes || matches!(self, Kind::Config | Kind::Cut | Kind::Flood | Kind::Nonsense)
    }

    /// Does it need components?
    pub fn is_about_policies(self) -> bool {
        matches!(
            self,
            Kind::Swap
                | Kind::Broken
                | Kind::Rollback
                | Kind::Load
                | Kind::Shadow
                | Kind::Promote
                | Kind::LateWork
        )
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No fault has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no fault is called {0:?}; faults are {all}", all = names())]
pub struct UnknownFault(String);

fn names() -> String {
    Kind::ALL.map(Kind::name).join(", ")
}

impl FromStr for Kind {
    type Err = UnknownFault;

    fn from_str(name: &str) -> Result<Kind, UnknownFault> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| UnknownFault(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_found_by_its_name() {
        for kind in Kind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        let error = "nothing".parse::<Kind>().unwrap_err().to_string();
        assert!(error.starts_with("no fault is called \"nothing\"; faults are kill, stop,"), "{error}");
    }
}
