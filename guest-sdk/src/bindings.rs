//! The bindings of the contract, as generated from its WIT. Compiled only for WebAssembly.
//!
//! One small world per ability, because a component must export exactly the abilities of its policy. The worlds share
//! the bindings of the imports, which are in `base`. This module must never know a type of this crate.

#![allow(missing_docs, clippy::all, unused_qualifications, unreachable_pub)]

pub mod base {
    wit_bindgen::generate!({ path: "wit", world: "base", pub_export_macro: true, generate_all });
}

macro_rules! ability {
    ($module:ident, $world:literal) => {
        pub mod $module {
            wit_bindgen::generate!({
                path: "wit",
                world: $world,
                pub_export_macro: true,
                with: {
                    "fluxgate:policy/types@0.1.0": super::base::fluxgate::policy::types,
                    "fluxgate:policy/log@0.1.0": super::base::fluxgate::policy::log,
                    "fluxgate:policy/machine@0.1.0": super::base::fluxgate::policy::machine,
                    "fluxgate:policy/pass@0.1.0": super::base::fluxgate::policy::pass,
                },
                generate_all,
            });
        }
    };
}
ability!(ordering, "with-ordering");
ability!(scheduling, "with-scheduling");
ability!(observing, "with-observing");
ability!(state, "with-state");

/// Added after the release; it shares nothing with the other worlds.
pub mod ranking {
    wit_bindgen::generate!({ path: "wit", world: "with-ranking", pub_export_macro: true, generate_all });
}

/// Added after the release: imported only by components that use it.
pub mod many {
    wit_bindgen::generate!({
        path: "wit",
        world: "with-many",
        with: {
            "fluxgate:policy/types@0.1.0": super::base::fluxgate::policy::types,
            "fluxgate:policy/pass@0.1.0": super::base::fluxgate::policy::pass,
        },
        generate_all,
    });
}

/// The same for groups.
pub mod grouped {
    wit_bindgen::generate!({
        path: "wit",
        world: "with-groups",
        with: {
            "fluxgate:policy/types@0.1.0": super::base::fluxgate::policy::types,
            "fluxgate:policy/pass@0.1.0": super::base::fluxgate::policy::pass,
        },
        generate_all,
    });
}

/// The same for flow.
pub mod flowing {
    wit_bindgen::generate!({
        path: "wit",
        world: "with-flow",
        with: {
            "fluxgate:policy/types@0.1.0": super::base::fluxgate::policy::types,
        },
        generate_all,
    });
}

/// The same for attributes of jobs.
pub mod known {
    wit_bindgen::generate!({ path: "wit", world: "with-attributes", generate_all });
}

/// The same for resources beside nodes, cores and gpus.
pub mod pools {
    wit_bindgen::generate!({ path: "wit", world: "with-resources", generate_all });
}

pub use base::fluxgate::policy::types as wit;
pub(crate) use base::fluxgate::policy::{log as host_log, machine as host_machine, pass as host};
pub(crate) use flowing::fluxgate::policy::flow as host_flow;
pub(crate) use grouped::fluxgate::policy::groups as host_groups;
pub(crate) use known::fluxgate::policy::attributes as host_attributes;
pub(crate) use many::fluxgate::policy::many as host_many;
pub(crate) use pools::fluxgate::policy::resources as host_resources;
pub use ranking::exports::fluxgate::policy::ranking as wit_ranking;
