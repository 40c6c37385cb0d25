//! `click-uncombine`: takes one configuration out of those that `click-combine` joined.

use std::collections::BTreeSet;

use thruway_element::{Catalog as _, Purpose};
use thruway_elements::CATALOG;
use thruway_lang::{Editor, ElementDecl, Graph, PortRef, Variables, resolve, unparse};

use super::config::{graph, write};
use super::link::{self, Device};
use super::options::{Args, set_output};
use crate::load::{Origin, click_path};

/// Runs the tool.
pub fn run(args: &[String]) -> Result<(), String> {
    let (mut file, mut output, mut name) = (None, None, None);
    let mut args = Args::new(args);
    while let Some((option, arg)) = args.next() {
        match option {
            "-f" | "--file" => once(&mut file, args.value()?)?,
            "-n" | "--name" => once(&mut name, args.value()?)?,
            "-o" | "--output" => set_output(&mut output, args.value()?)?,
            _ if option.starts_with('-') && option != "-" => {
                return Err(format!("unrecognized option '{option}'; try --help"));
            }
            _ if file.is_none() => file = Some(arg.to_owned()),
            _ => once(&mut name, arg.to_owned())?,
        }
    }
    let name = name.ok_or("which configuration? write: click-uncombine ROUTERFILE NAME")?;
    let source = Origin::File(file.unwrap_or_else(|| "-".to_owned())).read();
    let source = source.map_err(|error| error.to_string())?;
    let path = click_path();
    let mut left =
        graph(source, &path, &Variables::new()).ok_or("the combined configuration has errors")?;
    // The part `b` of the part `a` is `a/b`.
    for part in name.split('/') {
        left = uncombine(left, part)?;
    }
    write(output.as_deref(), &unparse(&left))
}

fn once(value: &mut Option<String>, new: String) -> Result<(), String> {
    match value.replace(new) {
        Some(old) => Err(format!("'{old}' and more: give one ROUTERFILE and one NAME")),
        None => Ok(()),
    }
}

/// Takes out the configuration called `name`.
fn uncombine(graph: Graph, name: &str) -> Result<Graph, String> {
    let (checked, _) = resolve(&graph);
    let prefix = format!("{name}/");
    let mut live = vec![false; graph.elements.len()];
    let mut editor = Editor::new(graph);
    let mut known: BTreeSet<String> = BTreeSet::new();
    for at in editor.elements() {
        let decl = &editor.element(at).clone();
        live[at] = decl.name.starts_with(&prefix);
        if let Some((router, _)) = decl.name.split_once('/') {
            known.insert(router.to_owned());
        }
        if !link::is_link(decl) {
            continue;
        }
        let devices = link::devices(decl)?;
        let (inputs, outputs) = (checked.ninputs(at), checked.noutputs(at));
        if devices.len() != inputs + outputs {
            return Err(format!(
                "'{}' has {inputs} inputs and {outputs} outputs, and arguments for {} devices: \
                 one is needed for each",
                decl.name,
                devices.len()
            ));
        }
        known.extend(devices.iter().map(|device| device.router.clone()));
        if devices.iter().any(|device| device.router == name) {
            separate(&mut editor, (at, inputs), &devices, name)?;
        }
    }
    live.resize(editor.elements().last().map_or(0, |last| last + 1), true);
    if !live.contains(&true) {
        let names: Vec<String> = known.into_iter().collect();
        return Err(format!("no configuration '{name}' in it; there are: {}", names.join(", ")));
    }
    spread(&editor, &mut live);
    for at in editor.elements() {
        if !live[at] {
            editor.remove(at);
        }
    }
    rename(&mut editor, &prefix);
    Ok(editor.finish())
}

/// Puts the devices of one configuration into the place of a link.
fn separate(
    editor: &mut Editor,
    (link, inputs): (usize, usize),
    devices: &[Device],
    name: &str,
) -> Result<(), String> {
    let own = devices.iter().enumerate().filter(|(_, device)| device.router == name);
    for (at, Device { element, class, config, .. }) in own {
        let full = format!("{name}/{element}");
        if editor.find(&full).is_some() {
            let link = &editor.element(link).name;
            return Err(format!("'{full}' is there already, and would come out of '{link}'"));
        }
        let spec = CATALOG.spec(class).ok_or_else(|| format!("no element class '{class}'"))?;
        let mut decl = ElementDecl::added(full, spec, config.clone(), "click-uncombine");
        decl.class.clone_from(class);
        let new = PortRef { element: editor.add(decl), port: 0 };
        match at.checked_sub(inputs) {
            None => editor.move_input(PortRef { element: link, port: at }, new),
            Some(port) => editor.move_output(PortRef { element: link, port }, new),
        }
    }
    editor.remove(link);
    Ok(())
}

/// What is connected to a configuration belongs to it, whatever its name: tools may have added it.
/// An Idle may be the neighbour of several.
fn spread(editor: &Editor, live: &mut [bool]) {
    let mut changed = true;
    while changed {
        changed = false;
        for edge in editor.edges() {
            let ends = [edge.from.element, edge.to.element];
            let leads =
                |at: usize| live[at] && editor.element(at).spec.purpose != Purpose::FillPorts;
            if ends.iter().any(|at| leads(*at)) && !ends.iter().all(|at| live[*at]) {
                ends.into_iter().for_each(|at| live[at] = true);
                changed = true;
            }
        }
    }
}

/// Takes the configuration's name off its elements, and off the links between its own parts.
fn rename(editor: &mut Editor, prefix: &str) {
    for at in editor.elements() {
        let short = editor.element(at).name.strip_prefix(prefix).map(str::to_owned);
        if let Some(short) = short.filter(|short| editor.find(short).is_none()) {
            editor.element_mut(at).name = short;
        }
        let decl = editor.element_mut(at);
        if !link::is_link(decl) {
            continue;
        }
        if let Ok(mut devices) = link::devices(decl) {
            for device in &mut devices {
                if let Some(short) = device.router.strip_prefix(prefix) {
                    device.router = short.to_owned();
                }
            }
            decl.configure(link::config(&devices));
        }
    }
}
