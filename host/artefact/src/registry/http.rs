//! Requests to a registry: bounded answers, redirects, logins.
//!
//! Certificates and proxies are those of the site: the system's certificates (or `SSL_CERT_FILE`, `SSL_CERT_DIR`) and
//! `HTTPS_PROXY`, `NO_PROXY`. Plain HTTP is used only with this machine itself. A token is sent to the registry's host,
//! user and password also to the token service that the registry names; an address of a redirect gets neither. A text of the registry that becomes part of a request must have an
//! allowed alphabet, or is refused.
//!
//! This module must never know what is transferred.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use ureq::http::header::{AUTHORIZATION, HeaderName, LOCATION, WWW_AUTHENTICATE};
use ureq::http::{Request, Response};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body};

use super::{ANSWER_BYTES_MAX, ANSWER_SECONDS_MAX, REDIRECTS_MAX, RegistryError, Repository};

/// `USER:PASSWORD` in base64 for a host, from a file of a container tool.
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
pub(super) fn is_this_machine(authority: &str) -> bool {
    let colon = authority.rfind(':').filter(|colon| !authority[*colon..].contains(']'));
    matches!(&authority[..colon.unwrap_or(authority.len())], "localhost" | "127.0.0.1" | "[::1]")
}

/// True for the characters of a bearer token (RFC 6750 section 2.1, `b64token`).
pub(super) fn is_bearer_token(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~' | b'+' | b'/');
    !body.is_empty() && body.bytes().all(allowed)
}

/// Scheme and authority of an address that a registry may name: HTTPS, or plain HTTP where `plain` allows its
/// authority; in visible ASCII and without a user.
fn origin(url: &str, plain: impl Fn(&str) -> bool) -> Option<(&str, &str)> {
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let visible = url.bytes().all(|b| b.is_ascii_graphic() && b != b'\\');
    let reachable = match scheme {
        "https" => true,
        "http" => plain(authority),
        _ => false,
    };
    (visible && reachable && !authority.is_empty() && !authority.contains('@')).then_some((scheme, authority))
}

/// True if a registry may name this address for tokens.
pub(super) fn is_token_address(url: &str, registry_is_local: bool) -> bool {
    origin(url, |authority| registry_is_local && is_this_machine(authority)).is_some()
}

/// The address that the `Location` of an answer to a request to `asked` names. It leads to HTTPS, or to where the
/// answer came from.
///
/// # Errors
/// The accepted form.
pub(super) fn location(asked: &str, value: &str) -> Result<String, &'static str> {
    const ACCEPTED: &str =
        "an https:// address of visible ASCII without a user, or a path that begins with '/'";
    let own = origin(asked, |_| true).ok_or(ACCEPTED)?;
    let url = match value.starts_with('/') && !value.starts_with("//") {
        true => format!("{}://{}{value}", own.0, own.1),
        false => value.to_owned(),
    };
    origin(&url, |authority| own == ("http", authority)).map(|_| ()).ok_or(ACCEPTED)?;
    Ok(url)
}

/// The method of a request, with its arguments.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ask<'a> {
    /// Read, accepting these media types.
    Get(&'a str),
    /// See whether the content is there.
    Head,
    /// Begin an upload.
    Post,
    /// Store this, with its media type.
    Put(&'a str, &'a [u8]),
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    /// HTTP status.
    pub(super) status: u16,
    /// The address that was asked last, after redirects.
    pub(super) url: String,
    headers: ureq::http::HeaderMap,
    /// Its content.
    pub(super) body: Vec<u8>,
}

impl Answer {
    /// A header, if it is text.
    pub(super) fn header(&self, name: HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The answer, if its status is one of these.
    ///
    /// # Errors
    /// [`RegistryError::Status`].
    pub(super) fn with_status(self, accepted: &[u16]) -> Result<Answer, RegistryError> {
        if accepted.contains(&self.status) {
            return Ok(self);
        }
        let hint = match self.status {
            401 | 403 => {
                ": it lets this user not do that; log in with a container tool, whose config.json is used"
            }
            404 => ": it has no such thing",
            _ => "",
        };
        Err(RegistryError::Status { url: self.url, status: self.status, hint })
    }
}

/// Talks to one registry about one repository.
pub(super) struct Client {
    /// The registry's `HOST[:PORT]`.
    host: String,
    agent: Agent,
    basic: Option<String>,
    /// The value of `Authorization`, once the registry required one.
    login: Option<String>,
    /// The challenge that it answers; writing may need another login than reading.
    challenge: Option<String>,
}

impl Client {
    /// A client with the login that `docker`, the file of a container tool, has for the host.
    pub(super) fn new(repository: &Repository, docker: Option<&Path>) -> Client {
        let crypto = Arc::new(rustls::crypto::ring::default_provider());
        let tls = TlsConfig::builder()
            .unversioned_rustls_crypto_provider(crypto)
            .root_certs(RootCerts::PlatformVerifier)
            .build();
        let mut config = Agent::config_builder()
            .tls_config(tls)
            .http_status_as_error(false)
            // Redirects are followed here, since a credential must not go along.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_global(Some(Duration::from_secs(ANSWER_SECONDS_MAX.into())))
            .user_agent(concat!("fluxgate/", env!("CARGO_PKG_VERSION")));
        if repository.scheme() == "http" {
            config = config.proxy(None);
        }
        Client {
            host: repository.host.clone(),
            agent: config.build().new_agent(),
            basic: docker.and_then(|p| basic(p, &repository.host)),
            login: None,
            challenge: None,
        }
    }

    /// Asks, after a login where the registry requires one. The answer has at most `bytes_max` bytes.
    ///
    /// # Errors
    /// [`RegistryError`]; an answer with any status is none.
    pub(super) fn ask(&mut self, url: &str, ask: Ask<'_>, bytes_max: u64) -> Result<Answer, RegistryError> {
        let answer = self.follow(url, ask, bytes_max)?;
        let challenge = answer.header(WWW_AUTHENTICATE).unwrap_or_default().to_owned();
        if answer.status != 401 || self.challenge.as_ref() == Some(&challenge) {
            return Ok(answer);
        }
        self.login = self.log_in(url, &challenge)?;
        self.challenge = Some(challenge);
        self.follow(url, ask, bytes_max)
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
        if !is_token_address(&realm, is_this_machine(&self.host)) {
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
                url.push_str(&in_query(&value));
            }
        }
        let answer = self.once(&url, Ask::Get("application/json"), basic.as_deref(), ANSWER_BYTES_MAX)?;
        if answer.status != 200 {
            let hint = ": it gives this user no token";
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

    /// Asks, and follows redirects of requests that only read.
    fn follow(&self, url: &str, ask: Ask<'_>, bytes_max: u64) -> Result<Answer, RegistryError> {
        let mut url = url.to_owned();
        for _ in 0..=REDIRECTS_MAX {
            let answer = self.once(&url, ask, self.login_for(&url), bytes_max)?;
            let moved = matches!(answer.status, 301 | 302 | 303 | 307 | 308);
            if !moved || !matches!(ask, Ask::Get(_) | Ask::Head) {
                return Ok(answer);
            }
            let target = answer.header(LOCATION).unwrap_or_default();
            url = location(&url, target).map_err(|expected| RegistryError::Field {
                url: url.clone(),
                field: "Location",
                expected,
            })?;
        }
        let problem = format!("more than {REDIRECTS_MAX} redirects");
        Err(RegistryError::Transport { url, problem })
    }

    /// The value of `Authorization` for this address: the registry alone gets one.
    fn login_for(&self, url: &str) -> Option<&str> {
        let (_, authority) = origin(url, |_| true)?;
        self.login.as_deref().filter(|_| authority == self.host)
    }

    /// One request and its answer.
    fn once(
        &self,
        url: &str,
        ask: Ask<'_>,
        login: Option<&str>,
        bytes_max: u64,
    ) -> Result<Answer, RegistryError> {
        let failed = |problem: String| RegistryError::Transport {
            url: url.to_owned(),
            problem: problem.replace(char::is_control, " "),
        };
        let mut request = match ask {
            Ask::Get(types) => Request::get(url).header("Accept", types),
            Ask::Head => Request::head(url),
            Ask::Post => Request::post(url),
            Ask::Put(kind, _) => Request::put(url).header("Content-Type", kind),
        };
        if let Some(login) = login {
            request = request.header(AUTHORIZATION, login);
        }
        let built = |error: ureq::http::Error| failed(error.to_string());
        let response: Response<Body> = match ask {
            Ask::Get(_) | Ask::Head => self.agent.run(request.body(()).map_err(built)?),
            Ask::Post => self.agent.run(request.body(&[][..]).map_err(built)?),
            Ask::Put(_, content) => self.agent.run(request.body(content).map_err(built)?),
        }
        .map_err(|error| failed(error.to_string()))?;
        let (head, body) = response.into_parts();
        let mut content = Vec::new();
        let read = body.into_reader().take(bytes_max + 1).read_to_end(&mut content);
        if content.len() as u64 > bytes_max {
            return Err(RegistryError::TooLarge { url: url.to_owned(), limit: bytes_max });
        }
        read.map_err(|error| failed(error.to_string()))?;
        Ok(Answer { status: head.status.as_u16(), url: url.to_owned(), headers: head.headers, body: content })
    }
}

/// A value as it stands in a query.
pub(super) fn in_query(value: &str) -> String {
    let byte = |b: u8| match b {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' | b'/' | b':' | b',' => {
            char::from(b).to_string()
        }
        other => format!("%{other:02X}"),
    };
    value.bytes().map(byte).collect()
}
