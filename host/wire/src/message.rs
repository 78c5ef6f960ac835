//! RFC 3 messages as the other modules use them: typed, with builders, always consistent.
//!
//! The flags for topic, payload and routes follow from the parts that a message has, so flags and parts never disagree.
//! Payloads stay raw bytes until they are decoded.
//!
//! This module knows neither sockets nor scheduling.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::proto::{Flags, MessageType, NODEID_ANY, Proto, USERID_UNKNOWN, role};

/// The fields that depend on the message type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A remote procedure call.
    Request {
        /// The destination rank, [`NODEID_ANY`] for the nearest.
        nodeid: u32,
        /// The sender's number for the answers; 0 when it matches them in another way.
        matchtag: u32,
    },
    /// An answer.
    Response {
        /// 0 for success, or an error number.
        errnum: u32,
        /// Copied from the request.
        matchtag: u32,
    },
    /// A published event.
    Event {
        /// Number in the sequence of all events.
        sequence: u32,
    },
    /// A message between brokers.
    Control {
        /// Control type.
        type_: u32,
        /// Status.
        status: u32,
    },
}

/// One RFC 3 message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The message type with its two words.
    pub kind: Kind,
    /// Flags other than the structural ones: noresponse, upstream, private, streaming, user1.
    pub flags: Flags,
    /// User id of the sender; [`USERID_UNKNOWN`] to have the router fill it in.
    pub userid: u32,
    /// Roles of the sender, see [`role`].
    pub rolemask: u32,
    /// The route stack in wire order: the last hop first, the original sender last. `None` without the route flag.
    pub routes: Option<Vec<String>>,
    /// `service.method`, or the name of an event; `None` without a topic part.
    pub topic: Option<String>,
    /// The payload with its trailing NUL, if the sender wrote one; `None` without a payload part.
    pub payload: Option<Vec<u8>>,
}

/// The fault of a payload that is not as expected. Display is one line without the payload itself.
#[derive(Debug, thiserror::Error)]
pub enum PayloadError {
    /// The message has no payload.
    #[error("no payload, but a JSON object is expected")]
    Missing,
    /// No JSON, or not of the expected form; the text gives the place.
    #[error("bad JSON payload: {0}")]
    Json(#[from] serde_json::Error),
    /// JSON, but no object (RFC 3).
    #[error("the payload is {0} instead of a JSON object")]
    NotObject(&'static str),
}

/// The parts of a request that a later answer needs, without its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplyTo {
    flags: Flags,
    userid: u32,
    matchtag: u32,
    back: Arc<Back>,
}

/// Where an answer goes.
#[derive(Debug, PartialEq, Eq)]
struct Back {
    routes: Option<Vec<String>>,
    topic: Option<String>,
}

impl ReplyTo {
    /// Holds routes and topic together with another one, if they are equal. Requests of one client to one service are, and
    /// a hundred thousand of them may wait for their answers.
    pub fn share(&mut self, other: &ReplyTo) {
        if self.back == other.back {
            self.back = Arc::clone(&other.back);
        }
    }

    /// A success response without payload.
    pub fn ok(&self) -> Message {
        Message {
            kind: Kind::Response { errnum: 0, matchtag: self.matchtag },
            flags: self.flags,
            userid: USERID_UNKNOWN,
            rolemask: role::NONE,
            routes: self.back.routes.clone(),
            topic: self.back.topic.clone(),
            payload: None,
        }
    }

    /// A success response with a JSON payload.
    pub fn json(&self, payload: &Value) -> Message {
        self.ok().with_json(payload)
    }

    /// An error response; an empty text is left out. A negative number is sent without its sign.
    pub fn error(&self, errnum: i32, text: &str) -> Message {
        let mut message = self.ok();
        message.kind = Kind::Response { errnum: errnum.unsigned_abs(), matchtag: self.matchtag };
        if text.is_empty() { message } else { message.with_text(text) }
    }

    /// True if the request permits an answer.
    pub fn wants_response(&self) -> bool {
        !self.flags.contains(Flags::NORESPONSE)
    }

    /// True if the request asks for any number of responses.
    pub fn is_streaming(&self) -> bool {
        self.flags.contains(Flags::STREAMING)
    }

    /// The original sender: the route nearest the delimiter (RFC 6). `None` without routes.
    pub fn sender(&self) -> Option<&str> {
        self.back.routes.as_ref()?.last().map(String::as_str)
    }

    /// User id of the sender. The broker vouches for it, unlike for routes, which the sender writes.
    pub fn userid(&self) -> u32 {
        self.userid
    }

    /// The matchtag of the request; unique for its sender only.
    pub fn matchtag(&self) -> u32 {
        self.matchtag
    }

    /// The topic of the request, empty when there is none.
    pub fn topic(&self) -> &str {
        self.back.topic.as_deref().unwrap_or("")
    }
}

impl Message {
    fn new(kind: Kind, topic: &str) -> Self {
        Message {
            kind,
            flags: Flags::NONE,
            userid: USERID_UNKNOWN,
            rolemask: role::NONE,
            routes: Some(Vec::new()),
            topic: Some(topic.to_owned()),
            payload: None,
        }
    }

    /// A request to the nearest rank that offers the service, with matchtag 0 and an empty route stack.
    pub fn request(topic: &str) -> Self {
        Message::new(Kind::Request { nodeid: NODEID_ANY, matchtag: 0 }, topic)
    }

    /// An event with this number in the sequence of all events, and an empty route stack.
    pub fn event(topic: &str, sequence: u32) -> Self {
        Message::new(Kind::Event { sequence }, topic)
    }

    /// The same with a JSON payload and its NUL.
    #[must_use]
    pub fn with_json(self, payload: &Value) -> Self {
        self.with_text(&payload.to_string())
    }

    /// The same with a text payload and its NUL.
    #[must_use]
    pub fn with_text(self, text: &str) -> Self {
        let mut bytes = Vec::with_capacity(text.len() + 1);
        bytes.extend_from_slice(text.as_bytes());
        bytes.push(0);
        self.with_payload(bytes)
    }

    /// The same with these bytes as payload.
    #[must_use]
    pub fn with_payload(mut self, bytes: Vec<u8>) -> Self {
        self.payload = Some(bytes);
        self
    }

    /// The same with a matchtag. Events and control messages have none and are unchanged.
    #[must_use]
    pub fn with_matchtag(mut self, tag: u32) -> Self {
        match &mut self.kind {
            Kind::Request { matchtag, .. } | Kind::Response { matchtag, .. } => *matchtag = tag,
            Kind::Event { .. } | Kind::Control { .. } => {}
        }
        self
    }

    /// The same to one rank. Only a request is changed.
    #[must_use]
    pub fn with_nodeid(mut self, rank: u32) -> Self {
        if let Kind::Request { nodeid, .. } = &mut self.kind {
            *nodeid = rank;
        }
        self
    }

    /// The same with more flags; structural flags are ignored.
    #[must_use]
    pub fn with_flags(mut self, flags: Flags) -> Self {
        self.flags = self.flags.with(flags.without(Flags::STRUCTURE));
        self
    }

    /// The same, asking for any number of responses.
    #[must_use]
    pub fn streaming(self) -> Self {
        self.with_flags(Flags::STREAMING)
    }

    /// The same, without an answer. The matchtag becomes 0.
    #[must_use]
    pub fn noresponse(self) -> Self {
        self.with_flags(Flags::NORESPONSE).with_matchtag(0)
    }

    /// A success response to this request without payload: flags, routes, topic and matchtag are copied.
    pub fn respond(&self) -> Message {
        self.reply_to().ok()
    }

    /// A success response with a JSON payload.
    pub fn respond_json(&self, payload: &Value) -> Message {
        self.reply_to().json(payload)
    }

    /// An error response; an empty text is left out. A negative number is sent without its sign.
    pub fn respond_error(&self, errnum: i32, text: &str) -> Message {
        self.reply_to().error(errnum, text)
    }

    /// The parts that a later answer needs.
    pub fn reply_to(&self) -> ReplyTo {
        ReplyTo {
            flags: self.flags,
            userid: self.userid,
            matchtag: self.matchtag(),
            back: Arc::new(Back { routes: self.routes.clone(), topic: self.topic.clone() }),
        }
    }

    /// The message type.
    pub fn message_type(&self) -> MessageType {
        match self.kind {
            Kind::Request { .. } => MessageType::Request,
            Kind::Response { .. } => MessageType::Response,
            Kind::Event { .. } => MessageType::Event,
            Kind::Control { .. } => MessageType::Control,
        }
    }

    /// True for a request.
    pub fn is_request(&self) -> bool {
        matches!(self.kind, Kind::Request { .. })
    }

    /// True for a response.
    pub fn is_response(&self) -> bool {
        matches!(self.kind, Kind::Response { .. })
    }

    /// The topic, empty when there is none.
    pub fn topic(&self) -> &str {
        self.topic.as_deref().unwrap_or("")
    }

    /// The matchtag of a request or response, else 0.
    pub fn matchtag(&self) -> u32 {
        match self.kind {
            Kind::Request { matchtag, .. } | Kind::Response { matchtag, .. } => matchtag,
            Kind::Event { .. } | Kind::Control { .. } => 0,
        }
    }

    /// The error number of a response, else 0. Numbers beyond `i32` read as `i32::MAX`.
    pub fn errnum(&self) -> i32 {
        match self.kind {
            Kind::Response { errnum, .. } => i32::try_from(errnum).unwrap_or(i32::MAX),
            _ => 0,
        }
    }

    /// True if the streaming flag is set.
    pub fn is_streaming(&self) -> bool {
        self.flags.contains(Flags::STREAMING)
    }

    /// True if the sender expects an answer.
    pub fn wants_response(&self) -> bool {
        self.is_request() && !self.flags.contains(Flags::NORESPONSE)
    }

    /// True if it was sent with the role of the owner or of an administrator (RFC 12). Both may see everything.
    pub fn is_from_admin(&self) -> bool {
        self.rolemask & (role::OWNER | role::ADMIN) != 0
    }

    /// True if it was sent with the owner's role (RFC 12).
    pub fn is_from_owner(&self) -> bool {
        self.rolemask & role::OWNER != 0
    }

    /// The original sender: the route nearest the delimiter (RFC 6). `None` without routes.
    pub fn sender(&self) -> Option<&str> {
        self.routes.as_ref()?.last().map(String::as_str)
    }

    /// Adds a hop, as a router does with each request that passes.
    pub fn push_route(&mut self, hop: &str) {
        self.routes.get_or_insert_default().insert(0, hop.to_owned());
    }

    /// Removes the latest hop, as a router does with each response that passes. `None` for an empty or missing stack.
    pub fn pop_route(&mut self) -> Option<String> {
        let routes = self.routes.as_mut()?;
        if routes.is_empty() { None } else { Some(routes.remove(0)) }
    }

    /// The payload without its trailing NUL; `None` without a payload part.
    pub fn payload_bytes(&self) -> Option<&[u8]> {
        let bytes = self.payload.as_deref()?;
        Some(bytes.strip_suffix(&[0]).unwrap_or(bytes))
    }

    /// The payload as text, for instance that of an error response; `None` without a payload, and for bytes that are not UTF-8.
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(self.payload_bytes()?).ok()
    }

    /// The payload as a JSON object (RFC 3).
    ///
    /// # Errors
    /// [`PayloadError`] without a payload, and for a payload that is no JSON or no object.
    pub fn json(&self) -> Result<Value, PayloadError> {
        let bytes = self.payload_bytes().ok_or(PayloadError::Missing)?;
        let value: Value = serde_json::from_slice(bytes)?;
        match value {
            Value::Object(_) => Ok(value),
            Value::Null => Err(PayloadError::NotObject("null")),
            Value::Bool(_) => Err(PayloadError::NotObject("a boolean")),
            Value::Number(_) => Err(PayloadError::NotObject("a number")),
            Value::String(_) => Err(PayloadError::NotObject("a string")),
            Value::Array(_) => Err(PayloadError::NotObject("an array")),
        }
    }

    /// The payload as a JSON object; a missing or empty payload reads as `{}`.
    ///
    /// # Errors
    /// [`PayloadError`] for a payload that is no JSON or no object.
    pub fn json_or_empty(&self) -> Result<Value, PayloadError> {
        match self.payload_bytes() {
            None | Some([]) => Ok(Value::Object(serde_json::Map::new())),
            Some(_) => self.json(),
        }
    }

    /// The payload decoded as a type, which need not be an object.
    ///
    /// # Errors
    /// [`PayloadError`] without a payload, and for JSON that the type does not accept.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, PayloadError> {
        let bytes = self.payload_bytes().ok_or(PayloadError::Missing)?;
        Ok(serde_json::from_slice(bytes)?)
    }

    pub(crate) fn proto(&self) -> Proto {
        let mut flags = self.flags.without(Flags::STRUCTURE);
        for (there, flag) in [
            (self.topic.is_some(), Flags::TOPIC),
            (self.payload.is_some(), Flags::PAYLOAD),
            (self.routes.is_some(), Flags::ROUTE),
        ] {
            if there {
                flags = flags.with(flag);
            }
        }
        let (aux1, aux2) = match self.kind {
            Kind::Request { nodeid, matchtag } => (nodeid, matchtag),
            Kind::Response { errnum, matchtag } => (errnum, matchtag),
            Kind::Event { sequence } => (sequence, 0),
            Kind::Control { type_, status } => (type_, status),
        };
        let (userid, rolemask) = (self.userid, self.rolemask);
        Proto { kind: self.message_type(), flags, userid, rolemask, aux1, aux2 }
    }

    pub(crate) fn kind_of(proto: &Proto) -> Kind {
        let (aux1, aux2) = (proto.aux1, proto.aux2);
        match proto.kind {
            MessageType::Request => Kind::Request { nodeid: aux1, matchtag: aux2 },
            MessageType::Response => Kind::Response { errnum: aux1, matchtag: aux2 },
            MessageType::Event => Kind::Event { sequence: aux1 },
            MessageType::Control => Kind::Control { type_: aux1, status: aux2 },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn r3_3_a_response_copies_routes_topic_matchtag_and_flags() {
        let mut request = Message::request("sched.alloc").with_json(&json!({"id": 1})).with_matchtag(7);
        request.push_route("jm");
        request.push_route("broker");
        request = request.with_flags(Flags::STREAMING);
        let response = request.respond_error(38, "nobody home");
        assert_eq!(response.kind, Kind::Response { errnum: 38, matchtag: 7 });
        assert_eq!(response.routes.as_deref(), Some(&["broker".to_owned(), "jm".to_owned()][..]));
        assert_eq!(response.sender(), Some("jm"));
        assert_eq!(response.topic(), "sched.alloc");
        assert!(response.is_streaming());
        assert_eq!(response.text(), Some("nobody home"));
        assert_eq!(response.payload.as_deref(), Some(&b"nobody home\0"[..]));
        assert_eq!((response.userid, response.rolemask), (USERID_UNKNOWN, 0));
        assert!(request.respond().payload.is_none());
    }

    #[test]
    fn r3_5_json_payloads_end_in_nul_but_need_not() {
        let message = Message::request("a.b").with_json(&json!({"k": 1}));
        assert_eq!(message.payload.as_deref(), Some(&b"{\"k\":1}\0"[..]));
        let bare = Message::request("a.b").with_payload(b"{\"k\":1}".to_vec());
        assert_eq!(bare.json().unwrap(), message.json().unwrap());
        assert!(matches!(Message::request("a.b").json(), Err(PayloadError::Missing)));
        assert_eq!(Message::request("a.b").json_or_empty().unwrap(), json!({}));
        let list = Message::request("a.b").with_text("[1]");
        assert_eq!(list.json().unwrap_err().to_string(), "the payload is an array instead of a JSON object");
        let cut = Message::request("a.b").with_text("{\"k\":");
        assert!(cut.json().unwrap_err().to_string().contains("column"));
    }

    #[test]
    fn noresponse_clears_the_matchtag() {
        let message = Message::request("log.append").with_matchtag(3).noresponse();
        assert_eq!(message.matchtag(), 0);
        assert!(!message.wants_response());
    }
}
