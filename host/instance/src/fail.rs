//! The one error that services answer with: a number for programs, a text for people (RFC 6).

use fluxgate_wire::errno;

/// Why a request was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Fail {
    /// See [`errno`].
    pub errnum: i32,
    /// For people. Names the field, what was found, and what is accepted.
    pub text: String,
}

impl Fail {
    /// Any number.
    pub fn new(errnum: i32, text: impl Into<String>) -> Self {
        Fail { errnum, text: text.into() }
    }

    /// EINVAL: understood, but not possible.
    pub fn invalid(text: impl Into<String>) -> Self {
        Fail::new(errno::EINVAL, text)
    }

    /// EPROTO: not understood.
    pub fn proto(text: impl Into<String>) -> Self {
        Fail::new(errno::EPROTO, text)
    }

    /// ENOENT: no such thing.
    pub fn missing(text: impl Into<String>) -> Self {
        Fail::new(errno::ENOENT, text)
    }

    /// EPERM: not for you.
    pub fn denied(text: impl Into<String>) -> Self {
        Fail::new(errno::EPERM, text)
    }
}
