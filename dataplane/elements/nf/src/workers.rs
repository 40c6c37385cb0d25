//! How many Workers a function is.

use thruway_element::{ArgError, Args};

/// WORKERS: threads of the function, each of which serves threads of this process.
pub(super) fn workers(args: &Args<'_>) -> Result<u32, ArgError> {
    let workers: u32 = args.get("WORKERS")?;
    let threads = args.env().threads.max(1);
    if workers == 0 || workers as usize > threads {
        let (reach, some) = match threads {
            1 => ("1 thread reaches".to_owned(), "1".to_owned()),
            _ => (format!("{threads} threads reach"), format!("1 to {threads}")),
        };
        let why = format!(
            "{workers} Workers, and {reach} the element: each Worker serves some of them, so give \
             {some}, or let more threads reach it"
        );
        return Err(args.error("WORKERS", why));
    }
    if workers > 1 && args.text("VM").is_some() {
        return Err(args.error("WORKERS", "a virtual machine runs one Worker: leave it or VM out"));
    }
    Ok(workers)
}
