//! Routes of the kernel that a data plane has, without a routing daemon.

use rustix::process::Signal;

use crate::control::Client;
use crate::network::Namespace;
use crate::process::{Running, privileged, wait_for};

#[test]
fn routes_stay_in_a_hot_swap_and_go_with_the_process() {
    if !privileged("routes_stay_in_a_hot_swap_and_go_with_the_process") {
        return;
    }
    let host = Namespace::new("host");
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("socket");
    let text = |arguments: &str, more: &str| {
        let socket = socket.display();
        format!("ControlSocket(UNIX, {socket}); routes :: KernelRoutes({arguments}); {more}")
    };
    let first = text("192.0.2.0/28, 2001:db8::/64, NAME service0", "");
    let running = Running::start(host.thruway().args(["run", "-q", "-R", "-e", &first]));
    let mut client = Client::unix(&socket);
    let routes = || {
        let all = ["-4", "-6"].map(|version| host.succeed(&format!("ip {version} route show")));
        let lines = all.iter().flat_map(|all| all.lines());
        let own = lines.filter(|line| line.contains("dev service"));
        let prefixes = own.filter_map(|line| line.split_whitespace().next());
        let global = prefixes.filter(|prefix| !prefix.starts_with("fe80"));
        global.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(routes(), [""; 0], "until it is asked");
    let (code, said) = client.ask("WRITE routes.active true");
    assert_eq!(code, 200, "{said}");
    assert_eq!(routes(), ["192.0.2.0/28", "2001:db8::/64"]);
    assert_eq!(client.ask("WRITE routes.active maybe").0, 520);

    // Which routes they are follows from the configuration, whether they are there does not.
    let index = host.succeed("ip -br link show dev service0");
    let mut swap = |arguments: &str, element: &str| {
        let next = text(arguments, &format!("Idle -> {element} :: Counter -> Discard"));
        assert_eq!(client.write_data("hotconfig", &next).0, 200);
        wait_for("the swap", || {
            (client.ask(&format!("CHECKREAD {element}.count")).0 == 200).then_some(())
        });
        client.read("routes.active")
    };
    assert_eq!(swap("192.0.2.0/28, 198.51.100.0/24, NAME service0", "a"), "true");
    assert_eq!(routes(), ["192.0.2.0/28", "198.51.100.0/24"]);
    assert_eq!(host.succeed("ip -br link show dev service0"), index, "the same interface");
    // Elsewhere, by another interface: the first one goes once the second has its routes.
    assert_eq!(swap("192.0.2.0/28, NAME service1, METRIC 7", "b"), "true");
    wait_for("the first interface to go", || {
        (host.run("ip link show dev service0").code() != 0).then_some(())
    });
    assert_eq!(routes(), ["192.0.2.0/28"]);

    // A configuration that cannot run leaves the routes.
    client.write_data("hotconfig", &text("192.0.2.0/28, NAME lo", ""));
    wait_for("the refusal", || running.stderr().contains("lo").then_some(()));
    assert_eq!(
        (routes(), client.read("routes.active")),
        (vec!["192.0.2.0/28".into()], "true".into())
    );

    running.signal(Signal::KILL);
    wait_for("the routes to go", || routes().is_empty().then_some(()));
}
