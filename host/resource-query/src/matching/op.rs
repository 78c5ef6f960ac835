//! Match operations, and the reasons for which a request is not matched.
//!
//! This module must never know how a request is matched.

/// What is to be done with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// Book it now or not at all.
    Allocate,
    /// Book it now, else at the first time it fits.
    AllocateOrElseReserve,
    /// Book it now, else say whether it could ever be met.
    AllocateWithSatisfiability,
    /// Say whether it could ever be met.
    Satisfiability,
    /// Find it now, and book nothing.
    WithoutAllocating,
    /// Find it now, else at the first time it fits, and book nothing.
    WithoutAllocatingFuture,
}

impl Op {
    /// All of them with their names.
    pub const ALL: [(&'static str, Op); 6] = [
        ("allocate", Op::Allocate),
        ("allocate_orelse_reserve", Op::AllocateOrElseReserve),
        ("allocate_with_satisfiability", Op::AllocateWithSatisfiability),
        ("satisfiability", Op::Satisfiability),
        ("without_allocating", Op::WithoutAllocating),
        ("without_allocating_future", Op::WithoutAllocatingFuture),
    ];

    /// The one of this name.
    pub fn parse(text: &str) -> Option<Op> {
        Op::ALL.iter().find(|(name, _)| *name == text).map(|(_, op)| *op)
    }

    /// True when what is found is booked.
    pub fn books(self) -> bool {
        !matches!(self, Op::Satisfiability | Op::WithoutAllocating | Op::WithoutAllocatingFuture)
    }

    /// True when times to come are tried as well.
    pub(super) fn looks_ahead(self) -> bool {
        matches!(self, Op::AllocateOrElseReserve | Op::WithoutAllocatingFuture)
    }
}

/// Why nothing was matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Miss {
    /// Not now; nothing says that it never will.
    #[error("no matching resources are free")]
    Busy,
    /// Never on this machine.
    #[error("the request cannot be satisfied")]
    Unsatisfiable,
    /// The request or its times make no sense; messages say more.
    #[error("the request is invalid")]
    Invalid,
}
