//! The commands, a file for each group. They talk to an instance over its socket like any other client.

pub(crate) mod artefact;
pub(crate) mod config;
pub(crate) mod control;
pub(crate) mod graph;
pub(crate) mod jobs;
pub(crate) mod journal;
pub(crate) mod policy;
pub(crate) mod policy_build;
pub(crate) mod policy_new;
pub(crate) mod replay;
pub(crate) mod resource_query;
pub(crate) mod status;
pub(crate) mod submit;
pub(crate) mod up;
pub(crate) mod workload;
