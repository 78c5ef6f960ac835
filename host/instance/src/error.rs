//! The errors that prevent the start of an instance, or end it.

use fluxgate_wire::server::ListenError;

use crate::fail::Fail;
use crate::store::StoreError;

/// The reason why an instance does not start, or ends.
#[derive(Debug, thiserror::Error)]
pub enum InstanceError {
    /// The configuration, or the content of the database, is invalid.
    #[error("{0}")]
    Config(#[from] Fail),
    /// The database or its folder cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The socket cannot be opened.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The thread could not be started, or died.
    #[error("the thread of the instance: {0}")]
    Thread(String),
}
