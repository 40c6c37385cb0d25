//! What isolated functions are shut in with.

use super::finding::Finding;
use super::host::Host;

/// Everything about the sandbox of isolated functions.
pub fn findings(host: &Host) -> Vec<Finding> {
    vec![namespaces(host), landlock(host), seccomp(host), groups(host)]
}

fn namespaces(host: &Host) -> Finding {
    let what = "user namespaces";
    let remedy = "isolated functions then need ISOLATION relaxed, or root";
    let most = host.number("proc/sys/user/max_user_namespaces");
    let refused = [
        "proc/sys/kernel/unprivileged_userns_clone",
        "proc/sys/kernel/apparmor_restrict_unprivileged_userns",
    ];
    let is_restricted = host.number(refused[0]) == Some(0) || host.number(refused[1]) == Some(1);
    match most {
        None => Finding::missing(what, "this kernel has none", remedy),
        Some(0) => Finding::missing(
            what,
            "none may be made",
            "write 10000 to /proc/sys/user/max_user_namespaces; without them ISOLATION relaxed",
        ),
        Some(_) if is_restricted => Finding::better(
            what,
            "for root only",
            "to run isolated functions without root: write 1 to \
             /proc/sys/kernel/unprivileged_userns_clone, 0 to \
             /proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        ),
        Some(_) => Finding::good(what, "can be made"),
    }
}

fn landlock(host: &Host) -> Finding {
    let what = "Landlock";
    match host.line("sys/kernel/security/lsm") {
        None => Finding::unknown(
            what,
            "the list of security modules is not mounted (/sys/kernel/security); functions report at \
             their start whether it holds",
        ),
        Some(list) if list.split(',').any(|name| name == "landlock") => {
            Finding::good(what, "in force")
        }
        Some(list) => Finding::better(
            what,
            format!("not in force (in force: {list})"),
            "one wall less around isolated functions: boot with lsm=landlock,... in front",
        ),
    }
}

fn seccomp(host: &Host) -> Finding {
    let what = "seccomp";
    match host.line("proc/sys/kernel/seccomp/actions_avail") {
        Some(actions) if actions.split_whitespace().any(|action| action == "kill_process") => {
            Finding::good(what, "filters of system calls")
        }
        _ => Finding::missing(
            what,
            "this kernel has no filters of system calls",
            "take a kernel with CONFIG_SECCOMP_FILTER; else ISOLATION relaxed",
        ),
    }
}

fn groups(host: &Host) -> Finding {
    let what = "control groups";
    let place = ["sys/fs/cgroup", "sys/fs/cgroup/unified"];
    let found = place.iter().find_map(|place| host.line(&format!("{place}/cgroup.controllers")));
    let remedy = "limits of memory for functions want version 2 alone: boot with \
                  systemd.unified_cgroup_hierarchy=1";
    match found {
        None => Finding::better(what, "no version 2", remedy),
        Some(list) if list.split_whitespace().any(|name| name == "memory") => {
            Finding::good(what, "version 2 with memory")
        }
        Some(_) => Finding::better(what, "version 2 without memory (hybrid)", remedy),
    }
}
