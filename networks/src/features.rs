//! Named, versioned sets of features: what a network sees of a waiting job.
//!
//! A set never changes: another formula is another version. Values are computed in f64 and rounded to f32 once, at the
//! end. Rows without a job have the padding of their set. This module knows neither logs nor networks.

/// Largest value of a feature of [`Set::RlScheduler1`] that is bounded.
const BELOW_ONE: f64 = 1.0 - 1e-5;

/// Most features of any set.
pub const FEATURES_MAX: usize = 16;

/// A waiting job, as a pass shows it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Waiting {
    /// Number of the candidate in its pass; it has no meaning in another pass.
    pub candidate: u32,
    /// Job id (RFC 19); in a replay, the number of the job in the log.
    pub id: u64,
    /// Submission (`t_submit`), seconds since the epoch; in a replay, seconds in the time base of the workload.
    pub submit: f64,
    /// Requested duration, seconds; infinite without a limit.
    pub duration: f64,
    /// Fewest cores that the request accepts.
    pub cores: u32,
    /// Fewest nodes, 0 where the request names none.
    pub nodes: u32,
    /// Submitting user, 0 if unknown.
    pub user: u32,
}

/// The state of machine and queue around the jobs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Around {
    /// Time of the pass, seconds in the time base of [`Waiting::submit`].
    pub now: f64,
    /// All cores of the machine.
    pub cores: u32,
    /// Free cores.
    pub free_cores: u32,
    /// Free nodes.
    pub free_nodes: u32,
    /// Number of waiting jobs.
    pub waiting: u32,
    /// Seconds until the reserved start of the first waiting job; 0 without one, and where the host does not tell it (no component does).
    pub gap: f64,
}

impl Around {
    /// True if the free cores and nodes are enough for the job. Reservations and constraints are not looked at.
    pub fn fits(&self, job: &Waiting) -> bool {
        job.cores <= self.free_cores && job.nodes <= self.free_nodes
    }
}

/// Constants of normalisation. They belong to the network, not to the log at hand.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scales {
    /// Seconds of wait that count as 1, above 0.
    pub wait: f64,
    /// Seconds of requested duration that count as 1, above 0.
    pub duration: f64,
    /// Cores that count as 1, above 0; 0 for those of the machine at hand.
    pub cores: f64,
    /// User number that counts as 1; 0 where users are unknown.
    pub users: f64,
}

impl Default for Scales {
    fn default() -> Self {
        Scales { wait: 43_200.0, duration: 86_400.0, cores: 0.0, users: 0.0 }
    }
}

impl Scales {
    /// Names of the constants, in the order of [`Scales::values`].
    pub const NAMES: [&'static str; 4] = ["wait", "duration", "cores", "users"];

    /// The constants, in the order of [`Scales::NAMES`].
    pub fn values(&self) -> [f64; 4] {
        [self.wait, self.duration, self.cores, self.users]
    }

    /// Constants in the order of [`Scales::NAMES`]. `None` if one is not finite or below 0, or if `wait` or `duration` is 0.
    pub fn of(values: [f64; 4]) -> Option<Self> {
        let [wait, duration, cores, users] = values;
        let positive = |value: f64| value.is_finite() && value > 0.0;
        let counts = |value: f64| value.is_finite() && value >= 0.0;
        (positive(wait) && positive(duration) && counts(cores) && counts(users)).then_some(Scales {
            wait,
            duration,
            cores,
            users,
        })
    }
}

/// The description of one feature.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Feature {
    /// Name within its set, such as `wait`.
    pub name: &'static str,
    /// Formula. w: wait in s, r: requested seconds, n: cores, u: user, N: cores of the scale or of the machine, F: free
    /// cores, Q: waiting jobs; names in capitals are scales.
    pub formula: &'static str,
    /// Range of its values.
    pub range: &'static str,
    /// Its value where something is unknown.
    pub unknown: &'static str,
    /// Its value in a row without a job.
    pub padding: f32,
}

/// A set of features.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Set {
    /// `rlscheduler-1`: the eight features of Zhang, Dai, He, Bao, Xie (SC 2020).
    RlScheduler1,
    /// `queue-1`: ten features that need no scale of a log.
    Queue1,
    /// `gap-1`: eight features for a job that may fill the gap before the first job that waits.
    Gap1,
}

const fn of(
    name: &'static str,
    formula: &'static str,
    range: &'static str,
    unknown: &'static str,
    padding: f32,
) -> Feature {
    Feature { name, formula, range, unknown, padding }
}

const RLSCHEDULER_1: [Feature; 8] = [
    of("wait", "min(w / WAIT, 1 - 1e-5)", "0 to 1 - 1e-5", "always known", 0.0),
    of("request", "min(r / DURATION, 1 - 1e-5)", "0 to 1 - 1e-5", "1 - 1e-5 without a limit", 1.0),
    of("processors", "min(n / N, 1 - 1e-5)", "0 to 1 - 1e-5", "always known", 1.0),
    of("memory", "1", "1", "always 1 in this set", 1.0),
    of("user", "min(u / USERS, 1 - 1e-5)", "0 to 1", "1", 1.0),
    of("group", "1", "1", "always 1 in this set", 1.0),
    of("executable", "1", "1", "always 1 in this set", 1.0),
    of("fits", "1 - 1e-5 if n <= F, else 1e-5", "1e-5, 1 - 1e-5", "always known", 0.0),
];

const QUEUE_1: [Feature; 10] = [
    of("wait", "w / (w + 3600)", "0 to 1", "always known", 0.0),
    of("duration", "r / (r + 3600)", "0 to 1", "1 without a limit", 0.0),
    of("cores", "n / N", "0 to 1", "always known", 0.0),
    of("area", "a / (a + 3600 N), a = r n", "0 to 1", "1 without a limit", 0.0),
    of("slowdown", "w / (w + max(r, 10))", "0 to 1", "0 without a limit", 0.0),
    of("fits", "1 if n <= F, else 0", "0, 1", "always known", 0.0),
    of("share", "min(n / max(F, 1), 1)", "0 to 1", "always known", 0.0),
    of("free", "F / N", "0 to 1", "always known", 0.0),
    of("queue", "Q / (Q + 32)", "0 to 1", "always known", 0.0),
    of("job", "1", "1", "always known", 0.0),
];

const GAP_1: [Feature; 8] = [
    of("wait", "w / (w + 3600)", "0 to 1", "always known", 0.0),
    of("duration", "r / (r + 3600)", "0 to 1", "1 without a limit", 0.0),
    of("cores", "n / N", "0 to 1", "always known", 0.0),
    of("share", "min(n / max(F, 1), 1)", "0 to 1", "always known", 0.0),
    of("gap", "min(r / g, 1), g: seconds until the reserved start", "0 to 1", "1 without a reservation", 0.0),
    of("fits", "1 if n <= F, else 0", "0, 1", "always known", 0.0),
    of("queue", "Q / (Q + 32)", "0 to 1", "always known", 0.0),
    of("job", "1", "1", "always known", 0.0),
];

/// x / (x + c) for x of 0 or more: 1 where x is infinite.
fn saturating(x: f64, c: f64) -> f64 {
    if x == f64::INFINITY { 1.0 } else { x / (x + c) }
}

/// The lesser of a number and a bound. WebAssembly has no instruction for the minimum of Rust, which ignores what is no number.
fn lesser(value: f64, bound: f64) -> f64 {
    if value < bound { value } else { bound }
}

/// The larger of a number and a bound.
fn larger(value: f64, bound: f64) -> f64 {
    if value > bound { value } else { bound }
}

impl Set {
    /// All sets.
    pub const ALL: [Set; 3] = [Set::RlScheduler1, Set::Queue1, Set::Gap1];

    /// Name with version, such as `queue-1`; the value of `fluxgate.features` in a file of weights.
    pub fn name(self) -> &'static str {
        match self {
            Set::RlScheduler1 => "rlscheduler-1",
            Set::Queue1 => "queue-1",
            Set::Gap1 => "gap-1",
        }
    }

    /// The set of this name; `None` if there is none.
    pub fn named(name: &str) -> Option<Set> {
        Set::ALL.into_iter().find(|set| set.name() == name)
    }

    /// Its features, in the order of the places of a row.
    pub fn features(self) -> &'static [Feature] {
        match self {
            Set::RlScheduler1 => &RLSCHEDULER_1,
            Set::Queue1 => &QUEUE_1,
            Set::Gap1 => &GAP_1,
        }
    }

    /// Number of its features.
    pub fn width(self) -> usize {
        self.features().len()
    }

    /// Writes the row of a job into the first [`Set::width`] places of `out`; a shorter `out` gets as many values as it holds.
    pub fn row(self, job: &Waiting, around: &Around, scales: &Scales, out: &mut [f32]) {
        let wait = larger(around.now - job.submit, 0.0);
        let cores = f64::from(job.cores);
        let all = if scales.cores > 0.0 { scales.cores } else { f64::from(around.cores.max(1)) };
        let free = f64::from(around.free_cores);
        let mut values = [0.0; FEATURES_MAX];
        match self {
            Set::RlScheduler1 => {
                let bounded = |value: f64| lesser(value, BELOW_ONE);
                let user = match scales.users > 0.0 && job.user > 0 {
                    true => bounded(f64::from(job.user) / scales.users),
                    false => 1.0,
                };
                let row = [
                    bounded(wait / scales.wait),
                    bounded(job.duration / scales.duration),
                    bounded(cores / all),
                    1.0,
                    user,
                    1.0,
                    1.0,
                    if around.fits(job) { BELOW_ONE } else { 1e-5 },
                ];
                values[..row.len()].copy_from_slice(&row);
            }
            Set::Queue1 => {
                let row = [
                    saturating(wait, 3600.0),
                    saturating(job.duration, 3600.0),
                    cores / all,
                    saturating(job.duration * larger(cores, 1.0), 3600.0 * all),
                    wait / (wait + larger(job.duration, 10.0)),
                    if around.fits(job) { 1.0 } else { 0.0 },
                    lesser(cores / larger(free, 1.0), 1.0),
                    free / all,
                    saturating(f64::from(around.waiting), 32.0),
                    1.0,
                ];
                values[..row.len()].copy_from_slice(&row);
            }
            Set::Gap1 => {
                let row = [
                    saturating(wait, 3600.0),
                    saturating(job.duration, 3600.0),
                    cores / all,
                    lesser(cores / larger(free, 1.0), 1.0),
                    if around.gap > 0.0 && job.duration < around.gap {
                        job.duration / around.gap
                    } else {
                        1.0
                    },
                    if around.fits(job) { 1.0 } else { 0.0 },
                    saturating(f64::from(around.waiting), 32.0),
                    1.0,
                ];
                values[..row.len()].copy_from_slice(&row);
            }
        }
        for (out, value) in out.iter_mut().zip(&values[..self.width()]) {
            *out = *value as f32;
        }
    }

    /// Writes a row without a job: the padding of each feature.
    pub fn pad(self, out: &mut [f32]) {
        for (out, feature) in out.iter_mut().zip(self.features()) {
            *out = feature.padding;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;
    use std::vec::Vec;

    fn job() -> Waiting {
        Waiting { candidate: 0, id: 1, submit: 100.0, duration: 7200.0, cores: 64, nodes: 0, user: 3 }
    }

    fn row(set: Set, job: &Waiting, around: &Around, scales: &Scales) -> Vec<f32> {
        let mut out = vec![9.0; set.width()];
        set.row(job, around, scales, &mut out);
        out
    }

    #[test]
    fn res_40_the_published_features_by_hand() {
        let around =
            Around { now: 43_300.0, cores: 256, free_cores: 63, free_nodes: 0, waiting: 4, gap: 0.0 };
        let scales = Scales { wait: 43_200.0, duration: 14_400.0, cores: 0.0, users: 4.0 };
        let below = BELOW_ONE as f32;
        assert_eq!(
            row(Set::RlScheduler1, &job(), &around, &scales),
            [below, 0.5, 0.25, 1.0, 0.75, 1.0, 1.0, 1e-5_f64 as f32]
        );
        let now = Around { now: 100.0, free_cores: 64, ..around };
        let unknown = Scales { users: 0.0, ..scales };
        assert_eq!(
            row(Set::RlScheduler1, &job(), &now, &unknown),
            [0.0, 0.5, 0.25, 1.0, 1.0, 1.0, 1.0, below]
        );
        let mut pad = [9.0; 8];
        Set::RlScheduler1.pad(&mut pad);
        assert_eq!(pad, [0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0]);
    }

    #[test]
    fn res_40_own_features_by_hand() {
        let around =
            Around { now: 3700.0, cores: 256, free_cores: 128, free_nodes: 0, waiting: 32, gap: 14_400.0 };
        let found = row(Set::Queue1, &job(), &around, &Scales::default());
        let expected = [0.5, 2.0 / 3.0, 0.25, 1.0 / 3.0, 1.0 / 3.0, 1.0, 0.5, 0.5, 0.5, 1.0];
        assert_eq!(found, expected.map(|value: f64| value as f32));
        let found = row(Set::Gap1, &job(), &around, &Scales::default());
        let expected = [0.5, 2.0 / 3.0, 0.25, 0.5, 0.5, 1.0, 0.5, 1.0];
        assert_eq!(found, expected.map(|value: f64| value as f32));
    }

    #[test]
    fn res_40_every_value_is_in_its_range_and_no_number_is_missing() {
        let scales = [Scales::default(), Scales { users: 1.0, ..Scales::default() }];
        for set in Set::ALL {
            assert_eq!(Set::named(set.name()), Some(set));
            assert!(set.width() <= FEATURES_MAX);
            for duration in [0.0, 1.0, f64::INFINITY] {
                for (cores, free) in [(1, 0), (0, 0), (u32::MAX, u32::MAX)] {
                    for (now, submit) in [(0.0, 0.0), (0.0, 9.0), (1e300, 0.0)] {
                        for scales in &scales {
                            let job = Waiting { submit, duration, cores, user: u32::MAX, ..job() };
                            let around = Around {
                                now,
                                cores: u32::MAX,
                                free_cores: free,
                                free_nodes: 0,
                                waiting: 1,
                                gap: now,
                            };
                            for value in row(set, &job, &around, scales) {
                                assert!((0.0..=1.0).contains(&value), "{} {job:?} {around:?}", set.name());
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn scales_out_of_range_are_none() {
        assert_eq!(Scales::of(Scales::default().values()), Some(Scales::default()));
        for wrong in [
            [0.0, 1.0, 0.0, 0.0],
            [1.0, f64::NAN, 0.0, 0.0],
            [1.0, 1.0, -1.0, 0.0],
            [1.0, 1.0, 0.0, f64::INFINITY],
        ] {
            assert_eq!(Scales::of(wrong), None);
        }
    }
}
