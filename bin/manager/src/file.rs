//! Files of functions, groups and chains, in YAML, JSON or TOML.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use thruway_manager::kind::{Name, Reference, Spec as _};
use thruway_manager::on_demand::OnDemandSpec;
use thruway_manager::replicas::ReplicasSpec;
use thruway_manager::{
    ChainName, ChainSpec, CheckError, FunctionName, FunctionSpec, FunctionUse, GroupName,
    GroupSpec, expansion,
};

use crate::target::{Kind, Target};

/// Suffixes of files that `apply DIR` reads.
const SUFFIXES: &[&str] = &["json", "toml", "yaml", "yml"];

/// The specification of a resource.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Declared {
    Function(FunctionSpec),
    Group(GroupSpec),
    Chain(ChainSpec),
}

impl Declared {
    /// The resources that it names.
    pub fn references(&self) -> Vec<Reference> {
        match self {
            Declared::Function(spec) => spec.references(),
            Declared::Group(spec) => spec.references(),
            Declared::Chain(spec) => spec.references(),
        }
    }
}

/// Declarations of files. Each names only earlier ones.
pub type Declarations = BTreeMap<Target, Declared>;

/// A file.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct DeclarationsFile {
    #[serde(default)]
    functions: BTreeMap<String, FunctionSpec>,
    #[serde(default)]
    groups: BTreeMap<String, GroupSpec>,
    #[serde(default)]
    chains: BTreeMap<String, Entry>,
}

/// A chain of a file: a specification, or one with its text in another file.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// Text in the Click language.
    #[serde(default)]
    configuration: Option<String>,
    /// File of that text, relative to this file.
    #[serde(default)]
    file: Option<PathBuf>,
    #[serde(default)]
    variables: BTreeMap<String, String>,
    #[serde(default)]
    functions: BTreeMap<String, FunctionUse>,
    #[serde(default)]
    replicas: BTreeMap<String, ReplicasSpec>,
    #[serde(default)]
    on_demand: BTreeMap<String, OnDemandSpec>,
    #[serde(default)]
    groups: Vec<GroupName>,
    #[serde(default)]
    threads: Option<u16>,
    #[serde(default)]
    cores: Option<String>,
    #[serde(default)]
    stopped: bool,
    #[serde(default)]
    drain: bool,
}

/// A resource as `get` prints it; the observed state is ignored.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Printed<S> {
    name: String,
    #[serde(default = "none")]
    spec: Option<S>,
    #[serde(default, rename = "generation")]
    _generation: IgnoredAny,
    #[serde(default, rename = "time")]
    _time: IgnoredAny,
    #[serde(default, rename = "author")]
    _author: IgnoredAny,
    #[serde(default, rename = "stopped")]
    _stopped: IgnoredAny,
    #[serde(default, rename = "status")]
    _status: IgnoredAny,
}

/// A missing specification.
fn none<S>() -> Option<S> {
    None
}

/// Keys by which a file is recognized as one resource printed by `get`.
#[derive(Deserialize)]
struct Named {
    #[serde(rename = "name")]
    _name: IgnoredAny,
}

/// Keys that identify the kind of a resource printed by `get`.
#[derive(Deserialize)]
struct Shape {
    name: String,
    #[serde(default)]
    spec: Option<BTreeMap<String, IgnoredAny>>,
    #[serde(default)]
    generation: Option<IgnoredAny>,
    #[serde(default)]
    status: Option<IgnoredAny>,
}

impl Shape {
    fn kind(&self) -> Kind {
        let has = |field| self.spec.as_ref().is_some_and(|spec| spec.contains_key(field));
        if self.name.contains('@') {
            Kind::Function
        } else if has("functions") && !has("configuration") {
            Kind::Group
        } else if self.spec.is_none() && self.generation.is_none() && self.status.is_some() {
            Kind::Host
        } else {
            Kind::Chain
        }
    }
}

/// Reads the declarations of a file, all files of a directory, or standard input (`-`).
pub fn read(path: &Path) -> anyhow::Result<Declarations> {
    if path == Path::new("-") {
        let text = std::io::read_to_string(std::io::stdin()).context("standard input")?;
        return parse(&text, "yaml", Path::new(".")).context("standard input");
    }
    let files = if path.is_dir() { files(path)? } else { vec![path.to_owned()] };
    let mut declarations = Declarations::new();
    let mut origins: BTreeMap<Target, PathBuf> = BTreeMap::new();
    for file in files {
        let suffix = file.extension().and_then(|suffix| suffix.to_str()).unwrap_or_default();
        if !SUFFIXES.contains(&suffix) {
            let known = SUFFIXES.join(", .");
            bail!("{}: not a file of chains; its name ends in .{known}", file.display());
        }
        let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let dir = file.parent().unwrap_or(Path::new("."));
        let all = parse(&text, suffix, dir).with_context(|| file.display().to_string())?;
        for (target, declared) in all {
            if let Some(other) = origins.insert(target.clone(), file.clone()) {
                let (file, other) = (file.display(), other.display());
                bail!("{target} is in {other} and in {file}; keep one");
            }
            declarations.insert(target, declared);
        }
    }
    Ok(declarations)
}

/// The files of a directory, by name.
fn files(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let name = || dir.display().to_string();
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).with_context(name)? {
        let path = entry.with_context(name)?.path();
        let suffix = path.extension().and_then(|suffix| suffix.to_str()).unwrap_or_default();
        if SUFFIXES.contains(&suffix) && path.is_file() {
            files.push(path);
        }
    }
    if files.is_empty() {
        bail!("{}: no files of chains (.{})", dir.display(), SUFFIXES.join(", ."));
    }
    files.sort();
    Ok(files)
}

fn parse(text: &str, suffix: &str, dir: &Path) -> anyhow::Result<Declarations> {
    // What it is decides first, so that an error is about that.
    if deserialize::<Vec<IgnoredAny>>(text, suffix).is_ok() {
        return printed(text, suffix, false);
    }
    if deserialize::<Named>(text, suffix).is_ok() {
        return printed(text, suffix, true);
    }
    let DeclarationsFile { functions, groups, chains } = deserialize(text, suffix)?;
    let mut all = Declarations::new();
    for (name, spec) in functions {
        insert::<FunctionName>(&mut all, &name, spec)?;
    }
    for (name, spec) in groups {
        insert::<GroupName>(&mut all, &name, spec)?;
    }
    for (name, entry) in chains {
        let spec = entry.spec(dir).with_context(|| format!("chain '{}'", name.escape_debug()))?;
        insert::<ChainName>(&mut all, &name, spec)?;
    }
    match all.is_empty() {
        true => bail!("it declares nothing; give functions, groups or chains"),
        false => Ok(all),
    }
}

/// A kind of resource that files declare.
trait Declarable: Name {
    const KIND: Kind;

    fn declared(spec: Self::Spec) -> anyhow::Result<Declared>;
}

impl Declarable for FunctionName {
    const KIND: Kind = Kind::Function;

    fn declared(spec: FunctionSpec) -> anyhow::Result<Declared> {
        Ok(Declared::Function(spec))
    }
}

impl Declarable for GroupName {
    const KIND: Kind = Kind::Group;

    fn declared(spec: GroupSpec) -> anyhow::Result<Declared> {
        Ok(Declared::Group(spec))
    }
}

impl Declarable for ChainName {
    const KIND: Kind = Kind::Chain;

    fn declared(spec: ChainSpec) -> anyhow::Result<Declared> {
        let wrong = |error: CheckError| anyhow!("{}: {}", error.field, error.message);
        spec.check_functions().map_err(wrong)?;
        expansion::check(&spec).map_err(wrong)?;
        Ok(Declared::Chain(spec))
    }
}

/// Adds a declaration; its name is checked.
fn insert<N: Declarable>(all: &mut Declarations, name: &str, spec: N::Spec) -> anyhow::Result<()> {
    let target = Target { kind: N::KIND, name: N::parse(name)?.to_string() };
    let declared = N::declared(spec).with_context(|| target.to_string())?;
    match all.insert(target.clone(), declared) {
        None => Ok(()),
        Some(_) => bail!("{target} is there twice; keep one"),
    }
}

fn deserialize<T: DeserializeOwned>(text: &str, suffix: &str) -> anyhow::Result<T> {
    match suffix {
        "json" => Ok(serde_json::from_str(text)?),
        "toml" => Ok(toml::from_str(text)?),
        _ => serde_saphyr::from_str(text).map_err(|error| anyhow!("{error}")),
    }
}

/// Parses output of `get` or `describe`: one resource, or a list of one kind.
fn printed(text: &str, suffix: &str, is_one: bool) -> anyhow::Result<Declarations> {
    let shapes: Vec<Shape> = several(text, suffix, is_one).unwrap_or_default();
    let kind = shapes.first().map_or(Kind::Chain, Shape::kind);
    if let Some(other) = shapes.iter().find(|shape| shape.kind() != kind) {
        let (one, other) = (kind.name(), other.kind().name());
        bail!("it is a list of a {one} and a {other}; give each kind a file of its own");
    }
    match kind {
        Kind::Function => listed::<FunctionName>(text, suffix, is_one),
        Kind::Group => listed::<GroupName>(text, suffix, is_one),
        Kind::Chain => listed::<ChainName>(text, suffix, is_one),
        Kind::Host => bail!("it is a host, which is observed; nothing of it can be declared"),
    }
}

fn listed<N: Declarable>(text: &str, suffix: &str, is_one: bool) -> anyhow::Result<Declarations> {
    let list: Vec<Printed<N::Spec>> = several(text, suffix, is_one)?;
    if list.is_empty() {
        bail!("it is a list without resources");
    }
    let mut all = Declarations::new();
    for Printed { name, spec, .. } in list {
        let kind = N::KIND.name();
        let Some(spec) = spec else { bail!("{kind} '{name}' has no spec; give one") };
        insert::<N>(&mut all, &name, spec)?;
    }
    Ok(all)
}

fn several<T: DeserializeOwned>(text: &str, suffix: &str, is_one: bool) -> anyhow::Result<Vec<T>> {
    if is_one { Ok(vec![deserialize(text, suffix)?]) } else { deserialize(text, suffix) }
}

impl Entry {
    fn spec(self, dir: &Path) -> anyhow::Result<ChainSpec> {
        let configuration = match (self.configuration, self.file) {
            (Some(text), None) => text,
            (None, Some(file)) => {
                let path = dir.join(file);
                std::fs::read_to_string(&path).with_context(|| path.display().to_string())?
            }
            (Some(_), Some(_)) => bail!("it has configuration and file; keep one"),
            (None, None) => bail!("it has neither configuration nor file; give one"),
        };
        let Entry {
            variables,
            functions,
            replicas,
            on_demand,
            groups,
            threads,
            cores,
            stopped,
            drain,
            ..
        } = self;
        Ok(ChainSpec {
            configuration,
            variables,
            functions,
            replicas,
            on_demand,
            groups,
            threads,
            cores,
            stopped,
            drain,
            managed_by: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use proptest::prelude::*;
    use thruway_manager::api::views::ChainView;

    use super::*;
    use crate::output::Data;

    fn chains(text: &str, suffix: &str) -> anyhow::Result<Declarations> {
        parse(text, suffix, Path::new("/nonexistent"))
    }

    #[test]
    fn the_three_formats_say_the_same() {
        let yaml = "chains:\n  web:\n    configuration: |\n      Idle -> Discard;\n    variables: \
                    {LAN: eth0, ADDRESS: 192.0.2.1, COUNT: \"3\"}\n    threads: 2\n    \
                    cores: 0-1\n    stopped: true\n";
        let json = r#"{"chains": {"web": {"configuration": "Idle -> Discard;\n", "threads": 2,
            "variables": {"LAN": "eth0", "ADDRESS": "192.0.2.1", "COUNT": "3"},
            "cores": "0-1", "stopped": true}}}"#;
        let toml = "[chains.web]\nconfiguration = \"Idle -> Discard;\\n\"\nthreads = 2\n\
                    cores = '0-1'\nstopped = true\n[chains.web.variables]\nLAN = 'eth0'\n\
                    ADDRESS = '192.0.2.1'\nCOUNT = '3'\n";
        let expected = chains(json, "json").expect("JSON");
        assert_eq!(chains(yaml, "yaml").expect("YAML"), expected);
        assert_eq!(chains(toml, "toml").expect("TOML"), expected);
        // YAML is a superset of JSON: what comes from standard input may be either.
        assert_eq!(chains(json, "yaml").expect("JSON"), expected);
        assert_eq!(expected.len(), 1);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let refused = |text: &str| format!("{:#}", chains(text, "yaml").expect_err("refused"));
        let unknown = refused("chains:\n  web:\n    configuraton: x\n");
        assert!(
            unknown.contains("configuraton") && unknown.contains("configuration, file"),
            "{unknown}"
        );
        assert!(refused("chains: {web: {}}").contains("give one"));
        assert!(refused("chains: {web: {configuration: a, file: b}}").contains("keep one"));
        assert!(refused("chains: {web: {file: b}}").contains("/nonexistent/b"));
        assert!(refused("chains: {Web: {configuration: a}}").contains("is no name"));
        for text in ["", "[]", "chains: 3", "chians: {}", "a: *b", "{", "chains: {a: {}, a: {}}"] {
            assert!(chains(text, "yaml").is_err(), "{text}");
        }
        let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n".to_owned()
            + &(0..20).fold(String::new(), |text, at| {
                let (new, old) = (char::from(b'b' + at), char::from(b'a' + at));
                text + &format!("{new}: &{new} [{}]\n", vec![format!("*{old}"); 9].join(","))
            });
        assert!(chains(&bomb, "yaml").is_err());
    }

    fn view(name: &str, spec: ChainSpec) -> ChainView {
        ChainView {
            name: name.to_owned(),
            generation: 3,
            time: SystemTime::UNIX_EPOCH,
            author: "uid 0".to_owned(),
            stopped: spec.stopped,
            spec: Some(spec),
            status: None,
        }
    }

    /// Strings as in configurations, and unusual ones.
    fn text() -> impl Strategy<Value = String> {
        prop_oneof!["[ a-z:#'\"\\\\|>&*!%@`{}\\[\\],?~.\n\t-]{0,40}", any::<String>()]
    }

    /// Uses of functions.
    fn used() -> impl Strategy<Value = FunctionUse> {
        "[a-z0-9]{1,9}@[A-Za-z0-9._-]{1,9}( [ -~]{0,20})?"
            .prop_map(|text| FunctionUse::parse(&text).expect("a use"))
    }

    proptest! {
        /// `apply` reads the YAML or JSON output of `get`, one chain or a list.
        #[test]
        fn what_is_printed_is_read(
            configuration in text(),
            variables in prop::collection::btree_map(text(), text(), 0..4),
            functions in prop::collection::btree_map("f_[a-z0-9]{1,6}", used(), 0..3),
            groups in prop::collection::vec("[a-z]{1,6}", 0..3),
            threads in prop::option::of(any::<u16>()),
            cores in prop::option::of(text()),
            (stopped, drain) in (any::<bool>(), any::<bool>()),
            managed_by in prop::option::of(text()),
        ) {
            let spec = ChainSpec {
                configuration,
                variables,
                functions,
                replicas: BTreeMap::new(),
                on_demand: BTreeMap::new(),
                groups: groups.iter().map(|name| GroupName::new(name).expect("a name")).collect(),
                threads,
                cores,
                stopped,
                drain,
                managed_by,
            };
            let expected = BTreeMap::from([(Target::chain("web"), Declared::Chain(spec.clone()))]);
            let one = view("web", spec);
            for data in [Data::Json, Data::Yaml] {
                let suffix = if data == Data::Json { "json" } else { "yaml" };
                for printed in [data.text(&one), data.text(&[&one])] {
                    let printed = printed.expect("text");
                    let read = chains(&printed, suffix);
                    prop_assert!(read.is_ok(), "{:?} of\n{}", read, printed);
                    prop_assert_eq!(read.expect("it is"), expected.clone(), "{}", printed);
                }
            }
        }
    }

    #[test]
    fn what_is_wrong_with_printed_chains_is_told() {
        let refused = |text: &str| format!("{:#}", chains(text, "yaml").expect_err("refused"));
        let unknown = refused("name: web\nspec: {configuraton: a}\n");
        assert!(unknown.contains("configuraton"), "{unknown}");
        assert!(refused("- {name: web}").contains("chain 'web' has no spec"));
        assert!(refused("{name: web, spce: {}}").contains("spce"));
        assert!(refused("[{name: Web, spec: {configuration: a}}]").contains("is no name"));
        let twice = "[{name: a, spec: {configuration: a}}, {name: a, spec: {configuration: b}}]";
        assert!(refused(twice).contains("chain/a is there twice"));
        assert!(refused("[]").contains("a list without resources"));
    }
}
