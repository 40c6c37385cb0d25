//! A graph drawn in layers as a self-contained SVG.

use std::fmt::Write as _;

use crate::checked::Checked;
use crate::dot::{escape, stroke};
use crate::graph::Graph;

const BOX_HEIGHT: usize = 46;
const LAYER_GAP: usize = 62;
const BOX_GAP: usize = 28;
const MARGIN: usize = 24;
const LETTER_WIDTH: usize = 8;
const PORT_GAP: usize = 18;
/// How often layers are put in order by their neighbours.
const SWEEPS: usize = 6;

/// Where an element's box is.
#[derive(Debug, Clone, Copy, Default)]
struct BoxRect {
    x: usize,
    y: usize,
    width: usize,
}

/// An SVG picture: boxes with names and classes, port numbers, arrows coloured as in
/// [`dot`](crate::dot::dot()).
pub fn svg(graph: &Graph, checked: &Checked) -> String {
    let layers = layers(graph, checked);
    let layout = layout(graph, checked, &layers);
    let right = layout.iter().map(|rect| rect.x + rect.width).max().unwrap_or(0) + MARGIN;
    let bottom = layout.iter().map(|rect| rect.y + BOX_HEIGHT).max().unwrap_or(0) + MARGIN;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{right}\" height=\"{bottom}\" \
         viewBox=\"0 0 {right} {bottom}\" font-family=\"sans-serif\">\n<defs>\n"
    );
    for (id, color) in MARKERS {
        let fill = if id.starts_with("pull") { "#ffffff" } else { color };
        let _ = writeln!(
            out,
            "<marker id=\"{id}\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"8\" \
             markerHeight=\"8\" orient=\"auto\"><path d=\"M0,1 L9,5 L0,9 z\" fill=\"{fill}\" \
             stroke=\"{color}\"/></marker>"
        );
    }
    out.push_str("</defs>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n");
    edges(graph, checked, &layout, &mut out);
    for (index, rect) in layout.iter().enumerate() {
        element(graph, checked, index, *rect, &mut out);
    }
    out.push_str("</svg>\n");
    out
}

const MARKERS: [(&str, &str); 4] =
    [("push", "#1f5fa8"), ("push-a", "#7fa8d8"), ("pull", "#c05a00"), ("pull-a", "#e0a060")];

/// Elements by layer: each below those that lead to it, loops aside.
fn layers(graph: &Graph, checked: &Checked) -> Vec<Vec<usize>> {
    let count = graph.elements.len();
    let mut position = vec![0; count];
    let order: Vec<usize> =
        if checked.order.len() == count { checked.order.clone() } else { (0..count).collect() };
    order.iter().enumerate().for_each(|(at, element)| position[*element] = at);
    let mut next = vec![Vec::new(); count];
    for edge in &graph.edges {
        next[edge.from.element].push(edge.to.element);
    }
    let mut layer = vec![0; count];
    for element in &order {
        for to in next[*element].iter().filter(|to| position[**to] > position[*element]) {
            layer[*to] = layer[*to].max(layer[*element] + 1);
        }
    }
    let mut layers = vec![Vec::new(); layer.iter().max().map_or(0, |last| last + 1)];
    order.iter().for_each(|element| layers[layer[*element]].push(*element));
    sort_layers(graph, &mut layers);
    layers
}

/// Puts every layer in the order of the mean position of its neighbours, several times.
fn sort_layers(graph: &Graph, layers: &mut [Vec<usize>]) {
    let mut neighbours = vec![Vec::new(); graph.elements.len()];
    for edge in &graph.edges {
        neighbours[edge.from.element].push(edge.to.element);
        neighbours[edge.to.element].push(edge.from.element);
    }
    let mut at = vec![0usize; graph.elements.len()];
    for _ in 0..SWEEPS {
        for layer in layers.iter_mut() {
            layer.iter().enumerate().for_each(|(index, element)| at[*element] = index);
        }
        for layer in layers.iter_mut() {
            // In thousandths; without neighbours an element stays.
            layer.sort_by_cached_key(|element| {
                let around = &neighbours[*element];
                let sum: usize = around.iter().map(|other| 1000 * at[*other]).sum();
                sum.checked_div(around.len()).unwrap_or(1000 * at[*element])
            });
            layer.iter().enumerate().for_each(|(index, element)| at[*element] = index);
        }
    }
}

fn layout(graph: &Graph, checked: &Checked, layers: &[Vec<usize>]) -> Vec<BoxRect> {
    let width = |index: usize| {
        let element = &graph.elements[index];
        let text = element.name.chars().count().max(element.class.chars().count()) * LETTER_WIDTH;
        let ports = checked.elements.get(index).map_or(0, |p| p.inputs.len().max(p.outputs.len()));
        (text + 20).max(ports * PORT_GAP + 8).max(70)
    };
    let row = |layer: &Vec<usize>| -> usize {
        layer.iter().map(|index| width(*index) + BOX_GAP).sum::<usize>().saturating_sub(BOX_GAP)
    };
    let widest = layers.iter().map(row).max().unwrap_or(0);
    let mut layout = vec![BoxRect::default(); graph.elements.len()];
    for (depth, layer) in layers.iter().enumerate() {
        let mut x = MARGIN + (widest - row(layer)) / 2;
        for index in layer {
            let y = MARGIN + depth * (BOX_HEIGHT + LAYER_GAP);
            layout[*index] = BoxRect { x, y, width: width(*index) };
            x += width(*index) + BOX_GAP;
        }
    }
    layout
}

/// The middle of port `port` of `count`, from the box's left.
fn port_x(rect: BoxRect, port: usize, count: usize) -> usize {
    rect.x + rect.width * (2 * port + 1) / (2 * count.max(1))
}

fn edges(graph: &Graph, checked: &Checked, layout: &[BoxRect], out: &mut String) {
    for edge in &graph.edges {
        let count = |element: usize, is_output: bool| {
            let ports = checked.elements.get(element);
            ports.map_or(0, |p| if is_output { p.outputs.len() } else { p.inputs.len() })
        };
        let (from, to) = (layout[edge.from.element], layout[edge.to.element]);
        let x1 = port_x(from, edge.from.port, count(edge.from.element, true));
        let x2 = port_x(to, edge.to.port, count(edge.to.element, false));
        let (y1, y2) = (from.y + BOX_HEIGHT, to.y);
        let stroke = stroke(checked, edge);
        let dashed = if stroke.dashed { " stroke-dasharray=\"5 3\"" } else { "" };
        let marker =
            MARKERS.iter().find(|(_, color)| *color == stroke.color).map_or("push", |m| m.0);
        // Curves leave and arrive vertically; an edge back up swings out to the side.
        let bend = if y2 > y1 { (y2 - y1) / 2 } else { LAYER_GAP };
        let (below, above) = (y1 + bend, y2.saturating_sub(bend));
        let (c1, c2) = match y2 > y1 {
            true => (x1, x2),
            false => (from.x + from.width + BOX_GAP, to.x + to.width + BOX_GAP),
        };
        let _ = writeln!(
            out,
            "<path d=\"M{x1},{y1} C{c1},{below} {c2},{above} {x2},{y2}\" fill=\"none\" \
             stroke=\"{}\" stroke-width=\"1.6\"{dashed} marker-end=\"url(#{marker})\"/>",
            stroke.color
        );
    }
}

fn element(graph: &Graph, checked: &Checked, index: usize, rect: BoxRect, out: &mut String) {
    let element = &graph.elements[index];
    let BoxRect { x, y, width } = rect;
    let middle = x + width / 2;
    let _ = writeln!(
        out,
        "<g><title>{}({})</title><rect x=\"{x}\" y=\"{y}\" width=\"{width}\" \
         height=\"{BOX_HEIGHT}\" rx=\"4\" fill=\"#f7f7f2\" stroke=\"#444444\"/>\
         <text x=\"{middle}\" y=\"{}\" font-size=\"12\" font-weight=\"bold\" \
         text-anchor=\"middle\">{}</text><text x=\"{middle}\" y=\"{}\" font-size=\"11\" \
         fill=\"#555555\" text-anchor=\"middle\">{}</text>",
        escape(&element.class),
        escape(&element.config),
        y + 20,
        escape(&element.name),
        y + 34,
        escape(&element.class)
    );
    if let Some(ports) = checked.elements.get(index) {
        for (count, y) in [(ports.inputs.len(), y + 9), (ports.outputs.len(), y + BOX_HEIGHT - 3)] {
            for port in (0..count).filter(|_| count > 1) {
                let x = port_x(rect, port, count);
                let _ = writeln!(
                    out,
                    "<text x=\"{x}\" y=\"{y}\" font-size=\"8\" text-anchor=\"middle\">{port}</text>"
                );
            }
        }
    }
    out.push_str("</g>\n");
}
