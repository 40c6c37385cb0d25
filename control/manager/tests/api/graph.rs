//! The graph of a chain that runs.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use hyper::Method;
use serde_json::json;
use thruway_manager::client::Content;

use crate::streams::Stream;
use crate::{Served, samples, start};

const GRAPH: &str = "element\ts\tInfiniteSource\t0\tcount\n\
                     element\tq\tQueue\t0\tlength,capacity,highwater_length\n\
                     element\tnf\tNf\t0\tstate,pid,restarts,packets_in,packets_out,occupancy,last_error\n\
                     edge\t0\t0\t1\t0\tpush\tpacket\nedge\t1\t0\t2\t0\tpull\tpacket\n";

/// What is reported when the source has made so many packets.
fn statistics(packets: u64) -> String {
    format!(
        "time\t77\t{packets}000\nthread\t0\t5\t{packets}\t1\t1\t1\n\
         element\ts\tInfiniteSource\t{packets}\t1\t10\t0\nelement\tq\tQueue\t{packets}\t1\t9\t0\n\
         drop\tq\tqueue-full\t2\tlost\nelement\tnf\tNf\t4\t1\t8\t0\n"
    )
}

pub fn report(served: &Served, packets: u64) {
    let handlers = (GRAPH.to_owned(), statistics(packets));
    *served.planes.graph.lock() = Some(handlers);
}

#[tokio::test]
async fn a_graph_has_its_counters() {
    let served = start();
    assert_eq!(served.get("/v1/chains/web/graph").await.0, 404);
    served.put("/v1/chains/web", r#"{"configuration":"a"}"#).await;
    let (status, problem) = served.get("/v1/chains/web/graph").await;
    assert_eq!((status, &problem["title"]), (409, &json!("Conflict")), "it does not run");
    // Who looks again at once gets what was found.
    tokio::time::sleep(Duration::from_secs(1)).await;
    report(&served, 9);
    let (status, graph) = served.get("/v1/chains/web/graph").await;
    assert_eq!(status, 200, "{graph}");
    assert_eq!(
        (&graph["time_us"], &graph["swaps"], &graph["pid"]),
        (&json!(9), &json!(3), &json!(7))
    );
    let carried: Vec<_> =
        graph["edges"].as_array().expect("edges").iter().map(|edge| &edge["packets"]).collect();
    assert_eq!(carried, [9, 4]);
    let queue = json!({"element": 1, "length": 5, "capacity": 5, "highwater": 5});
    assert_eq!(graph["queues"], json!([queue]));
    let function = &graph["functions"][0];
    assert_eq!((&function["state"], &function["slots"]), (&json!("running"), &json!(5)));
    assert_eq!(function["last_error"], "");
    let drop = json!({"reason": "queue-full", "packets": 2, "fate": "lost"});
    assert_eq!(graph["elements"][1]["drops"], json!([drop]));
    assert_eq!(served.get("/v1/chains/web/graph?folow=true").await.1["suggestion"], "follow");
}

#[tokio::test]
async fn many_readers_cost_the_data_plane_no_more_than_one() {
    let served = start();
    served.put("/v1/chains/web", r#"{"configuration":"a"}"#).await;
    report(&served, 1);
    let target = "/v1/chains/web/graph?follow=true";
    let mut streams = Vec::new();
    for _ in 0..10 {
        streams.push(Stream::open(&served, target, None).await);
    }
    for stream in &mut streams {
        assert_eq!(stream.next().await.expect("a graph").1["time_us"], 1);
    }
    report(&served, 2);
    for stream in &mut streams {
        let mut next = stream.next().await.expect("a graph");
        while next.1["time_us"] == 1 {
            next = stream.next().await.expect("a graph");
        }
        assert_eq!(next.1["time_us"], 2);
    }
    let looks = *served.planes.looks.lock();
    assert!(looks <= 8, "two questions a second, not {looks}");

    // A data plane that ends is reported, and one that begins again is read on.
    *served.planes.graph.lock() = None;
    let stream = &mut streams[0];
    while stream.next().await.expect("an event").0 != "problem" {}
    report(&served, 3);
    while stream.next().await.expect("an event").1["time_us"] != 3 {}
    served.delete("/v1/chains/web").await;
    while stream.next().await.is_some() {}
}

/// While many data planes do not answer, what an operator declares is taken.
#[tokio::test]
async fn mute_data_planes_leave_room_for_changes() {
    let served = start();
    let names: Vec<String> = (0..10).map(|number| format!("c{number}")).collect();
    for name in &names {
        served.put(&format!("/v1/chains/{name}"), r#"{"configuration":"a"}"#).await;
    }
    let planes = Arc::clone(&served.planes);
    let ((held, holds), (over, ends)) = (channel(), channel::<()>());
    let mute = std::thread::spawn(move || {
        let _graph = planes.graph.lock();
        held.send(()).expect("a test");
        // Until the test is over, whatever became of it.
        let _ = ends.recv();
    });
    holds.recv().expect("held");
    let mut readers = Vec::new();
    for name in &names {
        let client = served.client.clone();
        let target = format!("/v1/chains/{name}/graph");
        readers.push(tokio::spawn(async move {
            let _ = client.call(Method::GET, &target, Content::default()).await;
        }));
    }
    // They are under way before the change comes.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let changed = served.put("/v1/chains/c0", r#"{"configuration":"b"}"#).await;
    drop(over);
    mute.join().expect("it ends");
    assert_eq!((changed.0, &changed.1["generation"]), (200, &json!(2)));
    for reader in readers {
        reader.await.expect("an answer");
    }
}

#[tokio::test]
async fn a_data_plane_that_reports_no_graph_is_named_as_such() {
    let served = start();
    served.put("/v1/chains/web", r#"{"configuration":"a"}"#).await;
    let handlers = ("edge\t5\t0\t1\t0\tpush\tpacket".to_owned(), String::new());
    *served.planes.graph.lock() = Some(handlers);
    let (status, problem) = served.get("/v1/chains/web/graph").await;
    assert_eq!(
        (status, &problem["detail"]),
        (502, &json!("an edge of its graph is of no element"))
    );
}

#[tokio::test]
async fn what_a_data_plane_reports_is_in_the_metrics() {
    let served = start();
    served.put("/v1/chains/web", r#"{"configuration":"a"}"#).await;
    served.put("/v1/chains/old", r#"{"configuration":"a","stopped":true}"#).await;
    let scrape = async || {
        let answer = served.call(Method::GET, "/metrics", Content::default()).await;
        String::from_utf8(answer.body.to_vec()).expect("text")
    };
    let text = scrape().await;
    assert_eq!(samples(&text, "thruway_chain_answers")[r#"{chain="web"}"#], 0.0, "{text}");
    assert!(samples(&text, "thruway_chain_swaps_total").is_empty(), "{text}");
    tokio::time::sleep(Duration::from_secs(1)).await;
    report(&served, 9);
    let text = scrape().await;
    for (metric, labels, value) in [
        ("thruway_manager_chain_stopped", "", 0.0),
        ("thruway_chain_answers", "", 1.0),
        ("thruway_chain_swaps_total", "", 3.0),
        ("thruway_chain_cycles_total", "", 77.0),
        ("thruway_chain_thread_idle_cycles_total", r#",thread="0""#, 5.0),
        ("thruway_chain_received_packets_total", r#",thread="0""#, 9.0),
        ("thruway_chain_element_packets_total", r#",class="Nf""#, 4.0),
        ("thruway_chain_drops_total", r#",class="Queue",reason="queue-full",fate="lost""#, 2.0),
        ("thruway_chain_queue_capacity", r#",element="q""#, 5.0),
        ("thruway_chain_function_running", r#",element="nf""#, 1.0),
        ("thruway_chain_function_hangs_total", r#",element="nf""#, 5.0),
    ] {
        let labels = format!(r#"{{chain="web"{labels}}}"#);
        assert_eq!(samples(&text, metric).get(&labels), Some(&value), "{metric}{labels}: {text}");
    }
    // What the function does not report as it should has no sample.
    assert!(samples(&text, "thruway_chain_function_batches_total").is_empty(), "{text}");
    // What a data plane publishes is not asked for.
    let figures = "figure\tq\tlength\t2\nfigure\tq\tcapacity\t8\nfact\tnf\tstate\trestarting\n";
    *served.planes.figures.lock() = Some(figures.to_owned());
    tokio::time::sleep(Duration::from_secs(1)).await;
    let looks = *served.planes.looks.lock();
    let text = scrape().await;
    assert_eq!(*served.planes.looks.lock() - looks, 2, "one question for each chain");
    for (metric, element, value) in [
        ("thruway_chain_queue_packets", "q", 2.0),
        ("thruway_chain_queue_capacity", "q", 8.0),
        ("thruway_chain_function_running", "nf", 0.0),
    ] {
        let labels = format!(r#"{{chain="web",element="{element}"}}"#);
        assert_eq!(samples(&text, metric).get(&labels), Some(&value), "{metric}{labels}: {text}");
    }
    // Of one that is not to run nothing is expected.
    assert_eq!(samples(&text, "thruway_manager_chain_stopped")[r#"{chain="old"}"#], 1.0);
    assert!(!samples(&text, "thruway_chain_answers").contains_key(r#"{chain="old"}"#));
}
