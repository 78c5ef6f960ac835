//! The vectors of RFC 19 and flux-core, and properties of job ids.

use proptest::prelude::*;

use super::*;

#[test]
fn ids_in_every_encoding() {
    // Id, F58, dothex, hex, words.
    let rows = [
        (
            6731191091817518,
            "uZZybuNNy",
            "0017.e9fb.8df1.6c2e",
            "0x17e9fb8df16c2e",
            "reform-remote-galileo--heart-package-academy",
        ),
        (
            4181414752813056,
            "ZemgA8Bzf",
            "000e.daf9.7d00.0000",
            "0xedaf97d000000",
            "random-idea-yoyo--sugar-printer-academy",
        ),
        (0, "1", "0000.0000.0000.0000", "0x0", "academy-academy-academy--academy-academy-academy"),
    ];
    for (number, f58, dothex, hex, words) in rows {
        let id = JobId(number);
        assert_eq!(id.to_f58(), format!("ƒ{f58}"));
        assert_eq!(id.to_f58_ascii(), format!("f{f58}"));
        assert_eq!(id.to_string(), id.to_f58());
        assert_eq!(id.to_dothex(), dothex);
        assert_eq!(id.to_hex(), hex);
        assert_eq!(id.to_words(), words);
        assert_eq!(id.kvs_dir(), format!("job.{dothex}"));
    }
}

#[test]
fn texts_and_the_ids_they_name() {
    let rows = [
        ("ƒuZZybuNNy", 6731191091817518),
        ("fuZZybuNNy", 6731191091817518),
        ("0x17e9fb8df16c2e", 6731191091817518),
        ("0017.e9fb.8df1.6c2e", 6731191091817518),
        ("reform-remote-galileo--heart-package-academy", 6731191091817518),
        ("👩💅📓😸👑🚓", 6731191091817518),
        ("6731191091817518", 6731191091817518),
        ("ƒZemgA8Bzf", 4181414752813056),
        ("ƒ278oEf7zGf", 8213253243011072),
        ("🚹💂🙌😳💱🏃", 32031603597246464),
        ("😄😹🎇📥🏧🙉🔞", 39601885002334208),
        ("🚹💂🈳💰🎩🏃", 32031692986253312),
        ("ƒ1", 0),
        ("ƒ2", 1),
        ("ƒz", 57),
        ("ƒNH", 1234),
        ("ƒZZ", 1888),
        ("ƒzz", 3363),
        ("ƒ211", 3364),
        ("ƒ2JL", 4369),
        ("ƒLUv", 65535),
        ("ƒ7YXq9G", u32::MAX.into()),
        ("ƒxyzzy", 633528662),
        ("ƒjpXCZedGfVP", u64::MAX - 1),
        ("ƒjpXCZedGfVQ", u64::MAX),
        ("fjpXCZedGfVQ", u64::MAX),
        ("f111", 0),
        ("0.0.0.0", 0),
        ("a.b.c.d", 2814797012533261),
        ("1.2.3.4", 281483566841860),
        ("f.0.0.0", 4222124650659840),
        ("ffff.ffff.ffff.ffff", u64::MAX),
        ("FFFF.0.0.0", 0xffff << 48),
        ("0000.0000.ffff.0000", 4294901760),
        ("academy-academy-academy--academy-academy-academy", 0),
        ("Reform-REMOTE-galileo-heart--package-academy", 6731191091817518),
        ("😃", 0),
        ("😄", 1),
        ("🙊", 57),
        ("😁👌", 1234),
        ("😆🐻", 1888),
        ("😊🌀", 4369),
        ("💁📚", 65535),
        ("😳🏪🍖🍸", u32::MAX.into()),
        ("🎆🍧🎆🐾🕓😃", 21900760568561664),
        ("🚹💗🔥😜💟🎱💃", 18446743892750589633),
        ("🚹💗💧👗😷📷📚", u64::MAX),
        ("0x0", 0),
        ("0x4d2", 1234),
        ("0xffffffffffffffff", u64::MAX),
        ("0x00000000000000000000001", 1),
        ("18446744073709551615", u64::MAX),
        ("007", 7),
        // Blanks around every encoding.
        (" 0xffff   ", 65535),
        ("\tƒNH\n", 1234),
        (" 1.2.3.4 ", 281483566841860),
        (" academy-academy-academy--academy-academy-academy ", 0),
        (" 😄 ", 1),
        (" 12 ", 12),
    ];
    for (text, id) in rows {
        assert_eq!(JobId::parse(text), Ok(JobId(id)), "{text}");
    }
}

#[test]
fn invalid_texts_and_where_they_break() {
    use FluidErrorKind::*;
    let rows = [
        ("", 0, Empty),
        ("  ", 2, Empty),
        ("f", 1, Empty),
        ("ƒ", 2, Empty),
        ("0x", 2, Empty),
        ("boo", 0, Decimal),
        ("-1", 1, Word),
        ("-", 1, WordCount),
        ("0.0.0", 5, Dothex),
        ("0.0.0.0.0", 8, Dothex),
        ("0.0.0.g", 6, Hex),
        ("0.0.0.", 6, Dothex),
        (".0.0.0", 0, Dothex),
        ("00000.0.0.0", 0, Dothex),
        ("0x1.0.0.0", 1, Hex),
        ("1.2", 3, Dothex),
        ("f0", 1, Base58),
        ("fO", 1, Base58),
        ("fI", 1, Base58),
        ("fl", 1, Base58),
        ("flux", 1, Base58),
        ("f1230", 4, Base58),
        ("ƒƒ", 2, Base58),
        ("FNH", 0, Decimal),
        ("NH", 0, Decimal),
        ("x1", 0, Decimal),
        ("1e3", 1, Decimal),
        ("1 2", 1, Decimal),
        ("0X10", 1, Decimal),
        ("0xg", 2, Hex),
        ("+5", 0, Decimal),
        ("🦄", 0, Emoji),
        ("😄🦄", 4, Emoji),
        ("😄1", 4, Emoji),
        ("18446744073709551616", 19, TooLarge),
        ("0x10000000000000000", 18, TooLarge),
        // Twelve digits above 2^64 - 1 wrap in flux-core.
        ("ƒjpXCZedGfVR", 12, TooLarge),
        ("fzzzzzzzzzzzz", 11, TooLarge),
        ("f1111111111111", 13, TooLarge),
        ("🚹💗💧👗😷📷🚹", 24, TooLarge),
        ("😃😃😃😃😃😃😃😄", 28, TooLarge),
        // Used as an example id in RFC 14 and RFC 26, but two of its words are not on the list.
        ("hungry-hippo-white-elephant", 0, Word),
        ("invalid-words-test", 0, Word),
        ("academy-academy-academy", 23, WordCount),
        ("academy-academy-academy--academy-academy-academy-academy", 49, WordCount),
        // A word for the rest of a message, and three words for a number above 2^32 - 1.
        ("academy-academy-ego--academy-academy-academy", 16, WordValue),
        ("amen-amen-amen--academy-academy-academy", 10, WordValue),
    ];
    for (text, at, kind) in rows {
        let error = JobId::parse(text).expect_err(text);
        assert_eq!((error.at, error.kind), (at, kind), "{text}");
    }
}

#[test]
fn parts_of_an_id() {
    let id = JobId(0x00ff_ffff_ffff << 24 | 0x2abc << 10 | 0x155);
    assert_eq!((id.timestamp_ms(), id.generator(), id.sequence()), (0x00ff_ffff_ffff, 0x2abc, 0x155));
    assert_eq!(JobId(6731191091817518).timestamp_ms(), 401_210_253);
}

#[test]
fn json_integers_beyond_2_to_the_53() {
    let id = JobId(u64::MAX - 1);
    assert_eq!(serde_json::to_string(&id).unwrap(), "18446744073709551614");
    for json in ["18446744073709551614", "\"ƒjpXCZedGfVP\"", "\"0xfffffffffffffffe\""] {
        assert_eq!(serde_json::from_str::<JobId>(json).unwrap(), id, "{json}");
    }
    for json in ["-1", "1.5", "1e3", "18446744073709551616", "null", "\"f0\""] {
        assert!(serde_json::from_str::<JobId>(json).is_err(), "{json}");
    }
    let map: std::collections::BTreeMap<JobId, u8> = serde_json::from_str(r#"{"ƒNH":1}"#).unwrap();
    assert_eq!(serde_json::to_string(&map).unwrap(), r#"{"1234":1}"#);
}

#[test]
fn a_generator_counts_within_a_millisecond() {
    let mut generator = Generator::new(1000, 5);
    let first = generator.next(1007);
    assert_eq!((first.timestamp_ms(), first.generator(), first.sequence()), (7, 5, 0));
    assert_eq!(generator.next(1007).sequence(), 1);
    assert_eq!(generator.next(1008).sequence(), 0);
}

#[test]
fn a_generator_never_repeats_when_time_stands_still_or_jumps_back() {
    let mut generator = Generator::new(1000, 0);
    let mut last = generator.next(1500);
    for step in 0..5000u64 {
        let id = generator.next(if step % 2 == 0 { 1500 } else { 900 });
        assert!(id > last);
        last = id;
    }
    assert_eq!(last.timestamp_ms(), 504);
}

#[test]
fn a_generator_goes_on_above_the_last_id() {
    let mut before = Generator::new(0, 3);
    let last = (0..2000).map(|_| before.next(10)).last().unwrap();
    let mut after = Generator::new(0, 1);
    after.resume_after(last);
    assert!(after.next(10) > last);
    assert!(after.next(0) > last);
}

proptest! {
    #[test]
    fn no_text_panics(text in ".{0,40}") {
        let _ = JobId::parse(&text);
    }

    #[test]
    fn no_near_miss_panics(text in "(ƒ|f|0x|😃|academy-)?[0-9a-zA-Z.😄👩-]{0,14}") {
        let _ = JobId::parse(&text);
    }

    #[test]
    fn every_encoding_reads_back(number in prop_oneof![any::<u64>(), 0u64..100_000, Just(u64::MAX)]) {
        let id = JobId(number);
        for text in [
            id.to_f58(), id.to_f58_ascii(), id.to_dothex(), id.to_hex(), id.to_decimal(), id.to_words(), id.to_emoji(),
        ] {
            prop_assert_eq!(JobId::parse(&text), Ok(id), "{}", text);
        }
        let json = serde_json::to_string(&id).unwrap();
        prop_assert_eq!(serde_json::from_str::<JobId>(&json).unwrap(), id);
    }

    #[test]
    fn ids_of_a_generator_ascend(steps in proptest::collection::vec(0u64..4, 1..300)) {
        let (mut generator, mut now) = (Generator::new(7, u16::MAX), 0);
        let mut last = None;
        for step in steps {
            now += step;
            let id = generator.next(now);
            prop_assert!(Some(id) > last);
            prop_assert_eq!(id.generator(), (1 << GENERATOR_BITS) - 1);
            last = Some(id);
        }
    }
}
