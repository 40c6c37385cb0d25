mod files;
mod formulas;
mod oracle;

use std::fmt::Write as _;

use super::{PlanFile, Problem};
use crate::Hardware;

/// A host of 1 GHz: L1 of 1 kB, a last cache of 10 kB per core, 1 MB of memory.
fn hardware(cores: u32, sockets: u32) -> Hardware {
    let mut text = format!("name = \"made up\"\ncores = {cores}\nsockets = {sockets}\n");
    text += "[clock_hz]\nvalue = 1e9\nsource = \"made up\"\n";
    let levels = [("L1", 1e3, 4, 1, 1), ("L3", 1e4, 40, 10, 5), ("DRAM", 1e6, 240, 60, 20)];
    for (name, bytes, dependent, prefetched, stream) in levels {
        let _ = writeln!(text, "[[levels]]\nname = \"{name}\"\nbytes = {bytes:.1}");
        let constants = [("dependent", dependent), ("prefetched", prefetched), ("stream", stream)];
        for (field, value) in constants {
            let _ = writeln!(text, "{field} = {{ value = {value}, source = \"made up\" }}");
        }
    }
    text += "[between_cores]\n";
    for (field, value) in [("line", 80), ("wake", 1600), ("woken", 3200)] {
        let _ = writeln!(text, "{field} = {{ value = {value}, source = \"made up\" }}");
    }
    text += "[links.wan]\nbits = 1e9\noverhead = 24\n";
    Hardware::parse("made-up.toml", &text).unwrap()
}

/// The problem of a plan file in which all functions are by hand; hosts as (cores, sockets).
fn problem(text: &str, hosts: &[(u32, u32)]) -> Problem {
    let file = PlanFile::parse("plan.toml", text).unwrap();
    let hardware = hosts.iter().map(|(cores, sockets)| hardware(*cores, *sockets)).collect();
    Problem::new(&file, hardware, &|_, _| Err("nothing to estimate here".into())).unwrap()
}
