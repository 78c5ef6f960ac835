//! The same number of several rows, and what a dense layer does with it: on WebAssembly with SIMD in two vectors, elsewhere in an
//! array. Both give the same bits.
//!
//! The compiler does not find these vectors by itself: it joins the outputs of a layer instead, which takes twice the
//! instructions. This module must never know layers.

#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
pub(crate) use plain::Lanes;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
pub(crate) use simd::Lanes;

/// Rows that are computed together.
pub(crate) const LANES: usize = 8;

#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
mod plain {
    use super::LANES;

    /// A number of each row.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct Lanes([f32; LANES]);

    impl Lanes {
        pub(crate) fn of(values: [f32; LANES]) -> Lanes {
            Lanes(values)
        }

        pub(crate) fn all(value: f32) -> Lanes {
            Lanes([value; LANES])
        }

        pub(crate) fn values(self) -> [f32; LANES] {
            self.0
        }

        /// Adds the products of numbers and a weight; product and sum are rounded apart.
        #[inline]
        pub(crate) fn add_product(mut self, x: Lanes, weight: f32) -> Lanes {
            for (sum, x) in self.0.iter_mut().zip(x.0) {
                *sum += x * weight;
            }
            self
        }

        /// 0 for each number below 0.
        pub(crate) fn relu(mut self) -> Lanes {
            for sum in &mut self.0 {
                if *sum < 0.0 {
                    *sum = 0.0;
                }
            }
            self
        }
    }
}

#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod simd {
    use core::arch::wasm32::{
        f32x4, f32x4_add, f32x4_extract_lane, f32x4_lt, f32x4_mul, f32x4_splat, v128, v128_andnot,
    };

    use super::LANES;

    /// A number of each row. A weight that was read is used for two vectors.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct Lanes(v128, v128);

    impl Lanes {
        pub(crate) fn of([a, b, c, d, e, f, g, h]: [f32; LANES]) -> Lanes {
            Lanes(f32x4(a, b, c, d), f32x4(e, f, g, h))
        }

        pub(crate) fn all(value: f32) -> Lanes {
            Lanes(f32x4_splat(value), f32x4_splat(value))
        }

        pub(crate) fn values(self) -> [f32; LANES] {
            let [a, b, c, d] = four(self.0);
            let [e, f, g, h] = four(self.1);
            [a, b, c, d, e, f, g, h]
        }

        #[inline]
        pub(crate) fn add_product(self, x: Lanes, weight: f32) -> Lanes {
            let weight = f32x4_splat(weight);
            Lanes(f32x4_add(self.0, f32x4_mul(x.0, weight)), f32x4_add(self.1, f32x4_mul(x.1, weight)))
        }

        pub(crate) fn relu(self) -> Lanes {
            Lanes(positive(self.0), positive(self.1))
        }
    }

    fn four(all: v128) -> [f32; 4] {
        [
            f32x4_extract_lane::<0>(all),
            f32x4_extract_lane::<1>(all),
            f32x4_extract_lane::<2>(all),
            f32x4_extract_lane::<3>(all),
        ]
    }

    fn positive(all: v128) -> v128 {
        v128_andnot(all, f32x4_lt(all, f32x4_splat(0.0)))
    }
}
