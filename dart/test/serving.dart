// The HTTP core from Dart: requests come to their handlers, and each client gets its own answer.

import 'dart:async';
import 'dart:convert';
import 'dart:io';
import 'dart:isolate';
import 'dart:typed_data';

import 'package:cenote/cenote.dart';

import 'harness.dart';

/// An answer as a client sees it.
typedef Answer = ({int status, String body, HttpHeaders headers});

Future<void> _withServer(
  Server server,
  Future<void> Function(Future<Answer> Function(String method, String path, [List<int> body])) body,
) async {
  final client = HttpClient()..maxConnectionsPerHost = 64;
  Future<Answer> ask(String method, String path, [List<int> bytes = const []]) async {
    final request = await client.open(method, '127.0.0.1', server.port, path);
    request.contentLength = bytes.length;
    request.add(bytes);
    final response = await request.close();
    final text = await utf8.decodeStream(response);
    return (status: response.statusCode, body: text, headers: response.headers);
  }

  try {
    await body(ask);
  } finally {
    client.close(force: true);
    await server.close();
  }
}

/// Adds the tests.
void addServing() {
  test('a request finds its route, and what it brings', () async {
    final server = Server.bind('127.0.0.1:0', withHeaders: true)
      ..get('/', (_) => const Response.empty())
      ..get('/item/:id/:part', (request) => Response.text('${request.parameters}'))
      ..get('/query', (request) => Response.json(request.queryParameters))
      ..post('/echo', (request) => Response(201, body: request.body, contentType: 'x/y', headers: {'x-one': 'two'}))
      ..get('/header', (request) => Response.text(request.headers['x-three'] ?? 'none'));
    await _withServer(server, (ask) async {
      final root = await ask('GET', '/');
      expect((root.status, root.body), (200, ''));
      expect((await ask('GET', '/item/a%20b/c')).body, '{id: a b, part: c}');
      expect((await ask('GET', '/query?a=1&b=%C3%A4+x')).body, '{"a":"1","b":"ä x"}');
      expect((await ask('GET', '/query?a=%ff')).status, 400);
      expect((await ask('GET', '/header')).body, 'none');
      final echo = await ask('POST', '/echo', utf8.encode('hällo'));
      expect((echo.status, echo.body), (201, 'hällo'));
      expect((echo.headers.value('content-type'), echo.headers.value('x-one')), ('x/y', 'two'));
      expect((await ask('GET', '/nowhere')).status, 404);
      expect((await ask('GET', '/item/a')).status, 404);
      final wrong = await ask('GET', '/echo');
      expect((wrong.status, wrong.headers.value('allow')), (405, 'POST'));
      final head = await ask('HEAD', '/query?a=1');
      expect((head.status, head.body), (200, ''));
      expect(server.requests, 10);
    });
  });

  test('a handler that fails answers 500, and the server goes on', () async {
    final errors = <String>[];
    final server = Server.bind('127.0.0.1:0', onError: (error, _) => errors.add('$error'))
      ..get('/at-once', (_) => throw StateError('at once'))
      ..get('/later', (_) async => throw StateError('later'))
      ..get('/format', (_) => throw const FormatException('no number'))
      ..get('/header', (_) => const Response(200, headers: {'not a name': 'x'}))
      ..get('/status', (_) => const Response(7))
      ..get('/length', (_) => const Response(200, headers: {'content-length': '7'}))
      ..get('/cast', (_) async => Response(200, headers: <String, Object>{'x': 1}.cast<String, String>()))
      ..get('/bytes', (_) => Response(200, body: <Object>['x'].cast<int>()))
      ..get('/well', (_) => Response.text('well'));
    await _withServer(server, (ask) async {
      final failures = {
        '/at-once': 500,
        '/later': 500,
        '/format': 400,
        '/header': 500,
        '/status': 500,
        '/length': 500,
        '/cast': 500,
        '/bytes': 500,
      };
      for (final MapEntry(key: path, value: status) in failures.entries) {
        expect((await ask('GET', path)).status, status, path);
        expect((await ask('GET', '/well')).body, 'well');
      }
    });
    expect(errors.take(2).toList(), ['Bad state: at once', 'Bad state: later']);
    expect(errors.length, 4, '$errors');
  });

  test('an onError that fails itself stops no turn', () async {
    final uncaught = <Object>[];
    final done = Completer<void>();
    unawaited(
      runZonedGuarded(
        () async {
          final server = Server.bind('127.0.0.1:0', onError: (error, _) => throw StateError('again'))
            ..get('/', (_) => throw StateError('once'))
            ..get('/well', (_) => Response.text('well'));
          await _withServer(server, (ask) async {
            expect((await ask('GET', '/')).status, 500);
            expect((await ask('GET', '/well')).body, 'well');
          });
          done.complete();
        },
        (error, trace) {
          uncaught.add(error);
          if ('$error' != 'Bad state: again' && !done.isCompleted) done.completeError(error, trace);
        },
      ),
    );
    await done.future;
    expect(uncaught.length, 1);
  });

  test('handlers run in the zone that their server was bound in', () async {
    final zone = Zone.current.fork(zoneValues: {#name: 'own'});
    final server = zone.run(() => Server.bind('127.0.0.1:0'))
      ..get('/', (_) async => Response.text('${Zone.current[#name]}'));
    await _withServer(server, (ask) async => expect((await ask('GET', '/')).body, 'own'));
  });

  test('a body past the bound is refused, one within it is read whole', () async {
    final server = Server.bind('127.0.0.1:0', bodyBytesMax: 100000)
      ..post('/length', (request) => Response.text('${request.body.length}'));
    await _withServer(server, (ask) async {
      expect((await ask('POST', '/length', Uint8List(100000))).body, '100000');
      expect((await ask('POST', '/length', Uint8List(100001))).status, 413);
    });
  });

  testAll('each of many clients gets its own row', (database) async {
    await withPool(database.url('pool_size=4'), (pool) async {
      final server = Server.bind('127.0.0.1:0')
        ..get('/echo/:n', (request) async {
          final n = int.parse(request.parameters['n']!);
          final cast = database == Database.postgres ? r'$1::int8' : 'cast(? as signed)';
          return Response.jsonBytes((await pool.queryOne('select $cast as n', parameters: [n])).toJsonBytes());
        });
      await _withServer(server, (ask) async {
        for (var round = 0; round < 4; round++) {
          final answers = await Future.wait([
            for (var number = 0; number < 200; number++) ask('GET', '/echo/${round * 200 + number}'),
          ]);
          for (final (number, answer) in answers.indexed) {
            expect(answer.body, '{"n":${round * 200 + number}}');
          }
        }
      });
    });
  });

  test('a stop answers what is in flight, and then the port is free', () async {
    final held = Completer<Response>();
    final server = Server.bind('127.0.0.1:0')..get('/held', (_) => held.future);
    final port = server.port;
    await _withServer(server, (ask) async {
      final answer = ask('GET', '/held');
      await until(() => server.requests == 1, 'the request came');
      final closed = server.close();
      held.complete(Response.text('late'));
      expect((await answer).body, 'late');
      await closed;
    });
    final again = Server.bind('127.0.0.1:$port');
    await again.close();
  });

  test('an address that is taken, and one that makes no sense', () async {
    final server = Server.bind('127.0.0.1:0');
    final taken = await expectThrows<CenoteException>(() => Server.bind('127.0.0.1:${server.port}'));
    expectThat('$taken'.contains('${server.port}'), '$taken');
    await expectThrows<CenoteException>(() => Server.bind('nonsense'));
    await server.close();
  });

  test('isolates share a port, and one that ends leaves the others serving', () async {
    final ready = ReceivePort();
    final server = Server.bind('127.0.0.1:0', shared: true)..get('/', (_) => Response.text('first'));
    final other = await Isolate.spawn(_serveOther, (server.port, ready.sendPort));
    await ready.first;
    Future<String> askAnew() async {
      final client = HttpClient();
      try {
        final response = await (await client.get('127.0.0.1', server.port, '/')).close();
        return await utf8.decodeStream(response);
      } on IOException {
        return 'cut';
      } finally {
        client.close(force: true);
      }
    }

    final seen = <String>{};
    await until(() async {
      seen.add(await askAnew());
      return seen.containsAll(['first', 'second']);
    }, 'both isolates answer');
    other.kill(priority: Isolate.immediate);
    // Its handle is gone before its socket is closed, and whoever has been given to that socket is cut.
    await until(() => _listeners(server.port) == 1, 'the other is gone');
    expect(Cenote.counts.servers, 1);
    for (var number = 0; number < 50; number++) {
      expect(await askAnew(), 'first');
    }
    await server.close();
  });

  test('a busy isolate answers late, and not wrongly', () async {
    final server = Server.bind('127.0.0.1:0')
      ..get('/busy', (_) {
        sleep(const Duration(milliseconds: 50));
        return Response.text('busy');
      })
      ..get('/free', (_) => Response.text('free'));
    await _withServer(server, (ask) async {
      final answers = await Future.wait([
        for (var number = 0; number < 20; number++) ask('GET', number.isEven ? '/busy' : '/free'),
      ]);
      for (final (number, answer) in answers.indexed) {
        expect(answer.body, number.isEven ? 'busy' : 'free');
      }
    });
    expect(Cenote.counts.servers, 0);
  });
}

Future<void> _serveOther((int, SendPort) start) async {
  final (port, ready) = start;
  final server = Server.bind('127.0.0.1:$port', shared: true)..get('/', (_) => Response.text('second'));
  ready.send(null);
  await server.done;
}

/// How many sockets listen on a port of the loopback.
int _listeners(int port) {
  final hexadecimal = port.toRadixString(16).toUpperCase().padLeft(4, '0');
  // The second column is the local address, the fourth the state, in which 0A is listening.
  final sockets = File('/proc/net/tcp').readAsLinesSync().skip(1).map((line) => line.trim().split(RegExp(' +')));
  return sockets.where((socket) => socket[1].endsWith(':$hexadecimal') && socket[3] == '0A').length;
}
