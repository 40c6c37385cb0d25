//! Curves over a horizontal axis of numbers.

use std::fmt::Write as _;

use super::{HEIGHT, LEFT, TOP, WIDTH, axis, caption, colour, grid_step, legend, open_plane};

/// How a curve is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marks {
    /// A line through its points.
    Line,
    /// A dashed line.
    Dashes,
    /// Its points alone.
    Circles,
}

/// A curve.
pub struct Curve {
    /// Of the legend.
    pub name: String,
    /// Where it passes; the first of each pair from left to right.
    pub points: Vec<(f64, f64)>,
    /// How it is drawn.
    pub marks: Marks,
}

/// A picture of curves.
pub struct Lines<'a> {
    /// Above the picture.
    pub title: &'a str,
    /// What the horizontal axis shows.
    pub across: &'a str,
    /// What the vertical axis shows.
    pub up: &'a str,
    /// Both axes begin at zero.
    pub curves: &'a [Curve],
}

impl Lines<'_> {
    /// The picture.
    pub fn svg(&self) -> String {
        let mut out = open_plane(self.title);
        let names: Vec<String> = self.curves.iter().map(|curve| curve.name.clone()).collect();
        legend(&mut out, &names, WIDTH / names.len().max(1) as f64);
        let points = || self.curves.iter().flat_map(|curve| &curve.points);
        let highest = points().map(|(_, y)| *y).filter(|y| y.is_finite()).fold(0.0, f64::max);
        let scale = axis(&mut out, highest, self.up, false);
        let right = points().map(|(x, _)| *x).fold(f64::MIN_POSITIVE, f64::max);
        numbers_across(&mut out, right);
        let place = |(x, y): (f64, f64)| (LEFT + WIDTH * x / right, TOP + HEIGHT - y * scale);
        for (nth, curve) in self.curves.iter().enumerate() {
            let points = curve.points.iter().filter(|(_, y)| y.is_finite());
            let points: Vec<(f64, f64)> = points.map(|point| place(*point)).collect();
            draw(&mut out, &points, colour(nth), curve.marks);
        }
        caption(&mut out, self.across);
        out + "</svg>\n"
    }
}

fn numbers_across(out: &mut String, right: f64) {
    let step = grid_step(right);
    let mut at = 0.0;
    while at <= right * 1.0001 {
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#666\">{at}</text>",
            LEFT + WIDTH * at / right,
            TOP + HEIGHT + 16.0
        );
        at += step;
    }
}

fn draw(out: &mut String, points: &[(f64, f64)], colour: &str, marks: Marks) {
    if marks == Marks::Circles {
        for (x, y) in points {
            let _ = writeln!(
                out,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"white\" stroke=\"{colour}\" \
                 stroke-width=\"2\"/>"
            );
        }
        return;
    }
    let places: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let dashes = if marks == Marks::Dashes { " stroke-dasharray=\"6 4\"" } else { "" };
    let _ = writeln!(
        out,
        "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dashes} points=\"{}\"/>",
        places.join(" ")
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_lie_where_their_numbers_say() {
        let curve = |marks| Curve {
            name: "a".into(),
            points: vec![(0.0, 0.0), (50.0, 2.0), (75.0, f64::INFINITY), (100.0, 4.0)],
            marks,
        };
        let curves = [curve(Marks::Dashes), curve(Marks::Circles)];
        let picture = Lines { title: "t", across: "x", up: "y", curves: &curves }.svg();
        let middle = (LEFT + WIDTH / 2.0, TOP + HEIGHT / 2.0);
        let line = format!("points=\"70.0,360.0 {:.1},{:.1} 710.0,60.0\"", middle.0, middle.1);
        assert!(picture.contains(&line), "{picture}");
        assert!(picture.contains(&format!("cx=\"{:.1}\" cy=\"{:.1}\"", middle.0, middle.1)));
        assert_eq!(picture.matches("<circle").count(), 3);
        assert!(picture.contains("stroke-dasharray") && picture.ends_with("</svg>\n"));
    }

    #[test]
    fn a_picture_of_nothing_is_one() {
        let picture = Lines { title: "t", across: "x", up: "y", curves: &[] }.svg();
        assert!(picture.starts_with("<svg") && !picture.contains("NaN"), "{picture}");
    }
}
