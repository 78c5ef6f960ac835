//! The manifest of a component in a custom section, which is read before any of its code runs.
//!
//! The manifest is JSON in the section [`SECTION`] on the top level of the component. It is read before compilation,
//! and its requirements are compared with this host. After compilation it is compared with the component itself. A
//! component without a manifest is accepted, unless a site demands one.
//!
//! This module must never know whether a manifest can be trusted, nor whether the author that it names made the component.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use wasm_encoder::{CustomSection, Encode as _};
use wasmparser::CustomSectionReader;

use crate::config::ConfigKey;
use crate::error::LoadError;
use crate::limits::{LINE_BYTES_MAX, Limits, NAME_BYTES_MAX, one_line};
use crate::probe;
use crate::sections::{self, Section};

/// Name of the custom section.
pub const SECTION: &str = "fluxgate:manifest";
/// Largest manifest, bytes.
pub const MANIFEST_BYTES_MAX: usize = 64 << 10;
/// The format of this version.
const FORMAT: u32 = 1;
/// Id of a custom section in a component.
const CUSTOM: u8 = 0;

/// A component's description for a host that has not compiled it: origin, contract, settings and requirements.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Manifest {
    /// Version of this format: 1.
    pub format: u32,
    /// Name of the policy, as in its description.
    pub name: String,
    /// The policy's own version, as in its description.
    pub version: String,
    /// The version of the contract for which it was built. A host accepts those of [`contract_versions`].
    pub wit: String,
    /// The abilities that it exports, in the order of the contract.
    pub abilities: Vec<String>,
    /// Its settings, as in its description.
    pub config: Vec<ConfigKey>,
    /// The person or organisation responsible for it.
    pub author: String,
    /// An SPDX expression, or other text.
    pub license: String,
    /// The location of its source, if that is public.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Its requirements on a host.
    #[serde(default)]
    pub needs: Needs,
}

/// The requirements of a component on a host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Needs {
    /// The smallest limits with which it can run, by the names of [`Limits`].
    pub limits: std::collections::BTreeMap<String, u64>,
    /// Interfaces that it imports, with their version, such as `fluxgate:policy/pass@0.1.0`.
    pub imports: Vec<String>,
}

fn bad(field: &str, problem: impl Into<String>) -> LoadError {
    LoadError::Manifest { field: field.to_owned(), problem: problem.into() }
}

impl Manifest {
    /// The manifest of a component, if it has one. Nothing is executed or compiled. Sections behind an incomplete one are not read.
    ///
    /// # Errors
    /// [`LoadError::Manifest`] if there are two, or it is larger than [`MANIFEST_BYTES_MAX`], of another format, or invalid.
    pub fn read(component: &[u8]) -> Result<Option<Manifest>, LoadError> {
        let mut found =
            sections::of(component).map_while(Result::ok).filter_map(|section| manifest_text(&section));
        let Some(text) = found.next() else { return Ok(None) };
        if found.next().is_some() {
            return Err(bad("", "is there twice; accepted is one section, see `fluxgate policy seal`"));
        }
        if text.len() > MANIFEST_BYTES_MAX {
            let found = text.len();
            return Err(bad("", format!("has {found} bytes; at most {MANIFEST_BYTES_MAX} are accepted")));
        }
        let format = serde_json::from_slice::<Value>(text)
            .map_err(|error| bad("", format!("is not JSON: {error}")))?
            .get("format")
            .cloned();
        if format != Some(FORMAT.into()) {
            let found = format.map_or_else(|| "missing".to_owned(), |found| one_line(&found.to_string(), 64));
            return Err(bad("format", format!("is {found}; this host reads {FORMAT}")));
        }
        let manifest: Manifest = serde_json::from_slice(text)
            .map_err(|error| bad("", format!("is not one: {}", one_line(&error.to_string(), 200))))?;
        manifest.check_texts()?;
        Ok(Some(manifest))
    }

    fn check_texts(&self) -> Result<(), LoadError> {
        let source = self.source.as_deref().unwrap_or_default();
        let lines = [
            ("name", self.name.as_str(), NAME_BYTES_MAX),
            ("version", self.version.as_str(), LINE_BYTES_MAX),
            ("wit", self.wit.as_str(), NAME_BYTES_MAX),
            ("author", self.author.as_str(), LINE_BYTES_MAX),
            ("license", self.license.as_str(), LINE_BYTES_MAX),
            ("source", source, LINE_BYTES_MAX),
        ];
        for (field, text, max) in lines {
            if text.len() > max || text.chars().any(char::is_control) {
                return Err(bad(field, format!("is no line of at most {max} bytes")));
            }
            if text.is_empty() && field != "source" {
                return Err(bad(field, "is empty"));
            }
        }
        Ok(())
    }

    /// The component with this manifest, in place of an earlier one. All other bytes are unchanged. The manifest is not compared with
    /// the component.
    ///
    /// # Errors
    /// [`LoadError::Manifest`] if it is too large, or a text is empty (`source` may be), too long, or of more than one line.
    pub fn seal(&self, component: &[u8]) -> Result<Vec<u8>, LoadError> {
        self.check_texts()?;
        let text = serde_json::to_vec(self).map_err(|error| bad("", error.to_string()))?;
        if text.len() > MANIFEST_BYTES_MAX {
            let found = text.len();
            return Err(bad("", format!("has {found} bytes; at most {MANIFEST_BYTES_MAX} are accepted")));
        }
        let mut sealed = Manifest::strip(component);
        sealed.push(CUSTOM);
        CustomSection { name: SECTION.into(), data: text.into() }.encode(&mut sealed);
        Ok(sealed)
    }

    /// The component without any manifest. An incomplete component is returned unchanged.
    pub fn strip(component: &[u8]) -> Vec<u8> {
        let Ok(found) = sections::of(component).collect::<Result<Vec<_>, _>>() else {
            return component.to_vec();
        };
        let mut plain = component[..sections::HEADER_BYTES.min(component.len())].to_vec();
        for section in found.into_iter().filter(|section| manifest_text(section).is_none()) {
            plain.extend_from_slice(section.whole);
        }
        plain
    }

    /// Checks that this host satisfies its requirements.
    ///
    /// # Errors
    /// [`LoadError::Manifest`] with the version, the limit or the import that is not available.
    pub(crate) fn satisfied(&self, limits: &Limits) -> Result<(), LoadError> {
        if !probe::VERSIONS.contains(&self.wit.as_str()) {
            let has = probe::VERSIONS.join(", ");
            let problem = format!(
                "is {:?}; this host has version {has} of the contract: build the component against that, or use a newer host",
                self.wit
            );
            return Err(bad("wit", problem));
        }
        let here = serde_json::to_value(limits).unwrap_or_default();
        for (limit, needed) in &self.needs.limits {
            let field = format!("needs.limits.{limit}");
            match here.get(limit).and_then(Value::as_u64) {
                None => return Err(bad(&field, "is no limit of this host")),
                Some(here) if here < *needed => {
                    let problem = format!(
                        "is {needed}; this host grants {here} (limit {limit}): raise the limit, or use a smaller policy"
                    );
                    return Err(bad(&field, problem));
                }
                Some(_) => {}
            }
        }
        self.needs.imports.iter().try_for_each(|import| probe::import(import))
    }

    /// Checks that the component agrees with it.
    ///
    /// # Errors
    /// [`LoadError::Manifest`] with the field that differs.
    pub(crate) fn agrees(&self, derived: &Manifest) -> Result<(), LoadError> {
        let lists = |list: &[String]| if list.is_empty() { "none".to_owned() } else { list.join(", ") };
        let differs = |field: &str, says: &str, is: &str| {
            bad(field, format!("is {says:?}, but the component itself has {is:?}; seal it again"))
        };
        if self.name != derived.name {
            return Err(differs("name", &self.name, &derived.name));
        }
        if self.version != derived.version {
            return Err(differs("version", &self.version, &derived.version));
        }
        if self.abilities != derived.abilities {
            return Err(differs("abilities", &lists(&self.abilities), &lists(&derived.abilities)));
        }
        if self.config != derived.config {
            let names = |keys: &[ConfigKey]| {
                let shown = |k: &ConfigKey| format!("{} ({}, default {:?})", k.name, k.kind, k.default);
                lists(&keys.iter().map(shown).collect::<Vec<_>>())
            };
            return Err(differs("config", &names(&self.config), &names(&derived.config)));
        }
        let undeclared: Vec<String> =
            derived.needs.imports.iter().filter(|i| !self.needs.imports.contains(i)).cloned().collect();
        if !undeclared.is_empty() {
            let says = lists(&self.needs.imports);
            return Err(differs("needs.imports", &says, &lists(&undeclared)));
        }
        Ok(())
    }
}

/// The content of a section, if it is a manifest.
fn manifest_text<'a>(section: &Section<'a>) -> Option<&'a [u8]> {
    let custom = (section.id == CUSTOM).then(|| CustomSectionReader::new(section.content.clone()).ok())??;
    (custom.name() == SECTION).then(|| custom.data())
}

/// The versions of the contract that this host runs, the newest first.
pub fn contract_versions() -> &'static [&'static str] {
    &probe::VERSIONS
}

/// The manifest that follows from a component, for [`Manifest::agrees`], or as a draft.
pub(crate) fn derive(
    description: &crate::Description,
    abilities: fluxgate_engine::Abilities,
    imports: &[String],
) -> Manifest {
    let has = [
        (abilities.ordering, "ordering"),
        (abilities.scheduling, "scheduling"),
        (abilities.observing, "observing"),
        (abilities.state, "state"),
        (abilities.ranking, "ranking"),
    ];
    Manifest {
        format: FORMAT,
        name: description.name.clone(),
        version: description.version.clone(),
        wit: probe::VERSIONS[0].to_owned(),
        abilities: has.iter().filter(|(has, _)| *has).map(|(_, name)| (*name).to_owned()).collect(),
        config: description.config.clone(),
        author: String::new(),
        license: String::new(),
        source: None,
        needs: Needs { imports: imports.to_vec(), ..Needs::default() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        Manifest {
            format: FORMAT,
            name: "mine".to_owned(),
            version: "1".to_owned(),
            wit: "0.1.0".to_owned(),
            abilities: vec!["ordering".to_owned()],
            config: Vec::new(),
            author: "A. Author".to_owned(),
            license: "Apache-2.0".to_owned(),
            source: None,
            needs: Needs::default(),
        }
    }

    fn component() -> Vec<u8> {
        wat::parse_str(r#"(component (core module (func (export "f"))) (type (func)))"#).unwrap()
    }

    fn with(text: &[u8]) -> Vec<u8> {
        let mut bytes = component();
        bytes.push(CUSTOM);
        CustomSection { name: SECTION.into(), data: text.into() }.encode(&mut bytes);
        bytes
    }

    #[test]
    fn sealed_and_read_back_and_sealed_anew() {
        let plain = component();
        assert_eq!(Manifest::read(&plain).unwrap(), None);
        let sealed = manifest().seal(&plain).unwrap();
        assert!(sealed.starts_with(&plain), "all else stays");
        assert_eq!(Manifest::read(&sealed).unwrap(), Some(manifest()));
        let other = Manifest { version: "2".to_owned(), ..manifest() };
        let again = other.seal(&sealed).unwrap();
        assert_eq!(Manifest::read(&again).unwrap(), Some(other));
        assert_eq!(again.len(), sealed.len(), "in place of the first");
        // Cut at any byte it is not misread, and no call panics.
        for end in 0..sealed.len() {
            let _ = Manifest::read(&sealed[..end]);
        }
    }

    #[test]
    fn what_is_no_manifest_is_refused_in_words() {
        let refuse = |bytes: &[u8]| Manifest::read(bytes).unwrap_err().to_string();
        assert!(refuse(&with(b"{")).starts_with("manifest: is not JSON"));
        assert_eq!(refuse(&with(b"{}")), "manifest: format is missing; this host reads 1");
        assert_eq!(refuse(&with(br#"{"format":2}"#)), "manifest: format is 2; this host reads 1");
        assert!(refuse(&with(br#"{"format":1,"nmae":"x"}"#)).contains("unknown field `nmae`"));
        assert!(refuse(&with(&vec![b' '; MANIFEST_BYTES_MAX + 1])).contains("at most 65536 are accepted"));
        let mut twice = manifest().seal(&component()).unwrap();
        let one = twice.split_off(component().len());
        let twice = [component(), one.clone(), one].concat();
        assert!(refuse(&twice).contains("is there twice"));
        let long = Manifest { author: "x".repeat(600), ..manifest() };
        assert!(long.seal(&component()).unwrap_err().to_string().starts_with("manifest: author is no line"));
        let empty = Manifest { license: String::new(), ..manifest() };
        assert_eq!(empty.seal(&component()).unwrap_err().to_string(), "manifest: license is empty");
    }

    #[test]
    fn what_a_host_does_not_have_is_named() {
        let refuse = |change: fn(&mut Manifest)| {
            let mut manifest = manifest();
            change(&mut manifest);
            manifest.satisfied(&Limits::default()).unwrap_err().to_string()
        };
        manifest().satisfied(&Limits::default()).unwrap();
        let error = refuse(|m| m.wit = "0.2.0".to_owned());
        assert!(error.starts_with("manifest: wit is \"0.2.0\"; this host has version 0.1.0"), "{error}");
        let error = refuse(|m| m.needs.limits.extend([("memory-bytes".to_owned(), 1 << 40)]));
        assert!(
            error.starts_with(
                "manifest: needs.limits.memory-bytes is 1099511627776; this host grants 268435456"
            ),
            "{error}"
        );
        let error = refuse(|m| m.needs.limits.extend([("patience".to_owned(), 1)]));
        assert_eq!(error, "manifest: needs.limits.patience is no limit of this host");
        let error = refuse(|m| m.needs.imports.push("wasi:clocks/wall-clock@0.2.0".to_owned()));
        assert!(error.starts_with("imports wasi:clocks/wall-clock@0.2.0, which this host does not offer"));
    }

    #[test]
    fn a_manifest_that_is_not_of_this_component_is_refused() {
        let refuse = |change: fn(&mut Manifest)| {
            let mut derived = manifest();
            change(&mut derived);
            manifest().agrees(&derived).unwrap_err().to_string()
        };
        manifest().agrees(&manifest()).unwrap();
        assert_eq!(
            refuse(|m| m.name = "yours".to_owned()),
            "manifest: name is \"mine\", but the component itself has \"yours\"; seal it again"
        );
        assert!(refuse(|m| m.version = "2".to_owned()).starts_with("manifest: version is \"1\""));
        assert!(refuse(|m| m.abilities.clear()).contains("the component itself has \"none\""));
        assert!(
            refuse(|m| m.needs.imports.push("fluxgate:policy/log@0.1.0".to_owned()))
                .starts_with("manifest: needs.imports is \"none\"")
        );
    }
}
