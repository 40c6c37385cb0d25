//! Rows as a picture: a bar chart in SVG.

use std::fmt::Write as _;

use super::row::Row;
use thruway::draw::{escape, grid_step, open};

const LEFT: f64 = 230.0;
const WIDTH: f64 = 560.0;
const STEP: f64 = 24.0;
const BAR: f64 = 15.0;
const TOP: f64 = 48.0;

/// A horizontal bar per row: ns/packet with its spread as a whisker and its goal as a mark.
pub fn svg(suite: &str, rows: &[Row]) -> String {
    let reach = rows.iter().map(|row| row.ns_max.max(row.goal_ns().unwrap_or(0.0)));
    let max = reach.filter(|reach| reach.is_finite()).fold(1.0, f64::max);
    let scale = WIDTH / max;
    let height = TOP + STEP * rows.len() as f64 + 30.0;
    let title = format!(
        "bench {suite}: ns/packet of CPU time (bar: median, whisker: min to max, red: goal)"
    );
    let mut out = open(LEFT + WIDTH + 70.0, height, &title);
    grid(&mut out, max, scale, height);
    for (at, row) in rows.iter().enumerate() {
        bar(&mut out, row, TOP + STEP * at as f64, scale);
    }
    out + "</svg>\n"
}

fn grid(out: &mut String, max: f64, scale: f64, height: f64) {
    let step = grid_step(max);
    let mut at = 0.0;
    while at <= max * 1.0001 {
        let x = LEFT + at * scale;
        // Writing to a string cannot fail.
        let _ = write!(
            out,
            "<line x1=\"{x:.1}\" y1=\"{:.1}\" x2=\"{x:.1}\" y2=\"{:.1}\" stroke=\"#ddd\"/>\n\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#666\">{at}</text>\n",
            TOP - 6.0,
            height - 26.0,
            height - 10.0
        );
        at += step;
    }
}

fn bar(out: &mut String, row: &Row, y: f64, scale: f64) {
    let middle = y + BAR / 2.0;
    let x = |ns: f64| LEFT + ns * scale;
    let _ = write!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n\
         <rect x=\"{LEFT}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{BAR}\" fill=\"#4a7fb5\"/>\n",
        LEFT - 8.0,
        y + BAR - 3.0,
        escape(&row.case),
        row.ns * scale
    );
    let end = if row.ns_max.is_finite() && row.ns_min.is_finite() {
        let _ = writeln!(
            out,
            "<line x1=\"{:.1}\" y1=\"{middle:.1}\" x2=\"{:.1}\" y2=\"{middle:.1}\" \
             stroke=\"black\"/>",
            x(row.ns_min),
            x(row.ns_max)
        );
        row.ns_max
    } else {
        row.ns
    };
    if let Some(goal) = row.goal_ns() {
        let _ = writeln!(
            out,
            "<line x1=\"{0:.1}\" y1=\"{1:.1}\" x2=\"{0:.1}\" y2=\"{2:.1}\" stroke=\"#c22\" \
             stroke-width=\"2\"/>",
            x(goal),
            y - 3.0,
            y + BAR + 3.0
        );
    }
    let _ = writeln!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\">{:.1}</text>",
        x(end.max(row.goal_ns().unwrap_or(0.0))) + 6.0,
        y + BAR - 3.0,
        row.ns
    );
}

#[cfg(test)]
mod tests {
    use super::super::case::Goal;
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_its_number() {
        let mut row = Row::new("a<b", &[]);
        (row.ns, row.ns_min, row.ns_max) = (10.0, 5.0, 20.0);
        row.goal = Some(Goal::Ns(2.0));
        let picture = svg("x", &[row]);
        assert!(picture.contains(&format!("width=\"{:.1}\"", WIDTH / 2.0)), "{picture}");
        assert!(picture.contains("a&lt;b") && picture.ends_with("</svg>\n"), "{picture}");
        assert_eq!(picture.matches("#c22").count(), 1);
    }
}
