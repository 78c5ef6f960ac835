//! `fluxgate policy install | remove | list --all`: the folder of policies.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use fluxgate_artefact::audit::Trail;
use fluxgate_artefact::installed;
use fluxgate_artefact::keys::{Keys, TEXT_BYTES_MAX, signature_path, signer};
use fluxgate_artefact::registry::{Reference, docker_config};
use fluxgate_policy::Digest;
use fluxgate_sched::audit_entry;
use semver::Version;
use serde_json::{Value, json};

use super::super::answers::said;
use super::check;
use crate::audit_trail;
use crate::clock::Clock;
use crate::policy_source::{PolicySource, pin};
use crate::render;

fn folder(source: &PolicySource) -> Result<&Path> {
    source.folder().ok_or_else(|| anyhow!("there is no folder of policies; name one with --policies"))
}

/// Append an action to the audit trail; a trail that cannot be written is logged.
fn record(what: &str, policy: &str, digest: &str, source: &str) {
    let Some(path) = audit_trail::default_path() else { return };
    let time = Clock::real().now();
    let mut line = audit_entry(time, what, Some(nix::unistd::getuid().as_raw()), policy, Ok(()));
    line["digest"] = digest.into();
    line["source"] = source.into();
    if let Err(error) = Trail::at(&path).append(&line) {
        tracing::warn!(trail = %path.display(), "the audit trail cannot be written: {error}");
    }
}

/// `fluxgate policy install`.
pub(super) fn install(
    file: &str,
    unchecked: bool,
    downgrade: bool,
    keys: Option<&Keys>,
    as_json: bool,
    dir: Option<&Path>,
) -> Result<()> {
    let source = PolicySource::open(dir)?;
    let (path, bytes, signatures) = match file.starts_with("oci://") {
        true => {
            let limit = source.loader().limits().component_bytes;
            let pulled = Reference::parse(file)?.pull(limit, docker_config().as_deref())?;
            (PathBuf::from(file), pulled.component, pulled.signatures)
        }
        false => {
            let (path, bytes, signature) = from_file(&source, file)?;
            (path, bytes, signature.into_iter().collect())
        }
    };
    let named = || path.display().to_string();
    let signature = signature_of(&bytes, &signatures, keys, &path).with_context(named)?;
    let digest = Digest::of(&bytes).to_string();
    let compiled = source.loader().compile(&bytes).with_context(named)?;
    let name = compiled.description().name.clone();
    if name == fluxgate_engine::BUILTIN {
        bail!("{}: the name {name} is taken", path.display());
    }
    if !unchecked {
        check::conforms(&source, &bytes, &path, as_json)
            .context("nothing was installed; --unchecked leaves this out")?;
    }
    let folder = folder(&source)?;
    if !downgrade {
        no_downgrade(&source, folder, &name, &compiled.description().version).with_context(named)?;
    }
    let place = installed::put(folder, &name, &bytes, signature.as_deref())
        .with_context(|| folder.display().to_string())?;
    record("install", &name, &digest, &path.to_string_lossy());
    let version = &compiled.description().version;
    let signed = if signature.is_some() { ", with its signature" } else { "" };
    let answer = json!({"file": place, "name": name, "version": version, "digest": digest, "signed": signature.is_some()});
    said(&answer, as_json, || format!("{}: {name} {version}, {digest}{signed}", place.display()))
}

/// Refuses a version before the installed one. The signature of an old version is still good: it covers the component, with name
/// and version in it. Versions that are not those of semantic versioning have no order.
fn no_downgrade(source: &PolicySource, folder: &Path, name: &str, version: &str) -> Result<()> {
    let Ok(there) = source.compile(&folder.join(format!("{name}.wasm")).to_string_lossy()) else {
        return Ok(());
    };
    let there = &there.description().version;
    match (Version::parse(version), Version::parse(there)) {
        (Ok(new), Ok(old)) if new < old => bail!(
            "is {name} {new}, and {name} {old} is installed; nothing was installed (--downgrade installs it)"
        ),
        _ => Ok(()),
    }
}

/// The signature to install: with keys the first that one of them made, otherwise the only one there is.
fn signature_of(
    component: &[u8],
    signatures: &[String],
    keys: Option<&Keys>,
    named: &Path,
) -> Result<Option<String>> {
    let Some(keys) = keys else {
        let [_, _, ..] = signatures else { return Ok(signatures.first().cloned()) };
        let signers: Vec<String> =
            signatures.iter().map(|text| signer(text, named)).collect::<Result<_, _>>()?;
        bail!(
            "is signed with the keys {}; which signature is to be installed is told by --key or --keys",
            signers.join(", ")
        );
    };
    let mut refused = anyhow!("is not signed, and a key is named; nothing was installed");
    for text in signatures {
        match keys.verify_text(component, text, named) {
            Ok(_) => return Ok(Some(text.clone())),
            Err(error) => refused = error.into(),
        }
    }
    Err(refused)
}

/// A component and its signature, if it has one; the path is made absolute.
fn from_file(source: &PolicySource, file: &str) -> Result<(PathBuf, Vec<u8>, Option<String>)> {
    let (path, pinned) = pin(file);
    let path = std::path::absolute(path)?;
    let bytes = source.read(&path).with_context(|| path.display().to_string())?;
    let digest = Digest::of(&bytes).to_string();
    if let Some(pinned) = pinned.filter(|pinned| *pinned != digest) {
        bail!("{}: is {digest}, but {pinned} was asked for; nothing was installed", path.display());
    }
    let signature = signature_beside(&path)?;
    Ok((path, bytes, signature))
}

/// The text of the signature beside a component, if there is one.
pub(super) fn signature_beside(component: &Path) -> Result<Option<String>> {
    let signature = signature_path(component);
    match std::fs::metadata(&signature) {
        Ok(meta) if meta.len() > TEXT_BYTES_MAX => {
            bail!("{}: is larger than {TEXT_BYTES_MAX} bytes", signature.display())
        }
        Ok(_) => {
            Ok(Some(std::fs::read_to_string(&signature).with_context(|| signature.display().to_string())?))
        }
        Err(_) => Ok(None),
    }
}

/// `fluxgate policy remove`.
pub(super) fn remove(name: &str, as_json: bool, dir: Option<&Path>) -> Result<()> {
    let source = PolicySource::open(dir)?;
    let path = source.find(name)?;
    let folder = folder(&source)?;
    if path != folder.join(format!("{name}.wasm")) {
        bail!("{name}: expected the name of a policy in {}", folder.display());
    }
    let digest = source.read(&path).map(|bytes| Digest::of(&bytes).to_string()).unwrap_or_default();
    if !installed::remove(folder, name).with_context(|| path.display().to_string())? {
        bail!("{}: it is gone already", path.display());
    }
    record("remove", name, &digest, &path.to_string_lossy());
    let answer = json!({"removed": path, "name": name, "digest": digest});
    said(&answer, as_json, || format!("{}: removed", path.display()))
}

/// `fluxgate policy list --all`.
pub(crate) fn list(dir: Option<&Path>, as_json: bool) -> Result<()> {
    let source = PolicySource::open(dir)?;
    let mut found = Vec::new();
    for (name, path) in source.files() {
        let signed = signature_path(&path).exists();
        let mut entry = json!({"name": name, "file": path, "signed": signed});
        match source.compile(&path.to_string_lossy()) {
            Ok(compiled) => {
                let described = compiled.description();
                entry["name"] = described.name.as_str().into();
                entry["version"] = described.version.as_str().into();
                entry["summary"] = described.summary.as_str().into();
                entry["digest"] = compiled.digest().to_string().into();
                entry["manifest"] = json!(compiled.manifest());
            }
            Err(error) => entry["problem"] = format!("{:#}", error.root_cause()).into(),
        }
        found.push(entry);
    }
    if as_json {
        return render::json(&json!({"folder": source.folder(), "policies": found}));
    }
    let mut table = render::table(&["NAME", "VERSION", "DIGEST", "AUTHOR", "LICENSE", "SIGNED", "SUMMARY"]);
    for entry in &found {
        let manifest = &entry["manifest"];
        let digest = render::plain(&entry["digest"]);
        let short: String = digest.trim_start_matches("sha256:").chars().take(12).collect();
        let summary = match &entry["problem"] {
            Value::Null => render::plain(&entry["summary"]),
            problem => format!("unusable: {}", render::plain(problem)),
        };
        table.add_row([
            render::plain(&entry["name"]),
            render::plain(&entry["version"]),
            short,
            render::plain(&manifest["author"]),
            render::plain(&manifest["license"]),
            if entry["signed"] == true { "yes".to_owned() } else { String::new() },
            summary,
        ]);
    }
    render::show(&table)
}
