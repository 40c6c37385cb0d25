//! The program's command line, without a cluster.

use std::path::Path;
use std::process::{Command, Output};

fn run(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thruway-operator"));
    command.args(args).env_remove("KUBECONFIG").env("HOME", "/nonexistent");
    command.output().expect("it runs")
}

/// What a cluster gets is a file of the repository, so that a change of it is seen in review.
/// `THRUWAY_MANIFESTS=write cargo test -p thruway-operator-program --test program` renews it.
/// What a cluster gets is in files of the repository, so that a change of it is seen in review.
/// `THRUWAY_MANIFESTS=write cargo test -p thruway-operator-program --test program` renews them.
#[test]
fn the_manifests_are_the_recorded_ones() {
    let output = run(&["manifests"]);
    assert!(output.status.success(), "{output:?}");
    is_recorded("operator.yaml", &String::from_utf8(output.stdout).expect("text"));
    for (name, text) in thruway_operator::manifests::templates().expect("YAML") {
        is_recorded(&format!("chart/templates/{name}"), &text);
    }
}

#[track_caller]
fn is_recorded(file: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy").join(file);
    if std::env::var("THRUWAY_MANIFESTS").is_ok_and(|value| value == "write") {
        std::fs::write(&path, text).expect("written");
    }
    let recorded = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        recorded == text,
        "{} is not what is printed; if that is wanted: THRUWAY_MANIFESTS=write cargo test -p \
         thruway-operator-program --test program",
        path.display()
    );
}

#[test]
fn definitions_alone_name_no_rights() {
    let text = String::from_utf8(run(&["manifests", "--definitions"]).stdout).expect("text");
    assert_eq!(text.matches("kind: CustomResourceDefinition").count(), 5);
    assert!(!text.contains("ClusterRole"));
    let other = String::from_utf8(run(&["manifests", "--namespace", "net"]).stdout).expect("text");
    assert!(other.contains("namespace: net") && !other.contains("thruway-system"));
}

#[test]
fn with_an_image_the_operator_runs_in_the_cluster() {
    let without = String::from_utf8(run(&["manifests"]).stdout).expect("text");
    assert!(!without.contains("kind: Deployment"));
    let with = run(&["manifests", "--image", "thruway:0.1.0", "--namespace", "net"]);
    let text = String::from_utf8(with.stdout).expect("text");
    assert_eq!(text.matches("kind: Deployment").count(), 1);
    assert!(text.contains("image: thruway:0.1.0") && !text.contains("thruway-system"), "{text}");
}

#[test]
fn what_is_wrong_on_the_command_line_is_named_with_a_remedy() {
    let says = |args: &[&str], words: &str| {
        let output = run(args);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(words), "{args:?}: {output:?}");
        assert!(!text.contains("panicked"), "{text}");
    };
    says(&["run"], "give --kubeconfig FILE");
    says(&["run", "--kubeconfig", "/nonexistent"], "/nonexistent");
    says(&["run", "--lease-seconds", "1"], "2..=600");
    says(&["manifests", "--definitions", "--image", "x"], "cannot be used with");
    says(&["agent"], "--host");
    says(&["agent", "--host", "A_B"], "--host: 'A_B' is no name");
    says(&["agent", "--host", "a", "--hardware", "/nonexistent"], "--hardware: ");
    says(&["agent", "--host", "a", "--kubeconfig", "/bin/true"], "/bin/true");
}
