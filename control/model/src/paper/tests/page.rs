//! docs/model.md says what the program computes.

use super::*;

const PAGE: &str = include_str!("../../../../../docs/model.md");

/// The cells of the first row that begins with this one, without emphasis.
fn row(first: &str) -> Vec<String> {
    let cells = |line: &str| {
        let cells = line.split('|').map(|cell| cell.trim().trim_matches(['*', '`']).to_owned());
        cells.skip(1).collect::<Vec<String>>()
    };
    let mut rows = PAGE.lines().filter(|line| line.starts_with('|')).map(cells);
    rows.find(|cells| cells[0] == first).unwrap_or_else(|| panic!("no row of {first}"))
}

#[test]
fn its_results_are_ours() {
    let (hardware, mapping) = host();
    for (name, _) in MODELS {
        let (model, row) = (Model::find(name).unwrap(), row(name));
        let frame = if *name == "bng" { 78 } else { 64 };
        let cost = model.cost(&mapping, frame);
        let rates = rates(&hardware, &mapping, &model.run, cost, frame);
        let mpps = |rate: f64| format!("{:.2}", rate / 1e6);
        assert_eq!((&row[5], &row[7]), (&mpps(rates.cores), &mpps(rates.memory)), "{name}");
        let printed = model.printed_for(&hardware).unwrap();
        if let (Some(cycles), Some(accesses)) = (printed.cycles, printed.accesses) {
            let reported = [cost.cycles, cycles, cost.accesses, accesses].map(|it| it.to_string());
            assert_eq!(row[1..5], reported, "{name}");
        }
        for rate in printed.rate.iter().filter(|rate| rate.section.starts_with("section 3.")) {
            let cell = if rate.of == Resource::Cores { &row[6] } else { &row[8] };
            let is_printed = *cell == rate.mpps.to_string() || cell == "\"the same\"";
            assert!(is_printed, "{name}: {cell} {}", rate.mpps);
        }
    }
}

#[test]
fn its_constants_are_the_hosts() {
    let (hardware, _) = host();
    let formulas: Vec<&str> = PAGE.split("| operation | parameters |").collect();
    let formulas = formulas[1].split("\n\n").next().unwrap();
    let mut seen = 0;
    for (name, constant) in &hardware.paper {
        if let Some((_, after)) = formulas.split_once(&format!("`{name}` ")) {
            let value = constant.value.to_string();
            assert!(after.starts_with(&value), "{name} is {value}, not {after:.8}");
            seen += 1;
        }
    }
    assert_eq!(seen, 16);
}

#[test]
fn its_example_by_hand_is_the_model() {
    let (_, mapping) = host();
    let switch = Model::find("l2-switch").unwrap();
    for step in &switch.flows[0].steps {
        let written = format!("`{}`", step.operation);
        let line = PAGE.lines().find(|line| line.contains(&written)).unwrap();
        let cycles = mapping.cost(&step.operation, 64).cycles;
        assert!(line.contains(&format!("= {cycles} |")), "{line}");
    }
    assert!(PAGE.contains("| **211** | **1** |") && PAGE.contains("3.6e9 / 211 = 17.06"));
}

#[test]
fn its_model_of_ones_own_is_one() {
    let text = PAGE.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let model = Model::parse("ttl.toml", text).unwrap();
    assert_eq!((model.run.cores, model.flows[0].steps.len()), (2, 3));
}
