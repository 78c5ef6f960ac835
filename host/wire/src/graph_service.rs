//! The services of the graph scheduler: the names and requests by which a site's storage service and scripts address
//! the scheduler of an instance.
//!
//! Names, fields, error numbers and texts are those of the graph scheduler: services log them and scripts search them.
//! This module does not know the meaning of a vertex.

use fluxgate_engine::RpcError;
use serde_json::Value;

use crate::proto::errno;

/// The service for questions about resources.
pub const RESOURCE_SERVICE: &str = "sched-fluxion-resource";
/// The service for questions about queues.
pub const QUEUE_SERVICE: &str = "sched-fluxion-qmanager";
/// Most paths in one request.
pub const PATHS_MAX: usize = 65_536;
/// Longest path, in bytes.
pub const PATH_LEN_MAX: usize = 4096;
/// Longest name of a property, in bytes.
pub const KEY_LEN_MAX: usize = 256;
/// Longest value of a property, in bytes.
pub const VALUE_LEN_MAX: usize = 4096;

/// Requests that guests may send.
const GUEST_TOPICS: &[(&str, &str)] = &[
    (RESOURCE_SERVICE, "ping"),
    (RESOURCE_SERVICE, "stats-get"),
    (RESOURCE_SERVICE, "stats-clear"),
    (QUEUE_SERVICE, "ping"),
    (QUEUE_SERVICE, "params"),
    (QUEUE_SERVICE, "stats-get"),
    (QUEUE_SERVICE, "stats-clear"),
];

/// True for one of these services.
pub fn is_graph_service(service: &str) -> bool {
    [RESOURCE_SERVICE, QUEUE_SERVICE].contains(&service)
}

/// The original topic of a request that the stand-in for the module of resources, which has its name, forwarded to
/// the scheduler of this name.
pub(crate) fn passed_on<'a>(topic: &'a str, own: &str) -> Option<&'a str> {
    let inner = topic.strip_prefix(own)?.strip_prefix('.')?;
    inner.split_once('.').filter(|(service, _)| *service == RESOURCE_SERVICE).map(|_| inner)
}

/// True if guests may send this request to one of these services.
pub(crate) fn is_for_guests(service: &str, method: &str) -> bool {
    GUEST_TOPICS.contains(&(service, method))
}

/// A request about vertices, which are named by their containment paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VertexRequest {
    /// `set_status`
    SetStatus {
        /// The vertex.
        path: String,
        /// The status as requested; `up` and `down` are valid, any other text is [`unknown_status`].
        status: String,
    },
    /// `set_property`
    SetProperty {
        /// The vertices, at most [`PATHS_MAX`].
        paths: Vec<String>,
        /// Name of the property, 1 to [`KEY_LEN_MAX`] bytes.
        key: String,
        /// Its value, 1 to [`VALUE_LEN_MAX`] bytes.
        value: String,
    },
    /// `remove_property`
    RemoveProperty {
        /// The vertices.
        paths: Vec<String>,
        /// The property.
        key: String,
    },
    /// `get_property`
    GetProperty {
        /// The vertex.
        path: String,
        /// The property.
        key: String,
    },
}

/// An error of these services, with an [error number](errno) and the text of the answer.
pub fn refusal(errnum: i32, text: impl Into<String>) -> RpcError {
    RpcError { errnum, text: text.into() }
}

/// The error (EINVAL) of `set_status` of a path that no vertex has.
pub fn unknown_path(path: &str) -> RpcError {
    refusal(errno::EINVAL, format!("could not find path '{path}' in resource graph"))
}

/// The error (ENOENT) of any other request about a path that no vertex has.
pub fn missing_path(path: &str) -> RpcError {
    refusal(errno::ENOENT, format!("Couldn't find '{path}' in resource graph"))
}

/// The error (EINVAL) of `set_status` to a value other than up or down.
pub fn unknown_status(status: &str) -> RpcError {
    refusal(errno::EINVAL, format!("unrecognized status '{status}'"))
}

/// The error (ENOENT) of `get_property` of a property that the vertex does not have.
pub fn missing_property(path: &str, key: &str) -> RpcError {
    refusal(errno::ENOENT, format!("Property '{key}' was not found for resource {path}"))
}

/// The request of a method; `None` for methods about other subjects.
///
/// # Errors
/// The payload is invalid for the method; the error is the answer.
pub fn vertex_request(method: &str, payload: &Value) -> Option<Result<VertexRequest, RpcError>> {
    Some(match method {
        "set_status" => set_status(payload).ok_or_else(|| refusal(errno::EINVAL, "malformed RPC")),
        "set_property" => set_property(payload),
        "remove_property" => {
            let found = || Some((paths(&payload["resource_path"])?, key(&payload["key"])?));
            let request = found().map(|(paths, key)| VertexRequest::RemoveProperty { paths, key });
            request.ok_or_else(unpackable)
        }
        "get_property" => {
            let found = || Some((path(&payload["gp_resource_path"])?, key(&payload["gp_key"])?));
            let request = found().map(|(path, key)| VertexRequest::GetProperty { path, key });
            request.ok_or_else(unpackable)
        }
        _ => return None,
    })
}

fn unpackable() -> RpcError {
    refusal(errno::EINVAL, "could not unpack payload")
}

fn set_status(payload: &Value) -> Option<VertexRequest> {
    let status = payload["status"].as_str()?.to_owned();
    Some(VertexRequest::SetStatus { path: path(&payload["resource_path"])?, status })
}

fn set_property(payload: &Value) -> Result<VertexRequest, RpcError> {
    let paths = paths(&payload["sp_resource_path"]).ok_or_else(unpackable)?;
    let both = payload["sp_keyval"].as_str().ok_or_else(unpackable)?;
    // The value may contain further equals signs.
    let parts = both.split_once('=').filter(|(key, value)| {
        (1..=KEY_LEN_MAX).contains(&key.len()) && (1..=VALUE_LEN_MAX).contains(&value.len())
    });
    let (key, value) = parts.ok_or_else(|| {
        refusal(errno::EINVAL, "Incorrect format, use set-property <resource> PROPERTY=VALUE")
    })?;
    Ok(VertexRequest::SetProperty { paths, key: key.to_owned(), value: value.to_owned() })
}

fn bounded(value: &Value, len_max: usize) -> Option<String> {
    value.as_str().filter(|text| text.len() <= len_max).map(str::to_owned)
}

fn path(value: &Value) -> Option<String> {
    bounded(value, PATH_LEN_MAX)
}

fn key(value: &Value) -> Option<String> {
    bounded(value, KEY_LEN_MAX)
}

/// One path, or an array of them.
fn paths(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Array(list) if list.len() <= PATHS_MAX => list.iter().map(path).collect(),
        one => path(one).map(|path| vec![path]),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(method: &str, payload: Value) -> Result<VertexRequest, (i32, String)> {
        vertex_request(method, &payload).unwrap().map_err(|error| (error.errnum, error.text))
    }

    #[test]
    fn site_59_60_a_status_is_read_and_anything_else_is_malformed() {
        let good = read("set_status", json!({"resource_path": "/a/b", "status": "odd"})).unwrap();
        assert_eq!(good, VertexRequest::SetStatus { path: "/a/b".into(), status: "odd".into() });
        for bad in [json!({}), json!(null), json!({"resource_path": 1, "status": "up"}), json!([])] {
            assert_eq!(read("set_status", bad).unwrap_err(), (22, "malformed RPC".to_owned()));
        }
        assert!(vertex_request("find", &json!({})).is_none());
    }

    #[test]
    fn site_59_61_62_63_75_properties_are_read() {
        let set = |path: Value, text: Value| {
            read("set_property", json!({"sp_resource_path": path, "sp_keyval": text}))
        };
        let request = |paths: &[&str], value: &str| {
            let paths = paths.iter().map(|path| (*path).to_owned()).collect();
            Ok(VertexRequest::SetProperty { paths, key: "k".into(), value: value.into() })
        };
        assert_eq!(set(json!("/a"), json!("k=v")), request(&["/a"], "v"));
        assert_eq!(set(json!(["/a", "/b"]), json!("k=v=w=")), request(&["/a", "/b"], "v=w="));
        let format = "Incorrect format, use set-property <resource> PROPERTY=VALUE";
        for bad in ["k", "=v", "k=", "", "="] {
            assert_eq!(set(json!("/a"), json!(bad)).unwrap_err(), (22, format.to_owned()), "{bad}");
        }
        for (path, text) in [(json!(1), json!("k=v")), (json!([1]), json!("k=v")), (json!("/a"), json!(1))] {
            assert_eq!(set(path, text).unwrap_err(), (22, "could not unpack payload".to_owned()));
        }
        let remove = read("remove_property", json!({"resource_path": ["/a"], "key": "k"}));
        let (paths, key) = (vec!["/a".to_owned()], "k".to_owned());
        assert_eq!(remove, Ok(VertexRequest::RemoveProperty { paths, key: key.clone() }));
        let get = read("get_property", json!({"gp_resource_path": "/a", "gp_key": "k"}));
        assert_eq!(get, Ok(VertexRequest::GetProperty { path: "/a".into(), key }));
        assert!(read("get_property", json!({"gp_resource_path": ["/a"], "gp_key": "k"})).is_err());
        assert!(read("remove_property", json!({"resource_path": "/a"})).is_err());
        let long = "x".repeat(PATH_LEN_MAX + 1);
        assert!(set(json!(long), json!("k=v")).is_err());
    }

    #[test]
    fn site_90_a_request_that_was_passed_on_has_its_first_topic() {
        let own = "sched-fluxion-qmanager";
        let topic = |topic: &'static str| passed_on(topic, own);
        let inner = "sched-fluxion-resource.set_status";
        assert_eq!(topic("sched-fluxion-qmanager.sched-fluxion-resource.set_status"), Some(inner));
        for other in [inner, "sched-fluxion-qmanager.stats-get", "sched-fluxion-qmanager.sched.alloc", own] {
            assert_eq!(topic(other), None, "{other}");
        }
    }

    #[test]
    fn site_58_guests_may_ask_for_counters_only() {
        for method in ["set_status", "set_property", "remove_property", "get_property", "status", "params"] {
            assert!(!is_for_guests(RESOURCE_SERVICE, method));
        }
        assert!(is_for_guests(RESOURCE_SERVICE, "stats-get") && is_for_guests(QUEUE_SERVICE, "params"));
        assert!(!is_for_guests("sched", "stats-get"));
    }
}
