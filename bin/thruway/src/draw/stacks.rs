//! Horizontal bars of parts, one after the other.

use std::fmt::Write as _;

use super::{TOP, colour, distinct, escape, grid_step, open};

const NAMES: f64 = 150.0;
const WIDTH: f64 = 560.0;
const STEP: f64 = 26.0;
const BAR: f64 = 17.0;

/// A bar.
pub struct Stack {
    /// What it is of.
    pub name: String,
    /// Its parts, from the left: name and length.
    pub parts: Vec<(String, f64)>,
}

/// The picture of bars, with a legend of the parts' names; parts of the same name have one colour.
pub fn stacks(title: &str, unit: &str, bars: &[Stack]) -> String {
    let names = distinct(bars.iter().flat_map(|bar| bar.parts.iter().map(|(name, _)| name)));
    let total = |bar: &Stack| bar.parts.iter().map(|(_, length)| length).sum::<f64>();
    let max = bars.iter().map(total).fold(f64::MIN_POSITIVE, f64::max);
    let top = TOP + 16.0 * names.len().div_ceil(4) as f64;
    let height = top + STEP * bars.len() as f64 + 40.0;
    let mut out = open(NAMES + WIDTH + 90.0, height, title);
    legend(&mut out, &names);
    grid(&mut out, (top - 6.0, height - 36.0), max, unit);
    for (nth, bar) in bars.iter().enumerate() {
        let y = top + STEP * nth as f64;
        draw(&mut out, bar, &names, y, WIDTH / max);
    }
    out + "</svg>\n"
}

/// Four names in a row.
fn legend(out: &mut String, names: &[&String]) {
    for (nth, name) in names.iter().enumerate() {
        let (x, y) = (10.0 + 195.0 * (nth % 4) as f64, 34.0 + 16.0 * (nth / 4) as f64);
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"10\" height=\"10\" {}/>\
             <text x=\"{:.1}\" y=\"{:.1}\" font-size=\"10\">{}</text>",
            fill(nth),
            x + 14.0,
            y + 9.0,
            escape(name)
        );
    }
}

/// The colour, paler from the ninth thing on.
fn fill(nth: usize) -> String {
    let opacity = if nth < 8 { "" } else { " fill-opacity=\"0.5\"" };
    format!("fill=\"{}\"{opacity}", colour(nth))
}

fn grid(out: &mut String, (top, bottom): (f64, f64), max: f64, unit: &str) {
    let step = grid_step(max);
    let mut at = 0.0;
    while at <= max * 1.0001 {
        let x = NAMES + WIDTH * at / max;
        let _ = writeln!(
            out,
            "<line x1=\"{x:.1}\" y1=\"{top:.1}\" x2=\"{x:.1}\" y2=\"{bottom:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#666\">{at}</text>",
            bottom + 14.0
        );
        at += step;
    }
    let _ = writeln!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
        NAMES + WIDTH / 2.0,
        bottom + 30.0,
        escape(unit)
    );
}

fn draw(out: &mut String, bar: &Stack, names: &[&String], y: f64, scale: f64) {
    let _ = writeln!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
        NAMES - 8.0,
        y + BAR - 4.0,
        escape(&bar.name)
    );
    let mut x = NAMES;
    for (name, length) in &bar.parts {
        let nth = names.iter().position(|known| *known == name).unwrap_or(0);
        let width = length * scale;
        let _ = writeln!(
            out,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{BAR}\" {}>\
             <title>{}: {length:.1}</title></rect>",
            fill(nth),
            escape(name)
        );
        x += width;
    }
    let total: f64 = bar.parts.iter().map(|(_, length)| length).sum();
    let _ =
        writeln!(out, "<text x=\"{:.1}\" y=\"{:.1}\">{total:.0}</text>", x + 6.0, y + BAR - 4.0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_one_another_and_share_colours() {
        let bar = |name: &str, parts: &[(&str, f64)]| Stack {
            name: name.into(),
            parts: parts.iter().map(|(name, length)| ((*name).into(), *length)).collect(),
        };
        let bars = [bar("one", &[("a", 30.0), ("b", 10.0)]), bar("two", &[("b", 20.0)])];
        let picture = stacks("t", "cycles", &bars);
        let first = format!("x=\"150.0\" y=\"{:.1}\" width=\"420.0\"", TOP + 16.0);
        let second = format!("x=\"570.0\" y=\"{:.1}\" width=\"140.0\"", TOP + 16.0);
        assert!(picture.contains(&first) && picture.contains(&second), "{picture}");
        // Twice as a part, once in the legend.
        assert_eq!(picture.matches(colour(1)).count(), 3);
        assert!(picture.contains(">40</text>") && picture.contains(">20</text>"));
    }
}
