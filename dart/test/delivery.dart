// How results come back: batches, memory, and who else has his turn.

import 'dart:async';
import 'dart:io';
import 'dart:isolate';
import 'dart:typed_data';

import 'package:cenote/cenote.dart';

import 'harness.dart';
import 'transactions.dart' show collect;

/// Adds the tests.
void addDelivery() {
  test('case 26: ten thousand answers to a blocked isolate, and timers have their turn', () async {
    await withPool(Database.postgres.url(), (pool) async {
      final order = <int>[];
      final all = [
        for (var number = 0; number < 10000; number++)
          pool.queryOne('select 1 as n').then((row) => order.add(row.getInt('n'))),
      ];
      var turns = 0;
      var turnsAtDone = 0;
      // What was asked for leaves at the end of this turn; the next keeps the isolate busy while answers come.
      await Future<void>.delayed(Duration.zero);
      sleep(const Duration(milliseconds: 500));
      final timer = Timer.periodic(Duration.zero, (_) => turns++);
      await Future.wait(all).then((_) => turnsAtDone = turns);
      timer.cancel();
      expect(order.length, 10000);
      expectThat(turnsAtDone >= 2, 'timers had $turnsAtDone turns between batches');
    });
  });

  test('case 23: a hundred thousand small results take no memory with them', () async {
    await withPool(Database.postgres.url(), (pool) async {
      Future<void> some(int count) async {
        for (var round = 0; round < count ~/ 500; round++) {
          await Future.wait([for (var number = 0; number < 500; number++) pool.queryOne('select 1 as n')]);
        }
      }

      await some(20000);
      final blocks = Cenote.counts.blocks;
      final before = ProcessInfo.currentRss;
      await some(80000);
      final grown = ProcessInfo.currentRss - before;
      expectThat(Cenote.counts.blocks <= blocks, 'no result has a block of its own');
      // A leak of one result each would be some 16 MB, of one with its operation 50.
      expectThat(grown < 100 << 20, 'grown by ${grown >> 20} MB');
    });
  });

  test('case 23: large results are freed by the collector', () async {
    await withPool(Database.postgres.url(), (pool) async {
      for (var number = 0; number < 50; number++) {
        final row = await pool.queryOne("select repeat('x', 4000000) as v");
        expect(row.getBytes('v').length, 4000000);
      }
      final held = Cenote.counts.blocks;
      expectThat(held < 45, '$held of 50 large results are there');
      await until(() {
        collect();
        return Cenote.counts.blocks <= 2;
      }, 'all others are freed');
    });
  });

  test('a result outlives its pool', () async {
    late final Result large;
    late final Result small;
    await withPool(Database.postgres.url(), (pool) async {
      large = await pool.query('select n from generate_series(1, 10000) as n');
      small = await pool.query('select 7 as n');
    });
    collect();
    expect((large.length, large.last.getInt('n'), small.first.getInt('n')), (10000, 10000, 7));
    await expectThrows<UnsupportedError>(() => small.clear());
    await expectThrows<RangeError>(() => small[1]);
  });

  test('case 24: a result cannot be sent to another isolate, and what was made of it can', () async {
    await withPool(Database.postgres.url(), (pool) async {
      for (final sql in ['select 1 as n', 'select n from generate_series(1, 10000) as n']) {
        final result = await pool.query(sql);
        final port = ReceivePort();
        await expectThrows<ArgumentError>(() => port.sendPort.send(result));
        await expectThrows<ArgumentError>(() => port.sendPort.send(result.first));
        await expectThrows<ArgumentError>(() => port.sendPort.send(pool));
        port.sendPort.send([result.toMaps(), result.toJsonBytes()]);
        final [Object? maps, Object? json] = (await port.first) as List<Object?>;
        expect((maps as List<Object?>?)?.length, result.length);
        expectThat(json is Uint8List && json.isNotEmpty, 'JSON');
      }
    });
  });

  test('cases 21 and 22: what was freed and what was forgotten, in any order', () async {
    final before = Cenote.counts;
    Future<void> use(int number) async {
      final pool = Pool.open(Database.postgres.url('pool_size=4'));
      final lease = await pool.lease();
      final large = await lease.query('select n from generate_series(1, 5000) as n');
      expect(large.length, 5000);
      if (number.isEven) lease.release();
      if (number % 3 == 0) await pool.close();
      if (number.isOdd) lease.release();
    }

    for (var number = 0; number < 30; number++) {
      await use(number);
      if (number % 10 == 0) collect();
    }
    await until(() {
      collect();
      final now = Cenote.counts;
      return now.pools <= before.pools && now.sessions <= before.sessions && now.blocks <= before.blocks;
    }, 'all is back: $before, ${Cenote.counts}');
  });
}
