//! `export_policy!`: makes a component of a struct.

/// Exports a policy with the abilities named; a component exports exactly these.
///
/// ```
/// # use fluxgate_guest::prelude::*;
/// # #[derive(Default)] struct Mine;
/// # impl Policy for Mine { fn info() -> Info { Info::new("mine", "") } }
/// # impl Ordering for Mine { fn key(&mut self, _: f64, _: &Job) -> f64 { 0.0 } }
/// # impl Scheduling for Mine { fn run(&mut self, _: &mut dyn Pass) {} }
/// export_policy!(Mine: ordering, scheduling);
/// ```
///
/// ```compile_fail
/// # use fluxgate_guest::prelude::*;
/// # #[derive(Default)] struct Mine;
/// # impl Policy for Mine { fn info() -> Info { Info::new("mine", "") } }
/// export_policy!(Mine: sorting); // unknown ability `sorting`
/// ```
///
/// The abilities are `ordering`, `scheduling`, `observing`, `state` and `ranking`; the policy must implement the
/// trait of each. Once per crate. Natively this only implements [`crate::Exported`].
#[macro_export]
macro_rules! export_policy {
    ($policy:ty $(: $($ability:ident),+ $(,)?)?) => {
        impl $crate::Exported for $policy {
            $($($crate::__policy_ability!{$ability})+)?
        }

        #[cfg(target_arch = "wasm32")]
        const _: () = {
            ::std::thread_local! {
                // The only instance of a component. A component cannot be entered twice at a time.
                static INSTANCE: ::std::cell::RefCell<$policy> = ::std::default::Default::default();
            }
            struct Component;
            $crate::__policy_component!{base INSTANCE Component $policy}
            $($($crate::__policy_component!{$ability INSTANCE Component $policy})+)?
        };
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __policy_ability {
    (ordering) => {
        fn ordering(&mut self) -> ::std::option::Option<&mut dyn $crate::Ordering> {
            ::std::option::Option::Some(self)
        }
    };
    (scheduling) => {
        fn scheduling(&mut self) -> ::std::option::Option<&mut dyn $crate::Scheduling> {
            ::std::option::Option::Some(self)
        }
    };
    (observing) => {
        fn observing(&mut self) -> ::std::option::Option<&mut dyn $crate::Observing> {
            ::std::option::Option::Some(self)
        }
    };
    (state) => {
        fn state(&mut self) -> ::std::option::Option<&mut dyn $crate::State> {
            ::std::option::Option::Some(self)
        }
    };
    (ranking) => {
        fn ranking(&mut self) -> ::std::option::Option<&mut dyn $crate::Ranking> {
            ::std::option::Option::Some(self)
        }
    };
    ($other:ident) => {
        ::std::compile_error!(::std::concat!(
            "unknown ability `",
            ::std::stringify!($other),
            "`; there are ordering, scheduling, observing, state and ranking"
        ));
    };
}

#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
#[macro_export]
macro_rules! __policy_component {
    (base $instance:ident $component:ident $policy:ty) => {
        impl $crate::abi::base::exports::fluxgate::policy::policy::Guest for $component {
            fn describe() -> $crate::abi::wit::Description {
                $crate::abi::describe::<$policy>()
            }
            fn configure(
                values: ::std::vec::Vec<(::std::string::String, ::std::string::String)>,
            ) -> ::std::result::Result<(), ::std::string::String> {
                $crate::abi::configure(&$instance, values)
            }
        }
        $crate::abi::base::export!($component with_types_in $crate::abi::base);
    };
    (ordering $instance:ident $component:ident $policy:ty) => {
        impl $crate::abi::ordering::exports::fluxgate::policy::ordering::Guest for $component {
            fn keys(now: f64, jobs: $crate::abi::wit::JobColumns) -> ::std::vec::Vec<f64> {
                $crate::abi::keys(&$instance, now, jobs)
            }
        }
        $crate::abi::ordering::export!($component with_types_in $crate::abi::ordering);
    };
    (scheduling $instance:ident $component:ident $policy:ty) => {
        impl $crate::abi::scheduling::exports::fluxgate::policy::scheduling::Guest for $component {
            fn run() {
                $crate::abi::run(&$instance)
            }
        }
        $crate::abi::scheduling::export!($component with_types_in $crate::abi::scheduling);
    };
    (observing $instance:ident $component:ident $policy:ty) => {
        impl $crate::abi::observing::exports::fluxgate::policy::observing::Guest for $component {
            fn observe(now: f64, events: ::std::vec::Vec<$crate::abi::wit::JobEvent>) {
                $crate::abi::observe(&$instance, now, events)
            }
        }
        $crate::abi::observing::export!($component with_types_in $crate::abi::observing);
    };
    (state $instance:ident $component:ident $policy:ty) => {
        impl $crate::abi::state::exports::fluxgate::policy::state::Guest for $component {
            fn save() -> (u32, ::std::vec::Vec<u8>) {
                $crate::abi::save(&$instance)
            }
            fn restore(
                from: ::std::string::String,
                version: u32,
                data: ::std::vec::Vec<u8>,
            ) -> ::std::result::Result<(), ::std::string::String> {
                $crate::abi::restore(&$instance, from, version, data)
            }
        }
        $crate::abi::state::export!($component with_types_in $crate::abi::state);
    };
    (ranking $instance:ident $component:ident $policy:ty) => {
        impl $crate::abi::wit_ranking::Guest for $component {
            fn scores(nodes: ::std::vec::Vec<$crate::abi::wit_ranking::Node>) -> ::std::vec::Vec<f64> {
                $crate::abi::scores(&$instance, nodes)
            }
        }
        $crate::abi::ranking::export!($component with_types_in $crate::abi::ranking);
    };
    ($other:ident $instance:ident $component:ident $policy:ty) => {};
}
