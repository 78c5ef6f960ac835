//! The text form of OpenMetrics 1.0: families with help, type and unit; samples with labels; counters with the time since
//! which they count.
//!
//! Written here since the crate for it writes no `_created` samples. This module must never know a metric.

use std::fmt::Write;

use fluxgate_formats::Histogram;

/// The value of a label that sums up all items without a label of their own; an item of this name is part of it.
pub(crate) const OTHER: &str = "other";

/// The type of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    Histogram,
    Info,
}

impl Kind {
    fn text(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
            Kind::Info => "info",
        }
    }
}

/// Label names with their values.
pub(crate) type Labels<'a> = &'a [(&'a str, &'a str)];

/// A page that is being written.
pub(crate) struct Page {
    text: String,
    prefix: &'static str,
    /// Since when all counters count, seconds since the epoch.
    created: f64,
}

/// A family of a page.
pub(crate) struct Family<'p> {
    page: &'p mut Page,
    name: String,
}

impl Page {
    /// An empty page whose families have names with this prefix.
    pub(crate) fn new(prefix: &'static str, created: f64) -> Page {
        Page { text: String::new(), prefix, created }
    }

    /// Begins a family. A unit is the end of the name as well.
    pub(crate) fn family(&mut self, name: &str, kind: Kind, unit: &str, help: &str) -> Family<'_> {
        let name = format!("{}{name}", self.prefix);
        self.begin(name, kind, unit, help)
    }

    /// Begins a family whose name has no prefix, by convention.
    pub(crate) fn plain(&mut self, name: &str, kind: Kind, unit: &str, help: &str) -> Family<'_> {
        self.begin(name.to_owned(), kind, unit, help)
    }

    fn begin(&mut self, name: String, kind: Kind, unit: &str, help: &str) -> Family<'_> {
        debug_assert!(unit.is_empty() || name.ends_with(unit), "{name} does not end in its unit");
        let _ = writeln!(self.text, "# TYPE {name} {}", kind.text());
        if !unit.is_empty() {
            let _ = writeln!(self.text, "# UNIT {name} {unit}");
        }
        let _ = writeln!(self.text, "# HELP {name} {}", escaped(help));
        Family { page: self, name }
    }

    /// The text, with its end.
    pub(crate) fn finish(mut self) -> String {
        self.text += "# EOF\n";
        self.text
    }
}

impl Family<'_> {
    fn sample(&mut self, suffix: &str, labels: Labels<'_>, more: Option<(&str, &str)>, value: f64) {
        let text = &mut self.page.text;
        text.push_str(&self.name);
        text.push_str(suffix);
        let mut open = '{';
        for (name, value) in labels.iter().copied().chain(more) {
            let _ = write!(text, "{open}{name}=\"{}\"", escaped(value));
            open = ',';
        }
        if open == ',' {
            text.push('}');
        }
        let _ = writeln!(text, " {}", number(value));
    }

    /// The value of a gauge.
    pub(crate) fn gauge(&mut self, labels: Labels<'_>, value: f64) {
        self.sample("", labels, None, value);
    }

    /// The value of a counter.
    pub(crate) fn total(&mut self, labels: Labels<'_>, value: f64) {
        self.sample("_total", labels, None, value);
        let created = self.page.created;
        self.sample("_created", labels, None, created);
    }

    /// Labels that say what there is.
    pub(crate) fn info(&mut self, labels: Labels<'_>) {
        self.sample("_info", labels, None, 1.0);
    }

    /// Buckets, count and sum.
    pub(crate) fn histogram(&mut self, labels: Labels<'_>, histogram: &Histogram) {
        for (bound, count) in histogram.cumulative() {
            self.sample("_bucket", labels, Some(("le", &number(bound))), count as f64);
        }
        self.sample("_count", labels, None, histogram.count() as f64);
        self.sample("_sum", labels, None, histogram.sum());
        let created = self.page.created;
        self.sample("_created", labels, None, created);
    }
}

/// A number as OpenMetrics has it.
fn number(value: f64) -> String {
    if value == f64::INFINITY {
        "+Inf".to_owned()
    } else if value == f64::NEG_INFINITY {
        "-Inf".to_owned()
    } else if value.is_nan() {
        "NaN".to_owned()
    } else if value.fract() == 0.0 && value.abs() < 1e15 {
        format!("{value:.1}")
    } else {
        format!("{value}")
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feat_57_the_text_form_of_openmetrics() {
        let mut page = Page::new("fluxgate_", 1700.5);
        page.family("jobs_started", Kind::Counter, "", "Jobs that \"started\".")
            .total(&[("queue", "a\\b\"c\nd")], 3.0);
        page.family("up", Kind::Gauge, "", "Serving.").gauge(&[], 1.0);
        let mut waits = Histogram::new(&[0.5, 10.0]);
        [0.1, 3.25, 1e9].into_iter().for_each(|wait| waits.add(wait));
        page.family("job_wait_seconds", Kind::Histogram, "seconds", "Waits.")
            .histogram(&[("queue", "")], &waits);
        page.family("build", Kind::Info, "", "Version.").info(&[("version", "1")]);
        page.plain("process_open_fds", Kind::Gauge, "", "Files.").gauge(&[], f64::NAN);
        let expected = r#"# TYPE fluxgate_jobs_started counter
# HELP fluxgate_jobs_started Jobs that \"started\".
fluxgate_jobs_started_total{queue="a\\b\"c\nd"} 3.0
fluxgate_jobs_started_created{queue="a\\b\"c\nd"} 1700.5
# TYPE fluxgate_up gauge
# HELP fluxgate_up Serving.
fluxgate_up 1.0
# TYPE fluxgate_job_wait_seconds histogram
# UNIT fluxgate_job_wait_seconds seconds
# HELP fluxgate_job_wait_seconds Waits.
fluxgate_job_wait_seconds_bucket{queue="",le="0.5"} 1.0
fluxgate_job_wait_seconds_bucket{queue="",le="10.0"} 2.0
fluxgate_job_wait_seconds_bucket{queue="",le="+Inf"} 3.0
fluxgate_job_wait_seconds_count{queue=""} 3.0
fluxgate_job_wait_seconds_sum{queue=""} 1000000003.35
fluxgate_job_wait_seconds_created{queue=""} 1700.5
# TYPE fluxgate_build info
# HELP fluxgate_build Version.
fluxgate_build_info{version="1"} 1.0
# TYPE process_open_fds gauge
# HELP process_open_fds Files.
process_open_fds NaN
# EOF
"#;
        assert_eq!(page.finish(), expected);
    }
}
