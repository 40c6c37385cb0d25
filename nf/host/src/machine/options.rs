//! The options that QEMU gets for every machine.

use std::os::fd::RawFd;

use super::Runs;
use crate::sandbox::Limits;

/// The options of a machine with this type, whose monitor is at the descriptor `monitor`; `own`
/// are those that other machines have not.
pub(super) fn options(
    machine: &str,
    (limits, runs): (&Limits, &Runs),
    monitor: RawFd,
    own: impl IntoIterator<Item = (&'static str, String)>,
) -> Vec<String> {
    let (accelerator, processor) = match runs {
        Runs::Kvm => ("kvm", "host"),
        Runs::Emulated(_) => ("tcg,tb-size=64", "max"),
    };
    let shared = [
        ("-name", "thruway".to_owned()),
        ("-machine", machine.into()),
        ("-accel", accelerator.into()),
        ("-cpu", processor.into()),
        ("-m", format!("{}M", limits.memory_bytes >> 20)),
        ("-smp", "1".into()),
        ("-display", "none".into()),
        ("-chardev", "stdio,id=console,signal=off".into()),
        ("-serial", "chardev:console".into()),
        ("-chardev", format!("socket,id=monitor,fd={monitor}")),
        ("-mon", "chardev=monitor,mode=control".into()),
        (
            "-sandbox",
            "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny".into(),
        ),
    ];
    let fixed = ["-nodefaults", "-no-user-config", "-no-reboot"].map(str::to_owned);
    let pairs = shared.into_iter().chain(own).flat_map(|(name, value)| [name.to_owned(), value]);
    fixed.into_iter().chain(pairs).collect()
}
