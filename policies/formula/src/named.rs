//! Published formulas by name, with their sources.
//!
//! This module does not evaluate anything.

/// A published formula.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Named {
    /// Its name.
    pub name: &'static str,
    /// As published.
    pub text: &'static str,
    /// With the coefficients as they were fitted, where these are known.
    pub fitted: Option<&'static str>,
    /// True if the job with the largest value comes first.
    pub largest: bool,
}

const fn smallest(name: &'static str, text: &'static str) -> Named {
    Named { name, text, fitted: None, largest: false }
}

const fn fitted(name: &'static str, text: &'static str, fitted: &'static str) -> Named {
    Named { name, text, fitted: Some(fitted), largest: false }
}

/// All of them; README.md has the sources.
pub const NAMED: [Named; 12] = [
    smallest("fcfs", "submit"),
    smallest("sjf", "duration"),
    smallest("smallest", "cores"),
    fitted(
        "f1",
        "log10(duration)*cores + 870*log10(submit)",
        "(-0.0155183403*log10(duration))*(-0.0005149209*cores) + 0.0069596182*log10(submit)",
    ),
    fitted(
        "f2",
        "sqrt(duration)*cores + 25600*log10(submit)",
        "(0.0000342717*sqrt(duration))*(0.0076562110*cores) + 0.0067364626*log10(submit)",
    ),
    fitted(
        "f3",
        "duration*cores + 6860000*log10(submit)",
        "(-0.2188093701*duration)*(-0.0000000049*cores) + 0.0073580361*log10(submit)",
    ),
    fitted(
        "f4",
        "duration*sqrt(cores) + 530000*log10(submit)",
        "(0.0056500287*duration)*(0.0000024814*sqrt(cores)) + 0.0074444355*log10(submit)",
    ),
    smallest("saf", "duration*cores"),
    smallest("srf", "duration/cores"),
    smallest("linear", "3.16688932e-2 + 1.24214915e-7*duration + 3.10222317e-5*cores - 1.62730301e-7*submit"),
    Named { name: "wfp3", text: "(wait/duration)^3*cores", fitted: None, largest: true },
    Named {
        name: "unicef",
        text: "if(cores > 1, wait/(log2(cores)*duration), 1e200*(1 + wait/duration))",
        fitted: None,
        largest: true,
    },
];
