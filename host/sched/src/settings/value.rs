//! A value on its way into the settings: JSON from a table, or text from an argument. Both pass one check.
//!
//! Must never know which key means what.

use std::path::PathBuf;

use anyhow::Result;
use fluxgate_formats::fsd;
use serde_json::Value;

use super::{Key, Refusal};

/// Most characters of a refused value that are repeated.
const SHOWN_MAX: usize = 80;
/// Longest path, in bytes.
const PATH_BYTES_MAX: usize = 4096;

/// Where a value comes from.
#[derive(Debug, Clone, Copy)]
pub(super) enum Given<'a> {
    /// A table.
    Json(&'a Value),
    /// An argument.
    Text(&'a str),
}

impl<'a> Given<'a> {
    /// "expected ..., found ..." for this key.
    pub(super) fn refused(self, key: &Key) -> anyhow::Error {
        let found = match self {
            Given::Json(value @ (Value::Array(_) | Value::Object(_))) => kind(value).to_owned(),
            Given::Json(value) => shortened(&value.to_string()),
            Given::Text(text) => format!("{:?}", shortened(text)),
        };
        Refusal::Value { expected: key.accepts.to_owned(), found }.into()
    }

    /// One line of text of at most `most` bytes, not empty.
    pub(super) fn text(self, key: &Key, most: usize) -> Result<&'a str> {
        let text = match self {
            Given::Json(Value::String(text)) => text.as_str(),
            Given::Text(text) => text,
            Given::Json(_) => return Err(self.refused(key)),
        };
        if text.is_empty() || text.len() > most || text.chars().any(char::is_control) {
            return Err(self.refused(key));
        }
        Ok(text)
    }

    /// A path, which in a table must be absolute: a broker's working directory is not defined.
    pub(super) fn absolute(self, key: &Key) -> Result<PathBuf> {
        let path = PathBuf::from(self.text(key, PATH_BYTES_MAX)?);
        match self {
            Given::Json(_) if !path.is_absolute() => {
                let found = format!("{:?}", path.display().to_string());
                Err(Refusal::Value { expected: "an absolute path".to_owned(), found }.into())
            }
            _ => Ok(path),
        }
    }

    /// A whole number in this range.
    pub(super) fn whole(self, key: &Key, least: u64, most: u64) -> Result<u64> {
        let number = match self {
            Given::Json(value) => value.as_u64(),
            // No sign and no blanks: "+8" and " 8" are typing errors elsewhere too.
            Given::Text(text) if text.bytes().all(|b| b.is_ascii_digit()) => text.parse().ok(),
            Given::Text(_) => None,
        };
        number.filter(|n| (least..=most).contains(n)).ok_or_else(|| self.refused(key))
    }

    /// Bytes: a whole number, or one with K, M or G (powers of 1024), in this range.
    pub(super) fn bytes(self, key: &Key, least: u64, most: u64) -> Result<u64> {
        let text = match self {
            Given::Json(Value::String(text)) => text,
            Given::Json(_) => return self.whole(key, least, most),
            Given::Text(text) => text,
        };
        let (digits, shift) = match text.bytes().last() {
            Some(b'K') => (&text[..text.len() - 1], 10),
            Some(b'M') => (&text[..text.len() - 1], 20),
            Some(b'G') => (&text[..text.len() - 1], 30),
            _ => (text, 0),
        };
        let plain = digits.bytes().all(|b| b.is_ascii_digit());
        let number: Option<u64> = if plain { digits.parse().ok() } else { None };
        let number = number.and_then(|n| n.checked_mul(1 << shift));
        number.filter(|n| (least..=most).contains(n)).ok_or_else(|| self.refused(key))
    }

    /// True or false.
    pub(super) fn flag(self, key: &Key) -> Result<bool> {
        let flag = match self {
            Given::Json(value) => value.as_bool(),
            Given::Text(text) => text.parse().ok(),
        };
        flag.ok_or_else(|| self.refused(key))
    }

    /// Seconds, as a number or an RFC 23 duration, from 0 to `most`.
    pub(super) fn seconds(self, key: &Key, most: f64) -> Result<f64> {
        let seconds = match self {
            Given::Json(Value::String(text)) => fsd::parse(text).ok(),
            Given::Json(value) => value.as_f64(),
            Given::Text(text) => fsd::parse(text).ok(),
        };
        seconds.filter(|s| (0.0..=most).contains(s)).ok_or_else(|| self.refused(key))
    }
}

/// The kind of a JSON value, in words.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "a table",
    }
}

/// At most the first [`SHOWN_MAX`] characters.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
