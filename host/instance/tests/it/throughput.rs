//! Jobs per second, and the time of a request while 100,000 jobs wait. To be run by hand:
//! `cargo test -p fluxgate-instance --test it throughput -- --ignored --nocapture`.

#![allow(clippy::print_stdout, reason = "figures are for people")]

use std::time::Instant;

use fluxgate_instance::{Config, Instance};
use serde_json::json;

use crate::common::*;

#[tokio::test]
#[ignore = "takes its time; run by hand"]
async fn jobs_per_second_and_latency() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = Config::new(dir.path(), machine(64, 32));
    (config.speed, config.start_time) = (100_000.0, Some(1e9));
    let handle = Instance::start(config).await.unwrap();
    let client = client(&handle).await;
    let begun = Instant::now();
    let payload = json!({ "jobspec": simulated(8, 60.0, 120.0), "copies": 100_000 });
    let answer = client.rpc("job-ingest.submit", payload).await.unwrap();
    println!("100000 jobs submitted in {:?}", begun.elapsed());
    for topic in ["broker.ping", "job-list.job-stats", "fluxgate-instance.info"] {
        let begun = Instant::now();
        client.rpc(topic, json!({})).await.unwrap();
        println!("{topic}: {:?}", begun.elapsed());
    }
    let begun = Instant::now();
    client.rpc("job-list.list", json!({ "max_entries": 100, "attrs": ["all"] })).await.unwrap();
    println!("job-list.list of 100: {:?}", begun.elapsed());
    let begun = Instant::now();
    tokio::spawn(FirstFit::connect_with(&handle, json!({ "mode": "limited", "limit": 512 })).await.run());
    let mut done = 0;
    while done < 20_000 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        let stats = client.rpc("job-list.job-stats", json!({})).await.unwrap();
        done = stats["job_states"]["inactive"].as_u64().unwrap();
    }
    println!("{:.0} jobs/s", done as f64 / begun.elapsed().as_secs_f64());
    let begun = Instant::now();
    let report = audit(&client).await;
    println!("audit in {:?}: {report}", begun.elapsed());
    drop(answer);
    handle.abort().await.unwrap();
    let begun = Instant::now();
    let mut config = Config::new(dir.path(), machine(64, 32));
    (config.speed, config.start_time) = (1000.0, Some(1e9));
    let handle = Instance::start(config).await.unwrap();
    println!("restart with 100000 jobs: {:?}", begun.elapsed());
    handle.abort().await.unwrap();
}
