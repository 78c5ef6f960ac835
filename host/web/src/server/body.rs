//! Bodies of answers, a text or events as they come; and bodies of requests, read up to a bound.
//!
//! Must never know what a body says.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use tokio::sync::mpsc;

/// Most bytes of a form.
const FORM_MAX: usize = 16 * 1024;

/// The body of an answer.
#[derive(Debug)]
pub(crate) enum Sent {
    /// A text.
    Text(Option<Bytes>),
    /// Events.
    Events(mpsc::Receiver<Bytes>),
}

impl From<String> for Sent {
    fn from(text: String) -> Sent {
        Sent::Text(Some(text.into()))
    }
}

impl Body for Sent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Sent::Text(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
            Sent::Events(events) => {
                events.poll_recv(context).map(|event| event.map(|event| Ok(Frame::data(event))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Sent::Text(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Sent::Text(text) => SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64)),
            Sent::Events(_) => SizeHint::default(),
        }
    }
}

/// A form; `None` for one that is too long, or that breaks off.
pub(crate) async fn read(mut incoming: Incoming) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let frame = std::future::poll_fn(|context| Pin::new(&mut incoming).poll_frame(context)).await;
        let Some(frame) = frame else { break };
        if let Ok(data) = frame.ok()?.into_data() {
            if bytes.len() + data.len() > FORM_MAX {
                return None;
            }
            bytes.extend_from_slice(&data);
        }
    }
    String::from_utf8(bytes).ok()
}
