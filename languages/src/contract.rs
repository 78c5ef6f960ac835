//! The texts of the contract, for folders of policies and for components of core modules.

/// The released file of the version that policies are written for.
pub(crate) const POLICY: &str = include_str!("../../wit/0.1.0/policy.wit");

/// Additions to that version since: names of files beside it, and their texts.
pub(crate) const GAINED: [(&str, &str); 6] = [
    ("attributes.wit", include_str!("../../wit/0.1.0/attributes.wit")),
    ("flow.wit", include_str!("../../wit/0.1.0/flow.wit")),
    ("groups.wit", include_str!("../../wit/0.1.0/groups.wit")),
    ("many.wit", include_str!("../../wit/0.1.0/many.wit")),
    ("ranking.wit", include_str!("../../wit/0.1.0/ranking.wit")),
    ("resources.wit", include_str!("../../wit/0.1.0/resources.wit")),
];
