//! The report in a browser: pictures are drawn, no message on the console, no request to the network.
//!
//! Runs where a Chromium is on the path, and is skipped elsewhere. The browser is controlled over the two pipes of
//! `--remote-debugging-pipe`: requests and events as JSON, each ended by a zero byte.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use fluxgate_testing::{Need, skipped};
use fluxgate_tests::fixture::{cli, folder};
use serde_json::{Value, json};

/// Time that a browser on a busy machine may take in all.
const PATIENCE: Duration = Duration::from_secs(120);

fn chromium() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let mut files = std::env::split_paths(&path).flat_map(|dir| names.map(|name| dir.join(name)));
    let found = files.find(|file| file.is_file());
    if found.is_none() {
        skipped(Need::Chromium, "no chromium");
    }
    found
}

/// A browser without a window.
struct Browser {
    child: Child,
    requests: File,
    messages: Receiver<Value>,
    /// The session of the page, once it is open.
    session: Option<String>,
    asked: u64,
    begin: Instant,
    /// All events of the page so far.
    events: Vec<Value>,
}

impl Browser {
    fn start(program: &Path, dir: &Path) -> Browser {
        let (to, from) = (dir.join("to"), dir.join("from"));
        let made = Command::new("mkfifo").args([&to, &from]).status().expect("mkfifo is there");
        assert!(made.success());
        let flags = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking \
                     --disable-component-update --disable-sync --remote-debugging-pipe";
        let script = format!("exec \"$1\" {flags} --user-data-dir=\"$2\" about:blank 3<\"$3\" 4>\"$4\"");
        let mut command = Command::new("sh");
        command.args(["-c", &script, "sh"]).arg(program).arg(dir.join("profile")).args([&to, &from]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let requests = File::options().write(true).open(&to).unwrap();
        let answers = File::open(&from).unwrap();
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(answers).split(0).map_while(Result::ok) {
                let message = serde_json::from_slice(&message).expect("the browser talks JSON");
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        let (session, events) = (None, Vec::new());
        Browser { child, requests, messages, session, asked: 0, begin: Instant::now(), events }
    }

    fn next(&mut self) -> Value {
        let left = PATIENCE.saturating_sub(self.begin.elapsed());
        match self.messages.recv_timeout(left) {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) => panic!("the browser says nothing for {PATIENCE:?}"),
            Err(RecvTimeoutError::Disconnected) => panic!("the browser is gone: {:?}", self.child.try_wait()),
        }
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.asked += 1;
        let mut request = json!({"id": self.asked, "method": method, "params": params});
        if let Some(session) = &self.session {
            request["sessionId"] = json!(session);
        }
        self.requests.write_all(format!("{request}\0").as_bytes()).unwrap();
        loop {
            let message = self.next();
            if message["id"] == self.asked {
                assert_eq!(message.get("error"), None, "{method}");
                return message["result"].clone();
            }
            self.events.push(message);
        }
    }

    /// Opens a page and receives its events.
    fn open(&mut self, url: &str) {
        let target = self.ask("Target.createTarget", json!({"url": "about:blank"}))["targetId"].clone();
        let attached = self.ask("Target.attachToTarget", json!({"targetId": target, "flatten": true}));
        self.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            self.ask(&format!("{domain}.enable"), json!({}));
        }
        self.events.clear();
        let answer = self.ask("Page.navigate", json!({ "url": url }));
        assert_eq!(answer.get("errorText"), None, "{url}");
        while self.of("Page.loadEventFired").is_empty() {
            let message = self.next();
            self.events.push(message);
        }
    }

    /// The events of one kind.
    fn of(&self, method: &str) -> Vec<&Value> {
        self.events.iter().filter(|event| event["method"] == method).map(|event| &event["params"]).collect()
    }

    fn evaluate(&mut self, script: &str) -> Value {
        let params = json!({"expression": script, "awaitPromise": true, "returnByValue": true});
        let answer = self.ask("Runtime.evaluate", params);
        assert_eq!(answer.get("exceptionDetails"), None, "{script}");
        answer["result"]["value"].clone()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Every picture as the browser paints it: its name, width and height on the page, the number of its colours, and the
/// number of its points that are not white.
const PAINT: &str = r#"
(async () => {
  const found = [];
  for (const figure of document.querySelectorAll("figure")) {
    const svg = figure.querySelector("svg"), box = svg.getBoundingClientRect();
    const image = new Image(500, 200);
    image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(new XMLSerializer().serializeToString(svg));
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [500, 200];
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0, 500, 200);
    const points = new Uint32Array(context.getImageData(0, 0, 500, 200).data.buffer);
    const inked = points.filter(point => point !== 0xffffffff && point !== 0).length;
    const words = [...svg.querySelectorAll("text")].every(text => {
      const at = text.getBoundingClientRect();
      return at.width > 0 && at.left >= box.left && at.right <= box.right && at.top >= box.top && at.bottom <= box.bottom;
    });
    found.push({name: figure.id, width: box.width, height: box.height, colours: new Set(points).size, inked, words});
  }
  return found;
})()
"#;

#[test]
fn the_report_opens_in_a_browser() {
    let Some(program) = chromium() else { return };
    let dir = folder();
    let (log, out) = (dir.path().join("w.swf"), dir.path().join("out"));
    let made = cli(&["workload", "make", "--model", "lublin99", "--jobs", "400", "--cores", "64"]).ok();
    std::fs::write(&log, made).unwrap();
    let (log, folder) = (log.to_str().unwrap(), out.to_str().unwrap());
    cli(&["replay", log, "--policy", "fcfs", "--policy", "easy", "--forecast", "-q", "--report", folder])
        .ok();

    let mut browser = Browser::start(&program, dir.path());
    browser.open(&format!("file://{folder}/report.html"));
    for kind in
        ["Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded", "Network.loadingFailed"]
    {
        assert_eq!(browser.of(kind), [&Value::Null; 0], "{kind}");
    }
    let asked: Vec<&str> =
        browser.of("Network.requestWillBeSent").iter().filter_map(|e| e["request"]["url"].as_str()).collect();
    assert!(asked.contains(&format!("file://{folder}/report.html").as_str()), "{asked:?}");
    let outside: Vec<&&str> =
        asked.iter().filter(|url| !url.starts_with("file://") && !url.starts_with("data:")).collect();
    assert!(
        outside.is_empty() && asked.iter().filter(|url| url.starts_with("file:")).count() == 1,
        "{asked:?}"
    );

    let title = browser.evaluate("document.title");
    assert!(title.as_str().is_some_and(|title| title.starts_with("Replay of ")), "{title}");
    let wide = browser.evaluate("document.documentElement.scrollWidth <= window.innerWidth");
    assert_eq!(wide, true, "the page is no wider than the window");
    let pictures = browser.evaluate(PAINT);
    let pictures = pictures.as_array().unwrap();
    let names: Vec<&str> = pictures.iter().filter_map(|picture| picture["name"].as_str()).collect();
    for name in [
        "utilisation",
        "queue",
        "wait",
        "slowdown",
        "wait-by-class",
        "slowdown-by-class",
        "forecasts",
        "gantt.fcfs",
        "gantt.easy",
    ] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    for picture in pictures {
        let number = |key: &str| picture[key].as_f64().unwrap();
        assert!(number("width") > 300.0 && number("height") > 60.0, "{picture}");
        assert!(number("colours") > 8.0 && number("inked") > 500.0, "{picture}");
        assert_eq!(picture["words"], true, "words are cut: {picture}");
    }
}
