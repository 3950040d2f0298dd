//! Dialogues with a scripted server, each fed whole, byte by byte and split at each position.

mod scram;

use proptest::prelude::*;

use super::*;

/// How a server's bytes arrive.
#[derive(Debug, Clone, Copy)]
enum Arrival {
    Whole,
    ByteByByte,
    /// Each flight in two pieces, the first of this many bytes.
    SplitAt(usize),
}

impl Arrival {
    fn pieces(self, flight: &[u8]) -> Vec<&[u8]> {
        match self {
            Arrival::Whole => vec![flight],
            Arrival::ByteByByte => flight.chunks(1).collect(),
            Arrival::SplitAt(at) => {
                let (first, second) = flight.split_at(at.min(flight.len()));
                vec![first, second]
            }
        }
    }
}

/// How a log-in ended, in words that can be compared.
#[derive(Debug, PartialEq, Eq)]
struct Ending {
    words: String,
    /// What the client sent after the StartupMessage.
    sent: Vec<u8>,
}

/// Runs a log-in against `server`, which is shown what the client has sent since it was last asked, and gives its
/// next flight; an empty one ends the dialogue.
/// A log-in that begins with the StartupMessage.
fn start(settings: &Settings, output: &mut Vec<u8>) -> Result<Login, LoginError> {
    let (login, progress) = Login::start(settings, &settings.hosts()[0], 0, Purpose::LogIn, output)?;
    assert!(matches!(progress, Progress::NeedsInput));
    Ok(login)
}

fn run(settings: &Settings, arrival: Arrival, mut server: impl FnMut(&[u8]) -> Vec<u8>) -> Ending {
    let mut output = Vec::new();
    let mut input = BytesMut::new();
    let mut login = match start(settings, &mut output) {
        Ok(login) => login,
        Err(error) => return Ending { words: format!("error: {error}"), sent: Vec::new() },
    };
    let startup_bytes = output.len();
    let mut shown_bytes = 0;
    let words = 'dialogue: loop {
        let flight = server(&output[shown_bytes..]);
        shown_bytes = output.len();
        if flight.is_empty() {
            break "waits".to_owned();
        }
        for piece in arrival.pieces(&flight) {
            input.extend_from_slice(piece);
            match login.advance(&mut input, &mut output) {
                Ok(Progress::NeedsInput) => {}
                Ok(Progress::StartTls(_)) => break 'dialogue "TLS".to_owned(),
                Ok(Progress::Ready(session)) => {
                    break 'dialogue format!("ready: {session:?} key {:?}", session.secret_key);
                }
                Err(error) => {
                    let again = login.advance(&mut BytesMut::from(&b"R\0\0\0\x08\0\0\0\0"[..]), &mut output);
                    assert!(again.is_err(), "a log-in that has failed goes on");
                    break 'dialogue format!("error: {error}");
                }
            }
        }
    };
    Ending { words, sent: output.split_off(startup_bytes) }
}

/// Runs a fixed script, of which each flight is sent when the client has sent something or at the start, in every
/// way it can arrive, and gives the one ending they all must have.
fn play(settings: &Settings, flights: &[Vec<u8>]) -> Ending {
    let longest = flights.iter().map(Vec::len).max().unwrap_or(0);
    let splits = (1..longest).map(Arrival::SplitAt);
    let endings = [Arrival::Whole, Arrival::ByteByByte].into_iter().chain(splits).map(|arrival| {
        let mut remaining = flights.iter();
        let ending = run(settings, arrival, |_| remaining.next().cloned().unwrap_or_default());
        (arrival, without_nonce(ending))
    });
    let mut first: Option<Ending> = None;
    for (arrival, ending) in endings {
        match &first {
            None => first = Some(ending),
            Some(whole) => assert_eq!(ending, *whole, "{arrival:?}"),
        }
    }
    first.unwrap()
}

/// The nonce of SCRAM, which ends the client's first message, is another one each time.
fn without_nonce(mut ending: Ending) -> Ending {
    const HEADER: &[u8] = b"n,,n=,r=";
    let header = ending.sent.windows(HEADER.len()).position(|window| window == HEADER);
    if let Some(at) = header {
        ending.sent.truncate(at + HEADER.len());
    }
    ending
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    write_message(kind, &[body], &mut message);
    message
}

fn auth(kind: u32, data: &[u8]) -> Vec<u8> {
    message(b'R', &[&kind.to_be_bytes(), data].concat())
}

fn ok() -> Vec<u8> {
    auth(0, b"")
}

/// What follows authentication, with a key of four bytes.
fn started() -> Vec<u8> {
    [
        message(b'S', b"server_version\x0018.6\0"),
        message(b'S', b"client_encoding\0UTF8\0"),
        message(b'K', &[0, 0, 0, 42, 1, 2, 3, 4]),
        message(b'Z', b"I"),
    ]
    .concat()
}

const STARTED: &str = "ready: Session { process_id: 42, parameters: [(\"server_version\", \"18.6\"), \
                       (\"client_encoding\", \"UTF8\")], notices: [], .. } key [1, 2, 3, 4]";

fn settings(text: &str) -> Settings {
    Settings::from_url(&format!("user=app sslmode=disable {text}")).unwrap()
}

fn fatal(code: &str) -> Vec<u8> {
    message(b'E', format!("SFATAL\0VFATAL\0C{code}\0Mno\0Ddetail\0Hhint\0Rroutine\0\0").as_bytes())
}

#[test]
fn the_startup_message() {
    let mut output = b"before".to_vec();
    start(&settings("dbname=shop application_name=a options='-c b=c'"), &mut output).unwrap();
    let body = b"\0\x03\0\0user\0app\0database\0shop\0client_encoding\0UTF8\0DateStyle\0ISO\0\
                 application_name\0a\0options\0-c b=c\0\0";
    let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
    assert_eq!(output, [b"before", &length[..], body].concat());
}

#[test]
fn a_startup_message_too_long_for_the_server_is_not_sent() {
    let long = settings("").to_builder().options("x".repeat(10_000)).build().unwrap();
    let mut output = Vec::new();
    let error = start(&long, &mut output).err().unwrap();
    assert!(error.is_fatal() && error.to_string().contains("10000"), "{error}");
    assert!(output.is_empty());
}

/// What becomes of the answer to the question for TLS, and what is sent then.
fn answer(mode: &str, attempt: u32, answer: &[u8]) -> (String, Vec<u8>) {
    let settings = Settings::from_url(&format!("user=app sslrootcert=/ca.pem sslmode={mode}")).unwrap();
    let mut output = Vec::new();
    let (mut login, progress) =
        Login::start(&settings, &settings.hosts()[0], attempt, Purpose::LogIn, &mut output).unwrap();
    assert!(matches!(progress, Progress::NeedsInput));
    assert_eq!(output, [0, 0, 0, 8, 4, 210, 22, 47]);
    output.clear();
    let words = match login.advance(&mut BytesMut::from(answer), &mut output) {
        Ok(Progress::NeedsInput) => "goes on".to_owned(),
        Ok(Progress::StartTls(request)) => format!("TLS {:?}", request.settings.verification),
        Ok(Progress::Ready(_)) => "ready".to_owned(),
        Err(error) => error.to_string(),
    };
    (words, output)
}

#[test]
fn the_answer_to_the_question_for_tls() {
    let table: [(&str, u32, &[u8], &str, bool); 16] = [
        ("prefer", 0, b"", "goes on", false),
        ("prefer", 0, b"S", "TLS None", false),
        ("allow", 1, b"S", "TLS None", false),
        ("require", 0, b"S", "TLS Chain", false),
        ("verify-ca", 0, b"S", "TLS Chain", false),
        ("verify-full", 0, b"S", "TLS ChainAndName", false),
        ("prefer", 0, b"N", "goes on", true),
        ("allow", 1, b"N", "does not let us in without TLS", false),
        ("require", 0, b"N", "sslmode=require demands", false),
        ("verify-ca", 0, b"N", "sslmode=verify-ca demands", false),
        ("verify-full", 0, b"N", "sslmode=verify-full demands", false),
        ("prefer", 0, b"NR", "bytes behind the answer", false),
        ("prefer", 0, b"E\0\0\0\x0aSlie\0\0", "is not shown", false),
        ("require", 0, b"E", "is not shown", false),
        ("prefer", 0, b"R", "neither yes nor no", false),
        ("prefer", 0, b"\0", "neither yes nor no", false),
    ];
    for (mode, attempt, bytes, expected, sends_startup) in table {
        let (words, sent) = answer(mode, attempt, bytes);
        assert!(words.contains(expected), "{mode} {bytes:?}: {words}");
        assert_eq!(sent.starts_with(b"\0\0\0"), sends_startup, "{mode} {bytes:?}: {sent:?}");
        assert!(sends_startup || sent.is_empty(), "{mode} {bytes:?}: {sent:?}");
    }
}

#[test]
fn tls_is_started_once_and_where_it_is_due() {
    let peer = |protocol: Option<&[u8]>| TlsPeer {
        certificate: Vec::new(),
        application_protocol: protocol.map(<[u8]>::to_vec),
    };
    let mut output = Vec::new();
    let mut plain = start(&settings(""), &mut output).unwrap();
    assert!(plain.tls_started(&peer(None), &mut output).is_err(), "nobody asked");
    for (protocol, accepted) in [(Some(&b"postgresql"[..]), true), (None, false), (Some(b"http/1.1"), false)] {
        let direct = Settings::from_url("user=app sslmode=require sslnegotiation=direct").unwrap();
        let mut output = Vec::new();
        let (mut login, progress) = Login::start(&direct, &direct.hosts()[0], 0, Purpose::LogIn, &mut output).unwrap();
        assert!(matches!(progress, Progress::StartTls(_)) && output.is_empty(), "nothing goes before it");
        assert_eq!(login.tls_started(&peer(protocol), &mut output).is_ok(), accepted, "{protocol:?}");
        assert_eq!(output.is_empty(), !accepted, "{protocol:?}");
        assert!(login.tls_started(&peer(protocol), &mut output).is_err(), "a second time");
    }
}

#[test]
fn trust() {
    let ending = play(&settings("password=unused"), &[[ok(), started()].concat()]);
    assert_eq!(ending, Ending { words: STARTED.to_owned(), sent: Vec::new() });
}

#[test]
fn cleartext() {
    let ending = play(&settings("password=secret"), &[auth(3, b""), [ok(), started()].concat()]);
    assert_eq!(ending, Ending { words: STARTED.to_owned(), sent: message(b'p', b"secret\0") });
}

#[test]
fn md5() {
    let user = Settings::from_url("user=md5_user password=password sslmode=disable").unwrap();
    let ending = play(&user, &[auth(5, &[0x2a, 0x3d, 0x8f, 0xe0]), [ok(), started()].concat()]);
    let answer = message(b'p', b"md562af4dd09bbb41884907a838a3233294\0");
    assert_eq!(ending, Ending { words: STARTED.to_owned(), sent: answer });
}

#[test]
fn what_a_session_knows() {
    let long_key = [&[0, 0, 0, 7][..], &[9; 256]].concat();
    let flight = [
        message(b'N', b"SNOTICE\0C00000\0Mbefore\0\0"),
        message(b'v', &[0, 3, 0, 0, 0, 0, 0, 0]),
        ok(),
        message(b'S', b"TimeZone\0UTC\0"),
        message(b'N', b"SWARNING\0C01000\0Mcollation\0\0"),
        message(b'S', b"TimeZone\0Europe/Paris\0"),
        message(b'S', b"search_path\0\"$user\", public\0"),
        message(b'S', b"odd\0\xff\0"),
        message(b'K', &long_key),
        message(b'Z', b"I"),
    ]
    .concat();
    let mut output = Vec::new();
    let mut login = start(&settings(""), &mut output).unwrap();
    let progress = login.advance(&mut BytesMut::from(&flight[..]), &mut output);
    let Ok(Progress::Ready(session)) = progress else { panic!("not ready") };
    assert_eq!(session.parameter("TimeZone"), Some("Europe/Paris"));
    assert_eq!(session.parameter("odd"), Some("\u{fffd}"));
    assert_eq!(session.parameter("none"), None);
    assert_eq!(session.parameters.len(), 3);
    assert_eq!((session.process_id, session.secret_key.as_slice()), (7, &[9; 256][..]));
    let notices: Vec<&str> = session.notices.iter().map(|notice| notice.message()).collect();
    assert_eq!(notices, ["before", "collation"]);
    assert!(!format!("{session:?}").contains("9, 9"), "the key is shown");
}

#[test]
fn a_server_without_a_key_is_taken() {
    let ending = play(&settings(""), &[[ok(), message(b'Z', b"I")].concat()]);
    assert_eq!(ending.words, "ready: Session { process_id: 0, parameters: [], notices: [], .. } key []");
}

#[test]
fn the_servers_refusal_is_passed_on_from_every_state() {
    let prologues: [&[Vec<u8>]; 4] = [&[], &[auth(3, b"")], &[auth(5, b"salt")], &[auth(10, b"SCRAM-SHA-256\0\0")]];
    for prologue in prologues {
        let script = [prologue, &[fatal("28P01")]].concat();
        let mut flights = script.iter();
        let ending = run(&settings("password=x"), Arrival::Whole, |_| flights.next().cloned().unwrap_or_default());
        assert_eq!(ending.words, "error: FATAL: no (SQLSTATE 28P01)\nDETAIL: detail\nHINT: hint");
    }
    let late = play(&settings(""), &[[ok(), message(b'S', b"a\0b\0"), fatal("3D000")].concat()]);
    assert_eq!(late.words, "error: FATAL: no (SQLSTATE 3D000)\nDETAIL: detail\nHINT: hint");
}

#[test]
fn a_refusal_keeps_every_field() {
    let mut output = Vec::new();
    let mut login = start(&settings(""), &mut output).unwrap();
    let error = login.advance(&mut BytesMut::from(&fatal("53300")[..]), &mut output).err().unwrap();
    let LoginError::Server(server) = &error else { panic!("{error}") };
    assert_eq!(server.code().code(), "53300");
    assert_eq!(server.routine(), Some("routine"));
    assert!(!error.is_fatal());
}

#[test]
fn an_error_in_words_only_is_read() {
    let words = b"Ecould not fork new process for connection: Cannot allocate memory\n\0";
    let ending = play(&settings(""), &[words.to_vec()]);
    assert_eq!(
        ending.words,
        "error: FATAL: could not fork new process for connection: Cannot allocate memory (SQLSTATE ?????)"
    );
}

#[test]
fn what_the_settings_do_not_fit() {
    let none = settings("");
    let table = [
        (&none, auth(3, b""), "the settings have none"),
        (&none, auth(5, b"salt"), "the settings have none"),
        (&none, auth(10, b"SCRAM-SHA-256\0\0"), "the settings have none"),
        (&settings("password=''"), auth(3, b""), "the settings have none"),
        (&none, auth(2, b""), "Kerberos V5"),
        (&none, auth(7, b""), "GSSAPI"),
        (&none, auth(9, b""), "SSPI"),
        (&none, auth(10, b"SCRAM-SHA-1\0OAUTHBEARER\0\0"), "(SCRAM-SHA-1, OAUTHBEARER)"),
        (&settings("password=x require_auth=scram-sha-256"), ok(), "`none`"),
        (&settings("password=x require_auth=scram-sha-256"), auth(3, b""), "`password`"),
        (&settings("password=x require_auth=scram-sha-256"), auth(5, b"salt"), "`md5`"),
        (&settings("password=x require_auth=!scram-sha-256"), auth(10, b"SCRAM-SHA-256\0\0"), "`scram-sha-256`"),
    ];
    for (settings, request, words) in table {
        let ending = play(settings, std::slice::from_ref(&request));
        assert!(ending.words.starts_with("error: ") && ending.words.contains(words), "{}", ending.words);
        assert!(!ending.words.contains("protocol broken"), "{}", ending.words);
        assert_eq!(ending.sent, b"", "an answer to {words}");
    }
}

#[test]
fn what_breaks_the_protocol() {
    let scram = auth(10, b"SCRAM-SHA-256\0\0");
    let many = |count: usize, message: &[u8]| message.repeat(count);
    let parameter = |bytes: usize| message(b'S', format!("{}\0x\0", "n".repeat(bytes)).as_bytes());
    let parameters: Vec<u8> = (0..200).flat_map(|n| message(b'S', format!("n{n}\0x\0").as_bytes())).collect();
    let table: Vec<(Vec<Vec<u8>>, &str)> = vec![
        // other protocols
        (vec![b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()], "is this a Postgres server?"),
        (vec![b"\x4a\0\0\0\x0a9.7.4\0".to_vec()], "is this a Postgres server?"),
        (vec![b"SSH-2.0-OpenSSH\r\n".to_vec()], "is this a Postgres server?"),
        (vec![vec![0; 16]], "is this a Postgres server?"),
        (vec![[&b"Enough"[..], &[b'x'; 1_100]].concat()], "is this a Postgres server?"),
        // lengths
        (vec![b"R\0\0\0\x03".to_vec()], "message length"),
        (vec![b"R\0\x01\0\x05".to_vec()], "message length"),
        (vec![b"R\xff\xff\xff\xff".to_vec()], "message length"),
        (vec![ok(), b"E\x7f\xff\xff\xff".to_vec()], "message length"),
        // out of turn
        (vec![message(b'Z', b"I")], "type 'Z' where authentication is due"),
        (vec![message(b'K', &[0; 8])], "type 'K' where authentication is due"),
        (vec![message(b'S', b"a\0b\0")], "type 'S' where authentication is due"),
        (vec![message(b'D', b"")], "type 'D' where authentication is due"),
        (vec![message(0xff, b"")], r"type '\xff' where authentication is due"),
        (vec![[ok(), message(b'v', &[0, 3, 0, 0, 0, 0, 0, 0])].concat()], "type 'v' that is not due"),
        (vec![[ok(), ok()].concat()], "not due"),
        (vec![[ok(), auth(3, b"")].concat()], "not due"),
        (vec![auth(3, b""), auth(3, b"")], "not due"),
        (vec![auth(3, b""), message(b'Z', b"I")], "type 'Z' that is not due"),
        (vec![auth(5, b"salt"), auth(11, b"")], "not due"),
        (vec![auth(11, b"r=a,s=b,i=4096")], "not due"),
        (vec![auth(12, b"v=a")], "not due"),
        (vec![auth(8, b"")], "GSSAPI"),
        (vec![scram.clone(), scram.clone()], "not due"),
        (vec![scram.clone(), auth(12, b"v=a")], "not due"),
        (vec![scram.clone(), ok()], "without its proof"),
        // bodies
        (vec![message(b'R', b"\0\0\0")], "authentication request"),
        (vec![auth(99, b"")], "authentication request"),
        (vec![auth(5, b"sal")], "authentication request"),
        (vec![[ok(), message(b'S', b"a")].concat()], "ParameterStatus"),
        (vec![[ok(), message(b'S', b"a\0b")].concat()], "ParameterStatus"),
        (vec![[ok(), message(b'S', b"a\0b\0c\0")].concat()], "ParameterStatus"),
        (vec![[ok(), message(b'K', &[0; 7])].concat()], "BackendKeyData"),
        (vec![[ok(), message(b'K', &[0; 261])].concat()], "BackendKeyData"),
        (vec![[ok(), message(b'K', &[0; 2])].concat()], "BackendKeyData"),
        (vec![[ok(), message(b'Z', b"T")].concat()], "begin idle"),
        (vec![[ok(), message(b'Z', b"")].concat()], "begin idle"),
        (vec![message(b'v', b"")], "negotiates"),
        (vec![message(b'v', &[0, 2, 0, 0, 0, 0, 0, 0])], "negotiates"),
        (vec![message(b'v', b"\0\x03\0\0\0\0\0\x01_pq_.x\0")], "negotiates"),
        // SCRAM
        (vec![scram.clone(), auth(11, b"")], "cannot be read"),
        (vec![scram.clone(), auth(11, b"r=a,s=b,i=1")], "too few"),
        (vec![scram.clone(), auth(11, b"r=a,s=b,i=2147483648")], "more SCRAM iterations"),
        (vec![scram.clone(), auth(11, b"r=notmine,s=QSXCR+Q6sek8bf92,i=4096")], "invalid nonce"),
        (vec![scram.clone(), auth(11, b"r=\xff,s=b,i=4096")], "SCRAM failed"),
        // values that would be misread
        (vec![[ok(), message(b'S', b"client_encoding\0LATIN1\0"), message(b'Z', b"I")].concat()], "UTF-8"),
        (vec![[ok(), message(b'S', b"integer_datetimes\0off\0"), message(b'Z', b"I")].concat()], "timestamps"),
        // without an end
        (vec![[ok(), parameters].concat()], "more parameters"),
        (vec![[ok(), parameter(40_000), parameter(40_001)].concat()], "more parameters"),
        (vec![many(1_001, &message(b'N', b"SNOTICE\0\0"))], "does not come to an end"),
    ];
    for (flights, words) in table {
        // Long ones say nothing about splitting that short ones do not.
        let short = flights.iter().all(|flight| flight.len() < 300);
        let user = settings("password=x");
        let ending = match short {
            true => play(&user, &flights),
            false => {
                let mut remaining = flights.iter();
                run(&user, Arrival::Whole, |_| remaining.next().cloned().unwrap_or_default())
            }
        };
        assert!(ending.words.starts_with("error: ") && ending.words.contains(words), "{words}: {}", ending.words);
    }
}

#[test]
fn bytes_after_the_log_in_are_refused() {
    let mut output = Vec::new();
    let mut login = start(&settings(""), &mut output).unwrap();
    let flight = [ok(), started(), vec![b'N']].concat();
    let error = login.advance(&mut BytesMut::from(&flight[..]), &mut output).err().unwrap();
    assert!(matches!(error, LoginError::Peer(_)), "{error}");
}

#[test]
fn notices_are_kept_up_to_a_limit() {
    let notice = message(b'N', b"SNOTICE\0Mn\0\0");
    let mut output = Vec::new();
    let mut login = start(&settings(""), &mut output).unwrap();
    let flight = [ok(), notice.repeat(500), message(b'Z', b"I")].concat();
    let progress = login.advance(&mut BytesMut::from(&flight[..]), &mut output);
    let Ok(Progress::Ready(session)) = progress else { panic!("not ready") };
    assert_eq!(session.notices.len(), 8);
}

proptest! {
    /// From every state that can be reached without hashing: no panic, and no more kept than one message.
    #[test]
    fn any_bytes_are_answered(
        prologue in 0..5_usize,
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        messages in prop::collection::vec(
            (prop::sample::select(b"RSKZNEvTDC".to_vec()), prop::collection::vec(any::<u8>(), 0..20)),
            0..20,
        ),
        kinds in prop::collection::vec(0..14_u32, 0..4),
        piece_bytes in 1..40_usize,
    ) {
        let prologue = match prologue {
            0 => Vec::new(),
            1 => ok(),
            2 => auth(3, b""),
            3 => auth(5, b"salt"),
            _ => auth(10, b"SCRAM-SHA-256\0\0"),
        };
        let requests = kinds.iter().flat_map(|kind| auth(*kind, b"")).collect::<Vec<u8>>();
        let messages: Vec<u8> = messages.iter().flat_map(|(kind, body)| message(*kind, body)).collect();
        for stream in [[&prologue[..], &bytes].concat(), [&prologue[..], &messages, &requests, &bytes].concat()] {
            let mut output = Vec::new();
            let mut input = BytesMut::new();
            let mut login = start(&settings("password=x"), &mut output).unwrap();
            for piece in stream.chunks(piece_bytes) {
                input.extend_from_slice(piece);
                if !matches!(login.advance(&mut input, &mut output), Ok(Progress::NeedsInput)) {
                    break;
                }
                prop_assert!(input.len() <= MESSAGE_BYTES_MAX + 5);
            }
            prop_assert!(output.len() < 1_000, "the client sent {} bytes", output.len());
        }
    }
}
