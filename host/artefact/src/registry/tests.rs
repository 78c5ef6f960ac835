//! Against a registry on this machine with the part of the distribution API that a pull uses, and answers that tests
//! choose.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::http::{is_bearer_token, is_token_address, location};
use super::manifests::{self, sha256};
use super::*;

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
    /// Every request: method, path and authorization.
    heard: Arc<Mutex<Vec<(String, String, String)>>>,
    /// Whether it lists the manifests that refer to a manifest (OCI distribution 1.1).
    lists: Arc<AtomicBool>,
    /// The path that no client may store.
    refused: Arc<Mutex<Option<String>>>,
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
            lists: Arc::default(),
            refused: Arc::default(),
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
        let mut input = BufReader::new(stream.try_clone()?);
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            if input.read_line(&mut line)? == 0 || line == "\r\n" {
                break;
            }
            head.push(line.trim_end().to_owned());
        }
        let field = |name: &str| {
            let fields = head.iter().filter_map(|line| line.split_once(": "));
            fields.filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.to_owned()).next()
        };
        let mut words = head.first().map(String::as_str).unwrap_or_default().split(' ').map(str::to_owned);
        let (method, place) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let length = field("Content-Length").and_then(|l| l.parse().ok()).unwrap_or(0);
        let mut content = vec![0; length];
        input.read_exact(&mut content)?;
        let authorization = field("Authorization").unwrap_or_default();
        self.heard.lock().unwrap().push((method.clone(), place.clone(), authorization.clone()));
        let wanted = self.wanted.lock().unwrap().clone();
        let writes = !matches!(method.as_str(), "GET" | "HEAD");
        let scope = if writes { "pull,push" } else { "pull" };
        let challenge = format!(
            "WWW-Authenticate: Bearer realm=\"{}\",service=\"here\",scope=\"repository:team/mine:{scope}\"\r\n",
            self.realm.lock().unwrap()
        );
        let (status, headers, body) = match wanted {
            Some(wanted)
                if place.starts_with("/v2/")
                    && authorization != wanted
                    && authorization != "Bearer writer"
                    || writes && authorization != "Bearer writer" =>
            {
                (401, challenge, Vec::new())
            }
            _ => self.serve(&method, &place, content),
        };
        let length = body.len();
        write!(
            stream,
            "HTTP/1.1 {status} x\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n"
        )?;
        stream.write_all(if method == "HEAD" { &[] } else { &body })
    }

    fn serve(&self, method: &str, place: &str, content: Vec<u8>) -> Place {
        let mut places = self.places.lock().unwrap();
        let ended = |status, headers: &str| (status, headers.to_owned(), Vec::new());
        match method {
            "POST" => ended(202, "Location: /v2/team/mine/blobs/uploads/1?state=a\r\n"),
            "PUT" if self.refused.lock().unwrap().as_deref() == Some(place) => ended(403, ""),
            "PUT" => {
                let at = match place.split_once("digest=") {
                    Some((_, digest)) => format!("/v2/team/mine/blobs/{digest}"),
                    None => place.to_owned(),
                };
                let subject = serde_json::from_slice::<Value>(&content).unwrap_or_default();
                let subject = subject["subject"]["digest"].as_str().map(str::to_owned);
                let digest = format!("sha256:{}", sha256(&content));
                if let Some(named) = at.rsplit('/').next().filter(|named| named.starts_with("sha256:"))
                    && named != digest
                {
                    return ended(400, "");
                }
                let size = content.len();
                places.insert(at, (200, String::new(), content));
                let Some(subject) = subject.filter(|_| self.lists.load(Ordering::Relaxed)) else {
                    return ended(201, "");
                };
                let list = format!("/v2/team/mine/referrers/{subject}?artifactType={SIGNATURE_TYPE}");
                let (_, _, body) =
                    places.entry(list).or_insert((200, String::new(), b"{\"manifests\": []}".into()));
                let mut index: Value = serde_json::from_slice(body).unwrap();
                let entry = json!({"artifactType": SIGNATURE_TYPE, "digest": digest, "size": size});
                index["manifests"].as_array_mut().unwrap().push(entry);
                *body = index.to_string().into_bytes();
                ended(201, &format!("OCI-Subject: {subject}\r\n"))
            }
            _ => places.get(place).cloned().unwrap_or((404, String::new(), b"{}".to_vec())),
        }
    }

    fn target(&self, tag: &str) -> Target {
        Target::parse(&format!("oci://{}/team/mine{tag}", self.address)).unwrap()
    }

    fn at(&self, place: &str) -> Option<Value> {
        let places = self.places.lock().unwrap();
        serde_json::from_slice(&places.get(place)?.2).ok()
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
    assert_eq!(pulled, Pulled { component: b"component".to_vec(), signatures: vec!["signature".to_owned()] });
    let one = registry.manifest(&[("application/wasm", &component)]);
    assert!(one.pull(9, None).unwrap().signatures.is_empty());
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
        heard.iter().filter(|(_, at, _)| *at == TOKEN_PLACE).map(|(_, _, who)| who.as_str()).collect();
    assert_eq!(asked, ["", &format!("Basic {auth}")]);

    *registry.wanted.lock().unwrap() = Some("Bearer another".to_owned());
    let error = reference.pull(99, Some(&config)).unwrap_err().to_string();
    assert!(error.contains("answers 401: it lets this user not do that"), "{error}");
}

#[test]
fn writing_needs_a_login_of_its_own() {
    let registry = Registry::start();
    let token = |scope: &str, token: &str| {
        let place = format!("/token?service=here&scope=repository:team/mine:{scope}");
        let body = json!({"token": token}).to_string().into_bytes();
        registry.places.lock().unwrap().insert(place, (200, String::new(), body));
    };
    *registry.wanted.lock().unwrap() = Some("Bearer reader".to_owned());
    token("pull", "reader");
    let error = registry.target("").publish(&MINE, None).unwrap_err().to_string();
    assert!(error.contains("scope=repository:team/mine:pull,push: the registry answers 404"), "{error}");
    token("pull,push", "writer");
    let published = registry.target("").publish(&MINE, None).unwrap();
    assert_eq!(published.reference.pull(9, None).unwrap().component, b"component");
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
    assert_eq!(heard.iter().filter(|(_, place, _)| place.contains("service=")).count(), 1, "{heard:?}");
}

#[test]
fn a_redirect_leads_to_https_or_to_where_it_came_from() {
    let (registry, other) = (Registry::start(), Registry::start());
    let component = registry.put("blobs", b"component");
    let reference = registry.manifest(&[("application/wasm", &component)]);
    let place = format!("/v2/team/mine/blobs/sha256:{component}");
    let moved = |target: &str| {
        let moved = (307, format!("Location: {target}\r\n"), Vec::new());
        registry.places.lock().unwrap().insert(place.clone(), moved);
    };
    for target in [&format!("http://{}/there", other.address), "file:///etc/hostname", "there", "//x/y", ""] {
        moved(target);
        let error = reference.pull(99, None).unwrap_err().to_string();
        assert!(
            error.contains("the registry's Location is refused: expected an https://"),
            "{target}: {error}"
        );
    }
    assert!(other.heard.lock().unwrap().is_empty());
    moved(&place);
    let error = reference.pull(99, None).unwrap_err().to_string();
    assert!(error.ends_with("more than 5 redirects"), "{error}");
    moved("/elsewhere");
    registry
        .places
        .lock()
        .unwrap()
        .insert("/elsewhere".to_owned(), (200, String::new(), b"component".into()));
    assert_eq!(reference.pull(99, None).unwrap().component, b"component");
}

#[test]
fn locations() {
    let asked = "https://a.example:5000/v2/x";
    for (value, expected) in [
        ("/v2/y?a=b", Some("https://a.example:5000/v2/y?a=b")),
        ("https://b.example/z", Some("https://b.example/z")),
        ("http://a.example:5000/v2/y", None),
        ("https://user@b.example/z", None),
        ("/a b", None),
        ("/a\\b", None),
    ] {
        assert_eq!(location(asked, value).ok().as_deref(), expected, "{value}");
    }
    assert!(location("http://localhost:5000/v2/x", "http://localhost:5000/y").is_ok());
    assert!(location("http://localhost:5000/v2/x", "http://localhost:5001/y").is_err());
}

const MINE: Component<'static> = Component {
    name: "mine",
    version: "1.2.0+a",
    summary: "Shortest first.",
    author: Some("A. Author"),
    license: Some("MIT"),
    source: None,
    exports: &[],
    imports: &[],
    bytes: b"component",
    signature: Some("signature"),
};

#[test]
fn a_published_component_comes_back_with_its_signature() {
    for lists in [false, true] {
        let registry = Registry::start();
        registry.lists.store(lists, Ordering::Relaxed);
        let published = registry.target("").publish(&MINE, None).unwrap();
        assert_eq!(published.tag, "1.2.0_a");
        let pulled = published.reference.pull(9, None).unwrap();
        assert_eq!(
            pulled,
            Pulled { component: b"component".into(), signatures: vec!["signature".to_owned()] }
        );

        let manifest = registry.at("/v2/team/mine/manifests/1.2.0_a").unwrap();
        assert_eq!(manifest["config"]["mediaType"], "application/vnd.wasm.config.v0+json");
        assert_eq!(manifest["annotations"]["org.opencontainers.image.version"], "1.2.0+a");
        assert_eq!(manifest["annotations"]["org.opencontainers.image.licenses"], "MIT");
        assert!(manifest["annotations"].get("org.opencontainers.image.source").is_none());
        let config = manifest["config"]["digest"].as_str().unwrap();
        let config = registry.at(&format!("/v2/team/mine/blobs/{config}")).unwrap();
        assert_eq!(config["layerDigests"], json!([format!("sha256:{}", sha256(b"component"))]));

        // Again, and with a second signature: the same manifest, and nothing is sent twice.
        registry.heard.lock().unwrap().clear();
        let again = Component { signature: Some("another"), ..MINE };
        assert_eq!(registry.target(":stable").publish(&again, None).unwrap().reference, published.reference);
        let uploads = registry.heard.lock().unwrap().iter().filter(|(method, _, _)| method == "POST").count();
        assert_eq!(uploads, 1, "the signature alone");
        registry.target(":stable").publish(&again, None).unwrap();
        let pulled = published.reference.pull(9, None).unwrap();
        assert_eq!(pulled.signatures, ["another", "signature"], "lists: {lists}");
    }
}

#[test]
fn a_publication_that_fails_sets_no_tag() {
    let registry = Registry::start();
    let unsigned = Component { signature: None, ..MINE };
    let manifest = registry.target("").publish(&unsigned, None).unwrap().reference;
    registry.places.lock().unwrap().clear();
    // The registry does not take the manifest of the signature.
    let signature = manifests::of_signature(
        "mine",
        b"signature",
        &manifests::of_component(&MINE, &manifests::wasm_config(&MINE)),
    );
    let place = format!("/v2/team/mine/manifests/sha256:{}", sha256(&signature));
    *registry.refused.lock().unwrap() = Some(place);
    let error = registry.target("").publish(&MINE, None).unwrap_err().to_string();
    assert!(error.contains("the registry answers 403: it lets this user not do that"), "{error}");
    assert!(manifest.pull(9, None).unwrap().signatures.is_empty());
    assert!(registry.at("/v2/team/mine/manifests/1.2.0_a").is_none());
    let version = Component { version: "a b", ..MINE };
    let error = registry.target("").publish(&version, None).unwrap_err().to_string();
    assert!(error.contains("\"a b\": the version is no tag; expected oci://"), "{error}");
}

#[test]
fn signatures_of_others_are_bounded_and_read_whole() {
    let registry = Registry::start();
    let reference =
        registry.target("").publish(&Component { signature: None, ..MINE }, None).unwrap().reference;
    let tag = format!("/v2/team/mine/manifests/sha256-{}", reference.digest);
    let list = |entries: Value| {
        let index = json!({"manifests": entries}).to_string().into_bytes();
        registry.places.lock().unwrap().insert(tag.clone(), (200, String::new(), index));
        reference.pull(9, None)
    };
    let entry = |digest: &str| json!({"artifactType": SIGNATURE_TYPE, "digest": format!("sha256:{digest}")});
    let empty = registry.put("manifests", b"{\"layers\": []}");
    let other = json!({"artifactType": "application/vnd.dev.cosign.simplesigning.v1+json", "digest": "?"});
    assert!(list(json!([other])).unwrap().signatures.is_empty());
    for (entries, expected) in [
        (json!([entry("?")]), "a referrer without a sha256 digest"),
        (json!([entry(&empty)]), "no layer of type application/vnd.fluxgate.minisig; expected is one"),
        (json!(vec![entry(&empty); 17]), "17 signatures; at most 16 are read"),
        (json!([entry(&"0".repeat(64))]), "answers 404"),
    ] {
        let error = list(entries).unwrap_err().to_string();
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

#[test]
fn targets() {
    for (text, tag) in [
        ("oci://registry.example.org:5000/a/b", None),
        ("oci://registry.example.org:5000/a/b:1.0", Some("1.0")),
        ("oci://[::1]:5000/a:_x", Some("_x")),
    ] {
        assert_eq!(Target::parse(text).unwrap().tag.as_deref(), tag, "{text}");
    }
    for (text, problem) in [
        ("a/b", "not a registry"),
        ("oci://a", "no path"),
        ("oci://a/b:", "the tag is none"),
        ("oci://a/b:.x", "the tag is none"),
        ("oci://a/b:x y", "the tag is none"),
        ("oci://a/B", "the path is none"),
        ("oci://a/b@sha256:00", "a digest follows from the component"),
    ] {
        let error = Target::parse(text).unwrap_err().to_string();
        assert!(
            error.contains(problem) && error.ends_with("expected oci://HOST[:PORT]/PATH[:TAG]"),
            "{text}: {error}"
        );
    }
}

#[test]
fn references() {
    let digest = "a".repeat(64);
    let good = Reference::parse(&format!("oci://registry.example.org:5000/a/b-c@sha256:{digest}")).unwrap();
    assert_eq!(good.to_string(), format!("oci://registry.example.org:5000/a/b-c@sha256:{digest}"));
    assert_eq!(good.repository.url("blobs/x"), "https://registry.example.org:5000/v2/a/b-c/blobs/x");
    let local = Reference::parse(&format!("oci://localhost:5000/a@sha256:{digest}")).unwrap();
    assert_eq!(local.repository.scheme(), "http");
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
