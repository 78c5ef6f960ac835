//! The dashboard: `fluxgate web` on a real instance, over plain HTTP and in a browser.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};

use fluxgate_tests::browser::{Browser, chromium};
use fluxgate_tests::fixture::{World, fluxgate, folder};
use fluxgate_tests::patience::{self, Lines, PATIENCE};
use serde_json::Value;

/// A server on an instance.
struct Web {
    child: Child,
    lines: Lines,
    /// Host and port, and the key that was printed last.
    address: String,
    key: String,
    cookie: String,
}

/// An answer: status, headers in lower case, body.
struct Page {
    status: u16,
    head: String,
    body: String,
}

fn parsed(answer: &str) -> Page {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    Page { status, head: head.to_lowercase(), body: body.to_owned() }
}

impl Web {
    fn start(world: &World) -> Web {
        Web::start_with(world, &[])
    }

    fn start_with(world: &World, args: &[&str]) -> Web {
        let mut command = fluxgate(["web"]);
        command.args(args).env("FLUXGATE_DIR", world.dir.path()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the binary can be started");
        let lines = Lines::of(&mut child);
        let mut web = Web { child, lines, address: String::new(), key: String::new(), cookie: String::new() };
        web.read_key();
        web
    }

    /// The next address that it prints.
    fn read_key(&mut self) {
        let line = self.lines.next().expect("a line");
        let rest = line.trim().strip_prefix("http://").unwrap_or_else(|| panic!("no address: {line:?}"));
        let (address, key) = rest.split_once("/enter?key=").expect("a key");
        (self.address, self.key) = (address.to_owned(), key.to_owned());
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time that is not zero");
        stream
    }

    /// A request with these headers besides Host.
    fn ask(&self, method: &str, path: &str, headers: &str) -> Page {
        let mut stream = self.connect();
        let host =
            if headers.contains("Host:") { String::new() } else { format!("Host: {}\r\n", self.address) };
        let request = format!("{method} {path} HTTP/1.1\r\n{host}{headers}Connection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        parsed(&answer)
    }

    /// A page for a user with a cookie.
    fn get(&self, path: &str) -> Page {
        self.ask("GET", path, &format!("Cookie: {}\r\n", self.cookie))
    }

    /// A form of a user with a cookie.
    fn post(&self, path: &str, form: &str) -> Page {
        let mut stream = self.connect();
        let (host, cookie) = (&self.address, &self.cookie);
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nCookie: {cookie}\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{form}",
            form.len()
        );
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        // A form that is too long may end in a reset, after the answer.
        let _ = stream.read_to_string(&mut answer);
        parsed(&answer)
    }

    fn enter(&mut self) {
        let page = self.ask("GET", &format!("/enter?key={}", self.key), "");
        let cookie = page.head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("a cookie");
        assert!(page.status == 200 && cookie.contains("httponly; samesite=strict"), "{}", page.head);
        self.cookie = cookie.split(';').next().expect("name and value").to_owned();
        self.read_key();
    }

    fn json(&self, path: &str) -> Value {
        let page = self.get(path);
        assert_eq!(page.status, 200, "{path}: {}", page.body);
        serde_json::from_str(&page.body).expect("JSON")
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        let _ = self.child.kill();
        patience::end(&mut self.child);
    }
}

/// Four nodes, of which jobs hold three, one is drained, and one job waits for four.
fn busy() -> (World, String) {
    let world = World::up(&["--nodes", "4", "--cores", "4", "--policy", "easy"]);
    world.cli(&["submit", "-x", "-N3", "-t", "1h", "--job-name", "wide", "--simulate", "1h"]).ok();
    world.until("it runs", |w| w.jobs("running").len() == 1);
    let waits = world.cli(&["submit", "-N4", "-t", "10m", "--simulate", "5m"]).ok().trim().to_owned();
    world.cli(&["drain", "3", "bad", "dimm"]).ok();
    world.until("it waits for nodes", |w| w.why(&waits).contains("reason_kind"));
    (world, waits)
}

#[test]
fn feat_63_pages_of_a_real_instance_say_what_commands_say() {
    let (world, waits) = busy();
    let mut web = Web::start(&world);
    web.enter();
    let now = web.get("/");
    assert_eq!(now.status, 200, "{}", now.body);
    for words in ["easy", "75%", "Why jobs wait", "1 drained"] {
        assert!(now.body.contains(words), "{words}: {}", now.body);
    }
    let why = world.cli(&["job", &waits, "--json"]).json();
    let id = why["id"].as_u64().expect("an id");
    let job = web.get(&format!("/job/{id}"));
    let reason = why["explain"]["reason"].as_str().expect("a reason");
    assert!(job.body.contains(reason) && job.body.contains(&waits), "{reason}: {}", job.body);
    assert!(web.get("/queue").body.contains(reason));
    assert!(web.get("/machine").body.contains("bad dimm") && web.get("/timeline").body.contains("wide"));
    assert!(web.get("/node/3").body.contains("drained") && web.get("/policies").body.contains("EASY"));
    let dat = [
        "reservation",
        "create",
        "dat",
        "--maintenance",
        "--start",
        "+1h",
        "--duration",
        "1h",
        "--hosts",
        "all",
    ];
    world.cli(&[&dat[..], &["--note", "chilled water"]].concat()).ok();
    // Answers are kept for a second.
    world.until("the page has it", |_| web.get("/reservations").body.contains("chilled water"));
    let page = web.get("/reservations").body;
    for words in [
        "0 reservations on now, 1 planned, 0 over.",
        "chilled water",
        "<code>fluxgate reservation list</code>",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    assert!(web.get("/timeline").body.contains("maintenance dat · 4 nodes"), "it is in the picture");
    assert!(web.get("/machine").body.contains("maintenance dat from "), "nodes say what comes");
    // The page's JSON is the answer that the command prints.
    let order = web.json("/queue.json")["answers"]["order"].clone();
    let told = world.cli(&["queue", "--json"]).json();
    for key in ["id", "reason", "as", "nodes"] {
        assert_eq!(order["jobs"][0][key], told["jobs"][0][key], "{key}");
    }
    world.cli(&["cancel", &waits]).ok();
    world.until("it is gone", |w| w.jobs("pending").is_empty());
    assert!(web.get("/nowhere").status == 404 && web.get("/job/17").status == 200);
}

/// Pages as of a time of the past are those of then, whatever has happened since.
#[test]
fn feat_66_with_a_journal_pages_are_shown_as_of_then() {
    let dir = folder();
    let journal = dir.path().join("journal");
    let journal = journal.to_str().expect("text");
    let world = World::up(&["--nodes", "4", "--cores", "4", "--policy", "easy", "--journal", journal]);
    world.cli(&["submit", "-x", "-N3", "-t", "1h", "--simulate", "1h"]).ok();
    world.until("it runs", |w| w.jobs("running").len() == 1);
    let waits = world.cli(&["submit", "-N4", "-t", "10m", "--simulate", "5m"]).ok().trim().to_owned();
    world.until("it waits for nodes", |w| w.why(&waits).contains("reason_kind"));
    let mut web = Web::start_with(&world, &["--journal", journal]);
    web.enter();
    let live = web.json("/queue.json")["answers"]["order"].clone();
    let runs = web.json("/queue.json?show=running")["answers"]["running"]["jobs"][0].clone();
    let then = web.json("/now.json")["now"].as_f64().expect("a time");
    // Something happens after then: the journal tells of it, the page of then does not.
    world.until("time has passed", |_| web.json("/now.json")["now"].as_f64() > Some(then + 1.0));
    world.cli(&["cancel", &waits]).ok();
    world.until("it is gone", |w| w.jobs("pending").is_empty());
    world.cli(&["drain", "3", "bad", "dimm"]).ok();
    world.until("it is noticed", |w| w.stats()["resources"]["free_nodes"] == 0);
    let at = |page: &str| format!("{page}{}at={then}", if page.contains('?') { '&' } else { '?' });
    let mut past = Value::Null;
    world.until("it is written", |_| {
        let page = web.get(&at("/queue.json"));
        past = serde_json::from_str(&page.body).unwrap_or_default();
        page.status == 200
    });
    assert_eq!(past["now"], then);
    let order = &past["answers"]["order"];
    for key in ["id", "reason", "reason_kind", "as", "nodes", "priority", "t_submit", "userid", "ahead"] {
        assert_eq!(order["jobs"][0][key], live["jobs"][0][key], "{key}: {order}");
    }
    let ran = &web.json(&at("/queue.json?show=running"))["answers"]["running"]["jobs"][0];
    for key in ["id", "userid", "nnodes", "ncores", "ranks", "nodelist"] {
        assert_eq!(ran[key], runs[key], "{key}: {ran}");
    }
    assert!((ran["t_run"].as_f64().unwrap() - runs["t_run"].as_f64().unwrap()).abs() < 5.0, "{ran}");
    let now = web.get(&at("/")).body;
    for words in ["from the journal", "75%", "easy", "To the present"] {
        assert!(now.contains(words), "{words}: {now}");
    }
    let id = live["jobs"][0]["id"].as_u64().expect("an id");
    let job = web.get(&at(&format!("/job/{id}"))).body;
    assert!(job.contains("Why it waits") && job.contains(&waits), "{job}");
    let (machine, node) = (web.get(&at("/machine")).body, web.get(&at("/node/3")).body);
    assert!(!machine.contains("bad dimm") && node.contains("4 of 4 free"), "{machine} {node}");
    // Answers about the present are kept for a moment.
    world.until("the present has it", |_| web.get("/machine").body.contains("bad dimm"));
    for page in ["/timeline", "/reservations"] {
        assert_eq!(web.get(&at(page)).status, 200, "{page}");
    }
    for (page, status, words) in [
        ("/?at=noon", 400, "2026-11-23T12:00"),
        ("/?at=12", 404, "tells of times between"),
        ("/policies?at=12", 404, "not in a journal"),
        ("/metrics?at=12", 404, "of the present only"),
    ] {
        let said = web.get(page);
        assert!(said.status == status && said.body.contains(words), "{page}: {} {}", said.status, said.body);
    }
    let mut plain = Web::start(&world);
    plain.enter();
    let said = plain.get(&at("/"));
    assert!(said.status == 404 && said.body.contains("--journal"), "{}", said.body);
    world.cli(&["web", "--journal", "/nowhere"]).fails(1, &["--journal", "/nowhere"]);
}

#[test]
fn feat_67_only_who_has_a_key_comes_in_and_nothing_is_changed() {
    let world = World::up(&["--nodes", "2"]);
    let mut web = Web::start(&world);
    for path in ["/", "/queue.json", "/live?page=%2F", "/enter?key=wrong", "/enter"] {
        let page = web.ask("GET", path, "");
        assert!(page.status == 401 && !page.body.contains("Cores in use"), "{path}: {}", page.status);
    }
    let used = web.key.clone();
    web.enter();
    assert_eq!(web.ask("GET", &format!("/enter?key={used}"), "").status, 401, "a key is good for one use");
    assert_ne!(web.key, used);
    let page = web.get("/");
    for header in [
        "content-security-policy: default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
        "x-content-type-options: nosniff",
        "referrer-policy: same-origin",
        "cache-control: no-store",
    ] {
        assert!(page.head.contains(header), "{header}: {}", page.head);
    }
    // Names of other hosts that lead here, pages of other origins, and requests that would change something.
    let cookie = format!("Cookie: {}\r\n", web.cookie);
    assert_eq!(web.ask("GET", "/", &format!("Host: evil.example\r\n{cookie}")).status, 403);
    assert_eq!(web.ask("GET", "/", &format!("Origin: http://evil.example\r\n{cookie}")).status, 403);
    for method in ["POST", "PUT", "DELETE"] {
        assert_eq!(web.ask(method, "/", &cookie).status, 405, "{method}");
    }
    // A head that is too long ends the connection, not the server.
    let long = web.ask("GET", "/", &format!("X-Long: {}\r\n{cookie}", "x".repeat(20_000)));
    assert_eq!(long.status, 431);
    let figures = web.ask("GET", "/metrics", "");
    assert!(figures.head.contains("application/openmetrics-text; version=1.0.0"), "{}", figures.head);
    assert!(figures.body.contains("fluxgate_up 1") && figures.body.ends_with("# EOF\n"), "{}", figures.body);
    // An instance that ends is told, and the server stays.
    drop(world);
    let gone = web.get("/node/0");
    assert!(gone.status == 503 && gone.body.contains("No answer"), "{}: {}", gone.status, gone.body);
}

#[test]
fn feat_67_a_socket_of_the_file_system_is_open_to_its_user_alone() {
    let world = World::up(&["--nodes", "2"]);
    let dir = folder();
    let socket = dir.path().join("web");
    let start = || {
        let mut command = fluxgate(["web", "--listen", &format!("unix:{}", socket.display())]);
        let mut child = command.env("FLUXGATE_DIR", world.dir.path()).stdout(Stdio::piped()).spawn().unwrap();
        let line = Lines::of(&mut child).next();
        assert_eq!(line, Some(format!("unix:{}", socket.display())));
        child
    };
    let mut child = start();
    assert_eq!(socket.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let mut stream = UnixStream::connect(&socket).unwrap();
    stream.write_all(b"GET /machine HTTP/1.1\r\nHost: any\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(parsed(&answer).status == 200 && answer.contains("2 nodes"), "{answer}");
    // Killed: its socket is left, and taken over. A file that is no socket is not.
    child.kill().unwrap();
    patience::end(&mut child);
    let mut child = start();
    child.kill().unwrap();
    patience::end(&mut child);
    std::fs::remove_file(&socket).unwrap();
    std::fs::write(&socket, "mine").unwrap();
    let args = ["web", "--listen", &format!("unix:{}", socket.display())];
    world.cli(&args).fails(1, &["no socket"]);
    world.cli(&["web", "--listen", "0.0.0.0:80"]).fails(2, &["other hosts"]);
    assert_eq!(std::fs::read_to_string(&socket).unwrap(), "mine");
}

#[test]
fn feat_65_changes_come_by_themselves_and_only_they() {
    let world = World::up(&["--nodes", "2", "--cores", "4"]);
    let mut web = Web::start(&world);
    web.enter();
    let page = web.get("/queue?show=running").body;
    let have: Vec<String> = page
        .split("<section id=\"")
        .skip(1)
        .map(|rest| {
            let (id, rest) = rest.split_once("\" data-hash=\"").expect("a hash");
            format!("{id}:{}", rest.split('"').next().expect("its end"))
        })
        .collect();
    let path = format!("/live?page=%2Fqueue%3Fshow%3Drunning&have={}", have.join(","));
    let mut stream = web.connect();
    let cookie = &web.cookie;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\nCookie: {cookie}\r\n\r\n", web.address).unwrap();
    let mut lines = BufReader::new(stream).lines().map(|line| line.unwrap());
    assert!(lines.any(|line| line == "content-type: text/event-stream"));
    assert!(lines.any(|line| line == "retry: 2000"));
    let id = world.cli(&["submit", "-N1", "-t", "1h", "--job-name", "fresh", "--simulate", "1h"]).ok();
    // News about sections that did not change would come first.
    let news = lines.find(|line| line.contains("fresh")).expect("news");
    let news: Value = serde_json::from_str(news.strip_prefix("data: ").expect("an event")).expect("JSON");
    let sections = news["sections"].as_object().expect("sections");
    assert!(sections["jobs"]["html"].as_str().unwrap().contains(id.trim()), "{news}");
    assert!(!sections.contains_key("trouble"), "{news}");
}

#[test]
fn feat_71_pages_in_a_browser_are_live_and_have_keys_and_two_looks() {
    let Some(program) = chromium() else { return };
    let (world, _) = busy();
    let mut web = Web::start(&world);
    let dir = folder();
    let mut browser = Browser::start(&program, dir.path());
    browser.open(&format!("http://{}/enter?key={}", web.address, web.key));
    web.read_key();
    let base = format!("http://{}", web.address);
    for path in ["/queue", "/machine", "/timeline", "/policies", "/reservations", "/node/0", "/"] {
        browser.open(&format!("{base}{path}"));
        for kind in ["Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"] {
            assert_eq!(browser.of(kind), [&Value::Null; 0], "{path}: {kind}");
        }
        let asked: Vec<&str> = browser
            .of("Network.requestWillBeSent")
            .iter()
            .filter_map(|e| e["request"]["url"].as_str())
            .collect();
        assert!(asked.iter().all(|url| url.starts_with(&base)), "{path}: {asked:?}");
        let wide = browser.evaluate("document.documentElement.scrollWidth <= window.innerWidth");
        assert_eq!(wide, true, "{path} is no wider than the window");
    }
    // Live: a job that comes is there without a reload.
    let news = "new Promise(done => { const look = () => document.body.innerText.includes('fresh') ? done(true) : setTimeout(look, 50); look(); })";
    browser.open(&format!("{base}/queue?show=running"));
    world.cli(&["undrain", "3"]).ok();
    world.cli(&["submit", "-n1", "-t", "1m", "--job-name", "fresh", "--simulate", "1h"]).ok();
    assert_eq!(browser.evaluate(news), true);
    assert_eq!(browser.evaluate("document.getElementById('live').classList.contains('on')"), true);
    // Keys: rows by j, the search by /, pages by number.
    let press = |key: &str| {
        format!(
            "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {{key: '{key}', bubbles: true}}))"
        )
    };
    browser.evaluate(&press("j"));
    assert_eq!(browser.evaluate("document.activeElement.className"), "id");
    browser.evaluate(&press("/"));
    assert_eq!(browser.evaluate("document.activeElement.name"), "text");
    // Two looks: the background follows what the reader prefers.
    let mut seen = Vec::new();
    for scheme in ["light", "dark"] {
        let features = serde_json::json!([{"name": "prefers-color-scheme", "value": scheme}]);
        browser.ask("Emulation.setEmulatedMedia", serde_json::json!({ "features": features }));
        seen.push(browser.evaluate("getComputedStyle(document.documentElement).backgroundColor"));
    }
    assert_ne!(seen[0], seen[1]);
}

#[test]
fn feat_68_with_control_a_change_takes_two_clicks_and_a_form_of_this_server() {
    let (world, waits) = busy();
    let mut plain = Web::start(&world);
    plain.enter();
    let id = world.cli(&["job", &waits, "--json"]).json()["id"].as_u64().expect("an id");
    let ask = format!("/act?do=cancel&job={id}");
    assert!(!plain.get(&format!("/job/{id}")).body.contains("/act?") && plain.get(&ask).status == 404);
    let mut web = Web::start_with(&world, &["--control"]);
    web.enter();
    assert!(web.get(&format!("/job/{id}")).body.contains(&ask.replace('&', "&amp;")));
    // The first click changes nothing: it shows the consequence, the command, and a form.
    let confirm = web.get(&ask);
    assert!(confirm.body.contains(&format!("<code>fluxgate cancel {waits}</code>")), "{}", confirm.body);
    let token = confirm.body.split("name=\"token\" value=\"").nth(1).expect("a token");
    let token = token.split('"').next().expect("its end").to_owned();
    assert!(world.jobs("pending").contains(&waits));
    let form = |token: &str| format!("token={token}&do=cancel&job={id}");
    assert_eq!(web.post("/act", &form("")).status, 403);
    assert_eq!(web.post("/act", &form(&"0".repeat(token.len()))).status, 403);
    assert_eq!(web.post("/act", &"x".repeat(20_000)).status, 403);
    assert_eq!(plain.post("/act", &form(&token)).status, 405);
    assert!(world.jobs("pending").contains(&waits));
    let done = web.post("/act", &form(&token));
    assert!(done.status == 303 && done.head.contains(&format!("location: /job/{id}")), "{}", done.head);
    world.until("it is gone", |w| w.jobs("pending").is_empty());
    // A refusal of the instance is shown.
    let refused = web.post("/act", &format!("token={token}&do=swap&policy=nobody"));
    assert!(
        refused.status == 409 && refused.body.contains("no policy &quot;nobody&quot;"),
        "{}",
        refused.body
    );
    let swapped = web.post("/act", &format!("token={token}&do=swap&policy=builtin-fcfs"));
    assert_eq!(
        (swapped.status, world.policies()["active"].as_str()),
        (303, Some("builtin-fcfs")),
        "{}",
        swapped.body
    );
    // A swap is tried before the second click; the trail has who did it.
    let confirm = web.get("/act?do=swap&policy=easy");
    assert!(
        confirm.body.contains("It would take over from builtin-fcfs, for 1 queue with"),
        "{}",
        confirm.body
    );
    let refused = web.get("/act?do=swap&policy=nobody");
    assert!(refused.body.contains("It would be refused: no policy"), "{}", refused.body);
    // A shadow follows, is not promoted before its time, and ends.
    assert_eq!(web.post("/act", &format!("token={token}&do=shadow&policy=easy")).status, 303);
    let page = web.get("/policies").body;
    assert!(
        page.contains("do=promote&amp;policy=easy") && page.contains("do=shadow-stop&amp;policy=easy"),
        "{page}"
    );
    let confirm = web.get("/act?do=promote&policy=easy");
    assert!(confirm.body.contains("it would not be promoted: "), "{}", confirm.body);
    let refused = web.post("/act", &format!("token={token}&do=promote&policy=easy"));
    assert!(refused.status == 409 && refused.body.contains("is not promoted"), "{}", refused.body);
    assert_eq!(web.post("/act", &format!("token={token}&do=shadow-stop&policy=easy")).status, 303);
    assert!(!web.get("/policies").body.contains("do=promote"));
}

/// Reservations are made, ended and cancelled by the same two clicks, checked by the scheduler before the second.
#[test]
fn feat_68_reservations_are_made_and_ended_from_a_page() {
    let world = World::up(&["--nodes", "4", "--policy", "easy"]);
    let plain = {
        let mut plain = Web::start(&world);
        plain.enter();
        plain.get("/reservations").body
    };
    assert!(!plain.contains("do=reserv") && !plain.contains("value=\"reserve\""), "{plain}");
    let mut web = Web::start_with(&world, &["--control"]);
    web.enter();
    assert!(web.get("/reservations").body.contains("<input type=\"hidden\" name=\"do\" value=\"reserve\">"));
    let form = "do=reserve&name=dat&kind=maintenance&start=2199-11-23T12%3A00&duration=2h&where=n%5B0-1%5D&note=cold&repeat=weekly";
    let list = || world.cli(&["reservation", "list", "--json"]).json()["reservations"].clone();
    let hosts = world.cli(&[
        "reservation",
        "create",
        "first",
        "--maintenance",
        "--start",
        "+1d",
        "--duration",
        "1h",
        "--hosts",
        "all",
    ]);
    hosts.ok();
    let all = list()[0]["nodelist"].as_str().expect("hosts").to_owned();
    let form = form.replace("n%5B0-1%5D", &all.replace('[', "%5B").replace(']', "%5D"));
    // The first click asks the scheduler what the reservation would be, and makes nothing.
    let confirm = web.get(&format!("/act?{form}")).body;
    assert!(confirm.contains("It would have 4 nodes (") && confirm.contains("2199-11-23 14:00"), "{confirm}");
    assert!(confirm.contains("fluxgate reservation create dat --start @"), "{confirm}");
    assert_eq!(list().as_array().map(Vec::len), Some(1));
    let token = confirm.split("name=\"token\" value=\"").nth(1).expect("a token");
    let token = token.split('"').next().expect("its end").to_owned();
    let wrong = web.get(&format!("/act?{}", form.replace("2h", "long")));
    assert!(wrong.status == 400 && wrong.body.contains("is no duration"), "{}", wrong.body);
    let refused = web.get(&format!("/act?{}", form.replace("name=dat", "name=first")));
    assert!(
        refused.body.contains("It would be refused: first: there is such a reservation"),
        "{}",
        refused.body
    );
    assert_eq!(web.post("/act", &form).status, 403, "without a token");
    let done = web.post("/act", &format!("token={token}&{form}"));
    assert!(done.status == 303 && done.head.contains("location: /reservations"), "{}", done.head);
    let made = list();
    let dat = made.as_array().unwrap().iter().find(|one| one["name"] == "dat").expect("it was made");
    assert_eq!(
        (&dat["repeat"]["every"], &dat["repeat"]["zone"]),
        (&"weekly".into(), &"UTC".into()),
        "{made}"
    );
    world.until("the page has it", |_| {
        web.get("/reservations").body.contains("do=reservation-end&amp;name=dat")
    });
    let confirm = web.get("/act?do=reservation-end&name=first").body;
    assert!(confirm.contains("It has 4 nodes: ") && confirm.contains("reservation end first"), "{confirm}");
    let unknown = web.get("/act?do=reservation-cancel&name=none").body;
    assert!(unknown.contains("It would be refused: there is no reservation none"), "{unknown}");
    assert_eq!(web.post("/act", &format!("token={token}&do=reservation-end&name=first")).status, 303);
    assert_eq!(web.post("/act", &format!("token={token}&do=reservation-cancel&name=dat")).status, 303);
    let left = list();
    assert_eq!((left.as_array().map(Vec::len), left[0]["state"].as_str()), (Some(1), Some("over")), "{left}");
}

/// A server behind a proxy: the name of the viewer is in a header, and in the audit trail.
#[test]
fn feat_67_68_behind_a_proxy_names_of_viewers_are_in_the_audit_trail() {
    let dir = folder();
    let trail = dir.path().join("trail");
    let world = World::up(&["--nodes", "2", "--policy", "easy"]);
    let settings = dir.path().join("flux.toml");
    std::fs::write(&settings, format!("[sched-fluxgate]\naudit-trail = {trail:?}\n")).unwrap();
    world.cli(&["config", "reload", "--file", settings.to_str().unwrap()]).ok();
    let socket = dir.path().join("web");
    let listen = format!("unix:{}", socket.display());
    world.cli(&["web", "--behind-proxy", "X-Remote-User"]).fails(2, &["only with --listen unix:"]);
    world
        .cli(&["web", "--listen", &listen, "--behind-proxy", "no header"])
        .fails(1, &["no name of a header"]);
    // In private mode the owner's server would show viewers the jobs of all users: only where that is said.
    let private = format!("[sched-fluxgate]\naudit-trail = {trail:?}\n[access]\nprivate-mode = true\n");
    std::fs::write(&settings, private).unwrap();
    world.cli(&["config", "reload", "--file", settings.to_str().unwrap()]).ok();
    world
        .cli(&["web", "--listen", &listen, "--behind-proxy", "X-Remote-User"])
        .fails(2, &["access.private-mode is on", "--all-users"]);
    let arguments =
        ["web", "--listen", &listen, "--control", "--behind-proxy", "X-Remote-User", "--all-users"];
    let mut command = fluxgate(arguments);
    let mut child = command.env("FLUXGATE_DIR", world.dir.path()).stdout(Stdio::piped()).spawn().unwrap();
    assert!(Lines::of(&mut child).next().is_some());
    assert_eq!(socket.metadata().unwrap().permissions().mode() & 0o777, 0o660);
    let ask = |head: &str, body: &str| {
        let mut stream = UnixStream::connect(&socket).unwrap();
        let length = body.len();
        write!(
            stream,
            "{head}Host: hpc.example\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        parsed(&answer)
    };
    let get = |path: &str, headers: &str| ask(&format!("GET {path} HTTP/1.1\r\n{headers}"), "");
    assert_eq!(get("/", "").status, 401, "nobody");
    assert_eq!(get("/", "X-Remote-User: ada\r\nX-Remote-User: bob\r\n").status, 401, "two names");
    assert_eq!(get("/", "X-Remote-User: ada\r\nOrigin: https://evil.example\r\n").status, 403);
    assert_eq!(get("/", "X-Remote-User: ada\r\n").status, 200);
    let token = |name: &str| {
        let page = get("/act?do=swap&policy=builtin-fcfs", &format!("X-Remote-User: {name}\r\n")).body;
        page.split("name=\"token\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
    };
    let post = |name: &str, token: &str| {
        let head = format!("POST /act HTTP/1.1\r\nX-Remote-User: {name}\r\nOrigin: https://hpc.example\r\n");
        ask(&head, &format!("token={token}&do=swap&policy=builtin-fcfs")).status
    };
    assert_eq!(post("bob", &token("ada")), 403, "a form of somebody else");
    assert_eq!(post("ada", &token("ada")), 303);
    child.kill().unwrap();
    patience::end(&mut child);
    let entries = std::fs::read_to_string(&trail).unwrap();
    let swap = entries
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .find(|entry| entry["what"] == "swap");
    assert_eq!(swap.unwrap()["as"], "ada");
}
