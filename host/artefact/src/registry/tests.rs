//! Against a registry on this machine: as much of the distribution API as a pull needs, with answers that tests choose.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::json;

use super::*;

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What a place has: status, further headers, body.
type Place = (u16, String, Vec<u8>);

/// A registry that ends with the test.
#[derive(Clone)]
struct Registry {
    address: String,
    places: Arc<Mutex<BTreeMap<String, Place>>>,
    /// `Authorization` that is wanted for anything below `/v2/`.
    wanted: Arc<Mutex<Option<String>>>,
    /// Every request: place and authorization.
    heard: Arc<Mutex<Vec<(String, String)>>>,
}

impl Registry {
    fn start() -> Registry {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let registry = Registry {
            address: listener.local_addr().unwrap().to_string(),
            places: Arc::default(),
            wanted: Arc::default(),
            heard: Arc::default(),
        };
        let serving = registry.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                // A client that hangs up early is part of the tests.
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
            "WWW-Authenticate: Bearer realm=\"http://{}/token\",service=\"here\",scope=\"repository:team/mine:pull\"\r\n",
            self.address
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
    let nobody = Reference::parse(&format!("oci://{unused}/a@sha256:{other}")).unwrap();
    assert!(matches!(nobody.pull(9, None), Err(RegistryError::Transport { .. })));
}

#[test]
fn a_token_is_fetched_with_the_login_of_a_container_tool() {
    let registry = Registry::start();
    let component = registry.put("blobs", b"component");
    let reference = registry.manifest(&[("application/wasm", &component)]);
    *registry.wanted.lock().unwrap() = Some("Bearer t0ken".to_owned());
    let place = "/token?service=here&scope=repository:team/mine:pull".to_owned();
    let token = (200, String::new(), br#"{"token": "t0ken"}"#.to_vec());
    registry.places.lock().unwrap().insert(place.clone(), token);

    assert_eq!(reference.pull(99, None).unwrap().component, b"component", "an anonymous token");
    let tmp = tempfile::tempdir().unwrap();
    let config = tmp.path().join("config.json");
    let auth = STANDARD.encode("me:secret");
    let auths = json!({"auths": {registry.address.as_str(): {"auth": auth}}});
    fs::write(&config, auths.to_string()).unwrap();
    reference.pull(99, Some(&config)).unwrap();
    let heard = registry.heard.lock().unwrap().clone();
    let asked: Vec<&str> = heard.iter().filter(|(at, _)| *at == place).map(|(_, who)| who.as_str()).collect();
    assert_eq!(asked, ["", &format!("Basic {auth}")]);

    *registry.wanted.lock().unwrap() = Some("Bearer another".to_owned());
    let error = reference.pull(99, Some(&config)).unwrap_err().to_string();
    assert!(error.contains("answers 401: not for whoever asks"), "{error}");
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
