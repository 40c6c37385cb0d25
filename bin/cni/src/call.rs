//! A runtime's call: the variables of the environment (CNI specification 1.1, section
//! "Parameters").

use std::path::PathBuf;

use crate::error::CniError;

/// What a runtime asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Attach a pod.
    Add,
    /// Detach it.
    Del,
    /// Is it attached as it should be?
    Check,
    /// Remove what belongs to no attachment any more.
    Gc,
    /// Can pods be attached?
    Status,
    /// Which versions of the specification are supported?
    Version,
}

impl Verb {
    /// The word of the specification.
    pub fn word(self) -> &'static str {
        match self {
            Verb::Add => "ADD",
            Verb::Del => "DEL",
            Verb::Check => "CHECK",
            Verb::Gc => "GC",
            Verb::Status => "STATUS",
            Verb::Version => "VERSION",
        }
    }

    fn parse(word: &str) -> Option<Verb> {
        let all = [Verb::Add, Verb::Del, Verb::Check, Verb::Gc, Verb::Status, Verb::Version];
        all.into_iter().find(|verb| verb.word() == word)
    }

    /// Whether it is about one pod.
    fn has_pod(self) -> bool {
        matches!(self, Verb::Add | Verb::Del | Verb::Check)
    }
}

/// A call. What its verb does not need is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// What is asked for.
    pub verb: Verb,
    /// Identity of the container.
    pub container: String,
    /// File of its network namespace; empty if it is not known (DEL).
    pub netns: String,
    /// Name of the interface in it.
    pub interface: String,
    /// The Ethernet address in `CNI_ARGS`.
    pub mac: Option<String>,
    /// Directories that have plugins.
    pub path: Vec<PathBuf>,
}

impl Call {
    /// Reads the environment by a function that has the value of a variable.
    ///
    /// # Errors
    /// A variable that the verb needs is missing or wrong; the message names it.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Call, CniError> {
        let get = |name: &str| variable(name).unwrap_or_default();
        let word = get("CNI_COMMAND");
        let Some(verb) = Verb::parse(&word) else {
            let why = format!("'{word}' is no command; it is ADD, DEL, CHECK, GC, STATUS, VERSION");
            return Err(CniError::environment("CNI_COMMAND", why));
        };
        let path = get("CNI_PATH");
        let path = path.split(':').filter(|one| !one.is_empty()).map(PathBuf::from);
        let mut call = Call {
            verb,
            container: String::new(),
            netns: String::new(),
            interface: String::new(),
            mac: None,
            path: path.collect(),
        };
        if verb.has_pod() {
            call.container = get("CNI_CONTAINERID");
            check_word("CNI_CONTAINERID", &call.container)?;
            call.interface = get("CNI_IFNAME");
            check_interface_name(&call.interface)
                .map_err(|why| CniError::environment("CNI_IFNAME", why))?;
            call.netns = get("CNI_NETNS");
            if call.netns.is_empty() && verb != Verb::Del {
                return Err(CniError::environment("CNI_NETNS", "it is missing"));
            }
            call.mac = mac_of(&get("CNI_ARGS"))?;
        }
        Ok(call)
    }
}

/// The value of `MAC` in `CNI_ARGS`: pairs `NAME=VALUE` with semicolons between. Other names are
/// for other plugins.
fn mac_of(arguments: &str) -> Result<Option<String>, CniError> {
    let mut mac = None;
    for pair in arguments.split(';').filter(|pair| !pair.is_empty()) {
        let Some((name, value)) = pair.split_once('=') else {
            let why = format!("'{pair}' is no NAME=VALUE");
            return Err(CniError::environment("CNI_ARGS", why));
        };
        if name == "MAC" {
            mac = Some(value.to_owned());
        }
    }
    Ok(mac)
}

/// Whether a word is of the specification's letters: it begins with a letter or digit, and goes on
/// with these, `_`, `.` and `-`.
pub fn is_word(word: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    word.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric) && word.bytes().all(allowed)
}

fn check_word(variable: &str, word: &str) -> Result<(), CniError> {
    if is_word(word) {
        return Ok(());
    }
    let why = match word {
        "" => "it is missing".to_owned(),
        word => format!("'{word}' is not of letters, digits, '_', '.' and '-'"),
    };
    Err(CniError::environment(variable, why))
}

/// The longest name of an interface, in bytes (`IFNAMSIZ` without the end).
pub const INTERFACE_NAME_MAX: usize = 15;

/// Whether a name may be that of an interface.
///
/// # Errors
/// What is wrong with it.
pub fn check_interface_name(name: &str) -> Result<(), String> {
    let refused = |byte: u8| b"/:".contains(&byte) || !byte.is_ascii_graphic();
    match name {
        "" => Err("it is missing".into()),
        "." | ".." => Err(format!("'{name}' is no name of an interface")),
        _ if name.len() > INTERFACE_NAME_MAX => {
            let len = name.len();
            Err(format!("'{name}' has {len} characters; at most {INTERFACE_NAME_MAX} are possible"))
        }
        _ if name.bytes().any(refused) => {
            let name = name.escape_debug();
            Err(format!("'{name}' has a character that names of interfaces do not have"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Call, CniError> {
        let get = |name: &str| pairs.iter().find(|(key, _)| *key == name);
        Call::read(|name| get(name).map(|(_, value)| (*value).to_owned()))
    }

    const ADD: [(&str, &str); 5] = [
        ("CNI_COMMAND", "ADD"),
        ("CNI_CONTAINERID", "pod-1"),
        ("CNI_NETNS", "/run/netns/pod"),
        ("CNI_IFNAME", "net1"),
        ("CNI_PATH", "/opt/cni/bin:/usr/lib/cni"),
    ];

    fn with(name: &'static str, value: &'static str) -> Result<Call, CniError> {
        let mut pairs = ADD.to_vec();
        pairs.retain(|(key, _)| *key != name);
        pairs.push((name, value));
        read(&pairs)
    }

    #[test]
    fn a_call_is_read() {
        let call = with("CNI_ARGS", "IgnoreUnknown=1;MAC=02:00:00:00:00:05;K8S_POD_NAME=a");
        let call = call.expect("a call");
        assert_eq!(call.verb, Verb::Add);
        assert_eq!((call.container.as_str(), call.interface.as_str()), ("pod-1", "net1"));
        assert_eq!(call.mac.as_deref(), Some("02:00:00:00:00:05"));
        assert_eq!(call.path.len(), 2);
    }

    #[test]
    fn each_verb_needs_its_variables() {
        for verb in ["GC", "STATUS", "VERSION"] {
            assert_eq!(read(&[("CNI_COMMAND", verb)]).expect("no pod").verb.word(), verb);
        }
        let mut del = ADD.to_vec();
        del.retain(|(key, _)| *key != "CNI_NETNS");
        del[0].1 = "DEL";
        assert_eq!(read(&del).expect("no namespace").netns, "");
        for (name, wrong) in [
            ("CNI_COMMAND", "add"),
            ("CNI_CONTAINERID", ""),
            ("CNI_CONTAINERID", "../../etc"),
            ("CNI_CONTAINERID", "-x"),
            ("CNI_NETNS", ""),
            ("CNI_IFNAME", ""),
            ("CNI_IFNAME", ".."),
            ("CNI_IFNAME", "a/b"),
            ("CNI_IFNAME", "sixteen-letters-"),
            ("CNI_IFNAME", "with space"),
            ("CNI_ARGS", "MAC"),
        ] {
            let error = with(name, wrong).expect_err(wrong);
            assert_eq!(error.code, 4, "{error}");
            assert!(error.message.contains(name), "{error}");
        }
    }
}
