//! A gateway of Click's rewriters between two real networks.

use std::fs;

use crate::network::{HostConfig, Network};
use crate::process::{Running, need, privileged, root, run};
use crate::router::hops;
use crate::traffic::{fetch, listening, random_bytes};
use crate::web::{Files, fetch_many, get};

const LAN: HostConfig = HostConfig { addresses: &["192.168.1.2/24"], routers: &["192.168.1.1"] };
/// It knows no way to the hosts behind the gateway.
const WAN: HostConfig = HostConfig { addresses: &["192.0.2.1/24"], routers: &[] };

fn gateway() -> Network {
    need("ping", "iputils-ping");
    let mut network = Network::new(&LAN, &WAN);
    let mut command = network.middle.thruway();
    command.arg("click").arg(root().join("bin/thruway/tests/system/rewriters.click"));
    network.route(&mut command, "192.0.2.1");
    network
}

/// A server for one file, which connects to where its client says, and reports what that is.
const FTP: &str = r#"
import socket, sys
content = open(sys.argv[1], "rb").read()
server = socket.create_server(("192.0.2.1", 21))
while True:
    client, _ = server.accept()
    lines = client.makefile("rw", newline="\r\n")
    def say(text):
        lines.write(text + "\r\n")
        lines.flush()
    say("220 ready")
    for line in lines:
        word, _, rest = line.strip().partition(" ")
        if word == "PORT":
            print(rest, flush=True)
            n = [int(number) for number in rest.split(",")]
            where = (".".join(map(str, n[:4])), n[4] * 256 + n[5])
            say("200 well")
        elif word == "RETR":
            say("150 it comes")
            data = socket.socket()
            data.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            data.bind(("192.0.2.1", 20))
            data.connect(where)
            data.sendall(content)
            data.close()
            say("226 done")
        elif word == "QUIT":
            say("221 bye")
            break
        else:
            say({"USER": "331 who", "PASS": "230 hello", "PWD": '257 "/"', "TYPE": "200 well"}.get(word, "500 no"))
    client.close()
"#;

#[test]
fn rewriters_carry_pings_pages_and_errors() {
    if !privileged("rewriters_carry_pings_pages_and_errors") {
        return;
    }
    need("traceroute", "traceroute");
    let mut network = gateway();
    let (lan, wan) = (&network.lan, &network.wan);
    let pings = lan.succeed("ping -n -c 5 -i 0.05 -W 10 192.0.2.1");
    assert!(pings.contains("5 received"), "{pings}");
    // The server's refusal of a datagram quotes what was sent under the gateway's address.
    let route = lan.succeed("traceroute -n -q 1 -w 2 -m 4 192.0.2.1");
    assert_eq!(hops(&route), ["192.168.1.1", "192.0.2.1"]);
    let files = Files::new();
    let web = files.serve(wan, "server");
    assert_eq!(get(lan, "http://192.0.2.1/who"), "192.0.2.2 server");
    fetch_many(lan, &files, "192.0.2.1", 300);
    web.content();
    fetch(lan, wan, "192.0.2.1", 10 << 20);
    network.stop().expect(0);
}

#[test]
fn rewriters_let_in_what_an_ftp_client_announces() {
    if !privileged("rewriters_let_in_what_an_ftp_client_announces") {
        return;
    }
    for (tool, package) in [("curl", "curl"), ("python3", "python3")] {
        need(tool, package);
    }
    let mut network = gateway();
    let dir = tempfile::tempdir().expect("a directory");
    let (file, copy) = (dir.path().join("file"), dir.path().join("copy"));
    fs::write(&file, random_bytes(300_000)).expect("room for a file");
    let mut command = network.wan.command("python3");
    let server = Running::start(command.args(["-c", FTP]).arg(&file));
    listening(&network.wan, "21");
    for nth in 1..=3 {
        let mut command = network.lan.command("curl");
        command.args(["-sS", "--max-time", "20", "--disable-eprt", "-P", "-", "-o"]).arg(&copy);
        let done = run(command.arg("ftp://192.0.2.1/file"));
        assert_eq!(done.code(), 0, "{done:#?}{}", server.stderr());
        assert!(fs::read(&copy).is_ok_and(|copy| fs::read(&file).is_ok_and(|file| copy == file)));
        let told = server.stdout();
        assert_eq!(told.lines().count(), nth);
        assert!(told.lines().all(|line| line.starts_with("192,0,2,2,")), "{told}");
    }
    network.stop().expect(0);
}
