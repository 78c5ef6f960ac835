//! The listening side: a socket in the file system, and the admission of clients.
//!
//! The kernel identifies a peer (SO_PEERCRED). The owner gets the owner's roles; other users are refused, or become
//! guests, as [`Access`] says (RFC 12). One byte tells the peer the result. Each connection gets a UUID, which is its
//! name in route stacks.
//!
//! This module does not know topics. Routing is the task of the caller.

use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

use crate::message::Message;
use crate::proto::{USERID_UNKNOWN, errno, role};
use crate::transport::{Connection, Options, SOCKET_PATH_MAX};

/// Maximum number of connections that wait to be accepted.
pub const BACKLOG: u32 = 128;

/// Identity and rights of a user in the instance (RFC 12).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credential {
    /// User id.
    pub userid: u32,
    /// Roles, see [`role`].
    pub rolemask: u32,
}

/// The users who may connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// User id of the owner of the instance, who gets the roles of the owner.
    pub owner: u32,
    /// True if other users may connect, as guests.
    pub allow_guest_user: bool,
    /// True if root has the owner's roles.
    pub allow_root_owner: bool,
}

impl Access {
    /// Access for the user of this process alone.
    pub fn owner_only() -> Self {
        let owner = nix::unistd::geteuid().as_raw();
        Access { owner, allow_guest_user: false, allow_root_owner: false }
    }

    /// The credential of a user by RFC 12.
    ///
    /// # Errors
    /// `EPERM` for a user who is neither the owner nor, where the rules allow them, root or a guest.
    pub fn judge(&self, uid: u32) -> Result<Credential, i32> {
        if uid == self.owner || (uid == 0 && self.allow_root_owner) {
            Ok(Credential { userid: uid, rolemask: role::OWNER | role::LOCAL })
        } else if self.allow_guest_user {
            Ok(Credential { userid: uid, rolemask: role::USER | role::LOCAL })
        } else {
            Err(errno::EPERM)
        }
    }
}

/// A connected client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Identity and rights.
    pub credential: Credential,
    /// Process id; `None` when the kernel does not give it.
    pub pid: Option<i32>,
    /// Name in route stacks (a UUID).
    pub uuid: String,
}

impl Peer {
    /// Marks a message from this peer with its credential (RFC 12). A peer with the owner's role may set another user id and other
    /// roles; for every other peer those in the message are overwritten.
    pub fn stamp(&self, message: &mut Message) {
        let owner = self.credential.rolemask & role::OWNER != 0;
        if !owner || message.userid == USERID_UNKNOWN {
            message.userid = self.credential.userid;
        }
        if !owner || message.rolemask == role::NONE {
            message.rolemask = self.credential.rolemask;
        }
    }
}

/// The reason why a listener cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Another process serves this socket.
    #[error("{}: another instance is listening on this socket", path.display())]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// Another file has this name.
    #[error("{}: there is already a file of this name, and it is no socket", path.display())]
    NotSocket {
        /// The file.
        path: PathBuf,
    },
    /// Other users can write to the folder.
    #[error("{}: the folder of the socket has mode {mode:04o}; nobody but the owner may write to it, 0700 is best", path.display())]
    FolderOpen {
        /// The folder.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The folder belongs to another user.
    #[error("{}: the folder of the socket belongs to user id {owner}, you are {me}", path.display())]
    FolderForeign {
        /// The folder.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// User id of this process.
        me: u32,
    },
    /// The path does not fit in a socket address.
    #[error("{}: the path is longer than the {SOCKET_PATH_MAX} bytes of a socket address", path.display())]
    PathTooLong {
        /// The path.
        path: PathBuf,
    },
    /// Another error of the system.
    #[error("{}: {source}", path.display())]
    Io {
        /// The socket or its folder.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
}

/// A rule of admission: the credential of a user id, or the error number of the refusal; see [`Listener::set_judge`].
pub type Judge = Box<dyn Fn(u32) -> Result<Credential, i32> + Send + Sync>;

/// A listening socket. Its file is removed when it is dropped.
pub struct Listener {
    socket: UnixListener,
    path: PathBuf,
    options: Options,
    judge: Judge,
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Listener {
    /// Listens on `path` as [`listen`] does. The socket gets mode 0600, or 0666 when guests are allowed. Must be called within a tokio
    /// runtime; panics elsewhere.
    ///
    /// # Errors
    /// As [`listen`].
    pub fn bind(path: &Path, access: Access, options: Options) -> Result<Listener, ListenError> {
        let mode = if access.allow_guest_user { 0o666 } else { 0o600 };
        let socket = listen(path, mode)?;
        let io = |source| ListenError::Io { path: path.to_owned(), source };
        socket.set_nonblocking(true).map_err(io)?;
        let socket = UnixListener::from_std(socket).map_err(io)?;
        let judge = Box::new(move |uid| access.judge(uid));
        Ok(Listener { socket, path: path.to_owned(), options, judge })
    }

    /// Replaces the rule by which peers are admitted. An error number that is not from 1 to 255 reaches the peer as `EPERM`.
    pub fn set_judge(&mut self, judge: Judge) {
        self.judge = judge;
    }

    /// The socket's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The address for clients, `local://` and the path.
    pub fn uri(&self) -> String {
        format!("local://{}", self.path.display())
    }

    /// Waits for the next peer that may connect. Other peers get the refusal, are logged and skipped. A call that is dropped loses no
    /// peer.
    ///
    /// # Errors
    /// The error of the listening socket itself (for instance: too many open files).
    pub async fn accept(&self) -> std::io::Result<(Peer, Connection)> {
        loop {
            let (stream, _) = self.socket.accept().await?;
            if let Some(accepted) = self.admit(stream) {
                return Ok(accepted);
            }
        }
    }

    fn admit(&self, stream: UnixStream) -> Option<(Peer, Connection)> {
        let cred = stream
            .peer_cred()
            .map_err(|error| fluxgate_log::log!(NoPeerCredentials, %error, "no peer credentials"))
            .ok()?;
        let (verdict, byte) = match (self.judge)(cred.uid()) {
            Ok(credential) => (Some(credential), 0),
            // The byte must not read as an admission.
            Err(errnum) => {
                (None, u8::try_from(errnum).ok().filter(|b| *b != 0).unwrap_or(errno::EPERM as u8))
            }
        };
        // A fresh socket has room for one byte, so this need not wait. It must not wait either: a caller that stops
        // waiting for `accept` must not lose a peer half-way. A peer that has already disconnected is skipped.
        let mut stream = stream.into_std().ok()?;
        if !matches!(stream.write(&[byte]), Ok(1)) {
            return None;
        }
        let stream = UnixStream::from_std(stream).ok()?;
        let Some(credential) = verdict else {
            fluxgate_log::log!(ConnectionRefused, uid = cred.uid(), errnum = byte, "connection refused");
            return None;
        };
        let uuid = uuid::Uuid::new_v4().to_string();
        tracing::debug!(uid = cred.uid(), %uuid, "connection accepted");
        Some((Peer { credential, pid: cred.pid(), uuid }, Connection::serve(stream, self.options)))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // A peer that has already disconnected needs no answer.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Listens on `path`, with these permission bits of the socket. A missing folder is created with mode 0700; a folder in
/// which other users could create a socket is refused. A socket of a process that has ended is replaced.
///
/// # Errors
/// The path is too long, is taken, or is in a folder of others, or the system refuses.
pub fn listen(path: &Path, mode: u32) -> Result<std::os::unix::net::UnixListener, ListenError> {
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source| ListenError::Io { path, source }
    };
    if path.as_os_str().len() > SOCKET_PATH_MAX {
        return Err(ListenError::PathTooLong { path: path.to_owned() });
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    if !folder.exists() {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(io(folder))?;
    }
    check_folder(folder)?;
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(io(path)(error)),
        Ok(meta) if !meta.file_type().is_socket() => {
            return Err(ListenError::NotSocket { path: path.to_owned() });
        }
        Ok(_) => match std::os::unix::net::UnixStream::connect(path) {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                std::fs::remove_file(path).map_err(io(path))?;
            }
            _ => return Err(ListenError::InUse { path: path.to_owned() }),
        },
    }
    let socket = std::os::unix::net::UnixListener::bind(path).map_err(io(path))?;
    let permissions = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(path, permissions).map_err(io(path))?;
    Ok(socket)
}

fn check_folder(folder: &Path) -> Result<(), ListenError> {
    let path = folder.to_owned();
    let meta = match std::fs::metadata(folder) {
        Ok(meta) => meta,
        Err(source) => return Err(ListenError::Io { path, source }),
    };
    let me = nix::unistd::geteuid().as_raw();
    if meta.uid() != me {
        return Err(ListenError::FolderForeign { path, owner: meta.uid(), me });
    }
    let mode = meta.permissions().mode() & 0o7777;
    // The sticky bit is no excuse: others could still make the socket before us.
    if mode & 0o022 != 0 {
        return Err(ListenError::FolderOpen { path, mode });
    }
    Ok(())
}
