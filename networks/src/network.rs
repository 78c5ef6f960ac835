//! Small networks in f32: dense layers with ReLU between them, as a kernel over every row or as one network over all.
//!
//! Each output of a layer starts from its bias and adds `x[i] * w[i]` in ascending i; product and sum are rounded apart, and
//! ReLU is `if x < 0 then 0`. That order is the definition: a component with or without SIMD, a twin on any machine, and
//! sequential f32 of another language give the same bits. This module knows neither features nor jobs.

use alloc::vec;
use alloc::vec::Vec;
use core::array;

use crate::lanes::{LANES, Lanes};

/// Most layers of a network.
pub const LAYERS_MAX: usize = 16;
/// Most inputs or outputs of a layer.
pub const WIDTH_MAX: usize = 16_384;
/// Most weights of a network.
pub const WEIGHTS_MAX: usize = 4_000_000;

/// Outputs that are computed together, for SIMD.
const BLOCK: usize = 8;

/// A dense layer.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    inputs: usize,
    outputs: usize,
    /// By block of outputs, then input, then output in the block; outputs of the last block that do not exist are 0.
    weights: Vec<[f32; BLOCK]>,
    /// By block.
    bias: Vec<[f32; BLOCK]>,
}

impl Layer {
    /// Makes a layer of weights by output, then input (the order of PyTorch's `Linear`), and a bias for each output.
    /// `None` if there are not inputs * outputs weights, or not one bias for each output.
    pub fn new(inputs: usize, outputs: usize, weights: &[f32], bias: &[f32]) -> Option<Layer> {
        if weights.len() != inputs.checked_mul(outputs)? || bias.len() != outputs {
            return None;
        }
        let blocks = outputs.div_ceil(BLOCK);
        let mut layer = Layer {
            inputs,
            outputs,
            weights: vec![[0.0; BLOCK]; blocks * inputs],
            bias: vec![[0.0; BLOCK]; blocks],
        };
        for (output, bias) in bias.iter().enumerate() {
            let (block, place) = (output / BLOCK, output % BLOCK);
            layer.bias[block][place] = *bias;
            for input in 0..inputs {
                layer.weights[block * inputs + input][place] = weights[output * inputs + input];
            }
        }
        Some(layer)
    }

    /// Number of inputs.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Number of outputs.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    fn forward(&self, input: &[f32], out: &mut [f32], relu: bool) {
        let blocks = self.weights.chunks_exact(self.inputs.max(1)).zip(&self.bias);
        for ((weights, bias), out) in blocks.zip(out.chunks_mut(BLOCK)) {
            let mut sums = *bias;
            for (x, weights) in input.iter().zip(weights) {
                for (sum, weight) in sums.iter_mut().zip(weights) {
                    *sum += x * weight;
                }
            }
            if relu {
                for sum in &mut sums {
                    if *sum < 0.0 {
                        *sum = 0.0;
                    }
                }
            }
            out.copy_from_slice(&sums[..out.len()]);
        }
    }

    /// The same for some rows at once: each number is that of every row.
    fn forward_rows(&self, input: &[Lanes], out: &mut [Lanes], relu: bool) {
        let blocks = self.weights.chunks_exact(self.inputs.max(1)).zip(&self.bias);
        for ((weights, bias), out) in blocks.zip(out.chunks_mut(BLOCK)) {
            match out.len() {
                1 => out[0] = first(weights, bias, input),
                some => out.copy_from_slice(&block(weights, bias, input)[..some]),
            }
            if relu {
                out.iter_mut().for_each(|sum| *sum = sum.relu());
            }
        }
    }

    /// Sum of the absolute values of the weights and the bias of each output times those of the inputs, in f64: the scale of
    /// rounding errors.
    fn magnitude(&self, input: &[f64]) -> Vec<f64> {
        let of = |output: usize| {
            let (block, place) = (output / BLOCK, output % BLOCK);
            let weights = &self.weights[block * self.inputs..(block + 1) * self.inputs];
            let products = input.iter().zip(weights).map(|(x, w)| x * f64::from(w[place]).abs());
            f64::from(self.bias[block][place]).abs() + products.sum::<f64>()
        };
        (0..self.outputs).map(of).collect()
    }
}

/// The outputs of a block, for some rows at once. They are written out so that each weight is read from its place: in a loop over
/// them the compiler computes the place each time.
fn block(weights: &[[f32; BLOCK]], bias: &[f32; BLOCK], input: &[Lanes]) -> [Lanes; BLOCK] {
    let [mut s0, mut s1, mut s2, mut s3, mut s4, mut s5, mut s6, mut s7] = bias.map(Lanes::all);
    for (x, [w0, w1, w2, w3, w4, w5, w6, w7]) in input.iter().zip(weights) {
        s0 = s0.add_product(*x, *w0);
        s1 = s1.add_product(*x, *w1);
        s2 = s2.add_product(*x, *w2);
        s3 = s3.add_product(*x, *w3);
        s4 = s4.add_product(*x, *w4);
        s5 = s5.add_product(*x, *w5);
        s6 = s6.add_product(*x, *w6);
        s7 = s7.add_product(*x, *w7);
    }
    [s0, s1, s2, s3, s4, s5, s6, s7]
}

/// The first output of a block, for some rows at once.
fn first(weights: &[[f32; BLOCK]], bias: &[f32; BLOCK], input: &[Lanes]) -> Lanes {
    let terms = input.iter().zip(weights);
    terms.fold(Lanes::all(bias[0]), |sum, (x, weights)| sum.add_product(*x, weights[0]))
}

/// The input to which the network is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `kernel`: every row by itself; one output, the logit of the row.
    Kernel,
    /// `flat`: all rows at once, one after the other; one output for each row.
    Flat,
}

impl Kind {
    /// Name, the value of `fluxgate.network` in a file of weights.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Kernel => "kernel",
            Kind::Flat => "flat",
        }
    }

    /// The kind of this name; `None` if there is none.
    pub fn named(name: &str) -> Option<Kind> {
        [Kind::Kernel, Kind::Flat].into_iter().find(|kind| kind.name() == name)
    }
}

/// A network: layers with ReLU between them, none after the last.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    kind: Kind,
    layers: Vec<Layer>,
    widest: usize,
}

impl Network {
    /// Makes a network of 1 to [`LAYERS_MAX`] layers that fit to each other, a kernel with one output; `None` for any others.
    pub fn new(kind: Kind, layers: Vec<Layer>) -> Option<Network> {
        let fit = layers.windows(2).all(|pair| pair[0].outputs == pair[1].inputs);
        let last = layers.last()?.outputs;
        let widest = layers.iter().map(|layer| layer.inputs.max(layer.outputs)).max()?;
        let known = fit && layers.len() <= LAYERS_MAX && (kind == Kind::Flat || last == 1);
        known.then_some(Network { kind, layers, widest })
    }

    /// The input to which it is applied.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Its layers.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// Number of inputs of the first layer: features of a row, for [`Kind::Flat`] times rows.
    pub fn inputs(&self) -> usize {
        self.layers.first().map_or(0, Layer::inputs)
    }

    /// Writes the logits of rows of `width` features each to `out`. A kernel gives one for each of the first `rows` rows; a flat
    /// network, whose input is all of `values`, gives one for each output. Panics for a kernel if `width` is 0.
    pub fn logits(&self, values: &[f32], width: usize, rows: usize, out: &mut Vec<f32>) {
        out.clear();
        match self.kind {
            Kind::Kernel => self.kernel(values, width, rows, out),
            Kind::Flat => {
                let (mut one, mut other) = (vec![0.0; self.widest], vec![0.0; self.widest]);
                out.extend_from_slice(self.through(values, &mut one, &mut other));
            }
        }
    }

    fn kernel(&self, values: &[f32], width: usize, rows: usize, out: &mut Vec<f32>) {
        let mut one = vec![Lanes::all(0.0); self.widest];
        let mut other = one.clone();
        let (mut from, mut to) = (&mut one[..], &mut other[..]);
        let rows = rows.min(values.len() / width.max(1));
        let (last, mut left) = (self.layers.len() - 1, rows);
        for values in values[..rows * width].chunks(width * LANES) {
            let number =
                |feature: usize, row: usize| values.get(row * width + feature).copied().unwrap_or(0.0);
            for (feature, place) in from.iter_mut().enumerate().take(width) {
                *place = Lanes::of(array::from_fn(|row| number(feature, row)));
            }
            let mut inputs = width.min(self.widest);
            for (at, layer) in self.layers.iter().enumerate() {
                layer.forward_rows(&from[..inputs], &mut to[..layer.outputs], at < last);
                inputs = layer.outputs;
                core::mem::swap(&mut from, &mut to);
            }
            out.extend(from[0].values().into_iter().take(left));
            left = left.saturating_sub(LANES);
        }
    }

    fn through<'a>(&self, input: &[f32], one: &'a mut [f32], other: &'a mut [f32]) -> &'a [f32] {
        let (mut from, mut to) = (one, other);
        let (mut inputs, last) = (input.len().min(self.widest), self.layers.len() - 1);
        from[..inputs].copy_from_slice(&input[..inputs]);
        for (at, layer) in self.layers.iter().enumerate() {
            layer.forward(&from[..inputs], &mut to[..layer.outputs], at < last);
            inputs = layer.outputs;
            core::mem::swap(&mut from, &mut to);
        }
        &from[..inputs]
    }

    /// A bound of the difference between a logit that is computed in f32 in any order of sums, and the exact one: twice the
    /// sum over layers of gamma(fan-in) |w| |x|, carried through the layers after it (Higham, Accuracy and Stability
    /// of Numerical Algorithms, 3.1). One bound for each output, for one input of the network.
    pub fn bounds(&self, input: &[f32]) -> Vec<f64> {
        const UNIT: f64 = 1.0 / (1 << 24) as f64;
        let mut values: Vec<f64> = input.iter().map(|x| f64::from(x.abs())).collect();
        let mut errors = vec![0.0; values.len()];
        for layer in &self.layers {
            let terms = (layer.inputs + 1) as f64 * UNIT;
            let gamma = terms / (1.0 - terms);
            let sizes = layer.magnitude(&values);
            let carried = layer.magnitude(&errors);
            let grown = sizes.iter().zip(&carried).enumerate().map(|(output, (size, carried))| {
                let bias = f64::from(layer.bias[output / BLOCK][output % BLOCK]).abs();
                gamma * size + (1.0 + gamma) * (carried - bias)
            });
            errors = grown.collect();
            values = sizes;
        }
        errors.iter().map(|error| 2.0 * error).collect()
    }
}

/// The row with the largest logit among those allowed, of equal ones the first; `None` where none is allowed.
///
/// # Errors
/// The first allowed row whose logit is NaN.
pub fn largest(logits: &[f32], allowed: &[bool]) -> Result<Option<usize>, usize> {
    let mut best: Option<(usize, f32)> = None;
    for (row, (logit, allowed)) in logits.iter().zip(allowed).enumerate() {
        if !allowed {
            continue;
        }
        if logit.is_nan() {
            return Err(row);
        }
        if best.is_none_or(|(_, most)| *logit > most) {
            best = Some((row, *logit));
        }
    }
    Ok(best.map(|(row, _)| row))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers from a seed, among them zeros, denormals and extremes.
    fn numbers(count: usize, seed: u64) -> Vec<f32> {
        let mut state = seed;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u32
        };
        let mut number = || match draw() % 16 {
            0 => 0.0,
            1 => f32::from_bits(draw() % 0x0080_0000),
            2 => -f32::MIN_POSITIVE,
            3 => 1e30,
            _ => (f64::from(draw()) / f64::from(1u32 << 30) - 1.0) as f32,
        };
        (0..count).map(|_| number()).collect()
    }

    /// A layer: inputs, outputs, weights by output, biases.
    type Plain = (usize, usize, Vec<f32>, Vec<f32>);

    /// The definition, output by output.
    fn plain(layers: &[Plain], input: &[f32]) -> Vec<f32> {
        let mut x = input.to_vec();
        for (at, (inputs, outputs, weights, bias)) in layers.iter().enumerate() {
            x = (0..*outputs)
                .map(|output| {
                    let mut sum = bias[output];
                    for input in 0..*inputs {
                        let product = x[input] * weights[output * inputs + input];
                        sum += product;
                    }
                    if at + 1 < layers.len() && sum < 0.0 { 0.0 } else { sum }
                })
                .collect();
        }
        x
    }

    fn made(widths: &[usize], seed: u64) -> Vec<Plain> {
        let pairs = widths.windows(2).zip(seed..);
        pairs
            .map(|(pair, seed)| {
                (pair[0], pair[1], numbers(pair[0] * pair[1], seed), numbers(pair[1], seed + 99))
            })
            .collect()
    }

    fn scaled(all: Vec<f32>) -> Vec<f32> {
        all.into_iter().map(|x| x.clamp(-2.0, 2.0)).collect()
    }

    /// The same without extremes, so that logits are numbers.
    fn tamed(layers: Vec<Plain>) -> Vec<Plain> {
        layers.into_iter().map(|(i, o, w, b)| (i, o, scaled(w), scaled(b))).collect()
    }

    fn network(kind: Kind, layers: &[Plain]) -> Network {
        let layers = layers.iter().map(|(i, o, w, b)| Layer::new(*i, *o, w, b).unwrap());
        Network::new(kind, layers.collect()).unwrap()
    }

    #[test]
    fn res_44_a_network_is_sequential_f32_to_the_bit() {
        let cases = [([8, 32, 16, 8, 1], 1), ([8, 3, 9, 17, 1], 2), ([8, 1, 1, 1, 1], 3)];
        for ((widths, seed), wild) in cases.into_iter().flat_map(|case| [(case, false), (case, true)]) {
            let layers = if wild { made(&widths, seed) } else { tamed(made(&widths, seed)) };
            let kernel = network(Kind::Kernel, &layers);
            let rows = numbers(8 * 300, seed + 7);
            let mut logits = Vec::new();
            kernel.logits(&rows, 8, 299, &mut logits);
            assert_eq!(logits.len(), 299);
            for (row, logit) in rows.chunks_exact(8).zip(&logits) {
                let expected = plain(&layers, row)[0];
                // Which NaN it is differs between machines.
                assert!(logit.to_bits() == expected.to_bits() || logit.is_nan() && expected.is_nan());
            }
        }
        let layers = made(&[24, 10, 3], 5);
        let flat = network(Kind::Flat, &layers);
        let (mut logits, input) = (Vec::new(), numbers(24, 8));
        flat.logits(&input, 8, 2, &mut logits);
        let bits = |all: &[f32]| all.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&logits), bits(&plain(&layers, &input)));
    }

    // The digest is of an x86-64 machine; `cargo test --target aarch64-unknown-linux-gnu` gives the same.
    #[test]
    fn res_44_the_bits_of_many_rows_are_the_same_on_every_machine() {
        let weights = tamed(made(&[8, 32, 16, 8, 1], 1));
        let kernel = network(Kind::Kernel, &weights);
        let (mut logits, mut digest, mut ordinary) = (Vec::new(), 0xcbf2_9ce4_8422_2325_u64, 0);
        for seed in 0..100 {
            kernel.logits(&numbers(8 * 1000, 1000 + seed), 8, 1000, &mut logits);
            for logit in &logits {
                // Which NaN it is differs between machines.
                let bits = if logit.is_nan() { f32::NAN.to_bits() & 0x7fff_ffff } else { logit.to_bits() };
                ordinary += u32::from(logit.is_finite());
                for byte in bits.to_le_bytes() {
                    digest = (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
                }
            }
        }
        assert_eq!((ordinary, digest), (100_000, 0x6f7a_1ae1_f7cd_5bdd));
    }

    #[test]
    fn the_largest_allowed_logit_wins_and_ties_go_to_the_first() {
        let all = [true; 4];
        assert_eq!(largest(&[1.0, 3.0, 3.0, 2.0], &all), Ok(Some(1)));
        assert_eq!(largest(&[1.0, 3.0, 3.0, 2.0], &[true, false, false, true]), Ok(Some(3)));
        assert_eq!(largest(&[-0.0, 0.0, f32::NEG_INFINITY, -1.0], &all), Ok(Some(0)));
        assert_eq!(largest(&[1.0], &[false]), Ok(None));
        assert_eq!(largest(&[1.0, f32::NAN], &[true, true]), Err(1));
        assert_eq!(largest(&[1.0, f32::NAN], &[true, false]), Ok(Some(0)));
    }

    #[test]
    fn layers_that_do_not_fit_are_no_network() {
        let layer = |inputs: usize, outputs: usize| {
            Layer::new(inputs, outputs, &vec![0.0; inputs * outputs], &vec![0.0; outputs]).unwrap()
        };
        assert!(Network::new(Kind::Kernel, vec![layer(8, 4), layer(5, 1)]).is_none());
        assert!(Network::new(Kind::Kernel, vec![layer(8, 2)]).is_none());
        assert!(Network::new(Kind::Flat, vec![layer(8, 2)]).is_some());
        assert!(Network::new(Kind::Flat, Vec::new()).is_none());
        assert!(Layer::new(2, 2, &[0.0; 3], &[0.0; 2]).is_none());
    }

    #[test]
    fn the_bound_holds_for_the_difference_to_f64() {
        let layers = tamed(made(&[8, 32, 16, 8, 1], 21));
        let kernel = network(Kind::Kernel, &layers);
        for row in scaled(numbers(8 * 200, 4)).chunks_exact(8) {
            let mut exact: Vec<f64> = row.iter().map(|x| f64::from(*x)).collect();
            for (at, (inputs, outputs, weights, bias)) in layers.iter().enumerate() {
                exact = (0..*outputs)
                    .map(|o| {
                        let sum = |i: usize| exact[i] * f64::from(weights[o * inputs + i]);
                        let sum = f64::from(bias[o]) + (0..*inputs).map(sum).sum::<f64>();
                        if at + 1 < layers.len() { sum.max(0.0) } else { sum }
                    })
                    .collect();
            }
            let mut logits = Vec::new();
            kernel.logits(row, 8, 1, &mut logits);
            let (error, bound) = ((f64::from(logits[0]) - exact[0]).abs(), kernel.bounds(row)[0]);
            assert!(error <= bound && bound.is_finite(), "{error} {bound}");
        }
    }
}
