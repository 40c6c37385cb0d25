//! What belongs to which attachment. The kernel keeps it: each interface has its attachment in its
//! alias, so nothing can be out of date after a crash or a reboot.

use twox_hash::XxHash64;

use crate::error::CniError;

/// The first word of all aliases.
const OWNER: &str = "thruway-cni";
/// The second word of ports' aliases: no network may have this name (see [`crate::call::is_word`]).
const PORT: &str = "=port";
/// The longest alias, in bytes (`IFALIASZ` without the end).
const ALIAS_LEN_MAX: usize = 255;

/// The interface of a pod in a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Name of the network.
    pub network: String,
    /// Identity of the container.
    pub container: String,
    /// Name of the interface.
    pub interface: String,
}

impl Identity {
    /// The alias of its interfaces.
    ///
    /// # Errors
    /// It is longer than the kernel allows.
    pub fn alias(&self) -> Result<String, CniError> {
        let Identity { network, container, interface } = self;
        let alias = format!("{OWNER} {network} {container} {interface}");
        match alias.len() {
            ..=ALIAS_LEN_MAX => Ok(alias),
            len => Err(CniError::config(format!(
                "network '{network}' and container '{container}' have names too long: together \
                 with '{interface}' {} characters, of which {ALIAS_LEN_MAX} are possible",
                len
            ))),
        }
    }

    /// The attachment of an alias, if it is one.
    pub fn of_alias(alias: &str) -> Option<Identity> {
        let mut words = alias.split(' ');
        let mut next = || words.next().map(str::to_owned);
        let owner = next()?;
        let identity = Identity { network: next()?, container: next()?, interface: next()? };
        let whole = owner == OWNER && next().is_none() && identity.network != PORT;
        whole.then_some(identity)
    }
}

/// The alias of both ends of a port.
pub fn port_alias(port: &str) -> String {
    format!("{OWNER} {PORT} {port}")
}

/// A name for an interface that is being made: 15 characters of a text, the same for the same text.
pub fn interim_name(prefix: char, text: &str) -> String {
    let hash = XxHash64::oneshot(0, text.as_bytes());
    format!("tw{prefix}{:012x}", hash >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(container: &str) -> Identity {
        let (network, interface) = ("inside".into(), "net1".into());
        Identity { network, container: container.into(), interface }
    }

    #[test]
    fn aliases_are_read_as_they_were_written() {
        let pod = identity("pod-1");
        let alias = pod.alias().expect("it is short");
        assert_eq!(Identity::of_alias(&alias), Some(pod));
        for other in ["", "eth0 of mine", "thruway-cni a b", "thruway-cni a b c d", "x a b c"] {
            assert_eq!(Identity::of_alias(other), None, "{other}");
        }
        assert_eq!(Identity::of_alias(&port_alias("in0")), None);
        assert_eq!(identity(&"a".repeat(300)).alias().expect_err("too long").code, 7);
    }

    #[test]
    fn interim_names_fit() {
        let (one, other) = (interim_name('h', "a"), interim_name('h', "b"));
        assert_eq!(one.len(), 15);
        assert_ne!(one, other);
        assert_eq!(one, interim_name('h', "a"));
    }
}
