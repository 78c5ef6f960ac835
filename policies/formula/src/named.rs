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
pub const NAMED: [Named; 15] = [
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
    smallest(
        "quadratic",
        "3.59070690e-2 + 3.57653837e-7*duration - 3.05321285e-5*cores - 4.32808767e-7*submit - \
         3.68598108e-12*duration^2 + 1.46361083e-7*cores^2 + 2.94999301e-12*submit^2 + 4.79106778e-10*duration*cores",
    ),
    smallest(
        "cubic",
        "5.49939742e-2 - 1.42358275e-6*duration - 1.66172060e-4*cores - 7.32530172e-7*submit + \
         3.33805977e-11*duration^2 + 1.43074227e-7*cores^2 + 9.32866675e-12*submit^2 + 1.77599437e-8*duration*cores - \
         1.64597448e-16*duration^3 + 1.01906798e-9*cores^3 - 3.19724119e-17*submit^3 - \
         2.60511394e-13*duration^2*cores - 4.07107551e-11*duration*cores^2 + 5.83699122e-16*(duration*cores)^2",
    ),
    smallest(
        "quartic",
        "4.60676052e-2 - 7.76765755e-7*duration - 1.76313342e-5*cores - 6.47786293e-7*submit + \
         3.68129776e-11*duration^2 + 5.30588161e-7*cores^2 + 5.43172102e-12*submit^2 - 2.86914325e-9*duration*cores - \
         5.23476439e-16*duration^3 - 6.68052736e-9*cores^3 + 2.74681557e-17*submit^3 + \
         7.14008267e-14*duration^2*cores + 4.89098847e-11*duration*cores^2 - 3.81658916e-16*(duration*cores)^2 + \
         2.29158387e-21*duration^4 + 1.79103008e-11*cores^4 - 2.48090946e-22*submit^3 - \
         8.60381994e-19*duration^3*cores - 1.02011767e-13*cores^3*duration + 6.21802436e-24*(duration*cores)^3",
    ),
    Named { name: "wfp3", text: "(wait/duration)^3*cores", fitted: None, largest: true },
    Named {
        name: "unicef",
        text: "if(cores > 1, wait/(log2(cores)*duration), 1e200*(1 + wait/duration))",
        fitted: None,
        largest: true,
    },
];
