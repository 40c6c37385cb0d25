//! What a command is about: `NAME` (a chain), `KIND/NAME`, or `KIND NAME`.

use std::fmt;

use anyhow::bail;
use thruway_manager::client::escape;
use thruway_manager::kind::ResourceKind;

/// Kinds of resources, in an order in which each names only those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Host,
    Function,
    Group,
    Chain,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::Chain, Kind::Function, Kind::Group, Kind::Host];

    /// `chain`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Host => "host",
            Kind::Function => "function",
            Kind::Group => "group",
            Kind::Chain => "chain",
        }
    }

    /// The list of all resources of this kind.
    pub fn path(self) -> String {
        format!("/v1/{}s", self.name())
    }

    /// The kind of `chain` or `chains`.
    fn of(word: &str) -> Option<Kind> {
        let singular = word.strip_suffix('s').unwrap_or(word);
        Kind::ALL.into_iter().find(|kind| kind.name() == singular)
    }
}

impl From<ResourceKind> for Kind {
    fn from(kind: ResourceKind) -> Kind {
        match kind {
            ResourceKind::Function => Kind::Function,
            ResourceKind::Group => Kind::Group,
            ResourceKind::Chain => Kind::Chain,
        }
    }
}

/// A resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    pub kind: Kind,
    pub name: String,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.name(), self.name)
    }
}

impl Target {
    /// A chain.
    pub fn chain(name: &str) -> Target {
        Target { kind: Kind::Chain, name: name.to_owned() }
    }

    /// Its path in the API.
    pub fn path(&self) -> String {
        format!("{}/{}", self.kind.path(), escape(&self.name))
    }

    /// The same, if it is declared and not only observed.
    ///
    /// # Errors
    /// It is a host.
    pub fn declared(self) -> anyhow::Result<Target> {
        match self.kind {
            Kind::Host => bail!("{self}: a host is observed, and nothing of it is declared"),
            _ => Ok(self),
        }
    }

    /// `NAME` or `KIND/NAME`.
    fn parse(word: &str) -> anyhow::Result<Target> {
        let Some((kind, name)) = word.split_once('/') else {
            if word.contains('@') {
                bail!("'{word}' is the name of a function; write function/{word}");
            }
            return Ok(Target::chain(word));
        };
        match Kind::of(kind) {
            None => bail!("'{word}': there is no kind '{kind}'; {}", kinds()),
            Some(_) if name.is_empty() => bail!("'{word}' has no name; write {kind}/NAME"),
            Some(kind) => Ok(Target { kind, name: name.to_owned() }),
        }
    }
}

fn kinds() -> String {
    format!("the kinds are: {}", Kind::ALL.map(Kind::name).join(", "))
}

/// Named resources, or all of a kind.
#[derive(Debug, PartialEq, Eq)]
pub enum Selection {
    All(Kind),
    Named(Vec<Target>),
}

/// Parses a selection: no words select all chains, a kind alone selects all of that kind.
///
/// # Errors
/// A word names no resource.
pub fn select(words: &[String]) -> anyhow::Result<Selection> {
    match words {
        [] => Ok(Selection::All(Kind::Chain)),
        [first, names @ ..] => match (Kind::of(first), names) {
            (Some(kind), []) => Ok(Selection::All(kind)),
            _ => targets(words).map(Selection::Named),
        },
    }
}

/// Parses at least one named resource.
///
/// # Errors
/// A word names none.
pub fn targets(words: &[String]) -> anyhow::Result<Vec<Target>> {
    let Some((kind, names)) =
        words.split_first().and_then(|(first, names)| Some((Kind::of(first)?, names)))
    else {
        return words.iter().map(|word| Target::parse(word)).collect();
    };
    if names.is_empty() {
        let word = &words[0];
        bail!(
            "'{word}' is a kind; give a name, too: {word} NAME (a chain of that name: chain/{word})"
        );
    }
    let target = |name: &String| match name.contains('/') {
        true => bail!("'{name}' names a kind again; leave '{}' out", words[0]),
        false => Ok(Target { kind, name: name.clone() }),
    };
    names.iter().map(target).collect()
}

/// Parses exactly one named resource.
///
/// # Errors
/// They name none, or several.
pub fn target(words: &[String]) -> anyhow::Result<Target> {
    let mut found = targets(words)?;
    match (found.pop(), found.is_empty()) {
        (Some(one), true) => Ok(one),
        _ => bail!("'{}' are several resources; give one", words.join(" ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn named(text: &str) -> String {
        let found = targets(&words(text)).expect("targets").into_iter();
        found.map(|one| one.to_string()).collect::<Vec<_>>().join(" ")
    }

    fn refused(text: &str) -> String {
        targets(&words(text)).expect_err("refused").to_string()
    }

    #[test]
    fn a_plain_name_is_a_chain_and_kinds_stand_before_or_within() {
        assert_eq!(named("web dns"), "chain/web chain/dns");
        assert_eq!(named("function words@1.0"), "function/words@1.0");
        assert_eq!(named("functions a@1 b@2"), "function/a@1 function/b@2");
        assert_eq!(named("group/edge web function/a@1"), "group/edge chain/web function/a@1");
        assert_eq!(named("chain functions"), "chain/functions");
        assert_eq!(named("hosts/h.example"), "host/h.example");
        assert_eq!(target(&words("function a@1")).expect("one").path(), "/v1/functions/a%401");
    }

    #[test]
    fn what_names_nothing_is_refused_with_a_remedy() {
        assert!(refused("words@1.0").contains("write function/words@1.0"));
        assert!(refused("chian/web").contains("the kinds are: chain, function, group, host"));
        assert!(refused("function/").contains("write function/NAME"));
        assert!(
            refused("function").contains("function NAME (a chain of that name: chain/function)")
        );
        assert!(refused("function function/a@1").contains("leave 'function' out"));
        assert!(target(&words("web dns")).expect_err("two").to_string().contains("give one"));
        let host = Target { kind: Kind::Host, name: "h".into() };
        assert!(host.declared().expect_err("observed").to_string().starts_with("host/h: "));
        assert_eq!(Target::chain("web").declared().expect("declared").name, "web");
    }

    #[test]
    fn a_kind_alone_is_all_of_it() {
        assert_eq!(select(&[]).expect("all"), Selection::All(Kind::Chain));
        assert_eq!(select(&words("functions")).expect("all"), Selection::All(Kind::Function));
        let one = Selection::Named(vec![Target::chain("web")]);
        assert_eq!(select(&words("web")).expect("one"), one);
    }
}
