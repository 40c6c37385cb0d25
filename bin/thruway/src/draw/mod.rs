//! Pictures in SVG, and pages in HTML that hold them: what benches and estimates draw with.

mod lines;
mod stacks;

use std::fmt::Write as _;

pub use lines::{Curve, Lines, Marks};
pub use stacks::{Stack, stacks};

/// Left edge of the plane of a picture with two axes, pixels.
pub const LEFT: f64 = 70.0;
/// Top edge of the plane, pixels.
pub const TOP: f64 = 60.0;
/// Width of the plane, pixels.
pub const WIDTH: f64 = 640.0;
/// Height of the plane, pixels.
pub const HEIGHT: f64 = 300.0;
const RIGHT: f64 = 70.0;
const BOTTOM: f64 = 50.0;

const COLOURS: [&str; 8] =
    ["#4a7fb5", "#d98032", "#5a9e5a", "#c0504d", "#8064a2", "#4bacc6", "#7f7f7f", "#b5a642"];

/// The colour of the nth of a picture's things.
pub fn colour(nth: usize) -> &'static str {
    COLOURS[nth % COLOURS.len()]
}

/// Text as it stands in SVG and HTML.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A round number between two lines of the grid, for some five lines.
pub fn grid_step(max: f64) -> f64 {
    let rough = (max / 5.0).max(f64::MIN_POSITIVE);
    let power = 10_f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| *s >= rough).unwrap_or(rough)
}

/// Each value once, in the order of first appearance.
pub fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    values.fold(Vec::new(), |mut all, value| {
        if !all.contains(&value) {
            all.push(value);
        }
        all
    })
}

/// The beginning of a picture of this size, in pixels, under a title.
pub fn open(width: f64, height: f64, title: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"10\" y=\"20\" font-size=\"15\">{}</text>\n",
        escape(title)
    )
}

/// The beginning of a picture with two axes.
pub fn open_plane(title: &str) -> String {
    open(LEFT + WIDTH + RIGHT, TOP + HEIGHT + BOTTOM, title)
}

/// The names of a picture's things beside their colours, each `step` pixels from the last.
pub fn legend(out: &mut String, names: &[String], step: f64) {
    for (nth, name) in names.iter().enumerate() {
        let x = LEFT + step * nth as f64;
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "<rect x=\"{x:.1}\" y=\"32\" width=\"10\" height=\"10\" fill=\"{}\"/>\
             <text x=\"{:.1}\" y=\"41\" font-size=\"10\">{}</text>",
            colour(nth),
            x + 14.0,
            escape(name)
        );
    }
}

/// Lines and numbers of a vertical axis up to `max`; the scale, pixels per unit.
pub fn axis(out: &mut String, max: f64, name: &str, is_right: bool) -> f64 {
    let max = max.max(1e-9);
    let scale = HEIGHT / max;
    let (x, anchor) = if is_right { (LEFT + WIDTH + 6.0, "start") } else { (LEFT - 6.0, "end") };
    let step = grid_step(max);
    let mut at = 0.0;
    while at <= max * 1.0001 {
        let y = TOP + HEIGHT - at * scale;
        if !is_right {
            let _ = writeln!(
                out,
                "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>",
                LEFT + WIDTH
            );
        }
        let number = format!("{:.3}", at);
        let number = number.trim_end_matches('0').trim_end_matches('.');
        let _ = writeln!(
            out,
            "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\" fill=\"#666\">{number}</text>",
            y + 4.0
        );
        at += step;
    }
    let _ = writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{name}</text>",
        TOP - 8.0
    );
    scale
}

/// What the horizontal axis shows.
pub fn caption(out: &mut String, text: &str) {
    let _ = writeln!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>",
        LEFT + WIDTH / 2.0,
        TOP + HEIGHT + 36.0
    );
}

/// A page that needs nothing beside itself; `body` is HTML.
pub fn page(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <title>{title}</title>\n<style>\n\
         body {{ font-family: sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; }}\n\
         pre {{ overflow-x: auto; background: #f6f6f6; padding: 1em; font-size: 12px; }}\n\
         svg {{ max-width: 100%; }}\n</style>\n</head>\n<body>\n<h1>{title}</h1>\n{body}\
         </body>\n</html>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_are_round() {
        for (max, step) in [(5.0, 1.0), (7.0, 2.0), (155.0, 50.0), (4535.0, 1000.0), (0.3, 0.1)] {
            assert!((grid_step(max) - step).abs() < 1e-9, "{max}: {}", grid_step(max));
        }
    }

    #[test]
    fn pages_and_titles_are_escaped() {
        let picture = open_plane("a<b");
        assert!(picture.contains(">a&lt;b</text>"), "{picture}");
        let text = page("x & y", "<p>z</p>\n");
        assert!(text.contains("<title>x &amp; y</title>") && text.contains("<p>z</p>"), "{text}");
    }
}
