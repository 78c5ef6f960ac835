//! A policy's description of itself, and configuration checked against it.
//!
//! The policy never gets a key that it did not describe nor a value of another kind, so no policy needs code for
//! that, in any language. A value has one canonical spelling, whatever the operator wrote.

use std::collections::BTreeMap;
use std::fmt;

use fluxgate_formats::fsd;
use serde::{Deserialize, Serialize};

use crate::bindings::v0_1_0::fluxgate::policy::types as wit;
use crate::error::LoadError;
use crate::limits::{CONFIG_KEYS_MAX, CONFIG_VALUE_BYTES_MAX, LINE_BYTES_MAX, NAME_BYTES_MAX, one_line};

/// The configuration that an operator sets, by key.
pub type Config = BTreeMap<String, String>;

/// The kind of a configuration value; mirrors `fluxgate:policy/types.config-kind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConfigKind {
    /// `true` or `false`.
    Boolean,
    /// A whole number from -2^63 to 2^63 - 1.
    Integer,
    /// A finite decimal number.
    Float,
    /// An RFC 23 duration, `infinity` included. The canonical spelling is in seconds, or `inf`.
    Duration,
    /// One line of at most [`CONFIG_VALUE_BYTES_MAX`] bytes, possibly empty.
    Text,
}

impl ConfigKind {
    /// The accepted values, for people.
    fn accepted(self) -> &'static str {
        match self {
            ConfigKind::Boolean => "true or false",
            ConfigKind::Integer => "a whole number",
            ConfigKind::Float => "a finite decimal number",
            ConfigKind::Duration => "a duration like 90s, 10m, 1.5h, 2d or infinity",
            ConfigKind::Text => "one line of text of at most 4096 bytes",
        }
    }

    /// `text` in its canonical spelling; `None` if it is not of this kind.
    fn canonical(self, text: &str) -> Option<String> {
        if text.len() > CONFIG_VALUE_BYTES_MAX {
            return None;
        }
        match self {
            ConfigKind::Boolean => text.trim().parse::<bool>().ok().map(|v| v.to_string()),
            ConfigKind::Integer => text.trim().parse::<i64>().ok().map(|v| v.to_string()),
            ConfigKind::Float => {
                text.trim().parse::<f64>().ok().filter(|v| v.is_finite()).map(|v| v.to_string())
            }
            ConfigKind::Duration => fsd::parse(text.trim()).ok().map(|v| v.to_string()),
            ConfigKind::Text => (!text.chars().any(char::is_control)).then(|| text.to_owned()),
        }
    }
}

impl fmt::Display for ConfigKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ConfigKind::Boolean => "boolean",
            ConfigKind::Integer => "integer",
            ConfigKind::Float => "float",
            ConfigKind::Duration => "duration",
            ConfigKind::Text => "text",
        })
    }
}

/// One key that a policy understands; mirrors `fluxgate:policy/types.config-key`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfigKey {
    /// Lower-case letters, digits and `-`, 1 to [`NAME_BYTES_MAX`] bytes; unique in its description.
    pub name: String,
    /// The kind of its values.
    pub kind: ConfigKind,
    /// The value where the operator sets none, in canonical spelling.
    pub default: String,
    /// Meaning, unit and range for users: one line of at most [`LINE_BYTES_MAX`] bytes, possibly empty.
    pub help: String,
}

/// The description of a policy by itself, checked; mirrors `fluxgate:policy/types.description`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Description {
    /// Lower-case letters, digits and `-`, 1 to [`NAME_BYTES_MAX`] bytes.
    pub name: String,
    /// The policy's own version: one line of at most [`LINE_BYTES_MAX`] bytes, possibly empty.
    pub version: String,
    /// Purpose of the policy for users: one line of at most [`LINE_BYTES_MAX`] bytes, possibly empty.
    pub summary: String,
    /// Every key that the policy understands, at most [`CONFIG_KEYS_MAX`].
    pub config: Vec<ConfigKey>,
}

/// Why a configuration is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A key that the policy did not describe.
    #[error("policy {policy} has no configuration key {key:?}; it has {known}")]
    UnknownKey {
        /// The policy.
        policy: String,
        /// The key found.
        key: String,
        /// The keys accepted, for people.
        known: String,
    },
    /// A value of another kind.
    #[error("configuration key {key} of policy {policy} is {found:?}; accepted is {accepted}")]
    BadValue {
        /// The policy.
        policy: String,
        /// The key.
        key: String,
        /// The value found.
        found: String,
        /// The values accepted.
        accepted: &'static str,
    },
}

impl Description {
    /// Checks the answer of `describe`.
    ///
    /// # Errors
    /// [`LoadError::Description`] for names, lines, numbers of keys or defaults that the contract does not allow.
    pub(crate) fn accept(found: wit::Description) -> Result<Description, LoadError> {
        name("name", &found.name)?;
        line("version", &found.version)?;
        line("summary", &found.summary)?;
        if found.config.len() > CONFIG_KEYS_MAX {
            return Err(bad(
                "config",
                format!("has {} keys; at most {CONFIG_KEYS_MAX} are accepted", found.config.len()),
            ));
        }
        let mut config: Vec<ConfigKey> = Vec::with_capacity(found.config.len());
        for (i, key) in found.config.into_iter().enumerate() {
            name(&format!("config[{i}].name"), &key.name)?;
            line(&format!("config[{i}].help"), &key.help)?;
            if config.iter().any(|other| other.name == key.name) {
                return Err(bad(&format!("config[{i}].name"), format!("is {:?} a second time", key.name)));
            }
            let kind = match key.kind {
                wit::ConfigKind::Boolean => ConfigKind::Boolean,
                wit::ConfigKind::Integer => ConfigKind::Integer,
                wit::ConfigKind::Float => ConfigKind::Float,
                wit::ConfigKind::Duration => ConfigKind::Duration,
                wit::ConfigKind::Text => ConfigKind::Text,
            };
            let default = kind.canonical(&key.default).ok_or_else(|| {
                let shown = one_line(&key.default, NAME_BYTES_MAX);
                bad(
                    &format!("config[{i}].default"),
                    format!("of key {} is {shown:?}; accepted is {}", key.name, kind.accepted()),
                )
            })?;
            config.push(ConfigKey { name: key.name, kind, default, help: key.help });
        }
        Ok(Description { name: found.name, version: found.version, summary: found.summary, config })
    }

    /// A value for every described key, in the described order and in canonical spelling. A key that `config` lacks has its default.
    ///
    /// # Errors
    /// [`ConfigError`] for the first key that is not described or has a value of another kind.
    pub fn values(&self, config: &Config) -> Result<Vec<(String, String)>, ConfigError> {
        if let Some(key) = config.keys().find(|key| !self.config.iter().any(|known| known.name == **key)) {
            let known = match self.config.as_slice() {
                [] => "none".to_owned(),
                keys => keys.iter().map(|key| key.name.as_str()).collect::<Vec<_>>().join(", "),
            };
            return Err(ConfigError::UnknownKey {
                policy: self.name.clone(),
                key: one_line(key, NAME_BYTES_MAX),
                known,
            });
        }
        let value = |key: &ConfigKey| {
            let text = match config.get(&key.name) {
                None => key.default.clone(),
                Some(text) => key.kind.canonical(text).ok_or_else(|| ConfigError::BadValue {
                    policy: self.name.clone(),
                    key: key.name.clone(),
                    found: one_line(text, NAME_BYTES_MAX),
                    accepted: key.kind.accepted(),
                })?,
            };
            Ok((key.name.clone(), text))
        };
        self.config.iter().map(value).collect()
    }
}

fn bad(field: &str, problem: String) -> LoadError {
    LoadError::Description { field: field.to_owned(), problem }
}

fn name(field: &str, text: &str) -> Result<(), LoadError> {
    let fits = (1..=NAME_BYTES_MAX).contains(&text.len());
    if fits && text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-')) {
        return Ok(());
    }
    let shown = one_line(text, NAME_BYTES_MAX);
    Err(bad(
        field,
        format!(
            "is {shown:?} ({} bytes); accepted are 1 to {NAME_BYTES_MAX} lower-case letters, digits and '-'",
            text.len()
        ),
    ))
}

fn line(field: &str, text: &str) -> Result<(), LoadError> {
    if text.len() > LINE_BYTES_MAX {
        return Err(bad(field, format!("has {} bytes; at most {LINE_BYTES_MAX} are accepted", text.len())));
    }
    if text.chars().any(char::is_control) {
        return Err(bad(field, "contains control characters; accepted is one line of text".to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str, kind: wit::ConfigKind, default: &str) -> wit::ConfigKey {
        wit::ConfigKey { name: name.into(), kind, default: default.into(), help: String::new() }
    }

    fn describe(name: &str, config: Vec<wit::ConfigKey>) -> Result<Description, LoadError> {
        Description::accept(wit::Description {
            name: name.into(),
            version: "1".into(),
            summary: "s".into(),
            config,
        })
    }

    fn sample() -> Description {
        describe(
            "easy",
            vec![
                key("depth", wit::ConfigKind::Integer, "1"),
                key("slack", wit::ConfigKind::Duration, "10m"),
                key("strict", wit::ConfigKind::Boolean, "false"),
                key("factor", wit::ConfigKind::Float, "1.50"),
                key("label", wit::ConfigKind::Text, "a b"),
            ],
        )
        .unwrap()
    }

    #[test]
    fn defaults_fill_in_and_values_have_one_spelling() {
        let set = Config::from([("slack".into(), "1h".into()), ("depth".into(), " +7".into())]);
        let values = sample().values(&set).unwrap();
        let shown: Vec<String> = values.iter().map(|(k, v)| format!("{k}={v}")).collect();
        assert_eq!(shown, ["depth=7", "slack=3600", "strict=false", "factor=1.5", "label=a b"]);
    }

    #[test]
    fn messages_name_key_found_and_accepted() {
        let refuse = |k: &str, v: &str| {
            sample().values(&Config::from([(k.into(), v.into())])).unwrap_err().to_string()
        };
        assert_eq!(
            refuse("dept", "1"),
            "policy easy has no configuration key \"dept\"; it has depth, slack, strict, factor, label"
        );
        assert_eq!(
            refuse("depth", "1.5"),
            "configuration key depth of policy easy is \"1.5\"; accepted is a whole number"
        );
        assert_eq!(
            refuse("strict", "yes"),
            "configuration key strict of policy easy is \"yes\"; accepted is true or false"
        );
        assert_eq!(
            refuse("factor", "NaN"),
            "configuration key factor of policy easy is \"NaN\"; accepted is a finite decimal number"
        );
        assert!(
            refuse("slack", "soon").ends_with("accepted is a duration like 90s, 10m, 1.5h, 2d or infinity")
        );
        assert!(refuse("label", "a\nb").contains("accepted is one line of text"));
    }

    #[test]
    fn descriptions_that_the_contract_forbids() {
        let refuse = |d: Result<Description, LoadError>| d.unwrap_err().to_string();
        assert!(
            refuse(describe("Easy", vec![]))
                .starts_with("describe: name is \"Easy\" (4 bytes); accepted are")
        );
        assert!(refuse(describe("", vec![])).contains("(0 bytes)"));
        assert!(refuse(describe(&"x".repeat(65), vec![])).contains("(65 bytes)"));
        let twice = vec![key("a", wit::ConfigKind::Text, ""), key("a", wit::ConfigKind::Text, "")];
        assert_eq!(refuse(describe("p", twice)), "describe: config[1].name is \"a\" a second time");
        let default = vec![key("a", wit::ConfigKind::Integer, "x")];
        assert_eq!(
            refuse(describe("p", default)),
            "describe: config[0].default of key a is \"x\"; accepted is a whole number"
        );
        let many = (0..65).map(|i| key(&format!("k{i}"), wit::ConfigKind::Text, "")).collect();
        assert_eq!(refuse(describe("p", many)), "describe: config has 65 keys; at most 64 are accepted");
    }
}
