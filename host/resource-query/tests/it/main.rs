//! The tool as a program sees it, against the own cases of the graph scheduler and beside the live ledger.

mod live;
mod resource_query;
