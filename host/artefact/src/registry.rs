//! Components from an OCI registry, by digest.
//!
//! A pull fetches an image manifest with one layer of WebAssembly, and optionally one with its minisign signature.
//! Only a digest identifies the content: a tag may name another component tomorrow. Every answer is bounded while it
//! is read and compared with its digest before it is used.
//!
//! HTTPS is left to `curl`, so certificates and proxies are those of the site, and this program contains no TLS.
//! Plain HTTP is used only with this machine itself. Credentials reach curl on its standard input as a header, never
//! as arguments and never as configuration. A text of the registry that becomes part of a request must have an
//! allowed alphabet, or is refused.
//!
//! This module must never know the code of a component.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Largest manifest, token answer or configuration, bytes.
pub const ANSWER_BYTES_MAX: u64 = 1 << 20;
/// Longest time of one answer, seconds.
pub const ANSWER_SECONDS_MAX: u32 = 300;
/// Media types of a layer that is a component.
pub const COMPONENT_TYPES: [&str; 2] = ["application/wasm", "application/vnd.wasm.content.layer.v1+wasm"];
/// Media type of a layer that is its signature.
pub const SIGNATURE_TYPE: &str = "application/vnd.fluxgate.minisig";
/// Media types of manifests in the requests.
const MANIFEST_TYPES: &str =
    "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json";

/// Why a pull failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// Not a reference.
    #[error("{found:?}: {problem}; expected oci://HOST[:PORT]/PATH@sha256:DIGEST")]
    Reference {
        /// The text given.
        found: String,
        /// The fault.
        problem: &'static str,
    },
    /// curl cannot be run.
    #[error("curl: {0}; it is needed for registries")]
    Curl(std::io::Error),
    /// There was no answer.
    #[error("{url}: {problem}")]
    Transport {
        /// The URL of the request.
        url: String,
        /// The error of curl.
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
        /// The limit.
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
        /// The digest of the content.
        found: String,
        /// The requested digest.
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

/// `oci://HOST[:PORT]/PATH@sha256:DIGEST`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    host: String,
    path: String,
    digest: String,
}

/// The result of a pull.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pulled {
    /// The component.
    pub component: Vec<u8>,
    /// Its signature, if there was one.
    pub signature: Option<String>,
}

impl Reference {
    /// Reads a reference.
    ///
    /// # Errors
    /// [`RegistryError::Reference`], also for a tag instead of a digest.
    pub fn parse(text: &str) -> Result<Reference, RegistryError> {
        let refuse = |problem| RegistryError::Reference { found: text.to_owned(), problem };
        let rest = text.strip_prefix("oci://").ok_or_else(|| refuse("not a registry"))?;
        let (name, digest) = rest
            .split_once("@sha256:")
            .ok_or_else(|| refuse("no digest, and a tag may be another thing tomorrow"))?;
        let (host, path) = name.split_once('/').ok_or_else(|| refuse("no path"))?;
        let hex = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
        if digest.len() != 64 || !digest.bytes().all(hex) {
            return Err(refuse("the digest is not 64 hexadecimal digits in lower case"));
        }
        let in_host = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b':' | b'[' | b']');
        if host.is_empty() || host.len() > 255 || !host.bytes().all(in_host) {
            return Err(refuse("the host is none"));
        }
        let in_part = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'_' | b'-');
        let part = |part: &str| !part.is_empty() && !part.starts_with('.') && part.bytes().all(in_part);
        if path.len() > 255 || !path.split('/').all(part) {
            return Err(refuse("the path is none: lower-case letters, digits, '.', '_', '-' between '/'"));
        }
        Ok(Reference { host: host.to_owned(), path: path.to_owned(), digest: digest.to_owned() })
    }

    /// Plain HTTP for this machine itself, as other clients do.
    fn scheme(&self) -> &'static str {
        if is_this_machine(&self.host) { "http" } else { "https" }
    }

    fn url(&self, kind: &str, digest: &str) -> String {
        format!("{}://{}/v2/{}/{kind}/sha256:{digest}", self.scheme(), self.host, self.path)
    }

    /// Fetches the component, of at most `bytes_max`. `docker` is the configuration of a container tool, whose
    /// `auths` for this host are used.
    ///
    /// # Errors
    /// [`RegistryError`]; no file is left.
    pub fn pull(&self, bytes_max: u64, docker: Option<&Path>) -> Result<Pulled, RegistryError> {
        let mut client =
            Client { reference: self, basic: docker.and_then(|p| basic(p, &self.host)), token: None };
        let url = self.url("manifests", &self.digest);
        let text = client.get(&url, &self.digest, ANSWER_BYTES_MAX)?;
        let refuse = |problem: String| RegistryError::Manifest { url: url.clone(), problem };
        let manifest: Value =
            serde_json::from_slice(&text).map_err(|error| refuse(format!("not JSON: {error}")))?;
        let layers = manifest["layers"].as_array().map(Vec::as_slice).unwrap_or_default();
        let of = |types: &[&str]| -> Vec<&Value> {
            layers.iter().filter(|l| l["mediaType"].as_str().is_some_and(|t| types.contains(&t))).collect()
        };
        let [component] = of(&COMPONENT_TYPES)[..] else {
            let found = of(&COMPONENT_TYPES).len();
            let accepted = COMPONENT_TYPES.join(" or ");
            return Err(refuse(format!("{found} layers of type {accepted}; expected is one")));
        };
        let digest = |layer: &Value| -> Result<String, RegistryError> {
            let digest = layer["digest"].as_str().and_then(|d| d.strip_prefix("sha256:")).unwrap_or_default();
            let good = digest.len() == 64 && digest.bytes().all(|b| b.is_ascii_hexdigit());
            good.then(|| digest.to_owned())
                .ok_or_else(|| refuse("a layer without a sha256 digest".to_owned()))
        };
        let wanted = digest(component)?;
        let component = client.get(&self.url("blobs", &wanted), &wanted, bytes_max)?;
        let signature = match of(&[SIGNATURE_TYPE])[..] {
            [] => None,
            [layer] => {
                let wanted = digest(layer)?;
                let text = client.get(&self.url("blobs", &wanted), &wanted, crate::keys::TEXT_BYTES_MAX)?;
                Some(String::from_utf8(text).map_err(|_| refuse("the signature is no text".to_owned()))?)
            }
            _ => return Err(refuse("more than one signature".to_owned())),
        };
        Ok(Pulled { component, signature })
    }
}

/// The file in which container tools keep the credentials of this user.
pub fn docker_config() -> Option<PathBuf> {
    let folder = match std::env::var_os("DOCKER_CONFIG") {
        Some(dir) if !dir.is_empty() => PathBuf::from(dir),
        _ => PathBuf::from(std::env::var_os("HOME")?).join(".docker"),
    };
    Some(folder.join("config.json"))
}

/// `USER:PASSWORD` in base64 for a host, from such a file.
fn basic(path: &Path, host: &str) -> Option<String> {
    let meta = fs::metadata(path).ok().filter(|meta| meta.len() <= ANSWER_BYTES_MAX)?;
    if !meta.is_file() {
        return None;
    }
    let config: Value = serde_json::from_str(&fs::read_to_string(path).ok()?).ok()?;
    let auth = config["auths"][host]["auth"].as_str()?;
    STANDARD.decode(auth).ok()?;
    Some(auth.to_owned())
}

/// True if `HOST[:PORT]` is this machine.
fn is_this_machine(authority: &str) -> bool {
    let colon = authority.rfind(':').filter(|colon| !authority[*colon..].contains(']'));
    matches!(&authority[..colon.unwrap_or(authority.len())], "localhost" | "127.0.0.1" | "[::1]")
}

/// True for the characters of a bearer token (RFC 6750 section 2.1, `b64token`).
fn is_bearer_token(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~' | b'+' | b'/');
    !body.is_empty() && body.bytes().all(allowed)
}

/// True if a registry may name this address for tokens: HTTPS, or plain HTTP from this machine to itself, in visible
/// ASCII and without a user.
fn is_token_address(url: &str, registry_is_local: bool) -> bool {
    let Some((scheme, rest)) = url.split_once("://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let visible = url.bytes().all(|b| b.is_ascii_graphic() && b != b'\\');
    let reachable = match scheme {
        "https" => true,
        "http" => registry_is_local && is_this_machine(authority),
        _ => false,
    };
    visible && reachable && !authority.is_empty() && !authority.contains('@')
}

/// Status and challenge of the final answer in the headers that curl wrote: blocks that end with an empty line.
/// Blocks of status 1xx and of redirects precede the final one.
fn read_headers(text: &str) -> Option<(u16, Option<String>)> {
    let mut found = None;
    let mut at_start = true;
    for line in text.lines() {
        if line.is_empty() {
            at_start = true;
        } else if std::mem::take(&mut at_start) {
            // Trailers follow the body as a block without a status.
            let Some(rest) = line.strip_prefix("HTTP/") else { break };
            found = Some((rest.split_whitespace().nth(1)?.parse().ok()?, None));
        } else if let (Some((_, challenge)), Some((name, value))) = (&mut found, line.split_once(':'))
            && name.eq_ignore_ascii_case("www-authenticate")
        {
            challenge.get_or_insert_with(|| value.trim().to_owned());
        }
    }
    found
}

/// An answer.
struct Answer {
    status: u16,
    challenge: Option<String>,
    body: Vec<u8>,
}

struct Client<'a> {
    reference: &'a Reference,
    basic: Option<String>,
    token: Option<String>,
}

impl Client<'_> {
    /// The content with this digest at this URL.
    fn get(&mut self, url: &str, digest: &str, bytes_max: u64) -> Result<Vec<u8>, RegistryError> {
        let mut answer = self.ask(url, self.token.clone(), bytes_max)?;
        if answer.status == 401 && self.token.is_none() {
            self.token = self.log_in(url, answer.challenge.as_deref().unwrap_or_default())?;
            answer = self.ask(url, self.token.clone(), bytes_max)?;
        }
        if answer.status != 200 {
            let hint = match answer.status {
                401 | 403 => {
                    ": not for whoever asks; log in with a container tool, whose config.json is used"
                }
                404 => ": it has no such thing",
                _ => "",
            };
            return Err(RegistryError::Status { url: url.to_owned(), status: answer.status, hint });
        }
        let found: String = Sha256::digest(&answer.body).iter().map(|byte| format!("{byte:02x}")).collect();
        if found != digest {
            let (url, wanted) = (url.to_owned(), digest.to_owned());
            return Err(RegistryError::Digest { url, found, wanted });
        }
        Ok(answer.body)
    }

    /// The value of `Authorization` for this challenge, if there are credentials.
    fn log_in(&self, asked: &str, challenge: &str) -> Result<Option<String>, RegistryError> {
        let basic = self.basic.as_ref().map(|auth| format!("Basic {auth}"));
        let Some(fields) = challenge.strip_prefix("Bearer ") else { return Ok(basic) };
        let field = |name: &str| {
            let rest = &fields[fields.find(&format!("{name}=\""))? + name.len() + 2..];
            Some(rest[..rest.find('"')?].to_owned())
        };
        let Some(realm) = field("realm") else { return Ok(basic) };
        let refuse = |field, expected| RegistryError::Field { url: asked.to_owned(), field, expected };
        if !is_token_address(&realm, is_this_machine(&self.reference.host)) {
            return Err(refuse(
                "realm (WWW-Authenticate)",
                "an https:// address of visible ASCII, without a user",
            ));
        }
        let mut url = realm;
        for name in ["service", "scope"] {
            if let Some(value) = field(name) {
                url.push(if url.contains('?') { '&' } else { '?' });
                url.push_str(name);
                url.push('=');
                url.extend(value.bytes().map(|b| match b {
                    b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' | b'/' | b':' | b',' => {
                        char::from(b).to_string()
                    }
                    other => format!("%{other:02X}"),
                }));
            }
        }
        let answer = self.ask(&url, basic, ANSWER_BYTES_MAX)?;
        if answer.status != 200 {
            let hint = ": no token for whoever asks";
            return Err(RegistryError::Status { url, status: answer.status, hint });
        }
        let said: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let Some(token) = said["token"].as_str().or(said["access_token"].as_str()) else { return Ok(None) };
        if !is_bearer_token(token) {
            return Err(refuse(
                "token",
                "letters, digits, '-', '.', '_', '~', '+', '/' and '=' at the end (RFC 6750)",
            ));
        }
        Ok(Some(format!("Bearer {token}")))
    }

    fn ask(&self, url: &str, authorization: Option<String>, bytes_max: u64) -> Result<Answer, RegistryError> {
        let failed = |problem: String| RegistryError::Transport { url: url.to_owned(), problem };
        let folder = tempfile::tempdir().map_err(RegistryError::Curl)?;
        let headers = folder.path().join("headers");
        let protocol = format!("={}", url.split(':').next().unwrap_or_default());
        let seconds = ANSWER_SECONDS_MAX.to_string();
        let accept = format!("Accept: {MANIFEST_TYPES}");
        let mut curl = Command::new("curl")
            // The user's own configuration of curl is not used.
            .args(["--disable", "--globoff", "--silent", "--show-error", "--location", "--max-redirs", "5"])
            // Headers of a proxy are not part of the answer.
            .args(["--suppress-connect-headers", "--proto", &protocol, "--proto-redir", "=https"])
            .args(["--max-time", &seconds, "--header", &accept, "--header", "@-", "--dump-header"])
            .arg(&headers)
            .args(["--output", "-", "--url", url])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(RegistryError::Curl)?;
        if let (Some(mut input), Some(value)) = (curl.stdin.take(), authorization) {
            // If curl ended at once, its error is reported below.
            let _ = input.write_all(format!("Authorization: {value}\n").as_bytes());
        }
        let mut body = Vec::new();
        if let Some(output) = curl.stdout.take() {
            output.take(bytes_max + 1).read_to_end(&mut body).map_err(RegistryError::Curl)?;
        }
        if body.len() as u64 > bytes_max {
            let _ = curl.kill();
            let _ = curl.wait();
            return Err(RegistryError::TooLarge { url: url.to_owned(), limit: bytes_max });
        }
        let mut words = String::new();
        if let Some(errors) = curl.stderr.take() {
            let _ = errors.take(1024).read_to_string(&mut words);
        }
        let status = curl.wait().map_err(RegistryError::Curl)?;
        if !status.success() {
            let words = words.lines().next().unwrap_or_default().trim().replace(char::is_control, "");
            return Err(failed(if words.is_empty() { format!("curl ends with {status}") } else { words }));
        }
        let text = fs::read(&headers).map_err(RegistryError::Curl)?;
        let (status, challenge) = read_headers(&String::from_utf8_lossy(&text))
            .ok_or_else(|| failed("an answer without a status".to_owned()))?;
        Ok(Answer { status, challenge, body })
    }
}

#[cfg(test)]
mod tests;
