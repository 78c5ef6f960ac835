//! Match operations, and the reasons for which a request is not matched.
//!
//! This module must never know how a request is matched.

/// A match operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// Book it now, or not at all.
    Allocate,
    /// Book it now, else at the first time at which it fits.
    AllocateOrElseReserve,
    /// Book it now, else report whether it could ever be satisfied.
    AllocateWithSatisfiability,
    /// Report whether it could ever be satisfied.
    Satisfiability,
    /// Find it now, and book nothing.
    WithoutAllocating,
    /// Find it now, else at the first time at which it fits, and book nothing.
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

    /// The operation with this name; `None` for any other text.
    pub fn parse(text: &str) -> Option<Op> {
        Op::ALL.iter().find(|(name, _)| *name == text).map(|(_, op)| *op)
    }

    /// True if the result is booked.
    pub fn books(self) -> bool {
        !matches!(self, Op::Satisfiability | Op::WithoutAllocating | Op::WithoutAllocatingFuture)
    }

    /// True if later times are tried too.
    pub(super) fn looks_ahead(self) -> bool {
        matches!(self, Op::AllocateOrElseReserve | Op::WithoutAllocatingFuture)
    }
}

/// The reason for which a request was not matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Miss {
    /// It does not fit at the times that the operation looks at; it may fit later.
    #[error("no matching resources are free")]
    Busy,
    /// It can never be satisfied. [`Op::AllocateWithSatisfiability`] also says so if it names more nodes than are up.
    #[error("the request cannot be satisfied")]
    Unsatisfiable,
    /// The request or its times are invalid; [`Matcher::take_messages`](crate::Matcher::take_messages) may have details.
    #[error("the request is invalid")]
    Invalid,
}
