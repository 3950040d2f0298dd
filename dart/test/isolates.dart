// Many isolates, one pool; and isolates that end.

import 'dart:async';
import 'dart:io' show sleep;
import 'dart:isolate';

import 'package:cenote/cenote.dart';

import 'harness.dart';

/// How an isolate ends.
enum _End { returns, exits, killed, throws }

typedef _Order = ({String url, String lockSql, String slowSql, _End end, SendPort ready});

/// Adds the tests.
void addIsolates() {
  testAll('case 25: eight isolates share one pool of four connections', (database) async {
    const name = 'pool_size=4&max_lifetime=29min';
    final url = database.url(name);
    await withPool(url, (pool) async {
      await pool.query('select 1');
      var most = 0;
      final sql = 'select id, randomnumber from world where id = ${database.mark(1)}';
      var isDone = false;
      final watch = () async {
        while (!isDone) {
          final now = pool.stats.connections;
          if (now > most) most = now;
          await Future<void>.delayed(const Duration(milliseconds: 1));
        }
      }();
      final sums = await Future.wait([
        for (var number = 0; number < 8; number++) Isolate.run(_asking(url, sql, number)),
      ]);
      isDone = true;
      await watch;
      expect(sums, List<int>.filled(8, 500 * 501 ~/ 2));
      expectThat(most <= 4, '$most connections');
      expectThat(pool.stats.replies >= 4000, 'they are this pool\'s: ${pool.stats.replies} replies');
      // Each has closed its own.
      expect((await pool.queryOne('select 1 as n')).getInt('n'), 1);
    });
  });

  testAll('case 25: an isolate that is busy keeps nobody else waiting', (database) async {
    final url = database.url('pool_size=2&max_lifetime=28min');
    await withPool(url, (pool) async {
      await pool.query('select 1');
      final port = ReceivePort();
      final busy = await Isolate.spawn(_busy, (url, port.sendPort));
      await port.first;
      // It computes for a second, with queries under way.
      final clock = Stopwatch()..start();
      for (var number = 0; number < 100; number++) {
        await pool.query('select 1');
      }
      expectThat(clock.elapsed < const Duration(milliseconds: 900), 'a hundred queries took ${clock.elapsed}');
      busy.kill(priority: Isolate.immediate);
    });
  });

  testAll('case 17: an isolate that ends leaves no lock and nothing of its own', (database) async {
    await withPool(database.url(), (pool) async {
      await withTable(pool, 'id int primary key', (table) async {
        await pool.execute('insert into $table values (1)');
        for (final end in _End.values) {
          await until(() => Cenote.counts.contexts == 1, 'others are gone');
          final before = Cenote.counts;
          final ready = ReceivePort();
          final exited = ReceivePort();
          final failed = ReceivePort();
          final isolate = await Isolate.spawn(
            _dies,
            (
              url: database.url(),
              lockSql: 'select id from $table where id = 1 for update',
              slowSql: database.sleep(0.02),
              end: end,
              ready: ready.sendPort,
            ),
            onExit: exited.sendPort,
            onError: failed.sendPort,
          );
          await ready.first;
          if (end == _End.killed) isolate.kill(priority: Isolate.immediate);
          await exited.first;
          failed.close();
          final clock = Stopwatch()..start();
          await pool.transaction((transaction) => transaction.query('select id from $table where id = 1 for update'));
          final waited = clock.elapsedMilliseconds;
          await until(() {
            final now = Cenote.counts;
            return now.contexts <= before.contexts && now.sessions <= before.sessions && now.pools <= before.pools;
          }, 'counters are back after ${end.name}: $before, ${Cenote.counts}');
          await until(() => pool.stats.leases == 0, 'its connection is back');
          _waits[end] = waited;
        }
        expectThat(_waits.values.every((waited) => waited < 1000), 'the lock is gone within a second, in ms: $_waits');
      });
    });
  });

  test('cases 18, 19 and 20: isolates that die again and again, while others open the same pool', () async {
    final url = Database.postgres.url();
    await withPool(url, (pool) async {
      await until(() => Cenote.counts.contexts == 1, 'others are gone');
      final before = Cenote.counts;
      for (var round = 0; round < 30; round++) {
        final ready = ReceivePort();
        final dying = await Isolate.spawn(_floods, (url, ready.sendPort));
        await ready.first;
        dying.kill(priority: Isolate.immediate);
        // Its successor is there before it is cleaned up.
        expect(await Isolate.run(_oneOf(url)), 1);
      }
      expect((await pool.queryOne('select 1 as n')).getInt('n'), 1);
      await until(() {
        final now = Cenote.counts;
        return now.contexts <= before.contexts && now.pools <= before.pools && now.blocks <= before.blocks;
      }, 'counters are back: $before, ${Cenote.counts}');
    });
  });

  test('case 32: eight isolates begin at the same time', () async {
    final url = Database.postgres.url();
    final ones = await Future.wait([for (var number = 0; number < 8; number++) Isolate.run(_oneOf(url))]);
    expect(ones, List<int>.filled(8, 1));
  });
}

final Map<_End, int> _waits = {};

Future<int> _one(String url) async {
  final pool = Pool.open(url);
  final row = await pool.queryOne('select 1 as n');
  await pool.close();
  return row.getInt('n');
}

// Made out here, so that they hold nothing that cannot be sent.
Future<int> Function() _asking(String url, String sql, int number) =>
    () => _askedFor(url, sql, number);

Future<int> Function() _oneOf(String url) =>
    () => _one(url);

Future<int> _askedFor(String url, String sql, int number) async {
  final pool = Pool.open(url);
  var sum = 0;
  for (var round = 0; round < 10; round++) {
    final rows = await Future.wait([
      for (var id = round * 50 + 1; id <= round * 50 + 50; id++) pool.queryOne(sql, parameters: [id]),
    ]);
    for (final row in rows) {
      sum += row.getInt('id');
    }
  }
  await pool.close();
  return sum;
}

Future<void> _busy((String, SendPort) order) async {
  final (url, ready) = order;
  final pool = Pool.open(url);
  await pool.query('select 1');
  for (var number = 0; number < 20; number++) {
    pool.query('select 1').ignore();
  }
  await Future<void>.delayed(Duration.zero);
  ready.send(null);
  sleep(const Duration(seconds: 1));
}

Future<void> _dies(_Order order) async {
  final pool = Pool.open(order.url);
  final transaction = await pool.begin();
  await transaction.query(order.lockSql);
  for (var number = 0; number < 100; number++) {
    pool.query(order.slowSql).ignore();
  }
  transaction.query(order.slowSql).ignore();
  await Future<void>.delayed(Duration.zero);
  order.ready.send(null);
  switch (order.end) {
    case _End.returns:
      // Queries under way keep an isolate alive; one that ends all the same has to leave as if it were killed.
      Isolate.current.kill(priority: Isolate.beforeNextEvent);
    case _End.exits:
      Isolate.exit();
    case _End.throws:
      Isolate.current.setErrorsFatal(true);
      throw StateError('on purpose');
    case _End.killed:
      await Completer<void>().future;
  }
}

Future<void> _floods((String, SendPort) order) async {
  final (url, ready) = order;
  final pool = Pool.open(url);
  Future<void> flood() async {
    while (true) {
      await pool.query('select n from generate_series(1, 1000) as n');
    }
  }

  for (var number = 0; number < 100; number++) {
    flood().ignore();
  }
  await pool.query('select 1');
  ready.send(null);
}
