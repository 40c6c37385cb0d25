//! The manager's page in a real browser: a chain is declared by it, its traffic is seen, a function
//! that is killed is seen to come back.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use thruway_manager::access::Role;
use thruway_manager::api::{Context, NetworkListener, router, serve_network};
use thruway_manager::events::EventLog;
use thruway_manager::grant::Grant;
use thruway_manager::planes::{Supervisor, SupervisorConfig};
use thruway_manager::store::Store;
use thruway_manager::tls::{self, Identity};
use thruway_manager::{ChainName, DataPlanes as _, Event, Manager};
use tokio::sync::watch;

use super::browser::{ARROW_DOWN, Browser, ESCAPE};
use super::functions::{Trusting, ask};
use super::keeper::signal;
use super::reports;
use super::swap::{LAN, WAN, under_traffic};
use crate::functions::parts::exec;
use crate::network::{Namespace, Network};
use crate::process::{privileged, wait_for};

/// Longest wait for the answer to a datagram; a new process has begun before.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// What an element says of itself that is markup, and would act if a page took it for that.
const MARKUP: &str = "<img src=x onerror=document.title=1>";

/// A manager that serves on the network, in a namespace.
pub(super) struct Server {
    manager: Arc<Manager>,
    planes: Arc<Supervisor>,
    address: SocketAddr,
    end: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
    _dir: TempDir,
}

impl Server {
    fn start(host: &Namespace) -> Server {
        Server::start_by(host, Path::new(env!("CARGO_BIN_EXE_thruway")))
    }

    /// One that runs chains by a program.
    pub(super) fn start_by(host: &Namespace, program: &Path) -> Server {
        let dir = TempDir::new().expect("a directory");
        let identity = certificate(dir.path());
        host.within(|| {
            let state = dir.path().join("state");
            let store = Store::open(&state).expect("a store");
            let config = SupervisorConfig::new(state, program);
            let (sender, received) = channel();
            let planes = Arc::new(Supervisor::start(config, sender).expect("a free state"));
            let events = Arc::<EventLog>::default();
            let log = Arc::clone(&events);
            std::thread::spawn(move || received.into_iter().for_each(|event| log.emit(event)));
            let manager = Manager::new(store, Arc::clone(&planes) as _, Arc::new(Trusting), events);
            let manager = Arc::new(manager.expect("a manager"));
            let (end, ending) = watch::channel(false);
            let context = Context::new(Arc::clone(&manager), ending);
            let config = tls::server(&identity).expect("a certificate");
            let (bound, address) = channel();
            let thread = std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                runtime.expect("a runtime").block_on(async {
                    let any = "127.0.0.1:0".parse().expect("an address");
                    let listener = NetworkListener::bind(any, config).await.expect("a port");
                    bound.send(listener.address().expect("it listens")).expect("a test");
                    serve_network(listener, router(context.clone()), context).await;
                });
            });
            let address = address.recv().expect("it listens");
            Server { manager, planes, address, end, thread: Some(thread), _dir: dir }
        })
    }

    /// Gives somebody a token.
    pub(super) fn token(&self, name: &str, role: Role) -> String {
        let grant = Grant {
            name: ChainName::new(name).expect("a name"),
            role,
            expires: None,
            certificate: None,
            author: "test".to_owned(),
        };
        self.manager.grant(grant).expect("room").1.expect("a token").text()
    }

    pub(super) fn url(&self) -> String {
        format!("https://{}/", self.address)
    }

    fn pid(&self, chain: &str) -> Option<u32> {
        self.planes.status(chain)?.pid
    }
}

impl Drop for Server {
    /// No process stays.
    fn drop(&mut self) {
        for chain in ["web", "large"] {
            if let Some(pid) = self.pid(chain) {
                signal(pid, Signal::KILL);
            }
        }
        self.end.send_replace(true);
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join)
            && !std::thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

/// A certificate that vouches for itself.
fn certificate(dir: &Path) -> Identity {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("made");
    let [certificate, key] = ["cert.pem", "key.pem"].map(|name| dir.join(name));
    std::fs::write(&certificate, made.cert.pem()).expect("room");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("room");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).expect("ours");
    Identity { certificate, key }
}

/// A cable with a firewall and a function in one direction.
fn cable() -> String {
    format!(
        "lan :: FromDevice(lan0, METHOD LINUX) -> l :: Classifier(12/0806, 12/0800, -);\n\
         wan :: FromDevice(wan0, METHOD LINUX) -> w :: Classifier(12/0806, 12/0800, -);\n\
         far :: ToDevice(wan0, METHOD LINUX); near :: ToDevice(lan0, METHOD LINUX);\n\
         l[0] -> far; w[0] -> near; l[2] -> Discard; w[2] -> Discard;\n\
         l[1] -> inside :: FlowClassifier ~> fw :: StatefulFirewall(allow udp)\n\
         -> nf :: Nf({}, ON_FAILURE restart, HOLD 10s)\n\
         -> q :: Queue(1000) -> Unqueue -> far;\n\
         w[1] -> outside :: FlowClassifier ~> [1] fw; fw[1] -> near;\n\
         RatedSource(\"there is no IP header here\", RATE 50) -> odd :: CheckIPHeader -> Discard;\n\
         InfiniteSource(LIMIT 5) -> check :: CheckIPHeader -> Discard;\n\
         Idle -> p :: Print(\"{MARKUP}\") -> Discard;\n",
        exec("passes")
    )
}

/// Enters by a token.
fn enter(browser: &Browser<'_>, token: &str) {
    browser.keys("#token", token);
    browser.click("button[type=submit]");
}

/// A browser with the page, in which someone who may change chains has logged in.
fn logged_in<'a>(host: &'a Namespace, server: &Server) -> Browser<'a> {
    let token = server.token("ann", Role::Operate);
    let browser = Browser::start(host);
    browser.open(&server.url());
    enter(&browser, &token);
    browser
}

/// Declares a chain by the form, as far as its confirmation.
fn declare(browser: &Browser<'_>, name: &str, configuration: &str, threads: &str) {
    browser.click("#new");
    browser.keys("#field-name", name);
    browser.keys("#field-configuration", configuration);
    browser.keys("#field-threads", threads);
    browser.click("#check");
}

/// A cell of the table of functions.
fn function(browser: &Browser<'_>, column: u32) -> String {
    browser.text(&format!("#functions tbody tr > :nth-child({column})"))
}

/// Waits until packets go through the function now; the rate as it is shown.
#[track_caller]
fn carries(browser: &Browser<'_>) -> String {
    browser.wait_text("#node-nf .rate", |text| text.ends_with("/s") && !text.starts_with("0/"))
}

#[test]
fn a_chain_is_declared_watched_and_stopped_by_the_page() {
    if !privileged("a_chain_is_declared_watched_and_stopped_by_the_page") {
        return;
    }
    let network = Network::new(&LAN, &WAN);
    let dir = TempDir::new().expect("a directory");
    reports::calibrate(dir.path());
    let server = Server::start_by(&network.middle, &reports::program(dir.path()));
    let token = server.token("ann", Role::Operate);
    let browser = Browser::start(&network.middle);
    browser.open(&server.url());
    enter(&browser, "ann.wrong");
    let refused = browser.wait_text("form .problem", |text| !text.is_empty());
    assert!(refused.contains("token"), "{refused}");
    browser.picture("login");
    // What the refusal of the first call and of the wrong token leaves in the browser's log.
    let before = browser.complaints();
    assert!(before.iter().all(|one| one.contains("401")), "{before:?}");
    browser.script("document.getElementById('token').value = ''");
    browser.open(&server.url());
    enter(&browser, &token);

    declare(&browser, "web", &cable(), "");
    let diff = browser.wait_text("dialog .diff", |text| !text.is_empty());
    assert!(diff.contains("+  lan :: FromDevice(lan0"), "{diff}");
    browser.picture("declare");
    assert_eq!(server.pid("web"), None, "it was only asked");
    browser.click("#confirm");
    browser.wait_text("#title", |text| text.starts_with("web"));
    wait_for("the heading, for who hears the page", || {
        (browser.script("return document.activeElement.id") == "title").then_some(())
    });
    browser.wait_text("#functions", |text| text.contains("running"));

    let flows = under_traffic(&network, (WAIT_MAX, ask), || watched(&browser));
    assert!(flows.iter().all(|flow| flow.answered > 100), "{flows:?}");
    a_text_is_shown_as_text(&browser);
    everything_can_be_reached_by_keys(&browser);
    changes_are_confirmed(&browser, &server);
    nothing_leaves(&browser, &server, &token);
}

/// Traffic is seen, and a function that is killed is seen to come back.
fn watched(browser: &Browser<'_>) {
    println!("the function carries {}", carries(browser));
    // So do the connections to it, and the sessions are counted.
    browser.wait_text("#sessions", |text| !text.starts_with("0 now"));
    let edges = wait_for("rates of edges", || {
        let shown = browser.script(
            "return [...document.querySelectorAll('.edge > text')]
                .filter(one => /^[1-9].*\\/s$/.test(one.textContent)).length",
        );
        shown.as_u64().filter(|count| *count >= 6)
    });
    println!("{edges} edges show a rate");
    let rows = "return [...document.querySelectorAll('#drops tbody tr')].map(e => e.textContent)";
    let drops = browser.script(rows);
    let drops = drops.as_array().expect("a list");
    assert!(drops.iter().any(|row| row == "checkbad-versionlost0/s5Examples"), "{drops:?}");
    examples(browser);
    browser.click("#list-session");
    browser.wait_text("#session-list", |text| text.contains("src=10.4.0.1"));
    reports::are_shown(browser);
    let ring = browser.text(".edge .fill text");
    assert!(ring.ends_with("/1024"), "how full the function's ring is: {ring:?}");
    browser.picture("running-light");
    let light = background(browser);
    browser.scheme("dark");
    assert_ne!(background(browser), light);
    browser.picture("running-dark");

    let pid: u32 = function(browser, 3).parse().expect("its process");
    signal(pid, Signal::KILL);
    wait_for("another process", || {
        let again = function(browser, 3).parse::<u32>().ok()?;
        (again != pid && function(browser, 2) == "running").then_some(())
    });
    assert_eq!(function(browser, 4), "1", "restarts");
    assert!(browser.text("#node-nf .note").contains("restarts 1"));
    carries(browser);
    browser.picture("restarted");
    browser.scheme("light");
}

/// What an element drops is shown by its packets.
fn examples(browser: &Browser<'_>) {
    browser.click("[aria-label='Examples of packets of odd: bad-version']");
    browser.wait_text("#examples", |text| text.contains("26 bytes, no header that is known"));
    assert_eq!(browser.script("return document.querySelectorAll('#examples li').length"), 3);
    let first = browser.text("#examples li:nth-child(1) pre");
    assert!(first.starts_with("0000  74 68 65 72 65"), "{first}");
    browser.picture("examples");
    // The others are of another moment: five packets that came long ago.
    browser.click("[aria-label='Examples of packets of check: bad-version']");
    browser.wait_text("#examples-status", |text| text.ends_with("none of them was one."));
    assert_eq!(browser.text("#examples"), "");
    browser.click("#close-examples");
}

fn background(browser: &Browser<'_>) -> Value {
    browser.script("return getComputedStyle(document.body).backgroundColor")
}

/// What comes from a configuration is text, whatever it looks like.
fn a_text_is_shown_as_text(browser: &Browser<'_>) {
    let button = "[...document.querySelectorAll('#elements button')]";
    browser.script(&format!("{button}.find(one => one.textContent === 'p').click()"));
    browser.wait_text(".detail pre", |text| text.contains(MARKUP));
    assert_eq!(browser.script("return document.querySelectorAll('main img').length"), 0);
    assert_eq!(browser.script("return document.title"), "web – Thruway manager");
}

/// Arrows lead along the graph, and all that can be used has a name for who hears the page.
fn everything_can_be_reached_by_keys(browser: &Browser<'_>) {
    browser.script("document.getElementById('node-lan').focus()");
    browser.keys("#node-lan", ARROW_DOWN);
    assert_eq!(browser.script("return document.activeElement.id"), "node-l");
    let one = browser.script("return document.querySelectorAll('.node[tabindex=\"0\"]').length");
    assert_eq!(one, 1, "the graph is one stop of the tabulator");
    let tree = browser.devtools("Accessibility.getFullAXTree", &serde_json::json!({}));
    let nodes = tree["nodes"].as_array().expect("a tree");
    let roles = ["button", "link", "textbox", "combobox", "dialog", "table", "meter"];
    let used = nodes.iter().filter(|node| {
        node["ignored"] != true && roles.iter().any(|role| node["role"]["value"] == *role)
    });
    let used: Vec<&Value> = used.collect();
    assert!(used.len() > 20, "{}", used.len());
    for node in used {
        let name = node["name"]["value"].as_str().unwrap_or_default();
        assert!(!name.trim().is_empty(), "without a name: {node}");
    }
}

/// Nothing is changed without a confirmation.
fn changes_are_confirmed(browser: &Browser<'_>, server: &Server) {
    let pid = server.pid("web").expect("it runs");
    browser.click("#stop");
    browser.wait_text("dialog .diff", |text| text.contains("+stopped: true"));
    browser.keys("#cancel", ESCAPE);
    wait_for("the end of the dialog", || {
        (browser.script("return document.querySelector('dialog') === null") == true).then_some(())
    });
    assert_eq!(server.pid("web"), Some(pid));
    assert_eq!(browser.script("return document.activeElement.id"), "stop", "where it was");
    browser.click("#stop");
    browser.click("#confirm");
    browser.wait_text(".conditions", |text| text.contains("Stopped"));
    assert_eq!(server.pid("web"), None);
    assert_eq!(browser.text("#functions"), "", "nothing runs");
    a_form_has_what_is_declared(browser);
    // Generation 1 is the one that ran.
    browser.click("#rollback");
    browser.click("#confirm");
    browser.wait_text("#functions", |text| text.contains("running"));
    assert_ne!(server.pid("web"), Some(pid));
    assert_eq!(function(browser, 4), "0", "restarts of the new process");
    browser.wait_text("#events", |text| text.contains("Stopped") && text.contains("RolledBack"));
    browser.click("#list-log");
    let output = browser.wait_text("#log-list", |text| !text.is_empty());
    println!("its process wrote: {output:.200}");
    browser.picture("after-rollback");
    the_list_shows_the_chain(browser);

    // Who may only look is told so.
    let viewer = server.token("bob", Role::View);
    browser.click("#leave");
    enter(browser, &viewer);
    browser.click("#stop");
    let refused = browser.wait_text("#problem", |text| !text.is_empty());
    assert!(refused.contains("needs operate"), "{refused}");
}

/// Events that a burst has: fewer than the page keeps.
const BURST: usize = 60;

/// Events that the page shows of a burst.
fn shown_of_burst(browser: &Browser<'_>) -> usize {
    browser.text("#events").matches("Burst").count()
}

/// The page loses none of what comes in one piece: by the stream, or as what was before.
#[test]
fn events_that_come_at_once_are_all_shown() {
    if !privileged("events_that_come_at_once_are_all_shown") {
        return;
    }
    let host = Namespace::new("page");
    let server = Server::start(&host);
    let browser = logged_in(&host, &server);
    declare(&browser, "web", "Idle -> Discard;", "");
    browser.click("#confirm");
    browser.wait_text("#events", |text| text.contains("Started"));
    for number in 1..=BURST {
        server.manager.events().emit(Event {
            time: SystemTime::now(),
            chain: "web".to_owned(),
            reason: "Burst".to_owned(),
            message: format!("number {number}."),
        });
    }
    let last = format!("number {BURST}.");
    browser.wait_text("#events", |text| text.contains(&last));
    assert_eq!(shown_of_burst(&browser), BURST, "as they came");
    browser.click("a.brand");
    browser.wait_text("#chains tbody", |text| text.contains("web"));
    browser.click("#chains tbody a");
    browser.wait_text("#events", |text| text.contains(&last));
    assert_eq!(shown_of_burst(&browser), BURST, "as what was before");
}

/// The list of chains, and the way there and back.
fn the_list_shows_the_chain(browser: &Browser<'_>) {
    browser.click("a.brand");
    browser.wait_text("#chains tbody", |text| text.contains("web") && text.contains("ready"));
    browser.scheme("dark");
    browser.picture("chains");
    browser.scheme("light");
    browser.click("#chains tbody a");
    browser.wait_text("#title", |text| text.starts_with("web"));
}

/// A change begins with the chain as it is, and a wrong one is refused in the manager's words.
fn a_form_has_what_is_declared(browser: &Browser<'_>) {
    browser.click("#change");
    let text = "return document.getElementById('field-configuration').value";
    wait_for("the form", || (browser.script(text) == cable().as_str()).then_some(()));
    browser.keys("#field-variables", "LAN");
    browser.click("#check");
    let problem = browser.wait_text("#declare-problem", |text| !text.is_empty());
    assert_eq!(problem, "'LAN' is not NAME=VALUE");
    browser.keys("#field-variables", "=lan0");
    browser.keys("#field-functions", "f=nosuch@1");
    browser.click("#check");
    let problem = browser.wait_text("#declare-problem", |text| text.contains("nosuch@1"));
    assert!(problem.starts_with("functions.f: "), "{problem}");
    browser.click("#close-form");
}

/// The token is nowhere, and nobody else was asked.
fn nothing_leaves(browser: &Browser<'_>, server: &Server, token: &str) {
    let asked = browser.script("return performance.getEntriesByType('resource').map(e => e.name)");
    let asked = asked.as_array().expect("a list");
    assert!(asked.len() > 10, "{asked:?}");
    let secret = token.split_once('.').expect("a secret").1;
    for url in asked.iter().map(|url| url.as_str().expect("text")) {
        assert!(url.starts_with(&server.url()) && !url.contains(secret), "{url}");
    }
    let kept = browser.script(
        "return [location.href, document.cookie, JSON.stringify({...localStorage}),
            JSON.stringify({...sessionStorage}), document.documentElement.outerHTML].join('\\n')",
    );
    assert!(!kept.as_str().expect("text").contains(secret));
    // A refusal is in the log, too; anything else is a fault of the page.
    let all = browser.complaints();
    let odd = all.iter().filter(|one| !["401", "403", "422"].iter().any(|code| one.contains(code)));
    assert_eq!(odd.collect::<Vec<_>>(), Vec::<&String>::new());
}

/// Rows of elements, 200 in all, that each have packets.
fn large() -> String {
    let row = |row: usize| {
        let mut text = format!("s{row} :: RatedSource(RATE 200)");
        (0..8).for_each(|at| text += &format!(" -> c{row}_{at} :: Counter"));
        text + " -> Discard;\n"
    };
    (0..20).map(row).collect()
}

#[test]
fn two_hundred_elements_and_sixty_four_threads_are_shown() {
    if !privileged("two_hundred_elements_and_sixty_four_threads_are_shown") {
        return;
    }
    let host = Namespace::new("page");
    let server = Server::start(&host);
    let browser = logged_in(&host, &server);
    declare(&browser, "large", &large(), "64");
    browser.click("#confirm");
    let number = |css: &str| {
        browser.script(&format!("return document.querySelectorAll('{css}').length")).as_u64()
    };
    wait_for("all elements", || (number(".node") == Some(200)).then_some(()));
    assert_eq!(number("#threads tbody tr"), Some(64));
    browser.script(
        "window.slow = []; new PerformanceObserver(list => list.getEntries()
            .forEach(one => window.slow.push(one.duration))).observe({type: 'longtask'})",
    );
    browser.wait_text("#node-s19 .rate", |text| text.ends_with("/s") && text != "0/s");
    let packets = || browser.text("#elements tbody tr td:nth-child(5)");
    let (first, mut looks) = (packets(), 0);
    wait_for("three more looks", || {
        looks += usize::from(packets() != first);
        (looks >= 3).then_some(())
    });
    std::thread::sleep(Duration::from_secs(5));
    let slow = browser.script("return window.slow");
    let slow: Vec<f64> =
        slow.as_array().expect("a list").iter().filter_map(Value::as_f64).collect();
    println!("tasks of more than 50 ms in the browser, in ms: {slow:?}");
    // It goes on being used between two graphs.
    assert!(slow.iter().all(|one| *one < 500.0), "{slow:?}");
    browser.picture("large");
    assert_eq!(browser.text("#stale"), "");
}
