//! An R as JSON value and text.

use serde_json::{Map, Value, json};

use super::{R, RLite};

impl R {
    /// The set as JSON value (RFC 20). Times and `core` are always written, other keys when they are not empty.
    pub fn to_value(&self) -> Value {
        let mut execution = Map::new();
        let entries = self.r_lite.iter().map(RLite::to_value).collect();
        execution.insert("R_lite".to_owned(), Value::Array(entries));
        let hosts = if self.nodelist.is_empty() { vec![] } else { vec![self.nodelist.to_string().into()] };
        execution.insert("nodelist".to_owned(), Value::Array(hosts));
        if let Some(nslots) = self.nslots {
            execution.insert("nslots".to_owned(), nslots.into());
        }
        if !self.properties.is_empty() {
            let properties =
                self.properties.iter().map(|(name, ranks)| (name.clone(), ranks.to_string().into()));
            execution.insert("properties".to_owned(), Value::Object(properties.collect()));
        }
        execution.insert("starttime".to_owned(), self.starttime.into());
        execution.insert("expiration".to_owned(), self.expiration.into());
        let mut document = Map::new();
        document.insert("version".to_owned(), 1.into());
        document.insert("execution".to_owned(), Value::Object(execution));
        if let Some(scheduling) = self.scheduling_value() {
            document.insert("scheduling".to_owned(), scheduling);
        }
        Value::Object(document)
    }

    /// The whole key `scheduling`, with a graph that is kept as text.
    fn scheduling_value(&self) -> Option<Value> {
        let mut scheduling = self.scheduling.clone();
        if let (Some(Value::Object(map)), Some(graph)) = (&mut scheduling, &self.graph) {
            map.insert("graph".to_owned(), graph.value());
        }
        scheduling
    }

    /// The set as JSON text; equal sets give equal text, as far as `scheduling` allows.
    pub fn to_json(&self) -> String {
        self.to_value().to_string()
    }
}

impl RLite {
    /// The entry as JSON value; `core` is written even when it is empty (RFC 20 requires the key).
    fn to_value(&self) -> Value {
        let mut children = Map::new();
        let cores = self.children.get("core").map(ToString::to_string).unwrap_or_default();
        children.insert("core".to_owned(), cores.into());
        for (type_, ids) in self.children.iter().filter(|(type_, _)| *type_ != "core") {
            children.insert(type_.clone(), ids.to_string().into());
        }
        json!({ "rank": self.rank.to_string(), "children": children })
    }
}
