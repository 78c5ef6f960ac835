//! Which inputs of a fuzz target are kept in the tree.
//!
//! libFuzzer writes the features of each input into a control file while it merges folders: the edges that it reaches, by the order of
//! magnitude of how often. (Edges, in lines `COV`, are those that no input before has reached.) Of these inputs the one that adds
//! most features is kept first, then the one that adds most to it, and so on. Must never know the subject of a target.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Most files of a target in the tree, and most bytes of them all and of one.
const FILES_MAX: usize = 24;
const BYTES_MAX: u64 = 32 << 10;
const INPUT_BYTES_MAX: u64 = 4 << 10;

/// An input, its size in bytes, and the numbers of its features.
#[derive(Debug, PartialEq)]
struct Input {
    path: PathBuf,
    bytes: u64,
    features: BTreeSet<u32>,
}

/// Copies inputs named by the control file into the folder, which keeps those that it has. Returns how many files it has then, and
/// their bytes.
pub(super) fn keep(control: &str, folder: &Path) -> Result<(usize, u64)> {
    let (there, found) = inputs(control)?.into_iter().partition(|input| input.path.starts_with(folder));
    let there: Vec<Input> = there;
    let (mut count, mut bytes) = (there.len(), there.iter().map(|input| input.bytes).sum());
    for input in choose(&there, found) {
        let name = input.path.file_name().context("a file has a name")?;
        let to = folder.join(name);
        fs::copy(&input.path, &to).with_context(|| format!("{}", to.display()))?;
        (count, bytes) = (count + 1, bytes + input.bytes);
    }
    Ok((count, bytes))
}

/// The inputs of a control file; an input during which the target ended is left out.
fn inputs(control: &str) -> Result<Vec<Input>> {
    let mut lines = control.lines();
    let count = lines.next().and_then(|line| line.trim().parse::<usize>().ok());
    let count = count.context("control file of libFuzzer, line 1: expected the number of inputs")?;
    let paths: Vec<&str> = lines.by_ref().skip(1).take(count).collect();
    let (mut sizes, mut inputs) = (vec![0; paths.len()], Vec::new());
    for line in lines {
        let mut words = line.split_whitespace();
        let (kind, number) = (words.next(), words.next().and_then(|word| word.parse::<usize>().ok()));
        let (Some(kind), Some(number)) = (kind, number.filter(|number| *number < paths.len())) else {
            bail!("control file of libFuzzer: found {line:?}, expected a kind and the number of an input");
        };
        match kind {
            "STARTED" => sizes[number] = words.next().and_then(|word| word.parse().ok()).unwrap_or_default(),
            "FT" => inputs.push(Input {
                path: paths[number].into(),
                bytes: sizes[number],
                features: words.filter_map(|word| word.parse().ok()).collect(),
            }),
            _ => {}
        }
    }
    Ok(inputs)
}

/// The inputs to be added to those that are there, the one that adds most features first.
fn choose(there: &[Input], mut found: Vec<Input>) -> Vec<Input> {
    let mut reached: BTreeSet<u32> = there.iter().flat_map(|input| &input.features).copied().collect();
    let (mut files, mut bytes) = (there.len(), there.iter().map(|input| input.bytes).sum::<u64>());
    found.retain(|input| input.bytes <= INPUT_BYTES_MAX);
    let mut chosen = Vec::new();
    while files < FILES_MAX {
        found.retain(|input| bytes + input.bytes <= BYTES_MAX);
        let adds = |input: &Input| (input.features.difference(&reached).count(), u64::MAX - input.bytes);
        let best = found.iter().map(adds).enumerate().max_by_key(|(_, adds)| *adds);
        let Some((place, _)) = best.filter(|(_, (features, _))| *features > 0) else { break };
        let input = found.swap_remove(place);
        reached.extend(&input.features);
        (files, bytes) = (files + 1, bytes + input.bytes);
        chosen.push(input);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(path: &str, bytes: u64, features: impl IntoIterator<Item = u32>) -> Input {
        Input { path: path.into(), bytes, features: features.into_iter().collect() }
    }

    #[test]
    fn a_control_file() {
        let text = "3\n1\nk/a\nf/b\nf/c\nSTARTED 0 5\nFT 0 1 2\nCOV 0 9 8\nSTARTED 1 7\nSTARTED 2 6\nFT 2\nCOV 2 7\n";
        assert_eq!(inputs(text).unwrap(), [input("k/a", 5, [1, 2]), input("f/c", 6, [])]);
        for bad in ["", "x\n", "1\n0\na\nFT\n", "1\n0\na\nFT 1 5\n"] {
            assert!(inputs(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_input_that_adds_most_is_first_and_the_bounds_hold() {
        let there = [input("a", 10, [1, 2])];
        let found = vec![
            input("small", 1, [3]),
            input("rich", 900, 3..9),
            input("same", 800, [1]),
            input("richer", INPUT_BYTES_MAX + 1, 1..99),
            input("long", 901, 3..9),
        ];
        let names = |chosen: &[Input]| -> Vec<String> {
            chosen.iter().map(|input| input.path.display().to_string()).collect()
        };
        assert_eq!(names(&choose(&there, found)), ["rich"]);
        let many: Vec<Input> = (0..99).map(|n| input(&n.to_string(), 4000, [n])).collect();
        assert_eq!(choose(&[], many).len(), 8);
        let many: Vec<Input> = (0..99).map(|n| input(&n.to_string(), 4, [n])).collect();
        assert_eq!(choose(&there, many).len(), FILES_MAX - 1);
    }
}
