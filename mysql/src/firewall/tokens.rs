//! A statement cut into what the firewall looks at: words, names, variables, parentheses; comments are passed over.

use super::any;

/// What a server does with an executable comment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Executable {
    Run,
    Skipped,
}

/// What a backslash within quotes is, by the session's `sql_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Backslash {
    /// It hides a quote behind it.
    Escapes,
    /// The same in single quotes; double ones hold a name (ANSI_QUOTES).
    EscapesInText,
    /// A letter like any other (NO_BACKSLASH_ESCAPES).
    Letter,
}

/// What is not in a comment, and no space.
#[derive(Clone, Copy)]
pub(super) enum Token<'a> {
    Word(&'a [u8]),
    /// In back quotes or double quotes: a name, or text.
    Quoted(&'a [u8]),
    /// `@@name`, without its scope.
    System(&'a [u8]),
    /// `@name`. Right behind a name it may be an account's host.
    Variable {
        behind_name: bool,
    },
    Open,
    Close,
    /// In single quotes.
    Text(&'a [u8]),
    /// `=`, or one of the two signs of `:=`.
    Assign,
    Other,
}

/// The tokens of a statement.
pub(super) struct Tokens<'a> {
    rest: &'a [u8],
    executable: Executable,
    backslash: Backslash,
    /// A word or something quoted has just ended.
    behind_name: bool,
    /// Within an executable comment, and in which.
    pub(super) comment: Option<u32>,
    comments: u32,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(sql: &'a str, executable: Executable, backslash: Backslash) -> Tokens<'a> {
        Tokens { rest: sql.as_bytes(), executable, backslash, behind_name: false, comment: None, comments: 0 }
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        loop {
            let sql = self.rest;
            let behind_name = std::mem::take(&mut self.behind_name);
            let (token, rest) = match sql {
                [] => return None,
                [b'#', ..] => (None, after(sql, b"\n")),
                // Two dashes begin a comment only before a space or a control character.
                [b'-', b'-', rest @ ..] if rest.first().is_none_or(|byte| *byte <= b' ' || *byte == 0x7F) => {
                    (None, after(sql, b"\n"))
                }
                // Executable: what is in it is run, perhaps depending on the server's version.
                [b'/', b'*', b'!', rest @ ..] | [b'/', b'*', b'M', b'!', rest @ ..]
                    if self.executable == Executable::Run =>
                {
                    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
                    self.comments += 1;
                    self.comment = Some(self.comments);
                    (None, &rest[digits..])
                }
                [b'*', b'/', rest @ ..] if self.comment.is_some() => {
                    self.comment = None;
                    (None, rest)
                }
                [b'/', b'*', rest @ ..] => (None, after(rest, b"*/")),
                [quote @ (b'\'' | b'"' | b'`'), inside @ ..] => {
                    let rest = after_quote(sql, self.backslash);
                    self.behind_name = true;
                    let inside = &inside[..(inside.len() - rest.len()).saturating_sub(1)];
                    (Some(if *quote == b'\'' { Token::Text(inside) } else { Token::Quoted(inside) }), rest)
                }
                [b'@', b'@', rest @ ..] => {
                    let (name, rest) = system_variable(rest);
                    (Some(Token::System(name)), rest)
                }
                // What follows may be any sort of name, or quoted.
                [b'@', rest @ ..] => (Some(Token::Variable { behind_name }), rest),
                [first, ..] if is_word(*first) => {
                    let length = sql.iter().position(|&byte| !is_word(byte)).unwrap_or(sql.len());
                    let (word, rest) = sql.split_at(length);
                    self.behind_name = true;
                    (Some(Token::Word(word)), rest)
                }
                [b'(', rest @ ..] => (Some(Token::Open), rest),
                [b')', rest @ ..] => (Some(Token::Close), rest),
                [b'=' | b':', rest @ ..] => (Some(Token::Assign), rest),
                [first, rest @ ..] => ((*first > b' ').then_some(Token::Other), rest),
            };
            self.rest = rest;
            if token.is_some() {
                return token;
            }
        }
    }
}

/// The name of a system variable, behind its scope if it has one, and what follows it.
fn system_variable(sql: &[u8]) -> (&[u8], &[u8]) {
    let bare = |sql: &'_ [u8]| sql.iter().position(|byte| !is_word(*byte)).unwrap_or(sql.len());
    let (name, rest) = sql.split_at(bare(sql));
    match rest.strip_prefix(b".") {
        Some(behind) if any(name, &["session", "local", "global"]) => behind.split_at(bare(behind)),
        _ => (name, rest),
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || !byte.is_ascii()
}

/// What follows the first `end`.
fn after<'a>(sql: &'a [u8], end: &[u8]) -> &'a [u8] {
    sql.windows(end.len()).position(|window| window == end).map_or(&[], |at| &sql[at + end.len()..])
}

/// What follows a quoted string or name. A doubled quote within reads as two strings in a row, which is as good here.
fn after_quote(sql: &[u8], backslash: Backslash) -> &[u8] {
    let Some((quote, mut rest)) = sql.split_first() else { return &[] };
    let escapes = match quote {
        b'\'' => backslash != Backslash::Letter,
        b'"' => backslash == Backslash::Escapes,
        _ => false,
    };
    loop {
        match rest {
            [] => return rest,
            [b'\\', _, behind @ ..] if escapes => rest = behind,
            [byte, behind @ ..] if byte == quote => return behind,
            [_, behind @ ..] => rest = behind,
        }
    }
}
