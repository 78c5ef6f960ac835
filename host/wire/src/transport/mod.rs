//! Messages over a UNIX stream socket: the connecting side's handshake, and the two tasks that serve a connection.
//!
//! A connection is an [`Inbox`] and an [`Outbox`]. The inbox is bounded in messages and in bytes: a peer that sends
//! faster than this process reads waits in its own kernel buffer. The outbox never blocks, because a scheduling pass
//! may not wait for a socket; it is bounded in bytes, and a peer that lets it fill up is disconnected. Frames that wait
//! together are written together.
//!
//! This module does not know topics.

mod connect;
mod inherit;

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};

pub use self::connect::{
    BACKLOG_TIMEOUT, ConnectError, ConnectOptions, HANDSHAKE_TIMEOUT, SOCKET_PATH_MAX, socket_path,
};
use crate::codec::{DecodeError, Decoder, EncodeError, Limits, encode_into};
use crate::message::Message;

/// Default of the maximum number of unread messages.
pub const INBOUND_MESSAGES_MAX: usize = 4096;
/// Default of the maximum number of unread payload bytes.
pub const INBOUND_BYTES_MAX: usize = 128 << 20;
/// Default of the maximum number of bytes that wait to be written.
pub const OUTBOUND_BYTES_MAX: usize = 256 << 20;
/// Frames waiting together are gathered up to this many bytes for one write.
const GATHER_SIZE: usize = 256 << 10;
/// Bytes requested in one read.
const READ_SIZE: usize = 64 << 10;

/// Bounds of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Bounds of a frame.
    pub limits: Limits,
    /// Maximum number of unread messages, see [`INBOUND_MESSAGES_MAX`]; 0 counts as 1. The peer waits beyond it.
    pub inbound_messages_max: usize,
    /// Maximum number of unread payload bytes, see [`INBOUND_BYTES_MAX`]; less than one KiB counts as that. The peer waits beyond it.
    pub inbound_bytes_max: usize,
    /// Bytes that may wait to be written, see [`OUTBOUND_BYTES_MAX`]. With more waiting, a further message closes the connection.
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

/// The reason why a connection ended.
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
    /// The peer sent bytes that are no message. The connection was closed from this side.
    #[error("bad frame: {0}")]
    Decode(#[from] DecodeError),
    /// The socket failed.
    #[error("socket error: {0}")]
    Io(String),
    /// It was closed from this side.
    #[error("the connection was closed from this side")]
    Local,
}

/// The reason why a message was not accepted for sending.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The connection is closed.
    #[error("the connection is closed")]
    Closed,
    /// The peer does not read; the connection was closed for that reason.
    #[error("the other side does not read: {queued} bytes are waiting (limit {limit})")]
    Full {
        /// Bytes waiting.
        queued: usize,
        /// See [`Options::outbound_bytes_max`].
        limit: usize,
    },
    /// The message cannot be encoded.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

enum Item {
    Frame(Vec<u8>),
    Flush(oneshot::Sender<()>),
}

/// The sending side of a connection. When the last clone is dropped, waiting frames are still written and the
/// connection is shut down.
#[derive(Debug, Clone)]
pub struct Outbox {
    items: mpsc::UnboundedSender<Item>,
    queued: Arc<AtomicUsize>,
    options: Options,
    stop: Arc<watch::Sender<bool>>,
}

impl Outbox {
    /// Queues one message. Never blocks.
    ///
    /// # Errors
    /// As [`Outbox::send_all`].
    pub fn send(&self, message: &Message) -> Result<(), SendError> {
        self.send_all(std::slice::from_ref(message))
    }

    /// Queues messages as one write. Never blocks. On an encoding error the messages before it are still sent.
    ///
    /// # Errors
    /// [`SendError`] for the first message that cannot be encoded, a closed connection, or a peer that does not read.
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

    /// Waits until every frame queued so far has been passed to the kernel, or the connection ended.
    pub async fn flush(&self) {
        let (done, waiter) = oneshot::channel();
        if self.items.send(Item::Flush(done)).is_ok() {
            // An error means that the writer is gone, and then there is nothing to wait for.
            let _ = waiter.await;
        }
    }

    /// Bytes waiting to be written, frame headers included.
    pub fn queued(&self) -> usize {
        self.queued.load(Ordering::Relaxed)
    }

    /// Closes the connection now, without writing the frames that wait.
    pub fn close(&self) {
        self.stop.send_replace(true);
    }

    /// True if the connection is known to be closed.
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
    /// Waits for the next message. A call that is dropped loses no message.
    ///
    /// # Errors
    /// The reason why the connection ended, after all messages before it. Each further call returns the same one.
    pub async fn recv(&mut self) -> Result<Message, Disconnect> {
        match self.messages.recv().await {
            Some((message, _permit)) => Ok(message),
            None => Err(self.end.borrow().clone().unwrap_or(Disconnect::Local)),
        }
    }

    /// True if no message is waiting, also after the end of the connection.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Passes every further message, in order, through `handler`. The handler gets each message as it arrives, even
    /// while the reader of the inbox is busy; a message for which it returns `None` is consumed. Must be called within
    /// a tokio runtime: a task is started. Bytes are bounded as before, messages by twice the number.
    pub fn through(&mut self, mut handler: impl FnMut(Message) -> Option<Message> + Send + 'static) {
        let (onward, received) = mpsc::channel(self.messages.max_capacity());
        let mut messages = std::mem::replace(&mut self.messages, received);
        tokio::spawn(async move {
            while let Some((message, permit)) = messages.recv().await {
                if let Some(message) = handler(message)
                    && onward.send((message, permit)).await.is_err()
                {
                    break;
                }
            }
        });
    }

    /// The next message if one is waiting. `None` does not tell whether the connection has ended.
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
    /// Serves a socket on which the authentication byte has already been exchanged. Must be called within a tokio
    /// runtime: two tasks are started.
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
            // A peer that is gone, or that sent invalid bytes, gets nothing more. A peer that only stopped reading may
            // still send.
            if !abandoned {
                stop.send_replace(true);
            }
        });
        Connection { outbox, inbox: Inbox { messages: received, end } }
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
                // The reader gets the same error and reports it.
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
                // A frame of this side was still unread: closed all the same.
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
    // Set before the channel ends: a reader that sees its end finds the reason.
    ended.send_replace(Some(reason.clone()));
    (reason, abandoned)
}
