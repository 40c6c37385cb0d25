//! Checks of which threads reach an element, for elements that one thread only can use.

use crate::arg_error::ArgErrors;
use crate::args::Args;
use crate::env::Env;

/// The error for an element that supports one thread but is reached by several: why, and the
/// remedies.
fn one_thread(why: &str, count: usize, paths: &str) -> String {
    format!(
        "one thread only can use it ({why}), and {count} reach it: {paths}; put a Pipeliner in \
         front, or place what is before it in one thread (StaticThreadSched, THREADS of \
         FromDevice)"
    )
}

impl Env<'_> {
    /// The error for an element that supports one thread: why, and the paths by which several
    /// threads reach it.
    pub fn one_thread(&self, why: &str) -> String {
        one_thread(why, self.threads, &self.paths.describe())
    }
}

impl Args<'_> {
    /// Refuses to be reached by several threads, and reports the paths by which they come.
    ///
    /// # Errors
    /// There are several.
    pub fn for_one_thread(&self, why: &str) -> Result<(), ArgErrors> {
        match self.env().threads > 1 {
            false => Ok(()),
            true => Err(ArgErrors::whole(self.env().one_thread(why))),
        }
    }

    /// Refuses that the element that argument `arg` names is reached by several threads, in the
    /// same words.
    ///
    /// # Errors
    /// There are several.
    pub fn other_for_one_thread(&self, arg: &str, name: &str, why: &str) -> Result<(), ArgErrors> {
        match self.env().paths.of(name) {
            Some(reach) if reach.threads.len() > 1 => {
                let what = one_thread(why, reach.threads.len(), &reach.paths);
                Err(self.error(arg, format!("'{name}': {what}")).into())
            }
            _ => Ok(()),
        }
    }

    /// Refuses the element that argument `arg` names if it has no replica in this one's thread:
    /// this one calls it there while packets pass.
    ///
    /// # Errors
    /// It has none.
    pub fn other_is_here(&self, arg: &str, name: &str) -> Result<(), ArgErrors> {
        let (env, reach) = (self.env(), self.env().paths.of(name));
        let Some(reach) = reach.filter(|reach| !reach.threads.contains(&env.thread)) else {
            return Ok(());
        };
        let what = format!(
            "this element asks '{name}' in thread {}, which does not reach that: {}, and here {}; \
             have both reached by one thread (StaticThreadSched, THREADS of FromDevice, a \
             Pipeliner in front)",
            env.thread,
            reach.paths,
            env.paths.describe()
        );
        Err(self.error(arg, what).into())
    }
}
