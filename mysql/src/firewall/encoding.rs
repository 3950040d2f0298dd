//! Whether a SET has the session speak another encoding than utf8mb4: what the driver reads as text would be something
//! else then, without any sign of it.
//!
//! Only a value that stands there as it is counts as utf8mb4: no expression, and no DEFAULT, which is the server's. What a
//! stored procedure or a statement within a text sets, is not seen.

use super::tokens::Token;
use super::{Effect, Reason, any, is};

/// Variables that decide what is sent and what comes back.
const VARIABLES: &[&str] = &["character_set_client", "character_set_results", "character_set_connection"];

const SPOKEN: &str = "utf8mb4";

/// Where a statement that sets stands.
#[derive(Default)]
pub(super) struct Encoding {
    state: State,
    /// Parentheses that are open.
    depth: usize,
    /// What is given a value is a variable by its own name.
    is_variable: bool,
}

#[derive(Clone, Copy, Default)]
enum State {
    #[default]
    Else,
    /// The name of a user variable is next, whatever it is.
    UserVariable,
    /// `CHARACTER`, perhaps of `CHARACTER SET`.
    Character,
    /// One of the variables; what may follow is the sign before its value.
    Variable,
    /// The value is next; and in which comment what it is given to stands.
    Value(Option<u32>),
}

impl Encoding {
    /// Looks at the next token of a statement that sets; `comment` is the executable one that it stands in.
    pub(super) fn look(&mut self, token: Token<'_>, previous: &[u8], comment: Option<u32>, effect: &mut Effect) {
        match token {
            Token::Open => self.depth += 1,
            Token::Close => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        let state = std::mem::take(&mut self.state);
        if let State::Value(named_in) = state {
            match token {
                // `:=` is two of them.
                Token::Assign => {
                    self.state = state;
                    return;
                }
                // A function of that name.
                Token::Open if !self.is_variable => return,
                _ => {}
            }
            let spoken =
                matches!(token, Token::Word(value) | Token::Quoted(value) | Token::Text(value) if is(value, SPOKEN));
            // A value in a comment of its own is not everybody's.
            if !spoken || named_in != comment {
                effect.refuse_everywhere(Reason::Encoding);
            }
            return;
        }
        self.is_variable = matches!(state, State::Variable);
        self.state = match (state, token) {
            (_, Token::Variable { .. }) => State::UserVariable,
            (State::UserVariable, _) => State::Else,
            // Where a name could be that of a column, it is no SET's.
            _ if self.depth > 0 => State::Else,
            (State::Character, Token::Word(word)) if is(word, "set") => State::Value(comment),
            (State::Variable, Token::Assign) => State::Value(comment),
            (_, Token::Word(word)) if any(word, &["names", "charset"]) && begins(previous) => State::Value(comment),
            (_, Token::Word(word)) if any(word, &["character", "char"]) && begins(previous) => State::Character,
            (_, Token::Word(name) | Token::Quoted(name) | Token::System(name)) if any(name, VARIABLES) => {
                State::Variable
            }
            _ => State::Else,
        };
    }

    /// The statement is over.
    pub(super) fn end(&self, effect: &mut Effect) {
        if let State::Value(_) = self.state {
            effect.refuse_everywhere(Reason::Encoding);
        }
    }
}

/// Whether an assignment begins behind this word, or behind what is no word.
fn begins(previous: &[u8]) -> bool {
    previous.is_empty() || is(previous, "set")
}
