//! RFC 19 ids: no panic, and every encoding of what is accepted reads back.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(id) = text.parse::<fluxgate_formats::JobId>() {
        for form in [id.to_f58(), id.to_dothex(), id.to_hex(), id.to_words(), id.to_emoji(), id.to_decimal()] {
            assert_eq!(form.parse::<fluxgate_formats::JobId>().unwrap(), id);
        }
    }
});
