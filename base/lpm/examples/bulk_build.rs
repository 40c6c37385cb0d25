//! How long it takes to enter many routes at once, as at a start: `Fib4::insert_all`.
//!
//! `cargo run --release -p thruway-lpm --example bulk_build > bench/record/lpm-DATE.json`
//!
//! A row per table: milliseconds of processor time, the median of the repeats with the fastest and
//! the slowest. *nested*: every prefix of 1 to 17 bits, as long as there are some, from the
//! shortest, and in reverse order; *flat*: as many that do not nest; *table*: as large as the
//! Internet's and as its lengths are, *in order* of the addresses, or *drawn*: in no order.

use thruway_lpm::{Fib4, Prefix, Prefix4, Route, synthetic};

const REPEATS: usize = 5;
const NESTED: usize = 160_000;
const MANY: usize = 1_000_000;
/// Gateways and ports of the drawn table.
const ENDS: (u32, u32) = (64, 4);

type Table = Vec<(Prefix4, Route<u32>)>;

fn main() {
    let mut cases = vec![("flat", numbered(18..=18)), ("nested", numbered(1..=17))];
    let mut reversed = cases[1].1.clone();
    reversed.reverse();
    let drawn: Table = synthetic::routes::<u32>(MANY, 7, ENDS.0, ENDS.1);
    let mut in_order = drawn.clone();
    in_order.sort_by_key(|(prefix, _)| *prefix);
    cases.extend([("nested, reversed", reversed), ("table, drawn", drawn)]);
    cases.push(("table, in order", in_order));
    println!("{{\n  \"bench\": \"lpm\",\n  \"version\": \"{}\",", env!("CARGO_PKG_VERSION"));
    let (model, load) = (line("/proc/cpuinfo", "model name"), line("/proc/loadavg", ""));
    let load = load.split(' ').next().unwrap_or_default();
    println!("  \"model\": \"{}\",\n  \"load\": \"{load}\",\n  \"rows\": [", model.trim());
    let rows: Vec<String> = cases.iter().map(|(name, table)| row(name, table)).collect();
    println!("{}\n  ]\n}}", rows.join(",\n"));
}

/// The rest of a file's first line that begins so, behind a colon if there is one.
fn line(file: &str, begin: &str) -> String {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let found = text.lines().find_map(|line| line.strip_prefix(begin)).unwrap_or_default();
    found.trim_start().trim_start_matches(':').to_owned()
}

/// Prefixes of these lengths, from the shortest.
fn numbered(lens: std::ops::RangeInclusive<u8>) -> Table {
    let of_len = |len: u8| (0..1u32 << len).map(move |at| (at << (32 - len), len, at % 5));
    let entry =
        |(net, len, port)| (Prefix::new(net, len).expect("a prefix"), Route { gateway: 0, port });
    lens.flat_map(of_len).map(entry).take(NESTED).collect()
}

/// Milliseconds of processor time that this process took: others on the machine are not in it.
fn worked_ms() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let ns = text.split(' ').next().and_then(|word| word.parse::<f64>().ok());
    ns.expect("a kernel that counts") / 1e6
}

/// Enters a table some times.
fn row(name: &str, table: &Table) -> String {
    let mut times: Vec<f64> = (0..REPEATS)
        .map(|_| {
            let fib = Fib4::new().expect("memory");
            let begin = worked_ms();
            fib.insert_all(table).expect("there is room for all");
            let took = worked_ms() - begin;
            assert_eq!(fib.len(), table.len());
            took
        })
        .collect();
    times.sort_by(f64::total_cmp);
    let [least, median, most] = [0, REPEATS / 2, REPEATS - 1].map(|at| times[at]);
    format!(
        "    {{\"case\": \"{name}\", \"prefixes\": {}, \"ms\": {median:.1}, \"ms_least\": {least:.1}, \
         \"ms_most\": {most:.1}}}",
        table.len()
    )
}
