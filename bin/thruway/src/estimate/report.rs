//! A page on models: rates by size of frame as the paper's figures 10 to 13 have them, cycles by
//! operation, and the tables.

use thruway_model::paper::{Flow, Model};

use super::paper::{Host, page as table_page};
use crate::draw::{self, Curve, Lines, Marks, Stack, escape, stacks};

/// From the shortest frame to the longest, in steps that show where another line begins.
const FIRST: u32 = 64;
const LAST: u32 = 1518;
const STEP: usize = 2;

/// The page.
pub fn page(host: &Host, models: &[Model], sizes: &[u32]) -> String {
    let mut body = format!("<p>Host: {}.</p>\n", escape(&host.hardware.name));
    let flows: Vec<&Flow> = own_flows(models);
    let frame = sizes.first().copied().unwrap_or(FIRST);
    let bars: Vec<Stack> = flows.into_iter().map(|flow| stack(host, flow, frame)).collect();
    let unit = format!("clock cycles per packet, frames of {frame} bytes");
    body += &stacks("Cycles by operation", &unit, &bars);
    for model in models {
        body += &format!("<h2>{}</h2>\n", escape(&model.title));
        body += &figure(host, model);
        body += &format!("<pre>{}</pre>\n", escape(&table_page(host, model, sizes)));
    }
    draw::page("Estimates from elementary operations", &body)
}

/// Each flow once, though a model and its parts may both be here.
fn own_flows(models: &[Model]) -> Vec<&Flow> {
    let mut flows: Vec<&Flow> = Vec::new();
    for flow in models.iter().flat_map(|model| &model.flows) {
        if flows.iter().all(|known| known.name != flow.name) {
            flows.push(flow);
        }
    }
    flows
}

fn stack(host: &Host, flow: &Flow, frame: u32) -> Stack {
    let mut parts: Vec<(String, f64)> = Vec::new();
    for step in &flow.steps {
        let (name, cycles) =
            (step.operation.name(), host.mapping.cost(&step.operation, frame).cycles);
        match parts.iter_mut().find(|(known, _)| known == name) {
            Some((_, sum)) => *sum += cycles,
            None => parts.push((name.to_owned(), cycles)),
        }
    }
    Stack { name: flow.name.clone(), parts }
}

/// Rates by size of frame.
fn figure(host: &Host, model: &Model) -> String {
    let sizes = || (FIRST..LAST).step_by(STEP).chain([LAST]);
    let curve = |name: &str, marks, rate: &dyn Fn(u32) -> Option<f64>| Curve {
        name: name.to_owned(),
        points: sizes().filter_map(|at| Some((f64::from(at), rate(at)? / 1e6))).collect(),
        marks,
    };
    let mut curves = vec![
        curve("cores and memory", Marks::Line, &|at| Some(host.rates(model, at).1.computed())),
        curve("links", Marks::Dashes, &|at| Some(host.rates(model, at).1.links)),
    ];
    let share = model.run.other_socket * 100.0;
    let specific = curve(&format!("{share} % by the other socket"), Marks::Line, &|at| {
        host.rates_by_sockets(model, at).map(|(_, rates)| rates.computed())
    });
    if !specific.points.is_empty() {
        curves.push(specific);
    }
    let printed = printed(host, model);
    if !printed.is_empty() {
        let name = "printed by the paper".to_owned();
        curves.push(Curve { name, points: printed, marks: Marks::Circles });
    }
    let answer = model.printed_for(&host.hardware).map_or("", |printed| printed.figure.as_str());
    let title = match answer {
        "" => format!("{}: rates by size of frame", model.name),
        answer => format!("{}: rates by size of frame, as in {answer} of the paper", model.name),
    };
    let (across, up) = ("bytes of a frame", "Mpps");
    Lines { title: &title, across, up, curves: &curves }.svg()
}

/// Of the rates that the paper prints those that limit: one per size and place.
fn printed(host: &Host, model: &Model) -> Vec<(f64, f64)> {
    let all = model.checked(&host.hardware, &host.mapping);
    let limits = |at: usize| {
        let it = all[at].printed;
        let same = all.iter().filter(|other| {
            (other.printed.frame, &other.printed.section) == (it.frame, &it.section)
        });
        same.fold(f64::INFINITY, |least, other| least.min(other.printed.mpps)) == it.mpps
    };
    let limiting = (0..all.len()).filter(|at| limits(*at)).map(|at| all[at].printed);
    limiting.map(|it| (f64::from(it.frame), it.mpps)).collect()
}

#[cfg(test)]
mod tests {
    use thruway_model::paper::Limit;

    use super::super::paper::models;
    use super::*;

    #[test]
    fn a_page_has_a_figure_per_model() {
        let host = Host::load(None).unwrap();
        let models = models(None).unwrap();
        let text = page(&host, &models, &[]);
        assert_eq!(text.matches("<svg").count(), models.len() + 1);
        for figure in 10..=13 {
            assert!(text.contains(&format!("as in figure {figure} of the paper")), "{figure}");
        }
        assert!(!text.contains("NaN") && !text.contains("inf,"));
        // Both sockets' estimate is drawn for the gateway alone.
        assert_eq!(text.matches("50 % by the other socket").count(), 1);
    }

    #[test]
    fn the_limiting_rate_is_shown_of_those_printed() {
        let host = Host::load(None).unwrap();
        let gateway = Model::find("bng").unwrap();
        assert_eq!(printed(&host, &gateway), [(78.0, 23.74)]);
        assert_eq!(host.rates(&gateway, 78).1.limit(), Limit::Memory);
        let switch = Model::find("l2-switch").unwrap();
        assert_eq!(printed(&host, &switch), [(64.0, 17.31), (64.0, 17.47)]);
    }

    #[test]
    fn operations_of_one_kind_are_one_part() {
        let host = Host::load(None).unwrap();
        let core = Model::find("bng-core").unwrap();
        let bar = stack(&host, &core.flows[0], 64);
        assert_eq!(bar.parts.iter().map(|(_, cycles)| cycles).sum::<f64>(), 272.0);
        assert!(bar.parts.contains(&("parse".to_owned(), 15.0)), "{:?}", bar.parts);
    }
}
