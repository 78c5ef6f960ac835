//! Targets for the formats of the Flux RFCs.

use fluxgate_formats::{Constraint, Hostlist, Idset, JobId, Jobspec, R};

use crate::text;

/// RFC 31 constraints.
pub(crate) fn constraint(bytes: &[u8]) {
    if let Ok(value) = serde_json::from_slice(bytes) {
        let _ = Constraint::from_value(&value);
    }
}

/// RFC 18 event logs.
pub(crate) fn eventlog(bytes: &[u8]) {
    text(bytes, |text| drop(fluxgate_formats::eventlog::parse(text)));
}

/// RFC 19 ids: every encoding of an accepted id reads back.
pub(crate) fn fluid(bytes: &[u8]) {
    text(bytes, |text| {
        let Ok(id) = text.parse::<JobId>() else { return };
        for form in [id.to_f58(), id.to_dothex(), id.to_hex(), id.to_words(), id.to_emoji(), id.to_decimal()]
        {
            assert_eq!(form.parse::<JobId>().unwrap(), id);
        }
    });
}

/// RFC 23 durations: never NaN or negative.
pub(crate) fn fsd(bytes: &[u8]) {
    text(bytes, |text| {
        if let Ok(seconds) = fluxgate_formats::fsd::parse(text) {
            assert!(seconds >= 0.0);
        }
    });
}

/// RFC 29 hostlists: an accepted one survives a round trip.
pub(crate) fn hostlist(bytes: &[u8]) {
    text(bytes, |text| {
        if let Ok(list) = text.parse::<Hostlist>() {
            assert_eq!(list.to_string().parse::<Hostlist>().unwrap(), list);
        }
    });
}

/// RFC 22 idsets: an accepted one survives a round trip.
pub(crate) fn idset(bytes: &[u8]) {
    text(bytes, |text| {
        if let Ok(set) = text.parse::<Idset>() {
            assert_eq!(set.to_string().parse::<Idset>().unwrap(), set);
        }
    });
}

/// RFC 14 jobspecs as JSON: an accepted one is accepted again after printing.
pub(crate) fn jobspec_json(bytes: &[u8]) {
    text(bytes, |text| {
        if let Ok(spec) = Jobspec::from_json(text) {
            Jobspec::from_value(&spec.to_value()).unwrap();
        }
    });
}

/// RFC 14 jobspecs as YAML.
pub(crate) fn jobspec_yaml(bytes: &[u8]) {
    text(bytes, |text| drop(Jobspec::from_yaml(text)));
}

/// RFC 20 resource sets: an accepted one is accepted again after printing.
pub(crate) fn rset(bytes: &[u8]) {
    text(bytes, |text| {
        if let Ok(r) = R::from_json(text) {
            R::from_json(&r.to_json()).unwrap();
        }
    });
}

/// RFC 46 shorthand.
pub(crate) fn shorthand(bytes: &[u8]) {
    text(bytes, |text| drop(fluxgate_formats::shorthand::parse(text)));
}
