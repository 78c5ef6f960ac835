//! `fluxgate policy publish`: a component and its signature into an OCI registry.

use std::path::Path;

use anyhow::{Context, Result};
use fluxgate_artefact::keys::signer;
use fluxgate_artefact::registry::{Component, Target, docker_config};
use serde_json::json;

use super::super::answers::said;
use super::{check, store};
use crate::policy_source::PolicySource;

/// `fluxgate policy publish`.
pub(super) fn run(
    policy: &str,
    target: &str,
    unchecked: bool,
    as_json: bool,
    dir: Option<&Path>,
) -> Result<()> {
    let place = Target::parse(target)?;
    let source = PolicySource::open(dir)?;
    let compiled = source.compile(policy)?;
    let file = source.find(policy)?;
    let bytes = source.read(&file).with_context(|| file.display().to_string())?;
    let signature = store::signature_beside(&file)?;
    let key = signature.as_deref().map(|text| signer(text, &file)).transpose()?;
    if !unchecked {
        check::conforms(&source, &bytes, &file, as_json)
            .context("nothing was published; --unchecked leaves this out")?;
    }
    let (description, derived) = (compiled.description(), compiled.derived_manifest());
    let manifest = compiled.manifest();
    let exports: Vec<String> = std::iter::once("policy")
        .chain(derived.abilities.iter().map(String::as_str))
        .map(|interface| format!("fluxgate:policy/{interface}@{}", derived.wit))
        .collect();
    let component = Component {
        name: &description.name,
        version: &description.version,
        summary: &description.summary,
        author: manifest.map(|m| m.author.as_str()),
        license: manifest.map(|m| m.license.as_str()),
        source: manifest.and_then(|m| m.source.as_deref()),
        exports: &exports,
        imports: &derived.needs.imports,
        bytes: &bytes,
        signature: signature.as_deref(),
    };
    let published = place.publish(&component, docker_config().as_deref())?;
    let (reference, tag) = (published.reference.to_string(), &published.tag);
    let answer = json!({"reference": reference, "tag": tag, "name": component.name, "version": component.version, "key": key});
    said(&answer, as_json, || {
        let signed = key.as_ref().map(|key| format!(", with the signature of key {key}")).unwrap_or_default();
        format!("{reference} ({}, tag {tag}{signed})", component.name)
    })
}
