//! The two commands at the end, with and without waiting; and servers that do not bear the second.

use super::*;

fn with(pipeline: &str, probe: bool) -> Scene {
    Scene { probe, ..scene(&format!("mysql://app@db?ssl_mode=disabled&connect_timeout=8s&pipeline={pipeline}")) }
}

/// A log-in that was let in; says what it waits for.
fn let_in(scene: &Scene) -> (Login, Progress) {
    let mut login = scene.login();
    let mut output = Vec::new();
    login.advance(&mut BytesMut::from(&greeting(NATIVE)[..]), &mut output).unwrap_or_else(|error| panic!("{error}"));
    let progress = login.advance(&mut BytesMut::from(&ok(2)[..]), &mut output);
    (login, progress.unwrap_or_else(|error| panic!("{error}")))
}

#[test]
fn commands_wait_for_each_other_where_they_must() {
    for (pipeline, probe, together) in
        [("auto", true, true), ("auto", false, false), ("on", false, true), ("on", true, true), ("off", true, false)]
    {
        let flights = match together {
            true => vec![greeting(NATIVE), ok(2), settled()],
            false => vec![greeting(NATIVE), ok(2), ok(1), told()],
        };
        let ending = with(pipeline, probe).play(&flights);
        assert_eq!(ending.sent_later(), [(0, SET), (0, ASK)], "{pipeline}, {probe}");
        let expected = format!("pipelines: {together} }}");
        assert!(ending.words.ends_with(&expected), "{pipeline}, {probe}: {}", ending.words);
        let (_, sent) = (0, with(pipeline, probe).play(&flights[..2]).sent);
        assert_eq!(sent.len(), if together { 3 } else { 2 }, "{pipeline}, {probe}: sent at once");
    }
}

#[test]
fn the_second_answer_is_waited_for_only_so_long() {
    let (mut login, progress) = let_in(&with("auto", true));
    assert!(matches!(progress, Progress::NeedsInputWithin(limit) if limit == Duration::from_secs(4)));
    let progress = login.advance(&mut BytesMut::from(&ok(1)[..]), &mut Vec::new());
    assert!(matches!(progress, Ok(Progress::NeedsInputWithin(PROBE_WAIT))));
    assert_eq!(login.unanswered(), Some(LoginError::DoesNotPipeline));
    assert!(login.advance(&mut BytesMut::from(&told()[..]), &mut Vec::new()).is_err(), "goes on after its end");
}

#[test]
fn silence_means_something_only_while_probing() {
    for (pipeline, probe, meant) in [
        ("auto", true, Some(LoginError::DoesNotPipeline)),
        ("auto", false, None),
        ("on", true, None),
        ("off", true, None),
    ] {
        let (mut login, progress) = let_in(&with(pipeline, probe));
        let limited = matches!(progress, Progress::NeedsInputWithin(_));
        assert_eq!(limited, meant.is_some(), "{pipeline}, {probe}");
        assert_eq!(login.unanswered(), meant, "{pipeline}, {probe}");
    }
    // Nor before.
    let mut login = with("auto", true).login();
    assert_eq!(login.unanswered(), None);
    login
        .advance(&mut BytesMut::from(&greeting(NATIVE)[..]), &mut Vec::new())
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(login.unanswered(), None);
}

#[test]
fn odd_answers_to_the_second_command_mean_the_same() {
    let does_not = "the server, or what stands before it, does not pipeline commands";
    let broken = "protocol broken";
    let refused = "ERROR 1053";
    let table = [
        (ok(2), broken),
        (ok(1), broken),
        (message(1, b"\xfb"), broken),
        (error(0, 1053, "#08S01Server shutdown"), refused),
    ];
    for (second, otherwise) in table {
        let flights = [greeting(NATIVE), ok(2), [ok(1), second].concat()];
        assert_eq!(with("auto", true).error(&flights), does_not);
        let words = with("on", true).error(&flights);
        assert!(words.starts_with(otherwise), "{words}");
    }
    // What is said of the command itself is about the command.
    let flights = [greeting(NATIVE), ok(2), [ok(1), error(1, 1193, "#HY000Unknown variable")].concat()];
    assert_eq!(with("auto", true).error(&flights), "ERROR 1193 (HY000): Unknown variable");
}
