//! Targets for messages of a broker.

use fluxgate_wire::codec::{Decoder, Limits, encode};
use fluxgate_wire::message::Message;
use fluxgate_wire::module::Welcome;

/// RFC 3 frames: a decoded message encodes and decodes to itself.
pub(crate) fn frame(bytes: &[u8]) {
    let mut decoder = Decoder::new(Limits::default());
    decoder.push(bytes);
    while let Ok(Some(message)) = decoder.next_message() {
        let mut again = Decoder::new(Limits::default());
        again.push(&encode(&message).unwrap());
        assert_eq!(again.next_message().unwrap().unwrap(), message);
    }
}

/// A broker's first message to its module: read, or refused with the field that is wrong.
pub(crate) fn welcome(bytes: &[u8]) {
    if let Err(error) = Welcome::read(&Message::request("welcome").with_payload(bytes.to_vec())) {
        assert!(!error.to_string().is_empty());
    }
}
