//! Examples of packets that did not go on.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::graph::report;
use crate::{Served, start};

const TARGET: &str = "/v1/chains/web/examples";

/// What a data plane reports of packets that came to the queue, and how many are left to look at.
fn trace(served: &Served, left: u64, packets: &[(&str, &str)]) {
    let mut text = format!("time\t1\t2\ntrace\t{left}\t12\t0\t0\t0\n");
    let shot = format!("3\t128\t7f00\t-\t-\t-\t0\t{}\t0a0b0c", "0".repeat(56));
    for (number, (what, detail)) in packets.iter().enumerate() {
        text += &format!("event\t0\t9\t{number}\t0\tq\tQueue\tin\t0\t{shot}\n");
        text += &format!("event\t0\t9\t{number}\t0\tq\tQueue\t{what}\t{detail}\n");
    }
    *served.planes.trace.lock() = text;
}

#[tokio::test]
async fn packets_that_did_not_go_on_are_found() {
    let served = start();
    let body = r#"{"element": "q", "reason": "queue-full", "count": 2}"#;
    assert_eq!(served.post(TARGET, body).await.0, 404);
    served.put("/v1/chains/web", r#"{"configuration":"a"}"#).await;
    assert_eq!(served.post(TARGET, body).await.0, 409, "it does not run");
    tokio::time::sleep(Duration::from_secs(1)).await;
    report(&served, 9);
    trace(&served, 9, &[("dropped", "queue-full"), ("out", "0"), ("dropped", "queue-full")]);
    let (status, found) = served.post(TARGET, body).await;
    assert_eq!(status, 200, "{found}");
    let example = json!({"input": 0, "fate": "dropped", "length": 3, "bytes": "0a0b0c",
        "summary": "3 bytes, no header that is known"});
    assert_eq!(found, json!({"looked_at": 12, "examples": [example, example]}));
    let written = served.planes.written.lock().clone();
    let [start, stop] = &written[..] else { panic!("{written:?}") };
    let name = stop.2.strip_prefix("stop ").expect("it is stopped");
    assert_eq!((&start.1[..], &start.2), ("trace", &format!("start {name} 5000 q -")));
}

#[tokio::test]
async fn a_search_for_what_cannot_be_is_refused() {
    let served = start();
    served.put("/v1/chains/web", r#"{"configuration":"a"}"#).await;
    report(&served, 9);
    for (body, field, known) in [
        (r#"{"element": "w x", "reason": "a"}"#, "element", json!(["s", "q", "nf"])),
        (r#"{"element": "q", "reason": "denied"}"#, "reason", json!(["queue-full"])),
        (r#"{"element": "q", "reason": "queue-full", "count": 21}"#, "count", json!(null)),
        (
            r#"{"element": "q", "reason": "queue-full", "cuont": 2}"#,
            "cuont",
            json!(["element", "reason", "count"]),
        ),
    ] {
        let (status, problem) = served.post(TARGET, body).await;
        assert_eq!((status, &problem["field"], &problem["known"]), (422, &json!(field), &known));
    }
    assert!(served.planes.written.lock().is_empty(), "nothing was traced");
    *served.planes.trace.lock() = "nonsense".to_owned();
    let (status, problem) =
        served.post(TARGET, r#"{"element": "q", "reason": "queue-full"}"#).await;
    assert_eq!(status, 502);
    assert!(problem["detail"].as_str().expect("text").contains("no line of a trace"), "{problem}");
}

#[tokio::test]
async fn a_search_ends_in_time_and_few_are_made_at_once() {
    let served = start();
    served.put("/v1/chains/web", r#"{"configuration":"a"}"#).await;
    report(&served, 9);
    trace(&served, 9, &[("dropped", "other")]);
    let begin = Instant::now();
    let body = r#"{"element": "q", "reason": "queue-full"}"#;
    let search = || served.post(TARGET, body);
    let (a, b, c, d, e) = tokio::join!(search(), search(), search(), search(), search());
    let (found, refused): (Vec<_>, Vec<_>) =
        [a, b, c, d, e].into_iter().partition(|(status, _)| *status == 200);
    assert_eq!(refused.iter().map(|(status, _)| *status).collect::<Vec<_>>(), [503]);
    let nothing = json!({"looked_at": 12, "examples": []});
    assert!(found.iter().all(|(_, found)| *found == nothing), "{found:?}");
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
}
