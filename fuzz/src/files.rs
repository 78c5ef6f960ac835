//! Targets for files and answers that a site or the network hands in: settings, components, compiled ones, registries.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use fluxgate_artefact::registry::Reference;
use fluxgate_policy::{Digest, Limits, Loader, Manifest, compiled_code};
use fluxgate_sched::Configuration;
use fluxgate_sched::settings::{Settings, parse_config};

use crate::text;

/// A configuration of Flux in TOML; behind an empty line that follows `---`, arguments of a module, one a line. Settings that are accepted
/// can be shown and used.
pub(crate) fn settings(bytes: &[u8]) {
    text(bytes, |text| {
        let (config, arguments) = text.split_once("\n---\n").unwrap_or((text, ""));
        let Ok(config) = parse_config(config) else { return };
        let arguments: Vec<String> = arguments.lines().map(str::to_owned).collect();
        if let Ok(settings) = Settings::from_config(&config).and_then(|it| it.with_args(&arguments)) {
            assert!(settings.show().is_object());
            let _ = (settings.engine(), settings.session(), settings.periods());
        }
        // Under the names of the graph scheduler's modules.
        let _ = Configuration::of_module(&config, arguments, true);
    });
}

/// A file of the folder of compiled components, behind the key under which it is looked up: the bytes behind the header are the
/// native code, and its checksum is in the header.
pub(crate) fn compiled(bytes: &[u8]) {
    let Some((key, file)) = bytes.split_first_chunk::<32>() else { return };
    if let Ok(code) = compiled_code(file, key) {
        let sum = Digest::of(code);
        assert!(file.ends_with(code) && file.windows(32).any(|part| part == sum.bytes()), "not checked");
    }
}

/// Components: refused or compiled, and a manifest that was sealed in is read again.
pub(crate) fn component(bytes: &[u8]) {
    static LOADER: OnceLock<Loader> = OnceLock::new();
    let few = Limits {
        memory_bytes: 4 << 20,
        component_bytes: 64 << 10,
        fuel_configure: 1_000_000,
        ..Limits::default()
    };
    let loader = LOADER.get_or_init(|| Loader::without_clock(few).expect("a compiler"));
    let plain = Manifest::strip(bytes);
    if let Ok(Some(manifest)) = Manifest::read(bytes)
        && let Ok(sealed) = manifest.seal(&plain)
    {
        assert_eq!(Manifest::read(&sealed).expect("what was sealed"), Some(manifest));
    }
    let _ = loader.compile(bytes);
}

/// Answers of a registry on this machine: status line with headers, and the contents.
#[derive(Default)]
struct Answers {
    head: Vec<u8>,
    /// By digest.
    contents: Vec<(String, Vec<u8>)>,
    /// Of all other addresses.
    other: Vec<u8>,
}

/// A registry that gives these answers, for as long as the process lasts.
struct Registry {
    address: String,
    answers: Arc<Mutex<Answers>>,
}

fn registry() -> &'static Registry {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    REGISTRY.get_or_init(|| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let answers = Arc::<Mutex<Answers>>::default();
        let served = Arc::clone(&answers);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let _ = serve(&stream, &served.lock().unwrap_or_else(PoisonError::into_inner));
            }
        });
        Registry { address, answers }
    })
}

/// One request and its answer; then the connection ends.
fn serve(stream: &TcpStream, answers: &Answers) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut asked = String::new();
    reader.read_line(&mut asked)?;
    let mut line = String::new();
    while reader.read_line(&mut line)? > 2 {
        line.clear();
    }
    let digest = |(digest, _): &&(String, Vec<u8>)| asked.contains(&format!("/{digest} "));
    let content = answers.contents.iter().find(digest).map_or(&answers.other, |(_, content)| content);
    let mut answer = match answers.head.is_empty() {
        true => {
            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close", content.len()).into_bytes()
        }
        false => answers.head.clone(),
    };
    answer.extend_from_slice(b"\r\n\r\n");
    answer.extend_from_slice(content);
    let mut writer = stream;
    writer.write_all(&answer)
}

/// The lines of a separator between the parts of an input.
const BETWEEN: &[u8] = b"\n--\n";

/// Pulls of a component from a registry. The parts of an input are the head of all answers (200 without), the answer at all other
/// addresses, the manifest, and contents; `sha256:@1` in a part stands for the digest of the first content, and so on. A component
/// that is pulled is one of the contents.
pub(crate) fn oci(bytes: &[u8]) {
    let mut rest = bytes;
    let mut parts: Vec<&[u8]> = Vec::new();
    while let Some(at) = rest.windows(BETWEEN.len()).position(|part| part == BETWEEN) {
        parts.push(&rest[..at]);
        rest = &rest[at + BETWEEN.len()..];
    }
    parts.push(rest);
    let mut parts = parts.into_iter();
    let (head, other) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let manifest = parts.next().unwrap_or_default();
    let mut contents: Vec<(String, Vec<u8>)> = Vec::new();
    let named = |text: &[u8], contents: &[(String, Vec<u8>)]| {
        let text = String::from_utf8_lossy(text).into_owned();
        let digests = contents.iter().zip(1..);
        digests
            .fold(text, |text, ((digest, _), number)| text.replace(&format!("sha256:@{number}"), digest))
            .into_bytes()
    };
    for part in parts.take(9) {
        let content = named(part, &contents);
        contents.push((Digest::of(&content).to_string(), content));
    }
    let (other, manifest) = (named(other, &contents), named(manifest, &contents));
    let digest = Digest::of(&manifest).to_string();
    let pulled: Vec<Vec<u8>> = contents.iter().map(|(_, content)| content.clone()).collect();
    contents.push((digest.clone(), manifest));
    let registry = registry();
    *registry.answers.lock().unwrap_or_else(PoisonError::into_inner) =
        Answers { head: head.to_vec(), contents, other };
    let reference = format!("oci://{}/site/policy@{digest}", registry.address);
    let reference = Reference::parse(&reference).expect("a reference");
    match reference.pull(1 << 20, None) {
        Ok(found) => assert!(pulled.contains(&found.component), "pulled what has no digest"),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
