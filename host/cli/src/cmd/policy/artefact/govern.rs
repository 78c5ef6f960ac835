//! `fluxgate policy seal | generate-key | sign | verify | audit`: manifests and signatures of components, and the record of their use.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use fluxgate_artefact::audit::Trail;
use fluxgate_artefact::file;
use fluxgate_artefact::keys::{self, Keys, signature_path};
use fluxgate_policy::{Compiled, Digest, Limits, Manifest, read_component};
use fluxgate_wire::logging::utc;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::super::answers::said;
use crate::audit_trail::default_path;
use crate::policy_source::PolicySource;
use crate::render;

/// Largest TOML file that is read, bytes.
const TOML_BYTES_MAX: u64 = 64 << 10;
/// The environment variable with the password of a secret key.
const PASSWORD: &str = "FLUXGATE_KEY_PASSWORD";

/// The part of `fluxgate-policy.toml` that goes into the manifest. How the folder is built and tested is read by
/// `fluxgate_languages`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Source {
    /// Name of the policy.
    pub(super) name: String,
    /// Its version, equal to that of the component.
    pub(super) version: Option<String>,
    pub(super) author: Option<String>,
    pub(super) license: Option<String>,
    /// The place of its source.
    pub(super) source: Option<String>,
    /// How the folder is built and tested.
    #[serde(rename = "language")]
    _language: Option<IgnoredAny>,
    #[serde(rename = "build")]
    _build: Option<IgnoredAny>,
    #[serde(rename = "test")]
    _test: Option<IgnoredAny>,
    /// Smallest limits under which it works.
    #[serde(default)]
    pub(super) needs: std::collections::BTreeMap<String, u64>,
}

impl Source {
    /// Read a file of this kind.
    pub(super) fn read(path: &Path) -> Result<Source> {
        let named = || path.display().to_string();
        let meta = fs::metadata(path).with_context(named)?;
        if meta.len() > TOML_BYTES_MAX {
            bail!("{}: has {} bytes; at most {TOML_BYTES_MAX} are accepted", path.display(), meta.len());
        }
        toml::from_str(&fs::read_to_string(path).with_context(named)?)
            .map_err(|error| anyhow!("{}: {error}", path.display()))
    }

    /// The manifest of this component.
    pub(super) fn manifest(self, compiled: &Compiled) -> Result<Manifest> {
        let truth = compiled.derived_manifest().clone();
        if self.name != truth.name {
            bail!("name is {:?}, but the component calls itself {:?}", self.name, truth.name);
        }
        if let Some(version) = self.version.filter(|version| *version != truth.version) {
            bail!("version is {version:?}, but the component says {:?}", truth.version);
        }
        let missing = |what| anyhow!("{what} is missing; a manifest needs author and license");
        let mut manifest = truth;
        manifest.author = self.author.ok_or_else(|| missing("author"))?;
        manifest.license = self.license.ok_or_else(|| missing("license"))?;
        manifest.source = self.source;
        manifest.needs.limits = self.needs;
        Ok(manifest)
    }
}

/// `fluxgate policy seal`.
pub(super) fn seal(file: &Path, manifest: &Path, out: Option<&Path>, as_json: bool) -> Result<()> {
    let source = PolicySource::open(None)?;
    let named = || file.display().to_string();
    let bytes = source.read(file).with_context(named)?;
    // Without an old manifest, which might differ from the new one.
    let plain = Manifest::strip(&bytes);
    let compiled = source.loader().compile(&plain).with_context(named)?;
    let made = Source::read(manifest)?.manifest(&compiled).with_context(|| manifest.display().to_string())?;
    let sealed = made.seal(&plain).with_context(|| manifest.display().to_string())?;
    // A component that a host would not load is not written.
    source.loader().compile(&sealed).with_context(|| manifest.display().to_string())?;
    let out = out.unwrap_or(file);
    write(out, &sealed)?;
    let digest = Digest::of(&sealed).to_string();
    let answer = json!({"file": out, "name": made.name, "version": made.version, "digest": digest});
    said(&answer, as_json, || format!("{}: {} {}, {digest}", out.display(), made.name, made.version))
}

/// Seal a built component if its folder names author and license. True if it was sealed.
pub(crate) fn seal_built(folder: &Path, component: &Path, compiled: &Compiled) -> Result<bool> {
    let file = folder.join(fluxgate_languages::project::FILE);
    let source = Source::read(&file)?;
    if source.author.is_none() || source.license.is_none() {
        return Ok(false);
    }
    let bytes = fs::read(component).with_context(|| component.display().to_string())?;
    let made = source.manifest(compiled).with_context(|| file.display().to_string())?;
    write(component, &made.seal(&Manifest::strip(&bytes))?)?;
    Ok(true)
}

/// Write a file whole or not at all.
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    file::write(path, bytes, 0o666).with_context(|| path.display().to_string())
}

fn password() -> Result<String> {
    match std::env::var(PASSWORD) {
        Ok(password) => Ok(password),
        Err(std::env::VarError::NotPresent) => Ok(String::new()),
        Err(error) => Err(error).context(PASSWORD),
    }
}

/// `fluxgate policy generate-key`.
pub(super) fn generate_key(path: &Path, as_json: bool) -> Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;

    let (public, secret) = (path.with_extension("pub"), path.with_extension("key"));
    for path in [&public, &secret] {
        if path.exists() {
            bail!("{}: there is something already", path.display());
        }
    }
    let password = password()?;
    let (public_text, secret_text) =
        keys::generate("fluxgate policy signing key", &password).map_err(|error| anyhow!(error))?;
    let mut options = fs::OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(&secret);
    let mut file = file.with_context(|| secret.display().to_string())?;
    std::io::Write::write_all(&mut file, secret_text.as_bytes())
        .with_context(|| secret.display().to_string())?;
    let mut options = fs::OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o644).open(&public);
    let mut file = file.with_context(|| public.display().to_string())?;
    std::io::Write::write_all(&mut file, public_text.as_bytes())
        .with_context(|| public.display().to_string())?;
    let how =
        if password.is_empty() { "not encrypted: set FLUXGATE_KEY_PASSWORD for that" } else { "encrypted" };
    let answer = json!({"public": public, "secret": secret, "encrypted": !password.is_empty()});
    said(&answer, as_json, || {
        format!("{}: trust this\n{}: sign with this ({how})", public.display(), secret.display())
    })
}

/// `fluxgate policy sign`.
pub(super) fn sign(file: &Path, key: &Path, comment: Option<&str>, as_json: bool) -> Result<()> {
    let source = PolicySource::open(None)?;
    let named = || file.display().to_string();
    let bytes = source.read(file).with_context(named)?;
    let compiled = source.loader().compile(&bytes).with_context(named)?;
    let described = compiled.description();
    let comment = comment.map_or_else(|| format!("{} {}", described.name, described.version), str::to_owned);
    if comment.chars().any(char::is_control) {
        bail!("--comment: expected one line");
    }
    let signature = keys::sign(&bytes, key, &password()?, &comment)?;
    let path = signature_path(file);
    write(&path, signature.as_bytes())?;
    said(&json!({"signature": path, "comment": comment}), as_json, || {
        format!("{}: {comment}", path.display())
    })
}

/// The key, or the keys of the folder, that a command names.
pub(super) fn keys(key: Option<&Path>, folder: Option<&Path>) -> Result<Option<Keys>> {
    Ok(match (key, folder) {
        (Some(key), _) => Some(Keys::one(key)?),
        (None, Some(folder)) => Some(Keys::open(folder)?),
        (None, None) => None,
    })
}

/// `fluxgate policy verify`.
pub(super) fn verify(file: &Path, key: Option<&Path>, folder: Option<&Path>, as_json: bool) -> Result<()> {
    let named = || file.display().to_string();
    let bytes = read_component(file, Limits::default().component_bytes).with_context(named)?;
    let manifest = Manifest::read(&bytes).with_context(named)?;
    let keys = keys(key, folder)?;
    let signature = signature_path(file);
    let signed = match &keys {
        Some(keys) => Some(keys.verify(&bytes, &signature).with_context(named)?),
        None => None,
    };
    let state = match (&signed, signature.exists()) {
        (Some(signed), _) => format!("good, of key {} ({}): {}", signed.id, signed.key, signed.comment),
        (None, true) => "not verified: name a key with --key or --keys".to_owned(),
        (None, false) => "none".to_owned(),
    };
    let digest = Digest::of(&bytes).to_string();
    if as_json {
        let signer =
            signed.map(|signed| json!({"key": signed.key, "id": signed.id, "comment": signed.comment}));
        return render::json(&json!({"digest": digest, "manifest": manifest, "signed": signer}));
    }
    let mut table = render::pairs();
    table.add_row(["digest".to_owned(), digest]);
    table.add_row(["signature".to_owned(), state]);
    match manifest {
        None => {
            table.add_row(["manifest", "none"]);
        }
        Some(manifest) => {
            for (key, value) in json!(manifest).as_object().into_iter().flatten() {
                table.add_row([key.clone(), render::plain(value)]);
            }
        }
    }
    render::show(&table)
}

/// `fluxgate policy audit`.
pub(super) fn audit(file: Option<&Path>, as_json: bool) -> Result<()> {
    let path = match file {
        Some(path) => path.to_owned(),
        None => {
            default_path().ok_or_else(|| anyhow!("neither XDG_STATE_HOME nor HOME is set; name a --file"))?
        }
    };
    if file.is_some() && !path.exists() {
        bail!("{}: there is no such trail", path.display());
    }
    let entries = Trail::at(&path).read().with_context(|| path.display().to_string())?;
    if as_json {
        return render::json(&Value::Array(entries));
    }
    let mut table =
        render::table(&["TIME", "WHO", "WHAT", "POLICY", "VERSION", "DIGEST", "SIGNED", "VERDICT"]);
    for entry in &entries {
        let digest = render::plain(&entry["digest"]);
        let short: String = digest.trim_start_matches("sha256:").chars().take(12).collect();
        let who = if entry["uid"].is_null() { "scheduler".to_owned() } else { render::plain(&entry["uid"]) };
        let verdict = match entry["reason"].as_str() {
            Some(reason) => format!("{}: {reason}", render::plain(&entry["verdict"])),
            None => render::plain(&entry["verdict"]),
        };
        table.add_row([
            utc(entry["time"].as_f64().unwrap_or_default()),
            who,
            render::plain(&entry["what"]),
            render::plain(&entry["policy"]),
            render::plain(&entry["version"]),
            short,
            render::plain(&entry["signed"]),
            verdict,
        ]);
    }
    render::show(&table)
}
