//! What commands that change resources have in common.

use clap::Args;
use thruway::table::Table;
use thruway::{errln, out, outln};
use thruway_client::shown;
use thruway_manager::api::views::ChangeView;
use thruway_manager::reports::Forecast;

use crate::output::{OutputArgs, one_line};
use crate::target::Target;

/// Options of a change.
#[derive(Args)]
pub struct ChangeArgs {
    /// Only check, and print what would change
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// A change that was made, or checked by a dry run.
pub struct Done {
    /// The resource.
    pub target: Target,
    /// The manager's answer.
    pub view: ChangeView,
    /// The action, if there was one: `created`.
    pub what: String,
}

impl Done {
    fn what(&self) -> &str {
        if self.view.changed { &self.what } else { "unchanged" }
    }

    /// Lines added to and removed from the specification.
    fn lines(&self) -> (usize, usize) {
        // Before them come the names of the two.
        let lines = || self.view.diff.lines().skip(2);
        let count = |sign| lines().filter(|line| line.starts_with(sign)).count();
        (count('+'), count('-'))
    }

    fn print(&self) {
        let ChangeView { generation, dry_run, diff, plan, .. } = &self.view;
        let dry = if *dry_run { " (dry run)" } else { "" };
        outln!("{} {}, generation {generation}{dry}", self.target, self.what());
        if *dry_run {
            out!("{}", shown(diff));
            plan.iter().for_each(|step| {
                outln!("plan: {}: {}", step.action, shown(&step.message));
            });
        }
        if let Some(forecast) = &self.view.estimate {
            outln!("estimate: {}", shown(&forecast_line(forecast)));
        }
        if !self.view.warnings.is_empty() {
            errln!("{}", shown(self.view.warnings.trim_end()));
        }
    }
}

/// One line of text for an estimate.
fn forecast_line(forecast: &Forecast) -> String {
    let Some(estimate) = &forecast.estimate else {
        return forecast.reason.clone().unwrap_or_else(|| "none".to_owned());
    };
    let number = |name: &str| estimate[name].as_f64().unwrap_or(f64::NAN);
    let (cycles, rate, bytes) =
        (number("cycles"), number("packets_per_second"), number("packet_bytes"));
    let limit = estimate["limit"].as_str().unwrap_or("not known");
    format!(
        "{cycles:.0} cycles a packet of {bytes:.0} bytes, at most {:.2} million a second; the \
         limit is {limit}",
        rate / 1e6
    )
}

/// Prints the result of a change.
pub fn print_change(done: &Done, args: &ChangeArgs) -> anyhow::Result<()> {
    match args.output.data() {
        Some(data) => data.print(&done.view),
        None => print_changes(std::slice::from_ref(done), args),
    }
}

/// Prints the results of changes; JSON and YAML output is always a list.
pub fn print_changes(done: &[Done], args: &ChangeArgs) -> anyhow::Result<()> {
    if let Some(data) = args.output.data() {
        return data.print(&done.iter().map(|one| &one.view).collect::<Vec<_>>());
    }
    match args.output.is_wide() {
        true => out!("{}", shown(&table(done).render())),
        false => done.iter().for_each(Done::print),
    }
    Ok(())
}

fn table(done: &[Done]) -> Table {
    let columns = ["kind", "name", "what", "generation", "added", "removed", "dry-run", "warnings"];
    let mut table = Table::new(&columns);
    for one in done {
        let (added, removed) = one.lines();
        let warnings = one_line(&one.view.warnings);
        table.row(vec![
            one.target.kind.name().to_owned(),
            one.view.name.clone(),
            one.what().to_owned(),
            one.view.generation.to_string(),
            added.to_string(),
            removed.to_string(),
            if one.view.dry_run { "yes" } else { "no" }.to_owned(),
            if warnings.is_empty() { "-".to_owned() } else { warnings },
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_changes_counts_lines() {
        let diff = "--- generation 1\n+++ generation 2\n@@ -1,2 +1,3 @@\n a\n-b\n+++c\n+d\n";
        let view = ChangeView {
            name: "web".into(),
            generation: 2,
            changed: true,
            dry_run: false,
            warnings: "web:1: odd\n  here\n".into(),
            diff: diff.into(),
            plan: Vec::new(),
            estimate: None,
        };
        let done = Done { target: Target::chain("web"), view, what: "changed".into() };
        assert_eq!(done.lines(), (2, 1));
        let text = table(&[done]).render();
        let row: Vec<&str> = text.lines().nth(1).expect("a row").split_whitespace().collect();
        assert_eq!(row, ["chain", "web", "changed", "2", "2", "1", "no", "web:1:", "odd", "here"]);
    }
}
