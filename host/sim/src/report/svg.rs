//! Pictures as SVG text that stands alone: lines over an axis, ranges by class, and boxes over time.
//!
//! Numbers are written with two digits, so that the same data gives the same bytes. The colours of policies are
//! distinguishable with colour-blindness (Okabe, Ito: Color universal design, 2008); beyond eight a dash pattern helps.
//!
//! This module does not know the subject of a picture.

use std::fmt::Write as _;

use jiff::SignedDuration;
use jiff::civil::DateTime;

/// Width of every picture, in units of the picture.
pub(super) const WIDTH: f64 = 960.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 44.0;

const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f6000", "#333333"];
const DASHES: [&str; 3] = ["", "6 3", "2 3"];

/// The colour of the policy with this index.
pub(super) fn colour(number: usize) -> &'static str {
    COLOURS[number % COLOURS.len()]
}

fn dash(number: usize) -> String {
    match DASHES[number / COLOURS.len() % DASHES.len()] {
        "" => String::new(),
        pattern => format!(" stroke-dasharray=\"{pattern}\""),
    }
}

/// Text as content of an element or value of an attribute.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// One axis of a picture.
#[derive(Debug, Clone)]
pub(super) struct Axis {
    pub(super) label: String,
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) log: bool,
    /// Values with their labels.
    pub(super) ticks: Vec<(f64, String)>,
}

impl Axis {
    /// The position of a value, 0 to 1; values outside are moved to the edge.
    fn part(&self, value: f64) -> f64 {
        let map = |v: f64| if self.log { v.max(f64::MIN_POSITIVE).ln() } else { v };
        let (from, to) = (map(self.from), map(self.to));
        if to > from { ((map(value) - from) / (to - from)).clamp(0.0, 1.0) } else { 0.0 }
    }

    /// From 0 to a round number, with about five ticks.
    pub(super) fn count(label: &str, most: f64) -> Axis {
        let raw = (most / 5.0).max(1e-9);
        let power = 10_f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|f| f * power).into_iter().find(|&s| s >= raw).unwrap_or(raw);
        let steps = (most / step).ceil().max(1.0) as usize;
        let ticks = (0..=steps).map(|i| i as f64 * step).map(|v| (v, number(v))).collect();
        Axis { label: label.to_owned(), from: 0.0, to: steps as f64 * step, log: false, ticks }
    }

    /// 0 to 100 percent.
    pub(super) fn share(label: &str) -> Axis {
        let ticks = (0..=4).map(|i| f64::from(i) / 4.0).map(|v| (v, format!("{:.0} %", v * 100.0))).collect();
        Axis { label: label.to_owned(), from: 0.0, to: 1.0, log: false, ticks }
    }

    /// Seconds from 1 up, by powers, with ticks at common durations.
    pub(super) fn seconds(label: &str, most: f64) -> Axis {
        let known = [
            (1.0, "1 s"),
            (10.0, "10 s"),
            (60.0, "1 min"),
            (600.0, "10 min"),
            (3600.0, "1 h"),
            (6.0 * 3600.0, "6 h"),
            (86_400.0, "1 d"),
            (7.0 * 86_400.0, "1 wk"),
            (30.0 * 86_400.0, "30 d"),
            (365.0 * 86_400.0, "1 y"),
        ];
        Axis::powers(label, most, known.iter().map(|(v, t)| (*v, (*t).to_owned())).collect())
    }

    /// Ratios from 1 up, by powers of ten.
    pub(super) fn ratio(label: &str, most: f64) -> Axis {
        Axis::powers(label, most, (0..9).map(|i| 10_f64.powi(i)).map(|v| (v, number(v))).collect())
    }

    fn powers(label: &str, most: f64, known: Vec<(f64, String)>) -> Axis {
        let to = known.iter().map(|(v, _)| *v).find(|&v| v >= most && v > 1.0).unwrap_or(most.max(10.0));
        let ticks = known.into_iter().filter(|(v, _)| *v <= to).collect();
        Axis { label: label.to_owned(), from: 1.0, to, log: true, ticks }
    }

    /// A span of time: dates when it counts from the epoch, else days.
    pub(super) fn time(from: f64, to: f64) -> Axis {
        let days = (to - from) / 86_400.0;
        let dated = from > 3e7;
        let mut ticks = Vec::new();
        // A date with a time of day needs more space.
        let parts = if dated && days <= 20.0 { 4 } else { 6 };
        for i in 0..=parts {
            let at = from + (to - from) * f64::from(i) / f64::from(parts);
            let text = match (dated, days > 20.0) {
                (true, true) => date(at),
                (true, false) => format!("{} {}", date(at), clock(at)),
                (false, _) => format!("day {:.1}", (at - from) / 86_400.0),
            };
            ticks.push((at, text));
        }
        let label = if dated { "UTC" } else { "days since the first submission" };
        Axis { label: label.to_owned(), from, to, log: false, ticks }
    }
}

/// A number rounded to its significant digits.
pub(super) fn number(value: f64) -> String {
    let size = value.abs();
    if size >= 1e6 {
        format!("{:.1}M", value / 1e6)
    } else if size >= 1e4 {
        format!("{:.0}k", value / 1e3)
    } else if value == value.trunc() || size >= 1000.0 {
        format!("{value:.0}")
    } else if size >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

/// Year, month and day (UTC) of a time in seconds since the epoch; of one beyond the calendar the nearest that is in it.
pub(super) fn date(time: f64) -> String {
    let epoch = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
    epoch.saturating_add(SignedDuration::from_secs(time.floor() as i64)).strftime("%Y-%m-%d").to_string()
}

fn clock(time: f64) -> String {
    let minutes = (time.rem_euclid(86_400.0) / 60.0) as u32;
    format!("{:02}:{:02}", minutes / 60, minutes % 60)
}

/// A picture being drawn.
pub(super) struct Picture {
    text: String,
    height: f64,
    x: Axis,
}

impl Picture {
    /// Starts a picture with a title, a frame and a horizontal axis.
    pub(super) fn new(title: &str, height: f64, x: Axis) -> Picture {
        let mut text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{0}\" \
             font-family=\"system-ui, sans-serif\" font-size=\"12\" fill=\"#222\">\n<title>{0}</title>\n\
             <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n\
             <text x=\"{LEFT}\" y=\"20\" font-size=\"14\" font-weight=\"600\">{0}</text>\n",
            escape(title)
        );
        for (value, words) in &x.ticks {
            let at = LEFT + x.part(*value) * (WIDTH - LEFT - RIGHT);
            let _ = writeln!(
                text,
                "<path d=\"M{at:.2} {TOP}V{:.2}\" stroke=\"#e4e4e4\"/><text x=\"{at:.2}\" y=\"{:.2}\" \
                 text-anchor=\"{}\" fill=\"#555\">{}</text>",
                height - BOTTOM,
                height - BOTTOM + 16.0,
                if at > WIDTH - 60.0 { "end" } else { "middle" },
                escape(words)
            );
        }
        let _ = writeln!(
            text,
            "<text x=\"{:.2}\" y=\"{:.2}\" text-anchor=\"middle\" fill=\"#555\">{}</text>",
            LEFT + (WIDTH - LEFT - RIGHT) / 2.0,
            height - 8.0,
            escape(&x.label)
        );
        Picture { text, height, x }
    }

    fn at_x(&self, value: f64) -> f64 {
        LEFT + self.x.part(value) * (WIDTH - LEFT - RIGHT)
    }

    fn at_y(&self, y: &Axis, value: f64) -> f64 {
        let bottom = self.height - BOTTOM;
        bottom - y.part(value) * (bottom - TOP)
    }

    /// The axis on the left.
    pub(super) fn left(&mut self, y: &Axis) {
        for (value, words) in &y.ticks {
            let at = self.at_y(y, *value);
            let _ = writeln!(
                self.text,
                "<path d=\"M{LEFT} {at:.2}H{:.2}\" stroke=\"#e4e4e4\"/><text x=\"{:.2}\" y=\"{:.2}\" \
                 text-anchor=\"end\" fill=\"#555\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                at + 4.0,
                escape(words)
            );
        }
        let _ = writeln!(
            self.text,
            "<text transform=\"translate(14 {:.2}) rotate(-90)\" text-anchor=\"middle\" fill=\"#555\">{}</text>",
            self.height / 2.0,
            escape(&y.label)
        );
    }

    /// Names with colours, at the top right.
    pub(super) fn legend(&mut self, names: &[&str]) {
        let width = |name: &str| 26.0 + 7.0 * name.chars().count() as f64;
        let mut at = WIDTH - RIGHT - names.iter().map(|n| width(n)).sum::<f64>();
        for (i, name) in names.iter().enumerate() {
            let _ = writeln!(
                self.text,
                "<path d=\"M{at:.2} 16h14\" stroke=\"{}\" stroke-width=\"3\"{}/><text x=\"{:.2}\" y=\"20\">{}</text>",
                colour(i),
                dash(i),
                at + 18.0,
                escape(name)
            );
            at += width(name);
        }
    }

    /// A line through points, or steps between them.
    pub(super) fn line(
        &mut self,
        y: &Axis,
        number: usize,
        points: impl IntoIterator<Item = (f64, f64)>,
        steps: bool,
    ) {
        let mut path = String::new();
        for (i, (vx, vy)) in points.into_iter().enumerate() {
            let (px, py) = (self.at_x(vx), self.at_y(y, vy));
            let _ = match (i, steps) {
                (0, _) => write!(path, "M{px:.2} {py:.2}"),
                (_, true) => write!(path, "H{px:.2}V{py:.2}"),
                (_, false) => write!(path, "L{px:.2} {py:.2}"),
            };
        }
        let _ = writeln!(
            self.text,
            "<path d=\"{path}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\" stroke-linejoin=\"round\"{}/>",
            colour(number),
            dash(number)
        );
    }

    /// A row of a picture of ranges: quartiles as a bar, the median and the mean, the 95 % point.
    pub(super) fn range(
        &mut self,
        row: f64,
        policy: usize,
        name: &str,
        [q1, median, q3, p95, mean]: [f64; 5],
    ) {
        let y = TOP + row;
        let at = [q1, median, q3, p95, mean].map(|v| self.at_x(v));
        // A bar of length 0 is not drawn.
        let bar = |to: f64, look: &str| match to - at[0] < 0.01 {
            true => String::new(),
            false => format!("<path d=\"M{:.2} {y:.2}H{to:.2}\" {look}/>", at[0]),
        };
        let _ = writeln!(
            self.text,
            "<g fill=\"{0}\" stroke=\"{0}\"><title>{1}</title>{2}\
             <path d=\"M{3:.2} {4:.2}v8\"/>{5}\
             <path d=\"M{6:.2} {4:.2}v8\" stroke-width=\"2.5\"/><circle cx=\"{7:.2}\" cy=\"{y:.2}\" r=\"3.5\" fill=\"#fff\" \
             stroke-width=\"1.5\"/></g>",
            colour(policy),
            escape(name),
            bar(at[3], "stroke-width=\"1\""),
            at[3],
            y - 4.0,
            bar(at[2], "stroke-width=\"6\" stroke-opacity=\".45\""),
            at[1],
            at[4],
        );
    }

    /// A row of dots, each with the name of its part, and a stroke at their mean.
    pub(super) fn dots(&mut self, row: f64, policy: usize, name: &str, values: &[(&str, f64)], mean: f64) {
        let y = TOP + row;
        let _ = writeln!(self.text, "<g fill=\"{0}\" stroke=\"{0}\">", colour(policy));
        for (part, value) in values {
            let _ = writeln!(
                self.text,
                "<circle cx=\"{:.2}\" cy=\"{y:.2}\" r=\"3\" fill-opacity=\".45\" stroke-opacity=\".6\"><title>{}, {}: {value}\
                 </title></circle>",
                self.at_x(*value),
                escape(name),
                escape(part)
            );
        }
        let _ = writeln!(
            self.text,
            "<path class=\"mean\" d=\"M{:.2} {:.2}v16\" stroke-width=\"2.5\"><title>{}: mean {mean}</title></path></g>",
            self.at_x(mean),
            y - 8.0,
            escape(name)
        );
    }

    /// The label of a row.
    pub(super) fn row_name(&mut self, row: f64, name: &str) {
        let _ = writeln!(
            self.text,
            "<text x=\"{:.2}\" y=\"{:.2}\" text-anchor=\"end\">{}</text>",
            LEFT - 6.0,
            TOP + row + 4.0,
            escape(name)
        );
    }

    /// A box over time and rows.
    pub(super) fn block(&mut self, y: &Axis, (from, to): (f64, f64), (low, high): (f64, f64), fill: &str) {
        let (x0, x1) = (self.at_x(from), self.at_x(to));
        let (y0, y1) = (self.at_y(y, high), self.at_y(y, low));
        let _ = write!(self.text, "<path d=\"M{x0:.2} {y0:.2}H{x1:.2}V{y1:.2}H{x0:.2}z\" fill=\"{fill}\"/>");
    }

    /// Opens a group with a name that appears as a tooltip.
    pub(super) fn open(&mut self, name: &str) {
        let _ = write!(self.text, "<g stroke=\"#fff\" stroke-width=\".3\"><title>{}</title>", escape(name));
    }

    /// Closes the group.
    pub(super) fn close(&mut self) {
        self.text.push_str("</g>\n");
    }

    /// The text of the picture.
    pub(super) fn finish(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(
            [0.0, 951_782_400.0, 1_027_839_845.0].map(date),
            ["1970-01-01", "2000-02-29", "2002-07-28"]
        );
        assert_eq!(clock(1_027_839_845.0), "07:04");
    }

    #[test]
    fn axes_cover_what_is_drawn() {
        for most in [0.3, 1.0, 7.0, 42.0, 999.0, 123_456.0] {
            let axis = Axis::count("n", most);
            assert!(axis.to >= most && axis.ticks.len() >= 2 && axis.ticks.len() <= 8, "{axis:?}");
            let axis = Axis::seconds("s", most);
            assert!(axis.to >= most && axis.ticks.len() >= 2, "{axis:?}");
        }
        let axis = Axis::ratio("r", 1000.0);
        assert!((axis.part(10.0) - 1.0 / 3.0).abs() < 1e-12 && axis.part(0.0) == 0.0);
    }

    #[test]
    fn names_cannot_break_out() {
        let mut picture = Picture::new("<a & \"b\">", 100.0, Axis::share("x"));
        picture.legend(&["</svg>"]);
        let text = picture.finish();
        assert!(text.contains("&lt;a &amp; &quot;b&quot;&gt;") && text.contains("&lt;/svg&gt;"));
        assert_eq!(text.matches("</svg>").count(), 1);
    }
}
