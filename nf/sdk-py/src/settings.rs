//! What a function says of itself.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use thruway_nf::Config;

/// Settings of a function: arguments of `run`, or attributes of the object.
pub(crate) struct Settings {
    pub config: Config,
    /// Names of its counters.
    pub counters: Vec<String>,
    /// Whether it waits for the text of CONFIG.
    pub is_configured: bool,
}

impl Settings {
    /// Those of an object, where `given` does not say otherwise.
    pub fn of(function: &Bound<'_, PyAny>, given: Option<&Bound<'_, PyAny>>) -> PyResult<Settings> {
        let of = Source { function, given };
        let name: String = of.find("name")?.unwrap_or_else(|| "python".to_owned());
        let default = Config::DEFAULT;
        let config = Config {
            // Once in a process.
            name: String::leak(name),
            outputs: of.within("outputs", default.outputs, 1..=256)?,
            scratch_len: of.within("scratch_len", default.scratch_len, 0..=1 << 20)?,
            batch_len_max: of.within("batch_len_max", default.batch_len_max, 1..=65_536)?,
            ..default
        };
        let counters = of.find("counters")?.unwrap_or_default();
        let is_configured = of.find("configured")?.unwrap_or_default();
        Ok(Settings { config, counters, is_configured })
    }
}

/// Where a setting is looked for.
struct Source<'a, 'py> {
    function: &'a Bound<'py, PyAny>,
    given: Option<&'a Bound<'py, PyAny>>,
}

impl<'py> Source<'_, 'py> {
    fn find<T>(&self, name: &str) -> PyResult<Option<T>>
    where
        T: for<'a> FromPyObject<'a, 'py, Error: Into<PyErr>>,
    {
        let given = match self.given {
            Some(given) if given.contains(name)? => Some(given.get_item(name)?),
            _ => self.function.getattr_opt(name)?,
        };
        let Some(given) = given else { return Ok(None) };
        let wrong = |why: PyErr| PyValueError::new_err(format!("{name}: {why}"));
        given.extract::<T>().map(Some).map_err(|why| wrong(why.into()))
    }

    fn within(
        &self,
        name: &str,
        default: u32,
        range: std::ops::RangeInclusive<u32>,
    ) -> PyResult<u32> {
        match self.find::<u32>(name)? {
            None => Ok(default),
            Some(value) if range.contains(&value) => Ok(value),
            Some(value) => Err(PyValueError::new_err(format!(
                "{name} is {value}: it must be from {} to {}",
                range.start(),
                range.end()
            ))),
        }
    }
}
