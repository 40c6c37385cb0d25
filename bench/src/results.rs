//! `thruway-bench results`: the report that any bench wrote, as the lines that npf reads
//! (`RESULT-NAME value`).
//!
//! It reads reports of every bench, in JSON or CSV, so no bench prints such lines itself, and
//! reports of `bench/record` can be read alike.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::{Map, Value};
use thruway::load::plain;

/// Arguments of `thruway-bench results`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The name of a value is its field, in capitals. Where a report has several rows, \
    the texts by which they differ come first, or the fields of --by: RESULT-HAPROXY-OWN_US_0."
)]
pub struct Options {
    /// What a bench wrote: JSON (--rows FILE) or CSV (--out DIR)
    file: PathBuf,
    /// Only rows with this value of FIELD; may be given several times
    #[arg(long = "where", value_name = "FIELD=VALUE", value_parser = condition)]
    conditions: Vec<(String, String)>,
    /// Fields that names begin with [default: the texts that differ between rows]
    #[arg(long, value_name = "FIELD,..", value_delimiter = ',')]
    by: Vec<String>,
}

fn condition(text: &str) -> Result<(String, String), String> {
    let (field, value) =
        text.split_once('=').ok_or("write FIELD=VALUE, for example workers=2".to_owned())?;
    Ok((field.to_owned(), value.to_owned()))
}

/// Prints the results of a report.
///
/// # Errors
/// The file and what is wrong with it, or which rows cannot be distinguished.
pub fn run(options: &Options) -> anyhow::Result<bool> {
    let file = options.file.display();
    let text = std::fs::read_to_string(&options.file)
        .map_err(|error| anyhow::anyhow!("{file}: {}", plain(&error)))?;
    let lines = lines(&text, options).map_err(|error| error.context(file.to_string()))?;
    lines.iter().for_each(|line| outln!("{line}"));
    Ok(true)
}

type Fields = Map<String, Value>;

/// The result lines of a report.
fn lines(report: &str, options: &Options) -> anyhow::Result<Vec<String>> {
    let (summary, mut rows) = if report.trim_start().starts_with('{') {
        of_json(serde_json::from_str(report)?)
    } else {
        (Fields::new(), of_csv(report)?)
    };
    let wanted = |row: &Fields| {
        options
            .conditions
            .iter()
            .all(|(field, value)| row.get(field).map(shown).as_ref() == Some(value))
    };
    rows.retain(wanted);
    // Some benches report no rows: all that they have is of the whole run.
    let is_whole = options.conditions.is_empty() && !summary.is_empty();
    anyhow::ensure!(
        is_whole || !rows.is_empty(),
        "no row has these values; see the report's fields"
    );
    let distinguishing = distinguishing(&rows, &options.by);
    let mut lines = Vec::new();
    let mut seen = BTreeSet::new();
    for row in &rows {
        let name: Vec<String> = distinguishing
            .iter()
            .filter_map(|field| Some(capitals(&shown(row.get(field)?))))
            .collect();
        anyhow::ensure!(
            seen.insert(name.clone()),
            "several rows are called '{}': name the fields by which they differ in --by, \
             or select one by --where FIELD=VALUE",
            name.join("-")
        );
        for (field, value) in row {
            add(&mut lines, &[name.as_slice(), &[capitals(field)]].concat().join("-"), value);
        }
    }
    for (field, value) in &summary {
        add(&mut lines, &capitals(field), value);
    }
    Ok(lines)
}

/// What a report says of all rows, and the rows.
fn of_json(report: Fields) -> (Fields, Vec<Fields>) {
    let (mut summary, mut rows) = (Fields::new(), Vec::new());
    for (name, value) in report {
        match value {
            Value::Array(some) if some.iter().any(Value::is_object) => {
                rows.extend(some.into_iter().filter_map(|row| row_of(&name, row)));
            }
            value => _ = summary.insert(name, value),
        }
    }
    (summary, rows)
}

/// A row of a list of that name; clocks are reported in several.
fn row_of(list: &str, row: Value) -> Option<Fields> {
    let Value::Object(mut row) = row else { return None };
    if list != "rows" {
        row.insert("list".into(), Value::String(list.to_owned()));
    }
    Some(row)
}

/// The rows of a CSV report: fields have no commas in them.
fn of_csv(report: &str) -> anyhow::Result<Vec<Fields>> {
    let mut lines = report.lines();
    let columns: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    anyhow::ensure!(columns.len() > 1, "neither JSON nor CSV with a line of names");
    let row = |line: &str| {
        let values: Vec<&str> = line.split(',').collect();
        anyhow::ensure!(
            values.len() == columns.len(),
            "'{line}' has {} fields, the first line {}",
            values.len(),
            columns.len()
        );
        let pairs = columns.iter().zip(values);
        Ok(pairs.map(|(name, text)| ((*name).to_owned(), scalar(text))).collect())
    };
    lines.map(row).collect()
}

/// A number if it is one, else a text.
fn scalar(text: &str) -> Value {
    let number = text.parse().ok().and_then(serde_json::Number::from_f64);
    number.map_or_else(|| Value::String(text.to_owned()), Value::Number)
}

/// Fields that distinguish rows: those that were asked for, or else the texts that differ.
fn distinguishing(rows: &[Fields], by: &[String]) -> Vec<String> {
    if !by.is_empty() {
        return by.to_vec();
    }
    let names: BTreeSet<&String> = rows.iter().flat_map(Fields::keys).collect();
    let differs = |name: &&String| {
        let values: BTreeSet<_> =
            rows.iter().map(|row| row.get(*name).and_then(Value::as_str)).collect();
        values.len() > 1
    };
    names.into_iter().filter(differs).cloned().collect()
}

/// A value as one writes it in a condition: 2, not 2.0.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => {
            number.as_f64().map_or_else(|| number.to_string(), |value| value.to_string())
        }
        other => other.to_string(),
    }
}

/// A name in the letters that npf takes.
fn capitals(name: &str) -> String {
    let letter = |letter: char| {
        if letter.is_ascii_alphanumeric() { letter.to_ascii_uppercase() } else { '_' }
    };
    name.chars().map(letter).collect()
}

/// Adds the numbers of a value: those of a list by their place in it.
fn add(lines: &mut Vec<String>, name: &str, value: &Value) {
    match value {
        Value::Number(number) => {
            // Without an exponent and rounded: what npf reads as a number.
            if let Some(number) = number.as_f64() {
                lines.push(format!("RESULT-{name} {number:.6}"));
            }
        }
        Value::Array(values) => (values.iter().enumerate())
            .for_each(|(at, value)| add(lines, &format!("{name}_{at}"), value)),
        Value::Object(fields) => (fields.iter())
            .for_each(|(field, value)| add(lines, &format!("{name}_{}", capitals(field)), value)),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(conditions: &[&str], by: &[&str]) -> Options {
        Options {
            file: PathBuf::new(),
            conditions: conditions
                .iter()
                .map(|text| condition(text).expect("a condition"))
                .collect(),
            by: by.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    #[test]
    fn a_report_of_one_row_has_names_of_fields() {
        let report = r#"{"bench": "x", "load": "1", "rows": [{"case": "a/b", "ns": 2.5, "us": [1, 3], "none": null}]}"#;
        let lines = lines(report, &options(&[], &[])).expect("results");
        assert_eq!(lines, ["RESULT-NS 2.500000", "RESULT-US_0 1.000000", "RESULT-US_1 3.000000"]);
    }

    #[test]
    fn rows_are_called_by_the_texts_that_differ() {
        let report = r#"{"worst": 9, "rows": [{"case": "a/b", "of": "x", "ns": 1}, {"case": "c", "of": "x", "ns": 2}]}"#;
        let all = lines(report, &options(&[], &[])).expect("results");
        assert_eq!(
            all,
            ["RESULT-A_B-NS 1.000000", "RESULT-C-NS 2.000000", "RESULT-WORST 9.000000"]
        );
        let one = lines(report, &options(&["case=c"], &[])).expect("results");
        assert_eq!(one, ["RESULT-NS 2.000000", "RESULT-WORST 9.000000"]);
        let none = lines(report, &options(&["case=d"], &[])).expect_err("no such row");
        assert!(none.to_string().contains("no row"), "{none}");
    }

    #[test]
    fn a_report_without_rows_has_values_of_the_whole_run() {
        let report = r#"{"bench": "x", "kills": 2, "back_ms": [1.5, 2]}"#;
        let lines = lines(report, &options(&[], &[])).expect("results");
        assert_eq!(
            lines,
            ["RESULT-BACK_MS_0 1.500000", "RESULT-BACK_MS_1 2.000000", "RESULT-KILLS 2.000000"]
        );
    }

    #[test]
    fn rows_that_differ_by_numbers_want_to_be_told_apart() {
        let report = "series,workers,mpps\n64 B,1,17.5\n64 B,2,9\n";
        let error = lines(report, &options(&[], &[])).expect_err("two rows of one name");
        assert!(error.to_string().contains("--by"), "{error}");
        let all = lines(report, &options(&[], &["workers"])).expect("results");
        assert!(all.contains(&"RESULT-2-MPPS 9.000000".to_owned()), "{all:?}");
        let one = lines(report, &options(&["workers=1", "series=64 B"], &[])).expect("results");
        assert!(one.contains(&"RESULT-MPPS 17.500000".to_owned()), "{one:?}");
    }

    #[test]
    fn what_is_no_report_is_refused() {
        for (report, why) in
            [("", "neither"), ("{", "EOF"), ("{}", "no row"), ("a,b\n1\n", "1 fields")]
        {
            let error = lines(report, &options(&[], &[])).expect_err(report);
            assert!(error.to_string().contains(why), "{error}");
        }
    }
}
