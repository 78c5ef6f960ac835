//! The table of `docs/fuzzing.md`: how long each target was fuzzed, and how far it came. Each run adds to it.

use anyhow::{Context, Result, ensure};

use super::campaign::Run;

/// The head of the table.
const HEAD: &str = "| target | hours | million inputs | edges | inputs kept | last run |";

/// The sums of a row.
#[derive(Debug, Default, PartialEq)]
struct Row {
    hours: f64,
    millions: f64,
    edges: u64,
    inputs: u64,
}

/// The page with a run added to the row of its target, and all processor hours of the table.
pub(super) fn added(page: &str, target: &str, run: &Run, when: &str) -> Result<(String, f64)> {
    let mut lines: Vec<String> = page.lines().map(str::to_owned).collect();
    let head = lines.iter().position(|line| line == HEAD);
    let begin = head.with_context(|| format!("docs/fuzzing.md has no table with the head {HEAD}"))? + 2;
    let length = lines[begin.min(lines.len())..].iter().take_while(|line| line.starts_with('|')).count();
    let end = begin + length;
    let name = |line: &str| line.split('|').nth(1).unwrap_or_default().trim().to_owned();
    let place = lines[begin..end].iter().position(|line| name(line) == target).map(|at| begin + at);
    let mut row = match place {
        Some(at) => read(&lines[at])?,
        None => Row::default(),
    };
    row.hours += run.seconds / 3600.0;
    row.millions += run.executions as f64 / 1e6;
    row.edges = row.edges.max(run.edges);
    row.inputs = run.inputs;
    let Row { hours, millions, edges, inputs } = row;
    let text = format!("| {target} | {hours:.3} | {millions:.3} | {edges} | {inputs} | {when} |");
    match place {
        Some(at) => lines[at] = text,
        None => {
            let after = lines[begin..end].iter().take_while(|line| name(line).as_str() < target).count();
            lines.insert(begin + after, text);
        }
    }
    let rows = lines[begin..].iter().take_while(|line| line.starts_with('|'));
    let sum = rows.map(|line| read(line).map(|row| row.hours)).sum::<Result<f64>>()?;
    Ok((lines.join("\n") + "\n", sum))
}

fn read(line: &str) -> Result<Row> {
    let cells: Vec<&str> = line.split('|').map(str::trim).collect();
    ensure!(cells.len() == 8, "docs/fuzzing.md: found {line:?}, expected a row with six cells");
    let number = |at: usize| -> Result<f64> {
        cells[at].parse().with_context(|| format!("docs/fuzzing.md: {line:?}: cell {at} is no number"))
    };
    Ok(Row { hours: number(2)?, millions: number(3)?, edges: number(4)? as u64, inputs: number(5)? as u64 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_add_up_in_the_row_of_their_target() {
        let page = format!(
            "# Text\n\n{HEAD}\n|--|--:|--:|--:|--:|--|\n| jgf | 1.500 | 2.000 | 90 | 7 | then |\n\nMore.\n"
        );
        let run = Run { seconds: 1800.0, executions: 1_000_000, edges: 80, inputs: 9, failed: false };
        let (page, hours) = added(&page, "jgf", &run, "now").unwrap();
        assert!(page.contains("| jgf | 2.000 | 3.000 | 90 | 9 | now |"), "{page}");
        assert!((hours - 2.0).abs() < 1e-9);
        let (page, hours) = added(&page, "fsd", &run, "now").unwrap();
        let (fsd, jgf) = (page.find("| fsd | 0.500 |").unwrap(), page.find("| jgf |").unwrap());
        assert!(fsd < jgf && page.ends_with("\n\nMore.\n"), "{page}");
        assert!((hours - 2.5).abs() < 1e-9);
        assert!(added("no table", "fsd", &run, "now").is_err());
        assert!(added(&page.replace("1.000 |", "much |"), "fsd", &run, "now").is_err());
    }
}
