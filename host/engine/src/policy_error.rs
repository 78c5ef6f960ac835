//! The ways in which a policy fails, each with the export that was running.
//!
//! Must never know what follows a failure.

/// The failure of a policy. Operators see [`PolicyError::kind`].
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PolicyError {
    /// The code trapped (unreachable, out-of-bounds, stack overflow ...).
    #[error("trap in {during}: {message}")]
    Trap {
        /// The export that was running.
        during: &'static str,
        /// The executor's message, one line.
        message: String,
    },
    /// A call used up its fuel: an endless loop, or too much work.
    #[error("out of fuel in {during}: more than {limit} units")]
    Fuel {
        /// The export that was running.
        during: &'static str,
        /// The limit, fuel units.
        limit: u64,
    },
    /// A call exceeded the wall-clock backstop.
    #[error("deadline passed in {during}: more than {limit_ms} ms")]
    Deadline {
        /// The export that was running.
        during: &'static str,
        /// The limit in milliseconds.
        limit_ms: u64,
    },
    /// The code requested memory beyond its limit.
    #[error("memory limit in {during}: more than {limit} bytes")]
    Memory {
        /// The export that was running.
        during: &'static str,
        /// The limit in bytes.
        limit: u64,
    },
    /// A decision or question names an unknown candidate, or a decision repeats another one (see [`Pass`](crate::Pass)).
    #[error("bad decision in {during}: {message}")]
    BadDecision {
        /// The export that was running.
        during: &'static str,
        /// The breach, in words.
        message: String,
    },
    /// A returned value is not acceptable (NaN key, wrong length ...).
    #[error("bad value from {during}: {message}")]
    BadValue {
        /// The export that was running.
        during: &'static str,
        /// The breach, in words.
        message: String,
    },
    /// A value exceeded a named bound.
    #[error("bound {bound} exceeded in {during}: {found} > {limit}")]
    Bound {
        /// The export that was running.
        during: &'static str,
        /// Name of the bound.
        bound: &'static str,
        /// The largest value that it accepts.
        limit: u64,
        /// The value found.
        found: u64,
    },
    /// The policy refused, with a message.
    #[error("refused in {during}: {message}")]
    Refused {
        /// The export that was running.
        during: &'static str,
        /// The policy's message.
        message: String,
    },
}

impl PolicyError {
    /// A short stable word for statistics: `trap`, `fuel`, `deadline`, `memory`, `bad-decision`,
    /// `bad-value`, `bound` or `refused`.
    pub fn kind(&self) -> &'static str {
        match self {
            PolicyError::Trap { .. } => "trap",
            PolicyError::Fuel { .. } => "fuel",
            PolicyError::Deadline { .. } => "deadline",
            PolicyError::Memory { .. } => "memory",
            PolicyError::BadDecision { .. } => "bad-decision",
            PolicyError::BadValue { .. } => "bad-value",
            PolicyError::Bound { .. } => "bound",
            PolicyError::Refused { .. } => "refused",
        }
    }

    /// The limit that was exceeded, for statistics: the name of the bound if it was one, otherwise [`PolicyError::kind`].
    pub fn limit(&self) -> &'static str {
        match self {
            PolicyError::Bound { bound, .. } => bound,
            other => other.kind(),
        }
    }
}
