//! A journal's file: no panic, and a record that can be read is written as one that reads the same.

#![no_main]

use fluxgate_journal::Record;
use fluxgate_journal::frame::{Found, Frames};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = Record::from_payload(bytes);
    let Ok(Ok((_, mut frames))) = Frames::open(bytes, bytes.len() as u64) else { return };
    while let Ok(Found::Payload(payload)) = frames.next() {
        let Ok(record) = Record::from_payload(&payload) else { continue };
        let again = record.to_payload();
        let read = Record::from_payload(&again).unwrap();
        // NaN is not equal to itself, but its bytes are.
        assert_eq!(again, read.to_payload());
    }
});
