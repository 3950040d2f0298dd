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
#[derive(Default)]
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps the last value of each.
    #[derive(Default)]
    struct Kept {
        host: String,
        color: String,
    }

    impl Parameters for Kept {
        const NAMES: &'static Names = &Names {
            read: &["color", "host"],
            same: &[("colour", "color")],
            not_there: &[],
            elsewhere: &[],
            dashes: false,
            otherwise: None,
        };
        const DATABASE: &'static str = "host";
        const PORT_DEFAULT: u16 = 1;
        const OF_THE_ADDRESS: &'static [&'static str] = &[];

        fn set(&mut self, name: &'static str, value: &str) -> Result<(), SettingsError> {
            match (name, value) {
                ("color", "none") => return Err(SettingsError::of(name, "must be one")),
                ("color", value) => self.color = value.to_owned(),
                (_, value) => self.host = value.to_owned(),
            }
            Ok(())
        }
    }

    #[test]
    fn the_later_word_wins_and_nothing_is_no_word() {
        let mut assignments = Assignments::<Kept>::default();
        for (name, value) in [("host", "a"), ("host", ""), ("colour", ""), ("host", "b"), ("host", "")] {
            assignments.set(name, value, true).unwrap();
        }
        assert!(assignments.has("host") && !assignments.has("color"));
        assignments.set("colour", "red", true).unwrap();
        assert!(assignments.has("color") && !assignments.has("colour"));
        assert_eq!(assignments.parameters().host, "b");
        assert_eq!(assignments.into_parameters().color, "red");
    }

    #[test]
    fn a_variable_is_named_by_its_error() {
        let lookup = |variable: &str| match variable {
            "RED" => Some("red".into()),
            "NONE" => Some("none".into()),
            "EMPTY" => Some("".into()),
            _ => None,
        };
        let mut assignments = Assignments::<Kept>::default();
        assignments.set_from(&lookup, "EMPTY", "color").unwrap();
        assignments.set_from(&lookup, "NOT_SET", "color").unwrap();
        assert!(!assignments.has("color"));
        let refused = assignments.set_from(&lookup, "NONE", "color").unwrap_err();
        assert_eq!(refused.to_string(), "invalid settings: NONE: `color` must be one");
        assignments.set_from(&lookup, "RED", "color").unwrap();
        assert_eq!(assignments.parameters().color, "red");
        let unknown = assignments.set_from(&lookup, "RED", "colr").unwrap_err();
        assert!(unknown.to_string().starts_with("invalid settings: RED: `colr` is not"), "{unknown}");
    }

    #[cfg(unix)]
    #[test]
    fn a_variable_that_is_no_text_is_refused() {
        use std::ffi::OsString;
        use std::os::unix::ffi::OsStringExt;
        let error = variable(&|_| Some(OsString::from_vec(vec![0xff])), "BYTES").unwrap_err();
        assert_eq!(error.to_string(), "invalid settings: BYTES: is not UTF-8");
    }
}
