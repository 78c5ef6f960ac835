//! Components as artefacts that a site governs: who signed one, where it is kept, and who used it when.
//!
//! - `keys`: minisign signatures and the folder of public keys that a site trusts.
//! - `shelf`: files put into a folder of policies, and taken away, in one step each.
//! - `registry`: components pulled from an OCI registry, by digest.
//! - `audit`: the append-only record of what was done with policies.
//!
//! Signatures are minisign's: one short file beside the component, made and verified offline, with keys that fit on a
//! line. There is no certificate to expire and no transparency log to ask, which an air-gapped site could not; and who
//! distrusts this program verifies with `minisign -V`.
//!
//! This crate must never know what a component does, nor who schedules.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod audit;
pub mod keys;
pub mod registry;
pub mod shelf;
