//! Environment variables, through a function that is passed in: nothing here touches the process.

use std::ffi::OsString;

use super::error::SettingsError;

/// How environment variables are looked up.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// A variable's value; an empty one is the same as none.
///
/// # Errors
///
/// When it is not UTF-8.
pub fn variable(lookup: Lookup<'_>, variable: &'static str) -> Result<Option<String>, SettingsError> {
    match lookup(variable).map(OsString::into_string).transpose() {
        Ok(value) => Ok(value.filter(|value| !value.is_empty())),
        Err(_) => Err(SettingsError::whole("is not UTF-8").within(variable)),
    }
}
