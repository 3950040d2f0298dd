//! Keyword strings: `host=localhost user=app password='it\'s mine'`, as libpq reads them.
//!
//! A value ends at white space unless it stands in `'..'`; a backslash takes the next character as it is,
//! in and out of quotes. White space around `=` means nothing. (libpq, "Keyword/Value Connection Strings".)

use cenote_pool::settings::{Assignments, SettingsError};

use super::assignments::Said;

/// Reads all of `text` into `assignments`.
pub(super) fn read(text: &str, assignments: &mut Assignments<Said>) -> Result<(), SettingsError> {
    let mut rest = text.trim_start_matches(is_space);
    // Words after a password may be the rest of it, so they are not repeated in errors.
    let mut showable = true;
    while !rest.is_empty() {
        let name_end = rest.find(|c| c == '=' || is_space(c)).unwrap_or(rest.len());
        let (name, after_name) = rest.split_at(name_end);
        let Some(value_text) = after_name.trim_start_matches(is_space).strip_prefix('=') else {
            return Err(SettingsError::whole(
                "a word without `=` after it: parameters are written name=value, a value with spaces in \
                 '..', a URL starts with postgres://",
            ));
        };
        let (value, after_value) = take_value(value_text.trim_start_matches(is_space))?;
        assignments.set(name, &value, showable)?;
        showable = showable && name != "password";
        rest = after_value.trim_start_matches(is_space);
    }
    Ok(())
}

/// C's `isspace`, which libpq goes by.
fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\x0b' | '\x0c' | '\r')
}

/// Takes one value off the front; gives the rest, too.
fn take_value(text: &str) -> Result<(String, &str), SettingsError> {
    let (quoted, body) = match text.strip_prefix('\'') {
        Some(body) => (true, body),
        None => (false, text),
    };
    let mut value = String::new();
    let mut characters = body.char_indices();
    while let Some((index, character)) = characters.next() {
        match character {
            // At the very end a backslash has nothing to escape, and is dropped.
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            '\'' if quoted => return Ok((value, body.get(index + 1..).unwrap_or_default())),
            space if !quoted && is_space(space) => {
                return Ok((value, body.get(index..).unwrap_or_default()));
            }
            other => value.push(other),
        }
    }
    match quoted {
        true => Err(SettingsError::whole(
            "a quoted value lacks its closing quote; inside of quotes, ' and \\ are written \\' and \\\\",
        )),
        false => Ok((value, "")),
    }
}
