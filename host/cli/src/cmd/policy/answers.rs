//! Answers of the scheduler to commands on policies, read and printed in one way. Must never send a request.

use anyhow::Result;
use fluxgate_formats::fsd;
use serde_json::Value;

use crate::fail::usage;
use crate::render;

/// Seconds on probation.
pub(super) fn probation(text: Option<&str>) -> Result<Value> {
    let Some(text) = text else { return Ok(Value::Null) };
    let seconds = fsd::parse(text).map_err(|error| usage(format!("--probation {text}: {error}")))?;
    Ok(seconds.into())
}

/// The queues that have a policy of their own, or want one.
pub(crate) fn own_queues(list: &Value) -> impl Iterator<Item = &Value> {
    let queues = list["queues"].as_array().into_iter().flatten();
    queues.filter(|queue| queue["own"] == true || queue["wanted"] != "default")
}

/// Print one line, or the whole answer as JSON.
pub(super) fn said(answer: &Value, as_json: bool, text: impl Fn() -> String) -> Result<()> {
    if as_json { render::json(answer) } else { render::line(text()) }
}

/// Print the answer to a swap.
pub(super) fn swapped(answer: &Value, as_json: bool) -> Result<()> {
    said(answer, as_json, || {
        let state = if answer["state"] == true { ", with its state" } else { "" };
        let queue = answer["queue"].as_str().map_or_else(String::new, |queue| format!("queue {queue}: "));
        let (from, to) = (render::plain(&answer["from"]), render::plain(&answer["to"]));
        format!("{queue}{to} took over from {from}{state}")
    })
}
