//! `click-combine`: several configurations in one, joined where devices stood.

use thruway_element::text::unquote_text;
use thruway_element::{Catalog as _, Purpose};
use thruway_elements::CATALOG;
use thruway_lang::{Editor, ElementDecl, Graph, PortRef, Span, Variables, unparse};

use super::config::{graph, write};
use super::link::{self, Device};
use super::options::{Args, set_output};
use crate::load::{Origin, click_path};

/// A configuration with its name.
struct Router {
    name: String,
    graph: Graph,
}

/// What the command line names.
#[derive(Default)]
struct Order {
    routers: Vec<(String, Origin)>,
    links: Vec<String>,
    output: Option<String>,
    /// Given for the next configuration.
    name: Option<String>,
}

/// Runs the tool.
pub fn run(args: &[String]) -> Result<(), String> {
    let order = parse(args)?;
    let routers = read(order.routers)?;
    let joined = combine(&routers, &order.links)?;
    write(order.output.as_deref(), &unparse(&joined))
}

fn parse(args: &[String]) -> Result<Order, String> {
    let mut order = Order::default();
    let mut args = Args::new(args);
    while let Some((option, arg)) = args.next() {
        match option {
            "-n" | "--name" => order.name = Some(args.value()?),
            "-f" | "--file" => order.add(None, Origin::File(args.value()?)),
            "-e" | "--expression" => order.add(None, Origin::Expression(args.value()?)),
            "-l" | "--link" => order.links.push(args.value()?),
            "-o" | "--output" => set_output(&mut order.output, args.value()?)?,
            // What is written is never an archive.
            "-c" | "--config" => {}
            _ if option.starts_with('-') && option != "-" => {
                return Err(format!("unrecognized option '{option}'; try --help"));
            }
            _ => order.word(arg),
        }
    }
    if order.routers.is_empty() {
        return Err("no configurations; name them as NAME=FILE".into());
    }
    Ok(order)
}

impl Order {
    /// A file, with or without a name, or a link, which has a dot in front of its `=`.
    fn word(&mut self, arg: &str) {
        match arg.split_once(':').or_else(|| arg.split_once('=')) {
            Some((first, _)) if first.contains('.') => self.links.push(arg.to_owned()),
            Some((name, file)) => self.add(Some(name), Origin::File(file.to_owned())),
            None => self.add(None, Origin::File(arg.to_owned())),
        }
    }

    fn add(&mut self, name: Option<&str>, origin: Origin) {
        // Click's name is the number alone, which cannot begin an element's name.
        let number = || format!("router{}", self.routers.len() + 1);
        let name = name.map(str::to_owned).or_else(|| self.name.take()).unwrap_or_else(number);
        self.name = None;
        self.routers.push((name, origin));
    }
}

fn read(named: Vec<(String, Origin)>) -> Result<Vec<Router>, String> {
    let mut routers: Vec<Router> = Vec::new();
    for (name, origin) in named {
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_@/".contains(c);
        let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if !name.chars().all(is_name) || name.split('/').any(is_number) {
            return Err(format!(
                "'{name}' cannot be a name: use letters, digits and _, not digits alone"
            ));
        }
        if routers.iter().any(|router| router.name == name) {
            return Err(format!("two configurations are named '{name}'; name them NAME=FILE"));
        }
        let source = origin.read().map_err(|error| error.to_string())?;
        let path = click_path();
        let graph = graph(source, &path, &Variables::new())
            .ok_or_else(|| format!("configuration '{name}' has errors"))?;
        routers.push(Router { name, graph });
    }
    Ok(routers)
}

/// An end of a link: the router's place, and its element's.
type End = (usize, usize);

/// A wire: what was sent to its inputs is received from its outputs.
#[derive(Default)]
struct Wire {
    from: Vec<End>,
    to: Vec<End>,
}

fn combine(routers: &[Router], texts: &[String]) -> Result<Graph, String> {
    let mut wires: Vec<Wire> = Vec::new();
    for text in texts {
        let (from, to) = ends(routers, text)?;
        // Links with an end in common are one wire.
        let (met, mut others): (Vec<Wire>, Vec<Wire>) =
            wires.into_iter().partition(|wire| wire.from.contains(&from) || wire.to.contains(&to));
        let mut wire = Wire::default();
        for ends in met {
            wire.from.extend(ends.from);
            wire.to.extend(ends.to);
        }
        wire.from.extend((!wire.from.contains(&from)).then_some(from));
        wire.to.extend((!wire.to.contains(&to)).then_some(to));
        others.push(wire);
        wires = others;
    }
    if wires.is_empty() {
        errln!("click-combine: warning: no links between the configurations; give -l A.X=B.Y");
    }
    let (mut editor, first) = merged(routers);
    for wire in &wires {
        if let Some(both) = wire.from.iter().find(|end| wires.iter().any(|w| w.to.contains(end))) {
            let (router, element) = (&routers[both.0], both.1);
            let name = &router.graph.elements[element].name;
            let router = &router.name;
            return Err(format!("'{router}.{name}' is both ends of links: it can be one only"));
        }
        join(&mut editor, routers, &first, wire)?;
    }
    Ok(editor.finish())
}

/// All elements of all configurations under their names, and where those of each begin.
fn merged(routers: &[Router]) -> (Editor, Vec<usize>) {
    let mut all = Graph { elements: Vec::new(), edges: Vec::new(), ..routers[0].graph.clone() };
    let mut first = Vec::new();
    for Router { name, graph } in routers {
        let base = all.elements.len();
        first.push(base);
        for decl in &graph.elements {
            let mut decl = decl.clone();
            decl.name = format!("{name}/{}", decl.name);
            decl.span = Span::default();
            decl.context.clear();
            prefix(&mut decl, name);
            all.elements.push(decl);
        }
        let port = |port: PortRef| PortRef { element: port.element + base, port: port.port };
        for edge in &graph.edges {
            let (from, to) = (port(edge.from), port(edge.to));
            all.edges.push(thruway_lang::Edge { from, to, span: Span::default(), ..*edge });
        }
        for requirement in &graph.requirements {
            if !all.requirements.contains(requirement) {
                all.requirements.push(requirement.clone());
            }
        }
    }
    (Editor::new(all), first)
}

/// A link of a configuration that was itself combined is one between parts of `router`.
fn prefix(decl: &mut ElementDecl, router: &str) {
    if !link::is_link(decl) {
        return;
    }
    if let Ok(mut devices) = link::devices(decl) {
        devices.iter_mut().for_each(|device| device.router = format!("{router}/{}", device.router));
        decl.configure(link::config(&devices));
    }
}

/// Puts a RouterLink in the place of a wire's devices.
fn join(
    editor: &mut Editor,
    routers: &[Router],
    first: &[usize],
    wire: &Wire,
) -> Result<(), String> {
    let device = |(router, element): &End| {
        let Router { name, graph } = &routers[*router];
        let decl = &graph.elements[*element];
        Device {
            router: name.clone(),
            element: decl.name.clone(),
            class: decl.class.clone(),
            config: decl.config.clone(),
        }
    };
    let devices: Vec<Device> = wire.from.iter().chain(&wire.to).map(device).collect();
    let spec =
        CATALOG.of_purpose(Purpose::LinkConfigurations).ok_or("no element links configurations")?;
    let numbered = (1..).map(|number| format!("link{number}"));
    let name = numbered.into_iter().find(|name| editor.find(name).is_none()).unwrap_or_default();
    let decl = ElementDecl::added(name, spec, link::config(&devices), "click-combine");
    let link = editor.add(decl);
    // A device has one port: `device` saw to it.
    let place = |(router, element): &End| PortRef { element: first[*router] + element, port: 0 };
    for (port, end) in wire.from.iter().enumerate() {
        editor.move_input(place(end), PortRef { element: link, port });
        editor.remove(place(end).element);
    }
    for (port, end) in wire.to.iter().enumerate() {
        editor.move_output(place(end), PortRef { element: link, port });
        editor.remove(place(end).element);
    }
    Ok(())
}

/// The ends of `A.X=B.Y`.
fn ends(routers: &[Router], text: &str) -> Result<(End, End), String> {
    let bad = || format!("'{text}' is no link: write NAME1.ELEMENT1=NAME2.ELEMENT2");
    let (from, to) = text.split_once('=').ok_or_else(bad)?;
    let end = |text: &str, sends: bool| {
        let (router, element) = text.trim().split_once('.').ok_or_else(bad)?;
        let at = routers.iter().position(|known| known.name == router).ok_or_else(|| {
            let names: Vec<&str> = routers.iter().map(|router| router.name.as_str()).collect();
            format!("no configuration named '{router}'; there are: {}", names.join(", "))
        })?;
        Ok::<End, String>((at, device(&routers[at], element, sends)?))
    };
    Ok((end(from, true)?, end(to, false)?))
}

/// The element of a name, or the one that sends to a device (or receives from it).
fn device(router: &Router, name: &str, sends: bool) -> Result<usize, String> {
    let purpose = if sends { Purpose::SendToDevice } else { Purpose::ReceiveFromDevice };
    let wanted = CATALOG.of_purpose(purpose).map_or("device", |spec| spec.name);
    // Click's old class, which the catalog has not.
    let is_old = |decl: &ElementDecl| !sends && decl.class == "PollDevice";
    let is_device = |decl: &ElementDecl| decl.spec.purpose == purpose || is_old(decl);
    let of_device = |decl: &ElementDecl| {
        let first = decl.args.first().map(|arg| unquote_text(&arg.text)).unwrap_or_default();
        is_device(decl) && first.strip_prefix("DEVNAME ").unwrap_or(&first).trim() == name
    };
    let elements = &router.graph.elements;
    let named = |decl: &ElementDecl| decl.name == name;
    let mut found: Vec<usize> = (0..elements.len()).filter(|at| named(&elements[*at])).collect();
    if found.is_empty() {
        found = (0..elements.len()).filter(|at| of_device(&elements[*at])).collect();
    }
    let router_name = &router.name;
    let at = match found[..] {
        [at] => at,
        [] => {
            return Err(format!(
                "configuration '{router_name}' has no element '{name}' and no {wanted} of that \
                 device"
            ));
        }
        _ => {
            return Err(format!(
                "configuration '{router_name}' has several {wanted}({name}): name the element"
            ));
        }
    };
    // The link has one port for it: packets only go in, or only come out.
    let fits = router.graph.edges.iter().all(|edge| match sends {
        true => edge.from.element != at && (edge.to.element != at || edge.to.port == 0),
        false => edge.to.element != at && (edge.from.element != at || edge.from.port == 0),
    });
    let class = &elements[at].class;
    if !fits {
        let side = if sends { "one input and no output" } else { "one output and no input" };
        return Err(format!(
            "'{router_name}.{name}' is a {class} that is connected otherwise: a link takes the \
             place of a {wanted}, of {side}"
        ));
    }
    if !is_device(&elements[at]) {
        errln!("click-combine: warning: '{router_name}.{name}' is a {class}, not a {wanted}");
    }
    Ok(at)
}
