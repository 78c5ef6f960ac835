//! Components as artefacts that a site governs: signatures, installation, and the audit trail.
//!
//! - `keys`: minisign signatures and the folder of public keys that a site trusts.
//! - `installed`: components of a folder of policies, each installed and removed in one step.
//! - `registry`: components pulled from an OCI registry, by digest.
//! - `file`: files that are written whole or not at all.
//! - `audit`: the append-only audit trail of policies.
//!
//! Signatures are minisign's: one short file beside the component, made and verified offline, with keys of one line.
//! There is no certificate that expires and no transparency log to query, so an air-gapped site can use them.
//! `minisign -V` verifies them without this program.
//!
//! This crate must never know the code of a component, nor which policy is active.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod audit;
pub mod file;
pub mod installed;
pub mod keys;
pub mod registry;
