//! RFC 3 frames: no panic, and what is decoded encodes and decodes to itself.

#![no_main]

use fluxgate_wire::codec::{Decoder, Limits, encode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut decoder = Decoder::new(Limits::default());
    decoder.push(bytes);
    while let Ok(Some(message)) = decoder.next_message() {
        let mut again = Decoder::new(Limits::default());
        again.push(&encode(&message).unwrap());
        assert_eq!(again.next_message().unwrap().unwrap(), message);
    }
});
