//! Messages over a UNIX stream socket: the connecting side's handshake, and the two tasks that serve a
//! connection once it stands.
//!
//! A connection is an [`Inbox`] and an [`Outbox`]. The inbox is bounded in messages and in bytes: a peer
//! that sends faster than we read waits in its own kernel buffer. The outbox never blocks, because a
//! scheduling pass may not wait for a socket; it is bounded in bytes, and a peer that lets it fill up is
//! disconnected. Frames that are waiting together are written together.
//!
//! This module must never know topics.

use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::codec::{DecodeError, Decoder, EncodeError, Limits, encode_into};
use crate::message::Message;
use crate::proto::errno;

/// Default for the most messages received but not yet taken.
pub const INBOUND_MESSAGES_MAX: usize = 4096;
/// Default for the most payload bytes received but not yet taken.
pub const INBOUND_BYTES_MAX: usize = 128 << 20;
/// Default for the most bytes waiting to be written.
pub const OUTBOUND_BYTES_MAX: usize = 256 << 20;
/// How long the other side may take for its authentication byte.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a full backlog is retried (the broker's is 5).
pub const BACKLOG_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest path of a UNIX socket on Linux, without the final NUL.
pub const SOCKET_PATH_MAX: usize = 107;
/// Frames waiting together are gathered up to this many bytes for one write.
const GATHER_SIZE: usize = 256 << 10;
/// Bytes asked for in one read.
const READ_SIZE: usize = 64 << 10;
/// First pause before another attempt to connect; doubles up to [`RETRY_PAUSE_MAX`].
const RETRY_PAUSE: Duration = Duration::from_millis(5);
/// Longest pause between two attempts to connect.
const RETRY_PAUSE_MAX: Duration = Duration::from_millis(200);

/// Bounds of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Bounds of a frame.
    pub limits: Limits,
    /// See [`INBOUND_MESSAGES_MAX`]; at least 1.
    pub inbound_messages_max: usize,
    /// See [`INBOUND_BYTES_MAX`]; at least one KiB.
    pub inbound_bytes_max: usize,
    /// See [`OUTBOUND_BYTES_MAX`].
    pub outbound_bytes_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            limits: Limits::default(),
            inbound_messages_max: INBOUND_MESSAGES_MAX,
            inbound_bytes_max: INBOUND_BYTES_MAX,
            outbound_bytes_max: OUTBOUND_BYTES_MAX,
        }
    }
}

/// How a connection ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Disconnect {
    /// The peer closed it, between two frames.
    #[error("the other side closed the connection")]
    Closed,
    /// The peer closed it within a frame.
    #[error("the other side closed the connection within a frame ({bytes} bytes of it had arrived)")]
    Cut {
        /// Bytes of the incomplete frame.
        bytes: usize,
    },
    /// The peer sent what is no message. The connection was closed from here.
    #[error("bad frame: {0}")]
    Decode(#[from] DecodeError),
    /// The socket failed.
    #[error("socket error: {0}")]
    Io(String),
    /// It was closed from here.
    #[error("the connection was closed from this side")]
    Local,
}

/// Why a message was not taken for sending.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The connection is closed.
    #[error("the connection is closed")]
    Closed,
    /// The peer does not read; the connection was closed because of that.
    #[error("the other side does not read: {queued} bytes are waiting (limit {limit})")]
    Full {
        /// Bytes waiting.
        queued: usize,
        /// See [`Options::outbound_bytes_max`].
        limit: usize,
    },
    /// The message can not be written.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

enum Item {
    Frame(Vec<u8>),
    Flush(oneshot::Sender<()>),
}

/// The sending side of a connection. When the last clone is dropped, what is waiting is still written and
/// the connection is shut down.
#[derive(Debug, Clone)]
pub struct Outbox {
    items: mpsc::UnboundedSender<Item>,
    queued: Arc<AtomicUsize>,
    options: Options,
    stop: Arc<watch::Sender<bool>>,
}

impl Outbox {
    /// Queue one message. Never blocks.
    pub fn send(&self, message: &Message) -> Result<(), SendError> {
        self.send_all(std::slice::from_ref(message))
    }

    /// Queue messages as one write. On an encoding error those before it are still sent.
    pub fn send_all(&self, messages: &[Message]) -> Result<(), SendError> {
        let mut frames = Vec::new();
        let mut result = Ok(());
        for message in messages {
            if let Err(error) = encode_into(message, &self.options.limits, &mut frames) {
                result = Err(error.into());
                break;
            }
        }
        if frames.is_empty() {
            return result;
        }
        let limit = self.options.outbound_bytes_max;
        let queued = self.queued.fetch_add(frames.len(), Ordering::Relaxed);
        if queued > limit {
            self.close();
            return Err(SendError::Full { queued, limit });
        }
        if *self.stop.borrow() || self.items.send(Item::Frame(frames)).is_err() {
            return Err(SendError::Closed);
        }
        result
    }

    /// Wait until everything queued so far has been handed to the kernel, or the connection ended.
    pub async fn flush(&self) {
        let (done, waiter) = oneshot::channel();
        if self.items.send(Item::Flush(done)).is_ok() {
            // An error means that the writer is gone, and then there is nothing to wait for.
            let _ = waiter.await;
        }
    }

    /// Bytes waiting to be written.
    pub fn queued(&self) -> usize {
        self.queued.load(Ordering::Relaxed)
    }

    /// Close the connection now, without writing what is waiting.
    pub fn close(&self) {
        self.stop.send_replace(true);
    }

    /// Is the connection known to be closed?
    pub fn is_closed(&self) -> bool {
        *self.stop.borrow() || self.items.is_closed()
    }
}

/// The receiving side of a connection.
#[derive(Debug)]
pub struct Inbox {
    messages: mpsc::Receiver<(Message, OwnedSemaphorePermit)>,
    end: watch::Receiver<Option<Disconnect>>,
}

impl Inbox {
    /// The next message. After the error every further call returns the same one.
    pub async fn recv(&mut self) -> Result<Message, Disconnect> {
        match self.messages.recv().await {
            Some((message, _permit)) => Ok(message),
            None => Err(self.end.borrow().clone().unwrap_or(Disconnect::Local)),
        }
    }

    /// The next message if one is there already.
    pub fn try_recv(&mut self) -> Option<Message> {
        self.messages.try_recv().ok().map(|(message, _permit)| message)
    }
}

/// An authenticated connection.
#[derive(Debug)]
pub struct Connection {
    /// To the peer.
    pub outbox: Outbox,
    /// From the peer.
    pub inbox: Inbox,
}

impl Connection {
    /// Serve a socket on which the authentication byte has already been exchanged. Must be called within a
    /// tokio runtime: two tasks are started.
    pub fn serve(stream: UnixStream, options: Options) -> Connection {
        let (read, write) = stream.into_split();
        let (items, waiting) = mpsc::unbounded_channel();
        let (messages, received) = mpsc::channel(options.inbound_messages_max.max(1));
        let (stop, stopped) = watch::channel(false);
        let (ended, end) = watch::channel(None);
        let stop = Arc::new(stop);
        let queued = Arc::new(AtomicUsize::new(0));
        let outbox = Outbox { items, queued: Arc::clone(&queued), options, stop: Arc::clone(&stop) };
        tokio::spawn(write_task(write, waiting, queued, stopped.clone()));
        tokio::spawn(async move {
            let (reason, abandoned) = read_task(read, messages, options, stopped, &ended).await;
            tracing::debug!(%reason, "connection ended");
            // A peer that is gone, or that sent nonsense, gets nothing more. But whoever merely does not
            // listen any more may still have something to say.
            if !abandoned {
                stop.send_replace(true);
            }
        });
        Connection { outbox, inbox: Inbox { messages: received, end } }
    }

    /// Connect to a broker, and wait for its word that we may.
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

    /// Wait for the authentication byte on a socket that is connected already, for instance one that was
    /// inherited. `path` is for messages only.
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

async fn write_task(
    mut socket: OwnedWriteHalf,
    mut waiting: mpsc::UnboundedReceiver<Item>,
    queued: Arc<AtomicUsize>,
    mut stopped: watch::Receiver<bool>,
) {
    let work = async {
        let mut gathered = Vec::new();
        let mut flushed: Vec<oneshot::Sender<()>> = Vec::new();
        while let Some(item) = waiting.recv().await {
            let mut next = Some(item);
            while let Some(item) = next {
                match item {
                    Item::Frame(frame) if gathered.is_empty() => gathered = frame,
                    Item::Frame(frame) => gathered.extend_from_slice(&frame),
                    Item::Flush(done) => flushed.push(done),
                }
                next = if gathered.len() < GATHER_SIZE { waiting.try_recv().ok() } else { None };
            }
            if socket.write_all(&gathered).await.is_err() {
                // The reader learns the same and says why.
                return;
            }
            queued.fetch_sub(gathered.len(), Ordering::Relaxed);
            gathered.clear();
            for done in flushed.drain(..) {
                let _ = done.send(());
            }
        }
    };
    tokio::select! {
        () = work => {}
        _ = stopped.wait_for(|stop| *stop) => {}
    }
    let _ = socket.shutdown().await;
}

async fn read_task(
    mut socket: OwnedReadHalf,
    messages: mpsc::Sender<(Message, OwnedSemaphorePermit)>,
    options: Options,
    mut stopped: watch::Receiver<bool>,
    ended: &watch::Sender<Option<Disconnect>>,
) -> (Disconnect, bool) {
    let room_kib = u32::try_from(options.inbound_bytes_max >> 10).unwrap_or(u32::MAX).max(1);
    let room = Arc::new(Semaphore::new(room_kib as usize));
    let work = async {
        let mut decoder = Decoder::new(options.limits);
        let mut chunk = vec![0; READ_SIZE];
        loop {
            let count = match socket.read(&mut chunk).await {
                Ok(count) => count,
                // Closed while something from us was still unread: closed all the same.
                Err(error) if error.kind() == ErrorKind::ConnectionReset => 0,
                Err(error) => return Disconnect::Io(error.to_string()),
            };
            match (count, decoder.pending()) {
                (0, 0) => return Disconnect::Closed,
                (0, bytes) => return Disconnect::Cut { bytes },
                _ => decoder.push(&chunk[..count]),
            }
            loop {
                let message = match decoder.next_message() {
                    Ok(Some(message)) => message,
                    Ok(None) => break,
                    Err(error) => return Disconnect::Decode(error),
                };
                let kib = message.payload.as_ref().map_or(0, Vec::len) >> 10;
                let kib = u32::try_from(kib).unwrap_or(u32::MAX).clamp(1, room_kib);
                // The semaphore is never closed.
                let Ok(permit) = Arc::clone(&room).acquire_many_owned(kib).await else {
                    return Disconnect::Local;
                };
                if messages.send((message, permit)).await.is_err() {
                    return Disconnect::Local;
                }
            }
        }
    };
    let (reason, abandoned) = tokio::select! {
        reason = work => (reason, false),
        _ = stopped.wait_for(|stop| *stop) => (Disconnect::Local, false),
        () = messages.closed() => (Disconnect::Local, true),
    };
    // Before the channel ends: whoever sees its end finds the reason.
    ended.send_replace(Some(reason.clone()));
    (reason, abandoned)
}

/// How to connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectOptions {
    /// Bounds of the connection.
    pub options: Options,
    /// How long to wait for a socket that is missing or has no listener yet; zero to fail at once.
    pub wait: Duration,
    /// How long to retry while the listener's backlog is full.
    pub backlog_wait: Duration,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        ConnectOptions { options: Options::default(), wait: Duration::ZERO, backlog_wait: BACKLOG_TIMEOUT }
    }
}

/// Why there is no connection. Display names the socket and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The address is of another kind.
    #[error("{uri:?}: {reason}; local:///path/of/socket or a plain path is accepted")]
    BadUri {
        /// The address.
        uri: String,
        /// What is wrong with it.
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
        /// What it is.
        found: &'static str,
    },
    /// The file system does not let us through.
    #[error("{}: permission denied{}", path.display(), owned(*owner, *me))]
    Denied {
        /// The socket.
        path: PathBuf,
        /// Its owner, when that can be seen.
        owner: Option<u32>,
        /// Our user id.
        me: u32,
    },
    /// The instance looked at our user id and refused.
    #[error("{}: the instance refused the connection: {}{}", path.display(), errno::describe(*errnum), owned(*owner, *me))]
    Refused {
        /// The socket.
        path: PathBuf,
        /// The authentication byte.
        errnum: i32,
        /// Owner of the socket, when that can be seen.
        owner: Option<u32>,
        /// Our user id.
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
    /// Anything else.
    #[error("{}: {source}", path.display())]
    Io {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

impl ConnectError {
    /// Did it fail because the caller is not the one the instance belongs to?
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

/// The path that an address of an instance names: `local://` and a path, or a plain path.
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
