//! The report in a browser: pictures are drawn, no message on the console, no request to the network.
//!
//! Runs where a Chromium is on the path, and is skipped elsewhere.

use fluxgate_tests::browser::{Browser, chromium};
use fluxgate_tests::fixture::{cli, folder};
use serde_json::Value;

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
