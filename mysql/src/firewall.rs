//! The firewall: what a statement does to the session it runs in, and who may run it therefore.
//!
//! A statement is looked at once, when it is first prepared: its leading keyword, behind comments and parentheses, user
//! variables, and the names of a few functions. What is within an executable comment (`/*! ... */`, `/*!80000 ... */`)
//! one server runs and another passes over, so whatever it would do in either case counts. It is a lexer, not a parser;
//! what it cannot see is caught after the reply, by the status flags. What a backslash in quotes is, a session's `sql_mode`
//! says: the log-in tells that much of a server, and on a lease, which may set it, either counts. What a stored function does to its session, it does
//! not see.

mod encoding;
#[cfg(test)]
mod tests;
mod tokens;

use self::encoding::Encoding;
use self::tokens::{Backslash, Executable, Token, Tokens};
use crate::error::Error;

/// What a statement does to its session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Effect {
    /// Why it is not for a connection that others use as well.
    not_shared: Option<Reason>,
    /// Why it is not for a transaction that `begin` has made.
    not_in_transaction: Option<Reason>,
    /// Why it is for no connection at all.
    nowhere: Option<Reason>,
    /// It may leave the session other than it was.
    changes_session: bool,
    /// It changes what no reset undoes.
    spoils_session: bool,
    /// Statements that were prepared before it would be others if they were prepared behind it.
    outdates_prepared: bool,
}

/// What a statement does to its session, by how that reads a backslash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Effects {
    /// Where it hides a quote behind it.
    escaped: Effect,
    /// Where it is a letter like any other.
    unescaped: Effect,
    /// Nothing that matters, wherever it runs.
    is_none: bool,
}

/// How sessions have said that they read a backslash; none: nobody has said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Backslashes(pub(crate) u8);

/// Where a statement is to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// On a connection that others use as well.
    Shared,
    /// On a lease.
    Lease,
    /// In a transaction that `begin` has made.
    Transaction,
}

/// Why a statement is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    /// It begins or ends a transaction or a savepoint.
    Transaction(&'static str),
    /// It commits the transaction it is run in.
    Commits(&'static str),
    /// It changes what stays until the session ends or is reset.
    Session(&'static str),
    /// It asks what the session's last statement left there.
    Asks(&'static str),
    /// The same, and there is a better way.
    AsksInsertId,
    /// It holds statements that could be any.
    Hidden(&'static str),
    /// It has the session speak another encoding.
    Encoding,
}

/// Statements that begin with these are not for everybody's connection.
const KEYWORDS: &[(&str, Reason)] = &[
    ("backup", Reason::Session("BACKUP")),
    ("begin", Reason::Transaction("BEGIN")),
    ("call", Reason::Hidden("CALL")),
    // MariaDB runs these outside of stored programs, too.
    ("case", Reason::Hidden("CASE")),
    ("commit", Reason::Transaction("COMMIT")),
    // MariaDB's, where it reads Oracle's language.
    ("declare", Reason::Hidden("DECLARE")),
    ("deallocate", Reason::Session("DEALLOCATE PREPARE")),
    ("execute", Reason::Hidden("EXECUTE")),
    ("for", Reason::Hidden("FOR")),
    ("get", Reason::Asks("GET DIAGNOSTICS")),
    ("handler", Reason::Session("HANDLER")),
    ("if", Reason::Hidden("IF")),
    ("load", Reason::Session("LOAD")),
    ("lock", Reason::Session("LOCK")),
    ("loop", Reason::Hidden("LOOP")),
    ("prepare", Reason::Session("PREPARE")),
    ("release", Reason::Transaction("RELEASE")),
    ("repeat", Reason::Hidden("REPEAT")),
    ("rollback", Reason::Transaction("ROLLBACK")),
    ("savepoint", Reason::Transaction("SAVEPOINT")),
    ("set", Reason::Session("SET")),
    ("unlock", Reason::Session("UNLOCK")),
    ("use", Reason::Session("USE")),
    ("while", Reason::Hidden("WHILE")),
    ("xa", Reason::Transaction("XA")),
];

/// Statements that begin with these commit the transaction they are run in, before they do anything: what can do so in
/// one form or another.
const COMMITTING_KEYWORDS: &[(&str, &str)] = &[
    ("alter", "ALTER"),
    ("backup", "BACKUP"),
    ("cache", "CACHE INDEX"),
    ("change", "CHANGE"),
    ("check", "CHECK TABLE"),
    ("clone", "CLONE"),
    ("create", "CREATE"),
    ("drop", "DROP"),
    ("flush", "FLUSH"),
    ("grant", "GRANT"),
    ("import", "IMPORT TABLE"),
    ("install", "INSTALL"),
    ("lock", "LOCK"),
    ("optimize", "OPTIMIZE"),
    ("rename", "RENAME"),
    ("repair", "REPAIR"),
    ("reset", "RESET"),
    ("revoke", "REVOKE"),
    ("stop", "STOP REPLICA"),
    ("truncate", "TRUNCATE"),
    ("uninstall", "UNINSTALL"),
    ("unlock", "UNLOCK"),
];

/// Behind START these are no transaction; a server commits before it starts them.
const STARTED: &[&str] = &["replica", "slave", "all", "group_replication"];

/// ANALYZE commits before one of these; MariaDB's ANALYZE of a query does not.
const ANALYZED_TABLES: &[&str] = &["table", "tables", "local", "no_write_to_binlog"];

/// What CREATE makes of these has a body, which does nothing before it is called.
const WITH_BODY: &[&str] = &["procedure", "function", "trigger", "event", "package"];

/// What may stand between CREATE and one of those.
const BEFORE_BODY: &[&str] = &["or", "replace", "definer", "current_user", "current_role", "aggregate"];

/// Statements that begin with these may name accounts: `'user'@'host'`.
const ACCOUNT_KEYWORDS: &[&str] = &["alter", "create", "drop", "grant", "rename", "revoke", "show"];

/// Functions that hold something for the session, or tell of the session's last statement, which may be a stranger's.
const FUNCTIONS: &[(&str, Reason)] = &[
    ("found_rows", Reason::Asks("FOUND_ROWS")),
    ("get_lock", Reason::Session("GET_LOCK")),
    ("lastval", Reason::Asks("LASTVAL")),
    ("release_all_locks", Reason::Session("RELEASE_ALL_LOCKS")),
    ("release_lock", Reason::Session("RELEASE_LOCK")),
    ("row_count", Reason::Asks("ROW_COUNT")),
];

/// Asks the session when it stands alone; with an argument it is what the session answers next.
const LAST_INSERT_ID: &str = "last_insert_id";

/// System variables that tell of the session's last statement.
const SESSION_VALUES: &[(&str, &str)] = &[
    ("error_count", "@@error_count"),
    ("identity", "@@identity"),
    ("insert_id", "@@insert_id"),
    ("last_insert_id", "@@last_insert_id"),
    ("warning_count", "@@warning_count"),
];

/// SET ROLE and SET RESOURCE GROUP outlast a reset; so does MariaDB's SET SESSION AUTHORIZATION.
const KEPT_BY_RESET: &[&str] = &["role", "resource"];

/// Variables that begin so decide what a text means: quotes, operators, the encoding of literals.
const PARSED_WITH: &[&str] = &["sql_mode", "names", "charset", "character", "collation"];

/// What stands right behind these is no account's host, although the statement may name accounts.
const NO_ACCOUNTS: &[&str] = &[
    "all", "and", "between", "by", "case", "distinct", "div", "else", "having", "in", "into", "is", "like", "limit",
    "mod", "not", "on", "or", "return", "returns", "select", "set", "then", "values", "when", "where", "xor",
];

impl Backslashes {
    pub(crate) const ESCAPE: Backslashes = Backslashes(1);
    pub(crate) const LETTERS: Backslashes = Backslashes(2);
    /// A session that may be set either way.
    pub(crate) const EITHER: Backslashes = Backslashes(3);

    pub(crate) fn is_known(self) -> bool {
        self.0 != 0
    }
}

impl Effects {
    /// Nothing that matters, wherever it runs.
    #[inline]
    pub(crate) fn is_none(&self) -> bool {
        self.is_none
    }

    /// Whether it matters how a session reads a backslash.
    pub(crate) fn depend(&self) -> bool {
        self.escaped != self.unescaped
    }

    /// All that it does in sessions that read backslashes so. Of those of which nothing is known, it does either.
    pub(crate) fn of(&self, backslashes: Backslashes) -> Effect {
        match backslashes {
            Backslashes::ESCAPE => self.escaped,
            Backslashes::LETTERS => self.unescaped,
            _ => self.escaped.and(self.unescaped),
        }
    }
}

impl Effect {
    pub(crate) fn changes_session(self) -> bool {
        self.changes_session
    }

    pub(crate) fn spoils_session(self) -> bool {
        self.spoils_session
    }

    pub(crate) fn outdates_prepared(self) -> bool {
        self.outdates_prepared
    }

    /// Whether it holds statements that could be any.
    pub(crate) fn hides_statements(self) -> bool {
        matches!(self.not_shared, Some(Reason::Hidden(_)))
    }

    /// Refuses what does not belong where it is to run.
    pub(crate) fn admit(self, place: Place) -> Result<(), Error> {
        let (reason, instead) = match place {
            Place::Shared => (self.not_shared, "Use `pool.lease()` for a connection of your own"),
            Place::Transaction => (self.not_in_transaction, "Use its `commit`, `rollback` or `savepoint`"),
            Place::Lease => (None, ""),
        };
        let reason = self.nowhere.or(reason);
        let Some(reason) = reason else { return Ok(()) };
        Err(Error::caller(match (reason, place) {
            (Reason::Transaction(keyword), Place::Shared) => format!(
                "{keyword} would change the session of a shared connection. Use `pool.begin()` for a transaction"
            ),
            (Reason::Transaction(keyword), _) => {
                format!("{keyword} would change the transaction behind its back. {instead}")
            }
            (Reason::Commits(keyword), _) => {
                format!("{keyword} would commit the transaction. Run it before or after, on the pool or on a lease")
            }
            (Reason::Session(what), _) => format!("{what} would change the session of a shared connection. {instead}"),
            (Reason::Asks(what), _) => {
                format!("{what} would ask the session of a shared connection for what a stranger left there. {instead}")
            }
            (Reason::AsksInsertId, _) => "LAST_INSERT_ID would ask the session of a shared connection for what a \
                                          stranger left there. `execute` returns it with its result"
                .to_owned(),
            (Reason::Encoding, _) => "this SET would have the session speak something else than utf8mb4, which is all that \
                                      this driver reads and writes. Convert where the text is: `convert(name using latin1)`"
                .to_owned(),
            (Reason::Hidden(keyword), Place::Transaction) => {
                format!("{keyword} runs statements that could commit the transaction. Run them by themselves, or on a lease")
            }
            (Reason::Hidden(keyword), _) => {
                format!("{keyword} runs statements that could do anything to a shared connection. {instead}")
            }
        }))
    }

    fn refuse_shared(&mut self, reason: Reason) {
        self.not_shared.get_or_insert(reason);
        self.changes_session |= matches!(reason, Reason::Session(_) | Reason::Hidden(_));
        if let Reason::Transaction(_) = reason {
            self.refuse_in_transaction(reason);
        }
    }

    fn refuse_everywhere(&mut self, reason: Reason) {
        self.nowhere.get_or_insert(reason);
    }

    fn refuse_in_transaction(&mut self, reason: Reason) {
        self.not_in_transaction.get_or_insert(reason);
    }

    /// Both of it.
    fn and(self, other: Effect) -> Effect {
        Effect {
            not_shared: self.not_shared.or(other.not_shared),
            not_in_transaction: self.not_in_transaction.or(other.not_in_transaction),
            nowhere: self.nowhere.or(other.nowhere),
            changes_session: self.changes_session || other.changes_session,
            spoils_session: self.spoils_session || other.spoils_session,
            outdates_prepared: self.outdates_prepared || other.outdates_prepared,
        }
    }
}

/// What a statement does to its session.
pub(crate) fn classify(sql: &str) -> Effects {
    let mut escaped = read_all(sql, Backslash::Escapes);
    let mut unescaped = escaped;
    if sql.contains('\\') {
        // Nothing tells which of the two holds for double quotes.
        escaped = escaped.and(read_all(sql, Backslash::EscapesInText));
        unescaped = read_all(sql, Backslash::Letter);
    }
    let nothing = Effect::default();
    Effects { escaped, unescaped, is_none: escaped == nothing && unescaped == nothing }
}

fn read_all(sql: &str, backslash: Backslash) -> Effect {
    // A server skips executable comments of versions that it is not, to the next `*/` whatever is in them. A quote or
    // another comment's beginning in there would hide what follows, so they are read both ways.
    let run = read(sql, Executable::Run, backslash);
    if sql.contains("/*!") || sql.contains("/*M!") { run.and(read(sql, Executable::Skipped, backslash)) } else { run }
}

fn read(sql: &str, executable: Executable, backslash: Backslash) -> Effect {
    let mut tokens = Tokens::new(sql, executable, backslash);
    let mut effect = Effect::default();
    let mut previous: &[u8] = &[];
    let (mut front, mut call, mut encoding) = (Front::default(), Call::default(), Encoding::default());
    while let Some(token) = tokens.next() {
        let comment = tokens.comment;
        if front.sets || front.holds_others {
            encoding.look(token, previous, comment, &mut effect);
        }
        front.look(token, comment, &mut effect);
        if front.is_body {
            return effect;
        }
        match token {
            Token::Variable { behind_name }
                if !(behind_name && front.names_accounts() && !any(previous, NO_ACCOUNTS)) =>
            {
                effect.refuse_shared(Reason::Session("a user variable (@name)"));
            }
            Token::System(name) => {
                if let Some((_, shown)) = find(name, SESSION_VALUES) {
                    effect.refuse_shared(Reason::Asks(shown));
                }
            }
            _ => {}
        }
        call.look(token, comment.is_some(), &mut effect);
        previous = if let Token::Word(word) = token { word } else { &[] };
    }
    encoding.end(&mut effect);
    effect
}

fn is(word: &[u8], other: &str) -> bool {
    word.eq_ignore_ascii_case(other.as_bytes())
}

fn any(word: &[u8], others: &[&str]) -> bool {
    others.iter().any(|other| is(word, other))
}

fn find<T>(word: &[u8], table: &'static [(&str, T)]) -> Option<&'static (&'static str, T)> {
    table.iter().find(|(known, _)| is(word, known))
}

/// What kind of statement it is.
#[derive(Default)]
struct Front {
    /// Its first word outside of executable comments has come; and of which of those the first word has.
    begun: bool,
    comment: Option<u32>,
    /// CREATE or DROP, and which of them outside of executable comments.
    makes: bool,
    drops: bool,
    sets: bool,
    /// MariaDB's SET STATEMENT ... FOR: any statement stands behind a FOR.
    sets_for: bool,
    loads: bool,
    starts: bool,
    begins: bool,
    /// MariaDB's compound statements.
    holds_others: bool,
    shows: bool,
    flushes: bool,
    analyzes: bool,
    accounts: bool,
    others: bool,
    /// The next word is where TEMPORARY would be.
    second: bool,
    /// Nothing has come behind CREATE but what may precede the kind of something that has a body.
    before_body: bool,
    /// An account's name is due: it may be any word.
    account: bool,
    /// What follows is not run.
    is_body: bool,
}

impl Front {
    fn names_accounts(&self) -> bool {
        self.accounts && !self.others
    }

    fn look(&mut self, token: Token<'_>, comment: Option<u32>, effect: &mut Effect) {
        let account = std::mem::replace(
            &mut self.account,
            matches!(token, Token::Other | Token::Assign | Token::Variable { .. }),
        );
        let word = match token {
            Token::Word(word) => word,
            Token::Quoted(name) | Token::System(name) => return self.name(name, effect),
            _ => return,
        };
        let leads = !self.begun && (comment.is_none() || comment != self.comment);
        if leads {
            self.begun = comment.is_none();
            self.comment = comment;
            // Where a server passes over the one before it is no first word.
            if self.second {
                self.second_word(word, comment, effect);
            }
            return self.lead(word, effect);
        }
        self.name(word, effect);
        if self.sets_for && is(word, "for") {
            (self.begun, self.comment) = (false, None);
            return;
        }
        if self.shows && any(word, &["warnings", "errors"]) {
            effect.refuse_shared(Reason::Asks("SHOW WARNINGS or ERRORS"));
        }
        if self.flushes && any(word, &["lock", "export"]) {
            effect.refuse_shared(Reason::Session("a lock on tables"));
        }
        // Not the name of a variable.
        if self.second && !account {
            self.second_word(word, comment, effect);
        }
        if self.before_body && comment.is_none() && !account {
            self.is_body = any(word, WITH_BODY);
            self.before_body = any(word, BEFORE_BODY);
        }
    }

    /// A word that the statement begins with, for one server or another.
    fn lead(&mut self, word: &[u8], effect: &mut Effect) {
        if let Some((_, reason)) = find(word, KEYWORDS) {
            effect.refuse_shared(*reason);
            // A procedure is what transactions are made of; it is noticed when it has committed.
            if let Reason::Hidden(_) = reason
                && !is(word, "call")
            {
                self.holds_others = true;
                effect.refuse_in_transaction(*reason);
            }
            // What XA has prepared outlasts its transaction.
            effect.changes_session |= is(word, "xa");
        }
        if let Some((_, keyword)) = find(word, COMMITTING_KEYWORDS) {
            effect.refuse_in_transaction(Reason::Commits(keyword));
        }
        let creates = is(word, "create");
        self.drops |= is(word, "drop");
        self.makes |= creates || self.drops;
        self.analyzes |= is(word, "analyze");
        self.sets |= is(word, "set");
        self.loads |= is(word, "load");
        self.starts |= is(word, "start");
        self.begins |= is(word, "begin");
        self.holds_others |= self.begins;
        // It names tables of the default database that was when it was prepared.
        effect.outdates_prepared |= is(word, "use");
        self.second |= self.makes || self.analyzes || self.sets || self.loads || self.starts || self.begins;
        self.before_body = creates && self.begun;
        self.shows |= is(word, "show");
        self.flushes |= is(word, "flush");
        let accounts = any(word, ACCOUNT_KEYWORDS);
        self.accounts |= accounts;
        self.others |= !accounts;
    }

    /// A word where the kind of what is made would be.
    fn second_word(&mut self, word: &[u8], comment: Option<u32>, effect: &mut Effect) {
        // CREATE [OR REPLACE] TEMPORARY; a column may be called so.
        if self.makes && is(word, "temporary") {
            effect.refuse_shared(Reason::Session("a temporary table"));
            if comment.is_none() && self.begun {
                effect.not_in_transaction = None;
            }
        }
        // Dropped, it is no session's default any more: that cannot be undone by any other.
        if self.drops && any(word, &["database", "schema"]) {
            effect.changes_session = true;
        }
        // MariaDB's BEGIN NOT ATOMIC holds any statements.
        effect.changes_session |= self.begins && is(word, "not");
        if self.sets {
            effect.spoils_session |= any(word, KEPT_BY_RESET);
            self.sets_for |= is(word, "statement");
            if any(word, &["password", "default"]) {
                effect.refuse_in_transaction(Reason::Commits("SET PASSWORD or SET DEFAULT ROLE"));
            }
        }
        if self.starts && any(word, STARTED) {
            effect.refuse_in_transaction(Reason::Commits("START REPLICA"));
        } else if self.starts {
            effect.refuse_shared(Reason::Transaction("START TRANSACTION"));
        }
        if self.loads && is(word, "index") {
            effect.refuse_in_transaction(Reason::Commits("LOAD INDEX INTO CACHE"));
        }
        if self.analyzes && any(word, ANALYZED_TABLES) {
            effect.refuse_in_transaction(Reason::Commits("ANALYZE TABLE"));
        }
        if comment.is_none() {
            self.second = any(word, &["or", "replace"]);
        }
    }

    /// Any name, quoted or not.
    fn name(&self, name: &[u8], effect: &mut Effect) {
        if !self.sets {
            return;
        }
        effect.spoils_session |= is(name, "authorization");
        if is(name, "autocommit") {
            effect.refuse_in_transaction(Reason::Transaction("SET autocommit"));
        }
        let begins = |with: &&str| name.get(..with.len()).is_some_and(|front| is(front, with));
        effect.outdates_prepared |= PARSED_WITH.iter().any(begins);
    }
}

/// Whether one of the [`FUNCTIONS`] is called.
#[derive(Default)]
struct Call {
    function: Option<Function>,
    opened: bool,
}

#[derive(Clone, Copy)]
enum Function {
    Of(Reason),
    LastInsertId,
}

impl Call {
    fn look(&mut self, token: Token<'_>, optional: bool, effect: &mut Effect) {
        if self.opened && !matches!(token, Token::Close) {
            // As any INSERT does, and nobody asks a shared session for it: whoever gave it has it with his answer. A lease
            // leaves the next one without it.
            effect.changes_session = true;
            self.opened = optional;
        }
        // The server knows functions by quoted names, too.
        if let Token::Word(name) | Token::Quoted(name) = token {
            let last_insert_id = is(name, LAST_INSERT_ID).then_some(Function::LastInsertId);
            let named = find(name, FUNCTIONS).map(|(_, reason)| Function::Of(*reason)).or(last_insert_id);
            if named.is_some() {
                *self = Call { function: named, opened: false };
                return;
            }
        }
        match (token, self.function) {
            (Token::Open, Some(Function::Of(reason))) => effect.refuse_shared(reason),
            (Token::Open, Some(Function::LastInsertId)) => self.opened = true,
            (Token::Close, Some(_)) if self.opened => {
                effect.refuse_shared(Reason::AsksInsertId);
                *self = Call::default();
            }
            // What a server may pass over stands between nothing.
            _ if optional => {}
            _ => *self = Call::default(),
        }
    }
}
