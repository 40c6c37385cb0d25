//! Minutes of trouble, and many hosts. `./check cluster-long`.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use thruway_operator::resource::{ChainHost, ServiceChain};

use crate::cluster::Cluster;
use crate::life::idle;
use crate::process::wait_for;

/// How long trouble lasts.
const TROUBLE: Duration = Duration::from_secs(90);

/// Numbers that look random, the same each time (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).expect("31 bits") % end
    }
}

const HOSTS: [&str; 3] = ["a", "b", "c"];

fn chain(numbers: &mut Numbers) -> Value {
    let on_loss = ["Stay", "Move"][numbers.below(2)];
    json!({
        "configuration": format!("Idle -> c{} :: Counter -> Discard;", numbers.below(100)),
        "replicas": 1 + numbers.below(2),
        "placement": {"onHostLoss": on_loss},
    })
}

/// One trouble.
fn trouble(cluster: &mut Cluster, numbers: &mut Numbers) {
    let host = HOSTS[numbers.below(HOSTS.len())];
    match numbers.below(8) {
        0 => {
            cluster.host(host).kill_agent();
            cluster.host(host).start_agent();
        }
        1 => {
            let name = ["one", "two"][numbers.below(2)];
            drop(cluster.operators.remove(name));
            cluster.start_operator(name);
        }
        2 => {
            cluster.server.kill_api();
            cluster.server.start_api();
            wait_for("the API server", || cluster.server.is_ready().then_some(()));
        }
        3 => {
            let drain = numbers.below(2) == 0;
            let spec = json!({"zone": format!("zone-{host}"), "drain": drain});
            cluster.put::<ChainHost>(host, &spec);
        }
        4 => {
            cluster.host(host).kill_manager();
            cluster.host(host).start_manager();
        }
        5 => {
            let name = format!("c{}", numbers.below(6));
            if cluster.has::<ServiceChain>(&name) {
                cluster.delete::<ServiceChain>(&name);
            }
        }
        _ => {
            let name = format!("c{}", numbers.below(6));
            let spec = chain(numbers);
            // One that is being deleted takes no change; that is no matter here.
            let _ = cluster.try_put::<ServiceChain>(&name, &spec);
        }
    }
}

#[test]
#[ignore = "minutes; ./check cluster-long"]
fn it_converges_after_whatever_happens() {
    let mut cluster = Cluster::start(&HOSTS);
    cluster.start_operator("two");
    let file = cluster.server.dir.path().join("own.yaml");
    std::fs::write(&file, "chains:\n  own: {configuration: \"Idle -> Discard;\"}\n").expect("file");
    cluster.host("a").ask(&["apply", file.to_str().expect("text")]).expect("declared");
    let (mut numbers, begin, mut count) = (Numbers(0x9e37_79b9_7f4a_7c15), Instant::now(), 0);
    while begin.elapsed() < TROUBLE {
        trouble(&mut cluster, &mut numbers);
        count += 1;
        std::thread::sleep(Duration::from_millis(
            u64::try_from(numbers.below(500)).expect("small"),
        ));
    }
    for host in HOSTS {
        cluster.put::<ChainHost>(host, &json!({"zone": format!("zone-{host}"), "drain": false}));
        cluster.wait_host(host, "Ready");
    }
    println!("{count} troubles");
    let mut wanted = vec![Vec::new(); HOSTS.len()];
    for at in 0..6 {
        let name = format!("c{at}");
        wait_for("deletions come to an end", || (!cluster.is_ending(&name)).then_some(()));
        if !cluster.has::<ServiceChain>(&name) {
            continue;
        }
        for host in cluster.wait_running(&name) {
            let at = HOSTS.iter().position(|one| **one == host).expect("a host");
            wanted[at].push(format!("default--{name}"));
        }
    }
    wanted[0].push("own".to_owned());
    for (host, wanted) in HOSTS.iter().zip(wanted) {
        let host = &cluster.hosts[*host];
        wait_for("each host has what it is to have", || (host.chains() == wanted).then_some(()));
        wait_for("and runs it", || (host.planes().len() == wanted.len()).then_some(()));
    }
}

#[test]
#[ignore = "minutes; ./check cluster-long"]
fn a_change_reaches_a_host_within_a_second_fifty_times() {
    let mut cluster = Cluster::start(&["a"]);
    cluster.chain("web", &idle());
    cluster.wait_running("web");
    let mut times: Vec<Duration> = (0..50)
        .map(|at| {
            let text = format!("Idle -> v{at} :: Counter -> Discard;");
            let begin = Instant::now();
            cluster.chain("web", &json!({"configuration": text}));
            cluster.wait_running("web");
            let time = begin.elapsed();
            let shown = cluster.host("a").ask(&["describe", "default--web"]).expect("there");
            assert!(shown.contains(&format!("v{at} ::")), "{shown}");
            time
        })
        .collect();
    times.sort();
    println!("applied to running: median {:?}, worst {:?}", times[25], times[49]);
    assert!(times[49] < Duration::from_secs(1), "{times:?}");
}
