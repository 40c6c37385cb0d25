//! What the configuration says: variables, and classes of rules.

use std::collections::HashMap;

use crate::rules::ends::{AddressRange, Member, PortRange, Spec};

/// How deep variables may refer to others.
pub(super) const REFERENCES_MAX: usize = 8;

/// A class of rules (`classification.config`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Class {
    /// What it is called in events.
    pub description: String,
    /// 1 (high) to 255.
    pub priority: u8,
}

/// Variables and classes.
#[derive(Debug, Clone, Default)]
pub struct Variables {
    addresses: HashMap<String, Spec<AddressRange>>,
    ports: HashMap<String, Spec<PortRange>>,
    classes: HashMap<String, Class>,
}

/// Addresses of the networks that are usually protected (RFC 1918).
const PRIVATE: &str = "[192.168.0.0/16,10.0.0.0/8,172.16.0.0/12]";

impl Variables {
    /// With the names that rules use everywhere, each with the value that is usual: private
    /// networks are at home, all others are not, servers are at home, services have their ports.
    pub fn usual() -> Variables {
        let mut variables = Variables::default();
        let home = ["HTTP", "SMTP", "SQL", "DNS", "TELNET"].map(|name| format!("{name}_SERVERS"));
        let addresses = [
            ("HOME_NET", PRIVATE),
            ("EXTERNAL_NET", "!$HOME_NET"),
            ("AIM_SERVERS", "$EXTERNAL_NET"),
        ];
        let ports = [
            ("HTTP_PORTS", "80"),
            ("SHELLCODE_PORTS", "!80"),
            ("ORACLE_PORTS", "1521"),
            ("SSH_PORTS", "22"),
            ("DNP3_PORTS", "20000"),
            ("MODBUS_PORTS", "502"),
            ("FILE_DATA_PORTS", "[$HTTP_PORTS,110,143]"),
            ("FTP_PORTS", "21"),
        ];
        let good = addresses
            .into_iter()
            .chain(home.iter().map(|name| (name.as_str(), "$HOME_NET")))
            .all(|(name, value)| variables.set_addresses(name, value).is_ok())
            && ports.into_iter().all(|(name, value)| variables.set_ports(name, value).is_ok());
        debug_assert!(good, "the usual variables are well written");
        variables
    }

    /// Says what the addresses of a name (without `$`) are.
    ///
    /// # Errors
    /// What is wrong with the value.
    pub fn set_addresses(&mut self, name: &str, value: &str) -> Result<(), String> {
        self.addresses.insert(name.to_owned(), Spec::parse(value)?);
        Ok(())
    }

    /// Says what the ports of a name (without `$`) are.
    ///
    /// # Errors
    /// What is wrong with the value.
    pub fn set_ports(&mut self, name: &str, value: &str) -> Result<(), String> {
        self.ports.insert(name.to_owned(), Spec::parse(value)?);
        Ok(())
    }

    /// Reads classes: lines `config classification: name,description,priority`. Returns the lines
    /// that are none.
    pub fn read_classes(&mut self, text: &str) -> Vec<usize> {
        let mut wrong = Vec::new();
        for (at, line) in text.lines().map(str::trim).enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match class(line) {
                Some((name, class)) => drop(self.classes.insert(name.to_owned(), class)),
                None => wrong.push(at + 1),
            }
        }
        wrong
    }

    /// What is known of a class.
    pub fn class(&self, name: &str) -> Option<&Class> {
        self.classes.get(name)
    }
}

fn class(line: &str) -> Option<(&str, Class)> {
    let rest = line.strip_prefix("config classification:")?;
    let mut words = rest.split(',').map(str::trim);
    let (name, description, priority) = (words.next()?, words.next()?, words.next()?);
    let priority = priority.parse().ok().filter(|priority| *priority > 0)?;
    Some((name, Class { description: description.to_owned(), priority }))
}

/// Types of variables.
pub(super) trait Known: Member + Sized {
    /// What a name stands for.
    fn named<'a>(variables: &'a Variables, name: &str) -> Option<&'a Spec<Self>>;
}

impl Known for AddressRange {
    fn named<'a>(variables: &'a Variables, name: &str) -> Option<&'a Spec<AddressRange>> {
        variables.addresses.get(name)
    }
}

impl Known for PortRange {
    fn named<'a>(variables: &'a Variables, name: &str) -> Option<&'a Spec<PortRange>> {
        variables.ports.get(name)
    }
}
