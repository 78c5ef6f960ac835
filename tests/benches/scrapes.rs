//! The cost of 100 scrapes of the metrics a second to passes with 100,000 waiting jobs (FEAT-56).
//!
//! The broker and the job manager are stand-ins; the scheduler is the real binary with EASY as a component, on 4,096 nodes of 32 cores of
//! which 10,000 jobs hold nearly all. Jobs of a core come and go, 200 a second; pass times are those of `stats-get`. Rows
//! without and with scrapes alternate. `FLUXGATE_BENCH_SECONDS` is the length of a row.

use std::time::{Duration, Instant};

use fluxgate_tests::fixture::folder;
use fluxgate_tests::stand_in::{OWNER, StandIn, crowded, jobspec, listen, request, scheduler};
use serde_json::{Value, json};
use tokio::time::interval;

const SECONDS: u64 = 10;
const ROUNDS: usize = 3;
const JOB_PERIOD: Duration = Duration::from_millis(5);
const SCRAPE_PERIOD: Duration = Duration::from_millis(10);
/// Tags of the requests that are not scrapes.
const QUIESCENT: u32 = 1;
const CLEAR: u32 = 2;
const STATS: u32 = 3;
const SCRAPE: u32 = 4;

struct Row {
    /// Scrapes, and bytes of the last page.
    scrapes: u64,
    bytes: usize,
}

/// The answer to a request of the owner.
async fn ask(broker: &mut StandIn, topic: &str, tag: u32) -> Value {
    broker.send(&request(OWNER, topic, &json!({})).with_matchtag(tag));
    loop {
        let message = broker.next().await;
        if message.matchtag() == tag && message.topic() == topic {
            return message.json_or_empty().unwrap_or_default();
        }
    }
}

/// Jobs come and go for so long; with scrapes.
async fn row(broker: &mut StandIn, seconds: u64, scraped: bool, id: &mut u64) -> Row {
    let (mut jobs, mut scrapes) = (interval(JOB_PERIOD), interval(SCRAPE_PERIOD));
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut row = Row { scrapes: 0, bytes: 0 };
    while Instant::now() < end {
        tokio::select! {
            message = broker.next() => {
                if message.matchtag() == SCRAPE {
                    row.scrapes += 1;
                    row.bytes = message.payload.as_ref().map_or(0, Vec::len);
                } else if message.topic() == "sched.alloc"
                    && let Ok(payload) = message.json()
                    && payload["type"] == 0
                {
                    let free = json!({"id": payload["id"], "R": payload["R"], "final": true});
                    broker.send(&request(OWNER, "sched.free", &free).noresponse());
                }
            }
            _ = jobs.tick() => {
                *id += 1;
                let job = json!({
                    "id": *id, "priority": 16, "userid": OWNER, "t_submit": *id as f64, "jobspec": jobspec(1, 60.0)});
                broker.send(&request(OWNER, "sched.alloc", &job));
            }
            _ = scrapes.tick(), if scraped => {
                broker.send(&request(OWNER, "sched-fluxgate.metrics-get", &json!({})).with_matchtag(SCRAPE));
            }
        }
    }
    row
}

#[allow(clippy::print_stdout)]
fn main() {
    let seconds = std::env::var("FLUXGATE_BENCH_SECONDS").ok().and_then(|text| text.parse().ok());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    println!("| scrapes a second | passes | p50 us | p99 us | most us | bytes of a page |");
    println!("|--|--:|--:|--:|--:|--:|");
    runtime.block_on(async {
        let folder = folder();
        let listener = listen(folder.path());
        let mut sched = scheduler(&listener.uri());
        let (site, waiting) = crowded(10_000, 100_000);
        let mut broker = StandIn::accept(&listener, site).await;
        broker.begin().await;
        waiting.iter().for_each(|job| broker.send(job));
        ask(&mut broker, "sched.quiescent", QUIESCENT).await;
        let (mut id, seconds) = (1 << 40, seconds.unwrap_or(SECONDS));
        for _ in 0..ROUNDS {
            for scraped in [false, true] {
                ask(&mut broker, "sched-fluxgate.stats-clear", CLEAR).await;
                let row = row(&mut broker, seconds, scraped, &mut id).await;
                let stats = ask(&mut broker, "sched-fluxgate.stats-get", STATS).await;
                let pass = |key: &str| stats["pass"][key].as_f64().unwrap_or(f64::NAN);
                println!(
                    "| {} | {} | {:.0} | {:.0} | {:.0} | {} |",
                    row.scrapes / seconds,
                    pass("count"),
                    pass("p50_us"),
                    pass("p99_us"),
                    pass("max_us"),
                    row.bytes
                );
            }
        }
        sched.kill().expect("it runs");
        sched.wait().expect("it was killed");
    });
}
