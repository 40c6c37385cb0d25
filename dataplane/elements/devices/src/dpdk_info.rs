//! DPDKInfo: the arguments of DPDK.

use std::sync::Arc;

use thruway_element::{
    Arg, ArgErrors, Args, Cx, Element, Entry, Handlers, NOTHING_MORE, Replicas, Spec, Topic, Ty,
};

use super::dpdk::Ports;

/// See the spec.
pub static ENTRY: Entry = Entry::built::<DpdkInfo>(
    Spec {
        name: "DPDKInfo",
        topic: Topic::Devices,
        summary: "gives DPDK its arguments",
        docs: "Each argument holds one or more parameters of DPDK's environment abstraction layer \
               (EAL), separated by spaces. DPDK is started before packets flow, once in the life \
               of the program, so there can be one such element, and a configuration that replaces \
               this one must give the same arguments or none. An element is not needed: what is \
               left open is filled in.\n\
               Filled in are: one processor for DPDK's own thread (--lcores); --in-memory where huge \
               pages are free, otherwise --no-huge --no-shconf, so that no file is left behind; \
               --no-telemetry; --iova-mode=va; no PCI device but those that are asked for (-a); \
               --log-level=5, by which warnings become part of error messages. With a --log-level \
               of yours the log goes to the standard error output.\n\
               Memory for packets is the program's own, with or without huge pages, which DPDK is \
               given; so NB_MBUF and the like of other programs do not exist here.\n\
               DPDK must have been there when the program was built (--features dpdk); otherwise \
               the configuration is refused with what to install.",
        example: "DPDKInfo(\"--no-pci\", \"--vdev=net_null0,size=60\"); Idle -> Discard",
        ports: "0/0",
        processing: "/",
        args: &[Arg::rest("PARAMETER", Ty::Str, "parameters of the EAL")],
        cost: NOTHING_MORE,
        replicas: Replicas::Single,
        ..Spec::DEFAULT
    },
    build,
);

#[derive(Handlers)]
#[handler(read, name = "version", "DPDK's version, and how it runs", get = self.about.clone())]
struct DpdkInfo {
    ports: Arc<Ports>,
    about: String,
}

fn build(args: &Args<'_>) -> Result<Box<dyn Element>, ArgErrors> {
    let mut parameters = Vec::new();
    for (index, text) in args.rest() {
        let text: String = args.parse(text).map_err(|why| args.rest_error(index, why))?;
        let words: Vec<&str> = text.split_whitespace().collect();
        if words.is_empty() || words[0].bytes().all(|byte| byte.is_ascii_digit()) {
            let why = "write parameters of DPDK's EAL, such as --vdev=net_null0; memory for \
                       packets is the program's own";
            return Err(args.rest_error(index, why).into());
        }
        parameters.extend(words.into_iter().map(str::to_owned));
    }
    let ports = Ports::of(args);
    ports.set_arguments(args, parameters)?;
    Ok(Box::new(DpdkInfo { ports, about: String::new() }))
}

impl Element for DpdkInfo {
    fn initialize(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        self.about = self.ports.start()?;
        Ok(())
    }
}
