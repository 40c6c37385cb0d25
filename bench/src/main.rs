//! `thruway-bench`: runs all benches and reports them in one format. It makes every row of
//! `bench/record`.
//!
//! Most benches are a [`suite`] of cases, which makes rows; the others are experiments of the
//! papers and comparisons with other programs. Several of them start `thruway`: they start this
//! program again, which is `thruway` where its first argument is one of [`PROGRAM`]. So
//! what is measured is always what was built together.
#![forbid(unsafe_code)]
// The macros of `thruway` do not panic.
#![deny(clippy::print_stdout, clippy::print_stderr)]

#[macro_use(err, errln, out, outln)]
extern crate thruway;

#[cfg(test)]
mod alloc_tests;
mod case;
mod child;
mod clock;
mod counters;
mod disturbed;
mod dpdk;
mod ends;
mod exchange;
mod flow;
mod goal;
mod idle;
mod io;
mod isolated;
mod kills;
mod latency;
mod ledger;
mod machine;
mod manager;
mod measure;
mod model;
mod moves;
mod namespace;
mod offload;
mod path;
mod plot;
mod registry;
mod report;
mod results;
mod row;
mod schedstat;
mod select;
mod stream;
mod suite;
mod sync;
mod takeover;
mod threads;
mod traffic;

use std::process::ExitCode;

use clap::Parser;

/// Out of memory, the process says so and ends. (Unit tests have an allocator that counts.)
#[cfg(not(test))]
#[global_allocator]
static HEAP: thruway_region::Heap = thruway_region::Heap;

/// Measures Thruway.
#[derive(Debug, Parser)]
#[command(name = "thruway-bench", version, about)]
#[command(after_help = suite::names(), args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    own: Option<Own>,
    #[command(flatten)]
    suite: suite::Options,
}

/// Benches that are not a [`suite`].
#[derive(Debug, clap::Subcommand)]
enum Own {
    /// The data exchange against two baselines: the figures of its paper
    #[command(after_help = exchange::figure_list())]
    Exchange(exchange::Options),
    /// What threads share, in each structure for it: the figures of the thesis
    Sync(sync::Options),
    /// Stages on several cores, in parallel or as a pipeline: the figures of the thesis
    Threads(threads::Options),
    /// What an idle or partly loaded router takes of a processor, and how soon a packet wakes it
    Idle(idle::Options),
    /// The engine's clock: how exact it is, and what reading it costs: the figures of the thesis
    Clock(clock::Options),
    /// Estimates of configurations against what they take: how far they are off
    Model(model::Options),
    /// DPDK's null devices through the engine, against DPDK's own forwarder
    Dpdk(dpdk::Options),
    /// As a TCP load balancer against haproxy and nginx, between real hosts
    Ends(ends::Options),
    /// Packets a second that one core forwards, beside the kernel's own forwarding
    Io(io::Options),
    /// How soon a function that was killed is back, under traffic with sessions
    Kills(kills::Options),
    /// How soon the manager answers, and what that costs a chain of a thousand elements
    Manager(manager::Options),
    /// How soon a million sessions have moved to another replica, under traffic
    Moves(moves::Options),
    /// How many connections go on when the host that serves is killed, and how long traffic rests
    Takeover(takeover::Options),
    /// Print what a bench wrote as npf reads it: lines `RESULT-NAME value`
    Results(results::Options),
    /// The server of `thruway-bench takeover`; started by it
    #[command(hide = true)]
    TakeoverServer(takeover::ServerArgs),
    /// A Worker of `thruway-bench exchange`; started by it
    #[command(hide = true)]
    ExchangeWorker(exchange::WorkerArgs),
}

/// First arguments with which this program is `thruway`: isolated parts of a configuration
/// (`worker`) and some benches start it so; `calibrate` describes the host for `model`.
const PROGRAM: [&str; 5] = ["run", "click", "worker", "calibrate", "calibrate-function"];

fn main() -> ExitCode {
    let first = std::env::args().nth(1);
    if first.is_some_and(|first| PROGRAM.contains(&first.as_str())) {
        return thruway::program();
    }
    thruway::guarded(|| measure_all(&Arguments::parse()))
}

fn measure_all(arguments: &Arguments) -> ExitCode {
    let result = match &arguments.own {
        Some(Own::Exchange(options)) => exchange::run(options),
        Some(Own::Clock(options)) => clock::run(options),
        Some(Own::Dpdk(options)) => dpdk::run(options),
        Some(Own::Ends(options)) => ends::run(options),
        Some(Own::Idle(options)) => idle::run(options),
        Some(Own::Io(options)) => io::run(options),
        Some(Own::Kills(options)) => kills::run(options),
        Some(Own::Manager(options)) => manager::run(options),
        Some(Own::Model(options)) => model::run(options),
        Some(Own::Moves(options)) => moves::run(options),
        Some(Own::Sync(options)) => sync::run(options),
        Some(Own::Takeover(options)) => takeover::run(options),
        Some(Own::Threads(options)) => threads::run(options),
        Some(Own::Results(options)) => results::run(options),
        Some(Own::TakeoverServer(args)) => takeover::serve(args).map(|()| true),
        Some(Own::ExchangeWorker(args)) => exchange::worker_main(args).map(|()| true),
        None => suite::run(&arguments.suite),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            errln!("thruway-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
