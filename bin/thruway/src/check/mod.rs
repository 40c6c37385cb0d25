//! `thruway check`: everything that can be said about a configuration without running it.

mod json;
mod short_cuts;

use std::process::ExitCode;

use thruway_engine::{Layout, Options, Router};
use thruway_lang::{Port, Processing};

use crate::config_args::{libraries, report};
use crate::load;
use crate::run_args::CheckArgs;
use crate::table::Table;

/// Runs the command.
pub fn main(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let (source, variables) = args.config.read()?;
    let name = source.name.clone();
    let options = Options {
        threads: usize::from(args.threads),
        spread: true,
        placement: args.placement.placement(),
        ..Options::default()
    };
    let (router, warnings) = match load::build(source, &variables, &libraries(), &options) {
        Ok(built) => built,
        Err(failure) => {
            report(&failure.pretty);
            let n = failure.pretty.errors();
            errln!("{name}: {n} error{}", if n == 1 { "" } else { "s" });
            return Ok(ExitCode::FAILURE);
        }
    };
    let layout = router.layout();
    report(&warnings);
    if args.json {
        let more = json::More { paths: args.paths, explain: args.explain };
        outln!("{:#}", json::all(&router, &more));
        return Ok(ExitCode::SUCCESS);
    }
    out!("{}", elements(layout).render());
    let exceptions = exceptions(&router);
    if !exceptions.is_empty() {
        outln!("\nWhat functions of streams cannot inspect (fails open: it passes; closed: not)\n");
        outln!("{}", exceptions.render());
    }
    if args.paths {
        outln!("\nPaths by which threads reach elements (<- is a pull)\n");
        for (node, decl) in layout.graph.elements.iter().enumerate() {
            outln!("  {}: {}", decl.name, layout.describe_paths(node));
            if layout.threads[node].len() > 1 {
                outln!("    {}", decl.spec.replicas);
            }
        }
        outln!();
    }
    if args.explain {
        let flows = router.flows();
        match flows.plan.entries.is_empty() {
            true => outln!("\nNo FlowClassifier: every element looks at packets itself.\n"),
            false => outln!("\n{}", flows.plan.explain(&flows.chain)),
        }
        let ports = short_cuts::explain(layout);
        if !flows.plan.entries.is_empty() && !ports.is_empty() {
            outln!(
                "TCP and UDP sessions that may take short cuts in the kernel, by packet sockets"
            );
            ports.iter().for_each(|line| outln!("  {line}"));
            outln!();
        }
        let streams = router.streams().explain(layout);
        if !streams.is_empty() {
            outln!("{streams}");
        }
    }
    outln!(
        "{name}: {} elements, {} connections, no errors",
        layout.graph.elements.len(),
        layout.graph.edges.len()
    );
    Ok(ExitCode::SUCCESS)
}

/// A row per element: ports with their processing, and the threads that run it.
fn elements(layout: &Layout) -> Table {
    let mut table = Table::new(&["element", "class", "inputs", "outputs", "threads"]);
    for (node, decl) in layout.graph.elements.iter().enumerate() {
        let ports = &layout.checked.elements[node];
        let threads = layout.threads[node].iter().map(ToString::to_string);
        let threads = threads.collect::<Vec<String>>().join(",");
        let own = if layout.parked[node] { ", task in none" } else { "" };
        table.row(vec![
            decl.name.clone(),
            decl.class.clone(),
            side(&ports.inputs),
            side(&ports.outputs),
            format!("[{threads}]{own}"),
        ]);
    }
    table
}

/// A row per case in which functions cannot inspect what they are there for.
fn exceptions(router: &Router) -> Table {
    let mut table = Table::new(&["element", "exception", "does", "fails", "argument"]);
    for (node, exceptions) in &router.streams().exceptions {
        let decl = &router.layout().graph.elements[*node as usize];
        for one in exceptions {
            let cells = [decl.name.as_str(), one.what, one.done, one.fails.name(), one.argument];
            table.row(cells.map(str::to_owned).to_vec());
        }
    }
    table
}

/// `push`, `3 push`, `push pull`; `none` without ports.
fn side(ports: &[Port]) -> String {
    let word = |processing| if processing == Processing::Push { "push" } else { "pull" };
    match ports {
        [] => "none".into(),
        [one] => word(one.processing).into(),
        [first, rest @ ..] if rest.iter().all(|port| port.processing == first.processing) => {
            format!("{} x{}", word(first.processing), ports.len())
        }
        _ => ports.iter().map(|port| word(port.processing)).collect::<Vec<_>>().join(" "),
    }
}
