//! Components as artefacts that a site governs: their signatures, where they are kept, and the audit trail.
//!
//! - `keys`: minisign signatures and the folder of public keys that a site trusts.
//! - `installed`: components of a folder of policies, each installed and removed in one step.
//! - `registry`: components pulled from an OCI registry, by digest.
//! - `file`: files that are written whole or not at all.
//! - `audit`: the append-only audit trail of policies.
//!
//! Signatures are minisign's: one short file beside the component, made and verified offline, with keys that fit on a
//! line. There is no certificate to expire and no transparency log to ask, which an air-gapped site could not.
//! `minisign -V` verifies them without this program.
//!
//! This crate must never know what a component does, nor which one schedules.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod audit;
pub mod file;
pub mod installed;
pub mod keys;
pub mod registry;
