//! What a client says, read by the scripted server. What it cannot read is the client's fault and fails the test.

use std::collections::BTreeMap;

use super::packet::{CONNECT_ATTRS, CONNECT_WITH_DB, LENENC_AUTH, PLUGIN_AUTH, SECURE_CONNECTION};

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// `COM_QUERY`.
    Query {
        /// The statement.
        sql: String,
    },
    /// `COM_STMT_PREPARE`.
    Prepare {
        /// The statement.
        sql: String,
    },
    /// `COM_STMT_EXECUTE`.
    Execute {
        /// The statement's number.
        statement: u32,
        /// What follows the number of iterations: the map of NULLs, types if they are told, values.
        parameters: Vec<u8>,
    },
    /// `COM_STMT_CLOSE`, which has no answer.
    Close {
        /// The statement's number.
        statement: u32,
    },
    /// `COM_STMT_SEND_LONG_DATA`, which has no answer.
    LongData {
        /// The statement's number.
        statement: u32,
    },
    /// `COM_STMT_RESET`.
    ResetStatement {
        /// The statement's number.
        statement: u32,
    },
    /// `COM_PING`.
    Ping,
    /// `COM_RESET_CONNECTION`.
    ResetConnection,
    /// `COM_QUIT`, which has no answer.
    Quit,
    /// Any other.
    Other {
        /// Its byte.
        command: u8,
        /// The rest.
        body: Vec<u8>,
    },
}

impl Request {
    pub(super) fn parse(payload: &[u8]) -> Request {
        let (&command, body) = payload.split_first().expect("a command has a byte at least");
        let mut rest = Body(body);
        match command {
            0x01 => Request::Quit,
            0x03 => Request::Query { sql: text(body) },
            0x0E => Request::Ping,
            0x16 => Request::Prepare { sql: text(body) },
            0x17 => {
                let statement = rest.u32();
                assert_eq!(rest.take(5), [0, 1, 0, 0, 0], "no cursor, one iteration");
                Request::Execute { statement, parameters: rest.0.to_vec() }
            }
            0x18 => Request::LongData { statement: rest.u32() },
            0x19 => Request::Close { statement: rest.u32() },
            0x1A => Request::ResetStatement { statement: rest.u32() },
            0x1F => Request::ResetConnection,
            command => Request::Other { command, body: body.to_vec() },
        }
    }
}

/// What a client says to a greeting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogIn {
    /// What it can and wants.
    pub capabilities: u32,
    /// The same of what only MariaDB knows.
    pub mariadb_capabilities: u32,
    /// The collation's number.
    pub collation: u8,
    /// Its user.
    pub user: String,
    /// What proves that it knows the password; empty where there is none.
    pub auth_response: Vec<u8>,
    /// The database it wants to use.
    pub database: Option<String>,
    /// By which plugin it made the proof.
    pub plugin: Option<String>,
    /// What it tells of itself.
    pub attributes: BTreeMap<String, String>,
}

impl LogIn {
    /// Reads `HandshakeResponse41`.
    pub fn parse(payload: &[u8]) -> LogIn {
        let mut body = Body(payload);
        let capabilities = body.u32();
        let has = |capability: u32| capabilities & capability != 0;
        let _packet_bytes_max = body.u32();
        let [collation] = body.array();
        body.take(19);
        let mariadb_capabilities = body.u32();
        let user = body.text();
        let auth_response = if has(LENENC_AUTH) {
            body.lenenc_bytes().to_vec()
        } else if has(SECURE_CONNECTION) {
            let [length] = body.array();
            body.take(length.into()).to_vec()
        } else {
            body.text().into_bytes()
        };
        let database = has(CONNECT_WITH_DB).then(|| body.text());
        let plugin = has(PLUGIN_AUTH).then(|| body.text());
        let mut attributes = BTreeMap::new();
        if has(CONNECT_ATTRS) {
            let mut all = Body(body.lenenc_bytes());
            while !all.0.is_empty() {
                let name = text(all.lenenc_bytes());
                attributes.insert(name, text(all.lenenc_bytes()));
            }
        }
        LogIn { capabilities, mariadb_capabilities, collation, user, auth_response, database, plugin, attributes }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("a text is UTF-8")
}

struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        self.take(N).try_into().expect("as many bytes as were taken")
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    fn text(&mut self) -> String {
        let end = self.0.iter().position(|&byte| byte == 0).expect("a text ends");
        let bytes = self.take(end);
        self.take(1);
        text(bytes)
    }

    fn lenenc_bytes(&mut self) -> &'a [u8] {
        let [first] = self.array();
        let length = match first {
            0xFC => usize::from(u16::from_le_bytes(self.array())),
            0xFD => {
                let [a, b, c] = self.array();
                u32::from_le_bytes([a, b, c, 0]) as usize
            }
            length => {
                assert!(length < 0xFB, "no length of what a log-in holds");
                length.into()
            }
        };
        self.take(length)
    }
}
