//! What is checked of user, password and other texts, whatever the source.

use std::ffi::OsString;

use super::environment::Lookup;
use super::error::SettingsError;
use super::password::Password;

/// A text as it may be sent. An empty one is one that was not said.
///
/// # Errors
///
/// On a NUL: it would end the text early in the log-in, and what follows would be read as something else.
pub fn checked_text(parameter: &str, said: Option<String>) -> Result<Option<String>, SettingsError> {
    match said {
        Some(text) if text.contains('\0') => Err(SettingsError::of(parameter, "holds a NUL byte")),
        said => Ok(said.filter(|text| !text.is_empty())),
    }
}

/// A password as it may be sent. An empty one is none: the servers make no difference, or have no empty ones.
///
/// # Errors
///
/// On a NUL, and on more than `bytes_max` bytes.
pub fn checked_password(said: Option<Password>, bytes_max: usize) -> Result<Option<Password>, SettingsError> {
    let Some(password) = said.filter(|password| !password.as_bytes().is_empty()) else {
        return Ok(None);
    };
    if password.as_bytes().contains(&0) {
        return Err(SettingsError::of("password", "holds a NUL byte"));
    }
    if password.as_bytes().len() > bytes_max {
        return Err(SettingsError::of("password", format!("has more than {bytes_max} bytes")));
    }
    Ok(Some(password))
}

/// The operating system's user: `USER`, else `LOGNAME`.
///
/// # Errors
///
/// When neither says it.
pub fn system_user(lookup: Lookup<'_>) -> Result<String, SettingsError> {
    let user = ["USER", "LOGNAME"]
        .iter()
        .filter_map(|variable| lookup(variable).map(OsString::into_string))
        .filter_map(Result::ok)
        .find(|user| !user.is_empty() && !user.contains('\0'));
    user.ok_or_else(|| {
        SettingsError::of("user", "is not set, and neither USER nor LOGNAME says who the system's user is")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_sendable_or_not_said() {
        assert_eq!(checked_text("user", Some("app".to_owned())), Ok(Some("app".to_owned())));
        assert_eq!(checked_text("user", Some(String::new())), Ok(None));
        assert_eq!(checked_text("user", None), Ok(None));
        let error = checked_text("user", Some("a\0b".to_owned())).unwrap_err();
        assert_eq!(error.parameter(), Some("user"), "{error}");
    }

    #[test]
    fn passwords_have_bounds() {
        let check = |password: &str| checked_password(Some(Password::new(password)), 3);
        assert_eq!(check("abc"), Ok(Some(Password::new("abc"))));
        assert_eq!(check(""), Ok(None));
        for (password, words) in [("abcd", "more than 3 bytes"), ("a\0", "NUL")] {
            let error = check(password).unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
        }
    }

    #[test]
    fn the_system_names_the_user() {
        let user = |user: &'static str, logname: &'static str| {
            system_user(&move |variable| match variable {
                "USER" => Some(user.into()),
                "LOGNAME" => Some(logname.into()),
                _ => None,
            })
            .ok()
        };
        assert_eq!(user("a", "b").as_deref(), Some("a"));
        assert_eq!(user("", "b").as_deref(), Some("b"));
        assert_eq!(user("a\0", "b").as_deref(), Some("b"));
        assert_eq!(user("", ""), None);
    }
}
