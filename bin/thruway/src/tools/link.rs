//! The arguments of a RouterLink: the devices that it replaces.

use thruway_element::Purpose;
use thruway_element::text::{quote, split_args, split_words, unquote_text};
use thruway_lang::ElementDecl;

/// Whether an element is such a link.
pub fn is_link(decl: &ElementDecl) -> bool {
    decl.spec.purpose == Purpose::LinkConfigurations
}

/// A device in a RouterLink's arguments: two of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// The name of its configuration.
    pub router: String,
    /// Its name there.
    pub element: String,
    pub class: String,
    pub config: String,
}

/// The devices of a link: those of its inputs, then those of its outputs.
///
/// # Errors
/// Arguments that `thruway combine` did not write.
pub fn devices(link: &ElementDecl) -> Result<Vec<Device>, String> {
    let wrong = || {
        format!(
            "'{}' is not a RouterLink as 'thruway combine' writes it: it needs 'ROUTER ELEMENT \
             CLASS' and that element's arguments for each input, then for each output",
            link.name
        )
    };
    let args: Vec<String> = split_args(&link.config).into_iter().map(|(text, _)| text).collect();
    let pairs = args.chunks(2).map(|pair| {
        let [router, element, class] = split_words(&pair[0])[..] else { return Err(wrong()) };
        Ok(Device {
            router: router.to_owned(),
            element: element.to_owned(),
            class: class.to_owned(),
            config: pair.get(1).map(|config| unquote_text(config)).ok_or_else(wrong)?,
        })
    });
    pairs.collect()
}

/// The arguments for devices.
pub fn config(devices: &[Device]) -> String {
    let pairs = devices.iter().map(|device| {
        let Device { router, element, class, config } = device;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-/@".contains(&byte);
        match !config.is_empty() && config.bytes().all(plain) {
            true => format!("{router} {element} {class}, {config}"),
            false => format!("{router} {element} {class}, {}", quote(config.as_bytes())),
        }
    });
    pairs.collect::<Vec<_>>().join(", ")
}
