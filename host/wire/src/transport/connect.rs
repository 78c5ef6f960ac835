//! The connecting side: finding the socket, admission, and errors with their reason.

use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::time::Instant;

use super::{Connection, Options};
use crate::proto::errno;

/// Maximum wait for the peer's authentication byte.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time for which a full backlog is retried (the broker's backlog is 5).
pub const BACKLOG_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest path of a UNIX socket on Linux, without the final NUL.
pub const SOCKET_PATH_MAX: usize = 107;
/// First pause before another attempt to connect; doubles up to [`RETRY_PAUSE_MAX`].
const RETRY_PAUSE: Duration = Duration::from_millis(5);
/// Longest pause between two attempts to connect.
const RETRY_PAUSE_MAX: Duration = Duration::from_millis(200);

impl Connection {
    /// Connects to a broker, and waits for its admission (RFC 12).
    ///
    /// # Errors
    /// [`ConnectError`] for an address that is not local, a socket that cannot be reached within the waits of `connect`, and a refusal.
    pub async fn connect(uri: &str, connect: &ConnectOptions) -> Result<Connection, ConnectError> {
        let path = socket_path(uri)?;
        let begun = Instant::now();
        let mut pause = RETRY_PAUSE;
        let stream = loop {
            let error = match attempt(&path).await {
                Ok(stream) => break stream,
                Err(error) => error,
            };
            let patience = match &error {
                ConnectError::Busy { .. } => connect.wait.max(connect.backlog_wait),
                ConnectError::Missing { .. } | ConnectError::NotAccepting { .. } => connect.wait,
                _ => return Err(error),
            };
            if begun.elapsed() + pause > patience {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(RETRY_PAUSE_MAX);
        };
        Connection::handshake(stream, &path, connect.options).await
    }

    /// Waits for the authentication byte on a socket that is connected already, for instance an inherited one. `path`
    /// is for error texts only.
    ///
    /// # Errors
    /// [`ConnectError`] if the peer refuses, closes the socket, or sends no byte within [`HANDSHAKE_TIMEOUT`].
    pub async fn handshake(
        mut stream: UnixStream,
        path: &Path,
        options: Options,
    ) -> Result<Connection, ConnectError> {
        let path = path.to_owned();
        let mut byte = [0];
        match tokio::time::timeout(HANDSHAKE_TIMEOUT, stream.read_exact(&mut byte)).await {
            Err(_) => Err(ConnectError::Silent { path }),
            Ok(Err(error)) if error.kind() == ErrorKind::UnexpectedEof => Err(ConnectError::Hangup { path }),
            Ok(Err(error)) => Err(ConnectError::Io { path, source: error }),
            Ok(Ok(_)) if byte[0] == 0 => Ok(Connection::serve(stream, options)),
            Ok(Ok(_)) => {
                let owner = std::fs::metadata(&path).map(|m| m.uid()).ok();
                Err(ConnectError::Refused { path, errnum: byte[0].into(), owner, me: me() })
            }
        }
    }
}

/// Options of a connection attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectOptions {
    /// Bounds of the connection.
    pub options: Options,
    /// Maximum wait for a socket that is missing or has no listener yet; zero to fail at once.
    pub wait: Duration,
    /// Maximum time of retries while the listener's backlog is full; `wait` if that is longer.
    pub backlog_wait: Duration,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        ConnectOptions { options: Options::default(), wait: Duration::ZERO, backlog_wait: BACKLOG_TIMEOUT }
    }
}

/// The reason why a connection cannot be made. Display names the socket and, where there is one, a remedy.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The address is not a local one.
    #[error("{uri:?}: {reason}; local:///path/of/socket or a plain path is accepted")]
    BadUri {
        /// The address.
        uri: String,
        /// The reason.
        reason: &'static str,
    },
    /// There is no such file.
    #[error("{}: no such socket; is the instance running?", path.display())]
    Missing {
        /// The socket.
        path: PathBuf,
    },
    /// The file is not a socket.
    #[error("{}: this is {found}, not a socket", path.display())]
    NotSocket {
        /// The file.
        path: PathBuf,
        /// Its file type.
        found: &'static str,
    },
    /// The file system denies access.
    #[error("{}: permission denied{}", path.display(), owned(*owner, *me))]
    Denied {
        /// The socket.
        path: PathBuf,
        /// User id of its owner; `None` if the file cannot be looked at.
        owner: Option<u32>,
        /// User id of this process.
        me: u32,
    },
    /// The instance refused this user id.
    #[error("{}: the instance refused the connection: {}{}", path.display(), errno::describe(*errnum), owned(*owner, *me))]
    Refused {
        /// The socket.
        path: PathBuf,
        /// The authentication byte, an error number from 1 to 255.
        errnum: i32,
        /// User id of the socket's owner; `None` if the file cannot be looked at.
        owner: Option<u32>,
        /// User id of this process.
        me: u32,
    },
    /// A socket without a listener.
    #[error("{}: nobody accepts connections on this socket; its instance has probably ended", path.display())]
    NotAccepting {
        /// The socket.
        path: PathBuf,
    },
    /// The backlog stayed full.
    #[error("{}: the instance is too busy to accept connections", path.display())]
    Busy {
        /// The socket.
        path: PathBuf,
    },
    /// Connected, but no authentication byte came.
    #[error("{}: connected, but no answer within {} s; is this a Flux socket?", path.display(), HANDSHAKE_TIMEOUT.as_secs())]
    Silent {
        /// The socket.
        path: PathBuf,
    },
    /// Connected, and closed without an authentication byte.
    #[error("{}: the other side hung up before it said whether we may connect", path.display())]
    Hangup {
        /// The socket.
        path: PathBuf,
    },
    /// Another error of the system.
    #[error("{}: {source}", path.display())]
    Io {
        /// The socket.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
}

impl ConnectError {
    /// True if the connection failed because the instance belongs to another user.
    pub fn is_foreign_owner(&self) -> bool {
        match self {
            ConnectError::Denied { .. } => true,
            ConnectError::Refused { errnum, .. } => [errno::EPERM, errno::EACCES].contains(errnum),
            _ => false,
        }
    }
}

fn owned(owner: Option<u32>, me: u32) -> String {
    match owner {
        Some(owner) if owner != me => format!("; it belongs to user id {owner}, you are {me}"),
        _ => format!("; you are user id {me}"),
    }
}

fn me() -> u32 {
    nix::unistd::geteuid().as_raw()
}

/// The path in an address of an instance: `local://` and a path, or a plain path. The file need not exist.
///
/// # Errors
/// [`ConnectError::BadUri`] for another scheme, and for a path that is empty, has a NUL, or is longer than [`SOCKET_PATH_MAX`].
pub fn socket_path(uri: &str) -> Result<PathBuf, ConnectError> {
    let bad = |reason| ConnectError::BadUri { uri: uri.to_owned(), reason };
    let path = match uri.split_once("://") {
        Some(("local", path)) => path,
        Some(("ssh", _)) => return Err(bad("a remote instance can not be reached from here")),
        Some(_) => return Err(bad("unknown scheme")),
        None => uri,
    };
    if path.is_empty() {
        return Err(bad("no path"));
    }
    if path.contains('\0') {
        return Err(bad("the path contains a NUL character"));
    }
    if path.len() > SOCKET_PATH_MAX {
        return Err(bad("the path is longer than the 107 bytes of a socket address"));
    }
    Ok(PathBuf::from(path))
}

async fn attempt(path: &Path) -> Result<UnixStream, ConnectError> {
    let path = path.to_owned();
    let owner = match std::fs::metadata(&path) {
        Ok(meta) if meta.file_type().is_socket() => Some(meta.uid()),
        Ok(meta) => {
            let found = if meta.is_dir() { "a folder" } else { "an ordinary file" };
            return Err(ConnectError::NotSocket { path, found });
        }
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(ConnectError::Missing { path }),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => None,
        Err(source) => return Err(ConnectError::Io { path, source }),
    };
    match UnixStream::connect(&path).await {
        Ok(stream) => Ok(stream),
        Err(error) => Err(match error.kind() {
            ErrorKind::PermissionDenied => ConnectError::Denied { path, owner, me: me() },
            ErrorKind::ConnectionRefused => ConnectError::NotAccepting { path },
            ErrorKind::WouldBlock => ConnectError::Busy { path },
            ErrorKind::NotFound => ConnectError::Missing { path },
            _ => ConnectError::Io { path, source: error },
        }),
    }
}
