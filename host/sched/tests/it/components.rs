//! Components in memory: policies that order by submission, one of which fails at its first call.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use fluxgate_policy::{Compiled, Limits, Loader};
use fluxgate_sched::Components;
use fluxgate_sched::settings::Settings;
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// Gives back the submission times as keys.
const ORDERS: &str = "(i32.store (i32.const 608) (i32.load offset=16 (local.get 0)))
    (i32.store (i32.const 612) (i32.load offset=20 (local.get 0)))
    (i32.const 608)";
/// Gives back the limits as keys: the shortest job first.
const SHORTEST: &str = "(i32.store (i32.const 608) (i32.load offset=24 (local.get 0)))
    (i32.store (i32.const 612) (i32.load offset=28 (local.get 0)))
    (i32.const 608)";
/// Fails whenever it is asked for keys.
const FAILS: &str = "unreachable";

/// A component of this name, with this body of `ordering.keys`.
fn component(name: &str, keys: &str) -> Vec<u8> {
    let module = format!(
        r#"(module
        (memory (export "memory") 2)
        (global $heap (mut i32) (i32.const 4096))
        (data (i32.const 16) "{name}")
        (data (i32.const 48) "1.0")
        (data (i32.const 64) "a test")
        ;; name, version, summary, config: pointer and length each
        (data (i32.const 512) "\10\00\00\00\{length:02x}\00\00\00\30\00\00\00\03\00\00\00\40\00\00\00\06\00\00\00\00\00\00\00\00\00\00\00")
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
          (local $at i32)
          (local.set $at (i32.and (i32.add (global.get $heap) (i32.const 7)) (i32.const -8)))
          (global.set $heap (i32.add (local.get $at) (local.get 3)))
          (local.get $at))
        (func (export "fluxgate:policy/policy@0.1.0#describe") (result i32) (i32.const 512))
        (func (export "fluxgate:policy/policy@0.1.0#configure") (param i32 i32) (result i32)
          (i32.store8 (i32.const 600) (i32.const 0)) (i32.const 600))
        (func (export "fluxgate:policy/ordering@0.1.0#keys") (param i32) (result i32) {keys})
        )"#,
        length = name.len(),
    );
    let contract = std::fs::read_to_string(fluxgate_testing::root().join("wit/0.1.0/policy.wit")).unwrap();
    let world = "package test:made;\nworld made {\n include fluxgate:policy/base@0.1.0;\n \
                 include fluxgate:policy/with-ordering@0.1.0;\n}\n";
    let mut resolve = Resolve::default();
    resolve.push_str("contract.wit", &contract).unwrap();
    let package = resolve.push_str("world.wit", world).unwrap();
    let world = resolve.select_world(&[package], None).unwrap();
    let mut module = wat::parse_str(&module).unwrap_or_else(|error| panic!("{error}"));
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
    ComponentEncoder::default().validate(true).module(&module).unwrap().encode().unwrap()
}

/// `steady` and `other` order by submission, `short` by limit, `faulty` fails when it is asked.
pub struct InMemory {
    loader: Loader,
    bytes: BTreeMap<String, Vec<u8>>,
    /// Manifests are required.
    strict: bool,
}

impl InMemory {
    pub fn new() -> InMemory {
        let of = |name: &str, keys: &str| (name.to_owned(), component(name, keys));
        InMemory {
            loader: Loader::without_clock(Limits::default()).unwrap(),
            bytes: BTreeMap::from([
                of("steady", ORDERS),
                of("other", ORDERS),
                of("faulty", FAILS),
                of("short", SHORTEST),
            ]),
            strict: false,
        }
    }

    /// Of these components only `steady` counts as one that has a manifest.
    fn judge(&self, name: &str) -> Result<()> {
        ensure!(!self.strict || name == "steady", "{name} has no manifest");
        Ok(())
    }
}

impl Components for InMemory {
    fn loader(&self) -> &Loader {
        &self.loader
    }

    fn files(&self) -> BTreeMap<String, PathBuf> {
        self.bytes.keys().map(|name| (name.clone(), Path::new("/policies").join(name))).collect()
    }

    fn find(&self, policy: &str) -> Result<PathBuf> {
        let name = policy.rsplit('/').next().unwrap();
        self.files().remove(name).with_context(|| format!("no policy {policy:?}"))
    }

    fn compile(&self, policy: &str) -> Result<Compiled> {
        let path = self.find(policy)?;
        self.judge(path.file_name().unwrap().to_str().unwrap())?;
        Ok(self.loader.compile(&self.bytes[path.file_name().unwrap().to_str().unwrap()])?)
    }

    fn admit(&self, _: &str, source: Option<&Path>) -> Result<()> {
        self.judge(source.unwrap().file_name().unwrap().to_str().unwrap())
    }

    fn signer(&self, _: &str) -> Option<String> {
        None
    }

    fn reopen(&self, settings: &Settings) -> Result<Arc<dyn Components>> {
        let (loader, bytes) = (self.loader.clone(), self.bytes.clone());
        Ok(Arc::new(InMemory { loader, bytes, strict: settings.rules.manifest }))
    }
}
