//! The fixed part of every message (RFC 3, PROTO): its type, flags, credentials and two type-dependent words.
//!
//! This module knows numbers only, not the meaning of a topic or a payload.

use std::fmt;

/// Length of an encoded [`Proto`].
pub const PROTO_SIZE: usize = 20;
/// First byte of an encoded [`Proto`].
pub const PROTO_MAGIC: u8 = 0x8e;
/// Second byte of an encoded [`Proto`], the protocol version.
pub const PROTO_VERSION: u8 = 1;
/// The nodeid of a request to the nearest rank that offers the service.
pub const NODEID_ANY: u32 = 0xffff_ffff;
/// The userid "unknown": the router fills it in from the connection (RFC 12).
pub const USERID_UNKNOWN: u32 = 0xffff_ffff;

/// Role bits of RFC 12.
pub mod role {
    /// No role: the router fills the roles in from the connection.
    pub const NONE: u32 = 0;
    /// The owner of the instance: may do everything.
    pub const OWNER: u32 = 1;
    /// A guest.
    pub const USER: u32 = 2;
    /// The message came over a local connection.
    pub const LOCAL: u32 = 4;
    /// An administrator, as the broker names them.
    pub const ADMIN: u32 = 8;
}

/// The type byte. Exactly one of the four bits is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum MessageType {
    /// A remote procedure call.
    Request = 1,
    /// An answer to one.
    Response = 2,
    /// A published event.
    Event = 4,
    /// Broker to broker; schedulers have no use for it.
    Control = 8,
}

impl MessageType {
    /// The type with this number on the wire; `None` for a number that is none of 1, 2, 4 and 8.
    pub fn from_u8(value: u8) -> Option<Self> {
        match value {
            1 => Some(MessageType::Request),
            2 => Some(MessageType::Response),
            4 => Some(MessageType::Event),
            8 => Some(MessageType::Control),
            _ => None,
        }
    }
}

/// The flag byte of RFC 3.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// No flag.
    pub const NONE: Flags = Flags(0);
    /// There is a topic part.
    pub const TOPIC: Flags = Flags(0x01);
    /// There is a payload part.
    pub const PAYLOAD: Flags = Flags(0x02);
    /// The request must not be answered.
    pub const NORESPONSE: Flags = Flags(0x04);
    /// There is a route stack with its delimiter.
    pub const ROUTE: Flags = Flags(0x08);
    /// The request goes to the parent of the sender.
    pub const UPSTREAM: Flags = Flags(0x10);
    /// The event is for the owner and the user it names.
    pub const PRIVATE: Flags = Flags(0x20);
    /// A request with this flag accepts any number of responses. A response with it may be followed by others.
    pub const STREAMING: Flags = Flags(0x40);
    /// Free for use by applications.
    pub const USER1: Flags = Flags(0x80);
    /// The flags that follow from which parts a message has.
    pub const STRUCTURE: Flags = Flags(0x01 | 0x02 | 0x08);

    /// True if all bits of `other` are set.
    pub fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// These flags and `other`.
    #[must_use]
    pub fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// These flags except `other`.
    #[must_use]
    pub fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 8] =
            ["topic", "payload", "noresponse", "route", "upstream", "private", "streaming", "user1"];
        let set = NAMES.iter().enumerate().filter(|(bit, _)| self.0 & (1 << bit) != 0);
        f.write_str(&set.map(|(_, name)| *name).collect::<Vec<_>>().join("|"))
    }
}

/// The PROTO part, numbers in host order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proto {
    /// The message type.
    pub kind: MessageType,
    /// All flags, including the structural ones.
    pub flags: Flags,
    /// User id of the sender, [`USERID_UNKNOWN`] to have it filled in.
    pub userid: u32,
    /// Roles of the sender, see [`role`].
    pub rolemask: u32,
    /// Request: nodeid. Response: errnum. Event: sequence. Control: type.
    pub aux1: u32,
    /// Request and response: matchtag. Event: 0. Control: status.
    pub aux2: u32,
}

/// The fault of bytes that are not a PROTO part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProtoError {
    /// The length is wrong.
    #[error("the PROTO part has {found} bytes instead of 20")]
    Length {
        /// The length found, bytes.
        found: usize,
    },
    /// The first byte is wrong.
    #[error("the PROTO part begins with {found:#04x} instead of 0x8e")]
    Magic {
        /// The byte found.
        found: u8,
    },
    /// The version is not supported.
    #[error("the PROTO part has version {found} instead of 1")]
    Version {
        /// The version found.
        found: u8,
    },
    /// The type byte is none of 1, 2, 4 and 8.
    #[error("unknown message type {found} (request is 1, response 2, event 4, control 8)")]
    Type {
        /// The type byte.
        found: u8,
    },
}

impl Proto {
    /// The twenty bytes of the wire, numbers in network order.
    pub fn encode(&self) -> [u8; PROTO_SIZE] {
        let mut out = [0; PROTO_SIZE];
        out[0] = PROTO_MAGIC;
        out[1] = PROTO_VERSION;
        out[2] = self.kind as u8;
        out[3] = self.flags.0;
        out[4..8].copy_from_slice(&self.userid.to_be_bytes());
        out[8..12].copy_from_slice(&self.rolemask.to_be_bytes());
        out[12..16].copy_from_slice(&self.aux1.to_be_bytes());
        out[16..20].copy_from_slice(&self.aux2.to_be_bytes());
        out
    }

    /// Reads a PROTO part. Flags, user id, roles and the two words are not checked.
    ///
    /// # Errors
    /// [`ProtoError`] for another length, first byte, version or type.
    pub fn decode(part: &[u8]) -> Result<Self, ProtoError> {
        let part: &[u8; PROTO_SIZE] =
            part.try_into().map_err(|_| ProtoError::Length { found: part.len() })?;
        if part[0] != PROTO_MAGIC {
            return Err(ProtoError::Magic { found: part[0] });
        }
        if part[1] != PROTO_VERSION {
            return Err(ProtoError::Version { found: part[1] });
        }
        let word = |at: usize| u32::from_be_bytes([part[at], part[at + 1], part[at + 2], part[at + 3]]);
        Ok(Proto {
            kind: MessageType::from_u8(part[2]).ok_or(ProtoError::Type { found: part[2] })?,
            flags: Flags(part[3]),
            userid: word(4),
            rolemask: word(8),
            aux1: word(12),
            aux2: word(16),
        })
    }
}

/// Error numbers as they cross the wire (Linux values; RFC 3 and RFC 6 disagree about ENOSYS, 38 is right).
pub mod errno {
    macro_rules! table {
        ($($name:ident = $value:literal, $text:literal;)*) => {
            $(#[doc = $text] pub const $name: i32 = $value;)*
            const TABLE: &[(i32, &str, &str)] = &[$(($value, stringify!($name), $text)),*];
        };
    }
    table! {
        EPERM = 1, "operation not permitted";
        ENOENT = 2, "no such file or directory";
        EINTR = 4, "interrupted";
        EIO = 5, "input/output error";
        EAGAIN = 11, "resource temporarily unavailable";
        ENOMEM = 12, "cannot allocate memory";
        EACCES = 13, "permission denied";
        EBUSY = 16, "device or resource busy";
        EEXIST = 17, "file exists";
        ENODEV = 19, "no such device";
        ENOTDIR = 20, "not a directory";
        EISDIR = 21, "is a directory";
        EINVAL = 22, "invalid argument";
        EFBIG = 27, "file too large";
        ENOSPC = 28, "no space left on device";
        EROFS = 30, "read-only file system";
        EPIPE = 32, "broken pipe";
        ERANGE = 34, "numerical result out of range";
        EDEADLK = 35, "resource deadlock avoided";
        ENOSYS = 38, "function not implemented";
        ENODATA = 61, "no data available";
        ETIME = 62, "timer expired";
        EPROTO = 71, "protocol error";
        EOVERFLOW = 75, "value too large for defined data type";
        EOPNOTSUPP = 95, "operation not supported";
        EADDRINUSE = 98, "address already in use";
        ECONNRESET = 104, "connection reset by peer";
        ETIMEDOUT = 110, "connection timed out";
        ECONNREFUSED = 111, "connection refused";
        EHOSTUNREACH = 113, "no route to host";
        EALREADY = 114, "operation already in progress";
        ECANCELED = 125, "operation canceled";
    }

    /// The name of an error number, for instance `ENOSYS`; `None` for a number that is not in this module.
    pub fn name(errnum: i32) -> Option<&'static str> {
        TABLE.iter().find(|row| row.0 == errnum).map(|row| row.1)
    }

    /// The number of an error name; `None` for a name that is not in this module.
    pub fn number(name: &str) -> Option<i32> {
        TABLE.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    /// The number for display: `function not implemented (ENOSYS)`, or `error 4711`.
    pub fn describe(errnum: i32) -> String {
        match TABLE.iter().find(|row| row.0 == errnum) {
            Some((_, name, text)) => format!("{text} ({name})"),
            None => format!("error {errnum}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r3_1_proto_round_trips_and_refuses() {
        let proto = Proto {
            kind: MessageType::Request,
            flags: Flags::TOPIC.with(Flags::PAYLOAD).with(Flags::ROUTE),
            userid: USERID_UNKNOWN,
            rolemask: 0,
            aux1: NODEID_ANY,
            aux2: 1,
        };
        let bytes = proto.encode();
        assert_eq!(bytes[..4], [0x8e, 1, 1, 0x0b]);
        assert_eq!(Proto::decode(&bytes), Ok(proto));
        assert_eq!(Proto::decode(&bytes[..19]), Err(ProtoError::Length { found: 19 }));
        let mut bad = bytes;
        bad[0] = 0x8f;
        assert_eq!(Proto::decode(&bad), Err(ProtoError::Magic { found: 0x8f }));
        bad = bytes;
        bad[1] = 2;
        assert_eq!(Proto::decode(&bad), Err(ProtoError::Version { found: 2 }));
        bad = bytes;
        bad[2] = 3;
        assert_eq!(Proto::decode(&bad), Err(ProtoError::Type { found: 3 }));
    }

    #[test]
    fn r3_e_enosys_is_38() {
        assert_eq!(errno::ENOSYS, 38);
        assert_eq!(errno::name(38), Some("ENOSYS"));
        assert_eq!(errno::number("ECANCELED"), Some(125));
        assert_eq!(errno::describe(38), "function not implemented (ENOSYS)");
        assert_eq!(errno::describe(4711), "error 4711");
    }

    #[test]
    fn flags_print_their_names() {
        assert_eq!(format!("{:?}", Flags(0x45)), "topic|noresponse|streaming");
        assert_eq!(Flags(0x45).without(Flags::TOPIC), Flags(0x44));
    }
}
