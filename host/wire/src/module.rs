//! The messages between a broker and the process of one of its modules, beside the module's own service (RFC 5): the
//! welcome, and the states of the module's life.
//!
//! ```text
//! broker -> welcome (no answer)          arguments, attributes, configuration, name, uuid
//! module -> module.status RUNNING        ends `flux module load`
//! broker -> NAME.shutdown (no answer)    or the module finds a reason itself
//! module -> module.status FINALIZING     answered; from then on the broker sends nothing more
//! module -> module.status EXITED errnum  and the process ends
//! ```
//!
//! A module that ends in any other way, or with an error number after RUNNING, makes the broker panic, unless
//! `broker.module-nopanic` is set.
//!
//! This module does not know the service of the broker module.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::message::Message;

/// Environment variable in which the broker names the module's connection, `fd://N`.
pub const MODULE_URI_ENV: &str = "FLUX_MODULE_URI";
/// Maximum number of arguments of a module.
pub const ARGS_MAX: usize = 1024;

/// The state of a module (RFC 5). INIT is never reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Initialised and serving.
    Running,
    /// Shutting down; the broker answers, and sends nothing more.
    Finalizing,
    /// Ended, with 0 for success or an error number.
    Exited(i32),
}

impl Status {
    /// The request that reports the state. Only [`Status::Finalizing`] expects an answer, and so has a matchtag.
    pub fn report(self) -> Message {
        let (payload, answered) = match self {
            Status::Running => (json!({"status": 1}), false),
            Status::Finalizing => (json!({"status": 2}), true),
            Status::Exited(errnum) => (json!({"status": 3, "errnum": errnum}), false),
        };
        let request = Message::request("module.status").with_json(&payload);
        if answered { request } else { request.noresponse() }
    }
}

/// The broker's first message to a module.
#[derive(Debug, Clone, PartialEq)]
pub struct Welcome {
    /// Name of the module, which is also that of its service.
    pub name: String,
    /// UUID of the module: its name in route stacks.
    pub uuid: String,
    /// Arguments, as on the command line of `flux module load`; at most [`ARGS_MAX`].
    pub args: Vec<String>,
    /// The broker's constant attributes, such as `rank`; empty if the welcome has none.
    pub attrs: BTreeMap<String, String>,
    /// The instance's configuration, TOML as JSON; empty if the welcome has none.
    pub conf: Map<String, Value>,
}

/// The fault of a first message that is no valid welcome.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WelcomeError {
    /// Another message came first.
    #[error("the broker's first message is {found:?}, expected \"welcome\" (RFC 5)")]
    Other {
        /// Its topic, shortened.
        found: String,
    },
    /// A part is missing or invalid.
    #[error("welcome: {0}")]
    Field(String),
}

impl Welcome {
    /// Reads the first message on a module's connection.
    ///
    /// # Errors
    /// [`WelcomeError`] names the invalid part.
    pub fn read(message: &Message) -> Result<Welcome, WelcomeError> {
        if !message.is_request() || message.topic() != "welcome" {
            return Err(WelcomeError::Other { found: message.topic().chars().take(80).collect() });
        }
        let payload = message.json().map_err(|error| WelcomeError::Field(error.to_string()))?;
        let wrong = |field: &str, expected: &str| {
            WelcomeError::Field(format!("field `{field}`: expected {expected}"))
        };
        let text = |field: &str| {
            let value = payload.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
            value.map(str::to_owned).ok_or_else(|| wrong(field, "a string that is not empty"))
        };
        let args = match payload.get("args") {
            None => Vec::new(),
            Some(Value::Array(list)) if list.len() <= ARGS_MAX => {
                let strings = list.iter().map(|arg| arg.as_str().map(str::to_owned));
                strings.collect::<Option<_>>().ok_or_else(|| wrong("args", "an array of strings"))?
            }
            Some(_) => return Err(wrong("args", "an array of at most 1024 strings")),
        };
        let object = |field: &str| match payload.get(field) {
            None => Ok(Map::new()),
            Some(Value::Object(map)) => Ok(map.clone()),
            Some(_) => Err(wrong(field, "an object")),
        };
        // Attributes are strings; other values are ignored.
        let attrs = object("attrs")?
            .into_iter()
            .filter_map(|(key, value)| value.as_str().map(|text| (key, text.to_owned())))
            .collect();
        Ok(Welcome { name: text("name")?, uuid: text("uuid")?, args, attrs, conf: object("conf")? })
    }

    /// The broker's rank; 0 when the welcome does not have it, or not as a number.
    pub fn rank(&self) -> u32 {
        self.attrs.get("rank").and_then(|rank| rank.parse().ok()).unwrap_or(0)
    }
}

/// The route stack as the broker writes it: its hops, shortened to eight characters (RFC 3 identities are UUIDs) and joined by `!`, the
/// last one `own_uuid`. Empty without hops.
pub fn route_text(message: &Message, own_uuid: Option<&str>) -> String {
    let hops = message.routes.as_deref().unwrap_or_default().iter().map(String::as_str);
    let short = |hop: &str| hop.chars().take(8).collect::<String>();
    hops.chain(own_uuid).map(short).collect::<Vec<_>>().join("!")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn welcome(payload: &Value) -> Result<Welcome, WelcomeError> {
        Welcome::read(&Message::request("welcome").with_json(payload).noresponse())
    }

    #[test]
    fn r5_2_the_welcome_is_read() {
        let read = welcome(&json!({
            "args": ["policy=easy"], "attrs": {"rank": "3", "size": "4", "odd": 7},
            "conf": {"sched-fluxgate": {"policy": "fcfs"}}, "name": "sched-x", "uuid": "u-1",
        }))
        .unwrap();
        assert_eq!((read.name.as_str(), read.uuid.as_str(), read.rank()), ("sched-x", "u-1", 3));
        assert_eq!(read.args, ["policy=easy"]);
        assert_eq!(read.conf["sched-fluxgate"]["policy"], "fcfs");
        assert_eq!(read.attrs.len(), 2);
        assert_eq!(welcome(&json!({"name": "a", "uuid": "b"})).unwrap().rank(), 0);
    }

    #[test]
    fn r5_2_what_is_no_welcome_is_named() {
        let other = Welcome::read(&Message::request("sched.alloc")).unwrap_err();
        assert!(other.to_string().contains("\"sched.alloc\""), "{other}");
        for (payload, word) in [
            (json!({"uuid": "u"}), "`name`"),
            (json!({"name": "n", "uuid": ""}), "`uuid`"),
            (json!({"name": "n", "uuid": "u", "args": [1]}), "`args`"),
            (json!({"name": "n", "uuid": "u", "args": "x"}), "`args`"),
            (json!({"name": "n", "uuid": "u", "conf": []}), "`conf`"),
            (json!({"name": "n", "uuid": "u", "attrs": "rank"}), "`attrs`"),
        ] {
            let error = welcome(&payload).unwrap_err().to_string();
            assert!(error.contains(word), "{payload}: {error}");
        }
    }

    #[test]
    fn r5_3_states_as_the_broker_counts_them() {
        assert_eq!(Status::Running.report().json().unwrap(), json!({"status": 1}));
        assert!(!Status::Running.report().wants_response());
        assert_eq!(Status::Finalizing.report().json().unwrap(), json!({"status": 2}));
        assert!(Status::Finalizing.report().wants_response());
        assert_eq!(Status::Exited(22).report().json().unwrap(), json!({"status": 3, "errnum": 22}));
        assert!(!Status::Exited(0).report().wants_response());
    }
}
