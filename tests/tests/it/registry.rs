//! OCI registries through the binary: over TLS with a certificate of the site, and with answers of bad intent. Needs
//! `cargo xtask policies`.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::{Arc, Mutex};

use fluxgate_tests::fixture::{Said, fluxgate, folder, policies, run};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::json;

/// `me:secret` as a login.
const LOGIN: &str = "Basic bWU6c2VjcmV0";

/// Servers of HTTPS on an address of this machine that clients do not take for this machine itself.
#[derive(Clone)]
struct Site {
    tls: Arc<ServerConfig>,
    /// The certificate.
    pem: String,
    /// Content by host and path.
    places: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    /// Every request: method, host and path, authorization.
    heard: Arc<Mutex<Vec<[String; 3]>>>,
    /// Where blobs are fetched, if elsewhere.
    blobs: Arc<Mutex<Option<SocketAddr>>>,
}

impl Site {
    fn new() -> Site {
        let made = rcgen::generate_simple_self_signed(["127.0.0.2".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let crypto = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ServerConfig::builder_with_provider(crypto).with_safe_default_protocol_versions().unwrap();
        let tls = tls.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key).unwrap();
        Site {
            tls: Arc::new(tls),
            pem: made.cert.pem(),
            places: Arc::default(),
            heard: Arc::default(),
            blobs: Arc::default(),
        }
    }

    /// One more server; it ends with the test.
    fn serve(&self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.2:0").unwrap();
        let here = listener.local_addr().unwrap();
        let site = self.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let session = ServerConnection::new(Arc::clone(&site.tls)).unwrap();
                // A client that does not trust the certificate disconnects.
                let _ = stream.and_then(|stream| site.answer(here, StreamOwned::new(session, stream)));
            }
        });
        here
    }

    fn answer(&self, here: SocketAddr, stream: impl Read + Write) -> std::io::Result<()> {
        let mut stream = BufReader::new(stream);
        let (mut request, mut login, mut length) = (String::new(), String::new(), 0);
        stream.read_line(&mut request)?;
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line)? == 0 || line == "\r\n" {
                break;
            }
            match line.trim_end().split_once(": ") {
                Some((name, value)) if name.eq_ignore_ascii_case("authorization") => login = value.to_owned(),
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.parse().unwrap();
                }
                _ => {}
            }
        }
        let mut content = vec![0; length];
        stream.read_exact(&mut content)?;
        let mut words = request.split(' ').map(str::to_owned);
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        self.heard.lock().unwrap().push([method.clone(), format!("{here}{path}"), login.clone()]);
        let (status, field, body) = self.respond(here, &method, &path, &login, content);
        let length = body.len();
        let head =
            format!("HTTP/1.1 {status} x\r\nConnection: close\r\nContent-Length: {length}\r\n{field}\r\n");
        stream.get_mut().write_all(head.as_bytes())?;
        stream.get_mut().write_all(if method == "HEAD" { &[] } else { &body })
    }

    fn respond(
        &self,
        here: SocketAddr,
        method: &str,
        path: &str,
        login: &str,
        content: Vec<u8>,
    ) -> (u16, String, Vec<u8>) {
        let mut places = self.places.lock().unwrap();
        let elsewhere = *self.blobs.lock().unwrap();
        match (method, elsewhere) {
            (_, Some(other)) if other == here => {}
            _ if login != LOGIN => {
                return (401, "WWW-Authenticate: Basic realm=\"x\"\r\n".to_owned(), Vec::new());
            }
            ("GET", Some(other)) if path.contains("/blobs/") => {
                return (307, format!("Location: https://{other}{path}\r\n"), Vec::new());
            }
            _ => {}
        }
        match method {
            "POST" => (202, "Location: /v2/site/policies/blobs/upload\r\n".to_owned(), Vec::new()),
            "PUT" => {
                let place = path.split_once("upload?digest=").map(|(to, digest)| format!("{to}{digest}"));
                places.insert(place.unwrap_or_else(|| path.to_owned()), content);
                (201, String::new(), Vec::new())
            }
            _ => match places.get(path) {
                Some(found) => (200, String::new(), found.clone()),
                None => (404, String::new(), Vec::new()),
            },
        }
    }
}

/// The binary with the content of `dir`: policies, state, logins and the certificate that it trusts.
fn cli(dir: &Path, args: &[&str]) -> Said {
    let mut command = fluxgate(args);
    for (name, folder) in
        [("FLUXGATE_POLICIES", "policies"), ("XDG_STATE_HOME", "state"), ("DOCKER_CONFIG", ".")]
    {
        command.env(name, dir.join(folder));
    }
    command.env("SSL_CERT_FILE", dir.join("trusted.pem")).env_remove("FLUXGATE_KEY_PASSWORD");
    run(command)
}

#[test]
fn published_and_installed_over_tls_with_the_certificate_and_the_login_of_the_site() {
    let (site, dir) = (Site::new(), folder());
    let dir = dir.path();
    let path = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    let host = site.serve();
    fs::create_dir(dir.join("policies")).unwrap();
    fs::copy(policies().join("sjf.wasm"), dir.join("sjf.wasm")).expect("run `cargo xtask policies`");
    let logins = json!({"auths": {host.to_string(): {"auth": LOGIN.trim_start_matches("Basic ")}}});
    fs::write(dir.join("config.json"), logins.to_string()).unwrap();
    for name in ["alice", "bob"] {
        cli(dir, &["policy", "generate-key", &path(name)]).ok();
    }
    let target = format!("oci://{host}/site/policies");
    let publish = || cli(dir, &["policy", "publish", &path("sjf.wasm"), &target, "--json"]);

    // A certificate that the site does not trust.
    let stranger = rcgen::generate_simple_self_signed(["127.0.0.2".to_owned()]).unwrap();
    fs::write(dir.join("trusted.pem"), stranger.cert.pem()).unwrap();
    publish().fails(1, &[&host.to_string(), "certificate"]);
    assert!(site.heard.lock().unwrap().is_empty());
    fs::write(dir.join("trusted.pem"), &site.pem).unwrap();

    let sign =
        |who: &str| cli(dir, &["policy", "sign", &path("sjf.wasm"), "--key", &path(&format!("{who}.key"))]);
    sign("alice").ok();
    let published = publish().json();
    let reference = published["reference"].as_str().unwrap();
    assert_eq!((&published["name"], &published["tag"]), (&json!("sjf"), &published["version"]));

    // Blobs are on another host, which gets no login.
    let storage = site.serve();
    *site.blobs.lock().unwrap() = Some(storage);
    site.heard.lock().unwrap().clear();
    cli(dir, &["policy", "install", reference, "--key", &path("alice.pub")]).ok();
    let installed = dir.join("policies/sjf.wasm");
    assert_eq!(fs::read(&installed).unwrap(), fs::read(dir.join("sjf.wasm")).unwrap());
    cli(dir, &["policy", "verify", installed.to_str().unwrap(), "--key", &path("alice.pub")]).ok();
    let heard = site.heard.lock().unwrap().clone();
    let logins: Vec<&str> =
        heard.iter().filter(|h| h[1].starts_with(&storage.to_string())).map(|h| h[2].as_str()).collect();
    assert_eq!(logins, ["", ""], "a component and its signature: {heard:?}");

    // With two signatures, a key tells which one is meant.
    *site.blobs.lock().unwrap() = None;
    sign("bob").ok();
    assert_eq!(publish().json()["reference"], reference);
    cli(dir, &["policy", "remove", "sjf"]).ok();
    cli(dir, &["policy", "install", reference]).fails(1, &["is signed with the keys ", "--key or --keys"]);
    assert!(!installed.exists());
    cli(dir, &["policy", "install", reference, "--key", &path("bob.pub")]).ok();
    cli(dir, &["policy", "verify", installed.to_str().unwrap(), "--key", &path("bob.pub")]).ok();
    cli(dir, &["policy", "generate-key", &path("carol")]).ok();
    cli(dir, &["policy", "install", reference, "--key", &path("carol.pub")])
        .fails(1, &["which is not trusted"]);

    fs::remove_file(dir.join("config.json")).unwrap();
    cli(dir, &["policy", "install", reference]).fails(1, &["answers 401", "log in with a container tool"]);
    cli(dir, &["policy", "publish", "sjf", "oci://x/y@sha256:0"])
        .fails(1, &["a digest follows from the component"]);
}

/// A registry on this machine, with one answer for requests with `Authorization`, one for those without, and one for
/// a token. `HERE` in an answer is its address.
fn registry(with: &'static str, without: &'static str, token: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let here = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let head: Vec<String> =
                lines.map_while(|line| line.ok().filter(|line| !line.is_empty())).collect();
            let login = |field: &String| field.to_ascii_lowercase().starts_with("authorization:");
            let answer = match &head[..] {
                [request, ..] if request.contains("/token") => token,
                [_, fields @ ..] if fields.iter().any(login) => with,
                _ => without,
            };
            // A client may disconnect before the end of the answer; this is no error.
            let _ = stream.write_all(answer.replace("HERE", &here.to_string()).as_bytes());
        }
    });
    here
}

const MISSING: &str = "HTTP/1.1 404 x\r\nConnection: close\r\nServer: HTTP/none\r\n\r\n";

/// An answer that requires a token.
const CHALLENGE: &str =
    "HTTP/1.1 401 x\r\nConnection: close\r\nWWW-Authenticate: Bearer realm=\"http://HERE/token\"\r\n\r\n";

#[test]
fn a_registry_writes_no_files() {
    let dir = folder();
    let install = |host: SocketAddr| {
        let reference = format!("oci://{host}/a@sha256:{}", "0".repeat(64));
        let mut command = fluxgate(["policy", "install", &reference]);
        command.env("FLUXGATE_POLICIES", dir.path()).current_dir(dir.path());
        run(command)
    };
    // A second line of the token must not become part of a request.
    let token = "HTTP/1.1 200 x\r\nConnection: close\r\n\r\n{\"token\": \"a\\noutput = written\"}";
    let host = registry(MISSING, CHALLENGE, token);
    let said = install(host);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "a file was written: {said:?}");
    said.fails(1, &[&host.to_string(), "the registry's token is refused", "RFC 6750"]);
    // Only the first line of an answer has the status.
    install(registry(MISSING, MISSING, MISSING)).fails(1, &["the registry answers 404"]);
    // Heads without end, and an answer without one.
    let endless = Box::leak(format!("HTTP/1.1 200 x\r\n{}", "A: b\r\n".repeat(1 << 17)).into_boxed_str());
    install(registry(endless, endless, endless)).fails(1, &["http://127.0.0.1:"]);
    install(registry("", "", "")).fails(1, &["http://127.0.0.1:"]);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}
