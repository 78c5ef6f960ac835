//! Event logs (RFC 18): JSON Lines, one event per line, only ever appended to.
//!
//! The meaning of events (RFC 21, RFC 44) belongs to the caller: this module does not know any event name.
//!
//! A log is accepted or refused as a whole, and must end with a newline: a last line without one is a partially written
//! event. Keys other than `timestamp`, `name` and `context` are ignored. Timestamps need not ascend; in the RFC's own
//! example they do not. A timestamp must be above zero, as the RFC says; flux-core does not check that.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::text::excerpt;

/// One event of a log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Value")]
pub struct Event {
    /// Time of the event, in seconds since the epoch; finite and above zero in a valid log.
    pub timestamp: f64,
    /// Name of the event.
    pub name: String,
    /// Details; the keys depend on `name`. `None` if the event has no `context`.
    #[serde(skip_serializing_if = "Option::is_none")]
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
    /// The kind of error.
    pub kind: EventlogErrorKind,
}

/// The kinds of error in a line of an event log.
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
        /// The message of the JSON parser.
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
    /// An event without context. The timestamp, in seconds since the epoch, is not checked.
    pub fn new(timestamp: f64, name: impl Into<String>) -> Self {
        Event { timestamp, name: name.into(), context: None }
    }

    /// The same event with a context. A value that is no object is ignored.
    #[must_use]
    pub fn with_context(mut self, context: Value) -> Self {
        if let Value::Object(map) = context {
            self.context = Some(map);
        }
        self
    }

    /// The value of `key` in the context; `None` without such a key or without a context.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.context.as_ref()?.get(key)
    }

    /// Reads an event from a JSON value, such as those in the responses of `job-info` and `resource.journal`.
    ///
    /// # Errors
    /// The value is no object, or `timestamp`, `name` or `context` is not as RFC 18 demands.
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

impl TryFrom<Value> for Event {
    type Error = EventlogErrorKind;

    fn try_from(value: Value) -> Result<Self, EventlogErrorKind> {
        Event::from_value(value)
    }
}

/// Reads a whole log; the empty text is the empty log.
///
/// # Errors
/// The first line that is no event, or is cut off. No event of the log is returned then.
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
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const PLAIN: &str = "{\"timestamp\":42.0,\"name\":\"foo\"}\n";
    const WITH_CONTEXT: &str = "{\"timestamp\":42.0,\"name\":\"foo\",\"context\":{\"bar\":16}}\n";

    #[test]
    fn valid_logs_print_back() {
        for (events, log) in [
            (0, String::new()),
            (1, PLAIN.to_owned()),
            (1, WITH_CONTEXT.to_owned()),
            (2, format!("{PLAIN}{PLAIN}")),
            (2, format!("{PLAIN}{WITH_CONTEXT}")),
            (2, format!("{WITH_CONTEXT}{PLAIN}")),
        ] {
            let read = parse(&log).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(read.len(), events, "{log}");
            assert_eq!(encode(&read), log);
        }
    }

    #[test]
    fn the_example_of_rfc_18_without_its_misprint() {
        let log = concat!(
            r#"{"timestamp":1552593348.073045,"name":"submit","context":{"urgency":16,"userid":5588,"flags":0}}"#,
            "\n",
            r#"{"timestamp":1552593547.411336,"name":"urgency","context":{"urgency":0,"userid":5588}}"#,
            "\n",
            r#"{"timestamp":1552593348.088391,"name":"alloc","context":{"note":"rank0/core[0-1]"}}"#,
            "\n",
            r#"{"timestamp":1552593348.093541,"name":"free"}"#,
            "\n",
        );
        let events = parse(log).unwrap();
        assert_eq!(events[0].get("urgency"), Some(&json!(16)));
        assert_eq!((events[3].timestamp, events[3].name.as_str()), (1552593348.093541, "free"));
        assert_eq!(encode(&events), log);
        let misprint = log.replace(r#""context":{"note""#, r#"context:{"note""#);
        let error = parse(&misprint).expect_err("not JSON");
        assert_eq!(error.line, 3);
        assert!(matches!(error.kind, EventlogErrorKind::Json { column: 47, .. }), "{error:?}");
    }

    #[test]
    fn invalid_logs_and_their_lines() {
        use EventlogErrorKind::*;
        type Row<'a> = (&'a str, String, usize, fn(&Kind) -> bool);
        let rows: [Row<'_>; 18] = [
            ("empty line", "\n".into(), 1, |k| *k == Empty),
            ("empty lines", "\n\n".into(), 1, |k| *k == Empty),
            ("no newline", "foo".into(), 1, |k| *k == NoNewline),
            ("not JSON", "foo\n".into(), 1, |k| matches!(k, Json { column: 2, .. })),
            ("no newline at the end", PLAIN.trim().into(), 1, |k| *k == NoNewline),
            ("cut off", format!("{PLAIN}{}", &WITH_CONTEXT[..30]), 2, |k| *k == NoNewline),
            ("two newlines", format!("{PLAIN}\n"), 2, |k| *k == Empty),
            ("leading newline", format!("\n{PLAIN}"), 1, |k| *k == Empty),
            ("empty between", format!("{PLAIN}\n{PLAIN}"), 2, |k| *k == Empty),
            ("two on a line", format!("{}{PLAIN}", PLAIN.trim()), 1, |k| {
                matches!(k, Json { column: 32, .. })
            }),
            ("no object", "[1]\n".into(), 1, |k| *k == NotObject),
            ("timestamp text", r#"{"timestamp":"foo","name":"foo"}"#.to_owned() + "\n", 1, |k| {
                *k == Timestamp
            }),
            ("timestamp zero", r#"{"timestamp":0,"name":"foo"}"#.to_owned() + "\n", 1, |k| *k == Timestamp),
            ("no timestamp", r#"{"name":"foo"}"#.to_owned() + "\n", 1, |k| *k == Timestamp),
            ("name number", r#"{"timestamp":42.0,"name":18}"#.to_owned() + "\n", 1, |k| *k == Name),
            ("no name", r#"{"timestamp":42.0}"#.to_owned() + "\n", 1, |k| *k == Name),
            ("context text", r#"{"timestamp":1,"name":"foo","context":"bar"}"#.to_owned() + "\n", 1, |k| {
                *k == Context
            }),
            ("too deep", "[".repeat(100_000) + "\n", 1, |k| matches!(k, Json { .. })),
        ];
        for (name, log, line, expected) in rows {
            let error = parse(&log).expect_err(name);
            assert_eq!(error.line, line, "{name}");
            assert!(expected(&error.kind), "{name}: {error:?}");
            assert!(error.to_string().len() < 300, "{name}");
        }
    }

    #[test]
    fn events_are_json_values() {
        let event = Event::new(1.5, "alloc").with_context(json!({"annotations": {}}));
        let value = json!({"timestamp": 1.5, "name": "alloc", "context": {"annotations": {}}});
        assert_eq!(event.to_value(), value);
        assert_eq!(serde_json::to_value(&event).unwrap(), value);
        assert_eq!(serde_json::from_value::<Event>(value).unwrap(), event);
        assert_eq!(Event::new(1.0, "a").with_context(json!(7)), Event::new(1.0, "a"));
        assert!(serde_json::from_str::<Event>(r#"{"timestamp":-1,"name":"a"}"#).is_err());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(?s).{0,60}") {
            let _ = parse(&text);
        }

        #[test]
        fn what_is_printed_reads_back(
            events in proptest::collection::vec((0.001..4e9f64, any::<String>(), proptest::option::of(any::<(String, f64)>())), 0..5)
        ) {
            let events: Vec<Event> = events
                .into_iter()
                .map(|(timestamp, name, context)| match context {
                    Some((key, value)) => Event::new(timestamp, name).with_context(json!({ key: value })),
                    None => Event::new(timestamp, name),
                })
                .collect();
            let log = encode(&events);
            prop_assert_eq!(log.lines().count(), events.len());
            let back = parse(&log).unwrap();
            prop_assert_eq!(back, events);
        }
    }
}
