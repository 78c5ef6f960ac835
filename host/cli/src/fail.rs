//! How the binary ends: 0 success, 1 failure, 2 usage.

/// An error in the arguments, for exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);

/// A usage error.
pub(crate) fn usage(text: impl Into<String>) -> anyhow::Error {
    Usage(text.into()).into()
}

/// The exit code of an error.
pub(crate) fn code(error: &anyhow::Error) -> u8 {
    if error.downcast_ref::<Usage>().is_some() { 2 } else { 1 }
}
