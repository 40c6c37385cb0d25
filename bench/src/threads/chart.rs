//! A figure as a picture.

use super::figures::{Figure, Shows};
use super::report::{Row, Rows};
use thruway::draw::{Curve, Lines, Marks, distinct};

/// The picture of a figure's rows.
pub fn svg(figure: &Figure, rows: &Rows) -> String {
    let title = format!("Figure {}: {}", figure.name, figure.title);
    let (up, mut curves) = match figure.shows {
        Shows::Rates => ("Mpps", curves(&rows.rows, rate_series, |row| Some(row.rate() / 1e6))),
        Shows::Relative => (
            "rate of parallel, percent of returning's",
            curves(
                &rows.rows,
                |row| row.series.clone(),
                |row| row.gain.map(|[middle, ..]| 100.0 + middle),
            ),
        ),
    };
    if figure.is_log {
        let points = curves.iter_mut().flat_map(|curve| &mut curve.points);
        points.for_each(|(x, _)| *x = x.log2());
    }
    Lines { title: &title, across: figure.across, up, curves: &curves }.svg()
}

/// A placement's curve: how many cores there are beside one for each stage belongs to it where that
/// differs within a figure.
fn rate_series(row: &Row) -> String {
    match row.placement.cores - row.placement.stages {
        0 => row.placement.name(),
        more => format!("{} +{more}", row.placement.name()),
    }
}

fn curves(
    rows: &[Row],
    series: impl Fn(&Row) -> String,
    value: impl Fn(&Row) -> Option<f64>,
) -> Vec<Curve> {
    let names = distinct(rows.iter().filter(|row| value(row).is_some()).map(&series));
    let curve = |name: String| {
        let own = rows.iter().filter(|row| series(row) == name);
        let points = own.filter_map(|row| Some((row.x, value(row)?))).collect();
        let marks = if name.contains("one by one") { Marks::Dashes } else { Marks::Line };
        Curve { name, points, marks }
    };
    names.into_iter().map(curve).collect()
}
