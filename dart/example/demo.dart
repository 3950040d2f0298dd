// The demo server, as the Rust one is (demo/): one isolate per core, all on one port, and one pool for all of them.
//
//   PORT=8080 POSTGRES_URL=postgres://.. MYSQL_URL=mysql://.. dart run example/demo.dart

import 'dart:async';
import 'dart:io';
import 'dart:isolate';
import 'dart:math';
import 'dart:typed_data' show BytesBuilder;

import 'package:cenote/cenote.dart';

/// Ids run from 1 to this.
const rows = 10000;

/// Rows that one request to /queries may ask for.
const queriesMax = 500;

Future<void> main() async {
  final port = int.tryParse(variable('PORT') ?? '8080');
  if (port == null || port < 0 || port > 65535) {
    stderr.writeln('PORT is ${Platform.environment['PORT']}, which is not a number from 0 to 65535');
    exitCode = 2;
    return;
  }
  final address = '127.0.0.1:$port';
  final isolates = max(1, int.tryParse(variable('ISOLATES') ?? '') ?? Platform.numberOfProcessors);
  final Demo demo;
  try {
    demo = Demo(address);
  } on CenoteException catch (error) {
    stderr.writeln(error);
    exitCode = 1;
    return;
  }
  final others = <SendPort>[];
  for (var number = 1; number < isolates; number++) {
    others.add(await start('127.0.0.1:${demo.server.port}'));
  }
  stdout.writeln('http://127.0.0.1:${demo.server.port}');
  await Future.any([ProcessSignal.sigint.watch().first, ProcessSignal.sigterm.watch().first]);
  for (final other in others) {
    other.send(null);
  }
  await demo.server.close();
  exit(0);
}

/// Starts another isolate that serves; what stops it.
Future<SendPort> start(String address) async {
  final ready = ReceivePort();
  await Isolate.spawn(serve, (address, ready.sendPort));
  return await ready.first as SendPort;
}

Future<void> serve((String, SendPort) start) async {
  final (address, ready) = start;
  final demo = Demo(address);
  final stop = ReceivePort();
  ready.send(stop.sendPort);
  await stop.first;
  stop.close();
  await demo.server.close();
}

/// An environment variable; an empty one is none.
String? variable(String name) {
  final value = Platform.environment[name];
  return value == null || value.isEmpty ? null : value;
}

/// What each isolate has.
final class Demo {
  Demo(String address)
    : postgres = open('POSTGRES_URL', ['postgres:', 'postgresql:']),
      mysql = open('MYSQL_URL', ['mysql:', 'mariadb:']),
      server = Server.bind(address, shared: true) {
    server
      ..get('/', (_) => const Response.empty())
      ..get('/user/:id', (request) => Response.text(request.parameters['id']!))
      ..post('/user', (_) => const Response.empty())
      ..get('/json', (_) => Response.json({'message': 'Hello, World!'}))
      ..post('/json', (request) => Response.json(request.json()))
      ..get('/users/:id', (request) {
        return Response.json({'id': request.parameters['id'], 'name': request.queryParameters['name'] ?? ''});
      })
      ..get('/db', (_) => one(postgres, postgresLookUp))
      ..get('/queries', (request) => many(postgres, postgresLookUp, request))
      ..get('/mysql/db', (_) => one(mysql, mysqlLookUp))
      ..get('/mysql/queries', (request) => many(mysql, mysqlLookUp, request))
      ..get('/metrics', (_) => metrics());
    for (var number = 1; number <= 100; number++) {
      final name = 'item${'$number'.padLeft(3, '0')}';
      server.get('/r/$name', (_) => Response.text(name));
    }
  }

  static const postgresLookUp = r'select id, randomnumber as "randomNumber" from world where id = $1';
  static const mysqlLookUp = 'select id, randomnumber as randomNumber from world where id = ?';

  final Pool? postgres;
  final Pool? mysql;
  final Server server;
  final Random random = Random();

  static Pool? open(String name, List<String> schemes) {
    var url = variable(name);
    if (url == null) {
      final other = variable('DATABASE_URL');
      if (other != null && schemes.any(other.startsWith)) url = other;
    }
    return url == null ? null : Pool.open(url);
  }

  Future<Row> world(Pool pool, String lookUp) => pool.queryOne(lookUp, parameters: [random.nextInt(rows) + 1]);

  Future<Response> one(Pool? pool, String lookUp) async {
    if (pool == null) return Response.error(503, 'no such database was named');
    try {
      return Response.jsonBytes((await world(pool, lookUp)).toJsonBytes());
    } on CenoteException catch (error) {
      return failed(error);
    }
  }

  /// Each row read after the one before.
  Future<Response> many(Pool? pool, String lookUp, Request request) async {
    if (pool == null) return Response.error(503, 'no such database was named');
    final count = countOf(request.queryParameters['n'] ?? '');
    final body = BytesBuilder(copy: false)..addByte(0x5b);
    try {
      for (var number = 0; number < count; number++) {
        if (number > 0) body.addByte(0x2c);
        body.add((await world(pool, lookUp)).toJsonBytes());
      }
    } on CenoteException catch (error) {
      return failed(error);
    }
    body.addByte(0x5d);
    return Response.jsonBytes(body.takeBytes());
  }

  static Response failed(CenoteException error) => switch (error) {
    CenoteTimeoutException() || NetworkException() => Response.error(503, '$error', headers: {'retry-after': '1'}),
    _ => Response.error(500, '$error'),
  };

  Response metrics() {
    final text = StringBuffer();
    for (final (name, pool) in [('postgres', postgres), ('mysql', mysql)]) {
      if (pool == null) continue;
      final stats = pool.stats;
      text
        ..writeln('cenote_connections{database="$name"} ${stats.connections}')
        ..writeln('cenote_in_flight{database="$name"} ${stats.inFlight}')
        ..writeln('cenote_replies_total{database="$name"} ${stats.replies}')
        ..writeln('cenote_writes_total{database="$name"} ${stats.writes}')
        ..writeln('cenote_reads_total{database="$name"} ${stats.reads}')
        ..writeln('cenote_connects_total{database="$name"} ${stats.connects}')
        ..writeln('cenote_connect_failures_total{database="$name"} ${stats.connectFailures}');
    }
    text.writeln('cenote_isolate_requests_total ${server.requests}');
    return Response.text('$text');
  }
}

/// What is no number counts as 1, and every number as the nearest that is allowed.
int countOf(String n) {
  if (n.isEmpty || n.codeUnits.any((unit) => unit < 0x30 || unit > 0x39)) return 1;
  return (int.tryParse(n) ?? queriesMax).clamp(1, queriesMax);
}
