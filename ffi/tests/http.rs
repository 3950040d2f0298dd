//! The HTTP core by way of the C ABI: requests come to the host's thread, and are answered from there.

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "each is a call of the ABI with pointers to what lives here, or a look at what it wrote there"
)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::ptr::{null, null_mut};
use std::thread;

use cenote::delivery::{
    CENOTE_COMPLETION_ENDED, CENOTE_COMPLETION_INLINE, CENOTE_COMPLETION_REQUEST, CenoteCompletion,
    cenote_context_free, cenote_context_new, cenote_wait,
};
use cenote::http::{
    CENOTE_HTTP_HEADERS, CenoteHttpOptions, CenoteHttpRequest, cenote_http_answer, cenote_http_free,
    cenote_http_listen, cenote_http_port, cenote_http_stop,
};

const TAG: u64 = 7;

#[test]
fn a_request_is_answered_by_the_host() {
    let (mut context, mut server, mut port) = (0, 0, 0);
    assert_eq!(unsafe { cenote_context_new(null(), &mut context) }, 0);
    let address = "127.0.0.1:0";
    let options = CenoteHttpOptions {
        size: size_of::<CenoteHttpOptions>() as u32,
        flags: CENOTE_HTTP_HEADERS,
        address: address.as_ptr().cast(),
        address_length: address.len(),
        body_bytes_max: 0,
        connections_max: 0,
        stop_deadline_ms: 0,
        keep_alive_timeout_ms: 0,
    };
    assert_eq!(unsafe { cenote_http_listen(context, &options, TAG, &mut server, null_mut()) }, 0);
    assert_eq!(unsafe { cenote_http_port(server, &mut port) }, 0);
    let client = thread::spawn(move || {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        let request = "POST /a%20b?c=d HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello";
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer
    });
    let mut buffer = vec![0_u64; 8_192];
    let mut next = || {
        let (mut count, mut more) = (0, 0);
        let place = buffer.as_mut_ptr().cast();
        let status = unsafe { cenote_wait(context, 10_000, place, buffer.len() * 8, &mut count, &mut more) };
        assert_eq!((status, count), (0, 1));
        let bytes = unsafe { std::slice::from_raw_parts(buffer.as_ptr().cast::<u8>(), buffer.len() * 8) }.to_vec();
        (unsafe { buffer.as_ptr().cast::<CenoteCompletion>().read() }, bytes)
    };
    let (completion, bytes) = next();
    assert_eq!(completion.tag, TAG);
    assert_eq!(completion.flags, CENOTE_COMPLETION_REQUEST | CENOTE_COMPLETION_INLINE);
    let bytes = &bytes[completion.value as usize..][..completion.length as usize];
    let request = unsafe { bytes.as_ptr().cast::<CenoteHttpRequest>().read_unaligned() };
    let part = |at: u32, length: u32| std::str::from_utf8(&bytes[at as usize..(at + length) as usize]).unwrap();
    assert_eq!(part(request.method_at, request.method_length), "POST");
    assert_eq!(part(request.path_at, request.path_length), "/a%20b");
    assert_eq!(part(request.query_at, request.query_length), "c=d");
    assert!(part(request.headers_at, request.headers_length).contains("host: x\n"));
    assert_eq!(part(request.body_at, request.body_length), "hello");
    let (kind, headers, body) = ("text/plain", "x-one: 1\n", "good day");
    let answered = unsafe {
        cenote_http_answer(
            server,
            request.request,
            201,
            0,
            kind.as_ptr().cast(),
            kind.len(),
            headers.as_ptr().cast(),
            headers.len(),
            body.as_ptr().cast(),
            body.len(),
        )
    };
    assert_eq!(answered, 0);
    assert_eq!(cenote_http_stop(server), 0);
    let (ended, _) = next();
    assert_eq!((ended.tag, ended.flags, ended.status), (TAG, CENOTE_COMPLETION_ENDED, 0));
    let answer = client.join().unwrap();
    assert!(answer.starts_with("HTTP/1.1 201 Created\r\n"), "{answer}");
    assert!(answer.contains("content-type: text/plain\r\n") && answer.contains("x-one: 1\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\ngood day"), "{answer}");
    assert_eq!(cenote_http_free(server), 0);
    assert_eq!(cenote_context_free(context), 0);
}
