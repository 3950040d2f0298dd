//! `SettingsError`: why settings were refused, in words that give nothing away.
//!
//! The text it was read from, and every value in it, stays out of the words: a password that was not escaped can turn
//! up in any part of a URL, also where a port or a parameter's name should be.

use std::error::Error;
use std::fmt;

/// Why settings were refused.
///
/// `Display` names the parameter and says what it should be. It never shows a value, so neither a password nor a
/// connection string gets into a log by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsError {
    variable: Option<&'static str>,
    parameter: Option<String>,
    words: String,
}

// What only drivers call is left out of the documentation: each of them shows this type as its own.
impl SettingsError {
    /// The parameter at fault by its name, where one is.
    pub fn parameter(&self) -> Option<&str> {
        self.parameter.as_deref()
    }

    /// A fault of the settings as a whole.
    #[doc(hidden)]
    pub fn whole(words: impl Into<String>) -> SettingsError {
        SettingsError { variable: None, parameter: None, words: words.into() }
    }

    /// A fault of one parameter; `words` go on after its name ("must be ..").
    #[doc(hidden)]
    pub fn of(parameter: &str, words: impl Into<String>) -> SettingsError {
        SettingsError { variable: None, parameter: Some(parameter.to_owned()), words: words.into() }
    }

    /// Names the environment variable it came from.
    #[doc(hidden)]
    #[must_use]
    pub fn within(mut self, variable: &'static str) -> SettingsError {
        self.variable = Some(variable);
        self
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("invalid settings: ")?;
        if let Some(variable) = self.variable {
            write!(f, "{variable}: ")?;
        }
        if let Some(parameter) = &self.parameter {
            write!(f, "`{parameter}` ")?;
        }
        f.write_str(&self.words)
    }
}

impl Error for SettingsError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_where_and_what() {
        let whole = SettingsError::whole("are empty");
        assert_eq!((whole.to_string().as_str(), whole.parameter()), ("invalid settings: are empty", None));
        let of_one = SettingsError::of("port", "must be a number").within("PORT");
        assert_eq!(of_one.to_string(), "invalid settings: PORT: `port` must be a number");
        assert_eq!(of_one.parameter(), Some("port"));
    }
}
