//! Profiles of worlds, and which parts the world of a seed has. Must never know what is drawn for a part.

use crate::dice::Dice;

/// The kind of worlds that are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Profile {
    /// The built-in policy alone: many seeds a second.
    Builtin,
    /// Components: swaps, shadows, broken policies.
    Policies,
    /// As [`Profile::Builtin`], and operators make reservations.
    Reservations,
    /// As [`Profile::Policies`], and operators make reservations.
    PoliciesReservations,
    /// As [`Profile::Builtin`], on a machine with storage beside nodes and licences.
    Storage,
    /// As [`Profile::Builtin`], on a machine with pools of power and bandwidth.
    Flow,
    /// As [`Profile::Builtin`], with all that the others have: storage, flow and reservations, and also groups, banks, and
    /// reservations of pools.
    Site,
    /// As [`Profile::Policies`], with all of that.
    PoliciesSite,
    /// As [`Profile::Builtin`]: nodes have properties, jobs conditions on nodes, and each of storage, flow and reservations is in a
    /// part of the worlds. With storage, services set and remove properties.
    Constraints,
    /// As [`Profile::Policies`], with all of that.
    PoliciesConstraints,
    /// The embedded instance in the place of the model of a broker.
    Instance,
    /// As [`Profile::Instance`], with components, and with clocks that jump.
    PoliciesInstance,
}

/// The parts of a world beside nodes, jobs and faults.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Parts {
    /// Operators make reservations.
    pub reservations: bool,
    /// Storage beside nodes, and licences.
    pub storage: bool,
    /// Pools of power and bandwidth.
    pub flow: bool,
    /// Groups, banks, and reservations of pools.
    pub groups: bool,
    /// Properties of nodes, and conditions on them.
    pub constraints: bool,
}

impl Profile {
    /// All of them.
    pub const ALL: [Profile; 12] = [
        Profile::Builtin,
        Profile::Policies,
        Profile::Reservations,
        Profile::PoliciesReservations,
        Profile::Storage,
        Profile::Flow,
        Profile::Site,
        Profile::PoliciesSite,
        Profile::Constraints,
        Profile::PoliciesConstraints,
        Profile::Instance,
        Profile::PoliciesInstance,
    ];

    /// Are there components?
    pub fn has_components(self) -> bool {
        use Profile::{Policies, PoliciesConstraints, PoliciesInstance, PoliciesReservations, PoliciesSite};
        matches!(
            self,
            Policies | PoliciesReservations | PoliciesSite | PoliciesConstraints | PoliciesInstance
        )
    }

    /// Does the embedded instance stand in the place of the model of a broker?
    pub fn has_instance(self) -> bool {
        matches!(self, Profile::Instance | Profile::PoliciesInstance)
    }

    /// The parts of the world of a seed.
    pub fn parts(self, seed: u64) -> Parts {
        let none = Parts::default();
        match self {
            Profile::Builtin | Profile::Policies | Profile::Instance | Profile::PoliciesInstance => none,
            Profile::Reservations | Profile::PoliciesReservations => Parts { reservations: true, ..none },
            Profile::Storage => Parts { storage: true, ..none },
            Profile::Flow => Parts { flow: true, ..none },
            Profile::Site | Profile::PoliciesSite => {
                Parts { reservations: true, storage: true, flow: true, groups: true, ..none }
            }
            Profile::Constraints | Profile::PoliciesConstraints => {
                let mut dice = Dice::new(seed, "parts");
                Parts {
                    constraints: true,
                    reservations: dice.often(350),
                    storage: dice.often(500),
                    flow: dice.often(250),
                    ..none
                }
            }
        }
    }

    /// The same world with reservations.
    pub fn with_reservations(self) -> Profile {
        if self.has_components() { Profile::PoliciesReservations } else { Profile::Reservations }
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Profile::Builtin => "builtin",
            Profile::Policies => "policies",
            Profile::Reservations => "reservations",
            Profile::PoliciesReservations => "policies-reservations",
            Profile::Storage => "storage",
            Profile::Flow => "flow",
            Profile::Site => "site",
            Profile::PoliciesSite => "policies-site",
            Profile::Constraints => "constraints",
            Profile::PoliciesConstraints => "policies-constraints",
            Profile::Instance => "instance",
            Profile::PoliciesInstance => "policies-instance",
        }
    }
}
