//! Components in text form: a core module, wrapped by the contract's own WIT.
//!
//! A test replaces the functions under test; all others are those of a well-behaved policy.

use fluxgate_policy::{Limits, Loader};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// Exports and imports of a test component, beside `policy`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Worlds<'a> {
    pub ordering: bool,
    pub scheduling: bool,
    pub observing: bool,
    pub state: bool,
    /// Further lines of the world.
    pub extra: &'a str,
    /// Additions to the contract, as WIT text without its first line.
    pub contract_more: &'a str,
    /// Further packages, as WIT text.
    pub packages: &'a [&'a str],
}

/// A policy with keys only.
pub const ORDERING: Worlds<'static> = Worlds {
    ordering: true,
    scheduling: false,
    observing: false,
    state: false,
    extra: "",
    contract_more: "",
    packages: &[],
};

/// A well-behaved policy, in pieces that tests replace by name.
#[derive(Debug, Clone)]
pub struct Wat {
    pub describe: String,
    pub configure: String,
    pub keys: String,
    pub run: String,
    pub observe: String,
    pub save: String,
    pub restore: String,
    pub realloc: String,
    /// Imports first, then data, functions and the code that runs at start.
    pub more: String,
}

/// Imports in text form, for [`Wat::more`].
pub const PASS: &str = r#"
  (import "fluxgate:policy/pass@0.1.0" "next" (func $next (result i32)))
  (import "fluxgate:policy/pass@0.1.0" "now" (func $now (result f64)))
  (import "fluxgate:policy/pass@0.1.0" "describe" (func $job (param i32 i32)))
  (import "fluxgate:policy/pass@0.1.0" "fits" (func $fits (param i32) (result i32)))
  (import "fluxgate:policy/pass@0.1.0" "earliest" (func $earliest (param i32) (result f64)))
  (import "fluxgate:policy/pass@0.1.0" "start" (func $start (param i32 i32)))
  (import "fluxgate:policy/pass@0.1.0" "start-placed" (func $start-placed (param i32 i32 i32)))
  (import "fluxgate:policy/pass@0.1.0" "annotate" (func $annotate (param i32 i32 i32 i32 i32)))
"#;
/// See [`PASS`].
pub const LOG: &str = r#"(import "fluxgate:policy/log@0.1.0" "write" (func $log (param i32 i32 i32)))"#;

impl Default for Wat {
    fn default() -> Wat {
        let text = |text: &str| text.to_owned();
        Wat {
            // A record of name, version, summary and config at 512.
            describe: text("(i32.const 512)"),
            configure: text("(i32.store8 (i32.const 600) (i32.const 0)) (i32.const 600)"),
            // Returns the list of submission times as keys.
            keys: text(
                "(i32.store (i32.const 608) (i32.load offset=16 (local.get 0)))
                 (i32.store (i32.const 612) (i32.load offset=20 (local.get 0)))
                 (i32.const 608)",
            ),
            run: text(""),
            observe: text(""),
            // Version 7, three bytes.
            save: text(
                "(i32.store (i32.const 620) (i32.const 7)) (i32.store (i32.const 624) (i32.const 64))
                 (i32.store (i32.const 628) (i32.const 3)) (i32.const 620)",
            ),
            restore: text("(i32.store8 (i32.const 600) (i32.const 0)) (i32.const 600)"),
            // A heap that only grows and starts at 4096.
            realloc: text(
                "(local $at i32)
                 (local.set $at (i32.and (i32.add (global.get $heap) (i32.const 7)) (i32.const -8)))
                 (global.set $heap (i32.add (local.get $at) (local.get 3)))
                 (block $enough (loop $more
                   (br_if $enough (i32.le_u (global.get $heap) (i32.mul (memory.size) (i32.const 65536))))
                   (if (i32.eq (memory.grow (i32.const 16)) (i32.const -1)) (then unreachable))
                   (br $more)))
                 (local.get $at)",
            ),
            more: String::new(),
        }
    }
}

impl Wat {
    /// The component, as bytes.
    pub fn build(&self, worlds: Worlds<'_>) -> Vec<u8> {
        component(&self.module(worlds), worlds)
    }

    fn module(&self, w: Worlds<'_>) -> String {
        let ability = |has: bool, interface: &str, functions: &[(&str, &str, &str)]| -> String {
            let mut text = String::new();
            for (name, signature, body) in functions.iter().filter(|_| has) {
                text += &format!(
                    "(func (export \"fluxgate:policy/{interface}@0.1.0#{name}\") {signature} {body})\n"
                );
            }
            text
        };
        let mut text = format!("(module {}\n", self.more);
        text += r#"(memory (export "memory") 2)
            (global $heap (mut i32) (i32.const 4096))
            (data (i32.const 16) "odd-one")
            (data (i32.const 32) "1.0")
            (data (i32.const 48) "a test")
            (data (i32.const 64) "abc")
            ;; name, version, summary, config: pointer and length each
            (data (i32.const 512) "\10\00\00\00\07\00\00\00\20\00\00\00\03\00\00\00\30\00\00\00\06\00\00\00\00\00\00\00\00\00\00\00")
        "#;
        text += &format!(
            "(func (export \"cabi_realloc\") (param i32 i32 i32 i32) (result i32) {})\n",
            self.realloc
        );
        text += &ability(
            true,
            "policy",
            &[
                ("describe", "(result i32)", &self.describe),
                ("configure", "(param i32 i32) (result i32)", &self.configure),
            ],
        );
        text += &ability(w.ordering, "ordering", &[("keys", "(param i32) (result i32)", &self.keys)]);
        text += &ability(w.scheduling, "scheduling", &[("run", "", &self.run)]);
        text += &ability(w.observing, "observing", &[("observe", "(param f64 i32 i32)", &self.observe)]);
        let restore = "(param i32 i32 i32 i32 i32) (result i32)";
        text += &ability(
            w.state,
            "state",
            &[("save", "(result i32)", &self.save), ("restore", restore, &self.restore)],
        );
        text + ")"
    }
}

/// Wrap a core module as a component of the contract.
pub fn component(module: &str, w: Worlds<'_>) -> Vec<u8> {
    let mut contract =
        std::fs::read_to_string(fluxgate_testing::root().join("wit/0.1.0/policy.wit")).unwrap();
    contract += w.contract_more;
    let mut world = String::from("package test:made;\nworld made {\n include fluxgate:policy/base@0.1.0;\n");
    let abilities = [
        (w.ordering, "ordering"),
        (w.scheduling, "scheduling"),
        (w.observing, "observing"),
        (w.state, "state"),
    ];
    for (_, ability) in abilities.iter().filter(|(has, _)| *has) {
        world += &format!(" include fluxgate:policy/with-{ability}@0.1.0;\n");
    }
    world += &format!("{}\n}}\n", w.extra);
    let mut texts = vec![contract];
    texts.extend(w.packages.iter().map(|text| (*text).to_owned()));
    texts.push(world);
    encode(module, &texts)
}

/// Wrap a core module by the last of `texts`, a package with one world.
pub fn encode(module: &str, texts: &[String]) -> Vec<u8> {
    let mut resolve = Resolve::default();
    let mut package = None;
    for (i, text) in texts.iter().enumerate() {
        package = Some(resolve.push_str(format!("{i}.wit"), text).unwrap());
    }
    let world = resolve.select_world(&[package.unwrap()], None).unwrap();
    let mut module = wat::parse_str(module).unwrap_or_else(|error| panic!("{error}"));
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
    ComponentEncoder::default().validate(true).module(&module).unwrap().encode().unwrap()
}

/// A loader with small limits, so that a breach takes no time.
pub fn loader() -> Loader {
    Loader::new(small(), None).unwrap()
}

/// See [`loader`].
pub fn small() -> Limits {
    Limits {
        memory_bytes: 4 << 20,
        fuel_instantiate: 10_000_000,
        fuel_describe: 10_000_000,
        fuel_configure: 10_000_000,
        fuel_keys: 10_000_000,
        fuel_run: 10_000_000,
        fuel_observe: 10_000_000,
        fuel_save: 10_000_000,
        fuel_restore: 10_000_000,
        ..Limits::default()
    }
}
