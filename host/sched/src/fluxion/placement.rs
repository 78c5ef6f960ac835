//! `match-policy` as a placement: names, and strings of options that Fluxion takes apart.
//!
//! Must never know other settings.

use super::report::{Level, quoted};

/// The policy of a Fluxion that is told none.
pub(super) const DEFAULT: &str = "first";
/// Names that mean the same here.
const SAME: [&str; 8] = ["low", "high", "lonode", "hinode", "lonodex", "hinodex", "locality", "variation"];
/// The difference of the placements that take the first match.
const ORDER: &str = "the order differs: Fluxion starts at high ids, this placement at low ones";
/// The accepted values of `match-policy`, for messages.
const ACCEPTED: &str = "first, firstnodex, low, high, lonode, hinode, lonodex, hinodex, locality, variation, or options \
                        such as \"policy=low node_centric=true node_exclusive=true stop_on_1_matches=true\"";

/// The placement that a policy becomes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) placement: &'static str,
    pub(super) level: Level,
    /// The differences; empty if there are none.
    pub(super) note: String,
}

impl Choice {
    fn same(placement: &'static str) -> Choice {
        Choice { placement, level: Level::Ok, note: String::new() }
    }

    fn add(&mut self, level: Level, note: &str) {
        self.level = self.level.max(level);
        if !self.note.is_empty() {
            self.note.push_str("; ");
        }
        self.note.push_str(note);
    }
}

/// The placement for a policy.
///
/// # Errors
/// The reason why Fluxion would not load with it, and the accepted values.
pub(super) fn translate(text: &str) -> Result<Choice, String> {
    if let Some(name) = SAME.iter().find(|name| **name == text) {
        return Ok(Choice::same(name));
    }
    let other = |to: &str| format!("{ORDER}; {to} keeps its order");
    match text {
        "first" => Ok(Choice { placement: "first", level: Level::Info, note: other("hinode") }),
        "firstnodex" => Ok(Choice { placement: "firstnodex", level: Level::Info, note: other("hinodex") }),
        _ => custom(text),
    }
}

/// Options, each at most once.
#[derive(Default)]
struct Options {
    high: Option<bool>,
    node_centric: Option<bool>,
    node_exclusive: Option<bool>,
    stop: Option<bool>,
    /// As the manual has it.
    manual: bool,
}

fn custom(text: &str) -> Result<Choice, String> {
    let refused = |why: String| format!("{why}; accepted are {ACCEPTED}");
    let mut options = Options::default();
    for word in text.split_whitespace() {
        let Some((name, value)) = word.split_once('=') else {
            return Err(refused(format!("unknown policy or option {}", quoted(word))));
        };
        let flag = || match value {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(refused(format!("{name}: expected true or false, found {}", quoted(value)))),
        };
        let before = match name {
            "policy" => {
                let high = match value {
                    "high" => true,
                    "low" => false,
                    _ => {
                        return Err(refused(format!(
                            "policy: expected low or high, found {}",
                            quoted(value)
                        )));
                    }
                };
                options.high.replace(high)
            }
            "node_centric" => options.node_centric.replace(flag()?),
            "node_exclusive" => options.node_exclusive.replace(flag()?),
            "stop_on_1_matches" => options.stop.replace(flag()?),
            "set_stop_on_1_matches" => {
                options.manual = true;
                options.stop.replace(flag()?)
            }
            _ => return Err(refused(format!("unknown option {}", quoted(name)))),
        };
        if before.is_some() {
            return Err(refused(format!("{name} is given twice")));
        }
    }
    let Some(high) = options.high else {
        return Err(refused("without policy=low or policy=high Fluxion has no policy".to_owned()));
    };
    Ok(options.choice(high))
}

impl Options {
    fn choice(&self, high: bool) -> Choice {
        let is = |flag: Option<bool>| flag.unwrap_or(false);
        let (centric, exclusive) = (is(self.node_centric), is(self.node_exclusive));
        let placement = match (is(self.stop), exclusive, centric, high) {
            (true, true, ..) => "firstnodex",
            (true, false, ..) => "first",
            (false, true, _, true) => "hinodex",
            (false, true, _, false) => "lonodex",
            (false, false, true, true) => "hinode",
            (false, false, true, false) => "lonode",
            (false, false, false, true) => "high",
            (false, false, false, false) => "low",
        };
        let mut choice = Choice::same(placement);
        if is(self.stop) && high {
            choice.add(Level::Info, ORDER);
        }
        if exclusive && !centric {
            choice.add(Level::Info, "the ids of nodes come first, as with node_centric=true");
        }
        if self.manual {
            let why = "Fluxion's manual has set_stop_on_1_matches, but its code takes only stop_on_1_matches and does not \
                       load with the other";
            choice.add(Level::Warn, why);
        }
        choice
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row of the table of match policies: what is given, what it becomes, how serious the line is.
    fn row(text: &str, placement: &str, level: Level) {
        let choice = translate(text).unwrap_or_else(|why| panic!("{text}: {why}"));
        assert_eq!((choice.placement, choice.level), (placement, level), "{text}");
        assert_eq!(choice.note.is_empty(), level == Level::Ok, "{text}: {}", choice.note);
    }

    #[test]
    fn site_91_match_policy_names() {
        for name in SAME {
            row(name, name, Level::Ok);
        }
    }

    #[test]
    fn site_91_match_policy_first_and_firstnodex_tell_that_the_order_differs() {
        for (name, other) in [("first", "hinode"), ("firstnodex", "hinodex")] {
            row(name, name, Level::Info);
            let note = translate(name).unwrap().note;
            assert!(note.contains("high ids") && note.contains(other), "{note}");
        }
    }

    #[test]
    fn site_91_match_policy_options_are_decomposed() {
        use Level::{Info, Ok};
        row("policy=low", "low", Ok);
        row("policy=high", "high", Ok);
        row("policy=low node_centric=true", "lonode", Ok);
        row("node_centric=true policy=high", "hinode", Ok);
        row("policy=low node_centric=true node_exclusive=true", "lonodex", Ok);
        row("policy=high node_centric=true node_exclusive=true", "hinodex", Ok);
        row("policy=high node_centric=false node_exclusive=false stop_on_1_matches=false", "high", Ok);
        row("policy=low node_exclusive=true", "lonodex", Info);
        row("policy=high node_exclusive=true", "hinodex", Info);
        row("policy=low stop_on_1_matches=true", "first", Ok);
        row("policy=high node_centric=true stop_on_1_matches=true", "first", Info);
        row("policy=low node_centric=true node_exclusive=true stop_on_1_matches=true", "firstnodex", Ok);
        row("policy=high node_centric=true node_exclusive=true stop_on_1_matches=true", "firstnodex", Info);
    }

    #[test]
    fn site_91_match_policy_both_spellings_of_stop_on_1_matches() {
        row("policy=low stop_on_1_matches=true", "first", Level::Ok);
        row("policy=low set_stop_on_1_matches=true", "first", Level::Warn);
        row("policy=high node_exclusive=true set_stop_on_1_matches=true", "firstnodex", Level::Warn);
    }

    #[test]
    fn site_91_match_policy_unknown_is_an_error_that_names_what_is_accepted() {
        for (text, why) in [
            ("lownode", "lownode"),
            ("", "policy=low or policy=high"),
            ("node_centric=true", "policy=low or policy=high"),
            ("policy=middle", "expected low or high"),
            ("policy=low node_centric=yes", "expected true or false"),
            ("policy=low greedy=true", "greedy"),
            ("policy=low policy=high", "twice"),
            ("policy=low stop_on_1_matches=true set_stop_on_1_matches=true", "twice"),
            ("pack", "pack"),
            ("5", "5"),
        ] {
            let said = translate(text).expect_err(text);
            assert!(said.contains(why) && said.contains("variation"), "{text}: {said}");
        }
    }
}
