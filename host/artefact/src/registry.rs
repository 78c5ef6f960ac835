//! Components in OCI registries: pulled by digest, published with their signatures.
//!
//! A pull fetches an image manifest with one layer of WebAssembly, and the minisign signatures that belong to it: a layer
//! of the manifest, or artefacts that refer to it (OCI distribution 1.1, referrers). Only a digest identifies the
//! content: a tag may name another component tomorrow. Every answer is bounded while it is read and compared with its
//! digest before it is used.
//!
//! - `http`: requests, redirects, logins.
//! - `manifests`: manifests, written and read.
//! - `pull`, `publish`: the two directions.
//!
//! This module must never know the code of a component.

use std::path::PathBuf;

mod http;
mod manifests;
mod publish;
mod pull;

pub use self::publish::{Component, Published};
pub use self::pull::Pulled;

/// Largest manifest, token answer or configuration, bytes.
pub const ANSWER_BYTES_MAX: u64 = 1 << 20;
/// Longest time of one answer, seconds.
pub const ANSWER_SECONDS_MAX: u32 = 300;
/// Most signatures of one component that are fetched.
pub const SIGNATURES_MAX: usize = 16;
/// Most redirects of one request.
pub const REDIRECTS_MAX: u32 = 5;
/// Media types of a layer that is a component.
pub const COMPONENT_TYPES: [&str; 2] = ["application/wasm", "application/vnd.wasm.content.layer.v1+wasm"];
/// Media type of a layer that is its signature, and the type of an artefact with one.
pub const SIGNATURE_TYPE: &str = "application/vnd.fluxgate.minisig";

/// Why a pull or a publication failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// Not a reference or target, or a version that is no tag.
    #[error("{found:?}: {problem}; expected {expected}")]
    Reference {
        /// The text given.
        found: String,
        /// The fault.
        problem: &'static str,
        /// The accepted form.
        expected: &'static str,
    },
    /// There was no answer.
    #[error("{url}: {problem}")]
    Transport {
        /// The URL of the request.
        url: String,
        /// The error of the connection.
        problem: String,
    },
    /// An answer with an error status.
    #[error("{url}: the registry answers {status}{hint}")]
    Status {
        /// The URL of the request.
        url: String,
        /// HTTP status.
        status: u16,
        /// A remedy; begins with `: ` when not empty.
        hint: &'static str,
    },
    /// An answer above the limit.
    #[error("{url}: more than {limit} bytes; that is the most that is accepted")]
    TooLarge {
        /// The URL of the request.
        url: String,
        /// The limit, bytes.
        limit: u64,
    },
    /// A text that must not become part of a request.
    #[error("{url}: the registry's {field} is refused: expected {expected}")]
    Field {
        /// The URL of the request.
        url: String,
        /// The field of the registry's answer.
        field: &'static str,
        /// The accepted form.
        expected: &'static str,
    },
    /// Content with another digest than the requested one.
    #[error("{url}: is sha256:{found}, not sha256:{wanted}")]
    Digest {
        /// The URL of the request.
        url: String,
        /// The digest of the content, 64 hexadecimal digits.
        found: String,
        /// The requested digest, 64 hexadecimal digits.
        wanted: String,
    },
    /// A manifest of something else than a component.
    #[error("{url}: {problem}")]
    Manifest {
        /// The URL of the request.
        url: String,
        /// The fault, and the accepted form.
        problem: String,
    },
}

/// A repository of a registry, `HOST[:PORT]/PATH`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Repository {
    host: String,
    path: String,
}

/// `oci://HOST[:PORT]/PATH@sha256:DIGEST`: one component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    repository: Repository,
    digest: String,
}

/// `oci://HOST[:PORT]/PATH[:TAG]`: a place for components.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    repository: Repository,
    tag: Option<String>,
}

/// The accepted form of a [`Reference`].
const REFERENCE: &str = "oci://HOST[:PORT]/PATH@sha256:DIGEST";
/// The accepted form of a [`Target`].
const TARGET: &str = "oci://HOST[:PORT]/PATH[:TAG]";

impl Repository {
    fn parse(name: &str) -> Result<Repository, &'static str> {
        let (host, path) = name.split_once('/').ok_or("no path")?;
        let in_host = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b':' | b'[' | b']');
        if host.is_empty() || host.len() > 255 || !host.bytes().all(in_host) {
            return Err("the host is none");
        }
        let in_part = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'_' | b'-');
        let part = |part: &str| !part.is_empty() && !part.starts_with('.') && part.bytes().all(in_part);
        if path.len() > 255 || !path.split('/').all(part) {
            return Err("the path is none: lower-case letters, digits, '.', '_', '-' between '/'");
        }
        Ok(Repository { host: host.to_owned(), path: path.to_owned() })
    }

    /// Plain HTTP for this machine itself, as other clients do.
    fn scheme(&self) -> &'static str {
        if http::is_this_machine(&self.host) { "http" } else { "https" }
    }

    /// The address of something of the repository, such as `blobs/sha256:..`.
    fn url(&self, rest: &str) -> String {
        format!("{}://{}/v2/{}/{rest}", self.scheme(), self.host, self.path)
    }
}

impl Reference {
    /// Reads a reference.
    ///
    /// # Errors
    /// [`RegistryError::Reference`], also for a tag instead of a digest.
    pub fn parse(text: &str) -> Result<Reference, RegistryError> {
        let refuse =
            |problem| RegistryError::Reference { found: text.to_owned(), problem, expected: REFERENCE };
        let rest = text.strip_prefix("oci://").ok_or_else(|| refuse("not a registry"))?;
        let (name, digest) = rest
            .split_once("@sha256:")
            .ok_or_else(|| refuse("no digest, and a tag may be another thing tomorrow"))?;
        if !manifests::is_hex_digest(digest) {
            return Err(refuse("the digest is not 64 hexadecimal digits in lower case"));
        }
        Ok(Reference { repository: Repository::parse(name).map_err(refuse)?, digest: digest.to_owned() })
    }
}

impl std::fmt::Display for Reference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Repository { host, path } = &self.repository;
        write!(f, "oci://{host}/{path}@sha256:{}", self.digest)
    }
}

impl Target {
    /// Reads a target.
    ///
    /// # Errors
    /// [`RegistryError::Reference`], also for a digest, which follows from the component.
    pub fn parse(text: &str) -> Result<Target, RegistryError> {
        let refuse = |problem| RegistryError::Reference { found: text.to_owned(), problem, expected: TARGET };
        let rest = text.strip_prefix("oci://").ok_or_else(|| refuse("not a registry"))?;
        if rest.contains('@') {
            return Err(refuse("a digest follows from the component"));
        }
        // A colon of the host is before the first slash, that of a tag behind the last one.
        let slash = rest.rfind('/').ok_or_else(|| refuse("no path"))?;
        let (name, tag) = match rest[slash..].find(':') {
            None => (rest, None),
            Some(colon) => (&rest[..slash + colon], Some(&rest[slash + colon + 1..])),
        };
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err(refuse(
                "the tag is none: 1 to 128 letters, digits, '_', '.', '-', the first no '.' or '-'",
            ));
        }
        Ok(Target { repository: Repository::parse(name).map_err(refuse)?, tag: tag.map(str::to_owned) })
    }
}

/// True for a tag (OCI distribution 1.1, "Pulling manifests").
fn is_tag(text: &str) -> bool {
    let rest = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    text.len() <= 128
        && text.bytes().all(rest)
        && text.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric() || first == b'_')
}

/// The file in which container tools keep the credentials of this user: `config.json` of `DOCKER_CONFIG`, or of `~/.docker`. `None` if
/// neither that variable nor `HOME` is set. The file need not exist.
pub fn docker_config() -> Option<PathBuf> {
    let folder = match std::env::var_os("DOCKER_CONFIG") {
        Some(dir) if !dir.is_empty() => PathBuf::from(dir),
        _ => PathBuf::from(std::env::var_os("HOME")?).join(".docker"),
    };
    Some(folder.join("config.json"))
}

#[cfg(test)]
mod tests;
