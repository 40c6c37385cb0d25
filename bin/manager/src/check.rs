//! The check of specifications: what `thruway check` and `thruway run` refuse is refused.

use thruway::load::{self, Libraries, click_path};
use thruway_engine::{Options, Router, named_cores};
use thruway_lang::{Source, Variables};
use thruway_manager::{ChainName, ChainSpec, CheckError, Checker};

/// Threads that a data plane can have.
const THREADS_MAX: u16 = 256;

/// Builds the configuration as `thruway check` does, and opens nothing.
pub struct Build;

impl Checker for Build {
    fn check(&self, name: &ChainName, spec: &ChainSpec) -> Result<String, CheckError> {
        let options = Options { threads: threads(spec)?, spread: true, ..Options::default() };
        let variables = variables(spec)?;
        let source = Source::new(name.as_str(), spec.configuration.clone());
        match load::build(source, &variables, &Libraries::new(&click_path()), &options) {
            Ok((mut router, warnings)) => {
                handlers(&mut router, spec)?;
                Ok(warnings.render(false))
            }
            Err(failure) => {
                let message = failure.pretty.render(false);
                Err(CheckError::new(field(spec, &message), message))
            }
        }
    }
}

/// Whether the handlers are there that functions on demand are needed by.
fn handlers(router: &mut Router, spec: &ChainSpec) -> Result<(), CheckError> {
    for (variable, policy) in &spec.on_demand {
        let refuse =
            |message: String| Err(CheckError::new(format!("on_demand.{variable}.when"), message));
        let (element, name) = policy.when.rsplit_once('.').unwrap_or(("", &policy.when));
        let Ok(list) = router.read(&format!("{element}.handlers")) else {
            return refuse(format!("there is no element '{element}' while it does not run"));
        };
        let is_it = |line: &str| {
            let mut words = line.split_whitespace();
            words.next() == Some(name) && words.next().is_some_and(|can| can.contains('r'))
        };
        if !list.lines().any(is_it) {
            return refuse(format!("element '{element}' has no handler '{name}' to be read"));
        }
    }
    Ok(())
}

/// The field that an error is about: the configuration, or a function that it does not use.
fn field(spec: &ChainSpec, message: &str) -> String {
    let is_unknown = |name: &&String| message.contains(&format!("unknown variable '{name}'"));
    let unused = spec.functions.keys().find(is_unknown);
    unused.map_or("configuration".to_owned(), |name| format!("functions.{name}"))
}

/// Number of threads, as `thruway run` takes it from `-j` and `--cores`.
fn threads(spec: &ChainSpec) -> Result<usize, CheckError> {
    let refuse = |field: &'static str, message: String| Err(CheckError::new(field, message));
    if let Some(threads) = spec.threads
        && !(1..=THREADS_MAX).contains(&threads)
    {
        return refuse("threads", format!("{threads} threads; give 1 to {THREADS_MAX}"));
    }
    let threads = spec.threads.map(usize::from);
    let Some(text) = &spec.cores else { return Ok(threads.unwrap_or(1)) };
    match named_cores(text) {
        Err(message) => refuse("cores", message),
        Ok(cores) if threads.is_some_and(|threads| threads > cores.len()) => {
            let threads = threads.unwrap_or_default();
            let remedy = "name more cores, or ask for fewer threads";
            refuse("cores", format!("{} cores for {threads} threads; {remedy}", cores.len()))
        }
        Ok(cores) => Ok(threads.unwrap_or(cores.len())),
    }
}

fn variables(spec: &ChainSpec) -> Result<Variables, CheckError> {
    let mut variables = Variables::new();
    for (name, value) in &spec.variables {
        if name.contains('=') || !variables.assign(&format!("{name}={value}")) {
            let name = name.escape_debug();
            let message = format!("'{name}' names no variable; use letters, digits and _");
            return Err(CheckError::new("variables", message));
        }
    }
    Ok(variables.known_only())
}

#[cfg(test)]
mod tests {
    use thruway_manager::on_demand::OnDemandSpec;
    use thruway_manager::{FunctionSpec, FunctionUse, Limits};

    use super::*;

    fn check(spec: &ChainSpec) -> Result<String, CheckError> {
        Build.check(&ChainName::new("web").expect("a name"), spec)
    }

    fn spec(configuration: &str) -> ChainSpec {
        ChainSpec { configuration: configuration.to_owned(), ..ChainSpec::default() }
    }

    #[test]
    fn what_thruway_check_refuses_is_refused_in_its_words() {
        assert_eq!(check(&spec("Idle -> Discard;")), Ok(String::new()));
        let error = check(&spec("Idle -> Discrad;")).expect_err("no such class");
        assert_eq!(error.field, "configuration");
        assert!(error.message.contains("web:1:9"), "{error}");
        assert!(error.message.contains("Discard"), "{error}");
    }

    #[test]
    fn fields_beside_the_configuration_are_checked() {
        let refused = |spec: ChainSpec| check(&spec).expect_err("refused").field;
        let good = spec("Idle -> Discard;");
        assert_eq!(refused(ChainSpec { threads: Some(0), ..good.clone() }), "threads");
        assert_eq!(refused(ChainSpec { threads: Some(257), ..good.clone() }), "threads");
        assert_eq!(refused(ChainSpec { cores: Some("x".into()), ..good.clone() }), "cores");
        assert_eq!(refused(ChainSpec { cores: Some("9999".into()), ..good.clone() }), "cores");
        let variables = |name: &str| [(name.to_owned(), "1".to_owned())].into();
        assert_eq!(refused(ChainSpec { variables: variables("a=b"), ..good.clone() }), "variables");
        assert_eq!(refused(ChainSpec { variables: variables(""), ..good.clone() }), "variables");
        let unknown = ChainSpec { variables: variables("LAN"), ..good };
        assert_eq!(refused(unknown), "configuration");
        let used =
            ChainSpec { variables: variables("N"), ..spec("define($N 3); Idle -> Discard;") };
        assert_eq!(check(&used), Ok(String::new()));
    }

    #[test]
    fn functions_on_demand_name_handlers_that_are_there() {
        let needed = |when: &str| {
            let mut one = spec("Idle -> c :: Counter -> Discard;");
            let policy = OnDemandSpec { when: when.to_owned(), calm: None };
            one.on_demand.insert("x".to_owned(), policy);
            check(&one)
        };
        assert_eq!(needed("c.count"), Ok(String::new()));
        for (when, why) in [("d.count", "no element 'd'"), ("c.reset", "'reset'"), ("c.x", "'x'")] {
            let error = needed(when).expect_err(when);
            assert_eq!(error.field, "on_demand.x.when");
            assert!(error.message.contains(why), "{error}");
        }
    }

    /// What is declared for a function is what an `Nf` takes.
    #[test]
    fn functions_are_arguments_of_nf() {
        let limits = Limits {
            memory: Some("64M".into()),
            cpus: Some("0 1".into()),
            hang: Some("500ms".into()),
            attach_timeout: Some("5s".into()),
        };
        let function = FunctionSpec { limits, ..FunctionSpec::default() };
        let used = FunctionUse::parse("words@1 attack \"two words\" $WORD").expect("a use");
        let text = |path: &str| [("words".to_owned(), used.text(path, &function))].into();
        let with = |path: &str, configuration: &str| {
            let mut one = ChainSpec { variables: text(path), ..spec(configuration) };
            one.variables.insert("WORD".into(), "hug".into());
            one.functions.insert("words".into(), used.clone());
            check(&one)
        };
        let nf = "Idle -> Nf($words, CONFIG x) -> Discard;";
        assert_eq!(with("/bin/true", nf), Ok(String::new()));
        let dir = tempfile::tempdir().expect("a directory");
        let odd = dir.path().join("a \"b\" $WORD");
        std::os::unix::fs::symlink("/bin/true", &odd).expect("a link");
        assert_eq!(with(odd.to_str().expect("text"), nf), Ok(String::new()));
        let error = with("/nonexistent", nf).expect_err("no program");
        assert!(
            error.field == "configuration" && error.message.contains("/nonexistent"),
            "{error}"
        );
        let error = with("/bin/true", "Idle -> Nf($word) -> Discard;").expect_err("unused");
        assert_eq!(error.field, "functions.words");
        assert!(error.message.contains("did you mean 'word'"), "{error}");
    }
}
