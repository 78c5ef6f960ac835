//! An RPC client: remote procedure calls over a [`Connection`], with the bookkeeping of RFC 6.
//!
//! Each call gets a matchtag that no other call in flight has. A tag is free again after a response that is an error or
//! not streaming, also when the caller stopped waiting. When the connection ends, every call in flight fails with
//! ECANCELED.
//!
//! Requests to a service that was registered here, and events, arrive on a channel of their own.
//!
//! This module does not know the meaning of a topic.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use serde_json::Value;
use tokio::sync::{mpsc, oneshot, watch};

use crate::message::Message;
use crate::proto::errno;
use crate::transport::{ConnectError, ConnectOptions, Connection, Disconnect, Inbox, Outbox, SendError};

/// Maximum number of calls in flight; further ones fail with EAGAIN.
pub const CALLS_MAX: usize = 65_536;
/// Maximum number of unread responses of one stream; a stream that exceeds it ends with EOVERFLOW.
pub const STREAM_RESPONSES_MAX: usize = 65_536;
/// Maximum number of unread requests; further ones are answered with EAGAIN.
pub const REQUESTS_MAX: usize = 4096;

/// The error of a call: of the service, or of this client (ECANCELED for a lost connection, EAGAIN beyond [`CALLS_MAX`]).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{topic}: {}", words(*.errnum, .text))]
pub struct RpcError {
    /// The topic called.
    pub topic: String,
    /// An error number, see [`errno`].
    pub errnum: i32,
    /// The service's error text; may be empty.
    pub text: String,
}

fn words(errnum: i32, text: &str) -> String {
    let text = text.trim_end();
    if text.is_empty() { errno::describe(errnum) } else { text.to_owned() }
}

impl RpcError {
    fn new(topic: &str, errnum: i32, text: &str) -> Self {
        RpcError { topic: topic.to_owned(), errnum, text: text.to_owned() }
    }

    /// The reason without the topic: the service's error text, or the text of the error number.
    pub fn reason(&self) -> String {
        words(self.errnum, &self.text)
    }
}

#[derive(Debug)]
enum Call {
    One(oneshot::Sender<Message>),
    Many(mpsc::Sender<Message>),
    /// The caller stopped waiting, but the tag is still in use.
    Abandoned,
}

#[derive(Debug, Default)]
struct Calls {
    last_tag: u32,
    in_flight: BTreeMap<u32, Call>,
    ended: Option<Disconnect>,
}

impl Calls {
    fn register(&mut self, topic: &str, call: Call) -> Result<u32, RpcError> {
        if let Some(reason) = &self.ended {
            return Err(RpcError::new(topic, errno::ECANCELED, &format!("connection lost: {reason}")));
        }
        if self.in_flight.len() >= CALLS_MAX {
            return Err(RpcError::new(topic, errno::EAGAIN, "too many calls in flight"));
        }
        loop {
            self.last_tag = self.last_tag.wrapping_add(1);
            if self.last_tag != 0 && !self.in_flight.contains_key(&self.last_tag) {
                self.in_flight.insert(self.last_tag, call);
                return Ok(self.last_tag);
            }
        }
    }
}

#[derive(Debug)]
struct Shared {
    outbox: Outbox,
    calls: Mutex<Calls>,
    ended: watch::Sender<Option<Disconnect>>,
}

impl Shared {
    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn deliver(&self, message: Message) {
        let tag = message.matchtag();
        let last = message.errnum() != 0 || !message.is_streaming();
        let mut calls = self.calls();
        let Some(call) = calls.in_flight.remove(&tag) else {
            tracing::debug!(topic = message.topic(), tag, "response that nobody asked for");
            return;
        };
        let keep = match call {
            // The receiver may be gone; the answer is then discarded.
            Call::One(sender) => {
                let _ = sender.send(message);
                if last { None } else { Some(Call::Abandoned) }
            }
            Call::Many(sender) => match sender.try_send(message) {
                Ok(()) => Some(Call::Many(sender)),
                // Dropping the sender ends the stream with EOVERFLOW for its reader.
                Err(_) => Some(Call::Abandoned),
            },
            Call::Abandoned => Some(Call::Abandoned),
        };
        if let (Some(call), false) = (keep, last) {
            calls.in_flight.insert(tag, call);
        }
    }

    fn abandon(&self, tag: u32) {
        if let Some(call) = self.calls().in_flight.get_mut(&tag) {
            *call = Call::Abandoned;
        }
    }
}

/// A handle for calls. Clones share the connection, which ends with the last of them and the last stream.
#[derive(Debug, Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

/// Incoming requests and events, in the order of their arrival. After this is dropped, further requests are answered
/// with ENOSYS.
pub type Requests = mpsc::Receiver<Message>;

impl Client {
    /// Connects to an instance: `local:///path` or a plain path. Fails at once where the socket is missing.
    ///
    /// # Errors
    /// As [`Connection::connect`].
    pub async fn connect(uri: &str) -> Result<(Client, Requests), ConnectError> {
        Client::connect_with(uri, &ConnectOptions::default()).await
    }

    /// Connects with other bounds and timeouts.
    ///
    /// # Errors
    /// As [`Connection::connect`].
    pub async fn connect_with(
        uri: &str,
        options: &ConnectOptions,
    ) -> Result<(Client, Requests), ConnectError> {
        Ok(Client::new(Connection::connect(uri, options).await?))
    }

    /// Takes over a connection. Must be called within a tokio runtime; panics elsewhere.
    pub fn new(connection: Connection) -> (Client, Requests) {
        let Connection { outbox, inbox } = connection;
        let (requests, received) = mpsc::channel(REQUESTS_MAX);
        let shared = Arc::new(Shared { outbox, calls: Mutex::default(), ended: watch::Sender::new(None) });
        tokio::spawn(dispatch(inbox, Arc::downgrade(&shared), requests));
        (Client { shared }, received)
    }

    /// Calls and waits for the answer, without a time limit. `Value::Null` as payload sends none; an answer without payload reads as
    /// `Value::Null`.
    ///
    /// # Errors
    /// [`RpcError`] with the error of the service, EPROTO for an answer that is no JSON object, ECANCELED when the connection ends,
    /// EAGAIN beyond [`CALLS_MAX`], EINVAL for a message that cannot be encoded.
    pub async fn rpc(&self, topic: &str, payload: Value) -> Result<Value, RpcError> {
        self.call(Message::request(topic), payload).await
    }

    /// [`Client::rpc`] to a given rank.
    ///
    /// # Errors
    /// As [`Client::rpc`].
    pub async fn rpc_to(&self, rank: u32, topic: &str, payload: Value) -> Result<Value, RpcError> {
        self.call(Message::request(topic).with_nodeid(rank), payload).await
    }

    async fn call(&self, request: Message, payload: Value) -> Result<Value, RpcError> {
        let topic = request.topic().to_owned();
        let (sender, receiver) = oneshot::channel();
        let tag = self.shared.calls().register(&topic, Call::One(sender))?;
        let pending = Pending { shared: &self.shared, tag };
        self.transmit(&with_payload(request, &payload).with_matchtag(tag))?;
        let result = match receiver.await {
            Ok(message) => answer(&message),
            Err(_) => Err(self.lost(&topic)),
        };
        drop(pending);
        result
    }

    /// Calls a streaming service. A stream that is dropped is not cancelled; its responses are discarded.
    ///
    /// # Errors
    /// As [`Client::rpc`] for a request that was not sent; an error of the service comes from [`ResponseStream::next`].
    pub fn stream(&self, topic: &str, payload: Value) -> Result<ResponseStream, RpcError> {
        let (sender, responses) = mpsc::channel(STREAM_RESPONSES_MAX);
        let tag = self.shared.calls().register(topic, Call::Many(sender))?;
        let request = with_payload(Message::request(topic), &payload).streaming().with_matchtag(tag);
        let stream =
            ResponseStream { client: self.clone(), topic: topic.to_owned(), tag, responses, done: false };
        self.transmit(&request)?;
        Ok(stream)
    }

    /// Sends a request without an answer.
    ///
    /// # Errors
    /// ECANCELED when the connection ended, EINVAL for a message that cannot be encoded.
    pub fn notify(&self, topic: &str, payload: Value) -> Result<(), RpcError> {
        self.transmit(&with_payload(Message::request(topic), &payload).noresponse())
    }

    /// Sends any message, for instance a response to a request from [`Requests`].
    ///
    /// # Errors
    /// As [`Outbox::send`].
    pub fn send(&self, message: &Message) -> Result<(), SendError> {
        self.shared.outbox.send(message)
    }

    /// Waits until every message sent has been passed to the kernel, or the connection has ended.
    pub async fn flush(&self) {
        self.shared.outbox.flush().await;
    }

    /// Waits until the connection has ended, and returns the reason.
    pub async fn ended(&self) -> Disconnect {
        let mut ended = self.shared.ended.subscribe();
        let reason = ended.wait_for(Option::is_some).await;
        reason.ok().and_then(|reason| reason.clone()).unwrap_or(Disconnect::Local)
    }

    /// Closes the connection now, without sending the messages that wait.
    pub fn close(&self) {
        self.shared.outbox.close();
    }

    /// Number of calls whose matchtag is in use, also those for which the caller stopped waiting.
    pub fn in_flight(&self) -> usize {
        self.shared.calls().in_flight.len()
    }

    fn transmit(&self, request: &Message) -> Result<(), RpcError> {
        self.shared.outbox.send(request).map_err(|error| {
            self.shared.calls().in_flight.remove(&request.matchtag());
            let errnum = match error {
                SendError::Encode(_) => errno::EINVAL,
                SendError::Closed | SendError::Full { .. } => errno::ECANCELED,
            };
            RpcError::new(request.topic(), errnum, &error.to_string())
        })
    }

    fn lost(&self, topic: &str) -> RpcError {
        let reason = self.shared.calls().ended.clone().unwrap_or(Disconnect::Local);
        RpcError::new(topic, errno::ECANCELED, &format!("connection lost: {reason}"))
    }
}

/// Keeps the tag of a call reserved when its caller stops waiting.
struct Pending<'a> {
    shared: &'a Shared,
    tag: u32,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.shared.abandon(self.tag);
    }
}

/// The responses of a streaming call.
#[derive(Debug)]
pub struct ResponseStream {
    client: Client,
    topic: String,
    tag: u32,
    responses: mpsc::Receiver<Message>,
    done: bool,
}

impl ResponseStream {
    /// The next response; `None` after the normal end: ENODATA, or a response without the streaming flag.
    ///
    /// # Errors
    /// As [`Client::rpc`], and EOVERFLOW beyond [`STREAM_RESPONSES_MAX`] unread responses. Nothing follows an error.
    pub async fn next(&mut self) -> Option<Result<Value, RpcError>> {
        if self.done {
            return None;
        }
        let result = match self.responses.recv().await {
            Some(message) if message.errnum() == errno::ENODATA => Err(None),
            Some(message) => {
                self.done = !message.is_streaming();
                answer(&message).map_err(Some)
            }
            None if self.client.shared.calls().ended.is_some() => Err(Some(self.client.lost(&self.topic))),
            None => Err(Some(RpcError::new(
                &self.topic,
                errno::EOVERFLOW,
                "responses came faster than they were read",
            ))),
        };
        match result {
            Ok(value) => Some(Ok(value)),
            Err(end) => {
                self.done = true;
                end.map(Err)
            }
        }
    }

    /// Asks the service to end this stream, with the request that the service has for it (RFC 6), for instance
    /// `job-info.eventlog-watch-cancel`. The stream must still be read until its end.
    ///
    /// # Errors
    /// As [`Client::notify`].
    pub fn cancel(&self, topic: &str) -> Result<(), RpcError> {
        self.client.notify(topic, serde_json::json!({ "matchtag": self.tag }))
    }

    /// The matchtag of the call.
    pub fn matchtag(&self) -> u32 {
        self.tag
    }
}

impl Drop for ResponseStream {
    fn drop(&mut self) {
        self.client.shared.abandon(self.tag);
    }
}

fn with_payload(request: Message, payload: &Value) -> Message {
    if payload.is_null() { request } else { request.with_json(payload) }
}

/// The content of a response; `Value::Null` without a payload.
///
/// # Errors
/// The error of an error response, or EPROTO for a payload that is no JSON object.
pub fn answer(message: &Message) -> Result<Value, RpcError> {
    match message.errnum() {
        0 => match message.payload_bytes() {
            None | Some([]) => Ok(Value::Null),
            Some(_) => message
                .json()
                .map_err(|error| RpcError::new(message.topic(), errno::EPROTO, &error.to_string())),
        },
        errnum => Err(RpcError::new(message.topic(), errnum, message.text().unwrap_or(""))),
    }
}

// Holds the client weakly: without further callers the outbox is dropped, and with it the connection.
async fn dispatch(mut inbox: Inbox, client: Weak<Shared>, requests: mpsc::Sender<Message>) {
    let reason = loop {
        let message = match inbox.recv().await {
            Ok(message) => message,
            Err(reason) => break reason,
        };
        let Some(shared) = client.upgrade() else { return };
        if message.is_response() {
            shared.deliver(message);
            continue;
        }
        let (errnum, message) = match requests.try_send(message) {
            Ok(()) => continue,
            Err(mpsc::error::TrySendError::Full(message)) => (errno::EAGAIN, message),
            Err(mpsc::error::TrySendError::Closed(message)) => (errno::ENOSYS, message),
        };
        if message.wants_response() {
            // A failure means that the connection ends, which the next turn learns.
            let _ = shared.outbox.send(&message.respond_error(errnum, ""));
        }
    };
    let Some(shared) = client.upgrade() else { return };
    let mut calls = shared.calls();
    calls.ended = Some(reason.clone());
    // Dropping the senders wakes all waiting callers.
    calls.in_flight.clear();
    drop(calls);
    shared.ended.send_replace(Some(reason));
}
