//! The tool as a program sees it, against the own cases of the graph scheduler.

mod resource_query;
