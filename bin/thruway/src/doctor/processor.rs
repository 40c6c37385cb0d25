//! Processors: how many, whether threads have them for themselves, how steady they run.

use super::finding::Finding;
use super::host::{Host, shown};

const CPU: &str = "sys/devices/system/cpu";

/// Everything about processors.
pub fn findings(host: &Host) -> Vec<Finding> {
    let online = host.processors(&format!("{CPU}/online")).unwrap_or_default();
    let mut found = vec![cores(host, &online)];
    found.extend(isolation(host, &online));
    found.extend(siblings(host, &online));
    found.extend(nodes(host));
    found.push(frequency(host));
    found.extend(boost(host));
    found.push(counter(host));
    found.push(events(host));
    found
}

fn cores(host: &Host, online: &[usize]) -> Finding {
    let what = "processors";
    let allowed = host.field("proc/self/status", "Cpus_allowed_list");
    let allowed = allowed.and_then(|list| super::host::ranges(&list)).unwrap_or_default();
    let usable: Vec<usize> = online.iter().copied().filter(|cpu| allowed.contains(cpu)).collect();
    match (online.len(), usable.len()) {
        (0, _) => Finding::unknown(what, "the system does not list them"),
        (_, 0) => Finding::good(what, format!("{} ({})", online.len(), shown(online))),
        (all, some) if some < all => Finding::better(
            what,
            format!("{some} of {all}, for this process may use {} only", shown(&usable)),
            "for more threads: widen the cpuset (systemd AllowedCPUs=, the container's limits) or \
             the mask that taskset set",
        ),
        (1, _) => Finding::better(
            what,
            "1: packets, the kernel's share of the work and everything else take turns",
            "give the machine a second one",
        ),
        (all, _) => Finding::good(what, format!("{all}: use at most -j {all}")),
    }
}

/// Whether some are kept free for threads that never sleep.
fn isolation(host: &Host, online: &[usize]) -> Option<Finding> {
    if online.len() < 2 {
        return None;
    }
    let what = "isolated processors";
    let isolated = host.processors(&format!("{CPU}/isolated")).unwrap_or_default();
    let quiet = host.processors(&format!("{CPU}/nohz_full")).unwrap_or_default();
    let list = shown(&online[1..]);
    Some(match (isolated.is_empty(), quiet.is_empty()) {
        (true, true) => Finding::better(
            what,
            "none: the scheduler and its clock interrupt engine threads",
            format!(
                "boot with isolcpus=managed_irq,domain,{list} nohz_full={list} rcu_nocbs={list}, and \
                 start with taskset -c {list} thruway ..."
            ),
        ),
        (false, true) => Finding::better(
            what,
            format!("{}, with the scheduler's clock on them", shown(&isolated)),
            format!("boot with nohz_full={0} rcu_nocbs={0} too", shown(&isolated)),
        ),
        (true, false) => Finding::better(
            what,
            format!("none, though {} have no scheduler's clock", shown(&quiet)),
            format!("boot with isolcpus=managed_irq,domain,{} too", shown(&quiet)),
        ),
        (false, false) => Finding::good(what, shown(&isolated)),
    })
}

/// Threads of one core share what counts.
fn siblings(host: &Host, online: &[usize]) -> Option<Finding> {
    let mut cores: Vec<Vec<usize>> = Vec::new();
    for cpu in online {
        let list = format!("{CPU}/cpu{cpu}/topology/thread_siblings_list");
        let core = host.processors(&list)?;
        if core.len() > 1 && !cores.contains(&core) {
            cores.push(core);
        }
    }
    let pairs: Vec<String> = cores.iter().map(|core| shown(core)).collect();
    let first: Vec<usize> = cores.iter().filter_map(|core| core.first().copied()).collect();
    let what = "threads per core";
    Some(if pairs.is_empty() {
        Finding::good(what, "1")
    } else {
        Finding::better(
            what,
            format!(
                "several: {} are one core each and share its units and caches",
                pairs.join(" ")
            ),
            format!("let one of each work: taskset -c {} thruway ...", shown(&first)),
        )
    })
}

fn nodes(host: &Host) -> Option<Finding> {
    let nodes = "sys/devices/system/node";
    let numbers = host.processors(&format!("{nodes}/online"))?;
    let status: Vec<String> = numbers
        .iter()
        .map(|node| {
            let cpus = host.line(&format!("{nodes}/node{node}/cpulist")).unwrap_or_default();
            format!("node {node}: processors {cpus}")
        })
        .collect();
    let what = "NUMA nodes";
    Some(match numbers.len() {
        0 | 1 => Finding::good(what, "1: all memory is equally near"),
        count => Finding::better(
            what,
            format!("{count}: {}", status.join("; ")),
            "keep a thread, its interface and its memory on one node: taskset to the interface's \
             node, numactl --membind for the memory",
        ),
    })
}

fn frequency(host: &Host) -> Finding {
    let what = "frequency";
    let policies = host.list(&format!("{CPU}/cpufreq"));
    let mut governors: Vec<String> = policies
        .iter()
        .filter_map(|policy| host.line(&format!("{CPU}/cpufreq/{policy}/scaling_governor")))
        .collect();
    governors.sort_unstable();
    governors.dedup();
    match &governors[..] {
        [] => Finding::unknown(what, "unavailable; set by the hypervisor"),
        [one] if one == "performance" => Finding::good(what, "governor performance"),
        others => Finding::better(
            what,
            format!("governor {}: slow for the first packets after a pause", others.join(", ")),
            "write performance to /sys/devices/system/cpu/cpufreq/policy*/scaling_governor",
        ),
    }
}

/// Whether frequency depends on what other cores do: then figures vary.
fn boost(host: &Host) -> Option<Finding> {
    let intel = host.number(&format!("{CPU}/intel_pstate/no_turbo")).map(|no| no == 0);
    let on = intel.or_else(|| host.number(&format!("{CPU}/cpufreq/boost")).map(|on| on == 1))?;
    let status =
        if on { "on: fast, and measurements vary with temperature" } else { "off: steady" };
    Some(Finding::good("boost", status))
}

/// The cycle counter, the clock of the packet path.
fn counter(host: &Host) -> Finding {
    let what = "cycle counter";
    let Some(flags) = host.field("proc/cpuinfo", "flags") else {
        return Finding::unknown(what, "the processor's features are unavailable");
    };
    let has = |flag: &str| flags.split_whitespace().any(|word| word == flag);
    if has("constant_tsc") && has("nonstop_tsc") {
        return Finding::good(what, "steady (invariant TSC)");
    }
    Finding::better(
        what,
        "not steady: its rate changes with the frequency or it stops in sleep",
        "time is then read from the system, which costs a call; use a processor (or a virtual machine \
         type) with an invariant TSC",
    )
}

/// Hardware performance counters, which only benches use.
fn events(host: &Host) -> Finding {
    let what = "performance counters";
    if host.has("sys/bus/event_source/devices/cpu")
        && host.has("proc/sys/kernel/perf_event_paranoid")
    {
        return Finding::good(what, "there");
    }
    Finding::unknown(what, "none: benches print cycles of the time stamp counter")
}
