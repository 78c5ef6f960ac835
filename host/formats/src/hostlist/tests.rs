//! The vectors of RFC 29 and flux-core, and properties of hostlists.

use proptest::prelude::*;

use super::*;

fn list(text: &str) -> Hostlist {
    text.parse().unwrap_or_else(|e| panic!("{e}"))
}

fn names(list: &Hostlist) -> String {
    list.iter().collect::<Vec<_>>().join(",")
}

#[test]
fn valid_texts() {
    // Text, hosts, printed text.
    let rows = [
        ("RFC 29, empty", "", "", ""),
        ("RFC 29, names", "foox,fooy,fooz", "foox,fooy,fooz", "foox,fooy,fooz"),
        ("RFC 29, bare", "[1-3,5-6]", "1,2,3,5,6", "[1-3,5-6]"),
        ("RFC 29, range", "foo[1-5]", "foo1,foo2,foo3,foo4,foo5", "foo[1-5]"),
        (
            "RFC 29, suffix",
            "foo[0-4]-eth2",
            "foo0-eth2,foo1-eth2,foo2-eth2,foo3-eth2,foo4-eth2",
            "foo[0-4]-eth2",
        ),
        ("RFC 29, repeated", "foo1,foo1,foo1", "foo1,foo1,foo1", "foo[1,1,1]"),
        ("RFC 29, padded", "[00-02]", "00,01,02", "[00-02]"),
        ("RFC 29, padded start", "[00-2]", "00,01,02", "[00-02]"),
        ("RFC 29, any order", "foo[1,1,2,1]", "foo1,foo1,foo2,foo1", "foo[1,1-2,1]"),
        ("core, trailing number", "foo-1a-2,foo-1a-3", "foo-1a-2,foo-1a-3", "foo-1a-[2-3]"),
        ("core, name behind", "foo1,foo2,foo3,fooi", "foo1,foo2,foo3,fooi", "foo[1-3],fooi"),
        ("core, name between", "foo1,fooi,foo2,foo3", "foo1,fooi,foo2,foo3", "foo1,fooi,foo[2-3]"),
        ("core, name before", "fooi,foo1,foo2,foo3", "fooi,foo1,foo2,foo3", "fooi,foo[1-3]"),
        ("core, numbers", "1,2,3,4,5,9", "1,2,3,4,5,9", "[1-5,9]"),
        ("core, stray commas", ",1,2,,3,", "1,2,3", "[1-3]"),
        ("core, blanks separate", "a b\tc[1-2] d", "a,b,c1,c2,d", "a,b,c[1-2],d"),
        ("core, only separators", " ,\t", "", ""),
        ("core, one number", "14636", "14636", "14636"),
        ("core, suffix kept short here", "[00-03]p", "00p,01p,02p,03p", "[00-03]p"),
        ("core, both sides", "p[00-3]p", "p00p,p01p,p02p,p03p", "p[00-03]p"),
        (
            "core, order kept",
            "foo[12,4,1-2],bar[26-27]",
            "foo12,foo4,foo1,foo2,bar26,bar27",
            "foo[12,4,1-2],bar[26-27]",
        ),
        ("padding per item", "[005,4,11-13]", "005,4,11,12,13", "005,[4,11-13]"),
        ("padding, wider ids join", "n[08-09,10,100]", "n08,n09,n10,n100", "n[08-10,100]"),
        ("padding, narrower do not", "n[10,08]", "n10,n08", "n10,n08"),
        ("padding grows by itself", "n[8-11]", "n8,n9,n10,n11", "n[8-11]"),
        ("digits before the bracket", "f00[7-8,10]", "f007,f008,f0010", "f00[7-8,10]"),
        ("digits before single ids", "f00[7,9]", "f007,f009", "f00[7,9]"),
        ("suffix behind single ids", "foo[1,3]-bar", "foo1-bar,foo3-bar", "foo[1,3]-bar"),
        ("one host in a bracket", "foo[1]-bar", "foo1-bar", "foo1-bar"),
        ("one of several in a bracket", "x,foo[1]-bar", "x,foo1-bar", "x,foo[1]-bar"),
        ("digits behind single ids", "9 [9]0", "9,90", "9,[9]0"),
        ("digits behind the bracket", "f[1-2]5", "f15,f25", "f[1-2]5"),
        ("number too long", "n99999999999999999999", "n99999999999999999999", "n99999999999999999999"),
        (
            "the largest number",
            "n18446744073709551614,n18446744073709551615,n0",
            "n18446744073709551614,n18446744073709551615,n0",
            "n[18446744073709551614-18446744073709551615,0]",
        ),
        ("odd but printable", "a!b/c:d*", "a!b/c:d*", "a!b/c:d*"),
    ];
    for (name, text, hosts, printed) in rows {
        let list = Hostlist::parse(text).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(names(&list), hosts, "{name}");
        assert_eq!(list.to_string(), printed, "{name}");
        assert_eq!(list.len(), hosts.split_terminator(',').count(), "{name}");
    }
}

#[test]
fn long_list_prints_as_it_was() {
    let text = "mcr[336-359,488-550,553,556,559,561,567,569-571,573-575,578,581,584,587-589,592,594,597,600-602,605,\
                608,610,618-622,627,634,636-670,687-696,699-733,735-742,744-760,762-773]";
    assert_eq!(list(text).len(), 237);
    assert_eq!(list(text).to_string(), text);
}

#[test]
fn the_two_readings_of_padding() {
    // Text, flux-core, RFC 29.
    let rows = [
        ("[005,4,11-13]", "005,4,11,12,13", "005,004,011,012,013"),
        ("[4,005]", "4,005", "4,005"),
        ("[00-2,3]", "00,01,02,3", "00,01,02,03"),
        ("a[01,0002]b", "a01b,a0002b", "a01b,a02b"),
        ("[01],[2]", "01,2", "01,2"),
    ];
    for (text, core, rfc) in rows {
        assert_eq!(names(&list(text)), core, "{text}");
        assert_eq!(Hostlist::parse_rfc(text).map(|l| names(&l)), Ok(rfc.to_owned()), "{text}");
    }
}

#[test]
fn invalid_texts_and_where_they_break() {
    use HostlistErrorKind::*;
    let rows = [
        ("[]", 1, NoId),
        ("foo[]", 4, NoId),
        ("foo[", 3, Bracket),
        ("foo[1,3", 3, Bracket),
        ("foo[[1,3]", 3, Bracket),
        ("foo]", 3, Bracket),
        ("]", 0, Bracket),
        ("foo[x-y]", 4, NoId),
        ("foo[0-1,2--5]", 10, NoId),
        ("foo[3-1]", 4, Descending),
        ("foo[-1]", 4, NoId),
        ("foo[1,]", 6, NoId),
        ("foo[,1]", 4, NoId),
        ("foo[1 ,2]", 5, Unexpected),
        ("foo[0x1]", 5, Unexpected),
        ("foo[1-2-3]", 7, Unexpected),
        ("foo[0-1048576]", 4, RangeTooLarge),
        ("foo[0-18446744073709551615]", 4, RangeTooLarge),
        ("foo[18446744073709551616]", 4, IdTooLarge),
        // Texts that flux-core accepts.
        ("foo[1-]", 6, NoId),
        ("a[1-2]b[1-2]", 7, Bracket),
        ("a,é", 2, Character),
        ("a\nb", 1, Character),
        ("é[1]", 0, Character),
        ("a[1]é", 4, Character),
    ];
    for (text, at, kind) in rows {
        let error = Hostlist::parse(text).expect_err(text);
        assert_eq!((error.at, error.kind), (at, kind), "{text}");
        assert!(Hostlist::parse_rfc(text).is_err(), "{text}");
    }
    for (text, at, kind) in [
        ("a,,b", 2, NoName),
        (",a", 0, NoName),
        ("a,", 2, NoName),
        ("a b", 1, Character),
        ("a, b", 2, Character),
    ] {
        let error = Hostlist::parse_rfc(text).expect_err(text);
        assert_eq!((error.at, error.kind), (at, kind), "{text}");
        assert!(Hostlist::parse(text).is_ok(), "{text}");
    }
}

#[test]
fn sizes_are_bounded() {
    assert_eq!(list("foo[0-1048575]").len(), 1 << 20);
    let many = vec!["n[0-1048575]x"; 17].join(",");
    let error = Hostlist::parse(&many).expect_err("too many hosts");
    assert_eq!((error.at, error.kind), (16 * 14 + 2, HostlistErrorKind::TooManyHosts));
    assert!(Hostlist::parse(&many[..16 * 14 - 1]).is_ok());
    let long = "n".repeat(NAME_BYTES_MAX);
    assert_eq!(list(&long).nth(0), Some(long.clone()));
    for text in [
        format!("{long}n"),
        format!("{long}[1]n"),
        format!("a[{}1]", "0".repeat(NAME_BYTES_MAX - 1)),
        format!("{}[9-10]", &long[1..]),
    ] {
        let error = Hostlist::parse(&text).expect_err("name too long");
        assert_eq!(error.kind, HostlistErrorKind::NameTooLong);
        assert!(error.to_string().len() < 300);
    }
}

#[test]
fn big_ranges_are_cheap() {
    let hosts = list("host[0-100000]");
    assert_eq!(hosts.spans.len(), 1);
    assert_eq!(hosts.nth(100_000).as_deref(), Some("host100000"));
    assert_eq!(hosts.nth(100_001), None);
    assert_eq!(hosts.find("host99999"), Some(99_999));
    assert_eq!(hosts.slice(10..12).to_string(), "host[10-11]");
}

#[test]
fn find_takes_the_first_host_of_exactly_that_name() {
    let rows = [
        ("tst0", "tst", None),
        ("tst0,tst", "tst", Some(1)),
        ("tst,tst0", "tst", Some(0)),
        ("tst", "tst0", None),
        ("foo[1-5]-eth0", "foo3-eth0", Some(2)),
        ("foo[1-5]", "foo3-eth0", None),
        ("[0-5]", "3", Some(3)),
        ("[0-5]i", "0", None),
        ("i[0-5]", "i00", None),
        ("i[0-5]", "i0", Some(0)),
        ("i[00-05]", "i00", Some(0)),
        ("i[00-05]", "i04", Some(4)),
        ("i[00-05]", "i4", None),
        ("i[08-12]", "i10", Some(2)),
        ("i[08-12]", "i010", None),
        ("f00[7-8]", "f007", Some(0)),
        ("f00[7-8,10]", "f0010", Some(2)),
        ("f0010001[07-08]", "f001000108", Some(1)),
        ("f[1-3]5", "f25", Some(1)),
        ("cornp2", "corn", None),
        ("cornp2", "corn2", None),
        ("corn-p2", "corn2", None),
        ("corn1-p2", "corn2", None),
        ("a,b,a", "a", Some(0)),
        ("n[0-3]", "n+1", None),
        ("n[0-3]", "n", None),
        ("n[0-3]", "", None),
        ("n[0-3]", "n99999999999999999999", None),
    ];
    for (text, host, at) in rows {
        assert_eq!(list(text).find(host), at, "{host} in {text}");
    }
}

#[test]
fn push_refuses_what_is_no_name() {
    use HostlistErrorKind::*;
    let mut hosts = list("n1");
    for (name, at, kind) in
        [("", 0, NoName), ("a,b", 1, Character), ("n[1]", 1, Character), ("é", 0, Character)]
    {
        let error = hosts.push(name).expect_err(name);
        assert_eq!((error.at, error.kind), (at, kind), "{name}");
    }
    hosts.push("n2").unwrap();
    assert_eq!(hosts.to_string(), "n[1-2]");
}

#[test]
fn collecting_keeps_positions() {
    let hosts: Hostlist = ["n1", "", "n 2", "n[3"].into_iter().collect();
    assert_eq!(names(&hosts), "n1,_,n_2,n_3");
    assert_eq!(list(&hosts.to_string()), hosts);
}

#[test]
fn slices() {
    let hosts = list("a,n[08-12],b[1-2]x,c");
    assert_eq!(hosts.slice(0..usize::MAX), hosts);
    assert_eq!(hosts.slice(2..5).to_string(), "n[09-11]");
    assert_eq!(hosts.slice(4..8).to_string(), "n[11-12],b[1-2]x");
    assert_eq!(hosts.slice(8..9).to_string(), "c");
    assert_eq!(hosts.slice(9..12).len(), 0);
    #[expect(clippy::reversed_empty_ranges)]
    let backwards = hosts.slice(5..2);
    assert!(backwards.is_empty());
    let mut twice = hosts.slice(0..3);
    twice.append(&hosts.slice(3..9));
    assert_eq!(twice, hosts);
}

#[test]
fn equal_when_the_same_hosts_are_named() {
    assert_eq!(list("f00[7-8]"), list("f[007-008]"));
    assert_eq!(list("n[1-2]x"), list("n1x,n2x"));
    assert_ne!(list("n1,n2"), list("n2,n1"));
    assert_ne!(list("n1"), list("n01"));
}

#[test]
fn serialises_as_its_text() {
    let hosts = list("n[0-3],login");
    assert_eq!(serde_json::to_string(&hosts).unwrap(), r#""n[0-3],login""#);
    assert_eq!(serde_json::from_str::<Hostlist>(r#""n0,n[1-3] login""#).unwrap(), hosts);
    assert!(serde_json::from_str::<Hostlist>(r#""n[""#).is_err());
}

/// Names whose numbers touch, repeat, and differ in padding.
fn host_names() -> impl Strategy<Value = Vec<String>> {
    let name = prop_oneof![
        "[ab]{0,1}[019]{1,3}",
        "[ab]{1,2}",
        "n(8|9|10|11|08|09|010)",
        "n[0-9]{1,2}-[x1]",
        "[!-~&&[^\\[\\],]]{1,5}",
    ];
    proptest::collection::vec(name, 0..12)
}

proptest! {
    #[test]
    fn no_text_panics(text in ".{0,40}") {
        let _ = Hostlist::parse(&text);
        let _ = Hostlist::parse_rfc(&text);
    }

    #[test]
    fn what_is_read_prints_the_same_for_both_readings(text in r"[an019,\-\[\] ]{0,24}") {
        for hosts in [Hostlist::parse(&text), Hostlist::parse_rfc(&text)].into_iter().flatten() {
            let printed = hosts.to_string();
            prop_assert_eq!(&Hostlist::parse(&printed).unwrap(), &hosts, "{}", &printed);
            prop_assert_eq!(&Hostlist::parse_rfc(&printed).unwrap(), &hosts, "{}", &printed);
            prop_assert_eq!(list(&printed).to_string(), printed);
        }
    }

    #[test]
    fn agrees_with_a_plain_list(model in host_names()) {
        let mut hosts = Hostlist::new();
        for name in &model {
            hosts.push(name).unwrap();
        }
        prop_assert_eq!(hosts.iter().collect::<Vec<_>>(), model.clone());
        prop_assert_eq!(hosts.iter().len(), model.len());
        let printed = hosts.to_string();
        prop_assert_eq!(list(&printed).iter().collect::<Vec<_>>(), model.clone(), "{}", &printed);
        prop_assert_eq!(&Hostlist::parse_rfc(&printed).unwrap(), &hosts);
        for (i, name) in model.iter().enumerate() {
            prop_assert_eq!(&hosts.nth(i).unwrap(), name);
            prop_assert_eq!(hosts.find(name), model.iter().position(|n| n == name));
        }
        prop_assert_eq!(hosts.nth(model.len()), None);
    }

    #[test]
    fn slices_agree_with_a_plain_list(model in host_names(), from in 0usize..14, to in 0usize..14) {
        let hosts: Hostlist = model.iter().collect();
        let read = list(&hosts.to_string());
        let end = to.min(model.len());
        let expected = model.get(from..end).unwrap_or_default();
        for hosts in [hosts, read] {
            let slice = hosts.slice(from..to);
            prop_assert_eq!(slice.iter().collect::<Vec<_>>(), expected);
            prop_assert_eq!(list(&slice.to_string()).to_string(), slice.to_string());
            prop_assert_eq!(list(&slice.to_string()), slice);
        }
    }
}
