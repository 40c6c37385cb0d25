//! Requests that another site's page makes a browser send: they come with what this user's browser
//! has (a client certificate, a socket that ssh forwards), and nobody here asked for them.

use axum::http::{HeaderMap, header};

use super::context::Peer;
use super::problem::{Kind, Problem};

/// Refuses requests of other sites' pages.
///
/// # Errors
/// The browser says that it is one (Fetch Metadata), or it reached the Unix socket by the name of
/// another site (DNS rebinding), which is how such a page would seem to be this one's.
pub(super) fn check(headers: &HeaderMap, peer: Option<Peer>) -> Result<(), Problem> {
    let all = |name: &str, is_good: fn(&str) -> bool| {
        headers.get_all(name).iter().all(|value| value.to_str().is_ok_and(is_good))
    };
    if !all("sec-fetch-site", |site| ["same-origin", "none"].contains(&site)) {
        let detail =
            "the page of another site may not call the manager; use the manager's own page";
        return Err(Problem::new(Kind::Forbidden, detail).field("Sec-Fetch-Site"));
    }
    if matches!(peer, Some(Peer::Local { .. })) && !all(header::HOST.as_str(), is_of_this_host) {
        let detail = "the Unix socket is for this host: call it localhost";
        return Err(Problem::new(Kind::Forbidden, detail).field("Host"));
    }
    Ok(())
}

/// Whether a `Host` cannot be the name of a site: a single word, or a loopback address.
fn is_of_this_host(host: &str) -> bool {
    let (name, port) = host.rsplit_once(':').unwrap_or((host, ""));
    let name = if port.bytes().all(|byte| byte.is_ascii_digit()) { name } else { host };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    match name.parse::<std::net::IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => !name.contains('.'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sites_are_told_from_those_of_this_host() {
        for here in ["", "-", "localhost", "localhost:8080", "127.0.0.1:80", "[::1]:80", "[::1]"] {
            assert!(is_of_this_host(here), "{here}");
        }
        for site in ["a.example", "a.example:80", "192.0.2.1", "[2001:db8::1]:80", "localhost."] {
            assert!(!is_of_this_host(site), "{site}");
        }
    }
}
