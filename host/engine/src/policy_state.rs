//! The state that a policy saves and a later one may restore.
//!
//! Must never know the meaning of the bytes.

use serde::{Deserialize, Serialize};

/// A state handed from one policy to its successor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedState {
    /// Name of the policy that saved it.
    pub from: String,
    /// That policy's own version of the format.
    pub version: u32,
    /// The bytes, opaque to the engine. The executor of the policy bounds their number.
    pub data: Vec<u8>,
}
