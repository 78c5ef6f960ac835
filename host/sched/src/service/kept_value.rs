//! The value of a key of the KVS, as it is found when a scheduler begins.
//!
//! Must never know which key.

use std::time::Duration;

use fluxgate_wire::dialect;
use fluxgate_wire::message::Message;
use fluxgate_wire::proto::errno;
use serde::de::DeserializeOwned;

/// Real time until the next try, where a key could not be read or written.
pub(super) const RETRY: Duration = Duration::from_secs(10);

/// The answer to a lookup.
pub(super) enum Found<T> {
    /// The value.
    Value(T),
    /// There is no value, or no KVS.
    Nothing,
    /// The value has another form, for this reason.
    Strange(String),
    /// The KVS did not give the value, for this reason.
    Failed(String),
}

/// The value in an answer of `kvs.lookup`.
pub(super) fn found<T: DeserializeOwned>(answer: &Message) -> Found<T> {
    match answer.errnum() {
        0 => {
            let value = answer
                .json()
                .map_err(|error| error.to_string())
                .and_then(|payload| dialect::kvs_value(&payload).map_err(|error| error.to_string()))
                .and_then(|value| serde_json::from_value(value).map_err(|error| error.to_string()));
            value.map_or_else(Found::Strange, Found::Value)
        }
        errno::ENOENT | errno::ENOSYS => Found::Nothing,
        errnum => Found::Failed(errno::describe(errnum)),
    }
}
