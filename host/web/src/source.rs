//! Sources of answers: an instance, its past, or answers that were written down.
//!
//! Must never know a page.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use fluxgate_wire::proto::errno;
use fluxgate_wire::rpc::{Client, RpcError};
use serde_json::Value;
use tokio::sync::Mutex;

/// Longest time that an instance may take for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(20);

/// A question that was not answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Refused {
    /// An error number of RFC 6, as in [`errno`].
    pub errnum: i32,
    /// The reason in words.
    pub text: String,
}

impl Refused {
    /// True if the connection to the instance is lost, or cannot be made.
    pub fn is_gone(&self) -> bool {
        self.errnum == errno::ECANCELED
    }

    /// The answer will be there later.
    pub(crate) fn late() -> Refused {
        Refused { errnum: errno::EAGAIN, text: "it takes a moment, and comes by itself".to_owned() }
    }

    /// As [`late`](Self::late).
    pub(crate) fn is_late(&self) -> bool {
        self.errnum == errno::EAGAIN
    }
}

impl From<RpcError> for Refused {
    fn from(error: RpcError) -> Refused {
        Refused { errnum: error.errnum, text: error.reason() }
    }
}

/// The future of an answer.
pub type Asking<'a> = Pin<Box<dyn Future<Output = Result<Value, Refused>> + Send + 'a>>;

/// Something that answers the questions of a broker's clients.
pub trait Source: Send + Sync + 'static {
    /// Asks `topic` with this payload. The error is a refusal of the instance, or that it cannot be reached.
    fn ask<'a>(&'a self, topic: &'a str, payload: Value) -> Asking<'a>;
}

impl Source for Box<dyn Source> {
    fn ask<'a>(&'a self, topic: &'a str, payload: Value) -> Asking<'a> {
        (**self).ask(topic, payload)
    }
}

/// The future of the answers of a time. The error is a sentence for users.
pub type Looking<'a> = Pin<Box<dyn Future<Output = Result<Box<dyn Source>, String>> + Send + 'a>>;

/// The past of an instance.
pub trait Past: Send + Sync + 'static {
    /// The source that would have answered at this time, seconds since the epoch.
    fn at(&self, time: f64) -> Looking<'_>;
}

/// An instance behind a socket. The connection is made by the first question, and anew after it was lost.
#[derive(Debug)]
pub struct Live {
    uri: String,
    client: Mutex<Option<Client>>,
}

impl Live {
    /// The instance at `local:///path` or a plain path. Nothing is connected yet.
    pub fn new(uri: String) -> Live {
        Live { uri, client: Mutex::new(None) }
    }

    async fn client(&self) -> Result<Client, Refused> {
        let mut client = self.client.lock().await;
        if let Some(client) = client.as_ref() {
            return Ok(client.clone());
        }
        let connected = Client::connect(&self.uri).await;
        let (made, requests) =
            connected.map_err(|error| Refused { errnum: errno::ECANCELED, text: error.to_string() })?;
        drop(requests);
        *client = Some(made.clone());
        Ok(made)
    }
}

impl Source for Live {
    fn ask<'a>(&'a self, topic: &'a str, payload: Value) -> Asking<'a> {
        Box::pin(async move {
            let client = self.client().await?;
            let answer = tokio::time::timeout(ANSWER_MAX, client.rpc(topic, payload)).await;
            let answer = answer.unwrap_or_else(|_| {
                let text = format!("no answer within {} s", ANSWER_MAX.as_secs());
                Err(RpcError { topic: topic.to_owned(), errnum: errno::ETIMEDOUT, text })
            });
            if answer.as_ref().is_err_and(|error| error.errnum == errno::ECANCELED) {
                self.client.lock().await.take();
            }
            Ok(answer?)
        })
    }
}

/// Answers by topic, the same for every payload. A topic without one is refused with ENOSYS.
#[derive(Debug, Default, Clone)]
pub struct Recorded(pub BTreeMap<String, Value>);

impl Source for Recorded {
    fn ask<'a>(&'a self, topic: &'a str, _: Value) -> Asking<'a> {
        let found = self.0.get(topic).cloned();
        let unknown = || Refused { errnum: errno::ENOSYS, text: format!("{topic}: no such method") };
        Box::pin(std::future::ready(found.ok_or_else(unknown)))
    }
}
