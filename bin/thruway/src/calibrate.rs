//! `thruway calibrate`: measures this host and writes its description.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use thruway_element::Operation;
use thruway_model::calibrate::{Calibration, Settings, calibrate};
use thruway_model::hardware::{CacheLevel, OperationCost};
use thruway_model::{Constant, Hardware};

use crate::calibrate_function::programs;
use crate::load::plain;
use crate::table::Table;

/// Arguments of `thruway calibrate`.
#[derive(Args)]
pub struct CalibrateArgs {
    /// Output file, or `-` for standard output [default: where estimates read it,
    /// $XDG_CONFIG_HOME/thruway/hardware.toml or ~/.config/thruway/hardware.toml]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Measure for a few seconds instead of a minute, with less precision
    #[arg(long)]
    quick: bool,
    /// Core to measure on [default: the highest core available to this process]
    #[arg(long, value_name = "N")]
    core: Option<usize>,
    /// Name of the host [default: its hostname]
    #[arg(long)]
    name: Option<String>,
    /// Measure twice and report the difference
    #[arg(long)]
    twice: bool,
}

/// Runs `thruway calibrate`.
pub fn main(args: &CalibrateArgs) -> anyhow::Result<ExitCode> {
    let place = match &args.out {
        Some(place) => place.clone(),
        None => own_file()?,
    };
    let is_text = place.as_os_str() == "-";
    if !is_text {
        // Before a minute of measuring, not after it.
        writable(&place)?;
    }
    let settings = Settings {
        core: args.core,
        name: args.name.clone(),
        is_quick: args.quick,
        programs: Some(programs()?),
    };
    let first = calibrate(&settings, &log_step)?;
    let second = args.twice.then(|| calibrate(&settings, &log_step)).transpose()?;
    if is_text {
        out!("{}", first.hardware.to_toml());
        err!("{}", report(&first));
    } else {
        write(&place, &first.hardware.to_toml())?;
        out!("{}", report(&first));
    }
    if let Some(second) = &second {
        let report = repeated(&first.hardware, &second.hardware);
        if is_text { err!("{report}") } else { out!("{report}") }
    }
    if !is_text {
        outln!("\nwritten: {}", place.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// A description of this host for all users, such as a service without a home directory.
const HOST_FILE: &str = "/etc/thruway/hardware.toml";

/// Where the description of this host is: the user's own, or the one for all users. None where it
/// is not calibrated.
pub fn known_file() -> Option<PathBuf> {
    let files = own_file().ok().into_iter().chain([PathBuf::from(HOST_FILE)]);
    files.into_iter().find(|file| file.exists())
}

/// Where the description of this host is kept.
fn own_file() -> anyhow::Result<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let config = folder("XDG_CONFIG_HOME").map(PathBuf::from);
    let config = config.or_else(|| Some(Path::new(&folder("HOME")?).join(".config")));
    let Some(config) = config else {
        anyhow::bail!("no home directory to write to: name a file with --out FILE");
    };
    Ok(config.join("thruway").join("hardware.toml"))
}

/// Makes the folder, and sees whether the file can be written; one that is there stays as it is.
fn writable(place: &Path) -> anyhow::Result<()> {
    let refused = |error: std::io::Error| {
        anyhow::anyhow!(
            "{}: {}; name a file that can be written with --out FILE",
            place.display(),
            plain(&error)
        )
    };
    if let Some(folder) = place.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(refused)?;
    }
    let was_there = place.exists();
    std::fs::OpenOptions::new().append(true).create(true).open(place).map_err(refused)?;
    if !was_there {
        // Nothing is left of the attempt if measuring fails.
        std::fs::remove_file(place).map_err(refused)?;
    }
    Ok(())
}

fn write(place: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(place, text)
        .map_err(|error| anyhow::anyhow!("{}: {}", place.display(), plain(&error)))
}

fn log_step(what: &str) {
    errln!("measuring {what}");
}

/// A number rounded to significant digits.
fn digits(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

/// A value and its spread.
fn spread(constant: &Constant) -> String {
    let spread = constant.spread.unwrap_or(0.0);
    format!("{} ±{}", digits(constant.value), digits(spread))
}

/// For people.
fn report(made: &Calibration) -> String {
    let hardware = &made.hardware;
    let mut text = format!(
        "{}: {}, {} cores, {} sockets; measured on core {}\nclock: {:.4} GHz (time stamp counter)\n",
        hardware.name,
        made.model,
        hardware.cores,
        hardware.sockets,
        made.core,
        hardware.clock_hz.value / 1e9
    );
    text += "\nCycles per line of 64 bytes, median ± half of the distance between quartiles\n\n";
    text += &levels(hardware);
    if let Some(between) = &hardware.between_cores {
        text += "\nBetween cores\n\n";
        let mut table = Table::new(&["what", "cycles", "ns"]);
        for (what, constant) in [
            ("a line from core to core", &between.line),
            ("waking a thread, at the waking thread", &between.wake),
            ("waking a thread, until it runs", &between.woken),
        ] {
            let ns = hardware.seconds(constant.value) * 1e9;
            table.row(vec![what.to_owned(), spread(constant), digits(ns)]);
        }
        text += &table.render();
    }
    text += "\nElementary operations, cycles with all data in the first level\n\n";
    text += &operations(&hardware.operations);
    if !hardware.shared_core.is_empty() {
        text += "\nThe same of isolated functions on the core of the thread\n\n";
        text += &operations(&hardware.shared_core);
    }
    if !made.notes.is_empty() {
        text += "\nNotes\n\n";
        for note in &made.notes {
            let _ = writeln!(text, "  {note}");
        }
    }
    text
}

fn levels(hardware: &Hardware) -> String {
    let mut table = Table::new(&[
        "level",
        "kB",
        "dependent",
        "ns",
        "prefetched",
        "stream",
        "copy",
        "GB/s",
        "pages",
    ]);
    let or_not = |constant: &Option<Constant>| constant.as_ref().map_or("-".into(), spread);
    for level in &hardware.levels {
        let ns = |constant: &Constant| digits(hardware.seconds(constant.value) * 1e9);
        let rate = |constant: &Constant| digits(64.0 / hardware.seconds(constant.value) / 1e9);
        let kilobytes = format!("{:.0}", level.bytes / 1024.0);
        table.row(vec![
            level.name.clone(),
            kilobytes,
            spread(&level.dependent),
            ns(&level.dependent),
            spread(&level.prefetched),
            spread(&level.stream),
            or_not(&level.copy),
            rate(&level.stream),
            "normal".to_owned(),
        ]);
        if let CacheLevel {
            dependent_huge: Some(dependent),
            prefetched_huge: Some(prefetched),
            stream_huge: Some(stream),
            ..
        } = level
        {
            let cells = [String::new(), String::new(), spread(dependent), ns(dependent)];
            let more =
                [spread(prefetched), spread(stream), "-".into(), rate(stream), "huge".into()];
            table.row(cells.into_iter().chain(more).collect());
        }
    }
    let mut text = table.render();
    if let Some(bandwidth) = hardware.levels.iter().find_map(|level| level.bandwidth.as_ref()) {
        let (rate, spread) = (bandwidth.value / 1e9, bandwidth.spread.unwrap_or(0.0) / 1e9);
        let _ = writeln!(text, "\n  all cores together read {rate:.1} ±{spread:.1} GB/s of memory");
    }
    text
}

fn operations(costs: &BTreeMap<String, OperationCost>) -> String {
    let mut table = Table::new(&["operation", "each", "per batch", "what"]);
    for operation in Operation::ALL {
        let Some(cost) = costs.get(operation.name()) else { continue };
        let batch = cost.batch.as_ref().map_or("-".into(), spread);
        let name = operation.name().to_owned();
        table.row(vec![name, spread(&cost.each), batch, operation.about().to_owned()]);
    }
    table.render()
}

/// Largest difference between two calibrations of a quiet machine, as a share.
const REPEATABLE: f64 = 0.05;
/// Differences below this number of cycles are ignored.
const NOTHING: f64 = 0.5;

/// By how much two calibrations differ.
fn repeated(first: &Hardware, second: &Hardware) -> String {
    let mut table = Table::new(&["what", "first", "second", "differ by"]);
    let (first, second) = (compared(first), compared(second));
    let mut far = 0;
    for ((name, first), (_, second)) in first.iter().zip(&second) {
        let apart = (first - second).abs();
        let share = apart / f64::midpoint(*first, *second).max(f64::MIN_POSITIVE);
        far += usize::from(share > REPEATABLE && apart > NOTHING);
        let share = if apart > 0.0 { format!("{:.1} %", 100.0 * share) } else { "0 %".into() };
        table.row(vec![name.clone(), digits(*first), digits(*second), share]);
    }
    let all = first.len();
    let table = table.render();
    format!(
        "\nMeasured twice (operations: cycles in batches of {DEFAULT_BATCH})\n\n{table}\n  \
         {far} of {all} are more than {:.0} % and {NOTHING} cycles apart\n",
        100.0 * REPEATABLE
    )
}

/// Default batch size, in packets.
const DEFAULT_BATCH: f64 = 32.0;

/// The compared values: the constants, and the cost of operations in batches.
fn compared(hardware: &Hardware) -> Vec<(String, f64)> {
    let constants = hardware.constants().into_iter();
    let is_operation =
        |name: &str| name.starts_with("operations.") || name.starts_with("shared_core.");
    let others = constants.filter(|(name, _)| !is_operation(name));
    let others =
        others.map(|(name, constant)| (name.trim_end_matches(".value").to_owned(), constant.value));
    let in_batches = |(name, cost): (String, &OperationCost)| {
        let batch = cost.batch.as_ref().map_or(0.0, |batch| batch.value);
        (name, cost.each.value + batch / DEFAULT_BATCH)
    };
    let apart = hardware.operations.iter().map(|(name, cost)| (name.clone(), cost));
    let shared = hardware.shared_core.iter();
    let shared = shared.map(|(name, cost)| (format!("{name}, one core"), cost));
    others.chain(apart.chain(shared).map(in_batches)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_written_is_told_before_measuring() {
        let refused = writable(Path::new("/proc/no-such/hardware.toml")).unwrap_err().to_string();
        assert!(refused.starts_with("/proc/no-such/hardware.toml: "), "{refused}");
        assert!(refused.contains("--out FILE"), "{refused}");
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("new/hardware.toml");
        writable(&place).unwrap();
        assert!(!place.exists(), "nothing is left");
        std::fs::write(&place, "kept").unwrap();
        writable(&place).unwrap();
        assert_eq!(std::fs::read_to_string(&place).unwrap(), "kept");
    }

    #[test]
    fn two_calibrations_are_compared_by_what_matters() {
        let made = |each: f64, batch: f64| {
            let text = format!(
                "name = \"a\"\ncores = 1\nclock_hz = {{ value = 1e9, source = \"\" }}\n[[levels]]\n\
                 name = \"L1\"\nbytes = 100\ndependent = {{ value = 4, source = \"\" }}\n\
                 prefetched = {{ value = 1, source = \"\" }}\nstream = {{ value = 1, source = \"\" }}\n\
                 [operations.sort]\neach = {{ value = {each}, source = \"\" }}\n\
                 batch = {{ value = {batch}, source = \"\" }}\n"
            );
            Hardware::parse("made", &text).unwrap()
        };
        // 10 + 32/32 and 8 + 96/32 cycles: the same, though both parts differ.
        let report = repeated(&made(10.0, 32.0), &made(8.0, 96.0));
        assert!(report.contains("0 of 4 are more than 5 %"), "{report}");
        let report = repeated(&made(10.0, 32.0), &made(12.0, 32.0));
        assert!(
            report.contains("1 of 4 are more than 5 %") && report.contains("16.7 %"),
            "{report}"
        );
        // Half of nothing is nothing.
        let report = repeated(&made(0.2, 0.0), &made(0.1, 0.0));
        assert!(report.contains("0 of 4 are more"), "{report}");
    }

    #[test]
    fn numbers_have_the_digits_they_deserve() {
        assert_eq!([4.126, 41.26, 412.6].map(digits), ["4.13", "41.3", "413"]);
        let constant = Constant { value: 4.1, spread: Some(0.05), source: String::new() };
        assert_eq!(spread(&constant), "4.10 ±0.05");
    }
}
