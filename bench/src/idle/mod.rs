//! `thruway-bench idle`: what a router takes of a processor at parts of its capacity, and how soon
//! a packet wakes it, whatever it does when it is idle. Between namespaces, as root.
//!
//! On two cores the load cannot offer what a router of two ports can take, so the router has work
//! for each packet (WorkPackage): its capacity is then less than what the load can offer, and its
//! own. Reception from the cable is done on the load's side, as a card does it, and is not in the
//! router's processor time.

mod capacity;
mod lab;
mod options;
mod report;

use std::time::Duration;

use super::goal;
use super::machine::{self, Machine};
use capacity::Capacity;
use lab::{CorePlan, Lab};
pub use options::Options;
use report::{Results, Row};

/// As `thruway run --idle` takes them; the first one's capacity is everyone's 100 %, and its path
/// is that without waking.
const IDLES: [&str; 3] = ["poll", "adaptive", "sleep"];
/// Percent of the capacity.
const LOADS: [u32; 4] = [0, 1, 10, 100];
/// Packets a second with rests in which everybody falls asleep, for the path at no load.
const SPARSE: f64 = 1000.0;

/// Runs the bench; false when a goal was to be met and was not.
///
/// # Errors
/// Not root, too few cores, a tool that is missing, a router that does not run, a file that cannot
/// be written.
pub fn run(options: &Options) -> anyhow::Result<bool> {
    if !rustix::process::geteuid().is_root() {
        anyhow::bail!(
            "it makes network namespaces and loads programs into the kernel; run it as root"
        );
    }
    let cores = machine::allowed();
    let core_plan = CorePlan::choose(&cores, options.threads as usize)?;
    let machine = Machine::look(cores.len(), None);
    out!("{}", report::heading(&machine, &core_plan, options));
    let results = measure(options, &core_plan)?;
    let is_met = goal::judge(&report::goals(&results), options.goals);
    if let Some(file) = &options.json {
        super::report::write(file, &report::json(&machine, &results))?;
    }
    Ok(is_met)
}

fn measure(options: &Options, core_plan: &CorePlan) -> anyhow::Result<Results> {
    let time = Duration::from_secs(u64::from(options.seconds));
    let (mut capacity, mut rows) = (None, Vec::new());
    for idle in IDLES {
        let mut lab = Lab::new(idle, options.work, core_plan)?;
        let capacity = match capacity {
            Some(capacity) => capacity,
            None => {
                let found = find(&mut lab)?;
                out!("{}", report::capacity(&found));
                *capacity.insert(found)
            }
        };
        for load in LOADS {
            let row = one(&mut lab, idle, load, (capacity, time))?;
            out!("{}", report::line(&row, &rows));
            rows.push(row);
        }
        lab.check()?;
    }
    let capacity = capacity.unwrap_or(Capacity { pps: 0.0, is_routers: false });
    Ok(Results { threads: core_plan.router.len(), work: options.work, capacity, rows })
}

fn find(lab: &mut Lab) -> anyhow::Result<Capacity> {
    capacity::find(|rate| lab.holds(rate))?.ok_or_else(|| {
        anyhow::anyhow!(
            "packets are lost at the lowest rate that is tried: this machine does something else, or \
             --work is too much"
        )
    })
}

/// One load of one router.
fn one(
    lab: &mut Lab,
    idle: &'static str,
    load: u32,
    (capacity, time): (Capacity, Duration),
) -> anyhow::Result<Row> {
    let rest = (load == 0).then(|| lab.rest(time));
    let rate = if load == 0 { SPARSE } else { capacity.pps * f64::from(load) / 100.0 };
    let done = lab.load(rate, time)?;
    let cpu = rest.unwrap_or(done.cpu);
    let (offered, made, lost) = (done.offered, done.made, done.lost);
    Ok(Row { idle, load, offered, cpu, made, lost, latencies: done.latencies })
}
