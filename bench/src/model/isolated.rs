//! Isolated functions: programs and elements in processes of their own, in chains of one to three,
//! in a trust group, and on the thread's core.

use std::fmt::Write as _;

use thruway_element::text::quote;

use crate::child::beside;

/// Functions of a chain.
const COUNTS: [usize; 3] = [1, 2, 3];
/// Bytes of a packet.
const SIZES: [usize; 3] = [60, 512, 1400];

/// What the functions are, and how packets go there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Program,
    Elements,
    Group,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Mode::Program => "nf",
            Mode::Elements => "isolate",
            Mode::Group => "group",
        }
    }
}

/// Names and texts; `cores`: those that the bench may use, of which the thread has the last.
pub fn all(cores: &[usize]) -> anyhow::Result<Vec<(String, String)>> {
    let (own, other) = (cores.last().copied().unwrap_or(0), cores.first().copied().unwrap_or(0));
    let mut texts = Vec::new();
    let mut add = |mode: Mode, count: usize, size: usize, (place, core): (&str, usize)| {
        let name = format!("isolated/{}/{count}/{size}{place}", mode.name());
        texts.push((name, text(mode, (count, size), core)?));
        anyhow::Ok(())
    };
    for count in COUNTS {
        for size in SIZES {
            add(Mode::Program, count, size, ("", other))?;
            add(Mode::Elements, count, size, ("", other))?;
        }
    }
    for (count, size) in [(1, 60), (3, 60), (1, 1400), (3, 1400)] {
        add(Mode::Group, count, size, ("", other))?;
    }
    for mode in [Mode::Program, Mode::Elements] {
        for count in [1, 3] {
            add(mode, count, 60, ("/one-core", own))?;
        }
    }
    Ok(texts)
}

fn text(mode: Mode, (count, size): (usize, usize), core: usize) -> anyhow::Result<String> {
    let more = format!("CPUS \"{core}\", ISOLATION relaxed, STANDBY false");
    let program = beside("thruway-bench-count-function")?;
    let exec = quote(program.to_string_lossy().as_bytes());
    let mut text = String::new();
    if mode == Mode::Group {
        text += "TrustGroup(bench, FRAMES 8192);\n";
    }
    for nth in 1..=count {
        let _ = match mode {
            Mode::Program => writeln!(text, "c{nth} :: Nf(EXEC {exec}, {more});"),
            Mode::Elements => writeln!(text, "c{nth} :: Counter; Isolate(c{nth}, {more});"),
            Mode::Group => {
                writeln!(text, "c{nth} :: Nf(EXEC {exec}, {more}, MODE group, GROUP bench);")
            }
        };
    }
    let chain: String = (1..=count).map(|nth| format!(" -> c{nth}")).collect();
    Ok(text
        + &format!(
            "source :: InfiniteSource(LENGTH {size}, LIMIT -1, BURST 64){chain} -> Discard;"
        ))
}
