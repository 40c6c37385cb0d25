//! Names on hosts of what namespaces have.
//!
//! A host names a chain `NAMESPACE--NAME`. Names of chains and functions have no `--` (a rule of
//! their resources), so the last `--` divides the two, and no two chains have one name.

use std::fmt;

/// Longest name of a chain or a function on a host, in bytes.
pub const LOCAL_LEN_MAX: usize = thruway_manager::name::NAME_LEN_MAX;

/// What divides a namespace from a name.
const DIVIDER: &str = "--";

/// What the namespace of a host's placements begins with.
const HOST_NAMESPACE: &str = "thruway-host-";

/// A resource of a namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Key {
    /// A resource of a namespace.
    pub fn new(namespace: &str, name: &str) -> Key {
        Key { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// Its name on hosts.
    ///
    /// # Errors
    /// It is too long, or would not be the only one; the text says what to do.
    pub fn local(&self) -> Result<String, String> {
        let local = format!("{}{DIVIDER}{}", self.namespace, self.name);
        if self.name.contains(DIVIDER) {
            return Err(format!("'{}' has '--' in it; give another name", self.name));
        }
        match local.len() > LOCAL_LEN_MAX {
            true => Err(format!(
                "hosts name it '{local}', which has more than {LOCAL_LEN_MAX} bytes; give a \
                 shorter name, or use a namespace with one"
            )),
            false => Ok(local),
        }
    }

    /// The resource that a host gives this name.
    pub fn of_local(local: &str) -> Option<Key> {
        let (namespace, name) = local.rsplit_once(DIVIDER)?;
        // The divider is the last of three hyphens or more: the namespace would end in one.
        let is_whole = !namespace.is_empty() && !name.is_empty() && !namespace.ends_with('-');
        is_whole.then(|| Key::new(namespace, name))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The namespace of what a host is to run.
pub fn host_namespace(host: &str) -> String {
    format!("{HOST_NAMESPACE}{host}")
}

/// The host of such a namespace.
pub fn host_of(namespace: &str) -> Option<&str> {
    namespace.strip_prefix(HOST_NAMESPACE).filter(|host| !host.is_empty())
}

/// The user as whom the agent of a host calls the API server: the common name of its certificate.
pub fn host_user(host: &str) -> String {
    format!("thruway:host:{host}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn label() -> impl Strategy<Value = String> {
        "[a-z0-9]([a-z0-9-]{0,12}[a-z0-9])?"
    }

    proptest! {
        #[test]
        fn a_local_name_is_of_one_resource(namespace in label(), name in label()) {
            let key = Key::new(&namespace, &name);
            match key.local() {
                Ok(local) => prop_assert_eq!(Key::of_local(&local), Some(key)),
                Err(_) => prop_assert!(name.contains("--")),
            }
        }

        #[test]
        fn hosts_are_found_by_their_namespaces(host in label()) {
            let namespace = host_namespace(&host);
            prop_assert_eq!(host_of(&namespace), Some(host.as_str()));
        }
    }

    #[test]
    fn long_names_are_refused_with_a_remedy() {
        let key = Key::new(&"n".repeat(40), &"c".repeat(40));
        assert!(key.local().expect_err("too long").contains("shorter"));
        assert_eq!(Key::of_local("web"), None);
        assert_eq!(Key::of_local("a---b"), None);
        assert_eq!(host_of("default"), None);
    }
}
