//! Results: interfaces, addresses, routes (CNI specification 1.1, section "ADD Success").

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::{CniError, Code};
use crate::netlink::{Address, Route};
use crate::version::Version;

/// A result. What this plugin does not know of it stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CniResult {
    /// Version of the specification.
    #[serde(default, rename = "cniVersion")]
    pub version: String,
    /// Interfaces that were made.
    #[serde(default, deserialize_with = "or_none")]
    pub interfaces: Vec<Interface>,
    /// Their addresses.
    #[serde(default, deserialize_with = "or_none")]
    pub ips: Vec<IpConfig>,
    /// Routes of the pod.
    #[serde(default, deserialize_with = "or_none")]
    pub routes: Vec<RouteConfig>,
    /// Name servers.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub dns: Value,
}

/// An interface.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Interface {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// Its Ethernet address.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mac: String,
    /// The namespace that it is in; empty for the host's.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sandbox: String,
    /// The rest.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// An address.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct IpConfig {
    /// It, with the length of its prefix.
    pub address: String,
    /// A router of its network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
    /// Which of the interfaces has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<usize>,
    /// The rest.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A route.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RouteConfig {
    /// The network that it leads to.
    pub dst: String,
    /// Its router.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gw: Option<String>,
    /// `mtu`, `advmss`, `priority`, `table`, `scope` (from 1.1 on), and the rest.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// Lists may be null.
fn or_none<'d, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: serde::Deserializer<'d>,
    T: Deserialize<'d>,
{
    Option::<Vec<T>>::deserialize(from).map(Option::unwrap_or_default)
}

impl CniResult {
    /// As a version has it: until 1.0.0 each address has the version of its protocol.
    #[must_use]
    pub fn of_version(mut self, version: Version) -> CniResult {
        self.version = version.word().to_owned();
        for ip in &mut self.ips {
            let protocol = if ip.address.contains(':') { "6" } else { "4" };
            ip.rest.remove("version");
            if version < Version::V100 {
                ip.rest.insert("version".into(), protocol.into());
            }
        }
        if version < Version::V110 {
            self.interfaces.iter_mut().for_each(|one| drop(one.rest.remove("mtu")));
        }
        self
    }

    /// What another plugin's answer asks for.
    ///
    /// # Errors
    /// An address or route in it is wrong.
    pub fn read(&self) -> Result<Wanted, CniError> {
        let addresses = self.ips.iter().map(|ip| address_of(&ip.address)).collect::<Result<_, _>>();
        let gateways = self.ips.iter().filter_map(|ip| ip.gateway.as_deref());
        let gateways: Vec<IpAddr> = gateways.map(ip_of).collect::<Result<_, _>>()?;
        let routes = self.routes.iter().map(|route| route_of(route, &gateways));
        Ok(Wanted { addresses: addresses?, routes: routes.collect::<Result<_, _>>()? })
    }
}

/// Addresses and routes that an interface is to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Its addresses.
    pub addresses: Vec<Address>,
    /// Its routes.
    pub routes: Vec<Route>,
}

fn wrong(what: &str, text: &str, why: &str) -> CniError {
    CniError::new(Code::Ipam, format!("{what} '{text}' of the IPAM plugin: {why}"))
}

fn ip_of(text: &str) -> Result<IpAddr, CniError> {
    text.parse().map_err(|_| wrong("gateway", text, "it is no IP address"))
}

/// An address with a prefix, as `10.1.2.3/24`.
fn address_of(text: &str) -> Result<Address, CniError> {
    let parts = text.split_once('/');
    let parsed = parts.and_then(|(ip, len)| {
        let ip: IpAddr = ip.parse().ok()?;
        let len_max = if ip.is_ipv4() { 32 } else { 128 };
        let len = len.parse().ok().filter(|len| *len <= len_max)?;
        Some(Address { ip, len })
    });
    parsed.ok_or_else(|| wrong("address", text, "it is not written as 10.1.2.3/24"))
}

/// A network: an address without its host bits.
pub fn network_of(address: Address) -> Address {
    let Address { ip, len } = address;
    let ip = match ip {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
            IpAddr::from((ip.to_bits() & mask).to_be_bytes())
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
            IpAddr::from((ip.to_bits() & mask).to_be_bytes())
        }
    };
    Address { ip, len }
}

/// A route by the router that it names, or else by the first one of the addresses' networks.
fn route_of(route: &RouteConfig, gateways: &[IpAddr]) -> Result<Route, CniError> {
    let to = network_of(address_of(&route.dst)?);
    let same = |ip: &IpAddr| ip.is_ipv4() == to.ip.is_ipv4();
    let gateway = match route.gw.as_deref().filter(|gateway| !gateway.is_empty()) {
        Some(gateway) => Some(ip_of(gateway)?),
        None => gateways.iter().copied().find(same),
    };
    if gateway.is_some_and(|gateway| !same(&gateway)) {
        return Err(wrong("route to", &route.dst, "its router is of the other protocol"));
    }
    let number = |name: &str| match route.rest.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
            let why = format!("its {name} is no number");
            number.map(Some).ok_or_else(|| wrong("route to", &route.dst, &why))
        }
    };
    let scope = number("scope")?.map(u8::try_from).transpose();
    let scope = scope.map_err(|_| wrong("route to", &route.dst, "its scope is above 255"))?;
    Ok(Route {
        to,
        // A route of the link's scope has no router.
        gateway: gateway.filter(|_| scope.is_none_or(|scope| scope < 253 || route.gw.is_some())),
        table: number("table")?,
        priority: number("priority")?,
        scope,
        mtu: number("mtu")?,
        mss: number("advmss")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(text: &str) -> CniResult {
        serde_json::from_str(text).expect("JSON")
    }

    #[test]
    fn routes_go_by_the_router_of_their_protocol() {
        let wanted = result(
            r#"{"ips": [{"address": "10.1.2.3/24", "gateway": "10.1.2.1"},
                        {"address": "fd01::3/64", "gateway": "fd01::1"}],
                "routes": [{"dst": "10.9.8.7/16"}, {"dst": "::/0"}, {"dst": "10.8.0.0/16",
                    "gw": "10.1.2.9", "priority": 7, "mtu": 1300, "advmss": 1260, "table": 9},
                    {"dst": "10.7.0.0/16", "scope": 253}]}"#,
        );
        let wanted = wanted.read().expect("it is right");
        assert_eq!(wanted.addresses.len(), 2);
        let texts = wanted.routes.iter().map(|route| {
            let gateway = route.gateway.map(|ip| ip.to_string()).unwrap_or_default();
            format!("{}/{} {gateway}", route.to.ip, route.to.len)
        });
        let texts: Vec<String> = texts.collect();
        let all = ["10.9.0.0/16 10.1.2.1", "::/0 fd01::1", "10.8.0.0/16 10.1.2.9", "10.7.0.0/16 "];
        assert_eq!(texts, all);
        let third = &wanted.routes[2];
        assert_eq!((third.priority, third.table), (Some(7), Some(9)));
        assert_eq!((third.mtu, third.mss), (Some(1300), Some(1260)));
    }

    #[test]
    fn wrong_answers_are_refused() {
        for wrong in [
            r#"{"ips": [{"address": "10.1.2.3"}]}"#,
            r#"{"ips": [{"address": "10.1.2.3/33"}]}"#,
            r#"{"ips": [{"address": "fd01::3/129"}]}"#,
            r#"{"ips": [{"address": "10.1.2.3/24", "gateway": "router"}]}"#,
            r#"{"routes": [{"dst": "default"}]}"#,
            r#"{"routes": [{"dst": "10.0.0.0/8", "gw": "fd01::1"}]}"#,
            r#"{"routes": [{"dst": "10.0.0.0/8", "priority": -1}]}"#,
            r#"{"routes": [{"dst": "10.0.0.0/8", "scope": 256}]}"#,
        ] {
            assert_eq!(result(wrong).read().expect_err(wrong).code, 101);
        }
        assert!(result(r#"{"ips": null, "routes": null}"#).read().is_ok());
    }

    #[test]
    fn the_rest_of_a_result_stays() {
        let text = r#"{"cniVersion": "1.0.0", "interfaces": [{"name": "a", "pciID": "x"}],
            "ips": [{"address": "10.1.2.3/24", "version": "4"}], "routes": [], "dns": {}}"#;
        let old = result(text).of_version(Version::V031);
        assert_eq!(old.ips[0].rest["version"], "4");
        assert_eq!(old.interfaces[0].rest["pciID"], "x");
        assert_eq!(old.version, "0.3.1");
        assert!(result(text).of_version(Version::V110).ips[0].rest.is_empty());
    }
}
