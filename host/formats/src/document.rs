//! The common part of the readers of JSON and YAML documents (jobspec, constraints, R): the path to a place in a document,
//! and the errors.
//!
//! This module does not know the meaning of any key.

use std::fmt;

use serde_json::{Map, Value};

use crate::text::excerpt;

/// A document is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{document}: {kind}")]
pub struct DocumentError {
    /// The expected kind of document: `jobspec`, `R`, `constraint`.
    pub document: &'static str,
    /// The kind of error.
    pub kind: DocumentErrorKind,
}

/// The kinds of error in a document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DocumentErrorKind {
    /// The text is longer than its limit.
    #[error("{bytes} bytes of text, at most {limit} are accepted")]
    TooLong {
        /// Length of the text, in bytes.
        bytes: usize,
        /// The limit, in bytes.
        limit: usize,
    },
    /// The text is not JSON or YAML.
    #[error("not valid {format} at line {line} column {column}: {message}")]
    Syntax {
        /// `JSON` or `YAML`.
        format: &'static str,
        /// Line of the text, from 1; 0 when the parser did not report it.
        line: u64,
        /// Column of the line, from 1; 0 when the parser did not report it.
        column: u64,
        /// The message of the parser.
        message: String,
    },
    /// A value is not valid in its place.
    #[error("{path}: found {found}, expected {expected}")]
    Invalid {
        /// The path of the value, such as `resources[0].with[1].count`.
        path: String,
        /// The value found.
        found: String,
        /// The values accepted.
        expected: String,
    },
}

impl DocumentError {
    pub(crate) fn invalid(document: &'static str, fault: Fault) -> Self {
        let Fault { path, found, expected } = fault;
        DocumentError { document, kind: DocumentErrorKind::Invalid { path, found, expected } }
    }
}

/// Reads JSON text of at most `limit` bytes.
pub(crate) fn json(document: &'static str, text: &str, limit: usize) -> Result<Value, DocumentError> {
    check_length(document, text, limit)?;
    serde_json::from_str(text).map_err(|error| {
        let words = error.to_string();
        // The parser ends its message with the place, which has fields of its own here.
        let message =
            words.rsplit_once(" at line ").map_or(words.as_str(), |(message, _)| message).to_owned();
        let (line, column) = (error.line() as u64, error.column() as u64);
        DocumentError { document, kind: DocumentErrorKind::Syntax { format: "JSON", line, column, message } }
    })
}

/// Reads one YAML document of at most `limit` bytes. The parser's budget bounds the expansion of aliases, the nesting
/// and the number of nodes, so a small text cannot become a large value.
pub(crate) fn yaml(document: &'static str, text: &str, limit: usize) -> Result<Value, DocumentError> {
    check_length(document, text, limit)?;
    let options = serde_saphyr::options! {
        strict_booleans: true,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let place = error.location();
        let (line, column) = place.map_or((0, 0), |place| (place.line(), place.column()));
        let words = error.without_snippet().to_string();
        let message = without_place(words.lines().next().unwrap_or_default());
        DocumentError { document, kind: DocumentErrorKind::Syntax { format: "YAML", line, column, message } }
    })
}

/// A parser's message without the place at its end, which has fields of its own here.
fn without_place(words: &str) -> String {
    words.rsplit_once(" at line ").map_or(words, |(message, _)| message).to_owned()
}

fn check_length(document: &'static str, text: &str, limit: usize) -> Result<(), DocumentError> {
    let bytes = text.len();
    if bytes <= limit {
        return Ok(());
    }
    Err(DocumentError { document, kind: DocumentErrorKind::TooLong { bytes, limit } })
}

/// A place in a document; it is kept on the stack of the reader and becomes text only for an error.
#[derive(Clone, Copy)]
pub(crate) enum Path<'a> {
    Root,
    Key(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl<'a> Path<'a> {
    pub(crate) fn key(&'a self, key: &'a str) -> Path<'a> {
        Path::Key(self, key)
    }

    pub(crate) fn index(&'a self, index: usize) -> Path<'a> {
        Path::Index(self, index)
    }

    /// The fault that `value` is here instead of `expected`.
    pub(crate) fn wrong(&self, value: &Value, expected: impl Into<String>) -> Fault {
        self.fault(found(value), expected)
    }

    /// The fault that `found` (in words) is here instead of `expected`.
    pub(crate) fn fault(&self, found: impl Into<String>, expected: impl Into<String>) -> Fault {
        Fault { path: self.to_string(), found: found.into(), expected: expected.into() }
    }

    /// The dictionary that `value` must be.
    pub(crate) fn dictionary<'v>(&self, value: &'v Value) -> Result<&'v Map<String, Value>, Fault> {
        value.as_object().ok_or_else(|| self.wrong(value, "a dictionary"))
    }

    /// The list that `value` must be.
    pub(crate) fn list<'v>(&self, value: &'v Value) -> Result<&'v [Value], Fault> {
        value.as_array().map(Vec::as_slice).ok_or_else(|| self.wrong(value, "a list"))
    }

    /// The string that `value` must be.
    pub(crate) fn string<'v>(&self, value: &'v Value) -> Result<&'v str, Fault> {
        value.as_str().ok_or_else(|| self.wrong(value, "a string"))
    }

    /// The value of `key`, which must be there.
    pub(crate) fn required<'v>(&self, map: &'v Map<String, Value>, key: &str) -> Result<&'v Value, Fault> {
        map.get(key).ok_or_else(|| self.fault("nothing", format!("the key '{key}'")))
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => f.write_str("(top level)"),
            Path::Key(Path::Root, key) => write!(f, "{}", excerpt(key)),
            Path::Key(outer, key) => write!(f, "{outer}.{}", excerpt(key)),
            Path::Index(Path::Root, index) => write!(f, "[{index}]"),
            Path::Index(outer, index) => write!(f, "{outer}[{index}]"),
        }
    }
}

/// A fault of one value, before the kind of its document is known.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) path: String,
    pub(crate) found: String,
    pub(crate) expected: String,
}

/// A description of `value` for people.
pub(crate) fn found(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => format!("\"{}\"", excerpt(text)),
        Value::Array(list) if list.is_empty() => "an empty list".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(map) if map.is_empty() => "an empty dictionary".to_owned(),
        Value::Object(_) => "a dictionary".to_owned(),
    }
}
