//! Messages to the server, as whole statements: what goes out for one caller is one piece.
//!
//! The encoding of single messages is `postgres-protocol`'s.

use bytes::BytesMut;
use cenote_pool::{Pace, Preparation, StatementId};
use postgres_protocol::message::frontend::{self, BindError};
use postgres_types::{Format, ToSql, Type};

use super::framer::MESSAGE_BYTES_MAX;
use crate::error::Error;

/// Parameters of one statement: their number travels in 16 bits.
pub(crate) const PARAMETERS_MAX: usize = 65_535;

/// The binary format, for parameters and results.
const BINARY: i16 = 1;
const TEXT: i16 = 0;

/// The server's name of a statement; the empty name is the unnamed statement.
pub(crate) fn statement_name(id: Option<StatementId>) -> String {
    id.map_or_else(String::new, |StatementId(number)| format!("s{number}"))
}

/// The messages that prepare and describe a statement. A named one is closed first: that is no error where it does not
/// exist, and it makes preparing anew work whatever the connection remembers. It is described each time, because what
/// it means may have changed since it was described on another connection.
pub(crate) fn preparation(id: Option<StatementId>, sql: &str, types: &[Type]) -> Result<Preparation, Error> {
    check_text(sql)?;
    check_parameters(types.len())?;
    let name = statement_name(id);
    let mut out = BytesMut::new();
    let encoded = match id {
        Some(_) => frontend::close(b'S', &name, &mut out),
        None => Ok(()),
    };
    let nul = |_| Error::caller("the statement has a NUL character, which Postgres cannot read");
    encoded.and_then(|()| frontend::parse(&name, sql, types.iter().map(Type::oid), &mut out)).map_err(nul)?;
    let describe_at = out.len();
    frontend::describe(b'S', &name, &mut out).map_err(nul)?;
    Ok(Preparation { id, bytes: out[..].into(), describe_at, pace: Pace::default() })
}

/// Whether a text fits into a message: asked before it is looked up, which would take its time.
pub(crate) fn check_text(sql: &str) -> Result<(), Error> {
    if sql.len() > MESSAGE_BYTES_MAX - 1024 - 4 * PARAMETERS_MAX {
        return Err(Error::caller(format!("a statement of {} bytes is longer than any message can be", sql.len())));
    }
    Ok(())
}

/// Whether so many parameters can be sent: asked before the statement is learned, which would send it.
#[inline]
pub(crate) fn check_parameters(count: usize) -> Result<(), Error> {
    if count > PARAMETERS_MAX { Err(too_many_parameters(count)) } else { Ok(()) }
}

/// The simple query: any number of statements without parameters, with one reply. The text is ours and has no NUL.
pub(crate) fn simple_query(sql: &str) -> Vec<u8> {
    let mut out = BytesMut::new();
    // It fails for a NUL alone.
    let _ = frontend::query(sql, &mut out);
    out.to_vec()
}

/// What runs a statement without parameters in front of another: prepared anew, and without a Sync, so that what follows
/// is passed over if it fails.
pub(crate) fn unsynced(sql: &str) -> Vec<u8> {
    let mut out = BytesMut::new();
    // These fail for a NUL alone, and for more parameters than a message has room for.
    let _ = frontend::parse("", sql, [], &mut out);
    let no_values: [(); 0] = [];
    let _ = frontend::bind("", "", [], no_values, |(), _| Ok(postgres_protocol::IsNull::Yes), [], &mut out);
    let _ = frontend::execute("", 0, &mut out);
    out.to_vec()
}

/// Statements without parameters that run in one trip, all or up to the first that fails.
pub(crate) fn synced(statements: &[String]) -> Vec<u8> {
    let mut out: Vec<u8> = statements.iter().flat_map(|sql| unsynced(sql)).collect();
    out.extend_from_slice(SYNC);
    out
}

/// Appends the message that makes the server forget a prepared statement.
pub(crate) fn append_close(id: StatementId, out: &mut Vec<u8>) {
    let name = statement_name(Some(id));
    out.push(b'C');
    out.extend_from_slice(&(name.len() as u32 + 6).to_be_bytes());
    out.push(b'S');
    out.extend_from_slice(name.as_bytes());
    out.push(0);
}

/// Runs a prepared statement once: Bind and Execute.
pub(crate) fn execute(
    name: &str,
    types: &[Type],
    parameters: &[&(dyn ToSql + Sync)],
    out: &mut BytesMut,
) -> Result<(), Error> {
    bind(name, types, parameters, out)?;
    frontend::execute("", 0, out).map_err(|error| Error::caller(error.to_string()))
}

fn bind(name: &str, types: &[Type], parameters: &[&(dyn ToSql + Sync)], out: &mut BytesMut) -> Result<(), Error> {
    check_parameters(parameters.len())?;
    if parameters.len() != types.len() {
        return Err(Error::caller(format!(
            "the statement has {} parameters, and {} were given",
            types.len(),
            parameters.len()
        )));
    }
    let begins_at = out.len();
    let all_binary = parameters.iter().zip(types).all(|(value, ty)| matches!(value.encode_format(ty), Format::Binary));
    let mut number = 0;
    let serialize = |(value, ty): (&&(dyn ToSql + Sync), &Type), out: &mut BytesMut| {
        number += 1;
        match value.to_sql_checked(ty, out)? {
            postgres_types::IsNull::Yes => Ok(postgres_protocol::IsNull::Yes),
            postgres_types::IsNull::No => Ok(postgres_protocol::IsNull::No),
        }
    };
    let values = parameters.iter().zip(types);
    let bound = if all_binary {
        // One code stands for all values: what is saved on the wire is saved on every query.
        let formats = (!parameters.is_empty()).then_some(BINARY);
        frontend::bind("", name, formats, values, serialize, [BINARY], out)
    } else {
        let formats = parameters.iter().zip(types).map(|(value, ty)| match value.encode_format(ty) {
            Format::Binary => BINARY,
            Format::Text => TEXT,
        });
        frontend::bind("", name, formats, values, serialize, [BINARY], out)
    };
    bound.map_err(|error| match error {
        BindError::Conversion(error) => Error::parameter(number, error),
        BindError::Serialization(error) => Error::caller(format!("parameter ${number}: {error}")),
    })?;
    if out.len() - begins_at > MESSAGE_BYTES_MAX {
        return Err(too_long(out.len() - begins_at));
    }
    Ok(())
}

/// What is the same each time a statement runs: its name, the types of its parameters, and the bytes around their values
/// in Bind, Execute and Sync.
#[derive(Debug)]
pub(crate) struct Template {
    name: String,
    types: Vec<Type>,
    /// Bind, from its type byte to the number of parameters, without its length.
    head: Box<[u8]>,
}

/// Sync.
const SYNC: &[u8] = b"S\0\0\0\x04";

/// One result format, binary; Execute of the unnamed portal without a limit of rows; Sync.
const TAIL: &[u8] = b"\0\x01\0\x01E\0\0\0\x09\0\0\0\0\0S\0\0\0\x04";

/// The part of [`TAIL`] that belongs to Bind.
const TAIL_BIND_BYTES: usize = 4;

impl Template {
    pub(crate) fn new(name: String, types: Vec<Type>) -> Template {
        // The unnamed portal, the statement, one format for all parameters (or for none), and how many they are.
        let head = [b"B\0\0\0\0\0", name.as_bytes(), b"\0"].concat();
        let formats: &[u8] = if types.is_empty() { b"\0\0" } else { b"\0\x01\0\x01" };
        let count = u16::try_from(types.len()).unwrap_or(u16::MAX).to_be_bytes();
        let head = [head.as_slice(), formats, &count].concat().into();
        Template { name, types, head }
    }

    /// The types of the parameters.
    pub(crate) fn types(&self) -> &[Type] {
        &self.types
    }
}

/// Runs a statement once, with a Sync of its own: what every query does, so it writes from a template.
pub(crate) fn execute_and_sync(
    template: &Template,
    parameters: &[&(dyn ToSql + Sync)],
    out: &mut BytesMut,
) -> Result<(), Error> {
    let types = &template.types;
    let text = |(value, ty): (&&(dyn ToSql + Sync), &Type)| matches!(value.encode_format(ty), Format::Text);
    if parameters.len() != types.len() || parameters.len() > PARAMETERS_MAX || parameters.iter().zip(types).any(text) {
        execute(&template.name, types, parameters, out)?;
        sync(out);
        return Ok(());
    }
    let begins_at = out.len();
    out.extend_from_slice(&template.head);
    for (index, (value, ty)) in parameters.iter().zip(types).enumerate() {
        let at = out.len();
        out.extend_from_slice(&[0; 4]);
        let null = value.to_sql_checked(ty, out).map_err(|error| Error::parameter(index + 1, error))?;
        let length = match null {
            postgres_types::IsNull::Yes => -1,
            postgres_types::IsNull::No => length_of(out.len() - at - 4)?,
        };
        patch(out, at, length);
    }
    let length = length_of(out.len() - begins_at - 1 + TAIL_BIND_BYTES)?;
    patch(out, begins_at + 1, length);
    out.extend_from_slice(TAIL);
    Ok(())
}

fn patch(out: &mut BytesMut, at: usize, length: i32) {
    if let Some(place) = out.get_mut(at..at + 4) {
        place.copy_from_slice(&length.to_be_bytes());
    }
}

fn length_of(bytes: usize) -> Result<i32, Error> {
    if bytes > MESSAGE_BYTES_MAX {
        return Err(too_long(bytes));
    }
    Ok(bytes as i32)
}

fn too_long(bytes: usize) -> Error {
    Error::caller(format!("parameters of {bytes} bytes are longer than any message can be"))
}

/// Runs a statement once and has its columns told: for a reply that several statements share.
pub(crate) fn execute_described(
    template: &Template,
    parameters: &[&(dyn ToSql + Sync)],
    out: &mut BytesMut,
) -> Result<(), Error> {
    bind(&template.name, &template.types, parameters, out)?;
    frontend::describe(b'P', "", out)
        .and_then(|()| frontend::execute("", 0, out))
        .map_err(|error| Error::caller(error.to_string()))
}

/// Ends a unit of work: the server answers with `ReadyForQuery`.
pub(crate) fn sync(out: &mut BytesMut) {
    frontend::sync(out);
}

fn too_many_parameters(count: usize) -> Error {
    Error::caller(format!("{count} parameters; a statement has at most {PARAMETERS_MAX}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of the cached one-row lookup: 27 + 10 + 5. More would be a loss on every query.
    #[test]
    fn a_lookup_is_42_bytes() {
        let mut out = BytesMut::new();
        execute("s1", &[Type::INT4], &[&7_i32], &mut out).unwrap();
        sync(&mut out);
        assert_eq!(out.len(), 42);
    }

    #[test]
    fn callers_faults_are_told_before_anything_is_sent() {
        let mut out = BytesMut::new();
        let count = execute("s1", &[Type::INT4], &[], &mut out).unwrap_err();
        assert!(count.is_caller() && count.to_string().contains("1 parameters, and 0"), "{count}");
        let wrong = execute("s1", &[Type::INT4, Type::INT4], &[&1_i32, &"two"], &mut out).unwrap_err();
        assert!(wrong.is_caller() && wrong.to_string().contains("$2"), "{wrong}");
        let nul = preparation(None, "select '\0'", &[]).unwrap_err();
        assert!(nul.is_caller() && nul.to_string().contains("NUL"), "{nul}");
        let many: Vec<&(dyn ToSql + Sync)> = vec![&1_i32; PARAMETERS_MAX + 1];
        let too_many = execute("s1", &vec![Type::INT4; PARAMETERS_MAX + 1], &many, &mut out).unwrap_err();
        assert!(too_many.is_caller() && too_many.to_string().contains("65536"), "{too_many}");
        execute("s1", &vec![Type::INT4; PARAMETERS_MAX], &many[1..], &mut out).unwrap();
    }

    #[test]
    fn the_template_writes_what_the_library_would() {
        let parameters: Vec<(Type, Box<dyn ToSql + Sync>)> = vec![
            (Type::INT4, Box::new(7_i32)),
            (Type::TEXT, Box::new("seven")),
            (Type::INT8, Box::new(None::<i64>)),
            (Type::BYTEA, Box::new(vec![0_u8; 1000])),
        ];
        for count in 0..=parameters.len() {
            let types: Vec<Type> = parameters.iter().take(count).map(|(ty, _)| ty.clone()).collect();
            let values: Vec<&(dyn ToSql + Sync)> = parameters.iter().take(count).map(|(_, value)| &**value).collect();
            let template = Template::new("s12".to_owned(), types);
            let (mut ours, mut theirs) = (BytesMut::new(), BytesMut::new());
            execute_and_sync(&template, &values, &mut ours).unwrap();
            execute("s12", template.types(), &values, &mut theirs).unwrap();
            sync(&mut theirs);
            assert_eq!(ours, theirs, "{count} parameters");
        }
    }

    #[test]
    fn a_close_is_what_the_library_would_write() {
        let mut ours = Vec::new();
        append_close(StatementId(12), &mut ours);
        let mut theirs = BytesMut::new();
        frontend::close(b'S', "s12", &mut theirs).unwrap();
        assert_eq!(ours, theirs);
    }
}
