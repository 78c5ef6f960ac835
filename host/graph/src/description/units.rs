//! Conversion of amounts between the unit of a request and the unit of a pool.
//!
//! This module must never know the type of a pool.

/// Converts counts of a request to counts of a pool: `pool = request * num / den`, rounded up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scale {
    num: u128,
    den: u128,
}

impl Scale {
    /// The least number of units of the pool that hold this many units of the request.
    pub(crate) fn pool_units(self, request: u64) -> u64 {
        (u128::from(request) * self.num).div_ceil(self.den).try_into().unwrap_or(u64::MAX)
    }

    /// The number of units of the request that this many units of the pool hold.
    pub(crate) fn request_units(self, pool: u64) -> u64 {
        if self.num == self.den {
            return pool;
        }
        (u128::from(pool) * self.den / self.num).try_into().unwrap_or(u64::MAX)
    }
}

/// Bytes of one unit of storage; decimal and binary prefixes by IEC 80000-13.
fn bytes(unit: &str) -> Option<u128> {
    const PREFIXES: &str = "KMGTPE";
    let unit = unit.strip_suffix(['B', 'b'])?;
    let (prefix, base) = match unit.strip_suffix('i') {
        Some(prefix) => (prefix, 1024u128),
        None => (unit, 1000),
    };
    if prefix.is_empty() {
        return (base == 1000).then_some(1);
    }
    let power = PREFIXES.find(&prefix.to_ascii_uppercase()).filter(|_| prefix.len() == 1)?;
    Some(base.pow(power as u32 + 1))
}

/// Units of flow without a prefix: bytes per second, bits per second, watts.
const FLOWING: [&str; 3] = ["B/s", "b/s", "W"];

/// A unit of flow as a multiple of the unit without a prefix. The case of the letter distinguishes bits from bytes.
pub(crate) fn flowing(unit: &str) -> Option<(&'static str, u64)> {
    let base = FLOWING.into_iter().find(|base| unit.ends_with(base))?;
    let factor = match &unit[..unit.len() - base.len()] {
        "" => 1,
        prefix => bytes(&format!("{prefix}B"))?,
    };
    Some((base, factor.try_into().ok()?))
}

/// The scale between the unit of a request and that of a pool; `None` if they are not comparable. An empty unit means
/// that of the other side.
pub(crate) fn scale(request: &str, pool: &str) -> Option<Scale> {
    if request.is_empty() || pool.is_empty() || request == pool {
        return Some(Scale { num: 1, den: 1 });
    }
    if let (Some(num), Some(den)) = (bytes(request), bytes(pool)) {
        return Some(Scale { num, den });
    }
    let ((base, num), (other, den)) = (flowing(request)?, flowing(pool)?);
    (base == other).then_some(Scale { num: num.into(), den: den.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn site_21_units_convert_and_round_up() {
        for (request, pool, n, expected) in [
            ("GB", "GB", 4, 4),
            ("", "GB", 4, 4),
            ("GB", "", 4, 4),
            ("MB", "GB", 1500, 2),
            ("GiB", "GB", 1, 2),
            ("GB", "MB", 2, 2000),
            ("TiB", "GiB", 1, 1024),
            ("B", "KiB", 1025, 2),
            ("kW", "W", 1, 1000),
            ("W", "kW", 1001, 2),
        ] {
            let scale = scale(request, pool).unwrap();
            assert_eq!(scale.pool_units(n), expected, "{n} {request} in {pool}");
        }
        assert_eq!(scale("GB", "W"), None);
        assert_eq!(scale("parsec", "GB"), None);
        assert_eq!(scale("GB", "MB").unwrap().request_units(2500), 2);
        assert_eq!((flowing("kW"), flowing("W")), (Some(("W", 1000)), Some(("W", 1))));
        assert_eq!(
            (flowing("GB/s"), flowing("Gb/s")),
            (Some(("B/s", 1_000_000_000)), Some(("b/s", 1_000_000_000)))
        );
        assert_eq!(flowing("MiB/s"), Some(("B/s", 1 << 20)));
        assert_eq!((flowing("horse"), flowing("GB"), flowing("xW")), (None, None, None));
    }
}
