//! A broker's first word to its module: read, or refused with the field that is wrong.

#![no_main]

use fluxgate_wire::message::Message;
use fluxgate_wire::module::Welcome;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Err(error) = Welcome::read(&Message::request("welcome").with_payload(data.to_vec())) {
        assert!(!error.to_string().is_empty());
    }
});
