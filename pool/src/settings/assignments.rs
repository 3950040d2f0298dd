//! `Assignments`: named texts, from whatever source, on their way into a driver's builder.
//!
//! Keeps what was said by name. What each parameter's text means is the driver's business.

use super::environment::{Lookup, variable};
use super::error::SettingsError;
use super::names::Names;

/// A driver's parameters, as far as reading them from text goes.
pub trait Parameters {
    /// The names that are known.
    const NAMES: &'static Names;

    /// What a URL's path names.
    const DATABASE: &'static str;

    /// The port in advice on how to write an address.
    const PORT_DEFAULT: u16;

    /// What a parameter in a URL cannot say again once the address has. Somebody who adds a parameter to a URL must not
    /// send the password elsewhere.
    const OF_THE_ADDRESS: &'static [&'static str];

    /// Sets a parameter by its known name, to a value that is not empty.
    ///
    /// # Errors
    ///
    /// When the value cannot be met or understood.
    fn set(&mut self, name: &'static str, value: &str) -> Result<(), SettingsError>;
}

/// What was said so far. The later word wins; an empty value is the same as saying nothing.
#[derive(Debug, Default)]
pub struct Assignments<P> {
    parameters: P,
    said: Vec<&'static str>,
}

impl<P: Parameters> Assignments<P> {
    /// Whether this parameter was said, by its known name.
    pub fn has(&self, name: &str) -> bool {
        self.said.contains(&name)
    }

    /// What came of it so far.
    pub fn parameters(&self) -> &P {
        &self.parameters
    }

    /// What came of it.
    pub fn into_parameters(self) -> P {
        self.parameters
    }

    /// Sets a parameter by its name; for `showable` see [`Names::find`].
    ///
    /// # Errors
    ///
    /// When the name is not known, or the value cannot be met or understood.
    pub fn set(&mut self, name: &str, value: &str, showable: bool) -> Result<(), SettingsError> {
        let name = P::NAMES.find(name, showable)?;
        if value.is_empty() {
            return Ok(());
        }
        if !self.has(name) {
            self.said.push(name);
        }
        self.parameters.set(name, value)
    }

    /// Sets a parameter to what an environment variable says, if that says anything.
    ///
    /// # Errors
    ///
    /// As [`set`](Assignments::set), with the variable's name.
    pub fn set_from(
        &mut self,
        lookup: Lookup<'_>,
        variable_name: &'static str,
        name: &str,
    ) -> Result<(), SettingsError> {
        match variable(lookup, variable_name)? {
            Some(value) => self.set(name, &value, true).map_err(|error| error.within(variable_name)),
            None => Ok(()),
        }
    }
}
