//! Reading foreign payloads field by field, so that each refusal names the field.

use fluxgate_formats::{Idset, JobId};
use serde_json::{Map, Value};

use crate::fail::Fail;
use crate::limits::NOTE_LEN_MAX;

/// A request's payload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'a> {
    map: &'a Map<String, Value>,
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(n) if n.is_u64() => "an integer",
        Value::Number(n) if n.is_i64() => "a negative integer",
        Value::Number(_) => "a fraction",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

impl<'a> Fields<'a> {
    /// The fields of an object; anything else is EPROTO.
    pub(crate) fn of(value: &'a Value) -> Result<Self, Fail> {
        match value {
            Value::Object(map) => Ok(Fields { map }),
            other => Err(Fail::proto(format!("the payload must be an object, found {}", kind(other)))),
        }
    }

    /// Any field that is there and not null.
    pub(crate) fn get(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    fn need<T>(name: &str, what: &str, found: Option<T>) -> Result<T, Fail> {
        found.ok_or_else(|| Fail::proto(format!("field '{name}' is missing ({what} is expected)")))
    }

    fn read<T>(
        &self,
        name: &str,
        what: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, Fail> {
        let Some(value) = self.get(name) else { return Ok(None) };
        match read(value) {
            Some(it) => Ok(Some(it)),
            None => Err(Fail::proto(format!("field '{name}' must be {what}, found {}", kind(value)))),
        }
    }

    /// An unsigned integer, if there.
    pub(crate) fn opt_u64(&self, name: &str) -> Result<Option<u64>, Fail> {
        self.read(name, "an unsigned integer", Value::as_u64)
    }

    /// An unsigned integer.
    pub(crate) fn u64(&self, name: &str) -> Result<u64, Fail> {
        Self::need(name, "an unsigned integer", self.opt_u64(name)?)
    }

    /// An integer within bounds, if there.
    pub(crate) fn opt_int(&self, name: &str, min: i64, max: i64) -> Result<Option<i64>, Fail> {
        let value = self.read(name, "an integer", Value::as_i64)?;
        match value {
            Some(n) if !(min..=max).contains(&n) => {
                Err(Fail::invalid(format!("field '{name}' is {n}, but {min} to {max} are accepted")))
            }
            other => Ok(other),
        }
    }

    /// An integer within bounds.
    pub(crate) fn int(&self, name: &str, min: i64, max: i64) -> Result<i64, Fail> {
        Self::need(name, "an integer", self.opt_int(name, min, max)?)
    }

    /// A finite number, if there.
    pub(crate) fn opt_f64(&self, name: &str) -> Result<Option<f64>, Fail> {
        self.read(name, "a number", |v| v.as_f64().filter(|f| f.is_finite()))
    }

    /// A finite number.
    pub(crate) fn f64(&self, name: &str) -> Result<f64, Fail> {
        Self::need(name, "a number", self.opt_f64(name)?)
    }

    /// A truth value, if there.
    pub(crate) fn opt_bool(&self, name: &str) -> Result<Option<bool>, Fail> {
        self.read(name, "a boolean", Value::as_bool)
    }

    /// A truth value.
    pub(crate) fn bool(&self, name: &str) -> Result<bool, Fail> {
        Self::need(name, "a boolean", self.opt_bool(name)?)
    }

    /// A string of bounded length, if there.
    pub(crate) fn opt_str(&self, name: &str) -> Result<Option<&'a str>, Fail> {
        let text = self.read(name, "a string", Value::as_str)?;
        match text {
            Some(text) if text.len() > NOTE_LEN_MAX => Err(Fail::invalid(format!(
                "field '{name}' has {} bytes, at most {NOTE_LEN_MAX} are accepted",
                text.len()
            ))),
            other => Ok(other),
        }
    }

    /// A string of bounded length.
    pub(crate) fn str(&self, name: &str) -> Result<&'a str, Fail> {
        Self::need(name, "a string", self.opt_str(name)?)
    }

    /// An object, if there.
    pub(crate) fn opt_object(&self, name: &str) -> Result<Option<&'a Map<String, Value>>, Fail> {
        self.read(name, "an object", Value::as_object)
    }

    /// An object.
    pub(crate) fn object(&self, name: &str) -> Result<&'a Map<String, Value>, Fail> {
        Self::need(name, "an object", self.opt_object(name)?)
    }

    /// An array, if there.
    pub(crate) fn opt_array(&self, name: &str) -> Result<Option<&'a Vec<Value>>, Fail> {
        self.read(name, "an array", Value::as_array)
    }

    /// An array.
    pub(crate) fn array(&self, name: &str) -> Result<&'a Vec<Value>, Fail> {
        Self::need(name, "an array", self.opt_array(name)?)
    }

    /// An array of strings.
    pub(crate) fn strings(&self, name: &str) -> Result<Vec<&'a str>, Fail> {
        let read = |(at, value): (usize, &'a Value)| {
            let wrong =
                || Fail::proto(format!("field '{name}[{at}]' must be a string, found {}", kind(value)));
            value.as_str().ok_or_else(wrong)
        };
        self.array(name)?.iter().enumerate().map(read).collect()
    }

    /// A job id: an integer, or text in any encoding of RFC 19.
    pub(crate) fn id(&self) -> Result<JobId, Fail> {
        match Self::need("id", "a job id", self.get("id"))? {
            Value::String(text) => JobId::parse(text).map_err(|e| Fail::invalid(format!("field 'id': {e}"))),
            value => match value.as_u64() {
                Some(id) => Ok(JobId(id)),
                None => Err(Fail::proto(format!(
                    "field 'id' must be an unsigned integer or a string, found {}",
                    kind(value)
                ))),
            },
        }
    }

    /// An idset, if there.
    pub(crate) fn opt_idset(&self, name: &str) -> Result<Option<Idset>, Fail> {
        match self.opt_str(name)? {
            None => Ok(None),
            Some(text) => match Idset::parse(text) {
                Ok(set) => Ok(Some(set)),
                Err(e) => Err(Fail::invalid(format!("field '{name}': {e}"))),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use fluxgate_wire::errno;
    use serde_json::json;

    use super::*;

    #[test]
    fn refusals_name_the_field_and_what_was_found() {
        let payload = json!({"id": "x", "n": -1, "f": 1.5, "b": 1, "s": ["a", 2], "big": 40, "null": null});
        let fields = Fields::of(&payload).unwrap();
        let text = |fail: Fail| (fail.errnum, fail.text);
        assert_eq!(fields.id().unwrap_err().errnum, errno::EINVAL);
        assert_eq!(
            text(fields.u64("n").unwrap_err()),
            (errno::EPROTO, "field 'n' must be an unsigned integer, found a negative integer".into())
        );
        assert_eq!(
            fields.u64("f").unwrap_err().text,
            "field 'f' must be an unsigned integer, found a fraction"
        );
        assert_eq!(fields.bool("b").unwrap_err().text, "field 'b' must be a boolean, found an integer");
        assert_eq!(fields.str("gone").unwrap_err().text, "field 'gone' is missing (a string is expected)");
        assert_eq!(fields.strings("s").unwrap_err().text, "field 's[1]' must be a string, found an integer");
        assert_eq!(
            text(fields.int("big", 0, 31).unwrap_err()),
            (errno::EINVAL, "field 'big' is 40, but 0 to 31 are accepted".into())
        );
        assert_eq!(fields.opt_str("null"), Ok(None));
        assert_eq!(Fields::of(&json!([])).unwrap_err().errnum, errno::EPROTO);
    }

    #[test]
    fn ids_are_exact_to_64_bits_and_known_in_every_encoding() {
        for id in [json!(u64::MAX), json!("ƒjpXCZedGfVQ"), json!("18446744073709551615")] {
            let payload = json!({ "id": id });
            assert_eq!(Fields::of(&payload).unwrap().id().unwrap(), JobId(u64::MAX));
        }
    }
}
