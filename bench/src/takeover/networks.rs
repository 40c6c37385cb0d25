//! Two networks that the hosts of a pair share.

use anyhow::Result;

use crate::namespace::Namespace;

/// Address of the server.
pub const SERVER: &str = "203.0.113.1";
/// Where the backup listens: the address of the second host on the cable of the pair.
pub const BACKUP: &str = "10.9.0.2:7070";

/// The name spaces of all hosts:
///
/// ```text
/// client -- lan bridge -- lan0 [a] wan0 -- wan bridge -- server
///                      \- lan0 [b] wan0 -/
/// 192.168.1.10     .1   a -- b: 10.9.0.1 -- 10.9.0.2     203.0.113.1
/// ```
pub struct Networks {
    pub client: Namespace,
    pub server: Namespace,
    pub hosts: [Namespace; 2],
    pub bridges: Namespace,
}

impl Networks {
    /// Makes them all, with names that begin so.
    ///
    /// # Errors
    /// The kernel refuses one, with its reason.
    pub fn new(prefix: &str) -> Result<Networks> {
        let [client, server, bridges] =
            ["client", "server", "bridges"].map(|role| Namespace::new(prefix, role));
        let (client, server, bridges) = (client?, server?, bridges?);
        let hosts = [Namespace::new(prefix, "a")?, Namespace::new(prefix, "b")?];
        for (bridge, end, address) in
            [("lan", &client, "192.168.1.10/24"), ("wan", &server, "203.0.113.1/24")]
        {
            bridges.ip(&format!("link add {bridge} type bridge"))?;
            bridges.ip(&format!("link set {bridge} addrgenmode none up"))?;
            bridges.cable(&format!("{bridge}end"), (end, "eth0"), "")?;
            end.ip(&format!("address add {address} dev eth0"))?;
            end.ip("link set eth0 up")?;
            for (host, port) in hosts.iter().zip(["a", "b"]) {
                host.cable(&format!("{bridge}0"), (&bridges, &format!("{bridge}{port}")), "")?;
            }
            for port in ["end", "a", "b"] {
                bridges.ip(&format!("link set {bridge}{port} master {bridge} up"))?;
            }
        }
        client.ip("route add default via 192.168.1.1")?;
        hosts[0].cable("pair0", (&hosts[1], "pair0"), "")?;
        for (host, last) in hosts.iter().zip(1..) {
            host.ip(&format!("address add 10.9.0.{last}/24 dev pair0"))?;
            host.ip("link set pair0 up")?;
        }
        Ok(Networks { client, server, hosts, bridges })
    }
}
