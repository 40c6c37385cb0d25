//! The declared demands of elements on a FlowClassifier in front are consistent.

use thruway_flow::{NoNames, SessionDef, parse_class};

use crate::CATALOG;

#[test]
fn what_elements_declare_can_be_read() {
    let mut classes = 0;
    for entry in CATALOG.entries() {
        let (name, wants) = (entry.spec.name, entry.spec.wants);
        for class in wants.classes {
            let parsed = parse_class(class, &NoNames);
            assert!(parsed.is_ok(), "{name}: {class}: {}", parsed.unwrap_err());
            classes += 1;
        }
        if let Some(session) = wants.session {
            let parsed = SessionDef::parse(session);
            assert!(parsed.is_ok(), "{name}: {session}: {}", parsed.unwrap_err());
        }
    }
    assert!(classes >= 7);
}
