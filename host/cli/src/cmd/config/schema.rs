//! The `[sched-fluxgate]` table as a JSON schema, from the descriptions of its keys.
//!
//! Must never know a key by its name.

use fluxgate_sched::settings::{KEYS, Settings, TABLE};
use serde_json::{Map, Value, json};

/// The schema. A table that the schema refuses is refused by the scheduler too. The description of a key has the rules of its
/// values beside their type; `config check` checks these rules.
pub(super) fn of_table() -> Value {
    let defaults = Settings::default();
    let mut keys = Map::new();
    for key in KEYS {
        let mut about = type_of(key.accepts);
        about.insert("description".to_owned(), format!("{}: {}", key.meaning, key.accepts).into());
        let default = defaults.value(key.name);
        if !default.is_null() {
            about.insert("default".to_owned(), default);
        }
        keys.insert(key.name.to_owned(), about.into());
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": format!("[{TABLE}]"),
        "type": "object",
        "properties": keys,
        "additionalProperties": false,
    })
}

/// The type of what a key accepts, where its description begins with one.
fn type_of(accepts: &str) -> Map<String, Value> {
    let named = |kind: &str| Map::from_iter([("type".to_owned(), kind.into())]);
    if accepts == "true or false" {
        return named("boolean");
    }
    if accepts.starts_with("a table") {
        return named("object");
    }
    if let Some(range) = accepts.strip_prefix("a whole number from ") {
        let mut about = named("integer");
        let mut bounds = range.split(' ').filter_map(|word| word.trim_end_matches(',').parse::<u64>().ok());
        for (name, bound) in ["minimum", "maximum"].into_iter().zip(bounds.by_ref()) {
            about.insert(name.to_owned(), bound.into());
        }
        return about;
    }
    Map::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feat_97_every_key_is_in_the_schema_and_its_default_has_its_type() {
        let schema = of_table();
        let keys = schema["properties"].as_object().unwrap();
        assert_eq!(keys.len(), KEYS.len());
        for (name, about) in keys {
            let default = &about["default"];
            let fits = match about["type"].as_str() {
                Some("boolean") => default.is_boolean(),
                Some("object") => default.is_object(),
                Some("integer") => default.as_u64().is_some_and(|n| {
                    about["minimum"].as_u64().is_some_and(|least| least <= n)
                        && about["maximum"].as_u64().is_some_and(|most| n <= most)
                }),
                _ => true,
            };
            assert!(fits || default.is_null(), "{name}: {about}");
            assert!(about["description"].as_str().is_some_and(|text| text.len() > 5), "{name}");
        }
        let typed = keys.values().filter(|about| about["type"].is_string()).count();
        assert!(typed > 10, "{typed}");
    }
}
