//! Event logs (RFC 18): JSON Lines, one event per line, only ever appended to.
//!
//! What the events mean (RFC 21, RFC 44) is for the reader. This module must never know event names.
//!
//! A log is taken whole or not at all, and must end with a newline: a last line without one is an event whose writing
//! was cut off. Keys other than `timestamp`, `name` and `context` are ignored. Timestamps need not ascend; the RFC's
//! own example does not. As the RFC says and flux-core does not check, a timestamp must be above zero.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::text::excerpt;

/// One event of a log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When it happened, seconds since the epoch; above zero in a valid log.
    pub timestamp: f64,
    /// What happened.
    pub name: String,
    /// Details, by the meaning of `name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Map<String, Value>>,
}

/// A text is not an event log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event log, line {line} '{input}': {kind}")]
pub struct EventlogError {
    /// Number of the line, from 1.
    pub line: usize,
    /// The line, shortened when long.
    pub input: String,
    /// What is wrong with it.
    pub kind: EventlogErrorKind,
}

/// What is wrong with a line of an event log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EventlogErrorKind {
    /// The line has no newline at its end.
    #[error("the line is cut off (no newline at its end)")]
    NoNewline,
    /// The line is empty.
    #[error("the line is empty; a log has one JSON object per line")]
    Empty,
    /// The line is not JSON.
    #[error("not JSON at column {column}: {message}")]
    Json {
        /// Column, from 1.
        column: usize,
        /// The JSON reader's words.
        message: String,
    },
    /// The line is JSON but no object.
    #[error("not a JSON object")]
    NotObject,
    /// The `timestamp` is missing or not a number above zero.
    #[error("'timestamp' must be a number above zero (seconds since the epoch)")]
    Timestamp,
    /// The `name` is missing or not a string.
    #[error("'name' must be a string")]
    Name,
    /// The `context` is not an object.
    #[error("'context' must be an object when present")]
    Context,
}

use EventlogErrorKind as Kind;

impl Event {
    /// An event without context.
    pub fn new(timestamp: f64, name: impl Into<String>) -> Self {
        Event { timestamp, name: name.into(), context: None }
    }

    /// The same event with a context; a value that is no object is no context and leaves the event as it is.
    #[must_use]
    pub fn with_context(mut self, context: Value) -> Self {
        if let Value::Object(map) = context {
            self.context = Some(map);
        }
        self
    }

    /// The value of `key` in the context.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.context.as_ref()?.get(key)
    }

    /// Reads an event from a JSON value, such as those in the responses of `job-info` and `resource.journal`.
    pub fn from_value(value: Value) -> Result<Self, EventlogErrorKind> {
        let Value::Object(mut object) = value else { return Err(Kind::NotObject) };
        let timestamp = object.get("timestamp").and_then(Value::as_f64).ok_or(Kind::Timestamp)?;
        if timestamp <= 0.0 {
            return Err(Kind::Timestamp);
        }
        let Some(Value::String(name)) = object.remove("name") else { return Err(Kind::Name) };
        let context = match object.remove("context") {
            None => None,
            Some(Value::Object(map)) => Some(map),
            Some(_) => return Err(Kind::Context),
        };
        Ok(Event { timestamp, name, context })
    }

    /// The event as JSON value, keys in the order of RFC 18.
    pub fn to_value(&self) -> Value {
        let mut object = Map::new();
        object.insert("timestamp".to_owned(), self.timestamp.into());
        object.insert("name".to_owned(), self.name.as_str().into());
        if let Some(context) = &self.context {
            object.insert("context".to_owned(), context.clone().into());
        }
        Value::Object(object)
    }

    /// The event as one line of a log, newline included.
    pub fn encode(&self) -> String {
        let mut line = self.to_value().to_string();
        line.push('\n');
        line
    }
}

/// Reads a whole log; the empty text is the empty log.
pub fn parse(text: &str) -> Result<Vec<Event>, EventlogError> {
    let read = |(index, line): (usize, &str)| {
        entry(line).map_err(|kind| EventlogError { line: index + 1, input: excerpt(line.trim_end()), kind })
    };
    text.split_inclusive('\n').enumerate().map(read).collect()
}

/// Prints a log: [`Event::encode`] of each event, one after the other.
pub fn encode<'a>(events: impl IntoIterator<Item = &'a Event>) -> String {
    events.into_iter().map(Event::encode).collect()
}

fn entry(line: &str) -> Result<Event, Kind> {
    let body = line.strip_suffix('\n').ok_or(Kind::NoNewline)?;
    if body.trim().is_empty() {
        return Err(Kind::Empty);
    }
    let value = serde_json::from_str(body).map_err(|e| Kind::Json {
        column: e.column(),
        message: without_position(&e.to_string()).to_owned(),
    })?;
    Event::from_value(value)
}

/// serde_json ends its messages with "at line 1 column n"; the line is not that of the log, so drop both.
fn without_position(message: &str) -> &str {
    message.rsplit_once(" at line ").map_or(message, |(head, _)| head)
}

#[cfg(test)]
mod tests {}
