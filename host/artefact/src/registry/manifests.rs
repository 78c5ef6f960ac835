//! Manifests, written and read.
//!
//! A component is an image manifest whose configuration has the type `application/vnd.wasm.config.v0+json` (CNCF TAG
//! Runtime, WASM OCI Artifact Layout), so that tools for WebAssembly packages read it. A signature is an artefact of
//! its own whose `subject` is the component's manifest (OCI image specification 1.1).
//!
//! This module must never send or receive anything.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{COMPONENT_TYPES, Component, SIGNATURE_TYPE, SIGNATURES_MAX};

/// Media type of image manifests.
pub(super) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// Media type of lists of manifests.
pub(super) const INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// Media types of manifests in requests.
pub(super) const MANIFESTS: &str =
    "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json";
/// Media type of the configuration of a component.
pub(super) const WASM_CONFIG: &str = "application/vnd.wasm.config.v0+json";
/// Media type of a configuration without content, which is [`EMPTY`].
pub(super) const EMPTY_CONFIG: &str = "application/vnd.oci.empty.v1+json";
/// The configuration without content.
pub(super) const EMPTY: &[u8] = b"{}";

/// SHA-256 in hexadecimal digits.
pub(super) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// True for 64 hexadecimal digits in lower case.
pub(super) fn is_hex_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

fn descriptor(kind: &str, bytes: &[u8]) -> Value {
    json!({"mediaType": kind, "digest": format!("sha256:{}", sha256(bytes)), "size": bytes.len()})
}

/// The configuration of a component. It has no time, so that one component has one digest.
pub(super) fn wasm_config(component: &Component<'_>) -> Vec<u8> {
    let digest = format!("sha256:{}", sha256(component.bytes));
    json!({
        "created": "1970-01-01T00:00:00Z",
        "architecture": "wasm",
        "os": "wasip2",
        "layerDigests": [digest],
        "component": {"exports": component.exports, "imports": component.imports},
    })
    .to_string()
    .into_bytes()
}

/// The manifest of a component with this configuration.
pub(super) fn of_component(component: &Component<'_>, config: &[u8]) -> Vec<u8> {
    let mut layer = descriptor(COMPONENT_TYPES[0], component.bytes);
    layer["annotations"] = json!({"org.opencontainers.image.title": format!("{}.wasm", component.name)});
    let mut annotations = json!({
        "org.opencontainers.image.title": component.name,
        "org.opencontainers.image.version": component.version,
    });
    let further = [
        ("description", Some(component.summary)),
        ("authors", component.author),
        ("licenses", component.license),
        ("source", component.source),
    ];
    for (key, value) in further {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            annotations[format!("org.opencontainers.image.{key}")] = value.into();
        }
    }
    json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": descriptor(WASM_CONFIG, config),
        "layers": [layer],
        "annotations": annotations,
    })
    .to_string()
    .into_bytes()
}

/// The manifest of a signature of the component `name`, whose manifest is `subject`.
pub(super) fn of_signature(name: &str, signature: &[u8], subject: &[u8]) -> Vec<u8> {
    let mut layer = descriptor(SIGNATURE_TYPE, signature);
    layer["annotations"] = json!({"org.opencontainers.image.title": format!("{name}.wasm.minisig")});
    let mut config = descriptor(EMPTY_CONFIG, EMPTY);
    config["data"] = "e30=".into();
    json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "artifactType": SIGNATURE_TYPE,
        "config": config,
        "layers": [layer],
        "subject": descriptor(MANIFEST, subject),
    })
    .to_string()
    .into_bytes()
}

/// The tag of the list of manifests that refer to a manifest, for registries that keep no such list (OCI distribution 1.1,
/// "Referrers tag schema").
pub(super) fn referrers_tag(digest: &str) -> String {
    format!("sha256-{digest}")
}

/// That list with one more signature; nothing if it is in it.
pub(super) fn with_referrer(index: Option<Value>, manifest: &[u8]) -> Option<Vec<u8>> {
    let mut entry = descriptor(MANIFEST, manifest);
    entry["artifactType"] = SIGNATURE_TYPE.into();
    let mut index = index
        .filter(|index| index["manifests"].is_array())
        .unwrap_or_else(|| json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": []}));
    let entries = index["manifests"].as_array_mut()?;
    if entries.iter().any(|there| there["digest"] == entry["digest"]) {
        return None;
    }
    entries.push(entry);
    Some(index.to_string().into_bytes())
}

/// Digests of the manifests of signatures, in a list of manifests that refer to a component.
pub(super) fn signatures_in(index: &Value) -> Result<Vec<String>, String> {
    let entries = index["manifests"].as_array().map(Vec::as_slice).unwrap_or_default();
    let found: Vec<String> = entries
        .iter()
        .filter(|entry| entry["artifactType"] == SIGNATURE_TYPE)
        .map(|entry| digest_of(entry).ok_or_else(|| "a referrer without a sha256 digest".to_owned()))
        .collect::<Result<_, _>>()?;
    match found.len() {
        ..=SIGNATURES_MAX => Ok(found),
        many => Err(format!("{many} signatures; at most {SIGNATURES_MAX} are read")),
    }
}

/// The layers of these types.
pub(super) fn layers<'a>(manifest: &'a Value, types: &[&str]) -> Vec<&'a Value> {
    let layers = manifest["layers"].as_array().map(Vec::as_slice).unwrap_or_default();
    layers.iter().filter(|l| l["mediaType"].as_str().is_some_and(|t| types.contains(&t))).collect()
}

/// The digest that a descriptor names.
pub(super) fn digest_of(descriptor: &Value) -> Option<String> {
    let digest = descriptor["digest"].as_str()?.strip_prefix("sha256:")?;
    is_hex_digest(digest).then(|| digest.to_owned())
}
