//! RFC 29 hostlists: no panic, and what is accepted survives a round trip.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(list) = text.parse::<fluxgate_formats::Hostlist>() {
        assert_eq!(list.to_string().parse::<fluxgate_formats::Hostlist>().unwrap(), list);
    }
});
