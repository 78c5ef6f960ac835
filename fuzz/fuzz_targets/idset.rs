//! RFC 22 idsets: no panic, and what is accepted survives a round trip.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(set) = text.parse::<fluxgate_formats::Idset>() {
        assert_eq!(set.to_string().parse::<fluxgate_formats::Idset>().unwrap(), set);
    }
});
