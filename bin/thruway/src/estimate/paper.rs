//! Models of elementary operations, as tables.

use std::fmt::Write as _;
use std::path::Path;

use thruway_model::Hardware;
use thruway_model::paper::{
    Checked, Cost, Flow, MODELS, Mapping, Model, Printed, Rates, Resource, hardware, rates,
};

use crate::table::{Table, wrap};

/// Frames that estimates are printed for where nobody says.
const SIZES: [u32; 7] = [64, 128, 256, 512, 1024, 1280, 1518];

/// What models are estimated on.
pub struct Host {
    pub hardware: Hardware,
    pub mapping: Mapping,
}

/// Everything to be said about models.
pub fn estimate(host: &Host, models: &[Model], sizes: &[u32]) -> String {
    models.iter().map(|model| page(host, model, sizes)).collect::<Vec<_>>().join("\n")
}

/// The model of this name, or all of the paper's.
pub fn models(name: Option<&str>) -> anyhow::Result<Vec<Model>> {
    match name {
        Some(name) => Ok(vec![Model::find(name)?]),
        None => Ok(MODELS.iter().map(|(name, _)| Model::find(name)).collect::<Result<_, _>>()?),
    }
}

impl Host {
    /// The host of this description, or the paper's.
    pub fn load(path: Option<&Path>) -> anyhow::Result<Host> {
        let (hardware, path) = match path {
            Some(path) => (Hardware::load(path)?, path.display().to_string()),
            None => (hardware(), "xeon-e5-2690v2.toml".to_owned()),
        };
        let mapping = Mapping::of(&hardware, &path)?;
        Ok(Host { hardware, mapping })
    }

    /// What a model's packets cost, and the rates that this allows.
    pub fn rates(&self, model: &Model, frame: u32) -> (Cost, Rates) {
        let cost = model.cost(&self.mapping, frame);
        let run = model.run.on(&self.hardware);
        (cost, rates(&self.hardware, &self.mapping, &run, cost, frame))
    }

    /// The same where packets also come by the other processor's ports; none where none do.
    pub fn rates_by_sockets(&self, model: &Model, frame: u32) -> Option<(Cost, Rates)> {
        let run = model.run.on(&self.hardware);
        let cost = model.cost_by_sockets(&self.mapping, frame);
        let rates = rates(&self.hardware, &self.mapping, &run, cost, frame);
        (run.other_socket > 0.0).then_some((cost, rates))
    }
}

/// Everything to be said about a model.
pub fn page(host: &Host, model: &Model, sizes: &[u32]) -> String {
    let sizes = if sizes.is_empty() { &SIZES[..] } else { sizes };
    let run = model.run.on(&host.hardware);
    let mut text = format!(
        "{} ({}, {}) on {}: cores {}, links {}, memories {}\n",
        model.title,
        model.name,
        model.source,
        host.hardware.name,
        run.cores,
        run.links,
        run.memories
    );
    let frame = sizes[0];
    for flow in &model.flows {
        text += &operations(host, flow, frame);
    }
    text += &format!("\nRates by size of frame\n\n{}", by_size(sizes, |at| host.rates(model, at)));
    if host.rates_by_sockets(model, frame).is_some() {
        let share = number(100.0 * run.other_socket);
        let table = by_size(sizes, |at| {
            host.rates_by_sockets(model, at).unwrap_or_else(|| host.rates(model, at))
        });
        text += &format!("\nThe same, {share} % of frames by the other socket\n\n{table}");
    }
    text + &printed(host, model)
}

/// A row per operation, their sum, and what the paper prints of it.
fn operations(host: &Host, flow: &Flow, frame: u32) -> String {
    let mut table = Table::new(&["operation", "cycles", "accesses", "for"]);
    let mut row = |name: String, cost: Cost, about: &str| {
        table.row(vec![name, number(cost.cycles), number(cost.accesses), about.into()]);
    };
    for step in &flow.steps {
        row(step.operation.to_string(), host.mapping.cost(&step.operation, frame), &step.about);
    }
    row("sum".into(), flow.cost(&host.mapping, frame), "");
    let printed = flow.printed.as_ref().filter(|it| it.hardware == host.hardware.name);
    let answer = printed.filter(|it| it.frame == frame);
    if let Some((cycles, accesses)) = answer.and_then(|it| it.cycles.zip(it.accesses)) {
        row("paper".into(), Cost { cycles, accesses }, "");
    }
    let share = number(100.0 * flow.share);
    let name = &flow.name;
    let differences = answer.map(differences).unwrap_or_default();
    format!(
        "\n{name}, {share} % of packets, frames of {frame} bytes\n\n{}{differences}",
        table.render()
    )
}

fn differences(printed: &Printed) -> String {
    let mut text = String::new();
    for it in &printed.difference {
        let mut what = format!("{:+} cycles", it.cycles);
        if it.accesses != 0.0 {
            // Writing to a string cannot fail.
            let _ = write!(what, ", {:+} accesses", it.accesses);
        }
        text += &note(&what, &it.why);
    }
    text
}

fn note(what: &str, why: &str) -> String {
    let wrapped = wrap(&format!("{what}: {why}"));
    wrapped.lines().map(|line| format!("    {line}\n")).collect()
}

fn by_size(sizes: &[u32], at: impl Fn(u32) -> (Cost, Rates)) -> String {
    let head = [
        "frame",
        "cycles",
        "accesses",
        "cores Mpps",
        "memory Mpps",
        "links Mpps",
        "Mpps",
        "Gbit/s",
        "limit",
    ];
    let mut table = Table::new(&head);
    for frame in sizes {
        let (cost, rates) = at(*frame);
        let packets = rates.packets();
        table.row(vec![
            frame.to_string(),
            number(cost.cycles),
            number(cost.accesses),
            millions(rates.cores),
            millions(rates.memory),
            millions(rates.links),
            millions(packets),
            format!("{:.2}", rates.bits(packets) / 1e9),
            rates.limit().name().to_owned(),
        ]);
    }
    table.render()
}

/// With one digit after the point where there is something.
fn number(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// Millions with two digits; a dash where there is no bound.
fn millions(rate: f64) -> String {
    if rate.is_finite() { format!("{:.2}", rate / 1e6) } else { "-".to_owned() }
}

/// The rates that the paper prints, and how they come about.
fn printed(host: &Host, model: &Model) -> String {
    let all = model.checked(&host.hardware, &host.mapping);
    if all.is_empty() {
        return String::new();
    }
    let head = ["where", "of", "frame", "paper Mpps", "Gbps", "ours Mpps", "by its arithmetic", ""];
    let mut table = Table::new(&head);
    let mut notes = String::new();
    for checked in &all {
        let it = checked.printed;
        table.row(vec![
            it.section.clone(),
            if it.of == Resource::Cores { "cores" } else { "memory" }.to_owned(),
            it.frame.to_string(),
            it.mpps.to_string(),
            it.gbps.map_or("-".to_owned(), |gbps| gbps.to_string()),
            millions(checked.ours),
            by_its_arithmetic(checked),
            if checked.is_explained() { "explained" } else { "not explained" }.to_owned(),
        ]);
        if !it.why.is_empty() {
            notes += &note(&format!("{} Mpps", it.mpps), &it.why);
        }
    }
    let arithmetic = "Its arithmetic: its own cycles and accesses; a clock of 3.6 x 1024 MHz; bits of \
                      the frame and 20 bytes on the wire, divided by 1024; memory's latency without \
                      the factor of two.";
    let arithmetic: String = wrap(arithmetic).lines().map(|line| format!("    {line}\n")).collect();
    format!("\nRates that the paper prints\n\n{}{arithmetic}{notes}", table.render())
}

fn by_its_arithmetic(checked: &Checked<'_>) -> String {
    let gbps = format!(", {:.2} Gbps", checked.redone_bits / 1e9);
    let bits = checked.printed.gbps.map_or(String::new(), |_| gbps);
    millions(checked.redone) + &bits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(name: &str, hardware: Option<&Path>, sizes: &[u32]) -> anyhow::Result<String> {
        Ok(estimate(&Host::load(hardware)?, &models(Some(name))?, sizes))
    }

    #[test]
    fn the_paper_stands_beside_us() {
        let text = text("l2-switch", None, &[]).unwrap();
        let cells: Vec<String> = text
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        for line in [
            "sum 211 1",
            "paper 213 1",
            "+2 cycles: The printed formulas give 211. All five models come out 2 lower",
            "64 211 1 17.06 63.48 29.76 17.06 11.47 CPU cores",
            "section 3.1.1 cores 64 17.31 11.36 17.06 17.31, 11.36 Gbps explained",
        ] {
            assert!(cells.iter().any(|cells| cells == line), "{line}\n{text}");
        }
    }

    #[test]
    fn another_host_has_no_figures_of_the_paper_beside_it() {
        let mut described = hardware();
        described.name = "mine".into();
        (described.cores, described.sockets) = (2, 1);
        let file = tempfile::NamedTempFile::with_suffix(".toml").unwrap();
        std::fs::write(file.path(), described.to_toml()).unwrap();
        let page = text("bng", Some(file.path()), &[78]).unwrap();
        assert!(page.contains("on mine: cores 2, links 4, memories 1"), "{page}");
        assert!(!page.contains("paper") && !page.contains("other socket"), "{page}");
        let wrong = text("bang", None, &[]).unwrap_err().to_string();
        assert!(wrong.contains("no model 'bang'") && wrong.contains("bng-access"), "{wrong}");
    }
}
