//! Against a registry on this machine with the part of the distribution API that a pull uses, and answers that tests
//! choose.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::json;

use super::*;

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The content of a path: status, further headers, body.
type Place = (u16, String, Vec<u8>);

/// A registry that ends with the test.
#[derive(Clone)]
struct Registry {
    address: String,
    places: Arc<Mutex<BTreeMap<String, Place>>>,
    /// The `Authorization` that is required below `/v2/`.
    wanted: Arc<Mutex<Option<String>>>,
    /// The address of tokens in its challenge.
    realm: Arc<Mutex<String>>,
    /// Every request: path and authorization.
    heard: Arc<Mutex<Vec<(String, String)>>>,
}

impl Registry {
    fn start() -> Registry {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let registry = Registry {
            realm: Arc::new(Mutex::new(format!("http://{address}/token"))),
            address,
            places: Arc::default(),
            wanted: Arc::default(),
            heard: Arc::default(),
        };
        let serving = registry.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                // Some tests disconnect early.
                let _ = stream.map(|stream| serving.answer(stream));
            }
        });
        registry
    }

    fn answer(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut lines = BufReader::new(stream.try_clone()?).lines();
        let request = lines.next().unwrap_or_else(|| Ok(String::new()))?;
        let place = request.split(' ').nth(1).unwrap_or_default().to_owned();
        let mut authorization = String::new();
        for line in lines {
            let line = line?;
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("Authorization: ") {
                authorization = value.to_owned();
            }
        }
        self.heard.lock().unwrap().push((place.clone(), authorization.clone()));
        let wanted = self.wanted.lock().unwrap().clone();
        let challenge = format!(
            "WWW-Authenticate: Bearer realm=\"{}\",service=\"here\",scope=\"repository:team/mine:pull\"\r\n",
            self.realm.lock().unwrap()
        );
        let (status, headers, body) = match wanted {
            Some(wanted) if place.starts_with("/v2/") && authorization != wanted => {
                (401, challenge, Vec::new())
            }
            _ => {
                let missing = (404, String::new(), b"{}".to_vec());
                self.places.lock().unwrap().get(&place).cloned().unwrap_or(missing)
            }
        };
        let length = body.len();
        write!(
            stream,
            "HTTP/1.1 {status} x\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n"
        )?;
        stream.write_all(&body)
    }

    fn put(&self, kind: &str, body: &[u8]) -> String {
        let digest = sha256(body);
        let place = format!("/v2/team/mine/{kind}/sha256:{digest}");
        self.places.lock().unwrap().insert(place, (200, String::new(), body.to_vec()));
        digest
    }

    /// A manifest with these layers.
    fn manifest(&self, layers: &[(&str, &str)]) -> Reference {
        let layers: Vec<Value> = layers
            .iter()
            .map(|(kind, digest)| json!({"mediaType": kind, "digest": format!("sha256:{digest}"), "size": 1}))
            .collect();
        let manifest = json!({"schemaVersion": 2, "layers": layers}).to_string();
        let digest = self.put("manifests", manifest.as_bytes());
        Reference::parse(&format!("oci://{}/team/mine@sha256:{digest}", self.address)).unwrap()
    }
}

#[test]
fn a_component_with_its_signature() {
    let registry = Registry::start();
    let (component, signature) = (registry.put("blobs", b"component"), registry.put("blobs", b"signature"));
    let both = registry.manifest(&[("application/wasm", &component), (SIGNATURE_TYPE, &signature)]);
    let pulled = both.pull(9, None).unwrap();
    assert_eq!(pulled, Pulled { component: b"component".to_vec(), signature: Some("signature".to_owned()) });
    let one = registry.manifest(&[("application/wasm", &component)]);
    assert_eq!(one.pull(9, None).unwrap().signature, None);
    let error = one.pull(8, None).unwrap_err().to_string();
    assert!(error.ends_with("more than 8 bytes; that is the most that is accepted"), "{error}");
}

#[test]
fn what_is_not_what_was_asked_for_is_refused() {
    let registry = Registry::start();
    let component = registry.put("blobs", b"component");
    let refuse = |layers: &[(&str, &str)]| registry.manifest(layers).pull(99, None).unwrap_err().to_string();
    assert!(refuse(&[]).contains("0 layers of type application/wasm or"));
    let twice = ("application/wasm", component.as_str());
    assert!(refuse(&[twice, twice]).contains("2 layers of type"));
    assert!(refuse(&[("application/wasm", "../../secret")]).contains("a layer without a sha256 digest"));
    let other = "0".repeat(64);
    assert!(refuse(&[("application/wasm", &other)]).contains("answers 404: it has no such thing"));

    let lying = format!("/v2/team/mine/blobs/sha256:{component}");
    registry.places.lock().unwrap().insert(lying, (200, String::new(), b"another".to_vec()));
    let error = refuse(&[("application/wasm", &component)]);
    assert!(error.contains(&format!("is sha256:{}, not sha256:{component}", sha256(b"another"))), "{error}");

    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let unreachable = Reference::parse(&format!("oci://{unused}/a@sha256:{other}")).unwrap();
    assert!(matches!(unreachable.pull(9, None), Err(RegistryError::Transport { .. })));
}

#[test]
fn a_token_is_fetched_with_the_login_of_a_container_tool() {
    let registry = Registry::start();
    let reference = asking_for_a_token(&registry, r#"{"token": "t0ken"}"#);

    assert_eq!(reference.pull(99, None).unwrap().component, b"component", "an anonymous token");
    let tmp = tempfile::tempdir().unwrap();
    let config = tmp.path().join("config.json");
    let auth = STANDARD.encode("me:secret");
    let auths = json!({"auths": {registry.address.as_str(): {"auth": auth}}});
    fs::write(&config, auths.to_string()).unwrap();
    reference.pull(99, Some(&config)).unwrap();
    let heard = registry.heard.lock().unwrap().clone();
    let asked: Vec<&str> =
        heard.iter().filter(|(at, _)| *at == TOKEN_PLACE).map(|(_, who)| who.as_str()).collect();
    assert_eq!(asked, ["", &format!("Basic {auth}")]);

    *registry.wanted.lock().unwrap() = Some("Bearer another".to_owned());
    let error = reference.pull(99, Some(&config)).unwrap_err().to_string();
    assert!(error.contains("answers 401: not for whoever asks"), "{error}");
}

/// The path of the tokens of [`Registry`].
const TOKEN_PLACE: &str = "/token?service=here&scope=repository:team/mine:pull";

/// A registry that requires a token; its token endpoint answers `answer`.
fn asking_for_a_token(registry: &Registry, answer: &str) -> Reference {
    let component = registry.put("blobs", b"component");
    let reference = registry.manifest(&[("application/wasm", &component)]);
    *registry.wanted.lock().unwrap() = Some("Bearer t0ken".to_owned());
    let token = (200, String::new(), answer.as_bytes().to_vec());
    registry.places.lock().unwrap().insert(TOKEN_PLACE.to_owned(), token);
    reference
}

#[test]
fn a_token_is_a_word_of_rfc_6750() {
    let registry = Registry::start();
    for token in ["a\nb", "a\r\nX: b", "a b", "a\"", "", "=", "a=b", "ä", "a\u{1b}[2J"] {
        let reference = asking_for_a_token(&registry, &json!({"token": token}).to_string());
        let error = reference.pull(99, None).unwrap_err().to_string();
        let told = error.contains("the registry's token is refused") && error.contains(&registry.address);
        assert!(told && error.contains("RFC 6750"), "{token:?}: {error}");
    }
    assert!(is_bearer_token("aZ09-._~+/=="));
}

#[test]
fn a_registry_names_no_address_but_https_or_this_machine() {
    for (url, from_here, from_elsewhere) in [
        ("https://auth.example.org/token?a=b", true, true),
        ("https://auth.example.org:8443", true, true),
        ("http://127.0.0.1:5000/token", true, false),
        ("http://localhost/token", true, false),
        ("http://[::1]:5000/token", true, false),
        ("http://auth.example.org/token", false, false),
        ("http://127.0.0.1.example.org/token", false, false),
        ("http://127.0.0.1@example.org/token", false, false),
        ("https://user:word@example.org/token", false, false),
        ("http://example.org\\@127.0.0.1/token", false, false),
        ("file:///etc/passwd", false, false),
        ("https:///token", false, false),
        ("https://example.org/a b", false, false),
        ("https://example.org/\n", false, false),
        ("/token", false, false),
        ("", false, false),
    ] {
        assert_eq!(
            (is_token_address(url, true), is_token_address(url, false)),
            (from_here, from_elsewhere),
            "{url}"
        );
    }
    let registry = Registry::start();
    let reference = asking_for_a_token(&registry, "{}");
    *registry.realm.lock().unwrap() = "file:///etc/hostname".to_owned();
    let error = reference.pull(99, None).unwrap_err().to_string();
    assert!(
        error.contains("the registry's realm (WWW-Authenticate) is refused: expected an https://"),
        "{error}"
    );
    // Brackets and braces in an address have no special meaning.
    *registry.realm.lock().unwrap() = format!("http://{}/{{a,b}}[1-3]", registry.address);
    reference.pull(99, None).unwrap_err();
    let heard = registry.heard.lock().unwrap();
    assert_eq!(heard.iter().filter(|(place, _)| place.contains("service=")).count(), 1, "{heard:?}");
}

#[test]
fn a_redirect_leads_to_https_only() {
    let (registry, other) = (Registry::start(), Registry::start());
    let component = registry.put("blobs", b"component");
    let reference = registry.manifest(&[("application/wasm", &component)]);
    let place = format!("/v2/team/mine/blobs/sha256:{component}");
    for target in [format!("http://{}/there", other.address), "file:///etc/hostname".to_owned()] {
        let moved = (307, format!("Location: {target}\r\n"), Vec::new());
        registry.places.lock().unwrap().insert(place.clone(), moved);
        assert!(matches!(reference.pull(99, None), Err(RegistryError::Transport { .. })), "{target}");
    }
    assert!(other.heard.lock().unwrap().is_empty());
}

#[test]
fn headers_of_the_answer_that_counts() {
    let challenge = Some("Bearer realm=\"x\"".to_owned());
    for (text, expected) in [
        ("HTTP/1.1 200 OK\r\nServer: HTTP/9 500\r\n\r\n", Some((200, None))),
        ("HTTP/1.1 100 Continue\r\n\r\nHTTP/2 404 \r\nA: b\r\n\r\n", Some((404, None))),
        ("HTTP/1.1 401 x\r\nwww-AUTHENTICATE: Bearer realm=\"x\"\r\n\r\n", Some((401, challenge))),
        ("HTTP/1.1 302 x\r\nWWW-Authenticate: a\r\n\r\nHTTP/1.1 200 x\r\n\r\n", Some((200, None))),
        ("HTTP/1.1 200 x\r\n\r\nTrailer: a\r\nHTTP/1.1 500\r\n", Some((200, None))),
        ("HTTP/1.1 x\r\n\r\n", None),
        ("Server: HTTP/1.1 200\r\n\r\n", None),
        ("", None),
    ] {
        assert_eq!(read_headers(text), expected, "{text:?}");
    }
}

#[test]
fn references() {
    let digest = "a".repeat(64);
    let good = Reference::parse(&format!("oci://registry.example.org:5000/a/b-c@sha256:{digest}")).unwrap();
    let url = format!("https://registry.example.org:5000/v2/a/b-c/blobs/sha256:{digest}");
    assert_eq!(good.url("blobs", &digest), url);
    let local = Reference::parse(&format!("oci://localhost:5000/a@sha256:{digest}")).unwrap();
    assert_eq!(local.scheme(), "http");
    for (text, problem) in [
        ("https://x/y".to_owned(), "not a registry"),
        ("oci://x/y:latest".to_owned(), "a tag may be another thing tomorrow"),
        (format!("oci://x@sha256:{digest}"), "no path"),
        ("oci://x/y@sha256:abc".to_owned(), "64 hexadecimal digits"),
        (format!("oci:///y@sha256:{digest}"), "the host is none"),
        (format!("oci://x y/z@sha256:{digest}"), "the host is none"),
        (format!("oci://x/../y@sha256:{digest}"), "the path is none"),
        (format!("oci://x/Y@sha256:{digest}"), "the path is none"),
    ] {
        let error = Reference::parse(&text).unwrap_err().to_string();
        assert!(error.contains(problem) && error.contains("expected oci://"), "{text}: {error}");
    }
}
