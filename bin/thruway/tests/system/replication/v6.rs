//! The same over IPv6: sessions, the stream between the hosts, and the announcements.

use std::time::Duration;

use super::{Pair, lose_active};
use crate::process::{Running, need, privileged, wait_for};
use crate::traffic::{random_bytes, serve, sha256};

/// Bytes of the file that curl fetches meanwhile, and how fast at most, by curl's own pace.
const FILE_LEN: usize = 6 << 20;
const PACE: &str = "1M";

/// What tcpdump sees of unsolicited advertisements at a client, and curl, which begins before the
/// loss and ends after it.
struct Watched {
    curl: Running,
    capture: Running,
}

impl Watched {
    fn begin(pair: &Pair) -> Watched {
        let mut capture = pair.inside.command("tcpdump");
        capture.args(["-lnvi", "eth0", "icmp6 and ip6[40] == 136 and dst host ff02::1"]);
        let capture = Running::start(&mut capture);
        let ready = || capture.stderr().contains("listening on").then_some(());
        wait_for("tcpdump", ready);
        let mut curl = pair.inside.command("curl");
        curl.args(["-sS", "-g", "--max-time", "30", "--limit-rate", PACE, "-o"]);
        curl.arg(pair.path("copy")).arg("http://[2001:db8:2::1]:8080/file");
        Watched { curl: Running::start(&mut curl), capture }
    }
}

#[test]
fn sessions_of_ipv6_survive_the_loss_of_a_host() {
    if !privileged("sessions_of_ipv6_survive_the_loss_of_a_host") {
        return;
    }
    need("curl", "curl");
    need("tcpdump", "tcpdump");
    let mut pair = Pair::new();
    pair.is_v6 = true;
    std::fs::write(pair.path("file"), random_bytes(FILE_LEN)).expect("room for a file");
    let _server = serve(&pair.outside, "2001:db8:2::1", pair.files.path());
    let mut watched = None;
    lose_active(&mut pair, "firewall6.open", |pair| watched = Some(Watched::begin(pair)));
    let Watched { curl, capture } = watched.expect("it was begun");
    curl.wait(Duration::from_secs(30)).expect(0);
    let hash = |name| sha256(pair.path(name).as_ref());
    assert_eq!(hash("copy"), hash("file"));
    let seen = capture.interrupt().stdout;
    for flag in ["router", "override", "tgt is fd00:1::1", "02:00:00:00:00:02"] {
        assert!(seen.contains(flag), "no {flag} in {seen}");
    }
    assert!(!seen.contains("solicited"), "{seen}");
}
