//! A policy that can be in charge, as it was when it was chosen.
//!
//! Must never know whether it decides.

use std::sync::Arc;

use anyhow::Result;
use fluxgate_engine::{Abilities, Anew, BUILTIN, Policy};
use fluxgate_journal::PolicyRow;
use fluxgate_policy::Entry;

/// The name of the policy of a queue that has none of its own.
pub(crate) const DEFAULT: &str = "default";

/// See the module text.
#[derive(Debug, Clone)]
pub(crate) enum PolicyChoice {
    /// The engine's own.
    Builtin,
    /// A component.
    Loaded(Arc<Entry>),
    /// Of a queue: no policy of its own.
    Default,
}

impl PolicyChoice {
    pub(crate) fn name(&self) -> &str {
        match self {
            PolicyChoice::Builtin => BUILTIN,
            PolicyChoice::Loaded(entry) => entry.name(),
            PolicyChoice::Default => DEFAULT,
        }
    }

    /// The identity of the policy in a journal.
    pub(crate) fn identity(&self) -> PolicyRow {
        let name = self.name().to_owned();
        match self {
            PolicyChoice::Builtin | PolicyChoice::Default => PolicyRow { name, ..PolicyRow::default() },
            PolicyChoice::Loaded(entry) => PolicyRow {
                number: 0,
                name,
                digest: entry.digest().to_string(),
                config: entry.config().clone(),
                // All of it can be written as JSON.
                limits: serde_json::to_string(entry.limits()).unwrap_or_default(),
            },
        }
    }

    /// A fresh instance, ready to be swapped in.
    pub(crate) fn instantiate(&self) -> Result<Box<dyn Policy>> {
        Ok(match self {
            PolicyChoice::Builtin | PolicyChoice::Default => Box::new(Builtin),
            PolicyChoice::Loaded(entry) => Box::new(entry.instantiate()?),
        })
    }
}

/// The cause of a swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The first policy of a scheduler that starts.
    Start,
    /// A request of a person, or the configuration.
    Person,
    /// The policy before it failed.
    Failure,
    /// The quarantine of the policy is over.
    Return,
}

/// The built-in policy as one that can be swapped in. It has no abilities, so the engine decides in strict order.
pub struct Builtin;

impl Policy for Builtin {
    fn name(&self) -> &str {
        BUILTIN
    }

    fn abilities(&self) -> Abilities {
        Abilities::default()
    }

    fn reads_nodes(&self) -> bool {
        false
    }

    fn anew(&self) -> Option<Anew> {
        Some(Arc::new(|| Ok(Box::new(Builtin))))
    }
}
