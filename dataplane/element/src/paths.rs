//! What an element may ask about the graph while it is built: by which paths threads reach it and
//! others, and what stands behind it.

use crate::args::{ArgErrors, Args, Env};
use crate::spec::Spec;

/// The graph as the element that is built may ask about it.
pub trait Paths {
    /// Tells those to the element itself.
    fn describe(&self) -> String;

    /// Those to the element that it calls `name`; `None` where there is none, or nobody knows.
    fn of(&self, name: &str) -> Option<Reach> {
        let _ = name;
        None
    }

    /// The classes of all elements that packets can come to from the one that is built; `None`
    /// where nobody knows.
    fn downstream(&self) -> Option<Vec<&'static Spec>> {
        None
    }
}

impl<F: Fn() -> String> Paths for F {
    fn describe(&self) -> String {
        self()
    }
}

/// Who reaches an element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    /// The threads, ascending.
    pub threads: Vec<usize>,
    /// By which ways.
    pub paths: String,
}

/// That one thread only can use what several reach, why, and what to do.
fn one_thread(why: &str, count: usize, paths: &str) -> String {
    format!(
        "one thread only can use it ({why}), and {count} reach it: {paths}; put a Pipeliner in front, or \
         place what is before it in one thread (StaticThreadSched, THREADS of FromDevice)"
    )
}

impl Env<'_> {
    /// That an element is for one thread, why, and by which ways several reach it.
    pub fn one_thread(&self, why: &str) -> String {
        one_thread(why, self.threads, &self.paths.describe())
    }
}

impl Args<'_> {
    /// Refuses to be reached by several threads, and says by which ways they come.
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

    /// Refuses that the element that argument `arg` names has no replica in this one's thread: it
    /// is asked there while packets pass.
    ///
    /// # Errors
    /// It has none.
    pub fn other_is_here(&self, arg: &str, name: &str) -> Result<(), ArgErrors> {
        let (env, reach) = (self.env(), self.env().paths.of(name));
        let Some(reach) = reach.filter(|reach| !reach.threads.contains(&env.thread)) else {
            return Ok(());
        };
        let what = format!(
            "this element asks '{name}' in thread {}, which does not reach that: {}, and here {}; have \
             both reached by one thread (StaticThreadSched, THREADS of FromDevice, a Pipeliner in \
             front)",
            env.thread,
            reach.paths,
            env.paths.describe()
        );
        Err(self.error(arg, what).into())
    }
}
