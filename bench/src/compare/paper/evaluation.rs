//! Text of the evaluation: a text with names of figures in double braces, and kept results
//! from which each is filled. A figure that is not in the results is an error.

mod figures;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;

use self::figures::Figures;

/// Which results to write about, and where.
#[derive(Args, Clone, Debug)]
pub(crate) struct EvaluationOptions {
    /// Folder of results that `paper` wrote
    #[arg(long, value_name = "DIR", default_value = "bench/results/paper")]
    results: PathBuf,

    /// Text with names of figures in double braces
    #[arg(long, value_name = "FILE", default_value = "bench/evaluation.md")]
    text: PathBuf,

    /// File to write
    #[arg(long, value_name = "FILE", default_value = "docs/evaluation.md")]
    out: PathBuf,

    /// Write nothing, and fail if the file differs from the results
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(options: &EvaluationOptions) -> Result<()> {
    let read = |file: &PathBuf| {
        let text = fs::read_to_string(file);
        text.with_context(|| format!("cannot read {}", file.display()))
    };
    let figures = Figures::read(&options.results)?;
    let text = fill(&read(&options.text)?, &figures)
        .with_context(|| format!("in {}", options.text.display()))?;
    let out = options.out.display();
    if !options.check {
        fs::write(&options.out, text).with_context(|| format!("cannot write {out}"))?;
        eprintln!("wrote {out}");
        return Ok(());
    }
    if let Some((line, wanted)) = difference(&text, &read(&options.out)?) {
        bail!("{out} differs from the results in line {line}, which would be: {wanted}");
    }
    println!("{out} says what the results say");
    Ok(())
}

/// Puts a figure in place of each name.
fn fill(text: &str, figures: &Figures) -> Result<String> {
    let mut filled = String::new();
    for (number, line) in text.lines().enumerate() {
        let mut rest = line;
        while let Some((before, after)) = rest.split_once("{{") {
            let (name, after) = after
                .split_once("}}")
                .with_context(|| format!("line {}: there is no end of {{{{", number + 1))?;
            filled.push_str(before);
            let value = figures.value(name);
            filled.push_str(&value.with_context(|| format!("line {}: {name}", number + 1))?);
            rest = after;
        }
        filled.push_str(rest);
        filled.push('\n');
    }
    Ok(filled)
}

/// Returns the first line that differs, its number and as it should be.
fn difference<'a>(wanted: &'a str, found: &str) -> Option<(usize, &'a str)> {
    let mut found = found.lines();
    let mut count = 0;
    for line in wanted.lines() {
        count += 1;
        if found.next() != Some(line) {
            return Some((count, line));
        }
    }
    found.next().map(|_| (count + 1, "its end"))
}

/// Text below `--help`.
pub(crate) const EXAMPLES: &str = "\
Names of figures in the text:
  {{PART/ROW | CASE | FIGURE}}                  the median
  {{PART/ROW | CASE | FIGURE | ratio}}          its ratio to the row's first case
  {{table FIGURE | PART/ROW PART/ROW …}}        a line for each row, a column for each case; turned
                                                if there are more cases than rows
  {{cases FIGURE; FIGURE … | PART/ROW}}         a line for each case, a column for each figure
  {{fit CASE | FIGURE | PART/ROW PART/ROW …}}   a + b n, over the numbers of hosts
  {{at N / UNIT | CASE | FIGURE | PART/ROW …}}  this line at N hosts, divided by UNIT
  {{fact NAME | PART}}                          of the machine or the versions of a part
Rows, cases, figures and facts have the names of the part's report, bench/results/paper/PART.md.
Examples:
  Write docs/evaluation.md from the results:
    sekisho-bench evaluation
  Fail if it says anything else:
    sekisho-bench evaluation --check
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_an_end_or_a_figure_are_errors() {
        let figures = Figures::default();
        assert_eq!(fill("no { names }\n", &figures).unwrap(), "no { names }\n");
        let error = fill("fine\nthis {{is not\n", &figures).unwrap_err();
        assert!(error.to_string().starts_with("line 2"), "{error}");
        let error = fill("{{a/b | c | d}}\n", &figures).unwrap_err();
        assert!(format!("{error:#}").contains("there is no row a/b"));
    }

    #[test]
    fn the_first_difference_is_named() {
        assert_eq!(difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(difference("a\nb\n", "a\nc\n"), Some((2, "b")));
        assert_eq!(difference("a\nb\n", "a\n"), Some((2, "b")));
        assert_eq!(difference("a\n", "a\nb\n"), Some((2, "its end")));
    }
}
