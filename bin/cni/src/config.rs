//! The configuration of a network, which a runtime passes on standard input.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::call::{Call, INTERFACE_NAME_MAX, check_interface_name, is_word};
use crate::error::{CniError, Code};
use crate::identity::Identity;
use crate::mac::Mac;
use crate::netlink::Sharing;
use crate::result::CniResult;
use crate::version::Version;

/// The longest configuration, in bytes.
pub const LEN_MAX: u64 = 1 << 20;

/// Where the manager answers if nobody says otherwise (the API of `thruway daemon`).
const MANAGER_SOCKET: &str = "/run/thruway/manager/api.sock";

/// MTUs that Ethernet interfaces can have, in bytes (`ETH_MIN_MTU`, `ETH_MAX_MTU`).
const MTU_RANGE: std::ops::RangeInclusive<u32> = 68..=65535;

/// What every verb needs of a configuration.
#[derive(Debug, Clone)]
pub struct Network {
    /// Version of the specification.
    pub version: Version,
    /// Name of the network.
    pub name: String,
    /// The IPAM plugin, if there is one.
    pub ipam: Option<String>,
    /// All of it.
    fields: Map<String, Value>,
    /// All of it, as it came: an IPAM plugin gets the same.
    pub text: Vec<u8>,
}

/// An attachment that is valid.
#[derive(Debug, Clone, Deserialize)]
struct Attachment {
    #[serde(rename = "containerID")]
    container: String,
    #[serde(rename = "ifname")]
    interface: String,
}

/// Which pods a port is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Any number.
    Shared(Sharing),
    /// One pod, whose cable the port is.
    Direct,
}

/// A chain that must run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainRef {
    /// Its name at the manager.
    pub name: String,
    /// The manager's socket.
    pub socket: PathBuf,
}

/// A configuration that is right.
#[derive(Debug, Clone)]
pub struct Config {
    /// The port: an interface of the host that a chain reads and writes.
    pub port: String,
    /// Which pods it is for.
    pub mode: Mode,
    /// The longest packet, in bytes.
    pub mtu: Option<u32>,
    /// The Ethernet address of the pod's interface.
    pub mac: Option<Mac>,
    /// The chain, if it is to be looked at.
    pub chain: Option<ChainRef>,
    /// Name servers of the network.
    pub dns: Value,
}

/// Fields of the specification, and those of this plugin.
const FIELDS: [&str; 20] = [
    "cniVersion",
    "cniVersions",
    "name",
    "type",
    "args",
    "ipMasq",
    "ipam",
    "dns",
    "capabilities",
    "runtimeConfig",
    "prevResult",
    "disableCheck",
    "disableGC",
    "port",
    "mode",
    "podToPod",
    "mtu",
    "mac",
    "chain",
    "managerSocket",
];

/// The field of the attachments that are valid, and what an edition of the specification called it;
/// runtimes give both.
const VALID: [&str; 2] = ["cni.dev/valid-attachments", "cni.dev/attachments"];

impl Network {
    /// Reads what every verb needs.
    ///
    /// # Errors
    /// It is no JSON object; its version, name or IPAM plugin is wrong.
    pub fn read(text: &[u8]) -> Result<Network, CniError> {
        let decoding = |error| {
            CniError::new(Code::Decoding, format!("the configuration is no JSON object: {error}"))
        };
        let fields: Map<String, Value> = serde_json::from_slice(text).map_err(decoding)?;
        let version = text_of(&fields, "cniVersion")?.unwrap_or_default();
        let version = Version::parse(version)?;
        let name = text_of(&fields, "name")?.unwrap_or_default();
        if !is_word(name) {
            let why = "it begins with a letter or digit and has letters, digits, '_', '.' and '-'";
            return Err(wrong("name", &Value::from(name), why));
        }
        let ipam = ipam_of(&fields)?;
        let (name, text) = (name.to_owned(), text.to_vec());
        Ok(Network { version, name, ipam, fields, text })
    }

    /// What plugins before this one gave, or what ADD gave.
    ///
    /// # Errors
    /// It is no result.
    pub fn previous(&self) -> Result<Option<CniResult>, CniError> {
        part(&self.fields, "prevResult")
    }

    /// The identity of the interface that a call is about.
    pub fn identity(&self, call: &Call) -> Identity {
        let (container, interface) = (call.container.clone(), call.interface.clone());
        Identity { network: self.name.clone(), container, interface }
    }

    /// The attachments of this network that are valid (GC).
    ///
    /// # Errors
    /// The runtime names none: then they are not known, which is another thing than none.
    pub fn valid_attachments(&self) -> Result<Vec<Identity>, CniError> {
        let Some(name) = VALID.into_iter().find(|name| self.fields.contains_key(*name)) else {
            let why = format!("{} is missing: without it nothing is known to be useless", VALID[0]);
            return Err(CniError::config(why));
        };
        let valid: Vec<Attachment> = part(&self.fields, name)?.unwrap_or_default();
        let identity = |one: Attachment| Identity {
            network: self.name.clone(),
            container: one.container,
            interface: one.interface,
        };
        Ok(valid.into_iter().map(identity).collect())
    }
}

/// A field that must be a text if it is there.
fn text_of<'f>(fields: &'f Map<String, Value>, name: &str) -> Result<Option<&'f str>, CniError> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(wrong(name, other, "it must be a text")),
    }
}

fn part<T: serde::de::DeserializeOwned>(
    fields: &Map<String, Value>,
    name: &str,
) -> Result<Option<T>, CniError> {
    let Some(value) = fields.get(name).filter(|value| !value.is_null()) else { return Ok(None) };
    let read = T::deserialize(value);
    read.map(Some).map_err(|error| CniError::new(Code::Decoding, format!("{name}: {error}")))
}

fn wrong(name: &str, value: &Value, why: &str) -> CniError {
    CniError::config(format!("{name} {value}: {why}"))
}

fn ipam_of(fields: &Map<String, Value>) -> Result<Option<String>, CniError> {
    let Some(ipam) = fields.get("ipam").filter(|ipam| !ipam.is_null()) else { return Ok(None) };
    let Some(ipam) = ipam.as_object() else {
        return Err(wrong("ipam", ipam, "it must be an object with a type"));
    };
    // {} is what some runtimes write for none.
    if ipam.is_empty() {
        return Ok(None);
    }
    let plugin = text_of(ipam, "type")?.unwrap_or_default();
    let refused = |why| Err(wrong("ipam.type", &Value::from(plugin), why));
    match plugin {
        "" | "." | ".." => refused("name the IPAM plugin: host-local, static, dhcp"),
        _ if plugin.contains('/') => refused("it is the name of a program in CNI_PATH, no path"),
        _ if fields.get("type").and_then(Value::as_str) == Some(plugin) => {
            refused("it is this plugin, which manages no addresses; take host-local, static, dhcp")
        }
        _ => Ok(Some(plugin.to_owned())),
    }
}

impl Config {
    /// Reads the rest of a configuration.
    ///
    /// # Errors
    /// A field is unknown or wrong.
    pub fn read(network: &Network, call: &Call) -> Result<Config, CniError> {
        let fields = &network.fields;
        refuse_unknown(fields)?;
        let port = text_of(fields, "port")?.unwrap_or_default();
        let mode = mode_of(fields)?;
        check_port_name(port, mode == Mode::Direct)
            .map_err(|why| wrong("port", &Value::from(port), &why))?;
        let dns = fields.get("dns").cloned().unwrap_or_default();
        Ok(Config {
            port: port.to_owned(),
            mode,
            mtu: mtu_of(fields)?,
            mac: mac_of(fields, call)?,
            chain: chain_of(fields)?,
            dns,
        })
    }
}

fn refuse_unknown(fields: &Map<String, Value>) -> Result<(), CniError> {
    // Others' fields have their owner's domain in front: cni.dev/valid-attachments.
    let unknown = |name: &&String| !FIELDS.contains(&name.as_str()) && !name.contains('/');
    let masquerades = fields.get("ipMasq").filter(|value| **value == Value::Bool(true));
    if masquerades.is_some() {
        let why = "ipMasq true is not supported: translate addresses in the chain";
        return Err(CniError::new(Code::UnsupportedField, why));
    }
    let Some(name) = fields.keys().find(unknown) else { return Ok(()) };
    let own = FIELDS[13..].join(", ");
    let why = format!("{name} {} is not supported; fields of this plugin: {own}", fields[name]);
    Err(CniError::new(Code::UnsupportedField, why))
}

/// Names of a port's other end.
pub fn inner_end(port: &str) -> String {
    format!("{port}-in")
}

/// Whether a port may have this name.
///
/// # Errors
/// What is wrong with it.
pub fn check_port_name(port: &str, direct: bool) -> Result<(), String> {
    if port.is_empty() {
        return Err("name the interface of the host that the chain reads, e.g. inside0".into());
    }
    check_interface_name(port)?;
    let len_max = INTERFACE_NAME_MAX - inner_end("").len();
    if !direct && port.len() > len_max {
        let len = port.len();
        return Err(format!(
            "it has {len} characters; at most {len_max}, as its other end is '{port}-in'"
        ));
    }
    // The kernel takes it for a pattern; ifupdown and files of sysctl for something else.
    match port.bytes().find(|byte| !byte.is_ascii_alphanumeric() && !b"_.-".contains(byte)) {
        None => Ok(()),
        Some(byte) => Err(format!("'{}' is not possible in it", char::from(byte))),
    }
}

fn mode_of(fields: &Map<String, Value>) -> Result<Mode, CniError> {
    let between = text_of(fields, "podToPod")?;
    let sharing = match between {
        None | Some("chain") => Sharing::ByChain,
        Some("direct") => Sharing::Directly,
        Some(_) => {
            let why =
                "it is \"chain\", or \"direct\" for pods that reach each other past the chain";
            return Err(wrong("podToPod", &fields["podToPod"], why));
        }
    };
    match text_of(fields, "mode")? {
        None | Some("shared") => Ok(Mode::Shared(sharing)),
        Some("direct") if between.is_none() => Ok(Mode::Direct),
        Some("direct") => {
            let why = "a port of mode \"direct\" has one pod; leave podToPod out";
            Err(wrong("podToPod", &fields["podToPod"], why))
        }
        Some(_) => {
            let why = "it is \"shared\", or \"direct\" for a port of one pod";
            Err(wrong("mode", &fields["mode"], why))
        }
    }
}

fn mtu_of(fields: &Map<String, Value>) -> Result<Option<u32>, CniError> {
    let Some(value) = fields.get("mtu").filter(|value| !value.is_null()) else { return Ok(None) };
    let mtu = value.as_u64().and_then(|mtu| u32::try_from(mtu).ok());
    match mtu.filter(|mtu| MTU_RANGE.contains(mtu)) {
        Some(mtu) => Ok(Some(mtu)),
        None => Err(wrong("mtu", value, "it is a number of bytes from 68 to 65535")),
    }
}

/// The address by the capability `mac`, by the conventions' `args`, by `CNI_ARGS`, or of the
/// configuration, in this order.
fn mac_of(fields: &Map<String, Value>, call: &Call) -> Result<Option<Mac>, CniError> {
    let at = |path: &str| {
        let (first, rest) = path.split_once('/')?;
        fields.get(first)?.pointer(&format!("/{rest}"))
    };
    let given = [
        ("runtimeConfig.mac", at("runtimeConfig/mac").cloned()),
        ("args.cni.mac", at("args/cni/mac").cloned()),
        ("MAC in CNI_ARGS", call.mac.clone().map(Value::from)),
        ("mac", fields.get("mac").cloned()),
    ];
    let given = given.into_iter().find_map(|(name, value)| Some((name, value?)));
    let Some((name, value)) = given else { return Ok(None) };
    let text = value.as_str().ok_or_else(|| wrong(name, &value, "it must be a text"))?;
    text.parse().map(Some).map_err(|why: String| CniError::config(format!("{name}: {why}")))
}

fn chain_of(fields: &Map<String, Value>) -> Result<Option<ChainRef>, CniError> {
    let Some(name) = text_of(fields, "chain")? else { return Ok(None) };
    if !is_word(name) {
        let why = "it is the name of a chain at the manager; of a ServiceChain NAMESPACE--NAME";
        return Err(wrong("chain", &fields["chain"], why));
    }
    let socket = text_of(fields, "managerSocket")?.unwrap_or(MANAGER_SOCKET);
    Ok(Some(ChainRef { name: name.to_owned(), socket: socket.into() }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::call::Verb;

    fn call() -> Call {
        let (container, netns) = ("pod-1".to_owned(), "/run/netns/pod".to_owned());
        let (interface, path) = ("net1".to_owned(), Vec::new());
        Call { verb: Verb::Add, container, netns, interface, mac: None, path }
    }

    fn read(text: &str) -> Result<Config, CniError> {
        Config::read(&Network::read(text.as_bytes())?, &call())
    }

    const PLAIN: &str = r#"{"cniVersion": "1.0.0", "name": "inside", "type": "thruway-cni",
        "port": "inside0", "ipam": {"type": "host-local", "subnet": "10.9.0.0/24"}}"#;

    fn with(field: &str) -> String {
        PLAIN.replacen('{', &format!("{{{field}, "), 1)
    }

    #[test]
    fn defaults_are_a_port_for_many_pods() {
        let config = read(PLAIN).expect("it is right");
        assert_eq!((config.port.as_str(), config.mtu, config.mac), ("inside0", None, None));
        assert_eq!(config.mode, Mode::Shared(Sharing::ByChain));
        assert_eq!(config.chain, None);
        let network = Network::read(PLAIN.as_bytes()).expect("it is right");
        assert_eq!(network.ipam.as_deref(), Some("host-local"));
        let chain = read(&with(r#""chain": "default--edge""#)).expect("it is right").chain;
        assert_eq!(chain.expect("a chain").socket, PathBuf::from(MANAGER_SOCKET));
    }

    #[test]
    fn the_runtimes_address_is_before_that_of_the_network() {
        let both = with(
            r#""mac": "02:00:00:00:00:01", "runtimeConfig": {"mac": "02:00:00:00:00:02"},
            "args": {"cni": {"mac": "02:00:00:00:00:03"}}"#,
        );
        let mac = |text: &str| read(text).expect("it is right").mac.map(|mac| mac.0[5]);
        assert_eq!(mac(&both), Some(2));
        assert_eq!(mac(&both.replace("runtimeConfig", "others.org/x")), Some(3));
        assert_eq!(mac(&with(r#""mac": "02:00:00:00:00:01""#)), Some(1));
    }

    #[test]
    fn attachments_are_valid_if_they_are_named() {
        let valid = |text: &str| Network::read(text.as_bytes()).expect("it is right");
        let one = r#"[{"containerID": "pod-1", "ifname": "net1"}]"#;
        for name in VALID {
            let network = valid(&with(&format!(r#""{name}": {one}"#)));
            let all = network.valid_attachments().expect("they are named");
            assert_eq!(all, [network.identity(&call())]);
        }
        assert!(valid(PLAIN).valid_attachments().is_err());
        let none = valid(&with(r#""cni.dev/valid-attachments": null"#));
        assert_eq!(none.valid_attachments(), Ok(Vec::new()));
    }

    proptest! {
        /// No text makes it panic: neither any bytes, nor what is nearly right.
        #[test]
        fn any_text_is_read_or_refused(bytes: Vec<u8>, at in 0..PLAIN.len(), new: u8) {
            let _ = Network::read(&bytes);
            let mut near = PLAIN.as_bytes().to_vec();
            near[at] = new;
            if let Ok(network) = Network::read(&near) {
                let _ = Config::read(&network, &call());
                let _ = (network.previous(), network.valid_attachments());
            }
        }
    }
}
