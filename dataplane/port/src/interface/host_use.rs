//! What the host itself uses an interface for.

use std::net::IpAddr;

use super::find;

/// What the host's own stack does with an interface, if anything shows that it does.
pub fn used_by_host(name: &str) -> Option<String> {
    // Every interface that is up has a link-local IPv6 address of its own accord.
    let counts = |address: &IpAddr| match address {
        IpAddr::V4(_) => true,
        IpAddr::V6(address) => !address.is_unicast_link_local(),
    };
    let interface = find(name).ok()?;
    if let Some((address, _)) = interface.addresses.iter().find(|(address, _)| counts(address)) {
        return Some(format!("the host's stack has {address} there"));
    }
    let path = std::path::Path::new("/sys/class/net").join(name);
    let above = std::fs::read_dir(path).ok()?.flatten().find_map(|entry| {
        let file = entry.file_name().to_string_lossy().into_owned();
        (file == "master" || file.starts_with("upper_")).then_some(file)
    })?;
    match above.strip_prefix("upper_") {
        Some(upper) => Some(format!("{upper} of the host's stack stands on it")),
        None => Some("it is a port of a bridge or bond of the host's stack".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_the_hosts() {
        let why = used_by_host("lo").expect("it has an address");
        assert!(why.contains("127.0.0.1") || why.contains("::1"), "{why}");
        assert_eq!(used_by_host("nosuch0"), None);
    }
}
