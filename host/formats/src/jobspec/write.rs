//! A jobspec as JSON value.

use serde_json::{Map, Value, json};

use super::{Count, Jobspec, Operator, Resource, Task, TaskCount};

impl Jobspec {
    /// The jobspec as JSON value; reading it gives an equal jobspec.
    pub fn to_value(&self) -> Value {
        let mut attributes = Map::new();
        if let Some(user) = &self.attributes.user {
            attributes.insert("user".to_owned(), Value::Object(user.clone()));
        }
        attributes.insert("system".to_owned(), Value::Object(self.attributes.system.clone()));
        json!({
            "version": self.version,
            "resources": self.resources.iter().map(Resource::to_value).collect::<Vec<_>>(),
            "tasks": self.tasks.iter().map(Task::to_value).collect::<Vec<_>>(),
            "attributes": attributes,
        })
    }
}

impl Resource {
    /// The vertex as JSON value, keys in the order of RFC 14.
    pub fn to_value(&self) -> Value {
        let mut map = Map::new();
        map.insert("type".to_owned(), self.type_.as_str().into());
        map.insert("count".to_owned(), self.count.to_value());
        let texts = [("unit", &self.unit), ("label", &self.label), ("id", &self.id)];
        for (key, text) in texts {
            if let Some(text) = text {
                map.insert(key.to_owned(), text.as_str().into());
            }
        }
        if let Some(exclusive) = self.exclusive {
            map.insert("exclusive".to_owned(), exclusive.into());
        }
        if !self.with.is_empty() {
            let with = self.with.iter().map(Resource::to_value).collect();
            map.insert("with".to_owned(), Value::Array(with));
        }
        Value::Object(map)
    }
}

impl Task {
    /// The task as JSON value.
    pub fn to_value(&self) -> Value {
        let count = match &self.count {
            TaskCount::PerSlot(n) => json!({ "per_slot": n }),
            TaskCount::Total(n) => json!({ "total": n }),
            TaskCount::PerResource { type_, count } => {
                json!({ "per_resource": { "type": type_, "count": count } })
            }
        };
        let mut map = Map::new();
        map.insert("command".to_owned(), self.command.clone().into());
        map.insert("slot".to_owned(), self.slot.as_str().into());
        map.insert("count".to_owned(), count);
        if let Some(attributes) = &self.attributes {
            map.insert("attributes".to_owned(), Value::Object(attributes.clone()));
        }
        if let Some(distribution) = &self.distribution {
            map.insert("distribution".to_owned(), distribution.as_str().into());
        }
        Value::Object(map)
    }
}

impl Count {
    /// The count as jobspec value: an integer, an idset string, or a range dictionary in the forms that the schema of
    /// RFC 14 accepts too. A range it has no dictionary for, without end but not in steps of 1, is an RFC 45 string.
    pub fn to_value(&self) -> Value {
        match self {
            Count::Fixed(n) => (*n).into(),
            Count::Range { min, max: None, operand: 1, operator: Operator::Plus } => json!({ "min": min }),
            Count::Range { min, max: Some(max), operand, operator } => {
                let operator = operator.symbol().to_string();
                json!({ "min": min, "max": max, "operator": operator, "operand": operand })
            }
            Count::Range { .. } | Count::Set(_) => self.to_string().into(),
        }
    }
}
