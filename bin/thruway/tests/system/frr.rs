//! Daemons of FRR in a namespace, each host's with sockets of their own.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::network::Namespace;
use crate::process::{Running, run, wait_for};

/// Routing daemons of one host; zebra, which they ask for interfaces and routes, among them.
pub struct Frr {
    _processes: Vec<Running>,
    dir: PathBuf,
}

impl Frr {
    /// Starts zebra and these daemons, each with its configuration, with files in `dir`.
    pub fn start(host: &Namespace, dir: &Path, daemons: &[(&str, &str)]) -> Frr {
        std::fs::create_dir(dir).expect("a directory");
        // They give up root for the user frr.
        for path in [dir.parent().expect("a directory"), dir] {
            let mode = std::fs::Permissions::from_mode(0o777);
            std::fs::set_permissions(path, mode).expect("a directory of ours");
        }
        let start = |daemon: &str, text: &str, more: &[&str]| {
            let config = dir.join(format!("{daemon}.conf"));
            std::fs::write(&config, text).expect("room for a file");
            let mut command = host.command(&format!("/usr/lib/frr/{daemon}"));
            command.args(["-u", "frr", "-g", "frr", "-A", "127.0.0.1", "-P", "0"]);
            command.arg("-i").arg(dir.join(format!("{daemon}.pid")));
            command.arg("-z").arg(dir.join("zserv")).arg("--vty_socket").arg(dir);
            Running::start(command.arg("-f").arg(config).args(more))
        };
        let zebra = start("zebra", "", &[]);
        wait_for("zebra", || dir.join("zserv").exists().then_some(()));
        let control = dir.join("control").display().to_string();
        let mut processes: Vec<Running> = daemons
            .iter()
            .map(|(daemon, text)| match *daemon {
                "bfdd" => start(daemon, text, &["--bfdctl", &control]),
                _ => start(daemon, text, &[]),
            })
            .collect();
        // It ends last.
        processes.push(zebra);
        Frr { _processes: processes, dir: dir.to_owned() }
    }

    /// What a command of its shell prints.
    pub fn show(&self, what: &str) -> String {
        let mut command = Command::new("vtysh");
        command.arg("--vty_socket").arg(&self.dir).args(["-c", &format!("show {what}")]);
        run(&mut command).stdout
    }
}
