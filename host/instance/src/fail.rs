//! The error type of all services: a number for programs, a text for users (RFC 6).

use fluxgate_wire::errno;

/// The reason why a request was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Fail {
    /// An error number, see [`errno`].
    pub errnum: i32,
    /// The text: field, value found, and values accepted.
    pub text: String,
}

impl Fail {
    /// A refusal with any error number and one line of text.
    pub fn new(errnum: i32, text: impl Into<String>) -> Self {
        Fail { errnum, text: text.into() }
    }

    /// EINVAL: readable, but not possible.
    pub fn invalid(text: impl Into<String>) -> Self {
        Fail::new(errno::EINVAL, text)
    }

    /// EPROTO: not readable.
    pub fn proto(text: impl Into<String>) -> Self {
        Fail::new(errno::EPROTO, text)
    }

    /// ENOENT: the object does not exist.
    pub fn missing(text: impl Into<String>) -> Self {
        Fail::new(errno::ENOENT, text)
    }

    /// EPERM: the user may not do this.
    pub fn denied(text: impl Into<String>) -> Self {
        Fail::new(errno::EPERM, text)
    }
}
