//! Typed bindings generated from the contract, `wit/0.1.0`.
//!
//! One world is used for every policy: it imports all interfaces of the host and exports every ability. A component
//! is never instantiated through the whole world. Each exported interface has its own indices, and only those of the
//! component's exports are looked up (see `probe`).
//!
//! Each released version of the contract keeps a module of its own.

/// The contract of version 0.1.0.
#[allow(missing_docs, unsafe_code, dead_code, unreachable_pub, unused_qualifications, clippy::all)]
pub(crate) mod v0_1_0 {
    wasmtime::component::bindgen!({
        path: "../../wit/0.1.0",
        inline: "
            package fluxgate:host;
            world everything {
                include fluxgate:policy/base@0.1.0;
                include fluxgate:policy/with-attributes@0.1.0;
                include fluxgate:policy/with-flow@0.1.0;
                include fluxgate:policy/with-groups@0.1.0;
                include fluxgate:policy/with-many@0.1.0;
                include fluxgate:policy/with-resources@0.1.0;
                include fluxgate:policy/with-ordering@0.1.0;
                include fluxgate:policy/with-scheduling@0.1.0;
                include fluxgate:policy/with-observing@0.1.0;
                include fluxgate:policy/with-state@0.1.0;
                include fluxgate:policy/with-ranking@0.1.0;
            }
        ",
        world: "fluxgate:host/everything",
        imports: { default: trappable },
        ownership: Borrowing { duplicate_if_necessary: true },
    });
}
