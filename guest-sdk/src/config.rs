//! A policy's description of itself, and its settings.
//!
//! A policy declares its keys once, with kind, default and one line of help. The host checks an operator's settings
//! against the declaration, so a policy only gets values of the declared kind.

/// The kind of a configuration value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`.
    Boolean,
    /// A whole number.
    Integer,
    /// A number.
    Float,
    /// A duration (RFC 23): `90`, `1.5h`, `10m`, `infinity`.
    Duration,
    /// Any text.
    Text,
}

/// One configuration key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Lower-case letters, digits and `-`.
    pub name: &'static str,
    /// Kind of its values.
    pub kind: Kind,
    /// Value when it is not set, in text form.
    pub default: &'static str,
    /// One line of help: meaning, unit, range.
    pub help: &'static str,
}

/// A policy's description of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info {
    /// Lower-case letters, digits and `-`; at most 64 bytes.
    pub name: &'static str,
    /// The policy's own version.
    pub version: &'static str,
    /// One line of description.
    pub summary: &'static str,
    /// Every key that can be set.
    pub keys: Vec<Key>,
}

impl Info {
    /// A policy without settings, of version `0`.
    pub fn new(name: &'static str, summary: &'static str) -> Self {
        Info { name, version: "0", summary, keys: Vec::new() }
    }

    /// Sets the version, such as `env!("CARGO_PKG_VERSION")`.
    pub fn version(mut self, version: &'static str) -> Self {
        self.version = version;
        self
    }

    /// Declares a key with its default in text form and one line of help.
    pub fn key(mut self, name: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Self {
        self.keys.push(Key { name, kind, default, help });
        self
    }

    /// The complete settings when an operator sets only these; as a host does, for tests and native twins.
    ///
    /// # Errors
    /// A key that was not declared, or a value that is not of its kind.
    pub fn configure(&self, set: &[(&str, &str)]) -> Result<Config, String> {
        for (name, _) in set {
            if !self.keys.iter().any(|key| key.name == *name) {
                let known: Vec<&str> = self.keys.iter().map(|key| key.name).collect();
                return Err(format!("{}: no setting `{name}`; known: {}", self.name, known.join(", ")));
            }
        }
        let mut values = Vec::with_capacity(self.keys.len());
        for key in &self.keys {
            let set = set.iter().rev().find(|(name, _)| key.name == *name).map(|(_, value)| *value);
            let given = vec![(key.name.to_owned(), set.unwrap_or(key.default).to_owned())];
            let given = Config { values: given };
            // As a host passes them: each value in its canonical spelling.
            let value = match key.kind {
                Kind::Boolean => given.boolean(key.name)?.to_string(),
                Kind::Integer => given.integer(key.name)?.to_string(),
                Kind::Float => given.float(key.name)?.to_string(),
                Kind::Duration => given.duration(key.name)?.to_string(),
                Kind::Text => given.text(key.name)?.to_owned(),
            };
            values.push((key.name.to_owned(), value));
        }
        Ok(Config { values })
    }
}

/// The settings of a policy: a value for every declared key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    values: Vec<(String, String)>,
}

impl Config {
    /// For hosts of a policy; a policy's test uses [`Info::configure`].
    pub fn from_values(values: Vec<(String, String)>) -> Self {
        Config { values }
    }

    /// The value as text.
    ///
    /// # Errors
    /// The key was not declared in [`Info`].
    pub fn text(&self, name: &str) -> Result<&str, String> {
        let found = self.values.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str()).ok_or_else(|| format!("`{name}` is not a declared setting"))
    }

    /// The value of a [`Kind::Boolean`] key.
    ///
    /// # Errors
    /// Not declared, or neither `true` nor `false`.
    pub fn boolean(&self, name: &str) -> Result<bool, String> {
        self.parse(name, "`true` or `false`", |text| text.parse().ok())
    }

    /// The value of a [`Kind::Integer`] key.
    ///
    /// # Errors
    /// Not declared, or not a whole number.
    pub fn integer(&self, name: &str) -> Result<i64, String> {
        self.parse(name, "a whole number", |text| text.parse().ok())
    }

    /// The value of a [`Kind::Integer`] key that must lie in a range.
    ///
    /// # Errors
    /// Not declared, not a whole number, or out of the range.
    pub fn integer_in(&self, name: &str, range: std::ops::RangeInclusive<i64>) -> Result<i64, String> {
        let value = self.integer(name)?;
        if range.contains(&value) {
            return Ok(value);
        }
        Err(format!("`{name}` is {value}, but must lie between {} and {}", range.start(), range.end()))
    }

    /// The value of a [`Kind::Float`] key; never NaN.
    ///
    /// # Errors
    /// Not declared, or not a number.
    pub fn float(&self, name: &str) -> Result<f64, String> {
        self.parse(name, "a number", |text| text.parse().ok().filter(|value: &f64| !value.is_nan()))
    }

    /// The value of a [`Kind::Duration`] key in seconds, possibly infinite.
    ///
    /// # Errors
    /// Not declared, or not an RFC 23 duration.
    pub fn duration(&self, name: &str) -> Result<f64, String> {
        self.parse(name, "a duration like `90`, `10m` or `1.5h`", parse_duration)
    }

    fn parse<T>(&self, name: &str, wants: &str, parse: impl Fn(&str) -> Option<T>) -> Result<T, String> {
        let text = self.text(name)?;
        parse(text).ok_or_else(|| format!("`{name}` is `{text}`, but must be {wants}"))
    }
}

/// RFC 23: a non-negative decimal number with an optional unit ms, s, m, h or d, or infinity.
fn parse_duration(text: &str) -> Option<f64> {
    if matches!(text.to_ascii_lowercase().as_str(), "inf" | "infinity") {
        return Some(f64::INFINITY);
    }
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let seconds = match unit {
        "" | "s" => 1.0,
        "ms" => 0.001,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => return None,
    };
    let value: f64 = number.parse().ok()?;
    (value >= 0.0 && value.is_finite()).then_some(value * seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, seconds) in
            [("90", 90.0), ("90s", 90.0), ("500ms", 0.5), ("10m", 600.0), ("1.5h", 5400.0), ("2d", 172800.0)]
        {
            assert_eq!(parse_duration(text), Some(seconds), "{text}");
        }
        assert_eq!(parse_duration("infinity"), Some(f64::INFINITY));
        for text in ["", "m", "-1", "1x", "1 m", "nan", "1m30s"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }

    #[test]
    fn settings_are_checked_against_their_declaration() {
        let info =
            Info::new("x", "").key("depth", Kind::Integer, "1", "").key("age", Kind::Duration, "1h", "");
        let config = info.configure(&[("depth", "4")]).unwrap();
        assert_eq!(config.integer("depth"), Ok(4));
        assert_eq!(config.duration("age"), Ok(3600.0));
        assert_eq!(config.text("age"), Ok("3600"));
        assert!(config.integer_in("depth", 1..=3).unwrap_err().contains("between 1 and 3"));
        assert!(info.configure(&[("dept", "4")]).unwrap_err().contains("known: depth, age"));
        assert!(info.configure(&[("depth", "x")]).unwrap_err().contains("a whole number"));
        assert!(config.text("nothing").is_err());
    }
}
