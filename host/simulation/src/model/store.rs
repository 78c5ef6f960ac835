//! The key-value store: a committed value stays, whatever ends. Must never know what a value means.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// See the module text.
#[derive(Debug, Default)]
pub struct Store {
    values: BTreeMap<String, String>,
    /// Commits done.
    pub commits: u64,
}

/// The key of a file of a job (RFC 16).
pub fn job_key(id: u64, name: &str) -> String {
    let parts: Vec<String> = (0..4).rev().map(|n| format!("{:04x}", id >> (16 * n) & 0xffff)).collect();
    format!("job.{}.{name}", parts.join("."))
}

/// The keys and texts of a commit request.
///
/// # Errors
/// It has no operations, or one that lacks a key, or a text that can be read and does not end with NUL.
pub fn operations(payload: &Value) -> Result<Vec<(String, String)>, String> {
    let ops = payload["ops"].as_array().ok_or("a commit without ops")?;
    ops.iter()
        .map(|op| {
            let key = op["key"].as_str().ok_or("an op without key")?;
            let data = op.pointer("/dirent/data").and_then(Value::as_str).ok_or("an op without data")?;
            let bytes = STANDARD.decode(data).map_err(|error| format!("{key}: {error}"))?;
            let text = String::from_utf8(bytes).map_err(|error| format!("{key}: {error}"))?;
            if text.ends_with('\0') {
                return Err(format!("{key}: ends with NUL"));
            }
            Ok((key.to_owned(), text))
        })
        .collect()
}

impl Store {
    /// Commits these operations.
    pub fn commit(&mut self, operations: Vec<(String, String)>) {
        self.commits += 1;
        self.values.extend(operations);
    }

    /// The text of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(String::as_str)
    }

    /// The answer to a lookup of a key.
    pub fn answer(&self, key: &str) -> Option<Value> {
        let data = STANDARD.encode(self.get(key)?);
        Some(json!({"val": {"ver": 1, "type": "val", "data": data}}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_the_rfc_and_values_stay() {
        assert_eq!(job_key(0x0017_e9fb_8df1_6c2e, "R"), "job.0017.e9fb.8df1.6c2e.R");
        let payload = json!({"ops": [{"key": "a", "dirent": {"data": STANDARD.encode("{}")}}]});
        let mut store = Store::default();
        store.commit(operations(&payload).unwrap());
        assert_eq!(store.get("a"), Some("{}"));
        assert!(operations(&json!({})).is_err());
    }
}
