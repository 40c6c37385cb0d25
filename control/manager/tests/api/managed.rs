//! What somebody manages is changed on their behalf alone.

use serde_json::json;

use crate::start;

const MINE: &[(&str, &str)] = &[("thruway-managed-by", "cluster")];
const OTHERS: &[(&str, &str)] = &[("thruway-managed-by", "somebody")];

fn managed(text: &str) -> String {
    json!({"configuration": text, "managed_by": "cluster"}).to_string()
}

#[tokio::test]
async fn what_is_managed_is_changed_on_behalf_of_its_manager_alone() {
    let served = start();
    let web = "/v1/chains/web";
    let (status, body) = served.put(web, &managed("Idle -> Discard;")).await;
    assert_eq!((status, &body["field"]), (409, &json!("managed_by")), "{body}");
    assert_eq!(served.put_if(web, &managed("Idle -> Discard;"), MINE).await.0, 201);
    let plain = r#"{"configuration": "Null -> Null;"}"#;
    for headers in [&[], OTHERS] {
        let (status, body) = served.put_if(web, plain, headers).await;
        assert_eq!(status, 409, "{body}");
        let detail = body["detail"].as_str().expect("text");
        assert!(detail.contains("managed by 'cluster'") && detail.contains("ServiceChain"));
    }
    assert_eq!(served.delete(web).await.0, 409);
    assert_eq!(served.put_if(web, &managed("Null -> Null;"), MINE).await.0, 200);
    let rollback = format!("{web}/rollback");
    assert_eq!(served.post(&rollback, r#"{"to": 1}"#).await.0, 409);
    let (_, shown) = served.get(web).await;
    assert_eq!(
        (&shown["generation"], &shown["spec"]["managed_by"]),
        (&json!(2), &json!("cluster"))
    );
    // Its manager may give it to everybody; then it is anybody's.
    assert_eq!(served.put_if(web, plain, MINE).await.0, 200);
    assert_eq!(served.delete(web).await.0, 200);
}

#[tokio::test]
async fn a_header_that_is_no_text_is_refused() {
    let served = start();
    let odd: &[(&str, &str)] = &[("thruway-managed-by", "\u{e9}")];
    let (status, body) = served.put_if("/v1/chains/web", &managed("Idle;"), odd).await;
    assert_eq!((status, &body["field"]), (400, &json!("thruway-managed-by")), "{body}");
}
