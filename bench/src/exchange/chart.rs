//! A figure as a picture: groups of bars with points over them, or curves, in SVG.

use std::fmt::Write as _;

use super::figures::{Figure, Shows};
use super::table::Row;
use crate::latency::Latencies;
use thruway::draw::{
    HEIGHT, LEFT, TOP, WIDTH, axis, caption, colour, distinct, legend, open_plane,
};

/// The picture.
pub fn svg(figure: &Figure, rows: &[Row]) -> String {
    let mut out = open_plane(&format!("Figure {}: {}", figure.name, figure.title));
    let series = distinct(rows.iter().map(|row| row.point.series.clone()));
    legend(&mut out, &series, 110.0);
    match figure.shows {
        Shows::Throughput => bars(&mut out, rows, &series, true),
        Shows::Internal => bars(&mut out, rows, &series, false),
        Shows::Latency => curves(&mut out, rows),
    }
    out + "</svg>\n"
}

/// A group of bars (Mpps, left axis) per place, with whiskers and points (Gbit/s, right axis).
fn bars(out: &mut String, rows: &[Row], series: &[String], is_end: bool) {
    let value = |row: &Row| if is_end { row.rate } else { row.internal } / 1e6;
    let max = rows.iter().map(|row| value(row).max(if is_end { row.rate_max / 1e6 } else { 0.0 }));
    let scale = axis(out, max.fold(0.0, f64::max), "Mpps", false);
    let bits_max = rows.iter().map(|row| row.bits() / 1e9).fold(0.0, f64::max);
    let bits_scale = if is_end { axis(out, bits_max, "Gbit/s", true) } else { 0.0 };
    let places = distinct(rows.iter().map(|row| row.point.x));
    let group = WIDTH / places.len().max(1) as f64;
    let bar = group * 0.8 / series.len().max(1) as f64;
    let floor = TOP + HEIGHT;
    for row in rows {
        let column = places.iter().position(|x| *x == row.point.x).unwrap_or(0);
        let nth = series.iter().position(|name| *name == row.point.series).unwrap_or(0);
        let x = LEFT + group * (column as f64 + 0.1) + bar * nth as f64;
        let height = value(row) * scale;
        let _ = writeln!(
            out,
            "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{bar:.1}\" height=\"{height:.1}\" \
             fill=\"{}\"/>",
            floor - height,
            colour(nth)
        );
        if is_end {
            let middle = x + bar / 2.0;
            let _ = writeln!(
                out,
                "<line x1=\"{middle:.1}\" y1=\"{:.1}\" x2=\"{middle:.1}\" y2=\"{:.1}\" \
                 stroke=\"black\"/>\
                 <circle cx=\"{middle:.1}\" cy=\"{:.1}\" r=\"2.5\" fill=\"white\" stroke=\"{}\"/>",
                floor - row.rate_min / 1e6 * scale,
                floor - row.rate_max / 1e6 * scale,
                floor - row.bits() / 1e9 * bits_scale,
                colour(nth)
            );
        }
    }
    for (column, x) in places.iter().enumerate() {
        let middle = LEFT + group * (column as f64 + 0.5);
        let _ = writeln!(
            out,
            "<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{x}</text>",
            floor + 16.0
        );
    }
    let name = if is_end { "Workers or chains (bars: Mpps, circles: Gbit/s)" } else { "Workers" };
    caption(out, name);
}

/// A distribution's curve per row, over the decades of microseconds.
fn curves(out: &mut String, rows: &[Row]) {
    let scale = axis(out, 100.0, "% of packets", false);
    let us = |latencies: &Latencies, percent| (latencies.percentile_ns(percent) / 1e3).max(0.1);
    let low = rows.iter().map(|row| us(&row.latencies, 0.0)).fold(f64::INFINITY, f64::min);
    let high = rows.iter().map(|row| us(&row.latencies, 100.0)).fold(1.0, f64::max);
    let (first, last) = (low.min(high).log10().floor(), high.log10().ceil());
    let x = |us: f64| LEFT + WIDTH * (us.log10() - first) / (last - first).max(1.0);
    let mut decade = first;
    while decade <= last {
        let at = x(10_f64.powf(decade));
        let _ = writeln!(
            out,
            "<line x1=\"{at:.1}\" y1=\"{TOP}\" x2=\"{at:.1}\" y2=\"{:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            TOP + HEIGHT,
            TOP + HEIGHT + 16.0,
            10_f64.powf(decade)
        );
        decade += 1.0;
    }
    for (nth, row) in rows.iter().enumerate() {
        let _ = write!(out, "<polyline fill=\"none\" stroke=\"{}\" points=\"", colour(nth));
        for percent in 0..=100 {
            let percent = f64::from(percent);
            let y = TOP + HEIGHT - percent * scale;
            let _ = write!(out, "{:.1},{y:.1} ", x(us(&row.latencies, percent)));
        }
        let _ = writeln!(out, "\"/>");
    }
    caption(out, "latency, microseconds");
}
