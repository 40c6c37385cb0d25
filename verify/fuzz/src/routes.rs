//! Routing tables: changed by handlers as a client would, they say what looking at each route says.

use std::net::Ipv4Addr;

use thruway_elements::CATALOG;
use thruway_engine::{Options, Router};
use thruway_lang::{NoLibraries, Source, Variables, load};

use crate::input::halves;

/// Most changes of a table.
const CHANGES_MAX: usize = 40;

/// A route as it is kept: network, length of its prefix, output.
type Route = (u32, u8, u8);

fn mask(len: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0)
}

/// Adds and removes routes of six bytes each, then asks for addresses of four bytes.
pub fn run(bytes: &[u8]) {
    let (changes, asked) = halves(bytes);
    let text = "Idle -> r :: RadixIPLookup(); r[0] -> Discard; r[1] -> Discard; r[2] -> Discard";
    let loaded = load(Source::new("fuzz", text), &CATALOG, &Variables::new(), &NoLibraries)
        .expect("a good configuration");
    let mut router = Router::new(loaded.graph, loaded.checked, &CATALOG, &Options::default())
        .expect("a good configuration");
    let mut routes: Vec<Route> = Vec::new();
    for change in changes.chunks_exact(6).take(CHANGES_MAX) {
        let [a, b, c, d, len, what] = change.try_into().expect("so many bytes");
        let (len, output) = (len % 33, what % 3);
        let net = u32::from_be_bytes([a, b, c, d]) & mask(len);
        let at = routes.iter().position(|route| (route.0, route.1) == (net, len));
        let prefix = format!("{}/{len}", Ipv4Addr::from(net));
        let (call, done) = match what >> 6 {
            0 => ("remove", at.is_some()),
            1 => ("set", true),
            _ => ("add", at.is_none()),
        };
        let value = if call == "remove" { prefix } else { format!("{prefix} {output}") };
        assert_eq!(router.write(&format!("r.{call}"), &value).is_ok(), done, "{call} {value}");
        match (call, at) {
            ("remove", Some(at)) => drop(routes.remove(at)),
            ("set", Some(at)) => routes[at].2 = output,
            (_, None) if done => routes.push((net, len, output)),
            _ => {}
        }
    }
    for address in asked.chunks_exact(4) {
        let address = u32::from_be_bytes(address.try_into().expect("so many bytes"));
        let matching = routes.iter().filter(|(net, len, _)| address & mask(*len) == *net);
        let best = matching.max_by_key(|route| route.1);
        let expected = best.map_or("-1".to_owned(), |route| route.2.to_string());
        let answer = router.read(&format!("r.lookup {}", Ipv4Addr::from(address)));
        let answer = answer.expect("an address");
        let output = answer.split_whitespace().next().unwrap_or_default();
        assert_eq!(output, expected, "{} in {routes:?}", Ipv4Addr::from(address));
    }
}
