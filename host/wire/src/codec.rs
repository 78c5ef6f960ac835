//! Frames on a local socket (RFC 3 with the corrections of flux-core): bytes to messages and back.
//!
//! ```text
//! u32 0xffee0012 in HOST byte order | u32 size of the body, network order | body
//! body: parts, each  u8 length (<255) or 0xff + u32 length in network order, then that many bytes
//!       route*, empty delimiter (both iff flag route), topic, payload, PROTO (always last, 20 bytes)
//! ```
//!
//! The decoder is fed chunks of any size and keeps the incomplete rest. It allocates only for bytes that arrived, never
//! for an announced length. Every size has a bound in [`Limits`].
//!
//! This module knows neither sockets nor the meaning of a topic.

use crate::message::Message;
use crate::proto::{Flags, PROTO_SIZE, Proto, ProtoError};

/// First word of every frame, in host byte order.
pub const FRAME_MAGIC: u32 = 0xffee_0012;
/// Bytes before the body.
pub const FRAME_HEADER_SIZE: usize = 8;
/// Default of the largest body accepted, in bytes: the inventory of a large site with its graph has 210 MB.
pub const FRAME_SIZE_MAX: usize = 320 << 20;
/// Default of the maximum number of hops in a route stack.
pub const ROUTES_MAX: usize = 64;
/// Longest route part, in bytes; 36 in practice.
pub const ROUTE_LEN_MAX: usize = 255;
/// Longest topic, in bytes.
pub const TOPIC_LEN_MAX: usize = 255;
/// Parts of a message beside its routes: delimiter, topic, payload, PROTO.
const FIXED_PARTS: usize = 4;
/// A consumed prefix of the buffer longer than this is given up.
const COMPACT_AT: usize = 256 << 10;

/// The bounds of a decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Largest body in bytes, see [`FRAME_SIZE_MAX`].
    pub frame_size_max: usize,
    /// Maximum number of hops, see [`ROUTES_MAX`].
    pub routes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { frame_size_max: FRAME_SIZE_MAX, routes_max: ROUTES_MAX }
    }
}

/// The fault of bytes that are not a message. A stream cannot be resynchronised after any of these errors: close it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The frame does not begin with [`FRAME_MAGIC`].
    #[error("wrong frame magic {found:#010x} (0xffee0012 in host byte order begins each frame)")]
    WrongMagic {
        /// The first word found.
        found: u32,
    },
    /// The announced body exceeds the bound.
    #[error("frame of {size} bytes is too large (limit {limit})")]
    TooLarge {
        /// Announced size.
        size: u64,
        /// See [`Limits::frame_size_max`].
        limit: usize,
    },
    /// A part is announced longer than the rest of the body.
    #[error("truncated frame: part {part} at offset {offset} needs {need} bytes, {have} are left")]
    Truncated {
        /// Number of the part, from 0.
        part: usize,
        /// Offset of the part in the body.
        offset: usize,
        /// Bytes needed.
        need: usize,
        /// Bytes left.
        have: usize,
    },
    /// More parts than a message can have.
    #[error("more than {limit} parts in one frame")]
    TooManyParts {
        /// The bound, derived from [`Limits::routes_max`].
        limit: usize,
    },
    /// The PROTO part is missing or invalid.
    #[error(transparent)]
    Proto(#[from] ProtoError),
    /// The flags announce a part that is missing, or a topic that is empty; or the body is empty.
    #[error("the flags announce a {part} part, but there is none")]
    MissingPart {
        /// `delimiter`, `topic`, `payload` or `PROTO`.
        part: &'static str,
    },
    /// There are parts that the flags do not announce.
    #[error("{count} more parts than the flags announce")]
    ExtraParts {
        /// Number of these parts.
        count: usize,
    },
    /// The route stack is too deep.
    #[error("more than {limit} routes")]
    TooManyRoutes {
        /// See [`Limits::routes_max`].
        limit: usize,
    },
    /// A route or topic is too long.
    #[error("{part} of {len} bytes is too long (limit {limit})")]
    PartTooLong {
        /// `route` or `topic`.
        part: &'static str,
        /// Its length.
        len: usize,
        /// The bound.
        limit: usize,
    },
    /// A route or topic is not UTF-8.
    #[error("{part} is not text")]
    NotText {
        /// `route` or `topic`.
        part: &'static str,
    },
}

/// The fault of a message that cannot be encoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// Its body exceeds the bound.
    #[error("message {topic:?} of {size} bytes is too large (limit {limit})")]
    TooLarge {
        /// Its topic.
        topic: String,
        /// Size of its body, bytes.
        size: usize,
        /// The bound, bytes: [`Limits::frame_size_max`], or 2^32 - 1 if that is less.
        limit: usize,
    },
    /// A route or topic exceeds its bound or is empty; an empty route would read as the delimiter.
    #[error("{part} of {len} bytes can not be sent (1..=255 are accepted)")]
    BadPart {
        /// `route` or `topic`.
        part: &'static str,
        /// Its length.
        len: usize,
    },
}

fn put_part(out: &mut Vec<u8>, part: &[u8]) {
    // The caller has checked that the whole body fits in u32.
    let len = part.len();
    if len < 255 {
        out.push(len as u8);
    } else {
        out.push(0xff);
        out.extend_from_slice(&(len as u32).to_be_bytes());
    }
    out.extend_from_slice(part);
}

fn part_size(len: usize) -> usize {
    if len < 255 { 1 + len } else { 5 + len }
}

/// Appends the frame of a message to `out`; on an error nothing is appended. The number of routes is not bounded here.
///
/// # Errors
/// [`EncodeError`] for a body beyond the bound, and for a route or topic that cannot be sent.
pub fn encode_into(message: &Message, limits: &Limits, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let mut size = part_size(PROTO_SIZE);
    if let Some(routes) = &message.routes {
        for route in routes {
            if route.is_empty() || route.len() > ROUTE_LEN_MAX {
                return Err(EncodeError::BadPart { part: "route", len: route.len() });
            }
            size += part_size(route.len());
        }
        size += 1;
    }
    if let Some(topic) = &message.topic {
        if topic.is_empty() || topic.len() > TOPIC_LEN_MAX {
            return Err(EncodeError::BadPart { part: "topic", len: topic.len() });
        }
        size += part_size(topic.len());
    }
    if let Some(payload) = &message.payload {
        size += part_size(payload.len());
    }
    let limit = limits.frame_size_max.min(u32::MAX as usize);
    if size > limit {
        return Err(EncodeError::TooLarge { topic: message.topic().to_owned(), size, limit });
    }
    out.reserve(FRAME_HEADER_SIZE + size);
    out.extend_from_slice(&FRAME_MAGIC.to_ne_bytes());
    out.extend_from_slice(&(size as u32).to_be_bytes());
    if let Some(routes) = &message.routes {
        for route in routes {
            put_part(out, route.as_bytes());
        }
        put_part(out, &[]);
    }
    if let Some(topic) = &message.topic {
        put_part(out, topic.as_bytes());
    }
    if let Some(payload) = &message.payload {
        put_part(out, payload);
    }
    put_part(out, &message.proto().encode());
    Ok(())
}

/// The frame of a message with the default limits.
///
/// # Errors
/// As [`encode_into`].
pub fn encode(message: &Message) -> Result<Vec<u8>, EncodeError> {
    let mut out = Vec::new();
    encode_into(message, &Limits::default(), &mut out)?;
    Ok(out)
}

fn text(part: &'static str, bytes: &[u8], limit: usize) -> Result<String, DecodeError> {
    if bytes.len() > limit {
        return Err(DecodeError::PartTooLong { part, len: bytes.len(), limit });
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(DecodeError::NotText { part }),
    }
}

/// Reads the body of a frame, without its eight header bytes. Its size is not bounded here.
///
/// # Errors
/// [`DecodeError`] for any body that is not exactly one message within the limits.
pub fn decode_body(body: &[u8], limits: &Limits) -> Result<Message, DecodeError> {
    let parts_max = limits.routes_max + FIXED_PARTS;
    let mut parts: Vec<&[u8]> = Vec::with_capacity(8);
    let mut at = 0;
    while at < body.len() {
        if parts.len() == parts_max {
            return Err(DecodeError::TooManyParts { limit: parts_max });
        }
        let rest = &body[at..];
        let truncated =
            |need: usize| DecodeError::Truncated { part: parts.len(), offset: at, need, have: rest.len() };
        let (len, head) = match rest {
            [0xff, a, b, c, d, ..] => (u32::from_be_bytes([*a, *b, *c, *d]) as usize, 5),
            [0xff, ..] => return Err(truncated(5)),
            [len, ..] => (usize::from(*len), 1),
            [] => break,
        };
        let end = head + len;
        parts.push(rest.get(head..end).ok_or_else(|| truncated(end))?);
        at += end;
    }
    let proto = Proto::decode(parts.pop().ok_or(DecodeError::MissingPart { part: "PROTO" })?)?;
    let mut parts = parts.into_iter();
    let mut take = |part| parts.next().ok_or(DecodeError::MissingPart { part });
    let mut routes = None;
    if proto.flags.contains(Flags::ROUTE) {
        let mut stack = Vec::new();
        loop {
            let part = take("delimiter")?;
            if part.is_empty() {
                break;
            }
            if stack.len() == limits.routes_max {
                return Err(DecodeError::TooManyRoutes { limit: limits.routes_max });
            }
            stack.push(text("route", part, ROUTE_LEN_MAX)?);
        }
        routes = Some(stack);
    }
    let mut topic = None;
    if proto.flags.contains(Flags::TOPIC) {
        let part = take("topic")?;
        if part.is_empty() {
            return Err(DecodeError::MissingPart { part: "topic" });
        }
        topic = Some(text("topic", part, TOPIC_LEN_MAX)?);
    }
    let mut payload = None;
    if proto.flags.contains(Flags::PAYLOAD) {
        payload = Some(take("payload")?.to_vec());
    }
    match parts.count() {
        0 => Ok(Message {
            kind: Message::kind_of(&proto),
            flags: proto.flags.without(Flags::STRUCTURE),
            userid: proto.userid,
            rolemask: proto.rolemask,
            routes,
            topic,
            payload,
        }),
        count => Err(DecodeError::ExtraParts { count }),
    }
}

/// Turns a stream of bytes into messages.
///
/// ```
/// use fluxgate_wire::codec::{Decoder, encode};
/// use fluxgate_wire::message::Message;
///
/// let frame = encode(&Message::request("sched.free")).unwrap();
/// let mut decoder = Decoder::default();
/// decoder.push(&frame[..9]);
/// assert!(decoder.next_message().unwrap().is_none());
/// decoder.push(&frame[9..]);
/// assert_eq!(decoder.next_message().unwrap().unwrap().topic(), "sched.free");
/// ```
#[derive(Debug, Default)]
pub struct Decoder {
    limits: Limits,
    buffer: Vec<u8>,
    start: usize,
    failed: Option<DecodeError>,
}

impl Decoder {
    /// A decoder with these bounds.
    pub fn new(limits: Limits) -> Self {
        Decoder { limits, ..Decoder::default() }
    }

    /// Feeds bytes, in order, in chunks of any size. After an error they are ignored.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.failed.is_none() {
            self.buffer.extend_from_slice(bytes);
        }
    }

    /// The next complete message, `None` when more bytes are needed.
    ///
    /// # Errors
    /// [`DecodeError`], which is final: each later call returns the same one.
    pub fn next_message(&mut self) -> Result<Option<Message>, DecodeError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let result = self.read();
        if let Err(error) = &result {
            self.failed = Some(error.clone());
            self.buffer = Vec::new();
            self.start = 0;
        }
        result
    }

    /// Bytes fed but not yet returned as messages; 0 after an error. A number above 0 at the end of a stream means that it was cut off.
    pub fn pending(&self) -> usize {
        self.buffer.len() - self.start
    }

    fn read(&mut self) -> Result<Option<Message>, DecodeError> {
        let rest = &self.buffer[self.start..];
        let [m0, m1, m2, m3, tail @ ..] = rest else { return Ok(None) };
        // The magic is checked as soon as it has arrived: an invalid peer need not send eight bytes.
        let found = u32::from_ne_bytes([*m0, *m1, *m2, *m3]);
        if found != FRAME_MAGIC {
            return Err(DecodeError::WrongMagic { found });
        }
        let [s0, s1, s2, s3, body @ ..] = tail else { return Ok(None) };
        let announced = u32::from_be_bytes([*s0, *s1, *s2, *s3]);
        let limit = self.limits.frame_size_max;
        let size = usize::try_from(announced).unwrap_or(usize::MAX);
        if size > limit {
            return Err(DecodeError::TooLarge { size: announced.into(), limit });
        }
        let Some(body) = body.get(..size) else { return Ok(None) };
        let message = decode_body(body, &self.limits)?;
        self.start += FRAME_HEADER_SIZE + size;
        if self.start == self.buffer.len() {
            self.buffer.clear();
            self.buffer.shrink_to(COMPACT_AT);
            self.start = 0;
        } else if self.start > COMPACT_AT && self.start * 2 > self.buffer.len() {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        Ok(Some(message))
    }
}
